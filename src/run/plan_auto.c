/* See plan_auto.h. The ranks exchange the plan as the text of a plan file. */
#include "run/plan_auto.h"
#include "base/file.h"
#include "base/plural.h"
#include "checkpoint/checkpoint.h"
#include "base/log.h"
#include "group/group.h"
#include "group/placement.h"
#include "planning/planning.h"
#include "run/setup.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 << 20, SEARCH_S = 30 };

#define KEY "penstock.plan"

/* --- the plan of the resumed run -------------------------------------------------------------- */

/* Whether the plan is valid for so many ranks and the run file; logs why not. n_rank 0: any number,
 * and nothing is logged. */
static int is_valid_for(const pst_config *c, const pst_plan *plan, const char *path,
                        uint32_t n_rank) {
    pst_config *copy;
    uint32_t ranks = pst_plan_job_ranks(plan);
    if (n_rank && ranks != n_rank) {
        pst_log(PST_LOG_INFO, "%s is for %u ranks, but the job has %u ranks; making a new plan",
                path, ranks, n_rank);
        return 0;
    }
    pst_status status = pst_config_copy(c, &copy);
    if (status == PST_OK) {
        status = pst_planned_apply(copy, plan, path);
        pst_config_close(copy);
    }
    if (status == PST_OK) return 1;
    if (n_rank) pst_log(PST_LOG_INFO, "making a new plan: %s", pst_error());
    pst_error_clear();
    return 0;
}

/* *text: freed by the caller, NULL when no plan is valid for the run; *ranks: of its job. Errors of
 * the checkpoint itself are reported later. */
static pst_status read_resumed(const pst_config *c, const char *resume, uint32_t n_rank,
                               char **text, size_t *bytes, uint32_t *ranks) {
    char path[PST_TRAINER_FOLDER + 16], run[PST_TRAINER_FOLDER];
    pst_plan *plan = NULL;
    *text = NULL;
    if (!*resume) return PST_OK;
    pst_status status = pst_ckpt_run_folder(resume, run, sizeof run);
    if (status == PST_OK && !*run) return PST_OK;
    snprintf(path, sizeof path, "%s/plan.yaml", run);
    if (status == PST_OK) status = pst_file_read(path, MAX_TEXT, text, bytes);
    if (status == PST_OK) status = pst_plan_parse(*text, *bytes, path, &plan);
    if (status == PST_OK && is_valid_for(c, plan, path, n_rank)) {
        *ranks = pst_plan_job_ranks(plan);
    } else {
        free(*text);
        *text = NULL;
    }
    pst_plan_close(plan);
    if (status != PST_EINPUT) return status;
    if (n_rank) pst_log(PST_LOG_INFO, "making a new plan: %s", pst_error());
    pst_error_clear();
    return PST_OK;
}

pst_status pst_plan_auto_ranks(const pst_config *c, const pst_train_options *o, uint32_t *n_rank) {
    char *text;
    size_t bytes;
    uint32_t ranks = 0;
    PST_TRY(read_resumed(c, o->resume, 0, &text, &bytes, &ranks));
    free(text);
    *n_rank = ranks;
    return PST_OK;
}

/* --- a new plan ------------------------------------------------------------------------------- */

/* Sets what the run's own set-up will have: threads, and *memory: free bytes of each rank, less a
 * margin, because they are determined again later. Not parallel.memory, so that schedule solved has
 * the same limit as in the run. world: NULL: all ranks are on this machine. */
static pst_status set_machine(pst_config *c, const pst_world *world, uint32_t n_rank,
                              uint64_t *memory) {
    const pst_device_config config = {.threads = 1};
    const pst_device_ops *device;
    int several = world && world->size > 1;
    uint32_t here = several ? world->local_size : n_rank;
    PST_TRY(pst_registry_device(c->parallel.device, &config, &device));
    uint64_t free_ = pst_prepare_free(device, here);
    c->parallel.threads = pst_setup_threads(c, world, here);
    *memory = free_ - free_ / 16;
    return PST_OK;
}

static pst_status print_best(pst_planning *x, FILE *f) {
    const pst_candidate *l = x->result->best;
    pst_planning_part *part;
    pst_plan *plan;
    PST_TRY(pst_planning_plan(x, l, &plan));
    pst_status status = pst_planning_graph_of(x, &l->layout, &part);
    if (status == PST_OK) status = pst_plan_print(plan, part->graph, f);
    pst_plan_close(plan);
    return status;
}

static pst_status search(const pst_config *c, const pst_world *world, uint32_t n_rank,
                         uint64_t memory, FILE *f) {
    const pst_plan_run_options o = {.cluster = "",
                                    .profile = "",
                                    .plan = "",
                                    .report = "",
                                    .ranks = n_rank,
                                    .time_limit = SEARCH_S};
    char change[PST_PLANNING_ADVICE] = "", cluster[PST_PLANNING_ADVICE] = "";
    pst_planning x = {.config = c,
                      .options = &o,
                      .open = "",
                      .all_ranks = 1,
                      .memory = memory,
                      .processors = pst_placement_processors(world)};
    pst_status status = pst_planning_search(&x);
    if (status == PST_OK && x.result->best) status = print_best(&x, f);
    else if (status == PST_OK) {
        status = pst_planning_change(&x, change, cluster);
        if (status == PST_OK) status = pst_planning_infeasible(&x, change, cluster);
    }
    pst_planning_close(&x);
    return status;
}

/* Checks, before minutes of planning, that this machine can compute in the precision. */
static pst_status check_precision(const pst_config *c) {
    pst_prepare_options options = {.threads = 1};
    pst_dtype dtype;
    PST_TRY(pst_prepare_kind(c, &options));
    return pst_prepare_precision(c, &options, &dtype);
}

static pst_status find(const pst_config *config, const pst_world *world, uint32_t n_rank,
                       char **text, size_t *bytes) {
    pst_config *c;
    char *found = NULL;
    uint64_t memory;
    PST_TRY(pst_config_copy(config, &c));
    pst_status status = set_machine(c, world, n_rank, &memory);
    FILE *f = status == PST_OK ? open_memstream(&found, bytes) : NULL;
    if (f) status = search(c, world, n_rank, memory, f);
    if ((!f || fclose(f)) && status == PST_OK)
        status = pst_fail(PST_ENOMEM, "no memory for a plan");
    pst_config_close(c);
    if (status == PST_OK) *text = found;
    else free(found);
    return status;
}

/* --- for all ranks ---------------------------------------------------------------------------- */

static void say(const pst_plan *p, int begun) {
    const pst_layout *l = &p->layout;
    char rest[PST_LAYOUT_REST_TEXT];
    printf("planned:   %u stage%s x %u replica%s x %u tensor rank%s, %s, %u micro-batches of %u "
           "sample%s%s: %.3f ms per step",
           l->pipeline, pst_plural(l->pipeline), l->data, pst_plural(l->data), l->tensor,
           pst_plural(l->tensor), l->schedule, l->n_micro, l->micro_batch,
           pst_plural(l->micro_batch), pst_layout_rest_text(l, rest), (double)p->step_ns * 1e-6);
    if (begun) printf(", the plan of the resumed run\n");
    else printf(", lower bound over all layouts %.3f ms\n", (double)p->bound_ns * 1e-6);
    fflush(stdout);
}

/* Rank 0's part. */
static pst_status lead(const pst_config *c, const pst_train_options *o, pst_world *world,
                       uint32_t n_rank) {
    char *text = NULL;
    size_t bytes = 0;
    uint32_t ranks;
    pst_plan *plan = NULL;
    PST_TRY(check_precision(c));
    PST_TRY(read_resumed(c, o->resume, n_rank, &text, &bytes, &ranks));
    int begun = text != NULL;
    pst_status status = begun ? PST_OK : find(c, world, n_rank, &text, &bytes);
    if (status == PST_OK) status = world->ops->put(world, KEY, text, bytes);
    if (status == PST_OK && !o->quiet) {
        status = pst_plan_parse(text, bytes, "the plan", &plan);
        if (status == PST_OK) say(plan, begun);
        pst_plan_close(plan);
    }
    free(text);
    return status;
}

/* Parses the plan's text, and frees it. */
static pst_status take(pst_config **config, char *text, size_t bytes, pst_plan **plan) {
    pst_plan *p = NULL;
    pst_status status = pst_plan_parse(text, bytes, "the plan", &p);
    free(text);
    /* The path of the cluster file may differ between hosts. */
    if (status == PST_OK) status = pst_plan_set_text(&p->cluster, "");
    if (status == PST_OK) status = pst_planned_take(config, p, "found");
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}

pst_status pst_plan_auto_here(pst_config **config, uint32_t n_rank, pst_plan **plan) {
    char *text;
    size_t bytes;
    *plan = NULL;
    PST_TRY(find(*config, NULL, n_rank, &text, &bytes));
    return take(config, text, bytes, plan);
}

pst_status pst_plan_auto(pst_config **config, const pst_train_options *o, pst_world *world,
                         uint32_t n_rank, pst_status mine, pst_plan **plan) {
    void *text = NULL;
    size_t bytes;
    *plan = NULL;
    PST_TRY(pst_group_agree_world(world, mine));
    pst_status status = world->rank ? PST_OK : lead(*config, o, world, n_rank);
    if (world->size == 1 && status == PST_OK) status = world->ops->fence(world);
    PST_TRY(pst_group_agree_world(world, status));
    PST_TRY(world->ops->get(world, 0, KEY, &text, &bytes));
    return take(config, text, bytes, plan);
}
