/* test: label=quick */
/* Replacing files: the old one or the new one, whole, whatever comes between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"
#include "folder.h"
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static pst_status print_text(const void *what, FILE *out) {
    fputs(what, out);
    return PST_OK;
}

static pst_status print_half(const void *what, FILE *out) {
    fputs(what, out);
    return pst_fail(PST_EINPUT, "half");
}

/* Half of it is out when the process is interrupted. */
static pst_status print_interrupted(const void *what, FILE *out) {
    size_t n = strlen(what);
    fwrite(what, 1, n / 2, out);
    fflush(out);
    kill(getpid(), SIGINT);
    fputs((const char *)what + n / 2, out);
    return PST_OK;
}

static void assert_text(const char *path, const char *expected) {
    char *text, whole[80];
    size_t bytes;
    assert_int_equal(pst_file_read(path, sizeof whole - 1, &text, &bytes), PST_OK);
    snprintf(whole, sizeof whole, "%.*s", (int)bytes, text);
    assert_string_equal(whole, expected);
    free(text);
}

/* Texts are read to their zero; whatever lay in that memory before. */
static void a_zero_ends_it(void **state) {
    char *text;
    size_t bytes;
    (void)state;
    assert_int_equal(pst_file_replace("z", print_text, "a text"), PST_OK);
    for (size_t room = 64; room <= 1 << 17; room *= 2) {
        char *used = malloc(room);
        assert_non_null(used);
        volatile char *byte = used; /* a memset before free is left out */
        for (size_t i = 0; i < room; i++) byte[i] = 'x';
        free(used);
        assert_int_equal(pst_file_read("z", 80, &text, &bytes), PST_OK);
        assert_int_equal(bytes, 6);
        assert_memory_equal(text, "a text", 7);
        free(text);
    }
}

static void a_failure_leaves_the_old_one(void **state) {
    (void)state;
    assert_int_equal(pst_file_replace("a", print_text, "old"), PST_OK);
    assert_int_equal(pst_file_replace("a", print_half, "ne"), PST_EINPUT);
    assert_text("a", "old");
    assert_int_equal(access("a.new", F_OK), -1);
    assert_int_equal(pst_file_replace("b", print_half, "ne"), PST_EINPUT);
    assert_int_equal(access("b", F_OK), -1);
    assert_int_equal(pst_file_replace("nowhere/a", print_text, "new"), PST_EINPUT);
}

static void an_interrupt_waits(void **state) {
    int ended;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGINT, SIG_DFL);
        pst_file_replace("a", print_interrupted, "the new one");
        _exit(0); /* not reached */
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGINT);
    assert_text("a", "the new one");
    assert_int_equal(access("a.new", F_OK), -1);
}

static void a_link_stays(void **state) {
    struct stat st;
    (void)state;
    assert_int_equal(symlink("a", "link"), 0);
    assert_int_equal(pst_file_replace("link", print_text, "by the link"), PST_OK);
    assert_text("a", "by the link");
    assert_true(lstat("link", &st) == 0 && S_ISLNK(st.st_mode));
    assert_int_equal(pst_file_replace("/dev/null", print_text, "nothing"), PST_OK);
}

static int is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* The user's link that leads to nothing yet leads to the file then; to nothing again where it
 * fails. */
static void a_link_to_come(void **state) {
    (void)state;
    assert_int_equal(symlink("to-come", "promise"), 0);
    assert_int_equal(pst_file_replace("promise", print_half, "ne"), PST_EINPUT);
    assert_true(is_link("promise"));
    assert_int_equal(access("to-come", F_OK), -1);
    assert_int_equal(pst_file_replace("promise", print_text, "kept"), PST_OK);
    assert_true(is_link("promise") && !is_link("to-come"));
    assert_text("to-come", "kept");
    assert_int_equal(symlink("nowhere/a", "astray"), 0);
    assert_int_equal(pst_file_replace("astray", print_text, "lost"), PST_EINPUT);
}

/* A name of the program's own: what a link of that name, or of the one beside, leads to is left
 * alone. */
static void an_own_name_is_no_link(void **state) {
    (void)state;
    assert_int_equal(pst_file_replace("elsewhere", print_text, "of somebody"), PST_OK);
    assert_int_equal(symlink("elsewhere", "own"), 0);
    assert_int_equal(symlink("elsewhere", "own.new"), 0);
    assert_int_equal(pst_file_replace_own("own", print_half, "ne"), PST_EINPUT);
    assert_true(is_link("own"));
    assert_int_equal(symlink("elsewhere", "own.new"), 0);
    assert_int_equal(pst_file_replace_own("own", print_text, "mine"), PST_OK);
    assert_true(!is_link("own"));
    assert_int_equal(access("own.new", F_OK), -1);
    assert_text("own", "mine");
    assert_text("elsewhere", "of somebody");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zero_ends_it),     cmocka_unit_test(a_failure_leaves_the_old_one),
        cmocka_unit_test(an_interrupt_waits), cmocka_unit_test(a_link_stays),
        cmocka_unit_test(a_link_to_come),     cmocka_unit_test(an_own_name_is_no_link)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
