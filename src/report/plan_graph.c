/* Part of a plan's report: the operators in order, one line per chunk in its stage's colour.
 * Widths are predicted times, so lines of different length show imbalance of stages. Operators
 * of a layer stand together; if there are many, only layers are drawn, or groups of layers. */
#include "report/html.h"
#include "base/plural.h"
#include "report/plan.h"
#include <math.h>
#include <string.h>

/* DENSE: with more chunks than this, lines are closer and the bytes between them are in the
 * line. */
enum { COLOURS = 8, MOST_OPS = 1500, MOST_LAYERS = 600, DENSE = 24 };

/* Operators [first, end) of one chunk; they contain `layers` layers. */
typedef struct {
    uint32_t first, end, layers;
} block;

/* Length of the part of a name that names its layer: up to the last part that is a number ("h.3"
 * of "h.3.mlp.c_fc"); else the whole name. */
static size_t layer_part(const char *name) {
    size_t best = 0;
    for (const char *at = strchr(name, '.'); at; at = strchr(at + 1, '.')) {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits && (at[1 + digits] == '.' || !at[1 + digits]))
            best = (size_t)(at - name) + 1 + digits;
    }
    return best ? best : strlen(name);
}

static int same_layer(const pst_plan_op *a, const pst_plan_op *b) {
    size_t n = layer_part(a->name);
    return n == layer_part(b->name) && !strncmp(a->name, b->name, n);
}

/* The block that begins at operator `first`, of at most this many layers. */
static block block_at(const pst_plan_page *page, const pst_plan_chunk *chunk, uint32_t first,
                      uint32_t most) {
    block x = {first, first + 1, 1};
    for (; x.end < chunk->end; x.end++) {
        int same = same_layer(&page->op[x.end - 1], &page->op[x.end]);
        if (!same && x.layers == most) break;
        x.layers += !same;
    }
    return x;
}

static uint32_t count_layers(const pst_plan_page *page) {
    uint32_t n = page->n_op > 0;
    for (uint32_t i = 1; i < page->n_op; i++) n += !same_layer(&page->op[i - 1], &page->op[i]);
    return n;
}

/* --- one block -------------------------------------------------------------------------------- */

static void print_layer(const pst_plan_op *op, FILE *out) {
    char name[PST_NAME_MAX];
    snprintf(name, sizeof name, "%.*s", (int)layer_part(op->name), op->name);
    pst_html_text(out, name);
}

static void print_costs(uint64_t ns, uint64_t flops, uint64_t bytes, uint64_t out_bytes,
                        uint64_t parameters, FILE *out) {
    char text[PST_HTML_NUMBER];
    fprintf(out, "%s per micro-batch", pst_html_ms((double)ns * 1e-6, text));
    fprintf(out, "\nforward: %s FLOP", pst_html_count((double)flops, text));
    fprintf(out, ", %s moved", pst_html_bytes((double)bytes, text));
    if (out_bytes) fprintf(out, "\noutput %s", pst_html_bytes((double)out_bytes, text));
    if (parameters) fprintf(out, "\n%s parameters", pst_html_count((double)parameters, text));
}

static void draw_op(const pst_plan_op *op, FILE *out) {
    char text[PST_HTML_NUMBER];
    const char *look = "";
    if (op->ns == 0) look = " hidden";
    else if (!strncmp(op->kind, "tensor_", 7) || !strncmp(op->kind, "vocabulary_", 11))
        look = " class=\"kexchange\"";
    fprintf(out, "<i%s style=\"flex-grow:%.4g\" title=\"", look, (double)op->ns * 1e-3);
    pst_html_text(out, op->name);
    fputs(" (", out);
    pst_html_text(out, op->kind);
    fputs(")\n", out);
    print_costs(op->ns, op->flops, op->bytes, op->out_bytes, op->parameters, out);
    if (op->again_ns)
        fprintf(out, "\nincluding %s of recomputation",
                pst_html_ms((double)op->again_ns * 1e-6, text));
    fputs("\"></i>", out);
}

static void draw_block(const pst_plan_page *page, block x, int ops, FILE *out) {
    pst_plan_op sum = {0};
    for (uint32_t i = x.first; i < x.end; i++) {
        const pst_plan_op *op = &page->op[i];
        sum.ns += op->ns;
        sum.flops += op->flops;
        sum.bytes += op->bytes;
        sum.parameters += op->parameters;
    }
    fprintf(out, "<span class=\"layer\" style=\"flex-grow:%.4g\" title=\"",
            fmax((double)sum.ns * 1e-3, 1e-3));
    print_layer(&page->op[x.first], out);
    if (x.layers > 1) {
        fputs(" to ", out);
        print_layer(&page->op[x.end - 1], out);
    }
    fprintf(out, ": %u operator%s\n", x.end - x.first, pst_plural(x.end - x.first));
    print_costs(sum.ns, sum.flops, sum.bytes, 0, sum.parameters, out);
    fputs("\">", out);
    for (uint32_t i = x.first; ops && i < x.end; i++) draw_op(&page->op[i], out);
    fputs("<b>", out);
    print_layer(&page->op[x.first], out);
    if (x.layers > 1) {
        fputs("–", out);
        print_layer(&page->op[x.end - 1], out);
    }
    fputs("</b></span>", out);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void draw_chunk(const pst_plan_page *page, uint32_t c, uint64_t longest, uint32_t together,
                       int ops, FILE *out) {
    const pst_plan_chunk *chunk = &page->chunk[c];
    char text[PST_HTML_NUMBER];
    fprintf(out, "<div class=\"who\"><i class=\"dot s%u\"></i>stage %u</div>",
            chunk->stage % COLOURS, chunk->stage);
    fprintf(out, "<div class=\"cell\"><div class=\"chunk s%u\" style=\"width:%.3f%%\">",
            chunk->stage % COLOURS, longest ? 100 * (double)chunk->ns / (double)longest : 100);
    for (uint32_t i = chunk->first; i < chunk->end;) {
        block x = block_at(page, chunk, i, together);
        draw_block(page, x, ops, out);
        i = x.end;
    }
    fprintf(out, "</div></div><div class=\"value\">%s",
            pst_html_ms((double)chunk->ns * 1e-6, text));
    if (chunk->parameters)
        fprintf(out, ", %s parameters", pst_html_count((double)chunk->parameters, text));
    if (strcmp(chunk->recompute, "none")) {
        fputs(", recomputes ", out);
        pst_html_text(out, chunk->recompute);
    }
    int crosses = c + 1 < page->n_chunk, dense = page->n_chunk > DENSE;
    if (crosses && dense) fprintf(out, ", ↓ %s", pst_html_bytes((double)chunk->crossing, text));
    fputs("</div>\n", out);
    if (crosses && !dense)
        fprintf(out, "<div class=\"crossing\">↓ %s</div>\n",
                pst_html_bytes((double)chunk->crossing, text));
}

/* If there are many chunks, draws only the first and the last ones. */
static void draw_chunks(const pst_plan_page *page, uint32_t together, int ops, FILE *out) {
    uint64_t longest = 0;
    uint32_t head = page->n_chunk <= PST_PLAN_ROWS ? page->n_chunk : PST_PLAN_ROWS / 2,
             tail = page->n_chunk - head;
    if (page->n_chunk > PST_PLAN_ROWS) tail = page->n_chunk - PST_PLAN_ROWS / 2;
    for (uint32_t c = 0; c < page->n_chunk; c++)
        if (page->chunk[c].ns > longest) longest = page->chunk[c].ns;
    for (uint32_t c = 0; c < page->n_chunk; c++) {
        if (c == head && c < tail)
            fprintf(out, "<div class=\"crossing\">%u more chunks</div>\n", tail - head);
        if (c < head || c >= tail) draw_chunk(page, c, longest, together, ops, out);
    }
}

void pst_plan_draw_graph(const pst_plan_page *page, FILE *out) {
    uint32_t layers = count_layers(page), together = layers / MOST_LAYERS + 1;
    int ops = page->n_op <= MOST_OPS;
    if (!page->n_op) return;
    fputs("<section id=\"graph\"><h2>Where the model is cut</h2>\n<p class=\"sub\">The operators "
          "in order, one line per chunk; the width is the time of all passes for one micro-batch. "
          "↓: bytes sent to the next line per micro-batch; gradients of the same size are sent "
          "back. Point at an operator to see its cost.",
          out);
    if (page->grid.tensor > 1) fputs(" Dark: collectives between tensor ranks.", out);
    if (!ops)
        fprintf(out, " There are %u operators; %s are drawn.", page->n_op,
                together > 1 ? "groups of layers" : "whole layers");
    fprintf(out, "</p>\n<div class=\"bars cut%s\">\n", page->n_chunk > DENSE ? " dense" : "");
    draw_chunks(page, together, ops, out);
    fputs("</div></section>\n", out);
}
