/* Memory of a rank during one step: a slot is in use from the first instruction that writes it to
 * the last one that needs it; scratch while a pass runs; everything before the slots during the
 * whole step. Uses the lifetimes of the memory map, on the predicted time axis. */
#include "planning/page_parts.h"
#include "base/arena.h"
#include <stdlib.h>

/* Start and end of an event (pst_event) of one micro-batch and chunk. */
typedef struct {
    uint64_t start, end; /* ns; start UINT64_MAX: the event does not occur on this rank */
} moment;

typedef struct {
    uint64_t ns;
    int64_t slots, scratch; /* bytes added from this time on */
} change;

typedef struct {
    const pst_prepared *p;
    const pst_cut *cut;
    uint32_t rank, n_micro;
    moment *at; /* [n_chunk][n_micro][PST_EV_COUNT] */
    change *change;
    size_t n, capacity;
} lives;

static moment *moment_of(const lives *x, uint32_t chunk, uint32_t micro, uint32_t event) {
    return x->at + ((size_t)chunk * x->n_micro + micro) * PST_EV_COUNT + event;
}

/* The event of an instruction; PST_EV_COUNT: none. */
static uint32_t event_of(const lives *x, const pst_instr *in) {
    if (in->opcode <= PST_OP_BW) return pst_event_of(in->opcode);
    if (in->local == PST_NONE) return PST_EV_COUNT;
    const pst_local *local = &x->cut->chunk[in->chunk].local[in->local];
    if (in->opcode == PST_OP_RECV) return local->birth;
    return local->uses >> PST_EV_SEND_F & 1 ? PST_EV_SEND_F : PST_EV_SEND_B;
}

static void add(lives *x, uint64_t ns, int64_t slots, int64_t scratch) {
    x->change[x->n++] = (change){ns, slots, scratch};
}

static void find_moments(lives *x) {
    const pst_instr_list *list = &x->p->job->list[x->rank];
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        const pst_span *span = &x->p->timing->span[x->rank][i];
        uint32_t event = in->opcode <= PST_OP_RECV ? event_of(x, in) : PST_EV_COUNT;
        if (event == PST_EV_COUNT) continue;
        moment *m = moment_of(x, in->chunk, in->micro, event);
        if (span->start < m->start) m->start = span->start;
        if (span->end > m->end) m->end = span->end;
        if (in->opcode > PST_OP_BW) continue;
        int64_t scratch = (int64_t)x->cut->chunk[in->chunk].program[in->opcode].scratch_bytes;
        add(x, span->start, 0, scratch);
        add(x, span->end, 0, -scratch);
    }
}

static void find_lives(lives *x, const pst_slots *slots) {
    for (uint32_t c = 0; c < slots->n_class; c++) {
        const pst_class *class = &slots->class_[c];
        if (!x->p->memory[x->rank]->has_chunk[class->chunk]) continue;
        int64_t bytes = (int64_t)pst_align(class->bytes);
        for (uint32_t m = 0; m < x->n_micro; m++) {
            const moment *birth = moment_of(x, class->chunk, m, class->birth);
            uint64_t end = birth->end;
            if (birth->start == UINT64_MAX) continue;
            for (uint32_t e = 0; e < PST_EV_COUNT; e++)
                if (class->deaths >> e & 1 && moment_of(x, class->chunk, m, e)->end > end)
                    end = moment_of(x, class->chunk, m, e)->end;
            add(x, birth->start, bytes, 0);
            add(x, end, -bytes, 0);
        }
    }
}

/* At equal times, what ends comes before what begins. */
static int in_time(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    int64_t dx = x->slots + x->scratch, dy = y->slots + y->scratch;
    return (dx > dy) - (dx < dy);
}

static pst_status collect(lives *x, pst_plan_rank *to) {
    int64_t slots = 0, scratch = 0;
    qsort(x->change, x->n, sizeof *x->change, in_time);
    to->held = calloc(x->n + 1, sizeof *to->held);
    if (!to->held) return pst_fail(PST_ENOMEM, "no memory for the report");
    to->n_held = 1;
    for (size_t i = 0; i < x->n; i++) {
        double us = (double)x->change[i].ns * 1e-3;
        slots += x->change[i].slots;
        scratch += x->change[i].scratch;
        if (to->held[to->n_held - 1].us < us) to->n_held++;
        to->held[to->n_held - 1] = (pst_plan_held){us, (uint64_t)slots, (uint64_t)scratch};
    }
    return PST_OK;
}

pst_status pst_plan_page_held(const pst_prepared *p, uint32_t rank, pst_plan_rank *to) {
    uint32_t lane = pst_grid_lane(p->grid, rank);
    const pst_slots *slots = p->slots[lane];
    lives x = {.p = p,
               .cut = p->cuts[pst_grid_at(p->grid, rank).tensor],
               .rank = rank,
               .n_micro = pst_job_micros(p->job, rank)};
    size_t n_moment = (size_t)x.cut->n_chunk * x.n_micro * PST_EV_COUNT;
    x.capacity = 2 * ((size_t)p->job->list[rank].n_instr + (size_t)slots->n_class * x.n_micro);
    x.at = malloc((n_moment ? n_moment : 1) * sizeof *x.at);
    x.change = malloc((x.capacity ? x.capacity : 1) * sizeof *x.change);
    pst_status status =
        x.at && x.change ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the report");
    if (status == PST_OK) {
        for (size_t i = 0; i < n_moment; i++) x.at[i] = (moment){.start = UINT64_MAX};
        find_moments(&x);
        find_lives(&x, slots);
        status = collect(&x, to);
    }
    free(x.at);
    free(x.change);
    return status;
}
