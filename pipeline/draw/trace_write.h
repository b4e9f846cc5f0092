/* The trace under construction. Private to trace*.c. */
#ifndef PST_PIPELINE_DRAW_TRACE_WRITE_H
#define PST_PIPELINE_DRAW_TRACE_WRITE_H
#include "pipeline/draw/timeline.h"

/* Tracks of a rank: compute, operators, PST_TRACE_SIDE tracks for sends, PST_TRACE_SIDE tracks for
 * receives, and one for additions beside the passes. Overlapping transfers need several tracks,
 * because viewers drop events that overlap on one track. */
enum {
    PST_TRACE_SIDE = 126,
    PST_TRACE_OPERATORS = 1,
    PST_TRACE_SENDS = 2,
    PST_TRACE_RECEIVES = PST_TRACE_SENDS + PST_TRACE_SIDE,
    PST_TRACE_ADDITIONS = PST_TRACE_RECEIVES + PST_TRACE_SIDE,
    PST_TRACE_TRACKS
};

typedef struct {
    const pst_job *job;
    const pst_trace_notes *notes;
    /* [n_rank] spans of the processes that are being written: first measured, then predicted */
    pst_span *const *span;
    int predicted;   /* 1: predicted spans are being written */
    uint8_t **track; /* [n_rank][n_instr] the track of each instruction */
    /* number of events and flows written so far; the id of a flow is its number */
    uint64_t n_event, n_flow;
    FILE *out;
} pst_trace_writer;

/* Begins the next event by writing {"name": */
void pst_trace_next(pst_trace_writer *w);
/* Writes a time in microseconds. */
void pst_trace_print_us(FILE *out, uint64_t ns);
/* Writes "pid":P,"tid":T. */
void pst_trace_print_thread(const pst_trace_writer *w, uint32_t rank, uint32_t track);

#endif
