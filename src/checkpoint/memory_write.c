/* Writes a checkpoint from memory files, which hold the shards of an elastic run's state: when no
 * rank is left that could do it. */
#include "base/hash.h"
#include "checkpoint/parts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4 << 20 };

/* One shard: what is read, and what is declared of it. number: of its file. */
typedef struct {
    const pst_ckpt_memory *memory;
    uint32_t number;
    pst_safetensors_file *file;
    /* [n] entries of the file that no earlier file has: replicas have the same, and tied weights
     * are on two stages */
    pst_safetensors_entry *entry;
    uint32_t n;
    pst_safetensors_decl *decl; /* [n] */
    const char **key, **value;  /* [n] metadata: the hash of each tensor */
    char *text;                 /* of keys and values */
    uint8_t *block;             /* [BLOCK] */
} shard;

enum { KEY = sizeof PST_CKPT_HASH_KEY + PST_CKPT_NAME, VALUE = 20 };

static void close_shard(shard *s) {
    pst_safetensors_close(s->file);
    free(s->entry);
    free(s->decl);
    free(s->key);
    free(s->text);
    free(s->block);
}

static pst_status read_block(const shard *s, const pst_safetensors_entry *e, uint64_t at,
                             uint64_t bytes) {
    const pst_ckpt_memory *m = s->memory;
    pst_status status = PST_OK;
    if (m->fetch && m->fetch(m->fetch_arg, s->number, e->offset + at, s->block, bytes, &status))
        return status;
    return pst_safetensors_read_bytes(s->file, e, at, s->block, bytes);
}

/* Calls take(arg, block, bytes) for all bytes of a tensor in turn. */
static pst_status each_block(const shard *s, const pst_safetensors_entry *e,
                             pst_status (*take)(void *arg, const void *block, uint64_t bytes),
                             void *arg) {
    for (uint64_t at = 0; at < e->bytes; at += BLOCK) {
        const uint64_t bytes = e->bytes - at < BLOCK ? e->bytes - at : BLOCK;
        PST_TRY(read_block(s, e, at, bytes));
        PST_TRY(take(arg, s->block, bytes));
    }
    return PST_OK;
}

static pst_status add_to_hash(void *hasher, const void *block, uint64_t bytes) {
    pst_hasher_add(hasher, block, bytes);
    return PST_OK;
}

static pst_status add_to_file(void *writer, const void *block, uint64_t bytes) {
    return pst_safetensors_write(writer, block, bytes);
}

static pst_status declare(shard *s, uint32_t i, pst_hasher *hasher) {
    const pst_safetensors_entry *e = &s->entry[i];
    char *key = s->text + i * (size_t)(KEY + VALUE), *value = key + KEY;
    const pst_dtype dtype = strcmp(e->dtype, pst_dtype_name(PST_BF16)) ? PST_F32 : PST_BF16;
    s->decl[i] = (pst_safetensors_decl){.name = e->name, .dtype = dtype, .n_dim = e->n_dim};
    memcpy(s->decl[i].dim, e->dim, sizeof e->dim);
    pst_hasher_reset(hasher);
    PST_TRY(each_block(s, e, add_to_hash, hasher));
    snprintf(key, KEY, PST_CKPT_HASH_KEY "%s", e->name);
    snprintf(value, VALUE, "%016" PRIx64, pst_hasher_value(hasher));
    s->key[i] = key;
    s->value[i] = value;
    return PST_OK;
}

static pst_status take_entries(shard *s, json_t *seen) {
    s->entry = calloc(s->file->n_entry + (size_t)1, sizeof *s->entry);
    if (!s->entry) return pst_no_memory("to write a checkpoint");
    for (uint32_t i = 0; i < s->file->n_entry; i++) {
        if (json_object_get(seen, s->file->entry[i].name)) continue;
        s->entry[s->n++] = s->file->entry[i];
        if (json_object_set_new(seen, s->file->entry[i].name, json_true()))
            return pst_no_memory("to write a checkpoint");
    }
    return PST_OK;
}

/* seen: names of the tensors of earlier files; those of this one are added. */
static pst_status open_shard(shard *s, int fd, json_t *seen) {
    char path[64];
    snprintf(path, sizeof path, PST_CKPT_DESCRIPTORS "/%d", fd);
    PST_TRY(pst_safetensors_open_own(path, &s->file));
    PST_TRY(take_entries(s, seen));
    const size_t n = s->n;
    s->decl = calloc(n + 1, sizeof *s->decl);
    s->key = calloc(2 * n + 1, sizeof *s->key);
    s->text = malloc(n * (KEY + VALUE) + 1);
    s->block = malloc(BLOCK);
    pst_hasher *hasher = pst_hasher_open();
    pst_status status = s->decl && s->key && s->text && s->block && hasher
                            ? PST_OK
                            : pst_no_memory("to write a checkpoint");
    s->value = s->key ? s->key + n : NULL;
    for (uint32_t i = 0; status == PST_OK && i < n; i++) status = declare(s, i, hasher);
    pst_hasher_close(hasher);
    return status;
}

static pst_status write_shard(const shard *s, const char *path) {
    const uint32_t n = s->n;
    const pst_safetensors_meta_list meta = {s->key, s->value, n};
    pst_safetensors_writer *w;
    PST_TRY(pst_safetensors_create(path, s->decl, n, &meta, &w));
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        status = each_block(s, &s->entry[i], add_to_file, w);
    if (status == PST_OK) return pst_safetensors_finish(w);
    pst_safetensors_discard(w);
    return status;
}

static pst_status copy_shard(const pst_ckpt_memory *m, uint32_t number, json_t *seen,
                             const char *folder, uint64_t step) {
    shard s = {.memory = m, .number = number};
    char *path = pst_ckpt_shard_path(folder, step, number, m->n);
    pst_status status = path ? open_shard(&s, m->fd[number], seen) : PST_ENOMEM;
    if (status == PST_OK) status = write_shard(&s, path);
    close_shard(&s);
    free(path);
    return status;
}

pst_status pst_ckpt_write_memory(const pst_ckpt_memory *m, const char *folder,
                                 const pst_ckpt_info *info, const char *config,
                                 const pst_graph *graph) {
    pst_ckpt_clean(folder);
    PST_TRY(pst_ckpt_make_folders(folder, info->step));
    json_t *seen = json_object();
    pst_status status = seen ? PST_OK : pst_no_memory("to write a checkpoint");
    for (uint32_t r = 0; status == PST_OK && r < m->n; r++)
        status = copy_shard(m, r, seen, folder, info->step);
    json_decref(seen);
    if (status == PST_OK) return pst_ckpt_commit(folder, info, config, graph, m->n, NULL);
    pst_ckpt_abandon(folder, info->step);
    return status;
}
