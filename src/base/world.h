/* The table of worlds: who the ranks of a job are, and how they exchange small values before any
 * transport exists. */
#ifndef PST_BASE_WORLD_H
#define PST_BASE_WORLD_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_world pst_world;
typedef struct {
    const char *name;
    const char *(*reject)(void); /* returns NULL if this process is in such a world, else the reason
                                  */
    pst_status (*open)(pst_world **world);
    /* Publishes a value for all ranks; visible after the next fence. */
    pst_status (*put)(pst_world *w, const char *key, const void *value, size_t bytes);
    /* Reads a value that `rank` put before the last fence; *value is malloc'ed, the caller frees
     * it. */
    pst_status (*get)(pst_world *w, uint32_t rank, const char *key, void **value, size_t *bytes);
    pst_status (*fence)(pst_world *w); /* blocks until all ranks have called fence */
    /* May be NULL. EPEER: a rank on another host has ended or has aborted the job (for ranks on
     * this host: comm/watch/heartbeat.h). Takes no noticeable time. */
    pst_status (*check)(pst_world *w);
    void (*abort)(pst_world *w, int exit_status, const char *why); /* ends the job, through the
                                                                      launcher or through `check` of
                                                                      the other ranks; may return */
    void (*close)(pst_world *w); /* does not wait for a rank that has died */
} pst_world_ops;

/* First member of the structure of each world. */
struct pst_world {
    const pst_world_ops *ops;
    uint32_t rank, size, local_rank, local_size;
    uint32_t sharing, processors; /* ranks that share processors with this one, including itself,
                                     and the processors that they have together; 0: unknown */
    uint32_t host_processors; /* the processors of all ranks of this host together; 0: unknown */
    char host[64], job[64];   /* host of this rank; a name unique to the job */
    int launched_by_us;       /* the launcher of penstock started and watches this process */
    /* Of an elastic job (comm/world/elastic.h): the file of heartbeat pages, of which `epoch` is
     * this world's; its lines, and this process's line; lines 0: the page has a line for each rank
     * of this host. */
    int heartbeat_fd;
    uint32_t epoch, lines, line;
    /* memory that the ranks of this host have already and will overwrite: the files with their
     * state; bytes */
    uint64_t held;
    uint32_t verdicts; /* statuses that ranks have agreed on in this world, for unique keys */
};
#endif
