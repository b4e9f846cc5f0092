/* test: timeout=120
 * Files encoded in pieces: the same data set by any number of threads and processes, after it was
 * killed, and after a piece was damaged; compressed text, and JSON Lines, as they are. */
#include "base/folder.h"
#include "data/encode.h"
#include "data/indexed.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <cmocka.h>

enum { TEXT = 300000, PIECE = 4096 };
static char text[TEXT];
static pst_tokenizer *tokenizer;

static void put(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Lines of words of three letters, or of objects with a text. */
static size_t make_text(int json) {
    size_t n = 0;
    for (uint64_t i = 1; n + 400 < TEXT; i++) {
        n += (size_t)sprintf(text + n, json ? "{\"id\": %llu, \"text\": \"" : "%llu ",
                             (unsigned long long)i);
        for (uint64_t k = 0; k < 5 + i % 50; k++)
            n += (size_t)sprintf(text + n, "%c%c%c ", (char)('a' + i % 26), (char)('a' + k % 26),
                                 (char)('a' + i * k % 26));
        n += (size_t)sprintf(text + n, json ? "\\n\"}\n" : "\n");
    }
    return n;
}

static void put_gzip(const char *path, size_t n) {
    gzFile f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, text, (unsigned)n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

static void put_zstd(const char *path, size_t n) {
    size_t most = ZSTD_compressBound(n);
    char *out = malloc(most);
    size_t bytes = ZSTD_compress(out, most, text, n, 3);
    assert_false(ZSTD_isError(bytes));
    put(path, out, bytes);
    free(out);
}

/* As the cache of tokens does it: a file that is written when the data set is complete. */
static int exists(void *what) { return access(what, F_OK) == 0; }
static pst_status complete(void *what, uint64_t skipped) {
    put(what, &skipped, sizeof skipped);
    return PST_OK;
}

static pst_status encode(const char *prefix, const char *const *path, uint32_t n,
                         uint32_t threads) {
    pst_file file[4];
    struct stat st;
    const pst_file_list list = {file, n, n};
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(stat(path[i], &st), 0);
        file[i] = (pst_file){(char *)path[i], (uint64_t)st.st_size};
    }
    pst_encode_options o = {.tokenizer = tokenizer, .files = &list, .lines = {"text", 0}};
    o.form = &pst_encode_as_files;
    o.end = 10;
    o.prefix = prefix;
    o.piece = strcmp(prefix, "zeros") ? PIECE : 0;
    o.threads = threads;
    o.keep = !strcmp(prefix, "kept");
    char record[] = "together.done";
    if (!strcmp(prefix, "together")) {
        o.exists = exists;
        o.complete = complete;
        o.what = record;
    }
    if (pst_encode_key(&o, &o.key) != PST_OK) return PST_EINPUT;
    return pst_encode_files(&o);
}

static void expect_same(const char *a, const char *b) {
    char command[128];
    snprintf(command, sizeof command, "cmp %s.bin %s.bin && cmp %s.idx %s.idx", a, b, a, b);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s.parts", b);
    assert_int_equal(access(command, F_OK), -1);
}

/* The whole files, by one thread, one piece each. */
static const char *const files[] = {"a.txt", "b.jsonl", "empty.txt"},
                         *const gzip[] = {"a.txt.gz", "b.jsonl.gz", "empty.txt"},
                         *const zstd[] = {"a.txt.zst", "b.jsonl.zst", "empty.txt"};

static int set_up(void **state) {
    if (folder_open(state) || pst_tokenizer_open("byte", &tokenizer) != PST_OK) return 1;
    size_t n = make_text(0);
    put("a.txt", text, n);
    put_gzip("a.txt.gz", n);
    put_zstd("a.txt.zst", n);
    put("one.txt", text, n);
    n = make_text(1);
    put("b.jsonl", text, n);
    put_gzip("b.jsonl.gz", n);
    put_zstd("b.jsonl.zst", n);
    put("empty.txt", "", 0);
    return 0;
}

static int tear_down(void **state) {
    pst_tokenizer_close(tokenizer);
    return folder_close(state);
}

static void threads_make_the_same(void **state) {
    pst_indexed *x;
    (void)state;
    assert_int_equal(encode("one", files, 3, 1), PST_OK);
    assert_int_equal(pst_indexed_open("one", &x), PST_OK);
    size_t n = make_text(1), lines = 0;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    assert_int_equal(pst_indexed_documents(x), 1 + lines + 1);
    int32_t *id = malloc(TEXT * sizeof *id);
    n = make_text(0);
    assert_int_equal(pst_indexed_read(x, 0, n + 1, id), PST_OK);
    for (size_t i = 0; i < n; i++) assert_int_equal(id[i], text[i]);
    assert_int_equal(id[n], 10); /* after the document */
    free(id);
    pst_indexed_close(x);
    for (uint32_t threads = 2; threads <= 5; threads += 3) {
        assert_int_equal(encode("many", files, 3, threads), PST_OK);
        expect_same("one", "many");
    }
}

static void compressed_text_is_text(void **state) {
    (void)state;
    assert_int_equal(encode("gzip", gzip, 3, 2), PST_OK);
    expect_same("one", "gzip");
    assert_int_equal(encode("zstd", zstd, 3, 3), PST_OK);
    expect_same("one", "zstd");
}

/* Kills the encoding at a random place, several times; then finishes it. */
static void killed_encodings_continue(void **state) {
    int kept = 0;
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        pid_t child = fork();
        if (!child) _exit(encode("killed", files, 3, 1 + i % 2) != PST_OK);
        usleep(2000 + 1500 * i);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        kept += access("killed.parts", F_OK) == 0;
    }
    assert_int_equal(encode("killed", files, 3, 2), PST_OK);
    expect_same("one", "killed");
    print_message("%d of 12 were killed before the end\n", kept);
}

/* Processes that begin together; one of them is killed. */
static void processes_encode_together(void **state) {
    pid_t child[3];
    int status;
    (void)state;
    for (int i = 0; i < 3; i++)
        if (!(child[i] = fork())) _exit(encode("together", files, 3, 1) != PST_OK);
    usleep(3000);
    kill(child[0], SIGKILL);
    for (int i = 0; i < 3; i++) {
        waitpid(child[i], &status, 0);
        assert_true(i == 0 || (WIFEXITED(status) && !WEXITSTATUS(status)));
    }
    expect_same("one", "together");
}

/* Ends by the signal, as a program without handlers does; what is encoded stays. */
static void signals_end_it(void **state) {
    int status;
    (void)state;
    pid_t child = fork();
    if (!child) {
        for (;;) /* more than once: it must not be finished before the signal comes */
            if (encode("signal", files, 3, 1) != PST_OK) _exit(1);
    }
    usleep(30000);
    kill(child, SIGINT);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_int_equal(system("! ls signal.parts 2>&1 | grep new"), 0);
    assert_int_equal(encode("signal", files, 3, 1), PST_OK);
    expect_same("one", "signal");
}

/* Of another text, and damaged. */
static void leftovers_are_recognized(void **state) {
    (void)state;
    mkdir("left.parts", 0777);
    put("left.parts/0123456789abcdef-000000-000000", "x", 1);
    assert_int_equal(encode("left", files, 3, 2), PST_OK);
    expect_same("one", "left");
    /* a broken line stops it when the pieces before are finished: then one of them is damaged */
    size_t n = make_text(1);
    memcpy(text + n - 4, "]]]", 3);
    put("c.jsonl", text, n);
    static const char *const wrong[] = {"c.jsonl"};
    assert_int_equal(encode("wrong", wrong, 1, 1), PST_EINPUT);
    char expected[64];
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    snprintf(expected, sizeof expected, "c.jsonl: line %zu: not JSON", lines);
    if (strncmp(pst_error(), expected, strlen(expected))) fail_msg("%s", pst_error());
    assert_int_equal(system("cd wrong.parts && ls | grep -q 000000-000003 && for f in *3; do "
                            "printf x | dd of=$f bs=1 conv=notrunc 2>/dev/null; done"),
                     0);
    assert_int_equal(encode("wrong", wrong, 1, 1), PST_EINPUT);
}

/* Nothing stays of an encoding that fails before its first piece is finished, and another process
 * that waits for this piece fails too, instead of waiting on. */
static void failures_leave_no_folder(void **state) {
    static const char *const broken[] = {"broken.jsonl"};
    pid_t child[3];
    int status;
    (void)state;
    put("broken.jsonl", "{\"text\": \"a\"}\n]]]\n", 18);
    assert_int_equal(encode("broken", broken, 1, 1), PST_EINPUT);
    assert_int_equal(access("broken.parts", F_OK), -1);
    for (int i = 0; i < 3; i++)
        if (!(child[i] = fork())) _exit(encode("broken", broken, 1, 2) != PST_EINPUT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    assert_int_equal(access("broken.parts", F_OK), -1);
}

static void existing_files_are_kept(void **state) {
    static const char kept[] = "kept.idx already exists; use --force to replace it";
    (void)state;
    assert_int_equal(encode("kept", files, 3, 1), PST_OK);
    expect_same("one", "kept");
    unlink("kept.bin");
    assert_int_equal(encode("kept", files, 1, 1), PST_EINPUT);
    assert_string_equal(pst_error(), kept);
    assert_int_equal(access("kept.parts", F_OK), -1);
    /* pieces of an earlier encoding: refused before anything is replaced */
    mkdir("kept.parts", 0777);
    assert_int_equal(encode("kept", files, 1, 1), PST_EINPUT);
    assert_string_equal(pst_error(), kept);
    assert_int_equal(access("kept.bin", F_OK), -1);
}

/* A file without a place to divide it has one piece; a file that changes is noticed. */
static void small_things(void **state) {
    static const char *const zeros[] = {"zeros.gz"};
    (void)state;
    char *zero = calloc(1, 1 << 20);
    gzFile f = gzopen("zeros.gz", "wb9");
    for (int i = 0; i < 80; i++) gzwrite(f, zero, 1 << 20);
    gzclose(f);
    free(zero);
    assert_int_equal(encode("zeros", zeros, 1, 1), PST_EINPUT);
    if (strncmp(pst_error(), "zeros.gz: the compressed data expands to more than 200 times", 60))
        fail_msg("%s", pst_error());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_make_the_same),
                                       cmocka_unit_test(compressed_text_is_text),
                                       cmocka_unit_test(killed_encodings_continue),
                                       cmocka_unit_test(processes_encode_together),
                                       cmocka_unit_test(signals_end_it),
                                       cmocka_unit_test(leftovers_are_recognized),
                                       cmocka_unit_test(failures_leave_no_folder),
                                       cmocka_unit_test(existing_files_are_kept),
                                       cmocka_unit_test(small_things)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
