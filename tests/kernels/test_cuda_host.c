/* test: label=quick timeout=120 isa=any */
/* Our own CUDA kernels on a machine without a GPU: the very kernels, compiled for the processor,
 * with blocks whose threads take turns (emulate.h), against the reference. What only a GPU can show
 * (conversions and exponentials of its own, races that an order of threads does not show, speed) is
 * left to test_cuda.c. */
#include "kernels/cuda_check.h"
#include "kernels/cuda/own.h"

int emulate_backwards;

static pst_cuda_fault fault;
/* few, so that long arrays go on in the next list; LAMB's norms take 8 for each block */
enum { BLOCKS = 9 };
static double sums[BLOCKS];
pst_cuda_queue pst_cuda_queue_of(const pst_device *device) {
    (void)device;
    return NULL;
}
pst_cuda_fault *pst_cuda_fault_of(const pst_device *device) {
    (void)device;
    return &fault;
}
uint64_t pst_cuda_launch_of(const pst_device *device) {
    (void)device;
    return 0;
}
const uint64_t *pst_cuda_sample_of(pst_device *device) {
    (void)device;
    return NULL;
}
double *pst_cuda_sums_of(const pst_device *device, uint32_t *blocks) {
    (void)device;
    *blocks = BLOCKS;
    return sums;
}
pst_status pst_cuda_launched(const char *kernel) {
    (void)kernel;
    return PST_OK;
}

/* The products of Muon, which are cuBLASLt's: plain loops. */
uint64_t pst_cuda_muon_workspace(void) { return 64; }
pst_status pst_cuda_muon_prepare(pst_device *device, const pst_muon_rule *rule) {
    (void)device;
    (void)rule;
    return PST_OK;
}
pst_status pst_cuda_muon_product(pst_device *device, const pst_muon_rule *rule,
                                 pst_cuda_muon_kind kind, const pst_cuda_muon_operands *of) {
    const uint64_t rows = rule->shape.rows, cols = rule->shape.cols;
    const int tall = rows > cols, gram = kind == PST_CUDA_MUON_GRAM;
    const int applied = kind == PST_CUDA_MUON_APPLIED;
    const uint64_t least = tall ? cols : rows;
    const uint64_t m = applied ? rows : least;
    const uint64_t n = applied ? cols : least;
    const uint64_t depth = gram ? rows + cols - least : least;
    (void)device;
    for (uint64_t i = 0; i < m; i++)
        for (uint64_t j = 0; j < n; j++) {
            double sum = 0;
            for (uint64_t k = 0; k < depth; k++) {
                const float *x = of->first, *b = of->second;
                double term;
                if (gram && tall) term = (double)x[k * cols + i] * (double)x[k * cols + j];
                else if (gram) term = (double)x[i * cols + k] * (double)x[j * cols + k];
                else if (kind == PST_CUDA_MUON_SQUARE || tall)
                    term = (double)x[i * depth + k] * (double)b[k * n + j];
                else term = (double)b[i * depth + k] * (double)x[k * n + j];
                sum += term;
            }
            of->out[i * n + j] = (float)sum;
        }
    return PST_OK;
}

enum { MOST = 64 };
static void *held[MOST];
static uint32_t n_held;

static void *put(const void *from, uint64_t bytes) {
    assert_true(n_held < MOST);
    held[n_held] = aligned_alloc(64, case_round_up(bytes + 1));
    assert_non_null(held[n_held]);
    return memcpy(held[n_held++], from, bytes);
}

static void get(void *to, const void *from, uint64_t bytes) { memcpy(to, from, bytes); }

static void clear(void) {
    while (n_held) free(held[--n_held]);
}

static void turn(int again) { emulate_backwards = again; }

static pst_status take_fault(void) { return pst_cuda_fault_check(&fault, 0); }

static cuda_runner host = {.put = put,
                           .get = get,
                           .clear = clear,
                           .turn = turn,
                           .fault = take_fault,
                           .arith = &pst_cuda_arith};
const cuda_runner *runner = &host;

/* What linear takes from here beside its products: the slope of its activation, and the gradient of
 * its bias. */
static void test_linear_parts(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_ref(&n);
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    for (int i = 0; i < 18; i++) {
        kernel_case k = {.op = "linear",
                         .b = 2,
                         .t = 37,
                         .c = 3,
                         .f = i < 9 ? 40 : 131,
                         .second = 1,
                         .act = (pst_activation)(1 + i % 3),
                         .dtype = types[i / 3 % 3]};
        case_state want, got;
        assert_int_equal(case_open(&k, seed, 0, &want), PST_OK);
        for (int pass = 0; pass < PST_PASS_COUNT; pass++)
            case_run(&want, case_row(rows, n, &k, (pst_pass)pass, 0), NULL,
                     (case_flags){.first = 1});
        assert_int_equal(case_open(&k, 0, 0, &got), PST_OK);
        case_copy(&got, &want);
        case_buffer *z = case_find(&got, PST_ARG_SAVED, 0), *dy = case_find(&got, PST_ARG_DOUT, 0);
        case_buffer *dz = case_find(&got, PST_ARG_SAVED, 1),
                    *sum = case_find(&got, PST_ARG_DPARAM, 1);
        pst_cuda_columns columns = {
            .dy = dz->data, .sum = {sum->data}, .rows = 74, .columns = k.f, .first = 1};
        columns.scratch = malloc(pst_cuda_column_sum_scratch(74, k.f, 1));
        pst_cuda_column_sum(NULL, k.dtype, &columns);
        float *plain = malloc(k.f * sizeof *plain), *with_gaps = sum->data;
        memcpy(plain, with_gaps, k.f * sizeof *plain);
        columns.pitch = (k.f + 63) / 64 * 64;
        void *wide = gaps_open(dz, k.f, columns.pitch, 0xff);
        columns.dy = wide;
        pst_cuda_column_sum(NULL, k.dtype, &columns);
        assert_memory_equal(plain, with_gaps, k.f * sizeof *plain);
        free(wide);
        free(plain);
        pst_cuda_slope(NULL, k.dtype, (int)k.act, z->data, dy->data, dz->data, z->n);
        compare_buffers(sum, case_find(&want, PST_ARG_DPARAM, 1), "bias gradient", &k);
        compare_buffers(dz, case_find(&want, PST_ARG_SAVED, 1), "slope", &k);
        free(columns.scratch);
        case_close(&want);
        case_close(&got);
    }
}

/* Dropout that finds the number of its sample in memory drops what it does when it is told, by
 * packs and one by one. */
static void test_samples_in_memory(void **state) {
    (void)state;
    enum { N = 3 * 40 };
    static float x[N], y[2][N];
    uint64_t sample = 0;
    for (int i = 0; i < N; i++) x[i] = 1;
    for (uint64_t per_sample = 39; per_sample <= 40; per_sample++)
        for (uint64_t given = 5; given < 1 << 20; given *= 77) {
            pst_cuda_mask mask = {
                .x = x, .y = y[0], .samples = 3, .per_sample = per_sample, .key = 9, .rate = 0.5f};
            mask.sample = given;
            pst_cuda_dropout(NULL, PST_F32, &mask);
            mask.y = y[1];
            mask.sample = 0;
            mask.sample_at = &sample;
            pst_cuda_set(NULL, &sample, given);
            assert_int_equal(sample, given);
            pst_cuda_dropout(NULL, PST_F32, &mask);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
            mask.sample_at = NULL;
            pst_cuda_dropout(NULL, PST_F32, &mask);
            assert_memory_not_equal(y[0], y[1], sizeof y[0]);
        }
}

/* Also what the library's rows have beside it, as linear. */
static void test_convolution(void **state) {
    (void)state;
    static const uint64_t shape[][8] = {/* b t w c f window stride padding */
                                        {1, 1, 1, 1, 1, 1, 1, 0},  {2, 5, 6, 3, 4, 3, 1, 1},
                                        {2, 7, 5, 5, 17, 3, 2, 1}, {1, 9, 8, 3, 8, 7, 2, 3},
                                        {3, 6, 6, 17, 5, 1, 2, 0}, {1, 4, 5, 40, 3, 2, 3, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const uint64_t *s = shape[i];
        check_case((kernel_case){.op = "convolution",
                                 .b = s[0],
                                 .t = s[1],
                                 .w = s[2],
                                 .c = s[3],
                                 .f = s[4],
                                 .window = s[5],
                                 .stride = (uint32_t)s[6],
                                 .padding = (uint32_t)s[7],
                                 .second = (int)i % 2});
    }
}

static void test_convolution_parts(void **state) {
    (void)state;
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    for (int i = 0; i < 12; i++) {
        const pst_dtype type = types[i % 3];
        const uint64_t rows = 41, columns = i < 6 ? 24 : 7, n = rows * columns;
        float *x = random_floats(n, 1, 0), *y = random_floats(n, 2, 0), sum[41 * 24];
        uint16_t half[2][41 * 24];
        void *to = type == PST_F32 ? (void *)memcpy(sum, x, n * sizeof *x) : half[0];
        void *bias = type == PST_F32 ? (void *)y : half[1];
        for (uint64_t k = 0; k < n; k++) {
            half[0][k] = pst_half_from_f32(type, x[k]);
            half[1][k] = pst_half_from_f32(type, y[k]);
        }
        pst_cuda_add_columns(NULL, type, to, bias, rows, columns);
        for (uint64_t k = 0; k < n && type == PST_F32; k++)
            assert_true(sum[k] == x[k] + y[k % columns]);
        for (uint64_t k = 0; k < n && type != PST_F32; k++) {
            float a = pst_f32_from_half(type, pst_half_from_f32(type, x[k]));
            assert_int_equal(
                half[0][k],
                pst_half_from_f32(type, a + pst_f32_from_half(type, half[1][k % columns])));
        }
        memcpy(sum, x, n * sizeof *x);
        pst_cuda_accumulate(NULL, type, bias, sum, n, i % 2);
        for (uint64_t k = 0; k < n; k++) {
            float add = type == PST_F32 ? y[k] : pst_f32_from_half(type, half[1][k]);
            assert_true(sum[k] == (i % 2 ? add : x[k] + add));
        }
        free(x);
        free(y);
    }
}

static int start(void **state) {
    (void)state;
    static pst_kernel_row rows[64];
    seed = case_seed();
    host.rows = rows;
    host.n_rows = pst_cuda_own_count + pst_cuda_image_count;
    assert_true(host.n_rows <= sizeof rows / sizeof *rows);
    memcpy(rows, pst_cuda_own_row, pst_cuda_own_count * sizeof *rows);
    memcpy(rows + pst_cuda_own_count, pst_cuda_image_row, pst_cuda_image_count * sizeof *rows);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TESTS, cmocka_unit_test(test_linear_parts), cmocka_unit_test(test_samples_in_memory),
        cmocka_unit_test(test_convolution), cmocka_unit_test(test_convolution_parts)};
    return cmocka_run_group_tests(tests, start, NULL);
}
