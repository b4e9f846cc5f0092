/* The measured timeline of one training step: the spans of every rank on one time axis, drawn by
 * rank 0. */
#include "base/file.h"
#include "base/log.h"
#include "pipeline/draw/timeline.h"
#include "run/step.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_trainer *trainer;
    pst_span *const *span;
    const pst_trace_notes *notes;
} drawing;

/* The lists of the step. */
static const pst_job *job_of(const pst_trainer *t) { return t->group->local[0]->p->job; }

static pst_status print_svg(const void *what, FILE *f) {
    const drawing *d = what;
    return pst_timeline_svg(job_of(d->trainer), d->span, d->notes->title, f);
}

static pst_status print_trace(const void *what, FILE *f) {
    const drawing *d = what;
    return pst_timeline_trace(job_of(d->trainer), d->span, d->notes, f);
}

static pst_status write_timeline(const pst_trainer *t, pst_span *const *span,
                                 const pst_trace_notes *notes) {
    char path[1024];
    drawing d = {.trainer = t, .span = span, .notes = notes};
    snprintf(path, sizeof path, "%s/trace.json", t->folder);
    PST_TRY(pst_file_replace_own(path, print_trace, &d));
    snprintf(path, sizeof path, "%s/timeline.svg", t->folder);
    return pst_file_replace_own(path, print_svg, &d);
}

/* Draws the measured step beside the predicted one; the durations in the lists are those that the
 * prediction has learned. */
static void draw(const pst_trainer *t, pst_span *const *span, const char *const *host,
                 const pst_op_spans *operators) {
    char title[160], batch[48] = "";
    pst_timing *timing = NULL;
    const pst_prepared *p = t->group->local[0]->p;
    if (t->p->n_smaller)
        snprintf(batch, sizeof batch, ", %" PRIu64 " samples", pst_prepared_batch(p));
    if (t->p->inner) snprintf(batch, sizeof batch, ", %s", p->job->syncs ? "outer" : "inner");
    snprintf(title, sizeof title, "%s, step %" PRIu64 "%s, measured: %s", t->config->name, t->step,
             batch, p->plan->layout.schedule);
    if (pst_simulate(job_of(t), &timing) != PST_OK)
        pst_log(PST_LOG_WARN, "cannot simulate the predicted timeline: %s", pst_error());
    const pst_trace_notes notes = {.title = title,
                                   .host = host,
                                   .predicted = timing ? timing->span : NULL,
                                   .operators = operators};
    if (write_timeline(t, span, &notes) != PST_OK)
        pst_log(PST_LOG_WARN, "cannot write the timeline: %s", pst_error());
    pst_timing_close(timing);
}

/* Records of every rank, gathered to all ranks. */
typedef struct {
    uint32_t most; /* of a rank */
    size_t size;   /* bytes of one */
    uint8_t *mine; /* [n_local][most] */
    uint8_t *all;  /* [n_rank][most] */
} shared;

static pst_status open_shared(const pst_trainer *t, uint32_t most, size_t size, shared *s) {
    *s = (shared){most, size, calloc((size_t)t->group->n_local * most + 1, size),
                  calloc((size_t)t->p->options.n_rank * most + 1, size)};
    return s->mine && s->all ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a timeline");
}

static void close_shared(shared *s) {
    free(s->mine);
    free(s->all);
}

/* Copies what this process knows of the step just done, and its host. */
static void fill(const pst_trainer *t, shared *spans, shared *operators, shared *hosts) {
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        snprintf((char *)hosts->mine + i * hosts->size, hosts->size, "%s", t->group->world->host);
        const pst_rank *r = t->group->local[i];
        uint64_t origin;
        memcpy(spans->mine + (size_t)i * spans->most * spans->size,
               pst_executor_spans(r->executor, &origin),
               job_of(t)->list[r->rank].n_instr * spans->size);
        memcpy(operators->mine + (size_t)i * operators->most * operators->size, r->op,
               r->n_op * operators->size);
    }
}

/* On rank 0's process: puts all ranks on one time axis, and draws them. */
static pst_status draw_all(const pst_trainer *t, const shared *spans, const shared *operators,
                           const shared *hosts) {
    uint32_t n = t->p->options.n_rank, *n_op = calloc(n, sizeof *n_op);
    const char **host = calloc(n, sizeof *host);
    pst_span **span = calloc(n, sizeof *span);
    pst_op_span **op = calloc(n, sizeof *op);
    pst_status status =
        span && op && n_op && host ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a timeline");
    uint64_t first = PST_NEVER;
    for (uint32_t r = 0; r < n; r++)
        if (t->report[r].origin_ns < first) first = t->report[r].origin_ns;
    for (uint32_t r = 0; status == PST_OK && r < n; r++) {
        host[r] = (const char *)hosts->all + r * hosts->size;
        span[r] = (pst_span *)(void *)spans->all + (size_t)r * spans->most;
        op[r] = (pst_op_span *)(void *)operators->all + (size_t)r * operators->most;
        for (uint32_t i = 0; i < job_of(t)->list[r].n_instr; i++) {
            span[r][i].start += t->report[r].origin_ns - first;
            span[r][i].end += t->report[r].origin_ns - first;
        }
        for (; n_op[r] < operators->most && op[r][n_op[r]].end; n_op[r]++) {
            op[r][n_op[r]].start -= first;
            op[r][n_op[r]].end -= first;
        }
    }
    const pst_op_spans known = {t->p->graph, n_op, op};
    if (status == PST_OK) draw(t, span, host, operators->most && !t->times_only ? &known : NULL);
    free(span);
    free(op);
    free(n_op);
    free(host);
    return status;
}

pst_status pst_trace_step(pst_trainer *t) {
    uint32_t most = 0, most_op = 0;
    for (uint32_t r = 0; r < t->p->options.n_rank; r++) {
        uint32_t launches = pst_rank_launches(t->p, r);
        if (job_of(t)->list[r].n_instr > most) most = job_of(t)->list[r].n_instr;
        if (launches > most_op) most_op = launches;
    }
    shared spans = {0}, operators = {0}, hosts = {0};
    pst_status status = open_shared(t, most, sizeof(pst_span), &spans);
    if (status == PST_OK) status = open_shared(t, most_op, sizeof(pst_op_span), &operators);
    if (status == PST_OK) status = open_shared(t, 1, sizeof t->group->world->host, &hosts);
    if (status == PST_OK) fill(t, &spans, &operators, &hosts);
    status = pst_group_agree(t->group, status);
    if (status == PST_OK)
        status = pst_group_all_gather(t->group, spans.mine, most * spans.size, spans.all);
    if (status == PST_OK)
        status = pst_group_all_gather(t->group, hosts.mine, hosts.size, hosts.all);
    if (status == PST_OK && most_op)
        status =
            pst_group_all_gather(t->group, operators.mine, most_op * operators.size, operators.all);
    if (status == PST_OK && t->group->leader && draw_all(t, &spans, &operators, &hosts) != PST_OK)
        pst_log(PST_LOG_WARN, "cannot write the timeline: %s", pst_error());
    close_shared(&spans);
    close_shared(&operators);
    close_shared(&hosts);
    return status;
}
