/* The launcher of several hosts: starts one launcher on each (launch_ssh.h, launch_host.c), which
 * starts the ranks there. No rank starts before all hosts have answered. The hosts' standard error
 * passes through here; lines that begin with a mark are reports to this launcher. Signals are sent
 * to the hosts as lines. */
#include "base/clock.h"
#include "comm/launch/launch_hosts_parts.h"
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

/* A host that has not answered is named after LATE_NS, and given up after the caller's limit. When
 * a job ends, the hosts have PST_LAUNCH_CLOSE_NS to leave; then their input is closed, and KILL_NS
 * later they are killed. */
#define SECOND UINT64_C(1000000000)
#define LATE_NS (8 * SECOND)
#define KILL_NS (3 * SECOND)
#define LINGER_NS (SECOND / 2)

/* --- sending ---------------------------------------------------------------------------------- */

static void send_all(hosts_job *j, const char *text) {
    for (uint32_t i = 0; i < j->n; i++) pst_launch_hosts_send(&j->host[i], text);
}

static void hang_up(host_process *h) {
    if (h->in >= 0) close(h->in);
    h->in = -1;
}

/* All hosts are ready and rank 0 listens: the ranks may start. */
static void start_ranks(hosts_job *j) {
    char text[128];
    pst_hosts_elastic_tell(j);
    snprintf(text, sizeof text, "go %s %s\n", j->host[0].host->address, j->host[0].port);
    send_all(j, text);
    j->running = 1;
}

static void obey(hosts_job *j, host_process *h, const char *text) {
    if (!strncmp(text, "followed ", 9)) snprintf(h->followed, sizeof h->followed, "%s", text + 9);
    int signal;
    if (pst_hosts_elastic_obey(j, h, text)) return;
    if (sscanf(text, "stopped %d", &signal) == 1) {
        h->stopped = signal;
        j->stopped = signal;
    } else if (sscanf(text, "cut %d", &signal) == 1) {
        h->killed_by = signal;
    }
    if (h->ready || sscanf(text, "ready %7s %7s", h->port, h->memory_port) != 2) return;
    h->ready = 1;
    if (++j->n_ready == j->n && !j->last_signal) start_ranks(j);
}

/* --- what the hosts report -------------------------------------------------------------------- */

static void pass_on(hosts_job *j, host_process *h, size_t bytes) {
    const size_t mark = sizeof PST_LAUNCH_MARK - 1;
    char *word = memmem(h->line, bytes, PST_LAUNCH_MARK, mark); /* may stand within a line, if a
                                                                   rank died while it wrote one */
    ssize_t n = write(STDERR_FILENO, h->line, word ? (size_t)(word - h->line) : bytes);
    (void)n;
    if (!word) return;
    h->line[bytes - (h->line[bytes - 1] == '\n')] = 0;
    obey(j, h, word + mark);
}

static void hear(hosts_job *j, host_process *h) {
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

/* What the end of a host means. A host that was never ready is the culprit, whatever it
 * reported. */
static host_end meaning_of_end(const host_process *h) {
    int status = WIFEXITED(h->wait_status) ? WEXITSTATUS(h->wait_status) : 255;
    if ((!status || h->stopped) && h->ready) return FINE;
    if (h->killed_by) return FAILED;
    if (!h->ready || status == 255) return LOST; /* 255: ssh's own */
    return *h->followed ? FOLLOWED : FAILED;
}

/* A host's launcher has ended. */
static void judge(hosts_job *j, uint32_t i, uint64_t now) {
    char how[PST_LAUNCH_HOW];
    const host_end end = meaning_of_end(&j->host[i]);
    if (end == FINE) pst_hosts_elastic_ended(j, i);
    if (end == FINE || j->close_ns <= now) return; /* it was told to leave */
    if (j->elastic && j->elastic->is_lost[i]) return;
    if (end == LOST && pst_hosts_elastic_lose(j, i, pst_launch_hosts_how(j, &j->host[i], how), now))
        return;
    pst_launch_hosts_blame(j, end, i);
}

/* An ssh that shares a connection keeps standard error open: it is read for LINGER_NS more. */
static void reap(hosts_job *j, uint64_t now) {
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
        judge(j, i, now);
    }
}

/* --- signals ---------------------------------------------------------------------------------- */

static void send_signal(host_process *h, int signal) {
    char text[32];
    snprintf(text, sizeof text, "signal %d\n", signal);
    pst_launch_hosts_send(h, text);
}

/* Before the ranks start, hosts only wait for input, so they notice that it is closed. */
static void forward(hosts_job *j, int signal) {
    for (uint32_t i = 0; j->running && i < j->n; i++) send_signal(&j->host[i], signal);
}

/* As in launch_signals.c: SIGUSR1 to one rank makes all save; a terminal that closes sends several
 * SIGHUP. */
static void interrupt(hosts_job *j, int signal) {
    uint64_t now = pst_monotonic_ns();
    if (signal == SIGUSR1) {
        uint32_t first = 0; /* of which ranks live */
        while (first + 1 < j->n && j->host[first].in < 0) first++;
        if (j->running) send_signal(&j->host[first], signal);
        return;
    }
    if (signal == SIGHUP && j->last_signal) return;
    if (j->interrupts && now - j->interrupted_ns < PST_LAUNCH_SAME_NS && signal != SIGQUIT) return;
    j->interrupted_ns = now;
    j->last_signal = signal;
    j->interrupts += signal != SIGHUP;
    if (j->interrupts > 1 || signal == SIGQUIT || !j->running)
        pst_launch_hosts_end(j, j->running ? SECOND : 0);
    forward(j, signal);
}

static void suspend(hosts_job *j) {
    forward(j, SIGTSTP);
    kill(getpid(), SIGSTOP);
    forward(j, SIGCONT);
}

static void read_signals(hosts_job *j) {
    struct signalfd_siginfo info;
    while (read(j->signals.fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) suspend(j);
        else if (info.ssi_signo != SIGCHLD) interrupt(j, (int)info.ssi_signo);
    }
}

/* --- watching --------------------------------------------------------------------------------- */

static void check_late(hosts_job *j, uint64_t now) {
    uint64_t limit = j->began_ns + j->wait_s * SECOND, late = j->began_ns + LATE_NS;
    if (j->running || now < (limit < late ? limit : late)) return;
    for (uint32_t i = 0; i < j->n; i++) {
        const host_process *h = &j->host[i];
        if (h->ready || !h->pid) continue;
        if (now >= limit) pst_launch_hosts_blame(j, LOST, i);
        else if (!j->late_named)
            pst_launch_print("host %s (%s, ranks %u to %u) has not answered yet", h->host->name,
                             h->host->address, h->first, h->first + h->n - 1);
    }
    j->late_named = 1;
}

static void end_the_rest(hosts_job *j, uint64_t now) {
    if (now >= j->close_ns && j->kill_ns == PST_NEVER) {
        for (uint32_t i = 0; i < j->n; i++) hang_up(&j->host[i]);
        j->kill_ns = now + KILL_NS;
    }
    for (uint32_t i = 0; now >= j->kill_ns && i < j->n; i++) {
        host_process *h = &j->host[i];
        if (h->pid) kill(-h->pid, SIGKILL);
        if (h->err >= 0) close(h->err); /* another process may hold the other end open */
        h->err = -1;
    }
}

static void watch(hosts_job *j, struct pollfd *fds) {
    while (j->live) {
        uint64_t now = pst_monotonic_ns();
        check_late(j, now);
        pst_hosts_elastic_watch(j);
        if (j->end && !j->running)
            pst_launch_hosts_end(j, 0); /* no rank has started: no need to wait */
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

/* --- launching -------------------------------------------------------------------------------- */

static void print_lost(const hosts_job *j, const host_process *h) {
    char how[PST_LAUNCH_HOW], text[PST_LAUNCH_LOST];
    pst_launch_print("%s", pst_launch_hosts_lost(j, h, pst_launch_hosts_how(j, h, how), text));
}

/* Ended by the user's own signal, without saving. */
static int ended_at_once(const hosts_job *j) {
    int at_once = !j->running || j->interrupts > 1 || j->last_signal == SIGQUIT;
    return j->last_signal && at_once && j->end != FAILED;
}

/* The exit status of the job; prints what no other process has printed. */
static int finish(const hosts_job *j) {
    const host_process *h = &j->host[j->culprit];
    if (ended_at_once(j)) return 128 + j->last_signal;
    switch (j->end) {
    case FINE: return j->stopped ? pst_launch_stop_exit(j->stopped) : 0;
    case FOLLOWED: pst_launch_print("%s", h->followed); return 3;
    case LOST: print_lost(j, h); return h->ready ? 3 : 2;
    default: return h->killed_by ? 128 + h->killed_by : WEXITSTATUS(h->wait_status);
    }
}

/* Ranks fill the hosts in the order of the file. */
static pst_status start_all(hosts_job *j, char *const argv[]) {
    uint32_t first = 0;
    char text[PST_LAUNCH_LINE];
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
        pst_hosts_elastic_secret(j, i, text, sizeof text);
        pst_launch_hosts_send(h, text);
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

pst_status pst_launch_hosts(pst_hosts *hosts, const pst_launch_hosts_options *o, char *const argv[],
                            pst_launch_end *end) {
    const uint32_t ranks = o->ranks;
    hosts_elastic elastic = {.ranks_of = o->ranks_of, .copies = o->copies};
    hosts_job j = {.size = ranks,
                   .elastic = o->ranks_of ? &elastic : NULL,
                   .file = hosts,
                   .wait_s = o->wait_s,
                   .signals.fd = -1,
                   .close_ns = PST_NEVER,
                   .kill_ns = PST_NEVER};
    if (!ranks || ranks > hosts->slots)
        return pst_fail(PST_EINPUT,
                        "%u ranks were requested, but %s has only %u slots: add slots (slots=N), "
                        "or request fewer ranks",
                        ranks, hosts->path, hosts->slots);
    j.n = hosts_for(hosts, ranks);
    PST_TRY(pst_hosts_elastic_check(&j));
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
    if (status != PST_OK) pst_launch_hosts_end(&j, 0);
    if (j.live) watch(&j, fds);
    if (status == PST_OK) {
        end->exit_status = finish(&j);
        end->stopped = j.end == FINE && !ended_at_once(&j) ? j.stopped : 0;
    }
    pst_launch_signals_close(&j.signals);
    for (uint32_t i = 0; j.host && i < j.n; i++) hang_up(&j.host[i]);
    free(j.host);
    free(fds);
    return status;
}
