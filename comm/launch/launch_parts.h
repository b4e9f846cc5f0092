/* Internals of the launcher: launch.c starts and watches ranks, launch_blame.c finds the rank that
 * caused a failure (the culprit), launch_signals.c handles signals, launch_host.c is the launcher
 * of one host among several. */
#ifndef PST_COMM_LAUNCH_LAUNCH_PARTS_H
#define PST_COMM_LAUNCH_LAUNCH_PARTS_H
#include "comm/launch/launch.h"
#include "comm/launch/server.h"
#include "comm/watch/heartbeat_page.h"
#include "comm/world/elastic.h"
#include <signal.h>
#include <sys/types.h>

/* The signals that a launcher reads from a descriptor, and the state to restore. */
typedef struct {
    int fd;                   /* signalfd; -1: none */
    sigset_t before, watched; /* signal mask to restore; the signals that fd reads */
    /* SIGCHLD action to restore: if it were to ignore children, the launcher could not wait for
     * ranks */
    struct sigaction child;
} pst_launch_signals;

pst_status pst_launch_signals_open(pst_launch_signals *s);
void pst_launch_signals_close(pst_launch_signals *s);

enum { PST_LAUNCH_LINE = 512 };
/* One host of a job that a host file describes: its ranks, and where rank 0 listens. */
typedef struct {
    uint32_t first, size; /* first rank on this host; number of ranks of the job */
    char name[256];       /* as in the host file */
    char address[64], port[8], secret[64];
    int listener; /* listening socket that rank 0 inherits; -1 on the other hosts */
    /* pipe with lines from the starting launcher; end of file: end the job without saving */
    int control;
    char received[PST_LAUNCH_LINE]; /* received bytes up to the end of a line */
    uint32_t n_received;
    /* Of an elastic job: [size + 1] as in comm/world/elastic.h; n_host 0: the job is not elastic.
     * page_fd: of page. heard_ns, beat_ns: when the starting launcher was last heard, and when this
     * one last sent a sign of life, and last said that the host of rank 0 is silent. */
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1], n_host;
    pst_elastic_page *page;
    int page_fd;
    uint64_t heard_ns, beat_ns, apart_ns;
    /* has_epoch: the last epoch in which all ranks of this host have completed a state; drains: 1:
     * this host was told to leave */
    uint32_t has_epoch;
    int drains;
} pst_launch_host_job;
/* Between launchers of an elastic job: how often they send a sign of life; after what silence a
 * host is lost; and after what silence of the starting launcher a host ends its ranks, which is no
 * hurry: the others go on without them. */
#define PST_LAUNCH_BEAT_NS UINT64_C(500000000)
#define PST_LAUNCH_SILENT_NS UINT64_C(3000000000)
#define PST_LAUNCH_CUT_NS UINT64_C(15000000000)

/* How certain it is that a rank caused the failure. A rank that exited with status 3 has usually
 * reacted to the failure of another rank. So may a rank that aborted: UCX calls abort() when it
 * reads the memory of a process that is ending. */
typedef enum { NOBODY, FOLLOWER, ABORTED, CULPRIT } certainty;

typedef struct {
    pid_t pid;           /* 0: not running */
    uint64_t stopped_ns; /* when the process was stopped (SIGSTOP); 0: it is not stopped */
    int killed_by_us, left_early;
    int lost; /* of an elastic job: the launcher kills it so that the others go on */
} rank_process;

/* A change of the ranks that somebody has requested (request.h): the processes that it needs start;
 * the ranks leave the epoch at the end of their step; the next epoch begins. */
typedef enum { CHANGE_NONE, CHANGE_STARTS, CHANGE_LEAVES, CHANGE_BEGINS } change_phase;
enum { PST_LAUNCH_REQUEST = 1024 };

/* listener: socket for requests; client: connection of the request that is being served; -1: none.
 * received: [n_received] bytes of the request so far. ranks: as many as are wanted; drains: [n] 1:
 * this process is to leave. */
typedef struct {
    int listener, client;
    change_phase phase;
    char received[PST_LAUNCH_REQUEST];
    uint32_t n_received, ranks;
    uint8_t drains[PST_ELASTIC_RANKS];
} launch_change;

/* Too few processes are left: one is to save the last state; it does. */
typedef enum { SAVE_NOT, SAVE_WANTED, SAVE_BEGUN } save_phase;

/* Of an elastic job. page: shared with the processes (descriptor fd); launcher.page is the
 * heartbeat page of the current epoch. alive: [n]; lost: [n] 1: has died since the last
 * announcement; lost_ns: when the first of these was lost; 0: none. freed: 1: the memory of ended
 * processes is free, in this epoch. */
typedef struct {
    const pst_launch_elastic *job;
    pst_elastic_page *page;
    int fd, freed;
    save_phase saves;
    uint32_t save_tries;
    launch_change change;
    uint8_t alive[PST_ELASTIC_RANKS], lost[PST_ELASTIC_RANKS];
    uint64_t lost_ns;
    int stopped; /* the signal after which a rank of a job of one rank has saved */
    /* the least number of fences that a rank of the epoch has reached, and since when others wait
     */
    uint32_t late_epoch;
    uint64_t late_fence, late_ns;
} launch_elastic;

typedef struct {
    /* number of ranks on this host; number of those still running; first of these ranks in the
     * job. Of an elastic job with several hosts n counts all processes, first is 0, and only
     * [own_from, own_to) are started here; else these are [0, n) */
    uint32_t n, live, first, own_from, own_to;
    char host[64];
    char *const *argv;
    uint64_t grace_ns;
    rank_process *rank;         /* [n] */
    pst_server *server;         /* NULL if the job has several hosts */
    pst_launch_host_job *hosts; /* NULL: all ranks are on this host */
    launch_elastic *elastic;    /* NULL: the job ends when a rank fails */
    pst_heartbeat_page *page;
    int page_fd, null_fd;
    pst_launch_signals signals;
    /* interrupts counts SIGINT, SIGTERM and SIGQUIT; last_signal may also be SIGHUP */
    int interrupts, last_signal;
    uint64_t interrupted_ns; /* time of the last of these signals */
    /* 1: the ranks are stopped, together with those of other hosts (Ctrl-Z) */
    int suspended;
    int control_ended;
    int any_killed;     /* 1: some rank was killed by a signal */
    int any_left_early; /* 1: some rank exited with status 0 before its heartbeat was open */
    /* time from which ranks may be late to start; 0: a late rank was named already, or none can be
     * late */
    uint64_t began_ns;
    int ending; /* 1: some rank failed; the others have to exit until kill_ns */
    uint64_t kill_ns;
    certainty blame;
    uint32_t culprit;
    char what[320]; /* what happened to rank `culprit`, not printed yet; "": nothing to print */
    int exit_status;
} launcher;

/* launch_print.c. Print one line to stderr, in one write: to the user; host_report: to the starting
 * launcher only. */
void pst_launch_print(const char *format, ...) PST_PRINTF(1, 2);
void pst_launch_host_report(const char *format, ...) PST_PRINTF(1, 2);
#define PST_LAUNCH_MARK "\001penstock "

/* launch_blame.c. `rank` counts from 0 on this host. */
/* Records a failure of a rank; what: NULL: the rank has printed the reason itself. */
void pst_launch_blame(launcher *l, certainty how_sure, uint32_t rank, int exit_status,
                      const char *what);
/* Prints which rank caused the failure, once another rank has reported where that rank was;
 * at_last: 1: also without such a report. */
void pst_launch_print_culprit(launcher *l, int at_last);
void pst_launch_begin_end(launcher *l);
void pst_launch_read_verdict(launcher *l);
void pst_launch_decide_blame(launcher *l);

/* launch_signals.c. Signals go to the process group of each rank, so that its children get them
 * too. */
void pst_launch_signal_ranks(launcher *l, int signal);
void pst_launch_kill_ranks(launcher *l, uint64_t now);
void pst_launch_interrupt(launcher *l, int signal);
void pst_launch_read_signals(launcher *l);
/* Stops the ranks, or continues them, while the launcher itself runs. */
void pst_launch_suspend(launcher *l, int stop);

/* launch_start.c: starts the process of a rank, or of a slot. */
pst_status pst_launch_start(launcher *l, uint32_t rank);
/* launch.c: the ranks of this host; hosts may be NULL. */
pst_status pst_launch_ranks(uint32_t n, pst_launch_host_job *hosts, char *const argv[],
                            uint32_t grace_ms, pst_launch_end *end);

/* launch_elastic_host.c: an elastic job's launcher of one host among several. open: makes the page,
 * and gives its memory out (elastic_hosts.h); line: " elastic HOST HOSTS DATA TENSOR
 * RANKS,RANKS,...", index and number of hosts, pst_elastic_copies, and ranks_of. add: a line "host
 * INDEX FIRST N ADDRESS PORT MEMORY_PORT NAME" with a host of the job. is_wanted: 1: this launcher
 * goes on although no process of it lives, because others may read the memory of those that have
 * died. report: tells the starting launcher which processes are lost. obey: 1: the line was one of
 * such a job. watch: signs of life. */
pst_status pst_launch_elastic_host_open(pst_launch_host_job *job, const char *line,
                                        char memory_port[8]);
pst_status pst_launch_elastic_host_add(pst_launch_host_job *job, const char *line);
int pst_launch_elastic_host_is_wanted(const launcher *l);
int pst_launch_elastic_host_obey(launcher *l, const char *line);
/* SIGTERM to this launcher alone, as before an eviction of the host: asks the starting launcher,
 * which answers that its ranks are to leave at the end of their step, and it stays until the others
 * have read their state; or that the run is to stop, because other hosts leave as well. 0: the job
 * cannot go on without them, or this is no such job. */
int pst_launch_elastic_host_drain(launcher *l);
int pst_launch_elastic_host_watch(launcher *l);

/* launch_elastic.c. open: creates the job's pages; lose: 1: the job can go on without this rank,
 * which has died, or left by itself (left), or at least save its last state; kill: kills a rank
 * that is stopped or hangs, if the job can go on without it (else 0); watch: kills ranks that
 * others accuse, and announces the next epoch when ranks have died. */
pst_status pst_launch_elastic_open(launcher *l);
void pst_launch_elastic_close(launcher *l);
/* Starts another process in a slot; it waits until it gets a rank. */
pst_status pst_launch_elastic_start(launcher *l, uint32_t slot);
/* 1: a process has ended that had no rank, and was told to leave or was not ready for one. */
int pst_launch_elastic_left(launcher *l, uint32_t process);
/* Announces the next epoch, of the processes that stay ([n]); 0: failed. */
int pst_launch_elastic_change(launcher *l, const uint8_t *stays);
int pst_launch_elastic_lose(launcher *l, uint32_t rank, int left, const char *what);
int pst_launch_elastic_kill(launcher *l, uint32_t rank, const char *what);
void pst_launch_elastic_watch(launcher *l);
/* Announces the next epoch: alive: [n] as in pst_elastic_announce. 0: too few live. */
int pst_launch_elastic_announce(launcher *l, const uint8_t *alive, uint64_t lost_ns);
/* The next epoch is only for the process `saver`, which saves the state; the others leave. alive:
 * processes that lived. */
void pst_launch_elastic_save(launcher *l, uint32_t saver, uint32_t alive);
/* 0: a process of an elastic job that has no rank now. */
int pst_launch_elastic_has_rank(const launcher *l, uint32_t process);
/* A hung rank that others accuse: 1: it is killed, and the job goes on. */
int pst_launch_elastic_accuse(launcher *l, uint32_t rank, const char *verdict);
/* 1: all ranks of the job have finished: however a process ends now, nothing is lost. */
int pst_launch_elastic_done(const launcher *l);

/* launch_change.c: changes of the ranks on request. fds: adds what to poll, returns how many (at
 * most PST_LAUNCH_CHANGE_FDS); watch: reads the request, and does what can be done of it now;
 * close: the job has ended. */
enum { PST_LAUNCH_CHANGE_FDS = 2 };
struct pollfd;
uint32_t pst_launch_change_fds(const launcher *l, struct pollfd *fds);
void pst_launch_change_watch(launcher *l);
void pst_launch_change_close(launcher *l);

/* launch_control.c: handles the lines that have arrived on the control pipe. */
void pst_launch_host_read(launcher *l);
/* The starting launcher has ended or does not answer: ends the ranks. */
void pst_launch_host_cut(launcher *l);
/* Waits for a complete line. EPEER, without an error message: the starting launcher has ended, or
 * ends the job because of another host and prints the reason. */
pst_status pst_launch_host_wait(pst_launch_host_job *job, char line[PST_LAUNCH_LINE]);
#endif
