/* One definition of an operator's test case, three uses: a backend against the reference
 * (test_backends.c), gradients against finite differences (test_gradients.c), timing
 * (commands/bench_kernels.c). A case is a graph whose last node is the operator under test; a state
 * holds one set of its operands in guarded memory. */
#ifndef PST_TESTS_KERNELS_CASE_H
#define PST_TESTS_KERNELS_CASE_H
#include "base/rng.h"
#include "kernels/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *op;
    uint64_t b, t, c; /* input [b,t,c]; attention: c channels of q, of k and of v */
    uint64_t f; /* linear: outputs; embedding: vocabulary; gather_rows: positions (0: none given) */
    uint32_t heads;
    uint32_t kv_heads; /* attention: heads of keys and values, if they are inputs of their own */
    pst_rope_scaling scaling; /* rotary */
    /* attention: is it, and has it lengths of samples (0, 1, T and others) */
    int bidirectional, lengths;
    int starts;     /* attention, embedding: positions have starts, also such as are clamped */
    uint32_t types; /* embedding: token types; 0: none; else it needs `second` */
    pst_activation act;
    int second; /* has its optional parameter (bias, wpe) */
    float rate;
    float factor;            /* scale */
    float smoothing, z_loss; /* cross_entropy, vocabulary_* */
    uint32_t hits;           /* cross_entropy */
    pst_dtype dtype;         /* of the graph */
    pst_dtype factors; /* of linear: TF32, F8 (then factors are numbers of 8 bits to begin with), or
                          0: as dtype */
    /* images: input [b,t,w,c]; convolution: f channels out, windows of `window` pixels */
    uint64_t w, window; /* attention: window: positions to which one attends */
    uint32_t stride, padding;
    uint64_t first, total; /* embedding, vocabulary_*: tokens of other tensor ranks; dropout:
                              elements of others; attention: heads of others */
    int sums;              /* layer_norm: B leaves sums for W (pst_graph_leave_sums) */
    uint32_t wide;         /* of a graph of 16 bits: what is fp32, CASE_WIDE_ */
} kernel_case;
enum { CASE_WIDE_IN = 1 /* input 0 */, CASE_WIDE_IN2 = 2, CASE_WIDE_OUT = 4 };

#define CASE_USED __attribute__((unused)) static

static inline uint64_t case_round_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

CASE_USED const char *case_text(const kernel_case *k) {
    static char text[352];
    snprintf(text, sizeof text,
             "%s b=%lu t=%lu c=%lu f=%lu heads=%u kv_heads=%u scaling=%d%s%s%s act=%d second=%d %s "
             "%s w=%lu window=%lu "
             "stride=%u padding=%u sums=%d wide=%u smoothing=%g z=%g types=%u rate=%g hits=%u",
             k->op, (unsigned long)k->b, (unsigned long)k->t, (unsigned long)k->c,
             (unsigned long)k->f, k->heads, k->kv_heads, (int)k->scaling,
             k->bidirectional ? " bidirectional" : "", k->lengths ? " lengths" : "",
             k->starts ? " starts" : "", (int)k->act, k->second, pst_dtype_name(k->dtype),
             k->factors ? pst_dtype_name(k->factors) : "", (unsigned long)k->w,
             (unsigned long)k->window, k->stride, k->padding, k->sums, k->wide,
             (double)k->smoothing, (double)k->z_loss, k->types, (double)k->rate, k->hits);
    return text;
}

CASE_USED uint64_t case_seed(void) {
    const char *text = getenv("PST_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    printf("seed %llu (PST_TEST_SEED)\n", (unsigned long long)seed);
    return seed;
}

static pst_status case_param(pst_graph *g, const char *name, uint64_t d0, uint64_t d1,
                             uint32_t *index) {
    pst_param p = {.n_dim = d1 ? 2 : 1, .dim = {d0, d1}, .init = PST_INIT_NORMAL, .std = 1};
    snprintf(p.name, sizeof p.name, "%s", name);
    return pst_graph_param(g, &p, index);
}

/* The operator's float input: an embedding's output. */
static pst_status case_input(pst_graph *g, const char *name, uint32_t tokens, uint64_t c, int wide,
                             uint32_t *tensor) {
    char param[32];
    uint32_t index;
    snprintf(param, sizeof param, "%s.table", name);
    PST_TRY(case_param(g, param, 2, c, &index));
    pst_attr attr = {.wide = wide != 0};
    return pst_graph_add(g, &(pst_new_node){"embedding", name, &attr, &tokens, 1, &index, 1},
                         tensor);
}

CASE_USED int case_is_image(const kernel_case *k) { return k->w != 0; }

static pst_status case_image(const kernel_case *k, pst_graph *g) {
    uint64_t dim[] = {k->b, k->t, k->w, k->c};
    uint32_t x, z = PST_NONE, weight, bias = PST_NONE, out;
    PST_TRY(pst_graph_data(g, "bytes", 4, dim, &x));
    if (!strcmp(k->op, "pixels")) return pst_graph_add_pixels(g, "op", x, &out);
    if (!strcmp(k->op, "batch_norm") && k->second) PST_TRY(pst_graph_add_pixels(g, "z", x, &z));
    PST_TRY(pst_graph_add_pixels(g, "x", x, &x));
    if (!strcmp(k->op, "max_pool"))
        return pst_graph_add_max_pool(g, "op", x, (uint32_t)k->window, k->stride, k->padding, &out);
    if (!strcmp(k->op, "average_pool")) return pst_graph_add_average_pool(g, "op", x, &out);
    if (!strcmp(k->op, "batch_norm"))
        return pst_graph_add_batch_norm(g, "op", x, z, k->act, 1e-5f, &out);
    uint64_t shape[] = {k->f, k->window, k->window, k->c};
    PST_TRY(pst_graph_add_param(g, "weight", 4, shape, PST_INIT_NORMAL, 1, 0, &weight));
    if (k->second) PST_TRY(case_param(g, "bias", k->f, 0, &bias));
    return pst_graph_add_convolution(g, "op", x, weight, bias, k->stride, k->padding, &out);
}

static pst_status case_graph(const kernel_case *k, pst_graph **graph) {
    pst_graph *g;
    uint32_t in[4], param[3] = {0, 0, 0}, n_in = 1, n_param = 0, tokens, out;
    uint64_t dim[2] = {k->b, k->t};
    uint64_t c = strcmp(k->op, "attention") || k->kv_heads ? k->c : 3 * k->c;
    pst_attr attr = {.heads = k->heads,
                     .kv_heads = k->kv_heads,
                     .window = (uint32_t)k->window,
                     .bidirectional = (uint32_t)k->bidirectional,
                     .features = (uint32_t)k->f,
                     .activation = k->act,
                     .eps = 1e-5f,
                     .rate = k->rate,
                     .factor = k->factor,
                     .smoothing = k->smoothing,
                     .z_loss = k->z_loss,
                     .hits = k->hits,
                     .wide = (k->wide & CASE_WIDE_OUT) != 0,
                     .first = k->first,
                     .total = k->total};
    if (!strcmp(k->op, "rotary"))
        attr.rope = (pst_rope){
            .theta = 100, .scaling = k->scaling, .factor = 4, .low = 1, .high = 4, .context = 64};
    PST_TRY(pst_graph_open("case", (uint32_t)k->b, &g));
    *graph = g;
    g->dtype = k->dtype;
    g->factors = k->factors;
    if (case_is_image(k)) return case_image(k, g);
    PST_TRY(pst_graph_data(g, "tokens", 2, dim, &tokens));
    if (!strcmp(k->op, "embedding")) {
        in[0] = tokens;
        PST_TRY(case_param(g, "wte", k->f, k->c, &param[n_param++]));
        if (k->second) PST_TRY(case_param(g, "wpe", k->t + 2, k->c, &param[n_param++]));
        if (k->types) PST_TRY(case_param(g, "wtt", k->types, k->c, &param[n_param++]));
    } else {
        PST_TRY(case_input(g, "x", tokens, c, k->wide & CASE_WIDE_IN, &in[0]));
    }
    for (; k->kv_heads && n_in < 3; n_in++)
        PST_TRY(
            case_input(g, n_in == 1 ? "k" : "v", tokens, c / k->heads * k->kv_heads, 0, &in[n_in]));
    if (k->lengths) PST_TRY(pst_graph_data(g, "lengths", 1, dim, &in[n_in++]));
    if (k->starts) PST_TRY(pst_graph_data(g, "starts", 2, dim, &in[n_in++]));
    if (k->types) PST_TRY(pst_graph_data(g, "types", 2, dim, &in[n_in++]));
    if (!strcmp(k->op, "gather_rows") && k->f)
        PST_TRY(pst_graph_data(g, "positions", 2, (uint64_t[]){k->b, k->f}, &in[n_in++]));
    if (!strcmp(k->op, "add") || !strcmp(k->op, "gated"))
        PST_TRY(case_input(g, "x2", tokens, c, k->wide & CASE_WIDE_IN2, &in[n_in++]));
    if (!strcmp(k->op, "cross_entropy") || !strncmp(k->op, "vocabulary", 10))
        PST_TRY(pst_graph_data(g, "targets", 2, dim, &in[n_in++]));
    if (!strcmp(k->op, "vocabulary_loss")) {
        pst_attr group = {.parts = 2};
        PST_TRY(pst_graph_add(g, &(pst_new_node){"vocabulary_part", "part", &attr, in, 2, NULL, 0},
                              &out));
        PST_TRY(pst_graph_add(g, &(pst_new_node){"tensor_stack", "stack", &group, &out, 1, NULL, 0},
                              &in[n_in++]));
    }
    if (!strcmp(k->op, "linear")) PST_TRY(case_param(g, "weight", k->f, k->c, &param[n_param++]));
    if (!strcmp(k->op, "layer_norm") || !strcmp(k->op, "rms_norm"))
        PST_TRY(case_param(g, "weight", k->c, 0, &param[n_param++]));
    if (!strcmp(k->op, "layer_norm") || (!strcmp(k->op, "linear") && k->second))
        PST_TRY(case_param(g, "bias", strcmp(k->op, "linear") ? k->c : k->f, 0, &param[n_param++]));
    return pst_graph_add(g, &(pst_new_node){k->op, k->op, &attr, in, n_in, param, n_param}, &out);
}

/* Every operator that a residual stream of fp32 goes through, in graphs of 16 bits. sums: also
 * layer norms whose B leaves sums. */
CASE_USED void case_streams(uint64_t c, uint64_t first, int sums,
                            void (*check)(const kernel_case *k)) {
    static const uint32_t norm[] = {CASE_WIDE_IN, CASE_WIDE_IN | CASE_WIDE_OUT, CASE_WIDE_OUT};
    for (int half = 0; half < 2; half++) {
        const pst_dtype type = half ? PST_F16 : PST_BF16;
        const uint64_t t = c > 1000 ? 3 : 19;
        kernel_case k = {.b = 2, .t = t, .c = c, .dtype = type, .wide = CASE_WIDE_IN};
        k.op = "add";
        check(&k);
        k.wide |= CASE_WIDE_IN2;
        check(&k);
        k.op = "narrow";
        check(&k);
        for (k.op = "dropout"; k.rate < 1; k.rate += 0.45f) {
            k.first = first;
            check(&k);
        }
        k = (kernel_case){.op = "embedding", .b = 3, .t = t, .c = c, .f = 40, .dtype = type};
        k.wide = CASE_WIDE_OUT;
        check(&k);
        k.second = 1;
        k.first = first;
        k.total = first + 50;
        check(&k);
        k.types = 3;
        check(&k);
        k = (kernel_case){.op = "gather_rows", .b = 3, .t = t, .c = c, .f = 7, .dtype = type};
        k.wide = CASE_WIDE_IN;
        check(&k);
        for (int i = 0; i < 3; i++) {
            k = (kernel_case){.op = "layer_norm", .b = 1, .t = t + 2, .c = c, .dtype = type};
            k.wide = norm[i];
            for (; k.sums <= sums; k.sums++) check(&k);
            k.op = "rms_norm";
            k.sums = 0;
            check(&k);
        }
    }
}

/* Operands are identified by kind and index. */
enum { CASE_MAX_BUFFER = 24, CASE_GUARD = 256 /* bytes on both sides */ };
typedef struct {
    uint8_t kind, index;
    pst_dtype dtype;
    uint64_t n, size; /* elements, bytes of one */
    uint8_t *memory;
    void *data;
} case_buffer;

typedef struct {
    kernel_case spec;
    pst_graph *graph;
    const pst_node *node;
    uint32_t n_buffer;
    case_buffer buffer[CASE_MAX_BUFFER];
    uint64_t seed;
} case_state;

CASE_USED case_buffer *case_find(const case_state *s, uint32_t kind, uint32_t index) {
    for (uint32_t i = 0; i < s->n_buffer; i++)
        if (s->buffer[i].kind == kind && s->buffer[i].index == index)
            return (case_buffer *)&s->buffer[i];
    return NULL;
}

static uint64_t case_elements(const case_state *s, uint32_t kind, uint32_t index) {
    const pst_node *node = s->node;
    if (kind == PST_ARG_IN || kind == PST_ARG_DIN || kind == PST_ARG_SUM)
        return pst_tensor_elements(&s->graph->tensor[node->in[index]]);
    if (kind == PST_ARG_OUT || kind == PST_ARG_DOUT)
        return pst_tensor_elements(&s->graph->tensor[node->out[index]]);
    if (kind == PST_ARG_SAVED) return node->saved[index].elements;
    return pst_param_elements(&s->graph->param[node->param[index]]);
}

static pst_dtype case_dtype(const case_state *s, uint32_t kind, uint32_t index) {
    const pst_node *node = s->node;
    if (kind == PST_ARG_DPARAM) return PST_F32;
    if (kind == PST_ARG_SAVED) return node->saved[index].dtype;
    if (kind == PST_ARG_PARAM) return s->graph->dtype;
    int out = kind == PST_ARG_OUT || kind == PST_ARG_DOUT;
    return s->graph->tensor[out ? node->out[index] : node->in[index]].dtype;
}

/* shift: elements by which every operand lies off its 64-byte alignment. */
static int case_buffer_add(case_state *s, uint32_t kind, uint32_t index, uint64_t shift) {
    if (case_find(s, kind, index)) return 0;
    case_buffer *b = &s->buffer[s->n_buffer++];
    pst_dtype dtype = case_dtype(s, kind, index);
    uint64_t n = case_elements(s, kind, index), size = pst_dtype_bytes(dtype);
    uint64_t bytes = case_round_up(size * (n + shift)) + 2 * CASE_GUARD;
    *b = (case_buffer){.kind = (uint8_t)kind,
                       .index = (uint8_t)index,
                       .dtype = dtype,
                       .n = n,
                       .size = size,
                       .memory = aligned_alloc(64, bytes)};
    if (!b->memory) return -1;
    memset(b->memory, 0xff, bytes); /* NaN */
    b->data = b->memory + CASE_GUARD + size * shift;
    return 0;
}

CASE_USED void case_close(case_state *s) {
    for (uint32_t i = 0; i < s->n_buffer; i++) free(s->buffer[i].memory);
    if (s->graph) pst_graph_close(s->graph);
    memset(s, 0, sizeof *s);
}

CASE_USED int case_has_pass(const case_state *s, pst_pass pass) {
    pst_arg args[PST_MAX_ARG];
    return s->node->op->args(s->node, pass, args) != 0;
}

/* NULL when there is no memory. */
CASE_USED float *case_floats(const case_buffer *b) {
    float *out = malloc((b->n + 1) * sizeof *out);
    for (uint64_t i = 0; out && i < b->n; i++)
        out[i] = pst_dtype_is_half(b->dtype) ? pst_f32_from_half(b->dtype, ((uint16_t *)b->data)[i])
                                             : ((float *)b->data)[i];
    return out;
}

static void case_put(case_buffer *b, uint64_t i, float value) {
    if (pst_dtype_is_half(b->dtype)) ((uint16_t *)b->data)[i] = pst_half_from_f32(b->dtype, value);
    else ((float *)b->data)[i] = value;
}

/* To numbers of 8 bits times a power of two. */
static void case_round_f8(case_buffer *b, float *value) {
    float most = 0;
    int exponent, wide = b->kind == PST_ARG_DOUT;
    for (uint64_t i = 0; i < b->n; i++) most = fmaxf(most, fabsf(value[i]));
    frexpf((wide ? 57344 : 448) / most, &exponent); /* below 2^exponent */
    for (uint64_t i = 0; i < b->n; i++)
        value[i] =
            ldexpf(pst_f32_from_f8(wide, pst_f8_from_f32(wide, ldexpf(value[i], exponent - 1))),
                   1 - exponent);
}

/* Seed of the run, and number of the first sample, of every call. */
enum { CASE_RUN_SEED = 42, CASE_SAMPLE = 1000 };

/* None, one, all, and two that are random, in another order for each seed. */
static void case_fill_lengths(case_state *s, case_buffer *b) {
    uint64_t key = pst_rng_key(s->seed, "lengths"), t = s->spec.t;
    for (uint64_t i = 0; i < b->n; i++) {
        uint32_t word[4];
        pst_rng_words(key, 7, i, word);
        uint64_t value[] = {t, word[0] % (t + 1), 1, 0, word[1] % (t + 1)};
        ((int32_t *)b->data)[i] = (int32_t)value[(s->seed + i) % 5];
    }
}

/* Documents of 1 and more positions, some longer than a block of a kernel; now and then a start
 * that is negative or behind its position. */
static void case_fill_starts(case_state *s, case_buffer *b) {
    uint64_t key = pst_rng_key(s->seed, "starts"), t = s->spec.t;
    int32_t start = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        uint32_t word[4];
        const int32_t at = (int32_t)(i % t);
        pst_rng_words(key, 7, i, word);
        if (!at) start = 0;
        else if (word[0] % (at % 200 > 80 ? 100 : 8) == 0) start = at;
        ((int32_t *)b->data)[i] = start;
        if (word[1] % 64 == 0) ((int32_t *)b->data)[i] = word[2] % 2 ? -3 : at + 5;
    }
}

static void case_fill(case_state *s, case_buffer *b) {
    uint64_t key = pst_rng_key(s->seed, "case") + b->kind * 16u + b->index;
    const kernel_case *k = &s->spec;
    int tokens = b->kind == PST_ARG_IN && s->graph->tensor[s->node->in[b->index]].dtype == PST_I32;
    if (!tokens) {
        float std =
            b->kind == PST_ARG_PARAM && !strcmp(k->op, "linear") ? 1 / sqrtf((float)k->c) : 1;
        if (b->kind == PST_ARG_PARAM && !strcmp(k->op, "convolution"))
            std = 1 / sqrtf((float)(k->window * k->window * k->c));
        int variance = b->kind == PST_ARG_PARAM && b->index == 3;
        float *value = malloc(b->n * sizeof *value);
        if (value) pst_rng_normal(key, b->kind == PST_ARG_IN ? 0.1f : 0.0f, std, value, b->n);
        /* no two are so near to each other that a finite difference mixes them up */
        for (uint64_t i = 0;
             value && i < b->n && b->kind == PST_ARG_IN && !strcmp(k->op, "max_pool"); i++)
            value[i] = 0.05f * (float)(i * 7919 % b->n);
        if (value && k->factors == PST_F8) case_round_f8(b, value);
        int sums = b->kind == PST_ARG_IN && !strcmp(k->op, "vocabulary_loss") && b->index == 2;
        /* sums of exponentials are positive */
        for (uint64_t i = 0; value && i < b->n; i++)
            case_put(b, i, sums || variance ? 0.1f + fabsf(value[i]) : value[i]);
        free(value);
        return;
    }
    if (k->starts && b->index == pst_node_mask(s->node)) {
        case_fill_starts(s, b);
        return;
    }
    if (!strcmp(k->op, "attention")) {
        case_fill_lengths(s, b);
        return;
    }
    uint64_t limit = strcmp(k->op, "embedding") ? k->c : k->f;
    if (!strcmp(k->op, "gather_rows")) limit = k->t;
    if (k->total) limit = k->total;
    if (k->types && b->index == 1) limit = k->types;
    if (case_is_image(k)) limit = 256;
    for (uint64_t i = 0; i < b->n; i++) {
        uint32_t word[4];
        pst_rng_words(key, 7, i, word);
        ((int32_t *)b->data)[i] = (int32_t)(word[0] % limit);
        if (!case_is_image(k) && strcmp(k->op, "embedding") && word[1] % 8 == 0)
            ((int32_t *)b->data)[i] = -1;
    }
}

/* Inputs, parameters, incoming gradients and sums are random; what passes write is NaN. Seed 0
 * leaves all of it NaN, for a state that is about to be copied over. */
CASE_USED pst_status case_open(const kernel_case *k, uint64_t seed, uint64_t shift, case_state *s) {
    *s = (case_state){.spec = *k, .seed = seed};
    PST_TRY(case_graph(k, &s->graph));
    if (k->sums) pst_graph_leave_sums(s->graph);
    s->node = &s->graph->node[s->graph->n_node - 1];
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        pst_arg args[PST_MAX_ARG];
        uint32_t n = s->node->op->args(s->node, (pst_pass)pass, args);
        for (uint32_t i = 0; i < n; i++)
            if (!args[i].must && case_buffer_add(s, args[i].kind, args[i].index, shift))
                return pst_fail(PST_ENOMEM, "no memory for a test case");
    }
    for (uint32_t i = 0; i < s->n_buffer && seed; i++) {
        uint32_t kind = s->buffer[i].kind;
        if (kind == PST_ARG_IN || kind == PST_ARG_PARAM || kind == PST_ARG_DOUT ||
            kind == PST_ARG_SUM)
            case_fill(s, &s->buffer[i]);
    }
    return PST_OK;
}

CASE_USED void case_copy(case_state *to, const case_state *from) {
    for (uint32_t i = 0; i < to->n_buffer; i++)
        memcpy(to->buffer[i].data, from->buffer[i].data, to->buffer[i].size * to->buffer[i].n);
}

CASE_USED int case_guards_intact(const case_state *s) {
    for (uint32_t i = 0; i < s->n_buffer; i++) {
        const case_buffer *b = &s->buffer[i];
        const uint8_t *end = (const uint8_t *)b->data + b->size * b->n;
        for (const uint8_t *p = b->memory; p < (const uint8_t *)b->data; p++)
            if (*p != 0xff) return 0;
        for (const uint8_t *p = end; p < end + CASE_GUARD / 2; p++)
            if (*p != 0xff) return 0;
    }
    return 1;
}

typedef struct {
    /* share: written operands take over memory where the operator allows it */
    int first, train, share, no_sum;
} case_flags;

/* The operand that argument i of a pass is (in place where it must or, asked for, may be). */
CASE_USED case_buffer *case_operand(const case_state *s, const pst_arg *args, uint32_t i,
                                    case_flags flags) {
    if (args[i].share >= 0 && (args[i].must || (flags.share && !flags.no_sum)))
        return case_find(s, args[args[i].share].kind, args[args[i].share].index);
    return case_find(s, args[i].kind, args[i].index);
}

/* The first byte of 64 that are all as they were; `bytes`: there are none. What an array is rounded
 * up by need not be written. */
CASE_USED uint64_t case_unwritten(const uint8_t *scratch, uint64_t bytes) {
    for (uint64_t line = 0; line < bytes; line += 64) {
        uint64_t i = line, end = line + 64 < bytes ? line + 64 : bytes;
        while (i < end && scratch[i] == 0xff) i++;
        if (i == end) return line;
    }
    return bytes;
}

/* Runs one pass; scratch is filled with a pattern before, which must be gone after. */
CASE_USED pst_status case_run(const case_state *s, const pst_kernel_row *row, pst_device *device,
                              case_flags flags) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        arg[i] = case_operand(s, args, i, flags)->data;
        if (args[i].kind == PST_ARG_SUM && flags.no_sum) arg[i] = NULL;
    }
    uint32_t threads = device ? device->threads : 1;
    uint64_t bytes = row->scratch ? row->scratch(s->graph, s->node, threads) : 0;
    uint8_t *scratch = aligned_alloc(64, case_round_up(bytes) + 64);
    if (!scratch) return pst_fail(PST_ENOMEM, "no memory for scratch");
    memset(scratch, 0xff, bytes + 64);
    pst_call call = {.graph = s->graph,
                     .node = s->node,
                     .arg = arg,
                     .scratch = scratch,
                     .seed = CASE_RUN_SEED,
                     .sample = CASE_SAMPLE,
                     .first = flags.first,
                     .train = flags.train,
                     .loss_scale = 1.0f / (float)(s->spec.b * s->spec.t)};
    pst_status status = row->launch(device, &call);
    /* with more threads, one may have got nothing to do, and its own scratch stays as it was */
    int exact = status == PST_OK && threads == 1;
    uint64_t left = exact ? case_unwritten(scratch, bytes) : bytes;
    if (left < bytes)
        status = pst_fail(PST_EINTERNAL, "%s did not write byte %lu of its scratch", row->name,
                          (unsigned long)left);
    for (uint64_t i = bytes; i < bytes + 64 && status == PST_OK; i++)
        if (scratch[i] != 0xff)
            status = pst_fail(PST_EINTERNAL, "%s wrote behind its scratch", row->name);
    free(scratch);
    return status;
}

/* The first row for a case that a machine with these instruction sets can run. */
CASE_USED const pst_kernel_row *case_row(const pst_kernel_row *rows, uint32_t n,
                                         const kernel_case *k, pst_pass pass, uint32_t isa) {
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(rows[i].op, k->op) && rows[i].pass == pass && !(rows[i].isa & ~isa) &&
            rows[i].dtypes >> k->dtype & 1)
            return &rows[i];
    return NULL;
}

/* A type of graph that the row takes. */
CASE_USED pst_dtype case_row_dtype(const pst_kernel_row *row) {
    if (row->dtypes & PST_TAKES_F32) return PST_F32;
    return row->dtypes & PST_TAKES_BF16 ? PST_BF16 : PST_F16;
}

/* Relative distance |a-b| / |b|; NaN counts as infinitely far. */
CASE_USED double case_distance(const float *a, const float *b, uint64_t n) {
    double apart = 0, size = 0;
    for (uint64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    if (isnan(apart) || isnan(size)) return INFINITY;
    if (size <= 0) size = 1e-30;
    return apart == 0 ? 0 : sqrt(apart / size);
}
#endif
