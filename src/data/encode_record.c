/* See encode_record.h. */
#include "data/encode_record.h"
#include "base/file.h"
#include "base/hash.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 18, RECORD_MOST = 4096 };

typedef struct {
    int64_t bytes, ns; /* size, and time of the last change */
    uint64_t hash;     /* of the contents */
} state;

/* Size and time; 0: there is no such file. */
static int look(const pst_encode_record *r, const char *ending, char path[PATH_MAX], state *s) {
    struct stat st;
    snprintf(path, PATH_MAX, "%s%s", r->prefix, ending);
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return 0;
    *s = (state){st.st_size, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec, 0};
    return 1;
}

static int hash_contents(const char *path, uint64_t *hash) {
    FILE *f = fopen(path, "rbe");
    char *block = malloc(BLOCK);
    pst_hasher *h = pst_hasher_open();
    int good = f && block && h;
    for (size_t n = 1; good && n;) {
        n = fread(block, 1, BLOCK, f);
        pst_hasher_add(h, block, n);
        good = !ferror(f);
    }
    if (good) *hash = pst_hasher_value(h);
    if (h) pst_hasher_close(h);
    if (f) fclose(f);
    free(block);
    return good;
}

static const char *const endings[2] = {".bin", ".idx"};

static pst_status print_record(const void *what, FILE *out) {
    const pst_encode_record *r = what;
    char path[PATH_MAX];
    state s[2];
    for (int i = 0; i < 2; i++)
        if (!look(r, endings[i], path, &s[i]) || !hash_contents(path, &s[i].hash))
            return pst_fail(PST_EINPUT, "cannot read %s: %s", path, strerror(errno));
    fprintf(out, "{\"key\": \"%016" PRIx64 "\", \"skipped\": %" PRIu64, r->key, r->skipped);
    for (int i = 0; i < 2; i++)
        fprintf(out,
                ", \"%s\": {\"bytes\": %" PRId64 ", \"ns\": %" PRId64 ", \"hash\": \"%016" PRIx64
                "\"}",
                endings[i] + 1, s[i].bytes, s[i].ns, s[i].hash);
    fprintf(out, "}\n");
    return PST_OK;
}

pst_status pst_encode_record_complete(void *what, uint64_t skipped) {
    pst_encode_record *r = what;
    r->skipped = skipped;
    return pst_file_replace_own(r->path, print_record, r);
}

static int is_number(const json_t *text, uint64_t number) {
    const char *digits = json_string_value(text);
    return digits && strtoull(digits, NULL, 16) == number;
}

/* 1: the file is the one of the record. A copy has another time, but the same contents. */
static int is_unchanged(const pst_encode_record *r, const json_t *record, const char *ending) {
    const json_t *file = json_object_get(record, ending + 1);
    char path[PATH_MAX];
    state s;
    if (!look(r, ending, path, &s) || !json_object_get(file, "hash")) return 0;
    if (json_integer_value(json_object_get(file, "bytes")) != s.bytes) return 0;
    if (json_integer_value(json_object_get(file, "ns")) == s.ns) return 1;
    return hash_contents(path, &s.hash) && is_number(json_object_get(file, "hash"), s.hash);
}

int pst_encode_record_read(pst_encode_record *r) {
    char *text;
    size_t bytes;
    if (access(r->path, F_OK)) return 0;
    if (pst_file_read(r->path, RECORD_MOST, &text, &bytes) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    json_t *record = json_loadb(text, bytes, 0, NULL);
    const json_t *key = json_object_get(record, "key"); /* older caches have it in the name only */
    int good = (!key || is_number(key, r->key)) && is_unchanged(r, record, endings[0]) &&
               is_unchanged(r, record, endings[1]);
    json_int_t lines = json_integer_value(json_object_get(record, "skipped"));
    if (good) r->skipped = lines > 0 ? (uint64_t)lines : 0;
    json_decref(record);
    free(text);
    return good;
}

int pst_encode_record_exists(void *what) {
    pst_encode_record seen = *(const pst_encode_record *)what;
    return pst_encode_record_read(&seen);
}
