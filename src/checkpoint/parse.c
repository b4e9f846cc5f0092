/* Parses a checkpoint's index.json into a pst_ckpt. The file is not trusted: every value is
 * checked, and the hash of the whole text. */
#include "base/hash.h"
#include "checkpoint/parts.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

pst_status pst_ckpt_index_hash(const char *text, size_t bytes, size_t *digits, uint64_t *hash) {
    static const char key[] = "\"xxh3\": \"", zeros[] = "0000000000000000";
    size_t n = strlen(key), from = bytes < n ? 0 : bytes - n + 1;
    while (from && memcmp(text + from - 1, key, n)) from--;
    if (!from || bytes - (from - 1 + n) < strlen(zeros))
        return pst_fail(PST_EINPUT, "the index does not contain the hash of its own text");
    size_t at = from - 1 + n, behind = at + strlen(zeros);
    pst_hasher *h = pst_hasher_open();
    if (!h) return pst_no_memory("to read a checkpoint's index");
    pst_hasher_add(h, text, at);
    pst_hasher_add(h, zeros, strlen(zeros));

    pst_hasher_add(h, text + behind, bytes - behind);
    *digits = at;
    *hash = pst_hasher_value(h);
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

/* Earlier versions had no loss scale. */
static pst_status parse_scale(const json_t *index, const char *file, pst_ckpt_info *info) {
    const json_t *scale = json_object_get(index, "loss_scale");
    if (!scale) return PST_OK;
    info->loss_scale = json_number_value(scale);
    if (!json_is_number(scale) || !(info->loss_scale >= 0) || isinf(info->loss_scale) ||
        !get_integer(index, "loss_scale_good", &info->loss_scale_good))
        return BAD("%s: loss_scale or loss_scale_good is not a number", file);
    return PST_OK;
}

static int get_numbers(const json_t *object, const char *key, double *out, size_t n) {
    const json_t *list = json_object_get(object, key);
    if (json_array_size(list) != n) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!json_is_number(json_array_get(list, i))) return 0;
        out[i] = json_number_value(json_array_get(list, i));
    }
    return 1;
}

/* Missing if checkpoint.best is validation. */
static pst_status parse_best(const json_t *index, const char *file, pst_ckpt_info *info) {
    const json_t *value = json_object_get(index, "best_of");
    const char *name = json_string_value(value);
    info->chosen_loss = NAN;
    if (!value) return PST_OK;
    if (!name || strlen(name) >= sizeof info->best_of ||
        !get_loss(index, "chosen_loss", &info->chosen_loss))
        return BAD("%s: best_of is not a name, or chosen_loss is missing or not a number", file);
    strcpy(info->best_of, name);
    return PST_OK;
}

/* Missing without train.spike. */
static pst_status parse_spikes(const json_t *index, const char *file, pst_ckpt_info *info) {
    const json_t *spikes = json_object_get(index, "spikes");
    pst_ckpt_recent *r = &info->recent;
    if (!spikes) return PST_OK;
    if (!get_integer(spikes, "spiked", &info->spiked) || info->spiked > info->step ||
        !get_integer(spikes, "steps", &r->n) ||
        !get_numbers(spikes, "losses", r->loss, PST_CKPT_RECENT) ||
        !get_numbers(spikes, "log_norms", r->norm, PST_CKPT_RECENT))
        return BAD("%s: a number in 'spikes' is missing or wrong", file);
    return PST_OK;
}

static pst_status parse_info(const json_t *index, const char *file, pst_ckpt_info *info,
                             uint64_t *config_hash) {
    uint64_t version = 0;
    const char *format = json_string_value(json_object_get(index, "format"));
    const char *optimizer = json_string_value(json_object_get(index, "optimizer"));
    if (!format || strcmp(format, PST_CKPT_FORMAT))
        return BAD("%s: not the index of a checkpoint", file);
    if (!get_integer(index, "version", &version) || version < PST_CKPT_VERSION - 1 ||
        version > PST_CKPT_VERSION)
        return BAD("%s: checkpoint version %" PRIu64
                   " is not supported; this program reads versions %d and %d",
                   file, version, PST_CKPT_VERSION - 1, PST_CKPT_VERSION);
    if (!get_integer(index, "step", &info->step) ||
        !get_integer(index, "next_sample", &info->next_sample) ||
        !get_integer(index, "seed", &info->seed) || info->step > INT64_MAX ||
        info->next_sample > INT64_MAX)
        return BAD("%s: step, next_sample or seed is missing or not a number", file);
    if (json_object_get(index, "skipped") &&
        (!get_integer(index, "skipped", &info->skipped) || info->skipped > info->step))
        return BAD("%s: skipped is not a number from 0 to step", file);
    if (json_object_get(index, "evaluations_since_best") &&
        !get_integer(index, "evaluations_since_best", &info->no_better))
        return BAD("%s: evaluations_since_best is not a number", file);
    if (json_object_get(index, "pending") &&
        (!get_integer(index, "pending", &info->pending) || info->pending > info->step))
        return BAD("%s: pending is not a number from 0 to step", file);
    PST_TRY(parse_scale(index, file, info));
    PST_TRY(parse_best(index, file, info));
    PST_TRY(parse_spikes(index, file, info));
    if (!get_hash(index, "model_hash", &info->model_hash) ||
        !get_hash(index, "data_hash", &info->data_hash) ||
        !get_hash(index, "config_xxh3", config_hash))
        return BAD("%s: model_hash, data_hash or config_xxh3 is missing or not a hash", file);
    if (json_object_get(index, "tokenizer") && !get_hash(index, "tokenizer", &info->tokenizer))
        return BAD("%s: tokenizer is not a hash", file);
    if (json_object_get(index, "base") && !get_hash(index, "base", &info->base))
        return BAD("%s: base is not a hash", file);
    if (!get_loss(index, "validation_loss", &info->validation_loss) ||
        !get_loss(index, "best_loss", &info->best_loss))
        return BAD("%s: validation_loss or best_loss is missing or not a number", file);
    if (!optimizer || strlen(optimizer) >= sizeof info->optimizer)
        return BAD("%s: optimizer is missing", file);
    strcpy(info->optimizer, optimizer);
    return PST_OK;
}

static pst_status parse_files(const json_t *index, const char *file, pst_ckpt *c) {
    const json_t *files = json_object_get(index, "files");
    size_t n = json_array_size(files);
    if (n == 0 || n > 1 << 20)
        return BAD("%s: the key 'files' is missing, empty or too long", file);
    if (!(c->file = calloc(n, sizeof *c->file)) ||
        !(c->header_xxh3 = calloc(n, sizeof *c->header_xxh3)))
        return pst_no_memory("to read a checkpoint's index");
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(files, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (!name || !*name || *name == '.' || strchr(name, '/'))
            return BAD("%s: files[%zu] is not a file name", file, i);
        if (!get_hash(one, "header_xxh3", &c->header_xxh3[i]))
            return BAD("%s: file %s: header_xxh3 is missing or not a hash", file, name);
        if (!(c->file[c->n_file] = strdup(name)))
            return pst_no_memory("to read a checkpoint's index");
        c->n_file++;
    }
    return PST_OK;
}

static pst_status parse_shape(const json_t *value, const char *file, pst_ckpt_tensor *t) {
    const json_t *shape = json_object_get(value, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > PST_MAX_DIM)
        return BAD("%s: tensor %s: shape is missing or not a list of at most %d sizes", file,
                   t->name, PST_MAX_DIM);
    t->n_dim = (uint32_t)json_array_size(shape);
    t->elements = 1;
    for (uint32_t i = 0; i < t->n_dim; i++) {
        const json_t *dim = json_array_get(shape, i);
        t->dim[i] = (uint64_t)json_integer_value(dim);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0 ||
            __builtin_mul_overflow(t->elements, t->dim[i], &t->elements))
            return BAD("%s: tensor %s has an invalid shape", file, t->name);
    }
    return PST_OK;
}

/* value: the object of the tensor or of one of its parts. */
static pst_status parse_part(const json_t *value, const char *file, const pst_ckpt *c,
                             const char *name, pst_ckpt_part *part) {
    const char *shard = json_string_value(json_object_get(value, "file"));
    if (!get_hash(value, "xxh3", &part->xxh3))
        return BAD("%s: tensor %s: xxh3 is missing or not a hash", file, name);
    while (shard && part->file < c->n_file && strcmp(c->file[part->file], shard)) part->file++;
    if (!shard || part->file == c->n_file)
        return BAD("%s: tensor %s is in none of the listed files", file, name);
    return PST_OK;
}

static pst_status parse_parts(const json_t *parts, const char *file, const pst_ckpt *c,
                              pst_ckpt_tensor *t) {
    uint64_t at = 0;
    for (; t->n_part < json_array_size(parts); t->n_part++) {
        const json_t *one = json_array_get(parts, t->n_part);
        pst_ckpt_part *part = &t->part[t->n_part];
        PST_TRY(parse_part(one, file, c, t->name, part));
        const char *slice = json_string_value(json_object_get(one, "slice"));
        if (slice && !pst_ckpt_slice_parse(slice, t, &part->slice))
            return BAD("%s: a part of tensor %s has an invalid slice", file, t->name);
        pst_param held = pst_ckpt_held(t, &part->slice);
        uint64_t first = slice ? part->from : at,
                 most = slice ? pst_param_elements(&held) : t->elements;
        if (!get_integer(one, "from", &part->from) || !get_integer(one, "to", &part->to) ||
            (!slice && part->from != first) || part->to <= part->from || part->to > most)
            return BAD("%s: the parts of tensor %s overlap or leave a gap", file, t->name);
        at += part->to - part->from;
    }
    return at == t->elements ? PST_OK : BAD("%s: a part of tensor %s is missing", file, t->name);
}

static pst_status parse_tensor(const json_t *value, const char *file, const char *name,
                               const pst_ckpt *c, pst_ckpt_tensor *t) {
    const json_t *parts = json_object_get(value, "parts");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    size_t n = json_array_size(parts);
    if (!(t->name = strdup(name)) || !(t->part = calloc(n + 1, sizeof *t->part)))
        return pst_no_memory("to read a checkpoint's index");
    if (!dtype || (strcmp(dtype, "F32") && strcmp(dtype, "BF16")))
        return BAD("%s: tensor %s is not F32 or BF16", file, name);
    t->dtype = strcmp(dtype, "BF16") ? PST_F32 : PST_BF16;
    if (n > 1 << 20) return BAD("%s: tensor %s has too many parts", file, name);
    PST_TRY(parse_shape(value, file, t));
    if (parts) return parse_parts(parts, file, c, t);
    t->n_part = 1;
    t->part->to = t->elements;
    return parse_part(value, file, c, name, t->part);
}

static pst_status parse_tensors(const json_t *index, const char *file, pst_ckpt *c) {
    json_t *tensors = json_object_get(index, "tensors"), *value;
    const char *name;
    size_t n = json_object_size(tensors);
    if (!json_is_object(tensors) || n >= UINT32_MAX)
        return BAD("%s: tensors is missing or not an object", file);
    if (!(c->tensor = calloc(n + 1, sizeof *c->tensor)))
        return pst_no_memory("to read a checkpoint's index");
    json_object_foreach(tensors, name, value)
        PST_TRY(parse_tensor(value, file, name, c, &c->tensor[c->n_tensor++]));
    qsort(c->tensor, c->n_tensor, sizeof *c->tensor, pst_ckpt_by_name);
    return PST_OK;
}

pst_status pst_ckpt_index_parse(const char *text, size_t bytes, const char *file, pst_ckpt **out,
                                uint64_t *config_hash) {
    uint64_t own = 0, is = 0;
    size_t digits;
    json_error_t error;
    json_t *index = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!index && json_error_code(&error) == json_error_out_of_memory)
        return pst_no_memory("to read a checkpoint's index");
    if (!index)
        return BAD("%s:%d:%d: the file is truncated or damaged: %s", file, error.line, error.column,
                   error.text);
    pst_ckpt *c = calloc(1, sizeof *c);
    pst_status status = c ? parse_info(index, file, &c->info, config_hash)
                          : pst_no_memory("to read a checkpoint's index");
    if (status == PST_OK) status = parse_files(index, file, c);
    if (status == PST_OK) status = parse_tensors(index, file, c);
    if (status == PST_OK) {
        status = pst_ckpt_index_hash(text, bytes, &digits, &is);
        if (status != PST_OK) pst_fail_in(status, "%s: the file is damaged or was edited", file);
    }
    if (status == PST_OK && (!get_hash(index, "xxh3", &own) || own != is))
        status = BAD("%s: the file is damaged or was edited: the hash of the text is %016" PRIx64,
                     file, is);
    json_decref(index);
    if (status != PST_OK) pst_ckpt_close(c);
    else *out = c;
    return status;
}

pst_status pst_ckpt_parse(const char *text, size_t bytes, const char *file, pst_ckpt **ckpt) {
    uint64_t config_hash;
    return pst_ckpt_index_parse(text, bytes, file, ckpt, &config_hash);
}
