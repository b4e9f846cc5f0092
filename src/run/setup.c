/* Set-up before the first step: makes every check that is possible, creates the run's folder, and
 * initialises the weights. */
#include "backends/machine.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/base.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "run/async.h"
#include "run/resume.h"
#include "run/saving.h"
#include "comm/transport/transport.h"
#include "comm/world/world.h"
#include "data/encode.h"
#include "prepare/planned.h"
#include "run/autotune.h"
#include "run/collectives.h"
#include "run/elastic.h"
#include "group/compare.h"
#include "group/link.h"
#include "group/placement.h"
#include "run/length.h"
#include "run/setup.h"
#include "run/step.h"
#include "run/feed.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- checks before the start ------------------------------------------------------------------ */

uint32_t pst_setup_threads(const pst_config *c, const pst_world *world, uint32_t ranks_here) {
    return c->parallel.threads ? (uint32_t)c->parallel.threads
                               : pst_placement_threads(world, ranks_here);
}

/* The memory limit of a rank: parallel.memory, else its share of the machine's free memory, and of
 * what the ranks have already and use again (held); a device with its own memory checks the limit
 * when it is opened. */
static uint64_t memory_limit(const pst_config *c, const pst_device_ops *device, uint32_t ranks_here,
                             uint64_t held) {
    const uint64_t memory = pst_machine_memory();
    if (c->parallel.memory > 0) return (uint64_t)c->parallel.memory;
    if (device->flags & PST_DEVICE_OWN_MEMORY || !memory) return 0;
    return (memory + held) / ranks_here;
}

/* Checks the files that the run starts from: headers and shapes, not the tensors' bytes. */
static pst_status check_sources(const pst_prepared *p, pst_data *data, const char *resume) {
    if (resume && *resume) return pst_resume_check(p, data, resume);
    return *p->config->model.weights ? pst_resume_check_hf(p, p->config->model.weights) : PST_OK;
}

static pst_status cannot_create(const char *folder) {
    return pst_fail(pst_status_of_errno(errno), "cannot create the folder %s: %s", folder,
                    strerror(errno));
}

pst_status pst_setup_parents(const char *path) {
    char part[PST_TRAINER_FOLDER];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return cannot_create(part);
        *slash = '/';
    }
    return PST_OK;
}

/* Checks that the folder of a new run can be created. */
static pst_status check_runs(const pst_train_options *o) {
    char inside[PST_TRAINER_FOLDER];
    if (*o->resume) return PST_OK;
    if (snprintf(inside, sizeof inside, "%s/.", o->runs) >= (int)sizeof inside)
        return pst_fail(PST_EINPUT, "the path of the runs' folder, '%.60s...', is too long",
                        o->runs);
    pst_status status = pst_setup_parents(inside);
    if (status == PST_OK && access(inside, W_OK | X_OK) != 0)
        status = pst_fail(pst_status_of_errno(errno), "cannot create the run's folder in %s: %s",
                          o->runs, strerror(errno));
    return status == PST_EINPUT
               ? pst_fail(status, "%s; use --runs DIR to choose another folder", pst_error())
               : status;
}

pst_status pst_setup_placement(const pst_config *c, const pst_plan *plan, uint32_t n_rank,
                               pst_world **world) {
    uint32_t *place = calloc(2 * (size_t)n_rank, sizeof *place), moved = 0;
    if (!place) return pst_fail(PST_ENOMEM, "no memory for %u ranks", n_rank);
    pst_status status = pst_prepare_assign_devices(c, plan, n_rank, place, place + n_rank);
    for (uint32_t r = 0; r < n_rank; r++) moved |= place[n_rank + r] != r;
    if (status == PST_OK && moved && (*world)->size == n_rank)
        status = pst_world_reorder(world, place + n_rank);
    if (status == PST_OK && (*world)->size > 1) pst_log_set_rank((int)(*world)->rank);
    free(place);
    return status;
}

/* Which ranks share a host, if it decides what is packed (parallel.compress.links), or how replicas
 * exchange gradients (parallel.exchange). Collective. The caller frees *host. */
static pst_status find_hosts(const pst_config *c, pst_world *world, uint32_t n_rank,
                             uint32_t **host) {
    const int packs =
        strcmp(c->parallel.compress.up, "none") || strcmp(c->parallel.compress.stages, "none");
    const int asks = packs || strcmp(c->parallel.exchange, "flat") != 0;
    if (!asks || !world || world->size < n_rank || world->size == 1) return PST_OK;
    if (!(*host = calloc(world->size, sizeof **host)))
        return pst_fail(PST_ENOMEM, "no memory for %u ranks", n_rank);
    return pst_world_hosts(world, *host);
}

pst_status pst_setup_plan(const pst_config *c, pst_prepare_options options, pst_world *world,
                          pst_prepared **prepared) {
    pst_prepared *p;
    uint32_t ranks_here = world && world->size > 1 ? world->local_size : options.n_rank;
    options.threads = pst_setup_threads(c, world, ranks_here);
    options.processors = pst_placement_processors(world);
    options.local = world && world->size > 1 ? 1 + world->local_rank : 0;
    options.ranks_here = ranks_here;
    options.n_eval_micro = pst_config_micros(c);
    PST_TRY(pst_prepare_kind(c, &options));
    uint32_t *host = NULL;
    pst_status status = find_hosts(c, world, options.n_rank, &host);
    options.host = host;
    if (status == PST_OK) status = pst_prepare(c, &options, &p);
    free(host);
    PST_TRY(status);
    p->memory_limit = memory_limit(c, options.device, ranks_here, world ? world->held : 0);
    status = pst_prepare_fits(p, p->memory_limit);
    if (status == PST_OK) status = pst_collectives_check(p);
    if (status == PST_OK) *prepared = p;
    else pst_prepared_close(p);
    return status;
}

/* Text is encoded before local ranks start, by all processors, or by the ranks of a job. Ranks that
 * this host's launcher starts find it encoded, and told. */
static void set_encoding(const pst_world *world, uint32_t n_rank) {
    int alone = !world || world->size == 1;
    int told = world && world->launched_by_us && world->local_size == n_rank && n_rank > 1;
    pst_encode_set_ranks(alone ? 1 : world->local_size, alone || (!world->rank && !told));
}

/* checkpoint.best must name something that is evaluated, and has the metric. */
static pst_status check_best(const pst_config *c, const pst_model_config *sizes,
                             const pst_evaluate_sets *sets) {
    const pst_evaluation split = {0};
    const char *best = c->checkpoint.best;
    const int answers = sizes->bert.labels || sizes->bert.next_sentence > 0;
    if (!strcmp(c->checkpoint.metric, "accuracy") && !answers)
        return pst_config_at(c, "checkpoint", "metric",
                             pst_fail(PST_EINPUT,
                                      "checkpoint.metric is accuracy, but the model gives neither "
                                      "labels (model.task classification) nor answers "
                                      "(model.next_sentence); use loss"));
    if (pst_evaluate_named(sets, best, &split)) return PST_OK;
    return pst_config_at(c, "checkpoint", "best",
                         pst_fail(PST_EINPUT,
                                  "checkpoint.best is %s; expected validation or a name of "
                                  "eval.sets",
                                  best));
}

pst_status pst_setup_prepare(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                             uint32_t n_rank, pst_world *world, pst_run_inputs *inputs) {
    const pst_model_row *model;
    pst_model_config sizes;
    pst_data *d = NULL;
    pst_prepared *p = NULL;
    pst_evaluate_sets sets = {0};
    /* first: a tokenizer of another size gives another model, and encoding may take hours */
    if (*o->resume) PST_TRY(pst_resume_check_tokenizer(c, o->resume));
    PST_TRY(pst_prepare_model(c, &model, &sizes));
    set_encoding(world, n_rank);
    PST_TRY(pst_evaluate_data(c, &sizes, c->data.paths, c->data.n_path, 0, &d));
    pst_prepare_options options = {
        .n_rank = n_rank, .plan = plan, .smaller = 1, .twins = pst_elastic_is_wanted(c, o)};
    const pst_direct_ops *direct;
    uint32_t ranks_here = world && world->size > 1 ? world->local_size : n_rank;
    pst_status status = pst_evaluate_open(c, &sizes, &sets);
    if (status == PST_OK) status = check_best(c, &sizes, &sets);
    if (status == PST_OK) status = pst_setup_plan(c, options, world, &p);
    if (status == PST_OK) status = pst_length_resolve(c, p, d);
    if (status == PST_OK)
        status = pst_registry_direct(c->parallel.transport, p->options.device, ranks_here, &direct);
    if (status == PST_OK) status = pst_autotune_load(p, plan, o->resume);
    if (status == PST_OK) status = pst_feed_check(p, d);
    if (status == PST_OK) status = check_sources(p, d, o->resume);
    if (status == PST_OK) status = check_runs(o);
    if (status == PST_OK) status = pst_async_check(p, o);
    if (status != PST_OK) {
        pst_prepared_close(p);
        pst_evaluate_close(&sets);
        d->row->close(d);
        return status;
    }
    *inputs = (pst_run_inputs){d, sets, p};
    return PST_OK;
}

void pst_setup_log(const char *level) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(level, names[i])) pst_log_set_level((pst_log_level)i);
}

/* --- the ranks -------------------------------------------------------------------------------- */

pst_status pst_setup_ranks(pst_trainer *t) {
    const pst_device_ops *device = t->p->options.device;
    /* The transport nccl moves device memory itself. */
    pst_transport_ucx_cuda(device && device->flags & PST_DEVICE_CUDA &&
                           strcmp(t->config->parallel.transport, "nccl"));
    PST_TRY(
        pst_group_open(t->world, t->config->parallel.transport, t->p->options.n_rank, &t->group));
    t->world = NULL;
    PST_TRY(pst_group_open_ranks(t->group, t->p, 1));
    PST_TRY(pst_autotune_agree(t->group, t->p));
    PST_TRY(pst_compare_prepared(t->group, t->p, t->data, &t->sets));
    PST_TRY(pst_group_watch_self(t->group, t->p));
    return pst_link_measure(t->group, t->p);
}

/* --- the folder ------------------------------------------------------------------------------- */

/* Creates runs/NAME, or runs/NAME-2, ... if that exists. */
static pst_status make_folder(const pst_trainer *t, char out[PST_TRAINER_FOLDER]) {
    const char *name = t->config->name, *runs = t->options->runs;
    for (int k = 1; k < 10000; k++) {
        int used = k == 1 ? snprintf(out, PST_TRAINER_FOLDER, "%s/%s", runs, name)
                          : snprintf(out, PST_TRAINER_FOLDER, "%s/%s-%d", runs, name, k);
        if (used >= PST_TRAINER_FOLDER)
            return pst_fail(PST_EINPUT, "the path of the run's folder below '%.60s...' is too long",
                            runs);
        if (k == 1) PST_TRY(pst_setup_parents(out));
        if (mkdir(out, 0777) == 0) return PST_OK;
        if (errno != EEXIST) return cannot_create(out);
    }
    return pst_fail(PST_EINPUT,
                    "%s/%s-2 to -9999 exist: remove some of these folders, or choose another name",
                    runs, name);
}

/* A run that resumes from its newest checkpoint goes on in its own folder. From an older
 * checkpoint, or one outside of a run's folder, it gets a new folder, so that nothing is
 * overwritten. *made: it is new. */
static pst_status choose_folder(const pst_trainer *t, char out[PST_TRAINER_FOLDER], int *made) {
    char run[PST_TRAINER_FOLDER] = "";
    if (pst_elastic_find_folder(t, out)) return PST_OK;
    if (!*t->options->resume) {
        PST_TRY(make_folder(t, out));
        *made = 1;
        return PST_OK;
    }
    PST_TRY(pst_ckpt_resumed_run(t->options->resume, run, sizeof run));
    if (!*run) {
        PST_TRY(make_folder(t, out));
        *made = 1;
        pst_log(PST_LOG_INFO,
                "%s is not the newest checkpoint of a run; the resumed run is written to %s",
                t->options->resume, out);
        return PST_OK;
    }
    strcpy(out, run);
    return PST_OK;
}

/* Finds the checkpoint to resume from, once for all ranks, when the folder is locked. */
static pst_status find_resumed(pst_trainer *t) {
    char *found, checkpoints[PST_TRAINER_FOLDER + 16];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", t->folder);
    pst_ckpt_clean(checkpoints); /* incomplete files of a run that died */
    int in_memory;
    const int goes_back = pst_elastic_goes_on(t, &in_memory) && !in_memory &&
                          pst_ckpt_before(checkpoints, 1, UINT64_MAX) != UINT64_MAX;
    if (!*t->options->resume && !goes_back) return PST_OK;
    PST_TRY(pst_ckpt_find(goes_back ? t->folder : t->options->resume, &found));
    uint64_t broken = pst_ckpt_before(checkpoints, 0, UINT64_MAX),
             good = pst_ckpt_before(checkpoints, 1, UINT64_MAX);
    if (broken != UINT64_MAX && good != UINT64_MAX && broken > good)
        pst_log(PST_LOG_WARN,
                "%s/step-%08" PRIu64
                " is incomplete (no index.json); resuming from step-%08" PRIu64,
                checkpoints, broken, good);
    int used = snprintf(t->resume, sizeof t->resume, "%s", found);
    free(found);
    return used < (int)sizeof t->resume
               ? PST_OK
               : pst_fail(PST_EINPUT, "the path '%.60s...' is too long", t->resume);
}

static pst_status write_text(const char *folder, const char *name, pst_file_printer print,
                             const void *what) {
    char path[PST_TRAINER_FOLDER + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return pst_file_replace_own(path, print, what);
}

static pst_status print_config(const void *what, FILE *f) {
    return pst_saving_print_config(what, f);
}
static pst_status print_plan(const void *what, FILE *f) {
    const pst_prepared *p = what;
    return pst_plan_print(p->plan, p->grid.tensor_before ? p->whole : p->graph, f);
}

/* So that the run's folder can be moved without the files that the run began with. made: 1: the
 * folder is new. */
static pst_status keep_tokenizer(const pst_config *c, const char *folder, int made) {
    char to[PST_TRAINER_FOLDER + 32];
    pst_tokenizer *tokenizer;
    if (!pst_config_has_tokenizer(c)) return PST_OK;
    snprintf(to, sizeof to, "%s/" PST_CKPT_TOKENIZER, folder);
    if (!made && access(to, F_OK) != 0)
        pst_log(PST_LOG_WARN, "%s is missing; it is copied from %s", to, c->data.tokenizer);
    pst_status status = pst_tokenizer_open(c->data.tokenizer, &tokenizer);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_ckpt_tokenizer_copy(tokenizer, to);
    pst_tokenizer_close(tokenizer);
    return status;
}

static pst_status write_config(const pst_trainer *t) {
    const pst_config *c = t->saved_config ? t->saved_config : t->config;
    return write_text(t->folder, "run.yaml", print_config, c);
}

/* In an elastic run the lock may be held by a rank of a host that is cut off and has not ended yet:
 * such ranks end within PATIENCE_NS. */
#define PATIENCE_NS UINT64_C(20000000000)

static pst_status lock_folder(pst_trainer *t) {
    const struct timespec pause = {.tv_nsec = 100000000};
    const uint64_t until = pst_monotonic_ns() + PATIENCE_NS;
    pst_status status = pst_durable_lock(t->folder, &t->lock);
    while (status == PST_EINPUT && pst_elastic_goes_on(t, NULL) && pst_monotonic_ns() < until) {
        nanosleep(&pause, NULL);
        status = pst_durable_lock(t->folder, &t->lock);
    }
    return status;
}

/* Rank 0 creates and locks the folder, and broadcasts its name. */
pst_status pst_setup_folder(pst_trainer *t) {
    pst_status status = PST_OK;
    if (t->group->leader) {
        int made = 0;
        status = choose_folder(t, t->folder, &made);
        if (status == PST_OK) pst_elastic_note_folder(t);
        if (status == PST_OK) status = lock_folder(t);
        if (status == PST_OK) status = find_resumed(t);
        if (status == PST_OK) status = keep_tokenizer(t->config, t->folder, made);
        if (status == PST_OK) status = write_config(t);
        if (status == PST_OK) status = write_text(t->folder, "plan.yaml", print_plan, t->p);
        if (status != PST_OK && made) pst_durable_remove(t->folder);
    }
    PST_TRY(pst_group_agree(t->group, status));
    PST_TRY(pst_group_broadcast(t->group, t->resume, sizeof t->resume, 0));
    PST_TRY(pst_group_broadcast(t->group, t->folder, sizeof t->folder, 0));
    pst_elastic_note_folder(t);
    return PST_OK;
}

/* --- weights, metrics ------------------------------------------------------------------------- */

pst_status pst_setup_weights(pst_trainer *t) {
    const uint64_t began = pst_monotonic_ns();
    int in_memory;
    pst_elastic_goes_on(t, &in_memory);
    for (uint32_t i = 0; i < t->group->n_local; i++)
        PST_TRY(in_memory ? pst_rank_init_others(t->group->local[i])
                          : pst_rank_init_weights(t->group->local[i]));
    t->best_loss = INFINITY;
    t->validation_loss = t->chosen_loss = NAN;
    t->checkpointed = UINT64_MAX;
    if (*t->config->model.weights && ((!*t->resume && !in_memory) || pst_ckpt_has_base(t->config)))
        PST_TRY(pst_resume_read_hf_all(t, t->config->model.weights));
    for (uint32_t i = 0; i < t->group->n_local; i++)
        PST_TRY(pst_rank_begin_outer(t->group->local[i]));
    if (in_memory) PST_TRY(pst_elastic_read(t));
    else if (*t->resume) PST_TRY(pst_resume_read(t));
    for (uint32_t i = 0; i < t->group->n_local; i++) PST_TRY(pst_rank_refresh(t->group->local[i]));
    pst_elastic_moved(t, began);
    pst_elastic_went_back(t);
    return PST_OK;
}

pst_status pst_setup_buffers(pst_trainer *t) {
    uint32_t n = t->p->options.n_rank;
    t->report = calloc(n, sizeof *t->report);
    t->own_report = calloc(t->group->n_local, sizeof *t->own_report);
    const size_t reports = pst_trainer_is_loose(t) ? PST_REPORTS : 1;
    t->pending_report = calloc(t->group->n_local * reports, sizeof *t->pending_report);
    t->gathered_report = calloc(n * reports, sizeof *t->gathered_report);
    t->proc_status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    t->culprit = calloc(n, sizeof *t->culprit);
    t->own_culprit = calloc(t->group->n_local, sizeof *t->own_culprit);
    if (!t->report || !t->own_report || !t->pending_report || !t->gathered_report || !t->culprit ||
        !t->own_culprit)
        return pst_fail(PST_ENOMEM, "no memory for reports of %u ranks", n);
    return pst_prediction_open(t->p, &t->prediction);
}

/* mpirun gives rank 0 a terminal even if its output is redirected. */
static pst_metrics_show what_to_show(const pst_trainer *t) {
    const pst_world *w = t->group->world;
    if (t->options->quiet) return PST_SHOW_NOTHING;
    return w->size == 1 || w->launched_by_us ? PST_SHOW_LIVE : PST_SHOW_LINES;
}

pst_status pst_setup_metrics(pst_trainer *t) {
    const pst_prepared *p = t->p;
    pst_status status = pst_setup_buffers(t);
    if (status == PST_OK) status = pst_feed_open(t);
    if (t->group->leader && status == PST_OK) {
        pst_metrics_options o = {.folder = t->folder,
                                 .keep_steps = t->step,
                                 .again = pst_elastic_goes_on(t, NULL),
                                 .show = what_to_show(t),
                                 .passes = pst_feed_passes(t)};
        pst_prepare_peak(p, &o.peak);
        o.peak.flops *= p->options.n_rank;
        status = pst_metrics_open(p, &o, &t->metrics);
    }
    return pst_group_agree(t->group, status);
}

void pst_setup_close(pst_trainer *t) {
    pst_prediction_close(t->prediction);
    pst_feed_close(t);
    free(t->report);
    free(t->own_report);
    free(t->pending_report);
    free(t->gathered_report);
    free(t->culprit);
    free(t->own_culprit);
    if (t->proc_status >= 0) close(t->proc_status);
    if (t->lock >= 0) close(t->lock);
}
