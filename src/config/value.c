/* A row's value as text: set from it after checks of range and choice, and printed as YAML that
 * reads back the same. */
#include "config/number.h"
#include "config/rows.h"
#include "config/yaml.h"
#include "penstock/option.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char **text_of(const pst_row *row, const pst_config *config) {
    return (char **)((char *)(uintptr_t)config + row->offset);
}

static uint32_t *count_of(const pst_row *row, const pst_config *config) {
    return (uint32_t *)((char *)(uintptr_t)config + row->count);
}

pst_status pst_row_refuse(const pst_row *row, const char *found) {
    char expects[PST_ROW_TEXT_BYTES];
    return pst_fail(PST_EINPUT, "expected %s, found %s", pst_row_expects(row, expects), found);
}

/* EINPUT: quotes the text, cut at the start of a character if it is long. */
static pst_status refuse_text(const pst_row *row, const char *text) {
    char found[100];
    size_t n = strnlen(text, 61), cut = n > 60 ? 57 : n;
    while (n > 60 && cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80) cut--;
    snprintf(found, sizeof found, "'%.*s%s'", (int)cut, text, n > 60 ? "..." : "");
    return pst_row_refuse(row, n ? found : "an empty string");
}

static int in_range(const pst_row *row, double value) {
    if (row->flags & PST_ROW_ABOVE ? value <= row->min : value < row->min) return 0;
    return row->flags & PST_ROW_BELOW ? value < row->max : value <= row->max;
}

/* Only strings that YAML can hold are accepted, so that every configuration can be printed:
 * UTF-8 without zero bytes. */
static int is_utf8(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        unsigned more = 9;
        if (*at < 0x80) more = 0;
        else if (*at >= 0xc2 && *at < 0xe0) more = 1;
        else if (*at >= 0xe0 && *at < 0xf0) more = 2;
        else if (*at >= 0xf0 && *at < 0xf5) more = 3;
        uint32_t code = *at++ & (0x7f >> (more + (more > 0)));
        if (more == 9) return 0;
        for (unsigned i = 0; i < more; i++, at++) {
            if ((*at & 0xc0) != 0x80) return 0;
            code = code << 6 | (*at & 0x3f);
        }
        if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000)) return 0;
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    }
    return 1;
}

int pst_row_has_counted(const pst_row *row) { return row->allowed && strchr(row->allowed, '{'); }

/* Splits "{name: count}". */
static int read_counted(const char *text, char name[16], char count[16]) {
    int end = 0;
    return sscanf(text, "{ %15[a-z] : %15[a-z0-9] } %n", name, count, &end) == 2 && end &&
           !text[end];
}

/* Whether the text is "{name: N}" as in `allowed`, with a number within the row's range or auto. */
static int is_counted(const pst_row *row, const char *text) {
    char name[16], count[16], start[20];
    int64_t whole;
    if (!pst_row_has_counted(row) || !read_counted(text, name, count)) return 0;
    snprintf(start, sizeof start, "{%s: ", name);
    return strstr(row->allowed, start) &&
           (!strcmp(count, "auto") ||
            (pst_number_whole(count, &whole) && whole >= row->min && whole <= row->max));
}

static pst_status check_choice(const pst_row *row, const char *text) {
    char copy[PST_ROW_TEXT_BYTES], *rest = copy, *item;
    const char *names[16];
    size_t n = 0;
    if (is_counted(row, text)) return PST_OK;
    snprintf(copy, sizeof copy, "%s", row->allowed);
    while (n < 16 && (item = strsep(&rest, "|"))) {
        if (strchr(item, '{')) continue;
        if (strcmp(item, text) == 0) return PST_OK;
        names[n++] = item;
    }
    const char *near = pst_did_you_mean(text, names, n),
               *foreign = pst_row_foreign_value(row, text);
    refuse_text(row, text);
    if (foreign) return pst_fail(PST_EINPUT, "%s; %s", pst_error(), foreign);
    return near ? pst_fail(PST_EINPUT, "%s; did you mean '%s'?", pst_error(), near) : PST_EINPUT;
}

/* Checks "name=text": the name must be usable in a key's path. */
static pst_status check_named(const pst_row *row, const char *text) {
    char name[100];
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    if (!n || n > PST_ROW_ITEM_BYTES || text[n] != '=') return refuse_text(row, name);
    return text[n + 1] ? PST_OK : refuse_text(row, text + n + 1);
}

pst_status pst_row_check_text(const pst_row *row, const char *text) {
    int64_t whole;
    if (row->type == PST_ROW_WHOLES)
        return pst_number_whole(text, &whole) && in_range(row, (double)whole)
                   ? PST_OK
                   : refuse_text(row, text);
    if (!is_utf8(text)) return pst_row_refuse(row, "bytes that are not UTF-8");
    if (row->type == PST_ROW_NAMED) return check_named(row, text);
    if (row->allowed) return check_choice(row, text);
    return (row->flags & PST_ROW_FILLED) && !*text ? refuse_text(row, text) : PST_OK;
}

static pst_status set_text(const pst_row *row, pst_config *config, const char *text) {
    PST_TRY(pst_row_check_text(row, text));
    char *copy = strdup(text);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    free(*text_of(row, config));
    *text_of(row, config) = copy;
    return PST_OK;
}

void pst_row_clear(const pst_row *row, pst_config *config) {
    char ***items = (char ***)((char *)config + row->offset);
    for (uint32_t i = 0; i < *count_of(row, config); i++) free((*items)[i]);
    free(*items);
    *items = NULL;
    *count_of(row, config) = 0;
}

void pst_row_drop(const pst_row *row, pst_config *config, const char *name) {
    char **item = *(char ***)((char *)config + row->offset);
    size_t bytes = strlen(name);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count_of(row, config); i++) {
        if (strncmp(item[i], name, bytes) == 0 && item[i][bytes] == '=') free(item[i]);
        else item[kept++] = item[i];
    }
    *count_of(row, config) = kept;
}

pst_status pst_row_add(const pst_row *row, pst_config *config, const char *text) {
    char ***items = (char ***)((char *)config + row->offset);
    uint32_t n = *count_of(row, config);
    char number[PST_NUMBER_BYTES], name[16], count[16], counted[40];
    int64_t whole;
    PST_TRY(pst_row_check_text(row, text));
    if (pst_row_has_counted(row) && read_counted(text, name, count)) {
        snprintf(counted, sizeof counted, "{%s: %s}", name, count);
        text = counted;
    }
    if (row->type == PST_ROW_WHOLES && pst_number_whole(text, &whole)) {
        snprintf(number, sizeof number, "%lld", (long long)whole);
        text = number;
    }
    char *copy = strdup(text), **grown = copy && (n & (n - 1)) ? *items : NULL;
    if (copy && !grown)
        grown = realloc(*items, (n ? 2 * (size_t)n : 1) * sizeof *grown); /* the list grows at
                                                                             powers of two */
    if (!grown) {
        free(copy);
        return pst_fail(PST_ENOMEM, "no memory for the configuration");
    }
    grown[n] = copy;
    *items = grown;
    *count_of(row, config) = n + 1;
    return PST_OK;
}

pst_status pst_row_set(const pst_row *row, pst_config *config, const char *text) {
    char *at = (char *)config + row->offset;
    int64_t whole;
    double real;
    const int word = row->type == PST_ROW_WHOLE || row->type == PST_ROW_REAL;
    if (word && row->allowed && strcmp(row->allowed, text) == 0) text = "0";
    switch (row->type) {
    case PST_ROW_WHOLE:
        if (!pst_number_whole(text, &whole) || !in_range(row, (double)whole))
            return refuse_text(row, text);
        *(int64_t *)at = whole;
        return PST_OK;
    case PST_ROW_REAL:
    case PST_ROW_BYTES:
        if (!(row->type == PST_ROW_REAL ? pst_number_real : pst_number_bytes)(text, &real) ||
            !in_range(row, real))
            return refuse_text(row, text);
        *(double *)at = real;
        return PST_OK;
    case PST_ROW_SECONDS:
        if (!pst_number_seconds(text, &real) || !in_range(row, real)) return refuse_text(row, text);
        *(double *)at = real;
        return PST_OK;
    case PST_ROW_STEPS:
        if (pst_number_whole(text, &whole) && in_range(row, (double)whole))
            *(double *)at = (double)whole;
        else if (pst_number_share(text, &real)) *(double *)at = real > 0 ? -real : 0;
        else return refuse_text(row, text);
        return PST_OK;
    case PST_ROW_TEXT: return set_text(row, config, text);
    case PST_ROW_LIST:
    case PST_ROW_WHOLES:
        PST_TRY(pst_row_check_text(row, text));
        pst_row_clear(row, config);
        return pst_row_add(row, config, text);
    case PST_ROW_NAMED: return refuse_text(row, text);
    }
    return pst_fail(PST_EINTERNAL, "option row of unknown type");
}

void pst_row_resolve(pst_config *config) {
    int64_t whole;
    config->parallel.tensor = 0;
    for (uint32_t i = 0; i < config->parallel.n_tensors; i++)
        if (pst_number_whole(config->parallel.tensors[i], &whole) &&
            whole > config->parallel.tensor)
            config->parallel.tensor = whole;
}

/* Words that other YAML readers do not take as strings. */
static int needs_quotes(const char *text) {
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return 1;
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *text) || !*text) return 1;
    return text[strspn(text,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+")] != 0;
}

/* Prints one UTF-8 character (check_text has checked it); returns where the next one starts. */
static const char *print_character(const char *text, FILE *out) {
    unsigned char lead = (unsigned char)*text;
    unsigned more = (lead >= 0x80) + (lead >= 0xe0) + (lead >= 0xf0);
    uint32_t code = more ? lead & (0x3f >> more) : lead;
    for (unsigned i = 1; i <= more; i++) code = code << 6 | ((unsigned char)text[i] & 0x3f);
    int raw =
        code < 0x7f ? code >= 0x20 : code >= 0xa0 && code != 0xfeff && (code & 0xfffe) != 0xfffe;
    if (code == '"' || code == '\\') fprintf(out, "\\%c", (int)code);
    else if (raw && code != 0x2028 && code != 0x2029) /* both end a line in YAML */
        fwrite(text, 1, more + 1, out);
    else if (code < 0x100) fprintf(out, "\\x%02x", (unsigned)code);
    else fprintf(out, code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    return text + more + 1;
}

void pst_yaml_print_text(const char *text, FILE *out) {
    if (!needs_quotes(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    while (*text) text = print_character(text, out);
    fputc('"', out);
}

static void print_plain(const char *text, FILE *out) { fputs(text, out); }

/* For people: without quotes, on one line. */
static void show_text(const char *text, FILE *out) {
    for (; *text; text++) fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

typedef void (*printer)(const char *text, FILE *out);

static void print_items(const pst_row *row, const pst_config *config, printer print, FILE *out) {
    char **item = *(char **const *)((const char *)config + row->offset);
    fputc('[', out);
    for (uint32_t i = 0; i < *count_of(row, config); i++) {
        fputs(i ? ", " : "", out);
        if (pst_row_has_counted(row)) fputs(item[i], out); /* without quotes, also {NAME: NUMBER} */
        else print(item[i], out);
    }
    fputc(']', out);
}

/* Prints a list for each name. */
static void print_named(const pst_row *row, const pst_config *config, printer print, FILE *out) {
    char **item = *(char **const *)((const char *)config + row->offset);
    size_t last = 0;
    fputc('{', out);
    for (uint32_t i = 0; i < *count_of(row, config); i++) {
        size_t n = strcspn(item[i], "=");
        int more = i && n == last && strncmp(item[i], item[i - 1], n) == 0;
        char name[PST_ROW_ITEM_BYTES + 1];
        snprintf(name, sizeof name, "%.*s", (int)n, item[i]);
        if (i) fputs(more ? ", " : "], ", out);
        if (!more) {
            print(name, out);
            fputs(": [", out);
        }
        print(item[i] + n + 1, out);
        last = n;
    }
    fputs(*count_of(row, config) ? "]}" : "}", out);
}

/* 1 would mean one step: all steps are 100%. */
static void print_steps(double value, FILE *out) {
    char number[PST_NUMBER_BYTES];
    if (value <= -1) fputs("100%", out);
    else fputs(pst_number_print(fabs(value), number), out);
}

static void print_row(const pst_row *row, const pst_config *config, printer print, FILE *out) {
    const char *at = (const char *)config + row->offset;
    char number[PST_NUMBER_BYTES];
    switch (row->type) {
    case PST_ROW_WHOLE:
        if (row->allowed && !*(const int64_t *)at) fputs(row->allowed, out);
        else fprintf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case PST_ROW_REAL:
        if (row->allowed && !(*(const double *)at > 0)) fputs(row->allowed, out);
        else fputs(pst_number_print(*(const double *)at, number), out);
        break;
    case PST_ROW_SECONDS:
    case PST_ROW_BYTES: fputs(pst_number_print(*(const double *)at, number), out); break;
    case PST_ROW_STEPS: print_steps(*(const double *)at, out); break;
    case PST_ROW_TEXT: print(*text_of(row, config), out); break;
    case PST_ROW_NAMED: print_named(row, config, print, out); break;
    case PST_ROW_LIST: print_items(row, config, print, out); break;
    case PST_ROW_WHOLES:
        if (*count_of(row, config) == 1) fputs(**(char **const *)at, out);
        else print_items(row, config, print_plain, out);
        break;
    }
}

void pst_row_print(const pst_row *row, const pst_config *config, FILE *out) {
    print_row(row, config, pst_yaml_print_text, out);
}

void pst_row_show(const pst_row *row, const pst_config *config, FILE *out) {
    print_row(row, config, show_text, out);
}
