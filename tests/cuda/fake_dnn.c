/* cuDNN's backend graphs, computed operation by operation in double: what a graph means, on the
 * host's processor. Of the engines that it proposes, the first says of itself that it gives other
 * bits each time, and the second that it uses tensor cores. See fake.h. */
#include "cuda/fake.h"
#include "base/dtype.h"
#include <cudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 4, MOST_ATTRIBUTES = 12 };

/* Attributes as they were set; those that are descriptors are held. */
typedef struct desc {
    cudnnBackendDescriptorType_t type;
    int held, number; /* number: of an engine or its configuration */
    uint32_t n;
    struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t n;
        void *data;
    } at[MOST_ATTRIBUTES];
    double *value; /* of a virtual tensor while a plan runs, by its strides */
    struct desc *view;
} desc;

static void release(desc *d) {
    if (--d->held) return;
    for (uint32_t i = 0; i < d->n; i++) {
        for (int64_t k = 0; d->at[i].type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < d->at[i].n; k++)
            release(((desc **)d->at[i].data)[k]);
        free(d->at[i].data);
    }
    fake.live--;
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) fake_retire(d, sizeof *d, 1);
    else free(d);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *to) {
    desc *d = calloc(1, sizeof *d);
    d->type = type;
    d->held = 1;
    fake.live++;
    *to = d;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
    release(d);
    return CUDNN_STATUS_SUCCESS;
}

static size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_INT64: return 8;
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    default: return 4;
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *value) {
    desc *d = of;
    if (d->n == MOST_ATTRIBUTES) return CUDNN_STATUS_BAD_PARAM;
    size_t bytes = (size_t)n * size_of(type);
    d->at[d->n].name = name;
    d->at[d->n].type = type;
    d->at[d->n].n = n;
    memcpy(d->at[d->n++].data = malloc(bytes), value, bytes);
    for (int64_t k = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && k < n; k++)
        ((desc *const *)value)[k]->held++;
    return CUDNN_STATUS_SUCCESS;
}

static const void *find(const desc *d, cudnnBackendAttributeName_t name) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->at[i].name == name) return d->at[i].data;
    return NULL;
}

static int64_t count(const desc *d, cudnnBackendAttributeName_t name) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->at[i].name == name) return d->at[i].n;
    return 0;
}

static desc *child(const desc *d, cudnnBackendAttributeName_t name) {
    desc *const *found = find(d, name);
    return found ? *found : NULL;
}

static int whole(const desc *d, cudnnBackendAttributeName_t name) {
    const int *found = find(d, name);
    return found ? *found : -1;
}

/* Whether heads of a product's first operand share those of its second. */
static int shares_heads(const desc *op) {
    const desc *a = child(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
               *b = child(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    if (op->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return 0;
    return ((const int64_t *)find(a, CUDNN_ATTR_TENSOR_DIMENSIONS))[1] !=
           ((const int64_t *)find(b, CUDNN_ATTR_TENSOR_DIMENSIONS))[1];
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t of) {
    const desc *d = of;
    if (d->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
    desc *const *op = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    int refuses = fake_dnn.refuses;
    for (int64_t i = 0; fake_dnn.even && i < count(d, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
        refuses |= shares_heads(op[i]);
    return refuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t of,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t asked, int64_t *n,
                                       void *to) {
    const desc *d = of;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        desc *all = child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), **list = to;
        for (*n = 0; *n < 3 && *n < asked; ++*n) {
            list[*n]->number = (int)*n;
            cudnnBackendSetAttribute(list[*n], name, type, 1, &all);
        }
    } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
        (*(desc **)to)->number = d->number;
        *n = 1;
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        ((cudnnBackendNumericalNote_t *)to)[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        ((cudnnBackendNumericalNote_t *)to)[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        *n = 2 - d->number;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)to = fake_dnn.workspace;
        *n = 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* --- values ----------------------------------------------------------------------------------- */

typedef struct {
    const int64_t *number;
    void *const *operand;
    int64_t n;
} pack;

/* Whether two elements share a place. A tensor that lies nowhere may have any strides: those of
 * dout * out in the backward of attention are as in NVIDIA's cudnn-frontend. */
static int overlaps(const int64_t *dim, const int64_t *stride) {
    for (int i = 0; i < DIMS; i++) {
        int64_t below = 0; /* the furthest that smaller strides reach */
        for (int k = 0; k < DIMS; k++)
            if (k != i && dim[k] > 1 && stride[k] <= stride[i]) below += (dim[k] - 1) * stride[k];
        if (dim[i] > 1 && below >= stride[i]) return 1;
    }
    return 0;
}

static uint64_t offset(const desc *t, const int64_t *index) {
    const int64_t *dim = find(t, CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *stride = find(t, CUDNN_ATTR_TENSOR_STRIDES);
    const int64_t packed[DIMS] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
    int64_t at = 0;
    if (find(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && overlaps(dim, stride)) stride = packed;
    for (int i = 0; i < DIMS; i++) at += dim[i] == 1 ? 0 : index[i] * stride[i];
    return (uint64_t)at;
}

static double *values(desc *t) {
    const int64_t *dim = find(t, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t last[DIMS] = {dim[0] - 1, dim[1] - 1, dim[2] - 1, dim[3] - 1};
    if (!t->value) t->value = calloc(offset(t, last) + 1, sizeof *t->value);
    return t->value;
}

static void *memory(const desc *t, const pack *p) {
    const int64_t *number = find(t, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    for (int64_t i = 0; i < p->n; i++)
        if (p->number[i] == *number) return p->operand[i];
    return NULL;
}

/* Every operand in memory lies as its tensor says. */
static int lies_well(const desc *op, const pack *p) {
    for (uint32_t i = 0; i < op->n; i++) {
        if (op->at[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        const desc *t = *(desc **)op->at[i].data;
        const int64_t *alignment = find(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
        if (alignment && !find(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
            (uintptr_t)memory(t, p) % (uint64_t)*alignment)
            return 0;
    }
    return 1;
}

static double rounded(int type, double x) {
    if (type == CUDNN_DATA_BFLOAT16) return pst_f32_from_bf16(pst_bf16_from_f32((float)x));
    if (type == CUDNN_DATA_HALF) return pst_f32_from_f16(pst_f16_from_f32((float)x));
    return x;
}

static double get(desc *t, const pack *p, const int64_t *index) {
    uint64_t at = offset(t, index);
    while (t->view) t = t->view;
    if (find(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) return values(t)[at];
    int type = whole(t, CUDNN_ATTR_TENSOR_DATA_TYPE);
    const void *from = memory(t, p);
    if (type == CUDNN_DATA_FLOAT) return ((const float *)from)[at];
    if (type == CUDNN_DATA_INT32) return ((const int32_t *)from)[at];
    return pst_f32_from_half(type == CUDNN_DATA_HALF ? PST_F16 : PST_BF16,
                             ((const uint16_t *)from)[at]);
}

static void put(desc *t, const pack *p, const int64_t *index, double x) {
    uint64_t at = offset(t, index);
    int type = whole(t, CUDNN_ATTR_TENSOR_DATA_TYPE);
    if (find(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) values(t)[at] = rounded(type, x);
    else if (type == CUDNN_DATA_FLOAT) ((float *)memory(t, p))[at] = (float)x;
    else
        ((uint16_t *)memory(t, p))[at] =
            pst_half_from_f32(type == CUDNN_DATA_HALF ? PST_F16 : PST_BF16, (float)x);
}

/* The next index in these dimensions; 0 behind the last. */
static int next(int64_t *index, const int64_t *dim) {
    for (int i = DIMS - 1; i >= 0; i--) {
        if (++index[i] < dim[i]) return 1;
        index[i] = 0;
    }
    return 0;
}

/* --- operations ------------------------------------------------------------------------------- */

static double pointwise(int mode, double x, double b, double t) {
    switch (mode) {
    case CUDNN_POINTWISE_IDENTITY: return x;
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return exp(x);
    case CUDNN_POINTWISE_LOG: return log(x);
    case CUDNN_POINTWISE_CMP_GT: return x > b;
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_CMP_LT: return x < b;
    case CUDNN_POINTWISE_LOGICAL_AND: return x != 0 && b != 0;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: return NAN;
    }
}

static void run_pointwise(const desc *op, const pack *p) {
    desc *how = child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    desc *x = child(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
         *b = child(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    desc *t = child(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
         *y = child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    int mode = whole(how, CUDNN_ATTR_POINTWISE_MODE);
    const int64_t *axis = find(how, CUDNN_ATTR_POINTWISE_AXIS);
    int64_t index[DIMS] = {0};
    do {
        if (mode == CUDNN_POINTWISE_GEN_INDEX) put(y, p, index, (double)index[*axis]);
        else
            put(y, p, index,
                pointwise(mode, get(x, p, index), b ? get(b, p, index) : 0,
                          t ? get(t, p, index) : 0));
    } while (next(index, find(y, CUDNN_ATTR_TENSOR_DIMENSIONS)));
}

/* A size of the matrix at this index that is its own, or `usual`. */
static int64_t size_at(const desc *op, cudnnBackendAttributeName_t name, const pack *p,
                       const int64_t *index, int64_t usual) {
    desc *own = child(op, name);
    return own ? (int64_t)get(own, p, index) : usual;
}

/* Behind a size of its own a product holds anything. Adjacent heads of a share those of b, if it
 * has fewer. */
static void run_matmul(const desc *op, const pack *p) {
    desc *a = child(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
         *b = child(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    desc *c = child(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const int64_t *dim = find(a, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t shared = dim[1] / ((const int64_t *)find(b, CUDNN_ATTR_TENSOR_DIMENSIONS))[1];
    int64_t index[DIMS] = {0};
    do {
        int64_t m =
            size_at(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, p, index, INT64_MAX);
        int64_t n =
            size_at(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, p, index, INT64_MAX);
        int64_t depth =
            size_at(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, p, index, dim[3]);
        double sum = index[2] < m && index[3] < n ? 0 : NAN;
        for (int64_t k = 0; k < depth; k++) {
            const int64_t left[DIMS] = {index[0], index[1], index[2], k},
                          right[DIMS] = {index[0], index[1] / shared, k, index[3]};
            sum += get(a, p, left) * get(b, p, right);
        }
        put(c, p, index, sum);
    } while (next(index, find(c, CUDNN_ATTR_TENSOR_DIMENSIONS)));
}

static void run_reduction(const desc *op, const pack *p) {
    desc *x = child(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
         *y = child(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    int max = whole(child(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                    CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
    const int64_t *dim = find(x, CUDNN_ATTR_TENSOR_DIMENSIONS);
    int64_t index[DIMS] = {0};
    do {
        int64_t at[DIMS];
        memcpy(at, index, sizeof at);
        double all = max ? -INFINITY : 0;
        for (at[3] = 0; at[3] < dim[3]; at[3]++)
            all = max ? fmax(all, get(x, p, at)) : all + get(x, p, at);
        put(y, p, index, all);
    } while (next(index, find(y, CUDNN_ATTR_TENSOR_DIMENSIONS)));
}

/* x[b,C,H,W], w[O,C,h,w], y[b,O,..]: of the three, the one that `made` says is a sum over the
 * others' products. */
static void run_convolution(const desc *op, const pack *p,
                            const cudnnBackendAttributeName_t name[4], int made) {
    desc *how = child(op, name[0]),
         *t[3] = {child(op, name[1]), child(op, name[2]), child(op, name[3])};
    const int64_t *dim_x = find(t[0], CUDNN_ATTR_TENSOR_DIMENSIONS),
                  *dim_w = find(t[1], CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t *dim_y = find(t[2], CUDNN_ATTR_TENSOR_DIMENSIONS);
    const int64_t *stride = find(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const int64_t *padding = find(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const int64_t *dim = find(t[made], CUDNN_ATTR_TENSOR_DIMENSIONS);
    double *sum = calloc((size_t)(dim[0] * dim[1] * dim[2] * dim[3]), sizeof *sum);
    int64_t y[DIMS] = {0}, to[DIMS] = {0}, n = 0;
    do {
        int64_t w[DIMS] = {0};
        w[0] = y[1];
        do {
            int64_t x[DIMS] = {y[0], w[1], y[2] * stride[0] + w[2] - padding[0],
                               y[3] * stride[1] + w[3] - padding[1]};
            const int64_t *index[3] = {x, w, y}, *at = index[made];
            if (x[2] < 0 || x[2] >= dim_x[2] || x[3] < 0 || x[3] >= dim_x[3]) continue;
            double product = 1;
            for (int i = 0; i < 3; i++) product *= i == made ? 1 : get(t[i], p, index[i]);
            sum[((at[0] * dim[1] + at[1]) * dim[2] + at[2]) * dim[3] + at[3]] += product;
        } while (next(w, dim_w) && w[0] == y[1]);
    } while (next(y, dim_y));
    do put(t[made], p, to, sum[n++]);
    while (next(to, dim));
    free(sum);
}

static int run_any_convolution(const desc *op, const pack *p) {
    static const cudnnBackendAttributeName_t name[3][4] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};
    static const cudnnBackendDescriptorType_t type[3] = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
    for (int made = 0; made < 3; made++)
        if (op->type == type[made]) {
            run_convolution(op, p, name[made], made);
            return 1;
        }
    return 0;
}

static void run(const desc *op, const pack *p) {
    if (run_any_convolution(op, p)) return;
    if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) run_pointwise(op, p);
    else if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) run_matmul(op, p);
    else if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) run_reduction(op, p);
    else
        child(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)->view =
            child(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
}

/* What virtual tensors held, so that the next run begins anew. */
static void forget(const desc *op) {
    for (uint32_t i = 0; i < op->n; i++) {
        if (op->at[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        desc *t = *(desc **)op->at[i].data;
        free(t->value);
        t->value = NULL;
        t->view = NULL;
    }
}

/* What a plan is run with: operands by address, numbers that are passed by value as they are now.
 */
enum { MOST_OPERANDS = 16 };
typedef struct {
    desc *plan;
    int64_t number[MOST_OPERANDS], n;
    void *operand[MOST_OPERANDS], *workspace;
    float value[MOST_OPERANDS];
    int by_value[MOST_OPERANDS];
} execution;

static int is_by_value(const desc *op, int64_t number) {
    for (uint32_t i = 0; i < op->n; i++) {
        if (op->at[i].type != CUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        const desc *t = *(desc *const *)op->at[i].data;
        const int64_t *own = find(t, CUDNN_ATTR_TENSOR_UNIQUE_ID);
        if (own && *own == number && find(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) return 1;
    }
    return 0;
}

static void execute(const void *arguments) {
    const execution *e = arguments;
    const desc *config = child(e->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const desc *all = child(config, CUDNN_ATTR_ENGINEHEUR_RESULTS);
    desc *const *op = find(all, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    void *operand[MOST_OPERANDS];
    const pack p = {e->number, operand, e->n};
    for (int64_t i = 0; i < e->n; i++)
        operand[i] = e->by_value[i] ? (void *)(uintptr_t)&e->value[i] : e->operand[i];
    memset(e->workspace, 0, (size_t)fake_dnn.workspace);
    fake_dnn.runs++;
    fake_dnn.ran = config->number;
    for (int64_t i = 0; i < count(all, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++) run(op[i], &p);
    for (int64_t i = 0; i < count(all, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++) forget(op[i]);
}

static void keep_operand(execution *e, int64_t i, const pack *p, const desc *all) {
    desc *const *op = find(all, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    e->number[i] = p->number[i];
    e->operand[i] = p->operand[i];
    for (int64_t k = 0; k < count(all, CUDNN_ATTR_OPERATIONGRAPH_OPS); k++)
        e->by_value[i] |= is_by_value(op[k], p->number[i]);
    if (!e->by_value[i]) return;
    memcpy(&e->value[i], p->operand[i], sizeof e->value[i]);
    e->operand[i] = NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t dnn, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant) {
    const desc *config = child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const desc *all = child(config, CUDNN_ATTR_ENGINEHEUR_RESULTS);
    desc *const *op = find(all, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const pack p = {find(variant, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    find(variant, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
                    count(variant, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)};
    void *const *workspace = find(variant, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    execution e = {.plan = plan, .n = p.n, .workspace = *workspace};
    if ((!config->number && !fake_dnn.loose) || (uintptr_t)*workspace % 256 || p.n > MOST_OPERANDS)
        return CUDNN_STATUS_EXECUTION_FAILED;
    for (int64_t i = 0; i < count(all, CUDNN_ATTR_OPERATIONGRAPH_OPS); i++)
        if (!lies_well(op[i], &p)) return CUDNN_STATUS_BAD_PARAM;
    for (int64_t i = 0; i < p.n; i++) keep_operand(&e, i, &p, all);
    fake_launch(*(cudaStream_t *)dnn, 0, execute, &e, sizeof e);
    return CUDNN_STATUS_SUCCESS;
}
