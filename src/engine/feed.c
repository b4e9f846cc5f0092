/* Data into the ranks that need it, losses out of the rank that has them. */
#include "engine/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where one sample's tokens and targets go on a rank, NULL where the rank does not need them. */
typedef struct { int32_t *tokens, *targets; } place;

static place place_of(const pst_rank *r, uint32_t micro, uint32_t in_micro) {
    const pst_graph *g = r->p->graph;
    uint64_t context = r->p->model_config.context;
    place at = {NULL, NULL};
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        if (g->tensor[t].role != PST_TENSOR_DATA) continue;
        int32_t *base = pst_rank_data(r, t, micro);
        if (base && !strcmp(g->tensor[t].name, "tokens")) at.tokens = base + in_micro * context;
        if (base && !strcmp(g->tensor[t].name, "targets")) at.targets = base + in_micro * context;
    }
    return at;
}

/* Reads n_micro micro-batches of windows first, first+1, ... of a split; windows beyond `windows` are empty (targets
 * -1). *tokens (may be NULL) counts targets that exist. */
static pst_status fill(pst_trainer *t, pst_split split, uint64_t first, uint64_t windows, uint32_t n_micro,
                       uint64_t *tokens) {
    uint32_t b = t->p->model_config.micro_batch, context = t->p->model_config.context;
    int32_t *sample = malloc(2 * (uint64_t)context * sizeof *sample);
    pst_status status = sample ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a sample");
    for (uint64_t k = 0; status == PST_OK && k < (uint64_t)n_micro * b; k++) {
        if (first + k < windows)
            status = t->data->row->sample(t->data, split, first + k, sample, sample + context);
        else
            memset(sample, 0, context * sizeof *sample), memset(sample + context, 0xff, context * sizeof *sample);
        for (uint32_t i = 0; tokens && i < context; i++) *tokens += sample[context + i] >= 0;
        for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) {
            place at = place_of(t->group->local[i], (uint32_t)(k / b), (uint32_t)(k % b));
            if (at.tokens) memcpy(at.tokens, sample, context * sizeof *sample);
            if (at.targets) memcpy(at.targets, sample + context, context * sizeof *sample);
        }
    }
    free(sample);
    return status;
}

pst_status pst_feed_batch(pst_trainer *t, uint64_t sample) {
    for (uint32_t i = 0; i < t->group->n_local; i++) t->group->local[i]->sample = sample;
    return fill(t, PST_SPLIT_TRAIN, sample, UINT64_MAX, t->p->plan->n_micro, NULL);
}

/* Adds the losses of the pass just run, token by token in the order of windows, where they are. */
static void add_losses(const pst_trainer *t, uint32_t n_micro, double *sum) {
    const pst_graph *g = t->p->graph;
    for (uint32_t i = 0; i < t->group->n_local; i++)
        for (uint32_t k = 0; k < g->n_tensor; k++)
            for (uint32_t m = 0; g->tensor[k].role == PST_TENSOR_OUTPUT && m < n_micro; m++) {
                const float *loss = pst_rank_output(t->group->local[i], k, m);
                for (uint64_t e = 0; loss && e < pst_tensor_elements(g->tensor + k); e++) *sum += loss[e];
            }
}

pst_status pst_feed_validate(pst_trainer *t, double *loss, uint64_t *tokens) {
    uint64_t windows = t->data->row->size(t->data, PST_SPLIT_VALIDATION), count = 0;
    uint32_t n_micro = t->p->options.n_eval_micro, per_pass = n_micro * t->p->model_config.micro_batch;
    double sum = 0;
    for (uint64_t first = 0; first < windows; first += per_pass) {
        PST_TRY(fill(t, PST_SPLIT_VALIDATION, first, windows, n_micro, &count));
        PST_TRY(pst_group_run(t->group, 0));
        add_losses(t, n_micro, &sum);
    }
    PST_TRY(pst_group_broadcast(t->group, &sum, sizeof sum, t->p->plan->rank_of_chunk[t->p->plan->n_chunk - 1]));
    *loss = count ? sum / (double)count : NAN;
    *tokens = count;
    return PST_OK;
}
