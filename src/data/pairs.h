/* Pairs of segments for the prediction of the next sentence (Devlin et al. 2019, A.2): segment B
 * follows segment A in its document, or is from another document; both are equally likely. */
#ifndef PST_DATA_PAIRS_H
#define PST_DATA_PAIRS_H
#include "data/data.h"
#include "data/indexed.h"

typedef struct {
    const pst_indexed *tokens; /* must stay open */
    /* 1: each document of `tokens` is a line of text, which no segment divides, and an empty one is
     * a border between documents; 0: documents are whole, and segments begin anywhere */
    int lines;
    int32_t end;   /* token after each whole document, which is not part of it; -1: none */
    uint32_t room; /* tokens of both segments together, at least 2 */
    uint64_t seed;
} pst_segment_pairs_options;

typedef struct pst_segment_pairs pst_segment_pairs;
/* Divides all documents into stretches that fill a sample. ENOMEM. */
pst_status pst_segment_pairs_open(const pst_segment_pairs_options *options,
                                  pst_segment_pairs **out);
void pst_segment_pairs_close(pst_segment_pairs *p);
/* Number of samples: of an epoch over all text. */
uint64_t pst_segment_pairs_count(const pst_segment_pairs *p);
/* The first `train` samples are the training split. Tokens of a split. */
/* Number of documents of the training split, and of all text. */
uint64_t pst_segment_pairs_documents(const pst_segment_pairs *p, int all);
void pst_segment_pairs_split(pst_segment_pairs *p, uint64_t train);
uint64_t pst_segment_pairs_tokens(const pst_segment_pairs *p, pst_split split);

/* A sample: n[0] tokens of A, then n[1] of B, at most `room` together. follows: 1: B follows A. */
typedef struct {
    uint32_t n[2];
    int follows;
} pst_segment_pair;
/* Sample `index` of a split, as in pst_data_row; tokens: [room]. May be called by several threads.
 */
pst_status pst_segment_pairs_read(const pst_segment_pairs *p, pst_split split, uint64_t index,
                                  pst_segment_pair *pair, int32_t *tokens);
#endif
