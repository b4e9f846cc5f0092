/* The executor: a non-blocking state machine that runs one rank's instruction list. It yields
 * between operators; a single thread can drive many ranks over the `self` transport. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_H
#include "base/device.h"
#include "base/position.h"
#include "base/transport.h"
#include "pipeline/memory/map.h"
#include "pipeline/simulate/simulate.h"

typedef struct pst_executor pst_executor;
enum { PST_EXECUTOR_WORDS = PST_MAX_ARG + 2 };

/* Called back for everything that depends on kernels or memory. Operators and the flush are called
 * with the device. */
typedef struct {
    void *arg;
    /* Sets *fn and *call, the arguments of one operator of a program, valid until it has completed.
     * If the entries of *fn are NULL nothing is computed (timed device). */
    pst_status (*step)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro,
                       pst_launch_fn *fn, const void **call);
    /* The same for REDUCE, NORM, GATHER, STEP. */
    pst_status (*flush)(void *arg, const pst_instr *instr, pst_launch_fn *fn, const void **call);
    /* The memory of a SEND or RECV. */
    void *(*memory)(void *arg, const pst_instr *instr);
    /* Starts an operator with `exchange`, or (step NULL) a REDUCE without a parameter; then
     * `exchanged` is polled until it is no longer BUSY. NULL: the device launches it like others
     * (the timed device: it takes the predicted time on all ranks of the group). */
    pst_status (*exchange)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
    pst_status (*exchanged)(void *arg);
    /* Nonzero, on an asynchronous device: operators with `exchange` are queued to the device like
     * others; only a REDUCE without a parameter uses `exchange`. */
    int queues_exchanges;
    /* On an asynchronous device: called when an operator has ended there, with its times. May be
     * NULL. */
    void (*ended)(void *arg, const pst_step *step, uint32_t micro, uint64_t start_ns,
                  uint64_t end_ns);
    /* For the arguments that `step` has just set. 0: the launch must not be captured; else the
     * number of words that identify it: launches with the same words are equal except for *sample,
     * which is the same for all operators of an instruction. NULL: nothing is captured. */
    uint32_t (*captures)(void *arg, const void *call, uint64_t words[PST_EXECUTOR_WORDS],
                         uint64_t *sample);
} pst_executor_hooks;

typedef struct {
    uint32_t rank;
    pst_device *device;
    pst_transport *transport;
    const pst_clock *clock; /* NULL: monotonic */
    pst_executor_hooks hooks;
    /* On an asynchronous device. Nonzero: each operator has an event, and `ended` is called; else
     * only an instruction has one, which is less work for the device. Read when a list is started;
     * NULL: not 0. */
    const int *times;
    /* Read likewise. Not 0: nothing is launched after an exchange before it has ended, because the
     * host may have to wait for the device in it. NULL: 0. */
    const int *wait_for_exchanges;
    /* for the heartbeat page: packed opcode, chunk, micro-batch; may be NULL */
    volatile uint64_t *last_instr;
    /* where the executor publishes what it does and waits for; may be NULL */
    pst_position *position;
} pst_executor_config;

pst_status pst_executor_open(const pst_executor_config *config, pst_executor **x);
void pst_executor_close(pst_executor *x);
/* Starts the job's list of this rank; message sequence numbers continue from the last run. */
pst_status pst_executor_start(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* Runs only the head of that list: updated weights are gathered. */
pst_status pst_executor_start_head(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* Does what is possible now without blocking: one operator at most, or more if the device runs
 * ahead. OK: the list is finished. BUSY: not yet; *moved counts what happened. Other: a failure,
 * whose message names the instruction; the caller has to abort the transport. */
pst_status pst_executor_progress(pst_executor *x, uint32_t *moved);
/* Posts and completes transfers only; may be called from the device's poll, inside a launch. A
 * failure is reported by the next pst_executor_progress. */
void pst_executor_poll(pst_executor *x);
/* Time of the earliest known future event; PST_NEVER: unknown. */
uint64_t pst_executor_next_ns(const pst_executor *x);
/* Measured start and end of every instruction of the last run, in ns since *origin, the clock at
 * pst_executor_start. A transfer starts when this rank posts it (on the timed transport, when both
 * ends have). */
const pst_span *pst_executor_spans(const pst_executor *x, uint64_t *origin);
/* What the executor does or waits for: "rank 1 F c1 m3 after rank 1 RECV c1 m3 <- rank 0 channel
 * 4". Returns buffer. */
const char *pst_executor_where(const pst_executor *x, char *buffer, uint32_t bytes);

/* While nothing computes: publishes in the position which posted transfer this rank waits for. */
void pst_executor_publish_wait(pst_executor *x);
/* The transfer whose two ends had different sizes; PST_NONE: there was none. */
uint32_t pst_executor_mismatch(const pst_executor *x);

/* Drives n executors of this process to the end of their lists, round robin. When a round moves
 * nothing, it jumps the virtual clock to the earliest event, or sleeps until a transport wakes it
 * (at most 20 ms). A thousand idle rounds without a running operator, a future event or a transport
 * that could wake it are a deadlock: EINTERNAL with what each rank waits for. virtual_clock: the
 * executors' clock if it is virtual, else NULL. idle (may be NULL) is called between rounds
 * (heartbeat, signals); a status other than OK ends the drive. */
pst_status pst_executor_drive(pst_executor *const *x, uint32_t n, pst_clock *virtual_clock,
                              pst_status (*idle)(void *), void *idle_arg);
#endif
