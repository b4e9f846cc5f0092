/* A part of a file that is encoded independently of its other parts. Which part is piece i depends
 * on the text only, so any process may encode it, and the pieces together are the whole. */
#ifndef PST_DATA_PIECE_H
#define PST_DATA_PIECE_H
#include "tokenizer/stream.h"
#include "tokenizer/text_file.h"

/* Takes the ids of a document, and its end. */
typedef struct {
    pst_ids_sink add;
    pst_status (*end)(void *to);
    void *to;
} pst_documents;
typedef struct {
    const char *path;    /* for messages */
    pst_text_file *file; /* read from any place */
    /* A piece begins at the first place from byte `from` on at which the text can be divided, or
     * the first line that begins there, and ends at the first one from byte `to` on. from 0, to
     * UINT64_MAX: the whole file. */
    uint64_t from, to;
    int ended;        /* results: 1: the file has no later piece */
    uint64_t skipped; /* lines of JSON that were left out */
} pst_text_piece;

/* Encodes a piece of a file that is one document. */
pst_status pst_piece_encode(pst_encoder *e, pst_text_piece *p, const pst_documents *out);
#endif
