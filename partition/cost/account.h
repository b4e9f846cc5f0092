/* The memory of a rank: bytes by class, and elements for the flush. pst_prepare_account fills it
 * exactly, from the memory map; the search estimates it from cost tables: for each class at most
 * what the largest rank of the stage has, except for messages and for gradients with zero 2. With
 * one replica and one tensor rank, elements, weights, states, gradients and `kept` are equal except
 * for padding to 64 bytes (tests/planning/test_account.c). */
#ifndef PST_PARTITION_COST_ACCOUNT_H
#define PST_PARTITION_COST_ACCOUNT_H
#include <stdint.h>

typedef struct {
    uint64_t normed, stepped; /* elements that the rank adds to the gradient norm; that its
                                 optimizer steps */
    uint64_t weights, states, gradients; /* bytes; states: with fp32 master weights */
    uint64_t kept;                       /* data and outputs of all micro-batches */
    uint64_t held;                       /* activations in flight */
    uint64_t messages; /* their buffers. A received message may lie in its slot at once, so this
                          class is an estimate, not a lower bound */
    uint64_t work; /* shared by passes, one at a time: scratch, and receive buffers of gradient sums
                    */
} pst_account;

/* Bytes per element of a parameter, and how replicas shard it. */
typedef struct {
    uint32_t weight_bytes, state_bytes, grad_bytes;
    uint32_t replicas, zero; /* zero 1 and 2 shard states, 2 also gradients */
} pst_account_rule;

/* The parameters of a chunk. */
typedef struct {
    uint64_t elements;    /* elements of parameters whose first use is in the chunk */
    uint64_t accumulated; /* elements of accumulators: one per use of a parameter */
    uint64_t copied;      /* elements of parameters whose first use is on another stage */
} pst_account_parameters;

/* Adds a chunk's. */
void pst_account_add(pst_account *account, const pst_account_rule *rule,
                     const pst_account_parameters *parameters);

/* Memory: the sum of all classes. Replicas do not shard parameters evenly, so with several replicas
 * the sum may be slightly more than any of them has. */
static inline uint64_t pst_account_bytes(const pst_account *a) {
    return a->weights + a->states + a->gradients + a->kept + a->held + a->messages + a->work;
}

/* Time of a step of the flush: a latency, then `each` ns per element; 0 if neither takes time. */
static inline uint64_t pst_account_flush_ns(double each, uint64_t latency, uint64_t elements) {
    if (!elements || (each <= 0 && !latency)) return 0;
    return latency + (uint64_t)(each * (double)elements + 0.5);
}
#endif
