/* A shard written from beginning to end in the calling thread, for tests of what comes after. */
#ifndef TESTS_CHECKPOINT_SHARDS_H
#define TESTS_CHECKPOINT_SHARDS_H
#include "checkpoint/checkpoint.h"
#include "checkpoint/shard.h"
#include <stdlib.h>

/* Whose shard of which checkpoint. */
typedef struct {
    const char *folder;
    uint64_t step;
    uint32_t rank, ranks;
} shard_place;

/* rule: NULL for weights only. */
static inline pst_status shard_write(const shard_place *at, const pst_optim_row *rule,
                                     const pst_ckpt_entry *entry, uint32_t n) {
    pst_shard *s = NULL;
    void *buffer = NULL;
    char *path = pst_ckpt_shard_path(at->folder, at->step, at->rank, at->ranks);
    pst_status status = path ? pst_ckpt_make_folders(at->folder, at->step) : PST_ENOMEM;
    if (status == PST_OK) status = pst_shard_open(rule, entry, n, 0, &s);
    if (status == PST_OK && !(buffer = pst_shard_buffer(s))) status = PST_ENOMEM;
    if (status == PST_OK) {
        pst_shard_begin(s, path, 0);
        while (pst_shard_write(s, buffer)) {}
        while (pst_shard_verify(s, buffer)) {}
        status = pst_shard_end(s);
    }
    if (status != PST_OK) pst_ckpt_remove_folders(at->folder, at->step);
    if (s) pst_shard_buffer_free(s, buffer);
    pst_shard_close(s);
    free(path);
    return status;
}
#endif
