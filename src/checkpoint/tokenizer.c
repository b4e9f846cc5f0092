/* The tokenizer of a run: its files are copied to the folder `tokenizer` of the run and of each
 * checkpoint, and beside exported weights, so that all of them can be moved. */
#include "tokenizer/tokenizer.h"
#include "base/file.h"
#include "checkpoint/durable.h"
#include "checkpoint/parts.h"
#include "config/config.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 28 }; /* bytes of a tokenizer's file */

/* Copies the file, unless it is there already. */
static pst_status copy_file(const char *from, const char *folder, const char *name) {
    char *text = NULL, *there = NULL, *to = pst_ckpt_join(folder, name);
    size_t bytes = 0, bytes_there = 0;
    pst_status status = to ? pst_file_read(from, FILE_MOST, &text, &bytes) : PST_ENOMEM;
    if (status == PST_OK && access(to, F_OK) == 0 &&
        pst_file_read(to, FILE_MOST, &there, &bytes_there) != PST_OK)
        pst_error_clear(); /* it is replaced */
    int same = there && bytes_there == bytes && !memcmp(text, there, bytes);
    if (status == PST_OK && !same) status = pst_durable_file(to, text, bytes);
    free(text);
    free(there);
    free(to);
    return status;
}

pst_status pst_ckpt_tokenizer_check_new(const pst_tokenizer *t, const char *folder) {
    pst_tokenizer_file file[PST_TOKENIZER_FILES];
    uint32_t n = pst_tokenizer_files(t, file);
    for (uint32_t i = 0; i < n; i++) PST_TRY(pst_ckpt_check_new(folder, file[i].name));
    return PST_OK;
}

pst_status pst_ckpt_tokenizer_copy(const pst_tokenizer *t, const char *folder) {
    pst_tokenizer_file file[PST_TOKENIZER_FILES];
    uint32_t n = pst_tokenizer_files(t, file);
    PST_TRY(pst_durable_mkdir(folder));
    for (uint32_t i = 0; i < n; i++) PST_TRY(copy_file(file[i].path, folder, file[i].name));
    return pst_durable_sync_folder(folder);
}

pst_status pst_ckpt_tokenizer_config(const pst_tokenizer *t, uint32_t context, const char *folder) {
    pst_tokenizer_file file[PST_TOKENIZER_FILES];
    char *text = NULL, *path;
    if (!pst_tokenizer_files(t, file) || strcmp(file[0].name, "vocab.txt") != 0) return PST_OK;
    const int made = asprintf(&text,
                              "{\n  \"do_lower_case\": %s,\n  \"model_max_length\": %u,\n"
                              "  \"tokenizer_class\": \"BertTokenizer\"\n}\n",
                              pst_tokenizer_lowers(t) > 0 ? "true" : "false", context);
    if (made < 0) return pst_no_memory("to export a tokenizer");
    path = pst_ckpt_join(folder, "tokenizer_config.json");
    pst_status status = path ? pst_durable_file(path, text, (size_t)made) : PST_ENOMEM;
    free(path);
    free(text);
    return status;
}

pst_status pst_ckpt_tokenizer_open(const char *path, const char *source, uint64_t hash,
                                   pst_tokenizer **out) {
    pst_tokenizer *t;
    pst_status status = pst_tokenizer_open(path, &t);
    if (status != PST_OK) return pst_fail_in(status, "%s: data.tokenizer", source);
    uint64_t own = pst_tokenizer_hash(t);
    if (!hash || hash == own) {
        *out = t;
        return PST_OK;
    }
    pst_tokenizer_close(t);
    return pst_fail(PST_EINPUT,
                    "%s was trained with the tokenizer of hash %016" PRIx64
                    ", but %s has the hash %016" PRIx64,
                    source, hash, path, own);
}

static pst_status copy_files(DIR *dir, const char *from, const char *to) {
    pst_status status = PST_OK;
    for (struct dirent *e; status == PST_OK && (e = readdir(dir));) {
        if (*e->d_name == '.') continue;
        char *path = pst_ckpt_join(from, e->d_name);
        status = path ? copy_file(path, to, e->d_name) : PST_ENOMEM;
        free(path);
    }
    return status == PST_OK ? pst_durable_sync_folder(to) : status;
}

pst_status pst_ckpt_tokenizer_of_run(const char *checkpoints, const char *temporary) {
    const char *slash = strrchr(checkpoints, '/');
    char *from = NULL, *to = pst_ckpt_join(temporary, PST_CKPT_TOKENIZER);
    int before = slash ? (int)(slash + 1 - checkpoints) : 0;
    if (asprintf(&from, "%.*s" PST_CKPT_TOKENIZER, before, checkpoints) < 0) from = NULL;
    DIR *dir = from && to ? opendir(from) : NULL;
    pst_status status = from && to ? PST_OK : pst_no_memory("for a checkpoint");
    if (dir) status = pst_durable_mkdir(to);
    if (dir && status == PST_OK) status = copy_files(dir, from, to);
    if (dir) closedir(dir);
    free(from);
    free(to);
    return status;
}

pst_status pst_ckpt_config(const pst_ckpt *ckpt, const char *const *override, size_t n,
                           pst_config **config) {
    pst_config *c = NULL;
    char *own = pst_ckpt_join(ckpt->path, PST_CKPT_TOKENIZER);
    pst_status status =
        own ? pst_config_parse(ckpt->config, ckpt->path, override, n, &c) : PST_ENOMEM;
    if (status == PST_OK && access(own, F_OK) == 0)
        status = pst_config_override(c, "data", "tokenizer", own);
    free(own);
    if (status == PST_OK) *config = c;
    else pst_config_close(c);
    return status;
}
