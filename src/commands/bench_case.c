/* See bench_case.h. */
#include "backends/machine.h"
#include "commands/bench_case.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- shapes ----------------------------------------------------------------------------------- */

static int same_tensor(const pst_graph *g, uint32_t a, uint32_t b) {
    const pst_tensor *x = g->tensor + a, *y = g->tensor + b;
    return x->dtype == y->dtype && x->n_dim == y->n_dim &&
           !memcmp(x->dim, y->dim, x->n_dim * sizeof *x->dim);
}

static int same_param(const pst_graph *g, uint32_t a, uint32_t b) {
    const pst_param *x = g->param + a, *y = g->param + b;
    return x->n_dim == y->n_dim && !memcmp(x->dim, y->dim, x->n_dim * sizeof *x->dim);
}

int pst_bench_same_shape(const pst_graph *g, const pst_node *a, const pst_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_param != b->n_param ||
        a->n_saved != b->n_saved)
        return 0;
    if (a->attr.heads != b->attr.heads || a->attr.activation != b->attr.activation ||
        a->attr.rate != b->attr.rate || a->attr.bidirectional != b->attr.bidirectional ||
        a->attr.wide != b->attr.wide)
        return 0;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (!same_tensor(g, a->in[i], b->in[i])) return 0;
    for (uint32_t i = 0; i < a->n_param; i++)
        if (!same_param(g, a->param[i], b->param[i])) return 0;
    return 1;
}

/* --- operands --------------------------------------------------------------------------------- */

static const pst_bench_operand *find(const pst_bench_case *c, uint8_t kind, uint8_t index) {
    for (uint32_t i = 0; i < c->n_operand; i++)
        if (c->operand[i].kind == kind && c->operand[i].index == index) return c->operand + i;
    return NULL;
}

static pst_bench_operand describe(const pst_graph *g, const pst_node *node, const pst_arg *arg) {
    pst_bench_operand o = {.kind = arg->kind, .index = arg->index, .dtype = PST_F32};
    if (arg->kind == PST_ARG_SAVED) {
        o.dtype = node->saved[arg->index].dtype;
        o.elements = node->saved[arg->index].elements;
        return o;
    }
    if (arg->kind == PST_ARG_PARAM || arg->kind == PST_ARG_DPARAM) {
        if (arg->kind == PST_ARG_PARAM) o.dtype = g->dtype;
        const pst_param *p = g->param + node->param[arg->index];
        o.elements =
            arg->kind == PST_ARG_PARAM ? pst_param_elements(p) + p->pad : pst_param_sums(p);
        return o;
    }
    int out = arg->kind == PST_ARG_OUT || arg->kind == PST_ARG_DOUT,
        value = arg->kind == PST_ARG_IN || arg->kind == PST_ARG_OUT;
    const pst_tensor *t = g->tensor + (out ? node->out[arg->index] : node->in[arg->index]);
    o.dtype = value ? t->dtype : pst_tensor_grad(g, t);
    o.elements = pst_tensor_bytes(t) / pst_dtype_bytes(t->dtype);
    return o;
}

/* Lists the operands of all passes; returns their bytes. Operands that always share memory are
 * listed once. */
static uint64_t list_operands(pst_bench_case *c) {
    uint64_t bytes = 0;
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        pst_arg args[PST_MAX_ARG];
        uint32_t n = c->node->op->args(c->node, (pst_pass)pass, args);
        for (uint32_t i = 0; i < n; i++) {
            if (args[i].must || find(c, args[i].kind, args[i].index) ||
                c->n_operand == PST_BENCH_OPERANDS)
                continue;
            pst_bench_operand o = describe(c->graph, c->node, args + i);
            o.offset = bytes;
            bytes += pst_align(o.elements * pst_dtype_bytes(o.dtype));
            c->operand[c->n_operand++] = o;
        }
    }
    return bytes;
}

/* Size of the smallest array that an index may point into: the table's rows, the rows of a sample,
 * or the classes of the logits. */
static uint64_t index_limit(const pst_bench_case *c, const pst_bench_operand *o) {
    const pst_tensor *x = c->graph->tensor + c->node->in[0];
    if (c->node->n_param > 2 && o->index == 1) return c->graph->param[c->node->param[2]].dim[0];
    if (!strcmp(c->node->op->name, "gather_rows")) return x->dim[1];
    return x->dtype == PST_I32 ? c->graph->param[c->node->param[0]].dim[0] : x->dim[x->n_dim - 1];
}

static uint32_t next_word(uint64_t *state) { /* linear congruential generator of Numerical Recipes
                                              */
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* All samples have full length, as the operator's cost assumes. */
static void fill_lengths(const pst_bench_case *c, const pst_bench_operand *o, int32_t *at) {
    uint64_t positions = c->graph->tensor[c->node->in[0]].dim[1];
    for (uint64_t i = 0; i < o->elements; i++) at[i] = (int32_t)positions;
}

/* Small weights keep the sums of a product near one. */
static void fill(const pst_bench_case *c, const pst_bench_operand *o, void *at) {
    if (o->dtype == PST_I32 && !strcmp(c->node->op->name, "attention")) {
        fill_lengths(c, o, at);
        return;
    }
    uint64_t state = 1 + o->kind * 16u + o->index,
             limit = o->dtype == PST_I32 ? index_limit(c, o) : 0;
    int weight = o->kind == PST_ARG_PARAM && c->graph->param[c->node->param[o->index]].n_dim == 2;
    float scale = 0x1p-30f;
    if (weight) scale /= sqrtf((float)c->graph->param[c->node->param[o->index]].dim[1]);
    for (uint64_t i = 0; i < o->elements; i++) {
        uint32_t word = next_word(&state);
        float value = (float)((int64_t)word - (1 << 30)) * scale;
        if (o->dtype == PST_I32) ((int32_t *)at)[i] = (int32_t)(word % limit);
        else if (pst_dtype_is_half(o->dtype))
            ((uint16_t *)at)[i] = pst_half_from_f32(o->dtype, value);
        else ((float *)at)[i] = value;
    }
}

void pst_bench_case_list(const pst_graph *g, const pst_node *node, uint64_t scratch_bytes,
                         pst_bench_case *c) {
    *c = (pst_bench_case){.graph = g, .node = node};
    c->scratch = list_operands(c);
    c->bytes = c->scratch + pst_align(scratch_bytes) + PST_ARENA_ALIGN;
}

pst_status pst_bench_case_place(pst_bench_case *c, pst_bench_target *target) {
    uint64_t left = target->far ? 0 : pst_machine_memory();
    if (left && c->bytes > left)
        return pst_fail(PST_ENOMEM,
                        "measuring %s needs %" PRIu64 " MiB, but only %" PRIu64 " MiB are free",
                        c->node->name, c->bytes >> 20, left >> 20);
    PST_TRY(pst_bench_target_reserve(target, c->bytes));
    c->base = target->arena.base;
    for (const pst_bench_operand *o = c->operand; o < c->operand + c->n_operand; o++) {
        uint64_t bytes = o->elements * pst_dtype_bytes(o->dtype);
        void *host;
        PST_TRY(pst_bench_target_map(target, c->base + o->offset, bytes, &host));
        fill(c, o, host);
        PST_TRY(pst_bench_target_unmap(target, c->base + o->offset, bytes, host));
    }
    return PST_OK;
}

void pst_bench_case_call(const pst_bench_case *c, pst_pass pass, int first, void **arg,
                         pst_call *call) {
    pst_arg args[PST_MAX_ARG];
    uint32_t n = c->node->op->args(c->node, pass, args);
    for (uint32_t i = 0; i < n; i++) {
        const pst_arg *a = args[i].must ? args + args[i].share : args + i;
        arg[i] = c->base + find(c, a->kind, a->index)->offset;
    }
    *call = (pst_call){.graph = c->graph,
                       .node = c->node,
                       .arg = arg,
                       .scratch = c->base + c->scratch,
                       .seed = 1,
                       .first = first,
                       .train = 1,
                       .loss_scale = 0x1p-10f};
}
