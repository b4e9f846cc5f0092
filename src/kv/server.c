/* See server.h. */
#include "kv/server.h"
#include "backends/registry.h"
#include "base/device.h"
#include "base/hash.h"
#include "graph/optim.h"
#include "kernels/kernel.h"
#include "kv/compress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

/* A pull that waits until the value contains the worker's pushes. */
typedef struct waiting waiting;
struct waiting {
    waiting *next;
    uint32_t worker, seq;
    uint64_t version, n_row;
    uint64_t *row; /* NULL: the whole slice */
};

/* A push whose data is arriving or, in an asynchronous store, waits for its turn. */
typedef struct slice slice;
typedef struct push push;
struct push {
    push *next;
    slice *at;
    uint32_t worker;
    float *value;
    uint8_t *packed; /* what arrives, before it is unpacked; NULL: the value itself */
    pst_kv_rule rule;
};

struct slice {
    slice *next;
    pst_kv_request first; /* the request that defined it */
    float *value, *state[2];
    int defined, ready;    /* the initial value has begun to arrive; is there */
    uint64_t steps;        /* number of steps of the optimizer */
    uint32_t sending;      /* answers under way that read `value` */
    uint64_t *contains;    /* [n_worker] number of pushes of each worker in the value */
    uint64_t *begun;       /* [n_worker] number of pushes of each worker that have begun */
    pst_kv_rule rule;      /* of the step under way, or of the last step */
    float **part;          /* [n_worker] synchronous: what each worker has pushed, and sums of it */
    uint32_t *span;        /* [n_worker] part[k] is the sum of this many workers from k on */
    push *arrived, **last; /* pushes that no step contains yet, in the order of arrival */
    waiting *pulls;
};

typedef struct {
    pst_kv_request request;
    uint32_t worker, seq;
} request_from;

struct pst_kv_server {
    slice *slices[BUCKETS];
    pst_device *device;
    const pst_arith *arith;
    request_from *from; /* [n_worker] */
    uint32_t *note_seq; /* [n_worker] */
    uint8_t *gone;      /* [n_worker] 1: the worker has closed its store */
    uint32_t n_worker, in_barrier, ended;
};

/* --- opening and closing ---------------------------------------------------------------------- */

pst_status pst_kv_server_open(pst_kv *kv, pst_kv_server **server) {
    const pst_device_ops *ops;
    pst_device_config config = {.threads = kv->threads};
    PST_TRY(pst_registry_device("cpu", &config, &ops));
    pst_kv_server *s = calloc(1, sizeof *s);
    if (!s) return pst_no_memory("for a key-value store");
    s->n_worker = kv->n_worker;
    s->from = calloc(kv->n_worker, sizeof *s->from);
    s->note_seq = calloc(kv->n_worker, sizeof *s->note_seq);
    s->gone = calloc(kv->n_worker, sizeof *s->gone);
    s->arith = pst_registry_arith(ops);
    pst_status status = s->from && s->note_seq && s->gone ? ops->open(&config, &s->device)
                                                          : pst_no_memory("for a key-value store");
    if (status != PST_OK) {
        pst_kv_server_close(s);
        return status;
    }
    *server = s;
    return PST_OK;
}

static void free_push(push *p) {
    free(p->value);
    free(p->packed);
    free(p);
}

static void free_waiting(waiting *p) {
    free(p->row);
    free(p);
}

static void free_slice(slice *s, uint32_t n_worker) {
    for (uint32_t k = 0; s->part && k < n_worker; k++) free(s->part[k]);
    while (s->arrived) {
        push *p = s->arrived;
        s->arrived = p->next;
        free_push(p);
    }
    while (s->pulls) {
        waiting *p = s->pulls;
        s->pulls = p->next;
        free_waiting(p);
    }
    free(s->value);
    free(s->state[0]);
    free(s->state[1]);
    free(s->contains);
    free(s->begun);
    free(s->part);
    free(s->span);
    free(s);
}

void pst_kv_server_close(pst_kv_server *s) {
    if (!s) return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        while (s->slices[i]) {
            slice *at = s->slices[i];
            s->slices[i] = at->next;
            free_slice(at, s->n_worker);
        }
    if (s->device) s->device->ops->close(s->device);
    free(s->from);
    free(s->note_seq);
    free(s->gone);
    free(s);
}

int pst_kv_server_ended(const pst_kv *kv) { return kv->server->ended == kv->n_worker; }

/* --- slices ----------------------------------------------------------------------------------- */

static slice **find(pst_kv_server *s, const pst_kv_request *r) {
    const uint64_t h = pst_hash64(r->key, strlen(r->key), r->slice);
    slice **at = s->slices + h % BUCKETS;
    while (*at && ((*at)->first.slice != r->slice || strcmp((*at)->first.key, r->key) != 0))
        at = &(*at)->next;
    return at;
}

static pst_status add_slice(const pst_kv *kv, const pst_kv_request *r, slice **at) {
    slice *s = calloc(1, sizeof *s);
    if (!s) return pst_no_memory("for a value");
    s->first = *r;
    s->last = &s->arrived;
    s->value = malloc(r->n * sizeof *s->value);
    s->contains = calloc(kv->n_worker, sizeof *s->contains);
    s->begun = calloc(kv->n_worker, sizeof *s->begun);
    s->part = calloc(kv->n_worker, sizeof *s->part);
    s->span = calloc(kv->n_worker, sizeof *s->span);
    if (!s->value || !s->contains || !s->begun || !s->part || !s->span) {
        free_slice(s, kv->n_worker);
        return pst_fail(PST_ENOMEM, "no memory for %llu elements of key '%s'",
                        (unsigned long long)r->n, r->key);
    }
    *at = s;
    return PST_OK;
}

static int same_shape(const pst_kv_request *a, const pst_kv_request *b) {
    return a->rows == b->rows && a->columns == b->columns && a->from == b->from && a->n == b->n;
}

/* *s: NULL if the slice is not defined. */
static pst_status get_slice(const pst_kv *kv, uint32_t worker, const pst_kv_request *r, slice **s) {
    slice **at = find(kv->server, r);
    if (!pst_kv_codec_is_valid(&r->codec))
        return pst_fail(PST_EINPUT, "worker %u sent an unknown compression", worker);
    if (!*at && r->op == PST_KV_INIT) PST_TRY(add_slice(kv, r, at));
    *s = *at;
    if (!*s)
        return pst_fail(PST_EINPUT, "worker %u uses key '%s', which it has not defined", worker,
                        r->key);
    if (memcmp(&(*s)->first.codec, &r->codec, sizeof r->codec) != 0)
        return pst_fail(PST_EINPUT,
                        "worker %u has defined key '%s' with another compression than another "
                        "worker",
                        worker, r->key);
    if (same_shape(&(*s)->first, r)) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "key '%s' has %llu rows and %llu columns at worker %u, but %llu and %llu at "
                    "another worker",
                    r->key, (unsigned long long)r->rows, (unsigned long long)r->columns, worker,
                    (unsigned long long)(*s)->first.rows, (unsigned long long)(*s)->first.columns);
}

/* A worker's request, and where its data is to be written. */
typedef struct {
    uint32_t worker, seq;
    void *mem;
    uint64_t bytes;
} incoming;

/* Receives the data of a request. */
static pst_status fetch(pst_kv *kv, const incoming *in, pst_kv_done done, void *arg) {
    if (in->worker == kv->rank && kv->worker) {
        memcpy(in->mem, kv->near->data(kv), in->bytes);
        return done(kv, arg, PST_OK);
    }
    return pst_kv_transfer(kv,
                           &(pst_transfer){.kind = PST_TRANSFER_RECV,
                                           .peer = in->worker,
                                           .channel = PST_KV_CHANNEL_UP,
                                           .seq = in->seq,
                                           .mem = in->mem,
                                           .bytes = in->bytes},
                           done, arg);
}

/* --- answers ---------------------------------------------------------------------------------- */

static pst_status go_on(pst_kv *kv, slice *s);

static pst_status value_sent(pst_kv *kv, void *arg, pst_status status) {
    slice *s = arg;
    PST_TRY(status);
    s->sending--;
    return go_on(kv, s);
}

/* Of rows and notes. */
static pst_status copy_sent(pst_kv *kv, void *arg, pst_status status) {
    (void)kv;
    free(arg);
    return status;
}

static pst_status send_down(pst_kv *kv, const waiting *p, float *mem, uint64_t bytes,
                            pst_kv_done done, void *arg) {
    return pst_kv_transfer(kv,
                           &(pst_transfer){.kind = PST_TRANSFER_SEND,
                                           .peer = p->worker,
                                           .channel = PST_KV_CHANNEL_DOWN,
                                           .seq = p->seq,
                                           .mem = mem,
                                           .bytes = bytes},
                           done, arg);
}

static pst_status answer_rows(pst_kv *kv, const slice *s, const waiting *p, int own) {
    uint64_t columns = s->first.columns, first = s->first.from / columns;
    float *rows = malloc(p->n_row * columns * sizeof *rows);
    if (!rows) return pst_no_memory("for rows of a value");
    for (uint64_t i = 0; i < p->n_row; i++) {
        uint64_t row = p->row[i] - first;
        if (p->row[i] < first || row >= s->first.n / columns) {
            free(rows);
            return pst_fail(PST_EINPUT, "worker %u wants row %llu of key '%s' from another slice",
                            p->worker, (unsigned long long)p->row[i], s->first.key);
        }
        memcpy(rows + i * columns, s->value + row * columns, columns * sizeof *rows);
    }
    uint64_t bytes = p->n_row * columns * sizeof *rows;
    if (!own) return send_down(kv, p, rows, bytes, copy_sent, rows);
    pst_status status = kv->near->answer(kv, p->seq, rows, bytes);
    free(rows);
    return status;
}

static pst_status answer(pst_kv *kv, slice *s, const waiting *p) {
    int own = kv->worker && p->worker == kv->rank;
    uint64_t bytes = s->first.n * sizeof(float);
    if (p->row) return answer_rows(kv, s, p, own);
    if (own) return kv->near->answer(kv, p->seq, s->value, bytes);
    s->sending++;
    return send_down(kv, p, s->value, bytes, value_sent, s);
}

static pst_status answer_pulls(pst_kv *kv, slice *s) {
    for (waiting **at = &s->pulls; s->ready && *at;) {
        waiting *p = *at;
        if (s->contains[p->worker] < p->version) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        pst_status status = answer(kv, s, p);
        free_waiting(p);
        PST_TRY(status);
    }
    return PST_OK;
}

/* --- steps ------------------------------------------------------------------------------------ */

static pst_status make_states(slice *s, int32_t kind) {
    uint32_t n = pst_optim_rows()[kind].n_state;
    for (uint32_t i = 0; i < n; i++) {
        if (!s->state[i]) s->state[i] = calloc(s->first.n, sizeof(float));
        if (!s->state[i])
            return pst_fail(PST_ENOMEM, "no memory for the optimizer's state of key '%s'",
                            s->first.key);
    }
    return PST_OK;
}

/* Applies a sum, or one push, whose memory becomes the value if there is no optimizer. */
static pst_status apply(const pst_kv *kv, slice *s, const pst_kv_rule *rule, float **sum) {
    if (rule->kind < 0) {
        float *old = s->value;
        s->value = *sum;
        *sum = old;
        return PST_OK;
    }
    PST_TRY(make_states(s, rule->kind));
    double t = (double)++s->steps;
    pst_optim_hyper h = {.lr = rule->lr,
                         .decay = rule->decay,
                         .beta1 = rule->beta1,
                         .beta2 = rule->beta2,
                         .eps = rule->eps,
                         .momentum = rule->momentum,
                         .nesterov = rule->nesterov,
                         .grad_scale = rule->rescale,
                         .t = s->steps,
                         .correction1 = (float)(1 - pow(rule->beta1, t)),
                         .correction2 = (float)(1 - pow(rule->beta2, t))};
    pst_arith_param p = {.weight = s->value,
                         .grad = *sum,
                         .state = {s->state[0], s->state[1]},
                         .n = s->first.n,
                         .decay = rule->decay};
    const pst_kv_server *server = kv->server;
    return server->arith->update(server->device, (pst_optim_kind)rule->kind, &h, PST_F32, &p, 1);
}

/* Checks elements [from, from + n) of what a worker has pushed. The sum of their squares in fp64 is
 * finite if and only if all of them are. */
static pst_status check_finite(const pst_kv *kv, const slice *s, uint32_t worker,
                               const float *value, uint64_t from, uint64_t n) {
    const float *x = value + from;
    double squares;
    PST_TRY(kv->server->arith->sum_squares(kv->server->device, &x, &n, 1, &squares));
    if (isfinite(squares)) return PST_OK;
    uint64_t i = 0;
    while (i + 1 < n && isfinite(x[i])) i++;
    uint64_t at = s->first.from + from + i;
    return pst_fail(PST_EINPUT, "worker %u pushed %g for key '%s' (row %llu, column %llu)", worker,
                    (double)x[i], s->first.key, (unsigned long long)(at / s->first.columns),
                    (unsigned long long)(at % s->first.columns));
}

/* Adds the sum from worker `right` on to that from worker `left` on. In blocks, so that what is
 * checked is in the processor's cache when it is added. */
static pst_status add_part(const pst_kv *kv, slice *s, uint32_t left, uint32_t right) {
    enum { BLOCK = 8192 };
    const pst_kv_server *server = kv->server;
    float *sum = s->part[left];
    const float *addend = s->part[right];
    for (uint64_t i = 0; i < s->first.n; i += BLOCK) {
        uint64_t n = s->first.n - i < BLOCK ? s->first.n - i : BLOCK;
        if (s->span[left] == 1) PST_TRY(check_finite(kv, s, left, sum, i, n));
        if (s->span[right] == 1) PST_TRY(check_finite(kv, s, right, addend, i, n));
        PST_TRY(server->arith->accumulate(server->device, sum + i, addend + i, n));
    }
    return PST_OK;
}

/* Adds what has arrived of workers [lo, hi); 1: their sum is in part[lo]. */
static int add_parts(const pst_kv *kv, slice *s, uint32_t lo, uint32_t hi, pst_status *status) {
    if (s->span[lo] == hi - lo) return 1;
    if (hi - lo == 1) return 0;
    uint32_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    int left = add_parts(kv, s, lo, lo + half, status);
    int right = add_parts(kv, s, lo + half, hi, status);
    if (!left || !right || *status != PST_OK) return 0;
    *status = add_part(kv, s, lo, lo + half);
    free(s->part[lo + half]);
    s->part[lo + half] = NULL;
    s->span[lo] = hi - lo;
    return *status == PST_OK;
}

/* All pushes of one step have the same optimizer, and all steps the same kind. first: 1: of the
 * step. */
static pst_status check_rule(const slice *s, const push *p, int first) {
    if (s->steps && s->rule.kind != p->rule.kind)
        return pst_fail(PST_EINPUT, "worker %u has changed the optimizer of key '%s'", p->worker,
                        s->first.key);
    if (first || !memcmp(&s->rule, &p->rule, sizeof s->rule)) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "worker %u pushed key '%s' with another optimizer, or other numbers of it, "
                    "than the workers before",
                    p->worker, s->first.key);
}

static int is_empty(const pst_kv *kv, const slice *s) {
    for (uint32_t k = 0; k < kv->n_worker; k++)
        if (s->span[k]) return 0;
    return 1;
}

/* Moves pushes into the step under way, one of each worker. A worker may be a step ahead of others
 * in a slice that it does not pull (PST_KV_ROWS). */
static pst_status take_parts(const pst_kv *kv, slice *s) {
    for (push **at = &s->arrived; *at;) {
        push *p = *at;
        if (s->span[p->worker]) {
            at = &p->next;
            continue;
        }
        const int first = is_empty(kv, s);
        PST_TRY(check_rule(s, p, first));
        if (first) s->rule = p->rule;
        s->part[p->worker] = p->value;
        s->span[p->worker] = 1;
        *at = p->next;
        if (!*at) s->last = at;
        free(p);
    }
    return PST_OK;
}

/* The step of a synchronous store, when the sum is complete and nobody reads the value. *more: 1:
 * there was one. */
static pst_status step(pst_kv *kv, slice *s, int *more) {
    pst_status status = PST_OK;
    *more = 0;
    PST_TRY(take_parts(kv, s));
    int complete = add_parts(kv, s, 0, kv->n_worker, &status);
    PST_TRY(status);
    if (!complete || !s->ready || s->sending) return PST_OK;
    if (kv->n_worker == 1) PST_TRY(check_finite(kv, s, 0, s->part[0], 0, s->first.n));
    PST_TRY(apply(kv, s, &s->rule, &s->part[0]));
    free(s->part[0]);
    s->part[0] = NULL;
    memset(s->span, 0, kv->n_worker * sizeof *s->span);
    for (uint32_t k = 0; k < kv->n_worker; k++) s->contains[k]++;
    *more = 1;
    return PST_OK;
}

/* The next push of an asynchronous store. *more: 0: none can be applied now. */
static pst_status step_alone(pst_kv *kv, slice *s, int *more) {
    push *p = s->arrived;
    *more = p && s->ready && !s->sending;
    if (!*more) return PST_OK;
    PST_TRY(check_rule(s, p, 1));
    s->arrived = p->next;
    if (!s->arrived) s->last = &s->arrived;
    s->rule = p->rule;
    pst_status status = check_finite(kv, s, p->worker, p->value, 0, s->first.n);
    if (status == PST_OK) status = apply(kv, s, &p->rule, &p->value);
    s->contains[p->worker]++;
    free_push(p);
    return status;
}

static pst_status go_on(pst_kv *kv, slice *s) {
    for (int more = 1; more;) {
        PST_TRY((kv->synchronous ? step : step_alone)(kv, s, &more));
        PST_TRY(answer_pulls(kv, s));
    }
    return PST_OK;
}

/* --- workers that have closed their stores ---------------------------------------------------- */

static pst_status fail_gone(uint32_t worker, const char *key, const char *what) {
    return pst_fail(PST_EINPUT, "worker %u has closed its store, but key '%s' waits for its %s",
                    worker, key, what);
}

/* What waits for a worker for ever makes the store fail. */
static pst_status check_slice(const pst_kv *kv, const slice *s) {
    uint64_t most = 0;
    for (uint32_t k = 0; k < kv->n_worker; k++)
        if (s->begun[k] > most) most = s->begun[k];
    for (uint32_t k = 0; k < kv->n_worker && kv->synchronous; k++)
        if (kv->server->gone[k] && s->begun[k] < most) return fail_gone(k, s->first.key, "push");
    if (kv->server->gone[0] && !s->defined && (s->pulls || most))
        return fail_gone(0, s->first.key, "initial value");
    return PST_OK;
}

static pst_status check_barrier(const pst_kv *kv) {
    for (uint32_t k = 0; k < kv->n_worker && kv->server->in_barrier; k++)
        if (kv->server->gone[k])
            return pst_fail(PST_EINPUT,
                            "worker %u has closed its store, but others wait in a barrier", k);
    return PST_OK;
}

static pst_status take_end(pst_kv *kv, uint32_t worker) {
    kv->server->gone[worker] = 1;
    kv->server->ended++;
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (const slice *s = kv->server->slices[i]; s; s = s->next) PST_TRY(check_slice(kv, s));
    return check_barrier(kv);
}

/* --- requests --------------------------------------------------------------------------------- */

static pst_status initialized(pst_kv *kv, void *arg, pst_status status) {
    slice *s = arg;
    PST_TRY(status);
    s->ready = 1;
    return go_on(kv, s);
}

static pst_status take_init(pst_kv *kv, uint32_t worker, const pst_kv_request *r, slice *s) {
    if (!r->has_data) return PST_OK;
    s->defined = 1;
    const incoming in = {worker, r->seq, s->value, r->n * sizeof(float)};
    return fetch(kv, &in, initialized, s);
}

static pst_status pushed(pst_kv *kv, void *arg, pst_status status) {
    push *p = arg;
    slice *s = p->at;
    if (status != PST_OK) {
        free_push(p);
        return status;
    }
    if (p->packed) pst_kv_unpack(&s->first.codec, p->packed, p->value, s->first.n);
    free(p->packed);
    p->packed = NULL;
    *s->last = p;
    s->last = &p->next;
    return go_on(kv, s);
}

static pst_status take_push(pst_kv *kv, uint32_t worker, const pst_kv_request *r, slice *s) {
    s->begun[worker]++;
    PST_TRY(check_slice(kv, s));
    const int packs = r->codec.kind != PST_CODEC_NONE;
    const uint64_t bytes = packs ? pst_codec_bytes(r->codec, r->n) : r->n * sizeof(float);
    push *p = calloc(1, sizeof *p);
    if (p) p->value = malloc(r->n * sizeof(float));
    if (p && packs) p->packed = malloc(bytes);
    if (!p || !p->value || (packs && !p->packed)) {
        if (p) free_push(p);
        return pst_fail(PST_ENOMEM, "no memory for %llu elements that worker %u pushed",
                        (unsigned long long)r->n, worker);
    }
    p->at = s;
    p->worker = worker;
    p->rule = r->rule;
    void *mem = packs ? (void *)p->packed : (void *)p->value;
    return fetch(kv, &(incoming){worker, r->seq, mem, bytes}, pushed, p);
}

static void add_waiting(slice *s, waiting *p) {
    waiting **at = &s->pulls;
    while (*at) at = &(*at)->next;
    *at = p;
}

typedef struct {
    slice *at;
    waiting *pull;
} rows_of;

static pst_status rows_named(pst_kv *kv, void *arg, pst_status status) {
    rows_of *r = arg;
    slice *s = r->at;
    if (status == PST_OK) add_waiting(s, r->pull);
    else free_waiting(r->pull);
    free(r);
    PST_TRY(status);
    PST_TRY(check_slice(kv, s));
    return answer_pulls(kv, s);
}

static pst_status take_pull(pst_kv *kv, uint32_t worker, const pst_kv_request *r, slice *s) {
    int some = r->op == PST_KV_ROWS;
    waiting *p = calloc(1, sizeof *p);
    rows_of *rows = some ? malloc(sizeof *rows) : NULL;
    if (p && some && r->n_row <= r->n) p->row = malloc((r->n_row + 1) * sizeof *p->row);
    if (!p || (some && (!p->row || !rows))) {
        if (p) free_waiting(p);
        free(rows);
        return pst_no_memory("for an answer");
    }
    p->worker = worker;
    p->seq = r->seq;
    p->version = r->version;
    p->n_row = r->n_row;
    if (!some) {
        add_waiting(s, p);
        PST_TRY(check_slice(kv, s));
        return answer_pulls(kv, s);
    }
    *rows = (rows_of){s, p};
    const incoming in = {worker, r->seq, p->row, r->n_row * sizeof *p->row};
    return fetch(kv, &in, rows_named, rows);
}

/* --- notes ------------------------------------------------------------------------------------ */

static pst_status send_note(pst_kv *kv, uint32_t worker, const pst_kv_note *note) {
    pst_kv_note *copy = malloc(sizeof *copy);
    if (!copy) return pst_no_memory("for a message");
    *copy = *note;
    return pst_kv_transfer(kv,
                           &(pst_transfer){.kind = PST_TRANSFER_SEND,
                                           .peer = worker,
                                           .channel = PST_KV_CHANNEL_NOTE,
                                           .seq = kv->server->note_seq[worker]++,
                                           .mem = copy,
                                           .bytes = sizeof *copy},
                           copy_sent, copy);
}

static pst_status tell_workers(pst_kv *kv, const pst_kv_note *note) {
    for (uint32_t k = 0; k < kv->n_worker; k++)
        if (!kv->worker || k != kv->rank) PST_TRY(send_note(kv, k, note));
    return PST_OK;
}

pst_status pst_kv_server_tell(pst_kv *kv, pst_status status, const char *message) {
    pst_kv_note note = {.kind = PST_KV_NOTE_FAILED, .status = status};
    snprintf(note.text, sizeof note.text, "%s", message);
    return tell_workers(kv, &note);
}

static pst_status take_barrier(pst_kv *kv) {
    const pst_kv_note note = {.kind = PST_KV_NOTE_BARRIER};
    if (++kv->server->in_barrier < kv->n_worker) return check_barrier(kv);
    kv->server->in_barrier = 0;
    PST_TRY(tell_workers(kv, &note));
    return kv->worker ? kv->near->note(kv, &note) : PST_OK;
}

pst_status pst_kv_server_take(pst_kv *kv, uint32_t worker, const pst_kv_request *r) {
    slice *s = NULL;
    if (r->op == PST_KV_BARRIER) return take_barrier(kv);
    if (r->op == PST_KV_END) return take_end(kv, worker);
    PST_TRY(get_slice(kv, worker, r, &s));
    switch (r->op) {
    case PST_KV_INIT: return take_init(kv, worker, r, s);
    case PST_KV_PUSH: return take_push(kv, worker, r, s);
    case PST_KV_PULL:
    case PST_KV_ROWS: return take_pull(kv, worker, r, s);
    default: return pst_fail(PST_EINPUT, "worker %u sent an unknown request %u", worker, r->op);
    }
}

/* --- requests of other processes -------------------------------------------------------------- */

static pst_status receive(pst_kv *kv, request_from *f);

static pst_status requested(pst_kv *kv, void *arg, pst_status status) {
    request_from *f = arg;
    PST_TRY(status);
    f->request.key[PST_KV_NAME - 1] = 0;
    PST_TRY(pst_kv_server_take(kv, f->worker, &f->request));
    return f->request.op == PST_KV_END ? PST_OK : receive(kv, f);
}

static pst_status receive(pst_kv *kv, request_from *f) {
    return pst_kv_transfer(kv,
                           &(pst_transfer){.kind = PST_TRANSFER_RECV,
                                           .peer = f->worker,
                                           .channel = PST_KV_CHANNEL_REQUEST,
                                           .seq = f->seq++,
                                           .mem = &f->request,
                                           .bytes = sizeof f->request},
                           requested, f);
}

pst_status pst_kv_server_start(pst_kv *kv) {
    pst_kv_server *s = kv->server;
    for (uint32_t k = 0; k < kv->n_worker; k++) {
        s->from[k].worker = k;
        if (kv->worker && k == kv->rank) continue;
        PST_TRY(receive(kv, s->from + k));
    }
    return PST_OK;
}
