/* The table of devices. A device runs kernels on in-order queues and reports when each one
 * ended. */
#ifndef PST_BASE_DEVICE_H
#define PST_BASE_DEVICE_H
#include "base/clock.h"
#include "base/pool.h"
#include "base/status.h"
#include <stdint.h>

/* HEAD: transfers on which no other queue waits; SIDE: additions between the operators of passes
 * (pipeline/compile/instr.h). */
typedef enum {
    PST_Q_COMPUTE,
    PST_Q_SEND,
    PST_Q_RECV,
    PST_Q_HEAD,
    PST_Q_SIDE,
    PST_Q_COUNT
} pst_queue;
/* Returns 1 for a queue that runs one instruction after another, 0 for one of transfers. */
static inline int pst_queue_computes(uint32_t queue) {
    return queue == PST_Q_COMPUTE || queue == PST_Q_SIDE;
}

/* Instruction sets that kernels need (bits of pst_device.isa). */
enum {
    PST_ISA_AVX2 = 1,
    PST_ISA_F16C = 2,
    PST_ISA_AVX512 = 4,
    PST_ISA_AVX512_BF16 = 8,
    PST_ISA_CUDA = 16
};

typedef struct pst_device pst_device;
/* The function of a launch; `call` is the kernel's own argument block, valid until the launch has
 * completed. */
typedef pst_status (*pst_launch_fn)(pst_device *device, const void *call);
/* The argument of a launch of pst_device_ops.replay. */
typedef struct {
    void *launches; /* set by capture_end */
    /* sample index of this replay; kernels receive it instead of the index at capture */
    uint64_t sample;
} pst_captured;

typedef struct {
    uint32_t threads;       /* CPU threads to compute with, >= 1 */
    const pst_clock *clock; /* NULL: the monotonic clock */
    /* called by the computing thread at least every millisecond; may be NULL */
    void (*poll)(void *);
    void *poll_arg;
    /* index of this rank on its host, which selects the device if there are several */
    uint32_t local;
} pst_device_config;

/* Flags (pst_device_ops.flags). */
enum {
    PST_DEVICE_OWN_MEMORY = 1, /* the host cannot access the device's memory; `memory`, `staging`,
                                  `copy`, `copy_rows` and `fill` are set */
    /* launch returns before the work has ended, but after it has read its arguments; further
       launches may follow, and all run in order */
    PST_DEVICE_ASYNC = 2,
    PST_DEVICE_CUDA = 4, /* OWN_MEMORY, and the memory is CUDA memory, which a transport may support
                            directly */
    PST_DEVICE_PADDED = 8, /* the kernels accept and prefer rows with padding (pst_graph_pad) */
    PST_DEVICE_SUMS = 16,  /* B kernels save sums for W (pst_graph_leave_sums) */
    /* the flags of the CUDA device on which a job's operators and memory depend, for planning
     * without the CUDA module */
    PST_DEVICE_GPU = PST_DEVICE_OWN_MEMORY | PST_DEVICE_PADDED | PST_DEVICE_SUMS
};

/* A copy of n rows of `bytes` bytes. to_distance, from_distance: bytes from the start of one row to
 * the start of the next. */
typedef struct {
    void *to;
    uint64_t to_distance;
    const void *from;
    uint64_t from_distance, bytes, n;
} pst_device_rows;

typedef struct {
    const char *name;
    const char *(*reject)(const pst_device_config *config); /* returns NULL if the device can be
                                                               opened, else the reason */
    pst_status (*open)(const pst_device_config *config, pst_device **device);
    /* Queues fn(device, call). after_ns: time at which the last input arrived; ns: predicted
     * duration, which the timed device takes as the actual one. *event identifies the completion of
     * the launch. On an asynchronous device `event` may be NULL; the next event of the queue then
     * covers this launch too. On a CPU the launch has completed on return. */
    pst_status (*launch)(pst_device *d, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event);
    /* Set on asynchronous devices: queues fn(device, call) like `launch`, but in queue SIDE, whose
     * work runs beside that of launches and waits for none of it. No capture is under way. */
    pst_status (*launch_beside)(pst_device *d, pst_launch_fn fn, const void *call, uint64_t *event);
    /* OK: the work of `event` ran from *start_ns to *end_ns. BUSY: the work has not completed.
     * Other statuses: the device has failed. `event` must be among the latest 1024. */
    pst_status (*test)(pst_device *d, uint64_t event, uint64_t *start_ns, uint64_t *end_ns);
    uint64_t (*next_ns)(pst_device *d); /* time of the earliest known completion; PST_NEVER: unknown
                                         */
    void (*close)(pst_device *d);
    uint32_t flags;
    /* The following members are NULL for devices without flags. memory: allocates one block for all
     * data that a rank computes with, 4096-byte aligned, freed by close; *base is a device address,
     * which the host can use for arithmetic only. ENOMEM: the message says how many bytes are
     * needed and how many are free. */
    pst_status (*memory)(pst_device *d, uint64_t bytes, void **base);
    /* Host memory for copies that run while the device computes (pinned); freed by close. */
    pst_status (*staging)(pst_device *d, uint64_t bytes, void **base);
    /* Copies `bytes` bytes in the order of the queue; `to` and `from` are in device or host memory.
     * event NULL: returns when the copy and all earlier work of the queue have completed. This is
     * the only function that any thread may call, with queue HEAD and event NULL (checkpoints). */
    pst_status (*copy)(pst_device *d, pst_queue queue, void *to, const void *from, uint64_t bytes,
                       uint64_t *event);
    pst_status (*fill)(pst_device *d, pst_queue queue, void *to, uint8_t value, uint64_t bytes);
    /* Copies rows within device memory, in the order of the queue. */
    pst_status (*copy_rows)(pst_device *d, pst_queue queue, const pst_device_rows *rows);
    /* The manufacturer's name of the device ("NVIDIA H200"), valid until this thread's next call;
     * may be NULL on any device. */
    const char *(*model)(const pst_device_config *config);
    /* Bytes of memory that each of `ranks_here` ranks (at least 1) of this host can use on the
     * device that `config` selects; 0: unknown. May be NULL: the host's memory is divided among the
     * ranks. */
    uint64_t (*available)(const pst_device_config *config, uint32_t ranks_here);
    /* Bytes of device memory that kernels allocated when they were prepared, in addition to the
     * memory map. May be NULL: none. */
    uint64_t (*workspace_bytes)(const pst_device *d);
    /* For asynchronous devices; all NULL if launches cannot be captured. From capture_begin to
     * capture_end, launches (with event NULL) are recorded instead of queued, and this thread calls
     * no other function of the device. The recording is freed with the device; launches NULL: the
     * recording is discarded. If capture_begin, capture_end or a launch between them fails, nothing
     * was captured and the device is unchanged. */
    pst_status (*capture_begin)(pst_device *d);
    pst_status (*capture_end)(pst_device *d, void **launches);
    /* Launched with a pst_captured, like any other function: runs the recorded launches once more,
     * with the same addresses. */
    pst_launch_fn replay;
} pst_device_ops;

/* First member of the structure of each device. */
struct pst_device {
    const pst_device_ops *ops;
    const pst_clock *clock;
    pst_pool *pool; /* NULL on a device that does not compute on the CPU */
    uint32_t isa, threads;
};
#endif
