/* Functions that the readers of both forms of a cluster use to add nodes and kinds. Private to this
 * component. */
#ifndef PST_PIPELINE_CLUSTER_PARTS_H
#define PST_PIPELINE_CLUSTER_PARTS_H
#include "pipeline/cluster/cluster.h"

/* A link as given in a cluster file. */
typedef struct {
    /* bandwidth of one direction of a device's link, or of one NIC; 0: not given */
    double bytes_per_s;
    uint64_t latency_ns; /* PST_LATENCY_DEFAULT: not given */
    /* number of NICs of a node; 0: one per device that is not a CPU, or one if the node has only
     * CPUs */
    uint32_t nics;
    double oversubscription; /* factor by which the network between nodes is slower than the NICs,
                                >= 1 */
} pst_link_given;
#define PST_LATENCY_DEFAULT UINT64_MAX
#define PST_LINK_NOT_GIVEN ((pst_link_given){0, PST_LATENCY_DEFAULT, 0, 1})

/* Finds the level of a link by name: "device", "nvlink", ... Sets *directions to the number of
 * directions that the usual bandwidth figure includes (2 for nvlink, as in data sheets). Returns 0
 * if the name is unknown. */
int pst_level_find(const char *name, pst_level *level, double *directions);
/* All names, for messages. */
#define PST_LEVEL_NAMES "device, nvlink, pcie, node, nic, ib, ethernet"

/* Parse a rate such as "400Gb/s", and a time such as "10us". Return 0 if the unit is missing or the
 * value is out of range. */
int pst_cluster_rate(const char *text, double *bytes_per_s);
int pst_cluster_latency(const char *text, uint64_t *ns);

pst_status pst_cluster_open(pst_cluster **cluster);
/* Adds a kind unless the cluster has it already. Sets *index to the index of the kind in the
 * cluster. ENOMEM. */
pst_status pst_cluster_add_kind(pst_cluster *c, const pst_device_kind *kind, uint32_t *index);
/* Adds `count` devices to the node that the next pst_cluster_add_node adds. memory 0: the memory of
 * the kind. ENOMEM; EINPUT: more than PST_CLUSTER_MAX_DEVICES. */
pst_status pst_cluster_add_devices(pst_cluster *c, uint32_t count, uint32_t kind, double speed,
                                   uint64_t memory);
/* Adds a node with the devices that were added since the previous node. */
pst_status pst_cluster_add_node(pst_cluster *c, const char *name,
                                const pst_link_given given[PST_LEVEL_COUNT]);
/* Adds `count` copies of the last node, with its devices. */
pst_status pst_cluster_repeat_node(pst_cluster *c, uint32_t count);
/* Sets the default links between nodes of CPUs, for a cluster without any given link. */
void pst_cluster_default_links(pst_cluster *c);

/* The short form: returns 1 if the text has this form; parses it. */
int pst_cluster_is_short(const char *text);
pst_status pst_cluster_parse_short(const char *text, const char *file, pst_cluster *c);
#endif
