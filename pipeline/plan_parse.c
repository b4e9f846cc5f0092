/* Reads a plan from YAML. Every key is one row; an unknown, repeated or missing key, a wrong type or a value out of
 * range is EINPUT with file, line and column. The file is trusted in nothing. */
#include "base/file.h"
#include "pipeline/plan.h"
#include "pipeline/schedule.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_FILE = 64 << 20, MAX_PART = 65535, MAX_NODE = 1 << 24, MAX_KEY = 8 };

typedef struct {
    const char *file;
    yaml_document_t document;
    pst_plan head;              /* scalars, before the arrays' sizes are known */
    yaml_node_t *chunks, *peak; /* [n_chunk] mappings; [n_rank] bytes, NULL when absent */
} reader;

static pst_status fail_at(const reader *r, const yaml_node_t *node, const char *what, const char *detail) {
    return pst_fail(PST_EINPUT, "%s:%zu:%zu: %s%s", r->file, node->start_mark.line + 1, node->start_mark.column + 1,
                    what, detail);
}

static yaml_node_t *node_at(reader *r, int index) { return yaml_document_get_node(&r->document, index); }

static const char *text_of(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

/* --- typed values ----------------------------------------------------------------------------------------------- */

static pst_status read_uint(const reader *r, const yaml_node_t *node, uint64_t min, uint64_t max, uint64_t *value) {
    const char *text = text_of(node);
    char *end = NULL, range[96];
    errno = 0;
    unsigned long long v = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && !*end && !errno && v >= min && v <= max) {
        *value = v;
        return PST_OK;
    }
    snprintf(range, sizeof range, "a whole number from %llu to %llu", (unsigned long long)min, (unsigned long long)max);
    return fail_at(r, node, "expected ", range);
}

static pst_status read_u32(const reader *r, const yaml_node_t *node, uint32_t min, uint32_t max, uint32_t *value) {
    uint64_t v;
    PST_TRY(read_uint(r, node, min, max, &v));
    *value = (uint32_t)v;
    return PST_OK;
}

static pst_status read_fraction(const reader *r, const yaml_node_t *node, double *value) {
    const char *text = text_of(node);
    char *end = NULL;
    double v = *text ? strtod(text, &end) : NAN;
    if (!end || *end || !(v >= 0 && v <= 1)) return fail_at(r, node, "expected ", "a number from 0 to 1");
    *value = v;
    return PST_OK;
}

static pst_status read_hash(const reader *r, const yaml_node_t *node, uint64_t *value) {
    const char *text = text_of(node);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return fail_at(r, node, "expected ", "16 hexadecimal digits");
    }
    *value = strtoull(text, NULL, 16);
    return PST_OK;
}

static pst_status read_schedule(const reader *r, const yaml_node_t *node, char *name, size_t bytes) {
    const pst_schedule_row *row;
    if (node->type != YAML_SCALAR_NODE) return fail_at(r, node, "expected ", "the name of a schedule");
    pst_status status = pst_schedule_find(text_of(node), &row);
    if (status != PST_OK) {
        return pst_fail_in(status, "%s:%zu:%zu", r->file, node->start_mark.line + 1, node->start_mark.column + 1);
    }
    snprintf(name, bytes, "%s", row->name);
    return PST_OK;
}

/* --- mappings --------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    int required;
} key_row;

/* Sorts the values of a mapping into value[] by the rows' order; NULL where an optional key is absent. */
static pst_status read_mapping(reader *r, const yaml_node_t *node, const key_row *row, uint32_t n_row,
                               yaml_node_t *value[MAX_KEY]) {
    if (node->type != YAML_MAPPING_NODE) return fail_at(r, node, "expected ", "keys and values (key: value)");
    memset(value, 0, MAX_KEY * sizeof *value);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *key = node_at(r, pair->key);
        uint32_t i = 0;
        while (i < n_row && strcmp(text_of(key), row[i].name)) i++;
        if (i == n_row) {
            char known[200] = "";
            for (uint32_t k = 0; k < n_row; k++) {
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "", row[k].name);
            }
            char what[96];
            snprintf(what, sizeof what, "\"%.64s\" is no key of a plan here; there are ", text_of(key));
            return fail_at(r, key, what, known);
        }
        if (value[i]) return fail_at(r, key, row[i].name, " is given twice");
        value[i] = node_at(r, pair->value);
    }
    for (uint32_t i = 0; i < n_row; i++) {
        if (row[i].required && !value[i]) return fail_at(r, node, "missing key: ", row[i].name);
    }
    return PST_OK;
}

static uint32_t items(const yaml_node_t *node) {
    return (uint32_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

static pst_status read_predicted(reader *r, const yaml_node_t *node) {
    static const key_row row[] = {{"step_ns", 0}, {"flush_ns", 0}, {"bubble", 0}, {"peak_bytes", 0}};
    yaml_node_t *value[MAX_KEY];
    PST_TRY(read_mapping(r, node, row, 4, value));
    if (value[0]) PST_TRY(read_uint(r, value[0], 0, UINT64_MAX, &r->head.step_ns));
    if (value[1]) PST_TRY(read_uint(r, value[1], 0, UINT64_MAX, &r->head.flush_ns));
    if (value[2]) PST_TRY(read_fraction(r, value[2], &r->head.bubble));
    r->peak = value[3];
    if (!r->peak) return PST_OK;
    if (r->peak->type != YAML_SEQUENCE_NODE) return fail_at(r, r->peak, "expected ", "a list of bytes per rank");
    if (items(r->peak) != r->head.n_rank) return fail_at(r, r->peak, "expected ", "as many numbers as there are ranks");
    return PST_OK;
}

static pst_status read_head(reader *r, const yaml_node_t *root) {
    static const key_row row[] = {{"graph_hash", 1},  {"schedule", 1}, {"ranks", 1},    {"micro_batches", 1},
                                  {"micro_batch", 1}, {"chunks", 1},   {"predicted", 0}};
    yaml_node_t *value[MAX_KEY];
    pst_plan *p = &r->head;
    PST_TRY(read_mapping(r, root, row, 7, value));
    PST_TRY(read_hash(r, value[0], &p->graph_hash));
    PST_TRY(read_schedule(r, value[1], p->schedule, sizeof p->schedule));
    PST_TRY(read_u32(r, value[2], 1, MAX_PART, &p->n_rank));
    PST_TRY(read_u32(r, value[3], 1, MAX_NODE, &p->n_micro));
    PST_TRY(read_u32(r, value[4], 1, MAX_NODE, &p->micro_batch));
    r->chunks = value[5];
    if (r->chunks->type != YAML_SEQUENCE_NODE) return fail_at(r, r->chunks, "expected ", "a list of chunks");
    p->n_chunk = items(r->chunks);
    if (p->n_chunk < 1 || p->n_chunk > MAX_PART) return fail_at(r, r->chunks, "expected ", "1 to 65535 chunks");
    return value[6] ? read_predicted(r, value[6]) : PST_OK;
}

static pst_status read_recompute(const reader *r, const yaml_node_t *node, uint8_t *recompute) {
    pst_recompute mode;
    pst_status status = pst_recompute_find(text_of(node), &mode);
    if (status != PST_OK)
        return pst_fail_in(status, "%s:%zu:%zu", r->file, node->start_mark.line + 1, node->start_mark.column + 1);
    *recompute = (uint8_t)mode;
    return PST_OK;
}

/* One chunk: {chunk: 0, rank: 0, nodes: [0, 11], recompute: none}. *next is the operator that it has to begin with. */
static pst_status read_chunk(reader *r, const yaml_node_t *node, uint32_t chunk, uint32_t *rank, uint8_t *recompute,
                             uint32_t *next) {
    static const key_row row[] = {{"chunk", 1}, {"rank", 1}, {"nodes", 1}, {"recompute", 0}};
    yaml_node_t *value[MAX_KEY];
    uint32_t number, first, last;
    PST_TRY(read_mapping(r, node, row, 4, value));
    PST_TRY(read_u32(r, value[0], chunk, chunk, &number));
    PST_TRY(read_u32(r, value[1], 0, r->head.n_rank - 1, rank));
    *recompute = PST_RECOMPUTE_NONE;
    if (value[3]) PST_TRY(read_recompute(r, value[3], recompute));
    if (value[2]->type != YAML_SEQUENCE_NODE || items(value[2]) != 2) {
        return fail_at(r, value[2], "expected ", "[first operator, last operator]");
    }
    const yaml_node_item_t *item = value[2]->data.sequence.items.start;
    PST_TRY(read_u32(r, node_at(r, item[0]), *next, *next, &first));
    PST_TRY(read_u32(r, node_at(r, item[1]), first, MAX_NODE - 1, &last));
    *next = last + 1;
    return PST_OK;
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

static pst_status read_body(reader *r, pst_plan **plan) {
    uint32_t n_node = 0, rank, next = 0;
    uint8_t recompute;
    const yaml_node_item_t *item = r->chunks->data.sequence.items.start;
    for (uint32_t c = 0; c < r->head.n_chunk; c++)
        PST_TRY(read_chunk(r, node_at(r, item[c]), c, &rank, &recompute, &n_node));
    pst_plan *p;
    PST_TRY(pst_plan_open(n_node, r->head.n_rank, r->head.n_chunk, &p));
    pst_plan arrays = *p;
    *p = r->head;
    p->n_node = n_node;
    p->chunk_of_node = arrays.chunk_of_node;
    p->rank_of_chunk = arrays.rank_of_chunk;
    p->recompute = arrays.recompute;
    p->peak_bytes = arrays.peak_bytes;
    pst_status status = PST_OK;
    for (uint32_t c = 0; c < p->n_chunk && status == PST_OK; c++) {
        uint32_t first = next;
        status = read_chunk(r, node_at(r, item[c]), c, &p->rank_of_chunk[c], &p->recompute[c], &next);
        for (uint32_t i = first; i < next; i++) p->chunk_of_node[i] = c;
    }
    for (uint32_t k = 0; r->peak && k < p->n_rank && status == PST_OK; k++) {
        const yaml_node_t *bytes = node_at(r, r->peak->data.sequence.items.start[k]);
        status = read_uint(r, bytes, 0, UINT64_MAX, &p->peak_bytes[k]);
    }
    if (status != PST_OK) {
        pst_plan_close(p);
        return status;
    }
    *plan = p;
    return PST_OK;
}

pst_status pst_plan_parse(const char *text, size_t bytes, const char *file, pst_plan **plan) {
    reader r = {.file = file};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return pst_fail(PST_ENOMEM, "%s: no memory to read it", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    pst_status status;
    if (!yaml_parser_load(&parser, &r.document)) {
        status = parser.error == YAML_MEMORY_ERROR || parser.error == YAML_NO_ERROR /* libyaml does not always say */
                     ? pst_fail(PST_ENOMEM, "%s: no memory to read it", file)
                     : pst_fail(PST_EINPUT, "%s:%zu:%zu: %s", file, parser.problem_mark.line + 1,
                                parser.problem_mark.column + 1, parser.problem ? parser.problem : "not YAML");
        goto delete_parser;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&r.document);
    status = root ? read_head(&r, root) : pst_fail(PST_EINPUT, "%s: the file is empty", file);
    if (status == PST_OK) status = read_body(&r, plan);
    yaml_document_delete(&r.document);
delete_parser:
    yaml_parser_delete(&parser);
    return status;
}

pst_status pst_plan_load(const char *path, pst_plan **plan) {
    if (!path || !plan) return pst_fail(PST_EINPUT, "pst_plan_load: %s is NULL", path ? "plan" : "path");
    char *text = NULL;
    size_t bytes = 0;
    PST_TRY(pst_file_read(path, MAX_FILE, &text, &bytes));
    pst_status status = pst_plan_parse(text, bytes, path, plan);
    free(text);
    return status;
}
