/* The server's side of a store: the slices of values that this process owns. Synchronous stores add
 * the workers' slices in the order of a binary tree over workers (pipeline/compile/share.h), so
 * sums do not depend on the order of arrival. */
#ifndef PST_KV_SERVER_H
#define PST_KV_SERVER_H
#include "kv/link.h"

/* ENOMEM; EINPUT: PENSTOCK_ISA. */
pst_status pst_kv_server_open(pst_kv *kv, pst_kv_server **server);
void pst_kv_server_close(pst_kv_server *s);
/* Posts the receives of requests. */
pst_status pst_kv_server_start(pst_kv *kv);
/* Handles a request of a worker. EINPUT: it contradicts earlier ones. */
pst_status pst_kv_server_take(pst_kv *kv, uint32_t worker, const pst_kv_request *request);
/* 1: all workers have closed their stores. */
int pst_kv_server_ended(const pst_kv *kv);
/* Sends every other worker a note that the store has failed. */
pst_status pst_kv_server_tell(pst_kv *kv, pst_status status, const char *message);
#endif
