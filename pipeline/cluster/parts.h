/* What the two forms of a cluster have in common: nodes and kinds are added to it as they are
 * read. */
#ifndef PST_PIPELINE_CLUSTER_PARTS_H
#define PST_PIPELINE_CLUSTER_PARTS_H
#include "pipeline/cluster/cluster.h"

/* A link as it was given. */
typedef struct {
    double bytes_per_s;  /* one direction of a device's link, or of one NIC; 0: not given */
    uint64_t latency_ns; /* PST_LATENCY_DEFAULT: not given */
    /* of a node; 0: one for each device that is no cpu, one in all where there is none */
    uint32_t nics;
    double oversubscription; /* >= 1 */
} pst_link_given;
#define PST_LATENCY_DEFAULT UINT64_MAX
#define PST_LINK_NOT_GIVEN ((pst_link_given){0, PST_LATENCY_DEFAULT, 0, 1})

/* The names of a level: "device", "nvlink", ... *directions: how many its figure counts together (2
 * of nvlink, as its data sheets do). 0: there is no such name. */
int pst_level_find(const char *name, pst_level *level, double *directions);
/* For complaints. */
#define PST_LEVEL_NAMES "device, nvlink, pcie, node, nic, ib, ethernet"

/* A rate or a time that can be calculated with; 0: it is none, or has no unit. */
int pst_cluster_rate(const char *text, double *bytes_per_s);
int pst_cluster_latency(const char *text, uint64_t *ns);

pst_status pst_cluster_open(pst_cluster **cluster);
/* Index of a copy of the kind in the cluster. ENOMEM. */
pst_status pst_cluster_add_kind(pst_cluster *c, const pst_device_kind *kind, uint32_t *index);
/* Devices to the node that is to be added next. memory 0: what the kind has. ENOMEM; EINPUT: too
 * many, says how many there may be. */
pst_status pst_cluster_add_devices(pst_cluster *c, uint32_t count, uint32_t kind, double speed,
                                   uint64_t memory);
/* The node of the devices that have been added since the last one. */
pst_status pst_cluster_add_node(pst_cluster *c, const char *name,
                                const pst_link_given given[PST_LEVEL_COUNT]);
/* As many nodes like the last one, with its devices. */
pst_status pst_cluster_repeat_node(pst_cluster *c, uint32_t count);
/* Links between nodes of CPUs, of a cluster of which no link was given. */
void pst_cluster_plain_links(pst_cluster *c);

/* The short form. */
int pst_cluster_is_short(const char *text);
pst_status pst_cluster_parse_short(const char *text, const char *file, pst_cluster *c);
#endif
