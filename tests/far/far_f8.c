/* Linear in fp8 on a processor: rounds copies of both factors, and calls the kernels of bf16. See
 * far_f8.h. */
#include "far/far_f8.h"
#include "kernels/shape.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT, X, DY, BEFORE = 16 };

int far_f8_takes(const pst_kernel_row *row, const pst_call *call) {
    return !strcmp(row->op, "linear") && pst_node_factors(call->graph, call->node) == PST_F8;
}

static far_f8_tensor *find(far_f8 *f, const char *node, int which) {
    for (uint32_t i = 0; i < f->n; i++)
        if (f->tensor[i].which == which && !strcmp(f->tensor[i].node, node)) return &f->tensor[i];
    if (f->n == FAR_F8_TENSORS) abort();
    far_f8_tensor *t = &f->tensor[f->n++];
    snprintf(t->node, sizeof t->node, "%s", node);
    t->which = which;
    return t;
}

/* What is to fit: the largest of the 16 steps before, or own. */
static float to_fit(far_f8_tensor *t, const pst_call *call, float own) {
    float most = 0;
    if (call->train) {
        if (call->step >= FAR_F8_STEPS) abort();
        if (!t->noted) {
            t->first = call->step;
            t->noted = 1;
        }
        t->latest = call->step;
        t->most[call->step] = fmaxf(t->most[call->step], own);
    }
    if (!t->noted || t->latest == t->first) return own;
    uint64_t from = t->latest > t->first + BEFORE ? t->latest - BEFORE : t->first;
    for (uint64_t step = from; step < t->latest; step++) most = fmaxf(most, t->most[step]);
    return most;
}

/* By the bits of a number of bf16, which one of 8 bits is, too. */
static const uint16_t *nearest(far_f8 *f, int wide) {
    for (uint32_t bits = 0; !f->made[wide] && bits < 1 << 16; bits++)
        f->nearest[wide][bits] = pst_bf16_from_f32(
            pst_f32_from_f8(wide, pst_f8_from_f32(wide, pst_f32_from_bf16((uint16_t)bits))));
    f->made[wide] = 1;
    return f->nearest[wide];
}

/* A copy of n numbers. */
static uint16_t *rounded(far_f8 *f, const pst_call *call, int which, const uint16_t *x,
                         uint64_t n) {
    uint16_t *y = malloc(n * sizeof *y);
    const uint16_t *table = nearest(f, which == DY);
    float own = 0, largest = which == DY ? 57344 : 448;
    if (!y) abort();
    for (uint64_t i = 0; i < n; i++) own = fmaxf(own, fabsf(pst_f32_from_bf16(x[i])));
    float fit = to_fit(find(f, call->node->name, which), call, own);
    float scale = fit > 0 ? exp2f(floorf(log2f(largest / fit))) : 1;
    for (uint64_t i = 0; i < n; i++)
        y[i] = pst_bf16_from_f32(
            pst_f32_from_bf16(table[pst_bf16_from_f32(pst_f32_from_bf16(x[i]) * scale)]) / scale);
    return y;
}

static void sum_columns(const uint16_t *dy, uint64_t rows, uint64_t n, int first, float *sum) {
    for (uint64_t j = 0; j < n; j++) {
        double all = first ? 0 : sum[j];
        for (uint64_t r = 0; r < rows; r++) all += pst_f32_from_bf16(dy[r * n + j]);
        sum[j] = (float)all;
    }
}

/* Without bias and activation, which the kernel may not apply again. */
static pst_status product(const pst_kernel_row *row, pst_device *cpu, const pst_call *call, void *a,
                          void *b, void *to) {
    pst_node plain = *call->node;
    pst_call c = *call;
    void *arg[PST_MAX_ARG] = {a, b, to};
    plain.attr.activation = PST_ACT_NONE;
    plain.n_param = 1;
    plain.n_saved = 0;
    c.node = &plain;
    c.arg = arg;
    return row->launch(cpu, &c);
}

pst_status far_f8_launch(far_f8 *f, const pst_kernel_row *row, pst_device *cpu,
                         const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), k = pst_tensor_last(in),
             n = call->graph->param[call->node->param[0]].dim[0];
    int active = call->node->attr.activation != PST_ACT_NONE;
    pst_status status = PST_OK;
    uint16_t *a, *b;
    if (row->pass == PST_PASS_F) {
        void *arg[PST_MAX_ARG];
        pst_call c = *call;
        memcpy(arg, call->arg, sizeof arg);
        arg[0] = a = rounded(f, call, X, call->arg[0], rows * k);
        arg[1] = b = rounded(f, call, WEIGHT, call->arg[1], n * k);
        c.arg = arg;
        status = row->launch(cpu, &c);
    } else if (row->pass == PST_PASS_B) {
        if (active) status = row->launch(cpu, call); /* for dz */
        a = rounded(f, call, WEIGHT, call->arg[0], n * k);
        b = rounded(f, call, DY, call->arg[active ? 3 : 1], rows * n);
        if (status == PST_OK) status = product(row, cpu, call, a, b, call->arg[active ? 4 : 2]);
    } else {
        a = rounded(f, call, X, call->arg[0], rows * k);
        b = rounded(f, call, DY, call->arg[1], rows * n);
        if (call->node->n_param > 1) sum_columns(call->arg[1], rows, n, call->first, call->arg[3]);
        status = product(row, cpu, call, a, b, call->arg[2]);
    }
    free(a);
    free(b);
    return status;
}
