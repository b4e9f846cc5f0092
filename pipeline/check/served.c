/* Checks what servers do with asynchronous updates (compile/flush.h). That a run may take the parts
 * of workers in any order, if it is the same at all servers, follows from this:
 *
 * 1. A part waits for its worker, for the first server's part of the same worker, and for what the
 *    server has ended before. The first server waits for others only until these have taken a norm,
 *    which they do once they have ended what came before.
 * 2. A worker has sent all that a part receives, or will without waiting for a server: after the
 *    head of its list it receives nothing from servers, or from other workers.
 * 3. Weights that a server sends are received once the worker's list has ended: once all servers
 *    have the gradients of the part before. So by induction over the order every part ends. */
#include "pipeline/check/flush.h"
#include "pipeline/check/order.h"
#include <stdlib.h>
#include <string.h>

/* The current rank, a server. */
typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    const pst_share *share;
    pst_grid_place at;
    uint32_t rank;
    uint32_t *base; /* [n_param] number of a parameter's first piece */
    uint8_t *seen;  /* [workers][pieces] received */
    uint32_t pieces;
    /* [workers] of its part; PST_NONE: none */
    uint32_t *norm, *step;
} served;

static int is_flush(const served *s, uint32_t i) { return pst_instr_is_flush(s->list, i); }

static pst_status fail_at(const served *s, uint32_t i, const char *why) {
    return pst_checker_fail_at(s->c, s->rank, i, why);
}

/* --- dependencies ----------------------------------------------------------------------------- */

/* Whether instruction i of the flush may depend on `on`. */
static int may_wait(const served *s, uint32_t i, uint32_t on) {
    const pst_instr *in = &s->list->instr[i], *other = &s->list->instr[on];
    if (other->opcode == PST_OP_STEP) return 1; /* parts run one after another */
    if (!is_flush(s, on)) return in->opcode == PST_OP_STEP;
    return pst_job_worker_of(s->c->job, in) == pst_job_worker_of(s->c->job, other);
}

static pst_status check_waits(const served *s, uint32_t i) {
    const pst_instr *in = &s->list->instr[i];
    if (!is_flush(s, i))
        return in->opcode == PST_OP_SEND && !in->n_dep
                   ? PST_OK
                   : fail_at(s, i, "weights for a worker wait for something else");
    for (uint32_t d = 0; d < in->n_dep; d++)
        if (!may_wait(s, i, s->list->dep[in->dep + d]))
            return fail_at(s, i, "the part of a worker waits for another worker");
    return PST_OK;
}

/* --- parts ------------------------------------------------------------------------------------ */

static pst_status note_norm(const served *s, uint32_t i, uint32_t worker) {
    const pst_instr *in = &s->list->instr[i];
    const uint32_t leader = pst_job_leader(s->c->job);
    const int leads = s->rank == leader, sends = in->opcode == PST_OP_SEND;
    const uint32_t from = leads ? pst_grid_rank(s->c->job->grid, 0, worker, 0) : leader;
    const uint64_t n = leads && !sends ? PST_NORM_DOUBLES : PST_SERVED_DOUBLES;
    if (in->use != PST_NONE || in->n || in->bytes != n * sizeof(double) || (sends && !leads))
        return fail_at(s, i, "not the norm of a worker");
    if (sends)
        return pst_job_is_server(s->c->job, in->peer) && s->norm[worker] != PST_NONE
                   ? pst_checker_need(s->c, s->rank, s->norm[worker], i)
                   : fail_at(s, i, "a norm is sent before it has arrived, or not to a server");
    if (s->norm[worker] != PST_NONE || in->peer != from)
        return fail_at(s, i, "the norm of a worker is received twice, or from the wrong rank");
    s->norm[worker] = i;
    return PST_OK;
}

static pst_status note_gradient(const served *s, uint32_t i, uint32_t worker) {
    const pst_instr *in = &s->list->instr[i];
    pst_piece at = {.param = in->param, .from = in->from};
    if (in->param >= s->share->n_param || !pst_share_find(s->share, &at) || at.n != in->n ||
        pst_checker_owner(s->c, at.param, at.owner, s->at) != s->rank)
        return fail_at(s, i, "the elements are not exactly one shard of this server");
    uint8_t *seen = s->seen + (size_t)worker * s->pieces + s->base[at.param] +
                    in->from / pst_share_grain(s->share);
    if (in->use || in->buffer || in->packed || in->bytes != in->n * sizeof(float) ||
        in->peer != pst_grid_rank(s->c->job->grid, s->at.stage, worker, s->at.tensor) || *seen)
        return fail_at(s, i, "the gradient is received twice, or not from a worker's own rank");
    *seen = 1;
    return PST_OK;
}

static pst_status note(const served *s, uint32_t i) {
    const pst_instr *in = &s->list->instr[i];
    const int updates = in->opcode == PST_OP_STEP, moves = !pst_queue_computes(in->queue);
    if (!moves && !updates)
        return fail_at(s, i, "a server with asynchronous updates only receives and updates");
    const uint32_t worker = pst_job_worker_of(s->c->job, in);
    if (worker >= s->c->job->grid.data) return fail_at(s, i, "unknown worker");
    if (moves && in->param == PST_NONE) return note_norm(s, i, worker);
    if (in->opcode == PST_OP_RECV) return note_gradient(s, i, worker);
    if (moves) return fail_at(s, i, "a server sends gradients");
    if (in->n || in->param != PST_NONE || s->step[worker] != PST_NONE)
        return fail_at(s, i, "a worker's gradients are applied twice");
    s->step[worker] = i;
    return PST_OK;
}

/* STEP reads what was received, which overwrites what the STEP before has read. */
static pst_status check_part(const served *s, uint32_t i, uint32_t before) {
    const pst_instr *in = &s->list->instr[i];
    if (in->opcode == PST_OP_STEP) {
        for (uint32_t k = 0; k < s->list->n_head; k++)
            PST_TRY(pst_checker_need(s->c, s->rank, k, i));
        return PST_OK;
    }
    PST_TRY(pst_checker_need(s->c, s->rank, i, s->step[pst_job_worker_of(s->c->job, in)]));
    if (in->param == PST_NONE || before == PST_NONE) return PST_OK;
    return pst_checker_need(s->c, s->rank, before, i);
}

static pst_status check_parts(const served *s) {
    const uint32_t first = s->list->n_instr - s->list->n_flush;
    uint32_t before = PST_NONE;
    for (uint32_t i = 0; i < s->list->n_instr; i++) {
        PST_TRY(check_waits(s, i));
        if (is_flush(s, i)) PST_TRY(note(s, i));
    }
    for (uint32_t k = 0; k < s->c->job->grid.data; k++)
        if (s->norm[k] == PST_NONE || s->step[k] == PST_NONE)
            return pst_fail(PST_EINPUT, "rank %u: worker %u has no norm or no STEP", s->rank, k);
    for (uint32_t i = first; i < s->list->n_instr; i++) {
        PST_TRY(check_part(s, i, before));
        if (s->list->instr[i].opcode == PST_OP_STEP) before = i;
    }
    return PST_OK;
}

static pst_status check_all_there(const served *s) {
    for (uint32_t p = 0; p < s->share->n_param; p++)
        for (pst_piece at = {.param = p}; pst_share_next(s->share, &at);) {
            if (pst_checker_owner(s->c, p, at.owner, s->at) != s->rank) continue;
            const size_t k = s->base[p] + at.from / pst_share_grain(s->share);
            for (uint32_t w = 0; w < s->c->job->grid.data; w++)
                if (!s->seen[(size_t)w * s->pieces + k])
                    return pst_fail(PST_EINPUT,
                                    "rank %u: the gradient of worker %u for parameter %u from "
                                    "element %llu is not received",
                                    s->rank, w, p, (unsigned long long)at.from);
        }
    return PST_OK;
}

static pst_status check_server(const pst_checker *c, uint32_t rank) {
    const pst_graph *g = c->cut->graph;
    const uint32_t n = c->job->grid.data;
    served s = {.c = c,
                .list = &c->job->list[rank],
                .at = pst_grid_at(c->job->grid, rank),
                .rank = rank,
                .base = malloc((g->n_param + (size_t)1) * sizeof *s.base),
                .norm = malloc(n * sizeof *s.norm),
                .step = malloc(n * sizeof *s.step)};
    s.share = c->job->share[s.at.tensor];
    for (uint32_t p = 0; s.base && p < g->n_param; p++) {
        s.base[p] = s.pieces;
        s.pieces += pst_share_grains(s.share, pst_param_elements(g->param + p));
    }
    s.seen = calloc((size_t)n * s.pieces + 1, 1);
    pst_status status = s.base && s.norm && s.step && s.seen
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory to check server %u", rank);
    for (uint32_t k = 0; status == PST_OK && k < n; k++) s.norm[k] = s.step[k] = PST_NONE;
    if (status == PST_OK) status = check_parts(&s);
    if (status == PST_OK) status = check_all_there(&s);
    free(s.base);
    free(s.norm);
    free(s.step);
    free(s.seen);
    return status;
}

/* --- workers ---------------------------------------------------------------------------------- */

static pst_status check_worker(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    for (uint32_t i = list->n_head; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        const int moves = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
        if (!moves) continue;
        const int with_server = pst_job_is_server(c->job, in->peer);
        if (with_server && in->opcode == PST_OP_RECV)
            return pst_checker_fail_at(c, rank, i, "a worker waits for a server after its passes");
        if (!with_server &&
            pst_grid_at(c->job->grid, in->peer).replica != pst_grid_at(c->job->grid, rank).replica)
            return pst_checker_fail_at(c, rank, i, "a worker sends to, or waits for, another one");
    }
    return PST_OK;
}

pst_status pst_checker_served(const pst_checker *c, uint32_t rank) {
    if (!c->cut->graph) return PST_OK;
    return pst_job_is_server(c->job, rank) ? check_server(c, rank) : check_worker(c, rank);
}
