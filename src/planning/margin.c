/* The memory of devices that a plan leaves free: what driver, context, libraries and NCCL take, and
 * a margin. planning/planning.h declares it. */
#include "planning/planning.h"
#include "backends/registry.h"
#include "base/plural.h"
#include "config/number.h"

/* Of GPUs, without --margin: for what differs between driver and library versions. */
#define USUAL_MARGIN 0.05

/* --margin; "": not given. */
static const char *text_of(const pst_planning *x) {
    return x->options->margin ? x->options->margin : "";
}

int pst_planning_is_gpu(const pst_planning *x, const pst_cluster_device *d) {
    if (x->local) return !pst_registry_is_host(x->device);
    return !pst_costs_is_cpu(&x->cluster->kind[d->kind]);
}

/* Without --margin none is kept of CPUs, of memory that the cluster gives, or in a running job,
 * whose limit has one already. */
static double margin_of(const pst_planning *x, const pst_cluster_device *d) {
    if (*text_of(x)) return x->margin;
    return pst_planning_is_gpu(x, d) && !d->given && !x->all_ranks ? USUAL_MARGIN : 0;
}

/* All of the chip's memory; of this machine: what is free. Before the margin is subtracted. */
static uint64_t total_of(const pst_planning *x, const pst_cluster_device *d) {
    return d->given || x->local ? d->memory : x->cluster->kind[d->kind].memory;
}

static pst_status nothing_left(const pst_planning *x, const pst_cluster_device *d) {
    char total[32], reserved[32];
    const pst_device_kind *kind = &x->cluster->kind[d->kind];
    pst_planning_bytes(d->given ? 0 : pst_device_kind_reserved(kind, x->communicators), reserved);
    return pst_fail(PST_EINPUT,
                    "--margin %s: nothing is left of the %s of a device of kind %s, of which "
                    "driver, context, libraries and NCCL take %s; expected a smaller margin",
                    text_of(x), pst_planning_bytes(total_of(x, d), total), kind->name, reserved);
}

pst_status pst_planning_margin(pst_planning *x) {
    const char *text = text_of(x);
    pst_cluster *c = x->cluster;
    int one = pst_config_given(x->config, "parallel", "tensor") && x->config->parallel.tensor == 1;
    if (*text && !pst_number_share(text, &x->margin))
        return pst_fail(PST_EINPUT,
                        "--margin: expected a share of each device's memory, such as 5%% or 0.05, "
                        "found '%.40s'",
                        text);
    x->communicators = pst_device_communicators(c->n_device, one || c->n_device == 1 ? 1 : 2);
    if (!x->local) pst_cluster_reserve(c, x->communicators);
    for (uint32_t i = 0; i < c->n_device; i++) {
        pst_cluster_device *d = &c->device[i];
        uint64_t keep = (uint64_t)(margin_of(x, d) * (double)total_of(x, d));
        if (!d->memory) continue;
        if (keep && keep + 1 >= d->memory) return nothing_left(x, d);
        d->memory -= keep;
        if (!i && !*text) x->margin = margin_of(x, d);
    }
    return PST_OK;
}

void pst_planning_print_margin(const pst_planning *x, FILE *out) {
    char total[32], reserved[32];
    const pst_cluster_device *d = &x->cluster->device[0];
    const pst_device_kind *kind = &x->cluster->kind[d->kind];
    const uint64_t held =
        x->local || d->given ? 0 : pst_device_kind_reserved(kind, x->communicators);
    const uint64_t all = held ? kind->memory : (uint64_t)((double)d->memory / (1 - x->margin));
    if (!d->memory || (!held && x->margin <= 0)) return;
    fprintf(out, "            kept free of %s", pst_planning_bytes(all, total));
    if (!x->local) fprintf(out, " of each %s", kind->name);
    if (held)
        fprintf(out, ": %s for driver, context and libraries", pst_planning_bytes(held, reserved));
    if (held && x->communicators)
        fprintf(out, ", with %u NCCL communicator%s", x->communicators,
                pst_plural(x->communicators));
    if (x->margin > 0) fprintf(out, "%s a margin of %.4g%%", held ? "," : ":", x->margin * 100);
    fputc('\n', out);
}
