/* See gguf.h. */
#include "checkpoint/gguf.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };
/* Types of values, and of tensors, as numbers in the file. */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9 };
enum { TENSOR_F32 = 0, TENSOR_F16 = 1, TENSOR_BF16 = 30 };

struct pst_gguf {
    pst_status status; /* of the first addition that failed */
    pst_text pairs, tensors;
    uint64_t n_pair, n_tensor;
    uint64_t declared, written; /* bytes of tensors, with the gaps between them */
    FILE *out;
};

static uint64_t aligned(uint64_t bytes) {
    return (bytes + PST_GGUF_ALIGN - 1) / PST_GGUF_ALIGN * PST_GGUF_ALIGN;
}

pst_status pst_gguf_open(pst_gguf **out) {
    pst_gguf *g = calloc(1, sizeof *g);
    if (!g) return pst_no_memory("for a GGUF file");
    *out = g;
    return PST_OK;
}

void pst_gguf_close(pst_gguf *g) {
    if (!g) return;
    pst_text_free(&g->pairs);
    pst_text_free(&g->tensors);
    free(g);
}

/* --- numbers and texts ------------------------------------------------------------------------ */

static void put(pst_gguf *g, pst_text *to, const void *bytes, size_t n) {
    if (g->status == PST_OK) g->status = pst_text_add(to, bytes, n);
}

/* The lowest `bytes` bytes, little endian. */
static void put_number(pst_gguf *g, pst_text *to, uint64_t value, uint32_t bytes) {
    uint8_t out[8];
    for (uint32_t i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
    put(g, to, out, bytes);
}

static void put_text(pst_gguf *g, pst_text *to, const char *text) {
    const size_t n = strlen(text);
    put_number(g, to, n, 8);
    put(g, to, text, n);
}

static void put_key(pst_gguf *g, const char *key, uint32_t type) {
    g->n_pair++;
    put_text(g, &g->pairs, key);
    put_number(g, &g->pairs, type, 4);
}

static void put_array(pst_gguf *g, const char *key, uint32_t type, uint64_t n) {
    put_key(g, key, ARRAY);
    put_number(g, &g->pairs, type, 4);
    put_number(g, &g->pairs, n, 8);
}

void pst_gguf_u32(pst_gguf *g, const char *key, uint32_t value) {
    put_key(g, key, U32);
    put_number(g, &g->pairs, value, 4);
}

static void put_float(pst_gguf *g, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(g, &g->pairs, bits, 4);
}

void pst_gguf_f32(pst_gguf *g, const char *key, float value) {
    put_key(g, key, F32);
    put_float(g, value);
}

void pst_gguf_f32s(pst_gguf *g, const char *key, const float *value, uint64_t n) {
    put_array(g, key, F32, n);
    for (uint64_t i = 0; i < n; i++) put_float(g, value[i]);
}

void pst_gguf_bool(pst_gguf *g, const char *key, int value) {
    put_key(g, key, BOOL);
    put_number(g, &g->pairs, value != 0, 1);
}

void pst_gguf_text(pst_gguf *g, const char *key, const char *value) {
    put_key(g, key, TEXT);
    put_text(g, &g->pairs, value);
}

void pst_gguf_texts(pst_gguf *g, const char *key, const char *const *value, uint64_t n) {
    put_array(g, key, TEXT, n);
    for (uint64_t i = 0; i < n; i++) put_text(g, &g->pairs, value[i]);
}

void pst_gguf_i32s(pst_gguf *g, const char *key, const int32_t *value, uint64_t n) {
    put_array(g, key, I32, n);
    for (uint64_t i = 0; i < n; i++) put_number(g, &g->pairs, (uint32_t)value[i], 4);
}

/* --- tensors ---------------------------------------------------------------------------------- */

void pst_gguf_tensor(pst_gguf *g, const char *name, pst_dtype dtype, uint32_t n_dim,
                     const uint64_t *dim) {
    uint64_t bytes = pst_dtype_bytes(dtype);
    uint32_t type = TENSOR_F32;
    if (dtype == PST_F16) type = TENSOR_F16;
    if (dtype == PST_BF16) type = TENSOR_BF16;
    put_text(g, &g->tensors, name);
    put_number(g, &g->tensors, n_dim, 4);
    for (uint32_t i = n_dim; i-- > 0;) {
        put_number(g, &g->tensors, dim[i], 8);
        bytes *= dim[i];
    }
    put_number(g, &g->tensors, type, 4);
    put_number(g, &g->tensors, g->declared, 8);
    g->n_tensor++;
    g->declared += aligned(bytes);
}

/* A failure of the stream is noticed when it is closed. */
static void write_aligned(pst_gguf *g, const void *data, uint64_t bytes) {
    static const uint8_t zeros[PST_GGUF_ALIGN];
    fwrite(data, 1, bytes, g->out);
    fwrite(zeros, 1, aligned(bytes) - bytes, g->out);
}

pst_status pst_gguf_begin(pst_gguf *g, FILE *out) {
    pst_text head = {0};
    g->out = out;
    put(g, &head, "GGUF", 4);
    put_number(g, &head, VERSION, 4);
    put_number(g, &head, g->n_tensor, 8);
    put_number(g, &head, g->n_pair, 8);
    put(g, &head, g->pairs.byte, g->pairs.n);
    put(g, &head, g->tensors.byte, g->tensors.n);
    if (g->status == PST_OK) write_aligned(g, head.byte, head.n);
    pst_text_free(&head);
    return g->status;
}

void pst_gguf_write(pst_gguf *g, const void *data, uint64_t bytes) {
    write_aligned(g, data, bytes);
    g->written += aligned(bytes);
}

pst_status pst_gguf_end(const pst_gguf *g) {
    if (g->written == g->declared) return PST_OK;
    return pst_fail(PST_EINTERNAL, "GGUF: %llu bytes were written, but %llu bytes were declared",
                    (unsigned long long)g->written, (unsigned long long)g->declared);
}
