/* Which keys a run file or its overrides give, and setting keys from a plan. */
#include "config/config.h"
#include "config/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pst_config_given(const pst_config *config, const char *section, const char *key) {
    const pst_row *row = pst_row_find(section, key);
    return row && config->given[row - pst_rows];
}

int pst_config_overridden(const pst_config *config, const char *section, const char *key) {
    const pst_row *row = pst_row_find(section, key);
    return row && config->given[row - pst_rows] == PST_GIVEN_BY_OVERRIDE;
}

pst_status pst_config_at(const pst_config *config, const char *section, const char *key,
                         pst_status status) {
    const pst_row *row = pst_row_find(section, key);
    const char *place = row ? config->place[row - pst_rows] : NULL;
    return status != PST_OK && place ? pst_fail_in(status, "%s", place) : status;
}

int pst_config_is_auto(const pst_config *config) { return !strcmp(config->parallel.plan, "auto"); }

int pst_config_chooses_layers(const char *recompute) { return !strcmp(recompute, "{full: auto}"); }

void pst_config_leave_open(pst_config *config, const char *section, const char *key) {
    const pst_row *row = pst_row_find(section, key);
    if (row) config->given[row - pst_rows] = 0;
}

int pst_config_has_tokenizer(const pst_config *config) {
    return strcmp(config->data.tokenizer, "byte") != 0; /* kinds without tokens refuse the key */
}

/* The value as written in a run file, owned by the caller. NULL: no memory. */
static char *value_of(const pst_row *row, const pst_config *config) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    pst_row_print(row, config, f);
    if (!fclose(f)) return text;
    free(text);
    return NULL;
}

static pst_status set(const pst_row *row, pst_config *config, const char *text) {
    PST_TRY(pst_row_override(row, config, NULL, text));
    pst_row_resolve(config);
    return PST_OK;
}

pst_status pst_config_set_from_plan(pst_config *config, const char *section, const char *key,
                                    const char *text, const char *who) {
    const pst_row *row = pst_row_find(section, key);
    if (!row) return pst_fail(PST_EINTERNAL, "there is no key %s.%s", section, key);
    int given = config->given[row - pst_rows];
    char *was = value_of(row, config);
    pst_status status =
        was ? set(row, config, text) : pst_fail(PST_ENOMEM, "no memory for the configuration");
    char *is = status == PST_OK ? value_of(row, config) : NULL;
    if (status == PST_OK && !is) status = pst_fail(PST_ENOMEM, "no memory for the configuration");
    if (status == PST_OK && given && strcmp(was, is))
        status =
            pst_fail(PST_EINPUT, "%s.%s is given as %s, but %s says %s; leave out one of the two",
                     section, key, was, who, is);
    if (status == PST_OK && !given) config->given[row - pst_rows] = PST_GIVEN_BY_PLAN;
    free(was);
    free(is);
    return status;
}

pst_status pst_config_override(pst_config *config, const char *section, const char *key,
                               const char *text) {
    const pst_row *row = pst_row_find(section, key);
    if (!row) return pst_fail(PST_EINTERNAL, "there is no key %s.%s", section, key);
    PST_TRY(set(row, config, text));
    config->given[row - pst_rows] = PST_GIVEN_BY_OVERRIDE;
    return PST_OK;
}

/* The value as written in an override: plain strings, lists in brackets. NULL: no memory. */
static char *override_of(const pst_row *row, const pst_config *config) {
    const char *raw =
        row->type == PST_ROW_TEXT ? *(char *const *)((const char *)config + row->offset) : NULL;
    char *value = NULL, *text = NULL;
    if (!raw) value = value_of(row, config);
    else if (*raw && row->flags & PST_ROW_PATH) value = realpath(raw, NULL);
    if (raw && !value) value = strdup(raw);
    if (value &&
        asprintf(&text, "%s%s%s=%s", row->section, *row->section ? "." : "", row->key, value) < 0)
        text = NULL;
    free(value);
    return text;
}

pst_status pst_config_overrides(const pst_config *config, char ***override, uint32_t *n) {
    char **list = calloc(pst_n_row, sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < pst_n_row; i++) {
        if (config->given[i] != PST_GIVEN_BY_OVERRIDE) continue;
        if ((list[*n] = override_of(&pst_rows[i], config))) {
            ++*n;
            continue;
        }
        while (*n) free(list[--*n]);
        free(list);
        list = NULL;
    }
    if (!list) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    *override = list;
    return PST_OK;
}
