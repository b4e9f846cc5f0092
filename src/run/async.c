/* See async.h. */
#include "run/async.h"
#include "base/log.h"
#include "run/order.h"
#include "run/step.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct pst_async pst_async;
struct pst_async {
    pst_order given; /* with --replay */
    int replays;
    FILE *file;          /* order.txt, on rank 0; else NULL */
    uint64_t from, to;   /* the current period */
    uint16_t *own, *all; /* [local ranks][workers x steps], [ranks][workers x steps] */
    /* [PST_REPORTS] of the steps of the last period */
    pst_async_age age[PST_REPORTS];
    uint64_t aged_from; /* its first step */
};

/* --- steps after which all meet --------------------------------------------------------------- */

static int due(int64_t every, uint64_t step) { return every > 0 && step % (uint64_t)every == 0; }

/* Whether the timeline of this step, or of the one after it, is drawn. */
static int is_drawn(const pst_config *c, uint64_t step) {
    const uint64_t steps = (uint64_t)c->train.steps, asked = (uint64_t)c->log.trace;
    const uint64_t drawn = asked && asked < steps ? asked : steps - (steps > 1 && !asked);
    return step == drawn || step + 1 == drawn;
}

/* The key for which everybody must have the same weights after a step, or for which its timeline is
 * drawn; NULL: none. */
static const char *common_key(const pst_config *c, uint64_t step) {
    if (due(c->eval.every, step)) return "eval.every";
    if (due(c->checkpoint.every, step)) return "checkpoint.every";
    if (due(c->checkpoint.keep_every, step)) return "checkpoint.keep_every";
    return is_drawn(c, step) ? "log.trace" : NULL;
}

/* Workers do not meet inside a period of an order that is repeated. */
static pst_status check_common(const pst_config *c, const pst_order *o, uint64_t from) {
    const uint64_t steps = (uint64_t)c->train.steps;
    for (uint32_t i = 0; i < o->n; i++) {
        const pst_order_period *period = &o->period[i];
        if (period->from < from || period->to > steps) continue;
        for (uint64_t step = period->from + 1; step < period->to; step++) {
            const char *key = common_key(c, step);
            if (!key) continue;
            return pst_fail(PST_EINPUT,
                            "--replay: for %s all workers must meet after step %" PRIu64
                            ", but in the order they take steps %" PRIu64 " to %" PRIu64
                            " without meeting; use the %s of the run that wrote it%s",
                            key, step, period->from + 1, period->to, key,
                            strcmp(key, "log.trace") ? ", or 0" : ", or 1");
        }
    }
    return PST_OK;
}

static pst_status read_order(const char *path, const pst_prepared *p, uint64_t from,
                             pst_order *order) {
    PST_TRY(pst_order_read(path, p, from, order));
    return check_common(p->config, order, from);
}

/* --- life ------------------------------------------------------------------------------------- */

static pst_status open_file(pst_trainer *t) {
    char path[PST_TRAINER_FOLDER + 16];
    if (!t->group->leader) return PST_OK;
    snprintf(path, sizeof path, "%s/order.txt", t->folder);
    return pst_order_append(path, t->p, t->step, &t->async->file);
}

/* In one process all ranks take each step together. */
static pst_status check_periods(const pst_trainer *t) {
    const pst_order *o = &t->async->given;
    for (uint32_t i = 0; i < o->n && t->group->hub; i++)
        if (o->period[i].to > o->period[i].from + 1)
            return pst_fail(PST_EINPUT,
                            "--replay: workers of that run did not take each step together, which "
                            "ranks in one process do; use another parallel.transport than self");
    return PST_OK;
}

/* Whether the order ends before the run's last step: the run that wrote it was ended early, or had
 * fewer steps. */
static int is_short(const pst_trainer *t) {
    return t->async->replays && pst_order_end(&t->async->given) < (uint64_t)t->config->train.steps;
}

static void announce_end(const pst_trainer *t) {
    if (is_short(t) && t->group->leader)
        pst_log(PST_LOG_INFO,
                "the order ends after step %" PRIu64
                " of %lld: this run ends there, with the weights of the run that wrote it if that "
                "had the same train.steps",
                pst_order_end(&t->async->given), (long long)t->config->train.steps);
}

static pst_status open_order(pst_trainer *t) {
    pst_async *a = t->async;
    const char *replay = t->options->replay;
    const size_t most = (size_t)t->p->grid.data * PST_REPORTS;
    a->own = calloc(t->group->n_local * most, sizeof *a->own);
    a->all = calloc(t->p->options.n_rank * most, sizeof *a->all);
    if (!a->own || !a->all) return pst_no_memory("for the order of updates");
    if (replay && *replay) {
        a->replays = 1;
        PST_TRY(read_order(replay, t->p, t->step, &a->given));
        PST_TRY(check_periods(t));
        announce_end(t);
    }
    return open_file(t);
}

pst_status pst_async_check(const pst_prepared *p, const pst_train_options *o) {
    pst_order order = {.n = 0};
    if (!o->replay || !*o->replay) return PST_OK;
    if (!p->job->async)
        return pst_fail(PST_EINPUT, "--replay repeats the order of asynchronous updates; use "
                                    "parallel.update=async or bounded, or omit --replay");
    const int resumes = o->resume && *o->resume; /* its step is not known yet */
    pst_status status =
        read_order(o->replay, p, resumes ? (uint64_t)p->config->train.steps : 0, &order);
    pst_order_close(&order);
    return status;
}

pst_status pst_async_open(pst_trainer *t) {
    if (!t->p->job->async) return PST_OK;
    t->async = calloc(1, sizeof *t->async);
    pst_status status = t->async ? PST_OK : pst_no_memory("for the order of updates");
    if (status == PST_OK) {
        t->async->from = t->async->to = t->step;
        status = open_order(t);
    }
    return pst_group_agree(t->group, status);
}

void pst_async_close(pst_async *a) {
    if (!a) return;
    pst_order_close(&a->given);
    if (a->file) fclose(a->file);
    free(a->own);
    free(a->all);
    free(a);
}

/* --- periods ---------------------------------------------------------------------------------- */

/* The end of the period that begins with t->step. With all ranks in one process, these take each
 * step together. */
static uint64_t end_of_period(const pst_trainer *t) {
    const uint64_t most = t->group->hub || !t->gather_every ? 1 : t->gather_every;
    const uint64_t steps = (uint64_t)t->config->train.steps;
    uint64_t end = t->step + 1;
    while (end < steps && end < t->step + most && !common_key(t->config, end)) end++;
    return end;
}

pst_status pst_async_begin(pst_trainer *t) {
    pst_async *a = t->async;
    const pst_order_period *given = NULL;
    if (!a || t->step < a->to) return PST_OK;
    a->from = t->step;
    a->to = end_of_period(t);
    if (a->replays) {
        given = pst_order_at(&a->given, t->step);
        a->to = given->to;
    }
    const uint64_t n = a->to - a->from;
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        pst_rank *r = t->group->local[i];
        if (!r->serving) continue;
        r->updates = a->from * t->p->grid.data;
        PST_TRY(pst_serving_begin(r->serving, n, given ? given->order : NULL));
    }
    return PST_OK;
}

uint64_t pst_async_from(const pst_trainer *t) { return t->async->from; }

int pst_async_order_ends(const pst_trainer *t) {
    return t->async && is_short(t) && t->step == pst_order_end(&t->async->given);
}

int pst_async_ends(const pst_trainer *t) { return t->step >= t->async->to; }

/* --- the end of a period ---------------------------------------------------------------------- */

/* How many updates came between the weights that a worker has received for a step, and the update
 * with its gradients. Weights follow as soon as `ahead` allows. Adds to sum and most of each step.
 */
typedef struct {
    uint64_t ahead, steps;
    uint32_t workers;
    uint64_t *taken, *sent; /* [workers] updates so far when weights were sent */
    uint8_t *has;           /* [workers] 1: it has the weights of its next step */
} aging;

static void send_weights(aging *x, uint64_t now) {
    for (uint32_t k = 0; k < x->workers; k++) {
        if (x->has[k] || x->taken[k] == x->steps ||
            !pst_serving_allows(x->ahead, x->taken, x->workers, x->taken[k]))
            continue;
        x->has[k] = 1;
        x->sent[k] = now;
    }
}

static void age_all(aging *x, const uint16_t *order, pst_async_age *age) {
    send_weights(x, 0);
    for (uint64_t i = 0; i < x->steps * x->workers; i++) {
        const uint32_t k = order[i];
        pst_async_age *of = &age[x->taken[k]++];
        const uint64_t n = i - x->sent[k];
        of->mean += (double)n;
        if (n > of->most) of->most = n;
        x->has[k] = 0;
        send_weights(x, i + 1);
    }
}

static pst_status find_ages(pst_trainer *t, const uint16_t *order) {
    pst_async *a = t->async;
    const uint32_t workers = t->p->grid.data;
    aging x = {.ahead = pst_prepare_ahead(t->config),
               .steps = a->to - a->from,
               .workers = workers,
               .taken = calloc(workers, sizeof *x.taken),
               .sent = calloc(workers, sizeof *x.sent),
               .has = calloc(workers, 1)};
    pst_status status = x.taken && x.sent && x.has ? PST_OK : pst_no_memory("for a period");
    memset(a->age, 0, sizeof a->age);
    a->aged_from = a->from;
    if (status == PST_OK) age_all(&x, order, a->age);
    for (uint64_t i = 0; i < x.steps; i++) a->age[i].mean /= workers;
    free(x.taken);
    free(x.sent);
    free(x.has);
    return status;
}

pst_async_age pst_async_age_of(const pst_trainer *t, uint64_t step) {
    return t->async->age[step - 1 - t->async->aged_from];
}

pst_status pst_async_gather(pst_trainer *t) {
    pst_async *a = t->async;
    const size_t each = (size_t)((a->to - a->from) * t->p->grid.data);
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        const pst_serving *s = t->group->local[i]->serving;
        if (s) memcpy(a->own + i * each, s->order, each * sizeof *a->own);
        else memset(a->own + i * each, 0, each * sizeof *a->own);
    }
    PST_TRY(pst_group_all_gather(t->group, a->own, each * sizeof *a->own, a->all));
    uint16_t *order = a->all + pst_job_leader(t->p->job) * each; /* all servers have the same */
    PST_TRY(find_ages(t, order));
    const pst_order_period period = {a->from, a->to, order};
    if (!a->file || pst_order_write(a->file, t->p, &period) == PST_OK) return PST_OK;
    pst_log(PST_LOG_WARN, "%s: this run cannot be replayed", pst_error());
    pst_error_clear();
    fclose(a->file);
    a->file = NULL;
    return PST_OK;
}
