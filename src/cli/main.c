/* The program: finds the command, runs it, and sees to it that what was printed has arrived. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pst_cli_command commands[] = {
    {"train", "train a model as a run file says", pst_cli_train},
    {"generate", "continue a text with a trained model", pst_cli_generate},
    {"simulate", "time a schedule or a plan without training", pst_cli_simulate},
    {"inspect", "show a checkpoint, a plan, a safetensors file, or what a run file becomes", pst_cli_inspect},
    {"convert", "write a checkpoint as a Hugging Face folder", pst_cli_convert},
    {"bench", "measure this machine: every operator of a model beside peak and bandwidth", pst_cli_bench},
    {"doctor", "what this machine has, and what is missing for what", pst_cli_doctor},
};
enum { N_COMMAND = sizeof commands / sizeof *commands };

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

int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand, int *exit_status) {
    int help = 0;
    pst_status status = pst_option_parse(command, call->argc, call->argv, n_operand, &help);
    const char *text = pst_error(); /* starts with the command, "penstock train: ..." */
    if (status != PST_OK) pst_cli_wrong("%s", text + (strncmp(text, "penstock ", 9) ? 0 : 9));
    *exit_status = pst_status_exit(status);
    if (status == PST_OK && help) pst_option_help(command, stdout);
    return status != PST_OK || help;
}

int pst_cli_operands(const pst_command *command, size_t n, size_t min, size_t max) {
    if (n >= min && n <= max) return 0;
    pst_cli_wrong("too %s operands; usage: %s %s (see %s --help)", n < min ? "few" : "many", command->command,
                  command->operands, command->command);
    return 1;
}

static void print_help(FILE *out) {
    fprintf(out, "usage: penstock COMMAND [ARGUMENT ...]\n\n"
                 "Trains models that do not fit on one device: pipeline stages over processes.\n\n");
    for (int i = 0; i < N_COMMAND; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(out,
            "\n  penstock COMMAND --help tells the rest; penstock --version.\n"
            "\nExit status: 0 done; 2 wrong input; 3 a rank or link failed; 4 out of resources; 5 internal error.\n");
}

static int unknown_command(const char *word) {
    const char *names[N_COMMAND];
    for (int i = 0; i < N_COMMAND; i++) names[i] = commands[i].name;
    const char *meant = pst_did_you_mean(word, names, N_COMMAND);
    if (meant) return pst_cli_wrong("unknown command '%.60s'; did you mean '%s'?", word, meant);
    return pst_cli_wrong("unknown command '%.60s' (penstock --help lists them)", word);
}

static int dispatch(int argc, char **argv, char *const *program_argv) {
    if (argc < 2) {
        print_help(stderr);
        return pst_status_exit(PST_EINPUT);
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) return print_help(stdout), 0;
    if (!strcmp(word, "--version")) return printf("penstock %s\n", pst_version()), 0;
    for (int i = 0; i < N_COMMAND; i++) {
        pst_cli_call call = {.argc = argc - 1, .argv = argv + 1, .program_argv = program_argv};
        if (!strcmp(word, commands[i].name)) return commands[i].run(&call);
    }
    return unknown_command(word);
}

/* A program started with a standard stream closed would give its number to the next file it opens. The wrong
 * direction is on purpose: writing to a closed stdout has to fail. */
static void open_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) exit(5);
}

/* What was printed counts only once it has been written. */
static int close_stdout(int exit_status) {
    int had_error = ferror(stdout);
    errno = 0;
    if ((fflush(stdout) == 0 && !had_error) || exit_status)
        return exit_status; /* a failure has been explained already */
    fprintf(stderr, "penstock: cannot write standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    return pst_status_exit(PST_ENOMEM);
}

int main(int argc, char **argv) {
    open_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves must not end a training run, */
    signal(SIGXFSZ, SIG_IGN); /* nor a limit on file sizes */
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (!copy) return fprintf(stderr, "penstock: out of memory\n"), pst_status_exit(PST_ENOMEM);
    memcpy(copy, argv, (size_t)argc * sizeof *copy);
    int exit_status = close_stdout(dispatch(argc, argv, copy));
    free(copy);
    return exit_status;
}
