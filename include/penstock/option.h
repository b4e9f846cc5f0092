/* Command-line options from a table: parsing, range checks, "did you mean" and --help all use
 * its rows. */
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
    PST_OPTION_LIST,  /* may be given several times */
    PST_OPTION_BYTES, /* a number, or 8GiB, 512M */
    PST_OPTION_RATE   /* bytes per second: a number, or 25GB/s, 400Gb/s */
} pst_option_type;
enum { PST_OPTION_LIST_MAX = 32 };
typedef struct {
    size_t n;
    const char *item[PST_OPTION_LIST_MAX];
} pst_option_list;
/* `target` points to int (FLAG), int64_t (INT), double (FLOAT, BYTES, RATE), const char *
 * (STRING) or pst_option_list (LIST); its value before parsing is the default. */
typedef struct {
    char letter;       /* 0: none */
    const char *name;  /* without the dashes */
    const char *value; /* shown in help: "N", "FILE"; NULL for flags */
    pst_option_type type;
    double min, max; /* numbers: inclusive range */
    const char *help;
    void *target;
} pst_option;
typedef struct {
    const char *command;  /* "penstock train" */
    const char *operands; /* "RUN.yaml [key=value ...]" */
    const char *summary;  /* a paragraph */
    const pst_option *option;
    size_t n_option;
} pst_command;
/* Sets targets; moves arguments that are no options to the front of argv[1..] and counts them in
 * *n_operand. "--" ends the options; "--help" sets *help. EINPUT names the option and what would
 * be right. */
PST_API pst_status pst_option_parse(const pst_command *command, int argc, char **argv,
                                    size_t *n_operand, int *help);
PST_API void pst_option_help(const pst_command *command, FILE *out);
/* The help text of one option, with its default. Returns text. */
PST_API const char *pst_option_text(const pst_option *option, char *text, size_t bytes);
/* The nearest of n names to `word` by edit distance, NULL if none is near. */
PST_API const char *pst_did_you_mean(const char *word, const char *const *name, size_t n);
#ifdef __cplusplus
}
#endif
#endif
