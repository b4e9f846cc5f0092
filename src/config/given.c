/* Which keys a run file or its overrides give, and keys that another file, a plan, settles. */
#include "config/config.h"
#include "config/rows.h"
#include <stdlib.h>
#include <string.h>

int pst_config_given(const pst_config *config, const char *section, const char *key) {
    const pst_row *row = pst_row_find(section, key);
    return row && config->given[row - pst_rows];
}

int pst_config_is_auto(const pst_config *config) { return !strcmp(config->parallel.plan, "auto"); }

void pst_config_forget(pst_config *config, const char *section, const char *key) {
    const pst_row *row = pst_row_find(section, key);
    if (row) config->given[row - pst_rows] = 0;
}

/* The value as it would stand in a run file; the caller's. NULL: no memory. */
static char *value_of(const pst_row *row, const pst_config *config) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    pst_row_print(row, config, f);
    return fclose(f) ? free(text), NULL : text;
}

static pst_status set(const pst_row *row, pst_config *config, const char *text) {
    return row->type == PST_ROW_LIST && *text == '[' ? pst_document_read_list(row, config, text)
                                                     : pst_row_set(row, config, text);
}

pst_status pst_config_settle(pst_config *config, const char *section, const char *key, const char *text,
                             const char *who) {
    const pst_row *row = pst_row_find(section, key);
    if (!row) return pst_fail(PST_EINTERNAL, "there is no key %s.%s", section, key);
    int given = config->given[row - pst_rows];
    char *was = value_of(row, config);
    pst_status status = was ? set(row, config, text) : pst_fail(PST_ENOMEM, "no memory for the configuration");
    char *is = status == PST_OK ? value_of(row, config) : NULL;
    if (status == PST_OK && !is) status = pst_fail(PST_ENOMEM, "no memory for the configuration");
    if (status == PST_OK && given && strcmp(was, is))
        status = pst_fail(PST_EINPUT, "%s.%s is given as %s, but %s says %s; leave one of the two out", section, key,
                          was, who, is);
    if (status == PST_OK && !given) config->given[row - pst_rows] = 2;
    free(was), free(is);
    return status;
}
