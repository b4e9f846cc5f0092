/* Checks the additions of one lane in the flush: for every accumulator, the gradients of all
 * further uses of a parameter are added once; then all accumulators are added to the first one in
 * the order of a binary tree. */
#include "pipeline/check/flush.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_interval sum; /* of parts, in this part's accumulator of use 0 */
    uint32_t joined;  /* number of other uses that were added to it */
} part;

static pst_status fail_sum(uint32_t rank, uint32_t param, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u, flush, parameter %u: %s", rank, param, why);
}

/* One REDUCE of whole accumulators. at: [parts] of its parameter. */
static pst_status add(const pst_checker *c, uint32_t rank, const pst_instr *in, part *at) {
    uint32_t n = c->job->parts,
             further = c->cut->use_first[in->param + 1] - c->cut->use_first[in->param] - 1;
    if (in->micro >= n || in->chunk >= n) return fail_sum(rank, in->param, "unknown accumulator");
    part *sum = &at[in->chunk], *with = &at[in->micro];
    if (in->use) { /* in the order of uses */
        if (sum != with || sum->sum.hi - sum->sum.lo != 1 || sum->joined + 1 != in->use)
            return fail_sum(
                rank, in->param,
                "the gradient of a use is not added exactly once, or to another accumulator");
        sum->joined++;
        return PST_OK;
    }
    if (sum == with || sum->joined != further || with->joined != further ||
        !pst_checker_add_up(&sum->sum, &with->sum))
        return fail_sum(rank, in->param,
                        "accumulators are not added in the order of the binary tree");
    return PST_OK;
}

static pst_status check_param(const pst_checker *c, uint32_t rank, uint32_t p, const part *at) {
    uint32_t n_use = c->cut->use_first[p + 1] - c->cut->use_first[p];
    const int owner = n_use && !pst_job_is_server(c->job, rank) &&
                      c->job->rank_of_chunk[c->cut->use_chunk[c->cut->use_first[p]]] ==
                          pst_checker_stage(c, rank);
    for (uint32_t k = 0; k < c->job->parts; k++)
        if (at[k].joined != (owner ? n_use - 1 : 0))
            return fail_sum(
                rank, p, "the gradient of a use of this tied parameter is missing or added twice");
    uint32_t all = owner ? c->job->parts : 1;
    return at[0].sum.lo == 0 && at[0].sum.hi == all
               ? PST_OK
               : fail_sum(rank, p, "an accumulator is not added");
}

pst_status pst_checker_sums(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    uint32_t n_param = c->cut->graph ? c->cut->graph->n_param : 0, n = c->job->parts;
    pst_status status = PST_OK;
    part *at = calloc((size_t)n_param * n + 1, sizeof *at);
    if (!at) return pst_fail(PST_ENOMEM, "no memory to check the flush of rank %u", rank);
    for (size_t k = 0; k < (size_t)n_param * n; k++)
        at[k].sum = (pst_interval){(uint32_t)(k % n), (uint32_t)(k % n) + 1};
    for (uint32_t i = list->n_instr - list->n_flush; status == PST_OK && i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        if (in->opcode == PST_OP_REDUCE && in->param == PST_NONE)
            continue; /* that of the tensor group: pipeline/check/flush.c */
        if (in->opcode == PST_OP_REDUCE && !in->n)
            status = add(c, rank, in, at + (size_t)in->param * n);
    }
    for (uint32_t p = 0; status == PST_OK && p < n_param; p++)
        status = check_param(c, rank, p, at + (size_t)p * n);
    free(at);
    return status;
}

int pst_checker_add_up(pst_interval *sum, pst_interval *with) {
    pst_interval low = sum->lo < with->lo ? *sum : *with, high = sum->lo < with->lo ? *with : *sum;
    if (low.lo == low.hi || high.lo == high.hi || low.hi != high.lo) return 0;
    if (pst_share_split(low.lo, high.hi) != low.hi) return 0;
    *sum = (pst_interval){low.lo, high.hi};
    *with = (pst_interval){0, 0};
    return 1;
}
