/* Addresses in a rank's arena: weights, states, gradients, and operands of steps. */
#include "rank/rank.h"

#define ABSENT UINT64_MAX

static void *at(const pst_rank *r, uint64_t offset) {
    return offset == ABSENT ? NULL : r->arena.base + offset;
}

void pst_rank_use_form(pst_rank *r, uint32_t form) {
    const pst_form *f = &r->p->form[form];
    r->graph = f->part ? f->part[r->place.tensor] : f->graph;
}

void *pst_rank_on_side(const pst_rank *r, uint64_t offset, uint32_t side) {
    return at(r, pst_memory_map_side(r->memory, offset, side));
}

static void *of_state(const pst_rank *r, uint64_t offset) {
    return pst_rank_on_side(r, offset, r->side);
}

float *pst_rank_weight(const pst_rank *r, uint32_t param) {
    return of_state(r, r->memory->master[param]);
}

void *pst_rank_state(const pst_rank *r, uint32_t param, uint32_t i) {
    return of_state(r, r->memory->state[i][param]);
}

static uint32_t sets(const pst_rank *r) { return r->memory->n_set; }

float *pst_rank_grad_of(const pst_rank *r, uint32_t param, uint32_t use, uint64_t step) {
    uint8_t *first = at(r, r->memory->grad[param][use]);
    if (!first) return NULL;
    return (float *)(void *)(first + step % sets(r) * r->memory->set_bytes);
}

float *pst_rank_grad(const pst_rank *r, uint32_t param, uint32_t use) {
    return pst_rank_grad_of(r, param, use, r->step + 1);
}

float *pst_rank_residual(const pst_rank *r, uint32_t param) {
    return of_state(r, r->memory->residual[param]);
}

float *pst_rank_second(const pst_rank *r, uint32_t param) {
    return at(r, r->memory->second[param]);
}

float *pst_rank_basis(const pst_rank *r, uint32_t param) {
    return of_state(r, r->memory->basis[param]);
}

uint64_t pst_rank_basis_elements(const pst_rank *r, uint32_t param) {
    return pst_job_basis(r->p->job, r->graph->param + param);
}

const uint8_t *pst_rank_packed(const pst_rank *r, uint32_t param) {
    return at(r, r->memory->packed[param]);
}

float *pst_rank_old(const pst_rank *r, uint32_t param) { return at(r, r->memory->old[param]); }

float *pst_rank_base(const pst_rank *r, uint32_t param) { return at(r, r->memory->base[param]); }

float *pst_rank_left(const pst_rank *r, uint32_t param) { return at(r, r->memory->left[param]); }

float *pst_rank_velocity(const pst_rank *r, uint32_t param) {
    return at(r, r->memory->velocity[param]);
}

pst_rank_global pst_rank_global_of(const pst_rank *r, uint32_t param) {
    const pst_memory_map *x = r->memory;
    if (r->p->job->islands > 1)
        return (pst_rank_global){x->outer_from[param], x->outer_to[param], pst_rank_old(r, param)};
    const uint64_t from = x->own_from[param];
    const float *weight = pst_rank_weight(r, param);
    if (weight) weight += from - x->step_from[param];
    return (pst_rank_global){from, x->own_to[param], weight};
}

float *pst_rank_copied(const pst_rank *r, uint32_t param) {
    return r->memory->is_copy[param] ? of_state(r, r->memory->weight[param]) : NULL;
}

const float *pst_rank_sum(const pst_rank *r, uint32_t param, uint64_t from) {
    const float *grad = NULL;
    for (uint32_t u = 0; u < pst_param_gradients(&r->graph->param[param]) && !grad; u++)
        grad = pst_rank_grad(r, param, u);
    return grad + (from - r->memory->grad_from[param]);
}

void *pst_rank_data(const pst_rank *r, uint32_t tensor, uint32_t micro) {
    uint8_t *base = at(r, r->memory->data[tensor]);
    return base ? base + micro * pst_tensor_bytes(r->graph->tensor + tensor) : NULL;
}

void *pst_rank_output(const pst_rank *r, uint32_t tensor, uint32_t micro) {
    uint8_t *base = at(r, r->memory->output[tensor]);
    return base ? base + micro * pst_tensor_bytes(r->graph->tensor + tensor) : NULL;
}

const pst_cut *pst_rank_cut(const pst_rank *r) {
    return r->train || !r->eval_cut ? r->cut : r->eval_cut;
}

static int is_rest(const pst_rank *r, uint32_t micro) {
    const pst_job *job = r->train || !r->eval_cut ? r->p->job : r->p->eval_job;
    return r->rest && pst_job_is_rest(job, r->place.replica, micro);
}

const pst_graph *pst_rank_graph(const pst_rank *r, uint32_t micro) {
    return is_rest(r, micro) ? r->rest : r->graph;
}

const pst_cut *pst_rank_sizes(const pst_rank *r, uint32_t micro) {
    return pst_cut_of(pst_rank_cut(r), is_rest(r, micro));
}

pst_memory_view pst_rank_view(const pst_rank *r) {
    const pst_slots *slots = r->train || !r->eval_cut ? r->slots : r->eval_slots;
    return (pst_memory_view){.map = r->memory,
                             .cut = pst_rank_cut(r),
                             .slots = slots,
                             .g = r->graph,
                             .arena = r->arena.base,
                             .side = r->side,
                             .set = (uint32_t)(r->step % sets(r)),
                             .due = (uint32_t)((r->step + 1) % sets(r))};
}

void *pst_rank_operand(const pst_rank *r, uint32_t chunk, const pst_step *step, uint32_t operand,
                       uint32_t micro) {
    const pst_memory_view view = pst_rank_view(r);
    const pst_operand *o = &step->operand[operand];
    if (o->kind == PST_OPERAND_UNREAD)
        return (uint8_t *)pst_memory_map_scratch(r->memory, view.cut, step, r->arena.base) +
               o->use * (uint64_t)PST_ARENA_ALIGN;
    return pst_memory_map_address(&view, chunk, &step->operand[operand], micro);
}
