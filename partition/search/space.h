/* What may be tried, and what every step of the search asks for again and again: configurations,
 * orders of devices, cost tables as sums over runs of items, schedules and what they hold in
 * flight. All of one search hangs on its context. */
#ifndef PST_PARTITION_SEARCH_SPACE_H
#define PST_PARTITION_SEARCH_SPACE_H
#include "partition/search/search.h"
#include "pipeline/schedule/flight.h"

/* Sums of a cost table: [k] is that of the items before k. */
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
    PST_SEARCH_SUM_HELD = PST_SEARCH_SUM_STASH + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_LATE = PST_SEARCH_SUM_HELD + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_APART = PST_SEARCH_SUM_LATE + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_HELD_APART = PST_SEARCH_SUM_APART + PST_RECOMPUTE_COUNT,
    PST_SEARCH_SUM_FB = PST_SEARCH_SUM_HELD_APART + PST_RECOMPUTE_COUNT, /* F, B and what is
                                                                            computed again; */
    PST_SEARCH_SUM_FBW = PST_SEARCH_SUM_FB + PST_RECOMPUTE_COUNT,        /* and W */
    PST_SEARCH_SUM_COUNT = PST_SEARCH_SUM_FBW + PST_RECOMPUTE_COUNT
} pst_search_sum;

/* Of numbers, none of which is NaN: fmin and fmax would be calls. */
static inline double pst_search_less(double a, double b) { return b < a ? b : a; }
static inline double pst_search_more(double a, double b) { return b > a ? b : a; }

typedef struct {
    pst_search_key key;
    const pst_cost_table *table;         /* NULL: cannot be had */
    uint64_t *sum[PST_SEARCH_SUM_COUNT]; /* [n_item + 1] */
    uint64_t least_cross; /* bytes over the cheapest cut; and received where that is least */
    uint64_t least_enter[PST_RECOMPUTE_COUNT];
    uint64_t *scratch[2]; /* [levels][n_item] most of the 2^level items from each on; [1] where B
                             and W are apart */
    uint64_t *largest;    /* the same of the items' largest parameters */
    uint32_t n_alike, *alike, *n_of; /* [n_alike] the first of items that take the same, and how
                                        many; NULL: not sorted */
} pst_search_table;
static inline uint64_t pst_search_run(const pst_search_table *t, uint32_t sum, uint32_t from,
                                      uint32_t to) {
    return t->sum[sum][to] - t->sum[sum][from];
}

/* How many micro-batches of each chunk a schedule holds, at most: from F to the end of W, from F to
 * the end of B, and (where they are apart; else 0) from B to the end of W. */
typedef struct {
    /* key; n_micro: at most as many as change anything */
    uint32_t schedule, pipeline, chunks, n_micro;
    uint32_t n_chunk;
    uint32_t *stage, *most, *to_b, *to_w; /* [n_chunk] where it lies; F to W, F to B, B to W */
    uint32_t *held; /* [pipeline] F to B, of all chunks of the stage at once */
} pst_search_flight;

typedef struct {
    uint32_t schedule, pipeline, chunks, n_micro;
    pst_schedule *made;
    uint64_t n_action;
} pst_search_made;
/* Schedules that are kept, and actions of theirs; passes of one pipeline that can be walked
 * through. */
enum { PST_SEARCH_MADE = 12, PST_SEARCH_ACTIONS = 1 << 22, PST_SEARCH_PASSES = 1 << 22 };

/* What is chosen before the order of the devices and the cut. */
typedef struct {
    /* schedule: of the problem */
    uint32_t pipeline, tensor, data, micro_batch, chunks, zero, sequence, schedule;
    const uint32_t *before; /* as in pst_grid: of its row; NULL */
    uint32_t n_micro;       /* of all replicas together */
    uint64_t bound_ns;      /* no step is shorter */
    uint64_t guess_ns;      /* what it may come to: which to evaluate first */
    uint64_t min_bytes;     /* bytes of a stage that may do, about, with most recomputation: where
                          others were too large */
    /* bytes of each device that are not given out: layouts took so much more than was estimated */
    uint64_t reserve;
    /* by how much prepared layouts with this schedule and zero were longer than estimated */
    uint64_t more_ns;
    uint64_t spare; /* and that cuts leave besides: what they gave out was too much */
    int tight;      /* 1: pst_search_tighten has been through it */
    int seen;       /* 1: evaluated, or it is known that it need not be */
    int closed;     /* 1: every layout of it has been evaluated, or refuted */
} pst_search_config;

static inline pst_grid pst_search_grid_of(const pst_search_config *c) {
    return (pst_grid){c->pipeline, c->data, c->tensor, c->before};
}

typedef struct {
    const pst_search_problem *problem;
    const pst_schedule_row *row[PST_SEARCH_SCHEDULES];
    uint64_t end_ns;   /* monotonic; UINT64_MAX: no limit */
    uint64_t limit_ns; /* longer steps need not be walked through */
    int free_links;    /* 1: walks leave out what links have to carry */
    uint64_t best_ns;  /* of what has been found so far; UINT64_MAX: nothing has */
    int even, alike;   /* 1: all devices are of one kind and as fast; and have as much memory, and
                          nodes the same links */
    uint64_t room;     /* bytes that a rank may use on the device that has most */
    uint32_t largest;  /* devices of a node, at most */
    double near_bw, far_bw, node_bw; /* the best link's of each level; of all NICs of a node,
                                        INFINITY: no limit */
    int nearest; /* 1: where nothing fits, the cut that is least over is wanted */
    uint32_t n_table, last_table, n_flight;
    size_t room_table, room_flight;
    pst_search_table **table;
    pst_search_flight **flight;
    pst_search_made made[PST_SEARCH_MADE];
    uint32_t next_made;
    uint64_t *finish; /* of the walk */
    size_t room_finish;
    uint64_t n_layout, n_simulated, n_verified;
    uint64_t n_check, n_passes; /* of layouts that were prepared before the end; and theirs */
    int needs_margin;           /* 1: something that seemed to fit did not */
    struct {
        uint64_t hash, excess, more;
        uint32_t stage;
    } failed; /* the last that was checked and did not fit: it may be found again */
} pst_search_context;

/* --- problem.c: what the problem says */
int pst_search_late(const pst_search_context *x);
/* Bytes that a rank on a device may use. UINT64_MAX: no limit. */
uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device);
/* Whether all cuts can be gone through: of so many devices at most. */
enum { PST_SEARCH_SMALL = 6 };
int pst_search_is_small(const pst_search_problem *problem);
/* Whether a layout of so many ranks may be tried. */
int pst_search_is_size(const pst_search_problem *problem, uint64_t size);
/* Bytes over, by the layout's peak_bytes, on the stage where they are most; 0: it fits. */
uint64_t pst_search_excess(const pst_search_problem *problem, const pst_candidate *candidate,
                           uint32_t *stage);
/* Devices times samples: what an evaluation takes, about; beyond MUCH_WORK it takes much. */
enum { PST_SEARCH_MUCH_WORK = 4096 };
uint64_t pst_search_work_of(const pst_search_context *x);
/* Whether an evaluation takes little. */
int pst_search_is_quick(const pst_search_context *x);
uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c);

/* --- table.c: the context */
/* ENOMEM, EINPUT (schedule that is not known). Close it also when it fails. */
pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x);
void pst_search_context_close(pst_search_context *x);
/* Of a stage on a kind of device. (*table)->table is NULL where the combination cannot be had. */
pst_status pst_search_table_of(pst_search_context *x, const pst_search_config *c, uint32_t kind,
                               uint32_t stage, const pst_search_table **table);

/* --- flight.c: schedules */
/* chunks: of each stage. */
pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight);
void pst_search_flight_close(pst_search_flight *flight);
/* Valid until another is asked for. */
pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made);

/* --- candidate.c */
pst_status pst_candidate_open(const pst_search_problem *problem, const pst_search_config *c,
                              uint32_t n_chunk, pst_candidate **candidate);

/* --- order.c: orders of devices */
typedef struct {
    uint32_t n, size; /* orders of size devices */
    uint32_t *device; /* [n][size] */
    int all;          /* 1: every order that differs from the others */
} pst_search_orders;
/* n 0: there are not enough tensor groups. */
pst_status pst_search_orders_of(const pst_search_problem *problem, const pst_search_config *c,
                                pst_search_orders *orders);

/* --- space.c: configurations */
/* All that may be tried with the degrees of `like`, by guess_ns; n 0: none, and why says so. */
pst_status pst_search_configs(pst_search_context *x, const pst_search_config *like,
                              pst_search_config **config, uint32_t *n, char why[160]);
#endif
