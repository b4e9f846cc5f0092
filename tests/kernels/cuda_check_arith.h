/* Arithmetic on a GPU (or emulated threads) against the reference: updates of parameters, sums of
 * squares, additions. See cuda_check.h, which includes this. */
#ifndef PST_TESTS_KERNELS_CUDA_CHECK_ARITH_H
#define PST_TESTS_KERNELS_CUDA_CHECK_ARITH_H
#include "kernels/cuda_check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/hyper.h"
#include "kernels/muon.h"

/* --- arithmetic: the reference's bits --------------------------------------------------------- */
static const uint64_t sizes[] = {1, 3, 33, 4095, 4096, 4097, 0, 16384, 40001};
enum { PIECES = 9, ARRAYS = 4 };

static float *random_floats(uint64_t n, uint64_t key, int positive) {
    float *x = malloc((n + 8) * sizeof *x);
    assert_non_null(x);
    pst_rng_normal(key, 0, 1, x, n + 8);
    for (uint64_t i = 0; i < n + 8 && positive; i++) x[i] = fabsf(x[i]);
    return x;
}

/* weight, grad, states of every piece here and there, `shift` elements off; what the update made
 * there is the reference's, and what lies behind it is as it was. */
static void check_update(pst_optim_kind kind, pst_optim_hyper h, pst_dtype type, uint64_t shift) {
    enum { COPIES = 60 /* of the list, so that it takes more than one launch */ };
    float *here[PIECES][ARRAYS], *there[PIECES][ARRAYS];
    uint16_t *half = calloc(50000, sizeof *half), *narrow[PIECES];
    static pst_arith_param list[PIECES * COPIES];
    const float lr = h.lr;
    const uint64_t gap = h.state == PST_BF16 ? shift * sizeof(uint16_t) : shift * sizeof(float);
    for (int p = 0; p < PIECES; p++) {
        for (int a = 0; a < ARRAYS; a++) {
            here[p][a] = random_floats(sizes[p] + shift, 100 * (uint64_t)p + (uint64_t)a, a == 3);
            if (h.state == PST_BF16 && a >= 2) pst_bf16_pack(here[p][a], sizes[p] + shift + 8);
            there[p][a] = runner->put(here[p][a], (sizes[p] + shift + 8) * sizeof(float));
        }
        narrow[p] = runner->put(half, (sizes[p] + 8) * sizeof *half);
        float **at = there[p];
        list[p] = (pst_arith_param){.weight = at[0] + shift,
                                    .grad = at[1] + shift,
                                    .state = {(uint8_t *)at[2] + gap, (uint8_t *)at[3] + gap},
                                    .narrow = p % 3 ? narrow[p] : NULL,
                                    .n = sizes[p],
                                    .decay = 0.1f * (float)p,
                                    .trust = 0.5f + (float)p};
    }
    for (int i = PIECES; i < PIECES * COPIES; i++) list[i] = (pst_arith_param){.n = 0};
    list[PIECES * COPIES - 1] = list[PIECES - 1];
    list[PIECES - 1].n = 0; /* far apart in the list */
    assert_int_equal(runner->arith->update(runner->device, kind, &h, type, list, PIECES * COPIES),
                     PST_OK);
    for (int p = 0; p < PIECES; p++) {
        uint64_t n = sizes[p];
        float *got = malloc((n + shift + 8) * sizeof *got);
        void *state[2] = {(uint8_t *)here[p][2] + gap, (uint8_t *)here[p][3] + gap};
        h.decay = 0.1f * (float)p;
        if (kind == PST_OPTIM_LAMB) h.lr = lr * (0.5f + (float)p);
        pst_flat_param param = {here[p][0] + shift, here[p][1] + shift, {state[0], state[1]}, n};
        pst_flat_ref()->update(NULL, kind, &h, &param);
        for (int a = 0; a < ARRAYS; a++) {
            runner->get(got, there[p][a], (n + shift + 8) * sizeof *got);
            assert_memory_equal(got, here[p][a], (n + shift + 8) * sizeof *got);
            free(here[p][a]);
        }
        free(got);
        runner->get(half, narrow[p], (n + 8) * sizeof *half);
        float *w = malloc((n + 8) * sizeof *w);
        runner->get(w, there[p][0], (n + shift) * sizeof *w);
        for (uint64_t i = 0; i < n && p % 3; i++)
            assert_int_equal(half[i], pst_half_from_f32(type, w[i + shift]));
        assert_int_equal(half[n], 0);
        free(w);
        memset(half, 0, 50000 * sizeof *half);
    }
    free(half);
    runner->clear();
}

static void test_update(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        const uint64_t t = i % 2 ? 7 : 1, shift = (uint64_t)i / 2 % 2;
        pst_optim_hyper h = hyper_of(t);
        if (i / 4) h.state = PST_BF16;
        pst_optim_noise(&h, 5);
        check_update(PST_OPTIM_ADAMW, h, PST_BF16, shift);
        check_update(PST_OPTIM_SGD, h, PST_F16, shift);
        check_update(PST_OPTIM_ADAM, h, PST_BF16, shift);
        check_update(PST_OPTIM_LAMB, h, PST_F16, shift);
    }
    check_update(PST_OPTIM_ADAMW, hyper_of(2), PST_F16, 4);
    check_update(PST_OPTIM_SGD, hyper_of(2), PST_BF16, 3);
}

/* --- parameters that are updated as a whole --------------------------------------------------- */

/* The arrays of a parameter here and there, with states as h says. */
typedef struct {
    float *here[ARRAYS], *there[ARRAYS];
    pst_arith_param p, far;
} whole_param;

static whole_param whole_open(const pst_optim_hyper *h, uint64_t n) {
    whole_param w;
    for (int a = 0; a < ARRAYS; a++) {
        w.here[a] = random_floats(n, 77 + (uint64_t)a, a == 3);
        if (h->state == PST_BF16 && a >= 2) pst_bf16_pack(w.here[a], n + 8);
        w.there[a] = runner->put(w.here[a], (n + 8) * sizeof(float));
    }
    w.p = (pst_arith_param){
        .weight = w.here[0], .grad = w.here[1], .state = {w.here[2], w.here[3]}, .n = n};
    w.p.decay = 0.1f;
    w.far = w.p;
    w.far.weight = w.there[0];
    w.far.grad = w.there[1];
    w.far.state[0] = w.there[2];
    w.far.state[1] = w.there[3];
    return w;
}

static void whole_close(whole_param *w) {
    for (int a = 0; a < ARRAYS; a++) free(w->here[a]);
    runner->clear();
}

/* The reference's bits, also of large and tiny numbers, of none, and of what is not finite. */
static void check_lamb_squares(const pst_optim_hyper *h, uint64_t n, float first) {
    whole_param w = whole_open(h, n);
    pst_optim_hyper own = *h;
    own.decay = w.p.decay;
    w.here[0][0] = w.here[1][n / 2] = first;
    if (first == 0) memset(w.here[0], 0, n * sizeof(float));
    w.far.weight = runner->put(w.here[0], n * sizeof(float));
    w.far.grad = runner->put(w.here[1], n * sizeof(float));
    const uint64_t terms = pst_lamb_terms(n);
    pst_squares *got = calloc(terms, sizeof *got), *out = runner->put(got, terms * sizeof *got);
    assert_int_equal(runner->arith->lamb_squares(runner->device, h, &w.far, out), PST_OK);
    runner->get(got, out, terms * sizeof *got);
    for (uint64_t from = 0, k = 0; from < n; from += PST_LAMB_TERM, k += 2) {
        pst_squares want[2];
        const uint64_t size = pst_dtype_bytes(h->state), left = n - from;
        const pst_flat_param part = {
            w.here[0] + from,
            w.here[1] + from,
            {(uint8_t *)w.here[2] + from * size, (uint8_t *)w.here[3] + from * size},
            left < PST_LAMB_TERM ? left : PST_LAMB_TERM};
        pst_flat_ref()->lamb_squares(NULL, &own, &part, want);
        for (int i = 0; i < 2; i++) {
            assert_true(got[k + (uint64_t)i].top == want[i].top);
            for (int s = 0; s < 3; s++)
                assert_true(got[k + (uint64_t)i].sum[s] == want[i].sum[s] ||
                            (isnan(got[k + (uint64_t)i].sum[s]) && isnan(want[i].sum[s])));
        }
    }
    free(got);
    whole_close(&w);
}

static void test_lamb_squares(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 33, 4096, 4097, 40001};
    static const float firsts[] = {1, 3e30f, 1e-40f, 0, INFINITY, NAN};
    for (int half = 0; half < 2; half++) {
        pst_optim_hyper h = hyper_of(3);
        if (half) h.state = PST_BF16;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            check_lamb_squares(&h, counts[i], firsts[i]);
        check_lamb_squares(&h, 5000, firsts[5]);
    }
    const pst_optim_hyper h = hyper_of(3);
    check_lamb_squares(&h, PST_LAMB_TERM + 5, 1); /* two terms */
}

/* Near the reference, which computes in double. rounds: products may round factors to TF32. */
static void check_muon(const pst_matrix_shape *shape, pst_dtype type, int rounds) {
    const uint64_t n = shape->rows * shape->cols;
    const pst_optim_hyper h = hyper_of(3);
    const pst_muon_rule rule = {&h, *shape, type};
    whole_param w = whole_open(&h, n);
    uint16_t *half = calloc(n + 8, sizeof *half);
    const uint64_t bytes = runner->arith->muon_scratch(&rule, 1);
    uint8_t *room = calloc(1, bytes + 64);
    memset(room + bytes, 0x5a, 64);
    uint8_t *scratch = runner->put(room, bytes + 64);
    float *x = (float *)(void *)scratch;
    w.far.narrow = type == PST_F32 ? NULL : runner->put(half, (n + 8) * sizeof *half);
    assert_int_equal(runner->arith->muon_prepare(runner->device, &rule), PST_OK);
    assert_int_equal(runner->arith->muon_direction(runner->device, &h, &w.far, x), PST_OK);
    assert_int_equal(runner->arith->muon_orthogonalize(runner->device, &rule, scratch, &x), PST_OK);
    assert_int_equal(runner->arith->muon_apply(runner->device, &rule, &w.far, x), PST_OK);
    assert_int_equal(pst_muon_ref(&h, &w.p, shape), PST_OK);
    float *got = malloc(n * sizeof *got);
    for (int a = 0; a < 3; a++) {
        runner->get(got, w.there[a], n * sizeof *got);
        if (!(case_distance(got, w.here[a], n) < (rounds && !a ? 2e-3 : 1e-5)))
            fail_msg("Muon, %lux%lu: array %d is %g off", (unsigned long)shape->rows,
                     (unsigned long)shape->cols, a, case_distance(got, w.here[a], n));
    }
    runner->get(got, w.there[0], n * sizeof *got);
    if (w.far.narrow) runner->get(half, w.far.narrow, (n + 8) * sizeof *half);
    for (uint64_t i = 0; i < n && w.far.narrow; i++)
        assert_int_equal(half[i], pst_half_from_f32(type, got[i]));
    assert_int_equal(half[n], 0);
    runner->get(room, scratch, bytes + 64);
    for (uint64_t i = bytes; i < bytes + 64; i++) assert_int_equal(room[i], 0x5a);
    free(got);
    free(room);
    free(half);
    whole_close(&w);
}

static void test_muon(void **state) {
    (void)state;
    static const pst_matrix_shape shapes[] = {{1, 1},   {3, 7},    {7, 3},    {16, 16},
                                              {48, 96}, {100, 33}, {65, 130}, {90, 70}};
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_muon(shapes + i, types[i % 3], types[i % 3] != PST_F32);
}

/* The momentum in bf16 is rounded with the random numbers of the CPU: the same bits. */
static void test_muon_momentum(void **state) {
    (void)state;
    enum { N = 5001 };
    pst_device plain = {.isa = 0};
    pst_optim_hyper h = hyper_of(3);
    h.state = PST_BF16;
    pst_optim_noise(&h, 5);
    whole_param w = whole_open(&h, N);
    float *x = random_floats(N, 1, 0), *got = random_floats(N, 2, 0),
          *out = runner->put(got, N * sizeof *got);
    assert_int_equal(runner->arith->muon_direction(runner->device, &h, &w.far, out), PST_OK);
    assert_int_equal(pst_arith_cpu.muon_direction(&plain, &h, &w.p, x), PST_OK);
    runner->get(got, out, N * sizeof *got);
    assert_memory_equal(got, x, N * sizeof *got);
    runner->get(got, w.there[2], N * sizeof(uint16_t));
    assert_memory_equal(got, w.here[2], N * sizeof(uint16_t));
    free(x);
    free(got);
    whole_close(&w);
}

static void test_sum_squares(void **state) {
    (void)state;
    enum { LIST = 1000 }; /* more than one launch takes */
    static const float *x[LIST];
    static uint64_t n[LIST];
    static double want[LIST], got[LIST];
    float *here = random_floats(50000, 9, 0), *there = runner->put(here, 50000 * sizeof *here);
    for (int i = 0; i < LIST; i++) {
        n[i] = i % 50 ? (uint64_t)i % 7 : sizes[i / 50 % PIECES];
        x[i] = there + i % 9;
        want[i] = pst_flat_ref()->sum_squares(NULL, here + i % 9, n[i]);
    }
    memset(got, 0xff, sizeof got);
    double *out = runner->put(got, sizeof got);
    assert_int_equal(runner->arith->sum_squares(runner->device, x, n, LIST, out), PST_OK);
    runner->get(got, out, sizeof got);
    assert_memory_equal(got, want, sizeof got);
    free(here);
    runner->clear();
}

static void test_accumulate_and_narrow(void **state) {
    (void)state;
    for (uint64_t shift = 0; shift < 2; shift++)
        for (int p = 0; p < PIECES; p++) {
            uint64_t n = sizes[p];
            float *x = random_floats(n, 5, 0), *y = random_floats(n, 6, 0),
                  *sum = malloc((n + 8) * sizeof *sum);
            uint16_t *half = calloc(n + 8, sizeof *half);
            if (n > 40) {
                x[5] = NAN;
                x[6] = INFINITY;
                x[7] = 1.00390625f;
                x[8] = 3.4e38f;
                x[9] = -0.0f;
            }
            float *far_x = runner->put(x, (n + 8) * sizeof *x),
                  *far_y = runner->put(y, (n + 8) * sizeof *y);
            uint16_t *far_half = runner->put(half, (n + 8) * sizeof *half);
            pst_dtype type = p % 2 ? PST_F16 : PST_BF16;
            assert_int_equal(
                runner->arith->narrow(runner->device, type, far_x + shift, far_half + shift, n),
                PST_OK);
            assert_int_equal(
                runner->arith->accumulate(runner->device, far_y + shift, far_x + shift, n), PST_OK);
            runner->get(half, far_half, (n + 8) * sizeof *half);
            runner->get(sum, far_y, (n + 8) * sizeof *sum);
            for (uint64_t i = 0; i < n; i++) {
                float v = x[i + shift], made = pst_f32_from_half(type, half[i + shift]);
                assert_true(isnan(v) ? isnan(made) : half[i + shift] == pst_half_from_f32(type, v));
                assert_true(isnan(v) || sum[i + shift] == y[i + shift] + v);
            }
            assert_true(half[n + shift] == 0 && sum[n + shift] == y[n + shift]);
            free(x);
            free(y);
            free(sum);
            free(half);
            runner->clear();
        }
}

/* Running statistics, to the bits of the CPU's. */
static void test_average(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        enum { LIST = 3, MOST = 1100 };
        static const uint64_t each[LIST] = {1, 1024, 77};
        const pst_dtype type = i % 2 ? PST_F16 : PST_BF16;
        static float value[2][LIST][MOST];
        static uint16_t half[2][LIST][MOST];
        pst_arith_param here[LIST], there[LIST];
        pst_device plain = {.threads = 1};
        memset(half, 0, sizeof half);
        for (int p = 0; p < LIST; p++) {
            float *w = random_floats(MOST, 10 + (uint64_t)p, 0),
                  *g = random_floats(MOST, 20 + (uint64_t)p, 0);
            memcpy(value[0][p], w, sizeof value[0][p]);
            here[p] = (pst_arith_param){.weight = value[0][p], .grad = g, .n = each[p]};
            if (i < 4) here[p].narrow = half[0][p];
            there[p] = here[p];
            there[p].weight = runner->put(w, sizeof value[0][p]);
            there[p].grad = runner->put(g, sizeof value[0][p]);
            if (i < 4) there[p].narrow = runner->put(half[0][p], sizeof half[0][p]);
            free(w);
        }
        assert_int_equal(pst_arith_cpu.average(&plain, 0.1f, 0.25f, type, here, LIST), PST_OK);
        assert_int_equal(runner->arith->average(runner->device, 0.1f, 0.25f, type, there, LIST),
                         PST_OK);
        for (int p = 0; p < LIST; p++) {
            runner->get(value[1][p], there[p].weight, sizeof value[1][p]);
            assert_memory_equal(value[1][p], value[0][p], sizeof value[1][p]);
            if (i < 4) runner->get(half[1][p], there[p].narrow, sizeof half[1][p]);
            if (i < 4) assert_memory_equal(half[1][p], half[0][p], sizeof half[1][p]);
            free((void *)(uintptr_t)here[p].grad);
        }
        runner->clear();
    }
}

/* Sums of tensor ranks, to the bits of the CPU's, also into one of what is added. */
static void test_combine(void **state) {
    (void)state;
    enum { ADDENDS = 5, MOST = 3000 };
    static const uint64_t length[] = {1, 7, 8, 9, 1024, 2999};
    for (uint32_t i = 0; i < 3 * 2 * (sizeof length / sizeof *length); i++) {
        static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
        const pst_dtype type = types[i % 3];
        const uint64_t n = length[i / 6], shift = i / 3 % 2, size = pst_dtype_bytes(type);
        /* or somewhere else */
        const uint32_t addends = 1 + i % ADDENDS, into = i % 2 ? addends : i % addends;
        static uint8_t value[ADDENDS + 1][MOST * sizeof(float)], got[MOST * sizeof(float)];
        const void *here[ADDENDS + 1], *there[ADDENDS + 1];
        for (uint32_t k = 0; k <= addends; k++) {
            float *x = random_floats(MOST, 30 + k, 0);
            for (uint64_t e = 0; e < MOST; e++)
                if (type == PST_F32) memcpy(value[k] + e * size, x + e, size);
                else ((uint16_t *)(void *)value[k])[e] = pst_half_from_f32(type, x[e]);
            here[k] = value[k] + shift * size;
            there[k] = (uint8_t *)runner->put(value[k], MOST * size) + shift * size;
            free(x);
        }
        void *to = (void *)(uintptr_t)there[into];
        assert_int_equal(runner->arith->combine(runner->device, type, there, addends, to, n),
                         PST_OK);
        assert_int_equal(
            pst_arith_cpu.combine(NULL, type, here, addends, (void *)(uintptr_t)here[into], n),
            PST_OK);
        runner->get(got, (uint8_t *)to - shift * size, MOST * size);
        assert_memory_equal(got, value[into], MOST * size);
        runner->clear();
    }
}
#endif
