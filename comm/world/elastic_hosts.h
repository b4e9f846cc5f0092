/* Elastic jobs on several hosts: the world of an epoch, in which ranks of several hosts meet over
 * TCP; and the memory of a host (its processes' memory files and its page), which its launcher
 * gives out to ranks of other hosts, also when the processes have died. */
#ifndef PST_COMM_WORLD_ELASTIC_HOSTS_H
#define PST_COMM_WORLD_ELASTIC_HOSTS_H
#include "comm/world/elastic.h"

/* As pst_elastic_world, for several hosts. like: a world with the members that do not depend on the
 * other ranks. EPEER: a later epoch was announced, the job ends, or a rank did not arrive. */
pst_status pst_elastic_meet(pst_elastic_page *page, uint32_t epoch, const pst_world *like,
                            pst_world **world);
/* Other hosts are waited for as long as this epoch lasts; pst_elastic_meet does it, too. */
void pst_elastic_enter(pst_elastic_page *page, uint32_t epoch);
/* The host of a process; 0 if all are on one host. */
uint32_t pst_elastic_host_of(const pst_elastic_page *page, uint32_t process);
/* 1: the process is on this host, so that its memory files can be read here. */
int pst_elastic_is_here(const pst_elastic_page *page, uint32_t process);

/* The page itself, in place of a process, for pst_elastic_fetch. */
#define PST_ELASTIC_PAGE UINT32_MAX
/* What of a host's memory: a file of a process, or its page; and the bytes. */
typedef struct {
    uint32_t process, file;
    uint64_t from, bytes;
} pst_elastic_range;
/* A rank's connections to the launchers of other hosts; all 0: none is open. */
typedef struct {
    pst_elastic_page *page;
    uint64_t limit_ns;         /* of a connection and of an answer; 0: as long as the epoch lasts */
    int fd[PST_ELASTIC_HOSTS]; /* 1 + descriptor; 0: not connected */
    uint64_t bytes, ns;        /* received so far, and how long that took */
} pst_elastic_memory;
/* Reads a range of the memory of another host. EPEER: the host is lost, or a later epoch was
 * announced. One thread. */
pst_status pst_elastic_fetch(pst_elastic_memory *m, uint32_t host, const pst_elastic_range *range,
                             void *out);
void pst_elastic_memory_close(pst_elastic_memory *m);

/* The launcher's side: a thread that reads from the host of rank 0 every PST_ELASTIC_PING_MS, as
 * long as the process lives. Connections between launchers may use another network than ranks. */
enum { PST_ELASTIC_PING_MS = 500 };
pst_status pst_elastic_ping(pst_elastic_page *page);
/* Nanoseconds since the host of rank 0 has last answered; *host: that host. 0 on that host. */
uint64_t pst_elastic_silence(const pst_elastic_page *page, uint32_t *host);

/* What rank 0 of an epoch finds in the memory of all hosts. source 0: no state is complete.
 * file: [ranks of source_epoch] the memory file with the part of each; UINT32_MAX: it is lost, but
 * another rank has the same. note: of the state; last_note (if has_last): of the newest of which a
 * part is left. folder (if has_folder): of the run. */
typedef struct {
    uint64_t source;
    uint32_t source_epoch, file[PST_ELASTIC_RANKS], has_folder, has_last;
    char folder[PST_ELASTIC_FOLDER];
    uint8_t note[PST_ELASTIC_NOTE], last_note[PST_ELASTIC_NOTE];
} pst_elastic_found;
/* find: rank 0 alone. agree: the same on all ranks, and notes the folder on the page; collective.
 * EPEER: a later epoch was announced. */
pst_status pst_elastic_find(pst_elastic_memory *m, pst_elastic_found *found);
pst_status pst_elastic_agree(pst_elastic_memory *m, pst_world *world, pst_elastic_found *found);

/* The launcher's side: gives the memory of its host out to every process that knows the job's
 * secret, from threads that end with the process. fd: of the page. *port: where. ENOMEM. */
pst_status pst_elastic_memory_serve(pst_elastic_page *page, int fd, const char *address,
                                    char port[8]);
#endif
