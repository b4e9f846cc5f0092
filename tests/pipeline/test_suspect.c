/* Who holds the job up: a message is lost somewhere in some schedule, and whoever is asked names
 * it; a rank that went past a collective, one in another collective than the rest, one that has
 * left, and one that computes are told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/fault.h"
#include "comm/transport/transport.h"
#include "pipeline/execute/executor.h"
#include "pipeline/execute/suspect.h"
#include "pipeline/execute/timed.h"
#include "pipeline/study.h"
#include <stdio.h>

enum { RANKS = 6 };
#define MUST(call) assert_int_equal((call), PST_OK)

typedef struct {
    pst_position position[RANKS];
    pst_suspect_rank rank[RANKS];
    pst_suspect_scene scene;
} stage;

static void look(stage *g, const study *s, uint32_t n) {
    g->scene = (pst_suspect_scene){
        .n_rank = n, .rank = g->rank, .job = {NULL, s->job}, .cut = {NULL, s->cut}};
    for (uint32_t r = 0; r < n; r++)
        g->rank[r].known = pst_position_read(&g->position[r], &g->rank[r].at);
}

/* --- a lost message --------------------------------------------------------------------------- */

typedef struct {
    pst_clock clock;
    pst_self_hub *hub;
    pst_device *device[RANKS];
    pst_transport *end[RANKS];
    pst_executor *x[RANKS];
} machine;

/* All messages share it: nobody looks at the bytes. */
static void *memory(void *arg, const pst_instr *instr) {
    static uint8_t bytes[4096];
    (void)arg;
    assert_true(instr->bytes <= sizeof bytes);
    return bytes;
}

/* Rank `bad` loses its n-th post, be it a send or a receive. */
static void open_machine(machine *m, stage *g, uint32_t n, uint32_t bad, uint64_t post) {
    m->clock = (pst_clock){.is_virtual = 1, .virtual_ns = 1000};
    MUST(pst_self_hub_open(n, &m->clock, &m->hub));
    for (uint32_t r = 0; r < n; r++) {
        pst_device_config config = {.threads = 1, .clock = &m->clock};
        pst_fault_spec spec = {.drop_post = r == bad ? post : 0};
        MUST(pst_device_timed.open(&config, &m->device[r]));
        MUST(pst_transport_fault_open(pst_self_hub_endpoint(m->hub, r), &spec, &m->end[r]));
        pst_executor_config c = {.rank = r,
                                 .device = m->device[r],
                                 .transport = m->end[r],
                                 .clock = &m->clock,
                                 .hooks.memory = memory,
                                 .position = &g->position[r]};
        MUST(pst_executor_open(&c, &m->x[r]));
        PST_POSITION_SET(&g->position[r], train, 1);
    }
}

static void close_machine(machine *m, uint32_t n) {
    for (uint32_t r = 0; r < n; r++) {
        pst_executor_close(m->x[r]);
        m->end[r]->ops->close(m->end[r]);
        m->device[r]->ops->close(m->device[r]);
    }
    pst_self_hub_close(m->hub);
}

static const pst_transfer *dropped(const machine *m, uint32_t bad) {
    const fault_transport *f = (const fault_transport *)m->end[bad];
    for (const fault_request *r = f->first; r; r = r->next)
        if (r->state == DROPPED) return &r->transfer;
    return NULL;
}

static void check_lost(stage *g, const study *s, uint32_t n, uint32_t bad,
                       const pst_transfer *message) {
    uint32_t from = message->kind == PST_TRANSFER_SEND ? bad : message->peer, asked = 0;
    uint32_t to = from == bad ? message->peer : bad;
    look(g, s, n);
    for (uint32_t r = 0; r < n; r++) {
        pst_suspect p;
        char text[256];
        if (g->rank[r].at.activity != PST_AT_WAIT) continue;
        asked++;
        pst_suspect_find(&g->scene, r, &p);
        if (p.kind != PST_SUSPECT_LOST || p.culprit != from || p.victim != to)
            fail_msg("rank %u: kind %d, %u -> %u, lost was %u -> %u", r, (int)p.kind, p.culprit,
                     p.victim, from, to);
        assert_non_null(strstr(pst_suspect_where(&g->scene, r, NULL, text, sizeof text), "step "));
    }
    assert_true(asked > 0);
}

static void a_lost_message_is_named_by_all(void **unused) {
    (void)unused;
    static const char *const schedules[] = {"gpipe", "1f1b", "1f1b-early"};
    uint64_t state = study_seed();
    pst_instr_cost cost = {.latency_ns = 3, .flush = 1};
    int lost = 0;
    for (int i = 0; i < 200; i++) {
        study s;
        stage g = {0};
        machine m;
        uint32_t n = 2 + (uint32_t)(study_random(&state) % (RANKS - 1)),
                 bad = (uint32_t)(study_random(&state) % n);
        MUST(study_open(&s, schedules[study_random(&state) % 3], n,
                        1 + (uint32_t)(study_random(&state) % 8), (pst_pass_ns){20, 30, 10},
                        &cost));
        open_machine(&m, &g, n, bad, 1 + study_random(&state) % 40);
        for (uint32_t r = 0; r < n; r++) MUST(pst_executor_start(m.x[r], s.job, s.cut));
        pst_status status = pst_executor_drive(m.x, n, &m.clock, NULL, NULL);
        const pst_transfer *message = dropped(&m, bad);
        assert_int_equal(status, message ? PST_EINTERNAL : PST_OK);
        for (uint32_t r = 0; r < n; r++) pst_executor_publish_wait(m.x[r]);
        if (message) check_lost(&g, &s, n, bad, message);
        else
            for (uint32_t r = 0; r < n; r++)
                assert_int_equal(PST_POSITION_GET(&g.position[r], activity), PST_AT_HOST);
        lost += message != NULL;
        close_machine(&m, n);
        study_close(&s);
    }
    printf("%d messages lost\n", lost);
    assert_true(lost > 60);
}

/* --- logs ------------------------------------------------------------------------------------- */

enum { OPS = 400 };

/* A training: lists with a report each; every third step a checkpoint of four collectives, every
 * fifth a validation. */
static uint32_t write_program(uint64_t op[OPS], uint32_t steps) {
    uint32_t n = 0;
    for (uint32_t line = 10; line < 15; line++) op[n++] = UINT64_C(100) << 32 | line; /* set-up */
    for (uint32_t step = 1; step <= steps; step++) {
        op[n++] = PST_OP_LIST_TRAIN;
        op[n++] = UINT64_C(200) << 32 | 79;
        for (uint32_t i = 0; step % 5 == 0 && i < 2; i++) {
            op[n++] = PST_OP_LIST_EVAL;
            op[n++] = UINT64_C(300) << 32 | 83;
        }
        if (step % 5 == 0) op[n++] = UINT64_C(300) << 32 | 99;
        for (uint32_t line = 260; step % 3 == 0 && line < 264; line++)
            op[n++] = UINT64_C(400) << 32 | line;
    }
    return n;
}

/* One rank leaves any collective out and goes on for a bit, the others come to it: it is told who,
 * of two ranks, too. */
static void what_was_left_out_is_found_in_the_logs(void **unused) {
    (void)unused;
    uint64_t state = study_seed(), op[OPS];
    uint32_t n_op = write_program(op, 60), right = 0, tried = 0;
    for (uint32_t skipped = 5; skipped + 4 < n_op; skipped++) {
        stage g = {0};
        pst_suspect p = {0};
        uint32_t n = 2 + (uint32_t)(study_random(&state) % (RANKS - 1)),
                 culprit = (uint32_t)(study_random(&state) % n);
        if (op[skipped] <= PST_OP_LIST_TRAIN) continue;
        for (uint32_t r = 0; r < n; r++) {
            uint32_t end = skipped + 1 + (uint32_t)(study_random(&state) % 2);
            for (uint32_t i = 0; i < end + (r == culprit); i++)
                if (r != culprit || i != skipped) pst_position_op(&g.position[r], op[i]);
            g.rank[r].known = pst_position_read(&g.position[r], &g.rank[r].at);
        }
        g.scene = (pst_suspect_scene){.n_rank = n, .rank = g.rank};
        tried++;
        right += pst_suspect_order(&g.scene, &p) == culprit && p.kind == PST_SUSPECT_SKIPPED &&
                 p.op == skipped;
    }
    printf("%u of %u found\n", right, tried);
    assert_true(right * 100 >= tried * 99);
}

/* --- by hand ---------------------------------------------------------------------------------- */

/* Lists and collectives in turn, the last collective being `bytes`. */
static void write_log(pst_position *p, uint32_t n_run, uint32_t n_coll, uint64_t bytes) {
    PST_POSITION_SET(p, n_op, 0);
    for (uint32_t i = 0; i + n_run < n_coll; i++) pst_position_op(p, UINT64_C(100) << 32 | i);
    for (uint32_t i = 0; i < n_run; i++) {
        pst_position_op(p, PST_OP_LIST_TRAIN);
        if (i + 1 < n_run || bytes)
            pst_position_op(p, UINT64_C(200) << 32 | (i + 1 < n_run ? 96 : bytes));
    }
}

static void in_collective(pst_position *p, uint32_t n_run, uint32_t n_coll, uint64_t bytes,
                          uint32_t peer, int is_recv) {
    PST_POSITION_SET(p, activity, (uint32_t)PST_AT_COLLECTIVE);
    PST_POSITION_SET(p, train, 1);
    PST_POSITION_SET(p, n_run, n_run);
    PST_POSITION_SET(p, n_coll, n_coll);
    PST_POSITION_SET(p, coll_bytes, bytes);
    PST_POSITION_SET(p, coll_wait, pst_position_message(is_recv, peer, 9));
    write_log(p, n_run, n_coll, bytes);
}

/* Waits for the first micro-batch's activation. */
static void in_run(pst_position *p, const study *s, uint32_t rank, uint32_t n_run,
                   uint32_t n_coll) {
    PST_POSITION_SET(p, activity, (uint32_t)PST_AT_WAIT);
    PST_POSITION_SET(p, train, 1);
    PST_POSITION_SET(p, n_run, n_run);
    PST_POSITION_SET(p, n_coll, n_coll);
    PST_POSITION_SET(p, waits_for, study_find(s, rank, PST_OP_RECV, 0, 0));
    write_log(p, n_run, n_coll, 0);
}

static void places_in_the_program_are_compared(void **unused) {
    (void)unused;
    pst_instr_cost cost = {.latency_ns = 3, .flush = 1};
    study s;
    pst_suspect p;
    MUST(study_open(&s, "1f1b", 3, 4, (pst_pass_ns){20, 30, 10}, &cost));
    for (uint32_t asked = 0; asked < 3; asked++) {
        /* rank 1 has begun the next list; the others wait for it in the collective before */
        stage g = {0};
        in_collective(&g.position[0], 4, 7, 96, 1, 1);
        in_run(&g.position[1], &s, 1, 5, 6);
        in_collective(&g.position[2], 4, 7, 96, 0, 1);
        look(&g, &s, 3);
        pst_suspect_find(&g.scene, asked, &p);
        assert_int_equal(p.kind, PST_SUSPECT_SKIPPED);
        assert_int_equal(p.culprit, 1);

        /* it is in the seventh, too, but in another one */
        in_collective(&g.position[1], 4, 7, 8, 0, 1);
        look(&g, &s, 3);
        pst_suspect_find(&g.scene, asked, &p);
        assert_int_equal(p.kind, PST_SUSPECT_SKIPPED);
        assert_int_equal(p.culprit, 1);

        in_collective(&g.position[1], 4, 7, 96, 0, 1); /* in the same one: nobody is out of order */
        look(&g, &s, 3);
        pst_suspect_find(&g.scene, asked, &p);
        assert_int_equal(p.kind, PST_SUSPECT_DEADLOCK);

        /* and has sent its part */
        PST_POSITION_SET(&g.position[1], coll_post[0], pst_position_message(0, 0, 9));
        PST_POSITION_SET(&g.position[1], n_coll_post, 1);
        look(&g, &s, 3);
        pst_suspect_find(&g.scene, asked, &p);
        assert_int_equal(p.kind, PST_SUSPECT_LOST);
        assert_int_equal(p.culprit, 1);
        assert_int_equal(p.victim, 0);
    }
    study_close(&s);
}

static void who_computes_or_has_left_ends_the_chain(void **unused) {
    (void)unused;
    pst_instr_cost cost = {.latency_ns = 3, .flush = 1};
    study s;
    stage g = {0};
    pst_suspect first, p;
    MUST(study_open(&s, "1f1b", 3, 4, (pst_pass_ns){20, 30, 10}, &cost));
    in_run(&g.position[2], &s, 2, 5, 6);
    in_run(&g.position[1], &s, 1, 5, 6);
    in_run(&g.position[0], &s, 1, 5, 6);
    PST_POSITION_SET(&g.position[0], activity, (uint32_t)PST_AT_COMPUTE);
    look(&g, &s, 3);
    pst_suspect_find(&g.scene, 2, &first);
    assert_int_equal(first.kind, PST_SUSPECT_BUSY);
    assert_int_equal(first.culprit, 0);
    assert_int_equal(first.victim, 1);
    assert_int_equal(first.n_chain, 3);

    pst_position_move(&g.position[0]); /* its next operator */
    look(&g, &s, 3);
    pst_suspect_find(&g.scene, 2, &p);
    assert_int_equal(p.kind, PST_SUSPECT_BUSY);
    assert_true(p.fingerprint != first.fingerprint);

    g.rank[0].left = 1;
    pst_suspect_find(&g.scene, 2, &p);
    assert_int_equal(p.kind, PST_SUSPECT_LEFT);
    assert_int_equal(p.culprit, 0);

    g.rank[0].known = 0; /* on another host */
    pst_suspect_find(&g.scene, 2, &p);
    assert_int_equal(p.kind, PST_SUSPECT_NOBODY);
    study_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_message_is_named_by_all),
        cmocka_unit_test(what_was_left_out_is_found_in_the_logs),
        cmocka_unit_test(places_in_the_program_are_compared),
        cmocka_unit_test(who_computes_or_has_left_ends_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
