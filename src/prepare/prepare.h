/* Computes from a configuration everything that is known before the first step: graph, plan,
 * schedule, programs, instruction lists, memory map of every rank, and predictions. Opens no device
 * and talks to no other process; reads the files named by the run file: a custom schedule, a
 * cluster, a profile, an earlier run (parallel.measured). */
#ifndef PST_PREPARE_PREPARE_H
#define PST_PREPARE_PREPARE_H
#include "config/config.h"
#include "prepare/batches.h"
#include "prepare/measured.h"
#include "backends/registry.h"
#include "partition/cost/profile.h"
#include "partition/balance/balance.h"
#include "pipeline/cluster/cluster.h"
#include "pipeline/memory/map.h"
#include "pipeline/simulate/simulate.h"

/* The processors that the ranks of a host share. */
typedef struct {
    uint32_t n; /* number of processors; 0: those that this process may use */
    int bound;  /* 1: a launcher has bound ranks to these; the machine may have more */
} pst_processors;

typedef struct {
    uint32_t n_rank;  /* ranks of the job: stages x replicas x tensor ranks */
    uint32_t threads; /* CPU threads per rank; scratch depends on it */
    /* instruction sets of the device (PST_ISA_ bits); PST_ISA_CUDA: kernels of a module compute */
    uint32_t isa;
    /* the device whose kernels compute; NULL: the CPU, or the device of parallel.cluster
     * (pst_prepare_device_of) */
    const pst_device_ops *device;
    /* which of several GPUs a rank uses: 1 + index of this process on its host; 0: this process has
     * all ranks, and each uses the GPU with the rank's number */
    uint32_t local;
    uint32_t ranks_here; /* ranks of this job on this host; 0: the job will not be run */
    /* [n_rank] number of the host of each rank; NULL: unknown. Copied. */
    const uint32_t *host;
    pst_processors processors; /* processors of this host, to compare with parallel.profile */
    uint32_t n_eval_micro;     /* micro-batches per evaluation pass; 0: no evaluation */
    /* 1: with islands (parallel.local): the lists of a step without outer step. Only for
     * pst_prepare_inner */
    int inner;
    /* With islands, the lists that have turn `turn` of the exchange of fragment part - 1 (pst_job);
     * part 0: all fragments */
    uint32_t part, turn;
    int smaller;    /* 1: also prepare the other lists of the run (`smaller`) */
    uint32_t phase; /* of parallel.compress (pst_prepare_phase); 0: the last one */
    int twins;      /* 1: of an elastic run: the state has two sides (pst_memory_map.twin) */
    int infer;      /* 1: graph for generation: no loss, no backward pass */
    /* With infer: number of sequences that are computed at a time; 0: 1 */
    uint32_t samples;
    /* With infer: 1: the graph ends with the losses of targets instead of logits. positions: of a
     * sample; 0: the model's context. Only rotary positions may exceed the context. */
    int losses;
    uint32_t positions;
    /* With infer: tensor ranks of each stage, which divide n_rank; 0: 1. Not with `cache`. */
    uint32_t tensor;
    /* With infer: 1: keys and values of earlier positions are kept in a cache, of at least
     * `positions`. The graph computes up to PST_FORM_MAX positions of each sample at a time (forms,
     * below). EINPUT: the model or the device cannot do this. */
    int cache;
    /* Use the layout of this plan; what an old plan lacks comes from the run file. May be NULL.
     * EINPUT: the plan is for another graph. Borrowed during the call. */
    const pst_plan *plan;
    /* Use this layout and ignore those of run file and plan; may be NULL. The cut, if any, counts
     * operators of the graph. Borrowed during the call. */
    const pst_layout *layout;
    /* Use a copy of this graph instead of the configured model; may be NULL. Micro-batch size and
     * precision must equal those of the configuration. */
    const pst_graph *graph;
    /* Use copies of these schedules instead of the named one; may be NULL. One schedule for each
     * distinct number of micro-batches per replica. Borrowed during the call. */
    const pst_schedule *const *schedules;
    uint32_t n_schedule;
    int split; /* 1: split backward passes into B and W, also if the named schedule fuses them */
    /* 0: prepare all lanes. 1 + k: prepare only the lane of replica k and tensor rank 0, to predict
     * a large job quickly: instruction lists, memory slots and memory maps of the other lanes are
     * NULL or empty, and communication between replicas is summarised (job.h, pst_job_spec.alone).
     * The lane's memory maps equal those of the whole job. Not with schedule solved. */
    uint32_t lane;
    /* 1: the job is only predicted, not run: if it is large, pst_prepare sets `lane` to that of the
     * slowest replica. Needs a layout with a cut. */
    int score;
    /* 1: each memory map is closed as soon as its size, and the durations that depend on it, are
     * known. Only with `score`. */
    int brief;
    int quiet; /* 1: print no warnings: they were already printed */
    int flat;  /* 1: parallel.exchange=auto is flat. Only for pst_prepare */
    /* Predict what this program would take (partition/cost/program.h); NULL: penstock. Only with
     * `score`. Borrowed until the prepared run is closed. */
    const pst_costs_program *program;
    double factor; /* on all durations of computation; 0: 1 */
    /* Changes to the cluster (pst_cluster_change); without parallel.cluster, to a default cluster
     * with one device per rank. Borrowed during the call. */
    const char *const *what_if;
    uint32_t n_what_if;
} pst_prepare_options;

/* A graph for runs of `positions` positions of each sample. */
enum { PST_FORMS = 3, PST_FORM_MAX = 128 };
typedef struct {
    uint32_t positions;
    pst_graph *graph;
    pst_graph **part; /* [grid.tensor] of each tensor rank; NULL: there is one */
} pst_form;

typedef struct pst_prepared pst_prepared;
struct pst_prepared {
    const pst_config *config; /* borrowed */
    pst_prepare_options options;
    const pst_model_row *model;    /* NULL: the graph is given and model.kind is custom */
    pst_model_config model_config; /* all 0 with a given graph */
    const pst_optim_row *optim;    /* NULL if options.infer */
    /* [n_param of graph] bytes of scratch memory of the updates of whole parameters; NULL: none */
    uint64_t *whole_scratch;
    uint64_t whole_part;  /* the first of these are parts of this size, one for each tensor rank */
    pst_costs costs;      /* costs on the kind of device that the first rank has */
    pst_profile *profile; /* parallel.profile; NULL: durations are estimated */
    /* data of parallel.measured while programs are built; else NULL */
    pst_measured *measured;
    pst_graph *whole; /* the unsplit model */
    /* [grid.tensor] graph of each tensor rank (pointers may be equal); with one tensor rank, the
     * model itself. If stages have different numbers of tensor ranks: graph of each lane (grid.h),
     * of which each rank of the lane computes its stage's operators. */
    pst_graph **graphs;
    /* If the step's first micro-batch has fewer samples (pst_layout.rest): the unsplit model and,
     * [grid.tensor], the graphs of the tensor ranks for it; else NULL. Operators, parameters and
     * tensors have the indices that they have in `whole` and `graphs`. */
    pst_graph *rest_whole, **rests;
    /* With options.cache: the model for several numbers of positions per run, in ascending order;
     * the last form is `whole` and `graphs`. Operators, parameters and tensors have equal indices
     * in all forms, and no tensor is larger than in `whole`, for which the memory is laid out. */
    pst_form form[PST_FORMS];
    uint32_t n_form;
    /* 1: tensor ranks have parts of different sizes; the last tensor rank has the largest */
    int uneven;
    /* graphs[0]; all graphs have the same operators and parameters, with equal indices and names */
    const pst_graph *graph;
    /* [graph->n_node] chunk of each operator. If stages have different numbers of tensor ranks, the
     * plan's cut counts operators of the unsplit model instead */
    uint32_t *chunk_of_node;
    /* the plan with the layout; its number of micro-batches is the sum over the replicas */
    pst_plan *plan;
    pst_grid grid; /* grid of plan->layout */
    /* [owners of the grid + 1] Replica k computes micro-batches [micro[k], micro[k + 1]) of a step
     * and [eval_micro[k], eval_micro[k + 1]) of an evaluation pass. */
    uint32_t *micro, *eval_micro;
    pst_cluster *cluster; /* NULL: without parallel.cluster */
    uint32_t *host;       /* options.host; NULL: unknown */
    /* [n_rank] device of each rank: index in the cluster; without a cluster, index of the launched
     * process */
    uint32_t *device;
    /* elements per message of a reduction between replicas, chosen for the links; 0: each sum is
     * one message */
    uint64_t message;
    /* slowest link between tensor ranks of a stage; between neighbouring stages */
    pst_cluster_link tensor_link, stage_link;
    /* [n_rank] factor by which a rank is slowed down on purpose (parallel.throttle); 1: not slowed
     * down */
    double *throttle;
    /* [n_rank] expected time of a rank's computation, as a multiple of the estimated or measured
     * time */
    double *slow;
    /* [grid.data] schedule of each replica; pointers may be equal */
    pst_schedule **schedules, **eval_schedules;
    const pst_schedule *schedule;  /* schedule of replica 0 */
    pst_cut **cuts, **eval_cuts;   /* [grid.tensor] */
    const pst_cut *cut, *eval_cut; /* cuts[0]; eval_cut NULL: no evaluation */
    pst_job *job, *eval_job;
    pst_slots **slots, **eval_slots; /* [lanes of the grid] */
    pst_memory_map **memory;         /* [n_rank] */
    pst_timing *timing;              /* predicted from the cost model */
    uint64_t mean_ns;                /* mean step by `timing` (pipeline/simulate/async.h) */
    char solved[192];                /* schedule solved: the result as one line of text; else "" */
    uint64_t flops;        /* floating-point operations of one optimizer step, over all ranks */
    uint64_t memory_limit; /* bytes of memory that each rank of this host may use; 0: unknown */
    /* number of losses that one optimizer step averages at most (without those that are averaged
     * over samples), and of tokens or images that it reads */
    uint64_t targets, tokens;
    /* how many samples each step of the run has; this job is for train.batch samples, the last size
     */
    pst_batches batches;
    double compression; /* pst_job_compression */
    /* With options.smaller: the same job for the other sizes of `batches` and phases of
     * parallel.compress, in the order of the steps, without evaluation. Weights, optimizer states
     * and residuals have the same offsets in all maps, and the maps of this job are as large as the
     * largest one. */
    pst_prepared **smaller;
    uint32_t n_smaller;
    /* With islands (parallel.local): the same job for steps without outer step, in the same way;
     * this one is for steps with it. NULL: there are no islands. */
    pst_prepared *inner;
    /* With fragments or a delay, the same for the steps that exchange a fragment: delay + 1 for
     * each fragment, by turn. Only the last step of the run then has the lists of this job. */
    pst_prepared **turns;
    uint32_t n_turns;
};

/* prepare/kernels.c: callback for pst_chooser; arg is a pst_device or begins with one. */
pst_status pst_prepare_choose(void *arg, const pst_graph *graph, const pst_node *node, int extra,
                              pst_pass pass, pst_chosen *chosen);
/* prepare/lane.c. With options.score: sets options.lane if the job is large. The model must be
 * known. */
void pst_prepare_choose_lane(pst_prepared *p);
/* *ns: pst_costs.shard_ns, of the slowest rank. */
pst_status pst_prepare_shard_ns(const pst_prepared *p, double *ns);
/* prepare/share.c. Divides n_micro micro-batches among the replicas: as the run file specifies,
 * else in proportion to the replicas' speeds. first: [owners of the grid + 1], all 0 before;
 * becomes the first micro-batch of each replica; servers have none. p->throttle, cluster and slow
 * must be set. EINPUT: keys contradict each other. */
pst_status pst_prepare_share(const pst_prepared *p, uint32_t n_micro, uint32_t *first);
/* Relative speed of a replica: micro-batches that it computes in the time in which a rank of the
 * expected speed computes one. */
double pst_prepare_speed(const pst_prepared *p, uint32_t replica);
/* *parts: number of gradient accumulators per use of a parameter (parallel.reproducible). p->micro
 * must be set. EINPUT: keys contradict each other. */
pst_status pst_prepare_parts(const pst_prepared *p, uint32_t *parts);
/* *narrow: 1: replicas send gradients in bf16 (parallel.gradients). EINPUT likewise. */
pst_status pst_prepare_narrow(const pst_prepared *p, int *narrow);
/* prepare/near.c. Sets spec->near (parallel.exchange), once the other members are set. EINPUT: keys
 * contradict each other. */
pst_status pst_prepare_near(const pst_prepared *p, pst_job_spec *spec);
/* Why keys of the configuration do not allow a two-level exchange between replicas, whatever the
 * layout, with what to change; NULL: they do. */
const char *pst_prepare_why_flat(const pst_config *config);
/* For people: how replicas exchange; "" if the exchange is flat. Returns `text`. */
enum { PST_NEAR_TEXT = 120 };
const char *pst_prepare_near_text(const pst_prepared *p, char text[PST_NEAR_TEXT]);
/* Why parallel.exchange=two-level has no effect; NULL: it has, or is not set. */
const char *pst_prepare_near_missed(const pst_prepared *p);
/* prepare/lane.c. *shorter: 1: by the links of the cluster, replicas exchange what they own in less
 * time if each `near` adjacent ones add their gradients first; 1 without a cluster. */
pst_status pst_prepare_near_is_shorter(const pst_prepared *p, uint32_t near, int *shorter);
/* prepare/compress.c. Returns the number of a rank's host: that of options.host or, without it, the
 * node of its device; unknown hosts count as one. */
uint32_t pst_prepare_host(const pst_prepared *p, uint32_t rank);
/* Sets the members of `spec` for packed gradients (parallel.compress). The
 * caller frees *packs, which spec->packs borrows. EINPUT likewise. */
pst_status pst_prepare_compress(const pst_prepared *p, pst_job_spec *spec, uint8_t **packs);
/* The same for messages between stages: sets *packing, whose `packs` the caller frees; train 0: of
 * evaluation, which packs nothing. */
pst_status pst_prepare_packing(const pst_prepared *p, int train, pst_cut_packing *packing);
/* Which phase of parallel.compress a step of the run (from 0) is in. PLAIN: before `after`, nothing
 * is packed; from WARM_UP on: of the warm-up of topk; LAST: all others. phases: [PST_PHASES] the
 * first step of each phase behind the first one, ascending; returns how many these are. */
enum { PST_PHASE_LAST, PST_PHASE_PLAIN, PST_PHASE_WARM_UP, PST_PHASES = 12 };
uint32_t pst_prepare_phase(const pst_config *config, uint64_t step);
uint32_t pst_prepare_phases(const pst_config *config, uint64_t begin[PST_PHASES]);
/* The codecs of parallel.compress.up, down and stages, in the last phase, and of
 * parallel.local.compress. */
pst_codec pst_prepare_codec_up(const pst_config *config);
pst_codec pst_prepare_codec_down(const pst_config *config);
pst_codec pst_prepare_codec_stages(const pst_config *config);
pst_codec pst_prepare_codec_islands(const pst_config *config);
/* prepare/schedule.c. Sets the schedules of all replicas, one for each distinct number of
 * micro-batches, and the schedules of evaluation. */
pst_status pst_prepare_schedules(pst_prepared *p);
pst_status pst_prepare_eval_schedules(pst_prepared *p);
void pst_prepare_close_schedules(pst_prepared *p);
/* prepare/devices.c. Sets p->device, p->throttle and p->slow; calls pst_prepare_cluster. EINPUT:
 * keys contradict each other. */
pst_status pst_prepare_devices(pst_prepared *p);
/* Sets options->device and options->isa from parallel.device; options->threads must be set. EINPUT:
 * no such device, or it is not usable. */
pst_status pst_prepare_kind(const pst_config *config, pst_prepare_options *options);
/* The device that computes in a job on devices of this kind, for a job that is planned but not run
 * here (pst_registry_gpu); NULL: a CPU, by its kind or by parallel.device. */
const pst_device_ops *pst_prepare_device_of(const pst_config *config, const pst_device_kind *kind);
/* prepare/tuned.c. Replaces an unsplit graph, which it closes, by one with the adapters of the run
 * file, and freezes parameters (adapt, train.freeze). EINPUT: there are no such layers or
 * parameters. */
pst_status pst_prepare_tuned(const pst_config *config, pst_graph **graph);
/* 1: these keys may name single layers, which the model with fewer layers lacks. */
int pst_prepare_names_layers(const pst_config *config);
/* prepare/graph.c. Adapts a graph to the device that computes it (device NULL: a CPU). */
void pst_prepare_fit_graph(const pst_config *config, const pst_device_ops *device, pst_graph *g);
/* prepare/devices.c. Instruction sets (PST_ISA_ bits) to assume for a job that is planned but not
 * run here: those of this machine, and those that the precision needs. */
uint32_t pst_prepare_isa_to_inspect(const pst_config *config);
/* prepare/graph.c. *dtype: type of the configured precision. EINPUT: the device in `options` does
 * not support it; the message says why. */
pst_status pst_prepare_precision(const pst_config *config, const pst_prepare_options *options,
                                 pst_dtype *dtype);
/* prepare/devices.c. The datasheet of this machine's GPU, found by the vendor's name of the GPU.
 * NULL: no datasheet matches, the CPU computes, or a profile is given, which is more accurate. */
const pst_device_kind *pst_prepare_datasheet(const pst_config *config,
                                             const pst_device_ops *device);
/* Peak rate of one rank's device in the run's precision. That of a CPU is measured by the call,
 * with the threads of a rank; that of a GPU is the dense rate of the datasheet, even if several
 * ranks share the GPU. */
typedef struct {
    double flops;  /* per second; 0: unknown */
    char from[48]; /* source of the number, for messages */
} pst_peak;
void pst_prepare_peak(const pst_prepared *p, pst_peak *peak);
/* Bytes of free device memory for each of ranks_here ranks on this machine; 0: unknown. */
uint64_t pst_prepare_free(const pst_device_ops *device, uint32_t ranks_here);
/* device: [n] device of each rank: from the plan (may be NULL), else from parallel.devices, else
 * the rank's number. process: [n] which launched process runs each rank; the launched processes get
 * the used devices in ascending order. */
pst_status pst_prepare_assign_devices(const pst_config *config, const pst_plan *plan, uint32_t n,
                                      uint32_t *device, uint32_t *process);
/* prepare/number.c. Parse one item of a list in the run file as a number in [least, most]. EINPUT:
 * the message names the key and the bounds. */
pst_status pst_prepare_number(const char *key, const char *text, double least, double most,
                              double *out);
pst_status pst_prepare_whole(const char *key, const char *text, uint32_t least, uint32_t most,
                             uint32_t *out);
/* prepare/cluster.c. Sets p->cluster, p->tensor_link and p->stage_link; p->device must be set.
 * EINPUT: too few devices, or a link is missing. */
pst_status pst_prepare_cluster(pst_prepared *p);
/* A rank's computing time as a multiple of the time on the kind of device that the first rank
 * has. */
double pst_prepare_slow(const pst_prepared *p, uint32_t rank);
/* Sets the durations of the training job's messages from the cluster's links. ENOMEM, EINPUT. */
pst_status pst_prepare_time_messages(pst_prepared *p);
/* prepare/lane.c. *links: [grid.pipeline] value of pst_job_spec.exchange for a single lane, with
 * this value of pst_job_spec.near; the caller frees it. NULL: durations come from the cost model.
 */
pst_status pst_prepare_exchange(const pst_prepared *p, uint32_t near, pst_cluster_link **links);
/* prepare/share.c. slow: [grid.pipeline] slowdown of each stage, that of the stage's slowest
 * replica. */
void pst_prepare_slow_stages(const pst_prepared *p, double *slow);
/* prepare/memory_limit.c. Bytes of memory that `rank` may use: the smaller of `limit` (0: no limit)
 * and the memory of its device. 0: no limit. */
uint64_t pst_prepare_usable_bytes(const pst_prepared *p, uint64_t limit, uint32_t rank);
/* The largest number of bytes by which any rank exceeds its limit, and that rank in *rank; 0: no
 * rank exceeds its limit. */
uint64_t pst_prepare_excess(const pst_prepared *p, uint64_t limit, uint32_t *rank);
/* prepare/prepare.c. Prepares a job; the caller closes *prepared. config is borrowed until then.
 * EINPUT: keys contradict each other; EINTERNAL: the checker rejects the result. */
pst_status pst_prepare(const pst_config *config, const pst_prepare_options *options,
                       pst_prepared **prepared);
/* Samples of a step of this job. */
static inline uint64_t pst_prepared_batch(const pst_prepared *p) {
    return pst_layout_batch(&p->plan->layout);
}
/* prepare/local.c. Sets the members of `spec` for islands (parallel.local). EINPUT: keys contradict
 * each other. */
pst_status pst_prepare_local(const pst_prepared *p, pst_job_spec *spec);
/* prepare/update.c. Sets spec->staleness and spec->async. EINPUT: a key that delayed or
 * asynchronous updates do not go with. delay: parallel.staleness, or 0 if updates are not delayed.
 */
pst_status pst_prepare_update(const pst_prepared *p, pst_job_spec *spec);
uint32_t pst_prepare_staleness(const pst_config *config);
/* Returns 1 for parallel.update async and bounded. */
int pst_prepare_is_async(const pst_config *config);
/* With these: by how many steps a worker may be ahead of the slowest; UINT64_MAX: by any number. */
uint64_t pst_prepare_ahead(const pst_config *config);
/* The number of islands; 1: all replicas exchange gradients. */
uint32_t pst_prepare_islands(const pst_config *config, uint32_t replicas);
/* What islands exchange in a step: PST_LOCAL_TURN: turn `turn` (0: without delay the whole
 * exchange, else weights are kept) of a fragment. */
typedef enum { PST_LOCAL_NONE, PST_LOCAL_ALL, PST_LOCAL_TURN } pst_local_kind;
typedef struct {
    pst_local_kind kind;
    uint32_t fragment, turn;
} pst_local_step;
/* `step` counts from 0. The last step of the run exchanges all; an exchange that would not end
 * before it is not begun. */
pst_local_step pst_prepare_local_step(const pst_config *config, uint64_t step);
/* *fragment: [parameters] the fragment of each; they have about equal numbers of elements of the
 * whole model, and adjacent parameters. NULL: there are no fragments. The caller frees it. */
pst_status pst_prepare_fragments(const pst_prepared *p, uint32_t **fragment);
/* 1: `step`, counted from 0, ends with all replicas having the same weights. */
int pst_prepared_syncs(const pst_prepared *p, uint64_t step);
/* Mean of the predicted duration of the steps between two outer steps, in ns; without islands, of a
 * step. */
double pst_prepared_step_ns(const pst_prepared *p);
/* prepare/smaller.c. Sets p->inner and p->turns if there are islands, and p->plan->step_ns to the
 * mean. */
pst_status pst_prepare_inner(pst_prepared *p);
/* The i-th job for other steps: p->inner, p->turns, p->smaller; NULL: there are no more. */
pst_prepared *pst_prepared_other(const pst_prepared *p, uint32_t i);
/* The job for the batch and phase of `step`: p, p->inner, or one of p->turns or p->smaller. */
pst_prepared *pst_prepared_at(pst_prepared *p, uint64_t step);
/* Sets p->smaller. EINPUT: the layout cannot have such batches; the message lists those that it can
 * have. */
pst_status pst_prepare_smaller(pst_prepared *p);
/* Predicted time of all steps before `steps`, in ns, with p->smaller. */
double pst_prepared_time(pst_prepared *p, uint64_t steps);
/* Updates p->timing after durations in the training job have changed. ENOMEM. */
pst_status pst_prepare_predict(pst_prepared *p);
void pst_prepared_close(pst_prepared *p);
/* prepare/fits.c. ENOMEM if a rank's memory map exceeds `limit` bytes; the message names the rank,
 * the bytes, and the change that fits and costs least speed. */
pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit);
/* prepare/grid.c. The number of ranks (stages x replicas x tensor ranks), from `given` and the run
 * file. given: -n, or the size of the job; 0: neither is known. EINPUT: they contradict each
 * other. */
pst_status pst_prepare_ranks(const pst_config *config, int64_t given, uint32_t *n_rank);
/* Number of lanes in the run file: replicas x the largest number of tensor ranks of a stage. */
uint32_t pst_prepare_lanes(const pst_config *config);
/* Number of ranks of a job with `stages` stages. If parallel.tensor is a list, its length is the
 * number of stages, and `stages` is ignored. */
uint32_t pst_prepare_job_ranks(const pst_config *config, uint32_t stages);
/* The number of servers (parallel.servers) of a job with n_rank ranks, servers included. */
uint32_t pst_prepare_servers(const pst_config *config, uint32_t n_rank);
/* EINPUT: servers do not go with another key of the configuration; the number of replicas is not
 * looked at. */
pst_status pst_prepare_check_servers(const pst_config *config);
/* prepare/servers.c. *weight: pst_job_spec.weight, NULL without servers; the caller frees it:
 * shares with which the busiest link of all owners has least to do. ENOMEM. */
pst_status pst_prepare_owners(const pst_prepared *p, uint32_t **weight);
/* pst_job_spec.eager: with servers, where a piece can be updated before others have arrived. */
int pst_prepare_is_eager(const pst_prepared *p);
/* pst_job_spec.message of eager updates, at most `message`. */
uint64_t pst_prepare_slice(const pst_prepared *p, uint64_t message);
/* prepare/graph.c. EINPUT: the precision, or a program other than penstock, needs micro-batches of
 * equal size, which batch and micro_batch, in samples, do not allow. program: NULL: penstock. */
pst_status pst_prepare_check_micro(const pst_config *config, const pst_costs_program *program,
                                   uint64_t batch, uint64_t micro_batch);
/* prepare/graph.c: sets p->whole, p->graphs and p->graph; p->grid must be set. EINPUT: keys
 * contradict each other. If stages have different numbers of tensor ranks, p->graph is the unsplit
 * model until pst_prepare_split, which needs the cut, makes the graphs. */
pst_status pst_prepare_graph(pst_prepared *p);
pst_status pst_prepare_split(pst_prepared *p);
/* prepare/forms.c, with options.cache. config: sets the sizes of the largest form in
 * p->model_config; EINPUT: the model has no cache. build: sets p->form; p->whole must be set.
 * scratch: bytes of scratch that the kernel of an operator of `graph`, one of p->graphs, needs in
 * any form. */
pst_status pst_prepare_forms_config(pst_prepared *p);
pst_status pst_prepare_forms(pst_prepared *p);
uint64_t pst_prepare_forms_scratch(const pst_prepared *p, const pst_graph *graph,
                                   const pst_node *node, const pst_kernel_row *row,
                                   uint32_t threads);
void pst_prepare_forms_close(pst_prepared *p);
/* labels.c. 1: the model is to give labels. */
int pst_prepare_classifies(const pst_config *config);
/* EINPUT: it is to give labels, but data.kind has none, or the other way round. */
pst_status pst_prepare_check_labels(const pst_config *config);
/* *n: the number of labels: of the run file, of model.weights, or of the data; 0: the model gives
 * none. set: enters their names, or their number, as model.labels. EINPUT: they are wrong, or not
 * known. */
pst_status pst_prepare_count_labels(const pst_config *config, uint32_t *n);
pst_status pst_prepare_set_labels(pst_config *config);
/* Sizes of the model: each from the run file, else from the preset, else from the data set. */
pst_status pst_prepare_model(const pst_config *config, const pst_model_row **row,
                             pst_model_config *model_config);
/* Sets the keys of sizes that model.weights gives, so that the configuration describes the model
 * without those files; nothing if they are gone. ENOMEM. */
pst_status pst_prepare_keep_sizes(pst_config *config);
#endif
