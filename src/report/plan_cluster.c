/* Part of a plan's report: the nodes of the cluster with their devices, each in the colour of the
 * stage that it computes. */
#include "report/html.h"
#include "report/plan.h"

enum { COLOURS = 8, MOST_NODES = 128, MOST_DEVICES = 1024 };

static void draw_device(const pst_plan_device *d, pst_grid grid, FILE *out) {
    char place[PST_GRID_TEXT];
    if (!d->used) {
        fputs("<i title=\"not used\">–</i>", out);
        return;
    }
    pst_grid_place_text(grid, d->rank, place);
    fprintf(out, "<i class=\"s%u\" title=\"rank %u", d->place.stage % COLOURS, d->rank);
    if (*place) fprintf(out, ": %s", place);
    fprintf(out, "\">%u</i>", d->place.stage);
}

/* Devices [first, end) of one node. */
static void draw_node(const pst_plan_page *page, uint32_t first, uint32_t end, FILE *out) {
    const pst_plan_device *d = &page->device[first];
    fprintf(out, "<div class=\"node\"><span>node %u, ", d->node);
    pst_html_text(out, d->kind);
    fputs("</span><div>", out);
    for (uint32_t i = first; i < end; i++) draw_device(&page->device[i], page->grid, out);
    fputs("</div></div>\n", out);
}

static uint32_t end_of_node(const pst_plan_page *page, uint32_t first) {
    uint32_t end = first + 1;
    while (end < page->n_device && page->device[end].node == page->device[first].node) end++;
    return end;
}

void pst_plan_draw_cluster(const pst_plan_page *page, FILE *out) {
    uint32_t nodes = 0, first = 0;
    if (!page->n_device) return;
    fputs(
        "<section id=\"cluster\"><h2>The layout on the cluster</h2>\n<p class=\"sub\">Each device "
        "with the number and colour of the stage that it computes; ranks and replicas when "
        "pointed at.</p>\n<div class=\"nodes\">\n",
        out);
    while (first < page->n_device && first < MOST_DEVICES && nodes < MOST_NODES) {
        const uint32_t end = end_of_node(page, first);
        draw_node(page, first, end, out);
        first = end;
        nodes++;
    }
    fputs("</div>\n", out);
    if (first < page->n_device)
        fprintf(out, "<p class=\"note\">The first %u nodes are shown.</p>\n", nodes);
    fputs("</section>\n", out);
}
