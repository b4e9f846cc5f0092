/* Converts the problem to queues, and the solution of the search to a schedule. See
 * pipeline/solve/solve.h. */
#include "pipeline/schedule/build.h"
#include "pipeline/solve/parts.h"
#include <stdlib.h>
#include <string.h>

/* --- a problem as queues ---------------------------------------------------------------------- */

static void close_solver(pst_solver *s) {
    free(s->ns);
    free(s->rank_of);
    free(s->queue_of);
    free(s->place_of);
    free(s->change);
    free(s->topological);
    free(s->single_peak);
    for (int d = 0; d < 2; d++) {
        free(s->edge[d]);
        free(s->needed[d]);
        free(s->reserve[d]);
        free(s->single_order[d]);
    }
}

static pst_solve_edge edge(const pst_solve_problem *p, uint32_t from, uint32_t to, int backward) {
    /* chunk: the lower of the two neighbours */
    const uint32_t chunk = from < to ? from / SOLVE_KINDS : to / SOLVE_KINDS;
    int hop = p->hop && from / SOLVE_KINDS != to / SOLVE_KINDS;
    if (!hop) return (pst_solve_edge){from, 0};
    return (pst_solve_edge){from, backward ? p->hop[chunk].backward : p->hop[chunk].forward};
}

/* Which passes of its micro-batch each pass waits for. Direction 1 has the reversed edges. */
static void fill_edges(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    const pst_solve_edge none = {SOLVE_NONE, 0};
    for (uint32_t c = 0; c < p->n_chunk; c++) {
        uint32_t f = c * SOLVE_KINDS, b = f + SOLVE_B, w = f + SOLVE_W;
        int first = c == 0, last = c + 1 == p->n_chunk;
        pst_solve_edge(*before)[2] = s->edge[0], (*after)[2] = s->edge[1];
        before[f][0] = first ? none : edge(p, f - SOLVE_KINDS, f, 0);
        before[f][1] = none;
        before[b][0] = edge(p, f, b, 0);
        before[b][1] = last ? none : edge(p, b + SOLVE_KINDS, b, 1);
        before[w][0] = edge(p, b, w, 0);
        before[w][1] = none;
        after[w][0] = after[w][1] = none;
        after[b][0] = edge(p, w, b, 0);
        after[b][1] = first ? none : edge(p, b - SOLVE_KINDS, b, 1);
        after[f][0] = edge(p, b, f, 0);
        after[f][1] = last ? none : edge(p, f + SOLVE_KINDS, f, 0);
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
        s->ns[q] = p->ns[c].f;
        s->ns[q + SOLVE_B] = p->ns[c].b;
        s->ns[q + SOLVE_W] = p->ns[c].w;
        for (int k = 0; k < SOLVE_KINDS; k++) s->rank_of[q + k] = p->rank_of_chunk[c];
        s->change[q] = (int64_t)(h->f_b + h->f_w);
        s->change[q + SOLVE_B] = (int64_t)h->b_w - (int64_t)h->f_b;
        s->change[q + SOLVE_W] = -(int64_t)(h->f_w + h->b_w);
        s->hops |= p->hop && c + 1 < p->n_chunk && (p->hop[c].forward || p->hop[c].backward);
    }
}

/* reserve: all micro-batches up to the current one can be finished one by one, if F leaves enough
 * free for a micro-batch of each later chunk of its rank, and for one B of its own or an earlier
 * chunk; and if a B that needs more than it frees leaves enough for one B of the earlier chunks. In
 * direction 1 W takes the place of F, but waits for no W of another chunk. */
static void fill_needs(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    for (uint32_t q = 0; q < s->n_queue; q += SOLVE_KINDS) {
        const pst_held *h = &p->held[q / SOLVE_KINDS];
        const uint32_t *of = s->queue_of + (size_t)s->rank_of[q] * s->per_rank;
        uint64_t later = 0, earlier_b = 0, until_f_b = h->f_b;
        for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) {
            const pst_held *other = &p->held[of[k] / SOLVE_KINDS];
            if (of[k] > q) later += other->f_b + other->f_w + other->b_w;
            if (of[k] < q) until_f_b += other->f_b;
            if (of[k] < q && other->b_w > earlier_b) earlier_b = other->b_w;
        }
        s->needed[0][q] = s->needed[1][q] = h->f_b + h->f_w;
        s->needed[0][q + SOLVE_B] = s->needed[1][q + SOLVE_B] = h->b_w;
        s->reserve[0][q] = later + (h->b_w > earlier_b ? h->b_w : earlier_b);
        s->reserve[0][q + SOLVE_B] = h->b_w > h->f_b ? earlier_b : 0;
        s->reserve[1][q + SOLVE_B] = h->f_b > h->b_w ? later : 0;
        s->reserve[1][q + SOLVE_W] = later + until_f_b;
    }
}

/* A single micro-batch: F of the rank's chunks, then B and W from the last chunk to the first. */
static void fill_single(pst_solver *s) {
    const pst_solve_problem *p = s->problem;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        const uint32_t *of = s->queue_of + (size_t)r * s->per_rank;
        uint32_t *forward = s->single_order[0] + (size_t)r * s->per_rank,
                 *backward = s->single_order[1] + (size_t)r * s->per_rank, n = 0;
        uint64_t started = 0; /* all F of a micro-batch come before the first of its B */
        for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) {
            const pst_held *h = &p->held[of[k] / SOLVE_KINDS];
            forward[n++] = of[k];
            started += h->f_b + h->f_w;
            if (started + h->b_w > s->single_peak[r]) s->single_peak[r] = started + h->b_w;
        }
        for (uint32_t k = s->per_rank; k > 0; k -= SOLVE_KINDS) {
            forward[n++] = of[k - SOLVE_KINDS] + SOLVE_B;
            forward[n++] = of[k - SOLVE_KINDS] + SOLVE_W;
        }
        for (uint32_t k = 0; k < n; k++) backward[k] = forward[n - 1 - k];
    }
}

static pst_status check_problem(const pst_solve_problem *p) {
    uint64_t ops = (uint64_t)p->n_chunk * SOLVE_KINDS * p->n_micro;
    if (!p->n_rank || !p->n_chunk || !p->n_micro || p->n_chunk % p->n_rank ||
        p->n_chunk / p->n_rank > PST_SCHEDULE_MAX_VIRTUAL || ops > PST_SOLVE_MOST_PASSES ||
        p->n_chunk > PST_SOLVE_MOST_CHUNKS)
        return pst_fail(
            PST_EINPUT,
            "schedule solved: %u chunks on %u ranks with %u micro-batches are too many; expected "
            "at most %d passes and %d chunks",
            p->n_chunk, p->n_rank, p->n_micro, PST_SOLVE_MOST_PASSES, PST_SOLVE_MOST_CHUNKS);
    return PST_OK;
}

static pst_status check_limits(const pst_solver *s) {
    const uint64_t *limit = s->problem->limit;
    for (uint32_t r = 0; limit && r < s->n_rank; r++)
        if (s->single_peak[r] > limit[r])
            return pst_fail(PST_EINPUT,
                            "schedule solved: the memory limit of rank %u is %llu, but one "
                            "micro-batch needs %llu (both in the units of the problem)",
                            r, (unsigned long long)limit[r], (unsigned long long)s->single_peak[r]);
    return PST_OK;
}

static pst_status open_solver(const pst_solve_problem *p, pst_solver *s) {
    *s = (pst_solver){.problem = p,
                      .n_rank = p->n_rank,
                      .n_queue = p->n_chunk * SOLVE_KINDS,
                      .n_micro = p->n_micro};
    PST_TRY(check_problem(p));
    uint32_t n = s->n_queue;
    s->per_rank = n / p->n_rank;
    s->n_op = (size_t)n * p->n_micro;
    s->ns = calloc(n, sizeof *s->ns);
    s->rank_of = calloc(n, sizeof *s->rank_of);
    s->queue_of = calloc(n, sizeof *s->queue_of);
    s->place_of = calloc(n, sizeof *s->place_of);
    s->change = calloc(n, sizeof *s->change);
    s->single_peak = calloc(p->n_rank, sizeof *s->single_peak);
    s->topological = calloc(n, sizeof *s->topological);
    int got = s->ns && s->rank_of && s->queue_of && s->place_of && s->change && s->single_peak &&
              s->topological;
    for (int d = 0; d < 2; d++) {
        s->edge[d] = calloc(n, sizeof *s->edge[d]);
        s->single_order[d] = calloc(n, sizeof *s->single_order[d]);
        s->needed[d] = calloc(n, sizeof *s->needed[d]);
        s->reserve[d] = calloc(n, sizeof *s->reserve[d]);
        got = got && s->edge[d] && s->single_order[d] && s->needed[d] && s->reserve[d];
    }
    if (!got) return pst_fail(PST_ENOMEM, "schedule solved: no memory for %u chunks", p->n_chunk);
    fill_queues(s);
    fill_needs(s);
    fill_single(s);
    fill_edges(s);
    return check_limits(s);
}

/* --- placements ------------------------------------------------------------------------------- */

uint32_t pst_solve_placements(uint32_t chunks, pst_solve_placement place[PST_SOLVE_PLACEMENTS]) {
    static const pst_placement placement[] = {PST_PLACE_V_SHAPE, PST_PLACE_ROUND_ROBIN};
    const uint32_t first = chunks ? chunks : 1, last = chunks ? chunks : PST_SOLVE_CHUNKS;
    uint32_t n = 0;
    for (uint32_t k = first; k <= last; k++)
        for (uint32_t i = 0; i < sizeof placement / sizeof *placement; i++) {
            const pst_schedule_row *like = pst_schedule_with_placement(placement[i], k);
            if (like) place[n++] = (pst_solve_placement){like->name, k};
        }
    return n;
}

int pst_solve_placement_has(const pst_solve_placement *place, const pst_schedule_row *row) {
    const pst_schedule_row *like;
    if (row->kind == PST_SCHEDULE_FORWARD || pst_schedule_find(place->like, &like) != PST_OK)
        return 0;
    return row->n_virtual == like->n_virtual;
}

/* --- assembly --------------------------------------------------------------------------------- */

static pst_status write_schedule(const pst_solver *s, const pst_solution *x,
                                 pst_schedule **schedule) {
    static const pst_opcode opcode[SOLVE_KINDS] = {PST_OP_F, PST_OP_B, PST_OP_W};
    const pst_solve_problem *p = s->problem;
    const pst_schedule_row *row;
    PST_TRY(pst_schedule_find(pst_schedule_name_of(PST_SCHEDULE_SOLVED), &row));
    PST_TRY(pst_schedule_open(row, p->n_rank, p->n_chunk / p->n_rank, p->n_micro, schedule));
    memcpy((*schedule)->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof *p->rank_of_chunk);
    uint32_t *next = calloc(s->n_queue, sizeof *next);
    pst_status status =
        next ? PST_OK : pst_fail(PST_ENOMEM, "schedule solved: no memory for the result");
    size_t n = pst_solve_length(s);
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++)
        for (size_t k = 0; k < n; k++) {
            uint32_t queue = x->word[r * n + k];
            pst_schedule_add(*schedule, r, opcode[queue % SOLVE_KINDS], queue / SOLVE_KINDS,
                             next[queue]++);
        }
    free(next);
    if (status == PST_OK) status = pst_schedule_check(*schedule);
    if (status != PST_OK) pst_schedule_close(*schedule), *schedule = NULL;
    return status;
}

pst_status pst_schedule_solve(const pst_solve_problem *problem, pst_schedule **schedule,
                              pst_solved *solved) {
    pst_solver s;
    pst_solution best = {0};
    pst_solved found;
    pst_status status = open_solver(problem, &s);
    if (status == PST_OK) status = pst_solve_search(&s, &best, &found);
    if (status == PST_OK) status = write_schedule(&s, &best, schedule);
    if (status == PST_OK) *solved = found;
    free(best.start);
    free(best.word);
    close_solver(&s);
    return status;
}
