/* Words by code that is written by hand: each function matches one alternative of the patterns, in
 * their order. See split.h. */
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"
#include <string.h>

static const char *const gpt2[] = {
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s",
    NULL};
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char *const three_digits[] = {
    CONTRACTIONS "\\p{N}{1,3}" SIGNS,
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    NULL};
static const char *const to_the_end[] = {
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
    NULL};
static const char *const one_digit[] = {CONTRACTIONS "\\p{N}" SIGNS, NULL};

const char pst_split_o200k[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'"
    "s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}"
    "\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const pst_split_row rows[] = {{"gpt2", gpt2, 0, 0, 0},
                                     {"cl100k", to_the_end, 3, 1, 1},
                                     {"llama3", three_digits, 3, 1, 0},
                                     {"qwen2", one_digit, 1, 1, 0}};

const pst_split_row *pst_split_find(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

const pst_split_row *pst_split_of_pattern(const char *pattern) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *const *p = rows[i].pattern; *p; p++)
            if (!strcmp(*p, pattern)) return &rows[i];
    return NULL;
}

/* --- runs of characters ----------------------------------------------------------------------- */

typedef struct {
    const uint8_t *class, *end;
} range;

static inline uint32_t class_at(const range *r, const uint8_t *at, uint32_t *bytes) {
    if (*at < 0x80) {
        *bytes = 1;
        return r->class[*at];
    }
    return r->class[pst_unicode_decode(at, r->end, bytes)];
}

/* The end of the characters with any bit of `wanted` from `at` on. */
static inline const uint8_t *run_of(const range *r, const uint8_t *at, uint32_t wanted) {
    uint32_t bytes;
    while (at < r->end && class_at(r, at, &bytes) & wanted) at += bytes;
    return at;
}

enum { NOT_SIGN = PST_LETTER | PST_NUMBER | PST_SPACE };
static inline const uint8_t *run_of_signs(const range *r, const uint8_t *at) {
    uint32_t bytes;
    while (at < r->end && !(class_at(r, at, &bytes) & NOT_SIGN)) at += bytes;
    return at;
}

/* --- alternatives ----------------------------------------------------------------------------- */

/* 's 't 'm 'd 're 've 'll. Without regard to case, the long s (U+017F) is an s too. Returns `at` if
 * there is none. */
static const uint8_t *contraction(const uint8_t *at, const uint8_t *end, int any_case) {
    uint8_t fold = any_case ? 0x20 : 0;
    if (end - at < 2) return at;
    uint8_t first = at[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (end - at < 3) return at;
    if (any_case && at[1] == 0xc5 && at[2] == 0xbf) return at + 3;
    uint8_t second = at[2] | fold;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
        return at + 3;
    return at;
}

static const uint8_t *digits(const range *r, const uint8_t *at, uint32_t most) {
    uint32_t bytes;
    if (!most) return run_of(r, at, PST_NUMBER);
    for (uint32_t n = 0; n < most && at < r->end && class_at(r, at, &bytes) & PST_NUMBER; n++)
        at += bytes;
    return at;
}

/* The last character of white space before a word is not part of the run. by_newline: the run ends
 * with its last line feed or carriage return, except (to_end) at the end of the text. */
static const uint8_t *white_space(const range *r, const uint8_t *at, int by_newline, int to_end) {
    const uint8_t *to = at, *last = at, *newline = NULL;
    uint32_t bytes, class;
    while (to < r->end && (class = class_at(r, to, &bytes)) & PST_SPACE) {
        last = to;
        to += bytes;
        if (class & PST_NEWLINE) newline = to;
    }
    if (to_end && to == r->end) return to;
    if (by_newline && newline) return newline;
    return to == r->end || last == at ? to : last;
}

static const uint8_t *next_gpt2(const range *r, const uint8_t *at) {
    uint32_t bytes, class = class_at(r, at, &bytes);
    const uint8_t *word = at;
    if (*at == '\'') {
        const uint8_t *to = contraction(at, r->end, 0);
        if (to > at) return to;
    }
    if (*at == ' ' && at + 1 < r->end) {
        class = class_at(r, ++word, &bytes);
        if (class & PST_SPACE) return white_space(r, at, 0, 0);
    }
    if (class & PST_LETTER) return run_of(r, word + bytes, PST_LETTER);
    if (class & PST_NUMBER) return run_of(r, word + bytes, PST_NUMBER);
    if (class & PST_SPACE) return white_space(r, at, 0, 0);
    return run_of_signs(r, word + bytes);
}

static const uint8_t *next_modern(const pst_split_row *row, const range *r, const uint8_t *at) {
    uint32_t bytes, class = class_at(r, at, &bytes), next_bytes;
    if (class & PST_LETTER) return run_of(r, at + bytes, PST_LETTER);
    if (class & PST_NUMBER) return digits(r, at, row->digits);
    if (*at == '\'') {
        const uint8_t *to = contraction(at, r->end, 1);
        if (to > at) return to;
    }
    const uint8_t *next = at + bytes;
    uint32_t next_class = next < r->end ? class_at(r, next, &next_bytes) : PST_SPACE;
    if (!(class & PST_NEWLINE) && next_class & PST_LETTER)
        return run_of(r, next + next_bytes, PST_LETTER);
    if (class & PST_SPACE && (*at != ' ' || next_class & NOT_SIGN))
        return white_space(r, at, 1, row->to_end);
    const uint8_t *to = run_of_signs(r, next);
    while (to < r->end && (*to == '\r' || *to == '\n')) to++;
    return to;
}

const uint8_t *pst_split_next(const pst_split_row *row, const uint8_t *classes, const uint8_t *at,
                              const uint8_t *end) {
    const range r = {classes, end};
    return row->modern ? next_modern(row, &r, at) : next_gpt2(&r, at);
}

/* No row has a letter before another kind of character within a word, and none looks behind. */
size_t pst_split_cut(const void *what, const char *text, size_t bytes) {
    const uint8_t *at = (const uint8_t *)text, *class = pst_unicode_classes();
    uint32_t length;
    (void)what;
    for (size_t place = bytes; place-- > 1;) {
        if ((at[place] & 0xc0) == 0x80) continue;
        uint32_t next = class[pst_unicode_decode(at + place, at + bytes, &length)];
        if (!(next & (PST_PUNCT | PST_SPACE | PST_NUMBER))) continue;
        if (class[pst_unicode_before(at, at + place, &length)] & PST_LETTER) return place;
    }
    return 0;
}

size_t pst_split_line(const char *text, size_t bytes) {
    for (size_t at = bytes; at > 1; at--) {
        char before = text[at - 2] | 0x20;
        if (text[at - 1] == '\n' && before >= 'a' && before <= 'z') return at - 1;
    }
    return 0;
}

pst_split_lines pst_split_lines_of(const char *pattern) {
    static const char *const digits_only[] = {"\\p{N}", "\\p{N}+", "\\p{N}{1,3}"};
    if (pst_split_of_pattern(pattern) || !strcmp(pattern, pst_split_o200k))
        return PST_SPLIT_AT_LINES;
    for (size_t i = 0; i < sizeof digits_only / sizeof *digits_only; i++)
        if (!strcmp(pattern, digits_only[i])) return PST_SPLIT_WITHIN_LINES;
    return PST_SPLIT_UNKNOWN;
}
