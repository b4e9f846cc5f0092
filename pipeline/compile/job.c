/* Compiles a schedule and a cut into one instruction list per rank: each action becomes its RECVs,
 * its compute instruction and its SENDs; slots.c adds the dependencies of memory reuse, flush.c the
 * end of the step. */
#include "pipeline/compile/job.h"
#include "base/transport.h"
#include "pipeline/compile/builder.h"
#include "pipeline/compile/early.h"
#include "pipeline/compile/flush.h"
#include "pipeline/compile/flush_replicas.h"
#include "pipeline/compile/head.h"
#include "pipeline/compile/outer.h"
#include "pipeline/compile/passes.h"
#include "pipeline/compile/rounds.h"
#include "pipeline/compile/summary.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- one action ------------------------------------------------------------------------------- */

static uint32_t *compute_slot(const pst_job_builder *b, uint32_t chunk, uint8_t opcode,
                              uint32_t micro) {
    return b->compute_at + ((size_t)chunk * 4 + opcode) * b->n_micro + micro;
}

/* The compute instruction of an event of a chunk. */
static uint32_t compute_of_event(const pst_job_builder *b, uint32_t chunk, pst_event event,
                                 uint32_t micro) {
    uint8_t opcode = b->cut->split ? PST_OP_B : PST_OP_BW;
    if (event == PST_EV_F) opcode = PST_OP_F;
    if (event == PST_EV_W) opcode = PST_OP_W;
    return *compute_slot(b, chunk, opcode, micro);
}

/* The stage that a value comes from, or is sent to. */
static uint32_t stage_beyond(const pst_job_builder *b, uint8_t opcode, uint32_t chunk,
                             const pst_local *l) {
    int down = b->cut->tape->value[l->value].kind == PST_VALUE_GRAD;
    return b->job->rank_of_chunk[(opcode == PST_OP_SEND) == down ? chunk - 1 : chunk + 1];
}

/* lane: of the value. */
static uint32_t emit_transfer(pst_job_builder *b, uint8_t opcode, uint32_t chunk, uint32_t local,
                              uint32_t micro, uint32_t lane) {
    const int rest = pst_job_is_rest(b->job, b->replica, micro);
    const pst_local *l = pst_cut_of(b->cut, rest)->chunk[chunk].local + local;
    pst_instr instr = {.opcode = opcode,
                       .chunk = (uint16_t)chunk,
                       .micro = micro,
                       .rest = (uint32_t)rest,
                       .peer =
                           pst_grid_in_lane(b->job->grid, stage_beyond(b, opcode, chunk, l), lane),
                       .channel = opcode == PST_OP_SEND ? l->channel_out : l->channel_in,
                       .seq = micro,
                       .local = local,
                       .param = PST_NONE,
                       .use = PST_NONE,
                       .bytes = l->bytes};
    if (instr.peer != b->rank) /* both chunks are on this rank: no message */
        instr.ns = pst_builder_transfer_ns(b, l->bytes);
    return pst_builder_emit(b, &instr);
}

static void emit_recv(pst_job_builder *b, uint32_t chunk, uint32_t local, uint32_t micro) {
    uint32_t at = emit_transfer(b, PST_OP_RECV, chunk, local, micro, b->lane);
    b->recv_at[(size_t)b->cut->chunk[chunk].local[local].channel_in * b->n_micro + micro] = at;
}

/* Appends the RECVs of the values that the rank's action i reads; with first-in-first-out order,
 * all RECVs that must be posted by then. */
static void emit_recvs(pst_job_builder *b, uint32_t i) {
    const pst_action *a = b->schedule->action[b->stage] + i;
    pst_event event = a->opcode == PST_OP_F ? PST_EV_RECV_F : PST_EV_RECV_B;
    const pst_chunk *chunk = b->cut->chunk + a->chunk;
    const pst_fifo_message *m = b->cost->fifo ? b->fifo.message[b->stage] : NULL;
    for (uint32_t k = m ? b->fifo.first[b->stage][i] : 0; m && k < b->fifo.first[b->stage][i + 1];
         k++)
        emit_recv(b, m[k].chunk, m[k].local, m[k].micro);
    for (uint32_t k = 0; !m && a->opcode != PST_OP_W && k < chunk->n_local; k++)
        if (chunk->local[k].birth == event) emit_recv(b, a->chunk, k, a->micro);
}

/* SENDs of a value to all ranks that receive it from here, after `after`. */
static void emit_value(pst_job_builder *b, uint32_t chunk, uint32_t local, uint32_t micro,
                       uint32_t after) {
    uint32_t to = stage_beyond(b, PST_OP_SEND, chunk, b->cut->chunk[chunk].local + local);
    uint32_t lane = pst_grid_receiver(b->job->grid, to, b->lane);
    for (; lane != PST_GRID_NO_LANE && b->status == PST_OK;
         lane = pst_builder_next_receiver(b, to, lane))
        pst_builder_depend(b, emit_transfer(b, PST_OP_SEND, chunk, local, micro, lane), after);
}

/* passed: values that are only forwarded are sent as soon as they arrive, before this action
 * computes. */
static void emit_sends(pst_job_builder *b, const pst_action *a, int passed) {
    pst_event event = a->opcode == PST_OP_F ? PST_EV_SEND_F : PST_EV_SEND_B;
    const pst_chunk *chunk = b->cut->chunk + a->chunk;
    if (a->opcode == PST_OP_W) return;
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = chunk->local + i;
        if (!(l->uses >> event & 1) || (l->channel_in != PST_NONE) != passed) continue;
        emit_value(b, a->chunk, i, a->micro,
                   passed ? b->recv_at[(size_t)l->channel_in * b->n_micro + a->micro]
                          : compute_of_event(b, a->chunk, l->birth, a->micro));
    }
}

/* The first compute instruction that reads a received value waits for it; later ones follow in the
 * queue. */
static pst_event first_reader(const pst_local *l) {
    if (l->uses >> PST_EV_F & 1) return PST_EV_F;
    return l->uses >> PST_EV_B & 1 ? PST_EV_B : PST_EV_W;
}

static int computes(const pst_job_builder *b, const pst_action *a) {
    return pst_cut_has_pass(b->cut, a->chunk, a->opcode);
}

/* n 0: the whole pass. */
static uint32_t emit_steps(pst_job_builder *b, const pst_action *a, uint32_t from, uint32_t n) {
    const int rest = pst_job_is_rest(b->job, b->replica, a->micro);
    const pst_program *program = pst_cut_of(b->cut, rest)->chunk[a->chunk].program + a->opcode;
    pst_instr instr = {.opcode = a->opcode,
                       .chunk = a->chunk,
                       .micro = a->micro,
                       .rest = (uint32_t)rest,
                       .local = PST_NONE,
                       .param = PST_NONE,
                       .use = PST_NONE,
                       .from = from,
                       .n = n,
                       .ns = n ? 0 : program->ns};
    for (uint32_t s = from; s < from + n; s++) instr.ns += program->step[s].ns;
    return *compute_slot(b, a->chunk, a->opcode, a->micro) = pst_builder_emit(b, &instr);
}

/* The last pass in parts, gradients of earlier parts between them; returns the first. */
static uint32_t emit_parts(pst_job_builder *b, const pst_action *a) {
    pst_early *e = b->early;
    for (uint32_t i = 0; i < e->n_part && b->status == PST_OK; i++) {
        uint32_t from = i ? e->end[i - 1] : 0;
        pst_flush_early(b, i);
        e->part_at[i] = emit_steps(b, a, from, e->end[i] - from);
    }
    return e->part_at[0];
}

static void emit_compute(pst_job_builder *b, const pst_action *a, int is_last) {
    const pst_chunk *chunk = b->cut->chunk + a->chunk;
    uint32_t at = is_last && pst_early_is_on(b) ? emit_parts(b, a) : emit_steps(b, a, 0, 0);
    for (uint32_t i = 0; i < chunk->n_local; i++) {
        const pst_local *l = chunk->local + i;
        if (l->channel_in == PST_NONE || first_reader(l) != pst_event_of(a->opcode)) continue;
        if (l->uses >> first_reader(l) & 1)
            pst_builder_depend(b, at, b->recv_at[(size_t)l->channel_in * b->n_micro + a->micro]);
    }
}

/* --- one rank --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Insertion sort: most instructions have two or three dependencies, nearly in order. */
static void sort_deps(uint32_t *on, uint32_t n) {
    if (n > 32) qsort(on, n, sizeof *on, by_number);
    for (uint32_t i = 1; i < n && n <= 32; i++) {
        uint32_t value = on[i], k = i;
        for (; k && on[k - 1] > value; k--) on[k] = on[k - 1];
        on[k] = value;
    }
}

/* By instruction: the dependencies of i are on[first[i]] to on[first[i + 1]], ascending. */
static void group_deps(const pst_job_builder *b, uint32_t n_instr, uint32_t *first, uint32_t *on) {
    for (uint32_t i = 0; i < b->n_pair; i++) first[b->pair[i].instr + 2]++;
    for (uint32_t i = 2; i < n_instr + 2; i++) first[i] += first[i - 1];
    for (uint32_t i = 0; i < b->n_pair; i++) on[first[b->pair[i].instr + 1]++] = b->pair[i].on;
    for (uint32_t i = 0; i < n_instr; i++) sort_deps(on + first[i], first[i + 1] - first[i]);
}

/* Removes duplicates, and dependencies that the order of the queues that compute implies. */
static void store_deps(pst_instr_list *list, uint32_t i, const uint32_t *on, uint32_t n) {
    pst_instr *instr = list->instr + i;
    uint32_t latest[PST_Q_COUNT]; /* the latest dependency in another queue that computes */
    memset(latest, 0xff, sizeof latest);
    instr->dep = list->n_dep;
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t queue = list->instr[on[k]].queue;
        if (queue != instr->queue) latest[queue] = on[k];
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint8_t queue = list->instr[on[k]].queue;
        if (pst_queue_computes(queue) && on[k] != latest[queue]) continue;
        if (list->n_dep > instr->dep && list->dep[list->n_dep - 1] == on[k]) continue;
        list->dep[list->n_dep++] = on[k];
    }
    instr->n_dep = list->n_dep - instr->dep;
}

static pst_status store_list(pst_job_builder *b) {
    pst_instr_list *list = b->job->list + b->rank;
    list->instr = b->instr;
    list->n_instr = b->n_instr;
    list->n_head = b->n_head;
    list->n_flush = b->n_flush;
    b->instr = NULL;
    list->dep = malloc(((size_t)b->n_pair + 1) * sizeof *list->dep);
    uint32_t *first = calloc((size_t)list->n_instr + 2, sizeof *first),
             *on = malloc(((size_t)b->n_pair + 1) * sizeof *on);
    pst_status status =
        list->dep && first && on
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory for the dependencies of rank %u", b->rank);
    if (status == PST_OK) {
        group_deps(b, list->n_instr, first, on);
        for (uint32_t i = 0; i < list->n_instr; i++)
            store_deps(list, i, on + first[i], first[i + 1] - first[i]);
    }
    free(first);
    free(on);
    return status;
}

/* What a server does while replicas compute: it adds early gradients. */
static void emit_served(pst_job_builder *b) {
    for (uint32_t i = 0; b->serves && pst_early_is_on(b) && i < b->early->n_part; i++)
        pst_flush_early(b, i);
}

static pst_status build_rank(pst_job_builder *b, uint32_t stage) {
    const pst_action *action = b->schedule->action[stage];
    uint32_t n = b->serves ? 0 : b->schedule->n_action[stage];
    b->stage = stage;
    b->rank = pst_grid_in_lane(b->job->grid, stage, b->lane);
    b->n_instr = b->n_pair = b->n_head = b->n_flush = b->turn = b->n_sent = b->n_added =
        b->n_gradient = 0;
    b->room_instr = 0;
    b->stepped = 0;
    b->relay_turn = 0;
    for (uint32_t k = 0; k < PST_MESSAGES_IN_FLIGHT; k++)
        b->buffer_read[k] = b->relay_read[k] = PST_NONE;
    if (b->status == PST_OK) b->status = pst_early_open(b);
    if (b->job->zero && !b->job->eager) (b->job->alone ? pst_summary_head : pst_builder_head)(b);
    if (b->job->staleness) pst_flush_beside(b);
    if (n) emit_recvs(b, 0);
    for (uint32_t i = 0; i < n && b->status == PST_OK; i++) {
        if (i + 1 < n) emit_recvs(b, i + 1);
        pst_builder_emit_rounds(b, i);
        emit_sends(b, action + i, 1);
        if (computes(b, action + i)) {
            emit_compute(b, action + i, i + 1 == n);
            pst_builder_take_gradient(
                b, action + i,
                *compute_slot(b, action[i].chunk, action[i].opcode, action[i].micro));
        }
        emit_sends(b, action + i, 0);
    }
    emit_served(b);
    pst_builder_emit_rounds(b, n);
    if (pst_early_is_on(b)) pst_flush_early(b, b->early->n_part);
    if (b->status == PST_OK) pst_builder_await_head(b);
    if (b->status == PST_OK) pst_builder_assign_slots(b);
    if (b->status == PST_OK && b->cost->flush && b->job->backward) pst_builder_flush(b);
    pst_early_close(b);
    return b->status == PST_OK ? store_list(b) : b->status;
}

/* --- the job ---------------------------------------------------------------------------------- */

static const char *passes_text(int backward, int split) {
    if (!backward) return split ? ", forward only, split" : ", forward only";
    return split ? ", B and W separate" : ", B and W fused";
}

static pst_status check_schedule(const pst_schedule *s, const pst_cut *cut) {
    if (s->n_chunk != cut->n_chunk || !s->backward != !cut->backward ||
        (cut->backward && !s->split != !cut->split))
        return pst_fail(PST_EINPUT,
                        "schedule %s (%u chunks%s) and the cut (%u chunks%s) contradict each other",
                        s->name, s->n_chunk, passes_text(s->backward, s->split), cut->n_chunk,
                        passes_text(cut->backward, cut->split));
    return s->n_chunk > UINT16_MAX
               ? pst_fail(PST_EINPUT, "the schedule has %u chunks; expected at most 65535",
                          s->n_chunk)
               : PST_OK;
}

static pst_status count_pieces(pst_job *j) {
    j->n_param = j->share[0]->n_param;
    if (!(j->pieces = calloc(j->n_param + (size_t)1, sizeof *j->pieces)))
        return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    for (uint32_t t = 0; t < j->grid.tensor; t++)
        for (uint32_t p = 0; p < j->n_param; p++) {
            uint32_t n = pst_share_count(j->share[t], p);
            if (n > j->pieces[p]) j->pieces[p] = n;
        }
    return PST_OK;
}

/* Everything but the lists. */
static pst_status open_job(const pst_job_spec *spec, pst_job **job) {
    const pst_schedule *s = spec->schedule[0];
    pst_grid grid = spec->grid;
    const pst_cut *cut = spec->cut[spec->alone ? spec->lane % grid.tensor : 0];
    pst_job *j = calloc(1, sizeof *j);
    *job = j; /* the caller closes it */
    if (!j) return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    *j = (pst_job){.n_rank = pst_grid_size(grid),
                   .n_chunk = s->n_chunk,
                   .backward = cut->backward,
                   .split = cut->split,
                   .rest = cut->rest != NULL,
                   .rank_of_chunk = s->rank_of_chunk,
                   .grid = grid,
                   .islands = spec->islands ? spec->islands : 1,
                   .near = 1,
                   .velocity = spec->velocity,
                   .islands_codec = spec->islands_codec,
                   .part = spec->part,
                   .turn = spec->turn,
                   .parts = spec->parts ? spec->parts : 1,
                   .alone = spec->alone,
                   .lane = spec->lane,
                   .post = spec->cost->post && spec->cost->flush && cut->backward,
                   .eager = spec->eager && spec->cost->flush && cut->backward,
                   .async = spec->async && spec->cost->flush && cut->backward,
                   .staleness = spec->cost->flush && cut->backward ? spec->staleness : 0};
    const uint32_t group = pst_job_group(j);
    const int flushes = spec->cost->flush && cut->backward;
    if (flushes && group > 1) j->zero = spec->zero;
    if (flushes && j->islands > 1) j->syncs = spec->syncs;
    if (flushes && group > 1 && spec->near) j->near = spec->near;
    j->list = calloc(j->n_rank, sizeof *j->list);
    j->micros = calloc(pst_grid_owners(grid), sizeof *j->micros);
    j->share = calloc(grid.tensor, sizeof(pst_share *));
    if (!j->list || !j->micros || !j->share)
        return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    for (uint32_t k = 0; k < grid.data; k++) {
        j->micros[k] = spec->schedule[k]->n_micro;
        if (j->micros[k] > j->n_micro) j->n_micro = j->micros[k];
    }
    j->n_seq = j->n_micro; /* at least as many as parts */
    j->narrow = spec->narrow;
    if (group > 1 && spec->packs) {
        if (!(j->packs = malloc(grid.pipeline)))
            return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
        memcpy(j->packs, spec->packs, grid.pipeline);
        j->up = spec->up;
        j->down = spec->down;
        j->plain = spec->plain;
        j->min_bytes = spec->min_bytes;
    }
    if (spec->slow) {
        if (!(j->slow = malloc(j->n_rank * sizeof *j->slow)))
            return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
        memcpy(j->slow, spec->slow, j->n_rank * sizeof *j->slow);
    }
    const pst_share_owners owners = {grid.pipeline, group + grid.servers, spec->weight};
    for (uint32_t t = 0; t < grid.tensor; t++)
        PST_TRY(pst_share_build(spec->cut[t], s->rank_of_chunk, &owners, j->share + t));
    for (uint32_t t = 0; spec->message && t < grid.tensor; t++)
        j->share[t]->message = spec->message;
    PST_TRY(count_pieces(j));
    uint32_t pieces = pst_job_pieces(j);
    if (j->zero == 2) pieces *= j->n_micro; /* rounds.c reports if there are too many */
    if (group > 1 && pieces > j->n_seq) j->n_seq = pieces;
    if (j->async && grid.data > j->n_seq) j->n_seq = grid.data;
    return j->islands > 1 ? pst_outer_share(spec, j) : PST_OK;
}

/* Channels of values and of the flush: two for replicas, two for every use of a shared parameter,
 * two for the norm; one for islands. */
static pst_status check_channels(const pst_job *job, const pst_cut *cut) {
    uint64_t n = cut->n_channel + UINT64_C(4) + (job->islands > 1);
    for (uint32_t p = 0; cut->graph && p < cut->graph->n_param; p++)
        if (pst_param_gradients(&cut->graph->param[p]) > 1)
            n += 2 * (uint64_t)pst_param_gradients(&cut->graph->param[p]);
    if (n <= PST_CHANNEL_COLLECTIVE) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "%llu message channels; expected at most %d: use fewer chunks, or fewer uses of "
        "tied parameters",
        (unsigned long long)n, PST_CHANNEL_COLLECTIVE);
}

static pst_status open_lane(pst_job_builder *b, uint32_t lane) {
    const pst_job_spec *spec = b->spec;
    b->lane = lane;
    b->replica = lane / spec->grid.tensor;
    b->member = pst_job_member(b->job, b->replica);
    b->serves = b->replica >= spec->grid.data;
    b->schedule = spec->schedule[b->serves ? 0 : b->replica];
    b->cut = spec->cut[lane % spec->grid.tensor];
    b->share = b->job->share[lane % spec->grid.tensor];
    b->n_micro = b->serves ? 0 : b->schedule->n_micro;
    b->n_piece = pst_job_pieces(b->job);
    PST_TRY(check_schedule(b->schedule, b->cut));
    PST_TRY(check_channels(b->job, b->cut));
    size_t computes = (size_t)b->schedule->n_chunk * 4 * b->n_micro,
           recvs = (size_t)b->cut->n_channel * b->n_micro;
    b->compute_at = calloc(computes ? computes : 1, sizeof *b->compute_at);
    b->recv_at = calloc(recvs ? recvs : 1, sizeof *b->recv_at);
    if (!b->compute_at || !b->recv_at)
        return pst_fail(PST_ENOMEM, "no memory to compile the instruction lists");
    PST_TRY(pst_unit_time_open(b->schedule, &b->unit_time));
    if (b->cost->fifo) PST_TRY(pst_fifo_open(b, &b->fifo));
    PST_TRY(pst_slots_open(b->cut, b->n_micro, &b->slots));
    if (!b->rounds) return PST_OK;
    if (b->job->alone) PST_TRY(pst_summary_open(b));
    b->slots->gradient = calloc((size_t)b->cut->n_chunk * b->n_micro, sizeof *b->slots->gradient);
    return b->slots->gradient ? PST_OK
                              : pst_fail(PST_ENOMEM, "no memory for the memory slots of gradients");
}

/* Compiles the ranks of one lane. */
static pst_status build_lane(pst_job_builder *b, uint32_t lane, pst_slots **slots) {
    pst_status status = open_lane(b, lane);
    for (uint32_t s = 0; status == PST_OK && s < b->spec->grid.pipeline; s++)
        if (pst_grid_is_home(b->spec->grid, s, lane)) status = build_rank(b, s);
    pst_unit_time_close(&b->unit_time);
    pst_fifo_close(&b->fifo);
    free(b->compute_at);
    free(b->recv_at);
    free(b->instr);
    free(b->pair);
    free(b->sharded);
    b->sharded = NULL;
    b->compute_at = b->recv_at = NULL;
    b->instr = NULL;
    b->pair = NULL;
    b->room_pair = 0;
    b->unit_time = (pst_unit_time){0};
    b->fifo = (pst_fifo){0};
    *slots = b->slots;
    b->slots = NULL;
    return status;
}

pst_status pst_job_build_grid(const pst_job_spec *spec, pst_job **job, pst_slots **slots) {
    pst_job_builder b = {.spec = spec, .cost = spec->cost};
    uint32_t first = spec->alone ? spec->lane : 0, lane = first,
             n = spec->alone ? lane + 1 : pst_grid_lanes(spec->grid);
    pst_status status = open_job(spec, &b.job);
    if (status == PST_OK) status = pst_rounds_open(spec, b.job, &b.rounds);
    for (; status == PST_OK && lane < n; lane++) status = build_lane(&b, lane, slots + lane);
    pst_rounds_close(b.rounds, spec->grid.pipeline);
    if (status == PST_OK) {
        *job = b.job;
        return PST_OK;
    }
    while (lane-- > first) {
        pst_slots_close(slots[lane]);
        slots[lane] = NULL;
    }
    pst_job_close(b.job);
    return status;
}

pst_status pst_job_build(const pst_schedule *schedule, const pst_cut *cut,
                         const pst_instr_cost *cost, pst_job **job, pst_slots **slots) {
    pst_job_spec spec = {
        .grid = {schedule->n_rank, 1, 1}, .schedule = &schedule, .cut = &cut, .cost = cost};
    return pst_job_build_grid(&spec, job, slots);
}

/* The bytes of a message between stages if it were not packed. */
static uint64_t unpacked_bytes(const pst_cut *cut, const pst_instr *in) {
    const pst_cut *x = pst_cut_of(cut, in->rest != 0);
    const uint32_t packs = x->tape->value[x->chunk[in->chunk].local[in->local].value].packs;
    return packs ? x->tape->value[packs - 1].bytes : in->bytes;
}

double pst_job_compression(const pst_job *job, const pst_cut *const *cut) {
    uint64_t plain = 0, sent = 0;
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            const pst_instr *in = &job->list[r].instr[i];
            const pst_cut *x = cut[pst_grid_at(job->grid, r).tensor];
            const int stages = in->local != PST_NONE && in->peer != r && x->packing.packs;
            if (in->opcode != PST_OP_SEND || !(stages || (in->param != PST_NONE && in->n)))
                continue;
            if (stages) plain += unpacked_bytes(x, in);
            else plain += in->packed ? in->n * sizeof(float) : in->bytes;
            sent += in->bytes;
        }
    return sent ? (double)plain / (double)sent : 1;
}

void pst_job_close(pst_job *job) {
    if (!job) return;
    for (uint32_t r = 0; job->list && r < job->n_rank; r++) {
        free(job->list[r].instr);
        free(job->list[r].dep);
    }
    for (uint32_t t = 0; job->share && t < job->grid.tensor; t++) pst_share_close(job->share[t]);
    for (uint32_t t = 0; job->outer && t < job->grid.tensor; t++) pst_share_close(job->outer[t]);
    for (uint32_t t = 0; job->outer_at && t < job->grid.tensor; t++) free(job->outer_at[t]);
    free(job->outer_at);
    free(job->outer);
    free(job->fragment);
    free(job->list);
    free(job->micros);
    free(job->share);
    free(job->pieces);
    free(job->packs);
    free(job->slow);
    free(job->host);
    free(job->host_bytes_per_s);
    free(job);
}

pst_status pst_job_print(const pst_job *job, FILE *out) {
    char text[160];
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            const pst_instr *instr = job->list[r].instr + i;
            fprintf(out, "%5u %-56s %12llu B %12llu ns", i,
                    pst_instr_text(job, r, i, text, sizeof text), (unsigned long long)instr->bytes,
                    (unsigned long long)instr->ns);
            for (uint32_t d = 0; d < instr->n_dep; d++)
                fprintf(out, "%s%u", d ? " " : "  after ", job->list[r].dep[instr->dep + d]);
            fputc('\n', out);
        }
    return ferror(out) ? pst_fail(PST_ENOMEM, "the instruction lists could not be written")
                       : PST_OK;
}
