/* The state of an executor. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STATE_H
#include "pipeline/execute/serve.h"

/* A posted transfer: the instruction, the transport's request handle, and the time of the post in
 * ns. */
typedef struct {
    uint32_t instr;
    uint64_t request, issued_ns;
} pst_executor_pending;

/* On an asynchronous device: n launched operators, from `step` on, that share an event. first,
 * last: 1 if they include the first or the last operator of the instruction. nothing: 1 for an
 * instruction without operators, which is in the ring only to keep the order. */
typedef struct {
    uint64_t event;
    uint32_t instr, step, n;
    uint8_t first, last, nothing;
} pst_executor_launched;
/* AHEAD: maximum number of launches in flight, less than the number of events of a device. STRETCH:
 * maximum number of operators that share an event. */
enum { PST_EXECUTOR_AHEAD = 256, PST_EXECUTOR_STRETCH = 32 };

typedef struct pst_executor_captures pst_executor_captures;

struct pst_executor {
    pst_executor_config config;
    /* at: the published position; unwatched: storage for it if config.position is NULL */
    pst_position *at, unwatched;
    int is_timed; /* 1: the transport reports when a transfer started */
    const pst_job *job;
    const pst_cut *cut;
    const pst_instr_list *list;
    pst_instr_list head; /* the first n_head instructions of `list`, for pst_executor_start_head */
    uint64_t origin;     /* clock at the start of the list, ns */
    /* first sequence number of the messages of this list, and of the next list */
    uint32_t seq_base, seq_next;
    uint32_t n_left; /* instructions that have not completed */
    /* Per queue: the next instruction, and how many of its dependencies are known to be
     * complete. */
    uint32_t cursor[PST_Q_COUNT], dep_seen[PST_Q_COUNT];
    uint64_t after_ns[PST_Q_COUNT]; /* per queue: latest end of these dependencies, ns */
    uint8_t *done;                  /* [n_instr] 1: the instruction has completed */
    pst_span *span;                 /* [n_instr] ns since origin */
    pst_executor_pending *pending;  /* [n_instr] */
    uint32_t n_pending, cap;
    /* The compute queue: while `launched` is 1, operator `step` of instruction
     * cursor[PST_Q_COMPUTE] runs. */
    uint32_t step;
    uint64_t steps_ns; /* predicted time of the operators of the instruction before `step` */
    /* launched: 1 while an operator runs; exchanging: 1 if that is an exchange of the tensor group
     * by the host */
    int launched, exchanging;
    /* event of the operator; start of the instruction's first operator; end of the last operator of
     * the queue */
    uint64_t event, start_ns, end_ns;
    /* [PST_EXECUTOR_AHEAD] ring of launches on an asynchronous device; NULL: synchronous device, at
     * most one launch at a time */
    pst_executor_launched *ahead;
    uint32_t n_retired, n_queued; /* number of launches that have ended, and that were started */
    /* number of operators in flight; number of the latest of them without an event */
    uint32_t n_running, n_eventless;
    int times; /* 1: every operator has an event */
    /* wait_for_exchanges 1: see pst_executor_config; behind_exchange 1: the latest launch was an
     * exchange */
    int wait_for_exchanges, behind_exchange;
    pst_executor_captures *captures; /* NULL: the device does not capture graphs */
    /* the operators of the current instruction before this one are launched one by one */
    uint32_t plain;
    /* The SIDE queue: 1 while its instruction at the cursor runs; on the timed device its end, or
     * that of the one before; on an asynchronous device its event */
    int adds;
    uint64_t side_end_ns, side_event;
    /* a server with asynchronous updates, while its list runs; else NULL */
    pst_serving *serving;
    int is_virtual;    /* 1: the device is the timed one */
    int in_transfers;  /* 1: transfers are being polled; prevents recursive polls */
    uint32_t mismatch; /* see pst_executor_mismatch */
    pst_status failed; /* failure inside a poll, which the next progress returns */
    char why[512];     /* message of this failure */
};
#endif
