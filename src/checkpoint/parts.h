/* Shared by the files of src/checkpoint (checkpoint.c writes, parse.c and read.c read, print.c
 * shows, folder.c removes), private to them. */
#ifndef PST_CHECKPOINT_PARTS_H
#define PST_CHECKPOINT_PARTS_H
#include "checkpoint/checkpoint.h"
#include <jansson.h>

#define PST_CKPT_FORMAT "penstock checkpoint"
/* Prefix of the metadata key under which a shard stores the hash of a tensor: "xxh3:NAME". */
#define PST_CKPT_HASH_KEY "xxh3:"
enum { PST_CKPT_MAX_INDEX = 256 << 20 };

/* "folder/name"; NULL: no memory, with the error set. The caller frees the path. */
char *pst_ckpt_join(const char *folder, const char *name);
/* EINPUT if the folder has a file of this name, which only --force replaces. */
pst_status pst_ckpt_check_new(const char *folder, const char *name);
/* "folder/step-00000100" or, if temporary, "folder/.tmp-step-00000100". NULL: no memory, with the
 * error set. The caller frees the path. */
char *pst_ckpt_folder(const char *folder, uint64_t step, int temporary);
/* "rank-K-of-N.safetensors" in `out`. */
void pst_ckpt_shard_name(char out[64], uint32_t rank, uint32_t ranks);
/* Removes temporary folders of steps up to `last`. */
void pst_ckpt_clean_until(const char *folder, uint64_t last);
/* "0=0+384,768+384,1536+384": of dimension 0, 384 elements from index 0, 384 from 768 and 384 from
 * 1536; "" for a whole tensor. parse: the reverse; returns 0 if the text is not a slice of the
 * tensor `of`. */
void pst_ckpt_slice_text(const pst_slice *slice, char out[PST_CKPT_SLICE]);
int pst_ckpt_slice_parse(const char *text, const pst_ckpt_tensor *of, pst_slice *slice);
/* Returns a parameter with the shape and slice of this part of the tensor. */
pst_param pst_ckpt_held(const pst_ckpt_tensor *t, const pst_slice *slice);
/* in: the elements of `part`, which is a slice. Copies the elements within [from, to) of the tensor
 * to out, which begins at element `from`. */
void pst_ckpt_put_slice(const pst_ckpt_tensor *t, const pst_ckpt_part *part, const float *in,
                        float *out, uint64_t from, uint64_t to);
/* Opens the shards of a parsed index with a path, and checks their headers. */
pst_status pst_ckpt_open_shards(pst_ckpt *c);
/* The index of a checkpoint in memory, whose files are in the folder PST_CKPT_DESCRIPTORS: the
 * text, which the caller frees. EINTERNAL: tensors of `graph` are missing. */
#define PST_CKPT_DESCRIPTORS "/proc/self/fd"
pst_status pst_ckpt_index_of(const pst_ckpt_memory *m, const pst_ckpt_info *info,
                             const char *config, const pst_graph *graph, char **text);
/* Reads a whole small file and adds a zero byte; EINPUT if it cannot be read or is larger than
 * `limit`. The caller frees. */
pst_status pst_ckpt_text(const char *path, size_t limit, char **text, size_t *bytes);
static inline int pst_ckpt_whole(const pst_ckpt_tensor *tensor) {
    return tensor->n_part == 1 && tensor->part->slice.held == PST_HELD_WHOLE;
}
/* tokenizer.c. Copies the tokenizer of the run with the folder `checkpoints`, if it has one, to the
 * checkpoint `temporary`. */
pst_status pst_ckpt_tokenizer_of_run(const char *checkpoints, const char *temporary);
/* EINPUT if the folder has one of the files that pst_ckpt_tokenizer_copy would write. */
pst_status pst_ckpt_tokenizer_check_new(const pst_tokenizer *t, const char *folder);
/* Compares two pst_ckpt_tensor, for qsort. */
int pst_ckpt_by_name(const void *a, const void *b);
/* Parses the index only: path, run file and shards are not set. *config_hash: the expected hash of
 * run.yaml. The message of EINPUT gives the place in the file. */
pst_status pst_ckpt_index_parse(const char *text, size_t bytes, const char *file, pst_ckpt **ckpt,
                                uint64_t *config_hash);
/* An index contains the hash of its own text, computed with zeros in place of the 16 digits.
 * *digits: position of the digits in the text; *hash: the computed hash. EINPUT: the text has no
 * such digits. */
pst_status pst_ckpt_index_hash(const char *text, size_t bytes, size_t *digits, uint64_t *hash);
#endif
