/* The local launcher: an embedded PMIx server that starts ranks of this very program, watches them, and names the one
 * that failed. */
#ifndef PST_COMM_LAUNCH_H
#define PST_COMM_LAUNCH_H
#include "base/status.h"
#include <stdint.h>

/* Starts n ranks of argv (argv[0] through /proc/self/exe) and waits for them. stdin is /dev/null; stdout and stderr
 * are inherited. SIGINT and SIGTERM are forwarded to every rank (the terminal's own Ctrl-C reaches them only once:
 * ranks run in a process group of their own); a second one kills them. When a rank is killed or exits with a status
 * other than 0, the others get `grace_ms` to leave by themselves (they learn of it through the heartbeat page), then
 * SIGKILL. *exit_status: 0 when all were 0; else that of the first rank that failed, 3 when it was killed by a signal.
 * The culprit is named on stderr: rank, host, signal or status, and its last instruction from the heartbeat page. */
pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms, int *exit_status);
#endif
