/* A key-value store of arrays for programs that train with gradients of their own: workers push
 * gradients, owners add them, update the weights, and workers pull these back. The calls are those
 * of MXNet's KVStore.
 *
 * Processes. A store of type dist_* joins the processes of a job: those of mpirun or srun
 * (--mpi=pmix), those with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and PENSTOCK_SECRET, or those
 * with DMLC_ROLE=worker, server or scheduler and the other variables of ps-lite
 * (docs/launching.md). Without servers every worker also serves a share of each value. With
 * `servers: K` (or DMLC_NUM_SERVER) the last K processes of the job only serve. All processes run
 * the same program and call pst_kv_open: on a server or scheduler it returns when all workers have
 * closed their stores, and *kv is then NULL.
 *
 * Values are arrays of fp32 with `rows` x `columns` elements under a name of 1 to 63 characters.
 * Calls return at once, unless they say otherwise; a thread of the store moves the data. The
 * operations of a key take effect in the order of the calls: a pull after a push returns a value
 * that contains the push. Memory given to a call must stay valid and unchanged (`out`: unread)
 * until pst_kv_wait says that its key is done. Any thread may call, but the order of the calls of
 * one key must be defined.
 *
 * Errors. EINPUT: wrong arguments; what the call would have done is not done. EPEER: a process or
 * link failed. After a failure of the job (a process has ended, two workers disagree on the shape
 * of a key, a pushed value is not finite) all further calls fail with the same status and message.
 */
#ifndef PENSTOCK_KV_H
#define PENSTOCK_KV_H
#include "penstock/status.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_kv pst_kv;

typedef struct {
    size_t size; /* sizeof(pst_kv_options) */
    /* number of processes that only serve; 0: DMLC_NUM_SERVER, else none */
    int64_t servers;
    int64_t wait_s;  /* s to wait for all processes to join; 0: 60 s */
    int64_t threads; /* with which this process adds and updates; 0: 1 */
} pst_kv_options;

/* Opens a store. Types: "local" and "device": this process alone; "dist_sync", "dist_sync_device"
 * and "dist_device_sync": a value changes when all workers have pushed, by the sum of what they
 * pushed, added in a fixed order, so that all runs have the same bits; "dist_async": a value
 * changes with each push, in the order of arrival. The names with "device" are accepted for
 * programs that have them; sums are always computed by processors. options NULL: defaults.
 * Collective. The caller closes *kv with pst_kv_close. A process has only one
 * store of several processes open, and under mpirun or srun opens one only once. */
PST_API pst_status pst_kv_open(const char *type, const pst_kv_options *options, pst_kv **kv);
/* Waits for this worker's operations, and until all workers have closed their stores, because this
 * process may still serve them. Frees the store. Does nothing for NULL. Collective. */
PST_API pst_status pst_kv_close(pst_kv *kv);

/* Return the index of this worker, the number of workers, and the number of processes that only
 * serve. */
PST_API uint32_t pst_kv_rank(const pst_kv *kv);
PST_API uint32_t pst_kv_workers(const pst_kv *kv);
PST_API uint32_t pst_kv_servers(const pst_kv *kv);

/* Defines a key, with the value of worker 0. All workers call it with the same shape, before their
 * other calls with this key. value: [rows][columns]; only that of worker 0 is read. EINPUT also:
 * the key is defined already. */
PST_API pst_status pst_kv_init(pst_kv *kv, const char *key, const float *value, uint64_t rows,
                               uint64_t columns);
/* Adds value [rows][columns]. Without an optimizer the sum becomes the new value (dist_async: what
 * was pushed last), else it is the gradient of an optimizer step. Of two operations that wait, that
 * with the higher priority moves its data first. EINPUT also: an earlier push or pull of the key is
 * not done (pst_kv_wait); in a synchronous store, neither the key nor rows of it were pulled since
 * this worker's last push of it. The store fails if others wait for the push of a worker that has
 * closed its store: in a synchronous store all workers push a key equally often. A sum beyond the
 * range of fp32 becomes infinite. */
PST_API pst_status pst_kv_push(pst_kv *kv, const char *key, const float *value, int priority);
/* Writes the value to out [rows][columns]. */
PST_API pst_status pst_kv_pull(pst_kv *kv, const char *key, float *out, int priority);
/* pst_kv_push, then pst_kv_pull. */
PST_API pst_status pst_kv_pushpull(pst_kv *kv, const char *key, const float *value, float *out,
                                   int priority);
/* pst_kv_init, then pst_kv_pull. */
PST_API pst_status pst_kv_broadcast(pst_kv *kv, const char *key, const float *value, uint64_t rows,
                                    uint64_t columns, float *out);
/* Writes the rows row[0], ..., row[n_row - 1] of the value to out [n_row][columns]. row:
 * increasing, each below the number of rows; copied. */
PST_API pst_status pst_kv_row_sparse_pull(pst_kv *kv, const char *key, const uint64_t *row,
                                          uint64_t n_row, float *out, int priority);

/* An optimizer by name and numbers. */
typedef struct {
    size_t size;      /* sizeof(pst_kv_optimizer) */
    const char *name; /* "sgd", "adam", "adamw" */
    double lr, weight_decay;
    double momentum;          /* sgd */
    int nesterov;             /* sgd */
    double beta1, beta2, eps; /* adam, adamw */
    /* factor on the sum of the pushed gradients, such as 1 / number of workers */
    double rescale;
} pst_kv_optimizer;
/* Sets *optimizer to `name` with PyTorch's defaults: lr 0.01 (sgd) or 0.001, beta 0.9 and 0.999,
 * eps 1e-8, decay 0 (adamw: 0.01), no momentum; rescale 1. The caller may change the numbers. */
PST_API void pst_kv_optimizer_init(pst_kv_optimizer *optimizer, const char *name);
/* Makes the owners of values update them with this optimizer. All workers call it with equal
 * values. A later call with the same name changes the numbers, for the pushes of this worker's
 * later calls; EINPUT if the name changes after the first push. */
PST_API pst_status pst_kv_set_optimizer(pst_kv *kv, const pst_kv_optimizer *optimizer);

/* How workers pack what they push. What packing leaves out is added to the next push of the key. */
typedef struct {
    size_t size; /* sizeof(pst_kv_compression) */
    /* "none", "int8", "int4", "2bit" (MXNet's), "topk", "bf16": as parallel.compress.up of a run
     * file */
    const char *codec;
    /* 2bit: what is sent of numbers that are at least as large; 0: each block's own */
    double threshold;
    double rate;   /* topk: the share of the numbers that is sent, at most 0.5 */
    int64_t block; /* elements of a block, a power of two from 32 to 4096; 0: the codec's own */
} pst_kv_compression;
/* Sets *compression to `codec` with threshold 0.5 (MXNet's), rate 0.01, and the codec's own block.
 * The caller may change the numbers. */
PST_API void pst_kv_compression_init(pst_kv_compression *compression, const char *codec);
/* Packs pushes of the keys that this worker defines later; pulled values stay in fp32. Takes 4
 * bytes per element of such a key. The store fails if workers define a key with different
 * compressions. EINPUT also: the codec does not exist, or has not these numbers. */
PST_API pst_status pst_kv_set_compression(pst_kv *kv, const pst_kv_compression *compression);

/* Blocks until this worker's operations with `key` (NULL: with all keys) are done. */
PST_API pst_status pst_kv_wait(pst_kv *kv, const char *key);
/* Blocks until this worker's operations are done and all workers have called it. Collective. */
PST_API pst_status pst_kv_barrier(pst_kv *kv);
#ifdef __cplusplus
}
#endif
#endif
