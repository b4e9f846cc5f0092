/* The arrows (flow events) of a trace. */
#ifndef PST_PIPELINE_DRAW_TRACE_FLOW_H
#define PST_PIPELINE_DRAW_TRACE_FLOW_H
#include "pipeline/draw/trace_write.h"

/* Writes an arrow for each message between ranks, after the events that the arrow connects. EINPUT:
 * two messages have the same channel and sequence number; ENOMEM. */
pst_status pst_trace_print_flows(pst_trace_writer *w);
#endif
