/* The oracle of the mutation tests of rounds (zero 2): exhaustive execution of the lists of several
 * replicas on an abstract machine, as machine.h has it, which knows of gradient slots, receive
 * buffers and accumulators. A gradient is a number without meaning, a sum one that follows from
 * both; what is added or received is gone where it came from. */
#ifndef PST_TESTS_PIPELINE_MACHINE_ROUNDS_H
#define PST_TESTS_PIPELINE_MACHINE_ROUNDS_H
#include "pipeline/case.h"
#include "pipeline/check/check.h"

enum {
    ROUND_BINS = 64,
    ROUND_SLOTS = 16,
    ROUND_BUFFERS = 32
}; /* pieces of a stage; the most of each */

/* A gradient or sum, 0: nothing; and of which round and piece it is. */
typedef struct {
    uint64_t value;
    uint32_t chunk, micro, bin;
} round_cell;
typedef struct {
    round_cell slot[ROUND_SLOTS][ROUND_BINS], buffer[ROUND_BUFFERS];
    uint64_t sum[ROUND_BINS];
} round_memory;

typedef struct {
    const pst_job *job;
    const pst_cut *cut;
    pst_slots *const *slots; /* [replicas] */
    uint32_t n, *first, *partner, *rank;
    uint8_t *issued, *ended, *started;
    uint32_t base[256];   /* of a parameter's bins */
    round_memory *memory; /* [n_rank] */
    const char *why;
} round_machine;

static inline int round_wrong(round_machine *x, const char *why) {
    x->why = why;
    return 0;
}

static inline uint64_t round_mix(uint64_t a, uint64_t b) {
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (z ^ z >> 27) | 1;
}

static inline uint64_t round_add(uint64_t a, uint64_t b) {
    return a < b ? round_mix(a, b) : round_mix(b, a);
}

static inline uint64_t round_gradient(uint32_t replica, uint32_t bin, uint32_t micro) {
    return round_mix(round_mix(replica + 1, bin), micro);
}

static inline const pst_instr *round_instr(const round_machine *x, uint32_t id) {
    return &x->job->list[x->rank[id]].instr[id - x->first[x->rank[id]]];
}

static inline int is_round(const round_machine *x, uint32_t id) {
    const pst_instr_list *list = &x->job->list[x->rank[id]];
    const pst_instr *in = round_instr(x, id);
    uint32_t i = id - x->first[x->rank[id]];
    return i >= list->n_head && i < list->n_instr - list->n_flush && in->opcode > PST_OP_BW &&
           in->param != PST_NONE;
}

static inline int weighs(const pst_instr *in) {
    return in->opcode == PST_OP_W || in->opcode == PST_OP_BW;
}

/* --- form ------------------------------------------------------------------------------------- */

static inline int round_form(round_machine *x) {
    const pst_graph *g = x->cut->graph;
    for (uint32_t id = 0; id < x->n; id++) {
        const pst_instr *in = round_instr(x, id);
        const pst_instr_list *list = &x->job->list[x->rank[id]];
        for (uint32_t d = 0; d < in->n_dep; d++)
            if (list->dep[in->dep + d] >= id - x->first[x->rank[id]])
                return round_wrong(x, "waits for a later one");
        if (!pst_queue_computes(in->queue) && in->peer >= x->job->n_rank)
            return round_wrong(x, "peer");
        if (!is_round(x, id)) continue;
        if (in->opcode > PST_OP_REDUCE || in->param >= g->n_param ||
            !pst_job_shards_gradient(x->job, 0, in->param) || in->use)
            return round_wrong(x, "not a gradient that is shared out");
        uint32_t chunk = x->cut->use_chunk[x->cut->use_first[in->param]];
        if (chunk != in->chunk ||
            x->job->rank_of_chunk[chunk] != pst_job_stage(x->job, x->rank[id]) ||
            in->micro >= x->job->n_micro)
            return round_wrong(x, "chunk or micro-batch");
        uint64_t left = pst_param_elements(g->param + in->param) - in->from;
        if (in->from % PST_PIECE || left - 1 >= INT32_MAX ||
            in->n != (left < PST_PIECE ? left : PST_PIECE))
            return round_wrong(x, "not a whole piece");
        uint32_t n = pst_job_buffers(x->job);
        if (in->buffer > n || (in->opcode == PST_OP_RECV && !in->buffer) ||
            (in->opcode == PST_OP_SEND && in->buffer) ||
            (in->opcode == PST_OP_REDUCE && in->into > n && in->into != PST_INTO_ACCUMULATOR))
            return round_wrong(x, "buffer");
    }
    return 1;
}

static inline int round_partners(round_machine *x) {
    for (uint32_t id = 0; id < x->n; id++) {
        const pst_instr *in = round_instr(x, id);
        uint32_t found = 0;
        x->partner[id] = PST_NONE;
        if (pst_queue_computes(in->queue)) continue;
        for (uint32_t k = x->first[in->peer]; k < x->first[in->peer + 1]; k++) {
            const pst_instr *o = round_instr(x, k);
            if (pst_queue_computes(o->queue) || o->opcode == in->opcode || o->peer != x->rank[id] ||
                o->channel != in->channel || o->seq != in->seq)
                continue;
            found++;
            x->partner[id] = k;
        }
        if (found != 1) return round_wrong(x, "messages that do not match");
        const pst_instr *o = round_instr(x, x->partner[id]);
        if (is_round(x, id) != is_round(x, x->partner[id]) || in->param != o->param ||
            in->from != o->from || in->n != o->n ||
            (is_round(x, id) && (in->chunk != o->chunk || in->micro != o->micro)))
            return round_wrong(x, "ends that do not agree");
    }
    return 1;
}

/* --- memory ----------------------------------------------------------------------------------- */

static inline uint32_t bin_of(const round_machine *x, const pst_instr *in) {
    return x->base[in->param] + in->from / PST_PIECE;
}

static inline uint32_t slot_of(const round_machine *x, uint32_t rank, uint32_t chunk,
                               uint32_t micro) {
    const pst_slots *s = x->slots[pst_grid_at(x->job->grid, rank).replica];
    return micro < s->n_micro ? s->gradient[(size_t)chunk * s->n_micro + micro] : ROUND_SLOTS;
}

/* What the instruction reads as `buffer` or adds to as `into`; NULL: it is not of its round. */
static inline round_cell *cell_at(round_machine *x, uint32_t id, uint32_t buffer) {
    const pst_instr *in = round_instr(x, id);
    uint32_t slot = slot_of(x, x->rank[id], in->chunk, in->micro);
    round_memory *m = &x->memory[x->rank[id]];
    if (!buffer && slot == ROUND_SLOTS) return NULL;
    round_cell *cell = buffer ? &m->buffer[buffer - 1] : &m->slot[slot][bin_of(x, in)];
    return cell->value && cell->chunk == in->chunk && cell->micro == in->micro &&
                   cell->bin == bin_of(x, in)
               ? cell
               : NULL;
}

static inline void run_weights(round_machine *x, uint32_t id) {
    const pst_instr *in = round_instr(x, id);
    round_cell *slot = x->memory[x->rank[id]].slot[slot_of(x, x->rank[id], in->chunk, in->micro)];
    memset(slot, 0, ROUND_BINS * sizeof *slot);
    for (uint32_t p = 0; p < x->cut->graph->n_param; p++) {
        if (!pst_job_shards_gradient(x->job, 0, p) ||
            x->cut->use_chunk[x->cut->use_first[p]] != in->chunk)
            continue;
        uint32_t n = pst_pieces(pst_param_elements(x->cut->graph->param + p));
        for (uint32_t bin = x->base[p]; bin < x->base[p] + n; bin++)
            slot[bin] = (round_cell){
                round_gradient(pst_grid_at(x->job->grid, x->rank[id]).replica, bin, in->micro),
                in->chunk, in->micro, bin};
    }
}

static inline int run_reduce(round_machine *x, uint32_t id) {
    const pst_instr *in = round_instr(x, id);
    round_cell *from = cell_at(x, id, in->buffer);
    uint64_t *sum = &x->memory[x->rank[id]].sum[bin_of(x, in)];
    if (!from) return 0;
    uint64_t value = from->value;
    from->value = 0;
    if (in->into == PST_INTO_ACCUMULATOR) {
        if (in->micro) *sum = *sum ? round_mix(*sum, value) : 0;
        else *sum = *sum ? 0 : value;
        return *sum != 0;
    }
    round_cell *to = cell_at(x, id, in->into);
    if (!to) return 0;
    to->value = round_add(to->value, value);
    return 1;
}

static inline int run_recv(round_machine *x, uint32_t id) {
    const pst_instr *in = round_instr(x, id);
    round_cell *from = cell_at(x, x->partner[id], 0),
               *to = &x->memory[x->rank[id]].buffer[in->buffer - 1];
    if (!from) return 0;
    *to = *from;
    from->value = 0;
    return 1;
}

/* --- running ---------------------------------------------------------------------------------- */

static inline int round_end(round_machine *x, uint32_t id, uint32_t frozen, int *ok) {
    const pst_instr *in = round_instr(x, id);
    uint32_t other = x->partner[id];
    if (!x->issued[id] || x->ended[id] || id == frozen) return 0;
    if (in->opcode == PST_OP_SEND && frozen == PST_NONE && !x->issued[other]) return 0;
    if (in->opcode == PST_OP_RECV && !x->ended[other]) return 0;
    x->ended[id] = 1;
    if (frozen != PST_NONE) return 1;
    if (weighs(in)) run_weights(x, id);
    if (is_round(x, id) && in->opcode == PST_OP_REDUCE) *ok &= run_reduce(x, id);
    if (is_round(x, id) && in->opcode == PST_OP_RECV) *ok &= run_recv(x, id);
    return 1;
}

/* cursor: the first of the queue that has not been issued. */
static inline int round_issue(round_machine *x, uint32_t rank, uint32_t queue, uint32_t *cursor) {
    const pst_instr_list *list = &x->job->list[rank];
    uint32_t i = *cursor, before = i;
    while (i < list->n_instr && list->instr[i].queue != queue) i++;
    *cursor = i;
    if (i == list->n_instr) return 0;
    while (before-- > 0 && list->instr[before].queue != queue) continue;
    if (pst_queue_computes(queue) && before != PST_NONE && !x->ended[x->first[rank] + before])
        return 0;
    for (uint32_t d = 0; d < list->instr[i].n_dep; d++)
        if (!x->ended[x->first[rank] + list->dep[list->instr[i].dep + d]]) return 0;
    x->issued[x->first[rank] + i] = 1;
    *cursor = i + 1;
    return 1;
}

/* As far as it comes while `frozen` never ends, messages buffered; PST_NONE: not buffered, and then
 * with contents. */
static inline int round_run(round_machine *x, uint32_t frozen) {
    uint32_t(*cursor)[PST_Q_COUNT] = calloc(x->job->n_rank, sizeof *cursor), left = x->n;
    int ok = 1;
    memset(x->issued, 0, x->n);
    memset(x->ended, 0, x->n);
    memset(x->memory, 0, x->job->n_rank * sizeof *x->memory);
    for (int moved = 1; moved;) {
        moved = 0;
        for (uint32_t r = 0; r < x->job->n_rank; r++)
            for (uint32_t q = 0; q < PST_Q_COUNT; q++)
                while (round_issue(x, r, q, &cursor[r][q])) {
                    uint32_t id = x->first[r] + cursor[r][q] - 1;
                    moved = 1;
                    if (pst_queue_computes(q) && round_end(x, id, frozen, &ok)) left--;
                }
        for (int recvs = 0; recvs < 2; recvs++)
            for (uint32_t id = 0; id < x->n; id++)
                if ((round_instr(x, id)->opcode == PST_OP_RECV) == recvs &&
                    round_end(x, id, frozen, &ok)) {
                    moved = 1;
                    left--;
                }
    }
    free(cursor);
    return ok && !left;
}

static inline uint64_t sum_of_round(const round_machine *x, uint32_t lo, uint32_t hi, uint32_t bin,
                                    uint32_t micro) {
    if (hi - lo == 1) return micro < x->job->micros[lo] ? round_gradient(lo, bin, micro) : 0;
    uint32_t middle = pst_share_split(lo, hi);
    uint64_t a = sum_of_round(x, lo, middle, bin, micro),
             b = sum_of_round(x, middle, hi, bin, micro);
    if (a && b) return round_add(a, b);
    return a ? a : b;
}

/* Every accumulator has what it should. */
static inline int round_sums(const round_machine *x) {
    const pst_job *j = x->job;
    for (uint32_t p = 0; p < x->cut->graph->n_param; p++) {
        if (!pst_job_shards_gradient(j, 0, p)) continue;
        uint32_t stage = j->rank_of_chunk[x->cut->use_chunk[x->cut->use_first[p]]];
        for (uint32_t k = 0; k < j->grid.data; k++)
            for (uint64_t from = pst_share_from(j->share[0], p, k);
                 from < pst_share_to(j->share[0], p, k); from += PST_PIECE) {
                uint32_t bin = x->base[p] + (uint32_t)(from / PST_PIECE);
                uint64_t sum = sum_of_round(x, 0, j->grid.data, bin, 0);
                for (uint32_t m = 1; m < j->n_micro; m++)
                    sum = round_mix(sum, sum_of_round(x, 0, j->grid.data, bin, m));
                if (x->memory[pst_grid_rank(j->grid, stage, k, 0)].sum[bin] != sum) return 0;
            }
    }
    return 1;
}

/* --- races ------------------------------------------------------------------------------------ */

/* Whether both use the same memory, and one writes: passes write a whole slot. */
static inline int round_conflict(round_machine *x, uint32_t a, uint32_t b) {
    const pst_instr *in[2] = {round_instr(x, a), round_instr(x, b)};
    uint32_t id[2] = {a, b}, slot[2], buffer[2][2] = {{0, 0}, {0, 0}};
    int gradient[2], writes[2];
    for (int k = 0; k < 2; k++) {
        int reduces = in[k]->opcode == PST_OP_REDUCE;
        gradient[k] = weighs(in[k]) || in[k]->opcode == PST_OP_SEND ||
                      (reduces && (!in[k]->buffer || !in[k]->into));
        writes[k] = in[k]->opcode != PST_OP_SEND;
        slot[k] = slot_of(x, x->rank[id[k]], in[k]->chunk, in[k]->micro);
        if (in[k]->opcode == PST_OP_RECV || reduces) buffer[k][0] = in[k]->buffer;
        if (reduces && in[k]->into != PST_INTO_ACCUMULATOR) buffer[k][1] = in[k]->into;
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (buffer[0][i] && buffer[0][i] == buffer[1][k]) return 1;
    if (!gradient[0] || !gradient[1] || slot[0] != slot[1] || !(writes[0] || writes[1])) return 0;
    return weighs(in[0]) || weighs(in[1]) || bin_of(x, in[0]) == bin_of(x, in[1]);
}

static inline int round_races(round_machine *x) {
    for (uint32_t id = 0; id < x->n; id++) {
        if (!is_round(x, id) && !weighs(round_instr(x, id))) continue;
        round_run(x, id);
        memcpy(x->started + (size_t)id * x->n, x->issued, x->n);
    }
    for (uint32_t a = 0; a < x->n; a++)
        for (uint32_t b = x->first[x->rank[a]]; b < a; b++) {
            int a_matters = is_round(x, a) || weighs(round_instr(x, a));
            int b_matters = is_round(x, b) || weighs(round_instr(x, b));
            if (a_matters && b_matters && x->started[(size_t)a * x->n + b] &&
                x->started[(size_t)b * x->n + a] && round_conflict(x, a, b))
                return 1;
        }
    return 0;
}

static inline int round_accepts(const pst_job *job, const pst_cut *cut, pst_slots *const *slots,
                                const char **why) {
    round_machine x = {.job = job, .cut = cut, .slots = slots, .why = ""};
    uint32_t bins = 0;
    x.first = calloc(job->n_rank + 1, sizeof *x.first);
    for (uint32_t r = 0; r < job->n_rank; r++) x.first[r + 1] = x.first[r] + job->list[r].n_instr;
    x.n = x.first[job->n_rank];
    x.partner = calloc(x.n + 1, sizeof *x.partner);
    x.rank = calloc(x.n + 1, sizeof *x.rank);
    x.issued = calloc(x.n + 1, 1);
    x.ended = calloc(x.n + 1, 1);
    x.started = calloc((size_t)x.n * x.n + 1, 1);
    x.memory = calloc(job->n_rank, sizeof *x.memory);
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t id = x.first[r]; id < x.first[r + 1]; id++) x.rank[id] = r;
    for (uint32_t p = 0; p < cut->graph->n_param; p++) {
        x.base[p] = bins;
        if (pst_job_shards_gradient(job, 0, p))
            bins += pst_pieces(pst_param_elements(cut->graph->param + p));
    }
    int ok = round_form(&x) && round_partners(&x);
    if (ok && !round_run(&x, PST_NONE))
        ok = round_wrong(&x, "it stands still, or something is not there when it is read");
    if (ok && !round_sums(&x)) ok = round_wrong(&x, "a sum is not what it should be");
    if (ok && round_races(&x)) ok = round_wrong(&x, "a race");
    *why = x.why;
    free(x.first);
    free(x.partner);
    free(x.rank);
    free(x.issued);
    free(x.ended);
    free(x.started);
    free(x.memory);
    return ok;
}
#endif
