/* The header of GPT-2 checkpoints of llm.c (gpt2_124M.bin): 256 numbers of 4 bytes, little endian.
 * Files are not trusted. */
#ifndef PST_PREPARE_LLMC_H
#define PST_PREPARE_LLMC_H
#include "models/model.h"

/* Bytes of the header; magic number; versions with weights in fp32 and bf16; the rows of the
 * embedding are padded to a multiple. */
enum {
    PST_LLMC_HEADER = 1024,
    PST_LLMC_MAGIC = 20240326,
    PST_LLMC_F32 = 3,
    PST_LLMC_BF16 = 5,
    PST_LLMC_PADDED = 128
};
typedef struct {
    uint32_t context, vocabulary, layers, heads, channels;
    uint32_t rows; /* of the embedding, with the padding */
    pst_dtype type;
} pst_llmc;

/* 1 if the name ends in .bin, and it is no folder. */
int pst_llmc_is(const char *path);
/* header: the first n bytes of a file of `bytes` bytes; `file` is a name for messages. EINPUT: not
 * such a file, of another version, or its size is not that of its tensors. */
pst_status pst_llmc_parse(const uint8_t *header, size_t n, uint64_t bytes, const char *file,
                          pst_llmc *out);
/* Reads the header of a file. */
pst_status pst_llmc_read(const char *path, pst_llmc *out);
/* Elements of all tensors. */
uint64_t pst_llmc_elements(const pst_llmc *h);
/* The sizes as those of a model of kind gpt. */
pst_status pst_llmc_config(const char *path, pst_model_config *config);
#endif
