/* Replaces the devices of a workload by those of a cluster. The file's times are for the cluster's
 * first device; other kinds are scaled by their matrix-product rate. See import.h. */
#include "partition/foreign/import.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Relative speed: the matrix-product rate in the narrowest type that all kinds have. */
static double speed_of(const pst_cluster *c, const pst_cluster_device *d) {
    const pst_dtype order[] = {PST_F16, PST_BF16, PST_F32};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int all = 1;
        for (uint32_t k = 0; k < c->n_kind; k++) all &= c->kind[k].flops[order[i]] > 0;
        if (all && c->n_kind) return d->speed * c->kind[d->kind].flops[order[i]];
    }
    return d->speed;
}

typedef struct {
    double slower; /* than the first device */
    double memory;
    uint32_t kind, count;
    double speed;
} device_group;

static pst_status group_devices(const pst_cluster *c, const char *where, uint32_t most,
                                device_group *group, uint32_t *n) {
    *n = 0;
    for (uint32_t i = 0; i < c->n_device; i++) {
        const pst_cluster_device *d = &c->device[i];
        double slower = speed_of(c, &c->device[0]) / speed_of(c, d),
               memory = d->memory ? (double)d->memory : INFINITY;
        uint32_t g = 0;
        while (g < *n && (group[g].kind != d->kind || group[g].speed != d->speed ||
                          group[g].memory != memory))
            g++;
        if (g == most)
            return pst_fail(PST_EINPUT, "%s: too many kinds of devices; at most %u are supported",
                            where, most);
        if (g == *n) group[(*n)++] = (device_group){slower, memory, d->kind, 0, d->speed};
        group[g].count++;
    }
    return PST_OK;
}

double pst_import_slowest_link(const pst_cluster *c) {
    double least = INFINITY;
    for (uint32_t i = 0; i < c->n_node; i++)
        least = fmin(
            least, c->node[i].link[c->n_node > 1 ? PST_LEVEL_NODE : PST_LEVEL_DEVICE].bytes_per_s);
    return least;
}

pst_status pst_import_devices(pst_import *im, const pst_cluster *c, const char *where) {
    device_group group[PST_IMPORT_KINDS];
    uint32_t n_group = 0, others = im->n_kind - 1;
    PST_TRY(group_devices(c, where, PST_IMPORT_KINDS - others, group, &n_group));
    size_t n = im->n_node;
    double *time = calloc((n_group + others) * n + 1, sizeof *time);
    if (!time) return pst_fail(PST_ENOMEM, "no memory for the times of %u nodes", im->n_node);
    for (uint32_t k = 0; k < others; k++) {
        memcpy(time + (n_group + k) * n, im->time + (1 + k) * n, n * sizeof *time);
        im->kind[n_group + k] = im->kind[1 + k];
    }
    int pays = im->kind[0].pays;
    for (uint32_t g = 0; g < n_group; g++) {
        for (size_t v = 0; v < n; v++) time[g * n + v] = im->time[v] * group[g].slower;
        char *name = im->kind_name[g];
        const char *kind = c->n_kind ? c->kind[group[g].kind].name : "device";
        if (group[g].speed == 1) snprintf(name, sizeof im->kind_name[g], "%s", kind);
        else snprintf(name, sizeof im->kind_name[g], "%s x%.3g", kind, group[g].speed);
        im->kind[g].name = name;
        im->kind[g].count = group[g].count;
        im->kind[g].pays = pays;
        im->kind[g].memory = im->format == PST_IMPORT_PIPEDREAM ? INFINITY : group[g].memory;
    }
    free(im->time);
    im->time = time;
    im->n_kind = n_group + others;
    return PST_OK;
}
