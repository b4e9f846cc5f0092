/* Any bytes as a schedule's CSV: an error that names the file, or a schedule that is written and
 * read back the same. */
#include "pipeline/schedule/csv.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(const pst_schedule *s) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out || pst_schedule_csv_write(s, out) != PST_OK || fclose(out)) abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_schedule *s, *back;
    pst_error_clear();
    if (pst_schedule_csv_parse((const char *)data, size, "fuzzed", &s) != PST_OK) {
        if (!strstr(pst_error(), "fuzzed")) abort();
        return 0;
    }
    char *first = written(s);
    if (pst_schedule_csv_parse(first, strlen(first), "written", &back) != PST_OK) abort();
    char *second = written(back);
    if (strcmp(first, second)) abort();
    free(first);
    free(second);
    pst_schedule_close(s);
    pst_schedule_close(back);
    return 0;
}
