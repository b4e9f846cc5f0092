/* The timeline as Chrome trace JSON. Every rank has lanes: compute, then as many for sends and receives as overlap. */
#include "pipeline/timeline.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Thread ids: rank * LANES + 0 compute, 1 .. SIDE sends, SIDE + 1 .. 2 * SIDE receives. */
enum { SIDE = 16, LANES = 2 * SIDE + 1 };

typedef struct {
    uint64_t start, end;
    uint32_t index;
} slice;

static int by_start(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void print_us(FILE *out, uint64_t ns) { fprintf(out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000)); }

static void print_name(const pst_instr_list *list, uint32_t i, FILE *out) {
    const pst_instr *in = &list->instr[i];
    fputs(pst_opcode_name((pst_opcode)in->opcode), out);
    if (in->param != PST_NONE) fprintf(out, " parameter %u", in->param);
    else if (i < list->n_instr - list->n_flush) fprintf(out, " c%u m%u", in->chunk, in->micro);
    else if (in->queue != PST_Q_COMPUTE) fputs(" norm", out);
}

static void print_event(const pst_job *job, uint32_t rank, const slice *s, uint32_t lane, FILE *out) {
    const pst_instr_list *list = &job->list[rank];
    const pst_instr *in = &list->instr[s->index];
    fputs(",\n{\"name\":\"", out);
    print_name(list, s->index, out);
    fprintf(out, "\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%u,\"ts\":", pst_opcode_name((pst_opcode)in->opcode),
            rank * LANES + lane);
    print_us(out, s->start);
    fputs(",\"dur\":", out);
    print_us(out, s->end - s->start);
    if (in->queue == PST_Q_COMPUTE) {
        fprintf(out, ",\"args\":{\"chunk\":%u,\"micro_batch\":%u,\"predicted_us\":", in->chunk, in->micro);
        print_us(out, in->ns);
    } else {
        fprintf(out, ",\"args\":{\"peer\":%u,\"channel\":%u,\"bytes\":%" PRIu64, in->peer, in->channel, in->bytes);
    }
    fputs("}}", out);
}

/* Overlapping transfers go to different lanes, as far as there are any; returns how many lanes were used. */
static uint32_t print_queue(const pst_job *job, uint32_t rank, pst_queue queue, const pst_span *span, slice *slices,
                            FILE *out) {
    const pst_instr_list *list = &job->list[rank];
    uint64_t busy_until[SIDE] = {0};
    uint32_t n = 0, used = 0, base = queue == PST_Q_COMPUTE ? 0 : queue == PST_Q_SEND ? 1 : 1 + SIDE;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        if (list->instr[i].queue == queue) slices[n++] = (slice){span[i].start, span[i].end, i};
    }
    qsort(slices, n, sizeof *slices, by_start);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lane = 0;
        if (queue != PST_Q_COMPUTE) {
            while (lane + 1 < SIDE && busy_until[lane] > slices[i].start) lane++;
            busy_until[lane] = slices[i].end;
        }
        if (lane + 1 > used) used = lane + 1;
        print_event(job, rank, &slices[i], base + lane, out);
    }
    return used;
}

static void print_thread(uint32_t rank, uint32_t lane, const char *what, FILE *out) {
    uint32_t tid = rank * LANES + lane;
    fprintf(out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%u,\"args\":{\"name\":\"rank %u%s\"}}",
            tid, rank, what);
    fprintf(out, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":0,\"tid\":%u,\"args\":{\"sort_index\":%u}}",
            tid, tid);
}

pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span, FILE *out) {
    uint32_t longest = 0;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (job->list[r].n_instr > longest) longest = job->list[r].n_instr;
    }
    slice *slices = malloc((longest + 1) * sizeof *slices);
    if (!slices) return pst_fail(PST_ENOMEM, "no memory to write a trace of %u instructions", longest);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out);
    fputs("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"penstock\"}}", out);
    for (uint32_t r = 0; r < job->n_rank; r++) {
        print_queue(job, r, PST_Q_COMPUTE, span[r], slices, out);
        uint32_t sends = print_queue(job, r, PST_Q_SEND, span[r], slices, out);
        uint32_t receives = print_queue(job, r, PST_Q_RECV, span[r], slices, out);
        print_thread(r, 0, "", out);
        for (uint32_t k = 0; k < sends; k++) print_thread(r, 1 + k, " send", out);
        for (uint32_t k = 0; k < receives; k++) print_thread(r, 1 + SIDE + k, " recv", out);
    }
    fputs("\n]}\n", out);
    free(slices);
    return ferror(out) ? pst_fail(PST_ENOMEM, "the trace cannot be written") : PST_OK;
}
