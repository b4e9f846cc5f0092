/* Splitting of text into words, within which byte-pair encoding merges. The patterns of GPT-2,
 * cl100k, Llama 3 and Qwen 2 are matched by code of their own; any other pattern by PCRE2, which
 * also checks that code in tests. */
#ifndef PST_TOKENIZER_SPLIT_H
#define PST_TOKENIZER_SPLIT_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_split_row {
    const char *name;
    /* NULL-terminated: regular expressions of this family, as tokenizer files write them; the first
     * one is compiled by PCRE2 where the program's own code is not wanted */
    const char *const *pattern;
    /* Digits of a word at most (0: any number); 1: contractions in upper case too, and a letter
     * may follow any one sign; 0: as GPT-2. to_end: white space at the end of the text is one
     * word. */
    uint32_t digits;
    int modern, to_end;
} pst_split_row;
/* "gpt2", "cl100k", "llama3", "qwen2"; NULL: no such row. */
const pst_split_row *pst_split_find(const char *name);
/* The row whose pattern is `pattern`; NULL: none. */
const pst_split_row *pst_split_of_pattern(const char *pattern);

/* The end of the word that starts at `at` < `end`. A byte of invalid UTF-8 counts as a sign.
 * classes: pst_unicode_classes(), which callers ask for once. */
const uint8_t *pst_split_next(const pst_split_row *row, const uint8_t *classes, const uint8_t *at,
                              const uint8_t *end);

/* The largest position < bytes at which every row splits the text, whatever comes before and after;
 * 0: none. It is between a letter and a sign, digit or white space. For pst_read_parts; `what` is
 * not used. */
size_t pst_split_cut(const void *what, const char *text, size_t bytes);
/* The split pattern of o200k. */
extern const char pst_split_o200k[];
/* What is known of a pattern at a line feed after an ASCII letter: words end before it; no match
 * has both; nothing. */
typedef enum { PST_SPLIT_AT_LINES, PST_SPLIT_WITHIN_LINES, PST_SPLIT_UNKNOWN } pst_split_lines;
pst_split_lines pst_split_lines_of(const char *pattern);
/* The place of the last line feed after an ASCII letter; 0: none. */
size_t pst_split_line(const char *text, size_t bytes);

/* A compiled pattern; any thread. A matcher holds the memory of one thread. */
typedef struct pst_regex pst_regex;
typedef struct pst_matcher pst_matcher;
/* EINPUT names the pattern and what is wrong with it. */
pst_status pst_regex_open(const char *pattern, pst_regex **out);
void pst_regex_close(pst_regex *regex);
pst_status pst_matcher_open(const pst_regex *regex, pst_matcher **out);
void pst_matcher_close(pst_matcher *matcher);
/* The first match at or after offset `at` of the text, not empty, in *from and *to; *from = *to =
 * bytes: no match. EINPUT: the pattern needs more memory or time than allowed. */
typedef struct {
    size_t from, to;
} pst_span;
pst_status pst_regex_next(pst_matcher *matcher, const uint8_t *text, size_t bytes, size_t at,
                          pst_span *match);
#endif
