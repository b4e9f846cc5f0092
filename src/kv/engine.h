/* The thread of a store, which owns the world and the transport: it opens and closes them, starts
 * the operations of the worker (worker.c) and the answers of the server (server.c), and waits for
 * transfers. Any thread may call these functions. */
#ifndef PST_KV_ENGINE_H
#define PST_KV_ENGINE_H
#include "kv/link.h"

/* Starts the thread, and returns when it has joined the job, or has failed. */
pst_status pst_kv_engine_start(pst_kv *kv);
/* Waits until the thread has ended. Returns the status of the store, with its message. */
pst_status pst_kv_engine_join(pst_kv *kv);
/* Wakes the thread after a change under the lock. */
void pst_kv_engine_wake(pst_kv *kv);
#endif
