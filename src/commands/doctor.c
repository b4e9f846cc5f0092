/* `penstock doctor`: what this machine has and what is missing for which purpose. All results
 * are gathered into one JSON value, which is printed as JSON or as text, so that both contain
 * the same. */
#include "backends/machine.h"
#include "backends/module.h"
#include "backends/registry.h"
#include "base/plural.h"
#include "comm/transport/version.h"
#include "commands/doctor.h"
#include "kernels/version.h"
#include "penstock/run.h"
#include "group/bind.h"
#include <errno.h>
#include <gnu/libc-version.h>
#include <hwloc.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* --- reading the system ----------------------------------------------------------------------- */

/* First line of a file without its newline; "" when there is none. Returns line. */
static const char *first_line(const char *path, char *line, int bytes) {
    FILE *f = fopen(path, "r");
    line[0] = 0;
    if (f && fgets(line, bytes, f)) line[strcspn(line, "\n")] = 0;
    if (f) fclose(f);
    return line;
}

/* The value behind "key ... :" in a file of such lines; "" if there is none. Returns value. */
static const char *value_of(const char *path, const char *key, char *value, size_t bytes) {
    char line[512];
    FILE *f = fopen(path, "r");
    value[0] = 0;
    while (f && !*value && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key))) continue;
        colon[1 + strcspn(colon + 1, "\n")] = 0;
        snprintf(value, bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (f) fclose(f);
    return value;
}

static json_int_t meminfo_bytes(const char *key) {
    char value[64];
    return (json_int_t)strtoull(value_of("/proc/meminfo", key, value, sizeof value), NULL, 10) *
           1024;
}

/* --- gathering -------------------------------------------------------------------------------- */

static json_t *cpu(void) {
    char model[256];
    uint32_t isa = pst_cpu_isa();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    json_t *sets = json_array();
    if (isa & PST_ISA_AVX2) json_array_append_new(sets, json_string("avx2"));
    if (isa & PST_ISA_AVX512) json_array_append_new(sets, json_string("avx512"));
    if (isa & PST_ISA_AVX512_BF16) json_array_append_new(sets, json_string("avx512_bf16"));
    if (isa & PST_ISA_F16C) json_array_append_new(sets, json_string("f16c"));
    const char *kernels = isa & PST_ISA_AVX2 ? "avx2" : "plain C";
    if (isa & PST_ISA_AVX512) kernels = "avx512";
    char bf16[80] = "yes";
    if (pst_cpu_no_bf16())
        snprintf(bf16, sizeof bf16, "no (needs AVX512-BF16, which %s)", pst_cpu_no_bf16());
    char products[128];
    return json_pack("{s:s,s:i,s:i,s:o,s:s,s:s,s:s}", "model",
                     pst_machine_cpu_model(model, sizeof model), "online", (int)online, "usable",
                     (int)pst_machine_cpus(), "instruction_sets", sets, "kernels", kernels,
                     "products", pst_cpu_products(isa, products, sizeof products), "bf16", bf16);
}

static json_t *memory(void) {
    char pages[128];
    struct statvfs shm;
    json_int_t shm_free =
        statvfs("/dev/shm", &shm) == 0 ? (json_int_t)(shm.f_bavail * shm.f_frsize) : 0;
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", pages, sizeof pages);
    return json_pack("{s:I,s:I,s:I,s:s}", "total_bytes", meminfo_bytes("MemTotal"),
                     "available_bytes", meminfo_bytes("MemAvailable"), "dev_shm_free_bytes",
                     shm_free, "transparent_huge_pages", *pages ? pages : "unknown");
}

static json_t *topology(void) {
    static const struct {
        const char *name;
        hwloc_obj_type_t type;
    } levels[] = {{"L1d", HWLOC_OBJ_L1CACHE}, {"L2", HWLOC_OBJ_L2CACHE}, {"L3", HWLOC_OBJ_L3CACHE}};
    hwloc_topology_t t;
    json_t *nodes = json_array(), *caches = json_array();
    int packages = 0, cores = 0;
    if (hwloc_topology_init(&t) == 0) {
        if (hwloc_topology_load(t) == 0) {
            packages = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);

            cores = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
            for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o));)
                json_array_append_new(nodes, json_pack("{s:I,s:I}", "node", (json_int_t)o->os_index,
                                                       "bytes",
                                                       (json_int_t)o->attr->numanode.local_memory));
            for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
                hwloc_obj_t o = hwloc_get_next_obj_by_type(t, levels[i].type, NULL);
                if (!o) continue;
                json_array_append_new(caches,
                                      json_pack("{s:s,s:I,s:i}", "level", levels[i].name, "bytes",
                                                (json_int_t)o->attr->cache.size, "count",
                                                hwloc_get_nbobjs_by_type(t, levels[i].type)));
            }
        }
        hwloc_topology_destroy(t);
    }
    return json_pack("{s:i,s:i,s:o,s:o}", "packages", packages, "cores", cores, "numa_nodes", nodes,
                     "caches", caches);
}

/* The binding that parallel.bind would set for one rank per core that this process may use. */
static json_t *binding(void) {
    hwloc_topology_t t;
    json_t *ranks = json_array();
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc(), set = NULL;
    const char *why = NULL,
               *automatic = pst_bind_is_worthwhile() ? "same as core" : "none (one NUMA node)";
    char list[128];
    if (allowed && hwloc_topology_init(&t) == 0) {
        int known = hwloc_topology_load(t) == 0 &&
                    hwloc_get_cpubind(t, allowed, HWLOC_CPUBIND_PROCESS) == 0;
        int n = known ? hwloc_get_nbobjs_inside_cpuset_by_type(t, allowed, HWLOC_OBJ_CORE) : 0;
        for (int i = 0; i < n; i++) {
            const pst_bind_sharers sharers = {.ranks = (uint32_t)n, .at = (uint32_t)i};
            if (pst_bind_share(t, allowed, &sharers, &set, &why) != PST_OK || why) break;
            hwloc_bitmap_list_snprintf(list, sizeof list, set);
            json_array_append_new(ranks, json_string(list));
            hwloc_bitmap_free(set);
        }
        hwloc_topology_destroy(t);
    }
    hwloc_bitmap_free(allowed);
    return json_pack("{s:s,s:o}", "auto", automatic, "core", ranks);
}

static json_t *libraries(void) {
    char hwloc[32];
    unsigned v = hwloc_get_api_version();
    snprintf(hwloc, sizeof hwloc, "API %u.%u.%u", v >> 16, (v >> 8) & 0xff, v & 0xff);
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "ucx", pst_comm_ucx_version(), "pmix",
                     pst_comm_pmix_version(), "onednn", pst_kernels_onednn_version(), "hwloc",
                     hwloc, "jansson", jansson_version_str(), "glibc", gnu_get_libc_version());
}

/* One list of the registry: each name with the reason why it cannot be used here; null if it
 * can. */
static json_t *backends(const char *kind) {
    json_t *list = json_array();
    const char *name;
    for (uint32_t i = 0; (name = pst_registry_name(kind, i)); i++)
        json_array_append_new(
            list, json_pack("{s:s,s:s?}", "name", name, "rejected", pst_registry_reject(kind, i)));
    return list;
}

/* The accelerator module's own description (libraries, driver, GPUs) and how messages reach the
 * device. */
static json_t *module(void) {
    const pst_module *m = pst_module_get();
    const char *line;
    char ucx[1024];
    json_t *lines = json_array();
    if (!m) {
        json_decref(lines);
        return json_pack("{s:s,s:[]}", "why_not", pst_module_why(), "about");
    }
    for (uint32_t i = 0; m->about && (line = m->about(i)); i++)
        json_array_append_new(lines, json_string(line));
    pst_comm_ucx_resources(ucx, sizeof ucx);
    line = strstr(ucx, "cuda")
               ? "messages are sent directly from device memory if UCX supports CUDA on all hosts, "
                 "as it does on this one"
               : "messages are copied through host memory: this UCX has no CUDA support";
    json_array_append_new(lines, json_string(line));
    return json_pack("{s:s,s:n,s:o}", "name", m->name, "why_not", "about", lines);
}

static json_t *between_hosts(void) {
    char by[512], text[640];
    pst_comm_ucx_inter_host(by, sizeof by);
    snprintf(text, sizeof text,
             "messages: %s; they are not encrypted: use a private network or WireGuard", by);
    return json_string(text);
}

static json_t *gather(void) {
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "penstock", pst_version(),
                     "cpu", cpu(), "memory", memory(), "topology", topology(), "binding", binding(),
                     "libraries", libraries(), "module", module(), "between_hosts", between_hosts(),
                     "worlds", backends("world"), "transports", backends("transport"), "devices",
                     backends("device"), "needs", pst_doctor_needs());
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *text_of(json_t *j, const char *key) {
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

static json_int_t int_of(json_t *j, const char *key) {
    return json_integer_value(json_object_get(j, key));
}

static double gib(json_int_t bytes) { return (double)bytes / 1073741824.0; }

static void print_machine(json_t *j, FILE *out) {
    json_t *c = json_object_get(j, "cpu"), *m = json_object_get(j, "memory"),
           *t = json_object_get(j, "topology"), *each;
    size_t i;
    fprintf(out, "processor     %s\n", text_of(c, "model"));
    fprintf(out,
            "              %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
            " logical processors usable, %" JSON_INTEGER_FORMAT " cores, %" JSON_INTEGER_FORMAT
            " package%s\n",
            int_of(c, "usable"), int_of(c, "online"), int_of(t, "cores"), int_of(t, "packages"),
            pst_plural((uint64_t)int_of(t, "packages")));
    fprintf(out, "instructions ");
    json_array_foreach(json_object_get(c, "instruction_sets"), i, each)
        fprintf(out, " %s", json_string_value(each));
    fprintf(out, " -> %s kernels; bf16: %s\n", text_of(c, "kernels"), text_of(c, "bf16"));
    fprintf(out, "products      %s\n", text_of(c, "products"));
    fprintf(out, "caches       ");
    json_array_foreach(json_object_get(t, "caches"), i, each)
        fprintf(out, "%s %" JSON_INTEGER_FORMAT " x %s %" JSON_INTEGER_FORMAT " KiB", i ? "," : "",
                int_of(each, "count"), text_of(each, "level"), int_of(each, "bytes") / 1024);
    fprintf(out,
            "\nmemory        %.1f GiB, %.1f GiB available; /dev/shm %.1f GiB free; transparent "
            "huge pages %s\n",
            gib(int_of(m, "total_bytes")), gib(int_of(m, "available_bytes")),
            gib(int_of(m, "dev_shm_free_bytes")), text_of(m, "transparent_huge_pages"));
    json_array_foreach(json_object_get(t, "numa_nodes"), i, each)
        fprintf(out, "NUMA node %-3" JSON_INTEGER_FORMAT " %.1f GiB\n", int_of(each, "node"),
                gib(int_of(each, "bytes")));
}

/* "binding auto: none (one NUMA node); core: rank 0 on 0, rank 1 on 1": if there are many ranks,
 * only the first two and the last. */
static void print_binding(json_t *j, FILE *out) {
    json_t *ranks = json_object_get(j, "core"), *each;
    size_t i, n = json_array_size(ranks);
    fprintf(out, "binding       parallel.bind auto: %s; core:%s", text_of(j, "auto"),
            n ? "" : " not known");
    json_array_foreach(ranks, i, each) {
        if (n <= 4 || i < 2 || i == n - 1)
            fprintf(out, "%s rank %zu on CPUs %s", i ? "," : "", i, json_string_value(each));
        else if (i == 2) fprintf(out, ", ...");
    }
    fputc('\n', out);
}

static void print_backends(json_t *j, const char *key, FILE *out) {
    json_t *each;
    size_t i;
    json_array_foreach(json_object_get(j, key), i, each) {
        const char *why = text_of(each, "rejected");
        fprintf(out, "%-13s %-8s %s\n", i ? "" : key, text_of(each, "name"),
                *why ? why : "available");
    }
}

static int list_of(json_t *need) {
    if (json_is_true(json_object_get(need, "there"))) return 0;
    return strcmp(text_of(need, "level"), "needed") ? 2 : 1;
}

/* Three lists: what was found, what is missing but needed, and what else is missing, each with
 * its fix. */
static void print_needs(json_t *needs, FILE *out) {
    static const char *const titles[] = {
        "found:", "missing, but needed for training:", "missing, not needed for training:"};
    json_t *each;
    size_t i;
    for (int list = 0; list < 3; list++) {
        int n = 0;
        json_array_foreach(needs, i, each) {
            if (list_of(each) != list) continue;
            if (n++ == 0) fprintf(out, "%s\n", titles[list]);
            fprintf(out, "  %-23s for %s; %s\n", text_of(each, "what"), text_of(each, "for"),
                    text_of(each, "detail"));
            if (list && *text_of(each, "fix"))
                fprintf(out, "  %-23s -> %s\n", "", text_of(each, "fix"));
        }
    }
}

static void print_text(json_t *j, FILE *out) {
    json_t *each;
    const char *key;
    size_t i;
    fprintf(out, "penstock      %s\n", text_of(j, "penstock"));
    print_machine(j, out);
    print_binding(json_object_get(j, "binding"), out);
    fprintf(out, "libraries    ");
    json_object_foreach(json_object_get(j, "libraries"), key, each)
        fprintf(out, " %s %s", key, json_string_value(each));
    fputc('\n', out);
    json_array_foreach(json_object_get(json_object_get(j, "module"), "about"), i, each)
        fprintf(out, "%-13s %s\n", i ? "" : text_of(json_object_get(j, "module"), "name"),
                json_string_value(each));
    fprintf(out, "between hosts %s\n", text_of(j, "between_hosts"));
    print_backends(j, "worlds", out);
    print_backends(j, "transports", out);
    print_backends(j, "devices", out);
    print_needs(json_object_get(j, "needs"), out);
}

/* ENOMEM that names what is missing but needed. */
static pst_status verdict(json_t *needs) {
    char missing[512] = "";
    json_t *each;
    size_t i;
    json_array_foreach(needs, i, each) {
        size_t used = strlen(missing);
        if (json_is_true(json_object_get(each, "there")) ||
            strcmp(text_of(each, "level"), "needed"))
            continue;
        snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "",
                 text_of(each, "what"));
    }
    return *missing ? pst_fail(PST_ENOMEM, "missing, but needed for training: %s", missing)
                    : PST_OK;
}

pst_status pst_doctor(int json, FILE *out) {
    json_t *j = gather();
    if (!j) return pst_fail(PST_ENOMEM, "no memory for the results of doctor");
    pst_status status = verdict(json_object_get(j, "needs"));
    if (json) {
        json_dumpf(j, out, JSON_INDENT(2));
        fputc('\n', out);
    } else {
        print_text(j, out);
    }
    json_decref(j);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno))
                       : status;
}
