/* See chat_template.h. Each message begins with a special token, so its ids do not depend on the
 * messages before it. */
#include "data/chat_template.h"
#include "tokenizer/unicode.h"
#include <string.h>

/* Sources: OpenAI's chat markup (chatml.md, 2023); tokenizer_config.json of
 * Meta-Llama-3-8B-Instruct and of Qwen2.5-0.5B-Instruct, without tools. */
static const pst_chat_template templates[] = {
    {.name = "chatml",
     .begin = "",
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>",
     .behind = "\n",
     .special = {"<|im_start|>", "<|im_end|>"}},
    {.name = "llama3",
     .begin = "<|begin_of_text|>",
     .before_role = "<|start_header_id|>",
     .after_role = "<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .behind = "",
     .trim = 1,
     .special = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {.name = "qwen",
     .begin = "",
     .system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>",
     .behind = "\n",
     .special = {"<|im_start|>", "<|im_end|>"}},
};
static const char *const roles[] = {"system", "user", "assistant"};
enum { N_TEMPLATE = sizeof templates / sizeof *templates, N_ROLE = sizeof roles / sizeof *roles };

pst_status pst_chat_template_find(const char *name, const pst_chat_template **out) {
    for (size_t i = 0; i < N_TEMPLATE; i++)
        if (!strcmp(templates[i].name, name)) {
            *out = &templates[i];
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "data.template is %.40s; expected chatml, llama3 or qwen", name);
}

pst_status pst_chat_template_check(const pst_chat_template *c, const pst_tokenizer *t) {
    int32_t id;
    for (size_t i = 0; i < PST_CHAT_SPECIAL && c->special[i]; i++) {
        pst_status status = pst_tokenizer_special(t, c->special[i], &id);
        if (status != PST_OK) return pst_fail_in(status, "data.template %s", c->name);
    }
    return PST_OK;
}

/* --- a message -------------------------------------------------------------------------------- */

typedef struct {
    const char *role, *at; /* at: contents */
    size_t n;
} message;

/* What Python's str.strip() removes. */
static int is_white(uint32_t c) {
    if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
    if (c >= 0x2000 && c <= 0x200a) return 1;
    return c == 0x85 || c == 0xa0 || c == 0x1680 || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static void trim(message *m) {
    const uint8_t *at = (const uint8_t *)m->at, *end = at + m->n;
    uint32_t length;
    while (at < end && is_white(pst_unicode_decode(at, end, &length))) at += length;
    while (at < end) {
        const uint8_t *last = end - 1;
        while (last > at && (*last & 0xc0) == 0x80) last--;
        if (!is_white(pst_unicode_decode(last, end, &length))) break;
        end = last;
    }
    m->at = (const char *)at;
    m->n = (size_t)(end - at);
}

/* i: number of the message, from 0. */
static pst_status read_message(const json_t *object, size_t i, message *m) {
    const json_t *role = json_object_get(object, "role"),
                 *content = json_object_get(object, "content");
    if (!json_is_string(role) || !json_is_string(content))
        return pst_fail(PST_EINPUT, "message %zu has no text in the field \"%s\"", i + 1,
                        json_is_string(role) ? "content" : "role");
    *m =
        (message){json_string_value(role), json_string_value(content), json_string_length(content)};
    for (size_t k = 0; k < N_ROLE; k++)
        if (!strcmp(m->role, roles[k])) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "message %zu has the role \"%.40s\"; expected system, user or assistant", i + 1,
                    m->role);
}

enum { NOTHING = INT32_MAX }; /* of a text is learned */

/* Ids of the text become numbers; those of tokens that end behind byte `from` are to be learned. */
static pst_status mark(const pst_encoder *e, pst_ids *ids, size_t first, size_t from) {
    const pst_tokenizer *t = pst_encoder_tokenizer(e);
    pst_text text = {0};
    pst_status status = PST_OK;
    for (size_t i = first; status == PST_OK && i < ids->n; i++) {
        if (from < NOTHING && text.n <= from)
            status = pst_tokenizer_decode(t, &ids->id[i], 1, 0, &text);
        ids->id[i] = 2 * ids->id[i] + (text.n > from);
    }
    pst_text_free(&text);
    return status;
}

static pst_status add(pst_text *text, const char *more) {
    return pst_text_add(text, more, strlen(more));
}

/* Appends the numbers of a text of which nothing is learned before byte `from`. */
static pst_status encode_text(pst_encoder *e, const pst_text *text, size_t from, pst_ids *out) {
    const size_t first = out->n;
    PST_TRY(pst_encode(e, text->byte, text->n, 0, out));
    return mark(e, out, first, from);
}

/* The header and the contents, then the end, which begins with a special token. `text` is memory.
 */
static pst_status encode_message(const pst_chat_template *c, pst_encoder *e, const message *m,
                                 pst_text *text, pst_ids *out) {
    const int learned = !strcmp(m->role, "assistant");
    text->n = 0;
    PST_TRY(add(text, c->before_role));
    PST_TRY(add(text, m->role));
    PST_TRY(add(text, c->after_role));
    const size_t header = text->n;
    PST_TRY(pst_text_add(text, m->at, m->n));
    PST_TRY(encode_text(e, text, learned ? header : NOTHING, out));
    text->n = 0;
    PST_TRY(add(text, c->end));
    PST_TRY(add(text, c->behind));
    const size_t end = out->n;
    PST_TRY(encode_text(e, text, NOTHING, out));
    out->id[end] += learned;
    return PST_OK;
}

/* --- a conversation --------------------------------------------------------------------------- */

/* What precedes the messages: the text before all of them, and the usual system message. */
static pst_status encode_begin(const pst_chat_template *c, pst_encoder *e, int has_system,
                               pst_ids *out) {
    pst_text text = {0};
    pst_status status = add(&text, c->begin);
    if (status == PST_OK && text.n) status = encode_text(e, &text, NOTHING, out);
    if (status == PST_OK && c->system && !has_system) {
        const message usual = {"system", c->system, strlen(c->system)};
        status = encode_message(c, e, &usual, &text, out);
    }
    pst_text_free(&text);
    return status;
}

static pst_status check(const json_t *messages) {
    size_t answers = 0;
    message m;
    if (json_is_array(messages) && !json_array_size(messages))
        return pst_fail(PST_EINPUT, "the list of messages in the field \"messages\" is empty");
    if (!json_is_array(messages))
        return pst_fail(PST_EINPUT, "no list of messages in the field \"messages\"");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        PST_TRY(read_message(json_array_get(messages, i), i, &m));
        answers += !strcmp(m.role, "assistant");
    }
    if (answers) return PST_OK;
    return pst_fail(PST_EINPUT, "no message has the role \"assistant\": there is nothing to learn");
}

pst_status pst_chat_encode(const pst_chat_template *c, pst_encoder *e, const json_t *conversation,
                           pst_ids *out) {
    const json_t *messages = json_object_get(conversation, "messages");
    pst_text text = {0};
    message m;
    PST_TRY(check(messages));
    PST_TRY(read_message(json_array_get(messages, 0), 0, &m));
    PST_TRY(encode_begin(c, e, !strcmp(m.role, "system"), out));
    pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && i < json_array_size(messages); i++) {
        status = read_message(json_array_get(messages, i), i, &m);
        if (c->trim) trim(&m);
        if (status == PST_OK) status = encode_message(c, e, &m, &text, out);
    }
    pst_text_free(&text);
    return status;
}

pst_status pst_chat_ask(const pst_chat_template *c, pst_encoder *e, const char *system,
                        const char *user, pst_ids *out) {
    message m[] = {{"system", system ? system : "", system ? strlen(system) : 0},
                   {"user", user, strlen(user)}};
    const size_t first = out->n;
    pst_text text = {0};
    pst_status status = encode_begin(c, e, system != NULL, out);
    for (size_t i = system ? 0 : 1; status == PST_OK && i < 2; i++) {
        if (c->trim) trim(&m[i]);
        status = encode_message(c, e, &m[i], &text, out);
    }
    text.n = 0;
    if (status == PST_OK) status = add(&text, c->before_role);
    if (status == PST_OK) status = add(&text, "assistant");
    if (status == PST_OK) status = add(&text, c->after_role);
    if (status == PST_OK) status = encode_text(e, &text, NOTHING, out);
    for (size_t i = first; i < out->n; i++) out->id[i] /= 2; /* without what is to be learned */
    pst_text_free(&text);
    return status;
}
