/* Which files a list of paths means: folders, globs, hidden entries, links, duplicates, and what
 * cannot be read. */
#include "base/folder.h"
#include "data/files.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static int setup(void **state) {
    if (folder_open(state)) return -1;
    const char *folder[] = {"src", "src/a", "src/a/deep", "src/.git", "empty", "odd[1]"};
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        if (mkdir(folder[i], 0755)) return -1;
    folder_write("src/z.c", "z");
    folder_write("src/b.c", "bb");
    folder_write("src/b.h", "h");
    folder_write("src/.hidden.c", "x");
    folder_write("src/a/c.c", "ccc");
    folder_write("src/a/deep/d.c", "dddd");
    folder_write("src/.git/e.c", "e");
    folder_write("odd[1]/f.txt", "f");
    return symlink("../..", "src/a/up") || symlink("b.c", "src/same.c") || mkfifo("pipe", 0600);
}

/* Expands a list of paths, ended by NULL, to "name,name,..." */
static char *expand(const char *first, ...) {
    static char text[1024];
    char *path[8];
    uint32_t n = 0;
    va_list args;
    va_start(args, first);
    for (const char *p = first; p; p = va_arg(args, const char *)) path[n++] = (char *)p;
    va_end(args);
    pst_file_list list;
    *text = 0;
    if (pst_files_expand(path, n, &list) != PST_OK) return (char *)pst_error();
    for (uint32_t i = 0; i < list.n; i++) strcat(strcat(text, i ? "," : ""), list.file[i].path);
    pst_files_free(&list);
    return text;
}

static void test_order(void **state) {
    (void)state;
    assert_string_equal(expand("src/z.c", "src/b.c", NULL), "src/z.c,src/b.c");
    assert_string_equal(expand("src", NULL), "src/a/c.c,src/a/deep/d.c,src/b.c,src/b.h,src/z.c");
    assert_string_equal(expand("./src/a/", NULL), "./src/a/c.c,./src/a/deep/d.c");
    assert_string_equal(expand("src/*.c", NULL), "src/b.c,src/z.c");
    assert_string_equal(expand("src/**/*.c", NULL), "src/a/c.c,src/a/deep/d.c,src/b.c,src/z.c");
    assert_string_equal(expand("**/*.c", NULL), "src/a/c.c,src/a/deep/d.c,src/b.c,src/z.c");
    assert_string_equal(expand("**/**/d.c", NULL), "src/a/deep/d.c");
    assert_string_equal(expand("s?c/[a]/**", NULL), "src/a/c.c,src/a/deep/d.c");
    assert_string_equal(expand("*/a/*/d.c", NULL), "src/a/deep/d.c");
    assert_string_equal(expand("src/**/deep/*", NULL), "src/a/deep/d.c");
    assert_string_equal(expand("src/.hidden.c", NULL), "src/.hidden.c"); /* named outright */
    assert_non_null(strstr(expand("src/.*.c", NULL), "no file matches"));
}

static void test_duplicates(void **state) {
    (void)state;
    assert_string_equal(expand("src/b.c", "src", NULL),
                        "src/b.c,src/a/c.c,src/a/deep/d.c,src/b.h,src/z.c");
    assert_string_equal(expand("src/same.c", "src/b.c", "src/../src/b.c", NULL), "src/same.c");
    assert_string_equal(expand("src/**/*.c", "src/**/*.c", NULL),
                        "src/a/c.c,src/a/deep/d.c,src/b.c,src/z.c");
    assert_string_equal(expand("odd[1]", NULL), "odd[1]/f.txt"); /* exists: taken literally */
    assert_string_equal(expand("odd[1]/f.txt", NULL), "odd[1]/f.txt");
}

static void test_sentences(void **state) {
    (void)state;
    assert_non_null(strstr(expand("nowhere.txt", NULL), "cannot read nowhere.txt: No such file"));
    assert_non_null(strstr(expand("src/**/*.py", NULL), "no file matches 'src/**/*.py'"));
    assert_non_null(strstr(expand("empty", NULL), "folder empty contains no files"));
    assert_non_null(strstr(expand("pipe", NULL), "pipe is neither a file nor a folder"));
    assert_non_null(strstr(expand("", NULL), "empty path"));
    assert_non_null(strstr(expand(NULL, NULL), "data.paths is empty"));
    if (geteuid() == 0) return; /* root reads everything */
    chmod("src/b.h", 0);
    assert_non_null(strstr(expand("src", NULL), "cannot read src/b.h: Permission denied"));
    chmod("src/b.h", 0644);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_duplicates),
                                       cmocka_unit_test(test_sentences)};
    return cmocka_run_group_tests(tests, setup, folder_close);
}
