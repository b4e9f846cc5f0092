/* See rank.h: the hooks of the executor, opening and closing of a rank. */
#include "rank/rank.h"
#include "rank/repeat.h"
#include "rank/exchange_device.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ABSENT UINT64_MAX

enum { THROTTLE_NS = 200000 }; /* poll interval of a throttled rank */

/* --- steps of programs ------------------------------------------------------------------------ */

/* Sleeps as long as a slower device would have needed, polling messages meanwhile. If a sleep takes
 * too long, later ones are shortened: operators are often shorter than a sleep. */
static void throttle(pst_rank *r, uint64_t began) {
    uint64_t now = pst_monotonic_ns();
    double owed = r->sleep_ns + (r->p->throttle[r->rank] - 1) * (double)(now - began);
    for (uint64_t slept; owed >= 1; owed -= (double)(slept - now), now = slept) {
        if (r->executor) pst_executor_poll(r->executor);
        nanosleep(&(struct timespec){.tv_nsec = (long)(owed < THROTTLE_NS ? owed : THROTTLE_NS)},
                  NULL);
        slept = pst_monotonic_ns();
    }
    r->sleep_ns = r->p->throttle[r->rank] > 1 ? owed : 0;
}

static pst_status run_kernel(pst_device *device, const void *block) {
    (void)device; /* the rank's */
    const pst_rank_call *c = block;
    pst_rank *r = c->rank;
    uint64_t began = pst_monotonic_ns();
    pst_status status = pst_rank_launch(c);
    if (r->device->ops->flags & PST_DEVICE_ASYNC) return status; /* ended_hook records it */
    uint64_t computed = pst_monotonic_ns();
    throttle(r, began);
    *c->spent += pst_monotonic_ns() - began;
    /* without the throttling: parallel.measured describes the real device */
    pst_rank_record_op(r, c->step, c->micro, began, computed);
    return status;
}

static pst_status run_recorded(pst_device *device, const void *block) {
    const pst_rank_call *c = block;
    const pst_recorder_launch launch = {c->step, c->chunk, c->micro, c->arg};
    pst_repeat repeat;
    PST_TRY(pst_recorder_before(c->rank, &launch));
    PST_TRY(pst_repeat_open(c, &repeat));
    pst_status status = run_kernel(device, block);
    if (status == PST_OK) status = pst_recorder_after(c->rank, &launch);
    if (status == PST_OK) status = pst_repeat_run(c, &repeat);
    pst_repeat_close(&repeat);
    return status;
}

/* Whether a step overwrites its gradients instead of adding to them: in the first micro-batch of an
 * accumulator, and always for sharded gradients. All gradients of one step are the same in this
 * respect (share.h). */
static int overwrites(const pst_rank *r, const pst_step *step, uint32_t micro) {
    for (uint32_t i = 0; i < step->n_operand; i++)
        if (step->operand[i].kind == PST_OPERAND_DPARAM &&
            r->memory->gradient_in_slot[step->operand[i].index] != ABSENT)
            return 1;
    return micro % r->part_micros == 0;
}

static void ended_hook(void *arg, const pst_step *step, uint32_t micro, uint64_t start_ns,
                       uint64_t end_ns) {
    pst_rank *r = arg;
    r->work.ns[pst_work_of_step(r->graph, step)] += end_ns - start_ns;
    pst_rank_record_op(r, step, micro, start_ns, end_ns);
}

static pst_status step_hook(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro,
                            pst_launch_fn *fn, const void **block) {
    pst_rank *r = arg;
    const pst_prepared *p = r->p;
    const pst_graph *g = pst_rank_graph(r, micro);
    const pst_cut *cut = pst_rank_cut(r);
    const pst_layout *l = &p->plan->layout;
    const uint64_t averaged = g->node[step->node].attr.per_sample ? r->samples : r->targets;
    pst_rank_call *c = &r->call;
    const int computes = !step->exchange && !pst_extra_packs(step->extra);
    c->kernel = computes ? pst_registry_kernel(step->kernel) : NULL;
    c->spent = r->work.ns + pst_work_of_step(g, step);
    c->rank = r;
    c->step = step;
    c->chunk = chunk;
    c->micro = micro;
    for (uint32_t i = 0; i < step->n_operand; i++)
        c->arg[i] = pst_rank_operand(r, chunk, step, i, micro);
    c->call = (pst_call){.graph = g,
                         .node = g->node + step->node,
                         .arg = c->arg,
                         .scratch = pst_memory_map_scratch(r->memory, cut, step, r->arena.base),
                         .seed = (uint64_t)p->config->train.seed,
                         .first = overwrites(r, step, micro),
                         .train = r->train,
                         .step = r->step,
                         .sample = r->sample + pst_layout_samples(l, r->micro, r->micro + micro),
                         .loss_scale = (float)r->loss_scale * (1.0f / (float)averaged)};
    *fn = r->recorder ? run_recorded : run_kernel;
    if (r->replay) *fn = pst_replay_kernel;
    if (step->exchange) *fn = pst_device_exchange_queue;
    *block = c;
    return PST_OK;
}

/* --- flush ------------------------------------------------------------------------------------ */

static pst_status reduce(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    const pst_instr *in = f->instr;
    pst_rank *r = f->rank;
    float *sum, *operand;
    uint64_t n = in->n ? in->n : pst_param_elements(r->graph->param + in->param);
    const pst_memory_view view = pst_rank_view(r);
    pst_memory_map_reduce(&view, in, &sum, &operand);
    if (in->packed) {
        PST_TRY(r->arith->unpack(device,
                                 pst_job_codec(r->p->job, r->graph->param + in->param, in->from),
                                 pst_memory_map_packed(&view, in), sum, n, 1));
        return r->replay ? pst_replay_reduced(r, in->param, sum, in->from, n) : PST_OK;
    }
    if (in->bytes) pst_bf16_round(in->into ? operand : sum, n);
    const int copies = in->into == PST_INTO_ACCUMULATOR && in->micro == 0; /* first round */
    const int beside = in->queue == PST_Q_SIDE;
    if (copies && beside) PST_TRY(pst_rank_copy_beside(r, sum, operand, n * sizeof *sum));
    else if (copies) PST_TRY(pst_rank_copy(r, sum, operand, n * sizeof *sum));
    else PST_TRY(r->arith->accumulate(device, sum, operand, n));
    if (!r->replay) return PST_OK;
    if (beside) PST_TRY(pst_rank_wait_beside(r));
    return pst_replay_reduced(r, in->param, sum, in->from, n);
}

static pst_status run_flush(pst_device *device, const void *block) {
    const pst_rank_flush *f = block;
    uint64_t began = pst_monotonic_ns();
    pst_status status = f->fn(device, block);
    throttle(f->rank, began);
    return status;
}

static pst_status flush_hook(void *arg, const pst_instr *instr, pst_launch_fn *fn,
                             const void **block) {
    pst_rank *r = arg;
    r->flush = (pst_rank_flush){.rank = r, .instr = instr};
    *block = &r->flush;
    *fn = run_flush;
    switch (instr->opcode) {
    case PST_OP_PACK: r->flush.fn = pst_rank_pack; break;
    case PST_OP_UNPACK: r->flush.fn = pst_rank_unpack; break;
    case PST_OP_REDUCE: r->flush.fn = reduce; break;
    case PST_OP_NORM: r->flush.fn = pst_rank_norm; break;
    case PST_OP_GATHER: r->flush.fn = pst_rank_gather; break;
    case PST_OP_VALIDATE: r->flush.fn = pst_rank_validate; break;
    case PST_OP_OUTER: r->flush.fn = pst_rank_outer; break;
    default: r->flush.fn = pst_rank_step;
    }
    return PST_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

static void *memory_hook(void *arg, const pst_instr *instr) {
    const pst_memory_view view = pst_rank_view(arg);
    return pst_memory_map_message(&view, instr);
}

/* --- life ------------------------------------------------------------------------------------- */

static void poll_executor(void *arg) {
    pst_rank *r = arg;
    if (r->executor) pst_executor_poll(r->executor);
}

/* Opens the device of the preparation; if that had none, the CPU or the one that parallel.device
 * names. */
static pst_status open_device(pst_rank *r) {
    const pst_device_ops *ops = r->p->options.device;
    const char *name = r->p->config->parallel.device;
    uint32_t local = r->p->options.local;
    pst_device_config config = {.threads = r->p->options.threads,
                                .poll = poll_executor,
                                .poll_arg = r,
                                .local = local ? local - 1 : r->rank};
    if (!ops)
        PST_TRY(
            pst_registry_device(strcmp(name, "auto") ? name : pst_device_cpu.name, &config, &ops));
    PST_TRY(ops->open(&config, &r->device));
    r->on_device = (ops->flags & PST_DEVICE_OWN_MEMORY) != 0;
    r->loss_limit = r->norm_limit = INFINITY;
    r->arith = pst_registry_arith(ops);
    return PST_OK;
}

/* The matrices that this rank orthogonalizes, with Muon. */
static pst_status prepare_matrices(const pst_rank *r) {
    for (uint32_t i = 0; r->arith->muon_prepare && i < r->graph->n_param; i++) {
        if (!r->graph->param[i].matrix || !pst_rank_steps(r, i)) continue;
        const pst_muon_rule rule = pst_rank_muon_rule(r, NULL, i);
        PST_TRY(r->arith->muon_prepare(r->device, &rule));
    }
    return PST_OK;
}

/* Lets the kernels of a pass set up what they need. */
static pst_status prepare_pass(pst_rank *r, const pst_prepared *p, const pst_instr *in) {
    const uint32_t t = r->place.tensor;
    const pst_graph *g = in->rest ? p->rests[t] : r->graph;
    uint32_t n;
    const pst_step *first = pst_job_steps(p->cuts[t], in, &n);
    for (const pst_step *step = first; step < first + n; step++) {
        const int computes = !step->exchange && !pst_extra_packs(step->extra);
        const pst_kernel_row *row = computes ? pst_registry_kernel(step->kernel) : NULL;
        if (!row || !row->prepare) continue;
        PST_TRY(row->prepare(r->device, g, g->node + step->node));
    }
    return PST_OK;
}

/* rests: only those of the smaller first micro-batch. */
static pst_status prepare_passes(pst_rank *r, const pst_prepared *p, int rests) {
    const pst_instr_list *list = p->job->list + r->rank;
    for (uint32_t i = 0; i < list->n_instr; i++)
        if (list->instr[i].opcode <= PST_OP_BW && (!rests || list->instr[i].rest))
            PST_TRY(prepare_pass(r, p, list->instr + i));
    return PST_OK;
}

/* Lets kernels set up what they need before the first step, also those of steps with other lists,
 * whose first micro-batch may have other sizes. */
static pst_status prepare_kernels(pst_rank *r) {
    const pst_prepared *other;
    PST_TRY(prepare_passes(r, r->p, 0));
    for (uint32_t i = 0; (other = pst_prepared_other(r->p, i)) != NULL; i++)
        if (other->rests) PST_TRY(prepare_passes(r, other, 1));
    return prepare_matrices(r);
}

/* The workspace of kernels is not in the memory map, but counts against the limit of memory. */
static pst_status check_workspace(const pst_rank *r) {
    uint64_t workspace =
                 r->device->ops->workspace_bytes ? r->device->ops->workspace_bytes(r->device) : 0,
             limit = pst_prepare_usable_bytes(r->p, r->p->memory_limit, r->rank);
    if (!workspace || !limit || r->memory->total + workspace <= limit) return PST_OK;
    return pst_fail(PST_ENOMEM,
                    "rank %u needs %.2f MiB of memory and %.2f MiB of workspace for its kernels; "
                    "the limit is %.2f MiB",
                    r->rank, (double)r->memory->total / 0x1p20, (double)workspace / 0x1p20,
                    (double)limit / 0x1p20);
}

static pst_status open_executor(pst_rank *r, volatile uint64_t *last_instr) {
    pst_executor_config config = {.rank = r->rank,
                                  .device = r->device,
                                  .transport = r->staged ? r->staged : r->transport,
                                  .hooks = {.arg = r,
                                            .step = step_hook,
                                            .flush = flush_hook,
                                            .memory = memory_hook,
                                            .ended = ended_hook},
                                  .times = &r->each,
                                  .wait_for_exchanges = &r->careful,
                                  .last_instr = last_instr,
                                  .position = r->position};
    if (r->exchanger) {
        config.hooks.exchange = pst_rank_exchange;
        config.hooks.exchanged = pst_rank_exchanged;
        config.hooks.queues_exchanges = pst_device_exchange_queues(r);
        config.hooks.step_exchange = r->whole ? pst_rank_step_exchange : NULL;
    }
    if (!strcmp(r->p->config->parallel.graphs, "true")) config.hooks.captures = pst_rank_captures;
    return pst_executor_open(&config, &r->executor);
}

enum { MAX_LAUNCHES = 16384 };

uint32_t pst_rank_launches(const pst_prepared *p, uint32_t rank) {
    const pst_instr_list *list = p->job->list + rank;
    uint64_t n = 0;
    for (uint32_t i = 0; p->optim && i < list->n_instr - list->n_flush; i++)
        if (list->instr[i].opcode <= PST_OP_BW) {
            uint32_t steps;
            pst_job_steps(p->cut, list->instr + i, &steps);
            n += steps;
        }
    return n <= MAX_LAUNCHES ? (uint32_t)n : 0;
}

/* Selects this rank's parts of p. */
static void assign(pst_rank *r, const pst_prepared *p) {
    const uint32_t rank = r->rank;
    r->p = p;
    r->place = pst_grid_at(p->grid, rank);
    r->cut = p->cuts[r->place.tensor];
    r->eval_cut = p->eval_cuts[r->place.tensor];
    r->memory = p->memory[rank];
    r->slots = p->slots[pst_grid_lane(p->grid, rank)];
    r->eval_slots = p->eval_slots[pst_grid_lane(p->grid, rank)];
    r->micro = p->micro[r->place.replica];
    r->n_micro = p->micro[r->place.replica + 1] - r->micro;
    r->part_micros = r->memory->parts > 1 ? r->memory->part_micros : UINT32_MAX;
    r->eval_micro = p->eval_micro[r->place.replica];
    r->n_eval_micro = p->eval_micro[r->place.replica + 1] - r->eval_micro;
    uint32_t group = pst_job_norm_replicas(p->job),
             first = pst_job_norm_first(p->job, r->place.replica);
    if (first >= p->grid.data) first = 0; /* a server, until it takes the gradients of a worker */
    r->island_micros = p->micro[first + group] - p->micro[first];
    r->samples = pst_layout_samples(&p->plan->layout, p->micro[first], p->micro[first + group]);
    r->targets = p->targets / pst_prepared_batch(p) * r->samples;
    r->rest = p->rests ? p->rests[r->place.tensor] : NULL;
}

pst_status pst_rank_use(pst_rank *r, const pst_prepared *p) {
    if (r->p == p) return PST_OK;
    /* The graph stays: devices have prepared its nodes, and keep fp8 scales by node. */
    assign(r, p);
    r->n_begun[1] = 0; /* the addresses have changed: nothing is assumed of the first list */
    pst_rank_norm_close(r);
    return pst_rank_norm_open(r);
}

/* Delayed updates: the first steps exchange the gradients of steps that there were not. */
static pst_status clear_sets(const pst_rank *r) {
    const pst_memory_map *x = r->memory;
    if (x->n_set == 1) return PST_OK;
    return pst_rank_fill(r, r->arena.base + x->start[PST_REGION_GRAD], 0, x->n_set * x->set_bytes);
}

pst_status pst_rank_open(const pst_prepared *p, uint32_t rank, pst_transport *transport, int canary,
                         const pst_rank_watch *watch, pst_rank **out) {
    pst_rank *r = calloc(1, sizeof *r);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for rank %u", rank);
    r->rank = rank;
    assign(r, p);
    r->graph = p->graphs[r->place.tensor];
    r->loss_scale = 1;
    r->times = 1;
    r->max_op = pst_rank_launches(p, rank);
    r->transport = transport;
    r->position = watch->position;
    r->op = calloc(r->max_op + (size_t)1, sizeof *r->op);
    pst_status status = r->op ? open_device(r)
                              : pst_fail(PST_ENOMEM, "no memory to record the operators of a step");
    if (status == PST_OK) status = pst_rank_load_autotuned(p, r->device);
    if (status == PST_OK) status = prepare_kernels(r);
    if (status == PST_OK) status = check_workspace(r);
    if (status == PST_OK) status = pst_rank_memory_open(r, canary);
    if (status == PST_OK) status = clear_sets(r);
    if (status == PST_OK)
        status = pst_coll_open(transport, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll);
    if (status == PST_OK && r->position) pst_coll_watch(r->coll, r->position);
    if (status == PST_OK && (pst_grid_degree(p->grid, r->place.stage) > 1 || r->graph->blocks) &&
        strcmp(r->device->ops->name, "timed"))
        status = pst_rank_exchange_open(r); /* device timed computes nothing */
    if (status == PST_OK) status = pst_rank_transport_open(r);
    if (status == PST_OK) status = pst_rank_whole_open(r);
    if (status == PST_OK && p->job->async && r->memory->serves)
        status = pst_serving_open(p->grid.data, pst_prepare_ahead(p->config), &r->serving);
    if (status == PST_OK) status = open_executor(r, watch->last_instr);
    if (status == PST_OK && p->optim) status = pst_rank_norm_open(r);
    if (status == PST_OK) status = pst_recorder_open(r, &r->recorder);
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
    pst_serving_close(r->serving);
    if (r->staged) r->staged->ops->close(r->staged);
    pst_rank_exchange_close(r);
    if (r->coll) pst_coll_close(r->coll);
    pst_rank_norm_close(r);
    pst_rank_whole_close(r);
    pst_recorder_close(r->recorder);
    if (r->device) r->device->ops->close(r->device);
    pst_rank_memory_close(r);
    free(r->op);
    free(r);
}

static void begin(pst_rank *r, int train) {
    r->train = train;
    r->each = train && r->times;
    r->careful = r->replay || !r->n_begun[train]++;
    r->work = (pst_work){0};
    r->n_op = 0;
    if (!r->position) return;
    PST_POSITION_SET(r->position, train, (uint32_t)(train || !r->eval_cut));
    PST_POSITION_SET(r->position, train_step, r->hyper.t);
}

pst_status pst_rank_start(pst_rank *r, int train) {
    begin(r, train);
    if (r->recorder && train && !r->replay) PST_TRY(pst_recorder_begin(r));
    if (train && r->serving)
        return pst_executor_start_served(r->executor, r->p->job, pst_rank_cut(r), r->serving);
    return pst_executor_start(r->executor, !train && r->eval_cut ? r->p->eval_job : r->p->job,
                              pst_rank_cut(r));
}

pst_status pst_rank_start_head(pst_rank *r) {
    begin(r, 1);
    return pst_executor_start_head(r->executor, r->p->job, r->cut);
}
