/* A parsed checkpoint index: finding tensors by name, and closing. */
#include "checkpoint/parts.h"
#include <stdlib.h>
#include <string.h>

int pst_ckpt_by_name(const void *a, const void *b) {
    return strcmp(((const pst_ckpt_tensor *)a)->name, ((const pst_ckpt_tensor *)b)->name);
}

const pst_ckpt_tensor *pst_ckpt_tensor_find(const pst_ckpt *c, const char *name) {
    pst_ckpt_tensor key = {.name = (char *)name};
    return c->n_tensor ? bsearch(&key, c->tensor, c->n_tensor, sizeof key, pst_ckpt_by_name) : NULL;
}

void pst_ckpt_close(pst_ckpt *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_file; i++) {
        free(c->file[i]);
        if (c->shard) pst_safetensors_close(c->shard[i]);
    }
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        free(c->tensor[i].name);
        free(c->tensor[i].part);
    }
    free(c->file);
    free(c->header_xxh3);
    free(c->shard);
    free(c->tensor);
    free(c->path);
    free(c->config);
    free(c);
}
