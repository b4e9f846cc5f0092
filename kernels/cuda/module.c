/* libpenstock-cuda.so as the program sees it: one function. */
#include "kernels/cuda/cuda.h"
#include "kernels/module_host.h"
#ifdef PST_NCCL
#include "kernels/cuda/nccl/nccl.h"
#endif
#include <stdlib.h>
#include <string.h>

static pst_module module = {.version = PST_MODULE_VERSION,
                            .bytes = sizeof module,
                            .name = "cuda",
                            .device = &pst_device_cuda};

/* Succeeds without a driver, too: what is missing is what the device's row rejects with, and
 * `about` tells. */
__attribute__((visibility("default"))) const pst_module *
pst_module_open(const pst_module_host *given) {
    pst_module_host_set(given);
    if (given->version != PST_MODULE_VERSION || given->bytes != sizeof *given) {
        pst_fail(
            PST_EINPUT,
            "it was built from another source than the program: build and install both together");
        return NULL;
    }
    if (strcmp(given->build, PST_VERSION)) {
        pst_fail(PST_EINPUT, "it is of penstock %s, the program is %s", PST_VERSION, given->build);
        return NULL;
    }
    /* Read by the driver when it is first called. Streams that share one of the usual 8 queues to
     * the device wait for each other, and NCCL's for other ranks. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    /* NCCL would connect each algorithm at its first use, in the midst of a step: it waits for the
     * other ranks then, and takes memory that nobody has counted. So it connects all at set-up. */
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    module.kernel = pst_cuda_rows_all(&module.n_kernel);
    module.arith = &pst_cuda_arith;
    module.choices = &pst_cuda_choices;
    module.about = pst_cuda_about;
#ifdef PST_NCCL
    module.direct = &pst_direct_nccl;
#endif
    return &module;
}
