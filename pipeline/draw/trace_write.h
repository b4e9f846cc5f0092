/* Private to trace*.c: the trace under construction, event by event. */
#ifndef PST_PIPELINE_DRAW_TRACE_WRITE_H
#define PST_PIPELINE_DRAW_TRACE_WRITE_H
#include "pipeline/draw/timeline.h"

/* Tracks of a rank: compute, operators, then PST_TRACE_SIDE for sends and PST_TRACE_SIDE for
 * receives: viewers drop events that overlap on one track. */
enum {
    PST_TRACE_SIDE = 126,
    PST_TRACE_OPERATORS = 1,
    PST_TRACE_SENDS = 2,
    PST_TRACE_RECEIVES = PST_TRACE_SENDS + PST_TRACE_SIDE,
    PST_TRACE_TRACKS = PST_TRACE_RECEIVES + PST_TRACE_SIDE
};

typedef struct {
    const pst_job *job;
    const pst_trace_notes *notes;
    pst_span *const *span; /* [n_rank] of the current processes: measured, then predicted */
    int predicted;
    uint8_t **track;          /* [n_rank][n_instr] the track of each instruction */
    uint64_t n_event, n_flow; /* written so far; a flow's number is its id */
    FILE *out;
} pst_trace_writer;

/* Starts an event: {"name": */
void pst_trace_next(pst_trace_writer *w);
void pst_trace_print_us(FILE *out, uint64_t ns);
/* "pid":P,"tid":T */
void pst_trace_print_thread(const pst_trace_writer *w, uint32_t rank, uint32_t track);

#endif
