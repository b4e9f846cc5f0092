/* Private to this component: which members share a host, and how a collective is split by host. */
#ifndef PST_COMM_COLLECTIVE_HOST_H
#define PST_COMM_COLLECTIVE_HOST_H
#include "comm/collective/algorithm.h"

enum { PST_COLL_RUNS = 3 };
typedef struct {
    uint32_t n_host, max_per_host, host; /* host: the number of this member's host */
    int contiguous;
    uint32_t *of; /* [n] number of each member's host, counted in order of first appearance */
    uint32_t *local, n_local, me; /* transport ranks on this host; index of this one among them */
    uint32_t *leader, *first; /* [n_host] transport rank of each host's first member; its index in
                                 the group, first[n_host] is n */
    uint32_t *current_leader; /* [n_host] leaders of the collective under way: in a broadcast the
                             root leads its host */
    uint64_t *offset;         /* [n_host + 1] start of each leader's part */
    uint64_t *local_offset;   /* [n_local + 1] start of the part of each member on this host */
} pst_coll_host_map;

pst_status pst_coll_host_map_open(const uint32_t *rank, uint32_t n, uint32_t me,
                                  const uint32_t *host, pst_coll_host_map **map);
void pst_coll_host_map_close(pst_coll_host_map *map);
/* Fills run[] with the runs that `collective` is split into by host; returns their number. */
uint32_t pst_coll_host_runs(pst_coll_host_map *map, const pst_coll_run *collective,
                            pst_coll_run run[PST_COLL_RUNS]);
#endif
