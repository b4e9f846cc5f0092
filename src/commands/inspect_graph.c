/* `penstock inspect` of a graph file, written by --show graph and perhaps edited: checks it, and
 * prints the cost of each operator. */
#include "base/file.h"
#include "commands/inspect_graph.h"
#include "graph/tape.h"
#include "graph/op.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

static void print_shape(const pst_tensor *t, FILE *out) {
    fprintf(out, "%s [", t->name);
    for (uint32_t d = 0; d < t->n_dim; d++) fprintf(out, d ? ",%" PRIu64 : "%" PRIu64, t->dim[d]);
    fputc(']', out);
}

static void print_tensors(const pst_graph *g, const char *title, pst_tensor_role role, FILE *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensor; i++) {
        if (g->tensor[i].role != role) continue;
        fputs(n++ ? ", " : title, out);
        print_shape(&g->tensor[i], out);
    }
    if (n) fputc('\n', out);
}

/* FLOPs of all passes of a micro-batch. */
static void add_cost(const pst_graph *g, const pst_node *node, uint64_t flops[PST_PASS_COUNT]) {
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        pst_arg args[PST_MAX_ARG];
        uint64_t n = 0;
        uint64_t bytes = 0;
        if (!node->op->args(node, (pst_pass)pass, args)) continue;
        node->op->cost(g, node, (pst_pass)pass, &n, &bytes);
        flops[pass] += n;
    }
}

static void print_row(const char *name, uint32_t n, const uint64_t flops[PST_PASS_COUNT],
                      FILE *out) {
    fprintf(out, "%-16s %5u %14.6g %14.6g %14.6g\n", name, n, (double)flops[PST_PASS_F] * 1e-6,
            (double)flops[PST_PASS_B] * 1e-6, (double)flops[PST_PASS_W] * 1e-6);
}

/* Kinds of operators, in order of first occurrence. */
static void print_kinds(const pst_graph *g, FILE *out) {
    uint64_t all[PST_PASS_COUNT] = {0};
    fprintf(out, "%-16s %5s %14s %14s %14s\n", "operators", "", "F MFLOP", "B MFLOP", "W MFLOP");
    for (uint32_t i = 0; i < g->n_node; i++) {
        uint64_t flops[PST_PASS_COUNT] = {0};
        uint32_t n = 0;
        uint32_t before = 0;
        while (before < i && g->node[before].op != g->node[i].op) before++;
        if (before < i) continue;
        for (uint32_t k = i; k < g->n_node; k++) {
            if (g->node[k].op != g->node[i].op) continue;
            add_cost(g, &g->node[k], flops);
            n++;
        }
        for (int pass = 0; pass < PST_PASS_COUNT; pass++) all[pass] += flops[pass];
        print_row(g->node[i].op->name, n, flops, out);
    }
    print_row("all", g->n_node, all, out);
}

static void print_sums(const pst_graph *g, FILE *out) {
    uint64_t elements = 0;
    for (uint32_t i = 0; i < g->n_param; i++) elements += pst_param_elements(&g->param[i]);
    fprintf(out, "graph %s, micro-batches of %u, %s: %u parameters with %" PRIu64 " elements\n",
            g->name, g->micro_batch, pst_dtype_name(pst_graph_factors(g)), g->n_param, elements);
    print_tensors(g, "reads       ", PST_TENSOR_DATA, out);
    print_tensors(g, "gives       ", PST_TENSOR_OUTPUT, out);
    print_kinds(g, out);
    fprintf(out, "hash        %016" PRIx64 " (graph_hash in a plan for this graph)\n",
            pst_graph_hash(g));
}

static pst_status print_tape(const pst_graph *g, FILE *out) {
    pst_tape *tape;
    PST_TRY(pst_tape_build(g, 1, &tape));
    pst_status status = pst_tape_print(tape, g, out);
    pst_tape_close(tape);
    return status;
}

static pst_status show(const pst_graph *g, const char *path, const char *what, FILE *out) {
    if (!strcmp(what, "graph")) return pst_graph_print(g, out);
    if (!strcmp(what, "tape")) return print_tape(g, out);
    if (*what)
        return pst_fail(PST_EINPUT, "%s is a graph: --show '%s': expected graph or tape", path,
                        what);
    print_sums(g, out);
    return PST_OK;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *graph) {
    if (strlen(text) != bytes) return pst_fail(PST_EINPUT, "%s: the text has a zero byte", file);
    return pst_graph_parse(text, file, graph);
}

pst_status pst_inspect_graph(const char *path, const char *what, FILE *out) {
    pst_graph *g = NULL;
    pst_status status = pst_file_parse(path, MOST_BYTES, parse_into, &g);
    if (status == PST_OK && pst_graph_check(g) != PST_OK)
        status = pst_fail_in(PST_EINPUT, "%s", path);
    if (status == PST_OK) status = show(g, path, what, out);
    pst_graph_close(g);
    return status;
}
