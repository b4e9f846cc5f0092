/* The search space and the data that evaluations share: configurations, orders of devices, prefix
 * sums of cost tables, schedules and their micro-batches in flight. A context owns all data of a
 * search. */
#ifndef PST_PARTITION_SEARCH_SPACE_H
#define PST_PARTITION_SEARCH_SPACE_H
#include "partition/search/search.h"
#include "pipeline/schedule/flight.h"

/* Prefix sums of a cost table: [k] is the sum over the items before k. */
typedef enum {
    PST_SEARCH_SUM_F,
    PST_SEARCH_SUM_B,
    PST_SEARCH_SUM_W,
    PST_SEARCH_SUM_EXCHANGE,
    PST_SEARCH_SUM_ELEMENTS,
    PST_SEARCH_SUM_FROZEN,
    PST_SEARCH_SUM_ACCUMULATED,
    PST_SEARCH_SUM_TIED,
    PST_SEARCH_SUM_KEPT,
    PST_SEARCH_SUM_AGAIN,
    PST_SEARCH_SUM_STASH = PST_SEARCH_SUM_AGAIN + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_RECOMPUTED = PST_SEARCH_SUM_STASH + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_STASH_TO_W = PST_SEARCH_SUM_RECOMPUTED + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_B_TO_W = PST_SEARCH_SUM_STASH_TO_W + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_RECOMPUTED_TO_W = PST_SEARCH_SUM_B_TO_W + PST_RECOMPUTE_COUNT,
    /* F + B + recomputation */
    PST_SEARCH_SUM_FB = PST_SEARCH_SUM_RECOMPUTED_TO_W + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_FBW = PST_SEARCH_SUM_FB + PST_RECOMPUTE_COUNT, /* F + B + recomputation + W */
    PST_SEARCH_SUM_COUNT = PST_SEARCH_SUM_FBW + PST_RECOMPUTE_COUNT
} pst_search_sum;

/* Minimum and maximum for values that are never NaN; fmin and fmax would not be inlined. */
static inline double pst_search_min(double a, double b) { return b < a ? b : a; }
static inline double pst_search_max(double a, double b) { return b > a ? b : a; }
/* Return the share of steps in which replicas exchange anything, and the mean bytes per element of
 * what they send of a gradient and, with zero 0, of its sum. */
static inline double pst_search_sum_share(const pst_search_problem *p) {
    return p->sum_share > 0 ? p->sum_share : 1;
}
static inline double pst_search_sum_bytes(const pst_search_problem *p, uint32_t zero) {
    const double sent = p->sum_bytes > 0 ? p->sum_bytes : p->grad_bytes;
    return (sent + (zero ? 0 : p->grad_bytes)) * pst_search_sum_share(p);
}

/* Bytes per element of a weight that its owner sends (zero 1 and 2). */
static inline double pst_search_change_bytes(const pst_search_problem *p) {
    return p->change_bytes > 0 ? p->change_bytes : p->weight_bytes;
}

/* less_ns: by how much passes of the step's smaller first micro-batch may be shorter than its part
 * of a whole one's, summed over operators, on the kind where it is most; negative: a kind has no
 * costs of it. */
typedef struct {
    int known; /* 1: computed (rest.c) */
    double less_ns;
} pst_search_rest;

enum { PST_SEARCH_BLOCK = 16 };
typedef struct {
    pst_search_key key;
    const pst_cost_table *table; /* NULL: infeasible; `why` has the reason */
    char why[120];
    uint64_t *sum[PST_SEARCH_SUM_COUNT];       /* [n_item + 1] */
    uint64_t least_cross;                      /* bytes that cross the cheapest cut */
    uint64_t least_enter[PST_RECOMPUTE_COUNT]; /* smallest number of bytes that a chunk receives */
    /* scratch bytes of each item, [n_item], then [levels][blocks] the maximum of the 2^level blocks
     * from each one on, of PST_SEARCH_BLOCK items each; [1]: with separate B and W */
    uint64_t *scratch[2];
    uint64_t *largest; /* likewise, elements of the largest parameter */
    /* likewise, bytes recomputed at a time in the layer that ends with an item;
     * [1]: with separate B and W */
    uint64_t *layer_bytes[2];
    /* [n_layer] first item of each layer, and the one behind it; [n_item + 1] number of layers that
     * begin before an item, and that end there or before */
    uint32_t n_layer, *layer_first, *layer_end, *layers_begun, *layers_ended;
    /* [n_alike] groups of items with equal costs: first item, and number of items, of each group;
     * NULL: not computed */
    uint32_t n_alike, *alike, *n_of;
    pst_search_rest *rest; /* computed when it is needed, in the first kind's table */
} pst_search_table;
/* Returns the sum over items [from, to). */
static inline uint64_t pst_search_run(const pst_search_table *t, uint32_t sum, uint32_t from,
                                      uint32_t to) {
    return t->sum[sum][to] - t->sum[sum][from];
}
/* Returns the bytes that a layer, or a part of one, recomputes at a time. split: 1: B and W are
 * separate passes, and what W needs counts elsewhere. */
static inline uint64_t pst_search_again_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                                              int split) {
    const uint64_t all =
        pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED + PST_RECOMPUTE_LAYERS, from, to);
    return split ? all - pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED_TO_W + PST_RECOMPUTE_LAYERS,
                                        from, to)
                 : all;
}
/* Returns the number of layers of which a chunk of items [from, to) has items. */
static inline uint32_t pst_search_layers(const pst_search_table *t, uint32_t from, uint32_t to) {
    return t->layers_begun[to] > t->layers_ended[from] ? t->layers_begun[to] - t->layers_ended[from]
                                                       : 0;
}
/* Returns the end of the items that have the costs of mode LAYERS if the chunk recomputes in a way
 * with this mode; the items behind it have those of NONE. */
static inline uint32_t pst_search_layers_end(const pst_search_table *t, pst_recompute_way way,
                                             uint32_t from, uint32_t to) {
    const uint32_t last = t->layers_ended[from] + pst_recompute_layers(way) - 1;
    return last < t->n_layer && t->layer_end[last] < to ? t->layer_end[last] : to;
}
/* Returns the way in which a chunk of items [from, to) recomputes with a mode: with LAYERS as many
 * layers as the problem says, or else all that the chunk has. */
static inline pst_recompute_way pst_search_way(const pst_search_problem *problem,
                                               const pst_search_table *t, pst_recompute mode,
                                               uint32_t from, uint32_t to) {
    if (mode != PST_RECOMPUTE_LAYERS) return (pst_recompute_way)mode;
    const int all = !problem->layers || problem->layers == PST_RECOMPUTE_MOST_LAYERS;
    return pst_recompute_of_layers(all ? pst_search_layers(t, from, to) : problem->layers);
}
/* Returns 1 if the search chooses the number of layers of chunks with this mode. */
static inline int pst_search_chooses_layers(const pst_search_problem *problem, pst_recompute mode) {
    return mode == PST_RECOMPUTE_LAYERS && !problem->layers;
}
/* Returns the sum over items [from, to) of a chunk that recomputes in this way. sum: the first of
 * the sums by mode. */
static inline uint64_t pst_search_run_way(const pst_search_table *t, uint32_t sum,
                                          pst_recompute_way way, uint32_t from, uint32_t to) {
    if (pst_recompute_mode(way) != PST_RECOMPUTE_LAYERS)
        return pst_search_run(t, sum + way, from, to);
    const uint32_t end = pst_search_layers_end(t, way, from, to);
    return pst_search_run(t, sum + PST_RECOMPUTE_LAYERS, from, end) +
           pst_search_run(t, sum + PST_RECOMPUTE_NONE, end, to);
}

/* The maximum number of micro-batches of each chunk that a schedule has in flight: from F to the
 * end of W, from F to the end of B, and from B to the end of W (0 if B and W are fused). */
typedef struct {
    /* key; n_micro is limited to the number above which nothing changes */
    uint32_t schedule, pipeline, chunks, n_micro;
    uint32_t n_chunk;
    /* [n_chunk] stage of each chunk; the three numbers */
    uint32_t *stage, *f_to_w, *f_to_b, *b_to_w;
    /* [pipeline] maximum from F to the end of B, summed over the chunks of the stage */
    uint32_t *stage_f_to_b;
} pst_search_flight;

typedef struct {
    uint32_t schedule, pipeline, chunks, n_micro;
    pst_schedule *built;
    uint64_t n_action;
} pst_search_cached;
/* Maximum numbers of cached schedules, of actions of a cached schedule, and of passes in a longest
 * path. */
enum { PST_SEARCH_CACHED = 12, PST_SEARCH_ACTIONS = 1 << 22, PST_SEARCH_PASSES = 1 << 22 };

/* bound_ns of a configuration that cannot fit in memory */
#define PST_SEARCH_TOO_LARGE (UINT64_MAX - 1)

/* A configuration: all choices of a layout except the order of devices and the cut. */
typedef struct {
    /* schedule: index into problem->schedule */
    uint32_t pipeline, tensor, data, micro_batch, chunks, zero, sequence, schedule;
    const uint32_t *before; /* tensor_before of pst_grid, or NULL; owned by the row */
    /* micro-batches of a step with micro_batch samples, summed over replicas; a smaller first one
     * is not counted */
    uint32_t n_micro;
    /* samples of a smaller first one, as a part of micro_batch, and the ns by which its passes of
     * all operators may be shorter than this part, on the slowest device; 0: bounds ignore it */
    double rest, rest_less_ns;
    uint64_t bound_ns; /* lower bound of the step */
    uint64_t guess_ns; /* rough estimate of the step, which determines the order of evaluation */
    /* rough estimate of the bytes of a stage with full recomputation; if nothing fits, smaller ones
     * are tried first */
    uint64_t min_bytes;
    /* bytes of each device that stay free, because compiled layouts needed more memory than
     * estimated */
    uint64_t reserve;
    /* ns by which compiled layouts with this schedule and ZeRO stage were longer than estimated */
    uint64_t correction_ns;
    /* further bytes that the search for a cut leaves free, because earlier cuts did not fit */
    uint64_t cut_reserve;
    int tightened; /* 1: pst_search_tighten was called */
    int priced;    /* 1: pst_search_tighten_more was called */
    int ordered;   /* 1: pst_search_tighten_orders was called */
    int evaluated; /* 1: evaluated, or excluded by its lower bound */
    int exhausted; /* 1: every layout of the configuration was evaluated or excluded */
} pst_search_config;

/* Returns 1 if reductions over replicas can overlap the last pass (pipeline/compile/early.h). */
static inline int pst_search_overlaps_sums(const pst_search_problem *p,
                                           const pst_search_config *c) {
    return c->data > 1 && c->zero < 2 && p->parts <= c->data;
}
static inline pst_grid pst_search_grid_of(const pst_search_config *c) {
    return (pst_grid){c->pipeline, c->data, c->tensor, c->before, 0};
}

/* Durations of the flush of a stage for an order of devices: ns per element of the parameters, and
 * latencies in ns. */
typedef struct {
    /* sum_ns: gradient sums of a step (zero 2: of a micro-batch); gather_ns: all-gather of the
     * updated weights */
    double sum_ns, norm_ns, step_ns, gather_ns;
    uint64_t sum_latency_ns, gather_latency_ns;
} pst_search_flush;
typedef struct {
    const pst_search_problem *problem;
    const pst_schedule_row *row[PST_SEARCH_SCHEDULES];
    uint64_t end_ns;  /* time limit on the monotonic clock; UINT64_MAX: none */
    uint64_t kept_ns; /* time before that limit in which the best layout can be verified */
    /* measured time of verifications / predicted time, of the one with most; 0: none yet */
    double verify_ratio;
    uint64_t start_ns, start_thread_ns; /* of the search; processor time of its thread by then */
    int stopped;                        /* 1: the time was over when there was more to search */
    uint64_t limit_ns; /* computations of longest paths stop when the step exceeds this */
    int free_links;    /* 1: longest paths ignore that messages share bandwidth */
    int flat;          /* 1: estimates have flat exchanges between replicas only */
    uint64_t best_ns;  /* shortest step so far in ns; UINT64_MAX: none */
    /* same_speed 1: all devices have the same kind and speed; uniform 1: also the same memory and
     * links */
    int same_speed, uniform;
    uint64_t capacity;     /* bytes that a rank may use on the device with the most memory */
    uint32_t node_devices; /* largest number of devices of a node */
    /* bytes per second: best link within a node, best link between nodes, all NICs of a node
     * together (INFINITY: no limit) */
    double device_bw, node_bw, node_total_bw;
    int want_nearest; /* 1: if no cut fits, find the cut that exceeds the memory least */
    /* bytes by which the row's nearest layout exceeds its memory; UINT64_MAX: there is none, or no
     * limit */
    uint64_t least_excess;
    uint32_t n_table, last_table, n_flight;
    size_t table_capacity, flight_capacity;
    pst_search_table **table;
    pst_search_flight **flight;
    pst_search_cached cached[PST_SEARCH_CACHED];
    uint32_t next_cached;
    struct {
        uint64_t hash;        /* of configuration and order of devices; 0: none */
        pst_search_flush *of; /* [pipeline] */
        uint64_t norm_latency_ns;
    } flush;             /* the flush that was computed last */
    uint64_t *path_ends; /* scratch memory of the longest path */
    size_t path_ends_capacity;
    uint64_t enough_ns;             /* bounds need not be above; UINT64_MAX: no limit */
    struct pst_search_paths *paths; /* those used last (partition/search/paths.h) */
    uint64_t order_effort;          /* operations of pst_search_tighten_orders so far */
    uint64_t price_effort;          /* so far (pst_search_price_effort) */
    uint64_t n_layout, n_simulated, n_verified;
    /* layouts compiled before the end of the search; number of their passes */
    uint64_t n_checked, n_passes;
    int needs_margin; /* 1: a layout did not fit although the estimate did */
    struct {
        uint64_t hash, excess, more;
        uint32_t stage;
    } failed; /* the last checked layout that did not fit; it is not checked again */
} pst_search_context;

/* --- problem.c: properties of the problem */
/* Returns 1 after the time limit, or if the time left is needed to verify the best layout. */
int pst_search_timed_out(pst_search_context *x);
/* Keeps the time free in which `candidate`, the best layout so far, can be verified: as predicted
 * or, after the first one, as measured. */
void pst_search_keep_time(pst_search_context *x, const pst_candidate *candidate);
/* Notes how long a verification took, by the monotonic clock. */
void pst_search_note_time(pst_search_context *x, const pst_candidate *candidate, uint64_t took_ns);
/* Returns the bytes that a rank on a device may use; UINT64_MAX: no limit. */
uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device);
/* Returns 1 if the problem is small enough to evaluate all cuts; PST_SEARCH_SMALL: maximum number
 * of devices. */
enum { PST_SEARCH_SMALL = 6 };
int pst_search_is_small(const pst_search_problem *problem);
/* Returns 1 if layouts with `size` ranks are allowed. */
int pst_search_allows_size(const pst_search_problem *problem, uint64_t size);
/* Returns by how many bytes the layout's peak_bytes exceed the memory on the stage that exceeds it
 * most (*stage); 0: the layout fits. */
uint64_t pst_search_excess(const pst_search_problem *problem, const pst_candidate *candidate,
                           uint32_t *stage);
/* Returns a rough measure of the cost of an evaluation: devices x samples. Above HIGH_EFFORT the
 * cost is high. */
enum { PST_SEARCH_HIGH_EFFORT = 4096 };
uint64_t pst_search_effort(const pst_search_context *x);
/* Returns 1 if an evaluation is cheap. */
int pst_search_is_cheap(const pst_search_context *x);
/* Returns the number of chunks of a pipeline. */
uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c);

/* --- table.c: the context */
/* Opens the context of a search. The caller closes it, also after a failure. EINPUT: unknown or
 * unsupported schedule; ENOMEM. */
pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x);
void pst_search_context_close(pst_search_context *x);
/* Sets *table to the cost table of a stage on a kind of device; the context owns it.
 * (*table)->table is NULL if the combination is infeasible. */
pst_status pst_search_table_of(pst_search_context *x, const pst_search_config *c, uint32_t kind,
                               uint32_t stage, const pst_search_table **table);

/* Fails with EINPUT and the message "infeasible: " + table->why. */
pst_status pst_search_infeasible(const pst_search_table *table);

/* --- flight.c: schedules */
/* Sets *flight to the micro-batches in flight of a schedule; the context owns them. chunks: per
 * stage. */
pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight);
void pst_search_flight_close(pst_search_flight *flight);
/* Sets *made to the generated schedule, which is valid until the next call. chunks: per stage. */
pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made);

/* --- candidate.c */
pst_status pst_candidate_open(const pst_search_problem *problem, const pst_search_config *c,
                              uint32_t n_chunk, pst_candidate **candidate);

/* --- order.c: orders of devices */
typedef struct {
    uint32_t n, size; /* number of orders; number of devices of each order */
    uint32_t *device; /* [n][size] */
    int all;          /* 1: all distinct orders */
} pst_search_orders;
/* Lists orders of devices for a configuration. The caller frees orders->device. n 0: the cluster
 * has too few tensor groups. */
pst_status pst_search_orders_of(const pst_search_problem *problem, const pst_search_config *c,
                                pst_search_orders *orders);

/* --- rest.c */
/* Sets c->rest and c->rest_less_ns. */
pst_status pst_search_rest_of(pst_search_context *x, pst_search_config *c);

/* --- space.c: configurations */
/* Lists all configurations with the degrees of `like`, ascending by guess_ns. The caller frees
 * *config. *n 0: no configuration is feasible; `why` has the reason. */
pst_status pst_search_configs(pst_search_context *x, const pst_search_config *like,
                              pst_search_config **config, uint32_t *n, char why[160]);
/* Returns 1 if each `near` adjacent replicas may add their gradients first, a power of two. */
static inline int pst_search_is_two_level(const pst_search_problem *p, const pst_search_config *c,
                                          uint32_t near) {
    return p->two_level && c->zero != 2 && c->data % near == 0 && near < c->data;
}
#endif
