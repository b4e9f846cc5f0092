/* Reads safetensors. The header is checked against the file's size before it is used: lengths,
 * types, shapes, and that the tensors fill the data section without gap or overlap, as the
 * format requires. */
#include "checkpoint/safetensors.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_HEADER = 100000000, MAX_DIM = 8, CHUNK = 1 << 18 };

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)
#define NO_MEMORY(path) pst_fail(PST_ENOMEM, "%s: out of memory", path)

static uint64_t dtype_bytes(const char *name) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } row[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2}, {"F8_E5M2", 1}, {"F8_E4M3", 1},
               {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
               {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"C64", 8}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(name, row[i].name)) return row[i].bytes;
    return 0;
}

static pst_status read_at(int fd, const char *path, void *out, uint64_t bytes, uint64_t offset) {
    uint8_t *at = out;
    while (bytes) {
        ssize_t n = pread(fd, at, bytes < (1u << 30) ? bytes : 1u << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return BAD("%s: cannot read: %s", path, strerror(errno));
        if (n == 0) return BAD("%s: the file was truncated while it was read", path);
        at += n;
        bytes -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return PST_OK;
}

/* A non-negative JSON integer. */
static int natural(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return 0;
    *out = (uint64_t)json_integer_value(value);
    return 1;
}

static pst_status parse_shape(const char *path, const json_t *shape, pst_safetensors_entry *e) {
    if (!json_is_array(shape))
        return BAD("%s: tensor %s: shape is missing or not a list", path, e->name);
    if (json_array_size(shape) > MAX_DIM)
        return BAD("%s: tensor %s has %zu dimensions; at most %d are supported", path, e->name,
                   json_array_size(shape), MAX_DIM);
    e->n_dim = (uint32_t)json_array_size(shape);
    uint64_t bytes = dtype_bytes(e->dtype);
    for (uint32_t i = 0; i < e->n_dim; i++) {
        if (!natural(json_array_get(shape, i), &e->dim[i]))
            return BAD("%s: tensor %s: dimension %u is not a valid size", path, e->name, i);
        if (__builtin_mul_overflow(bytes, e->dim[i], &bytes))
            return BAD("%s: tensor %s: the shape has too many elements", path, e->name);
    }
    if (bytes != e->bytes)
        return BAD("%s: tensor %s: the shape needs %llu bytes, but the offsets give %llu", path,
                   e->name, (unsigned long long)bytes, (unsigned long long)e->bytes);
    return PST_OK;
}

static pst_status parse_entry(const char *path, const char *name, const json_t *value,
                              uint64_t start, uint64_t size, pst_safetensors_entry *e) {
    const json_t *dtype = json_object_get(value, "dtype"),
                 *offsets = json_object_get(value, "data_offsets");
    uint64_t begin, end;
    if (!(e->name = strdup(name))) return NO_MEMORY(path);
    if (!json_is_string(dtype))
        return BAD("%s: tensor %s: dtype is missing or not a string", path, name);
    if (!dtype_bytes(json_string_value(dtype)))
        return BAD("%s: tensor %s has the unknown dtype %.32s", path, name,
                   json_string_value(dtype));
    if (!(e->dtype = strdup(json_string_value(dtype)))) return NO_MEMORY(path);
    if (json_array_size(offsets) != 2 || !natural(json_array_get(offsets, 0), &begin) ||
        !natural(json_array_get(offsets, 1), &end) || begin > end)
        return BAD("%s: tensor %s: data_offsets is missing or not [begin, end]", path, name);
    if (end > size)
        return BAD("%s: truncated, or not a safetensors file: tensor %s ends at byte %llu of %llu",
                   path, name, (unsigned long long)end, (unsigned long long)size);
    e->offset = start + begin;
    e->bytes = end - begin;
    return parse_shape(path, json_object_get(value, "shape"), e);
}

static pst_status parse_meta(const json_t *meta, pst_safetensors_file *f) {
    const char *key;
    json_t *value;
    if (!json_is_object(meta)) return BAD("%s: __metadata__ is not an object of strings", f->path);
    f->meta_key = calloc(json_object_size(meta) + 1, sizeof *f->meta_key);
    f->meta_value = calloc(json_object_size(meta) + 1, sizeof *f->meta_value);
    if (!f->meta_key || !f->meta_value) return NO_MEMORY(f->path);
    json_object_foreach((json_t *)meta, key, value) {
        if (!json_is_string(value))
            return BAD("%s: __metadata__ is not an object of strings", f->path);
        f->meta_key[f->n_meta] = strdup(key);
        f->meta_value[f->n_meta] = strdup(json_string_value(value));
        f->n_meta++;
        if (!f->meta_key[f->n_meta - 1] || !f->meta_value[f->n_meta - 1]) return NO_MEMORY(f->path);
    }
    return PST_OK;
}

static int by_offset(const void *a, const void *b) {
    const pst_safetensors_entry *x = *(pst_safetensors_entry *const *)a,
                                *y = *(pst_safetensors_entry *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const pst_safetensors_entry *)a)->name,
                  ((const pst_safetensors_entry *)b)->name);
}

/* Checks that the tensors follow each other from the end of the header to the end of the file. */
static pst_status check_cover(const pst_safetensors_file *f, uint64_t start, uint64_t end) {
    pst_status status = PST_OK;
    pst_safetensors_entry **order = calloc(f->n_entry + (size_t)1, sizeof *order);
    if (!order) return NO_MEMORY(f->path);
    for (uint32_t i = 0; i < f->n_entry; i++) order[i] = &f->entry[i];
    qsort(order, f->n_entry, sizeof *order, by_offset);
    for (uint32_t i = 0; i < f->n_entry && status == PST_OK; i++) {
        if (order[i]->offset != start)
            status =
                BAD("%s: tensor %s %s", f->path, order[i]->name,
                    order[i]->offset < start ? "overlaps another tensor"
                                             : "does not start where the previous tensor ends");
        start = order[i]->offset + order[i]->bytes;
    }
    free(order);
    if (status == PST_OK && start != end)
        return BAD("%s: the file has %llu bytes after the last tensor", f->path,
                   (unsigned long long)(end - start));
    return status;
}

static pst_status parse_header(const json_t *root, uint64_t start, uint64_t end,
                               pst_safetensors_file *f) {
    const char *key;
    json_t *value;
    if (!json_is_object(root)) return BAD("%s: the header is not a JSON object", f->path);
    if (json_object_size(root) >= UINT32_MAX) return BAD("%s: too many tensors", f->path);
    if (!(f->entry = calloc(json_object_size(root) + 1, sizeof *f->entry)))
        return NO_MEMORY(f->path);
    json_object_foreach((json_t *)root, key, value) {
        if (!strcmp(key, "__metadata__")) {
            PST_TRY(parse_meta(value, f));
            continue;
        }
        PST_TRY(parse_entry(f->path, key, value, start, end - start, &f->entry[f->n_entry++]));
    }
    if (!f->gaps) PST_TRY(check_cover(f, start, end));
    qsort(f->entry, f->n_entry, sizeof *f->entry, by_name);
    return PST_OK;
}

static pst_status read_header(pst_safetensors_file *f) {
    struct stat st;
    uint8_t word[8];
    uint64_t length = 0;
    if (fstat(f->fd, &st)) return BAD("%s: cannot read: %s", f->path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return BAD("%s: not a file", f->path);
    uint64_t size = (uint64_t)st.st_size;
    if (size < 10)
        return BAD("%s: not a safetensors file: the file has only %llu bytes", f->path,
                   (unsigned long long)size);
    PST_TRY(read_at(f->fd, f->path, word, 8, 0));
    for (int i = 7; i >= 0; i--) length = length << 8 | word[i];
    if (length > size - 8)
        return BAD("%s: truncated, or not a safetensors file: the header needs %llu bytes, but the "
                   "file has %llu bytes",
                   f->path, (unsigned long long)length, (unsigned long long)size);
    if (length > MAX_HEADER)
        return BAD("%s: the header has %llu bytes; at most %d are supported", f->path,
                   (unsigned long long)length, MAX_HEADER);
    char *text = malloc(8 + length);
    if (!text) return NO_MEMORY(f->path);
    pst_status status = read_at(f->fd, f->path, text, 8 + length, 0);
    if (status == PST_OK) {
        json_error_t error;
        json_t *root = json_loadb(text + 8, length, JSON_REJECT_DUPLICATES, &error);
        f->header_xxh3 = pst_hash_bytes(text, 8 + length);
        if (root) status = parse_header(root, 8 + length, size, f);
        else if (json_error_code(&error) == json_error_out_of_memory) status = NO_MEMORY(f->path);
        else
            status =
                BAD("%s: not a safetensors file: the header is not JSON: %s", f->path, error.text);
        json_decref(root);
    }
    free(text);
    return status;
}

static pst_status open_file(const char *path, int gaps, pst_safetensors_file **out) {
    pst_safetensors_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return NO_MEMORY(path);
    }
    pst_status status = PST_OK;
    f->gaps = gaps;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0)
        status = pst_fail(pst_status_of_errno(errno), "%s: cannot read: %s", path, strerror(errno));
    if (status == PST_OK) status = read_header(f);
    if (status != PST_OK) pst_safetensors_close(f);
    else *out = f;
    return status;
}

pst_status pst_safetensors_open(const char *path, pst_safetensors_file **out) {
    return open_file(path, 0, out);
}

pst_status pst_safetensors_open_own(const char *path, pst_safetensors_file **out) {
    return open_file(path, 1, out);
}

void pst_safetensors_close(pst_safetensors_file *f) {
    if (!f) return;
    for (uint32_t i = 0; i < f->n_entry; i++) {
        free(f->entry[i].name);
        free(f->entry[i].dtype);
    }
    for (uint32_t i = 0; i < f->n_meta; i++) {
        free(f->meta_key[i]);
        free(f->meta_value[i]);
    }
    free(f->entry);
    free(f->meta_key);
    free(f->meta_value);
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f);
}

const pst_safetensors_entry *pst_safetensors_find(const pst_safetensors_file *f, const char *name) {
    pst_safetensors_entry key = {.name = (char *)name};
    return f->n_entry ? bsearch(&key, f->entry, f->n_entry, sizeof key, by_name) : NULL;
}

const char *pst_safetensors_meta(const pst_safetensors_file *f, const char *key) {
    for (uint32_t i = 0; i < f->n_meta; i++)
        if (!strcmp(f->meta_key[i], key)) return f->meta_value[i];
    return NULL;
}

pst_status pst_safetensors_read_bytes(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                                      uint64_t from, void *out, uint64_t bytes) {
    if (from > e->bytes || bytes > e->bytes - from)
        return BAD("%s: read beyond the end of tensor %s", f->path, e->name);
    return read_at(f->fd, f->path, out, bytes, e->offset + from);
}

typedef float (*convert_fn)(const uint8_t *);
static float from_f32(const uint8_t *at) {
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}
static float from_f64(const uint8_t *at) {
    double value;
    memcpy(&value, at, sizeof value);
    return (float)value;
}
static float from_f16(const uint8_t *at) {
    return pst_f32_from_f16((uint16_t)(at[0] | at[1] << 8));
}
static float from_bf16(const uint8_t *at) {
    return pst_f32_from_bf16((uint16_t)(at[0] | at[1] << 8));
}

static convert_fn converter(const char *dtype) {
    if (!strcmp(dtype, "F32")) return from_f32;
    if (!strcmp(dtype, "F64")) return from_f64;
    if (!strcmp(dtype, "F16")) return from_f16;
    return strcmp(dtype, "BF16") ? NULL : from_bf16;
}

/* Element (r, c) of the [rows, elements / rows] in the file goes to out[c * rows + r]; rows = 1
 * keeps the order. */
static pst_status read_converted(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                                 convert_fn convert, float *out, uint64_t elements, uint64_t rows) {
    uint8_t *chunk = malloc(CHUNK);
    if (!chunk) return NO_MEMORY(f->path);
    uint64_t width = dtype_bytes(e->dtype), columns = rows ? elements / rows : 0, r = 0, c = 0;
    pst_status status = PST_OK;
    for (uint64_t done = 0; done < elements && status == PST_OK;) {
        uint64_t n = elements - done < CHUNK / width ? elements - done : CHUNK / width;
        status = read_at(f->fd, f->path, chunk, n * width, e->offset + done * width);
        for (uint64_t i = 0; i < n && status == PST_OK; i++) {
            out[c * rows + r] = convert(chunk + i * width);
            if (++c == columns) {
                c = 0;
                r++;
            }
        }
        done += n;
    }
    free(chunk);
    return status;
}

pst_status pst_safetensors_read_f32(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                                    float *out, uint64_t elements, int transpose) {
    convert_fn convert = converter(e->dtype);
    if (!convert)
        return BAD("%s: tensor %s is %s, not a floating-point type", f->path, e->name, e->dtype);
    uint64_t there = e->bytes / dtype_bytes(e->dtype);
    if (there != elements)
        return BAD("%s: tensor %s has %llu elements, but %llu are needed", f->path, e->name,
                   (unsigned long long)there, (unsigned long long)elements);
    if (transpose && e->n_dim != 2)
        return BAD("%s: tensor %s has %u dimensions, but 2 are needed", f->path, e->name, e->n_dim);
    if (transpose) return read_converted(f, e, convert, out, elements, e->dim[0]);
    if (convert == from_f32) return read_at(f->fd, f->path, out, e->bytes, e->offset);
    return read_converted(f, e, convert, out, elements, 1);
}
