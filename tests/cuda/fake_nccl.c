/* See fake_nccl.h. */
#ifdef PST_NCCL
#include "cuda/fake_nccl.h"
#include "base/dtype.h"
#include "cuda/fake.h"
#include "kernels/cuda/nccl/nccl.h"
#include <stdlib.h>
#include <string.h>

enum { HALVES = 64, COMMS = 64, RANKS = 16, MOVE_NS = 5000 };

typedef enum { SEND, RECV, SUM, SCATTER } kind;
typedef struct {
    kind kind;
    const void *from;
    void *to;
    size_t n; /* bytes, or numbers */
    int peer, through;
    ncclDataType_t type;
} half;

typedef struct group group;
struct group {
    group *next;
    uint64_t end_ns; /* UINT64_MAX: it waits for other halves */
    int n_half;
    half half[HALVES];
};

struct ncclComm {
    uint64_t id;
    int n, rank, waits, dead, final;
    uint8_t met[RANKS]; /* whom it has been connected with */
    cudaStream_t stream;
    group *first, *head, **last; /* all; the one that runs, NULL */
};

fake_nccl_state fake_nccl;
static struct ncclComm *comms[COMMS];
static int n_comm, depth;
static uint64_t ids;
static struct ncclComm *building_for;
static cudaStream_t building_on;
static group *building;

void fake_nccl_reset(void) {
    fake_nccl = (fake_nccl_state){0};
    depth = n_comm = 0;
    building = NULL;
}

int fake_nccl_waiting(void) {
    int n = 0;
    for (int i = 0; i < n_comm; i++)
        for (group *g = comms[i] ? comms[i]->head : NULL; g; g = g->next) n++;
    return n;
}

static struct ncclComm *member(const struct ncclComm *c, int rank) {
    for (int i = 0; i < n_comm; i++)
        if (comms[i] && comms[i]->id == c->id && comms[i]->rank == rank) return comms[i];
    return NULL;
}

static ncclResult_t version(int *v) {
    *v = NCCL_VERSION_CODE;
    return ncclSuccess;
}
static ncclResult_t unique_id(ncclUniqueId *id) {
    ids++;
    memcpy(id->internal, &ids, sizeof ids);
    return ncclSuccess;
}

static ncclResult_t init(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
    if (n > RANKS || config->blocking || n_comm == COMMS) return ncclInvalidArgument;
    struct ncclComm *c = calloc(1, sizeof *c);
    memcpy(&c->id, id.internal, sizeof c->id);
    c->n = n;
    c->rank = rank;
    c->waits = fake_nccl.slow;
    c->last = &c->first;
    comms[n_comm++] = c;
    fake_nccl.live++;
    if (config->maxCTAs > fake_nccl.most_ctas) fake_nccl.most_ctas = config->maxCTAs;
    *comm = c;
    return ncclInProgress;
}

/* --- what moves ------------------------------------------------------------------------------- */

static void connect_with(struct ncclComm *c, int peer) {
    if (c->met[peer]) return;
    c->met[peer] = 1;
    fake.free_bytes -= fake_nccl.takes;
}

static half *counterpart(const struct ncclComm *c, const half *h) {
    struct ncclComm *o = member(c, h->peer);
    group *g = o ? o->head : NULL;
    for (int i = 0; g && i < g->n_half; i++) {
        half *x = g->half + i;
        if (x->peer == c->rank && !x->through && x->kind == (h->kind == SEND ? RECV : SEND))
            return x; /* those to one peer go in order */
    }
    return NULL;
}

static int move_message(struct ncclComm *c, half *h) {
    half *o = counterpart(c, h);
    if (!o) return 0;
    if (h->n != o->n) fake_nccl.unlike++;
    if (fake_nccl.fails_at && !--fake_nccl.fails_at) {
        c->dead = member(c, h->peer)->dead = 1;
        return 0;
    }
    if (h->kind == SEND) memcpy(o->to, h->from, h->n);
    else memcpy(h->to, o->from, h->n);
    connect_with(c, h->peer);
    connect_with(member(c, h->peer), c->rank);
    return h->through = o->through = 1;
}

static float number(const half *h, size_t i) {
    if (h->type == ncclFloat32) return ((const float *)h->from)[i];
    return pst_f32_from_half(h->type == ncclBfloat16 ? PST_BF16 : PST_F16,
                             ((const uint16_t *)h->from)[i]);
}

static void put_number(const half *h, size_t i, float value) {
    if (h->type == ncclFloat32) ((float *)h->to)[i] = value;
    else
        ((uint16_t *)h->to)[i] =
            pst_half_from_f32(h->type == ncclBfloat16 ? PST_BF16 : PST_F16, value);
}

/* From the last rank to the first: in another order than the exact form. */
static int add_up(struct ncclComm *c, half *h) {
    half *of[RANKS];
    for (int r = 0; r < c->n; r++) {
        group *g = member(c, r) ? member(c, r)->head : NULL;
        if (!g || g->n_half != 1 || g->half[0].through || g->half[0].kind != h->kind) return 0;
        of[r] = g->half;
        if (of[r]->n != h->n || of[r]->type != h->type) fake_nccl.unlike++;
    }
    size_t n = h->kind == SUM ? h->n : h->n * (size_t)c->n;
    float *sum = calloc(n, sizeof *sum);
    for (int r = c->n; r-- > 0;)
        for (size_t i = 0; i < n; i++) sum[i] += number(of[r], i);
    for (int r = 0; r < c->n; r++) {
        for (size_t i = 0; i < h->n; i++)
            put_number(of[r], i, sum[(h->kind == SUM ? 0 : (size_t)r * h->n) + i]);
        of[r]->through = 1;
    }
    free(sum);
    fake_nccl.sums++;
    return 1;
}

static int move_head(struct ncclComm *c) {
    int moved = 0, left = 0;
    group *g = c->head;
    if (!g || c->dead) return 0;
    for (int i = 0; i < g->n_half; i++) {
        half *h = g->half + i;
        if (!h->through) moved |= h->kind <= RECV ? move_message(c, h) : add_up(c, h);
        left += !h->through;
    }
    if (left) return moved;
    g->end_ns = fake.now + MOVE_NS;
    c->head = g->next;
    return 1;
}

static void move_all(void) {
    for (int moved = !fake_nccl.holds; moved;) {
        moved = 0;
        for (int i = 0; i < n_comm; i++)
            if (comms[i]) moved |= move_head(comms[i]);
    }
}

/* --- queueing --------------------------------------------------------------------------------- */

static ncclResult_t end_group(void) {
    if (--depth) return ncclSuccess;
    struct ncclComm *c = building_for;
    group *g = building;
    building = NULL;
    building_for = NULL;
    if (!g) return ncclSuccess;
    *c->last = g;
    c->last = &g->next;
    if (!c->head) c->head = g;
    fake_await(building_on, &g->end_ns);
    fake_nccl.groups++;
    fake_nccl.in_groups += g->n_half;
    c->waits = fake_nccl.slow;
    move_all();
    return c->waits ? ncclInProgress : ncclSuccess;
}

static ncclResult_t start_group(void) {
    depth++;
    return ncclSuccess;
}

static ncclResult_t queue(struct ncclComm *c, half h, cudaStream_t stream) {
    if (c->waits || h.peer >= c->n || (building && (building_for != c || building_on != stream)))
        return ncclInvalidUsage; /* it is not through with what came before */
    if (c->stream && c->stream != stream) fake_nccl.unlike++;
    c->stream = building_on = stream;
    building_for = c;
    start_group();
    if (!building) building = calloc(1, sizeof *building);
    building->end_ns = UINT64_MAX;
    if (building->n_half == HALVES) return ncclInvalidUsage;
    building->half[building->n_half++] = h;
    return end_group();
}
static ncclResult_t send(const void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t stream) {
    if (type != ncclInt8 || peer == c->rank) return ncclInvalidArgument;
    return queue(c, (half){.kind = SEND, .from = mem, .n = n, .peer = peer}, stream);
}
static ncclResult_t recv(void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t stream) {
    if (type != ncclInt8 || peer == c->rank) return ncclInvalidArgument;
    return queue(c, (half){.kind = RECV, .to = mem, .n = n, .peer = peer}, stream);
}
static ncclResult_t all_reduce(const void *from, void *to, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    return queue(c, (half){.kind = SUM, .from = from, .to = to, .n = n, .type = type}, stream);
}
static ncclResult_t reduce_scatter(const void *from, void *to, size_t n, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    return queue(c, (half){.kind = SCATTER, .from = from, .to = to, .n = n, .type = type}, stream);
}

/* --- life ------------------------------------------------------------------------------------- */

/* A communicator is made when all its ranks have asked for it. */
static int is_made(const struct ncclComm *c) {
    for (int r = 0; r < c->n && !c->first; r++)
        if (!member(c, r)) return 0;
    return 1;
}

static ncclResult_t state(ncclComm_t c, ncclResult_t *now) {
    *now = c->waits || (c->final ? fake_nccl.deaf : !is_made(c)) ? ncclInProgress : ncclSuccess;
    if (!c->final && (c->dead || fake_nccl.dies)) *now = ncclRemoteError;
    if (c->waits) c->waits--;
    return ncclSuccess;
}

static ncclResult_t finalize(ncclComm_t c) {
    if (c->head) fake_nccl.unlike++;
    c->final = 1;
    c->waits = fake_nccl.slow;
    return ncclInProgress;
}

static ncclResult_t drop(ncclComm_t c) {
    for (int i = 0; i < n_comm; i++)
        if (comms[i] == c) comms[i] = NULL;
    fake_nccl.live--;
    if (!fake_nccl.live) n_comm = 0;
    for (group *g = c->first, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    free(c);
    return ncclSuccess;
}
static ncclResult_t destroy(ncclComm_t c) {
    if (!c->final || c->waits) fake_nccl.unlike++;
    return drop(c);
}
static ncclResult_t give_up(ncclComm_t c) {
    fake_nccl.aborted++;
    return drop(c);
}
static const char *text(ncclResult_t result) {
    return result == ncclRemoteError ? "remote error" : "some error";
}
static const char *last(ncclComm_t c) {
    (void)c;
    return "the cable is out";
}

const pst_nccl *pst_nccl_get(const char **why) {
    static const pst_nccl api = {.version = version,
                                 .unique_id = unique_id,
                                 .init = init,
                                 .group_start = start_group,
                                 .group_end = end_group,
                                 .send = send,
                                 .recv = recv,
                                 .all_reduce = all_reduce,
                                 .reduce_scatter = reduce_scatter,
                                 .state = state,
                                 .finalize = finalize,
                                 .destroy = destroy,
                                 .abort = give_up,
                                 .text = text,
                                 .last = last};
    *why = "";
    return &api;
}
#endif
