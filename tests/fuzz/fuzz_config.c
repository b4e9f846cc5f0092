/* Any bytes as a run file: refused with one line of text, or taken, and then printed and read back
 * the same. The first line, when it starts with "#=", is given as an override as well. */
#include "config/config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char *printed(const pst_config *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out || pst_config_print(config, out) != PST_OK) abort();
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1), *line = NULL;
    if (!text) return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (strncmp(text, "#=", 2) == 0) line = strndup(text + 2, strcspn(text + 2, "\n"));
    const char *override = line;
    pst_config *first = NULL, *second = NULL;
    pst_status status = pst_config_parse(text, "fuzz.yaml", &override, line != NULL, &first);
    if (status == PST_OK) {
        char *once = printed(first), *twice;
        if (pst_config_parse(once, "copy.yaml", NULL, 0, &second) != PST_OK) abort();
        twice = printed(second);
        if (strcmp(once, twice) != 0) abort();
        free(once);
        free(twice);
        pst_config_close(first);
        pst_config_close(second);
    } else if (first || !*pst_error() || strchr(pst_error(), '\n')) {
        abort();
    }
    free(line);
    free(text);
    return 0;
}
