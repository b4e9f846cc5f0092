/* cuBLASLt as its manual says it is, on the host's processor: products column by column in double,
 * at once. Three algorithms give the same numbers in different times; the second is the fastest.
 * See fake.h. */
#include "cuda/fake.h"
#include "base/dtype.h"
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fake_product {
    int tf32, fast;
    const float *scale_a, *scale_b;
    int32_t trans_a, trans_b, epilogue, bias_type;
    int64_t aux_pitch;
    void *vector, *aux; /* bias, or its gradient; what GELU is of */
};
struct fake_layout {
    cudaDataType type;
    uint32_t unused; /* 0: no padding, whose bytes would be taken for a part of an address */
    uint64_t rows, cols;
    int64_t ld;
};

#define MAKE(to, type, ...)                                                                        \
    do {                                                                                           \
        type *made = malloc(sizeof *made);                                                         \
        *made = (type){__VA_ARGS__};                                                               \
        *(void **)(to) = made;                                                                     \
        fake.live++;                                                                               \
    } while (0)

static cublasStatus_t drop(void *object) {
    fake.live--;
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    int tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((compute != CUBLAS_COMPUTE_32F && !tf32) || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    MAKE(to, struct fake_product, .tf32 = tf32);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return drop(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
    struct fake_product *p = (struct fake_product *)desc;
    int32_t *to = NULL;
    if (what == CUBLASLT_MATMUL_DESC_TRANSA) to = &p->trans_a;
    if (what == CUBLASLT_MATMUL_DESC_TRANSB) to = &p->trans_b;
    if (what == CUBLASLT_MATMUL_DESC_EPILOGUE) to = &p->epilogue;
    if (what == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE) to = &p->bias_type;
    if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof p->vector)
        memcpy(&p->vector, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER && bytes == sizeof p->aux)
        memcpy(&p->aux, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD && bytes == sizeof p->aux_pitch)
        memcpy(&p->aux_pitch, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER && bytes == sizeof p->scale_a)
        memcpy(&p->scale_a, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER && bytes == sizeof p->scale_b)
        memcpy(&p->scale_b, value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_FAST_ACCUM && bytes == 1)
        p->fast = *(const int8_t *)value;
    else if (to && bytes == sizeof *to) memcpy(to, value, bytes);
    else return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    MAKE(to, struct fake_layout, type, 0, rows, cols, ld);
    return ld < (int64_t)rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return drop(layout); }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to) {
    MAKE(to, int, 0);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t prefer) {
    return drop(prefer);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t prefer,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
    (void)prefer;
    uint32_t sums;
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
        memcpy(&sums, value, bytes);
        fake_blas.sums = sums;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t inner(const struct fake_product *p, const struct fake_layout *a) {
    return p->trans_a == CUBLAS_OP_T ? a->rows : a->cols;
}

static int is_f8(const struct fake_layout *l) {
    return l->type == CUDA_R_8F_E4M3 || l->type == CUDA_R_8F_E5M2;
}

/* Factors of 8 bits: rows times rows, 16 bytes at a time, never both E5M2. */
static int fits_f8(const struct fake_product *p, const struct fake_layout *a,
                   const struct fake_layout *b, const struct fake_layout *d) {
    int wide = a->type == CUDA_R_8F_E5M2 && b->type == CUDA_R_8F_E5M2;
    return is_f8(a) && is_f8(b) && !wide && p->trans_a == CUBLAS_OP_T &&
           p->trans_b == CUBLAS_OP_N && !((a->rows | a->cols | b->rows | b->cols) % 16) &&
           (d->type == CUDA_R_16BF || d->type == CUDA_R_32F);
}

static int has_gelu(const struct fake_product *p) {
    return p->epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
           p->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static int has_bias(const struct fake_product *p) {
    return p->epilogue == CUBLASLT_EPILOGUE_BIAS || p->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static int has_sums(const struct fake_product *p) {
    return p->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* GELU's other output has columns of multiples of 8; a gradient of a bias has the type of D. */
static int fits_end(const struct fake_product *p, const struct fake_layout *a,
                    const struct fake_layout *d) {
    if (has_gelu(p) && (p->aux_pitch % 8 || p->aux_pitch < (int64_t)d->rows || !p->aux)) return 0;
    if (has_sums(p) && ((cudaDataType)p->bias_type != d->type || is_f8(a) || !p->vector)) return 0;
    return !fake_blas.plain || !(has_gelu(p) || has_sums(p));
}

static int fits(const struct fake_product *p, const struct fake_layout *a,
                const struct fake_layout *b, const struct fake_layout *d) {
    uint64_t m = p->trans_a == CUBLAS_OP_T ? a->cols : a->rows,
             n = p->trans_b == CUBLAS_OP_T ? b->rows : b->cols;
    return m == d->rows && n == d->cols && fits_end(p, a, d) &&
           inner(p, a) == (p->trans_b == CUBLAS_OP_T ? b->cols : b->rows) &&
           (is_f8(a) ? fits_f8(p, a, b, d)
                     : a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F));
}

enum { ALGORITHMS = 3 };
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lt, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t prefer, int want,
                                              cublasLtMatmulHeuristicResult_t *list, int *n) {
    (void)lt;
    (void)c;
    (void)prefer;
    fake_blas.asked++;
    *n = 0;
    if (!fits((void *)product, (void *)a, (void *)b, (void *)d)) return CUBLAS_STATUS_INVALID_VALUE;
    for (; *n < want && *n < ALGORITHMS; ++*n)
        list[*n] = (cublasLtMatmulHeuristicResult_t){.algo.data = {100 + (uint64_t)*n, 7},
                                                     .workspaceSize = 1 << 20,
                                                     .state = fake_blas.unfit >> *n & 1
                                                                  ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                  : CUBLAS_STATUS_SUCCESS};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lt, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    (void)lt;
    (void)product;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    *result = (cublasLtMatmulHeuristicResult_t){.workspaceSize = 1 << 20};
    return algo->data[0] - 100 < ALGORITHMS && algo->data[1] == 7 ? CUBLAS_STATUS_SUCCESS
                                                                  : CUBLAS_STATUS_NOT_SUPPORTED;
}

static double get(cudaDataType type, const void *x, uint64_t i) {
    if (type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2)
        return pst_f32_from_f8(type == CUDA_R_8F_E5M2, ((const uint8_t *)x)[i]);
    if (type == CUDA_R_32F) return ((const float *)x)[i];
    return pst_f32_from_half(type == CUDA_R_16F ? PST_F16 : PST_BF16, ((const uint16_t *)x)[i]);
}

static void put(cudaDataType type, void *x, uint64_t i, double value) {
    if (type == CUDA_R_32F) ((float *)x)[i] = (float)value;
    else
        ((uint16_t *)x)[i] =
            pst_half_from_f32(type == CUDA_R_16F ? PST_F16 : PST_BF16, (float)value);
}

/* fp32 with 10 bits of fraction, to the nearest. */
static double as_tf32(double x) {
    uint32_t bits;
    float value = (float)x;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static double element(const struct fake_product *p, const struct fake_layout *l, const void *x,
                      int trans, uint64_t row, uint64_t col) {
    double v =
        get(l->type, x,
            trans == CUBLAS_OP_T ? col + row * (uint64_t)l->ld : row + col * (uint64_t)l->ld);
    return p->tf32 ? as_tf32(v) : v;
}

/* What a product is given when it is called; its descriptors may be others' by the time that a
 * graph runs it. */
typedef struct {
    struct fake_product product;
    struct fake_layout a, b, d;
    const void *left, *right;
    void *to, *workspace;
    double alpha, beta;
    uint64_t number;
} multiplication;

static double dot(const multiplication *m, uint64_t row, uint64_t col) {
    const struct fake_product *p = &m->product;
    double sum = 0;
    for (uint64_t k = 0; k < inner(p, &m->a); k++)
        sum += element(p, &m->a, m->left, p->trans_a, row, k) *
               element(p, &m->b, m->right, p->trans_b, k, col);
    return sum * m->alpha * (p->scale_a ? *p->scale_a : 1.0) * (p->scale_b ? *p->scale_b : 1.0);
}

static double gelu(double z) {
    return 0.5 * z * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
}

/* Of one element: bias, GELU. */
static double end_of(const struct fake_product *p, const struct fake_layout *d, double sum,
                     uint64_t row, uint64_t col) {
    if (has_bias(p)) sum += get((cudaDataType)p->bias_type, p->vector, row);
    if (!has_gelu(p)) return sum;
    put(d->type, p->aux, row + col * (uint64_t)p->aux_pitch, sum);
    return gelu(sum);
}

/* The sum of a column of op(B). */
static void sum_column(const multiplication *m, uint64_t col) {
    const struct fake_product *p = &m->product;
    double sum = 0;
    for (uint64_t i = 0; i < inner(p, &m->a); i++)
        sum += element(p, &m->b, m->right, p->trans_b, i, col);
    put((cudaDataType)p->bias_type, p->vector, col, sum);
}

static void multiply(const void *arguments) {
    const multiplication *m = arguments;
    const struct fake_product *p = &m->product;
    fake_blas.ran = m->number;
    if (fake_blas.idle) return;
    memset(m->workspace, 0, 1 << 20);
    for (uint64_t col = 0; col < m->d.cols; col++)
        for (uint64_t row = 0; row < m->d.rows; row++) {
            uint64_t at = row + col * (uint64_t)m->d.ld;
            double sum = dot(m, row, col);
            if (m->beta != 0) sum += m->beta * get(m->d.type, m->to, at);
            put(m->d.type, m->to, at, end_of(p, &m->d, sum, row, col));
        }
    for (uint64_t col = 0; has_sums(p) && col < m->d.cols; col++) sum_column(m, col);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lt, cublasLtMatmulDesc_t product, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_desc, const void *b,
                              cublasLtMatrixLayout_t b_desc, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_desc, void *to,
                              cublasLtMatrixLayout_t d_desc, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream) {
    const multiplication m = {.product = *(const struct fake_product *)(void *)product,
                              .a = *(const struct fake_layout *)(void *)a_desc,
                              .b = *(const struct fake_layout *)(void *)b_desc,
                              .d = *(const struct fake_layout *)(void *)d_desc,
                              .left = a,
                              .right = b,
                              .to = to,
                              .workspace = workspace,
                              .alpha = (double)*(const float *)alpha,
                              .beta = (double)*(const float *)beta,
                              .number = algo->data[0]};
    (void)lt;
    (void)c_desc;
    /* as cuBLASLt 13.1 on an H200 */
    if ((uintptr_t)m.product.scale_a % 16 || (uintptr_t)m.product.scale_b % 16)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!fits(&m.product, &m.a, &m.b, &m.d) || c != to || (uintptr_t)workspace % 16 ||
        bytes < 1 << 20)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (fake_blas.broken >> (m.number - 100) & 1) return CUBLAS_STATUS_EXECUTION_FAILED;
    fake_blas.fast = m.product.fast;
    int more = has_gelu(&m.product) || has_sums(&m.product);
    fake_blas.ends += (uint32_t)more;
    fake_launch(stream, (m.number == 101 ? 1000000 : 2000000) + (more ? fake_blas.end_ns : 0),
                multiply, &m, sizeof m);
    return CUBLAS_STATUS_SUCCESS;
}
