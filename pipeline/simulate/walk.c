/* One pass over the instruction lists in order of time: the rank that can issue something first
 * does so. A tournament tree over the ranks finds it. Ties may be broken in any way: messages of
 * the same time are ordered before time advances (links.h), and all else is a longest path. */
#include "pipeline/simulate/walk.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>

/* --- partners --------------------------------------------------------------------------------- */

typedef struct {
    uint32_t rank, index;
} place; /* rank PST_NONE: empty */

static uint64_t message_hash(uint32_t from, uint32_t to, uint32_t channel, uint32_t seq) {
    uint64_t h = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ ((uint64_t)channel << 32 | seq)) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

static int same_message(const pst_job *job, place a, place b) {
    const pst_instr *x = &job->list[a.rank].instr[a.index], *y = &job->list[b.rank].instr[b.index];
    if (x->channel != y->channel || x->seq != y->seq) return 0;
    if (x->opcode == y->opcode) return a.rank == b.rank && x->peer == y->peer;
    return a.rank == y->peer && b.rank == x->peer;
}

/* A hash table with one cell per message: the end that comes first inserts it, the other one finds
 * it. */
static pst_status join(pst_walk *w, place *cell, uint64_t mask, place here) {
    const pst_instr *in = &w->job->list[here.rank].instr[here.index];
    int sends = in->opcode == PST_OP_SEND;
    uint32_t from = sends ? here.rank : in->peer, to = sends ? in->peer : here.rank;
    uint64_t k = message_hash(from, to, in->channel, in->seq) & mask;
    while (cell[k].rank != PST_NONE && !same_message(w->job, cell[k], here)) k = (k + 1) & mask;
    if (cell[k].rank == PST_NONE) {
        cell[k] = here;
        return PST_OK;
    }
    place there = cell[k];
    const pst_instr *other = &w->job->list[there.rank].instr[there.index];
    if (other->opcode == in->opcode || w->partner[there.rank][there.index] != PST_NONE) {
        char text[96];
        return pst_fail(
            PST_EINPUT,
            "two messages have the same channel and sequence number: %s, sequence number %u",
            pst_instr_text(w->job, here.rank, here.index, text, sizeof text), in->seq);
    }
    w->partner[here.rank][here.index] = there.index;
    w->partner[there.rank][there.index] = here.index;
    return PST_OK;
}

static pst_status find_partners(pst_walk *w) {
    uint64_t transfers = 0, cells = 16;
    for (uint32_t r = 0; r < w->job->n_rank; r++) {
        const pst_instr_list *list = &w->job->list[r];
        for (uint32_t i = 0; i < list->n_instr; i++)
            transfers += !pst_queue_computes(list->instr[i].queue);
    }
    while (cells < 2 * transfers) cells *= 2;
    place *cell = malloc(cells * sizeof *cell);
    if (!cell)
        return pst_fail(PST_ENOMEM, "no memory to match %llu transfers",
                        (unsigned long long)transfers);
    memset(cell, 0xff, cells * sizeof *cell);
    pst_status status = PST_OK;
    for (uint32_t r = 0; r < w->job->n_rank && status == PST_OK; r++) {
        const pst_instr_list *list = &w->job->list[r];
        for (uint32_t i = 0; i < list->n_instr && status == PST_OK; i++) {
            if (pst_queue_computes(list->instr[i].queue) || list->instr[i].peer >= w->job->n_rank)
                continue;
            status = join(w, cell, cells - 1, (place){r, i});
        }
    }
    free(cell);
    return status;
}

/* --- open and close --------------------------------------------------------------------------- */

void pst_walk_close(pst_walk *w) {
    if (!w) return;
    for (uint32_t r = 0; r < w->job->n_rank; r++) {
        if (w->partner) free(w->partner[r]);
        if (w->span) free(w->span[r]);
    }
    free(w->partner);
    free(w->span);
    free(w->next);
    pst_links_close(&w->links);
    for (int q = 0; q < PST_Q_COUNT; q++) {
        free(w->at[q]);
        free(w->last[q]);
    }
    free(w);
}

static uint32_t next_of_queue(const pst_instr_list *list, uint32_t i, uint32_t queue) {
    while (i < list->n_instr && list->instr[i].queue != queue) i++;
    return i;
}

pst_status pst_walk_open(const pst_job *job, pst_walk **walk) {
    pst_walk *w = calloc(1, sizeof *w);
    pst_status status = PST_ENOMEM;
    if (!w) goto close;
    w->job = job;
    w->partner = calloc(job->n_rank, sizeof *w->partner);
    w->span = calloc(job->n_rank, sizeof *w->span);
    for (w->n_leaf = 1; w->n_leaf < job->n_rank;) w->n_leaf *= 2;
    w->next = malloc(2 * (size_t)w->n_leaf * sizeof *w->next);
    if (!w->partner || !w->span || !w->next ||
        pst_links_open(job->n_rank, job->host, job->host_bytes_per_s, &w->links) != PST_OK)
        goto close;
    memset(w->next, 0xff, 2 * (size_t)w->n_leaf * sizeof *w->next);
    for (int q = 0; q < PST_Q_COUNT; q++) {
        w->at[q] = calloc(job->n_rank, sizeof *w->at[q]);
        w->last[q] = calloc(job->n_rank, sizeof *w->last[q]);
        if (!w->at[q] || !w->last[q]) goto close;
    }
    for (uint32_t r = 0; r < job->n_rank; r++) {
        uint32_t n = job->list[r].n_instr;
        w->partner[r] = malloc((n + 1) * sizeof **w->partner);
        w->span[r] = malloc((n + 1) * sizeof **w->span);
        if (!w->partner[r] || !w->span[r]) goto close;
        memset(w->partner[r], 0xff, n * sizeof **w->partner);
        memset(w->span[r], 0xff, n * sizeof **w->span);
        for (uint32_t q = 0; q < PST_Q_COUNT; q++) w->at[q][r] = next_of_queue(&job->list[r], 0, q);
        w->left += n;
    }
    status = find_partners(w);
    if (status != PST_OK) goto close;
    *walk = w;
    return PST_OK;
close:
    pst_walk_close(w);
    return status == PST_ENOMEM
               ? pst_fail(PST_ENOMEM, "no memory to simulate %u instruction lists", job->n_rank)
               : status;
}

/* --- run -------------------------------------------------------------------------------------- */

/* When the dependencies of an instruction have ended; PST_NEVER: one has not. Checked from the last
 * one on, because that is usually the one that is missing, of thousands (pieces of replica sums).
 */
static uint64_t ready_ns(const pst_walk *w, uint32_t rank, const pst_instr *in) {
    uint64_t ready = 0;
    for (uint32_t d = in->n_dep; d-- > 0 && ready != PST_NEVER;) {
        uint64_t end = w->span[rank][w->job->list[rank].dep[in->dep + d]].end;
        if (end > ready) ready = end;
    }
    return ready;
}

/* When the first waiting instruction of a queue can be issued. */
static uint64_t head_ns(const pst_walk *w, uint32_t rank, uint32_t queue) {
    const pst_instr_list *list = &w->job->list[rank];
    uint32_t i = w->at[queue][rank];
    uint64_t ready = i == list->n_instr ? PST_NEVER : ready_ns(w, rank, &list->instr[i]),
             last = w->last[queue][rank];
    return ready > last ? ready : last;
}

/* Updates the time of the rank's next issue. */
static void look(pst_walk *w, uint32_t rank) {
    uint64_t first = PST_NEVER;
    for (uint32_t q = 0; q < PST_Q_COUNT; q++) {
        uint64_t ns = head_ns(w, rank, q);
        if (ns < first) first = ns;
    }
    uint32_t k = w->n_leaf + rank;
    for (w->next[k] = first; k > 1; k /= 2)
        w->next[k / 2] = w->next[k] < w->next[k ^ 1] ? w->next[k] : w->next[k ^ 1];
}

static uint32_t first_rank(const pst_walk *w) {
    uint32_t k = 1;
    while (k < w->n_leaf) k = 2 * k + (w->next[2 * k] != w->next[k]);
    return k - w->n_leaf;
}

static void complete(pst_walk *w, uint32_t rank, uint32_t i, uint64_t start, uint64_t end) {
    uint32_t peer = w->job->list[rank].instr[i].peer;
    w->span[rank][i] = w->span[peer][w->partner[rank][i]] = (pst_span){start, end};
    w->left -= 2;
    look(w, peer);
    if (peer != rank) look(w, rank);
}

/* If its partner was issued too, the transfer can start. */
static pst_status issue_transfer(pst_walk *w, uint32_t rank, uint32_t i) {
    const pst_instr *in = &w->job->list[rank].instr[i];
    uint32_t other = w->partner[rank][i];
    w->span[rank][i].start = w->now;
    if (other == PST_NONE || w->span[in->peer][other].start == PST_NEVER) return PST_OK;
    int sends = in->opcode == PST_OP_SEND;
    uint32_t from = sends ? rank : in->peer, at = sends ? i : other;
    const pst_instr *send = &w->job->list[from].instr[at];
    if (!send->wire_ns) {
        complete(w, from, at, w->now, w->now + send->ns);
        return PST_OK;
    }
    pst_link_message m = {from,     send->peer,    send->channel, send->seq, w->now,
                          send->ns, send->wire_ns, send->bytes,   0,         at};
    return pst_links_add(&w->links, &m);
}

static pst_status issue(pst_walk *w, uint32_t rank, uint32_t queue) {
    const pst_instr_list *list = &w->job->list[rank];
    uint32_t i = w->at[queue][rank];
    w->at[queue][rank] = next_of_queue(list, i + 1, queue);
    w->last[queue][rank] = w->now;
    if (!pst_queue_computes(queue)) return issue_transfer(w, rank, i);
    w->last[queue][rank] += list->instr[i].ns;
    w->span[rank][i] = (pst_span){w->now, w->last[queue][rank]};
    w->left--;
    return PST_OK;
}

/* Issues all that the rank can issue now. */
static pst_status run_rank(pst_walk *w, uint32_t rank) {
    for (uint32_t q = 0; q < PST_Q_COUNT; q++)
        while (head_ns(w, rank, q) == w->now) PST_TRY(issue(w, rank, q));
    look(w, rank);
    return PST_OK;
}

/* Time advances: orders the messages so far. Returns how many there were. */
static uint32_t settle(pst_walk *w) {
    uint32_t n = pst_links_settle(&w->links);
    for (uint32_t k = 0; k < n; k++) {
        const pst_link_message *m = &w->links.waiting[k];
        complete(w, m->from, (uint32_t)m->id, m->end_ns - m->ns, m->end_ns);
    }
    return n;
}

/* --- deadlocks -------------------------------------------------------------------------------- */

/* The instruction that (rank, i), which has not ended, waits for; rank PST_NONE: its message has no
 * other end. */
static place waits_for(const pst_walk *w, place p) {
    const pst_instr_list *list = &w->job->list[p.rank];
    const pst_instr *in = &list->instr[p.index];
    uint32_t at = w->at[in->queue][p.rank];
    if (p.index < at) { /* it is issued, so the other end is missing */
        uint32_t other = w->partner[p.rank][p.index];
        return other == PST_NONE ? (place){PST_NONE, 0} : (place){in->peer, other};
    }
    if (p.index > at) return (place){p.rank, at};
    for (uint32_t d = 0; d < in->n_dep; d++) {
        uint32_t dep = list->dep[in->dep + d];
        if (w->span[p.rank][dep].end == PST_NEVER) return (place){p.rank, dep};
    }
    return (place){PST_NONE, 0};
}

/* Follows the waits from any instruction: after `left` steps it is on a cycle, or ends at a message
 * without partner. */
static pst_status explain(const pst_walk *w) {
    char cycle[1536] = "", text[96];
    place p = {PST_NONE, 0}, next;
    for (uint32_t r = 0; r < w->job->n_rank && p.rank == PST_NONE; r++) {
        for (uint32_t i = 0; i < w->job->list[r].n_instr; i++) {
            if (w->span[r][i].end != PST_NEVER) continue;
            p = (place){r, i};
            break;
        }
    }
    if (p.rank == PST_NONE) return PST_OK;
    for (uint64_t step = 0; step <= w->left; step++) {
        next = waits_for(w, p);
        if (next.rank == PST_NONE) {
            return pst_fail(PST_EINPUT, "deadlock: %s has no matching SEND or RECV",
                            pst_instr_text(w->job, p.rank, p.index, text, sizeof text));
        }
        p = next;
    }
    place first = p;
    uint32_t shown = 0;
    do {
        const char *name = pst_instr_text(w->job, p.rank, p.index, text, sizeof text);
        size_t used = strlen(cycle);
        if (shown++ < 12) snprintf(cycle + used, sizeof cycle - used, "%s waits for ", name);
        p = waits_for(w, p);
    } while (p.rank != first.rank || p.index != first.index);
    return pst_fail(PST_EINPUT, "deadlock: %s%s%s", cycle, shown > 12 ? "... waits for " : "",
                    pst_instr_text(w->job, first.rank, first.index, text, sizeof text));
}

pst_status pst_walk_run(pst_walk *w) {
    for (uint32_t r = 0; r < w->job->n_rank; r++) look(w, r);
    while (w->next[1] != PST_NEVER || w->links.n_waiting) {
        if (w->next[1] > w->now && settle(w)) continue;
        w->now = w->next[1];
        PST_TRY(run_rank(w, first_rank(w)));
    }
    return w->left ? explain(w) : PST_OK;
}
