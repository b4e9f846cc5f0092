/* What the files of the search share: cost tables as sums over runs of items, schedules and what
 * they hold in flight, devices in orders, cuts, and scores. All of one search hangs on its
 * context. */
#ifndef PST_PARTITION_SEARCH_PARTS_H
#define PST_PARTITION_SEARCH_PARTS_H
#include "partition/search/search.h"
#include "pipeline/schedule/flight.h"

/* Sums of a cost table: [k] is that of the items before k. */
typedef enum {
    PST_SUM_F,
    PST_SUM_B,
    PST_SUM_W,
    PST_SUM_EXCHANGE,
    PST_SUM_ELEMENTS,
    PST_SUM_ACCUMULATED,
    PST_SUM_TIED,
    PST_SUM_KEPT,
    PST_SUM_AGAIN,
    PST_SUM_STASH = PST_SUM_AGAIN + PST_RECOMPUTE_COUNT,
    PST_SUM_HELD = PST_SUM_STASH + PST_RECOMPUTE_COUNT,
    PST_SUM_LATE = PST_SUM_HELD + PST_RECOMPUTE_COUNT,
    PST_SUM_APART = PST_SUM_LATE + PST_RECOMPUTE_COUNT,
    PST_SUM_HELD_APART = PST_SUM_APART + PST_RECOMPUTE_COUNT,
    PST_SUM_FB = PST_SUM_HELD_APART + PST_RECOMPUTE_COUNT, /* F, B and what is computed again; */
    PST_SUM_FBW = PST_SUM_FB + PST_RECOMPUTE_COUNT,        /* and W */
    PST_SUM_COUNT = PST_SUM_FBW + PST_RECOMPUTE_COUNT
} pst_search_sum;

/* Of numbers, none of which is NaN: fmin and fmax would be calls. */
static inline double pst_search_less(double a, double b) { return b < a ? b : a; }
static inline double pst_search_more(double a, double b) { return b > a ? b : a; }

typedef struct {
    uint32_t kind, tensor, sequence, untied, micro_batch;
    const pst_cost_table *table;  /* NULL: cannot be had */
    uint64_t *sum[PST_SUM_COUNT]; /* [n_item + 1] */
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
    uint32_t schedule, pipeline, chunks, n_micro; /* key; n_micro: at most as many as change
                                                     anything */
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
    uint64_t guess_ns;      /* what it may come to: which to look at first */
    uint64_t lean;    /* bytes of a stage that may do, about, with most recomputation: where others
                         were too large */
    uint64_t reserve; /* bytes of each device that are not given out: layouts took so much more than
                         was thought */
    uint64_t more_ns; /* by how much prepared layouts with this schedule and zero were longer than
                         thought */
    uint64_t spare;   /* and that cuts leave besides: what they gave out was too much */
    int tight;        /* 1: pst_search_tighten has been through it */
    int seen;         /* 1: looked at, or it is known that it need not be */
    int closed;       /* 1: every layout of it has been looked at, or refuted */
} pst_search_config;

static inline pst_grid pst_search_grid_of(const pst_search_config *c) {
    return (pst_grid){c->pipeline, c->data, c->tensor, c->before};
}

typedef struct {
    const pst_search_problem *problem;
    const pst_schedule_row *row[16];
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
    uint32_t n_table, room_table, last_table, n_flight, room_flight;
    pst_search_table **table;
    pst_search_flight **flight;
    pst_search_made made[PST_SEARCH_MADE];
    uint32_t next_made;
    uint64_t *finish; /* of the walk */
    size_t room_finish;
    uint64_t n_layout, n_simulated, n_verified;
    uint64_t n_check, n_passes; /* of layouts that were prepared before the end; and theirs */
    int wary;                   /* 1: something that seemed to fit did not */
    struct {
        uint64_t hash, excess, more;
        uint32_t stage;
    } failed; /* the last that was checked and did not fit: it may be found again */
} pst_search_context;

/* --- partition/search/table.c ----------------------------------------------------------------- */
/* ENOMEM, EINPUT (schedule that is not known). Close it also when it fails. */
pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x);
void pst_search_context_close(pst_search_context *x);
int pst_search_late(const pst_search_context *x);
/* Room for one more pointer in a list of n. */
pst_status pst_search_grow(void **list, uint32_t n, uint32_t *room);
/* Of a stage on a kind of device. (*table)->table is NULL where the combination cannot be had. */
pst_status pst_search_table_of(pst_search_context *x, const pst_search_config *c, uint32_t kind,
                               uint32_t stage, const pst_search_table **table);

/* --- partition/search/flight.c ---------------------------------------------------------------- */
/* chunks: of each stage. */
pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight);
void pst_search_flight_close(pst_search_flight *flight);
/* Valid until another is asked for. */
pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made);

/* --- partition/search/stage.c: what a stage of a layout has, holds and sends ------------------ */
/* Bytes that a rank on a device may use. UINT64_MAX: no limit. */
uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device);
/* Bytes of a chunk of items [from, to), with so many micro-batches of a replica: what does not
 * depend on recomputation, and what is in flight; without what its rank has once. enter: of what it
 * has received. flight: of `chunk`. */
uint64_t pst_search_own_bytes(const pst_search_problem *problem, const pst_search_config *c,
                              const pst_search_table *t, uint32_t from, uint32_t to,
                              const pst_search_flight *flight, uint32_t chunk, uint32_t micros);
uint64_t pst_search_held_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               uint32_t recompute, uint64_t enter, const pst_search_flight *flight,
                               uint32_t chunk);
/* What passes work on beside what is kept, enter included: a rank has it once, as large as for the
 * largest of its chunks. split: B and W are apart. */
uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               uint32_t recompute, uint64_t enter, int split);
/* What replicas' sums are received in; likewise once. */
uint64_t pst_search_receive_bytes(const pst_search_config *c, const pst_search_table *t,
                                  uint32_t from, uint32_t to);
/* Bytes of messages of a chunk. */
uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to);
/* 0: there is no such link. The same device: no time at all. */
int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);

/* What one replica of a layout takes. */
typedef struct {
    pst_pass_ns *ns;         /* [n_chunk] */
    pst_cluster_link *there; /* [n_chunk] from a chunk to the next, as many of them share it;
                                bytes_per_s 0: no time */
    uint64_t *bytes;         /* [n_chunk] that go to the next chunk */
} pst_search_times;
pst_status pst_search_times_open(uint32_t n_chunk, pst_search_times *t);
void pst_search_times_close(pst_search_times *t);
static inline uint64_t pst_search_wire_ns(const pst_cluster_link *link, uint64_t bytes) {
    return link->bytes_per_s > 0 ? (uint64_t)((double)bytes * 1e9 / link->bytes_per_s + 0.5) : 0;
}
static inline uint64_t pst_search_hop_ns(const pst_search_times *t, uint32_t chunk) {
    return t->there[chunk].latency_ns + pst_search_wire_ns(&t->there[chunk], t->bytes[chunk]);
}
/* flight says where chunks lie. EINPUT: a link or a table is missing, a tensor group has devices of
 * two kinds, or stages of different numbers of tensor ranks are cut where what crosses would be
 * split. */
pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *layout, const pst_search_flight *flight,
                                 uint32_t replica, pst_search_times *times);

/* The flush of a stage, per element of a parameter, for an order of devices. */
typedef struct {
    double sum_ns, norm_ns, step_ns, head_ns; /* replica sums of a step (with zero 2: of a
                                                 micro-batch); new weights */
    uint64_t sum_latency_ns, head_latency_ns;
} pst_search_flush;
/* flush: [pipeline]; answer_ns: what the norm takes to be known everywhere. EINPUT: a link is
 * missing. */
pst_status pst_search_flush_of(pst_search_context *x, const pst_search_config *c,
                               const uint32_t *device, pst_search_flush *flush,
                               uint64_t *answer_ns);
/* What tied parameters' gradients go over, from the stage that uses them last: of all replicas the
 * slowest. */
pst_status pst_search_tied_link(const pst_search_problem *problem, const pst_search_config *c,
                                const uint32_t *device, uint32_t from, uint32_t to,
                                pst_cluster_link *link);
static inline uint64_t pst_search_flush_ns(double each, uint64_t latency, uint64_t elements) {
    return elements && (each > 0 || latency) ? latency + (uint64_t)(each * (double)elements + 0.5)
                                             : 0;
}

/* --- partition/search/early.c ----------------------------------------------------------------- */
/* end_ns: [pipeline], no walk of m micro-batches ends a rank's passes sooner. */
void pst_search_early(const pst_schedule_row *row, const pst_search_flight *flight,
                      const pst_search_times *times, uint32_t m, uint64_t *end_ns);

/* --- partition/search/walk.c ------------------------------------------------------------------ */
/* The longest path through a schedule's order, messages in no one's way: when each rank ends its
 * passes. No simulation of its instructions ends one sooner. hops: [n_chunk] ns. most_ns: [n_rank]
 * a rank that cannot end before is the end of the walk, *beyond 1; NULL: none. EINTERNAL: the order
 * cannot run. */
pst_status pst_search_walk(pst_search_context *x, const pst_schedule *s, const pst_pass_ns *ns,
                           const uint64_t *hops, const uint64_t *most_ns, uint64_t *end_ns,
                           int *beyond);

/* --- partition/search/score.c ----------------------------------------------------------------- */
typedef enum {
    PST_SCORE_EARLY,
    PST_SCORE_WALK,
    PST_SCORE_SIMULATE
} pst_search_how; /* EARLY: no order is shorter */
/* Everything that is predicted of a layout but memory. step_ns is UINT64_MAX where a walk would be
 * beyond limit_ns. micros, where they are 0, are shared by speed. */
pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *layout, pst_search_how how);
/* message_ns and reduce_ns of a layout that has been predicted: takes a walk of its own. */
pst_status pst_search_account(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *layout);

/* --- partition/search/layout.c ---------------------------------------------------------------- */
pst_status pst_candidate_open(const pst_search_problem *problem, const pst_search_config *c,
                              uint32_t n_chunk, pst_candidate **layout);

/* --- partition/search/fit.c: memory of a layout ----------------------------------------------- */
/* Sets peak_bytes and in_flight. excess: bytes over, on the stage where they are most; 0: it
 * fits. */
pst_status pst_search_measure(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *layout, uint64_t *excess, uint32_t *stage);
/* The same, after it has set recompute: the modes that take least time and fit; else the
 * leanest. */
pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c, pst_candidate *layout,
                          uint64_t *excess, uint32_t *stage);
uint32_t pst_search_most_micros(const pst_candidate *layout);

/* --- partition/search/cut.c ------------------------------------------------------------------- */
/* The cut whose longest stage is shortest, of those that fit, into layout->first_item (device is
 * set). bound_ns: with this order of devices no cut has a shorter step; UINT64_MAX: none fits, and
 * the cut is the one that is least over (where x->nearest asks for it; else there is none).
 * limit_ns: where none is below it, bound_ns is it and there is no cut. */
pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c, pst_candidate *layout,
                          uint64_t limit_ns, uint64_t *bound_ns);

/* --- partition/search/bound.c ----------------------------------------------------------------- */
/* Raises bound_ns to what no cut can be below. ENOMEM. */
pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c);
/* ns per byte that replicas exchange in one direction, wherever they are: so many of them on a node
 * as is best. */
double pst_search_least_exchange(const pst_search_context *x, const pst_search_config *c);

/* --- partition/search/order.c ----------------------------------------------------------------- */
typedef struct {
    uint32_t n, size; /* orders of size devices */
    uint32_t *device; /* [n][size] */
    int all;          /* 1: every order that differs from the others */
} pst_search_orders;
/* n 0: there are not enough tensor groups. */
pst_status pst_search_orders_of(const pst_search_problem *problem, const pst_search_config *c,
                                pst_search_orders *orders);

/* --- partition/search/space.c ----------------------------------------------------------------- */
/* All that may be tried with the degrees of `like`, by guess_ns; n 0: none, and why says so. */
pst_status pst_search_configs(pst_search_context *x, const pst_search_config *like,
                              pst_search_config **config, uint32_t *n, char why[160]);
/* No layout with this tensor degree has a shorter step: all devices compute, with whatever
 * micro-batch is quickest. At least 1; UINT64_MAX: it cannot be had. */
pst_status pst_search_least(pst_search_context *x, uint32_t tensor, uint64_t *least_ns);
uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c);

/* --- partition/search/look.c: one configuration ----------------------------------------------- */
/* The row of the table with these degrees, and what is left to look at. */
typedef struct {
    pst_search_row row;
    pst_search_config *config; /* [n_config] by guess_ns */
    uint32_t n_config;
    uint64_t rest_ns;       /* bound of what is not in the list; UINT64_MAX: nothing is left out */
    pst_search_config best; /* that of row.layout */
    pst_candidate *sure;    /* the shortest that was prepared, if row.layout is another; NULL */
    pst_search_config of_sure;
    pst_search_orders orders;
    int accounted; /* 1: pst_search_account has been through row.layout */
    int small; /* 1: all cuts of all orders are looked at, and those that may be best simulated */
} pst_search_lot;
/* partition/search/unequal.c */
void pst_search_lot_close(pst_search_lot *lot);
/* Looks at a configuration of the lot; limit_ns: longer steps are of no use. */
pst_status pst_search_look(pst_search_context *x, pst_search_lot *lot, pst_search_config *config,
                           uint64_t limit_ns);
/* Whether all cuts can be gone through: of so many devices at most. */
enum { PST_SEARCH_SMALL = 6 };
int pst_search_is_small(const pst_search_problem *problem);

/* --- partition/search/rows.c ------------------------------------------------------------------ */
/* Of more rows than IN_FULL only what is looked at first is kept; AT_LEAST so many are looked at,
 * be it late, until one fits. */
enum { PST_SEARCH_IN_FULL = 256, PST_SEARCH_AT_LEAST = 16 };
/* By guess. *lot is the caller's, also when it fails, as are orders and configurations of each. */
pst_status pst_search_rows(pst_search_context *x, pst_search_lot **lot, uint32_t *n);
/* Whether a layout of so many ranks may be tried. */
int pst_search_is_size(const pst_search_problem *problem, uint64_t size);
/* Of two lots, for qsort. */
int pst_search_by_guess(const void *a, const void *b);

/* --- partition/search/refine.c ---------------------------------------------------------------- */
/* The lot's layout, if it has several chunks per stage, with borders moved where that makes it
 * shorter. *passes: of walks, that may still be gone through. */
pst_status pst_search_refine(pst_search_context *x, pst_search_lot *lot, uint64_t *passes);

/* Border k goes to `to`, and pushes others before it; 0: there is no room. Every chunk keeps an
 * item. */
int pst_search_push(pst_candidate *layout, uint32_t k, int64_t to);

/* --- partition/search/unequal.c --------------------------------------------------------------- */
/* Whether stages may have different numbers of tensor ranks although not all lists of these are
 * rows. */
int pst_search_has_unequal(const pst_search_problem *problem);
/* No layout of such stages has a shorter step. */
pst_status pst_search_least_unequal(pst_search_context *x, uint64_t *least_ns);
/* *found: a lot, the caller's, whose layout is shorter than limit_ns and near that of `from`, which
 * fits and has as many tensor ranks on every stage; without a layout: there is none. */
pst_status pst_search_unequal(pst_search_context *x, const pst_search_lot *from, uint64_t limit_ns,
                              pst_search_lot *found);

/* --- partition/search/plain.c ----------------------------------------------------------------- */
/* The lot's layout, which fits, has the least zero that makes the step no longer. */
pst_status pst_search_plainer(pst_search_context *x, pst_search_lot *lot);

/* --- partition/search/verify.c ---------------------------------------------------------------- */
/* Bytes over, by the layout's peak_bytes, on the stage where they are most; 0: it fits. */
uint64_t pst_search_excess(const pst_search_problem *problem, const pst_candidate *layout,
                           uint32_t *stage);
/* Of a layout that seems to fit and would be the best so far, or one that may fit although it seems
 * to be over: if there is time, sets excess as it is when it is prepared, and where it is over
 * peak_bytes, and raises more to by how much that is beyond what was thought. EINPUT: it cannot be
 * prepared. */
pst_status pst_search_check(pst_search_context *x, pst_candidate *layout, uint64_t *excess,
                            uint32_t *stage, uint64_t *more);
/* The row's layout becomes as it is when it is prepared, and raises best.reserve as above; or the
 * row has none. */
pst_status pst_search_verify(pst_search_context *x, pst_search_lot *lot);

/* --- search.c: all rows ----------------------------------------------------------------------- */
typedef struct {
    pst_search_context x;
    pst_search_lot *lot;
    uint32_t n_lot;
    uint64_t unequal_ns;  /* no layout whose stages have different numbers of tensor ranks, and no
                             row, is shorter */
    uint64_t least_ns;    /* before anything was looked at: no order of passes takes less */
    uint64_t n_candidate; /* of x.n_verified: prepared before the rows' best are */
} pst_search_all;
enum { PST_SEARCH_REFINED = 3 }; /* rows */
/* UINT64_MAX: nothing fits. */
static inline uint64_t pst_search_step_of(const pst_search_lot *lot) {
    return lot->row.fits ? lot->row.best->step_ns : UINT64_MAX;
}
static inline int pst_search_has_one_chunk(const pst_search_all *s, const pst_search_config *c) {
    return s->x.row[c->schedule]->n_virtual == 1;
}
/* By step; what does not fit comes last. */
void pst_search_sort(pst_search_all *s);
/* pst_search_account, once. */
pst_status pst_search_account_row(pst_search_all *s, pst_search_lot *lot);

/* --- partition/search/open.c: which configurations are looked at ------------------------------ */
/* UINT64_MAX: nothing fits. */
uint64_t pst_search_shortest(const pst_search_all *s);
/* best: of all rows so far; lowered. */
pst_status pst_search_look_at_row(pst_search_all *s, pst_search_lot *lot, uint64_t *best);
pst_status pst_search_look_at_all(pst_search_all *s);
/* Where nothing fits. */
pst_status pst_search_look_for_any(pst_search_all *s);
/* What may be shorter than the best, and what bounds it. */
pst_status pst_search_look_further(pst_search_all *s);
pst_status pst_search_look_at_best(pst_search_all *s);
/* Of a row, by guess, what has a bound below below_ns and the row's step, for steps below limit_ns
 * and that one, until `most` in a row were of no use. */
typedef struct {
    int unseen, chunks; /* 1: only what has not been looked at; only what has several chunks per
                           stage */
    uint32_t schedule;  /* PST_NONE: all */
    int one;            /* 1: only with these: */
    uint32_t micro_batch, zero, sequence;
} pst_search_along;
pst_status pst_search_look_along(pst_search_all *s, pst_search_lot *lot, pst_search_along along,
                                 uint64_t below_ns, uint64_t limit_ns, uint32_t most);
/* Whether a look takes little. */
int pst_search_is_quick(const pst_search_context *x);
/* How many looks of no use are enough. */
uint32_t pst_search_hopeful_looks(const pst_search_all *s);

/* --- partition/search/best.c ------------------------------------------------------------------ */
pst_status pst_search_refine_best(pst_search_all *s);
pst_status pst_search_try_unequal(pst_search_all *s);
pst_status pst_search_simulate_best(pst_search_all *s);
/* The first row's layout is as it is when it is prepared, if anything fits. */
pst_status pst_search_verify_best(pst_search_all *s);
/* Where nothing fits: of what comes nearest, how near it does. */
pst_status pst_search_verify_nearest(pst_search_all *s);
/* Of a row in which nothing fits: a step that its layout is no shorter than, or why it cannot be
 * had. */
pst_status pst_search_predict_nearest(pst_search_all *s, pst_search_lot *lot);

/* --- partition/search/why.c ------------------------------------------------------------------- */
void pst_search_why(const pst_search_problem *problem, const pst_candidate *best,
                    pst_search_row *row);
#endif
