/* See hang.h. pipeline/execute/suspect.c finds the current suspect. This file measures how long the
 * suspect stays the same, and accuses it when the limit has passed and the state of its process
 * shows that it does not merely lack CPU time. */
#include "health/hang.h"
#include "comm/collective/collective.h"
#include "health/hang_parts.h"
#include "health/process_state.h"
#include <stdlib.h>
#include <string.h>

/* FIRST_CHECK: shorter waits are normal and cost only a clock reading. AWAKE: the most that one
 * check adds to the running time, so that time in which the whole job was stopped does not count.
 * STOP_TWICE: a stopped rank must be seen stopped twice, this far apart. QUIET: how long a rank
 * must sleep where it should compute. */
#define MS UINT64_C(1000000)
#define FIRST_CHECK_NS (50 * MS)
#define CHECK_NS (10 * MS)
#define AWAKE_NS (100 * MS)
#define STOP_TWICE_NS (200 * MS)
#define QUIET_NS (300 * MS)
enum { POLLS = 10, BYTES_PER_POLL = 256 << 10 };

pst_status pst_hang_open(const pst_prepared *p, pst_heartbeat *heartbeat, pst_position *position,
                         uint32_t rank, const char *host, pst_hang **hang) {
    uint32_t n = p->options.n_rank;
    pst_hang *h = calloc(1, sizeof *h);
    if (h) {
        h->p = p;
        h->heartbeat = heartbeat;
        h->rank = rank;
        h->host = host;
        h->slack_ns = (uint64_t)(p->config->train.hang_slack * 1e9);
        h->at = calloc(n, sizeof *h->at);
        h->polls = calloc(n, sizeof *h->polls);
        h->mean_ns = calloc(n, sizeof *h->mean_ns);
        h->scene = (pst_suspect_scene){.n_rank = n,
                                       .group = p->grid.tensor,
                                       .rank = calloc(n, sizeof *h->scene.rank),
                                       .job = {p->eval_job, p->job},
                                       .cut = {p->eval_cut, p->cut}};
    }
    if (!h || !h->at || !h->polls || !h->mean_ns || !h->scene.rank) {
        pst_hang_close(h);
        return pst_fail(PST_ENOMEM, "no memory to watch %u ranks", n);
    }
    for (uint32_t r = 0; position && r < n; r++) h->at[r] = position + r;
    *hang = h;
    return PST_OK;
}

void pst_hang_close(pst_hang *h) {
    if (!h) return;
    free(h->at);
    free(h->polls);
    free(h->mean_ns);
    free(h->scene.rank);
    free(h);
}

void pst_hang_use(pst_hang *h, const pst_prepared *p) {
    h->scene.job[1] = p->job;
    h->scene.cut[1] = p->cut;
}

/* Slower steps count at once, faster ones gradually. */
void pst_hang_learn(pst_hang *h, const pst_report *report) {
    for (uint32_t r = 0; h && r < h->scene.n_rank; r++)
        for (int op = 0; op < PST_OP_COUNT; op++) {
            uint64_t *mean = &h->mean_ns[r][op], now = report[r].op_ns[op];
            *mean = now > *mean ? now : *mean - (*mean - now) / 8;
        }
}

/* --- expected durations ----------------------------------------------------------------------- */

static uint64_t limit_of(const pst_hang *h, uint64_t expected_ns) {
    return (uint64_t)((double)expected_ns * h->p->config->train.hang_factor) + h->slack_ns;
}

/* Bytes and expected duration (ns) of the message for which the last rank of the chain waits. */
static uint64_t message_bytes(const pst_hang *h, uint64_t *ns) {
    uint32_t waiting = h->suspect.chain[h->suspect.n_chain > 1 ? h->suspect.n_chain - 2 : 0];
    const pst_position_view *at = &h->scene.rank[waiting].at;
    const pst_job *job = h->scene.job[at->train != 0];
    if (h->suspect.instr == PST_NONE || !job || h->suspect.instr >= job->list[waiting].n_instr) {
        *ns = at->coll_bytes; /* a gigabyte a second */
        return at->coll_bytes;
    }
    *ns = job->list[waiting].instr[h->suspect.instr].ns;
    return job->list[waiting].instr[h->suspect.instr].bytes;
}

/* The rank has polled often enough to notice arrivals. */
static int has_polled(const pst_hang *h, uint32_t rank, uint64_t times) {
    return rank == h->rank || h->scene.rank[rank].left ||
           h->scene.rank[rank].at.polls >= h->polls[rank] + times;
}

static int all_have_polled(const pst_hang *h) {
    for (uint32_t i = 0; i < h->suspect.n_chain; i++)
        if (!has_polled(h, h->suspect.chain[i], POLLS)) return 0;
    return 1;
}

/* --- stopped or stuck ------------------------------------------------------------------------- */

static pst_status accuse(pst_hang *h, pst_hang_cause cause, uint32_t culprit, uint32_t victim,
                         uint64_t limit_ns) {
    char verdict[PST_HANG_LINE];
    const pst_hang_accusation a = {cause, culprit, victim, limit_ns};
    pst_hang_verdict(h, &a, verdict, sizeof verdict);
    int is_stuck = cause <= PST_HANG_COMPUTES;
    pst_heartbeat_accuse(h->heartbeat, culprit, is_stuck, verdict);
    return pst_heartbeat_check(h->heartbeat);
}

static pst_status check_stopped(pst_hang *h) {
    for (uint32_t i = 1; i < h->suspect.n_chain; i++) {
        uint32_t rank = h->suspect.chain[i];
        pst_process_state state;
        if (!pst_process_state_read(h->at[rank], &state) || !state.is_stopped) continue;
        if (!h->stop_seen_ns || h->stopped != rank) {
            h->stopped = rank;
            h->stop_seen_ns = h->suspect_ns;
        }
        if (h->suspect_ns < h->stop_seen_ns + STOP_TWICE_NS) return PST_OK;
        return accuse(h, PST_HANG_STOPPED, rank, h->suspect.chain[i - 1], h->slack_ns);
    }
    h->stop_seen_ns = 0;
    return PST_OK;
}

/* Index in the chain of the rank that should compute or poll its transport, but does not; PST_NONE:
 * none. */
static uint32_t find_idle(const pst_hang *h) {
    const pst_suspect *s = &h->suspect;
    for (uint32_t i = 1; i < s->n_chain; i++) {
        const pst_suspect_rank *r = &h->scene.rank[s->chain[i]];
        if (r->left || r->at.activity == PST_AT_HOST || !h->at[s->chain[i]]) continue;
        if (r->at.activity == PST_AT_COMPUTE ? s->kind == PST_SUSPECT_BUSY
                                             : !has_polled(h, s->chain[i], POLLS))
            return i;
    }
    return PST_NONE;
}

/* A rank that could run if it got a core is not accused; a rank that computes is accused only after
 * its limit in CPU time. */
static pst_status check_stuck(pst_hang *h, uint64_t now, uint64_t passed_ns) {
    pst_process_state state;
    uint32_t link = find_idle(h), rank = link == PST_NONE ? PST_NONE : h->suspect.chain[link];
    if (link == PST_NONE || !pst_process_state_read(h->at[rank], &state)) {
        h->watched = PST_NONE;
        return PST_OK;
    }
    const pst_position_view *at = &h->scene.rank[rank].at;
    uint64_t limit = limit_of(h, pst_hang_expected(h, rank));
    if (h->watched != rank) {
        h->watched = rank;
        h->quiet_ns = 0;
        h->first = h->last = state;
    } else if (state.can_run || state.ns != h->last.ns) {
        h->quiet_ns = 0;
        h->last = state;
    } else {
        h->quiet_ns += passed_ns;
    }
    if (now - at->since_ns < limit) return PST_OK;
    if (h->quiet_ns >= QUIET_NS)
        return accuse(h, PST_HANG_ASLEEP, rank, h->suspect.chain[link - 1], limit);
    if (state.main_ns - h->first.main_ns < limit &&
        state.ns - h->first.ns < limit * h->p->options.threads)
        return PST_OK;
    return accuse(h, PST_HANG_COMPUTES, rank, h->suspect.chain[link - 1], limit);
}

pst_status pst_hang_silent(pst_hang *h, uint32_t rank, pst_executor *x) {
    pst_process_state state;
    if (!h) return PST_EPEER; /* the heartbeat has set the message */
    pst_executor_publish_wait(x);
    pst_hang_read(h);
    h->suspect_ns = PST_HEARTBEAT_MS * PST_HEARTBEAT_MISSES * MS;
    int stopped = h->at[rank] && pst_process_state_read(h->at[rank], &state) && state.is_stopped;
    return accuse(h, stopped ? PST_HANG_STOPPED : PST_HANG_SILENT, rank, h->rank, h->suspect_ns);
}

/* --- looking ---------------------------------------------------------------------------------- */

static pst_status check_limits(pst_hang *h, uint64_t now, uint64_t passed_ns) {
    const pst_suspect *s = &h->suspect;
    uint64_t ns, bytes, limit;
    if (h->suspect_ns < h->slack_ns) return PST_OK;
    PST_TRY(check_stopped(h));
    if (h->stop_seen_ns) return PST_OK;
    switch (s->kind) {
    case PST_SUSPECT_LOST:
        bytes = message_bytes(h, &ns);
        limit = limit_of(h, ns);
        if (h->suspect_ns < limit) return PST_OK;
        if (has_polled(h, s->culprit, POLLS + bytes / BYTES_PER_POLL) &&
            has_polled(h, s->victim, POLLS + bytes / BYTES_PER_POLL))
            return accuse(h, PST_HANG_LOST, s->culprit, s->victim, limit);
        break;
    case PST_SUSPECT_LEFT: return accuse(h, PST_HANG_LEFT, s->culprit, s->victim, h->slack_ns);
    case PST_SUSPECT_SKIPPED:
        if (all_have_polled(h))
            return accuse(h, PST_HANG_SKIPPED, s->culprit, s->victim, h->slack_ns);
        break;
    case PST_SUSPECT_DISAGREE:
        if (all_have_polled(h))
            return accuse(h, PST_HANG_DISAGREES, s->culprit, s->victim, h->slack_ns);
        break;
    case PST_SUSPECT_DEADLOCK:
        if (all_have_polled(h))
            return accuse(h, PST_HANG_DEADLOCK, s->culprit, s->victim, h->slack_ns);
        break;
    default: break;
    }
    return check_stuck(h, now, passed_ns);
}

static pst_status update_suspect(pst_hang *h, uint64_t now, uint64_t passed_ns) {
    pst_suspect fresh;
    pst_hang_read(h);
    pst_suspect_find(&h->scene, h->rank, &fresh);
    if (h->has_suspect && fresh.fingerprint == h->suspect.fingerprint) {
        h->suspect_ns += passed_ns;
        h->suspect = fresh;
        return check_limits(h, now, passed_ns);
    }
    h->suspect = fresh;
    h->has_suspect = 1;
    h->suspect_ns = h->stop_seen_ns = 0;
    h->watched = PST_NONE;
    for (uint32_t r = 0; r < h->scene.n_rank; r++)
        h->polls[r] = h->scene.rank[r].known ? h->scene.rank[r].at.polls : 0;
    return PST_OK;
}

pst_status pst_hang_check(pst_hang *h, pst_executor *x) {
    if (!h || !h->slack_ns || !h->heartbeat) return PST_OK;
    if (!h->at[h->rank]) h->at[h->rank] = pst_heartbeat_position(h->heartbeat, h->rank);
    if (!h->at[h->rank]) return PST_OK;
    uint64_t moves = PST_POSITION_GET(h->at[h->rank], moves), now;
    if (moves != h->moves) {
        h->moves = moves;
        h->last_ns = h->waited_ns = h->unread_ns = 0;
        h->has_suspect = 0;
        return PST_OK;
    }
    now = pst_monotonic_ns();
    uint64_t passed = h->last_ns ? now - h->last_ns : 0;
    if (passed > AWAKE_NS) passed = AWAKE_NS;
    h->last_ns = now;
    h->waited_ns += passed;
    h->unread_ns += passed;
    if (h->waited_ns < FIRST_CHECK_NS || h->unread_ns < CHECK_NS) return PST_OK;
    passed = h->unread_ns;
    h->unread_ns = 0;
    pst_executor_publish_wait(x);
    return update_suspect(h, now, passed);
}
