/* Times of a stage: from the cost table of its devices' kind, their speed, and the links to the
 * next stage and to other replicas. */
#include "base/hash.h"
#include "partition/search/score.h"
#include "pipeline/compile/job.h"
#include "pipeline/compile/share.h"
#include <stdlib.h>
#include <string.h>

/* --- links ------------------------------------------------------------------------------------ */

int pst_search_link(const pst_cluster *cluster, uint32_t a, uint32_t b, pst_cluster_link *link) {
    *link = (pst_cluster_link){0};
    if (a == b) return 1;
    const pst_cluster_node *x = &cluster->node[cluster->device[a].node],
                           *y = &cluster->node[cluster->device[b].node];
    pst_level level = x == y ? PST_LEVEL_DEVICE : PST_LEVEL_NODE;
    const pst_cluster_link *p = &x->link[level], *q = &y->link[level];
    link->latency_ns = p->latency_ns > q->latency_ns ? p->latency_ns : q->latency_ns;
    link->bytes_per_s = p->bytes_per_s < q->bytes_per_s ? p->bytes_per_s : q->bytes_per_s;
    return link->bytes_per_s > 0;
}

static pst_status no_link(const pst_cluster *cluster, uint32_t a, uint32_t b) {
    uint32_t x = cluster->device[a].node, y = cluster->device[b].node;
    return pst_fail(PST_EINPUT,
                    "infeasible: no link between devices %u and %u (nodes %u and %u); give the "
                    "cluster one, such as %s",
                    a, b, x, y, x == y ? "nvlink:900GB/s" : "ib:400Gb/s");
}

/* Returns the bandwidth of one rank if `ranks` ranks share the NICs of a node. */
static double shared(const pst_cluster *cluster, uint32_t device, double alone, uint32_t ranks) {
    double all = cluster->node[cluster->device[device].node].node_bytes_per_s;
    return all > 0 && all / ranks < alone ? all / ranks : alone;
}

static uint32_t device_of(const pst_search_config *c, const uint32_t *device, uint32_t stage,
                          uint32_t replica) {
    return device[pst_grid_rank(pst_search_grid_of(c), stage, replica, 0)];
}

/* Replicas of a stage on one node send to the next stage at about the same time. Between stages of
 * different width, the narrower one's number of ranks counts. beside: replicas of stage[0] on the
 * node. */
static pst_status find_hop(const pst_cluster *cluster, const pst_candidate *c,
                           const uint32_t *beside, const uint32_t stage[2], uint32_t replica,
                           pst_cluster_link *link) {
    const pst_grid grid = pst_layout_grid(&c->layout);
    const uint32_t own = pst_grid_degree(grid, stage[0]), its = pst_grid_degree(grid, stage[1]);
    const uint32_t a = c->layout.device[pst_grid_rank(grid, stage[0], replica, 0)],
                   b = c->layout.device[pst_grid_rank(grid, stage[1], replica, 0)];
    if (!pst_search_link(cluster, a, b, link)) return no_link(cluster, a, b);
    if (cluster->device[a].node == cluster->device[b].node) return PST_OK;
    const uint32_t ranks =
        beside[(size_t)stage[0] * c->layout.data + replica] * (own < its ? own : its);
    link->bytes_per_s = shared(cluster, a, link->bytes_per_s, ranks);
    return PST_OK;
}

pst_status pst_search_tied_link(const pst_search_problem *problem, const pst_candidate *c,
                                const uint32_t *beside, const uint32_t stage[2],
                                pst_cluster_link *link) {
    for (uint32_t k = 0; k < c->layout.data; k++) {
        pst_cluster_link its;
        PST_TRY(find_hop(problem->cluster, c, beside, stage, k, &its));
        if (!k || its.bytes_per_s < link->bytes_per_s) link->bytes_per_s = its.bytes_per_s;
        if (!k || its.latency_ns > link->latency_ns) link->latency_ns = its.latency_ns;
    }
    return PST_OK;
}

/* --- passes ----------------------------------------------------------------------------------- */

pst_status pst_search_times_open(const pst_search_problem *problem, const pst_candidate *c,
                                 pst_search_times *t) {
    const uint32_t n_chunk = c->layout.n_chunk;
    t->ns = malloc(n_chunk * sizeof *t->ns);
    t->next_link = malloc(n_chunk * sizeof *t->next_link);
    t->bytes = malloc(n_chunk * sizeof *t->bytes);
    t->beside = malloc((size_t)c->layout.pipeline * c->layout.data * sizeof *t->beside);
    if (!t->ns || !t->next_link || !t->bytes || !t->beside)
        return pst_fail(PST_ENOMEM, "no memory to score %u chunks", n_chunk);
    return pst_search_count_beside(problem, c, t->beside);
}

void pst_search_times_close(pst_search_times *t) {
    free(t->ns);
    free(t->next_link);
    free(t->bytes);
    free(t->beside);
    *t = (pst_search_times){0};
}

/* A tensor group has devices of one kind, and is as fast as the slowest. */
static pst_status find_speed(const pst_search_problem *problem, const pst_search_config *c,
                             const uint32_t *device, uint32_t stage, uint32_t replica,
                             double *speed) {
    const pst_cluster_device *of = problem->cluster->device;
    const pst_grid grid = pst_search_grid_of(c);
    const uint32_t *group = device + pst_grid_rank(grid, stage, replica, 0);
    *speed = of[*group].speed;
    for (uint32_t t = 1; t < pst_grid_degree(grid, stage); t++) {
        if (of[group[t]].kind != of[*group].kind)
            return pst_fail(
                PST_EINPUT,
                "infeasible: devices %u and %u of a tensor group are of different kinds", *group,
                group[t]);
        if (of[group[t]].node != of[*group].node && !problem->tensor_across_nodes)
            return pst_fail(
                PST_EINPUT,
                "infeasible: devices %u and %u of a tensor group are on different nodes", *group,
                group[t]);
        if (of[group[t]].speed < *speed) *speed = of[group[t]].speed;
    }
    return PST_OK;
}

static uint64_t slowed(uint64_t ns, double speed) { return (uint64_t)((double)ns / speed + 0.5); }

/* A value that is split over the tensor ranks of one stage cannot go to a stage with another number
 * of them. */
static pst_status check_border(pst_search_context *x, const pst_search_config *c,
                               const pst_search_table *t, uint32_t kind, uint32_t next,
                               uint32_t item) {
    const pst_search_table *other;
    if (!c->before || pst_grid_degree(pst_search_grid_of(c), next) == t->key.tensor) return PST_OK;
    PST_TRY(pst_search_table_of(x, c, kind, next, &other));
    if (other->table && other->table->cross[item] == t->table->cross[item]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "infeasible: a stage border between %u and %u tensor ranks before operator %u, "
                    "where the activation is split",
                    t->key.tensor, other->key.tensor, item);
}

/* --- flush ------------------------------------------------------------------------------------ */

/* Counts, for each node, the ranks in replica groups that extend over several nodes: these ranks
 * share the NICs of the node when gradients are summed. */
static void count_spanning(const pst_search_problem *p, const pst_search_config *c,
                           const uint32_t *device, uint32_t *spanning, uint32_t *on_node) {
    for (uint32_t s = 0; s < c->pipeline; s++) {
        uint32_t degree = pst_grid_degree(pst_search_grid_of(c), s);
        for (uint32_t k = 0; k < c->data; k++)
            on_node[p->cluster->device[device_of(c, device, s, k)].node]++;
        for (uint32_t k = 0; k < c->data; k++) {
            uint32_t node = p->cluster->device[device_of(c, device, s, k)].node;
            if (on_node[node] && on_node[node] < c->data) spanning[node] += on_node[node] * degree;
            on_node[node] = 0;
        }
    }
}

/* Inputs for the flush of all stages. */
typedef struct {
    pst_search_context *x;
    const pst_search_config *c;
    const uint32_t *device;
    uint32_t *spanning, *on_node; /* [nodes] ranks whose replicas span several nodes; counters, zero
                                  between uses */
    int shards;                   /* 1: ns per element of sharded weights, instead of per byte */
    uint32_t first;               /* adjacent replicas that add their gradients first; 1: none */
} flush_search;

static uint32_t at_stage(const flush_search *f, uint32_t stage, uint32_t replica) {
    return device_of(f->c, f->device, stage, replica);
}

/* Whether on every stage each `near` adjacent replicas are on one node. */
static int are_near(const flush_search *f, uint32_t near) {
    const pst_cluster_device *of = f->x->problem->cluster->device;
    for (uint32_t s = 0; s < f->c->pipeline; s++)
        for (uint32_t k = 0; k < f->c->data; k++)
            if (of[at_stage(f, s, k)].node != of[at_stage(f, s, k / near * near)].node) return 0;
    return 1;
}

static uint32_t most_near(const flush_search *f) {
    const pst_search_problem *p = f->x->problem;
    uint32_t near = 1;
    if (f->x->flat || pst_costs_program_is_other(p->program)) return near;
    while (pst_search_is_two_level(p, f->c, 2 * near) && are_near(f, 2 * near)) near *= 2;
    return near;
}

/* For one rank with `near` of its replicas on its node. other: a replica on another node. */
static pst_status exchange_of(const flush_search *f, uint32_t at, uint32_t other, uint32_t near,
                              pst_cluster_link *slowest) {
    const pst_cluster *cluster = f->x->problem->cluster;
    const uint32_t node = cluster->device[at].node, data = f->c->data;
    const pst_cluster_link in = cluster->node[node].link[PST_LEVEL_DEVICE];
    pst_cluster_link out = {0};
    const pst_costs_program *program = f->x->problem->program;
    double inside = 0, outside = 0;
    if (near > 1 && in.bytes_per_s <= 0) return no_link(cluster, at, at);
    const double parts = (f->first - 1.) * (data / f->first) + (double)near / f->first - 1;
    if (near > 1) inside = parts * 1e9 / (data * in.bytes_per_s);
    if (near < data && !pst_search_link(cluster, at, other, &out))
        return no_link(cluster, at, other);
    if (near < data)
        outside = (double)(data - near) / f->first * 1e9 /
                  (data * shared(cluster, at, out.bytes_per_s, f->spanning[node]));
    slowest->bytes_per_s = inside > outside ? inside : outside;
    const pst_costs_replicas replicas = {data, near, in.bytes_per_s,
                                         shared(cluster, at, out.bytes_per_s, f->spanning[node])};
    if (pst_costs_program_is_other(program))
        slowest->bytes_per_s = f->shards ? pst_costs_program_shard_ns(program, &replicas)
                                         : pst_costs_program_exchange_ns(program, &replicas);
    slowest->latency_ns = near < data ? out.latency_ns : in.latency_ns;
    return PST_OK;
}

/* ns per byte of a gradient in one direction (reduce-scatter or all-gather): each rank sends 1/d of
 * it to every other one, within the node and between nodes at the same time. The slowest rank of
 * the stage counts. */
static pst_status find_exchange(const flush_search *f, uint32_t stage, double *ns,
                                uint64_t *latency_ns) {
    const pst_cluster_device *of = f->x->problem->cluster->device;
    const uint32_t data = f->c->data;
    pst_status status = PST_OK;
    *ns = 0;
    *latency_ns = 0;
    uint32_t first = at_stage(f, stage, 0), second = first;
    for (uint32_t k = 0; k < data; k++) {
        const uint32_t at = at_stage(f, stage, k);
        f->on_node[of[at].node]++;
        if (of[at].node != of[first].node) second = at;
    }
    for (uint32_t k = 0; k < data && status == PST_OK; k++) {
        const uint32_t at = at_stage(f, stage, k);
        const uint32_t other = of[first].node == of[at].node ? second : first;
        pst_cluster_link one = {0}; /* bytes_per_s: here ns per byte */
        status = exchange_of(f, at, other, f->on_node[of[at].node], &one);
        if (one.bytes_per_s > *ns) *ns = one.bytes_per_s;
        if (one.latency_ns > *latency_ns) *latency_ns = one.latency_ns;
    }
    for (uint32_t k = 0; k < data; k++) f->on_node[of[at_stage(f, stage, k)].node] = 0;
    return status;
}

/* That of a flat exchange or, if it is shorter, of a two-level one. */
static pst_status find_shorter(const flush_search *f, uint32_t stage, double *ns,
                               uint64_t *latency_ns) {
    flush_search flat = *f;
    double two_level;
    flat.first = 1;
    PST_TRY(find_exchange(&flat, stage, ns, latency_ns));
    if (f->first == 1) return PST_OK;
    PST_TRY(find_exchange(f, stage, &two_level, latency_ns));
    *ns = pst_search_min(*ns, two_level);
    return PST_OK;
}

/* Another program's exchange of sharded weights: *ns per element and
 * micro-batch. */
static pst_status find_shards(pst_search_context *x, const pst_search_config *c,
                              const uint32_t *device, uint32_t stage, double *ns) {
    const pst_costs_program *program = x->problem->program;
    const uint32_t n = x->problem->cluster->n_node;
    uint64_t latency;
    *ns = 0;
    if (!pst_costs_program_is_other(program) || !(program->shards > 0) || c->data < 2)
        return PST_OK;
    uint32_t *count = calloc(2 * (size_t)n, sizeof *count);
    if (!count) return pst_fail(PST_ENOMEM, "no memory to score a layout");
    const flush_search f = {x, c, device, count, count + n, 1, 1};
    count_spanning(x->problem, c, device, count, count + n);
    pst_status status = find_exchange(&f, stage, ns, &latency);
    free(count);
    return status;
}

/* The slowest replica counts. */
static pst_status fill_passes(const flush_search *s, uint32_t stage, pst_search_flush *f,
                              double *reduce) {
    const pst_search_problem *p = s->x->problem;
    const pst_search_config *c = s->c;
    for (uint32_t k = 0; k < c->data; k++) {
        const pst_search_table *t;
        const uint32_t kind = p->cluster->device[at_stage(s, stage, k)].kind;
        double speed;
        PST_TRY(find_speed(p, c, s->device, stage, k, &speed));
        PST_TRY(pst_search_table_of(s->x, c, kind, stage, &t));
        if (!t->table) return pst_search_infeasible(t);
        double norm = t->table->norm_ns / speed / c->data,
               step = t->table->step_ns / speed / (c->zero ? c->data : 1);
        double add = t->table->reduce_ns / speed * (c->data - 1) / c->data;
        if (norm > f->norm_ns) f->norm_ns = norm;
        if (step > f->step_ns) f->step_ns = step;
        if (add > *reduce) *reduce = add;
    }
    return PST_OK;
}

static pst_status fill_flush(const flush_search *s, uint32_t stage, pst_search_flush *f) {
    const pst_search_problem *p = s->x->problem;
    const pst_search_config *c = s->c;
    double ns = 0, reduce = 0;
    uint64_t latency = 0;
    *f = (pst_search_flush){0};
    if (c->data > 1) PST_TRY(find_shorter(s, stage, &ns, &latency));
    PST_TRY(fill_passes(s, stage, f, &reduce));
    f->sum_ns = ns * pst_search_sum_bytes(p, c->zero) + reduce * pst_search_sum_share(p);
    f->sum_latency_ns = (uint64_t)(pst_search_sum_share(p) * (double)(latency * (c->zero ? 1 : 2)));
    if (c->zero && c->data > 1) {
        f->gather_ns = ns * pst_search_change_bytes(p);
        f->gather_latency_ns = latency;
    }
    return PST_OK;
}

/* The norm goes to the first rank and back. */
static uint64_t find_norm_latency(const pst_cluster *cluster, const uint32_t *device, uint32_t n) {
    uint64_t longest = 0;
    for (uint32_t r = 1; r < n; r++) {
        pst_cluster_link link;
        if (pst_search_link(cluster, device[0], device[r], &link) && link.latency_ns > longest)
            longest = link.latency_ns;
    }
    return 2 * longest;
}

static pst_status find_flush(pst_search_context *x, const pst_search_config *c,
                             const uint32_t *device, pst_search_flush *flush,
                             uint64_t *norm_latency_ns) {
    const pst_cluster *cluster = x->problem->cluster;
    uint32_t *count = calloc(2 * (size_t)cluster->n_node, sizeof *count);
    if (!count) return pst_fail(PST_ENOMEM, "no memory to score a layout");
    flush_search f = {x, c, device, count, count + cluster->n_node, 0, 1};
    pst_status status = PST_OK;
    if (c->data > 1) count_spanning(x->problem, c, device, count, count + cluster->n_node);
    f.first = most_near(&f);
    for (uint32_t s = 0; s < c->pipeline && status == PST_OK; s++)
        status = fill_flush(&f, s, &flush[s]);
    *norm_latency_ns = find_norm_latency(cluster, device, pst_grid_size(pst_search_grid_of(c)));
    free(count);
    return status;
}

/* Of all that a flush depends on. Not 0. */
static uint64_t hash_flush(const pst_search_config *c, const uint32_t *device, int flat) {
    const uint32_t of[] = {c->pipeline,
                           c->tensor,
                           c->data,
                           c->zero,
                           c->sequence,
                           c->micro_batch,
                           c->schedule * (c->before != NULL),
                           (uint32_t)flat};
    uint64_t hash = pst_hash64(of, sizeof of, c->before != NULL);
    hash = pst_hash64(device, pst_grid_size(pst_search_grid_of(c)) * sizeof *device, hash);
    if (c->before)
        hash = pst_hash64(c->before, (c->pipeline + (size_t)1) * sizeof *c->before, hash);
    return hash ? hash : 1;
}

pst_status pst_search_flush_of(pst_search_context *x, const pst_search_config *c,
                               const uint32_t *device, pst_search_flush *flush,
                               uint64_t *norm_latency_ns) {
    const uint64_t hash = hash_flush(c, device, x->flat);
    const size_t bytes = c->pipeline * sizeof *flush;
    if (x->flush.hash != hash) {
        x->flush.hash = 0;
        pst_search_flush *of = realloc(x->flush.of, bytes);
        if (!of) return pst_fail(PST_ENOMEM, "no memory to score a layout");
        x->flush.of = of;
        PST_TRY(find_flush(x, c, device, of, &x->flush.norm_latency_ns));
        x->flush.hash = hash;
    }
    memcpy(flush, x->flush.of, bytes);
    *norm_latency_ns = x->flush.norm_latency_ns;
    return PST_OK;
}

/* --- passes and messages ---------------------------------------------------------------------- */

/* Another program's passes wait for messages, which then take no other time. The last chunk waits
 * for those from the one before. */
static void wait_for_messages(const pst_costs_program *program, uint32_t n_chunk,
                              pst_search_times *times) {
    uint64_t hop = 0;
    if (!program || !(program->messages > 0)) return;
    for (uint32_t k = 0; k < n_chunk; k++) {
        if (times->bytes[k]) hop = pst_search_hop_ns(times, k);
        const uint64_t waits = (uint64_t)(program->messages * (double)hop);
        times->ns[k].f += waits;
        times->ns[k].b += waits;
        times->next_link[k] = (pst_cluster_link){0};
    }
}

pst_status pst_search_times_fill(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, const pst_search_flight *flight,
                                 uint32_t replica, pst_search_times *times) {
    const pst_search_problem *p = x->problem;
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++) {
        const pst_search_table *t;
        uint32_t from = candidate->layout.first_item[k], to = candidate->layout.first_item[k + 1],
                 stage = flight->stage[k];
        double speed;
        PST_TRY(find_speed(p, c, candidate->layout.device, stage, replica, &speed));
        uint32_t kind =
            p->cluster->device[device_of(c, candidate->layout.device, stage, replica)].kind;
        PST_TRY(pst_search_table_of(x, c, kind, stage, &t));
        if (!t->table) return pst_search_infeasible(t);
        uint64_t again =
            pst_search_run_way(t, PST_SEARCH_SUM_AGAIN, candidate->layout.recompute[k], from, to);
        double shard_ns;
        PST_TRY(find_shards(x, c, candidate->layout.device, stage, &shard_ns));
        const uint64_t shards =
            (uint64_t)(shard_ns * (double)pst_search_run(t, PST_SEARCH_SUM_ELEMENTS, from, to));
        times->ns[k] = (pst_pass_ns){
            slowed(pst_search_run(t, PST_SEARCH_SUM_F, from, to), speed),
            shards + slowed(pst_search_run(t, PST_SEARCH_SUM_B, from, to) + again, speed),
            slowed(pst_search_run(t, PST_SEARCH_SUM_W, from, to), speed)};
        times->next_link[k] = (pst_cluster_link){0};
        times->bytes[k] = 0;
        if (k + 1 == candidate->layout.n_chunk || flight->stage[k + 1] == stage) continue;
        times->bytes[k] = t->table->cross[to];
        PST_TRY(check_border(x, c, t, kind, flight->stage[k + 1], to));
        const uint32_t hop[] = {stage, flight->stage[k + 1]};
        PST_TRY(find_hop(p->cluster, candidate, times->beside, hop, replica, &times->next_link[k]));
    }
    wait_for_messages(p->program, candidate->layout.n_chunk, times);
    return PST_OK;
}
