/* Words by any regular expression, with PCRE2 and its compiler for processors. See split.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/split.h"
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pst_regex {
    pcre2_code *code;
};
struct pst_matcher {
    const pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};
enum {
    STACK_FIRST = 32 << 10,
    STACK_MOST = 64 << 20, /* bytes; a word may be as long as the text */
    MATCH_LIMIT = 100000000,
};

/* White space as other tokenizers mean it: PCRE2's \s also has U+180E, which Unicode has taken
 * out. */
static char *with_white_space(const char *pattern) {
    static const char space[] = "\\p{wspace}", other[] = "\\P{wspace}";
    char *out = malloc(strlen(pattern) * sizeof space + 1), *to = out;
    if (!out) return NULL;
    for (const char *at = pattern; *at; at++) {
        if (at[0] == '\\' && (at[1] == 's' || at[1] == 'S')) {
            memcpy(to, at[1] == 's' ? space : other, sizeof space - 1);
            to += sizeof space - 1;
            at++;
        } else {
            *to++ = *at;
            if (at[0] == '\\' && at[1]) *to++ = *++at;
        }
    }
    *to = 0;
    return out;
}

pst_status pst_regex_open(const char *pattern, pst_regex **out) {
    int error;
    PCRE2_SIZE where;
    PCRE2_UCHAR text[128];
    char *translated = with_white_space(pattern);
    pst_regex *r = calloc(1, sizeof *r);
    if (!translated || !r) {
        free(translated);
        free(r);
        return pst_no_memory("for a split pattern");
    }
    r->code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY,
                            &error, &where, NULL);
    free(translated);
    if (!r->code) {
        free(r);
        pcre2_get_error_message(error, text, sizeof text);
        return pst_fail(PST_EINPUT, "the split pattern \"%.200s\" is not understood: %s", pattern,
                        (const char *)text);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* without it, matching is slower */
    *out = r;
    return PST_OK;
}

void pst_regex_close(pst_regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

pst_status pst_matcher_open(const pst_regex *regex, pst_matcher **out) {
    pst_matcher *m = calloc(1, sizeof *m);
    if (!m) return pst_no_memory("to split text");
    m->code = regex->code;
    m->data = pcre2_match_data_create_from_pattern(m->code, NULL);
    m->context = pcre2_match_context_create(NULL);
    m->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
    if (!m->data || !m->context || !m->stack) {
        pst_matcher_close(m);
        return pst_no_memory("to split text");
    }
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    *out = m;
    return PST_OK;
}

void pst_matcher_close(pst_matcher *m) {
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

pst_status pst_regex_next(pst_matcher *m, const uint8_t *text, size_t bytes, size_t at,
                          pst_span *match) {
    PCRE2_UCHAR why[128];
    int n = pcre2_match(m->code, text, bytes, at, PCRE2_NOTEMPTY, m->data, m->context);
    if (n == PCRE2_ERROR_NOMATCH) {
        *match = (pst_span){bytes, bytes};
        return PST_OK;
    }
    if (n < 0) {
        pcre2_get_error_message(n, why, sizeof why);
        return pst_fail(PST_EINPUT, "the split pattern cannot be matched at byte %zu: %s", at,
                        (const char *)why);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m->data);
    *match = (pst_span){ends[0], ends[1]};
    return PST_OK;
}
