/* Changes one value of a cluster, for `simulate --what-if`. */
#include "config/number.h"
#include "pipeline/cluster/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pst_status wrong(const char *change, const char *what) {
    return pst_fail(PST_EINPUT, "'%.80s': %s", change, what);
}

/* --- links ------------------------------------------------------------------------------------ */

/* Sets the rate on all nodes; the number of NICs that share it stays. */
static void set_rate(pst_cluster *c, pst_level level, double bytes_per_s) {
    for (uint32_t i = 0; i < c->n_node; i++) {
        pst_cluster_node *node = &c->node[i];
        double before = node->link[level].bytes_per_s;
        node->link[level].bytes_per_s = bytes_per_s;
        if (level != PST_LEVEL_NODE) continue;
        node->node_bytes_per_s =
            before > 0 ? node->node_bytes_per_s * (bytes_per_s / before) : bytes_per_s;
    }
}

/* Whether the cluster has links of this level. */
static int has_level(const pst_cluster *c, pst_level level) {
    if (level == PST_LEVEL_NODE) return c->n_node > 1;
    for (uint32_t i = 1; i < c->n_device; i++)
        if (c->device[i].node == c->device[i - 1].node) return 1;
    return 0;
}

/* "ib", or "ib.latency", = value. */
static pst_status change_link(pst_cluster *c, char *name, const char *value, const char *change) {
    char *of = strchr(name, '.');
    pst_level level;
    double directions, rate;
    uint64_t ns;
    if (of) *of++ = 0;
    if (!pst_level_find(name, &level, &directions))
        return wrong(change, "unknown link; expected one of " PST_LEVEL_NAMES);
    if (!has_level(c, level))
        return wrong(change,
                     level == PST_LEVEL_NODE
                         ? "the cluster has one node, so it has no link between nodes"
                         : "no node has several devices, so there is no link between devices");
    if (!of || !strcmp(of, "bandwidth")) {
        if (!pst_cluster_rate(value, &rate))
            return wrong(change, "expected a rate with its unit, such as 200Gb/s or 450GB/s");
        set_rate(c, level, rate / directions);
        return PST_OK;
    }
    if (strcmp(of, "latency"))
        return wrong(change, "unknown property of a link; expected bandwidth or latency");
    if (!pst_cluster_latency(value, &ns)) return wrong(change, "expected a time, such as 10us");
    for (uint32_t i = 0; i < c->n_node; i++) c->node[i].link[level].latency_ns = ns;
    return PST_OK;
}

/* --- devices ---------------------------------------------------------------------------------- */

/* "3" or "*": devices [*from, *to). */
static int read_range(const pst_cluster *c, const char *text, uint32_t *from, uint32_t *to) {
    int64_t v;
    *from = 0;
    *to = c->n_device;
    if (!strcmp(text, "*")) return 1;
    if (!pst_number_whole(text, &v) || v < 0 || v >= c->n_device) return 0;
    *from = (uint32_t)v;
    *to = *from + 1;
    return 1;
}

/* "3.speed" or "*.memory", = value. */
static pst_status change_device(pst_cluster *c, char *name, const char *value, const char *change) {
    char *of = strchr(name, '.'), which[80];
    uint32_t from, to;
    double v;
    if (of) *of++ = 0;
    snprintf(which, sizeof which, "unknown device; expected 0 to %u, or * for all",
             c->n_device - 1);
    if (!read_range(c, name, &from, &to)) return wrong(change, which);
    int speed = of && !strcmp(of, "speed"), memory = of && !strcmp(of, "memory");
    if (!speed && !memory)
        return wrong(change, "unknown property of a device; expected speed or memory");
    if (speed && (!pst_number_real(value, &v) || v < 1e-3 || v > 1e3))
        return wrong(change, "expected a speed from 0.001 to 1000 (1: as in the data sheet)");
    if (memory && (!pst_number_bytes(value, &v) || v < 1 || v >= 0x1p60))
        return wrong(change, "expected a size, such as 40GiB");
    for (uint32_t d = from; d < to; d++) {
        if (speed) c->device[d].speed = v;
        else {
            c->device[d].memory = (uint64_t)v;
            c->device[d].given = 1;
        }
    }
    return PST_OK;
}

pst_status pst_cluster_change(pst_cluster *c, const char *change) {
    char text[128];
    const char *equals = strchr(change, '=');
    if (!equals || strlen(change) >= sizeof text)
        return wrong(change, "expected KEY=VALUE, such as link.ib=200Gb/s, link.ib.latency=20us, "
                             "device.3.speed=0.5, "
                             "device.*.memory=40GiB");
    snprintf(text, sizeof text, "%s", change);
    char *value = text + (equals - change);
    *value++ = 0;
    if (!strncmp(text, "link.", 5)) return change_link(c, text + 5, value, change);
    if (!strncmp(text, "device.", 7)) return change_device(c, text + 7, value, change);
    return wrong(change, "expected link.NAME, link.NAME.latency, device.N.speed or device.N.memory "
                         "(* for all devices)");
}
