/* Data sets of labelled images: "mnist", pairs of idx files, and "cifar10", its binary files;
 * both may be gzip'ed. All images are in memory, one byte per number; the last ones are the
 * validation split. A sample is the "pixels" of an image, rows of pixels of `depth` numbers from
 * 0 to 255, and its class as "targets". */
#include "base/hash.h"
#include "data/data.h"
#include "data/options.h"
#include "data/order.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CLASSES = 10, READ_BYTES = 1 << 20, IDX_IMAGES = 0x803, IDX_LABELS = 0x801 };

/* A file in memory. */
typedef struct {
    const char *path;
    uint8_t *byte;
    uint64_t n, cap;
} content;

typedef struct {
    pst_data base;
    pst_data_shape shape;
    uint64_t n, size;        /* number of images; bytes of one */
    uint8_t *pixels, *label; /* [n][size], [n] */
    uint64_t labels;         /* mnist: labels read so far */
    pst_order order;
    uint64_t train, hash;
} images;

/* --- files ------------------------------------------------------------------------------------ */

static pst_status grow(content *c, uint64_t more) {
    if (c->cap - c->n >= more) return PST_OK;
    uint64_t cap = 2 * c->cap + more;
    uint8_t *bigger = realloc(c->byte, cap);
    if (!bigger) return pst_fail(PST_ENOMEM, "no memory to read %s", c->path);
    c->byte = bigger;
    c->cap = cap;
    return PST_OK;
}

/* zlib passes uncompressed data through. */
static pst_status read_all(gzFile file, content *c) {
    int got, error;
    do {
        PST_TRY(grow(c, READ_BYTES));
        got = gzread(file, c->byte + c->n, READ_BYTES);
        c->n += got > 0 ? (uint64_t)got : 0;
    } while (got > 0);
    const char *why = gzerror(file, &error);
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END))
        return pst_fail(PST_EINPUT, "data: cannot read %s: %s", c->path,
                        error == Z_ERRNO ? strerror(errno) : why);
    return PST_OK;
}

static pst_status read_file(const char *path, content *c) {
    *c = (content){.path = path};
    gzFile file = gzopen(path, "rb");
    if (!file)
        return pst_fail(PST_EINPUT, "data: cannot open %s: %s", path,
                        strerror(errno ? errno : ENOMEM));
    pst_status status = read_all(file, c);
    gzclose(file);
    return status;
}

/* Makes space for `count` more images. */
static pst_status add_images(images *d, uint64_t count, const char *path) {
    uint8_t *pixels = realloc(d->pixels, (d->n + count) * d->size + 1);
    if (pixels) d->pixels = pixels;
    uint8_t *label = realloc(d->label, d->n + count + 1);
    if (label) d->label = label;
    if (!pixels || !label) return pst_fail(PST_ENOMEM, "no memory for the images of %s", path);
    d->n += count;
    return PST_OK;
}

static pst_status check_labels(const uint8_t *label, uint64_t n, const char *path) {
    for (uint64_t i = 0; i < n; i++)
        if (label[i] >= CLASSES)
            return pst_fail(PST_EINPUT, "data: %s: image %llu has class %u, expected 0 to %d", path,
                            (unsigned long long)i, label[i], CLASSES - 1);
    return PST_OK;
}

/* --- mnist: yann.lecun.com/exdb/mnist; numbers in a header are big-endian --------------------- */

static uint32_t number_at(const content *c, uint32_t i) {
    const uint8_t *b = c->byte + 4 * (uint64_t)i;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static pst_status add_idx_images(images *d, const content *c) {
    uint32_t side = d->shape.image;
    if (c->n < 16 || number_at(c, 2) != side || number_at(c, 3) != side)
        return pst_fail(PST_EINPUT, "data: %s has no images of %ux%u pixels", c->path, side, side);
    uint64_t count = number_at(c, 1);
    if (c->n != 16 + count * d->size)
        return pst_fail(PST_EINPUT,
                        "data: %s: the header says %llu images, but the file has %llu bytes; "
                        "expected %llu bytes",
                        c->path, (unsigned long long)count, (unsigned long long)c->n,
                        (unsigned long long)(16 + count * d->size));
    PST_TRY(add_images(d, count, c->path));
    memcpy(d->pixels + (d->n - count) * d->size, c->byte + 16, count * d->size);
    return PST_OK;
}

/* Labels belong to the first images without a label: image files come before label files. */
static pst_status add_idx_labels(images *d, const content *c) {
    uint64_t count = c->n >= 8 ? number_at(c, 1) : 0;
    if (c->n != 8 + count || !count)
        return pst_fail(PST_EINPUT,
                        "data: %s: the header says %llu labels, but the file has %llu bytes",
                        c->path, (unsigned long long)count, (unsigned long long)c->n);
    if (d->labels + count > d->n)
        return pst_fail(PST_EINPUT,
                        "data: %s has %llu labels, but only %llu images still need a label",
                        c->path, (unsigned long long)count, (unsigned long long)(d->n - d->labels));
    PST_TRY(check_labels(c->byte + 8, count, c->path));
    memcpy(d->label + d->labels, c->byte + 8, count);
    d->labels += count;
    return PST_OK;
}

/* pass 0: images, pass 1: labels; each pass skips the other's files. */
static pst_status add_idx(images *d, const content *c, int pass) {
    uint32_t magic = c->n >= 8 ? number_at(c, 0) : 0;
    if (magic != IDX_IMAGES && magic != IDX_LABELS)
        return pst_fail(PST_EINPUT, "data: %s is not an idx file of MNIST", c->path);
    if (magic == IDX_IMAGES) return pass == 0 ? add_idx_images(d, c) : PST_OK;
    return pass == 1 ? add_idx_labels(d, c) : PST_OK;
}

/* --- cifar10: www.cs.toronto.edu/~kriz/cifar.html, binary version: a label, then three planes of
 * 32x32  */

static pst_status add_cifar(images *d, const content *c, int pass) {
    uint64_t record = 1 + d->size, count = c->n / record, plane = d->size / d->shape.depth;
    (void)pass;
    if (!c->n || c->n % record)
        return pst_fail(PST_EINPUT,
                        "data: %s has %llu bytes, which is not a multiple of %llu, the size of a "
                        "CIFAR-10 image",
                        c->path, (unsigned long long)c->n, (unsigned long long)record);
    PST_TRY(add_images(d, count, c->path));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = d->n - count + i;
        const uint8_t *from = c->byte + i * record;
        d->label[at] = from[0];
        for (uint64_t k = 0; k < d->size; k++)
            d->pixels[at * d->size + k] = from[1 + k % d->shape.depth * plane + k / d->shape.depth];
    }
    d->labels += count;
    return check_labels(d->label + d->n - count, count, c->path);
}

/* --- both ------------------------------------------------------------------------------------- */

static void images_close(pst_data *data) {
    images *d = (images *)data;
    if (!d) return;
    free(d->pixels);
    free(d->label);
    free(d);
}

typedef pst_status (*add_fn)(images *, const content *, int pass);

static pst_status read_list(images *d, const pst_file_list *list, add_fn add, int passes) {
    pst_status status = PST_OK;
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t i = 0; status == PST_OK && i < list->n; i++) {
            content c;
            status = read_file(list->file[i].path, &c);
            if (status == PST_OK) status = add(d, &c, pass);
            free(c.byte);
        }
    if (status == PST_OK && d->labels != d->n)
        status = pst_fail(
            PST_EINPUT, "data: %llu images have %llu labels; each image file needs its label file",
            (unsigned long long)d->n, (unsigned long long)d->labels);
    return status;
}

static pst_status split(images *d, const pst_data_config *c) {
    d->train = c->held_out ? 0 : d->n - (uint64_t)((double)d->n * c->validation);
    if (!d->n && c->held_out)
        return pst_fail(PST_EINPUT, "data: there are no images to evaluate on");
    if (!d->train && !c->held_out)
        return pst_fail(PST_EINPUT, "data: there are no images to train on");
    if (c->validation > 0 && d->train == d->n)
        return pst_fail(PST_EINPUT,
                        "data.validation %g of %llu images is less than one image; use more images "
                        "or validation: 0",
                        c->validation, (unsigned long long)d->n);
    if (!c->held_out)
        d->order = pst_order_make(c->seed, d->train + 1, 1); /* each epoch orders windows of one
                                                                image */
    d->hash = pst_options_hash(
        c, 0, pst_hash64(d->pixels, d->n * d->size, pst_hash64(d->label, d->n, 0)));
    return PST_OK;
}

static pst_status open_with(const pst_data_row *row, add_fn add, int passes,
                            const pst_data_config *c, pst_data **out) {
    pst_file_list list = {0};
    PST_TRY(pst_options_check(c));
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    images *d = calloc(1, sizeof *d);
    pst_status status = d ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a data set");
    if (d) {
        d->base.row = row;
        status = row->shape(c->tokenizer, &d->shape);
        d->size = (uint64_t)d->shape.image * d->shape.image * d->shape.depth;
        if (status == PST_OK) status = read_list(d, &list, add, passes);
    }
    pst_files_free(&list);
    if (status == PST_OK) status = split(d, c);
    if (status == PST_OK) *out = &d->base;
    else images_close((pst_data *)d);
    return status;
}

static uint32_t images_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    out[0] = (pst_data_field){"pixels", ((const images *)data)->size};
    out[1] = (pst_data_field){"targets", 1};
    return 2;
}

static uint64_t images_size(const pst_data *data, pst_split split) {
    const images *d = (const images *)data;
    return split == PST_SPLIT_TRAIN ? d->train : d->n - d->train;
}

static pst_status images_sample(pst_data *data, pst_split split, uint64_t index,
                                int32_t *const *out) {
    const images *d = (const images *)data;
    if (split == PST_SPLIT_VALIDATION && index >= d->n - d->train)
        return pst_fail(PST_EINPUT,
                        "data: there is no validation image %llu; the split has %llu images",
                        (unsigned long long)index, (unsigned long long)(d->n - d->train));
    uint64_t at = split == PST_SPLIT_TRAIN ? pst_order_start(&d->order, index) : d->train + index;
    for (uint64_t i = 0; i < d->size; i++) out[0][i] = d->pixels[at * d->size + i];
    *out[1] = d->label[at];
    return PST_OK;
}

static uint64_t images_bytes(const pst_data *data, pst_split split) {
    return images_size(data, split) * ((const images *)data)->size;
}

static uint64_t images_hash(const pst_data *data) { return ((const images *)data)->hash; }

static pst_status mnist_shape(const char *tokenizer, pst_data_shape *shape) {
    (void)tokenizer;
    *shape = (pst_data_shape){.vocabulary = CLASSES, .image = 28, .depth = 1};
    return PST_OK;
}

static pst_status cifar10_shape(const char *tokenizer, pst_data_shape *shape) {
    (void)tokenizer;
    *shape = (pst_data_shape){.vocabulary = CLASSES, .image = 32, .depth = 3};
    return PST_OK;
}

static pst_status mnist_open(const pst_data_config *c, pst_data **out) {
    return open_with(&pst_data_mnist, add_idx, 2, c, out);
}

static pst_status cifar10_open(const pst_data_config *c, pst_data **out) {
    return open_with(&pst_data_cifar10, add_cifar, 1, c, out);
}

const pst_data_row pst_data_mnist = {.name = "mnist",
                                     .shape = mnist_shape,
                                     .open = mnist_open,
                                     .fields = images_fields,
                                     .sample = images_sample,
                                     .size = images_size,
                                     .bytes = images_bytes,
                                     .hash = images_hash,
                                     .close = images_close};
const pst_data_row pst_data_cifar10 = {.name = "cifar10",
                                       .shape = cifar10_shape,
                                       .open = cifar10_open,
                                       .fields = images_fields,
                                       .sample = images_sample,
                                       .size = images_size,
                                       .bytes = images_bytes,
                                       .hash = images_hash,
                                       .close = images_close};
