/* See worker.h. */
#include "kv/worker.h"
#include "base/hash.h"
#include "kv/compress.h"
#include "kv/server.h"
#include <stdlib.h>
#include <string.h>

/* Elements of a slice, unless a row is larger; bytes of values under way to servers, after which
 * later operations wait, so that one with a higher priority can overtake them. */
enum { SLICE_MIN = 16 << 10, SLICE_MAX = 64 << 10, UNDER_WAY = 8 << 20, BUCKETS = 1024 };

struct pst_kv_key {
    pst_kv_key *next;
    char name[PST_KV_NAME];
    uint64_t rows, columns, slice_rows, n_slice;
    uint32_t first; /* server of slice 0; the next slices follow on the next servers */
    uint64_t pushes, pending;
    uint64_t busy;   /* of the pending operations, those after the definition */
    int unpulled;    /* pushed, and not pulled since */
    pst_codec codec; /* of pushes */
    float *error;    /* [rows * columns] what packing has left out; NULL: pushes are not packed */
};

typedef struct operation operation;
struct operation {
    operation *next;
    pst_kv_call call;
    pst_kv_key *key;
    uint64_t *row, version;
    pst_kv_rule rule;
    uint64_t at, at_row; /* the next slice (END: server), and the next wanted row */
    uint32_t open;       /* transfers and answers under way */
    int issued;          /* all requests are sent */
};

/* A message under way, with what changes when it is done. */
typedef struct {
    pst_kv_request request;
    operation *op;
    uint64_t outgoing;
    uint8_t *packed; /* what is sent, if the message owns it */
} message;

/* An answer that this process's own server has not given yet. */
typedef struct answer answer;
struct answer {
    answer *next;
    uint32_t seq;
    void *out;
    operation *op;
};

typedef struct {
    pst_kv_note note;
    uint32_t server, seq;
} note_from;

struct pst_kv_worker {
    /* under the lock of the store */
    pst_kv_key *key[BUCKETS];
    operation *queue; /* by priority, then in the order of calls */
    uint64_t pending;
    pst_kv_rule rule;
    pst_codec codec; /* of keys that are defined from now on */
    int has_pushed;
    /* of the thread */
    uint32_t n_server, *seq; /* [n_server] number of the next request */
    uint64_t outgoing;
    const void *data;
    answer *answers;
    operation *barrier;
    note_from *notes; /* [n_server] */
};

pst_status pst_kv_worker_open(pst_kv *kv, pst_kv_worker **worker) {
    pst_kv_worker *w = calloc(1, sizeof *w);
    if (!w) return pst_no_memory("for a key-value store");
    w->n_server = kv->n_server;
    w->rule.kind = -1;
    w->seq = calloc(kv->n_server, sizeof *w->seq);
    w->notes = calloc(kv->n_server, sizeof *w->notes);
    if (!w->seq || !w->notes) {
        pst_kv_worker_close(w);
        return pst_no_memory("for a key-value store");
    }
    *worker = w;
    return PST_OK;
}

static void free_operation(operation *op) {
    free(op->row);
    free(op);
}

/* After a failure: an answer that will not come. Operations in the queue are freed with it. */
static void give_up(operation *op) {
    op->open--;
    if (op->issued && !op->open) free_operation(op);
}

static void free_keys(pst_kv_worker *w) {
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (w->key[i]) {
            pst_kv_key *key = w->key[i];
            w->key[i] = key->next;
            free(key->error);
            free(key);
        }
}

void pst_kv_worker_close(pst_kv_worker *w) {
    if (!w) return;
    free_keys(w);
    while (w->answers) {
        answer *a = w->answers;
        w->answers = a->next;
        give_up(a->op);
        free(a);
    }
    if (w->barrier) give_up(w->barrier);
    while (w->queue) {
        operation *op = w->queue;
        w->queue = op->next;
        free_operation(op);
    }
    free(w->seq);
    free(w->notes);
    free(w);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* The same in all processes. */
static uint64_t hash(const char *name) { return pst_hash64(name, strlen(name), 0); }

static pst_kv_key **find(pst_kv_worker *w, const char *name) {
    pst_kv_key **at = w->key + hash(name) % BUCKETS;
    while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
    return at;
}

static pst_status find_defined(pst_kv_worker *w, const char *name, pst_kv_key **key) {
    *key = *find(w, name);
    return *key ? PST_OK
                : pst_fail(PST_EINPUT, "key '%s' is not defined; call pst_kv_init first", name);
}

/* Slices are equal parts for the servers, of at most SLICE_MAX elements; a small value is one
 * slice. */
static void divide(const pst_kv_worker *w, pst_kv_key *key) {
    uint64_t all = key->rows * key->columns, each = (all + w->n_server - 1) / w->n_server;
    if (each < SLICE_MIN) each = SLICE_MIN;
    if (each > SLICE_MAX) each = SLICE_MAX;
    key->slice_rows = each > key->columns ? each / key->columns : 1;
    key->n_slice = (key->rows + key->slice_rows - 1) / key->slice_rows;
    key->first = (uint32_t)(hash(key->name) % w->n_server);
}

static pst_status define(pst_kv_worker *w, const pst_kv_call *call, pst_kv_key **key) {
    const uint64_t most = UINT64_C(1) << 40;
    pst_kv_key **at = find(w, call->key);
    if (*at)
        return pst_fail(PST_EINPUT, "key '%s' is already defined, with %llu rows and %llu columns",
                        call->key, (unsigned long long)(*at)->rows,
                        (unsigned long long)(*at)->columns);
    if (!call->rows || !call->columns || call->rows > most / call->columns)
        return pst_fail(PST_EINPUT,
                        "key '%s' has %llu rows and %llu columns; expected at least 1 each, and at "
                        "most 2^40 elements",
                        call->key, (unsigned long long)call->rows,
                        (unsigned long long)call->columns);
    pst_kv_key *k = calloc(1, sizeof *k);
    if (!k) return pst_no_memory("for a key");
    strcpy(k->name, call->key);
    k->rows = call->rows;
    k->columns = call->columns;
    divide(w, k);
    k->codec = w->codec;
    if (k->codec.kind != PST_CODEC_NONE) k->error = calloc(k->rows * k->columns, sizeof *k->error);
    if (k->codec.kind != PST_CODEC_NONE && !k->error) {
        free(k);
        return pst_fail(PST_ENOMEM, "no memory for what packing leaves out of key '%s'", call->key);
    }
    *at = *key = k;
    return PST_OK;
}

static pst_status check_rows(const pst_kv_key *key, const pst_kv_call *call) {
    if (call->n_row && !call->row) return pst_fail(PST_EINPUT, "the list of rows is NULL");
    for (uint64_t i = 0; i < call->n_row; i++) {
        if (call->row[i] >= key->rows)
            return pst_fail(PST_EINPUT, "row %llu of key '%s', which has %llu rows",
                            (unsigned long long)call->row[i], key->name,
                            (unsigned long long)key->rows);
        if (i && call->row[i] <= call->row[i - 1])
            return pst_fail(PST_EINPUT,
                            "the list of rows of key '%s' has row %llu after row %llu; expected "
                            "increasing numbers",
                            key->name, (unsigned long long)call->row[i],
                            (unsigned long long)call->row[i - 1]);
    }
    return PST_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

static pst_status check_call(const pst_kv *kv, const pst_kv_call *call) {
    if (!call->key) return PST_OK;
    size_t length = strlen(call->key);
    if (!length || length >= PST_KV_NAME)
        return pst_fail(PST_EINPUT, "the key '%.80s' has %zu characters; expected 1 to %d",
                        call->key, length, PST_KV_NAME - 1);
    int takes = call->op == PST_KV_PUSH || (call->op == PST_KV_INIT && kv->rank == 0);
    if (takes && !call->value)
        return pst_fail(PST_EINPUT, "the value of key '%s' is NULL", call->key);
    int gives = call->op == PST_KV_PULL || (call->op == PST_KV_ROWS && call->n_row);
    if (gives && !call->out)
        return pst_fail(PST_EINPUT, "the memory for the value of key '%s' is NULL", call->key);
    return PST_OK;
}

static pst_status count(pst_kv *kv, pst_kv_key *key, operation *op) {
    pst_kv_worker *w = kv->worker;
    const int pushes = op->call.op == PST_KV_PUSH;
    if (pushes && key->busy)
        return pst_fail(PST_EINPUT,
                        "key '%s' is pushed while an earlier operation is not done; call "
                        "pst_kv_wait before",
                        key->name);
    if (pushes && kv->synchronous && key->unpulled)
        return pst_fail(PST_EINPUT,
                        "key '%s' is pushed twice; in a synchronous store a worker pulls a key "
                        "between two pushes",
                        key->name);
    if (pushes) {
        key->pushes++;
        key->unpulled = 1;
        w->has_pushed = 1;
    } else if (op->call.op == PST_KV_PULL || (op->call.op == PST_KV_ROWS && op->call.n_row)) {
        key->unpulled = 0;
    }
    op->version = key->pushes;
    key->pending++;
    key->busy += op->call.op != PST_KV_INIT;
    return PST_OK;
}

/* Behind all operations of the same or a higher priority. What all wait for comes first. */
static void enqueue(pst_kv_worker *w, operation *op) {
    operation **at = &w->queue;
    while (*at && (*at)->call.priority >= op->call.priority) at = &(*at)->next;
    op->next = *at;
    *at = op;
    w->pending++;
}

static pst_status prepare(pst_kv *kv, const pst_kv_call *call, operation *op) {
    pst_kv_worker *w = kv->worker;
    op->call = *call;
    op->rule = w->rule;
    if (!call->key) return PST_OK;
    if (call->op == PST_KV_INIT) {
        op->call.priority = INT32_MAX;
        PST_TRY(define(w, call, &op->key));
    } else {
        PST_TRY(find_defined(w, call->key, &op->key));
    }
    op->call.key = op->key->name;
    if (call->op == PST_KV_ROWS) {
        PST_TRY(check_rows(op->key, call));
        op->row = malloc((call->n_row + 1) * sizeof *op->row);
        if (!op->row) return pst_no_memory("for a list of rows");
        if (call->n_row) memcpy(op->row, call->row, call->n_row * sizeof *op->row);
    }
    return count(kv, op->key, op);
}

pst_status pst_kv_worker_add(pst_kv *kv, const pst_kv_call *call) {
    PST_TRY(pst_kv_state(kv));
    PST_TRY(check_call(kv, call));
    operation *op = calloc(1, sizeof *op);
    if (!op) return pst_no_memory("for an operation");
    pst_status status = prepare(kv, call, op);
    if (status == PST_OK) enqueue(kv->worker, op);
    else free_operation(op);
    return status;
}

pst_status pst_kv_worker_pending(pst_kv *kv, const char *key, uint64_t *pending) {
    pst_kv_key *k;
    *pending = kv->worker->pending;
    if (!key) return PST_OK;
    PST_TRY(find_defined(kv->worker, key, &k));
    *pending = k->pending;
    return PST_OK;
}

pst_status pst_kv_worker_set_rule(pst_kv *kv, const pst_kv_rule *rule) {
    pst_kv_worker *w = kv->worker;
    if (w->has_pushed && w->rule.kind != rule->kind)
        return pst_fail(PST_EINPUT, "the optimizer cannot change after the first push; only its "
                                    "numbers can");
    w->rule = *rule;
    return PST_OK;
}

void pst_kv_worker_set_codec(pst_kv *kv, const pst_codec *codec) { kv->worker->codec = *codec; }

/* --- messages --------------------------------------------------------------------------------- */

static void finish(pst_kv *kv, operation *op) {
    if (!op->issued || op->open) return;
    pthread_mutex_lock(&kv->lock);
    if (op->key) op->key->pending--;
    if (op->key) op->key->busy -= op->call.op != PST_KV_INIT;
    kv->worker->pending--;
    pthread_cond_broadcast(&kv->changed);
    pthread_mutex_unlock(&kv->lock);
    free_operation(op);
}

/* Also after a failure, for which the program does not wait any more. */
static pst_status message_done(pst_kv *kv, void *arg, pst_status status) {
    message *m = arg;
    operation *op = m->op;
    kv->worker->outgoing -= m->outgoing;
    free(m->packed);
    free(m);
    op->open--;
    finish(kv, op);
    return status;
}

static pst_status post(pst_kv *kv, message *m, pst_transfer x) {
    m->op->open++;
    kv->worker->outgoing += m->outgoing;
    return pst_kv_transfer(kv, &x, message_done, m);
}

static pst_status new_message(operation *op, message **m) {
    *m = calloc(1, sizeof **m);
    if (!*m) return pst_no_memory("for a message");
    (*m)->op = op;
    return PST_OK;
}

/* The data that goes with a request: what is sent, or where the answer is written. */
typedef struct {
    const void *up;
    void *down;
    uint64_t up_bytes, down_bytes;
    uint8_t *packed; /* memory of `up`, if this is its owner */
} load;

static pst_status send_far(pst_kv *kv, operation *op, const pst_kv_request *r, uint32_t rank,
                           load *l) {
    message *m;
    PST_TRY(new_message(op, &m));
    m->request = *r;
    PST_TRY(post(kv, m,
                 (pst_transfer){.kind = PST_TRANSFER_SEND,
                                .peer = rank,
                                .channel = PST_KV_CHANNEL_REQUEST,
                                .seq = r->seq,
                                .mem = &m->request,
                                .bytes = sizeof m->request}));
    if (l->up_bytes) {
        PST_TRY(new_message(op, &m));
        m->outgoing = l->up_bytes;
        m->packed = l->packed;
        l->packed = NULL;
        PST_TRY(post(kv, m,
                     (pst_transfer){.kind = PST_TRANSFER_SEND,
                                    .peer = rank,
                                    .channel = PST_KV_CHANNEL_UP,
                                    .seq = r->seq,
                                    .mem = (void *)(uintptr_t)l->up,
                                    .bytes = l->up_bytes}));
    }
    if (!l->down_bytes) return PST_OK;
    PST_TRY(new_message(op, &m));
    return post(kv, m,
                (pst_transfer){.kind = PST_TRANSFER_RECV,
                               .peer = rank,
                               .channel = PST_KV_CHANNEL_DOWN,
                               .seq = r->seq,
                               .mem = l->down,
                               .bytes = l->down_bytes});
}

/* To this process's own server: without messages. */
static pst_status send_near(pst_kv *kv, operation *op, const pst_kv_request *r, const load *l) {
    pst_kv_worker *w = kv->worker;
    if (l->down_bytes) {
        answer *a = malloc(sizeof *a);
        if (!a) return pst_no_memory("for a message");
        *a = (answer){w->answers, r->seq, l->down, op};
        w->answers = a;
        op->open++;
    }
    w->data = l->up;
    op->open++; /* an answer at once must not finish the operation while it is issued */
    PST_TRY(pst_kv_server_take(kv, kv->rank, r));
    w->data = NULL;
    op->open--;
    return PST_OK;
}

static pst_status request(pst_kv *kv, operation *op, uint32_t server, pst_kv_request *r, load *l) {
    uint32_t rank = pst_kv_server_rank(kv, server);
    r->seq = kv->worker->seq[server]++;
    pst_status status =
        pst_kv_is_own(kv, rank) ? send_near(kv, op, r, l) : send_far(kv, op, r, rank, l);
    free(l->packed);
    return status;
}

static const void *near_data(const pst_kv *kv) { return kv->worker->data; }

static pst_status near_answer(pst_kv *kv, uint32_t seq, const void *data, uint64_t bytes) {
    answer **at = &kv->worker->answers;
    while (*at && (*at)->seq != seq) at = &(*at)->next;
    answer *a = *at;
    if (!a) return pst_fail(PST_EINTERNAL, "an answer to request %u, which has none", seq);
    memcpy(a->out, data, bytes);
    operation *op = a->op;
    *at = a->next;
    free(a);
    op->open--;
    finish(kv, op);
    return PST_OK;
}

/* --- operations ------------------------------------------------------------------------------- */

/* The wanted rows before row `to`, from the next one on. */
static uint64_t rows_before(const operation *op, uint64_t to) {
    uint64_t n = 0;
    while (op->at_row + n < op->call.n_row && op->row[op->at_row + n] < to) n++;
    return n;
}

static pst_status issue_rows(pst_kv *kv, operation *op, pst_kv_request *r, uint32_t server) {
    uint64_t columns = op->key->columns, bytes = columns * sizeof(float);
    r->n_row = rows_before(op, (r->from + r->n) / columns);
    if (!r->n_row) return PST_OK;
    load l = {.up = op->row + op->at_row,
              .up_bytes = r->n_row * sizeof *op->row,
              .down = op->call.out + op->at_row * columns,
              .down_bytes = r->n_row * bytes};
    op->at_row += r->n_row;
    return request(kv, op, server, r, &l);
}

static pst_status pack(const operation *op, const pst_kv_request *r, load *l) {
    l->up_bytes = pst_codec_bytes(r->codec, r->n);
    l->packed = malloc(l->up_bytes);
    if (!l->packed) return pst_no_memory("for a message");
    pst_kv_pack(&r->codec, op->call.value + r->from, op->key->error + r->from, r->n, l->packed);
    l->up = l->packed;
    return PST_OK;
}

static pst_status issue_slice(pst_kv *kv, operation *op) {
    const pst_kv_key *key = op->key;
    uint64_t first = op->at * key->slice_rows, rows = key->rows - first;
    if (rows > key->slice_rows) rows = key->slice_rows;
    pst_kv_request r = {.op = (uint32_t)op->call.op,
                        .slice = (uint32_t)op->at,
                        .rows = key->rows,
                        .columns = key->columns,
                        .from = first * key->columns,
                        .n = rows * key->columns,
                        .version = op->version,
                        .rule = op->rule,
                        .codec = key->codec};
    memcpy(r.key, key->name, sizeof r.key);
    uint32_t server = (uint32_t)((key->first + op->at) % kv->n_server);
    load l = {0};
    if (op->call.op == PST_KV_ROWS) return issue_rows(kv, op, &r, server);
    r.has_data = op->call.op == PST_KV_INIT && kv->rank == 0;
    if (op->call.op == PST_KV_PUSH && key->error) {
        PST_TRY(pack(op, &r, &l));
    } else if (r.has_data || op->call.op == PST_KV_PUSH) {
        l.up = op->call.value + r.from;
        l.up_bytes = r.n * sizeof(float);
    } else if (op->call.op == PST_KV_PULL) {
        l.down = op->call.out + r.from;
        l.down_bytes = r.n * sizeof(float);
    }
    return request(kv, op, server, &r, &l);
}

/* Number of requests of an operation. */
static uint64_t requests(const pst_kv *kv, const operation *op) {
    if (op->key) return op->key->n_slice;
    return op->call.op == PST_KV_END ? kv->n_server : 1;
}

static pst_status issue(pst_kv *kv, operation *op) {
    if (op->key) return issue_slice(kv, op);
    pst_kv_request r = {.op = (uint32_t)op->call.op};
    if (op->call.op == PST_KV_BARRIER) {
        kv->worker->barrier = op;
        op->open++; /* until the note arrives */
    }
    return request(kv, op, (uint32_t)op->at, &r, &(load){0});
}

/* The operation whose next request is to be sent; NULL: none may be sent now. */
static operation *choose(pst_kv *kv) {
    pst_kv_worker *w = kv->worker;
    pthread_mutex_lock(&kv->lock);
    operation *op = w->queue;
    pthread_mutex_unlock(&kv->lock);
    int sends = op && (op->call.op == PST_KV_PUSH || op->call.op == PST_KV_INIT);
    return sends && w->outgoing >= UNDER_WAY ? NULL : op;
}

static void remove_from_queue(pst_kv *kv, const operation *op) {
    pthread_mutex_lock(&kv->lock);
    operation **at = &kv->worker->queue;
    while (*at != op) at = &(*at)->next;
    *at = op->next;
    pthread_mutex_unlock(&kv->lock);
}

pst_status pst_kv_worker_run(pst_kv *kv, int *moved) {
    for (operation *op; (op = choose(kv));) {
        PST_TRY(issue(kv, op));
        *moved = 1;
        if (++op->at < requests(kv, op)) continue;
        remove_from_queue(kv, op);
        op->issued = 1;
        finish(kv, op);
    }
    return PST_OK;
}

/* --- notes ------------------------------------------------------------------------------------ */

static pst_status take_note(pst_kv *kv, const pst_kv_note *note) {
    if (note->kind == PST_KV_NOTE_FAILED)
        return pst_fail((pst_status)note->status, "%.*s", (int)sizeof note->text - 1, note->text);
    operation *op = kv->worker->barrier;
    kv->worker->barrier = NULL;
    if (!op) return pst_fail(PST_EINTERNAL, "the end of a barrier that was not started");
    op->open--;
    finish(kv, op);
    return PST_OK;
}

static pst_status receive_note(pst_kv *kv, note_from *n);

static pst_status noted(pst_kv *kv, void *arg, pst_status status) {
    note_from *n = arg;
    PST_TRY(status);
    PST_TRY(take_note(kv, &n->note));
    return receive_note(kv, n);
}

static pst_status receive_note(pst_kv *kv, note_from *n) {
    return pst_kv_transfer(kv,
                           &(pst_transfer){.kind = PST_TRANSFER_RECV,
                                           .peer = pst_kv_server_rank(kv, n->server),
                                           .channel = PST_KV_CHANNEL_NOTE,
                                           .seq = n->seq++,
                                           .mem = &n->note,
                                           .bytes = sizeof n->note},
                           noted, n);
}

static const pst_kv_near near = {near_data, near_answer, take_note};

pst_status pst_kv_worker_start(pst_kv *kv) {
    pst_kv_worker *w = kv->worker;
    kv->near = &near;
    for (uint32_t s = 0; s < kv->n_server; s++) {
        w->notes[s].server = s;
        if (pst_kv_is_own(kv, pst_kv_server_rank(kv, s))) continue;
        PST_TRY(receive_note(kv, w->notes + s));
    }
    return PST_OK;
}
