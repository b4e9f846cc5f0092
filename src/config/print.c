/* The resolved copy of a configuration, and the table of keys for --help. */
#include "base/sized.h"
#include "config/rows.h"
#include <errno.h>
#include <string.h>

pst_status pst_config_print(const pst_config *config, FILE *out) {
    const char *section = "";
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        if (strcmp(section, row->section) != 0) fprintf(out, "%s:\n", row->section);
        section = row->section;
        fprintf(out, "%s%s: ", *section ? "  " : "", row->key);
        pst_row_print(row, config, out);
        fputc('\n', out);
    }
    if (fflush(out) != 0 || ferror(out)) return pst_fail(PST_ENOMEM, "cannot write run.yaml: %s", strerror(errno));
    return PST_OK;
}

int pst_config_key_at(size_t i, pst_config_key *key) {
    char expects[PST_ROW_TEXT_BYTES];
    if (i >= pst_n_row) return 0;
    const pst_row *row = &pst_rows[i];
    pst_config_key k = {.section = row->section, .key = row->key, .help = row->help, .allowed = row->allowed};
    k.fallback = row->flags & PST_ROW_REQUIRED ? NULL : row->fallback ? row->fallback : "";
    k.is_path = (row->flags & PST_ROW_PATH) != 0;
    snprintf(k.expects, sizeof k.expects, "%s", pst_row_expects(row, expects));
    return pst_sized_give("pst_config_key_at", &k, sizeof k, key) == PST_OK;
}

void pst_config_help(FILE *out) {
    const char *section = "";
    fputs("Keys of a run file; on the command line as section.key=value, or key=value where only one section has it.\n",
          out);
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row *row = &pst_rows[i];
        char expects[PST_ROW_TEXT_BYTES];
        if (strcmp(section, row->section) != 0) fprintf(out, "\n%s:\n", row->section);
        section = row->section;
        const char *indent = *section ? "  " : "";
        fprintf(out, "%s%-*s %s\n", indent, *section ? 16 : 18, row->key, row->help);
        fprintf(out, "%19s%s; ", "", pst_row_expects(row, expects));
        if (row->flags & PST_ROW_REQUIRED) fputs("required\n", out);
        else fprintf(out, "default %s\n", *row->fallback ? row->fallback : "empty");
    }
}
