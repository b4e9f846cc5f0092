#include "kernels/cuda/dnn.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROPOSALS = 64, ALIGNMENT = 16 };

/* --- descriptors with an error that sticks ---------------------------------------------------- */

static void note(pst_dnn_graph *g, cudnnStatus_t error, const char *what) {
    if (error == CUDNN_STATUS_SUCCESS || g->what) return;
    g->error = error;
    g->what = what;
    cudnnGetLastErrorString(g->why, sizeof g->why);
}

static pst_status fail(const pst_dnn_graph *g) {
    return pst_fail(
        g->error == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ? PST_ENOMEM : PST_EINTERNAL,
        "cuDNN: %s: %s%s%s", g->what, cudnnGetErrorString(g->error), *g->why ? ": " : "", g->why);
}

void pst_dnn_open(pst_dnn_graph *g) {
    *g = (pst_dnn_graph){.next = PST_DNN_VIRTUAL,
                         .avoid = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
}

void pst_dnn_close(pst_dnn_graph *g) {
    while (g->n) cudnnBackendDestroyDescriptor(g->desc[--g->n]);
}

static pst_dnn_desc create(pst_dnn_graph *g, cudnnBackendDescriptorType_t type, const char *what) {
    pst_dnn_desc made = NULL;
    if (g->what) return NULL;
    if (g->n == PST_DNN_MOST) {
        note(g, CUDNN_STATUS_BAD_PARAM, "too many descriptors in a graph");
        return NULL;
    }
    note(g, cudnnBackendCreateDescriptor(type, &made), what);
    if (!g->what) g->desc[g->n++] = made;
    return made;
}

typedef struct {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
} attribute;

static void set(pst_dnn_graph *g, pst_dnn_desc d, attribute a, const void *value,
                const char *what) {
    if (!g->what) note(g, cudnnBackendSetAttribute(d, a.name, a.type, a.n, value), what);
}

static void set_desc(pst_dnn_graph *g, pst_dnn_desc d, cudnnBackendAttributeName_t name,
                     pst_dnn_desc value, const char *what) {
    if (value) set(g, d, (attribute){name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1}, &value, what);
}

static void finish(pst_dnn_graph *g, pst_dnn_desc d, const char *what) {
    if (!g->what) note(g, cudnnBackendFinalize(d), what);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Properties of a tensor in memory. */
typedef struct {
    int64_t alignment;
    int by_value, is_virtual;
} place;

static pst_dnn_desc tensor(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                           const int64_t *dim, const int64_t *stride, place at) {
    static const char what[] = "a tensor";
    pst_dnn_desc t = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    bool yes = true;
    set(g, t, (attribute){CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1}, &number, what);
    set(g, t, (attribute){CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1}, &type, what);
    set(g, t, (attribute){CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, PST_DNN_DIMS}, dim, what);
    set(g, t, (attribute){CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, PST_DNN_DIMS}, stride, what);
    set(g, t, (attribute){CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1}, &at.alignment,
        what);
    if (at.by_value)
        set(g, t, (attribute){CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1}, &yes, what);
    if (at.is_virtual)
        set(g, t, (attribute){CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1}, &yes, what);
    finish(g, t, what);
    return t;
}

pst_dnn_desc pst_dnn_operand(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                             const int64_t *dim, const int64_t *stride, int by_value) {
    return tensor(g, number, type, dim, stride,
                  (place){by_value ? (int64_t)sizeof(float) : ALIGNMENT, by_value, 0});
}

pst_dnn_desc pst_dnn_loose(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                           const int64_t *dim, const int64_t *stride) {
    return tensor(g, number, type, dim, stride, (place){sizeof(float), 0, 0});
}

pst_dnn_desc pst_dnn_virtual(pst_dnn_graph *g, cudnnDataType_t type, const int64_t *dim,
                             const int64_t *stride) {
    return tensor(g, g->next++, type, dim, stride, (place){ALIGNMENT, 0, 1});
}

/* --- operations ------------------------------------------------------------------------------- */

typedef struct {
    cudnnBackendAttributeName_t name;
    pst_dnn_desc value; /* NULL: absent */
} part;

static void finish_op(pst_dnn_graph *g, pst_dnn_desc op, const char *what) {
    finish(g, op, what);
    if (g->n_op == PST_DNN_OPS) note(g, CUDNN_STATUS_BAD_PARAM, "too many operations in a graph");
    if (!g->what) g->op[g->n_op++] = op;
}

static void add_op(pst_dnn_graph *g, cudnnBackendDescriptorType_t type, const part *list, size_t n,
                   const char *what) {
    pst_dnn_desc op = create(g, type, what);
    for (size_t i = 0; i < n; i++) set_desc(g, op, list[i].name, list[i].value, what);
    finish_op(g, op, what);
}
#define ADD_OP(g, type, what, ...)                                                                 \
    add_op(g, CUDNN_BACKEND_OPERATION_##type##_DESCRIPTOR, (const part[]){__VA_ARGS__},            \
           sizeof((const part[]){__VA_ARGS__}) / sizeof(part), what)

void pst_dnn_pointwise(pst_dnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                       int64_t axis, pst_dnn_element of) {
    static const char what[] = "adding an element-wise operation";
    pst_dnn_desc how = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(g, how, (attribute){CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1}, &mode, what);
    set(g, how, (attribute){CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1}, &type, what);
    if (axis >= 0)
        set(g, how, (attribute){CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1}, &axis, what);
    finish(g, how, what);
    ADD_OP(
        g, POINTWISE, what, {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of.x}, {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of.b},
        {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of.t}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of.y});
}

void pst_dnn_matmul(pst_dnn_graph *g, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c,
                    pst_dnn_sizes of) {
    static const char what[] = "adding a matrix product";
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    pst_dnn_desc how = create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(g, how, (attribute){CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1}, &type, what);
    finish(g, how, what);
    ADD_OP(g, MATMUL, what, {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
           {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b}, {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c},
           {CUDNN_ATTR_OPERATION_MATMUL_DESC, how},
           {CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, of.m},
           {CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, of.n},
           {CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, of.k});
}

void pst_dnn_reduce(pst_dnn_graph *g, cudnnReduceTensorOp_t kind, pst_dnn_desc x, pst_dnn_desc y) {
    static const char what[] = "a reduction";
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    pst_dnn_desc how = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(g, how, (attribute){CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1}, &type, what);
    set(g, how, (attribute){CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1},
        &kind, what);
    finish(g, how, what);
    ADD_OP(g, REDUCTION, what, {CUDNN_ATTR_OPERATION_REDUCTION_DESC, how},
           {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y});
}

static pst_dnn_desc convolution(pst_dnn_graph *g, pst_dnn_window window) {
    enum { SPACE = 2 };
    static const char what[] = "a convolution";
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t space = SPACE, ones[SPACE] = {1, 1},
                  stride[SPACE] = {window.stride, window.stride};
    const int64_t padding[SPACE] = {window.padding, window.padding};
    pst_dnn_desc how = create(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1}, &type,
        what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
        &mode, what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1}, &space,
        what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, SPACE}, ones, what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, SPACE}, stride,
        what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, SPACE}, padding,
        what);
    set(g, how, (attribute){CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, SPACE}, padding,
        what);
    finish(g, how, what);
    return how;
}

/* The attributes of the three operations have different names. */
void pst_dnn_convolution(pst_dnn_graph *g, cudnnBackendDescriptorType_t type, pst_dnn_window window,
                         pst_dnn_desc x, pst_dnn_desc w, pst_dnn_desc y) {
    static const char what[] = "a convolution";
    static const cudnnBackendAttributeName_t name[3][6] = {
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
    const cudnnBackendAttributeName_t *at = name[2];
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) at = name[0];
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) at = name[1];
    const float one = 1, none = 0;
    pst_dnn_desc how = convolution(g, window), op = create(g, type, what);
    set_desc(g, op, at[0], how, what);
    set_desc(g, op, at[1], x, what);
    set_desc(g, op, at[2], w, what);
    set_desc(g, op, at[3], y, what);
    set(g, op, (attribute){at[4], CUDNN_TYPE_FLOAT, 1}, &one, what);
    set(g, op, (attribute){at[5], CUDNN_TYPE_FLOAT, 1}, &none, what);
    finish_op(g, op, what);
}

void pst_dnn_reshape(pst_dnn_graph *g, pst_dnn_desc x, pst_dnn_desc y) {
    ADD_OP(g, RESHAPE, "adding a reshape operation", {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x},
           {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y});
}
#undef ADD_OP

/* --- plans ------------------------------------------------------------------------------------ */

/* Whether an engine has one of the notes in g->avoid. */
static int avoided(pst_dnn_graph *g, pst_dnn_desc config) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;
    pst_dnn_desc engine =
        create(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "reading the notes of an engine");
    if (!engine || cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine))
        return 1;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                                 notes))
        return 1;
    for (int64_t i = 0; i < n; i++)
        if (g->avoid >> notes[i] & 1) return 1;
    return 0;
}

/* 1: `made` is a plan for this configuration of an engine. */
static int try(pst_dnn_graph *g, const pst_dnn_target *target, pst_dnn_desc config, uint64_t most,
               pst_dnn_plan *made) {
    pst_dnn_desc plan = NULL;
    int64_t bytes = 0, n = 0;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    if (!status)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (!status && target->handle)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                                          1, &target->handle);
    if (!status && !target->handle)
        status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->properties);
    if (!status) status = cudnnBackendFinalize(plan);
    if (!status)
        status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &n, &bytes);
    if (!status && (uint64_t)bytes <= most) {
        *made = (pst_dnn_plan){plan, (uint64_t)bytes};
        return 1;
    }
    if (status) cudnnGetLastErrorString(g->why, sizeof g->why);
    else
        snprintf(g->why, sizeof g->why,
                 "a cuDNN execution plan needs %lld bytes of workspace, %llu are available",
                 (long long)bytes, (unsigned long long)most);
    g->error = status ? status : CUDNN_STATUS_NOT_SUPPORTED;
    if (plan) cudnnBackendDestroyDescriptor(plan);
    return 0;
}

static pst_dnn_desc operations(pst_dnn_graph *g, const pst_dnn_target *target) {
    static const char what[] = "creating the graph of operations";
    pst_dnn_desc all = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what);
    set(g, all, (attribute){CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_op},
        g->op, what);
    if (target->handle)
        set(g, all, (attribute){CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1},
            &target->handle, what);
    finish(g, all, what);
    return all;
}

/* Queries the proposals of one heuristic mode; returns their number. */
static int64_t propose(pst_dnn_graph *g, const pst_dnn_target *target, pst_dnn_desc all,
                       cudnnBackendHeurMode_t mode, pst_dnn_desc list[PROPOSALS]) {
    static const char what[] = "querying engines for the graph";
    int64_t n = 0;
    pst_dnn_desc ask = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
    set_desc(g, ask, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all, what);
    set(g, ask, (attribute){CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1}, &mode, what);
    if (!target->handle)
        set_desc(g, ask, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->properties, what);
    finish(g, ask, what);
    for (int i = 0; i < PROPOSALS; i++)
        list[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what);
    if (!g->what)
        note(g,
             cudnnBackendGetAttribute(ask, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSALS, &n, list),
             what);
    if (g->what) return 0;
    return n < PROPOSALS ? n : PROPOSALS;
}

/* Makes *plan from the first usable proposal; 0: none is usable. */
static int take(pst_dnn_graph *g, const pst_dnn_target *target, const pst_dnn_desc *list, int64_t n,
                uint64_t most_workspace, pst_dnn_plan *plan) {
    for (int64_t i = 0; i < n; i++) {
        if (avoided(g, list[i]))
            snprintf(g->why, sizeof g->why,
                     "the proposed engines are nondeterministic or round differently");
        else if (try(g, target, list[i], most_workspace, plan)) return 1;
    }
    return 0;
}

pst_status pst_dnn_plan_make(pst_dnn_graph *g, const pst_dnn_target *target,
                             uint64_t most_workspace, pst_dnn_plan *plan) {
    static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    pst_dnn_desc list[PROPOSALS], all = operations(g, target);
    for (int i = 0; i < 1 + g->fallback; i++) {
        int64_t n = propose(g, target, all, mode[i], list);
        if (g->what) return fail(g);
        g->error = CUDNN_STATUS_NOT_SUPPORTED;
        if (take(g, target, list, n, most_workspace, plan)) return PST_OK;
    }
    g->what = "no execution plan for the graph";
    return fail(g);
}

void pst_dnn_plan_close(pst_dnn_plan *plan) {
    if (plan->plan) cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
}

pst_status pst_dnn_find(pst_dnn_entry **list, const void *shape, size_t bytes,
                        pst_dnn_entry **found, int *is_new) {
    pst_dnn_entry *e = *list;
    while (e && memcmp(e->shape, shape, bytes)) e = e->next;
    *is_new = !e;
    if (!e) {
        if (!(e = calloc(1, sizeof *e + bytes)))
            return pst_fail(PST_ENOMEM, "no memory for a cuDNN plan");
        memcpy(e->shape, shape, bytes);
        e->next = *list;
        *list = e;
    }
    *found = e;
    return PST_OK;
}

void pst_dnn_forget(pst_dnn_entry **list) {
    for (pst_dnn_entry *e = *list, *next; e; e = next) {
        next = e->next;
        pst_dnn_plan_close(&e->plan);
        free(e);
    }
    *list = NULL;
}

pst_status pst_dnn_run(cudnnHandle_t handle, const pst_dnn_plan *plan, uint32_t n,
                       const int64_t *number, void *const *operand, void *workspace) {
    static const char what[] = "running a plan";
    pst_dnn_graph g;
    pst_dnn_open(&g);
    pst_dnn_desc pack = create(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what);
    set(&g, pack, (attribute){CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n}, number,
        what);
    set(&g, pack, (attribute){CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n},
        operand, what);
    set(&g, pack, (attribute){CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1},
        &workspace, what);
    finish(&g, pack, what);
    if (!g.what) note(&g, cudnnBackendExecute(handle, plan->plan, pack), what);
    pst_dnn_close(&g);
    return g.what ? fail(&g) : PST_OK;
}
