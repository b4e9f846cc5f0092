#include "kernels/cuda/fp8.h"
#include "base/grow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 89, WEIGHT = 0, X, DY, SCALINGS };
static const uint32_t wide = 1u << DY;

typedef struct {
    char node[PST_NAME_MAX];
    pst_cuda_scaling *scaling; /* [SCALINGS] in device memory */
    uint64_t step;             /* step in which the current magnitudes were recorded */
    int noted, begun;          /* 1: magnitudes were recorded; 1: there is history */
    uint64_t kept_step[2];     /* [pass, F or B] step for which the rounded weight was stored */
    int kept[2];               /* 1: there is a stored rounded weight */
} entry;

struct pst_cuda_scalings {
    entry *list;
    uint32_t n, next; /* next: index at which the search for the next operator begins */
    size_t room;
};

/* --- the table -------------------------------------------------------------------------------- */

static pst_status add(pst_cuda_device *d, const char *node, entry **made) {
    struct pst_cuda_scalings *s = d->scalings;
    void *memory = NULL;
    if (!s) s = d->scalings = calloc(1, sizeof *s);
    if (!s) return pst_no_memory("for the table of scales");
    PST_TRY(pst_grow(&s->list, sizeof *s->list, s->n, &s->room, "for the table of scales"));
    PST_TRY(
        pst_cuda_status(cudaMalloc(&memory, SCALINGS * sizeof(pst_cuda_scaling)), "FP8 scales"));
    *made = &s->list[s->n++];
    **made = (entry){.scaling = memory};
    snprintf((*made)->node, sizeof(*made)->node, "%s", node);
    PST_TRY(
        pst_cuda_status(cudaMemset(memory, 0, SCALINGS * sizeof(pst_cuda_scaling)), "FP8 scales"));
    /* our streams do not wait for the default stream */
    return pst_cuda_status(cudaDeviceSynchronize(), "FP8 scales");
}

static pst_status find(pst_cuda_device *d, const char *node, entry **found) {
    struct pst_cuda_scalings *s = d->scalings;
    for (uint32_t i = 0; s && i < s->n; i++) {
        uint32_t at = (s->next + i) % s->n;
        if (strcmp(s->list[at].node, node)) continue;
        /* most likely the next request: another pass of this operator, or the next operator */
        s->next = at;
        *found = &s->list[at];
        return PST_OK;
    }
    return add(d, node, found);
}

pst_status pst_cuda_fp8_prepare(pst_device *device, const pst_node *node) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    entry *e;
    if (d->capability < OLDEST)
        return pst_fail(PST_EINPUT,
                        "train.precision fp8: GPU %d (sm_%d) does not support FP8 matrix products, "
                        "which need sm_%d or later; use bf16",
                        d->ordinal, d->capability, OLDEST);
    PST_TRY(pst_cuda_status(cudaSetDevice(d->ordinal), "the GPU"));
    return find(d, node->name, &e);
}

void pst_cuda_scalings_close(pst_cuda_device *device) {
    struct pst_cuda_scalings *s = device->scalings;
    for (uint32_t i = 0; s && i < s->n; i++) cudaFree(s->list[i].scaling);
    if (s) free(s->list);
    free(s);
    device->scalings = NULL;
}

/* --- launches --------------------------------------------------------------------------------- */

static const struct {
    int a, b, turned_a, turned_b;
} factors[] = {[PST_PASS_F] = {WEIGHT, X, 0, 0},
               [PST_PASS_B] = {WEIGHT, DY, 1, 0},
               [PST_PASS_W] = {X, DY, 1, 1}};

pst_cuda_shape pst_cuda_fp8_shape(pst_cuda_shape s, pst_pass pass) {
    s.in = PST_F8;
    s.trans_a = 1;
    s.trans_b = 0;
    s.wide = wide >> factors[pass].b & 1;
    s.fast = pass == PST_PASS_F;
    return s;
}

/* At the first call of a new step the magnitudes of the last one become history. A repeated step
 * has the same number. */
static pst_status enter_step(pst_device *device, const pst_call *call, entry *e) {
    if (!call->train || (e->noted && e->step == call->step)) return PST_OK;
    if (e->noted) {
        pst_cuda_scale_by_history(pst_cuda_stream(device), e->scaling, SCALINGS, wide);
        e->begun = 1;
    }
    e->noted = 1;
    e->step = call->step;
    return pst_cuda_launched("FP8 scales");
}

/* Whether the rounded weight of a pass is kept: pst_graph_pad reserves memory after the weight for
 * F's, then B's. Evaluations do not keep it: they run between steps, after the weight has
 * changed. */
static int keeps(const pst_call *call, pst_pass pass) {
    const pst_param *p = &call->graph->param[call->node->param[0]];
    return pass != PST_PASS_W && p->pad == pst_param_elements(p) && call->train;
}

static uint8_t *kept_at(const pst_call *call, pst_pass pass, const void *weight) {
    const pst_param *p = &call->graph->param[call->node->param[0]];
    return (uint8_t *)(uintptr_t)weight + pst_param_bytes(call->graph, p) +
           (pass == PST_PASS_B ? pst_param_elements(p) : 0);
}

static int is_kept(const entry *e, const pst_call *call, pst_pass pass) {
    return e->kept[pass] && e->kept_step[pass] == call->step;
}

/* True once the operator's scales for this step are set from history and its weight is rounded. */
int pst_cuda_fp8_captures(pst_device *device, const pst_call *call, pst_pass pass) {
    entry *e;
    if (find((pst_cuda_device *)device, call->node->name, &e) != PST_OK) return 0;
    if (!e->begun || (call->train && (!e->noted || e->step != call->step))) return 0;
    return !keeps(call, pass) || is_kept(e, call, pass);
}

static pst_status round_one(pst_device *device, const pst_call *call, const entry *e, int which,
                            pst_cuda_round r) {
    r.scaling = e->scaling + which;
    r.wide = (int)(wide >> which & 1);
    r.note = call->train;
    if (!e->begun) pst_cuda_scale_by_own(pst_cuda_stream(device), &r);
    pst_cuda_round_f8(pst_cuda_stream(device), &r);
    return pst_cuda_launched("rounding to FP8");
}

pst_status pst_cuda_fp8_product(pst_device *device, const pst_call *call, pst_pass pass,
                                const pst_cuda_shape *s, const pst_cuda_operands *of) {
    entry *e;
    int turned_a = factors[pass].turned_a, turned_b = factors[pass].turned_b;
    uint8_t *at = (uint8_t *)call->scratch + PST_CUDA_WORKSPACE, *after = at + s->m * s->k;
    int kept = keeps(call, pass);
    if (kept) at = kept_at(call, pass, of->a);
    const pst_cuda_round first = {.x = of->a,
                                  .y = at,
                                  .rows = turned_a ? s->k : s->m,
                                  .columns = turned_a ? s->m : s->k,
                                  .turned = turned_a};
    const pst_cuda_round second = {.x = of->b,
                                   .y = after,
                                   .rows = turned_b ? s->k : s->n,
                                   .columns = turned_b ? s->n : s->k,
                                   .turned = turned_b};
    PST_TRY(find((pst_cuda_device *)device, call->node->name, &e));
    PST_TRY(enter_step(device, call, e));
    if (!kept || !is_kept(e, call, pass))
        PST_TRY(round_one(device, call, e, factors[pass].a, first));
    if (kept) e->kept[pass] = 1;
    if (kept) e->kept_step[pass] = call->step;
    PST_TRY(round_one(device, call, e, factors[pass].b, second));
    pst_cuda_operands rounded = *of;
    rounded.a = at;
    rounded.b = after;
    rounded.workspace = call->scratch;
    rounded.a_inverse = &e->scaling[factors[pass].a].inverse;
    rounded.b_inverse = &e->scaling[factors[pass].b].inverse;
    return pst_cuda_product_scaled(device, s, &rounded);
}
