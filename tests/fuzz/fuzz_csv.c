/* Any bytes as CSV, also compressed: an error that names the file, or records whose fields written
 * again are the same records; and as texts with labels, of which each has a label that there is. */
#include "data/csv.h"
#include "data/labelled.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

/* The fields of all records, each in quotes. */
static pst_status write_again(void *arg, const pst_csv_record *r) {
    pst_text *out = arg;
    expect(r->n > 0 && r->line > 0);
    for (uint32_t i = 0; i < r->n; i++) {
        const char *field = pst_csv_field(r, i);
        const size_t n = pst_csv_bytes(r, i);
        expect(field[n] == 0);
        if (pst_text_add(out, i ? ",\"" : "\"", i ? 2 : 1) != PST_OK) return PST_ENOMEM;
        for (size_t k = 0; k < n; k++)
            if (pst_text_add(out, field[k] == '"' ? "\"\"" : &field[k], field[k] == '"' ? 2 : 1))
                return PST_ENOMEM;
        if (pst_text_add(out, "\"", 1) != PST_OK) return PST_ENOMEM;
    }
    return pst_text_add(out, "\n", 1);
}

static int open_text(const void *data, size_t size, char path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_labelled(const uint8_t *data, size_t size) {
    char folder[] = "/tmp/pst-fuzz-XXXXXX", path[64];
    expect(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/x.csv", folder);
    FILE *f = fopen(path, "wb");
    expect(f && fwrite(data, 1, size, f) == size && !fclose(f));
    char *paths[] = {path};
    for (int skip = 0; skip < 2; skip++) {
        const pst_data_config c = {
            .paths = paths, .n_path = 1, .lines = {"text", skip}, .label = "label"};
        pst_labelled l;
        if (pst_labelled_read(&c, &l) != PST_OK) continue;
        expect(l.labels.n >= 1 && l.n > 0);
        for (uint64_t i = 0; i < l.n; i++)
            expect(l.row[i].label >= 0 && (uint32_t)l.row[i].label < l.labels.n &&
                   l.row[i].at + l.row[i].n <= l.text.n);
        pst_labelled_free(&l);
    }
    unlink(path);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64], again[64];
    pst_text first = {0}, second = {0};
    int fd = open_text(data, size, path);
    pst_status status = pst_csv_read(path, write_again, &first);
    if (status != PST_OK) expect(strncmp(pst_error(), path, strlen(path)) == 0);
    if (status == PST_OK && first.n) {
        int other = open_text(first.byte, first.n, again);
        expect(pst_csv_read(again, write_again, &second) == PST_OK);
        expect(first.n == second.n && !memcmp(first.byte, second.byte, first.n));
        close(other);
    }
    pst_text_free(&first);
    pst_text_free(&second);
    close(fd);
    check_labelled(data, size);
    return 0;
}
