/* cuDNN's backend graphs: add tensors and operations in order, then make a plan. The first error is
 * kept: later additions do nothing, and pst_dnn_plan_make returns that error. */
#ifndef PST_KERNELS_CUDA_DNN_H
#define PST_KERNELS_CUDA_DNN_H
#include "base/status.h"
#include <cudnn.h>

enum { PST_DNN_DIMS = 4, PST_DNN_MOST = 448, PST_DNN_OPS = 48 };

typedef cudnnBackendDescriptor_t pst_dnn_desc;

typedef struct {
    pst_dnn_desc desc[PST_DNN_MOST]; /* all descriptors, to be destroyed */
    pst_dnn_desc op[PST_DNN_OPS];
    uint32_t n, n_op;
    cudnnStatus_t error;
    const char *what; /* call that failed; NULL: none */
    char why[256];    /* cuDNN's message */
    int64_t next;     /* number of the next virtual tensor */
    /* bits 1 << CUDNN_NUMERICAL_NOTE_*: engines with one of these notes are rejected; by default
     * the nondeterministic ones */
    uint32_t avoid;
    /* 1: if no engine of heuristic mode A is usable, try those of the fallback mode */
    int fallback;
} pst_dnn_graph;

void pst_dnn_open(pst_dnn_graph *g);
void pst_dnn_close(pst_dnn_graph *g);

/* First number of virtual tensors; operands that a launch passes have smaller numbers. */
enum { PST_DNN_VIRTUAL = 1000 };
/* Adds an operand in memory, aligned to 16 bytes; by_value 1: a scalar in host memory, whose
 * address the launch passes. Strides count elements. */
pst_dnn_desc pst_dnn_operand(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                             const int64_t *dim, const int64_t *stride, int by_value);
/* The same for 4-byte elements that are aligned to 4 bytes only, because parts may begin at any
 * row. */
pst_dnn_desc pst_dnn_loose(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                           const int64_t *dim, const int64_t *stride);
/* Adds a virtual tensor: a result that only operations of the graph use, not stored in memory. */
pst_dnn_desc pst_dnn_virtual(pst_dnn_graph *g, cudnnDataType_t type, const int64_t *dim,
                             const int64_t *stride);

/* Adds y = mode(x, b, t), computed in `type`; b and t are NULL if the mode has fewer operands.
 * axis: dimension for GEN_INDEX, else -1. */
typedef struct {
    pst_dnn_desc x, b, t, y;
} pst_dnn_element;
void pst_dnn_pointwise(pst_dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                       int64_t axis, pst_dnn_element of);
/* Adds a matrix product: c [..,m,n] = a [..,m,k] b [..,k,n]. of: tensors int32 [batch,1,1,1] with
 * the actual sizes of each matrix; NULL: the sizes of the tensors. */
typedef struct {
    pst_dnn_desc m, n, k;
} pst_dnn_sizes;
void pst_dnn_matmul(pst_dnn_graph *g, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c,
                    pst_dnn_sizes of);
void pst_dnn_reduce(pst_dnn_graph *g, cudnnReduceTensorOp_t op, pst_dnn_desc x, pst_dnn_desc y);
/* Adds a convolution of images [b,channels,height,width] and weights [out,channels,h,w], with any
 * strides. `type`, one of CUDNN_BACKEND_OPERATION_CONVOLUTION_*_DESCRIPTOR, selects the result: y
 * from x and w, the gradient of x, or the gradient of w. Sums are fp32. */
typedef struct {
    int64_t stride, padding; /* along both dimensions */
} pst_dnn_window;
void pst_dnn_convolution(pst_dnn_graph *g, cudnnBackendDescriptorType_t type, pst_dnn_window window,
                         pst_dnn_desc x, pst_dnn_desc w, pst_dnn_desc y);
/* Adds y, a view of x with other dimensions and strides. */
void pst_dnn_reshape(pst_dnn_graph *g, pst_dnn_desc x, pst_dnn_desc y);

/* The device on which a plan is to run: that of a handle, or one that is described by its
 * properties (in tests). */
typedef struct {
    cudnnHandle_t handle;
    pst_dnn_desc properties; /* used if handle is NULL */
} pst_dnn_target;

typedef struct {
    pst_dnn_desc plan;
    uint64_t workspace; /* bytes, 16-byte aligned */
} pst_dnn_plan;

/* Makes a plan from the first engine that cuDNN proposes, that can be built, has none of the notes
 * in g->avoid, and needs at most most_workspace bytes. EINTERNAL: there is none. The graph may be
 * closed afterwards. */
pst_status pst_dnn_plan_make(pst_dnn_graph *g, const pst_dnn_target *target,
                             uint64_t most_workspace, pst_dnn_plan *plan);
void pst_dnn_plan_close(pst_dnn_plan *plan);

/* An entry of a list of plans, with the shape as key; plan.plan NULL: cuDNN has no plan. */
typedef struct pst_dnn_entry pst_dnn_entry;
struct pst_dnn_entry {
    pst_dnn_entry *next;
    pst_dnn_plan plan;
    uint64_t shape[];
};
/* Finds or adds the entry of a shape: `bytes` bytes, equal for all entries of a list, without
 * padding. *is_new 1: the caller has to make the plan. Pointers to entries stay valid. ENOMEM. */
pst_status pst_dnn_find(pst_dnn_entry **list, const void *shape, size_t bytes,
                        pst_dnn_entry **found, int *is_new);
void pst_dnn_forget(pst_dnn_entry **list);
/* Queues a plan on the handle's stream. number, operand: [n] numbers and addresses of the
 * operands. */
pst_status pst_dnn_run(cudnnHandle_t handle, const pst_dnn_plan *plan, uint32_t n,
                       const int64_t *number, void *const *operand, void *workspace);
#endif
