/* Autotuning of the device's kernels, which choose algorithms by measuring; all ranks agree on the
 * results in run/autotune.c. */
#include "backends/registry.h"
#include "base/choice.h"
#include "rank/rank.h"
#include <string.h>

int pst_rank_autotunes(const pst_prepared *p) {
    return p->optim && strcmp(p->config->parallel.products, "library") != 0;
}

pst_status pst_rank_load_autotuned(const pst_prepared *p, pst_device *device) {
    const pst_choice_ops *ops = pst_registry_choices(device->ops);
    return ops ? ops->give(device, pst_rank_autotunes(p), p->plan->choice, p->plan->n_choice)
               : PST_OK;
}
