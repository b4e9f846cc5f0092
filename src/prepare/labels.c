/* The labels of a model that classifies: those that the run file gives, of the weights that it
 * starts from, or of its data. Declared in prepare.h. */
#include "backends/registry.h"
#include "data/labelled.h"
#include "prepare/hf_config.h"
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int pst_prepare_classifies(const pst_config *c) {
    return !strcmp(c->model.kind, "bert") && !strcmp(c->model.task, "classification");
}

pst_status pst_prepare_check_labels(const pst_config *c) {
    const int labelled = !strcmp(c->data.kind, "labels"), classifies = pst_prepare_classifies(c);
    if (labelled == classifies || !strcmp(c->data.kind, "custom")) return PST_OK;
    if (classifies)
        return pst_config_at(c, "model", "task",
                             pst_fail(PST_EINPUT,
                                      "model.task classification learns labels, but data.kind %s "
                                      "has none; use data.kind: labels",
                                      c->data.kind));
    return pst_config_at(c, "data", "kind",
                         pst_fail(PST_EINPUT,
                                  "data.kind labels is for classification; use model: {kind: bert, "
                                  "task: classification}"));
}

static pst_status of_weights(const pst_config *c, pst_labels *out) {
    *out = (pst_labels){0};
    if (!*c->model.weights || access(c->model.weights, F_OK) != 0) return PST_OK;
    pst_status status = pst_hf_read_labels(c->model.weights, &out->name, &out->n);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "model.weights");
}

static pst_status of_data(const pst_config *c, pst_labels *out) {
    const pst_data_config data = {.paths = c->data.paths,
                                  .n_path = c->data.n_path,
                                  .lines = {c->data.field, !strcmp(c->data.on_error, "skip")},
                                  .label = c->data.label};
    pst_labelled all;
    if (strcmp(c->data.kind, "labels") != 0)
        return pst_fail(PST_EINPUT, "model.task classification: set model.labels, the number of "
                                    "labels of the program's data, or their names");
    pst_status status = pst_labelled_read(&data, &all);
    if (status != PST_OK) return pst_fail_in(status, "the labels of the data");
    *out = all.labels;
    all.labels = (pst_labels){0};
    pst_labelled_free(&all);
    return PST_OK;
}

static pst_status find(const pst_config *c, pst_labels *out) {
    if (c->model.n_labels)
        return pst_config_at(c, "model", "labels",
                             pst_labels_of(c->model.labels, c->model.n_labels, out));
    PST_TRY(of_weights(c, out));
    return out->n ? PST_OK : of_data(c, out);
}

pst_status pst_prepare_count_labels(const pst_config *c, uint32_t *n) {
    pst_labels labels;
    *n = 0;
    if (!pst_prepare_classifies(c)) return PST_OK;
    PST_TRY(find(c, &labels));
    *n = labels.n;
    pst_labels_free(&labels);
    return PST_OK;
}

pst_status pst_prepare_set_labels(pst_config *c) {
    pst_labels labels;
    char number[24], *only = number;
    PST_TRY(pst_prepare_check_labels(c));
    if (!pst_prepare_classifies(c) || c->model.n_labels) return PST_OK;
    PST_TRY(find(c, &labels));
    snprintf(number, sizeof number, "%u", labels.n);
    pst_status status =
        pst_config_set_labels(c, labels.name ? labels.name : &only, labels.name ? labels.n : 1);
    pst_labels_free(&labels);
    return status;
}
