/* A cluster: the devices on which ranks run (rank r on device r, in the order of the file), and the
 * links between devices. The YAML form, in which all keys but `nodes` and `devices` are optional:
 *
 *     kinds: [{name: x1, bf16: 300e12, fp32: 40e12, bandwidth: 2TB/s, memory: 64GiB, power: 500}]
 *     links: {nvlink: 900GB/s, ib: {bandwidth: 400Gb/s, latency: 10us, nics: 8}} # of all nodes
 *     nodes:
 *       - name: fast
 *         count: 2                                           # nodes like this; default 1
 *         devices: [{count: 8, kind: h100, speed: 1, memory: 70GiB}] # default: 1 cpu, speed 1
 *         links: {ib: 200Gb/s}                               # overrides the links of all nodes
 *
 * The short form is one line of groups of nodes: nodes x devices, kind, and values that differ from
 * the defaults, such as "16x8 h100 nvlink:900GB/s ib:400Gb/s" or "2x8 h100 + 4x8 a100-80
 * ib:2x200Gb/s". docs/formats.md explains each key. */
#ifndef PST_PIPELINE_CLUSTER_CLUSTER_H
#define PST_PIPELINE_CLUSTER_CLUSTER_H
#include "base/dtype.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_CLUSTER_MAX_DEVICES = 65536 }; /* maximum number of devices of a cluster */

/* One direction of a link: a message takes latency_ns + bytes * 1e9 / bytes_per_s ns. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s; /* 0: there is no such link */
} pst_cluster_link;

/* A kind of device, with the values of its data sheet. */
typedef struct {
    char name[24]; /* "H100", "A100-80", "cpu" */
    /* peak FLOP/s of dense matrix products per dtype (F32, TF32, BF16, F16, F8); 0: unsupported */
    double flops[PST_DTYPE_COUNT];
    double bytes_per_s;    /* memory bandwidth, bytes per second */
    uint64_t memory;       /* device memory in bytes, all of the chip's; 0: unknown */
    pst_cluster_link link; /* default link to other devices of the same node */
    /* bytes of it that are never free for a run: driver, context, code of kernels, libraries and
     * CUDA graphs; and bytes that NCCL takes for each communicator */
    uint64_t reserved, communicator;
    double watts; /* maximum power of the data sheet; 0: unknown */
} pst_device_kind;
/* Returns the bytes of a device of this kind that a run with `communicators` NCCL communicators
 * cannot use; at most all of its memory. */
uint64_t pst_device_kind_reserved(const pst_device_kind *kind, uint32_t communicators);
/* Returns the number of communicators that a rank has: one with all ranks, and one with its tensor
 * ranks. */
static inline uint32_t pst_device_communicators(uint32_t ranks, uint32_t tensor) {
    return (uint32_t)(ranks > 1) + (tensor > 1);
}
/* Returns the built-in kinds (static) and sets *n to their number. */
const pst_device_kind *pst_device_kinds(uint32_t *n);
/* Finds a kind by name (case-insensitive), first among the n_own kinds of a cluster file (at most
 * PST_DEVICE_KINDS_OWN), then among the built-in kinds. EINPUT if the name is unknown: pst_error()
 * lists the kinds that begin with the name, else the most similar kind, else all kinds. */
enum { PST_DEVICE_KINDS_OWN = 256 };
pst_status pst_device_kind_find(const char *name, const pst_device_kind *own, uint32_t n_own,
                                const pst_device_kind **kind);

typedef struct {
    double speed;    /* factor on the speed of the kind, > 0 */
    uint64_t memory; /* bytes that a rank may use; 0: no limit is known */
    uint32_t node;   /* index into pst_cluster.node */
    uint32_t kind;   /* index into pst_cluster.kind */
    int given;       /* 1: `memory` was given; 0: it is that of the kind */
} pst_cluster_device;

/* Levels of links. Two devices of the same node use PST_LEVEL_DEVICE, others PST_LEVEL_NODE. */
typedef enum {
    /* between devices of a node (NVLink, PCIe, shared memory); each device has its own link */
    PST_LEVEL_DEVICE,
    /* between nodes: the link of one device while no other device uses the node's NICs; the devices
     * of a node share node_bytes_per_s */
    PST_LEVEL_NODE,
    PST_LEVEL_COUNT
} pst_level;

typedef struct {
    char name[32]; /* "": the node has no name */
    pst_cluster_link link[PST_LEVEL_COUNT];
    /* bandwidth of all NICs of the node together, divided by the oversubscription, in bytes per
     * second */
    double node_bytes_per_s;
} pst_cluster_node;

typedef struct {
    uint32_t n_node, n_device, n_kind;
    pst_cluster_device *device; /* the devices of a node are contiguous */
    pst_cluster_node *node;     /* [n_node] */
    pst_device_kind *kind;
} pst_cluster;

/* Returns the smaller of two limits in bytes, where 0 means no limit: `own` of a device, and
 * `limit` for each rank. */
static inline uint64_t pst_cluster_least(uint64_t own, uint64_t limit) {
    return own && (!limit || own < limit) ? own : limit;
}
/* Returns the bytes that a rank may use on a device of the cluster: at most `limit`; 0: no
 * limit. */
static inline uint64_t pst_cluster_usable_bytes(const pst_cluster *c, uint32_t device,
                                                uint64_t limit) {
    return pst_cluster_least(c->device[device].memory, limit);
}
/* Sets *link to the link between two different devices, with the values of the slower end. EINPUT:
 * there is no link; pst_error() names both nodes. */
pst_status pst_cluster_between(const pst_cluster *cluster, uint32_t a, uint32_t b,
                               pst_cluster_link *link);
/* Reads a cluster from a file, or from text that messages call `file`. A `path` or `text` that
 * begins with a number of devices and a blank is itself a cluster in short form. The caller closes
 * the cluster. EINPUT: pst_error() gives file, line, column and what is expected. */
pst_status pst_cluster_load(const char *path, pst_cluster **cluster);
pst_status pst_cluster_parse(const char *text, size_t bytes, const char *file,
                             pst_cluster **cluster);
/* Subtracts pst_device_kind_reserved from the memory of all devices that have that of their kind.
 * Call it once. */
void pst_cluster_reserve(pst_cluster *cluster, uint32_t communicators);
/* Writes a cluster like `text`, but of `n_device` devices, to `resized`: the same text if its first
 * n_device devices can be used, else a short form with more nodes. EINPUT: n_device would divide a
 * node, or the cluster, a file or groups of different nodes, has fewer devices. */
enum { PST_CLUSTER_TEXT = 4096 };
pst_status pst_cluster_resize(const char *text, uint32_t n_device, char resized[PST_CLUSTER_TEXT]);
/* Changes one value of the cluster, such as "link.ib=200Gb/s", "device.3.speed=0.5" or
 * "device.*.memory=40GiB". EINPUT: pst_error() lists the keys. */
pst_status pst_cluster_change(pst_cluster *cluster, const char *change);
/* Creates the default cluster: n_device devices of kind cpu on one node. The caller closes it.
 * ENOMEM. */
pst_status pst_cluster_default(uint32_t n_device, pst_cluster **cluster);
void pst_cluster_close(pst_cluster *cluster);
#endif
