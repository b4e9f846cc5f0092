/* See stream.h. */
#include "tokenizer/stream.h"
#include "tokenizer/parts.h"
#include "tokenizer/text_file.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20 };

const char pst_part_too_long[] =
    "128 MiB of text without a place at which it can be divided: no end of a word is known, or the "
    "same tokens could begin and end anywhere";

typedef struct {
    const char *path;
    pst_text_file *file;
    pst_part_cut cut;
    pst_part_sink sink;
    void *what;
    pst_text text;  /* read, and not yet taken */
    uint64_t bytes; /* read so far */
} reading;

/* Appends the next block; *got: its bytes, 0: the file has ended. */
static pst_status read_block(reading *r, size_t *got) {
    /* A text that could not be divided doubles, so that looking for a place takes linear time. */
    size_t wanted = r->text.n > BLOCK ? r->text.n : BLOCK;
    if (r->text.n > PST_PART_MOST)
        return pst_fail(PST_EINPUT, "%s: %s", r->path, pst_part_too_long);
    PST_TRY(pst_text_room(&r->text, wanted));
    PST_TRY(pst_text_file_read(r->file, r->text.byte + r->text.n, wanted, got));
    r->text.n += *got;
    r->bytes += *got;
    return PST_OK;
}

static pst_status read_all(reading *r) {
    size_t got;
    int first = 1;
    for (;;) {
        PST_TRY(read_block(r, &got));
        size_t part = got ? r->cut(r->what, r->text.byte, r->text.n) : r->text.n;
        if (part) {
            pst_status status = r->sink(r->what, r->text.byte, part, first);
            if (status != PST_OK) return pst_fail_in(status, "%s", r->path);
            memmove(r->text.byte, r->text.byte + part, r->text.n - part);
            r->text.n -= part;
            first = 0;
        }
        if (!got) return PST_OK;
    }
}

pst_status pst_read_parts(const char *path, pst_part_cut cut, pst_part_sink sink, void *what,
                          uint64_t *bytes) {
    reading r = {.path = path, .cut = cut, .sink = sink, .what = what};
    PST_TRY(pst_text_file_open(path, &r.file));
    pst_status status = read_all(&r);
    pst_text_file_close(r.file);
    pst_text_free(&r.text);
    *bytes = r.bytes;
    return status;
}

typedef struct {
    pst_encoder *e;
    pst_ids ids;
    pst_ids_sink sink;
    void *to;
} encoding;

static size_t cut_for(const void *what, const char *text, size_t bytes) {
    return pst_tokenizer_cut(((const encoding *)what)->e->t, text, bytes);
}

static pst_status encode_part(void *what, const char *text, size_t bytes, int first) {
    encoding *x = what;
    x->ids.n = 0;
    PST_TRY(pst_encode(x->e, text, bytes, first, &x->ids));
    return x->sink(x->to, x->ids.id, x->ids.n);
}

pst_status pst_encode_file(pst_encoder *e, const char *path, pst_ids_sink sink, void *to,
                           uint64_t *bytes) {
    encoding x = {.e = e, .sink = sink, .to = to};
    pst_status status = pst_read_parts(path, cut_for, encode_part, &x, bytes);
    pst_ids_free(&x.ids);
    return status;
}
