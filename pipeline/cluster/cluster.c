/* Builds a cluster node by node, and answers queries about it. See cluster.h. */
#include "config/number.h"
#include "pipeline/cluster/parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_NS = 10000 };

/* --- building --------------------------------------------------------------------------------- */

pst_status pst_cluster_open(pst_cluster **cluster) {
    *cluster = calloc(1, sizeof **cluster);
    return *cluster ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a cluster");
}

void pst_cluster_close(pst_cluster *c) {
    if (!c) return;
    free(c->device);
    free(c->node);
    free(c->kind);
    free(c);
}

pst_status pst_cluster_add_kind(pst_cluster *c, const pst_device_kind *kind, uint32_t *index) {
    for (*index = 0; *index < c->n_kind; ++*index)
        if (!strcmp(c->kind[*index].name, kind->name)) return PST_OK;
    pst_device_kind *more = realloc(c->kind, (c->n_kind + 1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for the kinds of devices");
    c->kind = more;
    c->kind[c->n_kind++] = *kind;
    return PST_OK;
}

pst_status pst_cluster_add_devices(pst_cluster *c, uint32_t count, uint32_t kind, double speed,
                                   uint64_t memory) {
    if (count > PST_CLUSTER_MAX_DEVICES - c->n_device)
        return pst_fail(PST_EINPUT, "too many devices; expected at most %d",
                        PST_CLUSTER_MAX_DEVICES);
    pst_cluster_device *more = realloc(c->device, (c->n_device + count) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for %u devices", c->n_device + count);
    c->device = more;
    while (count-- > 0)
        c->device[c->n_device++] = (pst_cluster_device){
            speed, memory ? memory : c->kind[kind].memory, c->n_node, kind, memory > 0};
    return PST_OK;
}

uint64_t pst_device_kind_reserved(const pst_device_kind *kind, uint32_t communicators) {
    const uint64_t bytes = kind->reserved + communicators * kind->communicator;
    return bytes < kind->memory ? bytes : kind->memory;
}

void pst_cluster_reserve(pst_cluster *c, uint32_t communicators) {
    for (uint32_t i = 0; i < c->n_device; i++) {
        pst_cluster_device *d = &c->device[i];
        if (!d->given) d->memory -= pst_device_kind_reserved(&c->kind[d->kind], communicators);
        if (!d->memory && c->kind[d->kind].memory) d->memory = 1; /* 0 would mean no limit */
    }
}

static uint32_t first_of_node(const pst_cluster *c, uint32_t node) {
    uint32_t d = c->n_device;
    while (d > 0 && c->device[d - 1].node >= node) d--;
    return d;
}

static int is_cpu(const pst_cluster *c, uint32_t device) {
    return !strcmp(c->kind[c->device[device].kind].name, "cpu");
}

/* As given, else that of the slowest kind among its devices. */
static pst_cluster_link device_link(const pst_cluster *c, uint32_t first,
                                    const pst_link_given *given) {
    pst_cluster_link link = {.bytes_per_s = INFINITY};
    for (uint32_t d = first; d < c->n_device; d++) {
        const pst_cluster_link *own = &c->kind[c->device[d].kind].link;
        link.bytes_per_s = fmin(link.bytes_per_s, own->bytes_per_s);
        if (own->latency_ns > link.latency_ns) link.latency_ns = own->latency_ns;
    }
    if (given->bytes_per_s) link.bytes_per_s = given->bytes_per_s;
    if (given->latency_ns != PST_LATENCY_DEFAULT) link.latency_ns = given->latency_ns;
    return link;
}

static void set_node_link(const pst_cluster *c, uint32_t first, const pst_link_given *given,
                          pst_cluster_node *node) {
    uint32_t nics = given->nics;
    for (uint32_t d = first; d < c->n_device && !given->nics; d++) nics += !is_cpu(c, d);
    node->link[PST_LEVEL_NODE].bytes_per_s = given->bytes_per_s;
    node->link[PST_LEVEL_NODE].latency_ns =
        given->latency_ns == PST_LATENCY_DEFAULT ? NODE_NS : given->latency_ns;
    node->node_bytes_per_s = given->bytes_per_s * (nics ? nics : 1) / given->oversubscription;
}

static pst_status grow_nodes(pst_cluster *c, uint32_t more) {
    pst_cluster_node *node = realloc(c->node, (c->n_node + (size_t)more) * sizeof *node);
    if (!node) return pst_fail(PST_ENOMEM, "no memory for %u nodes", c->n_node + more);
    c->node = node;
    return PST_OK;
}

pst_status pst_cluster_add_node(pst_cluster *c, const char *name,
                                const pst_link_given given[PST_LEVEL_COUNT]) {
    uint32_t first = first_of_node(c, c->n_node);
    PST_TRY(grow_nodes(c, 1));
    pst_cluster_node *node = &c->node[c->n_node++];
    *node = (pst_cluster_node){0};
    snprintf(node->name, sizeof node->name, "%s", name);
    node->link[PST_LEVEL_DEVICE] = device_link(c, first, &given[PST_LEVEL_DEVICE]);
    set_node_link(c, first, &given[PST_LEVEL_NODE], node);
    return PST_OK;
}

pst_status pst_cluster_repeat_node(pst_cluster *c, uint32_t count) {
    uint32_t last = c->n_node - 1, first = first_of_node(c, last), n = c->n_device - first;
    if (!count) return PST_OK;
    if (count > (PST_CLUSTER_MAX_DEVICES - c->n_device) / n)
        return pst_fail(PST_EINPUT, "too many devices; expected at most %d",
                        PST_CLUSTER_MAX_DEVICES);
    PST_TRY(grow_nodes(c, count));
    pst_cluster_device *device =
        realloc(c->device, (c->n_device + (size_t)count * n) * sizeof *device);
    if (!device) return pst_fail(PST_ENOMEM, "no memory for %u devices", c->n_device + count * n);
    c->device = device;
    while (count-- > 0) {
        c->node[c->n_node] = c->node[last];
        for (uint32_t i = 0; i < n; i++) {
            device[c->n_device] = device[first + i];
            device[c->n_device++].node = c->n_node;
        }
        c->n_node++;
    }
    return PST_OK;
}

void pst_cluster_default_links(pst_cluster *c) {
    for (uint32_t d = 0; d < c->n_device; d++) {
        pst_cluster_node *node = &c->node[c->device[d].node];
        if (!is_cpu(c, d)) {
            node->link[PST_LEVEL_NODE].bytes_per_s = node->node_bytes_per_s = 0;
            while (d + 1 < c->n_device && c->device[d + 1].node == c->device[d].node) d++;
            continue;
        }
        node->link[PST_LEVEL_NODE] = c->kind[c->device[d].kind].link;
        node->node_bytes_per_s += node->link[PST_LEVEL_NODE].bytes_per_s; /* one per device */
    }
}

pst_status pst_cluster_default(uint32_t n_device, pst_cluster **cluster) {
    const pst_link_given given[PST_LEVEL_COUNT] = {PST_LINK_NOT_GIVEN, PST_LINK_NOT_GIVEN};
    const pst_device_kind *cpu;
    pst_cluster *c;
    uint32_t kind;
    PST_TRY(pst_device_kind_find("cpu", NULL, 0, &cpu));
    PST_TRY(pst_cluster_open(&c));
    pst_status status = pst_cluster_add_kind(c, cpu, &kind);
    if (status == PST_OK) status = pst_cluster_add_devices(c, n_device, kind, 1, 0);
    if (status == PST_OK) status = pst_cluster_add_node(c, "", given);
    if (status == PST_OK) *cluster = c;
    else pst_cluster_close(c);
    return status;
}

/* --- asking ----------------------------------------------------------------------------------- */

static const char *node_text(const pst_cluster *c, uint32_t node, char text[48]) {
    const char *name = c->node[node].name;
    snprintf(text, 48, "%u%s%s%s", node, *name ? " (" : "", name, *name ? ")" : "");
    return text;
}

pst_status pst_cluster_between(const pst_cluster *c, uint32_t a, uint32_t b,
                               pst_cluster_link *link) {
    uint32_t x = c->device[a].node, y = c->device[b].node;
    pst_level level = x == y ? PST_LEVEL_DEVICE : PST_LEVEL_NODE;
    const pst_cluster_link *p = &c->node[x].link[level], *q = &c->node[y].link[level];
    char first[48], second[48];
    if (!p->bytes_per_s || !q->bytes_per_s)
        return x == y ? pst_fail(PST_EINPUT,
                                 "the cluster has no link between the devices of node %s; add one, "
                                 "such as nvlink: 900GB/s",
                                 node_text(c, x, first))
                      : pst_fail(PST_EINPUT,
                                 "the cluster has no link between nodes %s and %s; add one, such "
                                 "as ib: 400Gb/s",
                                 node_text(c, x, first), node_text(c, y, second));
    link->bytes_per_s = fmin(p->bytes_per_s, q->bytes_per_s);
    link->latency_ns = p->latency_ns > q->latency_ns ? p->latency_ns : q->latency_ns;
    return PST_OK;
}

int pst_cluster_rate(const char *text, double *bytes_per_s) {
    double v;
    if (pst_number_real(text, &v)) return 0; /* a number without a unit */
    if (!pst_number_rate(text, &v) || v < 1 || v > 1e18) return 0;
    *bytes_per_s = v;
    return 1;
}

int pst_cluster_latency(const char *text, uint64_t *ns) {
    double v;
    if (!pst_number_time(text, &v) || v > 1e12) return 0;
    *ns = (uint64_t)llround(v);
    return 1;
}
