/* Private to timeline*.c: the picture under construction. Lengths are px of its own coordinates; a
 * browser scales it to the available width. */
#ifndef PST_PIPELINE_DRAW_TIMELINE_PARTS_H
#define PST_PIPELINE_DRAW_TIMELINE_PARTS_H
#include "pipeline/draw/timeline.h"

typedef struct {
    const pst_job *job;
    pst_span *const *span;
    const pst_timing *timing;
    const char *title; /* NULL or "": no heading */
    FILE *out;
    double scale; /* px per ns */
    uint64_t end; /* ns at the right edge */
    /* >= 1: enlarges text and rows, to be readable when a wide picture is scaled down */
    double text_scale;
    double left, plot, right; /* widths: rank names, time axis, busy fractions */
    double top, row, box;     /* y of the first row, distance of rows, height of a box */
    double width, height;
    uint64_t boxes, lines;
    int has_chunks; /* 1: a rank has several chunks; odd ones are drawn lighter */
} pst_timeline_picture;

/* The colour of an opcode; NULL: not drawn. */
const char *pst_timeline_fill(uint8_t op);
/* The number of rows: the ranks; of a job that is a single pipeline of a larger one, only that
 * pipeline's ranks. */
static inline uint32_t pst_timeline_rows(const pst_job *job) {
    return job->alone ? job->grid.pipeline : job->n_rank;
}
static inline double pst_timeline_y(const pst_timeline_picture *p, uint32_t row) {
    return p->top + row * p->row;
}
void pst_timeline_print_time(FILE *out, uint64_t ns);

/* timeline_frame.c: all that surrounds the passes (style, background, heading, legend, rows, axis).
 * `measure` computes the sizes from p->job and p->end; `frame` draws. */
void pst_timeline_measure(pst_timeline_picture *p);
void pst_timeline_frame(const pst_timeline_picture *p);
#endif
