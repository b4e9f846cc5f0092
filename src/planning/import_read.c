/* See import.h: reads the files. */
#include "planning/import.h"
#include "base/grow.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

const char *pst_recipe_name(pst_recipe_program program) {
    static const char *const names[] = {"Megatron-LM", "torchtitan", "DeepSpeed"};
    return names[program];
}

void pst_recipe_close(pst_recipe_file *file) {
    for (size_t i = 0; i < file->n; i++) {
        free(file->item[i].name);
        free(file->item[i].value);
    }
    free(file->item);
    *file = (pst_recipe_file){0};
}

static pst_status no_memory(void) { return pst_fail(PST_ENOMEM, "no memory for --import"); }

/* value: NULL: none. The last item is the new one. */
static pst_status add(pst_recipe_file *f, const char *name, const char *value, uint32_t line) {
    PST_TRY(pst_grow(&f->item, sizeof *f->item, f->n, &f->capacity, "for --import"));
    pst_recipe_item *item = f->item + f->n;
    *item = (pst_recipe_item){.name = strdup(name), .line = line};
    if (value) item->value = strdup(value);
    f->n++;
    return item->name && (!value || item->value) ? PST_OK : no_memory();
}

/* --- words of a shell ------------------------------------------------------------------------- */

typedef struct {
    pst_recipe_file *out;
    const char *at, *end;
    uint32_t line;
    char *word;              /* room for the longest word */
    int variable, separated; /* separated: the next word is of another command */
} reader;

/* Blanks, comments, continued lines, and what separates commands. */
static void skip_blanks(reader *r) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#') {
            while (r->at + 1 < r->end && r->at[1] != '\n') r->at++;
        } else if (*r->at == '\\' && r->at + 1 < r->end && r->at[1] == '\n') {
            r->at++;
            r->line++;
        } else if (*r->at == '\n') {
            r->line++;
        } else if (strchr("();&|", *r->at)) {
            r->separated = 1;
        } else if (!isspace((unsigned char)*r->at)) {
            return;
        }
    }
}

/* One character of a word at r->at, which may open or close a quote. Returns 0 at the word's end.
 */
static int take_character(reader *r, char *quote, size_t *n) {
    const char c = *r->at;
    if (*quote && c == *quote) {
        *quote = 0;
    } else if (!*quote && (c == '"' || c == '\'')) {
        *quote = c;
    } else if (c == '\\' && *quote != '\'' && r->at + 1 < r->end) {
        r->at++;
        if (*r->at == '\n') r->line++;
        else r->word[(*n)++] = *r->at;
    } else if (!*quote && (isspace((unsigned char)c) || strchr("();&|", c))) {
        return 0;
    } else {
        r->variable |= *quote != '\'' && (c == '$' || c == '`');
        r->line += c == '\n';
        r->word[(*n)++] = c;
    }
    r->at++;
    return 1;
}

/* r->word becomes the next word; *found 0: there is none. A substitution such as ${X[@]} is one
 * word. */
static pst_status next_word(reader *r, int *found) {
    size_t n = 0;
    char quote = 0;
    skip_blanks(r);
    const uint32_t begun = r->line;
    *found = r->at < r->end;
    r->variable = 0;
    while (r->at < r->end && take_character(r, &quote, &n)) continue;
    r->word[n] = 0;
    if (strlen(r->word) != n)
        return pst_fail(PST_EINPUT, "%s:%u: a zero byte in a word", r->out->file, begun);
    return quote ? pst_fail(PST_EINPUT, "%s:%u: the quote %c is not closed", r->out->file, begun,
                            quote)
                 : PST_OK;
}

/* "--name", "--name=value" */
static pst_status add_flag(reader *r) {
    char *value = strchr(r->word, '=');
    if (value) *value++ = 0;
    PST_TRY(add(r->out, r->word + 2, value, r->line));
    pst_recipe_item *item = r->out->item + r->out->n - 1;
    item->closed = value != NULL;
    item->variable = r->variable;
    return PST_OK;
}

/* Another word of a flag's value. */
static pst_status add_value(reader *r) {
    pst_recipe_item *item = r->out->item + r->out->n - 1;
    const size_t before = item->value ? strlen(item->value) + 1 : 0, more = strlen(r->word) + 1;
    char *both = realloc(item->value, before + more);
    if (!both) return no_memory();
    item->value = both;
    if (before) both[before - 1] = ' ';
    memcpy(both + before, r->word, more);
    item->variable |= r->variable;
    return PST_OK;
}

static pst_status add_word(reader *r) {
    static const char subcommand[] = "activation_checkpoint:"; /* of torchtitan */
    if (r->separated && r->out->n) r->out->item[r->out->n - 1].closed = 1;
    r->separated = 0;
    if (!strncmp(r->word, "--", 2) && r->word[2]) return add_flag(r);
    if (!strncmp(r->word, subcommand, sizeof subcommand - 1)) {
        PST_TRY(
            add(r->out, "activation_checkpoint.mode", r->word + sizeof subcommand - 1, r->line));
        r->out->item[r->out->n - 1].closed = 1;
        return PST_OK;
    }
    if (!r->out->n || r->out->item[r->out->n - 1].closed) return PST_OK; /* of a command */
    return add_value(r);
}

/* "parallelism.no-enable_x" is x, false; dashes are underscores. */
static void read_as_torchtitan(pst_recipe_item *item) {
    char *last = strrchr(item->name, '.');
    char *key = last ? last + 1 : item->name;
    if (!item->value && !strncmp(key, "no-", 3)) {
        memmove(key, key + 3, strlen(key + 3) + 1);
        item->value = strdup("false");
    }
    for (char *c = item->name; *c; c++)
        if (*c == '-') *c = '_';
}

static pst_status detect_flags(pst_recipe_file *f) {
    static const char *const sections[] = {"parallelism.", "training.", "activation_checkpoint."};
    for (size_t i = 0; i < f->n; i++)
        for (size_t s = 0; s < sizeof sections / sizeof *sections; s++)
            if (!strncmp(f->item[i].name, sections[s], strlen(sections[s])))
                f->program = PST_RECIPE_TORCHTITAN;
    if (!f->n)
        return pst_fail(PST_EINPUT,
                        "%s: neither flags (--name value) of Megatron-LM or torchtitan, nor TOML "
                        "of torchtitan ([section]), nor JSON of DeepSpeed ({)",
                        f->file);
    for (size_t i = 0; i < f->n && f->program == PST_RECIPE_TORCHTITAN; i++)
        read_as_torchtitan(f->item + i);
    return PST_OK;
}

static pst_status parse_words(const char *text, size_t bytes, pst_recipe_file *out) {
    reader r = {.out = out, .at = text, .end = text + bytes, .line = 1, .word = malloc(bytes + 1)};
    int found = 1;
    pst_status status = r.word ? PST_OK : no_memory();
    out->program = PST_RECIPE_MEGATRON;
    while (status == PST_OK && found) {
        status = next_word(&r, &found);
        if (status == PST_OK && found) status = add_word(&r);
    }
    free(r.word);
    return status == PST_OK ? detect_flags(out) : status;
}

/* --- TOML ------------------------------------------------------------------------------------- */

static pst_status bad_toml(const reader *r, const char *what) {
    return pst_fail(PST_EINPUT, "%s:%u: %s", r->out->file, r->line, what);
}

static void skip_spaces(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static int at_line_end(const reader *r) {
    return r->at == r->end || *r->at == '\n' || *r->at == '#';
}

/* A string in one line; r->at is at its quote. to: behind the word. */
static pst_status take_string(reader *r, char *to) {
    static const char escapes[] = "\"\\nt", means[] = "\"\\\n\t";
    const char quote = *r->at++;
    if (r->at + 1 < r->end && r->at[0] == quote && r->at[1] == quote)
        return bad_toml(r, "strings of several lines are not read");
    while (r->at < r->end && *r->at != quote && *r->at != '\n') {
        char c = *r->at++;
        if (c == '\\' && quote == '"' && r->at < r->end) {
            const char *which = *r->at ? strchr(escapes, *r->at) : NULL;
            if (!which) return bad_toml(r, "of escapes, only \\\" \\\\ \\n \\t are read");
            c = means[which - escapes];
            r->at++;
        }
        *to++ = c;
    }
    *to = 0;
    if (r->at == r->end || *r->at != quote) return bad_toml(r, "a string is not closed");
    r->at++;
    return PST_OK;
}

/* An array in one line, as text. */
static pst_status take_array(reader *r, char *to) {
    int depth = 0;
    char quote = 0;
    do {
        const char c = r->at < r->end ? *r->at++ : '\n';
        if (c == '\n') return bad_toml(r, "arrays of several lines are not read");
        if (quote && c == quote) quote = 0;
        else if (!quote && (c == '"' || c == '\'')) quote = c;
        if (!quote) depth += (c == '[') - (c == ']');
        *to++ = c;
    } while (depth);
    *to = 0;
    return PST_OK;
}

/* A number, true or false. */
static pst_status take_bare(reader *r, char *to) {
    char *end, *begin = to;
    for (; !at_line_end(r) && !isspace((unsigned char)*r->at); r->at++)
        if (*r->at != '_') *to++ = *r->at;
    *to = 0;
    strtod(begin, &end);
    if ((*begin && !*end) || !strcmp(begin, "true") || !strcmp(begin, "false")) return PST_OK;
    return bad_toml(r, "expected a string, a number, true or false; dates and tables within a line "
                       "are not read");
}

static pst_status take_value(reader *r, char *to) {
    if (at_line_end(r)) return bad_toml(r, "a key has no value");
    if (*r->at == '"' || *r->at == '\'') return take_string(r, to);
    return *r->at == '[' ? take_array(r, to) : take_bare(r, to);
}

/* Letters of a key or section: bare, with dots. Returns their number. */
static size_t take_key(reader *r, char *to) {
    size_t n = 0;
    while (r->at < r->end && (isalnum((unsigned char)*r->at) || strchr("_-.", *r->at)) && *r->at)
        to[n++] = *r->at++;
    to[n] = 0;
    return n;
}

static pst_status take_section(reader *r, char *section) {
    r->at++;
    if (r->at < r->end && *r->at == '[') return bad_toml(r, "arrays of tables are not read");
    skip_spaces(r);
    const size_t n = take_key(r, section);
    skip_spaces(r);
    if (!n || r->at == r->end || *r->at != ']')
        return bad_toml(r, "expected [section] of letters, digits, '_', '-' and '.'");
    r->at++;
    return PST_OK;
}

static pst_status take_pair(reader *r, const char *section) {
    char *name = r->word;
    size_t n = strlen(section);
    memcpy(name, section, n);
    if (n) name[n++] = '.';
    const size_t of_key = take_key(r, name + n);
    skip_spaces(r);
    if (!of_key || r->at == r->end || *r->at != '=')
        return bad_toml(r, "expected key = value; keys in quotes are not read");
    r->at++;
    skip_spaces(r);
    char *value = name + strlen(name) + 1;
    PST_TRY(take_value(r, value));
    for (size_t i = 0; i < r->out->n; i++)
        if (!strcmp(r->out->item[i].name, name)) return bad_toml(r, "the key is given twice");
    return add(r->out, name, value, r->line);
}

static pst_status parse_line(reader *r, char *section) {
    skip_spaces(r);
    if (r->at < r->end && *r->at == '[') PST_TRY(take_section(r, section));
    else if (!at_line_end(r)) PST_TRY(take_pair(r, section));
    skip_spaces(r);
    if (!at_line_end(r)) return bad_toml(r, "expected the end of the line");
    while (r->at < r->end && *r->at != '\n') r->at++;
    r->at += r->at < r->end;
    r->line++;
    return PST_OK;
}

static pst_status parse_toml(const char *text, size_t bytes, pst_recipe_file *out) {
    reader r = {.out = out, .at = text, .end = text + bytes, .line = 1};
    char *section = calloc(1, bytes + 1);
    r.word = malloc(2 * bytes + 4); /* section, key and value */
    pst_status status = section && r.word ? PST_OK : no_memory();
    out->program = PST_RECIPE_TORCHTITAN;
    while (status == PST_OK && r.at < r.end) status = parse_line(&r, section);
    for (size_t i = 0; i < out->n; i++) read_as_torchtitan(out->item + i);
    free(section);
    free(r.word);
    return status;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static pst_status add_json(pst_recipe_file *f, const char *name, json_t *value);

static pst_status add_members(pst_recipe_file *f, const char *name, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        const size_t bytes = strlen(name) + strlen(key) + 2;
        char *whole = malloc(bytes);
        if (!whole) return no_memory();
        snprintf(whole, bytes, "%s%s%s", name, *name ? "." : "", key);
        pst_status status = add_json(f, whole, value);
        free(whole);
        PST_TRY(status);
    }
    return PST_OK;
}

static pst_status add_json(pst_recipe_file *f, const char *name, json_t *value) {
    if (json_is_object(value)) return add_members(f, name, value);
    if (json_is_string(value)) return add(f, name, json_string_value(value), 0);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    pst_status status = text ? add(f, name, text, 0) : no_memory();
    free(text);
    return status;
}

static pst_status parse_json(const char *text, size_t bytes, pst_recipe_file *out) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    out->program = PST_RECIPE_DEEPSPEED;
    if (!root && json_error_code(&error) == json_error_out_of_memory) return no_memory();
    if (!root)
        return pst_fail(PST_EINPUT, "%s:%d:%d: not JSON: %s", out->file, error.line, error.column,
                        error.text);
    pst_status status = json_is_object(root)
                            ? add_members(out, "", root)
                            : pst_fail(PST_EINPUT, "%s: expected a JSON object", out->file);
    json_decref(root);
    return status;
}

/* ---------------------------------------------------------------------------------------------- */

static int ends_with(const char *file, const char *end) {
    const size_t n = strlen(file), m = strlen(end);
    return n >= m && !strcmp(file + n - m, end);
}

/* The first character that is neither blank nor in a comment; 0: there is none. */
static char first_character(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '#')
            while (i + 1 < bytes && text[i + 1] != '\n') i++;
        else if (!isspace((unsigned char)text[i])) return text[i];
    }
    return 0;
}

pst_status pst_recipe_parse(const char *text, size_t bytes, const char *file,
                            pst_recipe_file *out) {
    pst_recipe_file f = {.file = file};
    const char first = first_character(text, bytes);
    pst_status status;
    if (first == '{' || ends_with(file, ".json")) status = parse_json(text, bytes, &f);
    else if (first == '[' || ends_with(file, ".toml")) status = parse_toml(text, bytes, &f);
    else status = parse_words(text, bytes, &f);
    if (status != PST_OK) pst_recipe_close(&f);
    else *out = f;
    return status;
}
