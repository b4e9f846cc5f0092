/* A GPT that keeps the documents of a sample apart: one step on packed documents gives the loss and
 * the weights of a step on the same documents in samples of their own. */
#include "base/rng.h"
#include "models/model.h"
#include "penstock/train.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TIME = 150, VOCABULARY = 29, DOCUMENTS = 4, CHANNELS = 24 };
static const uint32_t lengths[DOCUMENTS] = {5, 70, 1, 74}; /* TIME together */

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s: %s", #call, pst_error());                              \
    } while (0)

static pst_graph *graph_of(int isolate) {
    const pst_model_config config = {.kind = "gpt",
                                     .layers = 2,
                                     .heads = 3,
                                     .channels = CHANNELS,
                                     .context = TIME,
                                     .vocabulary = VOCABULARY,
                                     .micro_batch = 1,
                                     .activation = PST_ACT_GELU_TANH,
                                     .isolate = isolate};
    pst_graph *g;
    MUST(pst_model_gpt.build(&config, &g));
    return g;
}

typedef struct {
    double loss;      /* sum over all targets */
    float *weight[4]; /* after the step */
} outcome;
static const struct {
    const char *name;
    size_t n;
} params[4] = {{"wte.weight", VOCABULARY *CHANNELS},
               {"wpe.weight", TIME *CHANNELS},
               {"h.0.attn.c_attn.weight", 3 * CHANNELS *CHANNELS},
               {"h.1.mlp.c_fc.weight", 4 * CHANNELS *CHANNELS}};

/* One step of SGD on `samples` samples: the learning rate makes up for the number of positions by
 * which the loss is divided. */
static outcome step(pst_graph *g, uint32_t samples, const int32_t *const *data, uint32_t n_data) {
    char batch[32], rate[32];
    const char *settings[] = {batch,        "micro_batch=1",   "steps=1",    "warmup=0",
                              "decay=none", "optimizer=sgd",   "momentum=0", "weight_decay=0",
                              "clip=0",     "log.level=error", "threads=2",  rate};
    pst_config *c;
    pst_plan *plan;
    pst_session *s;
    pst_step_result r;
    outcome out;
    snprintf(batch, sizeof batch, "batch=%u", samples);
    snprintf(rate, sizeof rate, "lr=%u", 2 * samples);
    MUST(pst_config_open("test", settings, sizeof settings / sizeof *settings, &c));
    MUST(pst_plan_solve(c, g, 1, &plan));
    MUST(pst_session_open(c, g, plan, &s));
    pst_step_result_init(&r);
    MUST(pst_session_step(s, data, n_data, &r));
    out.loss = r.loss * samples * TIME;
    for (int i = 0; i < 4; i++) {
        out.weight[i] = malloc(params[i].n * sizeof(float));
        MUST(pst_session_read(s, params[i].name, out.weight[i], params[i].n));
    }
    pst_session_close(s);
    pst_plan_close(plan);
    pst_graph_close(g);
    pst_config_close(c);
    return out;
}

/* The largest difference of weights. */
static double distance(const outcome *a, const outcome *b) {
    double most = 0;
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < params[i].n; k++)
            most = fmax(most, fabs((double)a->weight[i][k] - b->weight[i][k]));
    return most;
}

static void outcome_free(outcome *o) {
    for (int i = 0; i < 4; i++) free(o->weight[i]);
}

static void packed_as_alone(void **state) {
    static int32_t tokens[TIME], targets[TIME], starts[TIME], own_tokens[DOCUMENTS][TIME],
        own_targets[DOCUMENTS][TIME];
    (void)state;
    for (uint32_t d = 0, t = 0; d < DOCUMENTS; d++) {
        const uint32_t first = t;
        for (uint32_t i = 0; i < TIME; i++) own_targets[d][i] = -1;
        for (uint32_t i = 0; i < lengths[d]; i++, t++) {
            uint32_t word[4];
            pst_rng_words(5, d, i, word);
            tokens[t] = own_tokens[d][i] = (int32_t)(word[0] % VOCABULARY);
            targets[t] = own_targets[d][i] =
                i + 1 < lengths[d] ? (int32_t)(word[1] % VOCABULARY) : -1;
            starts[t] = (int32_t)first;
        }
    }
    const int32_t *const together[] = {tokens, targets, starts}, *const apart[] = {own_tokens[0],
                                                                                   own_targets[0]};
    outcome packed = step(graph_of(1), 1, together, 3),
            alone = step(graph_of(0), DOCUMENTS, apart, 2),
            mixed = step(graph_of(0), 1, together, 2);
    printf("loss %.9g packed, %.9g alone, %.9g mixed; weights differ by %.3g, mixed by %.3g\n",
           packed.loss, alone.loss, mixed.loss, distance(&packed, &alone),
           distance(&mixed, &alone));
    assert_true(fabs(packed.loss - alone.loss) < 1e-6 * alone.loss);
    assert_true(distance(&packed, &alone) < 1e-6);
    assert_true(distance(&mixed, &alone) > 1e-4); /* what isolation prevents */
    outcome_free(&packed);
    outcome_free(&alone);
    outcome_free(&mixed);
}

static void refused(void **state) {
    pst_graph *g;
    uint32_t tokens, starts, wrong, table, x, y;
    const uint64_t dim[] = {2, 6}, other[] = {2, 5}, shape[] = {9, 12};
    (void)state;
    MUST(pst_graph_open("refused", 2, &g));
    MUST(pst_graph_data(g, "tokens", 2, dim, &tokens));
    MUST(pst_graph_data(g, "starts", 2, dim, &starts));
    MUST(pst_graph_data(g, "wrong", 2, other, &wrong));
    MUST(pst_graph_add_param(g, "table", 2, shape, PST_INIT_NORMAL, 1, 0, &table));
    pst_attr attr = {.heads = 2}, both = {.heads = 2, .bidirectional = 1};
    uint32_t in[] = {tokens, wrong};
    assert_int_equal(
        pst_graph_add(g, &(pst_new_node){"embedding", "e", NULL, in, 2, &table, 1}, &x),
        PST_EINPUT);
    assert_non_null(strstr(pst_error(), "one start per token"));
    MUST(pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, in, 1, &table, 1}, &x));
    uint32_t of[] = {x, wrong};
    assert_int_equal(pst_graph_add(g, &(pst_new_node){"attention", "a", &attr, of, 2, NULL, 0}, &y),
                     PST_EINPUT);
    assert_non_null(strstr(pst_error(), "one start per position"));
    of[1] = starts;
    assert_int_equal(pst_graph_add(g, &(pst_new_node){"attention", "b", &both, of, 2, NULL, 0}, &y),
                     PST_EINPUT);
    assert_non_null(strstr(pst_error(), "cannot have starts"));
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed_as_alone),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
