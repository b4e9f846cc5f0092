/* The outer step of islands (pipeline/compile/outer.h): SGD, with momentum, on the mean of what
 * each island has subtracted from the old weights. */
#include "base/pool.h"
#include "rank/rank.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, TILE = 64 * BLOCK }; /* elements */

typedef struct {
    /* [islands] the weights of each, and its share of the mean */
    const float **in;
    float *share;
    uint32_t islands;
    float *weight, *old, *velocity; /* velocity NULL: no momentum */
    uint64_t n;
    float lr, momentum;
    int nesterov;
    int differences; /* 1: `in` has old - weight */
} stepping;

/* The sum over islands [lo, hi) of elements [at, at + n), at most BLOCK. */
static void add_islands(const stepping *s, uint64_t at, uint32_t n, const uint32_t range[2],
                        float *out) {
    const uint32_t lo = range[0], hi = range[1];
    float right[BLOCK];
    if (hi - lo == 1) {
        const float *old = s->old + at, *in = s->in[lo] + at;
        for (uint32_t i = 0; s->differences && i < n; i++) out[i] = in[i] * s->share[lo];
        for (uint32_t i = 0; !s->differences && i < n; i++)
            out[i] = (old[i] - in[i]) * s->share[lo];
        return;
    }
    const uint32_t middle = pst_share_split(lo, hi);
    add_islands(s, at, n, (const uint32_t[]){lo, middle}, out);
    add_islands(s, at, n, (const uint32_t[]){middle, hi}, right);
    for (uint32_t i = 0; i < n; i++) out[i] += right[i];
}

static void step_block(const stepping *s, uint64_t at, uint32_t n) {
    float gradient[BLOCK], *old = s->old + at, *velocity = s->velocity ? s->velocity + at : NULL;
    add_islands(s, at, n, (const uint32_t[]){0, s->islands}, gradient);
    for (uint32_t i = 0; velocity && i < n; i++) {
        velocity[i] = s->momentum * velocity[i] + gradient[i];
        gradient[i] = s->nesterov ? gradient[i] + s->momentum * velocity[i] : velocity[i];
    }
    for (uint32_t i = 0; i < n; i++) old[i] -= s->lr * gradient[i];
    memcpy(s->weight + at, old, n * sizeof *old);
}

static void step_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const stepping *s = arg;
    const uint64_t first = tile * TILE, end = first + TILE < s->n ? first + TILE : s->n;
    for (uint64_t at = first; at < end; at += BLOCK)
        step_block(s, at, end - at < BLOCK ? (uint32_t)(end - at) : BLOCK);
}

/* Islands with more of the batch count more. Running statistics become their mean. */
static void set_rule(const pst_rank *r, const pst_instr *in, stepping *s) {
    const pst_prepared *p = r->p;
    const pst_memory_map *x = r->memory;
    const pst_memory_view view = pst_rank_view(r);
    const uint32_t group = pst_job_group(p->job), own = pst_job_island(p->job, r->place.replica);
    const uint64_t at = in->from - x->outer_from[in->param];
    const int statistic = r->graph->param[in->param].statistic;
    s->islands = p->job->islands;
    s->weight = pst_rank_weight(r, in->param) + (in->from - x->step_from[in->param]);
    if (p->job->syncs == PST_SYNC_TURN) s->weight = pst_memory_map_kept(&view, in->param, in->from);
    s->old = (float *)(void *)(r->arena.base + x->old[in->param]) + at;
    s->velocity = NULL;
    if (x->velocity[in->param] != UINT64_MAX)
        s->velocity = (float *)(void *)(r->arena.base + x->velocity[in->param]) + at;
    s->n = in->n;
    s->differences = in->packed != 0;
    s->lr = statistic ? 1 : (float)p->config->parallel.local.outer.lr;
    s->momentum = (float)p->config->parallel.local.outer.momentum;
    s->nesterov = !strcmp(p->config->parallel.local.outer.nesterov, "true");
    for (uint32_t k = 0; k < s->islands; k++) {
        const uint32_t micros = p->micro[(k + 1) * group] - p->micro[k * group];
        s->share[k] = (float)micros / (float)p->micro[p->grid.data];
        s->in[k] = k == own ? s->weight : pst_memory_map_outer(&view, in->buffer + k - (k > own));
    }
}

/* The difference is in the place of the weight, as the owner will unpack it. */
pst_status pst_rank_pack_difference(pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    const pst_memory_map *x = r->memory;
    const uint64_t at = in->from - x->own_from[in->param];
    const float *old = (const float *)(const void *)(r->arena.base + x->base[in->param]) + at;
    float *left = (float *)(void *)(r->arena.base + x->left[in->param]) + at;
    float *weight = pst_rank_weight(r, in->param) + (in->from - x->step_from[in->param]);
    if (r->replay) return PST_OK;
    pst_rank_await_checkpoint(r, in->param);
    for (uint32_t i = 0; i < in->n; i++) weight[i] = old[i] - weight[i];
    const pst_flat_pack of = {.x = weight,
                              .error = left,
                              .scale = 1,
                              .packed = pst_memory_map_difference(&view, in),
                              .next = left,
                              .decode = 1,
                              .n = in->n,
                              .codec = r->p->job->islands_codec};
    pst_flat_choose(r->device->isa)->pack(r->device->pool, &of);
    return PST_OK;
}

/* Those of other islands, before they are added. */
static void unpack_differences(const pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    for (uint32_t k = 0; in->packed && k + 1 < r->p->job->islands; k++)
        pst_flat_choose(r->device->isa)
            ->unpack(r->device->pool, r->p->job->islands_codec,
                     pst_memory_map_outer_packed(&view, in->buffer + k),
                     pst_memory_map_outer(&view, in->buffer + k), in->n, 0);
}

/* The next differences are to these weights. */
static pst_status end_exchange(pst_rank *r) {
    const pst_memory_map *x = r->memory;
    for (uint32_t p = 0; p < r->graph->n_param; p++) {
        if (x->base[p] == UINT64_MAX || !pst_job_exchanges(r->p->job, p)) continue;
        const float *weight = pst_rank_weight(r, p) + (x->own_from[p] - x->step_from[p]);
        memcpy(r->arena.base + x->base[p], weight,
               (x->own_to[p] - x->own_from[p]) * sizeof *weight);
    }
    return pst_rank_refresh(r);
}

/* Weights are kept, or mixed with the result that is in their place. */
static void move_kept(pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    float *kept = pst_memory_map_kept(&view, in->param, in->from),
          *weight = pst_rank_weight(r, in->param) + (in->from - r->memory->step_from[in->param]);
    const float alpha = (float)r->p->config->parallel.local.alpha;
    if (in->outer == PST_OUTER_KEEP) memcpy(kept, weight, in->n * sizeof *kept);
    else if (alpha == 0) memcpy(weight, kept, in->n * sizeof *kept);
    else
        for (uint32_t i = 0; i < in->n; i++) weight[i] = alpha * weight[i] + (1 - alpha) * kept[i];
}

static pst_status step_piece(pst_rank *r, const pst_instr *in, pst_pool *pool) {
    const uint32_t islands = r->p->job->islands;
    stepping s = {.in = malloc(islands * sizeof *s.in), .share = malloc(islands * sizeof *s.share)};
    pst_status status =
        s.in && s.share ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the outer step");
    if (status == PST_OK) {
        unpack_differences(r, in);
        set_rule(r, in, &s);
        pst_pool_run(pool, step_tile, &s, (s.n + TILE - 1) / TILE);
    }
    free(s.in);
    free(s.share);
    return status;
}

pst_status pst_rank_outer(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    pst_rank *r = f->rank;
    if (r->replay) return PST_OK;
    if (f->instr->param == PST_NONE) return end_exchange(r);
    pst_rank_await_checkpoint(r, f->instr->param);
    if (!f->instr->outer) return step_piece(r, f->instr, device->pool);
    move_kept(r, f->instr);
    return PST_OK;
}
