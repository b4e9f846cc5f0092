/* Asynchronous updates: jobs of workers and servers pass the checker and walk to their end, and
 * whatever is changed in what servers do, or in what workers send them, is refused: also a wait of
 * one worker's part for another worker, which would make the order of updates matter. */
#include "pipeline/case.h"
#include "pipeline/simulate/simulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 8 };

typedef struct {
    test_case t;
    const pst_schedule *schedule[MOST];
    const pst_cut *cut[1];
    pst_slots *slots[MOST];
    pst_job *job;
    uint32_t lanes;
} served;

static served open_served(uint64_t k, uint32_t workers, uint32_t servers, uint64_t *seed) {
    served r = {.t = {.g = random_graph(k)}, .lanes = workers + servers};
    const pst_instr_cost cost = {.latency_ns = 50,
                                 .bytes_per_s = 1e7,
                                 .norm_ns = 1,
                                 .reduce_ns = 1,
                                 .step_ns = 1,
                                 .flush = 1};
    uint32_t weight[MOST * MOST] = {0};
    build_case(&r.t, 1 + (uint32_t)(k % 3), (uint32_t)(k % CASE_KINDS), 3, seed);
    for (uint32_t p = 0; p < r.t.g->n_param; p++)
        if (next_random(seed) % 3 == 0)
            r.t.g->param[p].dim[0] += next_random(seed) % 2 * 2 * PST_PIECE / 8;
    for (uint32_t i = 0; i < workers; i++) r.schedule[i] = r.t.schedule;
    for (uint32_t s = 0; s < r.t.n_rank; s++)
        for (uint32_t i = 0; i < servers; i++) weight[s * r.lanes + workers + i] = 1;
    r.cut[0] = r.t.cut;
    const pst_job_spec spec = {.grid = {r.t.n_rank, workers, 1, NULL, servers},
                               .schedule = r.schedule,
                               .cut = r.cut,
                               .cost = &cost,
                               .zero = 1,
                               .weight = weight,
                               .async = 1};
    MUST(pst_job_build_grid(&spec, &r.job, r.slots));
    return r;
}

static void close_served(served *r) { close_grid_case(&r->t, r->job, r->slots, r->lanes, NULL); }

static pst_status check(const served *r) {
    return pst_job_check_grid(r->job, r->cut, r->slots, PST_CHECK_TAGGED);
}

static void check_memory(const served *r, uint32_t rank) {
    pst_memory_map *x;
    const uint32_t lane = pst_grid_lane(r->job->grid, rank);
    const pst_memory_map_spec spec = {.g = r->t.g,
                                      .cut = r->t.cut,
                                      .job = r->job,
                                      .slots = r->slots[lane],
                                      .optim = pst_optim_find("adamw"),
                                      .rank = rank};
    MUST(pst_memory_map_build(&spec, &x));
    MUST(pst_memory_map_check(x, r->t.cut, r->slots[lane]));
    for (uint32_t p = 0; p < r->t.g->n_param; p++) {
        const int serves = pst_job_is_server(r->job, rank);
        assert_true(serves || x->own_from[p] == x->own_to[p]);
        assert_true(!serves || x->norm_from[p] == x->norm_to[p]);
    }
    pst_memory_map_close(x);
}

static void jobs_pass(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    for (uint64_t k = 1; k <= 24; k++) {
        served r = open_served(k, 2 + (uint32_t)(k % 4), 1 + (uint32_t)(k % 3), &seed);
        pst_timing *timing;
        MUST(check(&r));
        MUST(pst_simulate(r.job, &timing));
        pst_timing_close(timing);
        for (uint32_t rank = 0; rank < r.job->n_rank; rank++) check_memory(&r, rank);
        close_served(&r);
    }
}

/* --- damaged lists ---------------------------------------------------------------------------- */

/* A field of an instruction is changed; returns 0 if there is no such change. */
static int change(const served *t, pst_instr *in, int what) {
    const int moves = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
    switch (what) {
    case 0: in->micro++; return !moves || in->param == PST_NONE;
    case 1: in->peer = (in->peer + 1) % t->job->n_rank; return moves;
    case 2: in->from += PST_PIECE; return in->n != 0;
    case 3: in->bytes += sizeof(float); return moves;
    case 4: in->buffer = 1; return in->opcode == PST_OP_RECV && in->n;
    case 5: in->opcode = PST_OP_REDUCE; return !moves;
    case 6: in->seq++; return moves;
    default: in->n_dep = 0; return in->opcode == PST_OP_STEP;
    }
}

/* Of the other instructions of the flush of a server. */
static void refuse_changes(const served *t, uint32_t r, uint32_t i) {
    pst_instr *in = &t->job->list[r].instr[i];
    const pst_instr was = *in;
    for (int what = 0; what < 8; what++) {
        if (change(t, in, what) && check(t) == PST_OK)
            fail_msg("rank %u instruction %u: change %d is let pass", r, i, what);
        *in = was;
    }
}

/* A part must not wait for the messages of another worker, even if these come earlier in the list.
 */
static int refuse_waits(const served *t, uint32_t r, uint32_t i) {
    pst_instr_list *list = &t->job->list[r];
    pst_instr *in = &list->instr[i];
    const uint32_t worker = pst_job_worker_of(t->job, in);
    int refused = 0;
    for (uint32_t on = list->n_head; on < i && in->n_dep; on++) {
        const pst_instr *other = &list->instr[on];
        if (other->opcode != PST_OP_RECV || pst_job_worker_of(t->job, other) == worker) continue;
        const uint32_t kept = list->dep[in->dep];
        list->dep[in->dep] = on;
        if (check(t) == PST_OK) fail_msg("rank %u: %u may wait for %u", r, i, on);
        list->dep[in->dep] = kept;
        refused++;
    }
    return refused;
}

static void damaged_servers_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    int changed = 0, waits = 0;
    for (uint64_t k = 1; k <= 4; k++) {
        served t = open_served(k, 2 + (uint32_t)(k % 2), 1 + (uint32_t)(k % 2), &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            const pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = list->n_head; i < list->n_instr; i++) {
                if (!pst_job_is_server(t.job, r) || i % 2) continue;
                refuse_changes(&t, r, i);
                changed++;
                if (i % 3 == 0) waits += refuse_waits(&t, r, i);
            }
        }
        MUST(check(&t));
        close_served(&t);
    }
    assert_true(changed > 20 && waits > 10);
}

/* What a worker sends to servers, and a weight that it would wait for behind its passes. */
static void damaged_workers_are_refused(void **state) {
    (void)state;
    uint64_t seed = test_seed(3);
    int sent = 0, hasty = 0;
    for (uint64_t k = 1; k <= 4; k++) {
        served t = open_served(k, 2, 1, &seed);
        for (uint32_t r = 0; r < t.job->n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = list->n_head; i < list->n_instr; i++) {
                pst_instr *in = &list->instr[i], was = *in;
                const int moves = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
                if (pst_job_is_server(t.job, r) || !moves) continue;
                if (!pst_job_is_server(t.job, in->peer)) continue;
                in->peer = (in->peer + 1) % t.job->n_rank;
                assert_int_equal(check(&t), PST_EINPUT);
                *in = was;
                in->n_dep = 0; /* before it is complete, unless one before it waits for that */
                hasty += check(&t) == PST_EINPUT;
                *in = was;
                sent++;
            }
            if (list->n_head && !pst_job_is_server(t.job, r)) {
                list->n_head--; /* its last weight is no longer in the head */
                assert_int_equal(check(&t), PST_EINPUT);
                list->n_head++;
            }
        }
        MUST(check(&t));
        t.job->eager = 1;
        assert_int_equal(check(&t), PST_EINPUT);
        close_served(&t);
    }
    assert_true(sent > 10 && hasty > 4);
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(jobs_pass),
                                              cmocka_unit_test(damaged_servers_are_refused),
                                              cmocka_unit_test(damaged_workers_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
