/* Checks eager updates (compile/flush.h). The compute queue runs in list order, so that what comes
 * before STEP in the list has ended. */
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
    uint32_t rank, stepped, validate; /* the first STEP, PST_NONE; VALIDATE */
    uint32_t *base;                   /* [n_param] number of its first piece */
    uint32_t *reduce;                 /* [pieces] the last REDUCE, PST_NONE */
    uint32_t *step;                   /* [pieces] STEP, PST_NONE */
    uint32_t *messages;               /* [pieces] number of weight messages */
    uint32_t *read;                   /* [n_param] the last pass that reads it, PST_NONE */
} updates;

static pst_status fail_update(const updates *u, const pst_piece *at, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u: update of parameter %u from element %llu: %s", u->rank,
                    at->param, (unsigned long long)at->from, why);
}

static uint32_t number_of(const updates *u, uint32_t param, uint64_t from) {
    return u->base[param] + (uint32_t)(from / pst_share_grain(u->share));
}

static int has_parameter(const updates *u, uint32_t param, uint32_t rank) {
    return !pst_job_is_server(u->c->job, rank) &&
           pst_checker_holds(u->c, param, pst_job_stage(u->c->job, rank)) &&
           pst_grid_at(u->c->job->grid, rank).tensor == u->at.tensor;
}

/* Ranks with the parameter. */
static uint32_t count_holders(const updates *u, uint32_t param) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < u->c->job->grid.pipeline; s++)
        n += pst_checker_holds(u->c, param, s) ? u->c->job->grid.data : 0;
    return n;
}

/* The piece that an instruction names. */
static pst_status find_piece(const updates *u, uint32_t i, pst_piece *at) {
    const pst_instr *in = &u->list->instr[i];
    *at = (pst_piece){.param = in->param, .from = in->from};
    if (in->param >= u->share->n_param || !pst_share_find(u->share, at) || at->n != in->n)
        return pst_checker_fail_at(u->c, u->rank, i, "the elements are not exactly one shard");
    return PST_OK;
}

static void note_readers(updates *u, uint32_t i) {
    uint32_t n;
    const pst_step *step = pst_job_steps(u->c->cut, &u->list->instr[i], &n);
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t k = 0; k < step[s].n_operand; k++)
            if (step[s].operand[k].kind == PST_OPERAND_PARAM) u->read[step[s].operand[k].index] = i;
}

/* Where everything is. */
static pst_status note_all(updates *u) {
    for (uint32_t i = 0; i < u->list->n_instr; i++) {
        const pst_instr *in = &u->list->instr[i];
        pst_piece at;
        if (in->opcode <= PST_OP_BW) note_readers(u, i);
        if (in->opcode == PST_OP_VALIDATE) u->validate = i;
        if (!in->n || (in->opcode != PST_OP_REDUCE && in->opcode != PST_OP_STEP)) continue;
        PST_TRY(find_piece(u, i, &at));
        const uint32_t k = number_of(u, at.param, at.from);
        if (in->opcode == PST_OP_REDUCE) u->reduce[k] = i;
        else if (u->step[k] != PST_NONE ||
                 pst_checker_owner(u->c, at.param, at.owner, u->at) != u->rank)
            return fail_update(u, &at, "it is updated twice, or by a rank that is not its owner");
        else u->step[k] = i;
        if (in->opcode == PST_OP_STEP && u->stepped == PST_NONE) u->stepped = i;
    }
    return PST_OK;
}

static pst_status check_message(updates *u, uint32_t i) {
    const pst_instr *in = &u->list->instr[i];
    pst_piece at;
    PST_TRY(find_piece(u, i, &at));
    const uint32_t k = number_of(u, at.param, at.from);
    const uint32_t owner = pst_checker_owner(u->c, at.param, at.owner, u->at);
    if (in->use != PST_NONE ||
        in->bytes != in->n * (uint64_t)pst_dtype_bytes(u->c->cut->graph->dtype))
        return fail_update(u, &at, "the message is not for a weight");
    u->messages[k]++;
    if (in->opcode == PST_OP_RECV) {
        if (in->peer != owner || owner == u->rank || !has_parameter(u, at.param, u->rank))
            return fail_update(u, &at, "the weight is received by or from the wrong rank");
        return u->read[at.param] == PST_NONE
                   ? PST_OK
                   : pst_checker_need(u->c, u->rank, u->read[at.param], i);
    }
    if (owner != u->rank || u->step[k] == PST_NONE || !has_parameter(u, at.param, in->peer))
        return fail_update(u, &at, "the weight is sent by or to the wrong rank");
    PST_TRY(pst_checker_need(u->c, u->rank, u->step[k], i));
    return pst_checker_need(u->c, u->rank, i, u->validate);
}

/* As the messages of each pair differ in their numbers, none is sent twice to one rank. */
static pst_status check_piece(const updates *u, const pst_piece *at) {
    const uint32_t k = number_of(u, at->param, at->from);
    const int has = has_parameter(u, at->param, u->rank);
    if (pst_checker_owner(u->c, at->param, at->owner, u->at) != u->rank)
        return u->messages[k] == (uint32_t)has
                   ? PST_OK
                   : fail_update(u, at, "the new weight is not received exactly once");
    if (u->step[k] == PST_NONE || u->reduce[k] == PST_NONE || u->step[k] < u->reduce[k])
        return fail_update(u, at, "it is not updated after its gradients are added");
    return u->messages[k] == count_holders(u, at->param) - (uint32_t)has
               ? PST_OK
               : fail_update(u, at, "the new weight is not sent to all ranks with the parameter");
}

/* STEP saves what it overwrites where values of passes are. */
static pst_status check_values(const updates *u) {
    for (uint32_t i = 0; u->stepped != PST_NONE && i < u->list->n_instr; i++) {
        const pst_instr *in = &u->list->instr[i];
        if (in->opcode <= PST_OP_BW || in->local != PST_NONE)
            PST_TRY(pst_checker_need(u->c, u->rank, i, u->stepped));
    }
    return PST_OK;
}

static pst_status check_all(updates *u) {
    PST_TRY(note_all(u));
    PST_TRY(check_values(u));
    for (uint32_t i = 0; i < u->list->n_instr; i++)
        if (u->list->instr[i].queue == PST_Q_HEAD) PST_TRY(check_message(u, i));
    for (uint32_t p = 0; p < u->share->n_param; p++)
        for (pst_piece at = {.param = p}; pst_share_next(u->share, &at);)
            PST_TRY(check_piece(u, &at));
    return PST_OK;
}

static uint32_t *none(size_t n) {
    uint32_t *array = malloc((n + 1) * sizeof *array);
    if (array) memset(array, 0xff, (n + 1) * sizeof *array);
    return array;
}

pst_status pst_checker_updates(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    const pst_graph *g = c->cut->graph;
    size_t pieces = 0;
    if (!g || !list->n_flush) return PST_OK;
    updates u = {.c = c,
                 .list = list,
                 .at = pst_grid_at(c->job->grid, rank),
                 .rank = rank,
                 .stepped = PST_NONE,
                 .validate = PST_NONE,
                 .base = none(g->n_param),
                 .read = none(g->n_param)};
    u.share = c->job->share[u.at.tensor];
    for (uint32_t p = 0; u.base && p < g->n_param; p++) {
        u.base[p] = (uint32_t)pieces;
        pieces += pst_share_grains(u.share, pst_param_elements(g->param + p));
    }
    u.reduce = none(pieces);
    u.step = none(pieces);
    u.messages = calloc(pieces + 1, sizeof *u.messages);
    pst_status status =
        u.base && u.read && u.reduce && u.step && u.messages
            ? check_all(&u)
            : pst_fail(PST_ENOMEM, "no memory to check the updates of rank %u", rank);
    free(u.base);
    free(u.read);
    free(u.reduce);
    free(u.step);
    free(u.messages);
    return status;
}
