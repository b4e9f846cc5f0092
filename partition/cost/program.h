/* Program profiles: what a training program computes and exchanges in a step, as far as it changes
 * durations on a GPU: which kernel of attention, which operators are fused, how replicas exchange
 * gradients. `penstock` describes our own engine; the others are programs whose steps have been
 * published (docs/planning.md). Durations on CPUs do not depend on a profile. */
#ifndef PST_PARTITION_COST_PROGRAM_H
#define PST_PARTITION_COST_PROGRAM_H
#include "base/status.h"
#include <stdint.h>

typedef enum {
    PST_ATTENTION_STORED, /* scores are written to memory, and read again by softmax and products */
    PST_ATTENTION_FLASH1, /* FlashAttention (Dao et al. 2022) */
    PST_ATTENTION_TRITON, /* the same in Triton; on Hopper as FLASH1 */
    PST_ATTENTION_FLASH2, /* FlashAttention-2 (Dao 2023) */
    PST_ATTENTION_FLASH3, /* FlashAttention-3 (Shah et al. 2024); before Hopper as FLASH2 */
    PST_ATTENTION_CUDNN,  /* cuDNN; before Hopper as FLASH2 */
    PST_ATTENTION_FIXED,  /* cuDNN, with a backward pass whose results do not vary */
    PST_ATTENTION_COUNT
} pst_attention_way;

typedef struct {
    const char *name, *what; /* name of the profile; one line that describes the program */
    double attention;        /* a pst_attention_way */
    /* factors on the durations of matrix products and of operators that move memory: what a step
     * takes longer than kernels that are measured alone, fitted by bench/fit.py */
    double products, moves;
    double launch; /* us from the end of an operator to the start of the next */
    /* Passes over memory by kernels of their own, in sizes of the named tensor: the output of an
     * activation, forward and backward; the gradient of a bias' output; the input of a norm,
     * backward, where residual gradients are added. 0: fused. */
    double activation_f, activation_b, bias, residual;
    double loss_f, loss_b; /* bytes moved per logit; 0: those of the operators */
    double optimizer;      /* bytes moved per parameter of the optimizer step */
    /* 1: replicas exchange within their nodes first (NCCL's rings), so that each byte leaves a node
     * once, over all of its NICs. 0: every replica sends its part to every other one. */
    double hierarchical;
    double gradient; /* bytes per element of a gradient that is sent */
    double overlap;  /* share of the replicas' exchange that passes hide, 0 to 1 */
    double tensor;   /* factor on the time of exchanges between tensor ranks; below 1: overlapped */
    /* messages between stages for which a pass waits, in durations of one; 0: as in penstock, where
     * passes continue */
    double messages;
    /* 1: replicas also shard weights (FSDP): these are gathered for each pass of a micro-batch and
     * gradients are reduced after it, instead of the exchange at the end of a step */
    double shards;
} pst_costs_program;

/* Returns the profiles (static), the default `penstock` first, and sets *n to their number. */
const pst_costs_program *pst_costs_programs(uint32_t *n);
/* Reads a profile: a name, and changed values after it, such as "fsdp attention=flash2
 * moves=1.2". EINPUT: pst_error() lists the names or keys, or the allowed values. */
pst_status pst_costs_program_parse(const char *text, pst_costs_program *program);
/* Returns 1 if the program is another one than penstock. NULL: penstock. */
static inline int pst_costs_program_is_other(const pst_costs_program *program) {
    return program && program->hierarchical > 0;
}
/* A rank with `near` of `data` replicas on its node, itself included. within: bytes/s to another
 * device of the node; between: bytes/s of the rank's share of the NICs. */
typedef struct {
    uint32_t data, near;
    double within, between;
} pst_costs_replicas;
/* Return the time, in ns, that the exchange between replicas makes a step longer: at its end, for
 * each byte of a gradient of penstock and in one direction (reduce-scatter or all-gather); and of
 * sharded weights, for each of their elements and each micro-batch. Only for other programs than
 * penstock. */
double pst_costs_program_exchange_ns(const pst_costs_program *program,
                                     const pst_costs_replicas *replicas);
double pst_costs_program_shard_ns(const pst_costs_program *program,
                                  const pst_costs_replicas *replicas);
#endif
