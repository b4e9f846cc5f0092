/* Arrows of a trace. */
#ifndef PST_PIPELINE_DRAW_TRACE_FLOW_H
#define PST_PIPELINE_DRAW_TRACE_FLOW_H
#include "pipeline/draw/trace_write.h"

/* Writes an arrow for each message between ranks, after the slices that it connects. ENOMEM; EINPUT
 * if two messages have the same name. */
pst_status pst_trace_print_flows(pst_trace_writer *w);
#endif
