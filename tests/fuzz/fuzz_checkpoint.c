/* Any text as the index of a checkpoint: an error that names the file, or tensors that are sorted
 * and in a listed file within the folder. */
#include "checkpoint/checkpoint.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_ckpt *c = NULL;
    if (pst_ckpt_parse((const char *)data, size, "fuzz", &c) != PST_OK) {
        expect(c == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
        return 0;
    }
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        const pst_ckpt_tensor *t = &c->tensor[i];
        uint64_t at = 0;
        for (uint32_t k = 0; k < t->n_part; at = t->part[k++].to) {
            const char *file = t->part[k].file < c->n_file ? c->file[t->part[k].file] : "/";
            expect(t->part[k].from == at && !strchr(file, '/') && file[0] != '.');
        }
        expect(at == t->elements);
        expect(t->n_dim <= PST_MAX_DIM && pst_ckpt_tensor_find(c, t->name) == t);
        expect(i == 0 || strcmp(c->tensor[i - 1].name, t->name) < 0);
    }
    pst_ckpt_close(c);
    return 0;
}
