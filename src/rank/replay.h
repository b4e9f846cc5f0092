/* The checker of a repeated step: checks everything that an operator reads and writes, and records
 * where, in program order, the first number that is not finite was made. Used when a step's loss or
 * gradient is not finite. */
#ifndef PST_RANK_REPLAY_H
#define PST_RANK_REPLAY_H
#include "base/device.h"
#include "graph/tape.h"

typedef struct pst_rank pst_rank;

enum { PST_REPLAY_TEXT = 720 };

/* Where a rank has found the first non-finite number; without pointers, to be gathered from all
 * ranks. */
typedef struct {
    uint32_t found;
    /* Program order: F before B and W, then micro-batch, then the order of the tape. The inputs of
     * the first one in this order are finite: it is the origin, on whichever rank. */
    uint32_t phase, micro, position;
    /* pass: pst_pass; PST_PASS_COUNT: REDUCE, which adds the uses of a shared parameter */
    uint32_t rank, node, pass;
    uint32_t kind, tensor, saved; /* the pst_value_kind of the written value, or */
    uint32_t param;               /* the parameter whose gradient it is; PST_NONE for a value */
    uint64_t index;               /* index of the first bad element, row-major */
    float value;
    uint32_t bad_input; /* the value of this tensor was read and was not finite */
    uint32_t bad_param; /* this weight was read and was not finite; PST_NONE: none */
    uint64_t weight_index;
    float weight;
} pst_culprit;

/* Clears what the rank has recorded before. */
void pst_replay_begin(pst_rank *r);
/* A pst_launch_fn that replaces the plain one: checks what the step reads, runs it, checks what it
 * has written. */
pst_status pst_replay_kernel(pst_device *device, const void *block);
/* Checks the result after REDUCE has added gradients of elements [from, from + n) of a parameter,
 * of several uses or replicas. */
pst_status pst_replay_reduced(pst_rank *r, uint32_t param, const float *sum, uint64_t from,
                              uint64_t n);
/* The first in program order; NULL when no rank has found one. */
const pst_culprit *pst_replay_first(const pst_culprit *of_rank, uint32_t n);
/* "the first is inf at [0,3] of x.out, written by x (F of micro-batch 0 on rank 1); its weights and
 * inputs were finite" */
void pst_replay_text(const pst_graph *g, const pst_culprit *c, char text[PST_REPLAY_TEXT]);
/* The name of the tensor, "gradient of x.out", or the name of the parameter. */
void pst_replay_tensor(const pst_graph *g, const pst_culprit *c, char text[PST_NAME_MAX + 40]);
const char *pst_replay_pass(const pst_culprit *c);
/* [2,0,17] */
void pst_replay_index(const pst_graph *g, const pst_culprit *c, char text[96]);
#endif
