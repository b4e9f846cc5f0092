/* What every command does first and last: reads options and operands, reports wrong ones, and
 * turns a status into an exit status. */
#include "cli.h"
#include <signal.h>
#include <stdarg.h>
#include <string.h>

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

void pst_cli_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }

int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand,
                  int *exit_status) {
    if (call->describe) {
        call->describe(call->self, command, call->describe_to);
        *exit_status = 0;
        return 1;
    }
    int help = 0;
    pst_status status = pst_option_parse(command, call->argc, call->argv, n_operand, &help);
    char instead[PST_CLI_INSTEAD], text[512]; /* starts with the command, "penstock train: ..." */
    snprintf(text, sizeof text, "%s", pst_error());
    int unknown = status != PST_OK && strstr(text, "unknown option '--");
    if (unknown && pst_cli_foreign(command, call, instead)) pst_cli_wrong("%s", instead);
    else if (status != PST_OK) pst_cli_wrong("%s", text + (strncmp(text, "penstock ", 9) ? 0 : 9));
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
