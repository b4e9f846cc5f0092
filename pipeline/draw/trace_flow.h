/* Arrows of a trace. */
#ifndef PST_PIPELINE_DRAW_TRACE_FLOW_H
#define PST_PIPELINE_DRAW_TRACE_FLOW_H
#include "pipeline/draw/trace_write.h"

/* An arrow for each message between ranks, behind the slices that it joins. ENOMEM, and EINPUT
 * where two messages have one name. */
pst_status pst_trace_print_flows(pst_trace_writer *w);
#endif
