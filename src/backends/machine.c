/* See machine.h. */
#include "backends/machine.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static uint32_t online(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t pst_machine_cpus(void) {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0)
        return online(); /* more processors than cpu_set_t has bits */
    return CPU_COUNT(&mask) > 0 ? (uint32_t)CPU_COUNT(&mask) : 1;
}

uint32_t pst_machine_threads(uint32_t ranks) {
    uint32_t cpus = pst_machine_cpus();
    if (ranks == 0) return cpus;
    return cpus > ranks ? cpus / ranks : 1;
}

/* The number after `key` at the start of a line (key "": the file contains only a number);
 * `fallback` if there is no number. */
static uint64_t number_in(const char *folder, const char *file, const char *key,
                          uint64_t fallback) {
    char path[PATH_BYTES + 64], line[256];
    uint64_t value = fallback;
    size_t n = strlen(key);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, " %" SCNu64, &value) == 1) break;
    if (f) fclose(f);
    return value;
}

/* Bytes below the memory limit of one cgroup; inactive page cache counts as free. */
static uint64_t left_in(const char *folder) {
    uint64_t most = number_in(folder, "memory.max", "", UINT64_MAX); /* "max": none */
    if (most == UINT64_MAX) return UINT64_MAX;
    uint64_t used = number_in(folder, "memory.current", "", 0),
             cache = number_in(folder, "memory.stat", "inactive_file ", 0);
    used -= cache < used ? cache : used;
    return used < most ? most - used : 0;
}

/* The minimum over this process's cgroup and its parents. */
static uint64_t left_in_cgroups(void) {
    static const char root[] = "/sys/fs/cgroup";
    char folder[PATH_BYTES] = "", line[PATH_BYTES - sizeof root];
    uint64_t least = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::/", 4))
            snprintf(folder, sizeof folder, "%s%.*s", root, (int)strcspn(line + 3, "\n"), line + 3);
    if (f) fclose(f);
    while (strlen(folder) >= strlen(root)) {
        uint64_t left = left_in(folder);
        if (left < least) least = left;
        *strrchr(folder, '/') = 0;
    }
    return least;
}

uint64_t pst_machine_memory(void) {
    uint64_t available = number_in("/proc", "meminfo", "MemAvailable:", 0) * 1024;
    uint64_t left = left_in_cgroups();
    if (left == UINT64_MAX || (available && left >= available)) return available;
    return left;
}

const char *pst_machine_cpu_model(char *name, size_t bytes) {
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(name, bytes, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10)) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(name, bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
        break;
    }
    if (f) fclose(f);
    return name;
}
