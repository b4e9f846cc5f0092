/* The worker's side of a store: keys, operations that wait, and their messages to servers. */
#ifndef PST_KV_WORKER_H
#define PST_KV_WORKER_H
#include "kv/link.h"

typedef struct pst_kv_key pst_kv_key;

/* An operation as a program asks for it. Pointers are borrowed until it is done. */
typedef struct {
    pst_kv_op op;
    const char *key; /* NULL: of no key */
    const float *value;
    float *out;
    uint64_t rows, columns; /* INIT */
    const uint64_t *row;    /* ROWS; copied */
    uint64_t n_row;
    int priority;
} pst_kv_call;

pst_status pst_kv_worker_open(pst_kv *kv, pst_kv_worker **worker);
void pst_kv_worker_close(pst_kv_worker *w);
/* Checks and queues an operation. The caller holds the lock. EINPUT, ENOMEM. Any thread. */
pst_status pst_kv_worker_add(pst_kv *kv, const pst_kv_call *call);
/* Number of operations that are not done of a key, or of all keys (NULL). EINPUT: the key is not
 * defined. The caller holds the lock. Any thread. */
pst_status pst_kv_worker_pending(pst_kv *kv, const char *key, uint64_t *pending);
/* Sets the rule of later pushes. The caller holds the lock. Any thread. */
pst_status pst_kv_worker_set_rule(pst_kv *kv, const pst_kv_rule *rule);

/* Sets how pushes of keys that are defined later are packed. The caller holds the lock. Any thread.
 */
void pst_kv_worker_set_codec(pst_kv *kv, const pst_codec *codec);

/* Posts the receives of notes. */
pst_status pst_kv_worker_start(pst_kv *kv);
/* Starts what waits, as far as the messages under way leave room. *moved: 1: something started. */
pst_status pst_kv_worker_run(pst_kv *kv, int *moved);
#endif
