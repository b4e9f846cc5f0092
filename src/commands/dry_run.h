/* A dry run: the instruction lists run in real time with messages over a real transport, on the
 * device `timed`, which computes nothing. The measured makespan minus the simulated one is the cost
 * of executor and transport. */
#ifndef PST_COMMANDS_DRY_RUN_H
#define PST_COMMANDS_DRY_RUN_H
#include "base/world.h"
#include "pipeline/compile/job.h"

typedef struct {
    uint32_t n_round;
    /* [n_round] nanoseconds from the start of the first rank to the end of the last one, in
     * ascending order */
    uint64_t *makespan_ns;
    uint64_t most_bytes; /* bytes of the largest message */
    double cores;        /* CPU time of all ranks / sum of makespans */
} pst_dry_run;

/* Collective over the ranks of the world, which share a host and its clock; with transport `self`,
 * all ranks run in this process. Runs n_round + 1 rounds and ignores the first one. The caller
 * keeps the world. All ranks get rank 0's result; free it with pst_dry_run_close. EPEER if a rank
 * died. */
pst_status pst_dry_run_measure(pst_world *world, const char *transport, const pst_job *job,
                               const pst_cut *cut, uint32_t n_round, pst_dry_run *out);
void pst_dry_run_close(pst_dry_run *r);
#endif
