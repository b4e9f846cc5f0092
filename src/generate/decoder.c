/* See decoder.h. */
#include "generate/decoder.h"
#include "backends/machine.h"
#include "comm/world/world.h"
#include <stdlib.h>
#include <string.h>

static void find_tensors(pst_decoder *d) {
    const pst_graph *g = d->p->graph;
    d->tokens = pst_graph_find_tensor(g, "tokens");
    d->past = pst_graph_find_tensor(g, "past");
    d->last = pst_graph_find_tensor(g, "last");
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (g->tensor[t].role == PST_TENSOR_OUTPUT) d->output = t;
}

static pst_status prepare(const pst_source *source, const pst_decoder_options *o, pst_decoder *d) {
    const uint32_t ranks = o->ranks ? o->ranks : 1;
    const uint32_t here = o->world ? o->world->local_size : ranks;
    const pst_model_row *row;
    pst_prepare_options options = {.n_rank = ranks,
                                   .threads = o->threads ? o->threads : pst_machine_threads(here),
                                   .local = o->world ? 1 + o->world->local_rank : 0,
                                   .ranks_here = here,
                                   .infer = 1,
                                   .samples = d->n,
                                   .positions = o->positions,
                                   .tensor = o->tensor};
    PST_TRY(pst_registry_model(source->config->model.kind, &row));
    if (!row->continues)
        return pst_fail(PST_EINPUT, "%s: a model of kind %s cannot continue text", source->path,
                        row->name);
    PST_TRY(pst_prepare_kind(source->config, &options));
    options.cache = !o->no_cache && row->caches && pst_registry_is_host(options.device);
    d->cache = options.cache;
    PST_TRY(pst_prepare(source->config, &options, &d->p));
    d->context = o->positions ? o->positions : d->p->model_config.context;
    d->vocabulary = d->p->model_config.vocabulary;
    return PST_OK;
}

static pst_status read_weights(const pst_source *source, const pst_group *g) {
    for (uint32_t i = 0; i < g->n_local; i++) PST_TRY(pst_source_read(source, g->local[i]));
    return PST_OK;
}

/* status: that of this process so far; fails on every rank if it is not OK on one. */
static pst_status open_ranks(const pst_source *source, pst_world *world, pst_decoder *d,
                             pst_status status) {
    if (!world && status == PST_OK) status = pst_world_single.open(&world);
    if (world) status = pst_group_agree_world(world, status);
    if (status == PST_OK)
        status = pst_group_open(world, world->size > 1 ? "auto" : "self", d->p->options.n_rank,
                                &d->group);
    if (!d->group && world) world->ops->close(world);
    if (status != PST_OK) return status;
    PST_TRY(pst_group_open_ranks(d->group, d->p, 0));
    return pst_group_agree(d->group, read_weights(source, d->group));
}

pst_status pst_decoder_open(const pst_source *source, const pst_decoder_options *options,
                            pst_decoder *out) {
    *out = (pst_decoder){.n = options->sequences};
    pst_status status = prepare(source, options, out);
    status = open_ranks(source, options->world, out, status);
    if (status == PST_OK) {
        find_tensors(out);
        out->window = calloc((uint64_t)out->n * out->context, sizeof *out->window);
        out->behind = calloc(2 * (size_t)out->n, sizeof *out->behind);
        out->logits = malloc((uint64_t)out->n * out->vocabulary * sizeof *out->logits);
        if (!out->window || !out->behind || !out->logits)
            status = pst_fail(PST_ENOMEM, "no memory for %u sequences", out->n);
    }
    if (status != PST_OK) pst_decoder_close(out, status);
    return status;
}

pst_status pst_decoder_check(const pst_source *source, const pst_decoder_options *options) {
    pst_decoder d = {.n = options->sequences};
    pst_status status = prepare(source, options, &d);
    pst_decoder_close(&d, status);
    return status;
}

void pst_decoder_close(pst_decoder *d, pst_status status) {
    if (d->group) pst_group_close(d->group, status);
    pst_prepared_close(d->p);
    free(d->window);
    free(d->behind);
    free(d->logits);
    *d = (pst_decoder){0};
}

/* --- a run ------------------------------------------------------------------------------------ */

/* Writes a data tensor of every rank that has it. */
static pst_status put(const pst_decoder *d, uint32_t tensor, const int32_t *from) {
    for (uint32_t i = 0; i < d->group->n_local; i++) {
        const pst_rank *r = d->group->local[i];
        void *to = pst_rank_data(r, tensor, 0);
        if (to) PST_TRY(pst_rank_write(r, to, from, pst_tensor_bytes(r->graph->tensor + tensor)));
    }
    return PST_OK;
}

/* *logits: of row `row` of sequence i, of `rows`; in a job, after `share`. */
static pst_status take(const pst_decoder *d, uint32_t i, uint64_t row, uint64_t rows,
                       const float **logits) {
    const uint64_t at = (i * rows + row) * d->vocabulary, bytes = d->vocabulary * sizeof **logits;
    const int alone = d->group->hub != NULL;
    float *copy = d->logits + (uint64_t)i * d->vocabulary;
    *logits = copy;
    for (uint32_t k = 0; k < d->group->n_local; k++) {
        const pst_rank *r = d->group->local[k];
        const float *from = pst_rank_output(r, d->output, 0);
        if (!from) continue;
        if (r->on_device) return pst_rank_read(r, copy, from + at, bytes);
        if (alone) *logits = from + at;
        else memcpy(copy, from + at, bytes);
        return PST_OK;
    }
    return alone ? pst_fail(PST_EINTERNAL, "no rank has the logits") : PST_OK;
}

/* Sends the logits from a rank of the last stage to all processes. */
static pst_status share(const pst_decoder *d) {
    const pst_layout *l = &d->p->plan->layout;
    const uint32_t root = pst_grid_rank(d->p->grid, l->rank_of_chunk[l->n_chunk - 1], 0, 0);
    return pst_group_broadcast(d->group, d->logits,
                               (uint64_t)d->n * d->vocabulary * sizeof *d->logits, root);
}

/* Moves the window of a sequence that has become too long. */
static void make_room(const pst_decoder *d, pst_sequence *s) {
    if (s->n - s->start <= d->context) return;
    const uint64_t keep = d->context > 1 ? d->context / 2 : 1;
    s->start = s->n - keep;
    s->past = 0;
}

/* The smallest form that has `most` positions, else the largest. */
static uint32_t form_for(const pst_decoder *d, uint64_t most) {
    uint32_t i = 0;
    while (i + 1 < d->p->n_form && d->p->form[i].positions < most) i++;
    return i;
}

static pst_status run_cached(pst_decoder *d, pst_sequence *s) {
    uint64_t most = 1;
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t left = s[i].done ? 0 : s[i].n - s[i].start - s[i].past;
        if (left > most) most = left;
    }
    const uint32_t form = form_for(d, most), positions = d->p->form[form].positions;
    int32_t *past = d->behind, *last = d->behind + d->n;
    memset(d->window, 0, (uint64_t)d->n * positions * sizeof *d->window);
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t left = s[i].done ? 0 : s[i].n - s[i].start - s[i].past,
                 n = left < positions ? left : positions;
        memcpy(d->window + (uint64_t)i * positions, s[i].token + s[i].start + s[i].past,
               n * sizeof *d->window);
        past[i] = (int32_t)s[i].past;
        last[i] = n ? (int32_t)n - 1 : 0;
        s[i].past += n;
    }
    for (uint32_t i = 0; i < d->group->n_local; i++) pst_rank_use_form(d->group->local[i], form);
    PST_TRY(put(d, d->tokens, d->window));
    PST_TRY(put(d, d->past, past));
    PST_TRY(put(d, d->last, last));
    PST_TRY(pst_group_run(d->group, 0));
    for (uint32_t i = 0; i < d->n; i++) {
        s[i].logits = NULL;
        if (!s[i].done && s[i].start + s[i].past == s[i].n) PST_TRY(take(d, i, 0, 1, &s[i].logits));
    }
    return share(d);
}

static pst_status run_window(pst_decoder *d, pst_sequence *s) {
    memset(d->window, 0, (uint64_t)d->n * d->context * sizeof *d->window);
    for (uint32_t i = 0; i < d->n; i++)
        memcpy(d->window + (uint64_t)i * d->context, s[i].token + s[i].start,
               (s[i].n - s[i].start) * sizeof *d->window);
    PST_TRY(put(d, d->tokens, d->window));
    PST_TRY(pst_group_run(d->group, 0));
    for (uint32_t i = 0; i < d->n; i++) {
        s[i].logits = NULL;
        if (!s[i].done) PST_TRY(take(d, i, s[i].n - s[i].start - 1, d->context, &s[i].logits));
    }
    return share(d);
}

pst_status pst_decoder_run(pst_decoder *d, pst_sequence *s) {
    for (uint32_t i = 0; i < d->n; i++) make_room(d, &s[i]);
    return d->cache ? run_cached(d, s) : run_window(d, s);
}
