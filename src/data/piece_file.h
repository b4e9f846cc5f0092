/* The tokens of one piece, as a file in the folder of an encoding that is in progress. NAME.new is
 * locked by the process or thread that encodes it; the system releases the lock when that ends. */
#ifndef PST_DATA_PIECE_FILE_H
#define PST_DATA_PIECE_FILE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    char magic[8];
    uint64_t key;       /* of the encoding */
    uint64_t tokens;    /* bytes follow from the vocabulary */
    uint64_t documents; /* that end in this piece */
    uint64_t open;      /* tokens after the last of these */
    uint64_t skipped;   /* lines left out */
    uint64_t ended;     /* 1: its file has no later piece */
    uint64_t hash;      /* of tokens and lengths */
} pst_piece_record;

/* A finished piece; *done 0: there is none, or it is damaged (and removed). */
pst_status pst_piece_file_find(const char *path, uint64_t key, uint32_t bytes_per_token, int *done,
                               pst_piece_record *record);
typedef struct pst_piece_writer pst_piece_writer;
/* Begins a piece; *out NULL: another thread or process has begun or finished it. */
pst_status pst_piece_file_claim(const char *path, uint64_t key, uint32_t bytes_per_token,
                                pst_piece_writer **out);
pst_status pst_piece_file_add(pst_piece_writer *w, const int32_t *id, size_t n);
pst_status pst_piece_file_end_document(pst_piece_writer *w);
/* Gives the piece its name, unless `status` is a failure; frees the writer. Returns the first
 * failure. */
pst_status pst_piece_file_finish(pst_piece_writer *w, uint64_t skipped, int ended,
                                 pst_status status);
/* Reads a finished piece again: its lengths of documents, [documents], which the caller frees, and
 * a stream at its tokens. EINPUT: it is damaged. */
pst_status pst_piece_file_open(const char *path, uint64_t key, uint32_t bytes_per_token,
                               pst_piece_record *record, uint64_t **length, FILE **f);
#endif
