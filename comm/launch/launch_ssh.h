/* Starts this program's launcher for one host (launch_host.c), over ssh or on this machine. */
#ifndef PST_COMM_LAUNCH_LAUNCH_SSH_H
#define PST_COMM_LAUNCH_LAUNCH_SSH_H
#include "comm/launch/hostfile.h"
#include <signal.h>
#include <sys/types.h>

/* What to start on a host: n of the job's `size` ranks, the first of them `first`; arguments;
 * signal mask. */
typedef struct {
    uint32_t first, n, size;
    char *const *argv;
    const sigset_t *mask;
} pst_ssh_job;

/* in: socket to its standard input; err: its standard error; the caller closes both. It inherits
 * our standard output. */
typedef struct {
    pid_t pid;
    int in, err;
} pst_ssh_process;

/* Starts the launcher on host: the same program in the same folder, with our variables PENSTOCK_*
 * and UCX_*. PENSTOCK_SSH, a command with options, replaces ssh. Without PENSTOCK_SSH, a host that
 * is this machine is started by /bin/sh. */
pst_status pst_launch_ssh(const pst_host *host, const pst_ssh_job *job, pst_ssh_process *process);
#endif
