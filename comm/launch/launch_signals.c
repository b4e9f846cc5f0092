/* Signals of the launcher: it reads them from a descriptor and forwards them to the ranks
 * (launch.h). */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define GRACE_AFTER_KILL_NS UINT64_C(1000000000)

pst_status pst_launch_signals_open(pst_launch_signals *s) {
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1};
    struct sigaction now;
    sigemptyset(&s->watched);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        /* A blocked signal would arrive even if it is ignored, by nohup or for a background job of
         * a shell. */
        int ends = wanted[i] != SIGCHLD && wanted[i] != SIGTSTP && wanted[i] != SIGUSR1;
        int ignored = ends && !sigaction(wanted[i], NULL, &now) && now.sa_handler == SIG_IGN;
        if (!ignored) sigaddset(&s->watched, wanted[i]);
    }
    pthread_sigmask(SIG_BLOCK, &s->watched, &s->before);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &s->child);
    s->fd = signalfd(-1, &s->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->fd >= 0
               ? PST_OK
               : pst_fail(PST_ENOMEM, "cannot open a signal descriptor for the launcher: %m");
}

void pst_launch_signals_close(pst_launch_signals *s) {
    if (s->fd >= 0) close(s->fd);
    sigaction(SIGCHLD, &s->child, NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

void pst_launch_signal_ranks(launcher *l, int signal) {
    const int stops = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
    if (stops && l->elastic) atomic_store(&l->elastic->page->is_stopping, 1);
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->rank[i].pid) continue;
        if (signal == SIGKILL) l->rank[i].killed_by_us = 1;
        kill(-l->rank[i].pid, signal);
    }
}

void pst_launch_kill_ranks(launcher *l, uint64_t now) {
    pst_launch_signal_ranks(l, SIGKILL);
    l->ending = 1;
    /* kill again later, in case a rank was between fork and setpgid */
    l->kill_ns = now + GRACE_AFTER_KILL_NS;
}

void pst_launch_suspend(launcher *l, int stop) {
    pst_launch_signal_ranks(l, stop ? SIGTSTP : SIGCONT);
    l->suspended = stop;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->rank[i].stopped_ns) l->rank[i].stopped_ns = pst_monotonic_ns();
}

/* Ctrl-Z: the ranks stop and continue with the launcher. All heartbeats pause together, so no rank
 * seems dead. */
static void suspend(launcher *l) {
    pst_launch_suspend(l, 1);
    kill(getpid(), SIGSTOP);
    pst_launch_suspend(l, 0);
}

/* A closing terminal sends several SIGHUP; unlike a second SIGINT they do not mean "at once". */
static void hang_up(launcher *l) {
    if (l->last_signal) return;
    l->last_signal = SIGHUP;
    pst_launch_signal_ranks(l, SIGHUP);
}

/* One rank is enough: it makes all of them save. */
static void save(launcher *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->rank[i].pid || !pst_launch_elastic_has_rank(l, i)) continue;
        kill(l->rank[i].pid, SIGUSR1);
        return;
    }
}

static void end_ranks(launcher *l, int signal) {
    uint64_t now = pst_monotonic_ns();
    if (l->interrupts && now - l->interrupted_ns < PST_LAUNCH_SAME_NS && signal != SIGQUIT) return;
    l->interrupted_ns = now;
    l->last_signal = signal;
    if (++l->interrupts == 1 && signal != SIGQUIT) pst_launch_signal_ranks(l, signal);
    else pst_launch_kill_ranks(l, now);
}

void pst_launch_interrupt(launcher *l, int signal) {
    if (signal == SIGUSR1) save(l);
    else if (signal == SIGHUP) hang_up(l);
    else end_ranks(l, signal);
}

void pst_launch_read_signals(launcher *l) {
    struct signalfd_siginfo info;
    while (read(l->signals.fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) suspend(l);
        else if (info.ssi_signo == SIGTERM && pst_launch_elastic_host_drain(l)) continue;
        else if (info.ssi_signo != SIGCHLD) pst_launch_interrupt(l, (int)info.ssi_signo);
    }
}
