/* Chooses the kernel of an operator, and the scratch that it needs. Declared in prepare.h. */
#include "graph/exchange.h"
#include "prepare/prepare.h"

pst_status pst_prepare_choose(void *arg, const pst_graph *g, const pst_node *node, int extra,
                              pst_pass pass, pst_chosen *chosen) {
    const pst_device *device = arg;
    if (pst_node_exchange(node, extra, pass)) { /* no kernel computes an exchange */
        int far = device->ops && device->ops->flags & PST_DEVICE_OWN_MEMORY;
        chosen->kernel = 0;
        chosen->scratch = (far ? pst_far_exchange_scratch : pst_exchange_scratch)(g, node, pass);
        return PST_OK;
    }
    PST_TRY(pst_registry_choose_kernel(g, node, extra, pass, device, &chosen->kernel));
    const pst_kernel_row *row = pst_registry_kernel(chosen->kernel);
    chosen->scratch = row->scratch ? row->scratch(g, node, device->threads) : 0;
    return PST_OK;
}
