/* penstock verify */
#include "cli.h"
#include <string.h>

int pst_cli_verify(const pst_cli_call *call) {
    int64_t seed = 1;
    pst_verify_options o = {.size = sizeof o};
    const pst_option rows[] = {
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Number of ranks of the configured run; by default the number in the run file.", &o.ranks},
        {0, "seed", "N", PST_OPTION_INT, 0, 9e15,
         "Seed for the choice of the rank to kill and of the time; 1 by default.", &seed},
        {0, "against", "FILE", PST_OPTION_STRING, 0, 0,
         "Also compare the run on one rank with this file, written with --save on another machine "
         "or by another version. Equal bits are expected with the same version, instruction set "
         "and libraries.",
         &o.against},
        {0, "save", "FILE", PST_OPTION_STRING, 0, 0,
         "Write the results of the run on one rank to this file, for --against.", &o.save},
        {0, "torch", NULL, PST_OPTION_FLAG, 0, 0,
         "Also compute the steps of the run on one rank with PyTorch, in fp32 without dropout. It "
         "must be installed for the Python that PST_TORCH_PYTHON names, else for python3.",
         &o.torch},
        {0, "keep", "DIR", PST_OPTION_STRING, 0, 0,
         "Write the runs, logs and recordings to this folder and keep them.", &o.keep},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
    };
    const pst_command command = {
        "penstock verify", "RUN.yaml [key=value ...]",
        "Checks on this machine that the layout of a run does not change its results. Runs a few "
        "steps of a smaller model on one rank, with the configured layout, stopped and resumed, "
        "with a killed rank, and with the reference kernels. Compares the results of all "
        "operators, gradients, weights and optimizer states, bitwise where equal bits are "
        "promised. Prints the first difference: step, micro-batch, operator, tensor, index, both "
        "values and ranks. Exit status 5: a check has failed.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    pst_cli_ignore_sigpipe();
    o.file = call->argv[1];
    o.override = (const char *const *)call->argv + 2;
    o.n_override = n - 1;
    o.seed = (uint64_t)seed;
    return pst_cli_end(pst_verify(&o, stdout));
}
