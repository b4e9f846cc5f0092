/* The timeline: writes a job and the spans of its instructions (simulated or measured) as Chrome
 * trace JSON (for Perfetto) or as SVG. */
#ifndef PST_PIPELINE_DRAW_TIMELINE_H
#define PST_PIPELINE_DRAW_TIMELINE_H
#include "pipeline/simulate/simulate.h"

/* One execution of an operator. start, end: ns on the time axis of the instructions' spans; node:
 * index of the operator. */
typedef struct {
    uint64_t start, end;
    uint32_t node, micro;
    uint8_t pass, extra, again;
} pst_op_span;
/* The operator spans of all ranks, in execution order. */
typedef struct {
    const pst_graph *graph;
    const uint32_t *n;        /* [n_rank] */
    pst_op_span *const *span; /* [n_rank] */
} pst_op_spans;

/* Additional contents of a trace; all but the title may be NULL. */
typedef struct {
    const char *title;       /* title of the measured (or simulated) spans */
    const char *const *host; /* [n_rank] name of each rank's host */
    /* [n_rank] predicted spans of the same lists, shown as a second process per rank */
    pst_span *const *predicted;
    /* measured operator spans, shown on a separate track of each rank */
    const pst_op_spans *operators;
} pst_trace_notes;
/* Process ids in the trace: the rank for measured spans, the rank + PST_TRACE_PREDICTED for
 * predicted spans. */
enum { PST_TRACE_PREDICTED = 100000 };
/* Writes a trace with one process per rank and one event per line. Every message is an arrow (flow
 * event) from the pass that computes the value to the pass that waits for it. ENOMEM also if `out`
 * cannot be written. */
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span,
                              const pst_trace_notes *notes, FILE *out);
/* Writes a self-contained SVG: one row per rank, passes in colours with micro-batch numbers, a time
 * axis and, unless `title` is NULL or "", a heading. ENOMEM also if `out` cannot be written. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title,
                            FILE *out);
#endif
