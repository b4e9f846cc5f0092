/* How the messages of a conversation become one text, as the chat templates of published models
 * write it. */
#ifndef PST_DATA_CHAT_TEMPLATE_H
#define PST_DATA_CHAT_TEMPLATE_H
#include "tokenizer/tokenizer.h"
#include <jansson.h>

enum { PST_CHAT_SPECIAL = 4 };
typedef struct {
    const char *name;
    const char *begin;  /* before the first message */
    const char *system; /* contents of the system message that a conversation without one gets;
                           NULL: none */
    const char *before_role, *after_role; /* a message: before_role ROLE after_role CONTENT */
    const char *end, *behind; /* ... end behind; `end` is a special token, which is learned */
    int trim;                 /* 1: white space around the contents is removed */
    const char *special[PST_CHAT_SPECIAL]; /* tokens that the tokenizer must have; NULL: no more */
} pst_chat_template;

/* EINPUT: there is no template of this name; lists the names. */
pst_status pst_chat_template_find(const char *name, const pst_chat_template **out);
/* EINPUT: the tokenizer lacks a special token of the template; names it. */
pst_status pst_chat_template_check(const pst_chat_template *c, const pst_tokenizer *t);
/* Appends the ids of a conversation, {"messages": [{"role": ..., "content": ...}, ...]}. Each
 * number is 2 id, or 2 id + 1 if the token is to be learned: those of the contents of messages of
 * the role "assistant", and of their ends. e: an encoder of special tokens. EINPUT: what is wrong
 * with the conversation; then *out may have a part of it. */
pst_status pst_chat_encode(const pst_chat_template *c, pst_encoder *e, const json_t *conversation,
                           pst_ids *out);
/* Appends the ids of a conversation that an answer is to follow: the system message (NULL: that of
 * the template, if any), a message of the user, and the header of the answer. */
pst_status pst_chat_ask(const pst_chat_template *c, pst_encoder *e, const char *system,
                        const char *user, pst_ids *out);
#endif
