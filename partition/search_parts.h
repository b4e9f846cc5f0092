/* What the files of the search share: cost tables as sums over runs of items, schedules and what they hold in flight,
 * devices in orders, cuts, and scores. All of one search hangs on its context. */
#ifndef PST_PARTITION_SEARCH_PARTS_H
#define PST_PARTITION_SEARCH_PARTS_H
#include "partition/search.h"

/* Sums of a cost table: [k] is that of the items before k. */
typedef enum {
    PST_SUM_F,
    PST_SUM_B,
    PST_SUM_W,
    PST_SUM_EXCHANGE,
    PST_SUM_ELEMENTS,
    PST_SUM_ACCUMULATED,
    PST_SUM_KEPT,
    PST_SUM_AGAIN,
    PST_SUM_STASH = PST_SUM_AGAIN + PST_RECOMPUTE_COUNT,
    PST_SUM_HELD = PST_SUM_STASH + PST_RECOMPUTE_COUNT,
    PST_SUM_COUNT = PST_SUM_HELD + PST_RECOMPUTE_COUNT
} pst_search_sum;

typedef struct {
    uint32_t kind, tensor, sequence, micro_batch;
    const pst_cost_table *table;  /* NULL: cannot be had */
    uint64_t *sum[PST_SUM_COUNT]; /* [n_item + 1] */
    uint64_t least_cross;         /* bytes over the cheapest cut; and received where that is least */
    uint64_t least_enter[PST_RECOMPUTE_COUNT];
    uint64_t *scratch; /* [levels][n_item] most of the 2^level items from each on */
} pst_search_table;
static inline uint64_t pst_search_run(const pst_search_table *t, uint32_t sum, uint32_t from, uint32_t to) {
    return t->sum[sum][to] - t->sum[sum][from];
}

/* How many micro-batches of each chunk a schedule holds from F to the end of B or W. */
typedef struct {
    uint32_t schedule, pipeline, chunks, n_micro; /* key; n_micro: at most as many as change anything */
    uint32_t n_chunk;
    uint32_t *stage, *most; /* [n_chunk] where it lies; in flight */
} pst_search_flight;

typedef struct {
    uint32_t schedule, pipeline, chunks, n_micro;
    pst_schedule *made;
    uint64_t n_action;
} pst_search_made;
/* Schedules that are kept, and actions of theirs; passes of one pipeline that can be walked through. */
enum { PST_SEARCH_MADE = 12, PST_SEARCH_ACTIONS = 1 << 22, PST_SEARCH_PASSES = 1 << 22 };

/* What is chosen before the order of the devices and the cut. */
typedef struct {
    uint32_t pipeline, tensor, data, micro_batch, chunks, zero, sequence, schedule; /* schedule: of the problem */
    uint32_t n_micro;                                                               /* of all replicas together */
    uint64_t bound_ns;                                                              /* no step is shorter */
    uint64_t guess_ns; /* what it may come to: which to look at first */
    uint64_t lean;     /* bytes of a stage that may do, about, with most recomputation: where others were too large */
    int seen;          /* 1: looked at, or it is known that it need not be */
    int closed;        /* 1: every layout of it has been looked at, or refuted */
} pst_search_config;

typedef struct {
    const pst_search_problem *problem;
    const pst_schedule_row *row[16];
    uint64_t end_ns;   /* monotonic; UINT64_MAX: no limit */
    double swell[16];  /* of each schedule: by how much more layouts took than was thought, where they were verified */
    uint64_t limit_ns; /* longer steps need not be walked through */
    int even;          /* 1: all devices are of one kind and as fast */
    int nearest;       /* 1: where nothing fits, the cut that is least over is wanted */
    uint32_t n_table, room_table, n_flight, room_flight;
    pst_search_table **table;
    pst_search_flight **flight;
    pst_search_made made[PST_SEARCH_MADE];
    uint32_t next_made;
    uint64_t *finish; /* of the walk */
    size_t room_finish;
    uint64_t n_layout, n_simulated;
} pst_search_context;

/* --- search_table.c --- */
/* ENOMEM, EINPUT (schedule that is not known). Close it also when it fails. */
pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x);
void pst_search_context_close(pst_search_context *x);
int pst_search_late(const pst_search_context *x);
/* (*table)->table is NULL where the combination cannot be had. */
pst_status pst_search_table_of(pst_search_context *x, uint32_t kind, uint32_t tensor, uint32_t sequence,
                               uint32_t micro_batch, const pst_search_table **table);
pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline, uint32_t chunks,
                                uint32_t n_micro, const pst_search_flight **flight);
/* Valid until another is asked for. */
pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline, uint32_t chunks,
                                  uint32_t n_micro, const pst_schedule **made);

/* --- search_stage.c: what a stage of a layout has, holds and sends --- */
/* Bytes that a rank on a device may use. UINT64_MAX: no limit. */
uint64_t pst_search_capacity(const pst_search_problem *problem, uint32_t device);
/* Bytes of a chunk of items [from, to), with so many micro-batches of a replica, without what its rank has once; enter: of
 * what it has received, for each micro-batch in flight. */
uint64_t pst_search_chunk_bytes(const pst_search_problem *problem, const pst_search_config *c,
                                const pst_search_table *t, uint32_t from, uint32_t to, uint32_t recompute,
                                uint64_t enter, uint32_t flight, uint32_t micros);
/* What passes work on beside what is kept, enter included: a rank has it once, as large as for the largest of its
 * chunks. */
uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to, uint32_t recompute,
                               uint64_t enter);
/* Bytes of messages of a chunk. */
uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to);
/* 0: there is no such link. The same device: no time at all. */
int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);

/* What one replica of a layout takes. */
typedef struct {
    pst_pass_ns *ns;         /* [n_chunk] */
    pst_cluster_link *there; /* [n_chunk] from a chunk to the next, as many of them share it; bytes_per_s 0: no time */
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
/* flight says where chunks lie. EINPUT: a link or a table is missing, or a tensor group has devices of two kinds. */
pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c, const pst_search_layout *layout,
                                 const pst_search_flight *flight, uint32_t replica, pst_search_times *times);

/* The flush of a stage, per element of a parameter, for an order of devices. */
typedef struct {
    double sum_ns, norm_ns, step_ns, head_ns; /* replica sums of a step (with zero 2: of a micro-batch); new weights */
    uint64_t sum_latency_ns, head_latency_ns;
} pst_search_flush;
/* flush: [pipeline]; answer_ns: what the norm takes to be known everywhere. EINPUT: a link is missing. */
pst_status pst_search_flush_of(pst_search_context *x, const pst_search_config *c, const uint32_t *device,
                               pst_search_flush *flush, uint64_t *answer_ns);
static inline uint64_t pst_search_flush_ns(double each, uint64_t latency, uint64_t elements) {
    return elements && (each > 0 || latency) ? latency + (uint64_t)(each * (double)elements + 0.5) : 0;
}

/* --- search_walk.c --- */
/* The longest path through a schedule's order, messages in no one's way: when each rank ends its passes. No simulation
 * of its instructions ends one sooner. hops: [n_chunk] ns; NULL: none. EINTERNAL: the order cannot run. */
pst_status pst_search_walk(pst_search_context *x, const pst_schedule *s, const pst_pass_ns *ns, const uint64_t *hops,
                           uint64_t *end_ns);

/* --- search_score.c --- */
typedef enum { PST_SCORE_WALK, PST_SCORE_SIMULATE } pst_search_how;
/* Everything that is predicted of a layout but memory. step_ns is UINT64_MAX where a walk would be beyond limit_ns.
 * micros, where they are 0, are shared by speed. */
pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout,
                              pst_search_how how);
/* message_ns and reduce_ns, which take walks of their own. */
pst_status pst_search_account(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout);
pst_status pst_search_layout_open(const pst_search_problem *problem, const pst_search_config *c, uint32_t n_chunk,
                                  pst_search_layout **layout);

/* --- search_fit.c: memory of a layout --- */
/* Sets peak_bytes and in_flight. excess: bytes over, on the stage where they are most; 0: it fits. */
pst_status pst_search_measure(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout,
                              uint64_t *excess, uint32_t *stage);
/* The same, after it has set recompute: the modes that take least time and fit; else the leanest. */
pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout,
                          uint64_t *excess, uint32_t *stage);
uint32_t pst_search_most_micros(const pst_search_layout *layout);

/* --- search_cut.c --- */
/* The cut whose longest stage is shortest, of those that fit, into layout->first_item (device is set). bound_ns: with
 * this order of devices no cut has a shorter step; UINT64_MAX: none fits, and the cut is the one that is least over
 * (where x->nearest asks for it; else there is none). limit_ns: where none is
 * below it, bound_ns is it and there is no cut. */
pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout,
                          uint64_t limit_ns, uint64_t *bound_ns);

/* --- search_order.c --- */
typedef struct {
    uint32_t n, size; /* orders of size devices */
    uint32_t *device; /* [n][size] */
    int all;          /* 1: every order that differs from the others */
} pst_search_orders;
/* n 0: there are not enough tensor groups. */
pst_status pst_search_orders_of(const pst_search_problem *problem, uint32_t pipeline, uint32_t tensor, uint32_t data,
                                pst_search_orders *orders);

/* --- search_space.c --- */
/* All that may be tried with these degrees, by guess_ns; n 0: none, and why says so. */
pst_status pst_search_configs(pst_search_context *x, uint32_t pipeline, uint32_t tensor, uint32_t data,
                              pst_search_config **config, uint32_t *n, char why[160]);
/* No layout with this tensor degree has a shorter step: all devices compute, with whatever micro-batch is quickest. At
 * least 1; UINT64_MAX: it cannot be had. */
pst_status pst_search_least(pst_search_context *x, uint32_t tensor, uint64_t *least_ns);
uint32_t pst_search_chunk_count(const pst_search_context *x, const pst_search_config *c);

/* --- search_look.c: one configuration --- */
/* The row of the table with these degrees, and what is left to look at. */
typedef struct {
    pst_search_row row;
    pst_search_config *config; /* [n_config] by guess_ns */
    uint32_t n_config;
    uint64_t rest_ns;       /* bound of what is not in the list; UINT64_MAX: nothing is left out */
    pst_search_config best; /* that of row.layout */
    pst_search_orders orders;
    int accounted; /* 1: pst_search_account has been through row.layout */
    int small; /* 1: all cuts of all orders are looked at, and those that may be best simulated */
} pst_search_lot;
/* Looks at a configuration of the lot; limit_ns: longer steps are of no use. */
pst_status pst_search_look(pst_search_context *x, pst_search_lot *lot, pst_search_config *config, uint64_t limit_ns);
/* Whether all cuts can be gone through. */
int pst_search_is_small(const pst_search_problem *problem);

/* --- search_plain.c --- */
/* The lot's layout, which fits, has the least zero that makes the step no longer. */
pst_status pst_search_plainer(pst_search_context *x, pst_search_lot *lot);
/* The lot's layout is verified and fits: of those with less zero that verify as shorter, the shortest. */
pst_status pst_search_less_zero(pst_search_context *x, pst_search_lot *lot);

/* --- search_why.c --- */
void pst_search_why(const pst_search_problem *problem, const pst_search_layout *best, pst_search_row *row);
#endif
