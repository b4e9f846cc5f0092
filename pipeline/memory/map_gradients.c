/* The region of gradients: accumulators, slots for a micro-batch's sharded gradients, and receive
 * buffers of replica sums. */
#include "pipeline/memory/map_builder.h"

#define ABSENT UINT64_MAX

/* The elements of the longest part of a parameter of which this rank is a relay (job.near). */
static uint64_t longest_relayed(const pst_memory_map_builder *b, uint32_t p) {
    const pst_grid_place at = pst_grid_at(b->job->grid, b->map->rank);
    const uint32_t member = pst_job_member(b->job, at.replica);
    const pst_share *share = b->job->share[at.tensor];
    uint64_t most = 0;
    if (!pst_param_gradients(&b->g->param[p]) || !pst_memory_map_shards(b, p)) return 0;
    for (uint32_t k = 0; k < share->n_owner && b->job->near > 1; k++) {
        const uint64_t n = pst_share_to(share, p, k) - pst_share_from(share, p, k);
        if (pst_job_relays(b->job, member, k) && n > most) most = n;
    }
    return most;
}

/* The elements of the longest message that this rank receives, of gradients that are packed or
 * not. */
static uint64_t longest_message(const pst_memory_map_builder *b, int packed) {
    const pst_memory_map *x = b->map;
    const uint64_t message = b->job->share[pst_grid_at(b->job->grid, x->rank).tensor]->message;
    uint64_t most = 0;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if (packed == (x->residual[p] != ABSENT && !b->job->plain) &&
            x->own_to[p] - x->own_from[p] > most)
            most = x->own_to[p] - x->own_from[p];
    for (uint32_t p = 0; p < pst_memory_map_params(b) && !packed; p++) {
        const uint64_t relayed = longest_relayed(b, p);
        most = relayed > most ? relayed : most;
    }
    return most < message ? most : message;
}

/* The bytes of the largest packed message. With powersgd that is not always the longest one: a
 * short rest may be sent as it is. */
static uint64_t most_packed_bytes(const pst_memory_map_builder *b) {
    const pst_memory_map *x = b->map;
    const uint64_t message = b->job->share[pst_grid_at(b->job->grid, x->rank).tensor]->message;
    uint64_t most = 0;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        const uint64_t own = x->own_to[p] - x->own_from[p];
        const uint64_t part[2] = {own < message ? own : message, own % message};
        if (x->residual[p] == ABSENT || b->job->plain) continue;
        for (int i = 0; i < 2; i++) {
            const uint64_t bytes =
                pst_codec_bytes(pst_job_codec(b->job, b->g->param + p, 0), part[i]);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

/* A buffer holds the longest piece that this rank reduces. With two replicas a received gradient is
 * only ever added to this rank's own, so that no packed one needs memory in which it is fp32. */
static void place_buffers(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    const uint64_t packed = longest_message(b, 1), plain = longest_message(b, 0);
    x->buffer = ABSENT;
    if (!optim || (!packed && !plain) || !pst_job_buffers(b->job)) return;
    x->n_buffer = pst_job_buffers(b->job);
    if (pst_job_group(b->job) > 2) x->buffer_packed = pst_align(packed * sizeof(float));
    x->buffer_bytes = packed ? x->buffer_packed + most_packed_bytes(b) : 0;
    if (plain * sizeof(float) > x->buffer_bytes) x->buffer_bytes = plain * sizeof(float);
    x->buffer =
        pst_memory_map_take(b, (x->n_buffer - 1) * pst_align(x->buffer_bytes) + x->buffer_bytes);
}

/* The packed differences of this rank, until they are sent. */
static void place_differences(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        if (x->base[p] == ABSENT || !pst_job_exchanges(b->job, p)) continue;
        x->difference[p] = pst_memory_map_take(
            b, pst_codec_bytes(x->islands_codec, x->own_to[p] - x->own_from[p]));
    }
}

void pst_memory_map_place_outer_buffers(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    uint64_t most = 0;
    x->outer_buffer = ABSENT;
    if (!pst_job_outer_buffers(b->job)) return;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if (x->outer_to[p] - x->outer_from[p] > most) most = x->outer_to[p] - x->outer_from[p];
    const uint64_t message = b->job->outer[pst_grid_at(b->job->grid, x->rank).tensor]->message;
    if (!most) return;
    x->n_outer_buffer = pst_job_outer_buffers(b->job);
    const uint64_t longest = most < message ? most : message;
    x->outer_buffer_bytes = longest * sizeof(float);
    if (x->islands_codec.kind != PST_CODEC_NONE) {
        x->outer_packed = pst_align(x->outer_buffer_bytes);
        x->outer_buffer_bytes = x->outer_packed + pst_codec_bytes(x->islands_codec, longest);
    }
    x->outer_buffer = pst_memory_map_take(
        b, (x->n_outer_buffer - 1) * pst_align(x->outer_buffer_bytes) + x->outer_buffer_bytes);
}

/* The size of all parts of a use. */
static uint64_t accumulator_bytes(const pst_memory_map_builder *b, uint32_t p) {
    const uint64_t bytes = pst_param_sums(b->g->param + p) * sizeof(float);
    return (b->map->parts - 1) * pst_align(bytes) + bytes;
}

static int is_sharded(const pst_memory_map_builder *b, uint32_t p) {
    return pst_job_shards_gradient(b->job, pst_grid_at(b->job->grid, b->map->rank).tensor, p);
}

/* Of a server: the elements that it owns, for use 0. */
static void place_served(pst_memory_map_builder *b, const pst_optim_row *optim, uint32_t p) {
    pst_memory_map *x = b->map;
    const uint64_t bytes = (x->own_to[p] - x->own_from[p]) * sizeof(float);
    for (uint32_t u = 0; u < pst_param_gradients(&b->g->param[p]); u++) x->grad[p][u] = ABSENT;
    x->grad_from[p] = x->own_from[p];
    if (optim && bytes) x->grad[p][0] = pst_memory_map_take(b, bytes);
}

static void place_accumulators(pst_memory_map_builder *b, const pst_optim_row *optim, int partial) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; x->serves && !partial && p < pst_memory_map_params(b); p++)
        place_served(b, optim, p);
    for (uint32_t p = 0; !x->serves && p < pst_memory_map_params(b); p++)
        for (uint32_t u = 0;
             u < pst_param_gradients(&b->g->param[p]) && b->g->param[p].slice.partial == partial;
             u++) {
            uint64_t bytes = accumulator_bytes(b, p);
            if (is_sharded(b, p)) {
                x->grad_from[p] = x->own_from[p];
                bytes = (x->own_to[p] - x->own_from[p]) * sizeof(float);
            }
            x->grad[p][u] = optim && pst_memory_map_has_use(b, p, u) && bytes
                                ? pst_memory_map_take(b, bytes)
                                : ABSENT;
        }
}

/* The other sets of accumulators follow the first. */
static void place_sets(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    x->n_set = 1 + b->job->staleness;
    x->set_bytes = pst_align(b->end - x->start[PST_REGION_GRAD]);
    const uint64_t more = (x->n_set - 1) * x->set_bytes;
    if (more && b->end > x->start[PST_REGION_GRAD]) pst_memory_map_take(b, more);
}

/* The number of slots that this rank's passes use, each sized for its largest chunk. */
static void place_gradient_slots(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) x->gradient_in_slot[p] = ABSENT;
    if (!optim || !b->slots->gradient) return;
    for (uint32_t c = 0; c < b->cut->n_chunk; c++) {
        uint64_t bytes = 0;
        for (uint32_t p = 0; p < pst_memory_map_params(b) && pst_memory_map_has(b, c); p++) {
            if (!is_sharded(b, p) || b->cut->use_chunk[b->cut->use_first[p]] != c) continue;
            x->gradient_in_slot[p] = pst_align(bytes);
            bytes = x->gradient_in_slot[p] + pst_memory_map_param_bytes(b, p);
            x->gradient_saved +=
                (int64_t)(pst_align(pst_memory_map_param_bytes(b, p)) -
                          pst_align((x->own_to[p] - x->own_from[p]) * sizeof(float)));
        }
        if (bytes > x->gradient_bytes) x->gradient_bytes = bytes;
        for (uint32_t m = 0; m < b->slots->n_micro && pst_memory_map_has(b, c); m++) {
            uint32_t slot = b->slots->gradient[(size_t)c * b->slots->n_micro + m];
            if (slot >= x->n_gradient) x->n_gradient = slot + 1;
        }
    }
    if (!x->gradient_bytes) return;
    x->gradient_saved -= (int64_t)(x->n_gradient * pst_align(x->gradient_bytes));
    x->gradient = pst_memory_map_take(b, (x->n_gradient - 1) * pst_align(x->gradient_bytes) +
                                             x->gradient_bytes);
}

/* Packed gradients and changes, each until the next step: a rank packs all that it sends at once,
 * whether or not earlier messages have left. */
static void place_packed(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        const uint64_t n = pst_param_elements(b->g->param + p);
        x->change[p] = ABSENT;
        if (b->job->plain) continue;
        if (x->residual[p] != ABSENT)
            x->packed[p] = pst_memory_map_take(
                b, pst_codec_bytes(pst_job_codec(b->job, b->g->param + p, 0), n));
        if (x->is_copy[p]) x->change[p] = pst_memory_map_take(b, pst_codec_bytes(b->job->down, n));
    }
}

void pst_memory_map_place_gradients(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map_begin(b, PST_REGION_GRAD);
    place_accumulators(b, optim, 1);
    b->map->partial = b->map->start[PST_REGION_GRAD];
    b->map->partial_bytes = b->end > b->map->partial ? b->end - b->map->partial : 0;
    place_accumulators(b, optim, 0);
    place_sets(b);
    place_gradient_slots(b, optim);
    place_packed(b);
    place_buffers(b, optim);
    if (!b->job->delay) pst_memory_map_place_outer_buffers(b);
    if (!b->job->delay) place_differences(b);
    pst_memory_map_finish(b, PST_REGION_GRAD);
}
