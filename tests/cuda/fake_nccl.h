/* NCCL among ranks of this process: communicators of two, whose halves meet in the order in which
 * they are queued. */
#ifndef PST_TESTS_CUDA_FAKE_NCCL_H
#define PST_TESTS_CUDA_FAKE_NCCL_H

typedef struct {
    int live;   /* communicators that were made and not given up */
    int slow;   /* that often NCCL answers "in progress" before it has done what it was asked for */
    int unlike; /* halves that met and had different sizes, or were both of one kind */
    int deaf;   /* what is finalized is never through */
    int aborted; /* communicators that were given up instead of destroyed behind their finalizing */
    int holds;   /* halves that meet stay under way */
    int dies;    /* all communicators have lost their other end, from now on */
    int fails_at; /* > 0: that message kills its communicator instead of moving */
} fake_nccl_state;
extern fake_nccl_state fake_nccl;
#endif
