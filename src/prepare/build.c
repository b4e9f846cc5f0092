/* See layout.h: from a layout to the job, phase by phase. graph.c builds the graph; fits.c checks
 * whether it fits in memory. */
#include "base/arena.h"
#include "graph/slice.h"
#include "prepare/prepare.h"
#include "prepare/layout.h"
#include "prepare/flush_time.h"
#include "prepare/planned.h"
#include "prepare/profile_use.h"
#include "base/log.h"
#include "pipeline/check/check.h"
#include "pipeline/simulate/async.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- kernels and costs ------------------------------------------------------------------------ */

typedef struct {
    pst_device device; /* first: the argument of pst_prepare_choose */
    const pst_prepared *p;
    const pst_graph *graph; /* of the tensor rank, for this size of a micro-batch */
} chooser_arg;

/* Of a message between stages; n: elements. */
static uint64_t packing_ns(const pst_prepared *p, int extra, uint64_t n) {
    if (extra == PST_EXTRA_UNPACK) return pst_costs_reduce_ns(&p->costs, n);
    return pst_costs_pack_ns(&p->costs, pst_prepare_codec_stages(p->config), n);
}

static uint64_t predict_ns(void *arg, const pst_node *node, int extra, pst_pass pass,
                           uint64_t flops, uint64_t bytes) {
    const chooser_arg *a = arg;
    if (pst_extra_packs(extra)) return packing_ns(a->p, extra, flops);
    uint64_t measured =
        extra == PST_EXTRA_RESTORE /* a run measures the whole pass */
            ? 0
            : pst_measured_ns(a->p->measured, node->name, pass, extra == PST_EXTRA_SUM);
    const pst_costs_work work = {extra, pass, flops, bytes};
    /* measured with whole micro-batches: the first one may have fewer samples */
    measured = measured * a->graph->micro_batch / a->p->graph->micro_batch;
    return measured ? measured : pst_costs_pass_ns(&a->p->costs, a->graph, node, &work);
}

/* With forms: the scratch of the largest. */
static pst_status choose(void *arg, const pst_graph *g, const pst_node *node, int extra,
                         pst_pass pass, pst_chosen *chosen) {
    const chooser_arg *a = arg;
    PST_TRY(pst_prepare_choose(arg, g, node, extra, pass, chosen));
    if (!a->p->n_form || pst_node_exchange(node, extra, pass)) return PST_OK;
    uint64_t bytes = pst_prepare_forms_scratch(a->p, g, node, pst_registry_kernel(chosen->kernel),
                                               a->device.threads);
    if (bytes > chosen->scratch) chosen->scratch = bytes;
    return PST_OK;
}

/* Of an element, with the codec for gradients or, without one, that for changes of weights. */
static double pack_ns(const pst_prepared *p) {
    const pst_codec up = pst_prepare_codec_up(p->config), down = pst_prepare_codec_down(p->config);
    const pst_codec islands = pst_prepare_codec_islands(p->config);
    pst_codec codec = up.kind == PST_CODEC_NONE ? down : up;
    if (codec.kind == PST_CODEC_NONE) codec = islands; /* never beside the others */
    return (double)pst_costs_pack_ns(&p->costs, codec, PST_PIECE) / PST_PIECE;
}

/* NORM and STEP get their times in pst_prepare_time_flush, when the parts of each rank are known.
 */
static pst_instr_cost instr_cost(const pst_prepared *p, int flush) {
    return (pst_instr_cost){.latency_ns = pst_costs_link.latency_ns,
                            .bytes_per_s = pst_costs_link.bytes_per_s,
                            .flush = flush,
                            .post = !strcmp(p->config->parallel.post_validation, "true"),
                            .gather_ns = 5000,
                            .pack_ns = pack_ns(p),
                            .reduce_ns =
                                (double)pst_costs_reduce_ns(&p->costs, PST_PIECE) / PST_PIECE};
}

/* Limit of micro-batches x stages: the lists take a few hundred bytes for each. */
enum { MOST_PASSES = 4u << 20 };

/* --- phases ----------------------------------------------------------------------------------- */

/* Makes p->plan: the layout and, from a given plan, its origin (run file, cluster, overrides). */
static pst_status open_plan(pst_prepared *p, const pst_layout *layout) {
    const pst_plan *given = p->options.layout ? NULL : p->options.plan;
    if (!given) return pst_plan_open(layout, 0, &p->plan);
    PST_TRY(pst_plan_copy(given, &p->plan));
    pst_layout_close(&p->plan->layout);
    p->plan->bound_ns = 0; /* the given plan's predictions may come from other costs */
    memset(p->plan->peak_bytes, 0, layout->pipeline * sizeof *p->plan->peak_bytes);
    return pst_layout_copy(layout, &p->plan->layout);
}

/* Checks whether a given plan is for this graph. Error messages begin with the plan's file if the
 * run file names one. */
static pst_status check_cut(const pst_prepared *p) {
    const pst_plan *given = p->options.plan;
    const char *file = p->config->parallel.plan;
    if (!given || p->options.layout) return PST_OK;
    pst_status status = pst_plan_check(given, p->graph);
    if (status != PST_OK) status = pst_planned_explain(status, given);
    else if (given->layout.n_chunk % given->layout.pipeline)
        status = pst_fail(PST_EINPUT,
                          "plan: %u chunks for a pipeline of %u ranks; expected the same number of "
                          "chunks on each rank",
                          given->layout.n_chunk, given->layout.pipeline);
    return status == PST_EINPUT && *file ? pst_fail_in(status, "%s", file) : status;
}

/* The recomputation of each of the schedule's chunks. */
static pst_status fill_recompute(const pst_prepared *p, pst_recompute_way *recompute) {
    const pst_layout *l = &p->plan->layout;
    uint32_t n = l->n_recompute, n_chunk = p->schedule->n_chunk;
    if (n != 1 && n != n_chunk)
        return pst_fail(PST_EINPUT,
                        "parallel.recompute has %u items, but there are %u chunks; give one item "
                        "for all chunks, or one per chunk",
                        n, n_chunk);
    for (uint32_t k = 0; k < n_chunk; k++) recompute[k] = l->recompute[n == 1 ? 0 : k];
    return PST_OK;
}

/* Before the cut is known, a stage of n tensor ranks counts as n times as fast. */
static void scale_by_tensor(const pst_prepared *p, double *slow) {
    for (uint32_t s = 0; p->grid.tensor_before && s < p->grid.pipeline; s++)
        slow[s] /= pst_grid_degree(p->grid, s);
}

static pst_status solve_cut(pst_prepared *p) {
    chooser_arg arg = {.p = p, .graph = p->graph};
    const pst_chooser predict = {.arg = &arg, .ns = predict_ns};
    double *slow = malloc(p->grid.pipeline * sizeof *slow);
    pst_recompute_way *recompute =
        p->options.infer ? NULL : malloc(p->schedule->n_chunk * sizeof *recompute);
    pst_status status =
        slow && (recompute || p->options.infer)
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory to prepare a run of %u ranks", p->options.n_rank);
    if (status == PST_OK && recompute) status = fill_recompute(p, recompute);
    if (status == PST_OK) {
        pst_prepare_slow_stages(p, slow);
        scale_by_tensor(p, slow);
        const pst_balance_times times = {&p->costs, &predict, slow};
        status = pst_balance_solve(p->graph, &times, p->schedule, recompute, &p->plan->layout);
    }
    free(slow);
    free(recompute);
    return status;
}

static pst_status build_plan(pst_prepared *p) {
    const pst_layout *l = &p->plan->layout;
    uint32_t n_micro = l->n_micro;
    if ((uint64_t)n_micro * p->grid.pipeline > MOST_PASSES)
        return pst_fail(PST_EINPUT,
                        "%u micro-batches x %u stages exceed the maximum of %u; use a larger "
                        "train.micro_batch or a smaller train.batch",
                        n_micro, p->grid.pipeline, MOST_PASSES);
    if (!p->options.infer && pst_schedule_kind_of(l->schedule) == PST_SCHEDULE_FORWARD)
        return pst_fail(PST_EINPUT,
                        "schedule 'forward' computes no gradients; choose a training schedule");
    p->plan->graph_hash = pst_graph_hash(p->graph);
    PST_TRY(check_cut(p));
    PST_TRY(pst_prepare_share(p, n_micro, p->micro));
    PST_TRY(pst_prepare_schedules(p));
    if (!l->n_chunk) PST_TRY(solve_cut(p));
    if (p->micro[1] < p->grid.pipeline && !p->options.infer)
        pst_log(PST_LOG_DEBUG, "fewer micro-batches (%u) than stages (%u)", p->micro[1],
                p->grid.pipeline);
    return pst_plan_check(p->plan, p->graph);
}

/* Whether programs of tensor rank t are needed. A single lane needs those of tensor rank 0, and
 * those of the last tensor rank, which has the largest parts if sizes are uneven. */
static int wants_programs(const pst_prepared *p, uint32_t t) {
    return !p->options.lane || !t || p->grid.tensor_before ||
           (p->uneven && t + 1 == p->grid.tensor);
}

/* The ranks of a tensor group wait for each other in every layer, so each gets the time of the
 * slowest. rest: in the smaller first micro-batch. */
static void take_slowest(pst_cut *const *cut, uint32_t n, int rest) {
    for (uint32_t c = 0; c < cut[0]->n_chunk; c++)
        for (int op = 0; op < 4; op++)
            for (uint32_t s = 0; s < cut[0]->chunk[c].program[op].n_step; s++) {
                uint64_t most = 0;
                for (uint32_t t = 0; t < n; t++) {
                    if (!cut[t]->tape) continue;
                    uint64_t ns = pst_cut_of(cut[t], rest)->chunk[c].program[op].step[s].ns;
                    most = ns > most ? ns : most;
                }
                for (uint32_t t = 0; t < n; t++) {
                    if (!cut[t]->tape) continue;
                    pst_program *program = &pst_cut_of(cut[t], rest)->chunk[c].program[op];
                    program->ns += most - program->step[s].ns;
                    program->step[s].ns = most;
                }
            }
}

/* If any chunk recomputes, pst_graph.final is 0 for all chunks, so that all compute the same
 * bits. */
static void mark_final(pst_prepared *p) {
    int final = !p->options.infer;
    for (uint32_t c = 0; c < p->plan->layout.n_chunk; c++)
        final = final && p->plan->layout.recompute[c] == PST_RECOMPUTE_NONE;
    for (uint32_t t = 0; t < p->grid.tensor; t++) p->graphs[t]->final = final;
    for (uint32_t t = 0; p->rests && t < p->grid.tensor; t++) p->rests[t]->final = final;
}

/* Cuts the graph of tensor rank t. */
static pst_status cut_graph(const pst_prepared *p, const pst_chooser *like, uint32_t t,
                            pst_cut_spec spec, pst_cut **cut) {
    chooser_arg arg = {.p = p, .graph = p->graphs[t]};
    arg.device.ops = p->options.device;
    arg.device.isa = p->options.isa;
    arg.device.threads = p->options.threads;
    chooser_arg rest_arg = arg;
    pst_chooser chooser = *like, rest = *like;
    rest_arg.graph = spec.rest;
    rest.arg = &rest_arg;
    chooser.arg = &arg;
    chooser.rest = &rest;
    spec.graph = p->graphs[t];
    PST_TRY(pst_cut_build(&spec, &chooser, cut));
    PST_TRY(pst_cut_check(*cut));
    if (spec.rest) PST_TRY(pst_cut_check((*cut)->rest));
    return spec.backward ? pst_tape_check_gradients((*cut)->tape, spec.graph) : PST_OK;
}

/* Evaluation passes are divided like steps. */
static const pst_graph *rest_of(const pst_prepared *p, int train, uint32_t t) {
    const uint32_t n = train ? p->plan->layout.n_micro : p->options.n_eval_micro;
    return p->rests && n == p->plan->layout.n_micro ? p->rests[t] : NULL;
}

static pst_status cut_graphs(const pst_prepared *p, int split, const pst_cut_packing *packing,
                             int train, pst_cut **cut) {
    const pst_chooser chooser = {.choose = choose,
                                 .ns = predict_ns,
                                 .recompute = p->plan->layout.recompute,
                                 .whole = pst_costs_program_is_other(p->costs.program),
                                 .packing = packing};
    const uint32_t n_chunk = p->plan->layout.n_chunk;
    for (uint32_t t = 0; t < p->grid.tensor; t++) {
        const pst_cut_spec spec = {.chunk_of_node = p->chunk_of_node,
                                   .n_chunk = n_chunk,
                                   .split = split,
                                   .backward = train,
                                   .rest = rest_of(p, train, t)};
        if (wants_programs(p, t)) PST_TRY(cut_graph(p, &chooser, t, spec, &cut[t]));
        else PST_TRY(pst_cut_open_uses(p->graphs[t], p->chunk_of_node, n_chunk, &cut[t]));
    }
    take_slowest(cut, p->grid.tensor, 0);
    if (cut[0]->rest) take_slowest(cut, p->grid.tensor, 1);
    return PST_OK;
}

static pst_status build_cuts(const pst_prepared *p, int split, int train, pst_cut **cut) {
    pst_cut_packing packing;
    PST_TRY(pst_prepare_packing(p, train, &packing));
    const pst_status status = cut_graphs(p, split, &packing, train, cut);
    free((void *)(uintptr_t)packing.packs);
    return status;
}

static pst_status build_job(pst_prepared *p) {
    int train = !p->options.infer;
    pst_instr_cost cost = instr_cost(p, train), eval_cost = instr_cost(p, 0);
    PST_TRY(build_cuts(p, p->schedule->split, train, p->cuts));
    p->cut = p->cuts[0];
    pst_job_spec spec = {.grid = p->grid,
                         .schedule = (const pst_schedule *const *)p->schedules,
                         .cut = (const pst_cut *const *)p->cuts,
                         .cost = &cost,
                         .slow = p->slow,
                         .zero = (int)p->plan->layout.zero,
                         .alone = p->options.lane != 0,
                         .lane = p->options.lane ? (p->options.lane - 1) * p->grid.tensor : 0};
    PST_TRY(pst_prepare_parts(p, &spec.parts));
    PST_TRY(pst_prepare_narrow(p, &spec.narrow));
    pst_cluster_link *exchange = NULL;
    spec.message = p->message;
    uint8_t *packs = NULL;
    uint32_t *weight = NULL, *fragment = NULL;
    pst_status status = pst_prepare_fragments(p, &fragment);
    spec.fragment = fragment;
    if (status == PST_OK) status = pst_prepare_local(p, &spec);
    if (status == PST_OK) status = pst_prepare_update(p, &spec);
    if (status == PST_OK) status = pst_prepare_compress(p, &spec, &packs);
    if (status == PST_OK) status = pst_prepare_near(p, &spec);
    if (status == PST_OK) status = pst_prepare_exchange(p, spec.near, &exchange);
    spec.exchange = exchange;
    if (status == PST_OK) status = pst_prepare_owners(p, &weight);
    spec.weight = weight;
    spec.eager = pst_prepare_is_eager(p);
    if (spec.eager) spec.message = pst_prepare_slice(p, p->message);
    if (status == PST_OK) status = pst_job_build_grid(&spec, &p->job, p->slots);
    free(exchange);
    free(packs);
    free(weight);
    free(fragment);
    spec.packs = NULL;
    spec.fragment = NULL;
    spec.weight = NULL; /* lists without a flush have no owners */
    spec.eager = 0;
    spec.staleness = 0;
    spec.async = 0;
    spec.near = 1;
    PST_TRY(status);
    p->compression = pst_job_compression(p->job, spec.cut);
    PST_TRY(pst_job_check_grid(p->job, spec.cut, p->slots, PST_CHECK_TAGGED));
    PST_TRY(pst_prepare_time_messages(p));
    PST_TRY(pst_measured_time_messages(p->measured, p->job));
    if (!train || !p->options.n_eval_micro) return PST_OK;
    PST_TRY(pst_prepare_share(p, p->options.n_eval_micro, p->eval_micro));
    PST_TRY(pst_prepare_eval_schedules(p));
    PST_TRY(build_cuts(p, 0, 0, p->eval_cuts));
    p->eval_cut = p->eval_cuts[0];
    spec.cut = (const pst_cut *const *)p->eval_cuts;
    spec.cost = &eval_cost;
    spec.schedule = (const pst_schedule *const *)p->eval_schedules;
    spec.parts = 1;
    spec.narrow = 0;
    PST_TRY(pst_job_build_grid(&spec, &p->eval_job, p->eval_slots));
    if (p->options.score) return PST_OK; /* only its memory counts */
    return pst_job_check_grid(p->eval_job, spec.cut, p->eval_slots, PST_CHECK_TAGGED);
}

/* The largest part of a matrix on a tensor rank. */
static uint64_t find_part(const pst_prepared *p) {
    uint64_t most = 0;
    for (uint32_t t = 0; t < p->grid.tensor && p->grid.tensor > 1; t++)
        for (uint32_t i = 0; i < p->graph->n_param; i++) {
            const pst_param *param = p->graphs[t]->param + i;
            const uint64_t bytes = pst_align(pst_param_elements(param) * sizeof(float));
            if (param->matrix && param->slice.held == PST_HELD_PART && bytes > most) most = bytes;
        }
    return most;
}

/* Muon's scratch memory: a part for each tensor rank, and that of a whole matrix. */
static void find_matrices(pst_prepared *p) {
    const pst_graph *g = p->graph;
    const pst_arith *arith = pst_registry_arith(p->options.device);
    p->whole_part = find_part(p);
    for (uint32_t i = 0; i < g->n_param; i++) {
        uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(g->param + i, dim);
        const pst_muon_rule rule = {.shape = {dim[0], n / dim[0]}, .type = g->dtype};
        if (g->param[i].matrix)
            p->whole_scratch[i] =
                p->grid.tensor * p->whole_part + arith->muon_scratch(&rule, p->options.threads);
    }
}

/* LAMB's: the sums of squares of all parameters of the rank. */
static void find_norms(pst_prepared *p) {
    const pst_graph *g = p->whole; /* tensor ranks have no more elements */
    for (uint32_t i = 0; i < g->n_param; i++)
        if (g->param[i].whole)
            p->whole_scratch[i] =
                pst_lamb_terms(pst_param_elements(g->param + i)) * sizeof(pst_squares);
}

static pst_status find_whole(pst_prepared *p) {
    if (!p->optim || !p->optim->whole) return PST_OK;
    p->whole_scratch = calloc(p->graph->n_param + (size_t)1, sizeof *p->whole_scratch);
    if (!p->whole_scratch) return pst_no_memory("for the memory maps");
    if (p->optim->kind == PST_OPTIM_MUON) find_matrices(p);
    else find_norms(p);
    return PST_OK;
}

static pst_status build_memory(pst_prepared *p) {
    uint32_t n = p->options.n_rank;
    PST_TRY(find_whole(p));
    p->memory = calloc(n, sizeof *p->memory);
    if (!p->memory) return pst_fail(PST_ENOMEM, "no memory for the memory maps of %u ranks", n);
    for (uint32_t r = pst_job_gathers(p->job); r < n; r = pst_job_next(p->job, r)) {
        uint32_t lane = pst_grid_lane(p->grid, r), stage = pst_grid_at(p->grid, r).stage;
        uint32_t t = pst_grid_at(p->grid, r).tensor;
        const pst_cut *cut = p->cuts[t], *eval = p->eval_cuts[t];
        const pst_memory_map_spec spec = {.g = p->graphs[t],
                                          .cut = cut,
                                          .eval_cut = eval,
                                          .job = p->job,
                                          .eval = p->eval_job,
                                          .slots = p->slots[lane],
                                          .eval_slots = p->eval_slots[lane],
                                          .optim = p->optim,
                                          .whole = p->whole_scratch,
                                          .whole_together =
                                              p->optim && p->optim->kind == PST_OPTIM_LAMB,
                                          .twins = p->options.twins,
                                          .rank = r};
        PST_TRY(pst_memory_map_build(&spec, &p->memory[r]));
        PST_TRY(pst_memory_map_check(p->memory[r], cut, p->slots[lane]));
        if (eval) PST_TRY(pst_memory_map_check(p->memory[r], eval, p->eval_slots[lane]));
        if (p->memory[r]->total > p->plan->peak_bytes[stage])
            p->plan->peak_bytes[stage] = p->memory[r]->total;
        /* steps without an exchange between islands have maps to compare with */
        if (!p->options.brief || p->options.inner || p->job->islands > 1) continue;
        pst_prepare_time_flush_of(p, r);
        pst_memory_map_close(p->memory[r]);
        p->memory[r] = NULL;
    }
    return PST_OK;
}

pst_status pst_prepare_predict(pst_prepared *p) {
    pst_timing *timing;
    PST_TRY(pst_simulate(p->job, &timing));
    pst_timing_close(p->timing);
    p->timing = timing;
    PST_TRY(pst_simulate_mean(p->job, timing, &p->mean_ns));
    p->plan->step_ns = p->mean_ns;
    p->plan->flush_ns = p->timing->flush_ns;
    p->plan->bubble = p->timing->bubble;
    return PST_OK;
}

/* Whether the stage of this operator has tensor rank t. */
static int computes(const pst_prepared *p, uint32_t tensor, uint32_t node) {
    return pst_grid_is_home(p->grid, p->job->rank_of_chunk[p->chunk_of_node[node]], tensor);
}

/* Elements of a tensor in all micro-batches of a step. */
static uint64_t of_batch(const pst_prepared *p, uint32_t tensor) {
    return pst_tensor_elements(p->graph->tensor + tensor) / p->graph->micro_batch *
           pst_prepared_batch(p);
}

static void count_targets(pst_prepared *p) {
    const pst_graph *g = p->graph;
    const uint32_t tokens = pst_graph_find_tensor(g, "tokens");
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (g->tensor[t].role == PST_TENSOR_OUTPUT && !pst_tensor_per_sample(g, t) &&
            !pst_tensor_has_hits(g, t))
            p->targets += of_batch(p, t);
    p->tokens = p->targets;
    if (tokens != PST_NONE && g->tensor[tokens].role == PST_TENSOR_DATA)
        p->tokens = of_batch(p, tokens);
}

static void set_batches(pst_prepared *p) {
    const pst_config *c = p->config;
    const pst_batches_spec spec = {(uint64_t)c->train.batch, (uint64_t)c->train.batch_warmup.from,
                                   (uint64_t)c->train.batch_warmup.tokens,
                                   p->tokens / pst_prepared_batch(p)};
    pst_batches_fill(&spec, &p->batches);
}

/* FLOPs of the model in a micro-batch, without recomputation. */
static uint64_t flops_of(const pst_prepared *p, uint32_t tensor, const pst_tape *tape) {
    uint64_t flops = 0;
    for (uint32_t s = 0; s < tape->n_step; s++)
        if (!tape->step[s].again && (p->options.lane || computes(p, tensor, tape->step[s].node)))
            flops += tape->step[s].flops;
    return flops;
}

static pst_status predict(pst_prepared *p) {
    PST_TRY(pst_prepare_predict(p));
    for (uint32_t t = 0; t < p->grid.tensor; t++) {
        /* a single lane represents all */
        const pst_cut *cut = p->cuts[p->options.lane ? 0 : t];
        const uint32_t n_rest = cut->rest != NULL;
        p->flops += flops_of(p, t, cut->tape) * (p->plan->layout.n_micro - n_rest);
        if (n_rest) p->flops += flops_of(p, t, cut->rest->tape);
    }
    count_targets(p);
    if (!p->options.infer) set_batches(p);
    return PST_OK;
}

static pst_status open_grid(pst_prepared *p) {
    pst_layout *l = &p->plan->layout;
    p->grid = pst_layout_grid(l);
    if (pst_prepare_islands(p->config, p->grid.data) >= p->grid.data) l->zero = 0;
    if (p->grid.tensor == 1) l->sequence = 0;
    uint32_t lanes = pst_grid_lanes(p->grid);
    uint32_t n = p->grid.data;
    if (p->options.lane > n)
        return pst_fail(PST_EINPUT, "unknown replica %u; expected one below %u",
                        p->options.lane - 1, n);
    const size_t owners = pst_grid_owners(p->grid);
    p->micro = calloc(owners + 1, sizeof *p->micro);
    p->eval_micro = calloc(owners + 1, sizeof *p->eval_micro);
    p->schedules = calloc(n, sizeof *p->schedules);
    p->eval_schedules = calloc(n, sizeof *p->eval_schedules);
    p->slots = calloc(lanes, sizeof *p->slots);
    p->eval_slots = calloc(lanes, sizeof *p->eval_slots);
    p->graphs = calloc(p->grid.tensor, sizeof *p->graphs);
    p->cuts = calloc(p->grid.tensor, sizeof *p->cuts);
    p->eval_cuts = calloc(p->grid.tensor, sizeof *p->eval_cuts);
    return p->graphs && p->cuts && p->eval_cuts && p->micro && p->eval_micro && p->schedules &&
                   p->eval_schedules && p->slots && p->eval_slots
               ? pst_prepare_devices(p)
               : pst_fail(PST_ENOMEM, "no memory to prepare a run of %u ranks", p->options.n_rank);
}

static void choose_costs(pst_prepared *p) {
    p->costs.factor = p->options.factor;
    p->costs.narrow_state = !strcmp(p->config->train.optimizer_state, "bf16");
    if (!p->cluster) p->costs.kind = pst_prepare_datasheet(p->config, p->options.device);
    if (!p->cluster) return;
    p->costs.kind = p->cluster->kind + p->cluster->device[p->device[0]].kind;
    if (!p->options.device) p->options.device = pst_prepare_device_of(p->config, p->costs.kind);
    p->costs.tensor_link = &p->tensor_link;
    p->costs.stage_link = &p->stage_link;
    p->costs.program = p->options.program;
}

static pst_status prepare_into(pst_prepared *p) {
    PST_TRY(open_grid(p));
    choose_costs(p);
    PST_TRY(pst_prepare_shard_ns(p, &p->costs.shard_ns));
    PST_TRY(pst_prepare_graph(p));
    if (*p->config->parallel.measured && !p->options.infer)
        PST_TRY(pst_measured_load(p->config->parallel.measured, p->graph, &p->measured));
    if (!p->grid.tensor_before)
        PST_TRY(pst_profile_open_for(p)); /* needs the operators after tensor splitting */
    PST_TRY(build_plan(p));
    PST_TRY(pst_prepare_split(p));
    mark_final(p);
    if (p->grid.tensor_before) PST_TRY(pst_profile_open_for(p));
    PST_TRY(build_job(p));
    pst_measured_close(p->measured);
    p->measured = NULL;
    PST_TRY(build_memory(p));
    pst_prepare_time_flush(p);
    pst_profile_time_messages(p);
    PST_TRY(pst_planned_describe(p));
    p->options.schedules = NULL;
    /* borrowed during this call only */
    p->options.plan = NULL;
    p->options.layout = NULL;
    if (p->options.graph) p->options.graph = p->whole;
    return predict(p);
}

/* Jobs with other lists (smaller.c) need them, too. */
static pst_status keep_hosts(pst_prepared *p) {
    const size_t bytes = p->options.n_rank * sizeof *p->host;
    if (!p->options.host) return PST_OK;
    if (!(p->host = malloc(bytes + 1))) return pst_no_memory("to prepare a run");
    memcpy(p->host, p->options.host, bytes);
    p->options.host = p->host;
    return PST_OK;
}

pst_status pst_prepare_build(const pst_config *config, const pst_prepare_options *options,
                             const pst_layout *layout, pst_prepared **prepared) {
    pst_prepared *p = calloc(1, sizeof *p);
    if (!p) return pst_fail(PST_ENOMEM, "no memory to prepare a run");
    p->config = config;
    p->options = *options;
    pst_status status = keep_hosts(p);
    if (status == PST_OK) status = open_plan(p, layout);
    if (status == PST_OK) status = prepare_into(p);
    if (status == PST_OK) *prepared = p;
    else pst_prepared_close(p);
    return status;
}

static void close_rests(pst_prepared *p) {
    for (uint32_t t = 0; p->rests && t < p->grid.tensor; t++) {
        const int again = t + 1 < p->grid.tensor && p->rests[t] == p->rests[t + 1];
        if (p->rests[t] != p->rest_whole && !again) pst_graph_close(p->rests[t]);
    }
    free(p->rests);
    pst_graph_close(p->rest_whole);
}

void pst_prepared_close(pst_prepared *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n_smaller; i++) pst_prepared_close(p->smaller[i]);
    pst_prepared_close(p->inner);
    for (uint32_t i = 0; i < p->n_turns; i++) pst_prepared_close(p->turns[i]);
    free(p->turns);
    free(p->smaller);
    for (uint32_t r = 0; p->memory && r < p->options.n_rank; r++)
        pst_memory_map_close(p->memory[r]);
    free(p->memory);
    pst_timing_close(p->timing);
    for (uint32_t i = 0; p->slots && p->eval_slots && i < pst_grid_lanes(p->grid); i++) {
        pst_slots_close(p->slots[i]);
        pst_slots_close(p->eval_slots[i]);
    }
    pst_measured_close(p->measured);
    pst_profile_close(p->profile);
    pst_job_close(p->job);
    pst_job_close(p->eval_job);
    for (uint32_t t = 0; p->graphs && p->cuts && p->eval_cuts && t < p->grid.tensor; t++) {
        pst_cut_close(p->cuts[t]);
        pst_cut_close(p->eval_cuts[t]);
        if (p->graphs[t] != p->whole &&
            (t + 1 == p->grid.tensor || p->graphs[t] != p->graphs[t + 1]))
            pst_graph_close(p->graphs[t]);
    }
    close_rests(p);
    free(p->whole_scratch);
    free(p->host);
    free(p->chunk_of_node);
    free(p->graphs);
    free(p->cuts);
    free(p->eval_cuts);
    pst_prepare_close_schedules(p);
    free(p->micro);
    free(p->eval_micro);
    free(p->schedules);
    free(p->eval_schedules);
    free(p->slots);
    free(p->eval_slots);
    free(p->throttle);
    free(p->slow);
    free(p->device);
    pst_cluster_close(p->cluster);
    pst_plan_close(p->plan);
    pst_prepare_forms_close(p);
    pst_graph_close(p->whole);
    free(p);
}
