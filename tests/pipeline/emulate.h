/* A stand-in for kernels: every tensor, weight and accumulator is filled with a stamp that is a
 * hash of the stamps of what its step read. A reference plays the tape alone, without memory; here
 * every read compares every byte with it. So a slot taken too early, a wrong address or a sum in
 * another order shows at once. */
#ifndef PST_TESTS_PIPELINE_EMULATE_H
#define PST_TESTS_PIPELINE_EMULATE_H
#include "base/arena.h"
#include "base/hash.h"
#include "comm/fault.h"
#include "comm/transport/transport.h"
#include "pipeline/case.h"
#include "pipeline/execute/executor.h"

static inline uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t both[2] = {a, b};
    return pst_hash64(both, sizeof both, 7);
}

/* An output that its row can restore is a function of what it is restored from, in F as well: else
 * of the signature. */
static inline uint64_t restored(uint64_t from) { return mix(from, 77); }

static inline uint64_t written(const pst_node *d, pst_pass pass, uint64_t h, uint32_t i) {
    pst_arg list[PST_MAX_ARG], want[PST_MAX_ARG];
    if (pass != PST_PASS_F || !d->op->restore || !d->op->restore(d, want)) return mix(h, i);
    uint32_t n = d->op->args(d, PST_PASS_F, list), from = 0;
    while (from < n && (list[from].kind != want[0].kind || list[from].index != want[0].index))
        from++;
    return list[i].kind == PST_ARG_OUT ? restored(mix(h, from)) : mix(h, i);
}

/* --- the reference ---------------------------------------------------------------------------- */

typedef struct {
    uint64_t *param;    /* [n_param] stamps of weights */
    uint64_t *grad;     /* [n_use] by cut->use_first */
    uint64_t *value[2]; /* [n_value * n_micro] of the training and of the evaluation tape */
    uint8_t *has_w;     /* [n_use] some W step writes it */
    uint64_t answer, run;
} reference;

static inline uint64_t data_stamp(uint64_t run, uint32_t tensor, uint32_t micro) {
    return mix(run * 1000003 + tensor, micro);
}

/* What a step makes of its reads; written operand i gets mix(signature, i). */
static inline uint64_t signature(const reference *ref, const pst_tape_step *s, int extra,
                                 const uint64_t *value, uint32_t n_micro, uint32_t micro) {
    uint64_t h = mix(s->node * 4 + (uint64_t)s->pass, (uint64_t)extra);
    for (uint32_t i = 0; i < s->n_operand; i++) {
        const pst_operand *o = s->operand + i;
        uint64_t read = 0;
        if (o->kind == PST_OPERAND_VALUE && o->access & PST_READ)
            read = value[(size_t)o->index * n_micro + micro];
        if (o->kind == PST_OPERAND_PARAM) read = ref->param[o->index];
        h = mix(h, read);
    }
    return h;
}

static inline void play_reference(reference *ref, const pst_cut *cut, uint32_t n_micro,
                                  uint64_t *value) {
    const pst_tape *tape = cut->tape;
    for (uint32_t v = 0; v < tape->n_value; v++)
        for (uint32_t m = 0; m < n_micro && tape->value[v].def_step == PST_NONE; m++)
            value[(size_t)v * n_micro + m] = data_stamp(ref->run, tape->value[v].tensor, m);
    for (uint32_t m = 0; m < n_micro; m++)
        for (uint32_t s = 0; s < tape->n_step; s++) {
            const pst_tape_step *step = tape->step + s;
            uint64_t h = signature(ref, step, tape->extra[s], value, n_micro, m);
            for (uint32_t i = 0; i < step->n_operand; i++) {
                const pst_operand *o = step->operand + i;
                if (o->kind == PST_OPERAND_VALUE && o->access & PST_WRITE)
                    value[(size_t)o->index * n_micro + m] =
                        step->again == PST_AGAIN_RESTORE
                            ? restored(value[(size_t)step->operand[0].index * n_micro + m])
                            : written(cut->graph->node + step->node, step->pass, h, i);
                if (o->kind != PST_OPERAND_DPARAM) continue;
                uint64_t *acc = ref->grad + cut->use_first[o->index] + o->use;
                *acc = m ? mix(*acc, mix(h, i)) : mix(h, i);
                ref->has_w[cut->use_first[o->index] + o->use] = 1;
            }
        }
}

static inline void flush_reference(reference *ref, const pst_cut *cut) {
    const pst_graph *g = cut->graph;
    uint32_t order[512];
    pst_graph_param_order(g, order);
    ref->answer = 0;
    for (uint32_t k = 0; k < g->n_param; k++) {
        uint64_t *acc = ref->grad + cut->use_first[order[k]];
        for (uint32_t u = 1; u < g->param[order[k]].n_use; u++) acc[0] = mix(acc[0], acc[u]);
        if (g->param[order[k]].n_use) ref->answer = mix(ref->answer, acc[0]);
    }
    for (uint32_t p = 0; p < g->n_param; p++)
        if (g->param[p].n_use)
            ref->param[p] = mix(mix(ref->param[p], ref->grad[cut->use_first[p]]), ref->answer);
}

/* --- one rank --------------------------------------------------------------------------------- */

typedef struct emulation emulation;
typedef struct {
    pst_device device;
    emulation *e;
    uint64_t random, ready; /* test says BUSY now and then */
} odd_device;

struct emulation {
    const test_case *t;
    const reference *ref; /* before this run's flush */
    uint32_t rank, micro, chunk;
    int eval;
    const pst_step *step;
    const pst_instr *instr;
    uint8_t *arena;
    uint64_t highest; /* one more than the last byte touched */
    odd_device device;
    pst_transport *transport, *wrapped;
    pst_executor *x;
    uint32_t fail_step; /* the n-th step fails */
    uint32_t n_step;
};

static inline void touch(emulation *e, const void *at, uint64_t bytes) {
    uint64_t end = (uint64_t)((const uint8_t *)at - e->arena) + bytes;
    if (bytes && end > e->highest) e->highest = end;
}

static inline void fill(emulation *e, void *at, uint64_t bytes, uint64_t stamp) {
    touch(e, at, bytes);
    for (uint64_t i = 0; i < bytes; i += 8)
        memcpy((uint8_t *)at + i, &stamp, bytes - i < 8 ? bytes - i : 8);
}

static inline int holds(const void *at, uint64_t bytes, uint64_t stamp) {
    for (uint64_t i = 0; i < bytes; i += 8)
        if (memcmp((const uint8_t *)at + i, &stamp, bytes - i < 8 ? bytes - i : 8)) return 0;
    return 1;
}

static inline const pst_cut *cut_of(const emulation *e) {
    return e->eval ? e->t->eval_cut : e->t->cut;
}
/* With the sizes of the current micro-batch. */
static inline const pst_cut *sizes_of(const emulation *e) {
    return pst_cut_of(cut_of(e), !e->eval && e->t->job->rest && !e->micro);
}
static inline const pst_slots *slots_of(const emulation *e) {
    return e->eval ? e->t->eval_slots : e->t->slots;
}
static inline uint32_t micros_of(const emulation *e) {
    return e->eval ? e->t->eval->n_micro : e->t->job->n_micro;
}

static inline pst_status check_read(const emulation *e, uint32_t i, const void *at) {
    const pst_operand *o = e->step->operand + i;
    const pst_cut *cut = cut_of(e);
    const pst_graph *g = cut->graph;
    if (o->kind == PST_OPERAND_PARAM)
        return holds(at, pst_param_bytes(g, g->param + o->index), e->ref->param[o->index])
                   ? PST_OK
                   : pst_fail(PST_EINTERNAL, "weight %s is not what it should be",
                              g->param[o->index].name);
    const pst_local *l = sizes_of(e)->chunk[e->chunk].local + o->index;
    uint64_t want = e->ref->value[e->eval][(size_t)l->value * micros_of(e) + e->micro];
    return holds(at, l->bytes, want)
               ? PST_OK
               : pst_fail(PST_EINTERNAL,
                          "node %s pass %u reads something else as operand %u (value %u)",
                          g->node[e->step->node].name, e->step->pass, i, l->value);
}

static inline void write_operand(emulation *e, uint32_t i, uint64_t h, void *at) {
    const pst_operand *o = e->step->operand + i;
    const pst_cut *cut = cut_of(e);
    if (o->kind == PST_OPERAND_VALUE) {
        const pst_step *s = e->step;
        uint64_t value = mix(h, i);
        if (!s->extra) value = written(cut->graph->node + s->node, (pst_pass)s->pass, h, i);
        if (!s->extra && s->again == PST_AGAIN_RESTORE)
            value = restored(
                e->ref->value[0][(size_t)cut->chunk[e->chunk].local[s->operand[0].index].value *
                                     micros_of(e) +
                                 e->micro]);
        fill(e, at, sizes_of(e)->chunk[e->chunk].local[o->index].bytes, value);
        return;
    }
    uint64_t acc;
    memcpy(&acc, at, 4);
    memcpy((uint8_t *)&acc + 4, (uint8_t *)at + 4, 4);
    fill(e, at, pst_param_elements(cut->graph->param + o->index) * 4,
         e->micro ? mix(acc, mix(h, i)) : mix(h, i));
}

static inline pst_memory_view view_of(const emulation *e) {
    return (pst_memory_view){.map = e->t->layout[e->rank],
                             .cut = cut_of(e),
                             .slots = slots_of(e),
                             .g = e->t->g,
                             .arena = e->arena};
}

static inline pst_status run_step(pst_device *device, const void *call) {
    (void)device;
    emulation *e = *(emulation *const *)call;
    const test_case *t = e->t;
    const pst_cut *cut = cut_of(e);
    void *at[PST_MAX_ARG];
    uint64_t h = mix(e->step->node * 4 + (uint64_t)e->step->pass, e->step->extra);
    if (++e->n_step == e->fail_step)
        return pst_fail(PST_EINTERNAL, "injected: step %u fails", e->n_step);
    void *scratch = pst_memory_map_scratch(t->layout[e->rank], cut, e->step, e->arena);
    if (scratch) fill(e, scratch, e->step->scratch, UINT64_C(0xdeadbeefdeadbeef));
    for (uint32_t i = 0; i < e->step->n_operand; i++) {
        const pst_operand *o = e->step->operand + i;
        const pst_memory_view view = view_of(e);
        at[i] = pst_memory_map_address(&view, e->chunk, o, e->micro);
        uint64_t read = 0;
        int reads =
            o->kind == PST_OPERAND_PARAM || (o->kind == PST_OPERAND_VALUE && o->access & PST_READ);
        if (reads) {
            PST_TRY(check_read(e, i, at[i]));
            read = o->kind == PST_OPERAND_PARAM
                       ? e->ref->param[o->index]
                       : e->ref->value[e->eval][(size_t)cut->chunk[e->chunk].local[o->index].value *
                                                    micros_of(e) +
                                                e->micro];
        }
        h = mix(h, read);
    }
    for (uint32_t i = 0; i < e->step->n_operand; i++) {
        const pst_operand *o = e->step->operand + i;
        if (o->kind == PST_OPERAND_DPARAM ||
            (o->kind == PST_OPERAND_VALUE && o->access & PST_WRITE))
            write_operand(e, i, h, at[i]);
    }
    return PST_OK;
}

/* --- its flush -------------------------------------------------------------------------------- */

static inline uint64_t stamp_at(const emulation *e, uint64_t offset) {
    uint64_t stamp;
    memcpy(&stamp, e->arena + offset, 8); /* arrays have at least 8 elements of 2 bytes */
    return stamp;
}

static inline void flush_step(emulation *e) {
    const pst_memory_map *x = e->t->layout[e->rank];
    const pst_graph *g = e->t->g;
    for (uint32_t p = 0; p < g->n_param; p++) {
        uint64_t bytes = pst_param_elements(g->param + p) * 4, grad = UINT64_MAX;
        if (x->weight[p] == UINT64_MAX) continue;
        for (uint32_t u = 0; u < g->param[p].n_use && grad == UINT64_MAX; u++) grad = x->grad[p][u];
        uint64_t stamp =
            mix(mix(stamp_at(e, x->master[p]), stamp_at(e, grad)), stamp_at(e, x->norm_answer));
        fill(e, e->arena + x->master[p], bytes, stamp);
        fill(e, e->arena + x->weight[p], pst_param_bytes(g, g->param + p), stamp);
        for (uint32_t i = 0; i < 2; i++)
            if (x->state[i][p] != UINT64_MAX) fill(e, e->arena + x->state[i][p], bytes, 1);
    }
}

static inline void flush_gather(emulation *e) {
    const test_case *t = e->t;
    const pst_memory_map *x = t->layout[0];
    uint32_t order[512], next[64] = {0};
    uint64_t answer = 0;
    pst_graph_param_order(t->g, order);
    for (uint32_t k = 0; k < t->g->n_param; k++)
        for (uint32_t r = 0; r < t->n_rank; r++)
            if (next[r] < t->layout[r]->n_owned && t->layout[r]->owned[next[r]] == order[k])
                answer =
                    mix(answer, stamp_at(e, x->norm_of_rank[r] +
                                                8 * ((uint64_t)x->loss_of_rank[r] + next[r]++)));
    fill(e, e->arena + x->norm_answer, 24, answer);
}

static inline pst_status run_flush(pst_device *device, const void *call) {
    (void)device;
    emulation *e = *(emulation *const *)call;
    const pst_memory_map *x = e->t->layout[e->rank];
    if (e->instr->opcode == PST_OP_REDUCE) {
        uint32_t p = e->instr->param;
        uint64_t second =
            x->grad[p][e->instr->use] != UINT64_MAX ? x->grad[p][e->instr->use] : x->shared_grad;
        fill(e, e->arena + x->grad[p][0], pst_param_elements(e->t->g->param + p) * 4,
             mix(stamp_at(e, x->grad[p][0]), stamp_at(e, second)));
    } else if (e->instr->opcode == PST_OP_NORM) {
        uint64_t losses = x->loss_of_rank[e->rank];
        fill(e, e->arena + x->norm_own, 8 * losses, 0);
        for (uint32_t i = 0; i < x->n_owned; i++)
            fill(e, e->arena + x->norm_own + 8 * (losses + i), 8,
                 stamp_at(e, x->grad[x->owned[i]][0]));
    } else if (e->instr->opcode == PST_OP_GATHER) {
        flush_gather(e);
    } else if (e->instr->opcode == PST_OP_STEP && e->t->job->post) {
        /* keeps things where the lists worked */
        uint64_t from = x->start[PST_REGION_SLOT];
        if (x->undo_end) fill(e, e->arena + from, x->undo_end - from, UINT64_C(0xfeedfacefeedface));
    } else {
        flush_step(e);
    }
    return PST_OK;
}

/* --- hooks and device ------------------------------------------------------------------------- */

static inline pst_status step_hook(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro,
                                   pst_launch_fn *fn, const void **call) {
    emulation *e = arg;
    e->chunk = chunk;
    e->step = step;
    e->micro = micro;
    *fn = run_step;
    *call = &e->device.e;
    return PST_OK;
}

static inline pst_status flush_hook(void *arg, const pst_instr *instr, pst_launch_fn *fn,
                                    const void **call) {
    emulation *e = arg;
    e->instr = instr;
    *fn = run_flush;
    *call = &e->device.e;
    return PST_OK;
}

static inline void *memory_hook(void *arg, const pst_instr *instr) {
    emulation *e = arg;
    const pst_memory_view view = view_of(e);
    void *at = pst_memory_map_message(&view, instr);
    if (instr->opcode == PST_OP_RECV) touch(e, at, instr->bytes);
    return at;
}

static inline pst_status odd_launch(pst_device *d, pst_launch_fn fn, const void *call,
                                    uint64_t after_ns, uint64_t ns, uint64_t *event) {
    (void)after_ns;
    (void)ns;
    odd_device *odd = (odd_device *)d;
    if (next_random(&odd->random) % 2) pst_executor_poll(odd->e->x);
    PST_TRY(fn(d, call));
    if (next_random(&odd->random) % 2) pst_executor_poll(odd->e->x);
    odd->ready = next_random(&odd->random) % 3;
    *event = 1;
    return PST_OK;
}

static inline pst_status odd_test(pst_device *d, uint64_t event, uint64_t *start_ns,
                                  uint64_t *end_ns) {
    odd_device *odd = (odd_device *)d;
    (void)event;
    if (odd->ready) {
        odd->ready--;
        return PST_BUSY;
    }
    *start_ns = *end_ns = pst_monotonic_ns();
    return PST_OK;
}

static const pst_device_ops odd_device_ops = {
    .name = "odd", .launch = odd_launch, .test = odd_test};

/* --- all ranks -------------------------------------------------------------------------------- */

typedef struct {
    test_case *t;
    reference ref;
    pst_self_hub *hub;
    emulation *rank; /* [n_rank] */
    pst_executor **x;
} bench;

static inline void open_rank(bench *b, uint32_t r, const pst_fault_spec *fault, uint64_t random) {
    emulation *e = b->rank + r;
    *e = (emulation){.t = b->t, .ref = &b->ref, .rank = r, .device = {.e = e, .random = random}};
    e->device.device.ops = &odd_device_ops;
    e->arena = aligned_alloc(4096, (b->t->layout[r]->total + 4095) / 4096 * 4096 + 4096);
    memset(e->arena, 0, b->t->layout[r]->total);
    e->transport = pst_self_hub_endpoint(b->hub, r);
    if (fault) {
        MUST(pst_transport_fault_open(e->transport, fault, &e->wrapped));
        e->transport = e->wrapped;
    }
    pst_executor_config config = {.rank = r,
                                  .device = &e->device.device,
                                  .transport = e->transport,
                                  .hooks = {e, step_hook, flush_hook, memory_hook}};
    MUST(pst_executor_open(&config, &e->x));
    b->x[r] = e->x;
    for (uint32_t p = 0; p < b->t->g->n_param; p++)
        if (b->t->layout[r]->weight[p] != UINT64_MAX) {
            const pst_param *param = b->t->g->param + p;
            fill(e, e->arena + b->t->layout[r]->master[p], pst_param_elements(param) * 4,
                 b->ref.param[p]);
            fill(e, e->arena + b->t->layout[r]->weight[p], pst_param_bytes(b->t->g, param),
                 b->ref.param[p]);
        }
}

/* fault: of every rank, NULL for none. */
static inline void open_bench(bench *b, test_case *t, const pst_fault_spec *fault,
                              uint64_t random) {
    uint32_t n = t->n_rank, n_use = t->cut->use_first[t->g->n_param];
    size_t cells = (size_t)t->cut->tape->n_value * t->job->n_micro;
    size_t eval_cells = (size_t)t->eval_cut->tape->n_value * t->eval->n_micro;
    *b = (bench){.t = t, .rank = calloc(n, sizeof *b->rank), .x = calloc(n, sizeof *b->x)};
    b->ref.param = calloc(t->g->n_param, 8);
    b->ref.grad = calloc(n_use, 8);
    b->ref.has_w = calloc(n_use, 1);
    b->ref.value[0] = calloc(cells, 8);
    b->ref.value[1] = calloc(eval_cells, 8);
    for (uint32_t p = 0; p < t->g->n_param; p++) b->ref.param[p] = mix(p, 99);
    MUST(pst_self_hub_open(n, NULL, &b->hub));
    for (uint32_t r = 0; r < n; r++) open_rank(b, r, fault, mix(random, r));
}

static inline void close_bench(bench *b) {
    for (uint32_t r = 0; r < b->t->n_rank; r++) {
        pst_executor_close(b->rank[r].x);
        if (b->rank[r].wrapped) b->rank[r].wrapped->ops->close(b->rank[r].wrapped);
        free(b->rank[r].arena);
    }
    pst_self_hub_close(b->hub);
    free(b->ref.param);
    free(b->ref.grad);
    free(b->ref.value[0]);
    free(b->ref.value[1]);
    free(b->ref.has_w);
    free(b->rank);
    free(b->x);
}

/* Data of a run; and accumulators that no W writes start at 0, as the reference has them. */
static inline void prepare_run(bench *b, int eval) {
    const test_case *t = b->t;
    const pst_cut *cut = eval ? t->eval_cut : t->cut;
    uint32_t n_micro = eval ? t->eval->n_micro : t->job->n_micro;
    b->ref.run++;
    if (!eval)
        for (uint32_t u = 0; u < cut->use_first[t->g->n_param]; u++) b->ref.grad[u] = 0;
    play_reference(&b->ref, cut, n_micro, b->ref.value[eval]);
    for (uint32_t r = 0; r < t->n_rank; r++) {
        emulation *e = b->rank + r;
        const pst_memory_map *x = t->layout[r];
        e->eval = eval;
        for (uint32_t i = 0; i < t->g->n_tensor; i++)
            for (uint32_t m = 0;
                 m < n_micro && x->data[i] != UINT64_MAX && t->g->tensor[i].role == PST_TENSOR_DATA;
                 m++) {
                uint64_t bytes = pst_tensor_bytes(t->g->tensor + i);
                fill(e, e->arena + x->data[i] + m * bytes, bytes, data_stamp(b->ref.run, i, m));
            }
        for (uint32_t p = 0; p < t->g->n_param && !eval; p++)
            for (uint32_t u = 0; u < t->g->param[p].n_use; u++)
                if (x->grad[p][u] != UINT64_MAX && !b->ref.has_w[cut->use_first[p] + u])
                    fill(e, e->arena + x->grad[p][u], pst_param_elements(t->g->param + p) * 4, 0);
        MUST(pst_executor_start(e->x, eval ? t->eval : t->job, cut));
    }
}
#endif
