/* See ucx_guard.h. */
#include "comm/transport/ucx_guard.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

static sigjmp_buf back;
static pthread_t guarded;
static volatile sig_atomic_t active;
static int n_open;
static struct sigaction before;
static char last_error[256];

/* Catches UCX's abort(): abort() raises the signal in the calling thread; a signal from another
 * process is not UCX's. POSIX allows a handler to leave abort() by a jump. SIGABRT is unblocked
 * here, because sigsetjmp saved no mask. */
static void on_abort(int number, siginfo_t *info, void *context) {
    (void)context;
    if (active && info->si_pid == getpid() && pthread_equal(guarded, pthread_self())) {
        active = 0;
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, number);
        pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
        siglongjmp(back, 1);
    }
    signal(number, SIG_DFL);
    raise(number); /* ends the process when this handler has returned */
}

static ucs_log_func_rc_t keep(const char *file, unsigned line, const char *function,
                              ucs_log_level_t level, const ucs_log_component_config_t *component,
                              const char *format, va_list args) {
    (void)file;
    (void)line;
    (void)function;
    (void)component;
    int ours = active && pthread_equal(guarded, pthread_self());
    if (level > UCS_LOG_LEVEL_ERROR || !ours) return UCS_LOG_FUNC_RC_CONTINUE;
    vsnprintf(last_error, sizeof last_error, format, args);
    return UCS_LOG_FUNC_RC_STOP;
}

/* The handler runs on the alternative stack if there is one: a signal may arrive while oneDNN
 * computes, which keeps live data below the stack pointer. */
void pst_ucx_guard_open(void) {
    struct sigaction action = {.sa_sigaction = on_abort, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (n_open++) return;
    last_error[0] = 0;
    sigaction(SIGABRT, &action, &before);
    if (!getenv("UCX_LOG_LEVEL")) ucs_log_push_handler(keep);
}

void pst_ucx_guard_close(void) {
    if (--n_open) return;
    sigaction(SIGABRT, &before, NULL);
    if (!getenv("UCX_LOG_LEVEL")) ucs_log_pop_handler();
}

sigjmp_buf *pst_ucx_guard_begin(void) {
    guarded = pthread_self();
    active = 1;
    return &back;
}

void pst_ucx_guard_end(void) { active = 0; }

const char *pst_ucx_guard_error(void) { return last_error[0] ? last_error : "UCX called abort()"; }
