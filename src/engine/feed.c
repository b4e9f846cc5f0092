/* Data into the ranks that need it, losses out of the rank that has them. */
#include "engine/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t data_tensor(const pst_graph *g, const char *name) {
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (g->tensor[t].role == PST_TENSOR_DATA && !strcmp(g->tensor[t].name, name)) return t;
    return UINT32_MAX;
}

/* What a rank adds up over a validation: its losses, and the targets that it was fed. */
struct pst_feed_total {
    double sum;
    uint64_t count;
};
typedef struct pst_feed_total total;

pst_status pst_feed_open(pst_trainer *t) {
    t->tokens = data_tensor(t->p->graph, "tokens");
    t->targets = data_tensor(t->p->graph, "targets");
    t->sample = malloc(2 * (uint64_t)t->p->model_config.context * sizeof *t->sample);
    t->total = calloc(t->group->n_local + (size_t)t->group->n_rank, sizeof *t->total);
    return t->sample && t->total ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a sample");
}

void pst_feed_close(pst_trainer *t) {
    free(t->sample), free(t->total);
    t->sample = NULL, t->total = NULL;
}

/* Where sample k of a pass lies in a data tensor of a rank; NULL when the rank does not need it. */
static int32_t *place(const pst_trainer *t, const pst_rank *r, pst_split split, uint32_t tensor, uint64_t k) {
    uint32_t b = t->p->model_config.micro_batch, micro = (uint32_t)(k / b);
    uint32_t first = split == PST_SPLIT_TRAIN ? r->micro : r->eval_micro;
    uint32_t n = split == PST_SPLIT_TRAIN ? r->n_micro : r->n_eval_micro;
    if (tensor == UINT32_MAX || micro < first || micro - first >= n) return NULL;
    int32_t *base = pst_rank_data(r, tensor, micro - first);
    return base ? base + k % b * t->p->model_config.context : NULL;
}

static int is_needed(const pst_trainer *t, pst_split split, uint64_t k) {
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        const pst_rank *r = t->group->local[i];
        if (place(t, r, split, t->tokens, k) || place(t, r, split, t->targets, k)) return 1;
    }
    return 0;
}

/* Reads n_micro micro-batches of windows first, first+1, ... of a split, those that ranks here need; windows beyond
 * `windows` are empty (targets -1). Each rank's count grows by the targets that it gets. */
static pst_status fill(pst_trainer *t, pst_split split, uint64_t first, uint64_t windows, uint32_t n_micro) {
    uint32_t context = t->p->model_config.context;
    uint64_t samples = (uint64_t)n_micro * t->p->model_config.micro_batch;
    size_t bytes = context * sizeof *t->sample;
    int32_t *tokens = t->sample, *targets = t->sample + context;
    for (uint64_t k = 0; k < samples; k++) {
        uint64_t count = 0;
        if (!is_needed(t, split, k)) continue;
        if (first + k < windows) PST_TRY(t->data->row->sample(t->data, split, first + k, tokens, targets));
        else memset(tokens, 0, bytes), memset(targets, 0xff, bytes);
        for (uint32_t i = 0; i < context; i++) count += targets[i] >= 0;
        for (uint32_t i = 0; i < t->group->n_local; i++) {
            int32_t *to_tokens = place(t, t->group->local[i], split, t->tokens, k);
            int32_t *to_targets = place(t, t->group->local[i], split, t->targets, k);
            if (to_tokens) PST_TRY(pst_rank_write(t->group->local[i], to_tokens, tokens, bytes));
            if (to_targets) PST_TRY(pst_rank_write(t->group->local[i], to_targets, targets, bytes));
            if (to_targets) t->total[i].count += count;
        }
    }
    return PST_OK;
}

pst_status pst_feed_batch(pst_trainer *t, uint64_t sample) {
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        pst_rank *r = t->group->local[i];
        r->sample = sample + (uint64_t)r->micro * t->p->model_config.micro_batch;
    }
    return fill(t, PST_SPLIT_TRAIN, sample, UINT64_MAX, t->p->plan->n_micro);
}

static pst_status validate_pass(pst_trainer *t, uint64_t first, uint64_t windows) {
    PST_TRY(fill(t, PST_SPLIT_VALIDATION, first, windows, t->p->options.n_eval_micro));
    PST_TRY(pst_group_run(t->group, 0));
    for (uint32_t i = 0; i < t->group->n_local; i++)
        for (uint32_t m = 0; m < t->group->local[i]->n_eval_micro; m++) {
            double sum;
            PST_TRY(pst_rank_losses(t->group->local[i], m, &sum));
            t->total[i].sum += sum;
        }
    return PST_OK;
}

/* Of all replicas, in their order, from the ranks that have the losses and, for them, the targets. */
static pst_status add_totals(pst_trainer *t, total *all) {
    const pst_prepared *p = t->p;
    total *of_rank = t->total + t->group->n_local;
    PST_TRY(pst_group_all_gather(t->group, t->total, sizeof *t->total, of_rank));
    for (uint32_t k = 0; k < p->grid.data; k++) {
        const total *one = of_rank + pst_grid_rank(p->grid, p->plan->rank_of_chunk[p->plan->n_chunk - 1], k, 0);
        all->sum += one->sum, all->count += one->count;
    }
    return PST_OK;
}

/* Sets t->stopped when any rank was asked to stop. */
static pst_status hear_stop(pst_trainer *t) {
    const uint64_t *asked;
    PST_TRY(pst_group_numbers(t->group, t->asked && *t->asked, &asked));
    for (uint32_t r = 0; r < t->group->n_rank; r++) t->stopped |= asked[r] != 0;
    return PST_OK;
}

pst_status pst_feed_validate(pst_trainer *t, double *loss, uint64_t *tokens) {
    uint64_t windows = t->data->row->size(t->data, PST_SPLIT_VALIDATION);
    uint32_t per_pass = t->p->options.n_eval_micro * t->p->model_config.micro_batch;
    total all = {0, 0};
    memset(t->total, 0, t->group->n_local * sizeof *t->total);
    *loss = NAN;
    *tokens = 0;
    for (uint64_t first = 0; first < windows; first += per_pass) {
        PST_TRY(validate_pass(t, first, windows));
        if (windows - first > per_pass) PST_TRY(hear_stop(t)); /* after each: one alone may take many seconds */
        if (t->stopped) return PST_OK;
    }
    PST_TRY(add_totals(t, &all));
    *loss = all.count ? all.sum / (double)all.count : NAN;
    *tokens = all.count;
    return PST_OK;
}
