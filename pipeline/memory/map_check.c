/* Checks a memory map: regions, buffers that are used during the whole step, and slots do not
 * overlap; and a simulation of every program finds all values in its scratch memory intact. */
#include "base/arena.h"
#include "pipeline/memory/map.h"
#include "base/grow.h"
#include <stdlib.h>

#define ABSENT UINT64_MAX

typedef struct {
    uint64_t from, to;
    const char *what;
    uint32_t index;
} range;
typedef struct {
    range *r;
    uint32_t n;
    size_t capacity;
    pst_status status;
} ranges;

static void add(ranges *all, const pst_memory_map *x, pst_region region, uint64_t from,
                uint64_t bytes, uint32_t index) {
    if (from == ABSENT || !bytes || all->status != PST_OK) return;
    uint64_t end = x->start[region] + x->bytes[region];
    if (region == PST_REGION_SLOT) end = x->total; /* evaluation reaches into SCRATCH */
    if (from < x->start[region] || from + bytes > end || from % PST_ARENA_ALIGN)
        all->status =
            pst_fail(PST_EINTERNAL, "rank %u: buffer %u of region %s lies outside the region",
                     x->rank, index, pst_region_name(region));
    pst_status grown =
        pst_grow(&all->r, sizeof *all->r, all->n, &all->capacity, "to check the memory map");
    if (grown != PST_OK) all->status = grown;
    else all->r[all->n++] = (range){from, from + bytes, pst_region_name(region), index};
}

static int by_start(const void *a, const void *b) {
    const range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static pst_status check_ranges(ranges *all, uint32_t rank) {
    if (all->n) qsort(all->r, all->n, sizeof *all->r, by_start);
    for (uint32_t i = 1; all->status == PST_OK && i < all->n; i++)
        if (all->r[i].from < all->r[i - 1].to)
            all->status =
                pst_fail(PST_EINTERNAL, "rank %u: %s %u and %s %u overlap", rank,
                         all->r[i - 1].what, all->r[i - 1].index, all->r[i].what, all->r[i].index);
    return all->status;
}

/* --- buffers that live for the whole step ----------------------------------------------------- */

static void add_params(ranges *all, const pst_memory_map *x, const pst_graph *g) {
    for (uint32_t p = 0; g && p < g->n_param; p++) {
        const uint64_t owned = x->own_to[p] - x->own_from[p];
        uint64_t bytes = pst_param_sums(g->param + p) * sizeof(float);
        uint64_t weight = pst_param_bytes(g, g->param + p) + pst_param_pad_bytes(g, g->param + p);
        if (x->serves) weight = owned * pst_dtype_bytes(g->dtype);
        add(all, x, PST_REGION_WEIGHT, x->weight[p], weight, p);
        uint64_t stepped = (x->step_to[p] - x->step_from[p]) * sizeof(float);
        if (g->dtype != PST_F32 || x->is_copy[p])
            add(all, x, PST_REGION_STATE, x->master[p], stepped, p);
        uint64_t state = (x->step_to[p] - x->step_from[p]) * x->state_size;
        add(all, x, PST_REGION_STATE, x->state[0][p], state, p);
        add(all, x, PST_REGION_STATE, x->state[1][p], state, p);
        uint64_t parts = (x->parts - 1) * pst_align(bytes) + bytes;
        if (x->gradient_in_slot[p] != ABSENT || x->serves) parts = owned * sizeof(float);
        for (uint32_t u = 0; u < pst_param_gradients(&g->param[p]); u++)
            for (uint32_t s = 0; s < x->n_set && x->grad[p][u] != ABSENT; s++)
                add(all, x, PST_REGION_GRAD, x->grad[p][u] + s * x->set_bytes, parts, p);
    }
}

static void add_residuals(ranges *all, const pst_memory_map *x, const pst_graph *g) {
    for (uint32_t p = 0; g && p < g->n_param; p++) {
        const uint64_t n = pst_param_elements(g->param + p);
        add(all, x, PST_REGION_GRAD, x->change[p], pst_codec_bytes(x->down, n), p);
        if (x->residual[p] == ABSENT) continue;
        add(all, x, PST_REGION_RESIDUAL, x->residual[p], n * sizeof(float), p);
        add(all, x, PST_REGION_RESIDUAL, x->second[p], n * sizeof(float), p);
        add(all, x, PST_REGION_RESIDUAL, x->next[p],
            (x->next_to[p] - x->next_from[p]) * sizeof(float), p);
        const pst_codec up = pst_codec_of_rows(x->up, n / g->param[p].dim[0], 0);
        add(all, x, PST_REGION_RESIDUAL, x->basis[p], pst_codec_basis(up, n) * sizeof(float), p);
        add(all, x, PST_REGION_GRAD, x->packed[p], pst_codec_bytes(up, n), p);
    }
}

/* Kept weights of different fragments overlay each other. */
static void check_kept(ranges *all, const pst_memory_map *x, const pst_graph *g) {
    for (uint32_t p = 0; g && p < g->n_param && all->status == PST_OK; p++)
        if (x->kept[p] != ABSENT && (x->kept[p] < x->kept_base ||
                                     x->kept[p] + (x->own_to[p] - x->own_from[p]) * sizeof(float) >
                                         x->kept_base + x->kept_bytes))
            all->status = pst_fail(PST_EINTERNAL,
                                   "rank %u: kept weights %u lie outside their memory", x->rank, p);
    add(all, x, PST_REGION_OUTER, x->kept_base, x->kept_bytes, 0);
}

static void add_outer(ranges *all, const pst_memory_map *x, const pst_graph *g) {
    const pst_region buffers = x->kept_bytes ? PST_REGION_OUTER : PST_REGION_GRAD;
    check_kept(all, x, g);
    for (uint32_t p = 0; g && p < g->n_param; p++) {
        const uint64_t bytes = (x->outer_to[p] - x->outer_from[p]) * sizeof(float);
        const uint64_t own = x->own_to[p] - x->own_from[p];
        if (x->base[p] == ABSENT) add(all, x, PST_REGION_OUTER, x->old[p], bytes, p);
        add(all, x, PST_REGION_OUTER, x->base[p], own * sizeof(float), p);
        add(all, x, PST_REGION_OUTER, x->left[p], own * sizeof(float), p);
        add(all, x, PST_REGION_GRAD, x->difference[p], pst_codec_bytes(x->islands_codec, own), p);
        add(all, x, PST_REGION_OUTER, x->velocity[p], bytes, p);
    }
    for (uint32_t i = 0; i < x->n_outer_buffer; i++)
        add(all, x, buffers, x->outer_buffer + i * pst_align(x->outer_buffer_bytes),
            x->outer_buffer_bytes, i);
}

static uint64_t norm_bytes(const pst_memory_map *x, uint32_t rank) {
    return (x->loss_of_rank[rank] + (uint64_t)x->piece_of_rank[rank] * x->norm_words) *
           sizeof(double);
}

static void add_norms(ranges *all, const pst_memory_map *x) {
    add(all, x, PST_REGION_CONTROL, x->norm_own, norm_bytes(x, x->rank), x->rank);
    add(all, x, PST_REGION_CONTROL, x->norm_answer, 3 * sizeof(double), x->n_rank);
    for (uint32_t r = 0; r < x->n_rank; r++)
        if (r != x->rank) add(all, x, PST_REGION_CONTROL, x->norm_of_rank[r], norm_bytes(x, r), r);
}

static void add_buffers(ranges *all, const pst_memory_map *x) {
    for (uint32_t i = 0; i < x->n_buffer; i++)
        add(all, x, PST_REGION_GRAD, x->buffer + i * pst_align(x->buffer_bytes), x->buffer_bytes,
            i);
    for (uint32_t i = 0; i < x->n_gradient && x->gradient_bytes; i++)
        add(all, x, PST_REGION_GRAD, x->gradient + i * pst_align(x->gradient_bytes),
            x->gradient_bytes, i);
}

static void add_slots(ranges *all, const pst_memory_map *x, const uint64_t *base,
                      const pst_slots *slots, uint64_t scratch) {
    for (uint32_t k = 0; k < slots->n_class; k++)
        for (uint32_t s = 0; s < slots->class_[k].n_slot && base[k] != ABSENT; s++) {
            uint64_t from = base[k] + s * pst_align(slots->class_[k].bytes),
                     bytes = slots->class_[k].bytes;
            add(all, x, PST_REGION_SLOT, from, bytes, k);
            if (from + bytes > scratch)
                all->status = pst_fail(
                    PST_EINTERNAL, "rank %u: memory slots of class %u overlap the scratch region",
                    x->rank, k);
        }
}

/* Whether [from, from + bytes) has a second side. */
static int has_twin(const pst_memory_map *x, uint64_t from, uint64_t bytes) {
    return from == ABSENT || !bytes || (from >= x->twin_from && from + bytes <= x->twin_to);
}

/* All that steps change has two sides, and nothing else has. */
static pst_status check_twin(const pst_memory_map *x, const pst_graph *g) {
    if (!x->twin_to) return PST_OK;
    for (uint32_t p = 0; g && p < g->n_param; p++) {
        const uint64_t n = x->step_to[p] - x->step_from[p];
        const int frozen = g->param[p].frozen;
        int good = has_twin(x, x->state[0][p], n * x->state_size) &&
                   has_twin(x, x->state[1][p], n * x->state_size);
        if (frozen) good &= x->weight[p] == ABSENT || x->weight[p] < x->twin_from;
        else
            good &= has_twin(x, x->weight[p], pst_param_bytes(g, g->param + p)) &&
                    has_twin(x, x->master[p], n * sizeof(float)) &&
                    has_twin(x, x->residual[p], pst_param_elements(g->param + p) * sizeof(float)) &&
                    has_twin(x, x->basis[p], 1);
        if (!good)
            return pst_fail(PST_EINTERNAL, "rank %u: the state of parameter %u has %s", x->rank, p,
                            frozen ? "two sides, though it is frozen" : "no second side");
    }
    const uint64_t bytes = x->twin_to - x->twin_from, start = x->start[PST_REGION_TWIN];
    if (x->twin == start && x->twin >= x->twin_to && bytes == x->bytes[PST_REGION_TWIN] &&
        !((x->twin | x->twin_from | bytes) % PST_MEMORY_PAGE))
        return PST_OK;
    return pst_fail(PST_EINTERNAL, "rank %u: the second side of the state is not like the first",
                    x->rank);
}

static pst_status check_regions(const pst_memory_map *x) {
    uint64_t end = 0;
    if (x->undo_end > x->total)
        return pst_fail(PST_EINTERNAL, "rank %u: the copy that STEP saves exceeds the arena",
                        x->rank);
    for (uint32_t r = 0; r < PST_REGION_COUNT; r++) {
        if (!x->bytes[r]) continue;
        if (x->start[r] < end || x->start[r] % PST_ARENA_ALIGN)
            return pst_fail(PST_EINTERNAL,
                            "rank %u: region %s overlaps the previous region or is not aligned",
                            x->rank, pst_region_name((pst_region)r));
        end = x->start[r] + x->bytes[r];
    }
    return end == x->total
               ? PST_OK
               : pst_fail(PST_EINTERNAL,
                          "rank %u: the arena size is not the end of the last region", x->rank);
}

/* --- scratch ---------------------------------------------------------------------------------- */

/* valid: the scratch buffers whose contents are valid, in any order. */
typedef struct {
    const pst_chunk *chunk;
    const pst_buffer **valid; /* [n_buffer] */
    uint32_t n_valid, program, c;
} scratch_state;

static int overlap(uint64_t a, uint64_t na, uint64_t b, uint64_t nb) {
    return a < b + nb && b < a + na;
}

static const pst_buffer *scratch_buffer(const scratch_state *st, const pst_operand *o) {
    if (o->kind != PST_OPERAND_VALUE) return NULL;
    const pst_buffer *b = st->chunk->buffer + st->chunk->local[o->index].buffer;
    return b->place == PST_PLACE_SCRATCH ? b : NULL;
}

static void invalidate(scratch_state *st, const pst_buffer *by, uint64_t offset, uint64_t bytes) {
    for (uint32_t i = 0; i < st->n_valid;) {
        const pst_buffer *b = st->valid[i];
        if (b != by && overlap(offset, bytes, b->offset, b->bytes))
            st->valid[i] = st->valid[--st->n_valid];
        else i++;
    }
}

static int is_valid(const scratch_state *st, const pst_buffer *b) {
    uint32_t i = 0;
    while (i < st->n_valid && st->valid[i] != b) i++;
    return i < st->n_valid;
}

/* An operand that is written may overlay one that the same operator reads only where the operator's
 * row allows it. */
static int may_overlap(const pst_step *step, uint32_t written, uint32_t read, const pst_buffer *a,
                       const pst_buffer *b) {
    return step->operand[written].share == (int)read && a->offset == b->offset &&
           a->bytes == b->bytes;
}

static pst_status check_step(scratch_state *st, uint32_t s) {
    const pst_step *step = st->chunk->program[st->program].step + s;
    if (step->scratch) invalidate(st, NULL, step->scratch_offset, step->scratch);
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_buffer *b = scratch_buffer(st, step->operand + i);
        if (b && step->operand[i].access & PST_READ && !is_valid(st, b))
            return pst_fail(
                PST_EINTERNAL,
                "chunk %u, %s, operator %u: operand %u is overwritten before it is read", st->c,
                pst_opcode_name((pst_opcode)st->program), s, i);
    }
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_buffer *a = scratch_buffer(st, step->operand + i);
        if (!a || !(step->operand[i].access & PST_WRITE)) continue;
        int clash =
            step->scratch && overlap(a->offset, a->bytes, step->scratch_offset, step->scratch);
        for (uint32_t j = 0; j < step->n_operand; j++) {
            const pst_buffer *b = scratch_buffer(st, step->operand + j);
            if (b && b != a && overlap(a->offset, a->bytes, b->offset, b->bytes))
                clash |= !may_overlap(step, i, j, a, b);
        }
        if (clash)
            return pst_fail(PST_EINTERNAL,
                            "chunk %u, %s, operator %u: operand %u overwrites a buffer in use",
                            st->c, pst_opcode_name((pst_opcode)st->program), s, i);
        invalidate(st, a, a->offset, a->bytes);
        if (!is_valid(st, a)) st->valid[st->n_valid++] = a;
    }
    return PST_OK;
}

static pst_status check_programs(const pst_memory_map *x, const pst_cut *cut, uint32_t c,
                                 uint64_t base) {
    const pst_chunk *chunk = cut->chunk + c;
    pst_status status = PST_OK;
    for (uint32_t p = 0; p < 4 && status == PST_OK; p++) {
        scratch_state st = {chunk, malloc(((size_t)chunk->n_buffer + 1) * sizeof *st.valid), 0, p,
                            c};
        if (!st.valid) return pst_fail(PST_ENOMEM, "no memory to check the memory map");
        if (chunk->program[p].scratch_bytes && base + chunk->program[p].scratch_bytes > x->total)
            status =
                pst_fail(PST_EINTERNAL, "rank %u: the scratch memory of chunk %u exceeds the arena",
                         x->rank, c);
        for (uint32_t s = 0; s < chunk->program[p].n_step && status == PST_OK; s++)
            status = check_step(&st, s);
        free(st.valid);
    }
    return status;
}

pst_status pst_memory_map_check(const pst_memory_map *x, const pst_cut *cut,
                                const pst_slots *slots) {
    const pst_graph *g = cut->graph;
    const uint64_t *base = cut == x->eval_cut ? x->eval_class_base : x->class_base;
    uint64_t scratch = cut == x->eval_cut ? x->eval_scratch_base : x->scratch_base;
    ranges all = {0};
    PST_TRY(check_regions(x));
    PST_TRY(check_twin(x, g));
    add_params(&all, x, g);
    add_residuals(&all, x, g);
    add_outer(&all, x, g);
    add_norms(&all, x);
    add_buffers(&all, x);
    add_slots(&all, x, base, slots, scratch);
    pst_status status = check_ranges(&all, x->rank);
    free(all.r);
    for (uint32_t c = 0; c < cut->n_chunk && status == PST_OK; c++)
        if (x->has_chunk[c]) status = check_programs(x, cut, c, scratch);
    return status;
}
