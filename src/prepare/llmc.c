/* See llmc.h. */
#include "prepare/llmc.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Places of numbers in the header. */
enum { MAGIC, VERSION, CONTEXT, VOCABULARY, LAYERS, HEADS, CHANNELS, ROWS, N_NUMBER };
enum { TOKENS = 20240520, TOKENS_OF_LLAMA = 20240801 }; /* magic numbers of files of tokens */
enum { ZIP = 0x04034b50 };                              /* torch.save writes zip files */
/* With these limits no number of bytes overflows. */
enum { MOST_LAYERS = 10000, MOST_CHANNELS = 1 << 20, MOST_ROWS = 1 << 26 };
#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

int pst_llmc_is(const char *path) {
    const size_t n = strlen(path);
    struct stat st;
    if (n <= 4 || strcasecmp(path + n - 4, ".bin") != 0) return 0;
    return stat(path, &st) != 0 || !S_ISDIR(st.st_mode);
}

uint64_t pst_llmc_elements(const pst_llmc *h) {
    const uint64_t C = h->channels;
    return (h->rows + (uint64_t)h->context) * C + h->layers * (12 * C * C + 13 * C) + 2 * C;
}

static pst_status check_magic(const uint32_t number[N_NUMBER], const char *file) {
    if (number[MAGIC] == TOKENS || number[MAGIC] == TOKENS_OF_LLAMA)
        return BAD("%s has tokens for data.paths, not weights", file);
    if (number[MAGIC] == ZIP)
        return BAD(
            "%s is a file of torch.save; files .bin are read as checkpoints of llm.c, others "
            "as safetensors",
            file);
    if (number[MAGIC] != PST_LLMC_MAGIC)
        return BAD("%s is no GPT-2 checkpoint of llm.c: it begins with %u, not %d", file,
                   number[MAGIC], PST_LLMC_MAGIC);
    if (number[VERSION] != PST_LLMC_F32 && number[VERSION] != PST_LLMC_BF16)
        return BAD("%s is a checkpoint of version %u; expected 3 (fp32) or 5 (bf16)", file,
                   number[VERSION]);
    return PST_OK;
}

static pst_status check_size(const char *file, const char *what, uint32_t value, uint32_t most) {
    if (value && value <= most) return PST_OK;
    return BAD("%s: %s is %u; expected 1 to %u", file, what, value, most);
}

pst_status pst_llmc_parse(const uint8_t *header, size_t n, uint64_t bytes, const char *file,
                          pst_llmc *out) {
    uint32_t number[N_NUMBER];
    if (n < PST_LLMC_HEADER)
        return BAD("%s is no GPT-2 checkpoint of llm.c: it has only %zu bytes", file, n);
    for (int i = 0; i < N_NUMBER; i++) {
        const uint8_t *at = header + (size_t)4 * i;
        number[i] = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
    PST_TRY(check_magic(number, file));
    const pst_llmc h = {.context = number[CONTEXT],
                        .vocabulary = number[VOCABULARY],
                        .layers = number[LAYERS],
                        .heads = number[HEADS],
                        .channels = number[CHANNELS],
                        .rows = number[ROWS],
                        .type = number[VERSION] == PST_LLMC_F32 ? PST_F32 : PST_BF16};
    PST_TRY(check_size(file, "max_seq_len", h.context, MOST_ROWS));
    PST_TRY(check_size(file, "padded_vocab_size", h.rows, MOST_ROWS));
    PST_TRY(check_size(file, "vocab_size", h.vocabulary, h.rows));
    PST_TRY(check_size(file, "num_layers", h.layers, MOST_LAYERS));
    PST_TRY(check_size(file, "channels", h.channels, MOST_CHANNELS));
    PST_TRY(check_size(file, "num_heads", h.heads, h.channels));
    if (h.channels % h.heads)
        return BAD("%s: num_heads %u does not divide channels %u", file, h.heads, h.channels);
    const uint64_t expected = PST_LLMC_HEADER + pst_llmc_elements(&h) * pst_dtype_bytes(h.type);
    if (bytes != expected)
        return BAD("%s has %" PRIu64 " bytes, but %" PRIu64 " by its header", file, bytes,
                   expected);
    *out = h;
    return PST_OK;
}

pst_status pst_llmc_read(const char *path, pst_llmc *out) {
    uint8_t header[PST_LLMC_HEADER];
    struct stat st;
    FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &st) != 0) {
        pst_status status = pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
        if (f) fclose(f);
        return status;
    }
    const size_t n = fread(header, 1, sizeof header, f);
    fclose(f);
    return pst_llmc_parse(header, n, (uint64_t)st.st_size, path, out);
}

pst_status pst_llmc_config(const char *path, pst_model_config *config) {
    pst_llmc h;
    PST_TRY(pst_llmc_read(path, &h));
    *config = (pst_model_config){.kind = "gpt",
                                 .layers = h.layers,
                                 .heads = h.heads,
                                 .channels = h.channels,
                                 .context = h.context,
                                 .vocabulary = h.vocabulary,
                                 .activation = PST_ACT_GELU_TANH};
    return PST_OK;
}
