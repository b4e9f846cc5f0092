/* Names of a checkpoint's folder and files. */
#include "checkpoint/parts.h"
#include "base/file.h"
#include <inttypes.h>
#include <stdlib.h>

char *pst_ckpt_join(const char *folder, const char *name) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) >= 0) return path;
    pst_fail(PST_ENOMEM, "checkpoint: out of memory");
    return NULL;
}

pst_status pst_ckpt_check_new(const char *folder, const char *name) {
    char *path = pst_ckpt_join(folder, name);
    if (!path) return PST_ENOMEM;
    pst_status status = pst_file_check_new(path);
    free(path);
    return status;
}

char *pst_ckpt_folder(const char *folder, uint64_t step, int temporary) {
    char name[64];
    snprintf(name, sizeof name, "%sstep-%08" PRIu64, temporary ? ".tmp-" : "", step);
    return pst_ckpt_join(folder, name);
}

void pst_ckpt_shard_name(char out[64], uint32_t rank, uint32_t ranks) {
    snprintf(out, 64, "rank-%u-of-%u.safetensors", rank, ranks);
}
