/* Checkpoints: a folder <run>/checkpoints/step-00000100/ with one rank-K-of-N.safetensors per
 * writing rank, index.json (what the run was, and file, shape and XXH3 of every tensor) and
 * run.yaml. Tensors go by parameter name, never by rank, so any layout reads any other's. A folder
 * under that name is complete: it is written as .tmp-step-00000100, synced and renamed. Functions
 * keep no state; a background thread may write while another reads.
 *
 * Writing: every rank makes the folders and writes its file (shard.h); the caller makes sure that
 * all are done and agrees on the outcome; then rank 0 calls pst_ckpt_commit (or pst_ckpt_abandon
 * when a rank failed) and pst_ckpt_prune. */
#ifndef PST_CHECKPOINT_CHECKPOINT_H
#define PST_CHECKPOINT_CHECKPOINT_H
#include "checkpoint/safetensors.h"
#include "graph/graph.h"
#include "graph/optim.h"
#include <stdio.h>

/* Version 4 has tensors in parts; without any, 3 is written. */
enum {
    PST_CKPT_VERSION = 4,
    PST_CKPT_OPTIM_MAX = 16,
    PST_CKPT_SLICE = 160,
    PST_CKPT_NAME = PST_NAME_MAX + 64 + PST_CKPT_SLICE
};

/* What a run needs to go on besides its tensors. */
typedef struct {
    uint64_t step;            /* optimizer steps done, */
    uint64_t skipped;         /* those that were not finite and changed nothing included: so many */
    double loss_scale;        /* of the next step, when it is dynamic; 0: it is not */
    uint64_t loss_scale_good; /* steps in a row without overflow */
    uint64_t next_sample;     /* global index of the next training sample */
    uint64_t seed, model_hash, data_hash;
    double validation_loss; /* of these weights; NaN: not measured */
    double best_loss;       /* of the run so far; NaN or infinite: none yet */
    /* name of the rule whose state is stored; "": weights only */
    char optimizer[PST_CKPT_OPTIM_MAX];
} pst_ckpt_info;

/* A parameter that this rank stores, or elements [from, from + n) of it; all memory is the caller's
 * and fp32 with the graph's order of dimensions. */
typedef struct {
    const pst_param *param;
    const float *weight;   /* of the first element that is stored */
    const float *state[2]; /* the rule's n_state arrays, likewise */
    uint64_t from, n;      /* n 0: all */
} pst_ckpt_entry;
/* A tensor's name in a shard: "wte.weight.m", of a part of it "wte.weight.m[262144:524288]", and of
 * a tensor rank's slice "wte.weight.m[0=0+128][0:8192]". */
const char *pst_ckpt_part_name(const char *name, const pst_slice *slice, uint64_t from, uint64_t to,
                               char out[PST_CKPT_NAME]);

/* `folder` is <run>/checkpoints, made when it is not there (its parent is). Any rank, any thread:
 * the folders, this rank's file in them (NULL: no memory; the caller frees), and what is left to do
 * when it could not be written. ENOMEM with path and reason when the disk is full or unwritable. */
pst_status pst_ckpt_make_folders(const char *folder, uint64_t step);
char *pst_ckpt_shard_path(const char *folder, uint64_t step, uint32_t rank, uint32_t ranks);
void pst_ckpt_leave_folders(const char *folder, uint64_t step);
/* Rank 0, when all shards are written: checks that they hold every parameter of `graph` (NULL: not
 * checked) once, writes index.json and run.yaml (config: its text), renames the folder, replacing
 * an older one of the same step. Afterwards abandoned temporary folders of this and earlier steps
 * are removed. On failure the temporary folder is removed, and what was there before is untouched.
 * path (may be NULL): the new folder, the caller frees it. */
pst_status pst_ckpt_commit(const char *folder, const pst_ckpt_info *info, const char *config,
                           const pst_graph *graph, uint32_t ranks, char **path);
/* Rank 0, instead of commit: removes what the ranks have written for this step. */
void pst_ckpt_abandon(const char *folder, uint64_t step);
/* Rank 0: keeps the newest `keep` (0: all), the one of step `current`, and the one with the lowest
 * validation loss, to which the link `best` then points. Never fails loudly: what cannot be removed
 * stays. */
void pst_ckpt_prune(const char *folder, uint32_t keep, uint64_t current);
/* Rank 0, before a run starts: removes all temporary folders. */
void pst_ckpt_clean(const char *folder);

typedef struct {
    uint32_t file;           /* index of the shard */
    uint64_t from, to, xxh3; /* elements; */
    pst_slice slice;         /* of this part of the tensor, when held is not PST_HELD_WHOLE */
} pst_ckpt_part;
typedef struct {
    char *name; /* "wte.weight", "wte.weight.m" */
    uint32_t n_part, n_dim;
    /* in order, without gaps; or slices, which hold each element once; a tensor that is stored in
     * one piece has one */
    pst_ckpt_part *part;
    uint64_t dim[PST_MAX_DIM], elements;
} pst_ckpt_tensor;
typedef struct pst_ckpt {
    pst_ckpt_info info;
    char *path, *config; /* the folder; text of run.yaml */
    uint32_t n_file, n_tensor;
    char **file;                  /* shard names */
    uint64_t *header_xxh3;        /* [n_file] of the bytes before a shard's first tensor */
    pst_safetensors_file **shard; /* [n_file] open files; NULL after pst_ckpt_parse */
    pst_ckpt_tensor *tensor;      /* sorted by name */
} pst_ckpt;

/* `path`: a checkpoint, a run folder or its checkpoints folder; the last two mean the complete
 * checkpoint with the highest step. *folder: the checkpoint, the caller frees it. EINPUT: there is
 * none. */
pst_status pst_ckpt_find(const char *path, char **folder);
/* The newest step before `step` of a folder of checkpoints, complete or (complete 0) without an
 * index; UINT64_MAX: none. */
uint64_t pst_ckpt_before(const char *folder, int complete, uint64_t step);
/* Reads and checks the index against the headers of all shards (not the tensors' bytes). EINPUT
 * with path and reason when something is missing, truncated, of another version, or no checkpoint
 * at all. */
pst_status pst_ckpt_open(const char *folder, pst_ckpt **ckpt);
void pst_ckpt_close(pst_ckpt *ckpt);
/* NULL when there is none. */
const pst_ckpt_tensor *pst_ckpt_tensor_find(const pst_ckpt *ckpt, const char *name);
/* Reads a tensor and compares its hash; EINPUT names file and tensor when it is damaged, missing or
 * of another size. A pst_ckpt may be read from several threads. */
pst_status pst_ckpt_read(const pst_ckpt *ckpt, const char *name, float *out, uint64_t elements);
/* Elements [from, to) alone, of all `elements` there are. */
pst_status pst_ckpt_read_range(const pst_ckpt *ckpt, const char *name, uint64_t elements,
                               uint64_t from, uint64_t to, float *out);
/* Elements [from, to) of what a parameter that may be sliced (graph/slice.h) holds of a tensor of
 * its whole shape. */
pst_status pst_ckpt_read_held(const pst_ckpt *ckpt, const char *name, const pst_param *param,
                              uint64_t from, uint64_t to, float *out);
/* A parameter's weight and, with a rule, its state, or what it holds of them; checks shapes. EINPUT
 * when another rule's state is stored. */
pst_status pst_ckpt_read_param(const pst_ckpt *ckpt, const pst_param *param,
                               const pst_optim_row *rule, float *weight, float *const state[2]);
/* Elements [from, to) of its weight alone, or of its state: from == to reads nothing of that. */
pst_status pst_ckpt_read_weight(const pst_ckpt *ckpt, const pst_param *param, uint64_t from,
                                uint64_t to, float *weight);
pst_status pst_ckpt_read_state(const pst_ckpt *ckpt, const pst_param *param,
                               const pst_optim_row *rule, float *const state[2], uint64_t from,
                               uint64_t to);
/* For people: what the index says; then EINPUT when a tensor's bytes are not those. `path` as for
 * pst_ckpt_find. */
pst_status pst_ckpt_print(const char *path, FILE *out);

/* The hash of all weights that metrics.jsonl ends with: XXH64 over the lines "name F32 [d0,d1]
 * xxh64\n" sorted by name. hash[i]: pst_weights_hash_one of parameter i, gathered from the ranks
 * that hold them. */
uint64_t pst_weights_hash_one(const pst_param *param, const float *weight);
pst_status pst_weights_hash(const pst_graph *graph, const uint64_t *hash, uint64_t *out);

/* The index alone, from text; shards are not opened. For pst_ckpt_open and its fuzz test. `file`
 * stands in messages. */
pst_status pst_ckpt_parse(const char *text, size_t bytes, const char *file, pst_ckpt **ckpt);
/* run_of.c. The run folder in which the checkpoint lies that `resume` means; "" when it lies
 * elsewhere. */
pst_status pst_ckpt_run_of(const char *resume, char *run, size_t bytes);
/* The run folder whose newest checkpoint `resume` means; "" when it is another one. */
pst_status pst_ckpt_resumed_run(const char *resume, char *run, size_t bytes);
#endif
