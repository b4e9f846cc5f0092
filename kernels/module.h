/* Backends that are loaded at run time: libpenstock-cuda.so, which needs libraries that most
 * machines lack. A module exports pst_module_open, which gets a table of host functions and returns
 * the module's table. Module and host must be built from the same sources; other versions are
 * rejected. */
#ifndef PST_KERNELS_MODULE_H
#define PST_KERNELS_MODULE_H
#include "base/choice.h"
#include "base/log.h"
#include "base/transport.h"
#include "kernels/kernel.h"
#include <stdarg.h>

enum { PST_MODULE_VERSION = 12 };

/* Functions of the host. A module is linked without status.c and log.c; in a module, pst_fail,
 * pst_fail_in, pst_log and pst_error call these functions. The offsets of the members up to `fail`
 * are the same in every version. */
typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module_host) */
    const char *build;       /* PST_VERSION */
    pst_status (*fail)(pst_status status, const char *format, va_list args);
    pst_status (*fail_in)(pst_status status, const char *format, va_list args);
    void (*log)(pst_log_level level, const char *format, va_list args);
    const char *(*error)(void);
} pst_module_host;

/* Arguments of pst_direct_ops.open. All pointers are borrowed; those other than `inner` and
 * `device` only during the call. */
typedef struct {
    pst_transport *inner; /* transport for host memory */
    pst_device *device;
    const uint8_t *talks; /* [inner->size] 1: this rank exchanges messages with that rank */
    /* [n_member] ranks of this rank's tensor group, by tensor rank; n_member 0: no tensor group */
    const uint32_t *member;
    uint32_t n_member;
    int sums; /* 1: the tensor group will use `sum` */
} pst_direct_config;

/* What this rank sends to another rank of its tensor group and receives from it; 0 bytes:
 * nothing. */
typedef struct {
    const void *send;
    void *recv;
    uint64_t send_bytes, recv_bytes;
} pst_swap_part;
typedef struct {
    /* [n_member] one entry per rank of the group; that of this rank is all 0 */
    const pst_swap_part *part;
    uint32_t n;
} pst_swap;

/* A sum over the tensor group. scattered 0 (all-reduce): each rank has n numbers and gets n sums; 1
 * (reduce-scatter): each rank has n_member * n numbers and gets its own n of the sums. */
typedef struct {
    const void *from;
    void *to;
    uint64_t n;
    pst_dtype dtype;
    int scattered;
} pst_group_sum;

/* A transport between devices whose memory the host cannot access. */
typedef struct {
    const char *name; /* the value of parallel.transport */
    /* Why the transport is not usable for a job with ranks_here ranks on this host; NULL: it is
     * usable. */
    const char *(*reject)(uint32_t ranks_here);
    /* Opens the transport. Sender and receiver exchange control messages over `inner`. The
     * arguments and the memory of messages must outlive the transport. Aborting the transport also
     * aborts `inner`. */
    pst_status (*open)(const pst_direct_config *config, pst_transport **transport);
    /* Connects the ranks. To be called by all ranks after open and before the first step,
     * alternately with the transport's progress, until it returns OK. BUSY: call again. OK: the
     * transport has allocated all device memory that it needs; *bytes: an estimate of the
     * amount. */
    pst_status (*connect)(pst_transport *transport, uint64_t *bytes);
    /* Collectives of the tensor group, called within a launch: queued after the work that is queued
     * already. All ranks of the group call them in the same order. The caller may reuse the lists
     * on return. A NULL pointer: the host runs these collectives. The order of additions in `sum`
     * may change from call to call, but the result has the same bits on all ranks. */
    pst_status (*swap)(pst_transport *transport, const pst_swap *swap);
    pst_status (*sum)(pst_transport *transport, const pst_group_sum *sum);
} pst_direct_ops;

/* Durations (s) of the algorithm that the library proposes first, of the one chosen by measuring,
 * and of the fastest of all. */
typedef struct {
    double first_s, measured_s, best_s;
    uint32_t tried; /* number of algorithms that ran */
} pst_choice_times;

/* Autotuning: the algorithms that kernels choose by measuring. */
typedef struct {
    /* Uses the choices of the list from now on, also in kernels that were prepared with other
     * choices. For a product that is not in the list, the algorithm is measured when its kernel is
     * prepared (measures 1), or is the first one that the library proposes (0). The list is copied.
     * EINPUT: a prepared kernel needs an algorithm of the list that does not run on this device. */
    pst_status (*give)(pst_device *device, int measures, const pst_choice *list, uint32_t n);
    /* *choice: the i-th choice made since the device was opened; returns 0 after the last. */
    int (*take)(pst_device *device, uint32_t i, pst_choice *choice);
    /* For benchmarks: times all algorithms for choice i; takes seconds, and allocates device
     * memory. times->tried is 0 if the choice is to use a separate kernel. */
    pst_status (*compare)(pst_device *device, uint32_t i, pst_choice_times *times);
} pst_choice_ops;

typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module) */
    const char *name;        /* "cuda" */
    const pst_device_ops *device;
    /* [n_kernel] best first; only these kernels compute on this device */
    const pst_kernel_row *kernel;
    uint32_t n_kernel;
    const pst_arith *arith;
    const pst_direct_ops *direct;  /* NULL: the module has none */
    const pst_choice_ops *choices; /* NULL: the module's kernels are not autotuned */
    /* For doctor: the line-th line about libraries, driver and devices; NULL after the last. */
    const char *(*about)(uint32_t line);
} pst_module;

/* The function that a module exports. `host` outlives the module. NULL: opening failed; the module
 * has called pst_module_host.fail with the reason. A module opens also without its hardware or
 * driver: the `reject` function of its device then returns the reason. */
typedef const pst_module *(*pst_module_open_fn)(const pst_module_host *host);
const pst_module *pst_module_open(const pst_module_host *host);
#define PST_MODULE_SYMBOL "pst_module_open"
#endif
