/* See outer.h. The order of pieces is that of parameters; the index of a piece is the seq of its
 * messages, which are sent to the owner, or by the owner, and so use one channel. */
#include "pipeline/compile/outer.h"
#include <stdlib.h>
#include <string.h>

/* Elements that a rank reads or writes for one of its own: the old and the new weight, momentum
 * twice, and the weights of all islands; a REDUCE: three. */
enum { OWN_STREAMS = 4, REDUCE_STREAMS = 3 };

/* The number of messages of a parameter, on the tensor rank with the largest number. */
static uint32_t messages(const pst_job *job, uint32_t param) {
    uint32_t most = 0;
    for (uint32_t t = 0; t < job->grid.tensor; t++) {
        uint32_t n = pst_share_count(job->outer[t], param);
        if (n > most) most = n;
    }
    return most;
}

/* The largest number of pieces of a fragment with one owner. */
static uint32_t most_pieces(const pst_job *job) {
    uint32_t most = PST_PIECES_IN_FLIGHT;
    for (uint32_t t = 0; t < job->grid.tensor; t++)
        for (uint32_t k = 0; k < job->outer[t]->n_owner; k++)
            for (uint32_t f = 0; f < job->fragments; f++) {
                const pst_share *s = job->outer[t];
                uint32_t n = 0;
                for (uint32_t p = 0; p < s->n_param; p++)
                    if (job->fragment[p] == f)
                        n += pst_share_messages(s, pst_share_to(s, p, k) - pst_share_from(s, p, k));
                most = n > most ? n : most;
            }
    return most;
}

static uint32_t stage_of(const pst_job_spec *spec, const pst_job *job, uint32_t param) {
    const pst_cut *cut = spec->cut[0];
    return job->rank_of_chunk[cut->use_chunk[cut->use_first[param]]];
}

/* Sums of a tensor rank, for the pieces that have the same fragment, stage and owner. */
typedef struct {
    const pst_job_spec *spec;
    const pst_job *job;
    const pst_share *share;
    uint64_t *total, *before; /* elements, of all pieces and of those so far */
} placing;

static size_t cell(const placing *x, uint32_t param, uint32_t owner) {
    const size_t row =
        (size_t)x->job->fragment[param] * x->job->grid.pipeline + stage_of(x->spec, x->job, param);
    return row * x->share->n_owner + owner;
}

static int is_trained(const pst_job_spec *spec, uint32_t param) {
    const pst_graph *g = spec->cut[0]->graph;
    return g && pst_param_gradients(g->param + param);
}

static void place_messages(const placing *x, double *at) {
    const pst_share *s = x->share;
    for (uint32_t p = 0; p < s->n_param; p++)
        for (uint32_t k = 0; k < s->n_owner && is_trained(x->spec, p); k++)
            x->total[cell(x, p, k)] += pst_share_to(s, p, k) - pst_share_from(s, p, k);
    for (uint32_t p = 0; p < s->n_param; at += messages(x->job, p++)) {
        double *next = at;
        if (!is_trained(x->spec, p)) continue;
        for (pst_piece piece = {.param = p}; pst_share_next(s, &piece); next++) {
            const size_t c = cell(x, p, piece.owner);
            *next = (double)(x->before[c] + piece.n / 2) / (double)x->total[c];
            x->before[c] += piece.n;
        }
    }
}

static pst_status place_all(const pst_job_spec *spec, pst_job *job, uint32_t n_message) {
    pst_status status = PST_OK;
    job->outer_at = calloc(job->grid.tensor, sizeof *job->outer_at);
    if (!job->outer_at) return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    for (uint32_t t = 0; t < job->grid.tensor && status == PST_OK; t++) {
        const size_t cells =
            (size_t)job->fragments * job->grid.pipeline * job->outer[t]->n_owner + 1;
        const placing x = {spec, job, job->outer[t], calloc(cells, sizeof *x.total),
                           calloc(cells, sizeof *x.before)};
        job->outer_at[t] = calloc(n_message + (size_t)1, sizeof **job->outer_at);
        if (job->outer_at[t] && x.total && x.before) place_messages(&x, job->outer_at[t]);
        else status = pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
        free(x.total);
        free(x.before);
    }
    return status;
}

static pst_status take_fragments(const pst_job_spec *spec, pst_job *job) {
    const uint32_t n = job->outer[0]->n_param;
    job->fragments = spec->fragments ? spec->fragments : 1;
    job->delay = spec->delay;
    job->fragment = calloc(n + (size_t)1, sizeof *job->fragment);
    if (!job->fragment) return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    if (spec->fragment) memcpy(job->fragment, spec->fragment, n * sizeof *job->fragment);
    job->outer_sets = most_pieces(job);
    return PST_OK;
}

pst_status pst_outer_share(const pst_job_spec *spec, pst_job *job) {
    uint32_t n = 0;
    job->outer = calloc(job->grid.tensor, sizeof *job->outer);
    if (!job->outer) return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    const pst_share_owners owners = {job->grid.pipeline, job->islands, NULL};
    for (uint32_t t = 0; t < job->grid.tensor; t++) {
        PST_TRY(pst_share_divide(job->share[t], spec->cut[t], job->rank_of_chunk, owners,
                                 job->outer + t));
        if (spec->message) job->outer[t]->message = spec->message;
    }
    for (uint32_t p = 0; p < job->outer[0]->n_param; p++) n += messages(job, p);
    if (n > job->n_seq) job->n_seq = n;
    PST_TRY(take_fragments(spec, job));
    return job->delay ? place_all(spec, job, n) : PST_OK;
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* member, island: of its owner. */
typedef struct {
    pst_piece of;
    uint32_t number, owner_stage, member, island;
    int is_exchanged; /* by this rank: its weights, or as the owner */
    int is_own;       /* this rank takes the outer step */
} piece;

/* State of the current rank. [messages]: the SEND of its weights, or the OUTER of a piece. */
typedef struct {
    uint32_t step, first, *at;
    uint32_t turn, last[PST_PIECES_IN_FLIGHT]; /* of each set of receive buffers, as in builder.h */
    uint32_t recv[PST_PIECES_IN_FLIGHT], n_recv; /* the last RECVs of new weights */
} exchange;

typedef void (*piece_fn)(pst_job_builder *b, const piece *at, exchange *x);

static const pst_share *share_of(const pst_job_builder *b) {
    return b->job->outer[b->lane % b->job->grid.tensor];
}

static uint32_t island_of(const pst_job_builder *b) { return pst_job_island(b->job, b->replica); }

/* The rank of this lane's tensor rank that exchanges the piece for an island. */
static uint32_t rank_of(const pst_job_builder *b, const piece *at, uint32_t island) {
    const uint32_t replica = island * pst_job_group(b->job) + at->member;
    return pst_grid_in_lane(b->job->grid, at->owner_stage,
                            replica * b->job->grid.tensor + b->lane % b->job->grid.tensor);
}

static void each_piece(pst_job_builder *b, piece_fn fn, exchange *x) {
    uint32_t first = 0;
    for (uint32_t p = 0; p < share_of(b)->n_param; first += messages(b->job, p++)) {
        piece at = {.of = {.param = p}, .number = first};
        if (!pst_job_exchanges(b->job, p)) continue;
        for (; b->status == PST_OK && pst_share_next(share_of(b), &at.of); at.number++) {
            at.owner_stage = pst_builder_stage_of_use(b, p, 0);
            at.member = at.of.owner / b->job->islands;
            at.island = at.of.owner % b->job->islands;
            at.is_exchanged = at.owner_stage == b->stage && at.member == b->member;
            at.is_own = at.is_exchanged && at.island == island_of(b);
            fn(b, &at, x);
        }
    }
}

static int packs(const pst_job_builder *b, const piece *at) {
    return pst_job_packs_islands(b->job, b->cut->graph->param + at->of.param);
}

/* A message; packed 1: of a packed difference. */
static uint32_t emit_message(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t peer,
                             uint32_t packed) {
    const uint64_t bytes =
        packed ? pst_codec_bytes(b->job->islands_codec, at->of.n) : at->of.n * sizeof(float);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at->of.param;
    instr.from = (uint32_t)at->of.from;
    instr.n = (uint32_t)at->of.n;
    instr.outer = 1;
    instr.packed = packed;
    instr.peer = peer;
    instr.bytes = bytes;
    instr.channel = b->channel;
    instr.seq = at->number;
    return pst_builder_emit(b, &instr);
}

static uint32_t emit(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t peer) {
    return emit_message(b, opcode, at, peer, 0);
}

static uint32_t emit_outer(pst_job_builder *b, const piece *at, uint32_t kind, uint64_t ns) {
    const uint32_t i = pst_builder_emit_compute(b, PST_OP_OUTER, ns);
    if (b->status != PST_OK) return PST_NONE;
    b->instr[i].param = at->of.param;
    b->instr[i].from = (uint32_t)at->of.from;
    b->instr[i].n = (uint32_t)at->of.n;
    b->instr[i].outer = kind;
    return i;
}

static uint64_t step_ns(const pst_job_builder *b, const piece *at) {
    const uint64_t each = pst_builder_reduce_ns(b, at->of.n);
    const uint64_t unpacked = packs(b, at) ? each * (b->job->islands - 1) : 0;
    return each * (b->job->islands + OWN_STREAMS) / REDUCE_STREAMS + unpacked;
}

/* --- to the owner ----------------------------------------------------------------------------- */

/* The PACK of a difference, in the memory of the weight. */
static uint32_t pack_difference(pst_job_builder *b, const piece *at) {
    const uint64_t ns = pst_builder_pack_ns(b, at->of.n) + pst_builder_reduce_ns(b, at->of.n);
    const uint32_t i = pst_builder_emit_compute(b, PST_OP_PACK, ns);
    if (b->status != PST_OK) return PST_NONE;
    b->instr[i].param = at->of.param;
    b->instr[i].from = (uint32_t)at->of.from;
    b->instr[i].n = (uint32_t)at->of.n;
    b->instr[i].outer = b->instr[i].packed = 1;
    return i;
}

static void send_weights(pst_job_builder *b, const piece *at, exchange *x) {
    uint32_t after = x->step;
    if (!at->is_exchanged) return;
    if (packs(b, at)) after = pack_difference(b, at);
    if (at->is_own || b->status != PST_OK) return;
    x->at[at->number] =
        emit_message(b, PST_OP_SEND, at, rank_of(b, at, at->island), (uint32_t)packs(b, at));
    pst_builder_depend(b, x->at[at->number], after);
}

/* A set has one receive buffer for each other island. */
static void take_step(pst_job_builder *b, const piece *at, exchange *x) {
    const uint32_t n = b->job->islands, set = x->turn % PST_PIECES_IN_FLIGHT,
                   buffer = 1 + set * (n - 1), first = b->n_instr;
    if (!at->is_own) return;
    x->turn++;
    for (uint32_t k = 0, other = 0; k < n && b->status == PST_OK; k++) {
        if (k == island_of(b)) continue;
        uint32_t recv = emit_message(b, PST_OP_RECV, at, rank_of(b, at, k), (uint32_t)packs(b, at));
        if (b->status != PST_OK) return;
        b->instr[recv].buffer = buffer + other++;
        if (x->last[set] != PST_NONE) pst_builder_depend(b, recv, x->last[set]);
    }
    uint32_t outer = emit_outer(b, at, 0, step_ns(b, at));
    if (b->status != PST_OK) return;
    b->instr[outer].buffer = buffer;
    b->instr[outer].packed = (uint32_t)packs(b, at);
    for (uint32_t i = first; i < outer; i++) pst_builder_depend(b, outer, i);
    x->last[set] = x->at[at->number] = outer;
}

/* --- from the owner --------------------------------------------------------------------------- */

/* To the other islands, the next one first, so that all links are busy. */
static void send_new(pst_job_builder *b, const piece *at, exchange *x) {
    const uint32_t n = b->job->islands;
    for (uint32_t k = 1; k < n && at->is_own && b->status == PST_OK; k++)
        pst_builder_depend(b, emit(b, PST_OP_SEND, at, rank_of(b, at, (island_of(b) + k) % n)),
                           x->at[at->number]);
}

/* To the lanes of a replica of the same island. */
static void forward_to(pst_job_builder *b, const piece *at, uint32_t stage, uint32_t replica,
                       uint32_t after) {
    const pst_grid grid = b->job->grid;
    const uint32_t tensor = b->lane % grid.tensor;
    uint32_t lane = pst_grid_receiver(grid, stage, replica * grid.tensor + tensor);
    for (; lane != PST_GRID_NO_LANE && b->status == PST_OK;
         lane = pst_builder_next_receiver(b, stage, lane)) {
        uint32_t to = pst_grid_in_lane(grid, stage, lane);
        if (to != b->rank) pst_builder_depend(b, emit(b, PST_OP_SEND, at, to), after);
    }
}

/* With zero 1 the head of the next list does this. */
static void forward(pst_job_builder *b, const piece *at, exchange *x) {
    const uint32_t n = pst_job_group(b->job);
    if (b->job->zero || !at->is_exchanged) return;
    for (uint32_t stage = 0; stage < b->job->grid.pipeline; stage++)
        for (uint32_t k = 1; k <= n && pst_builder_holds(b, at->of.param, stage); k++)
            forward_to(b, at, stage, pst_job_peer(b->job, b->replica, (b->member + k) % n),
                       x->at[at->number]);
}

/* What this rank has sent is not overwritten before; a few RECVs at a time, so that messages in
 * the other direction get their share of a link. */
static void receive_new(pst_job_builder *b, const piece *at, exchange *x) {
    const int leads = at->is_exchanged;
    if (at->is_own || (!leads && (b->job->zero || !pst_builder_holds(b, at->of.param, b->stage))))
        return;
    uint32_t recv = emit(b, PST_OP_RECV, at, rank_of(b, at, leads ? at->island : island_of(b))),
             *before = x->recv + x->n_recv++ % PST_PIECES_IN_FLIGHT;
    pst_builder_depend(b, recv, leads ? x->at[at->number] : x->step);
    if (*before != PST_NONE) pst_builder_depend(b, recv, *before);
    *before = x->at[at->number] = recv;
}

static void end_list(pst_job_builder *b, uint32_t first) {
    uint32_t end = pst_builder_emit_compute(b, PST_OP_OUTER, 0);
    for (uint32_t i = first; i < end && b->status == PST_OK; i++)
        if (b->instr[i].opcode == PST_OP_RECV) pst_builder_depend(b, end, i);
}

/* At the end of one list. */
static void exchange_now(pst_job_builder *b, exchange *x) {
    each_piece(b, send_weights, x);
    each_piece(b, take_step, x);
    const uint32_t first = b->n_instr;
    each_piece(b, send_new, x);
    each_piece(b, receive_new, x);
    each_piece(b, forward, x);
    end_list(b, first);
}

/* --- with a delay ----------------------------------------------------------------------------- */

static uint32_t turn_to(const pst_job_builder *b, const piece *at) {
    return pst_job_turn_to(b->job, b->lane % b->job->grid.tensor, at->number);
}

static uint32_t turn_from(const pst_job_builder *b, const piece *at) {
    return pst_job_turn_from(b->job, b->lane % b->job->grid.tensor, at->number);
}

/* A message of kept weights, in the queue of the head. */
static uint32_t emit_kept(pst_job_builder *b, uint8_t opcode, const piece *at, uint32_t peer) {
    const uint32_t i = emit(b, opcode, at, peer);
    if (b->status != PST_OK) return PST_NONE;
    b->instr[i].queue = PST_Q_HEAD;
    b->instr[i].outer = PST_OUTER_KEPT;
    return i;
}

static void keep(pst_job_builder *b, const piece *at, exchange *x) {
    (void)x;
    if (at->is_exchanged) emit_outer(b, at, PST_OUTER_KEEP, pst_builder_reduce_ns(b, at->of.n));
}

static void send_kept(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_exchanged || at->is_own || turn_to(b, at) != b->job->turn) return;
    x->at[at->number] = emit_kept(b, PST_OP_SEND, at, rank_of(b, at, at->island));
}

/* The buffers of a piece: one set for each of this rank's pieces of the exchange. */
static uint32_t first_buffer(const pst_job_builder *b, exchange *x) {
    return 1 + x->turn++ * (b->job->islands - 1);
}

static void receive_kept(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_own) return;
    const uint32_t buffer = first_buffer(b, x);
    if (turn_to(b, at) != b->job->turn) return;
    for (uint32_t k = 0, other = 0; k < b->job->islands && b->status == PST_OK; k++) {
        if (k == island_of(b)) continue;
        const uint32_t recv = emit_kept(b, PST_OP_RECV, at, rank_of(b, at, k));
        if (b->status != PST_OK) return;
        b->instr[recv].buffer = buffer + other++;
    }
}

/* After all RECVs of the list; those of earlier turns have ended. */
static void step_kept(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_own || pst_job_outer_turn(b->job) != b->job->turn) return;
    const uint32_t buffer = first_buffer(b, x), outer = emit_outer(b, at, 0, step_ns(b, at));
    if (b->status != PST_OK) return;
    b->instr[outer].buffer = buffer;
    for (uint32_t i = x->first; i < outer; i++) {
        const pst_instr *in = b->instr + i;
        if (in->opcode == PST_OP_RECV && in->param == at->of.param && in->from == at->of.from)
            pst_builder_depend(b, outer, i);
    }
    x->at[at->number] = outer;
}

static void send_result(pst_job_builder *b, const piece *at, exchange *x) {
    const uint32_t n = b->job->islands;
    if (!at->is_own || turn_from(b, at) != b->job->turn) return;
    for (uint32_t k = 1; k < n && b->status == PST_OK; k++) {
        const uint32_t send = emit_kept(b, PST_OP_SEND, at, rank_of(b, at, (island_of(b) + k) % n));
        if (x->at[at->number] != PST_NONE) pst_builder_depend(b, send, x->at[at->number]);
    }
}

static void receive_result(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_exchanged || at->is_own || turn_from(b, at) != b->job->turn) return;
    const uint32_t recv = emit_kept(b, PST_OP_RECV, at, rank_of(b, at, at->island));
    if (x->at[at->number] != PST_NONE) pst_builder_depend(b, recv, x->at[at->number]);
    x->at[at->number] = recv;
}

/* At the owner after its result, which is there by then. */
static void apply(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_exchanged) return;
    const uint32_t i = emit_outer(b, at, PST_OUTER_APPLY, pst_builder_reduce_ns(b, at->of.n));
    if (x->at[at->number] != PST_NONE) pst_builder_depend(b, i, x->at[at->number]);
    x->at[at->number] = i;
}

static void receive_applied(pst_job_builder *b, const piece *at, exchange *x) {
    if (!at->is_exchanged) receive_new(b, at, x);
}

/* Messages of the next turns do not wait for those of this one: the list ends when all have. */
static void exchange_turn(pst_job_builder *b, exchange *x) {
    const uint32_t turn = b->job->turn;
    x->first = b->n_instr;
    if (!turn) each_piece(b, keep, x);
    else if (turn <= pst_job_outer_turn(b->job)) {
        each_piece(b, send_kept, x);
        each_piece(b, receive_kept, x);
        x->turn = 0;
        each_piece(b, step_kept, x);
    }
    if (turn >= pst_job_outer_turn(b->job)) {
        each_piece(b, send_result, x);
        each_piece(b, receive_result, x);
    }
    if (turn == b->job->delay) {
        each_piece(b, apply, x);
        each_piece(b, receive_applied, x);
        each_piece(b, forward, x);
    }
    end_list(b, x->first);
}

void pst_builder_outer(pst_job_builder *b, uint32_t step) {
    exchange x = {.step = step};
    if (!b->cut->graph || b->status != PST_OK) return;
    x.at = malloc((b->job->n_seq + (size_t)1) * sizeof *x.at);
    if (!x.at) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the outer step of rank %u", b->rank);
        return;
    }
    for (uint32_t i = 0; i < b->job->n_seq; i++) x.at[i] = PST_NONE;
    for (uint32_t i = 0; i < PST_PIECES_IN_FLIGHT; i++) x.last[i] = x.recv[i] = PST_NONE;
    (b->job->syncs == PST_SYNC_TURN ? exchange_turn : exchange_now)(b, &x);
    b->channel++;
    free(x.at);
}
