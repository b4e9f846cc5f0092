/* The text of a sequence while it grows: found stop strings end it, and what may be the beginning
 * of one is held back. */
#ifndef PST_GENERATE_WRITER_H
#define PST_GENERATE_WRITER_H
#include "tokenizer/tokenizer.h"
#include <stdio.h>

typedef struct {
    const pst_tokenizer *tokenizer;
    const char *const *stop; /* [n_stop], borrowed */
    size_t n_stop;
    FILE *out;     /* where text is written as soon as it is certain; NULL: nowhere */
    pst_text text; /* what has been generated, up to a stop string; a zero follows it */
    size_t written;
    const char *stopped; /* the stop string that was found; NULL: none yet */
} pst_writer;

/* Appends a token's text; first: 1: the token begins a text. EINPUT: there is no such token;
 * ENOMEM, also if `out` cannot be written. */
pst_status pst_writer_add(pst_writer *w, int32_t token, int first);
/* Writes what was held back. */
pst_status pst_writer_end(pst_writer *w);
void pst_writer_close(pst_writer *w);
#endif
