/* Loss and perplexity of a data set's validation split: every sample, or some that are spread
 * over it. */
#include "generate/eval.h"
#include "generate/scorer.h"
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1024 /* positions of a run: enough for fast products */ };

typedef struct {
    pst_data *data;
    pst_scorer scorer;
    uint32_t n_field;
    pst_data_field field[PST_DATA_FIELDS];
    int32_t *array[PST_DATA_FIELDS]; /* [samples of a run][elements] */
    uint32_t targets;                /* the field with this name */
    uint64_t n, size;                /* samples to take of the split's size */
    int bytes;                       /* 1: tokens are bytes */
} texts;

static pst_status open_arrays(texts *t) {
    t->n_field = t->data->row->fields(t->data, t->field);
    for (uint32_t i = 0; i < t->n_field; i++) {
        t->array[i] = malloc(t->scorer.samples * t->field[i].elements * sizeof(int32_t));
        if (!t->array[i]) return pst_fail(PST_ENOMEM, "no memory for samples");
        if (!strcmp(t->field[i].name, "targets")) t->targets = i;
    }
    return PST_OK;
}

static uint64_t sample_of(const texts *t, uint64_t k) {
    return k * (t->size / t->n) + k * (t->size % t->n) / t->n;
}

static int is_label(const char *field) {
    return !strcmp(field, "targets") || !strcmp(field, "next_sentence");
}

/* Samples from number `first` on; places behind the last one get no targets. */
static pst_status fill(texts *t, uint64_t first) {
    int32_t *at[PST_DATA_FIELDS];
    for (uint32_t k = 0; k < t->scorer.samples; k++) {
        for (uint32_t i = 0; i < t->n_field; i++) at[i] = t->array[i] + k * t->field[i].elements;
        if (first + k < t->n) {
            PST_TRY(
                t->data->row->sample(t->data, PST_SPLIT_VALIDATION, sample_of(t, first + k), at));
        } else {
            for (uint32_t i = 0; i < t->n_field; i++)
                memset(at[i], is_label(t->field[i].name) ? 0xff : 0,
                       t->field[i].elements * sizeof **at);
        }
    }
    for (uint32_t i = 0; i < t->n_field; i++)
        PST_TRY(pst_scorer_put(&t->scorer, t->field[i].name, t->array[i]));
    return PST_OK;
}

static void add(const texts *t, const float *losses, pst_eval_result *out) {
    uint32_t n_token;
    const uint32_t *bytes = pst_data_token_bytes(t->data, &n_token);
    const int32_t *target = t->array[t->targets];
    for (uint64_t i = 0; i < t->scorer.n_loss; i++) {
        if (target[i] < 0) continue;
        out->nats += losses[i];
        out->tokens++;
        if ((uint32_t)target[i] < n_token) out->bytes += bytes[target[i]];
        else out->bytes += t->bytes != 0;
    }
}

/* Places behind the last sample have neither losses nor hits. */
static pst_status add_of_samples(const texts *t, uint32_t output, double *sum) {
    const float *numbers;
    PST_TRY(pst_scorer_read(&t->scorer, output, &numbers));
    for (uint32_t i = 0; i < t->scorer.samples; i++) *sum += numbers[i];
    return PST_OK;
}

static pst_status evaluate(texts *t, pst_eval_result *out) {
    const float *losses;
    double hits = 0;
    PST_TRY(open_arrays(t));
    out->pairs = t->scorer.of_samples != PST_NONE;
    out->answers = t->scorer.hits != PST_NONE;
    for (uint64_t first = 0; first < t->n; first += t->scorer.samples) {
        PST_TRY(fill(t, first));
        PST_TRY(pst_scorer_run(&t->scorer, &losses));
        add(t, losses, out);
        if (out->pairs) PST_TRY(add_of_samples(t, t->scorer.of_samples, &out->pair_nats));
        if (out->answers) PST_TRY(add_of_samples(t, t->scorer.hits, &hits));
    }
    out->n = t->n;
    out->right = (uint64_t)hits;
    return PST_OK;
}

pst_status pst_eval_text(const pst_eval_scope *scope, pst_data *data, pst_eval_result *out) {
    texts t = {.data = data, .size = data->row->size(data, PST_SPLIT_VALIDATION)};
    pst_data_field field[PST_DATA_FIELDS];
    const uint32_t n = data->row->fields(data, field);
    uint64_t longest = 1;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(field[i].name, "targets")) longest = field[i].elements;
    t.bytes =
        data->row->token_bytes && !strcmp(pst_tokenizer_kind(scope->source->tokenizer), "byte");
    t.n = scope->limit && scope->limit < t.size ? scope->limit : t.size;
    uint64_t samples = longest < ROWS ? ROWS / longest : 1;
    if (samples > t.n) samples = t.n;
    *out = (pst_eval_result){.kind = scope->model.bert.labels ? PST_EVAL_LABELS : PST_EVAL_TEXT};
    if (!t.n) return pst_fail(PST_EINPUT, "there is nothing to evaluate on");
    pst_status status =
        pst_scorer_open(scope->source, (uint32_t)samples, scope->model.context, &t.scorer);
    if (status == PST_OK) status = evaluate(&t, out);
    for (uint32_t i = 0; i < PST_DATA_FIELDS; i++) free(t.array[i]);
    pst_scorer_close(&t.scorer);
    return status;
}
