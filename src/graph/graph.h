/* A model as data: operators (nodes) in execution order, the tensors between them and the
 * parameters they use. Says what is computed for ONE micro-batch, never where. Built by models/,
 * differentiated by tape.h, cut into stages by a plan. All shapes include the micro-batch as their
 * first dimension. Opened, closed and printed through the public header; the fields below are
 * internal. */
#ifndef PST_GRAPH_GRAPH_H
#define PST_GRAPH_GRAPH_H
#include "base/dtype.h"
#include "base/status.h"
#include "graph/names.h"
#include "penstock/graph.h"
#include <stdint.h>
#include <stdio.h>

enum { PST_NAME_MAX = 96, PST_MAX_IN = 4, PST_MAX_OUT = 2, PST_MAX_PARAM = 4, PST_MAX_SAVED = 3 };

typedef enum { PST_PASS_F, PST_PASS_B, PST_PASS_W, PST_PASS_COUNT } pst_pass;

typedef enum {
    PST_TENSOR_DATA, /* filled by the data set: tokens or targets, int32 */
    PST_TENSOR_ACTIVATION,
    PST_TENSOR_OUTPUT /* read by the run after F: per-token losses, or logits when generating */
} pst_tensor_role;

/* Types of gradients in graphs of 16 bits: that of the tensor; F32, for a sum that is not complete;
 * or the graph's, where the tensor is such a sum. */
typedef enum { PST_GRAD_SAME, PST_GRAD_WIDE, PST_GRAD_NARROW } pst_grad_form;

typedef struct {
    char name[PST_NAME_MAX];
    pst_tensor_role role;
    pst_dtype dtype;
    uint32_t n_dim;
    uint64_t dim[PST_MAX_DIM];
    uint32_t producer; /* node index, PST_NONE for data */
    /* 16-bit graphs: type of the gradient if it is not `dtype`; see pst_tensor_grad */
    pst_grad_form grad;
    uint64_t pitch; /* elements from the start of a row (last dimension) to the start of the next,
                       where pst_graph_pad has left gaps; 0: no gaps */
} pst_tensor;

/* The part of a parameter that this graph holds if split.c has split the model over tensor ranks.
 * All members zero: the whole parameter. */
typedef enum {
    PST_HELD_WHOLE, /* the whole parameter, as on every other rank */
    PST_HELD_PART,
    PST_HELD_ALONE,    /* the whole parameter, only on the first tensor rank, which is this one */
    PST_HELD_ELSEWHERE /* only the first tensor rank has the parameter; no operator of this rank
                          uses it */
} pst_holding;
enum { PST_MAX_RANGE = 3 };
typedef struct {
    pst_holding held;
    /* 1 (WHOLE only): each rank computes the gradient of its own positions, and their sum over the
     * group is the gradient */
    int partial;
    /* WHOLE only: number of blocks of positions for each of which the accumulators have a sum;
     * these are added when the step ends. 0: one sum of all positions. */
    uint32_t blocks;
    uint64_t whole; /* PART: the size of dimension `dim` in the whole parameter */
    uint32_t dim, n_range;
    struct {
        uint64_t first, count;
    } range[PST_MAX_RANGE]; /* the ranges of dimension `dim` in this part, in this order */
} pst_slice;

/* A trainable array. The name is unique in the graph, and is used in checkpoints, random streams
 * and hashes. */
typedef struct {
    char name[PST_NAME_MAX];
    uint32_t n_dim;
    uint64_t dim[PST_MAX_DIM];
    pst_init init;
    float std;     /* standard deviation of PST_INIT_NORMAL, mean 0 */
    int decay;     /* 1: weight decay applies to the parameter */
    int statistic; /* 1: a running mean over steps, which the optimizer does not update and the
                      gradient norm does not include, see op_batch_norm.c */
    int frozen;    /* 1: not trained: no gradient, no optimizer state; no file of a run has it */
    int adapter;   /* not 0: a matrix of an adapter (graph/adapt.h), not of the model */
    /* Set by pst_optim_assign. whole: 1: the optimizer updates all elements together, so one
     * replica owns them all; matrix: 1: by Muon */
    int whole, matrix;
    int cache; /* 1: an array that an operator writes in F and reads again in later runs, such as
                  the keys and values of earlier positions; not a part of the model: no file
                  has it. Only in graphs for generation */
    uint32_t n_use; /* set by pst_graph_add: number of uses (node, operand); each use has its own
                       gradient */
    pst_slice slice;
    uint64_t pad; /* elements of padding after the parameter in the copy that operators read,
                     initially zero (pst_graph_pad) */
} pst_param;

const char *pst_activation_name(pst_activation activation);
/* Finds an activation by name, "none" included. EINPUT lists the names. */
pst_status pst_activation_find(const char *name, pst_activation *activation);

/* Sums in blocks, whose order does not depend on the number of tensor ranks (graph/blocks.h). */
typedef enum {
    PST_BLOCKS_NONE,
    PST_BLOCKS_IN,  /* linear F: of input features */
    PST_BLOCKS_OUT, /* linear B, vocabulary_part: of output features */
    PST_BLOCKS_ROWS /* W: of positions */
} pst_blocks_of;
typedef struct {
    pst_blocks_of of;
    uint32_t n;          /* number of blocks of all ranks together; 0: sums in any order */
    uint32_t first, own; /* blocks of this rank */
    uint32_t ranges;     /* the features consist of so many ranges, each of them in blocks */
    uint64_t total;      /* heads, features, tokens or positions of all ranks, split in n blocks */
} pst_blocks;

/* How rotary positions stretch the context that they were trained for. */
typedef enum {
    PST_ROPE_PLAIN,
    PST_ROPE_LINEAR, /* all frequencies divided by `factor` (Chen et al. 2023) */
    PST_ROPE_LLAMA3, /* low frequencies divided by `factor` (Llama 3.1) */
    PST_ROPE_YARN    /* the same with a ramp and scaled queries and keys (Peng et al. 2023) */
} pst_rope_scaling;
const char *pst_rope_scaling_name(pst_rope_scaling scaling);
/* EINPUT lists the names. */
pst_status pst_rope_scaling_find(const char *name, pst_rope_scaling *scaling);
enum { PST_ROPE_PAIRS = 256 }; /* maximum number of pairs of channels of a head */
/* Rotary positions (Su et al. 2021). Pair i of a head of D channels turns by
 * position * theta^(-2i/D); kernels/rope.h applies the scaling. */
typedef struct {
    float theta;
    pst_rope_scaling scaling;
    float factor;
    /* LLAMA3: wavelengths above context/low are divided by `factor`, those below context/high stay;
     * YARN: the same with turns within `context`: those with fewer than `low`, more than `high` */
    float low, high;
    float attention;  /* YARN: factor of sines and cosines; 0: 0.1 ln(factor) + 1 */
    uint32_t context; /* LLAMA3, YARN: positions before the context was stretched */
} pst_rope;

/* Attributes of all operator kinds; each kind reads its own. */
typedef struct {
    uint32_t heads;         /* attention, rotary */
    uint32_t kv_heads;      /* attention: heads of keys and values, which are inputs of their own;
                               0: as many as heads, and one input has queries, keys and values */
    uint32_t bidirectional; /* attention: 0: a position attends to itself and earlier positions
                               (causal); 1: to all positions */
    uint32_t features;      /* linear: output features */
    pst_activation activation; /* linear, batch norm */
    float eps;                 /* norms */
    /* dropout: probability of zero; attention without kv_heads: the same of a probability */
    float rate;
    float factor; /* scale: by which the input is multiplied */
    /* cross_entropy, and vocabulary_part and vocabulary_loss: label smoothing, and the weight of
     * z-loss (kernels/loss.h); pst_graph_set_loss */
    float smoothing, z_loss;
    uint32_t stride, padding; /* convolution, max_pool: in pixels, along height and width */
    /* max_pool: height and width of a window; attention: positions to which a position attends,
     * itself included; 0: all */
    uint32_t window;
    pst_rope rope; /* rotary */
    /* cross_entropy: 0: the loss is the mean over all targets of the batch; 1: over its samples */
    uint32_t per_sample;
    uint32_t hits; /* cross_entropy: 1: a second output says which targets have the largest logit;
                      the logits are not split over tensor ranks */
    uint32_t wide; /* embedding, layer norm, linear (a part of a sum): 1: the output is F32 although
                      the graph's dtype has 16 bits */
    /* add: 1: input 1 has 16 bits and the output is F32, so B converts the gradient of input 1. Set
     * by infer */
    uint32_t narrows;
    /* The following members are 0 except in graphs that split.c makes. */
    uint32_t parts, part; /* exchanges: size of the tensor group, and index of this rank in the
                             group */
    uint32_t length;      /* exchanges along the sequence: positions of the whole sequence */
    /* embedding, vocabulary_*: first token of this rank; dropout: first element of a sample on this
     * rank; attention, where each rank has all keys and values, or with a rate: first head of
     * this rank;
     * gather_rows: first position of this rank */
    uint64_t first;
    /* number of all ranks together: embedding, vocabulary_*: of tokens; attention, as above: of
     * heads; gather_rows: of positions */
    uint64_t total;
    pst_blocks blocks;
    /* 1: the first tensor rank has a further parameter of the operator, which is trained, so that W
     * runs on all ranks */
    uint32_t trained_elsewhere;
    /* layer norm: number of parts of the rows whose sums B saves for W; 0: W reads the rows. Set by
     * pst_graph_leave_sums */
    uint32_t sum_parts;
} pst_attr;

typedef struct pst_op_row pst_op_row;
typedef struct {
    char name[PST_NAME_MAX];
    const pst_op_row *op;
    pst_attr attr;
    uint32_t n_in, in[PST_MAX_IN]; /* tensors */
    uint32_t n_out, out[PST_MAX_OUT];
    uint32_t n_param, param[PST_MAX_PARAM]; /* parameters */
    uint32_t use[PST_MAX_PARAM]; /* number of this use of the parameter: 0, 1, ... in node order */
    uint32_t n_saved; /* arrays that F keeps for B and W in addition to inputs and outputs; see
                         graph/op.h */
    struct {
        uint64_t elements;
        pst_dtype dtype;
    } saved[PST_MAX_SAVED];
} pst_node;

struct pst_graph {
    char name[PST_NAME_MAX];
    uint32_t micro_batch;
    /* Type of activations, of their gradients, and of the parameters that operators read: F32 (the
     * initial value), BF16 or F16. Losses, row statistics, gradient accumulators and a residual
     * stream that begins with attr.wide are always F32. Set before the first operator is added. */
    pst_dtype dtype;
    /* TF32 or F8: matrix products round their operands to this type; 0: operands have `dtype` */
    pst_dtype factors;
    /* 1: F is never recomputed in this run, which allows kernels that give other bits when run
     * again (src/prepare) */
    int final;
    /* 1: for generation: F only, and results need not have the same bits as in training */
    int generates;
    uint32_t blocks; /* pst_split_options.blocks */
    /* 1: kernels may add in an order that changes from call to call (parallel.deterministic) */
    int loose;
    uint32_t n_tensor, n_param, n_node;
    pst_tensor *tensor;
    pst_param *param;
    pst_node *node;
    size_t cap_tensor, cap_param, cap_node;
    pst_names tensor_names, param_names, node_names;
};

/* Sets dtype and factors of an empty graph for a type from pst_dtype_of_precision (not
 * PST_DTYPE_COUNT). */
static inline void pst_graph_compute(pst_graph *g, pst_dtype factors) {
    g->dtype = pst_dtype_stored(factors);
    g->factors = factors == g->dtype ? (pst_dtype)0 : factors;
}
/* The type of the operands of matrix products: in the graph, and in a `linear` node, where F8 falls
 * back to dtype if a size is not a multiple of 16. */
static inline pst_dtype pst_graph_factors(const pst_graph *g) {
    return g->factors ? g->factors : g->dtype;
}
pst_dtype pst_node_factors(const pst_graph *g, const pst_node *node);

/* A deep copy, which the caller closes. ENOMEM. */
pst_status pst_graph_copy(const pst_graph *graph, pst_graph **copy);
/* The same graph for micro-batches of another number of samples: operators, parameters and tensors
 * keep their indices. `graph` is not split, and not yet adapted to a device (pst_graph_pad,
 * pst_graph_leave_sums). The caller closes *resized. EINPUT: an operator cannot compute so few
 * samples (batch_norm); ENOMEM. */
pst_status pst_graph_resize(const pst_graph *graph, uint32_t micro_batch, pst_graph **resized);

/* Building blocks for models/ and, through builder.c, for programs. Each returns an index, or fails
 * with EINPUT (duplicate name, too long, bad shape) or ENOMEM. Indices stay valid; the next
 * addition invalidates pointers into the arrays. */
pst_status pst_graph_data(pst_graph *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                          uint32_t *tensor);
pst_status pst_graph_param(pst_graph *g, const pst_param *param, uint32_t *index);
/* An operator to be added. op: name of the kind of operator; attr NULL: all members 0; in, param:
 * indices of tensors and parameters. */
typedef struct {
    const char *op, *name;
    const pst_attr *attr;
    const uint32_t *in;
    uint32_t n_in;
    const uint32_t *param;
    uint32_t n_param;
} pst_new_node;
/* Appends the operator: runs the row's infer, which checks the operands and creates the output
 * tensors "<name>.out"; *out receives the first one. */
pst_status pst_graph_add(pst_graph *g, const pst_new_node *n, uint32_t *out);
/* For infer: creates output tensor number node->n_out of `node`: of the graph's dtype, but F32 when
 * role is OUTPUT. */
pst_status pst_graph_out(pst_graph *g, pst_node *node, pst_tensor_role role, uint32_t n_dim,
                         const uint64_t *dim);

/* For devices with PST_DEVICE_PADDED, whose matrix units need rows of a multiple of 16 bytes: if
 * the rows of the logits are not such a multiple, the logits get gaps between rows, and the weight
 * of the output layer gets zeros at the end. Weights of F8 products get room for two copies in F8.
 * Shapes, parameters and their gradients do not change. */
void pst_graph_pad(pst_graph *g);
/* For devices with PST_DEVICE_SUMS, which need more time to read rows than to compute on them: B of
 * layer norms, which reads the rows anyway, saves sums of parts of the rows, and W adds these sums.
 * The parts depend on the shape only. The graph's hash does not change. */
void pst_graph_leave_sums(pst_graph *g);

/* Sets label smoothing (0 to 1, excluded) and the weight of z-loss of every cross_entropy of an
 * unsplit graph. They change the training loss, not that of evaluation. */
void pst_graph_set_loss(pst_graph *g, float smoothing, float z_loss);
/* Sets which parameters weight decay applies to: those whose name matches one of the n patterns, as
 * fnmatch does, and none that begins with '!'. EINPUT: a pattern matches no parameter. n 0: nothing
 * changes. Running statistics never decay. */
pst_status pst_graph_set_decay(pst_graph *g, char *const *pattern, uint32_t n);
/* Freezes the parameters whose name matches one of the n patterns, as above, and none that begins
 * with '!'. all: 1: every parameter is frozen, but those of adapters, which never are, and those
 * that patterns with '!' match. Nor are running statistics. EINPUT: a pattern matches no parameter
 * or, with `all`, changes nothing; no parameter is left to train. */
pst_status pst_graph_set_frozen(pst_graph *g, char *const *pattern, uint32_t n, int all);

uint64_t pst_tensor_elements(const pst_tensor *t);
uint64_t pst_tensor_bytes(const pst_tensor *t); /* bytes, gaps included */
uint64_t pst_param_elements(const pst_param *p);
/* Number of uses that have a gradient: all, or none if the parameter is frozen. */
static inline uint32_t pst_param_gradients(const pst_param *p) { return p->frozen ? 0 : p->n_use; }
/* 1: a parameter of the operator has a gradient, on this tensor rank or another. */
static inline int pst_node_is_trained(const pst_graph *g, const pst_node *node) {
    if (node->attr.trained_elsewhere) return 1;
    for (uint32_t i = 0; i < node->n_param; i++)
        if (!g->param[node->param[i]].frozen) return 1;
    return 0;
}
/* Elements of the accumulator of one use: a sum for each block (pst_slice.blocks). */
uint64_t pst_param_sums(const pst_param *p);
/* Type of the gradient of a tensor. */
pst_dtype pst_tensor_grad(const pst_graph *g, const pst_tensor *t);
/* Bytes of the parameter as operators read it; master weights, accumulators and optimizer state are
 * fp32 and may be larger. */
uint64_t pst_param_bytes(const pst_graph *g, const pst_param *p);
uint64_t pst_param_pad_bytes(const pst_graph *g, const pst_param *p); /* bytes of the padding after
                                                                         the parameter */
/* Numbers (fp64) per sum of squares: with blocks, sums do not depend on the parts of parameters
 * that ranks have (kernels/squares.h). g may be NULL. */
static inline uint32_t pst_graph_norm_words(const pst_graph *g) { return g && g->blocks ? 4 : 1; }
/* 1: the accumulators of the parameter are parts of sums over the tensor ranks; 0: each rank has
 * all positions. */
static inline int pst_param_spans_ranks(const pst_graph *g, const pst_param *p) {
    return p->slice.partial && (!p->slice.blocks || p->slice.blocks < g->blocks);
}
/* 1: the tensor holds losses whose mean is over samples (pst_attr.per_sample). */
static inline int pst_tensor_per_sample(const pst_graph *g, uint32_t tensor) {
    const uint32_t from = g->tensor[tensor].producer;
    return from != PST_NONE && g->node[from].attr.per_sample;
}
/* 1: the tensor says which targets have the largest logit (pst_attr.hits). */
static inline int pst_tensor_has_hits(const pst_graph *g, uint32_t tensor) {
    const uint32_t from = g->tensor[tensor].producer;
    return from != PST_NONE && g->node[from].attr.hits && g->node[from].out[0] != tensor;
}
/* training.c. Which outputs the losses of a graph have; 1: some. */
typedef struct {
    int samples; /* losses whose mean is over samples */
    int hits;    /* pst_attr.hits: one for each sample */
} pst_loss_kinds;
pst_loss_kinds pst_loss_kinds_of(const pst_graph *g);
/* The index of the tensor or parameter with this name; PST_NONE if there is none. */
uint32_t pst_graph_find_tensor(const pst_graph *g, const char *name);
uint32_t pst_graph_find_param(const pst_graph *g, const char *name);
/* Parameter indices in name order (strcmp), the order of every sum over parameters; out has n_param
 * entries. */
void pst_graph_param_order(const pst_graph *g, uint32_t *out);
/* Sorts n parameter indices into this order. */
void pst_graph_order_params(const pst_graph *g, uint32_t *param, uint32_t n);
/* XXH64 over the contents of the graph. */
uint64_t pst_graph_hash(const pst_graph *g);

/* Checks every invariant: operands defined before use, shapes agree, names unique, uses counted.
 * The message of EINPUT names the invariant that fails. */
pst_status pst_graph_check(const pst_graph *g);
/* Reads the text that pst_graph_print writes; `file` is a name for messages. The caller closes
 * *graph. */
pst_status pst_graph_parse(const char *text, const char *file, pst_graph **graph);
#endif
