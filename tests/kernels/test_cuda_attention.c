/* test: isa=any timeout=60
 * Attention without the library (kernels/cuda/attention_plain.cu) on emulated threads, against the
 * reference: odd sizes, all types, threads in either order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/case.h"
#include "kernels/cuda/attention_plain.h"

extern int emulate_backwards;
int emulate_backwards;

static const uint64_t first_sample = CASE_SAMPLE;

static void *data(const case_state *s, uint32_t kind) { return case_find(s, kind, 0)->data; }

static void run(const case_state *s, pst_pass pass) {
    const kernel_case *k = &s->spec;
    const int own = k->kv_heads != 0;
    const uint64_t heads = k->total ? k->total : k->heads;
    const uint32_t mask = own ? 3 : 1;
    pst_cuda_attention a = {.qkv = own ? NULL : data(s, PST_ARG_IN),
                            .out = data(s, PST_ARG_OUT),
                            .lse = data(s, PST_ARG_SAVED),
                            .dout = data(s, PST_ARG_DOUT),
                            .dqkv = own ? NULL : data(s, PST_ARG_DIN),
                            .kv_heads = k->kv_heads,
                            .group = own ? heads / k->kv_heads : 1,
                            .first = k->first,
                            .window = k->window,
                            .b = k->b,
                            .t = k->t,
                            .c = k->c,
                            .heads = k->heads,
                            .lengths = k->lengths ? case_find(s, PST_ARG_IN, mask)->data : NULL,
                            .bidirectional = (uint32_t)k->bidirectional,
                            .rate = k->rate,
                            .key = pst_rng_key(CASE_RUN_SEED, s->node->name),
                            .sample = 77,
                            .sample_at = &first_sample,
                            .scale = 1 / sqrtf((float)(k->c / k->heads))};
    for (uint32_t i = 0; own && i < 3; i++) {
        const void **in[] = {&a.q, &a.k, &a.v};
        void **out[] = {&a.dq, &a.dk, &a.dv};
        *in[i] = case_find(s, PST_ARG_IN, i)->data;
        *out[i] = case_find(s, PST_ARG_DIN, i)->data;
    }
    if (pass == PST_PASS_F) pst_cuda_attention_f(NULL, k->dtype, &a);
    else pst_cuda_attention_b(NULL, k->dtype, &a);
}

static void compare_at(const case_state *got, const case_state *want, uint32_t kind, uint32_t i) {
    const case_buffer *a = case_find(got, kind, i), *b = case_find(want, kind, i);
    if (!a) return;
    double unit = a->dtype == PST_F16 ? 0x1p-11 : 3e-6;
    if (a->dtype == PST_BF16) unit = 0x1p-8;
    float *x = case_floats(a), *y = case_floats(b);
    double distance = case_distance(x, y, a->n);
    free(x);
    free(y);
    if (!(distance <= (a->n < 8 ? 8 * unit : unit)))
        fail_msg("operand %u is %.3g from the reference: %s", kind, distance,
                 case_text(&got->spec));
}

static void compare(const case_state *got, const case_state *want, uint32_t kind) {
    for (uint32_t i = 0; i < 3; i++) compare_at(got, want, kind, i);
}

static void check(const kernel_case *k) {
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_ref(&n);
    case_state want, got[2];
    assert_int_equal(case_open(k, 5, 0, &want), PST_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(case_open(k, 5, i ? 3 : 0, &got[i]), PST_OK);
    for (int pass = PST_PASS_F; pass <= PST_PASS_B; pass++) {
        assert_int_equal(case_run(&want, case_row(rows, n, k, (pst_pass)pass, 0), NULL,
                                  (case_flags){.train = k->rate > 0}),
                         PST_OK);
        for (int i = 0; i < 2; i++) {
            emulate_backwards = i;
            run(&got[i], (pst_pass)pass);
            assert_true(case_guards_intact(&got[i]));
        }
        for (uint32_t kind = 0; kind <= PST_ARG_DPARAM; kind++) {
            if (!case_find(&want, kind, 0)) continue;
            const case_buffer *a = case_find(&got[0], kind, 0), *b = case_find(&got[1], kind, 0);
            assert_memory_equal(a->data, b->data, a->size * a->n); /* other order, other
                                                                      addresses */
            if (kind != PST_ARG_DIN || pass == PST_PASS_B) compare(&got[0], &want, kind);
        }
        case_copy(&got[0], &want);
        case_copy(&got[1], &want); /* what B begins with */
    }
    case_close(&want);
    case_close(&got[0]);
    case_close(&got[1]);
}

static void grouped_attention_is_the_reference(void **state) {
    (void)state;
    static const struct {
        uint64_t b, t, d, window;
        uint32_t heads, kv_heads;
    } shape[] = {{2, 5, 3, 0, 4, 2},
                 {1, 40, 8, 0, 3, 1},
                 {1, 70, 7, 33, 2, 2},
                 {2, 40, 5, 2, 6, 3},
                 {1, 200, 8, 70, 2, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int lengths = 0; lengths < 2; lengths++)
            check(&(kernel_case){.op = "attention",
                                 .b = shape[i].b,
                                 .t = shape[i].t,
                                 .c = shape[i].d * shape[i].heads,
                                 .heads = shape[i].heads,
                                 .kv_heads = shape[i].kv_heads,
                                 .window = shape[i].window,
                                 .lengths = lengths,
                                 .dtype = i % 2 ? PST_BF16 : PST_F32});
    /* a tensor rank whose heads do not use all keys; a window over packed operands */
    check(&(kernel_case){.op = "attention",
                         .b = 2,
                         .t = 35,
                         .c = 12,
                         .heads = 3,
                         .kv_heads = 4,
                         .first = 3,
                         .total = 8});
    check(&(kernel_case){.op = "attention", .b = 1, .t = 90, .c = 8, .heads = 2, .window = 40});
}

static void plain_attention_is_the_reference(void **state) {
    (void)state;
    static const struct {
        uint64_t b, t, d;
        uint32_t heads;
    } shape[] = {{1, 1, 1, 1},   {2, 5, 3, 3},  {1, 32, 8, 2},
                 {1, 33, 40, 1}, {2, 70, 7, 2}, {1, 40, 65, 1}};
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t type = 0; type < 3; type++)
            for (int mask = 0; mask < 4; mask++)
                if (type == 0 || type == 1 + i % 2)
                    check(&(kernel_case){.op = "attention",
                                         .b = mask > 1 ? 5 : shape[i].b,
                                         .t = shape[i].t,
                                         .c = shape[i].d * shape[i].heads,
                                         .heads = shape[i].heads,
                                         .bidirectional = mask % 2,
                                         .lengths = mask > 1,
                                         .dtype = types[type]});
}

static void dropped_attention_is_the_reference(void **state) {
    (void)state;
    for (uint64_t t = 5; t < 80; t += 36)
        for (int mask = 0; mask < 4; mask++)
            check(&(kernel_case){.op = "attention",
                                 .b = mask > 1 ? 5 : 2,
                                 .t = t,
                                 .c = 2 * (t / 2),
                                 .heads = 2,
                                 .first = 3,
                                 .rate = 0.3f,
                                 .bidirectional = mask % 2,
                                 .lengths = mask > 1,
                                 .dtype = mask == 1 ? PST_F16 : PST_F32});
}

/* Whatever lies in rows of padding becomes 0, and nothing else changes. */
static void padding_is_cleared(void **state) {
    (void)state;
    const kernel_case k = {
        .op = "attention", .b = 5, .t = 35, .c = 68, .heads = 2, .lengths = 1, .dtype = PST_BF16};
    case_state s, want;
    assert_int_equal(case_open(&k, 5, 0, &s), PST_OK);
    assert_int_equal(case_open(&k, 5, 0, &want), PST_OK);
    const int32_t *lengths = case_find(&s, PST_ARG_IN, 1)->data;
    const pst_cuda_attention a = {.qkv = data(&s, PST_ARG_IN),
                                  .out = data(&s, PST_ARG_OUT),
                                  .lse = data(&s, PST_ARG_SAVED),
                                  .dqkv = data(&s, PST_ARG_DIN),
                                  .b = k.b,
                                  .t = k.t,
                                  .c = k.c,
                                  .heads = k.heads,
                                  .lengths = lengths};
    pst_cuda_attention_clear_f(NULL, k.dtype, &a);
    pst_cuda_attention_clear_b(NULL, k.dtype, &a);
    uint16_t *out = data(&want, PST_ARG_OUT), *din = data(&want, PST_ARG_DIN);
    float *lse = data(&want, PST_ARG_SAVED);
    for (uint64_t b = 0; b < k.b; b++)
        for (uint64_t i = (uint64_t)lengths[b]; i < k.t; i++) {
            memset(out + (b * k.t + i) * k.c, 0, k.c * sizeof *out);
            memset(din + (b * k.t + i) * 3 * k.c, 0, 3 * k.c * sizeof *din);
            for (uint64_t head = 0; head < k.heads; head++) lse[(b * k.heads + head) * k.t + i] = 0;
        }
    static const uint32_t kinds[] = {PST_ARG_OUT, PST_ARG_SAVED, PST_ARG_DIN};
    for (size_t i = 0; i < 3; i++) {
        const case_buffer *x = case_find(&s, kinds[i], 0), *y = case_find(&want, kinds[i], 0);
        assert_memory_equal(x->data, y->data, x->size * x->n);
    }
    assert_true(case_guards_intact(&s));
    case_close(&s);
    case_close(&want);
}

/* Members are added in order, in fp32: one array after the other, or in runs side by side. */
static void shares_of_members_are_summed(void **state) {
    (void)state;
    enum { N = 264, GROUP = 5, RUN = 24 };
    static uint16_t part[GROUP * N], to[N + 1];
    for (int i = 0; i < 4; i++) {
        const pst_dtype type = i % 2 ? PST_F16 : PST_BF16;
        pst_cuda_attention_shared s = {part, N, N, 0, N, GROUP, to};
        uint32_t x = 7;
        if (i > 1) {
            s.run = s.apart = RUN;
            s.between = GROUP * RUN;
        }
        for (int k = 0; k < GROUP * N; k++, x = x * 1664525 + 1013904223)
            part[k] = pst_half_from_f32(type, (float)(x >> 20) / 256 - 8);
        to[N] = 99;
        pst_cuda_attention_sum(NULL, type, &s);
        for (uint64_t k = 0; k < N; k++) {
            const uint16_t *at = part + k / s.run * s.between + k % s.run;
            float sum = pst_f32_from_half(type, at[0]);
            for (uint64_t m = 1; m < GROUP; m++) sum += pst_f32_from_half(type, at[m * s.apart]);
            assert_int_equal(to[k], pst_half_from_f32(type, sum));
        }
        assert_int_equal(to[N], 99);
    }
}

static void lengths_are_clamped(void **state) {
    (void)state;
    int32_t lengths[300], to[301];
    pst_cuda_attention a = {.b = 300, .t = 40, .c = 8, .heads = 1, .lengths = lengths};
    for (int i = 0; i < 300; i++) lengths[i] = i - 100;
    lengths[0] = INT32_MIN;
    lengths[299] = INT32_MAX;
    to[300] = -7;
    pst_cuda_attention_clamp(NULL, &a, to);
    for (int i = 0; i < 300; i++) {
        int32_t most = lengths[i] > 40 ? 40 : lengths[i];
        assert_int_equal(to[i], most < 1 ? 1 : most);
    }
    assert_int_equal(to[300], -7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_attention_is_the_reference),
                                       cmocka_unit_test(dropped_attention_is_the_reference),
                                       cmocka_unit_test(grouped_attention_is_the_reference),
                                       cmocka_unit_test(padding_is_cleared),
                                       cmocka_unit_test(shares_of_members_are_summed),
                                       cmocka_unit_test(lengths_are_clamped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
