/* cuDNN's backend graphs in C: add tensors and operations in order, then make a plan. Errors are
 * sticky: pst_dnn_plan_make returns the first one, and additions after it do nothing. */
#ifndef PST_KERNELS_CUDA_DNN_H
#define PST_KERNELS_CUDA_DNN_H
#include "base/status.h"
#include <cudnn.h>

enum { PST_DNN_DIMS = 4, PST_DNN_MOST = 448, PST_DNN_OPS = 48 };

typedef cudnnBackendDescriptor_t pst_dnn_desc;

typedef struct {
    pst_dnn_desc desc[PST_DNN_MOST]; /* all of them, to be destroyed */
    pst_dnn_desc op[PST_DNN_OPS];
    uint32_t n, n_op;
    cudnnStatus_t error;
    const char *what; /* step that failed; NULL: none */
    char why[256];    /* the library's message */
    int64_t next;     /* number of the next virtual tensor */
    uint32_t avoid;   /* engines with these notes are rejected, bits 1 << CUDNN_NUMERICAL_NOTE_*; by
                         default the nondeterministic ones */
    int fallback;     /* if no engine of heuristic mode A works, try those of the fallback mode */
} pst_dnn_graph;

void pst_dnn_open(pst_dnn_graph *g);
void pst_dnn_close(pst_dnn_graph *g);

/* Ids of operands that a launch passes; ids of virtual tensors are larger. */
enum { PST_DNN_VIRTUAL = 1000 };
/* An operand in memory, 16-byte aligned, or with by_value a number that a launch passes by its
 * address. Strides count elements. */
pst_dnn_desc pst_dnn_operand(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                             const int64_t *dim, const int64_t *stride, int by_value);
/* Likewise with 4-byte elements, aligned to one element only: parts begin at any row. */
pst_dnn_desc pst_dnn_loose(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                           const int64_t *dim, const int64_t *stride);
/* A virtual tensor: only operations of the graph use it. */
pst_dnn_desc pst_dnn_virtual(pst_dnn_graph *g, cudnnDataType_t type, const int64_t *dim,
                             const int64_t *stride);

/* y = mode(x, b, t), computed in this type; b and t are NULL if the mode has fewer operands. axis:
 * for GEN_INDEX, else -1. */
typedef struct {
    pst_dnn_desc x, b, t, y;
} pst_dnn_element;
void pst_dnn_pointwise(pst_dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                       int64_t axis, pst_dnn_element of);
/* c [..,m,n] = a [..,m,k] b [..,k,n]. of: actual sizes of each matrix, int32 [batch,1,1,1]; NULL:
 * the tensors' sizes. */
typedef struct {
    pst_dnn_desc m, n, k;
} pst_dnn_sizes;
void pst_dnn_matmul(pst_dnn_graph *g, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c,
                    pst_dnn_sizes of);
void pst_dnn_reduce(pst_dnn_graph *g, cudnnReduceTensorOp_t op, pst_dnn_desc x, pst_dnn_desc y);
/* Convolution of images [b,channels,height,width] and weights [out,channels,h,w], with any strides:
 * y from x and w, x from y and w, or w from x and y, by `type`, one of
 * CUDNN_BACKEND_OPERATION_CONVOLUTION_*_DESCRIPTOR. Sums are fp32. */
typedef struct {
    int64_t stride, padding; /* along both dimensions */
} pst_dnn_window;
void pst_dnn_convolution(pst_dnn_graph *g, cudnnBackendDescriptorType_t type, pst_dnn_window window,
                         pst_dnn_desc x, pst_dnn_desc w, pst_dnn_desc y);
/* y is x, viewed with other dimensions and strides. */
void pst_dnn_reshape(pst_dnn_graph *g, pst_dnn_desc x, pst_dnn_desc y);

/* Where a plan is to run: the device of a handle, or a device that is known only by its properties
 * (in tests). */
typedef struct {
    cudnnHandle_t handle;
    pst_dnn_desc properties; /* used if handle is NULL */
} pst_dnn_target;

typedef struct {
    pst_dnn_desc plan;
    uint64_t workspace; /* bytes, 16-byte aligned */
} pst_dnn_plan;

/* Takes the library's first proposal that can be built, has none of the notes to avoid, and fits in
 * that workspace. EINTERNAL: there is none. The graph may be closed afterwards. */
pst_status pst_dnn_plan_make(pst_dnn_graph *g, const pst_dnn_target *target,
                             uint64_t most_workspace, pst_dnn_plan *plan);
void pst_dnn_plan_close(pst_dnn_plan *plan);

/* A plan in a list, by its shape; plan.plan NULL: the library has none. */
typedef struct pst_dnn_entry pst_dnn_entry;
struct pst_dnn_entry {
    pst_dnn_entry *next;
    pst_dnn_plan plan;
    uint64_t shape[];
};
/* Finds or adds the entry of a shape; all shapes of a list have the same size and no padding.
 * *is_new: the caller has to make its plan. Pointers to entries stay valid. ENOMEM. */
pst_status pst_dnn_find(pst_dnn_entry **list, const void *shape, size_t bytes,
                        pst_dnn_entry **found, int *is_new);
void pst_dnn_forget(pst_dnn_entry **list);
/* Queues on the handle's stream. */
pst_status pst_dnn_run(cudnnHandle_t handle, const pst_dnn_plan *plan, uint32_t n,
                       const int64_t *number, void *const *operand, void *workspace);
#endif
