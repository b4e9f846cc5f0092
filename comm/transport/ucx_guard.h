/* What to do about a library that ends its host program: UCX calls abort() when it reads the memory
 * of a process that has just died, and the survivor would be the one that crashed. Between GUARD
 * and end, in the thread that said GUARD, an abort comes back as the second return of GUARD
 * instead; UCX must not be called again then. */
#ifndef PST_COMM_TRANSPORT_UCX_GUARD_H
#define PST_COMM_TRANSPORT_UCX_GUARD_H
#include <setjmp.h>
#include <signal.h>

/* While at least one transport is open, SIGABRT is caught and what UCX reports is kept instead of
 * printed (the user's own UCX_LOG_LEVEL wins). An abort from elsewhere ends the process as ever. */
void pst_ucx_guard_open(void);
void pst_ucx_guard_close(void);

/* 0 at first; not 0 when what follows has aborted. Costs nanoseconds: no signal mask is saved. */
#define PST_UCX_GUARD() (sigsetjmp(*pst_ucx_guard_begin(), 0))
sigjmp_buf *pst_ucx_guard_begin(void);
void pst_ucx_guard_end(void);

/* The last error that UCX reported, or a general word. */
const char *pst_ucx_guard_said(void);
#endif
