/* The launcher of one host: starts the ranks, waits on one signalfd for their ends and for its own
 * signals, and says which rank was the culprit. The first failure decides; the other ranks get a
 * grace period to leave by themselves. */
#include "base/clock.h"
#include "base/limit.h"
#include "comm/launch/launch_parts.h"
#include "comm/transport/ucx_sweep.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rank that stays stopped this long is considered lost. Half a second longer than the limit of
 * the peers' heartbeats, so that normally the peers notice first and exit. */
#define STOP_NS ((PST_HEARTBEAT_MS * PST_HEARTBEAT_MISSES + 500) * UINT64_C(1000000))
#define POLL_NS UINT64_C(200000000)
/* Reading data and weights has no time limit, but after this time the user is told which rank is
 * late. */
#define START_NS UINT64_C(10000000000)

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void blame_stopped(launcher *l, uint32_t rank) {
    if (pst_launch_elastic_kill(l, rank, "was stopped, so it was killed,")) return;
    pst_launch_blame(l, CULPRIT, rank, 3, "was stopped");
}

/* --- watching --------------------------------------------------------------------------------- */

/* A rank has no signal handlers before it trains: a signal to stop ends it, and with it the job.
 * There is nothing to save, and no culprit. */
static int is_end_of_start(const launcher *l, uint32_t rank, int signal) {
    int asks = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    return asks && !pst_heartbeat_page_started(l->page, rank);
}

/* The rank of a job that went on with one rank has no heartbeat to say that it has saved. */
static void note_saved(launcher *l, int wait_status) {
    const int asked = l->last_signal ? l->last_signal : SIGTERM; /* to the rank alone */
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == pst_launch_stop_exit(asked))
        l->elastic->stopped = asked;
}

static void rank_ended(launcher *l, uint32_t rank, int wait_status) {
    rank_process *r = &l->rank[rank];
    char what[128];
    r->pid = 0;
    r->stopped_ns = 0;
    l->live--;
    if (pst_launch_elastic_done(l)) {
        note_saved(l, wait_status);
        return;
    }
    if (pst_launch_elastic_left(l, rank)) return;
    if (WIFSIGNALED(wait_status)) {
        int signal = WTERMSIG(wait_status);
        l->any_killed = 1;
        snprintf(what, sizeof what, "was killed by signal %d", signal);
        if (r->killed_by_us || pst_launch_elastic_lose(l, rank, 0, what)) return;
        int asked = l->last_signal ? l->last_signal : signal;
        if (is_end_of_start(l, rank, signal)) {
            pst_launch_blame(l, CULPRIT, rank, 128 + asked, NULL);
            pst_launch_kill_ranks(l, pst_monotonic_ns());
        } else if (l->last_signal && (signal == SIGINT || signal == SIGTERM || signal == SIGHUP))
            pst_launch_blame(l, CULPRIT, rank, 128 + asked, NULL); /* the user asked for it */
        else pst_launch_blame(l, signal == SIGABRT ? ABORTED : CULPRIT, rank, 3, what);
        return;
    }
    if (WEXITSTATUS(wait_status) == PST_ELASTIC_LEFT &&
        pst_launch_elastic_lose(l, rank, 1, "left after SIGTERM"))
        return;
    int status = WEXITSTATUS(wait_status), stopped = pst_heartbeat_page_stopped(l->page);
    if (stopped && status == pst_launch_stop_exit(stopped)) status = 0; /* a normal end */
    if (!status && pst_heartbeat_page_alive(l->page, rank) && !l->ending) {
        /* a library may have called exit() */
        pst_launch_blame(l, CULPRIT, rank, 3, "exited with status 0 before the job was done");
    } else if (!status) {
        r->left_early = pst_heartbeat_page_absent(l->page, rank);
        l->any_left_early |= r->left_early;
        pst_heartbeat_page_mark_gone(l->page, rank);
    } else {
        /* on 2, 4 and 5 the rank has printed why; a rank that exits with 3 reacted to another
         * one */
        int has_said = status == 2 || status == 4 || status == 5;
        int was_told = l->last_signal && status == 128 + l->last_signal;
        snprintf(what, sizeof what, "exited with status %d", status);
        pst_launch_blame(l, status == 3 ? FOLLOWER : CULPRIT, rank, status,
                         has_said || was_told ? NULL : what);
    }
}

/* A rank that exited with status 0 before its heartbeat was open has failed if other ranks have
 * joined meanwhile, because they would wait for it. If all ranks exit this way, they had nothing to
 * do. */
static void check_left_early(launcher *l) {
    uint32_t i = 0, left = 0;
    if (!l->any_left_early || l->ending) return;
    while (i < l->n && !pst_heartbeat_page_alive(l->page, i)) i++;
    while (left < l->n && !l->rank[left].left_early) left++;
    if (i < l->n)
        pst_launch_blame(l, CULPRIT, left, 3,
                         "exited with status 0 before it joined the other ranks");
}

/* Logs once a rank that has not reached its first instruction in time; ranks that have not joined
 * come first. If none has joined, as in the suites of `bench`, no rank waits for another and none
 * is late. */
static void check_late(launcher *l, uint64_t now) {
    uint32_t late = l->n, absent = 0;
    if (!l->began_ns || l->ending) return;
    for (uint32_t i = l->own_from; i < l->own_to; i++)
        absent += pst_heartbeat_page_absent(l->page, i) != 0;
    if (absent == l->own_to - l->own_from) l->began_ns = now;
    if (now < l->began_ns + START_NS) return;
    l->began_ns = 0;
    for (uint32_t i = l->n; i-- > 0;)
        if (l->rank[i].pid && pst_launch_elastic_has_rank(l, i) &&
            !pst_heartbeat_page_started(l->page, i) &&
            (late == l->n || pst_heartbeat_page_absent(l->page, i) ||
             !pst_heartbeat_page_absent(l->page, late)))
            late = i;
    if (late == l->n) return;
    pst_launch_print("the job waits for rank %u on %s, which after %.0f s has not %s",
                     l->first + late, l->host, (double)START_NS * 1e-9,
                     pst_heartbeat_page_absent(l->page, late) ? "joined the other ranks"
                                                              : "started to compute");
}

/* Reaps our own children only. Killed ranks come before those that exited, because those may have
 * exited as a consequence. */
static void reap(launcher *l) {
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < l->n; i++) {
            rank_process *r = &l->rank[i];
            siginfo_t info = {0};
            int options = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT, status;
            if (!r->pid || waitid(P_PID, (id_t)r->pid, &info, options) || !info.si_pid) continue;
            if (pass == 0 && info.si_code == CLD_EXITED) continue;
            if (waitpid(r->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != r->pid) continue;
            if (WIFSTOPPED(status)) r->stopped_ns = pst_monotonic_ns();
            else if (WIFCONTINUED(status)) r->stopped_ns = 0;
            else rank_ended(l, i, status);
        }
}

/* A stopped rank never leaves by itself: after another failure it is the culprit or must be killed.
 * Returns when to check again. */
static uint64_t check_stopped(launcher *l, uint64_t now) {
    uint64_t next = PST_NEVER;
    uint32_t running = 0;
    for (uint32_t i = 0; i < l->n && !l->suspended; i++) {
        rank_process *r = &l->rank[i];
        running += r->pid && !r->stopped_ns;
        if (!r->pid || !r->stopped_ns) continue;
        if (now >= r->stopped_ns + STOP_NS || l->blame == FOLLOWER || l->blame == ABORTED)
            blame_stopped(l, i);
        else next = earlier(next, r->stopped_ns + STOP_NS);
    }
    if (l->ending && !l->suspended && !running && l->live && now < l->kill_ns) l->kill_ns = now;
    return next;
}

static void read_abort(launcher *l) {
    uint32_t rank;
    int status;
    char why[256], what[320];
    if (!pst_server_aborted(l->server, &rank, &status, why, sizeof why) || rank >= l->n) return;
    snprintf(what, sizeof what, "requested the end of the job (%s)", why);
    pst_launch_blame(l, CULPRIT, rank, status ? status : 5, what);
}

/* Also polls the heartbeat page: ranks that have accused another one may hang while they leave. */
static void watch_ranks(launcher *l) {
    while (l->live || pst_launch_elastic_host_is_wanted(l)) {
        if (pst_launch_elastic_host_watch(l)) pst_launch_host_cut(l);
        pst_launch_elastic_watch(l);
        pst_launch_change_watch(l);
        uint64_t now = pst_monotonic_ns(), next = earlier(now + POLL_NS, check_stopped(l, now));
        check_left_early(l);
        check_late(l, now);
        pst_launch_print_culprit(l, l->ending && now >= l->kill_ns);
        if (l->ending && now >= l->kill_ns) pst_launch_kill_ranks(l, now);
        if (l->ending) next = earlier(next, l->kill_ns);
        int other = -1;
        if (l->server) other = pst_server_abort_fd(l->server);
        else if (l->hosts && !l->control_ended) other = l->hosts->control;
        struct pollfd fds[2 + PST_LAUNCH_CHANGE_FDS] = {{.fd = l->signals.fd, .events = POLLIN},
                                                        {.fd = other, .events = POLLIN}};
        const uint32_t n = 2 + pst_launch_change_fds(l, fds + 2);
        poll(fds, n, next <= now ? 0 : (int)((next - now) / 1000000 + 1));
        pst_launch_read_signals(l);
        if (fds[1].revents && l->server) read_abort(l);
        if (fds[1].revents && l->hosts) pst_launch_host_read(l);
        pst_launch_read_verdict(l);
        reap(l);
        pst_launch_read_verdict(l);
    }
}

/* --- launching -------------------------------------------------------------------------------- */

/* ELASTIC_FILES: shared pages, sockets; the memory files of each slot come with them. */
enum { LAUNCHER_FILES = 24, LAUNCHER_TASKS = 3, ELASTIC_FILES = 8 };

/* Processes that start with the job; the other slots of an elastic job are free. */
static uint32_t processes(const launcher *l) {
    if (l->elastic && !l->hosts) return l->elastic->job->ranks + l->elastic->job->spares;
    return l->own_to - l->own_from;
}

/* Limits of the launcher and its ranks, which inherit them. One connection per rank; between hosts
 * UCX has two per rank of another host. */
static pst_status check_limits(const launcher *l) {
    pst_limit_needs needs = pst_limit_of_rank(2, 1, 0);
    if (l->hosts) needs.files += 2 * (uint64_t)(l->hosts->size - l->n);
    if (needs.files < LAUNCHER_FILES + (uint64_t)l->n)
        needs.files = LAUNCHER_FILES + (uint64_t)l->n;
    if (l->elastic) needs.files += ELASTIC_FILES + PST_ELASTIC_FILES * (uint64_t)l->n;
    needs.tasks = LAUNCHER_TASKS + processes(l) * (1 + needs.tasks);
    return pst_limit_check(&needs);
}

static pst_status prepare(launcher *l) {
    PST_TRY(check_limits(l));
    PST_TRY(pst_launch_signals_open(&l->signals));
    l->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (l->null_fd < 0) return pst_fail(PST_ENOMEM, "cannot open /dev/null for the launcher: %m");
    if (l->elastic) return pst_launch_elastic_open(l);
    PST_TRY(pst_heartbeat_page_open(l->n, &l->page_fd, &l->page));
    return l->hosts ? PST_OK : pst_server_open(l->n, l->host, &l->server);
}

static void release(launcher *l) {
    pst_server_close(l->server);
    pst_launch_change_close(l);
    if (l->elastic) pst_launch_elastic_close(l);
    else pst_heartbeat_page_close(l->page);
    if (l->page_fd >= 0) close(l->page_fd);
    if (l->null_fd >= 0) close(l->null_fd);
    pst_launch_signals_close(&l->signals);
    free(l->rank);
}

/* The signal after which the ranks have saved; 0: none. */
static int stop_of(const launcher *l) {
    int signal = pst_heartbeat_page_stopped(l->page);
    return signal || !l->elastic ? signal : l->elastic->stopped;
}

static void finish(launcher *l, pst_launch_end *end) {
    pst_launch_decide_blame(l);
    const char *note = pst_heartbeat_page_note(l->page);
    int killed = l->interrupts > 1 || l->last_signal == SIGQUIT;
    *end = (pst_launch_end){0};
    if (l->blame) end->exit_status = l->exit_status;
    else if (killed) end->exit_status = 128 + l->last_signal;
    else if ((end->stopped = stop_of(l))) end->exit_status = pst_launch_stop_exit(end->stopped);
    if (note && end->exit_status == pst_status_exit(PST_EPEER)) pst_launch_print("%s", note);
}

static pst_status run(launcher *l, pst_launch_end *end) {
    l->page_fd = l->signals.fd = l->null_fd = -1;
    if (!l->n || l->n > 65535)
        return pst_fail(PST_EINPUT, "cannot start %u ranks; expected 1 to 65535", l->n);
    l->own_to = l->n;
    if (l->hosts && l->elastic) {
        l->own_from = l->hosts->first;
        l->own_to = l->own_from + l->n;
        l->n = l->hosts->size;
    } else if (l->hosts) l->first = l->hosts->first;
    if (l->hosts) snprintf(l->host, sizeof l->host, "%.63s", l->hosts->name);
    else if (gethostname(l->host, sizeof l->host - 1)) strcpy(l->host, "localhost");
    l->rank = calloc(l->n, sizeof *l->rank);
    if (!l->rank) return pst_fail(PST_ENOMEM, "no memory for %u ranks", l->n);
    l->began_ns = pst_monotonic_ns();
    fflush(NULL);
    pst_status status = prepare(l);
    const uint32_t end_of_first = l->own_from + processes(l);
    for (uint32_t i = l->own_from; status == PST_OK && i < end_of_first; i++)
        status = pst_launch_start(l, i);
    if (status != PST_OK && l->live) pst_launch_kill_ranks(l, pst_monotonic_ns());
    watch_ranks(l);
    if (l->any_killed) pst_ucx_sweep();
    if (status == PST_OK) finish(l, end);
    release(l);
    return status;
}

pst_status pst_launch_ranks(uint32_t n, pst_launch_host_job *hosts, char *const argv[],
                            uint32_t grace_ms, pst_launch_end *end) {
    launch_elastic e = {.fd = -1, .change = {.listener = -1, .client = -1}};
    launcher l = {.n = n, .hosts = hosts, .argv = argv, .grace_ns = grace_ms * UINT64_C(1000000)};
    pst_launch_elastic job = {.min = 1};
    if (hosts && hosts->n_host) { /* an elastic run, which has a table of ranks */
        job.ranks = hosts->size;
        job.max = hosts->size;
        job.ranks_of = hosts->ranks_of;
        l.elastic = &e;
    }
    e.job = &job;
    return run(&l, end);
}

pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms,
                            pst_launch_end *end) {
    return pst_launch_ranks(n, NULL, argv, grace_ms, end);
}

/* There is a slot for each process that the job may have at once. */
pst_status pst_launch_local_elastic(const pst_launch_elastic *job, char *const argv[],
                                    uint32_t grace_ms, pst_launch_end *end) {
    launch_elastic e = {.job = job, .fd = -1, .change = {.listener = -1, .client = -1}};
    launcher l = {.n = job->max + job->spares,
                  .argv = argv,
                  .elastic = &e,
                  .grace_ns = grace_ms * UINT64_C(1000000)};
    return run(&l, end);
}

int pst_launch_stop_exit(int signal) { return signal == SIGINT ? 0 : 128 + signal; }

/* Ends this process by the signal, as an interrupted program ends; for SIGQUIT without a core dump,
 * which would show nothing useful. */
static void end_by(int signal) {
    if (signal == SIGQUIT) setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(signal);
}

pst_status pst_launch_ended(const pst_launch_end *end) {
    int exit_status = end->exit_status;
    if (!exit_status || end->stopped) return PST_OK;
    if (exit_status > 128) end_by(exit_status - 128);
    for (pst_status s = PST_EINPUT; s <= PST_EINTERNAL; s++)
        if (pst_status_exit(s) == exit_status) {
            pst_error_clear();
            return s;
        } /* the ranks and the launcher have printed why */
    return pst_fail(PST_EINTERNAL, "the job failed with exit status %d", exit_status);
}
