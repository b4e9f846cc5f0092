/* Which share of a stage's parameters each of its owners gets, if it has servers: as much as its
 * link lets it exchange. In a step a replica that owns the share x sends 1 - x of its gradients and
 * x of the weights to every other replica, and receives as much of either the other way round; a
 * server that owns y receives y of the gradients of every replica, and sends y of the weights to
 * each. The shares for which the busiest link is free earliest are a linear program with one free
 * number, that time, which bisection finds. With equal links the time is that of BytePS's theorem 1
 * (OSDI'20): 2n(n-1) / (n^2 + kn - 2k) times that of one copy of the parameters, with n replicas
 * and k servers. */
#include "pipeline/compile/share.h"
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = 1 << 20 }; /* a share of 1 */

/* bytes_per_s: [owners]. gradient, weight: bytes of an element in a message. */
typedef struct {
    uint32_t replicas, owners;
    double gradient, weight;
    const double *bytes_per_s;
} links;

/* The largest share with from + share * per <= room; negative: there is none. */
static double largest(double from, double per, double room) {
    if (from > room) return -1;
    if (per <= 0) return 1;
    return fmin(1, (room - from) / per);
}

/* The largest share of owner k with which it needs at most `s` seconds for an element of every
 * parameter. */
static double share_in(const links *l, uint32_t k, double s) {
    const double n = l->replicas, g = l->gradient, w = l->weight, room = s * l->bytes_per_s[k];
    if (k >= l->replicas) return largest(0, n * fmax(g, w), room);
    return fmin(largest(g, (n - 1) * w - g, room), largest(w, (n - 1) * g - w, room));
}

/* Their sum; negative: a replica cannot send its gradients in time. */
static double sum_in(const links *l, double s) {
    double sum = 0;
    for (uint32_t k = 0; k < l->owners; k++) {
        const double share = share_in(l, k, s);
        if (share < 0) return -1;
        sum += share;
    }
    return sum;
}

/* Sets share[0..owners), of the sum 1. Servers get what they can take, replicas the rest. */
static void solve(const links *l, double *share) {
    double low = 0, high = 1e-12, served = 0, rest = 0;
    while (sum_in(l, high) < 1) high *= 2;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        *(sum_in(l, middle) < 1 ? &low : &high) = middle;
    }
    for (uint32_t k = 0; k < l->owners; k++) {
        share[k] = share_in(l, k, high);
        *(k < l->replicas ? &rest : &served) += share[k];
    }
    const double of_servers = fmin(1, served);
    for (uint32_t k = 0; k < l->owners; k++)
        share[k] *= k < l->replicas ? (1 - of_servers) / fmax(rest, 1e-12) : of_servers / served;
}

/* Asynchronous updates: servers own all, in proportion to their links. */
static void share_of_servers(const links *l, double *share) {
    double sum = 0;
    for (uint32_t k = l->replicas; k < l->owners; k++) sum += l->bytes_per_s[k];
    for (uint32_t k = 0; k < l->owners; k++)
        share[k] = k < l->replicas ? 0 : l->bytes_per_s[k] / sum;
}

/* Of a rank's link to the others of its stage, the slowest; without a cluster all are equal. */
static pst_status rate_of(const pst_prepared *p, uint32_t rank, double *bytes_per_s) {
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    *bytes_per_s = 1;
    for (uint32_t k = 0; p->cluster && k < p->grid.data; k++) {
        const uint32_t other = pst_grid_rank(p->grid, at.stage, k, at.tensor);
        pst_cluster_link link;
        if (other == rank) continue;
        PST_TRY(pst_cluster_between(p->cluster, p->device[rank], p->device[other], &link));
        if (*bytes_per_s == 1 || link.bytes_per_s < *bytes_per_s) *bytes_per_s = link.bytes_per_s;
    }
    return PST_OK;
}

/* rate, share: [owners] working memory. */
static pst_status weigh_stage(const pst_prepared *p, uint32_t stage, double *rate, double *share,
                              uint32_t *weight) {
    const uint32_t owners = pst_grid_owners(p->grid);
    const int narrow = !strcmp(p->config->parallel.gradients, "bf16");
    const links l = {p->grid.data, owners, narrow ? 2 : 4, pst_dtype_bytes(p->graph->dtype), rate};
    for (uint32_t k = 0; k < owners; k++)
        PST_TRY(rate_of(p, pst_grid_rank(p->grid, stage, k, 0), rate + k));
    if (pst_prepare_is_async(p->config)) share_of_servers(&l, share);
    else solve(&l, share);
    for (uint32_t k = 0; k < owners; k++) weight[k] = (uint32_t)lround(share[k] * UNIT);
    return PST_OK;
}

pst_status pst_prepare_owners(const pst_prepared *p, uint32_t **weight) {
    const uint32_t owners = pst_grid_owners(p->grid);
    *weight = NULL;
    if (!p->grid.servers) return PST_OK;
    double *room = calloc(2 * (size_t)owners, sizeof *room);
    uint32_t *all = calloc((size_t)p->grid.pipeline * owners, sizeof *all);
    pst_status status = room && all ? PST_OK : pst_no_memory("for the shares of servers");
    for (uint32_t s = 0; status == PST_OK && s < p->grid.pipeline; s++)
        status = weigh_stage(p, s, room, room + owners, all + (size_t)s * owners);
    free(room);
    if (status == PST_OK) *weight = all;
    else free(all);
    return status;
}

/* The norm of all gradients must not matter, nor other pieces; states in bf16 are rounded by their
 * place in the whole shard. Weights are sent again from host memory if a step is not applied. */
int pst_prepare_is_eager(const pst_prepared *p) {
    const pst_config *c = p->config;
    const int on_host = !p->options.device || !(p->options.device->flags & PST_DEVICE_OWN_MEMORY);
    return p->grid.servers && p->optim && !p->optim->whole && p->optim->state == PST_F32 &&
           !(c->train.clip > 0) && strcmp(c->parallel.post_validation, "true") != 0 &&
           !p->grid.tensor_before && on_host && !pst_prepare_staleness(c) &&
           !pst_prepare_is_async(c);
}

/* Weights come back once a message has arrived from every replica, so that the first and the last
 * message of each are not hidden: slices of at least WIRE_NS, else whole pieces. */
uint64_t pst_prepare_slice(const pst_prepared *p, uint64_t message) {
    enum { WIRE_NS = 1000000, SLICES = 16 };
    double slowest = 0;
    for (uint32_t r = 0; p->cluster && r < p->options.n_rank; r++) {
        double rate;
        if (!pst_grid_is_server(p->grid, r) || rate_of(p, r, &rate) != PST_OK) continue;
        if (slowest == 0 || rate < slowest) slowest = rate;
    }
    uint64_t n = PST_PIECE / SLICES;
    if (slowest == 0 || message > PST_PIECE) return message;
    while (n < PST_PIECE && (double)(n * sizeof(float)) < WIRE_NS * 1e-9 * slowest) n *= 2;
    return n;
}
