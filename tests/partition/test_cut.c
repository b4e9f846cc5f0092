/* Cutting a row of items: against all possible cuts on small inputs, and fast enough on large
 * ones. */
#include "graph/random_graph.h"
#include "partition/balance/balance.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_N = 12, MAX_K = 5 };
typedef struct {
    uint64_t cost[MAX_N], boundary[MAX_N], crossing[MAX_N];
    uint64_t again[MAX_N];
    const uint64_t *row[MAX_K]; /* again, or NULL */
    double slow[MAX_K];
    uint32_t n, k;
    int with_boundary, with_crossing, with_slow, with_again;
} problem;
/* What is minimized, in this order; then the cuts themselves. */
typedef struct {
    uint64_t most, bytes;
    uint32_t chunk[MAX_N];
} answer;

static answer judge(const problem *p, const uint32_t *chunk) {
    answer a = {0};
    uint64_t sum[MAX_K] = {0};
    memcpy(a.chunk, chunk, p->n * sizeof(chunk[0]));
    for (uint32_t i = 0; i < p->n; i++)
        sum[chunk[i]] += p->cost[i] + (p->with_again && p->row[chunk[i]] ? p->again[i] : 0);
    for (uint32_t c = 0; p->with_slow && c < p->k; c++)
        sum[c] = (uint64_t)((double)sum[c] * p->slow[c]);
    for (uint32_t i = 0; i < p->n; i++) {
        if (i == 0 || chunk[i] == chunk[i - 1]) continue;
        a.bytes += p->with_crossing ? p->crossing[i] : 0;
        sum[chunk[i]] += p->with_boundary ? p->boundary[i] : 0;
        sum[chunk[i - 1]] += p->with_boundary ? p->boundary[i] : 0;
    }
    for (uint32_t c = 0; c < p->k; c++) a.most = sum[c] > a.most ? sum[c] : a.most;
    return a;
}

/* Negative when a is better. An earlier cut makes the chunk numbers behind it larger. */
static int compare(const problem *p, const answer *a, const answer *b) {
    if (a->most != b->most) return a->most < b->most ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    for (uint32_t i = 0; i < p->n; i++)
        if (a->chunk[i] != b->chunk[i]) return a->chunk[i] > b->chunk[i] ? -1 : 1;
    return 0;
}

static answer brute_force(const problem *p) {
    answer best = {.most = UINT64_MAX};
    for (uint32_t mask = 0; mask < 1u << (p->n - 1); mask++) { /* bit i: a cut before item i + 1 */
        if ((uint32_t)__builtin_popcount(mask) != p->k - 1) continue;
        uint32_t chunk[MAX_N] = {0};
        for (uint32_t i = 1; i < p->n; i++) chunk[i] = chunk[i - 1] + (mask >> (i - 1) & 1);
        answer a = judge(p, chunk);
        if (best.most == UINT64_MAX || compare(p, &a, &best) < 0) best = a;
    }
    return best;
}

static void against_brute_force(void **unused) {
    (void)unused;
    uint64_t state = test_seed(41);
    for (uint32_t round = 0; round < 2000; round++) {
        problem p = {.n = 1 + (uint32_t)(next_random(&state) % MAX_N)};
        p.k = 1 + (uint32_t)(next_random(&state) % (p.n < MAX_K ? p.n : MAX_K));
        p.with_boundary = next_random(&state) % 2;
        p.with_crossing = next_random(&state) % 2;
        p.with_slow = next_random(&state) % 2;
        p.with_again = next_random(&state) % 2;
        for (uint32_t c = 0; c < MAX_K; c++) {
            p.slow[c] = 1 + 0.25 * (double)(next_random(&state) % 9);
            p.row[c] = next_random(&state) % 2 ? p.again : NULL;
        }
        uint64_t range = 1 + next_random(&state) % 20; /* small ranges make ties */
        for (uint32_t i = 0; i < p.n; i++) {
            p.cost[i] = next_random(&state) % range;
            p.again[i] = next_random(&state) % range;
            p.boundary[i] = next_random(&state) % range;
            p.crossing[i] = next_random(&state) % range;
        }
        uint32_t chunk[MAX_N];
        const pst_balance_items items = {.cost = p.cost,
                                         .boundary_cost = p.with_boundary ? p.boundary : NULL,
                                         .crossing = p.with_crossing ? p.crossing : NULL,
                                         .again = p.with_again ? p.row : NULL,
                                         .slow = p.with_slow ? p.slow : NULL,
                                         .n = p.n,
                                         .n_chunk = p.k};
        MUST(pst_balance_cut(&items, chunk));
        for (uint32_t i = 0; i < p.n; i++) /* contiguous, ascending, none empty */
            assert_true(i == 0 ? chunk[0] == 0 : chunk[i] - chunk[i - 1] <= 1);
        assert_int_equal(chunk[p.n - 1], p.k - 1);
        answer got = judge(&p, chunk), best = brute_force(&p);
        if (compare(&p, &got, &best) != 0)
            fail_msg("round %u: %lu/%lu bytes instead of %lu/%lu", round, got.most, got.bytes,
                     best.most, best.bytes);
    }
}

static void impossible(void **unused) {
    (void)unused;
    uint64_t cost[3] = {1, 2, 3};
    uint32_t chunk[3] = {7, 7, 7};
    pst_balance_items items = {.cost = cost, .n = 3, .n_chunk = 4};
    assert_int_equal(pst_balance_cut(&items, chunk), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "3 operators cannot be cut into 4 chunks"));
    items.n_chunk = 0;
    assert_int_equal(pst_balance_cut(&items, chunk), PST_EINPUT);
    assert_int_equal(chunk[0], 7);
}

static void enormous_costs_do_not_overflow(void **unused) {
    (void)unused;
    uint64_t cost[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 1};
    uint32_t chunk[4];
    const pst_balance_items items = {
        .cost = cost, .boundary_cost = cost, .crossing = cost, .n = 4, .n_chunk = 2};
    MUST(pst_balance_cut(&items, chunk));
    assert_int_equal(chunk[0], 0);
    assert_int_equal(chunk[3], 1);
}

static void a_thousand_operators(void **unused) {
    (void)unused;
    enum { N = 1000, K = 32 };
    uint64_t *cost = calloc(N, sizeof(*cost)), most = 0, sum = 0, state = test_seed(43);
    uint32_t *chunk = calloc(N, sizeof(*chunk));
    for (uint32_t i = 0; i < N; i++) cost[i] = 1000 + next_random(&state) % 1000;
    const pst_balance_items items = {.cost = cost, .crossing = cost, .n = N, .n_chunk = K};
    MUST(pst_balance_cut(&items, chunk));
    for (uint32_t i = 0; i < N; i++) {
        sum = i > 0 && chunk[i] == chunk[i - 1] ? sum + cost[i] : cost[i];
        most = sum > most ? sum : most;
    }
    assert_int_equal(chunk[N - 1], K - 1);
    assert_true(most < 1500 * N / K + 2000);
    free(cost);
    free(chunk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_brute_force),
        cmocka_unit_test(impossible),
        cmocka_unit_test(enormous_costs_do_not_overflow),
        cmocka_unit_test(a_thousand_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
