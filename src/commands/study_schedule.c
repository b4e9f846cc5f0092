/* Schedules over stages without a model; durations, messages and memory come from the options.
 * `solved` is the shortest of all that fit, by simulation: the solver's results for each
 * placement of chunks on ranks, and the named schedules. */
#include "commands/study_parts.h"
#include "pipeline/check/check.h"
#include "pipeline/schedule/csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_study_close(pst_study *s) {
    free(s->held);
    if (!s->prepared) {
        pst_slots_close(s->slots);
        pst_job_close(s->job);
        pst_cut_close(s->cut);
        pst_schedule_close(s->schedule);
    }
    pst_prepared_close(s->prepared);
    pst_config_close(s->config);
}

static uint64_t to_ns(double ms) { return (uint64_t)(ms * 1e6 + 0.5); }

/* --- stages ----------------------------------------------------------------------------------- */

/* Times and activations of the chunks of a schedule: each has an equal part of its rank's stage. */
typedef struct {
    pst_pass_ns *ns;
    pst_hop_ns *hop;
    pst_held *held;
    uint64_t *limit; /* in micro-batches of a chunk */
    pst_solve_problem problem;
} stages;

static void close_stages(stages *x) {
    free(x->ns);
    free(x->hop);
    free(x->held);
    free(x->limit);
}

static pst_status check_counts(const pst_simulate_options *o, uint32_t n_rank) {
    if (o->n_times > 1 && o->n_times != n_rank)
        return pst_fail(PST_EINPUT, "durations of %lld stages are given, but there are %u stages",
                        (long long)o->n_times, n_rank);
    if (o->n_memory > 1 && o->n_memory != n_rank)
        return pst_fail(PST_EINPUT, "memory limits of %lld ranks are given, but there are %u ranks",
                        (long long)o->n_memory, n_rank);
    return PST_OK;
}

static pst_status open_stages(const pst_simulate_options *o, const pst_schedule *s, stages *x) {
    uint32_t n = s->n_chunk;
    double v = (double)n / s->n_rank;
    *x = (stages){.ns = calloc(n, sizeof *x->ns),
                  .hop = calloc(n, sizeof *x->hop),
                  .held = calloc(n, sizeof *x->held),
                  .limit = calloc(s->n_rank, sizeof *x->limit)};
    if (!x->ns || !x->hop || !x->held || !x->limit)
        return pst_fail(PST_ENOMEM, "no memory for %u chunks", n);
    PST_TRY(check_counts(o, s->n_rank));
    for (uint32_t c = 0; c < n; c++) {
        uint32_t rank = s->rank_of_chunk[c];
        const double all[] = {o->f_ms, o->b_ms, o->w_ms}, *t = all;
        if (o->n_times) t = o->times_ms + (o->n_times > 1 ? 3 * rank : 0);
        uint64_t hop = c + 1 < n && s->rank_of_chunk[c + 1] != rank ? to_ns(o->transfer_ms) : 0;
        x->ns[c] = (pst_pass_ns){to_ns(t[0] / v), to_ns(t[1] / v), to_ns(t[2] / v)};
        x->hop[c] = (pst_hop_ns){hop, hop};
        x->held[c] = (pst_held){.f_w = 1};
    }
    for (uint32_t r = 0; o->n_memory && r < s->n_rank; r++)
        x->limit[r] = (uint64_t)floor(o->memory[o->n_memory > 1 ? r : 0] * v + 1e-9);
    x->problem = (pst_solve_problem){.n_rank = s->n_rank,
                                     .n_chunk = n,
                                     .n_micro = s->n_micro,
                                     .rank_of_chunk = s->rank_of_chunk,
                                     .ns = x->ns,
                                     .hop = x->hop,
                                     .held = x->held,
                                     .limit = o->n_memory ? x->limit : NULL};
    return PST_OK;
}

static pst_status find_held(pst_study *s, const stages *x) {
    uint32_t n = s->schedule->n_rank;
    uint64_t *peak = calloc(n, sizeof *peak);
    s->held = calloc(n, sizeof *s->held);
    pst_status status =
        peak && s->held ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u ranks", n);
    if (status == PST_OK) pst_solve_peak(&x->problem, s->schedule, peak);
    for (uint32_t r = 0; status == PST_OK && r < n; r++)
        s->held[r] = (double)peak[r] * s->schedule->n_rank / s->schedule->n_chunk;
    if (status == PST_OK) s->fits = pst_solve_fits(&x->problem, s->schedule);
    free(peak);
    return status;
}

/* Fills in everything else from s->schedule. */
static pst_status build(const pst_simulate_options *o, const stages *x, pst_study *s) {
    pst_instr_cost cost = {.latency_ns = to_ns(o->transfer_ms), .flush = 0};
    PST_TRY(find_held(s, x));
    PST_TRY(pst_cut_synthetic(s->schedule->n_chunk, s->schedule->split, s->schedule->backward,
                              (pst_pass_ns){0, 0, 0}, (uint64_t)o->message_bytes, &s->cut));
    pst_cut_set_times(s->cut, x->ns);
    PST_TRY(pst_job_build(s->schedule, s->cut, &cost, &s->job, &s->slots));
    PST_TRY(pst_job_check(s->job, s->cut, s->slots, PST_CHECK_TAGGED));
    s->bound_ns = pst_simulate_bound(s->job);
    return PST_OK;
}

/* --- solved ----------------------------------------------------------------------------------- */

typedef struct {
    pst_study study; /* the shortest so far; schedule NULL: none */
    uint64_t step_ns;
    uint32_t n_place, at, best; /* placements; the current one; that of the shortest schedule */
    pst_solve_placement place[PST_SOLVE_PLACEMENTS];
    uint64_t bound_ns[PST_SOLVE_PLACEMENTS]; /* 0: not solved */
    pst_status why; /* why nothing was solved: the first reason is reported */
    char text[256];
} search;

/* Takes ownership of the schedule; keeps it if it is the shortest, else closes it. */
static pst_status enter(const pst_simulate_options *o, const stages *x, pst_schedule *schedule,
                        search *best) {
    pst_study s = {.schedule = schedule};
    pst_timing *t = NULL;
    pst_status status = build(o, x, &s);
    if (status == PST_OK) status = pst_simulate(s.job, &t);
    if (status == PST_OK && (!best->study.schedule || t->step_ns < best->step_ns)) {
        pst_study last = best->study;
        best->study = s;
        best->step_ns = t->step_ns;
        best->best = best->at;
        s = last;
    }
    pst_timing_close(t);
    pst_study_close(&s);
    return status;
}

/* Solves for one placement; skips it if that is not possible. */
static pst_status solve_place(const pst_simulate_options *o, uint32_t budget_divisor,
                              search *best) {
    const pst_solve_placement *place = &best->place[best->at];
    pst_schedule *named = NULL, *schedule;
    stages x = {0};
    pst_solved solved;
    pst_status status = pst_schedule_generate(place->like, (uint32_t)o->stages, place->n_virtual,
                                              (uint32_t)o->micro_batches, &named);
    if (status == PST_OK) status = open_stages(o, named, &x);
    x.problem.budget_divisor = budget_divisor;
    if (status == PST_OK) status = pst_schedule_solve(&x.problem, &schedule, &solved);
    if (status == PST_OK) {
        if (solved.bound_ns > best->bound_ns[best->at]) best->bound_ns[best->at] = solved.bound_ns;
        status = enter(o, &x, schedule, best);
    } else if (status == PST_EINPUT) {
        if (best->why == PST_OK) {
            best->why = status;
            snprintf(best->text, sizeof best->text, "%s", pst_error());
        }
        pst_error_clear();
        status = PST_OK;
    }
    close_stages(&x);
    pst_schedule_close(named);
    return status;
}

/* Tries the named schedules: one may be shorter than the solver's because of waits at receives. */
static pst_status enter_named(const pst_simulate_options *o, const pst_schedule_row *row,
                              search *best) {
    const pst_solve_placement *place = &best->place[best->at];
    pst_schedule *named;
    stages x = {0};
    PST_TRY(row->generate(row, (uint32_t)o->stages, place->n_virtual, (uint32_t)o->micro_batches,
                          &named));
    pst_status status = open_stages(o, named, &x);
    if (status == PST_OK && pst_solve_fits(&x.problem, named)) {
        snprintf(named->name, sizeof named->name, "%s", pst_schedule_name_of(PST_SCHEDULE_SOLVED));
        status = enter(o, &x, named, best);
        named = NULL;
    }
    close_stages(&x);
    pst_schedule_close(named);
    return status;
}

/* A little search for every placement, then the rest of the effort for the best of them. */
static pst_status solve_places(const pst_simulate_options *o, search *best) {
    uint32_t n_row, n = best->n_place = pst_solve_placements((uint32_t)o->chunks, best->place);
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    for (best->at = 0; best->at < n; best->at++) {
        PST_TRY(solve_place(o, n > 1 ? PST_SOLVE_DIVISOR_EACH : 1, best));
        for (uint32_t i = 0; best->bound_ns[best->at] && i < n_row; i++)
            if (pst_solve_placement_has(&best->place[best->at], &row[i]))
                PST_TRY(enter_named(o, &row[i], best));
    }
    if (!best->study.schedule) return pst_fail(best->why, "%s", best->text);
    best->at = best->best;
    return n > 1 && best->step_ns > best->bound_ns[best->at]
               ? solve_place(o, PST_SOLVE_DIVISOR_BEST, best)
               : PST_OK;
}

static pst_status open_solved(const pst_simulate_options *o, pst_study *s) {
    search best = {.n_place = 0};
    pst_status status = solve_places(o, &best);
    if (status != PST_OK) {
        pst_study_close(&best.study);
        return status;
    }
    *s = best.study;
    s->bound_ns = best.step_ns; /* the bound is the smallest of all placements, but not above the
                                   best step */
    for (uint32_t i = 0; i < best.n_place; i++)
        if (best.bound_ns[i] && best.bound_ns[i] < s->bound_ns) s->bound_ns = best.bound_ns[i];
    return PST_OK;
}

int pst_study_solves(const pst_simulate_options *o) {
    uint64_t chunks = (uint64_t)o->stages * (o->chunks ? (uint64_t)o->chunks : 2);
    return chunks <= PST_SOLVE_MOST_CHUNKS &&
           chunks * (uint64_t)o->micro_batches <= PST_SOLVE_MOST_PASSES / 3;
}

/* --- the study as a whole
 * ----------------------------------------------------------------------- */

pst_status pst_study_schedule(const pst_simulate_options *o, pst_study *s) {
    stages x = {0};
    const pst_schedule_kind kind = pst_schedule_kind_of(o->schedule);
    if (kind == PST_SCHEDULE_SOLVED) return open_solved(o, s);
    if (kind == PST_SCHEDULE_FROM_FILE) PST_TRY(pst_schedule_csv_load(o->csv, &s->schedule));
    else
        PST_TRY(pst_schedule_generate(o->schedule, (uint32_t)o->stages, (uint32_t)o->chunks,
                                      (uint32_t)o->micro_batches, &s->schedule));
    pst_status status = open_stages(o, s->schedule, &x);
    if (status == PST_OK) status = build(o, &x, s);
    close_stages(&x);
    return status;
}
