/* The launchers. Of this host: an embedded PMIx server that starts ranks of this very program,
 * watches them, and names the one that failed. Of several hosts: starts one launcher on each. */
#ifndef PST_COMM_LAUNCH_LAUNCH_H
#define PST_COMM_LAUNCH_LAUNCH_H
#include "base/status.h"
#include "comm/launch/hostfile.h"
#include <stdint.h>

/* Of signals that ask for an end, those this soon after another are the same order, given twice:
 * timeout(1) and mpirun signal a process and its group. A person's second Ctrl-C comes later. */
#define PST_LAUNCH_SAME_NS UINT64_C(50000000)

/* How a job has ended. */
typedef struct {
    int exit_status; /* of the program, as below */
    /* the signal after which the ranks have saved and left in good order; 0: there was none */
    int stopped;
} pst_launch_end;

/* The exit status of whoever was stopped by a signal and has saved: 0 after SIGINT, else 128 + the
 * signal. */
int pst_launch_stop_exit(int signal);

/* Starts n ranks of argv (argv[0] through /proc/self/exe) and waits for them. stdin is /dev/null;
 * stdout and stderr are inherited. SIGINT, SIGTERM and SIGHUP (unless ignored, as nohup has it) are
 * forwarded to every rank (the terminal's own Ctrl-C reaches them only once: each rank runs in a
 * process group of its own), SIGUSR1 to the first; a second SIGINT or SIGTERM, or SIGQUIT, kills
 * them. SIGTSTP (Ctrl-Z) stops the ranks with the launcher, SIGCONT continues them. When the
 * launcher is killed, so are the ranks. When a rank is killed, stays stopped for 2.5 s, exits with
 * a status other than 0, or with 0 while its heartbeat is open (or before it was, while others have
 * theirs), the others get `grace_ms` to leave by themselves (they learn of it through the heartbeat
 * page), then SIGKILL; so when the ranks themselves accuse one that holds them up, whose verdict is
 * said then. end->exit_status: 0 when all were 0; else that of the rank to blame (3 when it was
 * killed, stopped, or left with 0), 128 + the signal when the user's own ended it, or when SIGINT,
 * SIGTERM, SIGHUP or SIGQUIT ended a rank before its first instruction: the others are killed then.
 * Ranks that leave with the status of a stop that one of them has named (pst_heartbeat_stopped)
 * have not failed: that is the job's. The culprit is named on stderr: rank, host, what happened,
 * and where, as a survivor tells (pst_heartbeat_tell), else its last instruction from the heartbeat
 * page; but for status 2, 4 and 5, where the rank has said why. After status 3 stands what a rank
 * has noted. One job at a time, from one thread, which must live until the ranks have ended; signal
 * masks are restored. The PMIx server's threads stay for the next job. Ranks find PENSTOCK_LAUNCHER
 * (a pid) and PENSTOCK_HEARTBEAT_FD. */
pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms, pst_launch_end *end);

/* Starts `ranks` ranks of argv on the hosts, which they fill in the order of the file, in world
 * `tcp`, whose secret is drawn here; argv[0] is this very program, at the same path there, in the
 * same folder (launch_ssh.h). None begins before all hosts have answered, within wait_s seconds.
 * Standard output and error of all ranks come here; signals go there as pst_launch_local has it,
 * Ctrl-Z too. When a host fails, or its connection ends, the others get a grace to leave; when this
 * launcher is killed, its hosts' launchers kill their ranks. end->exit_status: 0 when all were 0,
 * that of a stop, else that of the host to blame, which has named the rank; 3 when a host was lost
 * and 2 when one could not be reached, named here with address. EINPUT: names without an address,
 * or resolving to loopback; too few slots. */
pst_status pst_launch_hosts(pst_hosts *hosts, uint32_t ranks, uint32_t wait_s, char *const argv[],
                            pst_launch_end *end);
/* The launcher that pst_launch_hosts starts on a host: 1 when this process shall be one, and its
 * work. */
int pst_launch_is_host(void);
pst_status pst_launch_host(char *const argv[], uint32_t grace_ms, pst_launch_end *end);
/* What such an end says of the job, when what belongs to it is cleaned up. OK: all is done, or was
 * stopped and saved. Where the user's own signal has ended it at once, this process ends as one
 * does that was interrupted by it. */
pst_status pst_launch_ended(const pst_launch_end *end);
#endif
