/* What storing the residual stream in bf16 costs a GPT in depth: the same steps in fp32, in bf16,
 * and in bf16 with a stream (and its gradient) of fp32, from the same weights and batches.
 *
 *     residual [--layers N] [--channels N] [--context N] [--batch N] [--steps N] [--seeds N]
 * FILE...
 *
 * Prints, per seed, how far the first gradient is from that of fp32 (relative, all parameters), and
 * by how much the mean loss of the last tenth of the steps differs. What mixes types is computed by
 * kernels/ref, which widens and rounds each operand by itself; the rest by the processor's own
 * kernels. Not built by default: ninja bench_residual. */
#include "backends/registry.h"
#include "base/rng.h"
#include "graph/op.h"
#include "models/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { FP32, BF16, MIXED, FORMS } form;
static const char *const form_name[FORMS] = {"fp32", "bf16", "bf16, stream in fp32"};

typedef struct {
    uint32_t layers, channels, context, batch, steps, seeds;
} sizes;

typedef struct {
    pst_graph *g;
    void **tensor, **grad, *(*saved)[PST_MAX_SAVED];
    uint8_t *has_grad, *has_dparam;
    void **param; /* as operators read them */
    float **master, **dparam, **state[2];
    void *scratch;
    uint64_t room, seed;
    pst_device device;
} machine;

static void must(pst_status status) {
    if (status == PST_OK) return;
    fprintf(stderr, "%s\n", pst_error());
    exit(1);
}

static void *take(uint64_t bytes) {
    void *at = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!at) exit(1);
    return memset(at, 0, (bytes + 127) / 64 * 64);
}

/* --- the graph -------------------------------------------------------------------------------- */

/* The stream: the embedding, and every sum that a block adds to. */
static void widen_stream(pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        const char *op = g->node[i].op->name;
        if (strcmp(op, "embedding") && strcmp(op, "add")) continue;
        g->tensor[g->node[i].out[0]].dtype = PST_F32;
    }
}

static void open_tensors(machine *m) {
    const pst_graph *g = m->g;
    m->tensor = calloc(g->n_tensor, sizeof *m->tensor);
    m->grad = calloc(g->n_tensor, sizeof *m->grad);
    m->has_grad = calloc(g->n_tensor, 1);
    m->saved = calloc(g->n_node, sizeof *m->saved);
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        m->tensor[t] = take(pst_tensor_bytes(g->tensor + t));
        m->grad[t] = take(pst_tensor_bytes(g->tensor + t));
    }
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_saved; k++)
            m->saved[i][k] =
                take(g->node[i].saved[k].elements * pst_dtype_bytes(g->node[i].saved[k].dtype));
}

static void narrow(const machine *m, uint32_t p) {
    uint64_t n = pst_param_elements(m->g->param + p);
    if (m->g->dtype == PST_F32) memcpy(m->param[p], m->master[p], n * sizeof(float));
    for (uint64_t i = 0; m->g->dtype != PST_F32 && i < n; i++)
        ((uint16_t *)m->param[p])[i] = pst_bf16_from_f32(m->master[p][i]);
}

static void open_params(machine *m) {
    const pst_graph *g = m->g;
    float ***lists[] = {&m->master, &m->dparam, &m->state[0], &m->state[1]};
    for (size_t k = 0; k < 4; k++) *lists[k] = calloc(g->n_param, sizeof(float *));
    m->param = calloc(g->n_param, sizeof *m->param);
    m->has_dparam = calloc(g->n_param, 1);
    for (uint32_t p = 0; p < g->n_param; p++) {
        uint64_t n = pst_param_elements(g->param + p);
        for (size_t k = 0; k < 4; k++) (*lists[k])[p] = take(n * sizeof(float));
        m->param[p] = take(n * sizeof(float));
        for (uint64_t i = 0; g->param[p].init == PST_INIT_ONE && i < n; i++) m->master[p][i] = 1;
        if (g->param[p].init == PST_INIT_NORMAL)
            pst_rng_normal_from(pst_rng_key(m->seed, g->param[p].name), 0, g->param[p].std, 0,
                                m->master[p], n);
        narrow(m, p);
    }
}

static void machine_open(machine *m, const sizes *s, form f, uint64_t seed) {
    pst_model_config c = {.layers = s->layers,
                          .heads = s->channels / 32,
                          .channels = s->channels,
                          .context = s->context,
                          .vocabulary = 256,
                          .micro_batch = s->batch,
                          .activation = PST_ACT_GELU_TANH,
                          .dtype = f == FP32 ? PST_F32 : PST_BF16};
    *m = (machine){.seed = seed, .device = {.isa = pst_cpu_isa(), .threads = 1}};
    must(pst_model_gpt.build(&c, &m->g));
    if (f == MIXED) widen_stream(m->g);
    open_tensors(m);
    open_params(m);
}

static void machine_close(machine *m) {
    for (uint32_t t = 0; t < m->g->n_tensor; t++) {
        free(m->tensor[t]);
        free(m->grad[t]);
    }
    for (uint32_t i = 0; i < m->g->n_node; i++)
        for (uint32_t k = 0; k < m->g->node[i].n_saved; k++) free(m->saved[i][k]);
    for (uint32_t p = 0; p < m->g->n_param; p++) {
        free(m->param[p]);
        free(m->master[p]);
        free(m->dparam[p]);
        free(m->state[0][p]);
        free(m->state[1][p]);
    }
    void *lists[] = {m->tensor, m->grad,   m->has_grad, m->has_dparam, m->saved,  m->param,
                     m->master, m->dparam, m->state[0], m->state[1],   m->scratch};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]);
    pst_graph_close(m->g);
}

/* --- passes ----------------------------------------------------------------------------------- */

static int is_mixed(const pst_graph *g, const pst_node *node) {
    int mixed = 0;
    for (uint32_t i = 0; i < node->n_in; i++)
        mixed |=
            g->tensor[node->in[i]].dtype != PST_I32 && g->tensor[node->in[i]].dtype != g->dtype;
    return mixed || (g->tensor[node->out[0]].dtype != g->dtype &&
                     g->tensor[node->out[0]].role != PST_TENSOR_OUTPUT);
}

static const pst_kernel_row *choose(const machine *m, const pst_node *node, pst_pass pass) {
    uint32_t index, n;
    if (!is_mixed(m->g, node)) {
        must(pst_registry_choose_kernel(m->g, node, 0, pass, &m->device, &index));
        return pst_registry_kernel(index);
    }
    for (const pst_kernel_row *row = pst_kernels_ref(&n); n--; row++)
        if (!strcmp(row->op, node->op->name) && row->pass == pass && row->dtypes >> m->g->dtype & 1)
            return row;
    exit(1);
}

static void *operand(machine *m, uint32_t node, const pst_arg *arg) {
    const pst_node *d = m->g->node + node;
    switch ((pst_arg_kind)arg->kind) {
    case PST_ARG_IN: return m->tensor[d->in[arg->index]];
    case PST_ARG_OUT: return m->tensor[d->out[arg->index]];
    case PST_ARG_PARAM: return m->param[d->param[arg->index]];
    case PST_ARG_SAVED: return m->saved[node][arg->index];
    case PST_ARG_DOUT: return m->grad[d->out[arg->index]];
    case PST_ARG_DIN: return m->grad[d->in[arg->index]];
    case PST_ARG_SUM: return m->has_grad[d->in[arg->index]] ? m->grad[d->in[arg->index]] : NULL;
    default: return m->dparam[d->param[arg->index]];
    }
}

static void launch(machine *m, uint32_t node, pst_pass pass) {
    const pst_node *d = m->g->node + node;
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = d->op->args(d, pass, args);
    if (!n) return;
    const pst_kernel_row *row = choose(m, d, pass);
    uint64_t bytes = row->scratch ? row->scratch(m->g, d, 1) : 0;
    if (bytes > m->room) {
        free(m->scratch);
        m->scratch = take(m->room = bytes);
    }
    for (uint32_t i = 0; i < n; i++)
        arg[i] = args[i].must ? arg[args[i].share] : operand(m, node, args + i);
    int first = pass != PST_PASS_W || !m->has_dparam[d->param[0]];
    const pst_call call = {.graph = m->g,
                           .node = d,
                           .arg = arg,
                           .scratch = m->scratch,
                           .first = first,
                           .train = 1,
                           .loss_scale = 1.0f / (float)pst_tensor_elements(m->g->tensor)};
    must(row->launch(&m->device, &call));
    for (uint32_t i = 0; pass == PST_PASS_W && i < d->n_param; i++) m->has_dparam[d->param[i]] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].kind != PST_ARG_DIN) continue;
        m->has_grad[d->in[args[i].index]] = 1;
        if (args[i].must)
            memcpy(m->grad[d->in[0]], arg[i], pst_tensor_bytes(m->g->tensor + d->in[0]));
    }
}

static float number(const pst_graph *g, uint32_t tensor, const void *x, uint64_t i) {
    return g->tensor[tensor].dtype == PST_F32 ? ((const float *)x)[i]
                                              : pst_f32_from_bf16(((const uint16_t *)x)[i]);
}

/* A sum hands its gradient on, rounded where the other's type is bf16. */
static void pass_on(machine *m, const pst_node *d) {
    const pst_graph *g = m->g;
    for (uint32_t k = 0; k < d->n_in; k++) {
        uint32_t to = d->in[k];
        for (uint64_t i = 0; i < pst_tensor_elements(g->tensor + to); i++) {
            float x = number(g, d->out[0], m->grad[d->out[0]], i);
            if (m->has_grad[to]) x += number(g, to, m->grad[to], i);
            if (g->tensor[to].dtype == PST_F32) ((float *)m->grad[to])[i] = x;
            else ((uint16_t *)m->grad[to])[i] = pst_bf16_from_f32(x);
        }
        m->has_grad[to] = 1;
    }
}

/* Mean loss of a batch, which lies in the first two tensors; gradients in dparam. */
static double differentiate(machine *m) {
    const pst_graph *g = m->g;
    memset(m->has_grad, 0, g->n_tensor);
    memset(m->has_dparam, 0, g->n_param);
    for (uint32_t i = 0; i < g->n_node; i++) launch(m, i, PST_PASS_F);
    const float *loss = m->tensor[g->n_tensor - 1];
    double sum = 0;
    uint64_t n = pst_tensor_elements(g->tensor + g->n_tensor - 1);
    for (uint64_t i = 0; i < n; i++) sum += loss[i];
    for (uint32_t i = g->n_node; i-- > 0;) {
        if (g->node[i].op->pass_through) pass_on(m, g->node + i);
        else launch(m, i, PST_PASS_B);
        launch(m, i, PST_PASS_W);
    }
    return sum / (double)n;
}

static void update(machine *m, uint64_t t) {
    const double beta1 = 0.9, beta2 = 0.99;
    const pst_optim_hyper h = {.lr = t < 20 ? 1e-3f * (float)t / 20 : 1e-3f,
                               .beta1 = (float)beta1,
                               .beta2 = (float)beta2,
                               .eps = 1e-8f,
                               .grad_scale = 1,
                               .correction1 = (float)(1 - pow(beta1, (double)t)),
                               .correction2 = (float)(1 - pow(beta2, (double)t)),
                               .t = t};
    for (uint32_t p = 0; p < m->g->n_param; p++) {
        const pst_flat_param of = {.weight = m->master[p],
                                   .grad = m->dparam[p],
                                   .state = {m->state[0][p], m->state[1][p]},
                                   .n = pst_param_elements(m->g->param + p)};
        pst_flat_choose(m->device.isa)->update(NULL, PST_OPTIM_ADAMW, &h, &of);
        narrow(m, p);
    }
}

/* --- what is printed -------------------------------------------------------------------------- */

static uint8_t *text;
static uint64_t n_text;

static void read_texts(char **path, int n) {
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(path[i], "rb");
        int byte;
        if (!f) exit(2);
        while ((byte = getc(f)) != EOF) {
            if (!(n_text & (n_text + 1))) text = realloc(text, 2 * n_text + 2);
            text[n_text++] = (uint8_t)byte;
        }
        fclose(f);
    }
}

static void read_batch(machine *m, const sizes *s, uint64_t step) {
    int32_t *tokens = m->tensor[0], *targets = m->tensor[1];
    for (uint32_t b = 0; b < s->batch; b++) {
        uint32_t word[4];
        pst_rng_words(pst_rng_key(m->seed, "batch"), step, b, word);
        uint64_t from = word[0] % (n_text - s->context - 1);
        for (uint32_t t = 0; t < s->context; t++) {
            tokens[b * s->context + t] = text[from + t];
            targets[b * s->context + t] = text[from + t + 1];
        }
    }
}

typedef struct {
    double loss, apart; /* of the last tenth of the steps; of the first gradient from fp32's */
} result;

/* exact: gradients of fp32, filled by it. */
static double compare_gradients(machine *m, form f, float **exact) {
    double apart = 0, size = 0;
    for (uint32_t p = 0; p < m->g->n_param; p++) {
        uint64_t n = pst_param_elements(m->g->param + p);
        if (f == FP32) {
            free(exact[p]);
            exact[p] = take(n * sizeof(float));
            memcpy(exact[p], m->dparam[p], n * sizeof(float));
        }
        for (uint64_t i = 0; i < n; i++) {
            double d = (double)m->dparam[p][i] - exact[p][i];
            apart += d * d;
            size += (double)exact[p][i] * exact[p][i];
        }
    }
    return sqrt(apart / size);
}

static result train(const sizes *s, form f, uint64_t seed, float **exact) {
    machine m;
    result r = {0, 0};
    uint32_t last = s->steps / 10 ? s->steps / 10 : 1;
    machine_open(&m, s, f, seed);
    for (uint32_t step = 1; step <= s->steps; step++) {
        read_batch(&m, s, step);
        double loss = differentiate(&m);
        if (step == 1) r.apart = compare_gradients(&m, f, exact);
        if (step > s->steps - last) r.loss += loss / last;
        update(&m, step);
    }
    machine_close(&m);
    return r;
}

static int option(sizes *s, const char *name, const char *value) {
    const struct {
        const char *name;
        uint32_t *to;
    } list[] = {{"--layers", &s->layers}, {"--channels", &s->channels}, {"--context", &s->context},
                {"--batch", &s->batch},   {"--steps", &s->steps},       {"--seeds", &s->seeds}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(name, list[i].name) && value) {
            *list[i].to = (uint32_t)strtoul(value, NULL, 10);
            return 1;
        }
    return 0;
}

int main(int n, char **word) {
    enum { MOST_PARAMS = 4096 };
    sizes s = {12, 64, 64, 4, 100, 3};
    static float *exact[MOST_PARAMS];
    int i = 1;
    for (; i < n && option(&s, word[i], i + 1 < n ? word[i + 1] : NULL); i += 2) continue;
    read_texts(word + i, n - i);
    if (i >= n || s.channels % 32 || n_text <= s.context + 1) {
        fprintf(stderr, "usage: residual [--layers N] [--channels 32N] [--context N] [--batch N] "
                        "[--steps N] [--seeds N] FILE...\n");
        return 2;
    }
    for (uint64_t seed = 1; seed <= s.seeds; seed++) {
        double loss = 0;
        for (form f = FP32; f < FORMS; f++) {
            result r = train(&s, f, seed, exact);
            if (f == FP32) loss = r.loss;
            printf(
                "layers %u seed %llu %-20s loss %.4f  more than fp32 %+.4f  gradient apart %.4f\n",
                s.layers, (unsigned long long)seed, form_name[f], r.loss, r.loss - loss, r.apart);
            fflush(stdout);
        }
    }
    return 0;
}
