/* A store, and its transfers with other processes. Only the thread of the store (engine.h) calls
 * these functions, except where they say otherwise. */
#ifndef PST_KV_LINK_H
#define PST_KV_LINK_H
#include "base/transport.h"
#include "base/world.h"
#include "comm/watch/heartbeat.h"
#include "kv/message.h"
#include "penstock/kv.h"
#include <pthread.h>

typedef struct pst_kv_server pst_kv_server;
typedef struct pst_kv_worker pst_kv_worker;
/* Called when a transfer is done; or, with a status that is not OK, when the store has failed and
 * `arg` is only to be freed. */
typedef pst_status (*pst_kv_done)(pst_kv *kv, void *arg, pst_status status);

typedef struct {
    uint64_t request;
    pst_kv_done done;
    void *arg;
} pst_kv_flight;

/* What a server needs of the worker in its own process, instead of messages. */
typedef struct {
    /* the data of the request that the server handles now */
    const void *(*data)(const pst_kv *kv);
    /* the answer to request seq */
    pst_status (*answer)(pst_kv *kv, uint32_t seq, const void *data, uint64_t bytes);
    pst_status (*note)(pst_kv *kv, const pst_kv_note *note);
} pst_kv_near;

struct pst_kv {
    int joins;                         /* 1: several processes */
    int synchronous;                   /* a value changes when all workers have pushed */
    uint32_t rank, n_worker, n_server; /* n_server: processes that answer, workers among them */
    uint32_t n_serve_only;
    uint32_t wait_s, threads;
    int64_t asked_servers;

    pthread_t thread;
    pthread_mutex_t lock; /* of the members up to `wake` */
    pthread_cond_t changed;
    int opened, closing; /* the thread has opened the job; pst_kv_close was called */
    int in_barrier;      /* a thread of the program is in pst_kv_barrier */
    pst_status status;   /* not OK: the store has failed, with `message` */
    char message[1024];
    int wake; /* eventfd that wakes the thread; -1: none */

    /* of the thread */
    pst_world *world;
    pst_transport *transport; /* NULL: this process alone */
    pst_heartbeat *heartbeat;
    pst_kv_flight *flight;
    uint32_t n_flight, room_flight;
    uint64_t checked_ns;     /* when the other processes were last looked at */
    pst_kv_server *server;   /* NULL: this process does not serve */
    pst_kv_worker *worker;   /* NULL: this process only serves */
    const pst_kv_near *near; /* of the worker */
};

/* OK, or the status of the failed store with its message. The caller holds the lock. Any thread. */
pst_status pst_kv_state(const pst_kv *kv);

/* The rank of a server, and of a worker; the number of this process among the servers, if it is one
 * (kv->server). */
static inline uint32_t pst_kv_server_rank(const pst_kv *kv, uint32_t server) {
    return kv->n_serve_only ? kv->n_worker + server : server;
}
static inline uint32_t pst_kv_own_server(const pst_kv *kv) {
    return kv->n_serve_only ? kv->rank - kv->n_worker : kv->rank;
}
static inline int pst_kv_is_own(const pst_kv *kv, uint32_t rank) { return rank == kv->rank; }

/* Posts a transfer; `done` is called when it has completed. mem: as in pst_transfer. */
pst_status pst_kv_transfer(pst_kv *kv, const pst_transfer *transfer, pst_kv_done done, void *arg);
/* Calls what waits for transfers that are done; these calls may post further transfers. *moved: 1:
 * some were. */
pst_status pst_kv_test_transfers(pst_kv *kv, int *moved);
/* After a failure: forgets all transfers, and frees what belongs to them. */
void pst_kv_drop_transfers(pst_kv *kv);
#endif
