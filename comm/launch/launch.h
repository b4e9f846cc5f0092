/* The launchers. On one host: an embedded PMIx server that starts ranks of this same program,
 * watches them, and names the one that failed. On several hosts: starts one launcher on each. */
#ifndef PST_COMM_LAUNCH_LAUNCH_H
#define PST_COMM_LAUNCH_LAUNCH_H
#include "base/status.h"
#include "comm/launch/hostfile.h"
#include <stdint.h>

/* Two signals to stop within this time count as one: timeout(1) and mpirun signal both a process
 * and its group. A user's second Ctrl-C comes later. */
#define PST_LAUNCH_SAME_NS UINT64_C(50000000)

/* How a job has ended. */
typedef struct {
    int exit_status; /* exit status of the job, as described below */
    /* the signal after which the ranks saved and exited normally; 0: none */
    int stopped;
} pst_launch_end;

/* The exit status after a signal and a completed save: 0 for SIGINT, else 128 + the signal. */
int pst_launch_stop_exit(int signal);

/* Starts n ranks of argv (argv[0] through /proc/self/exe) and waits for them. stdin is /dev/null;
 * stdout and stderr are inherited.
 *
 * Signals: SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) are forwarded to every rank.
 * Each rank is in its own process group, so the terminal's Ctrl-C reaches it only once. SIGUSR1
 * goes to the first rank. A second SIGINT or SIGTERM, or SIGQUIT, kills the ranks. SIGTSTP (Ctrl-Z)
 * stops the ranks with the launcher, SIGCONT continues them. If the launcher is killed, so are the
 * ranks.
 *
 * A rank has failed when it is killed, stays stopped for 2.5 s, exits with a status other than 0,
 * or exits with 0 while its heartbeat is open (or before it opened while others have theirs open),
 * or when the ranks themselves accuse it of holding them up. The other ranks learn this from the
 * heartbeat page and get `grace_ms` to leave; then they get SIGKILL. Ranks that exit with the
 * status of a stop that one of them announced (pst_heartbeat_stopped) have not failed: that status
 * is the job's.
 *
 * end->exit_status: 0 when all ranks exited with 0; else the status of the culprit (3 when it was
 * killed, stopped, or exited early with 0); 128 + the signal when a signal from the user ended it,
 * or when SIGINT, SIGTERM, SIGHUP or SIGQUIT ended a rank before its first instruction (the others
 * are killed then).
 *
 * stderr gets one line with the culprit: rank, host, what happened, and where, as a survivor
 * reports (pst_heartbeat_report_dead), else its last instruction from the heartbeat page. Not for
 * statuses 2, 4 and 5, where the rank itself has printed why. After status 3 the note of a rank
 * follows (pst_heartbeat_note).
 *
 * One job at a time, from one thread, which must live until the ranks have ended; signal masks are
 * restored. The PMIx server's threads stay for the next job. Ranks find PENSTOCK_LAUNCHER (a pid)
 * and PENSTOCK_HEARTBEAT_FD in their environment. */
pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms, pst_launch_end *end);

/* Starts `ranks` ranks of argv, host after host in the order of the file, in world `tcp` with a new
 * random secret. argv[0] is this same program, at the same path and in the same folder on every
 * host (launch_ssh.h). No rank starts before all hosts have answered, within wait_s seconds.
 * Standard output and error of all ranks come here; signals are forwarded as in pst_launch_local,
 * Ctrl-Z too. When a host fails or its connection ends, the others get time to leave; when this
 * launcher is killed, the launchers on the hosts kill their ranks.
 *
 * end->exit_status: 0 when all were 0; that of a stop; else that of the failed host, which has
 * named the rank. 3 when a host was lost and 2 when one could not be reached; both are named with
 * their address. EINPUT: names without an address or that resolve to loopback; too few slots. */
pst_status pst_launch_hosts(pst_hosts *hosts, uint32_t ranks, uint32_t wait_s, char *const argv[],
                            pst_launch_end *end);
/* The launcher that pst_launch_hosts starts on a host. is_host: 1 when this process was started as
 * one. */
int pst_launch_is_host(void);
pst_status pst_launch_host(char *const argv[], uint32_t grace_ms, pst_launch_end *end);
/* Turns the end of a job into a status, after clean-up. OK: all done, or stopped and saved. If a
 * signal from the user ended the job at once, this process ends by that signal too. */
pst_status pst_launch_ended(const pst_launch_end *end);
#endif
