/* See unicode.h. General categories come from utf8proc; the table is filled once, so that a class
 * is one load. */
#include "tokenizer/unicode.h"
#include <pthread.h>
#include <string.h>
#include <utf8proc.h>

static uint8_t classes[PST_INVALID + 1], bert_classes[PST_INVALID + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT, bert_once = PTHREAD_ONCE_INIT;

typedef struct {
    uint32_t first, last;
} range;
static const range spaces[] = {
    {9, 13},          {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
static const range han[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                            {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                            {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};

static uint8_t class_of(uint32_t code) {
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return PST_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return PST_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return PST_PUNCT;
    case UTF8PROC_CATEGORY_MN: return PST_MARK;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: return PST_CONTROL;
    default: return 0;
    }
}

static int is_ascii_sign(uint32_t code) {
    return (code > 32 && code < '0') || (code > '9' && code < 'A') || (code > 'Z' && code < 'a') ||
           (code > 'z' && code < 127);
}

static void fill(void) {
    for (uint32_t code = 0; code < PST_INVALID; code++) {
        classes[code] = class_of(code);
        if (is_ascii_sign(code)) classes[code] |= PST_PUNCT;
    }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        for (uint32_t code = spaces[i].first; code <= spaces[i].last; code++)
            classes[code] |= PST_SPACE;
    for (size_t i = 0; i < sizeof han / sizeof *han; i++)
        for (uint32_t code = han[i].first; code <= han[i].last; code++) classes[code] |= PST_HAN;
    classes['\t'] = PST_SPACE;
    classes['\n'] = classes['\r'] = PST_SPACE | PST_NEWLINE;
}

const uint8_t *pst_unicode_classes(void) {
    pthread_once(&once, fill);
    return classes;
}

/* Punctuation, marks and controls in these ranges have come after Unicode 8. */
static const range later[] = {
    {0x61d, 0x61d},     {0x7fd, 0x7fd},     {0x890, 0x8e2},     {0x9fd, 0x9fe},
    {0xa76, 0xa76},     {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc3c},
    {0xc77, 0xc77},     {0xc84, 0xc84},     {0xd00, 0xd00},     {0xd3b, 0xd3c},
    {0xd81, 0xd81},     {0xeba, 0xeba},     {0x180f, 0x1886},   {0x1abf, 0x1ace},
    {0x1b7d, 0x1b7e},   {0x1df6, 0x1dfb},   {0x2e43, 0x2e5d},   {0xa82c, 0xa82c},
    {0xa8c5, 0xa8c5},   {0xa8ff, 0xa8ff},   {0xa9bd, 0xa9bd},   {0x10d24, 0x10f89},
    {0x11070, 0x11074}, {0x110c2, 0x110cd}, {0x111cf, 0x111cf}, {0x1123e, 0x1123e},
    {0x1133b, 0x1133b}, {0x11438, 0x1145e}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1182f, 0x11fff}, {0x12ff1, 0x13438}, {0x16e97, 0x16f4f}, {0x16fe2, 0x16fe4},
    {0x1cf00, 0x1cf46}, {0x1e000, 0x1e2ef}, {0x1e944, 0x1e95f}};

static void fill_bert(void) {
    memcpy(bert_classes, pst_unicode_classes(), sizeof bert_classes);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        for (uint32_t code = later[i].first; code <= later[i].last; code++)
            bert_classes[code] &= (uint8_t) ~(PST_PUNCT | PST_MARK | PST_CONTROL);
    /* what these were then */
    bert_classes[0x166d] = bert_classes[0x111c9] = PST_PUNCT;
    bert_classes[0x1734] = PST_MARK;
}

const uint8_t *pst_unicode_bert_classes(void) {
    pthread_once(&bert_once, fill_bert);
    return bert_classes;
}

/* The bytes after the first one must continue it; the ranges of the second byte rule out overlong
 * forms, surrogates, and code points above 0x10ffff. */
uint32_t pst_unicode_decode(const uint8_t *at, const uint8_t *end, uint32_t *bytes) {
    size_t left = (size_t)(end - at);
    uint32_t a = at[0];
    *bytes = 1;
    if (a < 0x80) return a;
    if (a < 0xc2 || a > 0xf4 || left < 2 || (at[1] & 0xc0) != 0x80) return PST_INVALID;
    if (a < 0xe0) {
        *bytes = 2;
        return (a & 31) << 6 | (at[1] & 63);
    }
    if (left < 3 || (at[2] & 0xc0) != 0x80) return PST_INVALID;
    if (a < 0xf0) {
        uint32_t code = (a & 15) << 12 | (uint32_t)(at[1] & 63) << 6 | (at[2] & 63);
        if (code < 0x800 || (code >= 0xd800 && code < 0xe000)) return PST_INVALID;
        *bytes = 3;
        return code;
    }
    if (left < 4 || (at[3] & 0xc0) != 0x80) return PST_INVALID;
    uint32_t code =
        (a & 7) << 18 | (uint32_t)(at[1] & 63) << 12 | (uint32_t)(at[2] & 63) << 6 | (at[3] & 63);
    if (code < 0x10000 || code >= PST_INVALID) return PST_INVALID;
    *bytes = 4;
    return code;
}

uint32_t pst_unicode_before(const uint8_t *begin, const uint8_t *at, uint32_t *bytes) {
    const uint8_t *first = at - 1;
    while (first > begin && at - first < 4 && (*first & 0xc0) == 0x80) first--;
    uint32_t code = pst_unicode_decode(first, at, bytes);
    if (first + *bytes == at) return code;
    *bytes = 1;
    return PST_INVALID;
}

uint32_t pst_unicode_encode(uint32_t code, uint8_t out[4]) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    uint32_t n = 4;
    if (code < 0x800) n = 2;
    else if (code < 0x10000) n = 3;
    for (uint32_t i = n - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code & 63));
        code >>= 6;
    }
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (uint8_t)(lead[n] | code);
    return n;
}

size_t pst_unicode_count(const uint8_t *text, size_t bytes) {
    size_t n = 0;
    uint32_t length;
    for (size_t at = 0; at < bytes; at += length) {
        pst_unicode_decode(text + at, text + bytes, &length);
        n++;
    }
    return n;
}
