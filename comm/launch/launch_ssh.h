/* Starting this program's launcher of one host (launch_host.c), over ssh or here. */
#ifndef PST_COMM_LAUNCH_LAUNCH_SSH_H
#define PST_COMM_LAUNCH_LAUNCH_SSH_H
#include "comm/launch/hostfile.h"
#include <signal.h>
#include <sys/types.h>

/* What a host is started with: n of size ranks, the first of them `first`; arguments; the signal
 * mask it begins with. */
typedef struct {
    uint32_t first, n, size;
    char *const *argv;
    const sigset_t *mask;
} pst_ssh_job;

/* in: a socket, for what goes to its standard input; err: what it says on standard error; both the
 * caller's to close. Its standard output is ours. */
typedef struct {
    pid_t pid;
    int in, err;
} pst_ssh_process;

/* Starts the launcher on host: argv[0] of the remote command is this very program, in the same
 * folder, with our variables PENSTOCK_* and UCX_*. PENSTOCK_SSH, a command with options, replaces
 * ssh; without it, a host that is this machine is started without either. */
pst_status pst_launch_ssh(const pst_host *host, const pst_ssh_job *job, pst_ssh_process *process);
#endif
