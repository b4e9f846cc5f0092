/* The state of an executor. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#include "pipeline/execute/executor.h"

typedef struct {
    uint32_t instr;
    uint64_t request, issued_ns;
} pst_executor_pending;

/* On an asynchronous device: n launched operators from `step` on that share an event. first,
 * last: whether they include the first, the last operator of their instruction; nothing: an
 * instruction without operators, which only keeps its place in the order. */
typedef struct {
    uint64_t event;
    uint32_t instr, step, n;
    uint8_t first, last, nothing;
} pst_executor_launched;
/* AHEAD: fewer than a device's events; STRETCH: the most operators that share an event. */
enum { PST_EXECUTOR_AHEAD = 256, PST_EXECUTOR_STRETCH = 32 };

typedef struct pst_executor_captures pst_executor_captures;

struct pst_executor {
    pst_executor_config config;
    pst_position *at, unwatched; /* the published position; used if config has none */
    int is_timed;                /* 1: the transport knows when a transfer started */
    const pst_job *job;
    const pst_cut *cut;
    const pst_instr_list *list;
    pst_instr_list head; /* the leading instructions of `list`, for pst_executor_start_head (gathers
                            updated weights) */
    uint64_t origin;
    /* first sequence numbers of this run's and of the next run's messages */
    uint32_t seq_base, seq_next;
    uint32_t n_left; /* instructions that have not completed */
    /* Per queue: its next instruction, and how many of that one's dependencies are known to be
     * done. */
    uint32_t cursor[PST_Q_COUNT], dep_seen[PST_Q_COUNT];
    uint64_t after_ns[PST_Q_COUNT]; /* latest end of these dependencies */
    uint8_t *done;                  /* [n_instr] */
    pst_span *span;                 /* [n_instr] since origin */
    pst_executor_pending *pending;  /* [n_instr] */
    uint32_t n_pending, cap;
    /* The compute queue: while `launched`, operator `step` of instruction cursor[COMPUTE] runs. */
    uint32_t step;
    uint64_t steps_ns; /* predicted time of the instruction's operators up to this one */
    /* exchanging: an exchange of the tensor group runs, not an operator on the device */
    int launched, exchanging;
    /* start of the instruction's first operator; end of the queue's last one */
    uint64_t event, start_ns, end_ns;
    /* [PST_EXECUTOR_AHEAD] a ring of launches; NULL: the device does not run ahead, and at most
     * one is launched */
    pst_executor_launched *ahead;
    uint32_t n_retired, n_queued; /* launches that have ended; that were started */
    /* operators in flight; the latest operators, which have no event yet */
    uint32_t n_running, n_eventless;
    int times; /* 1: every operator has an event */
    /* 1: nothing is launched after an exchange before that has ended; 1: the latest launch was an
     * exchange */
    int wait_for_exchanges, behind_exchange;
    pst_executor_captures *captures; /* NULL: the device captures nothing */
    /* operators of the current instruction before this one are launched one by one */
    uint32_t plain;
    int in_transfers;  /* prevents poll inside poll */
    uint32_t mismatch; /* see pst_executor_mismatch */
    pst_status failed;
    char why[512];
};
#endif
