/* Suite generate: the time of a token of one sequence, with a cache, and the bound that memory
 * sets: every weight is read once per token. The bandwidth is measured before and after the tokens,
 * by the same threads in the same memory. */
#include "base/clock.h"
#include "base/plural.h"
#include "base/pool.h"
#include "commands/bench.h"
#include "generate/decoder.h"
#include "graph/op.h"
#include <stdlib.h>
#include <string.h>

enum { TILE = 1 << 20 /* bytes */, ROUNDS = 5, PROMPT = 1 };

typedef struct {
    const uint8_t *base;
    uint64_t bytes;
    uint64_t sum[256]; /* so that the reads are not left out; any thread writes any of them */
} reading;

static void read_tile(void *arg, uint64_t tile, uint32_t thread) {
    reading *r = arg;
    const uint64_t *at = (const uint64_t *)(const void *)(r->base + tile * TILE);
    uint64_t sum[8] = {0};
    for (uint64_t i = 0; i < TILE / sizeof *at; i += 8) {
        __builtin_prefetch(at + i + 256);
        for (int k = 0; k < 8; k++) sum[k] += at[i + k];
    }
    for (int k = 0; k < 8; k++) r->sum[thread % 256] += sum[k];
}

/* Bytes per second, the best of some rounds. */
static double bandwidth_of(const pst_rank *r, uint64_t bytes) {
    reading of = {.base = r->arena.base, .bytes = bytes / TILE * TILE};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = pst_monotonic_ns();
        pst_pool_run(r->device->pool, read_tile, &of, of.bytes / TILE);
        uint64_t ns = pst_monotonic_ns() - began;
        if (ns < least) least = ns;
    }
    return (double)of.bytes / (double)least * 1e9;
}

/* Whether only embeddings use a parameter: a token reads one row of it. */
static int is_looked_up(const pst_graph *g, uint32_t param) {
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_param; k++)
            if (g->node[i].param[k] == param && strcmp(g->node[i].op->name, "embedding")) return 0;
    return 1;
}

/* Bytes of the weights that a token reads as a whole. */
static uint64_t weight_bytes(const pst_graph *g) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_param; i++)
        if (!g->param[i].cache && !is_looked_up(g, i)) n += pst_param_bytes(g, g->param + i);
    return n;
}

static int by_size(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ns[i]: of token i. The most likely token follows. */
static pst_status time_tokens(pst_decoder *d, int32_t *token, uint64_t *ns, uint32_t n) {
    pst_sequence s = {.token = token, .n = PROMPT};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t began = pst_monotonic_ns();
        PST_TRY(pst_decoder_run(d, &s));
        int32_t best = 0;
        for (uint32_t k = 1; k < d->vocabulary; k++)
            if (s.logits[k] > s.logits[best]) best = (int32_t)k;
        token[s.n++] = best;
        ns[i] = pst_monotonic_ns() - began;
    }
    return PST_OK;
}

static pst_status measure(const pst_bench *b, pst_decoder *d, json_t **found) {
    const pst_rank *r = d->group->local[0];
    const uint64_t weights = weight_bytes(d->p->graph),
                   region = r->memory->bytes[PST_REGION_WEIGHT];
    const uint32_t n = d->context - PROMPT;
    int32_t *token = calloc(d->context + (size_t)1, sizeof *token);
    uint64_t *ns = calloc(n + (size_t)1, sizeof *ns);
    double before = 0, after = 0;
    pst_status status = token && ns ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u tokens", n);
    if (status == PST_OK) before = bandwidth_of(r, region);
    if (status == PST_OK) status = time_tokens(d, token, ns, n);
    if (status == PST_OK) {
        after = bandwidth_of(r, region);
        qsort(ns, n, sizeof *ns, by_size);
        const double rate = before > after ? before : after, bound = (double)weights / rate;
        *found = json_pack("{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:I,s:f}", "model",
                           b->config->model.preset, "threads", (int)b->threads, "tokens", (int)n,
                           "token_s", (double)ns[n / 2] * 1e-9, "least_s", (double)ns[0] * 1e-9,
                           "most_s", (double)ns[n - 1] * 1e-9, "bound_s", bound, "bytes_per_s",
                           rate, "weight_bytes", (json_int_t)weights, "of_bound",
                           bound / ((double)ns[n / 2] * 1e-9));
        if (!*found) status = pst_fail(PST_ENOMEM, "no memory for results");
    }
    free(token);
    free(ns);
    return status;
}

pst_status pst_bench_generate_measure(const pst_bench *b, json_t **found) {
    const pst_source source = {.config = (pst_config *)b->config};
    pst_decoder d;
    if (b->config->model.context < 2 * PROMPT)
        return pst_fail(PST_EINPUT, "suite generate needs a context of at least %d tokens",
                        2 * PROMPT);
    PST_TRY(pst_decoder_open(&source, &(pst_decoder_options){.sequences = 1, .threads = b->threads},
                             &d));
    pst_status status =
        d.cache && d.group->local[0]->device->pool
            ? measure(b, &d, found)
            : pst_fail(PST_EINPUT, "suite generate measures CPUs, and models with a cache, such as "
                                   "gpt");
    pst_decoder_close(&d, status);
    return status;
}

static double real_of(json_t *j, const char *key) {
    return json_number_value(json_object_get(j, key));
}

void pst_bench_generate_print(json_t *found, FILE *out) {
    fprintf(out,
            "generate: %s, fp32, %.0f thread%s: %.2f ms per token (%.2f to %.2f in %.0f tokens); "
            "%.1f %% of the bound of %.2f ms, in which %.1f GB/s read %.1f MB of weights\n",
            json_string_value(json_object_get(found, "model")), real_of(found, "threads"),
            pst_plural((uint64_t)real_of(found, "threads")), real_of(found, "token_s") * 1e3,
            real_of(found, "least_s") * 1e3, real_of(found, "most_s") * 1e3,
            real_of(found, "tokens"), real_of(found, "of_bound") * 100,
            real_of(found, "bound_s") * 1e3, real_of(found, "bytes_per_s") * 1e-9,
            real_of(found, "weight_bytes") * 1e-6);
}
