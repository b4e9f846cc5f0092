/* Algorithm `tree` (binomial): among n members, the parent of node v = (member - root) mod n is v
 * with its lowest bit cleared; the subtree of v is contiguous: [v, v + lowbit(v)). Up: sums in the
 * order own, child 1, child 2, child 4 ..., or parts side by side; down: the result. It sends the
 * fewest messages in total of all algorithms, which matters when there are more ranks than
 * cores. */
#include "comm/collective/algorithm.h"

static uint32_t node_of(const pst_coll_run *r) { return (r->me + r->n - r->root) % r->n; }

static uint32_t member_of(const pst_coll_run *r, uint32_t node) {
    return (uint32_t)(((uint64_t)node + r->root) % r->n);
}

/* Nodes in the subtree of `node`, including itself. */
static uint32_t subtree(const pst_coll_run *r, uint32_t node) {
    uint32_t left = r->n - node, span = node & (0u - node);
    return node && span < left ? span : left;
}

static uint32_t children(const pst_coll_run *r) { return pst_coll_log2(subtree(r, node_of(r))); }

static int adds(const pst_coll_run *r) {
    return r->kind == PST_COLL_ALL_REDUCE || r->kind == PST_COLL_REDUCE;
}

static int goes_up(const pst_coll_run *r) { return r->kind != PST_COLL_BROADCAST; }

static int goes_down(const pst_coll_run *r) {
    return r->kind != PST_COLL_REDUCE && r->kind != PST_COLL_GATHER;
}

/* Gathered parts are not added: each subtree's parts travel in one message. */
static void tree_plan(pst_coll_run *r) {
    uint64_t c = children(r), up = goes_up(r) ? 2 * c + 1 : 0, down = goes_down(r) ? c + 1 : 0;
    if (!adds(r) && r->kind != PST_COLL_BROADCAST) r->segment = UINT64_MAX;
    pst_coll_split(r, pst_coll_total(r), adds(r) ? 4 * c : 0);
    r->n_step = r->n_segment * (up + down);
    r->n_seq = (uint32_t)(r->n_segment * (UINT64_C(0) + !!goes_up(r) + !!goes_down(r)));
}

/* The number of the message from a node to its parent. */
static void cover_up(const pst_coll_run *r, pst_coll_step *step, pst_coll_op op, uint32_t node,
                     uint64_t s) {
    if (adds(r)) {
        pst_coll_cover_all(r, step, op, s);
    } else if (r->kind == PST_COLL_BARRIER) {
        step->op = op;
    } else {
        step->at = r->offset[node];
        step->bytes = r->offset[node + subtree(r, node)] - step->at;
        step->op = step->bytes ? op : PST_COLL_SKIP;
    }
}

/* [RECV, ADD] of each child, smallest first, then SEND. */
static void step_up(const pst_coll_run *r, uint64_t s, uint64_t at, pst_coll_step *step) {
    uint64_t c = children(r), begin = s * (2 * c + 1), use = s * c + at / 2;
    uint32_t node = node_of(r), child = node + (UINT32_C(1) << (at / 2));
    step->seq = (uint32_t)s;
    if (at == 2 * c) {
        step->peer = member_of(r, node & (node - 1));
        cover_up(r, step, PST_COLL_SEND, node, s);
        if (!node) step->op = PST_COLL_SKIP;
        if (adds(r) && c) step->after[0] = begin + at - 1;
        step->after_all = !adds(r);
        return;
    }
    step->peer = member_of(r, child);
    cover_up(r, step, at % 2 ? PST_COLL_ADD : PST_COLL_RECV, child, s);
    if (!adds(r)) {
        if (at % 2) step->op = PST_COLL_SKIP;
        return;
    }
    pst_coll_use_slot(r, step, use);
    if (at % 2) {
        step->after[0] = begin + at - 1;
        if (at > 1) step->after[1] = begin + at - 2;
    } else if (use >= r->n_slot) {
        uint64_t before = use - r->n_slot;
        step->after[0] = before / c * (2 * c + 1) + before % c * 2 + 1;
    }
}

/* RECV, then SEND to each child, the largest subtree first, because it is the deepest. begin: the
 * first step of this phase. */
static void step_down(const pst_coll_run *r, uint64_t begin, uint64_t i, pst_coll_step *step) {
    uint64_t c = children(r), s = i / (c + 1), at = i % (c + 1), up = 2 * c + 1;
    uint32_t node = node_of(r);
    step->seq = (uint32_t)((goes_up(r) ? r->n_segment : 0) + s);
    step->peer = member_of(r, at ? node + (UINT32_C(1) << (c - at)) : node & (node - 1));
    if (r->kind == PST_COLL_BARRIER) step->op = at ? PST_COLL_SEND : PST_COLL_RECV;
    else pst_coll_cover_all(r, step, at ? PST_COLL_SEND : PST_COLL_RECV, s);
    if (!at && !node) step->op = PST_COLL_SKIP;
    if (at) step->after[0] = begin + i - at;
    else if (begin) step->after[0] = s * up + up - 1; /* it was sent to the parent before */
}

static void tree_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t up = 2 * (uint64_t)children(r) + 1, begin = goes_up(r) ? r->n_segment * up : 0;
    if (i < begin) step_up(r, i / up, i % up, step);
    else step_down(r, begin, i - begin, step);
}

static void tree_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double log = pst_coll_log2(s->n), remote = pst_coll_log2(s->n_host), bytes = (double)s->bytes;
    double ways = s->kind == PST_COLL_BROADCAST || s->kind >= PST_COLL_KINDS ? 1 : 2;
    double volume = ways * log * bytes;
    if (s->kind == PST_COLL_ALL_GATHER) volume = (1 + log) * bytes;
    c->local_rounds = ways * (log - remote);
    c->remote_rounds = ways * remote;
    c->messages = 2 * ways * log * (1 + bytes / PST_COLL_SEGMENT);
    c->local_bytes = log ? volume * (log - remote) / log : 0;
    c->remote_bytes = log ? volume * remote / log : 0;
    c->added = pst_coll_adds(s->kind) ? log * bytes : 0;
}

const pst_coll_algorithm pst_coll_tree = {
    .name = "tree",
    .kinds = PST_COLL_BIT(PST_COLL_BARRIER) | PST_COLL_BIT(PST_COLL_BROADCAST) |
             PST_COLL_BIT(PST_COLL_ALL_GATHER) | PST_COLL_BIT(PST_COLL_ALL_REDUCE) |
             PST_COLL_BIT(PST_COLL_REDUCE) | PST_COLL_BIT(PST_COLL_GATHER),
    .cost = tree_cost,
    .plan = tree_plan,
    .step = tree_step,
};
