/* The exchanges of a tensor group as the executor's hooks. Collectives move and add memory of the host: on a device that
 * the host cannot reach, what is exchanged is copied here before and back behind. */
#include "engine/rank.h"
#include <stdlib.h>
#include <string.h>

/* Room for the largest exchange, and where the one under way goes back to. */
struct pst_rank_mirror {
    uint8_t *from, *to, *scratch;
    const uint8_t *result; /* from or to */
    uint8_t *device_to;
    uint64_t bytes;
};

/* --- life --------------------------------------------------------------------------------------------------------- */

static pst_status open_exchanger(pst_rank *r) {
    uint32_t n = pst_grid_degree(r->p->grid, r->at.stage), *members = malloc(n * sizeof *members);
    if (!members) return pst_fail(PST_ENOMEM, "no memory for a group of %u tensor ranks", n);
    for (uint32_t t = 0; t < n; t++) members[t] = pst_grid_rank(r->p->grid, r->at.stage, r->at.replica, t);
    pst_status status = pst_exchanger_open(r->transport, members, n, &r->exchanger);
    free(members);
    return status;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Of an exchange's two tensors; B goes from the gradient of the second to that of the first. */
static uint64_t bytes_in(const pst_graph *g, const pst_node *node, pst_pass pass) {
    return pst_tensor_bytes(g->tensor + (pass == PST_PASS_F ? node->in[0] : node->out[0]));
}

static uint64_t bytes_out(const pst_graph *g, const pst_node *node, pst_pass pass) {
    return pst_tensor_bytes(g->tensor + (pass == PST_PASS_F ? node->out[0] : node->in[0]));
}

static pst_status open_mirror(pst_rank *r) {
    const pst_graph *g = r->graph;
    uint64_t most = r->layout->partial_bytes, scratch = 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (pst_pass pass = 0; pass < PST_PASS_COUNT; pass++) {
            if (g->node[i].op->exchange[pass] == PST_EXCHANGE_NONE) continue;
            most = larger(most, larger(bytes_in(g, g->node + i, pass), bytes_out(g, g->node + i, pass)));
            scratch = larger(scratch, pst_exchange_scratch(g, g->node + i, pass));
        }
    struct pst_rank_mirror *m = r->mirror = calloc(1, sizeof *m);
    void *all;
    if (!m) return pst_fail(PST_ENOMEM, "no memory to exchange");
    most = pst_align(most);
    PST_TRY(r->device->ops->staging(r->device, 2 * most + scratch + 1, &all));
    m->from = all, m->to = m->from + most, m->scratch = m->to + most;
    return PST_OK;
}

pst_status pst_rank_exchange_open(pst_rank *r) {
    PST_TRY(open_exchanger(r));
    return r->far ? open_mirror(r) : PST_OK;
}

void pst_rank_exchange_close(pst_rank *r) {
    pst_exchanger_close(r->exchanger);
    free(r->mirror);
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

/* The group's sum of the accumulators that are partial. */
static pst_status start_partial(pst_rank *r) {
    const pst_instr reduce = {.opcode = PST_OP_REDUCE};
    uint8_t *sum = r->arena.base + r->layout->partial;
    uint64_t bytes = r->layout->partial_bytes;
    r->call.spent = r->work.ns + pst_work_of_flush(&reduce);
    r->exchange_step = NULL, r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, bytes);
    if (r->far) {
        r->mirror->result = r->mirror->to, r->mirror->device_to = sum, r->mirror->bytes = bytes;
        PST_TRY(pst_rank_read(r, r->mirror->to, sum, bytes));
        sum = r->mirror->to;
    }
    return pst_exchange_sum(r->exchanger, (float *)(void *)sum, bytes / sizeof(float));
}

/* Some are done in place: both ends are one then, here as there. */
static pst_status start_mirrored(pst_rank *r, const pst_step *step, uint8_t *from, uint8_t *to) {
    struct pst_rank_mirror *m = r->mirror;
    const pst_node *node = r->graph->node + step->node;
    pst_pass pass = (pst_pass)step->pass;
    uint8_t *out = to == from ? m->from : m->to;
    m->result = out, m->device_to = to, m->bytes = bytes_out(r->graph, node, pass);
    PST_TRY(pst_rank_read(r, m->from, from, bytes_in(r->graph, node, pass)));
    return pst_exchange_start(r->exchanger, r->graph, node, pass, m->from, out, m->scratch);
}

/* A step of the tensor group; the time until it is done counts as work of its kind, waiting for the others included. */
pst_status pst_rank_exchange(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro) {
    pst_rank *r = arg;
    if (!step) return start_partial(r);
    r->call.spent = r->work.ns + pst_work_of_step(r->graph, step);
    r->exchange_step = step, r->exchange_micro = micro, r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, step->bytes);
    void *from = pst_rank_operand(r, chunk, step, 0, micro), *to = pst_rank_operand(r, chunk, step, 1, micro);
    if (r->far) return start_mirrored(r, step, from, to);
    return pst_exchange_start(r->exchanger, r->graph, r->graph->node + step->node, (pst_pass)step->pass, from, to,
                              pst_layout_scratch(r->layout, pst_rank_cut(r), step, r->arena.base));
}

pst_status pst_rank_exchanged(void *arg) {
    pst_rank *r = arg;
    uint64_t moves = pst_exchange_moves(r->exchanger);
    pst_status status = pst_exchange_test(r->exchanger);
    if (r->position && pst_exchange_moves(r->exchanger) != moves) pst_position_move(r->position);
    if (status != PST_OK) return status;
    const struct pst_rank_mirror *m = r->mirror;
    if (m) PST_TRY(pst_rank_write(r, m->device_to, m->result, m->bytes));
    uint64_t ended = pst_monotonic_ns();
    const pst_step *step = r->exchange_step;
    *r->call.spent += ended - r->exchange_ns;
    if (step) pst_rank_note(r, step, r->exchange_micro, r->exchange_ns, ended);
    return PST_OK;
}
