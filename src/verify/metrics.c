/* See metrics.h. */
#include "verify/metrics.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

static uint32_t take(const json_t *list, uint64_t *to) {
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < PST_VERIFY_RANKS; i++)
        to[i] = (uint64_t)json_integer_value(json_array_get(list, i));
    return n < PST_VERIFY_RANKS ? (uint32_t)n : PST_VERIFY_RANKS;
}

pst_status pst_verify_read_memory(const char *path, pst_verify_memory *memory) {
    FILE *f = fopen(path, "r");
    json_t *line;
    memory->n = 0;
    if (!f) return pst_fail(PST_EINPUT, "cannot read %s: %s", path, strerror(errno));
    while ((line = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL))) {
        const json_t *peak = json_object_get(line, "peak_bytes"),
                     *predicted = json_object_get(line, "predicted_peak_bytes");
        if (peak && predicted) {
            memory->n = take(peak, memory->peak);
            take(predicted, memory->predicted);
        }
        json_decref(line);
    }
    fclose(f);
    return memory->n ? PST_OK : pst_fail(PST_EINPUT, "%s contains no steps", path);
}
