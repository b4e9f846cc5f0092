/* See exchange_device.h. In a sum each rank adds one part: in the first round it receives this part
 * from all others, in the second it sends them the sum; so each rank sends and receives as much as
 * in any all-reduce. Along the sequence, the parts of several samples are not contiguous: they are
 * packed before and unpacked after.
 *
 * A round is a set of messages, which need the host in between (posted when their data is there,
 * tested until they arrive). If the transport has pst_direct_ops.swap, a round is a launch on the
 * device, like packing and additions: then an exchange is queued like any operator, and the host
 * does not wait. */
#include "graph/exchange.h"
#include "graph/split.h"
#include "rank/exchange_device.h"
#include <stdlib.h>

enum { CHANNEL = PST_CHANNEL_COLLECTIVE + 2 };

struct pst_device_exchanger {
    pst_rank *r;
    uint32_t n, own, *member; /* n: size of the group; own: index of this rank; member[n] */
    uint64_t *request;        /* [2 n] under way */
    uint32_t n_request, seq;
    pst_status broken;
    /* The pass under way; graph: of its micro-batch. */
    const pst_graph *graph;
    const pst_node *node;
    pst_exchange kind;
    int round; /* 0: none under way */
    uint8_t *from, *to, *scratch;
    const void **addend; /* [n] */
    pst_swap_part *part; /* [n] what the current round sends and receives */
    int queued;          /* 1: rounds are launches */
};

pst_status pst_device_exchanger_open(pst_rank *r, const uint32_t *members, uint32_t n,
                                     pst_device_exchanger **out) {
    if (n > PST_ARITH_ADDENDS)
        return pst_fail(PST_EINPUT, "device %s supports at most %d tensor ranks, not %u",
                        r->device->ops->name, PST_ARITH_ADDENDS, n);
    pst_device_exchanger *x = calloc(1, sizeof *x);
    if (x) {
        x->request = calloc(2 * (size_t)n, sizeof *x->request);
        x->member = calloc(n, sizeof *x->member);
    }
    if (x) {
        x->addend = calloc(n, sizeof *x->addend);
        x->part = calloc(n, sizeof *x->part);
    }
    if (!x || !x->request || !x->member || !x->addend || !x->part) {
        pst_device_exchanger_close(x);
        return pst_fail(PST_ENOMEM, "no memory for a group of %u tensor ranks", n);
    }
    x->r = r;
    x->n = n;
    x->own = r->place.tensor;
    for (uint32_t i = 0; i < n; i++) x->member[i] = members[i];
    *out = x;
    return PST_OK;
}

void pst_device_exchanger_close(pst_device_exchanger *x) {
    if (!x) return;
    free(x->request);
    free(x->member);
    free(x->addend);
    free(x->part);
    free(x);
}

/* --- messages --------------------------------------------------------------------------------- */

static pst_transport *transport_of(const pst_device_exchanger *x) {
    return x->r->staged ? x->r->staged : x->r->transport;
}

static pst_status post(pst_device_exchanger *x, pst_transfer_kind kind, uint32_t k, void *mem,
                       uint64_t bytes) {
    pst_transfer t = {.kind = kind,
                      .peer = x->member[k],
                      .channel = CHANNEL,
                      .seq = x->seq,
                      .mem = mem,
                      .bytes = bytes,
                      .of_device = 1};
    if (!bytes) return PST_OK;
    PST_TRY(transport_of(x)->ops->post(transport_of(x), &t, &x->request[x->n_request]));
    x->n_request++;
    return PST_OK;
}

/* Sends and receives the parts of the current round. */
static pst_status swap(pst_device_exchanger *x) {
    const pst_swap swap = {x->part, x->n};
    if (x->queued) return x->r->direct->swap(x->r->staged, &swap);
    for (uint32_t k = 0; k < x->n; k++) {
        pst_swap_part *p = x->part + k;
        PST_TRY(post(x, PST_TRANSFER_SEND, k, (void *)(uintptr_t)p->send, p->send_bytes));
        PST_TRY(post(x, PST_TRANSFER_RECV, k, p->recv, p->recv_bytes));
    }
    return PST_OK;
}

/* Queued work is ordered on the device, so nothing must be waited for. */
static pst_status wait_for_device(const pst_device_exchanger *x) {
    return x->queued ? PST_OK : pst_rank_wait(x->r);
}

/* BUSY: some messages are under way. */
static pst_status arrive(pst_device_exchanger *x, uint64_t *moved) {
    pst_transport *t = transport_of(x);
    t->ops->progress(t);
    for (uint32_t i = 0; i < x->n_request;) {
        uint64_t end_ns;
        pst_status status = t->ops->test(t, x->request[i], &end_ns);
        if (status == PST_BUSY) i++;
        else if (status != PST_OK) return status;
        else {
            x->request[i] = x->request[--x->n_request];
            ++*moved;
        }
    }
    return x->n_request ? PST_BUSY : PST_OK;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static pst_far_part part_in(const pst_device_exchanger *x, uint32_t k) {
    return pst_far_part_of(x->graph, x->node, x->kind, x->n, k);
}

/* Copies part k of every sample between a tensor and a contiguous block. */
static pst_status pack(const pst_device_exchanger *x, uint32_t k, uint8_t *tensor, uint8_t *packed,
                       int back) {
    pst_far_samples all = pst_far_samples_of(x->graph, x->node, x->kind);
    pst_far_part p = part_in(x, k);
    uint8_t *at = tensor + p.first;
    pst_device *d = x->r->device;
    if (!p.bytes) return PST_OK;
    pst_device_rows out = {packed, p.bytes, at, all.whole, p.bytes, all.samples};
    pst_device_rows in = {at, all.whole, packed, p.bytes, p.bytes, all.samples};
    return d->ops->copy_rows(d, PST_Q_COMPUTE, back ? &in : &out);
}

/* First round: sends the parts of the others, receives this rank's part from each. */
static pst_status start_sum(pst_device_exchanger *x) {
    uint64_t samples = pst_far_samples_of(x->graph, x->node, x->kind).samples,
             own = samples * part_in(x, x->own).bytes;
    uint8_t *packed = x->scratch, *arriving = x->scratch, *at;
    if (samples > 1) {
        for (uint32_t k = 0; k < x->n; arriving += samples * part_in(x, k).bytes, k++)
            PST_TRY(pack(x, k, x->from, arriving, 0));
        PST_TRY(wait_for_device(x));
    }
    for (uint32_t k = 0; k < x->n; packed += samples * part_in(x, k).bytes, k++) {
        at = samples > 1 ? packed : x->from + part_in(x, k).first;
        x->addend[k] = k == x->own ? at : arriving;
        if (k == x->own) continue;
        x->part[k] = (pst_swap_part){at, arriving, samples * part_in(x, k).bytes, own};
        arriving += own;
    }
    return swap(x);
}

/* Argument of a launch. */
typedef struct {
    const pst_device_exchanger *x;
    void *to;
    uint64_t n;
} addition;

static pst_status run_addition(pst_device *device, const void *block) {
    const addition *a = block;
    const pst_device_exchanger *x = a->x;
    return x->r->arith->combine(device, pst_exchange_longer(x->graph, x->node)->dtype, x->addend,
                                x->n, a->to, a->n);
}

/* Adds this rank's part on the device; for an all-reduce, starts the second round. */
static pst_status add_up(pst_device_exchanger *x) {
    const pst_dtype type = pst_exchange_longer(x->graph, x->node)->dtype;
    pst_far_part own = part_in(x, x->own);
    uint64_t samples = pst_far_samples_of(x->graph, x->node, x->kind).samples;
    uint8_t *to = x->kind == PST_EXCHANGE_SUM ? x->to + own.first : x->to;
    const addition a = {x, to, samples * own.bytes / pst_dtype_bytes(type)};
    pst_device *d = x->r->device;
    uint64_t event;
    if (a.n && x->queued) PST_TRY(run_addition(d, &a));
    else if (a.n) PST_TRY(d->ops->launch(d, run_addition, &a, 0, 0, &event));
    PST_TRY(wait_for_device(x));
    if (x->kind == PST_EXCHANGE_SCATTER) return PST_OK;
    for (uint32_t k = 0; k < x->n; k++) {
        pst_far_part theirs = part_in(x, k);
        if (k == x->own) continue;
        x->part[k] = (pst_swap_part){to, x->to + theirs.first, own.bytes, theirs.bytes};
    }
    return swap(x);
}

static pst_status start_gather(pst_device_exchanger *x) {
    uint64_t samples = pst_far_samples_of(x->graph, x->node, x->kind).samples,
             own = samples * part_in(x, x->own).bytes;
    uint8_t *arriving = x->scratch;
    PST_TRY(pack(x, x->own, x->to, x->from, 1));
    for (uint32_t k = 0; k < x->n; k++) {
        if (k == x->own) continue;
        pst_far_part p = part_in(x, k);
        x->part[k] = (pst_swap_part){x->from, samples > 1 ? arriving : x->to + p.first, own,
                                     samples * p.bytes};
        arriving += samples * p.bytes;
    }
    return swap(x);
}

static pst_status finish_gather(pst_device_exchanger *x) {
    uint64_t samples = pst_far_samples_of(x->graph, x->node, x->kind).samples;
    uint8_t *arrived = x->scratch;
    for (uint32_t k = 0; samples > 1 && k < x->n; k++) {
        if (k == x->own) continue;
        PST_TRY(pack(x, k, x->to, arrived, 1));
        arrived += samples * part_in(x, k).bytes;
    }
    return wait_for_device(x);
}

static int is_sum(pst_exchange kind) {
    return kind == PST_EXCHANGE_SUM || kind == PST_EXCHANGE_SCATTER;
}

pst_status pst_device_exchange_start(pst_device_exchanger *x, const pst_node *node, pst_pass pass,
                                     uint8_t *from, uint8_t *to, uint8_t *scratch) {
    x->graph = pst_rank_graph(x->r, x->r->exchange_micro);
    x->node = node;
    x->kind = (pst_exchange)node->op->exchange[pass];
    x->from = from;
    x->to = to;
    x->scratch = scratch;
    if (x->kind == PST_EXCHANGE_COPY) {
        if (to == from) return PST_OK;
        PST_TRY(pst_rank_copy(x->r, to, from, pst_tensor_bytes(x->graph->tensor + node->in[0])));
        return pst_rank_wait(x->r);
    }
    x->round = 1;
    x->n_request = 0;
    x->queued = 0;
    x->seq++;
    return is_sum(x->kind) ? start_sum(x) : start_gather(x);
}

pst_status pst_device_exchange_test(pst_device_exchanger *x, uint64_t *moved) {
    if (x->broken != PST_OK) return pst_fail(x->broken, "a peer in the tensor group is lost");
    if (!x->round) return PST_OK;
    PST_TRY(arrive(x, moved));
    if (is_sum(x->kind) && x->round == 1) {
        x->round = 2;
        x->seq++;
        PST_TRY(add_up(x));
        if (x->n_request) return PST_BUSY;
    }
    x->round = 0;
    return is_sum(x->kind) ? PST_OK : finish_gather(x);
}

void pst_device_exchange_break(pst_device_exchanger *x, pst_status status) { x->broken = status; }

/* --- exchanges queued on the device ----------------------------------------------------------- */

int pst_device_exchange_queues(const pst_rank *r) {
    return r->device_exchanger && r->direct && r->direct->swap;
}

/* NCCL's reduce-scatter needs equal parts. */
static int are_equal(const pst_device_exchanger *x) {
    for (uint32_t k = 1; k < x->n; k++)
        if (part_in(x, k).bytes != part_in(x, 0).bytes) return 0;
    return 1;
}

static pst_status library_sum(pst_device_exchanger *x) {
    const pst_tensor *t = pst_exchange_longer(x->graph, x->node);
    uint64_t samples = pst_far_samples_of(x->graph, x->node, x->kind).samples;
    int scatters = x->kind == PST_EXCHANGE_SCATTER;
    pst_group_sum sum = {x->from, x->to, pst_tensor_elements(t) / (scatters ? x->n : 1), t->dtype,
                         scatters};
    uint8_t *packed = x->scratch;
    for (uint32_t k = 0; scatters && samples > 1 && k < x->n; k++) {
        PST_TRY(pack(x, k, x->from, packed, 0));
        packed += samples * part_in(x, k).bytes;
    }
    if (packed != x->scratch) sum.from = x->scratch;
    return x->r->direct->sum(x->r->staged, &sum);
}

static pst_status queue_copy(pst_device_exchanger *x) {
    uint64_t bytes = pst_tensor_bytes(x->graph->tensor + x->node->in[0]);
    pst_device_rows all = {x->to, bytes, x->from, bytes, bytes, 1};
    pst_device *d = x->r->device;
    return x->to == x->from ? PST_OK : d->ops->copy_rows(d, PST_Q_COMPUTE, &all);
}

static pst_status queue(pst_device_exchanger *x) {
    if (x->kind == PST_EXCHANGE_COPY) return queue_copy(x);
    if (!is_sum(x->kind)) {
        PST_TRY(start_gather(x));
        return finish_gather(x);
    }
    if (x->r->library_adds && (x->kind == PST_EXCHANGE_SUM || are_equal(x))) return library_sum(x);
    PST_TRY(start_sum(x));
    return add_up(x);
}

pst_status pst_device_exchange_queue(pst_device *device, const void *block) {
    const pst_rank_call *c = block;
    pst_device_exchanger *x = c->rank->device_exchanger;
    (void)device;
    x->graph = c->call.graph;
    x->node = c->call.node;
    x->kind = (pst_exchange)x->node->op->exchange[c->step->pass];
    x->from = c->arg[0];
    x->to = c->arg[1];
    x->scratch = c->call.scratch;
    x->queued = 1;
    x->part[x->own] = (pst_swap_part){0};
    return queue(x);
}
