/* The state of a process on this host, from /proc: stopped, able to run, asleep; and its CPU
 * time. */
#ifndef PST_HEALTH_PROCESS_STATE_H
#define PST_HEALTH_PROCESS_STATE_H
#include "base/position.h"

typedef struct {
    int is_stopped;       /* stopped by SIGSTOP or by a debugger */
    int can_run;          /* some thread runs, or waits for a processor or a disk */
    uint64_t main_ns, ns; /* CPU time of the main thread; of all threads */
} pst_process_state;

/* Reads the state of the process that publishes the position `of`. Returns 0 if the process is not
 * visible: it has ended, or is in another PID namespace. */
int pst_process_state_read(const pst_position *of, pst_process_state *out);
#endif
