/* The timeline: a job and its spans (simulated or measured) as Chrome trace JSON (open in Perfetto) and as SVG. */
#ifndef PST_PIPELINE_TIMELINE_H
#define PST_PIPELINE_TIMELINE_H
#include "pipeline/simulate.h"

/* One launch of an operator, on the axis of the instructions' spans. */
typedef struct { uint64_t start, end; uint32_t node, micro; uint8_t pass, is_sum, again; } pst_op_span;
/* Those of every rank, in the order in which they ran. */
typedef struct {
    const pst_graph *graph;
    const uint32_t *n;          /* [n_rank] */
    pst_op_span *const *span;   /* [n_rank] */
} pst_op_spans;

/* operators: NULL, or a lane of its own on every rank of what was measured. title: of what was measured (or simulated).
 * predicted: NULL, or spans of the same lists, as a second process. One event per line. */
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span, const char *title, pst_span *const *predicted,
                              const pst_op_spans *operators, FILE *out);
/* A self-contained SVG, one row per rank, F/B/W coloured, micro-batch numbers in the boxes, a time axis and, with
 * `title`, a heading. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title, FILE *out);
#endif
