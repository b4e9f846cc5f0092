/* Jobs that are described by DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and DMLC_NUM_WORKER, as
 * in ps-lite and its users (MXNet, BytePS). Workers are ranks. They connect to the scheduler, which
 * assigns each worker a rank, or confirms DMLC_WORKER_ID, and sends it the address of rank 0; from
 * then on the world is `tcp`. */
#ifndef PST_COMM_WORLD_DMLC_H
#define PST_COMM_WORLD_DMLC_H
#include "comm/world/tcp.h"

typedef enum { PST_DMLC_NONE, PST_DMLC_WORKER, PST_DMLC_SCHEDULER, PST_DMLC_SERVER } pst_dmlc_role;

/* 1: from now on DMLC_NUM_SERVER servers are ranks of the job too, behind the workers; otherwise
 * they take no part in it. Equal in all processes of a job. */
void pst_dmlc_count_servers(int counts);
/* 1: this process has a role that makes it a rank of the job. */
int pst_dmlc_is_rank(void);
/* Reads the variables into *role and *job; job->rank is UINT32_MAX if the scheduler is to assign
 * it. The strings point into the environment. EINPUT: an unknown role, or a missing or invalid
 * variable. */
pst_status pst_dmlc_read(pst_dmlc_role *role, pst_tcp_job *job);
/* Runs the scheduler: waits job->seconds for all ranks, then until all have exited. EPEER: the
 * message lists the missing ranks. */
pst_status pst_dmlc_schedule(const pst_tcp_job *job);

/* A worker's place in the job, assigned by the scheduler. */
typedef struct {
    uint32_t rank;
    char address[48], port[8]; /* where rank 0 listens */
    int listener;              /* rank 0: a listening socket; else 0 */
    /* connection to the scheduler, which the caller closes at the end of the job: the scheduler
     * waits for that */
    int fd;
} pst_dmlc_place;
pst_status pst_dmlc_ask(const pst_tcp_job *job, pst_dmlc_place *place);
#endif
