/* The end of a step on one rank: the optimizer, also ahead of the answer that says whether it may (post-validation). */
#include "base/arena.h"
#include "engine/rank.h"
#include <math.h>
#include <string.h>

static void *at(const pst_rank *r, uint64_t offset) { return r->arena.base + offset; }

/* The master weight as kernels read it. Nothing to do in fp32, where it is the same memory. */
void pst_rank_refresh_part(pst_rank *r, uint32_t param, uint64_t from, uint64_t to) {
    const float *master = pst_rank_weight(r, param);
    if (!master || r->graph->dtype == PST_F32) return;
    uint16_t *weight = at(r, r->layout->weight[param]);
    r->flat->narrow(r->device->pool, r->p->graph->dtype, master + (from - r->layout->step_from[param]), weight + from,
                    to - from);
}

/* Until the checkpoint under way has what it needs of the parameter. Messages go on meanwhile; the disk may be slow,
 * and that is no hang. */
static void await_checkpoint(pst_rank *r, uint32_t param) {
    if (!r->may_change || r->may_change(r->may_change_arg, param)) return;
    uint32_t activity = r->position ? PST_POSITION_GET(r->position, activity) : 0;
    if (r->position) PST_POSITION_SET(r->position, activity, PST_AT_HOST), pst_position_move(r->position);
    do {
        if (r->executor) pst_executor_poll(r->executor);
    } while (!r->may_change(r->may_change_arg, param));
    if (!r->position) return;
    PST_POSITION_SET(r->position, activity, activity);
    PST_POSITION_SET(r->position, since_ns, pst_monotonic_ns());
    pst_position_move(r->position);
}

/* --- what STEP changes ------------------------------------------------------------------------------------------ */

/* From the arrays to where they are kept, or back. */
typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes;
} copying;

enum { COPY_TILE = 1 << 18 };

static void copy_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const copying *c = arg;
    uint64_t first = tile * COPY_TILE, left = c->bytes - first;
    memcpy(c->to + first, c->from + first, left < COPY_TILE ? left : COPY_TILE);
}

/* Array 0 is the master weight, those behind it the optimizer's states. */
static void copy_array(const pst_rank *r, uint32_t param, uint32_t array, int back) {
    uint64_t bytes = (r->layout->step_to[param] - r->layout->step_from[param]) * sizeof(float);
    float *own = array ? pst_rank_state(r, param, array - 1) : pst_rank_weight(r, param);
    void *kept = at(r, r->layout->undo[param] + array * pst_align(bytes));
    copying c = {back ? (void *)own : kept, back ? kept : (void *)own, bytes};
    pst_pool_run(r->device->pool, copy_tile, &c, (bytes + COPY_TILE - 1) / COPY_TILE);
}

static void copy_param(const pst_rank *r, uint32_t param, int back) {
    for (uint32_t i = 0; i <= r->p->optim->n_state; i++) copy_array(r, param, i, back);
}

static int steps(const pst_rank *r, uint32_t param) { return r->layout->step_from[param] < r->layout->step_to[param]; }

/* keeps: what is changed is kept before. */
static void apply(pst_rank *r, double clip_scale, int keeps) {
    const pst_prepared *p = r->p;
    pst_optim_hyper h = r->hyper;
    h.grad_scale = (float)(clip_scale / r->loss_scale);
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        uint64_t from = r->layout->step_from[i], to = r->layout->step_to[i];
        float *state[2] = {NULL, NULL};
        if (!steps(r, i)) continue;
        await_checkpoint(r, i);
        if (keeps) copy_param(r, i, 0);
        for (uint32_t s = 0; s < p->optim->n_state; s++) state[s] = pst_rank_state(r, i, s);
        h.decay = r->graph->param[i].decay ? r->hyper.decay : 0;
        r->flat->update(r->device->pool, p->optim->kind, &h, pst_rank_weight(r, i), pst_rank_sum(r, i, from), state,
                        to - from);
        pst_rank_refresh_part(r, i, from, to);
    }
}

static void undo(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (!steps(r, i)) continue;
        copy_param(r, i, 1);
        pst_rank_refresh_part(r, i, r->layout->step_from[i], r->layout->step_to[i]);
    }
}

/* --- ahead of the answer ---------------------------------------------------------------------------------------- */

/* What the rank knows: its own losses and sums of squares. As soon as these alone ask for clipping, or are not finite,
 * the step waits for the answer. */
static int may_step(const pst_rank *r) {
    const double *own = at(r, r->layout->norm_own);
    double squares = 0, loss = 0, clip = r->p->config->train.clip;
    for (uint32_t i = 0; i < r->layout->loss_of_rank[r->rank]; i++) loss += *own++;
    for (uint32_t i = 0; i < r->layout->piece_of_rank[r->rank]; i++) squares += *own++;
    double norm = sqrt(squares) / r->loss_scale;
    return !r->replay && isfinite(loss) && isfinite(norm) && !(clip > 0 && norm > clip);
}

static void step_ahead(pst_rank *r) {
    uint32_t last = r->graph->n_param;
    r->stepped = may_step(r);
    if (r->stepped) {
        apply(r, 1.0, 1);
        return;
    }
    while (last > 0 && !steps(r, last - 1)) last--; /* the memory that was predicted is touched in any case */
    if (last > 0) copy_array(r, last - 1, r->p->optim->n_state, 0);
}

/* The answer: sum of losses, norm, clip factor. 1: the weights stay numbers. */
static int take_answer(pst_rank *r) {
    const double *answer = at(r, r->layout->norm_answer);
    r->loss_sum = answer[0], r->grad_norm = answer[1], r->clip_scale = answer[2];
    return isfinite(answer[0]) && isfinite(answer[1]) && !r->replay;
}

pst_status pst_rank_step(pst_device *device, const void *block) {
    (void)device;
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    if (r->p->job->post) step_ahead(r);
    else if (take_answer(r)) apply(r, r->clip_scale, 0);
    return PST_OK;
}

pst_status pst_rank_validate(pst_device *device, const void *block) {
    (void)device;
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    int good = take_answer(r);
    r->rolled_back = r->stepped && !(good && r->clip_scale == 1.0);
    if (r->rolled_back) undo(r);
    if (good && (!r->stepped || r->rolled_back)) apply(r, r->clip_scale, 0);
    return PST_OK;
}
