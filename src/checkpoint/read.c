/* Reads checkpoints: the index first (parse.c), checked against the shards' headers; then
 * tensors by name. */
#include "base/hash.h"
#include "checkpoint/parts.h"
#include "graph/slice.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20 };

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

pst_status pst_ckpt_text(const char *path, size_t limit, char **out, size_t *bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    pst_status status = PST_OK;
    if (fd < 0 || fstat(fd, &st))
        status = pst_fail(pst_status_of_errno(errno), "%s: cannot read: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) status = BAD("%s: not a file", path);
    else if ((uint64_t)st.st_size > limit)
        status = BAD("%s: the file has %lld bytes; the limit is %zu bytes", path,
                     (long long)st.st_size, limit);
    else if (!(text = malloc((size_t)st.st_size + 1)))
        status = pst_no_memory("to read a checkpoint");
    size_t done = 0;
    while (status == PST_OK && done < (size_t)st.st_size) {
        ssize_t n = read(fd, text + done, (size_t)st.st_size - done);
        if (n > 0) done += (size_t)n;
        else if (n == 0) break;
        else if (errno != EINTR) status = BAD("%s: cannot read: %s", path, strerror(errno));
    }
    if (fd >= 0) close(fd);
    if (status != PST_OK) {
        free(text);
        return status;
    }
    text[done] = 0;
    *out = text;
    *bytes = done;
    return PST_OK;
}

/* A part's entry in its shard; NULL if there is none of that size. */
static const pst_safetensors_entry *entry_of(const pst_ckpt *c, const pst_ckpt_tensor *t,
                                             const pst_ckpt_part *part) {
    char name[PST_CKPT_NAME];
    if (!pst_ckpt_whole(t)) pst_ckpt_part_name(t->name, &part->slice, part->from, part->to, name);
    const pst_safetensors_entry *e =
        pst_safetensors_find(c->shard[part->file], pst_ckpt_whole(t) ? t->name : name);
    if (!e || strcmp(e->dtype, pst_dtype_name(t->dtype))) return NULL;
    if (!pst_ckpt_whole(t)) return e->n_dim == 1 && e->dim[0] == part->to - part->from ? e : NULL;
    return e->n_dim == t->n_dim && !memcmp(e->dim, t->dim, sizeof t->dim) ? e : NULL;
}

pst_status pst_ckpt_open_shards(pst_ckpt *c) {
    if (!(c->shard = calloc(c->n_file, sizeof *c->shard)))
        return pst_no_memory("to read a checkpoint");
    for (uint32_t i = 0; i < c->n_file; i++) {
        char *path = pst_ckpt_join(c->path, c->file[i]);
        pst_status status = path ? PST_OK : PST_ENOMEM;
        if (path)
            status = c->unhashed ? pst_safetensors_open_own(path, &c->shard[i])
                                 : pst_safetensors_open(path, &c->shard[i]);
        free(path);
        if (status != PST_OK) return pst_fail_in(status, "checkpoint");
        if (c->shard[i]->header_xxh3 != c->header_xxh3[i])
            return BAD("checkpoint: %s: the header is damaged: its hash is %016" PRIx64
                       ", but the index gives %016" PRIx64,
                       c->shard[i]->path, c->shard[i]->header_xxh3, c->header_xxh3[i]);
    }
    for (uint32_t i = 0; i < c->n_tensor; i++)
        for (uint32_t k = 0; k < c->tensor[i].n_part; k++)
            if (!entry_of(c, &c->tensor[i], &c->tensor[i].part[k]))
                return BAD("checkpoint %s: file %s contains no tensor %s of the shape that "
                           "index.json gives",
                           c->path, c->file[c->tensor[i].part[k].file], c->tensor[i].name);
    return PST_OK;
}

static pst_status open_config(pst_ckpt *c, uint64_t hash) {
    size_t bytes;
    char *path = pst_ckpt_join(c->path, "run.yaml");
    pst_status status = path ? pst_ckpt_text(path, MAX_CONFIG, &c->config, &bytes) : PST_ENOMEM;
    if (status == PST_OK && pst_hash_bytes(c->config, bytes) != hash)
        status = BAD(
            "%s: the file is damaged or was edited: its hash differs from the hash in index.json",
            path);
    free(path);
    return status;
}

pst_status pst_ckpt_open(const char *folder, pst_ckpt **out) {
    pst_ckpt *c = NULL;
    char *text = NULL, *path = pst_ckpt_join(folder, "index.json");
    size_t bytes;
    uint64_t config_hash = 0;
    pst_status status = path ? pst_ckpt_text(path, PST_CKPT_MAX_INDEX, &text, &bytes) : PST_ENOMEM;
    if (status == PST_OK) status = pst_ckpt_index_parse(text, bytes, path, &c, &config_hash);
    if (status == PST_OK && !(c->path = strdup(folder)))
        status = pst_no_memory("to read a checkpoint");
    if (status == PST_OK) status = open_config(c, config_hash);
    if (status == PST_OK) status = pst_ckpt_open_shards(c);
    free(text);
    free(path);
    if (status != PST_OK) pst_ckpt_close(c);
    else *out = c;
    return status;
}

/* Reads the part's numbers as they are stored, for the hash (NULL: none), and widens them. */
static pst_status read_numbers(const pst_ckpt *c, const pst_ckpt_tensor *t,
                               const pst_ckpt_part *part, float *out, uint64_t *hash) {
    const uint32_t file = part->file;
    const pst_safetensors_entry *e = entry_of(c, t, part);
    const uint64_t n = part->to - part->from, bytes = n * pst_dtype_bytes(t->dtype);
    uint8_t *at = (uint8_t *)out + (n * sizeof *out - bytes);
    pst_status status = PST_OK;
    if (!c->fetch || !c->fetch(c->fetch_arg, file, e->offset, at, bytes, &status))
        status = pst_safetensors_read_bytes(c->shard[file], e, 0, at, bytes);
    PST_TRY(status);
    if (hash) *hash = pst_hash_bytes(at, bytes);
    if (t->dtype == PST_BF16) pst_bf16_unpack(out, n);
    return PST_OK;
}

static pst_status read_part(const pst_ckpt *c, const pst_ckpt_tensor *t, const pst_ckpt_part *part,
                            float *out) {
    const pst_safetensors_file *shard = c->shard[part->file];
    const pst_safetensors_entry *e = entry_of(c, t, part);
    uint64_t hash = 0;
    PST_TRY(read_numbers(c, t, part, out, c->unhashed ? NULL : &hash));
    if (c->unhashed || hash == part->xxh3) return PST_OK;
    return BAD("%s: tensor %s is damaged: its hash is %016" PRIx64
               ", but the index gives %016" PRIx64,
               shard->path, e->name, hash, part->xxh3);
}

/* Copies the part's elements within [from, to) to out, which begins at element from. Reads whole
 * parts, because hashes are of whole parts. */
static pst_status read_overlap(const pst_ckpt *c, const pst_ckpt_tensor *t,
                               const pst_ckpt_part *part, float *out, uint64_t from, uint64_t to) {
    int sliced = part->slice.held == PST_HELD_PART;
    if (!sliced && part->from >= from && part->to <= to)
        return read_part(c, t, part, out + (part->from - from));
    uint64_t low = part->from > from ? part->from : from, high = part->to < to ? part->to : to;
    float *buffer = malloc((part->to - part->from) * sizeof *buffer);
    pst_status status =
        buffer ? read_part(c, t, part, buffer) : pst_no_memory("to read a checkpoint");
    if (status == PST_OK && sliced) pst_ckpt_put_slice(t, part, buffer, out, from, to);
    else if (status == PST_OK)
        memcpy(out + (low - from), buffer + (low - part->from), (high - low) * sizeof *out);
    free(buffer);
    return status;
}

pst_status pst_ckpt_read_range(const pst_ckpt *c, const char *name, uint64_t elements,
                               uint64_t from, uint64_t to, float *out) {
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, name);
    if (!t) return BAD("checkpoint %s contains no tensor %s", c->path, name);
    if (t->elements != elements)
        return BAD("checkpoint %s: tensor %s has %" PRIu64 " elements, but %" PRIu64 " are needed",
                   c->path, name, t->elements, elements);
    for (uint32_t i = 0; i < t->n_part; i++)
        if (t->part[i].slice.held == PST_HELD_PART ||
            (t->part[i].from < to && t->part[i].to > from))
            PST_TRY(read_overlap(c, t, &t->part[i], out, from, to));
    return PST_OK;
}

pst_status pst_ckpt_read(const pst_ckpt *c, const char *name, float *out, uint64_t elements) {
    return pst_ckpt_read_range(c, name, elements, 0, elements, out);
}

pst_status pst_ckpt_read_held(const pst_ckpt *c, const char *name, const pst_param *param,
                              uint64_t from, uint64_t to, float *out) {
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(param, dim), here = pst_param_elements(param);
    if (param->slice.held != PST_HELD_PART) return pst_ckpt_read_range(c, name, n, from, to, out);
    float *whole = malloc((n + here) * sizeof *whole), *held = whole + n;
    pst_status status = whole ? pst_ckpt_read_range(c, name, n, 0, n, whole)
                              : pst_fail(PST_ENOMEM, "%s: out of memory", c->path);
    if (status == PST_OK) {
        pst_slice_take(param, whole, held);
        memcpy(out, held + from, (to - from) * sizeof *out);
    }
    free(whole);
    return status;
}

/* Through memory of its own. */
static pst_status read_bf16(const pst_ckpt *c, const char *name, const pst_param *param,
                            uint64_t from, uint64_t to, uint16_t *out) {
    float *wide = malloc((to - from) * sizeof *wide);
    pst_status status = wide ? pst_ckpt_read_held(c, name, param, from, to, wide)
                             : pst_no_memory("to read a checkpoint");
    for (uint64_t i = 0; status == PST_OK && i < to - from; i++)
        out[i] = pst_bf16_from_f32(wide[i]);
    free(wide);
    return status;
}

pst_dtype pst_ckpt_state_type(const pst_ckpt *c) {
    for (uint32_t i = 0; i < c->n_tensor; i++)
        if (c->tensor[i].dtype != PST_F32) return c->tensor[i].dtype;
    return PST_F32;
}

static pst_status read_any(const pst_ckpt *c, const char *name, const pst_param *param,
                           pst_dtype type, const uint64_t range[2], void *out) {
    return type == PST_BF16 ? read_bf16(c, name, param, range[0], range[1], out)
                            : pst_ckpt_read_held(c, name, param, range[0], range[1], out);
}

static pst_status check_optimizer(const pst_ckpt *c, const pst_optim_row *rule) {
    if (strcmp(rule->name, c->info.optimizer))
        return BAD("checkpoint %s contains the state of optimizer %s, not of %s", c->path,
                   *c->info.optimizer ? c->info.optimizer : "(none)", rule->name);
    return PST_OK;
}

pst_status pst_ckpt_read_island(const pst_ckpt *c, const pst_param *param, uint32_t island,
                                const pst_optim_row *rule, void *const at[3],
                                const uint64_t range[2]) {
    char name[PST_CKPT_NAME];
    if (range[0] == range[1]) return PST_OK;
    if (at[0])
        PST_TRY(read_any(c, pst_ckpt_island_name(param->name, island, "", name), param, PST_F32,
                         range, at[0]));
    if (rule) PST_TRY(check_optimizer(c, rule));
    for (uint32_t i = 0; rule && i < pst_optim_states(rule, param); i++)
        PST_TRY(read_any(c, pst_ckpt_island_name(param->name, island, rule->state_name[i], name),
                         param, rule->state, range, at[1 + i]));
    return PST_OK;
}

pst_status pst_ckpt_read_state(const pst_ckpt *c, const pst_param *param, const pst_optim_row *rule,
                               void *const state[2], uint64_t from, uint64_t to) {
    char name[PST_NAME_MAX + 16];
    const uint64_t range[] = {from, to};
    PST_TRY(check_optimizer(c, rule));
    for (uint32_t i = 0; from < to && i < pst_optim_states(rule, param); i++) {
        snprintf(name, sizeof name, "%s.%s", param->name, rule->state_name[i]);
        PST_TRY(read_any(c, name, param, rule->state, range, state[i]));
    }
    return PST_OK;
}

pst_status pst_ckpt_read_weight(const pst_ckpt *c, const pst_param *param, uint64_t from,
                                uint64_t to, float *weight) {
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, param->name);
    uint64_t dim[PST_MAX_DIM];
    pst_slice_whole(param, dim);
    if (t && (t->n_dim != param->n_dim || memcmp(t->dim, dim, param->n_dim * sizeof *dim)))
        return BAD("checkpoint %s: the shape of tensor %s differs from the model's", c->path,
                   param->name);
    return pst_ckpt_read_held(c, param->name, param, from, to, weight);
}

pst_status pst_ckpt_read_param(const pst_ckpt *c, const pst_param *param, const pst_optim_row *rule,
                               float *weight, void *const state[2]) {
    PST_TRY(pst_ckpt_read_weight(c, param, 0, pst_param_elements(param), weight));
    return rule ? pst_ckpt_read_state(c, param, rule, state, 0, pst_param_elements(param)) : PST_OK;
}
