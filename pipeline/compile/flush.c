/* The end of a step as instructions: accumulators of shared parameters are reduced and returned,
 * then the norm is gathered at rank 0, answered, and every rank runs STEP. flush.h describes the
 * order. */
#include "pipeline/compile/flush.h"
#include "pipeline/compile/flush_replicas.h"
#include "pipeline/compile/head.h"
#include "pipeline/compile/outer.h"
#include "pipeline/compile/served.h"
#include "pipeline/compile/summary.h"
#include <stdlib.h>

static const pst_graph *graph_of(const pst_job_builder *b) { return b->cut->graph; }

/* The rank in this lane. */
static uint32_t rank_of_use(const pst_job_builder *b, uint32_t param, uint32_t use) {
    return pst_grid_in_lane(b->job->grid, pst_builder_stage_of_use(b, param, use), b->lane);
}

/* --- shared parameters ------------------------------------------------------------------------ */

/* Two channels for each use of a shared parameter, from b->channel on: accumulator to the owner,
 * sum back. */
typedef struct {
    uint32_t peer, param, use, remote_use, part;
    int back;
} loan;

static uint32_t emit_accumulator(pst_job_builder *b, uint8_t opcode, loan at) {
    uint64_t bytes = pst_param_elements(graph_of(b)->param + at.param) * sizeof(float);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at.param;
    instr.use = at.use;
    instr.peer = at.peer;
    instr.bytes = bytes;
    instr.channel = b->channel + 2 * at.remote_use + (uint32_t)at.back;
    instr.seq = instr.micro = at.part;
    return pst_builder_emit(b, &instr);
}

/* State at the start of the flush: its first instruction, and the compute instruction after which
 * gradients are complete, PST_NONE. */
typedef struct {
    uint32_t first, computed;
} passes;

/* `at` overwrites memory of the lists: it waits for the last pass, and for every SEND before the
 * flush that nothing else waited for (except those of the HEAD queue, which use other memory).
 * RECVs have been read by a pass or, for sums over replicas (early.h), by a REDUCE. */
static void wait_for_all(pst_job_builder *b, uint32_t at, passes before) {
    uint8_t *named = calloc((size_t)b->n_instr + 1, 1);
    if (!named) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
        return;
    }
    uint32_t n_pair = b->n_pair;
    for (uint32_t i = 0; i < n_pair; i++) /* STEP may come later than `at` */
        if (b->instr[b->pair[i].instr].opcode != PST_OP_STEP) named[b->pair[i].on] = 1;
    if (before.computed != PST_NONE) pst_builder_depend(b, at, before.computed);
    for (uint32_t i = b->n_head; i < before.first; i++)
        if ((b->instr[i].queue == PST_Q_SEND || b->instr[i].queue == PST_Q_RECV) && !named[i])
            pst_builder_depend(b, at, i);
    free(named);
}

/* Adds a use's accumulator `operand` to the accumulator `sum` of use 0. */
static uint32_t emit_reduce(pst_job_builder *b, uint32_t param, uint32_t use, uint32_t operand,
                            uint32_t sum) {
    uint64_t ns = pst_builder_reduce_ns(b, pst_param_elements(graph_of(b)->param + param));
    uint32_t reduce = pst_builder_emit_compute(b, PST_OP_REDUCE, ns);
    if (b->status != PST_OK) return reduce;
    b->instr[reduce].param = param;
    b->instr[reduce].use = use;
    b->instr[reduce].micro = operand;
    b->instr[reduce].chunk = (uint16_t)sum;
    return reduce;
}

/* Adds parts [lo, hi) of use 0 into the first of them; returns the last REDUCE, PST_NONE: there is
 * none. */
static uint32_t add_parts(pst_job_builder *b, uint32_t param, uint32_t lo, uint32_t hi) {
    if (hi - lo < 2) return PST_NONE;
    uint32_t middle = pst_share_split(lo, hi);
    add_parts(b, param, lo, middle);
    add_parts(b, param, middle, hi);
    return emit_reduce(b, param, 0, middle, lo);
}

/* At the owner: adds all uses of a part. *joined: whether the receive buffer has been used in this
 * flush. */
static uint32_t join_part(pst_job_builder *b, uint32_t param, uint32_t part, passes before,
                          int *joined) {
    uint32_t n_use = pst_param_gradients(&graph_of(b)->param[param]), reduce = PST_NONE;
    for (uint32_t use = 1; use < n_use && b->status == PST_OK; use++) {
        uint32_t peer = rank_of_use(b, param, use), recv = PST_NONE;
        if (peer != b->rank) {
            recv = emit_accumulator(b, PST_OP_RECV, (loan){peer, param, use, use, part, 0});
            if (*joined) pst_builder_depend(b, recv, pst_builder_last_compute(b));
            else wait_for_all(b, recv, before);
            *joined = 1;
        }
        reduce = emit_reduce(b, param, use, part, part);
        if (recv != PST_NONE) pst_builder_depend(b, reduce, recv);
    }
    return reduce;
}

/* At the owner of a parameter. */
static void own(pst_job_builder *b, uint32_t param, passes before, int *joined) {
    uint32_t n_use = pst_param_gradients(&graph_of(b)->param[param]), reduce = PST_NONE;
    for (uint32_t part = 0; part < b->job->parts; part++)
        reduce = join_part(b, param, part, before, joined);
    uint32_t added = add_parts(b, param, 0, b->job->parts);
    if (added != PST_NONE) reduce = added;
    for (uint32_t use = 1; use < n_use && b->status == PST_OK && pst_job_group(b->job) == 1;
         use++) {
        uint32_t stage = pst_builder_stage_of_use(b, param, use);
        if (stage == b->stage || pst_builder_first_use(b, param, stage) != use) continue;
        uint32_t lane = pst_grid_receiver(b->job->grid, stage, b->lane);
        for (; lane != PST_GRID_NO_LANE && b->status == PST_OK;
             lane = pst_builder_next_receiver(b, stage, lane)) {
            uint32_t peer = pst_grid_in_lane(b->job->grid, stage, lane);
            pst_builder_depend(
                b, emit_accumulator(b, PST_OP_SEND, (loan){peer, param, 0, use, 0, 1}), reduce);
        }
    }
}

/* Sends a part of a use's accumulator to all owners that receive it from this rank; returns the
 * last SEND, PST_NONE: there is none. */
static uint32_t lend_part(pst_job_builder *b, uint32_t param, passes before, uint32_t use,
                          uint32_t part) {
    uint32_t stage = pst_builder_stage_of_use(b, param, 0), sent = PST_NONE;
    uint32_t lane = pst_grid_receiver(b->job->grid, stage, b->lane);
    for (; lane != PST_GRID_NO_LANE && b->status == PST_OK;
         lane = pst_builder_next_receiver(b, stage, lane)) {
        uint32_t owner = pst_grid_in_lane(b->job->grid, stage, lane);
        sent = emit_accumulator(b, PST_OP_SEND, (loan){owner, param, use, use, part, 0});
        if (before.computed != PST_NONE) pst_builder_depend(b, sent, before.computed);
    }
    return sent;
}

/* At the other ranks; returns the RECV of the sum or, if replicas send it, what that has to wait
 * for (pst_builder_wait_lent). */
static uint32_t lend(pst_job_builder *b, uint32_t param, passes before, uint32_t owner,
                     uint32_t first) {
    uint32_t n_use = pst_param_gradients(&graph_of(b)->param[param]), sent = PST_NONE;
    for (uint32_t part = 0; part < b->job->parts; part++)
        for (uint32_t use = first; use < n_use; use++) {
            if (pst_builder_stage_of_use(b, param, use) != b->stage) continue;
            uint32_t at = lend_part(b, param, before, use, part);
            if (use == first && part == 0) sent = at;
        }
    if (sent == PST_NONE) sent = before.computed;
    if (pst_job_group(b->job) > 1) return sent;
    uint32_t recv = emit_accumulator(b, PST_OP_RECV, (loan){owner, param, first, first, 0, 1});
    pst_builder_wait_lent(b, recv, sent);
    return recv;
}

/* returned: [n_param] the results of lend. */
static void join_shared(pst_job_builder *b, passes before, uint32_t *returned) {
    const pst_graph *g = graph_of(b);
    int joined = 0;
    for (uint32_t p = 0; g && p < g->n_param && b->status == PST_OK; p++) {
        uint32_t n_use = pst_param_gradients(&g->param[p]),
                 owner = n_use ? rank_of_use(b, p, 0) : 0, first;
        returned[p] = PST_NONE;
        if (n_use < 2) continue;
        if (b->serves) first = n_use; /* its replicas have added their uses */
        else if (owner == b->rank) own(b, p, before, &joined);
        else if ((first = pst_builder_first_use(b, p, b->stage)) < n_use)
            returned[p] = lend(b, p, before, owner, first);
        b->channel += 2 * n_use;
    }
}

/* --- norm and step ---------------------------------------------------------------------------- */

/* Size of the message to rank 0: the loss of each of the rank's micro-batches, and the sums of
 * squares of its pieces. */
static uint32_t norm_doubles(const pst_job_builder *b, uint32_t rank) {
    const pst_job *j = b->job;
    pst_grid_place at = pst_grid_at(j->grid, rank);
    return j->micros[at.replica] + pst_job_norm_pieces(j, rank) * pst_graph_norm_words(graph_of(b));
}

/* The current list has the norm messages and answers of ranks [from, to): its own; in a single lane
 * also those of all other ranks of its stage, which it sends or receives for them. */
typedef struct {
    uint32_t from, to;
} ranks;

static ranks stands_for(const pst_job_builder *b) {
    if (!b->job->alone) return (ranks){b->rank, b->rank + 1};
    return (ranks){pst_grid_first(b->job->grid, b->stage),
                   pst_grid_first(b->job->grid, b->stage + 1)};
}

static uint32_t list_of(const pst_job_builder *b, uint32_t rank) {
    return b->job->alone ? pst_grid_in_lane(b->job->grid, pst_job_stage(b->job, rank), b->lane)
                         : rank;
}

/* Emits the norm message, or the answer, of `rank`. */
static uint32_t emit_norm(pst_job_builder *b, uint8_t opcode, uint32_t peer, uint32_t rank,
                          uint32_t doubles, uint32_t channel) {
    uint64_t bytes = doubles * sizeof(double);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.peer = peer;
    instr.bytes = bytes;
    instr.channel = channel;
    instr.seq = b->job->alone ? rank : 0;
    return pst_builder_emit(b, &instr);
}

static void send_norms(pst_job_builder *b, uint32_t to, uint32_t norm) {
    ranks all = stands_for(b);
    for (uint32_t r = all.from; r < all.to; r++)
        if (r != to)
            pst_builder_depend(b, emit_norm(b, PST_OP_SEND, to, r, norm_doubles(b, r), b->channel),
                               norm);
}

/* Whether this rank, which computes a norm, sends it to rank r: with asynchronous updates also to
 * the first server, for which it announces the gradients. */
static int is_answered(const pst_job_builder *b, uint32_t r) {
    return pst_job_root(b->job, r) == b->rank || (b->job->async && r == pst_job_leader(b->job));
}

static void gather(pst_job_builder *b) {
    uint32_t n = b->job->n_rank, first = b->n_instr;
    for (uint32_t r = 0; r < n; r++)
        if (r != b->rank && pst_job_root(b->job, r) == b->rank)
            emit_norm(b, PST_OP_RECV, list_of(b, r), r, norm_doubles(b, r), b->channel);
    uint32_t at = pst_builder_emit_compute(b, PST_OP_GATHER, b->cost->gather_ns);
    for (uint32_t i = first; i < at; i++) pst_builder_depend(b, at, i);
    for (uint32_t r = 0; r < n; r++)
        if (r != b->rank && is_answered(b, r))
            pst_builder_depend(b, emit_norm(b, PST_OP_SEND, list_of(b, r), r, 3, b->channel + 1),
                               at);
}

/* Returns the first RECV; *end: one after the last. */
static uint32_t take_answers(pst_job_builder *b, uint32_t from, uint32_t *end) {
    ranks all = stands_for(b);
    uint32_t first = b->n_instr;
    for (uint32_t r = all.from; r < all.to; r++)
        if (r != from) emit_norm(b, PST_OP_RECV, from, r, 3, b->channel + 1);
    *end = b->n_instr;
    return first;
}

/* Whether no other rank ends its passes later, by the unit-time simulation of this lane and the
 * numbers of micro-batches of the others. Then no norm is late, and the answer can be sent before
 * the optimizer starts. */
static int ends_last(const pst_job_builder *b) {
    const pst_schedule *s = b->schedule;
    uint32_t own = 0, last = 0;
    for (uint32_t k = 0; k < b->job->grid.data; k++)
        if (b->job->micros[k] > s->n_micro) return 0;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        const pst_action *a = s->n_action[r] ? &s->action[r][s->n_action[r] - 1] : NULL;
        uint32_t end =
            a ? b->unit_time.finish[((size_t)a->chunk * 4 + a->opcode) * s->n_micro + a->micro] : 0;
        if (r == b->stage) own = end;
        if (end > last) last = end;
    }
    return own == last;
}

/* VALIDATE of eager updates: once the weights have been sent. */
static uint32_t validate(pst_job_builder *b, passes before) {
    const uint32_t last = pst_builder_emit_compute(b, PST_OP_VALIDATE, b->cost->gather_ns);
    for (uint32_t i = before.first; i < last && b->status == PST_OK; i++)
        if (b->instr[i].queue == PST_Q_HEAD && b->instr[i].opcode == PST_OP_SEND)
            pst_builder_depend(b, last, i);
    return last;
}

/* NORM reads the sums of delayed updates. */
static void wait_for_side(pst_job_builder *b, uint32_t norm) {
    for (uint32_t i = norm; b->job->staleness && i-- > 0 && b->status == PST_OK;) {
        if (b->instr[i].queue != PST_Q_SIDE) continue;
        pst_builder_depend(b, norm, i);
        return;
    }
}

/* Returns STEP; with eager updates VALIDATE. */
static uint32_t norm_and_step(pst_job_builder *b, passes before) {
    uint32_t norm = pst_builder_emit_compute(b, PST_OP_NORM, b->cost->norm_ns), step = PST_NONE,
             answered;
    uint32_t to = pst_job_root(b->job, b->rank);
    wait_for_side(b, norm);
    send_norms(b, to, norm);
    int answers_first = b->rank == to && (!b->job->post || ends_last(b));
    if (answers_first) gather(b);
    if (b->job->post) {
        step = pst_builder_emit_compute(b, PST_OP_STEP, b->cost->step_ns);
        wait_for_all(b, step, before);
    }
    if (b->rank == to && !answers_first) gather(b);
    uint32_t answer = take_answers(b, to, &answered);
    uint32_t last;
    if (b->job->eager) last = validate(b, before);
    else if (b->job->post) last = pst_builder_emit_compute(b, PST_OP_VALIDATE, b->cost->gather_ns);
    else last = pst_builder_emit_compute(b, PST_OP_STEP, b->cost->step_ns);
    if (!b->job->post) step = last;
    for (uint32_t i = answer; i < answered; i++) pst_builder_depend(b, last, i);
    for (uint32_t i = 0; i < b->n_head; i++) /* they send the weights that STEP overwrites */
        if (b->instr[i].opcode == PST_OP_SEND) pst_builder_depend(b, step, i);
    b->channel += 2;
    return step;
}

/* Adds the parts of the accumulators of this rank's parameters with one use. */
static void add_unshared(pst_job_builder *b) {
    const pst_graph *g = graph_of(b);
    for (uint32_t p = g && !b->serves ? g->n_param : 0; p-- > 0 && b->status == PST_OK;)
        if (pst_param_gradients(&g->param[p]) == 1 && rank_of_use(b, p, 0) == b->rank)
            add_parts(b, p, 0, b->job->parts);
}

/* Returns STEP. */
static uint32_t flush_alone(pst_job_builder *b, passes before, uint32_t *returned) {
    add_unshared(b);
    join_shared(b, before, returned);
    uint32_t step = norm_and_step(b, before);
    for (uint32_t p = 0; graph_of(b) && p < graph_of(b)->n_param && b->status == PST_OK; p++)
        if (returned[p] != PST_NONE) pst_builder_depend(b, step, returned[p]);
    return step;
}

/* `step` waits for the sums that were received before the flush. */
static void wait_for_sums(pst_job_builder *b, passes before, uint32_t step) {
    for (uint32_t i = b->n_head; i < before.first && b->status == PST_OK; i++)
        if (b->instr[i].opcode == PST_OP_RECV && b->instr[i].n && !b->instr[i].buffer)
            pst_builder_depend(b, step, i);
}

/* Replicas exchange other gradients than those of this step. Returns STEP. */
static uint32_t flush_delayed(pst_job_builder *b, passes before, uint32_t *lent) {
    add_unshared(b);
    b->channel += 2; /* those of the exchange */
    join_shared(b, before, lent);
    const uint32_t step = norm_and_step(b, before);
    wait_for_sums(b, before, step);
    return step;
}

/* At a server, with asynchronous updates. Returns the first STEP. */
static uint32_t flush_served(pst_job_builder *b, passes before, uint32_t *lent) {
    const uint32_t gradients = b->channel;
    b->channel += 2;
    join_shared(b, before, lent); /* only numbers the channels */
    const pst_served_channels at = {gradients, b->channel + 1};
    b->channel += 2;
    return pst_builder_served(b, at);
}

/* Returns STEP. */
static uint32_t flush_replicas(pst_job_builder *b, passes before, uint32_t *lent) {
    pst_flush_sums sums;
    uint32_t channel = b->channel, received[2] = {PST_NONE, PST_NONE};
    if ((b->status = pst_flush_sums_open(b, &sums)) != PST_OK) return 0;
    if (b->job->eager && !b->serves) pst_flush_receive_weights(b, before.first);
    add_unshared(b);
    pst_flush_reduce(b, &sums, 0, pst_builder_last_compute(b));
    b->channel += 2;
    join_shared(b, before, lent);
    uint32_t behind = b->channel;
    b->channel = channel;
    pst_flush_reduce(b, &sums, 1, pst_builder_last_compute(b));
    if (!b->job->zero) pst_flush_spread_sums(b, &sums, lent, received);
    b->channel = behind;
    uint32_t step = norm_and_step(b, before);
    for (uint32_t i = received[0];
         received[0] != PST_NONE && i < received[1] && b->status == PST_OK; i++)
        if (b->instr[i].opcode == PST_OP_RECV) pst_builder_depend(b, step, i);
    wait_for_sums(b, before, step); /* early ones */
    pst_flush_sums_close(&sums);
    if (b->job->down.kind != PST_CODEC_NONE && b->status == PST_OK)
        (b->job->alone ? pst_summary_changes : pst_builder_changes)(b, pst_builder_last_compute(b));
    return step;
}

/* Bytes of the stage's accumulators that are partial sums; *spans: over several ranks. */
static uint64_t partial_bytes(const pst_job_builder *b, int *spans) {
    const pst_graph *g = graph_of(b);
    uint64_t bytes = 0;
    *spans = 0;
    for (uint32_t p = 0; g && p < g->n_param; p++)
        for (uint32_t u = 0; u < pst_param_gradients(&g->param[p]) && g->param[p].slice.partial;
             u++)
            if (pst_builder_stage_of_use(b, p, u) == b->stage) {
                bytes += pst_param_sums(g->param + p) * sizeof(float);
                *spans |= pst_param_spans_ranks(g, g->param + p);
            }
    return bytes * b->job->parts;
}

/* Reduced and broadcast, so twice the duration of one message. */
static void add_partial(pst_job_builder *b, passes *before) {
    int spans;
    uint64_t bytes = b->serves ? 0 : partial_bytes(b, &spans);
    if (bytes)
        before->computed = pst_builder_emit_compute(
            b, PST_OP_REDUCE, spans ? 2 * pst_builder_transfer_ns(b, bytes) : 0);
}

void pst_builder_flush(pst_job_builder *b) {
    const pst_graph *g = graph_of(b);
    /* all that a server does is the end of a step */
    passes before = {b->serves && !b->job->staleness ? b->n_head : b->n_instr,
                     b->serves ? PST_NONE : pst_builder_last_compute(b)};
    uint32_t *returned = malloc(((size_t)(g ? g->n_param : 0) + 1) * sizeof *returned);
    if (!returned) b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
    b->channel = b->cut->n_channel;
    add_partial(b, &before);
    uint32_t step = 0;
    if (b->status == PST_OK && pst_job_group(b->job) == 1) step = flush_alone(b, before, returned);
    else if (b->status == PST_OK && b->job->async && b->serves)
        step = flush_served(b, before, returned);
    else if (b->status == PST_OK)
        step = (b->job->staleness ? flush_delayed : flush_replicas)(b, before, returned);
    if (b->job->syncs) pst_builder_outer(b, step);
    b->n_flush = b->n_instr - before.first;
    free(returned);
}
