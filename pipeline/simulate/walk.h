/* Executes the instruction lists of a job in virtual time: matches SENDs and RECVs, computes the
 * start and end of all instructions, and finds the cycle of waits in a deadlock. Only for
 * simulate.c, check.c, timeline.c and trace_flow.c. */
#ifndef PST_PIPELINE_SIMULATE_WALK_H
#define PST_PIPELINE_SIMULATE_WALK_H
#include "pipeline/simulate/links.h"
#include "pipeline/simulate/simulate.h"

typedef struct {
    const pst_job *job; /* borrowed */
    /* [n_rank][n_instr] index of the matching SEND or RECV in the list of rank instr.peer;
     * PST_NONE: there is none */
    uint32_t **partner;
    /* [n_rank][n_instr] PST_NEVER as `end`: not ended; as `start`: not issued */
    pst_span **span;
    /* per queue, [n_rank]: first instruction of the queue that is not issued; n_instr: all are
     * issued */
    uint32_t *at[PST_Q_COUNT];
    /* per queue, [n_rank]: for compute, end of the previous instruction; for SEND and RECV, time at
     * which the previous one was issued */
    uint64_t *last[PST_Q_COUNT];
    uint64_t left; /* number of instructions that have not ended */
    uint64_t now;  /* virtual time: everything before it is done */
    /* tournament tree over the times at which ranks can issue an instruction: [1] is the earliest
     * time, [n_leaf + r] that of rank r */
    uint64_t *next;
    uint32_t n_leaf;
    pst_links links;
} pst_walk;

/* Matches SENDs and RECVs. The caller frees *walk with pst_walk_close. EINPUT: two messages have
 * the same (source, destination, channel, seq). An unmatched message is no error here. ENOMEM. */
pst_status pst_walk_open(const pst_job *job, pst_walk **walk);
void pst_walk_close(pst_walk *walk);
/* Runs all lists to the end. EINPUT: a deadlock; pst_error() prints the cycle of waits. ENOMEM. The
 * running time grows with (instructions + dependencies) x log(ranks). */
pst_status pst_walk_run(pst_walk *walk);
#endif
