/* How fast are messages between two ranks of this host? Latency and bandwidth (a window of messages one way) from 8 B to
 * 64 MiB over transport ucx, with receivers that wait as the executor does. With --compute MS rank 1 computes in tiles of
 * that length and polls between them, as under a long operator. bench/peer_ucx.py runs ucx_perftest beside it.
 *
 *   bench_p2p [--compute MS] [--bytes ONE_SIZE | --max BYTES] [--seconds PER_ROW]
 *
 * Columns: bytes; median and 90th percentile latency in microseconds: half a round trip, with --compute from the
 * post of the send until rank 1 has the message; bandwidth in GB/s (10^9 bytes): bytes received divided by the time from the first post
 * to the last completion at the receiver. All messages of a stream are read from and written to the same memory. */
#include "base/clock.h"
#include "base/status.h"
#include "comm/launch.h"
#include "comm/transport.h"
#include "comm/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 1000, WINDOW = 32, PING = 1, STREAM = 2, AGREE = 3 };

typedef struct {
    pst_world *world;
    pst_transport *t;
    double compute_ms, seconds;
    uint64_t min_bytes, max_bytes;
    uint32_t seq[4]; /* per channel; both ranks count alike */
} bench;

static int failed(const char *what) {
    fprintf(stderr, "bench_p2p: %s: %s\n", what, pst_error());
    return 1;
}

/* One tile of arithmetic: time on the processor, not a sleep. */
static void compute(double ms) {
    uint64_t until = pst_monotonic_ns() + (uint64_t)(ms * 1e6);
    volatile double x = 1;
    while (pst_monotonic_ns() < until)
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 1e-9;
}

static pst_status post(bench *b, pst_transfer_kind kind, uint32_t channel, void *mem, uint64_t bytes,
                       uint64_t *request) {
    pst_transfer x = {.kind = kind,
                      .peer = 1 - b->world->rank,
                      .channel = channel,
                      .seq = b->seq[channel]++,
                      .mem = mem,
                      .bytes = bytes};
    return b->t->ops->post(b->t, &x, request);
}

/* tiles: this rank computes while it waits. */
static pst_status finish(bench *b, uint64_t request, int tiles) {
    for (;;) {
        uint64_t end_ns;
        pst_status status = b->t->ops->test(b->t, request, &end_ns);
        if (status != PST_BUSY) return status;
        if (tiles) compute(b->compute_ms), b->t->ops->progress(b->t);
        else pst_transport_wait(b->t, 20);
    }
}

/* The number of rank `from`. */
static pst_status agree(bench *b, uint32_t from, uint64_t *number) {
    uint64_t request;
    pst_transfer_kind kind = b->world->rank == from ? PST_TRANSFER_SEND : PST_TRANSFER_RECV;
    PST_TRY(post(b, kind, AGREE, number, sizeof *number, &request));
    return finish(b, request, 0);
}

/* One message there and an answer: as much back, or, when rank 1 computes, the time at which it had the message (ranks of
 * one host share the clock). */
static pst_status round_trip(bench *b, uint8_t *mem, uint64_t bytes, uint64_t *ns) {
    int first = b->world->rank == 0, tiles = b->compute_ms > 0;
    uint64_t start = pst_monotonic_ns(), there, back, arrived = 0;
    PST_TRY(post(b, first ? PST_TRANSFER_SEND : PST_TRANSFER_RECV, PING, mem, bytes, &there));
    PST_TRY(finish(b, there, !first && tiles));
    if (!first) arrived = pst_monotonic_ns();
    void *answer = tiles ? (void *)&arrived : mem;
    PST_TRY(post(b, first ? PST_TRANSFER_RECV : PST_TRANSFER_SEND, PING, answer, tiles ? 8 : bytes, &back));
    PST_TRY(finish(b, back, 0));
    *ns = tiles ? arrived - start : (pst_monotonic_ns() - start) / 2;
    return PST_OK;
}

/* `count` messages from rank 0 to rank 1, WINDOW of them posted at a time. */
static pst_status stream(bench *b, uint8_t *mem, uint64_t bytes, uint64_t count, uint64_t *ns) {
    uint64_t request[WINDOW], start = pst_monotonic_ns();
    int receiver = b->world->rank == 1;
    for (uint64_t i = 0; i < count + WINDOW; i++) {
        if (i >= WINDOW && i - WINDOW < count) PST_TRY(finish(b, request[i % WINDOW], receiver && b->compute_ms > 0));
        if (i < count)
            PST_TRY(post(b, receiver ? PST_TRANSFER_RECV : PST_TRANSFER_SEND, STREAM, mem, bytes, &request[i % WINDOW]));
    }
    *ns = pst_monotonic_ns() - start;
    return PST_OK;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Rank 1 receives, so it knows the bandwidth; rank 0 prints. */
static pst_status measure(bench *b, uint8_t *mem, uint64_t bytes) {
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
    if (b->world->rank == 0) {
        printf("%10llu  %10.1f  %10.1f  %8.2f\n", (unsigned long long)bytes, (double)sample[rounds / 2] / 1e3,
               (double)sample[rounds * 9 / 10] / 1e3, (double)(bytes * count) / (double)ns);
        fflush(stdout);
    }
    return PST_OK;
}

static pst_status measure_all(bench *b) {
    uint8_t *mem = malloc(b->max_bytes);
    if (!mem) return pst_fail(PST_ENOMEM, "no memory for messages of %llu bytes", (unsigned long long)b->max_bytes);
    memset(mem, 1, b->max_bytes);
    if (b->world->rank == 0) printf("%10s  %10s  %10s  %8s\n", "bytes", "us median", "us 90%", "GB/s");
    pst_status status = PST_OK;
    for (uint64_t bytes = b->min_bytes; status == PST_OK && bytes <= b->max_bytes; bytes = bytes == 8 ? 4096 : bytes * 4)
        status = measure(b, mem, bytes);
    free(mem);
    return status;
}

static int run_rank(bench *b) {
    if (pst_world_pmix.open(&b->world) != PST_OK) return failed("world");
    if (pst_transport_ucx.open(b->world, NULL, &b->t) != PST_OK) return failed("transport");
    pst_status status = measure_all(b);
    if (status != PST_OK) failed("measurement");
    b->t->ops->close(b->t);
    b->world->ops->close(b->world);
    return pst_status_exit(status);
}

int main(int argc, char **argv) {
    bench b = {.seconds = 0.5, .min_bytes = 8, .max_bytes = 64 << 20};
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && !strcmp(argv[i], "--compute")) b.compute_ms = atof(argv[++i]);
        else if (i + 1 < argc && !strcmp(argv[i], "--bytes")) b.min_bytes = b.max_bytes = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && !strcmp(argv[i], "--max")) b.max_bytes = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && !strcmp(argv[i], "--seconds")) b.seconds = atof(argv[++i]);
        else {
            fprintf(stderr, "usage: bench_p2p [--compute MS] [--bytes N | --max BYTES] [--seconds PER_ROW]\n");
            return 2;
        }
    }
    if (b.max_bytes < 8) b.min_bytes = b.max_bytes = 8;
    if (!pst_world_pmix.reject()) return run_rank(&b);
    int exit_status;
    if (pst_launch_local(2, argv, 2000, &exit_status) != PST_OK) return failed("launch");
    return exit_status;
}
