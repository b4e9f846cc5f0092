/* The checker of a repeated step: checks all inputs and outputs of each operator, and records
 * where, in program order, the first non-finite number was produced. Used when a step's loss or
 * gradient is not finite. */
#ifndef PST_RANK_REPLAY_H
#define PST_RANK_REPLAY_H
#include "base/device.h"
#include "graph/tape.h"

typedef struct pst_rank pst_rank;

enum { PST_REPLAY_TEXT = 720 };

/* Where a rank has found its first non-finite number. Contains no pointers, so that it can be
 * gathered from all ranks. */
typedef struct {
    uint32_t found;
    /* Program order: F before B and W, then by micro-batch, then by position on the tape. The first
     * record of all ranks in this order is the origin: the inputs of that operator were finite. */
    uint32_t phase, micro, position;
    /* pass: pst_pass; PST_PASS_COUNT: REDUCE, which adds the gradients of the uses of a tied
     * parameter */
    uint32_t rank, node, pass;
    uint32_t kind, tensor, saved; /* kind: pst_value_kind of the value that was written */
    /* parameter, if its gradient was written; PST_NONE: a value was written */
    uint32_t param;
    uint64_t index; /* index of the first bad element, row-major */
    float value;
    uint32_t bad_input; /* 1: an input tensor was not finite either */
    /* index of a parameter that was read and not finite; PST_NONE: none. Its first bad element and
     * value follow */
    uint32_t bad_param;
    uint64_t weight_index;
    float weight;
} pst_culprit;

/* Clears the rank's record. */
void pst_replay_begin(pst_rank *r);
/* A pst_launch_fn used instead of the normal one: checks the inputs of the tape step, runs it, and
 * checks its outputs. */
pst_status pst_replay_kernel(pst_device *device, const void *block);
/* Checks elements [from, from + n) of a parameter's gradient after REDUCE has summed them over uses
 * or replicas. */
pst_status pst_replay_reduced(pst_rank *r, uint32_t param, const float *sum, uint64_t from,
                              uint64_t n);
/* The first of n records in program order; NULL: no rank has found a non-finite number. */
const pst_culprit *pst_replay_first(const pst_culprit *of_rank, uint32_t n);
/* Formats a record: "the first is inf at [0,3] of x.out, written by x (F of micro-batch 0 on rank
 * 1); the weights and inputs of this operator were finite". */
void pst_replay_text(const pst_graph *g, const pst_culprit *c, char text[PST_REPLAY_TEXT]);
/* The name of the tensor, "gradient of x.out", or the name of the parameter. */
void pst_replay_tensor(const pst_graph *g, const pst_culprit *c, char text[PST_NAME_MAX + 40]);
const char *pst_replay_pass(const pst_culprit *c);
/* The index of the element: "[2,0,17]". */
void pst_replay_index(const pst_graph *g, const pst_culprit *c, char text[96]);
#endif
