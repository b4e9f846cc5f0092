/* See repeat.h. */
#include "rank/repeat.h"
#include "rank/extent.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of an operand; an accumulator may have a sum for each block. */
static uint64_t bytes_of(const pst_rank_call *c, uint32_t i) {
    const pst_operand *o = c->step->operand + i;
    const pst_graph *g = c->call.graph;
    if (o->kind == PST_OPERAND_DPARAM || o->kind == PST_OPERAND_UNREAD)
        return pst_param_sums(g->param + o->index) * sizeof(float);
    pst_extent e = pst_extent_of(g, pst_rank_sizes(c->rank, c->micro), c->chunk, o);
    return e.n * pst_dtype_bytes(e.dtype);
}

pst_status pst_repeat_open(const pst_rank_call *c, pst_repeat *x) {
    uint64_t bytes = 1, at = 0;
    *x = (pst_repeat){.memory = NULL};
    if (!pst_recorder_repeats(c->rank->recorder) || c->rank->on_device || !c->rank->train)
        return PST_OK;
    for (uint32_t i = 0; i < c->step->n_operand; i++)
        if (c->arg[i]) bytes += pst_align(bytes_of(c, i));
    x->memory = malloc(bytes);
    if (!x->memory) return pst_fail(PST_ENOMEM, "no memory to repeat an operator");
    for (uint32_t i = 0; i < c->step->n_operand; i++) {
        if (!c->arg[i]) continue;
        uint64_t n = bytes_of(c, i);
        x->arg[i] = x->memory + at;
        at += pst_align(n);
        if (c->step->operand[i].access & PST_READ) memcpy(x->arg[i], c->arg[i], n);
        else memset(x->arg[i], 0, n);
    }
    return PST_OK;
}

static const pst_kernel_row *reference_of(const pst_rank_call *c) {
    uint32_t n;
    const pst_kernel_row *row = pst_kernels_ref(&n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(row[i].op, c->kernel->op) && row[i].pass == c->kernel->pass &&
            row[i].dtypes & 1u << c->rank->graph->dtype)
            return row + i;
    return NULL;
}

pst_status pst_repeat_run(const pst_rank_call *c, const pst_repeat *x) {
    const pst_kernel_row *row = x->memory ? reference_of(c) : NULL;
    if (!row) return PST_OK;
    pst_call call = c->call;
    uint64_t bytes = row->scratch ? row->scratch(call.graph, call.node, 1) : 0;
    call.arg = x->arg;
    call.scratch = malloc(bytes + 1);
    if (!call.scratch) return pst_fail(PST_ENOMEM, "no memory to repeat an operator");
    pst_status status = row->launch(NULL, &call);
    const pst_recorder_launch launch = {c->step, c->chunk, c->micro, x->arg};
    if (status == PST_OK) status = pst_recorder_repeated(c->rank, &launch);
    free(call.scratch);
    return status;
}

void pst_repeat_close(pst_repeat *x) { free(x->memory); }
