/* Random workloads with all that they may have (two passes, colours, places where a node cannot be,
 * memory limits, devices of several kinds), and the best plan by trying all. */
#ifndef PST_TESTS_BRUTE_FORCE_H
#define PST_TESTS_BRUTE_FORCE_H
#include "graph/random_graph.h"
#include "partition/foreign/import.h"
#include <math.h>
#include <string.h>

enum { BRUTE_NODES = 12, BRUTE_DEVICES = 6 };

/* --- a random workload ------------------------------------------------------------------------ */

static inline uint32_t brute_below(uint64_t *state, uint32_t n) {
    return (uint32_t)(next_random(state) % n);
}

static inline void brute_kinds(pst_import *im, uint64_t *state) {
    uint32_t devices = 1 + brute_below(state, BRUTE_DEVICES);
    im->n_kind = 1 + brute_below(state, devices < 3 ? devices : 3);
    if (brute_below(state, 8) == 0) im->n_kind = devices; /* all different */
    for (uint32_t k = 0; k < im->n_kind; k++) {
        im->kind[k].name = "device";
        im->kind[k].count = 1;
    }
    for (uint32_t d = im->n_kind; d < devices; d++)
        im->kind[brute_below(state, im->n_kind)].count++;
}

static inline void brute_costs(pst_import *im, uint64_t *state) {
    /* small ranges make ties */
    uint32_t range = 1 + brute_below(state, 20), zeros = 1 + brute_below(state, 6);
    double all = 0;
    for (uint32_t v = 0; v < im->n_node; v++) {
        int zero = brute_below(state, zeros) > 0;
        for (uint32_t k = 0; k < im->n_kind; k++) {
            double *time = &im->time[(size_t)k * im->n_node + v];
            *time = zero ? 0 : brute_below(state, range) + 0.125 * brute_below(state, 8);
            if (k && brute_below(state, 20) == 0) *time = INFINITY;
        }
        im->transfer[v] = brute_below(state, 3) ? brute_below(state, range) : 0;
        im->size[v] = brute_below(state, 2) ? brute_below(state, 10) : 0;
        all += im->size[v];
    }
    int limited = brute_below(state, 2) == 0;
    for (uint32_t k = 0; k < im->n_kind; k++) {
        im->kind[k].memory = INFINITY;
        if (limited && brute_below(state, 4))
            im->kind[k].memory = floor(all * (0.2 + 0.1 * brute_below(state, 9)));
        im->kind[k].pays = brute_below(state, 4) > 0;
    }
}

/* Forward nodes first, then the backward node of some of them, and perhaps one that has no forward
 * node. */
static inline void brute_graph(pst_import *im, uint32_t n_forward, uint64_t *state) {
    int64_t label[BRUTE_NODES];
    uint32_t n = 0, density = 1 + brute_below(state, 4);
    for (uint32_t v = 0; v < im->n_node; v++) {
        im->id[v] = 100 + v;
        im->backward[v] = v >= n_forward;
        label[v] = v < n_forward ? v : v - n_forward;
        if (brute_below(state, 12) == 0)
            label[v] = brute_below(state, 2) ? 50 + v : brute_below(state, n_forward);
    }
    for (uint32_t a = 0; a < n_forward; a++)
        for (uint32_t b = a + 1; b < n_forward; b++)
            if (brute_below(state, n_forward) < density) {
                im->edge[n++] = (pst_import_edge){a, b};
                if (b + n_forward < im->n_node)
                    im->edge[n++] = (pst_import_edge){b + n_forward, a + n_forward};
            }
    for (uint32_t v = n_forward; v < im->n_node; v++)
        if (brute_below(state, 3)) im->edge[n++] = (pst_import_edge){v - n_forward, v};
    im->n_edge = n;
    MUST(pst_import_classes(im, label));
}

static inline pst_import *brute_workload(uint64_t *state) {
    pst_import *im = calloc(1, sizeof *im), kinds = {0};
    uint32_t n = 1 + brute_below(state, BRUTE_NODES),
             n_forward = n > 1 && brute_below(state, 2) ? (n + 1) / 2 : n;
    brute_kinds(&kinds, state);
    MUST(pst_import_allocate(im, n, BRUTE_NODES * BRUTE_NODES, kinds.n_kind));
    memcpy(im->kind, kinds.kind, sizeof im->kind);
    im->unit = "ms";
    brute_graph(im, n_forward, state);
    brute_costs(im, state);
    for (double tries = 1; im->n_class; tries = 1) {
        /* fewer devices where it would take too long */
        uint32_t devices = 0, most = 0;
        for (uint32_t k = 0; k < im->n_kind; k++) {
            devices += im->kind[k].count;
            if (im->kind[k].count > im->kind[most].count) most = k;
        }
        for (uint32_t c = 0; c < im->n_class; c++) tries *= devices;
        if (tries <= 3e6) break;
        im->kind[most].count--;
    }
    return im;
}

/* --- all plans -------------------------------------------------------------------------------- */

typedef struct {
    const pst_import *im;
    uint32_t n_device, kind_of[BRUTE_DEVICES];
    uint32_t on[BRUTE_NODES]; /* device of each class */
    int forward[BRUTE_NODES]; /* class has a forward node */
    double best;
} brute;

/* The time of the classes below `n` on the fullest device; INFINITY when one does not fit. */
static inline double brute_partial(const brute *b, uint32_t n) {
    double time[BRUTE_DEVICES] = {0}, size[BRUTE_DEVICES] = {0}, most = 0;
    for (uint32_t v = 0; v < b->im->n_node; v++) {
        if (b->im->class_of[v] >= n) continue;
        uint32_t d = b->on[b->im->class_of[v]];
        time[d] += b->im->time[(size_t)b->kind_of[d] * b->im->n_node + v];
        size[d] += b->im->size[v];
    }
    for (uint32_t d = 0; d < b->n_device; d++) {
        if (size[d] > b->im->kind[b->kind_of[d]].memory) return INFINITY;
        most = fmax(most, time[d]);
    }
    return most;
}

/* Whether the devices can be put into an order in which data never runs back: none may be reached
 * from itself. */
static inline int brute_ordered(const brute *b) {
    int reach[BRUTE_DEVICES][BRUTE_DEVICES] = {{0}};
    for (uint32_t i = 0; i < b->im->n_edge; i++) {
        uint32_t v = b->im->edge[i].from, w = b->im->edge[i].to, c = b->im->class_of[v],
                 d = b->im->class_of[w];
        if (b->on[c] == b->on[d]) continue;
        if (!b->im->backward[w]) reach[b->on[c]][b->on[d]] = 1;
        else if (b->im->backward[v] && !(b->forward[c] && b->forward[d]))
            reach[b->on[d]][b->on[c]] = 1;
    }
    for (uint32_t m = 0; m < b->n_device; m++)
        for (uint32_t i = 0; i < b->n_device; i++)
            for (uint32_t j = 0; j < b->n_device; j++) reach[i][j] |= reach[i][m] && reach[m][j];
    for (uint32_t d = 0; d < b->n_device; d++)
        if (reach[d][d]) return 0;
    return 1;
}

static inline double brute_load(const brute *b, uint32_t device) {
    const pst_import *im = b->im;
    double load = 0;
    for (uint32_t v = 0; v < im->n_node; v++) {
        int here = b->on[im->class_of[v]] == device, sends = 0, takes = 0;
        if (here) load += im->time[(size_t)b->kind_of[device] * im->n_node + v];
        for (uint32_t i = 0; i < im->n_edge; i++) {
            if (im->edge[i].from != v) continue;
            uint32_t to = b->on[im->class_of[im->edge[i].to]];
            sends |= to != device;
            takes |= to == device;
        }
        if (im->kind[b->kind_of[device]].pays && (here ? sends : takes)) load += im->transfer[v];
    }
    return load;
}

static inline void brute_try(brute *b, uint32_t n) {
    if (!(brute_partial(b, n) < b->best)) return;
    if (n < b->im->n_class) {
        for (uint32_t d = 0; d < b->n_device; d++) {
            /* of equal devices, the first free one is enough */
            int before = d == 0 || b->kind_of[d - 1] != b->kind_of[d];
            for (uint32_t c = 0; c < n && !before; c++) before = b->on[c] == d - 1;
            b->on[n] = d;
            if (before) brute_try(b, n + 1);
        }
        return;
    }
    double most = 0;
    for (uint32_t d = 0; d < b->n_device; d++) most = fmax(most, brute_load(b, d));
    if (most < b->best && brute_ordered(b)) b->best = most;
}

/* The smallest largest load below `best`; `best` when there is none. */
static inline double brute_best(const pst_import *im, double best) {
    brute b = {.im = im, .best = best};
    for (uint32_t k = 0; k < im->n_kind; k++)
        for (uint32_t i = 0; i < im->kind[k].count; i++) b.kind_of[b.n_device++] = k;
    for (uint32_t v = 0; v < im->n_node; v++)
        if (!im->backward[v]) b.forward[im->class_of[v]] = 1;
    brute_try(&b, 0);
    return b.best;
}

/* --- the comparison --------------------------------------------------------------------------- */

/* No plan is better than the one that is found, some plan is as good, and there is none where none
 * is found. */
static inline void brute_compare(uint64_t seed, uint32_t cases) {
    uint32_t without = 0;
    for (uint32_t i = 0; i < cases; i++) {
        uint64_t state = seed + i;
        pst_import *im = brute_workload(&state);
        pst_import_plan plan = {0};
        pst_status status = pst_import_solve(im, 60, &plan);
        if (status != PST_OK && status != PST_EINPUT && status != PST_ENOMEM)
            fail_msg("seed %llu: %s", (unsigned long long)(seed + i), pst_error());
        double found = status == PST_OK ? plan.objective : INFINITY,
               above = found * (1 + 1e-9) + 1e-12;
        double best = brute_best(im, above);
        if (best < found * (1 - 1e-9) || (isfinite(found) && !(best < above)))
            fail_msg("seed %llu: %.9g, but the best is %.9g", (unsigned long long)(seed + i), found,
                     best);
        if (status == PST_OK && !(plan.lower_bound >= found * (1 - 1e-9)))
            fail_msg("seed %llu: %.9g is not proven", (unsigned long long)(seed + i), found);
        without += status != PST_OK;
        pst_import_plan_close(&plan);
        pst_import_close(im);
    }
    printf("%u workloads, %u of them without a plan\n", cases, without);
    assert_true(without > 0 && without < cases / 2);
}
#endif
