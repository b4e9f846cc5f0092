/* See spike.h. */
#include "run/spike.h"
#include "base/log.h"
#include "run/resume.h"
#include "run/saving.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    WARM = 20,   /* steps before spikes are looked for */
    IN_ROW = 10, /* consecutive spikes are a new level, not spikes */
    REWINDS = 3  /* to one checkpoint */
};
/* The least standard deviations, so that rounding is no spike where a loss hardly changes: a
 * hundredth of the loss; 5 % of the norm. */
static const double LEAST_LOSS = 0.01, LEAST_NORM = 0.05;
static const double LEAST = 1e-30; /* of a norm, so that it has a logarithm */

static int is(const pst_trainer *t, const char *what) {
    return !strcmp(t->config->train.spike, what);
}

/* The mean of the last steps plus train.spike_factor standard deviations, each at least `least` +
 * `share` of the mean. */
static double limit(const pst_trainer *t, const double *x, double least, double share) {
    uint64_t n = t->recent.n < PST_CKPT_RECENT ? t->recent.n : PST_CKPT_RECENT;
    double mean = 0, square = 0;
    if (n < WARM) return INFINITY;
    for (uint64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (uint64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    least += share * fabs(mean);
    double deviation = sqrt(square);
    return mean + t->config->train.spike_factor * (deviation > least ? deviation : least);
}

static double loss_limit(const pst_trainer *t) { return limit(t, t->recent.loss, 0, LEAST_LOSS); }

static double norm_limit(const pst_trainer *t) {
    return exp(limit(t, t->recent.norm, LEAST_NORM, 0));
}

void pst_spike_limit(pst_trainer *t) {
    int applies = is(t, "off") || is(t, "warn");
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        t->group->local[i]->loss_limit = applies ? INFINITY : loss_limit(t);
        t->group->local[i]->norm_limit = applies ? INFINITY : norm_limit(t);
    }
}

static void learn(pst_trainer *t, double loss, double norm) {
    pst_ckpt_recent *r = &t->recent;
    uint64_t at = r->n++ % PST_CKPT_RECENT;
    r->loss[at] = loss;
    r->norm[at] = log(norm > LEAST ? norm : LEAST);
    t->spikes_in_row = 0;
}

/* The weights and the state of the last checkpoint; the data goes on. */
static pst_status rewind_to(pst_trainer *t) {
    uint64_t next = pst_trainer_sample(t, t->step);
    PST_TRY(pst_resume_rewind(t));
    t->rewinds = t->rewound_to == t->step ? t->rewinds + 1 : 1;
    t->rewound_to = t->step;
    t->skipped_samples = next - pst_batches_before(&t->p->batches, t->step);
    return PST_OK;
}

static void say(const pst_trainer *t, uint64_t step, const char *what) {
    const pst_rank *r = t->group->local[0];
    if (!t->metrics) return;
    pst_metrics_newline(t->metrics);
    pst_log(PST_LOG_WARN,
            "step %" PRIu64 ": loss %.4f and gradient norm %.4g, limits %.4f and %.4g: %s", step,
            r->loss_sum / (double)r->targets, r->grad_norm, loss_limit(t), norm_limit(t), what);
}

/* Spikes that the data does not cause come again: the run goes on with steps left out. */
static int rewound_often(const pst_trainer *t) {
    return t->rewinds >= REWINDS && t->checkpointed == t->rewound_to;
}

static pst_status act(pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    pst_metrics_spike spike = {.step = t->step,
                               .loss = r->loss_sum / (double)r->targets,
                               .norm = r->grad_norm,
                               .loss_limit = loss_limit(t),
                               .norm_limit = norm_limit(t),
                               .action = t->config->train.spike};
    /* a checkpoint that is being written counts, however long that takes */
    if (is(t, "rewind")) PST_TRY(pst_saving_finish(t));
    if (is(t, "warn")) {
        say(t, t->step, "a spike");
    } else if (is(t, "skip") || t->checkpointed == UINT64_MAX || rewound_often(t)) {
        spike.action = "skip";
        say(t, t->step, "the batch is skipped");
        t->spiked++;
    } else {
        say(t, t->step, "back to the last checkpoint; the data up to here is skipped");
        PST_TRY(rewind_to(t));
        if (t->metrics) PST_TRY(pst_metrics_rewind(t->metrics, t->step));
    }
    if (t->metrics) pst_metrics_spiked(t->metrics, &spike);
    return PST_OK;
}

pst_status pst_spike_check(pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    double loss = r->loss_sum / (double)r->targets, norm = r->grad_norm;
    if (is(t, "off") || t->times_only || !isfinite(loss) || !isfinite(norm)) return PST_OK;
    if (loss <= loss_limit(t) && norm <= norm_limit(t)) {
        learn(t, loss, norm);
        return PST_OK;
    }
    PST_TRY(act(t));
    if (++t->spikes_in_row >= IN_ROW) t->recent = (pst_ckpt_recent){0};
    return PST_OK;
}
