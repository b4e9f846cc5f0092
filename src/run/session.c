/* Training by a program (penstock/train.h): the same trainer as in a run, but the program has the
 * loop and gives the data. Opening is here and in setup.c, data in session_data.c, a step in
 * step.c, checkpoints in saving.c and resume.c. */
#include "base/log.h"
#include "run/length.h"
#include "run/setup.h"
#include "run/announce.h"
#include "run/step.h"
#include "run/saving.h"
#include "run/resume.h"
#include "base/sized.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "comm/world/world.h"
#include "penstock/train.h"
#include "prepare/planned.h"
#include "group/bind.h"
#include "group/compare.h"
#include "run/session_data.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pst_session {
    pst_trainer t;
    pst_config *config;
    pst_train_options options;
    pst_data data; /* stands for the data set where a checkpoint needs its hash */
    pst_session_data feeds;
    double *sum;       /* [n_rank] buffer for the losses of an evaluation */
    pst_status broken; /* status after which ranks no longer agree on their state */
    int torn;          /* some weights are from a checkpoint that could not be read completely */
};

/* The library does not know the program's data: any checkpoint matches. */
static uint64_t no_hash(const pst_data *data) {
    (void)data;
    return 0;
}
static const pst_data_row data_program = {.name = "custom", .hash = no_hash};

/* --- opening and closing ---------------------------------------------------------------------- */

/* Ranks of the job; the plan is for one pipeline, if it has no number of replicas. */
static uint32_t ranks_of(const pst_config *c, const pst_plan *plan) {
    return plan->layout.data ? pst_plan_job_ranks(plan)
                             : pst_prepare_job_ranks(c, plan->layout.pipeline);
}

static pst_status check_plan(const pst_config *c, const pst_plan *plan, const pst_world *world) {
    const pst_layout *l = &plan->layout;
    const uint64_t samples = pst_layout_batch(l);
    if (samples != (uint64_t)c->train.batch)
        return pst_fail(PST_EINPUT,
                        "the plan has %u micro-batches of %u samples, %" PRIu64
                        " in total, but train.batch is %" PRId64
                        "; set train.batch to the number of samples in the plan",
                        l->n_micro, l->micro_batch, samples, c->train.batch);
    uint32_t n = ranks_of(c, plan);
    if (world->size > 1 && world->size != n)
        return pst_fail(PST_EINPUT, "the plan is for %u ranks, but the job has %u processes", n,
                        world->size);
    return pst_registry_joins(c->parallel.transport, world, n);
}

/* Not collective. */
static pst_status prepare(pst_session *s, const pst_graph *graph, const pst_plan *plan) {
    pst_trainer *t = &s->t;
    pst_prepare_options options = {
        .n_rank = ranks_of(s->config, plan), .graph = graph, .plan = plan, .smaller = 1};
    /* a plan for tensor ranks is for a part of the graph: pst_prepare checks it */
    if (s->config->parallel.tensor < 2) PST_TRY(pst_plan_check(plan, graph));
    PST_TRY(check_plan(s->config, plan, t->world));
    PST_TRY(pst_planned_apply(s->config, plan, ""));
    PST_TRY(pst_setup_placement(s->config, plan, options.n_rank, &t->world));
    PST_TRY(pst_bind_rank(t->world, s->config));
    PST_TRY(pst_setup_plan(s->config, options, t->world, &t->p));
    if (t->p->job->islands > 1)
        return pst_config_at(s->config, "parallel.local", "steps",
                             pst_fail(PST_EINPUT, "parallel.local is for penstock train; programs "
                                                  "use parallel.local.steps=0"));
    if (t->p->job->staleness || t->p->job->async)
        return pst_config_at(s->config, "parallel", "update",
                             pst_fail(PST_EINPUT,
                                      "parallel.update=%s is for penstock train; programs use "
                                      "parallel.update=sync",
                                      s->config->parallel.update));
    PST_TRY(pst_length_resolve(s->config, t->p, NULL));
    s->sum = calloc(t->p->options.n_rank, sizeof *s->sum);
    if (!s->sum) return pst_fail(PST_ENOMEM, "no memory for a session");
    return pst_session_data_open(t->p->graph, &s->feeds);
}

/* A process can join the job of its launcher only once. */
static pst_status open_world(const pst_config *c, pst_world **world) {
    static atomic_int joined;
    const pst_world_ops *ops = pst_registry_world();
    pst_world_tcp_wait((uint32_t)c->parallel.wait);
    pst_world_pmix_wait((uint32_t)c->parallel.wait);
    if (strcmp(ops->name, "single") && atomic_exchange(&joined, 1))
        return pst_fail(
            PST_EINPUT,
            "pst_session_open: a process that was started by a launcher can open only one session");
    return ops->open(world);
}

static pst_status open_ranks(pst_session *s, const pst_graph *graph, const pst_plan *plan) {
    pst_trainer *t = &s->t;
    PST_TRY(pst_planned_refuse(s->config));
    PST_TRY(open_world(s->config, &t->world));
    if (t->world->size > 1) pst_log_set_rank((int)t->world->rank);
    pst_status status = pst_compare_ranks(t->world, s->config);
    if (status == PST_EPEER)
        return status; /* the ranks do not meet, so they cannot agree on the error either */
    if (status == PST_OK) status = prepare(s, graph, plan);
    PST_TRY(pst_group_agree_world(t->world, status));
    PST_TRY(pst_setup_ranks(t));
    PST_TRY(pst_setup_weights(t));
    return pst_group_agree(t->group, pst_setup_buffers(t));
}

pst_status pst_session_open(const pst_config *config, const pst_graph *graph, const pst_plan *plan,
                            pst_session **session) {
    const char *missing = session ? NULL : "session";
    if (!plan) missing = "plan";
    if (!graph) missing = "graph";
    if (!config) missing = "config";
    if (missing) return pst_fail(PST_EINPUT, "pst_session_open: %s is NULL", missing);
    pst_session *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory for a session");
    s->options = (pst_train_options){.runs = "", .resume = "", .quiet = 1};
    s->data.row = &data_program;
    s->t = (pst_trainer){.options = &s->options,
                         .data = &s->data,
                         .times_only = !strcmp(config->parallel.device, "timed"),
                         .proc_status = -1,
                         .lock = -1};
    pst_status status = pst_config_copy(config, &s->config);
    s->t.config = s->config;
    if (status == PST_OK) pst_setup_log(s->config->log.level);
    if (status == PST_OK) status = open_ranks(s, graph, plan);
    if (status == PST_OK) {
        if (s->t.group->leader) pst_announce_warmup(s->config);
        *session = s;
        return PST_OK;
    }
    s->broken = status;
    pst_session_close(s);
    return status;
}

void pst_session_close(pst_session *s) {
    if (!s) return;
    pst_trainer *t = &s->t;
    char said[4096]; /* perhaps why it is closed; closing sets messages of its own */
    snprintf(said, sizeof said, "%s", pst_error());
    if (t->group) pst_group_close(t->group, s->broken);
    if (t->world) t->world->ops->close(t->world);
    pst_setup_close(t);
    pst_prepared_close(t->p);
    pst_config_close(s->config);
    pst_session_data_close(&s->feeds);
    free(s->sum);
    free(s);
    pst_fail(PST_OK, "%s", said);
}

/* The checks at the beginning of every function. */
static pst_status usable(const char *where, const pst_session *s, const void *argument,
                         const char *name) {
    if (!s || !argument) return pst_fail(PST_EINPUT, "%s: %s is NULL", where, s ? name : "session");
    if (s->broken)
        return pst_fail(s->broken, "%s: the session has failed; it can only be closed", where);
    if (s->torn && strcmp(where, "pst_session_load"))
        return pst_fail(PST_EINPUT,
                        "%s: an earlier checkpoint load failed part-way, so the weights are "
                        "incomplete; load a checkpoint first",
                        where);
    return PST_OK;
}
#define USABLE(s, argument) PST_TRY(usable(__func__, s, argument, #argument))

/* Records a failure after which the session cannot continue. */
static pst_status keep(pst_session *s, pst_status status) {
    if (status == PST_EPEER || status == PST_EINTERNAL) s->broken = status;
    return status;
}

/* --- training --------------------------------------------------------------------------------- */

static void fill_result(const pst_trainer *t, const pst_metrics_step *m, pst_step_result *out) {
    pst_step_result all = {.step = m->step,
                           .loss = m->loss,
                           .lr = m->lr,
                           .grad_norm = m->grad_norm,
                           .step_s = m->step_s,
                           .predicted_step_s = m->predicted_step_s,
                           .bubble = m->bubble,
                           .predicted_bubble = m->predicted_bubble,
                           .skipped = t->skipped};
    pst_sized_give("pst_session_step", &all, sizeof all, out);
}

pst_status pst_session_step(pst_session *s, const int32_t *const *data, uint32_t n_data,
                            pst_step_result *result) {
    USABLE(s, s);
    if (result && result->size < sizeof result->size)
        return pst_fail(
            PST_EINPUT,
            "pst_session_step: result is not initialised; call pst_step_result_init first");
    PST_TRY(pst_session_data_check(&s->feeds, &s->t, data, n_data, pst_session_batch(s)));
    pst_metrics_step measured;
    uint64_t began = pst_monotonic_ns();
    PST_TRY(keep(s, pst_step_use(&s->t)));
    PST_TRY(keep(s, pst_session_data_copy(&s->feeds, &s->t, data)));
    PST_TRY(keep(s, pst_step_run(&s->t, began, &measured)));
    pst_status status = keep(s, pst_step_check(&s->t));
    if (result) fill_result(&s->t, &measured, result);
    if (status == PST_OK && !s->t.skipped_in_row) pst_prediction_add(s->t.prediction, s->t.report);
    return status;
}

/* Every rank adds the losses of all ranks in rank order. */
static pst_status add_losses(pst_session *s, double *loss) {
    pst_group *g = s->t.group;
    double own[1] = {0}, *mine = g->n_local == 1 ? own : s->sum, sum = 0;
    for (uint32_t i = 0; i < g->n_local; i++) {
        mine[i] = 0;
        for (uint32_t m = 0; g->local[i]->place.tensor == 0 && m < g->local[i]->n_eval_micro; m++) {
            pst_loss_sums one;
            PST_TRY(pst_rank_losses(g->local[i], m, &one));
            mine[i] += pst_loss_total(&one, s->t.p->targets, (uint64_t)s->t.config->train.batch);
        }
    }
    if (mine == own) PST_TRY(pst_group_all_gather(g, mine, sizeof *mine, s->sum));
    for (uint32_t r = 0; r < g->n_rank; r++) sum += s->sum[r];
    *loss = s->t.times_only ? NAN : sum / (double)s->t.p->targets;
    return PST_OK;
}

pst_status pst_session_evaluate(pst_session *s, const int32_t *const *data, uint32_t n_data,
                                double *loss) {
    USABLE(s, loss);
    PST_TRY(pst_session_data_check(&s->feeds, &s->t, data, n_data, pst_prepared_batch(s->t.p)));
    PST_TRY(keep(s, pst_group_use(s->t.group, s->t.p)));
    PST_TRY(keep(s, pst_session_data_copy(&s->feeds, &s->t, data)));
    PST_TRY(keep(s, pst_group_run(s->t.group, 0)));
    return keep(s, add_losses(s, loss));
}

uint64_t pst_session_steps(const pst_session *s) { return s ? s->t.step : 0; }

uint64_t pst_session_batch(const pst_session *s) {
    return s ? pst_batches_size(&s->t.p->batches, s->t.step) : 0;
}

/* --- checkpoints and weights ------------------------------------------------------------------ */

static pst_status no_study(const pst_session *s) {
    return s->t.times_only
               ? pst_fail(PST_EINPUT, "device timed computes nothing: there are no weights")
               : PST_OK;
}

/* Rank 0 creates the folder and locks it while it writes. */
static pst_status take_folder(pst_trainer *t, const char *folder) {
    char inside[PST_TRAINER_FOLDER + 8];
    if (!*folder || strlen(folder) >= sizeof t->folder)
        return pst_fail(PST_EINPUT, "expected the path of a folder to save to, found '%.60s'",
                        folder);
    strcpy(t->folder, folder);
    if (!t->group->leader) return PST_OK;
    snprintf(inside, sizeof inside, "%s/.", folder);
    PST_TRY(pst_setup_parents(inside));
    return pst_durable_lock(folder, &t->lock);
}

/* In a run, training continues after a checkpoint that cannot be written; a program gets the
 * error. */
static pst_status save(pst_trainer *t) {
    uint64_t before = t->checkpointed;
    t->checkpointed = UINT64_MAX;
    pst_status status = pst_group_agree(t->group, pst_saving_open(t));
    if (status == PST_OK) status = pst_saving_start(t, 1);
    if (status == PST_OK) status = pst_saving_finish(t);
    if (status == PST_OK && t->checkpointed == t->step) return PST_OK;
    t->checkpointed = before;
    return status == PST_OK ? pst_fail(PST_ENOMEM, "%s", pst_error()) : status;
}

pst_status pst_session_save(pst_session *s, const char *folder) {
    USABLE(s, folder);
    PST_TRY(no_study(s));
    pst_status status = pst_group_agree(s->t.group, take_folder(&s->t, folder));
    if (status == PST_OK) status = save(&s->t);
    pst_saving_close(&s->t); /* the next one may go to another folder */
    if (s->t.lock >= 0) close(s->t.lock);
    s->t.lock = -1;
    return keep(s, status);
}

pst_status pst_session_load(pst_session *s, const char *path) {
    pst_trainer *t = &s->t;
    char *found = NULL;
    USABLE(s, path);
    PST_TRY(no_study(s));
    pst_status status = t->group->leader ? pst_ckpt_find(path, &found) : PST_OK;
    if (found && snprintf(t->resume, sizeof t->resume, "%s", found) >= (int)sizeof t->resume)
        status = pst_fail(PST_EINPUT, "the path '%.60s...' is too long", found);
    free(found);
    PST_TRY(keep(s, pst_group_agree(t->group, status)));
    PST_TRY(keep(s, pst_group_broadcast(t->group, t->resume, sizeof t->resume, 0)));
    PST_TRY(keep(s, pst_group_agree(t->group, pst_resume_check(t->p, t->data, t->resume))));
    status = pst_resume_read(t);
    s->torn = status != PST_OK;
    PST_TRY(keep(s, status));
    for (uint32_t i = 0; i < t->group->n_local; i++)
        PST_TRY(keep(s, pst_rank_refresh(t->group->local[i])));
    return PST_OK;
}

/* The rank that owns a parameter (pst_rank_owns), or the first one that has all of a frozen one in
 * fp32; PST_NONE: none. */
static uint32_t owner_of(const pst_prepared *p, uint32_t param) {
    const int frozen = p->whole->param[param].frozen;
    if (frozen && p->graph->param[param].slice.held == PST_HELD_PART) return PST_NONE;
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        const pst_memory_map *x = p->memory[r];
        if (frozen ? x->master[param] != UINT64_MAX : x->own_to[param] && !x->own_from[param])
            return r;
    }
    return PST_NONE;
}

pst_status pst_session_read(pst_session *s, const char *param, float *out, uint64_t elements) {
    USABLE(s, param);
    USABLE(s, out);
    PST_TRY(no_study(s));
    const pst_graph *g = s->t.p->whole;
    const pst_group *group = s->t.group;
    uint32_t i = pst_graph_find_param(g, param);
    if (i == PST_NONE)
        return pst_fail(PST_EINPUT, "graph %s has no parameter '%.90s'", g->name, param);
    if (pst_param_elements(&g->param[i]) != elements)
        return pst_fail(PST_EINPUT, "parameter %s has %" PRIu64 " elements, not %" PRIu64, param,
                        pst_param_elements(&g->param[i]), elements);
    if (pst_group_is_scattered(s->t.p, i))
        return keep(s, pst_group_gather_param(s->t.group, s->t.p, i, out));
    uint32_t owner = owner_of(s->t.p, i);
    if (owner == PST_NONE)
        return pst_fail(PST_EINPUT, "parameter %s is frozen, and no rank has all of it in fp32",
                        param);
    for (uint32_t k = 0; k < group->n_local; k++) {
        const pst_rank *r = group->local[k];
        if (r->rank == owner)
            PST_TRY(keep(s, pst_rank_read(r, out, pst_rank_weight(r, i), elements * sizeof *out)));
    }
    return keep(s, pst_group_broadcast(s->t.group, out, elements * sizeof *out, owner));
}

pst_status pst_session_hash(pst_session *s, uint64_t *hash) {
    USABLE(s, hash);
    PST_TRY(no_study(s));
    return keep(s, pst_weights_hash_all(&s->t, hash));
}
