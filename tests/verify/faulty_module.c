/* A back end as a module whose device computes as a CPU, except for one bug on one rank, for tests
 * of `penstock verify`. FAULTY=BUG:RANK:PLACE (see the table below; PLACE chooses, modulo their
 * number, an operator of the kind that the bug is in, or a parameter), and the module says on
 * stderr where it struck: "faulty: BUG at NAME". Without the variable it has no bug. Rank 0 cannot
 * have one, because a run on one rank is what verify compares with. */
#include "kernels/cpu/cpu.h"
#include "kernels/module_host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TIED: elements of the embedding, which is tied to the output: 256 tokens, 32 channels */
enum { ROWS = 480, NODES = 64, MICROS = 64, TIED = 256 * 32 };

static struct {
    char bug[32];
    uint32_t rank;
    uint64_t place;
} fault;
static uint32_t own_rank;
static int said;

static int is(const char *bug) { return own_rank == fault.rank && !strcmp(fault.bug, bug); }

static void say(const char *where) {
    if (said++) return;
    fprintf(stderr, "faulty: %s at %s\n", fault.bug, where);
}

/* --- where: an operator of a kind, chosen among those of this rank ------------------------------
 */

static const char *const *op_of_bug(void);
static char node_name[NODES][PST_NAME_MAX];
static uint32_t n_node;

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* Only linear operators that are split by rows, whose outputs are added. */
static int may_be_at(const pst_node *node) {
    return strcmp(node->op->name, "linear") || ends_with(node->name, ".c_proj");
}

static pst_status prepare(pst_device *device, const pst_graph *g, const pst_node *node) {
    (void)device;
    (void)g;
    for (const char *const *op = op_of_bug(); op && *op; op++)
        if (!strcmp(node->op->name, *op) && may_be_at(node)) {
            uint32_t i = 0;
            while (i < n_node && strcmp(node_name[i], node->name)) i++;
            if (i == n_node && n_node < NODES) strcpy(node_name[n_node++], node->name);
        }
    return PST_OK;
}

/* 1: this operator has the bug. */
static int at(const pst_call *c, const char *bug, const char *op) {
    if (!is(bug) || strcmp(c->node->op->name, op) || !c->train || !n_node) return 0;
    if (strcmp(c->node->name, node_name[fault.place % n_node])) return 0;
    say(c->node->name);
    return 1;
}

/* --- bugs in operators --------------------------------------------------------------------------
 */

static uint64_t out_elements(const pst_call *c) {
    return pst_tensor_elements(c->graph->tensor + c->node->out[0]);
}

static uint64_t in_elements(const pst_call *c, uint32_t i) {
    return pst_tensor_elements(c->graph->tensor + c->node->in[i]);
}

static void scale_output(const pst_call *c, uint32_t arg, float factor, float more) {
    float *out = c->arg[arg];
    for (uint64_t i = 0; i < out_elements(c); i++) out[i] = out[i] * factor + more;
}

static void bug_in_linear(const pst_call *c) {
    uint32_t out = 1 + c->node->n_param;
    if (at(c, "tensor-missing", "linear")) scale_output(c, out, 0, 0);
    if (at(c, "tensor-twice", "linear")) scale_output(c, out, 2, 0);
    if (at(c, "tensor-scale", "linear")) scale_output(c, out, 0.75f, 0);
    if (at(c, "bias-everywhere", "linear")) scale_output(c, out, 1, 0.002f);
}

/* Reads the tokens, or targets, of the micro-batch before. */
static void bug_in_data(const pst_call *c, uint32_t input, const char *twice,
                        const char *left_out) {
    static int32_t *kept;
    int32_t *data = c->arg[input];
    uint64_t n = in_elements(c, input);
    if (at(c, left_out, c->node->op->name)) memset(data, 0, n * sizeof *data);
    if (!is(twice) || !c->train) return;
    if (!kept) {
        kept = malloc(n * sizeof *kept);
        if (!kept) abort();
        memcpy(kept, data, n * sizeof *data);
    } else if (at(c, twice, c->node->op->name)) memcpy(data, kept, n * sizeof *data);
}

static void bug_in_targets(const pst_call *c) {
    int32_t *target = c->arg[1];
    if (at(c, "target-shift", c->node->op->name))
        memmove(target, target + 1, (in_elements(c, 1) - 1) * sizeof *target);
}

/* The output that this operator wrote for an earlier micro-batch is overwritten. */
static void bug_in_slot(const pst_call *c, uint32_t arg) {
    static void *earlier[MICROS];
    static uint32_t n;
    if (!at(c, "slot-early", "layer_norm")) return;
    if (n && earlier[n - 1] != c->arg[arg]) ((float *)earlier[n - 1])[3] += 0.5f;
    if (n < MICROS) earlier[n++] = c->arg[arg];
}

static void round_statistics(const pst_call *c, uint32_t arg) {
    float *saved = c->arg[arg];
    if (!at(c, "norm-precision", "layer_norm")) return;
    for (uint64_t i = 0; i < c->node->saved[0].elements; i++)
        saved[i] = pst_f32_from_bf16(pst_bf16_from_f32(saved[i]));
}

/* 1: this sample went through this dropout before. */
static int seen_before(const pst_call *c) {
    static struct {
        uint64_t sample;
        const pst_node *node;
    } seen[4096];
    static uint32_t n;
    for (uint32_t i = 0; i < n; i++)
        if (seen[i].sample == c->sample && seen[i].node == c->node) return 1;
    if (n < 4096) {
        seen[n].node = c->node;
        seen[n++].sample = c->sample;
    }
    return 0;
}

/* --- launches -----------------------------------------------------------------------------------
 */

static const pst_kernel_row *inner[ROWS];
static pst_kernel_row rows[ROWS];

static void before(const pst_kernel_row *row, pst_call *c) {
    if (!strcmp(row->op, "embedding") && row->pass == PST_PASS_F)
        bug_in_data(c, 0, "micro-twice", "micro-left-out");
    int loss = !strcmp(row->op, "cross_entropy") || !strcmp(row->op, "vocabulary_loss"),
        reads_targets = !strcmp(row->op, "cross_entropy") || !strcmp(row->op, "vocabulary_part");
    if (reads_targets && row->pass == PST_PASS_F) bug_in_targets(c);
    if (loss && row->pass == PST_PASS_B && at(c, "loss-count", row->op)) c->loss_scale *= 1.25f;
    if (!strcmp(row->op, "dropout") && at(c, "dropout-seed", "dropout")) c->seed += own_rank;
    if (!strcmp(row->op, "dropout") && row->pass == PST_PASS_F && is("recompute-random") &&
        seen_before(c) && at(c, "recompute-random", "dropout"))
        c->seed++;
}

static void after(const pst_kernel_row *row, const pst_call *c) {
    if (row->pass != PST_PASS_F) return;
    if (!strcmp(row->op, "linear")) bug_in_linear(c);
    if (!strcmp(row->op, "layer_norm")) {
        bug_in_slot(c, 3);
        round_statistics(c, 4);
    }
}

static pst_status run(uint32_t i, pst_device *device, const pst_call *call) {
    pst_call c = *call;
    int of_operator = !strcmp(inner[i]->op, call->node->op->name); /* not a sum of gradients */
    if (of_operator) before(inner[i], &c);
    PST_TRY(inner[i]->launch(device, &c));
    if (of_operator) after(inner[i], &c);
    return PST_OK;
}

#define LAUNCH(n)                                                                                  \
    static pst_status launch_##n(pst_device *d, const pst_call *c) { return run(n - 10, d, c); }
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
/* clang-format off */
#define ALL(m) \
    TEN(m, 1) TEN(m, 2) TEN(m, 3) TEN(m, 4) TEN(m, 5) TEN(m, 6) TEN(m, 7) TEN(m, 8) \
    TEN(m, 9) TEN(m, 10) TEN(m, 11) TEN(m, 12) TEN(m, 13) TEN(m, 14) TEN(m, 15) TEN(m, 16) \
    TEN(m, 17) TEN(m, 18) TEN(m, 19) TEN(m, 20) TEN(m, 21) TEN(m, 22) TEN(m, 23) TEN(m, 24) \
    TEN(m, 25) TEN(m, 26) TEN(m, 27) TEN(m, 28) TEN(m, 29) TEN(m, 30) TEN(m, 31) TEN(m, 32) \
    TEN(m, 33) TEN(m, 34) TEN(m, 35) TEN(m, 36) TEN(m, 37) TEN(m, 38) TEN(m, 39) TEN(m, 40) \
    TEN(m, 41) TEN(m, 42) TEN(m, 43) TEN(m, 44) TEN(m, 45) TEN(m, 46) TEN(m, 47) TEN(m, 48)
/* clang-format on */
ALL(LAUNCH)
#define NAME(n) launch_##n,
static pst_status (*const launches[ROWS])(pst_device *, const pst_call *) = {ALL(NAME)};

/* --- bugs in arithmetic ----------------------------------------------------------------------- */

static pst_status update(pst_device *d, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n) {
    static uint64_t updates;
    pst_optim_hyper own = *h;
    pst_arith_param *changed = malloc((n + (size_t)1) * sizeof *changed);
    uint32_t chosen = n ? (uint32_t)(fault.place % n) : 0;
    if (!changed) abort();
    memcpy(changed, list, n * sizeof *list);
    int first = !updates++, resumed = h->t > 1 && first;
    if (n && is("stale") && h->t == 2) {
        say("STEP");
        changed[chosen] = changed[--n];
    }
    if (is("clip") && h->t == 2) {
        say("STEP");
        own.grad_scale *= 1.5f;
    }
    if (is("lr-resumed") && resumed) {
        say("STEP");
        own.lr *= 0.8f;
    }
    for (uint32_t i = 0; i < n && is("state-swapped") && resumed; i++)
        for (uint32_t k = i + 1; k < n; k++)
            if (changed[i].n == changed[k].n && !said) {
                void *kept = changed[i].state[0];
                say("STEP");
                changed[i].state[0] = changed[k].state[0];
                changed[k].state[0] = kept;
            }
    for (uint32_t i = 0, skipped = 0; i < n && is("decay-norm"); i++) {
        if (changed[i].decay != 0 || !changed[i].n || changed[i].weight[0] < 0.9f) continue;
        if (said || skipped++ != fault.place % 2) continue; /* weights of norms are near 1 */
        say("STEP");
        changed[i].decay = h->decay;
    }
    pst_status status = pst_arith_cpu.update(d, kind, &own, type, changed, n);
    free(changed);
    return status;
}

static pst_status sum_squares(pst_device *d, const float *const *x, const uint64_t *n,
                              uint32_t count, double *out) {
    PST_TRY(pst_arith_cpu.sum_squares(d, x, n, count, out));
    if (!is("norm-part") || !count) return PST_OK;
    uint32_t largest = 0;
    for (uint32_t i = 1; i < count; i++)
        if (out[i] > out[largest]) largest = i;
    say("NORM");
    out[largest] = 0;
    return PST_OK;
}

static pst_status accumulate(pst_device *d, float *y, const float *x, uint64_t n) {
    static uint64_t sums;
    if (own_rank != fault.rank) return pst_arith_cpu.accumulate(d, y, x, n);
    int chosen = sums++ % 7 == fault.place % 7;
    int tied = n == TIED;
    if (chosen && !strncmp(fault.bug, "replica-", 8)) say("REDUCE");
    if (tied && !strncmp(fault.bug, "tied-", 5)) say("REDUCE");
    if (tied && is("tied-once")) return PST_OK;
    if (tied && is("tied-twice")) PST_TRY(pst_arith_cpu.accumulate(d, y, x, n));
    if (chosen && is("replica-missing")) return PST_OK;
    PST_TRY(pst_arith_cpu.accumulate(d, y, x, n));
    if (chosen && is("replica-twice")) return pst_arith_cpu.accumulate(d, y, x, n);
    for (uint64_t i = 0; i < n && chosen && is("replica-scale"); i++) y[i] *= 0.5f;
    return PST_OK;
}

static pst_status average(pst_device *d, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n) {
    return pst_arith_cpu.average(d, rate, scale, type, list, n);
}

static pst_status narrow(pst_device *d, pst_dtype type, const float *x, uint16_t *y, uint64_t n) {
    return pst_arith_cpu.narrow(d, type, x, y, n);
}

static pst_status combine(pst_device *d, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n) {
    return pst_arith_cpu.combine(d, type, x, n_x, out, n);
}

static const pst_arith arith = {.update = update,
                                .sum_squares = sum_squares,
                                .accumulate = accumulate,
                                .narrow = narrow,
                                .average = average,
                                .combine = combine};

/* --- the module ---------------------------------------------------------------------------------
 */

/* The operators that a bug may be in; NULL: it is in the arithmetic. */
static const char *const *op_of_bug(void) {
    static const struct {
        const char *bug;
        const char *op[3];
    } bugs[] = {{"tensor-missing", {"linear"}},
                {"tensor-twice", {"linear"}},
                {"tensor-scale", {"linear"}},
                {"bias-everywhere", {"linear"}},
                {"micro-twice", {"embedding"}},
                {"micro-left-out", {"embedding"}},
                {"target-shift", {"cross_entropy", "vocabulary_part"}},
                {"loss-count", {"cross_entropy", "vocabulary_loss"}},
                {"dropout-seed", {"dropout"}},
                {"recompute-random", {"dropout"}},
                {"slot-early", {"layer_norm"}},
                {"norm-precision", {"layer_norm"}}};
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(bugs[i].bug, fault.bug)) return bugs[i].op;
    return NULL;
}

static pst_device_ops ops;

static pst_status open_device(const pst_device_config *config, pst_device **device) {
    PST_TRY(pst_device_cpu.open(config, device));
    (*device)->ops = &ops;
    own_rank = config->local;
    return PST_OK;
}

static void add_rows(const pst_kernel_row *from, uint32_t n, uint32_t *total) {
    for (uint32_t i = 0; i < n; i++, ++*total) {
        if (*total == ROWS) abort();
        inner[*total] = from + i;
        rows[*total] = from[i];
        rows[*total].launch = launches[*total];
        rows[*total].prepare = prepare;
        rows[*total].captures = NULL;
    }
}

static pst_module module = {.version = PST_MODULE_VERSION,
                            .bytes = sizeof(pst_module),
                            .name = "faulty",
                            .device = &ops,
                            .kernel = rows,
                            .arith = &arith};

__attribute__((visibility("default"))) const pst_module *
pst_module_open(const pst_module_host *given);
const pst_module *pst_module_open(const pst_module_host *given) {
    uint32_t n, total = 0;
    const char *text = getenv("FAULTY");
    unsigned long rank, place;
    fault.rank = UINT32_MAX;
    if (text && sscanf(text, "%31[a-z-]:%lu:%lu", fault.bug, &rank, &place) == 3 && rank) {
        fault.rank = (uint32_t)rank;
        fault.place = place;
    }
    pst_module_host_set(given);
    ops = pst_device_cpu;
    ops.name = "faulty";
    ops.open = open_device;
    const pst_kernel_row *cpu = pst_kernels_cpu(&n);
    add_rows(cpu, n, &total);
    const pst_kernel_row *ref = pst_kernels_ref(&n);
    add_rows(ref, n, &total);
    module.n_kernel = total;
    return &module;
}
