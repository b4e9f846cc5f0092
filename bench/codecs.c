/* For bench/codecs.py: the time of packing and of unpacking with addition, with each codec, of 16
 * Mi elements on one core (CPU time), beside the bandwidth of y += x, in turn in each round.
 *
 *     codecs ROUNDS [CODEC ...]
 *
 * Prints, per codec and round, its name, the seconds of y += x, of packing and of unpacking. */
#include "kernels/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { N = 16 << 20, COLUMNS = 768 };
enum { BASIS = N / PST_CODEC_MATRIX * 4 * COLUMNS };

typedef struct {
    const char *name;
    pst_codec codec;
} one_codec;
static const one_codec codecs[] = {
    {"int8", {.kind = PST_CODEC_INT8, .block = 256}},
    {"int4", {.kind = PST_CODEC_INT4, .block = 128}},
    {"2bit", {.kind = PST_CODEC_2BIT, .block = 256}},
    {"topk", {.kind = PST_CODEC_TOPK, .block = 1024, .keep = 10}},
    {"topk-steps", {.kind = PST_CODEC_TOPK, .block = 1024, .keep = 10, .moments = 1}},
    {"bf16", {.kind = PST_CODEC_BF16, .block = 256}},
    {"powersgd",
     {.kind = PST_CODEC_POWERSGD,
      .block = PST_CODEC_MATRIX,
      .rank = 4,
      .columns = COLUMNS,
      .least = 2,
      .warm = 1,
      .iterations = 2}},
    {"powersgd-1",
     {.kind = PST_CODEC_POWERSGD,
      .block = PST_CODEC_MATRIX,
      .rank = 4,
      .columns = COLUMNS,
      .least = 2,
      .warm = 1,
      .iterations = 1}}};

/* left[0], left[1]: residual and gradient, in turns: what is left of the gradient is the next
 * residual. Each round takes the gradients from another element on. */
enum { MORE = 1 << 20, APART = 65536 - 16 };
static float *gradient, *left[2], *sum, *second, *basis;
static uint8_t *packed;

/* With large pages where there are any, as training has them. */
static void *memory(uint64_t bytes) {
    enum { LARGE = 2 << 20 };
    void *at = aligned_alloc(LARGE, (bytes + LARGE - 1) / LARGE * LARGE);
    if (!at) exit(1);
    madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 0, bytes);
    return at;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(void) {
    uint32_t seed = 1;
    gradient = memory((N + MORE) * sizeof *gradient);
    left[0] = memory(N * sizeof(float));
    left[1] = memory(N * sizeof(float));
    sum = memory(N * sizeof *sum);
    second = memory(N * sizeof *second);
    basis = memory(BASIS * sizeof *basis);
    packed = memory(N * sizeof(float));
    for (int i = 0; i < N + MORE; i++) {
        gradient[i] = 0;
        for (int k = 0; k < 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            gradient[i] += ((float)(seed >> 8) * 0x1p-24f - 0.5f) * 1e-3f;
        }
    }
}

/* The Q of each block of the last message. */
static void keep_basis(pst_codec codec) {
    const uint64_t each = codec.rank * COLUMNS;
    for (uint64_t b = 0; b < N / PST_CODEC_MATRIX; b++)
        memcpy(basis + b * each, packed + pst_codec_bytes(codec, b * codec.block),
               each * sizeof *basis);
}

/* As on a rank that does not own the piece, which packs in the gradient's memory. */
static void one_round(const pst_flat *flat, const one_codec *c, int round) {
    const pst_flat_moments m = {second, 1, 0.5f, 0.95f, 1e-8f, 1};
    const float *from = gradient + (uint64_t)(round + 3) * APART % MORE;
    float *own = left[round & 1];
    const pst_flat_pack of = {.x = own,
                              .error = left[~round & 1],
                              .scale = 1,
                              .packed = packed,
                              .next = own,
                              .n = N,
                              .codec = c->codec,
                              .moments = c->codec.moments ? &m : NULL,
                              .basis = c->codec.warm ? basis : NULL};
    memcpy(own, from, N * sizeof *own);
    const double t0 = now();
    flat->accumulate(NULL, sum, from, N);
    const double t1 = now();
    flat->pack(NULL, &of);
    const double t2 = now();
    flat->unpack(NULL, c->codec, packed, sum, N, 1);
    const double t3 = now();
    if (c->codec.warm) keep_basis(c->codec);
    if (round >= 0) printf("%s %.9f %.9f %.9f\n", c->name, t1 - t0, t2 - t1, t3 - t2);
}

static int is_asked_for(const char *name, int n, char **names) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 9;
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    fill();
    printf("%s\n", flat->name);
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++) {
        memset(left[0], 0, N * sizeof(float));
        memset(left[1], 0, N * sizeof(float));
        memset(basis, 0, BASIS * sizeof *basis);
        for (int r = -3; r < rounds && is_asked_for(codecs[k].name, argc - 2, argv + 2); r++)
            one_round(flat, &codecs[k], r);
    }
    return 0;
}
