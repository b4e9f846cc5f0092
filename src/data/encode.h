/* Files encoded as an indexed data set, by all threads and processes that ask for it at the same
 * time. Each takes the next piece of 16 MiB of text; finished pieces are kept in the folder
 * PREFIX.parts until all are there, so an interrupted encoding continues. The result does not
 * depend on who encoded which piece. */
#ifndef PST_DATA_ENCODE_H
#define PST_DATA_ENCODE_H
#include "data/files.h"
#include "data/json_lines.h"

/* How files become documents. */
typedef struct {
    const char *name; /* part of the key; "": as pst_encode_as_files */
    /* Of each line of a file that is no JSON Lines or, if `all` is 1, of any file; NULL: such a
     * file is one document. */
    const pst_line_form *line;
    int all;
    /* In the cache (data/cache.h): the text of a special token becomes that token; the tokenizer's
     * token that ends a document follows each one, if there is one. */
    int special, ends;
    uint32_t scale;      /* numbers in the data set are below the tokenizer's size times this */
    const char *lacking; /* what lines that are left out lack; NULL: text in the field */
} pst_encode_form;
/* A file is a document; JSON Lines have one in each line. */
extern const pst_encode_form pst_encode_as_files;
/* The same for lines that are not blank; their ends are not marked. */
extern const pst_encode_form pst_encode_as_lines;
/* The same; an empty document stands for each blank line, and before each file. */
extern const pst_encode_form pst_encode_as_sentences;

typedef struct {
    const pst_tokenizer *tokenizer;
    const pst_file_list *files;
    const pst_encode_form *form;
    int special;          /* as pst_encoder_open */
    int32_t end;          /* token after each document; -1: none */
    pst_json_lines lines; /* field NULL or "": JSON Lines are text like any other */
    const char *prefix;   /* of PREFIX.bin and PREFIX.idx */
    uint64_t key;         /* pst_encode_key */
    uint64_t piece;       /* bytes of text of a piece; 0: 16 MiB */
    uint32_t threads;     /* 0: this process's share of the host's processors */
    int keep;             /* 1: EINPUT if it would replace PREFIX.bin or PREFIX.idx */
    /* May be NULL. exists: 1: another process has completed the data set. complete: called once,
     * when it is complete, by the process that has joined the pieces. */
    int (*exists)(void *what);
    pst_status (*complete)(void *what, uint64_t skipped);
    void *what;
} pst_encode_options;

/* Hash of all that decides the result: contents of the files, tokenizer, options. */
pst_status pst_encode_key(const pst_encode_options *o, uint64_t *key);
/* Encodes what is not yet encoded. EINPUT: a file cannot be read, or has changed meanwhile; EPEER:
 * another process that encodes a piece hangs; BUSY: a signal asked to stop, and
 * pst_encode_signal() tells which one. Without a handler for it, the process ends by the signal
 * instead. Main thread only. */
pst_status pst_encode_files(const pst_encode_options *o);
int pst_encode_signal(void);
/* Ranks of this host that encode together, for the number of threads; shows: 1: this process prints
 * the progress and warnings. Default: 1, 1. */
void pst_encode_set_ranks(uint32_t here, int shows);
int pst_encode_shows(void);
#endif
