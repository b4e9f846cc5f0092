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

pst_status pst_feed_open(pst_trainer *t) {
    t->tokens = data_tensor(t->p->graph, "tokens");
    t->targets = data_tensor(t->p->graph, "targets");
    t->sample = malloc(2 * (uint64_t)t->p->model_config.context * sizeof *t->sample);
    return t->sample ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a sample");
}

void pst_feed_close(pst_trainer *t) {
    free(t->sample);
    t->sample = NULL;
}

/* Where sample k of a pass lies in a data tensor of a rank; NULL when the rank does not need it. */
static int32_t *place(const pst_trainer *t, const pst_rank *r, uint32_t tensor, uint64_t k) {
    uint32_t b = t->p->model_config.micro_batch;
    int32_t *base = tensor == UINT32_MAX ? NULL : pst_rank_data(r, tensor, (uint32_t)(k / b));
    return base ? base + k % b * t->p->model_config.context : NULL;
}

static int needs_data(const pst_trainer *t) {
    for (uint32_t i = 0; i < t->group->n_local; i++)
        if (place(t, t->group->local[i], t->tokens, 0) || place(t, t->group->local[i], t->targets, 0)) return 1;
    return 0;
}

/* Reads n_micro micro-batches of windows first, first+1, ... of a split; windows beyond `windows` are empty (targets
 * -1). *count grows by the targets that exist; by nothing on ranks that need no data, which read none. */
static pst_status fill(pst_trainer *t, pst_split split, uint64_t first, uint64_t windows, uint32_t n_micro,
                       uint64_t *count) {
    uint32_t context = t->p->model_config.context;
    uint64_t samples = needs_data(t) ? (uint64_t)n_micro * t->p->model_config.micro_batch : 0;
    size_t bytes = context * sizeof *t->sample;
    int32_t *tokens = t->sample, *targets = t->sample + context;
    for (uint64_t k = 0; k < samples; k++) {
        if (first + k < windows) PST_TRY(t->data->row->sample(t->data, split, first + k, tokens, targets));
        else memset(tokens, 0, bytes), memset(targets, 0xff, bytes);
        for (uint32_t i = 0; i < context; i++) *count += targets[i] >= 0;
        for (uint32_t i = 0; i < t->group->n_local; i++) {
            int32_t *to_tokens = place(t, t->group->local[i], t->tokens, k);
            int32_t *to_targets = place(t, t->group->local[i], t->targets, k);
            if (to_tokens) memcpy(to_tokens, tokens, bytes);
            if (to_targets) memcpy(to_targets, targets, bytes);
        }
    }
    return PST_OK;
}

pst_status pst_feed_batch(pst_trainer *t, uint64_t sample) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < t->group->n_local; i++) t->group->local[i]->sample = sample;
    return fill(t, PST_SPLIT_TRAIN, sample, UINT64_MAX, t->p->plan->n_micro, &count);
}

/* What is added up over a validation, by the rank that has the losses and, for them, the targets. */
typedef struct {
    double sum;
    uint64_t count;
} total;

static pst_status validate_pass(pst_trainer *t, uint64_t first, uint64_t windows, total *sum) {
    uint32_t n_micro = t->p->options.n_eval_micro;
    PST_TRY(fill(t, PST_SPLIT_VALIDATION, first, windows, n_micro, &sum->count));
    PST_TRY(pst_group_run(t->group, 0));
    for (uint32_t i = 0; i < t->group->n_local; i++) pst_rank_add_losses(t->group->local[i], n_micro, &sum->sum);
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
    total sum = {0, 0};
    *loss = NAN;
    *tokens = 0;
    for (uint64_t first = 0; first < windows; first += per_pass) {
        PST_TRY(validate_pass(t, first, windows, &sum));
        if (windows - first > per_pass) PST_TRY(hear_stop(t)); /* after each: one alone may take many seconds */
        if (t->stopped) return PST_OK;
    }
    PST_TRY(pst_group_broadcast(t->group, &sum, sizeof sum, t->p->plan->rank_of_chunk[t->p->plan->n_chunk - 1]));
    *loss = sum.count ? sum.sum / (double)sum.count : NAN;
    *tokens = sum.count;
    return PST_OK;
}
