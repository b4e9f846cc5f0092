/* The local launcher: starts the ranks, waits on one signalfd for everything that happens to them or to itself, and
 * says which rank was to blame. The first to fail decides; the others get a grace to leave by themselves. */
#include "comm/launch.h"
#include "base/clock.h"
#include "comm/heartbeat_page.h"
#include "comm/launch_environment.h"
#include "comm/server.h"
#include "comm/ucx_sweep.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rank that stays stopped this long is lost. Half a second later than its peers' heartbeats, so that they leave by
 * what they have seen themselves; this is for those who do not look. */
#define STOP_NS ((PST_HEARTBEAT_MS * PST_HEARTBEAT_MISSES + 500) * UINT64_C(1000000))
#define GRACE_AFTER_KILL_NS UINT64_C(1000000000)
#define LOOK_NS UINT64_C(200000000)
/* Reading data and weights has no limit, but whoever waits hears what for. */
#define START_NS UINT64_C(10000000000)

/* Who is to blame, ever more certain: a rank that left with status 3 mostly followed another one. So may one that
 * aborted: UCX does when it reads the memory of a process that is just going. */
typedef enum { NOBODY, FOLLOWER, ABORTED, CULPRIT } certainty;

typedef struct {
    pid_t pid;           /* 0: not running */
    uint64_t stopped_ns; /* since when it is stopped, 0 when it runs */
    int killed_by_us, left_early;
} rank_process;

typedef struct {
    uint32_t n, live;
    char host[64];
    char *const *argv;
    uint64_t grace_ns;
    rank_process *rank; /* [n] */
    pst_server *server;
    pst_heartbeat_page *page;
    int page_fd, signal_fd, null_fd;
    sigset_t before, waited; /* signal masks of the caller; what signal_fd reads */
    struct sigaction child;  /* the caller's; ignored children could not be waited for */
    int interrupts, last_signal;
    uint64_t interrupted_ns; /* when the last one came */
    int any_killed;     /* by whatever signal */
    int any_left_early; /* some rank's left_early: status 0 before its heartbeat had begun */
    uint64_t began_ns;  /* 0: who is late has been named, or nobody is */
    int ending;         /* somebody failed: the rest has until kill_ns */
    uint64_t kill_ns;
    certainty blame;
    uint32_t culprit;
    char what[320]; /* has happened to it, to be said; "" nothing */
    int exit_status;
} launcher;

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* --- blame ------------------------------------------------------------------------------------------------------- */

static void PST_PRINTF(1, 2) say_line(const char *format, ...) {
    char line[PAGE_VERDICT + 512] = "penstock: ";
    va_list args;
    va_start(args, format);
    vsnprintf(line + 10, sizeof line - 12, format, args);
    va_end(args);
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written; /* nobody is left to tell */
}

/* "penstock: rank 2 on HOST was killed by signal 9 during F of h.3.attn, micro-batch 3, step 14; rank 3 waits for it in ...",
 * one write; by its last instruction alone when no other rank could tell. */
static void say(const launcher *l, uint32_t rank, const char *what) {
    char last[64];
    const char *told = pst_heartbeat_page_told(l->page, rank);
    say_line("rank %u on %s %s during %s", rank, l->host, what,
             told ? told : pst_heartbeat_page_where(l->page, rank, last, sizeof last));
}

/* Waits for what the others can tell, until they have gone. */
static void say_culprit(launcher *l, int at_last) {
    if (!*l->what || (!at_last && !pst_heartbeat_page_told(l->page, l->culprit))) return;
    say(l, l->culprit, l->what);
    *l->what = 0;
}

static void begin_end(launcher *l, uint64_t now) {
    if (l->ending) return;
    l->ending = 1;
    l->kill_ns = now + l->grace_ns;
}

/* what: NULL when the rank has said itself why. */
static void blame(launcher *l, certainty how_sure, uint32_t rank, int exit_status, const char *what) {
    if (how_sure == CULPRIT) pst_heartbeat_page_mark_dead(l->page, rank);
    else pst_page_fault(l->page, FAULT_FAILED, rank); /* what it may have found out about another one stays */
    begin_end(l, pst_monotonic_ns());
    if (l->blame >= how_sure) return;
    l->blame = how_sure;
    l->culprit = rank;
    l->exit_status = exit_status;
    if (how_sure == CULPRIT && what) snprintf(l->what, sizeof l->what, "%s", what);
}

static void blame_stopped(launcher *l, uint32_t rank) { blame(l, CULPRIT, rank, 3, "was stopped"); }

/* The ranks have found out which of them holds the others up. One that is stuck will not leave: it is waited for no longer
 * than the others. */
static void read_verdict(launcher *l) {
    uint32_t rank;
    int is_stuck;
    const char *verdict;
    if (!pst_heartbeat_page_hung(l->page, &rank, &is_stuck, &verdict)) return;
    if (l->blame < CULPRIT) {
        l->blame = CULPRIT;
        l->culprit = rank;
        l->exit_status = 3;
        say_line("%s", verdict);
        begin_end(l, pst_monotonic_ns());
    }
    if (is_stuck && l->live == 1 && l->rank[rank].pid && !l->rank[rank].killed_by_us) l->kill_ns = 0;
}

/* Everybody has gone and nobody was caught in the act: perhaps the ranks themselves found who fell silent. */
static void settle_blame(launcher *l) {
    uint32_t silent;
    say_culprit(l, 1);
    if (l->blame != FOLLOWER && l->blame != ABORTED) return;
    if (pst_heartbeat_page_silent(l->page, &silent)) say(l, l->culprit = silent, "fell silent");
    else if (l->blame == ABORTED) say(l, l->culprit, "was killed by signal 6");
    else say(l, l->culprit, "exited with status 3");
}

/* --- starting ---------------------------------------------------------------------------------------------------- */

static pst_status block_signals(launcher *l) {
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    sigemptyset(&l->waited);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) sigaddset(&l->waited, wanted[i]);
    pthread_sigmask(SIG_BLOCK, &l->waited, &l->before);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &l->child);
    l->signal_fd = signalfd(-1, &l->waited, SFD_CLOEXEC | SFD_NONBLOCK);
    l->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (l->signal_fd < 0 || l->null_fd < 0) return pst_fail(PST_ENOMEM, "no descriptors for the launcher: %m");
    return PST_OK;
}

/* In the child, where other threads' locks are held for ever: system calls only. */
static void become_rank(const launcher *l, const char *program, char **env, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3); /* the launcher died before the line above */
    setpgid(0, 0);
    dup2(l->null_fd, STDIN_FILENO);
    fcntl(l->page_fd, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    execve(program, l->argv, env);
    execve("/proc/self/exe", l->argv, env);
    _exit(127);
}

static pst_status start_rank(launcher *l, uint32_t rank) {
    char program[4096], **env;
    ssize_t used = readlink("/proc/self/exe", program, sizeof program - 1);
    if (used <= 0) return pst_fail(PST_ENOMEM, "cannot start ranks: /proc/self/exe: %m (penstock doctor)");
    program[used] = 0; /* its name, not "exe", shall stand in ps */
    PST_TRY(pst_launch_environment(l->server, rank, l->page_fd, &env));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become_rank(l, program, env, parent);
    int why = errno;
    pst_launch_environment_free(env);
    if (pid < 0) return pst_fail(PST_ENOMEM, "cannot start rank %u: %s", rank, strerror(why));
    setpgid(pid, pid); /* also here: whoever of both comes first */
    l->rank[rank].pid = pid;
    l->live++;
    return PST_OK;
}

/* --- signals ----------------------------------------------------------------------------------------------------- */

/* The whole group of a rank: what it started goes with it. */
static void signal_ranks(launcher *l, int signal) {
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->rank[i].pid) continue;
        if (signal == SIGKILL) l->rank[i].killed_by_us = 1;
        kill(-l->rank[i].pid, signal);
    }
}

static void kill_ranks(launcher *l, uint64_t now) {
    signal_ranks(l, SIGKILL);
    l->ending = 1;
    l->kill_ns = now + GRACE_AFTER_KILL_NS; /* again, should one have been between fork and setpgid */
}

/* Ctrl-Z: the ranks stop with us and go on with us. Their heartbeats stand still together, so nobody is missed. */
static void suspend(launcher *l) {
    signal_ranks(l, SIGTSTP);
    kill(getpid(), SIGSTOP);
    signal_ranks(l, SIGCONT);
    for (uint32_t i = 0; i < l->n; i++)
        if (l->rank[i].stopped_ns) l->rank[i].stopped_ns = pst_monotonic_ns();
}

static void interrupt(launcher *l, int signal) {
    uint64_t now = pst_monotonic_ns();
    if (l->interrupts && now - l->interrupted_ns < PST_LAUNCH_SAME_NS && signal != SIGQUIT) return;
    l->interrupted_ns = now;
    l->last_signal = signal;
    if (++l->interrupts == 1 && signal != SIGQUIT) signal_ranks(l, signal == SIGHUP ? SIGTERM : signal);
    else kill_ranks(l, now);
}

static void read_signals(launcher *l) {
    struct signalfd_siginfo info;
    while (read(l->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) suspend(l);
        else if (info.ssi_signo != SIGCHLD) interrupt(l, (int)info.ssi_signo);
    }
}

/* --- watching ---------------------------------------------------------------------------------------------------- */

static void rank_ended(launcher *l, uint32_t rank, int wait_status) {
    rank_process *r = &l->rank[rank];
    char what[128];
    r->pid = 0;
    r->stopped_ns = 0;
    l->live--;
    if (WIFSIGNALED(wait_status)) {
        int signal = WTERMSIG(wait_status);
        l->any_killed = 1;
        snprintf(what, sizeof what, "was killed by signal %d", signal);
        if (r->killed_by_us) return;
        if (l->interrupts && (signal == SIGINT || signal == SIGTERM))
            blame(l, CULPRIT, rank, 128 + l->last_signal, NULL); /* the user wanted it */
        else blame(l, signal == SIGABRT ? ABORTED : CULPRIT, rank, 3, what);
        return;
    }
    int status = WEXITSTATUS(wait_status);
    if (!status && pst_heartbeat_page_alive(l->page, rank) && !l->ending) {
        blame(l, CULPRIT, rank, 3, "exited with status 0 without a word"); /* a library that called exit(), say */
    } else if (!status) {
        r->left_early = pst_heartbeat_page_absent(l->page, rank);
        l->any_left_early |= r->left_early;
        pst_heartbeat_page_mark_gone(l->page, rank);
    } else {
        int has_said = status == 2 || status == 4 || status == 5; /* why, on stderr; and 3 follows another */
        snprintf(what, sizeof what, "exited with status %d", status);
        blame(l, status == 3 ? FOLLOWER : CULPRIT, rank, status, has_said ? NULL : what);
    }
}

/* A rank that went with status 0 before it had come to the others is a fault when they have come together meanwhile and
 * would wait for it; ranks that all leave so had nothing to do. */
static void check_left_early(launcher *l) {
    uint32_t i = 0, left = 0;
    if (!l->any_left_early || l->ending) return;
    while (i < l->n && !pst_heartbeat_page_alive(l->page, i)) i++;
    while (left < l->n && !l->rank[left].left_early) left++;
    if (i < l->n) blame(l, CULPRIT, left, 3, "exited with status 0 before it had joined the others");
}

/* Says once which rank has not come as far as its first instruction; those that have not come to the others first. */
static void check_late(launcher *l, uint64_t now) {
    uint32_t late = l->n;
    if (!l->began_ns || l->ending || now < l->began_ns + START_NS) return;
    l->began_ns = 0;
    for (uint32_t i = l->n; i-- > 0;)
        if (l->rank[i].pid && !pst_heartbeat_page_started(l->page, i) &&
            (late == l->n || pst_heartbeat_page_absent(l->page, i) || !pst_heartbeat_page_absent(l->page, late)))
            late = i;
    if (late == l->n) return;
    say_line("waiting for rank %u on %s: after %.0f s it has not %s yet", late, l->host, (double)START_NS * 1e-9,
             pst_heartbeat_page_absent(l->page, late) ? "joined the others" : "begun to compute");
}

/* Reaps our own children only. Those killed are looked at before those that exited: they may have pulled them along. */
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

/* Stopped ranks never leave by themselves: once somebody has failed they are to blame or in the way. Returns when to
 * look again. */
static uint64_t check_stopped(launcher *l, uint64_t now) {
    uint64_t next = PST_NEVER;
    uint32_t running = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        rank_process *r = &l->rank[i];
        running += r->pid && !r->stopped_ns;
        if (!r->pid || !r->stopped_ns) continue;
        if (now >= r->stopped_ns + STOP_NS || l->blame == FOLLOWER || l->blame == ABORTED) blame_stopped(l, i);
        else next = least(next, r->stopped_ns + STOP_NS);
    }
    if (l->ending && !running && l->live && now < l->kill_ns) l->kill_ns = now;
    return next;
}

static void read_abort(launcher *l) {
    uint32_t rank;
    int status;
    char why[256], what[320];
    if (!pst_server_aborted(l->server, &rank, &status, why, sizeof why) || rank >= l->n) return;
    snprintf(what, sizeof what, "ended the job (%s)", why);
    blame(l, CULPRIT, rank, status ? status : 5, what);
}

/* Looks at the page by itself, too: ranks that have found out who holds them up may be held up in leaving. */
static void watch_ranks(launcher *l) {
    while (l->live) {
        uint64_t now = pst_monotonic_ns(), next = least(now + LOOK_NS, check_stopped(l, now));
        check_left_early(l);
        check_late(l, now);
        say_culprit(l, l->ending && now >= l->kill_ns);
        if (l->ending && now >= l->kill_ns) kill_ranks(l, now);
        if (l->ending) next = least(next, l->kill_ns);
        struct pollfd fds[2] = {{.fd = l->signal_fd, .events = POLLIN},
                                {.fd = pst_server_abort_fd(l->server), .events = POLLIN}};
        poll(fds, 2, next <= now ? 0 : (int)((next - now) / 1000000 + 1));
        read_signals(l);
        if (fds[1].revents) read_abort(l);
        read_verdict(l);
        reap(l);
        read_verdict(l);
    }
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static pst_status prepare(launcher *l) {
    PST_TRY(block_signals(l));
    PST_TRY(pst_heartbeat_page_open(l->n, &l->page_fd, &l->page));
    return pst_server_open(l->n, l->host, &l->server);
}

static void release(launcher *l) {
    pst_server_close(l->server);
    pst_heartbeat_page_close(l->page);
    if (l->page_fd >= 0) close(l->page_fd);
    if (l->signal_fd >= 0) close(l->signal_fd);
    if (l->null_fd >= 0) close(l->null_fd);
    sigaction(SIGCHLD, &l->child, NULL);
    pthread_sigmask(SIG_SETMASK, &l->before, NULL);
    free(l->rank);
}

pst_status pst_launch_local(uint32_t n, char *const argv[], uint32_t grace_ms, int *exit_status) {
    launcher l = {.n = n, .argv = argv, .page_fd = -1, .signal_fd = -1, .null_fd = -1};
    if (!n || n > 65535) return pst_fail(PST_EINPUT, "cannot start %u ranks: 1 to 65535", n);
    l.grace_ns = grace_ms * UINT64_C(1000000);
    if (gethostname(l.host, sizeof l.host - 1)) strcpy(l.host, "localhost");
    l.rank = calloc(n, sizeof *l.rank);
    if (!l.rank) return pst_fail(PST_ENOMEM, "no memory for %u ranks", n);
    l.began_ns = pst_monotonic_ns();
    fflush(NULL);
    pst_status status = prepare(&l);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) status = start_rank(&l, i);
    if (status != PST_OK && l.live) kill_ranks(&l, pst_monotonic_ns());
    if (l.server) watch_ranks(&l);
    if (l.any_killed) pst_ucx_sweep();
    if (status == PST_OK) {
        settle_blame(&l);
        *exit_status = l.blame ? l.exit_status : l.interrupts > 1 ? 128 + l.last_signal : 0;
        const char *note = pst_heartbeat_page_note(l.page);
        if (note && *exit_status == pst_status_exit(PST_EPEER)) say_line("%s", note);
    }
    release(&l);
    return status;
}
