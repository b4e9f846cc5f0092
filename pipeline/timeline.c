/* The timeline as a self-contained SVG. From back to front: row backgrounds (what stays visible is the bubble), grid,
 * transfers, passes with their micro-batch numbers; around it the heading, legend, axis and how busy each rank was. */
#include "pipeline/timeline.h"
#include "pipeline/walk.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All lengths in px. MAX_BOXES: beyond it boxes of one kind and row become one path without tooltips. LEAST: width
 * below which the few boxes of the flush would not be seen. */
enum { LEFT = 72, PLOT = 1080, RIGHT = 64, MAX_BOXES = 4000, MAX_LINES = 1500, LEAST = 2 };

typedef struct {
    const char *name, *fill, *text;
} look;
static const look looks[PST_OP_COUNT] = {
    [PST_OP_F] = {"F  forward", "#4c7fd9", "#ffffff"},         [PST_OP_B] = {"B  input gradient", "#3fa66b", "#ffffff"},
    [PST_OP_W] = {"W  weight gradient", "#f0b13c", "#4a3200"}, [PST_OP_BW] = {"BW  backward", "#2b9c9f", "#ffffff"},
    [PST_OP_REDUCE] = {"flush", "#98a1ab", "#ffffff"},         [PST_OP_NORM] = {"flush", "#98a1ab", "#ffffff"},
    [PST_OP_GATHER] = {"flush", "#98a1ab", "#ffffff"},         [PST_OP_STEP] = {"flush", "#98a1ab", "#ffffff"},
    [PST_OP_VALIDATE] = {"flush", "#98a1ab", "#ffffff"},
};

typedef struct {
    const pst_job *job;
    pst_span *const *span;
    const pst_timing *timing;
    FILE *out;
    double scale;         /* px per ns */
    uint64_t end;         /* ns at the right edge */
    double top, row, box; /* first row, row pitch, box height */
    uint64_t boxes, lines;
    int has_chunks; /* a rank has more than one: odd chunks are drawn lighter */
} picture;

static double x_of(const picture *p, uint64_t ns) { return LEFT + (double)ns * p->scale; }
/* Of a pipeline on its own only its ranks are drawn. */
static uint32_t rows_of(const pst_job *job) { return job->alone ? job->grid.pipeline : job->n_rank; }

static uint32_t rank_of(const pst_job *job, uint32_t row) {
    return job->alone ? pst_grid_in_lane(job->grid, row, job->lane) : row;
}

static double y_at(const picture *p, uint32_t row) { return p->top + row * p->row; }

static double y_of(const picture *p, uint32_t rank) {
    return y_at(p, p->job->alone ? pst_job_stage(p->job, rank) : rank);
}

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

/* The unit in which a span is easiest to read. */
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

static void print_time(FILE *out, uint64_t ns) {
    const char *name;
    double unit = unit_of(ns, &name);
    fprintf(out, "%.4g %s", (double)ns / unit, name);
}

/* --- frame ------------------------------------------------------------------------------------------------------- */

static void print_style(FILE *out) {
    fputs("<style>\ntext{font-family:Inter,'Segoe UI','Helvetica Neue',Helvetica,Arial,sans-serif;fill:#2d333b}\n"
          ".h{font-size:17px;font-weight:600}.s{font-size:12px;fill:#6b7480}.l{font-size:12px}\n"
          ".a{font-size:11px;fill:#6b7480;text-anchor:middle}.r{font-size:12px;text-anchor:end}\n"
          ".m{text-anchor:middle;font-variant-numeric:tabular-nums}\n.e{font-size:12px;fill:#6b7480}\n",
          out);
    for (uint32_t op = 0; op < PST_OP_COUNT; op++) {
        if (!looks[op].fill) continue;
        fprintf(out, ".o%u{fill:%s}.t%u{fill:%s}", op, looks[op].fill, op, looks[op].text);
    }
    fputs("\n.x{stroke:#7d8794;stroke-width:.8;stroke-opacity:.75;fill:none}.alt{fill-opacity:.68}\n</style>\n", out);
}

static double print_heading(const picture *p, const char *title) {
    double y = 24;
    if (title && *title) {
        fprintf(p->out, "<text class=\"h\" x=\"16\" y=\"%g\">", y + 4);
        print_escaped(title, p->out);
        fputs("</text>\n", p->out);
        y += 24;
    }
    uint32_t n_micro = 0;
    char grid[PST_GRID_TEXT];
    for (uint32_t k = 0; k < p->job->grid.data; k++) n_micro += p->job->micros[k];
    pst_grid_text(p->job->grid, grid);
    fprintf(p->out, "<text class=\"s\" x=\"16\" y=\"%g\">%u rank%s%s%s%s, %u micro-batch%s, step ", y, p->job->n_rank,
            p->job->n_rank == 1 ? "" : "s", *grid ? " (" : "", grid, *grid ? ")" : "", n_micro,
            n_micro == 1 ? "" : "es");
    print_time(p->out, p->timing->step_ns);
    fprintf(p->out, ", bubble %.1f%%", 100 * p->timing->bubble);
    if (p->timing->head_ns && p->job->zero) {
        fputs(", weights ", p->out);
        print_time(p->out, p->timing->head_ns);
    }
    if (p->timing->flush_ns) {
        fputs(", flush ", p->out);
        print_time(p->out, p->timing->flush_ns);
    }
    fputs("</text>\n", p->out);
    return *grid ? y + 20 : y; /* the legend stands beside it, or below what is longer */
}

static void print_legend(const picture *p, double y) {
    uint32_t seen = 0;
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) seen |= 1u << p->job->list[r].instr[i].opcode;
    }
    static const uint8_t shown[] = {PST_OP_STEP, PST_OP_W, PST_OP_BW, PST_OP_B, PST_OP_F};
    double x = LEFT + PLOT;
    for (uint32_t k = 0; k < sizeof shown; k++) { /* from the right edge leftwards */
        uint8_t op = shown[k];
        if (!(seen >> op & 1)) continue;
        x -= 6.6 * (double)strlen(looks[op].name) + 4;
        fprintf(p->out, "<text class=\"l\" x=\"%.1f\" y=\"%g\" xml:space=\"preserve\">%s</text>", x, y, looks[op].name);
        x -= 18;
        fprintf(p->out, "<rect class=\"o%u\" x=\"%.1f\" y=\"%g\" width=\"12\" height=\"12\" rx=\"2.5\"/>\n", op, x,
                y - 10);
        x -= 16;
    }
}

static void print_rows(const picture *p) {
    char place[PST_GRID_TEXT];
    fprintf(p->out, "<text class=\"e\" x=\"%d\" y=\"%.1f\">busy</text>\n", LEFT + PLOT + 12, p->top - 6);
    for (uint32_t row = 0; row < rows_of(p->job); row++) {
        uint32_t r = rank_of(p->job, row);
        double y = y_at(p, row), middle = y + p->box / 2 + 4;
        fprintf(p->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"3\" fill=\"#eef0f3\"/>\n", LEFT, y,
                PLOT, p->box);
        fprintf(p->out, "<text class=\"r\" x=\"%d\" y=\"%.1f\">rank %u<title>%s</title></text>", LEFT - 10, middle, r,
                pst_grid_place_text(p->job->grid, r, place));
        fprintf(p->out, "<text class=\"e\" x=\"%d\" y=\"%.1f\">%.0f%%</text>\n", LEFT + PLOT + 12, middle,
                p->end ? 100 * (double)p->timing->busy_ns[r] / (double)p->end : 0);
    }
}

/* The largest of 1, 2, 5 x 10^k that gives at least six ticks. */
static void print_axis(const picture *p) {
    const char *name;
    double unit = unit_of(p->end, &name), step = pow(10, floor(log10((double)p->end / 6)));
    if (step * 5 * 6 <= (double)p->end) step *= 5;
    else if (step * 2 * 6 <= (double)p->end) step *= 2;
    double y0 = p->top - 2, y1 = y_at(p, rows_of(p->job)) - (p->row - p->box) + 5;
    for (uint32_t k = 0; (double)k * step <= (double)p->end; k++) {
        double x = LEFT + (double)k * step * p->scale;
        fprintf(p->out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#d3d8de\"/>", x, x, y0, y1);
        fprintf(p->out, "<text class=\"a\" x=\"%.1f\" y=\"%.1f\">%.6g%s%s</text>\n", x, y1 + 15,
                (double)k * step / unit, k ? "" : " ", k ? "" : name);
    }
}

/* --- contents ---------------------------------------------------------------------------------------------------- */

static void print_tooltip(const picture *p, uint32_t rank, uint32_t i) {
    const pst_instr *in = &p->job->list[rank].instr[i];
    const pst_span *s = &p->span[rank][i];
    fprintf(p->out, "<title>rank %u: %s", rank, pst_opcode_name((pst_opcode)in->opcode));
    if (in->opcode <= PST_OP_BW) fprintf(p->out, " chunk %u, micro-batch %u", in->chunk, in->micro);
    fputs(", from ", p->out);
    print_time(p->out, s->start);
    fputs(", takes ", p->out);
    print_time(p->out, s->end - s->start);
    fputs("</title>", p->out);
}

static void print_box(const picture *p, uint32_t rank, uint32_t i) {
    const pst_instr *in = &p->job->list[rank].instr[i];
    const pst_span *s = &p->span[rank][i];
    double x = x_of(p, s->start), width = (double)(s->end - s->start) * p->scale, gap = width > 4 ? 1 : width / 8;
    if (width <= 0) return;
    if (in->opcode > PST_OP_BW && width < LEAST) { /* it ends where it ends; neighbours share what there is */
        x -= LEAST - width, width = LEAST, gap = 0;
        if (x < LEFT) x = LEFT;
    }
    fprintf(p->out, "<rect class=\"o%u%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"%s>", in->opcode,
            p->has_chunks && in->chunk & 1 ? " alt" : "", x + gap / 2, y_of(p, rank), width - gap, p->box,
            width > 8 ? " rx=\"2.5\"" : "");
    print_tooltip(p, rank, i);
    fputs("</rect>", p->out);
    char number[16];
    int digits = snprintf(number, sizeof number, "%u", in->micro);
    int size = width >= 6.4 * digits + 3 ? 11 : 9;
    if (in->opcode <= PST_OP_BW && width >= 5.3 * digits + 2) {
        fprintf(p->out, "<text class=\"m t%u\" x=\"%.2f\" y=\"%.1f\" font-size=\"%d\">%s</text>", in->opcode,
                x + width / 2, y_of(p, rank) + p->box / 2 + (size == 11 ? 4 : 3.2), size, number);
    }
    fputc('\n', p->out);
}

/* Many boxes: one path per kind and row, neighbours joined. */
static void print_path(const picture *p, uint32_t rank, uint8_t op) {
    const pst_instr_list *list = &p->job->list[rank];
    double y = y_of(p, rank), from = 0, to = -1;
    fprintf(p->out, "<path class=\"o%u\" d=\"", op);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        if (list->instr[i].opcode != op || p->span[rank][i].end == p->span[rank][i].start) continue;
        double a = x_of(p, p->span[rank][i].start), b = x_of(p, p->span[rank][i].end);
        if (to >= from && a <= to + .02) {
            to = b;
            continue;
        }
        if (to > from) fprintf(p->out, "M%.2f %.1fH%.2fv%.1fH%.2fz", from, y, to, p->box, from);
        from = a, to = b;
    }
    if (to > from) fprintf(p->out, "M%.2f %.1fH%.2fv%.1fH%.2fz", from, y, to, p->box, from);
    fputs("\"/>\n", p->out);
}

/* A line from the sender's row to the receiver's, from start to end of each transfer. */
static pst_status print_transfers(const picture *p) {
    pst_walk *walk;
    PST_TRY(pst_walk_open(p->job, &walk)); /* for the partners only */
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        const pst_instr_list *list = &p->job->list[r];
        for (uint32_t i = 0; i < list->n_instr; i++) {
            if (list->instr[i].opcode != PST_OP_SEND || walk->partner[r][i] == PST_NONE) continue;
            uint32_t peer = list->instr[i].peer;
            double down = peer > r ? p->box : 0;
            fprintf(p->out, "<path class=\"x\" d=\"M%.2f %.1fL%.2f %.1f\"/>\n", x_of(p, p->span[r][i].start),
                    y_of(p, r) + down, x_of(p, p->span[peer][walk->partner[r][i]].end), y_of(p, peer) + p->box - down);
        }
    }
    pst_walk_close(walk);
    return PST_OK;
}

static pst_status print_contents(const picture *p) {
    pst_status status = p->lines <= MAX_LINES ? print_transfers(p) : PST_OK;
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        for (uint32_t i = 0; p->boxes <= MAX_BOXES && i < p->job->list[r].n_instr; i++) {
            if (p->job->list[r].instr[i].queue == PST_Q_COMPUTE) print_box(p, r, i);
        }
        for (uint8_t op = 0; p->boxes > MAX_BOXES && op < PST_OP_COUNT; op++) {
            if (looks[op].fill) print_path(p, r, op);
        }
    }
    return status;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

static void measure(picture *p) {
    p->end = p->timing->step_ns ? p->timing->step_ns : 1;
    p->scale = PLOT / (double)p->end;
    p->row = rows_of(p->job) <= 24 ? 36 : 22;
    p->box = rows_of(p->job) <= 24 ? 24 : 17;
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        uint32_t first = PST_NONE;
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            const pst_instr *in = &p->job->list[r].instr[i];
            if (in->queue == PST_Q_COMPUTE) p->boxes++;
            else p->lines += in->opcode == PST_OP_SEND;
            if (in->opcode != PST_OP_F) continue;
            if (first == PST_NONE) first = in->chunk;
            p->has_chunks |= in->chunk != first;
        }
    }
}

pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title, FILE *out) {
    pst_timing *timing;
    PST_TRY(pst_timing_from_spans(job, span, &timing));
    picture p = {.job = job, .span = span, .timing = timing, .out = out};
    measure(&p);
    p.top = title && *title ? 82 : 58;
    double height = y_at(&p, rows_of(job)) + 28, width = LEFT + PLOT + RIGHT;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\">\n",
        width, height, width, height);
    print_style(out);
    fprintf(out, "<rect width=\"%g\" height=\"%g\" fill=\"#ffffff\"/>\n", width, height);
    print_legend(&p, print_heading(&p, title));
    print_rows(&p);
    print_axis(&p);
    pst_status status = print_contents(&p);
    fputs("</svg>\n", out);
    pst_timing_close(timing);
    if (status != PST_OK) return status;
    return ferror(out) ? pst_fail(PST_ENOMEM, "the timeline cannot be written") : PST_OK;
}
