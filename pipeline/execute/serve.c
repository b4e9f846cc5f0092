/* See serve.h. */
#include "pipeline/execute/serve.h"
#include "pipeline/execute/executor_state.h"
#include "pipeline/execute/executor_step.h"
#include <stdlib.h>
#include <string.h>

/* --- life ------------------------------------------------------------------------------------- */

pst_status pst_serving_open(uint32_t workers, uint64_t ahead, pst_serving **out) {
    pst_serving *s = calloc(1, sizeof *s);
    if (s) {
        *s = (pst_serving){.workers = workers,
                           .ahead = ahead,
                           .taking = PST_NONE,
                           .taken = calloc(workers, sizeof *s->taken),
                           .replied = calloc(workers, sizeof *s->replied),
                           .request = calloc(workers, sizeof *s->request),
                           .posted = calloc(workers, 1),
                           .there = calloc(workers, 1),
                           .replies = calloc(workers, 1)};
        if (s->taken && s->replied && s->request && s->posted && s->there && s->replies) {
            *out = s;
            return PST_OK;
        }
    }
    pst_serving_close(s);
    return pst_fail(PST_ENOMEM, "no memory to serve %u workers", workers);
}

void pst_serving_close(pst_serving *s) {
    if (!s) return;
    free(s->taken);
    free(s->replied);
    free(s->request);
    free(s->posted);
    free(s->there);
    free(s->replies);
    free(s->order);
    free(s);
}

pst_status pst_serving_begin(pst_serving *s, uint64_t steps, const uint16_t *order) {
    const size_t n = (size_t)(s->workers * steps);
    uint16_t *room = realloc(s->order, (n + 1) * sizeof *room);
    if (!room) return pst_fail(PST_ENOMEM, "no memory for the order of %zu updates", n);
    s->order = room;
    s->forced = order != NULL;
    if (order) memcpy(room, order, n * sizeof *room);
    s->steps = steps;
    s->n_order = 0;
    memset(s->taken, 0, s->workers * sizeof *s->taken);
    memset(s->replied, 0, s->workers * sizeof *s->replied);
    return PST_OK;
}

int pst_serving_allows(uint64_t ahead, const uint64_t *all, uint32_t workers, uint64_t taken) {
    for (uint32_t k = 0; k < workers; k++)
        if (taken > all[k] && taken - all[k] > ahead) return 0;
    return 1;
}

/* --- norms ------------------------------------------------------------------------------------ */

/* The RECV of a worker's norm: the first instruction of its part. */
static uint32_t norm_of(const pst_executor *x, uint32_t worker) {
    uint32_t i = x->list->n_instr - x->list->n_flush;
    while (pst_job_worker_of(x->job, &x->list->instr[i]) != worker ||
           x->list->instr[i].param != PST_NONE || x->list->instr[i].opcode != PST_OP_RECV)
        i++;
    return i;
}

/* A worker that has the weights of a step will announce its gradients. */
static pst_status post_norms(pst_executor *x, uint32_t *moved) {
    pst_serving *s = x->serving;
    for (uint32_t k = 0; k < s->workers; k++) {
        if (s->posted[k] || s->replied[k] == s->taken[k]) continue;
        PST_TRY(pst_executor_post(x, norm_of(x, k), &s->request[k]));
        s->posted[k] = 1;
        ++*moved;
    }
    return PST_OK;
}

static pst_status test_norms(pst_executor *x, uint32_t *moved) {
    pst_serving *s = x->serving;
    pst_transport *t = x->config.transport;
    pst_position_poll(x->at);
    if (!x->is_timed) t->ops->progress(t);
    for (uint32_t k = 0; k < s->workers; k++) {
        uint64_t end = 0;
        if (!s->posted[k] || s->there[k]) continue;
        pst_status status = t->ops->test(t, s->request[k], &end);
        if (status == PST_BUSY) continue;
        if (status == PST_EINPUT) x->mismatch = norm_of(x, k);
        PST_TRY(status);
        s->there[k] = 1;
        end = end > x->origin ? end - x->origin : 0;
        x->span[norm_of(x, k)] = (pst_span){end, end};
        ++*moved;
    }
    return PST_OK;
}

uint32_t pst_serving_awaits(const pst_executor *x) {
    const pst_serving *s = x->serving;
    for (uint32_t k = 0; k < s->workers; k++) {
        const int next = !s->leads || !s->forced || s->order[s->n_order] == k;
        if (s->posted[k] && !s->there[k] && next) return norm_of(x, k);
    }
    return PST_NONE;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* The number of an update, behind the norm; NULL: there is no memory, on the timed device. */
static double *number_of(const pst_executor *x, uint32_t worker) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    double *norm =
        hooks->memory ? hooks->memory(hooks->arg, &x->list->instr[norm_of(x, worker)]) : NULL;
    return norm ? norm + PST_NORM_DOUBLES : NULL;
}

/* Whether the norm that has arrived is of the next update. The first server decides that. */
static int is_next(const pst_executor *x, uint32_t worker) {
    const pst_serving *s = x->serving;
    if (s->leads) return !s->forced || s->order[s->n_order] == worker;
    const double *number = number_of(x, worker);
    return !number || *number == (double)s->n_order;
}

/* Of those that have arrived, the one with the fewest steps; PST_NONE: none may be taken. */
static uint32_t choose(const pst_executor *x) {
    const pst_serving *s = x->serving;
    uint32_t best = PST_NONE;
    for (uint32_t k = 0; k < s->workers && s->left; k++)
        if (s->there[k] && is_next(x, k) && (best == PST_NONE || s->taken[k] < s->taken[best]))
            best = k;
    return best;
}

/* Who gets weights now; returns whether anybody does. */
static int choose_replies(pst_serving *s) {
    int any = 0;
    for (uint32_t k = 0; k < s->workers; k++) {
        s->replies[k] = s->replied[k] == s->taken[k] && s->taken[k] < s->steps &&
                        pst_serving_allows(s->ahead, s->taken, s->workers, s->taken[k]);
        any |= s->replies[k];
    }
    return any;
}

/* Everything else counts as done. The norm has been received. */
static void select_part(pst_executor *x) {
    const pst_serving *s = x->serving;
    const uint32_t norm = s->taking == PST_NONE ? PST_NONE : norm_of(x, s->taking);
    for (uint32_t i = 0; i < x->list->n_instr; i++) {
        const uint32_t k = pst_job_worker_of(x->job, &x->list->instr[i]);
        const int mine =
            pst_instr_is_head(x->list, i) ? s->replies[k] : k == s->taking && i != norm;
        x->done[i] = !mine;
        x->n_left += (uint32_t)mine;
    }
    for (pst_queue q = 0; q < PST_Q_COUNT; q++) pst_executor_seek(x, q, 0);
}

static void begin_part(pst_executor *x, uint32_t take) {
    pst_serving *s = x->serving;
    for (uint32_t k = 0; k < s->workers; k++) s->replied[k] += s->replies[k];
    s->taking = take;
    if (take != PST_NONE) {
        double *number = s->leads ? number_of(x, take) : NULL;
        if (number) *number = (double)s->n_order;
        s->order[s->n_order++] = (uint16_t)take;
        s->posted[take] = s->there[take] = 0;
        s->left--;
    }
    select_part(x);
    pst_executor_publish(x, PST_AT_WAIT);
}

pst_status pst_executor_serve(pst_executor *x, uint32_t *moved) {
    pst_serving *s = x->serving;
    if (s->taking != PST_NONE) s->taken[s->taking]++;
    s->taking = PST_NONE;
    PST_TRY(post_norms(x, moved));
    PST_TRY(test_norms(x, moved));
    const int replies = choose_replies(s);
    const uint32_t take = choose(x);
    if (!replies && take == PST_NONE) {
        if (s->left) return PST_BUSY;
        x->serving = NULL;
        pst_executor_publish(x, PST_AT_HOST);
        return PST_OK;
    }
    begin_part(x, take);
    ++*moved;
    return PST_BUSY;
}
