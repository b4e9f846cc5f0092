/* Search for a solved schedule (pipeline/solve/solve.h). First, solutions are built in both
 * directions of time from several priorities: tails, the named schedules that fit, one kind of pass
 * before the others. Then local search from the best of them: the order of a solution is perturbed,
 * rebuilt forwards, backwards and forwards, and kept if it is no longer. A perturbation moves a
 * whole queue, a stretch of one, or every pass a little; random numbers come from a fixed seed. */
#include "pipeline/schedule/build.h"
#include "pipeline/solve/parts.h"
#include <stdlib.h>
#include <string.h>

enum { POOL = 6 }; /* solutions that are improved */
/* limits of the search: about half a second */
enum { MOST_DECISIONS = 4 << 20, MOST_BUILDS = 6000 };

typedef struct {
    const pst_solver *s;
    pst_solve_list *list;
    pst_solution pool[POOL], trial, rebuilt; /* pool: in order of makespan; SOLVE_NEVER: empty */
    int64_t *priority;                       /* [n_op] */
    uint64_t *tail;                          /* [n_op] */
    uint64_t random, bound, mean;            /* mean: of the passes' durations */
    uint64_t decisions;                      /* left */
} search;

static uint64_t draw(search *x, uint64_t below) { /* splitmix64 */
    uint64_t z = x->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return below ? (z ^ z >> 31) % below : 0;
}

static void copy_solution(const pst_solver *s, pst_solution *to, const pst_solution *from) {
    to->makespan = from->makespan;
    memcpy(to->start, from->start, s->n_op * sizeof *to->start);
    memcpy(to->word, from->word, s->n_op * sizeof *to->word);
}

/* Builds x->trial forwards from x->priority. */
static void run_forwards(search *x, pst_solve_policy policy, pst_solution *solution) {
    pst_solve_list_run(x->list, 0, x->priority, policy, solution);
    if (x->s->hops && solution->makespan != SOLVE_NEVER) pst_solve_replay(x->list, solution);
}

/* x->trial: built from x->priority, or rebuilt backwards and forwards from the result, whichever is
 * shorter. Changes the priority. */
static void build(search *x, pst_solve_policy policy) {
    const pst_solver *s = x->s;
    /* forwards, backwards, forwards; each decision visits all queues of a rank */
    uint64_t takes = s->n_op * s->per_rank;
    x->decisions -= x->decisions < takes ? x->decisions : takes;
    run_forwards(x, policy, &x->trial);
    if (x->trial.makespan == SOLVE_NEVER || x->trial.makespan <= x->bound) return;
    for (size_t op = 0; op < s->n_op; op++)
        x->priority[op] = -(int64_t)(x->trial.start[op] + s->ns[op / s->n_micro]);
    pst_solve_list_run(x->list, 1, x->priority, policy, &x->rebuilt);
    if (x->rebuilt.makespan == SOLVE_NEVER) return;
    for (size_t op = 0; op < s->n_op; op++)
        x->priority[op] = -(int64_t)(x->rebuilt.start[op] + s->ns[op / s->n_micro]);
    run_forwards(x, policy, &x->rebuilt);
    if (x->rebuilt.makespan > x->trial.makespan) return;
    pst_solution swap = x->trial;
    x->trial = x->rebuilt;
    x->rebuilt = swap;
}

/* Puts x->trial into the pool if it beats the worst there and no other has its makespan. */
static void keep(search *x) {
    uint32_t at = POOL;
    if (x->trial.makespan == SOLVE_NEVER) return;
    for (uint32_t i = 0; i < POOL; i++)
        if (x->pool[i].makespan == x->trial.makespan) return;
    while (at && x->pool[at - 1].makespan > x->trial.makespan) at--;
    if (at == POOL) return;
    pst_solution last = x->pool[POOL - 1];
    memmove(&x->pool[at + 1], &x->pool[at], (POOL - 1 - at) * sizeof *x->pool);
    x->pool[at] = last;
    copy_solution(x->s, &x->pool[at], &x->trial);
}

static void try_priority(search *x) {
    int64_t *saved = malloc(x->s->n_op * sizeof *saved);
    if (saved) /* without it, one starting solution fewer */
        memcpy(saved, x->priority, x->s->n_op * sizeof *saved);
    int ways = x->s->problem->limit ? 2 : 1;
    for (int i = 0; saved && x->decisions && i < 3 * ways; i++) {
        memcpy(x->priority, saved, x->s->n_op * sizeof *saved);
        build(x,
              (pst_solve_policy){.patience = (uint32_t)(i / ways) * 2, .fixed_reserve = i % ways});
        keep(x);
    }
    free(saved);
}

/* Priority by kind of pass; within a kind micro-batches in order. */
static void try_kinds(search *x, const int order[SOLVE_KINDS]) {
    const pst_solver *s = x->s;
    for (size_t op = 0; op < s->n_op; op++)
        x->priority[op] =
            (int64_t)order[op / s->n_micro % SOLVE_KINDS] * s->n_micro + (int64_t)(op % s->n_micro);
    try_priority(x);
}

/* Each micro-batch timed by its dependencies alone, `period` after the one before it. */
static void try_waves(search *x, uint64_t period) {
    const pst_solver *s = x->s;
    for (uint32_t k = 0; k < s->n_queue; k++) {
        uint32_t queue = s->topological[k];
        int64_t *first = x->priority + (size_t)queue * s->n_micro;
        *first = 0;
        for (int e = 0; e < 2; e++) {
            const pst_solve_edge *edge = &s->edge[0][queue][e];
            if (edge->queue == SOLVE_NONE) continue;
            int64_t end = x->priority[(size_t)edge->queue * s->n_micro] +
                          (int64_t)(s->ns[edge->queue] + edge->lag);
            if (end > *first) *first = end;
        }
        for (uint32_t m = 1; m < s->n_micro; m++) first[m] = first[m - 1] + (int64_t)period;
    }
    try_priority(x);
}

/* The work of the busiest rank for one micro-batch. */
static uint64_t longest_round(const pst_solver *s) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint64_t ns = 0;
        for (uint32_t k = 0; k < s->per_rank; k++)
            ns += s->ns[s->queue_of[(size_t)r * s->per_rank + k]];
        if (ns > most) most = ns;
    }
    return most;
}

static void try_tails(search *x) {
    for (size_t op = 0; op < x->s->n_op; op++) x->priority[op] = -(int64_t)x->tail[op];
    try_priority(x);
}

/* Runs one micro-batch after the other: slow, but feasible if any order is feasible. */
static void try_serial(search *x) {
    const pst_solver *s = x->s;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        const uint32_t *of = s->queue_of + (size_t)r * s->per_rank;
        uint16_t *word = x->trial.word + r * pst_solve_length(s);
        for (uint32_t m = 0; m < s->n_micro; m++) {
            for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) *word++ = (uint16_t)of[k];
            for (uint32_t k = s->per_rank; k > 0; k -= SOLVE_KINDS) {
                *word++ = (uint16_t)(of[k - SOLVE_KINDS] + SOLVE_B);

                *word++ = (uint16_t)(of[k - SOLVE_KINDS] + SOLVE_W);
            }
        }
    }
    pst_solve_replay(x->list, &x->trial);
    keep(x);
}

/* A named schedule's order as a word, timed by replay: a solution if it fits, and a priority in any
 * case. */
static void try_named(search *x, const pst_schedule *named, pst_solved *solved) {
    const pst_solver *s = x->s;
    size_t n = pst_solve_length(s);
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint16_t *word = x->trial.word + r * n;
        for (uint32_t i = 0; i < named->n_action[r]; i++) {
            const pst_action *a = &named->action[r][i];
            uint16_t f = (uint16_t)(a->chunk * SOLVE_KINDS);
            if (a->opcode == PST_OP_F) *word++ = f;
            if (a->opcode == PST_OP_B || a->opcode == PST_OP_BW) *word++ = (uint16_t)(f + SOLVE_B);
            if (a->opcode == PST_OP_W || a->opcode == PST_OP_BW) *word++ = (uint16_t)(f + SOLVE_W);
        }
    }
    pst_solve_replay(x->list, &x->trial);
    int fits = pst_solve_fits(s->problem, named);
    if (fits && x->trial.makespan < solved->named_ns) {
        solved->named_ns = x->trial.makespan;
        memcpy(solved->named, named->name, sizeof solved->named);
    }
    if (fits) keep(x);
    for (size_t op = 0; op < s->n_op; op++) x->priority[op] = (int64_t)x->trial.start[op];
    try_priority(x);
}

static pst_status try_all_named(search *x, pst_solved *solved) {
    const pst_solve_problem *p = x->s->problem;
    uint32_t n, v = p->n_chunk / p->n_rank;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    for (uint32_t i = 0; i < n; i++) {
        pst_schedule *named;
        if (row[i].kind == PST_SCHEDULE_FORWARD) continue;
        if (row[i].n_virtual ? row[i].n_virtual != v : v < 2) continue;
        PST_TRY(row[i].generate(&row[i], p->n_rank, v, p->n_micro, &named));
        if (!memcmp(named->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof *p->rank_of_chunk))
            try_named(x, named, solved);
        pst_schedule_close(named);
    }
    return PST_OK;
}

/* Priorities from the order of `from`, perturbed. */
static void perturb(search *x, const pst_solution *from) {
    const pst_solver *s = x->s;
    int64_t range = (int64_t)x->mean * (int64_t)(1 + draw(x, 6)) / 2 + 1;
    for (size_t op = 0; op < s->n_op; op++) x->priority[op] = (int64_t)from->start[op];
    if (draw(x, 4) == 0) {
        for (size_t op = 0; op < s->n_op; op++)
            x->priority[op] += (int64_t)draw(x, (uint64_t)range) - range / 2;
        return;
    }
    for (uint64_t times = 1 + draw(x, 3); times; times--) {
        uint32_t queue = (uint32_t)draw(x, s->n_queue), first = 0, last = s->n_micro;
        int64_t by = (int64_t)draw(x, 2 * (uint64_t)range + 1) - range;
        if (draw(x, 2)) {
            first = (uint32_t)draw(x, s->n_micro);
            last = first + 1 + (uint32_t)draw(x, s->n_micro - first);
        }
        for (uint32_t m = first; m < last; m++) x->priority[(size_t)queue * s->n_micro + m] += by;
    }
}

/* Local search from one solution of the pool, while `decisions` last. */
static void improve(search *x, uint32_t which, uint64_t decisions) {
    pst_solution *at = &x->pool[which];
    uint64_t until = x->decisions > decisions ? x->decisions - decisions : 0;
    while (x->decisions > until && x->pool[0].makespan > x->bound && at->makespan > x->bound) {
        perturb(x, at);
        build(x, (pst_solve_policy){.patience = (uint32_t)draw(x, 5),
                                    .fixed_reserve = (int)draw(x, 2)});
        if (x->trial.makespan <= at->makespan) copy_solution(x->s, at, &x->trial);
    }
}

static void improve_all(search *x) {
    uint64_t share = x->decisions / 2 / POOL;
    for (uint32_t i = 0; i < POOL && x->pool[i].makespan != SOLVE_NEVER; i++) {
        improve(x, i, share);
        if (x->pool[i].makespan <= x->bound) break;
    }
    uint32_t best = 0;
    for (uint32_t i = 1; i < POOL; i++)
        if (x->pool[i].makespan < x->pool[best].makespan) best = i;
    pst_solution first = x->pool[0];
    x->pool[0] = x->pool[best];
    x->pool[best] = first;
    improve(x, 0, x->decisions);
}

/* --- assembly --------------------------------------------------------------------------------- */

static pst_status open_solution(const pst_solver *s, pst_solution *x) {
    x->makespan = SOLVE_NEVER;
    x->start = malloc(s->n_op * sizeof *x->start);
    x->word = malloc(s->n_op * sizeof *x->word);
    return x->start && x->word
               ? PST_OK
               : pst_fail(PST_ENOMEM, "schedule solved: no memory for %zu passes", s->n_op);
}

static pst_status open_search(const pst_solver *s, search *x) {
    *x = (search){.s = s, .random = 20240611, .decisions = MOST_DECISIONS};
    if (x->decisions > MOST_BUILDS * s->n_op) x->decisions = MOST_BUILDS * s->n_op;
    if (s->problem->budget_divisor) x->decisions /= s->problem->budget_divisor;
    for (uint32_t q = 0; q < s->n_queue; q++) x->mean += s->ns[q] / s->n_queue;
    PST_TRY(pst_solve_list_open(s, &x->list));
    for (uint32_t i = 0; i < POOL; i++) PST_TRY(open_solution(s, &x->pool[i]));
    PST_TRY(open_solution(s, &x->trial));
    PST_TRY(open_solution(s, &x->rebuilt));
    x->priority = calloc(s->n_op, sizeof *x->priority);
    x->tail = calloc(s->n_op, sizeof *x->tail);
    return x->priority && x->tail
               ? PST_OK
               : pst_fail(PST_ENOMEM, "schedule solved: no memory for %zu passes", s->n_op);
}

static void close_search(search *x) {
    pst_solve_list_close(x->list);
    for (uint32_t i = 0; i < POOL; i++) {
        free(x->pool[i].start);
        free(x->pool[i].word);
    }
    free(x->trial.start);
    free(x->trial.word);
    free(x->rebuilt.start);
    free(x->rebuilt.word);
    free(x->priority);

    free(x->tail);
}

static pst_status run(search *x, pst_solved *solved) {
    static const int orders[][SOLVE_KINDS] = {{1, 0, 2}, {0, 1, 2}, {2, 1, 0}, {1, 0, 0}};
    PST_TRY(try_all_named(x, solved));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) try_kinds(x, orders[i]);
    for (uint32_t i = 1; i <= 8; i *= 2) try_waves(x, i * longest_round(x->s) / 2);
    try_serial(x);
    PST_TRY(pst_solve_bound(x->s, x->pool[0].makespan, &x->bound, x->tail));
    try_tails(x);
    improve_all(x);
    solved->makespan_ns = x->pool[0].makespan;
    solved->bound_ns = x->bound;
    return PST_OK;
}

pst_status pst_solve_search(const pst_solver *s, pst_solution *best, pst_solved *solved) {
    search x = {0};
    pst_solved found = {.named_ns = SOLVE_NEVER};
    pst_status status = open_search(s, &x);
    if (status == PST_OK) status = run(&x, &found);
    if (status == PST_OK) {
        *best = x.pool[0];
        x.pool[0] = (pst_solution){0};
        *solved = found;
    }
    close_search(&x);
    return status;
}
