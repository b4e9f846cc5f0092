/* The schedule of a run: generated or read from a file, with the placement of the layout. */
#include "pipeline/schedule/csv.h"
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>

static pst_status check_loaded(const pst_schedule *s, const char *path, uint32_t n_rank,
                               uint32_t n_virtual, uint32_t n_micro) {
    uint32_t has = s->n_chunk / s->n_rank;
    if (!s->backward)
        return pst_fail(PST_EINPUT, "%s: no backward passes; expected a schedule for training",
                        path);
    if (s->n_rank != n_rank || s->n_micro != n_micro)
        return pst_fail(PST_EINPUT,
                        "%s: the schedule has %u ranks and %u micro-batches; expected %u ranks and "
                        "%u micro-batches",
                        path, s->n_rank, s->n_micro, n_rank, n_micro);
    if (n_virtual && n_virtual != has)
        return pst_fail(PST_EINPUT,
                        "%s: %u chunk%s per rank, but parallel.chunks is %u; omit parallel.chunks",
                        path, has, has == 1 ? "" : "s", n_virtual);
    return PST_OK;
}

static pst_status load(const pst_prepared *p, uint32_t n_micro, pst_schedule **schedule) {
    const char *path = p->config->parallel.schedule_file;
    if (!*path)
        return pst_fail(PST_EINPUT,
                        "parallel.schedule custom needs parallel.schedule_file, a CSV file");
    PST_TRY(pst_schedule_csv_load(path, schedule));
    return check_loaded(*schedule, path, p->grid.pipeline, p->plan->layout.chunks, n_micro);
}

/* Copies a schedule and replaces each fused BW by B and W. */
static pst_status generate_split(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule) {
    const pst_schedule_row *row;
    PST_TRY(pst_schedule_find(name, &row));
    PST_TRY(pst_schedule_virtual(row, n_virtual, &n_virtual));
    pst_schedule_row split = *row;
    split.split = 1;
    return split.generate(&split, n_rank, n_virtual, n_micro, schedule);
}

static pst_status make(const pst_prepared *p, uint32_t n_micro, pst_schedule **schedule) {
    const pst_layout *l = &p->plan->layout;
    const pst_schedule_row *row;
    PST_TRY(pst_config_at(p->config, "parallel", "schedule", pst_schedule_find(l->schedule, &row)));
    if (row->kind == PST_SCHEDULE_FROM_FILE) return load(p, n_micro, schedule);
    PST_TRY((p->options.split ? generate_split : pst_schedule_generate)(
        l->schedule, l->pipeline, l->chunks, n_micro, schedule));
    return pst_schedule_check(*schedule);
}

/* Moves the work of each of the schedule's ranks to the rank on which the layout has its chunks. */
static pst_status move_ranks(pst_schedule *s, const pst_layout *l, uint32_t *n_action,
                             pst_action **action) {
    for (uint32_t c = 0; c < s->n_chunk; c++) {
        uint32_t first = 0;
        while (s->rank_of_chunk[first] != s->rank_of_chunk[c]) first++;
        if (l->rank_of_chunk[c] != l->rank_of_chunk[first])
            return pst_fail(PST_EINPUT,
                            "plan: schedule %s needs chunks %u and %u on one rank, but they are on "
                            "ranks %u and %u",
                            s->name, first, c, l->rank_of_chunk[first], l->rank_of_chunk[c]);
        n_action[l->rank_of_chunk[c]] = s->n_action[s->rank_of_chunk[c]];
        action[l->rank_of_chunk[c]] = s->action[s->rank_of_chunk[c]];
    }
    memcpy(s->n_action, n_action, s->n_rank * sizeof *n_action);
    memcpy(s->action, action, s->n_rank * sizeof *action);
    memcpy(s->rank_of_chunk, l->rank_of_chunk, s->n_chunk * sizeof *l->rank_of_chunk);
    return pst_schedule_check(s);
}

static pst_status move_to_layout(pst_schedule *s, const pst_layout *l) {
    if (s->n_chunk != l->n_chunk)
        return pst_fail(PST_EINPUT, "the plan has %u chunks, but schedule %s has %u chunks",
                        l->n_chunk, s->name, s->n_chunk);
    uint32_t *n_action = calloc(s->n_rank, sizeof *n_action);
    pst_action **action = calloc(s->n_rank, sizeof *action);
    pst_status status =
        n_action && action
            ? move_ranks(s, l, n_action, action)
            : pst_fail(PST_ENOMEM, "no memory for the actions of %u ranks", s->n_rank);
    free(n_action);
    free(action);
    return status;
}

/* Makes and checks the layout's schedule; if the layout has a cut, chunks are placed as in the
 * layout. */
static pst_status make_on(const pst_prepared *p, uint32_t n_micro, pst_schedule **schedule) {
    pst_schedule *s = NULL;
    pst_status status = make(p, n_micro, &s);
    if (status == PST_OK && p->plan->layout.rank_of_chunk)
        status = move_to_layout(s, &p->plan->layout);
    if (status == PST_OK) *schedule = s;
    else pst_schedule_close(s);
    return status;
}

/* --- all replicas ----------------------------------------------------------------------------- */

/* One schedule for each number of micro-batches of a replica. */
pst_status pst_prepare_schedules(pst_prepared *p) {
    for (uint32_t k = 0; k < p->grid.data; k++) {
        uint32_t n = p->micro[k + 1] - p->micro[k];
        for (uint32_t j = 0; j < k && !p->schedules[k]; j++)
            if (p->schedules[j]->n_micro == n) p->schedules[k] = p->schedules[j];
        if (p->schedules[k]) continue;
        const pst_schedule *given = NULL;
        for (uint32_t j = 0; p->options.schedules && j < p->options.n_schedule; j++)
            if (p->options.schedules[j]->n_micro == n) given = p->options.schedules[j];
        if (given && given->n_rank != p->grid.pipeline)
            return pst_fail(PST_EINTERNAL, "the given schedule has %u stages; expected %u",
                            given->n_rank, p->grid.pipeline);
        if (given) PST_TRY(pst_schedule_copy(given, &p->schedules[k]));
        else if (p->options.schedules)
            return pst_fail(
                PST_EINTERNAL,
                "none of the given schedules has %u micro-batches, which replica %u needs", n, k);
        else PST_TRY(make_on(p, n, &p->schedules[k]));
    }
    p->schedule = p->schedules[0];
    return PST_OK;
}

pst_status pst_prepare_eval_schedules(pst_prepared *p) {
    for (uint32_t k = 0; k < p->grid.data; k++) {
        uint32_t n = p->eval_micro[k + 1] - p->eval_micro[k];
        for (uint32_t j = 0; j < k && !p->eval_schedules[k]; j++)
            if (p->eval_schedules[j]->n_micro == n) p->eval_schedules[k] = p->eval_schedules[j];
        if (p->eval_schedules[k]) continue;
        PST_TRY(pst_schedule_forward(p->schedules[k], n, &p->eval_schedules[k]));
        PST_TRY(pst_schedule_check(p->eval_schedules[k]));
    }
    return PST_OK;
}

/* Several replicas may share one. */
static void close_schedules(pst_schedule **s, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t j = k + 1; s[k] && j < n; j++)
            if (s[j] == s[k]) s[j] = NULL;
        pst_schedule_close(s[k]);
    }
}

void pst_prepare_close_schedules(pst_prepared *p) {
    if (p->schedules) close_schedules(p->schedules, p->grid.data);
    if (p->eval_schedules) close_schedules(p->eval_schedules, p->grid.data);
}
