/* Checks the outer step of islands (compile/outer.h) at the end of a list: the owner of a piece
 * gets the weights of every other island once, when their STEP has ended, takes the outer step when
 * all are there, and sends the result once to every other island, where it replaces what was sent
 * before. zero 0: all other ranks with the parameter get it once, from the rank of their island
 * that has it. Lists without an outer step have none of these instructions.
 *
 * A list that has a turn of an exchange with a delay has what the turn has: weights are kept in
 * turn 0; kept weights are sent, and results, in the turns of their numbers; the owner steps when
 * all are there; the result is applied in the last turn, and sent on inside the island. */
#include "pipeline/check/flush.h"
#include "pipeline/check/order.h"
#include <stdlib.h>
#include <string.h>

/* The current rank. */
typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    const pst_share *share;
    pst_grid_place at;
    uint32_t rank, island, step, end; /* end: the last OUTER */
    uint32_t owned;                   /* pieces of which this rank has taken the step so far */
    uint32_t *base;                   /* [n_param] number of a parameter's first piece */
    /* instructions of a piece, in list order: [pieces], [n_instr] */
    uint32_t *head, *next;
} outer;

static pst_status fail(const outer *x, uint32_t param, uint64_t from, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u: outer step of parameter %u from element %llu: %s",
                    x->rank, param, (unsigned long long)from, why);
}

static int is_outer(const pst_instr *in) { return in->outer || in->opcode == PST_OP_OUTER; }

/* The rank that exchanges the piece for an island. */
static uint32_t rank_of(const outer *x, const pst_piece *p, uint32_t island) {
    const pst_job *job = x->c->job;
    const uint32_t replica = island * pst_job_group(job) + p->owner / job->islands;
    return pst_grid_in_lane(job->grid, pst_checker_stage_of_use(x->c, p->param, 0),
                            replica * job->grid.tensor + x->at.tensor);
}

/* --- the list --------------------------------------------------------------------------------- */

/* Every instruction names a piece; the last one ends the list. Chains are made from the end. */
static pst_status list_pieces(outer *x) {
    const pst_graph *g = x->c->cut->graph;
    for (uint32_t i = x->list->n_instr; i-- > 0;) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode == PST_OP_STEP) x->step = i;
        if (!is_outer(in)) continue;
        if (in->opcode == PST_OP_OUTER && in->param == PST_NONE) {
            if (x->end != PST_NONE) return fail(x, 0, 0, "the end of the outer step occurs twice");
            x->end = i;
            continue;
        }
        pst_piece whole = {.param = in->param, .from = in->from};
        if (!pst_instr_is_flush(x->list, i) || in->param >= g->n_param || in->use != PST_NONE ||
            !pst_share_find(x->share, &whole) || in->n != whole.n)
            return fail(x, in->param, in->from, "the elements are not exactly one shard");
        if (x->end == PST_NONE || x->step != PST_NONE)
            return fail(x, in->param, in->from, "an instruction before STEP or behind the end");
        uint32_t k = x->base[in->param] + in->from / PST_PIECE;
        x->next[i] = x->head[k];
        x->head[k] = i;
    }
    return x->end == PST_NONE || x->step == PST_NONE
               ? fail(x, 0, 0, "STEP or the end of the outer step is missing")
               : PST_OK;
}

/* Receive buffers in list order: a RECV waits for the OUTER that has read the buffer. */
static pst_status check_buffers(const outer *x) {
    const uint32_t n = pst_job_outer_buffers(x->c->job), others = x->c->job->islands - 1;
    uint32_t *read = malloc((n + (size_t)1) * sizeof *read);
    pst_status status =
        read ? PST_OK
             : pst_fail(PST_ENOMEM, "no memory to check the outer step of rank %u", x->rank);
    if (read) memset(read, 0xff, (n + (size_t)1) * sizeof *read);
    for (uint32_t i = x->step; status == PST_OK && i < x->end; i++) {
        const pst_instr *in = &x->list->instr[i];
        if (!is_outer(in) || !in->buffer) continue;
        const uint32_t first = in->buffer - 1, used = in->opcode == PST_OP_OUTER ? others : 1;
        if (first + used > n) status = fail(x, in->param, in->from, "unknown receive buffer");
        else if (used == 1 && in->opcode == PST_OP_RECV && read[first] != PST_NONE)
            status = pst_checker_need(x->c, x->rank, read[first], i);
        for (uint32_t k = 0; status == PST_OK && k < used && in->opcode == PST_OP_OUTER; k++)
            read[first + k] = i;
    }
    free(read);
    return status;
}

/* --- one piece -------------------------------------------------------------------------------- */

static uint32_t packs(const outer *x, uint32_t param) {
    return (uint32_t)pst_job_packs_islands(x->c->job, x->c->cut->graph->param + param);
}

/* Whether a message is as long as weights or, `packed` 1, as a packed difference. */
static int has_size(const outer *x, const pst_instr *in, uint32_t packed) {
    const uint64_t bytes =
        packed ? pst_codec_bytes(x->c->job->islands_codec, in->n) : in->n * sizeof(float);
    return in->packed == packed && in->bytes == bytes;
}

/* A PACK of the difference of this island, behind STEP. */
static pst_status check_pack(const outer *x, const pst_piece *p, uint32_t pack) {
    const pst_instr *in = &x->list->instr[pack];
    if (!packs(x, p->param) || !in->packed || in->buffer)
        return fail(x, p->param, p->from, "a PACK of something else");
    return pst_checker_need(x->c, x->rank, x->step, pack);
}

/* A RECV of another island's weights, at the owner; `outer` reads its buffers in the order of
 * islands. */
static pst_status check_received(const outer *x, const pst_piece *p, uint32_t recv, uint32_t step) {
    const pst_instr *in = &x->list->instr[recv], *reads = &x->list->instr[step];
    const uint32_t island =
        pst_job_island(x->c->job, pst_grid_at(x->c->job->grid, in->peer).replica);
    if (!in->buffer || in->peer != rank_of(x, p, island) ||
        in->buffer != reads->buffer + island - (island > x->island) ||
        !has_size(x, in, packs(x, p->param)))
        return fail(x, p->param, p->from, "the weights of an island are read from another buffer");
    return pst_checker_need(x->c, x->rank, recv, step);
}

static uint32_t find(const outer *x, uint32_t first, uint8_t opcode) {
    while (first != PST_NONE && x->list->instr[first].opcode != opcode) first = x->next[first];
    return first;
}

/* The number of ranks of this island that this one sends the result on to. */
static uint32_t receivers(const outer *x, uint32_t param) {
    const pst_grid grid = x->c->job->grid;
    const uint32_t own = pst_grid_degree(grid, x->at.stage);
    uint32_t n = 0;
    if (x->c->job->zero) return 0;
    for (uint32_t s = 0; s < grid.pipeline; s++) {
        const uint32_t degree = pst_grid_degree(grid, s);
        if (pst_checker_holds(x->c, param, s) && x->at.tensor < degree)
            n += pst_job_group(x->c->job) * ((degree - x->at.tensor - 1) / own + 1);
    }
    return n - 1;
}

/* Whether `rank` gets the result from this rank, which has it before its island. */
static int is_receiver(const outer *x, const pst_piece *p, uint32_t rank) {
    const pst_job *job = x->c->job;
    const pst_grid_place to = pst_grid_at(job->grid, rank);
    const uint32_t island = pst_job_island(job, to.replica);
    if (island != x->island)
        return x->island == p->owner % job->islands && rank == rank_of(x, p, island);
    return !job->zero && rank != x->rank && pst_checker_holds(x->c, p->param, to.stage) &&
           to.tensor % pst_grid_degree(job->grid, x->at.stage) == x->at.tensor;
}

/* No two messages of one kind with one rank; messages: nothing else is counted. */
static pst_status check_once(const outer *x, const pst_piece *p, uint32_t first, int messages) {
    for (uint32_t i = first; i != PST_NONE; i = x->next[i])
        for (uint32_t k = first; k != i; k = x->next[k])
            if ((!messages || x->list->instr[k].opcode != PST_OP_OUTER) &&
                x->list->instr[k].opcode == x->list->instr[i].opcode &&
                x->list->instr[k].peer == x->list->instr[i].peer)
                return fail(x, p->param, p->from, "two messages with one rank");
    return PST_OK;
}

static pst_status check_owner(const outer *x, const pst_piece *p, uint32_t first) {
    const uint32_t step = find(x, first, PST_OP_OUTER), others = x->c->job->islands - 1;
    uint32_t n_recv = 0, n_send = 0, n_pack = 0;
    if (step == PST_NONE || find(x, x->next[step], PST_OP_OUTER) != PST_NONE)
        return fail(x, p->param, p->from, "expected exactly one OUTER");
    if (x->list->instr[step].outer || x->list->instr[step].packed != packs(x, p->param))
        return fail(x, p->param, p->from, "OUTER of another kind");
    PST_TRY(check_once(x, p, first, 0));
    for (uint32_t i = first; i != PST_NONE; i = x->next[i]) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode == PST_OP_RECV) {
            PST_TRY(check_received(x, p, i, step));
            n_recv++;
        } else if (in->opcode == PST_OP_PACK) {
            PST_TRY(check_pack(x, p, i));
            PST_TRY(pst_checker_need(x->c, x->rank, i, step));
            n_pack++;
        } else if (in->opcode == PST_OP_SEND) {
            if (!is_receiver(x, p, in->peer) || !has_size(x, in, 0))
                return fail(x, p->param, p->from, "new weights are sent to the wrong rank");
            PST_TRY(pst_checker_need(x->c, x->rank, step, i));
            n_send++;
        }
    }
    if (n_pack != packs(x, p->param))
        return fail(x, p->param, p->from, "the owner's own difference is not packed, or twice");
    return n_recv == others && n_send == others + receivers(x, p->param)
               ? PST_OK
               : fail(x, p->param, p->from, "the weights of an island, or a receiver, is missing");
}

/* Sends weights to the owner, receives the result, and sends it on. */
static pst_status check_leader(const outer *x, const pst_piece *p, uint32_t first) {
    const uint32_t owner = rank_of(x, p, p->owner % x->c->job->islands),
                   send = find(x, first, PST_OP_SEND), recv = find(x, first, PST_OP_RECV),
                   pack = find(x, first, PST_OP_PACK);
    uint32_t n = 0;
    if (send == PST_NONE || recv == PST_NONE || find(x, first, PST_OP_OUTER) != PST_NONE)
        return fail(x, p->param, p->from, "a message is missing, or an OUTER unexpected");
    if (x->list->instr[send].peer != owner ||
        !has_size(x, &x->list->instr[send], packs(x, p->param)))
        return fail(x, p->param, p->from, "weights are sent to the wrong rank, or not packed");
    if ((pack != PST_NONE) != packs(x, p->param))
        return fail(x, p->param, p->from, "a PACK is missing or unexpected");
    if (!has_size(x, &x->list->instr[recv], 0))
        return fail(x, p->param, p->from, "new weights have another size");
    if (pack != PST_NONE) {
        PST_TRY(check_pack(x, p, pack));
        PST_TRY(pst_checker_need(x->c, x->rank, pack, send));
    }
    if (x->list->instr[recv].peer != owner || x->list->instr[recv].buffer)
        return fail(x, p->param, p->from, "new weights are received from the wrong rank");
    PST_TRY(check_once(x, p, first, 0));
    PST_TRY(pst_checker_need(x->c, x->rank, x->step, send));
    PST_TRY(pst_checker_need(x->c, x->rank, send, recv));
    PST_TRY(pst_checker_need(x->c, x->rank, recv, x->end));
    for (uint32_t i = first; i != PST_NONE; i = x->next[i], n++) {
        if (i == send || i == recv || i == pack) continue;
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode != PST_OP_SEND || !is_receiver(x, p, in->peer) || !has_size(x, in, 0))
            return fail(x, p->param, p->from, "new weights are sent to the wrong rank");
        PST_TRY(pst_checker_need(x->c, x->rank, recv, i));
    }
    return n == 2 + packs(x, p->param) + receivers(x, p->param)
               ? PST_OK
               : fail(x, p->param, p->from, "a rank of the island does not get the new weights");
}

/* A rank that neither steps the piece nor exchanges it for its island. */
static pst_status check_other(const outer *x, const pst_piece *p, uint32_t first) {
    const pst_job *job = x->c->job;
    const int last = job->syncs != PST_SYNC_TURN || job->turn == job->delay,
              receives = last && !job->zero && pst_checker_holds(x->c, p->param, x->at.stage);
    if ((first != PST_NONE) != receives || (receives && x->next[first] != PST_NONE))
        return fail(x, p->param, p->from, "a message is missing or unexpected");
    if (!receives) return PST_OK;
    const pst_instr *in = &x->list->instr[first];
    if (in->opcode != PST_OP_RECV || in->outer != 1 || in->buffer || !has_size(x, in, 0) ||
        in->peer != rank_of(x, p, x->island))
        return fail(x, p->param, p->from, "new weights are received from the wrong rank");
    PST_TRY(pst_checker_need(x->c, x->rank, x->step, first));
    return pst_checker_need(x->c, x->rank, first, x->end);
}

/* --- a turn ----------------------------------------------------------------------------------- */

/* What a rank has of a piece in this turn: the numbers of messages, and where the others are. */
typedef struct {
    uint32_t to, from, on; /* kept weights to the owner, results, and results inside the island */
    uint32_t keep, step, apply, sent, received;
} turn;

static pst_status once(const outer *x, const pst_piece *p, uint32_t *at, uint32_t i) {
    if (*at != PST_NONE) return fail(x, p->param, p->from, "an OUTER occurs twice");
    *at = i;
    return PST_OK;
}

static pst_status check_turn_outer(const outer *x, const pst_piece *p, uint32_t i, turn *t) {
    const pst_instr *in = &x->list->instr[i];
    if (in->outer && in->buffer) return fail(x, p->param, p->from, "unknown receive buffer");
    if (in->outer == PST_OUTER_KEEP) return once(x, p, &t->keep, i);
    if (in->outer == PST_OUTER_APPLY) {
        if (t->received != PST_NONE) PST_TRY(pst_checker_need(x->c, x->rank, t->received, i));
        return once(x, p, &t->apply, i);
    }
    if (in->outer || in->buffer != 1 + x->owned * (x->c->job->islands - 1))
        return fail(x, p->param, p->from, "OUTER of another kind, or of other buffers");
    return once(x, p, &t->step, i);
}

static pst_status check_turn_send(const outer *x, const pst_piece *p, uint32_t i, turn *t) {
    const pst_instr *in = &x->list->instr[i];
    const uint32_t own = p->owner % x->c->job->islands;
    if (in->outer != PST_OUTER_KEPT) {
        t->on++;
        if (t->apply == PST_NONE || !is_receiver(x, p, in->peer) ||
            pst_job_island(x->c->job, pst_grid_at(x->c->job->grid, in->peer).replica) != x->island)
            return fail(x, p->param, p->from, "new weights are sent to the wrong rank");
        return pst_checker_need(x->c, x->rank, t->apply, i);
    }
    if (x->island != own) {
        t->to++;
        t->sent = i;
        return in->peer == rank_of(x, p, own)
                   ? PST_OK
                   : fail(x, p->param, p->from, "weights are sent to the wrong rank");
    }
    t->from++;
    if (!is_receiver(x, p, in->peer))
        return fail(x, p->param, p->from, "new weights are sent to the wrong rank");
    return t->step == PST_NONE ? PST_OK : pst_checker_need(x->c, x->rank, t->step, i);
}

static pst_status check_turn_recv(const outer *x, const pst_piece *p, uint32_t i, turn *t) {
    const pst_instr *in = &x->list->instr[i];
    const pst_job *job = x->c->job;
    const uint32_t own = p->owner % job->islands,
                   other = pst_job_island(job, pst_grid_at(job->grid, in->peer).replica);
    if (in->outer != PST_OUTER_KEPT)
        return fail(x, p->param, p->from, "a message to this rank is not of kept weights");
    if (x->island == own) {
        t->to++;
        return in->peer == rank_of(x, p, other) &&
                       in->buffer == 1 + x->owned * (job->islands - 1) + other - (other > x->island)
                   ? PST_OK
                   : fail(x, p->param, p->from, "weights are received into another buffer");
    }
    t->from++;
    t->received = i;
    if (in->buffer || in->peer != rank_of(x, p, own))
        return fail(x, p->param, p->from, "new weights are received from the wrong rank");
    return t->sent == PST_NONE ? PST_OK : pst_checker_need(x->c, x->rank, t->sent, i);
}

/* number: of the message. */
static pst_status check_turn_whole(const outer *x, const pst_piece *p, const turn *t,
                                   uint32_t number) {
    const pst_job *job = x->c->job;
    const int owns = x->island == p->owner % job->islands;
    const int last = job->turn == job->delay;
    const int sends = job->turn && pst_job_turn_to(job, x->at.tensor, number) == job->turn;
    const int returns = job->turn && pst_job_turn_from(job, x->at.tensor, number) == job->turn;
    const int steps = owns && job->turn == pst_job_outer_turn(job);
    const uint32_t peers = owns ? job->islands - 1 : 1;
    const uint32_t to = sends ? peers : 0;
    const uint32_t from = returns ? peers : 0;
    const uint32_t on = last ? receivers(x, p->param) : 0;
    if (t->to != to || t->from != from || t->on != on)
        return fail(x, p->param, p->from, "a message is missing, or of another turn");
    if ((t->keep != PST_NONE) != !job->turn || (t->step != PST_NONE) != steps ||
        (t->apply != PST_NONE) != last)
        return fail(x, p->param, p->from, "an OUTER is missing, or of another turn");
    return PST_OK;
}

/* A rank that exchanges the piece for its island. */
static pst_status check_turn(outer *x, const pst_piece *p, uint32_t first, uint32_t number) {
    turn t = {.keep = PST_NONE,
              .step = PST_NONE,
              .apply = PST_NONE,
              .sent = PST_NONE,
              .received = PST_NONE};
    PST_TRY(check_once(x, p, first, 1));
    for (uint32_t i = first; i != PST_NONE; i = x->next[i]) {
        const uint8_t opcode = x->list->instr[i].opcode;
        if (opcode == PST_OP_PACK)
            return fail(x, p->param, p->from, "an exchange with a delay packs nothing");
        if (opcode == PST_OP_OUTER) PST_TRY(check_turn_outer(x, p, i, &t));
        if (opcode == PST_OP_SEND) PST_TRY(check_turn_send(x, p, i, &t));
        if (opcode == PST_OP_RECV) PST_TRY(check_turn_recv(x, p, i, &t));
        for (uint32_t k = first; t.step == i && k != i; k = x->next[k])
            if (x->list->instr[k].opcode == PST_OP_RECV)
                PST_TRY(pst_checker_need(x->c, x->rank, k, i));
    }
    x->owned += x->island == p->owner % x->c->job->islands;
    return check_turn_whole(x, p, &t, number);
}

static pst_status check_piece(outer *x, const pst_piece *p, uint32_t first, uint32_t number) {
    const pst_job *job = x->c->job;
    const int turns = job->syncs == PST_SYNC_TURN;
    if (!pst_job_exchanges(job, p->param))
        return first == PST_NONE
                   ? PST_OK
                   : fail(x, p->param, p->from, "this list exchanges another fragment");
    if (pst_checker_stage_of_use(x->c, p->param, 0) != x->at.stage ||
        p->owner / job->islands != pst_job_member(job, x->at.replica))
        return check_other(x, p, first);
    if (turns) return check_turn(x, p, first, number);
    return (p->owner % job->islands == x->island ? check_owner : check_leader)(x, p, first);
}

/* number: of messages, on the tensor rank with the largest number of them. */
static pst_status check_pieces(outer *x) {
    const pst_job *job = x->c->job;
    for (uint32_t p = 0, before = 0; p < x->share->n_param; p++) {
        uint32_t number = before, most = 0;
        for (uint32_t t = 0; t < job->grid.tensor; t++) {
            const uint32_t n = pst_share_count(job->outer[t], p);
            most = n > most ? n : most;
        }
        before += most;
        for (pst_piece at = {.param = p}; pst_share_next(x->share, &at); number++)
            PST_TRY(check_piece(x, &at, x->head[x->base[p] + at.from / PST_PIECE], number));
    }
    return PST_OK;
}

/* --- the rank --------------------------------------------------------------------------------- */

static pst_status check_none(const pst_instr_list *list, uint32_t rank) {
    for (uint32_t i = 0; i < list->n_instr; i++)
        if (is_outer(&list->instr[i]))
            return pst_fail(PST_EINPUT, "rank %u: an outer step, but this list has none", rank);
    return PST_OK;
}

pst_status pst_checker_outer(const pst_checker *c, uint32_t rank) {
    const pst_job *job = c->job;
    const pst_graph *g = c->cut->graph;
    uint32_t pieces = 0;
    outer x = {.c = c,
               .list = &job->list[rank],
               .at = pst_grid_at(job->grid, rank),
               .rank = rank,
               .step = PST_NONE,
               .end = PST_NONE};
    if (!job->syncs || !g) return check_none(x.list, rank);
    x.share = job->outer[x.at.tensor];
    x.island = pst_job_island(job, x.at.replica);
    x.base = malloc((g->n_param + (size_t)1) * sizeof *x.base);
    for (uint32_t p = 0; x.base && p < g->n_param; p++) {
        x.base[p] = pieces;
        pieces += pst_pieces(pst_param_elements(g->param + p));
    }
    x.head = malloc((pieces + (size_t)1) * sizeof *x.head);
    x.next = malloc((x.list->n_instr + (size_t)1) * sizeof *x.next);
    pst_status status =
        x.base && x.head && x.next
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory to check the outer step of rank %u", rank);
    if (status == PST_OK) {
        memset(x.head, 0xff, (pieces + (size_t)1) * sizeof *x.head);
        status = list_pieces(&x);
    }
    if (status == PST_OK && job->syncs != PST_SYNC_TURN) status = check_buffers(&x);
    if (status == PST_OK) status = check_pieces(&x);
    free(x.base);
    free(x.head);
    free(x.next);
    return status;
}
