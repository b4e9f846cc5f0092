/* test: label=quick timeout=60 */
/* The checker: accepts what the generators make, refuses every kind of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/case.h"
#include "pipeline/study.h"

static const pst_instr_cost cost = {.latency_ns = 3,
                                    .bytes_per_s = 1e9,
                                    .norm_ns = 1,
                                    .gather_ns = 1,
                                    .reduce_ns = 1,
                                    .step_ns = 1,
                                    .flush = 1};

static void open_study(study *s, const char *schedule, uint32_t p, uint32_t m) {
    if (study_open(s, schedule, p, m, (pst_pass_ns){10, 11, 12}, &cost) != PST_OK)
        fail_msg("%s", pst_error());
}

static pst_status check(const study *s) {
    return pst_job_check(s->job, s->cut, s->slots, PST_CHECK_TAGGED);
}

static void assert_refused(const study *s, const char *what) {
    assert_int_equal(check(s), PST_EINPUT);
    if (!strstr(pst_error(), what)) fail_msg("expected \"%s\", got \"%s\"", what, pst_error());
}

static void generated_jobs_pass_in_both_modes(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b",   "1f1b-early", "interleaved", "zb-h1",  "zb-h2",
                           "zb-v",  "v-half", "v-min",      "dualpipev",   "forward"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        for (uint32_t p = 1; p <= 9; p++) {
            for (uint32_t m = 1; m <= 12; m += 1 + m / 4) {
                study s;
                open_study(&s, names[k], p, m);
                if (check(&s) != PST_OK) fail_msg("%s p=%u m=%u: %s", names[k], p, m, pst_error());
                /* with several chunks per rank, two channels of a pair may cross */
                if (s.schedule->n_chunk == p &&
                    pst_job_check(s.job, s.cut, s.slots, PST_CHECK_FIFO) != PST_OK)
                    fail_msg("%s", pst_error());
                study_close(&s);
            }
        }
    }
}

/* Lists for transports without tags pass in that mode whatever the schedule, and they finish. */
static void jobs_for_transports_without_tags(void **state) {
    (void)state;
    const char *names[] = {"1f1b", "interleaved", "zb-h1", "zb-v", "v-half", "v-min", "dualpipev"};
    pst_instr_cost fifo = cost;
    fifo.fifo = 1;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (uint32_t p = 1; p <= 6; p++)
            for (uint32_t m = 1; m <= 13; m += 4) {
                study s, tagged;
                if (study_open(&s, names[k], p, m, (pst_pass_ns){10, 11, 12}, &fifo) != PST_OK)
                    fail_msg("%s", pst_error());
                open_study(&tagged, names[k], p, m);
                if (pst_job_check(s.job, s.cut, s.slots, PST_CHECK_FIFO) != PST_OK)
                    fail_msg("%s p=%u m=%u: %s", names[k], p, m, pst_error());
                for (uint32_t r = 0; r < p; r++)
                    assert_int_equal(s.job->list[r].n_instr, tagged.job->list[r].n_instr);
                study_close(&s);
                study_close(&tagged);
            }
}

/* --- damage ----------------------------------------------------------------------------------- */

/* Makes an instruction vanish: everything that names later ones moves up. */
static void drop_instr(pst_instr_list *list, uint32_t at) {
    for (uint32_t d = 0; d < list->n_dep; d++) {
        if (list->dep[d] == at) list->dep[d] = at ? at - 1 : 0;
        else if (list->dep[d] > at) list->dep[d]--;
    }
    if (at >= list->n_instr - list->n_flush) list->n_flush--;
    memmove(&list->instr[at], &list->instr[at + 1], (--list->n_instr - at) * sizeof *list->instr);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        /* a dep that became the instruction itself is none */
        pst_instr *in = &list->instr[i];
        if (in->n_dep && list->dep[in->dep] >= i) in->n_dep = 0;
    }
}

static void drop_deps(study *s, uint32_t rank, uint32_t i) {
    s->job->list[rank].instr[i].n_dep = 0;
}

static void lost_messages(void **state) {
    (void)state;
    study s;
    open_study(&s, "1f1b", 3, 4);
    drop_instr(&s.job->list[1], study_find(&s, 1, PST_OP_RECV, 2, 0));
    assert_refused(&s, "no matching RECV");
    study_close(&s);
    open_study(&s, "1f1b", 3, 4);
    drop_instr(&s.job->list[0], study_find(&s, 0, PST_OP_SEND, 2, 0));
    assert_refused(&s, "no matching SEND");
    study_close(&s);
}

static void wrong_messages(void **state) {
    (void)state;
    for (int k = 0; k < 5; k++) {
        study s;
        open_study(&s, "1f1b", 3, 4);
        pst_instr *recv = &s.job->list[1].instr[study_find(&s, 1, PST_OP_RECV, 2, 0)];
        if (k == 0) recv->bytes += 4;
        if (k == 1) recv->channel = 77;
        if (k == 2) recv->seq = 1;
        if (k == 3) recv->peer = 99;
        if (k == 4) recv->local = 99;
        static const char *const what[] = {"differs from the size of the value", "no matching ",
                                           "same channel", "unknown peer",
                                           "the chunk does not have this value"};
        assert_refused(&s, what[k]);
        study_close(&s);
    }
}

static void two_micro_batches_exchanged(void **state) {
    (void)state;
    study s;
    open_study(&s, "gpipe", 2, 3);
    pst_instr *a = &s.job->list[1].instr[study_find(&s, 1, PST_OP_RECV, 0, 0)];
    pst_instr *b = &s.job->list[1].instr[study_find(&s, 1, PST_OP_RECV, 1, 0)];
    a->seq = 1;
    b->seq = 0; /* each takes the other's message */
    assert_refused(&s, "different values or micro-batches");
    study_close(&s);
}

static void lost_deps(void **state) {
    (void)state;
    study s;
    open_study(&s, "1f1b", 3, 4);
    drop_deps(&s, 1, study_find(&s, 1, PST_OP_F, 1, 0));
    assert_refused(&s, "rank 1 F c1 m1 does not wait for rank 1 RECV c1 m1");
    study_close(&s);
    open_study(&s, "1f1b", 3, 4);
    drop_deps(&s, 0, study_find(&s, 0, PST_OP_SEND, 3, 0));
    assert_refused(&s, "rank 0 SEND c0 m3 -> rank 1 channel 0 does not wait for rank 0 F c0 m3");
    study_close(&s);
}

/* --- an oracle that knows nothing of happens-before: random durations, then looking at the
 * clock */

/* When a moment of a local begins and ends; NULL when there is no such instruction. */
static const pst_span *moment(const study *s, const pst_timing *t, uint32_t c, uint32_t local,
                              uint32_t event, uint32_t m) {
    uint32_t rank = s->job->rank_of_chunk[c];
    const pst_instr_list *list = &s->job->list[rank];
    for (uint32_t i = 0; i < list->n_instr - list->n_flush; i++) {
        const pst_instr *in = &list->instr[i];
        int passes = in->queue == PST_Q_COMPUTE,
            receives = event == PST_EV_RECV_F || event == PST_EV_RECV_B;
        if (in->chunk != c || in->micro != m) continue;
        if (passes ? pst_event_of(in->opcode) != event &&
                         !(event == PST_EV_W && in->opcode == PST_OP_BW)
                   : in->local != local || (in->opcode == PST_OP_RECV) != receives ||
                         event == PST_EV_F || event == PST_EV_B || event == PST_EV_W)
            continue;
        return &t->span[rank][i];
    }
    return NULL;
}

/* Uses after births, and no two micro-batches in one slot at a time. A transfer's span begins when
 * both ends are there; its memory is in use, or written, from then on. */
static int clock_finds_fault(const study *s, const pst_timing *t) {
    for (uint32_t k = 0; k < s->cut->n_class; k++) {
        uint32_t c = s->cut->class_[k].chunk;
        const pst_span *x, *birth;
        pst_span life[16];
        for (uint32_t m = 0; m < s->job->n_micro; m++) {
            life[m] = (pst_span){UINT64_MAX, 0};
            for (uint32_t i = 0; i < s->cut->chunk[c].n_local; i++) {
                const pst_local *l = &s->cut->chunk[c].local[i];
                if (s->cut->chunk[c].buffer[l->buffer].class_ != k ||
                    !(birth = moment(s, t, c, i, l->birth, m)))
                    continue;
                for (uint32_t e = 0; e < PST_EV_COUNT; e++) {
                    if (!((l->uses | 1u << l->birth) >> e & 1) || !(x = moment(s, t, c, i, e, m)))
                        continue;
                    if (e != l->birth && x->start < birth->end) return 1;
                    if (x->start < life[m].start) life[m].start = x->start;
                    if (x->end > life[m].end) life[m].end = x->end;
                }
            }
            for (uint32_t n = 0; n < m; n++) {
                if (s->slots->class_[k].slot_of_micro[n] != s->slots->class_[k].slot_of_micro[m])
                    continue;
                if (life[n].start < life[m].end && life[m].start < life[n].end) return 1;
            }
        }
    }
    return 0;
}

/* 1 when some choice of durations shows a fault. Both ends of a transfer need not agree: the SEND's
 * counts. */
static int some_timing_finds_fault(study *s, uint64_t *seed, int tries) {
    for (int k = 0; k < tries; k++) {
        pst_timing *t;
        for (uint32_t r = 0; r < s->job->n_rank; r++) {
            for (uint32_t i = 0; i < s->job->list[r].n_instr; i++) {
                s->job->list[r].instr[i].ns =
                    study_random(seed) % 4 ? 1 + study_random(seed) % 20 : 500;
            }
        }
        if (pst_simulate(s->job, &t) != PST_OK) return 1;
        int fault = clock_finds_fault(s, t);
        pst_timing_close(t);
        if (fault) return 1;
    }
    return 0;
}

/* Jobs with random deps lost and slots exchanged: what the checker accepts, no timing may break.
 * And the other way: most of what it refuses is broken by some timing that we find. */
static void what_passes_holds_for_every_timing(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "interleaved", "zb-h1",
                           "zb-h2", "zb-v", "v-half",     "v-min",       "dualpipev"};
    uint32_t accepted = 0, refused = 0, shown = 0;
    for (int round = 0; round < 300; round++) {
        study s;
        uint32_t p = 2 + study_random(&seed) % 3, m = 1 + study_random(&seed) % 6;
        open_study(&s, names[round % 10], p, m);
        for (uint32_t lost = study_random(&seed) % 3; lost > 0; lost--) {
            pst_instr_list *list = &s.job->list[study_random(&seed) % p];
            pst_instr *in = &list->instr[study_random(&seed) % (list->n_instr - list->n_flush)];
            if (in->n_dep) in->n_dep--;
        }
        if (study_random(&seed) % 2) {
            pst_class *x = &s.slots->class_[study_random(&seed) % s.slots->n_class];
            x->slot_of_micro[study_random(&seed) % m] = (uint32_t)(study_random(&seed) % x->n_slot);
        }
        int passes = check(&s) == PST_OK,
            faulty = some_timing_finds_fault(&s, &seed, passes ? 6 : 12);
        if (passes && faulty)
            fail_msg("round %d: %s p=%u m=%u passes, but a timing breaks it", round,
                     names[round % 10], p, m);
        if (passes) accepted++;
        else {
            refused++;
            shown += (uint32_t)faulty;
        }
        study_close(&s);
    }
    printf("%u accepted; %u refused, of which a timing broke %u\n", accepted, refused, shown);
    assert_true(accepted > 50 && refused > 50 && 2 * shown > refused);
}

/* Whichever instruction loses its deps, the job is refused, unless what they said follows from the
 * rest. */
static void every_dep_counts_or_is_implied(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "interleaved", "zb-h1",
                           "zb-h2", "zb-v", "v-half",     "v-min",       "dualpipev"};
    uint32_t refused = 0, kept = 0;
    for (int k = 0; k < 10; k++) {
        study s;
        open_study(&s, names[k], 3, 6);
        for (uint32_t r = 0; r < 3; r++) {
            for (uint32_t i = 0; i < s.job->list[r].n_instr; i++) {
                pst_instr *in = &s.job->list[r].instr[i];
                uint32_t n = in->n_dep;
                for (uint32_t d = 0; d < n; d++) { /* without its d-th dep */
                    uint32_t *dep = &s.job->list[r].dep[in->dep], lost = dep[d];
                    dep[d] = dep[n - 1];
                    in->n_dep = n - 1;
                    check(&s) == PST_OK ? kept++ : refused++;
                    in->n_dep = n;
                    dep[d] = lost;
                }
            }
        }
        assert_int_equal(check(&s), PST_OK);
        study_close(&s);
    }
    printf("%u deps are needed, %u are implied\n", refused, kept);
    assert_true(refused > 100 && refused > kept);
}

static void orders_of_passes(void **state) {
    (void)state;
    study s;
    open_study(&s, "1f1b-early", 2, 3);
    pst_instr_list *list = &s.job->list[0];
    uint32_t a = study_find(&s, 0, PST_OP_W, 1, 0), b = study_find(&s, 0, PST_OP_W, 2, 0);
    list->instr[a].micro = 2;
    list->instr[b].micro = 1;
    assert_refused(&s, "runs");
    study_close(&s);
    open_study(&s, "gpipe", 2, 3);
    a = study_find(&s, 1, PST_OP_BW, 0, 0);
    b = study_find(&s, 1, PST_OP_BW, 1, 0);
    s.job->list[1].instr[a].micro = 1;
    s.job->list[1].instr[b].micro = 0;
    assert_refused(&s, "micro-batch order");
    study_close(&s);
    open_study(&s, "gpipe", 2, 3);
    s.job->list[1].instr[study_find(&s, 1, PST_OP_F, 1, 0)].micro = 2;
    assert_refused(&s, "occurs twice");
    study_close(&s);
}

static void slots_that_do_not_suffice(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "interleaved", "zb-h1",
                           "zb-h2", "zb-v", "v-half",     "v-min",       "dualpipev"};
    for (int k = 0; k < 10; k++) {
        study s;
        open_study(&s, names[k], 3, 6);
        uint32_t shared = 0;
        for (uint32_t c = 0; c < s.slots->n_class; c++) {
            pst_class *x = &s.slots->class_[c];
            if (x->n_slot < 2) continue;
            uint32_t slot[6];
            memcpy(slot, x->slot_of_micro, sizeof slot);
            for (uint32_t m = 0; m < 6; m++)
                x->slot_of_micro[m] %= x->n_slot - 1; /* one slot fewer */
            assert_refused(&s, "reuses a memory slot that is still used by");
            memcpy(x->slot_of_micro, slot, sizeof slot);
            x->slot_of_micro[1] = x->n_slot;
            assert_refused(&s, "has no slot");
            memcpy(x->slot_of_micro, slot, sizeof slot);
            shared++;
        }
        assert_true(shared > 0);
        s.slots->class_[0].bytes /= 2;
        assert_refused(&s, "the values need");
        study_close(&s);
    }
}

static void crossed_sends_in_fifo_mode(void **state) {
    (void)state;
    study s;
    open_study(&s, "gpipe", 2, 3);
    pst_instr *a = &s.job->list[1].instr[study_find(&s, 1, PST_OP_RECV, 0, 0)];
    pst_instr *b = &s.job->list[1].instr[study_find(&s, 1, PST_OP_RECV, 1, 0)];
    pst_instr swap = *a;
    *a = *b;
    *b = swap; /* taken in the other order; F of m0 then waits for the second */
    uint32_t dep = a->dep, n_dep = a->n_dep;
    a->dep = b->dep;
    a->n_dep = b->n_dep;
    b->dep = dep;
    b->n_dep = n_dep;
    assert_int_equal(pst_job_check(s.job, s.cut, NULL, PST_CHECK_FIFO), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "first-in-first-out"));
    assert_non_null(strstr(pst_error(), "rank 0 SEND c0 m0 -> rank 1"));
    study_close(&s);
}

/* Both ranks wait for each other's gradient before they compute what the other needs. */
static void a_deadlock_is_printed_as_a_cycle(void **state) {
    (void)state;
    study s;
    open_study(&s, "gpipe", 2, 2);
    pst_instr_list *list = &s.job->list[0];
    uint32_t recv = study_find(&s, 0, PST_OP_RECV, 0, 0), f = study_find(&s, 0, PST_OP_F, 1, 0);
    uint32_t bw = study_find(&s, 0, PST_OP_BW, 0, 0);
    if (recv > f) { /* RECV of the gradient first, and F of m1 behind it */
        pst_instr moved = list->instr[recv];
        memmove(&list->instr[f + 1], &list->instr[f], (recv - f) * sizeof moved);
        list->instr[f] = moved;
        for (uint32_t d = 0; d < list->n_dep; d++) {
            if (list->dep[d] == recv) list->dep[d] = f;
            else if (list->dep[d] >= f && list->dep[d] < recv) list->dep[d]++;
        }
        recv = f++;
    }
    pst_instr *late = &list->instr[f], *with_dep = &list->instr[bw];
    late->dep = with_dep->dep; /* F m1 waits for what BW m0 waits for */
    late->n_dep = with_dep->n_dep;
    pst_instr *other = &s.job->list[1].instr[study_find(&s, 1, PST_OP_BW, 0, 0)];
    pst_instr *needs = &s.job->list[1].instr[study_find(&s, 1, PST_OP_F, 1, 0)];
    /* BW m0 of rank 1 waits for the input of its F m1: as in the published order */
    other->dep = needs->dep;
    other->n_dep = needs->n_dep;
    assert_refused(&s, "deadlock: ");
    assert_non_null(strstr(pst_error(), "rank 0 F c0 m1 waits for "));
    study_close(&s);
}

static void malformed_lists(void **state) {
    (void)state;
    for (int k = 0; k < 7; k++) {
        study s;
        open_study(&s, "1f1b", 2, 2);
        pst_instr_list *list = &s.job->list[1];
        uint32_t f = study_find(&s, 1, PST_OP_F, 1, 0);
        if (k == 0) list->dep[list->instr[f].dep] = f;
        if (k == 1) list->instr[f].dep = UINT32_MAX;
        if (k == 2) list->instr[f].queue = PST_Q_SEND;
        if (k == 3) list->instr[f].opcode = PST_OP_COUNT;
        if (k == 4) list->instr[f].chunk = 0;
        if (k == 5) list->n_flush = list->n_instr + 1;
        if (k == 6) list->n_flush -= 1;
        assert_int_equal(check(&s), PST_EINPUT);
        study_close(&s);
    }
}

/* Any single field of any instruction set to something else: never a crash, and never a pass that
 * changes the meaning. */
static void random_damage_never_crashes(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    uint32_t passed = 0;
    for (int round = 0; round < 3000; round++) {
        study s;
        open_study(&s, names[round % 4], 1 + study_random(&seed) % 4, 1 + study_random(&seed) % 5);
        uint32_t r = study_random(&seed) % s.job->n_rank;
        pst_instr_list *list = &s.job->list[r];
        pst_instr *in = &list->instr[study_random(&seed) % list->n_instr];
        pst_instr before = *in;
        uint32_t value = (uint32_t)study_random(&seed);
        if (study_random(&seed) % 2) value %= 5;
        switch (study_random(&seed) % 10) {
        case 0: in->opcode = (uint8_t)value; break;
        case 1: in->queue = (uint8_t)value; break;
        case 2: in->chunk = (uint16_t)value; break;
        case 3: in->micro = value; break;
        case 4: in->peer = value; break;
        case 5: in->channel = value; break;
        case 6: in->seq = value; break;
        case 7: in->local = value; break;
        case 8: in->param = value; break;
        default: in->bytes = value; break;
        }
        int changed = memcmp(&before, in, sizeof before) != 0;
        if (check(&s) == PST_OK && changed)
            passed++; /* a field that this instruction does not use */
        study_close(&s);
    }
    printf("%u of 3000 changes were harmless\n", passed);
    assert_true(passed < 1500);
}

/* The flush of random graphs with shared parameters: every lost dep is refused, unless an earlier
 * instruction of the same queue already waited for it; so is every compute instruction that becomes
 * another. */
static void damage_to_the_flush(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t refused = 0, kept = 0;
    for (uint64_t k = 1; k <= 24; k++) {
        test_case t = {.g = random_graph(k), .recomputes = (int)(k % 2)};
        build_case(&t, 1 + (uint32_t)(k % 4), (uint32_t)(k % 3), 3, &seed);
        if (pst_job_check(t.job, t.cut, t.slots, PST_CHECK_FIFO) != PST_OK)
            fail_msg("%s", pst_error());
        for (uint32_t r = 0; r < t.n_rank; r++) {
            pst_instr_list *list = &t.job->list[r];
            for (uint32_t i = list->n_instr - list->n_flush; i < list->n_instr; i++) {
                pst_instr *in = &list->instr[i], before = *in;
                for (; in->n_dep > 0; in->n_dep--, in->dep++) {
                    /* without its first, then its second dep */
                    pst_instr now = *in;
                    in->dep++;
                    in->n_dep--;
                    pst_job_check(t.job, t.cut, t.slots, PST_CHECK_TAGGED) == PST_OK ? kept++
                                                                                     : refused++;
                    *in = now;
                }
                *in = before;
                if (in->queue != PST_Q_COMPUTE) continue;
                in->opcode = (uint8_t)(in->opcode >= PST_OP_STEP ? PST_OP_REDUCE : in->opcode + 1);
                assert_int_equal(pst_job_check(t.job, t.cut, t.slots, PST_CHECK_TAGGED),
                                 PST_EINPUT);
                *in = before;
            }
        }
        pst_graph *g = t.g;
        close_case(&t);
        pst_graph_close(g);
    }
    printf("%u deps of flushes are needed, %u are implied\n", refused, kept);
    assert_true(refused > kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_jobs_pass_in_both_modes),
        cmocka_unit_test(jobs_for_transports_without_tags),
        cmocka_unit_test(lost_messages),
        cmocka_unit_test(wrong_messages),
        cmocka_unit_test(two_micro_batches_exchanged),
        cmocka_unit_test(lost_deps),
        cmocka_unit_test(every_dep_counts_or_is_implied),
        cmocka_unit_test(what_passes_holds_for_every_timing),
        cmocka_unit_test(orders_of_passes),
        cmocka_unit_test(slots_that_do_not_suffice),
        cmocka_unit_test(crossed_sends_in_fifo_mode),
        cmocka_unit_test(a_deadlock_is_printed_as_a_cycle),
        cmocka_unit_test(malformed_lists),
        cmocka_unit_test(random_damage_never_crashes),
        cmocka_unit_test(damage_to_the_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
