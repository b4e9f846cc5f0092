/* Suite `p2p`: latency and bandwidth of messages between two ranks of this host (bench_ranks.c),
 * over the transport that a run would choose. Receivers wait as the executor does, or compute in
 * tiles of compute_ms and poll in between, as under a long operator. Latency is half a round
 * trip; if the receiver computes, the time from the post of the send until rank 1 has the
 * message. Bandwidth is the bytes received divided by the time from the first post to the last
 * completion at the receiver, with a window of messages in one direction; all messages of a
 * stream use the same memory. */
#include "base/clock.h"
#include "base/status.h"
#include "comm/transport/transport.h"
#include "commands/bench.h"
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SAMPLES = 1000,
    WINDOW = 32,
    PING = 1,
    STREAM = 2,
    AGREE = 3,
    LEAST = 8,
    MOST = 64 << 20
};

typedef struct {
    pst_world *world;
    pst_transport *t;
    double compute_ms, seconds;
    uint64_t min_bytes, max_bytes;
    uint32_t seq[4]; /* per channel; both ranks count the same */
    json_t *rows;    /* rank 0 */
} measurement;

/* One tile of arithmetic: uses the processor, unlike a sleep. */
static void compute(double ms) {
    uint64_t until = pst_monotonic_ns() + (uint64_t)(ms * 1e6);
    volatile double x = 1;
    while (pst_monotonic_ns() < until)
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 1e-9;
}

static pst_status post(measurement *b, pst_transfer_kind kind, uint32_t channel, void *mem,
                       uint64_t bytes, uint64_t *request) {
    pst_transfer x = {.kind = kind,
                      .peer = 1 - b->world->rank,
                      .channel = channel,
                      .seq = b->seq[channel]++,
                      .mem = mem,
                      .bytes = bytes};
    return b->t->ops->post(b->t, &x, request);
}

/* tiles: the rank computes while it waits. */
static pst_status finish(measurement *b, uint64_t request, int tiles) {
    for (;;) {
        uint64_t end_ns;
        pst_status status = b->t->ops->test(b->t, request, &end_ns);
        if (status != PST_BUSY) return status;
        if (tiles) {
            compute(b->compute_ms);
            b->t->ops->progress(b->t);
        } else pst_transport_wait(b->t, 20);
    }
}

/* Receives a number from rank `from`. */
static pst_status agree(measurement *b, uint32_t from, uint64_t *number) {
    uint64_t request;
    pst_transfer_kind kind = b->world->rank == from ? PST_TRANSFER_SEND : PST_TRANSFER_RECV;
    PST_TRY(post(b, kind, AGREE, number, sizeof *number, &request));
    return finish(b, request, 0);
}

/* One message and an answer of the same size; if rank 1 computes, the answer is the time at
 * which it had the message (ranks of one host share the clock). */
static pst_status round_trip(measurement *b, uint8_t *mem, uint64_t bytes, uint64_t *ns) {
    int first = b->world->rank == 0, tiles = b->compute_ms > 0;
    uint64_t start = pst_monotonic_ns(), there, back, arrived = 0;
    PST_TRY(post(b, first ? PST_TRANSFER_SEND : PST_TRANSFER_RECV, PING, mem, bytes, &there));
    PST_TRY(finish(b, there, !first && tiles));
    if (!first) arrived = pst_monotonic_ns();
    void *answer = tiles ? (void *)&arrived : mem;
    PST_TRY(post(b, first ? PST_TRANSFER_RECV : PST_TRANSFER_SEND, PING, answer, tiles ? 8 : bytes,
                 &back));
    PST_TRY(finish(b, back, 0));
    *ns = tiles ? arrived - start : (pst_monotonic_ns() - start) / 2;
    return PST_OK;
}

/* Sends `count` messages from rank 0 to rank 1, with WINDOW of them posted at a time. */
static pst_status stream(measurement *b, uint8_t *mem, uint64_t bytes, uint64_t count,
                         uint64_t *ns) {
    uint64_t request[WINDOW], start = pst_monotonic_ns();
    int receiver = b->world->rank == 1;
    for (uint64_t i = 0; i < count + WINDOW; i++) {
        if (i >= WINDOW && i - WINDOW < count)
            PST_TRY(finish(b, request[i % WINDOW], receiver && b->compute_ms > 0));
        if (i < count)
            PST_TRY(post(b, receiver ? PST_TRANSFER_RECV : PST_TRANSFER_SEND, STREAM, mem, bytes,
                         &request[i % WINDOW]));
    }
    *ns = pst_monotonic_ns() - start;
    return PST_OK;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Rank 1 receives and so measures the bandwidth; rank 0 stores the row. */
static pst_status measure_size(measurement *b, uint8_t *mem, uint64_t bytes) {
    static uint64_t sample[MAX_SAMPLES];
    uint64_t ns, once = 1, count, rounds;
    for (int warm = 0; warm < 3; warm++) PST_TRY(round_trip(b, mem, bytes, &once));
    rounds = (uint64_t)(b->seconds * 0.5e9 / (double)once) + 5;
    if (rounds > MAX_SAMPLES) rounds = MAX_SAMPLES;
    PST_TRY(agree(b, 0, &rounds));
    for (uint64_t i = 0; i < rounds; i++) PST_TRY(round_trip(b, mem, bytes, &sample[i]));
    qsort(sample, rounds, sizeof *sample, by_value);
    PST_TRY(stream(b, mem, bytes, 2 * WINDOW, &ns));
    count = (uint64_t)(b->seconds * 0.5e9 / (double)ns * 2 * WINDOW) + 2 * WINDOW;
    PST_TRY(agree(b, 1, &count));
    PST_TRY(stream(b, mem, bytes, count, &ns));
    PST_TRY(agree(b, 1, &ns));
    if (b->world->rank == 0)
        json_array_append_new(b->rows,
                              json_pack("{s:I,s:f,s:f,s:f}", "bytes", (json_int_t)bytes,
                                        "latency_us", (double)sample[rounds / 2] / 1e3,
                                        "latency_90_us", (double)sample[rounds * 9 / 10] / 1e3,
                                        "gb_per_s", (double)(bytes * count) / (double)ns));
    return PST_OK;
}

static pst_status measure_all(measurement *b) {
    uint8_t *mem = malloc(b->max_bytes);
    if (!mem)
        return pst_fail(PST_ENOMEM, "no memory for messages of %llu bytes",
                        (unsigned long long)b->max_bytes);
    memset(mem, 1, b->max_bytes);
    pst_status status = PST_OK;
    for (uint64_t bytes = b->min_bytes; status == PST_OK && bytes <= b->max_bytes;
         bytes = bytes == 8 ? 4096 : bytes * 4)
        status = measure_size(b, mem, bytes);
    free(mem);
    return status;
}

pst_status pst_bench_p2p_rank(const pst_bench *bench, pst_world *world, pst_transport *t,
                              json_t **found) {
    const pst_bench_options *o = bench->options;
    measurement b = {.world = world,
                     .t = t,
                     .seconds = o->seconds,
                     .compute_ms = o->compute_ms,
                     .min_bytes = o->bytes ? (uint64_t)o->bytes : LEAST,
                     .max_bytes = o->bytes ? (uint64_t)o->bytes : MOST,
                     .rows = json_array()};
    if (world->size != 2)
        return pst_fail(PST_EINPUT, "suite p2p needs two ranks, but the job has %u", world->size);
    pst_status status = measure_all(&b);
    if (status == PST_OK)
        *found = json_pack("{s:s,s:f,s:O}", "transport", t->ops->name, "compute_ms", b.compute_ms,
                           "rows", b.rows);
    json_decref(b.rows);
    return status;
}

void pst_bench_p2p_print(json_t *found, FILE *out) {
    double compute_ms = json_number_value(json_object_get(found, "compute_ms"));
    json_t *row;
    size_t i;
    fprintf(out, "p2p: two ranks over %s", json_string_value(json_object_get(found, "transport")));
    if (compute_ms > 0) fprintf(out, ", the receiver computes in intervals of %g ms", compute_ms);
    fprintf(out, "\n%10s  %10s  %10s  %8s\n", "bytes", "median us", "p90 us", "GB/s");
    json_array_foreach(json_object_get(found, "rows"), i, row)
        fprintf(out, "%10" JSON_INTEGER_FORMAT "  %10.1f  %10.1f  %8.2f\n",
                json_integer_value(json_object_get(row, "bytes")),
                json_number_value(json_object_get(row, "latency_us")),
                json_number_value(json_object_get(row, "latency_90_us")),
                json_number_value(json_object_get(row, "gb_per_s")));
}
