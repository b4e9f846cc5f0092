/* See recording.h. */
#include "verify/recording.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------ */

static pst_status check_head(const pst_record_file *file, const char *path) {
    const pst_record_head *h = file->head;
    if (file->bytes < sizeof *h || memcmp(h->magic, PST_RECORD_MAGIC, sizeof PST_RECORD_MAGIC) ||
        h->version != PST_RECORD_VERSION || h->bytes != sizeof(pst_record))
        return pst_fail(PST_EINPUT, "%s is not a recording in the format of this version", path);
    return PST_OK;
}

static pst_status map_file(const char *path, pst_record_file *file) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        pst_status status = pst_fail(PST_EINPUT, "cannot read %s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return status;
    }
    void *at = about.st_size >= (off_t)sizeof(pst_record_head)
                   ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                   : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return pst_fail(PST_EINPUT, "%s is not a complete recording of a rank", path);
    *file = (pst_record_file){at, (size_t)about.st_size};
    return check_head(file, path);
}

static uint64_t stored_bytes(const pst_record *r) {
    return (r->stored * pst_dtype_bytes((pst_dtype)r->dtype) + 7) / 8 * 8;
}

static int ends(const char *text, size_t size) { return memchr(text, 0, size) != NULL; }

/* The ranges of a parameter's part have equal lengths, which add up to its dimension. */
static int is_valid_part(const pst_record *r) {
    const pst_slice *s = &r->slice;
    if (s->held != PST_HELD_PART) return 1;
    if (s->dim >= r->n_dim || !s->n_range || s->n_range > PST_MAX_RANGE) return 0;
    for (uint32_t d = 0; d < r->n_dim; d++)
        if (!r->dim[d]) return 0;
    return s->range[0].count && r->dim[s->dim] / s->n_range == s->range[0].count &&
           r->dim[s->dim] % s->n_range == 0;
}

static int is_valid(const pst_record *r) {
    return r->dtype < PST_DTYPE_COUNT && r->kind <= PST_RECORD_REPEATED &&
           r->phase <= PST_RECORD_END && r->n_dim <= PST_MAX_DIM && r->stride && is_valid_part(r) &&
           ends(r->node, sizeof r->node) && ends(r->tensor, sizeof r->tensor);
}

/* The complete records of a file, up to the first damaged one; returns their number. */
static size_t take_records(const pst_record_file *f, pst_recorded *out) {
    const uint8_t *at = (const uint8_t *)f->head + sizeof *f->head,
                  *end = (const uint8_t *)f->head + f->bytes;
    size_t n = 0;
    while ((size_t)(end - at) >= sizeof(pst_record)) {
        const pst_record *r = (const pst_record *)(const void *)at;
        const uint8_t *stored = at + sizeof *r;
        if (!is_valid(r) || (uint64_t)(end - stored) < stored_bytes(r)) break;
        if (out) out[n] = (pst_recorded){f->head, r, stored};
        n++;
        at = stored + stored_bytes(r);
    }
    return n;
}

/* --- keys ------------------------------------------------------------------------------------- */

pst_key pst_key_of(const pst_recorded *item) {
    static const pst_key_kind kinds[] = {
        [PST_RECORD_READ] = PST_KEY_READ,        [PST_RECORD_DATA] = PST_KEY_DATA,
        [PST_RECORD_PARAM] = PST_KEY_PARAM,      [PST_RECORD_WRITTEN] = PST_KEY_VALUE,
        [PST_RECORD_AGAIN] = PST_KEY_VALUE,      [PST_RECORD_SUM] = PST_KEY_SUM,
        [PST_RECORD_SCALAR] = PST_KEY_SCALAR,    [PST_RECORD_STATE] = PST_KEY_STATE,
        [PST_RECORD_REPEATED] = PST_KEY_REPEATED};
    const pst_record *r = item->record;
    int of_step = r->kind == PST_RECORD_PARAM; /* an operator of any micro-batch may read it first
                                                */
    return (pst_key){.kind = kinds[r->kind],
                     .step = r->step + (r->phase == PST_RECORD_END),
                     .micro = of_step ? PST_NONE : r->micro,
                     .tensor = item->file->tensor,
                     .from = r->from,
                     .name = r->tensor};
}

int pst_key_compare(const pst_key *a, const pst_key *b) {
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->micro != b->micro) return a->micro < b->micro ? -1 : 1;
    if (a->tensor != b->tensor) return a->tensor < b->tensor ? -1 : 1;
    int names = strcmp(a->name, b->name);
    if (names) return names;
    if (a->from == b->from) return 0;
    return a->from < b->from ? -1 : 1;
}

static int by_key(const void *a, const void *b) {
    const pst_recorded *x = a, *y = b;
    pst_key of_x = pst_key_of(x), of_y = pst_key_of(y);
    int order = pst_key_compare(&of_x, &of_y);
    if (order) return order;
    if (x->record->rank != y->record->rank) return x->record->rank < y->record->rank ? -1 : 1;
    return x < y ? -1 : x > y;
}

const pst_recorded *pst_recording_find(const pst_recording *r, const pst_key *key) {
    size_t first = 0, end = r->n;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        pst_key at = pst_key_of(r->item + middle);
        if (pst_key_compare(&at, key) < 0) first = middle + 1;
        else end = middle;
    }
    if (first == r->n) return NULL;
    pst_key at = pst_key_of(r->item + first);
    return pst_key_compare(&at, key) ? NULL : r->item + first;
}

int pst_recorded_before(const pst_record *x, const pst_record *y) {
    if (x->step != y->step) return x->step < y->step;
    if (x->phase != y->phase) return x->phase < y->phase;
    if (x->micro != y->micro) return x->micro < y->micro;
    if (x->position != y->position) return x->position < y->position;
    return x->part < y->part;
}

/* --- operators whose outputs are added -------------------------------------------------------- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int is_sum(const pst_recorded *item) {
    const pst_record *r = item->record;
    size_t n = strlen(r->node);
    return r->exchange && r->kind == PST_RECORD_WRITTEN && r->phase == PST_RECORD_FORWARD &&
           n > 4 && !strcmp(r->node + n - 4, ".sum");
}

static pst_status find_sums(pst_recording *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) n += (size_t)is_sum(r->item + i);
    r->summed = calloc(n + 1, sizeof *r->summed);
    if (!r->summed) return pst_fail(PST_ENOMEM, "no memory for a recording");
    for (size_t i = 0; i < r->n; i++)
        if (is_sum(r->item + i)) r->summed[r->n_summed++] = r->item[i].record->node;
    qsort(r->summed, r->n_summed, sizeof *r->summed, by_text);
    return PST_OK;
}

int pst_recording_sums(const pst_recording *r, const char *node) {
    char name[PST_NAME_MAX + 8];
    const char *key = name;
    snprintf(name, sizeof name, "%s.sum", node);
    return r->n_summed && bsearch(&key, r->summed, r->n_summed, sizeof *r->summed, by_text) != NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static pst_status map_all(pst_recording *r, const char *folder) {
    for (uint32_t k = 0; k < r->n_rank; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%.4000s/rank-%u.record", folder, k);
        PST_TRY(map_file(path, r->file + k));
    }
    return PST_OK;
}

static pst_status allocate(const char *name, uint32_t n_rank, pst_recording **recording) {
    pst_recording *r = calloc(1, sizeof *r);
    if (r) r->file = calloc(n_rank, sizeof *r->file);
    if (!r || !r->file) {
        free(r);
        return pst_fail(PST_ENOMEM, "no memory for a recording");
    }
    r->name = name;
    r->n_rank = n_rank;
    *recording = r;
    return PST_OK;
}

/* Sorts the records of all files. */
static pst_status sort_items(pst_recording *r) {
    size_t n = 0;
    r->n = 0;
    for (uint32_t k = 0; k < r->n_rank; k++) r->n += take_records(r->file + k, NULL);
    r->item = calloc(r->n + 1, sizeof *r->item);
    if (!r->item) return pst_fail(PST_ENOMEM, "no memory for a recording of %zu tensors", r->n);
    for (uint32_t k = 0; k < r->n_rank; k++) n += take_records(r->file + k, r->item + n);
    qsort(r->item, r->n, sizeof *r->item, by_key);
    return find_sums(r);
}

pst_status pst_recording_open(const char *folder, const char *name, uint32_t n_rank,
                              pst_recording **recording) {
    pst_recording *r;
    PST_TRY(allocate(name, n_rank, &r));
    pst_status status = map_all(r, folder);
    if (status == PST_OK) status = sort_items(r);
    if (status == PST_OK) *recording = r;
    else pst_recording_close(r);
    return status;
}

pst_status pst_recording_parse(const char *bytes, size_t n, const char *name,
                               pst_recording **recording) {
    pst_recording *r;
    const pst_record_file file = {(const void *)bytes, n};
    PST_TRY(check_head(&file, name));
    PST_TRY(allocate(name, 1, &r));
    r->file[0] = file;
    pst_status status = sort_items(r);
    if (status == PST_OK) *recording = r;
    else {
        r->file[0].head = NULL;
        pst_recording_close(r);
    }
    return status;
}

void pst_recording_close(pst_recording *r) {
    if (!r) return;
    for (uint32_t k = 0; k < r->n_rank; k++)
        if (r->file[k].head && !r->owned)
            munmap((void *)(uintptr_t)r->file[k].head, r->file[k].bytes);
    free(r->file);
    free(r->item);
    free(r->summed);
    free(r->owned);
    free(r);
}

/* --- elements --------------------------------------------------------------------------------- */

double pst_recorded_value(const pst_recorded *item, uint64_t k) {
    const uint8_t *at = item->stored + k * pst_dtype_bytes((pst_dtype)item->record->dtype);
    pst_dtype dtype = (pst_dtype)item->record->dtype;
    if (dtype == PST_F64) return *(const double *)(const void *)at;
    if (dtype == PST_I32) return *(const int32_t *)(const void *)at;
    if (pst_dtype_is_half(dtype))
        return pst_f32_from_half(dtype, *(const uint16_t *)(const void *)at);
    return *(const float *)(const void *)at;
}

/* The first multiple of the stride from `from` on. */
static uint64_t first_stored(const pst_record *r) {
    return (r->from + r->stride - 1) / r->stride * r->stride;
}

uint64_t pst_recorded_index(const pst_recorded *item, uint64_t k) {
    return first_stored(item->record) + k * item->record->stride;
}

uint64_t pst_recorded_at(const pst_recorded *item, uint64_t index) {
    const pst_record *r = item->record;
    if (!r->stride || index % r->stride || index < first_stored(r)) return UINT64_MAX;
    uint64_t k = (index - first_stored(r)) / r->stride;
    return k < r->stored ? k : UINT64_MAX;
}
