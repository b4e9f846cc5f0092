/* Costs: durations of passes, of communication between tensor ranks, and of messages, on a kind of
 * device. They come from a profile (profile.h) if it has them, else they are estimated: the
 * roofline of each operator times the efficiency that this kind of operator reaches at this size
 * (costs_device.c, with sources). */
#ifndef PST_PARTITION_COST_COSTS_H
#define PST_PARTITION_COST_COSTS_H
#include "base/codec.h"
#include "partition/cost/program.h"
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"

typedef struct pst_profile pst_profile;

typedef struct {
    /* NULL: the nominal CPU core, kind `cpu`; other kinds with names that begin with "cpu" are
     * cores with other rates */
    const pst_device_kind *kind;
    /* measured durations; missing ones are estimated. NULL: all are estimated */
    const pst_profile *profile;
    /* what a GPU computes in a step; NULL: penstock. A measured duration takes precedence */
    const pst_costs_program *program;
    /* number of ranks that compute at once on a host; selects the durations of a profile; 0: 1 */
    uint32_t busy;
    /* ns per element of a parameter by which the passes of another program take longer, because it
     * gathers weights and reduces gradients there (pst_costs_program.shards); 0: does not */
    double shard_ns;
    double factor; /* on all durations, from --calibrate; 0: 1 */
    /* Between the tensor ranks of a stage, and between neighbouring stages; NULL: shared memory. */
    const pst_cluster_link *tensor_link, *stage_link;
    int narrow_state; /* 1: optimizer states are bf16, not fp32 */
} pst_costs;
extern const pst_cluster_link pst_costs_link;

/* Work of one pass of an operator for one micro-batch. extra: 0, or the kind of an extra step:
 * PST_EXTRA_SUM, PST_EXTRA_RESTORE. */
typedef struct {
    int extra;
    pst_pass pass;
    uint64_t flops, bytes;
} pst_costs_work;
/* Returns the duration, in ns, of a pass of an operator, or of the collective between tensor ranks
 * that the node represents. */
uint64_t pst_costs_pass_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                           const pst_costs_work *work);
/* Returns 1 if the kind is a CPU core; also for NULL, the nominal core. */
int pst_costs_is_cpu(const pst_device_kind *kind);
/* Returns 1 if a GPU with the vendor name `model` is of this kind: "NVIDIA A100-SXM4-80GB" is of
 * kind A100-80. Returns 0 for kinds of CPUs. */
int pst_costs_is_kind(const pst_device_kind *kind, const char *model);
/* Returns 1 if the profile was measured on devices of this kind. kind NULL: on the devices of the
 * run. */
int pst_costs_profiled(const pst_device_kind *kind, const pst_profile *profile);
/* Returns the duration, in ns, of a collective of `parts` tensor ranks if each of them sends
 * `bytes`. */
uint64_t pst_costs_exchange_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                               uint64_t bytes);
/* Returns by how many ns a reproducible sum, which the device computes in the order of the ranks,
 * takes longer than the sum of NCCL; 0 on CPUs and for other collectives. */
uint64_t pst_costs_exact_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                            uint64_t bytes);
/* Return the duration, in ns, of the gradient norm, which reads each gradient once, and of the
 * optimizer step, which reads and writes weights, gradients and states, for `elements` elements. */
uint64_t pst_costs_norm_ns(const pst_costs *costs, uint64_t elements);
uint64_t pst_costs_step_ns(const pst_costs *costs, uint64_t elements);
/* Returns the duration, in ns, of packing `elements` elements of a gradient with a codec. A profile
 * has that of the codec with which it was measured. */
uint64_t pst_costs_pack_ns(const pst_costs *costs, pst_codec codec, uint64_t elements);
/* Returns the duration, in ns, of adding `elements` received elements of a gradient. */
uint64_t pst_costs_reduce_ns(const pst_costs *costs, uint64_t elements);

/* --- tables for the search -------------------------------------------------------------------- */

/* Costs of the operators (items, in the order of the graph) for one micro-batch on one tensor rank.
 * A chunk is a range of items [a, b); the times of a chunk are the sums over its items. The bytes
 * of a chunk, at most those of the memory map, are:
 *
 *     for every micro-batch from F to B  sum of stash + enter[a]
 *     once per rank, the maximum of      sum of recomputed - enter[a] (if positive), and each
 *                                        scratch[i] of all its chunks
 *
 * If B and W are separate passes, also:
 *
 *     for every one from F to W that is  sum of stash_to_w
 *     not counted above
 *     for every one from B to W          sum of b_to_w - min(enter[a], sum of recomputed_to_w)
 *     once per rank, instead             recomputed - recomputed_to_w - enter[a], scratch_split
 *
 * The values of PST_RECOMPUTE_LAYERS are those of a chunk that recomputes all of its layers. One
 * that recomputes the first N has them up to the end of its N-th layer, and those of
 * PST_RECOMPUTE_NONE behind it; of `recomputed`, the layer with the largest sum counts. */
enum { PST_LAYER_INSIDE = 1, PST_LAYER_BEGINS };
typedef struct {
    uint32_t n;
    uint64_t *f_ns, *b_ns, *w_ns; /* [n] ns of F, B and W, with their collectives */
    uint64_t *exchange_ns;        /* [n] ns of the collectives of the tensor ranks in F, B and W */
    uint64_t *again_ns[PST_RECOMPUTE_COUNT]; /* [n] ns of recomputation before B; NULL for NONE */
    uint64_t *stash[PST_RECOMPUTE_COUNT];    /* [n] bytes kept at least from F to the end of B */
    /* [n] bytes that a chunk which begins with the item receives and keeps */
    uint64_t *enter[PST_RECOMPUTE_COUNT];
    /* [n] bytes of recomputed values that are in memory at the same time; NULL for NONE */
    uint64_t *recomputed[PST_RECOMPUTE_COUNT];
    uint64_t *stash_to_w[PST_RECOMPUTE_COUNT]; /* [n] bytes of F that are kept to the end of W */
    /* [n] bytes that B computes or receives and that are kept to the end of W */
    uint64_t *b_to_w[PST_RECOMPUTE_COUNT];
    /* [n] the recomputed part of b_to_w, in bytes; NULL for NONE */
    uint64_t *recomputed_to_w[PST_RECOMPUTE_COUNT];
    uint64_t *scratch_split; /* [n] bytes of scratch without b_to_w, for separate B and W */
    uint64_t *scratch; /* [n] peak bytes that a pass uses in addition to the kept activations */
    /* [n] bytes of activations that cross a cut before the item (the gradients have the same size);
     * [0] is 0 */
    uint64_t *cross;
    /* [n] number of elements of the trained parameters first used by the item (part of one tensor
     * rank), and of the frozen ones */
    uint64_t *elements, *frozen;
    /* [n] number of elements of gradient accumulators: one per use of a parameter */
    uint64_t *accumulated;
    /* [n] number of elements of parameters that the item uses and item 0 used first; a stage
     * without item 0 has a copy of them */
    uint64_t *tied;
    /* [n] 0: the item belongs to no layer (graph/layers.h); PST_LAYER_BEGINS: it is the first one
     * of a layer; PST_LAYER_INSIDE. NULL: there are no layers */
    uint64_t *layer;
    uint64_t *largest; /* [n] number of elements of the largest parameter first used by the item */
    /* [n] bytes of input data and outputs of a micro-batch, which are kept during the whole step */
    uint64_t *kept;
    /* ns per element of the gradient norm, of the optimizer step, and of adding the gradient of
     * another replica */
    double norm_ns, step_ns, reduce_ns;
} pst_cost_table;

/* Builds the table of a graph. g: the graph of the first tensor rank, which stands for all. link:
 * the link between tensor ranks; NULL: costs->tensor_link. scratch: scratch->choose gives the
 * scratch bytes of kernels; NULL: no scratch. The caller frees *table with pst_cost_table_close.
 * ENOMEM. */
pst_status pst_cost_table_build(const pst_graph *g, const pst_costs *costs,
                                const pst_cluster_link *link, const pst_chooser *scratch,
                                pst_cost_table **table);
/* Builds the table of a deeper model, in which items [from, from + period) of `table` are repeated
 * `times` more times. The caller frees *longer with pst_cost_table_close. ENOMEM. */
pst_status pst_cost_table_repeat(pst_cost_table *table, uint32_t from, uint32_t period,
                                 uint32_t times, pst_cost_table **longer);
void pst_cost_table_close(pst_cost_table *table);
#endif
