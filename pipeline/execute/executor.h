/* The executor: a non-blocking state machine that runs one rank's instruction list. Calls return
 * between operators, so that one thread can drive many ranks over the `self` transport. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_H
#include "base/device.h"
#include "base/position.h"
#include "base/transport.h"
#include "pipeline/memory/map.h"
#include "pipeline/simulate/simulate.h"

typedef struct pst_executor pst_executor;
enum { PST_EXECUTOR_WORDS = PST_MAX_ARG + 2 };

/* Callbacks for everything that depends on kernels or memory. */
typedef struct {
    void *arg;
    /* Sets the function *fn and the arguments *call of one operator of a program. They must stay
     * valid until the operator has completed. If the entries of *fn are NULL, nothing is computed
     * (timed device). */
    pst_status (*step)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro,
                       pst_launch_fn *fn, const void **call);
    /* Likewise for REDUCE, NORM, GATHER and STEP. */
    pst_status (*flush)(void *arg, const pst_instr *instr, pst_launch_fn *fn, const void **call);
    /* Returns the memory that a SEND reads or a RECV writes. */
    void *(*memory)(void *arg, const pst_instr *instr);
    /* `exchange` starts an operator that is an exchange among tensor ranks, or (step NULL) a REDUCE
     * without a parameter. Then `exchanged` is called until it does not return BUSY. NULL: the
     * device launches exchanges like other operators (on the timed device they take the predicted
     * time on all ranks of the group). */
    pst_status (*exchange)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
    pst_status (*exchanged)(void *arg);
    /* Not NULL: STEP begins with an exchange among tensor ranks, which this starts; it has ended
     * when `exchanged` no longer returns BUSY. */
    pst_status (*step_exchange)(void *arg);
    /* Nonzero, on an asynchronous device: exchanges are queued to the device like other operators;
     * `exchange` is only called for a REDUCE without a parameter. */
    int queues_exchanges;
    /* On an asynchronous device: called when an operator has ended on the device, with start and
     * end in ns. May be NULL. */
    void (*ended)(void *arg, const pst_step *step, uint32_t micro, uint64_t start_ns,
                  uint64_t end_ns);
    /* Called after `step` with the arguments that it has set, to decide whether the launch can be
     * part of a captured graph (CUDA graph). Returns 0 if not; else the number of words that
     * identify the launch: launches with the same words are equal except for *sample, which is
     * equal for all operators of an instruction. NULL: no launches are captured. */
    uint32_t (*captures)(void *arg, const void *call, uint64_t words[PST_EXECUTOR_WORDS],
                         uint64_t *sample);
} pst_executor_hooks;

typedef struct {
    uint32_t rank;
    pst_device *device;
    pst_transport *transport;
    const pst_clock *clock; /* NULL: the monotonic clock */
    pst_executor_hooks hooks;
    /* For an asynchronous device. *times is not 0: each operator has an event, and `ended` is
     * called; 0: only instructions have events, which is less work for the device. Read when a list
     * is started. NULL: like a nonzero value. */
    const int *times;
    /* Not 0: nothing is launched after an exchange until the exchange has ended, because the host
     * may have to wait for the device during the exchange. Read when a list is started. NULL: like
     * 0. */
    const int *wait_for_exchanges;
    /* the last instruction (packed opcode, chunk, micro-batch), for the heartbeat page; may be
     * NULL */
    volatile uint64_t *last_instr;
    /* position that the executor publishes: what it runs and what it waits for; may be NULL */
    pst_position *position;
} pst_executor_config;

/* Creates an executor. The caller frees *x with pst_executor_close. ENOMEM. */
pst_status pst_executor_open(const pst_executor_config *config, pst_executor **x);
void pst_executor_close(pst_executor *x);
/* Starts the instruction list of this rank. Sequence numbers of messages continue from the previous
 * list. job and cut are borrowed until the list is finished. */
pst_status pst_executor_start(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* Starts only the head of the list, which gathers updated weights. */
pst_status pst_executor_start_head(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* Does what is possible without blocking: launches at most one operator (more on an asynchronous
 * device), and posts and completes transfers. OK: the list is finished. BUSY: it is not; *moved is
 * increased by the number of events. Any other status is a failure: pst_error() names the
 * instruction, and the caller must abort the transport. */
pst_status pst_executor_progress(pst_executor *x, uint32_t *moved);
/* Only posts and completes transfers. May be called from the poll callback of the device during a
 * launch. The next pst_executor_progress returns a failure. */
void pst_executor_poll(pst_executor *x);
/* Returns the time of the earliest known future event, in ns of the clock; PST_NEVER: unknown. */
uint64_t pst_executor_next_ns(const pst_executor *x);
/* Returns the measured start and end of every instruction of the last list, in ns since *origin,
 * the time of pst_executor_start. A transfer starts when this rank posts it (on the timed
 * transport, when both ranks have posted it). Valid until the next start. */
const pst_span *pst_executor_spans(const pst_executor *x, uint64_t *origin);
/* Formats what the executor runs or waits for, such as "rank 1 F c1 m3 after rank 1 RECV c1 m3 <-
 * rank 0 channel 4", into buffer[0..bytes). Returns `buffer`. */
const char *pst_executor_where(const pst_executor *x, char *buffer, uint32_t bytes);

/* Publishes in the position for which posted transfer this rank waits. Call it while nothing
 * computes. */
void pst_executor_publish_wait(pst_executor *x);
/* Returns the instruction of the transfer that failed because its ends have different sizes;
 * PST_NONE: there was none. */
uint32_t pst_executor_mismatch(const pst_executor *x);

/* Runs n executors of this process to the end of their lists, round robin. After a round without
 * progress, the function moves the virtual clock to the earliest event, or sleeps until a transport
 * wakes it (at most 20 ms). A thousand such rounds without a running operator, a future event or a
 * transport that could wake the thread are a deadlock: EINTERNAL, with what each rank waits for.
 * virtual_clock: the clock of the executors if it is virtual, else NULL. idle: called between
 * rounds (heartbeat, signals), may be NULL; if it returns a status other than OK, the function
 * returns this status. */
pst_status pst_executor_drive(pst_executor *const *x, uint32_t n, pst_clock *virtual_clock,
                              pst_status (*idle)(void *), void *idle_arg);
#endif
