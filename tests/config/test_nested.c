/* test: label=quick */
/* Sections in sections, and keys that have another name now: the table of rows with a few more,
 * read, overridden, printed, helped with and refused. */
#include "config/run_file.h"

#define AT(member) offsetof(struct pst_config, member)

/* They stand in for keys of other names, whose own rows are left out. */
static const pst_row more[] = {
    {"parallel.compress", "up", PST_ROW_REAL, "0.5", 0, 1, 0, NULL, AT(train.eps), 0, "Up.",
     "parallel.shrink"},
    {"parallel.compress.down", "lr", PST_ROW_REAL, "0.25", 0, 1, 0, NULL, AT(train.momentum), 0,
     "Down.", NULL},
    {"parallel.compress.down", "kind", PST_ROW_TEXT, "none", 0, 0, 0, "none|top", AT(train.decay),
     0, "How.", NULL},
};
enum { MORE = sizeof more / sizeof *more };

static const pst_row *real_rows;
static size_t n_real;

static int is_replaced(const pst_row *row) {
    for (size_t i = 0; i < MORE; i++)
        if (more[i].offset == row->offset) return 1;
    return !strcmp(row->section, "parallel.compress"); /* the section has their name */
}

static int add_rows(void **state) {
    static pst_row table[PST_ROWS_MAX];
    size_t n = 0;
    (void)state;
    real_rows = pst_rows;
    n_real = pst_n_row;
    for (size_t i = 0; i < n_real; i++) {
        if (!is_replaced(&real_rows[i])) table[n++] = real_rows[i];
        if (strcmp(real_rows[i].section, "parallel") ||
            !strcmp(real_rows[i + 1].section, "parallel"))
            continue;
        memcpy(&table[n], more, sizeof more);
        n += MORE;
    }
    pst_rows = table;
    pst_n_row = n;
    return 0;
}

static int restore_rows(void **state) {
    (void)state;
    pst_rows = real_rows;
    pst_n_row = n_real;
    return 0;
}

static pst_config *parsed_with_both(const char *text, const char *const override[2]) {
    pst_config *config = NULL;
    if (pst_config_parse(text, "run.yaml", override, 2, &config) != PST_OK)
        fail_msg("refused: %s", pst_error());
    return config;
}

static void files_and_overrides(void **state) {
    (void)state;
    static const char *const both[] = {"parallel.compress.down.lr=0.75", "lr=0.125"};
    pst_config *c = parsed(LEAST, NULL);
    assert_true(c->train.eps == 0.5 && c->train.momentum == 0.25);
    pst_config_close(c);
    c = parsed_with_both(
        LEAST "parallel:\n  pipeline: 2\n  compress: {up: 1, down: {kind: top}}\n  threads: 1\n",
        both);
    assert_true(c->train.eps == 1 && c->train.momentum == 0.75 && c->parallel.threads == 1);
    assert_string_equal(c->train.decay, "top");
    assert_true(c->train.lr == 0.125); /* the short key means what it has always meant */
    assert_true(pst_config_given(c, "parallel.compress", "up") &&
                pst_config_given(c, "parallel.compress.down", "lr"));
    pst_config_close(c);
}

static void printed_as_they_nest(void **state) {
    (void)state;
    pst_config *c = parsed(LEAST "parallel: {compress: {down: {lr: 0.5}}}\n", NULL), *again;
    char *text = printed(c);
    const char *nested = strstr(
        text,
        "\n  compress:\n    up: 0.5\n    down:\n      lr: 0.5\n      "
        "kind: none\n  local:\n    steps: 0\n    islands: 0\n    fragments: 1\n    delay: 0\n    "
        "alpha: 0\n    compress: none\n    outer:\n      "
        "lr: 0.7\n      momentum: 0.9\n      nesterov: \"true\"\n"
        "  reproducible:\n    "
        "data: 0\n    tensor: 0\ncheckpoint:");
    assert_non_null(nested);
    again = parsed(text, NULL);
    char *second = printed(again);
    assert_string_equal(text, second);
    free(text);
    free(second);
    pst_config_close(c);
    pst_config_close(again);
}

/* The former name of a key: in a file, in full and short on the command line. */
static void former_names(void **state) {
    (void)state;
    static const char *const both[] = {"every=9", "train.validate_every=8"};
    pst_config *c = parsed(LEAST "parallel: {shrink: 0.75}\ntrain: {validate_every: 5}\n", NULL);
    char *text = printed(c);
    assert_true(c->train.eps == 0.75 && c->eval.every == 5);
    assert_true(pst_config_given(c, "eval", "every"));
    assert_non_null(strstr(text, "\neval:\n  every: 5\n"));
    assert_null(strstr(text, "validate_every"));
    assert_null(strstr(text, "shrink"));
    free(text);
    pst_config_close(c);
    c = parsed(LEAST, "parallel.shrink=0.25");
    assert_true(c->train.eps == 0.25);
    pst_config_close(c);
    c = parsed(LEAST, "shrink=0.125");
    assert_true(c->train.eps == 0.125);
    pst_config_close(c);
    c = parsed(LEAST "eval: {every: 3}\n", "validate_every=7");
    assert_int_equal(c->eval.every, 7);
    assert_int_equal(c->checkpoint.every, 100);
    pst_config_close(c);
    c = parsed_with_both(LEAST, both); /* every, without more, is that of checkpoint, as before
                                          there was another */
    assert_int_equal(c->checkpoint.every, 9);
    assert_int_equal(c->eval.every, 8);
    pst_config_close(c);
}

static const wrong_file wrong[] = {
    {LEAST, "up=1", "override 'up=1': expected the key's full path, parallel.compress.up=VALUE"},
    {LEAST, "compress.up=1",
     "override 'compress.up=1': unknown key 'compress'; did you mean 'parallel.compress'?"},
    {LEAST, "parallel.comprss.up=1",
     "override 'parallel.comprss.up=1': unknown key 'comprss' in parallel; did you mean "
     "'compress'?"},
    {LEAST, "parallel.compress.upp=1",
     "override 'parallel.compress.upp=1': unknown key 'upp' in parallel.compress; did you mean "
     "'up'?"},
    {LEAST, "parallel.compress.x=1",
     "override 'parallel.compress.x=1': unknown key 'x' in parallel.compress; expected one of up, "
     "down"},
    {LEAST, "parallel.compress=1",
     "override 'parallel.compress=1': expected parallel.compress.KEY=VALUE"},
    {LEAST, "parallel.compress.up.x=1",
     "override 'parallel.compress.up.x=1': parallel.compress.up is a key, not a section"},
    {LEAST, "parallel.compress.down.kind=to",
     "override 'parallel.compress.down.kind=to': expected one of none, top, found 'to'; did you "
     "mean 'top'?"},
    {LEAST "parallel:\n  compress: {up: 2}", NULL,
     "run.yaml:4:18: parallel.compress.up: expected a number from 0 to 1, found '2'"},
    {LEAST "parallel:\n  compress: 3", NULL,
     "run.yaml:4:13: parallel.compress: expected a mapping of keys, found a value"},
    {LEAST "parallel:\n  compress: {up: 1}\n  compress: {}", NULL,
     "run.yaml:5:3: section parallel.compress is given twice; first in line 4"},
    {LEAST "compress: {up: 1}", NULL,
     "run.yaml:3:1: unknown key 'compress'; did you mean 'parallel.compress'?"},
    {LEAST "train: {up: 1}", NULL,
     "run.yaml:3:9: unknown key 'up' in train; did you mean 'parallel.compress.up'?"},
    {LEAST "parallel.compress: {up: 1}", NULL,
     "run.yaml:3:1: unknown key 'parallel.compress'; write it nested: parallel: {compress: ...}"},
    {LEAST "parallel.compress.up: 1", NULL,
     "run.yaml:3:1: unknown key 'parallel.compress.up'; write it nested: parallel: {compress: {up: "
     "...}}"},
    {LEAST "train.lr: 1", NULL,
     "run.yaml:3:1: unknown key 'train.lr'; write it nested: train: {lr: ...}"},
    {LEAST "parallel: {shrink: 1, compress: {up: 1}}", NULL,
     "run.yaml:3:34: parallel.compress.up (formerly parallel.shrink) is given twice; first in line "
     "3"},
};

static void wrong_ones(void **state) {
    (void)state;
    expect_refused(wrong, sizeof wrong / sizeof *wrong);
}

/* For the manual, and for completion, which offers a short key only where it works. */
static void listed(void **state) {
    (void)state;
    pst_config_key key = {.size = sizeof key};
    int nested = 0, every = 0;
    for (size_t i = 0; pst_config_key_at(i, &key); i++) {
        if (!strncmp(key.section, "parallel.compress", 17)) {
            nested++;
            assert_null(key.short_name);
        }
        if (!strcmp(key.section, "train") && !strcmp(key.key, "lr"))
            assert_string_equal(key.short_name, "lr");
        if (!strcmp(key.key, "kind")) assert_null(key.short_name);
        if (strcmp(key.key, "every") != 0) continue;
        every++;
        if (!strcmp(key.section, "eval")) assert_null(key.short_name);
        else assert_string_equal(key.short_name, "every");
        if (!strcmp(key.section, "eval"))
            assert_string_equal(key.former_name, "train.validate_every");
    }
    assert_int_equal(nested, 3);
    assert_int_equal(every, 2);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    pst_config_help(out);
    fclose(out);
    assert_non_null(strstr(text, "\nparallel.compress.down:\n"));
    assert_non_null(strstr(text, "Formerly train.validate_every, which is still accepted."));
    free(text);
}

/* What pst_config_print relies on; here, because a row is easily added at the wrong place. */
static void sections_stand_together(void **state) {
    (void)state;
    for (size_t i = 0; i < n_real; i++) {
        size_t n = strlen(real_rows[i].section);
        int left = 0;
        for (size_t j = i; n && j < n_real; j++) {
            const char *of = real_rows[j].section;
            int in = strncmp(of, real_rows[i].section, n) == 0 && (of[n] == 0 || of[n] == '.');
            if (in && left) fail_msg("%s.%s stands apart from its section", of, real_rows[j].key);
            left |= !in;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_overrides),
        cmocka_unit_test(printed_as_they_nest),
        cmocka_unit_test(former_names),
        cmocka_unit_test(wrong_ones),
        cmocka_unit_test(listed),
        cmocka_unit_test(sections_stand_together),
    };
    return cmocka_run_group_tests(tests, add_rows, restore_rows);
}
