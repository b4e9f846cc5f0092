/* Clusters like another one, with another number of devices: whole nodes of the same kind more or
 * fewer. See cluster.h. */
#include "pipeline/cluster/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pst_status divides_node(uint32_t n_device, uint32_t each) {
    return pst_fail(PST_EINPUT,
                    "%u devices: the nodes of the cluster have %u devices; expected a multiple or "
                    "a divisor of that",
                    n_device, each);
}

/* Whether the first n devices are whole nodes, or a part of the first that divides it. */
static pst_status check_first(const pst_cluster *c, uint32_t n) {
    uint32_t each = 0;
    while (each < c->n_device && c->device[each].node == c->device[0].node) each++;
    if (n < each ? each % n != 0 : n < c->n_device && c->device[n].node == c->device[n - 1].node)
        return divides_node(n, each);
    return PST_OK;
}

/* The counts are followed by one group. */
static pst_status with_nodes(const char *text, uint32_t n, char resized[PST_CLUSTER_TEXT]) {
    const char *counts = text + strspn(text, " "), *rest = counts + strcspn(counts, " ");
    const char *x = memchr(counts, 'x', (size_t)(rest - counts));
    const uint32_t each = (uint32_t)strtoul(x ? x + 1 : counts, NULL, 10);
    if (n % each) return divides_node(n, each);
    int length = snprintf(resized, PST_CLUSTER_TEXT, "%ux%u%s", n / each, each, rest);
    return length < PST_CLUSTER_TEXT
               ? PST_OK
               : pst_fail(PST_EINPUT, "the cluster in one line is too long; use a file");
}

pst_status pst_cluster_resize(const char *text, uint32_t n, char resized[PST_CLUSTER_TEXT]) {
    pst_cluster *c;
    PST_TRY(pst_cluster_load(text, &c));
    const uint32_t have = c->n_device;
    pst_status status = n <= have ? check_first(c, n) : PST_OK;
    pst_cluster_close(c);
    if (status != PST_OK) return status;
    if (n > have && pst_cluster_is_short(text) && !strchr(text, '+'))
        return with_nodes(text, n, resized);
    if (n > have)
        return pst_fail(PST_EINPUT, "%u devices: the cluster has only %u; %s", n, have,
                        pst_cluster_is_short(text) ? "only a cluster of equal nodes can be enlarged"
                                                   : "raise the counts in the file");
    if (snprintf(resized, PST_CLUSTER_TEXT, "%s", text) >= PST_CLUSTER_TEXT)
        return pst_fail(PST_EINPUT, "the name of the cluster file is too long");
    return PST_OK;
}
