/* Places W in idle time. Simulates a schedule in which F, B and W take one unit of time each. A
 * rank runs its oldest pending W if its next pass cannot start, or if it has reached the limit of
 * micro-batches in flight. */
#include "pipeline/schedule/weights.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_action *next, *end; /* of F and B */
    /* out: place of the next action; oldest: before this action every B has its W */
    pst_action *out, *oldest;
    uint32_t n_pending, n_alive; /* micro-batches with B done and W not; with F done and W not */
} rank_state;

typedef struct {
    rank_state *rank;       /* [n_rank] */
    uint32_t n_rank, limit; /* limit: of alive on each rank */
    /* [n_chunk] number of micro-batches with F done in the previous chunk (B done in the next
     * chunk); UINT32_MAX: there is no such chunk */
    uint32_t *before_f, *before_b;
    uint32_t **started; /* [n_rank] the counters to increase at the end of this unit of time */
} filler;

/* The F that a B needs comes earlier in the same rank's order, so only other ranks are checked. */
static int can_start(const filler *f, const rank_state *l, const pst_action *a) {
    if (a->opcode == PST_OP_B) return f->before_b[a->chunk] > a->micro;
    return f->before_f[a->chunk] > a->micro && (l->n_alive < f->limit || !l->n_pending);
}

static void add_pending_w(rank_state *l) {
    while (l->oldest->opcode != PST_OP_B) l->oldest++;
    *l->out = *l->oldest++;
    l->out++->opcode = PST_OP_W;
    l->n_alive--;
    l->n_pending--;
}

/* Simulates one unit of time; 1 while something runs. */
static int step_time(filler *f) {
    uint32_t n = 0;
    int busy = 0;
    for (rank_state *l = f->rank; l < f->rank + f->n_rank; l++) {
        if (l->next < l->end && can_start(f, l, l->next)) {
            const pst_action a = *l->next++;
            int is_f = a.opcode == PST_OP_F;
            l->n_alive += (uint32_t)is_f;
            l->n_pending += !is_f;
            *l->out++ = a;
            f->started[n++] = is_f ? &f->before_f[a.chunk + 1u] : &f->before_b[(int)a.chunk - 1];
        } else if (l->n_pending) {
            add_pending_w(l);
        } else {
            continue;
        }
        busy = 1;
    }
    for (uint32_t i = 0; i < n; i++) ++*f->started[i];
    return busy;
}

/* Moves a rank's F and B to the end of its array, which has capacity for W too. Writing from the
 * front never overtakes reading there. */
static void open_rank(pst_schedule *s, uint32_t rank, rank_state *l) {
    uint32_t n = s->n_action[rank];
    pst_action *first = s->action[rank], *order = first + n / 2;
    memmove(order, first, n * sizeof *order);
    *l = (rank_state){.next = order, .end = order + n, .out = first, .oldest = first};
}

static pst_status fill(pst_schedule *s, uint32_t limit) {
    filler f = {.n_rank = s->n_rank, .limit = limit};
    pst_status status = PST_OK;
    f.rank = malloc(s->n_rank * sizeof *f.rank);
    f.started = malloc(s->n_rank * sizeof *f.started);
    uint32_t *count = calloc(2 * ((size_t)s->n_chunk + 1), sizeof *count);
    if (!f.rank || !f.started || !count)
        status = pst_fail(PST_ENOMEM, "schedule %s: no memory to schedule W", s->name);
    if (status == PST_OK) {
        f.before_f = count;
        f.before_b = count + s->n_chunk + 2;
        f.before_f[0] = f.before_b[s->n_chunk - 1] = UINT32_MAX;
        for (uint32_t r = 0; r < s->n_rank; r++) open_rank(s, r, &f.rank[r]);
        while (step_time(&f)) {}
    }
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++) {
        s->n_action[r] = (uint32_t)(f.rank[r].out - s->action[r]);
        if (f.rank[r].next < f.rank[r].end)
            status = pst_fail(PST_EINTERNAL, "schedule %s: rank %u deadlocks while W is scheduled",
                              s->name, r);
    }
    free(f.rank);
    free(f.started);
    free(count);
    return status;
}

pst_status pst_schedule_fill_weights(pst_schedule **schedule, uint32_t limit) {
    pst_status status = fill(*schedule, limit);
    if (status == PST_OK) return PST_OK;
    pst_schedule_close(*schedule);
    *schedule = NULL;
    return status;
}
