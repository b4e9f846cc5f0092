/* Arrows of a trace: flow events (ph s and f), which viewers attach to the slice that encloses
 * them. They connect passes, not SEND and RECV: a RECV is posted long before its message is sent,
 * and viewers draw an arrow from the end of one slice to the start of the other. */
#include "pipeline/draw/trace_flow.h"
#include "pipeline/simulate/walk.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The pass that computed a SEND's value: the last one that it depends on; the SEND itself if there
 * is none (weights of the previous step, values that a rank forwards). */
static uint32_t producer_of(const pst_instr_list *list, uint32_t send) {
    const pst_instr *in = &list->instr[send];
    uint32_t last = send;
    for (uint32_t d = in->dep; d < in->dep + in->n_dep; d++) {
        uint32_t i = list->dep[d];
        if (list->instr[i].queue == PST_Q_COMPUTE && (last == send || i > last)) last = i;
    }
    return last;
}

/* consumer[i]: the first pass or SEND that waits for RECV i; PST_NONE: none. */
static void find_consumers(const pst_instr_list *list, uint32_t *consumer) {
    memset(consumer, 0xff, list->n_instr * sizeof *consumer);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        if (in->opcode == PST_OP_RECV) continue;
        for (uint32_t d = in->dep; d < in->dep + in->n_dep; d++)
            if (consumer[list->dep[d]] == PST_NONE) consumer[list->dep[d]] = i;
    }
}

static void print_end(pst_trace_writer *w, char phase, uint32_t rank, uint32_t i, uint64_t ns) {
    pst_trace_next(w);
    fprintf(w->out, "\"message\",\"cat\":\"message\",\"ph\":\"%c\",\"id\":%" PRIu64 ",", phase,
            w->n_flow);
    if (phase == 'f') fputs("\"bp\":\"e\",", w->out);
    pst_trace_print_thread(w, rank, w->track[rank][i]);
    fputs(",\"ts\":", w->out);
    pst_trace_print_us(w->out, ns);
    fputc('}', w->out);
}

/* The arrow starts within its slice, as late as possible: at the end another slice may begin. If
 * clocks of two hosts differ by more than the message took, there is no arrow. */
static void print_flow(pst_trace_writer *w, uint32_t from, uint32_t made, uint32_t to,
                       uint32_t used) {
    const pst_span *a = &w->span[from][made];
    uint64_t arrives = w->span[to][used].start;
    uint64_t leaves = a->end > a->start ? a->end - 1 : a->start;
    if (arrives < a->start) return;
    if (leaves > arrives) leaves = arrives;
    print_end(w, 's', from, made, leaves);
    print_end(w, 'f', to, used, arrives);
    w->n_flow++;
}

static void print_arrivals(pst_trace_writer *w, const pst_walk *walk, uint32_t rank,
                           uint32_t *consumer) {
    const pst_instr_list *list = &w->job->list[rank];
    find_consumers(list, consumer);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        uint32_t peer = list->instr[i].peer;
        uint32_t sent = walk->partner[rank][i];
        if (list->instr[i].opcode != PST_OP_RECV || sent == PST_NONE || consumer[i] == PST_NONE ||
            peer == rank)
            continue;
        print_flow(w, peer, producer_of(&w->job->list[peer], sent), rank, consumer[i]);
    }
}

pst_status pst_trace_print_flows(pst_trace_writer *w) {
    uint32_t longest = 0;
    pst_walk *walk;
    for (uint32_t r = 0; r < w->job->n_rank; r++)
        if (w->job->list[r].n_instr > longest) longest = w->job->list[r].n_instr;
    PST_TRY(pst_walk_open(w->job, &walk)); /* only for the matching SENDs and RECVs */
    uint32_t *consumer = malloc((longest + 1) * sizeof *consumer);
    for (uint32_t r = 0; consumer && r < w->job->n_rank; r++) print_arrivals(w, walk, r, consumer);
    pst_walk_close(walk);
    if (!consumer)
        return pst_fail(PST_ENOMEM, "no memory for the arrows of %u instructions", longest);
    free(consumer);
    return PST_OK;
}
