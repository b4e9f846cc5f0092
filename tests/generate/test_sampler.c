/* test: label=quick sanitize=address */
/* The tokens that a sampler chooses, and how often, against sorting all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/rng.h"
#include "generate/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256, DRAWS = 1500, SEEN = 3 };
static const int32_t seen[SEEN] = {7, 200, 7};

typedef struct {
    int id;
    double logit, p;
} candidate;

static int larger_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

/* p: probability of each token. */
static void expected(const pst_sampling *how, const float *logits, double p[N]) {
    candidate all[N];
    double sum = 0, kept = 0;
    for (int i = 0; i < N; i++) all[i] = (candidate){i, logits[i], 0};
    for (int i = 0; i < 2 && how->repetition > 0; i++) {
        double *of = &all[seen[i]].logit;
        *of = *of > 0 ? *of / how->repetition : *of * how->repetition;
    }
    qsort(all, N, sizeof *all, larger_first);
    int n = how->top_k ? (int)how->top_k : N;
    if (n > N) n = N;
    while (how->top_k && n < N && all[n].logit == all[n - 1].logit) n++;
    for (int i = 0; i < n; i++) all[i].p = exp((all[i].logit - all[0].logit) / how->temperature);
    for (int i = 0; i < n; i++) sum += all[i].p;
    const double enough = how->top_p > 0 ? how->top_p * sum : sum + 1;
    for (int i = 0; i < n; i++) {
        const int enters = kept < enough;
        kept += all[i].p;
        if (!enters || all[i].p < how->min_p) all[i].p = 0;
    }
    sum = 0;
    for (int i = 0; i < N; i++) sum += all[i].p;
    for (int i = 0; i < N; i++) p[all[i].id] = all[i].p / sum;
}

static void check(const pst_sampling *how, const float *logits) {
    pst_tokenizer *t;
    pst_sampler s;
    double p[N], sum = 0;
    assert_int_equal(pst_tokenizer_open("byte", &t), PST_OK);
    assert_int_equal(pst_sampler_open(how, t, N + 50, &s), PST_OK);
    assert_int_equal(s.n, N);
    expected(how, logits, p);
    int count[N] = {0};
    for (int i = 0; i < DRAWS; i++)
        count[pst_sampler_draw(&s, logits, seen, SEEN, (i + 0.5) / DRAWS)]++;
    for (int i = 0; i < N; i++) {
        /* draws are evenly spaced: a token gets its share, up to one draw at each end */
        if (fabs(count[i] - p[i] * DRAWS) > 1.5 || (p[i] == 0 && count[i]))
            fail_msg("token %d: %d of %d draws, expected %g (top_k %lu top_p %g min_p %g)", i,
                     count[i], DRAWS, p[i] * DRAWS, (unsigned long)how->top_k, how->top_p,
                     how->min_p);
        sum += p[i];
    }
    assert_true(fabs(sum - 1) < 1e-9);
    for (int i = 0; i < N; i++) assert_int_equal(s.seen[i], 0);
    pst_sampler_close(&s);
    pst_tokenizer_close(t);
}

static void probabilities(void **state) {
    (void)state;
    float logits[N];
    static const float spread[] = {0.01f, 1, 4, 30};
    static const uint64_t top_k[] = {0, 1, 5, 100, N, 1000};
    static const double top_p[] = {0, 1e-6, 0.3, 0.9, 1}, min_p[] = {0, 0.01, 0.5, 1};
    for (int i = 0; i < 4; i++) {
        pst_rng_normal(pst_rng_key(9, "logits"), 0, spread[i], logits, N);
        logits[40] = logits[41] = logits[42]; /* equal ones */
        for (int k = 0; k < 6; k++)
            for (int j = 0; j < 5; j++)
                check(&(pst_sampling){.temperature = j % 2 ? 0.7 : 1.3,
                                      .top_k = top_k[k],
                                      .top_p = top_p[j],
                                      .min_p = min_p[(k + j) % 4],
                                      .repetition = (k + j) % 3 ? 0 : 1.8},
                      logits);
    }
}

/* Temperature 0: the first of the largest, after the penalty. */
static void most_likely(void **state) {
    (void)state;
    float logits[N] = {0};
    pst_tokenizer *t;
    pst_sampler s;
    logits[200] = 2;
    logits[9] = 1.5f;
    logits[30] = 1.5f;
    assert_int_equal(pst_tokenizer_open("byte", &t), PST_OK);
    assert_int_equal(pst_sampler_open(&(pst_sampling){0}, t, N, &s), PST_OK);
    assert_int_equal(pst_sampler_draw(&s, logits, seen, SEEN, 0.999), 200);
    pst_sampler_close(&s);
    assert_int_equal(pst_sampler_open(&(pst_sampling){.repetition = 1.5}, t, N, &s), PST_OK);
    assert_int_equal(pst_sampler_draw(&s, logits, seen, SEEN, 0.999), 9);
    pst_sampler_close(&s);
    pst_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(probabilities),
                                       cmocka_unit_test(most_likely)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
