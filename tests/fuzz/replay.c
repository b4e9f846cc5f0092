/* Drives a fuzz entry without libFuzzer: `fuzz_NAME FOLDER` runs nothing, every file of
 * tests/fuzz/corpus/NAME/, and a fixed number of mutations of each (cut short, bytes changed, a
 * part doubled). Always the same inputs. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 60, MAX_MUTATED = 65536 };

static uint64_t state = 88172645463325252u;
static uint64_t next(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Inputs get a block of their own, so that reading one byte too many is seen by the address
 * sanitizer. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memset(copy, 0, 1);
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void mutate(const uint8_t *data, size_t size) {
    uint8_t *work = malloc(2 * size);
    if (!work) abort();
    for (int k = 0; k < MUTATIONS; k++) {
        size_t n = size, from = next() % size, part = next() % (size - from) + 1;
        memcpy(work, data, size);
        if (k % 3 == 0) n = from;
        if (k % 3 == 1)
            for (uint64_t i = next() % 4 + 1; i > 0; i--) work[next() % size] = (uint8_t)next();
        if (k % 3 == 2) {
            memmove(work + from + part, work + from, size - from);
            n = size + part;
        }
        run(work, n);
    }
    free(work);
}

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    struct stat s;
    if (!f || fstat(fileno(f), &s) != 0) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)s.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot read\n", path);
        return 1;
    }
    fclose(f);
    run(data, size);
    if (size && size <= MAX_MUTATED) mutate(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    struct dirent **entry = NULL;
    int failed = 0, files = 0;
    run((const uint8_t *)"", 0);
    int n = argc > 1 ? scandir(argv[1], &entry, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry[i]->d_name);
        if (entry[i]->d_name[0] != '.') {
            failed |= replay(path);
            files++;
        }
        free(entry[i]);
    }
    free(entry);
    printf("%d files, %d mutations of each\n", files, MUTATIONS);
    return failed || !files;
}
