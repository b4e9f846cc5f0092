/* W in idle time: time is stepped through with F, B and W of one unit each, and a rank whose next
 * pass cannot start runs the oldest W that it owes, as it does when it may hold no more
 * micro-batches. */
#include "pipeline/schedule/weights.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_action *next, *end; /* of F and B */
    pst_action *out, *oldest;     /* the next place; no W is owed for B before */
    uint32_t owed, alive;         /* B done and W not; F done and W not */
} lane;

typedef struct {
    lane *lane;                    /* [n_rank] */
    uint32_t n_rank, limit;        /* of alive on each rank */
    uint32_t *before_f, *before_b; /* [n_chunk] F of the chunk before, B of the one behind that have
                                      ended, ascending in micro-batch; without one: UINT32_MAX */
    uint32_t **begun; /* [n_rank] what is to be counted when this unit of time is over */
} filler;

/* F of a chunk that B needs is before it in the same order. */
static int can_start(const filler *f, const lane *l, const pst_action *a) {
    if (a->opcode == PST_OP_B) return f->before_b[a->chunk] > a->micro;
    return f->before_f[a->chunk] > a->micro && (l->alive < f->limit || !l->owed);
}

static void add_owed(lane *l) {
    while (l->oldest->opcode != PST_OP_B) l->oldest++;
    *l->out = *l->oldest++;
    l->out++->opcode = PST_OP_W;
    l->alive--;
    l->owed--;
}

/* One unit of time, which every pass takes; 1 while something runs. */
static int step_time(filler *f) {
    uint32_t n = 0;
    int busy = 0;
    for (lane *l = f->lane; l < f->lane + f->n_rank; l++) {
        if (l->next < l->end && can_start(f, l, l->next)) {
            const pst_action a = *l->next++;
            int is_f = a.opcode == PST_OP_F;
            l->alive += (uint32_t)is_f;
            l->owed += !is_f;
            *l->out++ = a;
            f->begun[n++] = is_f ? &f->before_f[a.chunk + 1u] : &f->before_b[(int)a.chunk - 1];
        } else if (l->owed) {
            add_owed(l);
        } else {
            continue;
        }
        busy = 1;
    }
    for (uint32_t i = 0; i < n; i++) ++*f->begun[i];
    return busy;
}

/* Each rank's F and B go to the end of the room that it has for W, too: what is put before never
 * comes up with them. */
static void fill_lane(pst_schedule *s, uint32_t rank, lane *l) {
    uint32_t n = s->n_action[rank];
    pst_action *first = s->action[rank], *order = first + n / 2;
    memmove(order, first, n * sizeof *order);
    *l = (lane){.next = order, .end = order + n, .out = first, .oldest = first};
}

static pst_status fill(pst_schedule *s, uint32_t limit) {
    filler f = {.n_rank = s->n_rank, .limit = limit};
    pst_status status = PST_OK;
    f.lane = malloc(s->n_rank * sizeof *f.lane);
    f.begun = malloc(s->n_rank * sizeof *f.begun);
    uint32_t *count = calloc(2 * ((size_t)s->n_chunk + 1), sizeof *count);
    if (!f.lane || !f.begun || !count)
        status = pst_fail(PST_ENOMEM, "schedule %s: no memory to place W", s->name);
    if (status == PST_OK) {
        f.before_f = count;
        f.before_b = count + s->n_chunk + 2;
        f.before_f[0] = f.before_b[s->n_chunk - 1] = UINT32_MAX;
        for (uint32_t r = 0; r < s->n_rank; r++) fill_lane(s, r, &f.lane[r]);
        while (step_time(&f)) {}
    }
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++) {
        s->n_action[r] = (uint32_t)(f.lane[r].out - s->action[r]);
        if (f.lane[r].next < f.lane[r].end)
            status = pst_fail(PST_EINTERNAL, "schedule %s: rank %u waits for ever", s->name, r);
    }
    free(f.lane);
    free(f.begun);
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
