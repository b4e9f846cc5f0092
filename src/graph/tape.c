/* Differentiation by one walk forward and one walk backward over the nodes. The builder remembers
 * which value holds each tensor, and which holds the newest version of its gradient; operand lists
 * come from the operators' rows. */
#include "graph/tape.h"
#include "base/grow.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_graph *g;
    pst_tape *tape;
    size_t cap_value, cap_step;
    uint32_t *tensor; /* [n_tensor] value that holds the tensor */
    /* [n_tensor] value with the newest version of its gradient, PST_NONE when there is none */
    uint32_t *grad;
    /* [n_tensor] 1: it does not depend on trained parameters and needs no gradient */
    uint8_t *constant;
    uint32_t *version; /* [n_tensor] how many gradient values were made for it */
    uint32_t *saved;   /* [n_node * PST_MAX_SAVED] */
} builder;

static pst_status add_value(builder *b, const pst_value *value, uint32_t *index) {
    pst_tape *t = b->tape;
    PST_TRY(pst_grow(&t->value, sizeof *t->value, t->n_value, &b->cap_value, "for tape values"));
    t->value[t->n_value] = *value;
    *index = t->n_value++;
    return PST_OK;
}

static pst_status add_step(builder *b, const pst_tape_step *step, int extra) {
    pst_tape *t = b->tape;
    size_t cap = b->cap_step; /* step and extra have the same capacity */
    PST_TRY(pst_grow(&t->step, sizeof *t->step, t->n_step, &cap, "for tape steps"));
    PST_TRY(pst_grow(&t->extra, sizeof *t->extra, t->n_step, &b->cap_step, "for tape steps"));
    t->step[t->n_step] = *step;
    t->extra[t->n_step++] = (uint8_t)extra;
    return PST_OK;
}

/* A new value for a tensor or its gradient, written by the step that is about to be added
 * (PST_NONE: by the data). */
static pst_status new_value(builder *b, pst_value_kind kind, uint32_t tensor, uint32_t def_step,
                            uint32_t *index) {
    const pst_tensor *t = &b->g->tensor[tensor];
    pst_value v = {.kind = kind,
                   .tensor = tensor,
                   .node = PST_NONE,
                   .saved = PST_NONE,
                   .dtype = t->dtype,
                   .bytes = pst_tensor_bytes(t),
                   .def_step = def_step};
    if (kind == PST_VALUE_GRAD) {
        v.version = b->version[tensor]++;
        v.dtype = pst_tensor_grad(b->g, t);
        v.bytes = v.bytes / pst_dtype_bytes(t->dtype) * pst_dtype_bytes(v.dtype);
    }
    return add_value(b, &v, index);
}

static pst_status new_saved(builder *b, uint32_t node, uint32_t i, uint32_t *index) {
    const pst_node *d = &b->g->node[node];
    pst_value v = {.kind = PST_VALUE_SAVED,
                   .tensor = PST_NONE,
                   .node = node,
                   .saved = i,
                   .dtype = d->saved[i].dtype,
                   .bytes = d->saved[i].elements * pst_dtype_bytes(d->saved[i].dtype),
                   .def_step = b->tape->n_step};
    PST_TRY(add_value(b, &v, index));
    b->saved[node * PST_MAX_SAVED + i] = *index;
    return PST_OK;
}

static int is_data(const pst_graph *g, uint32_t tensor) {
    return g->tensor[tensor].role == PST_TENSOR_DATA;
}

/* Constants: data, and what operators without trained parameters compute from it. */
static void find_constants(const builder *b) {
    const pst_graph *g = b->g;
    for (uint32_t t = 0; t < g->n_tensor; t++) b->constant[t] = (uint8_t)is_data(g, t);
    for (uint32_t i = 0; i < g->n_node; i++) {
        const pst_node *d = &g->node[i];
        uint8_t constant = !pst_node_is_trained(g, d);
        for (uint32_t k = 0; k < d->n_in; k++) constant &= b->constant[d->in[k]];
        for (uint32_t k = 0; k < d->n_out; k++) b->constant[d->out[k]] = constant;
    }
}

/* Turns one line of an operand list into an operand; values that the step writes are created
 * here. */
static pst_status resolve(builder *b, uint32_t node, const pst_arg *arg, pst_operand *out) {
    const pst_node *d = &b->g->node[node];
    uint32_t i = arg->index, value = PST_NONE;
    *out = (pst_operand){
        .kind = PST_OPERAND_VALUE, .access = arg->access, .share = arg->share, .must = arg->must};
    switch ((pst_arg_kind)arg->kind) {
    case PST_ARG_IN: value = b->tensor[d->in[i]]; break;
    case PST_ARG_OUT:
        if (arg->access & PST_WRITE)
            PST_TRY(
                new_value(b, PST_VALUE_TENSOR, d->out[i], b->tape->n_step, &b->tensor[d->out[i]]));
        value = b->tensor[d->out[i]];
        break;
    case PST_ARG_SAVED:
        value = b->saved[node * PST_MAX_SAVED + i];
        if (value == PST_NONE) PST_TRY(new_saved(b, node, i, &value));
        break;
    case PST_ARG_DOUT: value = b->grad[d->out[i]]; break;
    case PST_ARG_SUM: value = b->grad[d->in[i]]; break;
    case PST_ARG_DIN:
        if (!is_data(b->g, d->in[i]))
            PST_TRY(new_value(b, PST_VALUE_GRAD, d->in[i], b->tape->n_step, &value));
        break;
    case PST_ARG_PARAM:
        out->kind = PST_OPERAND_PARAM;
        out->index = d->param[i];
        return PST_OK;
    case PST_ARG_DPARAM:
        out->kind = PST_OPERAND_DPARAM;
        if (b->g->param[d->param[i]].frozen) {
            out->kind = PST_OPERAND_UNREAD;
            out->access = PST_WRITE;
        }
        out->index = d->param[i];
        out->use = d->use[i];
        return PST_OK;
    }
    out->index = value;
    if (value == PST_NONE) out->kind = PST_OPERAND_NULL;
    return PST_OK;
}

/* The extra step that adds contribution `value` to a gradient that exists already. */
static pst_status add_sum(builder *b, uint32_t node, uint32_t tensor, uint32_t value) {
    uint32_t out;
    uint32_t before = b->grad[tensor];
    PST_TRY(new_value(b, PST_VALUE_GRAD, tensor, b->tape->n_step, &out));
    pst_tape_step s = {.node = node,
                       .pass = PST_PASS_B,
                       .n_operand = 3,
                       .flops = pst_tensor_elements(&b->g->tensor[tensor]),
                       .bytes = 3 * pst_tensor_bytes(&b->g->tensor[tensor])};
    s.operand[0] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = PST_READ, .share = -1, .index = before};
    s.operand[1] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = PST_READ, .share = -1, .index = value};
    s.operand[2] =
        (pst_operand){.kind = PST_OPERAND_VALUE, .access = PST_WRITE, .share = 1, .index = out};
    b->grad[tensor] = out;
    return add_step(b, &s, 1);
}

/* Adds contribution `value` to the gradient of `tensor`; summed: `value` already includes what was
 * there before. */
static pst_status contribute(builder *b, uint32_t node, uint32_t tensor, uint32_t value,
                             int summed) {
    if (b->grad[tensor] != PST_NONE && !summed) return add_sum(b, node, tensor, value);
    b->grad[tensor] = value;
    return PST_OK;
}

static pst_status emit(builder *b, uint32_t node, pst_pass pass) {
    const pst_node *d = &b->g->node[node];
    pst_arg arg[PST_MAX_ARG];
    pst_tape_step s = {.node = node, .pass = pass, .n_operand = d->op->args(d, pass, arg)};
    if (s.n_operand == 0) return PST_OK;
    int has_sum[PST_MAX_IN] = {0};
    for (uint32_t i = 0; i < s.n_operand; i++) {
        PST_TRY(resolve(b, node, &arg[i], &s.operand[i]));
        if (arg[i].kind == PST_ARG_SUM) has_sum[arg[i].index] = 1;
    }
    for (uint32_t i = 0; i < s.n_operand; i++) {
        int8_t share = s.operand[i].share;
        if (share >= 0 && s.operand[share].kind == PST_OPERAND_NULL) s.operand[i].share = -1;
    }
    d->op->cost(b->g, d, pass, &s.flops, &s.bytes);
    PST_TRY(add_step(b, &s, 0));
    for (uint32_t i = 0; i < s.n_operand; i++)
        if (arg[i].kind == PST_ARG_DIN && s.operand[i].kind == PST_OPERAND_VALUE &&
            !b->constant[d->in[arg[i].index]])
            PST_TRY(contribute(b, node, d->in[arg[i].index], s.operand[i].index,
                               has_sum[arg[i].index]));
    return PST_OK;
}

/* Whether the gradients that B and W of this node read exist. A node that reads none starts them (a
 * loss). */
static int gradients_ready(const builder *b, const pst_node *d) {
    uint32_t n_b_or_w = 0;
    for (int pass = PST_PASS_B; pass <= PST_PASS_W; pass++) {
        pst_arg arg[PST_MAX_ARG];
        uint32_t n = d->op->args(d, (pst_pass)pass, arg);
        n_b_or_w += n;
        for (uint32_t i = 0; i < n; i++)
            if (arg[i].kind == PST_ARG_DOUT && b->grad[d->out[arg[i].index]] == PST_NONE) return 0;
    }
    if (d->op->pass_through) return b->grad[d->out[0]] != PST_NONE;
    return n_b_or_w > 0;
}

/* Inputs whose gradient has the output gradient's type get it; B, if the node has one, writes that
 * of another type. */
static pst_status pass_through(builder *b, uint32_t node) {
    const pst_node *d = &b->g->node[node];
    const pst_tensor *tensor = b->g->tensor;
    pst_dtype type = pst_tensor_grad(b->g, tensor + d->out[0]);
    uint32_t gradient = b->grad[d->out[0]];
    int others = 0;
    for (uint32_t i = 0; i < d->n_in; i++) {
        int same = pst_tensor_grad(b->g, tensor + d->in[i]) == type;
        if (b->constant[d->in[i]]) continue;
        if (same) PST_TRY(contribute(b, node, d->in[i], gradient, 0));
        others |= !same;
    }
    return others ? emit(b, node, PST_PASS_B) : PST_OK;
}

/* Whether W reads an array that B writes. */
static int needs_backward(const pst_node *d) {
    pst_arg b[PST_MAX_ARG], w[PST_MAX_ARG];
    const uint32_t n_b = d->op->args(d, PST_PASS_B, b), n_w = d->op->args(d, PST_PASS_W, w);
    for (uint32_t i = 0; i < n_w; i++)
        for (uint32_t k = 0; w[i].kind == PST_ARG_SAVED && k < n_b; k++)
            if (b[k].kind == PST_ARG_SAVED && b[k].index == w[i].index && b[k].access & PST_WRITE)
                return 1;
    return 0;
}

static pst_status backward_node(builder *b, uint32_t node) {
    const pst_node *d = &b->g->node[node];
    if (!gradients_ready(b, d)) return PST_OK;
    int differentiable = 0, trained = pst_node_is_trained(b->g, d);
    for (uint32_t i = 0; i < d->n_in; i++) differentiable |= !b->constant[d->in[i]];
    if (d->op->pass_through) return pass_through(b, node);
    if (differentiable || (trained && needs_backward(d))) PST_TRY(emit(b, node, PST_PASS_B));
    return trained ? emit(b, node, PST_PASS_W) : PST_OK;
}

static int uses(const pst_tape_step *step, uint32_t value) {
    for (uint32_t i = 0; i < step->n_operand; i++)
        if (step->operand[i].kind == PST_OPERAND_VALUE && step->operand[i].index == value) return 1;
    return 0;
}

static pst_status overwritten(const builder *b, uint32_t s, uint32_t lost) {
    const pst_tape *t = b->tape;
    uint32_t later = s + 1;
    while (!uses(&t->step[later], lost)) later++;
    return pst_fail(
        PST_EINPUT,
        "the backward pass of %s overwrites %s, which the backward pass of %s still needs",
        b->g->node[t->step[s].node].name, b->g->tensor[t->value[lost].tensor].name,
        b->g->node[t->step[later].node].name);
}

/* EINPUT when a step overwrites a value that a later step reads. last: [n_value], scratch. */
static pst_status check_overwrites(const builder *b, uint32_t *last) {
    const pst_tape *t = b->tape;
    for (uint32_t s = 0; s < t->n_step; s++)
        for (uint32_t i = 0; i < t->step[s].n_operand; i++) {
            const pst_operand *o = &t->step[s].operand[i];
            if (o->kind == PST_OPERAND_VALUE) last[o->index] = s;
        }
    for (uint32_t s = 0; s < t->n_step; s++)
        for (uint32_t i = 0; i < t->step[s].n_operand; i++) {
            const pst_operand *o = &t->step[s].operand[i];
            uint32_t lost = o->must ? t->step[s].operand[o->share].index : PST_NONE;
            if (o->must && last[lost] > s) return overwritten(b, s, lost);
        }
    return PST_OK;
}

static uint32_t *none_array(uint64_t n) {
    uint32_t *a = malloc((n ? n : 1) * sizeof(*a));
    if (a) memset(a, 0xff, n * sizeof(*a)); /* all PST_NONE */
    return a;
}

static pst_status build(builder *b, int with_backward) {
    const pst_graph *g = b->g;
    find_constants(b);
    for (uint32_t i = 0; i < g->n_tensor; i++)
        if (is_data(g, i)) PST_TRY(new_value(b, PST_VALUE_TENSOR, i, PST_NONE, &b->tensor[i]));
    for (uint32_t i = 0; i < g->n_node; i++) PST_TRY(emit(b, i, PST_PASS_F));
    if (!with_backward) return PST_OK;
    for (uint32_t i = g->n_node; i-- > 0;) PST_TRY(backward_node(b, i));
    uint32_t *last = none_array(b->tape->n_value);
    pst_status status = last ? check_overwrites(b, last)
                             : pst_fail(PST_ENOMEM, "no memory to differentiate graph %s", g->name);
    free(last);
    return status;
}

pst_status pst_tape_build(const pst_graph *g, int with_backward, pst_tape **tape) {
    builder b = {.g = g,
                 .tape = calloc(1, sizeof(pst_tape)),
                 .tensor = none_array(g->n_tensor),
                 .grad = none_array(g->n_tensor),
                 .constant = malloc(g->n_tensor + (size_t)1),
                 .version = calloc(g->n_tensor + 1, sizeof(uint32_t)),
                 .saved = none_array((uint64_t)g->n_node * PST_MAX_SAVED)};
    pst_status status = PST_OK;
    if (!b.tape || !b.tensor || !b.grad || !b.constant || !b.version || !b.saved)
        status = pst_fail(PST_ENOMEM, "no memory to differentiate graph %s", g->name);
    if (status == PST_OK) status = build(&b, with_backward);
    free(b.tensor);
    free(b.grad);
    free(b.constant);
    free(b.version);
    free(b.saved);
    if (status == PST_OK) *tape = b.tape;
    else pst_tape_close(b.tape);
    return status;
}

/* Without a gradient for each use, the optimizer would read memory that no step has written. */
pst_status pst_tape_check_gradients(const pst_tape *tape, const pst_graph *g) {
    uint32_t *n = calloc(g->n_param + (size_t)1, sizeof *n);
    pst_status status = n ? PST_OK : pst_fail(PST_ENOMEM, "no memory to check graph %s", g->name);
    for (uint32_t s = 0; status == PST_OK && s < tape->n_step; s++)
        for (uint32_t i = 0; i < tape->step[s].n_operand; i++)
            if (tape->step[s].operand[i].kind == PST_OPERAND_DPARAM)
                n[tape->step[s].operand[i].index]++;
    for (uint32_t p = 0; status == PST_OK && p < g->n_param; p++)
        if (g->param[p].slice.held != PST_HELD_ELSEWHERE && !g->param[p].frozen &&
            (!n[p] || n[p] != g->param[p].n_use)) {
            const char *why =
                g->param[p].n_use ? "does not affect the loss" : "is used by no operator";
            if (n[p]) why = "has a use that does not affect the loss";
            status = pst_fail(PST_EINPUT, "graph %s: parameter %s %s, so it cannot be trained",
                              g->name, g->param[p].name, why);
        }
    free(n);
    return status;
}

void pst_tape_close(pst_tape *tape) {
    if (!tape) return;
    free(tape->value);
    free(tape->step);
    free(tape->extra);
    free(tape);
}

static void print_operand(const pst_tape *tape, const pst_graph *g, const pst_operand *o,
                          FILE *out) {
    fputc(' ', out);
    if (o->access != PST_READ) fputc(o->access == PST_WRITE ? '=' : '+', out);
    if (o->kind == PST_OPERAND_NULL) fputs("null", out);
    if (o->kind == PST_OPERAND_UNREAD) fputs("unread", out);
    if (o->kind == PST_OPERAND_PARAM) fputs(g->param[o->index].name, out);
    if (o->kind == PST_OPERAND_DPARAM) fprintf(out, "d(%s)%u", g->param[o->index].name, o->use);
    if (o->kind == PST_OPERAND_VALUE) {
        const pst_value *v = &tape->value[o->index];
        if (v->kind == PST_VALUE_TENSOR) fputs(g->tensor[v->tensor].name, out);
        if (v->kind == PST_VALUE_GRAD)
            fprintf(out, "d(%s)v%u", g->tensor[v->tensor].name, v->version);
        if (v->kind == PST_VALUE_SAVED)
            fprintf(out, "saved(%s)%u", g->node[v->node].name, v->saved);
    }
    if (o->share >= 0) fprintf(out, "%s%d", o->must ? "!@" : "@", o->share);
}

/* One line per step: number, pass, node, operands (= written, + accumulated, @i shares the memory
 * of operand i). */
pst_status pst_tape_print(const pst_tape *tape, const pst_graph *g, FILE *out) {
    static const char *const pass_name[] = {"F", "B", "W"};
    static const char *const extra_name[] = {"", " sum", " restore", " pack", " unpack"};
    for (uint32_t s = 0; s < tape->n_step; s++) {
        const pst_tape_step *step = &tape->step[s];
        const char *kind = step->again ? " again" : "";
        if (tape->extra[s]) kind = extra_name[tape->extra[s]];
        fprintf(out, "%u %s%s %s:", s, pass_name[step->pass], kind, g->node[step->node].name);
        for (uint32_t i = 0; i < step->n_operand; i++)
            print_operand(tape, g, &step->operand[i], out);
        fprintf(out, " | %lu flops %lu bytes\n", (unsigned long)step->flops,
                (unsigned long)step->bytes);
    }
    return ferror(out) ? pst_fail(PST_EINPUT, "cannot write the tape") : PST_OK;
}
