/* Cuts a chain of operators, exactly for the surrogate: the longest stage (the first micro-batch's
 * forward path to it, all its work, the last one's backward path, its flush) is as short as
 * possible, and each stage fits its memory with the fastest recomputation. A stage with fewer items
 * never takes longer or needs more memory, so for a given limit it is optimal to give each stage as
 * many items as the limit allows; bisection finds the least limit. This is a lower bound for cuts
 * with one chunk per stage. With several, each chunk gets a share of the limit, without a proof. */
#include "partition/search/cut.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All replicas of a stage together: they get micro-batches in proportion to their speeds. */
typedef struct {
    uint32_t first_option; /* index of its first option: its number of tensor ranks on kind 0 */
    const pst_search_table *table; /* of one of its options */
    double *speed;     /* [n_option] sum of the speeds of its tensor groups with each option */
    double slowest;    /* the least of the speeds of its tensor groups */
    uint64_t capacity; /* bytes; UINT64_MAX: no limit */
    double flush_ns, sum_ns; /* per element; sum_ns: of its replica sums, in addition */
    uint64_t latency_ns;     /* of its replica sums */
    /* least time of the messages of the stages before, forward (and as much backward) */
    uint64_t hop_ns;
} stage;

typedef struct {
    const pst_search_problem *problem;
    const pst_search_config *c;
    const pst_search_flight *flight;
    const pst_search_table **table; /* [n_option] of each kind of device with each number of tensor
                                       ranks; NULL: not used */
    uint32_t n_kind, n_option, n_chunk, chunks, micros;
    pst_recompute fastest_mode, bound_mode; /* bound_mode: takes no longer than any that is allowed
                                             */
    int even, split; /* even: all replicas of each stage are equally fast; split: B and W apart */
    stage *stage;
    double *speeds, *fastest;           /* [pipeline][n_option]; [n_option] fastest device in use */
    uint64_t *forward_ns, *backward_ns; /* [n_item + 1] least F and least backward time of the items
                                           before */
    uint64_t *used_ns, *used_bytes; /* [pipeline] of the chunks placed so far, with several chunks
                                       per stage */
    uint32_t *length; /* [n_chunk] items of each chunk when packed last: where the next search
                         starts */
    double *shortest_ns, least_ns; /* [n_item] shortest time of a micro-batch over all options;
                                lower bound of the longest stage over all cuts */
    /* of several chunks per stage, the first ones get this part of their share of the memory */
    double early_share;
    uint64_t norm_latency_ns, more; /* more: bytes that every stage may use beyond its capacity */
} cut_state;

/* --- state ------------------------------------------------------------------------------------ */

static uint32_t degree_of(const pst_search_config *c, uint32_t at) {
    return pst_grid_degree(pst_search_grid_of(c), at);
}

static pst_status open_state(pst_search_context *x, const pst_search_config *c, cut_state *g) {
    const pst_search_problem *p = x->problem;
    uint32_t kinds = p->cluster->n_kind ? p->cluster->n_kind : 1, options = 0;
    *g = (cut_state){.problem = p,
                     .c = c,
                     .n_kind = kinds,
                     .n_chunk = pst_search_chunk_count(x, c),
                     .early_share = 1};
    g->stage = calloc(c->pipeline, sizeof *g->stage);
    if (!g->stage) return pst_fail(PST_ENOMEM, "no memory to cut for %u stages", c->pipeline);
    for (uint32_t s = 0; s < c->pipeline; s++) {
        uint32_t like = c->before || !s ? 0 : s - 1;
        while (like < s && degree_of(c, like) != degree_of(c, s)) like++;
        g->stage[s].first_option = like < s ? g->stage[like].first_option : options;
        options += like < s ? 0 : kinds;
    }
    g->n_option = options;
    g->chunks = g->n_chunk / c->pipeline;
    g->micros = (c->n_micro + c->data - 1) / c->data;
    g->table = calloc(options, sizeof *g->table);
    g->speeds = calloc((size_t)options * (c->pipeline + 1u), sizeof *g->speeds);
    g->forward_ns = calloc(2 * ((size_t)p->n_item + 1), sizeof *g->forward_ns);
    g->used_ns = calloc(2 * (size_t)c->pipeline, sizeof *g->used_ns);
    g->shortest_ns = malloc(p->n_item * sizeof *g->shortest_ns);
    g->length = calloc(g->n_chunk, sizeof *g->length);
    if (!g->length || !g->table || !g->speeds || !g->forward_ns || !g->used_ns || !g->shortest_ns)
        return pst_fail(PST_ENOMEM, "no memory to cut for %u stages", c->pipeline);
    g->backward_ns = g->forward_ns + p->n_item + 1;
    g->used_bytes = g->used_ns + c->pipeline;
    g->fastest = g->speeds + (size_t)options * c->pipeline;
    g->even = 1;
    g->split = x->row[c->schedule]->split;
    for (uint32_t s = 0; s < c->pipeline; s++) g->stage[s].speed = g->speeds + (size_t)s * options;
    return pst_search_flight_of(x, c->schedule, c->pipeline, g->chunks, g->micros, &g->flight);
}

static void close_state(cut_state *g) {
    free(g->table);
    free(g->stage);
    free(g->speeds);
    free(g->forward_ns);
    free(g->used_ns);
    free(g->shortest_ns);
    free(g->length);
}

static pst_status fill_stage(pst_search_context *x, cut_state *g, const uint32_t *device,
                             uint32_t at) {
    const pst_cluster_device *of = g->problem->cluster->device;
    uint32_t tensor = degree_of(g->c, at), begin = pst_grid_first(pst_search_grid_of(g->c), at);
    stage *s = &g->stage[at];
    const uint64_t left = g->c->reserve + g->c->cut_reserve;
    double first = 0;
    s->capacity = UINT64_MAX;
    const uint32_t alike = x->uniform ? g->c->data : 1; /* replicas that this group stands for */
    for (uint32_t k = 0; k < g->c->data; k += alike) {
        const uint32_t *group = device + begin + k * tensor;
        double speed = of[*group].speed;
        uint32_t kind = of[*group].kind, option = s->first_option + kind;
        for (uint32_t t = 0; t < tensor; t++) {
            uint64_t capacity = pst_search_capacity(g->problem, group[t]);
            if (capacity != UINT64_MAX) capacity = capacity > left ? capacity - left : 0;
            if (capacity < s->capacity) s->capacity = capacity;
            if (of[group[t]].speed < speed) speed = of[group[t]].speed;
        }
        s->speed[option] += alike * speed;
        s->slowest = k && s->slowest < speed ? s->slowest : speed;
        if (speed > g->fastest[option]) g->fastest[option] = speed;
        if (k && (speed != first || kind != of[device[begin]].kind)) g->even = 0;
        if (!k) first = speed;
        if (!g->table[option]) PST_TRY(pst_search_table_of(x, g->c, kind, at, &g->table[option]));
        if (!g->table[option]->table) return pst_search_infeasible(g->table[option]);
        s->table = g->table[option];
    }
    return PST_OK;
}

/* The shortest time of each item's passes over the devices in use. */
static void fill_shortest(cut_state *g, int split) {
    uint32_t n = g->problem->n_item;
    double forward_ns = 0, backward_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        double f = INFINITY, b = INFINITY;
        for (uint32_t k = 0; k < g->n_option; k++) {
            if (!g->table[k]) continue;
            const pst_cost_table *t = g->table[k]->table;
            f = pst_search_min(f, (double)t->f_ns[i] / g->fastest[k]);
            b = pst_search_min(b, (double)(t->b_ns[i] + (split ? 0 : t->w_ns[i])) / g->fastest[k]);
        }
        forward_ns += f;
        backward_ns += b;
        g->forward_ns[i + 1] = (uint64_t)forward_ns;
        g->backward_ns[i + 1] = (uint64_t)backward_ns;
    }
}

static pst_recompute find_fastest_mode(const pst_search_problem *p) {
    uint32_t mode = 0;
    while (mode + 1 < PST_RECOMPUTE_COUNT && !p->recompute[mode]) mode++;
    return p->recompute[mode] ? mode : PST_RECOMPUTE_NONE;
}

/* Message times with the fewest bytes that any cut has, on the fastest link of the replicas. */
static void fill_hops(cut_state *g, const uint32_t *device) {
    const pst_grid grid = pst_search_grid_of(g->c);
    uint64_t sum = 0;
    for (uint32_t s = 0; s < g->c->pipeline; s++) {
        uint64_t least = UINT64_MAX, bytes = g->stage[s].table->least_cross;
        g->stage[s].hop_ns = sum;
        for (uint32_t k = 0; k < g->c->data && s + 1 < g->c->pipeline; k++) {
            pst_cluster_link link;
            uint32_t from = device[pst_grid_rank(grid, s, k, 0)],
                     to = device[pst_grid_rank(grid, s + 1, k, 0)];
            if (!pst_search_link(g->problem->cluster, from, to, &link)) continue;
            uint64_t ns = link.latency_ns + pst_search_wire_ns(&link, bytes);
            if (ns < least) least = ns;
        }
        if (least != UINT64_MAX) sum += least;
    }
}

static pst_status fill_flushes(pst_search_context *x, cut_state *g, const uint32_t *device) {
    pst_search_flush *flush = calloc(g->c->pipeline, sizeof *flush);
    if (!flush) return pst_fail(PST_ENOMEM, "no memory to cut for %u stages", g->c->pipeline);
    pst_status status = pst_search_flush_of(x, g->c, device, flush, &g->norm_latency_ns);
    for (uint32_t s = 0; status == PST_OK && s < g->c->pipeline; s++) {
        g->stage[s].flush_ns = flush[s].norm_ns;
        g->stage[s].sum_ns = g->c->data > 1 ? flush[s].sum_ns : 0;
        g->stage[s].latency_ns = g->c->data > 1 ? flush[s].sum_latency_ns : 0;
    }
    free(flush);
    return status;
}

static uint32_t micros_of(const cut_state *g) {
    return g->even ? g->micros * g->c->data : g->c->n_micro;
}

static double passes_ns(const cut_state *g, uint32_t kind, uint32_t item) {
    return (double)pst_search_run(g->table[kind], PST_SEARCH_SUM_FBW + g->bound_mode, item,
                                  item + 1);
}

/* Lower bound: all work distributed evenly. Each item takes its shortest time over all options, and
 * each option has the speed of its best item, because an item may be slow on one kind of device and
 * fast on another. */
static void fill_least(cut_state *g) {
    uint32_t n = g->problem->n_item;
    double work = 0, rate = 0;
    for (uint32_t i = 0; i < n; i++) {
        g->shortest_ns[i] = INFINITY;
        for (uint32_t k = 0; k < g->n_option; k++)
            if (g->table[k])
                g->shortest_ns[i] = pst_search_min(g->shortest_ns[i], passes_ns(g, k, i));
        work += g->shortest_ns[i];
    }
    for (uint32_t k = 0; k < g->n_option; k++) {
        double near = 0;
        for (uint32_t i = 0; g->table[k] && i < n; i++) {
            double own = passes_ns(g, k, i);
            near = pst_search_max(near, own > 0 ? g->shortest_ns[i] / own : 1);
        }
        for (uint32_t s = 0; s < g->c->pipeline; s++) rate += g->stage[s].speed[k] * near;
    }
    g->least_ns = micros_of(g) * work / rate;
}

static pst_status fill_state(pst_search_context *x, cut_state *g, const uint32_t *device) {
    for (uint32_t s = 0; s < g->c->pipeline; s++) PST_TRY(fill_stage(x, g, device, s));
    fill_shortest(g, g->split);
    fill_hops(g, device);
    g->fastest_mode = g->bound_mode = find_fastest_mode(g->problem);
    if (g->fastest_mode == PST_RECOMPUTE_LAYERS && g->problem->layers != PST_RECOMPUTE_MOST_LAYERS)
        g->bound_mode = PST_RECOMPUTE_NONE;
    fill_least(g);
    return fill_flushes(x, g, device);
}

/* --- one chunk -------------------------------------------------------------------------------- */

/* ns of these passes of all micro-batches on a stage. */
static double work_of(const cut_state *g, const stage *s, uint32_t from, uint32_t to,
                      pst_recompute_way way, int with_w) {
    double rate = 0;
    for (uint32_t k = s->first_option; k < s->first_option + g->n_kind; k++) {
        const pst_search_table *t = g->table[k];
        if (!t || s->speed[k] <= 0) continue;
        const uint32_t sum = with_w ? PST_SEARCH_SUM_FBW : PST_SEARCH_SUM_FB;
        uint64_t ns = pst_search_run_way(t, sum, way, from, to);
        if (!ns) return 0;
        rate += s->speed[k] / (double)ns;
    }
    return micros_of(g) / rate;
}

/* Received bytes: the least over all items, so that a chunk that begins later never needs more
 * memory. */
static uint64_t enter_of(const pst_search_table *t, uint32_t from, pst_recompute_way way) {
    const pst_recompute mode = pst_recompute_mode(way);
    return from ? t->least_enter[mode] : t->table->enter[mode][0];
}

static pst_search_chunk chunk_of(const cut_state *g, uint32_t chunk, uint32_t from, uint32_t to) {
    return (pst_search_chunk){.problem = g->problem,
                              .c = g->c,
                              .table = g->stage[g->flight->stage[chunk]].table,
                              .flight = g->flight,
                              .chunk = chunk,
                              .from = from,
                              .to = to,
                              .micros = g->micros};
}

static uint64_t held_bytes(const pst_search_chunk *k, pst_recompute_way way) {
    return pst_search_held_bytes(k, way, enter_of(k->table, k->from, way));
}

static int is_allowed(const cut_state *g, pst_recompute mode) {
    return g->problem->recompute[mode] || mode == g->fastest_mode;
}

static pst_recompute_way way_of(const cut_state *g, const pst_search_chunk *k, pst_recompute mode) {
    return pst_search_way(g->problem, k->table, mode, k->from, k->to);
}

/* The last pass, a W or a whole backward pass, on the slowest replica. */
static double last_pass(const cut_state *g, const stage *s, uint32_t from, uint32_t to,
                        pst_recompute_way way) {
    double longest = 0;
    for (uint32_t k = s->first_option; k < s->first_option + g->n_kind; k++) {
        const pst_search_table *t = g->table[k];
        if (!t || s->speed[k] <= 0) continue;
        uint64_t w = pst_search_run(t, PST_SEARCH_SUM_W, from, to),
                 bw = pst_search_run_way(t, PST_SEARCH_SUM_FBW, way, from, to) -
                      pst_search_run(t, PST_SEARCH_SUM_F, from, to);
        longest = pst_search_max(longest, (double)(g->split ? w : bw) / s->slowest);
    }
    return longest;
}

/* Whether replica sums overlap the last pass (pipeline/compile/early.h). */
static int hides_sums(const cut_state *g, const stage *s) {
    return pst_search_overlaps_sums(g->problem, g->c) &&
           (g->split || s == &g->stage[g->flight->stage[0]]);
}

/* One chunk per stage: the whole surrogate. Several: the work alone. */
static double time_of(const cut_state *g, const stage *s, uint32_t from, uint32_t to,
                      pst_recompute_way way) {
    double work = work_of(g, s, from, to, way, 1);
    if (g->chunks > 1) return work;
    uint64_t elements = pst_search_run(s->table, PST_SEARCH_SUM_ELEMENTS, from, to);
    double last = (g->split ? work_of(g, s, from, to, way, 0) : work) +
                  (double)g->backward_ns[from] + (double)s->hop_ns;
    double sums = s->sum_ns * (double)elements + (elements ? (double)s->latency_ns : 0);
    if (hides_sums(g, s)) sums = pst_search_max(0, sums - last_pass(g, s, from, to, way));
    double end = work + s->flush_ns * (double)elements + sums;
    return (end > last ? end : last) + (double)g->forward_ns[from] + (double)s->hop_ns;
}

static int fits(const cut_state *g, const pst_search_chunk *k, pst_recompute_way way, uint64_t own,
                uint64_t capacity) {
    const uint64_t work = pst_search_work_bytes(k->table, k->from, k->to, way,
                                                enter_of(k->table, k->from, way), g->split);
    return own + held_bytes(k, way) + work / g->chunks <= capacity;
}

/* The fewest layers with which the chunk fits, or all. */
static pst_recompute_way fewest_layers(const cut_state *g, const pst_search_chunk *k, uint64_t own,
                                       uint64_t capacity) {
    uint32_t low = 1, high = pst_search_layers(k->table, k->from, k->to);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (fits(g, k, pst_recompute_of_layers(middle), own, capacity)) high = middle;
        else low = middle + 1;
    }
    return pst_recompute_of_layers(high);
}

/* 1: a chunk of items [from, to) stays within `longest` ns and the memory of its stage. */
static int is_feasible(const cut_state *g, uint32_t chunk, uint32_t from, uint32_t to,
                       double longest) {
    uint32_t at = g->flight->stage[chunk], nth = chunk / g->c->pipeline;
    const stage *s = &g->stage[at];
    const pst_search_table *t = s->table;
    uint64_t capacity = s->capacity;
    if (g->chunks > 1) longest = longest * (nth + 1) / g->chunks - (double)g->used_ns[at];
    if (capacity != UINT64_MAX) {
        uint64_t besides = t->least_cross * (2 * (chunk > 0) + 2 * (chunk + 1 < g->n_chunk));
        capacity = (capacity > besides ? capacity - besides : 0) + g->more;
        const double part = (nth + 1.) / g->chunks;
        if (part < 1) capacity = (uint64_t)((double)capacity * (part * g->early_share));
        capacity = capacity > g->used_bytes[at] ? capacity - g->used_bytes[at] : 0;
    }
    const pst_search_chunk k = chunk_of(g, chunk, from, to);
    uint64_t own = 0;
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        if (!is_allowed(g, mode)) continue;
        pst_recompute_way way = way_of(g, &k, mode);
        if (own && pst_search_chooses_layers(g->problem, mode))
            way = fewest_layers(g, &k, own, capacity); /* NONE was too large */
        if (time_of(g, s, from, to, way) > longest) {
            if (mode == PST_RECOMPUTE_NONE) return 0; /* other modes take no less time */
            continue;
        }
        if (capacity == UINT64_MAX) return 1;
        if (!own && (own = pst_search_own_bytes(&k)) > capacity) return 0;
        if (fits(g, &k, way, own, capacity)) return 1;
    }
    return 0;
}

/* Subtracts the time and memory of the chunk from what its stage has left. */
static void take_from_stage(cut_state *g, uint32_t chunk, uint32_t from, uint32_t to) {
    uint32_t at = g->flight->stage[chunk];
    if (g->chunks == 1) return;
    const pst_search_chunk k = chunk_of(g, chunk, from, to);
    g->used_ns[at] +=
        (uint64_t)work_of(g, &g->stage[at], from, to, way_of(g, &k, g->fastest_mode), 1);
    uint64_t least = UINT64_MAX;
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        if (!is_allowed(g, mode)) continue;
        uint64_t bytes = held_bytes(&k, way_of(g, &k, mode));
        if (bytes < least) least = bytes;
    }
    g->used_bytes[at] += least + pst_search_own_bytes(&k);
}

/* --- all chunks ------------------------------------------------------------------------------- */

/* The largest end of a chunk that begins at `from`, at most `most`; `from`: it holds no item.
 * Searches around `near` with steps that double, then by bisection. */
static uint32_t extend(const cut_state *g, uint32_t chunk, uint32_t from, uint32_t most,
                       uint32_t near, double longest) {
    uint32_t low = from, high = most, step = 1, at = near;
    int below = 0, beyond = 0; /* some end was feasible; some was not */
    while (low < high) {
        if (at <= low) at = low + 1;
        if (at > high) at = high;
        if (is_feasible(g, chunk, from, at, longest)) {
            below = 1;
            low = at;
        } else {
            beyond = 1;
            high = at - 1;
        }
        if (below && beyond) at = high - (high - low) / 2;
        else if (below) at = low + step;
        else at = high > step ? high + 1 - step : 0;
        step *= 2;
    }
    return low;
}

/* Whether chunk k may end before item `at`: the value that crosses must not be split over tensor
 * ranks. */
static int may_end(const cut_state *g, uint32_t k, uint32_t at) {
    if (!g->c->before || k + 1 == g->n_chunk || at == g->problem->n_item) return 1;
    const pst_search_table *own = g->stage[g->flight->stage[k]].table,
                           *next = g->stage[g->flight->stage[k + 1]].table;
    return own->key.tensor == next->key.tensor || own->table->cross[at] == next->table->cross[at];
}

/* Assigns the maximum number of items to each chunk in turn: at least one, or with `empty` possibly
 * none (a relaxation, solved exactly). Returns 1 if all items are placed. */
static int pack(cut_state *g, double longest, int empty, uint32_t *first) {
    uint32_t n = g->problem->n_item, at = 0;
    memset(g->used_ns, 0, 2 * (size_t)g->c->pipeline * sizeof *g->used_ns);
    for (uint32_t k = 0; k < g->n_chunk && at < n; k++) {
        uint32_t most = empty ? n : n - (g->n_chunk - 1 - k),
                 to = extend(g, k, at, most, at + g->length[k], longest);
        while (to > at && !may_end(g, k, to)) to--;
        first[k] = at;
        if (to == at && !empty) return 0;
        if (to > at) take_from_stage(g, k, at, to);
        g->length[k] = to - at;
        at = to;
    }
    first[g->n_chunk] = n;
    return at == n;
}

/* A limit that allows every cut, memory apart. */
static double longest_of_all(const cut_state *g) {
    uint32_t n = g->problem->n_item;
    double all = (double)g->forward_ns[n] + (double)g->backward_ns[n] + 1;
    for (uint32_t s = 0; s < g->c->pipeline; s++) {
        double most = 0;
        for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++)
            if (is_allowed(g, mode))
                most = pst_search_max(
                    most, work_of(g, &g->stage[s], 0, n,
                                  pst_search_way(g->problem, g->stage[s].table, mode, 0, n), 1));
        all += most * g->chunks + 2 * (double)g->stage[s].hop_ns + (double)g->stage[s].latency_ns +
               (g->stage[s].flush_ns + g->stage[s].sum_ns) *
                   (double)g->stage[s].table->sum[PST_SEARCH_SUM_ELEMENTS][n];
    }
    return all;
}

/* Bisection between an infeasible and a feasible limit. Returns the feasible one; *low becomes the
 * infeasible one. */
static double halve(cut_state *g, double *low, double high, int empty, uint32_t *first) {
    while (high - *low > high * 1e-4 + 0.5) {
        double middle = (*low + high) / 2;
        if (pack(g, middle, empty, first)) high = middle;
        else *low = middle;
    }
    return high;
}

/* Returns the time of the slowest stage of the best cut, and writes the cut to `first`; INFINITY:
 * no cut fits. *least: a lower bound of this time; INFINITY: no cut can fit. */
static double shortest(cut_state *g, uint32_t *first, double *least) {
    double low = g->least_ns * 0.999, high = low, most = longest_of_all(g);
    *least = INFINITY;
    if (!pack(g, most, 1, first)) return INFINITY;
    for (double more = 0.01; high < most; more *= 2) { /* usually near the lower bound */
        high = low * (1 + more) + 1;
        if (pack(g, high, 1, first)) break;
        low = high;
    }
    double relaxed = halve(g, &low, high < most ? high : most, 1, first);
    *least = low;
    if (pack(g, relaxed, 0, first)) return relaxed;
    if (!pack(g, most, 0, first)) return INFINITY;
    low = relaxed;
    high = halve(g, &low, most, 0, first);
    pack(g, high, 0, first);
    return high;
}

/* With V-shaped placement the first chunks have most micro-batches in flight. If memory is short,
 * the first chunks get less memory, so that later chunks can have more items. */
enum { EARLY_SHARES = 3 };
static const double early_shares[EARLY_SHARES] = {0.85, 0.7, 0.55};

static int has_early_chunks(const cut_state *g) {
    return g->flight->stage[g->n_chunk - 1] == 0 && g->chunks > 1;
}

static double shortest_shifted(cut_state *g, uint32_t *first, double *least) {
    double best = shortest(g, first, least), best_share = 1, unused;
    if (!has_early_chunks(g) || best <= g->least_ns * 1.02) return best;
    for (int i = 0; i < EARLY_SHARES; i++) {
        g->early_share = early_shares[i];
        if (best < INFINITY && !pack(g, best * 0.99, 1, first)) continue;
        double now = shortest(g, first, &unused);
        if (now < best * 0.99) {
            best = now;
            best_share = early_shares[i];
        }
    }
    g->early_share = best_share;
    if (best < INFINITY) pack(g, best, 0, first);
    return best;
}

/* --- choice among equally good cuts ----------------------------------------------------------- */

/* One chunk per stage: lets each chunk begin as late as possible, from the last one on. */
static int pack_late(const cut_state *g, double longest, uint32_t *first) {
    uint32_t to = g->problem->n_item;
    for (uint32_t k = g->n_chunk; k-- > 0;) {
        uint32_t low = k, high = to - 1; /* the least feasible `from` */
        if (!is_feasible(g, k, high, to, longest)) return 0;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (is_feasible(g, k, middle, to, longest)) high = middle;
            else low = middle + 1;
        }
        while (k && high + 1 < to && !may_end(g, k - 1, high)) high++;
        if (k && !may_end(g, k - 1, high)) return 0;
        first[k] = to = high;
    }
    return first[0] == 0;
}

/* Moves each border, between its earliest and latest place, to where fewest bytes cross, and among
 * these to where work is most even; keeps the result only if each stage stays within `longest`. */
static void place_borders(const cut_state *g, double longest, const uint32_t *early,
                          const uint32_t *late, uint32_t *first) {
    uint32_t n = g->problem->n_item, *own = first + g->n_chunk + 1;
    uint64_t all = g->forward_ns[n] + g->backward_ns[n];
    own[0] = 0;
    own[g->n_chunk] = n;
    for (uint32_t k = 1; k < g->n_chunk; k++) {
        uint32_t from = early[k] > own[k - 1] ? early[k] : own[k - 1] + 1, best = from;
        const uint64_t *cross = g->stage[g->flight->stage[k - 1]].table->table->cross;
        uint64_t aim = all / g->n_chunk * k, off = UINT64_MAX;
        for (uint32_t i = from; i <= late[k] && i <= n - (g->n_chunk - k); i++) {
            uint64_t at = g->forward_ns[i] + g->backward_ns[i],
                     away = at > aim ? at - aim : aim - at;
            if (!may_end(g, k - 1, i)) continue;
            if (!may_end(g, k - 1, best)) {
                best = i;
                off = away;
            }
            if (cross[i] < cross[best] || (cross[i] == cross[best] && away < off)) {
                best = i;
                off = away;
            }
        }
        if (!may_end(g, k - 1, best) || !is_feasible(g, k - 1, own[k - 1], best, longest)) return;
        own[k] = best;
    }
    if (is_feasible(g, g->n_chunk - 1, own[g->n_chunk - 1], n, longest))
        memcpy(first, own, (g->n_chunk + 1) * sizeof *first);
}

/* Nothing fits: finds the least extra memory per stage with which a cut fits, unless that is more
 * than `most`. */
static void find_least_excess(cut_state *g, uint64_t most, uint32_t *first) {
    uint64_t low = 0, high = 1 << 20;
    g->more = most;
    if (most < UINT64_MAX && !pack(g, INFINITY, 0, first)) {
        first[g->n_chunk] = 0;
        g->more = 0;
        return;
    }
    while (high < UINT64_MAX / 8) {
        g->more = high;
        if (pack(g, INFINITY, 0, first)) break;
        low = high;
        high *= 2;
    }
    while (high - low > 1 + high / 1024) {
        g->more = low + (high - low) / 2;
        if (pack(g, INFINITY, 0, first)) high = g->more;
        else low = g->more;
    }
    g->more = high;
    pack(g, INFINITY, 0, first);
    g->more = 0;
}

/* 1: no cut is below limit_ns. */
static int is_beyond(cut_state *g, uint64_t limit_ns, uint32_t *first) {
    if (limit_ns == UINT64_MAX) return 0;
    if (limit_ns <= g->norm_latency_ns ||
        g->least_ns + (double)g->norm_latency_ns >= (double)limit_ns)
        return 1;
    return g->chunks == 1 && !pack(g, (double)(limit_ns - g->norm_latency_ns), 1, first);
}

/* The same for several chunks per stage, as a heuristic: the packing may not be optimal. */
static int seems_beyond(cut_state *g, uint64_t limit_ns, uint32_t *first) {
    double longest = (double)(limit_ns - g->norm_latency_ns);
    if (limit_ns == UINT64_MAX || g->chunks == 1 || pack(g, longest, 1, first)) return 0;
    int beyond = 1;
    for (int i = 0; i < EARLY_SHARES && beyond && has_early_chunks(g); i++) {
        g->early_share = early_shares[i];
        beyond = !pack(g, longest, 1, first);
    }
    g->early_share = 1;
    return beyond;
}

pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t limit_ns, uint64_t *bound_ns) {
    cut_state g;
    uint32_t n = pst_search_chunk_count(x, c);
    uint32_t *first = calloc(4 * ((size_t)n + 1), sizeof *first),
             *early = first + 2 * ((size_t)n + 1);
    pst_status status = open_state(x, c, &g);
    if (status == PST_OK && !first)
        status = pst_fail(PST_ENOMEM, "no memory to cut into %u chunks", n);
    if (status == PST_OK) status = fill_state(x, &g, candidate->layout.device);
    if (status == PST_OK && is_beyond(&g, limit_ns, first)) *bound_ns = limit_ns;
    else if (status == PST_OK) {
        double least = g.least_ns, longest = INFINITY;
        int beyond = seems_beyond(&g, x->limit_ns, first);
        if (!beyond) longest = shortest_shifted(&g, first, &least);
        *bound_ns = UINT64_MAX;
        if (longest == INFINITY && x->want_nearest && !beyond)
            find_least_excess(&g, x->least_excess, first);
        else if (longest == INFINITY) first[n] = 0;
        else {
            double slack = longest * 1.001;
            uint32_t *late = early + n + 1;
            if (n == c->pipeline && pack_late(&g, slack, early) && pack(&g, slack, 0, late))
                place_borders(&g, slack, early, late, first);
        }
        /* with several chunks per stage only the even spread of work is a bound */
        double bound = n == c->pipeline ? least : g.least_ns;
        if (bound < INFINITY) *bound_ns = (uint64_t)bound + g.norm_latency_ns;
        memcpy(candidate->layout.first_item, first, (n + 1) * sizeof *first);
    }
    close_state(&g);
    free(first);
    return status;
}
