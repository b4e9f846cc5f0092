/* Any bytes as a profile: an error that names the file, or durations that are positive and print to
 * what is read back. */
#include "partition/cost/profile.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_profile *p = NULL, *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    uint32_t n, m;
    if (pst_profile_parse((const char *)data, size, "fuzz", &p) != PST_OK) {
        expect(p == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
        return 0;
    }
    const pst_profile_row *row = pst_profile_rows(p, &n);
    for (uint32_t i = 0; i < n; i++)
        expect((row[i].ns[0] > 0 || row[i].ns[1] > 0) && row[i].ns[0] >= 0 && row[i].ns[1] >= 0);
    FILE *f = open_memstream(&text, &bytes);
    expect(f && pst_profile_print(p, f) == PST_OK && !fclose(f));
    expect(pst_profile_parse(text, bytes, "printed", &again) == PST_OK);
    pst_profile_rows(again, &m);
    expect(n == m && pst_profile_merge(again, p) == PST_OK);
    free(text);
    pst_profile_close(p);
    pst_profile_close(again);
    return 0;
}
