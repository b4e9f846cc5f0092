/* See rank.h; rank_norm.c has the norm of a step, rank_step.c the optimizer. */
#include "engine/rank.h"
#include "base/log.h"
#include "base/rng.h"
#include "graph/shard.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ABSENT UINT64_MAX

enum { THROTTLE_NS = 200000 }; /* a slowed rank looks at its messages as often */

/* --- where things lie ------------------------------------------------------------------------------------------- */

static void *at(const pst_rank *r, uint64_t offset) { return offset == ABSENT ? NULL : r->arena.base + offset; }

float *pst_rank_weight(const pst_rank *r, uint32_t param) { return at(r, r->layout->master[param]); }
float *pst_rank_state(const pst_rank *r, uint32_t param, uint32_t i) { return at(r, r->layout->state[i][param]); }
float *pst_rank_grad(const pst_rank *r, uint32_t param, uint32_t use) { return at(r, r->layout->grad[param][use]); }

const float *pst_rank_sum(const pst_rank *r, uint32_t param, uint64_t from) {
    const float *grad = NULL;
    for (uint32_t u = 0; u < r->graph->param[param].n_use && !grad; u++) grad = pst_rank_grad(r, param, u);
    return grad + (from - r->layout->grad_from[param]);
}

void *pst_rank_data(const pst_rank *r, uint32_t tensor, uint32_t micro) {
    uint8_t *base = at(r, r->layout->data[tensor]);
    return base ? base + micro * pst_tensor_bytes(r->graph->tensor + tensor) : NULL;
}

void *pst_rank_output(const pst_rank *r, uint32_t tensor, uint32_t micro) {
    uint8_t *base = at(r, r->layout->output[tensor]);
    return base ? base + micro * pst_tensor_bytes(r->graph->tensor + tensor) : NULL;
}

/* --- steps of programs ------------------------------------------------------------------------------------------ */

static void note_operator(pst_rank *r, const pst_step *step, uint32_t micro, uint64_t began, uint64_t ended) {
    if (!r->train || r->n_op == r->room_op) return;
    r->op[r->n_op++] = (pst_op_span){.start = began,
                                     .end = ended,
                                     .node = step->node,
                                     .micro = micro,
                                     .pass = step->pass,
                                     .is_sum = step->is_sum,
                                     .again = step->again};
}

/* As a slower device would take longer. Messages go on meanwhile. What a sleep takes too long, the next ones make up
 * for: operators are often shorter than that. */
static void slow_down(pst_rank *r, uint64_t began) {
    uint64_t now = pst_monotonic_ns();
    double owed = r->owed_ns + (r->p->throttle[r->rank] - 1) * (double)(now - began);
    for (uint64_t slept; owed >= 1; owed -= (double)(slept - now), now = slept) {
        if (r->executor) pst_executor_poll(r->executor);
        nanosleep(&(struct timespec){.tv_nsec = (long)(owed < THROTTLE_NS ? owed : THROTTLE_NS)}, NULL);
        slept = pst_monotonic_ns();
    }
    r->owed_ns = r->p->throttle[r->rank] > 1 ? owed : 0;
}

static pst_status run_kernel(pst_device *device, const void *block) {
    const pst_rank_call *c = block;
    pst_rank *r = c->rank;
    uint64_t began = pst_monotonic_ns();
    pst_status status = c->kernel->launch(device, &c->call);
    uint64_t computed = pst_monotonic_ns();
    slow_down(r, began);
    *c->spent += pst_monotonic_ns() - began;
    note_operator(r, c->step, c->micro, began, computed); /* what parallel.measured takes is of the device as it is */
    return status;
}

static const pst_cut *cut_of(const pst_rank *r) { return r->train || !r->eval_cut ? r->cut : r->eval_cut; }

static void *address_of(const pst_rank *r, uint32_t chunk, const pst_step *step, uint32_t operand, uint32_t micro) {
    const pst_slots *slots = r->train || !r->eval_cut ? r->slots : r->eval_slots;
    return pst_layout_address(r->layout, cut_of(r), slots, r->graph, chunk, &step->operand[operand], micro,
                              r->arena.base);
}

/* Whether a step writes its gradients anew instead of adding to them: the first micro-batch of an accumulator, and each
 * where gradients are shared out. A step's gradients are alike in that (share.h). */
static int begins(const pst_rank *r, const pst_step *step, uint32_t micro) {
    for (uint32_t i = 0; i < step->n_operand; i++)
        if (step->operand[i].kind == PST_OPERAND_DPARAM && r->layout->fresh[step->operand[i].index] != ABSENT) return 1;
    return micro % r->part_micros == 0;
}

static pst_status step_hook(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro, pst_launch_fn *fn,
                            const void **block) {
    pst_rank *r = arg;
    const pst_prepared *p = r->p;
    const pst_graph *g = r->graph;
    const pst_cut *cut = cut_of(r);
    pst_rank_call *c = &r->call;
    c->kernel = pst_registry_kernel(step->kernel);
    c->spent = r->work.ns + pst_work_of_step(g, step);
    c->rank = r, c->step = step, c->chunk = chunk, c->micro = micro;
    for (uint32_t i = 0; i < step->n_operand; i++) c->arg[i] = address_of(r, chunk, step, i, micro);
    c->call = (pst_call){.graph = g,
                         .node = g->node + step->node,
                         .arg = c->arg,
                         .scratch = pst_layout_scratch(r->layout, cut, step, r->arena.base),
                         .seed = (uint64_t)p->config->train.seed,
                         .first = begins(r, step, micro),
                         .train = r->train,
                         .sample = r->sample + (uint64_t)micro * g->micro_batch,
                         .loss_scale = (float)r->loss_scale * (1.0f / (float)p->targets)};
    *fn = r->replay ? pst_replay_kernel : run_kernel;
    *block = c;
    return PST_OK;
}

/* The group's sum of the accumulators that are partial. */
static pst_status start_partial(pst_rank *r) {
    const pst_instr reduce = {.opcode = PST_OP_REDUCE};
    r->call.spent = r->work.ns + pst_work_of_flush(&reduce);
    r->exchange_step = NULL, r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, r->layout->partial_bytes);
    return pst_exchange_sum(r->exchanger, at(r, r->layout->partial), r->layout->partial_bytes / sizeof(float));
}

/* A step of the tensor group; the time until it is done counts as work of its kind, waiting for the others included. */
static pst_status exchange_hook(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro) {
    pst_rank *r = arg;
    if (!step) return start_partial(r);
    r->call.spent = r->work.ns + pst_work_of_step(r->graph, step);
    r->exchange_step = step, r->exchange_micro = micro, r->exchange_ns = pst_monotonic_ns();
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, step->bytes);
    return pst_exchange_start(r->exchanger, r->graph, r->graph->node + step->node, (pst_pass)step->pass,
                              address_of(r, chunk, step, 0, micro), address_of(r, chunk, step, 1, micro),
                              pst_layout_scratch(r->layout, cut_of(r), step, r->arena.base));
}

static pst_status exchanged_hook(void *arg) {
    pst_rank *r = arg;
    uint64_t moves = pst_exchange_moves(r->exchanger);
    pst_status status = pst_exchange_test(r->exchanger);
    if (r->position && pst_exchange_moves(r->exchanger) != moves) pst_position_move(r->position);
    if (status != PST_OK) return status;
    uint64_t ended = pst_monotonic_ns();
    const pst_step *step = r->exchange_step;
    *r->call.spent += ended - r->exchange_ns;
    if (step) note_operator(r, step, r->exchange_micro, r->exchange_ns, ended);
    return PST_OK;
}

/* --- flush ------------------------------------------------------------------------------------------------------ */

static pst_status reduce(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    const pst_instr *in = f->instr;
    pst_rank *r = f->rank;
    float *sum, *operand;
    uint64_t n = in->n ? in->n : pst_param_elements(r->graph->param + in->param);
    pst_layout_reduce(r->layout, r->slots, r->graph, in, r->arena.base, &sum, &operand);
    if (in->into == PST_INTO_SHARD && in->micro == 0) memcpy(sum, operand, n * sizeof *sum); /* the first round */
    else r->flat->accumulate(device->pool, sum, operand, n);
    if (r->replay) pst_replay_reduced(r, in->param, sum, in->from, n);
    return PST_OK;
}

void pst_rank_refresh(pst_rank *r) {
    const pst_graph *g = r->graph;
    for (uint32_t i = 0; i < g->n_param; i++)
        pst_rank_refresh_part(r, i, r->layout->step_from[i], r->layout->step_to[i]);
}

static pst_status run_flush(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    uint64_t began = pst_monotonic_ns();
    pst_status status = f->fn(device, block);
    slow_down(f->rank, began);
    return status;
}

static pst_status flush_hook(void *arg, const pst_instr *instr, pst_launch_fn *fn, const void **block) {
    pst_rank *r = arg;
    r->flush = (pst_rank_flush){.rank = r, .instr = instr};
    *block = &r->flush;
    *fn = run_flush;
    r->flush.fn = instr->opcode == PST_OP_REDUCE     ? reduce
                  : instr->opcode == PST_OP_NORM     ? pst_rank_norm
                  : instr->opcode == PST_OP_GATHER   ? pst_rank_gather
                  : instr->opcode == PST_OP_VALIDATE ? pst_rank_validate
                                                     : pst_rank_step;
    return PST_OK;
}

/* --- messages --------------------------------------------------------------------------------------------------- */

static void *memory_hook(void *arg, const pst_instr *instr) {
    pst_rank *r = arg;
    int eval = !r->train && r->eval_cut;
    return pst_layout_message(r->layout, cut_of(r), eval ? r->eval_slots : r->slots, r->graph, instr, r->arena.base);
}

/* --- life ------------------------------------------------------------------------------------------------------- */

static void poll_executor(void *arg) {
    pst_rank *r = arg;
    if (r->executor) pst_executor_poll(r->executor);
}

static pst_status open_device(pst_rank *r) {
    const pst_device_ops *ops;
    const char *name = r->p->config->parallel.device;
    pst_device_config config = {.threads = r->p->options.threads, .poll = poll_executor, .poll_arg = r};
    PST_TRY(pst_registry_device(name, &config, &ops));
    return ops->open(&config, &r->device);
}

static pst_status open_executor(pst_rank *r, volatile uint64_t *last_instr) {
    pst_executor_config config = {.rank = r->rank,
                                  .device = r->device,
                                  .transport = r->transport,
                                  .hooks = {r, step_hook, flush_hook, memory_hook, NULL, NULL},
                                  .last_instr = last_instr,
                                  .position = r->position};
    if (r->exchanger) config.hooks.exchange = exchange_hook, config.hooks.exchanged = exchanged_hook;
    return pst_executor_open(&config, &r->executor);
}

/* A device that computes nothing exchanges nothing. */
static pst_status open_exchanger(pst_rank *r) {
    uint32_t n = r->p->grid.tensor, *members = malloc(n * sizeof *members);
    if (!members) return pst_fail(PST_ENOMEM, "no memory for a group of %u tensor ranks", n);
    for (uint32_t t = 0; t < n; t++) members[t] = pst_grid_rank(r->p->grid, r->at.stage, r->at.replica, t);
    pst_status status = pst_exchanger_open(r->transport, members, n, &r->exchanger);
    free(members);
    return status;
}

enum { MOST_LAUNCHES = 16384 };

uint32_t pst_rank_launches(const pst_prepared *p, uint32_t rank) {
    const pst_instr_list *list = p->job->list + rank;
    uint64_t n = 0;
    for (uint32_t i = 0; p->optim && i < list->n_instr - list->n_flush; i++)
        if (list->instr[i].opcode <= PST_OP_BW)
            n += p->cut->chunk[list->instr[i].chunk].program[list->instr[i].opcode].n_step;
    return n <= MOST_LAUNCHES ? (uint32_t)n : 0;
}

pst_status pst_rank_open(const pst_prepared *p, uint32_t rank, pst_transport *transport, int canary,
                         volatile uint64_t *last_instr, pst_position *position, pst_rank **out) {
    pst_rank *r = calloc(1, sizeof *r);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for rank %u", rank);
    r->p = p;
    r->rank = rank;
    r->at = pst_grid_at(p->grid, rank);
    r->graph = p->graphs[r->at.tensor], r->cut = p->cuts[r->at.tensor], r->eval_cut = p->eval_cuts[r->at.tensor];
    r->layout = p->layout[rank];
    r->slots = p->slots[pst_grid_lane(p->grid, rank)];
    r->eval_slots = p->eval_slots[pst_grid_lane(p->grid, rank)];
    r->micro = p->micro[r->at.replica], r->n_micro = p->micro[r->at.replica + 1] - r->micro;
    r->part_micros = r->layout->parts > 1 ? r->layout->part_micros : UINT32_MAX;
    r->eval_micro = p->eval_micro[r->at.replica], r->n_eval_micro = p->eval_micro[r->at.replica + 1] - r->eval_micro;
    r->transport = transport;
    r->position = position;
    r->flat = pst_flat_choose(p->options.isa);
    r->loss_scale = 1;
    r->room_op = pst_rank_launches(p, rank);
    r->op = calloc(r->room_op + (size_t)1, sizeof *r->op);
    pst_status status = r->op ? open_device(r) : pst_fail(PST_ENOMEM, "no memory to note the operators of a step");
    if (status == PST_OK) status = pst_arena_open(r->layout->total, canary, &r->arena);
    if (status == PST_OK) status = pst_coll_open(transport, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll);
    if (status == PST_OK && position) pst_coll_watch(r->coll, position);
    if (status == PST_OK && p->grid.tensor > 1 && strcmp(r->device->ops->name, "timed")) status = open_exchanger(r);
    if (status == PST_OK) status = open_executor(r, last_instr);
    if (status == PST_OK && rank == 0 && p->optim) status = pst_rank_find_terms(r);
    if (status != PST_OK) {
        pst_rank_close(r);
        return status;
    }
    *out = r;
    return PST_OK;
}

void pst_rank_close(pst_rank *r) {
    if (!r) return;
    if (r->executor) pst_executor_close(r->executor);
    pst_exchanger_close(r->exchanger);
    if (r->coll) pst_coll_close(r->coll);
    if (r->device) r->device->ops->close(r->device);
    pst_arena_close(&r->arena);
    free(r->term), free(r->op);
    free(r);
}

/* Of each run of what is held of the parameter, what is stepped here. */
static void init_param(const pst_rank *r, uint32_t p) {
    const pst_param *param = r->graph->param + p;
    float *w = pst_rank_weight(r, p);
    uint64_t from = r->layout->step_from[p], to = r->layout->step_to[p], before = 0;
    uint64_t key = pst_rng_key((uint64_t)r->p->config->train.seed, param->name), at, count;
    for (uint64_t i = 0; w && pst_param_run(param, i, &at, &count); i++, before += count) {
        uint64_t low = from > before ? from : before, high = to < before + count ? to : before + count;
        if (low >= high) continue;
        if (param->init == PST_INIT_NORMAL)
            pst_rng_normal_from(key, 0, param->std, at + (low - before), w + (low - from), high - low);
        else
            for (uint64_t k = low; k < high; k++) w[k - from] = param->init == PST_INIT_ONE ? 1.0f : 0.0f;
    }
}

pst_status pst_rank_init_weights(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        init_param(r, i);
        for (uint32_t s = 0; r->p->optim && s < r->p->optim->n_state; s++)
            if (pst_rank_state(r, i, s))
                memset(pst_rank_state(r, i, s), 0, (r->layout->step_to[i] - r->layout->step_from[i]) * sizeof(float));
    }
    pst_rank_refresh(r);
    return PST_OK;
}

static void begin(pst_rank *r, int train) {
    r->train = train;
    r->work = (pst_work){0};
    r->n_op = 0;
    if (!r->position) return;
    PST_POSITION_SET(r->position, train, (uint32_t)(train || !r->eval_cut));
    PST_POSITION_SET(r->position, train_step, r->hyper.t);
}

pst_status pst_rank_start(pst_rank *r, int train) {
    begin(r, train);
    return pst_executor_start(r->executor, !train && r->eval_cut ? r->p->eval_job : r->p->job, cut_of(r));
}

pst_status pst_rank_start_head(pst_rank *r) {
    begin(r, 1);
    return pst_executor_start_head(r->executor, r->p->job, r->cut);
}
