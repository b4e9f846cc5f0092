/* The score of a layout: each replica that differs from the others is walked through or simulated, the flush comes behind
 * in closed form, and memory is counted from what the schedule holds in flight. */
#include "base/hash.h"
#include "partition/search_parts.h"
#include "pipeline/simulate.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_search_layout_open(const pst_search_problem *problem, const pst_search_config *c, uint32_t n_chunk,
                                  pst_search_layout **layout) {
    pst_search_layout *l = calloc(1, sizeof *l);
    if (!l) goto no_memory;
    l->pipeline = c->pipeline, l->tensor = c->tensor, l->data = c->data, l->micro_batch = c->micro_batch;
    l->zero = c->zero, l->sequence = c->sequence;
    l->n_item = problem->n_item, l->n_chunk = n_chunk, l->n_micro = c->n_micro, l->chunks = n_chunk / c->pipeline;
    snprintf(l->schedule, sizeof l->schedule, "%s", problem->schedule[c->schedule]);
    l->first_item = calloc(n_chunk + 1, sizeof *l->first_item);
    l->recompute = calloc(n_chunk, sizeof *l->recompute);
    l->micros = calloc(c->data, sizeof *l->micros);
    l->device = calloc((size_t)c->pipeline * c->data * c->tensor, sizeof *l->device);
    l->peak_bytes = calloc(c->pipeline, sizeof *l->peak_bytes),
    l->in_flight = calloc(c->pipeline, sizeof *l->in_flight);
    if (!l->first_item || !l->recompute || !l->micros || !l->device || !l->peak_bytes || !l->in_flight) goto no_memory;
    *layout = l;
    return PST_OK;
no_memory:
    pst_search_layout_close(l);
    return pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", n_chunk);
}

void pst_search_layout_close(pst_search_layout *l) {
    if (!l) return;
    free(l->first_item), free(l->recompute), free(l->micros), free(l->device), free(l->peak_bytes), free(l->in_flight);
    free(l);
}

pst_status pst_search_layout_copy(const pst_search_layout *from, pst_search_layout **layout) {
    const pst_search_problem like = {.n_item = from->n_item, .n_schedule = 1, .schedule = {from->schedule}};
    const pst_search_config c = {.pipeline = from->pipeline, .tensor = from->tensor, .data = from->data};
    pst_search_layout *l;
    PST_TRY(pst_search_layout_open(&like, &c, from->n_chunk, &l));
    pst_search_layout own = *l;
    *l = *from;
    l->first_item = own.first_item, l->recompute = own.recompute, l->micros = own.micros, l->device = own.device;
    l->peak_bytes = own.peak_bytes, l->in_flight = own.in_flight;
    memcpy(l->first_item, from->first_item, (from->n_chunk + 1) * sizeof *l->first_item);
    memcpy(l->recompute, from->recompute, from->n_chunk);
    memcpy(l->micros, from->micros, from->data * sizeof *l->micros);
    memcpy(l->device, from->device, (size_t)from->pipeline * from->data * from->tensor * sizeof *l->device);
    memcpy(l->peak_bytes, from->peak_bytes, from->pipeline * sizeof *l->peak_bytes);
    memcpy(l->in_flight, from->in_flight, from->pipeline * sizeof *l->in_flight);
    *layout = l;
    return PST_OK;
}

/* --- micro-batches ----------------------------------------------------------------------------------------------- */

/* Of the stage that takes longest for a micro-batch; which: that stage. */
static uint64_t period_of(const pst_search_layout *l, const pst_search_flight *flight, const pst_search_times *t,
                          uint64_t *stage_ns, uint32_t *which) {
    memset(stage_ns, 0, l->pipeline * sizeof *stage_ns);
    for (uint32_t k = 0; k < l->n_chunk; k++) stage_ns[flight->stage[k]] += t->ns[k].f + t->ns[k].b + t->ns[k].w;
    *which = 0;
    for (uint32_t s = 1; s < l->pipeline; s++)
        if (stage_ns[s] > stage_ns[*which]) *which = s;
    return stage_ns[*which];
}

/* One to each; each further one to whoever would be done with it first, the first of equals. */
static void share(pst_search_layout *l, const uint64_t *period) {
    int equal = 1;
    for (uint32_t k = 1; k < l->data; k++) equal &= period[k] == period[0];
    for (uint32_t k = 0; k < l->data; k++) l->micros[k] = equal ? l->n_micro / l->data + (k < l->n_micro % l->data) : 1;
    for (uint32_t left = equal ? 0 : l->n_micro - l->data; left; left--) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < l->data; k++)
            if ((l->micros[k] + 1.) * (double)period[k] < (l->micros[best] + 1.) * (double)period[best]) best = k;
        l->micros[best]++;
    }
}

uint32_t pst_search_most_micros(const pst_search_layout *l) {
    uint32_t most = (l->n_micro + l->data - 1) / l->data; /* before they are shared out */
    for (uint32_t k = 0; k < l->data && l->micros[0]; k++)
        if (!k || l->micros[k] > most) most = l->micros[k];
    return most;
}

/* --- one replica ------------------------------------------------------------------------------------------------- */

/* Value v and v + n_chunk - 1 of a synthetic cut cross between chunks v and v + 1, there and back. */
static void set_messages(pst_job *job, const pst_cut *cut, const pst_search_times *t) {
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            pst_instr *in = &job->list[r].instr[i];
            if ((in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) || in->peer == r) continue;
            uint32_t low = cut->chunk[in->chunk].local[in->local].value % (job->n_chunk - 1);
            in->bytes = t->bytes[low];
            in->wire_ns = pst_search_wire_ns(&t->there[low], t->bytes[low]);
            in->ns = in->wire_ns + t->there[low].latency_ns;
        }
}

static pst_status simulate(const pst_schedule *s, const pst_search_times *t, uint64_t *end_ns, double *bubble) {
    const pst_instr_cost cost = {.flush = 0};
    pst_cut *cut = NULL;
    pst_job *job = NULL;
    pst_slots *slots = NULL;
    pst_timing *timing = NULL;
    PST_TRY(pst_cut_synthetic(s->n_chunk, s->split, 1, 0, 0, 0, 64, &cut));
    pst_cut_set_times(cut, t->ns);
    pst_status status = pst_job_build(s, cut, &cost, &job, &slots);
    if (status == PST_OK) set_messages(job, cut, t);
    if (status == PST_OK) status = pst_simulate(job, &timing);
    for (uint32_t r = 0; status == PST_OK && r < s->n_rank; r++) {
        end_ns[r] = 0;
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            if (job->list[r].instr[i].opcode <= PST_OP_BW && timing->span[r][i].end > end_ns[r])
                end_ns[r] = timing->span[r][i].end;
    }
    if (status == PST_OK) *bubble = timing->bubble;
    pst_timing_close(timing), pst_slots_close(slots), pst_job_close(job), pst_cut_close(cut);
    return status;
}

/* --- all replicas ------------------------------------------------------------------------------------------------ */

enum { SIMULATED_ACTIONS = 400000 }; /* more are walked through: their instructions would take hundreds of MB */

typedef struct {
    const pst_search_flight *flight;
    pst_search_times times;
    pst_search_flush *flush;   /* [pipeline] */
    uint64_t *end_ns, *one_ns; /* [pipeline] of all replicas; of one */
    uint64_t *stage_ns, *hops; /* [pipeline]; [n_chunk] */
    uint64_t *seen, *period;   /* [data] hashes of replicas; longest stage */
    uint64_t answer_ns;
} score;

static pst_status open_score(pst_search_context *x, const pst_search_config *c, const pst_search_layout *l, score *s) {
    uint32_t p = l->pipeline;
    uint64_t *all = calloc(3 * (size_t)p + l->n_chunk + 2 * (size_t)l->data, sizeof *all);
    *s = (score){.end_ns = all, .flush = calloc(p, sizeof *s->flush)};
    if (!all || !s->flush) return pst_fail(PST_ENOMEM, "no memory to score a layout");
    s->one_ns = all + p, s->stage_ns = all + 2 * (size_t)p, s->hops = all + 3 * (size_t)p;
    s->seen = s->hops + l->n_chunk, s->period = s->seen + l->data;
    PST_TRY(pst_search_flight_of(x, c->schedule, p, l->n_chunk / p, pst_search_most_micros(l), &s->flight));
    PST_TRY(pst_search_times_open(l->n_chunk, &s->times));
    return pst_search_flush_of(x, c, l->device, s->flush, &s->answer_ns);
}

static void close_score(score *s) {
    pst_search_times_close(&s->times);
    free(s->end_ns), free(s->flush);
}

/* Where all devices are alike and in nodes of one size, replicas differ at most in what messages take. */
static uint64_t hash_of(const pst_search_layout *l, const score *s, uint32_t replica) {
    uint64_t h = pst_hash64(s->times.ns, l->n_chunk * sizeof *s->times.ns, l->micros[replica]);
    for (uint32_t k = 0; k < l->n_chunk; k++) {
        uint64_t hop = pst_search_hop_ns(&s->times, k);
        h = pst_hash64(&hop, sizeof hop, h);
    }
    return h;
}

static pst_status run(pst_search_context *x, const pst_search_config *c, const pst_search_layout *l, score *s,
                      uint32_t replica, pst_search_how how, int no_hops, double *bubble) {
    const pst_schedule *made;
    uint64_t actions = 0;
    PST_TRY(pst_search_schedule_of(x, c->schedule, l->pipeline, l->n_chunk / l->pipeline, l->micros[replica], &made));
    for (uint32_t r = 0; r < made->n_rank; r++) actions += made->n_action[r];
    if (how == PST_SCORE_SIMULATE && actions <= SIMULATED_ACTIONS) {
        x->n_simulated++;
        return simulate(made, &s->times, s->one_ns, bubble);
    }
    for (uint32_t k = 0; k < l->n_chunk; k++) s->hops[k] = no_hops ? 0 : pst_search_hop_ns(&s->times, k);
    PST_TRY(pst_search_walk(x, made, s->times.ns, s->hops, s->one_ns));
    uint32_t longest;
    uint64_t busy = period_of(l, s->flight, &s->times, s->stage_ns, &longest) * l->micros[replica], end = 0;
    for (uint32_t r = 0; r < l->pipeline; r++) end = s->one_ns[r] > end ? s->one_ns[r] : end;
    *bubble = end > busy ? 1 - (double)busy / (double)end : 0;
    return PST_OK;
}

/* Ends of passes: end_ns. */
static pst_status run_all(pst_search_context *x, const pst_search_config *c, pst_search_layout *l, score *s,
                          pst_search_how how, int no_hops) {
    uint32_t which, n_seen = 0;
    uint64_t longest = 0;
    for (uint32_t k = 0; k < l->data && !l->micros[0]; k++) {
        PST_TRY(pst_search_times_fill(x, c, l, s->flight, k, &s->times));
        s->period[k] = period_of(l, s->flight, &s->times, s->stage_ns, &which);
        if (k + 1 == l->data) share(l, s->period);
    }
    memset(s->end_ns, 0, l->pipeline * sizeof *s->end_ns);
    for (uint32_t k = 0; k < l->data; k++) {
        double bubble = 0;
        PST_TRY(pst_search_times_fill(x, c, l, s->flight, k, &s->times));
        uint32_t i = 0;
        uint64_t h = hash_of(l, s, k);
        while (i < n_seen && s->seen[i] != h) i++;
        if (i < n_seen) continue;
        s->seen[n_seen++] = h;
        PST_TRY(run(x, c, l, s, k, how, no_hops, &bubble));
        for (uint32_t r = 0; r < l->pipeline; r++) {
            if (s->one_ns[r] > s->end_ns[r]) s->end_ns[r] = s->one_ns[r];
            if (s->one_ns[r] > longest) longest = s->one_ns[r], l->bubble = bubble;
        }
    }
    return PST_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* With zero 2 the sums of a micro-batch go while the next is computed; of the last one they show. */
static uint64_t sums_of(const pst_search_config *c, const pst_search_layout *l, const score *s, uint32_t stage,
                        uint64_t elements) {
    const pst_search_flush *f = &s->flush[stage];
    uint64_t one = c->data > 1 ? pst_search_flush_ns(f->sum_ns, f->sum_latency_ns, elements) : 0;
    if (c->zero < 2) return one;
    uint64_t all = one * pst_search_most_micros(l);
    return larger(one, all > s->end_ns[stage] ? all - s->end_ns[stage] : 0);
}

/* New weights come while the first micro-batch is on its way: what is not there by then shows. */
static uint64_t step_of(const pst_search_config *c, const pst_search_layout *l, const score *s,
                        const pst_search_table *t, int sums, uint64_t *flush_ns) {
    uint64_t head = 0, sum_end = 0, step = 0, end = 0, arrival = 0;
    for (uint32_t k = 0; k < l->n_chunk; k++) {
        uint32_t stage = s->flight->stage[k];
        uint64_t e = 0;
        if (k < l->pipeline) { /* the first chunk of its stage, of every placement */
            for (uint32_t i = k; i < l->n_chunk; i++)
                if (s->flight->stage[i] == stage)
                    e += pst_search_run(t, PST_SUM_ELEMENTS, l->first_item[i], l->first_item[i + 1]);
            const pst_search_flush *f = &s->flush[stage];
            uint64_t news = pst_search_flush_ns(f->head_ns, f->head_latency_ns, e);
            if (sums && news > arrival) head = larger(head, news - arrival);
            uint64_t sum = sums ? sums_of(c, l, s, stage, e) : 0;
            sum_end = larger(sum_end, s->end_ns[stage] + sum + pst_search_flush_ns(f->norm_ns, 0, e));
            step = larger(step, pst_search_flush_ns(f->step_ns, 0, e));
            end = larger(end, s->end_ns[stage]);
        }
        arrival += s->times.ns[k].f + pst_search_hop_ns(&s->times, k);
    }
    *flush_ns = sum_end - end + s->answer_ns + step;
    return head + sum_end + s->answer_ns + step;
}

/* Of the stage that computes longest, in the last replica, which times are of. Its exchanges and what it computes again
 * are told as parts of its passes, for it may be of another kind than the first, or slower. */
static pst_status measure_busy(pst_search_context *x, const pst_search_config *c, pst_search_layout *l,
                               const score *s) {
    const pst_search_table *t;
    uint32_t which, last = l->data - 1;
    l->busy_ns = period_of(l, s->flight, &s->times, s->stage_ns, &which) * l->micros[last];
    const uint32_t *device = l->device + ((size_t)which * l->data + last) * l->tensor;
    PST_TRY(pst_search_table_of(x, x->problem->cluster->device[*device].kind, c->tensor, c->sequence, c->micro_batch,
                                &t));
    double exchange = 0, again = 0, all = 0;
    for (uint32_t k = 0; k < l->n_chunk; k++) {
        if (s->flight->stage[k] != which) continue;
        uint32_t from = l->first_item[k], to = l->first_item[k + 1];
        double more = (double)pst_search_run(t, PST_SUM_AGAIN + l->recompute[k], from, to);
        exchange += (double)pst_search_run(t, PST_SUM_EXCHANGE, from, to), again += more;
        all += more + (double)(pst_search_run(t, PST_SUM_F, from, to) + pst_search_run(t, PST_SUM_B, from, to) +
                               pst_search_run(t, PST_SUM_W, from, to));
    }
    l->exchange_ns = all > 0 ? (uint64_t)((double)l->busy_ns * (exchange / all)) : 0;
    l->again_ns = all > 0 ? (uint64_t)((double)l->busy_ns * (again / all)) : 0;
    return PST_OK;
}

static pst_status first_table(pst_search_context *x, const pst_search_config *c, const pst_search_layout *l,
                              const pst_search_table **t) {
    PST_TRY(pst_search_table_of(x, x->problem->cluster->device[l->device[0]].kind, c->tensor, c->sequence,
                                c->micro_batch, t));
    if ((*t)->table) return PST_OK;
    return pst_fail(PST_EINPUT, "tensor %u, micro_batch %u cannot be had on these devices", c->tensor, c->micro_batch);
}

/* 1: the work of the longest stage, and its flush, are beyond the limit already. */
static int is_beyond(const pst_search_context *x, const pst_search_config *c, const pst_search_layout *l,
                     const score *s, const pst_search_table *t) {
    uint64_t elements = 0;
    uint32_t which;
    uint64_t work = period_of(l, s->flight, &s->times, s->stage_ns, &which) * (l->n_micro / l->data);
    for (uint32_t k = 0; k < l->n_chunk; k++)
        if (s->flight->stage[k] == which)
            elements += pst_search_run(t, PST_SUM_ELEMENTS, l->first_item[k], l->first_item[k + 1]);
    const pst_search_flush *f = &s->flush[which];
    uint64_t sum = c->data > 1 ? pst_search_flush_ns(f->sum_ns, f->sum_latency_ns, elements) : 0;
    return work + sum + pst_search_flush_ns(f->norm_ns, 0, elements) + s->answer_ns >= x->limit_ns;
}

static pst_status predict(pst_search_context *x, const pst_search_config *c, pst_search_layout *l, pst_search_how how,
                          score *s) {
    const pst_search_table *t;
    PST_TRY(open_score(x, c, l, s));
    PST_TRY(first_table(x, c, l, &t));
    if (how == PST_SCORE_SIMULATE) {
        PST_TRY(run_all(x, c, l, s, PST_SCORE_WALK, 0));
        l->bound_ns = step_of(c, l, s, t, 1, &l->flush_ns);
    }
    if (how == PST_SCORE_WALK && x->limit_ns != UINT64_MAX && x->even) {
        PST_TRY(pst_search_times_fill(x, c, l, s->flight, 0, &s->times));
        l->step_ns = UINT64_MAX;
        if (is_beyond(x, c, l, s, t)) return PST_OK;
    }
    PST_TRY(run_all(x, c, l, s, how, 0));
    l->step_ns = step_of(c, l, s, t, 1, &l->flush_ns);
    if (how == PST_SCORE_WALK) l->bound_ns = l->step_ns;
    l->exact = 0;
    return measure_busy(x, c, l, s);
}

pst_status pst_search_predict(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout,
                              pst_search_how how) {
    score s;
    pst_status status = predict(x, c, layout, how, &s);
    close_score(&s);
    x->n_layout++;
    return status;
}

static pst_status account(pst_search_context *x, const pst_search_config *c, pst_search_layout *l, score *s) {
    const pst_search_table *t;
    uint64_t flush;
    PST_TRY(open_score(x, c, l, s));
    PST_TRY(first_table(x, c, l, &t));
    PST_TRY(run_all(x, c, l, s, PST_SCORE_WALK, 0));
    uint64_t all = step_of(c, l, s, t, 1, &flush), alone = step_of(c, l, s, t, 0, &flush);
    l->reduce_ns = all - alone;
    PST_TRY(run_all(x, c, l, s, PST_SCORE_WALK, 1));
    uint64_t silent = step_of(c, l, s, t, 0, &flush);
    l->message_ns = alone > silent ? alone - silent : 0;
    return PST_OK;
}

pst_status pst_search_account(pst_search_context *x, const pst_search_config *c, pst_search_layout *layout) {
    score s;
    double bubble = layout->bubble;
    pst_status status = account(x, c, layout, &s);
    layout->bubble = bubble; /* not that of walks without messages */
    close_score(&s);
    return status;
}

/* --- a layout of the caller's ------------------------------------------------------------------------------------ */

pst_status pst_search_score(const pst_search_problem *problem, pst_search_layout *l) {
    pst_search_context x;
    pst_search_problem own = *problem;
    const pst_search_config c = {.pipeline = l->pipeline,
                                 .tensor = l->tensor,
                                 .data = l->data,
                                 .micro_batch = l->micro_batch,
                                 .chunks = l->n_chunk / l->pipeline,
                                 .zero = l->zero,
                                 .sequence = l->sequence,
                                 .n_micro = l->n_micro};
    uint64_t excess;
    uint32_t stage;
    own.n_schedule = 1, own.schedule[0] = l->schedule, own.time_limit_s = 0;
    pst_status status = pst_search_context_open(&own, &x);
    if (status == PST_OK) status = pst_search_predict(&x, &c, l, PST_SCORE_SIMULATE);
    if (status == PST_OK) status = pst_search_measure(&x, &c, l, &excess, &stage);
    if (status == PST_OK) status = pst_search_account(&x, &c, l);
    pst_search_context_close(&x);
    return status;
}
