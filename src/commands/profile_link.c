/* The messages of `penstock profile`: to a rank that sleeps while it waits, as most ranks of a
 * pipeline do; and exchanges among tensor ranks, which arrive within microseconds of each other.
 * Runs in a job of two ranks, or of as many as a tensor group has. */
#include "base/clock.h"
#include "comm/collective/collective.h"
#include "comm/transport/transport.h"
#include "commands/profile.h"
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = 1, ANSWER = 2, MOST = 4 << 20, LEAST_ROUNDS = 5, ROUNDS = 200 };
#define ASLEEP_NS UINT64_C(500000) /* a receiver sleeps after this wait (comm/transport/wait.c) */
#define SIZE_NS UINT64_C(40000000) /* per size */

typedef struct {
    pst_world *world;
    pst_transport *t;
    pst_coll *coll;
    uint8_t *mem; /* [MOST] */
    uint32_t seq[3];
    json_t *rows;
} links;

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void add(links *l, pst_profile_kind kind, const char *text, uint64_t bytes, uint64_t *ns,
                uint32_t n) {
    qsort(ns, n, sizeof *ns, by_value);
    if (l->world->rank == 0)
        json_array_append_new(l->rows, json_pack("{s:i,s:s,s:I,s:i,s:f}", "kind", (int)kind, "text",
                                                 text, "size", (json_int_t)bytes, "busy", 0, "ns",
                                                 (double)ns[n / 2]));
}

/* --- messages --------------------------------------------------------------------------------- */

static pst_status transfer(links *l, int sends, uint32_t channel, void *mem, uint64_t bytes) {
    pst_transfer x = {.kind = sends ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                      .peer = 1 - l->world->rank,
                      .channel = channel,
                      .seq = l->seq[channel]++,
                      .mem = mem,
                      .bytes = bytes};
    uint64_t request, end_ns;
    PST_TRY(l->t->ops->post(l->t, &x, &request));
    for (;;) {
        pst_status status = l->t->ops->test(l->t, request, &end_ns);
        if (status != PST_BUSY) return status;
        pst_transport_wait(l->t, 20);
    }
}

/* Time from rank 0's post of a message until rank 1 has it; ranks of a host share the clock. */
static pst_status one_message(links *l, uint64_t bytes, uint64_t *ns) {
    int first = l->world->rank == 0;
    uint64_t began = pst_monotonic_ns(), arrived;
    if (first)
        while (pst_monotonic_ns() < began + ASLEEP_NS) continue;
    began = pst_monotonic_ns();
    PST_TRY(transfer(l, first, CHANNEL, l->mem, bytes));
    arrived = pst_monotonic_ns();
    PST_TRY(transfer(l, !first, ANSWER, &arrived, sizeof arrived));
    *ns = arrived > began ? arrived - began : 1;
    return PST_OK;
}

static pst_status time_messages(links *l) {
    uint64_t ns[ROUNDS];
    for (uint64_t bytes = 8; bytes <= MOST; bytes = bytes == 8 ? 4096 : bytes * 4) {
        uint32_t n = (uint32_t)(SIZE_NS / (2 * ASLEEP_NS));
        for (uint32_t i = 0; i < n; i++) PST_TRY(one_message(l, bytes, &ns[i]));
        add(l, PST_PROFILE_MESSAGE, "", bytes, ns, n);
    }
    return PST_OK;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static pst_status finish(links *l) {
    for (;;) {
        pst_status status = pst_coll_test(l->coll);
        if (status != PST_BUSY) return status;
        pst_transport_wait(l->t, 20);
    }
}

static pst_status open_group(links *l) {
    uint32_t *host = calloc(l->world->size, sizeof *host); /* all ranks are on this host */
    pst_status status =
        host ? pst_coll_open(l->t, NULL, l->world->size, PST_CHANNEL_COLLECTIVE, &l->coll)
             : pst_fail(PST_ENOMEM, "no memory for hosts");
    if (status == PST_OK) status = pst_coll_hosts(l->coll, host);
    if (status == PST_OK) status = pst_coll_share(l->coll);
    if (status == PST_OK) status = finish(l);
    free(host);
    return status;
}

/* Rank 0 decides the number of rounds: all ranks have to take part in each. */
static pst_status agree(links *l, uint32_t *rounds) {
    memcpy(l->mem, rounds, sizeof *rounds);
    PST_TRY(pst_coll_start(l->coll, PST_COLL_BROADCAST, l->mem, 8, PST_F32, 0));
    PST_TRY(finish(l));
    memcpy(rounds, l->mem, sizeof *rounds);
    memset(l->mem, 0, sizeof *rounds);
    return PST_OK;
}

/* A row's size is the bytes that each rank receives, as operators count them
 * (src/graph/op_tensor.c). */
static pst_status time_sums(links *l) {
    uint64_t ns[ROUNDS];
    uint32_t parts = l->world->size;
    char text[16];
    PST_TRY(open_group(l));
    snprintf(text, sizeof text, "%u", parts);
    for (uint64_t bytes = 4096; bytes <= MOST; bytes *= 4) {
        uint32_t n = LEAST_ROUNDS;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t began = pst_monotonic_ns();
            PST_TRY(pst_coll_start(l->coll, PST_COLL_ALL_REDUCE, l->mem, bytes, PST_F32, 0));
            PST_TRY(finish(l));
            ns[i] = pst_monotonic_ns() - began;
            if (i + 1 != LEAST_ROUNDS || n > LEAST_ROUNDS) continue;
            n = (uint32_t)(SIZE_NS / (ns[i] + 1)) + LEAST_ROUNDS + 1;
            if (n > ROUNDS) n = ROUNDS;
            PST_TRY(agree(l, &n));
        }
        add(l, PST_PROFILE_EXCHANGE, text, bytes / parts * (parts - 1) * 2, ns, n);
    }
    return PST_OK;
}

static pst_status measure(pst_world *world, pst_transport *t, pst_status (*time)(links *l),
                          json_t **found) {
    links l = {.world = world, .t = t, .mem = calloc(1, MOST), .rows = json_array()};
    pst_status status = l.mem && l.rows ? time(&l) : pst_fail(PST_ENOMEM, "no memory for messages");
    if (status == PST_OK) *found = json_pack("{s:O}", "rows", l.rows);
    pst_coll_close(l.coll);
    json_decref(l.rows);
    free(l.mem);
    return status;
}

pst_status pst_profile_messages(const pst_bench *b, pst_world *world, pst_transport *t,
                                json_t **found) {
    (void)b;
    return measure(world, t, time_messages, found);
}

pst_status pst_profile_exchanges(const pst_bench *b, pst_world *world, pst_transport *t,
                                 json_t **found) {
    (void)b;
    return measure(world, t, time_sums, found);
}
