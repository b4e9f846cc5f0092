/* The commands' beginning (start.c loads it): finds the command, runs it, and sees to it that what
 * was printed has arrived. */
#include "cli.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const pst_cli_command pst_cli_commands[] = {
    {"train", "train a model as a run file says", pst_cli_train, PST_CLI_KEYS},
    {"generate", "continue a text with a trained model", pst_cli_generate, 0},
    {"simulate", "time a schedule or a plan without training", pst_cli_simulate, 0},
    {"plan", "find the best layout of a run, or of another planner's workload, on a cluster",
     pst_cli_plan, 0},
    {"profile", "measure a run's operators, messages and optimizer, for predictions",
     pst_cli_profile, PST_CLI_KEYS},
    {"inspect", "show a checkpoint, a plan, a safetensors file, or what a run file becomes",
     pst_cli_inspect, 0},
    {"convert", "write a checkpoint as a Hugging Face folder", pst_cli_convert, 0},
    {"report", "write a run's report.html again, also while it runs", pst_cli_report, 0},
    {"bench", "measure this machine: every operator of a model beside its peak, messages",
     pst_cli_bench, 0},
    {"doctor", "what this machine has, and what is missing for what", pst_cli_doctor, 0},
    {"help", "the help of a command; write manual pages and bash completion", pst_cli_help, 0},
    {0},
};

int pst_cli_end(pst_status status) {
    if (status != PST_OK && *pst_error()) fprintf(stderr, "penstock: %s\n", pst_error());
    return pst_status_exit(status);
}

int pst_cli_wrong(const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "penstock: %s\n", text);
    return pst_status_exit(PST_EINPUT);
}

int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand,
                  int *exit_status) {
    if (call->describe) {
        call->describe(call->self, command, call->describe_to);
        *exit_status = 0;
        return 1;
    }
    int help = 0;
    pst_status status = pst_option_parse(command, call->argc, call->argv, n_operand, &help);
    char text[512]; /* starts with the command, "penstock train: ..." */
    snprintf(text, sizeof text, "%s", pst_error());
    if (status != PST_OK && !(strstr(text, "unknown option '--") && pst_cli_foreign(command, call)))
        pst_cli_wrong("%s", text + (strncmp(text, "penstock ", 9) ? 0 : 9));
    *exit_status = pst_status_exit(status);
    if (status == PST_OK && help) {
        pst_option_help(command, stdout);
        if (call->self->flags & PST_CLI_KEYS) {
            putchar('\n');
            pst_config_help(stdout);
        }
    }
    return status != PST_OK || help;
}

int pst_cli_operands(const pst_command *command, size_t n, size_t min, size_t max) {
    if (n >= min && n <= max) return 0;
    pst_cli_wrong("too %s operands; usage: %s %s (see %s --help)", n < min ? "few" : "many",
                  command->command, command->operands, command->command);
    return 1;
}

static int dispatch(int argc, char **argv, char *const *program_argv) {
    if (argc < 2) {
        pst_cli_overview(stderr);
        return pst_status_exit(PST_EINPUT);
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        pst_cli_overview(stdout);
        return 0;
    }
    if (!strcmp(word, "--version")) {
        printf("penstock %s\n", pst_version());
        return 0;
    }
    const pst_cli_command *command = pst_cli_find(word);
    if (!command) return pst_status_exit(PST_EINPUT);
    pst_cli_call call = {
        .argc = argc - 1, .argv = argv + 1, .program_argv = program_argv, .self = command};
    return command->run(&call);
}

/* What was printed counts only once it has been written. */
static int close_stdout(int exit_status) {
    int had_error = ferror(stdout);
    errno = 0;
    if ((fflush(stdout) == 0 && !had_error) || exit_status)
        return exit_status; /* a failure has been explained already */
    fprintf(stderr, "penstock: cannot write standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return pst_status_exit(PST_ENOMEM);
}

int pst_cli_main(int argc, char **argv) {
    (void)pst_error(); /* memory of a thread's own in a loaded library comes at the first use: now,
                          while there is some */
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves must not end a training run, */
    signal(SIGXFSZ, SIG_IGN); /* nor a limit on file sizes */
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
