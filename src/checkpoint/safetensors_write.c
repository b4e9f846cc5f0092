/* Writes safetensors: the header first, then the bytes of each tensor in the order of
 * declaration. */
#include "checkpoint/durable.h"
#include "checkpoint/safetensors.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pst_safetensors_writer {
    int fd;
    char *path;
    uint64_t declared, written; /* total bytes of the tensors */
};

/* jansson reports text that is not UTF-8 like missing memory; plain ASCII cannot be the first. */
static pst_status refused(const char *what, const char *name, const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text > 127)
            return pst_fail(PST_EINPUT, "safetensors: %s %s: not UTF-8, or no memory", what, name);
    return pst_fail(PST_ENOMEM, "safetensors: no memory for %s %s", what, name);
}

static pst_status declare(json_t *root, const pst_safetensors_decl *d, uint64_t *at) {
    uint64_t bytes = pst_dtype_bytes(d->dtype);
    json_t *shape = json_array();
    int whole = shape != NULL;
    for (uint32_t i = 0; i < d->n_dim; i++) {
        whole &= !json_array_append_new(shape, json_integer((json_int_t)d->dim[i]));
        if (__builtin_mul_overflow(bytes, d->dim[i], &bytes)) bytes = UINT64_MAX;
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", pst_dtype_name(d->dtype), "shape",
                              shape, "data_offsets", (json_int_t)*at, (json_int_t)(*at + bytes));
    if (bytes > INT64_MAX - *at || json_object_get(root, d->name) || !whole || !entry) {
        json_decref(entry);
        if (!whole || !entry)
            return pst_fail(PST_ENOMEM, "safetensors: no memory for tensor %s", d->name);
        return pst_fail(PST_EINPUT, "safetensors: tensor %s cannot be declared: %s", d->name,
                        json_object_get(root, d->name) ? "declared twice" : "too large");
    }
    if (json_object_set_new(root, d->name, entry)) return refused("tensor", d->name, d->name);
    *at += bytes;
    return PST_OK;
}

/* The padded length of the JSON, followed by its text. */
static pst_status print(const json_t *root, size_t align, pst_safetensors_header *h) {
    size_t length = json_dumpb(root, NULL, 0, JSON_COMPACT),
           padded = (8 + length + align - 1) / align * align - 8;
    char *text = malloc(8 + padded);
    if (!text || !length || json_dumpb(root, text + 8, length, JSON_COMPACT) != length) {
        free(text);
        return pst_no_memory("for a safetensors header");
    }
    memset(text + 8 + length, ' ', padded - length);
    for (int i = 0; i < 8; i++) text[i] = (char)((uint64_t)padded >> 8 * i);
    h->text = text;
    h->size = 8 + padded;
    return PST_OK;
}

static pst_status add_meta(json_t *root, const pst_safetensors_meta_list *list) {
    json_t *meta = json_object();
    pst_status status = meta ? PST_OK : pst_no_memory("for a safetensors header");
    for (uint32_t i = 0; i < list->n && status == PST_OK; i++)
        if (json_object_set_new(meta, list->key[i], json_string(list->value[i])))
            status = refused("metadata", list->key[i], list->value[i]);
    if (status == PST_OK && json_object_set(root, "__metadata__", meta))
        status = pst_no_memory("for a safetensors header");
    json_decref(meta);
    return status;
}

pst_status pst_safetensors_header_make(const pst_safetensors_decl *decl, uint32_t n,
                                       const pst_safetensors_meta_list *meta, size_t align,
                                       pst_safetensors_header *header) {
    return pst_safetensors_header_at(decl, NULL, n, meta, align, header);
}

pst_status pst_safetensors_header_at(const pst_safetensors_decl *decl, const uint64_t *at,
                                     uint32_t n, const pst_safetensors_meta_list *meta,
                                     size_t align, pst_safetensors_header *header) {
    pst_safetensors_header h = {.bytes = 0};
    json_t *root = json_object();
    pst_status status = root ? PST_OK : pst_no_memory("for a safetensors header");
    if (status == PST_OK && meta && meta->n) status = add_meta(root, meta);
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        if (at) h.bytes = at[i];
        status = declare(root, &decl[i], &h.bytes);
    }
    if (status == PST_OK) status = print(root, align, &h);
    if (status == PST_OK) *header = h;
    json_decref(root);
    return status;
}

pst_status pst_safetensors_create(const char *path, const pst_safetensors_decl *decl, uint32_t n,
                                  const pst_safetensors_meta_list *meta,
                                  pst_safetensors_writer **out) {
    pst_safetensors_header h = {.text = NULL};
    pst_status status = PST_ENOMEM;
    pst_safetensors_writer *w = calloc(1, sizeof *w);
    if (!w || !(w->path = strdup(path))) {
        pst_fail(status, "%s: out of memory", path);
        goto fail;
    }
    if ((status = pst_safetensors_header_make(decl, n, meta, 8, &h)) != PST_OK) goto fail;
    w->declared = h.bytes;
    if ((status = pst_durable_create(path, &w->fd)) != PST_OK) goto fail;
    if ((status = pst_durable_write(w->fd, path, h.text, h.size)) != PST_OK) {
        pst_safetensors_discard(w);
        free(h.text);
        return status;
    }
    free(h.text);
    *out = w;
    return PST_OK;
fail:
    free(h.text);
    if (w) free(w->path);
    free(w);
    return status;
}

pst_status pst_safetensors_write(pst_safetensors_writer *w, const void *data, uint64_t bytes) {
    if (bytes > w->declared - w->written)
        return pst_fail(PST_EINTERNAL, "%s: more bytes are written than were declared", w->path);
    PST_TRY(pst_durable_write(w->fd, w->path, data, bytes));
    w->written += bytes;
    return PST_OK;
}

pst_status pst_safetensors_finish(pst_safetensors_writer *w) {
    if (w->written != w->declared) {
        pst_status status =
            pst_fail(PST_EINTERNAL, "%s: %llu bytes were written, but %llu bytes were declared",
                     w->path, (unsigned long long)w->written, (unsigned long long)w->declared);
        pst_safetensors_discard(w);
        return status;
    }
    pst_status status = pst_durable_close(w->fd, w->path);
    if (status != PST_OK) unlink(w->path);
    free(w->path);
    free(w);
    return status;
}

void pst_safetensors_discard(pst_safetensors_writer *w) {
    if (!w) return;
    close(w->fd);
    unlink(w->path);
    free(w->path);
    free(w);
}
