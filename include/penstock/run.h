/* Training, generation, and commands without training. The caller keeps ownership of strings and
 * structures, which are not used after the call; `out` is written to but not closed. Set a
 * structure's `size`; a 0 elsewhere means "not given". Unless a function says more: EINPUT for
 * errors of the caller or in a file, ENOMEM if memory runs out or a file cannot be written;
 * pst_error() has the reason. Any thread, but a process trains or generates only once at a time. */
#ifndef PENSTOCK_RUN_H
#define PENSTOCK_RUN_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t size;        /* sizeof(pst_train_options) */
    int64_t ranks;      /* -n: 0: not given */
    const char *runs;   /* folder of runs, "runs" by default */
    const char *resume; /* checkpoint folder, run folder, or "" */
    int canary;         /* check at the end that nothing was written past the end of any arena */
    int quiet;
    char *const *argv; /* the program's own arguments, to start ranks with; NULL: start none */
    /* start ranks over ssh on the hosts in this file; NULL or "": on this host */
    const char *hostfile;
    int *stopped; /* set to the signal after which the run was saved and ended before its last step
                     (SIGINT, SIGTERM, SIGHUP), else to 0; may be NULL */
} pst_train_options;

/* Trains as configured. Collective over the ranks of a job; without a job it starts local ranks if
 * the layout has several (parallel.transport self: runs all in this process). Blocks until done.
 *
 * Signals during training: SIGINT, SIGTERM or SIGHUP to any rank finishes the step (an evaluation
 * is stopped), writes a checkpoint and returns OK on all ranks, with *stopped set. A second SIGINT
 * or SIGTERM ends the process at once with 128 + its number, like SIGQUIT, and saves nothing.
 * SIGUSR1 writes a checkpoint of the present step, and training continues. Signals that the caller
 * ignores stay ignored (SIGHUP under nohup). The caller's handlers are restored at the end. A
 * process that starts ranks passes these signals on until they have ended; if it has ended them at
 * once, it ends by the same signal. Signal handlers that UCX installs when it is loaded are removed
 * when this library is loaded. A handler of the caller's own that may interrupt training must be
 * installed with SA_ONSTACK (src/run/stop.c has the reason).
 *
 * EINPUT: contradictions, unusable files, another process in the run's folder, training that
 * diverged; EPEER: a rank or link failed; ENOMEM: memory or disk, also if the final weights
 * could not be saved; EINTERNAL. The run's folder stays in every case. Main thread only, one run
 * at a time. */
PST_API pst_status pst_train(const pst_config *config, const pst_train_options *options);

#define PST_GENERATE_MAX 1000000000
typedef struct {
    size_t size; /* sizeof(pst_generate_options) */
    /* run folder, checkpoint folder, or Hugging Face safetensors with config.json beside */
    const char *source;
    const char *prompt; /* NULL or "": a newline */
    int64_t tokens;     /* number to add, 0 to PST_GENERATE_MAX; 0: only writes the prompt */
    int64_t top_k;      /* sample from this many most likely tokens; 0: from all */
    int64_t seed;       /* seed of the sampling, any value; the same seed gives the same text */
    double temperature; /* 0: always the most likely token; 1: the model's own distribution; more:
                           flatter */
} pst_generate_options;
/* Writes prompt and continuation to `out`; in a job of several ranks only rank 0 does, the
 * others return at once. EINPUT also for a number outside its range. Main thread. */
PST_API pst_status pst_generate(const pst_generate_options *options, FILE *out);

typedef struct {
    size_t size;          /* sizeof(pst_simulate_options) */
    const char *plan;     /* plan.yaml of a run; NULL: use schedule */
    const char *schedule; /* a name; "all": a table of all that support `chunks`; "solved": computed
                             for the given times, messages and memory, never longer than a named one
                             that fits */
    int64_t stages, micro_batches;
    int64_t chunks; /* per rank; 0: the schedule's own number, 2 if it supports any; "solved": 1 to
                       4 */
    double f_ms, b_ms, w_ms; /* durations of F, B and W of one stage and micro-batch; a rank's
                                chunks are equal parts of it */
    double transfer_ms;      /* per message; for a plan 0: as estimated */
    /* files to write, or ""; for schedule "custom" csv is read and gives the numbers of stages,
     * chunks and micro-batches */
    const char *trace, *svg, *csv;
    int json, execute; /* execute: also run the executor on a virtual clock and compare */
    /* NULL, or: also run in real time without computing, with one process per stage and messages
     * of message_bytes over this transport (self: one process); the median makespan of `rounds`
     * (0: 5) is printed beside the simulated one. */
    const char *transport;
    int64_t message_bytes, rounds;
    /* the program's own arguments, to start ranks with; NULL: they are running */
    char *const *argv;
    const double *times_ms; /* n_times is 1 or stages: F, B, W of all stages, or of each in turn;
                               replaces f_ms, b_ms, w_ms */
    int64_t n_times;        /* 0: not given */
    /* n_memory is 1 or stages: the most micro-batches of a stage that every rank, or each in
     * turn, may hold between the start of F and the end of W */
    const double *memory;
    int64_t n_memory;   /* 0: no limit */
    const char *report; /* with a plan only: HTML file to write the plan's report to; NULL or "":
                           none */
    /* n_what_if changes of the plan's cluster, such as "link.ib=200Gb/s", "device.3.speed=0.5"
     * (without a cluster: of equal devices on one node); the result is printed beside that
     * without changes. */
    const char *const *what_if;
    int64_t n_what_if;
} pst_simulate_options;
/* Simulates a schedule, or the plan of a run, without training; writes the result as text or
 * JSON, and the requested pictures (with a transport rank 0 does). EINTERNAL: the executor on
 * the virtual clock disagrees with the simulator. With a transport: main thread, and EPEER if a
 * rank is lost. */
PST_API pst_status pst_simulate_study(const pst_simulate_options *options, FILE *out);

typedef struct {
    size_t size;         /* sizeof(pst_plan_run_options) */
    const char *cluster; /* file, or short form such as "16x8 h100"; NULL or "": as in the run file,
                            else the processors of this machine */
    int64_t ranks;       /* use only the first devices, this many; 0: all */
    const char *profile; /* profile measured by penstock profile; NULL or "": estimate durations */
    const char *plan;    /* file to write the best layout to; NULL or "": none */
    const char *report;  /* file to write an HTML page about it to; NULL or "": none */
    int json;
    double time_limit; /* seconds until the search ends with the best so far; 0: no limit */
    int64_t top;       /* number of rows to print; 0: 12 */
    /* 1: the profile may be of another model, machine or precision, like parallel.profile_force */
    int force;
} pst_plan_run_options;
/* Searches for the layout with the shortest predicted step for a run on a cluster; what the
 * configuration sets stays fixed. Writes the layout, its predicted cost, its gap to the lower
 * bound, and why other layouts lose. EINPUT: contradictions; ENOMEM also if nothing fits in the
 * devices' memory: says what would fit. */
PST_API pst_status pst_plan_run(const pst_config *config, const pst_plan_run_options *options,
                                FILE *out);

typedef struct {
    size_t size;            /* sizeof(pst_plan_graph_options) */
    const char *graph;      /* JSON of dnn-partitioning or Piper, graph.txt of PipeDream */
    int64_t devices;        /* number of accelerators; 0: the file's */
    double memory;          /* memory of each accelerator in bytes; 0: as in the file */
    double bandwidth;       /* bytes per second of a device (PipeDream, Piper); 0: as in the file */
    const char *cost_model; /* "max-load", "pipedream" or "piper"; NULL or "": the format's own */
    int json;
    double time_limit;    /* seconds; 0: 60 */
    int64_t machines;     /* PipeDream: number of machines with `devices` each; 0: one */
    double between;       /* PipeDream: bytes per second between machines */
    int64_t straight;     /* PipeDream: no replicas */
    const char *cluster;  /* dnn-partitioning, PipeDream: a cluster file or its short form, instead
                             of devices and memory */
    const char *evaluate; /* a plan as JSON, to be evaluated instead of searching for one */
    double compression; /* PipeDream: count the transfer of activations, this many times smaller; 0:
                           no transfer time */
} pst_plan_graph_options;
/* Partitions another planner's graph into contiguous parts over devices and minimizes the
 * largest load under that planner's own cost model; writes objective, lower bound and parts
 * (with `evaluate`, the cost of that plan). EINPUT also if no plan is feasible: says what would
 * be. */
PST_API pst_status pst_plan_graph(const pst_plan_graph_options *options, FILE *out);

/* Shows a checkpoint (EINPUT if a tensor in it is damaged), plan.yaml, a safetensors file, a
 * Hugging Face folder, a graph written by pst_graph_print (EINPUT has the wrong line), or, for a
 * run file, its graph, plan and memory map. */
typedef struct {
    size_t size; /* sizeof(pst_inspect_options) */
    const char *path;
    /* of a run file: "graph", "tape", "plan", "schedule", "instructions", "memory"; "": plan; of
     * a graph: "graph", "tape"; "": its contents and costs */
    const char *what;
    int64_t ranks; /* of a run file; 0: not given */
} pst_inspect_options;
PST_API pst_status pst_inspect(const pst_inspect_options *options, FILE *out);
/* Writes a checkpoint or the newest one in a run folder as a Hugging Face safetensors folder,
 * which is made if it is missing. EINPUT if it has a model already, unless replace. */
PST_API pst_status pst_export_hf(const char *checkpoint, const char *folder, int replace);
typedef struct {
    size_t size; /* sizeof(pst_bench_options) */
    /* names: "kernels", "step", "p2p", "collectives"; n_suite 0: all */
    const char *const *suite;
    size_t n_suite;
    const char *run;        /* run file of the model to measure; NULL: a GPT with the sizes below */
    const char *preset;     /* "gpt2", ... */
    int64_t batch, context; /* samples per micro-batch, tokens per sample */
    int64_t threads;        /* 0: all processors that this process may use */
    const char *precision;  /* "fp32", "tf32", "bf16", "fp16", "fp8", "both" (fp32, and bf16 if the
                               device has it) */
    int json;
    const char *op;    /* kernels: only this operator; "": all */
    double seconds;    /* p2p, collectives: seconds for each size; 0: half a second */
    double compute_ms; /* p2p: > 0: the receiver computes in tiles of this length while it waits */
    int64_t bytes;     /* p2p, collectives: only this size; 0: from 8 B to 64 MiB */
    /* the program's own arguments, to start ranks with; NULL: start none */
    char *const *argv;
    int64_t ranks;          /* collectives: number of ranks; 0: two */
    const char *collective; /* collectives: only this kind, "all-reduce", ...; NULL or "": all */
    const char *device;     /* kernels, step: the device, as parallel.device; NULL: "cpu" */
} pst_bench_options;
/* Measures this machine. kernels: every distinct operator of the model beside FMA peak and
 * memory bandwidth of the same run; step: whole training steps on one rank; p2p: messages
 * between two ranks of this host; collectives: every algorithm of each kind beside the cost
 * model's time. In a job of several ranks the first suite named, or p2p, runs between these
 * ranks, and rank 0 prints. Main thread. Takes seconds to minutes; results on a busy machine are
 * useless. EINPUT also for an unknown suite, operator or precision. PENSTOCK_ISA=avx2 (or
 * generic, avx512 without bf16, avx512_bf16) measures as on a machine with that instruction set. */
PST_API pst_status pst_bench_run(const pst_bench_options *options, FILE *out);
typedef struct {
    size_t size;             /* sizeof(pst_profile_options) */
    const char *const *file; /* one: a run file; several: profiles to join; where they overlap, the
                                last one wins */
    size_t n_file;
    const char *const *override; /* "key=value", for keys of the run file */
    size_t n_override;
    const char *output; /* the profile to write; if it exists, only what is measured now is replaced
                         */
    int64_t ranks;      /* number of ranks of the run; 0: as in the run file */
    /* "1,2,4": values to measure; NULL: the run's own */
    const char *micro_batches, *tensor;
    double seconds; /* time for each of these values, on one rank alone and again on all; 0: 1 s */
    int force;      /* join profiles of different machines as if they were of the last one's */
    char *const *argv; /* the program's own arguments, to start ranks with */
} pst_profile_options;
/* Measures how long the operators of a run, its messages and its optimizer take on this machine,
 * or joins profiles, and writes the profile for parallel.profile. Main thread. EINPUT also for
 * profiles that cannot be joined. */
PST_API pst_status pst_profile_run(const pst_profile_options *options, FILE *out);
typedef struct {
    size_t size;                 /* sizeof(pst_verify_options) */
    const char *file;            /* the run file */
    const char *const *override; /* "key=value", for keys of the run file */
    size_t n_override;
    int64_t ranks; /* of the run as configured; 0: as in the run file */
    int json;
    uint64_t seed;    /* of what is chosen at random: which rank is killed, and when */
    const char *keep; /* folder in which the runs are made and stay; NULL or "": a temporary one */
} pst_verify_options;
/* Runs the configuration of a run file, made small, on one rank and as configured, also
 * interrupted, and with the reference kernels, and compares what all operators have computed:
 * equal bits where layouts promise them, else within a tolerance. Writes one line per check, as it
 * is done, or JSON. The runs are processes of this program; so this is for a program whose name is
 * penstock. EINTERNAL: a check has failed. EINPUT also if the run does not work on one rank. Main
 * thread. */
PST_API pst_status pst_verify(const pst_verify_options *options, FILE *out);
/* Writes the report of a run, which may be running or have been killed, as one self-contained
 * HTML file: `file`, or run/report.html if that is NULL or "". run: its folder. Other files of
 * the folder that are missing or damaged are left out. EINPUT if it has no metrics.jsonl;
 * ENOMEM: memory, or the file cannot be written. */
PST_API pst_status pst_report_write(const char *run, const char *file);
/* What this machine has and what is missing for which purpose, as text or JSON. */
PST_API pst_status pst_doctor(int json, FILE *out);
/* This machine as a cluster file: one node with a device for every core that this process may
 * use. ENOMEM: cannot write. */
PST_API pst_status pst_doctor_cluster(FILE *out);
/* The same into a file, which is replaced only when everything is written. EINPUT: the path
 * cannot be a file. */
PST_API pst_status pst_doctor_cluster_write(const char *path);
/* Built-in names: `kind` is "model", "preset" (of all models), "data", "optimizer", "schedule"
 * (for training), "device", "transport", "world" or "suite" (of bench); i counts from 0; NULL
 * after the last. Static. Any thread. */
PST_API const char *pst_builtin_name(const char *kind, size_t i);
/* "MAJOR.MINOR.PATCH", static. */
PST_API const char *pst_version(void);
#ifdef __cplusplus
}
#endif
#endif
