/* The search space, and what the search needs repeatedly: configurations, orders of devices, prefix
 * sums of cost tables, schedules and their micro-batches in flight. One context owns everything of
 * a search. */
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
    PST_SEARCH_SUM_ACCUMULATED,
    PST_SEARCH_SUM_TIED,
    PST_SEARCH_SUM_KEPT,
    PST_SEARCH_SUM_AGAIN,
    PST_SEARCH_SUM_STASH = PST_SEARCH_SUM_AGAIN + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_RECOMPUTED = PST_SEARCH_SUM_STASH + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_STASH_TO_W = PST_SEARCH_SUM_RECOMPUTED + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_B_TO_W = PST_SEARCH_SUM_STASH_TO_W + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_RECOMPUTED_TO_W = PST_SEARCH_SUM_B_TO_W + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_FB = PST_SEARCH_SUM_RECOMPUTED_TO_W + PST_RECOMPUTE_COUNT, /* F, B, again */
    PST_SEARCH_SUM_FBW = PST_SEARCH_SUM_FB + PST_RECOMPUTE_COUNT,             /* F, B, again, W */
    PST_SEARCH_SUM_COUNT = PST_SEARCH_SUM_FBW + PST_RECOMPUTE_COUNT
} pst_search_sum;

/* For numbers that are never NaN: fmin and fmax would be function calls. */
static inline double pst_search_min(double a, double b) { return b < a ? b : a; }
static inline double pst_search_max(double a, double b) { return b > a ? b : a; }

typedef struct {
    pst_search_key key;
    const pst_cost_table *table; /* NULL: infeasible, and why says so */
    char why[120];
    uint64_t *sum[PST_SEARCH_SUM_COUNT]; /* [n_item + 1] */
    uint64_t least_cross; /* bytes that cross the cheapest cut; bytes received there */
    uint64_t least_enter[PST_RECOMPUTE_COUNT];
    uint64_t *scratch[2]; /* [levels][n_item] maximum over the 2^level items from each on; [1]:
                             where B and W are apart */
    uint64_t *largest;    /* the same for the items' largest parameters */
    uint32_t n_alike, *alike, *n_of; /* [n_alike] the first item of each group with equal costs, and
                                        the size of the group; NULL: not computed */
} pst_search_table;
static inline uint64_t pst_search_run(const pst_search_table *t, uint32_t sum, uint32_t from,
                                      uint32_t to) {
    return t->sum[sum][to] - t->sum[sum][from];
}

/* How many micro-batches of each chunk a schedule holds at most: from F to the end of W, from F to
 * the end of B, and (where these are apart; else 0) from B to the end of W. */
typedef struct {
    /* key; n_micro: capped where more change nothing */
    uint32_t schedule, pipeline, chunks, n_micro;
    uint32_t n_chunk;
    uint32_t *stage, *f_to_w, *f_to_b, *b_to_w; /* [n_chunk] its stage; the three numbers */
    uint32_t *stage_f_to_b; /* [pipeline] F to B, over all chunks of the stage at once */
} pst_search_flight;

typedef struct {
    uint32_t schedule, pipeline, chunks, n_micro;
    pst_schedule *built;
    uint64_t n_action;
} pst_search_cached;
/* Limits: cached schedules, their actions, passes of a pipeline on a longest path. */
enum { PST_SEARCH_CACHED = 12, PST_SEARCH_ACTIONS = 1 << 22, PST_SEARCH_PASSES = 1 << 22 };

/* What is chosen before the order of devices and the cut. */
typedef struct {
    /* schedule: index in the problem */
    uint32_t pipeline, tensor, data, micro_batch, chunks, zero, sequence, schedule;
    const uint32_t *before; /* as in pst_grid, owned by the row; NULL */
    uint32_t n_micro;       /* micro-batches of all replicas together */
    uint64_t bound_ns;      /* lower bound of the step */
    uint64_t guess_ns;      /* rough estimate of the step: which to evaluate first */
    uint64_t min_bytes; /* rough bytes of a stage with most recomputation: to try smaller ones where
                           others did not fit */
    /* bytes of each device that stay unused: prepared layouts needed more than estimated */
    uint64_t reserve;
    /* how much longer prepared layouts with this schedule and ZeRO stage were than estimated */
    uint64_t correction_ns;
    uint64_t cut_reserve; /* bytes that the cut search also leaves free: earlier cuts did not fit */
    int tightened;        /* 1: pst_search_tighten was called */
    int evaluated;        /* 1: evaluated, or need not be */
    int exhausted;        /* 1: every layout of it was evaluated or refuted */
} pst_search_config;

/* Whether replica sums can overlap the last pass (pipeline/compile/early.h). */
static inline int pst_search_overlaps_sums(const pst_search_problem *p,
                                           const pst_search_config *c) {
    return c->data > 1 && c->zero < 2 && p->parts <= c->data;
}
static inline pst_grid pst_search_grid_of(const pst_search_config *c) {
    return (pst_grid){c->pipeline, c->data, c->tensor, c->before};
}

typedef struct {
    const pst_search_problem *problem;
    const pst_schedule_row *row[PST_SEARCH_SCHEDULES];
    uint64_t end_ns;         /* monotonic; UINT64_MAX: no limit */
    uint64_t limit_ns;       /* longest paths stop at this step */
    int free_links;          /* 1: longest paths ignore the bandwidth that messages share */
    uint64_t best_ns;        /* shortest step so far; UINT64_MAX: none */
    int same_speed, uniform; /* 1: all devices have one kind and speed; and also equal memory and
                                links */
    uint64_t capacity;       /* bytes that a rank may use on the largest device */
    uint32_t node_devices;   /* most devices of a node */
    double device_bw, node_bw, node_total_bw; /* bandwidth of the best link within a node and
                                        between nodes; of all NICs of a node, INFINITY: no limit */
    int want_nearest; /* 1: where nothing fits, find the cut that exceeds its memory least */
    uint32_t n_table, last_table, n_flight;
    size_t table_capacity, flight_capacity;
    pst_search_table **table;
    pst_search_flight **flight;
    pst_search_cached cached[PST_SEARCH_CACHED];
    uint32_t next_cached;
    uint64_t *path_ends; /* scratch of the longest path */
    size_t path_ends_capacity;
    uint64_t n_layout, n_simulated, n_verified;
    uint64_t n_checked, n_passes; /* layouts prepared before the end of the search; their passes */
    int needs_margin;             /* 1: a layout that fitted by the estimate did not */
    struct {
        uint64_t hash, excess, more;
        uint32_t stage;
    } failed; /* the last checked layout that did not fit, because it may be found again */
} pst_search_context;

/* --- problem.c: what the problem says */
int pst_search_timed_out(const pst_search_context *x);
/* Bytes that a rank on a device may use. UINT64_MAX: no limit. */
uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device);
/* Whether the problem is small enough to evaluate all cuts: at most so many devices. */
enum { PST_SEARCH_SMALL = 6 };
int pst_search_is_small(const pst_search_problem *problem);
/* Whether a layout with so many ranks is allowed. */
int pst_search_allows_size(const pst_search_problem *problem, uint64_t size);
/* Bytes over, by the layout's peak_bytes, on the stage that exceeds its memory most; 0: it fits. */
uint64_t pst_search_excess(const pst_search_problem *problem, const pst_candidate *candidate,
                           uint32_t *stage);
/* Devices times samples: the rough cost of an evaluation; high above HIGH_EFFORT. */
enum { PST_SEARCH_HIGH_EFFORT = 4096 };
uint64_t pst_search_effort(const pst_search_context *x);
/* Whether an evaluation is cheap. */
int pst_search_is_cheap(const pst_search_context *x);
uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c);

/* --- table.c: the context */
/* ENOMEM, EINPUT (unknown schedule). Close it also when it fails. */
pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x);
void pst_search_context_close(pst_search_context *x);
/* The cost table of a stage on a kind of device. (*table)->table is NULL where the combination is
 * infeasible. */
pst_status pst_search_table_of(pst_search_context *x, const pst_search_config *c, uint32_t kind,
                               uint32_t stage, const pst_search_table **table);

/* EINPUT: "infeasible: ", and why the table is NULL. */
pst_status pst_search_infeasible(const pst_search_table *table);

/* --- flight.c: schedules */
/* chunks: per stage. */
pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight);
void pst_search_flight_close(pst_search_flight *flight);
/* Valid until the next call. */
pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made);

/* --- candidate.c */
pst_status pst_candidate_open(const pst_search_problem *problem, const pst_search_config *c,
                              uint32_t n_chunk, pst_candidate **candidate);

/* --- order.c: orders of devices */
typedef struct {
    uint32_t n, size; /* n orders of `size` devices */
    uint32_t *device; /* [n][size] */
    int all;          /* 1: all distinct orders */
} pst_search_orders;
/* n 0: there are not enough tensor groups. */
pst_status pst_search_orders_of(const pst_search_problem *problem, const pst_search_config *c,
                                pst_search_orders *orders);

/* --- space.c: configurations */
/* All configurations with the degrees of `like`, by guess_ns. n 0: none, and why says so. */
pst_status pst_search_configs(pst_search_context *x, const pst_search_config *like,
                              pst_search_config **config, uint32_t *n, char why[160]);
#endif
