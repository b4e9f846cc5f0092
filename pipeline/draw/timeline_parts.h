/* The picture under construction. Private to timeline*.c. Lengths are in px of the SVG's viewBox; a
 * browser scales the picture to the available width. */
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
    /* factor >= 1 on text and rows, so that a wide picture is readable when it is scaled down */
    double text_scale;
    double left, plot, right; /* widths of the columns: rank names, time axis, busy fractions */
    double top, row, box;     /* y of the first row, distance between rows, height of a box */
    double width, height;
    uint64_t boxes, lines; /* numbers drawn so far */
    int has_chunks;        /* 1: a rank has several chunks; odd ones are drawn lighter */
} pst_timeline_picture;

/* Returns the colour of an opcode; NULL: the opcode is not drawn. */
const char *pst_timeline_fill(uint8_t op);
/* Returns the number of rows: the number of ranks, or, for a job with a single lane, the number of
 * stages. */
static inline uint32_t pst_timeline_rows(const pst_job *job) {
    return job->alone ? job->grid.pipeline : job->n_rank;
}
/* Returns the y of a row. */
static inline double pst_timeline_y(const pst_timeline_picture *p, uint32_t row) {
    return p->top + row * p->row;
}
/* Writes a duration with a unit, such as "1.5 ms". */
void pst_timeline_print_time(FILE *out, uint64_t ns);

/* timeline_frame.c: everything around the passes (style, background, heading, legend, rows, axis).
 * pst_timeline_measure computes the sizes from p->job and p->end; pst_timeline_frame draws. */
void pst_timeline_measure(pst_timeline_picture *p);
void pst_timeline_frame(const pst_timeline_picture *p);
#endif
