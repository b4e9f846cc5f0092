/* What the system gives a process at most (ulimit, a container's number of processes), looked at
 * before anything is built on it: a library that runs into such a limit hangs, aborts, or fails
 * without saying which it was. */
#ifndef PST_BASE_LIMIT_H
#define PST_BASE_LIMIT_H
#include "base/status.h"
#include <stdint.h>

/* Bytes: what libraries put on it in their beginning, with room to spare. */
enum { PST_LIMIT_STACK = 1 << 20 };

/* What a run will need; 0 of something: it is not looked at. */
typedef struct {
    uint64_t files;   /* open at once, those that are open now included */
    uint64_t tasks;   /* processes and threads beside those that run now */
    uint64_t address; /* bytes of address space beside what is mapped now */
    uint64_t data;    /* bytes of private memory beside what is mapped now */
    uint64_t file;    /* bytes of the largest file */
} pst_limit_needs;

/* What a process needs of a job of so many ranks, which computes with so many threads in so many
 * bytes: as counted and found by halving, with room to spare. 1 rank: no transport, no launcher. */
pst_limit_needs pst_limit_of_rank(uint32_t ranks, uint32_t threads, uint64_t arena_bytes);
/* ENOMEM names the limit that is too small, what it is, what is needed, and how to raise it. The
 * number of open files is raised, where the hard limit has room. */
pst_status pst_limit_check(const pst_limit_needs *needs);
/* For the end of a message, after something was refused: " (ulimit -v is 250000 KiB)", with all
 * limits that are set and may be why; "" where none is. Of threads: of their number, and of the
 * memory that their stacks take. */
enum { PST_LIMIT_TEXT = 120 };
const char *pst_limit_of_memory(char text[PST_LIMIT_TEXT]);
const char *pst_limit_of_threads(char text[PST_LIMIT_TEXT]);
/* How many of n threads could be started at once: it starts them, and they end. Any thread. */
uint32_t pst_limit_tasks(uint32_t n);
#endif
