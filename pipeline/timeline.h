/* The timeline: a job and its spans (simulated or measured) as Chrome trace JSON (open in Perfetto) and as SVG. */
#ifndef PST_PIPELINE_TIMELINE_H
#define PST_PIPELINE_TIMELINE_H
#include "pipeline/simulate.h"
/* title: of what was measured (or simulated). predicted: NULL, or spans of the same lists, as a second process. One event
 * per line. */
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span, const char *title, pst_span *const *predicted,
                              FILE *out);
/* A self-contained SVG, one row per rank, F/B/W coloured, micro-batch numbers in the boxes, a time axis and, with
 * `title`, a heading. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title, FILE *out);
#endif
