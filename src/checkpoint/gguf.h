/* GGUF files, version 3: pairs of keys and values, then tensors, each at a multiple of 32 bytes.
 * For writing only. Add all pairs and declare all tensors, begin, write the tensors' bytes in the
 * same order, end. */
#ifndef PST_CHECKPOINT_GGUF_H
#define PST_CHECKPOINT_GGUF_H
#include "base/dtype.h"
#include "base/status.h"
#include <stdint.h>
#include <stdio.h>

enum { PST_GGUF_ALIGN = 32 };
typedef struct pst_gguf pst_gguf;
pst_status pst_gguf_open(pst_gguf **out);
/* NULL does nothing. */
void pst_gguf_close(pst_gguf *g);
/* Missing memory is reported by pst_gguf_begin. */
void pst_gguf_u32(pst_gguf *g, const char *key, uint32_t value);
void pst_gguf_f32(pst_gguf *g, const char *key, float value);
void pst_gguf_bool(pst_gguf *g, const char *key, int value);
void pst_gguf_text(pst_gguf *g, const char *key, const char *value);
void pst_gguf_texts(pst_gguf *g, const char *key, const char *const *value, uint64_t n);
void pst_gguf_i32s(pst_gguf *g, const char *key, const int32_t *value, uint64_t n);
void pst_gguf_f32s(pst_gguf *g, const char *key, const float *value, uint64_t n);
/* dtype: PST_F32, PST_F16 or PST_BF16. dim: the slowest first, as in our graphs (the file has the
 * fastest first). */
void pst_gguf_tensor(pst_gguf *g, const char *name, pst_dtype dtype, uint32_t n_dim,
                     const uint64_t *dim);
/* Writes all that precedes the tensors. ENOMEM: no memory. Who closes the stream notices its
 * failures. */
pst_status pst_gguf_begin(pst_gguf *g, FILE *out);
/* Writes the bytes of the next tensor. */
void pst_gguf_write(pst_gguf *g, const void *data, uint64_t bytes);
/* EINTERNAL: more or fewer bytes were written than declared. */
pst_status pst_gguf_end(const pst_gguf *g);
#endif
