/* The oracle of the mutation tests: exhaustive execution of instruction lists on an abstract
 * machine, which knows what instr.h and flush.h of pipeline/compile say that lists mean, and
 * nothing of how the checker goes about it.
 *
 * Whatever has started can take any time, and a message may be buffered or not: these are the
 * interleavings. Lists have no choices (no instruction takes something away from another), so what
 * can start once can always start later; hence, of all interleavings, these decide:
 * - one in which messages are not buffered: if it comes to an end all do, else none does; its
 * contents are everybody's, when no two instructions race;
 * - for every instruction one in which it never ends while all others run as far as they can,
 * messages buffered: what has been started then can start before it ends in some interleaving, and
 * nothing else can in any. Two instructions that touch the same memory, one of them writing, race
 * when each can start before the other ends. */
#ifndef PST_TESTS_PIPELINE_MACHINE_H
#define PST_TESTS_PIPELINE_MACHINE_H
#include "pipeline/compile/passes.h"
#include "pipeline/check/check.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_job *job;
    const pst_cut *cut;
    const pst_slots *slots;
    uint32_t n, *first; /* instructions of all ranks; [n_rank + 1] number of each rank's first */
    uint32_t *partner;  /* [n] */
    uint8_t *issued, *ended, *started; /* [n]; started: [n][n] when the first never ends */
    uint32_t *cell_first;              /* [n_chunk + 1] number of the chunk's first buffer */
    uint64_t *cell; /* [buffers][n_micro] 1 + (value, micro-batch) that lies there; 0: nothing */
    const char *why;
} machine;

static inline int wrong(machine *x, const char *why) {
    x->why = why;
    return 0;
}

/* --- what lists have to look like ------------------------------------------------------------- */

static inline int machine_form(machine *x) {
    const pst_job *j = x->job;
    for (uint32_t r = 0; r < j->n_rank; r++)
        for (uint32_t i = 0; i < j->list[r].n_instr; i++) {
            const pst_instr *in = &j->list[r].instr[i];
            int moves = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
            if (!moves && in->opcode > PST_OP_BW) return wrong(x, "opcode");
            if (moves && (in->peer >= j->n_rank)) return wrong(x, "peer");
            if (in->chunk >= j->n_chunk || in->micro >= j->n_micro ||
                j->rank_of_chunk[in->chunk] != r)
                return wrong(x, "not of this rank");
            if (in->rest != (uint32_t)(j->rest && !in->micro)) return wrong(x, "samples");
            if (moves) {
                const pst_cut *sizes = pst_cut_of(x->cut, in->rest != 0);
                if (in->local >= sizes->chunk[in->chunk].n_local) return wrong(x, "local");
                const pst_local *l = &sizes->chunk[in->chunk].local[in->local];
                if (in->channel != (in->opcode == PST_OP_SEND ? l->channel_out : l->channel_in))
                    return wrong(x, "channel");
                if (in->bytes != l->bytes) return wrong(x, "bytes");
            }
            for (uint32_t d = 0; d < in->n_dep; d++)
                if (j->list[r].dep[in->dep + d] >= i) return wrong(x, "waits for a later one");
        }
    return 1;
}

/* How often an instruction stands in its rank's list, and where last. */
static inline uint32_t count(const machine *x, uint8_t op, uint32_t chunk, uint32_t micro,
                             uint32_t local, uint32_t *at) {
    const pst_instr_list *list = &x->job->list[x->job->rank_of_chunk[chunk]];
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        if (in->opcode != op || in->chunk != chunk || in->micro != micro ||
            (local != PST_NONE && in->local != local))
            continue;
        n++;
        *at = i;
    }
    return n;
}

/* Every pass once, F before B before W, gradients added in micro-batch order, every value moved
 * once per boundary. */
static inline int machine_whole(machine *x) {
    const pst_job *j = x->job;
    uint32_t total = 0, f = 0, b = 0, w = 0, at = 0;
    for (uint32_t c = 0; c < j->n_chunk; c++)
        for (uint32_t m = 0, last = 0; m < j->n_micro; m++) {
            uint8_t back = j->split ? PST_OP_B : PST_OP_BW;
            /* where a pass has no operators, there is none */
            uint32_t n_back = (uint32_t)pst_cut_has_pass(x->cut, c, back),
                     n_w = (uint32_t)pst_cut_has_pass(x->cut, c, PST_OP_W);
            if (count(x, PST_OP_F, c, m, PST_NONE, &f) != 1) return wrong(x, "F");
            b = f;
            if (count(x, back, c, m, PST_NONE, &b) != n_back || b < f) return wrong(x, "passes");
            w = b;
            if (j->split && (count(x, PST_OP_W, c, m, PST_NONE, &w) != n_w || w < b))
                return wrong(x, "W");
            if ((j->split ? n_w : n_back) && m && w < last) return wrong(x, "order of gradients");
            last = w;
            total += 1 + n_back + (j->split ? n_w : 0);
            for (uint32_t i = 0; i < x->cut->chunk[c].n_local; i++) {
                const pst_local *l = &x->cut->chunk[c].local[i];
                uint32_t in = l->channel_in != PST_NONE, out = l->channel_out != PST_NONE;
                if (count(x, PST_OP_RECV, c, m, i, &at) != in ||
                    count(x, PST_OP_SEND, c, m, i, &at) != out)
                    return wrong(x, "a value is not moved once");
                total += in + out;
            }
        }
    return total == x->n ? 1 : wrong(x, "more than that");
}

static inline int machine_partners(machine *x) {
    const pst_job *j = x->job;
    for (uint32_t r = 0; r < j->n_rank; r++)
        for (uint32_t i = 0; i < j->list[r].n_instr; i++) {
            const pst_instr *in = &j->list[r].instr[i];
            x->partner[x->first[r] + i] = PST_NONE;
            if (pst_queue_computes(in->queue)) continue;
            uint32_t found = 0;
            for (uint32_t k = 0; k < j->list[in->peer].n_instr; k++) {
                const pst_instr *o = &j->list[in->peer].instr[k];
                if (pst_queue_computes(o->queue) || o->opcode == in->opcode || o->peer != r ||
                    o->channel != in->channel || o->seq != in->seq)
                    continue;
                found++;
                x->partner[x->first[r] + i] = x->first[in->peer] + k;
            }
            if (found != 1) return wrong(x, "messages that do not match");
        }
    return 1;
}

/* --- running ---------------------------------------------------------------------------------- */

static inline uint32_t rank_at(const machine *x, uint32_t id) {
    uint32_t r = 0;
    while (x->first[r + 1] <= id) r++;
    return r;
}

static inline const pst_instr *instr_at(const machine *x, uint32_t id) {
    uint32_t r = rank_at(x, id);
    return &x->job->list[r].instr[id - x->first[r]];
}

/* The memory of a local; NULL: it is no matter between instructions. *ok 0: it has none. */
static inline uint64_t *cell_of(machine *x, uint32_t chunk, uint32_t local, uint32_t micro,
                                int *ok) {
    const pst_chunk *c = &x->cut->chunk[chunk];
    const pst_buffer *b = &c->buffer[c->local[local].buffer];
    uint64_t *row =
        x->cell + (size_t)(x->cell_first[chunk] + c->local[local].buffer) * (x->job->n_micro + 1);
    if (b->place == PST_PLACE_OUTPUT) return row + micro;
    if (b->place != PST_PLACE_SLOT) return NULL;
    const pst_class *k = &x->slots->class_[b->class_];
    if (k->slot_of_micro[micro] >= k->n_slot) *ok = 0;
    return row + k->slot_of_micro[micro] % (x->job->n_micro + 1);
}

static inline uint64_t tag(const machine *x, uint32_t chunk, uint32_t local, uint32_t micro) {
    return 1 + (uint64_t)x->cut->chunk[chunk].local[local].value * x->job->n_micro + micro;
}

static inline int happens(const pst_instr *in, const pst_local *l, int births) {
    for (uint32_t e = PST_EV_F; e <= PST_EV_W; e++) {
        int now = pst_event_of(in->opcode) == e || (e == PST_EV_W && in->opcode == PST_OP_BW);
        if (now && (births ? l->birth == e : l->birth != e && l->uses >> e & 1)) return 1;
    }
    return 0;
}

/* Reads what a pass reads, and writes what it writes. */
static inline int run_pass(machine *x, const pst_instr *in) {
    const pst_chunk *c = &x->cut->chunk[in->chunk];
    int ok = 1;
    for (int births = 0; births < 2; births++)
        for (uint32_t i = 0; i < c->n_local; i++) {
            if (!happens(in, &c->local[i], births)) continue;
            uint64_t *cell = cell_of(x, in->chunk, i, in->micro, &ok),
                     t = tag(x, in->chunk, i, in->micro);
            if (cell && births) *cell = t;
            if (cell && !births && *cell != t) ok = 0;
        }
    return ok;
}

static inline int run_message(machine *x, const pst_instr *send, const pst_instr *recv) {
    int ok = 1;
    uint64_t *from = cell_of(x, send->chunk, send->local, send->micro, &ok);
    uint64_t *to = cell_of(x, recv->chunk, recv->local, recv->micro, &ok);
    if (from && *from != tag(x, send->chunk, send->local, send->micro)) ok = 0;
    if (to) *to = from ? *from : 0;
    return ok;
}

/* Ends what has been issued and can end. */
static inline int end_one(machine *x, uint32_t id, uint32_t frozen, int buffered, int *ok) {
    const pst_instr *in = instr_at(x, id);
    uint32_t other = x->partner[id];
    if (!x->issued[id] || x->ended[id] || id == frozen) return 0;
    if (in->opcode == PST_OP_SEND && !buffered && !x->issued[other]) return 0;
    if (in->opcode == PST_OP_RECV && !x->ended[other]) return 0;
    x->ended[id] = 1;
    if (frozen == PST_NONE && in->opcode <= PST_OP_BW) *ok &= run_pass(x, in);
    if (frozen == PST_NONE && in->opcode == PST_OP_RECV)
        *ok &= run_message(x, instr_at(x, other), in);
    return 1;
}

/* Issues the first instruction of a queue that has not been. */
static inline int issue_one(machine *x, uint32_t rank, uint32_t queue) {
    const pst_instr_list *list = &x->job->list[rank];
    uint32_t before = PST_NONE, i = 0;
    for (; i < list->n_instr; i++) {
        if (list->instr[i].queue != queue) continue;
        if (!x->issued[x->first[rank] + i]) break;
        before = i;
    }
    if (i == list->n_instr) return 0;
    if (before != PST_NONE && pst_queue_computes(queue) && !x->ended[x->first[rank] + before])
        return 0;
    for (uint32_t d = 0; d < list->instr[i].n_dep; d++)
        if (!x->ended[x->first[rank] + list->dep[list->instr[i].dep + d]]) return 0;
    x->issued[x->first[rank] + i] = 1;
    return 1;
}

/* As far as it comes; 1 when all have ended and everything found what it should. */
static inline int machine_run(machine *x, uint32_t frozen, int buffered) {
    int moved = 1, ok = 1;
    uint32_t left = x->n;
    memset(x->issued, 0, x->n);
    memset(x->ended, 0, x->n);
    while (moved) {
        moved = 0;
        for (uint32_t r = 0; r < x->job->n_rank; r++)
            for (uint32_t q = 0; q < PST_Q_COUNT; q++)
                while (issue_one(x, r, q)) {
                    /* a pass ends at once, so that passes happen in order */
                    moved = 1;
                    for (uint32_t id = x->first[r]; pst_queue_computes(q) && id < x->first[r + 1];
                         id++)
                        if (pst_queue_computes(instr_at(x, id)->queue) &&
                            end_one(x, id, frozen, buffered, &ok))
                            left--;
                }
        for (int recvs = 0; recvs < 2; recvs++)
            for (uint32_t id = 0; id < x->n; id++)
                if ((instr_at(x, id)->opcode == PST_OP_RECV) == recvs &&
                    end_one(x, id, frozen, buffered, &ok)) {
                    moved = 1;
                    left--;
                }
    }
    return ok && !left;
}

/* --- races ------------------------------------------------------------------------------------ */

/* How an instruction touches a cell: bit 0 reads, bit 1 writes. */
static inline int touches(machine *x, const pst_instr *in, const uint64_t *cell) {
    const pst_chunk *c = &x->cut->chunk[in->chunk];
    int ok = 1, how = 0;
    if (!pst_queue_computes(in->queue)) how = in->opcode == PST_OP_RECV ? 2 : 1;
    if (!pst_queue_computes(in->queue))
        return cell_of(x, in->chunk, in->local, in->micro, &ok) == cell ? how : 0;
    for (uint32_t i = 0; i < c->n_local; i++)
        if (cell_of(x, in->chunk, i, in->micro, &ok) == cell)
            how |= (happens(in, &c->local[i], 0) ? 1 : 0) | (happens(in, &c->local[i], 1) ? 2 : 0);
    return how;
}

static inline int machine_races(machine *x) {
    uint32_t *who = malloc((x->n + 1) * sizeof *who);
    uint8_t *how = malloc(x->n + 1);
    int found = 0;
    for (uint32_t id = 0; id < x->n; id++) {
        machine_run(x, id, 1);
        memcpy(x->started + (size_t)id * x->n, x->issued, x->n);
    }
    for (uint32_t c = 0; c < x->job->n_chunk && !found; c++)
        for (uint32_t k = x->cell_first[c] * (x->job->n_micro + 1);
             k < x->cell_first[c + 1] * (x->job->n_micro + 1) && !found; k++) {
            uint32_t n = 0, r = x->job->rank_of_chunk[c];
            for (uint32_t id = x->first[r]; id < x->first[r + 1]; id++)
                if (instr_at(x, id)->chunk == c &&
                    (how[n] = (uint8_t)touches(x, instr_at(x, id), x->cell + k)) != 0)
                    who[n++] = id;
            for (uint32_t a = 0; a < n; a++)
                for (uint32_t b = 0; b < a; b++)
                    if ((how[a] | how[b]) >> 1 && x->started[(size_t)who[a] * x->n + who[b]] &&
                        x->started[(size_t)who[b] * x->n + who[a]])
                        found = 1;
        }
    free(who);
    free(how);
    return found;
}

/* 1 when every interleaving ends and everything reads what it should; else *why. */
static inline int machine_accepts(const pst_job *job, const pst_cut *cut, const pst_slots *slots,
                                  const char **why) {
    machine x = {.job = job, .cut = cut, .slots = slots, .why = ""};
    x.first = calloc(job->n_rank + 1, sizeof *x.first);
    x.cell_first = calloc(job->n_chunk + 1, sizeof *x.cell_first);
    for (uint32_t r = 0; r < job->n_rank; r++) x.first[r + 1] = x.first[r] + job->list[r].n_instr;
    for (uint32_t c = 0; c < job->n_chunk; c++)
        x.cell_first[c + 1] = x.cell_first[c] + cut->chunk[c].n_buffer;
    x.n = x.first[job->n_rank];
    x.partner = calloc(x.n + 1, sizeof *x.partner);
    x.issued = calloc(x.n + 1, 1);
    x.ended = calloc(x.n + 1, 1);
    x.started = calloc((size_t)x.n * x.n + 1, 1);
    x.cell = calloc((size_t)(x.cell_first[job->n_chunk] + 1) * (job->n_micro + 1), sizeof *x.cell);
    int ok = machine_form(&x) && machine_whole(&x) && machine_partners(&x);
    if (ok && !machine_run(&x, PST_NONE, 0))
        ok = wrong(&x, "it stands still, or something reads what it should not");
    if (ok && machine_races(&x)) ok = wrong(&x, "a race");
    *why = x.why;
    free(x.first);
    free(x.cell_first);
    free(x.partner);
    free(x.issued);
    free(x.ended);
    free(x.started);
    free(x.cell);
    return ok;
}
#endif
