/* The calls of programs (penstock/kv.h): checks, and the hand-over to the thread of the store. */
#include "base/sized.h"
#include "comm/world/dmlc.h"
#include "graph/optim.h"
#include "kv/compress.h"
#include "kv/engine.h"
#include "kv/worker.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *name;
    int joins, synchronous;
} type_row;

static const type_row types[] = {{"local", 0, 1},
                                 {"device", 0, 1},
                                 {"dist_sync", 1, 1},
                                 {"dist_sync_device", 1, 1},
                                 {"dist_device_sync", 1, 1},
                                 {"dist_async", 1, 0}};

static pst_status find_type(const char *name, const type_row **row) {
    *row = types;
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
        *row = types + i;
        if (!strcmp(types[i].name, name)) return PST_OK;
    }
    return pst_fail(PST_EINPUT,
                    "pst_kv_open: type '%s': expected local, device, dist_sync, dist_sync_device, "
                    "dist_device_sync or dist_async",
                    name ? name : "NULL");
}

static pst_status check_options(const pst_kv_options *given, pst_kv_options *o) {
    enum { WAIT_S = 60, MOST = 65536 };
    *o = (pst_kv_options){.size = sizeof *o};
    if (given) PST_TRY(pst_sized_take("pst_kv_open", given, o, sizeof *o));
    if (o->servers < 0 || o->servers > MOST || o->wait_s < 0 || o->wait_s > 1000000 ||
        o->threads < 0 || o->threads > 1024)
        return pst_fail(PST_EINPUT,
                        "pst_kv_open: %lld servers, %lld s to wait, %lld threads; expected 0 to "
                        "65536, 1000000 and 1024",
                        (long long)o->servers, (long long)o->wait_s, (long long)o->threads);
    if (!o->wait_s) o->wait_s = WAIT_S;
    if (!o->threads) o->threads = 1;
    return PST_OK;
}

/* 1: this process is the scheduler of a job that is described as for ps-lite, and has done its
 * work. */
static int is_scheduler(const pst_kv_options *o, pst_status *status) {
    pst_dmlc_role role;
    pst_tcp_job job = {.seconds = (uint32_t)o->wait_s};
    const char *text = getenv("DMLC_ROLE");
    pst_dmlc_count_servers(1);
    if (!text || !strcmp(text, "worker") || !strcmp(text, "server")) return 0;
    *status = pst_dmlc_read(&role, &job); /* refuses other roles */
    if (*status == PST_OK) *status = pst_dmlc_schedule(&job);
    return 1;
}

/* A process takes part in one job at a time. Under PMIx in one only: the launcher does not serve a
 * process that joins again. */
static atomic_int joined, joined_before;

static pst_status join_once(void) {
    if (atomic_exchange(&joined, 1))
        return pst_fail(PST_EINPUT, "pst_kv_open: this process has a store of several processes "
                                    "open already; close it first");
    if (!getenv("PMIX_RANK") || !atomic_exchange(&joined_before, 1)) return PST_OK;
    atomic_store(&joined, 0);
    return pst_fail(PST_EINPUT, "pst_kv_open: under mpirun and srun a process can open a store of "
                                "several processes only once");
}

static void free_store(pst_kv *kv) {
    if (kv->joins) atomic_store(&joined, 0);
    if (kv->wake >= 0) close(kv->wake);
    pthread_cond_destroy(&kv->changed);
    pthread_mutex_destroy(&kv->lock);
    free(kv);
}

static int only_serves(const pst_kv *kv) { return kv->n_serve_only && kv->rank >= kv->n_worker; }

pst_status pst_kv_open(const char *type, const pst_kv_options *options, pst_kv **out) {
    const type_row *row;
    pst_kv_options o;
    pst_status status;
    if (!out) return pst_fail(PST_EINPUT, "pst_kv_open: kv is NULL");
    *out = NULL;
    PST_TRY(find_type(type, &row));
    PST_TRY(check_options(options, &o));
    if (row->joins && is_scheduler(&o, &status)) return status;
    pst_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return pst_no_memory("for a key-value store");
    status = row->joins ? join_once() : PST_OK;
    if (status != PST_OK) {
        free(kv);
        return status;
    }
    kv->joins = row->joins;
    kv->synchronous = row->synchronous;
    kv->asked_servers = row->joins ? o.servers : 0;
    kv->wait_s = (uint32_t)o.wait_s;
    kv->threads = (uint32_t)o.threads;
    status = pst_kv_engine_start(kv);
    if (status == PST_OK && !only_serves(kv)) {
        *out = kv;
        return PST_OK;
    }
    if (status == PST_OK) status = pst_kv_engine_join(kv);
    free_store(kv);
    return status;
}

uint32_t pst_kv_rank(const pst_kv *kv) { return kv ? kv->rank : 0; }
uint32_t pst_kv_workers(const pst_kv *kv) { return kv ? kv->n_worker : 0; }
uint32_t pst_kv_servers(const pst_kv *kv) { return kv ? kv->n_serve_only : 0; }

/* --- operations ------------------------------------------------------------------------------- */

static pst_status check(const char *where, const pst_kv *kv, const char *key) {
    if (!kv) return pst_fail(PST_EINPUT, "%s: kv is NULL", where);
    return key ? PST_OK : pst_fail(PST_EINPUT, "%s: key is NULL", where);
}

/* Queues operations one behind the other. */
static pst_status add(pst_kv *kv, const pst_kv_call *call, uint32_t n) {
    pst_status status = PST_OK;
    pthread_mutex_lock(&kv->lock);
    for (uint32_t i = 0; i < n && status == PST_OK; i++) status = pst_kv_worker_add(kv, call + i);
    pthread_mutex_unlock(&kv->lock);
    pst_kv_engine_wake(kv);
    return status;
}

pst_status pst_kv_init(pst_kv *kv, const char *key, const float *value, uint64_t rows,
                       uint64_t columns) {
    PST_TRY(check("pst_kv_init", kv, key));
    return add(kv,
               &(pst_kv_call){
                   .op = PST_KV_INIT, .key = key, .value = value, .rows = rows, .columns = columns},
               1);
}

pst_status pst_kv_push(pst_kv *kv, const char *key, const float *value, int priority) {
    PST_TRY(check("pst_kv_push", kv, key));
    return add(
        kv, &(pst_kv_call){.op = PST_KV_PUSH, .key = key, .value = value, .priority = priority}, 1);
}

pst_status pst_kv_pull(pst_kv *kv, const char *key, float *out, int priority) {
    PST_TRY(check("pst_kv_pull", kv, key));
    return add(kv, &(pst_kv_call){.op = PST_KV_PULL, .key = key, .out = out, .priority = priority},
               1);
}

pst_status pst_kv_pushpull(pst_kv *kv, const char *key, const float *value, float *out,
                           int priority) {
    PST_TRY(check("pst_kv_pushpull", kv, key));
    if (!out) return pst_fail(PST_EINPUT, "pst_kv_pushpull: out is NULL");
    const pst_kv_call call[] = {
        {.op = PST_KV_PUSH, .key = key, .value = value, .priority = priority},
        {.op = PST_KV_PULL, .key = key, .out = out, .priority = priority}};
    return add(kv, call, 2);
}

pst_status pst_kv_broadcast(pst_kv *kv, const char *key, const float *value, uint64_t rows,
                            uint64_t columns, float *out) {
    PST_TRY(check("pst_kv_broadcast", kv, key));
    if (!out) return pst_fail(PST_EINPUT, "pst_kv_broadcast: out is NULL");
    const pst_kv_call call[] = {
        {.op = PST_KV_INIT, .key = key, .value = value, .rows = rows, .columns = columns},
        {.op = PST_KV_PULL, .key = key, .out = out}};
    return add(kv, call, 2);
}

pst_status pst_kv_row_sparse_pull(pst_kv *kv, const char *key, const uint64_t *row, uint64_t n_row,
                                  float *out, int priority) {
    PST_TRY(check("pst_kv_row_sparse_pull", kv, key));
    return add(kv,
               &(pst_kv_call){.op = PST_KV_ROWS,
                              .key = key,
                              .out = out,
                              .row = row,
                              .n_row = n_row,
                              .priority = priority},
               1);
}

/* --- the optimizer ---------------------------------------------------------------------------- */

void pst_kv_optimizer_init(pst_kv_optimizer *o, const char *name) {
    int is_sgd = name && !strcmp(name, "sgd");
    *o = (pst_kv_optimizer){.size = sizeof *o,
                            .name = name,
                            .lr = is_sgd ? 0.01 : 0.001,
                            .weight_decay = name && !strcmp(name, "adamw") ? 0.01 : 0,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .rescale = 1};
}

static pst_status rule_of(const pst_kv_optimizer *o, pst_kv_rule *rule) {
    const pst_optim_row *row = o->name ? pst_optim_find(o->name) : NULL;
    if (!row || row->whole)
        return pst_fail(PST_EINPUT, "optimizer '%s': expected sgd, adam or adamw",
                        o->name ? o->name : "NULL");
    *rule = (pst_kv_rule){.kind = (int32_t)row->kind,
                          .nesterov = o->nesterov != 0,
                          .lr = (float)o->lr,
                          .decay = (float)o->weight_decay,
                          .momentum = (float)o->momentum,
                          .beta1 = (float)o->beta1,
                          .beta2 = (float)o->beta2,
                          .eps = (float)o->eps,
                          .rescale = (float)o->rescale};
    const float number[] = {rule->lr,    rule->decay, rule->momentum, rule->beta1,
                            rule->beta2, rule->eps,   rule->rescale};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!isfinite(number[i]) || (number[i] < 0 && i < 6))
            return pst_fail(PST_EINPUT,
                            "the optimizer has the number %g in fp32; expected finite numbers, and "
                            "none below 0 but rescale",
                            (double)number[i]);
    if (rule->momentum >= 1 || rule->beta1 >= 1 || rule->beta2 >= 1)
        return pst_fail(PST_EINPUT,
                        "the optimizer has momentum %g, beta1 %g and beta2 %g in fp32; expected "
                        "numbers below 1",
                        (double)rule->momentum, (double)rule->beta1, (double)rule->beta2);
    return PST_OK;
}

pst_status pst_kv_set_optimizer(pst_kv *kv, const pst_kv_optimizer *optimizer) {
    pst_kv_optimizer o;
    pst_kv_rule rule;
    PST_TRY(check("pst_kv_set_optimizer", kv, ""));
    PST_TRY(pst_sized_take("pst_kv_set_optimizer", optimizer, &o, sizeof o));
    PST_TRY(rule_of(&o, &rule));
    pthread_mutex_lock(&kv->lock);
    pst_status status = pst_kv_state(kv);
    if (status == PST_OK) status = pst_kv_worker_set_rule(kv, &rule);
    pthread_mutex_unlock(&kv->lock);
    return status;
}

pst_status pst_kv_set_compression(pst_kv *kv, const pst_kv_compression *compression) {
    pst_kv_compression c;
    pst_codec codec;
    PST_TRY(check("pst_kv_set_compression", kv, ""));
    PST_TRY(pst_sized_take("pst_kv_set_compression", compression, &c, sizeof c));
    PST_TRY(pst_kv_codec_of(&c, &codec));
    pthread_mutex_lock(&kv->lock);
    pst_status status = pst_kv_state(kv);
    if (status == PST_OK) pst_kv_worker_set_codec(kv, &codec);
    pthread_mutex_unlock(&kv->lock);
    return status;
}

/* --- waiting ---------------------------------------------------------------------------------- */

pst_status pst_kv_wait(pst_kv *kv, const char *key) {
    uint64_t pending = 1;
    PST_TRY(check("pst_kv_wait", kv, ""));
    pthread_mutex_lock(&kv->lock);
    pst_status status = PST_OK;
    while (status == PST_OK && pending) {
        status = pst_kv_state(kv);
        if (status == PST_OK) status = pst_kv_worker_pending(kv, key, &pending);
        if (status == PST_OK && pending) pthread_cond_wait(&kv->changed, &kv->lock);
    }
    pthread_mutex_unlock(&kv->lock);
    return status;
}

pst_status pst_kv_barrier(pst_kv *kv) {
    PST_TRY(check("pst_kv_barrier", kv, ""));
    pthread_mutex_lock(&kv->lock);
    while (kv->in_barrier) pthread_cond_wait(&kv->changed, &kv->lock);
    kv->in_barrier = 1;
    pthread_mutex_unlock(&kv->lock);
    pst_status status = pst_kv_wait(kv, NULL);
    if (status == PST_OK) status = add(kv, &(pst_kv_call){.op = PST_KV_BARRIER}, 1);
    if (status == PST_OK) status = pst_kv_wait(kv, NULL);
    pthread_mutex_lock(&kv->lock);
    kv->in_barrier = 0;
    pthread_cond_broadcast(&kv->changed);
    pthread_mutex_unlock(&kv->lock);
    return status;
}

pst_status pst_kv_close(pst_kv *kv) {
    if (!kv) return PST_OK;
    pst_status status = pst_kv_wait(kv, NULL);
    if (status == PST_OK) status = add(kv, &(pst_kv_call){.op = PST_KV_END}, 1);
    pthread_mutex_lock(&kv->lock);
    kv->closing = 1;
    pthread_cond_broadcast(&kv->changed);
    pthread_mutex_unlock(&kv->lock);
    pst_kv_engine_wake(kv);
    pst_status ended = pst_kv_engine_join(kv);
    free_store(kv);
    return status == PST_OK ? ended : status;
}
