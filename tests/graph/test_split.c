/* Tensor parallelism without an engine: the parts of a model run in lockstep, each step on one part
 * after the other, and the test does what they exchange. Loss and every gradient must be those of
 * the whole model. The reference sums in double and rounds once per element, so that the distance
 * stays within a few roundings of fp32 (2^-24) per layer. */
#include "base/rng.h"
#include "graph/tape.h"
#include "graph/adapt.h"
#include "graph/split.h"
#include "kernels/kernel.h"
#include "models/model.h"
#include "graph/slice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double LOSS_TOLERANCE = 1e-6, GRADIENT_TOLERANCE = 3e-6;
enum { MAX_PARTS = 5 };

typedef struct {
    pst_graph *g;
    pst_tape *tape;
    void **value; /* [n_value] */
    uint8_t *owned;
    float **weight, **grad; /* [n_param]; grad: of all uses together */
    float **use;            /* [n_param * 4] */
} part;

typedef struct {
    uint32_t n;
    part part[MAX_PARTS];
} group;

static void must(pst_status status) {
    if (status != PST_OK) fail_msg("%s", pst_error());
}

static void *room(uint64_t bytes) {
    void *x = malloc(bytes + 8);
    assert_non_null(x);
    memset(x, 0xff, bytes + 8);
    return x;
}

/* --- the parts -------------------------------------------------------------------------------- */

/* The whole parameter's values, the same for every part. */
static float *whole_weight(const pst_param *p) {
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(p, dim);
    float *w = room(n * sizeof *w);
    pst_rng_normal(pst_rng_key(3, p->name), p->n_dim == 1 ? 0.5f : 0, 0.3f, w, n);
    return w;
}

static void fill_data(const pst_graph *g, uint32_t tensor, uint32_t vocabulary, int32_t *out) {
    const char *name = g->tensor[tensor].name;
    const int positions = !strcmp(name, "positions");
    const int may_lack = positions || !strcmp(name, "targets");
    uint64_t n = pst_tensor_elements(g->tensor + tensor), key = pst_rng_key(5, name),
             values = positions ? g->tensor[pst_graph_find_tensor(g, "tokens")].dim[1] : vocabulary;
    if (!strcmp(name, "types") || !strcmp(name, "next_sentence")) values = 2;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word[4];
        pst_rng_words(key, 0, i, word);
        out[i] = (int32_t)(word[0] % values);
        if (may_lack && word[1] % 6 == 0) out[i] = -1;
    }
}

static void open_part(part *p, uint32_t vocabulary) {
    const pst_graph *g = p->g;
    must(pst_graph_check(g));
    must(pst_tape_build(g, 1, &p->tape));
    p->value = calloc(p->tape->n_value + 1, sizeof *p->value);
    p->owned = calloc(p->tape->n_value + 1, 1);
    for (uint32_t v = 0; v < p->tape->n_value; v++) {
        const pst_value *value = p->tape->value + v;
        p->value[v] = room(value->bytes);
        p->owned[v] = 1;
        if (value->def_step == PST_NONE) fill_data(g, value->tensor, vocabulary, p->value[v]);
    }
    p->weight = calloc(g->n_param, sizeof *p->weight);
    p->grad = calloc(g->n_param, sizeof *p->grad);
    p->use = calloc(4 * g->n_param, sizeof *p->use);
    for (uint32_t i = 0; i < g->n_param; i++) {
        uint64_t n = pst_param_elements(g->param + i);
        float *whole = whole_weight(g->param + i);
        p->weight[i] = room(n * sizeof(float));
        pst_slice_take(g->param + i, whole, p->weight[i]);
        free(whole);
        for (uint32_t u = 0; u < g->param[i].n_use; u++)
            p->use[4 * i + u] = room(n * sizeof(float));
    }
}

static void close_group(group *x) {
    for (uint32_t k = 0; k < x->n; k++) {
        part *p = x->part + k;
        for (uint32_t v = 0; v < p->tape->n_value; v++)
            if (p->owned[v]) free(p->value[v]);
        for (uint32_t i = 0; i < p->g->n_param; i++) {
            free(p->weight[i]);
            free(p->grad[i]);
        }
        for (uint32_t i = 0; i < 4 * p->g->n_param; i++) free(p->use[i]);
        free(p->value);
        free(p->owned);
        free(p->weight);
        free(p->grad);
        free(p->use);
        pst_tape_close(p->tape);
        pst_graph_close(p->g);
    }
}

/* --- a step ----------------------------------------------------------------------------------- */

static void *operand(const part *p, const pst_operand *o) {
    switch ((pst_operand_kind)o->kind) {
    case PST_OPERAND_VALUE: return p->value[o->index];
    case PST_OPERAND_PARAM: return p->weight[o->index];
    case PST_OPERAND_DPARAM: return p->use[4 * o->index + o->use];
    case PST_OPERAND_UNREAD: return p->use[4 * o->index]; /* a frozen parameter has no uses */
    default: return NULL;
    }
}

/* Values that are one memory always. */
static void share(part *p, uint32_t s) {
    const pst_tape_step *step = p->tape->step + s;
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (!o->must) continue;
        free(p->value[o->index]);
        p->value[o->index] = p->value[step->operand[o->share].index];
        p->owned[o->index] = 0;
    }
}

static void run_kernel(const part *p, uint32_t s) {
    const pst_tape_step *step = p->tape->step + s;
    const pst_node *node = p->g->node + step->node;
    const char *op = p->tape->extra[s] ? "sum" : node->op->name;
    void *arg[PST_MAX_ARG];
    uint32_t n, k = 0;
    const pst_kernel_row *row = pst_kernels_ref(&n);
    for (uint32_t i = 0; i < step->n_operand; i++) arg[i] = operand(p, step->operand + i);
    while (k < n &&
           (strcmp(row[k].op, op) || row[k].pass != step->pass || !(row[k].dtypes & PST_TAKES_F32)))
        k++;
    if (k == n) fail_msg("no kernel for %s", op);
    pst_call call = {.graph = p->g,
                     .node = node,
                     .arg = arg,
                     .seed = 9,
                     .sample = 70,
                     .first = 1,
                     .train = 1,
                     .loss_scale = 0.125f};
    must(row[k].launch(NULL, &call));
}

/* Of every part: the two operands of the step, and how many elements they have. */
typedef struct {
    float *from, *to;
    uint64_t n_from, n_to, rows;
    pst_part own;
} end;

static end end_of(const part *p, uint32_t s) {
    const pst_tape_step *step = p->tape->step + s;
    const pst_node *node = p->g->node + step->node;
    const pst_value *from = p->tape->value + step->operand[0].index,
                    *to = p->tape->value + step->operand[1].index;
    return (end){.from = operand(p, step->operand),
                 .to = operand(p, step->operand + 1),
                 .n_from = from->bytes / sizeof(float),
                 .n_to = to->bytes / sizeof(float),
                 .rows = p->g->micro_batch,
                 .own = pst_part_of(node->attr.length, node->attr.parts, node->attr.part)};
}

static void exchange(group *x, uint32_t s, pst_exchange kind) {
    end e[MAX_PARTS];
    uint64_t most = 0, length = x->part[0].g->node[x->part[0].tape->step[s].node].attr.length;
    for (uint32_t k = 0; k < x->n; k++) {
        e[k] = end_of(x->part + k, s);
        if (e[k].n_from > most) most = e[k].n_from;
        if (e[k].n_to > most) most = e[k].n_to;
    }
    float *sum = calloc(most + 1, sizeof *sum);
    int sums = kind == PST_EXCHANGE_SUM || kind == PST_EXCHANGE_SCATTER;
    for (uint32_t k = 0; sums && k < x->n; k++)
        for (uint64_t i = 0; i < e[k].n_from; i++) sum[i] += e[k].from[i];
    for (uint32_t k = 0; k < x->n; k++) {
        uint64_t at = 0, wide = e[k].n_to > e[k].n_from ? e[k].n_to : e[k].n_from,
                 c = wide / e[k].rows / length;
        for (uint32_t j = 0; j < x->n && kind == PST_EXCHANGE_STACK; at += e[j++].n_from)
            memcpy(e[k].to + at, e[j].from, e[j].n_from * sizeof(float));
        for (uint32_t j = 0; j < x->n && kind == PST_EXCHANGE_GATHER; j++)
            for (uint64_t r = 0; r < e[k].rows; r++)
                memcpy(e[k].to + (r * length + e[j].own.first) * c,
                       e[j].from + r * e[j].own.count * c, e[j].own.count * c * sizeof(float));
        for (uint64_t r = 0; r < e[k].rows && kind == PST_EXCHANGE_SCATTER; r++)
            memcpy(e[k].to + r * e[k].own.count * c, sum + (r * length + e[k].own.first) * c,
                   e[k].own.count * c * sizeof(float));
        if (kind == PST_EXCHANGE_COPY) memcpy(e[k].to, e[k].from, e[k].n_to * sizeof(float));
        if (kind == PST_EXCHANGE_SUM) memcpy(e[k].to, sum, e[k].n_to * sizeof(float));
    }
    free(sum);
}

static void run(group *x) {
    for (uint32_t s = 0; s < x->part[0].tape->n_step; s++) {
        const pst_tape_step *step = x->part[0].tape->step + s;
        pst_exchange kind = pst_node_exchange(x->part[0].g->node + step->node,
                                              x->part[0].tape->extra[s], step->pass);
        for (uint32_t k = 0; k < x->n; k++) share(x->part + k, s);
        for (uint32_t k = 0; k < x->n && kind == PST_EXCHANGE_NONE; k++) run_kernel(x->part + k, s);
        if (kind != PST_EXCHANGE_NONE) exchange(x, s, kind);
    }
    for (uint32_t k = 0; k < x->n; k++)
        for (uint32_t i = 0; i < x->part[k].g->n_param; i++) {
            const pst_param *param = x->part[k].g->param + i;
            uint64_t n = pst_param_elements(param);
            float *sum = x->part[k].grad[i] = calloc(n + 1, sizeof *sum);
            for (uint32_t u = 0; u < pst_param_gradients(param); u++)
                for (uint64_t e = 0; e < n; e++) sum[e] += x->part[k].use[4 * i + u][e];
        }
}

/* --- what comes out --------------------------------------------------------------------------- */

/* The whole parameter's gradient; what all parts have alike has to be the same to the bit. */
static float *whole_grad(const group *x, uint32_t i) {
    const part *first = x->part;
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(first->g->param + i, dim);
    float *out = calloc(n + 1, sizeof *out);
    for (uint32_t k = 0; k < x->n; k++) {
        const pst_param *param = x->part[k].g->param + i;
        uint64_t here = pst_param_elements(param);
        if (param->slice.held == PST_HELD_ELSEWHERE) {
            assert_int_equal(param->n_use, 0);
        } else if (param->slice.held == PST_HELD_PART) {
            pst_slice_put(param, x->part[k].grad[i], out);
        } else if (param->slice.partial) {
            for (uint64_t e = 0; e < here; e++) out[e] += x->part[k].grad[i][e];
        } else if (k == 0 || first->g->param[i].slice.held == PST_HELD_WHOLE) {
            if (k) assert_memory_equal(out, x->part[k].grad[i], here * sizeof *out);
            memcpy(out, x->part[k].grad[i], here * sizeof *out);
        }
    }
    return out;
}

static double distance(const float *a, const float *b, uint64_t n) {
    double d = 0, norm = 0;
    for (uint64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return norm > 0 ? sqrt(d / norm) : sqrt(d);
}

static const float *losses(const part *p, uint64_t *n) {
    for (uint32_t v = 0; v < p->tape->n_value; v++) {
        const pst_value *value = p->tape->value + v;
        if (value->kind != PST_VALUE_TENSOR ||
            p->g->tensor[value->tensor].role != PST_TENSOR_OUTPUT)
            continue;
        *n = value->bytes / sizeof(float);
        return p->value[v];
    }
    fail_msg("no loss");
    return NULL;
}

static void compare(const group *want, const group *got, const char *what) {
    uint64_t n = 0, n_got = 0, dim[PST_MAX_DIM];
    const float *a = losses(want->part, &n);
    for (uint32_t k = 0; k < got->n; k++) {
        const float *b = losses(got->part + k, &n_got), *first = losses(got->part, &n_got);
        assert_int_equal(n, n_got);
        assert_memory_equal(b, first, n * sizeof *b);
        double d = distance(b, a, n);
        if (!(d <= LOSS_TOLERANCE)) fail_msg("%s: losses of part %u are %.3g off", what, k, d);
    }
    for (uint32_t i = 0; i < want->part->g->n_param; i++) {
        const pst_param *param = want->part->g->param + i;
        assert_string_equal(param->name, got->part->g->param[i].name);
        assert_int_equal(pst_slice_whole(got->part->g->param + i, dim), pst_param_elements(param));
        float *grad = whole_grad(got, i);
        double d = distance(grad, want->part->grad[i], pst_param_elements(param));
        if (!(d <= GRADIENT_TOLERANCE))
            fail_msg("%s: the gradient of %s is %.3g off", what, param->name, d);
        free(grad);
    }
}

/* Whether the parts have the same operators, and hold every element of every parameter as often as
 * they should. */
static void check_parts(const group *x) {
    for (uint32_t k = 1; k < x->n; k++) {
        const pst_graph *a = x->part->g, *b = x->part[k].g;
        assert_int_equal(a->n_node, b->n_node);
        assert_int_equal(a->n_tensor, b->n_tensor);
        for (uint32_t i = 0; i < a->n_node; i++) {
            assert_string_equal(a->node[i].name, b->node[i].name);
            assert_ptr_equal(a->node[i].op, b->node[i].op);
        }
        assert_int_equal(x->part->tape->n_step, x->part[k].tape->n_step);
    }
    for (uint32_t i = 0; i < x->part->g->n_param; i++) {
        if (x->part->g->param[i].slice.held != PST_HELD_PART) continue;
        uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(x->part->g->param + i, dim), here = 0;
        for (uint32_t k = 0; k < x->n; k++) here += pst_param_elements(x->part[k].g->param + i);
        assert_int_equal(here, n);
    }
}

static int has_biases(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_param; i++)
        if (strstr(g->param[i].name, ".bias")) return 1;
    return 0;
}

/* Adapters of all linears; beside them only biases are trained. */
static void adapt(pst_graph **g) {
    char *on[] = {(char *)(uintptr_t) "*"}, *biases[] = {(char *)(uintptr_t) "!*.bias"};
    const pst_adapt spec = {2, 3, on, 1};
    pst_graph *adapted;
    must(pst_graph_adapt(*g, &spec, &adapted));
    pst_graph_close(*g);
    must(pst_graph_set_frozen(adapted, biases, (uint32_t)has_biases(adapted), 1));
    *g = adapted;
}

static void check_tuned(const pst_model_row *row, pst_model_config c, uint32_t parts, int sequence,
                        int adapted) {
    group whole = {.n = 1}, split = {.n = parts};
    char what[96];
    snprintf(what, sizeof what, "%s%s in %u parts%s", adapted ? "adapted " : "", row->name, parts,
             sequence ? " along the sequence" : "");
    must(row->build(&c, &whole.part[0].g));
    if (adapted) adapt(&whole.part[0].g);
    open_part(whole.part, c.vocabulary);
    run(&whole);
    for (uint32_t k = 0; k < parts; k++) {
        pst_split_options o = {.parts = parts, .part = k, .sequence = sequence};
        must(pst_graph_split(whole.part->g, &o, &split.part[k].g));
        open_part(split.part + k, c.vocabulary);
    }
    check_parts(&split);
    run(&split);
    compare(&whole, &split, what);
    close_group(&whole);
    close_group(&split);
}

static void check_model(const pst_model_row *row, pst_model_config c, uint32_t parts,
                        int sequence) {
    for (int adapted = 0; adapted < 2; adapted++) check_tuned(row, c, parts, sequence, adapted);
}

/* Three heads and 13 tokens on two ranks, 7 positions: nothing divides. */
static pst_model_config gpt(void) {
    return (pst_model_config){.kind = "gpt",
                              .layers = 2,
                              .heads = 3,
                              .channels = 12,
                              .context = 7,
                              .vocabulary = 13,
                              .dropout = 0.25f,
                              .activation = PST_ACT_GELU_TANH,
                              .micro_batch = 2};
}

static void test_gpt(void **state) {
    (void)state;
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (int sequence = 0; sequence < 2; sequence++)
            check_model(&pst_model_gpt, gpt(), parts, sequence);
}

/* Every rank knows the lengths, which are random ones here. */
static void test_bert(void **state) {
    (void)state;
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (int sequence = 0; sequence < 2; sequence++)
            check_model(&pst_model_bert, gpt(), parts, sequence);
}

/* Types, five rows that are gathered from all ranks' positions, and [CLS], which one rank has. */
static void test_published_bert(void **state) {
    (void)state;
    pst_model_config c = gpt();
    c.bert = (pst_bert){.token_types = 2, .predictions = 5, .next_sentence = 1};
    for (uint32_t parts = 1; parts <= 3; parts++)
        for (int sequence = 0; sequence < 2; sequence++)
            check_model(&pst_model_bert, c, parts, sequence);
}

static void test_gpt_even(void **state) {
    (void)state;
    pst_model_config c = gpt();
    c.heads = 4;
    c.vocabulary = 16;
    c.context = 8;
    c.channels = 16;
    for (int sequence = 0; sequence < 2; sequence++) check_model(&pst_model_gpt, c, 4, sequence);
}

/* Two heads of keys and values for six heads: split on two ranks, repeated on three and four; and
 * as many as heads, with biases. */
static void test_llama(void **state) {
    (void)state;
    pst_model_config c = gpt();
    c.heads = 6;
    c.channels = 24;
    c.llama =
        (pst_llama){.kv_heads = 2, .intermediate = 9, .norm_eps = 1e-5f, .rope = {.theta = 50}};
    for (uint32_t parts = 1; parts <= 4; parts++)
        for (int sequence = 0; sequence < 2; sequence++)
            check_model(&pst_model_llama, c, parts, sequence);
    c.heads = c.llama.kv_heads = 3;
    c.llama.bias = c.llama.tied = PST_YES;
    c.llama.window = 4;
    for (int sequence = 0; sequence < 2; sequence++) check_model(&pst_model_llama, c, 2, sequence);
}

static void test_mlp(void **state) {
    (void)state;
    pst_model_config c = gpt();
    c.activation = PST_ACT_RELU;
    for (uint32_t parts = 1; parts <= 5; parts++)
        for (int sequence = 0; sequence < 2; sequence++)
            check_model(&pst_model_mlp, c, parts, sequence);
}

static void refuse(pst_model_config c, uint32_t parts, int sequence, const char *why) {
    pst_graph *g, *shard = NULL;
    pst_split_options o = {.parts = parts, .sequence = sequence};
    must(pst_model_gpt.build(&c, &g));
    assert_int_equal(pst_graph_split(g, &o, &shard), PST_EINPUT);
    if (!strstr(pst_error(), why)) fail_msg("%s", pst_error());
    assert_null(shard);
    pst_graph_close(g);
}

static void test_refused(void **state) {
    (void)state;
    pst_model_config c = gpt();
    refuse(c, 4, 0, "4 tensor ranks are too many: h.0.attn has 3 heads");
    c.vocabulary = 2;
    refuse(c, 3, 0, "wte.weight has 2 tokens");
    c = gpt();
    c.context = 2;
    refuse(c, 3, 1, "has 2 positions");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),     cmocka_unit_test(test_gpt_even),
        cmocka_unit_test(test_bert),    cmocka_unit_test(test_published_bert),
        cmocka_unit_test(test_mlp),     cmocka_unit_test(test_llama),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
