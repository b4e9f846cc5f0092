/* Where no layout fits: what would. Each change is searched with, as if it had been asked for. plan_run.h declares it. */
#include "engine/plan_run.h"
#include <stdlib.h>
#include <string.h>

static const double each_s = 1; /* at most, for the search with one change */

/* The best layout of the problem as it is now, x->problem; NULL: nothing fits, or cannot be. */
static pst_status try_it(pst_planning *x, pst_search_layout **best) {
    pst_search_result *r = NULL;
    *best = NULL;
    pst_search_problem problem = x->problem;
    if (!(problem.time_limit_s > 0 && problem.time_limit_s < each_s)) problem.time_limit_s = each_s;
    pst_status status = pst_planning_fit(x, &problem, &r);
    if (status == PST_EINPUT) return pst_error_clear(), PST_OK;
    if (status != PST_OK) return status;
    *best = r->best, r->best = NULL;
    pst_search_result_close(r);
    return PST_OK;
}

/* --- one key ------------------------------------------------------------------------------------------------------ */

typedef enum { RECOMPUTE, ZERO, MICRO_BATCH, SCHEDULE, CHUNKS, SEQUENCE, TENSOR, PIPELINE, DATA, KEYS } key;
static const char *const key_name[KEYS] = {"recompute", "zero",   "micro_batch", "schedule", "chunks",
                                           "sequence",  "tensor", "pipeline",    "data"};

/* What the search found for a key that was left open. */
static void name_change(key k, const pst_search_layout *l, char *out) {
    const uint32_t value[KEYS] = {
        [ZERO] = l->zero,     [MICRO_BATCH] = l->micro_batch, [CHUNKS] = l->n_chunk / l->pipeline,
        [TENSOR] = l->tensor, [PIPELINE] = l->pipeline,       [DATA] = l->data};
    uint8_t most = 0;
    for (uint32_t c = 0; c < l->n_chunk; c++) most = l->recompute[c] > most ? l->recompute[c] : most;
    const char *text = k == RECOMPUTE  ? pst_recompute_name((pst_recompute)most)
                       : k == SCHEDULE ? l->schedule
                       : k == SEQUENCE ? "true"
                                       : NULL;
    const char *section = k == MICRO_BATCH ? "train" : "parallel";
    if (text) snprintf(out, PST_PLANNING_ADVICE, "%s.%s=%s", section, key_name[k], text);
    else snprintf(out, PST_PLANNING_ADVICE, "%s.%s=%u", section, key_name[k], value[k]);
}

/* The change of one key with the shortest step. */
static pst_status change_key(pst_planning *x, char *change) {
    const pst_search_problem asked = x->problem;
    uint64_t least = UINT64_MAX;
    pst_status status = PST_OK;
    for (key k = 0; k < KEYS && status == PST_OK; k++) {
        pst_search_layout *best = NULL;
        if (!pst_config_given(x->config, k == MICRO_BATCH ? "train" : "parallel", key_name[k])) continue;
        x->open = key_name[k];
        status = pst_planning_choices(x);
        if (status == PST_EINPUT) pst_error_clear(), status = PST_OK;
        else if (status == PST_OK) status = try_it(x, &best);
        if (best && best->step_ns < least) least = best->step_ns, name_change(k, best, change);
        pst_search_layout_close(best);
        x->problem = asked;
    }
    x->open = "";
    return status;
}

/* Gives every device, or what a rank may use where own, so many bytes. */
static void set_memory(pst_planning *x, uint64_t bytes, int own) {
    if (own) x->problem.memory = bytes;
    for (uint32_t i = 0; i < x->cluster->n_device; i++)
        if (x->cluster->device[i].memory < bytes && !own) x->cluster->device[i].memory = bytes;
}

/* What the layout needs that is found with so many bytes; *needs 0: none is. */
static pst_status try_memory(pst_planning *x, uint64_t bytes, int own, uint64_t *needs) {
    const pst_search_problem asked = x->problem;
    uint32_t n = x->cluster->n_device;
    pst_search_layout *best = NULL;
    uint64_t *kept = malloc(n * sizeof *kept);
    *needs = 0;
    if (!kept) return pst_fail(PST_ENOMEM, "no memory to plan");
    for (uint32_t i = 0; i < n; i++) kept[i] = x->cluster->device[i].memory;
    set_memory(x, bytes, own);
    pst_status status = try_it(x, &best);
    for (uint32_t s = 0; best && s < best->pipeline; s++)
        if (best->peak_bytes[s] > *needs) *needs = best->peak_bytes[s];
    for (uint32_t i = 0; i < n; i++) x->cluster->device[i].memory = kept[i];
    x->problem = asked;
    pst_search_layout_close(best);
    free(kept);
    return status;
}

enum { MEMORY_TRIES = 5 };

/* Memory with which some layout fits: as much as the nearest seems to need, or somewhat more, as has been tried. */
static pst_status change_memory(pst_planning *x, char *change) {
    const pst_search_row *nearest = pst_planning_nearest(x);
    char text[32];
    uint64_t needs = 0;
    if (!nearest) return PST_OK;
    uint64_t room = pst_planning_room(x, nearest->layout, nearest->stage), bytes = room + nearest->excess;
    int own = x->problem.memory && x->problem.memory == room;
    for (int i = 0; i < MEMORY_TRIES && !needs; i++) {
        bytes += bytes >> (i ? 2 : 7);
        PST_TRY(try_memory(x, bytes, own, &needs));
    }
    if (!needs) return PST_OK;
    needs += needs >> 7; /* rounded up */
    snprintf(change, PST_PLANNING_ADVICE, "%s of memory per device%s",
             pst_planning_bytes(needs < bytes ? needs : bytes, text), own ? " (parallel.memory)" : "");
    return PST_OK;
}

/* --- more devices -------------------------------------------------------------------------------------------------- */

static uint32_t nodes_of(const pst_cluster *c) { return c->device[c->n_device - 1].node - c->device[0].node + 1; }

/* The cluster with so many nodes, those of `from` again and again. */
static pst_status repeat(const pst_cluster *from, uint32_t nodes, pst_cluster *to) {
    uint32_t have = nodes_of(from);
    *to = *from;
    to->n_node = nodes, to->n_device = 0;
    to->device = malloc(PST_RANKS_MAX * sizeof *to->device), to->node = malloc(nodes * sizeof *to->node);
    if (!to->device || !to->node) return pst_fail(PST_ENOMEM, "no memory for a cluster of %u nodes", nodes);
    for (uint32_t k = 0; k < nodes; k++) {
        to->node[k] = from->node[k % have];
        for (uint32_t i = 0; i < from->n_device && to->n_device < PST_RANKS_MAX; i++)
            if (from->device[i].node - from->device[0].node == k % have) {
                to->device[to->n_device] = from->device[i];
                to->device[to->n_device++].node = k;
            }
    }
    return PST_OK;
}

/* *devices: 0 when nothing fits on so many nodes. */
static pst_status try_nodes(pst_planning *x, uint32_t nodes, uint32_t *devices) {
    pst_cluster *asked = x->cluster, larger;
    const pst_search_problem problem = x->problem;
    pst_search_layout *best = NULL;
    pst_status status = repeat(asked, nodes, &larger);
    if (status == PST_OK) {
        x->cluster = &larger, x->problem.cluster = &larger;
        status = pst_planning_choices(x);
        if (status == PST_EINPUT) pst_error_clear(), status = PST_OK;
        else if (status == PST_OK) status = try_it(x, &best);
    }
    *devices = best ? larger.n_device : 0;
    pst_search_layout_close(best);
    free(larger.device), free(larger.node);
    x->cluster = asked, x->problem = problem;
    return status;
}

/* Twice as many nodes until it fits, then the least between. */
static pst_status more_nodes(pst_planning *x, char *text) {
    uint32_t have = nodes_of(x->cluster), each = x->cluster->n_device / have, fits = 0, devices = 0, found = 0;
    uint32_t low = have, high = have;
    while (!fits && (uint64_t)high * 2 * each <= PST_RANKS_MAX) {
        low = high, high *= 2;
        PST_TRY(try_nodes(x, high, &fits));
    }
    if (!fits) return PST_OK;
    for (found = fits; low + 1 < high;) {
        uint32_t middle = low + (high - low) / 2;
        PST_TRY(try_nodes(x, middle, &devices));
        if (devices) high = middle, found = devices;
        else low = middle;
    }
    snprintf(text, PST_PLANNING_ADVICE, "%u nodes, %u devices", high, found);
    return PST_OK;
}

pst_status pst_planning_change(pst_planning *x, char change[PST_PLANNING_ADVICE], char cluster[PST_PLANNING_ADVICE]) {
    const pst_config *c = x->config;
    int fixed = c->parallel.pipeline && c->parallel.data && c->parallel.tensor;
    PST_TRY(change_key(x, change));
    if (!*change) PST_TRY(change_memory(x, change));
    return x->nominal || fixed ? PST_OK : more_nodes(x, cluster);
}
