/* Private to this component: which members share a host, and how algorithm `host` splits a
 * collective. */
#ifndef PST_COMM_COLLECTIVE_HOST_H
#define PST_COMM_COLLECTIVE_HOST_H
#include "comm/collective/algorithm.h"

enum { PST_COLL_RUNS = 3 };
typedef struct {
    /* number of hosts; largest number of members on one host; number of this member's host */
    uint32_t n_host, max_per_host, host;
    int contiguous;
    /* [n] number of each member's host; hosts are numbered in the order of their first member */
    uint32_t *of;
    /* [n_local] transport ranks on this host; me: index of this rank among them */
    uint32_t *local, n_local, me;
    /* leader: [n_host] transport rank of each host's first member; first: [n_host + 1] index of
     * that member in the group, first[n_host] is n */
    uint32_t *leader, *first;
    /* [n_host] leaders in the current collective: as `leader`, but in a broadcast the root is the
     * leader of its host */
    uint32_t *current_leader;
    uint64_t *offset;       /* [n_host + 1] offset of each leader's part */
    uint64_t *local_offset; /* [n_local + 1] offset of the part of each member on this host */
} pst_coll_host_map;

pst_status pst_coll_host_map_open(const uint32_t *rank, uint32_t n, uint32_t me,
                                  const uint32_t *host, pst_coll_host_map **map);
void pst_coll_host_map_close(pst_coll_host_map *map);
/* Splits `collective` by host into run[]; returns the number of runs. */
uint32_t pst_coll_host_runs(pst_coll_host_map *map, const pst_coll_run *collective,
                            pst_coll_run run[PST_COLL_RUNS]);
#endif
