/* Manual pages in man(7), from the rows that --help prints: penstock(1), penstock-COMMAND(1) and,
 * for the keys of a run file, penstock.yaml(5). */
#include "cli.h"
#include <ctype.h>
#include <string.h>

enum { LINE_WIDTH = 64 }; /* columns of man(7) source; escapes can lengthen a line up to 80 */

static void put_char(char c, FILE *out) {
    static const char plain[] = "\\-'^`~", *const written[] = {"\\e",   "\\-",   "\\(aq",
                                                               "\\(ha", "\\(ga", "\\(ti"};
    const char *at = c ? strchr(plain, c) : NULL;
    if (at) fputs(written[at - plain], out);
    else fputc(c, out);
}

/* Writes text without a newline. Not for the start of a line, where '.' would begin a request. */
static void put(const char *text, FILE *out) {
    while (*text) put_char(*text++, out);
}

/* Writes a paragraph, wrapped. */
static void put_paragraph(const char *text, FILE *out) {
    int column = 0;
    while (*(text += strspn(text, " \n"))) {
        int length = (int)strcspn(text, " \n");
        if (column) fputc(column + length < LINE_WIDTH ? ' ' : '\n', out);
        column = column && column + length < LINE_WIDTH ? column + 1 : 0;
        if (!column && (*text == '.' || *text == '\'')) fputs("\\&", out);
        for (int i = 0; i < length; i++) put_char(text[i], out);
        column += length;
        text += length;
    }
    fputc('\n', out);
}

static void put_head(const char *name, int section, const char *what, FILE *out) {
    fputs(".\\\" Written by penstock help --write from the table of options that --help "
          "prints.\n.TH \"",
          out);
    for (const char *c = name; *c; c++) put_char((char)toupper((unsigned char)*c), out);
    fprintf(out, "\" %d \"" PST_VERSION_DATE "\" \"penstock %s\" \"penstock manual\"\n.SH NAME\n",
            section, pst_version());
    put(name, out);
    fputs(" \\-\n", out);
    put_paragraph(what, out);
}

static void put_option(const pst_option *option, FILE *out) {
    char text[512];
    fputs(".TP\n", out);
    if (option->letter) fprintf(out, "\\fB\\-%c\\fR%s", option->letter, option->name ? ", " : "");
    if (option->name) {
        fputs("\\fB\\-\\-", out);
        put(option->name, out);
        fputs("\\fR", out);
    }
    if (option->value) {
        const int optional = option->type == PST_OPTION_OPTIONAL;
        fputs(optional ? "[=\\fI" : " \\fI", out);
        put(option->value, out);
        fputs(optional ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
    put_paragraph(pst_option_text(option, text, sizeof text), out);
}

static void put_help_option(FILE *out) {
    int help = 0;
    put_option(
        &(pst_option){
            .letter = 'h', .name = "help", .help = "Print help and exit.", .target = &help},
        out);
}

static void put_exit_status(FILE *out) {
    int status = 0;
    const char *means;
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; (means = pst_cli_exit_means(i, &status)); i++)
        fprintf(out, ".TP\n%d\n%s\n", status, means);
}

/* SEE ALSO: every page except that of command `self` (NULL: penstock(1)). */
static void put_see_also(const pst_cli_command *commands, const char *self, FILE *out) {
    fputs(".SH SEE ALSO\n", out);
    if (self) fputs(".BR penstock (1),\n", out);
    for (const pst_cli_command *c = commands; c->name; c++)
        if (!self || strcmp(c->name, self)) fprintf(out, ".BR penstock\\-%s (1),\n", c->name);
    fputs(".BR penstock.yaml (5)\n", out);
}

/* Arguments of put_command. */
typedef struct {
    const pst_cli_command *commands;
    FILE *out;
} page;

static void put_command(const pst_cli_command *self, const pst_command *rows, void *to) {
    const page *p = to;
    FILE *out = p->out;
    char name[64];
    snprintf(name, sizeof name, "penstock-%s", self->name);
    put_head(name, 1, self->help, out);
    fprintf(out, ".SH SYNOPSIS\n.B %s\n[\\fIoption\\fR ...]", rows->command);
    if (rows->operands && *rows->operands) {
        fputc('\n', out);
        put_paragraph(rows->operands, out);
    } else fputc('\n', out);
    fputs(".SH DESCRIPTION\n", out);
    put_paragraph(rows->summary, out);
    if (self->flags & PST_CLI_KEYS)
        fputs(
            ".PP\nEvery key of the run file can be overridden on the command line as\n.IR section "
            ". key = value .\nThe section may be left out if only one section has the key; keys of "
            "nested\nsections always need their full path.\nSee\n.BR penstock.yaml (5).\n",
            out);
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < rows->n_option; i++) put_option(&rows->option[i], out);
    put_help_option(out);
    put_exit_status(out);
    put_see_also(p->commands, self->name, out);
}

static void put_program(const pst_cli_command *commands, FILE *out) {
    put_head("penstock", 1, "train models that do not fit on one device", out);
    fputs(".SH SYNOPSIS\n.B penstock\n\\fIcommand\\fR [\\fIargument\\fR ...]\n.SH DESCRIPTION\n",
          out);
    put_paragraph("penstock trains models with pipeline, tensor and data parallelism, one process "
                  "per rank. Pipeline schedules include 1F1B, interleaved and zero-bubble ones. "
                  "Losses and weights are bitwise equal for every number of stages and every "
                  "schedule.",
                  out);
    fputs(".SH COMMANDS\n", out);
    for (const pst_cli_command *c = commands; c->name; c++) {
        fprintf(out, ".TP\n.BR penstock\\-%s (1)\n", c->name);
        put_paragraph(c->help, out);
    }
    fputs(".SH OPTIONS\n", out);
    put_help_option(out);
    fputs(".TP\n\\fB\\-\\-version\\fR\nPrint the version and exit.\n", out);
    put_exit_status(out);
    put_see_also(commands, NULL, out);
}

void pst_cli_manual(const pst_cli_command *commands, const pst_cli_command *command, FILE *out) {
    if (command) pst_cli_describe(command, put_command, &(page){commands, out});
    else put_program(commands, out);
}

/* --- the run file ----------------------------------------------------------------------------- */

static void put_key(const pst_config_key *key, FILE *out) {
    char text[512];
    fputs(".TP\n.B ", out);
    put(key->key, out);
    fputc('\n', out);
    put_paragraph(key->help, out);
    const char *fallback = key->fallback ? key->fallback : "", *what = "required";
    if (key->fallback) what = *fallback ? "default " : "empty by default";
    snprintf(text, sizeof text, "Expected: %s; %s%s%s%s.", key->expects, what, fallback,
             *key->readers ? "; only with " : "", key->readers);
    fputs(".br\n", out);
    put_paragraph(text, out);
    if (!key->former_name) return;
    snprintf(text, sizeof text, "Formerly %s, which is still accepted.", key->former_name);
    fputs(".br\n", out);
    put_paragraph(text, out);
}

void pst_cli_manual_keys(const pst_cli_command *commands, FILE *out) {
    const char *section = NULL;
    pst_config_key key = {.size = sizeof key};
    put_head("penstock.yaml", 5, "run file of penstock", out);
    fputs(".SH DESCRIPTION\n", out);
    put_paragraph(
        "A run file is a YAML file with the settings of a run: model, data, training and "
        "parallelism. Every key has a default unless it is marked as required. An unknown key, a "
        "wrong type, a value out of range, or a key that the kind of model or data does not use is "
        "an error; the message gives line and column. Sections can be nested: a.b below is section "
        "b "
        "of section a.",
        out);
    fputs(".SH KEYS\n", out);
    for (size_t i = 0; pst_config_key_at(i, &key); i++) {
        if (!section || strcmp(section, key.section))
            fprintf(out, ".SS %s\n", *key.section ? key.section : "Top level");
        section = key.section;
        put_key(&key, out);
    }
    fputs(".SH EXAMPLES\n.EX\n"
          "name: shakespeare\n"
          "model:      {kind: gpt, preset: nano}\n"
          "data:       {kind: text, paths: [\"texts/**/*.txt\"]}\n"
          "train:      {steps: 3000, batch: 32, micro_batch: 4, lr: 1.0e\\-3}\n"
          "eval:       {every: 500, sets: {novels: \"novels/*.txt\"}}\n"
          "parallel:   {pipeline: 2, schedule: 1f1b}\n"
          "checkpoint: {every: 500, keep: 3}\n"
          ".EE\n",
          out);
    put_see_also(commands, "", out);
}
