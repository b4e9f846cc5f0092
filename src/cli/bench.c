/* penstock bench */
#include "cli.h"
#include <string.h>

int pst_cli_bench(const pst_cli_call *call) {
    pst_bench_options o = {.size = sizeof o,
                           .preset = "gpt2",
                           .batch = 4,
                           .context = 256,
                           .precision = "both",
                           .op = "",
                           .seconds = 0.5};
    const pst_option rows[] = {
        {0, "run", "RUN.yaml", PST_OPTION_STRING, 0, 0,
         "Measure this run file's model instead of --preset, -B and -T.", &o.run},
        {0, "preset", "NAME", PST_OPTION_STRING, 0, 0, "GPT preset to measure.", &o.preset},
        {'B', "batch", "SAMPLES", PST_OPTION_INT, 1, 65536, "Samples per micro-batch.", &o.batch},
        {'T', "context", "TOKENS", PST_OPTION_INT, 1, 1048576, "Tokens per sample.", &o.context},
        {0, "threads", "N", PST_OPTION_INT, 1, 4096, "CPU threads; all processors by default.",
         &o.threads},
        {0, "precision", "NAME", PST_OPTION_STRING, 0, 0,
         "fp32, bf16 or fp16; on GPUs also tf32 or fp8; both: fp32, and bf16 if the device "
         "supports bf16.",
         &o.precision},
        {0, "device", "NAME", PST_OPTION_STRING, 0, 0,
         "Suites kernels and step: the device to measure, a value of parallel.device; cpu by "
         "default.",
         &o.device},
        {0, "op", "NAME", PST_OPTION_STRING, 0, 0,
         "Measure only this operator, such as linear or attention.", &o.op},
        {0, "seconds", "S", PST_OPTION_FLOAT, 0.001, 60,
         "Suites p2p and collectives: how long each message size is measured, in seconds.",
         &o.seconds},
        {0, "compute", "MS", PST_OPTION_FLOAT, 0, 1000,
         "Suite p2p: the receiver computes while it waits, in intervals of this many milliseconds; "
         "0: it only waits.",
         &o.compute_ms},
        {0, "bytes", "N", PST_OPTION_INT, 1, 1 << 30,
         "Suites p2p and collectives: measure only this size; 8 B to 64 MiB by default.", &o.bytes},
        {'n', "ranks", "N", PST_OPTION_INT, 2, 4096,
         "Suite collectives: number of ranks; 2 by default.", &o.ranks},
        {0, "collective", "NAME", PST_OPTION_STRING, 0, 0,
         "Suite collectives: measure only this kind, such as all-reduce.", &o.collective},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
    };
    const pst_command command = {
        "penstock bench", "[SUITE ...]",
        "Measures this machine. Suite kernels: every distinct operator of a model, its forward "
        "pass (F), input gradient (B) and weight gradient (W): time, rate, share of a step, and "
        "percentage of the roofline. The roofline uses the FMA peak and the memory bandwidth "
        "measured in the same run; with --device cuda, the rates of a large matrix product and a "
        "large copy. One thread is timed by its CPU time, a GPU by its own clock. The environment "
        "variable PENSTOCK_ISA lowers the instruction set to generic, avx2, avx512 (without bf16) "
        "or avx512_bf16. Suite step: whole training steps of the model on one rank: rate, "
        "percentage of the peak (on a GPU, of the datasheet's peak and of the rate of a large "
        "matrix product), and memory; time and memory compared with the predicted values. Suite "
        "generate: the time of a token that follows up to -T others, compared with the time in "
        "which the memory delivers the weights. Suite p2p: latency and bandwidth of messages "
        "between two ranks of this host. Suite collectives: "
        "the measured and the estimated time of each algorithm of each collective; the algorithm "
        "that a run would choose comes first.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    pst_cli_ignore_sigpipe();
    static const char *const known[] = {"fp32", "tf32", "bf16", "fp16", "fp8", "both"};
    size_t i = 0, n_known = sizeof known / sizeof *known;
    while (i < n_known && strcmp(o.precision, known[i])) i++;
    if (i == n_known)
        return pst_cli_wrong("--precision '%.60s': expected fp32, tf32, bf16, fp16, fp8 or both",
                             o.precision);
    o.suite = (const char *const *)call->argv + 1;
    o.n_suite = n;
    o.argv = call->program_argv;
    return pst_cli_end(pst_bench_run(&o, stdout));
}
