/* The memory of a rank: bytes by class, and elements for the flush. pst_prepare_account computes
 * exact values from the memory map. The search estimates values from cost tables: for each class,
 * at most the bytes of the largest rank of the stage, except for messages, and for gradients with
 * zero 2. With one replica and one tensor rank, the estimates of elements, weights, states,
 * gradients and `kept` are exact except for padding to 64 bytes (tests/planning/test_account.c). */
#ifndef PST_PARTITION_COST_ACCOUNT_H
#define PST_PARTITION_COST_ACCOUNT_H
#include <stdint.h>

typedef struct {
    /* elements that the rank counts in the gradient norm; elements that the rank's optimizer
     * updates */
    uint64_t normed, stepped;
    uint64_t weights, states, gradients; /* bytes; states include fp32 master weights */
    uint64_t kept;                       /* bytes of input data and outputs of all micro-batches */
    uint64_t held;                       /* bytes of activations of the micro-batches in flight */
    /* bytes of message buffers. A message may be received into its activation slot directly, so
     * this value is an estimate, not a lower bound */
    uint64_t messages;
    /* bytes that passes use one after another: scratch, and receive buffers of gradient sums */
    uint64_t work;
} pst_account;

/* Bytes per element of a parameter, and how replicas shard parameters. */
typedef struct {
    uint32_t weight_bytes, state_bytes, grad_bytes;
    /* zero: ZeRO stage; 1 and 2 shard optimizer states, 2 also gradients */
    uint32_t replicas, zero;
} pst_account_rule;

/* The parameters of a chunk. */
typedef struct {
    uint64_t elements;    /* elements of parameters whose first use is in the chunk */
    uint64_t accumulated; /* elements of accumulators: one per use of a parameter */
    uint64_t copied;      /* elements of parameters whose first use is on another stage */
    uint64_t frozen;      /* elements of frozen parameters, which the others do not include */
} pst_account_parameters;

/* Adds the bytes and elements of a chunk's parameters to *account. */
void pst_account_add(pst_account *account, const pst_account_rule *rule,
                     const pst_account_parameters *parameters);

/* Returns the sum of all classes in bytes. Replicas do not shard parameters evenly, so with several
 * replicas the sum may be slightly larger than the memory of any replica. */
static inline uint64_t pst_account_bytes(const pst_account *a) {
    return a->weights + a->states + a->gradients + a->kept + a->held + a->messages + a->work;
}

/* Returns the duration, in ns, of one part of the flush: `latency` ns plus `each` ns per element; 0
 * without elements. */
static inline uint64_t pst_account_flush_ns(double each, uint64_t latency, uint64_t elements) {
    if (!elements || (each <= 0 && !latency)) return 0;
    return latency + (uint64_t)(each * (double)elements + 0.5);
}
#endif
