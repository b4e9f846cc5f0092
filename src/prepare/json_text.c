/* See json_text.h. */
#include "prepare/json_text.h"
#include <stdlib.h>

char *pst_json_text(const json_t *json, size_t flags) {
    size_t bytes = json_dumpb(json, NULL, 0, flags);
    char *text = bytes ? malloc(bytes + 1) : NULL;
    if (text && json_dumpb(json, text, bytes, flags) == bytes) {
        text[bytes] = 0;
        return text;
    }
    free(text);
    return NULL;
}
