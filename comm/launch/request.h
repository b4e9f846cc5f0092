/* Requests to the launcher of an elastic run that somebody else makes, such as `penstock resize`: a
 * socket without a file, whose name follows from the run's folder. Only the same user can use it.
 *
 * Requests and answers are lines:
 *     state                    state RANKS LIVING MIN MAX KNOWN R0 ... (ranks_of[0..KNOWN])
 *     resize N FROM R ...      ranks_of[FROM..N]; then the answer below
 *     drain RANK               the process of this rank leaves; the same answer
 * answered when the change is done by "changed FROM RANKS STEP SECONDS PREDICTED", or by
 * "refused WHY" when nothing was changed. */
#ifndef PST_COMM_LAUNCH_REQUEST_H
#define PST_COMM_LAUNCH_REQUEST_H
#include "base/status.h"
#include <stddef.h>

/* listen: the launcher's side: *fd is non-blocking; accept: -1: nobody asks. ENOMEM. */
pst_status pst_request_listen(const char *folder, int *fd);
int pst_request_accept(int listener);
/* The other side. *fd: -1: no elastic run has this folder. EINPUT: the folder cannot be read. */
pst_status pst_request_open(const char *folder, int *fd);
/* Sends a line (with its end), and waits for the answer, without its end. EPEER: the run has ended
 * meanwhile. */
pst_status pst_request_ask(int fd, const char *line, char *answer, size_t bytes);
#endif
