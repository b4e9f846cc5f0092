/* The program's commands. Each gets its own argv (argv[0] is the command's name) and the
 * program's complete argv, and returns the exit status. What a command does is declared in
 * include/penstock/. */
#ifndef PST_CLI_CLI_H
#define PST_CLI_CLI_H
#include "penstock/option.h"
#include "penstock/run.h"

typedef struct pst_cli_command pst_cli_command;
typedef struct {
    int argc;
    char **argv;
    char *const *program_argv; /* unchanged: local ranks are started with it */
    const pst_cli_command *self;
    const pst_cli_command *commands; /* all commands; the last row has no name */
    /* If set, the command does not run: pst_cli_parse passes its rows to this function. */
    void (*describe)(const pst_cli_command *self, const pst_command *rows, void *to);
    void *describe_to;
} pst_cli_call;

/* The option of all commands that read checkpoints of runs with frozen weights. */
#define PST_CLI_BASE(target)                                                                       \
    {                                                                                              \
        0, "base", "FOLDER", PST_OPTION_STRING, 0, 0,                                              \
            "Where the weights are now that a run with adapt or train.freeze began with (its "     \
            "model.weights).",                                                                     \
            target                                                                                 \
    }

/* KEYS: the command takes overrides of run-file keys. */
enum { PST_CLI_KEYS = 1 };
struct pst_cli_command {
    const char *name, *help;
    int (*run)(const pst_cli_call *call);
    unsigned flags;
};

int pst_cli_train(const pst_cli_call *call);
int pst_cli_generate(const pst_cli_call *call);
int pst_cli_eval(const pst_cli_call *call);
int pst_cli_simulate(const pst_cli_call *call);
int pst_cli_plan(const pst_cli_call *call);
int pst_cli_inspect(const pst_cli_call *call);
int pst_cli_convert(const pst_cli_call *call);
int pst_cli_bench(const pst_cli_call *call);
int pst_cli_verify(const pst_cli_call *call);
int pst_cli_profile(const pst_cli_call *call);
int pst_cli_report(const pst_cli_call *call);
int pst_cli_runs(const pst_cli_call *call);
int pst_cli_compare(const pst_cli_call *call);
int pst_cli_resize(const pst_cli_call *call);
int pst_cli_drain(const pst_cli_call *call);
int pst_cli_tokenize(const pst_cli_call *call);
int pst_cli_doctor(const pst_cli_call *call);
int pst_cli_help(const pst_cli_call *call);

/* The program, called by start.c once it has loaded this library. */
PST_API int pst_cli_main(int argc, char **argv);
/* Exit status for `status`; prints pst_error() if it is not OK. */
int pst_cli_end(pst_status status);
/* Prints one line to stderr and returns the exit status for wrong input. */
int pst_cli_wrong(const char *fmt, ...) PST_PRINTF(1, 2);
/* For commands that train or start ranks: a closed pipe or connection gives an error instead of
 * ending the process by SIGPIPE. */
void pst_cli_ignore_sigpipe(void);
/* Reads the options of `command` from the call; every command starts with this. Nonzero: the
 * command ends here with *exit_status (help was printed, the input is wrong, or call->describe was
 * called). */
int pst_cli_parse(const pst_command *command, const pst_cli_call *call, size_t *n_operand,
                  int *exit_status);
/* Nonzero if the call has an option of other programs that this command lacks; text: what to use
 * instead. */
enum { PST_CLI_INSTEAD = 512 };
int pst_cli_foreign(const pst_command *command, const pst_cli_call *call,
                    char text[PST_CLI_INSTEAD]);
/* Nonzero, after an error message, unless the number of operands is min to max. */
int pst_cli_operands(const pst_command *command, size_t n, size_t min, size_t max);

/* The row called `name`; NULL after an error message. */
const pst_cli_command *pst_cli_find(const pst_cli_command *commands, const char *name);
/* Passes the rows of a command to `describe`. */
void pst_cli_describe(const pst_cli_command *command,
                      void (*describe)(const pst_cli_command *self, const pst_command *rows,
                                       void *to),
                      void *to);
/* What `penstock --help` prints. */
void pst_cli_overview(const pst_cli_command *commands, FILE *out);
/* Meaning of exit status number i, for help and manual; NULL after the last one. */
const char *pst_cli_exit_means(size_t i, int *exit_status);

/* Manual pages: of the program (command NULL) or a command, and of the run file. */
void pst_cli_manual(const pst_cli_command *commands, const pst_cli_command *command, FILE *out);
void pst_cli_manual_keys(const pst_cli_command *commands, FILE *out);
/* The completion script for bash. */
void pst_cli_completion(const pst_cli_command *commands, FILE *out);
#endif
