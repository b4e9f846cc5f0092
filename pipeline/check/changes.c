/* Checks the changes of weights at the end of the flush (job.down): the owner of a piece packs its
 * change once, behind STEP, and sends it; every other rank with the parameter receives each piece
 * once from its owner and adds it once. (pipeline/check/message.c has checked that both ends of a
 * message name the same piece.) */
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
    uint32_t *base; /* [n_param] number of its first piece */
    /* [pieces] the PACK or RECV of each, PST_NONE; 1: unpacked */
    uint32_t *begun;
    uint8_t *added;
} changes;

static pst_status fail_piece(const changes *x, const pst_instr *in, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u: change of parameter %u from element %u: %s", x->rank,
                    in->param, in->from, why);
}

/* Whether the parameter is one of these, and this rank has a use of it. */
static int is_here(const changes *x, uint32_t param) {
    return pst_checker_holds(x->c, param, x->at.stage) &&
           pst_job_sends_changes(x->c->job, pst_checker_stage_of_use(x->c, param, 0),
                                 x->c->cut->graph->param + param);
}

static pst_status check_instr(const changes *x, uint32_t i) {
    const pst_job *job = x->c->job;
    const pst_instr *in = &x->list->instr[i];
    pst_piece whole = {.param = in->param, .from = in->from};
    if (!is_here(x, in->param) || !pst_share_find(x->share, &whole) || in->n != whole.n ||
        in->packed != (uint32_t)!job->plain)
        return fail_piece(x, in, "no such piece is sent");
    const uint32_t owner = pst_checker_owner(x->c, in->param, whole.owner, x->at);
    const uint32_t k = x->base[in->param] + in->from / PST_PIECE, begun = x->begun[k];
    const int message = in->queue != PST_Q_COMPUTE;
    if (message && in->bytes != pst_job_change_bytes(job, in->n))
        return fail_piece(x, in, "the message has another size");
    if (in->opcode == PST_OP_PACK || in->opcode == PST_OP_RECV) {
        const int packs = in->opcode == PST_OP_PACK;
        if (begun != PST_NONE || packs != (owner == x->rank) || (!packs && in->peer != owner))
            return fail_piece(x, in, "packed or received twice, or on the wrong rank");
        x->begun[k] = i;
        return pst_checker_need(x->c, x->rank, x->step, i);
    }
    if (begun == PST_NONE || (in->opcode == PST_OP_SEND) != (owner == x->rank) ||
        (in->opcode == PST_OP_UNPACK && (job->plain || x->added[k]++)))
        return fail_piece(x, in, "sent or unpacked too early, twice, or on the wrong rank");
    return pst_checker_need(x->c, x->rank, begun, i);
}

static pst_status check_all_there(const changes *x) {
    for (uint32_t p = 0; p < x->share->n_param; p++)
        for (pst_piece at = {.param = p}; is_here(x, p) && pst_share_next(x->share, &at);) {
            const uint32_t k = x->base[p] + (uint32_t)(at.from / PST_PIECE);
            const pst_instr missing = {.param = p, .from = (uint32_t)at.from};
            const int own = pst_checker_owner(x->c, p, at.owner, x->at) == x->rank;
            if (x->begun[k] == PST_NONE || (!own && !x->c->job->plain && !x->added[k]))
                return fail_piece(x, &missing, "it is not packed, or not received and unpacked");
        }
    return PST_OK;
}

static pst_status check_all(const changes *x) {
    for (uint32_t i = x->list->n_instr - x->list->n_flush; i < x->list->n_instr; i++)
        if (pst_checker_is_change(&x->list->instr[i])) PST_TRY(check_instr(x, i));
    return check_all_there(x);
}

pst_status pst_checker_changes(const pst_checker *c, uint32_t rank, uint32_t step) {
    const pst_graph *g = c->cut->graph;
    changes x = {.c = c,
                 .list = &c->job->list[rank],
                 .at = pst_grid_at(c->job->grid, rank),
                 .rank = rank,
                 .step = step};
    size_t pieces = 0;
    x.share = c->job->share[x.at.tensor];
    x.base = malloc((g->n_param + (size_t)1) * sizeof *x.base);
    for (uint32_t p = 0; x.base && p < g->n_param; p++) {
        x.base[p] = (uint32_t)pieces;
        pieces += pst_pieces(pst_param_elements(g->param + p));
    }
    x.begun = malloc((pieces + 1) * sizeof *x.begun);
    x.added = calloc(pieces + 1, 1);
    pst_status status = PST_OK;
    if (!x.base || !x.begun || !x.added)
        status = pst_fail(PST_ENOMEM, "no memory to check the flush of rank %u", rank);
    if (status == PST_OK) {
        memset(x.begun, 0xff, pieces * sizeof *x.begun);
        status = check_all(&x);
    }
    free(x.base);
    free(x.begun);
    free(x.added);
    return status;
}
