/* NCCL among ranks of this process. A communicator's groups take turns on each rank, as they stand
 * in its stream: a group begins when the one before it is through, and each of its halves moves
 * when its other half has begun as well. So ranks that queue in orders which do not fit each other
 * wait for ever, as they would on GPUs. */
#ifndef PST_TESTS_CUDA_FAKE_NCCL_H
#define PST_TESTS_CUDA_FAKE_NCCL_H
#include <stdint.h>

typedef struct {
    int live;   /* communicators that were made and not given up */
    int slow;   /* that often NCCL answers "in progress" before it has done what it was asked for */
    int unlike; /* halves that met and had different sizes, streams that changed, calls in a wrong
                   place */
    int deaf;   /* what is finalized is never through */
    int aborted; /* communicators that were given up instead of destroyed behind their finalizing */
    int holds;   /* halves that meet stay under way */
    int dies;    /* all communicators have lost their other ends, from now on */
    int fails_at;  /* > 0: that half of a message kills its communicator instead of moving */
    int most_ctas; /* that a communicator may occupy */
    int groups, in_groups; /* that were queued, and the halves in them */
    int sums;              /* that were added up */
    uint64_t takes;        /* bytes of the device for each rank that is connected with */
} fake_nccl_state;
extern fake_nccl_state fake_nccl;
void fake_nccl_reset(void);
/* Groups that have begun or wait to, on all ranks. */
int fake_nccl_waiting(void);
#endif
