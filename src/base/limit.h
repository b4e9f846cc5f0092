/* The system's limits for a process (ulimit, a container's number of processes), checked before
 * libraries start: a library that reaches such a limit hangs, aborts, or fails without naming the
 * limit. */
#ifndef PST_BASE_LIMIT_H
#define PST_BASE_LIMIT_H
#include "base/status.h"
#include <stdint.h>

/* Bytes of stack that libraries use during start-up, with a margin. */
enum { PST_LIMIT_STACK = 1 << 20 };

/* What a run needs; a member that is 0 is not checked. */
typedef struct {
    uint64_t files;   /* files open at the same time, including those open now */
    uint64_t tasks;   /* processes and threads in addition to those that run now */
    uint64_t address; /* bytes of address space in addition to those mapped now */
    uint64_t data;    /* bytes of private memory in addition to those mapped now */
    uint64_t file;    /* bytes of the largest file */
} pst_limit_needs;

/* The needs of one rank of a job with `ranks` ranks (1: no transport, no launcher), with `threads`
 * threads and an arena of `arena_bytes` bytes: measured values with a margin. */
pst_limit_needs pst_limit_of_rank(uint32_t ranks, uint32_t threads, uint64_t arena_bytes);
/* Checks the system's limits. ENOMEM names the limit that is too small, its value, the required
 * value, and how to raise the limit. If the limit of open files is too small, it is raised, as far
 * as the hard limit allows. */
pst_status pst_limit_check(const pst_limit_needs *needs);
/* For the end of a message when the system refuses memory or a thread: " (ulimit -v is 250000
 * KiB)", with all limits that are set and could be the reason; "" if there are none. threads: the
 * limit of processes and threads, and the limits of memory for stacks. Returns text. */
enum { PST_LIMIT_TEXT = 120 };
const char *pst_limit_of_memory(char text[PST_LIMIT_TEXT]);
const char *pst_limit_of_threads(char text[PST_LIMIT_TEXT]);
/* Returns how many of n threads can run at the same time, by starting and ending them. May be
 * called from any thread. */
uint32_t pst_limit_tasks(uint32_t n);
#endif
