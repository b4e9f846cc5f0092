/* Walks through a job as far as possible: which SEND belongs to which RECV, when everything starts
 * and ends and, if it stops early, the cycle of waits. Only for simulate.c, check.c, timeline.c and
 * trace_flow.c. */
#ifndef PST_PIPELINE_SIMULATE_WALK_H
#define PST_PIPELINE_SIMULATE_WALK_H
#include "pipeline/simulate/links.h"
#include "pipeline/simulate/simulate.h"

typedef struct {
    const pst_job *job; /* borrowed */
    uint32_t **partner; /* [n_rank][n_instr] index of the other end on rank instr.peer; PST_NONE */
    /* [n_rank][n_instr]; end is PST_NEVER if it was not reached; start too, until issued */
    pst_span **span;
    /* [n_rank] the queue's first instruction that is not issued; n_instr at the end */
    uint32_t *at[PST_Q_COUNT];
    /* [n_rank] compute: end of the previous one; SEND, RECV: when the previous one was issued */
    uint64_t *last[PST_Q_COUNT];
    uint64_t left; /* instructions not yet ended */
    uint64_t now;  /* no instruction before this time is left */
    /* when each rank can issue something, as a tournament tree: [1] is the earliest, [n_leaf +
     * r] rank r's */
    uint64_t *next;
    uint32_t n_leaf;
    pst_links links;
} pst_walk;

/* Finds partners. Two messages with the same (source, destination, channel, seq) are EINPUT; a
 * message without partner is not. */
pst_status pst_walk_open(const pst_job *job, pst_walk **walk);
void pst_walk_close(pst_walk *walk);
/* EINPUT: it cannot reach the end; the message prints the cycle. ENOMEM. Linear in instructions and
 * dependencies, times the logarithm of the ranks. */
pst_status pst_walk_run(pst_walk *walk);
#endif
