/* Traps that other pipeline engines have fallen into, each with the job that shows it, executed
 * over rendezvous messages by ranks that are driven in random order: both ends of a link posting in
 * another order; messages of unequal size between four and more ranks; a receive posted early that
 * holds up computing; fewer micro-batches than stages; a stage without steps. */
#include "comm/transport/transport.h"
#include "pipeline/execute/executor.h"
#include "pipeline/execute/timed.h"
#include "pipeline/study.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_RANK = 16, MOST_BYTES = 1 << 20, SCHEDULES = 10 };

static const char *const schedules[SCHEDULES] = {"gpipe", "1f1b",     "1f1b-early", "interleaved",
                                                 "zb-h1", "zb-h2",    "zb-v",       "v-half",
                                                 "v-min", "dualpipev"};
static uint8_t message_memory[2][MOST_BYTES];

typedef struct {
    study s;
    pst_self_hub *hub;
    pst_device *device[MAX_RANK];
    pst_executor *x[MAX_RANK];
} rig;

static void *memory_of(void *arg, const pst_instr *instr) {
    (void)arg;
    return message_memory[instr->opcode == PST_OP_SEND];
}

static void job_open(rig *r, const char *schedule, uint32_t p, uint32_t m) {
    pst_instr_cost cost = {.latency_ns = 1};
    *r = (rig){0};
    if (study_open(&r->s, schedule, p, m, (pst_pass_ns){1, 1, 1}, &cost) != PST_OK)
        fail_msg("%s", pst_error());
    assert_true(r->s.job->n_rank <= MAX_RANK);
}

static void ranks_open(rig *r) {
    assert_int_equal(pst_self_hub_open(r->s.job->n_rank, NULL, &r->hub), PST_OK);
    for (uint32_t i = 0; i < r->s.job->n_rank; i++) {
        pst_device_config config = {.threads = 1};
        assert_int_equal(pst_device_timed.open(&config, &r->device[i]), PST_OK);
        pst_executor_config xc = {.rank = i,
                                  .device = r->device[i],
                                  .transport = pst_self_hub_endpoint(r->hub, i),
                                  .hooks = {.arg = r, .memory = memory_of}};
        assert_int_equal(pst_executor_open(&xc, &r->x[i]), PST_OK);
        assert_int_equal(pst_executor_start(r->x[i], r->s.job, r->s.cut), PST_OK);
    }
}

static void rig_close(rig *r) {
    for (uint32_t i = 0; i < r->s.job->n_rank && r->hub; i++) {
        pst_executor_close(r->x[i]);
        pst_device_timed.close(r->device[i]);
    }
    pst_self_hub_close(r->hub);
    study_close(&r->s);
}

/* 1: all ranks come to the end of their lists, whoever is driven when. */
static int ends(rig *r, uint64_t *seed) {
    uint32_t n = r->s.job->n_rank, left = n;
    int done[MAX_RANK] = {0};
    for (uint32_t idle = 0; left && idle < 200 * n; idle++) {
        uint32_t i = (uint32_t)(study_random(seed) % n), moved = 0;
        if (done[i]) continue;
        pst_status status = pst_executor_progress(r->x[i], &moved);
        if (status == PST_OK) {
            done[i] = 1;
            left--;
        } else if (status != PST_BUSY) fail_msg("%s", pst_error());
        if (moved) idle = 0;
    }
    return !left;
}

static void must_end(rig *r, uint64_t *seed) {
    ranks_open(r);
    if (!ends(r, seed))
        fail_msg("%s, %u ranks, %u micro-batches: stuck", r->s.schedule->name, r->s.job->n_rank,
                 r->s.job->n_micro);
    rig_close(r);
}

/* --- both ends in another order --------------------------------------------------------------- */

static int names(const pst_instr_list *list, const pst_instr *in, uint32_t at) {
    for (uint32_t d = 0; d < in->n_dep; d++)
        if (list->dep[in->dep + d] == at) return 1;
    return 0;
}

/* Exchanges two transfers of one queue and of this rank's own choice, a before b, where no
 * dependency stands against it. */
static int exchange(pst_instr_list *list, uint32_t a, uint32_t b) {
    pst_instr *x = &list->instr[a], *y = &list->instr[b], swap = *x;
    for (uint32_t d = 0; d < y->n_dep; d++)
        if (list->dep[y->dep + d] >= a) return 0;
    for (uint32_t i = a + 1; i < b; i++)
        if (names(list, &list->instr[i], a)) return 0;
    for (uint32_t d = 0; d < list->n_dep; d++)
        if (list->dep[d] == a) list->dep[d] = b;
        else if (list->dep[d] == b) list->dep[d] = a;
    *x = *y;
    *y = swap;
    return 1;
}

static uint32_t exchange_some(pst_instr_list *list, pst_queue queue, uint64_t *seed) {
    uint32_t n = list->n_instr - list->n_flush, exchanged = 0;
    for (uint32_t tries = 0; tries < 40; tries++) {
        uint32_t a = (uint32_t)(study_random(seed) % n), b = a + 1;
        while (b < n && list->instr[b].queue != queue) b++;
        if (b < n && list->instr[a].queue == queue) exchanged += (uint32_t)exchange(list, a, b);
    }
    return exchanged;
}

/* The sender keeps its order, the receiver takes what comes in one of its own. */
static void both_ends_in_another_order(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t exchanged = 0, executed = 0;
    for (uint32_t k = 0; k < 120; k++) {
        rig r;
        job_open(&r, schedules[k % SCHEDULES], 2 + k % 4, 2 + k % 7);
        for (uint32_t i = 0; i < r.s.job->n_rank; i++)
            exchanged +=
                exchange_some(&r.s.job->list[i], (i + k) % 2 ? PST_Q_RECV : PST_Q_SEND, &seed);
        /* then it says so, and which */
        if (pst_job_check(r.s.job, r.s.cut, NULL, PST_CHECK_TAGGED) != PST_OK) {
            assert_non_null(strstr(pst_error(), "waits for"));
            ranks_open(&r);
            assert_false(ends(&r, &seed));
            rig_close(&r);
            continue;
        }
        executed++;
        must_end(&r, &seed);
    }
    assert_true(exchanged > 200);
    assert_true(executed > 60);
}

/* --- unequal messages ------------------------------------------------------------------------- */

/* Each boundary's own size, the same at both ends. */
static uint64_t bytes_of(uint32_t from, uint32_t to, uint32_t channel) {
    static const uint64_t bytes[] = {1, 8192, 65536, 3, MOST_BYTES, 100000, 0};
    return bytes[(from * 3 + to * 5 + channel) % 7];
}

static void unequal_messages_of_four_and_more_ranks(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    for (uint32_t k = 0; k < 40; k++) {
        rig r;
        job_open(&r, schedules[k % SCHEDULES], 4 + k % 5, 3 + k % 6);
        for (uint32_t i = 0; i < r.s.job->n_rank; i++)
            for (uint32_t j = 0; j < r.s.job->list[i].n_instr; j++) {
                pst_instr *in = &r.s.job->list[i].instr[j];
                if (in->opcode == PST_OP_SEND) in->bytes = bytes_of(i, in->peer, in->channel);
                if (in->opcode == PST_OP_RECV) in->bytes = bytes_of(in->peer, i, in->channel);
            }
        must_end(&r, &seed);
    }
}

/* --- an early receive ------------------------------------------------------------------------- */

/* Rank 1 has posted the receive of the second micro-batch, which rank 0 does not send; it goes on
 * with the first. */
static void an_early_receive_holds_nothing_up(void **state) {
    (void)state;
    rig r;
    job_open(&r, "1f1b", 2, 4);
    ranks_open(&r);
    uint32_t early = study_find(&r.s, 1, PST_OP_RECV, 1, 0),
             first = study_find(&r.s, 1, PST_OP_F, 0, 0);
    uint32_t backward = study_find(&r.s, 1, PST_OP_BW, 0, 0), moved;
    assert_true(early < backward); /* so it has been posted before */
    uint64_t sent = 0;
    for (uint32_t turn = 0; turn < 1000 && !sent; turn++) {
        /* rank 0 until its first message has been sent */
        pst_executor_progress(r.x[0], &moved);
        pst_executor_progress(r.x[1], &moved);
        sent =
            pst_executor_spans(r.x[0], &(uint64_t){0})[study_find(&r.s, 0, PST_OP_SEND, 0, 0)].end;
    }
    assert_true(sent > 0);
    for (uint32_t turn = 0; turn < 1000; turn++) pst_executor_progress(r.x[1], &moved);
    const pst_span *span = pst_executor_spans(r.x[1], &(uint64_t){0});
    assert_true(span[first].end > 0);
    assert_true(span[backward].end > 0);
    assert_true(span[early].end == 0);
    uint64_t seed = 1;
    assert_true(ends(&r, &seed));
    rig_close(&r);
}

/* --- few micro-batches, empty stages ---------------------------------------------------------- */

static void fewer_micro_batches_than_stages(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    for (uint32_t k = 0; k < SCHEDULES; k++)
        for (uint32_t p = 2; p <= 8; p++)
            for (uint32_t m = 1; m < p; m += 1 + p / 4) {
                rig r;
                job_open(&r, schedules[k], p, m);
                assert_int_equal(pst_job_check(r.s.job, r.s.cut, r.s.slots, PST_CHECK_TAGGED),
                                 PST_OK);
                must_end(&r, &seed);
            }
}

/* A stage that has nothing to compute passes on what it gets. */
static void a_stage_without_steps(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    for (uint32_t k = 0; k < SCHEDULES; k++) {
        rig r;
        job_open(&r, schedules[k], 4, 5);
        for (uint32_t c = 1; c < r.s.cut->n_chunk; c += 2)
            for (int op = 0; op <= PST_OP_BW; op++) r.s.cut->chunk[c].program[op].n_step = 0;
        must_end(&r, &seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_in_another_order),
        cmocka_unit_test(unequal_messages_of_four_and_more_ranks),
        cmocka_unit_test(an_early_receive_holds_nothing_up),
        cmocka_unit_test(fewer_micro_batches_than_stages),
        cmocka_unit_test(a_stage_without_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
