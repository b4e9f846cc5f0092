/* Memory that is short, and layouts that take more than was thought: what fits is found in any
 * larger memory, with no longer step, and whatever is found with some things fixed is found no
 * worse with nothing fixed. */
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

enum { CASES = 40, ROOMS = 6 };
static const uint64_t seed = 20261122;

/* Up to a third. */
static pst_status take_more(void *arg, pst_candidate *l) {
    (void)arg;
    case_take_more(l, 34);
    return PST_OK;
}

static int fits(const search_case *k, const pst_candidate *l) {
    for (uint32_t s = 0; s < l->layout.pipeline; s++)
        if (l->peak_bytes[s] > k->problem.memory) return 0;
    return 1;
}

/* The step in this memory; UINT64_MAX: nothing fits. */
static uint64_t step_in(search_case *k, uint64_t memory) {
    pst_search_result *r;
    k->problem.memory = memory;
    MUST(pst_search(&k->problem, &r));
    uint64_t step = r->best ? r->best->step_ns : UINT64_MAX;
    if (r->best) assert_true(r->best->exact && fits(k, r->best) && r->bound_ns <= step);
    else assert_true(r->n_row && !r->row[0].fits);
    pst_search_result_close(r);
    return step;
}

static search_case *tight(uint64_t *state) {
    search_case *k = case_small(state);
    for (uint32_t d = 0; d < k->cluster.n_device; d++) k->device[d].memory = 0;
    k->problem.recompute[PST_RECOMPUTE_FULL] = 1;
    k->problem.verify = take_more;
    return k;
}

static uint64_t room_of(const search_case *k) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < k->n; i++) all += k->stash[i] + 16 * k->elements[i];
    return all;
}

static void more_memory_is_no_worse(void **unused) {
    (void)unused;
    uint64_t state = seed;
    uint32_t fitted = 0, shorter = 0;
    for (int i = 0; i < CASES; i++) {
        search_case *k = tight(&state);
        uint64_t all = room_of(k), before = UINT64_MAX;
        for (uint64_t r = 1; r <= ROOMS; r++) {
            uint64_t step = step_in(k, all * (r + 1) / 8);
            if (step > before)
                fail_msg("seed %llu, case %d: %llu ns in %llu bytes, %llu ns in less",
                         (unsigned long long)seed, i, (unsigned long long)step,
                         (unsigned long long)k->problem.memory, (unsigned long long)before);
            fitted += before == UINT64_MAX && step != UINT64_MAX;
            shorter += before != UINT64_MAX && step < before;
            before = step;
        }
        case_close(k);
    }
    assert_true(fitted > CASES / 2 && shorter > CASES / 4);
}

static void less_fixed_is_no_worse(void **unused) {
    (void)unused;
    uint64_t state = seed + 1;
    uint32_t compared = 0;
    for (int i = 0; i < CASES; i++) {
        search_case *k = tight(&state);
        const pst_search_problem open = k->problem;
        uint64_t memory = room_of(k) * (1 + case_below(&state, 4)) / 5,
                 free_ns = step_in(k, memory);
        for (uint32_t s = 0; s < open.n_schedule; s++)
            for (uint32_t b = 0; b < 2; b++) {
                k->problem = open;
                k->problem.n_schedule = 1;
                k->problem.schedule[0] = open.schedule[s];
                k->problem.micro_batch = CHOICES(b + 1);
                uint64_t step = step_in(k, memory);
                if (step < free_ns)
                    fail_msg(
                        "seed %llu, case %d: %llu ns with %s and micro_batch %u, %llu with all",
                        (unsigned long long)seed, i, (unsigned long long)step, open.schedule[s],
                        b + 1, (unsigned long long)free_ns);
                compared += step != UINT64_MAX;
            }
        case_close(k);
    }
    assert_true(compared > CASES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_memory_is_no_worse),
        cmocka_unit_test(less_fixed_is_no_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
