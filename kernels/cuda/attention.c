/* attention: cuDNN's fused kernels for bf16 and fp16, one plan per shape and pass, made at set-up;
 * for other types, and if cuDNN has no plan, our own kernels (attention_plain.cu), with a warning.
 * The backward pass splits samples and heads into parts if its intermediate results would be large.
 * The memory map includes the workspace before there is a device (pst_cuda_attention_workspace).
 * With another cuDNN version a plan may need more: the device allocates that at set-up, before the
 * arena, so that a lack of memory is reported then. */
#include "base/log.h"
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/attention_plain.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/own.h"
#include "kernels/shape.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HALF = 2,        /* bytes of an element */
    ALIGNMENT = 256, /* alignment of workspace, as of the runtime's allocations */
    CLEARS = 90600   /* from this version on cuDNN itself clears what it adds to */
};

/* PENSTOCK_ATTENTION=members: heads that share keys are not computed together, for comparisons. */
static int may_join(void) {
    const char *way = getenv("PENSTOCK_ATTENTION");
    return !way || strcmp(way, "members") != 0;
}

/* A window that is longer than the sample is none. together: of heads that share keys, if any. */
static pst_cuda_attention_shape shape_of(const pst_graph *g, const pst_node *node, pst_pass pass,
                                         int together) {
    const pst_tensor *in = &g->tensor[node->in[0]];
    pst_cuda_attention_shape s = {.b = in->dim[0],
                                  .t = in->dim[1],
                                  .c = node->attr.kv_heads ? in->dim[2] : in->dim[2] / 3,
                                  .heads = node->attr.heads,
                                  .kv_heads = node->attr.kv_heads,
                                  .window = node->attr.window,
                                  .dtype = g->dtype,
                                  .backward = pass == PST_PASS_B,
                                  .bidirectional = node->attr.bidirectional,
                                  .padded = node->n_in > pst_node_mask(node),
                                  .loose = (uint64_t)g->loose};
    if (s.window >= s.t) s.window = 0;
    s.together = together && pst_cuda_attention_group(&s) > 1 && may_join();
    pst_cuda_attention_divide(&s);
    return s;
}

/* --- plans ------------------------------------------------------------------------------------ */

/* why: the library's reason if it has no plan, else "". */
static void make_plan(pst_cuda_device *d, const pst_cuda_attention_shape *s, pst_dnn_plan *plan,
                      char *why, size_t bytes) {
    pst_dnn_target target = {.handle = d->dnn};
    pst_dnn_graph g;
    pst_dnn_open(&g);
    pst_cuda_attention_graph(&g, s);
    *why = 0;
    if (pst_dnn_plan_make(&g, &target, UINT64_MAX, plan) != PST_OK)
        snprintf(why, bytes,
                 "cuDNN has no fused attention kernel for batch %llu, %llu positions, %llu heads "
                 "of %llu channels%s: %s",
                 (unsigned long long)s->b, (unsigned long long)s->t, (unsigned long long)s->heads,
                 (unsigned long long)(s->c / s->heads), s->padded ? ", padded" : "",
                 *g.why ? g.why : cudnnGetErrorString(g.error));
    pst_dnn_close(&g);
}

static int is_laid_out(const pst_cuda_attention_shape *s, const pst_dnn_plan *plan) {
    return plan->workspace <= pst_cuda_attention_workspace(s);
}

static void say_workspace(const pst_cuda_attention_shape *s, const pst_dnn_plan *plan) {
    pst_log(is_laid_out(s, plan) ? PST_LOG_DEBUG : PST_LOG_INFO,
            "attention %s: cuDNN %zu needs %llu bytes of workspace, the memory map reserves %llu "
            "bytes%s",
            s->backward ? "B" : "F", cudnnGetVersion(), (unsigned long long)plan->workspace,
            (unsigned long long)pst_cuda_attention_workspace(s),
            is_laid_out(s, plan) ? "" : "; the workspace is allocated separately");
}

/* With deterministic sums cuDNN proposes the kernel of sm_80 also on sm_100. The kernel for sm_100,
 * since 9.18.0, is engine 5 with KERNEL_CFG 31 and STAGES 2, which no heuristic returns (see
 * override_heuristics_query of attention in cudnn-frontend; with cuDNN 9.19 that plan can be built
 * for our graph). */
static void say_blackwell(const pst_cuda_device *d, const pst_cuda_attention_shape *s) {
    if (d->capability / 10 == 10 && s->backward && !s->loose)
        pst_log(
            PST_LOG_WARN,
            "attention B: with deterministic sums cuDNN uses its A100 kernel on this GPU instead "
            "of the faster Blackwell kernel; parallel.deterministic=false allows that kernel");
}

/* Called when nothing is queued. All plans share one block: they run one after the other. */
static pst_status take_room(pst_cuda_device *d, uint64_t workspace) {
    void *room = NULL;
    if (workspace <= d->attention_room_bytes) return PST_OK;
    if (d->attention_room) cudaFree(d->attention_room);
    d->attention_room = NULL;
    d->attention_room_bytes = 0;
    PST_TRY(pst_cuda_status(cudaMalloc(&room, workspace), "allocating workspace for attention"));
    d->attention_room = room;
    d->attention_room_bytes = workspace;
    return PST_OK;
}

/* A launch must not allocate. */
static int fits(const pst_cuda_device *d, const pst_cuda_attention_shape *s,
                const pst_dnn_plan *plan) {
    return plan->plan && (is_laid_out(s, plan) || plan->workspace <= d->attention_room_bytes);
}

/* Finds the plan, which was made at set-up if the shape was prepared. */
static pst_status find(pst_cuda_device *d, const pst_cuda_attention_shape *s,
                       pst_dnn_entry **found) {
    char why[512];
    int is_new;
    PST_TRY(pst_dnn_find(&d->attentions, s, sizeof *s, found, &is_new));
    if (is_new) make_plan(d, s, &(*found)->plan, why, sizeof why);
    return PST_OK;
}

void pst_cuda_attention_close(pst_cuda_device *d) {
    pst_dnn_forget(&d->attentions);
    if (d->attention_room) cudaFree(d->attention_room);
    d->attention_room = NULL;
}

/* *has: whether there is a plan; a shape `together` has another one to try. */
static pst_status prepare_shape(pst_device *device, const pst_graph *g, const pst_node *node,
                                const pst_cuda_attention_shape *s, int *has) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    const pst_pass pass = s->backward ? PST_PASS_B : PST_PASS_F;
    pst_dnn_entry *e;
    char why[512];
    int is_new;
    PST_TRY(pst_dnn_find(&d->attentions, s, sizeof *s, &e, &is_new));
    if (is_new) make_plan(d, s, &e->plan, why, sizeof why);
    *has = e->plan.plan != NULL;
    if (!is_new) return PST_OK;
    if (*why && s->together) pst_log(PST_LOG_DEBUG, "heads that share keys, together: %s", why);
    else if (*why) pst_cuda_warn_slower(device, g, node, pass, why);
    if (!*has) return PST_OK;
    say_workspace(s, &e->plan);
    say_blackwell(d, s);
    return is_laid_out(s, &e->plan) ? PST_OK : take_room(d, e->plan.workspace);
}

static pst_status prepare(pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass) {
    pst_cuda_attention_shape s = shape_of(g, node, pass, 1);
    int has;
    PST_TRY(pst_cuda_status(cudaSetDevice(((pst_cuda_device *)device)->ordinal), "the GPU"));
    PST_TRY(prepare_shape(device, g, node, &s, &has));
    if (has || !s.together) return PST_OK;
    s = shape_of(g, node, pass, 0);
    return prepare_shape(device, g, node, &s, &has);
}

static pst_status prepare_f(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_F);
}

static pst_status prepare_b(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_B);
}

static uint64_t scratch_bytes(const pst_cuda_attention_shape *s) {
    return pst_cuda_attention_shares(s) + pst_cuda_attention_delta(s) +
           pst_cuda_attention_lengths(s) + pst_cuda_attention_sums(s) +
           pst_cuda_attention_workspace(s) + ALIGNMENT;
}

/* --- launches --------------------------------------------------------------------------------- */

/* F: IN0 [IN1] OUT0 SAVED0    B: IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0 */
static pst_cuda_attention operands(const pst_call *call, const pst_cuda_attention_shape *s) {
    void *const *behind = pst_call_behind(call);
    const pst_attention_shape z = pst_attention_shape_of(call->graph, call->node);
    const int own = !z.packed, gives = own && s->backward, drops = call->train && z.rate > 0;
    return (pst_cuda_attention){.qkv = own ? NULL : call->arg[0],
                                .q = own ? call->arg[0] : NULL,
                                .k = own ? call->arg[1] : NULL,
                                .v = own ? call->arg[2] : NULL,
                                .dq = gives ? behind[3] : NULL,
                                .dk = gives ? behind[4] : NULL,
                                .dv = gives ? behind[5] : NULL,
                                .kv_heads = z.kv_heads,
                                .group = z.group,
                                .first = drops ? z.drop_first : z.first,
                                .rate = drops ? z.rate : 0,
                                .key = drops ? pst_rng_key(call->seed, call->node->name) : 0,
                                .sample = call->sample,
                                .window = z.window,
                                .out = behind[0],
                                .lse = behind[1],
                                .dout = s->backward ? behind[2] : NULL,
                                .dqkv = s->backward && !own ? behind[3] : NULL,
                                .lengths = pst_call_lengths(call),
                                .bidirectional = s->bidirectional,
                                .b = s->b,
                                .t = s->t,
                                .c = s->c,
                                .heads = s->heads,
                                .scale = (float)(1 / sqrt((double)s->c / (double)s->heads))};
}

static pst_status plain(pst_device *device, const pst_call *call, pst_pass pass) {
    pst_cuda_attention_shape s = shape_of(call->graph, call->node, pass, 0);
    pst_cuda_attention a = operands(call, &s);
    if (a.rate > 0) a.sample_at = pst_cuda_sample_of(device);
    if (s.backward) pst_cuda_attention_b(pst_cuda_stream(device), (pst_dtype)s.dtype, &a);
    else pst_cuda_attention_f(pst_cuda_stream(device), (pst_dtype)s.dtype, &a);
    return pst_cuda_launched("attention");
}

/* cuDNN's dropout has other random numbers. */
static const char drops[] = "attention has dropout";
static const char unevenly[] =
    "heads of queries on this tensor rank share the heads of keys unevenly";

/* Whether heads of queries belong to heads of keys as the graphs for cuDNN read them: as many to
 * each. */
static int are_even(const pst_graph *g, const pst_node *node) {
    const pst_attention_shape z = pst_attention_shape_of(g, node);
    if (z.heads % z.kv_heads) return 0;
    for (uint64_t h = 0; h < z.heads; h++)
        if (pst_attention_kv_of(&z, h) != h / (z.heads / z.kv_heads)) return 0;
    return 1;
}

static const char *refuses(const pst_graph *g, const pst_node *node, const pst_device *device) {
    (void)device;
    if (node->attr.rate > 0) return drops;
    if (!are_even(g, node)) return unevenly;
    pst_cuda_attention_shape s = shape_of(g, node, PST_PASS_F, 0);
    return pst_cuda_attention_refuses(&s);
}

/* Warns once per shape: the shape has an entry without a plan. */
static pst_status prepare_plain(pst_device *device, const pst_graph *g, const pst_node *node,
                                pst_pass pass) {
    pst_cuda_attention_shape s = shape_of(g, node, pass, 0);
    const char *why = refuses(g, node, device);
    pst_dnn_entry *e;
    int is_new;
    PST_TRY(pst_dnn_find(&((pst_cuda_device *)device)->attentions, &s, sizeof s, &e, &is_new));
    if (is_new && why) pst_cuda_warn_slower(device, g, node, pass, why);
    return PST_OK;
}

static pst_status prepare_plain_f(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare_plain(device, g, node, PST_PASS_F);
}
static pst_status prepare_plain_b(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare_plain(device, g, node, PST_PASS_B);
}

static pst_status plain_f(pst_device *device, const pst_call *call) {
    return plain(device, call, PST_PASS_F);
}
static pst_status plain_b(pst_device *device, const pst_call *call) {
    return plain(device, call, PST_PASS_B);
}

/* Operands of a plan: ids and addresses. */
typedef struct {
    uint32_t n;
    int64_t number[16];
    void *at[16];
} list;

static void put(list *l, int64_t number, const void *at) {
    l->number[l->n] = number;
    l->at[l->n++] = (void *)(uintptr_t)at;
}

/* Where queries, keys and values, or their gradients, begin: of all samples and heads. */
typedef struct {
    uint8_t *q, *k, *v;
} operands_at;

static operands_at side_by_side(const void *qkv, uint64_t c) {
    uint8_t *at = (uint8_t *)(uintptr_t)qkv;
    return (operands_at){at, at + c * HALF, at + 2 * c * HALF};
}

static operands_at inputs(const pst_cuda_attention *a) {
    if (a->qkv) return side_by_side(a->qkv, a->c);
    return (operands_at){(uint8_t *)(uintptr_t)a->q, (uint8_t *)(uintptr_t)a->k,
                         (uint8_t *)(uintptr_t)a->v};
}

/* Elements of all keys, or values; of all queries. */
static uint64_t key_elements(const pst_cuda_attention_shape *s) {
    return s->b * s->t * (s->c / pst_cuda_attention_group(s));
}

static uint64_t query_elements(const pst_cuda_attention_shape *s) { return s->b * s->t * s->c; }

/* The gradients of keys and values are a member's share if there are several. */
static operands_at gradients(const pst_cuda_attention *a, const pst_cuda_attention_shape *s,
                             uint64_t member, uint8_t *shares) {
    const uint64_t group = pst_cuda_attention_group(s), bytes = key_elements(s) * HALF;
    if (s->together) return (operands_at){a->dq, shares, shares + query_elements(s) * HALF};
    if (a->dqkv) return side_by_side(a->dqkv, a->c);
    if (group == 1) return (operands_at){a->dq, a->dk, a->dv};
    return (operands_at){a->dq, shares + member * bytes, shares + (group + member) * bytes};
}

/* The part that begins at this sample and head of the graph; which member of each group of heads.
 */
typedef struct {
    uint64_t b, head, member;
} part;

/* Where the part begins in each operand, in bytes; in the log-sum-exp, in elements. shared: in the
 * gradients of keys and values. */
typedef struct {
    uint64_t q, kv, out, shared, lse;
} offsets;

static offsets offsets_of(const pst_cuda_attention_shape *s, part p) {
    const uint64_t group = pst_cuda_attention_group(s);
    const uint64_t d = s->c / s->heads;
    const uint64_t q_ld = s->kv_heads ? s->c : 3 * s->c;
    const uint64_t kv_ld = s->kv_heads ? s->c / group : 3 * s->c;
    const uint64_t head = p.head * pst_cuda_attention_members(s) + p.member;
    const uint64_t row = p.b * s->t, out = (row * s->c + head * d) * HALF;
    const uint64_t kv = (row * kv_ld + head / group * d) * HALF;
    return (offsets){.q = (row * q_ld + head * d) * HALF,
                     .kv = kv,
                     .out = out,
                     .shared = s->together ? out : kv,
                     .lse = (p.b * s->heads + head) * s->t};
}

static void put_three(list *l, const int64_t number[3], operands_at of, uint64_t q, uint64_t kv) {
    put(l, number[0], of.q + q);
    put(l, number[1], of.k + kv);
    put(l, number[2], of.v + kv);
}

static pst_status run_part(pst_cuda_device *d, const pst_cuda_attention_shape *s,
                           const pst_dnn_plan *plan, const pst_cuda_attention *a, part p,
                           uint8_t *scratch) {
    static const int64_t in[3] = {PST_ATT_Q, PST_ATT_K, PST_ATT_V},
                         gradient[3] = {PST_ATT_DQ, PST_ATT_DK, PST_ATT_DV};
    const offsets o = offsets_of(s, p);
    uint8_t *delta = scratch + pst_cuda_attention_shares(s),
            *lengths = delta + pst_cuda_attention_delta(s),
            *sums = lengths + pst_cuda_attention_lengths(s),
            *laid_out = sums + pst_cuda_attention_sums(s);
    void *workspace = is_laid_out(s, plan) ? laid_out : d->attention_room;
    float scale = a->scale, masked = PST_ATT_MASKED_VALUE, one = 1;
    int32_t window = (int32_t)s->window;
    list l = {0};
    put_three(&l, in, inputs(a), o.q, o.kv);
    put(&l, PST_ATT_OUT, (uint8_t *)a->out + o.out);
    put(&l, PST_ATT_LSE, a->lse + o.lse);
    put(&l, PST_ATT_SCALE, &scale);
    if (s->padded || s->window || !s->bidirectional) put(&l, PST_ATT_MASKED, &masked);
    if (s->window) put(&l, PST_ATT_WINDOW, &window);
    if (s->padded) put(&l, PST_ATT_LENGTHS, lengths + p.b * sizeof(int32_t));
    if (s->backward) {
        put(&l, PST_ATT_DOUT, (const uint8_t *)a->dout + o.out);
        put(&l, PST_ATT_ONE, &one);
        put(&l, PST_ATT_DELTA, delta);
        put_three(&l, gradient, gradients(a, s, p.member, scratch), o.q, o.shared);
    }
    if (s->loose) put(&l, PST_ATT_DQ_SUM, sums);
    if (s->loose && cudnnGetVersion() < CLEARS)
        PST_TRY(pst_cuda_status(
            cudaMemsetAsync(sums, 0, pst_cuda_attention_sums(s), d->stream[PST_Q_COMPUTE]),
            "clearing the sums of attention"));
    return pst_dnn_run(d->dnn, plan, l.n, l.number, l.at, workspace);
}

static pst_status run_member(pst_cuda_device *d, const pst_cuda_attention_shape *s,
                             const pst_dnn_plan *plan, const pst_cuda_attention *a, uint64_t member,
                             uint8_t *scratch) {
    for (uint64_t b = 0; b < s->b; b += s->part_b)
        for (uint64_t head = 0; head < pst_cuda_attention_columns(s); head += s->part_heads)
            PST_TRY(run_part(d, s, plan, a, (part){b, head, member}, scratch));
    return PST_OK;
}

/* Adds the shares of a group's members to the gradients of keys and values, in order. */
static void sum_shares(pst_device *device, const pst_cuda_attention *a,
                       const pst_cuda_attention_shape *s, const uint8_t *shares) {
    const uint64_t n = key_elements(s);
    const uint64_t group = pst_cuda_attention_group(s);
    const uint64_t head = s->c / s->heads;
    pst_cuda_attention_shared of = {.part = shares, .group = group, .to = a->dk};
    if (!s->backward || group == 1) return;
    of.n = n;
    of.run = s->together ? head : n;
    of.apart = of.run;
    if (s->together) of.between = group * head;
    pst_cuda_attention_sum(pst_cuda_stream(device), (pst_dtype)s->dtype, &of);
    of.part = shares + query_elements(s) * HALF;
    of.to = a->dv;
    pst_cuda_attention_sum(pst_cuda_stream(device), (pst_dtype)s->dtype, &of);
}

/* cuDNN leaves undefined values in rows of padding. */
static void clear_padding(pst_device *device, const pst_cuda_attention *a,
                          const pst_cuda_attention_shape *s) {
    if (!s->padded) return;
    if (s->backward) pst_cuda_attention_clear_b(pst_cuda_stream(device), (pst_dtype)s->dtype, a);
    else pst_cuda_attention_clear_f(pst_cuda_stream(device), (pst_dtype)s->dtype, a);
}

/* Together if there is a plan for that, else each member of a group of heads by itself. */
static pst_status choose(pst_cuda_device *d, const pst_call *call, pst_cuda_attention_shape *s,
                         pst_dnn_entry **e) {
    const pst_pass pass = s->backward ? PST_PASS_B : PST_PASS_F;
    PST_TRY(find(d, s, e));
    if (!s->together || fits(d, s, &(*e)->plan)) return PST_OK;
    *s = shape_of(call->graph, call->node, pass, 0);
    return find(d, s, e);
}

static pst_status launch(pst_device *device, const pst_call *call, pst_pass pass) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    pst_cuda_attention_shape s = shape_of(call->graph, call->node, pass, 1);
    pst_dnn_entry *e;
    PST_TRY(choose(d, call, &s, &e));
    if (!fits(d, &s, &e->plan)) return plain(device, call, pass);
    pst_cuda_attention a = operands(call, &s);
    uint8_t *scratch =
        (uint8_t *)(((uintptr_t)call->scratch + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    if (s.padded)
        pst_cuda_attention_clamp(
            pst_cuda_stream(device), &a,
            (int32_t *)(scratch + pst_cuda_attention_shares(&s) + pst_cuda_attention_delta(&s)));
    for (uint64_t member = 0; member < pst_cuda_attention_members(&s); member++)
        PST_TRY(run_member(d, &s, &e->plan, &a, member, scratch));
    sum_shares(device, &a, &s, scratch);
    clear_padding(device, &a, &s);
    return pst_cuda_launched("attention (cuDNN)");
}

static pst_status launch_f(pst_device *device, const pst_call *call) {
    return launch(device, call, PST_PASS_F);
}
static pst_status launch_b(pst_device *device, const pst_call *call) {
    return launch(device, call, PST_PASS_B);
}

/* --- rows ------------------------------------------------------------------------------------- */

static uint64_t scratch_of(const pst_graph *g, const pst_node *node, pst_pass pass) {
    const pst_cuda_attention_shape one = shape_of(g, node, pass, 0);
    const pst_cuda_attention_shape all = shape_of(g, node, pass, 1);
    const uint64_t each = scratch_bytes(&one), together = scratch_bytes(&all);
    return each > together ? each : together;
}

static uint64_t scratch_f(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return scratch_of(g, node, PST_PASS_F);
}

static uint64_t scratch_b(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return scratch_of(g, node, PST_PASS_B);
}

enum { TAKES_HALF = PST_TAKES_BF16 | PST_TAKES_F16, TAKES_ALL = PST_TAKES_F32 | TAKES_HALF };
static const pst_kernel_row rows[] = {
    {.op = "attention",
     .pass = PST_PASS_F,
     .name = "cuda/cudnn/attention",
     .isa = PST_ISA_CUDA,
     .reject = refuses,
     .scratch = scratch_f,
     .prepare = prepare_f,
     .launch = launch_f,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_HALF},
    {.op = "attention",
     .pass = PST_PASS_B,
     .name = "cuda/cudnn/attention",
     .isa = PST_ISA_CUDA,
     .reject = refuses,
     .scratch = scratch_b,
     .prepare = prepare_b,
     .launch = launch_b,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_HALF},
    {.op = "attention",
     .pass = PST_PASS_F,
     .name = "cuda/plain/attention",
     .isa = PST_ISA_CUDA,
     .prepare = prepare_plain_f,
     .launch = plain_f,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_ALL},
    {.op = "attention",
     .pass = PST_PASS_B,
     .name = "cuda/plain/attention",
     .isa = PST_ISA_CUDA,
     .prepare = prepare_plain_b,
     .launch = plain_b,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_ALL},
};

pst_cuda_rows pst_cuda_attention_rows(void) {
    return (pst_cuda_rows){rows, sizeof rows / sizeof *rows};
}
