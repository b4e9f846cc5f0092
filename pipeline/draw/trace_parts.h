/* Private to trace*.c: what is being written. */
#ifndef PST_PIPELINE_DRAW_TRACE_PARTS_H
#define PST_PIPELINE_DRAW_TRACE_PARTS_H
#include "pipeline/draw/timeline.h"

typedef struct {
    const pst_job *job;
    const pst_trace_notes *notes;
    pst_span *const *span; /* [n_rank] of the processes at hand: measured, then predicted */
    int predicted;
    uint8_t **lane;           /* [n_rank][n_instr] where each instruction was drawn */
    uint64_t n_event, n_flow; /* so far; a flow's number is its id */
    FILE *out;
} pst_trace_writer;

/* Begins an event: {"name": */
void pst_trace_next(pst_trace_writer *w);
void pst_trace_print_us(FILE *out, uint64_t ns);
/* "pid":P,"tid":T */
void pst_trace_print_thread(const pst_trace_writer *w, uint32_t rank, uint32_t lane);

/* trace_flow.c: an arrow for each message between ranks, behind the slices that it joins. ENOMEM,
 * and EINPUT where two messages have one name. */
pst_status pst_trace_print_flows(pst_trace_writer *w);
#endif
