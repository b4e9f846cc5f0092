/* See dry_run.h. */
#include "commands/dry_run.h"
#include "backends/registry.h"
#include "comm/collective/collective.h"
#include "comm/transport/transport.h"
#include "comm/watch/heartbeat.h"
#include "pipeline/execute/executor.h"
#include "pipeline/execute/timed.h"
#include <stdlib.h>
#include <sys/resource.h>

/* Number of messages in flight per direction that have buffers of their own; nobody reads their
 * contents. */
enum { RING = 8 };

/* One round on one rank. */
typedef struct {
    uint64_t begin_ns, end_ns, cpu_ns;
} lap;

typedef struct {
    const pst_job *job;
    const pst_cut *cut;
    uint32_t n_local;
    const pst_transport_ops *ops;
    pst_transport *transport; /* NULL with self */
    pst_self_hub *hub;        /* self */
    pst_heartbeat *heartbeat; /* NULL with self */
    pst_coll *coll;           /* NULL with self */
    pst_device **device;      /* [n_local] */
    pst_executor **executor;  /* [n_local] */
    uint64_t most_bytes;      /* of a message */
    uint8_t *memory;          /* [2][RING][most_bytes] */
    lap *lap;                 /* [n_rank] */
} dry_run;

static void *memory_of(void *arg, const pst_instr *instr) {
    const dry_run *r = arg;
    return r->memory + ((instr->opcode == PST_OP_SEND) * RING + instr->seq % RING) * r->most_bytes;
}

/* --- open and close --------------------------------------------------------------------------- */

static pst_status reserve(dry_run *r, uint32_t n_local) {
    r->n_local = n_local;
    for (uint32_t k = 0; k < r->job->n_rank; k++)
        for (uint32_t i = 0; i < r->job->list[k].n_instr; i++)
            if (r->job->list[k].instr[i].bytes > r->most_bytes)
                r->most_bytes = r->job->list[k].instr[i].bytes;
    r->device = calloc(n_local, sizeof *r->device);
    r->executor = calloc(n_local, sizeof *r->executor);
    r->lap = calloc(r->job->n_rank, sizeof *r->lap);
    r->memory = calloc(2 * RING, r->most_bytes + 1);
    int all = r->device && r->executor && r->lap && r->memory;
    return all ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for a dry run of %u ranks", r->job->n_rank);
}

static pst_status connect(dry_run *r, pst_world *world, const char *transport) {
    if (world->size == 1) return pst_self_hub_open(r->job->n_rank, NULL, &r->hub);
    PST_TRY(pst_registry_transport(transport, world, &r->ops));
    PST_TRY(pst_heartbeat_open(world, &r->heartbeat));
    PST_TRY(r->ops->open(world, NULL, &r->transport));
    return pst_coll_open(r->transport, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll);
}

static pst_status open_ranks(dry_run *r, uint32_t first) {
    for (uint32_t i = 0; i < r->n_local; i++) {
        pst_device_config config = {.threads = 1};
        PST_TRY(pst_device_timed.open(&config, &r->device[i]));
        pst_executor_config xc = {
            .rank = first + i,
            .device = r->device[i],
            .transport = r->hub ? pst_self_hub_endpoint(r->hub, i) : r->transport,
            .hooks = {.arg = r, .memory = memory_of},
            .last_instr = r->heartbeat ? pst_heartbeat_instr(r->heartbeat) : NULL};
        PST_TRY(pst_executor_open(&xc, &r->executor[i]));
    }
    return PST_OK;
}

static void release(dry_run *r, pst_status status) {
    if (status != PST_OK && r->heartbeat) pst_heartbeat_fail(r->heartbeat);
    if (status != PST_OK && r->transport) r->ops->abort(r->transport);
    for (uint32_t i = 0; i < r->n_local; i++) {
        if (r->executor && r->executor[i]) pst_executor_close(r->executor[i]);
        if (r->device && r->device[i]) pst_device_timed.close(r->device[i]);
    }
    pst_coll_close(r->coll);
    if (r->transport) r->ops->close(r->transport);
    if (r->hub) pst_self_hub_close(r->hub);
    if (r->heartbeat) pst_heartbeat_close(r->heartbeat);
    free(r->device);
    free(r->executor);
    free(r->lap);
    free(r->memory);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

static pst_status check_peers(void *arg) {
    dry_run *r = arg;
    return r->heartbeat ? pst_heartbeat_check(r->heartbeat) : PST_OK;
}

/* Afterwards all ranks know all times; nobody leaves before all have arrived. */
static pst_status gather(dry_run *r, uint32_t rank, lap mine) {
    for (uint32_t k = 0; r->hub && k < r->job->n_rank; k++)
        r->lap[k] = (lap){mine.begin_ns, mine.end_ns, k ? 0 : mine.cpu_ns};
    if (r->hub) return PST_OK;
    r->lap[rank] = mine;
    PST_TRY(pst_coll_start(r->coll, PST_COLL_ALL_GATHER, r->lap, sizeof mine, PST_F32, 0));
    pst_status status;
    while ((status = pst_coll_test(r->coll)) == PST_BUSY) {
        PST_TRY(check_peers(r));
        pst_transport_wait(r->transport, 20);
    }
    return status;
}

static pst_status run_round(dry_run *r, uint32_t rank) {
    lap mine = {.begin_ns = pst_monotonic_ns(), .cpu_ns = cpu_ns()};
    for (uint32_t i = 0; i < r->n_local; i++)
        PST_TRY(pst_executor_start(r->executor[i], r->job, r->cut));
    PST_TRY(pst_executor_drive(r->executor, r->n_local, NULL, check_peers, r));
    mine.end_ns = pst_monotonic_ns();
    mine.cpu_ns = cpu_ns() - mine.cpu_ns;
    return gather(r, rank, mine);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static pst_status run_rounds(dry_run *r, uint32_t rank, pst_dry_run *out) {
    uint64_t cpu = 0, wall = 0;
    PST_TRY(gather(r, rank, (lap){0}));
    for (uint32_t i = 0; i <= out->n_round; i++) {
        uint64_t begin = PST_NEVER, end = 0;
        PST_TRY(run_round(r, rank));
        for (uint32_t k = 0; k < r->job->n_rank; k++) {
            if (r->lap[k].begin_ns < begin) begin = r->lap[k].begin_ns;
            if (r->lap[k].end_ns > end) end = r->lap[k].end_ns;
            if (i) cpu += r->lap[k].cpu_ns;
        }
        if (i) wall += out->makespan_ns[i - 1] = end - begin;
    }
    qsort(out->makespan_ns, out->n_round, sizeof *out->makespan_ns, by_value);
    out->most_bytes = r->most_bytes;
    out->cores = wall ? (double)cpu / (double)wall : 0;
    return PST_OK;
}

pst_status pst_dry_run_measure(pst_world *world, const char *transport, const pst_job *job,
                               const pst_cut *cut, uint32_t n_round, pst_dry_run *out) {
    dry_run r = {.job = job, .cut = cut};
    pst_dry_run result = {n_round, calloc(n_round ? n_round : 1, sizeof *result.makespan_ns), 0, 0};
    if (world->size > 1 && world->size != job->n_rank) {
        pst_dry_run_close(&result);
        return pst_fail(PST_EINPUT,
                        "the job has %u processes, but the dry run needs one for each of %u stages",
                        world->size, job->n_rank);
    }
    pst_status status =
        result.makespan_ns ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u rounds", n_round);
    if (status == PST_OK) status = reserve(&r, world->size == 1 ? job->n_rank : 1);
    if (status == PST_OK) status = connect(&r, world, transport);
    if (status == PST_OK) status = open_ranks(&r, world->rank);
    if (status == PST_OK) status = run_rounds(&r, world->rank, &result);
    release(&r, status);
    if (status == PST_OK) *out = result;
    else pst_dry_run_close(&result);
    return status;
}

void pst_dry_run_close(pst_dry_run *r) { free(r->makespan_ns); }
