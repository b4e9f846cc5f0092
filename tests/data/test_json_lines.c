/* JSON Lines as documents: fields, blanks, wrong lines, long lines, gzip. */
#include "base/folder.h"
#include "data/json_lines.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

typedef struct {
    char text[400000]; /* documents, each with | after it */
    size_t n;
} found;

static pst_status add(void *to, const int32_t *id, size_t n) {
    found *f = to;
    for (size_t i = 0; i < n; i++) f->text[f->n++] = (char)id[i];
    return PST_OK;
}

static pst_status end(void *to) {
    found *f = to;
    f->text[f->n++] = '|';
    return PST_OK;
}

static pst_status encode(const char *path, const char *field, int skip, found *f,
                         uint64_t *skipped) {
    pst_tokenizer *t;
    pst_encoder *e;
    const pst_json_lines lines = {field, skip};
    const pst_line_form form = pst_json_lines_form(&lines);
    const pst_documents out = {add, end, f};
    f->n = *skipped = 0;
    assert_int_equal(pst_tokenizer_open("byte", &t), PST_OK);
    assert_int_equal(pst_encoder_open(t, 0, &e), PST_OK);
    pst_status status = pst_lines_encode(e, path, &form, &out, skipped);
    f->text[f->n] = 0;
    pst_encoder_close(e);
    pst_tokenizer_close(t);
    return status;
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static found got;

static void lines_are_documents(void **state) {
    uint64_t skipped;
    (void)state;
    put("a.jsonl", "{\"text\": \"one\\ntwo\", \"n\": 1}\n\n  \r\n{\"text\": \"\"}\r\n"
                   "{\"text\": \"\\u00e9\", \"other\": \"x\"}");
    assert_int_equal(encode("a.jsonl", "text", 0, &got, &skipped), PST_OK);
    assert_string_equal(got.text, "one\ntwo||\xc3\xa9|");
    assert_int_equal(encode("a.jsonl", "other", 1, &got, &skipped), PST_OK);
    assert_string_equal(got.text, "x|");
    assert_int_equal(skipped, 2);
}

static void wrong_lines_are_named(void **state) {
    uint64_t skipped;
    (void)state;
    put("b.jsonl", "{\"text\": \"a\"}\n{\"text\": 5}\n{\"text\": \"b\"}\n{\"text\": \n[]\n");
    assert_int_equal(encode("b.jsonl", "text", 0, &got, &skipped), PST_EINPUT);
    assert_string_equal(pst_error(), "b.jsonl: line 2: no text in the field \"text\"");
    assert_int_equal(encode("b.jsonl", "text", 1, &got, &skipped), PST_OK);
    assert_string_equal(got.text, "a|b|");
    assert_int_equal(skipped, 3);
    put("b.jsonl", "{\"text\"");
    assert_int_equal(encode("b.jsonl", "text", 0, &got, &skipped), PST_EINPUT);
    assert_true(!strncmp(pst_error(), "b.jsonl: line 1: not JSON: ", 27));
    assert_int_equal(encode("missing.jsonl", "text", 0, &got, &skipped), PST_EINPUT);
    assert_string_equal(pst_error(), "missing.jsonl: No such file or directory");
}

/* Lines longer than a block, compressed; and a file that ends too early. */
static void compressed(void **state) {
    enum { LONG = 150000 };
    uint64_t skipped;
    (void)state;
    gzFile f = gzopen("c.jsonl.gz", "wb");
    for (int i = 0; i < 2; i++) {
        gzputs(f, "{\"text\": \"");
        for (int k = 0; k < LONG; k++) gzputc(f, 'a' + (k * 7 + k / 26) % 26);
        gzputs(f, "\"}\n");
    }
    assert_int_equal(gzclose(f), Z_OK);
    assert_int_equal(encode("c.jsonl.gz", "text", 0, &got, &skipped), PST_OK);
    assert_true(got.n == 2 * (LONG + 1) && got.text[LONG] == '|' && got.text[2 * LONG + 1] == '|');
    assert_int_equal(system("head -c 100 c.jsonl.gz >d.jsonl.gz"), 0);
    assert_int_equal(encode("d.jsonl.gz", "text", 1, &got, &skipped), PST_EINPUT);
    assert_true(!strncmp(pst_error(), "d.jsonl.gz: ", 12));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_documents),
                                       cmocka_unit_test(wrong_lines_are_named),
                                       cmocka_unit_test(compressed)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
