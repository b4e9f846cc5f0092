/* The timeline: a job and its spans (simulated or measured) as Chrome trace JSON (open in Perfetto) and as SVG. */
#ifndef PST_PIPELINE_TIMELINE_H
#define PST_PIPELINE_TIMELINE_H
#include "pipeline/simulate.h"
pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span, FILE *out);
/* A self-contained SVG, one row per rank, F/B/W coloured, micro-batch numbers in the boxes, a time axis and, with
 * `title`, a heading. */
pst_status pst_timeline_svg(const pst_job *job, pst_span *const *span, const char *title, FILE *out);
#endif
