/* What `penstock plan` says to people. planning/planning.h declares it. */
#include "backends/machine.h"
#include "backends/registry.h"
#include "base/plural.h"
#include "planning/planning.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_STAGES = 16 }; /* whose memory is listed */

static double share(const pst_candidate *c, uint64_t ns) {
    return c->step_ns ? (double)ns / (double)c->step_ns * 100 : 0;
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
static void say_recompute(const pst_candidate *candidate, FILE *out) {
    uint32_t count[PST_RECOMPUTE_COUNT] = {0};
    for (uint32_t c = 0; c < candidate->layout.n_chunk; c++)
        count[candidate->layout.recompute[c]]++;
    for (uint32_t m = 0, said = 0; m < PST_RECOMPUTE_COUNT; m++) {
        if (!count[m] || (m == PST_RECOMPUTE_NONE && count[m] < candidate->layout.n_chunk))
            continue;
        fprintf(out, "%s%s", said++ ? ", " : "", pst_recompute_name((pst_recompute)m));
        if (count[m] < candidate->layout.n_chunk)
            fprintf(out, " on %u of %u chunks", count[m], candidate->layout.n_chunk);
    }
}

static void say_layout(const pst_candidate *candidate, FILE *out) {
    uint32_t chunks = candidate->layout.n_chunk / candidate->layout.pipeline;
    char degrees[PST_PLANNING_DEGREES];
    int even = 1;
    for (uint32_t k = 1; k < candidate->layout.data; k++)
        even &= candidate->layout.micros[k] == candidate->layout.micros[0];
    fprintf(out, "layout      %u stage%s x %u replica%s x %s, %s, %u chunk%s per stage\n",
            candidate->layout.pipeline, pst_plural(candidate->layout.pipeline),
            candidate->layout.data, pst_plural(candidate->layout.data),
            pst_planning_degrees(pst_layout_grid(&candidate->layout), degrees),
            pst_planning_schedule(candidate), chunks, pst_plural(chunks));
    fprintf(out, "            %u micro-batch%s of %u", candidate->layout.n_micro,
            pst_plural_es(candidate->layout.n_micro), candidate->layout.micro_batch);
    if (candidate->layout.data > 1 && even)
        fprintf(out, ", %u for each replica", candidate->layout.micros[0]);
    for (uint32_t k = 0; !even && k < candidate->layout.data; k++)
        fprintf(out, "%s%u", k ? ", " : "; of the replicas ", candidate->layout.micros[k]);
    if (candidate->layout.data > 1) fprintf(out, ", zero %u", candidate->layout.zero);
    if (candidate->layout.tensor > 1)
        fprintf(out, ", sequence %s", candidate->layout.sequence ? "true" : "false");
    fputs(", recompute ", out);
    say_recompute(candidate, out);
    fputc('\n', out);
}

static void say_speed(const pst_planning *x, const pst_candidate *c, FILE *out) {
    double mfu = pst_planning_mfu(x, c), s = (double)c->step_ns * 1e-9;
    fputs("step        ", out);
    say_seconds(c->step_ns, out);
    fprintf(out, " predicted, %.4g tokens/s", (double)x->problem.batch * x->model.context / s);
    if (mfu > 0) fprintf(out, ", MFU %.1f%%", mfu * 100);
    fprintf(out, "\n            bubble %.1f%%, flush %.1f%%, recomputation %.1f%%\n",
            c->bubble * 100, share(c, c->flush_ns), share(c, c->again_ns));
    if (!c->solved) /* else known of the named schedule only with which it was found */
        fprintf(out,
                "            communication not hidden: tensor ranks %.1f%%, stages %.1f%%, "
                "replicas %.1f%%\n",
                share(c, c->exchange_ns), share(c, c->message_ns), share(c, c->reduce_ns));
    fputs("at least    ", out);
    say_seconds(x->result->bound_ns, out);
    fprintf(out, " for any layout that may be tried, by these costs: gap %.2f%%%s\n",
            x->result->gap * 100, x->result->timed_out ? " (the time limit ended the search)" : "");
}

static void say_stage(const pst_planning *x, const pst_candidate *c, uint32_t s, FILE *out) {
    const uint64_t room = pst_planning_room(x, c, s);
    const double held = pst_planning_in_flight(c, s);
    fprintf(out, "stage %u: ", s);
    say_bytes(c->peak_bytes[s], out);
    if (room) {
        fputs(" of ", out);
        say_bytes(room, out);
    }
    fprintf(out, ", %.4g micro-batch%s in flight\n", held, held == 1 ? "" : "es");
}

/* The stage of whose room the largest part is taken; where there is no limit, the largest. */
static uint32_t fullest(const pst_planning *x, const pst_candidate *c) {
    uint32_t most = 0;
    for (uint32_t s = 1; s < c->layout.pipeline; s++) {
        double room = (double)pst_planning_room(x, c, s),
               its = (double)pst_planning_room(x, c, most);
        if ((double)c->peak_bytes[s] * (room > 0 && its > 0 ? its / room : 1) >
            (double)c->peak_bytes[most])
            most = s;
    }
    return most;
}

static void say_memory(const pst_planning *x, const pst_candidate *c, FILE *out) {
    for (uint32_t s = 0; s < c->layout.pipeline && s < MOST_STAGES; s++) {
        fputs(s ? "            " : "memory      ", out);
        say_stage(x, c, s, out);
    }
    const uint32_t more = c->layout.pipeline > MOST_STAGES ? c->layout.pipeline - MOST_STAGES : 0,
                   full = fullest(x, c);
    if (more && full < MOST_STAGES)
        fprintf(out, "            ... %u more, none fuller than stage %u\n", more, full);
    if (more && full >= MOST_STAGES) {
        fprintf(out, "            ... %u more, with the fullest of all:\n            ", more);

        say_stage(x, c, full, out);
    }
    if (!c->exact)
        fputs("            from sums over operators, not from the layout of a run\n", out);
}

/* As a run of it will say: processors that are not there cannot compute at once, and no prediction
 * knows. */
static void say_crowded(const pst_planning *x, const pst_candidate *c, FILE *out) {
    uint32_t ranks = pst_grid_size(pst_layout_grid(&c->layout)), processors = pst_machine_cpus();
    uint32_t threads = pst_planning_threads(x, ranks);
    if (!x->nominal || ranks == 1 || (uint64_t)ranks * threads <= processors) return;
    fprintf(out,
            "crowded     %u ranks of %u thread%s take turns on %u processor%s of this machine: "
            "slower than predicted\n",
            ranks, threads, pst_plural(threads), processors, pst_plural(processors));
}

static void say_costs(const pst_planning *x, FILE *out) {
    fprintf(out, "costs       ");
    if (x->profile) fprintf(out, "profile %s\n", x->config->parallel.profile);
    else if (x->datasheet)
        fprintf(out, "datasheet: %s: penstock profile measures this one\n", x->datasheet->name);
    else if (x->nominal && !pst_registry_is_host(x->device))
        fprintf(out, "a nominal processor core, not device %s: penstock profile measures it\n",
                x->device->name);
    else if (x->nominal)
        fputs("a nominal processor core: penstock profile measures this one\n", out);
    else fputs("datasheets: ", out);
    for (uint32_t k = 0; !x->profile && !x->nominal && k < x->cluster->n_kind; k++)
        fprintf(out, "%s%s%s", k ? ", " : "", x->cluster->kind[k].name,
                k + 1 == x->cluster->n_kind ? "\n" : "");
    fprintf(out,
            "searched    %" PRIu64 " layouts, %" PRIu64 " simulated, %" PRIu64
            " prepared in full, in %.2f s\n",
            x->result->n_layout, x->result->n_simulated, x->result->n_verified, x->seconds);
}

/* What was not prepared takes about so long; what does not fit was not even walked through: its
 * step is no shorter. */
static void say_tried(const pst_search_row *r, FILE *out) {
    const pst_candidate *c = r->best;
    char step[32] = "-";
    if (!c) {
        fprintf(out, "%-11s %6s %5s %12s  ", step, step, step, step);
        return;
    }
    const char *how = r->fits ? "~" : ">=";
    snprintf(step, sizeof step, "%s%.3f", c->exact ? "" : how, (double)c->step_ns * 1e-6);
    fprintf(out, "%-11s %6u %5u %12s  ", pst_planning_schedule(c), c->layout.micro_batch,
            c->layout.zero, step);
}

static void say_row(const pst_search_row *r, FILE *out) {
    char degrees[PST_PLANNING_DEGREES];
    fprintf(out, "%8u %6s %5u  ", r->pipeline,
            pst_planning_short_degrees(r, degrees, sizeof degrees), r->data);
    say_tried(r, out);
    fprintf(out, "%s\n", *r->why ? r->why : "the best");
}

static void say_rows(const pst_planning *x, FILE *out) {
    uint32_t n = x->result->n_row, most = (uint32_t)x->options->top;
    fputs("pipeline tensor  data  schedule     micro  zero      step ms  why not\n", out);
    for (uint32_t i = 0; i < n && i < most; i++) say_row(&x->result->row[i], out);
    if (n > most) fprintf(out, "%u more: --top %u\n", n - most, n);
}

static void say_fewer(const pst_planning *x, FILE *out) {
    if (!x->fewer) return;
    fprintf(out, "fewer       the first %u device%s alone: ", x->fewer, pst_plural(x->fewer));
    say_seconds(x->fewer_ns, out);
    fprintf(out, " with -n %u: links are slow for this model\n", x->fewer);
}

pst_status pst_planning_text(pst_planning *x, FILE *out) {
    const pst_candidate *best = x->result->best;
    fprintf(out, "%s, %u layers, %u channels, batch %u of %u tokens, %s, on ", x->model.kind,
            x->model.layers, x->model.channels, x->problem.batch, x->model.context,
            x->config->train.precision);
    fprintf(out, "%u device%s%s%s\n", x->cluster->n_device, pst_plural(x->cluster->n_device),
            *x->cluster_text ? ": " : "", x->cluster_text);
    if (best) {
        say_layout(best, out);
        say_speed(x, best, out);
        say_memory(x, best, out);
        say_crowded(x, best, out);
        say_fewer(x, out);
    }
    say_costs(x, out);
    say_rows(x, out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write: %s", strerror(errno)) : PST_OK;
}
