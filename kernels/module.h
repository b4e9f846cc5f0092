/* Back ends that are loaded when they are there: libpenstock-cuda.so, which needs libraries that
 * most machines lack. A module exports pst_module_open, gets a table of what it may call of the
 * host, and answers with its rows. Modules and host are built from one source: other versions
 * refuse each other. */
#ifndef PST_KERNELS_MODULE_H
#define PST_KERNELS_MODULE_H
#include "base/choice.h"
#include "base/log.h"
#include "base/transport.h"
#include "kernels/kernel.h"
#include <stdarg.h>

enum { PST_MODULE_VERSION = 7 };

/* A module has no status.c or log.c of its own: its pst_fail, pst_fail_in, pst_log and pst_error
 * are these. The members down to fail stay where they are in every version. */
typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module_host) */
    const char *build;       /* PST_VERSION */
    pst_status (*fail)(pst_status status, const char *format, va_list args);
    pst_status (*fail_in)(pst_status status, const char *format, va_list args);
    void (*log)(pst_log_level level, const char *format, va_list args);
    const char *(*error)(void);
} pst_module_host;

/* What a transport of devices' memory is opened with; all borrowed, and but for `inner` and
 * `device` read when it is. */
typedef struct {
    pst_transport *inner; /* moves the host's memory */
    pst_device *device;
    const uint8_t *talks; /* [inner->size] 1: messages go to that rank or come from there */
    /* [n_member] the tensor group of this rank, in order; n_member 0: it has none */
    const uint32_t *member;
    uint32_t n_member;
    int sums; /* 1: that group adds up with `sum` */
} pst_direct_config;

/* Between this rank and each other one of its tensor group: bytes that go there, and others that
 * come; 0: none. */
typedef struct {
    const void *send;
    void *recv;
    uint64_t send_bytes, recv_bytes;
} pst_swap_part;
typedef struct {
    const pst_swap_part *part; /* [n_member]; the own one is all 0 */
    uint32_t n;
} pst_swap;

/* What the group adds up, n numbers of each rank; scattered: this rank gets the own-th of n_member
 * parts of n each, of n_member * n that it has; else all of the sum. */
typedef struct {
    const void *from;
    void *to;
    uint64_t n;
    pst_dtype dtype;
    int scattered;
} pst_group_sum;

/* A transport between devices whose memory the host cannot reach. */
typedef struct {
    const char *name; /* as parallel.transport has it */
    /* NULL: a job with so many ranks on this host can use it; else why not. */
    const char *(*reject)(uint32_t ranks_here);
    /* Its two ends agree over `inner` what goes when. What it is given is borrowed, and outlives
     * it; so does all memory that messages name. Aborting it aborts `inner`. */
    pst_status (*open)(const pst_direct_config *config, pst_transport **transport);
    /* All ranks of the job do this after they have opened theirs, in turn with its progress, before
     * the first step. BUSY: go on. OK: all that it takes of the device, it has; *bytes says how
     * much that is, as far as it knows. */
    pst_status (*connect)(pst_transport *transport, uint64_t *bytes);
    /* Within a launch on the device: queued to compute, behind what stands there. All ranks of the
     * group do it, in the same order. The lists have been read on return. Either may be NULL: the
     * host exchanges. `sum` adds in an order of its own, which may depend on anything, but has the
     * same bits on all ranks. */
    pst_status (*swap)(pst_transport *transport, const pst_swap *swap);
    pst_status (*sum)(pst_transport *transport, const pst_group_sum *sum);
} pst_direct_ops;

/* A kernel of the library's first choice, of what measuring chooses, and the fastest of all that
 * the library has. */
typedef struct {
    double first_s, measured_s, best_s;
    uint32_t tried; /* algorithms that ran */
} pst_choice_times;

/* What kernels choose by measuring. */
typedef struct {
    /* From now on what the list has is chosen as it says, also where kernels were prepared for
     * another choice; what it lacks is measured when a kernel is prepared, or (measures 0) is what
     * the library proposes first. The list is copied. EINPUT: what it has for something that is
     * prepared does not run here. */
    pst_status (*give)(pst_device *device, int measures, const pst_choice *list, uint32_t n);
    /* Choice i of those that were made since the device was opened; 0 behind the last. */
    int (*take)(pst_device *device, uint32_t i, pst_choice *choice);
    /* For benchmarks: all that could be chosen for that one, timed now; it takes seconds, and
     * memory of the device. None was tried where the choice is that others do its work. */
    pst_status (*compare)(pst_device *device, uint32_t i, pst_choice_times *times);
} pst_choice_ops;

typedef struct {
    uint32_t version, bytes; /* PST_MODULE_VERSION, sizeof(pst_module) */
    const char *name;        /* "cuda" */
    const pst_device_ops *device;
    const pst_kernel_row *kernel; /* [n_kernel], best first: they alone compute on this device */
    uint32_t n_kernel;
    const pst_arith *arith;
    const pst_direct_ops *direct;  /* NULL: none of its own */
    const pst_choice_ops *choices; /* NULL: nothing is chosen by measuring */
    /* For doctor: one line a call about libraries, driver and devices; NULL after the last. */
    const char *(*about)(uint32_t line);
} pst_module;

/* What a module exports. NULL: pst_module_host.fail has been told why. `host` outlives the module.
 * Without its hardware or driver a module opens all the same: its device's row rejects, and says
 * why. */
typedef const pst_module *(*pst_module_open_fn)(const pst_module_host *host);
const pst_module *pst_module_open(const pst_module_host *host);
#define PST_MODULE_SYMBOL "pst_module_open"
#endif
