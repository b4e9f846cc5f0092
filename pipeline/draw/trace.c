/* The timeline as Chrome trace JSON. Every rank is a process with a thread per track: compute,
 * operators if they are known, and enough tracks for overlapping sends and receives. Predictions
 * are separate processes. */
#include "pipeline/draw/timeline.h"
#include "pipeline/draw/trace_flow.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t start, end;
    uint32_t index;
} slice;

static int by_start(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void print_quoted(const char *text, FILE *out) {
    fputc('"', out);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ') fputc(' ', out);
        else fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    }
    fputc('"', out);
}

/* --- instructions ----------------------------------------------------------------------------- */

/* Whether it belongs to a micro-batch of a chunk. */
static int is_of_chunk(const pst_instr_list *list, uint32_t i) {
    return list->instr[i].param == PST_NONE && i < list->n_instr - list->n_flush;
}

static void print_name(const pst_instr_list *list, uint32_t i, FILE *out) {
    const pst_instr *in = &list->instr[i];
    fputs(pst_opcode_name((pst_opcode)in->opcode), out);
    if (in->param != PST_NONE) fprintf(out, " parameter %u", in->param);
    else if (is_of_chunk(list, i)) fprintf(out, " c%u m%u", in->chunk, in->micro);
    else if (!pst_queue_computes(in->queue)) fputs(" norm", out);
}

static void print_args(const pst_trace_writer *w, uint32_t rank, uint32_t i) {
    const pst_instr_list *list = &w->job->list[rank];
    const pst_instr *in = &list->instr[i];
    fprintf(w->out, "\"args\":{\"rank\":%u", rank);
    if (in->queue == PST_Q_COMPUTE || is_of_chunk(list, i))
        fprintf(w->out, ",\"chunk\":%u,\"micro_batch\":%u", in->chunk, in->micro);
    if (!pst_queue_computes(in->queue))
        fprintf(w->out, ",\"peer\":%u,\"channel\":%u,\"bytes\":%" PRIu64, in->peer, in->channel,
                in->bytes);
    fputs(",\"predicted_us\":", w->out);
    pst_trace_print_us(w->out, in->ns);
    fputc('}', w->out);
}

static void print_event(pst_trace_writer *w, uint32_t rank, const slice *s, uint32_t track) {
    const pst_instr_list *list = &w->job->list[rank];
    pst_trace_next(w);
    fputc('"', w->out);
    print_name(list, s->index, w->out);
    fprintf(w->out, "\",\"cat\":\"%s\",\"ph\":\"X\",",
            pst_opcode_name((pst_opcode)list->instr[s->index].opcode));
    pst_trace_print_thread(w, rank, track);
    fputs(",\"ts\":", w->out);
    pst_trace_print_us(w->out, s->start);
    fputs(",\"dur\":", w->out);
    pst_trace_print_us(w->out, s->end - s->start);
    fputc(',', w->out);
    print_args(w, rank, s->index);
    fputc('}', w->out);
}

/* The kind of track: weights are drawn with other messages. */
static pst_queue tracks_of(const pst_instr *in) {
    if (in->queue != PST_Q_HEAD) return (pst_queue)in->queue;
    return in->opcode == PST_OP_SEND ? PST_Q_SEND : PST_Q_RECV;
}

static uint32_t first_track(pst_queue queue) {
    if (queue == PST_Q_COMPUTE) return 0;
    if (queue == PST_Q_SIDE) return PST_TRACE_ADDITIONS;
    return queue == PST_Q_SEND ? PST_TRACE_SENDS : PST_TRACE_RECEIVES;
}

/* Puts overlapping transfers on different tracks while there are any; returns the number of tracks
 * used. */
static uint32_t print_queue(pst_trace_writer *w, slice *slices, uint32_t rank, pst_queue queue) {
    const pst_instr_list *list = &w->job->list[rank];
    const pst_span *span = w->span[rank];
    uint64_t busy_until[PST_TRACE_SIDE] = {0};
    uint32_t n = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        if (tracks_of(&list->instr[i]) == queue)
            slices[n++] = (slice){span[i].start, span[i].end, i};
    }
    qsort(slices, n, sizeof *slices, by_start);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t track = 0;
        if (!pst_queue_computes(queue)) {
            while (track + 1 < PST_TRACE_SIDE && busy_until[track] > slices[i].start) track++;
            busy_until[track] = slices[i].end;
        }
        if (track + 1 > used) used = track + 1;
        w->track[rank][slices[i].index] = (uint8_t)(first_track(queue) + track);
        print_event(w, rank, &slices[i], first_track(queue) + track);
    }
    return used;
}

/* --- operators -------------------------------------------------------------------------------- */

static const char *const extra_name[] = {"", "sum", "restore", "pack", "unpack"};

static void print_operator(pst_trace_writer *w, const pst_op_spans *o, uint32_t rank, uint32_t i) {
    const pst_op_span *s = o->span[rank] + i;
    const pst_node *node = o->graph->node + s->node;
    uint64_t flops = 0;
    uint64_t bytes = 0;
    int restores = s->again == PST_AGAIN_RESTORE;
    const char *kernel = s->extra ? extra_name[s->extra] : node->op->name;
    if (restores) kernel = node->op->restore_kernel;
    if (!s->extra && !restores) node->op->cost(o->graph, node, (pst_pass)s->pass, &flops, &bytes);
    pst_trace_next(w);
    print_quoted(node->name, w->out);
    fputs(",\"cat\":\"operator\",\"ph\":\"X\",", w->out);
    pst_trace_print_thread(w, rank, PST_TRACE_OPERATORS);
    fputs(",\"ts\":", w->out);
    pst_trace_print_us(w->out, s->start);
    fputs(",\"dur\":", w->out);
    pst_trace_print_us(w->out, s->end - s->start);
    const char *again = s->again ? " again" : "";
    char pass = "FBW"[s->pass];
    fprintf(w->out,
            ",\"args\":{\"rank\":%u,\"operator\":\"%s\",\"pass\":\"%c%s\",\"micro_batch\":%u", rank,
            kernel, pass, again, s->micro);
    if (flops && s->end > s->start)
        fprintf(w->out, ",\"gflop_per_s\":%.1f", (double)flops / (double)(s->end - s->start));
    fputs("}}", w->out);
}

/* --- processes -------------------------------------------------------------------------------- */

static void print_meta(pst_trace_writer *w, uint32_t rank, uint32_t track, const char *what) {
    pst_trace_next(w);
    fprintf(w->out, "\"%s\",\"ph\":\"M\",", what);
    pst_trace_print_thread(w, rank, track);
    fputs(",\"args\":{", w->out);
}

static void name_track(pst_trace_writer *w, uint32_t rank, uint32_t track, const char *name,
                       uint32_t number) {
    print_meta(w, rank, track, "thread_name");
    fprintf(w->out, "\"name\":\"%s", name);
    if (number) fprintf(w->out, " %u", number + 1);
    fputs("\"}}", w->out);
    print_meta(w, rank, track, "thread_sort_index");
    fprintf(w->out, "\"sort_index\":%u}}", track);
}

/* "rank 1 (host a, stage 1, replica 0)". */
static void name_process(pst_trace_writer *w, uint32_t rank) {
    char name[2 * PST_GRID_TEXT + 64];
    char place[PST_GRID_TEXT];
    const char *host = w->notes->host ? w->notes->host[rank] : "";
    if (!*pst_grid_place_text(w->job->grid, rank, place))
        snprintf(place, sizeof place, "stage %u", pst_job_stage(w->job, rank));
    snprintf(name, sizeof name, "rank %u (%s%.64s%s%s)%s", rank, *host ? "host " : "", host,
             *host ? ", " : "", place, w->predicted ? ", predicted" : "");
    print_meta(w, rank, 0, "process_name");
    fputs("\"name\":", w->out);
    print_quoted(name, w->out);
    fputs("}}", w->out);
    print_meta(w, rank, 0, "process_labels");
    fputs("\"labels\":", w->out);
    print_quoted(w->predicted ? "predicted" : w->notes->title, w->out);
    fputs("}}", w->out);
    print_meta(w, rank, 0, "process_sort_index");
    fprintf(w->out, "\"sort_index\":%u}}", w->predicted ? w->job->n_rank + rank : rank);
}

static void print_rank(pst_trace_writer *w, slice *slices, uint32_t rank) {
    const pst_op_spans *o = w->predicted ? NULL : w->notes->operators;
    name_process(w, rank);
    print_queue(w, slices, rank, PST_Q_COMPUTE);
    name_track(w, rank, 0, "compute", 0);
    for (uint32_t i = 0; o && i < o->n[rank]; i++) print_operator(w, o, rank, i);
    if (o) name_track(w, rank, PST_TRACE_OPERATORS, "operators", 0);
    uint32_t sends = print_queue(w, slices, rank, PST_Q_SEND);
    uint32_t receives = print_queue(w, slices, rank, PST_Q_RECV);
    if (print_queue(w, slices, rank, PST_Q_SIDE))
        name_track(w, rank, PST_TRACE_ADDITIONS, "additions", 0);
    for (uint32_t k = 0; k < sends; k++) name_track(w, rank, PST_TRACE_SENDS + k, "send", k);
    for (uint32_t k = 0; k < receives; k++)
        name_track(w, rank, PST_TRACE_RECEIVES + k, "receive", k);
}

static pst_status print_ranks(pst_trace_writer *w, slice *slices, pst_span *const *span,
                              int predicted) {
    w->span = span;
    w->predicted = predicted;
    for (uint32_t r = pst_job_gathers(w->job); r < w->job->n_rank; r = pst_job_next(w->job, r))
        print_rank(w, slices, r);
    return pst_trace_print_flows(w);
}

static uint8_t **open_tracks(const pst_job *job) {
    uint8_t **track = calloc(job->n_rank, sizeof *track);
    uint64_t n = 1;
    for (uint32_t r = 0; r < job->n_rank; r++) n += job->list[r].n_instr;
    if (!track || !(track[0] = calloc(n, 1))) {
        free(track);
        return NULL;
    }
    for (uint32_t r = 1; r < job->n_rank; r++) track[r] = track[r - 1] + job->list[r - 1].n_instr;
    return track;
}

pst_status pst_timeline_trace(const pst_job *job, pst_span *const *span,
                              const pst_trace_notes *notes, FILE *out) {
    uint32_t longest = 0;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (job->list[r].n_instr > longest) longest = job->list[r].n_instr;
    }
    pst_trace_writer w = {.job = job, .notes = notes, .track = open_tracks(job), .out = out};
    slice *slices = malloc((longest + 1) * sizeof *slices);
    pst_status status =
        w.track && slices
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory to write a trace of %u instructions", longest);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out);
    if (status == PST_OK) status = print_ranks(&w, slices, span, 0);
    if (status == PST_OK && notes->predicted) status = print_ranks(&w, slices, notes->predicted, 1);
    fputs("\n]}\n", out);
    free(slices);
    if (w.track) free(w.track[0]);
    free(w.track);
    if (status != PST_OK) return status;
    return ferror(out) ? pst_fail(PST_ENOMEM, "the trace could not be written") : PST_OK;
}
