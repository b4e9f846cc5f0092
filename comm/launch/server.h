/* The PMIx server in penstock's launcher, through which the ranks of this host exchange values
 * without mpirun. One job at a time. */
#ifndef PST_COMM_LAUNCH_SERVER_H
#define PST_COMM_LAUNCH_SERVER_H
#include "base/status.h"
#include <stdint.h>

typedef struct pst_server pst_server;

/* Serves a job of n ranks, all on this host. Creates no files. */
pst_status pst_server_open(uint32_t n, const char *host, pst_server **server);
/* Adds the variables that `rank` needs to *env (a malloc'ed, NULL-terminated array of malloc'ed
 * strings). */
pst_status pst_server_environment(pst_server *s, uint32_t rank, char ***env);
/* pst_server_abort_fd: a descriptor that becomes readable when a rank has requested to end the job.
 * Then pst_server_aborted returns 1 and the rank, its exit status and reason. */
int pst_server_abort_fd(const pst_server *s);
int pst_server_aborted(pst_server *s, uint32_t *rank, int *exit_status, char *why, uint32_t bytes);
void pst_server_close(pst_server *s);
#endif
