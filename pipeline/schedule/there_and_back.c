/* Schedules of two chunks per rank, there and back, that let W fill what would be idle: ZB-V,
 * V-Half, V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362);
 * DualPipeV (DeepSeek-AI, DualPipe, 2025). The order of F and B comes first, in closed form. */
#include "pipeline/schedule/build.h"
#include "pipeline/schedule/flight.h"
#include "pipeline/schedule/rows.h"
#include "pipeline/schedule/weights.h"
#include <stdlib.h>

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

/* --- zb-v ------------------------------------------------------------------------------------- */

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
    return pst_schedule_fill_weights(schedule, 2 * n_rank);
}

/* As many as it may, F to W, in both chunks of a stage together. It runs W where nothing else can
 * run. Of fewer than 2p micro-batches it has to be counted. */
static int hold_zb_v(pst_schedule_flight *f) {
    const uint32_t p = f->n_rank;
    if (f->n_micro < 2 * p) return 0;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        uint32_t stage = f->stage[k], half = p - (p - 1 - stage) / 2;
        pst_schedule_flight_set(f, k, f->n_chunk - k, f->n_chunk - k);
        f->to_w[k] = k < p ? 2 * (stage + 1) : stage + 1;
        if (k < p && half < f->to_w[k]) f->to_w[k] = half;
        if (f->held[stage] > 2 * p) f->held[stage] = 2 * p;
    }
    return 1;
}

static uint64_t warm_zb_v(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return nth ? stage + 1 : size->n_rank + (uint64_t)(size->n_rank - 1 - stage);
}

const pst_schedule_rules pst_schedule_zb_v_rules = {.hold = hold_zb_v, .warm = warm_zb_v};

/* --- v-half, v-min ---------------------------------------------------------------------------- */

/* A building block that comes round every 6 units, which is what a rank has to do for a
 * micro-batch: where F and B of a micro-batch stand on each rank. v-half goes from rank to rank in
 * 2 units on the way there and in 1 on the way back; v-min in 1 always. `wait` keeps F and B of
 * v-min apart, which fall together where p is a multiple of 3. */
static uint32_t wait_of(uint32_t there, uint32_t n_rank) {
    return there == 1 && n_rank % 3 == 0 ? 2 : 0;
}

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

static pst_status generate_blocks(const pst_schedule_row *row, uint32_t there, uint32_t n_rank,
                                  uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++) add_block(*schedule, r, there, wait_of(there, n_rank));
    return pst_schedule_fill_weights(schedule, peak_of(*schedule) + 2);
}

pst_status pst_schedule_v_half(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                               uint32_t n_micro, pst_schedule **schedule) {
    return generate_blocks(row, 2, n_rank, n_virtual, n_micro, schedule);
}

pst_status pst_schedule_v_min(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro, pst_schedule **schedule) {
    return generate_blocks(row, 1, n_rank, n_virtual, n_micro, schedule);
}

/* Of passes that come round every 6 units from `start`, those before `end`. */
static uint32_t beats_before(uint64_t start, uint64_t end) {
    return end > start ? (uint32_t)((end - start + 5) / 6) : 0;
}

static uint64_t warm_blocks(uint32_t there, uint32_t p, uint32_t stage, uint32_t nth) {
    uint64_t back = (uint64_t)(p - 1) * there + 1;
    uint64_t first_b = back + p + wait_of(there, p) + stage * there;
    return beats_before(nth ? back + (p - 1 - stage) : stage * there, first_b);
}

static uint64_t warm_half(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return warm_blocks(2, size->n_rank, stage, nth);
}

static uint64_t warm_min(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return warm_blocks(1, size->n_rank, stage, nth);
}

const pst_schedule_rules pst_schedule_v_half_rules = {.warm = warm_half};
const pst_schedule_rules pst_schedule_v_min_rules = {.warm = warm_min};

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

/* It puts W off in its last steps, where one of what was put off is run after each B. Of fewer than
 * 2p micro-batches it has to be counted. */
static int hold_dualpipev(pst_schedule_flight *f) {
    const uint32_t p = f->n_rank;
    if (f->n_micro < 2 * p) return 0;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        uint32_t stage = f->stage[k], half = (stage + 1) / 2,
                 there = (p - 1 - stage + stage % 2) / 2;
        pst_schedule_flight_set(f, k, f->n_chunk - k, f->n_chunk - k);
        f->to_w[k] = half ? half : 1;
        if (k < p) f->to_w[k] = stage / 2 + 1 + (half < there ? half : there);
    }
    return 1;
}

static uint64_t warm_dualpipev(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    uint32_t behind = size->n_rank - 1 - stage;
    return nth ? stage + 1 : size->n_rank + behind + !behind;
}

const pst_schedule_rules pst_schedule_dualpipev_rules = {.hold = hold_dualpipev,
                                                         .warm = warm_dualpipev};
