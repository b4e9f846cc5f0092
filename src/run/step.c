/* One optimizer step, when its data is in the ranks' memory: hyper-parameters, the step itself, the
 * measurements of each rank, and the check for finite numbers. For the training loop (train.c) and
 * for sessions (session.c). */
#include "base/clock.h"
#include "run/stop.h"
#include "run/async.h"
#include "run/elastic.h"
#include "run/step.h"
#include "run/learning_rate.h"
#include "run/nonfinite.h"
#include "run/saving.h"
#include "run/spike.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* update: 1 for the first step that changes the weights. A skipped step advances the learning rate
 * only. */
static pst_optim_hyper hyper_parameters(const pst_config *c, uint64_t step, uint64_t update) {
    double t = (double)update;
    return (pst_optim_hyper){.lr = (float)pst_learning_rate(c, step),
                             .decay = (float)c->train.weight_decay,
                             .beta1 = (float)c->train.beta1,
                             .beta2 = (float)c->train.beta2,
                             .eps = (float)c->train.eps,
                             .momentum = (float)c->train.momentum,
                             .nesterov = !strcmp(c->train.nesterov, "true"),
                             .grad_scale = 1.0f,
                             .t = update,
                             .correction1 = (float)(1 - pow(c->train.beta1, t)),
                             .correction2 = (float)(1 - pow(c->train.beta2, t))};
}

static uint64_t kib_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* Memory of this process: anonymous and shared resident bytes; peak resident bytes, including
 * library files. 0 if the system does not report it. */
static void resident_bytes(int proc_status, uint64_t *own, uint64_t *most) {
    char text[4096];
    ssize_t n = proc_status < 0 ? -1 : pread(proc_status, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    *own = kib_after(text, "\nRssAnon:") + kib_after(text, "\nRssShmem:");
    *most = kib_after(text, "\nVmHWM:");
}

/* The measurements of one rank in the step just done. */
static pst_report report_of(const pst_rank *r, uint64_t peak_bytes) {
    const pst_instr_list *list = &r->p->job->list[r->rank];
    pst_report out = {.peak_bytes = peak_bytes,
                      .work = r->work,
                      .works = r->each || !(r->device->ops->flags & PST_DEVICE_ASYNC),
                      .rolled_back = (uint64_t)r->rolled_back};
    const pst_span *span = pst_executor_spans(r->executor, &out.origin_ns);
    uint64_t count[PST_OP_COUNT] = {0}, first = PST_NEVER, last = 0, end = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        uint8_t op = list->instr[i].opcode;
        uint64_t ns = span[i].end - span[i].start;
        uint32_t kind = pst_work_of_flush(list->instr + i);
        if (kind != PST_NONE) out.work.ns[kind] += ns;
        out.op_ns[op] += ns;
        count[op] += pst_instr_begins(list->instr + i);
        if (span[i].end > end) end = span[i].end;
        if (op > PST_OP_BW) continue;
        out.busy_ns += ns;
        if (span[i].start < first) first = span[i].start;
        if (span[i].end > last) last = span[i].end;
    }
    for (int op = 0; op < PST_OP_COUNT; op++) out.op_ns[op] /= count[op] ? count[op] : 1;
    if (first == PST_NEVER) first = last = end; /* a server has no passes */
    out.span_ns = last - first;
    out.flush_ns = end - last;
    return out;
}

/* Whether to measure how far the arena was written: it takes time to read the untouched part. */
static int measures_peak(const pst_trainer *t) {
    return !(t->step & (t->step - 1)) || t->step == (uint64_t)t->config->train.steps;
}

void pst_step_take_requests(pst_trainer *t, uint64_t requests) {
    int signal = pst_stop_signal(requests);
    if (signal) t->stopped = signal;
    if (signal) pst_stop_announce();
    if (requests & PST_STOP_TIME && !signal) t->end = PST_END_TIME;
    if (requests & PST_STOP_CHANGE) t->changes = 1;
    if (!(requests & PST_STOP_SAVE)) return;
    t->save_requested = 1;
    pst_stop_save_taken();
}

/* Of a later step, whose batch may be larger than those so far. The first outer step of islands
 * takes as much longer than the inner ones as is predicted. */
static uint64_t step_ns(const pst_trainer *t, uint64_t step) {
    const pst_batches *b = &t->p->batches;
    const int syncs = pst_prepared_syncs(t->p, step);
    double grows = (double)pst_batches_size(b, step) / (double)pst_batches_size(b, t->step - 1);
    if (t->longest_step_ns[syncs]) return (uint64_t)(grows * (double)t->longest_step_ns[syncs]);
    const uint64_t other = t->longest_step_ns[!syncs];
    if (!syncs) return other;
    const uint64_t outer = t->p->timing->step_ns, inner = t->p->inner->timing->step_ns;
    return other + (outer > inner ? outer - inner : 0);
}

/* Of the next step, of those until reports are gathered again, and of one more. */
static uint64_t next_steps_ns(const pst_trainer *t) {
    uint64_t ns = step_ns(t, t->step);
    for (uint32_t k = 0; !k || k < t->gather_every; k++) {
        ns += step_ns(t, t->step + k);
        if (!t->async && pst_prepared_syncs(t->p, t->step + k)) break;
    }
    return ns;
}

/* Whether another step, the validation and the checkpoint after it, and the last checkpoint may
 * take longer than what is left of train.time_limit. Before a checkpoint was timed, it is assumed
 * to be written with 50 MB/s. */
static int is_time_up(const pst_trainer *t) {
    enum { NS_PER_BYTE = 20 };
    const uint64_t margin = 500000000, now = pst_monotonic_ns();
    uint64_t saving = t->longest_saving_ns;
    if (!saving) saving = pst_saving_bytes(t) * NS_PER_BYTE;
    uint64_t next = next_steps_ns(t) + t->longest_validation_ns + 2 * saving + margin;
    double end = (double)t->began_ns + t->config->train.time_limit * 1e9;
    return t->group->leader && t->config->train.time_limit > 0 && (double)(now + next) > end;
}

/* The losses that the sum of all does not tell apart. */
static pst_status add_losses(const pst_rank *r, pst_report *report) {
    const pst_loss_kinds kinds = pst_loss_kinds_of(r->graph);
    pst_loss_sums sums = {0};
    if (kinds.samples || kinds.hits) PST_TRY(pst_rank_step_losses(r, &sums));
    report->sample_losses = sums.samples;
    report->hits = sums.hits;
    return PST_OK;
}

/* With islands or asynchronous updates, the loss of the whole batch and the mean of the norms; then
 * all ranks decide alike. NaN if one of them is. */
static void join_islands(const pst_trainer *t) {
    const pst_job *job = t->p->job;
    double loss = 0, norm = 0;
    uint64_t targets = 0;
    if (!pst_trainer_is_loose(t)) return;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (pst_job_root(job, r) != r) continue;
        loss += t->report[r].loss_sum;
        norm += t->report[r].grad_norm / pst_job_norms(job);
        targets += t->report[r].targets;
    }
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        t->group->local[i]->loss_sum = loss;
        t->group->local[i]->grad_norm = norm;
        t->group->local[i]->targets = targets;
    }
}

/* What this process asks of all ranks after a step. */
static uint64_t own_requests(pst_trainer *t, uint64_t wall_ns) {
    uint64_t *longest = t->longest_step_ns + pst_prepared_syncs(t->p, t->step - 1);
    if (wall_ns > *longest) *longest = wall_ns;
    if (!t->takes_signals) return 0;
    return pst_elastic_requests(t, pst_stop_requests()) |
           (is_time_up(t) ? (uint64_t)PST_STOP_TIME : 0);
}

/* The reports of this process's ranks. */
static pst_status take_own_reports(pst_trainer *t, uint64_t wall_ns, uint64_t requests) {
    uint64_t resident, most_resident;
    resident_bytes(t->proc_status, &resident, &most_resident);
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        uint64_t peak_bytes = t->own_report[i].peak_bytes; /* of the previous step */
        if (!peak_bytes || measures_peak(t))
            PST_TRY(pst_rank_touched(t->group->local[i], peak_bytes, &peak_bytes));
        t->own_report[i] = report_of(t->group->local[i], peak_bytes);
        t->own_report[i].wall_ns = wall_ns;
        t->own_report[i].data_wait_ns = t->data_wait_ns;
        t->own_report[i].target_bytes = t->total ? t->total[i].bytes : 0;
        if (t->total && !t->times_only) PST_TRY(add_losses(t->group->local[i], t->own_report + i));
        t->own_report[i].loss_sum = t->group->local[i]->loss_sum;
        t->own_report[i].grad_norm = t->group->local[i]->grad_norm;
        t->own_report[i].targets = t->group->local[i]->targets;
        t->own_report[i].resident_bytes = resident;
        t->own_report[i].requests = requests;
        t->own_report[i].peak_resident_bytes = most_resident;
        t->own_report[i].saving = pst_saving_state(t);
    }
    return PST_OK;
}

/* Gathers the report of every rank, which also makes requests to any rank known to all. */
static pst_status gather_reports(pst_trainer *t, uint64_t wall_ns) {
    uint64_t requests = own_requests(t, wall_ns);
    PST_TRY(take_own_reports(t, wall_ns, requests));
    PST_TRY(pst_group_all_gather(t->group, t->own_report, sizeof *t->own_report, t->report));
    pst_group_learn(t->group, t->report);
    join_islands(t);
    for (uint32_t r = 0; r < t->p->options.n_rank; r++) requests |= t->report[r].requests;
    pst_step_take_requests(t, requests);
    return PST_OK;
}

/* --- reports of islands ----------------------------------------------------------------------- */

static int due(int64_t every, uint64_t step) { return every > 0 && step % (uint64_t)every == 0; }

/* Whether reports are gathered after this step; all ranks decide alike. In the first steps times
 * are measured for predictions. */
static int gathers(const pst_trainer *t) {
    enum { FIRST = 10 };
    const pst_config *c = t->config;
    if (t->async) return pst_async_ends(t);
    if (t->p->job->islands == 1 || pst_prepared_syncs(t->p, t->step - 1)) return 1;
    if (t->step <= t->resumed + FIRST || t->step == (uint64_t)c->log.trace) return 1;
    if (t->step + 1 == (uint64_t)c->train.steps) return 1; /* it is drawn */
    if (due(c->checkpoint.every, t->step) || due(c->checkpoint.keep_every, t->step)) return 1;
    return t->n_pending + 1 >= t->gather_every;
}

/* So many steps that signals and limits are noticed after ten seconds, or after one step. */
static void choose_next(pst_trainer *t) {
    const uint64_t most_ns = UINT64_C(10000000000);
    uint64_t ns = 1;
    for (uint32_t r = 0; r < t->p->options.n_rank; r++)
        if (t->report[r].wall_ns > ns) ns = t->report[r].wall_ns;
    const uint64_t n = most_ns / ns;
    t->gather_every = n < PST_REPORTS ? (uint32_t)n : PST_REPORTS;
}

static void keep_own_reports(pst_trainer *t) {
    for (uint32_t i = 0; i < t->group->n_local; i++)
        t->pending_report[i * PST_REPORTS + t->n_pending] = t->own_report[i];
    t->n_pending++;
}

static void take_gathered(pst_trainer *t, uint32_t k) {
    for (uint32_t r = 0; r < t->p->options.n_rank; r++)
        t->report[r] = t->gathered_report[(size_t)r * (t->n_late + 1) + k];
    join_islands(t);
}

/* Of all steps since the last time; `report` becomes those of this step. */
static pst_status gather_pending(pst_trainer *t, uint64_t wall_ns) {
    uint64_t requests = own_requests(t, wall_ns);
    PST_TRY(take_own_reports(t, wall_ns, requests));
    keep_own_reports(t);
    const uint32_t n = t->n_pending;
    for (uint32_t i = 1; i < t->group->n_local; i++)
        memmove(t->pending_report + (size_t)i * n, t->pending_report + (size_t)i * PST_REPORTS,
                n * sizeof *t->pending_report);
    PST_TRY(pst_group_all_gather(t->group, t->pending_report, n * sizeof *t->pending_report,
                                 t->gathered_report));
    t->n_late = n - 1;
    t->n_pending = 0;
    take_gathered(t, t->n_late);
    pst_group_learn(t->group, t->report);
    choose_next(t);
    for (uint32_t r = 0; r < t->p->options.n_rank; r++) requests |= t->report[r].requests;
    pst_step_take_requests(t, requests);
    return t->async ? pst_async_gather(t) : PST_OK;
}

/* Of all replicas: of the ranks with the losses, which read the targets. */
static uint64_t target_bytes(const pst_trainer *t) {
    const pst_layout *l = &t->p->plan->layout;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < t->p->grid.data; k++) {
        uint32_t rank = pst_grid_rank(t->p->grid, l->rank_of_chunk[l->n_chunk - 1], k, 0);
        sum += t->report[rank].target_bytes;
    }
    return sum;
}

/* Means over the samples of the batch, of all stages and replicas. */
static void set_sample_means(const pst_trainer *t, pst_metrics_step *out) {
    const pst_prepared *p = t->p;
    const pst_loss_kinds kinds = pst_loss_kinds_of(p->graph);
    const double samples = (double)pst_prepared_batch(t->group->local[0]->p);
    double losses = 0, hits = 0;
    for (uint32_t k = 0; k < p->grid.data; k++)
        for (uint32_t s = 0; s < p->grid.pipeline; s++) {
            const pst_report *of = &t->report[pst_grid_rank(p->grid, s, k, 0)];
            losses += of->sample_losses;
            hits += of->hits;
        }
    if (t->times_only) return;
    if (kinds.samples) out->next_sentence = losses / samples;
    if (kinds.hits) out->accuracy = hits / samples;
}

/* What STEP of a server uses for the gradients of a worker. */
static pst_optim_hyper served_hyper(const void *config, uint64_t step, uint64_t update) {
    return hyper_parameters(config, step, update);
}

/* Of the step that is done. */
static const char *step_phase(const pst_trainer *t) {
    if (t->p->job->islands == 1) return NULL;
    switch (pst_prepare_local_step(t->config, t->step - 1).kind) {
    case PST_LOCAL_ALL: return "outer";
    case PST_LOCAL_TURN: return "fragment";
    default: return "inner";
    }
}

/* Measured values, with predictions beside them. */
static pst_metrics_step measured_step(const pst_trainer *t, uint64_t wall_ns) {
    const pst_prepared *p = t->p;
    const pst_rank *r = t->group->local[0];
    uint32_t longest = 0, rolled_back = 0;
    uint64_t data_wait_ns = 0;
    for (uint32_t k = 0; k < p->options.n_rank; k++) rolled_back += t->report[k].rolled_back != 0;
    for (uint32_t k = 0; k < p->options.n_rank; k++)
        if (t->report[k].data_wait_ns > data_wait_ns) data_wait_ns = t->report[k].data_wait_ns;
    for (uint32_t k = 1; k < p->options.n_rank; k++)
        if (t->report[k].span_ns > t->report[longest].span_ns) longest = k;
    const pst_report *l = &t->report[longest];
    const pst_async_age age = t->async ? pst_async_age_of(t, t->step) : (pst_async_age){NAN, 0};
    return (pst_metrics_step){
        .step = t->step,
        .loss = t->times_only ? NAN : r->loss_sum / (double)r->targets,
        .bits_per_byte =
            t->times_only ? NAN : pst_evaluate_bits_per_byte(r->loss_sum, target_bytes(t)),
        .next_sentence = NAN,
        .accuracy = NAN,
        .lr = pst_learning_rate(p->config, t->step - 1),
        .grad_norm = r->grad_norm,
        .step_s = (double)wall_ns * 1e-9,
        .data_wait_s = (double)data_wait_ns * 1e-9,
        .bubble = l->span_ns ? 1 - (double)l->busy_ns / (double)l->span_ns : 0,
        .predicted_step_s = t->prediction ? pst_prediction_step_s(t->prediction) : NAN,
        .predicted_bubble = t->prediction ? pst_prediction_bubble(t->prediction) : NAN,
        .batch = pst_prepared_batch(r->p),
        .phase = step_phase(t),
        .compression = r->p->compression,
        .staleness = age.mean,
        .most_stale = age.most,
        .tokens = pst_batches_before(&p->batches, t->step) * (p->tokens / pst_prepared_batch(p)),
        .post = p->job->post,
        .rolled_back = rolled_back,
        .loss_scale = r->loss_scale,
        .skipped = t->skipped,
        .scales = t->scaler.dynamic || r->loss_scale != 1};
}

/* An fp16 overflow: every rank has skipped the step, and kept its weights. */
static void adjust_scale(pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    int finite = isfinite(r->loss_sum) && isfinite(r->grad_norm);
    t->overflowed = !t->times_only && pst_scaler_step(&t->scaler, t->config, finite);
    if (t->overflowed) {
        t->skipped++;
        t->skipped_in_row++;
    }
}

pst_status pst_step_use(pst_trainer *t) {
    const pst_prepared *p = pst_prepared_at(t->p, t->step);
    pst_prediction_use(t->prediction, p);
    return pst_group_use(t->group, p);
}

pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured) {
    if (!(t->scaler.scale > 0)) pst_scaler_open(t->config, &t->scaler);
    PST_TRY(pst_async_begin(t));
    const uint64_t delay = t->p->job->staleness, due = t->pending < delay ? 0 : delay;
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        t->group->local[i]->hyper =
            hyper_parameters(t->config, t->step - due, t->step - due - t->skipped - t->spiked + 1);
        t->group->local[i]->holds = t->pending < delay;
        t->group->local[i]->loss_scale = t->scaler.scale;
        t->group->local[i]->step = t->step;
        if (!t->group->local[i]->serving) continue;
        t->group->local[i]->step = pst_async_from(t);
        t->group->local[i]->hyper_of = served_hyper;
        t->group->local[i]->hyper_arg = t->config;
    }
    pst_spike_limit(t);
    pst_saving_await_pending(t);
    PST_TRY(pst_group_run(t->group, 1));
    uint64_t wall_ns = pst_monotonic_ns() - began_ns;
    for (uint32_t i = 0; i < t->group->n_local; i++)
        if (t->group->local[i]->recorder) PST_TRY(pst_recorder_end(t->group->local[i]));
    t->step++;
    t->pending += t->pending < delay;
    adjust_scale(t);
    t->validation_loss = t->chosen_loss = NAN; /* not measured for the new weights yet */
    if (!gathers(t)) {
        PST_TRY(take_own_reports(t, wall_ns, 0));
        keep_own_reports(t);
        return PST_OK;
    }
    if (!pst_trainer_is_loose(t)) PST_TRY(gather_reports(t, wall_ns));
    else PST_TRY(gather_pending(t, wall_ns));
    *measured = measured_step(t, wall_ns);
    set_sample_means(t, measured);
    return PST_OK;
}

void pst_step_late(pst_trainer *t, uint32_t k, pst_metrics_step *measured) {
    const uint32_t own = t->group->local[0]->rank;
    take_gathered(t, k);
    pst_prediction_use(t->prediction, pst_prepared_at(t->p, t->step - 1));
    *measured = measured_step(t, t->report[own].wall_ns);
    set_sample_means(t, measured);
}

/* After a replay, the reports and the timeline are those of the replay. */
pst_status pst_step_check(pst_trainer *t) {
    PST_TRY(pst_nonfinite_check(t));
    PST_TRY(pst_spike_check(t));
    return t->skipped_in_row && !t->overflowed ? gather_reports(t, t->own_report[0].wall_ns)
                                               : PST_OK;
}
