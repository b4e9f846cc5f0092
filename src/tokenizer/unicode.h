/* Characters of UTF-8 text and the classes by which tokenizers split it. */
#ifndef PST_TOKENIZER_UNICODE_H
#define PST_TOKENIZER_UNICODE_H
#include <stddef.h>
#include <stdint.h>

/* Bits of a character's class. A character has at most one of LETTER, NUMBER and SPACE. */
enum {
    PST_LETTER = 1,   /* general category L */
    PST_NUMBER = 2,   /* N */
    PST_SPACE = 4,    /* the property White_Space */
    PST_NEWLINE = 8,  /* carriage return or line feed, which are SPACE too */
    PST_PUNCT = 16,   /* P, and every printable ASCII character that is no letter or digit */
    PST_MARK = 32,    /* Mn: marks without width of their own, such as accents */
    PST_CONTROL = 64, /* Cc, Cf, Co, except tab and newlines */
    PST_HAN = 128,    /* the blocks that BERT takes for Chinese */
};
enum { PST_INVALID = 0x110000 }; /* stands for a byte that is not part of valid UTF-8 */

/* [0x110001] by code point; PST_INVALID has no class. The first call fills the table; any
 * thread. */
const uint8_t *pst_unicode_classes(void);

/* The same with the punctuation, marks and controls of Unicode 8, which Hugging Face's tokenizers
 * has for BERT: characters that came later are none of these. */
const uint8_t *pst_unicode_bert_classes(void);

/* The character at `at`, before `end`; *bytes: its length. Invalid UTF-8 gives PST_INVALID and
 * length 1. */
uint32_t pst_unicode_decode(const uint8_t *at, const uint8_t *end, uint32_t *bytes);
/* The character that ends before `at`, in the text from `begin` < `at` on. */
uint32_t pst_unicode_before(const uint8_t *begin, const uint8_t *at, uint32_t *bytes);
/* Writes a code point as UTF-8; returns its length, 1 to 4. */
uint32_t pst_unicode_encode(uint32_t code, uint8_t out[4]);
/* Number of characters in valid or invalid UTF-8; an invalid byte counts as one. */
size_t pst_unicode_count(const uint8_t *text, size_t bytes);
#endif
