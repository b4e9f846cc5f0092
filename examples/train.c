/* A model that is built, planned over two ranks, trained, saved and read back through libpenstock alone.
 *
 *     cc -O2 train.c -o train $(pkg-config --cflags --libs penstock) && ./train runs/example
 */
#include <penstock/train.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, MICRO = 4, TIME = 16, VOCABULARY = 256, CHANNELS = 128, STEPS = 100 };
static const char *const settings[] = {"batch=32", "micro_batch=4", "steps=100", "lr=2e-3", "schedule=1f1b-early"};
static int32_t tokens[BATCH * TIME], targets[BATCH * TIME];
static const int32_t *const batch[] = {tokens, targets};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        pst_status try_status = (call);                                                                                \
        if (try_status != PST_OK) return try_status;                                                                   \
    } while (0)

/* x becomes activation(x weight^T + bias), with parameters NAME.weight [n,k] and NAME.bias [n]. */
static pst_status linear(pst_graph *g, const char *name, uint64_t n, uint64_t k, pst_activation activation,
                         uint32_t *x) {
    char weight[64], bias[64];
    uint32_t w, b;
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    TRY(pst_graph_add_param(g, weight, 2, (uint64_t[]){n, k}, PST_INIT_NORMAL, 0.1f, 1, &w));
    TRY(pst_graph_add_param(g, bias, 1, &n, PST_INIT_ZERO, 0, 0, &b));
    return pst_graph_add_linear(g, name, *x, w, b, activation, x);
}

static pst_status build(pst_graph *g) {
    uint32_t in, next, table, x;
    TRY(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){MICRO, TIME}, &in));
    TRY(pst_graph_add_data(g, "targets", 2, (uint64_t[]){MICRO, TIME}, &next));
    TRY(pst_graph_add_param(g, "table", 2, (uint64_t[]){VOCABULARY, CHANNELS}, PST_INIT_NORMAL, 1, 1, &table));
    TRY(pst_graph_add_embedding(g, "embedding", in, table, PST_NONE, &x));
    TRY(linear(g, "hidden.0", CHANNELS, CHANNELS, PST_ACT_RELU, &x));
    TRY(linear(g, "hidden.1", CHANNELS, CHANNELS, PST_ACT_RELU, &x));
    TRY(linear(g, "output", VOCABULARY, CHANNELS, PST_ACT_NONE, &x));
    return pst_graph_add_cross_entropy(g, "loss", x, next, &x);
}

static pst_status train(const pst_config *config, const pst_graph *graph, const pst_plan *plan, const char *folder) {
    pst_session *session;
    pst_step_result r;
    double loss;
    TRY(pst_session_open(config, graph, plan, &session));
    pst_step_result_init(&r);
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < BATCH * TIME; i++) { /* a fixed permutation of the vocabulary is what there is to learn */
            tokens[i] = rand() % VOCABULARY;
            targets[i] = (tokens[i] * 5 + 7) % VOCABULARY;
        }
        TRY(pst_session_step(session, batch, 2, &r));
        if (step == 1 || step % 20 == 0)
            printf("step %d  loss %.4f  %.2f ms (predicted %.2f)\n", step, r.loss, r.step_s * 1e3,
                   r.predicted_step_s * 1e3);
    }
    TRY(pst_session_save(session, folder));
    TRY(pst_session_load(session, folder)); /* as another program would, on any number of ranks */
    TRY(pst_session_evaluate(session, batch, 2, &loss));
    printf("read back: step %d  loss %.4f\n", (int)pst_session_steps(session), loss);
    pst_session_close(session);
    return PST_OK;
}

int main(int argc, char **argv) {
    pst_config *config = NULL;
    pst_graph *graph = NULL;
    pst_plan *plan = NULL;
    pst_status status = pst_config_open("example", settings, sizeof settings / sizeof *settings, &config);
    if (status == PST_OK) status = pst_graph_open("example", MICRO, &graph);
    if (status == PST_OK) status = build(graph);
    if (status == PST_OK) status = pst_plan_solve(config, graph, 2, &plan);
    if (status == PST_OK) status = pst_plan_print(plan, graph, stdout);
    if (status == PST_OK) status = train(config, graph, plan, argc > 1 ? argv[1] : "runs/example");
    if (status != PST_OK) fprintf(stderr, "train: %s\n", pst_error());
    pst_plan_close(plan), pst_graph_close(graph), pst_config_close(config);
    return pst_status_exit(status);
}
