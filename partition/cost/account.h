/* What a rank has of its stage: elements that the flush passes over, and bytes by class.
 * pst_prepare_account fills it from the memory map, exactly; the search from cost tables: of each
 * class no more than the largest rank of the stage has, but for messages and for gradients of zero
 * 2. With one replica and one tensor rank elements, weights, states, gradients and what is kept are
 * equal but for padding to 64 bytes (tests/planning/test_account.c). */
#ifndef PST_PARTITION_COST_ACCOUNT_H
#define PST_PARTITION_COST_ACCOUNT_H
#include <stdint.h>

typedef struct {
    uint64_t normed, stepped; /* elements: this rank's part of the norm; what its optimizer steps */
    uint64_t weights, states, gradients; /* bytes; states: with fp32 masters */
    uint64_t kept;                       /* data and outputs of all micro-batches */
    uint64_t held;                       /* activations in flight */
    uint64_t messages; /* their buffers; what is received may lie in its slot at once, so that this
                          class alone is an estimate, no bound */
    uint64_t work;     /* of one pass at a time: scratch, and buffers that replica sums arrive in */
} pst_account;

/* Bytes of an element of a parameter, and how replicas share it out. */
typedef struct {
    uint32_t weight_bytes, state_bytes, grad_bytes;
    uint32_t replicas, zero; /* zero 1 and 2 share out states, 2 gradients, too */
} pst_account_rule;

/* The parameters of a chunk. */
typedef struct {
    uint64_t elements;    /* whose first use is in it */
    uint64_t accumulated; /* of accumulators: one for every use */
    uint64_t copied;      /* whose first use is on another stage */
} pst_account_parameters;

/* Adds a chunk's. */
void pst_account_add(pst_account *account, const pst_account_rule *rule,
                     const pst_account_parameters *parameters);

/* Memory: the sum of all classes. Replicas share out parameters unevenly, and the one that receives
 * the longest pieces may step least: of several the sum may be somewhat more than any of them
 * has. */
static inline uint64_t pst_account_bytes(const pst_account *a) {
    return a->weights + a->states + a->gradients + a->kept + a->held + a->messages + a->work;
}

/* A pass of the flush over so many elements, at `each` ns, behind a latency: 0 where nothing takes
 * time. */
static inline uint64_t pst_account_flush_ns(double each, uint64_t latency, uint64_t elements) {
    if (!elements || (each <= 0 && !latency)) return 0;
    return latency + (uint64_t)(each * (double)elements + 0.5);
}
#endif
