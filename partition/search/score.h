/* Costs of a layout: memory, passes, messages and the flush. */
#ifndef PST_PARTITION_SEARCH_SCORE_H
#define PST_PARTITION_SEARCH_SCORE_H
#include "partition/cost/account.h"
#include "partition/search/space.h"

/* --- memory.c: of a chunk */
/* A chunk of items [from, to). micros: number of micro-batches of a replica. */
typedef struct {
    const pst_search_problem *problem;
    const pst_search_config *c;
    const pst_search_table *table;
    const pst_search_flight *flight; /* micro-batches in flight */
    uint32_t chunk, from, to, micros;
} pst_search_chunk;
/* Adds the memory that does not depend on recomputation to *account: parameters, states, gradients,
 * data and outputs. */
void pst_search_add_own(const pst_search_chunk *chunk, pst_account *account);
/* Returns the sum of these classes in bytes. */
uint64_t pst_search_own_bytes(const pst_search_chunk *chunk);
/* Returns the bytes of activations in flight. enter: bytes that the chunk receives per
 * micro-batch. */
uint64_t pst_search_held_bytes(const pst_search_chunk *chunk, pst_recompute_way way,
                               uint64_t enter);
/* Returns the scratch bytes of the passes, including `enter`. A rank has this memory once, for the
 * chunk that needs the most bytes. split: 1: B and W are separate passes. */
uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               pst_recompute_way way, uint64_t enter, int split);
/* Returns the bytes of the receive buffers of gradient sums, which a rank has once, for the chunk
 * that needs the most bytes. */
uint64_t pst_search_receive_bytes(const pst_search_config *c, const pst_search_table *t,
                                  uint32_t from, uint32_t to);
/* Returns the bytes of a chunk's message buffers. */
uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to);

/* --- fit.c: memory of a layout */
/* Sets account[0..pipeline) to the estimated memory of the largest rank of each stage
 * (partition/cost/account.h). */
pst_status pst_search_account_of(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, pst_account *account);
/* Sets peak_bytes and in_flight of the candidate. *stage: the stage that exceeds its memory most;
 * *excess: by how many bytes, 0 if the candidate fits. */
pst_status pst_search_estimate_memory(pst_search_context *x, const pst_search_config *c,
                                      pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
/* Sets the recomputation of the candidate to the fastest ways that fit, or, if none fits, to the
 * ways with the least memory; then does the same as pst_search_estimate_memory. */
pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
/* Returns the largest number of micro-batches of a replica. */
uint32_t pst_search_most_micros(const pst_candidate *candidate);

/* --- stage.c: passes, messages and the flush of a stage */
/* Sets *link to the link between devices a and b; returns 0 if there is none. A link from a device
 * to itself takes no time. */
int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);

/* --- alike.c: replicas that take the same time */
/* Sets beside[stage x data + k] to the number of replicas of the stage on the node of replica k.
 * ENOMEM. */
pst_status pst_search_count_beside(const pst_search_problem *problem,
                                   const pst_candidate *candidate, uint32_t *beside);
typedef struct {
    const uint32_t *stage;  /* [n_chunk] stage of each chunk */
    const uint32_t *beside; /* from pst_search_count_beside */
} pst_search_replicas;
/* Returns a hash of the links of a replica: on uniform devices, replicas with equal hashes take the
 * same time. */
uint64_t pst_search_replica_hash(const pst_search_problem *problem, const pst_candidate *candidate,
                                 const pst_search_replicas *of, uint32_t replica);

/* --- stage.c: durations of a replica */
/* Durations of passes and messages of one replica of a layout. */
typedef struct {
    pst_pass_ns *ns; /* [n_chunk] durations of the passes of each chunk */
    /* [n_chunk] link from a chunk to the next one, with this message's share of the bandwidth;
     * bytes_per_s 0: messages take no time */
    pst_cluster_link *next_link;
    uint64_t *bytes;  /* [n_chunk] bytes of a message to the next chunk */
    uint32_t *beside; /* from pst_search_count_beside */
} pst_search_times;
/* The caller closes *times, also after a failure. ENOMEM. */
pst_status pst_search_times_open(const pst_search_problem *problem, const pst_candidate *candidate,
                                 pst_search_times *times);
void pst_search_times_close(pst_search_times *t);
static inline uint64_t pst_search_wire_ns(const pst_cluster_link *link, uint64_t bytes) {
    return link->bytes_per_s > 0 ? (uint64_t)((double)bytes * 1e9 / link->bytes_per_s + 0.5) : 0;
}
static inline uint64_t pst_search_hop_ns(const pst_search_times *t, uint32_t chunk) {
    return t->next_link[chunk].latency_ns +
           pst_search_wire_ns(&t->next_link[chunk], t->bytes[chunk]);
}
/* Computes the times of a replica. flight: gives the stage of each chunk. EINPUT: a link or a cost
 * table is missing, a tensor group has devices of different kinds, or the activation between two
 * stages with different tensor degrees is split among tensor ranks. */
pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, const pst_search_flight *flight,
                                 uint32_t replica, pst_search_times *times);

/* Computes flush[0..pipeline), and *norm_latency_ns: the time until all ranks know the gradient
 * norm. EINPUT: a link is missing. */
pst_status pst_search_flush_of(pst_search_context *x, const pst_search_config *c,
                               const uint32_t *device, pst_search_flush *flush,
                               uint64_t *norm_latency_ns);
/* Sets *link to the link over which gradients of tied parameters go from stage[0], the last that
 * uses them, to stage[1]: the slowest one of all replicas. */
pst_status pst_search_tied_link(const pst_search_problem *problem, const pst_candidate *candidate,
                                const uint32_t *beside, const uint32_t stage[2],
                                pst_cluster_link *link);

/* --- path_bound.c */
/* Sets end_ns[0..pipeline) to lower bounds of the time at which each rank ends its passes of m
 * micro-batches. */
void pst_search_path_bound(const pst_schedule_row *row, const pst_search_flight *flight,
                           const pst_search_times *times, uint32_t m, uint64_t *end_ns);

/* --- longest_path.c */
/* Durations for pst_search_longest_path. */
typedef struct {
    const pst_pass_ns *ns;   /* [n_chunk] durations of passes */
    const uint64_t *hops;    /* [n_chunk] ns of a message to the next chunk */
    const uint64_t *most_ns; /* [n_rank] limits of end_ns; NULL: no limits */
    double first; /* part of these times that the first micro-batch takes; 1: it is not smaller */
} pst_search_path_times;
/* Sets end_ns[0..n_rank) to the time at which each rank ends its passes: the longest path through
 * the order of a schedule, where messages do not wait for each other. No simulation ends earlier.
 * If a rank cannot end before its limit, stops and sets *beyond to 1. EINTERNAL: the order
 * deadlocks. */
pst_status pst_search_longest_path(pst_search_context *x, const pst_schedule *s,
                                   const pst_search_path_times *times, uint64_t *end_ns,
                                   int *beyond);

/* --- score.c: all predictions for a layout */
typedef enum {
    PST_SCORE_BOUND,
    PST_SCORE_PATH,
    PST_SCORE_SIMULATE
} pst_search_how; /* method of prediction: BOUND a lower bound over all orders of passes, PATH the
                     longest path through the order of the schedule, SIMULATE the simulator */
/* Computes all predictions of a layout except its memory. Sets step_ns to UINT64_MAX if the longest
 * path exceeds x->limit_ns. Distributes micro-batches to replicas by speed where micros is 0. */
pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *candidate, pst_search_how how);
/* Computes message_ns and reduce_ns of a predicted layout from a separate longest path. */
pst_status pst_search_attribute(pst_search_context *x, const pst_search_config *c,
                                pst_candidate *candidate);
#endif
