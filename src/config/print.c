/* The resolved copy of a configuration, and the table of keys for --help. */
#include "base/sized.h"
#include "config/rows.h"
#include <errno.h>
#include <string.h>

enum { HELP_COLUMN = 19 };

/* A key that an automatic plan has set: left out, because the next start plans again. */
static int is_open(const pst_row *row, const pst_config *config) {
    static const char *const planned[] = {"pipeline", "tensor",    "sequence",   "data",
                                          "zero",     "replicas",  "devices",    "chunks",
                                          "schedule", "recompute", "micro_batch"};
    uint8_t by = config->given[row - pst_rows];
    int of_user = by == PST_GIVEN_BY_FILE || by == PST_GIVEN_BY_OVERRIDE;
    if (!pst_config_is_auto(config) || of_user || strchr(row->section, '.')) return 0;
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
        if (!strcmp(row->key, planned[i])) return 1;
    return 0;
}

/* train.steps follows from train.tokens or train.epochs. */
static int follows(const pst_row *row, const pst_config *config) {
    return row->offset == offsetof(struct pst_config, train.steps) &&
           (config->train.tokens || config->train.epochs > 0);
}

/* Length of the common start of two section paths, in whole parts. */
static size_t common(const char *a, const char *b) {
    size_t n = 0;
    for (size_t i = 0;; i++) {
        if (strchr(".", a[i]) && strchr(".", b[i])) n = i;
        if (!a[i] || a[i] != b[i]) return n;
    }
}

static int depth_of(const char *section) {
    int depth = *section != 0;
    for (; *section; section++) depth += *section == '.';
    return depth;
}

/* Prints the headings of the sections that lead from one section to the other. */
static void print_heads(const char *from, const char *to, FILE *out) {
    size_t at = common(from, to);
    for (at += to[at] == '.'; to[at]; at += to[at] == '.') {
        size_t n = strcspn(to + at, ".");
        char above[PST_ROW_NAME_BYTES];
        snprintf(above, sizeof above, "%.*s", (int)(at ? at - 1 : 0), to);
        fprintf(out, "%*s%.*s:\n", 2 * depth_of(above), "", (int)n, to + at);
        at += n;
    }
}

pst_status pst_config_print(const pst_config *config, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        print_heads(section, row->section, out);
        section = row->section;
        if (is_open(row, config) || !pst_row_is_used(row, config) || follows(row, config)) continue;
        fprintf(out, "%*s%s: ", 2 * depth_of(section), "", row->key);
        pst_row_print(row, config, out);
        fputc('\n', out);
    }
    if (fflush(out) != 0 || ferror(out))
        return pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno));
    return PST_OK;
}

void pst_config_print_paths(const pst_config *config, FILE *out) {
    char name[PST_ROW_TEXT_BYTES];
    for (size_t i = 0; i < pst_n_row; i++) {
        if (is_open(&pst_rows[i], config)) continue;
        fprintf(out, "%s: ", pst_row_name(&pst_rows[i], name));
        pst_row_print(&pst_rows[i], config, out);
        fputc('\n', out);
    }
}

/* Whether another value of the key changes the course of training. */
static int affects_training(const pst_row *row) {
    static const char *const monitoring[] = {"non_finite", "hang_factor", "hang_slack", "log_every",
                                             "time_limit"};
    for (size_t i = 0; i < sizeof monitoring / sizeof *monitoring; i++)
        if (!strcmp(row->key, monitoring[i])) return 0;
    return !strcmp(row->section, "train") || !strncmp(row->section, "parallel.local", 14) ||
           !strcmp(row->section, "parallel.compress") || !strcmp(row->key, "update") ||
           !strcmp(row->key, "staleness") || !strcmp(row->key, "dropout") ||
           !strcmp(row->key, "attention_dropout");
}

static int same_list(const pst_row *row, const pst_config *a, const pst_config *b) {
    char **x = *(char **const *)((const char *)a + row->offset);
    char **y = *(char **const *)((const char *)b + row->offset);
    uint32_t n = *(const uint32_t *)((const char *)a + row->count);
    if (n != *(const uint32_t *)((const char *)b + row->count)) return 0;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(x[i], y[i]) != 0) return 0;
    return 1;
}

static int is_same(const pst_row *row, const pst_config *a, const pst_config *b) {
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    if (pst_row_is_list(row)) return same_list(row, a, b);
    if (row->type == PST_ROW_TEXT) return !strcmp(*(char *const *)x, *(char *const *)y);
    return !memcmp(x, y, row->type == PST_ROW_WHOLE ? sizeof(int64_t) : sizeof(double));
}

void pst_config_print_changes(const pst_config *was, const pst_config *is, FILE *out) {
    const char *comma = "";
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        if (!affects_training(row) || is_open(row, was) || is_same(row, was, is)) continue;
        fprintf(out, "%s%s.%s ", comma, row->section, row->key);
        pst_row_print(row, was, out);
        fputs(" -> ", out);
        pst_row_print(row, is, out);
        comma = ", ";
    }
}

/* ENOMEM leaves the text empty. */
static void show_value(const pst_row *row, const pst_config *c, char text[PST_CONFIG_SHOWN + 1]) {
    memset(text, 0, PST_CONFIG_SHOWN + 1);
    FILE *f = fmemopen(text, PST_CONFIG_SHOWN, "w");
    if (!f) return;
    if (is_open(row, c)) fputs("auto", f);
    else pst_row_show(row, c, f);
    fclose(f);
}

void pst_config_show_differences(const pst_config *a, const pst_config *b, pst_config_show_fn show,
                                 void *arg) {
    char name[PST_ROW_TEXT_BYTES], x[PST_CONFIG_SHOWN + 1], y[PST_CONFIG_SHOWN + 1];
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        const int open = is_open(row, a);
        if (open != is_open(row, b) || (!open && !is_same(row, a, b))) {
            show_value(row, a, x);
            show_value(row, b, y);
            show(arg, pst_row_name(row, name), x, y);
        }
    }
}

int pst_config_key_at(size_t i, pst_config_key *key) {
    char expects[PST_ROW_TEXT_BYTES];
    if (i >= pst_n_row) return 0;
    const pst_row *row = &pst_rows[i];
    pst_config_key k = {.section = row->section, .key = row->key, .help = row->help};
    if (row->type != PST_ROW_WHOLE && row->type != PST_ROW_REAL) k.allowed = row->allowed;
    if (!(row->flags & PST_ROW_REQUIRED)) k.fallback = row->fallback ? row->fallback : "";
    k.is_path = (row->flags & PST_ROW_PATH) != 0;
    k.short_name = *row->section && pst_row_is_short(row) ? row->key : NULL;
    k.former_name = row->former_name;
    snprintf(k.expects, sizeof k.expects, "%s", pst_row_expects(row, expects));
    snprintf(k.readers, sizeof k.readers, "%s", pst_row_used_with(row, expects));
    return pst_sized_give("pst_config_key_at", &k, sizeof k, key) == PST_OK;
}

static void print_help(const pst_row *row, FILE *out) {
    char expects[PST_ROW_TEXT_BYTES];
    char values[PST_ROW_TEXT_BYTES];
    char text[2 * PST_ROW_TEXT_BYTES];
    const char *former = row->former_name;
    int at = fprintf(out, "%s%-*s ", *row->section ? "  " : "", *row->section ? 16 : 18, row->key);
    snprintf(text, sizeof text, "%s%s%s%s", row->help, former ? " Formerly " : "",
             former ? former : "", former ? ", which is still accepted." : "");
    pst_option_print_wrapped(text, at, HELP_COLUMN, out);
    const char *fallback = row->fallback && *row->fallback ? row->fallback : "empty";
    int required = (row->flags & PST_ROW_REQUIRED) != 0;
    snprintf(text, sizeof text, "%s; %s%s%s%s", pst_row_expects(row, expects),
             required ? "required" : "default ", required ? "" : fallback,
             *pst_row_used_with(row, values) ? "; only with " : "", values);
    fprintf(out, "\n%*s", HELP_COLUMN, "");
    pst_option_print_wrapped(text, HELP_COLUMN, HELP_COLUMN, out);
    fputc('\n', out);
}

void pst_config_help(FILE *out) {
    const char *section = "";
    fputs(
        "Keys of the run file; on the command line section.key=value, or key=value if only one "
        "section has it.\ninclude: FILE, or a list, reads other run files first; the keys of this "
        "file replace theirs.\n",
        out);
    for (size_t i = 0; i < pst_n_row; i++) {
        if (strcmp(section, pst_rows[i].section) != 0) fprintf(out, "\n%s:\n", pst_rows[i].section);
        section = pst_rows[i].section;
        print_help(&pst_rows[i], out);
    }
}
