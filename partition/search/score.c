/* Predicts the step of a layout: longest path or simulation of each distinct replica, then the
 * flush in closed form. */
#include "base/hash.h"
#include "partition/cost/replicas.h"
#include "partition/search/score.h"
#include "pipeline/simulate/simulate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- micro-batches ---------------------------------------------------------------------------- */

/* Time of a micro-batch on the slowest stage; which: that stage. */
static uint64_t period_of(const pst_candidate *candidate, const pst_search_flight *flight,
                          const pst_search_times *t, uint64_t *stage_ns, uint32_t *which) {
    memset(stage_ns, 0, candidate->layout.pipeline * sizeof *stage_ns);
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++)
        stage_ns[flight->stage[k]] += t->ns[k].f + t->ns[k].b + t->ns[k].w;
    *which = 0;
    for (uint32_t s = 1; s < candidate->layout.pipeline; s++)
        if (stage_ns[s] > stage_ns[*which]) *which = s;
    return stage_ns[*which];
}

uint32_t pst_search_most_micros(const pst_candidate *c) {
    /* before they are distributed */
    uint32_t most = (c->layout.n_micro + c->layout.data - 1) / c->layout.data;
    for (uint32_t k = 0; k < c->layout.data && c->layout.micros[0]; k++)
        if (!k || c->layout.micros[k] > most) most = c->layout.micros[k];
    return most;
}

/* The step's smaller first micro-batch as a part of a whole one; 0: all are equal. */
static double part_of(const pst_layout *l) { return (double)l->rest / l->micro_batch; }

/* The same of a replica: the first one has it. A replica with no other one counts it as a whole
 * one. */
static double rest_of(const pst_candidate *c, uint32_t replica) {
    return replica || c->layout.micros[0] == 1 ? 0 : part_of(&c->layout);
}

/* Whole micro-batches of a replica. */
static uint32_t whole_of(const pst_candidate *c, uint32_t replica) {
    return c->layout.micros[replica] - (rest_of(c, replica) > 0);
}

/* --- one replica ------------------------------------------------------------------------------ */

static double first_of(const pst_candidate *c, uint32_t replica) {
    const double rest = rest_of(c, replica);
    return rest > 0 ? rest : 1;
}

/* In a synthetic cut, values v and v + n_chunk - 1 cross between chunks v and v + 1, forward and
 * backward. */
static void set_messages(pst_job *job, const pst_cut *cut, const pst_search_times *t) {
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            pst_instr *in = &job->list[r].instr[i];
            if ((in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) || in->peer == r) continue;
            uint32_t low = cut->chunk[in->chunk].local[in->local].value % (job->n_chunk - 1);
            in->bytes = t->bytes[low];
            in->wire_ns = pst_search_wire_ns(&t->next_link[low], t->bytes[low]);
            in->ns = in->wire_ns + t->next_link[low].latency_ns;
        }
}

/* first: part of these times that the first micro-batch takes. */
static void shorten_first(pst_job *job, double first) {
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            pst_instr *in = &job->list[r].instr[i];
            const int has_micro =
                in->opcode <= PST_OP_BW || in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
            if (!has_micro || in->micro) continue;
            in->ns = (uint64_t)(first * (double)in->ns);
            in->wire_ns = (uint64_t)(first * (double)in->wire_ns);
        }
}

static pst_status simulate(const pst_schedule *s, const pst_search_times *t, double first,
                           uint64_t *end_ns, double *bubble) {
    const pst_instr_cost cost = {.flush = 0};
    pst_cut *cut = NULL;
    pst_job *job = NULL;
    pst_slots *slots = NULL;
    pst_timing *timing = NULL;
    PST_TRY(pst_cut_synthetic(s->n_chunk, s->split, 1, (pst_pass_ns){0}, 64, &cut));
    pst_cut_set_times(cut, t->ns);
    pst_status status = pst_job_build(s, cut, &cost, &job, &slots);
    if (status == PST_OK) set_messages(job, cut, t);
    if (status == PST_OK && first < 1) shorten_first(job, first);
    if (status == PST_OK) status = pst_simulate(job, &timing);
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++) {
        end_ns[r] = 0;
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            if (job->list[r].instr[i].opcode <= PST_OP_BW && timing->span[r][i].end > end_ns[r])
                end_ns[r] = timing->span[r][i].end;
    }
    if (status == PST_OK) *bubble = timing->bubble;
    pst_timing_close(timing);
    pst_slots_close(slots);
    pst_job_close(job);
    pst_cut_close(cut);
    return status;
}

/* --- all replicas ----------------------------------------------------------------------------- */

/* Larger schedules use the longest path: their instructions would take hundreds of MB. */
enum { SIMULATED_ACTIONS = 400000 };

typedef struct {
    const pst_search_flight *flight;
    pst_search_times times;
    pst_search_flush *flush;   /* [pipeline] */
    uint64_t *end_ns, *one_ns; /* [pipeline] of all replicas; of one */
    uint64_t *stage_ns, *hops; /* [pipeline]; [n_chunk] */
    uint64_t *early_ns; /* [pipeline] earliest time at which all replicas can send gradients */
    uint64_t *elements; /* [pipeline] of parameters */
    /* elements of the first stage's parameters that tied_stage also uses: its gradients go to the
     * first stage, and the sum, or the new weights, come back */
    uint64_t tied;
    uint32_t tied_stage;
    uint64_t tied_gradient_ns, tied_weight_ns; /* times of these messages */
    uint64_t *seen, *linked; /* [data] hashes of replicas: of their times, and of their links */
    uint32_t n_seen, n_linked;
    double *period;                       /* [data] longest stage of each */
    double *other_nodes_ns, *own_node_ns; /* [pipeline x data] ns in which a rank sends its messages
                           to other nodes, and within its node */
    double *node_bytes; /* [cluster's nodes] bytes that leave and enter each node */
    /* [pipeline] a rank that ends its passes later makes the step too long; NULL: no limit */
    uint64_t *most_ns;
    uint64_t norm_latency_ns;
    int beyond;         /* 1: some rank exceeds most_ns */
    pst_search_how how; /* in this run */
    int no_hops;        /* 1: messages take no time */
    int split;          /* 1: B and W are separate passes */
} score;

static pst_status open_score(pst_search_context *x, const pst_search_config *c,
                             const pst_candidate *candidate, score *s) {
    uint32_t p = candidate->layout.pipeline;
    uint64_t *all =
        calloc(6 * (size_t)p + candidate->layout.n_chunk + 2 * (size_t)candidate->layout.data,
               sizeof *all);
    *s = (score){.end_ns = all, .flush = calloc(p, sizeof *s->flush)};
    s->other_nodes_ns =
        calloc((2 * (size_t)p + 1) * candidate->layout.data + x->problem->cluster->n_node,
               sizeof *s->other_nodes_ns);
    if (!all || !s->flush || !s->other_nodes_ns)
        return pst_fail(PST_ENOMEM, "no memory to score a layout");
    s->split = x->row[c->schedule]->split;
    s->one_ns = all + p;
    s->stage_ns = all + 2 * (size_t)p;
    s->elements = all + 3 * (size_t)p;
    s->own_node_ns = s->other_nodes_ns + (size_t)p * candidate->layout.data;
    s->node_bytes = s->own_node_ns + (size_t)p * candidate->layout.data;
    s->early_ns = all + 4 * (size_t)p;
    s->hops = all + 5 * (size_t)p;
    s->seen = s->hops + candidate->layout.n_chunk;
    s->linked = s->seen + candidate->layout.data;
    s->period = s->node_bytes + x->problem->cluster->n_node;
    PST_TRY(pst_search_flight_of(x, c->schedule, p, candidate->layout.n_chunk / p,
                                 pst_search_most_micros(candidate), &s->flight));
    PST_TRY(pst_search_times_open(x->problem, candidate, &s->times));
    return pst_search_flush_of(x, c, candidate->layout.device, s->flush, &s->norm_latency_ns);
}

static void close_score(score *s) {
    pst_search_times_close(&s->times);
    free(s->end_ns);
    free(s->flush);
    free(s->other_nodes_ns);
}

/* On uniform devices in nodes of one size, replicas differ at most in their message times. */
static uint64_t hash_of(const pst_candidate *c, const score *s, uint32_t replica) {
    const double rest = rest_of(c, replica);
    uint64_t h =
        pst_hash64(s->times.ns, c->layout.n_chunk * sizeof *s->times.ns, whole_of(c, replica));
    if (rest > 0) h = pst_hash64(&rest, sizeof rest, h);
    for (uint32_t k = 0; k < c->layout.n_chunk; k++) {
        uint64_t hop = pst_search_hop_ns(&s->times, k);
        h = pst_hash64(&hop, sizeof hop, h);
    }
    return h;
}

/* When the passes of each rank end, from the longest path or a simulation: one_ns. */
static pst_status time_order(pst_search_context *x, const pst_search_config *c,
                             const pst_candidate *candidate, score *s, uint32_t replica,
                             double *bubble) {
    const pst_schedule *made;
    uint64_t actions = 0;
    PST_TRY(pst_search_schedule_of(x, c->schedule, candidate->layout.pipeline,
                                   candidate->layout.n_chunk / candidate->layout.pipeline,
                                   candidate->layout.micros[replica], &made));
    for (uint32_t r = 0; r < made->n_rank; r++) actions += made->n_action[r];
    if (s->how == PST_SCORE_SIMULATE && actions <= SIMULATED_ACTIONS) {
        x->n_simulated++;
        return simulate(made, &s->times, first_of(candidate, replica), s->one_ns, bubble);
    }
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++)
        s->hops[k] = s->no_hops ? 0 : pst_search_hop_ns(&s->times, k);
    const pst_search_path_times times = {s->times.ns, s->hops, s->most_ns,
                                         first_of(candidate, replica)};
    return pst_search_longest_path(x, made, &times, s->one_ns, &s->beyond);
}

static pst_status run(pst_search_context *x, const pst_search_config *c,
                      const pst_candidate *candidate, score *s, uint32_t replica, double *bubble) {
    uint32_t longest;
    *bubble = -1; /* only simulations know it */
    if (s->how == PST_SCORE_BOUND)
        pst_search_path_bound(x->row[c->schedule], s->flight, &s->times,
                              whole_of(candidate, replica), s->one_ns);
    else PST_TRY(time_order(x, c, candidate, s, replica, bubble));
    if (s->beyond) return PST_OK;
    if (*bubble >= 0) return PST_OK;
    const double rest = rest_of(candidate, replica);
    const uint64_t period = period_of(candidate, s->flight, &s->times, s->stage_ns, &longest);
    uint64_t busy = period * whole_of(candidate, replica) + (uint64_t)((double)period * rest),
             end = 0;
    for (uint32_t r = 0; r < candidate->layout.pipeline; r++)
        end = s->one_ns[r] > end ? s->one_ns[r] : end;
    *bubble = end > busy ? 1 - (double)busy / (double)end : 0;
    return PST_OK;
}

/* Whether the lower bound of the longest path already makes the step too long. */
static int is_beyond(const pst_search_context *x, const pst_search_config *c,
                     const pst_candidate *candidate, score *s, uint32_t replica) {
    if (!s->most_ns) return 0;
    pst_search_path_bound(x->row[c->schedule], s->flight, &s->times, whole_of(candidate, replica),
                          s->one_ns);
    for (uint32_t r = 0; r < candidate->layout.pipeline; r++)
        if (s->one_ns[r] >= s->most_ns[r]) return 1;
    return 0;
}

/* Equally fast devices make equally fast replicas. */
static pst_status set_micros(pst_search_context *x, const pst_search_config *c,
                             pst_candidate *candidate, score *s) {
    for (uint32_t k = 0; k < candidate->layout.data; k++) {
        uint32_t which;
        s->period[k] = 1;
        if (x->same_speed) continue;
        PST_TRY(pst_search_times_fill(x, c, candidate, s->flight, k, &s->times));
        s->period[k] = (double)period_of(candidate, s->flight, &s->times, s->stage_ns, &which);
    }
    pst_replicas_share_rest(s->period, candidate->layout.data, candidate->layout.n_micro,
                            part_of(&candidate->layout), candidate->layout.micros);
    return PST_OK;
}

/* --- links that messages share ---------------------------------------------------------------- */

/* Messages from a chunk's rank to the next chunk, and the gradients that come back. */
static void load_hop(const pst_search_context *x, const pst_search_config *c,
                     const pst_candidate *candidate, score *s, uint32_t replica, uint32_t chunk) {
    const pst_cluster *cluster = x->problem->cluster;
    const pst_grid grid = pst_layout_grid(&candidate->layout);
    const uint32_t stage[2] = {s->flight->stage[chunk], s->flight->stage[chunk + 1]};
    const uint32_t at[2] = {candidate->layout.device[pst_grid_rank(grid, stage[0], replica, 0)],
                            candidate->layout.device[pst_grid_rank(grid, stage[1], replica, 0)]};
    const uint32_t one = pst_grid_degree(grid, stage[0]), other = pst_grid_degree(grid, stage[1]);
    const int apart = cluster->device[at[0]].node != cluster->device[at[1]].node;
    const double bytes = (double)s->times.bytes[chunk] * whole_of(candidate, replica);
    pst_cluster_link link;
    if (!pst_search_link(cluster, at[0], at[1], &link)) return;
    for (int k = 0; k < 2; k++) {
        (apart ? s->other_nodes_ns : s->own_node_ns)[(size_t)stage[k] * c->data + replica] +=
            bytes * 1e9 / link.bytes_per_s;
        if (apart)
            s->node_bytes[cluster->device[at[k]].node] += bytes * (one < other ? one : other);
    }
}

static void load_replica(const pst_search_context *x, const pst_search_config *c,
                         const pst_candidate *candidate, score *s, uint32_t replica) {
    for (uint32_t k = 0; k + 1 < candidate->layout.n_chunk; k++)
        if (s->times.bytes[k]) load_hop(x, c, candidate, s, replica, k);
}

/* The longest path ignores that messages wait for each other. This function adds the waiting that
 * follows from the bandwidth of ranks and nodes. */
static void wait_for_links(const pst_search_context *x, const pst_search_config *c,
                           const pst_candidate *candidate, score *s) {
    const pst_cluster *cluster = x->problem->cluster;
    for (uint32_t r = 0; r < candidate->layout.pipeline; r++)
        for (uint32_t k = 0; k < candidate->layout.data; k++) {
            const size_t i = (size_t)r * c->data + k;
            const pst_cluster_node *node =
                &cluster->node[cluster
                                   ->device[candidate->layout.device[pst_grid_rank(
                                       pst_layout_grid(&candidate->layout), r, k, 0)]]
                                   .node];
            double ns = s->other_nodes_ns[i] > s->own_node_ns[i] ? s->other_nodes_ns[i]
                                                                 : s->own_node_ns[i],
                   bytes = s->node_bytes[node - cluster->node];
            if (bytes > 0 && node->node_bytes_per_s > 0 &&
                bytes * 1e9 / node->node_bytes_per_s > ns)
                ns = bytes * 1e9 / node->node_bytes_per_s;
            ns += (double)s->times.ns[0].f;
            if (ns > (double)s->end_ns[r] && ns < 1e18) s->end_ns[r] = (uint64_t)ns;
        }
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Replica sums overlap at most the last pass of a stage, if that is a W or the backward pass of
 * chunk 0 (pipeline/compile/early.h). */
static void send_early(score *s, uint32_t pipeline, int overlaps) {
    const pst_search_flight *f = s->flight;
    for (uint32_t r = 0; r < pipeline; r++) {
        uint64_t last = 0;
        for (uint32_t k = 0; k < f->n_chunk && s->split && overlaps; k++)
            if (f->stage[k] == r) last = larger(last, s->times.ns[k].w);
        if (!s->split && overlaps && f->stage[0] == r) last = s->times.ns[0].b + s->times.ns[0].w;
        const uint64_t from = s->one_ns[r] > last ? s->one_ns[r] - last : 0;
        s->early_ns[r] = larger(s->early_ns[r], from);
    }
}

/* Adds a hash to the first *n of the list; returns 1 if it is there already. */
static int was_seen(uint64_t *list, uint32_t *n, uint64_t hash) {
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == hash) return 1;
    list[(*n)++] = hash;
    return 0;
}

/* Sets the times of a replica. *again 1: an earlier replica takes the same time. */
static pst_status fill_times(pst_search_context *x, const pst_search_config *c,
                             const pst_candidate *candidate, score *s, uint32_t replica,
                             int *again) {
    const pst_search_replicas of = {s->flight->stage, s->times.beside};
    if (x->uniform && was_seen(s->linked, &s->n_linked,
                               pst_search_replica_hash(x->problem, candidate, &of, replica))) {
        *again = 1;
        return PST_OK;
    }
    PST_TRY(pst_search_times_fill(x, c, candidate, s->flight, replica, &s->times));
    *again = was_seen(s->seen, &s->n_seen, hash_of(candidate, s, replica));
    return PST_OK;
}

/* When the passes of each stage end: end_ns. */
static pst_status run_all(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, score *s, pst_search_how how, int no_hops) {
    uint64_t longest = 0;
    s->n_seen = s->n_linked = 0;
    s->how = how;
    s->no_hops = no_hops;
    if (!candidate->layout.micros[0]) PST_TRY(set_micros(x, c, candidate, s));
    memset(s->end_ns, 0, candidate->layout.pipeline * sizeof *s->end_ns);
    memset(s->early_ns, 0, candidate->layout.pipeline * sizeof *s->early_ns);
    memset(s->other_nodes_ns, 0,
           (2 * (size_t)candidate->layout.pipeline * candidate->layout.data +
            x->problem->cluster->n_node) *
               sizeof *s->other_nodes_ns);
    for (uint32_t k = 0; k < candidate->layout.data; k++) {
        double bubble = 0;
        int again = 0;
        PST_TRY(fill_times(x, c, candidate, s, k, &again));
        load_replica(x, c, candidate, s, k);
        if (again) continue;
        if (is_beyond(x, c, candidate, s, k)) s->beyond = 1;
        else PST_TRY(run(x, c, candidate, s, k, &bubble));
        if (s->beyond) return PST_OK;
        send_early(s, candidate->layout.pipeline, pst_search_overlaps_sums(x->problem, c));
        for (uint32_t r = 0; r < candidate->layout.pipeline; r++) {
            if (s->one_ns[r] > s->end_ns[r]) s->end_ns[r] = s->one_ns[r];
            if (s->one_ns[r] > longest) {
                longest = s->one_ns[r];
                candidate->bubble = bubble;
            }
        }
    }
    /* the times that remain are those of the last replica */
    PST_TRY(
        pst_search_times_fill(x, c, candidate, s->flight, candidate->layout.data - 1, &s->times));
    if (how == PST_SCORE_PATH && !no_hops && !x->free_links) wait_for_links(x, c, candidate, s);
    return PST_OK;
}

/* With zero 2, the gradient sums of one micro-batch overlap the passes of the next; those of the
 * last one are exposed. */
static uint64_t sums_of(const pst_search_config *c, const pst_candidate *candidate, const score *s,
                        uint32_t stage, uint64_t elements) {
    const pst_search_flush *f = &s->flush[stage];
    uint64_t one = c->data > 1 ? pst_account_flush_ns(f->sum_ns, f->sum_latency_ns, elements) : 0;
    const uint64_t sent = s->early_ns[stage] + one;
    if (c->zero < 2) return sent > s->end_ns[stage] ? sent - s->end_ns[stage] : 0;
    uint64_t all = one * pst_search_most_micros(candidate);
    return larger(one, all > s->end_ns[stage] ? all - s->end_ns[stage] : 0);
}

/* Time of a stage from its last pass until its part of the norm is known. */
static uint64_t sums_and_norm_of(const pst_search_config *c, const pst_candidate *candidate,
                                 const score *s, int sums, uint32_t stage) {
    const uint64_t e = s->elements[stage];
    return (sums ? sums_of(c, candidate, s, stage, e) : 0) +
           pst_account_flush_ns(s->flush[stage].norm_ns, 0, e);
}

static int returns_as_weights(const pst_search_config *c) { return c->zero && c->data > 1; }

/* What all ranks wait for before and after their passes. The all-gather of new weights overlaps the
 * first micro-batch on its way to the stage; the rest is exposed. The first stage also sends the
 * new weights of tied parameters. */
static uint64_t exposed_of(const pst_search_config *c, const pst_candidate *candidate,
                           const score *s, int sums, uint64_t *behind) {
    const uint32_t first = s->flight->stage[0];
    uint64_t exposed = 0, step = 0, arrival = 0;
    for (uint32_t k = 0; k < candidate->layout.pipeline; k++) {
        /* stage k has chunk k as its first, in every placement */
        const pst_search_flush *f = &s->flush[k];
        uint64_t gather = pst_account_flush_ns(f->gather_ns, f->gather_latency_ns, s->elements[k]);
        if ((k == s->tied_stage || k == first) && s->tied && returns_as_weights(c))
            gather +=
                s->tied_weight_ns + (k == first ? 0
                                                : pst_account_flush_ns(s->flush[first].gather_ns, 0,
                                                                       s->elements[first]));
        if (sums && gather > arrival) exposed = larger(exposed, gather - arrival);
        step = larger(step, pst_account_flush_ns(f->step_ns, 0, s->elements[k]));
        arrival += s->times.ns[k].f + pst_search_hop_ns(&s->times, k);
    }
    *behind = s->norm_latency_ns + step;
    return exposed + *behind;
}

/* The first stage sums tied parameters last: after its other sums it receives the other stage's
 * gradients. Without ZeRO the other stage then waits for the sum, to step its own copy. */
static uint64_t tied_end(const pst_search_config *c, const pst_candidate *candidate, const score *s,
                         int sums) {
    const uint32_t first = s->flight->stage[0];
    const pst_search_flush *f = &s->flush[first];
    const uint64_t others = s->elements[first] > s->tied ? s->elements[first] - s->tied : 0;
    const uint64_t ready = s->end_ns[first] + (sums ? sums_of(c, candidate, s, first, others) : 0);
    uint64_t tied_done = larger(s->end_ns[s->tied_stage], ready) + s->tied_gradient_ns;
    if (sums && c->data > 1)
        tied_done += pst_account_flush_ns(f->sum_ns, f->sum_latency_ns, s->tied);
    uint64_t end =
        larger(s->end_ns[first] + sums_and_norm_of(c, candidate, s, sums, first), tied_done);
    return end + (returns_as_weights(c) ? 0 : s->tied_gradient_ns);
}

static uint64_t step_of(const pst_search_config *c, const pst_candidate *candidate, const score *s,
                        int sums, uint64_t *flush_ns) {
    uint64_t sum_end = 0, end = 0, behind, around = exposed_of(c, candidate, s, sums, &behind);
    for (uint32_t r = 0; r < candidate->layout.pipeline; r++) {
        sum_end = larger(sum_end, s->end_ns[r] + sums_and_norm_of(c, candidate, s, sums, r));
        end = larger(end, s->end_ns[r]);
    }
    if (s->tied) sum_end = larger(sum_end, tied_end(c, candidate, s, sums));
    *flush_ns = sum_end - end + behind;
    return around + sum_end;
}

/* What remains of limit_ns for the passes of each rank. Times are those of the last replica. */
static pst_status find_most(pst_search_context *x, const pst_search_config *c,
                            const pst_candidate *candidate, score *s) {
    uint64_t behind;
    PST_TRY(
        pst_search_times_fill(x, c, candidate, s->flight, candidate->layout.data - 1, &s->times));
    const uint64_t around = exposed_of(c, candidate, s, 1, &behind);
    memset(s->end_ns, 0xff, candidate->layout.pipeline * sizeof *s->end_ns); /* so late that with
                                                                                zero 2 only the last
                                                                                sums are exposed */
    memset(s->early_ns, 0, candidate->layout.pipeline * sizeof *s->early_ns);
    s->most_ns = s->linked + candidate->layout.data;
    for (uint32_t r = 0; r < candidate->layout.pipeline; r++) {
        const uint64_t others = around + sums_and_norm_of(c, candidate, s, 1, r);
        s->most_ns[r] = x->limit_ns > others ? x->limit_ns - others : 0;
    }
    return PST_OK;
}

/* For the stage that computes longest, in the last replica (whose times are set). Exchanges and
 * recomputation are taken as fractions of its passes, because its device may be of another kind
 * than the first, or slower. */
static pst_status measure_busy(pst_search_context *x, const pst_search_config *c,
                               pst_candidate *candidate, const score *s) {
    const pst_search_table *t;
    uint32_t which, last = candidate->layout.data - 1;
    candidate->busy_ns = period_of(candidate, s->flight, &s->times, s->stage_ns, &which);
    candidate->busy_ns = (uint64_t)((double)candidate->busy_ns *
                                    (whole_of(candidate, last) + rest_of(candidate, last)));
    uint32_t device =
        candidate->layout
            .device[pst_grid_rank(pst_layout_grid(&candidate->layout), which, last, 0)];
    PST_TRY(pst_search_table_of(x, c, x->problem->cluster->device[device].kind, which, &t));
    double exchange = 0, again = 0, all = 0;
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++) {
        if (s->flight->stage[k] != which) continue;
        uint32_t from = candidate->layout.first_item[k], to = candidate->layout.first_item[k + 1];
        double more = (double)pst_search_run_way(t, PST_SEARCH_SUM_AGAIN,
                                                 candidate->layout.recompute[k], from, to);
        exchange += (double)pst_search_run(t, PST_SEARCH_SUM_EXCHANGE, from, to);
        again += more;
        all += more + (double)(pst_search_run(t, PST_SEARCH_SUM_F, from, to) +
                               pst_search_run(t, PST_SEARCH_SUM_B, from, to) +
                               pst_search_run(t, PST_SEARCH_SUM_W, from, to));
    }
    candidate->exchange_ns =
        all > 0 ? (uint64_t)((double)candidate->busy_ns * (exchange / all)) : 0;
    candidate->again_ns = all > 0 ? (uint64_t)((double)candidate->busy_ns * (again / all)) : 0;
    return PST_OK;
}

/* Kinds differ in time, not in elements. */
static pst_status add_elements(pst_search_context *x, const pst_search_config *c,
                               const pst_candidate *candidate, score *s) {
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++) {
        const pst_search_table *t;
        uint32_t stage = s->flight->stage[k];
        PST_TRY(pst_search_table_of(
            x, c, x->problem->cluster->device[candidate->layout.device[0]].kind, stage, &t));
        if (!t->table) return pst_search_infeasible(t);
        s->elements[stage] +=
            pst_search_run(t, PST_SEARCH_SUM_ELEMENTS, candidate->layout.first_item[k],
                           candidate->layout.first_item[k + 1]);
        uint64_t tied = pst_search_run(t, PST_SEARCH_SUM_TIED, candidate->layout.first_item[k],
                                       candidate->layout.first_item[k + 1]);
        if (stage != s->flight->stage[0] && tied) {
            s->tied += tied;
            s->tied_stage = stage;
        }
    }
    return PST_OK;
}

static pst_status time_tied(const pst_search_context *x, const pst_candidate *candidate, score *s) {
    const pst_search_problem *p = x->problem;
    pst_cluster_link link;
    if (!s->tied) return PST_OK;
    const uint32_t between[] = {s->tied_stage, s->flight->stage[0]};
    PST_TRY(pst_search_tied_link(p, candidate, s->times.beside, between, &link));
    s->tied_gradient_ns = link.latency_ns + pst_search_wire_ns(&link, s->tied * p->grad_bytes);
    s->tied_weight_ns = link.latency_ns + pst_search_wire_ns(&link, s->tied * p->weight_bytes);
    return PST_OK;
}

static pst_status predict(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, pst_search_how how, score *s) {
    uint64_t flush;
    PST_TRY(open_score(x, c, candidate, s));
    PST_TRY(add_elements(x, c, candidate, s));
    PST_TRY(time_tied(x, candidate, s));
    if (how == PST_SCORE_SIMULATE) {
        PST_TRY(run_all(x, c, candidate, s, PST_SCORE_PATH, 0));
        candidate->bound_ns = step_of(c, candidate, s, 1, &candidate->flush_ns);
        candidate->alone_ns = step_of(c, candidate, s, 0, &flush);
    }
    if (how == PST_SCORE_PATH && x->limit_ns != UINT64_MAX) PST_TRY(find_most(x, c, candidate, s));
    PST_TRY(run_all(x, c, candidate, s, how, 0));
    candidate->step_ns = UINT64_MAX;
    if (s->beyond) return PST_OK;
    candidate->step_ns = step_of(c, candidate, s, 1, &candidate->flush_ns);
    if (how != PST_SCORE_SIMULATE) {
        candidate->bound_ns = candidate->step_ns;
        candidate->alone_ns = step_of(c, candidate, s, 0, &flush);
    }
    candidate->reduce_ns = candidate->bound_ns - candidate->alone_ns;
    candidate->exact = 0;
    return measure_busy(x, c, candidate, s);
}

pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *candidate, pst_search_how how) {
    score s;
    pst_status status = predict(x, c, candidate, how, &s);
    close_score(&s);
    x->n_layout++;
    return status;
}

static pst_status attribute(pst_search_context *x, const pst_search_config *c,
                            pst_candidate *candidate, score *s) {
    uint64_t flush;
    PST_TRY(open_score(x, c, candidate, s));
    PST_TRY(add_elements(x, c, candidate, s));
    PST_TRY(time_tied(x, candidate, s));
    PST_TRY(run_all(x, c, candidate, s, PST_SCORE_PATH, 1));
    uint64_t without_messages = step_of(c, candidate, s, 0, &flush);
    candidate->message_ns =
        candidate->alone_ns > without_messages ? candidate->alone_ns - without_messages : 0;
    return PST_OK;
}

pst_status pst_search_attribute(pst_search_context *x, const pst_search_config *c,
                                pst_candidate *candidate) {
    score s;
    double bubble = candidate->bubble;
    pst_status status = attribute(x, c, candidate, &s);
    candidate->bubble = bubble; /* not the one without messages */
    close_score(&s);
    return status;
}
