/* A cluster: the devices that ranks run on (rank r on device r, in the order of the file), and the
 * links between them. In YAML, where all keys but `nodes` and `devices` are optional:
 *
 *     kinds: [{name: x1, bf16: 300e12, fp16: 300e12, fp32: 40e12, bandwidth: 2TB/s, memory: 64GiB}]
 *     links: {nvlink: 900GB/s, ib: {bandwidth: 400Gb/s, latency: 10us, nics: 8}} # of all nodes
 *     nodes:
 *       - name: fast
 *         count: 2                                           # nodes like this; default 1
 *         devices: [{count: 8, kind: h100, speed: 1, memory: 70GiB}] # default: 1 cpu, speed 1
 *         links: {ib: 200Gb/s}                               # overrides the links of all nodes
 *
 * The short form is one line of groups: nodes x devices, kind, and what differs from the defaults,
 * such as "16x8 h100 nvlink:900GB/s ib:400Gb/s" or "2x8 h100 + 4x8 a100-80 ib:2x200Gb/s".
 * docs/formats.md explains each key. */
#ifndef PST_PIPELINE_CLUSTER_CLUSTER_H
#define PST_PIPELINE_CLUSTER_CLUSTER_H
#include "base/dtype.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_CLUSTER_MAX_DEVICES = 65536 }; /* devices */

/* One direction of a link: a message takes latency_ns + bytes / bytes_per_s. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: there is no such link */
} pst_cluster_link;

/* A kind of device, by its data sheet. */
typedef struct {
    char name[24]; /* "H100", "A100-80", "cpu" */
    /* peak FLOP/s of dense matrix products in F32, TF32, BF16, F16, F8; 0: unsupported */
    double flops[PST_DTYPE_COUNT];
    double bytes_per_s;    /* memory bandwidth */
    uint64_t memory;       /* bytes; 0: unknown */
    pst_cluster_link link; /* link to devices of the same node, unless the cluster says otherwise */
} pst_device_kind;
/* The built-in kinds. */
const pst_device_kind *pst_device_kinds(uint32_t *n);
/* Searches a cluster file's n_own kinds (at most PST_DEVICE_KINDS_OWN), then the built-in ones;
 * upper and lower case are the same. EINPUT if unknown, with the kinds that begin with the name,
 * else the most similar one, else all. */
enum { PST_DEVICE_KINDS_OWN = 256 };
pst_status pst_device_kind_find(const char *name, const pst_device_kind *own, uint32_t n_own,
                                const pst_device_kind **kind);

typedef struct {
    double speed;    /* > 0; 2: twice as fast as its kind */
    uint64_t memory; /* bytes that a rank may use; 0: not given */
    uint32_t node;
    uint32_t kind; /* index into pst_cluster.kind */
} pst_cluster_device;

/* Levels of links: two devices use the first one that they have in common. */
typedef enum {
    /* between devices of a node: NVLink, PCIe, shared memory; each device has its own */
    PST_LEVEL_DEVICE,
    /* between nodes: what one device gets while no other uses its node's NICs; the devices of a
     * node share node_bytes_per_s */
    PST_LEVEL_NODE,
    PST_LEVEL_COUNT
} pst_level;

typedef struct {
    char name[32]; /* "": none */
    pst_cluster_link link[PST_LEVEL_COUNT];
    double node_bytes_per_s; /* bandwidth of all NICs of the node together, divided by the
                                oversubscription */
} pst_cluster_node;

typedef struct {
    uint32_t n_node, n_device, n_kind;
    pst_cluster_device *device; /* the devices of a node are contiguous */
    pst_cluster_node *node;     /* [n_node] */
    pst_device_kind *kind;
} pst_cluster;

/* Usable bytes of a device that has `own`, if each rank may use at most `limit`; 0 (in either
 * argument or the result): no limit. */
static inline uint64_t pst_cluster_least(uint64_t own, uint64_t limit) {
    return own && (!limit || own < limit) ? own : limit;
}
/* The same for a device of the cluster. */
static inline uint64_t pst_cluster_usable_bytes(const pst_cluster *c, uint32_t device,
                                                uint64_t limit) {
    return pst_cluster_least(c->device[device].memory, limit);
}
/* The link between two different devices: the slower of both ends. EINPUT: there is none (names
 * both nodes). */
pst_status pst_cluster_between(const pst_cluster *cluster, uint32_t a, uint32_t b,
                               pst_cluster_link *link);
/* EINPUT names file, line and column, and what is expected. The caller closes the cluster. A path,
 * or a text, that begins with a number of devices and a blank is itself the short form. */
pst_status pst_cluster_load(const char *path, pst_cluster **cluster);
pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file,
                             pst_cluster **cluster);
/* Changes one value: "link.ib=200Gb/s", "device.3.speed=0.5", "device.*.memory=40GiB". EINPUT lists
 * what can be changed. */
pst_status pst_cluster_change(pst_cluster *cluster, const char *change);
/* The default cluster: n devices of kind cpu on one node. ENOMEM. */
pst_status pst_cluster_default(uint32_t n_device, pst_cluster **cluster);
void pst_cluster_close(pst_cluster *cluster);
#endif
