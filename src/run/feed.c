/* Copies data to the ranks that need it, and losses from the rank that has them. Training samples
 * are read while the step before runs (prefetch.h). */
#include "run/stop.h"
#include "run/step.h"
#include "run/elastic.h"
#include "run/feed.h"
#include "run/prefetch.h"
#include "base/clock.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A field of the data set's samples. */
struct pst_feed_field {
    uint64_t elements;
    uint32_t tensor; /* in the graph */
    int targets;     /* its numbers that are not negative are counted */
    int labels;      /* -1: none, as for targets */
    int32_t *sample; /* [elements] buffer of one sample */
};
typedef struct pst_feed_field field;

static uint32_t data_tensor(const pst_graph *g, const char *name) {
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (g->tensor[t].role == PST_TENSOR_DATA && !strcmp(g->tensor[t].name, name)) return t;
    return UINT32_MAX;
}

typedef pst_trainer_total total;

/* The names of the data tensors that the model reads, and of the data set's fields. */
static void list_read(const pst_graph *g, char *out, size_t size) {
    *out = 0;
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (g->tensor[t].role == PST_TENSOR_DATA)
            snprintf(out + strlen(out), size - strlen(out), "%s%s", *out ? ", " : "",
                     g->tensor[t].name);
}

static void list_fields(const pst_data_field *f, uint32_t n, char *out, size_t size) {
    *out = 0;
    for (uint32_t i = 0; i < n; i++)
        snprintf(out + strlen(out), size - strlen(out), "%s%s", i ? ", " : "", f[i].name);
}

/* The usual data for models that read such a tensor. */
static const struct {
    const char *reads, *use;
} usual[] = {{"lengths", "lines"},
             {"starts", "text or tokens"},
             {"pixels", "mnist or cifar10"},
             {"tokens", "text"}};

static const char *usual_data(const pst_graph *g) {
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (data_tensor(g, usual[i].reads) != UINT32_MAX) return usual[i].use;
    return NULL;
}

static pst_status differs(const pst_prepared *p, const pst_data *data, const pst_data_field *f,
                          uint32_t n) {
    char reads[256], has[256];
    list_read(p->whole, reads, sizeof reads);
    list_fields(f, n, has, sizeof has);
    const char *use = usual_data(p->whole);
    return pst_fail(PST_EINPUT, "model.kind %s reads %s, but a sample of data.kind %s has %s%s%s",
                    p->config->model.kind, reads, data->row->name, has,
                    use ? "; use data.kind: " : "", use ? use : "");
}

pst_status pst_feed_check(const pst_prepared *p, const pst_data *data) {
    const pst_graph *g = p->whole;
    pst_data_field f[PST_DATA_FIELDS];
    uint32_t n = data->row->fields(data, f), read = 0;
    for (uint32_t t = 0; t < g->n_tensor; t++) read += g->tensor[t].role == PST_TENSOR_DATA;
    if (read != n) return differs(p, data, f, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t t = data_tensor(g, f[i].name);
        if (t == UINT32_MAX) return differs(p, data, f, n);
        uint64_t wanted = pst_tensor_elements(g->tensor + t) / g->micro_batch;
        if (wanted != f[i].elements)
            return pst_fail(PST_EINPUT,
                            "model.kind %s reads %" PRIu64
                            " %s per sample, but a sample of data.kind %s has %" PRIu64,
                            p->config->model.kind, wanted, f[i].name, data->row->name,
                            f[i].elements);
    }
    return PST_OK;
}

/* The samples that the first micro-batch of a step or of an evaluation pass lacks. */
static uint32_t missing(const pst_prepared *p, pst_split split) {
    const pst_layout *l = &p->plan->layout;
    const int whole = split != PST_SPLIT_TRAIN && p->options.n_eval_micro != l->n_micro;
    return l->rest && !whole ? l->micro_batch - l->rest : 0;
}

/* The address of sample k of a pass in a rank's data tensor; NULL when the rank does not need
 * it. */
static int32_t *place(const pst_trainer *t, const pst_rank *r, pst_split split, const field *f,
                      uint64_t k) {
    const uint32_t b = t->p->model_config.micro_batch;
    const uint64_t place = k + missing(r->p, split); /* in micro-batches of equal size */
    const uint32_t micro = (uint32_t)(place / b);
    uint32_t first = split == PST_SPLIT_TRAIN ? r->micro : r->eval_micro;
    uint32_t n = split == PST_SPLIT_TRAIN ? r->n_micro : r->n_eval_micro;
    if (f->tensor == UINT32_MAX || micro < first || micro - first >= n) return NULL;
    int32_t *base = pst_rank_data(r, f->tensor, micro - first);
    const uint64_t in_micro = micro ? place % b : k;
    return base ? base + in_micro * f->elements : NULL;
}

static int is_needed(const pst_trainer *t, uint64_t k) {
    for (uint32_t i = 0; i < t->group->n_local; i++)
        for (uint32_t j = 0; j < t->n_field; j++)
            if (place(t, t->group->local[i], PST_SPLIT_VALIDATION, t->field + j, k)) return 1;
    return 0;
}

static int reads_samples(const pst_trainer *t, const pst_rank *r) {
    for (uint32_t j = 0; j < t->n_field; j++)
        if (t->field[j].tensor != UINT32_MAX && pst_rank_data(r, t->field[j].tensor, 0)) return 1;
    return 0;
}

/* The samples of a step that ranks of this process read, counted from the first one of its batch:
 * those of one rank or, if all ranks are here, of all replicas. */
static pst_prefetch_batch part_of(const pst_trainer *t, uint64_t step) {
    const pst_prepared *p = pst_prepared_at(t->p, step);
    uint64_t first = UINT64_MAX, end = 0;
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        const uint32_t *micro = p->micro + t->group->local[i]->place.replica;
        if (!reads_samples(t, t->group->local[i])) continue;
        if (micro[0] < first) first = micro[0];
        if (micro[1] > end) end = micro[1];
    }
    if (!end) return (pst_prefetch_batch){0, 0};
    const pst_layout *l = &p->plan->layout;
    return (pst_prefetch_batch){pst_layout_samples(l, 0, (uint32_t)first),
                                pst_layout_samples(l, (uint32_t)first, (uint32_t)end)};
}

/* The same, counted from the first sample of the data. */
static pst_prefetch_batch samples_of(const pst_trainer *t, uint64_t step) {
    const pst_prefetch_batch part = part_of(t, step);
    return (pst_prefetch_batch){pst_trainer_sample(t, step) + part.first, part.n};
}

static int is_label(const char *name) {
    return !strcmp(name, "targets") || !strcmp(name, "next_sentence");
}

static pst_status open_fields(pst_trainer *t) {
    pst_data_field f[PST_DATA_FIELDS];
    uint32_t n = t->data->row->fields(t->data, f);
    t->field = calloc(PST_DATA_FIELDS, sizeof *t->field);
    t->total = calloc(t->group->n_local + (size_t)t->group->n_rank, sizeof *t->total);
    for (uint32_t i = 0; t->field && i < n; i++) {
        t->field[i] = (field){f[i].elements, data_tensor(t->p->graph, f[i].name),
                              !strcmp(f[i].name, "targets"), is_label(f[i].name),
                              malloc(f[i].elements * sizeof(int32_t))};
        t->n_field += t->field[i].sample != NULL;
    }
    return t->field && t->total && t->n_field == n ? PST_OK
                                                   : pst_fail(PST_ENOMEM, "no memory for a sample");
}

pst_status pst_feed_open(pst_trainer *t) {
    const pst_batches *b = &t->p->batches;
    uint64_t most = 0;
    PST_TRY(open_fields(t));
    for (uint32_t i = 0; i < b->n; i++) {
        const uint64_t n = part_of(t, b->row[i].step).n;
        most = n > most ? n : most;
    }
    return pst_prefetch_open(t->data, most, &t->prefetch);
}

void pst_feed_close(pst_trainer *t) {
    pst_prefetch_close(t->prefetch);
    for (uint32_t i = 0; t->field && i < PST_DATA_FIELDS; i++) free(t->field[i].sample);
    free(t->field);
    free(t->total);
    t->prefetch = NULL;
    t->field = NULL;
    t->total = NULL;
    t->n_field = 0;
}

/* An empty sample, for places beyond the end: zeros, and no targets. */
static void empty(const pst_trainer *t) {
    for (uint32_t j = 0; j < t->n_field; j++)
        memset(t->field[j].sample, t->field[j].labels ? 0xff : 0,
               t->field[j].elements * sizeof(int32_t));
}

static void count_targets(const pst_data *data, const int32_t *target, uint64_t n, total *out) {
    uint32_t n_token;
    const uint32_t *bytes = pst_data_token_bytes(data, &n_token);
    for (uint64_t i = 0; i < n; i++) {
        out->count += target[i] >= 0;
        if (target[i] >= 0 && (uint32_t)target[i] < n_token) out->bytes += bytes[target[i]];
    }
}

/* Copies sample k of a data set, with these fields, to the local ranks that need it. */
static pst_status copy_to_ranks(pst_trainer *t, const pst_data *data, pst_split split, uint64_t k,
                                int32_t *const *sample) {
    for (uint32_t j = 0; j < t->n_field; j++) {
        const field *f = t->field + j;
        total of_sample = {0};
        if (f->targets) count_targets(data, sample[j], f->elements, &of_sample);
        for (uint32_t i = 0; i < t->group->n_local; i++) {
            int32_t *to = place(t, t->group->local[i], split, f, k);
            if (!to) continue;
            PST_TRY(pst_rank_write(t->group->local[i], to, sample[j], f->elements * sizeof *to));
            t->total[i].count += of_sample.count;
            t->total[i].bytes += of_sample.bytes;
        }
    }
    return PST_OK;
}

/* n of the `size` samples of a validation split. */
typedef struct {
    pst_data *data;
    uint64_t n, size;
} series;

/* Evenly spread, because the first samples of a split are from its first files. Independent of the
 * layout, so that losses are comparable. n < 2^32, or n == size. */
static uint64_t sample_of(const series *s, uint64_t k) {
    return k * (s->size / s->n) + k * (s->size % s->n) / s->n;
}

static series evaluated(const pst_trainer *t, pst_data *data) {
    uint64_t size = data->row->size(data, PST_SPLIT_VALIDATION), per_sample = 1, n = size;
    const uint32_t tokens = data_tensor(t->p->graph, "tokens");
    for (uint32_t j = 0; j < t->n_field; j++)
        if (tokens == UINT32_MAX ? t->field[j].targets : t->field[j].tensor == tokens)
            per_sample = t->field[j].elements;
    if (t->config->eval.tokens)
        n = ((uint64_t)t->config->eval.tokens + per_sample - 1) / per_sample;
    return (series){data, n < size ? n : size, size};
}

/* Samples of an evaluation pass. */
static uint64_t per_pass(const pst_trainer *t) {
    const pst_layout *l = &t->p->plan->layout;
    const uint32_t n = t->p->options.n_eval_micro;
    return n == l->n_micro ? pst_layout_batch(l) : (uint64_t)n * l->micro_batch;
}

/* Fills the micro-batches of a pass with samples first, first+1, ... of a series, as far as local
 * ranks need them; samples beyond its end are empty. Each rank's count grows by its targets. */
static pst_status fill(pst_trainer *t, const series *s, uint64_t first) {
    const uint64_t n = per_pass(t);
    int32_t *out[PST_DATA_FIELDS];
    for (uint32_t j = 0; j < t->n_field; j++) out[j] = t->field[j].sample;
    for (uint64_t k = 0; k < n; k++) {
        if (!is_needed(t, k)) continue;
        if (first + k < s->n)
            PST_TRY(
                s->data->row->sample(s->data, PST_SPLIT_VALIDATION, sample_of(s, first + k), out));
        else empty(t);
        PST_TRY(copy_to_ranks(t, s->data, PST_SPLIT_VALIDATION, k, out));
    }
    return PST_OK;
}

/* The first micro-batch of a rank's island or, with asynchronous updates, worker; else of the
 * step. */
static uint32_t first_micro(const pst_rank *r) {
    const uint32_t first = pst_job_norm_first(r->p->job, r->place.replica);
    return r->p->micro[first < r->p->grid.data ? first : 0];
}

/* All ranks count the targets of all replicas (of their island), so that all divide by the same
 * number; by 1 if a batch has none, whose losses and gradients are 0. */
static uint64_t targets_of(const pst_trainer *t, const pst_rank *r, uint64_t sample) {
    const pst_data *data = t->data;
    if (!data->row->targets) return r->p->targets / pst_prepared_batch(r->p) * r->samples;
    const uint64_t first = pst_layout_samples(&r->p->plan->layout, 0, first_micro(r));
    const uint64_t n = data->row->targets(data, sample + first, r->samples);
    return n ? n : 1;
}

/* Of each rank; those of one island have the same number. */
static void set_targets(pst_trainer *t, uint64_t sample) {
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        pst_rank *r = t->group->local[i], *before = i ? t->group->local[i - 1] : NULL;
        const int same = before && first_micro(before) == first_micro(r);
        r->sample = sample + pst_layout_samples(&r->p->plan->layout, 0, r->micro);
        r->targets = same ? before->targets : targets_of(t, r, sample);
    }
}

pst_status pst_feed_batch(pst_trainer *t) {
    uint64_t began = pst_monotonic_ns();
    const pst_prefetch_batch part = part_of(t, t->step);
    const uint64_t sample = pst_trainer_sample(t, t->step);
    PST_TRY(pst_prefetch_take(t->prefetch, samples_of(t, t->step)));
    memset(t->total, 0, t->group->n_local * sizeof *t->total);
    set_targets(t, sample);
    for (uint64_t i = 0; i < part.n; i++) {
        int32_t *out[PST_DATA_FIELDS];
        pst_prefetch_sample(t->prefetch, i, out);
        PST_TRY(copy_to_ranks(t, t->data, PST_SPLIT_TRAIN, part.first + i, out));
    }
    if (t->step + 1 < (uint64_t)t->config->train.steps)
        pst_prefetch_start(t->prefetch, samples_of(t, t->step + 1));
    t->data_wait_ns = pst_monotonic_ns() - began;
    return PST_OK;
}

static pst_status validate_pass(pst_trainer *t, const series *s, uint64_t first) {
    PST_TRY(fill(t, s, first));
    PST_TRY(pst_group_run(t->group, 0));
    for (uint32_t i = 0; i < t->group->n_local; i++)
        for (uint32_t m = 0; m < t->group->local[i]->n_eval_micro; m++) {
            pst_loss_sums sum;
            PST_TRY(pst_rank_losses(t->group->local[i], m, &sum));
            t->total[i].sum.targets += sum.targets;
            t->total[i].sum.samples += sum.samples;
            t->total[i].sum.hits += sum.hits;
        }
    return PST_OK;
}

/* Adds the totals of all replicas, in their order, from the ranks that have the losses; the last
 * chunk's have those of the targets. */
static pst_status add_totals(pst_trainer *t, total *all) {
    const pst_prepared *p = t->p;
    const pst_layout *l = &p->plan->layout;
    total *of_rank = t->total + t->group->n_local;
    PST_TRY(pst_group_all_gather(t->group, t->total, sizeof *t->total, of_rank));
    for (uint32_t k = 0; k < p->grid.data; k++) {
        uint32_t rank = pst_grid_rank(p->grid, l->rank_of_chunk[l->n_chunk - 1], k, 0);
        const total *one = of_rank + rank;
        all->sum.targets += one->sum.targets;
        all->count += one->count;
        all->bytes += one->bytes;
        for (uint32_t s = 0; s < p->grid.pipeline; s++) {
            const pst_loss_sums *of = &of_rank[pst_grid_rank(p->grid, s, k, 0)].sum;
            all->sum.samples += of->samples;
            all->sum.hits += of->hits;
        }
    }
    return PST_OK;
}

/* Sets t->stopped when any rank was asked to stop, t->save_requested when any was asked to save. */
static pst_status check_stop(pst_trainer *t) {
    const uint64_t *requests;
    uint64_t all = 0, mine = 0;
    if (t->takes_signals) mine = pst_elastic_requests(t, pst_stop_requests());
    PST_TRY(pst_group_numbers(t->group, mine, &requests));
    for (uint32_t r = 0; r < t->group->n_rank; r++) all |= requests[r];
    pst_step_take_requests(t, all);
    return PST_OK;
}

uint64_t pst_feed_passes(const pst_trainer *t) {
    const uint64_t n = per_pass(t);
    uint64_t passes = (evaluated(t, t->data).n + n - 1) / n;
    for (uint32_t i = 0; i < t->sets.n; i++)
        passes += (evaluated(t, t->sets.set[i].data).n + n - 1) / n;
    return t->times_only ? 0 : passes;
}

pst_status pst_feed_validate(pst_trainer *t, pst_data *data, pst_evaluation *out) {
    series s = evaluated(t, data);
    pst_prefetch_settle(t->prefetch); /* `data` may be that of training */
    const uint64_t n = per_pass(t);
    total all = {0};
    memset(t->total, 0, t->group->n_local * sizeof *t->total);
    *out = (pst_evaluation)PST_EVALUATION_NONE;
    for (uint64_t first = 0; first < s.n; first += n) {
        PST_TRY(validate_pass(t, &s, first));
        if (s.n - first > n)
            PST_TRY(check_stop(t)); /* after each pass, which may take many seconds */
        if (t->stopped) return PST_OK;
    }
    PST_TRY(add_totals(t, &all));
    out->loss = all.count ? pst_loss_total(&all.sum, all.count, s.n) / (double)all.count : NAN;
    out->bits_per_byte = pst_evaluate_bits_per_byte(all.sum.targets, all.bytes);
    out->tokens = all.count;
    const pst_loss_kinds kinds = pst_loss_kinds_of(t->p->graph);
    if (kinds.samples) out->next_sentence = all.sum.samples / (double)s.n;
    if (kinds.hits) out->accuracy = all.sum.hits / (double)s.n;
    return PST_OK;
}
