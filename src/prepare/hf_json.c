/* Values of config.json that all models in Hugging Face's format have. */
#include "prepare/hf_parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

pst_status pst_hf_size_of(const json_t *root, const char *file, const char *key, uint32_t *out) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > INT32_MAX)
        return pst_fail(PST_EINPUT, "%s: %s is missing or not an integer from 1 to 2^31 - 1", file,
                        key);
    *out = (uint32_t)json_integer_value(value);
    return PST_OK;
}

pst_status pst_hf_must_be(const json_t *root, const char *file, const char *key, int wanted) {
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value) || (json_is_boolean(value) && json_is_true(value) == wanted))
        return PST_OK;
    return pst_fail(PST_EINPUT, "%s: %s must be %s; other values are not supported", file, key,
                    wanted ? "true" : "false");
}

pst_status pst_hf_rate_of(const json_t *root, const char *file, const char *key, float *out) {
    const json_t *value = json_object_get(root, key);
    *out = value ? (float)json_number_value(value) : 0.1f;
    if ((!value || json_is_number(value)) && *out >= 0 && *out < 1) return PST_OK;
    return pst_fail(PST_EINPUT, "%s: %s must be a number, at least 0 and below 1", file, key);
}

pst_status pst_hf_number_of(const json_t *root, const char *file, const char *key, double fallback,
                            float *out) {
    const json_t *value = json_object_get(root, key);
    *out = (float)fallback;
    if (!value || json_is_null(value)) return PST_OK;
    *out = (float)json_number_value(value);
    if (json_is_number(value) && isfinite(*out) && *out >= 0) return PST_OK;
    return pst_fail(PST_EINPUT, "%s: %s must be a number >= 0", file, key);
}

pst_status pst_hf_optional_size(const json_t *root, const char *file, const char *key,
                                uint32_t fallback, uint32_t *out) {
    const json_t *value = json_object_get(root, key);
    *out = fallback;
    return value && !json_is_null(value) ? pst_hf_size_of(root, file, key, out) : PST_OK;
}

double pst_hf_shortest(float value) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return strtod(text, NULL);
}
