/* Checks the exchanges between replicas in the flush, or earlier (compile/early.h): the owner of a
 * piece sums the gradients of all replicas once, in the order of the binary tree, and (zero 0) all
 * ranks with the parameter receive the sum; values are complete when they are read, and memory is
 * free when it is written. With a codec every replica packs its gradient once, when it is complete,
 * before it is sent or added, and what is packed is unpacked before it counts as a sum. A server
 * has no gradient: it receives one into its accumulator. With a two-level exchange (job.near) a
 * relay sums the gradients of its host's replicas, sends the sum to the owner, and sends the sum of
 * all replicas on to those of its host. */
#include "pipeline/check/flush.h"
#include "pipeline/check/order.h"
#include <stdlib.h>
#include <string.h>

/* The current rank. */
typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    pst_grid_place at;
    uint32_t rank, first, norm, step; /* first: of the flush */
    int serves;                       /* 1: this rank is a server */
    uint32_t *base;                   /* [n_param] number of a parameter's first piece */
    /* instructions of a piece, in list order: [pieces], [pieces], [n_instr] */
    uint32_t *head, *tail, *next;
    uint32_t *whole;      /* [n_param] the REDUCEs of whole accumulators, also chained by `next` */
    pst_interval *buffer; /* [buffers] */
    uint8_t *packed;      /* [buffers] 1: as it was received, packed */
    uint32_t *touched;    /* [buffers] the last instruction that reads or writes it, PST_NONE */
} exchange;

static pst_status fail_piece(const exchange *x, uint32_t param, uint64_t from, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u: replica reduction of parameter %u from element %llu: %s",
                    x->rank, param, (unsigned long long)from, why);
}

static uint32_t first_use_on(const pst_checker *c, uint32_t param, uint32_t stage) {
    uint32_t n = c->cut->use_first[param + 1] - c->cut->use_first[param], use = 0;
    while (use < n && pst_checker_stage_of_use(c, param, use) != stage) use++;
    return use < n ? use : PST_NONE;
}

/* The rank of an owner (pst_job_member) of this island. */
static uint32_t rank_at(const exchange *x, uint32_t stage, uint32_t member) {
    const pst_job *job = x->c->job;
    return pst_grid_in_lane(job->grid, stage,
                            pst_job_peer(job, x->at.replica, member) * job->grid.tensor +
                                x->at.tensor);
}

/* --- pieces of the list ----------------------------------------------------------------------- */

static pst_status list_pieces(exchange *x) {
    const pst_graph *g = x->c->cut->graph;
    for (uint32_t i = x->list->n_head; i < x->list->n_instr; i++) {
        const pst_instr *in = &x->list->instr[i];
        int early = x->c->job->zero != 2 && pst_job_is_piece(x->list, i);
        if (i < x->first && !early) continue;
        if (in->opcode == PST_OP_NORM) x->norm = i;
        if (in->opcode == PST_OP_STEP) x->step = i;
        if (!in->n && in->opcode == PST_OP_REDUCE && in->param < g->n_param) {
            x->next[i] = x->whole[in->param];
            x->whole[in->param] = i;
        }
        if (!in->n || in->outer || in->opcode == PST_OP_OUTER || pst_checker_is_change(in))
            continue;
        /* pipeline/check/updates.c */
        if (in->opcode == PST_OP_STEP || (in->queue == PST_Q_HEAD && in->use == PST_NONE)) continue;
        if (early && (in->chunk || in->micro))
            return fail_piece(
                x, in->param, in->from,
                "a chunk or micro-batch is given for a gradient that is summed over micro-batches");
        pst_piece whole = {.param = in->param, .from = in->from};
        if (in->param >= g->n_param || !pst_share_find(x->c->job->share[x->at.tensor], &whole))
            return fail_piece(x, in->param, in->from,
                              "no shard of the parameter begins at this element");
        if (in->n != whole.n)
            return fail_piece(x, in->param, in->from, "the elements are not exactly one shard");
        const pst_share *share = x->c->job->share[x->at.tensor];
        uint32_t k = x->base[in->param] + (uint32_t)(in->from / pst_share_grain(share));
        if (x->head[k] == PST_NONE) x->head[k] = i;
        else x->next[x->tail[k]] = i;
        x->tail[k] = i;
    }
    return PST_OK;
}

/* Receive buffers, also those of rounds, in list order: each access waits for the previous one. */
static pst_status check_buffers(const exchange *x) {
    uint32_t n = pst_job_buffers(x->c->job);
    memset(x->touched, 0xff, n * sizeof *x->touched);
    for (uint32_t i = 0; i < x->list->n_instr; i++) {
        const pst_instr *in = &x->list->instr[i];
        int piece = pst_job_is_piece(x->list, i), round = piece && x->c->job->zero == 2;
        if ((i < x->first && !piece) || in->outer || in->opcode == PST_OP_OUTER) continue;
        const uint32_t used[] = {in->buffer,
                                 round && in->into == PST_INTO_ACCUMULATOR ? 0 : in->into};
        for (int k = 0; in->n && k < 2; k++) {
            if (!used[k] || (k && used[1] == used[0])) continue; /* an UNPACK */
            if (used[k] > n) return fail_piece(x, in->param, in->from, "unknown receive buffer");
            uint32_t *last = &x->touched[used[k] - 1];
            if (*last != PST_NONE) PST_TRY(pst_checker_need(x->c, x->rank, *last, i));
            *last = i;
        }
    }
    return PST_OK;
}

/* --- one piece -------------------------------------------------------------------------------- */

typedef struct {
    uint32_t param, owner; /* pst_job_member */
    uint64_t from;
    uint32_t first; /* instruction */
} piece;

static int writes(const pst_step *step, uint32_t param, uint32_t use) {
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (o->kind == PST_OPERAND_DPARAM && o->index == param && o->use == use) return 1;
    }
    return 0;
}

/* The last pass that writes the accumulator of a use: the part of it that does so last. */
static uint32_t finishes(const exchange *x, uint32_t param, uint32_t use, uint32_t chunk) {
    const pst_program *program =
        &x->c->cut->chunk[chunk].program[x->c->job->split ? PST_OP_W : PST_OP_BW];
    uint32_t i =
        *pst_checker_pass(x->c, chunk, x->c->job->split ? PST_OP_W : PST_OP_BW, x->c->n_micro - 1);
    uint32_t step = program->n_step, before;
    if (!x->list->instr[i].n) return i;
    while (step > 0 && !writes(program->step + step - 1, param, use)) step--;
    while (step && x->list->instr[i].from >= step &&
           (before = x->c->again[x->c->instr_first[x->rank] + i]) != PST_NONE)
        i = before;
    return i;
}

/* Waits for the last passes that write the accumulators, and for the REDUCEs of shared uses and of
 * parts. */
static pst_status check_ready(const exchange *x, const piece *p, uint32_t send) {
    const pst_cut *cut = x->c->cut;
    uint32_t first = cut->use_first[p->param];
    if (x->serves || x->c->job->staleness) return PST_OK; /* complete before the list begins */
    for (uint32_t use = first; use < cut->use_first[p->param + 1]; use++) {
        uint32_t chunk = cut->use_chunk[use];
        if (x->c->job->rank_of_chunk[chunk] != x->at.stage) continue;
        PST_TRY(pst_checker_need(x->c, x->rank, finishes(x, p->param, use - first, chunk), send));
    }
    for (uint32_t i = x->whole[p->param]; i != PST_NONE; i = x->next[i])
        PST_TRY(pst_checker_need(x->c, x->rank, i, send));
    return PST_OK;
}

/* Returns the number of ranks per replica on a stage that receive values from this tensor rank. */
static uint32_t lanes_through(const exchange *x, uint32_t stage) {
    pst_grid grid = x->c->job->grid;
    uint32_t degree = pst_grid_degree(grid, stage), own = pst_grid_degree(grid, x->at.stage);
    return x->at.tensor < degree ? (degree - x->at.tensor - 1) / own + 1 : 0;
}

/* Whether replicas pack the piece. */
static int packs(const exchange *x, const piece *p) {
    const pst_param *param = x->c->cut->graph->param + p->param;
    return pst_job_packs(x->c->job, pst_checker_stage_of_use(x->c, p->param, 0), param);
}

/* PACK i of this rank's gradient; *pack: an earlier one, PST_NONE. */
static pst_status check_pack(const exchange *x, const piece *p, uint32_t i, uint32_t *pack) {
    const pst_instr *in = &x->list->instr[i];
    if (*pack != PST_NONE || !packs(x, p) || in->use || in->buffer || in->into || in->packed)
        return fail_piece(x, p->param, p->from,
                          "the gradient is packed twice, or must not be packed");
    *pack = i;
    return check_ready(x, p, i);
}

static pst_status check_unpack(const exchange *x, const piece *p, const pst_instr *in) {
    const uint32_t k = in->buffer - 1;
    if (!in->buffer || in->into != in->buffer || in->use || !in->packed || !x->packed[k] ||
        x->buffer[k].lo == x->buffer[k].hi)
        return fail_piece(x, p->param, p->from, "UNPACK of a gradient that is not packed");
    x->packed[k] = 0;
    return PST_OK;
}

/* The operands of a REDUCE: only the right one may be packed, and then the REDUCE says so. */
static pst_status check_packed(const exchange *x, const piece *p, const pst_instr *in,
                               uint32_t pack) {
    if (in->packed != (in->buffer && x->packed[in->buffer - 1]) ||
        (in->into && x->packed[in->into - 1]))
        return fail_piece(x, p->param, p->from,
                          "a packed gradient is added without being unpacked");
    if (packs(x, p) && pack == PST_NONE && !in->into)
        return fail_piece(x, p->param, p->from,
                          "this rank's gradient is added before it is packed");
    return PST_OK;
}

/* --- relays ----------------------------------------------------------------------------------- */

static uint32_t member_of(const exchange *x) { return pst_job_member(x->c->job, x->at.replica); }

/* A rank on the stage of this one's host, other than it. */
static int is_near(const exchange *x, uint32_t rank) {
    const pst_job *job = x->c->job;
    const uint32_t member = pst_job_member(job, pst_grid_at(job->grid, rank).replica);
    return rank != x->rank && member < pst_job_group(job) &&
           rank == rank_at(x, x->at.stage, member) &&
           member / job->near == member_of(x) / job->near;
}

/* The replicas whose gradients are in a message from this one to the owner, or relay, at this rank;
 * empty: it sends none. */
static pst_interval sent_by(const exchange *x, const piece *p, uint32_t from) {
    const pst_job *job = x->c->job;
    const uint32_t near = job->near;
    if (from >= pst_job_group(job) || pst_job_via(job, from, p->owner) != member_of(x))
        return (pst_interval){0, 0};
    if (!pst_job_relays(job, from, p->owner)) return (pst_interval){from, from + 1};
    return (pst_interval){from / near * near, from / near * near + near};
}

/* RECV i of a gradient, or of a sum of another host, into a receive buffer. */
static pst_status check_part(const exchange *x, const piece *p, uint32_t i) {
    const pst_instr *in = &x->list->instr[i];
    const uint32_t from = pst_job_member(x->c->job, pst_grid_at(x->c->job->grid, in->peer).replica);
    const pst_interval part = sent_by(x, p, from);
    if (!in->buffer || in->use || in->packed != (uint32_t)packs(x, p) || part.lo == part.hi ||
        in->peer != rank_at(x, x->at.stage, from))
        return fail_piece(x, p->param, p->from, "the gradient is received from the wrong rank");
    x->buffer[in->buffer - 1] = part;
    x->packed[in->buffer - 1] = (uint8_t)in->packed;
    return PST_OK;
}

/* A REDUCE; *own: what is in the accumulator. */
static pst_status check_sum(const exchange *x, const piece *p, const pst_instr *in,
                            pst_interval *own) {
    if (in->use || !in->buffer || in->buffer == in->into ||
        !pst_checker_add_up(in->into ? &x->buffer[in->into - 1] : own, &x->buffer[in->buffer - 1]))
        return fail_piece(x, p->param, p->from,
                          "gradients of replicas are not added in the order of the binary tree");
    return PST_OK;
}

/* At a relay, SEND i of what it has received, by `recv` (PST_NONE: nothing yet). */
static pst_status check_forward(const exchange *x, const piece *p, uint32_t recv, uint32_t i) {
    const pst_instr *in = &x->list->instr[i];
    if (!is_near(x, in->peer) || in->packed || in->use != first_use_on(x->c, p->param, x->at.stage))
        return fail_piece(x, p->param, p->from, "a relay sends the sum to the wrong rank");
    return recv == PST_NONE ? fail_piece(x, p->param, p->from, "a relay sends a sum that it lacks")
                            : pst_checker_need(x->c, x->rank, recv, i);
}

/* At the owner of the shard: its sum, and the messages with it. */
static pst_status check_owner(const exchange *x, const piece *p) {
    const pst_job *job = x->c->job;
    const uint32_t member = pst_job_member(job, x->at.replica), n = pst_job_group(job);
    pst_interval own = {member, member + 1};
    uint32_t reduce = PST_NONE, arrived = PST_NONE, sent = 0, holders = 0, pack = PST_NONE;
    int added = pst_job_shards_gradient(job, x->at.tensor, p->param); /* before the flush */
    if (added) own = (pst_interval){0, n};
    if (x->serves) own = (pst_interval){0, 0};
    memset(x->buffer, 0, pst_job_buffers(job) * sizeof *x->buffer);
    memset(x->packed, 0, pst_job_buffers(job));
    for (uint32_t i = p->first; i != PST_NONE; i = x->next[i]) {
        const pst_instr *in = &x->list->instr[i];
        if (added && in->opcode != PST_OP_SEND) {
            return fail_piece(x, p->param, p->from, "the gradient is added twice");
        } else if (in->opcode == PST_OP_RECV && x->serves && !in->buffer && arrived == PST_NONE) {
            const uint32_t from = pst_job_member(job, pst_grid_at(job->grid, in->peer).replica);
            if (in->use || in->packed || from >= n || in->peer != rank_at(x, x->at.stage, from))
                return fail_piece(x, p->param, p->from,
                                  "the gradient is received from the wrong rank");
            own = (pst_interval){from, from + 1};
            arrived = i;
        } else if (in->opcode == PST_OP_RECV) {
            PST_TRY(check_part(x, p, i));
        } else if (in->opcode == PST_OP_PACK) {
            PST_TRY(check_pack(x, p, i, &pack));
        } else if (in->opcode == PST_OP_UNPACK) {
            PST_TRY(check_unpack(x, p, in));
        } else if (in->opcode == PST_OP_REDUCE) {
            if (reduce == PST_NONE) PST_TRY(check_ready(x, p, i));
            PST_TRY(check_packed(x, p, in, pack));
            if (x->serves && !in->into && arrived != PST_NONE)
                PST_TRY(pst_checker_need(x->c, x->rank, arrived, i));
            PST_TRY(check_sum(x, p, in, &own));
            reduce = i;
        } else {
            pst_grid_place to = pst_grid_at(job->grid, in->peer);
            if (pst_job_via(job, pst_job_member(job, to.replica), member) != member || in->use ||
                in->packed || job->zero ||
                pst_job_island(job, to.replica) != pst_job_island(job, x->at.replica) ||
                first_use_on(x->c, p->param, to.stage) == PST_NONE ||
                to.tensor % pst_grid_degree(job->grid, x->at.stage) != x->at.tensor)
                return fail_piece(x, p->param, p->from, "the sum is sent to the wrong rank");
            PST_TRY(pst_checker_need(x->c, x->rank, reduce == PST_NONE ? x->step : reduce, i));
            sent++;
        }
    }
    if (own.lo != 0 || own.hi != n)
        return fail_piece(x, p->param, p->from, "the gradient of a replica is not added");
    if (job->staleness && reduce != PST_NONE)
        PST_TRY(pst_checker_need(x->c, x->rank, reduce, x->norm));
    for (uint32_t s = 0; s < job->grid.pipeline && !job->zero; s++)
        if (first_use_on(x->c, p->param, s) != PST_NONE)
            holders += (job->near + n / job->near - 1) * lanes_through(x, s);
    return sent == (job->zero ? 0 : holders - 1)
               ? PST_OK
               : fail_piece(x, p->param, p->from,
                            "not all ranks with the parameter receive the sum");
}

/* This rank's whole accumulator of a use, sent to another stage. */
static pst_status check_lent(const exchange *x, uint32_t param, uint32_t use, uint32_t recv) {
    uint32_t lent = 0;
    for (uint32_t i = x->first; i < x->list->n_instr; i++) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode != PST_OP_SEND || in->n || in->micro || in->param != param || in->use != use)
            continue;
        PST_TRY(pst_checker_need(x->c, x->rank, i, recv));
        lent++;
    }
    pst_grid grid = x->c->job->grid;
    int wanted = pst_grid_is_home(grid, pst_checker_stage_of_use(x->c, param, 0), x->c->lane);
    return lent || !wanted
               ? PST_OK
               : fail_piece(
                     x, param, 0,
                     "the accumulator is not sent to the stage of the parameter's first use");
}

static pst_status check_return(const exchange *x, const piece *p, uint32_t sent, uint32_t recv) {
    const pst_instr *in = &x->list->instr[recv];
    uint32_t use = first_use_on(x->c, p->param, x->at.stage);
    const uint32_t via = pst_job_via(x->c->job, member_of(x), p->owner);
    const uint32_t stage =
        via == p->owner ? pst_checker_stage_of_use(x->c, p->param, 0) : x->at.stage;
    if (in->peer != rank_at(x, stage, via) || in->buffer || in->packed || in->use != use)
        return fail_piece(x, p->param, p->from,
                          "the sum is not received from the owner of the shard, or its relay");
    if (sent != PST_NONE) PST_TRY(pst_checker_need(x->c, x->rank, sent, recv));
    else if (!x->c->job->staleness) PST_TRY(check_lent(x, p->param, use, recv));
    return pst_checker_need(x->c, x->rank, recv, x->step);
}

/* At a relay, on the stage of the parameter's first use: everything until the sum of its host is
 * sent, by *sent. Returns in *rest the first instruction behind that. */
static pst_status check_relay(const exchange *x, const piece *p, uint32_t *sent, uint32_t *rest) {
    const uint32_t near = x->c->job->near, first = member_of(x) / near * near;
    pst_interval own = {member_of(x), member_of(x) + 1};
    uint32_t reduce = PST_NONE, i = p->first;
    memset(x->buffer, 0, pst_job_buffers(x->c->job) * sizeof *x->buffer);
    memset(x->packed, 0, pst_job_buffers(x->c->job));
    for (; i != PST_NONE && *sent == PST_NONE; i = x->next[i]) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode == PST_OP_RECV) {
            PST_TRY(check_part(x, p, i));
        } else if (in->opcode == PST_OP_REDUCE) {
            if (reduce == PST_NONE) PST_TRY(check_ready(x, p, i));
            PST_TRY(check_packed(x, p, in, PST_NONE));
            PST_TRY(check_sum(x, p, in, &own));
            reduce = i;
        } else if (in->opcode == PST_OP_SEND && reduce != PST_NONE && !in->use && !in->packed &&
                   in->peer == rank_at(x, x->at.stage, p->owner)) {
            PST_TRY(pst_checker_need(x->c, x->rank, reduce, i));
            *sent = i;
        } else {
            return fail_piece(x, p->param, p->from, "unexpected instruction of a relay");
        }
    }
    *rest = i;
    return own.lo == first && own.hi == first + near && *sent != PST_NONE
               ? PST_OK
               : fail_piece(x, p->param, p->from,
                            "a relay does not send the sum of its host to the owner");
}

/* At the other ranks: a gradient is sent (on the stage of the parameter's first use), a sum is
 * received; a relay also sends it on. */
static pst_status check_other(const exchange *x, const piece *p) {
    int adds = !x->serves && pst_checker_stage_of_use(x->c, p->param, 0) == x->at.stage &&
               !pst_job_shards_gradient(x->c->job, x->at.tensor, p->param),
        returns =
            !x->serves && !x->c->job->zero && first_use_on(x->c, p->param, x->at.stage) != PST_NONE;
    uint32_t sent = PST_NONE, received = PST_NONE, pack = PST_NONE, i = p->first, forwards = 0;
    const int relays = pst_job_relays(x->c->job, member_of(x), p->owner);
    const uint32_t via = pst_job_via(x->c->job, member_of(x), p->owner);
    if (relays && adds) PST_TRY(check_relay(x, p, &sent, &i));
    for (; i != PST_NONE; i = x->next[i]) {
        const pst_instr *in = &x->list->instr[i];
        if (in->opcode == PST_OP_SEND && adds && sent == PST_NONE && !in->use &&
            in->packed == (uint32_t)packs(x, p) && in->peer == rank_at(x, x->at.stage, via)) {
            if (in->packed && pack == PST_NONE)
                return fail_piece(x, p->param, p->from, "the gradient is sent before it is packed");
            PST_TRY(in->packed ? pst_checker_need(x->c, x->rank, pack, i) : check_ready(x, p, i));
            sent = i;
        } else if (in->opcode == PST_OP_PACK && adds && sent == PST_NONE) {
            PST_TRY(check_pack(x, p, i, &pack));
        } else if (in->opcode == PST_OP_RECV && returns && received == PST_NONE) {
            PST_TRY(check_return(x, p, sent, i));
            received = i;
        } else if (in->opcode == PST_OP_SEND && relays && returns) {
            PST_TRY(check_forward(x, p, received, i));
            forwards++;
        } else {
            return fail_piece(x, p->param, p->from, "unexpected instruction");
        }
    }
    if (adds && sent == PST_NONE)
        return fail_piece(x, p->param, p->from, "the gradient is not sent");
    if (forwards != (relays && returns ? x->c->job->near - 1 : 0))
        return fail_piece(x, p->param, p->from, "a relay does not send the sum to all of its host");
    return returns && received == PST_NONE
               ? fail_piece(x, p->param, p->from, "the sum is not received")
               : PST_OK;
}

/* --- the rank --------------------------------------------------------------------------------- */

static pst_status check_pieces(const exchange *x) {
    const pst_share *share = x->c->job->share[x->at.tensor];
    for (uint32_t p = 0; p < share->n_param; p++)
        for (pst_piece next = {.param = p}; pst_share_next(share, &next);) {
            piece at = {p, next.owner, next.from,
                        x->head[x->base[p] + next.from / pst_share_grain(share)]};
            int owner = at.owner == pst_job_member(x->c->job, x->at.replica) &&
                        pst_checker_stage_of_use(x->c, p, 0) == x->at.stage;
            PST_TRY(owner ? check_owner(x, &at) : check_other(x, &at));
        }
    return PST_OK;
}

static pst_status open_exchange(exchange *x) {
    const pst_graph *g = x->c->cut->graph;
    size_t pieces = 0, buffers = pst_job_buffers(x->c->job);
    x->base = malloc((g->n_param + (size_t)1) * sizeof *x->base);
    for (uint32_t p = 0; x->base && p < g->n_param; p++) {
        x->base[p] = (uint32_t)pieces;
        pieces +=
            pst_share_grains(x->c->job->share[x->at.tensor], pst_param_elements(g->param + p));
    }
    x->head = malloc((pieces + 1) * sizeof *x->head);
    x->tail = malloc((pieces + 1) * sizeof *x->tail);
    x->next = malloc((x->list->n_instr + (size_t)1) * sizeof *x->next);
    x->whole = malloc((g->n_param + (size_t)1) * sizeof *x->whole);
    x->buffer = calloc(buffers + 1, sizeof *x->buffer);
    x->packed = calloc(buffers + 1, sizeof *x->packed);
    x->touched = calloc(buffers + 1, sizeof *x->touched);
    if (!x->base || !x->head || !x->tail || !x->next || !x->whole || !x->buffer || !x->packed ||
        !x->touched)
        return pst_fail(PST_ENOMEM, "no memory to check the flush of rank %u", x->rank);
    memset(x->head, 0xff, pieces * sizeof *x->head);
    memset(x->next, 0xff, x->list->n_instr * sizeof *x->next);
    memset(x->whole, 0xff, g->n_param * sizeof *x->whole);
    return PST_OK;
}

pst_status pst_checker_replicas(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    exchange x = {.c = c,
                  .list = list,
                  .at = pst_grid_at(c->job->grid, rank),
                  .rank = rank,
                  .serves = pst_job_is_server(c->job, rank)};
    if (!c->cut->graph) return PST_OK;
    x.first = list->n_instr - list->n_flush;
    pst_status status = open_exchange(&x);
    if (status == PST_OK) status = list_pieces(&x);
    if (status == PST_OK) status = check_buffers(&x);
    if (status == PST_OK) status = check_pieces(&x);
    free(x.base);
    free(x.head);
    free(x.tail);
    free(x.next);
    free(x.whole);
    free(x.buffer);
    free(x.packed);
    free(x.touched);
    return status;
}
