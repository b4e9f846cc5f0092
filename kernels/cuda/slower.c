/* Warns when our own kernel, on CUDA cores, replaces a library's kernel on tensor cores, and
 * estimates the cost. */
#include "base/log.h"
#include "kernels/cuda/cuda.h"

/* Ratio of bf16 multiply-adds on tensor cores to fp32 ones on CUDA cores, per multiprocessor and
 * clock: 1024 and 64 on sm_80, 512 and 128 on sm_86 and sm_89, 2048 and 128 on sm_90, 4096 and 128
 * on sm_100 (CUDA Programming Guide, arithmetic instructions; the architectures' papers). */
uint32_t pst_cuda_slowdown(const pst_cuda_device *d) {
    if (d->capability == 80 || d->capability / 10 == 9) return 16;
    return d->capability / 10 == 10 ? 32 : 4;
}

static double flops_of(const pst_graph *g, const pst_node *node, pst_pass pass) {
    uint64_t flops = 0, bytes = 0;
    node->op->cost(g, node, pass, &flops, &bytes);
    return (double)flops;
}

/* The share of a step's FLOPs that operators of this kind compute in this pass. */
static double share_of(const pst_graph *g, const pst_op_row *op, pst_pass pass) {
    double own = 0, all = 0;
    for (const pst_node *node = g->node; node < g->node + g->n_node; node++)
        for (pst_pass p = 0; p < PST_PASS_COUNT; p++) {
            double flops = flops_of(g, node, p);
            all += flops;
            if (node->op == op && p == pass) own += flops;
        }
    return all > 0 ? own / all : 0;
}

void pst_cuda_warn_slower(const pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass, const char *why) {
    static const char *const letter[] = {
        [PST_PASS_F] = "F", [PST_PASS_B] = "B", [PST_PASS_W] = "W"};
    const uint32_t times = pst_cuda_slowdown((const pst_cuda_device *)device);
    pst_log(
        PST_LOG_WARN,
        "%s: pass %s of %s runs on CUDA cores instead of tensor cores and takes at least %u times "
        "as long; all such operators together make a step about %.1f times as long; reason: %s",
        node->name, letter[pass], node->op->name, times,
        1 + share_of(g, node->op, pass) * (times - 1), why);
}
