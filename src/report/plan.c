/* A plan's report: one self-contained HTML file. This file has its head and the most important
 * numbers; the sections are in plan_*.c. */
#include "report/plan.h"
#include "base/file.h"
#include "report/html.h"
#include "report/page.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- head ------------------------------------------------------------------------------------- */

static void draw_fact(const char *name, const char *value, FILE *out) {
    if (!*value) return;
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    pst_html_text(out, value);
    fputs("</dd></div>\n", out);
}

static void draw_state(const pst_plan_page *page, FILE *out) {
    int known = 0, over = 0;
    for (uint32_t r = 0; r < page->n_rank; r++) {
        known |= page->rank[r].capacity > 0;
        over |= page->rank[r].capacity && page->rank[r].total > page->rank[r].capacity;
    }
    if (known)
        fprintf(out, "<span class=\"state %s</span>", over ? "bad\">does not fit" : "good\">fits");
}

static void draw_head(const pst_plan_page *page, FILE *out) {
    fputs("<header><h1>", out);
    pst_html_text(out, page->title);
    fputs("</h1>", out);
    draw_state(page, out);
    fputs("<p class=\"sub\">A plan: all numbers are predictions.</p></header>\n", out);
    fputs("<section id=\"plan\"><dl>\n", out);
    draw_fact("Layout", page->layout, out);
    draw_fact("Model", page->model, out);
    draw_fact("Cluster", page->cluster, out);
    draw_fact("Costs", page->costs, out);
    draw_fact("Search", page->search, out);
    draw_fact("Would fit with", page->change ? page->change : "", out);
    fputs("</dl></section>\n", out);
}

/* --- tiles ------------------------------------------------------------------------------------ */

static void draw_tile(const char *name, const char *value, const char *more, FILE *out) {
    fprintf(out,
            "<div class=\"tile\"><div class=\"name\">%s</div><div class=\"big\">%s</div><div "
            "class=\"more\">%s</div></div>\n",
            name, value, more);
}

/* The share of its memory that a rank needs; if the memory is unknown, of 2^64 bytes. */
static double need(const pst_plan_rank *r) {
    return (double)r->total / (r->capacity ? (double)r->capacity : 0x1p64);
}

static void draw_memory(const pst_plan_page *page, FILE *out) {
    const pst_plan_rank *most = NULL;
    char value[PST_HTML_NUMBER], capacity[PST_HTML_NUMBER], share[PST_HTML_NUMBER],
        more[4 * PST_HTML_NUMBER];
    for (uint32_t r = 0; r < page->n_rank; r++)
        if (!most || need(&page->rank[r]) > need(most)) most = &page->rank[r];
    if (!most) return;
    int n = snprintf(more, sizeof more, "rank %u", most->rank);
    if (most->capacity)
        snprintf(more + n, sizeof more - (size_t)n, ", %s of the limit of %s",
                 pst_html_share(need(most), share),
                 pst_html_bytes((double)most->capacity, capacity));
    draw_tile("Peak memory", pst_html_bytes((double)most->total, value), more, out);
}

static void draw_tiles(const pst_plan_page *page, FILE *out) {
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER], more[3 * PST_HTML_NUMBER];
    fputs("<section id=\"numbers\"><div class=\"tiles\">\n", out);
    snprintf(more, sizeof more, "including %s of flush after the last pass",
             pst_html_ms((double)page->flush_ns * 1e-6, text));
    draw_tile("Predicted step", pst_html_ms((double)page->step_ns * 1e-6, value), more, out);
    if (page->tokens_per_s > 0) {
        snprintf(more, sizeof more, "tokens/s of all %u ranks", page->all_ranks);
        draw_tile("Throughput", pst_html_whole(page->tokens_per_s, value), more, out);
    }
    if (page->flops_per_s > 0) {
        snprintf(value, sizeof value, "%.3g",
                 page->flops_per_s * (page->flops_per_s < 1e12 ? 1e-9 : 1e-12));
        draw_tile("Rate per rank", value,
                  page->flops_per_s < 1e12 ? "GFLOP/s, mean over the step"
                                           : "TFLOP/s, mean over the step",
                  out);
    }
    draw_tile("Bubble", pst_html_share(page->bubble, value),
              "of the rank with the longest time from its first to its last pass", out);
    draw_memory(page, out);
    int fits = 0;
    for (uint32_t i = 0; i < page->n_row; i++) fits |= page->row[i].fits;
    if (page->bound_ns && (fits || !page->n_row)) { /* otherwise the gap has no meaning */
        snprintf(more, sizeof more, "the plan is within %s of the lower bound",
                 pst_html_share(page->gap, text));
        draw_tile("Lower bound", pst_html_ms((double)page->bound_ns * 1e-6, value), more, out);
    }
    fputs("</div></section>\n", out);
}

/* --- timeline --------------------------------------------------------------------------------- */

static void draw_shown(const pst_plan_page *page, FILE *out) {
    if (page->shown)
        fprintf(out, "<p class=\"note\">%u of %u ranks are shown: %s.</p>\n", page->n_rank,
                page->all_ranks, page->shown);
}

static void draw_timeline(const pst_plan_page *page, FILE *out) {
    uint32_t rank[PST_PLAN_ROWS];
    if (!page->trace.n || !(page->trace.end[1] > 0)) return;
    for (uint32_t r = 0; r < page->n_rank && r < PST_PLAN_ROWS; r++) rank[r] = page->rank[r].rank;
    fputs("<section id=\"timeline\"><h2>Timeline of one step</h2>\n<p class=\"sub\">Simulated from "
          "the instruction lists of a run with this plan. On the right: share of the step in which "
          "the rank computes F, B and W. <span class=\"script\">Zoom with the wheel or the "
          "buttons, drag to move.</span></p>\n",
          out);
    draw_shown(page, out);
    pst_report_open_timeline(&page->trace, out);
    pst_report_draw_panel(&page->trace, page->grid, 1, rank, out);
    pst_report_close_timeline(&page->trace, out);
    fputs("</section>\n", out);
}

/* --- the page as a whole ---------------------------------------------------------------------- */

pst_status pst_plan_page_print(const pst_plan_page *page, FILE *out) {
    pst_report_open_page(page->title, out);
    draw_head(page, out);
    draw_tiles(page, out);
    pst_plan_draw_counts(page, out);
    pst_plan_draw_rows(page, out);
    pst_plan_draw_cluster(page, out);
    pst_plan_draw_graph(page, out);
    draw_timeline(page, out);
    pst_plan_draw_times(page, out);
    pst_plan_draw_memory(page, out);
    pst_report_close_page(out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno)) : PST_OK;
}

static pst_status print_page(const void *page, FILE *out) { return pst_plan_page_print(page, out); }

pst_status pst_plan_page_write(const pst_plan_page *page, const char *path) {
    return pst_file_replace(path, print_page, page);
}

void pst_plan_page_release(pst_plan_page *page) {
    for (uint32_t r = 0; page->rank && r < page->n_rank; r++) free(page->rank[r].held);
    free(page->op);
    free(page->chunk);
    free(page->rank);
    free(page->row);
    free(page->count);
    free(page->device);
    pst_report_release_trace(&page->trace);
    *page = (pst_plan_page){0};
}
