/* From a configuration to everything that is known before the first step: graph, plan, schedule,
 * programs, instructions, memory map of every rank, and the predictions. Touches no device and no
 * peer; reads the files that the run file names: a custom schedule, a cluster, a profile, an
 * earlier run (parallel.measured). */
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

/* What the ranks of a host may use together. */
typedef struct {
    uint32_t n; /* 0: what this process may use */
    int bound;  /* a launcher has given ranks parts of a machine, which may have more */
} pst_processors;

typedef struct {
    uint32_t n_rank;  /* ranks of the job: stages x replicas x tensor ranks */
    uint32_t threads; /* CPU threads per rank; scratch depends on it */
    uint32_t isa;     /* of the device; with PST_ISA_CUDA where a module's kernels compute */
    const pst_device_ops *device; /* the kind whose kernels compute; NULL: the CPU, or what
                                     parallel.cluster says (pst_prepare_device_of) */
    uint32_t local; /* 1 + number of this process among those of its host, which of several GPUs it
                       takes; 0: a process has many ranks, or it is the only one, and their numbers
                       say it */
    uint32_t ranks_here;       /* of this job on this host; 0: it is never opened */
    pst_processors processors; /* of the host, for parallel.profile */
    uint32_t n_eval_micro;     /* micro-batches per evaluation pass */
    int infer;                 /* graph without loss, no backward: generation */
    /* It lies as this plan says, and as the run file says where an old plan leaves something open;
     * NULL. EINPUT when it is for another graph. Borrowed during the call. */
    const pst_plan *plan;
    const pst_layout *layout; /* it lies like this, whatever the run file and a plan say; NULL. Its
                                 cut, with stages, is of the graph's operators. Borrowed during the
                                 call */
    const pst_graph *graph;   /* this one instead of the model's, copied; NULL. Micro-batch and
                                 precision have to be those of the configuration */
    /* These orders instead of that of the schedule's name, copied, one for every number of
     * micro-batches that a replica has; NULL. Borrowed during the call. */
    const pst_schedule *const *schedules;
    uint32_t n_schedule;
    int split; /* 1: W is a pass of its own, whatever the schedule of that name has */
    /* 1 + k: of all these ranks only the pipeline of replica k and tensor rank 0, to be scored:
     * job, slots and memory maps of the other lanes are NULL or empty, and what replicas exchange
     * is summarised (job.h, pst_job_spec.alone). Memory maps are to the byte those of the whole.
     * 0: all. Not with schedule solved. */
    uint32_t lane;
    int score; /* 1: it is only to be scored: of a large job, whose lists would be long, `lane`
                  becomes that of the replica that takes longest. With a cut */
    int quiet; /* 1: no warnings: they have been said */
    const char *const *what_if; /* changes of the cluster (pst_cluster_change); where there is none,
                                   of as many plain devices as there are ranks. Borrowed during the
                                   call */
    uint32_t n_what_if;
} pst_prepare_options;

typedef struct {
    const pst_config *config; /* borrowed */
    pst_prepare_options options;
    const pst_model_row *model;    /* NULL with a graph that was given, of model.kind custom */
    pst_model_config model_config; /* 0 with a graph that was given */
    const pst_optim_row *optim;    /* NULL when infer */
    pst_costs costs;               /* of a rank on a device of the first one's kind */
    pst_profile *profile;          /* parallel.profile; NULL: modelled */
    pst_measured *measured;        /* parallel.measured, while programs are built; else NULL */
    pst_graph *whole;              /* the model */
    pst_graph **graphs; /* [grid.tensor] what each tensor rank computes of it; of one, the model
                           itself; may be the same for several. Where stages have different numbers
                           of tensor ranks, what each lane does (grid.h): a stage's part of it is
                           that of the rank through which the lane goes */
    int uneven;         /* tensor ranks have parts of different sizes; the last has the largest */
    const pst_graph *graph;  /* the first of these; all have the same operators and parameters, by
                                number and name */
    uint32_t *chunk_of_node; /* [graph->n_node]. Where stages have different numbers of tensor
                                ranks, the plan's cut is of the model's operators, and these are
                                others */
    pst_plan *plan; /* with the layout, which has a cut once it is prepared; its micro-batches are
                       those of a step, of all replicas */
    pst_grid grid;  /* the layout's */
    /* [grid.data + 1] Replica k has micro-batches [micro[k], micro[k + 1]) of a step,
     * [eval_micro[k], eval_micro[k + 1]) of an evaluation pass. */
    uint32_t *micro, *eval_micro;
    pst_cluster *cluster; /* NULL: parallel.cluster is not given */
    uint32_t *device;     /* [n_rank] of the cluster; without one, of the processes as they are
                             launched */
    uint64_t message; /* elements of what replicas exchange at once, by the links between them; 0: a
                         piece */
    pst_cluster_link tensor_link, stage_link; /* the slowest between tensor ranks of a stage,
                                                 between neighbouring stages */
    double *throttle; /* [n_rank] a rank is made to take so many times as long as it could; 1: it is
                         not */
    double *slow;     /* [n_rank] it is expected to take so many times as long as modelled or
                         measured */
    pst_schedule **schedules, **eval_schedules; /* [grid.data] may be the same one for several */
    const pst_schedule *schedule;               /* of replica 0 */
    pst_cut **cuts, **eval_cuts;                /* [grid.tensor] */
    const pst_cut *cut, *eval_cut; /* the first of these; eval_cut NULL where there is no
                                      evaluation */
    pst_job *job, *eval_job;
    pst_slots **slots, **eval_slots; /* [lanes of the grid] */
    pst_memory_map **memory;         /* [n_rank] */
    pst_timing *timing;              /* predicted from the cost model */
    char solved[192];                /* schedule solved: what it came to, in a line; else "" */
    uint64_t flops;                  /* of one optimizer step, all ranks */
    uint64_t memory_limit;           /* bytes that each rank of this host may use; 0: not known */
    uint64_t targets; /* losses of one optimizer step, of which it takes the mean: samples x
                         context */
} pst_prepared;

/* prepare/kernels.c: of a pst_chooser whose arg is, or begins with, a pst_device. */
pst_status pst_prepare_choose(void *arg, const pst_graph *graph, const pst_node *node, int extra,
                              pst_pass pass, pst_chosen *chosen);
/* prepare/lane.c. Of a job that is only to be scored, once it is known how large its model is. */
void pst_prepare_choose_lane(pst_prepared *p);
/* prepare/share.c. The micro-batches of each replica, contiguous parts of n_micro, as the run file
 * says or by the speeds of replicas; first: [grid.data + 1], all 0. p has throttle, cluster and
 * slow of all ranks already. EINPUT for contradictions. */
pst_status pst_prepare_share(const pst_prepared *p, uint32_t n_micro, uint32_t *first);
/* Micro-batches in the time of a rank that is as fast as expected of all. */
double pst_prepare_speed(const pst_prepared *p, uint32_t replica);
/* Accumulators of each use, once p->micro is there (parallel.reproducible). EINPUT for
 * contradictions. */
pst_status pst_prepare_parts(const pst_prepared *p, uint32_t *parts);
/* Whether gradients of replicas travel in bf16 (parallel.gradients); likewise. */
pst_status pst_prepare_narrow(const pst_prepared *p, int *narrow);
/* prepare/schedule.c. The schedules of all replicas, one for every number of micro-batches that a
 * replica has, and those of evaluation. */
pst_status pst_prepare_schedules(pst_prepared *p);
pst_status pst_prepare_eval_schedules(pst_prepared *p);
void pst_prepare_close_schedules(pst_prepared *p);
/* prepare/devices.c. Which device each rank has, and how slow it is. EINPUT. */
pst_status pst_prepare_devices(pst_prepared *p);
/* Sets device and isa of options that say how many threads, by parallel.device. EINPUT: there is
 * none. */
pst_status pst_prepare_kind(const pst_config *config, pst_prepare_options *options);
/* What computes in a job on such devices, for looking at it (pst_registry_gpu); NULL: processors,
 * also where parallel.device says so. */
const pst_device_ops *pst_prepare_device_of(const pst_config *config, const pst_device_kind *kind);
/* prepare/graph.c. What the device wants of a graph that it computes; NULL: a processor. */
void pst_prepare_fit_graph(const pst_config *config, const pst_device_ops *device, pst_graph *g);
/* prepare/devices.c. The instruction sets for looking at a job, which asks nothing of this machine:
 * its own, and those that the precision needs, for the job may be another machine's or a GPU's. */
uint32_t pst_prepare_isa_to_look(const pst_config *config);
/* prepare/graph.c. EINPUT: what these options say cannot compute in the configured precision, and
 * why. */
pst_status pst_prepare_precision(const pst_config *config, const pst_prepare_options *options,
                                 pst_dtype *dtype);
/* prepare/devices.c. Of the datasheets, that of this machine's device of a module, by its maker's
 * name; NULL: it is another one, the host computes, or a profile is given, which knows better. */
const pst_device_kind *pst_prepare_datasheet(const pst_config *config,
                                             const pst_device_ops *device);
/* What the device of one rank could do at most in the run's precision: a processor's is measured
 * now, with the rank's threads; a module's is that of its kind's datasheet, dense, also where ranks
 * share the device. */
typedef struct {
    double flops;  /* a second; 0: not known */
    char from[48]; /* for people: where it is from */
} pst_peak;
void pst_prepare_peak(const pst_prepared *p, pst_peak *peak);
/* Bytes that each of so many ranks of this machine can have on its device; 0: not known. */
uint64_t pst_prepare_free(const pst_device_ops *device, uint32_t ranks_here);
/* Which device each of n ranks has, by the plan (NULL: none), else by parallel.devices, else its
 * own number; and which of the n processes that are launched runs it: they have the used devices in
 * ascending order. */
pst_status pst_prepare_seats(const pst_config *config, const pst_plan *plan, uint32_t n,
                             uint32_t *device, uint32_t *process);
/* prepare/number.c. An item of a list of the run file, in [least, most]. EINPUT names the key. */
pst_status pst_prepare_number(const char *key, const char *text, double least, double most,
                              double *out);
pst_status pst_prepare_whole(const char *key, const char *text, uint32_t least, uint32_t most,
                             uint32_t *out);
/* prepare/cluster.c. cluster, tensor_link and stage_link, once it is known which device each rank
 * has. EINPUT: too few devices, or no link where one is needed. */
pst_status pst_prepare_cluster(pst_prepared *p);
/* How many times as long a rank takes as the kind of the first one's device. */
double pst_prepare_slow(const pst_prepared *p, uint32_t rank);
/* The training job's messages get the durations of the cluster's links. ENOMEM, EINPUT. */
pst_status pst_prepare_time_messages(pst_prepared *p);
/* prepare/lane.c. What spec.exchange is of a lane on its own ([grid.pipeline]); the caller's, NULL:
 * as cost says. */
pst_status pst_prepare_exchange(const pst_prepared *p, pst_cluster_link **links);
/* prepare/share.c. How slow each stage is, that of its slowest replica; slow: [grid.pipeline]. */
void pst_prepare_slow_stages(const pst_prepared *p, double *slow);
/* prepare/room.c. What a rank may use when each may use `limit` (0: no limit): its device may have
 * less. 0: not limited. */
uint64_t pst_prepare_room(const pst_prepared *p, uint64_t limit, uint32_t rank);
/* By how much the rank that exceeds its room most does so; 0: none does. */
uint64_t pst_prepare_excess(const pst_prepared *p, uint64_t limit, uint32_t *rank);
/* prepare/prepare.c. EINPUT for contradictions, EINTERNAL when the checker refuses what was
 * built. */
pst_status pst_prepare(const pst_config *config, const pst_prepare_options *options,
                       pst_prepared **prepared);
/* The prediction again, after durations in the training job have changed. ENOMEM. */
pst_status pst_prepare_predict(pst_prepared *p);
void pst_prepared_close(pst_prepared *p);
/* prepare/fits.c. ENOMEM when a rank's memory map exceeds `limit` bytes: says which rank, by how
 * much, and the cheapest change that fits. */
pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit);
/* prepare/grid.c. The ranks that -n and the run file ask for: stages x replicas x tensor ranks.
 * EINPUT when they contradict. given: -n or the size of the job, 0 when neither is there. */
pst_status pst_prepare_ranks(const pst_config *config, int64_t given, uint32_t *n_rank);
/* Replicas x tensor ranks (the most of any stage) of the run file: as many pipelines are trained
 * side by side. */
uint32_t pst_prepare_lanes(const pst_config *config);
/* Ranks of a job of so many stages. A list of parallel.tensor says how many stages there are. */
uint32_t pst_prepare_job_ranks(const pst_config *config, uint32_t stages);
/* prepare/graph.c: whole, graphs and graph of a run whose grid is known. EINPUT for contradictions.
 * Where stages have different numbers of tensor ranks, graph is the model until it is planned, and
 * pst_prepare_split then makes graphs. */
pst_status pst_prepare_graph(pst_prepared *p);
pst_status pst_prepare_split(pst_prepared *p);
/* Model sizes from the run file, preset applied; what neither gives is as the data set has it. */
pst_status pst_prepare_model(const pst_config *config, const pst_model_row **row,
                             pst_model_config *model_config);
#endif
