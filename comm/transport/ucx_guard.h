/* Protection from a library that ends its host program: UCX calls abort() when it reads the memory
 * of a process that has just died, so the survivor would crash. Between GUARD and end, in the
 * thread that called GUARD, an abort makes GUARD return a second time instead. UCX must not be
 * called after that. */
#ifndef PST_COMM_TRANSPORT_UCX_GUARD_H
#define PST_COMM_TRANSPORT_UCX_GUARD_H
#include <setjmp.h>
#include <signal.h>

/* While at least one transport is open, SIGABRT is caught, and UCX's error messages are kept
 * instead of printed (unless the user has set UCX_LOG_LEVEL). An abort from elsewhere ends the
 * process as usual. */
void pst_ucx_guard_open(void);
void pst_ucx_guard_close(void);

/* Returns 0 at first; not 0 when the code after it has aborted. Costs nanoseconds: no signal mask
 * is saved. */
#define PST_UCX_GUARD() (sigsetjmp(*pst_ucx_guard_begin(), 0))
sigjmp_buf *pst_ucx_guard_begin(void);
void pst_ucx_guard_end(void);

/* The last error that UCX reported, or a general text. */
const char *pst_ucx_guard_error(void);
#endif
