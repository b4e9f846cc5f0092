/* A cluster: the devices that ranks run on, rank r on device r in the order of the file, and the
 * links between them. YAML, of which everything but `nodes` and `devices` may be left out:
 *
 *     kinds: [{name: x1, bf16: 300e12, fp16: 300e12, fp32: 40e12, bandwidth: 2TB/s, memory: 64GiB}]
 *     links: {nvlink: 900GB/s, ib: {bandwidth: 400Gb/s, latency: 10us, nics: 8, oversubscription:
 *     2}} # of all nodes
 *     nodes:
 *       - name: fast
 *         count: 2                                           # so many nodes like this; 1
 *         devices: [{count: 8, kind: h100, speed: 1, memory: 70GiB}] # 1, cpu, 1, as the kind has
 *         it
 *         links: {ib: 200Gb/s}                               # where this node's are others
 *
 * The short form is one line of groups: nodes x devices, kind, and what differs from the defaults,
 * such as "16x8 h100 nvlink:900GB/s ib:400Gb/s" or "2x8 h100 + 4x8 a100-80 ib:2x200Gb/s".
 * docs/formats.md says what each means. */
#ifndef PST_PIPELINE_CLUSTER_CLUSTER_H
#define PST_PIPELINE_CLUSTER_CLUSTER_H
#include "base/dtype.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_CLUSTER_MOST = 65536 }; /* devices */

/* One direction of a link: a message takes latency_ns + bytes / bytes_per_s. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: there is no such link */
} pst_cluster_link;

/* A kind of device: what a datasheet says of it. */
typedef struct {
    char name[24];                 /* "H100", "A100-80", "cpu" */
    double flops[PST_DTYPE_COUNT]; /* peak FLOP/s of matrix products of F32, TF32, BF16, F16, F8,
                                      dense; 0: it cannot */
    double bytes_per_s;            /* of its memory */
    uint64_t memory;               /* bytes; 0: not said */
    pst_cluster_link link;         /* to devices of its node, where the cluster does not say */
} pst_device_kind;
/* Named entries. */
const pst_device_kind *pst_device_kinds(uint32_t *n);
/* Of a cluster file's n_own (at most PST_DEVICE_KINDS_OWN), then of the named entries. EINPUT when
 * unknown, with the names that begin so, else the nearest, else all. Case does not count. */
enum { PST_DEVICE_KINDS_OWN = 256 };
pst_status pst_device_kind_find(const char *name, const pst_device_kind *own, uint32_t n_own,
                                const pst_device_kind **kind);

typedef struct {
    double speed;    /* > 0; 2: everything takes half as long as its kind says */
    uint64_t memory; /* bytes that a rank may use; 0: not given */
    uint32_t node;
    uint32_t kind; /* of pst_cluster.kind */
} pst_cluster_device;

/* Links by level, in the order in which two devices' common level is found. */
typedef enum {
    PST_LEVEL_DEVICE, /* between devices of a node: NVLink, PCIe, shared memory; each device has one
                         of its own */
    PST_LEVEL_NODE, /* between nodes: what a device gets when it is alone in using its node's NICs;
                       all devices of a node share node_bytes_per_s */
    PST_LEVEL_COUNT
} pst_level;

typedef struct {
    char name[32]; /* "": none */
    pst_cluster_link link[PST_LEVEL_COUNT];
    double node_bytes_per_s; /* of all NICs of the node together, oversubscription taken off */
} pst_cluster_node;

typedef struct {
    uint32_t n_node, n_device, n_kind;
    pst_cluster_device *device; /* those of a node lie together */
    pst_cluster_node *node;     /* [n_node] */
    pst_device_kind *kind;
} pst_cluster;

/* Bytes that may be used of what has `own` of them when each rank may use `limit`; 0, as of either:
 * not limited. */
static inline uint64_t pst_cluster_least(uint64_t own, uint64_t limit) {
    return own && (!limit || own < limit) ? own : limit;
}
/* The same of a device, as far as the cluster says it. */
static inline uint64_t pst_cluster_room(const pst_cluster *c, uint32_t device, uint64_t limit) {
    return pst_cluster_least(c->device[device].memory, limit);
}
/* The link between two different devices: of the slower of both ends. EINPUT: there is none (names
 * both nodes). */
pst_status pst_cluster_between(const pst_cluster *cluster, uint32_t a, uint32_t b,
                               pst_cluster_link *link);
/* EINPUT says file, line, column, and what would be right. The cluster is the caller's. A path, or
 * text, that begins with numbers of devices and a blank is the short form itself. */
pst_status pst_cluster_load(const char *path, pst_cluster **cluster);
pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file,
                             pst_cluster **cluster);
/* Changes one value without a file: "link.ib=200Gb/s", "device.3.speed=0.5",
 * "device.*.memory=40GiB". EINPUT says what could be changed. */
pst_status pst_cluster_change(pst_cluster *cluster, const char *change);
/* So many devices of kind cpu on one node: where nothing else is said. ENOMEM. */
pst_status pst_cluster_plain(uint32_t n_device, pst_cluster **cluster);
void pst_cluster_close(pst_cluster *cluster);
#endif
