/* Reading checkpoints: the index first, checked in itself and against the shards' headers; then tensors by name. */
#include "base/hash.h"
#include "engine/checkpoint_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20 };

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

static pst_status no_memory(const char *file) { return pst_fail(PST_ENOMEM, "%s: out of memory", file); }

pst_status pst_ckpt_text(const char *path, size_t limit, char **out, size_t *bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *text = NULL;
    pst_status status = PST_OK;
    if (fd < 0 || fstat(fd, &st))
        status = pst_fail(pst_status_of_errno(errno), "%s: cannot read: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) status = BAD("%s: not a file", path);
    else if ((uint64_t)st.st_size > limit) status = BAD("%s: %lld bytes are too many", path, (long long)st.st_size);
    else if (!(text = malloc((size_t)st.st_size + 1))) status = no_memory(path);
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
    *out = text, *bytes = done;
    return PST_OK;
}

pst_status pst_ckpt_index_hash(const char *text, size_t bytes, size_t *digits, uint64_t *hash) {
    static const char key[] = "\"xxh3\": \"", zeros[] = "0000000000000000";
    size_t n = strlen(key), from = bytes < n ? 0 : bytes - n + 1;
    while (from && memcmp(text + from - 1, key, n)) from--;
    if (!from || bytes - (from - 1 + n) < strlen(zeros)) return pst_fail(PST_EINPUT, "it has no hash of itself");
    size_t at = from - 1 + n, behind = at + strlen(zeros);
    pst_hasher *h = pst_hasher_open();
    if (!h) return no_memory("checkpoint");
    pst_hasher_add(h, text, at), pst_hasher_add(h, zeros, strlen(zeros)),
        pst_hasher_add(h, text + behind, bytes - behind);
    *digits = at, *hash = pst_hasher_value(h);
    pst_hasher_close(h);
    return PST_OK;
}

static int get_integer(const json_t *object, const char *key, uint64_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value)) return 0;
    *out = (uint64_t)json_integer_value(value);
    return 1;
}

/* 16 hexadecimal digits. */
static int get_hash(const json_t *object, const char *key, uint64_t *out) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return 0;
    *out = strtoull(text, NULL, 16);
    return 1;
}

static int get_loss(const json_t *object, const char *key, double *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) && !json_is_null(value)) return 0;
    *out = json_is_null(value) ? NAN : json_number_value(value);
    return 1;
}

static pst_status parse_info(const json_t *index, const char *file, pst_ckpt_info *info, uint64_t *config_hash) {
    uint64_t version = 0;
    const char *format = json_string_value(json_object_get(index, "format"));
    const char *optimizer = json_string_value(json_object_get(index, "optimizer"));
    if (!format || strcmp(format, PST_CKPT_FORMAT)) return BAD("%s: not the index of a checkpoint", file);
    if (!get_integer(index, "version", &version) || version != PST_CKPT_VERSION)
        return BAD("%s: a checkpoint of version %" PRIu64 ", this program reads version %d", file, version,
                   PST_CKPT_VERSION);
    if (!get_integer(index, "step", &info->step) || !get_integer(index, "next_sample", &info->next_sample) ||
        !get_integer(index, "seed", &info->seed) || info->step > INT64_MAX || info->next_sample > INT64_MAX)
        return BAD("%s: step, next_sample or seed is missing or no number", file);
    if (json_object_get(index, "skipped") &&
        (!get_integer(index, "skipped", &info->skipped) || info->skipped > info->step))
        return BAD("%s: skipped is no number up to step", file);
    if (!get_hash(index, "model_hash", &info->model_hash) || !get_hash(index, "data_hash", &info->data_hash) ||
        !get_hash(index, "config_xxh3", config_hash))
        return BAD("%s: model_hash, data_hash or config_xxh3 is missing or no hash", file);
    if (!get_loss(index, "validation_loss", &info->validation_loss) || !get_loss(index, "best_loss", &info->best_loss))
        return BAD("%s: validation_loss or best_loss is missing or no number", file);
    if (!optimizer || strlen(optimizer) >= sizeof info->optimizer) return BAD("%s: optimizer is missing", file);
    strcpy(info->optimizer, optimizer);
    return PST_OK;
}

static pst_status parse_files(const json_t *index, const char *file, pst_ckpt *c) {
    const json_t *files = json_object_get(index, "files");
    size_t n = json_array_size(files);
    if (n == 0 || n > 1 << 20) return BAD("%s: files is missing, empty or too long", file);
    if (!(c->file = calloc(n, sizeof *c->file)) || !(c->header_xxh3 = calloc(n, sizeof *c->header_xxh3)))
        return no_memory(file);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(files, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (!name || !*name || *name == '.' || strchr(name, '/')) return BAD("%s: files[%zu] is no file name", file, i);
        if (!get_hash(one, "header_xxh3", &c->header_xxh3[i])) return BAD("%s: %s has no header_xxh3", file, name);
        if (!(c->file[c->n_file] = strdup(name))) return no_memory(file);
        c->n_file++;
    }
    return PST_OK;
}

static pst_status parse_tensor(const json_t *value, const char *file, const char *name, const pst_ckpt *c,
                               pst_ckpt_tensor *t) {
    const json_t *shape = json_object_get(value, "shape");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const char *shard = json_string_value(json_object_get(value, "file"));
    if (!(t->name = strdup(name))) return no_memory(file);
    if (!dtype || strcmp(dtype, "F32")) return BAD("%s: tensor %s is not F32", file, name);
    if (!get_hash(value, "xxh3", &t->xxh3)) return BAD("%s: tensor %s has no xxh3", file, name);
    while (shard && t->file < c->n_file && strcmp(c->file[t->file], shard)) t->file++;
    if (!shard || t->file == c->n_file) return BAD("%s: tensor %s is in no file of the list", file, name);
    if (!json_is_array(shape) || json_array_size(shape) > PST_MAX_DIM)
        return BAD("%s: tensor %s has no shape", file, name);
    t->n_dim = (uint32_t)json_array_size(shape);
    t->elements = 1;
    for (uint32_t i = 0; i < t->n_dim; i++) {
        const json_t *dim = json_array_get(shape, i);
        t->dim[i] = (uint64_t)json_integer_value(dim);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0 ||
            __builtin_mul_overflow(t->elements, t->dim[i], &t->elements))
            return BAD("%s: tensor %s: a shape of no size", file, name);
    }
    return PST_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const pst_ckpt_tensor *)a)->name, ((const pst_ckpt_tensor *)b)->name);
}

static pst_status parse_tensors(const json_t *index, const char *file, pst_ckpt *c) {
    json_t *tensors = json_object_get(index, "tensors"), *value;
    const char *name;
    size_t n = json_object_size(tensors);
    if (!json_is_object(tensors) || n >= UINT32_MAX) return BAD("%s: tensors is missing or no object", file);
    if (!(c->tensor = calloc(n + 1, sizeof *c->tensor))) return no_memory(file);
    json_object_foreach(tensors, name, value) PST_TRY(parse_tensor(value, file, name, c, &c->tensor[c->n_tensor++]));
    qsort(c->tensor, c->n_tensor, sizeof *c->tensor, by_name);
    return PST_OK;
}

/* *config_hash: what run.yaml should hash to. */
static pst_status parse(const char *text, size_t bytes, const char *file, pst_ckpt **out, uint64_t *config_hash) {
    uint64_t own = 0, is = 0;
    size_t digits;
    json_error_t error;
    json_t *index = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!index && json_error_code(&error) == json_error_out_of_memory) return no_memory(file);
    if (!index) return BAD("%s:%d:%d: truncated or damaged: %s", file, error.line, error.column, error.text);
    pst_ckpt *c = calloc(1, sizeof *c);
    pst_status status = c ? parse_info(index, file, &c->info, config_hash) : no_memory(file);
    if (status == PST_OK) status = parse_files(index, file, c);
    if (status == PST_OK) status = parse_tensors(index, file, c);
    if (status == PST_OK) {
        status = pst_ckpt_index_hash(text, bytes, &digits, &is);
        if (status != PST_OK) pst_fail_in(status, "%s: damaged or edited", file);
    }
    if (status == PST_OK && (!get_hash(index, "xxh3", &own) || own != is))
        status = BAD("%s: damaged or edited: its hash is %016" PRIx64, file, is);
    json_decref(index);
    if (status != PST_OK) pst_ckpt_close(c);
    else *out = c;
    return status;
}

pst_status pst_ckpt_parse(const char *text, size_t bytes, const char *file, pst_ckpt **ckpt) {
    uint64_t config_hash;
    return parse(text, bytes, file, ckpt, &config_hash);
}

static pst_status open_shards(pst_ckpt *c) {
    if (!(c->shard = calloc(c->n_file, sizeof *c->shard))) return no_memory(c->path);
    for (uint32_t i = 0; i < c->n_file; i++) {
        char *path = pst_ckpt_join(c->path, c->file[i]);
        pst_status status = path ? pst_st_open(path, &c->shard[i]) : PST_ENOMEM;
        free(path);
        if (status != PST_OK) return pst_fail_in(status, "checkpoint");
        if (c->shard[i]->header_xxh3 != c->header_xxh3[i])
            return BAD("checkpoint: %s: the header is damaged: its hash is %016" PRIx64 ", the index says %016" PRIx64,
                       c->shard[i]->path, c->shard[i]->header_xxh3, c->header_xxh3[i]);
    }
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        const pst_ckpt_tensor *t = &c->tensor[i];
        const pst_st_entry *e = pst_st_find(c->shard[t->file], t->name);
        int same = e && !strcmp(e->dtype, "F32") && e->n_dim == t->n_dim && !memcmp(e->dim, t->dim, sizeof t->dim);
        if (!same)
            return BAD("checkpoint %s: %s holds no tensor %s of the shape in index.json", c->path, c->file[t->file],
                       t->name);
    }
    return PST_OK;
}

static pst_status open_config(pst_ckpt *c, uint64_t hash) {
    size_t bytes;
    char *path = pst_ckpt_join(c->path, "run.yaml");
    pst_status status = path ? pst_ckpt_text(path, MAX_CONFIG, &c->config, &bytes) : PST_ENOMEM;
    if (status == PST_OK && pst_hash_bytes(c->config, bytes) != hash)
        status = BAD("%s: damaged or edited: its hash is not the one in index.json", path);
    free(path);
    return status;
}

pst_status pst_ckpt_open(const char *folder, pst_ckpt **out) {
    pst_ckpt *c = NULL;
    char *text = NULL, *path = pst_ckpt_join(folder, "index.json");
    size_t bytes;
    uint64_t config_hash = 0;
    pst_status status = path ? pst_ckpt_text(path, PST_CKPT_MAX_INDEX, &text, &bytes) : PST_ENOMEM;
    if (status == PST_OK) status = parse(text, bytes, path, &c, &config_hash);
    if (status == PST_OK && !(c->path = strdup(folder))) status = no_memory(folder);
    if (status == PST_OK) status = open_config(c, config_hash);
    if (status == PST_OK) status = open_shards(c);
    free(text);
    free(path);
    if (status != PST_OK) pst_ckpt_close(c);
    else *out = c;
    return status;
}

void pst_ckpt_close(pst_ckpt *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_file; i++) {
        free(c->file[i]);
        if (c->shard) pst_st_close(c->shard[i]);
    }
    for (uint32_t i = 0; i < c->n_tensor; i++) free(c->tensor[i].name);
    free(c->file);
    free(c->header_xxh3);
    free(c->shard);
    free(c->tensor);
    free(c->path);
    free(c->config);
    free(c);
}

const pst_ckpt_tensor *pst_ckpt_tensor_find(const pst_ckpt *c, const char *name) {
    pst_ckpt_tensor key = {.name = (char *)name};
    return c->n_tensor ? bsearch(&key, c->tensor, c->n_tensor, sizeof key, by_name) : NULL;
}

pst_status pst_ckpt_read(const pst_ckpt *c, const char *name, float *out, uint64_t elements) {
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, name);
    if (!t) return BAD("checkpoint %s holds no tensor %s", c->path, name);
    if (t->elements != elements)
        return BAD("checkpoint %s: tensor %s has %" PRIu64 " elements, %" PRIu64 " are needed", c->path, name,
                   t->elements, elements);
    const pst_st_file *shard = c->shard[t->file];
    PST_TRY(pst_st_read_f32(shard, pst_st_find(shard, name), out, elements, 0));
    uint64_t hash = pst_hash_bytes(out, elements * sizeof *out);
    if (hash == t->xxh3) return PST_OK;
    return BAD("%s: tensor %s is damaged: its hash is %016" PRIx64 ", the index says %016" PRIx64, shard->path, name,
               hash, t->xxh3);
}

pst_status pst_ckpt_read_param(const pst_ckpt *c, const pst_param *param, const pst_optim_row *rule, float *weight,
                               float *const state[2]) {
    char name[PST_NAME_MAX + 16];
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, param->name);
    if (rule && strcmp(rule->name, c->info.optimizer))
        return BAD("checkpoint %s holds the state of optimizer %s, not of %s", c->path,
                   *c->info.optimizer ? c->info.optimizer : "(none)", rule->name);
    if (t && (t->n_dim != param->n_dim || memcmp(t->dim, param->dim, param->n_dim * sizeof *t->dim)))
        return BAD("checkpoint %s: tensor %s has another shape than the model's", c->path, param->name);
    PST_TRY(pst_ckpt_read(c, param->name, weight, pst_param_elements(param)));
    for (uint32_t i = 0; rule && i < rule->n_state; i++) {
        snprintf(name, sizeof name, "%s.%s", param->name, rule->state_name[i]);
        PST_TRY(pst_ckpt_read(c, name, state[i], pst_param_elements(param)));
    }
    return PST_OK;
}

static void print_tensors(const pst_ckpt *c, FILE *out) {
    uint64_t elements = 0;
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        const pst_ckpt_tensor *t = &c->tensor[i];
        char shape[96] = "";
        for (uint32_t k = 0; k < t->n_dim; k++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRIu64, k ? "," : "", t->dim[k]);
        fprintf(out, "  %-44s [%s]%*s %016" PRIx64 "  %s\n", t->name, shape,
                (int)(14 - strlen(shape)) > 0 ? (int)(14 - strlen(shape)) : 0, "", t->xxh3, c->file[t->file]);
        elements += t->elements;
    }
    fprintf(out, "%u tensors, %" PRIu64 " elements, %" PRIu64 " bytes\n", c->n_tensor, elements,
            elements * sizeof(float));
}

/* Every tensor's bytes against the hash that the index says. */
static pst_status verify(const pst_ckpt *c) {
    uint64_t most = 1;
    for (uint32_t i = 0; i < c->n_tensor; i++)
        if (c->tensor[i].elements > most) most = c->tensor[i].elements;
    float *room = malloc(most * sizeof *room); /* no overflow: a shard's header says as much, and the file is as long */
    pst_status status = room ? PST_OK : no_memory(c->path);
    for (uint32_t i = 0; i < c->n_tensor && status == PST_OK; i++)
        status = pst_ckpt_read(c, c->tensor[i].name, room, c->tensor[i].elements);
    free(room);
    return status;
}

pst_status pst_ckpt_print(const char *path, FILE *out) {
    char *folder;
    pst_ckpt *c = NULL;
    PST_TRY(pst_ckpt_find(path, &folder));
    pst_status status = pst_ckpt_open(folder, &c);
    free(folder);
    if (status != PST_OK) return status;
    const pst_ckpt_info *i = &c->info;
    fprintf(out,
            "checkpoint       %s\nstep             %" PRIu64 "\nnext sample      %" PRIu64 "\nseed             %" PRIu64
            "\noptimizer        %s\n",
            c->path, i->step, i->next_sample, i->seed, *i->optimizer ? i->optimizer : "(weights only)");
    if (!isnan(i->validation_loss)) fprintf(out, "validation loss  %.6f\n", i->validation_loss);
    if (!isnan(i->best_loss)) fprintf(out, "best so far      %.6f\n", i->best_loss);
    fprintf(out, "model, data      %016" PRIx64 " %016" PRIx64 "\n", i->model_hash, i->data_hash);
    print_tensors(c, out);
    status = verify(c);
    pst_ckpt_close(c);
    return status;
}
