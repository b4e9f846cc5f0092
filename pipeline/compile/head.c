/* The head of a list, if replicas shard the optimizer step (job.zero): updated weights from other
 * ranks arrive before the passes that read them, piece by piece in the order in which chunks need
 * them, alternating between owners. SENDs are posted at once; RECVs up to a window of bytes, which
 * keeps a link busy and still leaves gaps for messages in the other direction. Changes of weights
 * (job.down) are sent the same way, but in the flush.
 *
 * With a two-level exchange (job.near) a relay sends on what it has received. Pieces come in rounds
 * of one from each owner. What comes from owners is received ahead; some bytes later in the list a
 * relay sends on what a round has brought, and then receives what other relays send on. A relay
 * waits for owners, and for earlier rounds of other relays only, so waits cannot form a cycle. */
#include "pipeline/compile/head.h"
#include <stdlib.h>

enum { WINDOW = 4 << 20, AHEAD = 2 << 20 }; /* bytes */

typedef struct {
    uint32_t first, param; /* chunk of the first use */
} place;

static int by_chunk(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->param > y->param) - (x->param < y->param);
}

static uint32_t order_params(const pst_job_builder *b, place *order) {
    const pst_graph *g = b->cut->graph;
    uint32_t n = 0;
    for (uint32_t p = 0; p < g->n_param; p++) {
        if (!pst_param_gradients(&g->param[p])) continue;
        const uint32_t *chunk = b->cut->use_chunk + b->cut->use_first[p];
        order[n] = (place){chunk[0], p};
        for (uint32_t u = 1; u < pst_param_gradients(&g->param[p]); u++)
            if (chunk[u] < order[n].first) order[n].first = chunk[u];
        n++;
    }
    qsort(order, n, sizeof *order, by_chunk);
    return n;
}

/* Whether the weight is sent in the flush. */
static int is_change(const pst_job_builder *b, uint32_t param) {
    return pst_job_sends_changes(b->job, pst_builder_stage_of_use(b, param, 0),
                                 &b->cut->graph->param[param]);
}

/* number: the seq of its messages. Returns the message. */
static uint32_t emit(pst_job_builder *b, uint8_t opcode, const pst_piece *at, uint32_t number,
                     uint32_t peer) {
    const int change = is_change(b, at->param);
    const uint64_t bytes = change ? pst_job_change_bytes(b->job, at->n)
                                  : at->n * pst_dtype_bytes(b->cut->graph->dtype);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at->param;
    instr.from = (uint32_t)at->from;
    instr.n = (uint32_t)at->n;
    instr.packed = change && !b->job->plain;
    instr.peer = peer;
    instr.bytes = bytes;
    instr.channel = b->channel;
    instr.seq = number;
    uint32_t i = pst_builder_emit(b, &instr);
    if (change && b->status == PST_OK)
        b->instr[i].queue = opcode == PST_OP_SEND ? PST_Q_SEND : PST_Q_RECV;
    return i;
}

/* PACK or UNPACK of a change. */
static uint32_t emit_codec(pst_job_builder *b, uint8_t opcode, const pst_piece *at, uint64_t ns) {
    uint32_t i = pst_builder_emit_compute(b, opcode, ns);
    if (b->status != PST_OK) return PST_NONE;
    pst_instr *in = b->instr + i;
    in->param = at->param;
    in->from = (uint32_t)at->from;
    in->n = (uint32_t)at->n;
    in->packed = !b->job->plain;
    return i;
}

/* The owner's PACK also unpacks. */
static uint32_t emit_pack(pst_job_builder *b, const pst_piece *at) {
    const uint64_t add = pst_builder_reduce_ns(b, at->n);
    return emit_codec(b, PST_OP_PACK, at,
                      b->job->plain ? add : pst_builder_pack_ns(b, at->n) + add);
}

/* From its owner to a replica of the island, on every stage with a use of the parameter, after
 * `pack` (PST_NONE: no need to wait); nothing if `member` is a server. */
static void send_to(pst_job_builder *b, const pst_piece *at, uint32_t number, uint32_t member,
                    uint32_t pack) {
    const pst_grid grid = b->job->grid;
    uint32_t n_use = pst_param_gradients(&b->cut->graph->param[at->param]),
             tensor = b->lane % grid.tensor;
    if (member >= pst_job_group(b->job)) return;
    if (pst_job_via(b->job, member, at->owner) != at->owner) return;
    for (uint32_t u = 0; u < n_use; u++) {
        uint32_t stage = pst_builder_stage_of_use(b, at->param, u);
        if (pst_builder_first_use(b, at->param, stage) != u) continue;
        uint32_t lane = pst_grid_receiver(
            grid, stage, pst_job_peer(b->job, b->replica, member) * grid.tensor + tensor);
        for (; lane != PST_GRID_NO_LANE; lane = pst_builder_next_receiver(b, stage, lane)) {
            uint32_t rank = pst_grid_in_lane(grid, stage, lane);
            if (rank == b->rank || b->status != PST_OK) continue;
            uint32_t send = emit(b, PST_OP_SEND, at, number, rank);
            if (pack != PST_NONE) pst_builder_depend(b, send, pack);
        }
    }
}

static uint32_t owner_rank(const pst_job_builder *b, const pst_piece *at) {
    const pst_grid grid = b->job->grid;
    return pst_grid_in_lane(grid, pst_builder_stage_of_use(b, at->param, 0),
                            pst_job_peer(b->job, b->replica, at->owner) * grid.tensor +
                                b->lane % grid.tensor);
}

/* The nth piece of its owner's part; 0: there are fewer. */
static int find_piece(const pst_share *s, uint32_t nth, pst_piece *at) {
    uint64_t to = pst_share_to(s, at->param, at->owner);
    at->from = pst_share_from(s, at->param, at->owner) + nth * s->message;
    at->n = to > at->from ? to - at->from : 0;
    if (at->n > s->message) at->n = s->message;
    return at->n > 0;
}

/* All pieces of a parameter, in rounds of one from each owner: replica k receives from owner k + 1
 * first, then from k + 2, ..., so that all links are busy all the time. before: [owners] number of
 * pieces of the owners before each. */
static void emit_param(pst_job_builder *b, uint8_t opcode, uint32_t param, uint32_t first,
                       const uint32_t *before) {
    const uint32_t d = pst_job_owners(b->job);
    uint32_t pack = PST_NONE;
    const int has = !b->serves && pst_builder_holds(b, param, b->stage);
    for (uint32_t nth = 0, any = 1; any && b->status == PST_OK; nth++) {
        any = 0;
        for (uint32_t t = 1; t <= d; t++) {
            pst_piece at = {.param = param,
                            .owner = opcode == PST_OP_SEND ? b->member : (b->member + t) % d};
            if (!find_piece(b->share, nth, &at)) continue;
            const uint32_t number = first + before[at.owner] + nth, owner = owner_rank(b, &at);
            any = 1;
            if (opcode == PST_OP_SEND && owner == b->rank) {
                if (t == 1 && is_change(b, param)) pack = emit_pack(b, &at);
                send_to(b, &at, number, (b->member + d - t % d) % d, pack);
            }
            if (opcode == PST_OP_RECV && owner != b->rank && has)
                emit(b, opcode, &at, number, owner);
        }
    }
}

/* before: [owners] number of pieces of the parameter that owners before each have. */
static void count_before(const pst_job_builder *b, uint32_t param, uint32_t *before) {
    for (uint32_t k = 0, all = 0; k < pst_job_owners(b->job); k++) {
        before[k] = all;
        all += pst_share_messages(b->share, pst_share_to(b->share, param, k) -
                                                pst_share_from(b->share, param, k));
    }
}

/* Of the parameters whose changes are sent, or of the others. */
static void emit_pieces(pst_job_builder *b, uint8_t opcode, const place *order, uint32_t n,
                        int changes) {
    const uint32_t owners = pst_job_owners(b->job);
    uint32_t *before = malloc(owners * sizeof *before);
    if (!before)
        b->status = pst_fail(PST_ENOMEM, "no memory for the weight messages of rank %u", b->rank);
    for (uint32_t i = 0, first = 0; i < n && b->status == PST_OK;
         first += b->job->pieces[order[i++].param]) {
        const uint32_t param = order[i].param;
        count_before(b, param, before);
        if (is_change(b, param) == changes) emit_param(b, opcode, param, first, before);
    }
    free(before);
}

/* RECVs from `first` on: one that does not fit into the window waits for the oldest one in it.
 * With a two-level exchange those from other hosts have a window (apart 1), and the others. */
static int is_in_window(const pst_job_builder *b, const pst_instr *in, int apart) {
    const uint32_t peer = pst_job_member(b->job, pst_grid_at(b->job->grid, in->peer).replica);
    const int is_apart = b->job->near > 1 && peer / b->job->near != b->member / b->job->near;
    return in->opcode == PST_OP_RECV && is_apart == apart;
}

static void set_window(pst_job_builder *b, uint32_t first, int apart) {
    uint64_t in_flight = 0;
    for (uint32_t i = first, oldest = first; i < b->n_instr && b->status == PST_OK; i++) {
        pst_instr *in = b->instr + i;
        if (!is_in_window(b, in, apart)) continue;
        for (; oldest < i && in_flight + in->bytes > WINDOW; oldest++) {
            if (!is_in_window(b, b->instr + oldest, apart)) continue;
            pst_builder_depend(b, i, oldest);
            in_flight -= b->instr[oldest].bytes;
        }
        in_flight += in->bytes;
    }
}

/* --- a two-level exchange --------------------------------------------------------------------- */

/* A round of RECVs: the nth piece of each owner's part of the parameter order[i]. */
typedef struct {
    const place *order;
    uint32_t n, i, nth, first; /* first: number of the parameter's first piece */
    uint32_t *before, counted; /* before: see count_before, of order[counted] */
    uint32_t n_past;           /* number of rounds so far, and their bytes, of all owners */
    uint64_t bytes;
} rounds;

/* Whether there is a round; skips parameters that this rank receives nothing of. */
static int is_open(pst_job_builder *b, rounds *r) {
    const pst_share *s = b->share;
    for (; r->i < r->n; r->first += b->job->pieces[r->order[r->i++].param], r->nth = 0) {
        const uint32_t param = r->order[r->i].param;
        if (r->counted != r->i) count_before(b, param, r->before);
        r->counted = r->i;
        for (uint32_t k = 0; k < s->n_owner && pst_builder_holds(b, param, b->stage); k++)
            if (pst_share_from(s, param, k) + r->nth * s->message < pst_share_to(s, param, k))
                return 1;
    }
    return 0;
}

/* Where this rank receives a piece from: its owner, or a relay of its own stage. */
static uint32_t source_of(const pst_job_builder *b, const pst_piece *at) {
    const uint32_t tensor = b->job->grid.tensor, via = pst_job_via(b->job, b->member, at->owner);
    if (via == at->owner) return owner_rank(b, at);
    return pst_grid_in_lane(b->job->grid, b->stage,
                            pst_job_peer(b->job, b->replica, via) * tensor + b->lane % tensor);
}

/* What a round does: receive from owners, send on as a relay, receive from relays. */
typedef enum { FROM_OWNERS, SEND_ON, FROM_RELAYS } action;

/* recv: [pieces] the RECVs by number, kept for SEND_ON. */
static void act(pst_job_builder *b, const pst_piece *at, uint32_t number, action what,
                uint32_t *recv) {
    const uint32_t near = b->job->near, block = b->member / near * near;
    const int direct = pst_job_via(b->job, b->member, at->owner) == at->owner;
    if (what != SEND_ON && direct == (what == FROM_OWNERS))
        recv[number] = emit(b, PST_OP_RECV, at, number, source_of(b, at));
    if (what != SEND_ON || !pst_job_relays(b->job, b->member, at->owner)) return;
    for (uint32_t k = block; k < block + near && b->status == PST_OK; k++) {
        const uint32_t lane = pst_job_peer(b->job, b->replica, k) * b->job->grid.tensor +
                              b->lane % b->job->grid.tensor;
        if (k == b->member) continue;
        pst_builder_depend(
            b, emit(b, PST_OP_SEND, at, number, pst_grid_in_lane(b->job->grid, b->stage, lane)),
            recv[number]);
    }
}

static void emit_round(pst_job_builder *b, rounds *r, action what, uint32_t *recv) {
    for (uint32_t t = 1; t <= b->share->n_owner && b->status == PST_OK; t++) {
        pst_piece at = {.param = r->order[r->i].param,
                        .owner = (b->member + t) % b->share->n_owner};
        if (!find_piece(b->share, r->nth, &at) || owner_rank(b, &at) == b->rank) continue;
        act(b, &at, r->first + r->before[at.owner] + r->nth, what, recv);
        if (what != SEND_ON) r->bytes += at.n * pst_dtype_bytes(b->cut->graph->dtype);
    }
    if (what == SEND_ON) return;
    r->nth++;
    r->n_past++;
}

static int may_go_ahead(const rounds *ahead, const rounds *behind) {
    return ahead->n_past < behind->n_past + 2 || ahead->bytes < behind->bytes + AHEAD;
}

static void emit_rounds(pst_job_builder *b, rounds *ahead, rounds *behind, uint32_t *recv) {
    while (b->status == PST_OK && is_open(b, behind)) {
        if (is_open(b, ahead) && may_go_ahead(ahead, behind)) {
            emit_round(b, ahead, FROM_OWNERS, recv);
            continue;
        }
        emit_round(b, behind, SEND_ON, recv);
        emit_round(b, behind, FROM_RELAYS, recv);
    }
}

static void receive_two_level(pst_job_builder *b, const place *order, uint32_t n) {
    const uint32_t owners = b->share->n_owner, first = b->n_instr;
    rounds ahead = {.order = order, .n = n, .counted = PST_NONE}, behind = ahead;
    uint32_t *recv = malloc((b->n_piece + (size_t)1) * sizeof *recv);
    ahead.before = malloc(owners * sizeof *ahead.before);
    behind.before = malloc(owners * sizeof *behind.before);
    if (recv && ahead.before && behind.before) emit_rounds(b, &ahead, &behind, recv);
    else b->status = pst_fail(PST_ENOMEM, "no memory for the weight messages of rank %u", b->rank);
    set_window(b, first, 0);
    set_window(b, first, 1);
    free(recv);
    free(ahead.before);
    free(behind.before);
}

/* --- the head --------------------------------------------------------------------------------- */

void pst_builder_head(pst_job_builder *b) {
    const pst_graph *g = b->cut->graph;
    if (!g) return;
    place *order = malloc((g->n_param + (size_t)1) * sizeof *order);
    if (!order) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the weight messages of rank %u", b->rank);
        return;
    }
    uint32_t n = order_params(b, order);
    /* the flush uses the channel before for gradients, this one for sums */
    b->channel = b->cut->n_channel + 1;
    emit_pieces(b, PST_OP_SEND, order, n, 0);
    uint32_t first = b->n_instr;
    if (b->job->near > 1) receive_two_level(b, order, n);
    else {
        emit_pieces(b, PST_OP_RECV, order, n, 0);
        set_window(b, first, 0);
    }
    b->n_head = b->n_instr;
    free(order);
}

/* RECVs [first, end): after STEP, which comes after all that reads the weights; then an UNPACK of
 * each. */
static void take_changes(pst_job_builder *b, uint32_t first, uint32_t end, uint32_t step) {
    for (uint32_t i = first; i < end && b->status == PST_OK; i++) {
        const pst_instr in = b->instr[i];
        const pst_piece at = {.param = in.param, .from = in.from, .n = in.n};
        pst_builder_depend(b, i, step);
        if (b->job->plain) continue;
        uint32_t unpack = emit_codec(b, PST_OP_UNPACK, &at, pst_builder_reduce_ns(b, at.n));
        if (b->status == PST_OK) pst_builder_depend(b, unpack, i);
    }
}

void pst_builder_changes(pst_job_builder *b, uint32_t step) {
    const pst_graph *g = b->cut->graph;
    const uint32_t channel = b->channel;
    place *order = malloc((g->n_param + (size_t)1) * sizeof *order);
    if (!order) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the weight messages of rank %u", b->rank);
        return;
    }
    uint32_t n = order_params(b, order);
    b->channel = b->cut->n_channel + 1; /* that of the head */
    emit_pieces(b, PST_OP_SEND, order, n, 1);
    uint32_t first = b->n_instr;
    emit_pieces(b, PST_OP_RECV, order, n, 1);
    uint32_t end = b->n_instr;
    set_window(b, first, 0);
    take_changes(b, first, end, step);
    b->channel = channel;
    free(order);
}

void pst_builder_await_head(pst_job_builder *b) {
    /* first pass of each chunk */
    uint32_t *first = b->n_head ? malloc(b->cut->n_chunk * sizeof *first) : NULL;
    if (b->n_head && !first)
        b->status = pst_fail(PST_ENOMEM, "no memory for the weight messages of rank %u", b->rank);
    for (uint32_t c = 0; first && c < b->cut->n_chunk; c++) first[c] = PST_NONE;
    for (uint32_t i = b->n_instr; first && i-- > b->n_head;)
        if (b->instr[i].opcode <= PST_OP_BW) first[b->instr[i].chunk] = i;
    for (uint32_t i = 0; i < b->n_head && b->status == PST_OK; i++) {
        uint32_t p = b->instr[i].param;
        for (uint32_t u = 0;
             b->instr[i].opcode == PST_OP_RECV && u < pst_param_gradients(&b->cut->graph->param[p]);
             u++) {
            uint32_t chunk = b->cut->use_chunk[b->cut->use_first[p] + u];
            if (first[chunk] != PST_NONE) pst_builder_depend(b, first[chunk], i);
        }
    }
    free(first);
}
