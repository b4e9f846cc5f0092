/* See length.h. */
#include "run/length.h"
#include <math.h>
#include <string.h>

static const double MAX_STEPS = 1e12; /* as the row of train.steps */

static pst_status set_steps(pst_config *c, const char *key, double steps) {
    if (steps > MAX_STEPS)
        return pst_config_at(c, "train", key,
                             pst_fail(PST_EINPUT, "train.%s gives %.3g steps; expected at most %g",
                                      key, steps, MAX_STEPS));
    pst_config_set_steps(c, steps > 1 ? (int64_t)steps : 1);
    return PST_OK;
}

static uint64_t targets_of_sample(const pst_data *data) {
    pst_data_field field[PST_DATA_FIELDS];
    uint32_t n = data->row->fields(data, field);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(field[i].name, "targets")) return field[i].elements;
    return 1;
}

pst_status pst_length_resolve(pst_config *c, const pst_data *data) {
    uint64_t batch = (uint64_t)c->train.batch;
    if (c->train.epochs > 0) {
        double samples = c->train.epochs * (double)data->row->size(data, PST_SPLIT_TRAIN);
        return set_steps(c, "epochs", ceil(samples / (double)batch));
    }
    return pst_length_resolve_tokens(c, batch * targets_of_sample(data));
}

pst_status pst_length_resolve_tokens(pst_config *c, uint64_t tokens) {
    if (c->train.epochs > 0)
        return pst_config_at(c, "train", "epochs",
                             pst_fail(PST_EINPUT, "train.epochs: the program's data has no known "
                                                  "size; give train.steps or train.tokens"));
    if (!c->train.tokens) return PST_OK;
    uint64_t steps = ((uint64_t)c->train.tokens + tokens - 1) / tokens;
    return set_steps(c, "tokens", (double)steps);
}
