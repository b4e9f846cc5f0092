/* The system's limits for a process (ulimit, a container's number of processes), checked before
 * libraries start: a library that runs into such a limit hangs, aborts, or fails without naming
 * it. */
#ifndef PST_BASE_LIMIT_H
#define PST_BASE_LIMIT_H
#include "base/status.h"
#include <stdint.h>

/* Bytes of stack that libraries use during start-up, with a margin. */
enum { PST_LIMIT_STACK = 1 << 20 };

/* What a run will need; a member of 0 is not checked. */
typedef struct {
    uint64_t files;   /* open at once, including those that are open now */
    uint64_t tasks;   /* processes and threads besides those that run now */
    uint64_t address; /* bytes of address space besides what is mapped now */
    uint64_t data;    /* bytes of private memory besides what is mapped now */
    uint64_t file;    /* bytes of the largest file */
} pst_limit_needs;

/* The needs of a process in a job of so many ranks, with so many threads and an arena of so many
 * bytes: measured values, with a margin. 1 rank: no transport, no launcher. */
pst_limit_needs pst_limit_of_rank(uint32_t ranks, uint32_t threads, uint64_t arena_bytes);
/* ENOMEM names the limit that is too small, its value, the need, and how to raise it. The limit of
 * open files is raised here, if the hard limit allows it. */
pst_status pst_limit_check(const pst_limit_needs *needs);
/* For the end of a message after a refusal: " (ulimit -v is 250000 KiB)", with all limits that are
 * set and could be the reason; "" if there are none. For threads: the limit of their number, and of
 * the memory for their stacks. */
enum { PST_LIMIT_TEXT = 120 };
const char *pst_limit_of_memory(char text[PST_LIMIT_TEXT]);
const char *pst_limit_of_threads(char text[PST_LIMIT_TEXT]);
/* How many of n threads can run at once: starts them, and ends them. Any thread. */
uint32_t pst_limit_tasks(uint32_t n);
#endif
