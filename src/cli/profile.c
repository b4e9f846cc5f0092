/* penstock profile */
#include "cli.h"
#include <string.h>

int pst_cli_profile(const pst_cli_call *call) {
    pst_profile_options o = {.size = sizeof o, .argv = call->program_argv};
    const pst_option rows[] = {
        {'o', "output", "PROFILE.yaml", PST_OPTION_STRING, 0, 0,
         "The profile to write. If the file exists, measurements are added to it; a new "
         "measurement replaces an old one.",
         &o.output},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Number of ranks in the run, which share the processors. Default: the number that the run "
         "file implies; if the run file leaves the parallel degrees open, one rank per processor, "
         "as in penstock plan. Use -n 1 for a run with one rank that has all processors.",
         &o.ranks},
        {0, "micro-batches", "N,N,...", PST_OPTION_STRING, 0, 0,
         "Micro-batch sizes to measure; by default the size in the run file.", &o.micro_batches},
        {0, "tensor", "N,N,...", PST_OPTION_STRING, 0, 0,
         "Tensor-parallel degrees to measure; by default the degrees in the run file.", &o.tensor},
        {0, "seconds", "S", PST_OPTION_FLOAT, 0.01, 60,
         "Seconds to measure each micro-batch size and tensor degree, once on one rank alone and "
         "once on all ranks at the same time, in five rounds; 1 by default.",
         &o.seconds},
        {0, "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Merge profiles even if machine, precision or optimizer differ.", &o.force},
    };
    const pst_command command = {
        "penstock profile", "RUN.yaml [key=value ...] | PROFILE.yaml PROFILE.yaml ...",
        "Measures how long every distinct operator of a run takes: forward (F), input gradient (B) "
        "and weight gradient (W), on one rank alone and on all ranks at once; also messages "
        "between two ranks, and the optimizer. With parallel.device=cuda it measures one rank on "
        "that device, with the device's clock. Runs, plans and simulations use the result with "
        "parallel.profile. Several profiles are merged into one; where they overlap, the last one "
        "wins.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    pst_cli_ignore_sigpipe();
    if (pst_cli_operands(&command, n, 1, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    if (!o.output || !*o.output)
        return pst_cli_wrong("penstock profile needs -o PROFILE.yaml, the file to write");
    o.file = (const char *const *)call->argv + 1;
    for (o.n_file = 1; o.n_file < n && !strchr(o.file[o.n_file], '=');) o.n_file++;
    o.override = o.file + o.n_file;
    o.n_override = n - o.n_file;
    return pst_cli_end(pst_profile_run(&o, stdout));
}
