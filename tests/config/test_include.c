/* Run files that include others: which keys count, paths, and what is refused. */
#include "config/run_file.h"
#include "base/folder.h"
#include <sys/stat.h>

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static pst_config *loaded(const char *name) {
    pst_config *config = NULL;
    if (pst_config_load(name, NULL, 0, &config) != PST_OK) fail_msg("refused: %s", pst_error());
    return config;
}

static void refused(const char *name, const char *message) {
    pst_config *config = NULL;
    assert_int_equal(pst_config_load(name, NULL, 0, &config), PST_EINPUT);
    assert_string_equal(pst_error(), message);
}

/* The including file counts, then later included files; paths belong to the file that has them. */
static void keys_and_paths(void **state) {
    (void)state;
    mkdir("shared", 0777);
    write_file("shared/text.txt", "text");
    write_file("shared/base.yaml", "model: {kind: gpt, layers: 2}\ndata: {paths: text.txt}\n"
                                   "train: {lr: 1.0e-3, steps: 100, batch: 8}\n");
    write_file("shared/small.yaml", "train: {batch: 4, lr: 2.0e-3}\n");
    write_file("run.yaml", "train: {lr: 3.0e-3, tokens: 4096}\n"
                           "include: [shared/base.yaml, shared/small.yaml]\n");
    pst_config *c = loaded("./run.yaml");
    assert_true(c->train.lr == 3e-3);
    assert_int_equal(c->train.batch, 4);
    assert_int_equal(c->model.layers, 2);
    assert_int_equal(c->train.tokens, 4096); /* not the steps of base.yaml */
    const char *at = strstr(c->data.paths[0], "/shared/text.txt");
    assert_non_null(at);
    assert_string_equal(at, "/shared/text.txt");
    assert_string_equal(c->name, "run");
    char *copy = printed(c);
    assert_null(strstr(copy, "include"));
    free(copy);
    pst_config_close(c);
}

static void wrong(void **state) {
    (void)state;
    write_file("a.yaml", "model: {kind: gpt}\ninclude: b.yaml\n");
    write_file("b.yaml", "include: [./a.yaml]\n");
    refused("a.yaml",
            "a.yaml:2:10: include: b.yaml:1:11: include: ./a.yaml includes itself through "
            "b.yaml");
    write_file("twice.yaml", "include: least.yaml\ntrain: {steps: 1}\ninclude: least.yaml\n");
    write_file("least.yaml", "model: {kind: gpt}\n");
    refused("twice.yaml", "twice.yaml:3:1: include is given twice; first in line 1; include: "
                          "[FILE, FILE] reads several files");
    write_file("self.yaml", "include: self.yaml\n");
    refused("self.yaml", "self.yaml:1:10: include: self.yaml includes itself");
    write_file("missing.yaml", "\n\ninclude: nowhere.yaml\n");
    refused("missing.yaml",
            "missing.yaml:3:10: include: cannot open run file nowhere.yaml: No such "
            "file or directory");
    write_file("bad.yaml", "train: {lr: fast}\n");
    write_file("c.yaml", "include: bad.yaml\n");
    refused("c.yaml", "c.yaml:1:10: include: bad.yaml:1:13: train.lr: expected a number > 0, found "
                      "'fast'");
    write_file("d.yaml", "include: {a: b}\n");
    refused("d.yaml", "d.yaml:1:10: include: expected a run file or a list of them");
    write_file("lr.yaml", "model: {kind: gpt}\ndata: {paths: a.txt}\ntrain: {lr: 1.0e-3}\n");
    write_file("low.yaml", "include: lr.yaml\ntrain: {lr_min: 1}\n");
    refused("low.yaml", "low.yaml:2:17: train.lr_min (1) is above train.lr (0.001)");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_and_paths), cmocka_unit_test(wrong)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
