/* Rotary positions in config.json: the base, and the scaling with its numbers. */
#include "base/log.h"
#include "prepare/hf_parts.h"
#include <string.h>

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

/* The scaling of rotary positions: an object with its type and numbers. */
static pst_status parse_scaling(const json_t *from, const char *file, uint32_t context,
                                pst_rope *rope) {
    const char *type = json_string_value(json_object_get(from, "rope_type"));
    if (!type) type = json_string_value(json_object_get(from, "type"));
    if (!type || !strcmp(type, "default")) return PST_OK;
    if (pst_rope_scaling_find(type, &rope->scaling) != PST_OK || !rope->scaling)
        return BAD("%s: rope_type %.40s is not supported; expected default, linear, llama3 or yarn",
                   file, type);
    const int yarn = rope->scaling == PST_ROPE_YARN, llama3 = rope->scaling == PST_ROPE_LLAMA3;
    PST_TRY(pst_hf_number_of(from, file, "factor", 1, &rope->factor));
    if (llama3) PST_TRY(pst_hf_number_of(from, file, "low_freq_factor", 1, &rope->low));
    if (llama3) PST_TRY(pst_hf_number_of(from, file, "high_freq_factor", 4, &rope->high));
    if (yarn) PST_TRY(pst_hf_number_of(from, file, "beta_slow", 1, &rope->low));
    if (yarn) PST_TRY(pst_hf_number_of(from, file, "beta_fast", 32, &rope->high));
    if (yarn) PST_TRY(pst_hf_number_of(from, file, "attention_factor", 0, &rope->attention));
    if ((yarn || llama3) && !(rope->low < rope->high))
        return BAD("%s: %s is %g; expected less than %s, %g", file,
                   yarn ? "beta_slow" : "low_freq_factor", (double)rope->low,
                   yarn ? "beta_fast" : "high_freq_factor", (double)rope->high);
    if (json_object_get(from, "mscale") || json_object_get(from, "mscale_all_dim"))
        return BAD("%s: mscale is not supported in the scaling of rotary positions", file);
    PST_TRY(pst_hf_must_be(from, file, "truncate", 1));
    return yarn || llama3 ? pst_hf_optional_size(from, file, "original_max_position_embeddings",
                                                 context, &rope->context)
                          : PST_OK;
}

/* --- all of config.json ------------------------------------------------------------------------
 */

/* transformers 5 has one object; earlier versions a base and an object for the scaling. */
pst_status pst_hf_parse_rope(const json_t *root, const char *file, uint32_t context,
                             pst_rope *rope) {
    const json_t *all = json_object_get(root, "rope_parameters");
    const json_t *scaling = json_object_get(root, "rope_scaling");
    const json_t *partial = json_object_get(all, "partial_rotary_factor");
    if (json_is_object(all)) scaling = all;
    else all = root;
    if (partial && !(json_number_value(partial) == 1))
        return BAD("%s: partial_rotary_factor must be 1", file);
    if (scaling && !json_is_null(scaling) && !json_is_object(scaling))
        return BAD("%s: rope_scaling must be an object or null", file);
    if (json_is_object(scaling) && scaling != all && !json_object_get(scaling, "rope_type") &&
        !json_object_get(scaling, "type"))
        return BAD("%s: rope_scaling has no rope_type; expected default, linear, llama3 or yarn",
                   file);
    PST_TRY(pst_hf_number_of(all, file, "rope_theta", 1e4, &rope->theta));
    if (!(rope->theta > 1)) return BAD("%s: rope_theta must be above 1", file);
    return json_is_object(scaling) ? parse_scaling(scaling, file, context, rope) : PST_OK;
}

/* --- keys without effect ---------------------------------------------------------------------- */

/* Keys that the types use, all or some. */
static const struct {
    const char *key, *types;
} known[] = {{"rope_type", "default linear llama3 yarn"},
             {"type", "default linear llama3 yarn"},
             {"rope_theta", "default linear llama3 yarn"},
             {"partial_rotary_factor", "default linear llama3 yarn"},
             {"factor", "linear llama3 yarn"},
             {"original_max_position_embeddings", "llama3 yarn"},
             {"low_freq_factor", "llama3"},
             {"high_freq_factor", "llama3"},
             {"beta_slow", "yarn"},
             {"beta_fast", "yarn"},
             {"attention_factor", "yarn"},
             {"truncate", "yarn"}};

static int has_effect(const char *key, const char *type) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(key, known[i].key)) return strstr(known[i].types, type) != NULL;
    return 0;
}

void pst_hf_warn_of_rope_in(const json_t *root, const char *file) {
    const json_t *rope = json_object_get(root, "rope_parameters");
    if (!rope) rope = json_object_get(root, "rope_scaling");
    const char *type = json_string_value(json_object_get(rope, "rope_type")), *key;
    json_t *value;
    if (!type) type = json_string_value(json_object_get(rope, "type"));
    if (!type) type = "default";
    json_object_foreach((json_t *)(uintptr_t)rope, key, value) {
        if (!json_is_null(value) && !has_effect(key, type))
            pst_log(PST_LOG_WARN, "%s: %.60s has no effect with rope_type %.40s", file, key, type);
    }
}
