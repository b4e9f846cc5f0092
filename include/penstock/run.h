/* Training, generation, and the studies that need no training. Texts and structures passed in stay
 * the caller's and are not kept; `out` is the caller's, written to and not closed. A structure's
 * `size` has to be set; what else is left 0 means "not given". Unless a function says more: EINPUT
 * for what the caller or a file has wrong, ENOMEM when memory is short or a file cannot be written;
 * pst_error() tells. Any thread, but training and generation one at a time in a process. */
#ifndef PENSTOCK_RUN_H
#define PENSTOCK_RUN_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t size;        /* sizeof(pst_train_options) */
    int64_t ranks;      /* -n: 0 when not given */
    const char *runs;   /* folder of runs, "runs" by default */
    const char *resume; /* checkpoint folder, run folder, or "" */
    int canary;         /* check at the end that nothing was written behind any arena */
    int quiet;
    char *const *argv; /* the program's own arguments, to start ranks with; NULL: never start any */
    /* start them on the hosts of this file, over ssh; NULL or "": on this host */
    const char *hostfile;
    int *stopped; /* set to the signal after which the run was saved and left before its last step
                     (SIGINT, SIGTERM, SIGHUP), to 0 when it was not; NULL: not asked */
} pst_train_options;

/* Trains as configured; collective over the ranks of the job when one is there, else starts local
 * ranks when the layout asks for several (parallel.transport self: runs them all in this process).
 * Blocks until done. Both arguments stay the caller's. Signals, while it trains: SIGINT, SIGTERM or
 * SIGHUP to any rank finishes the step (a validation is left where it is), writes a checkpoint and
 * returns OK on all, with *stopped set; a second SIGINT or SIGTERM ends the process at once with
 * 128 + its number, as SIGQUIT does, and saves nothing. SIGUSR1 writes a checkpoint of the step
 * under way, and training goes on. Signals that the caller ignores stay ignored (SIGHUP under
 * nohup). Before and after, the caller's handlers are in place, which are put back; a process that
 * starts ranks passes these signals on until they have left, and ends by the signal where it has
 * ended them at once. Handlers that UCX installs when it is loaded are taken away when this library
 * is. EINPUT: contradictions, unusable files, another process in the run's folder, training that
 * diverged; EPEER: a rank or link failed; ENOMEM: memory or disk, the final weights not saved among
 * it; EINTERNAL. The folder of the run stays in every case. Main thread only, one at a time. A
 * handler of the caller's own that may interrupt a training must be installed with SA_ONSTACK
 * (src/run/stop.c says why). */
PST_API pst_status pst_train(const pst_config *config, const pst_train_options *options);

#define PST_GENERATE_MAX 1000000000
typedef struct {
    size_t size; /* sizeof(pst_generate_options) */
    /* run folder, checkpoint folder, or Hugging Face safetensors with config.json beside */
    const char *source;
    const char *prompt; /* NULL or "": a new line */
    int64_t tokens;     /* to add, 0 to PST_GENERATE_MAX; 0: the prompt alone is written */
    int64_t top_k;      /* choose among so many of the most likely; 0: among all */
    int64_t seed;       /* of the random choice, any: the same seed gives the same text */
    double temperature; /* 0: always the most likely token; 1: as the model says; more: flatter */
} pst_generate_options;
/* Writes prompt and continuation to `out`; in a job of several ranks, rank 0 alone does, the others
 * return at once. EINPUT also for a number outside its range. Main thread. */
PST_API pst_status pst_generate(const pst_generate_options *options, FILE *out);

typedef struct {
    size_t size;          /* sizeof(pst_simulate_options) */
    const char *plan;     /* plan.yaml of a run, or NULL and: */
    const char *schedule; /* a name; "all": a table of all that take the chunks asked for; "solved":
                             made for the times, the messages and the memory given, never longer
                             than a named one that fits */
    int64_t stages, micro_batches;
    int64_t chunks; /* per stage's rank; 0: as the schedule has them, 2 where it takes any number;
                       "solved": 1 to 4 */
    double f_ms, b_ms, w_ms; /* of a stage; a rank's chunks are equal parts of it */
    double transfer_ms;      /* of a message; of a plan's, 0: as modelled */
    /* files to write, or ""; csv of schedule "custom": what it is read from, which says the numbers
     * of stages, chunks and micro-batches */
    const char *trace, *svg, *csv;
    int json, execute; /* execute: also run the executor on the virtual clock and compare */
    /* NULL, or: also run it in real time, a process for each stage and messages of message_bytes
       over this transport (self: one process), computing nothing; the median makespan of `rounds`
       (0: 5) stands beside the simulated. */
    const char *transport;
    int64_t message_bytes, rounds;
    /* the program's own arguments, to start the ranks with; NULL: they are there */
    char *const *argv;
    const double *times_ms; /* n_times 1 or stages: F, B, W of all stages, or of each in turn,
                               instead of f_ms, b_ms, w_ms */
    int64_t n_times;        /* 0: not given */
    /* n_memory 1 or stages: most micro-batches of a stage that every rank, or each in turn, may
     * hold from the start of their F to the end of their W */
    const double *memory;
    int64_t n_memory;   /* 0: no limit */
    const char *report; /* a file, of a plan only: its report, one HTML file; NULL or "": none */
    /* n_what_if changes of the cluster that a plan is for, such as "link.ib=200Gb/s",
       "device.3.speed=0.5"; without a cluster, of as many equal devices on one node: what is found
       then stands beside what is found without them. */
    const char *const *what_if;
    int64_t n_what_if;
} pst_simulate_options;
/* Times a schedule, or the plan of a run, without training; writes what it finds as text or JSON,
 * and the pictures asked for (with a transport: rank 0 does). EINTERNAL: the executor on the
 * virtual clock disagrees with the simulator. With a transport: main thread, and EPEER when a rank
 * is lost. */
PST_API pst_status pst_simulate_study(const pst_simulate_options *options, FILE *out);

typedef struct {
    size_t size;         /* sizeof(pst_plan_run_options) */
    const char *cluster; /* file, or short form such as "16x8 h100"; NULL or "": as the run file
                            says, else processors of this machine */
    int64_t ranks;       /* devices to use, the first ones; 0: all */
    const char *profile; /* durations measured by penstock profile; NULL or "": as modelled */
    const char *plan;    /* file to write the best layout to; NULL or "": none */
    const char *report;  /* file to write an HTML page about it to; NULL or "": none */
    int json;
    double time_limit; /* seconds, then the best so far; 0: none */
    int64_t top;       /* rows of the table that are shown; 0: 12 */
    /* 1: the profile may be of another model, machine or precision, as parallel.profile_force */
    int force;
} pst_plan_run_options;
/* Finds the layout with the shortest predicted step for a run on a cluster: what the configuration
 * gives is fixed, everything else searched. Writes what it is, what it is predicted to cost, how
 * far a shorter step can be ruled out, and why others lose. EINPUT: contradictions; ENOMEM also
 * when nothing fits in the devices' memory: says what would. */
PST_API pst_status pst_plan_run(const pst_config *config, const pst_plan_run_options *options,
                                FILE *out);

typedef struct {
    size_t size;       /* sizeof(pst_plan_graph_options) */
    const char *graph; /* JSON of dnn-partitioning or Piper, graph.txt of PipeDream */
    int64_t devices;   /* accelerators; 0: as many as the file says */
    double memory;     /* bytes of each; 0: as the file says */
    double bandwidth;  /* bytes per second of a device (PipeDream, Piper); 0: as the file says */
    const char *cost_model; /* "max-load", "pipedream" or "piper"; NULL or "": the format's own */
    int json;
    double time_limit;    /* seconds; 0: 60 */
    int64_t machines;     /* PipeDream: so many with `devices` each; 0: one */
    double between;       /* PipeDream: bytes per second of a machine */
    int64_t straight;     /* PipeDream: no replicas */
    const char *cluster;  /* dnn-partitioning, PipeDream: instead of devices and memory, a cluster
                             file or its short  form */
    const char *evaluate; /* a plan as JSON, to be judged instead of finding one */
    double compression;   /* PipeDream: activations travel, so many times smaller; 0: in no time */
} pst_plan_graph_options;
/* Splits another planner's workload into contiguous parts over devices, so that the largest load
 * under that planner's own cost model is smallest; writes objective, lower bound and parts (with
 * `evaluate`, what that plan costs). EINPUT also when there is no plan: what would do. */
PST_API pst_status pst_plan_graph(const pst_plan_graph_options *options, FILE *out);

/* Shows a checkpoint (EINPUT when a tensor in it is damaged), plan.yaml, safetensors file, Hugging
 * Face folder, a graph as pst_graph_print writes it (EINPUT has the line that is wrong), or
 * (run.yaml) the graph, plan and memory map. */
typedef struct {
    size_t size; /* sizeof(pst_inspect_options) */
    const char *path;
    /* of a run file: "graph", "tape", "plan", "schedule", "instructions", "memory"; "" plan; of a
     * graph: "graph", "tape"; "" what it holds and costs */
    const char *what;
    int64_t ranks; /* of a run file; 0: not given */
} pst_inspect_options;
PST_API pst_status pst_inspect(const pst_inspect_options *options, FILE *out);
/* Checkpoint or run folder -> Hugging Face safetensors folder, made where it is missing. EINPUT
 * when a model is there already, unless replace. */
PST_API pst_status pst_export_hf(const char *checkpoint, const char *folder, int replace);
typedef struct {
    size_t size; /* sizeof(pst_bench_options) */
    /* names: "kernels", "step", "p2p", "collectives"; n_suite 0: all there are */
    const char *const *suite;
    size_t n_suite;
    const char *run;        /* run file whose model is measured; NULL: a GPT of the sizes below */
    const char *preset;     /* "gpt2", ... */
    int64_t batch, context; /* samples of a micro-batch, tokens of a sample */
    int64_t threads;        /* 0: all processors that this process may use */
    const char *precision;  /* "fp32", "tf32", "bf16", "fp16", "fp8", "both" (fp32, and bf16 where
                               the CPU has it) */
    int json;
    const char *op;    /* kernels: only this operator; "": all */
    double seconds;    /* p2p, collectives: for each size; 0: half a second */
    double compute_ms; /* p2p: > 0: the receiver computes in tiles of this length */
    int64_t bytes;     /* p2p, collectives: only this size; 0: from 8 B to 64 MiB */
    /* the program's own arguments, which start ranks of it; NULL: never start any */
    char *const *argv;
    int64_t ranks;          /* collectives: how many; 0: two */
    const char *collective; /* collectives: only this kind, "all-reduce", ...; NULL or "": all */
    const char *device;     /* kernels, step: where, as parallel.device; NULL: "cpu" */
} pst_bench_options;
/* Measures this machine: kernels, every distinct operator of the model beside FMA peak and memory
 * bandwidth of the same run; step, whole steps of training it on one rank; p2p, messages between
 * two ranks of this host; collectives, every algorithm of each kind beside what the cost model
 * says. In a job of several ranks the suite named first, or p2p, runs between those, and rank 0
 * prints. Main thread. Takes from seconds to minutes and tells nothing sensible on a busy machine.
 * EINPUT also for a suite, operator or precision that is not there. PENSTOCK_ISA=avx2 (or generic,
 * avx512 without bf16, avx512_bf16) measures what another machine would run. */
PST_API pst_status pst_bench_run(const pst_bench_options *options, FILE *out);
typedef struct {
    size_t size;             /* sizeof(pst_profile_options) */
    const char *const *file; /* one: a run file; several: profiles, which are joined, the last first
                                in what they share */
    size_t n_file;
    const char *const *override; /* of the run file's keys */
    size_t n_override;
    const char *output; /* the profile; what is there already stays, but for what is measured now */
    int64_t ranks;      /* of the run; 0: as it says */
    /* "1,2,4": what else is measured; NULL: what the run says */
    const char *micro_batches, *tensor;
    double seconds;    /* for each of these, alone and while all processors compute; 0: 1 */
    int force;         /* joins what is of different machines, too, as if it were of the last one */
    char *const *argv; /* the program's own arguments, which start ranks of it */
} pst_profile_options;
/* Measures how long the operators of a run, its messages and its optimizer take on this machine, or
 * joins what was measured, and writes the profile that parallel.profile reads. Main thread. EINPUT
 * also for profiles that do not go together. */
PST_API pst_status pst_profile_run(const pst_profile_options *options, FILE *out);
/* Writes the report of a run, which may still be going on or have been killed, as one HTML file
 * that needs nothing else: file, or run/report.html when that is NULL or "". run: its folder. Other
 * files of the folder that are missing or damaged are left out. EINPUT when it has no
 * metrics.jsonl; ENOMEM: memory, or file cannot be written. */
PST_API pst_status pst_report_write(const char *run, const char *file);
/* What this machine has and what is missing for what, as text or JSON. */
PST_API pst_status pst_doctor(int json, FILE *out);
/* This machine as a cluster file: one node, a device for every core that this process may use.
 * ENOMEM: cannot write. */
PST_API pst_status pst_doctor_cluster(FILE *out);
/* The same into a file, which is replaced only when all is written. EINPUT: there can be none at
 * that path. */
PST_API pst_status pst_doctor_cluster_write(const char *path);
/* Names of what is built in: `kind` is "model", "preset" (of all models), "data", "optimizer",
 * "schedule" (that train), "device", "transport", "world" or "suite" (of bench); i counts from 0;
 * NULL after the last. Static. Any thread. */
PST_API const char *pst_builtin_name(const char *kind, size_t i);
/* "MAJOR.MINOR.PATCH", static. */
PST_API const char *pst_version(void);
#ifdef __cplusplus
}
#endif
#endif
