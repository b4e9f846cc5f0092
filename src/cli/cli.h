/* The program's commands. Each gets its own argv (argv[0] is the command's name) and the program's
 * whole one, and returns the exit status. Everything they do stands in include/penstock/. */
#ifndef PST_CLI_CLI_H
#define PST_CLI_CLI_H
#include "penstock/option.h"
#include "penstock/run.h"

typedef struct pst_cli_command pst_cli_command;
typedef struct {
    int argc;
    char **argv;
    char *const *program_argv; /* untouched, for starting local ranks with */
    const pst_cli_command *self;
    const pst_cli_command *commands; /* all; ends with a row without a name */
    /* Instead of running, a command hands its rows to this, through pst_cli_parse. NULL: it
     * runs. */
    void (*describe)(const pst_cli_command *self, const pst_command *rows, void *to);
    void *describe_to;
} pst_cli_call;

/* KEYS: takes overrides of the run file's keys. */
enum { PST_CLI_KEYS = 1 };
struct pst_cli_command {
    const char *name, *help;
    int (*run)(const pst_cli_call *call);
    unsigned flags;
};

int pst_cli_train(const pst_cli_call *call);
int pst_cli_generate(const pst_cli_call *call);
int pst_cli_simulate(const pst_cli_call *call);
int pst_cli_plan(const pst_cli_call *call);
int pst_cli_inspect(const pst_cli_call *call);
int pst_cli_convert(const pst_cli_call *call);
int pst_cli_bench(const pst_cli_call *call);
int pst_cli_profile(const pst_cli_call *call);
int pst_cli_report(const pst_cli_call *call);
int pst_cli_doctor(const pst_cli_call *call);
int pst_cli_help(const pst_cli_call *call);

/* The program, once start.c has loaded it. */
PST_API int pst_cli_main(int argc, char **argv);
/* What `status` means for the program: prints pst_error() when it is not OK. */
int pst_cli_end(pst_status status);
/* Prints one line of complaint and returns the exit status for wrong input. */
int pst_cli_wrong(const char *fmt, ...) PST_PRINTF(1, 2);
/* Options of `command` from the call, which every command asks for before it does anything.
 * Nonzero: done, *exit_status says how (help was asked for, wrong input, or the rows were all that
 * was wanted). */
int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand,
                  int *exit_status);
/* Nonzero when the call has an option that only other programs have; text: what there is instead.
 */
enum { PST_CLI_INSTEAD = 512 };
int pst_cli_foreign(const pst_command *command, const pst_cli_call *call,
                    char text[PST_CLI_INSTEAD]);
/* Nonzero when there are not between min and max operands; says so. */
int pst_cli_operands(const pst_command *command, size_t n, size_t min, size_t max);

/* The row called `name`, or NULL after a complaint. */
const pst_cli_command *pst_cli_find(const pst_cli_command *commands, const char *name);
/* Hands the rows of a command to `describe`. */
void pst_cli_describe(const pst_cli_command *command,
                      void (*describe)(const pst_cli_command *self, const pst_command *rows,
                                       void *to),
                      void *to);
/* What `penstock --help` prints. */
void pst_cli_overview(const pst_cli_command *commands, FILE *out);
/* Exit statuses and what they mean, for help and manual; NULL after the last. */
const char *pst_cli_exit_means(size_t i, int *exit_status);

/* Manual pages: of the program (command NULL) or a command, and of the run file. */
void pst_cli_manual(const pst_cli_command *commands, const pst_cli_command *command, FILE *out);
void pst_cli_manual_keys(const pst_cli_command *commands, FILE *out);
/* The completion script for bash. */
void pst_cli_completion(const pst_cli_command *commands, FILE *out);
#endif
