/* The training loop, and how a run starts: in this process, on local ranks, or as a rank of a job. */
#include "base/hash.h"
#include "base/log.h"
#include "comm/launch.h"
#include "engine/trainer.h"
#include "pipeline/timeline.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- stopping --------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_signals;

static void on_signal(int number) {
    (void)number;
    if (stop_signals++) _exit(130); /* the second one means: at once */
}

typedef struct { struct sigaction interrupt, terminate; } saved_signals;

static void catch_signals(saved_signals *saved) {
    struct sigaction action = {.sa_handler = on_signal};
    stop_signals = 0;
    sigaction(SIGINT, &action, &saved->interrupt);
    sigaction(SIGTERM, &action, &saved->terminate);
}

static void release_signals(const saved_signals *saved) {
    sigaction(SIGINT, &saved->interrupt, NULL);
    sigaction(SIGTERM, &saved->terminate, NULL);
}

/* --- set-up ----------------------------------------------------------------------------------------------------- */

static pst_status open_data(const pst_config *c, uint32_t context, pst_data **data) {
    const pst_data_row *row;
    PST_TRY(pst_registry_data(c->data.kind, &row));
    pst_data_config config = {.paths = c->data.paths, .n_path = c->data.n_path, .validation = c->data.validation,
                              .context = context, .seed = (uint64_t)c->train.seed, .tokenizer = c->data.tokenizer};
    return row->open(&config, data);
}

static uint32_t threads_per_rank(const pst_config *c, uint32_t ranks_here) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (c->parallel.threads) return (uint32_t)c->parallel.threads;
    return cores > (long)ranks_here ? (uint32_t)(cores / ranks_here) : 1;
}

/* What a rank may use: as configured, else its share of what the machine has free. */
static uint64_t memory_limit(const pst_config *c, uint32_t ranks_here) {
    unsigned long long kib = 0;
    char line[128];
    if (c->parallel.memory > 0) return (uint64_t)c->parallel.memory;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %llu", &kib) != 1) continue;
    if (f) fclose(f);
    return kib * 1024 / ranks_here;
}

/* Everything that can be known to be wrong before any rank starts. */
static pst_status prepare(const pst_config *c, uint32_t n_rank, uint32_t ranks_here, pst_data **data,
                          pst_prepared **prepared) {
    const pst_model_row *model;
    pst_model_config sizes;
    pst_data *d = NULL;
    pst_prepared *p = NULL;
    PST_TRY(pst_prepare_model(c, 0, &model, &sizes));
    PST_TRY(open_data(c, sizes.context, &d));
    uint32_t n_micro = (uint32_t)(c->train.batch / c->train.micro_batch);
    pst_prepare_options options = {.n_rank = n_rank, .threads = threads_per_rank(c, ranks_here), .isa = pst_cpu_isa(),
                                   .n_eval_micro = n_micro, .vocabulary = d->row->vocabulary(d)};
    pst_status status = pst_prepare(c, &options, &p);
    if (status == PST_OK) status = pst_prepare_fits(p, memory_limit(c, ranks_here));
    if (status != PST_OK) {
        pst_prepared_close(p);
        d->row->close(d);
        return status;
    }
    *data = d;
    *prepared = p;
    return PST_OK;
}

static int exists(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0;
}

/* mkdir -p. */
static pst_status make_folders(const char *path) {
    char part[1024];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return pst_fail(PST_ENOMEM, "%s: %s", part, strerror(errno));
        if (!slash) return PST_OK;
        *slash = '/';
    }
}

/* A resumed run goes on in its own folder; a new one gets runs/NAME, or runs/NAME-2, ... when that is taken. */
static pst_status choose_folder(const pst_trainer *t, char *out, size_t bytes) {
    const char *resume = t->options->resume;
    if (resume && *resume) {
        char *end = strstr(strcpy(out, resume), "/checkpoints");
        if (end) *end = 0;
        return PST_OK;
    }
    snprintf(out, bytes, "%s/%s", t->options->runs, t->config->name);
    for (int k = 2; exists(out) && k < 10000; k++) snprintf(out, bytes, "%s/%s-%d", t->options->runs, t->config->name, k);
    return make_folders(out);
}

static pst_status write_text(const char *folder, const char *name, pst_status (*print)(const void *, FILE *),
                             const void *what) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f) return pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    pst_status status = print(what, f);
    if (fclose(f) != 0 && status == PST_OK) status = pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    return status;
}

static pst_status print_config(const void *what, FILE *f) { return pst_config_print(what, f); }
static pst_status print_plan(const void *what, FILE *f) {
    const pst_prepared *p = what;
    return pst_plan_print(p->plan, p->graph, f);
}

/* Rank 0 makes the folder and tells the others its name. */
static pst_status open_folder(pst_trainer *t) {
    pst_status status = PST_OK;
    if (t->group->leader) {
        status = choose_folder(t, t->folder, sizeof t->folder);
        if (status == PST_OK) status = write_text(t->folder, "run.yaml", print_config, t->config);
        if (status == PST_OK) status = write_text(t->folder, "plan.yaml", print_plan, t->p);
    }
    PST_TRY(pst_group_agree(t->group, status));
    return pst_group_broadcast(t->group, t->folder, sizeof t->folder, 0);
}

static pst_status open_weights(pst_trainer *t) {
    const char *resume = t->options->resume;
    for (uint32_t i = 0; i < t->group->n_local; i++) PST_TRY(pst_rank_init_weights(t->group->local[i]));
    t->best_loss = INFINITY;
    t->validation_loss = NAN;
    t->checkpointed = UINT64_MAX;
    if (resume && *resume) return pst_save_resume(t);
    if (*t->config->model.weights) return pst_save_import(t, t->config->model.weights);
    return PST_OK;
}

static pst_status open_metrics(pst_trainer *t) {
    const pst_prepared *p = t->p;
    double peak = 0;
    pst_status status = PST_OK;
    if (t->group->leader) {
        peak = pst_cpu_peak_flops(p->options.isa, p->options.threads) * p->options.n_rank;
        status = pst_metrics_open(p, t->folder, t->step, peak, t->options->quiet, &t->metrics);
    }
    PST_TRY(pst_group_agree(t->group, status));
    t->report = calloc(p->options.n_rank, sizeof *t->report);
    if (!t->report) return pst_fail(PST_ENOMEM, "no memory for reports of %u ranks", p->options.n_rank);
    return pst_fit_open(p, &t->fit);
}

static void announce(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    uint64_t params = 0, most = 0;
    if (!t->group->leader || t->options->quiet) return;
    for (uint32_t i = 0; i < p->graph->n_param; i++) params += pst_param_elements(p->graph->param + i);
    for (uint32_t r = 0; r < p->options.n_rank; r++) most = p->layout[r]->total > most ? p->layout[r]->total : most;
    printf("%s: %s, %.2f M parameters, %u rank%s x %u thread%s, %s, %u micro-batches of %u\n", t->config->name,
           p->graph->name, (double)params / 1e6, p->options.n_rank, p->options.n_rank > 1 ? "s" : "", p->options.threads,
           p->options.threads > 1 ? "s" : "", p->plan->schedule, p->plan->n_micro, p->plan->micro_batch);
    printf("predicted: bubble %.1f%%, peak memory %.1f MiB on the largest rank\n", p->timing->bubble * 100,
           (double)most / 1048576.0);
    if (p->plan->n_micro < p->options.n_rank)
        pst_log(PST_LOG_WARN, "%u micro-batches cannot fill %u stages: %.0f%% of the time is bubble; use a smaller "
                "train.micro_batch or a larger train.batch", p->plan->n_micro, p->options.n_rank, p->timing->bubble * 100);
    fflush(stdout);
}

/* --- one step --------------------------------------------------------------------------------------------------- */

/* Linear warm-up, then cosine or linear decay to lr_min at the last step, or none. step counts from 0. */
static double learning_rate(const pst_config *c, uint64_t step) {
    double lr = c->train.lr, low = c->train.lr_min;
    if (step < (uint64_t)c->train.warmup) return lr * (double)(step + 1) / (double)c->train.warmup;
    if (!strcmp(c->train.decay, "none") || c->train.steps <= c->train.warmup) return lr;
    double x = (double)(step - (uint64_t)c->train.warmup) / (double)(c->train.steps - c->train.warmup);
    return low + (lr - low) * (!strcmp(c->train.decay, "linear") ? 1 - x : 0.5 * (1 + cos(3.14159265358979323846 * x)));
}

static pst_optim_hyper hyper_parameters(const pst_config *c, uint64_t step) {
    double t = (double)(step + 1);
    return (pst_optim_hyper){.lr = (float)learning_rate(c, step), .decay = (float)c->train.weight_decay,
                             .beta1 = (float)c->train.beta1, .beta2 = (float)c->train.beta2, .eps = (float)c->train.eps,
                             .momentum = (float)c->train.momentum, .grad_scale = 1.0f, .t = step + 1,
                             .correction1 = (float)(1 - pow(c->train.beta1, t)),
                             .correction2 = (float)(1 - pow(c->train.beta2, t))};
}

/* Anonymous and shared resident bytes of this process. */
static uint64_t resident_bytes(void) {
    unsigned long long kib, sum = 0;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %llu", &kib) == 1 || sscanf(line, "RssShmem: %llu", &kib) == 1) sum += kib * 1024;
    if (f) fclose(f);
    return sum;
}

/* What one rank measured in the step just done. */
static pst_report report_of(const pst_rank *r, uint64_t wall_ns) {
    const pst_instr_list *list = &r->p->job->list[r->rank];
    pst_report out = {.wall_ns = wall_ns, .stop = stop_signals != 0, .resident_bytes = resident_bytes(),
                      .peak_bytes = pst_arena_touched(&r->arena, 0, r->arena.bytes)};
    const pst_span *span = pst_executor_spans(r->executor, &out.origin_ns);
    uint64_t count[PST_OP_COUNT] = {0}, first = PST_NEVER, last = 0, end = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        uint8_t op = list->instr[i].opcode;
        uint64_t ns = span[i].end - span[i].start;
        out.op_ns[op] += ns, count[op]++;
        if (span[i].end > end) end = span[i].end;
        if (op > PST_OP_BW) continue;
        out.busy_ns += ns;
        if (span[i].start < first) first = span[i].start;
        if (span[i].end > last) last = span[i].end;
    }
    for (int op = 0; op < PST_OP_COUNT; op++) out.op_ns[op] /= count[op] ? count[op] : 1;
    out.span_ns = last - first;
    out.flush_ns = end - last;
    return out;
}

static pst_status gather_reports(pst_trainer *t, uint64_t wall_ns) {
    pst_report *mine = calloc(t->group->n_local, sizeof *mine);
    if (!mine) return pst_fail(PST_ENOMEM, "no memory for reports");
    for (uint32_t i = 0; i < t->group->n_local; i++) mine[i] = report_of(t->group->local[i], wall_ns);
    pst_status status = pst_group_all_gather(t->group, mine, sizeof *mine, t->report);
    free(mine);
    return status;
}

static void write_metrics(pst_trainer *t, uint64_t wall_ns) {
    const pst_prepared *p = t->p;
    const pst_rank *r = t->group->local[0];
    double tokens = (double)p->config->train.batch * p->model_config.context;
    uint32_t longest = 0;
    for (uint32_t k = 1; k < p->options.n_rank; k++)
        if (t->report[k].span_ns > t->report[longest].span_ns) longest = k;
    const pst_report *l = &t->report[longest];
    pst_metrics_step s = {.step = t->step, .loss = r->loss_sum / tokens, .lr = learning_rate(p->config, t->step - 1),
                          .grad_norm = r->grad_norm, .step_s = (double)wall_ns * 1e-9,
                          .bubble = l->span_ns ? 1 - (double)l->busy_ns / (double)l->span_ns : 0,
                          .predicted_step_s = pst_fit_step_s(t->fit), .predicted_bubble = pst_fit_bubble(t->fit),
                          .tokens = t->step * (uint64_t)tokens};
    pst_metrics_step_done(t->metrics, &s, t->report);
}

static pst_status train_step(pst_trainer *t) {
    uint64_t began = pst_monotonic_ns();
    PST_TRY(pst_feed_batch(t, t->step * (uint64_t)t->config->train.batch));
    for (uint32_t i = 0; i < t->group->n_local; i++) t->group->local[i]->hyper = hyper_parameters(t->config, t->step);
    PST_TRY(pst_group_run(t->group, 1));
    uint64_t wall_ns = pst_monotonic_ns() - began;
    t->step++;
    t->validation_loss = NAN; /* of these weights: not measured yet */
    PST_TRY(gather_reports(t, wall_ns));
    if (t->metrics) write_metrics(t, wall_ns);
    return pst_fit_add(t->fit, t->report);
}

/* --- timeline --------------------------------------------------------------------------------------------------- */

static pst_status write_timeline(const pst_trainer *t, pst_span *const *span) {
    char path[1024], title[160];
    snprintf(title, sizeof title, "%s, step %" PRIu64 ", measured: %s, %u stages, %u micro-batches", t->config->name, t->step,
             t->p->plan->schedule, t->p->options.n_rank, t->p->plan->n_micro);
    for (int svg = 0; svg < 2; svg++) {
        snprintf(path, sizeof path, "%s/%s", t->folder, svg ? "timeline.svg" : "trace.json");
        FILE *f = fopen(path, "w");
        if (!f) return pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
        pst_status status = svg ? pst_timeline_svg(t->p->job, span, title, f) : pst_timeline_trace(t->p->job, span, f);
        if (fclose(f) != 0 && status == PST_OK) status = pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
        PST_TRY(status);
    }
    return PST_OK;
}

/* Gathers every rank's spans of the step just done on one time axis and draws them. */
static pst_status trace_step(pst_trainer *t) {
    uint32_t n = t->p->options.n_rank, most = 0;
    uint64_t first = PST_NEVER;
    for (uint32_t r = 0; r < n; r++) {
        if (t->p->job->list[r].n_instr > most) most = t->p->job->list[r].n_instr;
        if (t->report[r].origin_ns < first) first = t->report[r].origin_ns;
    }
    pst_span *mine = calloc((size_t)t->group->n_local * most, sizeof *mine), *all = calloc((size_t)n * most, sizeof *all);
    pst_span **span = calloc(n, sizeof *span);
    pst_status status = mine && all && span ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a timeline");
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) {
        const pst_rank *r = t->group->local[i];
        uint64_t origin;
        memcpy(mine + (size_t)i * most, pst_executor_spans(r->executor, &origin),
               t->p->job->list[r->rank].n_instr * sizeof *mine);
    }
    if (status == PST_OK) status = pst_group_all_gather(t->group, mine, most * sizeof *mine, all);
    for (uint32_t r = 0; status == PST_OK && r < n; r++) {
        span[r] = all + (size_t)r * most;
        for (uint32_t i = 0; i < t->p->job->list[r].n_instr; i++)
            span[r][i].start += t->report[r].origin_ns - first, span[r][i].end += t->report[r].origin_ns - first;
    }
    if (status == PST_OK && t->group->leader && write_timeline(t, span) != PST_OK)
        pst_log(PST_LOG_WARN, "no timeline: %s", pst_error());
    free(mine), free(all), free(span);
    return status;
}

/* --- the loop --------------------------------------------------------------------------------------------------- */

static int due(int64_t every, uint64_t step) { return every > 0 && step % (uint64_t)every == 0; }

static pst_status validate(pst_trainer *t) {
    uint64_t tokens;
    PST_TRY(pst_feed_validate(t, &t->validation_loss, &tokens));
    if (t->metrics && tokens) pst_metrics_validation(t->metrics, t->step, t->validation_loss, tokens);
    return PST_OK;
}

/* A checkpoint that cannot be written is said and survived; a dead peer is not. */
static pst_status checkpoint(pst_trainer *t) {
    char path[1100];
    if (t->checkpointed == t->step) return PST_OK;
    pst_status status = pst_save(t, path, sizeof path);
    if (t->metrics) pst_metrics_checkpoint(t->metrics, t->step, path, status);
    if (status == PST_OK) t->checkpointed = t->step;
    return status == PST_EPEER ? status : PST_OK;
}

static int asked_to_stop(const pst_trainer *t) {
    for (uint32_t r = 0; r < t->p->options.n_rank; r++)
        if (t->report[r].stop) return 1;
    return 0;
}

static pst_status loop(pst_trainer *t, int *stopped) {
    uint64_t steps = (uint64_t)t->config->train.steps;
    uint64_t traced = t->config->log.trace ? (uint64_t)t->config->log.trace : steps > 1 ? steps - 1 : steps;
    while (t->step < steps && !*stopped) {
        PST_TRY(train_step(t));
        *stopped = asked_to_stop(t);
        if (t->step == traced) PST_TRY(trace_step(t));
        if (due(t->config->train.validate_every, t->step) && t->step < steps) PST_TRY(validate(t));
        if (due(t->config->checkpoint.every, t->step) && t->step < steps) PST_TRY(checkpoint(t));
    }
    return PST_OK;
}

static pst_status finish(pst_trainer *t, int stopped) {
    uint64_t hash = 0;
    if (!stopped) PST_TRY(validate(t));
    PST_TRY(checkpoint(t));
    PST_TRY(pst_save_weights_hash(t, &hash));
    if (!t->metrics) return PST_OK;
    pst_metrics_end(t->metrics, t->step, hash, stopped ? "interrupted" : "done");
    if (t->options->quiet) return PST_OK;
    printf("%s after step %" PRIu64 "; weights %016" PRIx64 "\n", stopped ? "stopped" : "done", t->step, hash);
    printf("metrics     %s/metrics.jsonl\n", t->folder);
    if (!stopped) printf("timeline    %s/timeline.svg, trace.json\n", t->folder);
    if (t->checkpointed == t->step) printf("checkpoint  %s/checkpoints/step-%08" PRIu64 "\n", t->folder, t->step);
    fflush(stdout);
    return PST_OK;
}

static pst_status run(pst_trainer *t, uint32_t n_rank) {
    int stopped = 0;
    uint32_t ranks_here = t->world->size == 1 ? n_rank : t->world->local_size;
    PST_TRY(prepare(t->config, n_rank, ranks_here, &t->data, &t->p));
    PST_TRY(pst_group_open(t->world, t->config->parallel.transport, n_rank, &t->group));
    t->world = NULL;
    PST_TRY(pst_group_open_ranks(t->group, t->p, 1));
    PST_TRY(open_folder(t));
    PST_TRY(open_weights(t));
    PST_TRY(open_metrics(t));
    announce(t);
    PST_TRY(loop(t, &stopped));
    return finish(t, stopped);
}

/* Runs this process' part of the job. Takes the world over. */
static pst_status train_here(const pst_config *c, const pst_train_options *o, pst_world *world, uint32_t n_rank) {
    pst_trainer t = {.config = c, .options = o, .world = world};
    saved_signals saved;
    catch_signals(&saved);
    int launched = world->launched_by_us;
    pst_status status = run(&t, n_rank);
    release_signals(&saved);
    if (status == PST_EPEER && launched) pst_error_clear(); /* our launcher names the culprit, once */
    pst_fit_close(t.fit);
    pst_metrics_close(t.metrics);
    if (t.group) pst_group_close(t.group, status != PST_OK);
    if (t.world) t.world->ops->close(t.world);
    if (t.data) t.data->row->close(t.data);
    pst_prepared_close(t.p);
    free(t.report);
    return status;
}

/* Starts local ranks of this program and waits for them. What the user got wrong is found here, once, before that. */
static pst_status train_local(const pst_config *c, const pst_train_options *o, uint32_t n_rank) {
    pst_data *data;
    pst_prepared *p;
    int exit_status = 0;
    PST_TRY(prepare(c, n_rank, n_rank, &data, &p));
    data->row->close(data);
    pst_prepared_close(p);
    PST_TRY(pst_launch_local(n_rank, o->argv, 3000, &exit_status));
    if (!exit_status) return PST_OK;
    for (pst_status s = PST_EINPUT; s <= PST_EINTERNAL; s++)
        if (pst_status_exit(s) == exit_status) return pst_error_clear(), s; /* the ranks and the launcher have said why */
    return pst_fail(PST_EINTERNAL, "the job failed with exit status %d", exit_status);
}

pst_status pst_train(const pst_config *c, const pst_train_options *o) {
    const pst_world_ops *ops = pst_registry_world();
    int alone = !strcmp(ops->name, "single"), self = !strcmp(c->parallel.transport, "self");
    pst_world *world;
    uint32_t n_rank;
    if (alone) {
        PST_TRY(pst_prepare_ranks(c, o->ranks, &n_rank));
        if (n_rank > 1 && !self && o->argv) return train_local(c, o, n_rank);
    }
    PST_TRY(ops->open(&world));
    if (!alone || world->size > 1) {
        pst_log_set_rank((int)world->rank);
        pst_status status = pst_prepare_ranks(c, world->size, &n_rank);
        if (status == PST_OK && self && world->size > 1)
            status = pst_fail(PST_EINPUT, "transport self runs all ranks in one process, but this job has %u processes", world->size);
        if (status != PST_OK) {
            world->ops->close(world);
            return status;
        }
    }
    return train_here(c, o, world, n_rank);
}
