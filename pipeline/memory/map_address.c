/* Where things lie: from an operand, a step's scratch or a message to its bytes in the arena; and
 * the table of regions that `inspect` shows. */
#include "base/arena.h"
#include "pipeline/memory/map.h"

#define ABSENT UINT64_MAX

static void *at(uint8_t *arena, uint64_t offset) {
    return offset == ABSENT ? NULL : arena + offset;
}

/* The accumulator of a use for a part of the micro-batches. */
static void *address_part(const pst_memory_map *x, const pst_graph *g, uint32_t param, uint32_t use,
                          uint32_t part, uint8_t *arena) {
    uint64_t first = x->grad[param][use],
             bytes = pst_param_elements(g->param + param) * sizeof(float);
    return first == ABSENT ? NULL : arena + first + part * pst_align(bytes);
}

/* What a pass of `micro` leaves of a gradient that is shared out. */
static void *address_fresh(const pst_memory_map *x, const pst_slots *slots, uint32_t param,
                           uint32_t chunk, uint32_t micro, uint8_t *arena) {
    uint64_t slot = slots->gradient[(size_t)chunk * slots->n_micro + micro];
    return arena + x->gradient + slot * pst_align(x->gradient_bytes) + x->fresh[param];
}

static void *address_local(const pst_memory_map *x, const pst_cut *cut, const pst_slots *slots,
                           const pst_graph *g, uint32_t chunk, uint32_t local, uint32_t micro,
                           uint8_t *arena) {
    const pst_local *l = cut->chunk[chunk].local + local;
    const pst_buffer *b = cut->chunk[chunk].buffer + l->buffer;
    int is_eval = cut == x->eval_cut;
    uint32_t tensor = cut->tape->value[l->value].tensor;
    switch ((pst_place)b->place) {
    case PST_PLACE_SCRATCH:
        return arena + (is_eval ? x->eval_scratch_base : x->scratch_base) + b->offset;
    case PST_PLACE_DATA:
        return arena + x->data[tensor] + micro * pst_tensor_bytes(g->tensor + tensor);
    case PST_PLACE_OUTPUT:
        return arena + x->output[tensor] + micro * pst_tensor_bytes(g->tensor + tensor);
    case PST_PLACE_SLOT: break;
    }
    const pst_class *class_ = slots->class_ + b->class_;
    uint64_t base = is_eval ? x->eval_class_base[b->class_] : x->class_base[b->class_];
    return arena + base + class_->slot_of_micro[micro] * pst_align(class_->bytes) + b->offset;
}

void *pst_memory_map_address(const pst_memory_map *x, const pst_cut *cut, const pst_slots *slots,
                             const pst_graph *g, uint32_t chunk, const pst_operand *operand,
                             uint32_t micro, uint8_t *arena) {
    switch ((pst_operand_kind)operand->kind) {
    case PST_OPERAND_NULL: return NULL;
    case PST_OPERAND_PARAM: return at(arena, x->weight[operand->index]);
    case PST_OPERAND_DPARAM:
        if (x->fresh[operand->index] != ABSENT)
            return address_fresh(x, slots, operand->index, chunk, micro, arena);
        return address_part(x, g, operand->index, operand->use,
                            x->parts > 1 ? micro / x->part_micros : 0, arena);
    case PST_OPERAND_VALUE: break;
    }
    return address_local(x, cut, slots, g, chunk, operand->index, micro, arena);
}

void *pst_memory_map_scratch(const pst_memory_map *x, const pst_cut *cut, const pst_step *step,
                             uint8_t *arena) {
    if (!step->scratch) return NULL;
    return arena + (cut == x->eval_cut ? x->eval_scratch_base : x->scratch_base) +
           step->scratch_offset;
}

/* Norms go to rank 0 and answers come from it. */
static void *address_norm(const pst_memory_map *x, const pst_instr *instr, uint8_t *arena) {
    int sends = instr->opcode == PST_OP_SEND;
    if (x->rank == 0) return at(arena, sends ? x->norm_answer : x->norm_of_rank[instr->peer]);
    return at(arena, sends ? x->norm_own : x->norm_answer);
}

static void *address_buffer(const pst_memory_map *x, uint32_t buffer, uint8_t *arena) {
    return arena + x->buffer + (buffer - 1) * pst_align(x->buffer_bytes);
}

/* Of a use and part; where the gradient is shared out, what the round's micro-batch left. */
static void *address_accumulator(const pst_memory_map *x, const pst_slots *slots,
                                 const pst_graph *g, const pst_instr *instr, uint32_t use,
                                 uint32_t part, uint8_t *arena) {
    if (x->fresh[instr->param] != ABSENT)
        return (uint8_t *)address_fresh(x, slots, instr->param, instr->chunk, instr->micro, arena) +
               instr->from * sizeof(float);
    uint8_t *own = address_part(x, g, instr->param, use, part, arena);
    return own ? own + instr->from * sizeof(float) : at(arena, x->join);
}

void *pst_memory_map_message(const pst_memory_map *x, const pst_cut *cut, const pst_slots *slots,
                             const pst_graph *g, const pst_instr *instr, uint8_t *arena) {
    if (instr->local != PST_NONE)
        return address_local(x, cut, slots, g, instr->chunk, instr->local, instr->micro, arena);
    if (instr->param == PST_NONE) return address_norm(x, instr, arena);
    if (instr->use == PST_NONE)
        return arena + x->weight[instr->param] + instr->from * (uint64_t)pst_dtype_bytes(g->dtype);
    return instr->buffer ? address_buffer(x, instr->buffer, arena)
                         : address_accumulator(x, slots, g, instr, instr->use, instr->micro, arena);
}

void pst_memory_map_reduce(const pst_memory_map *x, const pst_slots *slots, const pst_graph *g,
                           const pst_instr *instr, uint8_t *arena, float **sum, float **operand) {
    if (instr->into == PST_INTO_SHARD)
        *sum = (float *)(arena + x->grad[instr->param][0]) +
               (instr->from - x->grad_from[instr->param]);
    else if (instr->into) *sum = address_buffer(x, instr->into, arena);
    else *sum = address_accumulator(x, slots, g, instr, 0, instr->chunk, arena);
    *operand = instr->buffer
                   ? address_buffer(x, instr->buffer, arena)
                   : address_accumulator(x, slots, g, instr, instr->use, instr->micro, arena);
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
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the layout") : PST_OK;
}
