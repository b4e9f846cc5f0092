/* See evaluate.h. */
#include "metrics/evaluate.h"
#include "backends/registry.h"
#include "base/hash.h"
#include "data/blend.h"
#include "data/options.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the validation split, in checkpoint.best. */
static const char split_name[] = "validation";

/* A custom model reads what its program names its data tensors after. */
static int predicts_masked(const pst_config *c) {
    const pst_model_row *row;
    return strcmp(c->model.kind, "custom") && pst_registry_model(c->model.kind, &row) == PST_OK &&
           row->masked;
}

pst_status pst_evaluate_data(const pst_config *c, const pst_model_config *model, char *const *path,
                             uint32_t n, int held_out, pst_data **data) {
    const pst_data_row *row;
    if (!strcmp(c->data.kind, "custom"))
        return pst_fail(PST_EINPUT, "data.kind custom: only a program that passes its data through "
                                    "the library can use it; choose another data.kind");
    PST_TRY(pst_registry_data(c->data.kind, &row));
    pst_data_config config = {.paths = path,
                              .n_path = n,
                              .validation = c->data.validation,
                              .context = model->context,
                              .vocabulary = model->vocabulary,
                              .cache = c->data.cache,
                              .lines = {c->data.field, !strcmp(c->data.on_error, "skip")},
                              .weights = c->data.blend,
                              .n_weight = held_out ? 0 : c->data.n_blend,
                              .template = c->data.template,
                              .isolate = !strcmp(c->data.isolate, "true"),
                              .masked = predicts_masked(c),
                              .predictions = model->bert.predictions,
                              .types = model->bert.token_types != 0,
                              .whole_words = !strcmp(c->data.mask, "words"),
                              .pairs = model->bert.next_sentence,
                              .seed = (uint64_t)c->train.seed,
                              .tokenizer = c->data.tokenizer,
                              .held_out = held_out,
                              .label = c->data.label,
                              .label_name = c->model.labels,
                              .n_label = c->model.n_labels};
    const int lines = !strcmp(c->data.kind, "text") || !strcmp(c->data.kind, "lines");
    if (!held_out && lines) PST_TRY(pst_options_check_lines(&config));
    return config.n_weight ? pst_blend_open(row, &config, data) : row->open(&config, data);
}

uint32_t pst_evaluate_parts(double loss, double next_sentence, double accuracy,
                            pst_evaluate_part out[PST_EVALUATE_PARTS]) {
    uint32_t n = 0;
    const int both = !isnan(next_sentence);
    if (both) out[n++] = (pst_evaluate_part){"masked_loss", loss - next_sentence};
    if (both) out[n++] = (pst_evaluate_part){"next_sentence_loss", next_sentence};
    if (!isnan(accuracy))
        out[n++] = (pst_evaluate_part){both ? "next_sentence_accuracy" : "accuracy", accuracy};
    return n;
}

double pst_evaluate_bits_per_byte(double nats, uint64_t bytes) {
    static const double nats_per_bit = 0.69314718055994530942;
    return bytes ? nats / nats_per_bit / (double)bytes : (double)NAN;
}

/* Items from `first` on with the same name, as paths without the name. */
static uint32_t paths_of(const pst_config *c, uint32_t first, char **path,
                         char name[PST_EVALUATE_NAME]) {
    size_t bytes = strcspn(c->eval.sets[first], "=");
    uint32_t n = 0;
    snprintf(name, PST_EVALUATE_NAME, "%.*s", (int)bytes, c->eval.sets[first]);
    for (uint32_t i = first; i < c->eval.n_sets; i++) {
        if (strncmp(c->eval.sets[i], name, bytes) != 0 || c->eval.sets[i][bytes] != '=') break;
        path[n++] = c->eval.sets[i] + bytes + 1;
    }
    return n;
}

static pst_status open_sets(const pst_config *c, const pst_model_config *model, char **path,
                            pst_evaluate_sets *sets) {
    for (uint32_t i = 0; i < c->eval.n_sets;) {
        pst_evaluate_set *set = &sets->set[sets->n];
        uint32_t n = paths_of(c, i, path, set->name);
        set->last = (pst_evaluation)PST_EVALUATION_NONE;
        if (!strcmp(set->name, split_name))
            return pst_config_at(c, "eval", "sets",
                                 pst_fail(PST_EINPUT,
                                          "eval.sets.%s: this is the name of the validation split; "
                                          "choose another one",
                                          set->name));
        pst_status status = pst_evaluate_data(c, model, path, n, 1, &set->data);
        if (status != PST_OK) return pst_fail_in(status, "eval.sets.%s", set->name);
        sets->n++;
        i += n;
    }
    return PST_OK;
}

pst_status pst_evaluate_open(const pst_config *c, const pst_model_config *model,
                             pst_evaluate_sets *sets) {
    *sets = (pst_evaluate_sets){0};
    if (!c->eval.n_sets) return PST_OK;
    char **path = calloc(c->eval.n_sets, sizeof *path);
    sets->set = calloc(c->eval.n_sets, sizeof *sets->set);
    pst_status status =
        path && sets->set
            ? open_sets(c, model, path, sets)
            : pst_fail(PST_ENOMEM, "no memory for %u paths of an evaluation set", c->eval.n_sets);
    free(path);
    if (status != PST_OK) pst_evaluate_close(sets);
    return status;
}

void pst_evaluate_close(pst_evaluate_sets *sets) {
    for (uint32_t i = 0; i < sets->n; i++) sets->set[i].data->row->close(sets->set[i].data);
    free(sets->set);
    *sets = (pst_evaluate_sets){0};
}

const pst_evaluation *pst_evaluate_named(const pst_evaluate_sets *sets, const char *name,
                                         const pst_evaluation *split) {
    if (!strcmp(name, split_name)) return split;
    for (uint32_t i = 0; i < sets->n; i++)
        if (!strcmp(sets->set[i].name, name)) return &sets->set[i].last;
    return NULL;
}

uint64_t pst_evaluate_hash(const pst_evaluate_sets *sets, uint64_t hash) {
    for (uint32_t i = 0; i < sets->n; i++) {
        uint64_t of = sets->set[i].data->row->hash(sets->set[i].data);
        hash = pst_hash64(sets->set[i].name, strlen(sets->set[i].name), hash);
        hash = pst_hash64(&of, sizeof of, hash);
    }
    return hash;
}
