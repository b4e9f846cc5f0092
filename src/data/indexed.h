/* Megatron's indexed data set: PREFIX.bin, tokens one after another, and PREFIX.idx, where its
 * sequences and documents are. Both are mapped into memory; format: docs/formats.md. */
#ifndef PST_DATA_INDEXED_H
#define PST_DATA_INDEXED_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct pst_indexed pst_indexed;
/* Opens PREFIX.idx and PREFIX.bin. EINPUT names the file and what is wrong with it: it is
 * truncated, or a sequence lies outside of PREFIX.bin. */
pst_status pst_indexed_open(const char *prefix, pst_indexed **out);
void pst_indexed_close(pst_indexed *x);
/* All sequences one after another. */
uint64_t pst_indexed_tokens(const pst_indexed *x);
uint64_t pst_indexed_documents(const pst_indexed *x);
/* Continues `hash` with the index, and with PREFIX.bin as pst_mapped_hash. */
uint64_t pst_indexed_hash(const pst_indexed *x, uint64_t hash);
/* Copies tokens [at, at + n). EINPUT: a token is negative or needs more than 31 bits. */
pst_status pst_indexed_read(const pst_indexed *x, uint64_t at, uint64_t n, int32_t *out);
/* The number of the first token of document i; i = number of documents gives the end. */
uint64_t pst_indexed_document(const pst_indexed *x, uint64_t i);

typedef struct pst_indexed_writer pst_indexed_writer;
/* Begins PREFIX.bin.new; vocabulary: the largest token + 1, from which the bytes per token
 * follow (2 below 65500, as Megatron, else 4). */
pst_status pst_indexed_create(const char *prefix, uint32_t vocabulary, pst_indexed_writer **out);
/* Appends tokens to the document. */
pst_status pst_indexed_add(pst_indexed_writer *w, const int32_t *token, size_t n);
/* Ends the document, which is one sequence. EINPUT: it has more than 2^31 - 1 tokens. */
pst_status pst_indexed_end(pst_indexed_writer *w);
/* 2 or 4: what pst_indexed_create chooses. */
uint32_t pst_indexed_bytes(uint32_t vocabulary);
/* Appends n tokens as they are in a file of the same bytes per token, to the document. */
pst_status pst_indexed_copy(pst_indexed_writer *w, FILE *from, uint64_t n);
/* Ends a document `tokens` after the end of the last one. EINPUT as above. */
pst_status pst_indexed_end_at(pst_indexed_writer *w, uint64_t tokens);
/* Writes PREFIX.idx and gives both files their names, unless `status` is a failure; frees the
 * writer. Returns the first failure. */
pst_status pst_indexed_finish(pst_indexed_writer *w, pst_status status);
#endif
