/* If no layout fits in memory: finds a change that makes one fit. Each change is searched as if the
 * user had asked for it, within --time-limit: all open keys are chosen again, and the shortest step
 * wins. src/prepare/fits.c does the same, exactly and without a search, for a run whose layout is
 * fixed. Declared in planning/planning.h. */
#include "base/clock.h"
#include "partition/search/space.h"
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

/* time limits in seconds: of one search; of all searches together */
static const double each_s = 1, all_s = 30;

static int is_timed_out(const pst_planning *x) { return pst_monotonic_ns() >= x->end_ns; }

/* *best: the best layout of the current x->problem or, if any is 1, the first layout that fits;
 * NULL: none fits, the problem is infeasible, or no time is left. */
static pst_status search_now(pst_planning *x, int any, pst_candidate **best) {
    pst_search_result *r = NULL;
    *best = NULL;
    pst_search_problem problem = x->problem;
    problem.any = any;
    const uint64_t now = pst_monotonic_ns();
    if (now >= x->end_ns) return PST_OK;
    double left = (double)(x->end_ns - now) * 1e-9;
    problem.time_limit_s = left < each_s ? left : each_s;
    pst_status status = pst_search(&problem, &r);
    if (status == PST_EINPUT) {
        pst_error_clear();
        return PST_OK;
    }
    if (status != PST_OK) return status;
    *best = r->best;
    r->best = NULL;
    pst_search_result_close(r);
    return PST_OK;
}

/* --- one key ---------------------------------------------------------------------------------- */

typedef enum {
    RECOMPUTE,
    ZERO,
    MICRO_BATCH,
    SCHEDULE,
    CHUNKS,
    SEQUENCE,
    TENSOR,
    PIPELINE,
    DATA,
    KEYS
} key;
static const char *const key_name[KEYS] = {"recompute", "zero",     "micro_batch",
                                           "schedule",  "chunks",   "sequence",
                                           "tensor",    "pipeline", "data"};

/* Of the chunk that keeps least; one word for a shell. */
static const char *name_recompute(const pst_layout *l, char text[PST_RECOMPUTE_TEXT]) {
    pst_recompute_way least = l->recompute[0];
    for (uint32_t c = 1; c < l->n_chunk; c++)
        if (pst_recompute_keeps_more(least, l->recompute[c])) least = l->recompute[c];
    pst_recompute_text(least, text);
    if (pst_recompute_layers(least))
        snprintf(text, PST_RECOMPUTE_TEXT, "{full:%u}", pst_recompute_layers(least));
    return text;
}

/* Names the value that the search found for a key. */
static void name_change(key k, const pst_candidate *candidate, char *out) {
    const uint32_t value[KEYS] = {[ZERO] = candidate->layout.zero,
                                  [MICRO_BATCH] = candidate->layout.micro_batch,
                                  [CHUNKS] = candidate->layout.n_chunk / candidate->layout.pipeline,
                                  [TENSOR] = candidate->layout.tensor,
                                  [PIPELINE] = candidate->layout.pipeline,
                                  [DATA] = candidate->layout.data};
    char recompute[PST_RECOMPUTE_TEXT];
    const char *text = NULL;
    if (k == RECOMPUTE) text = name_recompute(&candidate->layout, recompute);
    if (k == SCHEDULE) text = candidate->layout.schedule;
    if (k == SEQUENCE) text = "true";
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
        pst_candidate *best = NULL;
        if (!pst_config_given(x->config, k == MICRO_BATCH ? "train" : "parallel", key_name[k]))
            continue;
        x->open = key_name[k];
        status = pst_planning_search_space(x);
        if (status == PST_EINPUT) {
            pst_error_clear();
            status = PST_OK;
        } else if (status == PST_OK) status = search_now(x, 0, &best);
        if (best && best->step_ns < least) {
            least = best->step_ns;
            name_change(k, best, change);
        }
        pst_candidate_close(best);
        x->problem = asked;
    }
    x->open = "";
    return status;
}

/* Raises the memory of every device to at least `bytes` or, if own is 1, sets the limit of a rank
 * to `bytes`. */
static void set_memory(pst_planning *x, uint64_t bytes, int own) {
    if (own) x->problem.memory = bytes;
    for (uint32_t i = 0; i < x->cluster->n_device; i++)
        if (x->cluster->device[i].memory < bytes && !own) x->cluster->device[i].memory = bytes;
}

/* Where compiling takes long, memory is only estimated. */
static int compiles_quickly(const pst_planning *x) {
    return (uint64_t)x->cluster->n_device * x->problem.batch < PST_SEARCH_HIGH_EFFORT;
}

/* best: a layout that fits in `bytes` bytes per device; NULL: none. */
static pst_status try_memory(pst_planning *x, uint64_t bytes, int own, pst_candidate **best) {
    const pst_search_problem asked = x->problem;
    uint32_t n = x->cluster->n_device;
    uint64_t *kept = malloc(n * sizeof *kept);
    if (!kept) return pst_fail(PST_ENOMEM, "no memory to plan");
    for (uint32_t i = 0; i < n; i++) kept[i] = x->cluster->device[i].memory;
    set_memory(x, bytes, own);
    if (!compiles_quickly(x)) x->problem.verify = NULL;
    pst_status status = search_now(x, 1, best);
    for (uint32_t i = 0; i < n; i++) x->cluster->device[i].memory = kept[i];
    x->problem = asked;
    free(kept);
    return status;
}

/* Rounded up to what pst_planning_bytes prints. */
static uint64_t round_up(uint64_t bytes) {
    uint64_t unit = 1u << 10;
    if (bytes >= 1u << 20) unit = 1u << 20;
    if (bytes >= 1u << 30) unit = 1u << 30;
    return (bytes / unit * 100 + (bytes % unit * 100 + unit - 1) / unit) * unit / 100;
}

enum { MEMORY_TRIES = 6, NEAR = 64 };

/* Lower bound of the bytes that all ranks together need: every parameter and its states exist at
 * least once. */
static double least_bytes(const pst_planning *x) {
    return x->parameters * x->problem.weight_bytes +
           (x->parameters - x->frozen) * x->problem.state_bytes;
}

/* *bytes, with which *candidate fits, was near the least memory in the search before: tries less in
 * steps that double, then bisects between what is too little and *bytes until they are close.
 * Replaces *candidate, which the caller closes. */
static pst_status least_memory(pst_planning *x, uint64_t too_little, int own, uint64_t *bytes,
                               pst_candidate **candidate) {
    const double least = least_bytes(x) / x->cluster->n_device;
    if (least > (double)too_little && least < (double)*bytes) too_little = (uint64_t)least;
    uint64_t step = *bytes / NEAR + 1;
    for (int below = 0; *bytes > too_little + *bytes / NEAR && !is_timed_out(x);) {
        pst_candidate *found;
        uint64_t next = too_little + (*bytes - too_little) / 2;
        if (!below && *bytes - step > next) next = *bytes - step;
        step *= 2;
        next = round_up(next);
        if (next >= *bytes) break;
        PST_TRY(try_memory(x, next, own, &found));
        if (!found) {
            too_little = next;
            below = 1;
            continue;
        }
        pst_candidate_close(*candidate);
        *candidate = found;
        *bytes = next;
    }
    return PST_OK;
}

/* Replaces the layout of c's row if c exceeds the memory by fewer bytes. */
static pst_status keep_nearer(pst_planning *x, const pst_candidate *c) {
    for (uint32_t i = 0; i < x->result->n_row; i++) {
        pst_search_row *r = &x->result->row[i];
        if (r->pipeline == c->layout.pipeline && r->tensor == c->layout.tensor &&
            r->data == c->layout.data && !r->before == !c->layout.tensor_before &&
            (!c->layout.tensor_before ||
             !memcmp(r->before, c->layout.tensor_before,
                     (c->layout.pipeline + (size_t)1) * sizeof *c->layout.tensor_before)))
            return pst_search_keep_nearest(&x->problem, r, c);
    }
    return PST_OK;
}

/* The memory of a device with which the layout would fit. */
static uint64_t needed_bytes(const pst_planning *x, const pst_candidate *c) {
    uint64_t needs = 0;
    for (uint32_t s = 0; s < c->layout.pipeline; s++)
        if (c->peak_bytes[s] > pst_planning_capacity(x, c, s) && c->peak_bytes[s] > needs)
            needs = c->peak_bytes[s];
    return needs;
}

/* A layout that is estimated to fit in *bytes may need more when it is compiled. */
static pst_status compile_in(pst_planning *x, pst_candidate *c, uint64_t *bytes) {
    if (!c->exact && x->problem.verify) PST_TRY(x->problem.verify(x->problem.arg, c));
    const uint64_t needs = needed_bytes(x, c);
    if (needs > *bytes) *bytes = round_up(needs);
    return keep_nearer(x, c);
}

/* Finds the least memory with which some layout fits: tries what the nearest layout needs, or
 * somewhat more, then less; and compiles the layout that is found. */
static pst_status change_memory(pst_planning *x, char *change) {
    const pst_search_row *nearest = pst_planning_nearest(x);
    char text[32];
    if (!nearest) return PST_OK;
    const uint64_t capacity = pst_planning_capacity(x, nearest->best, nearest->stage);
    int own = x->problem.memory && x->problem.memory == capacity;
    pst_candidate *found = NULL;
    uint64_t needs = needed_bytes(x, nearest->best);
    for (int i = 0; i < MEMORY_TRIES && !found; i++) {
        needs = round_up(needs + (i ? needs >> 7 << i : 0));
        PST_TRY(try_memory(x, needs, own, &found));
    }
    if (!found) return PST_OK;
    pst_status status = least_memory(x, capacity, own, &needs, &found);
    if (status == PST_OK) status = compile_in(x, found, &needs);
    pst_candidate_close(found);
    snprintf(change, PST_PLANNING_ADVICE, "%s of memory per device%s",
             pst_planning_bytes(needs, text), own ? " (parallel.memory)" : "");
    return status;
}

/* --- more devices ----------------------------------------------------------------------------- */

enum { RESERVED_SHIFT = 5 };

/* assumed between nodes, per device: ib:400Gb/s */
static const pst_cluster_link assumed = {10000, 50e9};

static int has_links(const pst_cluster *c) {
    return c->node[c->device[0].node].link[PST_LEVEL_NODE].bytes_per_s > 0;
}

static uint32_t nodes_of(const pst_cluster *c) {
    return c->device[c->n_device - 1].node - c->device[0].node + 1;
}

/* A cluster with `nodes` nodes, which repeat those of `from`. A part of each device's memory is
 * reserved: here memory is only estimated, because a run cannot be prepared on devices that do not
 * exist. */
static pst_status repeat(const pst_cluster *from, uint32_t nodes, pst_cluster *to) {
    uint32_t have = nodes_of(from);
    *to = *from;
    to->n_node = nodes;
    to->n_device = 0;
    to->device = malloc(PST_PLANNED_RANKS_MAX * sizeof *to->device);
    to->node = malloc(nodes * sizeof *to->node);
    if (!to->device || !to->node)
        return pst_fail(PST_ENOMEM, "no memory for a cluster of %u nodes", nodes);
    for (uint32_t k = 0; k < nodes; k++) {
        to->node[k] = from->node[k % have];
        if (!has_links(from)) {
            to->node[k].link[PST_LEVEL_NODE] = assumed;
            to->node[k].node_bytes_per_s = assumed.bytes_per_s * from->n_device;
        }
        for (uint32_t i = 0; i < from->n_device && to->n_device < PST_PLANNED_RANKS_MAX; i++)
            if (from->device[i].node - from->device[0].node == k % have) {
                pst_cluster_device *d = &to->device[to->n_device++];
                *d = from->device[i];
                d->node = k;
                d->memory -= d->memory >> RESERVED_SHIFT;
            }
    }
    return PST_OK;
}

/* devices: number of devices; 0: no layout fits on `nodes` nodes. */
static pst_status try_nodes(pst_planning *x, uint32_t nodes, uint32_t *devices) {
    pst_cluster *asked = x->cluster, larger;
    const pst_search_problem problem = x->problem;
    pst_candidate *best = NULL;
    pst_status status = repeat(asked, nodes, &larger);
    if (status == PST_OK) {
        x->cluster = &larger;
        x->problem.cluster = &larger;
        x->problem.verify = NULL;
        status = pst_planning_search_space(x);
        if (status == PST_EINPUT) {
            pst_error_clear();
            status = PST_OK;
        } else if (status == PST_OK) status = search_now(x, 1, &best);
    }
    *devices = best ? larger.n_device : 0;
    pst_candidate_close(best);
    free(larger.device);
    free(larger.node);
    x->cluster = asked;
    x->problem = problem;
    return status;
}

/* The largest number of nodes like this one that certainly cannot hold the model. */
static uint32_t too_few_nodes(const pst_planning *x, uint32_t each) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < x->cluster->n_device; i++) {
        const uint64_t bytes = pst_search_capacity(&x->problem, i);
        most = bytes > most ? bytes : most;
    }
    const double nodes = least_bytes(x) / ((double)most * each);
    return nodes >= 1 && nodes < PST_PLANNED_RANKS_MAX ? (uint32_t)nodes - 1 : 0;
}

/* Adds nodes, in steps that double, until a layout fits, then bisects. */
static pst_status more_nodes(pst_planning *x, char *text) {
    const uint32_t have = nodes_of(x->cluster), each = x->cluster->n_device / have,
                   few = too_few_nodes(x, each);
    uint32_t fits = 0, devices = 0, found = 0, low = have > few ? have : few, high = low, step = 1;
    while (!fits && ((uint64_t)high + step) * each <= PST_PLANNED_RANKS_MAX && !is_timed_out(x)) {
        low = high;
        high += step;
        step *= 2;
        PST_TRY(try_nodes(x, high, &fits));
    }
    if (!fits) return PST_OK;
    for (found = fits; low + 1 < high;) {
        uint32_t middle = low + (high - low) / 2;
        PST_TRY(try_nodes(x, middle, &devices));
        if (is_timed_out(x)) return PST_OK; /* a smaller number may suffice */
        if (devices) {
            high = middle;
            found = devices;
        } else low = middle;
    }
    snprintf(text, PST_PLANNING_ADVICE, "%u nodes, %u devices%s", high, found,
             has_links(x->cluster) ? "" : ", assuming ib:400Gb/s between nodes");
    return PST_OK;
}

/* --- fewer devices ---------------------------------------------------------------------------- */

/* The best layout of the first n devices. */
static pst_status try_first(pst_planning *x, uint32_t n, pst_candidate **best) {
    const pst_search_problem asked = x->problem;
    const uint32_t all = x->cluster->n_device;
    *best = NULL;
    x->cluster->n_device = n;
    pst_status status = pst_planning_search_space(x);
    if (status == PST_EINPUT) {
        pst_error_clear();
        status = PST_OK;
    } else if (status == PST_OK) status = search_now(x, 0, best);
    x->cluster->n_device = all;
    x->problem = asked;
    return status;
}

pst_status pst_planning_fewer(pst_planning *x) {
    const pst_config *c = x->config;
    const pst_candidate *candidate = x->result->best;
    const uint32_t all = x->cluster->n_device;
    if (!candidate || x->local || (c->parallel.pipeline && c->parallel.data && c->parallel.tensor))
        return PST_OK;
    /* roughly all ranks */
    const double work_ns =
        (double)candidate->busy_ns * pst_grid_size(pst_layout_grid(&candidate->layout));
    x->fewer_ns = candidate->step_ns;
    for (uint32_t n = all / 2; n && work_ns / n < (double)x->fewer_ns && !is_timed_out(x); n /= 2) {
        pst_candidate *best;
        PST_TRY(try_first(x, n, &best));
        if (best && best->step_ns < x->fewer_ns) {
            x->fewer = n;
            x->fewer_ns = best->step_ns;
        }
        pst_candidate_close(best);
    }
    return PST_OK;
}

static pst_status find_change(pst_planning *x, char *change, char *cluster) {
    const pst_config *c = x->config;
    int fixed = c->parallel.pipeline && c->parallel.data && c->parallel.tensor;
    PST_TRY(change_key(x, change));
    if (!*change) PST_TRY(change_memory(x, change));
    return x->local || fixed ? PST_OK : more_nodes(x, cluster);
}

pst_status pst_planning_change(pst_planning *x, char change[PST_PLANNING_ADVICE],
                               char cluster[PST_PLANNING_ADVICE]) {
    const uint64_t end = x->end_ns, soon = pst_monotonic_ns() + (uint64_t)(all_s * 1e9);
    if (soon < end) x->end_ns = soon;
    pst_status status = find_change(x, change, cluster);
    x->end_ns = end;
    return status;
}
