/* Walking a job to its end, as far as it comes: which SEND belongs to which RECV, when everything
 * starts and ends, and, when it stops short, the cycle of waiting. For simulate.c, check.c,
 * timeline.c and trace_flow.c only. */
#ifndef PST_PIPELINE_SIMULATE_WALK_H
#define PST_PIPELINE_SIMULATE_WALK_H
#include "pipeline/simulate/links.h"
#include "pipeline/simulate/simulate.h"

typedef struct {
    const pst_job *job; /* borrowed */
    uint32_t **partner; /* [n_rank][n_instr] index of the other end on rank instr.peer; PST_NONE */
    /* [n_rank][n_instr]; end is PST_NEVER where it was not reached; start too, until issued */
    pst_span **span;
    uint32_t *at[PST_Q_COUNT]; /* [n_rank] first instruction of the queue that has not been issued;
                                  n_instr at the end */
    uint64_t *last[PST_Q_COUNT]; /* [n_rank] compute: end of the one before; SEND, RECV: when the
                                    one before issued */
    uint64_t left;               /* instructions not yet ended */
    uint64_t now;                /* nothing before it is left to do */
    uint64_t *next; /* when each rank can issue something, as a tournament: [1] is the first of all,
                       [n_leaf + r] rank r's */
    uint32_t n_leaf;
    pst_links links;
} pst_walk;

/* Finds partners. Two messages with the same (source, destination, channel, seq) are EINPUT; a
 * lonely one is not. */
pst_status pst_walk_open(const pst_job *job, pst_walk **walk);
void pst_walk_close(pst_walk *walk);
/* EINPUT when it cannot reach the end; the message prints the cycle. ENOMEM. Linear in instructions
 * and deps, times the logarithm of the ranks. */
pst_status pst_walk_run(pst_walk *walk);
#endif
