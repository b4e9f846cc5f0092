/* Slots: in the order of one rank's list, every class gets a slot per micro-batch from its first
 * write to its last read. A reused slot costs dependencies on the readers of its previous occupant.
 * Greedy by start, which is optimal for intervals. */
#include "pipeline/compile/slots.h"
#include "pipeline/compile/builder.h"
#include <stdlib.h>

pst_status pst_slots_open(const pst_cut *cut, uint32_t n_micro, pst_slots **slots) {
    pst_slots *s = calloc(1, sizeof *s);
    if (s) s->class_ = calloc(cut->n_class ? cut->n_class : 1, sizeof *s->class_);
    int failed = !s || !s->class_;
    if (!failed) {
        s->n_class = cut->n_class;
        s->n_micro = n_micro;
    }
    for (uint32_t k = 0; !failed && k < cut->n_class; k++) {
        const pst_cut_class *from = cut->class_ + k;
        s->class_[k] = (pst_class){.chunk = from->chunk,
                                   .birth = from->birth,
                                   .deaths = from->deaths,
                                   .bytes = from->bytes};
        failed = !(s->class_[k].slot_of_micro = calloc(n_micro ? n_micro : 1, sizeof(uint32_t)));
        for (uint32_t m = 0; !failed && m < n_micro; m++) s->class_[k].slot_of_micro[m] = PST_NONE;
    }
    if (failed) {
        pst_slots_close(s);
        return pst_fail(PST_ENOMEM, "no memory for %u classes of memory slots", cut->n_class);
    }
    *slots = s;
    return PST_OK;
}

void pst_slots_close(pst_slots *slots) {
    if (!slots) return;
    for (uint32_t k = 0; slots->class_ && k < slots->n_class; k++)
        free(slots->class_[k].slot_of_micro);
    free(slots->class_);
    free(slots->gradient);
    free(slots);
}

/* --- lives ------------------------------------------------------------------------------------ */

/* Of the current rank; arrays over (class - first) * n_micro + micro, only for classes of this
 * rank's chunks. */
typedef struct {
    uint32_t n_micro;
    uint32_t *row; /* [n_class] the class's row in the arrays below, PST_NONE: on another rank */
    uint32_t *end; /* last instruction that needs the slot */
    uint32_t *compute;  /* last compute instruction so far that reads or writes it, PST_NONE */
    uint32_t *send;     /* latest SEND so far that reads it, PST_NONE; the one before is next[it] */
    uint32_t *before;   /* the slot's previous micro-batch, PST_NONE */
    uint32_t *occupant; /* row * n_micro + slot -> micro-batch */
    uint32_t *least;    /* [row] smallest end of the occupants */
    uint32_t *next;     /* [n_instr] */
    uint32_t *class_first, *class_last; /* [n_chunk] classes of a chunk are contiguous */
    /* compute instructions, and their start in the unit-time simulation */
    uint32_t n_compute, *compute_list, *compute_start;
} lives;

static void free_lives(lives *x) {
    free(x->row);
    free(x->end);
    free(x->compute);
    free(x->send);
    free(x->before);
    free(x->occupant);
    free(x->least);
    free(x->next);
    free(x->class_first);
    free(x->class_last);
    free(x->compute_list);
    free(x->compute_start);
}

static uint32_t *filled(size_t n, uint32_t value) {
    uint32_t *array = malloc((n ? n : 1) * sizeof *array);
    for (size_t i = 0; array && i < n; i++) array[i] = value;
    return array;
}

static pst_status open_lives(const pst_job_builder *b, lives *x) {
    const pst_cut *cut = b->cut;
    uint32_t rows = 0;
    *x = (lives){.n_micro = b->n_micro, .row = filled(cut->n_class, PST_NONE)};
    x->class_first = filled(cut->n_chunk, 0);
    x->class_last = filled(cut->n_chunk, 0);
    if (!x->row || !x->class_first || !x->class_last)
        return pst_fail(PST_ENOMEM, "no memory to assign memory slots");
    for (uint32_t k = 0; k < cut->n_class; k++) {
        uint32_t c = cut->class_[k].chunk;
        if (b->job->rank_of_chunk[c] == b->stage) x->row[k] = rows++;
        if (x->class_last[c] == 0) x->class_first[c] = k;
        x->class_last[c] = k + 1;
    }
    size_t n = (size_t)rows * x->n_micro;
    x->end = filled(n, 0);
    x->compute = filled(n, PST_NONE);
    x->send = filled(n, PST_NONE);
    x->before = filled(n, PST_NONE);
    x->occupant = filled(n, PST_NONE);
    x->least = filled(rows, UINT32_MAX);
    x->next = filled(b->n_instr, PST_NONE);
    x->compute_list = filled(b->n_instr, 0);
    x->compute_start = filled(b->n_instr, 0);
    if (!x->compute_list || !x->compute_start || !x->end || !x->compute || !x->send || !x->before ||
        !x->occupant || !x->least || !x->next)
        return pst_fail(PST_ENOMEM, "no memory to assign memory slots");
    return PST_OK;
}

static size_t cell(const lives *x, uint32_t class_, uint32_t micro) {
    return (size_t)x->row[class_] * x->n_micro + micro;
}

static uint32_t class_of_transfer(const pst_job_builder *b, const pst_instr *instr) {
    const pst_chunk *chunk = b->cut->chunk + instr->chunk;
    return chunk->buffer[chunk->local[instr->local].buffer].class_;
}

/* Arrival of a value, hop by hop from the chunk that computes it: it is sent when it is computed
 * (if forwarded: when it has arrived and the sender has finished the action before), and arrives
 * once the receiver has posted the RECV: one action before its consumer. */
static uint32_t arrival_of(const pst_job_builder *b, uint32_t chunk, const pst_local *local,
                           uint32_t micro) {
    const pst_schedule *s = b->schedule;
    const pst_unit_time *p = &b->unit_time;
    const pst_value *v = b->cut->tape->value + local->value;
    int down = v->kind == PST_VALUE_GRAD;
    uint8_t back = s->split ? PST_OP_B : PST_OP_BW, opcode = down ? back : PST_OP_F;
    uint32_t c = b->cut->chunk_of_node[b->cut->tape->step[v->def_step].node], time = 0;
    for (int home = 1;; home = 0) {
        size_t at = pst_unit_time_key(s, c, opcode, micro);
        if (home) time = p->finish[at];
        else if (p->idle[at] > time) time = p->idle[at];
        uint32_t last = c == chunk;
        c = down ? c - 1 : c + 1;
        uint32_t posted = p->post[pst_unit_time_key(s, c, opcode, micro)];
        if (posted > time) time = posted;
        if (last) return time;
    }
}

/* The first compute instruction after `at` that starts, in the unit-time simulation, at or after
 * the value's arrival: this one may not reuse the slot yet, later ones may. If there is none: the
 * end of the list. */
static uint32_t end_of_send(const pst_job_builder *b, const lives *x, uint32_t at) {
    const pst_instr *instr = b->instr + at;
    uint32_t arrival =
        arrival_of(b, instr->chunk, b->cut->chunk[instr->chunk].local + instr->local, instr->micro);
    uint32_t low = 0, high = x->n_compute;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int later = x->compute_list[middle] > at && x->compute_start[middle] >= arrival;
        if (later) high = middle;
        else low = middle + 1;
    }
    return low < x->n_compute ? x->compute_list[low] : b->n_instr;
}

static void find_ends(const pst_job_builder *b, lives *x) {
    for (uint32_t i = 0; i < b->n_instr; i++) {
        const pst_instr *instr = b->instr + i;
        if (instr->opcode > PST_OP_BW) continue;
        size_t key = ((size_t)instr->chunk * 4 + instr->opcode) * x->n_micro + instr->micro;
        x->compute_list[x->n_compute] = i;
        x->compute_start[x->n_compute++] = b->unit_time.start[key];
        for (uint32_t k = x->class_first[instr->chunk]; k < x->class_last[instr->chunk]; k++)
            if (b->cut->class_[k].deaths >> pst_event_of(instr->opcode) & 1)
                x->end[cell(x, k, instr->micro)] = i;
    }
    for (uint32_t i = 0; i < b->n_instr; i++) {
        const pst_instr *instr = b->instr + i;
        if (pst_opcode_computes(instr->opcode) || instr->local == PST_NONE) continue;
        uint32_t k = class_of_transfer(b, instr),
                 last = instr->opcode == PST_OP_SEND ? end_of_send(b, x, i) : i;
        if (k != PST_NONE && last > x->end[cell(x, k, instr->micro)])
            x->end[cell(x, k, instr->micro)] = last;
    }
}

/* --- choosing --------------------------------------------------------------------------------- */

static void choose_slot(pst_job_builder *b, lives *x, uint32_t k, uint32_t micro, uint32_t at) {
    pst_class *class_ = b->slots->class_ + k;
    uint32_t row = x->row[k], *occupant = x->occupant + cell(x, k, 0), best = PST_NONE,
             end = x->end[cell(x, k, micro)];
    if (x->least[row] < at)
        for (uint32_t s = 0; s < class_->n_slot; s++)
            if (best == PST_NONE ||
                x->end[cell(x, k, occupant[s])] < x->end[cell(x, k, occupant[best])])
                best = s;
    if (best == PST_NONE) best = class_->n_slot++;
    else x->before[cell(x, k, micro)] = occupant[best];
    occupant[best] = micro;
    class_->slot_of_micro[micro] = best;
    uint32_t least = end;
    if (x->before[cell(x, k, micro)] == PST_NONE && x->least[row] < least) least = x->least[row];
    else
        for (uint32_t s = 0; s < class_->n_slot; s++)
            if (x->end[cell(x, k, occupant[s])] < least) least = x->end[cell(x, k, occupant[s])];
    x->least[row] = least;
}

static void wait_sends(pst_job_builder *b, const lives *x, uint32_t at, size_t c) {
    for (uint32_t s = x->send[c]; s != PST_NONE; s = x->next[s]) pst_builder_depend(b, at, s);
}

/* Instruction `at` is the first to write the class in this micro-batch. */
static void take_slot(pst_job_builder *b, lives *x, uint32_t k, uint32_t micro, uint32_t at) {
    if (b->slots->class_[k].slot_of_micro[micro] == PST_NONE) choose_slot(b, x, k, micro, at);
    uint32_t before = x->before[cell(x, k, micro)];
    if (before == PST_NONE) return;
    size_t c = cell(x, k, before);
    if (x->compute[c] != PST_NONE) pst_builder_depend(b, at, x->compute[c]);
    wait_sends(b, x, at, c);
}

static void visit_compute(pst_job_builder *b, lives *x, uint32_t at) {
    const pst_instr instr = b->instr[at];
    pst_event event = pst_event_of(instr.opcode);
    for (uint32_t k = x->class_first[instr.chunk]; k < x->class_last[instr.chunk]; k++) {
        const pst_cut_class *class_ = b->cut->class_ + k;
        if (!(class_->deaths >> event & 1)) continue;
        size_t c = cell(x, k, instr.micro);
        int first = pst_instr_begins(&instr);
        if (class_->birth == event && first) take_slot(b, x, k, instr.micro, at);
        else if (class_->rewrites >> event & 1 && first) wait_sends(b, x, at, c);
        x->compute[c] = at;
    }
}

static void visit_transfer(pst_job_builder *b, lives *x, uint32_t at) {
    const pst_instr instr = b->instr[at];
    uint32_t k = class_of_transfer(b, &instr);
    if (k == PST_NONE) return;
    if (instr.opcode == PST_OP_RECV) {
        take_slot(b, x, k, instr.micro, at);
    } else {
        size_t c = cell(x, k, instr.micro);
        x->next[at] = x->send[c];
        x->send[c] = at;
    }
}

void pst_builder_assign_slots(pst_job_builder *b) {
    lives x;
    pst_status status = open_lives(b, &x);
    if (status == PST_OK) find_ends(b, &x);
    for (uint32_t i = 0; status == PST_OK && i < b->n_instr && b->status == PST_OK; i++) {
        if (b->instr[i].opcode <= PST_OP_BW) visit_compute(b, &x, i);
        else if (b->instr[i].local != PST_NONE) visit_transfer(b, &x, i);
    }
    free_lives(&x);
    if (status != PST_OK) b->status = status;
}
