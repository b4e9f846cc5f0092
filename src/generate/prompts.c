/* See prompts.h. */
#include "generate/prompts.h"
#include <string.h>

static pst_status find_template(const pst_source *source, const char *chat,
                                const pst_chat_template **out) {
    const pst_config *c = source->config;
    if (strcmp(chat, "run")) {
        pst_status status = pst_chat_template_find(chat, out);
        return status == PST_OK ? PST_OK
                                : pst_fail(PST_EINPUT,
                                           "there is no chat template %.40s; expected chatml, "
                                           "llama3, qwen, or run",
                                           chat);
    }
    if (!strcmp(c->data.kind, "chat")) return pst_chat_template_find(c->data.template, out);
    return pst_fail(PST_EINPUT,
                    "%s has no chat template, because its data.kind is %s; name one: chatml, "
                    "llama3 or qwen",
                    source->path, source->hf ? "unknown" : c->data.kind);
}

pst_status pst_prompts_open(const pst_source *source, const char *chat, const char *system,
                            pst_prompts *out) {
    pst_prompts p = {.system = system, .end = -1};
    if (chat && *chat) {
        PST_TRY(find_template(source, chat, &p.chat));
        pst_status status = pst_chat_template_check(p.chat, source->tokenizer);
        if (status != PST_OK) return pst_fail_in(status, "%s", source->path);
        PST_TRY(pst_tokenizer_special(source->tokenizer, p.chat->end, &p.end));
    }
    *out = p;
    return PST_OK;
}

static pst_status check(const pst_ids *ids, const pst_model_config *model) {
    if (!ids->n) return pst_fail(PST_EINPUT, "the prompt has no tokens");
    if (ids->n > model->context)
        return pst_fail(PST_EINPUT, "the prompt has %zu tokens, but the context is %u; shorten it",
                        ids->n, model->context);
    for (size_t i = 0; i < ids->n; i++)
        if ((uint32_t)ids->id[i] >= model->vocabulary)
            return pst_fail(PST_EINPUT, "the prompt has token %d, but the model has only %u tokens",
                            ids->id[i], model->vocabulary);
    return PST_OK;
}

pst_status pst_prompts_encode(const pst_prompts *p, const pst_source *source, const char *text,
                              const pst_model_config *model, pst_ids *ids) {
    pst_encoder *e = NULL;
    PST_TRY(pst_encoder_open(source->tokenizer, 1, &e));
    pst_status status = p->chat ? pst_chat_ask(p->chat, e, p->system, text, ids)
                                : pst_encode(e, text, strlen(text), 1, ids);
    pst_encoder_close(e);
    return status == PST_OK ? check(ids, model) : status;
}
