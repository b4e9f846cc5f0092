/* See schedule_solved.h. Search: solutions are built in both directions of time from several priorities (tails, the named
 * schedules that fit, one kind of pass before the others); then, from the best of them, the order that a solution has is
 * disturbed, built again forwards, backwards and forwards, and kept when it is no longer. What is disturbed is a queue as a
 * whole, a stretch of one, or a little of everything; all numbers are drawn from a fixed seed. */
#include "pipeline/schedule_parts.h"
#include "pipeline/schedule_solved_parts.h"
#include <stdlib.h>
#include <string.h>

enum { POOL = 6 };                                     /* solutions that are improved */
enum { MOST_DECISIONS = 4 << 20, MOST_BUILDS = 6000 }; /* of the search: about half a second */

/* --- a problem as queues ------------------------------------------------------------------------------------------ */

static void close_solver(pst_solver *s) {
    free(s->ns), free(s->rank_of), free(s->queue_of), free(s->place_of), free(s->edge[0]), free(s->edge[1]);
    free(s->taken[0]), free(s->taken[1]), free(s->change), free(s->topological);
}

static pst_solve_edge edge(const pst_solve_problem *p, uint32_t from, uint32_t to, int back) {
    const uint32_t chunk = from < to ? from / SOLVE_KINDS : to / SOLVE_KINDS; /* the lower of two neighbours */
    int hop = p->hop && from / SOLVE_KINDS != to / SOLVE_KINDS;
    return (pst_solve_edge){from, !hop ? 0 : back ? p->hop[chunk].back : p->hop[chunk].there};
}

/* Which passes of its micro-batch each pass waits for. Backwards, the ends of these edges are exchanged. */
static void fill_edges(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    const pst_solve_edge none = {SOLVE_NONE, 0};
    for (uint32_t c = 0; c < p->n_chunk; c++) {
        uint32_t f = c * SOLVE_KINDS, b = f + SOLVE_B, w = f + SOLVE_W;
        int first = c == 0, last = c + 1 == p->n_chunk;
        pst_solve_edge(*before)[2] = s->edge[0], (*after)[2] = s->edge[1];
        before[f][0] = first ? none : edge(p, f - SOLVE_KINDS, f, 0), before[f][1] = none;
        before[b][0] = edge(p, f, b, 0), before[b][1] = last ? none : edge(p, b + SOLVE_KINDS, b, 1);
        before[w][0] = edge(p, b, w, 0), before[w][1] = none;
        after[w][0] = after[w][1] = none;
        after[b][0] = edge(p, w, b, 0), after[b][1] = first ? none : edge(p, b - SOLVE_KINDS, b, 1);
        after[f][0] = edge(p, b, f, 0), after[f][1] = last ? none : edge(p, f + SOLVE_KINDS, f, 0);
        s->topological[c] = f;
        s->topological[p->n_chunk + 2 * (p->n_chunk - 1 - c)] = b;
        s->topological[p->n_chunk + 2 * (p->n_chunk - 1 - c) + 1] = w;
    }
}

static void fill_queues(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    for (uint32_t r = 0; r < p->n_rank; r++) {
        uint32_t n = 0;
        for (uint32_t q = 0; q < s->n_queue; q++) {
            if (p->rank_of_chunk[q / SOLVE_KINDS] != r) continue;
            s->place_of[q] = n;
            s->queue_of[(size_t)r * s->per_rank + n++] = q;
        }
    }
    for (uint32_t c = 0; c < p->n_chunk; c++) {
        const pst_held *h = &p->held[c];
        uint32_t q = c * SOLVE_KINDS;
        s->ns[q] = p->ns[c].f, s->ns[q + SOLVE_B] = p->ns[c].b, s->ns[q + SOLVE_W] = p->ns[c].w;
        for (int k = 0; k < SOLVE_KINDS; k++) s->rank_of[q + k] = p->rank_of_chunk[c];
        s->change[q] = (int64_t)(h->f_b + h->f_w);
        s->change[q + SOLVE_B] = (int64_t)h->b_w - (int64_t)h->f_b;
        s->change[q + SOLVE_W] = -(int64_t)(h->f_w + h->b_w);
        s->hops |= p->hop && c + 1 < p->n_chunk && (p->hop[c].there || p->hop[c].back);
    }
}

/* What F has begun can be finished: it leaves room for its own B, and for a micro-batch of every later chunk of its rank.
 * So nothing gets stuck: passes of the last chunk find room, then those of the chunk before it, and so on. Backwards W takes
 * the place of F. */
static void fill_taken(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    for (uint32_t c = 0; c < p->n_chunk; c++) {
        const pst_held *h = &p->held[c];
        uint32_t q = c * SOLVE_KINDS;
        uint64_t later = 0;
        for (uint32_t k = c + 1; k < p->n_chunk; k++)
            if (p->rank_of_chunk[k] == p->rank_of_chunk[c]) later += p->held[k].f_b + p->held[k].f_w + p->held[k].b_w;
        s->taken[0][q] = h->f_b + h->f_w + h->b_w + later;
        s->taken[1][q] = h->f_b + h->f_w;
        s->taken[0][q + SOLVE_B] = s->taken[1][q + SOLVE_B] = h->b_w;
        s->taken[1][q + SOLVE_W] = h->f_b + later;
    }
}

static pst_status check_problem(const pst_solve_problem *p) {
    uint64_t ops = (uint64_t)p->n_chunk * SOLVE_KINDS * p->n_micro;
    if (!p->n_rank || !p->n_chunk || !p->n_micro || p->n_chunk % p->n_rank ||
        p->n_chunk / p->n_rank > PST_SCHEDULE_MAX_VIRTUAL || ops > PST_SOLVE_MOST_PASSES ||
        p->n_chunk > PST_SOLVE_MOST_CHUNKS)
        return pst_fail(PST_EINPUT,
                        "schedule solved: %u chunks on %u ranks with %u micro-batches are too many; at most "
                        "%d passes of %d chunks can be solved",
                        p->n_chunk, p->n_rank, p->n_micro, PST_SOLVE_MOST_PASSES, PST_SOLVE_MOST_CHUNKS);
    for (uint32_t r = 0; p->limit && r < p->n_rank; r++) {
        uint64_t begun = 0, least = 0; /* all F of a micro-batch run before the first of its B */
        for (uint32_t c = 0; c < p->n_chunk; c++) {
            if (p->rank_of_chunk[c] != r) continue;
            begun += p->held[c].f_b + p->held[c].f_w;
            if (begun + p->held[c].b_w > least) least = begun + p->held[c].b_w;
        }
        if (least > p->limit[r])
            return pst_fail(PST_EINPUT, "schedule solved: rank %u may hold %llu, but one micro-batch alone holds %llu",
                            r, (unsigned long long)p->limit[r], (unsigned long long)least);
    }
    return PST_OK;
}

static pst_status open_solver(const pst_solve_problem *p, pst_solver *s) {
    *s = (pst_solver){.problem = p, .n_rank = p->n_rank, .n_queue = p->n_chunk * SOLVE_KINDS, .n_micro = p->n_micro};
    PST_TRY(check_problem(p));
    uint32_t n = s->n_queue;
    s->per_rank = n / p->n_rank;
    s->n_op = (size_t)n * p->n_micro;
    s->ns = calloc(n, sizeof *s->ns), s->rank_of = calloc(n, sizeof *s->rank_of);
    s->queue_of = calloc(n, sizeof *s->queue_of), s->place_of = calloc(n, sizeof *s->place_of);
    s->edge[0] = calloc(n, sizeof *s->edge[0]), s->edge[1] = calloc(n, sizeof *s->edge[1]);
    s->taken[0] = calloc(n, sizeof **s->taken), s->taken[1] = calloc(n, sizeof **s->taken);
    s->change = calloc(n, sizeof *s->change);
    s->topological = calloc(n, sizeof *s->topological);
    if (!s->ns || !s->rank_of || !s->queue_of || !s->place_of || !s->edge[0] || !s->edge[1] || !s->taken[0] ||
        !s->taken[1] || !s->change || !s->topological)
        return pst_fail(PST_ENOMEM, "schedule solved: no memory for %u chunks", p->n_chunk);
    fill_queues(s);
    fill_taken(s);
    fill_edges(s);
    return PST_OK;
}

/* --- memory of a schedule ---------------------------------------------------------------------------------------- */

void pst_solve_peak(const pst_solve_problem *p, const pst_schedule *schedule, uint64_t *peak) {
    for (uint32_t r = 0; r < schedule->n_rank; r++) {
        uint64_t now = 0;
        peak[r] = 0;
        for (uint32_t i = 0; i < schedule->n_action[r]; i++) {
            const pst_action *a = &schedule->action[r][i];
            const pst_held *h = &p->held[a->chunk];
            if (a->opcode == PST_OP_F) now += h->f_b + h->f_w;
            if (a->opcode == PST_OP_B || a->opcode == PST_OP_BW) now += h->b_w;
            if (now > peak[r]) peak[r] = now;
            if (a->opcode == PST_OP_B || a->opcode == PST_OP_BW) now -= h->f_b;
            if (a->opcode == PST_OP_W || a->opcode == PST_OP_BW) now -= h->f_w + h->b_w;
        }
    }
}

int pst_solve_fits(const pst_solve_problem *p, const pst_schedule *schedule) {
    uint64_t *peak = p->limit ? malloc(schedule->n_rank * sizeof *peak) : NULL;
    int fits = !p->limit || peak;
    if (peak) pst_solve_peak(p, schedule, peak);
    for (uint32_t r = 0; peak && r < schedule->n_rank; r++) fits &= peak[r] <= p->limit[r];
    free(peak);
    return fits;
}

/* --- search ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const pst_solver *s;
    pst_solve_list *list;
    pst_solution pool[POOL], trial, back; /* pool: ascending in makespan; SOLVE_NEVER: empty */
    int64_t *priority;                    /* [n_op] */
    uint64_t *tail;                       /* [n_op] */
    uint64_t random, bound, mean;         /* mean: duration of a pass */
    uint64_t decisions;                   /* left */
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

/* Builds forwards from x->priority. */
static void run_forwards(search *x, uint32_t patience, pst_solution *solution) {
    pst_solve_list_run(x->list, 0, x->priority, patience, solution);
    if (x->s->hops && solution->makespan != SOLVE_NEVER) pst_solve_replay(x->list, solution);
}

/* x->trial: built from x->priority, or from where that comes to lie when it is built backwards from its end, whichever is
 * shorter. Changes the priority. */
static void build(search *x, uint32_t patience) {
    const pst_solver *s = x->s;
    x->decisions -= x->decisions < 3 * s->n_op ? x->decisions : 3 * s->n_op;
    run_forwards(x, patience, &x->trial);
    if (x->trial.makespan == SOLVE_NEVER || x->trial.makespan <= x->bound) return;
    for (size_t op = 0; op < s->n_op; op++) x->priority[op] = -(int64_t)(x->trial.start[op] + s->ns[op / s->n_micro]);
    pst_solve_list_run(x->list, 1, x->priority, patience, &x->back);
    if (x->back.makespan == SOLVE_NEVER) return;
    for (size_t op = 0; op < s->n_op; op++) x->priority[op] = -(int64_t)(x->back.start[op] + s->ns[op / s->n_micro]);
    run_forwards(x, patience, &x->back);
    if (x->back.makespan > x->trial.makespan) return;
    pst_solution swap = x->trial;
    x->trial = x->back, x->back = swap;
}

/* Takes x->trial into the pool when it is better than the worst there and not as long as another. */
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
    if (saved) memcpy(saved, x->priority, x->s->n_op * sizeof *saved); /* else one start fewer */
    for (uint32_t patience = 0; saved && x->decisions && patience <= 4; patience += 2) {
        memcpy(x->priority, saved, x->s->n_op * sizeof *saved);
        build(x, patience);
        keep(x);
    }
    free(saved);
}

/* Kinds of passes in the order of their importance; micro-batches in order. */
static void try_kinds(search *x, const int order[SOLVE_KINDS]) {
    const pst_solver *s = x->s;
    for (size_t op = 0; op < s->n_op; op++)
        x->priority[op] = (int64_t)order[op / s->n_micro % SOLVE_KINDS] * s->n_micro + (int64_t)(op % s->n_micro);
    try_priority(x);
}

static void try_tails(search *x) {
    for (size_t op = 0; op < x->s->n_op; op++) x->priority[op] = -(int64_t)x->tail[op];
    try_priority(x);
}

/* One micro-batch after the other: slow, but it fits wherever anything does. */
static void try_serial(search *x) {
    const pst_solver *s = x->s;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        const uint32_t *of = s->queue_of + (size_t)r * s->per_rank;
        uint16_t *word = x->trial.word + r * pst_solve_length(s);
        for (uint32_t m = 0; m < s->n_micro; m++) {
            for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) *word++ = (uint16_t)of[k];
            for (uint32_t k = s->per_rank; k > 0; k -= SOLVE_KINDS)
                *word++ = (uint16_t)(of[k - SOLVE_KINDS] + SOLVE_B),
                *word++ = (uint16_t)(of[k - SOLVE_KINDS] + SOLVE_W);
        }
    }
    pst_solve_replay(x->list, &x->trial);
    keep(x);
}

/* A named schedule's order as a word, its start times by replay: kept as it is when it fits, and a priority in any case. */
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
        if (!strcmp(row[i].name, "forward") || (row[i].n_virtual ? row[i].n_virtual != v : v < 2)) continue;
        PST_TRY(row[i].generate(&row[i], p->n_rank, v, p->n_micro, &named));
        if (!memcmp(named->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof *p->rank_of_chunk))
            try_named(x, named, solved);
        pst_schedule_close(named);
    }
    return PST_OK;
}

/* The order of `from`, disturbed. */
static void disturb(search *x, const pst_solution *from) {
    const pst_solver *s = x->s;
    int64_t reach = (int64_t)x->mean * (int64_t)(1 + draw(x, 6)) / 2 + 1;
    for (size_t op = 0; op < s->n_op; op++) x->priority[op] = (int64_t)from->start[op];
    if (draw(x, 4) == 0) {
        for (size_t op = 0; op < s->n_op; op++) x->priority[op] += (int64_t)draw(x, (uint64_t)reach) - reach / 2;
        return;
    }
    for (uint64_t times = 1 + draw(x, 3); times; times--) {
        uint32_t queue = (uint32_t)draw(x, s->n_queue), first = 0, last = s->n_micro;
        int64_t by = (int64_t)draw(x, 2 * (uint64_t)reach + 1) - reach;
        if (draw(x, 2)) {
            first = (uint32_t)draw(x, s->n_micro);
            last = first + 1 + (uint32_t)draw(x, s->n_micro - first);
        }
        for (uint32_t m = first; m < last; m++) x->priority[(size_t)queue * s->n_micro + m] += by;
    }
}

/* Walks from one solution of the pool as long as `decisions` allow. */
static void improve(search *x, uint32_t which, uint64_t decisions) {
    pst_solution *at = &x->pool[which];
    uint64_t until = x->decisions > decisions ? x->decisions - decisions : 0;
    while (x->decisions > until && x->pool[0].makespan > x->bound && at->makespan > x->bound) {
        disturb(x, at);
        build(x, (uint32_t)draw(x, 5));
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
    x->pool[0] = x->pool[best], x->pool[best] = first;
    improve(x, 0, x->decisions);
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static pst_status open_solution(const pst_solver *s, pst_solution *x) {
    x->makespan = SOLVE_NEVER;
    x->start = malloc(s->n_op * sizeof *x->start);
    x->word = malloc(s->n_op * sizeof *x->word);
    return x->start && x->word ? PST_OK : pst_fail(PST_ENOMEM, "schedule solved: no memory for %zu passes", s->n_op);
}

static pst_status open_search(const pst_solver *s, search *x) {
    *x = (search){.s = s, .random = 20240611, .decisions = MOST_DECISIONS};
    if (x->decisions > MOST_BUILDS * s->n_op) x->decisions = MOST_BUILDS * s->n_op;
    for (uint32_t q = 0; q < s->n_queue; q++) x->mean += s->ns[q] / s->n_queue;
    PST_TRY(pst_solve_list_open(s, &x->list));
    for (uint32_t i = 0; i < POOL; i++) PST_TRY(open_solution(s, &x->pool[i]));
    PST_TRY(open_solution(s, &x->trial));
    PST_TRY(open_solution(s, &x->back));
    x->priority = calloc(s->n_op, sizeof *x->priority), x->tail = calloc(s->n_op, sizeof *x->tail);
    return x->priority && x->tail ? PST_OK : pst_fail(PST_ENOMEM, "schedule solved: no memory for %zu passes", s->n_op);
}

static void close_search(search *x) {
    pst_solve_list_close(x->list);
    for (uint32_t i = 0; i < POOL; i++) free(x->pool[i].start), free(x->pool[i].word);
    free(x->trial.start), free(x->trial.word), free(x->back.start), free(x->back.word), free(x->priority),
        free(x->tail);
}

static pst_status write_schedule(const pst_solver *s, const pst_solution *x, pst_schedule **schedule) {
    static const pst_opcode opcode[SOLVE_KINDS] = {PST_OP_F, PST_OP_B, PST_OP_W};
    const pst_schedule_row row = {.name = "solved", .split = 1};
    const pst_solve_problem *p = s->problem;
    PST_TRY(pst_schedule_open(&row, p->n_rank, p->n_chunk / p->n_rank, p->n_micro, schedule));
    memcpy((*schedule)->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof *p->rank_of_chunk);
    uint32_t *next = calloc(s->n_queue, sizeof *next);
    pst_status status = next ? PST_OK : pst_fail(PST_ENOMEM, "schedule solved: no memory to write it");
    size_t n = pst_solve_length(s);
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++)
        for (size_t k = 0; k < n; k++) {
            uint32_t queue = x->word[r * n + k];
            pst_schedule_add(*schedule, r, opcode[queue % SOLVE_KINDS], queue / SOLVE_KINDS, next[queue]++);
        }
    free(next);
    if (status == PST_OK) status = pst_schedule_check(*schedule);
    if (status != PST_OK) pst_schedule_close(*schedule), *schedule = NULL;
    return status;
}

static pst_status solve(search *x, pst_solved *solved) {
    static const int orders[][SOLVE_KINDS] = {{1, 0, 2}, {0, 1, 2}, {2, 1, 0}, {1, 0, 0}};
    PST_TRY(try_all_named(x, solved));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) try_kinds(x, orders[i]);
    try_serial(x);
    PST_TRY(pst_solve_bound(x->s, x->pool[0].makespan, &x->bound, x->tail));
    try_tails(x);
    improve_all(x);
    solved->makespan_ns = x->pool[0].makespan, solved->bound_ns = x->bound;
    return PST_OK;
}

pst_status pst_schedule_solve(const pst_solve_problem *problem, pst_schedule **schedule, pst_solved *solved) {
    pst_solver s;
    search x = {0};
    pst_solved found = {.named_ns = SOLVE_NEVER};
    pst_status status = open_solver(problem, &s);
    if (status == PST_OK) status = open_search(&s, &x);
    if (status == PST_OK) status = solve(&x, &found);
    if (status == PST_OK) status = write_schedule(&s, &x.pool[0], schedule);
    if (status == PST_OK) *solved = found;
    close_search(&x);
    close_solver(&s);
    return status;
}
