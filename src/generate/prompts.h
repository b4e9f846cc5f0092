/* Prompts as tokens: texts, or messages of a user in a chat template. */
#ifndef PST_GENERATE_PROMPTS_H
#define PST_GENERATE_PROMPTS_H
#include "data/chat_template.h"
#include "generate/source.h"

typedef struct {
    const pst_chat_template *chat; /* NULL: prompts are texts */
    const char *system;            /* with chat: the system message, NULL: the usual one */
    int32_t end;                   /* the token that ends an answer; -1: none */
} pst_prompts;

/* chat: as in pst_generate_options. EINPUT: there is no such template, the run has none, or the
 * tokenizer lacks a token of it. */
pst_status pst_prompts_open(const pst_source *source, const char *chat, const char *system,
                            pst_prompts *out);
/* Appends the ids of a prompt. EINPUT: it has no tokens, more than `context`, or one that the model
 * with so many tokens lacks. */
pst_status pst_prompts_encode(const pst_prompts *p, const pst_source *source, const char *text,
                              const pst_model_config *model, pst_ids *ids);
#endif
