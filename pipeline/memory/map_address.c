/* Addresses in the arena: of an operand, of an operator's scratch and of a message; the table of
 * regions that `inspect` prints. */
#include "base/arena.h"
#include "pipeline/memory/map.h"

#define ABSENT UINT64_MAX

static void *at(uint8_t *arena, uint64_t offset) {
    return offset == ABSENT ? NULL : arena + offset;
}

/* Memory of the state, which may have two sides. */
static uint8_t *state_at(const pst_memory_view *v, uint64_t offset) {
    return v->arena + pst_memory_map_side(v->map, offset, v->side);
}

/* The accumulator of a use, for one part of the micro-batches, in a set. */
static void *address_part(const pst_memory_view *v, uint32_t set, uint32_t param, uint32_t use,
                          uint32_t part) {
    const pst_memory_map *x = v->map;
    uint64_t first = x->grad[param][use],
             bytes = pst_param_sums(v->g->param + param) * sizeof(float);
    return first == ABSENT ? NULL : v->arena + first + set * x->set_bytes + part * pst_align(bytes);
}

/* Where the passes of `micro` write a sharded gradient. */
static void *address_slot_gradient(const pst_memory_view *v, uint32_t param, uint32_t chunk,
                                   uint32_t micro) {
    const pst_memory_map *x = v->map;
    uint64_t slot = v->slots->gradient[(size_t)chunk * v->slots->n_micro + micro];
    return v->arena + x->gradient + slot * pst_align(x->gradient_bytes) +
           x->gradient_in_slot[param];
}

static void *address_local(const pst_memory_view *v, uint32_t chunk, uint32_t local,
                           uint32_t micro) {
    const pst_memory_map *x = v->map;
    const pst_local *l = v->cut->chunk[chunk].local + local;
    const pst_buffer *b = v->cut->chunk[chunk].buffer + l->buffer;
    int is_eval = v->cut == x->eval_cut;
    uint32_t tensor = v->cut->tape->value[l->value].tensor;
    switch ((pst_place)b->place) {
    case PST_PLACE_SCRATCH:
        return v->arena + (is_eval ? x->eval_scratch_base : x->scratch_base) + b->offset;
    case PST_PLACE_DATA:
        return v->arena + x->data[tensor] + micro * pst_tensor_bytes(v->g->tensor + tensor);
    case PST_PLACE_OUTPUT:
        return v->arena + x->output[tensor] + micro * pst_tensor_bytes(v->g->tensor + tensor);
    case PST_PLACE_SLOT: break;
    }
    const pst_class *class_ = v->slots->class_ + b->class_;
    uint64_t base = is_eval ? x->eval_class_base[b->class_] : x->class_base[b->class_];
    return v->arena + base + class_->slot_of_micro[micro] * pst_align(class_->bytes) + b->offset;
}

void *pst_memory_map_address(const pst_memory_view *v, uint32_t chunk, const pst_operand *operand,
                             uint32_t micro) {
    const pst_memory_map *x = v->map;
    switch ((pst_operand_kind)operand->kind) {
    case PST_OPERAND_NULL:
    case PST_OPERAND_UNREAD: return NULL;
    case PST_OPERAND_PARAM:
        return at(v->arena, pst_memory_map_side(x, x->weight[operand->index], v->side));
    case PST_OPERAND_DPARAM:
        if (x->gradient_in_slot[operand->index] != ABSENT)
            return address_slot_gradient(v, operand->index, chunk, micro);
        return address_part(v, v->set, operand->index, operand->use,
                            x->parts > 1 ? micro / x->part_micros : 0);
    case PST_OPERAND_VALUE: break;
    }
    return address_local(v, chunk, operand->index, micro);
}

void *pst_memory_map_scratch(const pst_memory_map *x, const pst_cut *cut, const pst_step *step,
                             uint8_t *arena) {
    if (!step->scratch) return NULL;
    return arena + (cut == x->eval_cut ? x->eval_scratch_base : x->scratch_base) +
           step->scratch_offset;
}

/* Rank 0 receives the norms and sends the answers. With asynchronous updates a server has the norms
 * of all workers. */
static void *address_norm(const pst_memory_view *v, const pst_instr *instr) {
    const pst_memory_map *x = v->map;
    int sends = instr->opcode == PST_OP_SEND;
    if (x->rank == x->root)
        return at(v->arena, sends ? x->norm_answer : x->norm_of_rank[instr->peer]);
    if (x->serves && x->norm_of_rank[instr->micro] != ABSENT)
        return at(v->arena, x->norm_of_rank[instr->micro]);
    return at(v->arena, sends ? x->norm_own : x->norm_answer);
}

static void *address_buffer(const pst_memory_view *v, uint32_t buffer) {
    const pst_memory_map *x = v->map;
    return v->arena + x->buffer + (buffer - 1) * pst_align(x->buffer_bytes);
}

/* Sum and operand for a use and part; of a sharded gradient, the operand is the gradient of the
 * round's micro-batch. */
static void *address_accumulator(const pst_memory_view *v, const pst_instr *instr, uint32_t use,
                                 uint32_t part) {
    const pst_memory_map *x = v->map;
    if (x->gradient_in_slot[instr->param] != ABSENT)
        return (uint8_t *)address_slot_gradient(v, instr->param, instr->chunk, instr->micro) +
               instr->from * sizeof(float);
    /* replicas exchange what STEP applies */
    uint8_t *own = address_part(v, instr->n ? v->due : v->set, instr->param, use, part);
    return own ? own + (instr->from - x->grad_from[instr->param]) * sizeof(float)
               : at(v->arena, x->shared_grad);
}

/* Bytes of a parameter's packed gradient before the instruction's first element, where a block
 * begins. */
static uint64_t packed_bytes(const pst_memory_view *v, const pst_instr *instr) {
    const pst_param *param = v->g->param + instr->param;
    const uint64_t columns = pst_param_elements(param) / param->dim[0];
    return pst_codec_bytes(pst_codec_of_rows(v->map->up, columns, 0), instr->from);
}

float *pst_memory_map_outer(const pst_memory_view *v, uint32_t buffer) {
    const pst_memory_map *x = v->map;
    return (float *)(void *)(v->arena + x->outer_buffer +
                             (buffer - 1) * pst_align(x->outer_buffer_bytes));
}

uint8_t *pst_memory_map_outer_packed(const pst_memory_view *v, uint32_t buffer) {
    return (uint8_t *)pst_memory_map_outer(v, buffer) + v->map->outer_packed;
}

uint8_t *pst_memory_map_difference(const pst_memory_view *v, const pst_instr *instr) {
    const pst_memory_map *x = v->map;
    return v->arena + x->difference[instr->param] +
           pst_codec_bytes(x->islands_codec, instr->from - x->own_from[instr->param]);
}

float *pst_memory_map_kept(const pst_memory_view *v, uint32_t param, uint64_t from) {
    const pst_memory_map *x = v->map;
    return (float *)(void *)(v->arena + x->kept[param]) + (from - x->own_from[param]);
}

/* Of the elements that STEP updates here. */
static void *address_outer(const pst_memory_view *v, const pst_instr *instr) {
    if (instr->buffer && instr->packed) return pst_memory_map_outer_packed(v, instr->buffer);
    if (instr->buffer) return pst_memory_map_outer(v, instr->buffer);
    if (instr->packed) return pst_memory_map_difference(v, instr);
    if (instr->outer == PST_OUTER_KEPT) return pst_memory_map_kept(v, instr->param, instr->from);
    return state_at(v, v->map->master[instr->param]) +
           (instr->from - v->map->step_from[instr->param]) * sizeof(float);
}

void *pst_memory_map_message(const pst_memory_view *v, const pst_instr *instr) {
    const pst_memory_map *x = v->map;
    if (instr->local != PST_NONE) return address_local(v, instr->chunk, instr->local, instr->micro);
    if (instr->param == PST_NONE) return address_norm(v, instr);
    if (instr->outer) return address_outer(v, instr);
    if (instr->use == PST_NONE && instr->packed)
        return v->arena + x->change[instr->param] + pst_codec_bytes(x->down, instr->from);
    if (instr->use == PST_NONE)
        return state_at(v, x->weight[instr->param]) +
               (instr->from - pst_memory_map_weight_from(x, instr->param)) *
                   pst_dtype_bytes(v->g->dtype);
    if (instr->packed && instr->opcode == PST_OP_SEND)
        return v->arena + x->packed[instr->param] + packed_bytes(v, instr);
    if (instr->packed) return (uint8_t *)address_buffer(v, instr->buffer) + x->buffer_packed;
    return instr->buffer ? address_buffer(v, instr->buffer)
                         : address_accumulator(v, instr, instr->use, instr->micro);
}

/* The elements of the basis of the first n elements of a parameter. */
static uint64_t basis_of(const pst_memory_view *v, uint32_t p, uint64_t n) {
    const pst_param *param = v->g->param + p;
    return pst_codec_basis(
        pst_codec_of_rows(v->map->up, pst_param_elements(param) / param->dim[0], 0), n);
}

pst_memory_pack pst_memory_map_pack(const pst_memory_view *v, const pst_instr *instr) {
    const pst_memory_map *x = v->map;
    const uint32_t p = instr->param;
    const uint64_t from = instr->from;
    const int apart = from >= x->next_from[p] && from < x->next_to[p];
    pst_memory_pack at = {.gradient = address_accumulator(v, instr, 0, 0),
                          .residual = (float *)(void *)state_at(v, x->residual[p]) + from,
                          .packed = v->arena + x->packed[p] + packed_bytes(v, instr),
                          .in_place = !apart};
    at.next = at.gradient;
    if (x->second[p] != UINT64_MAX) at.second = (float *)(void *)state_at(v, x->second[p]) + from;
    if (x->basis[p] != UINT64_MAX)
        at.basis = (float *)(void *)state_at(v, x->basis[p]) + basis_of(v, p, from);
    if (apart) at.next = (float *)(void *)state_at(v, x->next[p]) + (from - x->next_from[p]);
    return at;
}

const uint8_t *pst_memory_map_packed(const pst_memory_view *v, const pst_instr *instr) {
    return (const uint8_t *)address_buffer(v, instr->buffer) + v->map->buffer_packed;
}

void pst_memory_map_reduce(const pst_memory_view *v, const pst_instr *instr, float **sum,
                           float **operand) {
    const pst_memory_map *x = v->map;
    if (instr->into == PST_INTO_ACCUMULATOR)
        *sum = (float *)(v->arena + x->grad[instr->param][0]) +
               (instr->from - x->grad_from[instr->param]);
    else if (instr->into) *sum = address_buffer(v, instr->into);
    else *sum = address_accumulator(v, instr, 0, instr->chunk);
    *operand = instr->buffer ? address_buffer(v, instr->buffer)
                             : address_accumulator(v, instr, instr->use, instr->micro);
}

pst_status pst_memory_map_print(const pst_memory_map *x, const pst_graph *g, FILE *out) {
    uint32_t n_weight = 0;
    for (uint32_t p = 0; g && p < g->n_param; p++) n_weight += x->weight[p] != ABSENT;
    fprintf(out, "rank %u of %u: %.1f MiB, %u parameters\n", x->rank, x->n_rank,
            (double)x->total / (1 << 20), n_weight);
    fprintf(out, "  %-16s %14s %14s\n", "region", "offset", "bytes");
    for (uint32_t r = 0; r < PST_REGION_COUNT; r++)
        fprintf(out, "  %-16s %14llu %14llu\n", pst_region_name((pst_region)r),
                (unsigned long long)x->start[r], (unsigned long long)x->bytes[r]);
    fprintf(out, "  %-16s %14s %14llu\n", "total", "", (unsigned long long)x->total);
    return ferror(out) ? pst_fail(PST_ENOMEM, "the memory map could not be written") : PST_OK;
}
