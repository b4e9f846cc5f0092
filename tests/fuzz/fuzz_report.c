/* Any text as metrics.jsonl and trace.json (what follows a line "---"): a page, with no number that
 * is none and no markup from the files. */
#include "report/page.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

/* No NaN and no infinity between `open` and `close`, wherever they stand; text from files has no
 * quotes. */
static void expect_numbers(const char *text, const char *open, const char *close) {
    for (const char *at = strstr(text, open); at; at = strstr(at, open)) {
        at += strlen(open);
        const char *end = strstr(at, close);
        expect(end != NULL);
        for (; at < end; at++) expect(strncmp(at, "nan", 3) != 0 && strncmp(at, "inf", 3) != 0);
    }
}

static FILE *open_part(const uint8_t *data, size_t size) {
    return size ? fmemopen((void *)(size_t)data, size, "r") : fopen("/dev/null", "r");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_report_data d = {.name = "fuzz"};
    const uint8_t *cut = size > 4 ? memmem(data, size, "---\n", 4) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size;
    FILE *metrics = open_part(data, first),
         *trace = cut ? open_part(cut + 4, size - first - 4) : NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (metrics) {
        expect(pst_report_read_metrics(metrics, &d.metrics) == PST_OK);
        fclose(metrics);
    }
    if (trace) {
        expect(pst_report_read_trace(trace, &d.trace) == PST_OK);
        fclose(trace);
    }
    for (size_t i = 1; i < d.metrics.n; i++) expect(d.metrics.step[i] > d.metrics.step[i - 1]);
    FILE *page = open_memstream(&text, &bytes);
    if (page) {
        expect(pst_report_print(&d, page) == PST_OK);
        fclose(page);
        expect_numbers(text, " d=\"", "\"");
        expect_numbers(text, " style=\"", "\"");
        expect_numbers(text, "<script type=\"application/json\">{", "\"series\"");
        expect(!strstr(text, "<evil"));
        free(text);
    }
    pst_report_release(&d);
    return 0;
}
