/* What each rank reports after a step. */
#ifndef PST_RANK_REPORT_H
#define PST_RANK_REPORT_H
#include "base/opcode.h"
#include "rank/work.h"
#include <stdint.h>

/* How far a rank is with the checkpoint under way. */
typedef enum { PST_SAVE_NOTHING, PST_SAVE_BUSY, PST_SAVE_DONE, PST_SAVE_FAILED } pst_save_state;

/* What each rank reports after a step; gathered to all. */
typedef struct {
    uint64_t origin_ns, busy_ns, span_ns, flush_ns, wall_ns;
    uint64_t op_ns[PST_OP_COUNT]; /* mean duration of this rank's instructions by opcode */
    uint64_t peak_bytes;          /* highest byte of the arena that was ever written, + 1 */
    /* anonymous and shared memory of the rank's process (all ranks' with self) */
    uint64_t resident_bytes;
    /* the most that was ever resident of it, files of libraries included */
    uint64_t most_resident_bytes;
    pst_work work;        /* time by kind of work, */
    uint64_t works;       /* where it was measured: else 0 */
    uint64_t requests;    /* of this rank, by signals: PST_STOP_ (stop.h) */
    uint64_t saving;      /* pst_save_state */
    uint64_t rolled_back; /* post-validation: its STEP was wrong */
} pst_report;
#endif
