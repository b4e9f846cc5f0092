/* Private to executor.c, executor_look.c and drive.c. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_PARTS_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_PARTS_H
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

typedef struct pst_executor_run pst_executor_run;
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
    uint64_t steps_ns;        /* by the cut, of its steps before and with this one */
    int launched, exchanging; /* exchanging: what is launched is a step of the tensor group, not of
                                 the device */
    uint64_t event, start_ns, end_ns; /* start: of the instruction's first step; end: of the queue's
                                         last */
    pst_executor_launched *ahead; /* [PST_EXECUTOR_AHEAD] a ring, NULL where the device does not run
                                     ahead: then at */
    uint32_t n_retired, n_queued; /* most one is launched; so many have ended, and been launched */
    uint32_t n_flying, n_silent; /* steps of these that have not ended; latest ones without an event
                                    as yet */
    int times;                   /* each has one */
    pst_executor_captures *captures; /* NULL: the device captures nothing */
    uint32_t plain;   /* steps of the instruction at hand before this one are launched one by one */
    int in_transfers; /* guards against poll inside poll */
    uint32_t mismatch; /* see pst_executor_mismatch */
    pst_status failed;
    char why[512];
};

/* executor_ahead.c: as much as can be done now on a device that runs ahead; *at: the instruction
 * that has failed. */
pst_status pst_executor_run_ahead(pst_executor *x, uint32_t *moved, uint32_t *at);
/* Of executor.c, for that. The next instruction of a queue from `from` on is at its cursor; an
 * instruction is done; how many steps it has; its step x->step is launched (on a device that runs
 * ahead perhaps without an event), or its exchange begun; asks for that; puts an operator's name in
 * front. */
void pst_executor_say(pst_executor *x, pst_activity activity);
void pst_executor_seek(pst_executor *x, pst_queue queue, uint32_t from);
void pst_executor_complete(pst_executor *x, uint32_t at, uint64_t start, uint64_t end);
uint32_t pst_executor_steps(const pst_executor *x, const pst_instr *instr);
pst_status pst_executor_launch(pst_executor *x, const pst_instr *instr, int with_event);
pst_status pst_executor_exchanged(pst_executor *x, uint64_t *start, uint64_t *end);
/* executor_capture.c. Opens x->captures where launches are to be captured. The steps from x->step
 * on that are captured, NULL: none are, and the next one is launched as any other; how many;
 * launches them. */
pst_status pst_executor_captures_open(pst_executor *x);
void pst_executor_captures_close(pst_executor *x);
const pst_executor_run *pst_executor_find_run(pst_executor *x, const pst_instr *instr,
                                              uint32_t n_step);
uint32_t pst_executor_run_steps(const pst_executor_run *run);
pst_status pst_executor_launch_run(pst_executor *x, const pst_executor_run *run, int with_event);
pst_status pst_executor_fail_step(const pst_executor *x, const pst_step *step, pst_status status);

int pst_executor_finished(const pst_executor *x);
/* 1 while an operator is launched and has not ended. */
int pst_executor_computes(const pst_executor *x);
/* NULL when the list is finished. */
pst_transport *pst_executor_transport(const pst_executor *x);
/* Ranks of the job that it runs. */
uint32_t pst_executor_ranks(const pst_executor *x);
#endif
