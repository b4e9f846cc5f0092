/* See writer.h. */
#include "generate/writer.h"
#include <errno.h>
#include <string.h>

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Ends the text at the first stop string that begins at `from` or later. */
static void find_stop(pst_writer *w, size_t from) {
    const char *first = NULL;
    for (size_t i = 0; i < w->n_stop; i++) {
        const size_t n = strlen(w->stop[i]);
        const char *at = memmem(w->text.byte + from, w->text.n - from, w->stop[i], n);
        if (!at || (first && at >= first)) continue;
        first = at;
        w->stopped = w->stop[i];
    }
    if (first) w->text.n = (size_t)(first - w->text.byte);
}

/* Bytes at the end of the text with which a stop string may begin. */
static size_t held_back(const pst_writer *w) {
    size_t held = 0;
    for (size_t i = 0; i < w->n_stop; i++)
        for (size_t n = least(strlen(w->stop[i]) - 1, w->text.n); n > held; n--)
            if (!memcmp(w->text.byte + w->text.n - n, w->stop[i], n)) held = n;
    return held;
}

static pst_status write_to(pst_writer *w, size_t end) {
    const size_t n = end > w->written ? end - w->written : 0;
    if (!w->out || !n) return PST_OK;
    if (fwrite(w->text.byte + w->written, 1, n, w->out) != n || fflush(w->out) != 0)
        return pst_fail(PST_ENOMEM, "cannot write the text: %s", strerror(errno));
    w->written = end;
    return PST_OK;
}

pst_status pst_writer_add(pst_writer *w, int32_t token, int first) {
    size_t longest = 0;
    for (size_t i = 0; i < w->n_stop; i++)
        if (strlen(w->stop[i]) > longest) longest = strlen(w->stop[i]);
    const size_t from = w->text.n > longest ? w->text.n - longest : 0;
    PST_TRY(pst_tokenizer_decode(w->tokenizer, &token, 1, first, &w->text));
    if (w->n_stop && w->text.n) find_stop(w, from);
    PST_TRY(pst_text_room(&w->text, 0));
    w->text.byte[w->text.n] = 0;
    return write_to(w, w->stopped ? w->text.n : w->text.n - held_back(w));
}

pst_status pst_writer_end(pst_writer *w) { return write_to(w, w->text.n); }

void pst_writer_close(pst_writer *w) { pst_text_free(&w->text); }
