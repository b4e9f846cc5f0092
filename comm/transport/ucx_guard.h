/* Catches abort() in UCX: UCX aborts when it reads the memory of a process that has just died,
 * which would end the surviving process too. In the thread that called PST_UCX_GUARD, an abort
 * before pst_ucx_guard_end makes PST_UCX_GUARD return a second time instead. After that UCX must
 * not be called again. */
#ifndef PST_COMM_TRANSPORT_UCX_GUARD_H
#define PST_COMM_TRANSPORT_UCX_GUARD_H
#include <setjmp.h>
#include <signal.h>

/* While at least one transport is open, SIGABRT is caught, and UCX's error messages are kept
 * instead of printed (unless the user has set UCX_LOG_LEVEL). An abort from elsewhere ends the
 * process as usual. */
void pst_ucx_guard_open(void);
void pst_ucx_guard_close(void);

/* Returns 0 when called; returns again, with a value other than 0, if code after the call aborts.
 * Takes a few nanoseconds, because no signal mask is saved. */
#define PST_UCX_GUARD() (sigsetjmp(*pst_ucx_guard_begin(), 0))
sigjmp_buf *pst_ucx_guard_begin(void);
void pst_ucx_guard_end(void);

/* The last error message of UCX, or a general text. Static. */
const char *pst_ucx_guard_error(void);
#endif
