/* A folder of the test's own, current from set-up to tear-down: for cmocka_run_group_tests(tests,
 * folder_open, folder_close). Everything in it goes at the end. */
#ifndef TESTS_BASE_FOLDER_H
#define TESTS_BASE_FOLDER_H
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline char *folder_path(void) {
    static char path[] = "/tmp/penstock-test-XXXXXX";
    return path;
}

static inline int folder_open(void **state) {
    (void)state;
    return !mkdtemp(folder_path()) || chdir(folder_path());
}

/* Replaces a file of the folder. */
static inline void folder_write(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    if (!f) abort();
    fputs(text, f);
    fclose(f);
}

static inline int folder_close(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder_path());
    return chdir("/") || system(command);
}
#endif
