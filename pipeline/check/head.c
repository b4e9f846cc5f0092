/* Checks the head of a list. If replicas shard the optimizer states, every piece of weights that
 * another rank updates is received once from that rank, before a pass reads it, and all sent
 * weights have left before STEP changes them. (pipeline/check/message.c has checked that both ends
 * of a message name the same piece.) With a two-level exchange (job.near) a relay sends on what it
 * has received. */
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
    uint32_t rank, step;
    uint32_t *first; /* [n_chunk] its first pass, PST_NONE */
    uint32_t *base;  /* [n_param] number of its first piece */
    uint32_t *seen;  /* [pieces] its RECV, PST_NONE */
    uint32_t *sent;  /* [pieces] number of SENDs of a relay */
} head;

/* Every chunk of this rank that uses the parameter waits for it; *holds: there is one. recv
 * PST_NONE: only sets *holds. A server has no chunks. */
static pst_status check_readers(const head *h, uint32_t param, uint32_t recv, int *holds) {
    const pst_cut *cut = h->c->cut;
    *holds = 0;
    if (pst_job_is_server(h->c->job, h->rank)) return PST_OK;
    for (uint32_t u = cut->use_first[param]; u < cut->use_first[param + 1]; u++) {
        uint32_t pass = h->first[cut->use_chunk[u]];
        if (h->c->job->rank_of_chunk[cut->use_chunk[u]] != h->at.stage) continue;
        *holds = 1;
        if (recv != PST_NONE) PST_TRY(pst_checker_need(h->c, h->rank, recv, pass));
    }
    return PST_OK;
}

/* The owner that updates a piece; the number of owners if there is no such piece. */
static uint32_t stepped_by(const head *h, const pst_instr *in) {
    pst_piece whole = {.param = in->param, .from = in->from};
    if (!pst_share_find(h->share, &whole) || in->n != whole.n ||
        in->bytes != in->n * (uint64_t)pst_dtype_bytes(h->c->cut->graph->dtype))
        return h->share->n_owner;
    return whole.owner;
}

/* Whether the weight is sent in the flush (pipeline/check/changes.c). */
static int is_change(const head *h, uint32_t param) {
    return pst_job_sends_changes(h->c->job, pst_checker_stage_of_use(h->c, param, 0),
                                 h->c->cut->graph->param + param);
}

/* The rank that a piece is received from: its owner, or the relay on this rank's stage. */
static uint32_t source_of(const head *h, uint32_t param, uint32_t owner) {
    const pst_job *job = h->c->job;
    const uint32_t via = pst_job_via(job, pst_job_member(job, h->at.replica), owner);
    if (via == owner) return pst_checker_owner(h->c, param, owner, h->at);
    return pst_grid_rank(job->grid, h->at.stage, pst_job_peer(job, h->at.replica, via),
                         h->at.tensor);
}

/* SEND i of piece `seen` that another rank owns. */
static pst_status check_relay(const head *h, uint32_t i, uint32_t owner, uint32_t seen) {
    const pst_job *job = h->c->job;
    const pst_grid_place to = pst_grid_at(job->grid, h->list->instr[i].peer);
    const uint32_t member = pst_job_member(job, h->at.replica);
    if (!pst_job_relays(job, member, owner) || to.stage != h->at.stage ||
        to.tensor != h->at.tensor ||
        pst_job_via(job, pst_job_member(job, to.replica), owner) != member ||
        h->seen[seen] == PST_NONE)
        return pst_checker_fail_at(h->c, h->rank, i,
                                   "another rank updates this shard, and this rank is not its "
                                   "relay, or has not received it");
    h->sent[seen]++;
    PST_TRY(pst_checker_need(h->c, h->rank, h->seen[seen], i));
    return pst_checker_need(h->c, h->rank, i, h->step);
}

static pst_status check_piece(const head *h, uint32_t i) {
    const pst_instr *in = &h->list->instr[i];
    const pst_graph *g = h->c->cut->graph;
    int holds;
    if (in->param >= g->n_param || !pst_param_gradients(&g->param[in->param]) ||
        in->use != PST_NONE || in->local != PST_NONE || is_change(h, in->param))
        return pst_checker_fail_at(h->c, h->rank, i, "the message is not for a weight");
    uint32_t k = stepped_by(h, in);
    if (k == h->share->n_owner)
        return pst_checker_fail_at(h->c, h->rank, i, "the elements are not exactly one shard");
    uint32_t owner = pst_checker_owner(h->c, in->param, k, h->at);
    const uint32_t seen = h->base[in->param] + (uint32_t)(in->from / pst_share_grain(h->share));
    if (in->opcode == PST_OP_SEND && owner != h->rank) return check_relay(h, i, k, seen);
    if (in->opcode == PST_OP_SEND) return pst_checker_need(h->c, h->rank, i, h->step);
    PST_TRY(check_readers(h, in->param, i, &holds));
    if (!holds || owner == h->rank || in->peer != source_of(h, in->param, k) ||
        h->seen[seen] != PST_NONE)
        return pst_checker_fail_at(
            h->c, h->rank, i,
            "this rank does not need the shard from this sender, or receives it twice");
    h->seen[seen] = i;
    return PST_OK;
}

/* A piece that this rank needs is received, and sent on by a relay. As the messages of each pair
 * differ in their numbers, none is sent twice to one rank. */
static pst_status check_there(const head *h, const pst_piece *at) {
    const pst_job *job = h->c->job;
    const size_t seen = h->base[at->param] + at->from / pst_share_grain(h->share);
    const int relays = pst_job_relays(job, pst_job_member(job, h->at.replica), at->owner);
    if (pst_checker_owner(h->c, at->param, at->owner, h->at) == h->rank) return PST_OK;
    if (h->seen[seen] != PST_NONE && h->sent[seen] == (relays ? job->near - 1 : 0)) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "rank %u: the weights that owner %u updates in parameter %u, from element %llu, "
        "are not %s",
        h->rank, at->owner, at->param, (unsigned long long)at->from,
        h->seen[seen] == PST_NONE ? "received" : "sent on to all of this host");
}

static pst_status check_all_there(const head *h) {
    int holds;
    for (uint32_t p = 0; p < h->share->n_param; p++) {
        PST_TRY(check_readers(h, p, PST_NONE, &holds));
        holds &= !holds || !is_change(h, p);
        for (pst_piece at = {.param = p}; holds && pst_share_next(h->share, &at);)
            PST_TRY(check_there(h, &at));
    }
    return PST_OK;
}

static pst_status check_pieces(head *h) {
    for (uint32_t i = h->list->n_instr; i-- > h->list->n_head;) {
        const pst_instr *in = &h->list->instr[i];
        if (in->opcode == PST_OP_STEP) h->step = i;
        if (in->opcode <= PST_OP_BW) h->first[in->chunk] = i;
    }
    if (h->step == PST_NONE) return pst_fail(PST_EINPUT, "rank %u: STEP is missing", h->rank);
    for (uint32_t i = 0; i < h->list->n_head; i++) PST_TRY(check_piece(h, i));
    return check_all_there(h);
}

pst_status pst_checker_head(const pst_checker *c, uint32_t rank) {
    const pst_job *job = c->job;
    uint64_t elements = 0;
    uint32_t pieces = 0;
    head h = {.c = c,
              .list = &job->list[rank],
              .at = pst_grid_at(job->grid, rank),
              .rank = rank,
              .step = PST_NONE};
    if (!job->zero || job->eager || !c->cut->graph)
        return h.list->n_head
                   ? pst_fail(PST_EINPUT,
                              "rank %u: the list begins with weight messages, but no "
                              "optimizer state is sharded (zero 0), or updates are eager",
                              rank)
                   : PST_OK;
    h.share = job->share[h.at.tensor];
    h.first = malloc(job->n_chunk * sizeof *h.first);
    h.base = malloc((h.share->n_param + (size_t)1) * sizeof *h.base);
    for (uint32_t p = 0; h.base && p < h.share->n_param;
         p++, pieces += pst_share_grains(h.share, elements)) {
        h.base[p] = pieces;
        elements = pst_param_elements(c->cut->graph->param + p);
    }
    h.seen = malloc(((size_t)pieces + 1) * sizeof *h.seen);
    h.sent = calloc((size_t)pieces + 1, sizeof *h.sent);
    if (h.seen) memset(h.seen, 0xff, ((size_t)pieces + 1) * sizeof *h.seen);
    for (uint32_t k = 0; h.first && k < job->n_chunk; k++) h.first[k] = PST_NONE;
    pst_status status =
        h.first && h.base && h.seen && h.sent
            ? check_pieces(&h)
            : pst_fail(PST_ENOMEM, "no memory to check the weight messages of rank %u", rank);
    free(h.first);
    free(h.base);
    free(h.seen);
    free(h.sent);
    return status;
}
