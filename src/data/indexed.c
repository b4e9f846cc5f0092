/* Reading Megatron's indexed data set; see indexed.h. The files are mapped: tokens of a corpus that
 * is larger than memory are in the page cache, which the system shares between ranks. */
#include "data/indexed.h"
#include "base/hash.h"
#include "data/indexed_format.h"
#include "data/mapped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pst_indexed {
    pst_mapped idx, bin;
    const uint8_t *length, *place, *border; /* tables in idx, not aligned */
    uint64_t n, n_border;
    uint64_t *first; /* [n + 1] number of the first token of each sequence */
    uint32_t bytes;  /* per token */
    uint8_t type;
    int joined; /* 1: the sequences follow each other in PREFIX.bin without gaps, from its start */
};

static uint64_t u64_at(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static int32_t i32_at(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Bytes of a token; 0: not a type of tokens. */
static uint32_t bytes_of_type(uint8_t type) {
    static const uint8_t bytes[] = {
        [PST_INDEXED_UINT8] = 1,   [PST_INDEXED_INT8] = 1,  [PST_INDEXED_INT16] = 2,
        [PST_INDEXED_INT32] = 4,   [PST_INDEXED_INT64] = 8, [PST_INDEXED_FLOAT64] = 0,
        [PST_INDEXED_FLOAT32] = 0, [PST_INDEXED_UINT16] = 2};
    return type < sizeof bytes ? bytes[type] : 0;
}

static pst_status read_header(pst_indexed *x) {
    const uint8_t *at = x->idx.byte;
    if (x->idx.bytes < PST_INDEXED_HEADER || memcmp(at, PST_INDEXED_MAGIC, PST_INDEXED_MAGIC_BYTES))
        return pst_fail(PST_EINPUT, "not an index of Megatron's indexed data set");
    if (u64_at(at + 9) != PST_INDEXED_VERSION)
        return pst_fail(PST_EINPUT, "version %llu of the format; expected %d",
                        (unsigned long long)u64_at(at + 9), PST_INDEXED_VERSION);
    x->type = at[17];
    x->bytes = bytes_of_type(x->type);
    if (!x->bytes)
        return pst_fail(PST_EINPUT, "type %u is not one of tokens; expected an integer", x->type);
    x->n = u64_at(at + 18);
    x->n_border = u64_at(at + 26);
    uint64_t left = x->idx.bytes - PST_INDEXED_HEADER; /* sizes near 2^64 must not wrap around */
    if (x->n > left / 12 || x->n_border > (left - 12 * x->n) / 8)
        return pst_fail(PST_EINPUT,
                        "the file ends within its tables: it has %llu bytes, too few for %llu "
                        "sequences and %llu borders of documents",
                        (unsigned long long)x->idx.bytes, (unsigned long long)x->n,
                        (unsigned long long)x->n_border);
    x->length = at + PST_INDEXED_HEADER;
    x->place = x->length + 4 * x->n;
    x->border = x->place + 8 * x->n;
    return PST_OK;
}

static pst_status check_sequences(pst_indexed *x) {
    uint64_t at = 0;
    x->joined = 1;
    if (!(x->first = malloc((x->n + 1) * sizeof *x->first)))
        return pst_no_memory("for the index of a data set");
    x->first[0] = 0;
    for (uint64_t i = 0; i < x->n; i++) {
        int64_t length = i32_at(x->length + 4 * i);
        uint64_t place = u64_at(x->place + 8 * i), bytes = (uint64_t)length * x->bytes;
        if (length < 0)
            return pst_fail(PST_EINPUT, "sequence %llu has %lld tokens", (unsigned long long)i,
                            (long long)length);
        if (place > x->bin.bytes || bytes > x->bin.bytes - place)
            return pst_fail(PST_EINPUT,
                            "sequence %llu, %llu bytes at byte %llu, ends beyond the .bin file, "
                            "which has %llu bytes",
                            (unsigned long long)i, (unsigned long long)bytes,
                            (unsigned long long)place, (unsigned long long)x->bin.bytes);
        x->joined &= place == at;
        at += bytes;
        x->first[i + 1] = x->first[i] + (uint64_t)length;
    }
    return PST_OK;
}

static pst_status check_borders(const pst_indexed *x) {
    for (uint64_t i = 0, before = 0; i < x->n_border; i++) {
        uint64_t border = u64_at(x->border + 8 * i);
        if (border > x->n || border < before)
            return pst_fail(PST_EINPUT,
                            "document border %llu is at sequence %llu; expected %llu to %llu",
                            (unsigned long long)i, (unsigned long long)border,
                            (unsigned long long)before, (unsigned long long)x->n);
        before = border;
    }
    return PST_OK;
}

static pst_status open_files(pst_indexed *x, char *idx, const char *bin) {
    PST_TRY(pst_mapped_open(idx, &x->idx));
    PST_TRY(pst_mapped_open(bin, &x->bin));
    pst_status status = read_header(x);
    if (status == PST_OK) status = check_sequences(x);
    if (status == PST_OK) status = check_borders(x);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "%s", idx);
}

pst_status pst_indexed_open(const char *prefix, pst_indexed **out) {
    char *idx = NULL, *bin = NULL;
    pst_indexed *x = calloc(1, sizeof *x);
    if (asprintf(&idx, "%s.idx", prefix) < 0) idx = NULL;
    if (asprintf(&bin, "%s.bin", prefix) < 0) bin = NULL;
    pst_status status = x && idx && bin ? PST_OK : pst_no_memory("for a data set");
    if (status == PST_OK) status = open_files(x, idx, bin);
    free(idx);
    free(bin);
    if (status == PST_OK) *out = x;
    else pst_indexed_close(x);
    return status;
}

void pst_indexed_close(pst_indexed *x) {
    if (!x) return;
    pst_mapped_close(&x->idx);
    pst_mapped_close(&x->bin);
    free(x->first);
    free(x);
}

uint64_t pst_indexed_tokens(const pst_indexed *x) { return x->first[x->n]; }

uint64_t pst_indexed_hash(const pst_indexed *x, uint64_t hash) {
    return pst_mapped_hash(&x->bin, pst_hash64(x->idx.byte, x->idx.bytes, hash));
}

/* The borders begin with 0 and end with n; a file without borders is one document per sequence. */
uint64_t pst_indexed_documents(const pst_indexed *x) {
    return x->n_border ? x->n_border - 1 : x->n;
}

uint64_t pst_indexed_document(const pst_indexed *x, uint64_t i) {
    return x->first[x->n_border ? u64_at(x->border + 8 * i) : i];
}

/* --- tokens ----------------------------------------------------------------------------------- */

static int64_t token_at(const uint8_t *at, uint8_t type) {
    int16_t i16;
    uint16_t u16;
    int64_t i64;
    switch (type) {
    case PST_INDEXED_UINT8: return *at;
    case PST_INDEXED_INT8: return (int8_t)*at;
    case PST_INDEXED_INT16: memcpy(&i16, at, sizeof i16); return i16;
    case PST_INDEXED_UINT16: memcpy(&u16, at, sizeof u16); return u16;
    case PST_INDEXED_INT32: return i32_at(at);
    default: memcpy(&i64, at, sizeof i64); return i64;
    }
}

static pst_status copy(const pst_indexed *x, const uint8_t *at, uint64_t n, int32_t *out) {
    for (uint64_t i = 0; i < n; i++) {
        int64_t token = token_at(at + i * x->bytes, x->type);
        if (token < 0 || token > INT32_MAX)
            return pst_fail(PST_EINPUT, "the token at byte %llu is %lld",
                            (unsigned long long)(at - x->bin.byte + i * x->bytes),
                            (long long)token);
        out[i] = (int32_t)token;
    }
    return PST_OK;
}

/* The last sequence that begins at or before token `at`. */
static uint64_t sequence_of(const pst_indexed *x, uint64_t at) {
    uint64_t low = 0, high = x->n;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (x->first[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

pst_status pst_indexed_read(const pst_indexed *x, uint64_t at, uint64_t n, int32_t *out) {
    uint64_t total = pst_indexed_tokens(x);
    if (at > total || n > total - at)
        return pst_fail(PST_EINTERNAL, "data: read beyond the end of the tokens");
    if (x->joined) return copy(x, x->bin.byte + at * x->bytes, n, out);
    for (uint64_t i = n ? sequence_of(x, at) : 0; n; i++) {
        uint64_t here = x->first[i + 1] - at, take = here < n ? here : n;
        const uint8_t *from =
            x->bin.byte + u64_at(x->place + 8 * i) + (at - x->first[i]) * x->bytes;
        PST_TRY(copy(x, from, take, out));
        out += take;
        at += take;
        n -= take;
    }
    return PST_OK;
}
