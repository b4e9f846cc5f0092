/* The timeline as Chrome trace JSON. Every rank has lanes: compute, the operators within it where they are known, then
 * as many for sends and receives as overlap. What was measured is process 0, what was predicted process 1. */
#include "pipeline/timeline.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Thread ids: rank * LANES + 0 compute, 1 operators, then SIDE for sends and SIDE for receives. */
enum { SIDE = 16, OPERATORS = 1, SENDS = 2, RECEIVES = SENDS + SIDE, LANES = RECEIVES + SIDE };

typedef struct {
    uint64_t start, end;
    uint32_t index;
} slice;

typedef struct {
    const pst_job *job;
    slice *slices; /* [n_instr of the longest list] room */
    uint32_t process;
    FILE *out;
} writer;

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

static void print_event(const writer *w, uint32_t rank, const slice *s, uint32_t lane) {
    const pst_instr_list *list = &w->job->list[rank];
    const pst_instr *in = &list->instr[s->index];
    FILE *out = w->out;
    fputs(",\n{\"name\":\"", out);
    print_name(list, s->index, out);
    fprintf(out,
            "\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":", pst_opcode_name((pst_opcode)in->opcode),
            w->process, rank * LANES + lane);
    print_us(out, s->start);
    fputs(",\"dur\":", out);
    print_us(out, s->end - s->start);
    fprintf(out, ",\"args\":{\"rank\":%u", rank);
    if (in->queue == PST_Q_COMPUTE) {
        fprintf(out, ",\"chunk\":%u,\"micro_batch\":%u", in->chunk, in->micro);
    } else {
        fprintf(out, ",\"peer\":%u,\"channel\":%u,\"bytes\":%" PRIu64, in->peer, in->channel, in->bytes);
    }
    fputs(",\"predicted_us\":", out);
    print_us(out, in->ns);
    fputs("}}", out);
}

/* Where it is drawn: weights beside other messages. */
static pst_queue lanes_of(const pst_instr *in) {
    return in->queue != PST_Q_HEAD ? (pst_queue)in->queue : in->opcode == PST_OP_SEND ? PST_Q_SEND : PST_Q_RECV;
}

/* Overlapping transfers go to different lanes, as far as there are any; returns how many lanes were used. */
static uint32_t print_queue(const writer *w, uint32_t rank, pst_queue queue, const pst_span *span) {
    const pst_instr_list *list = &w->job->list[rank];
    slice *slices = w->slices;
    uint64_t busy_until[SIDE] = {0};
    uint32_t n = 0, used = 0, base = queue == PST_Q_COMPUTE ? 0 : queue == PST_Q_SEND ? SENDS : RECEIVES;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        if (lanes_of(&list->instr[i]) == queue) slices[n++] = (slice){span[i].start, span[i].end, i};
    }
    qsort(slices, n, sizeof *slices, by_start);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lane = 0;
        if (queue != PST_Q_COMPUTE) {
            while (lane + 1 < SIDE && busy_until[lane] > slices[i].start) lane++;
            busy_until[lane] = slices[i].end;
        }
        if (lane + 1 > used) used = lane + 1;
        print_event(w, rank, &slices[i], base + lane);
    }
    return used;
}

static void print_thread(const writer *w, uint32_t rank, uint32_t lane, const char *what) {
    uint32_t tid = rank * LANES + lane;
    char place[PST_GRID_TEXT];
    pst_grid_place_text(w->job->grid, rank, place);
    fprintf(w->out,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"rank %u%s%s%s%s\"}}",
            w->process, tid, rank, *place ? " (" : "", place, *place ? ")" : "", what);
    fprintf(w->out,
            ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"sort_index\":%u}}",
            w->process, tid, tid);
}

static void print_quoted(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ') fputc(' ', out);
        else fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    }
    fputc('"', out);
}

/* A lane of operators, with the rate at which each computed. */
static void print_operators(const writer *w, const pst_op_spans *o, uint32_t rank) {
    for (uint32_t i = 0; i < o->n[rank]; i++) {
        const pst_op_span *s = o->span[rank] + i;
        const pst_node *node = o->graph->node + s->node;
        uint64_t flops = 0, bytes = 0;
        int restores = s->again == PST_AGAIN_RESTORE;
        const char *again = s->again ? " again" : "";
        if (!s->is_sum && !restores) node->op->cost(o->graph, node, (pst_pass)s->pass, &flops, &bytes);
        fputs(",\n{\"name\":", w->out);
        print_quoted(node->name, w->out);
        fprintf(w->out, ",\"cat\":\"operator\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":", w->process,
                rank * LANES + OPERATORS);
        print_us(w->out, s->start);
        fputs(",\"dur\":", w->out);
        print_us(w->out, s->end - s->start);
        fprintf(w->out, ",\"args\":{\"rank\":%u,\"operator\":\"%s\",\"pass\":\"%c%s\",\"micro_batch\":%u", rank,
                s->is_sum  ? "sum"
                : restores ? node->op->restore_kernel
                           : node->op->name,
                "FBW"[s->pass], again, s -> micro);
        if (flops && s->end > s->start)
            fprintf(w->out, ",\"gflop_per_s\":%.1f", (double)flops / (double)(s->end - s->start));
        fputs("}}", w->out);
    }
    print_thread(w, rank, OPERATORS, " operators");
}

static void print_process(const writer *w, const char *name, pst_span *const *span, const pst_op_spans *operators) {
    fprintf(w->out, "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":", w->process ? ",\n" : "",
            w->process);
    print_quoted(name, w->out);
    fputs("}}", w->out);
    for (uint32_t r = pst_job_gathers(w->job); r < w->job->n_rank; r = pst_job_next(w->job, r)) {
        print_queue(w, r, PST_Q_COMPUTE, span[r]);
        if (operators) print_operators(w, operators, r);
        uint32_t sends = print_queue(w, r, PST_Q_SEND, span[r]);
        uint32_t receives = print_queue(w, r, PST_Q_RECV, span[r]);
        print_thread(w, r, 0, "");
        for (uint32_t k = 0; k < sends; k++) print_thread(w, r, SENDS + k, " send");
        for (uint32_t k = 0; k < receives; k++) print_thread(w, r, RECEIVES + k, " recv");
    }
}

pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span, const char *title, pst_span *const *predicted,
                              const pst_op_spans *operators, FILE *out) {
    uint32_t longest = 0;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (job->list[r].n_instr > longest) longest = job->list[r].n_instr;
    }
    writer w = {.job = job, .slices = malloc((longest + 1) * sizeof *w.slices), .out = out};
    if (!w.slices) return pst_fail(PST_ENOMEM, "no memory to write a trace of %u instructions", longest);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out);
    print_process(&w, title, span, operators);
    w.process = 1;
    if (predicted) print_process(&w, "predicted", predicted, NULL);
    fputs("\n]}\n", out);
    free(w.slices);
    return ferror(out) ? pst_fail(PST_ENOMEM, "the trace cannot be written") : PST_OK;
}
