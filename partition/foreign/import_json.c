/* See import_json.h. */
#include "partition/foreign/import_json.h"
#include <math.h>

#define BAD(at, key, ...) wrong(at, key, __VA_ARGS__)
static pst_status PST_PRINTF(3, 4)
    wrong(const pst_import_at *at, const char *key, const char *fmt, ...) {
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return pst_fail(PST_EINPUT, "%s: %s%s: %s", at->where, at->path, key, text);
}

pst_status pst_import_number(const pst_import_at *at, const char *key, double least, double most,
                             int optional, double *to) {
    const json_t *value = json_object_get(at->json, key);
    if (!value && optional) return PST_OK;
    if (!value) return BAD(at, key, "is missing");
    double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= least && x <= most))
        return BAD(at, key, "expected a number from %g to %g", least, most);
    *to = x;
    return PST_OK;
}

pst_status pst_import_integer(const pst_import_at *at, const char *key, int64_t least, int64_t most,
                              int optional, int64_t *to) {
    const json_t *value = json_object_get(at->json, key);
    if (!value && optional) return PST_OK;
    if (!value) return BAD(at, key, "is missing");
    int64_t x = json_integer_value(value);
    if (!json_is_integer(value) || x < least || x > most)
        return BAD(at, key, "expected a whole number from %lld to %lld", (long long)least,
                   (long long)most);
    *to = x;
    return PST_OK;
}

pst_status pst_import_flag(const pst_import_at *at, const char *key, int *to) {
    const json_t *value = json_object_get(at->json, key);
    if (!value) return BAD(at, key, "is missing");
    json_int_t x = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
    if ((!json_is_integer(value) && !json_is_boolean(value)) || x < 0 || x > 1)
        return BAD(at, key, "expected true, false, 1 or 0");
    *to = (int)x;
    return PST_OK;
}

pst_status pst_import_array(const pst_import_at *at, const char *key, size_t least, size_t most,
                            const json_t **to) {
    const json_t *value = json_object_get(at->json, key);
    if (!json_is_array(value)) return BAD(at, key, value ? "expected a list" : "is missing");
    size_t n = json_array_size(value);
    if (n < least || n > most)
        return BAD(at, key, "has %zu elements; expected %zu to %zu", n, least, most);
    *to = value;
    return PST_OK;
}

pst_status pst_import_element(const pst_import_at *at, const char *key, const json_t *array,
                              size_t i, pst_import_at *to) {
    pst_import_at made = {.where = at->where, .json = json_array_get(array, i)};
    snprintf(made.path, sizeof made.path, "%.60s%.20s[%zu].", at->path, key, i);
    *to = made;
    if (json_is_object(made.json)) return PST_OK;
    return pst_fail(PST_EINPUT, "%s: %s%s[%zu]: expected an object", at->where, at->path, key, i);
}

pst_status pst_import_end(const pst_import_at *at, const char *key, const pst_import_id *ids,
                          uint32_t n, uint32_t *node) {
    int64_t id = 0;
    PST_TRY(pst_import_integer(at, key, INT32_MIN, INT32_MAX, 0, &id));
    uint32_t found = pst_import_find(ids, n, id);
    if (found == PST_IMPORT_NODES) return BAD(at, key, "no node has the id %lld", (long long)id);
    *node = found;
    return PST_OK;
}
