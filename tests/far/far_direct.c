/* Messages of the device of far_module.c as a transport of its own: those of the host's, at the
 * addresses where the memory really lies. It has the name of NCCL's, which the registry asks for.
 *
 * What tensor ranks exchange waits for its turn on the thread that computes, and stops it until the
 * others' has come; the thread that drives the rank moves it meanwhile. Sums that need not be exact
 * are added from the last rank to the first, in fp32, and rounded twice. */
#include "far/far_direct.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 8, CHANNEL = PST_CHANNEL_COLLECTIVE + 5 };
typedef enum { QUEUED, BEGUN, POSTED, THROUGH, OVER } state;

typedef struct direct direct;
typedef struct exchange exchange;
struct exchange {
    exchange *next;
    direct *t;
    state state;
    uint32_t n, seq, n_request;
    pst_swap_part part[MEMBERS];
    uint64_t request[2 * MEMBERS];
    int adds;
    pst_group_sum sum;
    uint8_t *room; /* [n] what the others send to be added */
};

struct direct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
    uint32_t member[MEMBERS], n_member, own, n_exchange;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    exchange *first; /* that are not over, in order */
    int given_up;
};

static pst_transport *inner_of(pst_transport *t) { return ((direct *)t)->inner; }
static void *real(const direct *t, const void *at) {
    return pst_far_real((const pst_far_memory *)t->device, at);
}

static pst_status post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    pst_transfer there = *transfer;
    there.mem = real((direct *)t, transfer->mem);
    return inner_of(t)->ops->post(inner_of(t), &there, id);
}

static pst_status test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    return inner_of(t)->ops->test(inner_of(t), id, end_ns);
}
static uint64_t next_ns(pst_transport *t) {
    return inner_of(t)->ops->next_ns ? inner_of(t)->ops->next_ns(inner_of(t)) : PST_NEVER;
}
static void give_up(pst_transport *t) { inner_of(t)->ops->abort(inner_of(t)); }

/* --- exchanges -------------------------------------------------------------------------------- */

static state state_of(const exchange *e) {
    pthread_mutex_lock(&e->t->lock);
    state now = e->state;
    pthread_mutex_unlock(&e->t->lock);
    return now;
}

static void set(exchange *e, state next) {
    pthread_mutex_lock(&e->t->lock);
    e->state = next;
    pthread_cond_broadcast(&e->t->moved);
    pthread_mutex_unlock(&e->t->lock);
}

static pst_status post_part(exchange *e, pst_transfer_kind kind, uint32_t k) {
    const pst_swap_part *p = e->part + k;
    int sends = kind == PST_TRANSFER_SEND;
    const pst_transfer transfer = {.kind = kind,
                                   .peer = e->t->member[k],
                                   .channel = CHANNEL,
                                   .seq = e->seq,
                                   .mem = real(e->t, sends ? p->send : p->recv),
                                   .bytes = sends ? p->send_bytes : p->recv_bytes};
    if (!transfer.bytes) return PST_OK;
    return e->t->inner->ops->post(e->t->inner, &transfer, &e->request[e->n_request++]);
}

static pst_status move(exchange *e) {
    state now = state_of(e);
    for (uint32_t k = 0; now == BEGUN && k < e->n; k++) {
        PST_TRY(post_part(e, PST_TRANSFER_SEND, k));
        PST_TRY(post_part(e, PST_TRANSFER_RECV, k));
    }
    if (now == BEGUN) set(e, now = POSTED);
    while (now == POSTED && e->n_request) {
        pst_status status = e->t->inner->ops->test(e->t->inner, e->request[e->n_request - 1], NULL);
        if (status != PST_OK) return status;
        e->n_request--;
    }
    if (now == POSTED) set(e, THROUGH);
    return PST_OK;
}

/* What waits for others waits no longer. */
static void stop(direct *t) {
    pthread_mutex_lock(&t->lock);
    t->given_up = 1;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

static uint32_t progress(pst_transport *base) {
    direct *t = (direct *)base;
    uint32_t moved = t->inner->ops->progress(t->inner);
    if (t->first && move(t->first) > PST_BUSY) stop(t);
    while (t->first && state_of(t->first) == OVER) {
        exchange *over = t->first;
        t->first = over->next;
        free(over->room);
        free(over);
        moved++;
    }
    return moved;
}

static pst_status arm(pst_transport *t, int *fd) {
    return ((direct *)t)->first ? PST_BUSY : inner_of(t)->ops->arm(inner_of(t), fd);
}

static float number(pst_dtype type, const void *at, uint64_t i) {
    return type == PST_F32 ? ((const float *)at)[i]
                           : pst_f32_from_half(type, ((const uint16_t *)at)[i]);
}

static void put_number(pst_dtype type, void *at, uint64_t i, float value) {
    if (type == PST_F32) ((float *)at)[i] = value;
    else ((uint16_t *)at)[i] = pst_half_from_f32(type, value);
}

static void add_up(const exchange *e) {
    const pst_group_sum *s = &e->sum;
    const uint8_t *own = real(e->t, s->from);
    uint64_t bytes = s->n * pst_dtype_bytes(s->dtype);
    if (s->scattered) own += e->t->own * bytes;
    for (uint64_t i = 0; i < s->n; i++) {
        float sum = 0;
        for (uint32_t k = e->n; k-- > 0;)
            sum += number(s->dtype, k == e->t->own ? own : e->room + k * bytes, i);
        put_number(s->dtype, real(e->t, s->to), i, sum);
    }
}

/* On the thread that computes. */
static pst_status take_part(void *arg) {
    exchange *e = arg;
    direct *t = e->t;
    set(e, BEGUN);
    pthread_mutex_lock(&t->lock);
    while (e->state != THROUGH && !t->given_up) pthread_cond_wait(&t->moved, &t->lock);
    int through = e->state == THROUGH;
    pthread_mutex_unlock(&t->lock);
    if (!through) return PST_EPEER;
    if (e->adds) add_up(e);
    set(e, OVER);
    return PST_OK;
}

static exchange *exchange_of(direct *t) {
    exchange *e = calloc(1, sizeof *e), **last = &t->first;
    if (!e) abort();
    e->t = t;
    e->n = t->n_member;
    e->seq = t->n_exchange++;
    while (*last) last = &(*last)->next;
    return *last = e;
}

static void put(exchange *e) {
    ((const pst_far_memory *)e->t->device)->put(e->t->device, take_part, e);
}

static pst_status swap(pst_transport *base, const pst_swap *s) {
    exchange *e = exchange_of((direct *)base);
    memcpy(e->part, s->part, s->n * sizeof *s->part);
    put(e);
    return PST_OK;
}

static pst_status sum(pst_transport *base, const pst_group_sum *s) {
    exchange *e = exchange_of((direct *)base);
    uint64_t bytes = s->n * pst_dtype_bytes(s->dtype);
    e->adds = 1;
    e->sum = *s;
    if (!(e->room = malloc(e->n * bytes))) abort();
    for (uint32_t k = 0; k < e->n; k++)
        if (k != e->t->own)
            e->part[k] = (pst_swap_part){(const uint8_t *)s->from + (s->scattered ? k * bytes : 0),
                                         e->room + k * bytes, bytes, bytes};
    put(e);
    return PST_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

/* What still waits is left to the thread that waits for it. */
static void close_direct(pst_transport *base) {
    direct *t = (direct *)base;
    stop(t);
    if (!t->first) free(t);
}

static const pst_transport_ops ops = {.name = "nccl",
                                      .flags = PST_TRANSPORT_DEVICE_MEMORY,
                                      .post = post,
                                      .test = test,
                                      .progress = progress,
                                      .next_ns = next_ns,
                                      .arm = arm,
                                      .abort = give_up,
                                      .close = close_direct};

/* As if the machine had two GPUs, or FAR_GPUS. */
static const char *reject(uint32_t ranks_here) {
    const char *gpus = getenv("FAR_GPUS");
    return ranks_here > (gpus ? (uint32_t)atoi(gpus) : 2) ? "more ranks than GPUs" : NULL;
}

static pst_status open_direct(const pst_direct_config *config, pst_transport **transport) {
    direct *t = calloc(1, sizeof *t);
    pst_transport *inner = config->inner;
    if (!t || config->n_member > MEMBERS) return PST_ENOMEM;
    t->base = (pst_transport){
        .ops = &ops, .clock = inner->clock, .rank = inner->rank, .size = inner->size};
    t->inner = inner;
    t->device = config->device;
    t->n_member = config->n_member;
    for (uint32_t k = 0; k < t->n_member; k++) {
        t->member[k] = config->member[k];
        if (t->member[k] == inner->rank) t->own = k;
    }
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    pst_log(PST_LOG_INFO, "far: messages go directly");
    *transport = &t->base;
    return PST_OK;
}

static pst_status connect_direct(pst_transport *t, uint64_t *bytes) {
    (void)t;
    *bytes = 0;
    return PST_OK;
}

const pst_direct_ops pst_far_direct = {.name = "nccl",
                                       .reject = reject,
                                       .open = open_direct,
                                       .connect = connect_direct,
                                       .swap = swap,
                                       .sum = sum};
