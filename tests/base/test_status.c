/* test: label=quick */
/* Status texts, the error trail (one line, cut, per thread) and log lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void every_status_has_text_and_exit(void **state) {
    (void)state;
    assert_string_equal(pst_status_text(PST_OK), "ok");
    assert_string_equal(pst_status_text(PST_EPEER), "a rank or link failed");
    assert_int_equal(pst_status_exit(PST_OK), 0);
    assert_int_equal(pst_status_exit(PST_EINPUT), 2);
    assert_int_equal(pst_status_exit(PST_EPEER), 3);
    assert_int_equal(pst_status_exit(PST_ENOMEM), 4);
    assert_int_equal(pst_status_exit(PST_EINTERNAL), 5);
    assert_string_equal(pst_status_text((pst_status)99), "unknown status");
    assert_int_equal(pst_status_exit((pst_status)99), 5);
}

static void trail_says_what_and_where(void **state) {
    (void)state;
    assert_int_equal(pst_fail(PST_EINPUT, "tensor %d has\nno shape", 3), PST_EINPUT);
    assert_string_equal(pst_error(), "tensor 3 has no shape");
    assert_int_equal(pst_fail_in(PST_EPEER, "file %s", "a.bin"), PST_EPEER);
    assert_string_equal(pst_error(), "file a.bin: tensor 3 has no shape");
    pst_fail(PST_EINPUT, "again: %s", pst_error()); /* may quote itself */
    assert_string_equal(pst_error(), "again: file a.bin: tensor 3 has no shape");
    pst_error_clear();
    assert_string_equal(pst_error(), "");
}

static void trail_is_cut(void **state) {
    (void)state;
    static char big[10000];
    memset(big, 'x', sizeof big - 1);
    pst_fail(PST_EINPUT, "%s", big);
    assert_int_equal(strlen(pst_error()), 4095);
    pst_fail_in(PST_EINPUT, "front");
    assert_int_equal(strlen(pst_error()), 4095);
    assert_memory_equal(pst_error(), "front: xx", 9);
    pst_fail_in(PST_EINPUT, "%s", big);
    assert_int_equal(strlen(pst_error()), 4095);
}

static pst_status try_twice(int fail) {
    PST_TRY(fail ? pst_fail(PST_ENOMEM, "inner") : PST_OK);
    return PST_OK;
}

static void *other_thread(void *arg) {
    (void)arg;
    int clean = pst_error()[0] == 0;
    pst_fail(PST_EINPUT, "theirs");
    return clean ? NULL : "dirty";
}

static void trail_is_per_thread(void **state) {
    (void)state;
    assert_int_equal(try_twice(0), PST_OK);
    assert_int_equal(try_twice(1), PST_ENOMEM);
    pthread_t thread;
    void *said;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, &said);
    assert_null(said);
    assert_string_equal(pst_error(), "inner");
}

/* Runs pst_log with stderr in a pipe; returns what arrived. */
static void logged(int rank, pst_log_level level, const char *text, char *out, size_t bytes) {
    int ends[2], keep = dup(2);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 2);
    pst_log_set_rank(rank);
    pst_log(level, "%s", text);
    dup2(keep, 2);
    close(keep);
    close(ends[1]);
    ssize_t got = read(ends[0], out, bytes - 1);
    out[got > 0 ? got : 0] = 0;
    close(ends[0]);
}

static void log_lines(void **state) {
    (void)state;
    char out[8192];
    pst_log_set_level(PST_LOG_INFO);
    logged(-1, PST_LOG_INFO, "hello", out, sizeof out);
    assert_string_equal(out, "hello\n");
    logged(3, PST_LOG_WARN, "hello", out, sizeof out);
    assert_string_equal(out, "[3] warning: hello\n");
    logged(-1, PST_LOG_DEBUG, "hello", out, sizeof out);
    assert_string_equal(out, "");
    pst_log_set_level(PST_LOG_DEBUG);
    assert_int_equal(pst_log_get_level(), PST_LOG_DEBUG);
    logged(0, PST_LOG_DEBUG, "hello", out, sizeof out);
    assert_string_equal(out, "[0] debug: hello\n");
    static char big[6000];
    memset(big, 'y', sizeof big - 1);
    logged(0, PST_LOG_ERROR, big, out, sizeof out);
    assert_int_equal(strlen(out), 4096);
    assert_int_equal(out[4095], '\n');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_text_and_exit),
        cmocka_unit_test(trail_says_what_and_where),
        cmocka_unit_test(trail_is_cut),
        cmocka_unit_test(trail_is_per_thread),
        cmocka_unit_test(log_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
