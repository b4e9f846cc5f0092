/* The timeline as a self-contained SVG. Drawn in this order: row backgrounds (visible background is
 * bubble), grid, transfers, passes with their micro-batch numbers; then heading, legend, axis and
 * the busy fraction of each rank. */
#include "pipeline/draw/timeline_parts.h"
#include "pipeline/simulate/walk.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MAX_BOXES: with more, the boxes of one kind and row become one path without tooltips. LEAST:
 * minimum width in px, so that the few boxes of the flush are visible. */
enum { MAX_BOXES = 4000, MAX_LINES = 1500, LEAST = 2 };

typedef pst_timeline_picture picture;

static double x_of(const picture *p, uint64_t ns) { return p->left + (double)ns * p->scale; }

static double y_of(const picture *p, uint32_t rank) {
    return pst_timeline_y(p, p->job->alone ? pst_job_stage(p->job, rank) : rank);
}

/* --- contents --------------------------------------------------------------------------------- */

static void print_tooltip(const picture *p, uint32_t rank, uint32_t i) {
    const pst_instr *in = &p->job->list[rank].instr[i];
    const pst_span *s = &p->span[rank][i];
    fprintf(p->out, "<title>rank %u: %s", rank, pst_opcode_name((pst_opcode)in->opcode));
    if (in->opcode <= PST_OP_BW) fprintf(p->out, " chunk %u, micro-batch %u", in->chunk, in->micro);
    fputs(", from ", p->out);
    pst_timeline_print_time(p->out, s->start);
    fputs(", takes ", p->out);
    pst_timeline_print_time(p->out, s->end - s->start);
    fputs("</title>", p->out);
}

/* The micro-batch number, as large as fits; small numbers can be read after zooming in. */
static void print_number(const picture *p, const pst_instr *in, double x, double y, double width) {
    char number[16];
    int digits = snprintf(number, sizeof number, "%u", in->micro);
    double size = fmin((width - 2) / (.6 * digits), fmin(.5 * p->box, 12 * p->text_scale));
    if (size < 5) return;
    fprintf(p->out, "<text class=\"m t%u\" x=\"%.2f\" y=\"%.1f\" font-size=\"%.1f\">%s</text>",
            in->opcode, x + width / 2, y + p->box / 2 + .36 * size, size, number);
}

static void print_box(const picture *p, uint32_t rank, uint32_t i) {
    const pst_instr *in = &p->job->list[rank].instr[i];
    const pst_span *s = &p->span[rank][i];
    double x = x_of(p, s->start), width = (double)(s->end - s->start) * p->scale,
           gap = width > 4 ? 1 : width / 8;
    if (width <= 0) return;
    if (in->opcode > PST_OP_BW && width < LEAST) {
        /* the end is exact; neighbours closer than LEAST share the width */
        x = fmax(x - (LEAST - width), p->left);
        width = LEAST;
        gap = 0;
    }
    fprintf(p->out, "<rect class=\"o%u%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"%s>",
            in->opcode, p->has_chunks && in->chunk & 1 ? " alt" : "", x + gap / 2, y_of(p, rank),
            width - gap, p->box, width > 8 ? " rx=\"2.5\"" : "");
    print_tooltip(p, rank, i);
    fputs("</rect>", p->out);
    if (in->opcode <= PST_OP_BW) print_number(p, in, x, y_of(p, rank), width);
    fputc('\n', p->out);
}

/* With many boxes: one path per kind and row, adjacent boxes joined. */
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
        from = a;
        to = b;
    }
    if (to > from) fprintf(p->out, "M%.2f %.1fH%.2fv%.1fH%.2fz", from, y, to, p->box, from);
    fputs("\"/>\n", p->out);
}

/* A line from the sender's row to the receiver's, from start to end of each transfer. */
static pst_status print_transfers(const picture *p) {
    pst_walk *walk;
    PST_TRY(pst_walk_open(p->job, &walk)); /* only for the matching SENDs and RECVs */
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        const pst_instr_list *list = &p->job->list[r];
        for (uint32_t i = 0; i < list->n_instr; i++) {
            if (list->instr[i].opcode != PST_OP_SEND || walk->partner[r][i] == PST_NONE) continue;
            uint32_t peer = list->instr[i].peer;
            double down = peer > r ? p->box : 0;
            fprintf(p->out,
                    "<path class=\"x\" stroke-width=\"%.1f\" d=\"M%.2f %.1fL%.2f %.1f\"/>\n",
                    .8 * p->text_scale, x_of(p, p->span[r][i].start), y_of(p, r) + down,
                    x_of(p, p->span[peer][walk->partner[r][i]].end), y_of(p, peer) + p->box - down);
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
            if (pst_timeline_fill(op)) print_path(p, r, op);
        }
    }
    return status;
}

/* --- assembly --------------------------------------------------------------------------------- */

static void measure(picture *p) {
    p->end = p->timing->step_ns ? p->timing->step_ns : 1;
    pst_timeline_measure(p);
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

/* Fills the available width, down to half the natural size; below that a browser that shows the
 * file alone scrolls. Within a page, the page decides. */
static void open_picture(const picture *p) {
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"100%%\" "
            "class=\"timeline\" role=\"img\" "
            "style=\"height:auto;min-width:%.0fpx;max-width:%.0fpx\">\n",
            p->width, p->height, .5 * p->width, 2 * p->width);
}

pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title,
                            FILE *out) {
    pst_timing *timing;
    PST_TRY(pst_timing_from_spans(job, span, &timing));
    picture p = {.job = job, .span = span, .timing = timing, .title = title, .out = out};
    measure(&p);
    open_picture(&p);
    pst_timeline_frame(&p);
    pst_status status = print_contents(&p);
    fputs("</svg>\n", out);
    pst_timing_close(timing);
    if (status != PST_OK) return status;
    return ferror(out) ? pst_fail(PST_ENOMEM, "the timeline could not be written") : PST_OK;
}
