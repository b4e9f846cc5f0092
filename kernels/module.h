/* Backends that are loaded at run time: libpenstock-cuda.so, which needs libraries that most
 * machines lack. A module exports pst_module_open, gets a table of host functions that it may call,
 * and returns its own table. Module and host must be built from one source: other versions are
 * refused. */
#ifndef PST_KERNELS_MODULE_H
#define PST_KERNELS_MODULE_H
#include "base/choice.h"
#include "base/log.h"
#include "base/transport.h"
#include "kernels/kernel.h"
#include <stdarg.h>

enum { PST_MODULE_VERSION = 7 };

/* A module is linked without status.c and log.c: its pst_fail, pst_fail_in, pst_log and pst_error
 * call these. The members up to fail keep their place in every version. */
typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module_host) */
    const char *build;       /* PST_VERSION */
    pst_status (*fail)(pst_status status, const char *format, va_list args);
    pst_status (*fail_in)(pst_status status, const char *format, va_list args);
    void (*log)(pst_log_level level, const char *format, va_list args);
    const char *(*error)(void);
} pst_module_host;

/* Arguments of pst_direct_ops.open. All are borrowed; all but `inner` and `device` are read during
 * open only. */
typedef struct {
    pst_transport *inner; /* sends from and to the host's memory */
    pst_device *device;
    const uint8_t *talks; /* [inner->size] 1: this rank exchanges messages with that rank */
    /* [n_member] the ranks of this rank's tensor group, in order; n_member 0: it has none */
    const uint32_t *member;
    uint32_t n_member;
    int sums; /* 1: the group of `member` uses `sum` */
} pst_direct_config;

/* What this rank sends to another rank of its tensor group and receives from it; 0: nothing. */
typedef struct {
    const void *send;
    void *recv;
    uint64_t send_bytes, recv_bytes;
} pst_swap_part;
typedef struct {
    const pst_swap_part *part; /* [n_member]; the entry of this rank itself is all 0 */
    uint32_t n;
} pst_swap;

/* A sum over the group. scattered 0 (all-reduce): each rank has n numbers and gets all of the sum;
 * 1 (reduce-scatter): each rank has n_member * n numbers and gets its own n numbers of the sum. */
typedef struct {
    const void *from;
    void *to;
    uint64_t n;
    pst_dtype dtype;
    int scattered;
} pst_group_sum;

/* A transport between devices whose memory the host cannot access. */
typedef struct {
    const char *name; /* value of parallel.transport */
    /* NULL: usable for a job with so many ranks on this host; else the reason why not. */
    const char *(*reject)(uint32_t ranks_here);
    /* Both ends agree through `inner` on what is sent when. The arguments are borrowed and must
     * outlive the transport, and so must memory that messages name. Aborting it aborts `inner`. */
    pst_status (*open)(const pst_direct_config *config, pst_transport **transport);
    /* Called by all ranks of the job after they have opened theirs, alternately with its progress,
     * before the first step. BUSY: call again. OK: it has allocated all device memory that it
     * needs; *bytes is the amount, as far as it knows. */
    pst_status (*connect)(pst_transport *transport, uint64_t *bytes);
    /* Called within a launch on the device: runs after the work already queued. All ranks of the
     * group call it, in the same order. The caller may reuse the lists on return. Either may be
     * NULL: then the host exchanges. `sum` adds in any order, which may change from call to call,
     * but gives the same bits on all ranks. */
    pst_status (*swap)(pst_transport *transport, const pst_swap *swap);
    pst_status (*sum)(pst_transport *transport, const pst_group_sum *sum);
} pst_direct_ops;

/* Durations of the library's first choice, of the choice by measuring, and of the fastest of all
 * its algorithms. */
typedef struct {
    double first_s, measured_s, best_s;
    uint32_t tried; /* number of algorithms that ran */
} pst_choice_times;

/* The algorithms that kernels choose by measuring. */
typedef struct {
    /* From now on the choices of the list are used, also by kernels that were prepared with other
     * ones. A choice that the list lacks is measured when its kernel is prepared or, if measures is
     * 0, is the library's first proposal. The list is copied. EINPUT: an algorithm of the list does
     * not run here, and a prepared kernel needs it. */
    pst_status (*give)(pst_device *device, int measures, const pst_choice *list, uint32_t n);
    /* Choice i of those made since the device was opened; returns 0 after the last. */
    int (*take)(pst_device *device, uint32_t i, pst_choice *choice);
    /* For benchmarks: times all algorithms that choice i could have; takes seconds, and memory of
     * the device. tried is 0 if the choice is to leave the work to other kernels. */
    pst_status (*compare)(pst_device *device, uint32_t i, pst_choice_times *times);
} pst_choice_ops;

typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module) */
    const char *name;        /* "cuda" */
    const pst_device_ops *device;
    const pst_kernel_row *kernel; /* [n_kernel], best first; only these compute on this device */
    uint32_t n_kernel;
    const pst_arith *arith;
    const pst_direct_ops *direct;  /* NULL: the module has none */
    const pst_choice_ops *choices; /* NULL: the module's kernels are not autotuned */
    /* For doctor: line number `line` about libraries, driver and devices; NULL after the last. */
    const char *(*about)(uint32_t line);
} pst_module;

/* What a module exports. Returns NULL after it has called pst_module_host.fail with the reason.
 * `host` outlives the module. A module also opens without its hardware or driver: its device's row
 * then rejects, with the reason. */
typedef const pst_module *(*pst_module_open_fn)(const pst_module_host *host);
const pst_module *pst_module_open(const pst_module_host *host);
#define PST_MODULE_SYMBOL "pst_module_open"
#endif
