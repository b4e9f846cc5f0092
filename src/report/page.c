/* A run's report: one self-contained HTML file made from the run's folder. */
#include "base/file.h"
#include "penstock/run.h"
#include "report/page.h"
#include "report/html.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* report.css and report.js as arrays, made by the build. */
extern const unsigned char pst_report_css[], pst_report_js[];
extern const unsigned int pst_report_css_bytes, pst_report_js_bytes;

void pst_report_open_page(const char *title, FILE *out) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; "
          "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" "
          "href=\"data:,\">\n<title>",
          out);
    pst_html_text(out, title);
    fputs(" - penstock</title>\n<style>\n", out);
    fwrite(pst_report_css, 1, pst_report_css_bytes, out);
    fputs("</style>\n</head>\n<body>\n<main>\n", out);
}

void pst_report_close_page(FILE *out) {
    fputs("<footer><p class=\"note\">Written by penstock " PST_VERSION
          ". Formulas: docs/metrics.md.</p></footer>\n</main>\n<script>\n",
          out);
    fwrite(pst_report_js, 1, pst_report_js_bytes, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

pst_status pst_report_print(const pst_report_data *d, FILE *out) {
    pst_report_open_page(d->name, out);
    pst_report_draw_head(d, out);
    PST_TRY(pst_report_draw_tiles(d, out));
    PST_TRY(pst_report_draw_curves(d, out));
    pst_report_draw_timeline(d, out);
    pst_report_draw_times(d, out);
    pst_report_draw_work(d, out);
    pst_report_draw_memory(d, out);
    pst_report_draw_members(d, out);
    pst_report_draw_events(d, out);
    pst_report_draw_files(d, out);
    pst_report_close_page(out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno)) : PST_OK;
}

static pst_status print_run(const void *data, FILE *out) { return pst_report_print(data, out); }

pst_status pst_report_write(const char *run, const char *file) {
    pst_report_data data;
    char path[1300];
    if (snprintf(path, sizeof path, "%s/report.html", run) >= (int)sizeof path)
        return pst_fail(PST_EINPUT, "the path '%.60s...' is too long", run);
    PST_TRY(pst_report_read(run, &data));
    pst_status status = file && *file ? pst_file_replace(file, print_run, &data)
                                      : pst_file_replace_own(path, print_run, &data);
    pst_report_release(&data);
    return status;
}
