/* From a configuration to everything that is known before the first step: graph, plan, schedule,
 * programs, instruction lists, memory map of every rank, and predictions. Uses no device and no
 * peer; reads the files named by the run file: a custom schedule, a cluster, a profile, an earlier
 * run (parallel.measured). */
#ifndef PST_PREPARE_PREPARE_H
#define PST_PREPARE_PREPARE_H
#include "config/config.h"
#include "prepare/measured.h"
#include "backends/registry.h"
#include "partition/cost/profile.h"
#include "partition/balance/balance.h"
#include "pipeline/cluster/cluster.h"
#include "pipeline/memory/map.h"
#include "pipeline/simulate/simulate.h"

/* The processors that the ranks of a host share. */
typedef struct {
    uint32_t n; /* number; 0: those that this process may use */
    int bound;  /* 1: a launcher has bound ranks to parts of a machine, which may have more */
} pst_processors;

typedef struct {
    uint32_t n_rank;  /* ranks of the job: stages x replicas x tensor ranks */
    uint32_t threads; /* CPU threads per rank; scratch depends on it */
    uint32_t isa; /* instruction set of the device; with PST_ISA_CUDA if a module's kernels compute
                   */
    /* the device whose kernels compute; NULL: the CPU, or that of parallel.cluster
     * (pst_prepare_device_of) */
    const pst_device_ops *device;
    /* 1 + index of this process on its host, which chooses one of several GPUs; 0: the process
     * has many ranks, or is the only one; then the ranks' numbers choose */
    uint32_t local;
    uint32_t ranks_here;       /* ranks of this job on this host; 0: the job will not be run */
    pst_processors processors; /* processors of this host, to compare with parallel.profile */
    uint32_t n_eval_micro;     /* micro-batches per evaluation pass */
    int infer;                 /* graph without loss, no backward: generation */
    /* The layout of this plan, and of the run file where an old plan leaves something open; may be
     * NULL. EINPUT: it is for another graph. Borrowed during the call. */
    const pst_plan *plan;
    /* This layout, whatever run file and plan say; may be NULL. Its cut, if any, is of the
     * graph's operators. Borrowed during the call. */
    const pst_layout *layout;
    /* This graph instead of the model's, copied; may be NULL. Micro-batch and precision must be
     * those of the configuration. */
    const pst_graph *graph;
    /* These schedules instead of the named one, copied: one for each number of micro-batches of a
     * replica; may be NULL. Borrowed during the call. */
    const pst_schedule *const *schedules;
    uint32_t n_schedule;
    int split; /* 1: B and W are apart, whatever the named schedule does */
    /* 1 + k: prepares only one lane, that of replica k and tensor rank 0, to be scored: job, slots
     * and memory maps of the other lanes are NULL or empty, and exchanges between replicas are
     * summarised (job.h, pst_job_spec.alone). Its memory maps are exactly those of the whole job.
     * 0: all lanes. Not with schedule solved. */
    uint32_t lane;
    /* 1: the job is only scored; if it is large, so that its lists would be long, `lane` is set
     * to the replica that takes longest. Needs a cut. */
    int score;
    int quiet; /* 1: no warnings, because they were already printed */
    /* Changes of the cluster (pst_cluster_change); without parallel.cluster, of a default
     * cluster with as many devices as ranks. Borrowed during the call. */
    const char *const *what_if;
    uint32_t n_what_if;
} pst_prepare_options;

typedef struct {
    const pst_config *config; /* borrowed */
    pst_prepare_options options;
    const pst_model_row *model;    /* NULL: a given graph of model.kind custom */
    pst_model_config model_config; /* 0 with a given graph */
    const pst_optim_row *optim;    /* NULL when infer */
    pst_costs costs;               /* costs of a rank whose device has the first device's kind */
    pst_profile *profile;          /* parallel.profile; NULL: durations are modelled */
    pst_measured *measured;        /* parallel.measured while programs are built; else NULL */
    pst_graph *whole;              /* the unsplit model */
    /* [grid.tensor] the graph of each tensor rank (some may be the same pointer); with one
     * tensor rank, the model itself. If stages have different numbers of tensor ranks: the graph
     * of each lane (grid.h), of which each rank on the lane's way computes its stage's part. */
    pst_graph **graphs;
    int uneven; /* 1: tensor ranks have parts of different sizes; the last one has the largest */
    /* graphs[0]; all have the same operators and parameters, by number and name */
    const pst_graph *graph;
    /* [graph->n_node]. If stages have different numbers of tensor ranks, the plan's cut is of
     * the model's operators instead, which are other ones */
    uint32_t *chunk_of_node;
    pst_plan *plan; /* with the layout, which has a cut once it is prepared; its micro-batches are
                       those of a step, summed over the replicas */
    pst_grid grid;  /* the grid of plan->layout */
    /* [grid.data + 1] Replica k has micro-batches [micro[k], micro[k + 1]) of a step,
     * [eval_micro[k], eval_micro[k + 1]) of an evaluation pass. */
    uint32_t *micro, *eval_micro;
    pst_cluster *cluster; /* NULL: without parallel.cluster */
    /* [n_rank] device of the cluster; without a cluster, index of the launched process */
    uint32_t *device;
    uint64_t message; /* elements of a message between replicas, by their links; 0: one piece */
    /* the slowest link between tensor ranks of a stage; between neighbouring stages */
    pst_cluster_link tensor_link, stage_link;
    double *throttle; /* [n_rank] factor by which a rank is slowed down on purpose; 1: not at all */
    /* [n_rank] expected time of a rank, as a multiple of the modelled or measured time */
    double *slow;
    pst_schedule **schedules, **eval_schedules; /* [grid.data] several may be the same pointer */
    const pst_schedule *schedule;               /* schedule of replica 0 */
    pst_cut **cuts, **eval_cuts;                /* [grid.tensor] */
    const pst_cut *cut, *eval_cut;              /* cuts[0]; eval_cut NULL: no evaluation */
    pst_job *job, *eval_job;
    pst_slots **slots, **eval_slots; /* [lanes of the grid] */
    pst_memory_map **memory;         /* [n_rank] */
    pst_timing *timing;              /* predicted from the cost model */
    char solved[192];                /* schedule solved: the result in a line; else "" */
    uint64_t flops;        /* floating-point operations of one optimizer step, over all ranks */
    uint64_t memory_limit; /* bytes that each rank of this host may use; 0: unknown */
    uint64_t targets;      /* samples x context of one optimizer step, whose losses are averaged */
} pst_prepared;

/* prepare/kernels.c: for a pst_chooser; arg is a pst_device or begins with one. */
pst_status pst_prepare_choose(void *arg, const pst_graph *graph, const pst_node *node, int extra,
                              pst_pass pass, pst_chosen *chosen);
/* prepare/lane.c. Decides, once the model's size is known, whether a job that is only scored is
 * reduced to one lane. */
void pst_prepare_choose_lane(pst_prepared *p);
/* prepare/share.c. Divides n_micro micro-batches among the replicas, as the run file says or by the
 * replicas' speeds; first: [grid.data + 1], all 0. p has throttle, cluster and slow of all ranks
 * already. EINPUT for contradictions. */
pst_status pst_prepare_share(const pst_prepared *p, uint32_t n_micro, uint32_t *first);
/* A replica's speed: micro-batches in the time that a rank of expected speed takes for one. */
double pst_prepare_speed(const pst_prepared *p, uint32_t replica);
/* The number of accumulators of each use, once p->micro is set (parallel.reproducible). EINPUT for
 * contradictions. */
pst_status pst_prepare_parts(const pst_prepared *p, uint32_t *parts);
/* Whether replicas send gradients in bf16 (parallel.gradients). EINPUT likewise. */
pst_status pst_prepare_narrow(const pst_prepared *p, int *narrow);
/* prepare/schedule.c. The schedules of all replicas, one for each number of micro-batches, and
 * those of evaluation. */
pst_status pst_prepare_schedules(pst_prepared *p);
pst_status pst_prepare_eval_schedules(pst_prepared *p);
void pst_prepare_close_schedules(pst_prepared *p);
/* prepare/devices.c. Sets the device of each rank and how slow it is. EINPUT. */
pst_status pst_prepare_devices(pst_prepared *p);
/* Sets options' device and isa by parallel.device; options has the number of threads. EINPUT: no
 * such device. */
pst_status pst_prepare_kind(const pst_config *config, pst_prepare_options *options);
/* The device that computes in a job on devices of this kind, for jobs that are only inspected
 * (pst_registry_gpu); NULL: a CPU, also if parallel.device says so. */
const pst_device_ops *pst_prepare_device_of(const pst_config *config, const pst_device_kind *kind);
/* prepare/graph.c. Adapts a graph to the device that computes it; NULL: a CPU. */
void pst_prepare_fit_graph(const pst_config *config, const pst_device_ops *device, pst_graph *g);
/* prepare/devices.c. The instruction sets for a job that is only inspected, which may be another
 * machine's or a GPU's: this machine's, and those that the precision needs. */
uint32_t pst_prepare_isa_to_inspect(const pst_config *config);
/* prepare/graph.c. EINPUT: the device of these options cannot compute in the configured precision,
 * and why. */
pst_status pst_prepare_precision(const pst_config *config, const pst_prepare_options *options,
                                 pst_dtype *dtype);
/* prepare/devices.c. The data sheet of this machine's GPU, found by the maker's name; NULL: none
 * matches, the CPU computes, or a profile is given, which is more accurate. */
const pst_device_kind *pst_prepare_datasheet(const pst_config *config,
                                             const pst_device_ops *device);
/* Peak rate of one rank's device in the run's precision. A CPU is measured now, with the rank's
 * threads; a GPU's is that of its data sheet (dense), even if ranks share it. */
typedef struct {
    double flops;  /* per second; 0: unknown */
    char from[48]; /* where the number comes from, for messages */
} pst_peak;
void pst_prepare_peak(const pst_prepared *p, pst_peak *peak);
/* Device memory for each of this number of ranks on this machine, in bytes; 0: unknown. */
uint64_t pst_prepare_free(const pst_device_ops *device, uint32_t ranks_here);
/* The device of each of n ranks: by the plan (may be NULL), else by parallel.devices, else the
 * rank's number. process: which of the n launched processes runs each rank; processes have the used
 * devices in ascending order. */
pst_status pst_prepare_assign_devices(const pst_config *config, const pst_plan *plan, uint32_t n,
                                      uint32_t *device, uint32_t *process);
/* prepare/number.c. An item of a list in the run file, in [least, most]. EINPUT names the key. */
pst_status pst_prepare_number(const char *key, const char *text, double least, double most,
                              double *out);
pst_status pst_prepare_whole(const char *key, const char *text, uint32_t least, uint32_t most,
                             uint32_t *out);
/* prepare/cluster.c. Sets cluster, tensor_link and stage_link, once each rank's device is known.
 * EINPUT: too few devices, or a link is missing. */
pst_status pst_prepare_cluster(pst_prepared *p);
/* A rank's time as a multiple of the time on the kind of the first rank's device. */
double pst_prepare_slow(const pst_prepared *p, uint32_t rank);
/* Sets the durations of the training job's messages by the cluster's links. ENOMEM, EINPUT. */
pst_status pst_prepare_time_messages(pst_prepared *p);
/* prepare/lane.c. The value of spec.exchange for a single lane ([grid.pipeline]); the caller frees
 * it; NULL: as cost says. */
pst_status pst_prepare_exchange(const pst_prepared *p, pst_cluster_link **links);
/* prepare/share.c. How slow each stage is: as its slowest replica; slow: [grid.pipeline]. */
void pst_prepare_slow_stages(const pst_prepared *p, double *slow);
/* prepare/memory_limit.c. The bytes that a rank may use if each may use `limit` (0: no limit) and
 * its device may have less. 0: no limit. */
uint64_t pst_prepare_usable_bytes(const pst_prepared *p, uint64_t limit, uint32_t rank);
/* The largest number of bytes by which a rank exceeds its limit, and that rank; 0: none does. */
uint64_t pst_prepare_excess(const pst_prepared *p, uint64_t limit, uint32_t *rank);
/* prepare/prepare.c. EINPUT for contradictions; EINTERNAL if the checker rejects the result. */
pst_status pst_prepare(const pst_config *config, const pst_prepare_options *options,
                       pst_prepared **prepared);
/* Predicts again after durations in the training job have changed. ENOMEM. */
pst_status pst_prepare_predict(pst_prepared *p);
void pst_prepared_close(pst_prepared *p);
/* prepare/fits.c. ENOMEM if a rank's memory map exceeds `limit` bytes: names the rank, the bytes,
 * and the cheapest change that fits. */
pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit);
/* prepare/grid.c. The number of ranks (stages x replicas x tensor ranks) by `given` and the run
 * file. EINPUT: they contradict. given: -n or the size of the job; 0: neither. */
pst_status pst_prepare_ranks(const pst_config *config, int64_t given, uint32_t *n_rank);
/* Lanes of the run file: replicas x tensor ranks (of the widest stage). */
uint32_t pst_prepare_lanes(const pst_config *config);
/* Ranks of a job with this number of stages. A list in parallel.tensor decides the number of stages
 * itself. */
uint32_t pst_prepare_job_ranks(const pst_config *config, uint32_t stages);
/* prepare/graph.c: sets whole, graphs and graph of a run whose grid is known. EINPUT for
 * contradictions. If stages have different numbers of tensor ranks, graph is the model until there
 * is a cut; then pst_prepare_split makes the graphs. */
pst_status pst_prepare_graph(pst_prepared *p);
pst_status pst_prepare_split(pst_prepared *p);
/* Model sizes: from the run file, else its preset, else the data set. */
pst_status pst_prepare_model(const pst_config *config, const pst_model_row **row,
                             pst_model_config *model_config);
#endif
