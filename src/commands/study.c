/* `penstock simulate`: simulates a schedule or the plan of a run. Optionally also runs the
 * executor on a virtual clock and compares every instruction, or runs in real time over a
 * transport and compares the makespan. */
#include "base/file.h"
#include "base/log.h"
#include "base/sized.h"
#include "comm/launch/launch.h"
#include "planning/page.h"
#include "prepare/planned.h"
#include "commands/dry_run.h"
#include "commands/study_parts.h"
#include "pipeline/schedule/csv.h"
#include "pipeline/execute/executor.h"
#include "pipeline/execute/timed.h"
#include "pipeline/draw/timeline.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, MOST_ROUNDS = 10000 }; /* of a real-time run */
enum { MOST_PASSES = 1 << 22 };           /* stages x micro-batches: takes seconds and a few GB */

/* --- the executor on the virtual clock -------------------------------------------------------- */

static pst_status compare(const pst_study *s, const pst_timing *timing, pst_executor *const *x,
                          FILE *out) {
    uint64_t origin, compared = 0, differing = 0;
    for (uint32_t r = 0; r < s->job->n_rank; r++) {
        const pst_span *span = pst_executor_spans(x[r], &origin);
        for (uint32_t i = 0; i < s->job->list[r].n_instr; i++, compared++)
            differing +=
                span[i].start != timing->span[r][i].start || span[i].end != timing->span[r][i].end;
    }
    fprintf(out,
            "executor on a virtual clock: %" PRIu64 " instructions, %" PRIu64
            " with a start or end that differs from the simulation\n",
            compared, differing);
    return differing
               ? pst_fail(PST_EINTERNAL,
                          "executor and simulator disagree on %" PRIu64 " instructions", differing)
               : PST_OK;
}

static pst_status execute(const pst_study *s, const pst_timing *timing, FILE *out) {
    uint32_t n = s->job->n_rank;
    pst_clock clock = {.is_virtual = 1};
    pst_timed_hub *hub = NULL;
    pst_device **device = calloc(n, sizeof *device);
    pst_executor **x = calloc(n, sizeof *x);
    pst_status status =
        device && x ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u executors", n);
    if (status == PST_OK) status = pst_timed_hub_open(n, &clock, &hub);
    if (status == PST_OK) pst_timed_hub_share(hub, s->job->host, s->job->host_bytes_per_s);
    for (uint32_t r = 0; status == PST_OK && r < n; r++) {
        pst_device_config config = {.threads = 1, .clock = &clock};
        status = pst_device_timed.open(&config, &device[r]);
        pst_executor_config xc = {.rank = r,
                                  .device = device[r],
                                  .transport = pst_timed_hub_end(hub, r),
                                  .clock = &clock};
        if (status == PST_OK) status = pst_executor_open(&xc, &x[r]);
        if (status == PST_OK) status = pst_executor_start(x[r], s->job, s->cut);
    }
    if (status == PST_OK) status = pst_executor_drive(x, n, &clock, NULL, NULL);
    if (status == PST_OK) status = compare(s, timing, x, out);
    for (uint32_t r = 0; x && device && r < n; r++) {
        if (x[r]) pst_executor_close(x[r]);
        if (device[r]) pst_device_timed.close(device[r]);
    }
    pst_timed_hub_close(hub);
    free(device);
    free(x);
    return status;
}

/* --- output ----------------------------------------------------------------------------------- */

typedef enum { TRACE, SVG, CSV } picture_kind;

typedef struct {
    const pst_study *s;
    const pst_timing *t;
    picture_kind kind;
} picture;

static pst_status print_picture(const void *what, FILE *f) {
    const picture *p = what;
    char title[160], batch[48] = "";
    if (pst_study_first_batch(p->s))
        snprintf(batch, sizeof batch, ", %llu samples",
                 (unsigned long long)pst_prepared_batch(p->s->prepared));
    snprintf(title, sizeof title, "%s%s, simulated", p->s->schedule->name, batch);
    if (p->kind == CSV) return pst_schedule_csv_write(p->s->schedule, f);
    return p->kind == SVG
               ? pst_timeline_svg(p->s->job, p->t->span, title, f)
               : pst_timeline_trace(p->s->job, p->t->span, &(pst_trace_notes){.title = title}, f);
}

static pst_status draw(const pst_study *s, const pst_timing *t, const char *path,
                       picture_kind kind) {
    return path && *path ? pst_file_replace(path, print_picture, &(picture){s, t, kind}) : PST_OK;
}

static pst_status report(const pst_simulate_options *o, pst_study *s, const pst_timing *t,
                         const pst_dry_run *r, FILE *out) {
    if (s->job->n_micro < s->job->grid.pipeline)
        pst_log(PST_LOG_WARN, "%u micro-batches cannot fill %u stages", s->job->n_micro,
                s->job->grid.pipeline);
    if (s->prepared) PST_TRY(pst_study_exposed(s->prepared, t->step_ns, s->exposed_ns));
    if (o->n_what_if) PST_TRY(pst_study_both(o, s, t, out));
    else PST_TRY((o->json ? pst_study_json : pst_study_text)(o, s, t, r, out));
    PST_TRY(draw(s, t, o->trace, TRACE));
    PST_TRY(draw(s, t, o->svg, SVG));
    if (s->prepared && *o->report)
        PST_TRY(pst_plan_page_of(s->prepared, NULL, NULL, "", o->report));
    return !o->plan && pst_schedule_kind_of(o->schedule) == PST_SCHEDULE_FROM_FILE
               ? PST_OK
               : draw(s, t, o->csv, CSV);
}

/* --- in real time ----------------------------------------------------------------------------- */

static pst_status start_local(const pst_simulate_options *o, uint32_t n_rank) {
    const pst_transport_ops *ops;
    const pst_world local = {.size = n_rank, .local_size = n_rank};
    pst_launch_end end = {0};
    PST_TRY(pst_registry_transport(o->transport, &local, &ops));
    PST_TRY(pst_launch_local(n_rank, o->argv, 1000, &end));
    return pst_launch_ended(&end);
}

/* Starts the ranks, runs as one of them, or (self) runs all of them. Rank 0 reports. */
static pst_status dry_run(const pst_simulate_options *o, pst_study *s, const pst_timing *t,
                          FILE *out) {
    const pst_world_ops *ops = pst_registry_world();
    int alone = !strcmp(ops->name, "single"), self = !strcmp(o->transport, "self");
    pst_world *world;
    pst_dry_run r = {0};
    if (alone && s->job->n_rank > 1 && !self && o->argv) return start_local(o, s->job->n_rank);
    PST_TRY(ops->open(&world));
    pst_status status = pst_registry_joins(o->transport, world, s->job->n_rank);
    if (status == PST_OK)
        status = pst_dry_run_measure(world, o->transport, s->job, s->cut, (uint32_t)o->rounds, &r);
    if (status == PST_OK && world->rank == 0) status = report(o, s, t, &r, out);
    pst_dry_run_close(&r);
    world->ops->close(world);
    return status;
}

/* --- all schedules side by side --------------------------------------------------------------- */

static double most_activations(const pst_study *s, const pst_timing *t) {
    double most = 0;
    for (uint32_t r = 0; r < s->job->n_rank; r++) most = fmax(most, pst_study_peak(s, t, r));
    return most;
}

static double most_held(const pst_study *s) {
    double most = 0;
    for (uint32_t r = 0; r < s->job->n_rank; r++) most = fmax(most, s->held[r]);
    return most;
}

/* Prints a row of the table, or adds it to list (NULL: prints). */
static pst_status add_row(const pst_study *s, const pst_timing *t, const char *name, json_t *list,
                          FILE *out) {
    double makespan = (double)t->step_ns * 1e-6, bound = (double)s->bound_ns * 1e-6,
           peak = most_activations(s, t);
    if (!list) {
        fprintf(out, "%-12s %6u %14.6f %14.6f %9.2f%% %12g %12g%s\n", name, pst_study_chunks(s),
                makespan, bound, t->bubble * 100, peak, most_held(s),
                s->fits ? "" : "  does not fit");
        return PST_OK;
    }
    json_t *row = json_pack("{s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "schedule", name, "chunks",
                            (int)pst_study_chunks(s), "makespan", makespan, "lower_bound", bound,
                            "gap", pst_study_gap(s, t), "bubble", t->bubble, "peak_activations",
                            peak, "held", most_held(s), "fits", s->fits);
    return json_array_append_new(list, row) ? pst_fail(PST_ENOMEM, "no memory to compare schedules")
                                            : PST_OK;
}

static pst_status compare_one(const pst_simulate_options *o, const char *name, json_t *list,
                              FILE *out) {
    pst_simulate_options one = *o;
    pst_study s = {0};
    pst_timing *t = NULL;
    one.schedule = name;
    pst_status status = pst_study_schedule(&one, &s);
    if (status == PST_OK) status = pst_simulate(s.job, &t);
    if (status == PST_OK) status = add_row(&s, t, name, list, out);
    pst_timing_close(t);
    pst_study_close(&s);
    return status;
}

static void explain_table(FILE *out) {
    fputs("\nbubble       idle share of the time from the first to the last pass, on the rank "
          "where that time is longest\n",
          out);
    pst_study_explain_peaks(1, out);
}

/* Only schedules with the number of chunks that was asked for. */
static pst_status compare_all(const pst_simulate_options *o, FILE *out) {
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    json_t *list = o->json ? json_array() : NULL;
    pst_status status = PST_OK;
    if (!list)
        fprintf(out, "%-12s %6s %14s %14s %10s %12s %12s\n", "schedule", "chunks", "makespan ms",
                "lower bound ms", "bubble", "peak F to B", "peak F to W");
    for (uint32_t i = 0; i < n && status == PST_OK; i++)
        if (row[i].kind == PST_SCHEDULE_GENERATED &&
            (!o->chunks || !row[i].n_virtual || row[i].n_virtual == o->chunks))
            status = compare_one(o, row[i].name, list, out);
    if (status == PST_OK && pst_study_solves(o))
        status = compare_one(o, pst_schedule_name_of(PST_SCHEDULE_SOLVED), list, out);
    if (status == PST_OK && !list) explain_table(out);
    if (status == PST_OK && list &&
        (json_dumpf(list, out, JSON_INDENT(2)) != 0 || fputc('\n', out) == EOF))
        status = pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno));
    json_decref(list);
    if (status == PST_OK && ferror(out))
        status = pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno));
    return status;
}

/* Checks what a schedule is made from: a file, or numbers. */
static pst_status check_schedule(const pst_simulate_options *o) {
    if (pst_schedule_kind_of(o->schedule) == PST_SCHEDULE_FROM_FILE) {
        if (!*o->csv)
            return pst_fail(PST_EINPUT,
                            "--schedule custom needs --csv FILE, the file with the schedule");
        if (o->stages || o->micro_batches || o->chunks)
            return pst_fail(PST_EINPUT,
                            "--schedule custom: the file sets the numbers of stages, chunks and "
                            "micro-batches; leave out --stages, --chunks and --micro-batches");
        return PST_OK;
    }
    if (!o->stages) return pst_fail(PST_EINPUT, "--schedule needs --stages P");
    if (!o->micro_batches) return pst_fail(PST_EINPUT, "--schedule needs --micro-batches M");
    if (o->stages * o->micro_batches > MOST_PASSES)
        return pst_fail(PST_EINPUT,
                        "--stages times --micro-batches is above %d, more than can be simulated",
                        MOST_PASSES);
    return PST_OK;
}

pst_status pst_simulate_study(const pst_simulate_options *options, FILE *out) {
    pst_study s = {0};
    pst_timing *t = NULL;
    pst_simulate_options taken;
    const pst_simulate_options *o = &taken;
    PST_TRY(pst_sized_take("pst_simulate_study", options, &taken, sizeof taken));
    if (!out || (!o->plan && !o->schedule))
        return pst_fail(PST_EINPUT, "pst_simulate_study: %s is NULL",
                        out ? "plan or schedule" : "out");
    if (o->n_times < 0 || (o->n_times && !o->times_ms) || o->n_memory < 0 ||
        (o->n_memory && !o->memory))
        return pst_fail(PST_EINPUT, "pst_simulate_study: %s is NULL",
                        o->n_times && !o->times_ms ? "times_ms" : "memory");
    if (o->n_what_if < 0 || (o->n_what_if && (!o->what_if || !o->plan || o->transport)))
        return pst_fail(PST_EINPUT,
                        "pst_simulate_study: what_if needs a plan, and excludes a transport");
    if (!o->trace) taken.trace = "";
    if (!o->svg) taken.svg = "";
    if (!o->csv) taken.csv = "";
    if (!o->report) taken.report = "";
    if (o->transport && (o->rounds < 0 || o->rounds > MOST_ROUNDS))
        return pst_fail(PST_EINPUT, "pst_simulate_study: rounds is %" PRId64 ", expected 1 to %d",
                        o->rounds, MOST_ROUNDS);
    if (!o->rounds) taken.rounds = ROUNDS;
    if (!o->plan) PST_TRY(check_schedule(o));
    if (!o->plan && !strcmp(o->schedule, "all")) return compare_all(o, out);
    pst_status status = o->plan ? pst_study_plan(o, &s) : pst_study_schedule(o, &s);
    if (status == PST_OK) status = pst_simulate(s.job, &t);
    if (status == PST_OK)
        status = o->transport ? dry_run(o, &s, t, out) : report(o, &s, t, NULL, out);
    if (status == PST_OK && o->execute) status = execute(&s, t, o->json ? stderr : out);
    pst_timing_close(t);
    pst_study_close(&s);
    return status;
}
