/* A folder for the files of a fuzz target, for formats that need names or several files. */
#ifndef TESTS_FUZZ_FUZZ_FOLDER_H
#define TESTS_FUZZ_FUZZ_FOLDER_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void expect(int truth) {
    if (!truth) abort();
}

static char folder[] = "/tmp/penstock-fuzz-XXXXXX";

static inline void path_of(const char *name, char out[128]) {
    snprintf(out, 128, "%s/%s", folder, name);
}

static void remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) perror(folder);
}

/* Makes the folder when it is first called. */
static inline void put(const char *name, const uint8_t *data, size_t size) {
    static int made;
    char path[128];
    if (!made) expect(mkdtemp(folder) != NULL && atexit(remove_folder) == 0);
    made = 1;
    path_of(name, path);
    FILE *f = fopen(path, "wb");
    expect(f && fwrite(data, 1, size, f) == size);
    expect(fclose(f) == 0);
}
#endif
