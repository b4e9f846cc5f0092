/* The exchanges of a tensor group as the executor's hooks. If the host cannot access the device's
 * memory, parts go from device to device (exchange_device.h); only the accumulators that the group
 * adds once per step are copied to the host before and back after. */
#include "base/arena.h"
#include "rank/exchange_device.h"
#include <stdlib.h>

/* --- life ------------------------------------------------------------------------------------- */

static pst_status open_exchangers(pst_rank *r, const uint32_t *members, uint32_t n) {
    PST_TRY(pst_exchanger_open(r->transport, members, n, &r->exchanger));
    return r->on_device ? pst_device_exchanger_open(r, members, n, &r->device_exchanger) : PST_OK;
}

pst_status pst_rank_exchange_open(pst_rank *r) {
    uint32_t n = pst_grid_degree(r->p->grid, r->place.stage),
             *members = malloc(n * sizeof *members);
    if (!members) return pst_fail(PST_ENOMEM, "no memory for a group of %u tensor ranks", n);
    for (uint32_t t = 0; t < n; t++)
        members[t] = pst_grid_rank(r->p->grid, r->place.stage, r->place.replica, t);
    pst_status status = open_exchangers(r, members, n);
    free(members);
    if (status != PST_OK || !r->on_device) return status;
    return r->device->ops->staging(r->device, r->memory->partial_bytes + 1, &r->partial);
}

void pst_rank_exchange_close(pst_rank *r) {
    pst_exchanger_close(r->exchanger);
    pst_device_exchanger_close(r->device_exchanger);
}

/* --- hooks ------------------------------------------------------------------------------------ */

/* Adds the blocks of the parameter's accumulators as a tree. */
static pst_status add_blocks(const pst_rank *r, uint32_t param) {
    const pst_param *p = r->graph->param + param;
    const uint64_t n = pst_param_elements(p), all = pst_param_sums(p) * sizeof(float);
    for (uint32_t u = 0; u < pst_param_gradients(p); u++)
        for (uint32_t part = 0; part < r->memory->parts; part++) {
            uint64_t at = r->memory->grad[param][u];
            if (at == UINT64_MAX) continue;
            float *sum = (float *)(void *)(r->arena.base + at + part * pst_align(all));
            for (uint32_t step = 1; step < p->slice.blocks; step *= 2)
                for (uint32_t i = 0; i + step < p->slice.blocks; i += 2 * step)
                    PST_TRY(r->arith->accumulate(r->device, sum + i * n, sum + (i + step) * n, n));
        }
    return PST_OK;
}

/* Those of this step. */
static uint8_t *partial_of(const pst_rank *r) {
    return r->arena.base + r->memory->partial + r->step % r->memory->n_set * r->memory->set_bytes;
}

/* Starts the group's sum of the partial accumulators. */
static pst_status start_partial(pst_rank *r) {
    const pst_instr reduce = {.opcode = PST_OP_REDUCE};
    uint8_t *sum = partial_of(r);
    uint64_t bytes = r->memory->partial_bytes;
    r->call.spent = r->work.ns + pst_work_of_flush(&reduce);
    r->exchange_step = NULL;
    r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, bytes);
    int spans = 0;
    for (uint32_t p = 0; p < r->graph->n_param; p++) {
        PST_TRY(add_blocks(r, p));
        spans |= pst_param_spans_ranks(r->graph, r->graph->param + p);
    }
    if (!spans) return pst_exchange_nothing(r->exchanger);
    if (r->on_device) {
        PST_TRY(pst_rank_read(r, r->partial, sum, bytes));
        sum = r->partial;
    }
    return pst_exchange_sum(r->exchanger, (float *)(void *)sum, bytes / sizeof(float));
}

/* Starts an exchange of the tensor group; the time until it is done, including waiting for the
 * others, counts as work of its kind. */
pst_status pst_rank_exchange(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro) {
    pst_rank *r = arg;
    if (!step) return start_partial(r);
    r->call.spent = r->work.ns + pst_work_of_step(r->graph, step);
    r->exchange_step = step;
    r->exchange_chunk = chunk;
    r->exchange_micro = micro;
    r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, step->bytes);
    void *from = pst_rank_operand(r, chunk, step, 0, micro),
         *to = pst_rank_operand(r, chunk, step, 1, micro);
    void *scratch = pst_memory_map_scratch(r->memory, pst_rank_cut(r), step, r->arena.base);
    const pst_graph *g = pst_rank_graph(r, micro);
    const pst_node *node = g->node + step->node;
    pst_pass pass = (pst_pass)step->pass;
    if (r->on_device)
        return pst_device_exchange_start(r->device_exchanger, node, pass, from, to, scratch);
    const pst_exchange_memory memory = {from, to, scratch};
    return pst_exchange_start(r->exchanger, g, node, pass, &memory);
}

/* Tests the exchange under way; *moves counts messages that have arrived. */
static pst_status ask(pst_rank *r, uint64_t *moves) {
    if (r->on_device && r->exchange_step)
        return pst_device_exchange_test(r->device_exchanger, moves);
    uint64_t before = pst_exchange_moves(r->exchanger);
    pst_status status = pst_exchange_test(r->exchanger);
    *moves += pst_exchange_moves(r->exchanger) - before;
    return status;
}

pst_status pst_rank_exchanged(void *arg) {
    pst_rank *r = arg;
    uint64_t moves = 0;
    pst_status status = ask(r, &moves);
    if (r->position && moves) pst_position_move(r->position);
    if (status == PST_OK && r->whole) status = pst_rank_whole_next(r);
    if (status != PST_OK) return status;
    const pst_step *step = r->exchange_step;
    if (r->on_device && !step)
        PST_TRY(pst_rank_write(r, partial_of(r), r->partial, r->memory->partial_bytes));
    uint64_t ended = pst_monotonic_ns();
    *r->call.spent += ended - r->exchange_ns;
    if (!step) return PST_OK;
    pst_rank_record_op(r, step, r->exchange_micro, r->exchange_ns, ended);
    if (!r->recorder || r->replay) return PST_OK;
    return pst_recorder_exchanged(r, r->exchange_chunk, step, r->exchange_micro);
}
