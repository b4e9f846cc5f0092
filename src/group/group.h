/* The ranks of a job as this process sees them: the world it was launched in, and the ranks that it
 * runs itself (one; all of them with transport `self`). All collective operations of a run are
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
    pst_transport *transport; /* between processes; NULL with transport self */
    pst_inject *inject;       /* injected fault; NULL: none */
    pst_hang *hang;
    pst_self_watch *self; /* NULL: all ranks are on this host, or the self-watch was not started */
    /* [n_rank] if this process has all ranks; else positions are in the heartbeat */
    pst_position *position;
    pst_self_hub *hub;        /* transport `self`; else NULL */
    pst_heartbeat *heartbeat; /* NULL when this process has all ranks */
    uint32_t n_rank, n_local; /* ranks of the job, ranks of this process */
    pst_rank **local;         /* [n_local] */
    pst_executor **executor;  /* [n_local] borrowed from local */
    int leader;               /* this process has rank 0 */
    int weights_gathered;     /* with job.zero: the all-gather of the weights after the last step is
                                 done */
    const char *file, *function;
    uint32_t line; /* where the last collective was called */
    /* [n_rank] preallocated, so that agreeing cannot fail on one rank alone */
    struct pst_group_verdict *verdict;
    uint64_t *number; /* [n_rank] */
    uint32_t *host;   /* [n_rank] ranks on the same host have the same number */
} pst_group;

/* Connects the job's processes (world is open; taken over on success) or, if this process has all
 * ranks, opens a hub. */
pst_status pst_group_open(pst_world *world, const char *transport, uint32_t n_rank,
                          pst_group **group);
/* Opens every rank of this process (device, arena and executor). */
pst_status pst_group_open_ranks(pst_group *g, const pst_prepared *p, int canary);
/* status not OK: closes without waiting for peers, and tells them. A launcher that is not ours is
 * asked to end the job, after this thread's message has been printed (and cleared). */
void pst_group_close(pst_group *g, pst_status status);

/* For several hosts: this process ends itself when its rank hangs (self_watch.h). Does nothing if
 * all ranks are on this host. */
pst_status pst_group_watch_self(pst_group *g, const pst_prepared *p);
/* report[n_rank] of a step: updates the expected durations of the next steps. */
void pst_group_learn(pst_group *g, const pst_report *report);
/* Records the place of the call, which every collective publishes: messages about hangs name it. */
pst_group *pst_group_at(pst_group *g, const char *file, const char *function, uint32_t line);
#define PST_GROUP_HERE(g) pst_group_at((g), __FILE__, __func__, __LINE__)

/* Runs the training or evaluation job on all ranks to its end. EPEER when a rank died meanwhile.
 * With ZeRO, a training job begins with the all-gather of new weights; before an evaluation this
 * function runs it, once. */
pst_status pst_group_run(pst_group *g, int train);
/* Waits for a transfer that was posted on g->transport, as long as the peers live. */
pst_status pst_group_finish(pst_group *g, uint64_t request);
/* The same collective on every rank; mem[local index] is each rank's buffer. Blocks. */
pst_status pst_group_collective(pst_group *g, pst_coll_kind kind, void *const *mem, uint64_t bytes,
                                pst_dtype dtype, uint32_t root);
/* Broadcast from rank `root`, of one buffer per process that is the same for all its ranks. */
pst_status pst_group_broadcast(pst_group *g, void *mem, uint64_t bytes, uint32_t root);
/* mine: n_local records of `bytes`; all: n_rank records in rank order. */
pst_status pst_group_all_gather(pst_group *g, const void *mine, uint64_t bytes, void *all);
/* All-gather of one number per process, in rank order; *all [n_rank] belongs to the group, until
 * the next call. Allocates nothing. */
pst_status pst_group_numbers(pst_group *g, uint64_t mine, const uint64_t **all);
/* gather.c. 1 when no rank has all weights of a parameter: tensor ranks hold parts of it, or
 * replicas hold shards (ZeRO). */
int pst_group_is_scattered(const pst_prepared *p, uint32_t param);
/* The weights of a parameter (fp32), from the ranks that own its shards, to `full` on every rank.
 * Collective. */
pst_status pst_group_gather_param(pst_group *g, const pst_prepared *p, uint32_t param, float *full);
/* Joins the status of all ranks: OK when all are OK; else the status of the first rank that failed,
 * with its message. Call it after work that can fail on one rank only; allocates nothing. */
pst_status pst_group_agree(pst_group *g, pst_status mine);
/* The same through the world, before the ranks are open. */
pst_status pst_group_agree_world(pst_world *world, pst_status mine);
/* 1 when this thread's last failure came from pst_group_agree, so that every rank has the same
 * message and one rank is enough to print it. */
int pst_group_error_is_common(void);

#ifndef PST_GROUP_C
#define pst_group_collective(g, ...) pst_group_collective(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_broadcast(g, ...) pst_group_broadcast(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_all_gather(g, ...) pst_group_all_gather(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_numbers(g, ...) pst_group_numbers(PST_GROUP_HERE(g), __VA_ARGS__)
#define pst_group_agree(g, ...) pst_group_agree(PST_GROUP_HERE(g), __VA_ARGS__)
#endif
#endif
