/* The line of metrics.jsonl that starts a run or its continuation: facts about the run that are
 * not in run.yaml and plan.yaml. */
#include "backends/machine.h"
#include "base/version.h"
#include "comm/transport/version.h"
#include "kernels/version.h"
#include "penstock/run.h"
#include "metrics/parts.h"
#include <time.h>
#include <unistd.h>

double pst_metrics_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static json_t *model(const pst_prepared *p) {
    const pst_model_config *m = &p->model_config;
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < p->whole->n_param; i++)
        if (!p->whole->param[i].adapter) parameters += pst_param_elements(p->whole->param + i);
    return json_pack("{s:s,s:I,s:i,s:i,s:i,s:i,s:i}", "kind", p->config->model.kind, "parameters",
                     (json_int_t)parameters, "layers", (int)m->layers, "heads", (int)m->heads,
                     "channels", (int)m->channels, "context", (int)m->context, "vocabulary",
                     (int)m->vocabulary);
}

static json_t *machine(const pst_prepared *p) {
    char cpu[256], host[256] = "";
    uint32_t isa = p->options.isa;
    const char *kernels = isa & PST_ISA_AVX2 ? "avx2" : "plain C";
    if (isa & PST_ISA_AVX512) kernels = "avx512";
    if (!pst_registry_is_host(p->options.device)) kernels = p->options.device->name;
    gethostname(host, sizeof host - 1);
    return json_pack("{s:s,s:s,s:s,s:i,s:i}", "host", host, "cpu",
                     pst_machine_cpu_model(cpu, sizeof cpu), "kernels", kernels, "processors",
                     (int)pst_machine_cpus(), "threads", (int)p->options.threads);
}

static json_t *versions(void) {
    const char *commit = *pst_commit() ? pst_commit() : NULL;
    return json_pack("{s:s,s:s*,s:s,s:s,s:s}", "penstock", pst_version(), "commit", commit,
                     "onednn", pst_kernels_onednn_version(), "ucx", pst_comm_ucx_version(), "pmix",
                     pst_comm_pmix_version());
}

/* {"weights": [bytes per rank], ...} in memory order; NULL: no memory, like everything here. */
static json_t *regions(const pst_prepared *p) {
    json_t *all = json_object();
    int failed = !all;
    for (int region = 0; region < PST_REGION_COUNT; region++) {
        json_t *bytes = json_array();
        for (uint32_t r = 0; r < p->options.n_rank; r++)
            failed |=
                json_array_append_new(bytes, json_integer((json_int_t)p->memory[r]->bytes[region]));
        failed |= json_object_set_new(all, pst_region_name((pst_region)region), bytes);
    }
    if (!failed) return all;
    json_decref(all);
    return NULL;
}

json_t *pst_metrics_start(const pst_prepared *p, uint64_t step, const pst_peak *peak) {
    const uint64_t steps = (uint64_t)p->config->train.steps, batch = pst_prepared_batch(p),
                   tokens = pst_batches_before(&p->batches, steps) * (p->tokens / batch);
    return json_pack("{s:s,s:I,s:I,s:I,s:f,s:o,s:o,s:o,s:f,s:s,s:I,s:o}", "event", "start", "step",
                     (json_int_t)step, "steps", (json_int_t)steps, "run_tokens", (json_int_t)tokens,
                     "time", pst_metrics_time(), "model", model(p), "machine", machine(p),
                     "versions", versions(), "peak_flops", peak->flops, "peak_from", peak->from,
                     "memory_limit_bytes", (json_int_t)p->memory_limit, "predicted_region_bytes",
                     regions(p));
}
