/* Algorithm `host`: a hierarchical collective, with as little traffic between hosts as possible.
 * The members of each host reduce or gather to their leader (tree); the leaders run the collective
 * among themselves with the algorithm that is cheapest over the network; each leader broadcasts the
 * result on its host (tree). Each of these is a run of its own, one after another. */
#include "comm/collective/host.h"
#include "comm/collective/choose.h"
#include <stdlib.h>
#include <string.h>

/* The algorithms that leaders can use: they share neither a host nor memory. */
static const pst_coll_algorithm *among_leaders(const pst_coll_shape *shape) {
    static const pst_coll_algorithm *const table[] = {&pst_coll_doubling, &pst_coll_direct,
                                                      &pst_coll_tree, &pst_coll_ring};
    return pst_coll_cheapest(table, sizeof table / sizeof *table, shape);
}

static void number_hosts(pst_coll_host_map *map, const uint32_t *rank, uint32_t n,
                         const uint32_t *host) {
    map->contiguous = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = 0;
        while (h < map->n_host && host[map->leader[h]] != host[rank[i]]) h++;
        if (h == map->n_host) {
            map->first[h] = i;
            map->leader[map->n_host++] = rank[i];
        } else if (h + 1 != map->n_host) map->contiguous = 0;
        map->of[i] = h;
    }
    map->first[map->n_host] = n;
    for (uint32_t h = 0; h < map->n_host; h++) {
        uint32_t members = 0;
        for (uint32_t i = 0; i < n; i++) members += map->of[i] == h;
        if (members > map->max_per_host) map->max_per_host = members;
    }
}

pst_status pst_coll_host_map_open(const uint32_t *rank, uint32_t n, uint32_t me,
                                  const uint32_t *host, pst_coll_host_map **out) {
    pst_coll_host_map *map = calloc(1, sizeof *map);
    if (map) {
        map->of = calloc(n, sizeof *map->of);
        map->local = calloc(n, sizeof *map->local);
        map->leader = calloc(n, sizeof *map->leader);
        map->current_leader = calloc(n, sizeof *map->current_leader);
        map->first = calloc(n + UINT64_C(1), sizeof *map->first);
        map->offset = calloc(n + UINT64_C(1), sizeof *map->offset);
        map->local_offset = calloc(n + UINT64_C(1), sizeof *map->local_offset);
    }
    if (!map || !map->of || !map->local || !map->leader || !map->current_leader || !map->first ||
        !map->offset || !map->local_offset) {
        pst_coll_host_map_close(map);
        return pst_fail(PST_ENOMEM, "no memory to map %u ranks to hosts", n);
    }
    number_hosts(map, rank, n, host);
    map->host = map->of[me];
    for (uint32_t i = 0; i < n; i++) {
        if (i == me) map->me = map->n_local;
        if (map->of[i] == map->host) map->local[map->n_local++] = rank[i];
    }
    *out = map;
    return PST_OK;
}

void pst_coll_host_map_close(pst_coll_host_map *map) {
    if (!map) return;
    free(map->of);
    free(map->local);
    free(map->leader);
    free(map->current_leader);
    free(map->first);
    free(map->offset);
    free(map->local_offset);
    free(map);
}

/* --- the runs --------------------------------------------------------------------------------- */

/* Fills offset[n + 1]: n equal parts, each but the last a multiple of 8 bytes; or, not `evenly`,
 * part 0 has everything. */
static void split(uint64_t *offset, uint32_t n, uint64_t bytes, int evenly) {
    offset[0] = 0;
    for (uint32_t i = 1; i <= n; i++) offset[i] = i == n || !evenly ? bytes : bytes / n / 8 * 8 * i;
}

static void local_run(pst_coll_host_map *map, const pst_coll_run *collective, uint32_t kind,
                      uint32_t root, pst_coll_run *run) {
    *run = (pst_coll_run){.algorithm = &pst_coll_tree,
                          .kind = kind,
                          .rank = map->local,
                          .n = map->n_local,
                          .me = map->me,
                          .root = root,
                          .offset = map->local_offset,
                          .segment = collective->segment};
    if (kind == PST_COLL_GATHER) run->offset = collective->offset + map->first[map->host];
    run->algorithm->plan(run);
}

/* A member that is no leader has no steps, but counts the message numbers. */
static void leader_run(pst_coll_host_map *map, const pst_coll_run *collective, uint32_t root,
                       int is_leader, pst_coll_run *run) {
    uint64_t total = pst_coll_total(collective);
    pst_coll_shape shape = {.kind = collective->kind,
                            .n = map->n_host,
                            .bytes = total,
                            .n_host = map->n_host,
                            .max_per_host = 1,
                            .contiguous = 1};
    *run = (pst_coll_run){.algorithm = among_leaders(&shape),
                          .kind = collective->kind,
                          .rank = map->current_leader,
                          .n = map->n_host,
                          .me = map->host,
                          .root = root,
                          .offset = map->offset,
                          .segment = collective->segment};
    if (collective->kind == PST_COLL_ALL_GATHER)
        for (uint32_t h = 0; h <= map->n_host; h++)
            map->offset[h] = collective->offset[map->first[h]];
    else split(map->offset, map->n_host, total, collective->kind == PST_COLL_ALL_REDUCE);
    run->algorithm->plan(run);
    if (!is_leader) run->n_step = 0;
}

uint32_t pst_coll_host_runs(pst_coll_host_map *map, const pst_coll_run *collective,
                            pst_coll_run run[PST_COLL_RUNS]) {
    int from_root = collective->kind == PST_COLL_BROADCAST;
    uint32_t root_host = map->of[collective->root], local_root = 0, n = 0;
    memcpy(map->current_leader, map->leader, map->n_host * sizeof *map->leader);
    if (from_root) map->current_leader[root_host] = collective->rank[collective->root];
    while (from_root && map->host == root_host &&
           map->local[local_root] != collective->rank[collective->root])
        local_root++;
    int is_leader = map->me == local_root;
    split(map->local_offset, map->n_local, pst_coll_total(collective), 0);
    if (!from_root)
        local_run(map, collective,
                  collective->kind == PST_COLL_ALL_REDUCE ? PST_COLL_REDUCE : PST_COLL_GATHER, 0,
                  &run[n++]);
    leader_run(map, collective, root_host, is_leader, &run[n++]);
    local_run(map, collective, PST_COLL_BROADCAST, local_root, &run[n++]);
    for (uint32_t i = 1; i < n; i++) run[i].seq = run[i - 1].seq + run[i - 1].n_seq;
    return n;
}

/* --- the row of the table --------------------------------------------------------------------- */

static const char *host_reject(const pst_coll_shape *s) {
    if (s->n_host == 1) return "all ranks are on one host";
    if (s->max_per_host == 1) return "each rank is on its own host";
    return s->kind == PST_COLL_ALL_GATHER && !s->contiguous
               ? "the ranks of a host are not consecutive"
               : NULL;
}

/* Adds the costs within the largest host to those among the leaders. */
static void host_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    pst_coll_shape local = {.kind =
                                s->kind == PST_COLL_BROADCAST ? s->kind : (uint32_t)PST_COLL_REDUCE,
                            .n = s->max_per_host,
                            .bytes = s->bytes,
                            .n_host = 1,
                            .max_per_host = s->max_per_host};
    pst_coll_shape leaders = {.kind = s->kind,
                              .n = s->n_host,
                              .bytes = s->bytes,
                              .n_host = s->n_host,
                              .max_per_host = 1,
                              .contiguous = 1};
    pst_coll_cost up = {0}, down = {0};
    if (s->kind == PST_COLL_ALL_GATHER) local.bytes = s->bytes * s->max_per_host / s->n;
    if (s->kind != PST_COLL_BROADCAST) pst_coll_tree.cost(&local, &up);
    if (s->kind == PST_COLL_ALL_GATHER) up.added = 0;
    local.kind = PST_COLL_BROADCAST;
    local.bytes = s->bytes;
    pst_coll_tree.cost(&local, &down);
    among_leaders(&leaders)->cost(&leaders, c);
    c->local_rounds += up.local_rounds + down.local_rounds;
    c->messages += up.messages + down.messages;
    c->local_bytes += up.local_bytes + down.local_bytes;
    c->added += up.added;
}

/* No plan and step here: pst_coll_host_runs uses those of other algorithms. */
const pst_coll_algorithm pst_coll_by_host = {
    .name = "host",
    .kinds = PST_COLL_BIT(PST_COLL_BROADCAST) | PST_COLL_BIT(PST_COLL_ALL_GATHER) |
             PST_COLL_BIT(PST_COLL_ALL_REDUCE),
    .reject = host_reject,
    .cost = host_cost,
};
