/* The device of far_module.c: what it queues, and to what. */
#ifndef TESTS_FAR_FAR_PARTS_H
#define TESTS_FAR_FAR_PARTS_H
#include "far/far_choices.h"
#include "far/far_direct.h"
#include "far/far_f8.h"
#include "kernels/kernel.h"
#include <pthread.h>

enum { FAR_EVENTS = 8192, FAR_PREPARED = 4096 };

typedef struct far far;
typedef struct job job;
struct job {
    job *next;
    pst_status (*run)(far *d, job *j);
    uint64_t event;
    void *to;
    const void *from;
    uint64_t bytes; /* or elements */
    int value;      /* of a fill; the row of a kernel; a type */
    pst_call call;
    void *arg[PST_MAX_ARG];
    pst_optim_kind kind;
    pst_optim_hyper hyper;
    pst_status (*other)(void *arg);
    void *other_arg;
    pst_arith_param *param;
    pst_flat_pack packs;
    const float **x;
    uint32_t n_x;
    uint64_t *n;
};

typedef struct {
    far *device;
    pthread_t thread;
    pthread_cond_t filled;
    job *first, **last;
} queue;

struct far {
    pst_far_memory m;
    pst_device *cpu; /* computes */
    void *staging[8];
    uint32_t n_staging, n_prepared;
    const pst_node *prepared[FAR_PREPARED];
    far_choices choices;
    far_f8 f8;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    queue queue[PST_Q_COUNT];
    pst_queue now; /* of the launch that is being queued: COMPUTE or SIDE */
    int capturing;
    job *noted, **last_noted; /* of the capture under way */
    struct captured *captured;
    /* begun: what was launched since the latest event has this one ahead of it */
    int closing, begun;
    uint64_t next_event, ahead;
    struct {
        uint64_t start_ns, end_ns;
        int state; /* 0: not yet, 1: has happened, 2: the device had failed */
    } event[FAR_EVENTS];
    pst_status failed;
    char why[512];
};

/* What the device's threads use in place of an address. */
static inline void *far_real(const far *d, const void *at) { return pst_far_real(&d->m, at); }

/* A job that runs this on one of the device's threads; far_put queues it, and then owns it. */
job *far_job(pst_status (*run)(far *d, job *j));
void far_put(far *d, pst_queue where, job *j);

/* The CPU's arithmetic, queued (far_arith.c). */
extern const pst_arith far_arith;
#endif
