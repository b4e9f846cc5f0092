/* The commands of the program as functions: training, generation, planning, benchmarks and others.
 * The caller owns all strings and structures; they are not used after the call. `out` is written to
 * and stays open. Set `size` in every structure; 0 or NULL in another member means "not given".
 * Errors, unless a function says more: EINPUT for wrong arguments or files, ENOMEM if memory runs
 * out or a file cannot be written; pst_error() gives the reason. Functions may be called from any
 * thread, but a process runs only one training or generation at a time. */
#ifndef PENSTOCK_RUN_H
#define PENSTOCK_RUN_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t size;        /* sizeof(pst_train_options) */
    int64_t ranks;      /* number of ranks (-n); 0: not given */
    const char *runs;   /* folder of all runs; NULL: "runs" */
    const char *resume; /* checkpoint or run folder to continue from; "" or NULL: start anew */
    /* 1: check at the end of the run that nothing was written past the end of any arena */
    int canary;
    int quiet;         /* 1: print only errors */
    char *const *argv; /* the program's argument vector, with which ranks are started; NULL: start
                          no ranks */
    /* file with the hosts on which ranks are started over ssh; NULL or "": this host only */
    const char *hostfile;
    /* set to the signal (SIGINT, SIGTERM, SIGHUP) that ended the run after a checkpoint, before the
     * last step; else to 0. May be NULL */
    int *stopped;
    /* 1: the ranks that this process starts, here or on the hosts of `hostfile`, go on when one of
     * them dies (elastic.min 1 unless the configuration has more) */
    int elastic;
    /* with parallel.update async or bounded: file with the order of updates (order.txt of a run)
     * that this run repeats; NULL or "": none */
    const char *replay;
} pst_train_options;

/* Trains as configured, and returns when the training has ended. Collective over the ranks of a
 * job. Outside a job the function starts local ranks if the layout has several (with
 * parallel.transport self all ranks run in this process).
 *
 * Signals during training: after SIGINT, SIGTERM or SIGHUP to any rank, all ranks finish the step
 * (an evaluation is stopped), write a checkpoint and return OK with *stopped set. A second SIGINT
 * or SIGTERM, or SIGQUIT, ends the process at once without saving; the exit status is 128 + the
 * signal number. SIGUSR1 writes a checkpoint of the current step, and training continues. Signals
 * that the caller ignores stay ignored (SIGHUP under nohup). The caller's handlers are restored at
 * the end. A process that starts ranks forwards these signals to the ranks; if a signal has ended
 * the ranks at once, the process ends by the same signal. When this library is loaded, it removes
 * the signal handlers that UCX installs. A handler of the caller that may interrupt training must
 * be installed with SA_ONSTACK (src/run/stop.c gives the reason).
 *
 * EINPUT: contradictions, unusable files, another process uses the folder of the run, or training
 * diverged; EPEER: a rank or link failed; ENOMEM: memory or disk space ran out, also if the final
 * weights could not be saved; EINTERNAL: a bug. The folder of the run is kept in every case. Main
 * thread only. */
PST_API pst_status pst_train(const pst_config *config, const pst_train_options *options);

#define PST_GENERATE_MAX 1000000000
#define PST_GENERATE_PROMPTS 1024
typedef struct {
    size_t size; /* sizeof(pst_generate_options) */
    /* run folder, checkpoint folder, or Hugging Face folder or .safetensors file with config.json
     * in the same folder */
    const char *source;
    const char *prompt; /* text to continue; NULL or "": a newline */
    /* number of tokens to generate at most, 0 to PST_GENERATE_MAX; 0: only the prompt is written */
    int64_t tokens;
    int64_t top_k; /* sample from the top_k most likely tokens; 0: from all tokens */
    int64_t seed;  /* seed of the random numbers, any value; the same seed gives the same text */
    /* divides the logits; 0: always take the most likely token; 1: the distribution of the model;
     * above 1: closer to uniform */
    double temperature;
    /* [n_prompts] several prompts, continued together; 0: `prompt` is the only one. Each text
     * begins with a line [1], [2], ... */
    const char *const *prompts;
    int64_t n_prompts;
    const char *const *stop; /* [n_stop] strings that end a text, without being a part of it */
    int64_t n_stop;
    /* Sample from the fewest most likely tokens whose probabilities add up to top_p; 0 or 1: all.
     * Then from those with at least min_p times the largest probability; 0: all. */
    double top_p, min_p;
    /* divides the positive logits of tokens that occur, multiplies the negative ones; 0 or 1: not
     */
    double repetition_penalty;
    /* Not NULL or "": each prompt is a message of the user, and its answer is written: chatml,
     * llama3, qwen, or "run": data.template of a run with data.kind chat */
    const char *chat;
    const char *system; /* with `chat`: the system message; NULL: that of the template, if any */
    int64_t json; /* 1: write one JSON object per prompt instead, when all texts are complete */
    /* Tokens of a text that the model reads, those of the prompt included; 0: its own context. Only
     * models with rotary positions can read more than that; a warning then names the number for
     * which they were trained. Memory is taken for as many as the texts can have. */
    int64_t context;
    int64_t ignore_end; /* 1: go on after the tokens that end a text or, with `chat`, a message */
    /* 0 or 1: this process computes alone. Else so many ranks: parallel.tensor of the run, or 1,
     * tensor ranks in each stage of a pipeline. They are started as processes of this host, are the
     * processes of the job that a launcher has started, or, without argv, are all in this
     * process. */
    int64_t ranks;
    char *const *argv; /* the program's argument vector, with which ranks are started; NULL: none */
    /* Of a run with adapters or frozen parameters: where the weights of its model.weights are now;
     * EINPUT if they are others. NULL or "": where they were. */
    const char *base;
} pst_generate_options;
/* Writes prompt and generated text to `out`, each token as soon as it is known if there is one
 * prompt; with `chat` the answer alone. The text ends after `tokens` tokens, at a stop string, at a
 * token that ends a text (eos_token_id of a Hugging Face folder, else that of the tokenizer), and
 * with `chat` at the token that ends a message. Sampling depends on the seed, the number of the
 * prompt and of the token alone. Positions behind the context are computed from the newest half of
 * it on. In a job of several ranks, without `ranks`, only rank 0 generates, and the other ranks
 * return at once; rank 0 alone writes. EINPUT also for a number outside the allowed range, and for
 * a prompt longer than the context. Main thread only. */
PST_API pst_status pst_generate(const pst_generate_options *options, FILE *out);

#define PST_EVAL_CONTEXT 2048
typedef struct {
    size_t size;        /* sizeof(pst_eval_options) */
    const char *source; /* as in pst_generate_options */
    /* [n_..] files, each with a name of its own for the results before it: "NAME=FILE", or "FILE",
     * whose name is that of the file. text: as data.paths of the run; words: each line ends with
     * the word that is to be predicted; a line of JSON Lines has the text in the field "text".
     * choices: JSON Lines with "ctx", "endings" and "label", the number of the right ending from 0
     * on. All 0: the validation split of the run, and its eval.sets. */
    const char *const *text, *const *words, *const *choices;
    int64_t n_text, n_words, n_choices;
    int64_t limit; /* lines of each file, or samples of a text, that are used at most; 0: all */
    int64_t json;  /* 1: write one JSON object per set instead of a table */
    /* Tokens of a sample, as `context` of pst_generate_options. 0: the model's own context; for
     * texts, of a Hugging Face folder at most PST_EVAL_CONTEXT */
    int64_t context;
    const char *base; /* as in pst_generate_options */
    /* of a model that gives labels: the columns of CSV, or fields of JSON Lines, with a text and
     * with its label; NULL: data.field and data.label of the run */
    const char *field, *label;
} pst_eval_options;
/* Writes for each set: of texts loss, perplexity per token and per byte; of texts with labels,
 * words and choices the accuracy and the loss or likelihoods that it follows from
 * (docs/metrics.md). Computes in fp32. EINPUT: a file has no such lines (the message names file and
 * line), or the model cannot be evaluated on them. Main thread only. */
PST_API pst_status pst_eval(const pst_eval_options *options, FILE *out);

typedef struct {
    size_t size;      /* sizeof(pst_simulate_options) */
    const char *plan; /* a plan file, such as plan.yaml of a run; NULL: simulate `schedule` */
    /* name of a schedule; "all": a table of all schedules that support `chunks`; "solved":
     * optimized for the given times, messages and memory, and never longer than a named schedule
     * that fits */
    const char *schedule;
    int64_t stages, micro_batches;
    /* chunks per rank; 0: the number that the schedule needs, or 2 if it allows any number; with
     * "solved": all numbers from 1 to 4 are tried */
    int64_t chunks;
    /* durations of F, B and W of one micro-batch on one stage, ms; each chunk of the stage takes an
     * equal part */
    double f_ms, b_ms, w_ms;
    double transfer_ms; /* duration of a message, ms; with a plan, 0: as estimated */
    /* files to write (Chrome trace JSON, SVG, PyTorch CSV); NULL or "": none. For schedule
     * "custom", csv is read instead and gives the numbers of stages, chunks and micro-batches */
    const char *trace, *svg, *csv;
    /* json: write JSON instead of text; execute: also run the executor on a virtual clock and
     * compare the results */
    int json, execute;
    /* Not NULL: also execute the schedule in real time without computing, with one process per
     * stage ("self": one process) and messages of message_bytes bytes over this transport, `rounds`
     * times (0: 5); the median makespan is printed with the simulated one. */
    const char *transport;
    int64_t message_bytes, rounds;
    /* the program's argument vector, with which ranks are started; NULL: the ranks are already
     * running */
    char *const *argv;
    const double *times_ms; /* replaces f_ms, b_ms, w_ms: n_times triples F, B, W in ms; n_times is
                               1 (for all stages) or the number of stages */
    int64_t n_times;        /* 0: not given */
    /* memory limits of the ranks, as numbers of micro-batches of a whole stage between the start of
     * F and the end of W; n_memory is 1 (for all ranks) or the number of stages */
    const double *memory;
    int64_t n_memory; /* 0: no limit */
    /* HTML file to which the report of the plan is written; only with `plan`; NULL or "": none */
    const char *report;
    /* Changes of the cluster of the plan, such as "link.ib=200Gb/s", "device.3.speed=0.5"; a plan
     * without a cluster has equal devices on one node. The results with and without the changes are
     * printed. */
    const char *const *what_if;
    int64_t n_what_if;
    /* predict the steps of this program, as in pst_plan_run_options; only with `plan`; NULL or "":
     * penstock */
    const char *program;
} pst_simulate_options;
/* Simulates a schedule or the plan of a run without training. Writes the result to `out` as text or
 * JSON, and the requested files; in a job only rank 0 writes. EINTERNAL if the executor on the
 * virtual clock and the simulator disagree. With a transport: main thread only, and EPEER if a rank
 * fails. */
PST_API pst_status pst_simulate_study(const pst_simulate_options *options, FILE *out);

typedef struct {
    size_t size; /* sizeof(pst_plan_run_options) */
    /* cluster file, or short form such as "16x8 h100"; NULL or "": the cluster of the run file,
     * else the processors of this machine */
    const char *cluster;
    int64_t ranks; /* use only the first `ranks` devices; 0: all devices */
    /* profile file written by penstock profile; NULL or "": durations are estimated */
    const char *profile;
    const char *plan;   /* file to which the best layout is written; NULL or "": none */
    const char *report; /* HTML file to which the result is written; NULL or "": none */
    int json;
    /* seconds after which the search returns the best layout so far; 0: no limit */
    double time_limit;
    int64_t top; /* number of rows of the table of layouts; 0: 12 */
    /* 1: use the profile even if it is for another model, machine or precision
     * (parallel.profile_force) */
    int force;
    /* share of each device's memory that is kept free, "5%" or "0.05"; NULL or "": 5% on GPUs,
     * nothing on CPUs or of memory that the cluster gives */
    const char *margin;
    /* A training of so many tokens, such as "300B" or "2e12": its duration, cost, energy and
     * failures; NULL or "": not asked for. The members below need it. */
    const char *tokens;
    double days; /* latest end, in days; the smallest number of devices that ends in time is
                    chosen; 0: none */
    /* ascending numbers of devices to compare, such as "64,128,256", of nodes like those of
     * `cluster`; NULL or "": those of `cluster`, or with `days` as many as are needed */
    const char *gpus;
    /* price of one hour of a device of each kind, such as "h100=2.5,a100-80=1"; NULL or "": none */
    const char *price;
    double mtbf;    /* mean time between failures of one device, in hours; 0: 50,676 */
    double storage; /* bytes per second that one node writes; 0: 1e9 */
    /* "megatron", "torchtitan" or "deepspeed": write the best layout as flags or configuration of
     * that program instead of the text; what has no counterpart there is logged. NULL or "": not */
    const char *export_;
    /* file with flags of Megatron-LM or torchtitan, TOML of torchtitan or JSON of DeepSpeed, whose
     * layout is predicted: it replaces keys of the configuration, which are listed; what has no
     * counterpart is logged. NULL or "": none */
    const char *import_;
    /* Predict the steps of this program: a name, and changed values of its profile after it, such
     * as "fsdp attention=flash2" (docs/planning.md); NULL or "": penstock or, with import_, the one
     * that fits. Keys of the run file that contradict it are overridden and listed. */
    const char *program;
    /* folder of a run: durations of computation are multiplied by its measured step divided by the
     * step that is predicted for it with the same costs; NULL or "": none */
    const char *calibrate;
} pst_plan_run_options;
/* Searches for the layout with the shortest predicted step of a run on a cluster, or on several
 * numbers of its devices; values that the configuration sets stay fixed. Writes the layout, the
 * predicted time and memory, the gap to the lower bound, and why other layouts are slower. EINPUT
 * also for contradictions; ENOMEM also if no layout fits in device memory: pst_error() says what
 * would fit. */
PST_API pst_status pst_plan_run(const pst_config *config, const pst_plan_run_options *options,
                                FILE *out);

typedef struct {
    size_t size;            /* sizeof(pst_plan_graph_options) */
    const char *graph;      /* file: JSON of dnn-partitioning or Piper, or graph.txt of PipeDream */
    int64_t devices;        /* number of accelerators; 0: as in the file */
    double memory;          /* memory of each accelerator in bytes; 0: as in the file */
    double bandwidth;       /* bytes per second of a device (PipeDream, Piper); 0: as in the file */
    const char *cost_model; /* "max-load", "pipedream" or "piper"; NULL or "": the format's own */
    int json;
    double time_limit; /* seconds; 0: 60 */
    int64_t machines;  /* PipeDream: number of machines with `devices` each; 0: one */
    double between;    /* PipeDream: bytes per second between machines */
    int64_t straight;  /* PipeDream: 1: no replicas */
    /* dnn-partitioning, PipeDream: cluster file or short form, instead of devices and memory */
    const char *cluster;
    const char *evaluate; /* JSON file of a plan that is evaluated; no search then */
    /* PipeDream: activations are sent compressed by this factor, and transfers take time; 0:
     * transfers take no time */
    double compression;
} pst_plan_graph_options;
/* Partitions the graph of another planner into contiguous parts on devices so that the largest load
 * under that planner's cost model is smallest. Writes the objective, the lower bound and the parts;
 * with `evaluate`, the cost of the given plan. EINPUT or ENOMEM if no plan is feasible: pst_error()
 * says which memory or time would be enough. */
PST_API pst_status pst_plan_graph(const pst_plan_graph_options *options, FILE *out);

/* Options of pst_inspect. */
typedef struct {
    size_t size;      /* sizeof(pst_inspect_options) */
    const char *path; /* file or folder to show */
    /* what to show of a run file: "graph", "tape", "plan" (or ""), "schedule", "instructions",
     * "memory"; of a graph file: "graph", "tape", or "" for contents and costs */
    const char *what;
    int64_t ranks; /* for a run file: number of ranks; 0: not given */
} pst_inspect_options;
/* Writes the contents of a file or folder to `out`: a checkpoint (EINPUT if a tensor is damaged), a
 * plan file, a safetensors file, a Hugging Face folder, a checkpoint of llm.c (.bin), a graph file
 * as written by pst_graph_print (EINPUT: pst_error() names the wrong line), or the graph, plan or
 * memory map of a run file. */
PST_API pst_status pst_inspect(const pst_inspect_options *options, FILE *out);
typedef struct {
    size_t size;            /* sizeof(pst_convert_options) */
    const char *checkpoint; /* or a run folder, of which the newest checkpoint is converted */
    /* A name that ends in .gguf: a file for llama.cpp (gpt, llama); in .bin: a checkpoint of llm.c
     * (gpt). Else, or if there is a folder of this name: a Hugging Face folder with safetensors and
     * the files of the tokenizer, created if it is missing. */
    const char *to;
    /* of the matrices in a file: "f32" (also NULL and ""), "f16" (GGUF only) or "bf16" */
    const char *type;
    const char *base; /* as in pst_generate_options */
    int64_t replace;  /* 1: an existing file, or the model in the folder, is replaced */
} pst_convert_options;
/* Converts a checkpoint. EINPUT if the file, or a model in the folder, exists and is not to be
 * replaced, or if the format lacks the model, its tokenizer or the type. */
PST_API pst_status pst_convert(const pst_convert_options *options);
typedef struct {
    size_t size; /* sizeof(pst_bench_options) */
    /* [n_suite] names of suites: "kernels", "step", "generate", "p2p", "collectives";
     * n_suite 0: all suites */
    const char *const *suite;
    size_t n_suite;
    /* run file of the model to measure; NULL: a GPT with preset, batch and context below */
    const char *run;
    const char *preset;     /* sizes of the GPT: "gpt2", ... */
    int64_t batch, context; /* samples per micro-batch; tokens per sample */
    int64_t threads;        /* threads per rank; 0: all processors that this process may use */
    /* "fp32", "tf32", "bf16", "fp16", "fp8", or "both" (fp32, and bf16 if the device supports
     * bf16) */
    const char *precision;
    int json;
    const char *op; /* kernels: only this operator; NULL or "": all */
    double seconds; /* p2p, collectives: seconds per message size; 0: 0.5 s */
    /* p2p: if > 0, while it waits, the receiver computes for this many ms between two polls */
    double compute_ms;
    /* p2p, collectives: only messages of this many bytes; 0: sizes from 8 B to 64 MiB */
    int64_t bytes;
    /* the program's argument vector, with which ranks are started; NULL: start no ranks */
    char *const *argv;
    int64_t ranks; /* collectives: number of ranks; 0: 2 */
    /* collectives: only this collective, such as "all-reduce"; NULL or "": all */
    const char *collective;
    /* kernels, step: device to measure, with the values of parallel.device; NULL: "cpu" */
    const char *device;
} pst_bench_options;
/* Measures this machine and writes the results to `out`. kernels: every distinct operator of the
 * model, compared with the FMA peak and memory bandwidth measured in the same run; step: whole
 * training steps on one rank; generate: tokens of one sequence, compared with the time in which the
 * memory delivers the weights; p2p: messages between two ranks on this host; collectives: every
 * algorithm of each collective, compared with the time of the cost model. In a job of several ranks
 * the first suite of the list, or p2p, runs between the ranks of the job, and rank 0 writes the
 * results. Takes seconds to minutes; other load on the machine falsifies the results. Main thread
 * only. EINPUT also for an unknown suite, operator or precision. PENSTOCK_ISA=generic, avx2, avx512
 * (without bf16) or avx512_bf16 limits the kernels to that instruction set. */
PST_API pst_status pst_bench_run(const pst_bench_options *options, FILE *out);
typedef struct {
    size_t size; /* sizeof(pst_profile_options) */
    /* [n_file] one run file, or several profiles to merge; if several have the same entry, the last
     * one is used */
    const char *const *file;
    size_t n_file;
    const char *const *override; /* [n_override] "key=value", overrides of keys of the run file */
    size_t n_override;
    /* profile file to write; if it exists, only the entries that are measured now are replaced */
    const char *output;
    int64_t ranks; /* number of ranks of the run; 0: as in the run file */
    /* lists of values to measure, such as "1,2,4": micro-batch sizes, tensor degrees; NULL: the
     * value of the run file */
    const char *micro_batches, *tensor;
    /* seconds per value, for one rank alone and again for all ranks at once; 0: 1 s */
    double seconds;
    /* 1: merge profiles of different machines as if all were of the machine of the last one */
    int force;
    char *const *argv; /* the program's argument vector, with which ranks are started */
} pst_profile_options;
/* Measures the durations of operators, messages and optimizer steps of a run on this machine, or
 * merges profiles, and writes the profile file for parallel.profile. Main thread only. EINPUT also
 * for profiles that cannot be merged. */
PST_API pst_status pst_profile_run(const pst_profile_options *options, FILE *out);
typedef struct {
    size_t size;      /* sizeof(pst_verify_options) */
    const char *file; /* run file */
    /* [n_override] "key=value", overrides of keys of the run file */
    const char *const *override;
    size_t n_override;
    int64_t ranks;   /* number of ranks of the configured run; 0: as in the run file */
    int json, torch; /* torch: also compare with PyTorch; EINPUT if Python lacks it */
    uint64_t seed;   /* seed of random choices: which rank is killed, and when */
    /* reference file with which the run on one rank is compared; reference file to write; NULL:
     * none */
    const char *against, *save;
    const char *keep; /* folder for the runs, which are kept; NULL or "": a temporary folder */
} pst_verify_options;
/* Verifies a reduced version of a configuration (fewer layers and steps): runs it on one rank, as
 * configured, with an interruption, and with the reference kernels, and compares the results of all
 * operators: bitwise where layouts guarantee equal bits, else within a tolerance. Writes one line
 * per check to `out`, or JSON. The runs are processes of the calling program, so that program must
 * be penstock. EINTERNAL: a check failed. EINPUT also if the configuration does not run on one
 * rank. Main thread only. */
PST_API pst_status pst_verify(const pst_verify_options *options, FILE *out);
typedef struct {
    size_t size;           /* sizeof(pst_tokenize_options) */
    const char *tokenizer; /* file or folder of a tokenizer, or "byte" */
    /* [n_file] text files; each is one document */
    char *const *file;
    size_t n_file;
    const char *output; /* prefix of the files to write, PREFIX.bin and PREFIX.idx; NULL or "":
                           none */
    /* ids: write the ids to `out` instead of the number of tokens; special: special tokens in the
     * text become these tokens */
    int ids, special;
    const char *end; /* special token after each file, such as "<|endoftext|>"; NULL or "": none */
    /* more than 0: learn a byte-level BPE with this number of ids from the files instead, and write
     * it to `output`, a folder for tokenizer.json or a name that ends in .json */
    int64_t vocabulary;
    /* files of JSON Lines (*.jsonl, *.jsonl.gz, *.jsonl.zst): the field of each line's object that
     * is a document; NULL or "": these files are text like any other */
    const char *field;
    int64_t threads; /* that encode, with `output`; 0: one for each processor */
    /* skip: leave out lines of JSON Lines without text in `field`, instead of EINPUT; force:
     * replace existing files */
    int skip, force;
    /* with `vocabulary`: "wordpiece": learn BERT's WordPiece instead, and write it to `output`, a
     * folder for vocab.txt or a name that ends in .txt; NULL, "" or "bpe": a byte-level BPE */
    const char *kind;
    int64_t cased; /* of WordPiece: 1: letters keep their case and accents */
} pst_tokenize_options;
/* Encodes files with a tokenizer; writes the number of tokens and the speed, or the ids, to `out`.
 * Or learns a tokenizer from files or, with `field`, from the texts of JSON Lines; the options for
 * encoding have no effect. Several processes that write the same tokens to the same `output` share
 * the work; tokens that are there already (PREFIX.record.json tells) are not encoded again. EINPUT
 * also for a tokenizer that is damaged or not supported, a special token that it lacks, and a file
 * that exists without `force`; files that were written before stay. */
PST_API pst_status pst_tokenize(const pst_tokenize_options *options, FILE *out);
/* Writes the report of a run as one self-contained HTML file. run: the folder of the run, which may
 * still be running or have been killed. file: the HTML file; NULL or "": report.html in that
 * folder. The report leaves out missing or damaged files of the folder. EINPUT also if the folder
 * has no metrics.jsonl. */
PST_API pst_status pst_report_write(const char *run, const char *file);
/* Writes a table of the runs in `folder` (NULL or "": runs), or of that run, to `out`: state,
 * progress, losses, speed, remaining time and health. Reads their files only, also while they
 * train. EINPUT: there is no run. */
PST_API pst_status pst_runs_print(const char *folder, FILE *out);
/* Compares the runs in two folders, and writes a page to `out`: the first step at which loss or
 * gradient norm differ, settings that differ, results. EINPUT: a folder has no metrics.jsonl. */
PST_API pst_status pst_runs_compare(const char *a, const char *b, FILE *out);
typedef struct {
    size_t size;       /* sizeof(pst_resize_options) */
    const char *run;   /* folder of an elastic run that is running on this host */
    int64_t ranks;     /* the number of ranks that it is to have; not with `drain` */
    const char *drain; /* the rank that is to leave, such as "2"; NULL: none */
} pst_resize_options;
/* Changes the ranks of an elastic run at the end of its present step, and waits until it goes on;
 * then writes a line to `out`. EINPUT: there is no such run, or it cannot have these ranks. EPEER:
 * the run ended meanwhile. */
PST_API pst_status pst_resize(const pst_resize_options *options, FILE *out);
/* Writes the hardware and software of this machine, and which features are unavailable and why, to
 * `out` as text or (json nonzero) JSON. */
PST_API pst_status pst_doctor(int json, FILE *out);
/* Writes a cluster file for this machine to `out`: one node with one device per core that this
 * process may use. */
PST_API pst_status pst_doctor_cluster(FILE *out);
/* Like pst_doctor_cluster, but writes the file `path`, which is replaced only when everything is
 * written. EINPUT if `path` cannot be a file. */
PST_API pst_status pst_doctor_cluster_write(const char *path);
/* Returns the i-th built-in name (from 0) of a kind, as a static string; NULL if there are fewer
 * names. kind: "model", "preset" (of all models), "data", "optimizer", "schedule" (for training),
 * "device", "transport", "world" or "suite" (of bench). Any thread. */
PST_API const char *pst_builtin_name(const char *kind, size_t i);
/* Returns the version "MAJOR.MINOR.PATCH" as a static string. */
PST_API const char *pst_version(void);
#ifdef __cplusplus
}
#endif
#endif
