/* See yaml.h. */
#include "config/yaml.h"
#include "config/number.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- limits ----------------------------------------------------------------------------------- */

typedef struct {
    uint32_t depth, anchors;
} extent;

/* Out of memory; libyaml does not always report it as such. */
static int is_short(const yaml_parser_t *parser) {
    return parser->error == YAML_MEMORY_ERROR || parser->error == YAML_NO_ERROR;
}

static int is_within(const yaml_event_t *event, extent *e) {
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
        e->depth++;
        e->anchors += event->data.sequence_start.anchor != NULL;
        break;
    case YAML_MAPPING_START_EVENT:
        e->depth++;
        e->anchors += event->data.mapping_start.anchor != NULL;
        break;
    case YAML_SCALAR_EVENT: e->anchors += event->data.scalar.anchor != NULL; break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: e->depth--; break;
    default: break;
    }
    return e->depth <= PST_YAML_DEPTH && e->anchors <= PST_YAML_ANCHORS;
}

pst_status pst_yaml_limit(const char *text, size_t bytes, const char *file) {
    yaml_parser_t parser;
    yaml_event_t event;
    extent e = {0};
    pst_status status = PST_OK;
    int more = 1, read = 1;
    if (!yaml_parser_initialize(&parser))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the file", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    for (; more && status == PST_OK && (read = yaml_parser_parse(&parser, &event));
         yaml_event_delete(&event)) {
        more = event.type != YAML_STREAM_END_EVENT;
        if (is_within(&event, &e)) continue;
        status =
            e.depth > PST_YAML_DEPTH
                ? pst_fail(PST_EINPUT,
                           "%s:%zu:%zu: lists and mappings may be nested at most %d deep", file,
                           event.start_mark.line + 1, event.start_mark.column + 1, PST_YAML_DEPTH)
                : pst_fail(PST_EINPUT, "%s:%zu:%zu: at most %d anchors are allowed", file,
                           event.start_mark.line + 1, event.start_mark.column + 1,
                           PST_YAML_ANCHORS);
    }
    if (!read && is_short(&parser))
        status = pst_fail(PST_ENOMEM, "%s: no memory to read the file", file);
    yaml_parser_delete(&parser);
    return status;
}

/* --- documents -------------------------------------------------------------------------------- */

pst_status pst_yaml_open(const char *text, size_t bytes, const char *file, const char *what,
                         pst_yaml *y, const yaml_node_t **root) {
    yaml_parser_t parser;
    *y = (pst_yaml){.file = file, .what = what};
    PST_TRY(pst_yaml_limit(text, bytes, file));
    if (!yaml_parser_initialize(&parser))
        return pst_fail(PST_ENOMEM, "%s: no memory to read the file", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    pst_status status = PST_OK;
    if (!yaml_parser_load(&parser, &y->document)) {
        const char *problem = parser.problem ? parser.problem : "not YAML";
        status = is_short(&parser)
                     ? pst_fail(PST_ENOMEM, "%s: no memory to read the file", file)
                     : pst_fail(PST_EINPUT, "%s:%zu:%zu: %s", file, parser.problem_mark.line + 1,
                                parser.problem_mark.column + 1, problem);
    }
    yaml_parser_delete(&parser);
    if (status != PST_OK) return status;
    *root = yaml_document_get_root_node(&y->document);
    if (*root) return PST_OK;
    pst_yaml_close(y);
    return pst_fail(PST_EINPUT, "%s: the file is empty", file);
}

void pst_yaml_close(pst_yaml *y) { yaml_document_delete(&y->document); }

pst_status pst_yaml_fail(const pst_yaml *y, const yaml_node_t *node, const char *what,
                         const char *detail) {
    return pst_fail(PST_EINPUT, "%s:%zu:%zu: %s%s", y->file, node->start_mark.line + 1,
                    node->start_mark.column + 1, what, detail);
}

pst_status pst_yaml_at(const pst_yaml *y, const yaml_node_t *node, pst_status status) {
    return pst_fail_in(status, "%s:%zu:%zu", y->file, node->start_mark.line + 1,
                       node->start_mark.column + 1);
}

const char *pst_yaml_text(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

/* --- values ----------------------------------------------------------------------------------- */

pst_status pst_yaml_whole(const pst_yaml *y, const yaml_node_t *node, uint64_t min, uint64_t max,
                          uint64_t *value) {
    const char *text = pst_yaml_text(node);
    char *end = NULL, range[96];
    errno = 0;
    unsigned long long v = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && !*end && !errno && v >= min && v <= max) {
        *value = v;
        return PST_OK;
    }
    snprintf(range, sizeof range, "a whole number from %llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    return pst_yaml_fail(y, node, "expected ", range);
}

pst_status pst_yaml_u32(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                        uint32_t *value) {
    uint64_t v;
    PST_TRY(pst_yaml_whole(y, node, min, max, &v));
    *value = (uint32_t)v;
    return PST_OK;
}

pst_status pst_yaml_real(const pst_yaml *y, const yaml_node_t *node, double min, double max,
                         double *value) {
    double v;
    char range[96];
    if (pst_number_real(pst_yaml_text(node), &v) && v >= min && v <= max) {
        *value = v;
        return PST_OK;
    }
    snprintf(range, sizeof range, "a number from %g to %g", min, max);
    return pst_yaml_fail(y, node, "expected ", range);
}

pst_status pst_yaml_bytes(const pst_yaml *y, const yaml_node_t *node, uint64_t *value) {
    double v;
    if (!pst_number_bytes(pst_yaml_text(node), &v) || v >= 0x1p60)
        return pst_yaml_fail(y, node, "expected ", "bytes, such as 512M or 8GiB");
    *value = (uint64_t)v;
    return PST_OK;
}

/* --- lists and mappings ----------------------------------------------------------------------- */

pst_status pst_yaml_list(const pst_yaml *y, const yaml_node_t *node, uint32_t min, uint32_t max,
                         const char *of, uint32_t *n) {
    char expected[160];
    if (node->type != YAML_SEQUENCE_NODE) return pst_yaml_fail(y, node, "expected a list of ", of);
    size_t items = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    if (items >= min && items <= max) {
        *n = (uint32_t)items;
        return PST_OK;
    }
    if (min == max) snprintf(expected, sizeof expected, "%u %s", min, of);
    else snprintf(expected, sizeof expected, "%u to %u %s", min, max, of);
    return pst_yaml_fail(y, node, "expected ", expected);
}

const yaml_node_t *pst_yaml_item(pst_yaml *y, const yaml_node_t *list, uint32_t i) {
    return yaml_document_get_node(&y->document, list->data.sequence.items.start[i]);
}

pst_status pst_yaml_mapping(pst_yaml *y, const yaml_node_t *node, const pst_yaml_key *row,
                            uint32_t n_row, const yaml_node_t *value[PST_YAML_KEYS]) {
    if (node->type != YAML_MAPPING_NODE)
        return pst_yaml_fail(y, node, "expected ", "keys and values (key: value)");
    memset(value, 0, PST_YAML_KEYS * sizeof *value);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&y->document, pair->key);
        uint32_t i = 0;
        while (i < n_row && strcmp(pst_yaml_text(key), row[i].name)) i++;
        if (i == n_row) {
            char known[200] = "", what[160];
            for (uint32_t k = 0; k < n_row; k++)
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "",
                         row[k].name);
            snprintf(what, sizeof what, "\"%.64s\" is not a key of %s here; expected one of ",
                     pst_yaml_text(key), y->what);
            return pst_yaml_fail(y, key, what, known);
        }
        if (value[i]) return pst_yaml_fail(y, key, row[i].name, " is given twice");
        value[i] = yaml_document_get_node(&y->document, pair->value);
    }
    for (uint32_t i = 0; i < n_row; i++)
        if (row[i].required && !value[i])
            return pst_yaml_fail(y, node, "missing key: ", row[i].name);
    return PST_OK;
}
