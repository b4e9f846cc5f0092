/* Finds the row that a name means: section and key in a file, a full path or a short key on the
 * command line. Also what values a row takes, and suggestions for unknown names. */
#include "config/number.h"
#include "config/rows.h"
#include "penstock/option.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { NAME = PST_ROW_NAME_BYTES };

const pst_row *pst_row_find(const char *section, const char *key) {
    for (size_t i = 0; i < pst_n_row; i++)
        if (strcmp(pst_rows[i].section, section) == 0 && strcmp(pst_rows[i].key, key) == 0)
            return &pst_rows[i];
    return NULL;
}

const pst_row *pst_row_find_any(const char *section, const char *key) {
    char name[NAME];
    const pst_row *row = pst_row_find(section, key);
    snprintf(name, sizeof name, "%s.%s", section, key);
    for (size_t i = 0; !row && i < pst_n_row; i++)
        if (pst_rows[i].former_name && strcmp(pst_rows[i].former_name, name) == 0)
            row = &pst_rows[i];
    return row;
}

int pst_row_is_section(const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; n && i < pst_n_row; i++)
        if (strncmp(pst_rows[i].section, name, n) == 0 && strchr(".", pst_rows[i].section[n]))
            return 1;
    return 0;
}

/* Whether the key alone, without its section, may name the row. */
static int can_be_short(const pst_row *row) {
    return !(row->flags & PST_ROW_FULL) && !strchr(row->section, '.');
}

/* The first row with this short key, NULL: none; *n: number of such rows. */
static const pst_row *find_short(const char *key, int *n) {
    const pst_row *first = NULL;
    *n = 0;
    for (size_t i = 0; i < pst_n_row; i++) {
        if (!can_be_short(&pst_rows[i]) || strcmp(pst_rows[i].key, key) != 0) continue;
        if (!first) first = &pst_rows[i];
        ++*n;
    }
    return first;
}

int pst_row_is_short(const pst_row *row) {
    int n;
    return find_short(row->key, &n) == row && n == 1;
}

static void PST_PRINTF(2, 3) append(char out[PST_ROW_TEXT_BYTES], const char *fmt, ...) {
    size_t used = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + used, PST_ROW_TEXT_BYTES - used, fmt, args);
    va_end(args);
}

static void append_range(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    char min[PST_NUMBER_BYTES], max[PST_NUMBER_BYTES];
    int above = (row->flags & PST_ROW_ABOVE) != 0, below = (row->flags & PST_ROW_BELOW) != 0;
    pst_number_print(row->min, min);
    pst_number_print(row->max, max);
    int endless = (row->type == PST_ROW_REAL || row->type == PST_ROW_BYTES) && row->max >= 1e12;
    if (row->type == PST_ROW_WHOLE && isinf(row->max))
        snprintf(max, sizeof max, "%" PRId64, INT64_MAX);
    if (endless) append(out, " %s %s", above ? ">" : ">=", min);
    else if (!above && !below) append(out, " from %s to %s", min, max);
    else append(out, " %s %s and %s %s", above ? ">" : ">=", min, below ? "<" : "<=", max);
}

const char *pst_row_expects(const pst_row *row, char out[PST_ROW_TEXT_BYTES]) {
    static const char *const kinds[] = {
        [PST_ROW_WHOLE] = "a whole number",
        [PST_ROW_REAL] = "a number",
        [PST_ROW_BYTES] = "a number of bytes such as 512M or 8G",
        [PST_ROW_SECONDS] = "a time such as 8h, 1h30m or 3600 (seconds)",
        [PST_ROW_STEPS] =
            "a number of steps such as 20, or a share of all steps such as 0.05 or 5%",
        [PST_ROW_TEXT] = "a string",
        [PST_ROW_LIST] = "a string or a list of strings",
        [PST_ROW_WHOLES] = "a whole number",
        [PST_ROW_NAMED] = "names (letters, digits, _ and -) with paths, such as {wiki: wiki.txt, "
                          "code: [a.c, b.c]}",
    };
    out[0] = 0;
    const int word = row->type == PST_ROW_WHOLE || row->type == PST_ROW_REAL;
    append(out, "%s", row->allowed && !word ? "" : kinds[row->type]);
    if (row->type == PST_ROW_WHOLE || row->type == PST_ROW_WHOLES || row->type == PST_ROW_REAL)
        append_range(row, out);
    if (row->type == PST_ROW_WHOLES) append(out, " or a list of them");
    if (!row->allowed) return out;
    if (word) append(out, ", or ");
    append(out, "%s", strchr(row->allowed, '|') ? "one of " : "");
    for (const char *at = row->allowed; *at; at++) append(out, *at == '|' ? ", " : "%c", *at);
    return out;
}

/* --- suggestions for unknown names
 * -------------------------------------------------------------- */

/* The part behind the last dot. */
static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Lists the keys of `section` and the sections in it; `storage` holds the sections' names. */
static size_t list_names(const char *section, const char *names[PST_ROWS_MAX],
                         char storage[PST_ROWS_MAX][NAME]) {
    size_t n = 0, in = strlen(section);
    for (size_t i = 0; i < pst_n_row; i++) {
        const char *of = pst_rows[i].section;
        if (strcmp(of, section) == 0) {
            names[n++] = pst_rows[i].key;
            continue;
        }
        if (strncmp(of, section, in) != 0 || (in && of[in] != '.')) continue;
        of += in + (in > 0);
        snprintf(storage[n], NAME, "%.*s", (int)strcspn(of, "."), of);
        if (n && strcmp(names[n - 1], storage[n]) == 0) continue;
        names[n] = storage[n];
        n++;
    }
    return n;
}

/* The path of a section whose last part is `name`, in `out`; 0: none. */
static int find_section(const char *name, char out[NAME]) {
    for (size_t i = 0; i < pst_n_row; i++) {
        snprintf(out, NAME, "%s", pst_rows[i].section);
        for (char *dot; (dot = strrchr(out, '.')); *dot = 0)
            if (strcmp(dot + 1, name) == 0) return 1;
    }
    return 0;
}

/* Writes "a.b.c" as "a: {b: {c: ...}}"; 0 if it is no path of a key or section. */
static int nested_form(const char *name, char out[PST_ROW_TEXT_BYTES]) {
    char section[NAME], path[PST_ROW_TEXT_BYTES];
    int depth = 0;
    if (!strchr(name, '.')) return 0;
    snprintf(section, sizeof section, "%.*s", (int)(last_part(name) - name) - 1, name);
    const pst_row *row = pst_row_find_any(section, last_part(name));
    if (!row && !pst_row_is_section(name)) return 0;
    if (row) name = pst_row_name(row, path); /* the present name */
    *out = 0;
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        append(out, "%.*s: {", (int)(dot - name), name);
        depth++;
    }
    append(out, "%s: ...", name);
    while (depth-- > 0) append(out, "}");
    return 1;
}

/* A key of another section by its present or former name; NULL: none. */
static const pst_row *find_elsewhere(const char *key) {
    for (size_t i = 0; i < pst_n_row; i++)
        if (strcmp(pst_rows[i].key, key) == 0) return &pst_rows[i];
    for (size_t i = 0; i < pst_n_row; i++)
        if (pst_rows[i].former_name && strcmp(last_part(pst_rows[i].former_name), key) == 0)
            return &pst_rows[i];
    return NULL;
}

static pst_status say_foreign(const char *key, const char *in, const char *meant,
                              const char *instead) {
    if (meant)
        return pst_fail(PST_EINPUT, "unknown key '%.60s'%s; did you mean '%s'?", key, in, meant);
    return pst_fail(PST_EINPUT, "unknown key '%.60s'%s: %s", key, in, instead);
}

pst_status pst_row_unknown(const char *section, const char *key) {
    const char *names[PST_ROWS_MAX], *near;
    char say[PST_ROW_TEXT_BYTES] = "", in[NAME + 8] = "", storage[PST_ROWS_MAX][NAME];
    const char *meant, *instead;
    const pst_row *elsewhere = find_elsewhere(key);
    if (!*section && nested_form(key, say))
        return pst_fail(PST_EINPUT, "unknown key '%s'; write it nested: %s", key, say);
    say[0] = 0;
    if (*section) snprintf(in, sizeof in, " in %s", section);
    if (find_section(key, say)) /* also where a deeper section has a key of this name */
        return pst_fail(PST_EINPUT, "unknown key '%s'%s; did you mean '%s'?", key, in, say);
    say[0] = 0;
    if (elsewhere)
        return pst_fail(PST_EINPUT, "unknown key '%s'%s; did you mean '%s'%s?", key, in,
                        pst_row_name(elsewhere, say),
                        *elsewhere->section ? "" : " at the top of the file");
    if (pst_row_foreign(key, &meant, &instead)) return say_foreign(key, in, meant, instead);
    size_t n = list_names(section, names, storage);
    if ((near = pst_did_you_mean(key, names, n)))
        return pst_fail(PST_EINPUT, "unknown key '%.60s'%s; did you mean '%s'?", key, in, near);
    for (size_t i = 0; i < n; i++) append(say, "%s%s", i ? ", " : "", names[i]);
    return pst_fail(PST_EINPUT, "unknown key '%.60s'%s; expected one of %s", key, in, say);
}

/* --- overrides -------------------------------------------------------------------------------- */

/* EINPUT for a full path that no row has: names its first wrong part. */
static pst_status unknown_path(const char *name) {
    char section[2 * NAME] = "", part[NAME], deeper[3 * NAME], full[PST_ROW_TEXT_BYTES];
    for (const char *at = name, *dot; (dot = strchr(at, '.')); at = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - at), at);
        snprintf(deeper, sizeof deeper, "%s%s%s", section, *section ? "." : "", part);
        const pst_row *row = pst_row_find_any(section, part);
        if (row && row->type == PST_ROW_NAMED)
            return pst_fail(PST_EINPUT, "expected %s.NAME=PATH", deeper);
        if (row) return pst_fail(PST_EINPUT, "%s is a key, not a section", deeper);
        if (!*section && (row = find_elsewhere(part)) && row->type == PST_ROW_NAMED)
            return pst_fail(PST_EINPUT, "unknown key '%s'; did you mean '%s.%.60s'?", part,
                            pst_row_name(row, full), dot[1] ? dot + 1 : "NAME");
        if (!pst_row_is_section(deeper)) return pst_row_unknown(section, part);
        snprintf(section, sizeof section, "%.*s", NAME, deeper); /* fits: it is a section's path */
    }
    return pst_row_unknown(section, last_part(name));
}

/* The NAMED row with this path: in an override, a name follows it. */
static const pst_row *find_named(const char *path) {
    char name[PST_ROW_TEXT_BYTES];
    for (size_t i = 0; i < pst_n_row; i++)
        if (pst_rows[i].type == PST_ROW_NAMED && !strcmp(pst_row_name(&pst_rows[i], name), path))
            return &pst_rows[i];
    return NULL;
}

static pst_status find_path(const char *name, const pst_row **row) {
    char section[NAME];
    snprintf(section, sizeof section, "%.*s", (int)(last_part(name) - name) - 1, name);
    *row = pst_row_find_any(section, last_part(name));
    if (!*row) *row = find_named(section);
    if (*row) return PST_OK;
    return pst_row_is_section(name) ? pst_fail(PST_EINPUT, "expected %s.KEY=VALUE", name)
                                    : unknown_path(name);
}

static pst_status unknown_short(const char *name) {
    const char *keys[PST_ROWS_MAX], *near, *meant, *instead;
    int n;
    char full[PST_ROW_TEXT_BYTES];
    const pst_row *row = find_elsewhere(name);
    if (row)
        return pst_fail(PST_EINPUT, "expected the key's full path, %s=VALUE",
                        pst_row_name(row, full));
    if (pst_row_is_section(name)) return pst_fail(PST_EINPUT, "expected %s.KEY=VALUE", name);
    if (pst_row_foreign(name, &meant, &instead)) return say_foreign(name, "", meant, instead);
    for (size_t i = 0; i < pst_n_row; i++) keys[i] = pst_rows[i].key;
    if (!(near = pst_did_you_mean(name, keys, pst_n_row)))
        return pst_fail(PST_EINPUT, "unknown key '%.60s'; penstock train --help lists all keys",
                        name);
    if (!find_short(near, &n)) near = pst_row_name(find_elsewhere(near), full);
    return pst_fail(PST_EINPUT, "unknown key '%.60s'; did you mean '%s'?", name, near);
}

static pst_status ambiguous(const char *key, const pst_row *first) {
    const pst_row *second = first + 1;
    while (!can_be_short(second) || strcmp(second->key, key) != 0) second++;
    return pst_fail(PST_EINPUT, "'%s' is ambiguous; write %s.%s or %s.%s", key, first->section, key,
                    second->section, key);
}

const char *pst_config_key_for(const char *name, const char **instead) {
    static _Thread_local char text[PST_ROW_TEXT_BYTES];
    const char *key = NULL;
    const pst_row *row = NULL;
    *instead = NULL;
    if (pst_row_find_override(name, &row) == PST_OK) return pst_row_name(row, text);
    pst_error_clear();
    return pst_row_foreign(name, &key, instead) ? key : NULL;
}

pst_status pst_row_find_override(const char *name, const pst_row **found) {
    int n;
    if (strchr(name, '.')) return find_path(name, found);
    const pst_row *row = find_short(name, &n);
    if (n > 1) return ambiguous(name, row);
    for (size_t i = 0; !row && i < pst_n_row; i++)
        if (pst_rows[i].former_name && strcmp(last_part(pst_rows[i].former_name), name) == 0)
            row = &pst_rows[i];
    *found = row;
    return row ? PST_OK : unknown_short(name);
}
