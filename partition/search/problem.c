/* Properties of a problem: its size, the memory of its devices, its time limit. */
#include "base/clock.h"
#include "partition/search/space.h"

enum { SMALL_ITEMS = 12, SMALL_MICROS = 64 };

uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device) {
    const pst_cluster *c = problem->cluster;
    const pst_cluster_device *d = &c->device[device];
    uint64_t own = d->memory;
    if (!own && c->kind && d->kind < c->n_kind) own = c->kind[d->kind].memory;
    uint64_t capacity = pst_cluster_least(own, problem->memory);
    return capacity ? capacity : UINT64_MAX;
}

uint64_t pst_search_excess(const pst_search_problem *p, const pst_candidate *c, uint32_t *stage) {
    const pst_grid grid = pst_layout_grid(&c->layout);
    uint64_t excess = 0;
    for (uint32_t r = 0; r < pst_grid_size(grid); r++) {
        uint32_t s = pst_grid_stage(grid, r);
        uint64_t capacity = pst_search_capacity(p, c->layout.device[r]), needs = c->peak_bytes[s];
        if (needs > capacity && needs - capacity > excess) {
            excess = needs - capacity;
            *stage = s;
        }
    }
    return excess;
}

int pst_search_is_small(const pst_search_problem *problem) {
    return problem->n_item <= SMALL_ITEMS && problem->cluster->n_device <= PST_SEARCH_SMALL &&
           problem->batch <= SMALL_MICROS;
}

int pst_search_allows_size(const pst_search_problem *p, uint64_t size) {
    int may = size == p->cluster->n_device || (!p->all_devices && size < p->cluster->n_device);
    for (uint32_t i = 0; i < p->fewer.n; i++) may |= p->fewer.value[i] == size;
    return may && (!p->capable || size <= p->capable);
}

uint64_t pst_search_effort(const pst_search_context *x) {
    return (uint64_t)x->problem->cluster->n_device * x->problem->batch;
}

int pst_search_is_cheap(const pst_search_context *x) {
    return pst_search_effort(x) < PST_SEARCH_HIGH_EFFORT;
}

int pst_search_timed_out(pst_search_context *x) {
    if (x->end_ns == UINT64_MAX || pst_monotonic_ns() + x->kept_ns < x->end_ns) return 0;
    x->stopped = 1;
    return 1;
}

/* Other programs may leave the search only a part of a core. */
#define MOST_WAIT 8.0
/* of the longest of the layouts that were verified */
#define NEXT_VERIFICATION 1.2

static double wait_of(const pst_search_context *x) {
    const double all = (double)(pst_monotonic_ns() - x->start_ns),
                 own = (double)(pst_thread_ns() - x->start_thread_ns);
    return own > 0 && all > own ? pst_search_min(all / own, MOST_WAIT) : 1;
}

void pst_search_keep_time(pst_search_context *x, const pst_candidate *candidate) {
    const pst_search_problem *p = x->problem;
    if (!p->verify || !p->verify_s || x->end_ns == UINT64_MAX) return;
    const double ratio = x->verify_ratio > 0 ? NEXT_VERIFICATION * x->verify_ratio : wait_of(x);
    x->kept_ns = (uint64_t)(1e9 * ratio * p->verify_s(p->arg, candidate));
}

void pst_search_note_time(pst_search_context *x, const pst_candidate *candidate, uint64_t took_ns) {
    const pst_search_problem *p = x->problem;
    const double thought_s = p->verify_s ? p->verify_s(p->arg, candidate) : 0;
    if (thought_s > 0)
        x->verify_ratio = pst_search_max(x->verify_ratio, 1e-9 * (double)took_ns / thought_s);
}

uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c) {
    const pst_schedule_row *row = x->row[c->schedule];
    const uint32_t chosen = c->chunks ? c->chunks : 2;
    return c->pipeline * (row->n_virtual ? row->n_virtual : chosen);
}
