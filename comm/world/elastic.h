/* Elastic jobs: local ranks that go on when one of them dies, and whose number can be changed. The
 * launcher and its processes share a page (a memfd), on which the launcher announces epochs: which
 * processes are the ranks from then on. A world of an epoch ends when the next epoch is announced.
 * The page has a slot for each process that can live at the same time. Each slot also has two
 * memory files, which outlive its process and in which its part of the run's state lies; every
 * process can read all of them. A process is known by its slot; when it has ended, another one can
 * be started in the slot.
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
    PST_ELASTIC_EPOCHS = 4096,
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

/* How a change of the ranks went: from: ranks before; seconds: how long training stood still;
 * step: steps that were done before. */
typedef struct {
    uint32_t from;
    uint64_t step;
    double seconds, predicted_s;
} pst_elastic_changed;

/* The ranks of an epoch. process: [n_rank] the process of each rank; alive: processes that lived
 * when it was announced, those without a rank included; lost: [n_lost] ranks of the last
 * epoch in which a step was completed that have died since; lost_ns: monotonic clock of the first
 * loss since a step was trained, and when training stopped for the change with which the epoch
 * begins. is_change: 1: all ranks have left the epoch before at the end of a step. is_save: 1: the
 * run cannot go on, and its only rank saves the last state. */
typedef struct {
    uint32_t n_rank, alive, n_lost, is_change, is_save;
    uint32_t process[PST_ELASTIC_RANKS], lost[PST_ELASTIC_RANKS];
    uint64_t lost_ns;
    /* ranks that have left the epoch for a change, and when the first of them did */
    _Atomic uint32_t departed;
    _Atomic uint64_t departed_ns;
    _Atomic uint32_t has_changed; /* 1: the epoch's first step begins; `changed` is complete */
    pst_elastic_changed changed;
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
/* Which ranks hold the same state: those of `data` replicas with the same stage and tensor rank (of
 * `tensor`), in the order of ranks of pst_grid. data 1: each rank holds what no other does. */
typedef struct {
    uint32_t data, tensor;
} pst_elastic_copies;
typedef struct {
    uint32_t n, own; /* n 0: all processes are on one host; own: index of this host */
    int listener;    /* socket that rank 0 of an epoch inherits */
    /* data more than 1: processes become ranks in an order in which the replicas of a stage are on
     * different hosts, as far as these have as many processes */
    pst_elastic_copies copies;
    _Atomic uint64_t bytes_per_s; /* from another host, measured at the start; 0: not yet */
    char secret[64];
    pst_elastic_host host[PST_ELASTIC_HOSTS];
} pst_elastic_hosts;

/* What recoveries and changes took so far, for predictions; written by rank 0. rest_ns: the set-up
 * of an epoch without the state; ns_per_byte: of the state; step_ns: the last steps, of a layout
 * for which step_predicted_ns were predicted. */
typedef struct {
    uint64_t rest_ns, step_predicted_ns;
    double ns_per_byte, step_ns;
} pst_elastic_times;

typedef struct {
    uint32_t n;             /* slots */
    _Atomic uint32_t epoch; /* the last one announced */
    _Atomic uint32_t end;   /* pst_elastic_end */
    /* ranks of the epoch when so many processes live, for 0 to known processes; 0: the job ends.
     * target: no epoch has more ranks */
    uint32_t ranks_of[PST_ELASTIC_RANKS + 1], known, target;
    /* 1: the ranks leave the epoch at the end of their step, for a change */
    _Atomic uint32_t changes;
    /* Of each slot. first: the first epoch of its process; waits: 1: it is ready for a rank;
     * leaves: 1: without a rank it is to end. */
    uint32_t first[PST_ELASTIC_RANKS];
    _Atomic uint32_t waits[PST_ELASTIC_RANKS], leaves[PST_ELASTIC_RANKS];
    /* what all processes must have in common; 0: not known yet */
    _Atomic uint64_t identity;
    pst_elastic_times times;
    uint64_t began_ns; /* monotonic clock when the job began */
    /* 1: the launcher has forwarded a signal to stop: it is meant for all ranks */
    _Atomic uint32_t is_stopping;
    /* Descriptors, the same in all processes: heartbeat pages of the epochs, one line per slot;
     * values that ranks exchange in worlds; an eventfd that wakes the launcher; memory files. */
    int heartbeat_fd, store_fd, wake_fd;
    int state_fd[PST_ELASTIC_RANKS][PST_ELASTIC_FILES];
    pst_elastic_members member[PST_ELASTIC_EPOCHS];
    pst_elastic_state state[PST_ELASTIC_RANKS][PST_ELASTIC_FILES];
    _Atomic uint32_t has_folder;     /* 1: `folder` is complete */
    char folder[PST_ELASTIC_FOLDER]; /* of the run, once it exists */
    pst_elastic_hosts hosts;
} pst_elastic_page;

/* With what a job begins: processes in the lowest slots, of which the first `ranks` are ranks.
 * ranks_of: [ranks + 1] as above; ranks_of[ranks] is `ranks`. */
typedef struct {
    uint32_t slots, processes, ranks;
    const uint32_t *ranks_of;
} pst_elastic_start;

/* The launcher's side. open: the processes inherit every descriptor (pst_elastic_inherit, in the
 * child after fork; makes system calls only). The first heartbeat page is added by the caller.
 * EINPUT: more slots than PST_ELASTIC_RANKS. */
pst_status pst_elastic_open(const pst_elastic_start *start, int *fd, pst_elastic_page **page);
void pst_elastic_inherit(const pst_elastic_page *page, int fd);
void pst_elastic_close(pst_elastic_page *page, int fd);
/* Ranks that a job can have with so many living processes; 0: it ends. */
uint32_t pst_elastic_ranks(const pst_elastic_page *page, uint32_t living);
/* Announces the next epoch, of the lowest living processes. alive: [n]. lost_ns: when the first of
 * those that have died since the last announcement did. Returns 0 if too few live: nothing changes.
 */
int pst_elastic_announce(pst_elastic_page *page, const uint8_t *alive, uint64_t lost_ns);
/* The same when all ranks have left the epoch for a change (1: they have). stays: [n]: 1: may get a
 * rank. */
int pst_elastic_all_departed(const pst_elastic_page *page);
int pst_elastic_change(pst_elastic_page *page, const uint8_t *stays);
/* The same when too few are left: one process saves the state. alive: how many lived. */
void pst_elastic_save(pst_elastic_page *page, uint32_t process, uint32_t alive);
/* 1: all ranks of the last epoch have completed a state in it, so nobody reads an earlier one. */
int pst_elastic_has_state(pst_elastic_page *page);
/* Frees the memory of a slot whose process has ended, and whose state nobody reads any more. */
void pst_elastic_free_slot(const pst_elastic_page *page, uint32_t slot);
/* Chooses the processes of an epoch's n_rank ranks among the living (alive: [n]), and their order
 * (pst_elastic_hosts.copies); else they stay as they are. Only for the first epoch, before the
 * processes start; pst_elastic_announce does it for the others. */
void pst_elastic_spread(const pst_elastic_page *page, const uint8_t *alive, pst_elastic_members *m);
/* The rank of a process in the last epoch; UINT32_MAX: it has none. */
uint32_t pst_elastic_rank(const pst_elastic_page *page, uint32_t epoch, uint32_t process);

/* The processes' side. wake: the launcher looks at the page. */
void pst_elastic_wake(const pst_elastic_page *page);
/* Maps the page that the launcher passed in PENSTOCK_ELASTIC_FD; NULL in
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
