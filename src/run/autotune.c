/* See autotune.h. If several ranks have measured the same product, the result of the lowest one is
 * used. */
#include "run/autotune.h"
#include "checkpoint/checkpoint.h"
#include "base/log.h"
#include "run/trainer.h"
#include <stdlib.h>
#include <string.h>

/* A folder whose plan cannot be read has no results. */
static pst_status load_resumed(pst_prepared *p, const char *resume) {
    char run[PST_TRAINER_FOLDER], path[PST_TRAINER_FOLDER + 16];
    pst_plan *was = NULL;
    pst_status status = pst_ckpt_run_folder(resume, run, sizeof run);
    if (status == PST_OK && *run) {
        snprintf(path, sizeof path, "%s/plan.yaml", run);
        status = pst_plan_load(path, &was);
    }
    if (status != PST_OK) pst_error_clear();
    status = was ? pst_plan_set_choices(p->plan, was->choice, was->n_choice) : PST_OK;
    pst_plan_close(was);
    return status;
}

pst_status pst_autotune_load(pst_prepared *p, const pst_plan *plan, const char *resume) {
    if (plan && plan->n_choice) return pst_plan_set_choices(p->plan, plan->choice, plan->n_choice);
    return pst_rank_autotunes(p) && *resume ? load_resumed(p, resume) : PST_OK;
}

static int has(const pst_choice *list, uint32_t n, const char *of) {
    while (n && strcmp(list[n - 1].of, of)) n--;
    return n != 0;
}

static uint32_t count(const pst_rank *r) {
    const pst_choice_ops *ops = pst_registry_choices(r->device->ops);
    pst_choice choice;
    uint32_t n = 0;
    while (ops && ops->take(r->device, n, &choice)) n++;
    return n;
}

/* Warns about results for another device, or for other sizes. */
static void warn_of_unknown(const pst_group *g, const pst_prepared *p) {
    const pst_rank *r = g->local[0];
    const pst_choice_ops *ops = pst_registry_choices(r->device->ops);
    uint32_t n = 0, unknown = 0;
    pst_choice choice;
    for (; ops && p->plan->n_choice && ops->take(r->device, n, &choice); n++)
        unknown += !has(p->plan->choice, p->plan->n_choice, choice.of);
    if (!unknown || !g->leader) return;
    ops->take(r->device, 0, &choice);
    pst_log(PST_LOG_WARN,
            "the plan's autotuning results (such as '%s') do not cover %u of %u matrix "
            "products of this run (such as '%s'): %s",
            p->plan->choice[0].of, unknown, n, choice.of,
            pst_rank_autotunes(p) ? "they are measured again"
                                  : "the library's default algorithms are used");
}

/* list: [n_local][most] results of this process's ranks; unused entries are empty. */
static void collect(const pst_group *g, uint32_t most, pst_choice *list) {
    for (uint32_t i = 0; i < g->n_local; i++) {
        const pst_rank *r = g->local[i];
        const pst_choice_ops *ops = pst_registry_choices(r->device->ops);
        for (uint32_t k = 0;
             ops && k < most && ops->take(r->device, k, &list[(size_t)i * most + k]); k++)
            continue;
    }
}

/* Keeps the first result of each product; returns their number. */
static uint32_t remove_duplicates(pst_choice *list, size_t n) {
    uint32_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        list[i].of[PST_CHOICE_OF - 1] = list[i].is[PST_CHOICE_IS - 1] = 0;
        if (*list[i].of && !has(list, kept, list[i].of)) list[kept++] = list[i];
    }
    return kept;
}

static pst_status take_all(pst_group *g, pst_prepared *p, const pst_choice *list, uint32_t n) {
    pst_status status = pst_plan_set_choices(p->plan, list, n);
    for (uint32_t i = 0; i < g->n_local && status == PST_OK; i++)
        status = pst_rank_load_autotuned(p, g->local[i]->device);
    return pst_group_agree(g, status);
}

pst_status pst_autotune_agree(pst_group *g, pst_prepared *p) {
    const uint64_t *all;
    uint32_t mine = 0, most = 0;
    warn_of_unknown(g, p);
    if (!pst_rank_autotunes(p)) return PST_OK;
    for (uint32_t i = 0; i < g->n_local; i++)
        mine = count(g->local[i]) > mine ? count(g->local[i]) : mine;
    PST_TRY(pst_group_numbers(g, mine, &all));
    for (uint32_t r = 0; r < g->n_rank; r++) most = all[r] > most ? (uint32_t)all[r] : most;
    if (!most) return PST_OK;
    pst_choice *own = calloc((size_t)g->n_local * most, sizeof *own),
               *list = calloc((size_t)g->n_rank * most, sizeof *list);
    pst_status status =
        own && list ? PST_OK : pst_fail(PST_ENOMEM, "no memory for autotuning results");
    status = pst_group_agree(g, status);
    if (status == PST_OK) collect(g, most, own);
    if (status == PST_OK) status = pst_group_all_gather(g, own, most * sizeof *own, list);
    if (status == PST_OK)
        status = take_all(g, p, list, remove_duplicates(list, (size_t)g->n_rank * most));
    free(own);
    free(list);
    return status;
}
