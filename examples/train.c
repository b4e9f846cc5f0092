/* Builds, plans over two ranks, trains, saves and reads back a model with libpenstock alone.
 *
 *     cc -O2 train.c -o train $(pkg-config --cflags --libs penstock) && ./train runs/example */
#include <penstock/train.h>
#include <stdio.h>
#include <stdlib.h>
#define TRY(call)                                                                                  \
    if ((status = (call)) != PST_OK) return status /* pst_error() has the reason */

enum { BATCH = 32, MICRO = 4, TIME = 16, VOCABULARY = 256, CHANNELS = 128, STEPS = 100 };
static const char *const settings[] = {"batch=32", "micro_batch=4", "steps=100", "lr=2e-3",
                                       "schedule=1f1b-early"};

static pst_status build(pst_graph *g) {
    const uint64_t shape[] = {MICRO, TIME}, rows[] = {VOCABULARY, CHANNELS};
    uint32_t tokens, targets, table, x;
    pst_status status;
    TRY(pst_graph_add_data(g, "tokens", 2, shape, &tokens));
    TRY(pst_graph_add_data(g, "targets", 2, shape, &targets));
    TRY(pst_graph_add_param(g, "table", 2, rows, PST_INIT_NORMAL, 1, 1, &table));
    TRY(pst_graph_add_embedding(g, "embedding", tokens, table, PST_NONE, &x));
    TRY(pst_graph_add_dense(g, "hidden.0", x, CHANNELS, 0.1f, PST_ACT_RELU, &x));
    TRY(pst_graph_add_dense(g, "hidden.1", x, CHANNELS, 0.1f, PST_ACT_RELU, &x));
    TRY(pst_graph_add_dense(g, "output", x, VOCABULARY, 0.1f, PST_ACT_NONE, &x));
    return pst_graph_add_cross_entropy(g, "loss", x, targets, &x);
}

static pst_status train(pst_session *session, const char *folder) {
    static int32_t tokens[BATCH * TIME], targets[BATCH * TIME];
    const int32_t *const batch[] = {tokens, targets};
    pst_step_result r;
    pst_status status;
    pst_step_result_init(&r);
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < BATCH * TIME; i++) /* the model learns a fixed permutation of the
                                                  vocabulary */
        {
            tokens[i] = rand() % VOCABULARY;
            targets[i] = (tokens[i] * 5 + 7) % VOCABULARY;
        }
        TRY(pst_session_step(session, batch, 2, &r));
        if (step == 1 || step % 20 == 0)
            printf("step %d  loss %.4f  %.2f ms\n", step, r.loss, r.step_s * 1e3);
    }
    TRY(pst_session_save(session, folder));
    TRY(pst_session_load(session, folder)); /* any number of ranks may load it */
    printf("read back: step %d\n", (int)pst_session_steps(session));
    return PST_OK;
}

int main(int argc, char **argv) {
    pst_config *config = NULL;
    pst_graph *graph = NULL;
    pst_plan *plan = NULL;
    pst_session *session = NULL;
    pst_status status =
        pst_config_open("example", settings, sizeof settings / sizeof *settings, &config);
    if (status == PST_OK) status = pst_graph_open("example", MICRO, &graph);
    if (status == PST_OK) status = build(graph);
    if (status == PST_OK) status = pst_plan_solve(config, graph, 2, &plan);
    if (status == PST_OK) status = pst_plan_print(plan, graph, stdout);
    if (status == PST_OK) status = pst_session_open(config, graph, plan, &session);
    if (status == PST_OK) status = train(session, argc > 1 ? argv[1] : "runs/example");
    if (status != PST_OK) fprintf(stderr, "train: %s\n", pst_error());
    pst_session_close(session);
    pst_plan_close(plan);
    pst_graph_close(graph);
    pst_config_close(config);
    return pst_status_exit(status);
}
