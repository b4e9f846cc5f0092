/* Walks a run file as libyaml's document: a mapping of sections, each a mapping of keys and
 * sections. Every error message starts with file:line:column. libyaml resolves aliases to the
 * node they name, without copying, and the walk goes no deeper than the sections of the rows, so
 * that no file can make it long. */
#include "config/rows.h"
#include "config/yaml.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_reading *reading;
    const pst_run_file *file;
    yaml_document_t *document;
    struct {
        char name[PST_ROW_NAME_BYTES];
        size_t line;
    } section[32]; /* sections found so far */
    size_t n_section;
} walk;

/* Puts "file:line:column: " in front of the thread's message. */
static pst_status at_mark(const char *file, yaml_mark_t mark, pst_status status) {
    return pst_fail_in(status, "%s:%zu:%zu", file, mark.line + 1, mark.column + 1);
}

static pst_status at_node(const walk *w, const yaml_node_t *node, pst_status status) {
    return at_mark(w->file->name, node->start_mark, status);
}

/* ... and adds the key's name. */
static pst_status at_value(const walk *w, const yaml_node_t *node, const pst_row *row,
                           pst_status status) {
    char name[PST_ROW_TEXT_BYTES];
    return at_node(w, node, pst_fail_in(status, "%s", pst_row_name(row, name)));
}

static const char *kind_of(const yaml_node_t *node) {
    if (node->type == YAML_SEQUENCE_NODE) return "a list";
    return node->type == YAML_MAPPING_NODE ? "a mapping" : "a value";
}

static int is_absent(const yaml_node_t *node) {
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return 0;
    const char *text = (const char *)node->data.scalar.value;
    return !*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

/* Tags change what a value means; only the core tags that repeat the obvious type are accepted. */
static int has_custom_tag(const yaml_node_t *node) {
    static const char *const fine[] = {YAML_STR_TAG, YAML_SEQ_TAG, YAML_MAP_TAG, YAML_INT_TAG,
                                       YAML_FLOAT_TAG};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (strcmp((const char *)node->tag, fine[i]) == 0) return 0;
    return 1;
}

/* The string of a scalar for `row`; EINPUT names what was found instead. */
static pst_status scalar_text(const pst_row *row, const yaml_node_t *node, const char **text) {
    int number = row->type == PST_ROW_WHOLE || row->type == PST_ROW_REAL ||
                 row->type == PST_ROW_BYTES || row->type == PST_ROW_WHOLES;
    if (node->type != YAML_SCALAR_NODE) return pst_row_refuse(row, kind_of(node));
    if (is_absent(node)) return pst_row_refuse(row, "nothing");
    if (has_custom_tag(node))
        return pst_fail(PST_EINPUT, "the YAML tag '%.60s' is not supported", (char *)node->tag);
    const char *value = (const char *)node->data.scalar.value;
    if (strlen(value) != node->data.scalar.length)
        return pst_row_refuse(row, "a string with a zero byte");
    if (number && node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return pst_row_refuse(row, "a quoted string");
    *text = value;
    return PST_OK;
}

/* The string of a value or item: a scalar, or {NAME: NUMBER} if the row allows one. written:
 * [PST_ROW_TEXT_BYTES]. */
static pst_status value_text(yaml_document_t *document, const pst_row *row, const yaml_node_t *node,
                             char *written, const char **text) {
    if (node->type != YAML_MAPPING_NODE || !pst_row_has_counted(row))
        return scalar_text(row, node, text);
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    if (node->data.mapping.pairs.top - pair != 1)
        return pst_row_refuse(row, "a mapping without or with several keys");
    const char *name, *number;
    const yaml_node_t *value = yaml_document_get_node(document, pair->value);
    PST_TRY(scalar_text(row, yaml_document_get_node(document, pair->key), &name));
    if (is_absent(value)) { /* {full:3} without a blank */
        snprintf(written, PST_ROW_TEXT_BYTES, "{%.200s}", name);
    } else {
        PST_TRY(scalar_text(row, value, &number));
        snprintf(written, PST_ROW_TEXT_BYTES, "{%.200s: %.200s}", name, number);
    }
    *text = written;
    return PST_OK;
}

/* Reads a sequence into a LIST; *at is the node that an error message is about. */
static pst_status read_items(yaml_document_t *document, const pst_row *row, pst_config *config,
                             yaml_node_t *node, yaml_node_t **at) {
    pst_row_clear(row, config);
    if (has_custom_tag(node))
        return pst_fail(PST_EINPUT, "the YAML tag '%.60s' is not supported", (char *)node->tag);
    yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top && row->flags & PST_ROW_FILLED)
        return pst_row_refuse(row, "an empty list");
    for (; item < node->data.sequence.items.top; item++) {
        const char *text = NULL;
        char written[PST_ROW_TEXT_BYTES];
        *at = yaml_document_get_node(document, *item);
        PST_TRY(value_text(document, row, *at, written, &text));
        PST_TRY(pst_row_add(row, config, text));
    }
    return PST_OK;
}

/* Reads NAME: PATH or NAME: [PATH, ...], which replaces earlier items of that name. */
static pst_status read_name(yaml_document_t *document, const pst_row *row, pst_config *config,
                            const char *name, yaml_node_t *node, yaml_node_t **at) {
    int list = node->type == YAML_SEQUENCE_NODE;
    ptrdiff_t n = list ? node->data.sequence.items.top - node->data.sequence.items.start : 1;
    *at = node;
    if (!n) return pst_row_refuse(row, "an empty list");
    pst_row_drop(row, config, name);
    for (ptrdiff_t i = 0; i < n; i++) {
        const char *text = NULL;
        char *named = NULL;
        if (list) *at = yaml_document_get_node(document, node->data.sequence.items.start[i]);
        PST_TRY(scalar_text(row, *at, &text));
        if (asprintf(&named, "%s=%s", name, text) < 0)
            return pst_fail(PST_ENOMEM, "no memory for the configuration");
        pst_status status = pst_row_add(row, config, named);
        free(named);
        PST_TRY(status);
    }
    return PST_OK;
}

static pst_status read_named(yaml_document_t *document, const pst_row *row, pst_config *config,
                             yaml_node_t *node, yaml_node_t **at) {
    *at = node;
    if (node->type != YAML_MAPPING_NODE)
        return pst_row_refuse(row, is_absent(node) ? "nothing" : kind_of(node));
    const yaml_node_pair_t *first = node->data.mapping.pairs.start, *pair = first;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *key = yaml_document_get_node(document, pair->key);
        const char *name = (const char *)key->data.scalar.value;
        *at = key;
        if (key->type != YAML_SCALAR_NODE)
            return pst_fail(PST_EINPUT, "expected a name, found %s", kind_of(key));
        if (strlen(name) != key->data.scalar.length || has_custom_tag(key))
            return pst_fail(PST_EINPUT,
                            "expected a name, found a string with a zero byte or a tag");
        for (const yaml_node_pair_t *p = first; p < pair; p++)
            if (!strcmp((const char *)yaml_document_get_node(document, p->key)->data.scalar.value,
                        name))
                return pst_fail(PST_EINPUT, "'%.60s' is given twice", name);
        PST_TRY(read_name(document, row, config, name,
                          yaml_document_get_node(document, pair->value), at));
    }
    return PST_OK;
}

static pst_status given_twice(const pst_row *row, size_t line) {
    char name[PST_ROW_TEXT_BYTES], former[PST_ROW_NAME_BYTES] = "";
    if (row->former_name) snprintf(former, sizeof former, " (formerly %s)", row->former_name);
    return pst_fail(PST_EINPUT, "%s%s is given twice; first in line %zu", pst_row_name(row, name),
                    former, line);
}

static pst_status read_value(walk *w, const pst_row *row, const yaml_node_t *key,
                             yaml_node_t *node) {
    pst_row_origin *origin = &w->reading->origin[row - pst_rows];
    if (origin->line && origin->file == w->file->name)
        return at_node(w, key, given_twice(row, origin->line));
    const char *text = NULL;
    char written[PST_ROW_TEXT_BYTES];
    yaml_node_t *at = node;
    pst_status status;
    if (row->type == PST_ROW_NAMED)
        status = read_named(w->document, row, w->reading->config, node, &at);
    else if (pst_row_is_list(row) && node->type == YAML_SEQUENCE_NODE)
        status = read_items(w->document, row, w->reading->config, node, &at);
    else if ((status = value_text(w->document, row, node, written, &text)) == PST_OK)
        status = pst_row_set(row, w->reading->config, text);
    if (status != PST_OK) return at_value(w, at, row, status);
    *origin = (pst_row_origin){.line = node->start_mark.line + 1,
                               .column = node->start_mark.column + 1,
                               .order = ++w->reading->n_read,
                               .file = w->file->name};
    return PST_OK;
}

/* The string of a key, NULL after an error message if it is no plain name. */
static const char *key_text(const walk *w, const yaml_node_t *key) {
    if (key->type == YAML_SCALAR_NODE &&
        strlen((const char *)key->data.scalar.value) == key->data.scalar.length &&
        !has_custom_tag(key))
        return (const char *)key->data.scalar.value;
    at_node(w, key,
            pst_fail(PST_EINPUT, "expected a key, found %s",
                     key->type == YAML_SCALAR_NODE ? "a string with a zero byte or a tag"
                                                   : kind_of(key)));
    return NULL;
}

/* Notes that a section was found; EINPUT if it was found before. */
static pst_status enter_section(walk *w, const char *name, const yaml_node_t *key) {
    for (size_t i = 0; i < w->n_section; i++)
        if (strcmp(w->section[i].name, name) == 0)
            return at_node(w, key,
                           pst_fail(PST_EINPUT, "section %s is given twice; first in line %zu",
                                    name, w->section[i].line));
    if (w->n_section < sizeof w->section / sizeof *w->section) { /* never full: there are fewer
                                                                    sections */
        snprintf(w->section[w->n_section].name, sizeof w->section->name, "%s", name);
        w->section[w->n_section++].line = key->start_mark.line + 1;
    }
    return PST_OK;
}

static pst_status read_mapping(walk *w, const char *section, const yaml_node_t *node);

static pst_status read_pair(walk *w, const char *section, const yaml_node_t *key,
                            yaml_node_t *value) {
    const char *name = key_text(w, key);
    char deeper[PST_ROW_NAME_BYTES];
    if (!name) return PST_EINPUT;
    int n = snprintf(deeper, sizeof deeper, "%s%s%s", section, *section ? "." : "", name);
    /* a section may have the former name of one of its keys */
    if (!*section && !strcmp(name, "include")) return PST_OK; /* read before */
    int inside =
        (value->type == YAML_MAPPING_NODE || is_absent(value)) && pst_row_is_section(deeper);
    const pst_row *row = inside ? NULL : pst_row_find_any(section, name);
    if (row) return read_value(w, row, key, value);
    if (n >= (int)sizeof deeper || strchr(name, '.') || !pst_row_is_section(deeper))
        return at_node(w, key, pst_row_unknown(section, name));
    PST_TRY(enter_section(w, deeper, key));
    return read_mapping(w, deeper, value);
}

/* section "": the whole document. */
static pst_status read_mapping(walk *w, const char *section, const yaml_node_t *node) {
    char what[PST_ROW_NAME_BYTES + 40] = "expected a mapping of sections such as 'model:'";
    if (is_absent(node)) return PST_OK; /* "parallel:" with all its keys commented out */
    if (*section) snprintf(what, sizeof what, "%s: expected a mapping of keys", section);
    if (node->type != YAML_MAPPING_NODE || has_custom_tag(node))
        return at_node(w, node,
                       pst_fail(PST_EINPUT, "%s, found %s", what,
                                node->type == YAML_MAPPING_NODE ? "a mapping with a YAML tag"
                                                                : kind_of(node)));
    const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++)
        PST_TRY(read_pair(w, section, yaml_document_get_node(w->document, pair->key),
                          yaml_document_get_node(w->document, pair->value)));
    return PST_OK;
}

/* Reads another run file before the rest of this one. */
static pst_status read_file(const walk *w, const char *name) {
    const char *path;
    char *text;
    size_t bytes;
    PST_TRY(pst_include_open(w->reading, w->file, name, &path));
    PST_TRY(pst_run_file_text(path, &text, &bytes));
    const pst_run_file file = {path, w->file};
    pst_status status = pst_document_read(w->reading, &file, text, bytes);
    free(text);
    return status;
}

static pst_status include_file(const walk *w, const yaml_node_t *node) {
    const char *name = (const char *)node->data.scalar.value;
    if (node->type != YAML_SCALAR_NODE || is_absent(node) || has_custom_tag(node) ||
        strlen(name) != node->data.scalar.length)
        return at_node(w, node,
                       pst_fail(PST_EINPUT, "include: expected a run file or a list of them"));
    if (!w->reading->from_disk)
        return at_node(w, node,
                       pst_fail(PST_EINPUT, "include: only a run file on disk can "
                                            "include others"));
    pst_status status = read_file(w, name);
    return status == PST_OK ? PST_OK : at_node(w, node, pst_fail_in(status, "include"));
}

/* The files named by the key `include` of the document. */
static pst_status read_included(const walk *w, const yaml_node_t *root) {
    const yaml_node_t *first = NULL;
    if (root->type != YAML_MAPPING_NODE) return PST_OK;
    const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
    for (; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(w->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(w->document, pair->value);
        if (key->type != YAML_SCALAR_NODE || strcmp((char *)key->data.scalar.value, "include"))
            continue;
        if (first)
            return at_node(w, key,
                           pst_fail(PST_EINPUT,
                                    "include is given twice; first in line %zu; include: [FILE, "
                                    "FILE] reads several files",
                                    first->start_mark.line + 1));
        first = key;
        if (value->type != YAML_SEQUENCE_NODE) {
            PST_TRY(include_file(w, value));
            continue;
        }
        yaml_node_item_t *item = value->data.sequence.items.start;
        for (; item < value->data.sequence.items.top; item++)
            PST_TRY(include_file(w, yaml_document_get_node(w->document, *item)));
    }
    return PST_OK;
}

/* Paths in a file are relative to its folder; overrides come later and are relative to the current
 * folder. */
static pst_status resolve_paths(const walk *w) {
    char folder[4096];
    const pst_reading *reading = w->reading;
    snprintf(folder, sizeof folder, "%s", w->file->name);
    char *slash = strrchr(folder, '/');
    if (!slash || strlen(w->file->name) >= sizeof folder) return PST_OK;
    slash[1] = 0;
    for (size_t i = 0; i < pst_n_row; i++) {
        const pst_row_origin *at = &reading->origin[i];
        if (!(pst_rows[i].flags & PST_ROW_PATH) || at->file != w->file->name) continue;
        pst_status status = pst_row_resolve_paths(&pst_rows[i], reading->config, folder);
        if (status != PST_OK)
            return pst_fail_in(status, "%s:%zu:%zu", at->file, at->line, at->column);
    }
    return PST_OK;
}

static pst_status read_root(walk *w, const yaml_node_t *root) {
    PST_TRY(read_included(w, root));
    PST_TRY(read_mapping(w, "", root)); /* missing keys are reported by name later */
    return w->reading->from_disk ? resolve_paths(w) : PST_OK;
}

/* Reports libyaml's error. Its reader gives only a byte offset, from which line and column are
 * counted. */
static pst_status explain(const yaml_parser_t *parser, const char *file, const char *text,
                          size_t bytes) {
    /* libyaml does not always report it as such */
    if (parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR)
        return pst_fail(PST_ENOMEM, "no memory to read %s", file);
    yaml_mark_t mark = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR) {
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < parser->problem_offset && i < bytes; i++)
            mark = text[i] == '\n' ? (yaml_mark_t){.line = mark.line + 1}
                                   : (yaml_mark_t){.line = mark.line, .column = mark.column + 1};
    }
    const char *problem = parser->problem ? parser->problem : "cannot be read";
    pst_fail(PST_EINPUT, "not valid YAML: %s", problem);
    if (parser->context &&
        (parser->error == YAML_SCANNER_ERROR || parser->error == YAML_PARSER_ERROR))
        pst_fail(PST_EINPUT, "not valid YAML: %s %s that starts in line %zu", problem,
                 parser->context, parser->context_mark.line + 1);
    return at_mark(file, mark, PST_EINPUT);
}

/* What follows the first document must be the end. */
static pst_status expect_end(yaml_parser_t *parser, const char *file, const char *text,
                             size_t bytes) {
    yaml_document_t more;
    if (!yaml_parser_load(parser, &more)) return explain(parser, file, text, bytes);
    yaml_node_t *root = yaml_document_get_root_node(&more);
    pst_status status = PST_OK;
    if (root)
        status = at_mark(file, root->start_mark,
                         pst_fail(PST_EINPUT, "a second YAML document starts here; expected one"));
    yaml_document_delete(&more);
    return status;
}

pst_status pst_document_read(pst_reading *reading, const pst_run_file *file, const char *text,
                             size_t bytes) {
    yaml_parser_t parser;
    yaml_document_t document;
    PST_TRY(pst_yaml_limit(text, bytes, file->name));
    if (!yaml_parser_initialize(&parser))
        return pst_fail(PST_ENOMEM, "no memory to read %s", file->name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    pst_status status;
    if (!yaml_parser_load(&parser, &document)) {
        status = explain(&parser, file->name, text, bytes);
    } else {
        walk w = {.reading = reading, .file = file, .document = &document};
        yaml_node_t *root = yaml_document_get_root_node(&document);
        status = root ? read_root(&w, root) : PST_OK;
        if (status == PST_OK && root) status = expect_end(&parser, file->name, text, bytes);
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return status;
}

pst_status pst_document_read_list(const pst_row *row, pst_config *config, const char *text) {
    yaml_parser_t parser;
    yaml_document_t document;
    PST_TRY(pst_yaml_limit(text, strlen(text), "a list"));
    if (!yaml_parser_initialize(&parser)) return pst_fail(PST_ENOMEM, "no memory to read a list");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    int whole = 0;
    pst_status status = PST_ENOMEM, end;
    if (yaml_parser_load(&parser, &document)) {
        yaml_node_t *root = yaml_document_get_root_node(&document), *at = root;
        end = expect_end(&parser, "", text, strlen(text));
        int named = row->type == PST_ROW_NAMED;
        yaml_node_type_t type = named ? YAML_MAPPING_NODE : YAML_SEQUENCE_NODE;
        whole = end == PST_ENOMEM || (root && root->type == type && end == PST_OK);
        if (!whole || end != PST_OK) status = end;
        else status = (named ? read_named : read_items)(&document, row, config, root, &at);
        yaml_document_delete(&document);
    } else {
        whole = explain(&parser, "a list", text, strlen(text)) == PST_ENOMEM;
    }
    yaml_parser_delete(&parser);
    if (whole) return status;
    return pst_fail(PST_EINPUT, "expected %s, found something else",
                    row->type == PST_ROW_NAMED
                        ? "a mapping such as {wiki: wiki.txt, code: [a.c, b.c]}"
                        : "a list such as [a.txt, b.txt]");
}

/* eval.sets.NAME=PATH or =[PATH, ...]. */
static pst_status override_name(const pst_row *row, pst_config *config, const char *item,
                                const char *text) {
    char *whole = NULL;
    int list = *text == '[';
    if (asprintf(&whole, list ? "{%s: %s}" : "%s=%s", item, text) < 0)
        return pst_fail(PST_ENOMEM, "no memory for the configuration");
    pst_status status =
        list ? pst_document_read_list(row, config, whole) : pst_row_check_text(row, whole);
    if (!list && status == PST_OK) {
        pst_row_drop(row, config, item);
        status = pst_row_add(row, config, whole);
    }
    free(whole);
    return status;
}

pst_status pst_row_override(const pst_row *row, pst_config *config, const char *item,
                            const char *text) {
    if (row->type != PST_ROW_NAMED)
        return pst_row_is_list(row) && *text == '[' ? pst_document_read_list(row, config, text)
                                                    : pst_row_set(row, config, text);
    if (item) return override_name(row, config, item, text);
    if (*text != '{') return pst_row_set(row, config, text);
    pst_row_clear(row, config);
    return pst_document_read_list(row, config, text);
}
