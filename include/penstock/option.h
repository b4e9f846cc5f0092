/* Command-line options: one table describes them for parsing, range checks, "did you mean"
 * suggestions and --help. */
#ifndef PENSTOCK_OPTION_H
#define PENSTOCK_OPTION_H
#include "penstock/status.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef enum {
    PST_OPTION_FLAG,
    PST_OPTION_INT,
    PST_OPTION_FLOAT,
    PST_OPTION_STRING,
    PST_OPTION_LIST,    /* strings; the option may be given several times */
    PST_OPTION_BYTES,   /* bytes: a number, or with a unit such as 8GiB, 512M */
    PST_OPTION_RATE,    /* bytes per second: a number, or with a unit such as 25GB/s, 400Gb/s */
    PST_OPTION_OPTIONAL /* a string that is given as --name=VALUE; --name alone means "" */
} pst_option_type;
enum { PST_OPTION_LIST_MAX = 32 };
typedef struct {
    size_t n;
    const char *item[PST_OPTION_LIST_MAX];
} pst_option_list;
/* One option. `target` points to an int (FLAG), int64_t (INT), double (FLOAT, BYTES, RATE), const
 * char * (STRING, OPTIONAL) or pst_option_list (LIST); the value of *target before parsing is the
 * default. */
typedef struct {
    char letter;       /* short form: 'n' for -n; 0: none */
    const char *name;  /* long form without the dashes: "ranks" */
    const char *value; /* placeholder of the value in the help text: "N", "FILE"; NULL for flags */
    pst_option_type type;
    double min, max; /* inclusive range of a number */
    const char *help;
    void *target;
} pst_option;
typedef struct {
    const char *command;  /* "penstock train" */
    const char *operands; /* "RUN.yaml [key=value ...]" */
    const char *summary;  /* one paragraph of help text */
    const pst_option *option;
    size_t n_option;
} pst_command;
/* Parses argv[1..argc): sets the targets, moves operands (arguments that are not options) to the
 * front of argv[1..] and sets *n_operand to their number. "--" ends the options; "--help" sets
 * *help to 1. EINPUT: pst_error() names the option and the allowed values. */
PST_API pst_status pst_option_parse(const pst_command *command, int argc, char **argv,
                                    size_t *n_operand, int *help);
/* Writes the help text of a command to `out`. */
PST_API void pst_option_help(const pst_command *command, FILE *out);
/* Formats the help text of one option, with its default value, into text[0..bytes). Returns
 * `text`. */
PST_API const char *pst_option_text(const pst_option *option, char *text, size_t bytes);
/* Returns the one of n names that is most similar to `word` by edit distance, or NULL if no name is
 * similar. */
PST_API const char *pst_did_you_mean(const char *word, const char *const *name, size_t n);
#ifdef __cplusplus
}
#endif
#endif
