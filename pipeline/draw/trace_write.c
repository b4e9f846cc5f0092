/* Writes the common beginning of a trace's events. */
#include "pipeline/draw/trace_write.h"
#include <inttypes.h>

void pst_trace_print_us(FILE *out, uint64_t ns) {
    fprintf(out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void pst_trace_next(pst_trace_writer *w) {
    fprintf(w->out, "%s{\"name\":", w->n_event++ ? ",\n" : "");
}

/* Thread ids are unique over all processes: some viewers expect that. */
void pst_trace_print_thread(const pst_trace_writer *w, uint32_t rank, uint32_t track) {
    uint32_t process = w->predicted ? w->job->n_rank + rank : rank;
    fprintf(w->out, "\"pid\":%u,\"tid\":%u", w->predicted ? PST_TRACE_PREDICTED + rank : rank,
            process * PST_TRACE_TRACKS + track);
}
