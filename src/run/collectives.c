/* See collectives.h. The default is exact everywhere. If it depended on the predicted cost, a run's
 * bits would depend on its layout in one more way. */
#include "backends/registry.h"
#include "base/log.h"
#include "partition/cost/costs.h"
#include "kernels/module.h"
#include "run/collectives.h"
#include <string.h>

#define MIN_SAVED 0.05

static int is_fast(const pst_prepared *p) {
    return !strcmp(p->config->parallel.collectives, "fast");
}

static int has_tensor_ranks(const pst_prepared *p) {
    for (uint32_t s = 0; s < p->grid.pipeline; s++)
        if (pst_grid_degree(p->grid, s) > 1) return 1;
    return 0;
}

pst_status pst_collectives_check(const pst_prepared *p) {
    const pst_direct_ops *direct = NULL;
    if (!is_fast(p) || !has_tensor_ranks(p)) return PST_OK;
    PST_TRY(pst_registry_direct(p->config->parallel.transport, p->options.device,
                                p->options.ranks_here, &direct));
    if (direct && direct->sum) return PST_OK;
    return pst_fail(PST_EINPUT, "parallel.collectives fast needs GPUs and parallel.transport=nccl; "
                                "omit parallel.collectives");
}

static double saved_ns(const pst_prepared *p, uint32_t rank) {
    const pst_instr_list *list = p->job->list + rank;
    const pst_cut *cut = p->cuts[pst_grid_at(p->grid, rank).tensor];
    uint32_t parts = pst_grid_degree(p->grid, pst_grid_at(p->grid, rank).stage);
    double ns = 0;
    for (uint32_t i = 0; parts > 1 && i < list->n_instr; i++) {
        if (list->instr[i].opcode > PST_OP_BW) continue;
        uint32_t n;
        const pst_step *first = pst_job_steps(cut, list->instr + i, &n);
        for (const pst_step *s = first; s < first + n; s++)
            ns += (double)pst_costs_exact_ns(&p->costs, (pst_exchange)s->exchange, parts, s->bytes);
    }
    return ns;
}

double pst_collectives_saved_share(const pst_prepared *p) {
    double most = 0;
    for (uint32_t r = 0; p->timing->step_ns && r < p->options.n_rank; r++) {
        double ns = saved_ns(p, r);
        if (ns > most) most = ns;
    }
    return most ? most / (most + (double)p->timing->step_ns) : 0;
}

void pst_collectives_advise(const pst_prepared *p) {
    if (is_fast(p) && !has_tensor_ranks(p))
        pst_log(PST_LOG_WARN, "parallel.collectives has no effect without parallel.tensor");
    if (!strcmp(p->config->parallel.gradients, "bf16") && p->grid.data == 1)
        pst_log(PST_LOG_WARN, "parallel.gradients has no effect without parallel.data");
    if (is_fast(p) || strcmp(p->config->parallel.transport, "nccl")) return;
    double saved = pst_collectives_saved_share(p);
    if (saved > MIN_SAVED)
        pst_log(PST_LOG_WARN,
                "sums over tensor ranks in fixed order (parallel.collectives exact) are predicted "
                "to take %.0f%% of a step; parallel.collectives=fast is faster, but its results "
                "have different bits",
                saved * 100);
}
