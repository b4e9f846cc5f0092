/* Costs: how long passes, exchanges and messages take on a kind of device. Measured where there is
 * a profile (profile.h), else modelled: the roofline of each operator times the efficiency that
 * this kind of operator reaches at its size (costs_device.c, with sources). */
#ifndef PST_PARTITION_COST_COSTS_H
#define PST_PARTITION_COST_COSTS_H
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"

typedef struct pst_profile pst_profile;

typedef struct {
    const pst_device_kind *kind; /* NULL: the nominal CPU core, as kind `cpu`; other kinds whose
                                    names begin with "cpu" are cores with other rates */
    const pst_profile *profile;  /* NULL: none. What it lacks is modelled */
    uint32_t busy; /* ranks that compute at once on a host, which slows each of them in a profile;
                      0: 1 */
    /* Between the tensor ranks of a stage, and between neighbouring stages; NULL: shared memory. */
    const pst_cluster_link *tensor_link, *stage_link;
} pst_costs;
extern const pst_cluster_link pst_costs_link;

/* Work of an operator's pass per micro-batch; extra: 0, PST_EXTRA_SUM or PST_EXTRA_RESTORE. */
typedef struct {
    int extra;
    pst_pass pass;
    uint64_t flops, bytes;
} pst_costs_work;
/* ns of a pass, also of an exchange. */
uint64_t pst_costs_pass_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                           const pst_costs_work *work);
/* Whether the kind is CPU cores; NULL: the nominal core, which is. */
int pst_costs_is_cpu(const pst_device_kind *kind);
/* Whether a GPU with this vendor name is of the kind: "NVIDIA A100-SXM4-80GB" is A100-80. Never for
 * CPUs. */
int pst_costs_is_kind(const pst_device_kind *kind, const char *model);
/* Whether the profile was measured on such devices; NULL: on the run's own. */
int pst_costs_profiled(const pst_device_kind *kind, const pst_profile *profile);
/* ns of an exchange among `parts` tensor ranks, each of which sends `bytes`. */
uint64_t pst_costs_exchange_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                               uint64_t bytes);
/* Extra ns if the device adds up the sum itself, in the order of the ranks, instead of NCCL; 0 on
 * CPUs and for other exchanges. */
uint64_t pst_costs_exact_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                            uint64_t bytes);
/* The flush: the norm reads each gradient once; a step reads and writes weight, gradient and
 * states. ns for so many elements. */
uint64_t pst_costs_norm_ns(const pst_costs *costs, uint64_t elements);
uint64_t pst_costs_step_ns(const pst_costs *costs, uint64_t elements);
/* ns to add a received piece of a gradient. */
uint64_t pst_costs_reduce_ns(const pst_costs *costs, uint64_t elements);

/* --- tables for the search -------------------------------------------------------------------- */

/* Costs of the operators (items, in the order of the graph) of one micro-batch on one tensor rank.
 * A chunk is a run of items [a, b). Its times are the sums over its items. Its bytes, which never
 * exceed those of the memory map:
 *
 *     for every micro-batch from F to B  sum of stash + enter[a]
 *     once per rank, the maximum of      sum of recomputed - enter[a] (if positive), and each
 *                                        scratch[i] of all its chunks
 *
 * Where B and W are separate passes, also:
 *
 *     for every one from F to W that is  sum of stash_to_w
 *     not counted above
 *     for every one from B to W          sum of b_to_w - min(enter[a], sum of recomputed_to_w)
 *     once per rank, instead             recomputed - recomputed_to_w - enter[a], scratch_split */
typedef struct {
    uint32_t n;
    uint64_t *f_ns, *b_ns, *w_ns;            /* [n] tensor exchanges included */
    uint64_t *exchange_ns;                   /* [n] tensor exchanges of F, B and W */
    uint64_t *again_ns[PST_RECOMPUTE_COUNT]; /* [n] recomputation in B; NONE: NULL */
    uint64_t *stash[PST_RECOMPUTE_COUNT];    /* [n] bytes kept from F to the end of B, at least */
    /* [n] bytes received and kept by a chunk that begins here */
    uint64_t *enter[PST_RECOMPUTE_COUNT];
    /* [n] bytes that B has at once after it ran F again; NONE: NULL */
    uint64_t *recomputed[PST_RECOMPUTE_COUNT];
    uint64_t *stash_to_w[PST_RECOMPUTE_COUNT]; /* [n] bytes of F that are kept to the end of W, */
    uint64_t *b_to_w[PST_RECOMPUTE_COUNT]; /* [n] bytes made or received by B that are kept to the
                                              end of W, */
    uint64_t *recomputed_to_w[PST_RECOMPUTE_COUNT]; /* [n] the part of these that B recomputed;
                                                       NONE: NULL */
    uint64_t *scratch_split;                        /* [n] scratch without b_to_w */
    uint64_t *scratch;     /* [n] most bytes that a pass uses beside the stash */
    uint64_t *cross;       /* [n] bytes of activations across a cut before the item, and as many of
                              gradients; [0] is 0 */
    uint64_t *elements;    /* [n] of parameters first used here (this tensor rank's part) */
    uint64_t *accumulated; /* [n] of accumulators: one per use */
    uint64_t *tied; /* [n] of parameters used here but first used at item 0: another stage than that
                       has a copy */
    uint64_t *largest; /* [n] elements of the largest parameter first used here */
    /* [n] bytes of data and outputs of a micro-batch, kept during the whole step */
    uint64_t *kept;
    double norm_ns, step_ns, reduce_ns; /* ns per element: of the norm, of the optimizer's step, of
                                           adding another replica's gradient */
} pst_cost_table;

/* g: of the first tensor rank (the others take as long). link: between tensor ranks; NULL: that of
 * costs. scratch: its `choose` gives the scratch of kernels; NULL: none. ENOMEM. */
pst_status pst_cost_table_build(const pst_graph *g, const pst_costs *costs,
                                const pst_cluster_link *link, const pst_chooser *scratch,
                                pst_cost_table **table);
/* The table of a model in which items [from, from + period) occur `times` more often. ENOMEM. */
pst_status pst_cost_table_repeat(pst_cost_table *table, uint32_t from, uint32_t period,
                                 uint32_t times, pst_cost_table **longer);
void pst_cost_table_close(pst_cost_table *table);
#endif
