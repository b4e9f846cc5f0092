/* Lays out one rank's arena: its chunks decide which buffers it has; these are placed one after
 * another, region by region. */
#include "pipeline/memory/map_builder.h"
#include <stdlib.h>
#include <string.h>

#define ABSENT UINT64_MAX

const char *pst_region_name(pst_region region) {
    static const char *const name[PST_REGION_COUNT] = {
        "weights", "optimizer state", "residual",  "twin",  "outer",  "control",
        "data",    "outputs",         "gradients", "slots", "scratch"};
    return (unsigned)region < PST_REGION_COUNT ? name[region] : "?";
}

/* --- parameters ------------------------------------------------------------------------------- */

/* Of a frozen parameter the cut knows no uses. */
static int frozen_is_mine(const pst_memory_map_builder *b, uint32_t p) {
    for (uint32_t i = 0; i < b->g->n_node; i++)
        for (uint32_t k = 0; k < b->g->node[i].n_param; k++)
            if (b->g->node[i].param[k] == p && pst_memory_map_has(b, b->cut->chunk_of_node[i]))
                return 1;
    return 0;
}

static int param_is_mine(const pst_memory_map_builder *b, uint32_t p) {
    if (b->map->serves) return b->map->own_to[p] > b->map->own_from[p];
    for (uint32_t u = 0; u < pst_param_gradients(&b->g->param[p]); u++)
        if (pst_memory_map_has_use(b, p, u)) return 1;
    return b->g->param[p].frozen && frozen_is_mine(b, p);
}

static uint64_t weight_bytes(const pst_memory_map_builder *b, uint32_t p) {
    const pst_memory_map *x = b->map;
    return x->serves ? (x->own_to[p] - x->own_from[p]) * pst_dtype_bytes(b->g->dtype)
                     : pst_memory_map_weight_bytes(b, p);
}

static void place_weights_of(pst_memory_map_builder *b, int frozen) {
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if ((b->g->param[p].frozen != 0) == frozen)
            b->map->weight[p] =
                param_is_mine(b, p) ? pst_memory_map_take(b, weight_bytes(b, p)) : ABSENT;
}

static void to_page(pst_memory_map_builder *b) {
    b->end = (b->end + PST_MEMORY_PAGE - 1) / PST_MEMORY_PAGE * PST_MEMORY_PAGE;
}

/* Frozen weights first: steps do not change them, so they need no second side. */
static void place_weights(pst_memory_map_builder *b, int twins) {
    pst_memory_map_begin(b, PST_REGION_WEIGHT);
    place_weights_of(b, 1);
    if (twins) to_page(b);
    if (twins) b->map->twin_from = b->end;
    place_weights_of(b, 0);
    pst_memory_map_finish(b, PST_REGION_WEIGHT);
}

/* Behind everything that has two sides. */
static void place_twin(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    to_page(b);
    x->twin_to = b->end;
    pst_memory_map_begin(b, PST_REGION_TWIN);
    x->twin = pst_memory_map_take(b, x->twin_to - x->twin_from);
    pst_memory_map_finish(b, PST_REGION_TWIN);
}

/* Sets the elements that this rank owns and those that STEP updates here: the same ones with ZeRO,
 * else all that it has. None of a frozen parameter. */
static void set_owned(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    pst_grid_place at = pst_grid_at(b->job->grid, x->rank);
    const pst_share *share = b->job->share[at.tensor];
    const uint32_t member = pst_job_member(b->job, at.replica);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        if (pst_param_gradients(&b->g->param[p]) && pst_memory_map_shards(b, p)) {
            x->own_from[p] = pst_share_from(share, p, member);
            x->own_to[p] = pst_share_to(share, p, member);
        }
        x->step_from[p] = b->job->zero ? x->own_from[p] : 0;
        x->step_to[p] =
            param_is_mine(b, p) && !b->g->param[p].frozen ? pst_param_elements(b->g->param + p) : 0;
        if (b->job->zero) x->step_to[p] = x->own_to[p];
    }
}

/* The size of a master weight. */
static uint64_t stepped_bytes(const pst_memory_map *x, uint32_t p) {
    return (x->step_to[p] - x->step_from[p]) * sizeof(float);
}

/* The size of one optimizer state. */
static uint64_t state_bytes(const pst_memory_map *x, uint32_t p) {
    return (x->step_to[p] - x->step_from[p]) * x->state_size;
}

static uint32_t stage_of(const pst_memory_map_builder *b, uint32_t p) {
    return b->job->rank_of_chunk[b->cut->use_chunk[b->cut->use_first[p]]];
}

static void find_copies(pst_memory_map_builder *b) {
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        b->map->is_step[p] = pst_param_gradients(&b->g->param[p]) &&
                             pst_job_has_moments(b->job, stage_of(b, p), b->g->param + p);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        b->map->is_copy[p] = pst_param_gradients(&b->g->param[p]) && param_is_mine(b, p) &&
                             pst_job_sends_changes(b->job, stage_of(b, p), b->g->param + p);
}

static void place_state(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    pst_memory_map_begin(b, PST_REGION_STATE);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if (b->g->param[p].frozen && b->g->dtype == PST_F32) x->master[p] = x->weight[p];
        else if (!stepped_bytes(x, p)) x->master[p] = ABSENT;
        else if (b->g->dtype == PST_F32 && !x->is_copy[p])
            x->master[p] =
                x->weight[p] + (x->step_from[p] - pst_memory_map_weight_from(x, p)) * sizeof(float);
        else x->master[p] = pst_memory_map_take(b, stepped_bytes(x, p));
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
            x->state[i][p] = i < pst_optim_states(optim, b->g->param + p) && stepped_bytes(x, p)
                                 ? pst_memory_map_take(b, state_bytes(x, p))
                                 : ABSENT;
    pst_memory_map_finish(b, PST_REGION_STATE);
}

/* Those of gradients that this rank packs: the residuals, and those that a step leaves, which
 * become the residuals only if the step is applied. Where the gradient's memory is free after it is
 * packed, that is where the step's residual is: it is not with zero 0, where the sum comes back,
 * nor at the owner, which adds there. */
static void place_residuals(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    const uint32_t stage = pst_job_stage(b->job, x->rank);
    pst_memory_map_begin(b, PST_REGION_RESIDUAL);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        const pst_param *param = b->g->param + p;
        x->residual[p] = x->next[p] = x->packed[p] = x->second[p] = x->basis[p] = ABSENT;
        if (!optim || !pst_param_gradients(param) || !pst_memory_map_has_use(b, p, 0) ||
            !pst_job_has_residual(b->job, stage, param))
            continue;
        x->next_from[p] = b->job->zero ? x->own_from[p] : 0;
        x->next_to[p] = b->job->zero ? x->own_to[p] : pst_param_elements(param);
        x->residual[p] = pst_memory_map_take(b, pst_memory_map_param_bytes(b, p));
        x->next[p] = pst_memory_map_take(b, (x->next_to[p] - x->next_from[p]) * sizeof(float));
        if (pst_job_has_moments(b->job, stage, param))
            x->second[p] = pst_memory_map_take(b, pst_memory_map_param_bytes(b, p));
        const uint64_t basis = pst_job_basis(b->job, param);
        if (basis) x->basis[p] = pst_memory_map_take(b, basis * sizeof(float));
    }
    pst_memory_map_finish(b, PST_REGION_RESIDUAL);
}

/* One fragment is exchanged at a time. */
static void place_kept(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    const pst_job *job = b->job;
    for (uint32_t f = 0; job->delay && f < job->fragments; f++) {
        uint64_t at = 0;
        for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
            const uint64_t bytes = (x->own_to[p] - x->own_from[p]) * sizeof(float);
            if (job->fragment[p] != f || !bytes || !pst_memory_map_has_use(b, p, 0)) continue;
            x->kept[p] = at; /* from kept_base on */
            at += pst_align(bytes);
        }
        if (at > x->kept_bytes) x->kept_bytes = at;
    }
    if (!x->kept_bytes) return;
    x->kept_base = pst_memory_map_take(b, x->kept_bytes);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if (x->kept[p] != ABSENT) x->kept[p] += x->kept_base;
}

/* Old weights and residual of what this rank exchanges. */
static void place_base(pst_memory_map_builder *b, uint32_t p) {
    pst_memory_map *x = b->map;
    const uint64_t bytes = (x->own_to[p] - x->own_from[p]) * sizeof(float);
    if (!bytes) return;
    x->base[p] = pst_memory_map_take(b, bytes);
    x->left[p] = pst_memory_map_take(b, bytes);
}

/* Those of the elements of which this rank takes the outer step. */
static void place_outer(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    const pst_grid_place at = pst_grid_at(b->job->grid, x->rank);
    const uint32_t owner = pst_job_outer_owner(b->job, at.replica);
    pst_memory_map_begin(b, PST_REGION_OUTER);
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        x->old[p] = x->velocity[p] = x->kept[p] = ABSENT;
        x->base[p] = x->left[p] = x->difference[p] = ABSENT;
        if (!optim || !b->job->outer || !pst_param_gradients(&b->g->param[p]) ||
            !pst_memory_map_has_use(b, p, 0))
            continue;
        const pst_share *share = b->job->outer[at.tensor];
        x->outer_from[p] = pst_share_from(share, p, owner);
        x->outer_to[p] = pst_share_to(share, p, owner);
        const uint64_t bytes = (x->outer_to[p] - x->outer_from[p]) * sizeof(float);
        if (optim && pst_job_packs_islands(b->job, b->g->param + p)) place_base(b, p);
        if (!bytes) continue;
        if (x->base[p] == ABSENT) x->old[p] = pst_memory_map_take(b, bytes);
        else x->old[p] = x->base[p] + (x->outer_from[p] - x->own_from[p]) * sizeof(float);
        if (b->job->velocity && !b->g->param[p].statistic)
            x->velocity[p] = pst_memory_map_take(b, bytes);
    }
    if (optim && b->job->delay) {
        place_kept(b);
        pst_memory_map_place_outer_buffers(b);
    }
    pst_memory_map_finish(b, PST_REGION_OUTER);
}

/* --- norms ------------------------------------------------------------------------------------ */

static int has_same_root(const pst_memory_map_builder *b, uint32_t rank) {
    if (b->job->islands == 1 && !b->job->async) return 1;
    return pst_job_root(b->job, rank) == b->map->root;
}

/* Asynchronous updates: the norm is that of a worker's own gradients. */
static void set_normed(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        const pst_param *param = b->g->param + p;
        x->norm_from[p] = b->job->async ? 0 : x->own_from[p];
        x->norm_to[p] = b->job->async ? 0 : x->own_to[p];
        if (b->job->async && !x->serves && pst_param_gradients(param) &&
            pst_memory_map_has_use(b, p, 0))
            x->norm_to[p] = pst_param_elements(param);
    }
}

/* On a server, the norms of all workers. */
static void find_served(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    for (uint32_t k = 0; b->job->async && x->serves && k < b->job->grid.data; k++)
        x->loss_of_rank[k] = PST_SERVED_DOUBLES;
}

static void find_owned(pst_memory_map_builder *b) {
    pst_memory_map *x = b->map;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        if (x->norm_to[p] > x->norm_from[p]) x->owned[x->n_owned++] = p;
    if (x->n_owned) pst_graph_order_params(b->g, x->owned, x->n_owned);
    for (uint32_t r = 0; r < x->n_rank; r++) {
        pst_grid_place at = pst_grid_at(b->job->grid, r);
        if (x->rank != x->root && r != x->rank) continue; /* rank 0 receives from all */
        if (!has_same_root(b, r)) continue;
        x->loss_of_rank[r] = b->job->micros[at.replica];
        x->piece_of_rank[r] = pst_job_norm_pieces(b->job, r);
    }
    find_served(b);
}

static uint64_t norm_bytes(const pst_memory_map *x, uint32_t rank) {
    return (x->loss_of_rank[rank] + (uint64_t)x->piece_of_rank[rank] * x->norm_words) *
           sizeof(double);
}

static void place_control(pst_memory_map_builder *b, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    pst_memory_map_begin(b, PST_REGION_CONTROL);
    x->norm_own = x->norm_answer = ABSENT;
    for (uint32_t r = 0; r < x->n_rank; r++) x->norm_of_rank[r] = ABSENT;
    if (optim) {
        x->norm_own = pst_memory_map_take(b, norm_bytes(x, x->rank));
        for (uint32_t r = 0; x->rank == x->root && r < x->n_rank; r++)
            if (r != x->rank && has_same_root(b, r))
                x->norm_of_rank[r] = pst_memory_map_take(b, norm_bytes(x, r));
        for (uint32_t r = 0; b->job->async && x->serves && r < x->n_rank; r++)
            if (norm_bytes(x, r)) x->norm_of_rank[r] = pst_memory_map_take(b, norm_bytes(x, r));
        x->norm_answer = pst_memory_map_take(b, 3 * sizeof(double));
        if (x->rank == x->root) x->norm_of_rank[x->rank] = x->norm_own;
    }
    pst_memory_map_finish(b, PST_REGION_CONTROL);
}

/* --- data and outputs ------------------------------------------------------------------------- */

/* For how many micro-batches this rank keeps tensor t in `place`. */
static uint32_t copies_in(const pst_memory_map_builder *b, const pst_cut *cut, const pst_job *job,
                          uint32_t t, pst_place place) {
    if (!cut) return 0;
    for (uint32_t c = 0; c < cut->n_chunk; c++) {
        if (!pst_memory_map_has(b, c)) continue;
        const pst_chunk *chunk = cut->chunk + c;
        for (uint32_t i = 0; i < chunk->n_local; i++) {
            const pst_value *v = cut->tape->value + chunk->local[i].value;
            if (v->kind == PST_VALUE_TENSOR && v->tensor == t &&
                chunk->buffer[chunk->local[i].buffer].place == place)
                return pst_job_micros(job, b->map->rank);
        }
    }
    return 0;
}

static void place_tensors(pst_memory_map_builder *b, pst_region region, pst_tensor_role role,
                          pst_place place, uint64_t *offset) {
    pst_memory_map_begin(b, region);
    for (uint32_t t = 0; b->g && t < b->g->n_tensor; t++) {
        offset[t] = ABSENT;
        if (b->g->tensor[t].role != role) continue;
        uint32_t copies = copies_in(b, b->cut, b->job, t, place);
        uint32_t more = copies_in(b, b->eval_cut, b->eval, t, place);
        if (more > copies) copies = more;
        if (copies) offset[t] = pst_memory_map_take(b, copies * pst_tensor_bytes(b->g->tensor + t));
    }
    pst_memory_map_finish(b, region);
}

/* --- slots and scratch ------------------------------------------------------------------------ */

static void place_slots(pst_memory_map_builder *b, const pst_slots *slots, uint64_t *base) {
    for (uint32_t k = 0; k < slots->n_class; k++) {
        const pst_class *class_ = slots->class_ + k;
        base[k] = ABSENT;
        if (!pst_memory_map_has(b, class_->chunk)) continue;
        base[k] = pst_memory_map_take(
            b,
            class_->n_slot ? (class_->n_slot - 1) * pst_align(class_->bytes) + class_->bytes : 0);
    }
}

static uint64_t scratch_bytes(const pst_memory_map_builder *b, const pst_cut *cut) {
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t p = 0; pst_memory_map_has(b, c) && p < 4; p++)
            if (cut->chunk[c].program[p].scratch_bytes > bytes)
                bytes = cut->chunk[c].program[p].scratch_bytes;
    return bytes;
}

/* The largest accumulator that another rank sends here. */
static uint64_t shared_grad_bytes(const pst_memory_map_builder *b) {
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++)
        for (uint32_t u = 1;
             u < pst_param_gradients(&b->g->param[p]) && pst_memory_map_has_use(b, p, 0); u++)
            if (!pst_memory_map_has_use(b, p, u) && pst_memory_map_param_bytes(b, p) > bytes)
                bytes = pst_memory_map_param_bytes(b, p);
    return bytes;
}

/* A copy of what STEP changes, to undo it. */
static void place_undo(pst_memory_map_builder *b, uint64_t start, const pst_optim_row *optim) {
    pst_memory_map *x = b->map;
    uint64_t at = start;
    for (uint32_t p = 0; p < pst_memory_map_params(b); p++) {
        uint64_t bytes = stepped_bytes(x, p);
        x->undo[p] = ABSENT;
        if (!bytes || (!b->job->post && !b->job->eager) || !optim) continue;
        const uint64_t state = state_bytes(x, p), n = pst_optim_states(optim, b->g->param + p);
        x->undo[p] = at;
        x->undo_end = at + bytes;
        if (n) x->undo_end = at + pst_align(bytes) + (n - 1) * pst_align(state) + state;
        at = pst_align(x->undo_end);
    }
}

/* Scratch memory of the parameters that STEP updates as a whole, behind what STEP may undo. Returns
 * its end; 0: there is none. */
static uint64_t place_whole(const pst_memory_map_builder *b, uint64_t at,
                            const pst_memory_map_spec *spec) {
    pst_memory_map *x = b->map;
    uint64_t most = 0;
    for (uint32_t p = 0; spec->whole && p < pst_memory_map_params(b); p++) {
        if (!stepped_bytes(x, p)) continue;
        if (spec->whole_together) most += spec->whole[p];
        else if (spec->whole[p] > most) most = spec->whole[p];
    }
    x->whole = most ? pst_align(at) : ABSENT;
    return most ? x->whole + most : 0;
}

/* Where the numbers of frozen parameters, of which no copy in fp32 is kept, are read to before they
 * are rounded; one at a time, before the first step. Returns its end; 0: there is none. */
static uint64_t place_frozen(const pst_memory_map_builder *b, uint64_t at) {
    pst_memory_map *x = b->map;
    uint64_t most = 0;
    for (uint32_t p = 0; b->g && b->g->dtype != PST_F32 && p < b->g->n_param; p++)
        if (b->g->param[p].frozen && x->weight[p] != ABSENT &&
            pst_memory_map_param_bytes(b, p) > most)
            most = pst_memory_map_param_bytes(b, p);
    x->frozen = most ? at : ABSENT;
    return most ? at + most : 0;
}

/* Slots and scratch of training first; then what overlays them, which may need more. */
static void place_slots_and_scratch(pst_memory_map_builder *b, const pst_memory_map_spec *spec) {
    const pst_slots *slots = spec->slots, *eval_slots = spec->eval_slots;
    const pst_optim_row *optim = spec->optim;
    pst_memory_map *x = b->map;
    pst_memory_map_begin(b, PST_REGION_SLOT);
    place_slots(b, slots, x->class_base);
    pst_memory_map_finish(b, PST_REGION_SLOT);
    pst_memory_map_begin(b, PST_REGION_SCRATCH);
    x->scratch_base = pst_memory_map_take(b, scratch_bytes(b, b->cut));
    uint64_t end = b->end, start = x->start[PST_REGION_SLOT], before = x->start[PST_REGION_SLOT];
    for (uint32_t r = 0; r < PST_REGION_SLOT; r++)
        if (x->bytes[r]) before = x->start[r] + x->bytes[r];
    if (b->eval_cut) {
        b->end = before;
        place_slots(b, eval_slots, x->eval_class_base);
        x->eval_scratch_base = pst_memory_map_take(b, scratch_bytes(b, b->eval_cut));
        if (b->end > end) end = b->end;
    }
    x->shared_grad_bytes = optim ? shared_grad_bytes(b) : 0;
    x->shared_grad = x->shared_grad_bytes ? start : ABSENT;
    if (x->shared_grad_bytes && start + x->shared_grad_bytes > end)
        end = start + x->shared_grad_bytes;
    /* eager updates: gradients of other stages may arrive after the first copy */
    place_undo(b, b->job->eager ? pst_align(start + x->shared_grad_bytes) : start, optim);
    if (x->undo_end > end) end = x->undo_end;
    uint64_t whole_end = place_whole(b, x->undo_end > start ? x->undo_end : start, spec);
    if (whole_end > end) end = whole_end;
    uint64_t frozen_end = place_frozen(b, start);
    if (frozen_end > end) end = frozen_end;
    b->end = end;
    pst_memory_map_finish(b, PST_REGION_SCRATCH);
    if (!x->bytes[PST_REGION_SCRATCH] && end > start)
        x->bytes[PST_REGION_SLOT] = end - start; /* an overlay needs more */
    x->total = end;
}

/* --- the map ---------------------------------------------------------------------------------- */

static uint64_t *offsets(uint64_t n) { return calloc(n ? n : 1, sizeof(uint64_t)); }

static pst_status open_grads(pst_memory_map *x, const pst_graph *g) {
    uint32_t n = g ? g->n_param : 0, n_use = 0;
    for (uint32_t p = 0; p < n; p++) n_use += pst_param_gradients(&g->param[p]);
    x->grad = calloc(n + 1, sizeof *x->grad);
    uint64_t *all = x->grad ? offsets(n_use) : NULL;
    if (!all) return pst_fail(PST_ENOMEM, "no memory to build the memory map");
    x->grad[0] = all; /* one block, freed through parameter 0 */
    for (uint32_t p = 0; p < n; p++) {
        x->grad[p] = all;
        all += pst_param_gradients(&g->param[p]);
    }
    return PST_OK;
}

static pst_status open_offsets(const pst_memory_map_builder *b, const pst_slots *slots,
                               const pst_slots *eval_slots) {
    pst_memory_map *x = b->map;
    uint32_t n_tensor = b->g ? b->g->n_tensor : 0;
    x->weight = offsets(pst_memory_map_params(b));
    x->master = offsets(pst_memory_map_params(b));
    x->state[0] = offsets(pst_memory_map_params(b));
    x->state[1] = offsets(pst_memory_map_params(b));
    x->own_from = offsets(pst_memory_map_params(b));
    x->own_to = offsets(pst_memory_map_params(b));
    x->norm_from = offsets(pst_memory_map_params(b));
    x->norm_to = offsets(pst_memory_map_params(b));
    x->step_from = offsets(pst_memory_map_params(b));
    x->step_to = offsets(pst_memory_map_params(b));

    x->undo = offsets(pst_memory_map_params(b));
    x->grad_from = offsets(pst_memory_map_params(b));
    x->gradient_in_slot = offsets(pst_memory_map_params(b));
    x->residual = offsets(pst_memory_map_params(b));
    x->next = offsets(pst_memory_map_params(b));
    x->next_from = offsets(pst_memory_map_params(b));
    x->next_to = offsets(pst_memory_map_params(b));
    x->packed = offsets(pst_memory_map_params(b));
    x->second = offsets(pst_memory_map_params(b));
    x->basis = offsets(pst_memory_map_params(b));
    x->outer_from = offsets(pst_memory_map_params(b));
    x->outer_to = offsets(pst_memory_map_params(b));
    x->old = offsets(pst_memory_map_params(b));
    x->velocity = offsets(pst_memory_map_params(b));
    x->kept = offsets(pst_memory_map_params(b));
    x->base = offsets(pst_memory_map_params(b));
    x->left = offsets(pst_memory_map_params(b));
    x->difference = offsets(pst_memory_map_params(b));
    x->change = offsets(pst_memory_map_params(b));
    x->is_copy = calloc(pst_memory_map_params(b) + 1, 1);
    x->is_step = calloc(pst_memory_map_params(b) + 1, 1);
    x->data = offsets(n_tensor);
    x->output = offsets(n_tensor);
    x->class_base = offsets(slots->n_class);
    x->eval_class_base = offsets(eval_slots ? eval_slots->n_class : 0);
    x->has_chunk = calloc(b->cut->n_chunk, 1);
    x->owned = calloc(pst_memory_map_params(b) + 1, sizeof *x->owned);
    x->norm_of_rank = offsets(x->n_rank);
    x->loss_of_rank = calloc(x->n_rank, sizeof *x->loss_of_rank);
    x->piece_of_rank = calloc(x->n_rank, sizeof *x->piece_of_rank);
    if (!x->norm_from || !x->norm_to)
        return pst_fail(PST_ENOMEM, "no memory to build the memory map");
    if (!x->weight || !x->master || !x->state[0] || !x->state[1] || !x->own_from || !x->own_to ||
        !x->outer_from || !x->outer_to || !x->old || !x->velocity || !x->kept || !x->residual ||
        !x->base || !x->left || !x->difference || !x->next || !x->next_from || !x->next_to ||
        !x->packed || !x->second || !x->basis || !x->is_step || !x->change || !x->is_copy ||
        !x->step_from || !x->undo || !x->step_to || !x->grad_from || !x->gradient_in_slot ||
        !x->data || !x->output || !x->class_base || !x->eval_class_base || !x->has_chunk ||
        !x->owned || !x->norm_of_rank || !x->loss_of_rank || !x->piece_of_rank)
        return pst_fail(PST_ENOMEM, "no memory to build the memory map");
    for (uint32_t c = 0; c < b->cut->n_chunk; c++)
        x->has_chunk[c] = (uint8_t)pst_memory_map_has(b, c);
    return open_grads(x, b->g);
}

pst_status pst_memory_map_build(const pst_memory_map_spec *spec, pst_memory_map **map) {
    const pst_optim_row *optim = spec->optim;
    pst_memory_map *x = calloc(1, sizeof *x);
    if (!x) return pst_fail(PST_ENOMEM, "no memory to build the memory map");
    x->rank = spec->rank;
    x->n_rank = spec->job->n_rank;
    /* a single lane is laid out as in the whole job */
    x->root = 0;
    if (spec->job->islands > 1 || spec->job->async) x->root = pst_job_root(spec->job, spec->rank);
    x->eval_cut = spec->eval_cut;
    x->serves = pst_job_is_server(spec->job, spec->rank);
    x->parts = x->serves ? 1 : spec->job->parts;
    x->up = spec->job->up;
    x->down = spec->job->down;
    x->islands_codec = spec->job->islands_codec;
    x->norm_words = pst_graph_norm_words(spec->g);
    x->state_size = optim ? (uint32_t)pst_optim_state_bytes(optim) : 0;
    x->part_micros = pst_job_micros(spec->job, spec->rank) / spec->job->parts;
    pst_memory_map_builder b = {.g = spec->g,
                                .cut = spec->cut,
                                .eval_cut = spec->eval_cut,
                                .job = spec->job,
                                .eval = spec->eval,
                                .slots = spec->slots,
                                .map = x};
    pst_status status = open_offsets(&b, spec->slots, spec->eval_slots);
    if (status != PST_OK) {
        pst_memory_map_close(x);
        return status;
    }
    set_owned(&b);
    set_normed(&b);
    find_owned(&b);
    place_weights(&b, spec->twins);
    find_copies(&b);
    place_state(&b, optim);
    place_residuals(&b, optim);
    if (spec->twins) place_twin(&b);
    place_outer(&b, optim);
    place_control(&b, optim);
    place_tensors(&b, PST_REGION_DATA, PST_TENSOR_DATA, PST_PLACE_DATA, x->data);
    place_tensors(&b, PST_REGION_OUTPUT, PST_TENSOR_OUTPUT, PST_PLACE_OUTPUT, x->output);
    pst_memory_map_place_gradients(&b, optim);
    place_slots_and_scratch(&b, spec);
    *map = x;
    return PST_OK;
}

void pst_memory_map_close(pst_memory_map *x) {
    if (!x) return;
    if (x->grad) free(x->grad[0]);
    free(x->weight);
    free(x->master);
    free(x->state[0]);
    free(x->state[1]);
    free(x->grad);
    free(x->data);

    free(x->output);
    free(x->norm_from);
    free(x->norm_to);
    free(x->own_from);
    free(x->own_to);
    free(x->undo);
    free(x->step_from);
    free(x->step_to);
    free(x->grad_from);

    free(x->gradient_in_slot);
    free(x->residual);
    free(x->next);
    free(x->next_from);
    free(x->next_to);
    free(x->packed);
    free(x->second);
    free(x->basis);
    free(x->outer_from);
    free(x->outer_to);
    free(x->old);
    free(x->velocity);
    free(x->kept);
    free(x->base);
    free(x->left);
    free(x->difference);
    free(x->change);
    free(x->is_copy);
    free(x->is_step);
    free(x->class_base);
    free(x->eval_class_base);
    free(x->has_chunk);
    free(x->owned);
    free(x->norm_of_rank);

    free(x->loss_of_rank);
    free(x->piece_of_rank);
    free(x);
}
