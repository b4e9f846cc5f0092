/* Happens-before on one rank: which instructions have certainly ended when another one is issued.
 * Each queue issues in list order, so "x has ended before y is issued" is monotone in y along y's
 * queue, and one number per queue is enough: the first y for which it holds. Backwards through the
 * list, this number follows from those of the instructions that wait for x and of the next one in
 * x's queue. Exact, and linear in instructions and dependencies. */
#include "pipeline/check/order.h"
#include <stdlib.h>
#include <string.h>

static void take_least(uint32_t *to, const uint32_t *from) {
    for (int q = 0; q < PST_Q_COUNT; q++) {
        if (from[q] < to[q]) to[q] = from[q];
    }
}

void pst_checker_order(pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    uint32_t next[PST_Q_COUNT];
    memset(next, 0xff, sizeof next);
    memset(c->end, 0xff, list->n_instr * sizeof *c->end);
    memset(c->issue, 0xff, list->n_instr * sizeof *c->issue);
    for (uint32_t i = list->n_instr; i-- > 0;) {
        const pst_instr *in = &list->instr[i];
        uint32_t after = next[in->queue];
        if (after != PST_NONE)
            take_least(pst_queue_computes(in->queue) ? c->end[i] : c->issue[i], c->issue[after]);
        take_least(c->issue[i], c->end[i]);
        c->issue[i][in->queue] = i;
        next[in->queue] = i;
        for (uint32_t d = 0; d < in->n_dep; d++)
            take_least(c->end[list->dep[in->dep + d]], c->issue[i]);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

/* The instruction of an event in the life of a local. */
static uint32_t at_event(const pst_checker *c, uint32_t chunk, uint32_t local, uint32_t event,
                         uint32_t micro) {
    switch (event) {
    case PST_EV_RECV_F:
    case PST_EV_RECV_B: return c->recv_at[pst_checker_cell(c, chunk, local, micro)];
    case PST_EV_SEND_F:
    case PST_EV_SEND_B: return c->send_at[pst_checker_cell(c, chunk, local, micro)];
    case PST_EV_F: return *pst_checker_pass(c, chunk, PST_OP_F, micro);
    default: break;
    }
    uint32_t opcode = event == PST_EV_B ? PST_OP_B : PST_OP_W;
    return *pst_checker_pass(c, chunk, c->job->split ? opcode : PST_OP_BW, micro);
}

/* Of a value that is sent to several ranks, the next of its SENDs; of a pass, the part before;
 * PST_NONE: there is none. */
static uint32_t next_use(const pst_checker *c, uint32_t rank, uint32_t use) {
    return c->again[c->instr_first[rank] + use];
}

/* The first part of a pass; of all else, itself. What is written in a pass is so from there on. */
static uint32_t begin_of(const pst_checker *c, uint32_t rank, uint32_t i) {
    while (i != PST_NONE && c->job->list[rank].instr[i].opcode <= PST_OP_BW &&
           next_use(c, rank, i) != PST_NONE)
        i = next_use(c, rank, i);
    return i;
}

/* Whether a rank of this stage with this home sends the value on: if the next stage has fewer
 * tensor ranks, not all do. */
static int is_sent(const pst_checker *c, uint32_t chunk, uint32_t event) {
    uint32_t to = event == PST_EV_SEND_B ? chunk - 1 : chunk + 1;
    return pst_grid_is_home(c->job->grid, c->job->rank_of_chunk[to], c->lane);
}

static int is_send(uint32_t event) { return event == PST_EV_SEND_F || event == PST_EV_SEND_B; }

static pst_status fail_missing(uint32_t rank, uint32_t chunk, uint32_t local, uint32_t micro,
                               uint32_t event) {
    const char *what = is_send(event) ? "SEND" : "pass";
    if (event == PST_EV_RECV_F || event == PST_EV_RECV_B) what = "RECV";
    return pst_fail(PST_EINPUT,
                    "rank %u: the %s of chunk %u, micro-batch %u for value %u is missing", rank,
                    what, chunk, micro, local);
}

/* Every use of a value comes after its birth. */
static pst_status check_value(const pst_checker *c, uint32_t rank, uint32_t chunk, uint32_t local,
                              uint32_t micro) {
    const pst_local *l = &c->cut->chunk[chunk].local[local];
    uint32_t birth = at_event(c, chunk, local, l->birth, micro);
    if (birth == PST_NONE) return fail_missing(rank, chunk, local, micro, l->birth);
    for (uint32_t e = 0; e < PST_EV_COUNT; e++) {
        if (!(l->uses >> e & 1)) continue;
        uint32_t use = at_event(c, chunk, local, e, micro);
        if (use == PST_NONE && is_send(e) && !is_sent(c, chunk, e)) continue;
        if (use == PST_NONE) return fail_missing(rank, chunk, local, micro, e);
        for (; use != birth && use != PST_NONE; use = next_use(c, rank, use))
            if (!pst_checker_before(c, rank, birth, use))
                return pst_checker_fail(c, rank, use, "does not wait for", birth);
    }
    return PST_OK;
}

/* `later` reuses the memory of `earlier`: it is written only after every use of the earlier value.
 */
static pst_status check_rewrite(const pst_checker *c, uint32_t rank, uint32_t chunk,
                                uint32_t earlier, uint32_t later) {
    const pst_local *old = &c->cut->chunk[chunk].local[earlier],
                    *new = &c->cut->chunk[chunk].local[later];
    for (uint32_t m = 0; m < c->n_micro; m++) {
        uint32_t birth = at_event(c, chunk, later, new->birth, m);
        for (uint32_t e = 0; e < PST_EV_COUNT; e++) {
            if (!(old->uses >> e & 1)) continue;
            uint32_t use = at_event(c, chunk, earlier, e, m), begin = begin_of(c, rank, birth);
            for (; use != birth && use != PST_NONE; use = next_use(c, rank, use))
                if (!pst_checker_before(c, rank, use, begin))
                    return pst_checker_fail(c, rank, begin,
                                            "overwrites a value that is still read by", use);
        }
    }
    return PST_OK;
}

/* Values that stay on their rank are written and read by passes alone: those with the same events
 * are checked once per chunk. */
typedef struct {
    uint8_t of[PST_EV_COUNT][1u << PST_EV_COUNT];
} events;

static int is_known(events *known, uint32_t birth, uint32_t uses) {
    const int is = known->of[birth][uses];
    known->of[birth][uses] = 1;
    return is;
}

static pst_status check_chunk_values(const pst_checker *c, uint32_t rank, uint32_t k) {
    const pst_chunk *chunk = &c->cut->chunk[k];
    events known = {0};
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = &chunk->local[i];
        if (chunk->buffer[l->buffer].place == PST_PLACE_DATA) continue;
        if (!pst_checker_moves(c, k, i) && is_known(&known, l->birth, l->uses)) continue;
        for (uint32_t m = 0; m < c->n_micro; m++) PST_TRY(check_value(c, rank, k, i, m));
    }
    return PST_OK;
}

/* Whether the same was checked before of other values: what reads the earlier one, and what writes
 * the later one, are passes. */
static int is_known_rewrite(const pst_checker *c, events *known, uint32_t k, uint32_t earlier,
                            uint32_t later) {
    const pst_chunk *chunk = &c->cut->chunk[k];
    return !pst_checker_moves(c, k, earlier) && !pst_checker_moves(c, k, later) &&
           is_known(known, chunk->local[later].birth, chunk->local[earlier].uses);
}

/* Checks values that share a buffer, pair by pair. last[buffer] and before[local] chain the locals
 * of each buffer. */
static pst_status check_chunk_rewrites(const pst_checker *c, uint32_t rank, uint32_t k,
                                       uint32_t *last, uint32_t *before) {
    const pst_chunk *chunk = &c->cut->chunk[k];
    events known = {0};
    for (uint32_t i = 0; i < chunk->n_buffer; i++) last[i] = PST_NONE;
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = &chunk->local[i];
        before[i] = last[l->buffer];
        last[l->buffer] = i;
        for (uint32_t j = before[i]; j != PST_NONE; j = before[j]) {
            const int is_later = chunk->local[j].birth < l->birth;
            const uint32_t earlier = is_later ? j : i;
            const uint32_t later = is_later ? i : j;
            if (chunk->local[j].birth == l->birth || is_known_rewrite(c, &known, k, earlier, later))
                continue;
            PST_TRY(check_rewrite(c, rank, k, earlier, later));
        }
    }
    return PST_OK;
}

pst_status pst_checker_values(const pst_checker *c, uint32_t rank) {
    for (uint32_t k = 0; k < c->job->n_chunk; k++) {
        const pst_chunk *chunk = &c->cut->chunk[k];
        if (c->job->rank_of_chunk[k] != pst_checker_stage(c, rank)) continue;
        PST_TRY(check_chunk_values(c, rank, k));
        uint32_t *chain = malloc(((size_t)chunk->n_buffer + chunk->n_local + 1) * sizeof *chain);
        if (!chain) return pst_fail(PST_ENOMEM, "no memory to check the values of chunk %u", k);
        pst_status status = check_chunk_rewrites(c, rank, k, chain, chain + chunk->n_buffer);
        free(chain);
        PST_TRY(status);
    }
    return PST_OK;
}

/* --- slots ------------------------------------------------------------------------------------ */

/* One kind of access to a class's memory in every micro-batch. */
typedef struct {
    uint32_t local;
    uint8_t event, births;
} touch;
typedef struct {
    uint32_t first, micro;
} occupant;

static int by_first(const void *a, const void *b) {
    const occupant *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static void add_touch(touch *list, uint32_t *n, uint32_t local, uint8_t event, int births) {
    int passes = event == PST_EV_F || event == PST_EV_B || event == PST_EV_W;
    for (uint32_t i = 0; i < *n; i++) {
        if (list[i].event != event || (!passes && list[i].local != local)) continue;
        list[i].births |= (uint8_t)births;
        return;
    }
    list[(*n)++] = (touch){local, event, (uint8_t)births};
}

/* All accesses to a buffer; list has capacity for PST_EV_COUNT per local of the chunk. */
static uint32_t find_touches(const pst_chunk *chunk, uint32_t buffer, touch *list) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = &chunk->local[i];
        if (l->buffer != buffer) continue;
        add_touch(list, &n, i, l->birth, 1);
        for (uint8_t e = 0; e < PST_EV_COUNT; e++) {
            if (l->uses >> e & 1) add_touch(list, &n, i, e, 0);
        }
    }
    return n;
}

/* Accesses by passes alone: a bit for each event that writes first, and for each other one. */
enum { ACCESSES = 1u << 2 * PST_EV_COUNT };

/* A buffer of a class, and its accesses. */
typedef struct {
    uint32_t rank, chunk, n;
    uint8_t *known; /* [ACCESSES] 1: another buffer of the class with these was checked */
    const pst_class *class_;
    touch *list;
    occupant *order;  /* [n_micro] sorted by first write */
    uint32_t *holder; /* [n_slot] */
} held_buffer;

/* Whether every access to the slot for `old` has ended before the first write for `new`; if not,
 * *birth and *use. */
static int leaves_before(const pst_checker *c, const held_buffer *h, uint32_t old, uint32_t new,
                         uint32_t *birth, uint32_t *use) {
    for (uint32_t i = 0; i < h->n; i++) {
        if (!h->list[i].births) continue;
        *birth =
            begin_of(c, h->rank, at_event(c, h->chunk, h->list[i].local, h->list[i].event, new));
        for (uint32_t j = 0; j < h->n; j++) {
            *use = at_event(c, h->chunk, h->list[j].local, h->list[j].event, old);
            for (; *use != PST_NONE; *use = next_use(c, h->rank, *use))
                if (!pst_checker_before(c, h->rank, *use, *birth)) return 0;
        }
    }
    return 1;
}

/* Of any two micro-batches in one slot, one is finished with it before the other starts. */
static pst_status check_pairs(const pst_checker *c, uint32_t rank, const held_buffer *h) {
    uint32_t birth, use, other[2];
    for (uint32_t i = 0; i < c->n_micro; i++)
        for (uint32_t j = i + 1; j < c->n_micro; j++) {
            uint32_t a = h->order[i].micro, b = h->order[j].micro;
            if (h->class_->slot_of_micro[a] != h->class_->slot_of_micro[b]) continue;
            if (leaves_before(c, h, a, b, &birth, &use)) continue;
            if (leaves_before(c, h, b, a, &other[0], &other[1])) continue;
            return pst_checker_fail(c, rank, birth, "reuses a memory slot that is still used by",
                                    use);
        }
    return PST_OK;
}

/* Checks neighbours in list order; then it holds for all pairs. */
static pst_status check_buffer(const pst_checker *c, uint32_t rank, held_buffer *h) {
    uint32_t birth, use;
    for (uint32_t m = 0; m < c->n_micro; m++) {
        h->order[m] = (occupant){PST_NONE, m};
        for (uint32_t i = 0; i < h->n; i++) {
            uint32_t at =
                begin_of(c, rank, at_event(c, h->chunk, h->list[i].local, h->list[i].event, m));
            if (h->list[i].births && at < h->order[m].first) h->order[m].first = at;
        }
    }
    qsort(h->order, c->n_micro, sizeof *h->order, by_first);
    memset(h->holder, 0xff, h->class_->n_slot * sizeof *h->holder);
    for (uint32_t m = 0; m < c->n_micro; m++) {
        uint32_t *held = &h->holder[h->class_->slot_of_micro[h->order[m].micro]];
        if (*held != PST_NONE && !leaves_before(c, h, *held, h->order[m].micro, &birth, &use))
            return check_pairs(c, rank, h);
        *held = h->order[m].micro;
    }
    return PST_OK;
}

/* Whether another buffer of the class is accessed by the same passes, and by no message. */
static int is_known_buffer(const pst_checker *c, held_buffer *h) {
    uint32_t accesses = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        const touch *t = &h->list[i];
        if (pst_checker_moves(c, h->chunk, t->local)) return 0;
        accesses |= 1u << (t->event + (t->births ? PST_EV_COUNT : 0));
    }
    const int is = h->known[accesses];
    h->known[accesses] = 1;
    return is;
}

static pst_status check_class(const pst_checker *c, uint32_t rank, uint32_t k, held_buffer *h) {
    h->class_ = &c->slots->class_[k];
    h->chunk = h->class_->chunk;
    const pst_chunk *chunk = &c->cut->chunk[h->chunk];
    memset(h->known, 0, ACCESSES);
    for (uint32_t i = 0; i < chunk->n_buffer; i++) {
        if (chunk->buffer[i].place != PST_PLACE_SLOT || chunk->buffer[i].class_ != k) continue;
        h->n = find_touches(chunk, i, h->list);
        if (!is_known_buffer(c, h)) PST_TRY(check_buffer(c, rank, h));
    }
    return PST_OK;
}

/* Buffers lie within their class's slot and do not overlap. */
static pst_status check_offsets(const pst_checker *c, uint32_t k) {
    const pst_chunk *chunk = &c->cut->chunk[c->cut->class_[k].chunk];
    for (uint32_t i = 0; i < chunk->n_buffer; i++) {
        const pst_buffer *a = &chunk->buffer[i];
        if (a->place != PST_PLACE_SLOT || a->class_ != k) continue;
        if (a->offset + a->bytes > c->slots->class_[k].bytes) {
            return pst_fail(PST_EINPUT, "memory slots of class %u: buffer %u does not fit", k, i);
        }
        for (uint32_t j = 0; j < i; j++) {
            const pst_buffer *b = &chunk->buffer[j];
            if (b->place != PST_PLACE_SLOT || b->class_ != k || !a->bytes || !b->bytes) continue;
            if (a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset) continue;
            return pst_fail(PST_EINPUT, "memory slots of class %u: buffers %u and %u overlap", k, j,
                            i);
        }
    }
    return PST_OK;
}

pst_status pst_checker_slots(const pst_checker *c, uint32_t rank) {
    uint32_t most_local = 0, most_slot = 0;
    for (uint32_t k = 0; k < c->cut->n_class; k++) {
        uint32_t locals = c->cut->chunk[c->cut->class_[k].chunk].n_local;
        if (locals > most_local) most_local = locals;
        if (c->slots->class_[k].n_slot > most_slot) most_slot = c->slots->class_[k].n_slot;
    }
    held_buffer h = {.rank = rank,
                     .known = malloc(ACCESSES),
                     .list = malloc(((size_t)most_local * PST_EV_COUNT + 1) * sizeof *h.list),
                     .order = malloc(c->n_micro * sizeof *h.order),
                     .holder = malloc(((size_t)most_slot + 1) * sizeof *h.holder)};
    pst_status status = PST_OK;
    if (!h.list || !h.order || !h.holder || !h.known)
        status = pst_fail(PST_ENOMEM, "no memory to check memory slots");
    for (uint32_t k = 0; k < c->cut->n_class && status == PST_OK; k++) {
        if (c->job->rank_of_chunk[c->cut->class_[k].chunk] != pst_checker_stage(c, rank)) continue;
        status = check_offsets(c, k);
        if (status == PST_OK) status = check_class(c, rank, k, &h);
    }
    free(h.known);
    free(h.holder);
    free(h.order);
    free(h.list);
    return status;
}
