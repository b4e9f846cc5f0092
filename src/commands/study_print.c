/* Prints the result of `penstock simulate` as text and as JSON; with --what-if also that of the
 * unchanged plan. */
#include "base/plural.h"
#include "commands/study_parts.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static double ratio(const pst_dry_run *r, const pst_timing *t) {
    return (double)r->makespan_ns[r->n_round / 2] / (double)t->step_ns;
}

uint32_t pst_study_chunks(const pst_study *s) { return s->job->n_chunk / s->job->grid.pipeline; }

uint64_t pst_study_first_batch(const pst_study *s) {
    const pst_batches *b = s->prepared ? &s->prepared->batches : NULL;
    return b && b->n > 1 ? b->row[0].size : 0;
}

double pst_study_peak(const pst_study *s, const pst_timing *t, uint32_t rank) {
    return (double)t->peak_stash[rank] / pst_study_chunks(s);
}

double pst_study_gap(const pst_study *s, const pst_timing *t) {
    uint64_t least = s->bound_ns + t->flush_ns;
    return least ? (double)t->step_ns / (double)least - 1 : 0;
}

/* Memory that a rank of a plan may use; 0: not known. */
static uint64_t capacity(const pst_study *s, uint32_t rank) {
    return pst_prepare_usable_bytes(s->prepared, (uint64_t)s->config->parallel.memory, rank);
}

static pst_status written(FILE *out) {
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno))
                       : PST_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_micros(const pst_job *job, FILE *out) {
    int same = 1;
    for (uint32_t k = 0; k < job->grid.data; k++) same &= job->micros[k] == job->n_micro;
    if (same) {
        fprintf(out, ", %u micro-batch%s", job->n_micro, pst_plural_es(job->n_micro));
        if (job->grid.data > 1) fprintf(out, " in each of %u replicas", job->grid.data);
        return;
    }
    for (uint32_t k = 0; k < job->grid.data; k++)
        fprintf(out, "%s%u", k ? " + " : ", ", job->micros[k]);
    fprintf(out, " micro-batches in %u replicas", job->grid.data);
}

static void print_exposed(const pst_study *s, const pst_timing *t, FILE *out) {
    static const char *const names[PST_EXPOSED_COUNT] = {
        "of messages between stages", "of messages among replicas and for the norm",
        "of messages among tensor ranks"};
    fputs("exposed   ", out);
    for (int kind = 0; kind < PST_EXPOSED_COUNT; kind++) {
        int there = kind == PST_EXPOSED_TENSOR ? s->job->grid.tensor > 1 : 1;
        if (there)
            fprintf(out, "%s%.6f ms %s (%.2f%%)", kind ? ", " : "",
                    (double)s->exposed_ns[kind] * 1e-6, names[kind],
                    t->step_ns ? 100 * (double)s->exposed_ns[kind] / (double)t->step_ns : 0);
    }
    fputc('\n', out);
}

static void print_rank(const pst_study *s, const pst_timing *t, uint32_t k, FILE *out) {
    fprintf(out, "%4u %12.3f %12.3f   %11g", k, (double)t->busy_ns[k] * 1e-6,
            (double)t->span_ns[k] * 1e-6, pst_study_peak(s, t, k));
    if (!s->prepared) fprintf(out, "   %11g\n", s->held[k]);
    else {
        uint64_t limit = capacity(s, k), bytes = s->prepared->memory[k]->total;
        fprintf(out, "   %10" PRIu64, bytes);
        if (limit)
            fprintf(out, " of %" PRIu64 "%s", limit, bytes > limit ? ": exceeds the limit" : "");
        fputc('\n', out);
    }
}

void pst_study_explain_peaks(int has_limits, FILE *out) {
    fputs("peak F to B  largest number of a rank's micro-batches between the start of F and the "
          "end of B at one time (activations)\n",
          out);
    if (has_limits)
        fputs("peak F to W  the same, up to the end of W; --memory limits this number\n", out);
}

/* What the columns mean, below the tables. */
static void explain(const pst_study *s, FILE *out) {
    fputs("\nbusy, span   time in F, B and W; time from the first to the last of these passes\n",
          out);
    pst_study_explain_peaks(!s->prepared, out);
}

static void print_study(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                        const pst_dry_run *r, FILE *out) {
    fprintf(out, "%s, %u stage%s", s->schedule->name, s->job->grid.pipeline,
            pst_plural(s->job->grid.pipeline));
    print_micros(s->job, out);
    if (pst_study_chunks(s) > 1) fprintf(out, ", %u chunks per stage", pst_study_chunks(s));
    if (pst_study_first_batch(s))
        fprintf(out, "\nbatch     all %llu samples; the first steps have fewer, from %llu on",
                (unsigned long long)pst_prepared_batch(s->prepared),
                (unsigned long long)pst_study_first_batch(s));
    fprintf(out, "\nmakespan  %.6f ms (flush %.6f ms), lower bound %.6f ms: gap %.2f%%\n",
            (double)t->step_ns * 1e-6, (double)t->flush_ns * 1e-6,
            (double)(s->bound_ns + t->flush_ns) * 1e-6, pst_study_gap(s, t) * 100);
    if (s->prepared && s->prepared->n_turns)
        fprintf(out,
                "islands   this is the last step of the run; %u of %lld steps have a part of an "
                "exchange; mean %.6f ms, without any exchange %.6f ms\n",
                s->prepared->n_turns, (long long)s->config->parallel.local.steps,
                pst_prepared_step_ns(s->prepared) * 1e-6,
                (double)s->prepared->inner->timing->step_ns * 1e-6);
    else if (s->prepared && s->prepared->inner)
        fprintf(out,
                "islands   this step ends with an outer step, %lld of %lld do not: %.6f ms; mean "
                "%.6f ms\n",
                (long long)s->config->parallel.local.steps - 1,
                (long long)s->config->parallel.local.steps,
                (double)s->prepared->inner->timing->step_ns * 1e-6,
                pst_prepared_step_ns(s->prepared) * 1e-6);
    if (s->prepared && s->prepared->job->async)
        fprintf(out,
                "updates   asynchronous: these lists take the gradients of all workers in order; "
                "mean step %.6f ms\n",
                pst_prepared_step_ns(s->prepared) * 1e-6);
    char exchange[PST_NEAR_TEXT];
    if (s->prepared && *pst_prepare_near_text(s->prepared, exchange))
        fprintf(out, "exchange  %s\n", exchange);
    fprintf(out, "bubble    %.2f%% (idle share of the longest span, that of rank %u)\n",
            t->bubble * 100, t->bubble_rank);
    if (s->prepared) print_exposed(s, t, out);
    if (o->n_memory)
        fprintf(out, "memory    %s\n",
                s->fits ? "fits --memory" : "exceeds --memory: see column peak F to W");
    fprintf(out, "rank      busy ms      span ms   peak F to B   %s\n",
            s->prepared ? "peak bytes" : "peak F to W");
    for (uint32_t k = pst_job_gathers(s->job); k < s->job->n_rank; k = pst_job_next(s->job, k))
        print_rank(s, t, k, out);
    if (s->job->alone)
        fprintf(out, "%4u ranks in %u pipelines; the rows above show the first pipeline\n",
                s->job->n_rank, pst_grid_lanes(s->job->grid));
    if (r)
        fprintf(out,
                "over %s  median %.6f ms (%.6f to %.6f ms in %u round%s), %.4f x the simulated "
                "makespan; %.2f cores busy\n",
                o->transport, (double)r->makespan_ns[r->n_round / 2] * 1e-6,
                (double)r->makespan_ns[0] * 1e-6, (double)r->makespan_ns[r->n_round - 1] * 1e-6,
                r->n_round, pst_plural(r->n_round), ratio(r, t), r->cores);
}

pst_status pst_study_text(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_dry_run *r, FILE *out) {
    print_study(o, s, t, r, out);
    explain(s, out);
    return written(out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *json_dry_run(const pst_simulate_options *o, const pst_timing *t,
                            const pst_dry_run *r) {
    json_t *rounds = json_array();
    for (uint32_t i = 0; i < r->n_round; i++)
        json_array_append_new(rounds, json_integer((json_int_t)r->makespan_ns[i]));
    return json_pack("{s:s,s:I,s:o,s:f,s:f}", "transport", o->transport, "most_message_bytes",
                     (json_int_t)r->most_bytes, "makespan_ns", rounds, "ratio", ratio(r, t),
                     "cores", r->cores);
}

static json_t *json_rank(const pst_study *s, const pst_timing *t, uint32_t k) {
    json_t *rank =
        json_pack("{s:i,s:I,s:I,s:i}", "rank", (int)k, "busy_ns", (json_int_t)t->busy_ns[k],
                  "span_ns", (json_int_t)t->span_ns[k], "peak_stash", (int)t->peak_stash[k]);
    if (!s->prepared || !rank) return rank;
    json_object_set_new(rank, "peak_bytes",
                        json_integer((json_int_t)s->prepared->memory[k]->total));
    json_object_set_new(rank, "capacity_bytes", json_integer((json_int_t)capacity(s, k)));
    return rank;
}

/* NULL: no memory. */
static json_t *gather(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                      const pst_dry_run *r) {
    int failed = 0;
    json_t *ranks = json_array(), *peaks = json_array(), *held = json_array(),
           *micros = json_array();
    for (uint32_t k = pst_job_gathers(s->job); k < s->job->n_rank; k = pst_job_next(s->job, k)) {
        failed |= json_array_append_new(peaks, json_real(pst_study_peak(s, t, k)));
        failed |= json_array_append_new(ranks, json_rank(s, t, k));
        if (s->held) failed |= json_array_append_new(held, json_real(s->held[k]));
    }
    for (uint32_t k = 0; k < s->job->grid.data; k++)
        failed |= json_array_append_new(micros, json_integer(s->job->micros[k]));
    json_t *j = json_pack(
        "{s:s,s:i,s:i,s:i,s:o,s:f,s:f,s:f,s:I,s:I,s:f,s:b,s:o,s:o,s:o}", "schedule",
        s->schedule->name, "stages", (int)s->job->grid.pipeline, "chunks", (int)pst_study_chunks(s),
        "micro_batches", (int)s->job->n_micro, "micro_batches_of_replicas", micros, "makespan",
        (double)t->step_ns * 1e-6, "lower_bound", (double)(s->bound_ns + t->flush_ns) * 1e-6, "gap",
        pst_study_gap(s, t), "makespan_ns", (json_int_t)t->step_ns, "flush_ns",
        (json_int_t)t->flush_ns, "bubble", t->bubble, "fits", s->fits, "peak_activations", peaks,
        "held", held, "ranks", ranks);
    if (j && s->prepared && s->prepared->inner)
        failed |=
            json_object_set_new(j, "mean_step_ns", json_real(pst_prepared_step_ns(s->prepared)));
    if (j && s->prepared && s->job->grid.data > 1)
        failed |= json_object_set_new(j, "exchange",
                                      json_string(s->job->near > 1 ? "two-level" : "flat"));
    if (j && s->prepared)
        failed |= json_object_set_new(
            j, "exposed_ns",
            json_pack("{s:I,s:I,s:I}", "stages", (json_int_t)s->exposed_ns[PST_EXPOSED_STAGES],
                      "replicas", (json_int_t)s->exposed_ns[PST_EXPOSED_REPLICAS], "tensor",
                      (json_int_t)s->exposed_ns[PST_EXPOSED_TENSOR]));
    if (j && r) failed |= json_object_set_new(j, "measured", json_dry_run(o, t, r));
    if (failed) {
        json_decref(j);
        j = NULL;
    }
    return j;
}

static pst_status dump(json_t *j, FILE *out) {
    int failed = !j || json_dumpf(j, out, JSON_INDENT(2)) != 0 || fputc('\n', out) == EOF;
    json_decref(j);
    return failed ? pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno)) : PST_OK;
}

pst_status pst_study_json(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_dry_run *r, FILE *out) {
    return dump(gather(o, s, t, r), out);
}

/* --- what if ---------------------------------------------------------------------------------- */

static pst_status both_text(const pst_simulate_options *o, const pst_study *before,
                            const pst_timing *was, const pst_study *s, const pst_timing *t,
                            FILE *out) {
    print_study(o, before, was, NULL, out);
    fputs("\nwhat if  ", out);
    for (int64_t i = 0; i < o->n_what_if; i++) fprintf(out, " %s", o->what_if[i]);
    fputs("\n\n", out);
    print_study(o, s, t, NULL, out);
    fprintf(out, "\nchange    %.6f -> %.6f ms (%+.2f%%)\n", (double)was->step_ns * 1e-6,
            (double)t->step_ns * 1e-6,
            was->step_ns ? 100 * ((double)t->step_ns / (double)was->step_ns - 1) : 0);
    explain(s, out);
    return written(out);
}

static pst_status both_json(const pst_simulate_options *o, const pst_study *before,
                            const pst_timing *was, const pst_study *s, const pst_timing *t,
                            FILE *out) {
    json_t *changes = json_array();
    for (int64_t i = 0; i < o->n_what_if; i++)
        json_array_append_new(changes, json_string(o->what_if[i]));
    return dump(json_pack("{s:o,s:o,s:o}", "what_if", changes, "before",
                          gather(o, before, was, NULL), "after", gather(o, s, t, NULL)),
                out);
}

pst_status pst_study_both(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          FILE *out) {
    pst_simulate_options as_it_is = *o;
    pst_study before = {0};
    pst_timing *was = NULL;
    as_it_is.n_what_if = 0;
    pst_status status = pst_study_plan(&as_it_is, &before);
    if (status == PST_OK) status = pst_simulate(before.job, &was);
    if (status == PST_OK)
        status = pst_study_exposed(before.prepared, was->step_ns, before.exposed_ns);
    if (status == PST_OK) status = (o->json ? both_json : both_text)(o, &before, was, s, t, out);
    pst_timing_close(was);
    pst_study_close(&before);
    return status;
}
