/* Uses parallel.profile for predictions: build.c asks for operators while programs are built;
 * messages and the flush get their durations here, once there are lists and a layout. */
#include "prepare/profile_use.h"
#include "backends/machine.h"
#include "backends/registry.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- this machine ----------------------------------------------------------------------------- */

/* As text in quotes. */
static void make_plain(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\') *text = '?';
}

/* Describes one device of this kind per rank. If this machine does not have the device, only its
 * name is known. */
static void name_device(const pst_config *c, pst_profile_head *h) {
    const pst_device_config config = {.threads = h->threads};
    const pst_device_ops *ops;
    if (!strcmp(c->parallel.device, "timed")) return;
    if (pst_registry_device(c->parallel.device, &config, &ops) != PST_OK) {
        snprintf(h->device, sizeof h->device, "%s", c->parallel.device);
        pst_error_clear();
        return;
    }
    if (pst_registry_is_host(ops)) return;
    const char *model = ops->model ? ops->model(&config) : "";
    h->ranks = 1;
    snprintf(h->device, sizeof h->device, "%s", ops->name);
    snprintf(h->model, sizeof h->model, "%s", model);
    make_plain(h->model);
}

void pst_profile_here(const pst_config *c, uint32_t threads, pst_profile_head *h) {
    uint32_t isa = pst_cpu_isa();
    time_t now = time(NULL);
    struct tm day;
    *h = (pst_profile_head){.cpus = pst_machine_cpus(), .threads = threads};
    h->ranks = h->cpus / threads;
    if (h->ranks < 1) h->ranks = 1;
    if (h->ranks > PST_PROFILE_MOST_RANKS) h->ranks = PST_PROFILE_MOST_RANKS;
    pst_machine_cpu_model(h->cpu, sizeof h->cpu);
    make_plain(h->cpu);
    snprintf(h->isa, sizeof h->isa, "%s", pst_isa_name(isa));
    snprintf(h->precision, sizeof h->precision, "%s", c->train.precision);
    snprintf(h->optimizer, sizeof h->optimizer, "%s%s", c->train.optimizer,
             strcmp(c->train.optimizer_state, "bf16") ? "" : "-bf16");
    snprintf(h->penstock, sizeof h->penstock, "%s", PST_VERSION);
    strftime(h->date, sizeof h->date, "%Y-%m-%d", gmtime_r(&now, &day));
    name_device(c, h);
}

/* --- does a profile fit ----------------------------------------------------------------------- */

/* If nothing is computed on this machine (device timed, or a plan for GPUs of a cluster), a profile
 * of any machine is accepted. */
static pst_status check_machine(const pst_config *c, const pst_device_kind *kind, uint32_t threads,
                                pst_processors processors, const pst_profile *profile) {
    pst_profile_head here;
    const pst_profile_head *head = pst_profile_head_of(profile);
    pst_profile_here(c, threads, &here);
    if (processors.n) here.cpus = processors.n;
    if (processors.bound && here.cpus < head->cpus) here.cpus = head->cpus;
    if (!strcmp(c->parallel.device, "timed")) {
        memcpy(here.cpu, head->cpu, sizeof here.cpu);
        memcpy(here.isa, head->isa, sizeof here.isa);

        here.cpus = head->cpus;
    }
    int any = !strcmp(c->parallel.device, "timed") || (kind && *head->device);
    if (any) memcpy(here.device, head->device, sizeof here.device);
    if (any || !*here.model) memcpy(here.model, head->model, sizeof here.model);
    pst_status status = pst_profile_check(profile, &here);
    if (status != PST_EINPUT || *head->device || here.threads == head->threads) return status;
    uint32_t wanted = here.threads;
    here.threads = head->threads; /* if threads are the only difference */
    if (pst_profile_check(profile, &here) != PST_OK) return PST_EINPUT;
    return pst_fail(PST_EINPUT, "%s; measure another profile with penstock profile -n %u -o FILE",
                    pst_error(), wanted < here.cpus ? here.cpus / wanted : 1);
}

/* If most operators are missing, the profile is of another model. */
static pst_status check_shapes(const char *path, const pst_profile *profile, const pst_graph *graph,
                               int force, int quiet) {
    uint32_t missing, steps;
    char names[3 * PST_PROFILE_TEXT];
    PST_TRY(pst_profile_missing(profile, graph, &missing, &steps, names, sizeof names));
    if (!missing) return PST_OK;
    if (missing > steps / 2 && !force)
        return pst_fail(PST_EINPUT,
                        "the profile is of another model: %u of %u operators were not measured, "
                        "such as %s; add them with penstock profile RUN.yaml -o %s",
                        missing, steps, names, path);
    if (!quiet)
        pst_log(PST_LOG_WARN,
                "parallel.profile: %u of %u operators were not measured; their durations are "
                "estimated: %s",
                missing, steps, names);
    return PST_OK;
}

pst_status pst_profile_suits(const pst_profile *profile, const pst_profile_purpose *purpose,
                             const pst_graph *graph) {
    const pst_config *c = purpose->config;
    const int quiet = purpose->quiet;
    int force = !strcmp(c->parallel.profile_force, "true");
    pst_status status =
        check_machine(c, purpose->kind, purpose->threads, purpose->processors, profile);
    if (status == PST_EINPUT && force) {
        if (!quiet)
            pst_log(PST_LOG_WARN,
                    "parallel.profile: %s is used although it does not match "
                    "(parallel.profile_force): %s",
                    c->parallel.profile, pst_error());
        status = PST_OK;
    }
    if (status == PST_OK) status = check_shapes(c->parallel.profile, profile, graph, force, quiet);
    if (status != PST_EINPUT) return status;
    return pst_fail(status,
                    "parallel.profile: %s: %s; to use it anyway, set parallel.profile_force=true",
                    c->parallel.profile, pst_error());
}

/* Ranks that share processors slow each other down by more than the profile has measured. */
void pst_profile_warn(const pst_profile *profile, const pst_config *config, uint32_t n_rank,
                      uint32_t threads) {
    const pst_profile_head *head = pst_profile_head_of(profile);
    if (!*head->device && strcmp(config->parallel.device, "timed") && n_rank > head->ranks)
        pst_log(PST_LOG_WARN,
                "parallel.profile: predictions assume that ranks share no processors, but %u ranks "
                "of %u thread%s on one machine share %u processors",
                n_rank, threads, threads > 1 ? "s" : "", head->cpus);
}

/* How many ranks compute at the same time, in the profile's sense. */
static uint32_t busy_ranks(const pst_prepared *p) {
    uint32_t ranks = p->profile ? pst_profile_head_of(p->profile)->ranks : 1;
    return p->options.n_rank < ranks ? p->options.n_rank : ranks;
}

pst_status pst_profile_open_for(pst_prepared *p) {
    const char *path = p->config->parallel.profile;
    if (!*path || p->options.infer) return PST_OK;
    pst_status status = pst_profile_load(path, &p->profile);
    if (status != PST_OK) return pst_fail_in(status, "parallel.profile");
    if (!pst_costs_profiled(p->costs.kind, p->profile)) {
        if (!p->options.quiet)
            pst_log(PST_LOG_WARN,
                    "parallel.profile: %s was measured on other devices, so durations on %s are "
                    "estimated",
                    path, p->costs.kind->name);
        pst_profile_close(p->profile);
        p->profile = NULL;
        return PST_OK;
    }
    const pst_profile_purpose purpose = {p->config, p->costs.kind, p->options.threads,
                                         p->options.processors, p->options.quiet};
    status = pst_profile_suits(p->profile, &purpose, p->graph);
    if (status == PST_OK && !p->options.quiet)
        pst_profile_warn(p->profile, p->config, p->options.n_rank, p->options.threads);
    p->costs.profile = p->profile;
    p->costs.busy = busy_ranks(p);
    return status;
}

/* --- durations in the lists ------------------------------------------------------------------- */

/* As if all ranks were on one host: links between hosts are measured when the run starts (link.h).
 */
static void time_messages(const pst_profile *profile, pst_job *job) {
    uint64_t latency = pst_profile_ns(profile, PST_PROFILE_MESSAGE, 1, 1);
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            pst_instr *in = &job->list[r].instr[i];
            if (in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) continue;
            uint64_t ns = pst_profile_ns(profile, PST_PROFILE_MESSAGE, in->bytes, 1);
            if (ns) {
                in->ns = ns;
                in->wire_ns = ns > latency ? ns - latency : 0;
            }
        }
}

void pst_profile_time_messages(pst_prepared *p) {
    if (p->profile && !p->costs.stage_link) time_messages(p->profile, p->job);
}
