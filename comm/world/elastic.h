/* Elastic jobs: local ranks that go on when one of them dies. The launcher and its processes share
 * a page (a memfd), on which the launcher announces epochs: which processes are the ranks from then
 * on. A world of an epoch ends when the next epoch is announced. Each process also has two memory
 * files, which outlive it and in which its part of the run's state lies; every process can read all
 * of them.
 *
 * The launcher's process writes the page from one thread, a rank from its training thread. */
#ifndef PST_COMM_WORLD_ELASTIC_H
#define PST_COMM_WORLD_ELASTIC_H
#include "base/world.h"
#include <stdatomic.h>

/* FILES: memory files of a process: one holds the newest complete state while the other is
 * written; and states that are remembered: number n is entry n % FILES. NOTE: bytes that go with a
 * state. */
enum {
    PST_ELASTIC_RANKS = 64,
    PST_ELASTIC_EPOCHS = PST_ELASTIC_RANKS + 1,
    PST_ELASTIC_FILES = 2,
    PST_ELASTIC_NOTE = 4096,
    PST_ELASTIC_FOLDER = 768
};
/* Bytes of the values that a rank publishes in the world of one epoch; only written pages take
 * memory. */
#define PST_ELASTIC_REGION (UINT64_C(4) << 20)

/* Exit status of a process that leaves a job which goes on: 128 + SIGTERM. */
enum { PST_ELASTIC_LEFT = 143 };

/* How a job ends: DONE: all ranks have finished, and no rank is missed any more; ENDING: the
 * launcher ends the job because of a failure. */
typedef enum { PST_ELASTIC_RUNS, PST_ELASTIC_DONE, PST_ELASTIC_ENDING } pst_elastic_end;

/* The ranks of an epoch. process: [n_rank] the process of each rank; alive: processes that lived
 * when it was announced, those without a rank included; lost: [n_lost] ranks of the last
 * epoch in which a step was completed that have died since; lost_ns: monotonic clock of the first
 * loss since a step was trained. */
typedef struct {
    uint32_t n_rank, alive, n_lost;
    uint32_t process[PST_ELASTIC_RANKS], lost[PST_ELASTIC_RANKS];
    uint64_t lost_ns;
    _Atomic uint64_t fence[PST_ELASTIC_RANKS]; /* fences that each rank has reached */
    _Atomic uint32_t leaving;                  /* processes that leave this epoch by themselves */
    /* the state that the epoch begins with, which its rank 0 finds; source 0: none */
    uint64_t source;
    uint32_t source_epoch;
} pst_elastic_members;

/* A state that a process has completed. number: 0: there is none; else states of a job have
 * consecutive numbers from 1. file: the memory file with its part. */
typedef struct {
    _Atomic uint64_t number;
    uint32_t epoch, file;
    uint8_t note[PST_ELASTIC_NOTE];
} pst_elastic_state;

/* The hosts of a job that a host file describes. All have pages of their own, on which each host's
 * launcher announces the same epochs; of processes of other hosts a page has no states. */
enum { PST_ELASTIC_HOSTS = 64, PST_ELASTIC_HOST_NAME = 64 };
typedef struct {
    uint32_t first, n; /* its processes */
    /* where rank 0 of an epoch listens if it is here, and where the launcher gives memory files and
     * states out (elastic_hosts.h) */
    char name[PST_ELASTIC_HOST_NAME], address[64], port[8], memory_port[8];
    _Atomic uint32_t lost_in; /* the epoch that began when the host was lost; 0: it is not lost */
} pst_elastic_host;
typedef struct {
    uint32_t n, own;      /* n 0: all processes are on one host; own: index of this host */
    int listener;         /* socket that rank 0 of an epoch inherits */
    uint64_t bytes_per_s; /* between hosts, as last measured; 0: not yet */
    char secret[64];
    pst_elastic_host host[PST_ELASTIC_HOSTS];
} pst_elastic_hosts;

typedef struct {
    uint32_t n;             /* processes */
    _Atomic uint32_t epoch; /* the last one announced */
    _Atomic uint32_t end;   /* pst_elastic_end */
    /* ranks of the epoch when so many processes live; 0: the job ends */
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1];
    uint64_t began_ns; /* monotonic clock when the job began */
    /* 1: the launcher has forwarded a signal to stop: it is meant for all ranks */
    _Atomic uint32_t is_stopping;
    /* Descriptors, the same in all processes: heartbeat pages of the epochs, one line per process;
     * values that ranks exchange in worlds; memory files. */
    int heartbeat_fd[PST_ELASTIC_EPOCHS], store_fd;
    int state_fd[PST_ELASTIC_RANKS][PST_ELASTIC_FILES];
    pst_elastic_members member[PST_ELASTIC_EPOCHS];
    pst_elastic_state state[PST_ELASTIC_RANKS][PST_ELASTIC_FILES];
    _Atomic uint32_t has_folder;     /* 1: `folder` is complete */
    char folder[PST_ELASTIC_FOLDER]; /* of the run, once it exists */
    pst_elastic_hosts hosts;
} pst_elastic_page;

/* The launcher's side. open: ranks_of: [n + 1] as above, ranks_of[n] is n; the processes inherit
 * every descriptor up to the last one (pst_elastic_inherit, in the child after fork; makes system
 * calls only). Heartbeat pages are opened by the caller. EINPUT: more than PST_ELASTIC_RANKS. */
pst_status pst_elastic_open(uint32_t n, const uint32_t *ranks_of, int *fd, pst_elastic_page **page);
void pst_elastic_inherit(const pst_elastic_page *page, int fd);
void pst_elastic_close(pst_elastic_page *page, int fd);
/* Announces the next epoch, of the lowest living processes. alive: [n]. lost_ns: when the first of
 * those that have died since the last announcement did. Returns 0 if too few live: nothing changes.
 */
int pst_elastic_announce(pst_elastic_page *page, const uint8_t *alive, uint64_t lost_ns);
/* The rank of a process in the last epoch; UINT32_MAX: it has none. */
uint32_t pst_elastic_rank(const pst_elastic_page *page, uint32_t epoch, uint32_t process);

/* The processes' side. Maps the page that the launcher passed in PENSTOCK_ELASTIC_FD; NULL in
 * *page: this process is no rank of an elastic job. *process: its number. */
pst_status pst_elastic_map(pst_elastic_page **page, uint32_t *process);
/* Opens the world of an epoch in which this process has a rank, when all of its ranks have arrived.
 * EPEER: a later epoch was announced, or the job ends. */
pst_status pst_elastic_world(pst_elastic_page *page, uint32_t epoch, uint32_t process,
                             pst_world **world);
/* The epoch and number of the newest state that all ranks of its epoch have completed; 0: there is
 * none. A process without a rank may still write its part of a newer one, so one rank decides. */
int pst_elastic_newest(pst_elastic_page *page, uint32_t *epoch, uint64_t *number);
#endif
