/* Costs of a layout: memory, passes, messages and the flush. */
#ifndef PST_PARTITION_SEARCH_SCORE_H
#define PST_PARTITION_SEARCH_SCORE_H
#include "partition/cost/account.h"
#include "partition/search/space.h"

/* --- memory.c: of a chunk */
/* A chunk of items [from, to) on its stage. micros: of a replica. */
typedef struct {
    const pst_search_problem *problem;
    const pst_search_config *c;
    const pst_search_table *table;
    const pst_search_flight *flight; /* of `chunk` */
    uint32_t chunk, from, to, micros;
} pst_search_chunk;
/* Adds parameters, and what is kept of all micro-batches: everything that recomputation does not
 * change. */
void pst_search_add_own(const pst_search_chunk *chunk, pst_account *account);
uint64_t pst_search_own_bytes(const pst_search_chunk *chunk);
/* Bytes of activations in flight; enter: bytes that the chunk has received. */
uint64_t pst_search_held_bytes(const pst_search_chunk *chunk, uint32_t recompute, uint64_t enter);
/* Scratch bytes of passes, `enter` included: a rank has them once, for its largest chunk. split: B
 * and W are apart. */
uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               uint32_t recompute, uint64_t enter, int split);
/* Receive buffers of gradient sums; also once per rank. */
uint64_t pst_search_receive_bytes(const pst_search_config *c, const pst_search_table *t,
                                  uint32_t from, uint32_t to);
/* Bytes of the message buffers of a chunk. */
uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to);

/* --- fit.c: memory of a layout */
/* account: [pipeline] estimate for the largest rank of each stage (partition/cost/account.h). */
pst_status pst_search_account_of(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, pst_account *account);
/* Sets peak_bytes and in_flight. excess: bytes over, on the stage that exceeds its memory most; 0:
 * it fits. */
pst_status pst_search_estimate_memory(pst_search_context *x, const pst_search_config *c,
                                      pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
/* Chooses recompute: the modes that fit and take least time, else the smallest. Then as above. */
pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
uint32_t pst_search_most_micros(const pst_candidate *candidate);

/* --- stage.c: passes, messages and the flush of a stage */
/* 0: there is no such link. For a device and itself: no time. */
int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);

/* Times of one replica of a layout. */
typedef struct {
    pst_pass_ns *ns;             /* [n_chunk] */
    pst_cluster_link *next_link; /* [n_chunk] from a chunk to the next, at the bandwidth that is
                                    left when others share it; bytes_per_s 0: no time */
    uint64_t *bytes;             /* [n_chunk] bytes to the next chunk */
} pst_search_times;
pst_status pst_search_times_open(uint32_t n_chunk, pst_search_times *t);
void pst_search_times_close(pst_search_times *t);
static inline uint64_t pst_search_wire_ns(const pst_cluster_link *link, uint64_t bytes) {
    return link->bytes_per_s > 0 ? (uint64_t)((double)bytes * 1e9 / link->bytes_per_s + 0.5) : 0;
}
static inline uint64_t pst_search_hop_ns(const pst_search_times *t, uint32_t chunk) {
    return t->next_link[chunk].latency_ns +
           pst_search_wire_ns(&t->next_link[chunk], t->bytes[chunk]);
}
/* flight: where chunks lie. EINPUT: a link or a table is missing, a tensor group has devices of two
 * kinds, or the value that crosses between stages of different tensor degrees is split. */
pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, const pst_search_flight *flight,
                                 uint32_t replica, pst_search_times *times);

/* The flush of a stage, per element of a parameter, for an order of devices. */
typedef struct {
    double sum_ns, norm_ns, step_ns, gather_ns; /* gradient sums of a step (zero 2: of a
                                                 micro-batch); the all-gather of new weights */
    uint64_t sum_latency_ns, gather_latency_ns;
} pst_search_flush;
/* flush: [pipeline]. norm_latency_ns: until all ranks know the norm. EINPUT: a link is missing. */
pst_status pst_search_flush_of(pst_search_context *x, const pst_search_config *c,
                               const uint32_t *device, pst_search_flush *flush,
                               uint64_t *norm_latency_ns);
/* The link for tied parameters' gradients, from the last stage that uses them: of all replicas the
 * slowest. */
pst_status pst_search_tied_link(const pst_search_problem *problem, const pst_search_config *c,
                                const uint32_t *device, uint32_t from, uint32_t to,
                                pst_cluster_link *link);

/* --- path_bound.c */
/* end_ns: [pipeline] lower bounds for when each rank ends its passes with m micro-batches. */
void pst_search_path_bound(const pst_schedule_row *row, const pst_search_flight *flight,
                           const pst_search_times *times, uint32_t m, uint64_t *end_ns);

/* --- longest_path.c */
/* The longest path through a schedule's order, where messages do not wait for each other: when each
 * rank ends its passes. No simulation ends earlier. most_ns: stops with *beyond 1 when a rank
 * cannot end before this; NULL: no limit. EINTERNAL: the order deadlocks. */
typedef struct {
    const pst_pass_ns *ns;   /* [n_chunk] */
    const uint64_t *hops;    /* [n_chunk] ns */
    const uint64_t *most_ns; /* [n_rank] */
} pst_search_path_times;
pst_status pst_search_longest_path(pst_search_context *x, const pst_schedule *s,
                                   const pst_search_path_times *times, uint64_t *end_ns,
                                   int *beyond);

/* --- score.c: all of a layout */
typedef enum {
    PST_SCORE_BOUND,
    PST_SCORE_PATH,
    PST_SCORE_SIMULATE
} pst_search_how; /* BOUND: a lower bound over all orders */
/* Everything that is predicted of a layout except its memory. step_ns is UINT64_MAX where the
 * longest path exceeds limit_ns. micros that are 0 are set by speed. */
pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *candidate, pst_search_how how);
/* Computes message_ns and reduce_ns of a predicted layout, from a longest path of its own. */
pst_status pst_search_attribute(pst_search_context *x, const pst_search_config *c,
                                pst_candidate *candidate);
#endif
