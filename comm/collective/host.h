/* Private to this component: which members share a host, and what a collective becomes there. */
#ifndef PST_COMM_COLLECTIVE_HOST_H
#define PST_COMM_COLLECTIVE_HOST_H
#include "comm/collective/algorithm.h"

enum { PST_COLL_RUNS = 3 };
typedef struct {
    uint32_t n_host, most, host; /* host: this rank's */
    int in_turn;
    uint32_t *of;                 /* [n] host of each member, numbered as they appear */
    uint32_t *local, n_local, me; /* ranks of this host; index of this one */
    uint32_t *leader, *first; /* [n_host] rank of each one's first member; its index in the group,
                                 [n_host] is n */
    uint32_t *leader_now;     /* [n_host] of the broadcast under way */
    uint64_t *offset;         /* [n_host + 1] parts of leaders */
    uint64_t *local_offset;   /* [n_local + 1] likewise of this host's ranks */
} pst_coll_host_map;

pst_status pst_coll_host_map_open(const uint32_t *rank, uint32_t n, uint32_t me,
                                  const uint32_t *host, pst_coll_host_map **map);
void pst_coll_host_map_close(pst_coll_host_map *map);
/* Fills run[] with what `whole` becomes by host; returns how many. */
uint32_t pst_coll_host_runs(pst_coll_host_map *map, const pst_coll_run *whole,
                            pst_coll_run run[PST_COLL_RUNS]);
#endif
