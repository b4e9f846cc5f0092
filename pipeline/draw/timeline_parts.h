/* Private to timeline*.c: the picture that is being drawn. All lengths are px of its own
 * coordinates; it is shown as wide as there is room. */
#ifndef PST_PIPELINE_DRAW_TIMELINE_PARTS_H
#define PST_PIPELINE_DRAW_TIMELINE_PARTS_H
#include "pipeline/draw/timeline.h"

typedef struct {
    const pst_job *job;
    pst_span *const *span;
    const pst_timing *timing;
    const char *title; /* NULL or "": none */
    FILE *out;
    double scale; /* px per ns */
    uint64_t end; /* ns at the right edge */
    /* 1 or more: letters and rows, so that they can be read when a wide picture is shown small */
    double big;
    double left, plot, right; /* names of ranks, time, how busy they were */
    double top, row, box;     /* first row, row pitch, box height */
    double width, height;
    uint64_t boxes, lines;
    int has_chunks; /* a rank has more than one: odd chunks are drawn lighter */
} pst_timeline_picture;

/* The colour of an opcode; NULL: it is not drawn. */
const char *pst_timeline_fill(uint8_t op);
/* The row of a rank from above. Of a pipeline on its own only its ranks are drawn. */
static inline uint32_t pst_timeline_rows(const pst_job *job) {
    return job->alone ? job->grid.pipeline : job->n_rank;
}
static inline double pst_timeline_y(const pst_timeline_picture *p, uint32_t row) {
    return p->top + row * p->row;
}
void pst_timeline_print_time(FILE *out, uint64_t ns);

/* timeline_frame.c: all around the passes: style, background, heading, legend, rows, axis. It
 * decides how large all of it is, from p->job and p->end, and then draws it. */
void pst_timeline_measure(pst_timeline_picture *p);
void pst_timeline_frame(const pst_timeline_picture *p);
#endif
