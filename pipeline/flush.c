/* The end of a step as plain instructions: shared parameters' accumulators are added up and handed back, then the norm
 * is gathered at rank 0, answered, and every rank steps. The order is described in instr.h. */
#include "pipeline/job_parts.h"
#include <stdlib.h>

static const pst_graph *graph_of(const pst_job_builder *b) { return b->cut->graph; }

static uint32_t rank_of_use(const pst_job_builder *b, uint32_t param, uint32_t use) {
    return b->job->rank_of_chunk[b->cut->use_chunk[b->cut->use_first[param] + use]];
}

/* The first use of a parameter on a rank; its accumulator there receives the sum. */
static uint32_t first_use_on(const pst_job_builder *b, uint32_t param, uint32_t rank) {
    uint32_t n = graph_of(b)->param[param].n_use, use = 0;
    while (use < n && rank_of_use(b, param, use) != rank) use++;
    return use;
}

static uint32_t count_owned(const pst_job_builder *b, uint32_t rank) {
    const pst_graph *g = graph_of(b);
    uint32_t n = 0;
    for (uint32_t p = 0; g && p < g->n_param; p++) n += g->param[p].n_use && rank_of_use(b, p, 0) == rank;
    return n;
}

static pst_instr blank(uint8_t opcode, uint64_t ns) {
    return (pst_instr){.opcode = opcode, .local = PST_NONE, .param = PST_NONE, .use = PST_NONE, .ns = ns};
}

static uint32_t emit_compute(pst_job_builder *b, uint8_t opcode, uint64_t ns) {
    pst_instr instr = blank(opcode, ns);
    return pst_builder_emit(b, &instr);
}

/* --- shared parameters ------------------------------------------------------------------------------------------ */

/* Two channels per use of a shared parameter, from b->channel on: accumulator up to the owner, sum back. */
static uint32_t emit_accumulator(pst_job_builder *b, uint8_t opcode, uint32_t param, uint32_t use, uint32_t remote_use,
                                 int back, uint32_t peer) {
    uint64_t bytes = pst_param_elements(graph_of(b)->param + param) * sizeof(float);
    pst_instr instr = blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = param, instr.use = use, instr.peer = peer, instr.bytes = bytes;
    instr.channel = b->channel + 2 * remote_use + (uint32_t)back;
    return pst_builder_emit(b, &instr);
}

static uint32_t last_compute(const pst_job_builder *b) {
    uint32_t at = b->n_instr;
    while (at > 0 && !pst_opcode_computes(b->instr[at - 1].opcode)) at--;
    return at ? at - 1 : PST_NONE;
}

/* `at` writes memory that the lists used: it waits for the last compute instruction, and for every SEND before `limit`
 * that nothing else waited for. RECVs have been read by one of these. */
static void wait_for_all(pst_job_builder *b, uint32_t at, uint32_t limit) {
    uint8_t *named = calloc((size_t)b->n_instr + 1, 1);
    if (!named) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
        return;
    }
    uint32_t last = last_compute(b), n_pair = b->n_pair;
    for (uint32_t i = 0; i < n_pair; i++) named[b->pair[i].on] = 1;
    if (last != PST_NONE) pst_builder_depend(b, at, last);
    for (uint32_t i = 0; i < limit; i++)
        if (b->instr[i].opcode == PST_OP_SEND && !named[i]) pst_builder_depend(b, at, i);
    free(named);
}

/* The owner's side. *joined: whether the join buffer has been used in this flush. */
static void own(pst_job_builder *b, uint32_t param, uint32_t n_before, int *joined) {
    uint32_t n_use = graph_of(b)->param[param].n_use, reduce = PST_NONE;
    for (uint32_t use = 1; use < n_use && b->status == PST_OK; use++) {
        uint32_t peer = rank_of_use(b, param, use), recv = PST_NONE;
        if (peer != b->rank) {
            recv = emit_accumulator(b, PST_OP_RECV, param, use, use, 0, peer);
            if (*joined) pst_builder_depend(b, recv, last_compute(b));
            else wait_for_all(b, recv, n_before);
            *joined = 1;
        }
        reduce = emit_compute(b, PST_OP_REDUCE, b->cost->reduce_ns);
        if (b->status != PST_OK) return;
        b->instr[reduce].param = param, b->instr[reduce].use = use;
        if (recv != PST_NONE) pst_builder_depend(b, reduce, recv);
    }
    for (uint32_t use = 1; use < n_use && b->status == PST_OK; use++) {
        uint32_t peer = rank_of_use(b, param, use);
        if (peer == b->rank || first_use_on(b, param, peer) != use) continue;
        pst_builder_depend(b, emit_accumulator(b, PST_OP_SEND, param, 0, use, 1, peer), reduce);
    }
}

/* The other side; returns the RECV of the sum. */
static uint32_t lend(pst_job_builder *b, uint32_t param, uint32_t owner, uint32_t first) {
    uint32_t n_use = graph_of(b)->param[param].n_use, computed = last_compute(b), sent = PST_NONE;
    for (uint32_t use = first; use < n_use; use++) {
        if (rank_of_use(b, param, use) != b->rank) continue;
        uint32_t at = emit_accumulator(b, PST_OP_SEND, param, use, use, 0, owner);
        if (computed != PST_NONE) pst_builder_depend(b, at, computed);
        if (use == first) sent = at;
    }
    uint32_t recv = emit_accumulator(b, PST_OP_RECV, param, first, first, 1, owner);
    pst_builder_depend(b, recv, sent);
    return recv;
}

/* --- norm and step ---------------------------------------------------------------------------------------------- */

static uint32_t emit_norm(pst_job_builder *b, uint8_t opcode, uint32_t peer, uint32_t doubles, uint32_t channel) {
    uint64_t bytes = doubles * sizeof(double);
    pst_instr instr = blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.peer = peer, instr.bytes = bytes, instr.channel = channel;
    return pst_builder_emit(b, &instr);
}

static void gather(pst_job_builder *b) {
    uint32_t n = b->job->n_rank, first = b->n_instr;
    for (uint32_t r = 1; r < n; r++) emit_norm(b, PST_OP_RECV, r, 1 + count_owned(b, r), b->channel);
    uint32_t at = emit_compute(b, PST_OP_GATHER, b->cost->gather_ns);
    for (uint32_t i = first; i < at; i++) pst_builder_depend(b, at, i);
    for (uint32_t r = 1; r < n; r++) pst_builder_depend(b, emit_norm(b, PST_OP_SEND, r, 3, b->channel + 1), at);
}

void pst_builder_flush(pst_job_builder *b) {
    const pst_graph *g = graph_of(b);
    uint32_t n_param = g ? g->n_param : 0, before = b->n_instr, answer = PST_NONE;
    uint32_t *sum = malloc((n_param + 1) * sizeof *sum), n_sum = 0;
    int joined = 0;
    if (!sum) b->status = pst_fail(PST_ENOMEM, "no memory for the flush of rank %u", b->rank);
    b->channel = b->cut->n_channel;
    for (uint32_t p = 0; p < n_param && b->status == PST_OK; p++) {
        uint32_t n_use = g->param[p].n_use, owner = n_use ? rank_of_use(b, p, 0) : 0, first;
        if (n_use < 2) continue;
        if (b->channel + 2 * n_use + 2 > 0xff00) b->status = pst_fail(PST_EINPUT, "too many message channels");
        if (owner == b->rank) own(b, p, before, &joined);
        else if ((first = first_use_on(b, p, b->rank)) < n_use) sum[n_sum++] = lend(b, p, owner, first);
        b->channel += 2 * n_use;
    }
    uint32_t norm = emit_compute(b, PST_OP_NORM, b->cost->norm_ns);
    if (b->rank == 0) {
        gather(b);
    } else {
        pst_builder_depend(b, emit_norm(b, PST_OP_SEND, 0, 1 + count_owned(b, b->rank), b->channel), norm);
        answer = emit_norm(b, PST_OP_RECV, 0, 3, b->channel + 1);
    }
    uint32_t step = emit_compute(b, PST_OP_STEP, b->cost->step_ns);
    if (answer != PST_NONE) pst_builder_depend(b, step, answer);
    for (uint32_t i = 0; i < n_sum; i++) pst_builder_depend(b, step, sum[i]);
    b->n_flush = b->n_instr - before;
    free(sum);
}
