/* The table of commands: overview, lookup by name, options of each command, and the meaning of
 * exit statuses. */
#include "cli.h"
#include <string.h>

static const struct {
    int status;
    const char *means;
} exits[] = {
    {0, "success (train: also if Ctrl-C stopped the run after a checkpoint)"},
    {2, "wrong input, or training diverged"},
    {3, "a rank or link failed or hung"},
    {4, "out of resources (memory, disk or a limit such as ulimit -n)"},
    {5, "internal error"},
    {129, "ended by SIGHUP (train: after a checkpoint)"},
    {130, "interrupted (train: by a second Ctrl-C, without a checkpoint)"},
    {131, "ended by SIGQUIT (without a checkpoint)"},
    {141, "broken pipe: the reader of standard output ended (train: after the run)"},
    {143, "ended by SIGTERM (train: after a checkpoint)"},
};
enum { N_EXIT = sizeof exits / sizeof *exits, MAX_COMMAND = 32 };

const char *pst_cli_exit_means(size_t i, int *exit_status) {
    if (i >= N_EXIT) return NULL;
    *exit_status = exits[i].status;
    return exits[i].means;
}

void pst_cli_overview(const pst_cli_command *commands, FILE *out) {
    fprintf(out,
            "usage: penstock COMMAND [ARGUMENT ...]\n\nTrains models that are too large for "
            "one device, with pipeline, tensor and data parallelism: one\nprocess per rank.\n\n");
    for (const pst_cli_command *c = commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->help);
    fprintf(out,
            "\npenstock COMMAND --help prints the options of a command, penstock --version the "
            "version.\n\nExit status:\n");
    for (int i = 0; i < N_EXIT; i++) fprintf(out, "  %-4d %s\n", exits[i].status, exits[i].means);
}

const pst_cli_command *pst_cli_find(const pst_cli_command *commands, const char *name) {
    const char *names[MAX_COMMAND];
    size_t n = 0;
    for (const pst_cli_command *c = commands; c->name; c++) {
        if (!strcmp(c->name, name)) return c;
        if (n < MAX_COMMAND) names[n++] = c->name;
    }
    const char *meant = pst_did_you_mean(name, names, n);
    if (meant) pst_cli_wrong("unknown command '%.60s'; did you mean '%s'?", name, meant);
    else pst_cli_wrong("unknown command '%.60s' (penstock --help lists them)", name);
    return NULL;
}

void pst_cli_describe(const pst_cli_command *command,
                      void (*describe)(const pst_cli_command *self, const pst_command *rows,
                                       void *to),
                      void *to) {
    char *argv[] = {(char[]){""}, NULL};
    pst_cli_call call = {
        .argc = 1, .argv = argv, .self = command, .describe = describe, .describe_to = to};
    command->run(&call);
}
