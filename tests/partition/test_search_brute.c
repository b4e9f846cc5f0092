/* test: label=full timeout=900 */
/* The search beside brute force over cuts, orders of devices, degrees (tensor ranks of each stage),
 * schedules, micro-batches, zero and recomputation, scored by the same simulation: never more than
 * 1% longer, and equal in at least 95 of 100. PST_CASES: how many (40; the figure is for 300);
 * PST_SEED: the first of them. */
#include "partition/search/bound.h"
#include "partition/search/score.h"
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct {
    const pst_search_problem *problem;
    uint64_t best, n_scored, n_unequal;
    uint64_t best_unequal;     /* of layouts whose stages have different tensor ranks */
    pst_candidate best_layout; /* sizes and degrees only */
} brute;

static int fits(const pst_search_problem *p, const pst_candidate *l) {
    const pst_grid grid = pst_layout_grid(&l->layout);
    for (uint32_t r = 0; r < pst_grid_size(grid); r++) {
        uint64_t room = p->cluster->device[l->layout.device[r]].memory;
        if (room && l->peak_bytes[pst_grid_stage(grid, r)] > room) return 0;
    }
    return 1;
}

/* As the search does it. */
static pst_status score(const pst_search_problem *problem, pst_candidate *l) {
    pst_search_context x;
    pst_search_problem own = *problem;
    const pst_search_config c = {.pipeline = l->layout.pipeline,
                                 .tensor = l->layout.tensor,
                                 .data = l->layout.data,
                                 .before = l->layout.tensor_before,
                                 .micro_batch = l->layout.micro_batch,
                                 .chunks = l->layout.n_chunk / l->layout.pipeline,
                                 .zero = l->layout.zero,
                                 .sequence = l->layout.sequence,
                                 .n_micro = l->layout.n_micro};
    uint64_t excess;
    uint32_t stage;
    own.n_schedule = 1;
    own.schedule[0] = l->layout.schedule;
    own.time_limit_s = 0;
    pst_status status = pst_search_context_open(&own, &x);
    if (status == PST_OK) status = pst_search_predict(&x, &c, l, PST_SCORE_SIMULATE);
    if (status == PST_OK) status = pst_search_estimate_memory(&x, &c, l, &excess, &stage);
    pst_search_context_close(&x);
    return status;
}

static void try_layout(brute *b, pst_candidate *l) {
    memset(l->layout.micros, 0, l->layout.data * sizeof *l->layout.micros);
    if (score(b->problem, l) != PST_OK) return;
    b->n_scored++;
    if (l->layout.tensor_before && l->step_ns < b->best_unequal) b->best_unequal = l->step_ns;
    if (fits(b->problem, l) && l->step_ns < b->best) {
        b->best = l->step_ns;
        b->best_layout = *l;
    }
}

/* All modes of every chunk; of more than four chunks the same of all. */
static void try_modes(brute *b, pst_candidate *l) {
    uint32_t chunks = b->problem->recompute[PST_RECOMPUTE_FULL] ? l->layout.n_chunk : 0,
             n = chunks > 4 ? 2 : 1u << chunks;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < l->layout.n_chunk; k++)
            l->layout.recompute[k] =
                (chunks > 4 ? i : i >> k & 1) ? PST_RECOMPUTE_FULL : PST_RECOMPUTE_NONE;
        try_layout(b, l);
    }
}

static void try_cuts(brute *b, pst_candidate *l, uint32_t chunk) {
    if (chunk == l->layout.n_chunk) {
        l->layout.first_item[chunk] = l->layout.n_item;
        try_modes(b, l);
        return;
    }
    uint32_t from = chunk ? l->layout.first_item[chunk - 1] + 1 : 0,
             to = chunk ? l->layout.n_item - (l->layout.n_chunk - chunk) : 0;
    for (uint32_t i = from; i <= to; i++) {
        l->layout.first_item[chunk] = i;
        try_cuts(b, l, chunk + 1);
    }
}

static void try_devices(brute *b, pst_candidate *l, uint32_t depth, uint32_t used) {
    uint32_t n = pst_grid_size(pst_layout_grid(&l->layout));
    if (depth == n) {
        try_cuts(b, l, 0);
        return;
    }
    for (uint32_t d = 0; d < b->problem->cluster->n_device; d++)
        if (!(used >> d & 1)) {
            l->layout.device[depth] = d;
            try_devices(b, l, depth + 1, used | 1u << d);
        }
}

static void try_schedule(brute *b, uint32_t schedule, pst_candidate like) {
    const pst_schedule_row *row;
    uint32_t first[64] = {0}, micros[8], device[8], in_flight[8];
    uint64_t peak[8];
    pst_recompute_way recompute[64] = {0};
    assert_int_equal(pst_schedule_find(b->problem->schedule[schedule], &row), PST_OK);
    strcpy(like.layout.schedule, row->name);
    like.layout.chunks = row->n_virtual ? row->n_virtual : 2;
    like.layout.n_chunk = like.layout.pipeline * like.layout.chunks;
    like.layout.n_item = b->problem->n_item;
    if (like.layout.n_chunk > like.layout.n_item) return;
    like.layout.first_item = first;
    like.layout.micros = micros;
    like.layout.device = device;
    like.in_flight = in_flight;
    like.peak_bytes = peak;
    like.layout.recompute = recompute;
    try_devices(b, &like, 0, 0);
}

/* With these tensor ranks of each stage: all sizes, schedules and what replicas share out. */
static void try_degrees(brute *b, const uint32_t *degree, uint32_t pipeline, uint32_t data) {
    const pst_search_problem *p = b->problem;
    uint32_t before[8], same = 1;
    for (uint32_t s = 0; s < pipeline; s++) same &= degree[s] == degree[0];
    uint32_t most = pst_grid_prefix_sums(degree, pipeline, before);
    if (before[pipeline] * data > p->cluster->n_device) return;
    b->n_unequal += !same;
    for (uint32_t m = 0; m < p->micro_batch.n; m++)
        for (uint32_t z = 0; z < (data > 1 ? p->zero.n : 1); z++) {
            pst_candidate l = {.layout.pipeline = pipeline,
                               .layout.tensor = most,
                               .layout.data = data,
                               .layout.tensor_before = same ? NULL : before,
                               .layout.micro_batch = p->micro_batch.value[m],
                               .layout.zero = p->zero.value[z],
                               .layout.n_micro = p->batch / p->micro_batch.value[m]};
            for (uint32_t s = 0; s < p->n_schedule && l.layout.n_micro >= data; s++)
                try_schedule(b, s, l);
        }
}

static void try_all(brute *b) {
    const pst_search_problem *p = b->problem;
    for (uint32_t i = 0; i < p->pipeline.n; i++) {
        uint32_t stages = p->pipeline.value[i], lists = 1, degree[8];
        for (uint32_t s = 0; s < stages; s++) lists *= p->tensor.n;
        for (uint32_t j = 0; j < lists; j++) {
            for (uint32_t s = 0, rest = j; s < stages; s++, rest /= p->tensor.n)
                degree[s] = p->tensor.value[rest % p->tensor.n];
            for (uint32_t k = 0; k < p->data.n; k++)
                try_degrees(b, degree, stages, p->data.value[k]);
        }
    }
}

/* The bound of layouts whose stages have different tensor ranks. */
static void check_unequal(const brute *b, uint64_t seed) {
    pst_search_context x;
    uint64_t bound = 0;
    pst_status status = pst_search_context_open(b->problem, &x);
    if (status == PST_OK) status = pst_search_unequal_bound(&x, &bound);
    pst_search_context_close(&x);
    if (status != PST_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, pst_error());
    if (bound > b->best_unequal)
        fail_msg("seed %llu: bound %llu with different tensor ranks, one takes %llu",
                 (unsigned long long)seed, (unsigned long long)bound,
                 (unsigned long long)b->best_unequal);
}

static void beside_brute_force(void **unused) {
    (void)unused;
    const char *text = getenv("PST_CASES"), *seed = getenv("PST_SEED");
    uint32_t n = text ? (uint32_t)atoi(text) : 40, equal = 0, unequal = 0, won = 0;
    uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
    double worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t state = first + i;
        search_case *k = case_small(&state);
        brute b = {.problem = &k->problem, .best = UINT64_MAX, .best_unequal = UINT64_MAX};
        pst_search_result *r;
        if (pst_search(&k->problem, &r) != PST_OK)
            fail_msg("seed %llu: %s", (unsigned long long)(first + i), pst_error());
        try_all(&b);
        uint64_t found = r->best ? r->best->step_ns : UINT64_MAX;
        if (found == UINT64_MAX && b.best != UINT64_MAX)
            fail_msg("seed %llu: nothing found, one takes %llu", (unsigned long long)(first + i),
                     (unsigned long long)b.best);
        double over = b.best == UINT64_MAX ? 0 : (double)found / (double)b.best - 1;
        if (over > worst) worst = over;
        equal += over <= 0;
        unequal += b.n_unequal > 0;
        won += r->best && r->best->layout.tensor_before;
        if (over > 0)
            printf("seed %llu: %.3f%% over: %s %u x %u x %u, micro_batch %u, zero %u; best %s %u x "
                   "%u x %u, "
                   "micro_batch %u, zero %u\n",
                   (unsigned long long)(first + i), 100 * over, r->best->layout.schedule,
                   r->best->layout.pipeline, r->best->layout.tensor, r->best->layout.data,
                   r->best->layout.micro_batch, r->best->layout.zero, b.best_layout.layout.schedule,
                   b.best_layout.layout.pipeline, b.best_layout.layout.tensor,
                   b.best_layout.layout.data, b.best_layout.layout.micro_batch,
                   b.best_layout.layout.zero);
        if (r->best && r->bound_ns > b.best)
            fail_msg("seed %llu: bound %llu, one takes %llu", (unsigned long long)(first + i),
                     (unsigned long long)r->bound_ns, (unsigned long long)b.best);
        check_unequal(&b, first + i);
        pst_search_result_close(r);
        case_close(k);
    }
    printf("%u cases from seed %llu: %u equal, worst %.3f%% over; %u with unequal tensor ranks, "
           "best in %u\n",
           n, (unsigned long long)first, equal, 100 * worst, unequal, won);
    assert_true(unequal && (won || n < 40));
    assert_true(worst <= 0.01);
    assert_true(equal * 100 >= n * 95);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(beside_brute_force)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
