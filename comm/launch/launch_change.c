/* Changes of an elastic job's ranks on request (request.h): starts the processes that are needed,
 * lets the ranks leave the epoch at the end of their step, and announces the next one. */
#include "comm/launch/launch_parts.h"
#include "comm/launch/request.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static launch_change *change_of(const launcher *l) { return &l->elastic->change; }

static uint32_t epoch_of(const launcher *l) { return atomic_load(&l->elastic->page->epoch); }

static pst_elastic_members *members_of(const launcher *l) {
    return &l->elastic->page->member[epoch_of(l)];
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Whoever does not read the answer is not waited for. */
static void answer(launcher *l, const char *format, ...) PST_PRINTF(2, 3);
static void answer(launcher *l, const char *format, ...) {
    launch_change *c = change_of(l);
    char line[PST_LAUNCH_REQUEST];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (c->client < 0 || n < 0) return;
    if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
    line[n] = '\n';
    if (send(c->client, line, (size_t)n + 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

/* Processes that were started in vain, or are not wanted any more, leave. keep: how many of those
 * without a rank stay. */
static void dismiss(launcher *l, uint32_t keep) {
    const launch_elastic *e = l->elastic;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!e->alive[i] || pst_launch_elastic_has_rank(l, i)) continue;
        if (!e->change.drains[i] && keep) keep--;
        else atomic_store(&e->page->leaves[i], 1);
    }
}

static void end_change(launcher *l) {
    launch_change *c = change_of(l);
    c->phase = CHANGE_NONE;
    memset(c->drains, 0, sizeof c->drains);
}

static void refuse(launcher *l, const char *why) {
    answer(l, "refused %s", why);
    dismiss(l, l->elastic->job->spares);
    end_change(l);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Living processes, without those that are to leave. */
static uint32_t living(const launcher *l) {
    const launch_elastic *e = l->elastic;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++)
        n += e->alive[i] && !e->change.drains[i] && !atomic_load(&e->page->leaves[i]);
    return n;
}

static void say_state(launcher *l) {
    const launch_elastic *e = l->elastic;
    char table[PST_LAUNCH_REQUEST / 2] = "";
    size_t used = 0;
    for (uint32_t i = 0; i <= e->page->known; i++)
        used += (size_t)snprintf(table + used, sizeof table - used, " %u", e->page->ranks_of[i]);
    answer(l, "state %u %u %u %u %u%s", members_of(l)->n_rank, living(l), e->job->min, e->job->max,
           e->page->known, table);
}

/* Starts what is missing for so many ranks and the spares. */
static pst_status start_missing(launcher *l, uint32_t ranks) {
    const launch_elastic *e = l->elastic;
    uint32_t have = living(l);
    for (uint32_t i = 0; i < l->n && have < ranks + e->job->spares; i++) {
        if (l->rank[i].pid) continue;
        PST_TRY(pst_launch_elastic_start(l, i));
        have++;
    }
    return have >= ranks ? PST_OK
                         : pst_fail(PST_ENOMEM, "processes that are to leave have not ended yet; "
                                                "try again");
}

static void begin(launcher *l, uint32_t ranks) {
    launch_change *c = change_of(l);
    c->ranks = ranks;
    c->phase = CHANGE_STARTS;
    if (start_missing(l, ranks) == PST_OK) return;
    refuse(l, pst_error());
    pst_error_clear();
}

/* The table of ranks for from to `ranks` processes: numbers that do not decrease, none of them more
 * than its processes. 0: wrong. */
static int take_table(pst_elastic_page *page, uint32_t ranks, uint32_t from, char *text) {
    uint32_t table[PST_ELASTIC_RANKS + 1], last;
    if (!from || from > page->known + 1) return 0;
    last = page->ranks_of[from - 1];
    for (uint32_t i = from; i <= ranks; i++) {
        char *end;
        const unsigned long k = strtoul(text, &end, 10);
        if (end == text || k > i || k < last) return 0;
        table[i] = last = (uint32_t)k;
        text = end;
    }
    if (last != ranks) return 0;
    for (uint32_t i = from; i <= ranks; i++) page->ranks_of[i] = table[i];
    if (ranks > page->known) page->known = ranks;
    for (uint32_t i = ranks + 1; i <= page->known; i++)
        if (page->ranks_of[i] < ranks) page->ranks_of[i] = ranks;
    return 1;
}

static void resize(launcher *l, char *line) {
    const launch_elastic *e = l->elastic;
    unsigned ranks, from;
    int used = 0;
    if (sscanf(line, "resize %u %u%n", &ranks, &from, &used) != 2 || ranks < e->job->min ||
        ranks > e->job->max || !take_table(e->page, ranks, from, line + used)) {
        refuse(l, "wrong request");
        return;
    }
    begin(l, ranks);
}

static void drain(launcher *l, const char *line) {
    launch_elastic *e = l->elastic;
    const pst_elastic_members *m = members_of(l);
    unsigned rank;
    char why[200];
    if (sscanf(line, "drain %u", &rank) != 1 || rank >= m->n_rank) {
        snprintf(why, sizeof why, "the run has ranks 0 to %u", m->n_rank - 1);
        refuse(l, why);
        return;
    }
    e->change.drains[m->process[rank]] = 1;
    const uint32_t left = living(l), ranks = pst_elastic_ranks(e->page, left);
    if (ranks) {
        begin(l, ranks);
        return;
    }
    snprintf(
        why, sizeof why,
        "without rank %u the run has %u process%s, and cannot go on (elastic.min is %u); first "
        "give it more ranks with penstock resize",
        rank, left, left == 1 ? "" : "es", e->job->min);
    refuse(l, why);
}

static int has_ended(const launcher *l) {
    return l->ending || atomic_load(&l->elastic->page->end) != PST_ELASTIC_RUNS;
}

static int is_ending(const launcher *l) { return has_ended(l) || l->last_signal; }

static void obey(launcher *l, char *line) {
    if (!strcmp(line, "state")) say_state(l);
    else if (is_ending(l)) refuse(l, "the run is ending");
    else if (epoch_of(l) + 2 >= PST_ELASTIC_EPOCHS) refuse(l, "its ranks have changed too often");
    else if (!strncmp(line, "resize ", 7)) resize(l, line);
    else if (!strncmp(line, "drain ", 6)) drain(l, line);
    else refuse(l, "wrong request");
}

static void hang_up(launch_change *c) {
    if (c->client >= 0) close(c->client);
    c->client = -1;
    c->n_received = 0;
}

/* Reads the request of a client; it may make several, one after the other. */
static void read_request(launcher *l) {
    launch_change *c = change_of(l);
    char *at = c->received + c->n_received;
    const size_t room = sizeof c->received - c->n_received;
    const ssize_t n = read(c->client, at, room);
    const int waits = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n <= 0 && !waits) {
        hang_up(c);
        return;
    }
    if (n > 0) c->n_received += (uint32_t)n;
    char *end = memchr(c->received, '\n', c->n_received);
    if (!end && c->n_received == sizeof c->received) hang_up(c); /* no request is so long */
    if (!end || c->phase != CHANGE_NONE) return;
    *end = 0;
    c->n_received = 0;
    obey(l, c->received);
}

static void listen_and_read(launcher *l) {
    launch_change *c = change_of(l);
    uint64_t woken;
    if (read(l->elastic->page->wake_fd, &woken, sizeof woken) < 0) woken = 0;
    if (c->listener == -1 && atomic_load(&l->elastic->page->has_folder) &&
        pst_request_listen(l->elastic->page->folder, &c->listener) != PST_OK) {
        pst_launch_print("%s; penstock resize and drain cannot be used", pst_error());
        pst_error_clear();
        c->listener = -2;
    }
    if (c->listener >= 0 && c->client < 0) c->client = pst_request_accept(c->listener);
    if (c->client >= 0) read_request(l);
}

/* --- phases ----------------------------------------------------------------------------------- */

/* 0: not yet; 1: all processes that were started are ready; -1: one has ended. */
static int have_started(const launcher *l) {
    const launch_elastic *e = l->elastic;
    int ready = 1;
    if (living(l) < e->change.ranks) return -1;
    for (uint32_t i = 0; i < l->n; i++)
        ready &= !e->alive[i] || pst_launch_elastic_has_rank(l, i) ||
                 atomic_load(&e->page->waits[i]) || atomic_load(&e->page->leaves[i]);
    return ready;
}

static void begin_leaving(launcher *l) {
    launch_elastic *e = l->elastic;
    const int started = have_started(l);
    if (started < 0) {
        refuse(l, "a process that was started for it has ended; the output of the run says why");
        return;
    }
    if (!started) return;
    if (!memchr(e->change.drains, 1, sizeof e->change.drains)) e->page->target = e->change.ranks;
    atomic_store(&e->page->changes, 1);
    e->change.phase = CHANGE_LEAVES;
}

/* A loss may have done the same. */
static int is_done(const launcher *l) {
    const launch_elastic *e = l->elastic;
    const pst_elastic_members *m = members_of(l);
    for (uint32_t r = 0; r < m->n_rank; r++)
        if (e->change.drains[m->process[r]]) return 0;
    return m->n_rank == pst_elastic_ranks(e->page, living(l));
}

static void leave(launcher *l) {
    launch_elastic *e = l->elastic;
    const int drains = memchr(e->change.drains, 1, sizeof e->change.drains) != NULL;
    uint8_t stays[PST_ELASTIC_RANKS];
    if (!atomic_load(&e->page->changes)) { /* a rank was lost meanwhile */
        if (is_done(l)) e->change.phase = CHANGE_BEGINS;
        else atomic_store(&e->page->changes, 1);
    }
    if (e->change.phase != CHANGE_LEAVES || !pst_elastic_all_departed(e->page)) return;
    for (uint32_t i = 0; i < l->n; i++)
        stays[i] = e->alive[i] && !e->change.drains[i] && !atomic_load(&e->page->leaves[i]);
    if (!pst_launch_elastic_change(l, stays)) return;
    dismiss(l, drains ? l->n : e->job->spares);
    e->change.phase = CHANGE_BEGINS;
}

static void finish(launcher *l) {
    const pst_elastic_members *m = members_of(l);
    const pst_elastic_changed *c = &m->changed;
    if (!atomic_load(&m->has_changed)) return;
    answer(l, "changed %u %u %llu %.6f %.6f", c->from, m->n_rank, (unsigned long long)c->step,
           c->seconds, c->predicted_s);
    end_change(l);
}

uint32_t pst_launch_change_fds(const launcher *l, struct pollfd *fds) {
    if (!l->elastic || l->hosts) return 0;
    const launch_change *c = change_of(l);
    fds[0] = (struct pollfd){.fd = l->elastic->page->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = c->client >= 0 ? c->client : c->listener, .events = POLLIN};
    return PST_LAUNCH_CHANGE_FDS;
}

void pst_launch_change_watch(launcher *l) {
    if (!l->elastic || l->hosts) return;
    launch_change *c = change_of(l);
    listen_and_read(l);
    /* ranks that have left their epoch wait for the next one, also after a signal to stop */
    const int waits = c->phase == CHANGE_LEAVES || c->phase == CHANGE_BEGINS;
    if (waits ? has_ended(l) : c->phase != CHANGE_NONE && is_ending(l))
        refuse(l, "the run is ending");
    if (c->phase == CHANGE_STARTS) begin_leaving(l);
    if (c->phase == CHANGE_LEAVES) leave(l);
    if (c->phase == CHANGE_BEGINS) finish(l);
}

void pst_launch_change_close(launcher *l) {
    if (!l->elastic) return;
    launch_change *c = change_of(l);
    hang_up(c);
    if (c->listener >= 0) close(c->listener);
}
