/* Rounds (zero 2, flush.h): where in the lists of a stage its replicas exchange the weight
 * gradients of a micro-batch, and the gradient slots that hold these meanwhile.
 *
 * A rank that adds waits for other replicas in the middle of its schedule. Like slots
 * (unit_time.c), rounds follow one common order of events, from the unit-time simulation of all
 * replicas: a round is added when the last of its replicas needs the slot again, which is two
 * weight gradients later, so that messages have arrived by then. Replicas with equal schedules then
 * need two slots; others may need more. Every wait points back in this order, so no set of lists
 * can deadlock over it. */
#include "pipeline/compile/rounds.h"
#include "pipeline/compile/flush_replicas.h"
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 };

static int weighs(const pst_action *a) { return a->opcode == PST_OP_W || a->opcode == PST_OP_BW; }

static uint32_t later(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* One replica's constraints: sent after its pass has ended, and added before it needs the slot.
 * cell: [n_chunk][n_micro of the job]. */
static void add_replica(const pst_job *job, const pst_schedule *s, const pst_unit_time *unit_time,
                        uint32_t stage, pst_round *cell) {
    const pst_action *a = s->action[stage];
    /* `ahead`: weight gradients between i and next */
    uint32_t n = s->n_action[stage], next = 0, ahead = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!weighs(a + i)) continue;
        if (next <= i) next = i + 1;
        for (; next < n && ahead + weighs(a + next) < SLOTS; next++) ahead += weighs(a + next);
        const pst_action *end = a + (next < n ? next : n - 1);
        size_t at = pst_unit_time_key(s, end->chunk, end->opcode, end->micro);
        pst_round *r = cell + (size_t)a[i].chunk * job->n_micro + a[i].micro;
        r->sent = later(
            r->sent, unit_time->finish[pst_unit_time_key(s, a[i].chunk, a[i].opcode, a[i].micro)]);
        r->added = later(r->added, next < n ? unit_time->start[at] : unit_time->finish[at]);
        if (ahead) ahead--;
    }
}

static int by_time(const void *x, const void *y) {
    const pst_round *a = x, *b = y;
    if (a->added != b->added) return a->added < b->added ? -1 : 1;
    if (a->sent != b->sent) return a->sent < b->sent ? -1 : 1;
    if (a->micro != b->micro) return a->micro < b->micro ? -1 : 1;
    return (a->chunk > b->chunk) - (a->chunk < b->chunk);
}

/* A chunk's micro-batches stay in order, even if a replica with few of them is late; and messages
 * are received in the order in which they are sent. */
static void order(const pst_job *job, uint32_t stage, const pst_round *cell, pst_rounds *rounds) {
    for (uint32_t c = 0; c < job->n_chunk; c++)
        for (uint32_t m = 0; m < job->n_micro && job->rank_of_chunk[c] == stage; m++) {
            pst_round *r = rounds->round + rounds->n++;
            *r = cell[(size_t)c * job->n_micro + m];
            r->chunk = c;
            r->micro = m;
            if (m) {
                r->sent = later(r->sent, r[-1].sent);
                r->added = later(r->added, r[-1].added);
            }
        }
    if (rounds->n) qsort(rounds->round, rounds->n, sizeof *rounds->round, by_time);
    for (uint32_t i = 0; i < rounds->n; i++) {
        pst_round *r = rounds->round + i;
        if (i) r->sent = later(r->sent, r[-1].sent);
        rounds->of[(size_t)r->chunk * job->n_micro + r->micro] = i;
    }
}

static pst_status open_stage(const pst_job_spec *spec, const pst_job *job,
                             const pst_unit_time *unit_time, uint32_t stage, pst_rounds *rounds) {
    size_t n = (size_t)job->n_chunk * job->n_micro;
    pst_round *cell = calloc(n, sizeof *cell);
    rounds->round = calloc(n, sizeof *rounds->round);
    rounds->of = calloc(n, sizeof *rounds->of);
    rounds->occupant = calloc(n, sizeof *rounds->occupant);
    int failed = !cell || !rounds->round || !rounds->of || !rounds->occupant;
    for (uint32_t k = 0; !failed && k < job->grid.data; k++)
        add_replica(job, spec->schedule[k], unit_time + k, stage, cell);
    if (!failed) order(job, stage, cell, rounds);
    free(cell);
    return failed ? pst_fail(PST_ENOMEM, "no memory for the gradients that replicas exchange")
                  : PST_OK;
}

static pst_status check_count(const pst_job *job) {
    uint64_t n = (uint64_t)pst_job_pieces(job) * job->n_micro;
    if (n <= INT32_MAX) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "parallel.zero 2: %llu gradient messages per step are too many; use parallel.zero 1",
        (unsigned long long)n);
}

pst_status pst_rounds_open(const pst_job_spec *spec, const pst_job *job, pst_rounds **rounds) {
    uint32_t n = job->grid.data, opened = 0;
    *rounds = NULL;
    if (job->zero != 2 || !job->backward) return PST_OK;
    PST_TRY(check_count(job));
    pst_unit_time *unit_time = calloc(n, sizeof *unit_time);
    pst_rounds *out = calloc(job->grid.pipeline, sizeof *out);
    pst_status status =
        unit_time && out
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory for the gradients that replicas exchange");
    while (status == PST_OK && opened < n) {
        status = pst_unit_time_open(spec->schedule[opened], unit_time + opened);
        opened++;
    }
    for (uint32_t s = 0; status == PST_OK && s < job->grid.pipeline; s++)
        status = open_stage(spec, job, unit_time, s, out + s);
    while (opened > 0) pst_unit_time_close(unit_time + --opened);
    free(unit_time);
    if (status == PST_OK) *rounds = out;
    else pst_rounds_close(out, job->grid.pipeline);
    return status;
}

void pst_rounds_close(pst_rounds *rounds, uint32_t n_stage) {
    for (uint32_t s = 0; rounds && s < n_stage; s++) {
        free(rounds[s].round);
        free(rounds[s].of);
        free(rounds[s].occupant);
    }
    free(rounds);
}

/* --- one rank --------------------------------------------------------------------------------- */

void pst_builder_emit_rounds(pst_job_builder *b, uint32_t i) {
    if (!b->rounds) return;
    const pst_rounds *rounds = b->rounds + b->stage;
    const pst_action *a = b->schedule->action[b->stage] + i;
    int ended = i == b->schedule->n_action[b->stage];
    uint32_t now =
        ended ? UINT32_MAX
              : b->unit_time.start[pst_unit_time_key(b->schedule, a->chunk, a->opcode, a->micro)];
    for (; b->n_sent < rounds->n && rounds->round[b->n_sent].sent <= now; b->n_sent++)
        pst_flush_send_round(b, rounds->round + b->n_sent);
    for (; b->n_added < rounds->n && rounds->round[b->n_added].added <= now; b->n_added++)
        pst_flush_add_round(b, rounds->round + b->n_added);
}

void pst_builder_take_gradient(pst_job_builder *b, const pst_action *a, uint32_t at) {
    if (!b->rounds || !weighs(a) || b->status != PST_OK) return;
    pst_rounds *rounds = b->rounds + b->stage;
    uint32_t slot = 0;
    while (slot < b->n_gradient && rounds->occupant[slot] >= b->n_added)
        slot++; /* slots of rounds that were added are free */
    if (slot == b->n_gradient) {
        b->n_gradient++;
    } else {
        const pst_round *before = rounds->round + rounds->occupant[slot];
        for (uint32_t k = 0; k < before->n_send; k++) pst_builder_depend(b, at, before->send + k);
    }
    rounds->occupant[slot] = rounds->of[(size_t)a->chunk * b->job->n_micro + a->micro];
    b->slots->gradient[(size_t)a->chunk * b->n_micro + a->micro] = slot;
}
