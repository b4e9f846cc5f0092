/* See product.h: descriptors, the table of shapes, launches, and reading and writing of chosen
 * algorithms. */
#include "kernels/cuda/product_parts.h"
#include "base/grow.h"
#include "kernels/cuda/choices.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pst_cuda_products {
    pst_cuda_entry *list;
    uint32_t n;
    size_t room;
    pst_choice *given;
    uint32_t n_given;
    int measures;
};

_Static_assert(sizeof(pst_cuda_shape) == 5 * sizeof(uint64_t) + 8 * sizeof(uint32_t),
               "pst_cuda_shape must have no padding");
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == PST_CHOICE_WORDS * sizeof(uint64_t),
               "a choice must hold a cublasLtMatmulAlgo_t");

static cudaDataType_t type_of(uint32_t dtype) {
    switch (dtype) {
    case PST_BF16: return CUDA_R_16BF;
    case PST_F16: return CUDA_R_16F;
    case PST_F8: return CUDA_R_8F_E4M3;
    default: return CUDA_R_32F;
    }
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void entry_close(pst_cuda_entry *e) {
    if (e->d) cublasLtMatrixLayoutDestroy(e->d);
    if (e->b) cublasLtMatrixLayoutDestroy(e->b);
    if (e->a) cublasLtMatrixLayoutDestroy(e->a);
    if (e->product) cublasLtMatmulDescDestroy(e->product);
}

static cublasStatus_t layout(cublasLtMatrixLayout_t *to, cudaDataType_t type, uint64_t rows,
                             uint64_t columns, uint64_t pitch) {
    return cublasLtMatrixLayoutCreate(to, type, rows, columns, (int64_t)(pitch ? pitch : rows));
}

static cublasStatus_t set(pst_cuda_entry *e, cublasLtMatmulDescAttributes_t what, int32_t value) {
    return cublasLtMatmulDescSetAttribute(e->product, what, &value, sizeof value);
}

/* The library's proposals depend on the alignment of a vector that is not allocated yet. */
static const void *promise(void) { return (const void *)(uintptr_t)PST_CUDA_OPERAND_ALIGNMENT; }

/* The epilogue. A bias has the stored type; sums over B have the type of D, fp32. */
static cublasStatus_t describe_end(pst_cuda_entry *e) {
    const pst_cuda_shape *s = &e->shape;
    const int64_t rows = (int64_t)s->m;
    uint32_t end = s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (s->gelu) end = s->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (s->sums_b) end = CUBLASLT_EPILOGUE_BGRADB;
    pst_dtype vector = s->sums_b ? PST_F32 : pst_dtype_stored((pst_dtype)s->in);
    cublasStatus_t status = set(e, CUBLASLT_MATMUL_DESC_EPILOGUE, (int32_t)end);
    if (!status && (s->bias || s->sums_b))
        status = set(e, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)type_of(vector));
    if (!status && (s->bias || s->sums_b))
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_BIAS_POINTER, promise());
    if (!status && s->gelu)
        status = cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                                &rows, sizeof rows);
    if (!status && s->gelu)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, promise());
    return status;
}

/* fp32 is computed in fp32 unless TF32 was requested. */
static pst_status describe_product(pst_cuda_entry *e) {
    const pst_cuda_shape *s = &e->shape;
    const int8_t fast = 1;
    cublasComputeType_t compute =
        s->in == PST_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType_t in = type_of(s->in), second = s->wide ? CUDA_R_8F_E5M2 : in;
    cublasStatus_t status = cublasLtMatmulDescCreate(&e->product, compute, CUDA_R_32F);
    if (!status)
        status = set(e, CUBLASLT_MATMUL_DESC_TRANSA, s->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!status)
        status = set(e, CUBLASLT_MATMUL_DESC_TRANSB, s->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!status && s->fast)
        status = cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                                sizeof fast);
    if (!status && (s->bias || pst_cuda_is_fused(s))) status = describe_end(e);
    if (!status && s->trans_a) status = layout(&e->a, in, s->k, s->m, 0);
    if (!status && !s->trans_a) status = layout(&e->a, in, s->m, s->k, 0);
    if (!status && s->trans_b) status = layout(&e->b, second, s->n, s->k, s->pitch_b);
    if (!status && !s->trans_b) status = layout(&e->b, second, s->k, s->n, s->pitch_b);
    if (!status) status = layout(&e->d, type_of(s->out), s->m, s->n, 0);
    return pst_cublas_status(status, "creating descriptors of a matrix product");
}

/* --- choosing an algorithm ------------------------------------------------------------------- */

/* The key of a choice: device, library and shape. */
static pst_status name_choice(const pst_cuda_device *d, const pst_cuda_entry *e,
                              pst_choice *choice) {
    char shape[96];
    struct cudaDeviceProp about;
    pst_cuda_product_name(&e->shape, shape, sizeof shape);
    PST_TRY(pst_cuda_status(cudaGetDeviceProperties(&about, d->ordinal),
                            "reading properties of the device"));
    snprintf(choice->of, sizeof choice->of, "%.80s x%u cublasLt %zu %s", about.name, d->processors,
             cublasLtGetVersion(), shape);
    return PST_OK;
}

static int is_apart(const cublasLtMatmulAlgo_t *algo) {
    const uint8_t *byte = (const uint8_t *)algo;
    size_t i = 0;
    while (i < sizeof *algo && byte[i] == PST_CUDA_APART) i++;
    return i == sizeof *algo;
}

/* *Takes the algorithm from the given list; *found: there was one. */
static pst_status choose_given(pst_cuda_device *d, pst_cuda_entry *e, int *found) {
    const struct pst_cuda_products *p = d->products;
    cublasLtMatmulHeuristicResult_t check;
    cublasLtMatmulAlgo_t algo;
    uint64_t words[PST_CHOICE_WORDS];
    pst_choice own;
    *found = 0;
    if (!p->n_given) return PST_OK;
    PST_TRY(name_choice(d, e, &own));
    const pst_choice *given = pst_choice_find(p->given, p->n_given, own.of);
    if (!given) return PST_OK;
    PST_TRY(pst_choice_read(given, words));
    memcpy(&algo, words, sizeof algo);
    *found = 1;
    e->apart = pst_cuda_is_fused(&e->shape) && is_apart(&algo);
    if (e->apart) return PST_OK;
    if (cublasLtMatmulAlgoCheck(d->lt, e->product, e->a, e->b, e->d, e->d, &algo, &check) ||
        check.workspaceSize > PST_CUDA_USABLE)
        return pst_fail(PST_EINPUT,
                        "the plan's algorithm for '%s' does not run on this GPU; remove it from "
                        "the plan to choose another one",
                        own.of);
    e->algo = algo;
    return PST_OK;
}

static const pst_cuda_entry *entry_of(const pst_cuda_device *d, const pst_cuda_shape *shape) {
    const struct pst_cuda_products *p = d->products;
    for (uint32_t i = 0; p && i < p->n; i++)
        if (!memcmp(&p->list[i].shape, shape, sizeof *shape)) return &p->list[i];
    return NULL;
}

/* Without measuring, the first of these that runs is taken. */
enum { PROPOSALS = 4 };

/* If the library has no fused algorithm, that is no failure: a separate kernel does the rest. */
static pst_status choose_fused(pst_cuda_device *d, pst_cuda_entry *e) {
    const pst_cuda_shape shape = pst_cuda_unfused(e->shape);
    const pst_cuda_entry *plain = entry_of(d, &shape);
    cublasLtMatmulHeuristicResult_t list[PROPOSALS];
    int n = 0;
    if (!plain)
        return pst_fail(PST_EINTERNAL,
                        "internal error: a fused matrix product was prepared before the plain one");
    if (d->products->measures) return pst_cuda_product_measure_fused(d, e, plain);
    e->apart = pst_cuda_product_ask(d, e, PROPOSALS, list, &n) || !n;
    if (!e->apart) e->algo = list[0].algo;
    return PST_OK;
}

static pst_status choose(pst_cuda_device *d, pst_cuda_entry *e) {
    cublasLtMatmulHeuristicResult_t list[PROPOSALS];
    int n = 0, found;
    PST_TRY(choose_given(d, e, &found));
    if (found) return PST_OK;
    if (pst_cuda_is_fused(&e->shape)) return choose_fused(d, e);
    if (d->products->measures) return pst_cuda_product_measure(d, e);
    PST_TRY(pst_cuda_product_propose(d, e, PROPOSALS, list, &n));
    e->algo = list[0].algo;
    return PST_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

static pst_status open_table(pst_cuda_device *d) {
    if (!d->products) d->products = calloc(1, sizeof *d->products);
    return d->products ? PST_OK
                       : pst_fail(PST_ENOMEM, "no memory for the table of matrix products");
}

static pst_status add(pst_cuda_device *d, const pst_cuda_shape *shape, pst_cuda_entry **made) {
    PST_TRY(open_table(d));
    struct pst_cuda_products *p = d->products;
    PST_TRY(
        pst_grow(&p->list, sizeof *p->list, p->n, &p->room, "for the table of matrix products"));
    pst_cuda_entry *e = &p->list[p->n];
    *e = (pst_cuda_entry){.shape = *shape};
    pst_status status = describe_product(e);
    if (status == PST_OK) status = choose(d, e);
    if (status != PST_OK) {
        entry_close(e);
        return status;
    }
    p->n++;
    *made = e;
    return PST_OK;
}

/* A model has about twenty shapes. */
static pst_status find(pst_cuda_device *d, const pst_cuda_shape *shape, pst_cuda_entry **found) {
    *found = (pst_cuda_entry *)(uintptr_t)entry_of(d, shape);
    return *found ? PST_OK : add(d, shape, found);
}

pst_status pst_cuda_product_prepare(pst_device *device, const pst_cuda_shape *shape) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    const pst_cuda_shape plain = pst_cuda_unfused(*shape);
    pst_cuda_entry *e;
    PST_TRY(pst_cuda_status(cudaSetDevice(d->ordinal), "the GPU"));
    PST_TRY(find(d, &plain, &e));
    return pst_cuda_is_fused(shape) ? find(d, shape, &e) : PST_OK;
}

pst_status pst_cuda_product_fuses(pst_device *device, const pst_cuda_shape *shape, int *fuses) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    if (!entry_of(d, shape)) PST_TRY(pst_cuda_product_prepare(device, shape));
    *fuses = !entry_of(d, shape)->apart;
    return PST_OK;
}

pst_status pst_cuda_product(pst_device *device, const pst_cuda_shape *shape,
                            const pst_cuda_operands *of) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    pst_cuda_entry *e;
    PST_TRY(find(d, shape, &e));
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (shape->bias || shape->sums_b)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                        shape->bias ? of->bias : of->sums);
    if (!status && shape->gelu)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, of->aux);
    if (!status) status = pst_cuda_product_run(d, e, &e->algo, of);
    PST_TRY(pst_cublas_status(status, "a matrix product"));
    return pst_cuda_launched("a matrix product");
}

pst_status pst_cuda_product_scaled(pst_device *device, const pst_cuda_shape *shape,
                                   const pst_cuda_operands *of) {
    pst_cuda_entry *e;
    PST_TRY(find((pst_cuda_device *)device, shape, &e));
    cublasStatus_t status =
        pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of->a_inverse);
    if (!status)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of->b_inverse);
    PST_TRY(pst_cublas_status(status, "scales of a matrix product"));
    return pst_cuda_product(device, shape, of);
}

void pst_cuda_products_close(pst_cuda_device *device) {
    struct pst_cuda_products *p = device->products;
    for (uint32_t i = 0; p && i < p->n; i++) entry_close(&p->list[i]);
    if (p) {
        free(p->list);
        free(p->given);
    }
    free(p);
    device->products = NULL;
}

/* --- choices ---------------------------------------------------------------------------------- */

static pst_status give(pst_device *device, int measures, const pst_choice *list, uint32_t n) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    pst_choice *copy = n ? malloc(n * sizeof *copy) : NULL;
    int found;
    if (n && !copy) return pst_fail(PST_ENOMEM, "no memory for algorithms of matrix products");
    if (n) memcpy(copy, list, n * sizeof *copy);
    pst_status status = open_table(d);
    if (status != PST_OK) {
        free(copy);
        return status;
    }
    free(d->products->given);
    d->products->given = copy;
    d->products->n_given = n;
    d->products->measures = measures;
    for (uint32_t i = 0; i < d->products->n; i++)
        PST_TRY(choose_given(d, &d->products->list[i], &found));
    return PST_OK;
}

static int take_choice(pst_device *device, uint32_t i, pst_choice *choice) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    uint64_t words[PST_CHOICE_WORDS];
    if (!d->products || i >= d->products->n ||
        name_choice(d, &d->products->list[i], choice) != PST_OK)
        return 0;
    memcpy(words, &d->products->list[i].algo, sizeof words);
    if (d->products->list[i].apart) memset(words, PST_CUDA_APART, sizeof words);
    pst_choice_write(words, choice);
    return 1;
}

static pst_status compare(pst_device *device, uint32_t i, pst_choice_times *times) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    if (!d->products || i >= d->products->n)
        return pst_fail(PST_EINTERNAL, "matrix product index %u is out of range", i);
    pst_cuda_entry e = d->products->list[i];
    *times = (pst_choice_times){0};
    if (e.apart) return PST_OK;
    PST_TRY(pst_cuda_status(cudaSetDevice(d->ordinal), "the GPU"));
    return pst_cuda_product_compare(d, &e, times);
}

const pst_choice_ops pst_cuda_choices = {.give = give, .take = take_choice, .compare = compare};
