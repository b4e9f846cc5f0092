/* Scratch memory of programs: values that live within one pass, and kernel scratch, are placed by
 * the steps during which they live; all programs share the same bytes. Greedy by size: the largest
 * first, each at the lowest offset that is free during its life. */
#include "base/arena.h"
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>

/* One or more buffers at the same place (in-place operators), or a step's kernel scratch. */
typedef struct {
    uint64_t bytes, offset;
    uint32_t first, last; /* steps */
    uint32_t into;        /* the item whose place it reuses, or itself */
    uint32_t taken;       /* 1 + the last step that reused this place */
} item;

static int by_size(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x > y) - (x < y);
}

/* How many operands of a step use a buffer: only one with a single use may be overwritten in the
 * step. */
static uint32_t mentions(const pst_chunk *chunk, const pst_step *step, uint32_t buffer) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < step->n_operand; i++)
        n += step->operand[i].kind == PST_OPERAND_VALUE &&
             chunk->local[step->operand[i].index].buffer == buffer;
    return n;
}

/* In-place operands: the written buffer takes the place of the read one, which has the same size
 * and dies in this step. */
static void share_items(const pst_chunk *chunk, uint32_t program, item *items) {
    for (uint32_t s = 0; s < chunk->program[program].n_step; s++) {
        const pst_step *step = chunk->program[program].step + s;
        for (uint32_t i = 0; i < step->n_operand; i++) {
            const pst_operand *o = step->operand + i;
            if (o->kind != PST_OPERAND_VALUE || o->must || o->share < 0) continue;
            if (step->operand[o->share].kind != PST_OPERAND_VALUE) continue;
            uint32_t to = chunk->local[o->index].buffer,
                     from = chunk->local[step->operand[o->share].index].buffer;
            const pst_buffer *b = chunk->buffer + to, *a = chunk->buffer + from;
            if (a->pass_local != 1 + program || b->pass_local != 1 + program ||
                a->bytes != b->bytes || from == to)
                continue;
            if (a->last_step != s || b->first_step != s || mentions(chunk, step, from) != 1)
                continue;
            uint32_t root = items[from].into;
            if (items[root].taken == 1 + s) continue;
            items[to].into = root;
            items[root].taken = 1 + s;
            items[root].last = b->last_step;
        }
    }
}

/* placed is sorted by offset; inserts `it` at the lowest offset that is free during its life. */
static void place(item **placed, uint32_t n, item *it) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const item *other = placed[i];
        if (other->last < it->first || it->last < other->first) continue;
        if (at + it->bytes <= other->offset) break;
        uint64_t end = pst_align(other->offset + other->bytes);
        if (end > at) at = end;
    }
    it->offset = at;
    uint32_t i = n;
    for (; i && placed[i - 1]->offset > at; i--) placed[i] = placed[i - 1];
    placed[i] = it;
}

static uint32_t collect(const pst_chunk *chunk, uint32_t program, item *items, item **list) {
    uint32_t n = 0, n_buffer = chunk->n_buffer;
    for (uint32_t i = 0; i < n_buffer; i++) {
        const pst_buffer *b = chunk->buffer + i;
        items[i] =
            (item){.bytes = b->bytes, .first = b->first_step, .last = b->last_step, .into = i};
    }
    share_items(chunk, program, items);
    for (uint32_t i = 0; i < n_buffer; i++)
        if (chunk->buffer[i].pass_local == 1 + program && chunk->buffer[i].first_step != PST_NONE &&
            items[i].into == i && items[i].bytes)
            list[n++] = items + i;
    for (uint32_t s = 0; s < chunk->program[program].n_step; s++) {
        items[n_buffer + s] =
            (item){.bytes = chunk->program[program].step[s].scratch, .first = s, .last = s};
        if (items[n_buffer + s].bytes) list[n++] = items + n_buffer + s;
    }
    return n;
}

static pst_status place_program(pst_chunk *chunk, uint32_t program) {
    pst_program *p = chunk->program + program;
    size_t cap = (size_t)chunk->n_buffer + p->n_step;
    if (!p->n_step) return PST_OK;
    item *items = calloc(cap, sizeof *items), **list = calloc(cap, sizeof *list),
         **placed = calloc(cap, sizeof *placed);
    pst_status status = items && list && placed
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory to place %zu buffers", cap);
    uint32_t n = status == PST_OK ? collect(chunk, program, items, list) : 0;
    if (n) qsort(list, n, sizeof *list, by_size);
    for (uint32_t i = 0; i < n; i++) {
        place(placed, i, list[i]);
        if (list[i]->offset + list[i]->bytes > p->scratch_bytes)
            p->scratch_bytes = list[i]->offset + list[i]->bytes;
    }
    for (uint32_t i = 0; status == PST_OK && i < chunk->n_buffer; i++)
        if (chunk->buffer[i].pass_local == 1 + program)
            chunk->buffer[i].offset = items[items[i].into].offset;
    for (uint32_t s = 0; status == PST_OK && s < p->n_step; s++)
        p->step[s].scratch_offset = items[chunk->n_buffer + s].offset;
    free(items);
    free(list);
    free(placed);
    return status;
}

pst_status pst_cut_place_scratch(pst_cut *cut, uint32_t c) {
    for (uint32_t p = 0; p < 4; p++) PST_TRY(place_program(cut->chunk + c, p));
    return PST_OK;
}
