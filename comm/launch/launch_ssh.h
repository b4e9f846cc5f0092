/* Starts this program's launcher for one host (launch_host.c), over ssh or on this machine. */
#ifndef PST_COMM_LAUNCH_LAUNCH_SSH_H
#define PST_COMM_LAUNCH_LAUNCH_SSH_H
#include "comm/launch/hostfile.h"
#include <signal.h>
#include <sys/types.h>

/* What to start on a host: ranks first to first + n - 1 of `size` ranks; arguments; signal mask of
 * the processes. */
typedef struct {
    uint32_t first, n, size;
    char *const *argv;
    const sigset_t *mask;
} pst_ssh_job;

/* The started process. in: socket connected to its standard input; err: pipe from its standard
 * error; the caller closes both. Standard output is inherited. */
typedef struct {
    pid_t pid;
    int in, err;
} pst_ssh_process;

/* Starts the launcher on `host`: the same program in the same folder, with this process's variables
 * PENSTOCK_* and UCX_*. PENSTOCK_SSH, a command with options, replaces ssh. If it is not set, the
 * launcher of a host that is this machine is started with /bin/sh. */
pst_status pst_launch_ssh(const pst_host *host, const pst_ssh_job *job, pst_ssh_process *process);
#endif
