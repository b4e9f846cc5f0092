/* Collectives: open, choose an algorithm, start; comm/collective/run.c then runs the steps. Nothing
 * is allocated after pst_coll_open and pst_coll_hosts. */
#include "comm/collective/collective.h"
#include "base/log.h"
#include "comm/collective/choose.h"
#include "comm/collective/run.h"
#include <stdio.h>
#include <stdlib.h>

/* Parts of an even split start at multiples of a cache line. */
enum { PART_ALIGN = 64 };

/* --- open and close --------------------------------------------------------------------------- */

static pst_status reserve(pst_coll *c) {
    uint64_t scratch = (uint64_t)c->n * PST_COLL_MIN_SEGMENT;
    if (scratch < PST_COLL_SCRATCH) scratch = PST_COLL_SCRATCH;
    c->rank = calloc(c->n, sizeof *c->rank);
    c->offset = calloc(c->n + UINT64_C(1), sizeof *c->offset);
    c->window = calloc(PST_COLL_WINDOW((uint64_t)c->n), sizeof *c->window);
    c->scratch = aligned_alloc(64, scratch);
    if (c->rank && c->offset && c->window && c->scratch) return PST_OK;
    return pst_fail(PST_ENOMEM, "no memory for collectives among %u ranks", c->n);
}

static pst_status take_members(pst_coll *c, const uint32_t *members) {
    c->me = UINT32_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        c->rank[i] = members ? members[i] : i;
        if (c->rank[i] >= c->t->size)
            return pst_fail(PST_EINTERNAL,
                            "cannot open a group: member rank %u does not exist in the transport",
                            c->rank[i]);
        if (c->rank[i] == c->t->rank) c->me = i;
    }
    if (c->me == UINT32_MAX)
        return pst_fail(PST_EINTERNAL, "rank %u is not a member of the group that it opens",
                        c->t->rank);
    return PST_OK;
}

pst_status pst_coll_open(pst_transport *t, const uint32_t *members, uint32_t n, uint32_t channel,
                         pst_coll **coll) {
    if (channel < PST_CHANNEL_COLLECTIVE || channel > 0xffff || (members && !n))
        return pst_fail(PST_EINTERNAL, "cannot open a group of %u members on channel %u", n,
                        channel);
    pst_coll *c = calloc(1, sizeof *c);
    if (!c) return pst_fail(PST_ENOMEM, "no memory for collectives");
    c->t = t;
    c->n = members ? n : t->size;
    c->channel = channel;
    c->position = &c->unwatched;
    pst_status status = reserve(c);
    if (status == PST_OK) status = take_members(c, members);
    if (status != PST_OK) pst_coll_close(c);
    else *coll = c;
    return status;
}

void pst_coll_close(pst_coll *c) {
    if (!c) return;
    pst_coll_host_map_close(c->hosts);
    pst_coll_outboxes_close(c->outboxes);
    free(c->rank);
    free(c->offset);
    free(c->window);
    free(c->scratch);
    free(c);
}

pst_status pst_coll_hosts(pst_coll *c, const uint32_t *host) {
    if (c->current != c->n_run || c->seq)
        return pst_fail(PST_EINTERNAL, "pst_coll_hosts must be called before the first collective");
    pst_coll_host_map_close(c->hosts);
    c->hosts = NULL;
    return pst_coll_host_map_open(c->rank, c->n, c->me, host, &c->hosts);
}

void pst_coll_watch(pst_coll *c, pst_position *position) { c->position = position; }

void pst_coll_place(pst_coll *c, const char *file, const char *function, uint32_t line) {
    c->file = file;
    c->function = function;
    c->line = line;
}

uint64_t pst_coll_mismatch(const pst_coll *c) { return c->mismatch; }

const char *pst_coll_name(pst_coll_kind kind) {
    static const char *const names[] = {"barrier",    "broadcast",      "all-gather",
                                        "all-reduce", "reduce-scatter", "all-to-all"};
    return kind < PST_COLL_KINDS ? names[kind] : "collective";
}

/* --- start ------------------------------------------------------------------------------------ */

static pst_status check_idle(const pst_coll *c) {
    if (c->broken != PST_OK) return pst_fail(c->broken, "an earlier collective failed");
    return c->current == c->n_run
               ? PST_OK
               : pst_fail(PST_EINTERNAL, "the last collective is still under way");
}

static pst_status check_arguments(const pst_coll *c, pst_coll_kind kind, pst_dtype dtype,
                                  uint32_t root) {
    if (kind >= PST_COLL_KINDS)
        return pst_fail(PST_EINTERNAL, "unknown kind of collective, %u", (unsigned)kind);
    if (kind == PST_COLL_BROADCAST && root >= c->n)
        return pst_fail(PST_EINTERNAL, "cannot broadcast from rank %u: the group has no such rank",
                        root);
    if (!pst_coll_adds(kind)) return PST_OK;
    for (uint32_t i = 0; i <= c->n; i++)
        if ((dtype != PST_F32 && dtype != PST_F64) || c->offset[i] % pst_dtype_bytes(dtype))
            return pst_fail(PST_EINTERNAL, "%s supports F32 and F64, not %llu bytes of %s",
                            pst_coll_name(kind), (unsigned long long)c->offset[i],
                            pst_dtype_name(dtype));
    return PST_OK;
}

static pst_coll_shape shape_of(const pst_coll *c, pst_coll_kind kind, uint64_t bytes) {
    const pst_coll_host_map *h = c->hosts;
    return (pst_coll_shape){.kind = kind,
                            .n = c->n,
                            .bytes = bytes,
                            .n_host = h ? h->n_host : 1,
                            .max_per_host = h ? h->max_per_host : c->n,
                            .contiguous = h ? h->contiguous : 1,
                            .shared = c->shared};
}

/* Logged once per kind and power of two of bytes, by the first member. */
static void explain(pst_coll *c, const pst_coll_shape *shape, const pst_coll_algorithm *chosen) {
    uint64_t bit = UINT64_C(1) << (shape->bytes ? 63 - __builtin_clzll(shape->bytes) : 0);
    pst_coll_candidate candidate[PST_COLL_CANDIDATES];
    char text[400] = "";
    if (c->me || c->explained[c->kind] & bit || pst_log_get_level() < PST_LOG_DEBUG) return;
    c->explained[c->kind] |= bit;
    uint32_t n = pst_coll_rank_candidates(shape, candidate);
    for (uint32_t i = 0, used = 0; i < n; i++) {
        const pst_coll_candidate *x = &candidate[i];
        int added = x->reject
                        ? snprintf(text + used, sizeof text - used, ", %s: %s", x->name, x->reject)
                        : snprintf(text + used, sizeof text - used, ", %s %.1f us", x->name, x->us);
        if (added > 0 && used + (uint32_t)added < sizeof text) used += (uint32_t)added;
    }
    pst_log(PST_LOG_DEBUG, "%s of %llu bytes among %u ranks on %u host%s: %s%s (estimated: %s)",
            pst_coll_name(c->kind), (unsigned long long)shape->bytes, c->n, shape->n_host,
            shape->n_host > 1 ? "s" : "", chosen->name, chosen == c->forced ? " (forced)" : "",
            text[0] ? text + 2 : "");
}

static void choose(pst_coll *c) {
    pst_coll_run collective = {.kind = c->kind,
                               .rank = c->rank,
                               .n = c->n,
                               .me = c->me,
                               .root = c->root,
                               .offset = c->offset,
                               .segment = PST_COLL_SEGMENT};
    pst_coll_shape shape = shape_of(c, c->kind, c->offset[c->n]);
    collective.algorithm = pst_coll_choose(&shape, c->forced);
    explain(c, &shape, collective.algorithm);
    c->n_run = 1;
    if (collective.algorithm == &pst_coll_by_host) {
        c->n_run = pst_coll_host_runs(c->hosts, &collective, c->run);
    } else {
        collective.algorithm->plan(&collective);
        c->run[0] = collective;
    }
}

/* Starts with the parts in c->offset. */
static pst_status start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes, pst_dtype dtype,
                        uint32_t root) {
    PST_TRY(check_arguments(c, kind, dtype, root));
    c->kind = kind;
    c->mem = mem ? mem : c->scratch; /* a barrier sends no payload from there */
    c->bytes = bytes;
    c->dtype = dtype;
    c->root = kind == PST_COLL_BROADCAST ? root : 0;
    c->mismatch = 0;
    if (c->n == 1 || (kind != PST_COLL_BARRIER && !c->offset[c->n])) return PST_OK;
    choose(c);
    c->current = 0;
    c->first = c->end = 0;
    pst_coll_publish_start(c);
    return PST_OK;
}

pst_status pst_coll_start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes,
                          pst_dtype dtype, uint32_t root) {
    int all = kind == PST_COLL_BROADCAST || kind == PST_COLL_ALL_REDUCE; /* `bytes` is the total
                                                                            here */
    uint64_t part = bytes;
    PST_TRY(check_idle(c));
    if (kind == PST_COLL_BARRIER) bytes = part = 0;
    if (kind == PST_COLL_BROADCAST) part = 0; /* part n - 1 has everything */
    if (kind == PST_COLL_ALL_REDUCE) part = bytes / PART_ALIGN / c->n * PART_ALIGN;
    for (uint32_t i = 0; i <= c->n; i++) c->offset[i] = all && i == c->n ? bytes : i * part;
    return start(c, kind, mem, bytes, dtype, root);
}

pst_status pst_coll_start_parts(pst_coll *c, pst_coll_kind kind, void *mem,
                                const uint64_t *part_bytes, pst_dtype dtype) {
    if (kind != PST_COLL_ALL_GATHER && kind != PST_COLL_REDUCE_SCATTER)
        return pst_fail(PST_EINTERNAL, "%s does not support parts of different sizes",
                        pst_coll_name(kind));
    PST_TRY(check_idle(c));
    c->offset[0] = 0;
    for (uint32_t i = 0; i < c->n; i++) c->offset[i + 1] = c->offset[i] + part_bytes[i];
    return start(c, kind, mem, c->offset[c->n], dtype, 0);
}

void pst_coll_break(pst_coll *c, pst_status status) {
    if (c->broken == PST_OK) c->broken = status;
}

/* --- the choice ------------------------------------------------------------------------------- */

uint32_t pst_coll_candidates(const pst_coll *c, pst_coll_kind kind, uint64_t bytes,
                             pst_coll_candidate candidate[PST_COLL_CANDIDATES]) {
    pst_coll_shape shape = shape_of(c, kind, bytes);
    return pst_coll_rank_candidates(&shape, candidate);
}

pst_status pst_coll_force(pst_coll *c, const char *algorithm) {
    const pst_coll_algorithm *a = algorithm ? pst_coll_find(algorithm) : NULL;
    if (algorithm && !a)
        return pst_fail(PST_EINPUT, "unknown algorithm for collectives: '%.40s'", algorithm);
    c->forced = a;
    return PST_OK;
}
