/* PipeDream's two levels against all plans of small graphs, as the judge finds them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/random_graph.h"
#include "partition/foreign/import.h"
#include <math.h>

enum { NODES = 5 };

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(next_random(state) % n); }

static pst_import *workload(uint64_t *state) {
    pst_import *im = calloc(1, sizeof *im);
    uint32_t n = 2 + below(state, NODES - 1), n_edge = 0;
    MUST(pst_import_allocate(im, n, NODES * NODES, 1));
    im->format = PST_IMPORT_PIPEDREAM;
    im->unit = "s";
    im->n_class = n;
    for (uint32_t v = 0; v < n; v++) {
        im->id[v] = im->class_of[v] = v;
        im->time[v] = below(state, 6) ? 1 + below(state, 20) : 0;
        im->parameters[v] = below(state, 3) ? below(state, 30) : 0;
        im->size[v] = im->parameters[v] + below(state, 12);
        for (uint32_t u = 0; u < v; u++)
            if (below(state, 2)) im->edge[n_edge++] = (pst_import_edge){u, v};
    }
    im->n_edge = n_edge;
    im->kind[0].name = "gpu";
    im->kind[0].count = 1 + below(state, 3);
    im->kind[0].memory = INFINITY;
    im->machines = 1 + below(state, 3);
    im->bandwidth = 1 + below(state, 9);
    im->between = 1 + below(state, 4);
    im->straight = below(state, 4) == 0;
    im->compression = below(state, 2) ? 1 + below(state, 3) : 0;
    if (im->machines == 1 && !(im->compression > 0)) im->machines = 2;
    return im;
}

typedef struct {
    const pst_import *im;
    pst_import_plan plan;
    uint32_t part_of[NODES], kind[NODES], devices[NODES], group[NODES], copies[NODES];
    double load[NODES], best;
} all;

/* Degrees of part s, in the group of the part before or one of its own; the judge refuses what is
 * too much. */
static void try_parts(all *a, uint32_t s, uint32_t left) {
    if (s == a->plan.n_part) {
        if (pst_import_evaluate(a->im, &a->plan) == PST_OK)
            a->best = fmin(a->best, a->plan.objective);
        return;
    }
    uint32_t most = a->im->straight ? 1 : a->im->kind[0].count,
             machines = a->im->straight ? 1 : a->im->machines;
    for (a->devices[s] = 1; a->devices[s] <= most; a->devices[s]++) {
        if (s) {
            a->group[s] = a->group[s - 1];
            a->copies[s] = a->copies[s - 1];
            try_parts(a, s + 1, left);
        }
        a->group[s] = s ? a->group[s - 1] + 1 : 0;
        for (uint32_t c = 1; c <= machines && c <= left; c++) {
            a->copies[s] = c;
            try_parts(a, s + 1, left - c);
            a->group[s] = s ? a->group[s - 1] + 1 : 0; /* as the calls below have left it */
        }
    }
}

static void try_splits(all *a, uint32_t v) {
    if (v < a->im->n_node) {
        for (uint32_t s = 0; s < a->im->n_node; s++) {
            a->part_of[v] = s;
            try_splits(a, v + 1);
        }
        return;
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < v; i++) used |= 1u << a->part_of[i];
    for (a->plan.n_part = 0; used >> a->plan.n_part & 1;) a->plan.n_part++;
    if (used >> a->plan.n_part) return; /* a number is left out */
    for (uint32_t i = 0; i < a->im->n_edge; i++)
        if (a->part_of[a->im->edge[i].from] > a->part_of[a->im->edge[i].to]) return;
    try_parts(a, 0, a->im->machines);
}

static void against_all_plans(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(7101);
    for (uint32_t i = 0; i < 150; i++) {
        uint64_t state = seed + i;
        pst_import *im = workload(&state);
        pst_import_plan plan = {0};
        all a = {.im = im, .best = INFINITY};
        a.plan = (pst_import_plan){.part_of = a.part_of,
                                   .kind = a.kind,
                                   .devices = a.devices,
                                   .group = a.group,
                                   .copies = a.copies,
                                   .load = a.load};
        try_splits(&a, 0);
        MUST(pst_import_solve(im, 60, &plan));
        if (fabs(plan.objective - a.best) > 1e-9 * a.best)
            fail_msg("seed %llu: %.12g, all plans: %.12g", (unsigned long long)(seed + i),
                     plan.objective, a.best);
        assert_true(plan.lower_bound >= plan.objective * (1 - 1e-9) && plan.group);
        pst_import_plan_close(&plan);
        pst_import_close(im);
    }
}

/* So many that not all downsets are looked at, and no time at all: a plan with a bound all the
 * same. */
static void without_time(void **unused) {
    (void)unused;
    enum { N = 3000 };
    pst_import *im = calloc(1, sizeof *im);
    MUST(pst_import_allocate(im, N, N, 1));
    im->format = PST_IMPORT_PIPEDREAM;
    im->unit = "s";
    im->n_class = N;
    im->n_edge = N - 1;
    for (uint32_t v = 0; v < N; v++) {
        im->id[v] = im->class_of[v] = v;
        im->time[v] = 1 + v % 7;
        if (v) im->edge[v - 1] = (pst_import_edge){v - 1, v};
    }
    im->kind[0].name = "gpu";
    im->kind[0].count = 4;
    im->kind[0].memory = INFINITY;
    im->machines = 4;
    im->bandwidth = im->between = 1;
    pst_import_plan plan;
    MUST(pst_import_solve(im, 1e-9, &plan));
    assert_true(!plan.complete && plan.lower_bound <= plan.objective &&
                plan.objective < 2 * plan.lower_bound);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_all_plans),
                                       cmocka_unit_test(without_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
