/* Differentiation: from a graph to the straight-line list of the F, B and W passes of one
 * micro-batch (the tape), whose entries are called tape steps, and the values that they read and
 * write. Knows nothing of stages; pipeline/compile/cut.h cuts the tape at stage boundaries.
 *
 * Gradients accumulate in reverse node order: the last consumer of a tensor contributes to its
 * gradient first; an earlier consumer's B reads it as SUM and writes a new version. So every layout
 * adds in the same order. */
#ifndef PST_GRAPH_TAPE_H
#define PST_GRAPH_TAPE_H
#include "graph/op.h"

typedef enum { PST_VALUE_TENSOR, PST_VALUE_GRAD, PST_VALUE_SAVED } pst_value_kind;

/* A value is written by exactly one tape step (or by the data set) and read by later ones. */
typedef struct {
    pst_value_kind kind;
    uint32_t tensor;      /* TENSOR, GRAD: the tensor */
    uint32_t version;     /* GRAD: 0 for the first contribution, 1 for the next, ... */
    uint32_t node, saved; /* SAVED: array `saved` of node `node` */
    pst_dtype dtype;
    uint64_t bytes;
    uint32_t packs;    /* 1 + the value that this one is, packed; 0: it is not packed */
    uint32_t def_step; /* tape step that writes it, PST_NONE for data */
} pst_value;

typedef enum {
    PST_OPERAND_NULL,
    PST_OPERAND_VALUE,
    PST_OPERAND_PARAM,
    PST_OPERAND_DPARAM,
    /* the gradient of a frozen parameter, which W computes beside that of another one: behind the
     * kernel's scratch memory, where no step reads it */
    PST_OPERAND_UNREAD
} pst_operand_kind;
typedef struct {
    uint8_t kind, access; /* access: PST_READ | PST_WRITE */
    int8_t share;
    uint8_t must;   /* as in pst_arg */
    uint32_t index; /* value, or parameter */
    /* DPARAM: which use of the parameter; UNREAD, in a program: its offset in the step's scratch
     * memory, in units of PST_ARENA_ALIGN bytes */
    uint32_t use;
} pst_operand;

/* Kinds of steps that are no pass of their node: a sum of two gradients; `restore` of the
 * operator's row; the packing and unpacking of a message between chunks
 * (pipeline/compile/packed.c). */
typedef enum { PST_EXTRA_SUM = 1, PST_EXTRA_RESTORE, PST_EXTRA_PACK, PST_EXTRA_UNPACK } pst_extra;
static inline int pst_extra_packs(int extra) {
    return extra == PST_EXTRA_PACK || extra == PST_EXTRA_UNPACK;
}

/* How recomputation runs an F of the tape a second time: not at all, as F, or with `restore` of the
 * operator's row. */
typedef enum { PST_AGAIN_NOT, PST_AGAIN_F, PST_AGAIN_RESTORE } pst_again;

typedef struct {
    uint32_t node;
    pst_pass pass;
    uint8_t again; /* pst_again; such steps are among those of B (pipeline/compile/recompute.c) */
    uint32_t n_operand;
    pst_operand operand[PST_MAX_ARG];
    uint64_t flops, bytes;
} pst_tape_step;

/* Tape steps in order: all F in node order, then for each node in reverse order its B and W (B
 * first). Passes with an empty operand list, and passes that compute only gradients which no step
 * reads, have no step: no W has only frozen parameters, and no B has only inputs that depend on no
 * trained parameter, unless it computes what W reads. A sum of two gradients that no row can take
 * as SUM is an extra step of the `add` operator's F kernel (with the node of the consumer, pass B
 * and `extra` PST_EXTRA_SUM; operands: VALUE a, VALUE b, VALUE out). */
typedef struct {
    uint32_t n_value, n_step;
    pst_value *value;
    pst_tape_step *step;
    uint8_t *extra; /* [n_step] 0, PST_EXTRA_SUM, PST_EXTRA_PACK or PST_EXTRA_UNPACK */
} pst_tape;

/* Makes the tape, which the caller closes. with_backward 0, or a graph without a loss: only the F
 * passes (evaluation and generation). EINPUT when an operator's B must overwrite a value that a
 * later tape step still reads. */
pst_status pst_tape_build(const pst_graph *g, int with_backward, pst_tape **tape);
/* For training: EINPUT unless every use of every parameter that is not frozen has a gradient; names
 * a parameter that does not affect the loss. */
pst_status pst_tape_check_gradients(const pst_tape *tape, const pst_graph *g);
void pst_tape_close(pst_tape *tape);
pst_status pst_tape_print(const pst_tape *tape, const pst_graph *g, FILE *out);
#endif
