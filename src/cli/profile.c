/* penstock profile */
#include "cli.h"
#include <string.h>

int pst_cli_profile(const pst_cli_call *call) {
    pst_profile_options o = {.size = sizeof o, .argv = call->program_argv};
    const pst_option rows[] = {
        {'o', "output", "PROFILE.yaml", PST_OPTION_STRING, 0, 0,
         "The profile. One that is there is added to: what is measured again takes the place of "
         "what was.",
         &o.output},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Ranks of the run, which share the processors out; as the run file says by default. Where "
         "it leaves the "
         "degrees open, a rank for each processor, as penstock plan does; -n 1 for a run of one "
         "rank that has them "
         "all.",
         &o.ranks},
        {0, "micro-batches", "N,N,...", PST_OPTION_STRING, 0, 0,
         "Samples of a micro-batch; that of the run file by default.", &o.micro_batches},
        {0, "tensor", "N,N,...", PST_OPTION_STRING, 0, 0,
         "Degrees of tensor parallelism whose parts of operators are measured; those of the run "
         "file by default.",
         &o.tensor},
        {0, "seconds", "S", PST_OPTION_FLOAT, 0.01, 60,
         "For each of these, alone and while all processors compute, in five rounds all told; 1 by "
         "default.",
         &o.seconds},
        {0, "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Join profiles of different machines, precisions or optimizers.", &o.force},
    };
    const pst_command command = {
        "penstock profile", "RUN.yaml [key=value ...] | PROFILE.yaml PROFILE.yaml ...",
        "Measures how long every distinct operator of a run takes, forward (F), input gradient (B) "
        "and weight gradient "
        "(W), of one rank that computes alone and while all processors do; messages between two "
        "ranks; the optimizer. "
        "With parallel.device=cuda, one rank on that device, by its own clock. "
        "With parallel.profile, runs, plans and simulations are predicted from that. Several "
        "profiles are joined into "
        "one; what they share is the last one's.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    if (!o.output || !*o.output)
        return pst_cli_wrong("penstock profile needs -o PROFILE.yaml, the file to write");
    o.file = (const char *const *)call->argv + 1;
    for (o.n_file = 1; o.n_file < n && !strchr(o.file[o.n_file], '=');) o.n_file++;
    o.override = o.file + o.n_file;
    o.n_override = n - o.n_file;
    return pst_cli_end(pst_profile_run(&o, stdout));
}
