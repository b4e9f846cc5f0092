/* The state of a process on this host, from /proc: stopped, able to run, asleep; and how much it
 * has computed. */
#ifndef PST_HEALTH_PROCESS_STATE_H
#define PST_HEALTH_PROCESS_STATE_H
#include "base/position.h"

typedef struct {
    int is_stopped;       /* SIGSTOP, or a debugger holds it */
    int can_run;          /* a thread runs, waits for a core, or for a disk */
    uint64_t main_ns, ns; /* CPU time of its main thread; of all threads */
} pst_process_state;

/* 0: the process that has signed this position cannot be seen (it has ended, or lives in another
 * PID namespace). */
int pst_process_state_read(const pst_position *of, pst_process_state *out);
#endif
