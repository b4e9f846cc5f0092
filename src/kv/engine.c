/* See engine.h. */
#include "kv/engine.h"
#include "backends/registry.h"
#include "comm/transport/transport.h"
#include "comm/world/world.h"
#include "kv/server.h"
#include "kv/worker.h"
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* CHECK: how often the other processes are looked at; YIELD: how long the thread polls before it
 * sleeps (comm/transport/wait.c); TELL: how long a failed server tries to tell its workers why;
 * BLAME: how long a process whose link has failed waits to hear which process has died. */
enum { CHECK_NS = 20000000, YIELD_NS = 100000, TELL_NS = 500000000, SLEEP_MS = 20 };
static const uint64_t BLAME_NS = UINT64_C(1500000) * PST_HEARTBEAT_MS * PST_HEARTBEAT_MISSES;

void pst_kv_engine_wake(pst_kv *kv) {
    uint64_t one = 1;
    if (kv->wake >= 0) (void)!write(kv->wake, &one, sizeof one);
}

/* --- the job ---------------------------------------------------------------------------------- */

static pst_status split_roles(pst_kv *kv) {
    const uint32_t size = kv->world->size;
    const char *text = getenv("DMLC_ROLE") ? getenv("DMLC_NUM_SERVER") : NULL;
    int64_t counted = text ? strtol(text, NULL, 10) : 0;
    int64_t servers = kv->asked_servers ? kv->asked_servers : counted;
    if (text && kv->asked_servers && counted != kv->asked_servers)
        return pst_fail(PST_EINPUT,
                        "the store is opened with %lld servers, but DMLC_NUM_SERVER is %s",
                        (long long)kv->asked_servers, text);
    if (servers < 0 || servers >= size)
        return pst_fail(PST_EINPUT,
                        "the job has %u processes, of which %lld are to serve; expected 0 to %u",
                        size, (long long)servers, size - 1);
    kv->rank = kv->world->rank;
    kv->n_serve_only = (uint32_t)servers;
    kv->n_worker = size - kv->n_serve_only;
    kv->n_server = servers ? kv->n_serve_only : size;
    return PST_OK;
}

static pst_status connect_processes(pst_kv *kv) {
    const pst_transport_ops *ops;
    if (kv->world->size == 1) return PST_OK;
    PST_TRY(pst_registry_transport("auto", kv->world, &ops));
    PST_TRY(pst_heartbeat_open(kv->world, &kv->heartbeat));
    *pst_heartbeat_instr(kv->heartbeat) = PST_HEARTBEAT_STORE;
    return ops->open(kv->world, NULL, &kv->transport);
}

/* What all processes of a store must have in common. */
typedef struct {
    int32_t synchronous;
    uint32_t servers;
} kind;

static const char *order_of(const kind *k) {
    return k->synchronous ? "synchronous" : "asynchronous";
}

static pst_status compare_kind(pst_kv *kv, const kind *mine) {
    kind *first;
    size_t bytes;
    PST_TRY(kv->world->ops->get(kv->world, 0, "penstock.kv.kind", (void **)&first, &bytes));
    const int equal = bytes == sizeof *first && !memcmp(first, mine, sizeof *mine);
    pst_status status = PST_OK;
    if (!equal && bytes == sizeof *first)
        status = pst_fail(PST_EINPUT,
                          "the store is %s with %u servers here, but %s with %u at rank 0; open it "
                          "with the same type and options in all processes",
                          order_of(mine), mine->servers, order_of(first), first->servers);
    else if (!equal) status = pst_fail(PST_EPEER, "rank 0 runs a different version of penstock");
    free(first);
    return status;
}

/* Collective; two fences. */
static pst_status agree_on_kind(pst_kv *kv) {
    pst_status status = split_roles(kv);
    const kind mine = {kv->synchronous, kv->n_serve_only};
    if (status == PST_OK)
        status = kv->world->ops->put(kv->world, "penstock.kv.kind", &mine, sizeof mine);
    PST_TRY(pst_world_agree(kv->world, "penstock.kv.role", status));
    return pst_world_agree(kv->world, "penstock.kv.same", compare_kind(kv, &mine));
}

static pst_status join(pst_kv *kv) {
    const pst_world_ops *ops = kv->joins ? pst_registry_world() : &pst_world_single;
    pst_world_tcp_wait(kv->wait_s);
    pst_world_pmix_wait(kv->wait_s);
    PST_TRY(ops->open(&kv->world));
    PST_TRY(agree_on_kind(kv));
    PST_TRY(connect_processes(kv));
    if (!kv->n_serve_only || kv->rank >= kv->n_worker) PST_TRY(pst_kv_server_open(kv, &kv->server));
    if (kv->rank < kv->n_worker) PST_TRY(pst_kv_worker_open(kv, &kv->worker));
    if (kv->server) PST_TRY(pst_kv_server_start(kv));
    return kv->worker ? pst_kv_worker_start(kv) : PST_OK;
}

/* --- other processes -------------------------------------------------------------------------- */

/* EPEER: another process has died; the message names it. */
static pst_status check_processes(const pst_kv *kv) {
    if (!kv->heartbeat) return PST_OK;
    pst_status status = pst_heartbeat_check(kv->heartbeat);
    if (status == PST_OK && kv->world->ops->check) status = kv->world->ops->check(kv->world);
    if (status == PST_OK || !kv->n_serve_only) return status;
    char message[sizeof kv->message];
    snprintf(message, sizeof message, "%s", pst_error());
    return pst_fail(status, "%s; ranks from %u on are servers", message, kv->n_worker);
}

/* A link fails before its process is known to be dead: waits for that, so that no rank is blamed
 * that only noticed it first. */
static pst_status blame(const pst_kv *kv, pst_status status) {
    char message[sizeof kv->message];
    uint64_t until = pst_monotonic_ns() + BLAME_NS;
    snprintf(message, sizeof message, "%s", pst_error());
    while (status == PST_EPEER && pst_monotonic_ns() < until) {
        if (check_processes(kv) != PST_OK) return status;
        usleep(10000);
    }
    return pst_fail(status, "%s", message);
}

/* 1: the program has asked for something since the last call. */
static int is_woken(const pst_kv *kv) {
    uint64_t count;
    return read(kv->wake, &count, sizeof count) == sizeof count;
}

/* Sleeps until a transfer moves, the program asks for something, or SLEEP_MS have passed. */
static void sleep_a_while(pst_kv *kv) {
    struct pollfd fd[2] = {{.fd = kv->wake, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    int milliseconds = -1;
    if (kv->transport) {
        pst_status status = kv->transport->ops->arm(kv->transport, &fd[1].fd);
        if (status != PST_OK) { /* something has moved, or this transport cannot sleep */
            sched_yield();
            return;
        }
        milliseconds = SLEEP_MS;
    }
    poll(fd, 2, milliseconds);
    (void)is_woken(kv);
}

static void wait_for_more(pst_kv *kv) {
    uint64_t until = pst_monotonic_ns() + YIELD_NS;
    while (kv->transport && pst_monotonic_ns() < until) {
        if (kv->transport->ops->progress(kv->transport) || is_woken(kv)) return;
        sched_yield();
    }
    sleep_a_while(kv);
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Receives are always posted; everything else has to be done before the thread ends. */
static int has_ended(pst_kv *kv) {
    pthread_mutex_lock(&kv->lock);
    uint64_t pending = 0;
    int closing = kv->closing;
    if (kv->worker) (void)pst_kv_worker_pending(kv, NULL, &pending);
    pthread_mutex_unlock(&kv->lock);
    if (kv->worker && (!closing || pending)) return 0;
    return !kv->server || pst_kv_server_ended(kv);
}

static pst_status turn(pst_kv *kv) {
    int moved = 0;
    if (kv->worker) PST_TRY(pst_kv_worker_run(kv, &moved));
    if (kv->transport) {
        kv->transport->ops->progress(kv->transport);
        PST_TRY(pst_kv_test_transfers(kv, &moved));
    }
    uint64_t now = pst_monotonic_ns();
    if (now - kv->checked_ns > CHECK_NS) {
        kv->checked_ns = now;
        PST_TRY(check_processes(kv));
    }
    if (!moved && !has_ended(kv)) wait_for_more(kv);
    return PST_OK;
}

static void tell_others(pst_kv *kv, pst_status status) {
    char message[sizeof kv->message];
    snprintf(message, sizeof message, "%s", pst_error());
    if (kv->server && kv->transport && status != PST_EPEER &&
        pst_kv_server_tell(kv, status, message) == PST_OK) {
        uint64_t until = pst_monotonic_ns() + TELL_NS;
        while (pst_monotonic_ns() < until) {
            kv->transport->ops->progress(kv->transport);
            usleep(1000);
        }
    }
    pst_fail(status, "%s", message);
}

/* Makes all calls of the program that wait, or come later, fail. */
static void fail_store(pst_kv *kv, pst_status status) {
    pthread_mutex_lock(&kv->lock);
    kv->status = status;
    snprintf(kv->message, sizeof kv->message, "%s", pst_error());
    pthread_cond_broadcast(&kv->changed);
    pthread_mutex_unlock(&kv->lock);
}

static void announce_open(pst_kv *kv) {
    pthread_mutex_lock(&kv->lock);
    kv->opened = 1;
    pthread_cond_broadcast(&kv->changed);
    pthread_mutex_unlock(&kv->lock);
}

static void leave(pst_kv *kv, pst_status status) {
    if (status != PST_OK && kv->heartbeat) pst_heartbeat_fail(kv->heartbeat);
    if (status != PST_OK && kv->transport) kv->transport->ops->abort(kv->transport);
    if (kv->transport) kv->transport->ops->close(kv->transport);
    if (status != PST_OK) pst_kv_drop_transfers(kv);
    if (kv->heartbeat) pst_heartbeat_close(kv->heartbeat);
    if (kv->world) kv->world->ops->close(kv->world);
    pst_kv_worker_close(kv->worker);
    pst_kv_server_close(kv->server);
    free(kv->flight);
}

static void *run(void *arg) {
    pst_kv *kv = arg;
    pst_status status = join(kv);
    if (status == PST_OK) {
        announce_open(kv);
        while (status == PST_OK && !has_ended(kv)) status = turn(kv);
        if (status != PST_OK) status = blame(kv, status);
        if (status != PST_OK) tell_others(kv, status);
    }
    if (status != PST_OK) fail_store(kv, status);
    pthread_mutex_lock(&kv->lock);
    while (kv->worker && kv->opened && !kv->closing) pthread_cond_wait(&kv->changed, &kv->lock);
    pthread_mutex_unlock(&kv->lock);
    leave(kv, status);
    return NULL;
}

pst_status pst_kv_engine_start(pst_kv *kv) {
    pthread_mutex_init(&kv->lock, NULL);
    pthread_cond_init(&kv->changed, NULL);
    kv->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kv->wake < 0) return pst_fail(PST_ENOMEM, "cannot open a key-value store: %m");
    if (pthread_create(&kv->thread, NULL, run, kv))
        return pst_fail(PST_ENOMEM, "no thread for a key-value store");
    pthread_mutex_lock(&kv->lock);
    while (!kv->opened && kv->status == PST_OK) pthread_cond_wait(&kv->changed, &kv->lock);
    pst_status status = pst_kv_state(kv);
    pthread_mutex_unlock(&kv->lock);
    if (status != PST_OK) pthread_join(kv->thread, NULL);
    return status;
}

pst_status pst_kv_engine_join(pst_kv *kv) {
    pthread_join(kv->thread, NULL);
    return pst_kv_state(kv);
}
