/* Tokens as files write them: a byte of byte-level BPE as one printable character, and JSON objects
 * of tokens and ids. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <string.h>

/* GPT-2 writes printable bytes of Latin-1 as they are, the others as U+0100 and up, in order: 33 of
 * them are below 33, 34 from 127 to 160, and one is 173. */
uint32_t pst_character_of_byte(uint8_t byte) {
    if (byte <= 32) return 0x100u + byte;
    if (byte >= 127 && byte <= 160) return 0x100u + 33 + byte - 127;
    return byte == 173 ? 0x143 : byte;
}

static int32_t byte_of(uint32_t code) {
    if (code >= 0x100 && code < 0x100 + 33) return (int32_t)code - 0x100;
    if (code >= 0x100 + 33 && code < 0x143) return (int32_t)code - 0x100 - 33 + 127;
    if (code == 0x143) return 173;
    return code < 0x100 && pst_character_of_byte((uint8_t)code) == code ? (int32_t)code : -1;
}

pst_status pst_bytes_of_token(const char *token, size_t n, pst_text *out) {
    const uint8_t *at = (const uint8_t *)token, *end = at + n;
    size_t before = out->n;
    while (at < end) {
        uint32_t length;
        int32_t byte = byte_of(pst_unicode_decode(at, end, &length));
        if (byte < 0) { /* the token is not written this way */
            out->n = before;
            return pst_text_add(out, token, n);
        }
        const char one = (char)byte;
        PST_TRY(pst_text_add(out, &one, 1));
        at += length;
    }
    return PST_OK;
}

static pst_status add_token(pst_tokenizer *t, const char *key, const json_t *value) {
    pst_text text = {0};
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return pst_fail(PST_EINPUT, "the token \"%.40s\" has no id", key);
    pst_status status = t->row == &pst_tokenizer_bpe ? pst_bytes_of_token(key, strlen(key), &text)
                                                     : pst_text_add(&text, key, strlen(key));
    if (status == PST_OK) status = pst_text_room(&text, 1);
    if (status == PST_OK)
        status = pst_vocabulary_add(&t->vocabulary, (uint64_t)json_integer_value(value),
                                    (const uint8_t *)text.byte, text.n);
    pst_text_free(&text);
    return status;
}

pst_status pst_json_vocabulary(pst_tokenizer *t, json_t *vocabulary) {
    const char *key;
    json_t *value;
    if (!json_is_object(vocabulary))
        return pst_fail(PST_EINPUT, "expected an object of tokens and ids");
    json_object_foreach(vocabulary, key, value) PST_TRY(add_token(t, key, value));
    return PST_OK;
}
