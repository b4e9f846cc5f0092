/* A rehearsal: the instruction lists run in real time, their messages over a real transport, on the
 * `timed` device, which computes nothing. What the executor and the transport cost is the
 * difference to the simulated makespan. */
#ifndef PST_COMMANDS_REHEARSE_H
#define PST_COMMANDS_REHEARSE_H
#include "base/world.h"
#include "pipeline/compile/job.h"

typedef struct {
    uint32_t n_round;
    /* [n_round] ascending: from the first rank's start to the last one's end */
    uint64_t *makespan_ns;
    uint64_t most_bytes; /* of a message */
    double cores;        /* processor time of all ranks / sum of makespans */
} pst_rehearsal;

/* Collective over the ranks of the world (of one host: they share a clock); with transport `self`,
 * all ranks run in this process. One round more than asked for is run, and the first is not
 * counted. The world stays the caller's. Rank 0's result is everybody's; free it with
 * pst_rehearsal_close. EPEER when a rank died meanwhile. */
pst_status pst_rehearse(pst_world *world, const char *transport, const pst_job *job,
                        const pst_cut *cut, uint32_t n_round, pst_rehearsal *out);
void pst_rehearsal_close(pst_rehearsal *r);
#endif
