/* Algorithm `host`: what can stay within a host stays there. The members of each host reduce or
 * gather to their first one (tree), the first ones go on among themselves with whatever is cheapest
 * over the network, and hand the result out (tree). Each of these is a run of its own, one behind
 * the other. */
#include "comm/collective/host.h"
#include "comm/collective/choose.h"
#include <stdlib.h>
#include <string.h>

/* What the first ones of several hosts may go by: they share neither host nor memory. */
static const pst_coll_algorithm *among_leaders(const pst_coll_shape *shape) {
    static const pst_coll_algorithm *const table[] = {&pst_coll_doubling, &pst_coll_direct,
                                                      &pst_coll_tree, &pst_coll_ring};
    return pst_coll_cheapest(table, sizeof table / sizeof *table, shape);
}

static void number_hosts(pst_coll_host_map *map, const uint32_t *rank, uint32_t n,
                         const uint32_t *host) {
    map->in_turn = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = 0;
        while (h < map->n_host && host[map->leader[h]] != host[rank[i]]) h++;
        if (h == map->n_host) {
            map->first[h] = i;
            map->leader[map->n_host++] = rank[i];
        } else if (h + 1 != map->n_host) map->in_turn = 0;
        map->of[i] = h;
    }
    map->first[map->n_host] = n;
    for (uint32_t h = 0; h < map->n_host; h++) {
        uint32_t members = 0;
        for (uint32_t i = 0; i < n; i++) members += map->of[i] == h;
        if (members > map->most) map->most = members;
    }
}

pst_status pst_coll_host_map_open(const uint32_t *rank, uint32_t n, uint32_t me,
                                  const uint32_t *host, pst_coll_host_map **out) {
    pst_coll_host_map *map = calloc(1, sizeof *map);
    if (map) {
        map->of = calloc(n, sizeof *map->of);
        map->local = calloc(n, sizeof *map->local);
        map->leader = calloc(n, sizeof *map->leader);
        map->leader_now = calloc(n, sizeof *map->leader_now);
        map->first = calloc(n + UINT64_C(1), sizeof *map->first);
        map->offset = calloc(n + UINT64_C(1), sizeof *map->offset);
        map->local_offset = calloc(n + UINT64_C(1), sizeof *map->local_offset);
    }
    if (!map || !map->of || !map->local || !map->leader || !map->leader_now || !map->first ||
        !map->offset || !map->local_offset) {
        pst_coll_host_map_close(map);
        return pst_fail(PST_ENOMEM, "no memory for a map of %u ranks' hosts", n);
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
    free(map->leader_now);
    free(map->first);
    free(map->offset);
    free(map->local_offset);
    free(map);
}

/* --- the runs --------------------------------------------------------------------------------- */

/* All bytes are part 0 of `part`, or cut into n that are multiples of 8 bytes but for the last
 * one. */
static void split(uint64_t *offset, uint32_t n, uint64_t bytes, int evenly) {
    offset[0] = 0;
    for (uint32_t i = 1; i <= n; i++) offset[i] = i == n || !evenly ? bytes : bytes / n / 8 * 8 * i;
}

static void local_run(pst_coll_host_map *map, const pst_coll_run *whole, uint32_t kind,
                      uint32_t root, pst_coll_run *run) {
    *run = (pst_coll_run){.algorithm = &pst_coll_tree,
                          .kind = kind,
                          .rank = map->local,
                          .n = map->n_local,
                          .me = map->me,
                          .root = root,
                          .offset = map->local_offset,
                          .segment = whole->segment};
    if (kind == PST_COLL_GATHER) run->offset = whole->offset + map->first[map->host];
    run->algorithm->plan(run);
}

/* Who is no leader only counts its messages. */
static void leader_run(pst_coll_host_map *map, const pst_coll_run *whole, uint32_t root,
                       int is_leader, pst_coll_run *run) {
    uint64_t total = pst_coll_total(whole);
    pst_coll_shape shape = {.kind = whole->kind,
                            .n = map->n_host,
                            .bytes = total,
                            .n_host = map->n_host,
                            .most = 1,
                            .in_turn = 1};
    *run = (pst_coll_run){.algorithm = among_leaders(&shape),
                          .kind = whole->kind,
                          .rank = map->leader_now,
                          .n = map->n_host,
                          .me = map->host,
                          .root = root,
                          .offset = map->offset,
                          .segment = whole->segment};
    if (whole->kind == PST_COLL_ALL_GATHER)
        for (uint32_t h = 0; h <= map->n_host; h++) map->offset[h] = whole->offset[map->first[h]];
    else split(map->offset, map->n_host, total, whole->kind == PST_COLL_ALL_REDUCE);
    run->algorithm->plan(run);
    if (!is_leader) run->n_step = 0;
}

uint32_t pst_coll_host_runs(pst_coll_host_map *map, const pst_coll_run *whole,
                            pst_coll_run run[PST_COLL_RUNS]) {
    int from_root = whole->kind == PST_COLL_BROADCAST;
    uint32_t root_host = map->of[whole->root], local_root = 0, n = 0;
    memcpy(map->leader_now, map->leader, map->n_host * sizeof *map->leader);
    if (from_root) map->leader_now[root_host] = whole->rank[whole->root];
    while (from_root && map->host == root_host &&
           map->local[local_root] != whole->rank[whole->root])
        local_root++;
    int is_leader = map->me == local_root;
    split(map->local_offset, map->n_local, pst_coll_total(whole), 0);
    if (!from_root)
        local_run(map, whole,
                  whole->kind == PST_COLL_ALL_REDUCE ? PST_COLL_REDUCE : PST_COLL_GATHER, 0,
                  &run[n++]);
    leader_run(map, whole, root_host, is_leader, &run[n++]);
    local_run(map, whole, PST_COLL_BROADCAST, local_root, &run[n++]);
    for (uint32_t i = 1; i < n; i++) run[i].seq = run[i - 1].seq + run[i - 1].n_seq;
    return n;
}

/* --- the row ---------------------------------------------------------------------------------- */

static const char *host_reject(const pst_coll_shape *s) {
    if (s->n_host == 1) return "all are on one host";
    if (s->most == 1) return "each is on a host of its own";
    return s->kind == PST_COLL_ALL_GATHER && !s->in_turn
               ? "members of a host do not follow one another"
               : NULL;
}

/* Costs of the leaders' part, in terms of what it takes there. */
static void host_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    pst_coll_shape local = {.kind =
                                s->kind == PST_COLL_BROADCAST ? s->kind : (uint32_t)PST_COLL_REDUCE,
                            .n = s->most,
                            .bytes = s->bytes,
                            .n_host = 1,
                            .most = s->most};
    pst_coll_shape leaders = {.kind = s->kind,
                              .n = s->n_host,
                              .bytes = s->bytes,
                              .n_host = s->n_host,
                              .most = 1,
                              .in_turn = 1};
    pst_coll_cost up = {0}, down = {0};
    if (s->kind == PST_COLL_ALL_GATHER) local.bytes = s->bytes * s->most / s->n;
    if (s->kind != PST_COLL_BROADCAST) pst_coll_tree.cost(&local, &up);
    if (s->kind == PST_COLL_ALL_GATHER) up.added = 0;
    local.kind = PST_COLL_BROADCAST;
    local.bytes = s->bytes;
    pst_coll_tree.cost(&local, &down);
    among_leaders(&leaders)->cost(&leaders, c);
    c->near_turns += up.near_turns + down.near_turns;
    c->messages += up.messages + down.messages;
    c->near_bytes += up.near_bytes + down.near_bytes;
    c->added += up.added;
}

/* Its runs plan and step by their own algorithms. */
const pst_coll_algorithm pst_coll_by_host = {
    .name = "host",
    .kinds = PST_COLL_BIT(PST_COLL_BROADCAST) | PST_COLL_BIT(PST_COLL_ALL_GATHER) |
             PST_COLL_BIT(PST_COLL_ALL_REDUCE),
    .reject = host_reject,
    .cost = host_cost,
};
