/* Exchanges between replicas, piece by piece: gradients are sent to the owner of the piece, which
 * adds them in the order of a binary tree over the replicas of an island (outer.h; without
 * islands: all). zero 0: the sum is sent to all
 * ranks with the parameter. zero 1 and 2: the sum stays on the owner, and head.c sends the updated
 * weights. All this happens in the flush, except for early pieces, which are reduced during the
 * last pass (early.c), and for rounds, which reduce the gradients of one micro-batch (rounds.c).
 * With a codec (job.up) every replica packs its gradient first, the owner's own too, so that sums
 * do not depend on which rank owns a piece. A rank packs what it sends before it adds anything: an
 * addition waits for other ranks, which wait for what this rank sends.
 * With a two-level exchange (job.near) a relay adds the gradients of its host's replicas, which are
 * a node of the tree, and sends their sum to the owner; new sums and weights pass it as well.
 *
 * Pieces are numbered from the last parameter to the first, as gradients are completed; the number
 * is the seq of their messages. With a two-level exchange a parameter's pieces are exchanged in
 * rounds of one from each owner, so that every rank is owner and relay by turns. */
#include "pipeline/compile/flush_replicas.h"
#include "pipeline/compile/early.h"
#include "pipeline/compile/summary.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t param, number, owner; /* of the island: pst_job_member */
    uint64_t from, n;
    const pst_round *round; /* NULL: in the flush */
} piece;

typedef void (*piece_fn)(pst_job_builder *b, const piece *at, void *arg);

/* The nth piece of each owner; returns 0 if there is none. first: number of the parameter's first
 * piece. */
static int each_nth(pst_job_builder *b, uint32_t param, uint32_t nth, uint32_t first, piece_fn fn,
                    void *arg) {
    const pst_share *s = b->share;
    int any = 0;
    for (uint32_t k = 0; k < s->n_owner; k++) {
        const uint64_t from = pst_share_from(s, param, k) + nth * s->message,
                       to = pst_share_to(s, param, k),
                       n = to > from && to - from < s->message ? to - from : s->message;
        const piece at = {param, first + nth, k, from, n, NULL};
        if (from < to && b->status == PST_OK) fn(b, &at, arg);
        any |= from < to;
        first += pst_share_messages(s, to - pst_share_from(s, param, k));
    }
    return any;
}

static void each_piece(pst_job_builder *b, piece_fn fn, void *arg) {
    uint32_t first = 0;
    for (uint32_t p = b->share->n_param; b->job->near > 1 && p-- > 0; first += b->job->pieces[p])
        for (uint32_t nth = 0; each_nth(b, p, nth, first, fn, arg);) nth++;
    if (b->job->near > 1) return;
    for (uint32_t p = b->share->n_param; p-- > 0; first += b->job->pieces[p]) {
        uint32_t number = first;
        for (pst_piece next = {.param = p}; pst_share_next(b->share, &next); number++) {
            piece at = {p, number, next.owner, next.from, next.n, NULL};
            if (b->status == PST_OK) fn(b, &at, arg);
        }
    }
}

/* The rank of this lane's tensor rank at an owner of this island. */
static uint32_t rank_at(const pst_job_builder *b, uint32_t stage, uint32_t member) {
    return pst_grid_in_lane(b->job->grid, stage,
                            pst_job_peer(b->job, b->replica, member) * b->job->grid.tensor +
                                b->lane % b->job->grid.tensor);
}

static int packs(const pst_job_builder *b, const piece *at) {
    return pst_job_packs(b->job, b->stage, &b->cut->graph->param[at->param]);
}

static uint32_t emit_piece(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t use,
                           uint32_t peer, int back) {
    const int packed = !back && packs(b, at);
    const pst_param *param = b->cut->graph->param + at->param;
    uint64_t bytes =
        back ? at->n * sizeof(float) : pst_job_gradient_bytes(b->job, param, packed, at->n);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at->param;
    instr.use = use;
    instr.from = (uint32_t)at->from;
    instr.n = (uint32_t)at->n;
    instr.packed = (uint32_t)packed;
    instr.peer = peer;
    instr.bytes = bytes;
    instr.channel = b->channel + (uint32_t)back;
    instr.seq = at->number;
    if (at->round) {
        instr.chunk = (uint16_t)at->round->chunk;
        instr.micro = at->round->micro;
        instr.seq += instr.micro * b->n_piece;
    }
    return pst_builder_emit(b, &instr);
}

/* --- packing ---------------------------------------------------------------------------------- */

/* A PACK of this rank's gradient, or an UNPACK of receive buffer `buffer`. */
static uint32_t emit_codec(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t buffer) {
    const uint64_t ns =
        opcode == PST_OP_PACK ? pst_builder_pack_ns(b, at->n) : pst_builder_reduce_ns(b, at->n);
    uint32_t i = pst_builder_emit_compute(b, opcode, ns);
    if (b->status != PST_OK) return PST_NONE;
    pst_instr *in = b->instr + i;
    in->param = at->param;
    in->use = 0;
    in->from = (uint32_t)at->from;
    in->n = (uint32_t)at->n;
    in->buffer = in->into = buffer;
    in->packed = opcode == PST_OP_UNPACK;
    return i;
}

/* Sends this rank's gradient to the owner of the piece, or to its relay, packed if the piece is;
 * `ready`: the instruction that completes it (PST_NONE: no need to wait). */
static uint32_t send_gradient(pst_job_builder *b, const piece *at, uint32_t ready) {
    if (packs(b, at)) {
        uint32_t pack = emit_codec(b, PST_OP_PACK, at, 0);
        if (b->status == PST_OK && ready != PST_NONE) pst_builder_depend(b, pack, ready);
        ready = pack;
    }
    const uint32_t to = rank_at(b, b->stage, pst_job_via(b->job, b->member, at->owner));
    uint32_t send = emit_piece(b, PST_OP_SEND, at, 0, to, 0);
    if (ready != PST_NONE) pst_builder_depend(b, send, ready);
    return send;
}

/* --- sums ------------------------------------------------------------------------------------- */

typedef struct {
    pst_flush_sums *sums;
    int shared;
    uint32_t ready;
} reducing;

/* Whether a replica has a gradient of the piece. */
static int takes_part(const pst_job_builder *b, const piece *at, uint32_t member) {
    return !at->round ||
           at->round->micro < b->job->micros[pst_job_peer(b->job, b->replica, member)];
}

/* All replicas' gradients are rounded the same way, so that sums do not depend on which rank adds
 * them. This rank's own, which is not sent, is rounded when it is first added. */
static void round_own(pst_job_builder *b, pst_instr *in) {
    if (!b->own_is_exact || (in->into && in->buffer)) return;
    b->own_is_exact = 0;
    in->bytes = pst_job_gradient_bytes(b->job, b->cut->graph->param + in->param, 0, in->n);
}

/* Adds `buffer` to `into`, after both are ready (PST_NONE: no need to wait). */
static uint32_t emit_sum(pst_job_builder *b, const piece *at, uint32_t into, uint32_t buffer,
                         uint32_t before, uint32_t after) {
    uint32_t reduce = pst_builder_emit_compute(b, PST_OP_REDUCE, pst_builder_reduce_ns(b, at->n));
    if (b->status != PST_OK) return PST_NONE;
    pst_instr *in = b->instr + reduce;
    in->param = at->param;
    in->use = 0;
    in->from = (uint32_t)at->from;
    in->n = (uint32_t)at->n;
    in->into = into;
    in->buffer = buffer;
    round_own(b, in);
    if (at->round) {
        in->chunk = (uint16_t)at->round->chunk;
        in->micro = at->round->micro;
    }
    if (before != PST_NONE) pst_builder_depend(b, reduce, before);
    if (after != PST_NONE) pst_builder_depend(b, reduce, after);
    return reduce;
}

/* What is received of a piece: [replicas] the RECV, or PST_NONE, and the buffer of each replica's
 * gradient; with a two-level exchange the sum of another host is that of its relay. */
typedef struct {
    uint32_t recv, buffer;
} incoming;

/* at: where a sum of replicas is: 0 this replica's gradient, else 1 + a receive buffer; PST_NONE:
 * none of them takes part. packed: the buffer is as it was received, packed. */
typedef struct {
    uint32_t at;
    int packed;
} place;

/* The replica of this island whose gradient is in the accumulator: this one or, at a server, the
 * first, from which it is received there. */
static uint32_t resident(const pst_job_builder *b) { return b->serves ? 0 : b->member; }

/* The replica from which the sum of [lo, hi) is received; PST_NONE: it is added here. */
static uint32_t sender_of(const pst_job_builder *b, const piece *at, uint32_t lo, uint32_t hi) {
    const uint32_t near = b->job->near;
    if (hi - lo == 1) return lo;
    return hi - lo == near && lo / near != b->member / near ? lo + at->owner % near : PST_NONE;
}

/* Adds [lo, hi); *sum: where the sum is. Returns the last REDUCE or, for a single replica, its RECV
 * (PST_NONE for this one). */
static uint32_t add_replicas(pst_job_builder *b, const piece *at, const incoming *from, uint32_t lo,
                             uint32_t hi, place *sum) {
    const uint32_t sender = sender_of(b, at, lo, hi);
    if (sender != PST_NONE) {
        *sum = (place){0, 0};
        if (sender != resident(b)) *sum = (place){from[sender].buffer, packs(b, at)};
        if (!takes_part(b, at, sender)) sum->at = PST_NONE;
        return from[sender].recv;
    }
    uint32_t middle = pst_share_split(lo, hi);
    place left, right;
    uint32_t before = add_replicas(b, at, from, lo, middle, &left);
    uint32_t after = add_replicas(b, at, from, middle, hi, &right);
    if (left.at == PST_NONE || right.at == PST_NONE) {
        *sum = left.at == PST_NONE ? right : left;
        return left.at == PST_NONE ? after : before;
    }
    const place with = right.at ? right : left;
    *sum = right.at ? left : right;
    if (sum->packed) {
        uint32_t unpack = emit_codec(b, PST_OP_UNPACK, at, sum->at);
        if (b->status == PST_OK && before != PST_NONE) pst_builder_depend(b, unpack, before);
        before = unpack;
        sum->packed = 0;
    }
    uint32_t reduce = emit_sum(b, at, sum->at, with.at, before, after);
    if (b->status == PST_OK) b->instr[reduce].packed = (uint32_t)with.packed;
    return reduce;
}

/* Messages that this rank receives at once from each replica. If messages are shorter than a piece,
 * at a replica in proportion to what it owns: else owners of little would be done early, while
 * links to servers, which own most, are not always busy. */
static uint32_t in_flight(const pst_job_builder *b) {
    const uint32_t n = pst_job_in_flight(b->job);
    uint64_t own = pst_share_pieces(b->share, b->stage, b->member), most = own;
    if (n == PST_PIECES_IN_FLIGHT || b->job->staleness || b->serves) return n;
    for (uint32_t k = 0; k < b->share->n_owner; k++) {
        const uint64_t other = pst_share_pieces(b->share, b->stage, k);
        most = other > most ? other : most;
    }
    const uint32_t part = (uint32_t)(n * own / most);
    return part > PST_PIECES_IN_FLIGHT ? part : PST_PIECES_IN_FLIGHT;
}

/* The next receive buffers for a piece, from *first on. Returns where their last reader is kept. */
static uint32_t *take_buffers(pst_job_builder *b, int relays, uint32_t *first) {
    const uint32_t of_owner = pst_job_owner_buffers(b->job);
    if (!relays) {
        const uint32_t set = b->turn++ % in_flight(b);
        *first = 1 + set * of_owner;
        return b->buffer_read + set;
    }
    const uint32_t sets = pst_job_in_flight(b->job), set = b->relay_turn++ % sets;
    *first = 1 + sets * of_owner + set * (b->job->near - 1);
    return b->relay_read + set;
}

/* Receives what others send here of a piece; reader: the last one of the buffers, PST_NONE. */
static void receive_parts(pst_job_builder *b, const piece *at, uint32_t buffer, uint32_t reader,
                          incoming *from) {
    const uint32_t own = resident(b);
    for (uint32_t k = 0; k < pst_job_group(b->job) && b->status == PST_OK; k++) {
        from[k] = (incoming){PST_NONE, 0};
        if (pst_job_via(b->job, k, at->owner) != b->member) continue;
        if (k != own) from[k].buffer = buffer++;
        if (k == b->member || !takes_part(b, at, k)) continue;
        from[k].recv = emit_piece(b, PST_OP_RECV, at, 0, rank_at(b, b->stage, k), 0);
        if (k == own || b->status != PST_OK) continue;
        b->instr[from[k].recv].buffer = from[k].buffer;
        if (reader != PST_NONE) pst_builder_depend(b, from[k].recv, reader);
    }
}

/* At the owner of a piece: adds all replicas; at a relay: those of its host. Returns the REDUCE
 * that completes the sum in the accumulator. */
static uint32_t collect(pst_job_builder *b, const piece *at) {
    const int relays = pst_job_relays(b->job, b->member, at->owner);
    const uint32_t n = relays ? b->job->near : pst_job_group(b->job),
                   lo = relays ? b->member / n * n : 0;
    place sum = {0, 0};
    uint32_t last = 0, first, *reader = take_buffers(b, relays, &first);
    b->own_is_exact = b->job->narrow && !b->serves;
    if (packs(b, at)) emit_codec(b, PST_OP_PACK, at, 0);
    incoming *from = malloc(pst_job_group(b->job) * sizeof *from);
    if (!from) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
        return 0;
    }
    receive_parts(b, at, first, *reader, from);
    if (b->status == PST_OK) last = add_replicas(b, at, from, lo, lo + n, &sum);
    if (b->status == PST_OK && at->round)
        last = emit_sum(b, at, PST_INTO_ACCUMULATOR, sum.at, last, PST_NONE);
    free(from);
    return *reader = last;
}

/* At a relay: sends the sum of its host to the owner; returns the SEND. */
static uint32_t relay_sum(pst_job_builder *b, const piece *at) {
    const uint32_t sum = collect(b, at);
    const uint32_t send = emit_piece(b, PST_OP_SEND, at, 0, rank_at(b, b->stage, at->owner), 0);
    pst_builder_depend(b, send, sum);
    return send;
}

static int relays(const pst_job_builder *b, const piece *at) {
    return pst_job_relays(b->job, b->member, at->owner);
}

static int shares_out(const pst_job_builder *b, uint32_t param) {
    return pst_job_shards_gradient(b->job, b->lane % b->job->grid.tensor, param);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int in_round(const pst_job_builder *b, const piece *at, const pst_round *round) {
    return shares_out(b, at->param) &&
           b->cut->use_chunk[b->cut->use_first[at->param]] == round->chunk;
}

static void send_in_round(pst_job_builder *b, const piece *in, void *arg) {
    pst_round *round = arg;
    piece at = *in;
    if (!in_round(b, in, round) || at.owner == b->member) return;
    at.round = round;
    uint32_t send = emit_piece(b, PST_OP_SEND, &at, 0, rank_at(b, b->stage, at.owner), 0);
    uint8_t pass = b->cut->split ? PST_OP_W : PST_OP_BW;
    pst_builder_depend(
        b, send, b->compute_at[((size_t)round->chunk * 4 + pass) * b->n_micro + round->micro]);
    if (!round->n_send++) round->send = send;
}

static void add_in_round(pst_job_builder *b, const piece *in, void *arg) {
    piece at = *in;
    at.round = arg;
    if (in_round(b, in, arg) && at.owner == b->member) collect(b, &at);
}

void pst_flush_send_round(pst_job_builder *b, pst_round *round) {
    if (b->job->alone) {
        pst_summary_send_round(b, round);
        return;
    }
    b->channel = b->cut->n_channel;
    round->n_send = 0;
    if (round->micro < b->n_micro) each_piece(b, send_in_round, round);
}

void pst_flush_add_round(pst_job_builder *b, pst_round *round) {
    if (b->job->alone) {
        pst_summary_add_round(b, round);
        return;
    }
    b->channel = b->cut->n_channel;
    each_piece(b, add_in_round, round);
}

/* --- eager updates ---------------------------------------------------------------------------- */

static uint32_t emit_weight(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t peer) {
    const uint64_t bytes = at->n * pst_dtype_bytes(b->cut->graph->dtype);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at->param;
    instr.from = (uint32_t)at->from;
    instr.n = (uint32_t)at->n;
    instr.peer = peer;
    instr.bytes = bytes;
    instr.channel = b->channel + 1;
    instr.seq = at->number;
    return pst_builder_emit(b, &instr);
}

/* Sends a piece of the owner's to all ranks with the parameter, or to their relays, after `after`:
 * a sum (is_sum 1) or new weights. */
static void send_to_holders(pst_job_builder *b, const piece *at, uint32_t after, int is_sum) {
    const pst_grid grid = b->job->grid;
    uint32_t tensor = b->lane % grid.tensor;
    for (uint32_t stage = 0; stage < grid.pipeline; stage++)
        for (uint32_t k = 0; k < pst_job_group(b->job) && pst_builder_holds(b, at->param, stage);
             k++) {
            if (pst_job_via(b->job, k, at->owner) != at->owner) continue;
            uint32_t lane = pst_grid_receiver(
                grid, stage, pst_job_peer(b->job, b->replica, k) * grid.tensor + tensor);
            for (; lane != PST_GRID_NO_LANE && b->status == PST_OK;
                 lane = pst_builder_next_receiver(b, stage, lane)) {
                const uint32_t to = pst_grid_in_lane(grid, stage, lane);
                if (to == b->rank) continue;
                pst_builder_depend(b,
                                   is_sum ? emit_piece(b, PST_OP_SEND, at, 0, to, 1)
                                          : emit_weight(b, PST_OP_SEND, at, to),
                                   after);
            }
        }
}

/* The first STEP overwrites memory of the passes and messages of values before it. */
static void wait_for_values(pst_job_builder *b, uint32_t step) {
    for (uint32_t i = 0; !b->stepped && i < step && b->status == PST_OK; i++)
        if (b->instr[i].local != PST_NONE && !pst_opcode_computes(b->instr[i].opcode))
            pst_builder_depend(b, step, i);
    b->stepped = 1;
}

/* Updates an owned piece whose sum is complete, and sends its weights. */
static void update_piece(pst_job_builder *b, const piece *at) {
    if (!b->job->eager || b->status != PST_OK) return;
    const uint32_t step = pst_builder_emit_compute(b, PST_OP_STEP, 0);
    if (b->status != PST_OK) return;
    b->instr[step].param = at->param;
    b->instr[step].use = 0;
    b->instr[step].from = (uint32_t)at->from;
    b->instr[step].n = (uint32_t)at->n;
    wait_for_values(b, step);
    send_to_holders(b, at, step, 0);
}

/* last: [n_param] the last pass that reads a parameter, PST_NONE. */
typedef struct {
    uint32_t *last;
} reading;

static void find_readers(const pst_job_builder *b, uint32_t passes, uint32_t *last) {
    for (uint32_t p = 0; p < b->cut->graph->n_param; p++) last[p] = PST_NONE;
    for (uint32_t i = passes; i-- > 0;) {
        uint32_t n;
        if (b->instr[i].opcode > PST_OP_BW) continue;
        const pst_step *step = pst_job_steps(b->cut, b->instr + i, &n);
        for (uint32_t s = 0; s < n; s++)
            for (uint32_t k = 0; k < step[s].n_operand; k++) {
                const pst_operand *o = step[s].operand + k;
                if (o->kind == PST_OPERAND_PARAM && last[o->index] == PST_NONE) last[o->index] = i;
            }
    }
}

static void receive_weight(pst_job_builder *b, const piece *at, void *arg) {
    const reading *r = arg;
    const uint32_t stage = pst_builder_stage_of_use(b, at->param, 0);
    const uint32_t owner = rank_at(b, stage, at->owner);
    if (owner == b->rank || !pst_builder_holds(b, at->param, b->stage)) return;
    const uint32_t recv = emit_weight(b, PST_OP_RECV, at, owner);
    if (r->last[at->param] != PST_NONE) pst_builder_depend(b, recv, r->last[at->param]);
}

void pst_flush_receive_weights(pst_job_builder *b, uint32_t passes) {
    reading r = {malloc((b->share->n_param + (size_t)1) * sizeof *r.last)};
    if (!r.last) b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
    if (r.last && b->cut->graph) {
        find_readers(b, passes, r.last);
        each_piece(b, receive_weight, &r);
    }
    free(r.last);
}

/* --- gradients of the flush ------------------------------------------------------------------- */

/* The pass, or the part of a pass, that completes the accumulator of a parameter with one use: it
 * may run long before the rank's last pass. */
static uint32_t finished(const pst_job_builder *b, uint32_t param) {
    uint32_t chunk = b->cut->use_chunk[b->cut->use_first[param]], last = b->n_micro - 1;
    uint32_t part = pst_early_finished(b, param);
    if (part != PST_NONE) return part;
    return b->compute_at[((size_t)chunk * 4 + (b->cut->split ? PST_OP_W : PST_OP_BW)) * b->n_micro +
                         last];
}

/* Whether the piece is one of these. */
static int is_reduced(const pst_job_builder *b, const piece *at, const reducing *r) {
    return pst_builder_stage_of_use(b, at->param, 0) == b->stage &&
           r->shared == (pst_param_gradients(&b->cut->graph->param[at->param]) > 1) &&
           !shares_out(b, at->param) && !pst_early_is_due(b, at->number);
}

static void send_piece_of(pst_job_builder *b, const piece *at, void *arg) {
    const reducing *r = arg;
    if (!is_reduced(b, at, r) || at->owner == b->member || b->serves || relays(b, at)) return;
    int later = r->shared || b->job->parts > 1 || b->cut->graph->param[at->param].slice.partial;
    r->sums->at[at->number] = send_gradient(b, at, later ? r->ready : finished(b, at->param));
}

/* A piece that was added early is updated once the passes are over. */
static int was_added(const pst_job_builder *b, const piece *at, const reducing *r) {
    return !b->serves && !r->shared && pst_early_is_due(b, at->number) &&
           pst_builder_stage_of_use(b, at->param, 0) == b->stage;
}

static void collect_piece(pst_job_builder *b, const piece *at, void *arg) {
    const reducing *r = arg;
    const int reduced = is_reduced(b, at, r);
    if (at->owner != b->member || (!reduced && !was_added(b, at, r))) return;
    if (reduced) r->sums->at[at->number] = collect(b, at);
    update_piece(b, at);
}

/* Pieces of this rank's that are added LAG pieces later, so that the sums of other hosts are on
 * their way while this rank is a relay. A relay never waits for another one, so waits cannot form a
 * cycle. */
enum { LAG = 2 };
typedef struct {
    reducing r;
    piece *at;
    uint32_t n, n_added;
} lagging;

static void add_lagging(pst_job_builder *b, lagging *own, uint32_t lag) {
    for (; own->n_added + lag < own->n && b->status == PST_OK; own->n_added++) {
        const piece *at = &own->at[own->n_added];
        own->r.sums->at[at->number] = collect(b, at);
    }
}

static void relay_or_add(pst_job_builder *b, const piece *at, void *arg) {
    lagging *own = arg;
    if (!is_reduced(b, at, &own->r)) return;
    if (relays(b, at)) own->r.sums->at[at->number] = relay_sum(b, at);
    if (at->owner != b->member) return;
    own->at[own->n++] = *at;
    add_lagging(b, own, LAG);
}

static void reduce_two_level(pst_job_builder *b, const reducing *r) {
    lagging own = {*r, malloc((b->n_piece + (size_t)1) * sizeof *own.at), 0, 0};
    if (!own.at) b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
    if (own.at) each_piece(b, relay_or_add, &own);
    add_lagging(b, &own, 0);
    free(own.at);
}

void pst_flush_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready) {
    reducing r = {sums, shared, ready};
    if (b->job->alone) {
        pst_summary_reduce(b, sums, shared, ready);
        return;
    }
    each_piece(b, send_piece_of, &r);
    if (b->job->near > 1) reduce_two_level(b, &r);
    else each_piece(b, collect_piece, &r);
}

pst_status pst_flush_sums_open(const pst_job_builder *b, pst_flush_sums *sums) {
    uint32_t n = b->job->alone ? pst_summary_sums(b) : pst_job_pieces(b->job);
    *sums = (pst_flush_sums){.at = malloc((n + (size_t)1) * sizeof *sums->at)};
    if (!sums->at) return pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
    for (uint32_t i = 0; i < n; i++) sums->at[i] = PST_NONE;
    return PST_OK;
}

void pst_flush_sums_close(pst_flush_sums *sums) { free(sums->at); }

/* --- to all ranks with the parameter ---------------------------------------------------------- */

typedef struct {
    const pst_flush_sums *sums;
    const uint32_t *lent;
    uint32_t *received; /* [0] the first RECV, [1] one after the last */
} spreading;

/* From where this rank receives the sum of a piece, or its weights: the owner, or a relay of the
 * same stage. */
static uint32_t source_of(const pst_job_builder *b, const piece *at) {
    const uint32_t via = pst_job_via(b->job, b->member, at->owner);
    return rank_at(b, via == at->owner ? pst_builder_stage_of_use(b, at->param, 0) : b->stage, via);
}

/* A relay sends what it has received, the sum of a piece, to the other replicas of its host. */
static void forward_piece(pst_job_builder *b, const piece *at, uint32_t use, uint32_t recv) {
    const uint32_t near = b->job->near, first = b->member / near * near;
    for (uint32_t k = first; relays(b, at) && k < first + near && b->status == PST_OK; k++)
        if (k != b->member)
            pst_builder_depend(b, emit_piece(b, PST_OP_SEND, at, use, rank_at(b, b->stage, k), 1),
                               recv);
}

/* A received sum overwrites the accumulator that this rank has sent: to the owner of the piece or
 * its relay or, on another stage, to the stage of the first use. */
static void receive_piece(pst_job_builder *b, const piece *at, const spreading *s) {
    uint32_t owner = pst_builder_stage_of_use(b, at->param, 0),
             use = pst_builder_first_use(b, at->param, b->stage);
    uint32_t recv = emit_piece(b, PST_OP_RECV, at, use, source_of(b, at), 1);
    uint32_t after = s->sums->at[at->number];
    if (owner != b->stage) pst_builder_wait_lent(b, recv, s->lent[at->param]);
    else if (after != PST_NONE) pst_builder_depend(b, recv, after);
    if (s->received[0] == PST_NONE) s->received[0] = recv;
    s->received[1] = recv + 1;
    forward_piece(b, at, use, recv);
}

/* The SENDs of an owner come before those of a relay, which wait for other owners' sums. */
static void spread_own(pst_job_builder *b, const piece *at, void *arg) {
    const spreading *s = arg;
    if (pst_early_is_due(b, at->number) || at->owner != b->member) return;
    if (pst_builder_stage_of_use(b, at->param, 0) == b->stage)
        send_to_holders(b, at, s->sums->at[at->number], 1);
}

static void spread_piece(pst_job_builder *b, const piece *at, void *arg) {
    const spreading *s = arg;
    if (pst_early_is_due(b, at->number)) return;
    int owner = pst_builder_stage_of_use(b, at->param, 0) == b->stage && at->owner == b->member;
    if (owner && b->job->near == 1) send_to_holders(b, at, s->sums->at[at->number], 1);
    if (!owner && pst_builder_holds(b, at->param, b->stage)) receive_piece(b, at, s);
}

void pst_flush_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                           uint32_t received[2]) {
    spreading s = {sums, lent, received};
    received[0] = received[1] = PST_NONE;
    if (b->job->alone) {
        pst_summary_spread_sums(b, sums, lent, received);
        return;
    }
    if (b->job->near > 1) each_piece(b, spread_own, &s);
    each_piece(b, spread_piece, &s);
}

/* --- before the flush ------------------------------------------------------------------------- */

static void send_early(pst_job_builder *b, const piece *at, void *part) {
    const pst_early *e = b->early;
    if (!pst_early_is_due(b, at->number) || e->ready[at->param] != *(uint32_t *)part ||
        at->owner == b->member || b->serves || relays(b, at))
        return;
    e->at[at->number] = send_gradient(b, at, finished(b, at->param));
}

static void relay_early(pst_job_builder *b, const piece *at, void *part) {
    const pst_early *e = b->early;
    if (e->relay[at->number] == *(uint32_t *)part && relays(b, at))
        e->at[at->number] = relay_sum(b, at);
}

static void add_early(pst_job_builder *b, const piece *at, void *part) {
    const pst_early *e = b->early;
    if (e->due[at->number] != *(uint32_t *)part || at->owner != b->member) return;
    e->at[at->number] = collect(b, at);
    if (!b->job->zero) send_to_holders(b, at, e->at[at->number], 1);
    if (b->serves) update_piece(b, at);
}

/* What was added before the part before: by then its gradient has left, so that no gradient that is
 * to come is held up in the queue of RECVs. */
static void receive_early(pst_job_builder *b, const piece *at, void *part) {
    const pst_early *e = b->early;
    if (!pst_early_is_due(b, at->number) || e->due[at->number] + 1 != *(uint32_t *)part ||
        at->owner == b->member)
        return;
    uint32_t recv = emit_piece(b, PST_OP_RECV, at, 0, source_of(b, at), 1);
    pst_builder_depend(b, recv, e->at[at->number]);
    forward_piece(b, at, 0, recv);
}

void pst_flush_early(pst_job_builder *b, uint32_t part) {
    b->channel = b->cut->n_channel; /* as in the flush */
    if (b->job->alone) {
        pst_summary_early(b, part);
        return;
    }
    each_piece(b, send_early, &part);
    if (part < b->early->n_part && b->job->near > 1) each_piece(b, relay_early, &part);
    if (part < b->early->n_part) each_piece(b, add_early, &part);
    if (part && !b->job->zero) each_piece(b, receive_early, &part);
}

/* --- beside the passes ------------------------------------------------------------------------ */

/* The pieces of which this rank has a gradient or receives the sum. */
typedef struct {
    piece *at;
    uint32_t n;
} own_pieces;

static int is_first_stage(const pst_job_builder *b, const piece *at) {
    return pst_builder_stage_of_use(b, at->param, 0) == b->stage;
}

static void list_own(pst_job_builder *b, const piece *at, void *arg) {
    own_pieces *own = arg;
    const int holds = !b->serves && pst_builder_holds(b, at->param, b->stage);
    if (is_first_stage(b, at) || holds) own->at[own->n++] = *at;
}

/* With zero 1 the first message waits for the weights, which passes wait for. */
static void wait_for_head(pst_job_builder *b, uint32_t first) {
    for (uint32_t i = b->n_head; i-- > 0 && first < b->n_instr && b->status == PST_OK;) {
        if (b->instr[i].opcode != PST_OP_RECV) continue;
        pst_builder_depend(b, first, i);
        return;
    }
}

/* All gradients first; then the pieces that this rank owns are added, and `lag` pieces later the
 * sum of each is sent or received. */
static void exchange_own(pst_job_builder *b, const own_pieces *own, spreading *s, uint32_t lag) {
    uint32_t *at = s->sums->at;
    for (uint32_t k = 0; k < own->n && b->status == PST_OK; k++)
        if (is_first_stage(b, &own->at[k]) && !b->serves && own->at[k].owner != b->member)
            at[own->at[k].number] = send_gradient(b, &own->at[k], PST_NONE);
    for (uint32_t k = 0; k < own->n + lag && b->status == PST_OK; k++) {
        const piece *now = &own->at[k];
        if (k < own->n && is_first_stage(b, now) && now->owner == b->member)
            at[now->number] = collect(b, now);
        if (k >= lag && !b->job->zero) spread_piece(b, &own->at[k - lag], s);
    }
}

void pst_flush_beside(pst_job_builder *b) {
    pst_flush_sums sums;
    own_pieces own = {.n = 0};
    const uint32_t n_param = b->cut->graph ? b->cut->graph->n_param : 0;
    uint32_t received[2] = {PST_NONE, PST_NONE};
    if (pst_job_group(b->job) == 1 || !n_param || b->status != PST_OK) return;
    if ((b->status = pst_flush_sums_open(b, &sums)) != PST_OK) return;
    uint32_t *lent = malloc(n_param * sizeof *lent);
    own.at = malloc((b->n_piece + (size_t)1) * sizeof *own.at);
    if (!lent || !own.at) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the delayed updates of rank %u", b->rank);
    } else {
        memset(lent, 0xff, n_param * sizeof *lent); /* accumulators were lent in an earlier step */
        b->channel = b->cut->n_channel;             /* as in the flush */
        b->beside = 1;
        const uint32_t first = b->n_instr;
        each_piece(b, list_own, &own);
        exchange_own(b, &own, &(spreading){&sums, lent, received}, in_flight(b) - 1);
        wait_for_head(b, first);
        b->beside = 0;
    }
    free(lent);
    free(own.at);
    pst_flush_sums_close(&sums);
}
