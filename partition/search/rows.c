/* The rows of a search: all degrees that suit the model and the cluster, each with its
 * configurations. */
#include "partition/search/bound.h"
#include "partition/search/candidates.h"
#include "base/grow.h"
#include <stdlib.h>
#include <string.h>

enum { KEPT_CONFIGS = 24 };

typedef struct {
    pst_search_context *x;
    pst_search_candidates *set;
    uint32_t n;
    size_t capacity;
} list;

static pst_status add_set(list *l, uint32_t pipeline, uint32_t tensor, uint32_t data) {
    PST_TRY(pst_grow(&l->set, sizeof *l->set, l->n, &l->capacity, "for the layout search"));
    l->set[l->n++] =
        (pst_search_candidates){.row = {.pipeline = pipeline, .tensor = tensor, .data = data},
                                .rest_ns = UINT64_MAX,
                                .small = pst_search_is_small(l->x->problem)};
    return PST_OK;
}

/* A row for a list of tensor degrees that differ between stages. */
static pst_status add_list(list *l, const uint32_t *degree, uint32_t pipeline, uint32_t data) {
    uint32_t *before = malloc((pipeline + (size_t)1) * sizeof *before);
    if (!before) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = add_set(l, pipeline, pst_grid_prefix_sums(degree, pipeline, before), data);
    if (status == PST_OK) l->set[l->n - 1].row.before = before;
    else free(before);
    return status;
}

static uint32_t sum_of(const uint32_t *degree, uint32_t n) {
    uint32_t sum = 0;
    for (uint32_t s = 0; s < n; s++) sum += degree[s];
    return sum;
}

/* With every number of replicas. */
static pst_status add_with_data(list *l, const uint32_t *degree, uint32_t pipeline) {
    const pst_search_problem *p = l->x->problem;
    for (uint32_t k = 0; k < p->data.n; k++)
        if (pst_search_allows_size(p, (uint64_t)sum_of(degree, pipeline) * p->data.value[k]))
            PST_TRY(add_list(l, degree, pipeline, p->data.value[k]));
    return PST_OK;
}

/* For small problems: the next list of tensor degrees, the last stage changing fastest. 0: there is
 * none. */
static int next_list(const pst_search_values *tensor, uint32_t *at, uint32_t pipeline) {
    for (uint32_t s = pipeline; s-- > 0; at[s] = 0)
        if (++at[s] < tensor->n) return 1;
    return 0;
}

static pst_status add_every_list(list *l, uint32_t pipeline) {
    const pst_search_problem *p = l->x->problem;
    uint32_t at[PST_SEARCH_SMALL] = {0}, degree[PST_SEARCH_SMALL];
    if (pipeline > PST_SEARCH_SMALL || pipeline > p->n_item) return PST_OK;
    do {
        int same = 1;
        for (uint32_t s = 0; s < pipeline; s++) {
            degree[s] = p->tensor.value[at[s]];
            same &= at[s] == at[0];
        }
        if (!same) PST_TRY(add_with_data(l, degree, pipeline));
    } while (next_list(&p->tensor, at, pipeline));
    return PST_OK;
}

/* Stages with different numbers of tensor ranks. */
static pst_status add_unequal(list *l) {
    const pst_search_problem *p = l->x->problem;
    int whole = 0;
    for (uint32_t i = 0; i < p->sequence.n; i++) whole |= !p->sequence.value[i];
    if (p->n_degree)
        return p->n_degree <= p->n_item ? add_with_data(l, p->degree, p->n_degree) : PST_OK;
    for (uint32_t i = 0; i < p->pipeline.n && whole && p->tensor.n > 1 && pst_search_is_small(p);
         i++)
        PST_TRY(add_every_list(l, p->pipeline.value[i]));
    return PST_OK;
}

static pst_status add_sets(list *l) {
    const pst_search_problem *p = l->x->problem;
    uint64_t n = p->cluster->n_device;
    for (uint32_t i = 0; i < p->pipeline.n && !p->n_degree; i++)
        for (uint32_t j = 0; j < p->tensor.n; j++)
            for (uint32_t k = 0; k < p->data.n; k++) {
                uint64_t size = (uint64_t)p->pipeline.value[i] * p->tensor.value[j];
                size = size <= n ? size * p->data.value[k] : 0;
                if (!size || !pst_search_allows_size(p, size) || p->pipeline.value[i] > p->n_item)
                    continue;
                PST_TRY(add_set(l, p->pipeline.value[i], p->tensor.value[j], p->data.value[k]));
            }
    PST_TRY(add_unequal(l));
    if (l->n) return PST_OK;
    if (p->pipeline.n && p->pipeline.value[0] > p->n_item)
        return pst_fail(
            PST_EINPUT,
            "infeasible: %u pipeline stages need at least one operator each, but the model has %u",
            p->pipeline.value[0], p->n_item);
    if (p->capable)
        return pst_fail(PST_EINPUT,
                        "infeasible: no allowed values of pipeline, tensor and data fit on the %u "
                        "of %llu devices that support this train.precision",
                        p->capable, (unsigned long long)n);
    return pst_fail(PST_EINPUT,
                    "infeasible: no allowed values of pipeline, tensor and data %s the %llu "
                    "devices of the cluster",
                    p->all_devices ? "use exactly" : "fit on", (unsigned long long)n);
}

/* If there are very many rows, each row keeps only the configurations that are evaluated first. */
static void shorten(pst_search_candidates *set) {
    for (uint32_t i = KEPT_CONFIGS; i < set->n_config; i++)
        if (set->config[i].bound_ns < set->rest_ns) set->rest_ns = set->config[i].bound_ns;
    if (set->n_config <= KEPT_CONFIGS) return;
    pst_search_config *less = realloc(set->config, KEPT_CONFIGS * sizeof *less);
    if (less) set->config = less;
    set->n_config = KEPT_CONFIGS;
}

static uint64_t size_of(const pst_search_row *r) {
    return (r->before ? (uint64_t)r->before[r->pipeline] : (uint64_t)r->pipeline * r->tensor) *
           r->data;
}

/* Largest number of devices first, because time may run out. */
static int by_size(const void *a, const void *b) {
    const pst_search_row *x = &((const pst_search_candidates *)a)->row,
                         *y = &((const pst_search_candidates *)b)->row;
    uint64_t p = size_of(x), q = size_of(y);
    if (p != q) return p > q ? -1 : 1;
    uint32_t narrow = x->data > x->pipeline ? x->data : x->pipeline,
             other = y->data > y->pipeline ? y->data : y->pipeline;
    if (narrow != other) return narrow < other ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* No time is left to list its configurations: only a bound. */
static pst_status leave_out(list *l, pst_search_candidates *set,
                            uint64_t least[PST_SEARCH_VALUES]) {
    const pst_search_values *c = &l->x->problem->tensor;
    uint32_t i = 0;
    if (set->row.before) {
        set->rest_ns = 1;
        return PST_OK;
    } /* no bound is known */
    while (c->value[i] != set->row.tensor) i++;
    if (!least[i]) PST_TRY(pst_search_tensor_bound(l->x, set->row.tensor, &least[i]));
    set->rest_ns = least[i];
    return PST_OK;
}

static pst_status fill_sets(list *l) {
    uint64_t least[PST_SEARCH_VALUES] = {0}; /* by tensor degree; 0: not computed */
    if (l->n > PST_SEARCH_FULL_ROWS) qsort(l->set, l->n, sizeof *l->set, by_size);
    for (uint32_t i = 0; i < l->n; i++) {
        pst_search_candidates *set = &l->set[i];
        if (i >= PST_SEARCH_MIN_ROWS && pst_search_timed_out(l->x)) {
            PST_TRY(leave_out(l, set, least));
            continue;
        }
        const pst_search_config like = {.pipeline = set->row.pipeline,
                                        .tensor = set->row.tensor,
                                        .data = set->row.data,
                                        .before = set->row.before};
        PST_TRY(pst_search_configs(l->x, &like, &set->config, &set->n_config, set->row.why));
        if (l->n > PST_SEARCH_FULL_ROWS) shorten(set);
    }
    qsort(l->set, l->n, sizeof *l->set, pst_search_by_guess);
    return PST_OK;
}

pst_status pst_search_rows(pst_search_context *x, pst_search_candidates **set, uint32_t *n) {
    list l = {.x = x};
    pst_status status = add_sets(&l);
    if (status == PST_OK) status = fill_sets(&l);
    *set = l.set;
    *n = l.n;
    return status;
}
