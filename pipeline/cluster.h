/* A cluster: the devices that ranks run on, rank r on device r in the order of the file. YAML:
 *
 *     nodes:
 *       - name: fast
 *         count: 2                                       # so many nodes like this; 1
 *         devices: [{count: 4, speed: 1, memory: 16GiB}] # count: 1; speed: of the durations that are modelled or
 * measured,
 *       - name: slow                                     # 1; memory: what a rank may use; without it, what the run
 * says
 *         devices: [{count: 2, speed: 0.5, memory: 8GiB}] */
#ifndef PST_PIPELINE_CLUSTER_H
#define PST_PIPELINE_CLUSTER_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_CLUSTER_MOST = 65536 }; /* devices */

typedef struct {
    double speed;    /* > 0; 2: everything takes half as long */
    uint64_t memory; /* bytes; 0: not given */
    uint32_t node;
} pst_cluster_device;

typedef struct {
    uint32_t n_node, n_device;
    pst_cluster_device *device;
} pst_cluster;

/* EINPUT says file, line, column, and what would be right. The cluster is the caller's. */
pst_status pst_cluster_load(const char *path, pst_cluster **cluster);
pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file, pst_cluster **cluster);
void pst_cluster_close(pst_cluster *cluster);
#endif
