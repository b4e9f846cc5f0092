/* The program's commands. Each gets its own argv (argv[0] is the command's name) and the program's whole one, and
 * returns the exit status. Everything they do stands in include/penstock/. */
#ifndef PST_CLI_CLI_H
#define PST_CLI_CLI_H
#include "penstock/option.h"
#include "penstock/run.h"

typedef struct {
    int argc;
    char **argv;
    char *const *program_argv; /* untouched, for starting local ranks with */
} pst_cli_call;

typedef struct {
    const char *name, *help;
    int (*run)(const pst_cli_call *call);
} pst_cli_command;

int pst_cli_train(const pst_cli_call *call);
int pst_cli_generate(const pst_cli_call *call);
int pst_cli_simulate(const pst_cli_call *call);
int pst_cli_inspect(const pst_cli_call *call);
int pst_cli_convert(const pst_cli_call *call);
int pst_cli_bench(const pst_cli_call *call);
int pst_cli_doctor(const pst_cli_call *call);

/* What `status` means for the program: prints pst_error() when it is not OK. */
int pst_cli_end(pst_status status);
/* Prints one line of complaint and returns the exit status for wrong input. */
int pst_cli_wrong(const char *fmt, ...) PST_PRINTF(1, 2);
/* Options of `command` from the call. Nonzero: done, *exit_status says how (help was asked for, or wrong input). */
int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand, int *exit_status);
/* Nonzero when there are not between min and max operands; says so. */
int pst_cli_operands(const pst_command *command, size_t n, size_t min, size_t max);
#endif
