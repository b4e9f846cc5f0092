/* Checkpoints: a folder <run>/checkpoints/step-00000100/ with one rank-K-of-N.safetensors per
 * writing rank, index.json (facts about the run, and file, shape and XXH3 of every tensor) and
 * run.yaml. Tensors are found by parameter name, not by rank, so every layout can read a checkpoint
 * of every other. A folder with this name is complete: it is written as .tmp-step-00000100, synced
 * and renamed. Functions keep no state; a background thread may write while another reads.
 *
 * Writing: every rank makes the folders and writes its file (shard.h); the caller waits until
 * all are done and decides about success; then rank 0 calls pst_ckpt_commit (or pst_ckpt_abandon
 * if a rank failed) and pst_ckpt_prune. */
#ifndef PST_CHECKPOINT_CHECKPOINT_H
#define PST_CHECKPOINT_CHECKPOINT_H
#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "graph/graph.h"
#include "graph/optim.h"
#include "tokenizer/tokenizer.h"
#include <stdio.h>

/* Version 4: tensors may be stored in parts. Without such tensors, version 3 is written. */
enum {
    PST_CKPT_VERSION = 4,
    PST_CKPT_OPTIM_MAX = 16,
    PST_CKPT_BEST_OF = 64,
    PST_CKPT_SLICE = 160,
    PST_CKPT_NAME = PST_NAME_MAX + 64 + PST_CKPT_SLICE
};

/* The last losses and logarithms of gradient norms (train.spike); that of the k-th noted step is at
 * k % PST_CKPT_RECENT. */
enum { PST_CKPT_RECENT = 64 };
typedef struct {
    uint64_t n; /* steps noted */
    double loss[PST_CKPT_RECENT], norm[PST_CKPT_RECENT];
} pst_ckpt_recent;

/* What a run needs to continue, in addition to the tensors. */
typedef struct {
    uint64_t step;     /* optimizer steps done */
    uint64_t skipped;  /* steps among these that were not applied, because loss or gradient was not
                          finite */
    double loss_scale; /* loss scale of the next step if it is dynamic, else 0 */
    uint64_t loss_scale_good; /* steps in a row without overflow */
    uint64_t next_sample;     /* global index of the next training sample */
    uint64_t seed, model_hash, data_hash;
    uint64_t tokenizer; /* hash of the tokenizer of the data; 0: bytes, or unknown */
    uint64_t base;      /* hash of the weights that it lacks (base.h); 0: none, or of the seed */
    double validation_loss; /* validation loss of these weights; NaN: not measured */
    /* checkpoint.best: the name of a set; "": the validation split. Loss of these weights on the
     * set (NaN: not measured, or there is no name); lowest loss of the run so far, on the set or
     * the split; NaN or infinite: none. With checkpoint.metric accuracy best_of is
     * "NAME:accuracy", also of the validation split, and 1 - accuracy stands for a loss */
    char best_of[PST_CKPT_BEST_OF];
    double chosen_loss, best_loss;
    uint64_t spiked;  /* train.spike: steps that were not applied */
    uint64_t pending; /* delayed updates: the last steps whose gradients are not applied yet */
    pst_ckpt_recent recent;
    uint64_t no_better; /* evaluations since the one with the lowest loss */
    /* optimizer whose state is stored; "": weights only */
    char optimizer[PST_CKPT_OPTIM_MAX];
} pst_ckpt_info;

/* A parameter that this rank stores, or elements [from, from + n) of the parameter. The caller owns
 * the arrays, which have dimensions in the graph's order; the weight is fp32. */
typedef struct {
    const pst_param *param;
    const float *weight;  /* starts at element `from` */
    const void *state[2]; /* the optimizer's n_state arrays, of its type, with the same elements */
    uint64_t from, n;     /* n 0: all */
    /* 0: a weight with its states; else without states, and (parallel.compress) 1 + k: `weight` is
     * what codecs left out of the gradients of replica k; PST_CKPT_COPY: it is the copy of the
     * weight that all replicas have */
    uint32_t residual;
    int second; /* 1, with residual 1 + k: `weight` is second moments of replica k instead */
    /* above 0, with residual 1 + k: `weight` is as many elements of the basis (pst_codec_basis) of
     * tensor rank `tensor` of replica k, which are stored as they are */
    uint64_t basis;
    uint32_t tensor;
    /* With islands (parallel.local). island 1 + k: weight and states are those of island k. outer:
     * PST_CKPT_GLOBAL: a weight without states, which the islands share; PST_CKPT_VELOCITY:
     * `weight` is its outer momentum; PST_CKPT_KEPT: the weight that the island keeps for an
     * exchange under way; PST_CKPT_LEFT: what a codec left out of the island's differences */
    uint32_t island, outer;
    /* 0, or the k-th last step (delayed updates): `weight` is the gradient of replica residual - 1
     * in that step, without states */
    uint32_t pending;
} pst_ckpt_entry;
enum { PST_CKPT_GLOBAL = 1, PST_CKPT_VELOCITY, PST_CKPT_KEPT, PST_CKPT_LEFT };
/* In place of a state's name in pst_ckpt_island_name. */
#define PST_CKPT_KEPT_NAME "kept"
#define PST_CKPT_LEFT_NAME "residual"
#define PST_CKPT_COPY UINT32_MAX
/* "wte.weight.copy": the tensor with that copy. */
const char *pst_ckpt_copy_name(const char *param, char out[PST_CKPT_NAME]);
/* "wte.weight.residual1": the tensor with the residual of replica 1. */
const char *pst_ckpt_residual_name(const char *param, uint32_t replica, char out[PST_CKPT_NAME]);
/* "wte.weight.moments1": the tensor with the second moments of replica 1. */
const char *pst_ckpt_moments_name(const char *param, uint32_t replica, char out[PST_CKPT_NAME]);
/* "wte.weight.basis1_0": the tensor with the basis of tensor rank 0 of replica 1. */
const char *pst_ckpt_basis_name(const char *param, uint32_t replica, uint32_t tensor,
                                char out[PST_CKPT_NAME]);
/* "wte.weight.pending2_1": the gradient of replica 1 in the last step but one. */
const char *pst_ckpt_pending_name(const char *param, uint32_t age, uint32_t replica,
                                  char out[PST_CKPT_NAME]);
/* "wte.weight.island1": the weight of island 1; with a state's name ("": none),
 * "wte.weight.island1_m"; "wte.weight.outer": the outer momentum. */
const char *pst_ckpt_island_name(const char *param, uint32_t island, const char *state,
                                 char out[PST_CKPT_NAME]);
const char *pst_ckpt_velocity_name(const char *param, char out[PST_CKPT_NAME]);
/* A tensor's name in a shard: "wte.weight.m"; "wte.weight.m[262144:524288]" for a part;
 * "wte.weight.m[0=0+128][0:8192]" for a part of a tensor rank's slice. */
const char *pst_ckpt_part_name(const char *name, const pst_slice *slice, uint64_t from, uint64_t to,
                               char out[PST_CKPT_NAME]);

/* `folder` is <run>/checkpoints, and is made if it is missing (its parent exists). Any rank, any
 * thread: make_folders makes the folders; shard_path returns the path of this rank's file in them
 * (NULL: no memory; the caller frees it); remove_folders removes what is left after a failure.
 * ENOMEM: the disk is full or cannot be written; the message gives path and reason. */
pst_status pst_ckpt_make_folders(const char *folder, uint64_t step);
char *pst_ckpt_shard_path(const char *folder, uint64_t step, uint32_t rank, uint32_t ranks);
void pst_ckpt_remove_folders(const char *folder, uint64_t step);
/* Rank 0, once all shards are written: checks that the shards contain every parameter of `graph`
 * that is not frozen exactly once (NULL: no check), writes index.json and run.yaml (config: the
 * text of run.yaml), copies the run's tokenizer if `folder` has one beside it (PST_CKPT_TOKENIZER),
 * and renames the folder, which replaces an older checkpoint of the same step. Then removes
 * temporary folders of this and earlier steps. On failure the temporary folder is removed and older
 * checkpoints are unchanged. path (may be NULL): the new folder, which the caller frees. */
pst_status pst_ckpt_commit(const char *folder, const pst_ckpt_info *info, const char *config,
                           const pst_graph *graph, uint32_t ranks, char **path);
/* Rank 0, instead of commit: removes what the ranks have written for this step. */
void pst_ckpt_abandon(const char *folder, uint64_t step);
/* Which checkpoints stay: the newest `newest` (0: all), those of steps that are multiples of
 * `every` (0: none) and that of step `current`. */
typedef struct {
    uint32_t newest;
    uint64_t every, current;
    const char *best_of; /* as in pst_ckpt_info; NULL: the validation split */
} pst_ckpt_kept;
/* Rank 0: keeps these checkpoints and the one with the lowest loss on best_of, to which it sets the
 * link `best`; removes all others. Reports no failure: what cannot be removed stays. */
void pst_ckpt_prune(const char *folder, const pst_ckpt_kept *kept);
/* Rank 0, before a run starts: removes all temporary folders. */
void pst_ckpt_clean(const char *folder);

typedef struct {
    uint32_t file;           /* index of the shard */
    uint64_t from, to, xxh3; /* elements [from, to) of the tensor; hash of the bytes of these
                                elements */
    pst_slice slice; /* the slice of the tensor that this part is; held is PST_HELD_WHOLE if there
                        is none */
} pst_ckpt_part;
typedef struct {
    char *name; /* "wte.weight", "wte.weight.m" */
    uint32_t n_part, n_dim;
    /* parts in order without gaps, or slices that hold each element once; a tensor stored as a
     * whole has one part */
    pst_ckpt_part *part;
    uint64_t dim[PST_MAX_DIM], elements;
    pst_dtype dtype; /* PST_F32, or PST_BF16: optimizer state */
} pst_ckpt_tensor;
typedef struct pst_ckpt {
    pst_ckpt_info info;
    char *path, *config; /* folder of the checkpoint; text of run.yaml */
    uint32_t n_file, n_tensor;
    char **file;           /* shard names */
    uint64_t *header_xxh3; /* [n_file] hash of the header of each shard (all bytes before the first
                              tensor) */
    pst_safetensors_file **shard; /* [n_file] open files; NULL after pst_ckpt_parse */
    pst_ckpt_tensor *tensor;      /* sorted by name */
    int unhashed;                 /* 1: in memory: hashes of tensors are not checked */
    /* in memory: reads bytes of a file that is not here; 0: the file is here; NULL: all are */
    int (*fetch)(void *arg, uint32_t file, uint64_t from, void *out, uint64_t bytes,
                 pst_status *status);
    void *fetch_arg;
} pst_ckpt;

/* `path`: a checkpoint, a run folder or its checkpoints folder; for the last two, the complete
 * checkpoint with the highest step. *folder: the checkpoint's path, which the caller frees.
 * EINPUT: there is none. */
pst_status pst_ckpt_find(const char *path, char **folder);
/* The newest step before `step` in `folder`, which is <run>/checkpoints; complete 1: of checkpoints
 * with an index, complete 0: of those without. UINT64_MAX: none. */
uint64_t pst_ckpt_before(const char *folder, int complete, uint64_t step);
/* Reads the index and checks it against the headers of all shards (not against the tensors'
 * bytes). EINPUT: something is missing, truncated, of another version, or not a checkpoint; the
 * message gives path and reason. */
pst_status pst_ckpt_open(const char *folder, pst_ckpt **ckpt);
void pst_ckpt_close(pst_ckpt *ckpt);
/* A checkpoint whose shards are memory files (pst_shard_header) with open
 * descriptors, which stay the caller's: [n], in rank order or, if several have the same tensors,
 * first those to be read. They have no hashes. EINTERNAL: tensors of `graph` are missing. */
typedef struct {
    const int *fd;
    uint32_t n;
    /* as in pst_ckpt, for pst_ckpt_write_memory: of some files only the header is here */
    int (*fetch)(void *arg, uint32_t file, uint64_t from, void *out, uint64_t bytes,
                 pst_status *status);
    void *fetch_arg;
} pst_ckpt_memory;
pst_status pst_ckpt_open_memory(const pst_ckpt_memory *m, const pst_ckpt_info *info,
                                const char *config, const pst_graph *graph, pst_ckpt **ckpt);
/* Bytes of the files with is_far 1 ([n_file]) that a rank reads which has elements [from[i], to[i])
 * of parameter i of `graph`, with the optimizer's states. */
uint64_t pst_ckpt_far_bytes(const pst_ckpt *ckpt, const uint8_t *is_far, const pst_graph *graph,
                            const pst_optim_row *rule, const uint64_t *const range[2]);
/* Writes that checkpoint to `folder`, which is <run>/checkpoints. Nobody else writes there. */
pst_status pst_ckpt_write_memory(const pst_ckpt_memory *m, const char *folder,
                                 const pst_ckpt_info *info, const char *config,
                                 const pst_graph *graph);
/* The tensor with this name; NULL if there is none. */
const pst_ckpt_tensor *pst_ckpt_tensor_find(const pst_ckpt *ckpt, const char *name);
/* Reads a tensor, as fp32, and checks the hash; EINPUT names the file and the tensor if the tensor
 * is damaged, missing or of another size. Several threads may read from a pst_ckpt. */
pst_status pst_ckpt_read(const pst_ckpt *ckpt, const char *name, float *out, uint64_t elements);
/* Like pst_ckpt_read, but reads only elements [from, to) of a tensor with `elements` elements. */
pst_status pst_ckpt_read_range(const pst_ckpt *ckpt, const char *name, uint64_t elements,
                               uint64_t from, uint64_t to, float *out);
/* Reads elements [from, to) of a parameter that may be a slice (src/graph/slice.h) of a tensor with
 * the full shape. */
pst_status pst_ckpt_read_held(const pst_ckpt *ckpt, const char *name, const pst_param *param,
                              uint64_t from, uint64_t to, float *out);
/* Reads the weight of a parameter and, unless rule is NULL, the optimizer's state; of a slice, only
 * the elements of the slice. Checks shapes. States are converted to the type rule->state, rounded
 * to nearest even. EINPUT if the stored state is of another optimizer. */
pst_status pst_ckpt_read_param(const pst_ckpt *ckpt, const pst_param *param,
                               const pst_optim_row *rule, float *weight, void *const state[2]);
/* Read elements [from, to) of the weight only, or of the optimizer's state only; from == to reads
 * nothing. */
pst_status pst_ckpt_read_weight(const pst_ckpt *ckpt, const pst_param *param, uint64_t from,
                                uint64_t to, float *weight);
pst_status pst_ckpt_read_state(const pst_ckpt *ckpt, const pst_param *param,
                               const pst_optim_row *rule, void *const state[2], uint64_t from,
                               uint64_t to);
/* The number of islands whose weights and states of the parameter are stored. */
uint32_t pst_ckpt_islands(const pst_ckpt *ckpt, const char *param);
/* The same, elements [range[0], range[1]), of weight (at[0], NULL: not read) and states (rule NULL:
 * not read) of an island. */
pst_status pst_ckpt_read_island(const pst_ckpt *ckpt, const pst_param *param, uint32_t island,
                                const pst_optim_row *rule, void *const at[3],
                                const uint64_t range[2]);
/* The type of the stored optimizer states of trained parameters; PST_F32 also if there are none. */
pst_dtype pst_ckpt_state_type(const pst_ckpt *ckpt);
/* Prints the index as text and checks the hash of every tensor; EINPUT if one does not match.
 * `path` as for pst_ckpt_find. */
pst_status pst_ckpt_print(const char *path, FILE *out);

/* The hash of all trained weights at the end of metrics.jsonl: XXH64 over the lines "name F32
 * [d0,d1] xxh64\n" sorted by name. hash[i]: pst_weights_hash_one of parameter i, gathered from the
 * ranks that hold it. */
uint64_t pst_weights_hash_one(const pst_param *param, const float *weight);
pst_status pst_weights_hash(const pst_graph *graph, const uint64_t *hash, uint64_t *out);

/* Parses the index only; shards are not opened. For pst_ckpt_open and its fuzz test. `file` is a
 * name for messages. */
pst_status pst_ckpt_parse(const char *text, size_t bytes, const char *file, pst_ckpt **ckpt);

/* tokenizer.c. The files of a run's tokenizer are kept in this folder, in the run's folder and in
 * each checkpoint, whose run.yaml files name it. */
#define PST_CKPT_TOKENIZER "tokenizer"
/* Copies the files that t was read from to `folder`, which is made if it is missing. Does nothing
 * for those that are there already. ENOMEM: the disk is full or cannot be written. */
pst_status pst_ckpt_tokenizer_copy(const pst_tokenizer *t, const char *folder);
/* Writes tokenizer_config.json beside a copy of vocab.txt, of which transformers cannot tell
 * whether it is of lower-case text; for other tokenizers it does nothing. context: positions of the
 * model. */
pst_status pst_ckpt_tokenizer_config(const pst_tokenizer *t, uint32_t context, const char *folder);
/* Opens the tokenizer at `path` of the model at `source`. hash: of the one that it was trained
 * with; 0: bytes, or unknown. EINPUT: the hashes differ, or as pst_tokenizer_open. */
pst_status pst_ckpt_tokenizer_open(const char *path, const char *source, uint64_t hash,
                                   pst_tokenizer **out);
/* The configuration in a checkpoint, with overrides; data.tokenizer is the checkpoint's own copy if
 * it has one. The caller closes it. */
pst_status pst_ckpt_config(const pst_ckpt *ckpt, const char *const *override, size_t n,
                           pst_config **config);

/* run_folder.c. Writes the run folder of the checkpoint pst_ckpt_find(resume) to run; "" if the
 * checkpoint belongs to no run. */
pst_status pst_ckpt_run_folder(const char *resume, char *run, size_t bytes);
/* Like pst_ckpt_run_folder, but "" also if the checkpoint is not the newest of the run. */
pst_status pst_ckpt_resumed_run(const char *resume, char *run, size_t bytes);
#endif
