/* Instructions: every job that is built passes the checker; slots are as few as the schedule
 * promises; the flush joins shared parameters in the order that every layout has. */
#include "models/model.h"
#include "pipeline/case.h"
#include "pipeline/simulate/simulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void check_deps(const pst_job *job) {
    for (uint32_t r = 0; r < job->n_rank; r++) {
        const pst_instr_list *list = job->list + r;
        for (uint32_t i = 0; i < list->n_instr; i++)
            for (uint32_t d = 0; d < list->instr[i].n_dep; d++) {
                uint32_t on = list->dep[list->instr[i].dep + d];
                assert_true(on < i);
                if (list->instr[i].queue == PST_Q_COMPUTE)
                    assert_int_not_equal(list->instr[on].queue, PST_Q_COMPUTE);
            }
    }
}

static void random_jobs_pass(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        test_case t = random_case(g, &state);
        pst_timing *timing;
        check_deps(t.job);
        MUST(pst_job_check(t.job, t.cut, t.slots, PST_CHECK_TAGGED));
        MUST(pst_job_check(t.job, t.cut, t.slots, PST_CHECK_FIFO)); /* both ends number channels in
                                                                       the same order */
        MUST(pst_job_check(t.eval, t.eval_cut, t.eval_slots, PST_CHECK_TAGGED));
        MUST(pst_simulate(t.job, &timing));
        pst_timing_close(timing);
        close_case(&t);
        pst_graph_close(g);
    }
}

/* Channels of values and of the flush have to lie below those of collectives. */
static void channels_are_counted(void **unused) {
    (void)unused;
    for (uint32_t over = 0; over < 2; over++) {
        pst_schedule *s;
        pst_cut *cut;
        pst_job *job = NULL;
        pst_slots *slots = NULL;
        pst_instr_cost cost = {.flush = 1};
        MUST(pst_schedule_generate("1f1b", 2, 0, 2, &s));
        MUST(pst_cut_synthetic(2, s->split, 1, (pst_pass_ns){10, 10, 10}, 64, &cut));
        cut->n_channel = 0xff00 - 4 + over; /* four more: of replicas, and of the norm */
        assert_int_equal(pst_job_build(s, cut, &cost, &job, &slots), over ? PST_EINPUT : PST_OK);
        if (over) assert_non_null(strstr(pst_error(), "65281 message channels"));
        for (uint32_t i = 0; job && i < job->list[1].n_instr; i++)
            assert_true(job->list[1].instr[i].channel < 0xff00);
        pst_slots_close(slots);
        pst_job_close(job);
        pst_cut_close(cut);
        pst_schedule_close(s);
    }
}

/* Stashes of 1F1B: rank r holds n_rank - r micro-batches, and one more arrives meanwhile; GPipe
 * holds all of them. */
static void slots_are_few(void **unused) {
    (void)unused;
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t early = 0; early < 2; early++) {
            const char *name = early ? "1f1b-early" : "1f1b";
            pst_schedule *s;
            pst_cut *cut;
            pst_job *job;
            pst_slots *slots;
            pst_instr_cost cost = {0};
            MUST(pst_schedule_generate(name, p, 0, 32, &s));
            MUST(pst_cut_synthetic(p, s->split, 1, (pst_pass_ns){10, 10, 10}, 64, &cut));
            MUST(pst_job_build(s, cut, &cost, &job, &slots));
            for (uint32_t k = 0; k < slots->n_class; k++) {
                const pst_class *class_ = slots->class_ + k;
                if (class_->birth == PST_EV_RECV_F)
                    assert_in_range(class_->n_slot, p - class_->chunk, p - class_->chunk + 1);
                else assert_in_range(class_->n_slot, 1, 3);
            }
            pst_job_close(job);
            pst_slots_close(slots);
            pst_cut_close(cut);
            pst_schedule_close(s);
        }
}

static uint32_t count(const pst_instr_list *list, uint8_t opcode) {
    uint32_t n = 0;
    for (uint32_t i = list->n_instr - list->n_flush; i < list->n_instr; i++)
        n += list->instr[i].opcode == opcode;
    return n;
}

/* wte is used by the embedding on rank 0 and by the head on the last rank. */
static void tied_embedding_is_joined(void **unused) {
    (void)unused;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 1, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    for (uint32_t p = 1; p <= 4; p++) {
        test_case t = {.g = g};
        uint64_t state = p;
        build_case(&t, p, 1, 4, &state);
        for (uint32_t r = 0; r < p; r++) {
            const pst_instr_list *list = t.job->list + r;
            uint32_t ends = r == 0 || r == p - 1;
            assert_int_equal(count(list, PST_OP_REDUCE), r == 0);
            assert_int_equal(count(list, PST_OP_NORM), 1);
            assert_int_equal(count(list, PST_OP_GATHER), r == 0);
            assert_int_equal(count(list, PST_OP_STEP), 1);
            assert_int_equal(count(list, PST_OP_SEND), r == 0 ? p - 1 + (p > 1) : 1u + ends);
            assert_int_equal(list->instr[list->n_instr - 1].opcode == PST_OP_STEP, 1);
        }
        assert_int_equal(t.layout[0]->shared_grad != UINT64_MAX, p > 1);
        MUST(pst_job_check(t.job, t.cut, t.slots, PST_CHECK_TAGGED));
        close_case(&t);
    }
    pst_graph_close(g);
}

/* With equal stages, free transfers and no flush the published makespans come out. */
static void makespans_are_the_published(void **unused) {
    (void)unused;
    const uint64_t F = 10, B = 20, W = 7;
    for (uint32_t p = 1; p <= 16; p++)
        for (uint32_t m = 1; m <= 40; m += m < 20 ? 1 : 10)
            for (uint32_t i = 0; i < 3; i++) {
                static const char *const names[] = {"gpipe", "1f1b", "1f1b-early"};
                const char *name = names[i];
                pst_schedule *s;
                pst_cut *cut;
                pst_job *job;
                pst_slots *slots;
                pst_timing *timing;
                pst_instr_cost cost = {0};
                MUST(pst_schedule_generate(name, p, 0, m, &s));
                MUST(pst_cut_synthetic(p, s->split, 1, (pst_pass_ns){F, B, W}, 64, &cut));
                MUST(pst_job_build(s, cut, &cost, &job, &slots));
                MUST(pst_simulate(job, &timing));
                uint64_t want =
                    i < 2 ? (m + p - 1) * (F + B + W) : m * (F + B + W) + (p - 1) * (F + B);
                if (timing->step_ns != want)
                    printf("%s p %u m %u: %lu, not %lu\n", name, p, m,
                           (unsigned long)timing->step_ns, (unsigned long)want);
                assert_int_equal(timing->step_ns, want);
                pst_timing_close(timing);
                pst_job_close(job);
                pst_slots_close(slots);
                pst_cut_close(cut);

                pst_schedule_close(s);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_pass),
        cmocka_unit_test(channels_are_counted),
        cmocka_unit_test(slots_are_few),
        cmocka_unit_test(tied_embedding_is_joined),
        cmocka_unit_test(makespans_are_the_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
