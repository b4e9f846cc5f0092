/* The tokens that end a text, from generation_config.json or config.json. Declared in hf_config.h.
 */
#include "base/file.h"
#include "prepare/hf_config.h"
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_FILE = 16 << 20 };

static pst_status add(const json_t *id, const char *file, pst_hf_ends *out) {
    if (!json_is_integer(id))
        return pst_fail(PST_EINPUT, "%s: eos_token_id must be an integer, a list of them or null",
                        file);
    const json_int_t value = json_integer_value(id);
    if (value < 0 || value > INT32_MAX) return PST_OK; /* some models have -1: none */
    if (out->n == PST_HF_ENDS)
        return pst_fail(PST_EINPUT, "%s: eos_token_id has more than %d tokens", file, PST_HF_ENDS);
    out->id[out->n++] = (int32_t)value;
    return PST_OK;
}

static pst_status parse(const json_t *root, const char *file, pst_hf_ends *out) {
    const json_t *ids = json_object_get(root, "eos_token_id");
    if (!ids || json_is_null(ids)) return PST_OK;
    if (!json_is_array(ids)) return add(ids, file, out);
    for (size_t i = 0; i < json_array_size(ids); i++)
        PST_TRY(add(json_array_get(ids, i), file, out));
    return PST_OK;
}

pst_status pst_hf_parse_ends(const char *text, size_t bytes, const char *file, pst_hf_ends *ends) {
    json_error_t error;
    pst_hf_ends out = {0};
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return pst_fail(PST_ENOMEM, "%s: out of memory", file);
    if (!root)
        return pst_fail(PST_EINPUT, "%s:%d:%d: not JSON: %s", file, error.line, error.column,
                        error.text);
    pst_status status = parse(root, file, &out);
    json_decref(root);
    if (status == PST_OK) *ends = out;
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *path, void *what) {
    return pst_hf_parse_ends(text, bytes, path, what);
}

pst_status pst_hf_read_ends(const char *source, pst_hf_ends *ends) {
    static const char *const names[] = {"generation_config.json", "config.json"};
    *ends = (pst_hf_ends){0};
    for (int i = 0; i < 2 && !ends->n; i++) {
        char *path = pst_hf_path(source, names[i]);
        pst_status status = path ? PST_OK : PST_ENOMEM;
        if (path && access(path, F_OK) == 0)
            status = pst_file_parse(path, MAX_FILE, parse_into, ends);
        free(path);
        PST_TRY(status);
    }
    return PST_OK;
}
