/* test: label=quick timeout=60 */
/* The timed device and transport alone, and under the executor: on the virtual clock every
 * instruction starts and ends exactly when the simulator says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/execute/executor.h"
#include "pipeline/execute/timed.h"
#include "pipeline/study.h"

static void device_keeps_its_own_timeline(void **state) {
    (void)state;
    pst_clock clock = {.is_virtual = 1};
    pst_device_config config = {.threads = 1, .clock = &clock};
    pst_device *d;
    uint64_t event[200], start, end;
    assert_null(pst_device_timed.reject(&config));
    assert_int_equal(pst_device_timed.open(&config, &d), PST_OK);
    assert_true(d->ops->next_ns(d) == PST_NEVER);
    for (int i = 0; i < 200; i++) { /* the third has to wait for its inputs */
        assert_int_equal(d->ops->launch(d, NULL, NULL, i == 2 ? 50 : 0, 10, &event[i]), PST_OK);
    }
    assert_int_equal(d->ops->next_ns(d), 10);
    assert_int_equal(d->ops->test(d, event[0], &start, &end), PST_BUSY);
    clock.virtual_ns = 1000; /* the host wakes up late: planned times all the same */
    assert_int_equal(d->ops->test(d, event[2], &start, &end), PST_OK);
    assert_true(start == 50 && end == 60);
    assert_int_equal(d->ops->test(d, event[1], &start, &end), PST_OK);
    assert_true(start == 10 && end == 20);
    assert_int_equal(d->ops->next_ns(d), 10);
    assert_int_equal(d->ops->test(d, event[0], &start, &end), PST_OK);
    assert_int_equal(d->ops->next_ns(d), 70);
    assert_int_equal(d->ops->test(d, event[199], &start, &end), PST_BUSY);
    assert_int_equal(d->ops->test(d, event[199] + 1, &start, &end), PST_EINTERNAL);
    d->ops->close(d);
}

static pst_transfer transfer(pst_transfer_kind kind, uint32_t peer, uint32_t seq, uint64_t bytes,
                             uint64_t ns) {
    return (pst_transfer){
        .kind = kind, .peer = peer, .channel = 3, .seq = seq, .bytes = bytes, .ns = ns};
}

static void transfers_start_when_both_ends_are_there(void **state) {
    (void)state;
    pst_clock clock = {.is_virtual = 1, .virtual_ns = 100};
    pst_timed_hub *hub;
    uint64_t send, recv, late, end = 0;
    assert_int_equal(pst_timed_hub_open(3, &clock, &hub), PST_OK);
    pst_transport *a = pst_timed_hub_end(hub, 0), *b = pst_timed_hub_end(hub, 1),
                  *c = pst_timed_hub_end(hub, 2);
    pst_transfer t = transfer(PST_TRANSFER_SEND, 1, 0, 8, 40);
    assert_int_equal(a->ops->post(a, &t, &send), PST_OK);
    t = transfer(PST_TRANSFER_RECV, 0, 1, 8, 7); /* another message */
    assert_int_equal(b->ops->post(b, &t, &late), PST_OK);
    assert_true(a->ops->next_ns(a) == PST_NEVER);
    clock.virtual_ns = 130;
    t = transfer(PST_TRANSFER_RECV, 0, 0, 8, 7);
    assert_int_equal(b->ops->post(b, &t, &recv), PST_OK);
    assert_int_equal(a->ops->next_ns(a), 170);
    assert_int_equal(b->ops->next_ns(b), 170);
    assert_true(c->ops->next_ns(c) == PST_NEVER);
    clock.virtual_ns = 169;
    assert_int_equal(b->ops->test(b, recv, &end), PST_BUSY);
    assert_int_equal(b->ops->progress(b), 0);
    clock.virtual_ns = 200;
    assert_int_equal(b->ops->progress(b), 1);
    assert_int_equal(b->ops->progress(b), 1); /* until it is tested */
    assert_int_equal(b->ops->test(b, recv, &end), PST_OK);
    assert_int_equal(b->ops->progress(b), 0);
    assert_int_equal(end, 170);
    assert_int_equal(a->ops->test(a, send, &end), PST_OK);
    assert_int_equal(end, 170);
    assert_int_equal(a->ops->test(a, send, &end), PST_EINTERNAL); /* forgotten */
    t = transfer(PST_TRANSFER_SEND, 1, 1, 9, 7); /* one byte more than the other end */
    assert_int_equal(a->ops->post(a, &t, &send), PST_OK);
    assert_int_equal(a->ops->test(a, send, &end), PST_EINPUT);
    assert_int_equal(b->ops->test(b, late, &end), PST_EINPUT);
    t = transfer(PST_TRANSFER_RECV, 0, 2, 8, 7);
    assert_int_equal(b->ops->post(b, &t, &recv), PST_OK);
    a->ops->abort(a);
    assert_int_equal(b->ops->test(b, recv, &end), PST_EPEER);
    assert_int_equal(b->ops->post(b, &t, &recv), PST_EPEER);
    pst_timed_hub_close(hub);
}

/* --- the executor on the virtual clock -------------------------------------------------------- */

/* Every instruction a duration of its own; both ends of a transfer the same. */
static void randomize(study *s, uint64_t *seed) {
    uint64_t per_seq[2][64];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 64; i++)
            per_seq[k][i] = study_random(seed) % 3 ? study_random(seed) % 300 : 0;
    }
    for (uint32_t c = 0; c < s->cut->n_chunk; c++) {
        for (uint32_t op = 0; op < 4; op++) {
            pst_program *p = &s->cut->chunk[c].program[op];
            p->ns = 0;
            for (uint32_t k = 0; k < p->n_step; k++)
                p->ns += p->step[k].ns = study_random(seed) % 200;
        }
    }
    if (study_random(seed) % 2)
        assert_non_null(s->job->slow = calloc(s->job->n_rank, sizeof *s->job->slow));
    for (uint32_t r = 0; r < s->job->n_rank; r++) {
        if (s->job->slow) s->job->slow[r] = 1 + (double)(study_random(seed) % 1000) / 300;
        for (uint32_t i = 0; i < s->job->list[r].n_instr; i++) {
            pst_instr *in = &s->job->list[r].instr[i];
            if (in->opcode <= PST_OP_BW)
                in->ns = pst_job_slowed(s->job, r, s->cut->chunk[in->chunk].program[in->opcode].ns);
            else if (in->queue != PST_Q_COMPUTE)
                in->ns = per_seq[in->channel & 1][(in->seq * 7 + in->channel) % 64];
            else in->ns = study_random(seed) % 100;
        }
    }
}

typedef struct {
    pst_clock clock;
    pst_timed_hub *hub;
    pst_device *device[16];
    pst_executor *x[16];
} machine;

static void open_machine(machine *m, uint32_t n_rank, uint64_t now) {
    m->clock = (pst_clock){.is_virtual = 1, .virtual_ns = now};
    assert_int_equal(pst_timed_hub_open(n_rank, &m->clock, &m->hub), PST_OK);
    for (uint32_t r = 0; r < n_rank; r++) {
        pst_device_config device = {.threads = 1, .clock = &m->clock};
        assert_int_equal(pst_device_timed.open(&device, &m->device[r]), PST_OK);
        pst_executor_config config = {.rank = r,
                                      .device = m->device[r],
                                      .transport = pst_timed_hub_end(m->hub, r),
                                      .clock = &m->clock};
        assert_int_equal(pst_executor_open(&config, &m->x[r]), PST_OK);
    }
}

static void close_machine(machine *m, uint32_t n_rank) {
    for (uint32_t r = 0; r < n_rank; r++) {
        pst_executor_close(m->x[r]);
        m->device[r]->ops->close(m->device[r]);
    }
    pst_timed_hub_close(m->hub);
}

static void run_and_compare(const study *s, machine *m, const pst_timing *t, const char *name) {
    uint32_t p = s->job->n_rank;
    for (uint32_t r = 0; r < p; r++)
        assert_int_equal(pst_executor_start(m->x[r], s->job, s->cut), PST_OK);
    if (pst_executor_drive(m->x, p, &m->clock, NULL, NULL) != PST_OK)
        fail_msg("%s: %s", name, pst_error());
    for (uint32_t r = 0; r < p; r++) {
        uint64_t origin;
        const pst_span *span = pst_executor_spans(m->x[r], &origin);
        for (uint32_t i = 0; i < s->job->list[r].n_instr; i++) {
            if (span[i].start == t->span[r][i].start && span[i].end == t->span[r][i].end) continue;
            char text[128];
            fail_msg("%s p=%u m=%u: %s runs %d..%d, simulated %d..%d", name, p, s->job->n_micro,
                     pst_instr_text(s->job, r, i, text, sizeof text), (int)span[i].start,
                     (int)span[i].end, (int)t->span[r][i].start, (int)t->span[r][i].end);
        }
    }
}

static void executor_and_simulator_agree(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    for (int round = 0; round < 400; round++) {
        study s;
        pst_timing *t;
        machine m;
        pst_instr_cost cost = {.latency_ns = 1, .flush = study_random(&seed) % 2};
        uint32_t p = 1 + study_random(&seed) % 9, n = 1 + study_random(&seed) % 12;
        if (study_open(&s, names[round % 4], p, n, (pst_pass_ns){1, 1, 1}, &cost) != PST_OK)
            fail_msg("%s", pst_error());
        randomize(&s, &seed);
        if (pst_job_check(s.job, s.cut, s.slots, PST_CHECK_TAGGED) != PST_OK)
            fail_msg("%s", pst_error());
        if (pst_simulate(s.job, &t) != PST_OK) fail_msg("%s", pst_error());
        open_machine(&m, p, study_random(&seed) % 1000);
        run_and_compare(&s, &m, t, names[round % 4]);
        run_and_compare(&s, &m, t, names[round % 4]); /* a second step of the same executors */
        close_machine(&m, p);
        pst_timing_close(t);
        study_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_keeps_its_own_timeline),
        cmocka_unit_test(transfers_start_when_both_ends_are_there),
        cmocka_unit_test(executor_and_simulator_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
