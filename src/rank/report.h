/* What each rank reports after a step. */
#ifndef PST_RANK_REPORT_H
#define PST_RANK_REPORT_H
#include "base/opcode.h"
#include "rank/work.h"
#include <stdint.h>

/* State of this rank's part of the checkpoint that is being written. */
typedef enum { PST_SAVE_NOTHING, PST_SAVE_BUSY, PST_SAVE_DONE, PST_SAVE_FAILED } pst_save_state;

/* What each rank reports after a step; gathered to all ranks. */
typedef struct {
    uint64_t origin_ns, busy_ns, span_ns, flush_ns, wall_ns;
    /* of this rank's micro-batches: as in pst_loss_sums; 0: the graph has no such losses */
    double sample_losses, hits;
    uint64_t target_bytes;        /* text of the targets of the replica's samples; 0: unknown */
    uint64_t data_wait_ns;        /* how long the step of this process waited for its samples */
    uint64_t op_ns[PST_OP_COUNT]; /* mean duration (ns) of this rank's instructions by opcode */
    /* number of bytes up to the highest byte of the arena that was ever written */
    uint64_t peak_bytes;
    /* anonymous and shared resident memory of the rank's process (with transport `self`: of all
     * ranks) */
    uint64_t resident_bytes;
    /* peak resident memory of the process, including library files */
    uint64_t peak_resident_bytes;
    pst_work work;     /* time in kernels by kind of work; valid if `works` is 1 */
    uint64_t works;    /* 1: `work` was measured */
    uint64_t requests; /* signals that this rank has received: PST_STOP_ bits (stop.h) */
    uint64_t saving;   /* pst_save_state */
    /* sum of the token losses, norm and number of targets: of the step, with islands of the
     * island */
    double loss_sum, grad_norm;
    uint64_t targets;
    uint64_t rolled_back; /* post-validation: STEP was rolled back */
} pst_report;
#endif
