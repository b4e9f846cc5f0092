/* Jobs of several replicas for tests: random graphs and schedules, with ZeRO stages, islands,
 * servers, codecs, delayed updates and two-level exchanges. */
#ifndef PST_TESTS_PIPELINE_REPLICAS_H
#define PST_TESTS_PIPELINE_REPLICAS_H
#include "pipeline/case.h"
#include "pipeline/simulate/simulate.h"

/* Instead of a ZeRO stage: each replica is an island; two islands of half of them, with zero 0 and
 * with zero 1; a turn of an exchange of one of two fragments. */
enum { MOST = 8, ISLANDS = -1, HALVES = -2, SHARDED_HALVES = -3, TURNS = -4, PARAMS = 64 };

static inline uint32_t islands_of(int zero, uint32_t n) {
    if (zero >= 0) return 1;
    return zero == ISLANDS ? n : 2;
}

/* With the islands of the k-th case: as many replicas as they need. */
static inline uint32_t replicas_of(uint64_t k, int zero) {
    return zero < ISLANDS ? 4 + 2 * (uint32_t)(k % 2) : 2 + (uint32_t)(k % 4);
}

static uint32_t near_each; /* replicas of a host, of all jobs; 0: 1 */
static uint32_t delay;     /* of the updates of all jobs; without FIFO, codecs and eager updates */

typedef struct {
    test_case t;
    const pst_schedule *schedule[MOST];
    const pst_cut *cut[1];
    pst_schedule *other; /* of the last replica, which has one micro-batch more */
    pst_slots *slots[MOST];
    pst_job *job;
    uint32_t n; /* replicas and servers */
} replicas;

/* Passes that are long enough for parts of them. */
static inline void lengthen(pst_cut *cut) {
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t op = 0; op < 4; op++) {
            pst_program *program = cut->chunk[c].program + op;
            for (uint32_t s = 0; s < program->n_step; s++) program->step[s].ns += 100000;
            program->ns += UINT64_C(100000) * program->n_step;
        }
}

static inline void set_turn(pst_job_spec *spec, uint64_t k, int zero) {
    static uint32_t fragment[PARAMS];
    const uint32_t c = (uint32_t)(k / 4);
    if (zero != TURNS) return;
    for (uint32_t p = 0; p < PARAMS; p++) fragment[p] = p % 2;
    spec->fragments = 2;
    spec->fragment = fragment;
    spec->part = 1 + c / 2 % 2;
    spec->syncs = PST_SYNC_TURN;
    spec->delay = 1 + c % 3;
    spec->turn = c % (spec->delay + 1);
}

/* With zero 2 and islands all kinds of schedules, and parameters of up to three pieces. The last
 * replica has one micro-batch more, or as many less as `fewer`. */
static inline replicas open_served(uint64_t k, uint32_t n, int zero, uint32_t fewer,
                                   uint32_t servers, uint64_t *seed) {
    replicas r = {.t = {.g = random_graph(k)}, .n = n + servers};
    const int large = zero == 2 || zero < 0;
    uint32_t kind = (uint32_t)(k % (large ? CASE_KINDS : 3)), n_micro = 4 - fewer;
    pst_instr_cost cost = {.latency_ns = 50,
                           .bytes_per_s = large ? 1e8 : 1e7,
                           .norm_ns = 1,
                           .reduce_ns = 1,
                           .step_ns = 1,
                           .flush = 1};
    const int eager = servers && k % 4 > 1 && !delay;
    cost.fifo = zero >= 0 && !eager && !delay && !near_each && k % 2; /* several chunks per rank
                                                           need such lists; without, sums come early
                                                         */
    build_case(&r.t, 1 + (uint32_t)(k % 4), kind, 3, seed);
    if (case_schedule[kind])
        MUST(pst_schedule_generate(case_schedule[kind], r.t.n_rank, r.t.n_chunk / r.t.n_rank,
                                   n_micro, &r.other));
    else r.other = many_chunks(r.t.n_rank, r.t.n_chunk, n_micro, kind == 4, 1, kind == 5);
    /* what is computed is no matter here */
    for (uint32_t p = 0; (large || servers) && p < r.t.g->n_param; p++)
        if (next_random(seed) % 3 == 0)
            r.t.g->param[p].dim[0] += next_random(seed) % 2 * 2 * PST_PIECE / 8;
    if (zero != 2) lengthen(r.t.cut);
    for (uint32_t i = 0; i < n; i++) r.schedule[i] = i + 1 < n ? r.t.schedule : r.other;
    r.cut[0] = r.t.cut;
    pst_job_spec spec = {.grid = {r.t.n_rank, n, 1, NULL, servers},
                         .schedule = r.schedule,
                         .cut = r.cut,
                         .cost = &cost,
                         .zero = zero < 0 ? zero == SHARDED_HALVES || (zero == TURNS && k % 8 > 3)
                                          : zero,
                         .islands = islands_of(zero, n),
                         .syncs = 1,
                         .velocity = (int)(k % 2)};
    set_turn(&spec, k, zero);
    if (zero < 0 && zero != TURNS && k / 4 % 2)
        spec.islands_codec = (pst_codec){.kind = PST_CODEC_INT4, .block = 32};
    spec.staleness = delay;
    spec.near = near_each;
    spec.parts = zero == 2 ? 1 : 1 + (uint32_t)(k / 8 % 3);
    static const uint8_t packs[] = {1, 1, 0, 1};
    spec.eager = eager;
    if (spec.eager) spec.message = PST_PIECE / 4;
    if (!large && spec.parts == 1 && k % 3 != 1 && !servers && !delay && !near_each) { /* what is
                                                                            small stays as it is */
        spec.up = (pst_codec){.kind = k % 2 ? PST_CODEC_INT8 : PST_CODEC_INT4, .block = 32};
        if (k % 5 == 0)
            spec.up = (pst_codec){.kind = PST_CODEC_POWERSGD,
                                  .block = PST_CODEC_MATRIX,
                                  .rank = 1,
                                  .columns = 512,
                                  .least = 1,
                                  .warm = (uint32_t)k % 2,
                                  .iterations = 2};
        if (zero == 1 && k % 4 < 3) spec.down = (pst_codec){.kind = PST_CODEC_INT8, .block = 32};
        spec.plain = k % 8 == 6;
        spec.packs = packs;
        spec.min_bytes = 100;
    }
    MUST(pst_job_build_grid(&spec, &r.job, r.slots));
    return r;
}

static inline replicas open_replicas(uint64_t k, uint32_t n, int zero, uint32_t fewer,
                                     uint64_t *seed) {
    return open_served(k, n, zero, fewer, 0, seed);
}

static inline void close_replicas(replicas *r) {
    close_grid_case(&r->t, r->job, r->slots, r->n, r->other);
}

static inline pst_status check(const replicas *r, pst_check_mode mode) {
    return pst_job_check_grid(r->job, r->cut, r->slots, mode);
}

static inline void must_pass(const replicas *r, int fifo) {
    pst_timing *timing;
    MUST(check(r, PST_CHECK_TAGGED));
    if (fifo) MUST(check(r, PST_CHECK_FIFO));
    MUST(pst_simulate(r->job, &timing));
    pst_timing_close(timing);
    for (uint32_t k = 0; k < r->job->n_rank; k++) {
        pst_memory_map *x;
        uint32_t lane = pst_grid_lane(r->job->grid, k);
        const pst_memory_map_spec spec = {.g = r->t.g,
                                          .cut = r->t.cut,
                                          .job = r->job,
                                          .slots = r->slots[lane],
                                          .optim = pst_optim_find("adamw"),
                                          .rank = k};
        MUST(pst_memory_map_build(&spec, &x));
        MUST(pst_memory_map_check(x, r->t.cut, r->slots[lane]));
        pst_memory_map_close(x);
    }
}
#endif
