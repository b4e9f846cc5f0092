/* Chooses where a run takes place: in this process, on local ranks, on the hosts of a file, or as a
 * rank of an existing job. */
#include "base/log.h"
#include "base/sized.h"
#include "comm/launch/launch.h"
#include "comm/world/dmlc.h"
#include "comm/world/world.h"
#include "prepare/solved_file.h"
#include "prepare/planned.h"
#include "group/compare.h"
#include "run/elastic.h"
#include "run/limits.h"
#include "run/plan_auto.h"
#include "run/resume.h"
#include "run/train.h"
#include "run/setup.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Finds the user's errors here, once, before ranks start. */
static pst_status check_local(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                              uint32_t n_rank) {
    pst_run_inputs in;
    PST_TRY(pst_setup_prepare(c, o, plan, n_rank, NULL, &in));
    in.data->row->close(in.data);
    pst_evaluate_close(&in.sets);
    pst_solved_file_write(in.p);
    pst_prepared_close(in.p);
    return PST_OK;
}

/* Passes the end of a job that this process started to the caller. */
static pst_status ended(const pst_train_options *o, const pst_launch_end *end) {
    if (o->stopped) *o->stopped = end->stopped;
    return pst_launch_ended(end);
}

/* Starts local ranks of this program and waits for them. With parallel.plan auto, the first rank
 * plans. */
static pst_status train_local(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                              uint32_t n_rank) {
    pst_launch_end end = {0};
    if (!pst_config_is_auto(c)) PST_TRY(check_local(c, o, plan, n_rank));
    if (pst_elastic_is_wanted(c, o)) PST_TRY(pst_elastic_launch(c, o, n_rank, &end));
    else PST_TRY(pst_launch_local(n_rank, o->argv, 3000, &end));
    return ended(o, &end);
}

/* The ranks for which there are slots: whole pipelines, and servers (parallel.servers auto: the
 * rest); 0: the degrees decide. */
static int64_t ranks_of_slots(const pst_config *c, uint32_t slots) {
    const int64_t lanes = pst_prepare_lanes(c), servers = pst_prepare_servers(c, slots);
    if (!strcmp(c->parallel.servers, "auto")) return slots;
    if (c->parallel.pipeline || c->parallel.n_tensors > 1) return 0;
    return slots > servers ? (slots - servers) / lanes * lanes + servers : slots;
}

/* Starts ranks on the hosts of a file: as many as requested, else as the layout needs, else as many
 * whole pipelines as there are slots for. The ranks find errors in the run file, because they know
 * their machines. */
static pst_status train_hosts(const pst_config *c, const pst_train_options *o,
                              const pst_plan *plan) {
    pst_hosts hosts;
    uint32_t n_rank;
    pst_launch_end end = {0};
    PST_TRY(pst_hosts_read(o->hostfile, &hosts));
    const int64_t slots = plan ? 0 : ranks_of_slots(c, hosts.slots);
    pst_status status = pst_planned_ranks(c, plan, o->ranks ? o->ranks : slots, &n_rank);
    const pst_launch_hosts_options options = {n_rank, (uint32_t)c->parallel.wait, NULL, {1, 1}};
    if (status == PST_OK && pst_elastic_is_wanted(c, o))
        status = pst_elastic_launch_hosts(c, o, &hosts, n_rank, &end);
    else if (status == PST_OK) status = pst_launch_hosts(&hosts, &options, o->argv, &end);
    pst_hosts_close(&hosts);
    return status == PST_OK ? ended(o, &end) : status;
}

/* The launcher of this host, for a job that train_hosts has started on another one. */
static pst_status train_host(const pst_train_options *o) {
    pst_launch_end end = {0};
    PST_TRY(pst_launch_host(o->argv, 3000, &end));
    return ended(o, &end);
}

static pst_status refuse_servers(const pst_config *c, const char *text, const char *why) {
    return pst_config_at(
        c, "parallel", "servers",
        pst_fail(PST_EINPUT,
                 "DMLC_NUM_SERVER is %s, DMLC_NUM_WORKER is %s, parallel.servers is %s: %s", text,
                 getenv("DMLC_NUM_WORKER"), c->parallel.servers, why));
}

/* With parallel.servers, the servers of ps-lite's variables are ranks behind those of the workers,
 * if both numbers are equal. Without DMLC_NUM_SERVER servers are started as workers. */
static pst_status take_servers(const pst_config *c) {
    const char *text = getenv("DMLC_ROLE") ? getenv("DMLC_NUM_SERVER") : NULL;
    const char *workers = getenv("DMLC_NUM_WORKER");
    const int any = !strcmp(c->parallel.servers, "auto");
    if (!text || !workers || !strtol(text, NULL, 10) || !strcmp(c->parallel.servers, "0"))
        return PST_OK;
    if (!any && strtol(text, NULL, 10) != strtol(c->parallel.servers, NULL, 10))
        return refuse_servers(c, text,
                              "the numbers of servers differ; use DMLC_NUM_SERVER=0 if all "
                              "of them are started as workers");
    if (strtol(workers, NULL, 10) != c->parallel.data)
        return refuse_servers(c, text,
                              "with several stages or tensor ranks each has servers of its "
                              "own; use DMLC_NUM_SERVER=0 and start them as workers, or "
                              "parallel.data with the number of workers");
    pst_dmlc_count_servers(1);
    return PST_OK;
}

/* 1: this process is not a rank, and has done its work. */
static int train_role(const pst_config *c, pst_status *status) {
    pst_dmlc_role role;
    pst_tcp_job job = {.seconds = (uint32_t)c->parallel.wait};
    const char *text = getenv("DMLC_ROLE");
    if (!text || getenv("PMIX_RANK") || getenv("RANK")) return 0;
    *status = take_servers(c);
    if (*status == PST_OK && pst_dmlc_is_rank()) return 0;
    if (*status == PST_OK) *status = pst_dmlc_read(&role, &job);
    if (*status == PST_OK && role == PST_DMLC_SCHEDULER) *status = pst_dmlc_schedule(&job);
    else if (*status == PST_OK)
        pst_log(PST_LOG_INFO, "DMLC_ROLE=server: without parallel.servers workers keep the "
                              "weights; this process exits");
    return 1;
}

/* Tasks that another launcher started without PMIx could be independent runs, but are probably
 * meant as ranks. */
static void warn_of_tasks(void) {
    static const char *const count[] = {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        const char *text = getenv(count[i]);
        if (!text || strtol(text, NULL, 10) < 2 || (!i && !getenv("SLURM_PROCID"))) continue;
        pst_log(PST_LOG_WARN,
                "%s is %s, but this process finds no PMIx server, so it trains alone; to run all "
                "tasks as ranks of one job, use %s",
                count[i], text, i ? "a launcher with PMIx" : "srun --mpi=pmix");
        return;
    }
}

/* Checks the options of a process of an existing job, and gets its number of ranks. */
static pst_status check_job(const pst_config *c, const pst_train_options *o, const pst_plan *plan,
                            const pst_world *world, uint32_t *n_rank) {
    if (o->ranks && o->ranks != world->size)
        return pst_fail(PST_EINPUT,
                        "-n %" PRId64 ", but the launcher has started %u ranks; omit -n", o->ranks,
                        world->size);
    if (o->hostfile && (strcmp(world->ops->name, "tcp") || !world->launched_by_us))
        return pst_fail(PST_EINPUT, "--hostfile starts the ranks, but another launcher has started "
                                    "this process; omit --hostfile or the launcher");
    return pst_planned_ranks(c, plan, world->size, n_rank);
}

/* In this process alone; *plan: from the file, or made here. */
static pst_status train_alone(pst_config **c, const pst_train_options *o, pst_plan **plan,
                              uint32_t n_rank) {
    pst_world *world;
    PST_TRY(pst_limits_of_process(1));
    PST_TRY(pst_registry_world()->open(&world));
    pst_status status =
        pst_config_is_auto(*c) ? pst_plan_auto(c, o, world, n_rank, PST_OK, plan) : PST_OK;
    if (status == PST_OK) return pst_train_here(*c, o, *plan, world, n_rank, NULL);
    world->ops->close(world);
    return status;
}

/* In a process that was not started by a launcher. */
static pst_status train_single(pst_config **c, const pst_train_options *o, pst_plan **plan) {
    uint32_t n_rank, begun = 0;
    int plans = pst_config_is_auto(*c);
    if (!plans) PST_TRY(pst_planned_config(c, plan));
    if (o->hostfile && o->argv) return train_hosts(*c, o, *plan);
    if (plans && !o->ranks) PST_TRY(pst_plan_auto_ranks(*c, o, &begun));
    PST_TRY(pst_planned_ranks(*c, *plan, o->ranks ? o->ranks : begun, &n_rank));
    if (n_rank > 1 && strcmp((*c)->parallel.transport, "self") && o->argv)
        return train_local(*c, o, *plan, n_rank);
    if (pst_elastic_is_wanted(*c, o)) return pst_elastic_needs_ranks();
    return train_alone(c, o, plan, n_rank);
}

/* As a rank of a job. Ranks compare their configurations as given, before planning. */
static pst_status train_rank(pst_config **c, const pst_train_options *o, pst_plan **plan) {
    pst_world *world;
    uint32_t n_rank;
    PST_TRY(pst_limits_of_process(2));
    PST_TRY(pst_registry_world()->open(&world));
    pst_log_set_rank((int)world->rank);
    pst_status status = pst_compare_ranks(world, *c);
    if (status == PST_EPEER) { /* the ranks do not meet, so they cannot agree on the error either */
        world->ops->close(world);
        return status;
    }
    int plans = pst_config_is_auto(*c);
    if (status == PST_OK && !plans) status = pst_planned_config(c, plan);
    if (status == PST_OK) status = check_job(*c, o, *plan, world, &n_rank);
    if (plans) status = pst_plan_auto(c, o, world, world->size, status, plan);
    if (status == PST_OK) status = pst_setup_placement(*c, *plan, n_rank, &world);
    status = pst_group_agree_world(world, status);
    if (status == PST_OK) return pst_train_here(*c, o, *plan, world, n_rank, NULL);
    pst_train_report_once(world);
    world->ops->close(world);
    return status;
}

static pst_status train(pst_config **c, const pst_train_options *o) {
    pst_plan *plan = NULL;
    if (pst_elastic_is_process()) return pst_elastic_train(*c, o);
    PST_TRY(pst_elastic_check(*c, o));
    int alone = !strcmp(pst_registry_world()->name, "single");
    if (alone) warn_of_tasks();
    pst_status status = alone ? train_single(c, o, &plan) : train_rank(c, o, &plan);
    pst_plan_close(plan);
    return status;
}

pst_status pst_train(const pst_config *config, const pst_train_options *options) {
    pst_train_options o;
    pst_config *c;
    if (!config) return pst_fail(PST_EINPUT, "pst_train: config is NULL");
    PST_TRY(pst_sized_take("pst_train", options, &o, sizeof o));
    if (o.stopped) *o.stopped = 0;
    if (!o.resume) o.resume = "";
    if (!o.runs) o.runs = "runs";
    if (o.hostfile && !*o.hostfile) o.hostfile = NULL;
    pst_setup_log(o.quiet ? "error" : config->log.level);
    if (o.argv && pst_launch_is_host()) return train_host(&o);
    pst_status status;
    if (train_role(config, &status)) return status;
    pst_world_tcp_wait((uint32_t)config->parallel.wait);
    pst_world_pmix_wait((uint32_t)config->parallel.wait);
    PST_TRY(pst_config_copy(config, &c));
    status = *o.resume ? pst_resume_find_tokenizer(c, o.resume) : PST_OK;
    if (status == PST_OK) status = pst_prepare_set_labels(c);
    if (status == PST_OK && o.elastic && !c->elastic.min) /* saved, for --resume */
        status = pst_config_override(c, "elastic", "min", "1");
    if (status == PST_OK) status = train(&c, &o);
    pst_config_close(c);
    return status;
}
