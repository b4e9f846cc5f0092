/* Texts with labels as samples: CSV and JSON Lines, names and numbers of labels, cutting and
 * padding, the split, and broken files. */
#include "base/folder.h"
#include "data/csv.h"
#include "data/data.h"
#include "data/labelled.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONTEXT = 6, CLS = 2, SEP = 3, A = 4 /* id of the word "a"; "b" follows, ... */ };

static int make(void **state) {
    if (folder_open(state)) return 1;
    folder_write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\n");
    return 0;
}

static pst_data_config config_of(char **path, uint32_t n) {
    return (pst_data_config){.paths = path,
                             .n_path = n,
                             .context = CONTEXT,
                             .seed = 3,
                             .tokenizer = "vocab.txt",
                             .types = 1,
                             .lines = {"text", 0},
                             .label = "label"};
}

/* --- CSV -------------------------------------------------------------------------------------- */

static pst_status join(void *arg, const pst_csv_record *r) {
    char *out = arg;
    sprintf(out + strlen(out), "%llu:", (unsigned long long)r->line);
    for (uint32_t i = 0; i < r->n; i++)
        sprintf(out + strlen(out), "<%.*s>", (int)pst_csv_bytes(r, i), pst_csv_field(r, i));
    return PST_OK;
}

static void test_csv(void **state) {
    (void)state;
    static const struct {
        const char *text, *records; /* records NULL: refused, with: */
        const char *says;
    } known[] = {
        {"a,b\n1,2\n", "1:<a><b>2:<1><2>", NULL},
        {"\xef\xbb\xbf"
         "a,b\r\n\r\n1,2",
         "1:<a><b>3:<1><2>", NULL},
        {"\"x, y\",\"say \"\"no\"\"\"\n", "1:<x, y><say \"no\">", NULL},
        {"\"two\nlines\",b\nc,", "1:<two\nlines><b>3:<c><>", NULL},
        {"it's 5\" wide,b\n", "1:<it's 5\" wide><b>", NULL},
        {"\"\"\n", "1:<>", NULL},
        {"a\n\"b\nc", NULL, "x.csv: line 2: a quote is opened, but not closed"},
        {"a,\"b\"c\n", NULL, "x.csv: line 1: text behind a field in quotes"},
        {"", "", NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char records[400] = "";
        folder_write("x.csv", known[i].text);
        pst_status status = pst_csv_read("x.csv", join, records);
        assert_int_equal(status, known[i].records ? PST_OK : PST_EINPUT);
        if (known[i].records) assert_string_equal(records, known[i].records);
        else if (!strstr(pst_error(), known[i].says)) fail_msg("%s", pst_error());
    }
}

/* --- samples ---------------------------------------------------------------------------------- */

typedef struct {
    int32_t tokens[CONTEXT], label, length, types[CONTEXT];
} sample;

static sample take(pst_data *d, pst_split split, uint64_t i) {
    sample s = {{0}, 0, 0, {1, 1}};
    int32_t *out[] = {s.tokens, &s.label, &s.length, s.types};
    if (d->row->sample(d, split, i, out) != PST_OK) fail_msg("%s", pst_error());
    return s;
}

static void test_samples(void **state) {
    (void)state;
    char *names[] = {"yes", "no"}, *path[] = {"x.csv", "y.jsonl"};
    pst_data *d;
    pst_data_field field[PST_DATA_FIELDS];
    folder_write("x.csv", "id,label,text\n1,no,a b\n2,yes,\"a b c d e f\"\n");
    folder_write("y.jsonl",
                 "{\"text\": \"f\", \"label\": \"yes\"}\n\n{\"label\": \"no\", \"text\": \"\"}\n");
    pst_data_config c = config_of(path, 2);
    c.held_out = 1;
    c.label_name = names;
    c.n_label = 2;
    if (pst_data_labels.open(&c, &d) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(d->row->fields(d, field), 4);
    assert_true(!strcmp(field[1].name, "targets") && field[1].elements == 1);
    assert_int_equal(d->row->size(d, PST_SPLIT_VALIDATION), 4);
    assert_int_equal(d->row->bytes(d, PST_SPLIT_VALIDATION), 3 + 11 + 1);
    static const sample want[] = {{{CLS, A, A + 1, SEP, 0, 0}, 1, 4, {0}},
                                  {{CLS, A, A + 1, A + 2, A + 3, SEP}, 0, 6, {0}},
                                  {{CLS, A + 5, SEP, 0, 0, 0}, 0, 3, {0}},
                                  {{CLS, SEP, 0, 0, 0, 0}, 1, 2, {0}}};
    for (uint64_t i = 0; i < 4; i++) {
        const sample s = take(d, PST_SPLIT_VALIDATION, i);
        assert_memory_equal(&s, &want[i], sizeof s);
    }
    d->row->close(d);
}

/* Every text once in an epoch, in both splits together; a label's texts are in both. */
static void test_split(void **state) {
    (void)state;
    enum { N = 60, HELD = 20 };
    char *path[] = {"x.csv"};
    int seen[N] = {0}, held[2] = {0};
    pst_data *d;
    FILE *f = fopen("x.csv", "w");
    assert_non_null(f);
    fputs("text,label\n", f);
    for (int i = 0; i < N; i++) {
        for (int k = 1; k < 64; k *= 6) fprintf(f, "%c ", "abcdef"[i / k % 6]);
        fprintf(f, ",%d\n", i >= N / 2);
    }
    fclose(f);
    pst_data_config c = config_of(path, 1);
    c.validation = (double)HELD / N;
    if (pst_data_labels.open(&c, &d) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), N - HELD);
    for (int i = 0; i < N; i++) {
        const sample s = i < HELD ? take(d, PST_SPLIT_VALIDATION, (uint64_t)i)
                                  : take(d, PST_SPLIT_TRAIN, (uint64_t)(i - HELD + 3 * (N - HELD)));
        const int text = s.tokens[1] - A + 6 * (s.tokens[2] - A) + 36 * (s.tokens[3] - A);
        assert_true(text >= 0 && text < N && !seen[text]++ && s.label == (text >= N / 2));
        if (i < HELD) held[s.label]++;
    }
    assert_true(held[0] > 3 && held[1] > 3);
    d->row->close(d);
}

/* --- labels ----------------------------------------------------------------------------------- */

static void expect_labels(const char *text, const char *names, uint32_t n) {
    char *path[] = {"x.csv"}, found[200] = "";
    pst_labelled l;
    folder_write("x.csv", text);
    const pst_data_config c = config_of(path, 1);
    if (pst_labelled_read(&c, &l) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; l.labels.name && i < l.labels.n; i++)
        sprintf(found + strlen(found), "%s ", l.labels.name[i]);
    assert_string_equal(found, names);
    assert_int_equal(l.labels.n, n);
    assert_int_equal(l.row[0].label, n - 1);
    pst_labelled_free(&l);
}

static void test_labels(void **state) {
    (void)state;
    expect_labels("text,label\nx,spam\ny,ham\nz,spam\n", "ham spam ", 2);
    expect_labels("text,label\nx,4\ny,1\n", "", 5);
    expect_labels("text,label\nx,b\ny,10\n", "10 b ", 2);
}

static void refuses(const char *name, const char *text, const pst_data_config *given,
                    const char *says) {
    char *path[] = {(char *)name};
    pst_data_config c = *given;
    pst_data *d;
    folder_write(name, text);
    c.paths = path;
    c.n_path = 1;
    assert_int_equal(pst_data_labels.open(&c, &d), PST_EINPUT);
    if (!strstr(pst_error(), says)) fail_msg("%s\nwithout: %s", pst_error(), says);
}

static void test_refused(void **state) {
    (void)state;
    char *names[] = {"yes", "no"}, *twice[] = {"yes", "yes"}, *three[] = {"3"};
    char *path[] = {"x.csv"};
    const pst_data_config plain = config_of(path, 1);
    pst_data_config c = plain;
    refuses("x.csv", "text,label\na,b\nc,d,e\n", &c,
            "x.csv: line 3: 3 fields, but the header has 2");
    refuses(
        "x.csv", "text,class\na,b\n", &c,
        "x.csv: line 1: there is no column \"label\" (data.label); the header has: text, class");
    refuses("x.csv", "text,label\n", &c, "there are no texts with labels");
    refuses("x.csv", "text,label\na,b\nc,b\n", &c, "all texts have the label 'b'");
    refuses("x.csv", "text,label\na,b\nc\n", &c, "x.csv: line 3: 1 field, but the header has 2");
    refuses("x.csv", "text,label\na,b\nc,\n", &c, "x.csv: line 3: the label is empty");
    refuses("x.txt", "a\n", &c, "x.txt: data.kind labels reads CSV (*.csv) and JSON Lines");
    refuses("x.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\"}\n", &c,
            "x.jsonl: line 2: the field \"label\" (data.label) has neither a text nor a whole");
    refuses("x.jsonl", "{\"label\": 1}\n", &c, "x.jsonl: line 1: no text in the field \"text\"");
    refuses("x.jsonl", "a\n", &c, "x.jsonl: line 1: not JSON");
    c.label_name = names;
    c.n_label = 2;
    refuses("x.csv", "text,label\na,yes\nb,maybe\n", &c,
            "x.csv: line 3: the label 'maybe' is none of the 2 of model.labels, such as yes");
    c.label_name = three;
    c.n_label = 1;
    refuses("x.csv", "text,label\na,3\n", &c,
            "x.csv: line 2: the label '3' is not a number from 0 to 2");
    c.label_name = twice;
    c.n_label = 2;
    refuses("x.csv", "text,label\na,yes\n", &c, "model.labels has 'yes' twice");
    c.label_name = names;
    c.n_label = 1;
    refuses("x.csv", "text,label\na,yes\n", &c, "model.labels gives 1 label; a classification has");
    c = plain;
    c.tokenizer = "byte";
    refuses("x.csv", "text,label\na,yes\n", &c, "data.kind labels needs a tokenizer");
    c.tokenizer = "lacks.txt";
    folder_write("lacks.txt", "[PAD]\n[UNK]\n[CLS]\na\n");
    refuses("x.csv", "text,label\na,yes\n", &c, "no special token \"[SEP]\"");
    c = plain;
    c.context = 2;
    refuses("x.csv", "text,label\na,yes\nb,no\n", &c, "model.context is 2; a text with a label");
}

/* Lines that are left out. */
static void test_skipped(void **state) {
    (void)state;
    char *path[] = {"x.jsonl", "x.csv"};
    pst_labelled l;
    folder_write("x.jsonl",
                 "{\"text\": \"a\", \"label\": 1}\nno\n{\"text\": \"b\"}\n{\"label\": 0}\n");
    folder_write("x.csv", "text,label\nc,0\nd\ne,\n");
    pst_data_config c = config_of(path, 2);
    c.lines.skip = 1;
    if (pst_labelled_read(&c, &l) != PST_OK) fail_msg("%s", pst_error());
    assert_true(l.n == 2 && l.skipped == 5 && l.labels.n == 2);
    pst_labelled_free(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),     cmocka_unit_test(test_samples),
        cmocka_unit_test(test_split),   cmocka_unit_test(test_labels),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_skipped)};
    return cmocka_run_group_tests(tests, make, folder_close);
}
