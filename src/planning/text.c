/* Output of `penstock plan` for people. planning/planning.h declares it. */
#include "backends/machine.h"
#include "backends/registry.h"
#include "base/plural.h"
#include "planning/budget.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_LINES = 16 }; /* of the memory of stages */

static double share(const pst_candidate *c, uint64_t ns) {
    return c->step_ns ? (double)ns / (double)c->step_ns * 100 : 0;
}

static void print_bytes(uint64_t bytes, FILE *out) {
    char text[32];
    fputs(pst_planning_bytes(bytes, text), out);
}

static void print_count(uint64_t n, FILE *out) {
    char text[32];
    fputs(pst_planning_count(n, text), out);
}

static void print_rate(double value, FILE *out) {
    char text[32];
    fputs(pst_planning_whole(value, text), out);
}

static void print_seconds(uint64_t ns, FILE *out) {
    if (ns >= 1000000000) fprintf(out, "%.3f s", (double)ns * 1e-9);
    else fprintf(out, "%.3f ms", (double)ns * 1e-6);
}

/* "none", or "selective on 3 of 8 chunks, {full: 2} on 1 of 8 chunks". */
static void print_recompute(const pst_candidate *candidate, FILE *out) {
    const pst_recompute_way *way = candidate->layout.recompute;
    const uint32_t n = candidate->layout.n_chunk;
    for (uint32_t c = 0, said = 0; c < n; c++) {
        uint32_t count = 0, before = 0;
        char text[PST_RECOMPUTE_TEXT];
        for (uint32_t k = 0; k < n; k++) {
            count += way[k] == way[c];
            before += k < c && way[k] == way[c];
        }
        if (before || (way[c] == PST_RECOMPUTE_NONE && count < n)) continue;
        fprintf(out, "%s%s", said++ ? ", " : "", pst_recompute_text(way[c], text));
        if (count < n) fprintf(out, " on %u of %u chunks", count, n);
    }
}

static void print_layout(const pst_candidate *candidate, FILE *out) {
    uint32_t chunks = candidate->layout.n_chunk / candidate->layout.pipeline;
    char degrees[PST_PLANNING_DEGREES], rest[PST_LAYOUT_REST_TEXT];
    int even = 1;
    for (uint32_t k = 1; k < candidate->layout.data; k++)
        even &= candidate->layout.micros[k] == candidate->layout.micros[0];
    fprintf(out, "layout      %u stage%s x %u replica%s x %s, %s, %u chunk%s per stage\n",
            candidate->layout.pipeline, pst_plural(candidate->layout.pipeline),
            candidate->layout.data, pst_plural(candidate->layout.data),
            pst_planning_degrees(pst_layout_grid(&candidate->layout), degrees),
            pst_planning_schedule(candidate), chunks, pst_plural(chunks));
    fprintf(out, "            %u micro-batch%s of %u sample%s%s", candidate->layout.n_micro,
            pst_plural_es(candidate->layout.n_micro), candidate->layout.micro_batch,
            pst_plural(candidate->layout.micro_batch),
            pst_layout_rest_text(&candidate->layout, rest));
    if (candidate->layout.data > 1 && even)
        fprintf(out, ", %u per replica", candidate->layout.micros[0]);
    for (uint32_t k = 0; !even && k < candidate->layout.data; k++)
        fprintf(out, "%s%u", k ? ", " : "; per replica ", candidate->layout.micros[k]);
    const uint32_t servers = pst_grid_servers(pst_layout_grid(&candidate->layout));
    if (candidate->layout.data > 1) fprintf(out, ", zero %u", candidate->layout.zero);
    if (candidate->near > 1) fputs(", two-level exchange", out);
    if (servers) fprintf(out, ", %u server%s", servers, pst_plural(servers));
    if (candidate->layout.tensor > 1)
        fprintf(out, ", sequence %s", candidate->layout.sequence ? "true" : "false");
    fputs(", recompute ", out);
    print_recompute(candidate, out);
    fputc('\n', out);
}

/* 8 of 10 published steps were within it. */
static void print_range(const pst_planning *x, const pst_candidate *c, FILE *out) {
    double low, high;
    if (!pst_planning_range(x, c, &low, &high)) return;
    fputs("\n            measured steps are expected from ", out);
    print_seconds((uint64_t)(low * 1e9), out);
    fputs(" to ", out);
    print_seconds((uint64_t)(high * 1e9), out);
}

static void print_speed(const pst_planning *x, const pst_candidate *c, FILE *out) {
    double mfu = pst_planning_mfu(x, c), s = (double)c->step_ns * 1e-9;
    fputs("step        ", out);
    print_seconds(c->step_ns, out);
    fprintf(out, " %s, ", c->exact ? "simulated" : "estimated");
    print_rate((double)x->problem.batch * x->model.context / s, out);
    fputs(" tokens/s", out);
    if (mfu > 0) fprintf(out, ", MFU %.1f%%", mfu * 100);
    print_range(x, c, out);
    fprintf(out, "\n            bubble %.1f%%, flush %.1f%%, recomputation %.1f%%\n",
            c->bubble * 100, share(c, c->flush_ns), share(c, c->again_ns));
    if (!c->solved) /* unknown for solved schedules */
        fprintf(out,
                "            exposed communication: tensor ranks %.1f%%, stages %.1f%%, "
                "replicas %.1f%%\n",
                share(c, c->exchange_ns), share(c, c->message_ns), share(c, c->reduce_ns));
    fputs("lower bound ", out);
    print_seconds(x->result->bound_ns, out);
    fprintf(out, " over all layouts of the search, with these costs; gap %.2f%%%s\n",
            x->result->gap * 100,
            x->result->timed_out ? " (search stopped by the time limit)" : "");
    if (!x->result->unequal_ns) return;
    fputs("            ", out);
    print_seconds(x->result->unequal_ns, out);
    fputs(" with different tensor degrees of stages, of which it tries few\n", out);
}

/* The steps that are shorter than the one shown. */
static void print_batches(const pst_planning *x, FILE *out) {
    if (!x->batches.steps) return;
    fprintf(out, "batches     from %" PRIu64 " sample%s to %u in ", x->batches.from,
            pst_plural(x->batches.from), x->problem.batch);
    print_count(x->batches.steps, out);
    fprintf(out, " step%s of ", pst_plural(x->batches.steps));
    print_count(x->batches.samples * x->model.context, out);
    fputs(" tokens: ", out);
    print_seconds((uint64_t)x->batches.ns, out);
    if (x->batches.run_steps) {
        fputs("; all ", out);
        print_count(x->batches.run_steps, out);
        fputs(" steps: ", out);
        print_seconds((uint64_t)x->batches.run_ns, out);
    }
    fputc('\n', out);
}

/* Which steps the one shown is the mean of. */
static void print_islands(const pst_planning *x, const pst_candidate *c, FILE *out) {
    const uint32_t n = pst_prepare_islands(x->config, c->layout.data);
    const uint32_t replicas = n ? c->layout.data / n : 1;
    if (n > 1)
        fprintf(out,
                "islands     %u of %u replica%s, an outer step after every %" PRId64
                " steps; the step above is their mean\n",
                n, replicas, pst_plural(replicas), x->config->parallel.local.steps);
}

/* With parallel.servers auto: the best step with each number of servers. */
static void print_servers(const pst_planning *x, FILE *out) {
    if (!x->n_tried) return;
    fputs("servers     the best step with", out);
    for (uint32_t i = 0; i < x->n_tried; i++) {
        fprintf(out, "%s %u: ", i ? "," : "", x->tried[i].servers);
        print_seconds(x->tried[i].step_ns, out);
    }
    fputc('\n', out);
}

static void print_codecs(const pst_planning_packing *packing, FILE *out) {
    static const char *const key[] = {"up", "down", "stages"};
    const char *const value[] = {packing->up, packing->down, packing->stages};
    for (int i = 0; i < 3; i++)
        if (strcmp(value[i], "none") != 0)
            fprintf(out, " parallel.compress.%s=%s", key[i], value[i]);
}

/* The shortest step with packed messages; if none is shorter, that of the first codec. */
static void print_packings(const pst_planning *x, FILE *out) {
    const pst_planning_packing *best = pst_planning_best_packing(x);
    if (!x->n_packed) return;
    fprintf(out, "compress    ");
    if (!best) {
        fputs("does not pay; with", out);
        print_codecs(x->packed, out);
        fputs(": ", out);
        print_seconds(x->packed[0].step_ns, out);
        fputs(" per step\n", out);
        return;
    }
    fputs("with", out);
    print_codecs(best, out);
    fputs(": ", out);
    print_seconds(best->step_ns, out);
    fputs(" per step; that changes results\n", out);
}

/* The first stage after `from` that has other memory, or another number of micro-batches in
 * flight. */
static uint32_t end_of_alike(const pst_planning *x, const pst_candidate *c, uint32_t from) {
    uint32_t end = from + 1;
    while (end < c->layout.pipeline && c->in_flight[end] == c->in_flight[from] &&
           pst_planning_capacity(x, c, end) == pst_planning_capacity(x, c, from))
        end++;
    return end;
}

/* Stages [from, end), which are alike; of several, the least and the most. */
static void print_stages(const pst_planning *x, const pst_candidate *c, uint32_t from, uint32_t end,
                         FILE *out) {
    const uint64_t capacity = pst_planning_capacity(x, c, from);
    const double held = pst_planning_in_flight(c, from);
    uint32_t least = from, most = from;
    for (uint32_t s = from; s < end; s++) {
        if (c->peak_bytes[s] < c->peak_bytes[least]) least = s;
        if (c->peak_bytes[s] > c->peak_bytes[most]) most = s;
    }
    if (end - from == 1) fprintf(out, "stage %u: ", from);
    else fprintf(out, "stages %u to %u: ", from, end - 1);
    if (least != most) {
        print_bytes(c->peak_bytes[least], out);
        fprintf(out, " (stage %u) to ", least);
    }
    print_bytes(c->peak_bytes[most], out);
    if (least != most) fprintf(out, " (stage %u)", most);
    if (capacity) {
        fputs(" of ", out);
        print_bytes(capacity, out);
    }
    fprintf(out, ", %.4g micro-batch%s in flight\n", held, held == 1 ? "" : "es");
}

/* The stage that uses the largest part of its memory; without a limit, the largest. */
static uint32_t find_fullest(const pst_planning *x, const pst_candidate *c) {
    uint32_t most = 0;
    for (uint32_t s = 1; s < c->layout.pipeline; s++) {
        double capacity = (double)pst_planning_capacity(x, c, s),
               its = (double)pst_planning_capacity(x, c, most);
        if ((double)c->peak_bytes[s] * (capacity > 0 && its > 0 ? its / capacity : 1) >
            (double)c->peak_bytes[most])
            most = s;
    }
    return most;
}

static void print_memory(const pst_planning *x, const pst_candidate *c, FILE *out) {
    uint32_t end = 0;
    for (uint32_t line = 0; end < c->layout.pipeline && line < MOST_LINES; line++) {
        const uint32_t from = end;
        end = end_of_alike(x, c, from);
        fputs(line ? "            " : "memory      ", out);
        print_stages(x, c, from, end, out);
    }
    const uint32_t more = c->layout.pipeline - end, full = find_fullest(x, c);
    if (more && full < end)
        fprintf(out, "            %u more stages; stage %u uses the largest share of its memory\n",
                more, full);
    if (more && full >= end) {
        fprintf(
            out,
            "            %u more stages; the largest share of its memory is used by\n            ",
            more);
        print_stages(x, c, full, full + 1, out);
    }
    pst_planning_print_margin(x, out);
    if (!c->exact)
        fputs("            estimated from operators, not from the memory map of a run\n", out);
}

/* Chunks on one stage do not shorten a pipeline. */
static void print_chunks(const pst_candidate *c, FILE *out) {
    if (c->layout.pipeline > 1 || c->layout.n_chunk < 2) return;
    fprintf(out,
            "chunks      %u on one stage: replicas sum the gradients of a chunk while the others "
            "compute\n",
            c->layout.n_chunk);
}

/* The run prints the same warning: ranks that share processors are slower than predicted. */
static void print_oversubscribed(const pst_planning *x, const pst_candidate *c, FILE *out) {
    uint32_t ranks = pst_grid_size(pst_layout_grid(&c->layout)), processors = pst_machine_cpus();
    uint32_t threads = pst_planning_threads(x, ranks);
    if (!x->local || ranks == 1 || (uint64_t)ranks * threads <= processors) return;
    fprintf(out,
            "oversubscribed: %u ranks of %u thread%s share %u processor%s of this machine, so "
            "steps take longer than predicted\n",
            ranks, threads, pst_plural(threads), processors, pst_plural(processors));
}

static void print_program(const pst_planning *x, FILE *out) {
    if (strcmp(x->program.name, "penstock") != 0)
        fprintf(out, "program     %s: %s; memory is that of penstock\n", x->program.name,
                x->program.what);
    if (x->imported) fprintf(out, "import      %s, for %s\n", x->options->import_, x->imported);
    for (uint32_t i = 0; i < x->n_override; i++)
        fprintf(out, "            the run file contradicts it: %s\n", x->override[i]);
}

static void print_costs(const pst_planning *x, FILE *out) {
    fprintf(out, "costs       ");
    if (x->profile) fprintf(out, "profile %s\n", x->config->parallel.profile);
    else if (x->datasheet)
        fprintf(out, "datasheet of %s; run penstock profile to measure this device\n",
                x->datasheet->name);
    else if (x->local && !pst_registry_is_host(x->device))
        fprintf(out,
                "a nominal CPU core, not device %s; run penstock profile to measure this device\n",
                x->device->name);
    else if (x->local)
        fputs("a nominal CPU core; run penstock profile to measure this machine\n", out);
    else fputs("datasheets: ", out);
    for (uint32_t k = 0; !x->profile && !x->local && k < x->cluster->n_kind; k++)
        fprintf(out, "%s%s%s", k ? ", " : "", x->cluster->kind[k].name,
                k + 1 == x->cluster->n_kind ? "\n" : "");
    if (x->factor > 0)
        fprintf(out, "            multiplied by %.3f: %s took %.4g s per step, %.4g s predicted\n",
                x->factor, x->options->calibrate, x->measured_s, x->predicted_s);
    fputs("searched    ", out);
    print_count(x->result->n_layout, out);
    fprintf(out, " layout%s estimated, ", pst_plural(x->result->n_layout));
    print_count(x->result->n_simulated, out);
    fputs(" simulated, ", out);
    print_count(x->result->n_verified, out);
    fprintf(out, " compiled and simulated, in %.2f s\n", x->seconds);
}

/* "~": estimated; ">=": only a lower bound, because the layout does not fit. */
static void print_tried(const pst_search_row *r, FILE *out) {
    const pst_candidate *c = r->best;
    char step[32] = "-";
    if (!c) {
        fprintf(out, "%-11s %11s %5s %12s  ", step, step, step, step);
        return;
    }
    const char *how = r->fits ? "~" : ">=";
    snprintf(step, sizeof step, "%s%.3f", c->exact ? "" : how, (double)c->step_ns * 1e-6);
    fprintf(out, "%-11s %11u %5u %12s  ", pst_planning_schedule(c), c->layout.micro_batch,
            c->layout.zero, step);
}

static void print_row(const pst_search_row *r, FILE *out) {
    char degrees[PST_PLANNING_DEGREES];
    fprintf(out, "%8u %6s %5u  ", r->pipeline,
            pst_planning_short_degrees(r, degrees, sizeof degrees), r->data);
    print_tried(r, out);
    fprintf(out, "%s\n", *r->why ? r->why : "the best");
}

static void print_rows(const pst_planning *x, FILE *out) {
    uint32_t n = x->result->n_row, most = (uint32_t)x->options->top;
    int marked = 0;
    fputs("pipeline tensor  data  schedule    micro-batch  zero      step ms  reason\n", out);
    for (uint32_t i = 0; i < n && i < most; i++) {
        print_row(&x->result->row[i], out);
        marked |= x->result->row[i].best && !x->result->row[i].best->exact;
    }
    if (marked)
        fputs("step ms: ~ estimated, >= lower bound; values without a mark are compiled and "
              "simulated\n",
              out);
    if (n > most) fprintf(out, "%u more rows: use --top %u\n", n - most, n);
}

static void print_fewer(const pst_planning *x, FILE *out) {
    if (!x->fewer) return;
    fprintf(out, "fewer       the first %u device%s alone would take ", x->fewer,
            pst_plural(x->fewer));
    print_seconds(x->fewer_ns, out);
    fprintf(out, " per step (use -n %u): links are slow for this model\n", x->fewer);
}

pst_status pst_planning_text(pst_planning *x, FILE *out) {
    const pst_candidate *best = x->result->best;
    fprintf(out, "%s, %u layers, %u channels, batch %u of %u tokens, %s, on ", x->model.kind,
            x->model.layers, x->model.channels, x->problem.batch, x->model.context,
            x->config->train.precision);
    const uint32_t devices = x->cluster->n_device + x->servers;
    fprintf(out, "%u device%s%s%s\n", devices, pst_plural(devices), *x->cluster_text ? ": " : "",
            x->cluster_text);
    if (best) {
        print_layout(best, out);
        print_chunks(best, out);
        print_speed(x, best, out);
        print_batches(x, out);
        print_islands(x, best, out);
        print_memory(x, best, out);
        print_oversubscribed(x, best, out);
        print_fewer(x, out);
        print_servers(x, out);
        print_packings(x, out);
    }
    print_program(x, out);
    print_costs(x, out);
    print_rows(x, out);
    if (x->budget) pst_budget_text(x->budget, out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the result: %s", strerror(errno))
                       : PST_OK;
}
