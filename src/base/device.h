/* The table of devices. A device runs kernels on in-order queues and says when each ended. */
#ifndef PST_BASE_DEVICE_H
#define PST_BASE_DEVICE_H
#include "base/clock.h"
#include "base/pool.h"
#include "base/status.h"
#include <stdint.h>

/* HEAD: transfers that hold up no others (pipeline/compile/instr.h). */
typedef enum { PST_Q_COMPUTE, PST_Q_SEND, PST_Q_RECV, PST_Q_HEAD, PST_Q_COUNT } pst_queue;

/* Instruction sets that kernels ask for (bits of pst_device.isa). */
enum {
    PST_ISA_AVX2 = 1,
    PST_ISA_F16C = 2,
    PST_ISA_AVX512 = 4,
    PST_ISA_AVX512_BF16 = 8,
    PST_ISA_CUDA = 16
};

typedef struct pst_device pst_device;
/* What a launch runs: `call` is the kernel's own argument block, alive until the launch has
 * completed. */
typedef pst_status (*pst_launch_fn)(pst_device *device, const void *call);
/* What pst_device_ops.replay is launched with. */
typedef struct {
    void *launches; /* as capture_end has given them */
    /* of this time: what kernels are told in place of the sample that they were captured with */
    uint64_t sample;
} pst_captured;

typedef struct {
    uint32_t threads;       /* CPU threads to compute with, >= 1 */
    const pst_clock *clock; /* NULL: monotonic */
    /* called by the computing thread at least every millisecond; may be NULL */
    void (*poll)(void *);
    void *poll_arg;
    /* this rank among those of its host: which of several devices it takes, in turn */
    uint32_t local;
} pst_device_config;

/* Flags of a kind of device. */
enum {
    PST_DEVICE_FAR = 1, /* the host cannot reach its memory: `memory`, `staging`, `copy`,
                           `copy_rows`, `fill` are there */
    /* launches are queued: what a launch is given has been read when it returns, and others may be
     * launched before it has ended; they run in that order */
    PST_DEVICE_AHEAD = 2,
    PST_DEVICE_CUDA = 4,   /* FAR, and its memory is CUDA's, which a transport may know of itself */
    PST_DEVICE_PADDED = 8, /* its kernels take rows with gaps, and want them (pst_graph_pad) */
    PST_DEVICE_SUMS = 16,  /* its B kernels leave sums for W (pst_graph_leave_sums) */
    /* what decides steps and bytes of a job, as the device of the CUDA module has it: a planner
     * goes by it where that cannot be loaded */
    PST_DEVICE_GPU = PST_DEVICE_FAR | PST_DEVICE_PADDED | PST_DEVICE_SUMS
};

/* So many rows of so many bytes, each side's at a distance of its own. */
typedef struct {
    void *to;
    uint64_t to_distance;
    const void *from;
    uint64_t from_distance, bytes, n;
} pst_device_rows;

typedef struct {
    const char *name;
    const char *(*reject)(const pst_device_config *config); /* NULL: can open; else why not */
    pst_status (*open)(const pst_device_config *config, pst_device **device);
    /* Queues fn(device, call). after_ns: when the last of its inputs arrived; ns: predicted
     * duration (the timed device takes it for the truth). *event names its completion; on a device
     * that runs ahead it may be NULL, and the next event in the queue stands for this one, too. A
     * CPU has run it on return. */
    pst_status (*launch)(pst_device *d, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event);
    /* OK: the event has happened, *start_ns and *end_ns say when. BUSY: not yet. The latest 1024
     * are known. Other: the device has failed, and why. */
    pst_status (*test)(pst_device *d, uint64_t event, uint64_t *start_ns, uint64_t *end_ns);
    uint64_t (*next_ns)(pst_device *d); /* earliest known completion, PST_NEVER if unknown */
    void (*close)(pst_device *d);
    uint32_t flags;
    /* The following are NULL where a device has no flags. One block for all that a rank computes
     * with, 4096-byte aligned, freed by close: *base is the device's address, with which the host
     * can only reckon. ENOMEM says how much is needed and how much is free. */
    pst_status (*memory)(pst_device *d, uint64_t bytes, void **base);
    /* Memory of the host that copies run from and to while the device computes; freed by close. */
    pst_status (*staging)(pst_device *d, uint64_t bytes, void **base);
    /* Behind what stands in that queue; each side is the device's memory or the host's. event NULL:
     * returns when it is done, and all before it in that queue. On queue HEAD with event NULL from
     * any thread (checkpoints), as nothing else of the device is. */
    pst_status (*copy)(pst_device *d, pst_queue queue, void *to, const void *from, uint64_t bytes,
                       uint64_t *event);
    pst_status (*fill)(pst_device *d, pst_queue queue, void *to, uint8_t value, uint64_t bytes);
    /* Likewise of rows, both sides in the device's memory. */
    pst_status (*copy_rows)(pst_device *d, pst_queue queue, const pst_device_rows *rows);
    /* What the maker calls it ("NVIDIA H200"), until this thread's next call; may be NULL, and be
     * so on any device. */
    const char *(*model)(const pst_device_config *config);
    /* Bytes that each of so many ranks of this host can have of the device that `config` names, at
     * least 1 rank; 0: not known. May be NULL: what the host has is shared out. */
    uint64_t (*room)(const pst_device_config *config, uint32_t ranks_here);
    /* Bytes that kernels have taken of it when they were prepared, beside what a memory map counts.
     * May be NULL: none. */
    uint64_t (*apart)(const pst_device *d);
    /* Of devices that run ahead; all NULL where launches cannot be captured. From capture_begin to
     * capture_end what is launched, with event NULL, is noted instead of queued, and nothing else
     * is asked of the device by this thread. What was noted lives as long as the device; launches
     * NULL: it is dropped. When a launch meanwhile or one of these two fails, nothing was captured,
     * and all else is as before. */
    pst_status (*capture_begin)(pst_device *d);
    pst_status (*capture_end)(pst_device *d, void **launches);
    /* Launched with a pst_captured, as any other: runs what was captured once more, at the same
     * addresses. */
    pst_launch_fn replay;
} pst_device_ops;

/* Implementations embed this as their first member. */
struct pst_device {
    const pst_device_ops *ops;
    const pst_clock *clock;
    pst_pool *pool; /* NULL on a device that does not compute on the CPU */
    uint32_t isa, threads;
};
#endif
