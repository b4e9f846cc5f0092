/* The sizes of a model whose weights are read from a file, written into its configuration. */
#include "prepare/prepare.h"
#include <stdio.h>
#include <string.h>

/* Sets model.KEY to a number; 0 stays "not given". */
static pst_status keep_number(pst_config *kept, const char *key, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    return value != 0 ? pst_config_override(kept, "model", key, text) : PST_OK;
}

static pst_status keep_llama(pst_config *kept, const pst_llama *l) {
    const pst_rope *r = &l->rope;
    const struct {
        const char *key;
        double value;
    } number[] = {{"kv_heads", l->kv_heads},
                  {"intermediate", l->intermediate},
                  {"window", l->window},
                  {"norm_eps", (double)l->norm_eps},
                  {"rope_theta", (double)r->theta},
                  {"rope_factor", (double)r->factor},
                  {"rope_context", r->context},
                  {"rope_low", (double)r->low},
                  {"rope_high", (double)r->high},
                  {"rope_attention", (double)r->attention}};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        PST_TRY(keep_number(kept, number[i].key, number[i].value));
    PST_TRY(pst_config_override(kept, "model", "tied", l->tied == PST_YES ? "true" : "false"));
    PST_TRY(pst_config_override(kept, "model", "bias", l->bias == PST_YES ? "true" : "false"));
    return pst_config_override(kept, "model", "rope_scaling", pst_rope_scaling_name(r->scaling));
}

static pst_status keep_bert(pst_config *kept, const pst_bert *b) {
    char text[40];
    PST_TRY(keep_number(kept, "intermediate", b->intermediate));
    PST_TRY(keep_number(kept, "norm_eps", (double)b->norm_eps));
    snprintf(text, sizeof text, "%u", b->token_types);
    PST_TRY(pst_config_override(kept, "model", "token_types", text));
    return pst_config_override(kept, "model", "next_sentence", b->next_sentence ? "true" : "false");
}

pst_status pst_prepare_keep_sizes(pst_config *kept) {
    const pst_model_row *row;
    pst_model_config m;
    if (!*kept->model.weights || *kept->model.preset) return PST_OK;
    if (pst_prepare_model(kept, &row, &m) != PST_OK) return PST_OK; /* the file is gone */
    PST_TRY(keep_number(kept, "layers", m.layers));
    PST_TRY(keep_number(kept, "heads", m.heads));
    PST_TRY(keep_number(kept, "channels", m.channels));
    PST_TRY(keep_number(kept, "context", m.context));
    PST_TRY(keep_number(kept, "vocabulary", m.vocabulary));
    if (!strcmp(m.kind, "llama")) return keep_llama(kept, &m.llama);
    if (row->masked) PST_TRY(keep_bert(kept, &m.bert));
    return pst_config_override(kept, "model", "activation", pst_activation_name(m.activation));
}
