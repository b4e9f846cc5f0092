/* What a layout takes: memory, passes, messages and the flush. */
#ifndef PST_PARTITION_SEARCH_SCORE_H
#define PST_PARTITION_SEARCH_SCORE_H
#include "partition/cost/account.h"
#include "partition/search/space.h"

/* --- memory.c: of a chunk */
/* A chunk of items [from, to) on its stage; micros: of a replica. */
typedef struct {
    const pst_search_problem *problem;
    const pst_search_config *c;
    const pst_search_table *table;
    const pst_search_flight *flight; /* of `chunk` */
    uint32_t chunk, from, to, micros;
} pst_search_chunk;
/* Adds parameters, and what is kept of all micro-batches: what does not depend on recomputation. */
void pst_search_add_own(const pst_search_chunk *chunk, pst_account *account);
uint64_t pst_search_own_bytes(const pst_search_chunk *chunk);
/* What is in flight; enter: of what it has received. */
uint64_t pst_search_held_bytes(const pst_search_chunk *chunk, uint32_t recompute, uint64_t enter);
/* What passes work on beside what is kept, enter included: a rank has it once, as large as for the
 * largest of its chunks. split: B and W are apart. */
uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               uint32_t recompute, uint64_t enter, int split);
/* What replicas' sums are received in; likewise once. */
uint64_t pst_search_receive_bytes(const pst_search_config *c, const pst_search_table *t,
                                  uint32_t from, uint32_t to);
/* Bytes of messages of a chunk. */
uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to);

/* --- fit.c: memory of a layout */
/* account: [pipeline] what the largest rank of each stage has, about (partition/cost/account.h). */
pst_status pst_search_account_of(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, pst_account *account);
/* Sets peak_bytes and in_flight. excess: bytes over, on the stage where they are most; 0: it
 * fits. */
pst_status pst_search_measure(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
/* The same, after it has set recompute: the modes that take least time and fit; else the
 * smallest. */
pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t *excess, uint32_t *stage);
uint32_t pst_search_most_micros(const pst_candidate *candidate);

/* --- stage.c: passes, messages and the flush of a stage */
/* 0: there is no such link. The same device: no time at all. */
int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);

/* What one replica of a layout takes. */
typedef struct {
    pst_pass_ns *ns;             /* [n_chunk] */
    pst_cluster_link *next_link; /* [n_chunk] from a chunk to the next, as many of them share it;
                                bytes_per_s 0: no time */
    uint64_t *bytes;             /* [n_chunk] that go to the next chunk */
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
/* flight says where chunks lie. EINPUT: a link or a table is missing, a tensor group has devices of
 * two kinds, or stages of different numbers of tensor ranks are cut where what crosses would be
 * split. */
pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, const pst_search_flight *flight,
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

/* --- early.c */
/* end_ns: [pipeline], no walk of m micro-batches ends a rank's passes sooner. */
void pst_search_early(const pst_schedule_row *row, const pst_search_flight *flight,
                      const pst_search_times *times, uint32_t m, uint64_t *end_ns);

/* --- walk.c */
/* The longest path through a schedule's order, messages in no one's way: when each rank ends its
 * passes. No simulation of its instructions ends one sooner. most_ns: a rank that cannot end before
 * is the end of the walk, *beyond 1; NULL: none. EINTERNAL: the order cannot run. */
typedef struct {
    const pst_pass_ns *ns;   /* [n_chunk] */
    const uint64_t *hops;    /* [n_chunk] ns */
    const uint64_t *most_ns; /* [n_rank] */
} pst_search_walk_times;
pst_status pst_search_walk(pst_search_context *x, const pst_schedule *s,
                           const pst_search_walk_times *times, uint64_t *end_ns, int *beyond);

/* --- score.c: all of a layout */
typedef enum {
    PST_SCORE_EARLY,
    PST_SCORE_WALK,
    PST_SCORE_SIMULATE
} pst_search_how; /* EARLY: no order is shorter */
/* Everything that is predicted of a layout but memory. step_ns is UINT64_MAX where a walk would be
 * beyond limit_ns. micros, where they are 0, are shared by speed. */
pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *candidate, pst_search_how how);
/* message_ns and reduce_ns of a layout that has been predicted: takes a walk of its own. */
pst_status pst_search_attribute(pst_search_context *x, const pst_search_config *c,
                                pst_candidate *candidate);
#endif
