/* Files of tokens, read as one long sequence: Megatron's indexed data sets, llm.c's shards, and
 * nanoGPT's files. */
#ifndef PST_DATA_TOKENS_H
#define PST_DATA_TOKENS_H
#include "base/status.h"
#include <stdint.h>

typedef struct pst_tokens pst_tokens;
/* Opens n paths, in order. A path is PREFIX of PREFIX.bin and PREFIX.idx, or one of these two; a
 * shard of llm.c, which has a header; any other file: numbers of 16 bits, as nanoGPT writes them;
 * or a folder or pattern, for the files that it stands for. A pattern may match .bin files, .idx
 * files, both or prefixes: each data set is read once. vocabulary: tokens must be below; 0:
 * any. EINPUT names the path and what is wrong with it. */
pst_status pst_tokens_open(char *const *path, uint32_t n, uint32_t vocabulary, pst_tokens **out);
void pst_tokens_close(pst_tokens *t);
uint64_t pst_tokens_count(const pst_tokens *t);
/* Hash of the files' sizes and contents, not of their names: of each .idx file, and of the others
 * as pst_mapped_hash. */
uint64_t pst_tokens_hash(const pst_tokens *t);
/* Copies tokens [at, at + n). EINPUT: one is not below the vocabulary; names file and place. */
pst_status pst_tokens_read(const pst_tokens *t, uint64_t at, uint64_t n, int32_t *out);

/* What is looked at when files are opened, so that wrong tokens are found before training. */
enum { PST_TOKENS_SEEN = 1 << 22 };
typedef struct {
    uint64_t n; /* tokens that were read */
    int found;  /* 1: the wanted one is among them */
} pst_tokens_seen;
/* Reads up to PST_TOKENS_SEEN tokens: the same number of each file, in blocks spread evenly over
 * it, among them its first and its last. EINPUT as pst_tokens_read. */
pst_status pst_tokens_look(const pst_tokens *t, int32_t wanted, pst_tokens_seen *seen);
/* Number of documents of all indexed data sets; 0: the files are of other formats. */
uint64_t pst_tokens_documents(const pst_tokens *t);
#endif
