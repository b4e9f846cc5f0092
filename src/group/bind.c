/* See bind.h. */
#include "group/bind.h"
#include "base/log.h"
#include "group/identity.h"
#include <hwloc/glibc-sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pst_bind_is_worthwhile(void) {
    char nodes[64] = "0";
    FILE *f = fopen("/sys/devices/system/node/has_memory", "r");
    if (f && !fgets(nodes, sizeof nodes, f)) strcpy(nodes, "0");
    if (f) fclose(f);
    return strpbrk(nodes, "-,") != NULL;
}

pst_status pst_bind_share(hwloc_topology_t t, hwloc_const_bitmap_t allowed,
                          const pst_bind_sharers *sharers, hwloc_bitmap_t *set, const char **why) {
    uint32_t n = sharers->ranks, at = sharers->at;
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    int found = hwloc_get_nbobjs_inside_cpuset_by_type(t, allowed, type);
    if (found <= 0) found = hwloc_get_nbobjs_inside_cpuset_by_type(t, allowed, type = HWLOC_OBJ_PU);
    uint32_t cores = found > 0 ? (uint32_t)found : 0;
    *why = sharers->threads > cores / n ? "fewer cores than threads" : NULL;
    if (cores < n) *why = "fewer cores than ranks";
    if (*why) return PST_OK;
    hwloc_bitmap_t out = hwloc_bitmap_alloc();
    if (!out) return pst_fail(PST_ENOMEM, "no memory to bind ranks");
    for (uint64_t i = (uint64_t)at * cores / n; i < (uint64_t)(at + 1) * cores / n; i++) {
        hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(t, allowed, type, (unsigned)i);
        if (core) hwloc_bitmap_or(out, out, core->cpuset);
    }
    hwloc_bitmap_and(out, out, allowed);
    *set = out;
    return PST_OK;
}

/* *n: number of ranks on this host with the same affinity mask as this rank; *at: index of this
 * rank among them. *n is 0 if the masks of two ranks overlap but differ: the launcher has bound the
 * ranks. */
static pst_status find_sharers(pst_world *w, const pst_rank_place *mine, uint32_t *n,
                               uint32_t *at) {
    *n = *at = 0;
    for (uint32_t r = 0; r < w->size; r++) {
        pst_rank_place other;
        cpu_set_t both;
        PST_TRY(pst_identity_place(w, r, &other));
        if (memcmp(other.host, mine->host, sizeof mine->host)) continue;
        CPU_AND(&both, &other.mask, &mine->mask);
        if (CPU_EQUAL(&other.mask, &mine->mask)) {
            *at += r < w->rank;
            ++*n;
        } else if (CPU_COUNT(&both)) {
            *n = 0;
            return PST_OK;
        }
    }
    return PST_OK;
}

/* Also binds memory: pages that are touched from now on come from the NUMA nodes of these
 * processors, as long as those have free memory. */
static pst_status apply(hwloc_topology_t t, hwloc_const_bitmap_t set) {
    char list[128];
    hwloc_bitmap_list_snprintf(list, sizeof list, set);
    if (hwloc_set_cpubind(t, set, HWLOC_CPUBIND_PROCESS))
        return pst_fail(PST_EINPUT,
                        "cannot bind this rank to processors %s: %m; set parallel.bind=none to run "
                        "without binding",
                        list);
    int has_memory = !hwloc_set_membind(t, set, HWLOC_MEMBIND_BIND, 0);
    pst_log(PST_LOG_DEBUG, "bound to processors %s%s", list,
            has_memory ? ", and memory to their NUMA nodes" : "");
    return PST_OK;
}

static pst_status bind_share(pst_world *w, const pst_config *c, const pst_rank_place *mine,
                             uint32_t n, uint32_t at) {
    hwloc_topology_t t;
    hwloc_bitmap_t set = NULL, allowed = hwloc_bitmap_alloc();
    const char *why = NULL;
    const pst_bind_sharers sharers = {n, at, (uint32_t)c->parallel.threads};
    int core = !strcmp(c->parallel.bind, "core");
    if (!allowed || hwloc_topology_init(&t)) {
        hwloc_bitmap_free(allowed);
        return pst_fail(PST_ENOMEM, "no memory to bind ranks");
    }
    pst_status status = hwloc_topology_load(t)
                            ? pst_fail(PST_ENOMEM, "cannot read this machine's topology: %m")
                            : PST_OK;
    if (status == PST_OK &&
        hwloc_cpuset_from_glibc_sched_affinity(t, allowed, &mine->mask, sizeof mine->mask))
        status = pst_fail(PST_ENOMEM, "no memory to bind ranks");
    if (status == PST_OK) status = pst_bind_share(t, allowed, &sharers, &set, &why);
    if (status == PST_OK && why && core)
        status = pst_fail(
            PST_EINPUT,
            "parallel.bind core: %u ranks on %s share %d processors: %s; use parallel.bind=auto", n,
            w->host, CPU_COUNT(&mine->mask), why);
    if (status == PST_OK && why) pst_log(PST_LOG_DEBUG, "not bound: %s", why);
    if (status == PST_OK && set) status = apply(t, set);
    if (status == PST_OK && set) {
        w->sharing = 1;
        w->processors = (uint32_t)hwloc_bitmap_weight(set);
    }
    hwloc_bitmap_free(set);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(t);
    return status;
}

pst_status pst_bind_rank(pst_world *w, const pst_config *c) {
    pst_rank_place mine;
    uint32_t n, at;
    if (w->size == 1 || !strcmp(c->parallel.bind, "none")) return PST_OK;
    if (!strcmp(c->parallel.bind, "auto") && !pst_bind_is_worthwhile()) {
        pst_log(PST_LOG_DEBUG, "not bound: there is only one NUMA node, so binding has no "
                               "advantage over the Linux scheduler");
        return PST_OK;
    }
    PST_TRY(pst_identity_place(w, w->rank, &mine));
    PST_TRY(find_sharers(w, &mine, &n, &at));
    if (n > 1 && CPU_COUNT(&mine.mask)) return bind_share(w, c, &mine, n, at);
    pst_log(PST_LOG_DEBUG, "not bound: %s",
            n ? "no other rank may use these processors" : "the launcher has bound the ranks");
    return PST_OK;
}
