/* Entry point of the commands (start.c loads this library): the table of commands, the call of
 * one of them, and the check that its output was written. */
#include "cli.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pst_cli_command commands[] = {
    {"train", "train a model from a run file", pst_cli_train, PST_CLI_KEYS},
    {"generate", "continue a text with a trained model", pst_cli_generate, 0},
    {"eval", "evaluate a trained model: perplexity, last words, multiple choice", pst_cli_eval, 0},
    {"simulate", "simulate a schedule or a plan without training", pst_cli_simulate, 0},
    {"plan", "find the fastest layout for a run on a cluster, or partition another planner's graph",
     pst_cli_plan, 0},
    {"profile", "measure a run's operators, messages and optimizer for predictions",
     pst_cli_profile, PST_CLI_KEYS},
    {"verify", "check that a run's results are the same on one rank and as configured",
     pst_cli_verify, PST_CLI_KEYS},
    {"inspect",
     "show a checkpoint, a plan, a safetensors file, or the graph, plan and memory of a run file",
     pst_cli_inspect, 0},
    {"convert", "write a checkpoint as a Hugging Face folder", pst_cli_convert, 0},
    {"tokenize", "encode text as tokens, for data.kind tokens", pst_cli_tokenize, 0},
    {"report", "write report.html of a run, also while it is running", pst_cli_report, 0},
    {"runs", "list runs: progress, speed, remaining time, health", pst_cli_runs, 0},
    {"compare", "compare two runs: first difference, settings, results", pst_cli_compare, 0},
    {"resize", "give a running elastic run another number of ranks", pst_cli_resize, 0},
    {"drain", "let a rank of a running elastic run leave", pst_cli_drain, 0},
    {"bench",
     "measure this machine: operators compared with the peak, training steps, messages, "
     "collectives",
     pst_cli_bench, 0},
    {"doctor", "show what this machine has and what is missing", pst_cli_doctor, 0},
    {"help", "show a command's help; write manual pages and bash completion", pst_cli_help, 0},
    {0},
};

static int dispatch(int argc, char **argv, char *const *program_argv) {
    if (argc < 2) {
        pst_cli_overview(commands, stderr);
        return pst_status_exit(PST_EINPUT);
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        pst_cli_overview(commands, stdout);
        return 0;
    }
    if (!strcmp(word, "--version")) {
        printf("penstock %s\n", pst_version());
        return 0;
    }
    const pst_cli_command *command = pst_cli_find(commands, word);
    if (!command) return pst_status_exit(PST_EINPUT);
    pst_cli_call call = {.argc = argc - 1,
                         .argv = argv + 1,
                         .program_argv = program_argv,
                         .self = command,
                         .commands = commands};
    return command->run(&call);
}

/* 1: standard output is a pipe or socket that nobody reads any more. */
static int has_no_reader(void) {
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

/* Output counts only once it has been written. A reader that has ended (`penstock ... | head`) is
 * no error: the exit status is then that of a program ended by SIGPIPE. */
static int close_stdout(int exit_status) {
    int had_error = ferror(stdout);
    errno = 0;
    if ((fflush(stdout) == 0 && !had_error) || exit_status)
        return exit_status; /* an error message was printed already */
    if (has_no_reader()) return 128 + SIGPIPE;
    fprintf(stderr, "penstock: cannot write standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return pst_status_exit(PST_ENOMEM);
}

int pst_cli_main(int argc, char **argv) {
    (void)pst_error(); /* thread-local memory of a loaded library is allocated at first use: use it
                          while there is memory */
    signal(SIGXFSZ, SIG_IGN); /* a full file gives an error message */
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (!copy) {
        fprintf(stderr, "penstock: out of memory\n");
        return pst_status_exit(PST_ENOMEM);
    }
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    int exit_status = close_stdout(dispatch(argc, argv, copy));
    free(copy);
    return exit_status;
}
