/* The ranks of a job as seen by this process: the world, and the ranks that this process runs (one
 * rank, or with transport `self` all ranks). All collective operations of a run are declared
 * here. */
#ifndef PST_GROUP_GROUP_H
#define PST_GROUP_GROUP_H
#include "comm/transport/inject.h"
#include "comm/transport/transport.h"
#include "comm/watch/heartbeat.h"
#include "health/hang.h"
#include "health/self_watch.h"
#include "rank/rank.h"

typedef struct {
    pst_world *world;
    pst_transport *transport; /* transport between processes; NULL with transport self */
    pst_inject *inject;       /* injected fault (PENSTOCK_FAULT); NULL: none */
    pst_hang *hang;
    pst_self_watch *self; /* NULL: all ranks are on this host, or the self-watch was not started */
    /* [n_rank] positions of the ranks if this process has all of them; NULL: the positions are in
     * the heartbeat */
    pst_position *position;
    pst_self_hub *hub;        /* NULL except with transport `self` */
    pst_heartbeat *heartbeat; /* NULL when this process has all ranks */
    uint32_t n_rank, n_local; /* number of ranks of the job; of this process */
    pst_rank **local;         /* [n_local] */
    pst_executor **executor;  /* [n_local] borrowed from local */
    int leader;               /* 1: this process has rank 0 */
    /* with ZeRO: 1: the weights of the last step have been all-gathered */
    int weights_gathered;
    const char *file, *function;
    uint32_t line; /* file, function, line: where the last collective was called */
    /* [n_rank] allocated at open, so that pst_group_agree cannot run out of memory on one rank */
    struct pst_group_verdict *verdict;
    uint64_t *number; /* [n_rank] */
    uint32_t *host;   /* [n_rank] number of the host of each rank */
} pst_group;

/* Connects the job's processes or, if this process has all ranks, connects its ranks within the
 * process. The world must be open; on success the group owns it. EINPUT: the transport is not
 * usable; EPEER: a process failed. */
pst_status pst_group_open(pst_world *world, const char *transport, uint32_t n_rank,
                          pst_group **group);
/* Opens every rank of this process (device, arena and executor). */
pst_status pst_group_open_ranks(pst_group *g, const pst_prepared *p, int canary);
/* Closes the group and its ranks. If status is not OK: does not wait for peers but notifies them;
 * if another launcher (mpirun, srun) started the ranks, prints and clears this thread's error
 * message and asks the launcher to end the job. */
void pst_group_close(pst_group *g, pst_status status);

/* For a job on several hosts: from now on this process exits when its rank hangs (self_watch.h).
 * Does nothing if all ranks are on this host. */
pst_status pst_group_watch_self(pst_group *g, const pst_prepared *p);
/* Updates the expected durations of instructions, which the hang detector uses, from the reports of
 * a step: [n_rank]. */
void pst_group_learn(pst_group *g, const pst_report *report);
/* Records the source line that calls the next collective; messages about hangs name it. Returns
 * g. */
pst_group *pst_group_at(pst_group *g, const char *file, const char *function, uint32_t line);
#define PST_GROUP_HERE(g) pst_group_at((g), __FILE__, __func__, __LINE__)

/* The next lists of all ranks are those of p (pst_rank_use); collective. ENOMEM. */
pst_status pst_group_use(pst_group *g, const pst_prepared *p);
/* Runs one training step (train 1) or evaluation pass (0) on all ranks and waits for its end.
 * EPEER: a rank died. With ZeRO, a training step begins with the all-gather of the new weights;
 * before an evaluation this function runs that all-gather once. */
pst_status pst_group_run(pst_group *g, int train);
/* Waits until a transfer posted on g->transport is complete. EPEER: a peer died. */
pst_status pst_group_finish(pst_group *g, uint64_t request);
/* Runs a collective of all ranks and blocks until it is done; every rank must call it with the same
 * arguments. mem[i] is the buffer of local rank i; kind, bytes and root as in pst_coll_start. */
pst_status pst_group_collective(pst_group *g, pst_coll_kind kind, void *const *mem, uint64_t bytes,
                                pst_dtype dtype, uint32_t root);
/* Broadcasts `bytes` bytes from the process of rank `root` to `mem` of every process.
 * Collective. */
pst_status pst_group_broadcast(pst_group *g, void *mem, uint64_t bytes, uint32_t root);
/* Gathers one record of `bytes` bytes per rank. mine: [n_local] records of this process; all:
 * [n_rank] records in rank order. Collective. */
pst_status pst_group_all_gather(pst_group *g, const void *mine, uint64_t bytes, void *all);
/* Gathers one number per process. *all: [n_rank], in rank order, owned by the group and valid until
 * the next call. Collective; allocates nothing. */
pst_status pst_group_numbers(pst_group *g, uint64_t mine, const uint64_t **all);
/* gather.c. 1: no rank holds a parameter completely, because it is split over tensor ranks or
 * sharded over replicas (ZeRO). Of a frozen one nothing can be gathered: 0. */
int pst_group_is_scattered(const pst_prepared *p, uint32_t param);
/* Waits until the lists that local ranks have started have ended. */
pst_status pst_group_drive(pst_group *g);
/* Sends all weights from their owners to all ranks that have them. Collective. */
pst_status pst_group_spread_weights(pst_group *g, const pst_prepared *p);
/* Gathers the fp32 weights of a parameter from the ranks that own its shards into `full` (all
 * elements of the unsplit parameter) on every rank. Collective. */
pst_status pst_group_gather_param(pst_group *g, const pst_prepared *p, uint32_t param, float *full);
/* Combines the status of all ranks: OK if all are OK, else the status and message of the lowest
 * rank that failed. Collective; to be called after work that can fail on a single rank. Allocates
 * nothing. */
pst_status pst_group_agree(pst_group *g, pst_status mine);
/* The same over the world's key-value store, before the group is open. */
pst_status pst_group_agree_world(pst_world *world, pst_status mine);
/* 1: this thread's last error came from pst_group_agree, so every rank has the same message and
 * only one rank should print it. */
int pst_group_error_is_common(void);

#ifndef PST_GROUP_C
#define pst_group_collective(g, ...) pst_group_collective(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_broadcast(g, ...) pst_group_broadcast(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_all_gather(g, ...) pst_group_all_gather(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_numbers(g, ...) pst_group_numbers(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_agree(g, ...) pst_group_agree(PST_GROUP_HERE(g), __VA_ARGS__)
#endif
#endif
