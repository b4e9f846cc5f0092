/* The one function that libpenstock-cuda.so exports. */
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

/* Succeeds without a driver as well: the device's reject and `about` report what is missing. */
__attribute__((visibility("default"))) const pst_module *
pst_module_open(const pst_module_host *given) {
    pst_module_host_set(given);
    if (given->version != PST_MODULE_VERSION || given->bytes != sizeof *given) {
        pst_fail(PST_EINPUT, "it was built from different sources than the program; build and "
                             "install both together");
        return NULL;
    }
    if (strcmp(given->build, PST_VERSION)) {
        pst_fail(PST_EINPUT, "it belongs to penstock %s, but the program is penstock %s",
                 PST_VERSION, given->build);
        return NULL;
    }
    /* Read by the driver when it is first called. Streams that share one of the default 8 hardware
     * queues wait for each other, and NCCL's streams wait for other ranks. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    /* By default NCCL connects an algorithm at its first use, during a step: it then waits for
     * other ranks and takes memory that is not counted. This makes it connect all at set-up. */
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
