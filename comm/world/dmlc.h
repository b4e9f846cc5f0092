/* Jobs that are described by DMLC_ROLE, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT and DMLC_NUM_WORKER, as
 * in ps-lite and its users (MXNet, BytePS). Workers are ranks. They meet at the scheduler, which
 * assigns each a number, or confirms DMLC_WORKER_ID, and tells it where rank 0 listens; from then
 * on the world is `tcp`. */
#ifndef PST_COMM_WORLD_DMLC_H
#define PST_COMM_WORLD_DMLC_H
#include "comm/world/tcp.h"

typedef enum { PST_DMLC_NONE, PST_DMLC_WORKER, PST_DMLC_SCHEDULER, PST_DMLC_SERVER } pst_dmlc_role;

/* EINPUT: an unknown role, or missing variables. job: filled from the variables; rank UINT32_MAX if
 * the scheduler is to assign it. The texts belong to the environment. */
pst_status pst_dmlc_read(pst_dmlc_role *role, pst_tcp_job *job);
/* The scheduler: waits job->seconds for all workers, then until all have exited. EPEER names the
 * missing ones. */
pst_status pst_dmlc_schedule(const pst_tcp_job *job);

/* A worker's place in the job, assigned by the scheduler. */
typedef struct {
    uint32_t rank;
    char address[48], port[8]; /* where rank 0 listens */
    int listener;              /* rank 0: a listening socket; else 0 */
    int fd; /* connection to the scheduler, which waits for it to close; the caller closes it at the
               end */
} pst_dmlc_place;
pst_status pst_dmlc_ask(const pst_tcp_job *job, pst_dmlc_place *place);
#endif
