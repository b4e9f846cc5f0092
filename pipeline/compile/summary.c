/* Exchanges between replicas in the lists of a single lane (pst_job_spec.alone): the whole job has
 * a message for every piece, replica and use; here a rank sends a few messages to itself. Each
 * takes the time of all messages that it represents; the same holds for REDUCEs. All replicas of a
 * stage are synchronous, so each message takes the longer of the send time and the receive time.
 *
 * Groups: the parameters of a chunk with one use form one group; each parameter with several uses
 * is a group. The first message of a group has as many pieces as there are receive buffers, and is
 * sent while other passes still compute; the other pieces are divided into segments, so that
 * sending and adding overlap as in the whole job. */
#include "pipeline/compile/summary.h"
#include "pipeline/compile/early.h"
#include <stdlib.h>
#include <string.h>

enum { SEGMENTS = 8, ROUND_SEGMENTS = 2, WINDOW = 4 << 20 }; /* WINDOW: that of head.c, in bytes */

typedef int (*group_fn)(const pst_job_builder *b, uint32_t param, uint32_t chunk);

static int is_sharded(const pst_job_builder *b, uint32_t param, uint32_t chunk) {
    return pst_job_shards_gradient(b->job, b->lane % b->job->grid.tensor, param) &&
           b->cut->use_chunk[b->cut->use_first[param]] == chunk;
}

static int is_single(const pst_job_builder *b, uint32_t param, uint32_t chunk) {
    return pst_param_gradients(&b->cut->graph->param[param]) == 1 &&
           b->cut->use_chunk[b->cut->use_first[param]] == chunk;
}

static int is_change(const pst_job_builder *b, uint32_t param) {
    return pst_job_sends_changes(b->job, pst_builder_stage_of_use(b, param, 0),
                                 &b->cut->graph->param[param]);
}

/* Weights that are sent at the head, and in the flush. */
static int is_single_weight(const pst_job_builder *b, uint32_t param, uint32_t chunk) {
    return is_single(b, param, chunk) && !is_change(b, param);
}

static int is_single_change(const pst_job_builder *b, uint32_t param, uint32_t chunk) {
    return is_single(b, param, chunk) && is_change(b, param);
}

static int is_whole(const pst_job_builder *b, uint32_t param, uint32_t chunk) {
    return is_single(b, param, chunk) && !is_sharded(b, param, chunk);
}

static void add_up(pst_summary *x, uint64_t own, uint64_t pieces) {
    x->all += own;
    if (own > x->own) x->own = own;
    if (pieces > x->pieces) x->pieces = pieces;
}

/* Counts the pieces of a parameter that are reduced before part `due` of the last pass (PST_NONE:
 * in the flush), by owner; returns how many. */
static uint64_t count_pieces(const pst_job_builder *b, uint32_t param, uint32_t due) {
    const pst_early *e = b->early;
    uint32_t number = e->base[param];
    uint64_t n = 0;
    for (pst_piece at = {.param = param}; pst_share_next(b->share, &at); number++) {
        if (e->due[number] != due) continue;
        e->own[at.owner] += at.n;
        e->pieces[at.owner]++;
        n++;
    }
    return n;
}

static void add_up_owners(const pst_job_builder *b, pst_summary *x) {
    const uint32_t n = b->job->grid.data;
    for (uint32_t k = 0; k < n; k++) add_up(x, b->early->own[k], b->early->pieces[k]);
    memset(b->early->own, 0, n * sizeof *b->early->own);
    memset(b->early->pieces, 0, n * sizeof *b->early->pieces);
}

/* Counts a parameter among those that messages carry. all: elements so far. */
static void add_message(const pst_job_builder *b, pst_summary *x, uint32_t param, uint64_t *all) {
    const pst_param *p = &b->cut->graph->param[param];
    const uint64_t n = pst_param_elements(p);
    const int packed = pst_job_packs(b->job, pst_builder_stage_of_use(b, param, 0), p);
    x->element_bytes += (double)pst_job_gradient_bytes(b->job, p, packed, n);
    if (packed) x->packed += (double)n;
    *all += n;
}

static void finish_message(pst_summary *x, uint64_t all) {
    x->element_bytes /= all ? (double)all : 1;
    x->packed /= all ? (double)all : 1;
}

/* Of the parameters [from, to) that `takes` accepts. */
static pst_summary group_in(const pst_job_builder *b, uint32_t from, uint32_t to, uint32_t of,
                            group_fn takes) {
    const pst_graph *g = b->cut->graph;
    const int early = pst_early_is_on(b);
    uint64_t all = 0;
    pst_summary x = {.param = PST_NONE,
                     .segments = takes == is_sharded ? ROUND_SEGMENTS : SEGMENTS};
    for (uint32_t p = from; g && early && p < to; p++) {
        if (!takes(b, p, of)) continue;
        count_pieces(b, p, PST_NONE);
        if (x.param == PST_NONE) x.param = p;
    }
    for (uint32_t p = from; g && p < to; p++)
        if (takes(b, p, of)) add_message(b, &x, p, &all);
    finish_message(&x, all);
    if (g && early) add_up_owners(b, &x);
    for (uint32_t k = 0; g && !early && k < b->job->grid.data; k++) {
        uint64_t own = 0, pieces = 0;
        for (uint32_t p = from; p < to; p++) {
            if (!takes(b, p, of)) continue;
            uint64_t n = pst_share_to(b->share, p, k) - pst_share_from(b->share, p, k);
            own += n;
            pieces += pst_share_messages(b->share, n);
            if (x.param == PST_NONE) x.param = p;
        }
        add_up(&x, own, pieces);
    }
    return x;
}

static pst_summary group_of(const pst_job_builder *b, uint32_t chunk, group_fn takes) {
    return group_in(b, b->cut->param_from[chunk], b->cut->param_to[chunk], chunk, takes);
}

static int is_param(const pst_job_builder *b, uint32_t param, uint32_t wanted) {
    (void)b;
    return param == wanted;
}

static pst_summary group_of_param(const pst_job_builder *b, uint32_t param) {
    return group_in(b, param, param + 1, param, is_param);
}

pst_status pst_summary_open(pst_job_builder *b) {
    b->sharded = calloc(b->cut->n_chunk, sizeof *b->sharded);
    if (!b->sharded) return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    for (uint32_t c = 0; c < b->cut->n_chunk; c++) b->sharded[c] = group_of(b, c, is_sharded);
    return PST_OK;
}

/* --- segments --------------------------------------------------------------------------------- */

static uint32_t segments_of(const pst_summary *x) {
    return x->pieces > PST_PIECES_IN_FLIGHT ? x->segments : 1;
}

/* Segment i's part of n, which is in proportion to pieces. */
static uint64_t part_of(const pst_summary *x, uint64_t n, uint32_t i) {
    uint64_t behind[2], rest = x->pieces - PST_PIECES_IN_FLIGHT;
    if (segments_of(x) == 1) return n;
    for (uint32_t k = 0; k < 2; k++) {
        uint64_t pieces = i + k ? PST_PIECES_IN_FLIGHT + rest * (i + k - 1) / (x->segments - 1) : 0;
        behind[k] = (uint64_t)((double)n * (double)pieces / (double)x->pieces);
    }
    return behind[1] - behind[0];
}

static pst_cluster_link link_of(const pst_job_builder *b) {
    if (b->spec->exchange) return b->spec->exchange[b->stage];
    return (pst_cluster_link){b->cost->latency_ns, b->cost->bytes_per_s};
}

/* One end of a message of a rank to itself, or between two ranks. */
static uint32_t emit_end(pst_job_builder *b, uint8_t opcode, const pst_summary *x, uint32_t peer,
                         uint64_t bytes, uint64_t wire_ns) {
    pst_instr in = pst_builder_blank(opcode, link_of(b).latency_ns + wire_ns);
    in.param = x->param;
    in.use = 0;
    in.n = 1;
    in.peer = peer;
    in.bytes = bytes;
    in.channel = b->channel;
    in.seq = b->turn;
    uint32_t at = pst_builder_emit(b, &in);
    if (b->status == PST_OK) b->instr[at].wire_ns = wire_ns;
    return at;
}

static uint64_t wire_ns(const pst_job_builder *b, uint64_t bytes) {
    double bytes_per_s = link_of(b).bytes_per_s;
    return bytes_per_s > 0 ? (uint64_t)((double)bytes * 1e9 / bytes_per_s) : 0;
}

/* Elements that a rank receives or sends, whichever is more, when each of `replicas` sends its
 * elements to their owners, or each owner sends its own to the others. */
static uint64_t moved(const pst_summary *x, uint32_t replicas) {
    uint64_t in = x->own * (replicas - 1), out = x->all - x->own;
    return in > out ? in : out;
}

/* Bytes of the gradients of n elements in messages. */
static uint64_t gradient_bytes(const pst_summary *x, uint64_t n) {
    return (uint64_t)((double)n * x->element_bytes + 0.5);
}

/* Duration of a segment of gradients. With long latency, receive buffers limit the rate of pieces.
 */
static uint64_t gather_ns(const pst_job_builder *b, const pst_summary *x, uint32_t replicas,
                          uint32_t i) {
    uint64_t ns = wire_ns(b, part_of(x, gradient_bytes(x, moved(x, replicas)), i)),
             pieces = part_of(x, x->pieces, i);
    uint64_t piece = x->pieces ? x->own / x->pieces : 0;
    uint64_t each = wire_ns(b, gradient_bytes(x, piece)) + pst_builder_reduce_ns(b, piece);
    uint64_t turn = link_of(b).latency_ns + (replicas - 1) * each;
    uint64_t sums = pst_builder_reduce_ns(b, part_of(x, x->own, i) * replicas);
    if (ns < pieces * turn / PST_PIECES_IN_FLIGHT) ns = pieces * turn / PST_PIECES_IN_FLIGHT;
    if (x->segments == SEGMENTS || !i) return ns;
    /* overlaps with adding */
    return (ns > sums ? ns - sums : 0) + (ns < sums ? ns : sums) / (pieces + 1);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Whether `replicas` exchange anything. */
static int moves(const pst_summary *x, uint32_t replicas) {
    return x->param != PST_NONE && moved(x, replicas) > 0;
}

static uint32_t emit_sum(pst_job_builder *b, const pst_summary *x, uint64_t elements) {
    uint32_t reduce =
        pst_builder_emit_compute(b, PST_OP_REDUCE, pst_builder_reduce_ns(b, elements));
    if (b->status != PST_OK) return PST_NONE;
    b->instr[reduce].param = x->param;
    b->instr[reduce].use = 0;
    b->instr[reduce].n = 1;
    return reduce;
}

/* Packs all gradients of segment i, after `ready`, as far as they are packed; returns the PACK, or
 * `ready` if there is none. */
static uint32_t pack(pst_job_builder *b, const pst_summary *x, uint32_t i, uint32_t ready) {
    const uint64_t n = (uint64_t)(x->packed * (double)x->all);
    if (!n) return ready;
    uint32_t at =
        pst_builder_emit_compute(b, PST_OP_PACK, pst_builder_pack_ns(b, part_of(x, n, i)));
    if (b->status != PST_OK) return PST_NONE;
    b->instr[at].param = x->param;
    b->instr[at].use = 0;
    b->instr[at].n = 1;
    if (ready != PST_NONE) pst_builder_depend(b, at, ready);
    return at;
}

/* Sends segment i to this rank itself, after `ready` (PST_NONE: no need to wait). */
static uint32_t send(pst_job_builder *b, const pst_summary *x, uint32_t replicas, uint32_t i,
                     uint32_t ready) {
    ready = pack(b, x, i, ready);
    uint32_t at =
        emit_end(b, PST_OP_SEND, x, b->rank, part_of(x, gradient_bytes(x, moved(x, replicas)), i),
                 gather_ns(b, x, replicas, i));
    if (ready != PST_NONE) pst_builder_depend(b, at, ready);
    return at;
}

/* Receives segment i, once buffers are free, and adds it; returns the REDUCE (the RECV if this rank
 * has nothing to add). */
static uint32_t add(pst_job_builder *b, const pst_summary *x, uint32_t replicas, uint32_t i,
                    uint32_t more) {
    uint32_t at = PST_NONE;
    if (moves(x, replicas)) {
        at = emit_end(b, PST_OP_RECV, x, b->rank,
                      part_of(x, gradient_bytes(x, moved(x, replicas)), i),
                      gather_ns(b, x, replicas, i));
        if (b->buffer_read[0] != PST_NONE) pst_builder_depend(b, at, b->buffer_read[0]);
    }
    if (!x->pieces || b->status != PST_OK) return at;
    uint32_t reduce = emit_sum(b, x, part_of(x, x->own, i) * (replicas - 1 + more));
    if (at != PST_NONE) pst_builder_depend(b, reduce, at);
    return reduce;
}

/* The number of replicas with this micro-batch. */
static uint32_t replicas_with(const pst_job_builder *b, uint32_t micro) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < b->job->grid.data; k++) n += micro < b->job->micros[k];
    return n;
}

/* A round's messages have numbers of their own, so that sending and adding can be apart in the
 * list. */
static void enter_round(pst_job_builder *b, const pst_round *round, uint32_t i) {
    b->channel = b->cut->n_channel;
    b->turn = (round->chunk * b->job->n_micro + round->micro) * SEGMENTS + i;
}

static void mark(pst_job_builder *b, uint32_t at, const pst_round *round) {
    if (b->status == PST_OK && at != PST_NONE) {
        b->instr[at].chunk = (uint16_t)round->chunk;
        b->instr[at].micro = round->micro;
    }
}

void pst_summary_send_round(pst_job_builder *b, pst_round *round) {
    pst_summary x = b->sharded[round->chunk];
    uint32_t n = replicas_with(b, round->micro), pass = b->cut->split ? PST_OP_W : PST_OP_BW;
    round->n_send = 0;
    if (round->micro >= b->n_micro || !moves(&x, n)) return;
    uint32_t ready = b->compute_at[((size_t)round->chunk * 4 + pass) * b->n_micro + round->micro];
    for (uint32_t i = 0; i < segments_of(&x); i++) {
        enter_round(b, round, i);
        uint32_t at = send(b, &x, n, i, ready);
        mark(b, at, round);
        if (!round->n_send++) round->send = at;
    }
}

void pst_summary_add_round(pst_job_builder *b, pst_round *round) {
    pst_summary x = b->sharded[round->chunk];
    uint32_t n = replicas_with(b, round->micro);
    if (round->micro >= b->n_micro || x.param == PST_NONE) return;
    for (uint32_t i = 0; i < segments_of(&x) && b->status == PST_OK; i++) {
        enter_round(b, round, i);
        uint32_t first = b->n_instr, last = add(b, &x, n, i, 1);
        for (uint32_t k = first; k < b->n_instr; k++) mark(b, k, round);
        if (last != PST_NONE) b->buffer_read[0] = last;
    }
}

/* sums->at: [n_param][SEGMENTS], by the first parameter of a group: the instruction for which the
 * last REDUCE of each segment waits. */
static void reduce_group(pst_job_builder *b, const pst_summary *x, pst_flush_sums *sums,
                         uint32_t ready) {
    uint32_t n = b->job->grid.data, base = b->turn;
    if (x->param == PST_NONE) return;
    for (uint32_t i = 0; i < segments_of(x) && moves(x, n); i++, b->turn++) send(b, x, n, i, ready);
    b->turn = base;
    for (uint32_t i = 0; i < segments_of(x) && b->status == PST_OK; i++, b->turn++) {
        uint32_t last = sums->at[x->param * SEGMENTS + i] = add(b, x, n, i, 0);
        if (i == 0 && last != PST_NONE) b->buffer_read[0] = last;
    }
}

static int is_owner(const pst_job_builder *b, uint32_t param) {
    return pst_param_gradients(&b->cut->graph->param[param]) > 1 &&
           pst_builder_stage_of_use(b, param, 0) == b->stage;
}

static int has_partial(const pst_job_builder *b) {
    for (uint32_t p = 0; p < b->cut->graph->n_param; p++)
        if (b->cut->graph->param[p].slice.partial) return 1;
    return 0;
}

void pst_summary_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready) {
    uint8_t pass = b->cut->split ? PST_OP_W : PST_OP_BW;
    if (!shared) b->turn = b->job->n_chunk * b->job->n_micro * SEGMENTS; /* after those of rounds */
    if (!shared && pst_early_is_on(b)) b->turn += b->early->n_part;
    int later = b->job->parts > 1 || (b->cut->graph && has_partial(b));
    for (uint32_t c = b->cut->n_chunk; c-- > 0 && !shared;) {
        if (b->job->rank_of_chunk[c] != b->stage) continue;
        pst_summary x = group_of(b, c, is_whole);
        uint32_t done = b->compute_at[((size_t)c * 4 + pass) * b->n_micro + b->n_micro - 1];
        reduce_group(b, &x, sums, later ? ready : done);
    }
    for (uint32_t p = b->cut->graph ? b->cut->graph->n_param : 0; p-- > 0 && shared;) {
        if (!is_owner(b, p)) continue;
        pst_summary x = group_of_param(b, p);
        reduce_group(b, &x, sums, ready);
    }
}

/* The sums of segment i, once `reduce` is done (PST_NONE: nothing to wait for). */
static void spread_one(pst_job_builder *b, const pst_summary *x, uint32_t reduce, uint32_t i,
                       uint32_t received[2]) {
    uint64_t bytes = part_of(x, moved(x, b->job->grid.data) * sizeof(float), i),
             ns = wire_ns(b, bytes);
    uint32_t send = emit_end(b, PST_OP_SEND, x, b->rank, bytes, ns);
    if (reduce != PST_NONE) pst_builder_depend(b, send, reduce);
    uint32_t at = emit_end(b, PST_OP_RECV, x, b->rank, bytes, ns);
    if (received[0] == PST_NONE) received[0] = at;
    received[1] = at + 1;
}

/* Returns the group of all pieces that are reduced before part `due`, which one message represents;
 * *ready: number of parts after which it may be sent. */
static pst_summary group_early(const pst_job_builder *b, uint32_t due, uint32_t *ready) {
    const pst_early *e = b->early;
    pst_summary x = {.param = PST_NONE, .segments = 1};
    uint64_t all = 0;
    *ready = 0;
    for (uint32_t p = 0; p < b->share->n_param; p++) {
        if (e->ready[p] == PST_NONE || !count_pieces(b, p, due)) continue;
        if (x.param == PST_NONE) x.param = p;
        add_message(b, &x, p, &all);
        if (e->ready[p] > *ready) *ready = e->ready[p];
    }
    finish_message(&x, all);
    add_up_owners(b, &x);
    return x;
}

/* As its SENDs leave after the part that completes them, those of later parts come first. */
void pst_summary_early(pst_job_builder *b, uint32_t part) {
    const pst_early *e = b->early;
    uint32_t base = b->job->n_chunk * b->job->n_micro * SEGMENTS, n = b->job->grid.data, ready;
    for (uint32_t due = part; due < e->n_part && b->status == PST_OK; due++) {
        pst_summary x = group_early(b, due, &ready);
        b->turn = base + due;
        if (moves(&x, n) && ready == part) send(b, &x, n, 0, pst_builder_last_compute(b));
    }
    if (part == e->n_part || b->status != PST_OK) return;
    pst_summary x = group_early(b, part, &ready);
    b->turn = base + part;
    if (!moves(&x, n)) return;
    uint32_t none[2] = {PST_NONE, PST_NONE}, last = add(b, &x, n, 0, 0);
    if (last != PST_NONE) b->buffer_read[0] = last;
    if (b->job->zero || b->status != PST_OK) return;
    b->channel++;
    spread_one(b, &x, last, 0, none);
    b->channel--;
}

uint32_t pst_summary_sums(const pst_job_builder *b) {
    return b->cut->graph ? b->cut->graph->n_param * SEGMENTS : 0;
}

/* --- to all ranks with the parameter ---------------------------------------------------------- */

/* All elements of a group, from their owners to a stage with the parameters, this one or another.
 */
static uint32_t emit_hop(pst_job_builder *b, uint8_t opcode, const pst_summary *x, uint32_t peer,
                         uint64_t bytes) {
    b->turn = x->param;
    return emit_end(b, opcode, x, peer, bytes, wire_ns(b, bytes));
}

/* The ends of the messages that bring owners' elements (of `size` bytes) to the other stages with a
 * parameter. */
static void hop(pst_job_builder *b, uint8_t opcode, uint32_t param, double size, uint32_t after,
                uint32_t received[2]) {
    pst_summary x = group_of_param(b, param);
    uint32_t owner = pst_builder_stage_of_use(b, param, 0),
             n_use = pst_param_gradients(&b->cut->graph->param[param]);
    for (uint32_t stage = 0; stage < b->job->grid.pipeline && b->status == PST_OK; stage++) {
        int here = opcode == PST_OP_SEND ? b->stage == owner : b->stage == stage;
        if (stage == owner || !here || pst_builder_first_use(b, param, stage) == n_use) continue;
        uint32_t peer =
            pst_grid_in_lane(b->job->grid, opcode == PST_OP_SEND ? stage : owner, b->lane);
        uint32_t at = emit_hop(b, opcode, &x, peer, (uint64_t)((double)x.all * size));
        if (after != PST_NONE) pst_builder_depend(b, at, after);
        if (opcode == PST_OP_RECV && received[0] == PST_NONE) received[0] = at;
        if (opcode == PST_OP_RECV) received[1] = at + 1;
    }
}

static void spread_group(pst_job_builder *b, const pst_summary *x, const pst_flush_sums *sums,
                         uint32_t received[2]) {
    for (uint32_t i = 0; i < segments_of(x) && moves(x, b->job->grid.data); i++, b->turn++)
        spread_one(b, x, sums->at[x->param * SEGMENTS + i], i, received);
}

void pst_summary_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                             uint32_t received[2]) {
    const pst_graph *g = b->cut->graph;
    received[0] = received[1] = PST_NONE;
    b->channel++; /* after gradients */
    for (uint32_t c = b->cut->n_chunk; g && c-- > 0;) {
        pst_summary x = group_of(b, c, is_whole);
        if (b->job->rank_of_chunk[c] == b->stage && x.param != PST_NONE)
            spread_group(b, &x, sums, received);
    }
    for (uint32_t p = g ? g->n_param : 0; p-- > 0;) {
        if (pst_param_gradients(&g->param[p]) < 2) continue;
        pst_summary x = group_of_param(b, p);
        int owner = is_owner(b, p);
        uint32_t turn = b->turn,
                 last = owner ? sums->at[p * SEGMENTS + segments_of(&x) - 1] : lent[p];
        if (owner) {
            spread_group(b, &x, sums, received);
            turn = b->turn;
        }
        hop(b, owner ? PST_OP_SEND : PST_OP_RECV, p, sizeof(float), last, received);
        b->turn = turn;
    }
    b->channel--;
}

/* --- the head --------------------------------------------------------------------------------- */

/* Weights that are updated elsewhere, with two segments in flight. */
static void head_group(pst_job_builder *b, uint8_t opcode, const pst_summary *x, uint32_t *before) {
    uint64_t bytes = moved(x, b->job->grid.data) * pst_dtype_bytes(b->cut->graph->dtype);
    for (uint32_t i = 0; i < segments_of(x) && moves(x, b->job->grid.data) && b->status == PST_OK;
         i++) {
        uint64_t part = part_of(x, bytes, i), ns = wire_ns(b, part),
                 least = part / WINDOW * link_of(b).latency_ns;
        b->turn = x->param * SEGMENTS + i;
        uint32_t at = emit_end(b, opcode, x, b->rank, part, ns > least ? ns : least);
        b->instr[at].use = PST_NONE;
        b->instr[at].queue = PST_Q_HEAD;
        if (opcode == PST_OP_RECV && before[1] != PST_NONE) pst_builder_depend(b, at, before[1]);
        before[1] = before[0];
        before[0] = at;
    }
}

static void head_ends(pst_job_builder *b, uint8_t opcode) {
    const pst_graph *g = b->cut->graph;
    uint32_t before[2] = {PST_NONE, PST_NONE}, none[2] = {PST_NONE, PST_NONE};
    for (uint32_t c = 0; c < b->cut->n_chunk; c++) {
        if (b->job->rank_of_chunk[c] != b->stage) continue;
        pst_summary x = group_of(b, c, is_single_weight);
        if (x.param != PST_NONE) head_group(b, opcode, &x, before);
    }
    for (uint32_t p = 0; p < g->n_param; p++) {
        if (pst_param_gradients(&g->param[p]) < 2 || is_change(b, p)) continue;
        pst_summary x = group_of_param(b, p);
        if (is_owner(b, p)) head_group(b, opcode, &x, before);
        uint32_t first = b->n_instr;
        hop(b, opcode, p, pst_dtype_bytes(g->dtype), PST_NONE, none);
        for (uint32_t i = first; i < b->n_instr; i++) {
            b->instr[i].use = PST_NONE;
            b->instr[i].queue = PST_Q_HEAD;
        }
    }
}

void pst_summary_head(pst_job_builder *b) {
    if (!b->cut->graph) return;
    b->channel = b->cut->n_channel + 1; /* as in head.c */
    head_ends(b, PST_OP_SEND);
    head_ends(b, PST_OP_RECV);
    b->n_head = b->n_instr;
    b->turn = 0;
}

/* --- changes of weights ----------------------------------------------------------------------- */

static uint32_t emit_change(pst_job_builder *b, uint8_t opcode, const pst_summary *x, uint64_t ns) {
    uint32_t at = pst_builder_emit_compute(b, opcode, ns);
    if (b->status != PST_OK) return PST_NONE;
    b->instr[at].param = x->param;
    b->instr[at].n = 1;
    b->instr[at].packed = !b->job->plain;
    return at;
}

static double change_size(const pst_job_builder *b) {
    return (double)pst_job_change_bytes(b->job, PST_PIECE) / PST_PIECE;
}

/* Those of a group that this rank updates, and those that it gets. */
static void change_group(pst_job_builder *b, const pst_summary *x) {
    const uint64_t n = moved(x, b->job->grid.data);
    const uint64_t bytes = (uint64_t)((double)n * change_size(b)), ns = wire_ns(b, bytes);
    const uint64_t add = pst_builder_reduce_ns(b, x->own);
    if (!n || b->status != PST_OK) return;
    uint32_t pack =
        emit_change(b, PST_OP_PACK, x, b->job->plain ? add : pst_builder_pack_ns(b, x->own) + add);
    b->turn = x->param * SEGMENTS;
    uint32_t send = emit_end(b, PST_OP_SEND, x, b->rank, bytes, ns);
    if (b->status != PST_OK) return;
    pst_builder_depend(b, send, pack);
    uint32_t recv = emit_end(b, PST_OP_RECV, x, b->rank, bytes, ns);
    if (b->status != PST_OK) return;
    pst_builder_depend(b, recv, pack);
    b->instr[send].use = b->instr[recv].use = PST_NONE;
    if (b->job->plain) return;
    uint32_t unpack = emit_change(b, PST_OP_UNPACK, x, pst_builder_reduce_ns(b, x->all - x->own));
    if (b->status == PST_OK) pst_builder_depend(b, unpack, recv);
}

static void change_hops(pst_job_builder *b, uint8_t opcode, uint32_t param, uint32_t after) {
    uint32_t none[2] = {PST_NONE, PST_NONE}, first = b->n_instr;
    hop(b, opcode, param, change_size(b), after, none);
    for (uint32_t i = first; i < b->n_instr; i++) b->instr[i].use = PST_NONE;
}

void pst_summary_changes(pst_job_builder *b, uint32_t step) {
    const pst_graph *g = b->cut->graph;
    const uint32_t channel = b->channel;
    b->channel = b->cut->n_channel + 1; /* as in the head */
    for (uint32_t c = 0; c < b->cut->n_chunk; c++) {
        if (b->job->rank_of_chunk[c] != b->stage) continue;
        pst_summary x = group_of(b, c, is_single_change);
        if (x.param != PST_NONE) change_group(b, &x);
    }
    for (uint32_t p = 0; p < g->n_param; p++) {
        if (pst_param_gradients(&g->param[p]) < 2 || !is_change(b, p)) continue;
        pst_summary x = group_of_param(b, p);
        if (is_owner(b, p)) change_group(b, &x);
        change_hops(b, PST_OP_SEND, p, pst_builder_last_compute(b));
    }
    for (uint32_t p = 0; p < g->n_param; p++)
        if (pst_param_gradients(&g->param[p]) > 1 && is_change(b, p))
            change_hops(b, PST_OP_RECV, p, step);
    b->channel = channel;
}
