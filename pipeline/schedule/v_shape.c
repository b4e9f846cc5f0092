/* V-shaped schedules: two chunks per rank, the second placed in reverse order of ranks; W fills
 * idle time. ZB-V, V-Half, V-Min (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv
 * 2405.15362); DualPipeV (DeepSeek-AI, DualPipe, 2025). The order of F and B is generated first, in
 * closed form; then W is placed. */
#include "pipeline/schedule/build.h"
#include "pipeline/schedule/flight.h"
#include "pipeline/schedule/rows.h"
#include "pipeline/schedule/weights.h"
#include <stdlib.h>

/* The passes of one rank, which has chunk[0] on the first leg of the V and chunk[1] on the second;
 * n_f and n_b count the passes added. */
typedef struct {
    pst_schedule *s;
    uint32_t rank, chunk[2], n_f[2], n_b[2];
    pst_action *deferred; /* deferred W in order; NULL: the order has no W yet */
    uint32_t n_deferred, n_done;
} rank_passes;

static rank_passes passes_of(pst_schedule *s, uint32_t rank) {
    return (rank_passes){.s = s, .rank = rank, .chunk = {rank, 2 * s->n_rank - 1 - rank}};
}

static void add_f(rank_passes *p, int leg) {
    pst_schedule_add(p->s, p->rank, PST_OP_F, p->chunk[leg], p->n_f[leg]++);
}

static void add_b(rank_passes *p, int leg) {
    pst_schedule_add(p->s, p->rank, PST_OP_B, p->chunk[leg], p->n_b[leg]++);
}

/* --- zb-v ------------------------------------------------------------------------------------- */

/* The order of F and B in DeepSeek's and PyTorch's implementations of ZB-V, defined for 2p - 1
 * micro-batches or more; with fewer, the missing ones are left out. */
pst_status pst_schedule_zb_v(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    uint32_t all = n_micro < 2 * n_rank - 1 ? 2 * n_rank - 1 : n_micro;
    for (uint32_t r = 0; r < n_rank; r++) {
        rank_passes p = passes_of(*schedule, r);
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

/* The limits per chunk and, over both chunks, per stage. W runs where nothing else can. With fewer
 * than 2p micro-batches there is no rule: they have to be counted. */
static int in_flight_zb_v(pst_schedule_flight *f) {
    const uint32_t p = f->n_rank;
    if (f->n_micro < 2 * p) return 0;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        uint32_t stage = f->stage[k], half = p - (p - 1 - stage) / 2;
        pst_schedule_flight_set(f, k, f->n_chunk - k, f->n_chunk - k);
        f->b_to_w[k] = k < p ? 2 * (stage + 1) : stage + 1;
        if (k < p && half < f->b_to_w[k]) f->b_to_w[k] = half;
        if (f->held[stage] > 2 * p) f->held[stage] = 2 * p;
    }
    return 1;
}

static uint64_t warm_up_zb_v(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return nth ? stage + 1 : size->n_rank + (uint64_t)(size->n_rank - 1 - stage);
}

const pst_schedule_rules pst_schedule_zb_v_rules = {.in_flight = in_flight_zb_v,
                                                    .warm_up = warm_up_zb_v};

/* --- v-half, v-min ---------------------------------------------------------------------------- */

/* A building block is repeated every 6 units, which is a rank's work for one micro-batch; it says
 * when F and B of a micro-batch run on each rank. The first leg of the V takes `hop` units per rank
 * (v-half 2, v-min 1), the second leg 1. Where p is a multiple of 3, F and B of v-min would
 * collide; an offset between them avoids it. */
static uint32_t offset_of(uint32_t hop, uint32_t n_rank) {
    return hop == 1 && n_rank % 3 == 0 ? 2 : 0;
}

static void add_block(pst_schedule *s, uint32_t rank, uint32_t hop, uint32_t offset) {
    uint64_t p = s->n_rank, r = rank;
    uint64_t f1_last = (p - 1) * hop + 1, f1_first = f1_last + (p - 1);
    uint64_t b1_first = f1_first + 1 + offset, b0_last = b1_first + (p - 1) * hop + 1;
    uint32_t second = (uint32_t)(2 * p - 1 - r);
    const pst_pass_series series[] = {{PST_OP_B, rank, b0_last + (p - 1 - r), 6},
                                      {PST_OP_B, second, b1_first + r * hop, 6},
                                      {PST_OP_F, second, f1_last + (p - 1 - r), 6},
                                      {PST_OP_F, rank, r * hop, 6}};
    pst_schedule_add_series(s, rank, series, 4);
}

/* The most micro-batches with F done and B not, over both chunks, on any rank. */
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

static pst_status generate_blocks(const pst_schedule_row *row, uint32_t hop, uint32_t n_rank,
                                  uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++) add_block(*schedule, r, hop, offset_of(hop, n_rank));
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

/* Of passes at `start`, `start` + 6, ...: how many start before `end`. */
static uint32_t passes_before(uint64_t start, uint64_t end) {
    return end > start ? (uint32_t)((end - start + 5) / 6) : 0;
}

static uint64_t warm_up_blocks(uint32_t hop, uint32_t p, uint32_t stage, uint32_t nth) {
    uint64_t f1_last = (uint64_t)(p - 1) * hop + 1;
    uint64_t first_b = f1_last + p + offset_of(hop, p) + stage * hop;
    return passes_before(nth ? f1_last + (p - 1 - stage) : stage * hop, first_b);
}

static uint64_t warm_up_half(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return warm_up_blocks(2, size->n_rank, stage, nth);
}

static uint64_t warm_up_min(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    return warm_up_blocks(1, size->n_rank, stage, nth);
}

const pst_schedule_rules pst_schedule_v_half_rules = {.warm_up = warm_up_half};
const pst_schedule_rules pst_schedule_v_min_rules = {.warm_up = warm_up_min};

/* --- DualPipeV -------------------------------------------------------------------------------- */

static void add_full_b(rank_passes *p, int leg) {
    add_b(p, leg);
    pst_schedule_add(p->s, p->rank, PST_OP_W, p->chunk[leg], p->n_b[leg] - 1);
}

static void defer_w(rank_passes *p, int leg) {
    add_b(p, leg);
    p->deferred[p->n_deferred++] =
        (pst_action){.chunk = (uint16_t)p->chunk[leg], .micro = p->n_b[leg] - 1};
}

static void add_deferred_w(rank_passes *p) {
    if (p->n_done == p->n_deferred) return;
    pst_schedule_add(p->s, p->rank, PST_OP_W, p->deferred[p->n_done].chunk,
                     p->deferred[p->n_done].micro);
    p->n_done++;
}

/* The eight steps of DualPipeV's implementation. W directly follows its B except at both ends. A
 * device that can overlap them runs the F and B of a pair in the middle as one. Defined for 2p
 * micro-batches or more; with fewer, the missing ones are left out. */
static void add_dualpipev(rank_passes *p, uint32_t all) {
    uint32_t n = p->s->n_rank, r = p->rank;
    for (uint32_t i = 0; i < 2 * (n - 1 - r); i++) add_f(p, 0);
    for (uint32_t i = 0; i <= r; i++) {
        add_f(p, 0);
        add_f(p, 1);
    }
    for (uint32_t i = 0; i < n - 1 - r; i++) {
        defer_w(p, 1);
        add_deferred_w(p);
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
        if ((int)i > half || ((int)i == half && odd)) defer_w(p, 1);
        else add_full_b(p, 1);
        if ((int)i >= half) defer_w(p, 0);
        else add_full_b(p, 0);
    }
    for (uint32_t i = 0; i < n - 1 - r; i++) {
        add_deferred_w(p);
        defer_w(p, 0);
    }
    while (p->n_done < p->n_deferred) add_deferred_w(p);
}

pst_status pst_schedule_dualpipev(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                                  uint32_t n_micro, pst_schedule **schedule) {
    pst_action *deferred = calloc(4 * (size_t)n_rank, sizeof *deferred);
    if (!deferred)
        return pst_fail(PST_ENOMEM, "schedule %s: no memory for %u stages", row->name, n_rank);
    pst_status status = pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule);
    for (uint32_t r = 0; status == PST_OK && r < n_rank; r++) {
        rank_passes p = passes_of(*schedule, r);
        p.deferred = deferred;
        add_dualpipev(&p, n_micro < 2 * n_rank ? 2 * n_rank : n_micro);
    }
    free(deferred);
    return status;
}

/* W is deferred in the last steps, where one deferred W runs after each B. With fewer than 2p
 * micro-batches there is no rule: they have to be counted. */
static int in_flight_dualpipev(pst_schedule_flight *f) {
    const uint32_t p = f->n_rank;
    if (f->n_micro < 2 * p) return 0;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        uint32_t stage = f->stage[k], half = (stage + 1) / 2,
                 later = (p - 1 - stage + stage % 2) / 2;
        pst_schedule_flight_set(f, k, f->n_chunk - k, f->n_chunk - k);
        f->b_to_w[k] = half ? half : 1;
        if (k < p) f->b_to_w[k] = stage / 2 + 1 + (half < later ? half : later);
    }
    return 1;
}

static uint64_t warm_up_dualpipev(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    uint32_t behind = size->n_rank - 1 - stage;
    return nth ? stage + 1 : size->n_rank + behind + !behind;
}

const pst_schedule_rules pst_schedule_dualpipev_rules = {.in_flight = in_flight_dualpipev,
                                                         .warm_up = warm_up_dualpipev};
