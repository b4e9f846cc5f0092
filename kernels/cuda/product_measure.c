/* Times the algorithms that cuBLASLt proposes for a matrix product, with operands of their own. */
#include "kernels/cuda/product_parts.h"
#include "base/log.h"
#include <stdlib.h>

enum { CANDIDATES = 32, EVERY = 4096, ROUNDS = 5, TURNS = 4 };
/* An algorithm whose first launch takes this many times the best so far is not timed again. */
static const float hopeless = 1.5f;

/* All operands of the arena are aligned to 64 bytes. All products state the same alignment, so that
 * the choice does not depend on addresses. */
static cublasStatus_t preference(cublasLtMatmulPreference_t *to) {
    uint64_t workspace = PST_CUDA_USABLE;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t bytes = PST_CUDA_OPERAND_ALIGNMENT;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(to);
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } list[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
                {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &bytes, sizeof bytes},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &bytes, sizeof bytes},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &bytes, sizeof bytes},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &bytes, sizeof bytes}};
    for (size_t i = 0; !status && i < sizeof list / sizeof *list; i++)
        status =
            cublasLtMatmulPreferenceSetAttribute(*to, list[i].what, list[i].value, list[i].bytes);
    return status;
}

/* Each proposal states whether it can run. */
static int keep_fit(cublasLtMatmulHeuristicResult_t *list, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (list[i].state == CUBLAS_STATUS_SUCCESS) list[kept++] = list[i];
    return kept;
}

cublasStatus_t pst_cuda_product_ask(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n) {
    cublasLtMatmulPreference_t prefer = NULL;
    *n = 0;
    cublasStatus_t status = preference(&prefer);
    if (!status)
        status = cublasLtMatmulAlgoGetHeuristic(d->lt, e->product, e->a, e->b, e->d, e->d, prefer,
                                                want, list, n);
    if (prefer) cublasLtMatmulPreferenceDestroy(prefer);
    if (!status) *n = keep_fit(list, *n);
    return status;
}

pst_status pst_cuda_product_propose(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n) {
    cublasStatus_t status = pst_cuda_product_ask(d, e, want, list, n);
    if (!status && *n > 0) return PST_OK;
    char text[96];
    pst_cuda_product_name(&e->shape, text, sizeof text);
    PST_TRY(pst_cublas_status(status, text));
    return pst_fail(PST_EINTERNAL, "cuBLASLt has no algorithm for the matrix product %s", text);
}

/* Operands to measure with. */
typedef struct {
    pst_cuda_device *device;
    uint8_t *a, *b, *bias, *d, *aux, *sums, *workspace;
    cudaEvent_t from, to;
} bench;

static void bench_close(bench *t) {
    if (t->to) cudaEventDestroy(t->to);
    if (t->from) cudaEventDestroy(t->from);
    void *memory[] = {t->a, t->b, t->bias, t->d, t->aux, t->sums, t->workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) cudaFree(memory[i]);
}

/* Varying numbers near 1: with zeros a GPU draws less power and clocks higher. */
static cudaError_t take(uint8_t **memory, uint32_t dtype, uint64_t elements) {
    enum { BLOCK = 1 << 14 };
    static uint16_t noise[BLOCK]; /* set-up runs in one thread */
    uint64_t bytes = elements * pst_dtype_bytes(dtype), seed = 1;
    cudaError_t error = cudaMalloc((void **)memory, bytes);
    for (uint32_t i = 0; i < BLOCK; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (uint16_t)(0x3c00 | (seed >> 48 & 0x83ff)); /* near 1 in bf16, in fp16 and as
                                                                  half of an fp32 */
    }
    for (uint64_t at = 0; !error && at < bytes; at += sizeof noise)
        error =
            cudaMemcpy(*memory + at, noise, bytes - at < sizeof noise ? bytes - at : sizeof noise,
                       cudaMemcpyHostToDevice);
    /* the copy may return before it has ended; our streams do not wait for the default stream */
    return error ? error : cudaDeviceSynchronize();
}

static pst_status bench_open(bench *t, const pst_cuda_shape *s) {
    uint64_t inner = s->trans_b ? s->n : s->k, columns = s->trans_b ? s->k : s->n;
    cudaError_t error = take(&t->a, s->in, s->m * s->k);
    if (!error) error = take(&t->b, s->in, (s->pitch_b ? s->pitch_b : inner) * columns);
    if (!error) error = take(&t->bias, pst_dtype_stored(s->in), s->m);
    if (!error) error = take(&t->d, s->out, s->m * s->n);
    if (!error && s->gelu) error = take(&t->aux, s->out, s->m * s->n);
    if (!error && s->sums_b) error = take(&t->sums, PST_F32, s->n);
    if (!error) error = cudaMalloc((void **)&t->workspace, PST_CUDA_WORKSPACE);
    if (!error) error = cudaEventCreate(&t->from);
    if (!error) error = cudaEventCreate(&t->to);
    return pst_cuda_status(error, "allocating operands to measure matrix products");
}

/* Launches that many times; *ran: no launch was refused. Clears the error of a refused one. */
static pst_status time_turns(const bench *t, const pst_cuda_entry *e,
                             const cublasLtMatmulAlgo_t *algo, int turns, float *ms, int *ran) {
    pst_cuda_device *d = t->device;
    const pst_cuda_operands of = {.a = t->a, .b = t->b, .d = t->d, .workspace = t->workspace};
    cudaStream_t stream = pst_cuda_stream(&d->base);
    cudaError_t error = cudaEventRecord(t->from, stream);
    *ran = 1;
    for (int turn = 0; turn < turns && !error; turn++)
        if (pst_cuda_product_run(d, e, algo, &of)) {
            cudaGetLastError();
            *ran = 0;
            return PST_OK;
        }
    if (!error) error = cudaEventRecord(t->to, stream);
    if (!error) error = cudaEventSynchronize(t->to);
    if (!error) error = cudaEventElapsedTime(ms, t->from, t->to);
    return pst_cuda_status(error, "measuring matrix products");
}

/* The shortest of some rounds of TURNS launches; *ms is unchanged if the algorithm does not run. If
 * its warm-up launch takes far longer than `best`, that is its time. */
static pst_status time_one(const bench *t, const pst_cuda_entry *e,
                           const cublasLtMatmulAlgo_t *algo, float best, float *ms) {
    float took;
    int ran;
    PST_TRY(time_turns(t, e, algo, 1, &took, &ran));
    if (ran && took * TURNS > hopeless * best) PST_TRY(time_turns(t, e, algo, 1, &took, &ran));
    if (ran && took * TURNS > hopeless * best) {
        *ms = took * TURNS;
        return PST_OK;
    }
    for (int round = 0; ran && round < ROUNDS; round++) {
        PST_TRY(time_turns(t, e, algo, TURNS, &took, &ran));
        if (ran && took < *ms) *ms = took;
    }
    return PST_OK;
}

/* What the epilogue reads and writes. */
static pst_status bench_point(const bench *t, const pst_cuda_entry *e) {
    const pst_cuda_shape *s = &e->shape;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (s->bias || s->sums_b)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                        s->bias ? t->bias : t->sums);
    if (!status && s->gelu)
        status = pst_cuda_product_point(e, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, t->aux);
    return pst_cublas_status(status, "allocating operands to measure matrix products");
}

static pst_status bench_begin(bench *t, const pst_cuda_entry *e) {
    PST_TRY(bench_open(t, &e->shape));
    return bench_point(t, e);
}

/* The separate kernel beside a product that is not fused. */
static void launch_apart(const bench *t, const pst_cuda_shape *s) {
    cudaStream_t stream = pst_cuda_stream(&t->device->base);
    const pst_cuda_columns columns = {.dy = t->b,
                                      .sum = {(float *)t->sums},
                                      .rows = s->k,
                                      .columns = s->n,
                                      .first = 1,
                                      .scratch = (float *)t->workspace};
    if (s->gelu)
        pst_cuda_activation(stream, (pst_dtype)s->out, PST_ACT_GELU_TANH, t->aux, t->d,
                            s->m * s->n);
    else pst_cuda_column_sum(stream, pst_dtype_stored((pst_dtype)s->in), &columns);
}

/* As time_one, for a product and the separate kernel. */
static pst_status time_apart(const bench *t, const pst_cuda_shape *s, float *ms) {
    cudaStream_t stream = pst_cuda_stream(&t->device->base);
    float took;
    for (int round = 0; round <= ROUNDS; round++) {
        cudaError_t error = cudaEventRecord(t->from, stream);
        for (int turn = 0; turn < TURNS && !error; turn++) launch_apart(t, s);
        if (!error) error = cudaEventRecord(t->to, stream);
        if (!error) error = cudaEventSynchronize(t->to);
        if (!error) error = cudaEventElapsedTime(&took, t->from, t->to);
        PST_TRY(pst_cuda_status(error, "measuring a matrix product with a separate kernel"));
        if (round && took < *ms) *ms = took;
    }
    return PST_OK;
}

static const float never = 1e30f;

/* The fastest of a list that is faster than *ms, and its time; unchanged if there is none. */
static pst_status fastest(const bench *t, pst_cuda_entry *e,
                          const cublasLtMatmulHeuristicResult_t *list, int n, float *ms,
                          uint32_t *ran) {
    *ran = 0;
    for (int i = 0; i < n; i++) {
        float took = never;
        PST_TRY(time_one(t, e, &list[i].algo, *ms, &took));
        *ran += took < never;
        if (took < *ms) {
            e->algo = list[i].algo;
            *ms = took;
        }
    }
    return PST_OK;
}

pst_status pst_cuda_product_measure(pst_cuda_device *d, pst_cuda_entry *e) {
    cublasLtMatmulHeuristicResult_t list[CANDIDATES];
    int n = 0;
    float best = never;
    uint32_t ran;
    PST_TRY(pst_cuda_product_propose(d, e, CANDIDATES, list, &n));
    bench t = {.device = d};
    pst_status status = bench_begin(&t, e);
    if (status == PST_OK) status = fastest(&t, e, list, n, &best, &ran);
    bench_close(&t);
    if (status != PST_OK || best < never) return status;
    char text[96];
    pst_cuda_product_name(&e->shape, text, sizeof text);
    return pst_fail(PST_EINTERNAL,
                    "none of cuBLASLt's %d algorithms for the matrix product %s runs on this GPU",
                    n, text);
}

static pst_status compare_forms(const bench *t, pst_cuda_entry *e, const pst_cuda_entry *plain) {
    cublasLtMatmulHeuristicResult_t list[CANDIDATES];
    float fused = never, apart = never, own = never;
    uint32_t ran;
    int n;
    if (pst_cuda_product_ask(t->device, e, CANDIDATES, list, &n)) n = 0;
    PST_TRY(bench_point(t, plain));
    PST_TRY(time_one(t, plain, &plain->algo, never, &apart));
    PST_TRY(time_apart(t, &e->shape, &own));
    PST_TRY(fastest(t, e, list, n, &fused, &ran));
    e->apart = fused > apart + own;
    char text[96];
    pst_cuda_product_name(&e->shape, text, sizeof text);
    pst_log(PST_LOG_DEBUG,
            "matrix product %s: fused %.4f ms (%d algorithms); apart %.4f ms and a kernel of %.4f "
            "ms: %s",
            text, ran ? (double)fused / TURNS : 0.0, n, (double)apart / TURNS, (double)own / TURNS,
            e->apart ? "apart" : "fused");
    return PST_OK;
}

pst_status pst_cuda_product_measure_fused(pst_cuda_device *d, pst_cuda_entry *e,
                                          const pst_cuda_entry *plain) {
    bench t = {.device = d};
    pst_status status = bench_begin(&t, e);
    if (status == PST_OK) status = compare_forms(&t, e, plain);
    bench_close(&t);
    return status;
}

/* Times the choice that measuring makes among the first CANDIDATES, then all algorithms again. */
static pst_status compare_with(const bench *t, pst_cuda_entry *e,
                               const cublasLtMatmulHeuristicResult_t *list, int n,
                               pst_choice_times *times) {
    float first = never, measured = never, best = never;
    uint32_t ran;
    PST_TRY(fastest(t, e, list, n < CANDIDATES ? n : CANDIDATES, &best, &ran));
    const cublasLtMatmulAlgo_t chosen = e->algo;
    PST_TRY(fastest(t, e, list, n, &best, &ran));
    PST_TRY(time_one(t, e, &list[0].algo, never, &first));
    PST_TRY(time_one(t, e, &chosen, never, &measured));
    if (first < best) best = first;
    if (measured < best) best = measured;
    *times = (pst_choice_times){.first_s = (double)first * 1e-3 / TURNS,
                                .measured_s = (double)measured * 1e-3 / TURNS,
                                .best_s = (double)best * 1e-3 / TURNS,
                                .tried = ran};
    return PST_OK;
}

/* e: a copy, so that the chosen algorithm is unchanged. */
pst_status pst_cuda_product_compare(pst_cuda_device *d, pst_cuda_entry *e,
                                    pst_choice_times *times) {
    cublasLtMatmulHeuristicResult_t *list = malloc(EVERY * sizeof *list);
    int n = 0;
    bench t = {.device = d};
    if (!list) return pst_fail(PST_ENOMEM, "no memory for a list of algorithms");
    pst_status status = pst_cuda_product_propose(d, e, EVERY, list, &n);
    if (status == PST_OK) status = bench_begin(&t, e);
    if (status == PST_OK) status = compare_with(&t, e, list, n, times);
    bench_close(&t);
    free(list);
    return status;
}
