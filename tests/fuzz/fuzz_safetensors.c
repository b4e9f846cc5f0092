/* Any bytes as a safetensors file: an error that names the file, or entries that lie inside it and
 * can be read. */
#include "checkpoint/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static void exercise(const pst_safetensors_file *f, size_t size) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->n_entry; i++) {
        const pst_safetensors_entry *e = &f->entry[i];
        expect(pst_safetensors_find(f, e->name) == e);
        expect(e->offset <= size && e->bytes <= size - e->offset && e->n_dim <= 8);
        sum += e->bytes;
        uint64_t elements = 1;
        for (uint32_t k = 0; k < e->n_dim; k++) elements *= e->dim[k];
        float *out = malloc(elements ? elements * sizeof *out : 1);
        if (!out) continue;
        if (pst_safetensors_read_f32(f, e, out, elements, 0) == PST_OK && e->n_dim == 2)
            expect(pst_safetensors_read_f32(f, e, out, elements, 1) == PST_OK);
        expect(pst_safetensors_read_f32(f, e, out, elements + 1, 0) == PST_EINPUT);
        free(out);
    }
    expect(sum < size);
    for (uint32_t i = 0; i < f->n_meta; i++)
        expect(pst_safetensors_meta(f, f->meta_key[i]) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    pst_safetensors_file *f = NULL;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        if (pst_safetensors_open(path, &f) == PST_OK) exercise(f, size);
        else expect(f == NULL && strncmp(pst_error(), path, strlen(path)) == 0);
    }
    pst_safetensors_close(f);
    close(fd);
    return 0;
}
