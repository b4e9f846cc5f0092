/* See cluster.h. */
#include "pipeline/cluster.h"
#include "base/file.h"
#include "config/yaml.h"
#include <stdlib.h>

enum { MAX_FILE = 1 << 20 };

static pst_status add_devices(pst_yaml *y, const yaml_node_t *node, pst_cluster *c) {
    static const pst_yaml_key row[] = {{"count", 0}, {"speed", 0}, {"memory", 0}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t count = 1;
    pst_cluster_device device = {.speed = 1, .node = c->n_node};
    PST_TRY(pst_yaml_mapping(y, node, row, 3, value));
    if (value[0]) PST_TRY(pst_yaml_u32(y, value[0], 1, PST_CLUSTER_MOST, &count));
    if (value[1]) PST_TRY(pst_yaml_real(y, value[1], 1e-3, 1e3, &device.speed));
    if (value[2]) PST_TRY(pst_yaml_bytes(y, value[2], &device.memory));
    if (count > PST_CLUSTER_MOST - c->n_device)
        return pst_yaml_fail(y, node, "there are more than 65536 devices", " up to here");
    pst_cluster_device *more = realloc(c->device, (c->n_device + count) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "%s: no memory for %u devices", y->file, c->n_device + count);
    c->device = more;
    while (count-- > 0) c->device[c->n_device++] = device;
    return PST_OK;
}

static pst_status add_nodes(pst_yaml *y, const yaml_node_t *node, pst_cluster *c) {
    static const pst_yaml_key row[] = {{"name", 0}, {"count", 0}, {"devices", 1}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t count = 1, n;
    PST_TRY(pst_yaml_mapping(y, node, row, 3, value));
    if (value[0] && !*pst_yaml_text(value[0])) return pst_yaml_fail(y, value[0], "expected ", "a name");
    if (value[1]) PST_TRY(pst_yaml_u32(y, value[1], 1, PST_CLUSTER_MOST, &count));
    PST_TRY(
        pst_yaml_list(y, value[2], 1, PST_CLUSTER_MOST, "devices, such as [{count: 2, speed: 0.5, memory: 8GiB}]", &n));
    for (; count > 0; count--, c->n_node++)
        for (uint32_t i = 0; i < n; i++) PST_TRY(add_devices(y, pst_yaml_item(y, value[2], i), c));
    return PST_OK;
}

static pst_status read_cluster(pst_yaml *y, const yaml_node_t *root, pst_cluster *c) {
    static const pst_yaml_key row[] = {{"nodes", 1}};
    const yaml_node_t *value[PST_YAML_KEYS];
    uint32_t n;
    PST_TRY(pst_yaml_mapping(y, root, row, 1, value));
    PST_TRY(pst_yaml_list(y, value[0], 1, PST_CLUSTER_MOST, "nodes", &n));
    for (uint32_t i = 0; i < n; i++) PST_TRY(add_nodes(y, pst_yaml_item(y, value[0], i), c));
    return PST_OK;
}

pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file, pst_cluster **cluster) {
    pst_yaml y;
    const yaml_node_t *root;
    PST_TRY(pst_yaml_open(text, bytes, file, "a cluster", &y, &root));
    pst_cluster *c = calloc(1, sizeof *c);
    pst_status status = c ? read_cluster(&y, root, c) : pst_fail(PST_ENOMEM, "%s: no memory to read it", file);
    pst_yaml_close(&y);
    if (status == PST_OK) *cluster = c;
    else pst_cluster_close(c);
    return status;
}

pst_status pst_cluster_load(const char *path, pst_cluster **cluster) {
    char *text = NULL;
    size_t bytes = 0;
    PST_TRY(pst_file_read(path, MAX_FILE, &text, &bytes));
    pst_status status = pst_cluster_parse(text, bytes, path, cluster);
    free(text);
    return status;
}

void pst_cluster_close(pst_cluster *c) {
    if (!c) return;
    free(c->device);
    free(c);
}
