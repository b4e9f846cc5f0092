/* PACK and UNPACK: of gradients, before they are summed, and of changes of weights, behind STEP; as
 * steps of passes, of what stages send each other.
 * Every rank with a parameter whose changes are sent has the same copy of it, which operators read;
 * its owner also has the weight. What packing leaves out of a change is part of the next one: the
 * change is the difference between weight and copy. */
#include "base/arena.h"
#include "rank/rank.h"
#include <math.h>

/* The replica's step is the one of its own mean gradient, weighted with its share of the
 * micro-batches. The loss scale is in the gradient, and in `codec.moments` steps it is not. */
static pst_flat_moments moments_of(const pst_rank *r, float *second) {
    const float share = (float)r->n_micro / (float)r->p->micro[r->p->grid.data];
    return (pst_flat_moments){.second = second,
                              .in = (float)(1 / (r->loss_scale * (double)share)),
                              .out = share,
                              .beta2 = r->hyper.beta2,
                              .eps = r->hyper.eps,
                              .root = 1 / sqrtf(r->hyper.correction2)};
}

/* Gradient and residual have different scales: the residual's is 1, and so is that of steps. */
static pst_status pack_gradient(pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    const pst_memory_pack at = pst_memory_map_pack(&view, in);
    const pst_flat_moments moments = moments_of(r, at.second);
    if (at.second) pst_rank_await_checkpoint(r, in->param);
    const pst_flat_pack of = {.x = at.gradient,
                              .error = at.residual,
                              .scale = at.second ? 1 : (float)r->loss_scale,
                              .moments = at.second ? &moments : NULL,
                              .basis = at.basis,
                              .packed = at.packed,
                              .next = at.next,
                              .decode = !at.in_place,
                              .n = in->n,
                              .codec =
                                  pst_job_codec(r->p->job, r->graph->param + in->param, in->from)};
    return r->arith->pack(r->device, &of);
}

static pst_status unpack_gradient(const pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    float *sum, *operand;
    pst_memory_map_reduce(&view, in, &sum, &operand);
    return r->arith->unpack(r->device,
                            pst_job_codec(r->p->job, r->graph->param + in->param, in->from),
                            pst_memory_map_packed(&view, in), sum, in->n, 0);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* A change that is all bytes 0 adds 0, whatever the codec. */
static pst_status pack_change(pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    const pst_codec codec = r->p->job->down;
    float *copy = pst_rank_copied(r, in->param) + in->from;
    float *weight = pst_rank_weight(r, in->param) + (in->from - r->memory->step_from[in->param]);
    uint8_t *packed = pst_memory_map_message(&view, in);
    if (!r->applied && !in->packed) return PST_OK;
    if (!r->applied) return pst_rank_fill(r, packed, 0, pst_codec_bytes(codec, in->n));
    pst_rank_await_checkpoint(r, in->param);
    if (!in->packed) return pst_rank_copy(r, copy, weight, in->n * sizeof *copy);
    PST_TRY(r->arith->pack(r->device, &(pst_flat_pack){.x = weight,
                                                       .error = copy,
                                                       .scale = -1,
                                                       .packed = packed,
                                                       .n = in->n,
                                                       .codec = codec}));
    return r->arith->unpack(r->device, codec, packed, copy, in->n, 1);
}

static pst_status unpack_change(const pst_rank *r, const pst_instr *in) {
    const pst_memory_view view = pst_rank_view(r);
    if (!r->applied) return PST_OK;
    return r->arith->unpack(r->device, r->p->job->down, pst_memory_map_message(&view, in),
                            pst_rank_copied(r, in->param) + in->from, in->n, 1);
}

pst_status pst_rank_pack(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    (void)device;
    if (f->instr->outer) return pst_rank_pack_difference(f->rank, f->instr);
    return f->instr->use == PST_NONE ? pack_change(f->rank, f->instr)
                                     : pack_gradient(f->rank, f->instr);
}

pst_status pst_rank_unpack(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    (void)device;
    return f->instr->use == PST_NONE ? unpack_change(f->rank, f->instr)
                                     : unpack_gradient(f->rank, f->instr);
}

/* --- between stages --------------------------------------------------------------------------- */

/* Nothing is added to a value before it is packed: scale 0. */
static pst_status pack_value(const pst_rank_call *c, const pst_codec codec, uint64_t n) {
    const pst_rank *r = c->rank;
    const pst_flat_pack of = {.x = c->arg[0],
                              .error = c->arg[0],
                              .scale = 0,
                              .packed = c->arg[1],
                              .n = n,
                              .codec = codec};
    return r->arith->pack(r->device, &of);
}

pst_status pst_rank_launch(const pst_rank_call *c) {
    const pst_rank *r = c->rank;
    const pst_codec codec = r->cut->packing.codec;
    const uint64_t n = c->step->flops;
    switch (c->step->extra) {
    case PST_EXTRA_PACK: return pack_value(c, codec, n);
    case PST_EXTRA_UNPACK: return r->arith->unpack(r->device, codec, c->arg[0], c->arg[1], n, 0);
    default: return c->kernel->launch(r->device, &c->call);
    }
}
