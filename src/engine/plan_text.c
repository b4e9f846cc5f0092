/* What `penstock plan` says to people. plan_run.h declares it. */
#include "engine/plan_run.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_STAGES = 16 }; /* whose memory is listed */

const char *pst_planning_source(const pst_planning *x) {
    return x->profile ? "profile" : x->nominal ? "nominal" : "datasheet";
}

static double share(const pst_search_layout *l, uint64_t ns) {
    return l->step_ns ? (double)ns / (double)l->step_ns * 100 : 0;
}

static void say_bytes(uint64_t bytes, FILE *out) {
    char text[32];
    fputs(pst_planning_bytes(bytes, text), out);
}

static void say_seconds(uint64_t ns, FILE *out) {
    if (ns >= 1000000000) fprintf(out, "%.3f s", (double)ns * 1e-9);
    else fprintf(out, "%.3f ms", (double)ns * 1e-6);
}

/* "none", or "selective on 3 of 8 chunks, full on 1". */
static void say_recompute(const pst_search_layout *l, FILE *out) {
    uint32_t count[PST_RECOMPUTE_COUNT] = {0};
    for (uint32_t c = 0; c < l->n_chunk; c++) count[l->recompute[c]]++;
    for (uint32_t m = 0, said = 0; m < PST_RECOMPUTE_COUNT; m++) {
        if (!count[m] || (m == PST_RECOMPUTE_NONE && count[m] < l->n_chunk)) continue;
        fprintf(out, "%s%s", said++ ? ", " : "", pst_recompute_name((pst_recompute)m));
        if (count[m] < l->n_chunk) fprintf(out, " on %u of %u chunks", count[m], l->n_chunk);
    }
}

static void say_layout(const pst_search_layout *l, FILE *out) {
    uint32_t chunks = l->n_chunk / l->pipeline;
    int even = 1;
    for (uint32_t k = 1; k < l->data; k++) even &= l->micros[k] == l->micros[0];
    fprintf(out, "layout      %u stage%s x %u replica%s x %u tensor rank%s, %s, %u chunk%s per stage\n", l->pipeline,
            l->pipeline == 1 ? "" : "s", l->data, l->data == 1 ? "" : "s", l->tensor, l->tensor == 1 ? "" : "s",
            l->schedule, chunks, chunks == 1 ? "" : "s");
    fprintf(out, "            %u micro-batch%s of %u", l->n_micro, l->n_micro == 1 ? "" : "es", l->micro_batch);
    if (l->data > 1 && even) fprintf(out, ", %u for each replica", l->micros[0]);
    for (uint32_t k = 0; !even && k < l->data; k++) fprintf(out, "%s%u", k ? ", " : "; of the replicas ", l->micros[k]);
    if (l->data > 1) fprintf(out, ", zero %u", l->zero);
    if (l->tensor > 1) fprintf(out, ", sequence %s", l->sequence ? "true" : "false");
    fputs(", recompute ", out);
    say_recompute(l, out);
    fputc('\n', out);
}

static void say_speed(const pst_planning *x, const pst_search_layout *l, FILE *out) {
    double mfu = pst_planning_mfu(x, l), s = (double)l->step_ns * 1e-9;
    fputs("step        ", out), say_seconds(l->step_ns, out);
    fprintf(out, " predicted, %.4g tokens/s", (double)x->problem.batch * x->model.context / s);
    if (mfu > 0) fprintf(out, ", MFU %.1f%%", mfu * 100);
    fprintf(out, "\n            bubble %.1f%%, flush %.1f%%, recomputation %.1f%%\n", l->bubble * 100,
            share(l, l->flush_ns), share(l, l->again_ns));
    fprintf(out, "            communication not hidden: tensor ranks %.1f%%, stages %.1f%%, replicas %.1f%%\n",
            share(l, l->exchange_ns), share(l, l->message_ns), share(l, l->reduce_ns));
    fputs("at least    ", out), say_seconds(x->result->bound_ns, out);
    fprintf(out, " for any layout that may be tried, by these costs: gap %.2f%%%s\n", x->result->gap * 100,
            x->result->timed_out ? " (the time limit ended the search)" : "");
}

static void say_memory(const pst_planning *x, const pst_search_layout *l, FILE *out) {
    for (uint32_t s = 0; s < l->pipeline && s < MOST_STAGES; s++) {
        uint64_t room = pst_planning_room(x, l, s);
        fprintf(out, s ? "            stage %u: " : "memory      stage %u: ", s), say_bytes(l->peak_bytes[s], out);
        if (room) fputs(" of ", out), say_bytes(room, out);
        fprintf(out, ", %u micro-batch%s in flight\n", l->in_flight[s], l->in_flight[s] == 1 ? "" : "es");
    }
    if (l->pipeline > MOST_STAGES) fprintf(out, "            ... %u stages more\n", l->pipeline - MOST_STAGES);
    if (!l->exact) fputs("            from sums over operators, not from the layout of a run\n", out);
}

static void say_costs(const pst_planning *x, FILE *out) {
    fprintf(out, "costs       ");
    if (x->profile) fprintf(out, "profile %s\n", x->config->parallel.profile);
    else if (x->nominal) fputs("a nominal processor core: penstock profile measures this one\n", out);
    else fputs("datasheets: ", out);
    for (uint32_t k = 0; !x->profile && !x->nominal && k < x->cluster->n_kind; k++)
        fprintf(out, "%s%s%s", k ? ", " : "", x->cluster->kind[k].name, k + 1 == x->cluster->n_kind ? "\n" : "");
    fprintf(out, "searched    %" PRIu64 " layouts, %" PRIu64 " simulated, %" PRIu64 " prepared in full, in %.2f s\n",
            x->result->n_layout, x->result->n_simulated, x->result->n_verified, x->seconds);
}

static void say_row(const pst_search_row *r, FILE *out) {
    fprintf(out, "%8u %6u %5u  ", r->pipeline, r->tensor, r->data);
    if (r->layout)
        fprintf(out, "%-11s %6u %5u %12.3f  ", r->layout->schedule, r->layout->micro_batch, r->layout->zero,
                (double)r->layout->step_ns * 1e-6);
    else fprintf(out, "%-11s %6s %5s %12s  ", "-", "-", "-", "-");
    fprintf(out, "%s\n", *r->why ? r->why : "the best");
}

static void say_rows(const pst_planning *x, FILE *out) {
    uint32_t n = x->result->n_row, most = (uint32_t)x->options->top;
    fputs("pipeline tensor  data  schedule     micro  zero      step ms  why not\n", out);
    for (uint32_t i = 0; i < n && i < most; i++) say_row(&x->result->row[i], out);
    if (n > most) fprintf(out, "%u more: --top %u\n", n - most, n);
}

pst_status pst_planning_text(pst_planning *x, FILE *out) {
    const pst_search_layout *best = x->result->best;
    fprintf(out, "%s, %u layers, %u channels, batch %u of %u tokens, %s, on ", x->model.kind, x->model.layers,
            x->model.channels, x->problem.batch, x->model.context, x->config->train.precision);
    fprintf(out, "%u device%s%s%s\n", x->cluster->n_device, x->cluster->n_device == 1 ? "" : "s",
            *x->cluster_text ? ": " : "", x->cluster_text);
    if (best) {
        say_layout(best, out);
        say_speed(x, best, out);
        say_memory(x, best, out);
    }
    say_costs(x, out);
    say_rows(x, out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno)) : PST_OK;
}
