/* Checkpoints while training goes on. Every rank writes its shard in the background, first the
 * parameters that STEP will change first (shard.h). The reports that all ranks exchange after every
 * step contain the progress of each, so all agree on the next phase without waiting for each other;
 * at the end rank 0 commits the checkpoint. */
#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/base.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/saver.h"
#include "run/saving.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { NOTHING, WRITING, COMMITTING } phase;

/* Of a parameter: weight, copy, residual, second moments, basis, kept, residual of differences,
 * outer weight and momentum. */
enum { ENTRIES = 9 };
static const uint64_t GUARD_WAIT_NS = 500000; /* the longest wait before transfers are polled */

/* For one rank: tells STEP whether it may change a parameter. */
typedef struct {
    pst_saving *saving;
    pst_shard *shard;
    /* [n_param] last index in the shard, where copy, residual and outer weights follow the weight;
     * UINT32_MAX: not stored by this rank */
    uint32_t *entry;
    const pst_rank *rank;
    uint32_t side;      /* of the state, from which the shard is written */
    uint32_t n_pending; /* the first entries are pending gradients, of each age in turn */
} guard;

struct pst_saving {
    uint32_t kept; /* kept_fragment of its entries */
    pst_trainer *trainer;
    uint32_t n; /* ranks of this process */
    pst_shard **shard;
    guard *guard;
    pst_ckpt_entry *entry; /* of all shards */
    pst_saver *saver;
    char folder[PST_TRAINER_FOLDER + 16], *config;
    phase phase; /* the same on all ranks */
    int alone;   /* this process has all ranks: it commits as soon as everything is written */
    pst_ckpt_info info;      /* of the checkpoint under way, */
    const char *why;         /* and its purpose */
    double best_before;      /* t->best_loss before it */
    uint64_t bytes, held_ns; /* bytes: of all ranks; held_ns: how long STEPs of this process have
                                waited for it */
    int warned;
};

/* --- set-up ----------------------------------------------------------------------------------- */

/* 1: the parameter's bytes are copied; 0: not yet, after a short wait. */
static int may_change(void *arg, uint32_t param) {
    guard *g = arg;
    if (pst_rank_next_side(g->rank) != g->side) return 1;
    if (g->entry[param] == UINT32_MAX || pst_shard_released(g->shard, g->entry[param], 0)) return 1;
    uint64_t began = pst_monotonic_ns();
    int free_now = pst_shard_released(g->shard, g->entry[param], GUARD_WAIT_NS);
    g->saving->held_ns += pst_monotonic_ns() - began;
    return free_now;
}

/* The part of a parameter that this rank owns and stores. */
static pst_ckpt_entry entry_of(const pst_rank *r, uint32_t i) {
    const pst_prepared *p = r->p;
    const pst_memory_map *x = r->memory;
    uint64_t from = x->own_from[i], n = x->own_to[i] - from;
    pst_ckpt_entry e = {.param = r->graph->param + i,
                        .weight = pst_rank_weight(r, i) + (from - x->step_from[i])};
    if (p->job->islands > 1) e.island = 1 + pst_job_island(p->job, r->place.replica);
    if (n < pst_param_elements(e.param) || e.param->slice.held == PST_HELD_PART) {
        e.from = from;
        e.n = n;
    }
    for (uint32_t j = 0; j < pst_optim_states(p->optim, e.param); j++)
        e.state[j] =
            (const uint8_t *)pst_rank_state(r, i, j) + (from - x->step_from[i]) * x->state_size;
    return e;
}

/* This rank's residual of a parameter. */
static pst_ckpt_entry residual_of(const pst_rank *r, uint32_t i) {
    pst_ckpt_entry e = {.param = r->graph->param + i,
                        .weight = pst_rank_residual(r, i),
                        .residual = 1 + r->place.replica};
    if (e.param->slice.held == PST_HELD_PART) e.n = pst_param_elements(e.param);
    return e;
}

/* This replica's second moments of a parameter. */
static pst_ckpt_entry second_of(const pst_rank *r, uint32_t i) {
    pst_ckpt_entry e = residual_of(r, i);
    e.weight = pst_rank_second(r, i);
    e.second = 1;
    return e;
}

/* This rank's basis of a parameter. */
static pst_ckpt_entry basis_of(const pst_rank *r, uint32_t i) {
    return (pst_ckpt_entry){.param = r->graph->param + i,
                            .weight = pst_rank_basis(r, i),
                            .residual = 1 + r->place.replica,
                            .basis = pst_rank_basis_elements(r, i),
                            .tensor = r->place.tensor};
}

/* The part of the copy of a parameter that is stored like the weight. */
static pst_ckpt_entry copy_of(const pst_rank *r, uint32_t i) {
    pst_ckpt_entry e = entry_of(r, i);
    e.weight = pst_rank_copied(r, i) + r->memory->own_from[i];
    e.residual = PST_CKPT_COPY;
    return e;
}

/* Of the elements of which this rank takes the outer step: the weight that the islands share
 * (velocity 0), or the outer momentum. */
static pst_ckpt_entry outer_of(const pst_rank *r, uint32_t i, int velocity) {
    const pst_rank_global of = pst_rank_global_of(r, i);
    pst_ckpt_entry e = {.param = r->graph->param + i,
                        .weight = velocity ? pst_rank_velocity(r, i) : of.weight,
                        .outer = velocity ? PST_CKPT_VELOCITY : PST_CKPT_GLOBAL};
    if (of.to - of.from < pst_param_elements(e.param) || e.param->slice.held == PST_HELD_PART) {
        e.from = of.from;
        e.n = of.to - of.from;
    }
    return e;
}

int pst_saving_keeps(const pst_trainer *t) {
    if (t->p->job->islands == 1 || !t->p->job->delay || !t->step) return 0;
    const pst_local_step at = pst_prepare_local_step(t->config, t->step - 1);
    return at.kind == PST_LOCAL_TURN && at.turn < pst_job_outer_turn(t->p->job);
}

/* 1 + the fragment of which islands keep weights, without an outer step so far; 0: none. */
static uint32_t kept_fragment(const pst_trainer *t) {
    if (!pst_saving_keeps(t)) return 0;
    return 1 + pst_prepare_local_step(t->config, t->step - 1).fragment;
}

static int is_kept(const pst_trainer *t, const pst_rank *r, uint32_t i) {
    if (!kept_fragment(t) || r->memory->kept[i] == UINT64_MAX) return 0;
    return t->p->job->fragment[i] + 1 == kept_fragment(t);
}

static pst_ckpt_entry kept_of(const pst_rank *r, uint32_t i) {
    const pst_memory_view view = pst_rank_view(r);
    pst_ckpt_entry e = entry_of(r, i);
    e.weight = pst_memory_map_kept(&view, i, r->memory->own_from[i]);
    e.outer = PST_CKPT_KEPT;
    return e;
}

/* What a codec left out of the island's differences, stored like its weight. */
static pst_ckpt_entry left_of(const pst_rank *r, uint32_t i) {
    pst_ckpt_entry e = entry_of(r, i);
    e.weight = pst_rank_left(r, i);
    e.outer = PST_CKPT_LEFT;
    return e;
}

/* This rank's gradient of a parameter `age` steps ago; pst_saving_start sets where it is. */
static pst_ckpt_entry pending_of(const pst_rank *r, uint32_t i, uint32_t age) {
    pst_ckpt_entry e = {.param = r->graph->param + i,
                        .weight = pst_rank_grad(r, i, 0),
                        .residual = 1 + r->place.replica,
                        .pending = age};
    if (e.param->slice.held == PST_HELD_PART) e.n = pst_param_elements(e.param);
    return e;
}

/* Adds the pending gradients of all parameters, and returns their number. */
static uint32_t add_pending(const pst_rank *r, pst_ckpt_entry *entry) {
    uint32_t n = 0;
    for (uint32_t age = 1; age <= r->p->job->staleness; age++)
        for (uint32_t i = 0; i < r->graph->n_param; i++)
            if (pst_rank_stores_gradient(r, i)) entry[n++] = pending_of(r, i, age);
    return n;
}

/* The sets of accumulators take turns. */
static void place_pending(const pst_saving *s, uint32_t k) {
    const pst_rank *r = s->trainer->group->local[k];
    uint32_t n = 0;
    for (uint32_t age = 1; age <= r->p->job->staleness; age++)
        for (uint32_t i = 0; i < r->graph->n_param; i++)
            if (pst_rank_stores_gradient(r, i))
                pst_shard_place(s->shard[k], n++,
                                pst_rank_grad_of(r, i, 0, pst_rank_aged(r, s->info.step, age)));
}

/* Adds the entries of a parameter, and returns their number. */
static uint32_t add_entries(const pst_trainer *t, const pst_rank *r, uint32_t i,
                            pst_ckpt_entry *entry) {
    const int islands = r->p->job->islands > 1;
    uint32_t n = 0;
    if (pst_rank_stores_own(r, i)) entry[n++] = entry_of(r, i);
    if (pst_rank_stores_own(r, i) && pst_rank_copied(r, i)) entry[n++] = copy_of(r, i);
    if (pst_rank_stores_residual(r, i)) entry[n++] = residual_of(r, i);
    if (pst_rank_stores_residual(r, i) && pst_rank_second(r, i)) entry[n++] = second_of(r, i);
    if (pst_rank_stores_residual(r, i) && pst_rank_basis(r, i)) entry[n++] = basis_of(r, i);
    if (pst_rank_stores_own(r, i) && is_kept(t, r, i)) entry[n++] = kept_of(r, i);
    if (pst_rank_stores_own(r, i) && pst_rank_left(r, i)) entry[n++] = left_of(r, i);
    if (!islands || !pst_rank_stores(r, i)) return n;
    entry[n++] = outer_of(r, i, 0);
    if (pst_rank_velocity(r, i)) entry[n++] = outer_of(r, i, 1);
    return n;
}

/* Entries in the order in which STEP changes them. */
static pst_status open_shard(pst_saving *s, uint32_t k, pst_ckpt_entry *entry) {
    const pst_prepared *p = s->trainer->p;
    pst_rank *r = s->trainer->group->local[k];
    guard *g = &s->guard[k];
    uint32_t n = 0;
    g->saving = s;
    g->rank = r;
    g->side = r->side;
    g->n_pending = n = add_pending(r, entry);
    if (!(g->entry = malloc((p->graph->n_param + (size_t)1) * sizeof *g->entry)))
        return pst_fail(PST_ENOMEM, "no memory to list the parameters of rank %u", r->rank);
    for (uint32_t i = 0; i < p->graph->n_param; i++) {
        const uint32_t first = n;
        n += add_entries(s->trainer, r, i, entry + n);
        g->entry[i] = n > first ? n - 1 : UINT32_MAX;
    }
    PST_TRY(pst_shard_open(p->optim, entry, n, 0, &s->shard[k]));
    if (r->on_device) pst_shard_read_with(s->shard[k], pst_rank_read_aside, r);
    g->shard = s->shard[k];
    r->may_change = may_change;
    r->may_change_arg = g;
    return PST_OK;
}

/* Checkpoints need the frozen weights, also where the current folder is another one. */
static pst_status keep_base(pst_config *kept) {
    char *path = pst_ckpt_has_base(kept) && *kept->model.weights
                     ? realpath(kept->model.weights, NULL)
                     : NULL;
    pst_status status = path ? pst_config_override(kept, "model", "weights", path) : PST_OK;
    free(path);
    return status;
}

pst_status pst_saving_print_config(const pst_config *c, FILE *out) {
    pst_config *kept = NULL;
    if (!pst_config_has_tokenizer(c) && !*c->model.weights) return pst_config_print(c, out);
    PST_TRY(pst_config_copy(c, &kept));
    pst_status status = pst_prepare_keep_sizes(kept);
    if (status == PST_OK) status = keep_base(kept);
    if (status == PST_OK && pst_config_has_tokenizer(c))
        status = pst_config_override(kept, "data", "tokenizer", PST_CKPT_TOKENIZER);
    if (status == PST_OK) status = pst_config_print(kept, out);
    pst_config_close(kept);
    return status;
}

/* The resolved configuration as text, for the checkpoint. */
pst_status pst_saving_config_text(const pst_config *c, char **text) {
    size_t bytes;
    FILE *f = open_memstream(text, &bytes);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    pst_status status = pst_saving_print_config(c, f);
    if (fclose(f) != 0 && status == PST_OK)
        status = pst_fail(PST_ENOMEM, "no memory for the configuration");
    return status;
}

static pst_status describe(pst_saving *s) {
    const pst_trainer *t = s->trainer;
    const pst_graph *g = t->p->whole;
    s->info.seed = (uint64_t)t->config->train.seed;
    s->info.model_hash = pst_graph_hash(g);
    s->info.data_hash = t->data->row->hash(t->data);
    s->info.tokenizer = pst_data_tokenizer(t->data);
    PST_TRY(pst_ckpt_base_hash(t->config, &s->info.base));
    snprintf(s->info.optimizer, sizeof s->info.optimizer, "%s", t->p->optim->name);
    for (uint32_t i = 0; i < g->n_param; i++) {
        const uint64_t states = pst_optim_states(t->p->optim, g->param + i);
        const uint64_t each = sizeof(float) + states * pst_optim_state_bytes(t->p->optim);
        if (g->param[i].frozen) continue;
        s->bytes += pst_param_elements(g->param + i) * each * t->p->job->islands;
        if (t->p->job->islands > 1)
            s->bytes +=
                pst_param_elements(g->param + i) * sizeof(float) * (1 + t->p->job->velocity);
    }
    for (uint32_t r = 0; r < t->p->options.n_rank; r++)
        for (uint32_t i = 0; i < g->n_param; i++) {
            const pst_memory_map *x = t->p->memory[r];
            const pst_graph *held = t->p->graphs[pst_grid_at(t->p->grid, r).tensor];
            if (x->residual[i] != UINT64_MAX)
                s->bytes += pst_param_elements(held->param + i) * sizeof(float) *
                            (x->second[i] != UINT64_MAX ? 2 : 1);
            if (x->basis[i] != UINT64_MAX)
                s->bytes += pst_job_basis(t->p->job, held->param + i) * sizeof(float);
            if (t->p->job->staleness && !x->serves && x->grad[i] &&
                pst_param_gradients(g->param + i) && x->grad[i][0] != UINT64_MAX)
                s->bytes +=
                    t->p->job->staleness * pst_param_elements(held->param + i) * sizeof(float);
            if (x->is_copy[i]) s->bytes += (x->own_to[i] - x->own_from[i]) * sizeof(float);
            if (kept_fragment(t) && x->kept[i] != UINT64_MAX &&
                t->p->job->fragment[i] + 1 == kept_fragment(t))
                s->bytes += (x->own_to[i] - x->own_from[i]) * sizeof(float);
        }
    return PST_OK;
}

void pst_saving_await_pending(const pst_trainer *t) {
    for (uint32_t k = 0; t->saving && t->saving->phase != NOTHING && k < t->saving->n; k++) {
        const guard *g = &t->saving->guard[k];
        const uint64_t began = pst_monotonic_ns();
        if (!g->n_pending || pst_shard_released(g->shard, g->n_pending - 1, 0)) continue;
        while (!pst_shard_released(g->shard, g->n_pending - 1, GUARD_WAIT_NS)) continue;
        t->saving->held_ns += pst_monotonic_ns() - began;
    }
}

uint64_t pst_saving_bytes(const pst_trainer *t) { return t->saving ? t->saving->bytes : 0; }

static pst_status open_saving(pst_trainer *t, pst_saving *s) {
    uint32_t n = t->group->n_local;
    size_t n_param = t->p->graph->n_param;
    s->shard = calloc(n, sizeof *s->shard);
    s->guard = calloc(n, sizeof *s->guard);
    const size_t each = ENTRIES + t->p->job->staleness;
    s->entry = calloc(each * n * n_param + 1, sizeof *s->entry);
    if (!s->shard || !s->guard || !s->entry)
        return pst_fail(PST_ENOMEM, "no memory to write checkpoints");
    s->trainer = t;
    s->kept = kept_fragment(t);
    s->n = n;
    s->alone = n == t->p->options.n_rank;
    snprintf(s->folder, sizeof s->folder, "%s/checkpoints", t->folder);
    for (uint32_t k = 0; k < n; k++) PST_TRY(open_shard(s, k, s->entry + each * k * n_param));
    PST_TRY(pst_saving_config_text(t->saved_config ? t->saved_config : t->config, &s->config));
    PST_TRY(describe(s));
    return pst_saver_open(s->shard, n, &s->saver);
}

pst_status pst_saving_open(pst_trainer *t) {
    if (t->times_only || t->saving) return PST_OK;
    t->saving = calloc(1, sizeof *t->saving);
    if (!t->saving) return pst_fail(PST_ENOMEM, "no memory to write checkpoints");
    return open_saving(t, t->saving);
}

void pst_saving_close(pst_trainer *t) {
    pst_saving *s = t->saving;
    if (!s) return;
    pst_saver_close(s->saver);
    for (uint32_t k = 0; s->shard && s->guard && k < s->n; k++) {
        t->group->local[k]->may_change = NULL;
        pst_shard_close(s->shard[k]);
        free(s->guard[k].entry);
    }
    if (s->phase != NOTHING) pst_ckpt_remove_folders(s->folder, s->info.step);
    free(s->shard);
    free(s->guard);
    free(s->entry);
    free(s->config);
    free(s);
    t->saving = NULL;
}

/* --- on the background thread ----------------------------------------------------------------- */

static pst_status make_folders(void *arg) {
    const pst_saving *s = arg;
    return pst_ckpt_make_folders(s->folder, s->info.step);
}

void pst_saving_prune(const char *folder, const pst_config *c, const pst_ckpt_info *info) {
    const pst_ckpt_kept kept = {(uint32_t)c->checkpoint.keep, (uint64_t)c->checkpoint.keep_every,
                                info->step, info->best_of};
    pst_ckpt_prune(folder, &kept);
}

static pst_status commit(void *arg) {
    const pst_saving *s = arg;
    const pst_trainer *t = s->trainer;
    PST_TRY(
        pst_ckpt_commit(s->folder, &s->info, s->config, t->p->whole, t->p->options.n_rank, NULL));
    pst_saving_prune(s->folder, t->config, &s->info);
    return PST_OK;
}

/* --- training thread -------------------------------------------------------------------------- */

#define MIN_WAITED_NS UINT64_C(10000000) /* shorter waits would be printed as 0.00 s */

/* The state may be on the other side now. */
static void place_state(const pst_saving *s, uint32_t k) {
    guard *g = s->guard + k;
    const pst_memory_map *x = g->rank->memory;
    if (g->side == g->rank->side) return;
    pst_shard_move(g->shard, pst_rank_side(g->rank, g->side), x->twin_to - x->twin_from,
                   pst_rank_side(g->rank, g->rank->side));
    g->side = g->rank->side;
}

static const char *every_says = "checkpoint.every";

/* The purpose of the checkpoint of t->step; before t->best_loss is updated. */
static const char *purpose(const pst_trainer *t) {
    int64_t every = t->config->checkpoint.every;
    if (every > 0 && t->step % (uint64_t)every == 0) return every_says;
    if (t->end == PST_END_TIME) return "train.time_limit";
    if (!(t->chosen_loss < t->best_loss)) return "requested";
    return strcmp(t->config->checkpoint.metric, "loss") ? "the highest accuracy so far"
                                                        : "the lowest validation loss so far";
}

/* Warns that training waited for the previous checkpoint; the cause may be other than
 * checkpoint.every. */
static void warn_waited(const pst_saving *s, const char *before, uint64_t step, uint64_t ns) {
    const char *why = purpose(s->trainer);
    int too_often = before == every_says && why == every_says;
    pst_log(PST_LOG_WARN,
            "training waited %.2f s to start the checkpoint of step %" PRIu64
            " (%s) until the checkpoint of step %" PRIu64 " (%s) was written%s",
            (double)ns * 1e-9, s->trainer->step, why, step, before,
            too_often
                ? "; increase checkpoint.every: writing a checkpoint takes longer than these steps"
                : "");
}

void pst_saving_best_of(const pst_config *c, char out[PST_CKPT_BEST_OF]) {
    const int loss = !strcmp(c->checkpoint.metric, "loss");
    const int split = !strcmp(c->checkpoint.best, "validation");
    snprintf(out, PST_CKPT_BEST_OF, "%.44s%s", loss && split ? "" : c->checkpoint.best,
             loss ? "" : ":accuracy");
}

/* What changes from step to step. */
static void set_counters(const pst_trainer *t, pst_ckpt_info *info) {
    info->step = t->step;
    info->skipped = t->skipped;
    info->loss_scale = t->scaler.dynamic ? t->scaler.scale : 0;
    info->loss_scale_good = t->scaler.good;
    info->next_sample = pst_trainer_sample(t, t->step);
    info->spiked = t->spiked;
    info->pending = t->pending;
    info->recent = t->recent;
    info->validation_loss = t->validation_loss;
    pst_saving_best_of(t->config, info->best_of);
    info->chosen_loss = *info->best_of ? t->chosen_loss : NAN;
    info->best_loss = t->best_loss;
    info->no_better = t->no_better;
}

void pst_saving_info(const pst_trainer *t, pst_ckpt_info *info) {
    *info = t->saving->info;
    set_counters(t, info);
}

pst_status pst_saving_header(const pst_trainer *t, uint64_t at, char **text, size_t *bytes) {
    const guard *g = t->saving->guard;
    return pst_shard_header(g->shard, pst_rank_side(g->rank, g->side), at, text, bytes);
}

/* All elements of a parameter that this rank updates. */
static pst_ckpt_entry updated_of(const pst_rank *r, uint32_t i) {
    const pst_memory_map *x = r->memory;
    pst_ckpt_entry e = {.param = r->graph->param + i, .weight = pst_rank_weight(r, i)};
    const uint64_t n = x->step_to[i] - x->step_from[i];
    if (n < pst_param_elements(e.param) || e.param->slice.held == PST_HELD_PART) {
        e.from = x->step_from[i];
        e.n = n;
    }
    for (uint32_t j = 0; j < pst_optim_states(r->p->optim, e.param); j++)
        e.state[j] = pst_rank_state(r, i, j);
    return e;
}

pst_status pst_saving_whole_header(const pst_trainer *t, uint64_t at, char **text, size_t *bytes) {
    const pst_rank *r = t->group->local[0];
    const uint32_t n_param = r->graph->n_param;
    pst_ckpt_entry *entry = calloc(n_param + (size_t)1, sizeof *entry);
    pst_shard *shard = NULL;
    uint32_t n = 0;
    if (!entry) return pst_fail(PST_ENOMEM, "no memory to describe the state");
    for (uint32_t i = 0; i < n_param; i++)
        if (r->memory->step_to[i] > r->memory->step_from[i]) entry[n++] = updated_of(r, i);
    pst_status status = pst_shard_open(t->p->optim, entry, n, 0, &shard);
    if (status == PST_OK)
        status = pst_shard_header(shard, pst_rank_side(r, r->side), at, text, bytes);
    pst_shard_close(shard);
    free(entry);
    return status;
}

int pst_saving_is_busy(const pst_trainer *t) { return t->saving && t->saving->phase != NOTHING; }

/* The time after which writing must be complete: the next STEP comes well after. 0: no deadline,
 * training does not continue meanwhile. */
static uint64_t deadline_ns(const pst_trainer *t, int last) {
    return last || !t->trained ? 0 : t->own_report[0].wall_ns / 10 * 8;
}

pst_status pst_saving_start(pst_trainer *t, int last) {
    pst_status status = PST_OK;
    PST_TRY(pst_saving_open(t));
    pst_saving *s = t->saving;
    uint64_t began = pst_monotonic_ns();
    int waited = s->phase != NOTHING && !last;
    const char *before = s->why;
    uint64_t step_before = s->info.step;
    if (s->phase != NOTHING) PST_TRY(pst_saving_finish(t));
    uint64_t lost = pst_monotonic_ns() - began;
    if (waited && lost >= MIN_WAITED_NS && t->group->leader && !s->warned++)
        warn_waited(s, before, step_before, lost);
    if (s->kept != kept_fragment(t)) { /* other entries */
        pst_saving_close(t);
        PST_TRY(pst_saving_open(t));
        s = t->saving;
    }
    s->why = purpose(t);
    s->best_before = t->best_loss;
    if (t->chosen_loss < t->best_loss) t->best_loss = t->chosen_loss; /* false for NaN */
    set_counters(t, &s->info);
    s->held_ns = 0;
    for (uint32_t k = 0; k < s->n && status == PST_OK; k++) {
        uint32_t rank = t->group->local[k]->rank;
        char *path = pst_ckpt_shard_path(s->folder, t->step, rank, t->p->options.n_rank);
        place_state(s, k);
        place_pending(s, k);
        pst_shard_begin(s->shard[k], path ? path : "", deadline_ns(t, last));
        if (!path) pst_shard_fail(s->shard[k], PST_ENOMEM);
        free(path);
    }
    s->phase = s->alone ? COMMITTING : WRITING;
    pst_saver_write(s->saver, make_folders, s->alone ? commit : NULL, s);
    return PST_OK;
}

pst_save_state pst_saving_state(pst_trainer *t) {
    pst_saving *s = t->saving;
    if (!s || s->phase == NOTHING) return PST_SAVE_NOTHING;
    if (pst_saver_busy(s->saver)) return PST_SAVE_BUSY;
    return pst_saver_wait(s->saver) == PST_OK ? PST_SAVE_DONE : PST_SAVE_FAILED;
}

/* The longest of all processes, in seconds. */
static pst_status longest(pst_group *g, uint64_t mine_ns, double *seconds) {
    const uint64_t *ns;
    uint64_t most = 0;
    PST_TRY(pst_group_numbers(g, mine_ns, &ns));
    for (uint32_t r = 0; r < g->n_rank; r++) most = ns[r] > most ? ns[r] : most;
    *seconds = (double)most * 1e-9;
    return PST_OK;
}

/* Ends the checkpoint, with the same status on all ranks. If it could not be written, the metrics
 * say so and training continues; not after the death of a peer, or with weights that are not
 * finite. */
static pst_status conclude(pst_trainer *t, pst_status status) {
    pst_saving *s = t->saving;
    pst_metrics_saved saved = {.step = s->info.step, .bytes = s->bytes};
    s->phase = NOTHING;
    if (status == PST_OK) t->checkpointed = s->info.step;
    else t->best_loss = s->best_before;
    if (status == PST_EPEER || status == PST_EINPUT) return status;
    char path[PST_TRAINER_FOLDER + 64], why[1024];
    snprintf(path, sizeof path, "%s/step-%08" PRIu64, s->folder, s->info.step);
    snprintf(why, sizeof why, "%s", pst_error());
    PST_TRY(longest(t->group, pst_saver_ns(s->saver), &saved.seconds));
    uint64_t took = (uint64_t)(saved.seconds * 1e9);
    if (took > t->longest_saving_ns) t->longest_saving_ns = took;
    PST_TRY(longest(t->group, s->held_ns, &saved.held_s));
    if (t->metrics) pst_metrics_checkpoint(t->metrics, &saved, path, status == PST_OK ? NULL : why);
    return PST_OK;
}

/* The result of this process' part. */
static pst_status own_status(const pst_trainer *t) {
    pst_status status = pst_saver_wait(t->saving->saver);
    if (status != PST_EINPUT) return status;
    return pst_fail(status, "training has diverged: after step %" PRIu64 " %s; lower train.lr (%g)",
                    t->saving->info.step, pst_error(), t->config->train.lr);
}

/* Some rank could not write: all ranks learn why, and rank 0 removes the incomplete checkpoint. */
static pst_status give_up(pst_trainer *t, pst_status mine) {
    pst_status status = pst_group_agree(t->group, mine);
    if (status != PST_EPEER && t->group->leader) {
        char said[1024];
        snprintf(said, sizeof said, "%s", pst_error());
        pst_ckpt_abandon(t->saving->folder, t->saving->info.step);
        pst_fail(status, "%s", said);
    }
    return conclude(t, status == PST_EPEER ? status : pst_group_agree(t->group, status));
}

static void begin_commit(pst_saving *s) {
    s->phase = COMMITTING;
    if (s->trainer->group->leader) pst_saver_run(s->saver, commit, s);
}

pst_status pst_saving_progress(pst_trainer *t) {
    pst_saving *s = t->saving;
    if (!s || s->phase == NOTHING) return PST_OK;
    uint32_t n = s->phase == WRITING ? t->p->options.n_rank : 1;
    int failed = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (t->report[r].saving == PST_SAVE_BUSY) return PST_OK;
        failed |= t->report[r].saving == PST_SAVE_FAILED;
    }
    int mine = t->report[t->group->local[0]->rank].saving == PST_SAVE_FAILED;
    if (failed) return give_up(t, mine ? own_status(t) : PST_OK);
    if (s->phase == COMMITTING) return conclude(t, PST_OK);
    begin_commit(s);
    return PST_OK;
}

pst_status pst_saving_finish(pst_trainer *t) {
    pst_saving *s = t->saving;
    if (!s || s->phase == NOTHING) return PST_OK;
    for (;;) {
        phase at = s->phase;
        pst_status mine = own_status(t), all = pst_group_agree(t->group, mine);
        if (all == PST_EPEER) return conclude(t, all);
        if (all != PST_OK) return give_up(t, mine);
        if (at == COMMITTING) return conclude(t, PST_OK);
        begin_commit(s);
    }
}
