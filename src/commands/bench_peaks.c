/* Peaks of a module's device: the rates of a large matrix product and a large copy. */
#include "backends/registry.h"
#include "commands/bench_case.h"
#include <string.h>

enum { ROUNDS = 3, SMALL = 1024, LARGE = 8192, COPIED = 256 << 20 };
#define LONG_NS UINT64_C(1000000) /* stop enlarging the product once it takes this long */

static pst_status least_of(const pst_bench_target *target, pst_launch_fn fn, const void *call,
                           uint64_t *least) {
    *least = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ns;
        PST_TRY(pst_bench_target_time(target, fn, call, &ns));
        if (ns < *least) *least = ns;
    }
    return PST_OK;
}

/* Timed by the copies' own events; each copy is queued right behind another. */
static pst_status copy_half(pst_device *d, uint8_t *base, uint64_t *least) {
    *least = UINT64_MAX;
    for (int i = 0; i < 2 * ROUNDS; i++) {
        uint64_t event = 0, ns;
        for (int k = 0; k < 2; k++)
            PST_TRY(d->ops->copy(d, PST_Q_COMPUTE, base + COPIED, base, COPIED, &event));
        PST_TRY(pst_bench_target_await(d, event, &ns));
        if (ns < *least) *least = ns;
    }
    return PST_OK;
}

static pst_status time_copy(const pst_device_ops *ops, const pst_device_config *config,
                            double *bytes_per_s) {
    pst_bench_target target;
    uint64_t ns = 1;
    pst_status status = pst_bench_target_open(ops, config, &target);
    if (status == PST_OK) status = pst_bench_target_reserve(&target, 2 * (uint64_t)COPIED);
    if (status == PST_OK) status = copy_half(target.device, target.arena.base, &ns);
    pst_bench_target_close(&target);
    *bytes_per_s = 2.0 * COPIED / ((double)ns * 1e-9);
    return status;
}

typedef struct {
    const pst_kernel_row *row;
    pst_call call;
} product;

static pst_status run_product(pst_device *d, const void *block) {
    const product *p = block;
    return p->row->launch(d, &p->call);
}

static pst_status time_node(pst_bench_target *target, const pst_graph *g, const pst_node *node,
                            uint64_t *ns) {
    pst_bench_case c;
    product p = {.row = NULL};
    void *arg[PST_MAX_ARG];
    uint32_t index;
    PST_TRY(pst_registry_choose_kernel(g, node, 0, PST_PASS_F, target->device, &index));
    p.row = pst_registry_kernel(index);
    if (p.row->prepare) PST_TRY(p.row->prepare(target->device, g, node));
    pst_bench_case_list(g, node,
                        p.row->scratch ? p.row->scratch(g, node, target->device->threads) : 0, &c);
    PST_TRY(pst_bench_case_place(&c, target));
    pst_bench_case_call(&c, PST_PASS_F, 1, arg, &p.call);
    return least_of(target, run_product, &p, ns);
}

/* Times a product of n x n matrices: the first linear layer of a small mlp. */
static pst_status time_product(const pst_device_ops *ops, const pst_device_config *config,
                               pst_dtype dtype, uint32_t n, uint64_t *ns) {
    const pst_model_config sizes = {.layers = 1,
                                    .channels = n,
                                    .context = n,
                                    .vocabulary = 2,
                                    .micro_batch = 1,
                                    .dtype = dtype};
    pst_bench_target target = {.device = NULL};
    pst_graph *g = NULL;
    uint32_t i = 0;
    PST_TRY(pst_model_mlp.build(&sizes, &g));
    while (strcmp(g->node[i].op->name, "linear")) i++;
    pst_status status = pst_bench_target_open(ops, config, &target);
    if (status == PST_OK) status = time_node(&target, g, g->node + i, ns);
    pst_bench_target_close(&target);
    pst_graph_close(g);
    return status;
}

pst_status pst_bench_peaks(const pst_device_ops *ops, const pst_device_config *config,
                           pst_dtype dtype, double *flops_per_s, double *bytes_per_s) {
    uint64_t n = SMALL, ns = 1;
    PST_TRY(time_product(ops, config, dtype, SMALL, &ns));
    if (ns < LONG_NS) {
        n = LARGE;
        PST_TRY(time_product(ops, config, dtype, LARGE, &ns));
    }
    *flops_per_s = 2.0 * (double)(n * n * n) / ((double)ns * 1e-9);
    return time_copy(ops, config, bytes_per_s);
}
