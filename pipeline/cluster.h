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
#include "base/dtype.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_CLUSTER_MOST = 65536 }; /* devices */

/* A kind of device: what a datasheet says of it. */
typedef struct {
    char name[24];               /* "H100", "A100-80", "cpu" */
    double flops[PST_DTYPE_COUNT]; /* peak FLOP/s of matrix products of F32, BF16, F16; 0: it cannot */
    double bytes_per_s;          /* of its memory */
    uint64_t memory;             /* bytes; 0: not said */
} pst_device_kind;
/* Named entries. */
const pst_device_kind *pst_device_kinds(uint32_t *n);
/* EINPUT with the nearest name when unknown. Case does not count. */
pst_status pst_device_kind_find(const char *name, const pst_device_kind **kind);

typedef struct {
    double speed;    /* > 0; 2: everything takes half as long as its kind says */
    uint64_t memory; /* bytes that a rank may use; 0: not given */
    uint32_t node;
    uint32_t kind;   /* of pst_cluster.kind */
} pst_cluster_device;

/* One direction of a link: a message takes latency_ns + bytes / bytes_per_s. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: there is no such link */
} pst_cluster_link;

/* Links by level, in the order in which two devices' common level is found. */
typedef enum {
    PST_LEVEL_DEVICE, /* between devices of a node: NVLink, PCIe, shared memory; each device has one of its own */
    PST_LEVEL_NODE,   /* between nodes: what a device gets when it is alone in using its node's NICs; all devices of a node
                         share node_bytes_per_s */
    PST_LEVEL_COUNT
} pst_level;

typedef struct {
    pst_cluster_link link[PST_LEVEL_COUNT];
    double node_bytes_per_s;    /* of all NICs of the node together, oversubscription taken off */
} pst_cluster_node;

typedef struct {
    uint32_t n_node, n_device, n_kind;
    pst_cluster_device *device;  /* those of a node lie together */
    pst_cluster_node *node;      /* [n_node] */
    pst_device_kind *kind;
} pst_cluster;

/* The link between two different devices: of the slower of both ends. EINPUT: there is none (names both nodes). */
pst_status pst_cluster_between(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link);
/* EINPUT says file, line, column, and what would be right. The cluster is the caller's. */
pst_status pst_cluster_load(const char *path, pst_cluster **cluster);
pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file, pst_cluster **cluster);
/* Changes one value without a file: "link.ib=200Gb/s", "device.3.speed=0.5", "device.*.memory=40GiB". EINPUT says what
 * could be changed. */
pst_status pst_cluster_change(pst_cluster *cluster, const char *change);
void pst_cluster_close(pst_cluster *cluster);
#endif
