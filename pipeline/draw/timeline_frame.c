/* The frame of a timeline: its size, colours for light and dark, heading, legend, rows and axis. */
#include "pipeline/draw/timeline_parts.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Colours for the light and the dark scheme. They differ for every kind of colour blindness;
 * neighbours also differ as greys; numbers on them are readable. */
typedef struct {
    const char *name;
    const char *fill, *text;
    const char *dark_fill, *dark_text;
} style;
static const style flush = {"flush", "#8b95a1", "#10151c", "#77707f", "#ffffff"};
static const style passes[PST_OP_BW + 1] = {
    [PST_OP_F] = {"F forward", "#1f4fc0", "#ffffff", "#5b82f0", "#10151c"},
    [PST_OP_B] = {"B input gradient", "#45a878", "#10151c", "#9be3bd", "#10151c"},
    [PST_OP_W] = {"W weight gradient", "#d08c0c", "#10151c", "#f0a64a", "#10151c"},
    [PST_OP_BW] = {"BW backward", "#0c4f54", "#ffffff", "#1fb2c0", "#10151c"},
};

/* NULL: not drawn. */
static const style *style_of(uint8_t op) {
    if (op <= PST_OP_BW) return &passes[op];
    if (op == PST_OP_SEND || op == PST_OP_RECV) return NULL;
    return &flush;
}

const char *pst_timeline_fill(uint8_t op) { return style_of(op) ? style_of(op)->fill : NULL; }

static void print_escaped(const char *text, FILE *out) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
        }
    }
}

/* The unit that suits a duration best. */
static double unit_of(uint64_t ns, const char **name) {
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    uint32_t u = 0;
    while (u < 3 && (double)ns < units[u].ns) u++;
    *name = units[u].name;
    return units[u].ns;
}

void pst_timeline_print_time(FILE *out, uint64_t ns) {
    const char *name;
    double unit = unit_of(ns, &name);
    fprintf(out, "%.4g %s", (double)ns / unit, name);
}

/* --- size ------------------------------------------------------------------------------------- */

enum { LEAST_PLOT = 640, MOST_PLOT = 2400 };

static uint32_t digits_of(uint32_t x) {
    uint32_t n = 1;
    for (; x >= 10; x /= 10) n++;
    return n;
}

/* Wide enough to read the number in a pass of average length. */
static double wanted_plot(const pst_timeline_picture *p) {
    double sum = 0;
    uint64_t n = 0;
    for (uint32_t r = 0; r < p->job->n_rank; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            if (p->job->list[r].instr[i].opcode > PST_OP_BW) continue;
            sum += (double)(p->span[r][i].end - p->span[r][i].start);
            n++;
        }
    if (!(sum > 0)) return LEAST_PLOT;
    double pass = 11 * digits_of(p->job->n_micro) + 8;
    return fmin(fmax(pass * (double)p->end * (double)n / sum, LEAST_PLOT), MOST_PLOT);
}

/* Vertical positions of the parts of the heading. */
static double title_y(const pst_timeline_picture *p) { return 28 * p->text_scale; }
static double sums_y(const pst_timeline_picture *p) {
    return (p->title && *p->title ? 52 : 28) * p->text_scale;
}
static double legend_y(const pst_timeline_picture *p) { return sums_y(p) + 28 * p->text_scale; }

void pst_timeline_measure(pst_timeline_picture *p) {
    uint32_t rows = pst_timeline_rows(p->job);
    p->plot = wanted_plot(p);
    p->text_scale = fmin(fmax(p->plot / 1000, 1), 2);
    p->scale = p->plot / (double)p->end;
    p->left = (26 + 9.6 * (5 + digits_of(p->job->n_rank - 1))) * p->text_scale;
    p->right = 64 * p->text_scale;
    p->row = (rows <= 24 ? 36 : 22) * p->text_scale;
    p->box = (rows <= 24 ? 24 : 17) * p->text_scale;
    p->top = legend_y(p) + 34 * p->text_scale;
    p->width = p->left + p->plot + p->right;
    p->height = pst_timeline_y(p, rows) + 30 * p->text_scale;
}

/* --- style ------------------------------------------------------------------------------------ */

static void print_fills(FILE *out, int dark) {
    for (uint8_t op = 0; op < PST_OP_COUNT; op++) {
        const style *l = style_of(op);
        if (!l) continue;
        fprintf(out, ".o%u{fill:%s}.t%u{fill:%s}", op, dark ? l->dark_fill : l->fill, op,
                dark ? l->dark_text : l->text);
    }
    fputc('\n', out);
}

/* Font size; larger where the picture is shown smaller. */
static void print_sizes(const pst_timeline_picture *p, double times) {
    double b = p->text_scale;
    fprintf(p->out, ".h{font-size:%.1fpx}.s{font-size:%.1fpx}.l{font-size:%.1fpx}", 17 * b,
            12.5 * b * fmin(times, 1.2), 12.5 * b * fmin(times, 1.3));
    fprintf(p->out, ".r,.e{font-size:%.1fpx}.a{font-size:%.1fpx}\n", 12 * b * times,
            11 * b * times);
}

static void print_style(const pst_timeline_picture *p) {
    fputs("<style>\ntext{font-family:Inter,'Segoe UI','Helvetica "
          "Neue',Helvetica,Arial,sans-serif;fill:#1d242d}\n"
          ".h{font-weight:600}.s,.a,.e{fill:#566170}.a,.m{text-anchor:middle}.r{text-anchor:end}\n"
          ".m{font-variant-numeric:tabular-nums}.alt{fill-opacity:.82}\n"
          ".timeline{background:#fff}.back{fill:#fff}.row{fill:#eef0f3}.grid{stroke:#d3d8de}\n"
          ".x{stroke:#566170;stroke-opacity:.75;fill:none}\n",
          p->out);
    print_fills(p->out, 0);
    print_sizes(p, 1);
    fprintf(p->out, "@media (max-width:%.0fpx){", .85 * p->width);
    print_sizes(p, 1.5);
    fputs(".odd{display:none}}\n@media "
          "(prefers-color-scheme:dark){text{fill:#e6eaf0}.s,.a,.e{fill:#9da8b5}\n"
          ".timeline{background:#12161b}.back{fill:#12161b}.row{fill:#232a33}.grid{stroke:#39434f}"
          ".x{stroke:#b6c0cc}\n",
          p->out);
    print_fills(p->out, 1);
    fputs("}\n</style>\n", p->out);
}

/* --- parts ------------------------------------------------------------------------------------ */

/* A title that is too long gets a smaller font. */
static void print_title(const pst_timeline_picture *p) {
    double room = (p->width - 32 * p->text_scale) / (.6 * (double)strlen(p->title) + 1);
    fprintf(p->out, "<text class=\"h\" x=\"%.1f\" y=\"%.1f\"", 16 * p->text_scale, title_y(p));
    if (room < 17 * p->text_scale) fprintf(p->out, " style=\"font-size:%.1fpx\"", room);
    fputc('>', p->out);
    print_escaped(p->title, p->out);
    fputs("</text>\n", p->out);
}

static void print_sums(const pst_timeline_picture *p) {
    uint32_t n_micro = 0;
    char grid[PST_GRID_TEXT];
    for (uint32_t k = 0; k < p->job->grid.data; k++) n_micro += p->job->micros[k];
    pst_grid_text(p->job->grid, grid);
    fprintf(p->out, "<text class=\"s\" x=\"%.1f\" y=\"%.1f\">", 16 * p->text_scale, sums_y(p));
    fprintf(p->out, "%u rank%s", p->job->n_rank, pst_plural(p->job->n_rank));
    if (*grid) fprintf(p->out, " (%s)", grid);
    fprintf(p->out, ", %u micro-batch%s, step ", n_micro, pst_plural_es(n_micro));
    pst_timeline_print_time(p->out, p->timing->step_ns);
    fprintf(p->out, ", bubble %.1f%%", 100 * p->timing->bubble);
    if (p->timing->head_ns && p->job->zero) {
        fputs(", weights ", p->out);
        pst_timeline_print_time(p->out, p->timing->head_ns);
    }
    if (p->timing->flush_ns) {
        fputs(", flush ", p->out);
        pst_timeline_print_time(p->out, p->timing->flush_ns);
    }
    fputs("</text>\n", p->out);
}

static void print_legend(const pst_timeline_picture *p) {
    static const uint8_t shown[] = {PST_OP_F, PST_OP_B, PST_OP_W, PST_OP_BW, PST_OP_STEP};
    uint32_t seen = 0;
    double x = 16 * p->text_scale;
    double side = 12 * p->text_scale;
    for (uint32_t r = 0; r < p->job->n_rank; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++)
            seen |= 1u << p->job->list[r].instr[i].opcode;
    for (uint32_t k = 0; k < sizeof shown; k++) {
        uint8_t op = shown[k];
        if (!(seen >> op & 1)) continue;
        fprintf(
            p->out,
            "<rect class=\"o%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\"/>"
            "<text class=\"l\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            op, x, legend_y(p) - 10.5 * p->text_scale, side, side, 2.5 * p->text_scale,
            x + 18 * p->text_scale, legend_y(p), style_of(op)->name);
        x += (36 + 8.4 * (double)strlen(style_of(op)->name)) * p->text_scale;
    }
}

static void print_rows(const pst_timeline_picture *p) {
    char place[PST_GRID_TEXT];
    double x = p->left + p->plot + 10 * p->text_scale;
    fprintf(p->out, "<text class=\"e\" x=\"%.1f\" y=\"%.1f\">busy</text>\n", x,
            p->top - 8 * p->text_scale);
    for (uint32_t row = 0; row < pst_timeline_rows(p->job); row++) {
        uint32_t r = p->job->alone ? pst_grid_in_lane(p->job->grid, row, p->job->lane) : row;
        double y = pst_timeline_y(p, row);
        double middle = y + p->box / 2 + 4.5 * p->text_scale;
        fprintf(p->out,
                "<rect class=\"row\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                "rx=\"3\"/>\n",
                p->left, y, p->plot, p->box);
        fprintf(p->out, "<text class=\"r\" x=\"%.1f\" y=\"%.1f\">rank %u",
                p->left - 10 * p->text_scale, middle, r);
        if (*pst_grid_place_text(p->job->grid, r, place))
            fprintf(p->out, "<title>%s</title>", place);
        fprintf(p->out, "</text>");
        fprintf(p->out, "<text class=\"e\" x=\"%.1f\" y=\"%.1f\">%.0f%%</text>\n", x, middle,
                p->end ? 100 * (double)p->timing->busy_ns[r] / (double)p->end : 0);
    }
}

/* The largest step of 1, 2 or 5 x 10^k that gives at least six ticks. Every other label is left out
 * where they would overlap. */
static void print_axis(const pst_timeline_picture *p) {
    const char *name;
    double unit = unit_of(p->end, &name);
    double step = pow(10, floor(log10((double)p->end / 6)));
    if (step * 5 * 6 <= (double)p->end) step *= 5;
    else if (step * 2 * 6 <= (double)p->end) step *= 2;
    double y0 = p->top - 2;
    double y1 =
        pst_timeline_y(p, pst_timeline_rows(p->job)) - (p->row - p->box) + 5 * p->text_scale;
    for (uint32_t k = 0; (double)k * step <= (double)p->end; k++) {
        double x = p->left + (double)k * step * p->scale;
        fprintf(p->out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                x, y0, y1);
        fprintf(p->out, "<text class=\"a%s\" x=\"%.1f\" y=\"%.1f\">%.6g%s%s</text>\n",
                k % 2 ? " odd" : "", x, y1 + 18 * p->text_scale, (double)k * step / unit,
                k ? "" : " ", k ? "" : name);
    }
}

void pst_timeline_frame(const pst_timeline_picture *p) {
    print_style(p);
    fprintf(p->out, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\"/>\n", p->width, p->height);
    if (p->title && *p->title) print_title(p);
    print_sums(p);
    print_legend(p);
    print_rows(p);
    print_axis(p);
}
