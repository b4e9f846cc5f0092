/* Shared by both forms of a cluster: nodes and kinds are added while the file is read. */
#ifndef PST_PIPELINE_CLUSTER_PARTS_H
#define PST_PIPELINE_CLUSTER_PARTS_H
#include "pipeline/cluster/cluster.h"

/* A link as given in the file. */
typedef struct {
    double bytes_per_s;  /* one direction of a device's link, or of one NIC; 0: not given */
    uint64_t latency_ns; /* PST_LATENCY_DEFAULT: not given */
    /* NICs of a node; 0: one per device that is not a CPU; one if there are only CPUs */
    uint32_t nics;
    double oversubscription; /* >= 1 */
} pst_link_given;
#define PST_LATENCY_DEFAULT UINT64_MAX
#define PST_LINK_NOT_GIVEN ((pst_link_given){0, PST_LATENCY_DEFAULT, 0, 1})

/* Finds a level by name: "device", "nvlink", ... *directions: how many directions the usual figure
 * counts together (2 for nvlink, as in data sheets). 0: unknown name. */
int pst_level_find(const char *name, pst_level *level, double *directions);
/* For messages. */
#define PST_LEVEL_NAMES "device, nvlink, pcie, node, nic, ib, ethernet"

/* Parse a rate, a time; 0: out of range, or no unit. */
int pst_cluster_rate(const char *text, double *bytes_per_s);
int pst_cluster_latency(const char *text, uint64_t *ns);

pst_status pst_cluster_open(pst_cluster **cluster);
/* Adds the kind unless it is there. *index: its index in the cluster. ENOMEM. */
pst_status pst_cluster_add_kind(pst_cluster *c, const pst_device_kind *kind, uint32_t *index);
/* Adds devices to the node that will be added next. memory 0: that of the kind. ENOMEM; EINPUT: too
 * many, with the limit. */
pst_status pst_cluster_add_devices(pst_cluster *c, uint32_t count, uint32_t kind, double speed,
                                   uint64_t memory);
/* Adds a node of the devices that were added since the last one. */
pst_status pst_cluster_add_node(pst_cluster *c, const char *name,
                                const pst_link_given given[PST_LEVEL_COUNT]);
/* Adds `count` copies of the last node, with its devices. */
pst_status pst_cluster_repeat_node(pst_cluster *c, uint32_t count);
/* Sets the default links between nodes of CPUs, for a cluster without any given link. */
void pst_cluster_default_links(pst_cluster *c);

/* The short form, a single line of text. */
int pst_cluster_is_short(const char *text);
pst_status pst_cluster_parse_short(const char *text, const char *file, pst_cluster *c);
#endif
