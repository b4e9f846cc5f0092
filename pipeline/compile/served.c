/* The flush of a server with asynchronous updates: for each worker its norm, its gradients, and the
 * step with these gradients. The accumulator is the same for all workers, so that gradients of a
 * part wait for the STEP of the one before; norms have memory of their own. */
#include "pipeline/compile/served.h"

static uint32_t emit_norm(pst_job_builder *b, uint8_t opcode, uint32_t peer, uint32_t worker,
                          uint32_t channel) {
    const int announced = !pst_job_is_server(b->job, peer);
    const uint64_t bytes = (announced ? PST_NORM_DOUBLES : PST_SERVED_DOUBLES) * sizeof(double);
    pst_instr in = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    in.peer = peer;
    in.bytes = bytes;
    in.channel = channel;
    in.micro = worker;
    in.seq = announced ? 0 : worker;
    return pst_builder_emit(b, &in);
}

/* The norm of a worker: the first server receives it from there, and sends it to the others.
 * Returns its RECV. */
static uint32_t take_norm(pst_job_builder *b, uint32_t worker, uint32_t channel) {
    const uint32_t leader = pst_job_leader(b->job),
                   root = pst_grid_rank(b->job->grid, 0, worker, 0);
    const uint32_t from = b->rank == leader ? root : leader;
    const uint32_t recv = emit_norm(b, PST_OP_RECV, from, worker, channel);
    for (uint32_t r = 0; r < b->job->n_rank && b->rank == leader; r++)
        if (r != leader && pst_job_is_server(b->job, r))
            pst_builder_depend(b, emit_norm(b, PST_OP_SEND, r, worker, channel), recv);
    return recv;
}

static void receive_piece(pst_job_builder *b, const pst_piece *at, uint32_t number,
                          uint32_t channel, uint32_t worker) {
    const uint64_t bytes = at->n * sizeof(float);
    pst_instr in = pst_builder_blank(PST_OP_RECV, pst_builder_transfer_ns(b, bytes));
    in.peer = pst_grid_rank(b->job->grid, b->stage, worker, b->lane % b->job->grid.tensor);
    in.param = at->param;
    in.use = 0;
    in.from = (uint32_t)at->from;
    in.n = (uint32_t)at->n;
    in.bytes = bytes;
    in.channel = channel;
    in.seq = number;
    pst_builder_emit(b, &in);
}

/* In the order in which the worker sends them (flush_replicas.c): parameters with one use first. */
static void receive_gradients(pst_job_builder *b, uint32_t channel, uint32_t worker, int shared) {
    uint32_t first = 0;
    for (uint32_t p = b->share->n_param; p-- > 0; first += b->job->pieces[p]) {
        uint32_t number = first;
        const uint32_t uses = pst_param_gradients(&b->cut->graph->param[p]);
        if (!uses || (uses > 1) != shared || pst_builder_stage_of_use(b, p, 0) != b->stage)
            continue;
        for (pst_piece at = {.param = p}; pst_share_next(b->share, &at); number++)
            if (at.owner == b->member && b->status == PST_OK)
                receive_piece(b, &at, number, channel, worker);
    }
}

/* before: STEP of the part before, PST_NONE. Returns STEP. */
static uint32_t serve(pst_job_builder *b, uint32_t worker, pst_served_channels at,
                      uint32_t before) {
    const uint32_t first = take_norm(b, worker, at.norms);
    receive_gradients(b, at.gradients, worker, 0);
    receive_gradients(b, at.gradients, worker, 1);
    const uint32_t step = pst_builder_emit_compute(b, PST_OP_STEP, b->cost->step_ns);
    if (b->status != PST_OK) return step;
    b->instr[step].micro = worker;
    for (uint32_t i = first; i < step; i++) {
        if (before != PST_NONE && b->instr[i].n) pst_builder_depend(b, i, before);
        pst_builder_depend(b, step, i);
    }
    for (uint32_t i = 0; i < b->n_head; i++) /* they send the weights that STEP overwrites */
        pst_builder_depend(b, step, i);
    return step;
}

uint32_t pst_builder_served(pst_job_builder *b, pst_served_channels at) {
    uint32_t first = PST_NONE, before = PST_NONE;
    for (uint32_t k = 0; k < b->job->grid.data && b->status == PST_OK; k++) {
        before = serve(b, k, at, before);
        if (!k) first = before;
    }
    return first;
}
