/* Queries about an executor: the next event, the measured spans, and the current instruction or
 * wait. */
#include "pipeline/execute/executor.h"
#include "pipeline/execute/executor_query.h"
#include "pipeline/execute/executor_state.h"
#include <stdio.h>

uint64_t pst_executor_next_ns(const pst_executor *x) {
    pst_device *d = x->config.device;
    pst_transport *t = x->config.transport;
    uint64_t compute_ns =
        x->launched && !x->exchanging && d->ops->next_ns ? d->ops->next_ns(d) : PST_NEVER;
    if (x->adds && x->is_virtual && x->side_end_ns < compute_ns) compute_ns = x->side_end_ns;
    uint64_t transfer_ns = t && t->ops->next_ns ? t->ops->next_ns(t) : PST_NEVER;
    return compute_ns < transfer_ns ? compute_ns : transfer_ns;
}

const pst_span *pst_executor_spans(const pst_executor *x, uint64_t *origin) {
    if (origin) *origin = x->origin;
    return x->span;
}

int pst_executor_finished(const pst_executor *x) { return !x->n_left && !x->serving; }
int pst_executor_computes(const pst_executor *x) {
    return x->adds || (x->launched && !x->exchanging);
}
pst_transport *pst_executor_transport(const pst_executor *x) {
    return x->n_left || x->serving ? x->config.transport : NULL;
}
uint32_t pst_executor_mismatch(const pst_executor *x) { return x->mismatch; }
uint32_t pst_executor_ranks(const pst_executor *x) { return x->job ? x->job->n_rank : 0; }

/* The first instruction in list order that has not completed, compute queue first, because other
 * ranks wait for that one. */
static uint32_t first_left(const pst_executor *x) {
    uint32_t at = x->cursor[PST_Q_COMPUTE];
    if (x->n_retired != x->n_queued) return x->ahead[x->n_retired % PST_EXECUTOR_AHEAD].instr;
    if (at < x->list->n_instr) return at;
    for (at = 0; at < x->list->n_instr && x->done[at]; at++) continue;
    return at;
}

static uint32_t open_dep(const pst_executor *x, uint32_t at) {
    const pst_instr *instr = x->list->instr + at;
    for (uint32_t d = 0; d < instr->n_dep; d++)
        if (!x->done[x->list->dep[instr->dep + d]]) return x->list->dep[instr->dep + d];
    return PST_NONE;
}

/* Walks from the first incomplete instruction back along its dependencies to a transfer that has
 * been posted: dependencies are earlier, and so is what precedes a transfer in its queue. PST_NONE:
 * something can move. */
void pst_executor_publish_wait(pst_executor *x) {
    if (!x->n_left && x->serving) PST_POSITION_SET(x->at, waits_for, pst_serving_awaits(x));
    if (!x->n_left || PST_POSITION_GET(x->at, activity) != PST_AT_WAIT) return;
    uint32_t at = first_left(x);
    while (at < x->list->n_instr) {
        uint8_t queue = x->list->instr[at].queue;
        if (queue != PST_Q_COMPUTE && at < x->cursor[queue]) break;
        if (queue != PST_Q_COMPUTE) at = x->cursor[queue];
        at = open_dep(x, at);
    }
    PST_POSITION_SET(x->at, waits_for, at < x->list->n_instr ? at : PST_NONE);
}

const char *pst_executor_where(const pst_executor *x, char *buffer, uint32_t bytes) {
    char text[160], on[160];
    uint32_t at = x->list ? first_left(x) : 0;
    if (!x->list || at >= x->list->n_instr) {
        snprintf(buffer, bytes, "rank %u done", x->config.rank);
        return buffer;
    }
    const pst_instr *instr = x->list->instr + at;
    pst_instr_text(x->job, x->config.rank, at, text, sizeof text);
    uint32_t d = 0;
    while (d < instr->n_dep && x->done[x->list->dep[instr->dep + d]]) d++;
    if (d == instr->n_dep) snprintf(buffer, bytes, "%s", text);
    else
        snprintf(
            buffer, bytes, "%s after %s", text,
            pst_instr_text(x->job, x->config.rank, x->list->dep[instr->dep + d], on, sizeof on));
    return buffer;
}
