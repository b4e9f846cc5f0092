/* The launcher of several hosts: starts one launcher on each (launch_ssh.h, launch_host.c), which
 * starts the ranks there. Nothing begins before all hosts have answered. Their standard error goes
 * through here, and with it, in lines that begin with a mark, what they have to say to us; signals
 * go the other way. */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include "comm/launch/launch_ssh.h"
#include "comm/world/secret.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whoever has not answered is named after WORD, and given up after the caller's limit. What is left
 * of a job that ends has CLOSE to leave, then the end of its input, and after KILL more a
 * signal. */
#define SECOND UINT64_C(1000000000)
#define WORD_NS (8 * SECOND)
#define CLOSE_NS (5 * SECOND)
#define KILL_NS (3 * SECOND)
#define LINGER_NS (SECOND / 2)

/* How sure it is that a host is the one to blame. FAILED: it has said itself which rank and why. */
typedef enum { FINE, FOLLOWED, LOST, FAILED } host_end;

typedef struct {
    const pst_host *host;
    uint32_t first, n;
    pid_t pid; /* 0: has ended */
    /* when it had, while its standard error is still open; PST_NEVER: all is settled */
    uint64_t ended_ns;
    int in, err; /* -1: closed */
    int ready, wait_status;
    int stopped, cut; /* the signal after which its ranks have saved and left; that ended them at
                         once; 0: none */
    char port[8];
    char line[4096]; /* the beginning of a line of its standard error */
    size_t used;
    char followed[PAGE_VERDICT + 64]; /* why its first rank left; "" nothing */
} host_process;

typedef struct {
    uint32_t n, size, n_ready, live;
    host_process *host; /* [n] */
    pst_launch_signals signals;
    const pst_hosts *file;
    char secret[33];
    int running, interrupts, last_signal, said_late;
    int stopped; /* some host's */
    uint64_t interrupted_ns, began_ns;
    uint32_t wait_s;
    uint64_t close_ns, kill_ns; /* PST_NEVER: not yet */
    host_end end;
    uint32_t culprit;
} head;

/* --- talking ---------------------------------------------------------------------------------- */

static void tell(host_process *h, const char *text) {
    if (h->in < 0) return;
    /* whoever has gone is noticed otherwise */
    (void)!send(h->in, text, strlen(text), MSG_NOSIGNAL);
}

static void tell_all(head *j, const char *text) {
    for (uint32_t i = 0; i < j->n; i++) tell(&j->host[i], text);
}

static void hang_up(host_process *h) {
    if (h->in >= 0) close(h->in);
    h->in = -1;
}

static void begin_end(head *j, uint64_t grace) {
    uint64_t at = pst_monotonic_ns() + grace;
    if (at < j->close_ns) j->close_ns = at;
}

static void blame(head *j, host_end how, uint32_t host) {
    begin_end(j, CLOSE_NS);
    if (j->end >= how) return;
    j->end = how;
    j->culprit = host;
}

/* All are there: rank 0 listens, and the ranks may begin. */
static void go(head *j) {
    char text[128];
    snprintf(text, sizeof text, "go %s %s\n", j->host[0].host->address, j->host[0].port);
    tell_all(j, text);
    j->running = 1;
}

static void obey(head *j, host_process *h, const char *text) {
    if (!strncmp(text, "followed ", 9)) snprintf(h->followed, sizeof h->followed, "%s", text + 9);
    int signal;
    if (sscanf(text, "stopped %d", &signal) == 1) {
        h->stopped = signal;
        j->stopped = signal;
    } else if (sscanf(text, "cut %d", &signal) == 1) {
        h->cut = signal;
    }
    if (h->ready || sscanf(text, "ready %7s", h->port) != 1) return;
    h->ready = 1;
    if (++j->n_ready == j->n && !j->last_signal) go(j);
}

/* --- what the hosts say ----------------------------------------------------------------------- */

static void pass_on(head *j, host_process *h, size_t bytes) {
    const size_t mark = sizeof PST_LAUNCH_MARK - 1;
    char *word = memmem(h->line, bytes, PST_LAUNCH_MARK, mark); /* a rank may have died in the
                                                                   middle of a line */
    ssize_t n = write(STDERR_FILENO, h->line, word ? (size_t)(word - h->line) : bytes);
    (void)n;
    if (!word) return;
    h->line[bytes - (h->line[bytes - 1] == '\n')] = 0;
    obey(j, h, word + mark);
}

static void hear(head *j, host_process *h) {
    ssize_t n = read(h->err, h->line + h->used, sizeof h->line - 1 - h->used);
    if (n < 0 && errno == EINTR) return;
    if (n > 0) h->used += (size_t)n;
    for (char *end; h->used && ((end = memchr(h->line, '\n', h->used)) || n <= 0 ||
                                h->used == sizeof h->line - 1);) {
        size_t bytes = end ? (size_t)(end - h->line) + 1 : h->used, rest = h->used - bytes;
        char keep = h->line[bytes];
        pass_on(j, h, bytes);
        h->line[bytes] = keep;
        memmove(h->line, h->line + bytes, h->used = rest);
    }
    if (n > 0) return;
    close(h->err);
    h->err = -1;
}

/* How a host's end is to be taken. One that never was ready has not begun: whatever it said, it is
 * the one. */
static host_end judge(const host_process *h) {
    int status = WIFEXITED(h->wait_status) ? WEXITSTATUS(h->wait_status) : 255;
    if ((!status || h->stopped) && h->ready) return FINE;
    if (h->cut) return FAILED;
    if (!h->ready || status == 255) return LOST; /* 255: ssh's own */
    return *h->followed ? FOLLOWED : FAILED;
}

/* An ssh that shares a connection leaves its standard error to others: it is read for LINGER_NS
 * more. */
static void reap(head *j, uint64_t now) {
    for (uint32_t i = 0; i < j->n; i++) {
        host_process *h = &j->host[i];
        if (h->pid && waitpid(h->pid, &h->wait_status, WNOHANG) == h->pid) {
            h->pid = 0;
            h->ended_ns = now;
        }
        if (h->pid || h->ended_ns == PST_NEVER || (h->err >= 0 && now < h->ended_ns + LINGER_NS))
            continue;
        h->ended_ns = PST_NEVER;
        j->live--;
        hang_up(h);
        host_end how = judge(h);
        if (how != FINE && j->close_ns > now) blame(j, how, i); /* else it was told to go */
    }
}

/* --- signals ---------------------------------------------------------------------------------- */

static void tell_signal(host_process *h, int signal) {
    char text[32];
    snprintf(text, sizeof text, "signal %d\n", signal);
    tell(h, text);
}

/* Before they begin, hosts wait for nothing else, and hear the end of their input. */
static void forward(head *j, int signal) {
    for (uint32_t i = 0; j->running && i < j->n; i++) tell_signal(&j->host[i], signal);
}

/* As in launch_signals.c: one rank is enough to save, and a terminal that closes sends several
 * SIGHUP. */
static void interrupt(head *j, int signal) {
    uint64_t now = pst_monotonic_ns();
    if (signal == SIGUSR1) {
        if (j->running) tell_signal(&j->host[0], signal);
        return;
    }
    if (signal == SIGHUP && j->last_signal) return;
    if (j->interrupts && now - j->interrupted_ns < PST_LAUNCH_SAME_NS && signal != SIGQUIT) return;
    j->interrupted_ns = now;
    j->last_signal = signal;
    j->interrupts += signal != SIGHUP;
    if (j->interrupts > 1 || signal == SIGQUIT || !j->running)
        begin_end(j, j->running ? SECOND : 0);
    forward(j, signal);
}

static void suspend(head *j) {
    forward(j, SIGTSTP);
    kill(getpid(), SIGSTOP);
    forward(j, SIGCONT);
}

static void read_signals(head *j) {
    struct signalfd_siginfo info;
    while (read(j->signals.fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) suspend(j);
        else if (info.ssi_signo != SIGCHLD) interrupt(j, (int)info.ssi_signo);
    }
}

/* --- watching --------------------------------------------------------------------------------- */

static void check_late(head *j, uint64_t now) {
    uint64_t limit = j->began_ns + j->wait_s * SECOND, word = j->began_ns + WORD_NS;
    if (j->running || now < (limit < word ? limit : word)) return;
    for (uint32_t i = 0; i < j->n; i++) {
        const host_process *h = &j->host[i];
        if (h->ready || !h->pid) continue;
        if (now >= limit) blame(j, LOST, i);
        else if (!j->said_late)
            pst_launch_say("host %s (%s, ranks %u to %u) does not answer yet", h->host->name,
                           h->host->address, h->first, h->first + h->n - 1);
    }
    j->said_late = 1;
}

static void end_the_rest(head *j, uint64_t now) {
    if (now >= j->close_ns && j->kill_ns == PST_NEVER) {
        for (uint32_t i = 0; i < j->n; i++) hang_up(&j->host[i]);
        j->kill_ns = now + KILL_NS;
    }
    for (uint32_t i = 0; now >= j->kill_ns && i < j->n; i++) {
        host_process *h = &j->host[i];
        if (h->pid) kill(-h->pid, SIGKILL);
        if (h->err >= 0) close(h->err); /* somebody else may hold the other end */
        h->err = -1;
    }
}

static void watch(head *j, struct pollfd *fds) {
    while (j->live) {
        uint64_t now = pst_monotonic_ns();
        check_late(j, now);
        if (j->end && !j->running) begin_end(j, 0); /* nothing has begun: nothing to wait for */
        end_the_rest(j, now);
        fds[0] = (struct pollfd){.fd = j->signals.fd, .events = POLLIN};
        for (uint32_t i = 0; i < j->n; i++)
            fds[1 + i] = (struct pollfd){.fd = j->host[i].err, .events = POLLIN};
        poll(fds, j->n + 1, 200);
        read_signals(j);
        for (uint32_t i = 0; i < j->n; i++)
            if (fds[1 + i].revents && j->host[i].err >= 0) hear(j, &j->host[i]);
        reap(j, pst_monotonic_ns());
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static void say_lost(const head *j, const host_process *h) {
    char how[128];
    if (h->pid || (WIFSIGNALED(h->wait_status) && j->kill_ns != PST_NEVER))
        snprintf(how, sizeof how, "no answer within %u s", j->wait_s);
    else if (WIFSIGNALED(h->wait_status))
        snprintf(how, sizeof how, "its connection was killed by signal %d",
                 WTERMSIG(h->wait_status));
    else
        snprintf(how, sizeof how, "%s ended with status %d",
                 h->host->is_here && !getenv("PENSTOCK_SSH") ? "it" : "the connection",
                 WEXITSTATUS(h->wait_status));
    pst_launch_say("%s:%u: host %s (%s) with ranks %u to %u %s: %s", j->file->path, h->host->line,
                   h->host->name, h->host->address, h->first, h->first + h->n - 1,
                   h->ready ? "is lost" : "could not be reached or started", how);
}

/* By the user's own signal, and nothing was saved. */
static int ended_at_once(const head *j) {
    int at_once = !j->running || j->interrupts > 1 || j->last_signal == SIGQUIT;
    return j->last_signal && at_once && j->end != FAILED;
}

/* Says what nobody else has said. */
static int settle(const head *j) {
    const host_process *h = &j->host[j->culprit];
    if (ended_at_once(j)) return 128 + j->last_signal;
    switch (j->end) {
    case FINE: return j->stopped ? pst_launch_stop_exit(j->stopped) : 0;
    case FOLLOWED: pst_launch_say("%s", h->followed); return 3;
    case LOST: say_lost(j, h); return h->ready ? 3 : 2;
    default: return h->cut ? 128 + h->cut : WEXITSTATUS(h->wait_status);
    }
}

/* Ranks fill the hosts in the order of the file. */
static pst_status start_all(head *j, char *const argv[]) {
    uint32_t first = 0;
    char text[64];
    snprintf(text, sizeof text, "secret %s\n", j->secret);
    for (uint32_t i = 0; i < j->n; i++)
        j->host[i] = (host_process){.in = -1, .err = -1, .ended_ns = PST_NEVER};
    for (uint32_t i = 0; i < j->n; i++) {
        host_process *h = &j->host[i];
        const pst_host *host = &j->file->host[i];
        uint32_t left = j->size - first;
        h->host = host;
        h->first = first;
        h->n = host->slots < left ? host->slots : left;
        pst_ssh_job job = {first, h->n, j->size, argv, &j->signals.before};
        pst_ssh_process started;
        PST_TRY(pst_launch_ssh(host, &job, &started));
        h->pid = started.pid;
        h->in = started.in;
        h->err = started.err;
        h->ended_ns = 0;
        j->live++;
        tell(h, text);
        first += h->n;
    }
    return PST_OK;
}

static pst_status draw_secret(char out[33]) {
    uint8_t bytes[16];
    PST_TRY(pst_secret_random(bytes, sizeof bytes));
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return PST_OK;
}

static uint32_t hosts_for(const pst_hosts *hosts, uint32_t ranks) {
    uint32_t n = 0;
    for (uint32_t have = 0; n < hosts->n && have < ranks; n++) have += hosts->host[n].slots;
    return n;
}

pst_status pst_launch_hosts(pst_hosts *hosts, uint32_t ranks, uint32_t wait_s, char *const argv[],
                            pst_launch_end *end) {
    head j = {.size = ranks,
              .file = hosts,
              .wait_s = wait_s,
              .signals.fd = -1,
              .close_ns = PST_NEVER,
              .kill_ns = PST_NEVER};
    if (!ranks || ranks > hosts->slots)
        return pst_fail(
            PST_EINPUT,
            "%u ranks, but %s has %u slots: give more (slots=N), or ask for fewer ranks", ranks,
            hosts->path, hosts->slots);
    j.n = hosts_for(hosts, ranks);
    PST_TRY(pst_hosts_resolve(hosts, j.n));
    PST_TRY(draw_secret(j.secret));
    j.host = calloc(j.n, sizeof *j.host);
    struct pollfd *fds = calloc(j.n + 1, sizeof *fds);
    pst_status status =
        j.host && fds ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u hosts", j.n);
    fflush(NULL);
    j.began_ns = pst_monotonic_ns();
    pst_status signals = pst_launch_signals_open(&j.signals);
    if (status == PST_OK) status = signals;
    if (status == PST_OK) status = start_all(&j, argv);
    if (status != PST_OK) begin_end(&j, 0);
    if (j.live) watch(&j, fds);
    if (status == PST_OK) {
        end->exit_status = settle(&j);
        end->stopped = j.end == FINE && !ended_at_once(&j) ? j.stopped : 0;
    }
    pst_launch_signals_close(&j.signals);
    for (uint32_t i = 0; j.host && i < j.n; i++) hang_up(&j.host[i]);
    free(j.host);
    free(fds);
    return status;
}
