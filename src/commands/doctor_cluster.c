/* `penstock doctor --cluster-out`: this machine as a cluster file: one node with a device for
 * every core that this process may use. Speeds are nominal; `penstock profile` measures them. */
#include "base/file.h"
#include "penstock/run.h"
#include "pipeline/cluster/cluster.h"
#include <errno.h>
#include <hwloc.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Number of cores in a NUMA node; processors if no cores are known. */
static uint32_t cores_in(hwloc_topology_t t, hwloc_const_cpuset_t set) {
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(t, set, HWLOC_OBJ_CORE);
    if (n <= 0) n = hwloc_get_nbobjs_inside_cpuset_by_type(t, set, HWLOC_OBJ_PU);
    return n > 0 ? (uint32_t)n : 0;
}

/* Prints a line for each NUMA node; returns the number of cores. */
static uint32_t print_numa_node(hwloc_topology_t t, hwloc_const_cpuset_t allowed, hwloc_obj_t node,
                                FILE *out) {
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, node);
    hwloc_bitmap_t set = hwloc_bitmap_dup(node->cpuset);
    if (set) hwloc_bitmap_and(set, set, allowed);
    uint32_t n = set ? cores_in(t, set) : 0;
    uint64_t memory = n ? node->attr->numanode.local_memory / n : 0;
    hwloc_bitmap_free(set);
    if (!n) return 0;
    fprintf(out, "      - {count: %u, kind: cpu", n);
    if (memory) fprintf(out, ", memory: %" PRIu64, memory);
    fprintf(out, "} # NUMA node %u", node->os_index);
    if (package) fprintf(out, ", package %u", package->os_index);
    fputc('\n', out);
    return n;
}

static void print_node(hwloc_topology_t t, hwloc_const_cpuset_t allowed, FILE *out) {
    uint32_t n_kind, n = 0;
    const pst_device_kind *cpu = pst_device_kinds(&n_kind);
    char name[31] = "";
    while (strcmp(cpu->name, "cpu")) cpu++;
    if (gethostname(name, sizeof name)) name[0] = 0;
    name[sizeof name - 1] = 0;
    name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] = 0;
    fprintf(out,
            "# This machine with one device per core; each core has an equal part of the memory. "
            "Speeds are nominal: %g GFLOP/s\n# per core (penstock profile measures them). For "
            "several machines, merge their files and add the links between them.\nnodes:\n  - ",
            cpu->flops[PST_F32] * 1e-9);
    if (*name) fprintf(out, "name: \"%s\"\n    ", name);
    fprintf(out,
            "links: {device: {bandwidth: %gGB/s, latency: %gus}} # shared memory\n    devices:\n",
            cpu->link.bytes_per_s * 1e-9, (double)cpu->link.latency_ns * 1e-3);
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o));)
        n += print_numa_node(t, allowed, o, out);
    if (!n)
        fprintf(out, "      - {count: %u, kind: cpu}\n",
                cores_in(t, allowed) ? cores_in(t, allowed) : 1);
}

pst_status pst_doctor_cluster(FILE *out) {
    hwloc_topology_t t;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!out) {
        hwloc_bitmap_free(allowed);
        return pst_fail(PST_EINPUT, "pst_doctor_cluster: out is NULL");
    }
    if (!allowed || hwloc_topology_init(&t)) {
        hwloc_bitmap_free(allowed);
        return pst_fail(PST_ENOMEM, "no memory for this machine's topology");
    }
    pst_status status = hwloc_topology_load(t)
                            ? pst_fail(PST_ENOMEM, "cannot read this machine's topology: %m")
                            : PST_OK;
    if (status == PST_OK) {
        if (hwloc_get_cpubind(t, allowed, HWLOC_CPUBIND_PROCESS))
            hwloc_bitmap_copy(allowed, hwloc_topology_get_topology_cpuset(t));
        print_node(t, allowed, out);
        if (fflush(out) || ferror(out))
            status = pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno));
    }
    hwloc_topology_destroy(t);
    hwloc_bitmap_free(allowed);
    return status;
}

static pst_status print(const void *what, FILE *out) {
    (void)what;
    return pst_doctor_cluster(out);
}

pst_status pst_doctor_cluster_write(const char *path) {
    if (!path) return pst_fail(PST_EINPUT, "pst_doctor_cluster_write: path is NULL");
    return pst_file_replace(path, print, NULL);
}
