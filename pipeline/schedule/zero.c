/* Schedules that let W fill what would be idle. The order of F and B comes first, in closed form;
 * then time is stepped through with F, B and W of one unit each, and a rank whose next pass cannot
 * start runs the oldest W that it owes, as it does when it may hold no more micro-batches. Sources:
 * ZB-H1, ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241); ZB-V, V-Half, V-Min
 * (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362); DualPipeV
 * (DeepSeek-AI, DualPipe, 2025). */
#include "pipeline/schedule/parts.h"
#include <stdlib.h>
#include <string.h>

/* --- W in idle time --------------------------------------------------------------------------- */

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

/* From an order of F and B to one with W. limit: micro-batches of a chunk with F done and W not, on
 * each rank; it is exceeded where nothing else could run. */
static pst_status fill_weights(pst_schedule *s, uint32_t limit) {
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

/* Most micro-batches of a chunk with F done and B not, on any rank. */
static uint32_t peak_of(const pst_schedule *s) {
    uint32_t peak = 0;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        uint32_t alive = 0;
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            if (s->action[r][i].opcode == PST_OP_F) alive++;
            else alive--;
            if (alive > peak) peak = alive;
        }
    }
    return peak;
}

static pst_status fill_or_close(pst_schedule **schedule, uint32_t limit) {
    pst_status status = fill_weights(*schedule, limit);
    if (status != PST_OK) pst_schedule_close(*schedule), *schedule = NULL;
    return status;
}

/* --- one chunk per rank ----------------------------------------------------------------------- */

/* Rank s warms up with p - s F (H1) or 2(p - s) - 1 (H2), then B and F alternate. */
pst_status pst_schedule_zb_h(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    int twice = !strcmp(row->name, "zb-h2");
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    pst_schedule *s = *schedule;
    for (uint32_t r = 0; r < n_rank; r++) {
        uint32_t warm = twice ? 2 * (n_rank - r) - 1 : n_rank - r;
        for (uint32_t m = 0; m < warm; m++) pst_schedule_add(s, r, PST_OP_F, r, m);
        for (uint32_t m = 0; m < n_micro; m++) {
            pst_schedule_add(s, r, PST_OP_B, r, m);
            pst_schedule_add(s, r, PST_OP_F, r, warm + m);
        }
    }
    return fill_or_close(schedule, twice ? 2 * n_rank - 1 : n_rank);
}

/* --- there and back --------------------------------------------------------------------------- */

/* The passes of one rank: chunk [0] on the way there, [1] on the way back; counts of what has been
 * added. */
typedef struct {
    pst_schedule *s;
    uint32_t rank, chunk[2], n_f[2], n_b[2];
    pst_action *owed; /* W put off, in order; NULL: add_b leaves W out */
    uint32_t n_owed, n_paid;
} path;

static path path_of(pst_schedule *s, uint32_t rank) {
    return (path){.s = s, .rank = rank, .chunk = {rank, 2 * s->n_rank - 1 - rank}};
}

static void add_f(path *p, int way) {
    pst_schedule_add(p->s, p->rank, PST_OP_F, p->chunk[way], p->n_f[way]++);
}

static void add_b(path *p, int way) {
    pst_schedule_add(p->s, p->rank, PST_OP_B, p->chunk[way], p->n_b[way]++);
}

/* The order in which DeepSeek's and PyTorch's implementations of ZB-V run F and B. It is made for
 * 2p - 1 micro-batches or more; of fewer, those that are not there are left out. */
pst_status pst_schedule_zb_v(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    uint32_t all = n_micro < 2 * n_rank - 1 ? 2 * n_rank - 1 : n_micro;
    for (uint32_t r = 0; r < n_rank; r++) {
        path p = path_of(*schedule, r);
        for (uint32_t i = 0; i < 2 * (n_rank - r) - 1; i++) add_f(&p, 0);
        for (uint32_t i = 0; i < r; i++) {
            add_f(&p, 1);
            add_f(&p, 0);
        }
        for (uint32_t i = 0; i < n_rank - r; i++) {
            add_f(&p, 1);
            add_b(&p, 1);
        }
        while (p.n_f[1] < all) {
            if (p.n_f[0] < all) add_f(&p, 0);
            add_b(&p, 0);
            add_f(&p, 1);
            add_b(&p, 1);
        }
        for (uint32_t i = 0; i < r; i++) {
            add_b(&p, 0);
            add_b(&p, 1);
        }
        for (uint32_t i = 0; i < n_rank - r; i++) add_b(&p, 0);
    }
    return fill_or_close(schedule, 2 * n_rank);
}

/* A building block that comes round every 6 units, which is what a rank has to do for a
 * micro-batch: where F and B of a micro-batch stand on each rank. v-half goes from rank to rank in
 * 2 units on the way there and in 1 on the way back; v-min in 1 always. `wait` keeps F and B of
 * v-min apart, which fall together where p is a multiple of 3. */
static void add_block(pst_schedule *s, uint32_t rank, uint32_t there, uint32_t wait) {
    uint64_t p = s->n_rank, r = rank;
    uint64_t f1_last = (p - 1) * there + 1, f1_first = f1_last + (p - 1);
    uint64_t b1_first = f1_first + 1 + wait, b0_last = b1_first + (p - 1) * there + 1;
    uint32_t back = (uint32_t)(2 * p - 1 - r);
    const pst_beat beat[] = {{PST_OP_B, rank, b0_last + (p - 1 - r), 6},
                             {PST_OP_B, back, b1_first + r * there, 6},
                             {PST_OP_F, back, f1_last + (p - 1 - r), 6},
                             {PST_OP_F, rank, r * there, 6}};
    pst_schedule_add_beats(s, rank, beat, 4);
}

pst_status pst_schedule_v(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                          uint32_t n_micro, pst_schedule **schedule) {
    int half = !strcmp(row->name, "v-half");
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++)
        add_block(*schedule, r, half ? 2 : 1, !half && n_rank % 3 == 0 ? 2 : 0);
    return fill_or_close(schedule, peak_of(*schedule) + 2);
}

/* --- DualPipeV -------------------------------------------------------------------------------- */

static void add_full_b(path *p, int way) {
    add_b(p, way);
    pst_schedule_add(p->s, p->rank, PST_OP_W, p->chunk[way], p->n_b[way] - 1);
}

static void put_off(path *p, int way) {
    add_b(p, way);
    p->owed[p->n_owed++] = (pst_action){.chunk = (uint16_t)p->chunk[way], .micro = p->n_b[way] - 1};
}

static void pay(path *p) {
    if (p->n_paid == p->n_owed) return;
    pst_schedule_add(p->s, p->rank, PST_OP_W, p->owed[p->n_paid].chunk, p->owed[p->n_paid].micro);
    p->n_paid++;
}

/* The eight steps of DualPipeV's implementation, W directly behind its B but for the ends. Where a
 * device can overlap the two, a pair of F and B of the middle runs as one. For 2p micro-batches or
 * more; of fewer, those that are not there are left out. */
static void add_dualpipev(path *p, uint32_t all) {
    uint32_t n = p->s->n_rank, r = p->rank;
    for (uint32_t i = 0; i < 2 * (n - 1 - r); i++) add_f(p, 0);
    for (uint32_t i = 0; i <= r; i++) {
        add_f(p, 0);
        add_f(p, 1);
    }
    for (uint32_t i = 0; i < n - 1 - r; i++) {
        put_off(p, 1);
        pay(p);
        add_f(p, 1);
    }
    for (uint32_t i = 0; i < all - 2 * n + r + 1; i++) {
        add_f(p, 0);
        add_full_b(p, 1);
        add_f(p, 1);
        add_full_b(p, 0);
    }
    for (uint32_t i = 0; i < n - 1 - r; i++) {
        add_full_b(p, 1);
        add_f(p, 1);
        add_full_b(p, 0);
    }
    for (uint32_t i = 0; i <= r; i++) {
        int odd = r % 2, half = (int)((r + 1) / 2);
        if ((int)i > half || ((int)i == half && odd)) put_off(p, 1);
        else add_full_b(p, 1);
        if ((int)i >= half) put_off(p, 0);
        else add_full_b(p, 0);
    }
    for (uint32_t i = 0; i < n - 1 - r; i++) {
        pay(p);
        put_off(p, 0);
    }
    while (p->n_paid < p->n_owed) pay(p);
}

pst_status pst_schedule_dualpipev(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                                  uint32_t n_micro, pst_schedule **schedule) {
    pst_action *owed = calloc(4 * (size_t)n_rank, sizeof *owed);
    if (!owed)
        return pst_fail(PST_ENOMEM, "schedule %s: no memory for %u stages", row->name, n_rank);
    pst_status status = pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule);
    for (uint32_t r = 0; status == PST_OK && r < n_rank; r++) {
        path p = path_of(*schedule, r);
        p.owed = owed;
        add_dualpipev(&p, n_micro < 2 * n_rank ? 2 * n_rank : n_micro);
    }
    free(owed);
    return status;
}
