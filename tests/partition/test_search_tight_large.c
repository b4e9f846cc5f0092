/* test: timeout=60 */
/* As test_search_tight.c, of problems that are too large to go through: what fits in some memory is
 * found in any larger memory, with a step that is hardly longer. */
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

enum { CASES = 12, ROOMS = 10 };
#define FAR_LONGER 1.05
static const uint64_t seed = 20261123;

/* Up to a tenth. */
static pst_status take_more(void *arg, pst_candidate *l) {
    (void)arg;
    case_take_more(l, 11);
    return PST_OK;
}

/* Blocks of four operators on eight devices. */
static search_case *blocks(uint64_t *state) {
    static const char *const schedule[] = {"1f1b",   "zb-v",       "interleaved",
                                           "v-half", "1f1b-early", "v-min"};
    uint32_t n = 24 + 4 * case_below(state, 5);
    search_case *k = case_open(n, 1, 8);
    for (uint32_t i = 0; i < n; i++) {
        if (i < 4) {
            k->f[i] = 2000 + case_below(state, 20000);
            k->b[i] = k->f[i];
            k->w[i] = k->f[i];
            k->cross[i] = case_below(state, 5000);
            k->stash[i] = case_below(state, 20000);
            k->elements[i] = case_below(state, 5000);
        } else {
            k->f[i] = k->f[i - 4];
            k->b[i] = k->b[i - 4];
            k->w[i] = k->w[i - 4];
            k->cross[i] = k->cross[i - 4];
            k->stash[i] = k->stash[i - 4];
            k->elements[i] = k->elements[i - 4];
        }
    }
    k->node[0].link[PST_LEVEL_DEVICE] = (pst_cluster_link){1000, 1e10};
    k->exchange = case_below(state, 2000);
    k->norm_ns = 0.1;
    k->step_ns = 0.5;
    k->reduce_ns = 0.1;
    k->problem.batch = 32;
    k->problem.micro_batch = CHOICES(1, 2, 4, 8);
    k->problem.pipeline = CHOICES(1, 2, 4, 8);
    k->problem.data = CHOICES(1, 2, 4, 8);
    k->problem.zero = CHOICES(0, 1);
    k->problem.all_devices = 1;
    k->problem.n_schedule = 6;
    memcpy(k->problem.schedule, schedule, sizeof schedule);
    memset(k->problem.recompute, 1, sizeof k->problem.recompute);
    k->problem.verify = take_more;
    return k;
}

static void more_memory_is_hardly_worse(void **unused) {
    (void)unused;
    uint64_t state = seed;
    uint32_t fitted = 0;
    for (int i = 0; i < CASES; i++) {
        search_case *k = blocks(&state);
        uint64_t all = 0, least = UINT64_MAX;
        for (uint32_t j = 0; j < k->n; j++) all += k->stash[j] + 16 * k->elements[j];
        for (uint64_t r = 1; r <= ROOMS; r++) {
            pst_search_result *found;
            k->problem.memory = all / 12 + all * r / 20;
            MUST(pst_search(&k->problem, &found));
            uint64_t step = found->best ? found->best->step_ns : UINT64_MAX;
            for (uint32_t s = 0; found->best && s < found->best->layout.pipeline; s++)
                assert_true(found->best->exact && found->best->peak_bytes[s] <= k->problem.memory);
            if (least != UINT64_MAX && (double)step > FAR_LONGER * (double)least)
                fail_msg("seed %llu, case %d: %llu ns in %llu bytes, %llu ns in less",
                         (unsigned long long)seed, i, (unsigned long long)step,
                         (unsigned long long)k->problem.memory, (unsigned long long)least);
            if (step < least) least = step;
            pst_search_result_close(found);
        }
        fitted += least != UINT64_MAX;
        case_close(k);
    }
    assert_true(fitted > CASES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_memory_is_hardly_worse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
