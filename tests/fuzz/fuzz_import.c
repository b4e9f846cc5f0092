/* Flags and configurations of other programs (planning/import.h): whatever the bytes are, they are
 * read as items with names, or refused with the name of the file. */
#include "planning/import.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const files[] = {"f", "f.toml", "f.json"};
    for (int i = 0; i < 3; i++) {
        pst_recipe_file f = {0};
        char *text = malloc(size + 1);
        expect(text != NULL);
        memcpy(text, data, size);
        text[size] = 0;
        if (pst_recipe_parse(text, size, files[i], &f) == PST_OK) {
            expect(f.program < PST_RECIPE_COUNT);
            for (size_t k = 0; k < f.n; k++) expect(f.item[k].name != NULL);
            pst_recipe_close(&f);
        } else expect(!f.n && !strncmp(pst_error(), files[i], strlen(files[i])));
        free(text);
    }
    return 0;
}
