/* Chooses the parts of a rank's last pass, and the pieces of gradients that are reduced between
 * them. All replicas choose the same parts and pieces, because they use the same programs, shards
 * and nominal link (group/compare.c compares the lists). A piece that is reduced before part m is
 * sent after an earlier part on every rank, so waits cannot form a cycle. With a two-level exchange
 * (job.near) relays add a piece before part r <= m, and before a part what relays add comes before
 * what owners add: these wait for relays, which wait for gradients only.
 *
 * Every part costs an instruction: on a GPU an event, and one more graph of launches. So a part
 * ends only where it has computed for at least OVERHEAD_NS, and the gradients that it completes
 * need at least OVERHEAD_NS on the link. A piece is reduced before the first part that starts after
 * its predicted arrival; pieces that arrive after the last part starts are reduced in the flush. */
#include "pipeline/compile/early.h"
#include <stdlib.h>
#include <string.h>

enum { OVERHEAD_NS = 10000 };

static const pst_action *last_action(const pst_schedule *s, uint32_t stage) {
    return s->n_action[stage] ? &s->action[stage][s->n_action[stage] - 1] : NULL;
}

/* Whether all replicas of the island end with the same pass, of their last micro-batch. */
static int ends_with_same_pass(const pst_job_builder *b) {
    const pst_action *own = last_action(b->schedule, b->stage);
    for (uint32_t k = 0; own && k < pst_job_group(b->job); k++) {
        const pst_schedule *s = b->spec->schedule[pst_job_peer(b->job, b->replica, k)];
        const pst_action *a = last_action(s, b->stage);
        if (!a || a->opcode != own->opcode || a->chunk != own->chunk || a->micro + 1 != s->n_micro)
            return 0;
    }
    return own != NULL;
}

/* Whether the last pass can have parts. Not with zero 2: gradients are sent after every pass, in
 * rounds (rounds.c). Not with several accumulators (job.parts): they are summed before they are
 * sent. Not with delayed updates: gradients are sent in a
 * later step. Not with asynchronous updates: a server receives those of one worker at a time. Not
 * with a transport without tags: it would need one order for gradients and sums. */
static int can_be_early(const pst_job_builder *b) {
    const pst_job *job = b->job;
    if (pst_job_group(job) == 1 || job->zero == 2 || job->staleness || job->async ||
        job->parts > 1 || !b->cost->flush || b->cost->fifo || !b->cut->graph || !b->cut->backward ||
        !ends_with_same_pass(b))
        return 0;
    const pst_action *a = last_action(b->schedule, b->stage);
    return b->cut->chunk[a->chunk].program[a->opcode].n_step &&
           (a->opcode == PST_OP_W || (a->opcode == PST_OP_BW && a->chunk == 0));
}

/* --- parts ------------------------------------------------------------------------------------ */

static const pst_program *last_program(const pst_job_builder *b) {
    const pst_action *a = last_action(b->schedule, b->stage);
    return &b->cut->chunk[a->chunk].program[a->opcode];
}

/* Whether the gradient comes from one use on this stage, without a sum over tensor ranks. */
static int is_single(const pst_job_builder *b, uint32_t param) {
    const pst_param *p = b->cut->graph->param + param;
    return pst_param_gradients(p) == 1 && !p->slice.partial &&
           pst_builder_stage_of_use(b, param, 0) == b->stage;
}

/* ready: number of steps of the last pass after which a gradient is complete; 0 for gradients of
 * other chunks, which are complete before this pass. */
static void find_ready(const pst_job_builder *b, pst_early *e) {
    const pst_program *program = last_program(b);
    const uint32_t chunk = last_action(b->schedule, b->stage)->chunk;
    memset(e->ready, 0xff, b->cut->graph->n_param * sizeof *e->ready);
    for (uint32_t c = 0; c < b->cut->n_chunk; c++) {
        if (c == chunk || b->job->rank_of_chunk[c] != b->stage) continue;
        for (uint32_t p = b->cut->param_from[c]; p < b->cut->param_to[c]; p++)
            if (is_single(b, p) && b->cut->use_chunk[b->cut->use_first[p]] == c) e->ready[p] = 0;
    }
    for (uint32_t s = 0; s < program->n_step; s++)
        for (uint32_t i = 0; i < program->step[s].n_operand; i++) {
            const pst_operand *o = program->step[s].operand + i;
            if (o->kind == PST_OPERAND_DPARAM && is_single(b, o->index)) e->ready[o->index] = s + 1;
        }
}

static double wire_ns(const pst_job_builder *b, double bytes) {
    double rate =
        b->spec->exchange ? b->spec->exchange[b->stage].bytes_per_s : b->cost->bytes_per_s;
    return rate > 0 ? bytes * 1e9 / rate : 0;
}

/* Receive time of n elements of a parameter at their owner; with zero 0, sums of the same length
 * are included. */
static double exchange_ns(const pst_job_builder *b, uint32_t param, uint64_t n) {
    const pst_param *of = b->cut->graph->param + param;
    const int packed = pst_job_packs(b->job, b->stage, of);
    const uint64_t bytes =
        pst_job_gradient_bytes(b->job, of, packed, n) + (b->job->zero ? 0 : n * sizeof(float));
    return wire_ns(b, (double)bytes * (pst_job_group(b->job) - 1));
}

/* Exchange time of the gradients that exactly this number of steps completes. Each replica owns an
 * equal share. */
static double completed_ns(const pst_job_builder *b, const pst_early *e, uint32_t steps) {
    const pst_graph *g = b->cut->graph;
    double ns = 0;
    for (uint32_t p = 0; p < g->n_param; p++)
        if (e->ready[p] == steps)
            ns += exchange_ns(b, p, pst_param_elements(g->param + p)) / pst_job_group(b->job);
    return ns;
}

static void end_part(pst_early *e, uint32_t step, uint64_t ns) {
    e->end[e->n_part++] = step;
    e->at_ns[e->n_part] = ns;
}

static void find_parts(const pst_job_builder *b, pst_early *e) {
    const pst_program *program = last_program(b);
    const uint64_t least =
        program->ns / PST_PARTS > OVERHEAD_NS ? program->ns / PST_PARTS : (uint64_t)OVERHEAD_NS;
    uint64_t ns = 0;
    double completed = 0;
    e->n_part = 0;
    for (uint32_t s = 0; s < program->n_step; s++) {
        ns += program->step[s].ns;
        completed += completed_ns(b, e, s + 1);
        int worth = completed >= OVERHEAD_NS && ns - e->at_ns[e->n_part] >= least;
        if (!worth && s + 1 < program->n_step) continue;
        end_part(e, s + 1, ns);
        completed = 0;
    }
}

/* Converts `ready` from steps to parts. */
static void count_parts(const pst_job_builder *b, pst_early *e) {
    for (uint32_t p = 0; p < b->cut->graph->n_param; p++) {
        uint32_t part = 0;
        if (e->ready[p] == PST_NONE || !e->ready[p]) continue;
        while (e->end[part] < e->ready[p]) part++;
        e->ready[p] = part + 1;
    }
}

/* --- when a piece is reduced ------------------------------------------------------------------ */

/* Pieces that one replica receives. */
typedef struct {
    uint32_t n, due; /* pieces so far; `due` of the latest; PST_NONE: no later piece is early */
    double ns;       /* arrival of the latest, since the start of the pass */
    /* the same at relays: the latest part before which they add, and the arrival there */
    uint32_t relay;
    double relay_ns;
    double freed[PST_PIECES_IN_FLIGHT]; /* time at which each receive buffer is free again */
} arrivals;

static double latency_of(const pst_job_builder *b) {
    return (double)(b->spec->exchange ? b->spec->exchange[b->stage].latency_ns
                                      : b->cost->latency_ns);
}

/* The part before which relays add a piece that is complete after `ready` parts: by then it has
 * arrived within the host; n_part: there is none. Without relays: `ready`. */
static uint32_t relay_of(const pst_job_builder *b, const pst_early *e, uint32_t ready,
                         const pst_piece *at, arrivals *in) {
    uint32_t part = in->relay > ready ? in->relay : ready;
    if (b->job->near == 1) return ready;
    if (in->relay_ns < (double)e->at_ns[ready]) in->relay_ns = (double)e->at_ns[ready];
    in->relay_ns += exchange_ns(b, at->param, at->n);
    while (part < e->n_part && (double)e->at_ns[part] < in->relay_ns + latency_of(b)) part++;
    return in->relay = part;
}

static uint32_t due_of(const pst_job_builder *b, const pst_early *e, uint32_t ready,
                       const pst_piece *at, arrivals *in) {
    double *freed = &in->freed[in->n % PST_PIECES_IN_FLIGHT];
    const double latency = latency_of(b);
    if (in->due == PST_NONE) return PST_NONE;
    if (in->ns < (double)e->at_ns[ready]) in->ns = (double)e->at_ns[ready];
    if (in->n >= PST_PIECES_IN_FLIGHT && in->ns < *freed) in->ns = *freed;
    in->ns += exchange_ns(b, at->param, at->n);
    uint32_t part = in->due > ready ? in->due : ready;
    while (part < e->n_part && (double)e->at_ns[part] < in->ns + latency) part++;
    in->due = part < e->n_part ? part : PST_NONE;
    if (in->due == PST_NONE) return PST_NONE;
    *freed = (double)e->at_ns[part];
    in->n++;
    return part;
}

/* In the order in which gradients are completed; within a part, in the order of pieces. */
static void find_due(const pst_job_builder *b, pst_early *e, arrivals *in) {
    for (uint32_t ready = 0; ready < e->n_part; ready++)
        for (uint32_t p = b->share->n_param; p-- > 0;) {
            uint32_t number = e->base[p];
            if (e->ready[p] != ready) continue;
            for (pst_piece at = {.param = p}; pst_share_next(b->share, &at); number++) {
                arrivals *of = in + at.owner;
                const uint32_t relay = relay_of(b, e, ready, &at, of);
                if (relay == e->n_part) of->due = PST_NONE;
                e->due[number] = due_of(b, e, relay, &at, of);
                e->relay[number] = e->due[number] == PST_NONE ? PST_NONE : relay;
            }
        }
}

static void number_pieces(const pst_job_builder *b, pst_early *e) {
    uint32_t next = 0;
    for (uint32_t p = b->share->n_param; p-- > 0; next += b->job->pieces[p]) e->base[p] = next;
}

static uint32_t *new_indices(size_t n) {
    uint32_t *array = malloc((n + 1) * sizeof *array);
    if (array) memset(array, 0xff, (n + 1) * sizeof *array);
    return array;
}

pst_status pst_early_open(pst_job_builder *b) {
    if (!can_be_early(b)) return PST_OK;
    pst_early *e = b->early = calloc(1, sizeof *e);
    arrivals *in = calloc(pst_job_owners(b->job), sizeof *in);
    if (e) {
        e->ready = new_indices(b->cut->graph->n_param);
        e->base = new_indices(b->cut->graph->n_param);
        e->due = new_indices(b->n_piece);
        e->relay = new_indices(b->n_piece);
        e->at = new_indices(b->n_piece);
        e->own = calloc(2 * (size_t)b->job->grid.data, sizeof *e->own);
        if (e->own) e->pieces = e->own + b->job->grid.data;
    }
    int failed = !e || !in || !e->ready || !e->base || !e->due || !e->relay || !e->at || !e->own;
    if (!failed) {
        find_ready(b, e);
        find_parts(b, e);
        count_parts(b, e);
        number_pieces(b, e);
        find_due(b, e, in);
    }
    free(in);
    return failed ? pst_fail(PST_ENOMEM, "no memory for the parts of rank %u's last pass", b->rank)
                  : PST_OK;
}

void pst_early_close(pst_job_builder *b) {
    pst_early *e = b->early;
    if (!e) return;
    free(e->ready);
    free(e->base);
    free(e->due);
    free(e->relay);
    free(e->at);
    free(e->own);
    free(e);
    b->early = NULL;
}

uint32_t pst_early_finished(const pst_job_builder *b, uint32_t param) {
    const pst_early *e = b->early;
    if (!pst_early_is_on(b) || e->ready[param] == PST_NONE || !e->ready[param]) return PST_NONE;
    return e->part_at[e->ready[param] - 1];
}
