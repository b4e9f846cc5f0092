/* The launcher's inside, shared by its files: launch.c starts and watches, launch_blame.c says who
 * was to blame, launch_signals.c takes signals as they come, launch_host.c is the launcher of one
 * host among several. */
#ifndef PST_COMM_LAUNCH_LAUNCH_PARTS_H
#define PST_COMM_LAUNCH_LAUNCH_PARTS_H
#include "comm/launch/launch.h"
#include "comm/launch/server.h"
#include "comm/watch/heartbeat_page.h"
#include <signal.h>
#include <sys/types.h>

/* Signals that a launcher reads instead of taking; what they were before. */
typedef struct {
    int fd;                  /* signalfd; -1: none */
    sigset_t before, waited; /* signal masks of the caller; what fd reads */
    struct sigaction child;  /* the caller's; ignored children could not be waited for */
} pst_launch_signals;

pst_status pst_launch_signals_open(pst_launch_signals *s);
void pst_launch_signals_close(pst_launch_signals *s);

enum { PST_LAUNCH_SAID = 512 };
/* One host of a job that a host file describes: which ranks are its own, and where rank 0
 * listens. */
typedef struct {
    uint32_t first, size; /* its first rank; ranks of the job */
    char name[256];       /* as the host file says */
    char address[64], port[8], secret[64];
    int listener; /* rank 0 inherits it; -1 elsewhere */
    int control;  /* what the starting launcher says, in lines; its end means: at once */
    char said[PST_LAUNCH_SAID]; /* the beginning of a line */
    uint32_t n_said;
} pst_launch_host_job;

/* Who is to blame, ever more certain: a rank that left with status 3 mostly followed another one.
 * So may one that aborted: UCX does when it reads the memory of a process that is just going. */
typedef enum { NOBODY, FOLLOWER, ABORTED, CULPRIT } certainty;

typedef struct {
    pid_t pid;           /* 0: not running */
    uint64_t stopped_ns; /* since when it is stopped, 0 when it runs */
    int killed_by_us, left_early;
} rank_process;

typedef struct {
    uint32_t n, live, first; /* ranks here, those that run, the number of the first */
    char host[64];
    char *const *argv;
    uint64_t grace_ns;
    rank_process *rank;         /* [n] */
    pst_server *server;         /* NULL on one host of several */
    pst_launch_host_job *hosts; /* NULL: all ranks are here */
    pst_heartbeat_page *page;
    int page_fd, null_fd;
    pst_launch_signals signals;
    /* SIGINT, SIGTERM and SIGQUIT are counted; the last may be a SIGHUP */
    int interrupts, last_signal;
    uint64_t interrupted_ns; /* when the last one came */
    int suspended;           /* stopped together with ranks of other hosts */
    int control_ended;
    int any_killed;     /* by whatever signal */
    int any_left_early; /* some rank's left_early: status 0 before its heartbeat had begun */
    uint64_t began_ns;  /* 0: who is late has been named, or nobody is */
    int ending;         /* somebody failed: the rest has until kill_ns */
    uint64_t kill_ns;
    certainty blame;
    uint32_t culprit;
    char what[320]; /* has happened to it, to be said; "" nothing */
    int exit_status;
} launcher;

/* launch_say.c. One line on stderr, in one write: to the user, or to the starting launcher only. */
void pst_launch_say(const char *format, ...) PST_PRINTF(1, 2);
void pst_launch_host_tell(const char *format, ...) PST_PRINTF(1, 2);
#define PST_LAUNCH_MARK "\001penstock "

/* launch_blame.c. Ranks are numbered as on this host. */
/* what: NULL when the rank has said itself why. */
void pst_launch_blame(launcher *l, certainty how_sure, uint32_t rank, int exit_status,
                      const char *what);
/* Names the culprit once the others have told where it was, or at_last without that. */
void pst_launch_say_culprit(launcher *l, int at_last);
void pst_launch_begin_end(launcher *l);
void pst_launch_read_verdict(launcher *l);
void pst_launch_settle_blame(launcher *l);

/* launch_signals.c. The whole group of a rank: what it started goes with it. */
void pst_launch_signal_ranks(launcher *l, int signal);
void pst_launch_kill_ranks(launcher *l, uint64_t now);
void pst_launch_interrupt(launcher *l, int signal);
void pst_launch_read_signals(launcher *l);
/* Stops the ranks, or lets them go on, while the launcher itself runs. */
void pst_launch_suspend(launcher *l, int stop);

/* launch.c: the ranks of this host; hosts may be NULL. */
pst_status pst_launch_ranks(uint32_t n, pst_launch_host_job *hosts, char *const argv[],
                            uint32_t grace_ms, pst_launch_end *end);

/* launch_control.c: what has come over the control pipe. */
void pst_launch_host_read(launcher *l);
/* Waits for a whole line. EPEER without a message: whoever has started this host is gone, or gives
 * up for another one, and says so itself. */
pst_status pst_launch_host_wait(pst_launch_host_job *job, char line[PST_LAUNCH_SAID]);
#endif
