/* The state of an elastic run in a process, shared by elastic.c and elastic_epochs.c, private to
 * them. */
#ifndef PST_RUN_ELASTIC_PARTS_H
#define PST_RUN_ELASTIC_PARTS_H
#include "comm/world/elastic_hosts.h"
#include "run/elastic.h"
#include <sched.h>

struct pst_elastic {
    pst_elastic_page *page;
    uint32_t process, epoch;
    const pst_config *given; /* the configuration of the first epoch; borrowed */
    int leaves, stays;       /* SIGTERM in this epoch: this process may leave; may not */
    int has_departed;        /* 1: this process has left the epoch for a change of the ranks */
    cpu_set_t processors;    /* of this process when it started: each epoch binds it anew */
    /* the state that this epoch begins with; source 0: none */
    uint64_t source;
    uint32_t source_epoch;
    uint64_t number; /* of the last state that this process has completed */
    /* Where the sides of the state are in this epoch: side 0 in memory file first_file, side 1 in
     * the other one; at: bytes before them; described: 1: these bytes say what is in the file. */
    uint32_t first_file;
    uint64_t at[2];
    int described[2];
    uint64_t commits, committed_ns; /* states completed in this epoch, and how long that took */
    /* For predictions. In this epoch: when it was prepared; from then to the first step, without
     * what depends on the size of the state, and the time of the latter. */
    uint64_t prepared_ns, rest_ns, moved_ns, steps;
    double predicted_s;
    int reports; /* 1: the recovery is not reported yet */
    /* several hosts, else all 0: the state of the epoch; connections to other hosts; steps that are
     * repeated because no state was complete */
    pst_elastic_found found;
    pst_ckpt *ckpt;                    /* the state, while it is open */
    uint32_t order[PST_ELASTIC_RANKS]; /* the ranks of the files that are read, in this order */
    pst_elastic_memory memory;
    uint64_t repeated;
    uint64_t moved_bytes;   /* of the state: the most that the ranks of a host read from others */
    uint32_t trained_epoch; /* the last one in which this process has completed a step */
};

/* Of the state e->source of the ranks of e->source_epoch (several hosts: e->found): what goes with
 * it; and writes it as a checkpoint to `folder`. config: the text of run.yaml. */
void pst_elastic_state_info(const pst_elastic *e, pst_ckpt_info *info);
pst_status pst_elastic_write_state(pst_elastic *e, const char *folder, const char *config,
                                   const pst_graph *graph);
#endif
