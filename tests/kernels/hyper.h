/* Numbers of an optimizer in step t, for tests of updates. */
#ifndef PST_TESTS_KERNELS_HYPER_H
#define PST_TESTS_KERNELS_HYPER_H
#include "graph/optim.h"
#include <math.h>

static inline pst_optim_hyper hyper_of(uint64_t t) {
    return (pst_optim_hyper){.lr = 3e-3f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .momentum = 0.9f,
                             .grad_scale = 0.7f,
                             .t = t,
                             .nesterov = t % 2 == 0,
                             .correction1 = (float)(1 - pow(0.9, (double)t)),
                             .correction2 = (float)(1 - pow(0.95, (double)t))};
}
#endif
