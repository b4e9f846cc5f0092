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

/* What the steps and the flush do is supplied from above (the executor knows no kernel). Called
 * with the device. */
typedef struct {
    void *arg;
    /* Fills *fn and returns the argument block for one step of a program, alive until the step has
     * completed. NULL fn table entries (all NULL): nothing is computed, for the timed device. */
    pst_status (*step)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro,
                       pst_launch_fn *fn, const void **call);
    /* REDUCE, NORM, GATHER, STEP likewise. */
    pst_status (*flush)(void *arg, const pst_instr *instr, pst_launch_fn *fn, const void **call);
    /* Memory of a SEND or RECV. */
    void *(*memory)(void *arg, const pst_instr *instr);
    /* A step with `exchange`, or, with step NULL, a REDUCE without a parameter, is started with the
     * first, then asked for with the second until it is no longer BUSY. NULL: the device launches
     * it as any other (the timed one: it takes the predicted time on all ranks of the group). */
    pst_status (*exchange)(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
    pst_status (*exchanged)(void *arg);
    /* Not 0, on a device that runs ahead: it launches a step with `exchange` as any other after
     * all, and only a REDUCE without a parameter is started. */
    int queues_exchanges;
    /* On a device that runs ahead: when a step has begun and ended there. May be NULL. */
    void (*ended)(void *arg, const pst_step *step, uint32_t micro, uint64_t start_ns,
                  uint64_t end_ns);
    /* Of the block that `step` has just given: 0 where the launch is not to be captured; else how
     * many words tell it from others: launches with the same words are the same but for *sample,
     * which all steps of an instruction have alike. NULL: nothing is captured. */
    uint32_t (*captures)(void *arg, const void *call, uint64_t words[PST_EXECUTOR_WORDS],
                         uint64_t *sample);
} pst_executor_hooks;

typedef struct {
    uint32_t rank;
    pst_device *device;
    pst_transport *transport;
    const pst_clock *clock; /* NULL: monotonic */
    pst_executor_hooks hooks;
    /* On a device that runs ahead: not 0 where each step's end is asked for, and `ended` told; else
     * an instruction's is, which leaves the device less to do. Looked at when a list is started;
     * NULL: not 0. */
    const int *times;
    /* Likewise: not 0 where nothing is launched behind an exchange before it has ended, for the
     * host may have to wait for the device in there. NULL: 0. */
    const int *careful;
    /* for the heartbeat page: packed opcode, chunk, micro; may be NULL */
    volatile uint64_t *last_instr;
    pst_position *position; /* where it says what it does and waits for; may be NULL */
} pst_executor_config;

pst_status pst_executor_open(const pst_executor_config *config, pst_executor **x);
void pst_executor_close(pst_executor *x);
/* Starts the job's list of this rank; message sequence numbers go on from the last run's. */
pst_status pst_executor_start(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* The head of that list alone: weights come to where they belong. */
pst_status pst_executor_start_head(pst_executor *x, const pst_job *job, const pst_cut *cut);
/* Does whatever can be done now without blocking, one operator at most where the device does not
 * run ahead. OK: the list is finished. BUSY: not yet; *moved says whether anything happened. Other:
 * a failure, whose message says in which instruction; the transport must be aborted. */
pst_status pst_executor_progress(pst_executor *x, uint32_t *moved);
/* Posts and completes transfers only; safe to call from the device's poll, inside a launch. A
 * failure is kept for the next pst_executor_progress. */
void pst_executor_poll(pst_executor *x);
/* Earliest known future event, PST_NEVER if unknown. */
uint64_t pst_executor_next_ns(const pst_executor *x);
/* Measured start and end of every instruction of the last run, ns since pst_executor_start's clock
 * reading *origin. Start of a transfer: when this rank posted it (on the timed transport, whose
 * durations are known: when both ends had). */
const pst_span *pst_executor_spans(const pst_executor *x, uint64_t *origin);
/* What it is doing or waiting for: "rank 1 F c1 m3 after rank 1 RECV c1 m3 <- rank 0 channel 4".
 * Returns buffer. */
const char *pst_executor_where(const pst_executor *x, char *buffer, uint32_t bytes);

/* Says in the position which posted transfer holds this rank up, when nothing computes. */
void pst_executor_publish_wait(pst_executor *x);
/* The transfer whose two ends disagreed about its size, PST_NONE: there was none. */
uint32_t pst_executor_mismatch(const pst_executor *x);

/* Drives n executors of this process to the end of their lists: round robin; when a round moves
 * nothing, jumps the virtual clock to the earliest event, or sleeps on the transports (20 ms at
 * most at a time). A thousand rounds without progress, running operator, future event or a
 * transport that could be slept on are a deadlock: EINTERNAL with what each rank waits for.
 * virtual_clock: the executors' clock when that is virtual, else NULL. idle is called between
 * rounds (heartbeat, signals); it may end the drive with its status; NULL allowed. */
pst_status pst_executor_drive(pst_executor *const *x, uint32_t n, pst_clock *virtual_clock,
                              pst_status (*idle)(void *), void *idle_arg);
#endif
