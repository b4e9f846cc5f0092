/* Loads the plan for `penstock simulate` and prepares it as its run would. */
#include "backends/machine.h"
#include "commands/study_parts.h"
#include "prepare/planned.h"
#include <string.h>

/* Sets the duration of every message, as a link's latency. */
static void set_transfers(pst_job *job, uint64_t ns) {
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            if (job->list[r].instr[i].queue != PST_Q_COMPUTE) job->list[r].instr[i].ns = ns;
}

/* Also in steps without outer step. */
static pst_status set_all_transfers(pst_prepared *p, double ms) {
    set_transfers(p->job, (uint64_t)(ms * 1e6));
    pst_prepared *other;
    for (uint32_t i = 0; (other = pst_prepared_other(p, i)); i++)
        PST_TRY(set_all_transfers(other, ms));
    return pst_prepare_predict(p);
}

/* The run file that the plan names, else run.yaml beside the plan. */
pst_status pst_study_plan(const pst_simulate_options *o, pst_study *s) {
    char path[1024];
    pst_plan *plan = NULL;
    const char *slash = strrchr(o->plan, '/');
    snprintf(path, sizeof path, "%.*srun.yaml", slash ? (int)(slash - o->plan + 1) : 0, o->plan);
    PST_TRY(pst_plan_load(o->plan, &plan));
    pst_status status =
        pst_config_load(plan->run ? plan->run : path, (const char *const *)plan->override,
                        plan->n_override, &s->config);
    if (status == PST_OK && (plan->run || pst_config_is_auto(s->config)))
        status = pst_planned_apply(s->config, plan, o->plan);
    if (status == PST_OK)
        status = pst_costs_program_parse(o->program ? o->program : "penstock", &s->program);
    if (status == PST_OK) {
        pst_prepare_options options = {.threads = 1,
                                       .isa = pst_prepare_isa_to_inspect(s->config),
                                       .plan = plan,
                                       .twins = s->config->elastic.min > 0,
                                       .n_eval_micro = plan->layout.n_micro};
        options.n_rank = plan->layout.data
                             ? pst_plan_job_ranks(plan)
                             : pst_prepare_job_ranks(s->config, plan->layout.pipeline);
        options.score = !o->transport;
        options.what_if = o->what_if;
        options.n_what_if = (uint32_t)o->n_what_if;
        options.program = &s->program;
        if (s->config->parallel.threads) options.threads = (uint32_t)s->config->parallel.threads;
        else if (plan->run && !*s->config->parallel.cluster)
            options.threads = pst_machine_threads(options.n_rank);
        status = pst_prepare(s->config, &options, &s->prepared);
    }
    pst_plan_close(plan);
    PST_TRY(status);
    if (o->transfer_ms > 0) PST_TRY(set_all_transfers(s->prepared, o->transfer_ms));
    const uint32_t lane = s->prepared->options.lane;
    s->schedule = s->prepared->schedules[lane ? lane - 1 : 0];
    s->cut = s->prepared->cuts[0];
    s->job = s->prepared->job;
    s->bound_ns = pst_simulate_bound(s->job);
    s->fits = 1;
    return PST_OK;
}
