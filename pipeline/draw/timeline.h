/* The timeline: a job and its spans (simulated or measured) as Chrome trace JSON (for Perfetto) and
 * as SVG. */
#ifndef PST_PIPELINE_DRAW_TIMELINE_H
#define PST_PIPELINE_DRAW_TIMELINE_H
#include "pipeline/simulate/simulate.h"

/* One execution of an operator, on the same time axis as the instructions' spans. */
typedef struct {
    uint64_t start, end;
    uint32_t node, micro;
    uint8_t pass, is_sum, again;
} pst_op_span;
/* The operator spans of every rank, in execution order. */
typedef struct {
    const pst_graph *graph;
    const uint32_t *n;        /* [n_rank] */
    pst_op_span *const *span; /* [n_rank] */
} pst_op_spans;

/* What a trace contains beside the spans; all but the title may be NULL. */
typedef struct {
    const char *title;          /* title of the measured (or simulated) spans */
    const char *const *host;    /* [n_rank] names */
    pst_span *const *predicted; /* predictions for the same lists, as a second process per rank */
    const pst_op_spans *operators; /* measured; a separate track on every rank */
} pst_trace_notes;
/* Process id of a measured rank: the rank; of a predicted one: the rank + this. */
enum { PST_TRACE_PREDICTED = 100000 };
/* Every rank is a process; every message an arrow (flow event) from the pass that computed it to
 * the pass that waits for it. One event per line. */
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span,
                              const pst_trace_notes *notes, FILE *out);
/* A self-contained SVG: one row per rank, F/B/W in colours, micro-batch numbers in the boxes, a
 * time axis and, with `title`, a heading. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title,
                            FILE *out);
#endif
