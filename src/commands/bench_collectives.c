/* Suite `collectives`: measures how long collectives take, and whether the cost model chooses
 * the fastest algorithm. It runs every algorithm of each kind in turn, one collective after the
 * other without pause, in ranks (bench_ranks.c). The time is that of rank 0 from start to done;
 * ranks wait as in a run. */
#include "base/clock.h"
#include "comm/collective/collective.h"
#include "comm/transport/transport.h"
#include "comm/world/world.h"
#include "commands/bench.h"
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4000, LEAST_SAMPLES = 5 };
static const uint64_t sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20};

typedef struct {
    pst_world *world;
    pst_transport *t;
    pst_coll *coll;
    uint8_t *mem;
    double seconds;   /* per kind and size */
    const char *only; /* kind; "": all */
    uint64_t bytes;   /* 0: all sizes */
    json_t *rows;
} measurement;

/* One algorithm of a row. */
typedef struct {
    pst_coll_candidate candidate;
    uint64_t ns[SAMPLES];
} contender;

static pst_status finish(measurement *b) {
    for (;;) {
        pst_status status = pst_coll_test(b->coll);
        if (status != PST_BUSY) return status;
        pst_transport_wait(b->t, 20);
    }
}

/* bytes: in total on each rank */
static pst_status once(measurement *b, pst_coll_kind kind, uint64_t bytes, const char *algorithm,
                       uint64_t *ns) {
    int total =
        kind == PST_COLL_ALL_REDUCE || kind == PST_COLL_BROADCAST || kind == PST_COLL_BARRIER;
    uint64_t start = pst_monotonic_ns();
    PST_TRY(pst_coll_force(b->coll, algorithm));
    PST_TRY(pst_coll_start(b->coll, kind, b->mem, total ? bytes : bytes / b->world->size / 8 * 8,
                           PST_F32, 0));
    PST_TRY(finish(b));
    *ns = pst_monotonic_ns() - start;
    return PST_OK;
}

static pst_status agree(measurement *b, uint64_t *number) {
    PST_TRY(pst_coll_force(b->coll, NULL));
    PST_TRY(pst_coll_start(b->coll, PST_COLL_BROADCAST, number, sizeof *number, PST_F32, 0));
    return finish(b);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static json_t *row_of(measurement *b, pst_coll_kind kind, uint64_t bytes, contender *contenders,
                      uint32_t n, uint64_t rounds) {
    json_t *algorithms = json_array();
    for (uint32_t i = 0; i < n; i++) {
        contender *x = &contenders[i];
        qsort(x->ns, rounds, sizeof *x->ns, by_value);
        json_t *one =
            x->candidate.reject
                ? json_pack("{s:s,s:s}", "name", x->candidate.name, "cannot", x->candidate.reject)
                : json_pack("{s:s,s:f,s:f,s:f}", "name", x->candidate.name, "us",
                            (double)x->ns[rounds / 2] / 1e3, "us_90",
                            (double)x->ns[rounds * 9 / 10] / 1e3, "modelled_us", x->candidate.us);
        json_array_append_new(algorithms, one);
    }
    return json_pack("{s:s,s:I,s:i,s:o}", "kind", pst_coll_name(kind), "bytes", (json_int_t)bytes,
                     "ranks", (int)b->world->size, "algorithms", algorithms);
}

static pst_status measure_row(measurement *b, pst_coll_kind kind, uint64_t bytes) {
    static contender contenders[PST_COLL_CANDIDATES];
    pst_coll_candidate candidate[PST_COLL_CANDIDATES];
    uint32_t n = pst_coll_candidates(b->coll, kind, bytes, candidate);
    uint64_t all = 0, ns, rounds;
    for (uint32_t i = 0; i < n; i++) {
        contenders[i].candidate = candidate[i];
        for (int warm = 0; warm < 3 && !candidate[i].reject; warm++)
            PST_TRY(once(b, kind, bytes, candidate[i].name, &ns));
        if (!candidate[i].reject) all += ns;
    }
    rounds = (uint64_t)(b->seconds * 1e9 / (double)(all + 1)) + LEAST_SAMPLES;
    if (rounds > SAMPLES) rounds = SAMPLES;
    PST_TRY(agree(b, &rounds));
    /* Runs each algorithm in blocks: a change of algorithm leaves the memory in another cache
     * state. */
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < rounds && !candidate[i].reject; k++)
            PST_TRY(once(b, kind, bytes, candidate[i].name, &contenders[i].ns[k]));
    if (b->world->rank == 0)
        json_array_append_new(b->rows, row_of(b, kind, bytes, contenders, n, rounds));
    return PST_OK;
}

static pst_status measure_kind(measurement *b, pst_coll_kind kind) {
    if (kind == PST_COLL_BARRIER) return measure_row(b, kind, 0);
    if (b->bytes) return measure_row(b, kind, b->bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        PST_TRY(measure_row(b, kind, sizes[i]));
    return PST_OK;
}

static pst_status measure_all(measurement *b) {
    uint64_t most = b->bytes ? b->bytes : sizes[sizeof sizes / sizeof *sizes - 1];
    b->mem = malloc(most);
    if (!b->mem) return pst_fail(PST_ENOMEM, "no memory for %llu bytes", (unsigned long long)most);
    memset(b->mem, 0, most);
    for (uint32_t kind = 0; kind < PST_COLL_KINDS; kind++) {
        const char *name = pst_coll_name((pst_coll_kind)kind);
        if (*b->only && strcmp(b->only, name)) continue;
        PST_TRY(measure_kind(b, (pst_coll_kind)kind));
    }
    return PST_OK;
}

static pst_status prepare(measurement *b) {
    uint32_t *host = calloc(b->world->size, sizeof *host);
    pst_status status =
        host ? pst_world_hosts(b->world, host) : pst_fail(PST_ENOMEM, "no memory for hosts");
    if (status == PST_OK) status = pst_coll_hosts(b->coll, host);
    if (status == PST_OK) status = pst_coll_share(b->coll);
    if (status == PST_OK) status = finish(b);
    free(host);
    return status;
}

pst_status pst_bench_collectives_rank(const pst_bench *bench, pst_world *world, pst_transport *t,
                                      json_t **found) {
    const pst_bench_options *o = bench->options;
    measurement b = {.world = world,
                     .t = t,
                     .seconds = o->seconds,
                     .only = o->collective,
                     .bytes = (uint64_t)o->bytes / 8 * 8,
                     .rows = json_array()};
    pst_status status = pst_coll_open(t, NULL, 0, PST_CHANNEL_COLLECTIVE, &b.coll);
    if (status == PST_OK) status = prepare(&b);
    if (status == PST_OK) status = measure_all(&b);
    if (status == PST_OK)
        *found = json_pack("{s:s,s:O}", "transport", t->ops->name, "rows", b.rows);
    json_decref(b.rows);
    free(b.mem);
    pst_coll_close(b.coll);
    return status;
}

static void print_algorithm(const json_t *one, FILE *out) {
    const char *cannot = json_string_value(json_object_get(one, "cannot"));
    fprintf(out, "  %-8s ", json_string_value(json_object_get(one, "name")));
    if (cannot) fprintf(out, "(%s)", cannot);
    else
        fprintf(out, "%9.1f (%.1f)", json_number_value(json_object_get(one, "us")),
                json_number_value(json_object_get(one, "modelled_us")));
}

void pst_bench_collectives_print(json_t *found, FILE *out) {
    json_t *row, *one;
    size_t i, k;
    fprintf(out,
            "collectives over %s: median in us (estimate in parentheses); a run uses the first "
            "algorithm in each line\n",
            json_string_value(json_object_get(found, "transport")));
    json_array_foreach(json_object_get(found, "rows"), i, row) {
        fprintf(out, "%-14s %9" JSON_INTEGER_FORMAT,
                json_string_value(json_object_get(row, "kind")),
                json_integer_value(json_object_get(row, "bytes")));
        json_array_foreach(json_object_get(row, "algorithms"), k, one) print_algorithm(one, out);
        fputc('\n', out);
    }
}
