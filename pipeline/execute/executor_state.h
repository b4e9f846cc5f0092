/* The state of an executor. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#include "pipeline/execute/executor.h"

typedef struct {
    uint32_t instr;
    uint64_t request, issued_ns;
} pst_executor_pending;

/* On a device that runs ahead: n steps from `step` on that are launched, with one event. first,
 * last: they are so of their instruction; nothing: of a program without steps, it only has its
 * place in the order. */
typedef struct {
    uint64_t event;
    uint32_t instr, step, n;
    uint8_t first, last, nothing;
} pst_executor_launched;
/* AHEAD: fewer than the events that a device knows; STRETCH: steps that have an event together at
 * most. */
enum { PST_EXECUTOR_AHEAD = 256, PST_EXECUTOR_STRETCH = 32 };

typedef struct pst_executor_captures pst_executor_captures;

struct pst_executor {
    pst_executor_config config;
    pst_position *at, unwatched; /* what it says; where to say it when nobody asks */
    int is_timed;                /* the transport knows when a transfer began */
    const pst_job *job;
    const pst_cut *cut;
    const pst_instr_list *list;
    pst_instr_list head; /* what list is while the head alone runs */
    uint64_t origin;
    uint32_t seq_base, seq_next; /* of this run's messages and of the next run's */
    uint32_t n_left;             /* instructions that have not completed */
    /* Per queue: the next instruction of that queue, and how many of its deps are known to be
     * done. */
    uint32_t cursor[PST_Q_COUNT], dep_seen[PST_Q_COUNT];
    uint64_t after_ns[PST_Q_COUNT]; /* latest end of the deps seen */
    uint8_t *done;                  /* [n_instr] */
    pst_span *span;                 /* [n_instr] since origin */
    pst_executor_pending *pending;  /* [n_instr] */
    uint32_t n_pending, cap;
    /* The compute queue: step `step` of instruction cursor[COMPUTE] runs while `launched`. */
    uint32_t step;
    uint64_t steps_ns; /* by the cut, of its steps before and with this one */
    /* exchanging: what is launched is a step of the tensor group, not of the device */
    int launched, exchanging;
    /* start: of the instruction's first step; end: of the queue's last */
    uint64_t event, start_ns, end_ns;
    pst_executor_launched *ahead; /* [PST_EXECUTOR_AHEAD] a ring, NULL where the device does not run
                                     ahead: then at */
    uint32_t n_retired, n_queued; /* most one is launched; so many have ended, and been launched */
    /* steps of these that have not ended; latest ones without an event as yet */
    uint32_t n_flying, n_silent;
    int times; /* each has one */
    /* nothing is launched behind an exchange that has not ended; the latest launch was one */
    int careful, behind_exchange;
    pst_executor_captures *captures; /* NULL: the device captures nothing */
    uint32_t plain;   /* steps of the instruction at hand before this one are launched one by one */
    int in_transfers; /* guards against poll inside poll */
    uint32_t mismatch; /* see pst_executor_mismatch */
    pst_status failed;
    char why[512];
};
#endif
