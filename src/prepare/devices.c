/* The device of each rank, and how slow it is. */
#include "backends/machine.h"
#include "backends/registry.h"
#include "pipeline/cluster/cluster.h"
#include "prepare/layout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static pst_status read_devices(const pst_config *c, uint32_t n, uint32_t *device) {
    for (uint32_t r = 0; r < n; r++)
        PST_TRY(pst_prepare_whole("parallel.devices", c->parallel.devices[r], 0,
                                  PST_CLUSTER_MAX_DEVICES - 1, &device[r]));
    return PST_OK;
}

static pst_status check_devices(const pst_config *c, uint32_t n, const uint32_t *device) {
    for (uint32_t r = 0; r < n && !*c->parallel.cluster; r++)
        if (device[r] >= n)
            return pst_fail(PST_EINPUT,
                            "parallel.devices: rank %u has device %u, but without parallel.cluster "
                            "a run of %u rank%s has devices 0 to %u",
                            r, device[r], n, n == 1 ? "" : "s", n - 1);
    return PST_OK;
}

pst_status pst_prepare_layout_devices(const pst_config *c, const pst_plan *plan, uint32_t n,
                                      uint32_t **device) {
    int planned = plan && plan->layout.device && pst_plan_job_ranks(plan) == n;
    uint32_t given = planned ? 0 : c->parallel.n_devices;
    if (given && given != n)
        return pst_fail(PST_EINPUT,
                        "parallel.devices has %u devices for %u ranks; give one device per rank",
                        given, n);
    if (!given && !planned) return PST_OK;
    uint32_t *own = malloc(n * sizeof *own);
    if (!own) return pst_fail(PST_ENOMEM, "no memory for the devices of %u ranks", n);
    pst_status status = PST_OK;
    if (given) status = read_devices(c, n, own);
    else memcpy(own, plan->layout.device, n * sizeof *own);
    if (status == PST_OK) status = check_devices(c, n, own);
    if (status == PST_OK) *device = own;
    else free(own);
    return status;
}

/* Which of the n launched processes runs each rank. */
static pst_status find_processes(const uint32_t *device, uint32_t n, uint32_t *process) {
    uint32_t *owner = malloc(PST_CLUSTER_MAX_DEVICES * sizeof *owner), used = 0;
    pst_status status =
        owner ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the devices of %u ranks", n);
    for (uint32_t d = 0; owner && d < PST_CLUSTER_MAX_DEVICES; d++) owner[d] = n;
    for (uint32_t r = 0; r < n && status == PST_OK; r++) {
        if (owner[device[r]] < n)
            status = pst_fail(
                PST_EINPUT,
                "parallel.devices: ranks %u and %u both have device %u; expected different ones",
                owner[device[r]], r, device[r]);
        else owner[device[r]] = r;
    }
    for (uint32_t d = 0; status == PST_OK && d < PST_CLUSTER_MAX_DEVICES; d++)
        if (owner[d] < n) process[owner[d]] = used++;
    free(owner);
    return status;
}

pst_status pst_prepare_assign_devices(const pst_config *c, const pst_plan *plan, uint32_t n,
                                      uint32_t *device, uint32_t *process) {
    uint32_t *own = NULL;
    PST_TRY(pst_prepare_layout_devices(c, plan, n, &own));
    for (uint32_t r = 0; r < n; r++) device[r] = own ? own[r] : r;
    free(own);
    return find_processes(device, n, process);
}

static pst_status read_throttle(pst_prepared *p, const uint32_t *process) {
    const pst_config *c = p->config;
    uint32_t n = p->options.n_rank, given = p->options.infer ? 0 : c->parallel.n_throttle;
    if (given > 1 && given != n)
        return pst_fail(PST_EINPUT,
                        "parallel.throttle has %u factors for %u ranks; give one factor per rank, "
                        "or one for all ranks",
                        given, n);
    for (uint32_t r = 0; r < n; r++) {
        p->throttle[r] = 1;
        if (given)
            PST_TRY(pst_prepare_number("parallel.throttle",
                                       c->parallel.throttle[given > 1 ? process[r] : 0], 1, 1000,
                                       &p->throttle[r]));
        /* A rank cannot sleep between operators that are queued on a device. */
        if (p->throttle[r] > 1 && p->options.device && p->options.device->flags & PST_DEVICE_ASYNC)
            return pst_fail(PST_EINPUT,
                            "parallel.throttle needs a CPU, but device %s is not a CPU; omit "
                            "parallel.throttle, or use parallel.device=cpu",
                            p->options.device->name);
    }
    return PST_OK;
}

static pst_status assign_devices(pst_prepared *p) {
    uint32_t n = p->options.n_rank, *process = malloc(n * sizeof *process);
    pst_status status =
        process ? PST_OK : pst_fail(PST_ENOMEM, "no memory to prepare a run of %u ranks", n);
    const uint32_t *device = p->plan->layout.device;
    for (uint32_t r = 0; r < n; r++) p->device[r] = device ? device[r] : r;
    if (status == PST_OK) status = find_processes(p->device, n, process);
    if (status == PST_OK) status = read_throttle(p, process);
    free(process);
    return status;
}

/* From the cluster file, else from parallel.throttle. The ranks of a tensor group wait for each
 * other in every layer, so all are as slow as the slowest. */
pst_status pst_prepare_devices(pst_prepared *p) {
    uint32_t n = p->options.n_rank, group;
    p->throttle = malloc(n * sizeof *p->throttle);
    p->slow = malloc(n * sizeof *p->slow);
    p->device = malloc(n * sizeof *p->device);
    if (!p->throttle || !p->slow || !p->device)
        return pst_fail(PST_ENOMEM, "no memory to prepare a run of %u ranks", n);
    PST_TRY(assign_devices(p));
    PST_TRY(pst_prepare_cluster(p));
    for (uint32_t r = 0; r < n; r++)
        p->slow[r] = p->cluster ? pst_prepare_slow(p, r) : p->throttle[r];
    for (uint32_t first = 0; first < n; first += group) {
        group = pst_grid_degree(p->grid, pst_grid_stage(p->grid, first));
        double slowest = 0;
        for (uint32_t t = 0; t < group; t++) slowest = fmax(slowest, p->slow[first + t]);
        for (uint32_t t = 0; t < group; t++) p->slow[first + t] = slowest;
    }
    return PST_OK;
}

pst_status pst_prepare_kind(const pst_config *c, pst_prepare_options *options) {
    const pst_device_config config = {.threads = options->threads};
    PST_TRY(pst_registry_device(c->parallel.device, &config, &options->device));
    options->isa = pst_cpu_isa() | (pst_registry_is_host(options->device) ? 0 : PST_ISA_CUDA);
    return PST_OK;
}

const pst_device_ops *pst_prepare_device_of(const pst_config *c, const pst_device_kind *kind) {
    return pst_costs_is_cpu(kind) ? NULL : pst_registry_gpu(c->parallel.device);
}

uint32_t pst_prepare_isa_to_inspect(const pst_config *c) {
    uint32_t isa = pst_cpu_isa() | PST_ISA_CUDA;
    if (pst_dtype_stored(pst_dtype_of_precision(c->train.precision)) == PST_BF16)
        isa |= PST_ISA_AVX2 | PST_ISA_F16C | PST_ISA_AVX512 | PST_ISA_AVX512_BF16;
    return isa;
}

static const pst_device_kind *kind_of(const pst_device_ops *device) {
    const pst_device_config config = {.threads = 1};
    uint32_t n, i = 0;
    const pst_device_kind *kind = pst_device_kinds(&n);
    if (pst_registry_is_host(device) || !device->model) return NULL;
    const char *model = device->model(&config);
    while (i < n && (!model || !pst_costs_is_kind(kind + i, model))) i++;
    return i < n ? kind + i : NULL;
}

const pst_device_kind *pst_prepare_datasheet(const pst_config *c, const pst_device_ops *device) {
    return *c->parallel.profile ? NULL : kind_of(device);
}

void pst_prepare_peak(const pst_prepared *p, pst_peak *peak) {
    const pst_device_kind *kind = kind_of(p->options.device);
    *peak = (pst_peak){.flops = 0};
    if (pst_registry_is_host(p->options.device)) {
        peak->flops = pst_cpu_peak_flops(p->options.isa, p->graph->dtype, p->options.threads);
        snprintf(peak->from, sizeof peak->from, "measured, FMA");
    } else if (kind && kind->flops[pst_graph_factors(p->graph)] > 0) {
        peak->flops = kind->flops[pst_graph_factors(p->graph)];
        snprintf(peak->from, sizeof peak->from, "datasheet of %s", kind->name);
    }
}

uint64_t pst_prepare_free(const pst_device_ops *device, uint32_t ranks_here) {
    const pst_device_config config = {.threads = 1};
    if (device && device->available) return device->available(&config, ranks_here);
    return device && device->flags & PST_DEVICE_OWN_MEMORY ? 0 : pst_machine_memory() / ranks_here;
}
