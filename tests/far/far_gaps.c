/* Logits with gaps between their rows, on a processor: packs copies without gaps, calls the
 * kernels, and spreads what they wrote. See far_gaps.h. */
#include "far/far_gaps.h"
#include <stdlib.h>
#include <string.h>

static const pst_tensor *gapped(const pst_call *call) {
    const pst_node *node = call->node;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (call->graph->tensor[node->in[i]].pitch) return call->graph->tensor + node->in[i];
    for (uint32_t i = 0; i < node->n_out; i++)
        if (call->graph->tensor[node->out[i]].pitch) return call->graph->tensor + node->out[i];
    return NULL;
}

int far_gaps_has(const pst_kernel_row *row, const pst_call *call) {
    return !strcmp(row->op, call->node->op->name) && gapped(call) != NULL;
}

/* The tensor of an operand; NULL for others. */
static const pst_tensor *tensor_of(const pst_call *call, const pst_arg *arg) {
    const pst_node *node = call->node;
    switch ((pst_arg_kind)arg->kind) {
    case PST_ARG_IN:
    case PST_ARG_DIN: return call->graph->tensor + node->in[arg->index];
    case PST_ARG_OUT:
    case PST_ARG_DOUT: return call->graph->tensor + node->out[arg->index];
    default: return NULL;
    }
}

static int zeros(const void *at, uint64_t bytes) {
    const uint8_t *x = at;
    uint64_t i = 0;
    while (i < bytes && !x[i]) i++;
    return i == bytes;
}

typedef struct {
    uint64_t rows, row, pitch; /* bytes */
} extent;

static extent extent_of(const pst_tensor *t) {
    uint64_t size = pst_dtype_bytes(t->dtype), n = t->dim[t->n_dim - 1];
    return (extent){pst_tensor_elements(t) / n, n * size, t->pitch * size};
}

static void copy(uint8_t *to, uint64_t to_pitch, const uint8_t *from, uint64_t from_pitch,
                 const extent *e) {
    for (uint64_t r = 0; r < e->rows; r++) memcpy(to + r * to_pitch, from + r * from_pitch, e->row);
}

static void fill_gaps(uint8_t *wide, const extent *e, uint8_t value) {
    for (uint64_t r = 0; r < e->rows; r++)
        memset(wide + r * e->pitch + e->row, value, e->pitch - e->row);
}

static pst_status check_gaps(const pst_call *call, const uint8_t *wide, const extent *e) {
    for (uint64_t r = 0; r < e->rows; r++)
        if (!zeros(wide + r * e->pitch + e->row, e->pitch - e->row))
            return pst_fail(PST_EINTERNAL, "far: %s: the gap behind row %llu is not 0",
                            call->node->name, (unsigned long long)r);
    return PST_OK;
}

static pst_status check_pads(const pst_call *call, const pst_arg *args, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].kind != PST_ARG_PARAM) continue;
        const pst_param *p = call->graph->param + call->node->param[args[i].index];
        const uint8_t *end = (const uint8_t *)call->arg[i] + pst_param_bytes(call->graph, p);
        if (!p->pad || !zeros(end, pst_param_pad_bytes(call->graph, p)))
            return pst_fail(PST_EINTERNAL, "far: %s: no zeros behind %s", call->node->name,
                            p->name);
    }
    return PST_OK;
}

/* Before: a product of gradients goes through their gaps. */
static pst_status check(const pst_kernel_row *row, const pst_call *call, const pst_arg *args,
                        uint32_t n) {
    if (strcmp(row->op, "linear")) return PST_OK;
    PST_TRY(check_pads(call, args, n));
    for (uint32_t i = 0; i < n; i++) {
        const pst_tensor *t = tensor_of(call, args + i);
        if (!t || !t->pitch || !(args[i].access & PST_READ)) continue;
        extent e = extent_of(t);
        PST_TRY(check_gaps(call, call->arg[i], &e));
    }
    return PST_OK;
}

/* One tensor has gaps, and all operands of it are one memory. */
static pst_status launch_compact(const pst_kernel_row *row, pst_device *cpu, const pst_call *call,
                                 const pst_arg *args, uint32_t n) {
    const pst_tensor *t = gapped(call);
    extent e = extent_of(t);
    uint8_t *compact = malloc(e.rows * e.row), *wide = NULL;
    pst_graph *plain = NULL;
    void *arg[PST_MAX_ARG];
    int written = 0;
    pst_status status = compact ? pst_graph_copy(call->graph, &plain) : PST_ENOMEM;
    if (status != PST_OK) {
        free(compact);
        return status;
    }
    plain->tensor[t - call->graph->tensor].pitch = 0;
    for (uint32_t i = 0; i < n; i++) {
        arg[i] = call->arg[i];
        if (tensor_of(call, args + i) != t) continue;
        wide = arg[i];
        written |= args[i].access & PST_WRITE;
        arg[i] = compact;
    }
    if (wide) copy(compact, e.row, wide, e.pitch, &e);
    pst_call inner = *call;
    inner.graph = plain;
    inner.arg = arg;
    status = row->launch(cpu, &inner);
    if (wide && written) {
        copy(wide, e.pitch, compact, e.row, &e);
        fill_gaps(wide, &e, row->pass == PST_PASS_F ? 0xff : 0);
    }
    pst_graph_close(plain);
    free(compact);
    return status;
}

pst_status far_gaps_launch(const pst_kernel_row *row, pst_device *cpu, const pst_call *call) {
    pst_arg args[PST_MAX_ARG];
    uint32_t n = call->node->op->args(call->node, row->pass, args);
    PST_TRY(check(row, call, args, n));
    return launch_compact(row, cpu, call, args, n);
}
