/* List scheduling: builds a solution pass by pass (Giffler and Thompson, Oper. Res. 8, 1960: such
 * schedules contain an optimal one), in either direction of time; times a given order. */
#include "pipeline/solve/parts.h"
#include <stdlib.h>
#include <string.h>

struct pst_solve_list {
    const pst_solver *s;
    uint64_t *end;      /* [n_op] in the current direction; SOLVE_NEVER: not yet placed */
    uint32_t *next;     /* [n_queue] passes placed */
    uint32_t *n_placed; /* [n_rank] */
    uint64_t *free_at, *held, *first_end; /* [n_rank] */
    int fixed_reserve;
    /* [2 * half] a tournament tree of ranks for the smallest first_end; the winner is first[1] */
    uint32_t *first, half;
};

void pst_solve_list_close(pst_solve_list *x) {
    if (!x) return;
    free(x->end);
    free(x->next);
    free(x->n_placed);
    free(x->free_at);
    free(x->held);
    free(x->first_end);
    free(x->first);
    free(x);
}

pst_status pst_solve_list_open(const pst_solver *s, pst_solve_list **list) {
    pst_solve_list *x = calloc(1, sizeof *x);
    if (x) {
        x->s = s;
        x->end = malloc(s->n_op * sizeof *x->end);
        x->next = malloc(s->n_queue * sizeof *x->next);
        x->n_placed = malloc(s->n_rank * sizeof *x->n_placed);
        x->free_at = malloc(s->n_rank * sizeof *x->free_at);
        x->held = malloc(s->n_rank * sizeof *x->held);
        x->first_end = malloc(s->n_rank * sizeof *x->first_end);
        for (x->half = 1; x->half < s->n_rank; x->half *= 2) {}
        x->first = malloc(2 * (size_t)x->half * sizeof *x->first);
    }
    if (!x || !x->end || !x->next || !x->n_placed || !x->free_at || !x->held || !x->first_end ||
        !x->first) {
        pst_solve_list_close(x);
        return pst_fail(PST_ENOMEM, "schedule solved: no memory for %zu passes", s->n_op);
    }
    *list = x;
    return PST_OK;
}

static uint32_t micro_at(const pst_solver *s, int direction, uint32_t i) {
    return direction ? s->n_micro - 1 - i : i;
}

/* Whether the rank, after one more pass of `queue`, could finish all micro-batches that it has
 * started, one after the other. If this holds for every rank, no deadlock is possible in which
 * passes wait for each other's memory. */
static int can_finish(const pst_solve_list *x, int direction, uint32_t rank, uint32_t queue) {
    const pst_solver *s = x->s;
    const uint32_t *of = s->single_order[direction] + (size_t)rank * s->per_rank;
    uint64_t limit = s->problem->limit[rank], held = x->held[rank];
    uint32_t first = s->n_micro, last = 0;
    held += direction ? -(uint64_t)s->change[queue] : (uint64_t)s->change[queue];
    for (uint32_t k = 0; k < s->per_rank; k++) {
        uint32_t n = x->next[of[k]] + (of[k] == queue);
        if (n < first) first = n;
        if (n > last) last = n;
    }
    for (uint32_t i = first; i < last && held + s->single_peak[rank] > limit; i++)
        for (uint32_t k = 0; k < s->per_rank; k++) {
            if (x->next[of[k]] + (of[k] == queue) > i) continue;
            uint64_t after =
                held + (direction ? -(uint64_t)s->change[of[k]] : (uint64_t)s->change[of[k]]);
            if ((direction ? after : held) + s->needed[direction][of[k]] > limit) return 0;
            held = after;
        }
    return 1;
}

/* When the next pass of a queue could start, ignoring the other passes of its rank; SOLVE_NEVER:
 * unknown, or no memory. */
static uint64_t ready_at(const pst_solve_list *x, int direction, uint32_t queue) {
    const pst_solver *s = x->s;
    const pst_solve_problem *p = s->problem;
    uint32_t rank = s->rank_of[queue];
    if (x->next[queue] == s->n_micro) return SOLVE_NEVER;
    uint64_t needs =
        x->held[rank] - (direction ? (uint64_t)s->change[queue] : 0) + s->needed[direction][queue];
    if (p->limit && needs > p->limit[rank]) return SOLVE_NEVER;
    uint32_t micro = micro_at(s, direction, x->next[queue]);
    uint64_t ready = 0;
    for (int e = 0; e < 2; e++) {
        const pst_solve_edge *edge = &s->edge[direction][queue][e];
        if (edge->queue == SOLVE_NONE) continue;
        uint64_t end = x->end[(size_t)edge->queue * s->n_micro + micro];
        if (end == SOLVE_NEVER) return SOLVE_NEVER;
        if (end + edge->lag > ready) ready = end + edge->lag;
    }
    int always = !p->limit || needs + s->reserve[direction][queue] <= p->limit[rank];
    return always || (!x->fixed_reserve && can_finish(x, direction, rank, queue)) ? ready
                                                                                  : SOLVE_NEVER;
}

/* The earliest end of any pass that the rank could run next. */
static void update_first_end(pst_solve_list *x, int direction, uint32_t rank) {
    const pst_solver *s = x->s;
    uint64_t first = SOLVE_NEVER;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        uint32_t queue = s->queue_of[(size_t)rank * s->per_rank + k];
        uint64_t ready = ready_at(x, direction, queue);
        if (ready == SOLVE_NEVER) continue;
        if (ready < x->free_at[rank]) ready = x->free_at[rank];
        if (ready + s->ns[queue] < first) first = ready + s->ns[queue];
    }
    x->first_end[rank] = first;
    for (uint32_t at = (x->half + rank) / 2; at; at /= 2) {
        uint32_t a = x->first[2 * at], b = x->first[2 * at + 1];
        x->first[at] =
            b == SOLVE_NONE || (a != SOLVE_NONE && x->first_end[a] <= x->first_end[b]) ? a : b;
    }
}

static void open_tournament(pst_solve_list *x) {
    for (uint32_t r = 0; r < x->s->n_rank; r++) x->first_end[r] = SOLVE_NEVER;
    for (uint32_t i = 0; i < x->half; i++) {
        x->first[i] = SOLVE_NONE;
        x->first[x->half + i] = i < x->s->n_rank ? i : SOLVE_NONE;
    }
}

/* Of the passes that could start before any could end: the one with the smallest priority. *start:
 * when it starts. */
static uint32_t choose(const pst_solve_list *x, int direction, uint32_t rank,
                       const int64_t *priority, uint32_t patience, uint64_t *start) {
    const pst_solver *s = x->s;
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    uint64_t ready[SOLVE_KINDS * 64], earliest = SOLVE_NEVER;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        ready[k] = ready_at(x, direction, of[k]);
        if (ready[k] != SOLVE_NEVER && ready[k] < x->free_at[rank]) ready[k] = x->free_at[rank];
        if (ready[k] < earliest) earliest = ready[k];
    }
    uint64_t latest = x->first_end[rank] > earliest
                          ? earliest + (x->first_end[rank] - 1 - earliest) * patience / 4
                          : earliest;
    uint32_t best = SOLVE_NONE;
    int64_t least = 0;
    for (uint32_t k = 0; k < s->per_rank; k++) {
        if (ready[k] > latest) continue;
        int64_t p = priority[(size_t)of[k] * s->n_micro + micro_at(s, direction, x->next[of[k]])];
        if (best != SOLVE_NONE && p >= least) continue;
        best = of[k];
        least = p;
        *start = ready[k];
    }
    return best;
}

static void place(pst_solve_list *x, int direction, uint32_t rank, uint32_t queue, uint64_t start,
                  pst_solution *solution) {
    const pst_solver *s = x->s;
    size_t op = (size_t)queue * s->n_micro + micro_at(s, direction, x->next[queue]),
           n = pst_solve_length(s);
    uint32_t k = x->n_placed[rank]++;
    solution->word[rank * n + (direction ? n - 1 - k : k)] = (uint16_t)queue;
    solution->start[op] = start;
    x->end[op] = x->free_at[rank] = start + s->ns[queue];
    if (x->end[op] > solution->makespan) solution->makespan = x->end[op];
    x->next[queue]++;
    x->held[rank] += direction ? -(uint64_t)s->change[queue] : (uint64_t)s->change[queue];
    update_first_end(x, direction, rank);
    for (int e = 0; e < 2; e++) {
        uint32_t other = s->edge[!direction][queue][e].queue;
        if (other != SOLVE_NONE && s->rank_of[other] != rank)
            update_first_end(x, direction, s->rank_of[other]);
    }
}

void pst_solve_list_run(pst_solve_list *x, int direction, const int64_t *priority,
                        pst_solve_policy policy, pst_solution *solution) {
    const pst_solver *s = x->s;
    x->fixed_reserve = policy.fixed_reserve;
    memset(x->end, 0xff, s->n_op * sizeof *x->end);
    memset(x->next, 0, s->n_queue * sizeof *x->next);
    memset(x->n_placed, 0, s->n_rank * sizeof *x->n_placed);
    memset(x->free_at, 0, s->n_rank * sizeof *x->free_at);
    memset(x->held, 0, s->n_rank * sizeof *x->held);
    solution->makespan = 0;
    open_tournament(x);
    for (uint32_t r = 0; r < s->n_rank; r++) update_first_end(x, direction, r);
    for (size_t left = s->n_op; left; left--) {
        uint32_t rank = x->first[1];
        uint64_t start = 0;
        if (x->first_end[rank] == SOLVE_NEVER) {
            solution->makespan = SOLVE_NEVER;
            return;
        }
        uint32_t queue = choose(x, direction, rank, priority, policy.patience, &start);
        place(x, direction, rank, queue, start, solution);
    }
}

/* --- timing a given order --------------------------------------------------------------------- */

/* Times a rank's passes as far as their predecessors are known. *posted: start of its last pass. */
static size_t advance(pst_solve_list *x, uint32_t rank, uint64_t *posted, pst_solution *solution) {
    const pst_solver *s = x->s;
    size_t n = pst_solve_length(s), moved = 0;
    for (; x->n_placed[rank] < n; moved++) {
        uint32_t queue = solution->word[rank * n + x->n_placed[rank]], micro = x->next[queue];
        uint64_t start = x->free_at[rank];
        for (int e = 0; e < 2; e++) {
            const pst_solve_edge *edge = &s->edge[0][queue][e];
            if (edge->queue == SOLVE_NONE) continue;
            uint64_t end = x->end[(size_t)edge->queue * s->n_micro + micro];
            if (end == SOLVE_NEVER) return moved;
            if (edge->lag && end < *posted) end = *posted;
            if (end + edge->lag > start) start = end + edge->lag;
        }
        size_t op = (size_t)queue * s->n_micro + micro;
        solution->start[op] = *posted = start;
        x->end[op] = x->free_at[rank] = start + s->ns[queue];
        if (x->end[op] > solution->makespan) solution->makespan = x->end[op];
        x->next[queue]++;
        x->n_placed[rank]++;
    }
    return moved;
}

void pst_solve_replay(pst_solve_list *x, pst_solution *solution) {
    const pst_solver *s = x->s;
    size_t left = s->n_op, moved = 1;
    memset(x->end, 0xff, s->n_op * sizeof *x->end);
    memset(x->next, 0, s->n_queue * sizeof *x->next);
    memset(x->n_placed, 0, s->n_rank * sizeof *x->n_placed);
    memset(x->free_at, 0, s->n_rank * sizeof *x->free_at);
    memset(x->held, 0, s->n_rank * sizeof *x->held); /* start of the rank's last pass */
    solution->makespan = 0;
    while (left && moved) {
        moved = 0;
        for (uint32_t r = 0; r < s->n_rank; r++) moved += advance(x, r, &x->held[r], solution);
        for (uint32_t r = s->n_rank; r-- > 0;) moved += advance(x, r, &x->held[r], solution);
        left -= moved;
    }
    if (left) solution->makespan = SOLVE_NEVER;
}
