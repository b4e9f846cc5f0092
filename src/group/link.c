/* See link.h. One rank sends a message of the size to be measured, the other answers with a short
 * one. The result is the median of several rounds, less the time of the answer, which is half of a
 * short round trip. */
#include "group/link.h"
#include "base/clock.h"
#include "base/log.h"
#include "group/identity.h"
#include <stdlib.h>
#include <string.h>

/* Sizes above MAX_BYTES are not sent but extrapolated from two smaller ones; a size is measured for
 * about ROUND_NS. */
enum {
    CHANNEL = PST_CHANNEL_COLLECTIVE - 1,
    SHORT = 8,
    HALF = 1 << 20,
    MAX_BYTES = 4 << 20,
    ROUNDS = 9,
    MIN_ROUNDS = 3
};
#define ROUND_NS UINT64_C(100000000)

typedef struct {
    pst_group *g;
    pst_prepared *p;
    uint32_t *host; /* [n_rank] the first rank of each rank's host */
    uint8_t *mem;   /* [MAX_BYTES] */
    uint32_t seq;   /* message number of the pair; counted alike on both ends */
} prober;

/* --- one pair --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static pst_status transfer(prober *m, pst_transfer_kind kind, uint32_t peer, uint64_t bytes) {
    pst_transfer x = {.kind = kind,
                      .peer = peer,
                      .channel = CHANNEL,
                      .seq = m->seq++,
                      .mem = m->mem,
                      .bytes = bytes};
    uint64_t request;
    PST_TRY(m->g->transport->ops->post(m->g->transport, &x, &request));
    return pst_group_finish(m->g, request);
}

/* `bytes` from `from` to `to`, SHORT bytes back. */
static pst_status round_trip(prober *m, uint32_t from, uint32_t to, uint64_t bytes, uint64_t *ns) {
    int first = m->g->world->rank == from;
    uint64_t began = pst_monotonic_ns();
    PST_TRY(transfer(m, first ? PST_TRANSFER_SEND : PST_TRANSFER_RECV, first ? to : from, bytes));
    PST_TRY(transfer(m, first ? PST_TRANSFER_RECV : PST_TRANSFER_SEND, first ? to : from, SHORT));
    *ns = pst_monotonic_ns() - began;
    return PST_OK;
}

/* The first round, not counted, determines the number of rounds, as seen by `from`. */
static pst_status time_size(prober *m, uint32_t from, uint32_t to, uint64_t bytes,
                            uint64_t *median) {
    uint64_t sample[ROUNDS], once;
    uint32_t rounds;
    PST_TRY(round_trip(m, from, to, bytes, &once));
    rounds = once > ROUND_NS / MIN_ROUNDS ? MIN_ROUNDS : ROUNDS;
    if (m->g->world->rank == from) memcpy(m->mem, &rounds, sizeof rounds);
    PST_TRY(transfer(m, m->g->world->rank == from ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                     m->g->world->rank == from ? to : from, SHORT));
    memcpy(&rounds, m->mem, sizeof rounds);
    if (rounds > ROUNDS)
        return pst_fail(PST_EINTERNAL,
                        "measuring the link between ranks %u and %u failed: they disagree on the "
                        "number of rounds",
                        from, to);
    for (uint32_t i = 0; i < rounds; i++) PST_TRY(round_trip(m, from, to, bytes, &sample[i]));
    qsort(sample, rounds, sizeof *sample, by_value);
    *median = sample[rounds / 2];
    return PST_OK;
}

static pst_status time_pair(prober *m, uint32_t from, uint32_t to, pst_link_times *link) {
    uint64_t back;
    m->seq = 0;
    PST_TRY(time_size(m, from, to, SHORT, &back));
    link->latency_ns = back / 2;
    for (uint32_t i = 0; i < link->n; i++) {
        PST_TRY(time_size(m, from, to, link->bytes[i], &link->ns[i]));
        link->ns[i] -= link->latency_ns < link->ns[i] ? link->latency_ns : 0;
    }
    return PST_OK;
}

/* --- all pairs of hosts ----------------------------------------------------------------------- */

/* Ignores the size if there are `limit` sizes already. */
static void add_size(pst_link_times *l, uint64_t bytes, uint32_t limit) {
    uint32_t i = 0;
    while (i < l->n && l->bytes[i] < bytes) i++;
    if ((i < l->n && l->bytes[i] == bytes) || l->n >= limit) return;
    memmove(l->bytes + i + 1, l->bytes + i, (l->n - i) * sizeof *l->bytes);
    l->bytes[i] = bytes;
    l->n++;
}

/* Collects the message sizes from one host to another, and the first sender with its receiver. */
static int find_sizes(const prober *m, uint32_t from, uint32_t to, pst_link_times *l,
                      uint32_t *sender, uint32_t *receiver) {
    int larger = 0;
    *l = (pst_link_times){0};
    *sender = PST_NONE;
    for (uint32_t r = from; r < m->p->job->n_rank; r++) {
        const pst_instr_list *list = &m->p->job->list[r];
        for (uint32_t i = 0; m->host[r] == from && i < list->n_instr; i++) {
            const pst_instr *in = &list->instr[i];
            if (in->opcode != PST_OP_SEND || m->host[in->peer] != to) continue;
            if (*sender == PST_NONE) {
                *sender = r;
                *receiver = in->peer;
            }
            if (in->bytes <= MAX_BYTES)
                add_size(l, in->bytes > SHORT ? in->bytes : SHORT, PST_LINK_SIZES - 2);
            larger |= in->bytes > MAX_BYTES;
        }
    }
    if (*sender != PST_NONE && larger) {
        add_size(l, HALF, PST_LINK_SIZES);
        add_size(l, MAX_BYTES, PST_LINK_SIZES);
    }
    return *sender != PST_NONE;
}

static void set_durations_of(const prober *m, pst_job *job, uint32_t from, uint32_t to,
                             const pst_link_times *l) {
    for (uint32_t r = 0; r < job->n_rank; r++) {
        pst_instr_list *list = &job->list[r];
        for (uint32_t i = 0; i < list->n_instr; i++) {
            pst_instr *in = &list->instr[i];
            int sends = in->opcode == PST_OP_SEND && m->host[r] == from && m->host[in->peer] == to;
            int receives =
                in->opcode == PST_OP_RECV && m->host[r] == to && m->host[in->peer] == from;
            if (sends || receives) pst_link_times_set(l, in);
        }
    }
}

/* Steps with other lists (prepare/smaller.c) have messages of the same sizes. */
static void set_durations(const prober *m, uint32_t from, uint32_t to, const pst_link_times *l) {
    set_durations_of(m, m->p->job, from, to, l);
    const pst_prepared *other;
    for (uint32_t i = 0; (other = pst_prepared_other(m->p, i)); i++)
        set_durations_of(m, other->job, from, to, l);
}

static pst_status measure_hosts(prober *m, uint32_t from, uint32_t to) {
    pst_link_times link;
    uint32_t sender, receiver = 0, mine = m->g->world->rank;
    if (!find_sizes(m, from, to, &link, &sender, &receiver)) return PST_OK;
    if (mine == sender || mine == receiver) PST_TRY(time_pair(m, sender, receiver, &link));
    PST_TRY(pst_group_broadcast(m->g, &link, sizeof link, sender));
    set_durations(m, from, to, &link);
    uint32_t last = link.n - 1;
    if (mine == 0)
        pst_log(PST_LOG_DEBUG, "link from rank %u to rank %u: %llu bytes take %.3f ms", sender,
                receiver, (unsigned long long)link.bytes[last], (double)link.ns[last] * 1e-6);
    return PST_OK;
}

/* *several: the ranks are on several hosts. */
static pst_status find_hosts(prober *m, int *several) {
    pst_rank_place a, b;
    for (uint32_t r = 0; r < m->g->n_rank; r++) {
        PST_TRY(pst_identity_place(m->g->world, r, &a));
        for (m->host[r] = 0; m->host[r] < r; m->host[r]++) {
            if (m->host[m->host[r]] != m->host[r]) continue;
            PST_TRY(pst_identity_place(m->g->world, m->host[r], &b));
            if (!memcmp(a.host, b.host, sizeof a.host)) break;
        }
        *several |= m->host[r] != 0;
    }
    return PST_OK;
}

/* The number of NICs of a host is not measured. */
static pst_status take_hosts(const prober *m, pst_prepared *p) {
    const size_t bytes = p->job->n_rank * sizeof *m->host;
    uint32_t *host = malloc(bytes);
    if (!host) return pst_no_memory("to measure links");
    memcpy(host, m->host, bytes);
    free(p->job->host);
    free(p->job->host_bytes_per_s);
    p->job->host_bytes_per_s = NULL;
    p->job->host = host;
    return pst_prepare_predict(p);
}

static pst_status measure_all(prober *m) {
    uint32_t n = m->p->job->n_rank;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            if (a != b && m->host[a] == a && m->host[b] == b) PST_TRY(measure_hosts(m, a, b));
    PST_TRY(take_hosts(m, m->p));
    pst_prepared *other;
    for (uint32_t i = 0; (other = pst_prepared_other(m->p, i)); i++) PST_TRY(take_hosts(m, other));
    return PST_OK;
}

pst_status pst_link_measure(pst_group *g, pst_prepared *p) {
    prober m = {.g = g, .p = p};
    int several = 0;
    if (g->hub || g->world->local_size == g->n_rank) return PST_OK; /* the same on all ranks */
    m.host = calloc(g->n_rank, sizeof *m.host);
    m.mem = calloc(1, MAX_BYTES);
    pst_status status = m.host && m.mem ? find_hosts(&m, &several)
                                        : pst_fail(PST_ENOMEM, "no memory to measure links");
    status = pst_group_agree(g, status);
    if (status == PST_OK && several) status = measure_all(&m);
    free(m.host);
    free(m.mem);
    return status;
}
