/* Checks sharded gradients (zero 2): every piece of every round is reduced once, over the replicas
 * that take part, in the order of the tree, and added to its owner's accumulator in the order of
 * micro-batches; and no pass reuses a gradient slot before its contents have been sent and added.
 */
#include "pipeline/check/flush.h"
#include "pipeline/check/order.h"
#include <stdlib.h>
#include <string.h>

/* The current rank. Cells are (chunk, micro-batch), bins (piece, micro-batch). */
typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    pst_grid_place at;
    uint32_t rank, first; /* of the flush */
    uint32_t *base; /* [n_param] number of the first piece of a parameter that is sharded here */
    uint32_t *bin_head, *bin_tail, *bin_next;    /* instructions about a piece, in list order */
    uint32_t *cell_head, *cell_tail, *cell_next; /* those that read or write a gradient slot */
    uint32_t *occupant;                          /* [n_chunk * n_micro] the cell in each slot */
    /* [1 + buffers] contents of this rank's gradient, and of each receive buffer */
    pst_interval *sum;
} rounds;

static int takes_part(const rounds *x, uint32_t replica, uint32_t micro) {
    return micro < x->c->job->micros[replica];
}

static uint32_t pass_of(const rounds *x, uint32_t chunk, uint32_t micro) {
    return *pst_checker_pass(x->c, chunk, x->c->job->split ? PST_OP_W : PST_OP_BW, micro);
}

static uint32_t chunk_of(const rounds *x, uint32_t param) {
    return x->c->cut->use_chunk[x->c->cut->use_first[param]];
}

static int is_here(const rounds *x, uint32_t param) {
    return pst_job_shards_gradient(x->c->job, x->at.tensor, param) &&
           x->c->job->rank_of_chunk[chunk_of(x, param)] == x->at.stage;
}

/* --- the tree --------------------------------------------------------------------------------- */

static int is_same(pst_interval a, pst_interval b) { return a.lo == b.lo && a.hi == b.hi; }

/* The parent of a node that is not the root; for several replicas. */
static pst_interval parent_of(uint32_t n, pst_interval node) {
    for (pst_interval up = {0, n};;) {
        uint32_t middle = pst_share_split(up.lo, up.hi);
        pst_interval half =
            node.lo < middle ? (pst_interval){up.lo, middle} : (pst_interval){middle, up.hi};
        if (is_same(half, node)) return up;
        up = half;
    }
}

/* The largest node without other participants. */
static pst_interval widen(const rounds *x, pst_interval node, uint32_t micro) {
    uint32_t n = x->c->job->grid.data;
    while (node.hi - node.lo < n) {
        pst_interval up = parent_of(n, node);
        for (uint32_t k = up.lo; k < up.hi; k++)
            if ((k < node.lo || k >= node.hi) && takes_part(x, k, micro)) return node;
        node = up;
    }
    return node;
}

/* sum += *with, which becomes empty, if both are halves of a node; else returns 0. */
static int add_up(const rounds *x, pst_interval *sum, pst_interval *with, uint32_t micro) {
    uint32_t n = x->c->job->grid.data;
    if (sum == with || sum->lo == sum->hi || with->lo == with->hi || sum->hi - sum->lo == n ||
        with->hi - with->lo == n)
        return 0;
    pst_interval up = parent_of(n, *sum);
    if (!is_same(up, parent_of(n, *with)) || is_same(*sum, *with)) return 0;
    *sum = widen(x, up, micro);
    *with = (pst_interval){0, 0};
    return 1;
}

/* --- one piece of one round ------------------------------------------------------------------- */

static pst_status check_reduce(const rounds *x, uint32_t i, uint32_t *added) {
    const pst_instr *in = &x->list->instr[i];
    pst_interval *from = &x->sum[in->buffer], all = {0, x->c->job->grid.data};
    if ((!in->into || !in->buffer) && takes_part(x, x->at.replica, in->micro))
        PST_TRY(pst_checker_need(x->c, x->rank, pass_of(x, in->chunk, in->micro), i));
    if (in->into != PST_INTO_ACCUMULATOR)
        return add_up(x, &x->sum[in->into], from, in->micro)
                   ? PST_OK
                   : pst_checker_fail_at(
                         x->c, x->rank, i,
                         "gradients of replicas are not added in the order of the binary tree");
    if (!is_same(*from, all))
        return pst_checker_fail_at(x->c, x->rank, i, "the gradient of a replica is not added");
    *from = (pst_interval){0, 0};
    *added = i;
    return PST_OK;
}

/* At the owner. *added: where the previous round was added, then where this one was. */
static pst_status check_owner(const rounds *x, uint32_t head, uint32_t micro, uint32_t *added) {
    uint32_t before = *added, own = x->at.replica;
    *added = PST_NONE;
    memset(x->sum, 0, (1 + (size_t)pst_job_buffers(x->c->job)) * sizeof *x->sum);
    if (takes_part(x, own, micro)) x->sum[0] = widen(x, (pst_interval){own, own + 1}, micro);
    for (uint32_t i = head; i != PST_NONE; i = x->bin_next[i]) {
        const pst_instr *in = &x->list->instr[i];
        pst_grid_place from =
            pst_grid_at(x->c->job->grid, in->queue == PST_Q_COMPUTE ? x->rank : in->peer);
        if (in->opcode == PST_OP_REDUCE && *added == PST_NONE) {
            PST_TRY(check_reduce(x, i, added));
        } else if (in->opcode == PST_OP_RECV && in->buffer && from.stage == x->at.stage &&
                   from.replica != own && from.tensor == x->at.tensor &&
                   takes_part(x, from.replica, micro)) {
            x->sum[in->buffer] = widen(x, (pst_interval){from.replica, from.replica + 1}, micro);
        } else {
            return pst_checker_fail_at(
                x->c, x->rank, i,
                "unexpected instruction in the gradient reduction of this micro-batch");
        }
    }
    if (*added == PST_NONE)
        return pst_fail(PST_EINPUT, "rank %u: a shard of a gradient of micro-batch %u is not added",
                        x->rank, micro);
    return before == PST_NONE || before < *added
               ? PST_OK
               : pst_checker_fail_at(
                     x->c, x->rank, *added,
                     "the gradient of the previous micro-batch is added later than this one");
}

/* At the other ranks: it is sent, once. */
static pst_status check_other(const rounds *x, uint32_t head, uint32_t chunk, uint32_t micro,
                              uint32_t owner) {
    if (head == PST_NONE && takes_part(x, x->at.replica, micro))
        return pst_fail(PST_EINPUT,
                        "rank %u: a shard of a gradient of chunk %u, micro-batch %u is not sent",
                        x->rank, chunk, micro);
    if (head == PST_NONE) return PST_OK;
    const pst_instr *in = &x->list->instr[head];
    uint32_t to = pst_grid_rank(x->c->job->grid, x->at.stage, owner, x->at.tensor);
    if (in->opcode != PST_OP_SEND || in->peer != to || in->buffer ||
        !takes_part(x, x->at.replica, micro) || x->bin_next[head] != PST_NONE)
        return pst_checker_fail_at(
            x->c, x->rank, head,
            "unexpected instruction in the gradient reduction of this micro-batch");
    return pst_checker_need(x->c, x->rank, pass_of(x, chunk, micro), head);
}

static pst_status check_piece(const rounds *x, uint32_t param, uint64_t from, uint32_t owner) {
    uint32_t n = x->c->job->n_micro, added = PST_NONE;
    for (uint32_t m = 0; m < n; m++) {
        uint32_t head = x->bin_head[(x->base[param] + from / PST_PIECE) * n + m];
        PST_TRY(owner == x->at.replica ? check_owner(x, head, m, &added)
                                       : check_other(x, head, chunk_of(x, param), m, owner));
    }
    return PST_OK;
}

static pst_status check_pieces(const rounds *x) {
    const pst_share *share = x->c->job->share[x->at.tensor];
    for (uint32_t p = 0; p < share->n_param; p++)
        for (pst_piece at = {.param = p}; is_here(x, p) && pst_share_next(share, &at);)
            PST_TRY(check_piece(x, p, at.from, at.owner));
    return PST_OK;
}

/* --- the list --------------------------------------------------------------------------------- */

static void append(uint32_t *head, uint32_t *tail, uint32_t *next, size_t to, uint32_t i) {
    if (head[to] == PST_NONE) head[to] = i;
    else next[tail[to]] = i;
    tail[to] = i;
}

static pst_status list_pieces(const rounds *x) {
    const pst_graph *g = x->c->cut->graph;
    for (uint32_t i = 0; i < x->first; i++) {
        const pst_instr *in = &x->list->instr[i];
        if (!pst_job_is_piece(x->list, i)) continue;
        if (in->param >= g->n_param || !is_here(x, in->param) ||
            chunk_of(x, in->param) != in->chunk || in->use)
            return pst_checker_fail_at(x->c, x->rank, i,
                                       "the gradient is not sharded on this rank");
        pst_piece whole = {.param = in->param, .from = in->from};
        if (!pst_share_find(x->c->job->share[x->at.tensor], &whole) || in->n != whole.n)
            return pst_checker_fail_at(x->c, x->rank, i, "the elements are not exactly one shard");
        size_t bin =
            (size_t)(x->base[in->param] + in->from / PST_PIECE) * x->c->job->n_micro + in->micro;
        size_t cell = (size_t)in->chunk * x->c->job->n_micro + in->micro;
        append(x->bin_head, x->bin_tail, x->bin_next, bin, i);
        int touches = in->opcode == PST_OP_SEND ||
                      (in->opcode == PST_OP_REDUCE && (!in->into || !in->buffer));
        if (touches) append(x->cell_head, x->cell_tail, x->cell_next, cell, i);
    }
    return PST_OK;
}

/* In list order: a pass that reuses a slot waits for all that read or wrote it. */
static pst_status check_slots(const rounds *x) {
    const pst_slots *s = x->c->slots;
    uint32_t n = x->c->job->n_micro, cells = x->c->job->n_chunk * n;
    if (!s->gradient)
        return pst_fail(
            PST_EINPUT,
            "rank %u: the gradients are sharded, but there are no memory slots for gradients",
            x->rank);
    for (uint32_t i = 0; i < x->first; i++) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode != (x->c->job->split ? PST_OP_W : PST_OP_BW)) continue;
        uint32_t slot = s->gradient[(size_t)in->chunk * s->n_micro + in->micro];
        if (slot >= cells)
            return pst_checker_fail_at(x->c, x->rank, i, "unknown memory slot for a gradient");
        uint32_t before = x->occupant[slot];
        for (uint32_t k = before != PST_NONE ? x->cell_head[before] : PST_NONE; k != PST_NONE;
             k = x->cell_next[k])
            PST_TRY(pst_checker_need(x->c, x->rank, k, i));
        x->occupant[slot] = in->chunk * n + in->micro;
    }
    return PST_OK;
}

static uint32_t *nowhere(size_t n) {
    uint32_t *array = malloc((n + 1) * sizeof *array);
    if (array) memset(array, 0xff, (n + 1) * sizeof *array);
    return array;
}

static pst_status open_rounds(rounds *x) {
    const pst_graph *g = x->c->cut->graph;
    size_t n = x->c->job->n_micro, pieces = 0, cells = x->c->job->n_chunk * n;
    x->base = nowhere(g->n_param);
    for (uint32_t p = 0; x->base && p < g->n_param; p++) {
        if (!is_here(x, p)) continue;
        x->base[p] = (uint32_t)pieces;
        pieces += pst_pieces(pst_param_elements(g->param + p));
    }
    x->bin_head = nowhere(pieces * n);
    x->bin_tail = nowhere(pieces * n);
    x->bin_next = nowhere(x->list->n_instr);
    x->cell_head = nowhere(cells);
    x->cell_tail = nowhere(cells);
    x->cell_next = nowhere(x->list->n_instr);
    x->occupant = nowhere(cells);
    x->sum = calloc(1 + (size_t)pst_job_buffers(x->c->job), sizeof *x->sum);
    if (x->base && x->bin_head && x->bin_tail && x->bin_next && x->cell_head && x->cell_tail &&
        x->cell_next && x->occupant && x->sum)
        return PST_OK;
    return pst_fail(PST_ENOMEM, "no memory to check the gradients that rank %u exchanges", x->rank);
}

pst_status pst_checker_rounds(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    rounds x = {.c = c, .list = list, .at = pst_grid_at(c->job->grid, rank), .rank = rank};
    if (!c->cut->graph) return PST_OK;
    x.first = list->n_instr - list->n_flush;
    pst_status status = open_rounds(&x);
    if (status == PST_OK) status = list_pieces(&x);
    if (status == PST_OK) status = check_pieces(&x);
    if (status == PST_OK && c->slots) status = check_slots(&x);
    free(x.base);
    free(x.bin_head);
    free(x.bin_tail);
    free(x.bin_next);
    free(x.cell_head);
    free(x.cell_tail);
    free(x.cell_next);
    free(x.occupant);
    free(x.sum);
    return status;
}
