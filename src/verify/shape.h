/* How a verification changes a run file: the same layout, precision and optimizer, but a smaller
 * model and only a few steps. */
#ifndef PST_VERIFY_SHAPE_H
#define PST_VERIFY_SHAPE_H
#include "config/config.h"

enum { PST_SHAPE_KEYS = 64, PST_SHAPE_KEY = 160, PST_SHAPE_NOTE = 240, PST_SHAPE_CHANGED = 400 };

/* Overrides of the run file, "key=value". */
typedef struct {
    char text[PST_SHAPE_KEYS][PST_SHAPE_KEY];
    uint32_t n;
} pst_shape_keys;

typedef struct {
    uint32_t n_rank;       /* ranks of the run as configured */
    uint32_t data, tensor; /* replicas; tensor ranks of the widest stage */
    uint32_t n_micro;      /* micro-batches per step */
    uint64_t steps;
    pst_shape_keys small; /* overrides for every run of this verification */
    /* "model.layers from 12 to 2, train.steps from 1000 to 4"; "": nothing */
    char changed[PST_SHAPE_CHANGED];
    char note[PST_SHAPE_NOTE]; /* which sizes were not reduced, and why; "": none */
} pst_shape;

/* config: including the keys of its plan. ENOMEM. EINPUT: the model is too large even with these
 * changes; the message says why. */
pst_status pst_shape_choose(const pst_config *config, uint32_t n_rank, pst_shape *shape);
/* Adds "key=value"; the format's result must be shorter than PST_SHAPE_KEY. */
void pst_shape_add(pst_shape_keys *keys, const char *format, ...) PST_PRINTF(2, 3);
/* Applies the overrides to a configuration. EINPUT, ENOMEM. */
pst_status pst_shape_apply(pst_config *config, const pst_shape_keys *keys);
/* Overrides for a run on one rank, or on `tensor` tensor ranks without stages and replicas, which
 * adds gradients in `parts` parts (parallel.reproducible). */
void pst_shape_alone(pst_shape_keys *keys, uint32_t tensor, uint32_t parts);
#endif
