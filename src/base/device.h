/* The table of devices. A device runs kernels on in-order queues and says when each ended. */
#ifndef PST_BASE_DEVICE_H
#define PST_BASE_DEVICE_H
#include "base/clock.h"
#include "base/pool.h"
#include "base/status.h"
#include <stdint.h>

/* HEAD: transfers that hold up no others (pipeline/instr.h). */
typedef enum { PST_Q_COMPUTE, PST_Q_SEND, PST_Q_RECV, PST_Q_HEAD, PST_Q_COUNT } pst_queue;

/* Instruction sets that kernels ask for (bits of pst_device.isa). */
enum { PST_ISA_AVX2 = 1, PST_ISA_F16C = 2, PST_ISA_AVX512 = 4, PST_ISA_AVX512_BF16 = 8 };

typedef struct pst_device pst_device;
/* What a launch runs: `call` is the kernel's own argument block, alive until the launch has completed. */
typedef pst_status (*pst_launch_fn)(pst_device *device, const void *call);

typedef struct {
    uint32_t threads;             /* CPU threads to compute with, >= 1 */
    const pst_clock *clock;       /* NULL: monotonic */
    void (*poll)(void *);         /* called by the computing thread at least every millisecond; may be NULL */
    void *poll_arg;
} pst_device_config;

typedef struct {
    const char *name;
    const char *(*reject)(const pst_device_config *config);    /* NULL: can open; else why not */
    pst_status (*open)(const pst_device_config *config, pst_device **device);
    /* Queues fn(device, call). after_ns: when the last of its inputs arrived; ns: predicted duration (the timed
     * device takes it for the truth). *event names its completion. A CPU has run it on return. */
    pst_status (*launch)(pst_device *d, pst_launch_fn fn, const void *call, uint64_t after_ns, uint64_t ns,
                         uint64_t *event);
    /* OK: the event has happened, *start_ns and *end_ns say when. BUSY: not yet. */
    pst_status (*test)(pst_device *d, uint64_t event, uint64_t *start_ns, uint64_t *end_ns);
    uint64_t (*next_ns)(pst_device *d);                         /* earliest known completion, PST_NEVER if unknown */
    void (*close)(pst_device *d);
} pst_device_ops;

/* Implementations embed this as their first member. */
struct pst_device {
    const pst_device_ops *ops;
    const pst_clock *clock;
    pst_pool *pool;               /* NULL on a device that does not compute on the CPU */
    uint32_t isa, threads;
};
#endif
