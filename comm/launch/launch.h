/* The launchers. On one host: an embedded PMIx server that starts ranks of this same program,
 * watches them, and names the one that failed. On several hosts: starts one launcher on each. */
#ifndef PST_COMM_LAUNCH_LAUNCH_H
#define PST_COMM_LAUNCH_LAUNCH_H
#include "base/status.h"
#include "comm/launch/hostfile.h"
#include "comm/world/elastic.h"
#include <stdint.h>

/* Two signals to stop within this time count as one, because timeout(1) and mpirun signal both a
 * process and its process group. A user's second Ctrl-C comes later. */
#define PST_LAUNCH_SAME_NS UINT64_C(50000000)

/* How a job ended. */
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
 * A rank has failed if it is killed, stays stopped for 2.5 s, exits with a status other than 0,
 * exits with 0 while its heartbeat is open (or before it is open, while other ranks have theirs
 * open), or is accused by other ranks of a hang. The other ranks learn of the failure from the
 * heartbeat page; they have `grace_ms` to exit and then get SIGKILL. Ranks that exit with the
 * status of a stop that one of them has announced (pst_heartbeat_stopped) have not failed: that
 * status becomes the job's status.
 *
 * end->exit_status: 0 if all ranks exited with 0; else the status of the rank that caused the
 * failure (3 if it was killed, stopped, or exited early with 0); 128 + the signal if a signal from
 * the user ended the job, or if SIGINT, SIGTERM, SIGHUP or SIGQUIT ended a rank before its first
 * instruction (the other ranks are then killed).
 *
 * stderr gets one line about that rank: number, host, what happened, and where: as reported by a
 * survivor (pst_heartbeat_report_dead), else the last instruction from the heartbeat page. Not for
 * statuses 2, 4 and 5, after which the rank itself has printed the reason. After status 3 the note
 * of a rank follows (pst_heartbeat_note).
 *
 * One job at a time, from one thread, which must live until the ranks have ended; signal masks are
 * restored. The PMIx server's threads stay for the next job. Ranks find PENSTOCK_LAUNCHER (a pid)
 * and PENSTOCK_HEARTBEAT_FD in their environment. */
pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms, pst_launch_end *end);

/* An elastic job (comm/world/elastic.h): ranks, and spare processes that wait for the place of a
 * rank; min, max: how many ranks there may be. ranks_of: [ranks + 1]. */
typedef struct {
    uint32_t ranks, spares, min, max;
    const uint32_t *ranks_of;
} pst_launch_elastic;

/* As pst_launch_local, for an elastic job: when a rank is killed, stays stopped or hangs, the
 * others go on with ranks_of[number of living processes] ranks, at most `ranks`; 0: they cannot,
 * and the job ends as above. Processes without a rank wait until they get one. The number of ranks
 * changes on request (request.h). Ranks find PENSTOCK_ELASTIC_FD and PENSTOCK_ELASTIC_PROCESS, but
 * no PMIx server. After a signal to stop, and once a rank has exited with a status other than 0,
 * the failure of a rank ends the job. */
pst_status pst_launch_local_elastic(const pst_launch_elastic *job, char *const argv[],
                                    uint32_t grace_ms, pst_launch_end *end);

/* ranks_of: NULL, or of an elastic job, as in pst_launch_local_elastic: the job goes on without a
 * rank or a host; copies: of such a job. */
typedef struct {
    uint32_t ranks, wait_s;
    const uint32_t *ranks_of;
    pst_elastic_copies copies;
} pst_launch_hosts_options;
/* Starts `ranks` ranks of argv, host after host in the order of the file, in world `tcp` with a new
 * random secret. argv[0] is this same program, at the same path and in the same folder on every
 * host (launch_ssh.h). No rank starts before all hosts have answered, within wait_s seconds.
 * Standard output and error of all ranks are forwarded to this launcher; signals are forwarded as
 * in pst_launch_local, including Ctrl-Z. When a host fails or its connection ends, the other hosts
 * have time to exit; when this launcher is killed, the launchers on the hosts kill their ranks.
 *
 * end->exit_status: 0 if all hosts returned 0; the status of a stop; else that of the failed host,
 * which has named the rank. 3 if a host was lost, 2 if a host could not be reached; a message names
 * that host and its address. EINPUT: a name has no address or resolves to loopback, or there are
 * too few slots. */
pst_status pst_launch_hosts(pst_hosts *hosts, const pst_launch_hosts_options *options,
                            char *const argv[], pst_launch_end *end);
/* pst_launch_host: the launcher that pst_launch_hosts starts on each host. pst_launch_is_host: 1:
 * this process was started as such a launcher. */
int pst_launch_is_host(void);
pst_status pst_launch_host(char *const argv[], uint32_t grace_ms, pst_launch_end *end);
/* Turns the end of a job into a status; to be called after clean-up. OK: the job completed, or
 * stopped and saved. If a signal from the user ended the job without saving, this function ends the
 * process by the same signal. */
pst_status pst_launch_ended(const pst_launch_end *end);
#endif
