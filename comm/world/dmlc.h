/* Jobs whose processes are told by DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and
 * DMLC_NUM_WORKER what they are, as ps-lite and what stands on it (MXNet, BytePS) have it. Workers
 * are ranks. The scheduler is where they meet: it gives each its number, or confirms
 * DMLC_WORKER_ID, and says where rank 0 listens; from there on it is world `tcp`. */
#ifndef PST_COMM_WORLD_DMLC_H
#define PST_COMM_WORLD_DMLC_H
#include "comm/world/tcp.h"

typedef enum { PST_DMLC_NONE, PST_DMLC_WORKER, PST_DMLC_SCHEDULER, PST_DMLC_SERVER } pst_dmlc_role;

/* EINPUT: another role, or variables that are missing. job: what they say; rank UINT32_MAX where
 * the scheduler chooses. The texts are the environment's. */
pst_status pst_dmlc_read(pst_dmlc_role *role, pst_tcp_job *job);
/* The scheduler: waits job->seconds for all workers, then until they have all gone. EPEER says who
 * has not come. */
pst_status pst_dmlc_schedule(const pst_tcp_job *job);

/* A worker's place in the job, as the scheduler says. */
typedef struct {
    uint32_t rank;
    char address[48], port[8]; /* where rank 0 listens */
    int listener;              /* rank 0's, open; else 0 */
    int fd; /* to the scheduler, which waits for its end; the caller's to close at last */
} pst_dmlc_place;
pst_status pst_dmlc_ask(const pst_tcp_job *job, pst_dmlc_place *place);
#endif
