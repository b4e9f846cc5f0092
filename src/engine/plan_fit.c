/* The search adds up what operators keep; a real layout may be larger, by rounding and by what lies between. When the best
 * that were prepared do not fit for that, it is searched again with so much less room. plan_run.h declares it. */
#include "engine/plan_run.h"

enum { TIMES = 4 };

/* The least excess of layouts that were prepared; 0: none was too large, or one that fits is better than all of them. */
static uint64_t missed_by(const pst_search_result *r) {
    uint64_t least = 0;
    if (r->best && r->best->exact) return 0;
    for (uint32_t i = 0; i < r->n_row; i++) {
        const pst_search_row *row = &r->row[i];
        if (row->layout && row->layout->exact && !row->fits && row->excess && (!least || row->excess < least))
            least = row->excess;
    }
    return least;
}

/* Takes the bytes from every device and from what a rank may use. 0: some would have none. */
static int take_room(pst_cluster *c, pst_search_problem *problem, uint64_t bytes) {
    int enough = !problem->memory || problem->memory > bytes;
    for (uint32_t i = 0; i < c->n_device; i++) enough = enough && (!c->device[i].memory || c->device[i].memory > bytes);
    if (!enough) return 0;
    if (problem->memory) problem->memory -= bytes;
    for (uint32_t i = 0; i < c->n_device; i++)
        if (c->device[i].memory) c->device[i].memory -= bytes;
    return 1;
}

static void give_back(pst_planning *x, pst_search_result *r) {
    for (uint32_t i = 0; i < x->cluster->n_device; i++)
        if (x->cluster->device[i].memory) x->cluster->device[i].memory += x->reserve;
    for (uint32_t i = 0; r && i <= r->n_row; i++) {
        pst_search_layout *l = i < r->n_row ? r->row[i].layout : r->best;
        for (uint32_t s = 0; l && l->exact && s < l->pipeline; s++) l->peak_bytes[s] += x->reserve;
    }
    x->reserve = 0;
}

pst_status pst_planning_fit(pst_planning *x, const pst_search_problem *problem, pst_search_result **result) {
    pst_search_problem p = *problem;
    pst_search_result *r = NULL;
    pst_status status = PST_OK;
    uint64_t bound = UINT64_MAX; /* of all rooms that it was searched with */
    for (int i = 0; i < TIMES; i++) {
        pst_search_result_close(r), r = NULL;
        status = pst_search(&p, &r);
        if (status == PST_OK && r->bound_ns < bound) bound = r->bound_ns;
        uint64_t missed = status == PST_OK && !r->timed_out ? missed_by(r) : 0;
        if (!missed || i + 1 == TIMES || !take_room(x->cluster, &p, missed)) break;
        x->reserve += missed;
    }
    give_back(x, r);
    if (status != PST_OK) return status;
    r->bound_ns = bound;
    if (r->best && bound) r->gap = (double)r->best->step_ns / (double)bound - 1;
    *result = r;
    return status;
}
