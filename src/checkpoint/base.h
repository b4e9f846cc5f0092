/* The base of a run with frozen parameters or adapters: what its checkpoints lack. It is where the
 * run began: model.weights, or the initial values of train.seed. */
#ifndef PST_CHECKPOINT_BASE_H
#define PST_CHECKPOINT_BASE_H
#include "checkpoint/checkpoint.h"
#include "models/model.h"

/* 1: checkpoints of this run have only the trained parameters. */
int pst_ckpt_has_base(const pst_config *config);
/* *hash: of the base, for pst_ckpt_info.base; 0: the run has none, or it is of train.seed. EINPUT:
 * model.weights cannot be read. */
pst_status pst_ckpt_base_hash(const pst_config *config, uint64_t *hash);
/* Compares the base that `config` names with that of the checkpoint. EINPUT: it is missing, or it
 * is another one. */
pst_status pst_ckpt_base_check(const pst_ckpt *ckpt, const pst_config *config);
/* The configuration of a checkpoint with n overrides, as pst_ckpt_config. base: where its base is
 * now; NULL or "": where model.weights says. EINPUT: it is another base, or the checkpoint has no
 * base. */
pst_status pst_ckpt_config_with_base(const pst_ckpt *ckpt, const char *base,
                                     const char *const *override, size_t n, pst_config **config);
/* Adds the adapter of a matrix, if the checkpoint has one, to the elements of the part that this
 * rank has. */
pst_status pst_ckpt_merge(const pst_ckpt *ckpt, const pst_config *config, const pst_param *param,
                          float *weight);

/* A model that a checkpoint and its base describe. graph: without adapters. */
typedef struct {
    const pst_ckpt *ckpt;
    const pst_config *config;
    const pst_model_row *model;
    const pst_graph *graph;
} pst_ckpt_model;
/* Reads a whole weight: of the checkpoint, else of the base, with the adapter merged. `model` is a
 * pst_ckpt_model, so that pst_hf_export can call it. */
pst_status pst_ckpt_model_read(void *model, const pst_param *param, float *out);
#endif
