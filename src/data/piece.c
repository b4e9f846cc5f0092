/* See piece.h. Places are searched in a window after each multiple of the size of a piece; a window
 * without a place belongs to the piece before it. */
#include "data/piece.h"
#include <string.h>

enum { BLOCK = 1 << 20, WINDOW = 1 << 16 };

typedef struct {
    pst_encoder *e;
    pst_text_piece *p;
    const pst_documents *out;
    pst_text text; /* read, and not yet encoded */
    uint64_t base; /* its place in the file */
    uint64_t next; /* where the next window begins */
    size_t window; /* bytes of one: WINDOW, or a whole piece */
    pst_ids ids;
    int ended; /* 1: the text has been read up to the file's end */
} reading;

static pst_status read_more(reading *r, size_t wanted) {
    size_t got;
    PST_TRY(pst_text_room(&r->text, wanted));
    PST_TRY(pst_text_file_read(r->p->file, r->text.byte + r->text.n, wanted, &got));
    r->text.n += got;
    r->ended = got < wanted;
    return PST_OK;
}

static size_t cut(const reading *r, const char *text, size_t bytes) {
    return pst_tokenizer_cut(pst_encoder_tokenizer(r->e), text, bytes);
}

/* The place in the window that begins at r->next, counted from r->base; 0: none. */
static size_t place_in_window(const reading *r) {
    size_t before = (size_t)(r->next - r->base), n = r->text.n - before;
    size_t found = cut(r, r->text.byte + before, n < r->window ? n : r->window);
    return found ? before + found : 0;
}

static pst_status encode_part(reading *r, size_t n) {
    if (!n) return PST_OK;
    r->ids.n = 0;
    pst_status status = pst_encode(r->e, r->text.byte, n, r->base == 0, &r->ids);
    if (status != PST_OK) return pst_fail_in(status, "%s", r->p->path);
    PST_TRY(r->out->add(r->out->to, r->ids.id, r->ids.n));
    memmove(r->text.byte, r->text.byte + n, r->text.n - n);
    r->text.n -= n;
    r->base += n;
    return PST_OK;
}

/* *begins: 0: the piece is empty. */
static pst_status begin(reading *r, int *begins) {
    *begins = 1;
    PST_TRY(pst_text_file_seek(r->p->file, r->p->from));
    r->base = r->next = r->p->from;
    if (!r->base) {
        r->next = r->p->to;
        return PST_OK;
    }
    PST_TRY(read_more(r, r->window));
    size_t place = place_in_window(r);
    r->p->ended = !r->text.n;
    *begins = place > 0;
    memmove(r->text.byte, r->text.byte + place, r->text.n - place);
    r->text.n -= place;
    r->base += place;
    r->next = r->p->to;
    return PST_OK;
}

/* Reads to the end of the next window at most. */
static pst_status read_block(reading *r) {
    uint64_t at = r->base + r->text.n;
    /* A text that could not be divided doubles, so that looking for a place takes linear time. */
    size_t wanted = r->text.n > BLOCK ? r->text.n : BLOCK;
    if (r->text.n > PST_PART_MOST)
        return pst_fail(PST_EINPUT, "%s: %s", r->p->path, pst_part_too_long);
    if (r->next - at < wanted) wanted = (size_t)(r->next - at) + r->window;
    return read_more(r, wanted);
}

static pst_status encode_all(reading *r) {
    for (;;) {
        if (!r->ended) PST_TRY(read_block(r));
        uint64_t at = r->base + r->text.n;
        if (at > r->next) {
            size_t place = place_in_window(r);
            if (place) return encode_part(r, place);
            r->next += r->p->to - r->p->from;
        } else if (r->ended) {
            break;
        }
        if (!r->ended) PST_TRY(encode_part(r, cut(r, r->text.byte, r->text.n)));
    }
    PST_TRY(encode_part(r, r->text.n));
    r->p->ended = 1;
    return r->out->end(r->out->to);
}

pst_status pst_piece_encode(pst_encoder *e, pst_text_piece *p, const pst_documents *out) {
    reading r = {.e = e, .p = p, .out = out};
    int begins;
    p->ended = 0;
    r.window = p->to - p->from < WINDOW ? (size_t)(p->to - p->from) : WINDOW;
    pst_status status = begin(&r, &begins);
    if (status == PST_OK && begins) status = encode_all(&r);
    pst_text_free(&r.text);
    pst_ids_free(&r.ids);
    return status;
}
