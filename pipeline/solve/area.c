/* A lower bound of the makespan from the memory limit, by areas (memory x time): the area that all
 * micro-batches of a rank need at least must fit in the area that the rank has while it works. The
 * rank cannot use its whole limit from the first F to the last W: F (W) run one after another, so
 * the memory in use grows (shrinks) in steps. */
#include "pipeline/solve/parts.h"
#include <math.h>

/* From the start of the chunk's F to the end of its B, if nothing waits. */
static uint64_t round_trip(const pst_solver *s, uint32_t chunk) {
    uint64_t ns = 0;
    for (uint32_t c = chunk; c < s->problem->n_chunk; c++) {
        const pst_pass_ns *of = &s->problem->ns[c];
        ns += of->f + of->b;
        if (c + 1 < s->problem->n_chunk)
            ns += s->edge[0][(c + 1) * SOLVE_KINDS][0].lag +
                  s->edge[0][c * SOLVE_KINDS + SOLVE_B][1].lag;
    }
    return ns;
}

typedef struct {
    double area;               /* bytes held by a micro-batch, times ns */
    double most;               /* the most that one micro-batch holds of one chunk */
    uint64_t least_f, least_w; /* ns */
    uint64_t begin, rest;      /* before the first F starts; after the last W ends */
} holding;

static holding holding_of(const pst_solver *s, uint32_t rank, uint64_t *const head[2]) {
    const uint32_t *of = s->queue_of + (size_t)rank * s->per_rank;
    holding h = {
        .least_f = UINT64_MAX, .least_w = UINT64_MAX, .begin = UINT64_MAX, .rest = UINT64_MAX};
    for (uint32_t k = 0; k < s->per_rank; k += SOLVE_KINDS) {
        uint32_t f = of[k], c = f / SOLVE_KINDS, w = f + SOLVE_W;
        const pst_held *held = &s->problem->held[c];
        const pst_pass_ns *ns = &s->problem->ns[c];
        double to_b = (double)round_trip(s, c), most = (double)(held->f_b + held->f_w + held->b_w);
        uint64_t begin = head[0][(size_t)f * s->n_micro],
                 rest = head[1][(size_t)w * s->n_micro + s->n_micro - 1];
        h.area += (double)held->f_b * to_b + (double)held->f_w * (to_b + (double)ns->w) +
                  (double)held->b_w * (double)(ns->b + ns->w);
        if (most > h.most) h.most = most;
        if (ns->f < h.least_f) h.least_f = ns->f;
        if (ns->w < h.least_w) h.least_w = ns->w;
        if (begin < h.begin) h.begin = begin;
        if (rest < h.rest) h.rest = rest;
    }
    return h;
}

/* Returns the unused area while the memory in use grows (shrinks) in steps of `most`, one every
 * `ns`; *lasts: duration of the growth. */
static double lost(double limit, double most, uint64_t ns, double *lasts) {
    double steps = ceil(limit / most) - 1;
    *lasts = steps * (double)ns;
    return (steps * limit - most * steps * (steps + 1) / 2) * (double)ns;
}

uint64_t pst_solve_area(const pst_solver *s, uint32_t rank, uint64_t *const head[2]) {
    holding h = holding_of(s, rank, head);
    double limit = (double)s->problem->limit[rank], area = h.area * s->n_micro, coming, going;
    if (!(h.most > 0)) return 0;
    double first = lost(limit, h.most, h.least_f, &coming),
           last = lost(limit, h.most, h.least_w, &going);
    double ns = (area + (first > last ? first : last)) / limit;
    if (ns >= coming + going) ns = (area + first + last) / limit; /* the two do not overlap */
    return h.begin + h.rest + (uint64_t)(ns * (1 - 1e-9));
}
