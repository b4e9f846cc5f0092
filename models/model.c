/* What the model files share: filling a configuration from a table of presets, and checking the
 * sizes that all models need. */
#include "models/model.h"
#include <string.h>

static void fill(uint32_t *field, uint32_t value) {
    if (*field == 0) *field = value;
}

static void fill_llama(pst_llama *to, const pst_llama *from) {
    fill(&to->kv_heads, from->kv_heads);
    fill(&to->intermediate, from->intermediate);
    fill(&to->window, from->window);
    if (to->norm_eps == 0) to->norm_eps = from->norm_eps;
    if (to->tied == PST_UNSET) to->tied = from->tied;
    if (to->bias == PST_UNSET) to->bias = from->bias;
    const float theta = to->rope.theta != 0 ? to->rope.theta : from->rope.theta;
    if (to->rope.factor == 0) to->rope = from->rope;
    to->rope.theta = theta;
}

pst_status pst_model_fill(pst_model_config *config, const pst_model_preset *preset,
                          uint32_t n_preset, const char *sizes) {
    /* heads and vocabulary may be set later */
    int explicit = config->layers && config->channels && config->context;
    char known[512] = "";
    if (config->preset[0] == 0 && explicit) return PST_OK;
    for (uint32_t i = 0; i < n_preset; i++) {
        const pst_model_preset *p = &preset[i];
        if (strcmp(p->name, config->preset) == 0) {
            fill(&config->layers, p->layers);
            fill(&config->heads, p->heads);
            fill(&config->channels, p->channels);
            fill(&config->context, p->context);
            fill(&config->vocabulary, p->vocabulary);
            if (p->llama) fill_llama(&config->llama, p->llama);
            return PST_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", p->name);
    }
    if (config->preset[0] == 0)
        return pst_fail(PST_EINPUT, "model.kind %s: set model.preset (%s), or %s", config->kind,
                        known, sizes);
    return pst_fail(PST_EINPUT, "model.preset: model %s has no preset \"%s\"; expected one of %s",
                    config->kind, config->preset, known);
}

pst_status pst_model_check(const pst_model_config *c) {
    const struct {
        const char *name;
        uint32_t value;
    } size[] = {
        {"layers", c->layers},         {"channels", c->channels},       {"context", c->context},
        {"vocabulary", c->vocabulary}, {"micro_batch", c->micro_batch},
    };
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++)
        if (size[i].value == 0)
            return pst_fail(PST_EINPUT, "model.%s is 0; set this key or model.preset",
                            size[i].name);
    if (c->infer && c->dtype != PST_F32)
        return pst_fail(PST_EINTERNAL,
                        "a model that generates text needs dtype F32: its logits are read as F32");
    if (!(c->dropout >= 0 && c->dropout < 1))
        return pst_fail(PST_EINPUT, "model.dropout is %g; it must be >= 0 and < 1",
                        (double)c->dropout);
    if (!(c->attention_dropout >= 0 && c->attention_dropout < 1))
        return pst_fail(PST_EINPUT, "model.attention_dropout is %g; it must be >= 0 and < 1",
                        (double)c->attention_dropout);
    return PST_OK;
}
