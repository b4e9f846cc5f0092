/* The cut of a step's first micro-batch, which has fewer samples (pst_cut.rest): it was cut like
 * the others, and computes in their memory, where each of its values has at most as many bytes. */
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_cut_rest_differs(const pst_cut *cut, uint32_t chunk) {
    return pst_fail(PST_EINPUT,
                    "chunk %u computes micro-batches of %u and of %u samples in different ways; "
                    "choose a train.micro_batch that divides train.batch",
                    chunk, cut->graph->micro_batch, cut->rest->graph->micro_batch);
}

/* Operands are the same; only where UNREAD gradients are in the step's scratch memory differs. */
static int same_operands(const pst_step *a, const pst_step *b) {
    if (a->n_operand != b->n_operand) return 0;
    for (uint32_t i = 0; i < a->n_operand; i++) {
        const pst_operand *x = a->operand + i, *y = b->operand + i;
        const int unread = x->kind == PST_OPERAND_UNREAD;
        if (x->kind != y->kind || x->access != y->access || x->index != y->index ||
            (x->use != y->use && !unread))
            return 0;
    }
    return 1;
}

static int same_step(const pst_step *a, const pst_step *b) {
    return a->node == b->node && a->pass == b->pass && a->extra == b->extra &&
           a->exchange == b->exchange && a->again == b->again && same_operands(a, b);
}

static int same_local(const pst_local *a, const pst_local *b) {
    return a->value == b->value && a->birth == b->birth && a->uses == b->uses &&
           a->channel_in == b->channel_in && a->channel_out == b->channel_out;
}

static int place_program(const pst_program *from, pst_program *to) {
    if (from->n_step != to->n_step) return 0;
    for (uint32_t i = 0; i < from->n_step; i++) {
        if (!same_step(from->step + i, to->step + i)) return 0;
        to->step[i].scratch = from->step[i].scratch;
        to->step[i].scratch_offset = from->step[i].scratch_offset;
    }
    to->scratch_bytes = from->scratch_bytes;
    return 1;
}

static int place_locals(const pst_chunk *from, pst_chunk *to) {
    if (from->n_local != to->n_local) return 0;
    for (uint32_t i = 0; i < from->n_local; i++) {
        if (!same_local(from->local + i, to->local + i)) return 0;
        if (to->local[i].bytes > from->buffer[from->local[i].buffer].bytes) return 0;
        to->local[i].buffer = from->local[i].buffer;
    }
    return 1;
}

static pst_status place_buffers(const pst_chunk *from, pst_chunk *to) {
    pst_buffer *buffer = malloc((from->n_buffer + (size_t)1) * sizeof *buffer);
    if (!buffer) return pst_no_memory("to cut the graph");
    memcpy(buffer, from->buffer, from->n_buffer * sizeof *buffer);
    free(to->buffer);
    to->buffer = buffer;
    to->n_buffer = from->n_buffer;
    return PST_OK;
}

static pst_status place_classes(const pst_cut *from, pst_cut *to) {
    pst_cut_class *class_ = malloc((from->n_class + (size_t)1) * sizeof *class_);
    if (!class_) return pst_no_memory("to cut the graph");
    if (from->n_class) memcpy(class_, from->class_, from->n_class * sizeof *class_);
    free(to->class_);
    to->class_ = class_;
    to->n_class = from->n_class;
    return PST_OK;
}

pst_status pst_cut_place_rest(pst_cut *cut) {
    pst_cut *rest = cut->rest;
    for (uint32_t c = 0; c < cut->n_chunk; c++) {
        int same = place_locals(cut->chunk + c, rest->chunk + c);
        for (uint32_t op = 0; op < 4 && same; op++)
            same = place_program(cut->chunk[c].program + op, rest->chunk[c].program + op);
        if (!same) return pst_cut_rest_differs(cut, c);
        PST_TRY(place_buffers(cut->chunk + c, rest->chunk + c));
    }
    return place_classes(cut, rest);
}
