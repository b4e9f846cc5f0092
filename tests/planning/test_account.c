/* test: label=quick timeout=60
 * The search's account of a stage against what it has when it is prepared, of random models and
 * layouts: never more; and as much, where nothing is shared out, of the classes that are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "partition/search/score.h"
#include "planning/planning.h"
#include "prepare/flush_time.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 12, STAGES = 8 };

#define MUST(call)                                                                                 \
    do                                                                                             \
        if ((call) != PST_OK) fail_msg("%s\n%s", pst_error(), text);                               \
    while (0)

static uint64_t state;
static char text[700];
static uint32_t n_compared, n_exact;

static uint32_t draw(uint32_t from, uint32_t to) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return from + (uint32_t)(state >> 33) % (to - from + 1);
}

/* Buffers need no padding: 32 channels of 2 bytes, 16 losses of 4. */
static void write_case(void) {
    static const char *const kind[] = {"gpt, heads: 4", "mlp"}, *const precision[] = {"fp32",
                                                                                      "bf16"};
    static const char *const device[] = {"cpu", "h100"};
    snprintf(text, sizeof text,
             "model: {kind: %s, layers: %u, channels: 32, context: 16, vocabulary: %u}\n"
             "data: {kind: text, paths: [x]}\ntrain: {batch: %u, precision: %s}\n"
             "parallel: {tensor: %u, cluster: \"1x%u %s\"}\n",
             kind[draw(0, 1)], draw(6, 11), 64 * draw(4, 40), 8 * draw(1, 2), precision[draw(0, 1)],
             draw(1, 2), 2 * draw(1, 2), device[draw(0, 1)]);
}

static pst_search_config config_of(const pst_planning *x, const pst_candidate *l) {
    pst_search_config c = {.pipeline = l->layout.pipeline,
                           .tensor = l->layout.tensor,
                           .data = l->layout.data,
                           .micro_batch = l->layout.micro_batch,
                           .chunks = l->layout.chunks,
                           .zero = l->layout.zero,
                           .sequence = l->layout.sequence,
                           .before = l->layout.tensor_before,
                           .n_micro = l->layout.n_micro};
    while (strcmp(x->problem.schedule[c.schedule], l->layout.schedule) != 0) c.schedule++;
    return c;
}

/* Of the slowest rank of the stage. */
static uint64_t longest(const pst_prepared *p, uint32_t stage, uint8_t opcode) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->job->n_rank; r++)
        for (uint32_t i = 0; pst_job_stage(p->job, r) == stage && i < p->job->list[r].n_instr; i++)
            if (p->job->list[r].instr[i].opcode == opcode && p->job->list[r].instr[i].ns > most)
                most = p->job->list[r].instr[i].ns;
    return most;
}

static void at_most(const char *what, uint64_t bound, uint64_t is) {
    if (bound > is) fail_msg("%s: %lu, but there are %lu\n%s", what, bound, is, text);
}

enum { CLASSES = 7 };
static const char *const class_name[CLASSES] = {
    "elements normed",   "elements stepped",    "bytes of weights",
    "bytes of states",   "bytes that are kept", "bytes in flight and at work",
    "bytes of gradients"};

static void classes_of(const pst_account *a, uint64_t of[CLASSES]) {
    of[0] = a->normed;
    of[1] = a->stepped;
    of[2] = a->weights;
    of[3] = a->states;
    of[4] = a->kept;
    of[5] = a->held + a->work;
    of[6] = a->gradients;
}

/* Of each class the largest of the stage's ranks: replicas share out parameters unevenly. Gradients
 * of zero 2 are an estimate: chunks share slots. */
static void compare_stage(const pst_prepared *p, const pst_account *bound, uint32_t stage) {
    uint64_t least[CLASSES], most[CLASSES] = {0}, bytes = 0;
    classes_of(bound, least);
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        uint64_t of[CLASSES];
        if (pst_job_stage(p->job, r) != stage || !p->memory[r]) continue;
        const pst_account is = pst_prepare_account(p, r);
        classes_of(&is, of);
        for (int k = 0; k < CLASSES; k++) most[k] = of[k] > most[k] ? of[k] : most[k];
        bytes = p->memory[r]->total > bytes ? p->memory[r]->total : bytes;
        n_compared++;
    }
    for (int k = 0; k < (p->job->zero == 2 ? CLASSES - 1 : CLASSES); k++)
        at_most(class_name[k], least[k], most[k]);
    if (p->grid.data == 1)
        at_most("bytes but for messages", pst_account_bytes(bound) - bound->messages, bytes);
}

static void compare_exact(const pst_prepared *p, const pst_account *bound, uint32_t rank) {
    const pst_account is = pst_prepare_account(p, rank);
    assert_int_equal(bound->normed, is.normed);
    assert_int_equal(bound->stepped, is.stepped);
    assert_int_equal(bound->weights, is.weights);
    assert_int_equal(bound->states, is.states);
    assert_int_equal(bound->gradients, is.gradients);
    assert_int_equal(bound->kept, is.kept);
    n_exact++;
}

static void compare_layout(pst_planning *x, const pst_candidate *l) {
    pst_search_context s;
    pst_account bound[STAGES];
    pst_search_flush flush[STAGES];
    pst_prepared *p;
    uint64_t answer;
    const pst_search_config c = config_of(x, l);
    MUST(pst_search_context_open(&x->problem, &s));
    MUST(pst_search_account_of(&s, &c, l, bound));
    MUST(pst_search_flush_of(&s, &c, l->layout.device, flush, &answer));
    MUST(pst_planning_prepare(x, l, &p));
    for (uint32_t r = 0; r < p->job->n_rank && l->layout.data == 1 && l->layout.tensor == 1; r++)
        compare_exact(p, &bound[pst_job_stage(p->job, r)], r);
    for (uint32_t k = 0; k < l->layout.pipeline; k++) {
        compare_stage(p, &bound[k], k);
        const uint64_t all = bound[k].normed * l->layout.data; /* one rounded to the next ns */
        at_most("ns of NORM", pst_account_flush_ns(flush[k].norm_ns, 0, all),
                longest(p, k, PST_OP_NORM) + 1);
        at_most("ns of STEP", pst_account_flush_ns(flush[k].step_ns, 0, all),
                longest(p, k, PST_OP_STEP) + 1);
    }
    pst_prepared_close(p);
    pst_search_context_close(&s);
}

static void accounts_are_bounds(void **unused) {
    (void)unused;
    const char *seed = getenv("PST_SEED");
    state = seed ? strtoull(seed, NULL, 10) : 1;
    print_message("seed %lu\n", state);
    for (uint32_t i = 0; i < CASES; i++) {
        pst_config *c;
        write_case();
        MUST(pst_config_parse(text, "test", NULL, 0, &c));
        const pst_plan_run_options options = {
            .cluster = "", .profile = "", .plan = "", .report = ""};
        pst_planning x = {.config = c, .options = &options, .open = ""};
        MUST(pst_planning_search(&x));
        for (uint32_t k = 0; k < x.result->n_row; k++) {
            const pst_search_row *row = &x.result->row[k];
            if (row->fits && !row->best->solved) compare_layout(&x, row->best);
        }
        pst_planning_close(&x);
        pst_config_close(c);
    }
    print_message("%u ranks, %u of them of one replica\n", n_compared, n_exact);
    assert_true(n_compared > CASES && n_exact > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accounts_are_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
