/* Runs the instruction lists of all local ranks, and before them, if needed, the all-gather of
 * weights. */
#include "group/group.h"

/* Runs the all-gather of weights with which the next training step would begin. With eager updates
 * (compile/flush.h) steps leave new weights everywhere, and this is only for the first one, and
 * after one that was not applied. */
static pst_status gather_weights(pst_group *g) {
    if (g->local[0]->p->job->eager) {
        PST_TRY(pst_group_spread_weights(g, g->local[0]->p));
        g->weights_gathered = 1;
        return PST_OK;
    }
    for (uint32_t i = 0; i < g->n_local; i++) PST_TRY(pst_rank_start_head(g->local[i]));
    PST_TRY(pst_group_drive(g));
    g->weights_gathered = 1;
    return PST_OK;
}

pst_status pst_group_run(pst_group *g, int train) {
    const pst_job *job = g->local[0]->p->job;
    if ((!train || job->eager) && !g->weights_gathered && job->zero) PST_TRY(gather_weights(g));
    for (uint32_t i = 0; i < g->n_local; i++) PST_TRY(pst_rank_start(g->local[i], train));
    if (train) g->weights_gathered = 0;
    PST_TRY(pst_group_drive(g));
    if (train && job->eager) g->weights_gathered = g->local[0]->accepted;
    return PST_OK;
}
