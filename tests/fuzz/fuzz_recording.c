/* Recordings of a rank, and the reference files of `penstock verify` that contain them. */
#include "verify/compare.h"
#include "verify/inside.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_recording *r = NULL;
    char *bytes = malloc(size + 1); /* aligned, as a mapped file is */
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    if (pst_recording_parse(bytes, size, "fuzz", &r) == PST_OK) {
        const pst_compare_options bits = {.end_step = UINT64_MAX, .weights_after = 1},
                                  near = {.tolerance = 1e-4,
                                          .gradients = 1e-4,
                                          .end_step = 2,
                                          .joined = 1};
        pst_comparison c = {.first = {.found = 0}};
        pst_inside_check(r, &c);
        pst_compare(r, r, &bits, &c);
        pst_compare(r, r, &near, &c);
        char text[PST_DIFFERENCE_TEXT];
        if (c.first.found) pst_difference_print(&c.first, text);
        r->file[0].head = NULL; /* not mapped */
        pst_recording_close(r);
    }
    free(bytes);
    pst_error_clear();
    return 0;
}
