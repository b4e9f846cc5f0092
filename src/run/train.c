/* The training loop of a run, as far as it runs in this process. start.c chooses the process. */
#include "base/clock.h"
#include "base/log.h"
#include "comm/launch/launch.h"
#include "data/encode.h"
#include "prepare/planned.h"
#include "group/bind.h"
#include "run/limits.h"
#include "run/stop.h"
#include "run/train.h"
#include "run/setup.h"
#include "run/announce.h"
#include "run/async.h"
#include "run/elastic.h"
#include "run/step.h"
#include "run/nonfinite.h"
#include "run/feed.h"
#include "run/saving.h"
#include "run/resume.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- one step --------------------------------------------------------------------------------- */

/* For measuring how long a start takes (bench/start.py). */
static void log_started(const pst_trainer *t) {
    uint64_t first = PST_NEVER;
    for (uint32_t r = 0; r < t->p->options.n_rank; r++)
        if (t->report[r].origin_ns < first) first = t->report[r].origin_ns;
    pst_log(PST_LOG_DEBUG, "first instruction at %" PRIu64 " ns of the monotonic clock", first);
}

/* The step whose timeline is drawn: log.trace, else the last but one. */
static uint64_t traced_step(const pst_trainer *t) {
    uint64_t steps = (uint64_t)t->config->train.steps, asked = (uint64_t)t->config->log.trace;
    if (asked) return asked < steps ? asked : steps;
    return steps > 1 ? steps - 1 : steps;
}

/* On an asynchronous device, measuring single operators slows a step down: it is done in the first
 * steps, so that there are some times, in every tenth, and in the step that is drawn. */
static void choose_times(const pst_trainer *t) {
    enum { FIRST = 3, EVERY = 10 };
    uint64_t next = t->step + 1;
    int times = next <= t->resumed + FIRST || next % EVERY == 0 || next == traced_step(t);
    for (uint32_t i = 0; i < t->group->n_local; i++) t->group->local[i]->times = times;
}

/* The steps of islands whose reports have come with those of the last step, *last. */
static pst_status late_steps(pst_trainer *t, pst_metrics_step *last) {
    const uint64_t now = t->step;
    pst_status status = PST_OK;
    if (!t->n_late) return PST_OK;
    t->is_late = 1;
    for (uint32_t k = 0; k < t->n_late && status == PST_OK; k++) {
        pst_metrics_step measured;
        t->step = now - t->n_late + k;
        pst_step_late(t, k, &measured);
        if (t->metrics) pst_metrics_step_done(t->metrics, &measured, t->report);
        status = pst_step_check(t);
        if (t->prediction) pst_prediction_add(t->prediction, t->report);
    }
    t->is_late = 0;
    t->step = now;
    pst_step_late(t, t->n_late, last);
    return status;
}

static pst_status train_step(pst_trainer *t) {
    pst_metrics_step measured;
    uint64_t began = pst_monotonic_ns();
    choose_times(t);
    PST_TRY(pst_step_use(t));
    PST_TRY(pst_feed_batch(t));
    PST_TRY(pst_step_run(t, began, &measured));
    if (t->n_pending) return PST_OK;
    PST_TRY(late_steps(t, &measured));
    if (!t->trained && t->group->leader) log_started(t);
    if (t->metrics) pst_metrics_step_done(t->metrics, &measured, t->report);
    PST_TRY(pst_step_check(t));
    if (t->prediction && !t->skipped_in_row) pst_prediction_add(t->prediction, t->report);
    return pst_saving_progress(t);
}

/* --- the loop --------------------------------------------------------------------------------- */

static int due(int64_t every, uint64_t step) { return every > 0 && step % (uint64_t)every == 0; }

/* Whether an evaluation is due after t->step. With islands, those due since the last outer step
 * follow the next one: before, islands have different weights. */
static int evaluation_is_due(const pst_trainer *t) {
    const int64_t every = t->config->eval.every;
    if (t->p->job->islands == 1) return due(every, t->step);
    if (every <= 0 || !pst_prepared_syncs(t->p, t->step - 1)) return 0;
    const uint64_t steps = (uint64_t)t->config->parallel.local.steps,
                   before = (t->step - 1) / steps * steps;
    return t->step / (uint64_t)every > before / (uint64_t)every;
}

/* Whether all replicas have the same weights, which an evaluation needs. */
static int weights_are_shared(const pst_trainer *t) {
    return !t->step || pst_prepared_syncs(t->p, t->step - 1);
}

static double since(uint64_t began) { return (double)(pst_monotonic_ns() - began) * 1e-9; }

/* Sets that are not evaluated, because the run is to stop, have 0 tokens. */
static pst_status validate_sets(pst_trainer *t) {
    for (uint32_t i = 0; i < t->sets.n; i++) {
        pst_evaluate_set *set = &t->sets.set[i];
        set->last.tokens = 0;
        if (!t->stopped) PST_TRY(pst_feed_validate(t, set->data, &set->last));
    }
    return PST_OK;
}

/* Leaves validation_loss NaN when there is no validation data, or when it was interrupted. */
static pst_status validate(pst_trainer *t) {
    uint64_t began = pst_monotonic_ns();
    pst_evaluation split;
    if (t->times_only) return PST_OK;
    PST_TRY(pst_group_use(t->group, t->p));
    PST_TRY(pst_feed_validate(t, t->data, &split));
    t->validation_loss = split.loss;
    PST_TRY(validate_sets(t));
    uint64_t took = pst_monotonic_ns() - began;
    if (took > t->longest_validation_ns) t->longest_validation_ns = took;
    const char *best = t->config->checkpoint.best;
    const pst_evaluation *chosen = pst_evaluate_named(&t->sets, best, &split);
    const int by_loss = !strcmp(t->config->checkpoint.metric, "loss");
    if (chosen && chosen->tokens) t->chosen_loss = by_loss ? chosen->loss : 1 - chosen->accuracy;
    /* one at the time limit is not among those that stop.patience counts */
    if (isfinite(t->chosen_loss))
        t->no_better = t->chosen_loss < t->best_loss ? 0 : t->no_better + (t->end == PST_END_NONE);
    if (t->metrics) pst_metrics_validation(t->metrics, t->step, &split, &t->sets, since(began));
    if (!split.tokens || isfinite(t->validation_loss) ||
        !strcmp(t->config->train.non_finite, "skip"))
        return PST_OK;
    PST_TRY(pst_saving_finish(t));
    pst_status status =
        pst_fail(PST_EINPUT,
                 "training has diverged: the validation loss after step %" PRIu64 " is %g; lower "
                 "train.lr (%g)",
                 t->step, fabs(t->validation_loss), t->config->train.lr);
    return pst_group_agree(t->group, status);
}

/* last: training does not continue meanwhile. */
static pst_status checkpoint(pst_trainer *t, int last) {
    if (last) PST_TRY(pst_saving_finish(t)); /* the one under way may be of this step */
    if (t->checkpointed != t->step && !t->times_only) PST_TRY(pst_saving_start(t, last));
    /* the next steps overwrite kept weights */
    return last || pst_saving_keeps(t) ? pst_saving_finish(t) : PST_OK;
}

/* The run ends before its last step. */
static int ends_early(const pst_trainer *t) { return t->stopped || t->end; }

/* Also the last step of an interrupted run. */
static int to_trace(const pst_trainer *t) {
    return t->step == traced_step(t) || (ends_early(t) && !t->traced);
}

/* Whether the run's folder has a checkpoint: one that this run wrote, or resumed from. */
static int can_resume(const pst_trainer *t) {
    size_t n = strlen(t->folder);
    int began_here = !strncmp(t->resume, t->folder, n) && t->resume[n] == '/';
    return t->checkpointed != UINT64_MAX &&
           (!*t->resume || began_here || t->checkpointed != t->resumed);
}

/* The line that our launcher prints after a failure of a rank or link. */
static void note_resume(pst_trainer *t) {
    const char *hosts = t->options->hostfile;
    char note[2 * PST_TRAINER_FOLDER];
    if (t->resume_noted || !t->group->leader || !t->group->heartbeat || !can_resume(t)) return;
    snprintf(note, sizeof note, "resume with: penstock train --resume %s -n %u%s%s", t->folder,
             t->p->options.n_rank, hosts ? " --hostfile " : "", hosts ? hosts : "");
    pst_heartbeat_note(t->group->heartbeat, note);
    t->resume_noted = 1;
}

/* A request to stop that arrives in the last step: the run is complete anyway. */
static void last_step_done(pst_trainer *t) {
    pst_stop_complete(t->stopped);
    t->stopped_in_last_step = t->stopped != 0 || t->end == PST_END_TIME;
    t->stopped = 0;
    t->end = PST_END_NONE;
}

static int is_patience_over(const pst_trainer *t) {
    uint64_t patience = (uint64_t)t->config->stop.patience;
    return patience && t->no_better >= patience;
}

/* What is due between two steps: validation and checkpoint. */
static pst_status after_step(pst_trainer *t) {
    const pst_config *c = t->config;
    if (evaluation_is_due(t)) PST_TRY(validate(t));
    if (is_patience_over(t)) {
        t->end = PST_END_PATIENCE;
        return PST_OK; /* finish() saves */
    }
    /* The best weights are always saved, independent of checkpoint.every. */
    int wanted = t->save_requested || t->chosen_loss < t->best_loss;
    t->save_requested = 0;
    wanted |= due(c->checkpoint.every, t->step) || due(c->checkpoint.keep_every, t->step);
    return wanted ? checkpoint(t, 0) : PST_OK;
}

/* A checkpoint that was under way when a rank died is begun anew. */
static pst_status checkpoint_again(pst_trainer *t) {
    t->save_requested = 0;
    return checkpoint(t, 0);
}

static void add_time(pst_trainer *t) {
    const double step_s = (double)t->own_report[0].wall_ns * 1e-9;
    if (t->times.trained <= 0) t->times.start = since(t->began_ns) - step_s;
    t->times.trained += step_s;
}

static pst_status loop(pst_trainer *t) {
    uint64_t steps = (uint64_t)t->config->train.steps;
    if (is_patience_over(t)) t->end = PST_END_PATIENCE; /* before the run was resumed */
    while (t->step < steps && !ends_early(t)) {
        note_resume(t);
        PST_TRY(pst_elastic_commit(t));
        if (t->changes) return pst_elastic_depart(t);
        PST_TRY(train_step(t));
        t->trained = 1;
        add_time(t);
        pst_elastic_report(t);
        if (t->step == steps) last_step_done(t);
        if (pst_async_order_ends(t)) t->end = PST_END_ORDER;
        if (to_trace(t)) {
            PST_TRY(pst_trace_step(t));
            t->traced = 1;
        }
        if (ends_early(t) || t->step == steps) return PST_OK; /* finish() does the rest */
        PST_TRY(after_step(t));
    }
    return PST_OK;
}

/* --canary: checks that no rank wrote past its arena. */
static pst_status check_memory(const pst_trainer *t) {
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) {
        const pst_rank *r = t->group->local[i];
        int intact = 0;
        status = pst_rank_intact(r, &intact);
        if (status == PST_OK && !intact)
            status = pst_fail(PST_EINTERNAL, "rank %u wrote past the end of its arena", r->rank);
    }
    PST_TRY(pst_group_agree(t->group, status));
    if (t->group->leader && !t->options->quiet)
        printf("canary      no rank wrote past the end of its arena\n");
    return PST_OK;
}

/* If the report cannot be written, this is logged and the run goes on. */
static int write_report(const pst_trainer *t) {
    pst_status status = pst_report_write(t->folder, NULL);
    if (status != PST_OK) pst_log(PST_LOG_WARN, "cannot write the report: %s", pst_error());
    pst_error_clear();
    return status == PST_OK;
}

/* All steps are done, but the resulting weights could not be saved. */
static pst_status lost_weights(const pst_trainer *t) {
    pst_status status =
        t->checkpointed == UINT64_MAX
            ? pst_fail(PST_ENOMEM,
                       "the weights of step %" PRIu64
                       " were not saved, and there is no earlier checkpoint",
                       t->step)
            : pst_fail(PST_ENOMEM,
                       "the weights of step %" PRIu64
                       " were not saved; the last good checkpoint is of step %" PRIu64,
                       t->step, t->checkpointed);
    return pst_group_agree(t->group, status);
}

static pst_status all_skipped(const pst_trainer *t) {
    char advice[PST_NONFINITE_ADVICE], after[48] = "";
    pst_nonfinite_advice(t, advice);
    if (t->resumed) snprintf(after, sizeof after, " after step %" PRIu64, t->resumed);
    pst_status status = pst_fail(
        PST_EINPUT,
        "all %" PRIu64 " steps%s were skipped, because the loss or a gradient was not finite; "
        "the weights have not changed; %s",
        t->step - t->resumed, after, advice);
    return pst_group_agree(t->group, status);
}

static const char *how_it_ended(const pst_trainer *t) {
    static const char *const why[] = {[PST_END_NONE] = "done",
                                      [PST_END_TIME] = "time limit",
                                      [PST_END_PATIENCE] = "patience",
                                      [PST_END_ORDER] = "order"};
    return t->stopped ? "interrupted" : why[t->end];
}

static void end_metrics(pst_trainer *t, const uint64_t *hash) {
    t->times.total = since(t->began_ns);
    pst_metrics_end(t->metrics, t->step, hash, how_it_ended(t), &t->times);
}

static pst_status finish(pst_trainer *t) {
    uint64_t hash = 0;
    int reported = 0;
    /* There may be no time for both: train.time_limit reserves it for an evaluation only after one
     * has been timed. */
    const int saves_first =
        t->stopped_in_last_step || (t->end == PST_END_TIME && !t->longest_validation_ns);
    if (saves_first) PST_TRY(checkpoint(t, 1));
    if (!t->stopped && t->end != PST_END_PATIENCE && weights_are_shared(t)) PST_TRY(validate(t));
    PST_TRY(checkpoint(t, 1));
    if (!t->times_only) PST_TRY(pst_weights_hash_all(t, &hash));
    if (t->metrics) end_metrics(t, t->times_only ? NULL : &hash);
    if (t->metrics) reported = write_report(t);
    if (t->metrics && !t->options->quiet) pst_announce_summary(t, hash, reported);
    if (t->checkpointed != t->step && !t->times_only) return lost_weights(t);
    if (pst_announce_changed_nothing(t)) return all_skipped(t);
    return t->options->canary && !t->times_only && t->trained ? check_memory(t) : PST_OK;
}

/* Each rank makes its own checks; all leave together, with one message. */
static pst_status prepare(pst_trainer *t, pst_config *c, uint32_t n_rank) {
    pst_run_inputs in = {.data = NULL};
    pst_status status = pst_bind_rank(t->world, t->config);
    if (status == PST_OK)
        status = pst_registry_joins(t->config->parallel.transport, t->world, n_rank);
    if (status == PST_OK) status = pst_setup_prepare(c, t->options, t->plan, n_rank, t->world, &in);
    t->data = in.data;
    t->sets = in.sets;
    t->p = in.p;
    if (status == PST_OK) status = pst_limits_of_run(t);
    return pst_group_agree_world(t->world, status);
}

static pst_status run(pst_trainer *t, pst_config *c, uint32_t n_rank) {
    PST_TRY(prepare(t, c, n_rank));
    pst_elastic_say(t);
    PST_TRY(pst_setup_ranks(t));
    PST_TRY(pst_elastic_share(t));
    PST_TRY(pst_setup_folder(t));
    PST_TRY(pst_setup_weights(t));
    PST_TRY(pst_setup_metrics(t));
    PST_TRY(pst_group_agree(t->group, pst_saving_open(t)));
    PST_TRY(pst_async_open(t));
    if (!pst_elastic_goes_on(t, NULL)) pst_announce_run(t);
    if (t->save_requested) PST_TRY(checkpoint_again(t));
    PST_TRY(loop(t));
    return t->has_departed ? PST_OK : finish(t);
}

/* All ranks have the same error and leave together: rank 0 prints it, and the others wait for that,
 * because a launcher ends the job when the first rank exits. */
void pst_train_report_once(pst_world *world) {
    if (world->rank == 0) fprintf(stderr, "penstock: %s\n", pst_error());
    if (world->size > 1) world->ops->fence(world);
    pst_error_clear();
}

/* Everything is saved. A launcher that is not ours may end the other ranks when the first exits
 * with a status other than 0, so none exits before rank 0 has written everything. */
static void note_stop(const pst_trainer *t) {
    pst_group *g = t->group;
    if (t->options->stopped) *t->options->stopped = t->stopped;
    if (!t->stopped) return;
    if (g->heartbeat) pst_heartbeat_stopped(g->heartbeat, t->stopped);
    if (g->world && g->world->size > 1 && g->world->ops->fence(g->world) != PST_OK)
        pst_error_clear();
}

pst_status pst_train_here(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                          pst_world *world, uint32_t n_rank, pst_elastic *elastic) {
    pst_trainer t = {.config = c,
                     .options = o,
                     .plan = plan,
                     .world = world,
                     .times_only = !strcmp(c->parallel.device, "timed"),
                     .takes_signals = 1,
                     .elastic = elastic,
                     .saved_config = pst_elastic_config(elastic),
                     .began_ns = pst_elastic_began_ns(elastic),
                     .proc_status = -1,
                     .lock = -1};
    pst_stop_before before;
    pst_stop_open(&before, !world->rank && !o->quiet);
    int launched = world->launched_by_us;
    if (plan && !world->rank && !o->quiet) pst_planned_warn(c, plan);
    pst_status status = run(&t, c, n_rank);
    pst_saving_close(&t);
    pst_metrics_close(t.metrics);
    if (status == PST_OK && !t.has_departed) {
        note_stop(&t);
        status = pst_elastic_finish(&t);
    }
    pst_stop_close(&before);
    if (status == PST_BUSY && pst_encode_signal()) { /* while text was encoded: nothing to save */
        raise(pst_encode_signal());
        status = pst_fail(PST_EINPUT, "stopped by a signal while text was encoded");
    }
    /* Our launcher names the culprit, once; but with several hosts, the launcher of one host does
     * not notice a link that was never established. */
    int led = status == PST_EPEER && launched && (t.group || !world->ops->check);
    if (led && t.group && t.group->heartbeat)
        pst_heartbeat_set_reason(t.group->heartbeat, pst_error());
    if (status == PST_EPEER && !launched && t.group && t.group->leader && can_resume(&t))
        fprintf(stderr, "penstock: to resume this run, use: penstock train --resume %s\n",
                t.folder);
    if (status != PST_OK && !led && pst_group_error_is_common())
        pst_train_report_once(t.group ? t.group->world : t.world);
    pst_async_close(t.async);
    if (t.group) pst_group_close(t.group, status);
    if (t.world) t.world->ops->close(t.world);
    pst_feed_close(&t);
    if (t.data) t.data->row->close(t.data);
    pst_evaluate_close(&t.sets);
    pst_prepared_close(t.p);
    pst_setup_close(&t);
    if (led) pst_error_clear();
    return status;
}
