/* Internals of the launcher of several hosts: launch_hosts.c starts and watches the hosts'
 * launchers; launch_hosts_elastic.c decides how an elastic job goes on without processes or hosts.
 */
#ifndef PST_COMM_LAUNCH_LAUNCH_HOSTS_PARTS_H
#define PST_COMM_LAUNCH_LAUNCH_HOSTS_PARTS_H
#include "comm/launch/launch_parts.h"

/* How certain it is that a host is the culprit. FAILED: it has named the failed rank itself. */
typedef enum { FINE, FOLLOWED, LOST, FAILED } host_end;

typedef struct {
    const pst_host *host;
    uint32_t first, n;
    pid_t pid; /* 0: the process has ended */
    /* when the process ended, while its standard error is still open; PST_NEVER: not ended, or
     * closed */
    uint64_t ended_ns;
    int in, err; /* -1: closed */
    int ready, wait_status;
    /* the signal after which the host's ranks saved and exited; the signal that ended them without
     * saving; 0: none */
    int stopped, killed_by;
    char port[8], memory_port[8]; /* memory_port: of an elastic job */
    /* of an elastic job: last sign of life; the last epoch in which its ranks have completed a
     * state; 1: it was told to leave */
    uint64_t heard_ns;
    uint32_t has_epoch;
    int drains;
    char line[4096]; /* an incomplete line from the host's standard error */
    size_t used;
    /* why the first of the host's ranks left the job; "": no report */
    char followed[PAGE_VERDICT + 64];
} host_process;

/* Of an elastic job. alive: [size] processes; is_lost: [n] hosts; lost_ns: when the first loss
 * since the last epoch was; 0: none; done: 1: all ranks have finished; saves: 1: too few processes
 * are left, and one saves the state. first_apart_ns: when a host
 * first reported that it does not reach host apart_from, that of rank 0; apart: [n] 1: it does not.
 */
typedef struct {
    const uint32_t *ranks_of; /* [size + 1] as in comm/world/elastic.h */
    pst_elastic_copies copies;
    uint8_t alive[PST_ELASTIC_RANKS], is_lost[PST_ELASTIC_HOSTS];
    uint32_t epoch;
    uint64_t lost_ns, beat_ns, first_apart_ns;
    uint8_t apart[PST_ELASTIC_HOSTS];
    uint32_t apart_from;
    int done, saves;
} hosts_elastic;

typedef struct {
    uint32_t n, size, n_ready, live;
    host_process *host; /* [n] */
    pst_launch_signals signals;
    const pst_hosts *file;
    char secret[33];
    int running, interrupts, last_signal, late_named;
    int stopped; /* of any host */
    uint64_t interrupted_ns, began_ns;
    uint32_t wait_s;
    uint64_t close_ns, kill_ns; /* PST_NEVER: not set yet */
    host_end end;
    uint32_t culprit;
    hosts_elastic *elastic; /* NULL: the job ends when a rank or host fails */
} hosts_job;

/* launch_hosts_blame.c. send: a line to a host's launcher. end: the hosts have this long to leave,
 * unless they have less already. blame: the job ends because of this host, unless another one is
 * more certainly the culprit. how: how a host was lost that has ended, or not answered; returns
 * how. */
#define PST_LAUNCH_CLOSE_NS UINT64_C(5000000000)
void pst_launch_hosts_send(host_process *h, const char *text);
void pst_launch_hosts_end(hosts_job *j, uint64_t grace_ns);
void pst_launch_hosts_blame(hosts_job *j, host_end how, uint32_t host);
enum { PST_LAUNCH_HOW = 128 };
const char *pst_launch_hosts_how(const hosts_job *j, const host_process *h,
                                 char how[PST_LAUNCH_HOW]);
/* A host that is lost, and how, as text. Returns out. */
enum { PST_LAUNCH_LOST = 1024 };
const char *pst_launch_hosts_lost(const hosts_job *j, const host_process *h, const char *how,
                                  char out[PST_LAUNCH_LOST]);

/* launch_hosts_elastic.c; without an elastic job these do nothing, or return 0. secret: the first
 * line for a host; tell: the hosts of the job, before ranks start; obey: 1: the report was one of
 * such a job; lose: 1: the job goes on without this host, of which `how` says how it was
 * lost, and lost_ns when;
 * ended: a host's launcher has ended as it should; watch: signs of life, and announcements. */
pst_status pst_hosts_elastic_check(const hosts_job *j);
void pst_hosts_elastic_secret(const hosts_job *j, uint32_t host, char *text, size_t bytes);
void pst_hosts_elastic_tell(hosts_job *j);
int pst_hosts_elastic_obey(hosts_job *j, host_process *h, const char *text);
int pst_hosts_elastic_lose(hosts_job *j, uint32_t host, const char *how, uint64_t lost_ns);
void pst_hosts_elastic_ended(hosts_job *j, uint32_t host);
void pst_hosts_elastic_watch(hosts_job *j);
#endif
