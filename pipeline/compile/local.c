/* The tape's values within each chunk: locals with the events of their birth and uses, the buffers
 * that hold them, and the classes of buffers with the same birth and deaths. A phase of
 * pst_cut_build. */
#include "base/arena.h"
#include "base/transport.h"
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>
#include <string.h>

static int is_data(const pst_cut *cut, uint32_t value) {
    return cut->tape->value[value].def_step == PST_NONE;
}

static int is_output(const pst_cut *cut, uint32_t value) {
    const pst_value *v = cut->tape->value + value;
    return cut->graph && v->kind == PST_VALUE_TENSOR &&
           cut->graph->tensor[v->tensor].role == PST_TENSOR_OUTPUT;
}

static pst_event event_of_pass(const pst_cut *cut, pst_pass pass) {
    if (pass == PST_PASS_F) return PST_EV_F;
    return pass == PST_PASS_W && cut->split ? PST_EV_W : PST_EV_B;
}

/* --- the chunks of a value -------------------------------------------------------------------- */

static void order_values(const pst_cut *cut, uint32_t *order) {
    const pst_tape *tape = cut->tape;
    uint32_t n = 0;
    for (uint32_t v = 0; v < tape->n_value; v++)
        if (is_data(cut, v)) order[n++] = v;
    for (uint32_t s = 0; s < tape->n_step; s++)
        for (uint32_t i = 0; i < tape->step[s].n_operand; i++) {
            const pst_operand *o = tape->step[s].operand + i;
            if (o->kind == PST_OPERAND_VALUE && o->access & PST_WRITE &&
                tape->value[o->index].def_step == s)
                order[n++] = o->index;
        }
}

static void find_range(const pst_cut *cut, pst_spread *x) {
    const pst_tape *tape = cut->tape;
    for (uint32_t v = 0; v < tape->n_value; v++) {
        x->low[v] = cut->n_chunk;
        x->high[v] = 0;
    }
    for (uint32_t s = 0; s < tape->n_step; s++)
        for (uint32_t i = 0; i < tape->step[s].n_operand; i++) {
            const pst_operand *o = tape->step[s].operand + i;
            if (o->kind != PST_OPERAND_VALUE) continue;
            uint32_t c = pst_cut_step_chunk(cut, s);
            if (c < x->low[o->index]) x->low[o->index] = c;
            if (c > x->high[o->index]) x->high[o->index] = c;
        }
}

/* Activations are sent to higher chunks, gradients to lower ones; what F saved stays in its chunk.
 */
static pst_status number_channels(pst_cut *cut, pst_spread *x) {
    const pst_tape *tape = cut->tape;
    uint64_t next = 0;
    for (uint32_t i = 0; i < tape->n_value; i++) {
        uint32_t v = x->order[i];
        const pst_value *value = tape->value + v;
        x->channel[v] = (uint32_t)next;
        if (is_data(cut, v) || x->low[v] >= x->high[v]) continue;
        uint32_t home = pst_cut_step_chunk(cut, value->def_step);
        if (value->kind == PST_VALUE_SAVED ||
            home != (value->kind == PST_VALUE_GRAD ? x->high[v] : x->low[v]))
            return pst_fail(PST_EINTERNAL, "value %u is read in a chunk to which it is never sent",
                            v);
        next += x->high[v] - x->low[v];
        if (next >= PST_CHANNEL_COLLECTIVE)
            return pst_fail(
                PST_EINPUT,
                "too many values cross chunk boundaries; expected at most %d: use fewer chunks",
                PST_CHANNEL_COLLECTIVE);
    }
    cut->n_channel = (uint32_t)next;
    return PST_OK;
}

/* The values of each chunk: first, value. */
static pst_status list_values(const pst_cut *cut, pst_spread *x) {
    const uint32_t n_value = cut->tape->n_value;
    uint32_t *count = x->first = calloc(cut->n_chunk + (size_t)2, sizeof *x->first);
    if (!count) return pst_fail(PST_ENOMEM, "no memory to divide %u values among chunks", n_value);
    for (uint32_t v = 0; v < n_value; v++)
        for (uint32_t c = x->low[v]; c < cut->n_chunk && c <= x->high[v]; c++) count[c + 2]++;
    for (uint32_t c = 0; c < cut->n_chunk; c++) count[c + 2] += count[c + 1];
    x->value = malloc((count[cut->n_chunk + 1] + (size_t)1) * sizeof *x->value);
    if (!x->value)
        return pst_fail(PST_ENOMEM, "no memory to divide %u values among chunks", n_value);
    for (uint32_t i = 0; i < n_value; i++) {
        const uint32_t v = x->order[i];
        for (uint32_t c = x->low[v]; c < cut->n_chunk && c <= x->high[v]; c++)
            x->value[count[c + 1]++] = v;
    }
    return PST_OK;
}

pst_status pst_spread_open(pst_cut *cut, pst_spread *x) {
    size_t n = cut->tape->n_value ? cut->tape->n_value : 1;
    *x = (pst_spread){.order = calloc(n, sizeof *x->order),
                      .low = calloc(n, sizeof *x->low),
                      .high = calloc(n, sizeof *x->high),
                      .channel = calloc(n, sizeof *x->channel),
                      .local = calloc(n, sizeof *x->local)};
    if (!x->order || !x->low || !x->high || !x->channel || !x->local)
        return pst_fail(PST_ENOMEM, "no memory to divide %zu values among chunks", n);
    order_values(cut, x->order);
    find_range(cut, x);
    PST_TRY(list_values(cut, x));
    PST_TRY(pst_chunk_steps_open(cut, &x->steps));
    return number_channels(cut, x);
}

void pst_spread_close(pst_spread *x) {
    free(x->order);
    free(x->low);
    free(x->high);
    free(x->channel);
    free(x->local);
    free(x->first);
    free(x->value);
    pst_chunk_steps_close(&x->steps);
}

/* --- locals ----------------------------------------------------------------------------------- */

static void mark_uses(const pst_cut *cut, const pst_spread *x, uint32_t c, pst_chunk *chunk) {
    for (uint32_t k = x->steps.first[c]; k < x->steps.first[c + 1]; k++) {
        const uint32_t s = x->steps.step[k];
        const pst_tape_step *step = cut->tape->step + s;
        for (uint32_t i = 0; i < step->n_operand; i++)
            if (step->operand[i].kind == PST_OPERAND_VALUE && step->operand[i].access & PST_READ)
                chunk->local[x->local[step->operand[i].index]].uses |=
                    (uint8_t)(1u << event_of_pass(cut, pst_cut_step_pass(cut, s)));
    }
}

/* Chunk c uses data only if one of its steps reads it; low..high alone does not say that. */
static void mark_data(const pst_cut *cut, pst_spread *x, uint32_t c) {
    for (uint32_t i = x->first[c]; i < x->first[c + 1]; i++) x->local[x->value[i]] = PST_NONE;
    for (uint32_t k = x->steps.first[c]; k < x->steps.first[c + 1]; k++) {
        const pst_tape_step *step = cut->tape->step + x->steps.step[k];
        for (uint32_t i = 0; i < step->n_operand; i++)
            if (step->operand[i].kind == PST_OPERAND_VALUE) x->local[step->operand[i].index] = 0;
    }
}

static pst_local make_local(const pst_cut *cut, const pst_spread *x, uint32_t v, uint32_t c) {
    const pst_value *value = cut->tape->value + v;
    pst_local l = {.value = v,
                   .bytes = value->bytes,
                   .birth = PST_EV_F,
                   .buffer = PST_NONE,
                   .channel_in = PST_NONE,
                   .channel_out = PST_NONE};
    if (is_data(cut, v)) return l;
    int down = value->kind == PST_VALUE_GRAD;
    uint32_t home = down ? x->high[v] : x->low[v], last = down ? x->low[v] : x->high[v];
    uint32_t hop = down ? home - c : c - home; /* boundaries crossed before this chunk */
    if (c == home) {
        l.birth = (uint8_t)event_of_pass(cut, pst_cut_step_pass(cut, value->def_step));
    } else {
        l.birth = down ? PST_EV_RECV_B : PST_EV_RECV_F;
        l.channel_in = x->channel[v] + hop - 1;
    }
    if (c != last) {
        l.uses = (uint8_t)(1u << (down ? PST_EV_SEND_B : PST_EV_SEND_F));
        l.channel_out = x->channel[v] + hop;
    }
    return l;
}

pst_status pst_cut_locals(pst_cut *cut, pst_spread *x, uint32_t c) {
    pst_chunk *chunk = cut->chunk + c;
    mark_data(cut, x, c);
    uint32_t n = 0;
    for (int fill = 0; fill < 2; fill++) {
        n = 0;
        for (uint32_t i = x->first[c]; i < x->first[c + 1]; i++) {
            const uint32_t v = x->value[i];
            if (is_data(cut, v) && x->local[v] == PST_NONE) continue;
            if (fill) {
                chunk->local[n] = make_local(cut, x, v, c);
                x->local[v] = n;
            }
            n++;
        }
        if (!fill && !(chunk->local = calloc(n ? n : 1, sizeof *chunk->local)))
            return pst_fail(PST_ENOMEM, "no memory for %u values of a chunk", n);
    }
    chunk->n_local = n;
    mark_uses(cut, x, c, chunk);
    return PST_OK;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static uint32_t find(uint32_t *parent, uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

/* Merges values that always share memory, as an operator's row says. */
static pst_status merge(const pst_chunk *chunk, uint32_t *parent) {
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t s = 0; s < chunk->program[p].n_step; s++) {
            const pst_step *step = chunk->program[p].step + s;
            for (uint32_t i = 0; i < step->n_operand; i++) {
                const pst_operand *o = step->operand + i;
                if (!o->must || o->share < 0 || o->kind != PST_OPERAND_VALUE) continue;
                const pst_operand *with = step->operand + o->share;
                if (with->kind != PST_OPERAND_VALUE ||
                    chunk->local[with->index].bytes != chunk->local[o->index].bytes)
                    return pst_fail(PST_EINTERNAL,
                                    "operand %u of node %u cannot share the memory of operand %d: "
                                    "the kind or size differs",
                                    i, step->node, o->share);
                parent[find(parent, o->index)] = find(parent, with->index);
            }
        }
    return PST_OK;
}

static pst_status join_local(const pst_cut *cut, pst_buffer *b, const pst_local *l, int is_first) {
    uint8_t place = PST_PLACE_SLOT;
    if (l->birth != PST_EV_RECV_F && is_output(cut, l->value)) place = PST_PLACE_OUTPUT;
    if (is_data(cut, l->value)) place = PST_PLACE_DATA;
    if (is_first)
        *b = (pst_buffer){
            .birth = PST_EV_COUNT, .first_step = PST_NONE, .class_ = PST_NONE, .place = place};
    if (b->place != place && (b->place == PST_PLACE_DATA || place == PST_PLACE_DATA))
        return pst_fail(PST_EINTERNAL, "an operator overwrites a data tensor");
    if (place == PST_PLACE_OUTPUT) b->place = place;
    if (l->bytes > b->bytes) b->bytes = l->bytes;
    if (l->birth < b->birth) b->birth = l->birth;
    b->deaths |= (uint8_t)(l->uses | 1u << l->birth);
    return PST_OK;
}

static uint8_t program_of_deaths(const pst_cut *cut, uint8_t deaths) {
    if (deaths == 1u << PST_EV_F) return 1 + PST_OP_F;
    if (deaths == 1u << PST_EV_B) return 1 + (cut->split ? PST_OP_B : PST_OP_BW);
    return deaths == 1u << PST_EV_W ? 1 + PST_OP_W : 0;
}

static void find_steps(pst_chunk *chunk) {
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t s = 0; s < chunk->program[p].n_step; s++) {
            const pst_step *step = chunk->program[p].step + s;
            for (uint32_t i = 0; i < step->n_operand; i++) {
                if (step->operand[i].kind != PST_OPERAND_VALUE) continue;
                pst_buffer *b = chunk->buffer + chunk->local[step->operand[i].index].buffer;
                if (b->pass_local != 1 + p) continue;
                if (b->first_step == PST_NONE) b->first_step = s;
                b->last_step = s;
            }
        }
}

pst_status pst_cut_buffers(pst_cut *cut, uint32_t c) {
    pst_chunk *chunk = cut->chunk + c;
    uint32_t n = chunk->n_local, *parent = calloc(n ? n : 1, sizeof *parent);
    chunk->buffer = calloc(n ? n : 1, sizeof *chunk->buffer);
    pst_status status =
        parent && chunk->buffer ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u buffers", n);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) parent[i] = i;
    if (status == PST_OK) status = merge(chunk, parent);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        pst_local *root = chunk->local + find(parent, i);
        int is_first = root->buffer == PST_NONE;
        if (is_first) root->buffer = chunk->n_buffer++;
        chunk->local[i].buffer = root->buffer;
        status = join_local(cut, chunk->buffer + root->buffer, chunk->local + i, is_first);
    }
    free(parent);
    if (status != PST_OK) return status;
    for (uint32_t i = 0; i < chunk->n_buffer; i++) {
        pst_buffer *b = chunk->buffer + i;
        if (b->place == PST_PLACE_SLOT) b->pass_local = program_of_deaths(cut, b->deaths);
        if (b->pass_local) b->place = PST_PLACE_SCRATCH;
    }
    find_steps(chunk);
    return PST_OK;
}

/* --- classes ---------------------------------------------------------------------------------- */

static pst_status class_for(pst_cut *cut, uint32_t c, uint32_t first, const pst_buffer *b,
                            uint32_t *index) {
    for (*index = first; *index < cut->n_class; ++*index)
        if (cut->class_[*index].birth == b->birth && cut->class_[*index].deaths == b->deaths)
            return PST_OK;
    pst_cut_class *more = realloc(cut->class_, (cut->n_class + 1) * sizeof *more);
    if (!more)
        return pst_fail(PST_ENOMEM, "no memory for %u classes of memory slots", cut->n_class + 1);
    cut->class_ = more;
    cut->class_[cut->n_class++] =
        (pst_cut_class){.chunk = c, .birth = b->birth, .deaths = b->deaths};
    return PST_OK;
}

pst_status pst_cut_classes(pst_cut *cut, uint32_t c) {
    pst_chunk *chunk = cut->chunk + c;
    uint32_t first = cut->n_class;
    for (uint32_t i = 0; i < chunk->n_buffer; i++) {
        pst_buffer *b = chunk->buffer + i;
        if (b->place != PST_PLACE_SLOT) continue;
        PST_TRY(class_for(cut, c, first, b, &b->class_));
        pst_cut_class *class_ = cut->class_ + b->class_;
        b->offset = pst_align(class_->bytes);
        class_->bytes = b->offset + b->bytes;
    }
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = chunk->local + i;
        const pst_buffer *b = chunk->buffer + l->buffer;
        if (b->class_ != PST_NONE && l->birth != b->birth)
            cut->class_[b->class_].rewrites |= (uint8_t)(1u << l->birth);
    }
    return PST_OK;
}
