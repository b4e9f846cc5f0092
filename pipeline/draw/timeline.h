/* The timeline: a job and its spans (simulated or measured) as Chrome trace JSON (open in Perfetto)
 * and as SVG. */
#ifndef PST_PIPELINE_DRAW_TIMELINE_H
#define PST_PIPELINE_DRAW_TIMELINE_H
#include "pipeline/simulate/simulate.h"

/* One launch of an operator, on the axis of the instructions' spans. */
typedef struct {
    uint64_t start, end;
    uint32_t node, micro;
    uint8_t pass, is_sum, again;
} pst_op_span;
/* Those of every rank, in the order in which they ran. */
typedef struct {
    const pst_graph *graph;
    const uint32_t *n;        /* [n_rank] */
    pst_op_span *const *span; /* [n_rank] */
} pst_op_spans;

/* What a trace says beside the spans; all but the title may be NULL. */
typedef struct {
    const char *title;             /* of what was measured (or simulated) */
    const char *const *host;       /* [n_rank] names */
    pst_span *const *predicted;    /* of the same lists: a second process for each rank */
    const pst_op_spans *operators; /* of what was measured: a track of its own on every rank */
} pst_trace_notes;
/* Process ids: a rank, and this plus a rank for what was predicted. */
enum { PST_TRACE_PREDICTED = 100000 };
/* Every rank is a process; each message is an arrow (flow) from the pass that made its value to the
 * one that waits for it. One event per line. */
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span,
                              const pst_trace_notes *notes, FILE *out);
/* A self-contained SVG, one row per rank, F/B/W coloured, micro-batch numbers in the boxes, a time
 * axis and, with `title`, a heading. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title,
                            FILE *out);
#endif
