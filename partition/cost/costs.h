/* Costs: how long passes, exchanges and messages take, on a device of some kind of a cluster.
 * Measured where there is a profile of this machine (profile.h), else modelled: each operator's
 * roofline times the efficiency that its kind of operator reaches at its size (efficiency curves,
 * costs.c, with their sources). */
#ifndef PST_PARTITION_COST_COSTS_H
#define PST_PARTITION_COST_COSTS_H
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"

typedef struct pst_profile pst_profile;

typedef struct {
    const pst_device_kind *kind; /* NULL: the nominal CPU core, which is also kind `cpu`; others
                                    whose names begin so are cores with other rates */
    const pst_profile *profile;  /* NULL: none. What it does not have is modelled */
    uint32_t busy; /* ranks that compute at once on a host: a profile knows how they slow each other
                      down; 0: 1 */
    /* Between the tensor ranks of a stage, and between neighbouring stages; NULL: the nominal one,
     * shared memory. */
    const pst_cluster_link *tensor_link, *stage_link;
} pst_costs;
extern const pst_cluster_link pst_costs_link;

/* What a pass of an operator does for one micro-batch; extra: 0, or PST_EXTRA_SUM,
 * PST_EXTRA_RESTORE. */
typedef struct {
    int extra;
    pst_pass pass;
    uint64_t flops, bytes;
} pst_costs_work;
/* Exchanges included. */
uint64_t pst_costs_pass_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                           const pst_costs_work *work);
/* Whether it is a kind of processor cores; NULL: the nominal one. */
int pst_costs_is_cpu(const pst_device_kind *kind);
/* Whether a GPU that its maker calls so is of that kind: "NVIDIA A100-SXM4-80GB" is A100-80. No CPU
 * is. */
int pst_costs_is_kind(const pst_device_kind *kind, const char *model);
/* Whether the profile is of such devices; NULL: of whatever the run computes on. */
int pst_costs_profiled(const pst_device_kind *kind, const pst_profile *profile);
/* An exchange among `parts` tensor ranks, of which each sends `bytes`: those that the cost of its
 * operator says. */
uint64_t pst_costs_exchange_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                               uint64_t bytes);
/* How much longer a sum takes that the device adds up itself, in the order of the ranks, than one
 * that NCCL adds on the way, on top of that; 0 on CPUs, and of what is no sum. */
uint64_t pst_costs_exact_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                            uint64_t bytes);
/* The flush: the norm reads gradients once; a step moves weight, gradient and states; ns for so
 * many elements. */
uint64_t pst_costs_norm_ns(const pst_costs *costs, uint64_t elements);
uint64_t pst_costs_step_ns(const pst_costs *costs, uint64_t elements);
/* Adding a received piece of a gradient. */
uint64_t pst_costs_reduce_ns(const pst_costs *costs, uint64_t elements);

/* --- tables for the search -------------------------------------------------------------------- */

/* What the operators (items, in the order of the graph) of one micro-batch cost one rank, when so
 * many tensor ranks share each. A chunk is a run of items [a, b). The sums of times are what the
 * chunk costs. Bytes are never more than the memory map has:
 *     for every micro-batch from F to B  sum of stash + enter[a]
 *     once per rank, the most of         sum of held - enter[a] (if positive), each scratch[i] over
 *                                        all its chunks
 * Where B and W are apart, also
 *     as many more as lie from F to W    sum of late
 *     for every one from B to W          sum of apart - the lesser of enter[a] and the sum of
 *                                        held_apart
 * and the rank has once what of held and scratch is not apart: held - held_apart - enter[a],
 * scratch_apart. */
typedef struct {
    uint32_t n;
    uint64_t *f_ns, *b_ns, *w_ns;            /* [n] exchanges of the tensor group included */
    uint64_t *exchange_ns;                   /* [n] of these three, what is exchanges */
    uint64_t *again_ns[PST_RECOMPUTE_COUNT]; /* [n] what B takes longer; that of NONE is NULL */
    uint64_t *stash[PST_RECOMPUTE_COUNT];    /* [n] bytes kept from F to the end of B at least */
    /* [n] the same of what a chunk that begins here has received */
    uint64_t *enter[PST_RECOMPUTE_COUNT];
    /* [n] bytes that are there at once when B has run F again; NONE: NULL */
    uint64_t *held[PST_RECOMPUTE_COUNT];
    uint64_t *late[PST_RECOMPUTE_COUNT];  /* [n] bytes of F that are kept to the end of W, */
    uint64_t *apart[PST_RECOMPUTE_COUNT]; /* [n] bytes of B (or received by it) that are kept to the
                                             end of W, */
    uint64_t *held_apart[PST_RECOMPUTE_COUNT]; /* [n] of which F made again; NONE: NULL */
    uint64_t *scratch_apart;                   /* [n] scratch without what is apart */
    uint64_t *scratch;  /* [n] most bytes that a pass works on beside the stash */
    uint64_t *cross;    /* [n] bytes of activations over a cut before the item; as many gradients
                           come back; [0] is 0 */
    uint64_t *elements; /* [n] of parameters (this tensor rank's part) whose first use is here, */
    uint64_t *accumulated; /* [n] and of accumulators: one for every use; */
    uint64_t *tied;        /* [n] of parameters used here whose first use is at item 0: a stage that
                              has not that one has a copy of them */
    uint64_t *largest;     /* [n] elements of the largest parameter whose first use is here */
    /* [n] bytes of data and outputs of a micro-batch, kept for all of a step */
    uint64_t *kept;
    double norm_ns, step_ns, reduce_ns; /* per element: of the norm, of the optimizer's step, of
                                           adding a replica's */
} pst_cost_table;

/* g: of the first tensor rank (all tensor ranks take as long). link: between tensor ranks; NULL:
 * that of costs. scratch: its `choose` says what kernels need; NULL: nothing. ENOMEM. */
pst_status pst_cost_table_build(const pst_graph *g, const pst_costs *costs,
                                const pst_cluster_link *link, const pst_chooser *scratch,
                                pst_cost_table **table);
/* The table of a longer model: items [from, from + period) come so many times more. ENOMEM. */
pst_status pst_cost_table_repeat(pst_cost_table *table, uint32_t from, uint32_t period,
                                 uint32_t times, pst_cost_table **longer);
void pst_cost_table_close(pst_cost_table *table);
#endif
