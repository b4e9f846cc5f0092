/* penstock verify */
#include "cli.h"
#include <string.h>

int pst_cli_verify(const pst_cli_call *call) {
    int64_t seed = 1;
    pst_verify_options o = {.size = sizeof o};
    const pst_option rows[] = {
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Number of ranks in the run as configured; by default that of the run file.", &o.ranks},
        {0, "seed", "N", PST_OPTION_INT, 0, 9e15,
         "Chooses which rank is killed, and when; 1 by default.", &seed},
        {0, "against", "FILE", PST_OPTION_STRING, 0, 0,
         "Also compare the run on one rank with this file, which --save has written on another "
         "machine or by another version. Equal bits are expected with the same version, "
         "instruction set and libraries.",
         &o.against},
        {0, "save", "FILE", PST_OPTION_STRING, 0, 0,
         "Write what the run on one rank has computed, for --against.", &o.save},
        {0, "torch", NULL, PST_OPTION_FLAG, 0, 0,
         "Also compute the steps on one rank with PyTorch, if the Python that PST_TORCH_PYTHON "
         "names, or python3, has it.",
         &o.torch},
        {0, "keep", "DIR", PST_OPTION_STRING, 0, 0,
         "Make the runs in this folder and leave them there, with their logs and recordings.",
         &o.keep},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
    };
    const pst_command command = {
        "penstock verify", "RUN.yaml [key=value ...]",
        "Tests the promise that layouts do not change results, on this machine and for this run: a "
        "few steps of a smaller model are run on one rank and as configured, stopped and resumed, "
        "with a rank killed, and with the reference kernels. Every operator's results, gradients, "
        "weights and optimizer states are compared, to the bit where that is promised. The first "
        "difference is printed: step, micro-batch, operator, tensor, index, both values and ranks. "
        "Status 5: a check has failed.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, (size_t)-1)) return pst_status_exit(PST_EINPUT);
    o.file = call->argv[1];
    o.override = (const char *const *)call->argv + 2;
    o.n_override = n - 1;
    o.seed = (uint64_t)seed;
    return pst_cli_end(pst_verify(&o, stdout));
}
