/* Reads a cluster from YAML; reads either form from a file or a text. */
#include "base/file.h"
#include "config/number.h"
#include "config/yaml.h"
#include "pipeline/cluster/parts.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 20 };

typedef struct {
    pst_yaml y;
    pst_cluster *c;
    pst_device_kind *own; /* [n_own] the kinds of the file */
    uint32_t n_own;
    pst_link_given given[PST_LEVEL_COUNT]; /* default links of all nodes */
    int links;                             /* 1: the file gives some link */
} reader;

/* Puts file, line and column before a message that has none. */
static pst_status at(const reader *r, const yaml_node_t *node, pst_status status) {
    return status == PST_OK ? PST_OK : pst_yaml_at(&r->y, node, status);
}

/* A name of printable ASCII, because it is printed again. */
static pst_status read_name(const reader *r, const yaml_node_t *node, size_t bytes, char *name) {
    const char *text = pst_yaml_text(node);
    char expected[64];
    int valid = *text && strlen(text) < bytes;
    for (const char *at = text; *at; at++)
        valid &= *at > ' ' && *at < 127 && !strchr("\"'\\{}[],:#&*!|>%@`", *at);
    if (valid) {
        snprintf(name, bytes, "%s", text);
        return PST_OK;
    }
    snprintf(expected, sizeof expected, "a name of 1 to %zu printable ASCII characters", bytes - 1);
    return pst_yaml_fail(&r->y, node, "expected ", expected);
}

/* --- kinds ------------------------------------------------------------------------------------ */

static pst_status read_rate(const reader *r, const yaml_node_t *node, double *bytes_per_s) {
    if (pst_cluster_rate(pst_yaml_text(node), bytes_per_s)) return PST_OK;
    return pst_yaml_fail(&r->y, node, "expected ",
                         "a rate above 0 with its unit, such as 450GB/s or 400Gb/s");
}

static pst_status read_memory(const reader *r, const yaml_node_t *node, uint64_t *bytes) {
    PST_TRY(pst_yaml_bytes(&r->y, node, bytes));
    return *bytes ? PST_OK : pst_yaml_fail(&r->y, node, "expected a size, such as 64GiB", "");
}

/* The peaks: fp32, tf32, bf16, fp16, fp8. No unit multiplies wider types faster than narrower
 * ones. */
static pst_status read_peaks(const reader *r, const yaml_node_t *node,
                             const yaml_node_t *const value[5], pst_device_kind *kind) {
    static const pst_dtype dtype[] = {PST_F32, PST_TF32, PST_BF16, PST_F16, PST_F8};
    static const int width[] = {4, 3, 2, 2, 1};
    static const char *const name[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
    int given = 0;
    for (int i = 0; i < 5; i++) {
        if (!value[i]) continue;
        PST_TRY(pst_yaml_real(&r->y, value[i], 1, 1e24, &kind->flops[dtype[i]]));
        given = 1;
        for (int k = 0; k < i; k++)
            if (width[k] > width[i] && kind->flops[dtype[k]] > kind->flops[dtype[i]])
                return pst_yaml_fail(&r->y, value[i], "this peak is below that of a wider type, ",
                                     name[k]);
    }
    return given ? PST_OK
                 : pst_yaml_fail(&r->y, node, "the peak rate is missing; ",
                                 "set at least one of fp32, tf32, bf16, fp16, fp8 in FLOP/s, such "
                                 "as bf16: 312e12");
}

static pst_status read_kind(reader *r, const yaml_node_t *node, pst_device_kind *kind) {
    static const pst_yaml_key row[] = {{"name", 1},  {"bandwidth", 1}, {"memory", 0}, {"fp32", 0},
                                       {"tf32", 0},  {"bf16", 0},      {"fp16", 0},   {"fp8", 0},
                                       {"power", 0}, {"reserved", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    *kind = (pst_device_kind){.link = {5000, 0}};
    PST_TRY(pst_yaml_mapping(&r->y, node, row, 10, value));
    PST_TRY(read_name(r, value[0], sizeof kind->name, kind->name));
    for (uint32_t i = 0; i < r->n_own; i++)
        if (!strcasecmp(r->own[i].name, kind->name))
            return pst_yaml_fail(&r->y, value[0],
                                 "this name is already used by another kind: ", kind->name);
    PST_TRY(read_rate(r, value[1], &kind->bytes_per_s));
    if (value[2]) PST_TRY(read_memory(r, value[2], &kind->memory));
    if (value[8]) PST_TRY(pst_yaml_real(&r->y, value[8], 1, 1e6, &kind->watts));
    if (value[9]) PST_TRY(pst_yaml_bytes(&r->y, value[9], &kind->reserved));
    if (value[9] && kind->reserved >= kind->memory)
        return pst_yaml_fail(&r->y, value[9],
                             "must be less than the memory of this kind: ", kind->name);
    return read_peaks(r, node, value + 3, kind);
}

static pst_status read_kinds(reader *r, const yaml_node_t *list) {
    uint32_t n;
    PST_TRY(pst_yaml_list(&r->y, list, 1, PST_DEVICE_KINDS_OWN,
                          "kinds, such as [{name: x1, fp32: 20e12, bandwidth: 1TB/s}]", &n));
    r->own = calloc(n, sizeof *r->own);
    if (!r->own) return pst_fail(PST_ENOMEM, "%s: no memory for %u kinds of devices", r->y.file, n);
    for (uint32_t i = 0; i < n; i++, r->n_own++)
        PST_TRY(read_kind(r, pst_yaml_item(&r->y, list, i), &r->own[i]));
    return PST_OK;
}

/* node NULL: the default kind. The file's own kinds come first. */
static pst_status find_kind(reader *r, const yaml_node_t *node, uint32_t *index) {
    const char *name = node ? pst_yaml_text(node) : "cpu";
    const pst_device_kind *kind;
    pst_status status = pst_device_kind_find(name, r->own, r->n_own, &kind);
    if (status != PST_OK) return node ? at(r, node, status) : status;
    return pst_cluster_add_kind(r->c, kind, index);
}

/* --- links ------------------------------------------------------------------------------------ */

static pst_status read_link(reader *r, const yaml_node_t *node, pst_level level, double directions,
                            pst_link_given *link) {
    static const pst_yaml_key row[] = {
        {"bandwidth", 1}, {"latency", 0}, {"nics", 0}, {"oversubscription", 0}};
    const yaml_node_t *value[PST_YAML_KEYS] = {node};
    if (node->type == YAML_MAPPING_NODE) PST_TRY(pst_yaml_mapping(&r->y, node, row, 4, value));
    *link = PST_LINK_NOT_GIVEN;
    PST_TRY(read_rate(r, value[0], &link->bytes_per_s));
    link->bytes_per_s /= directions;
    if (value[1] && !pst_cluster_latency(pst_yaml_text(value[1]), &link->latency_ns))
        return pst_yaml_fail(&r->y, value[1], "expected ", "a time, such as 10us or 500ns");
    if (level != PST_LEVEL_NODE && (value[2] || value[3]))
        return pst_yaml_fail(&r->y, value[2] ? value[2] : value[3],
                             "nics and oversubscription are ",
                             "only allowed for the link between nodes");
    if (value[2]) PST_TRY(pst_yaml_u32(&r->y, value[2], 1, 1024, &link->nics));
    if (value[3]) PST_TRY(pst_yaml_real(&r->y, value[3], 1, 1000, &link->oversubscription));
    return PST_OK;
}

static pst_status read_links(reader *r, const yaml_node_t *node,
                             pst_link_given given[PST_LEVEL_COUNT]) {
    int seen[PST_LEVEL_COUNT] = {0};
    if (node->type != YAML_MAPPING_NODE)
        return pst_yaml_fail(&r->y, node, "expected links, such as ",
                             "{nvlink: 900GB/s, ib: 400Gb/s}");
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->y.document, pair->key);
        pst_level level;
        double directions;
        char what[128];
        snprintf(what, sizeof what, "unknown link \"%.40s\"; expected one of ", pst_yaml_text(key));
        if (!pst_level_find(pst_yaml_text(key), &level, &directions))
            return pst_yaml_fail(&r->y, key, what, PST_LEVEL_NAMES);
        if (seen[level]++)
            return pst_yaml_fail(&r->y, key, "given twice: the link between ",
                                 level == PST_LEVEL_NODE ? "nodes" : "devices of a node");
        PST_TRY(read_link(r, yaml_document_get_node(&r->y.document, pair->value), level, directions,
                          &given[level]));
        r->links = 1;
    }
    return PST_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static pst_status add_devices(reader *r, const yaml_node_t *node) {
    static const pst_yaml_key row[] = {{"count", 0}, {"speed", 0}, {"memory", 0}, {"kind", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t count = 1, kind;
    uint64_t memory = 0;
    double speed = 1;
    PST_TRY(pst_yaml_mapping(&r->y, node, row, 4, value));
    if (value[0]) PST_TRY(pst_yaml_u32(&r->y, value[0], 1, PST_CLUSTER_MAX_DEVICES, &count));
    if (value[1]) PST_TRY(pst_yaml_real(&r->y, value[1], 1e-3, 1e3, &speed));
    if (value[2]) PST_TRY(read_memory(r, value[2], &memory));
    PST_TRY(find_kind(r, value[3], &kind));
    return at(r, node, pst_cluster_add_devices(r->c, count, kind, speed, memory));
}

static pst_status add_nodes(reader *r, const yaml_node_t *node) {
    static const pst_yaml_key row[] = {{"name", 0}, {"count", 0}, {"devices", 1}, {"links", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t count = 1, n;
    pst_link_given given[PST_LEVEL_COUNT] = {r->given[0], r->given[1]};
    char name[sizeof r->c->node->name] = "";
    PST_TRY(pst_yaml_mapping(&r->y, node, row, 4, value));
    if (value[0]) PST_TRY(read_name(r, value[0], sizeof name, name));
    if (value[1]) PST_TRY(pst_yaml_u32(&r->y, value[1], 1, PST_CLUSTER_MAX_DEVICES, &count));
    PST_TRY(pst_yaml_list(&r->y, value[2], 1, PST_CLUSTER_MAX_DEVICES,
                          "devices, such as [{count: 2, kind: h100, memory: 64GiB}]", &n));
    for (uint32_t i = 0; i < n; i++) PST_TRY(add_devices(r, pst_yaml_item(&r->y, value[2], i)));
    if (value[3]) PST_TRY(read_links(r, value[3], given));
    PST_TRY(at(r, node, pst_cluster_add_node(r->c, name, given)));
    return at(r, node, pst_cluster_repeat_node(r->c, count - 1));
}

static pst_status read_cluster(reader *r, const yaml_node_t *root) {
    static const pst_yaml_key row[] = {{"nodes", 1}, {"links", 0}, {"kinds", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t n;
    PST_TRY(pst_yaml_mapping(&r->y, root, row, 3, value));
    if (value[2]) PST_TRY(read_kinds(r, value[2]));
    if (value[1]) PST_TRY(read_links(r, value[1], r->given));
    PST_TRY(pst_yaml_list(&r->y, value[0], 1, PST_CLUSTER_MAX_DEVICES, "nodes", &n));
    for (uint32_t i = 0; i < n; i++) PST_TRY(add_nodes(r, pst_yaml_item(&r->y, value[0], i)));
    if (!r->links) pst_cluster_default_links(r->c);
    return PST_OK;
}

static pst_status parse_yaml(const char *text, size_t bytes, const char *file, pst_cluster *c) {
    reader r = {.c = c, .given = {PST_LINK_NOT_GIVEN, PST_LINK_NOT_GIVEN}};
    const yaml_node_t *root;
    PST_TRY(pst_yaml_open(text, bytes, file, "a cluster", &r.y, &root));
    pst_status status = read_cluster(&r, root);
    pst_yaml_close(&r.y);
    free(r.own);
    return status;
}

/* The text need not end with a zero byte, so the short form is copied. */
static pst_status parse(const char *text, size_t bytes, const char *file, pst_cluster *c) {
    enum { MOST = 4096 };
    char line[MOST];
    size_t n = bytes;
    while (n > 0 && strchr(" \t\r\n", text[n - 1])) n--;
    if (n >= MOST || memchr(text, 0, n)) return parse_yaml(text, bytes, file, c);
    memcpy(line, text, n);
    line[n] = 0;
    return pst_cluster_is_short(line) ? pst_cluster_parse_short(line, file, c)
                                      : parse_yaml(text, bytes, file, c);
}

pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file,
                             pst_cluster **cluster) {
    pst_cluster *c;
    PST_TRY(pst_cluster_open(&c));
    pst_status status = parse(text, bytes, file, c);
    if (status == PST_OK) *cluster = c;
    else pst_cluster_close(c);
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *file, void *cluster) {
    return pst_cluster_parse(text, bytes, file, cluster);
}

pst_status pst_cluster_load(const char *path, pst_cluster **cluster) {
    if (pst_cluster_is_short(path))
        return pst_cluster_parse(path, strlen(path), "cluster", cluster);
    pst_status status = pst_file_parse(path, MAX_FILE, parse_into, cluster);
    if (status == PST_EINPUT && access(path, F_OK))
        return pst_fail(status,
                        "cluster: '%.200s' is neither a file nor a short form such as '16x8 h100 "
                        "nvlink:900GB/s ib:400Gb/s'",
                        path);
    return status;
}
