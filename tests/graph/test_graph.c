/* Building: what infer and the builders refuse, with the sentence; that a refused addition leaves
 * no trace; that pst_graph_check finds every single change to a finished graph; optimizer rows. */
#include "graph/optim.h"
#include "graph/random_graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A graph with something of each shape to combine wrongly. */
typedef struct {
    pst_graph *g;
    uint32_t tokens, x, other;            /* [2,3] i32, [2,3,12], [2,3,8] */
    uint32_t table, square, gain, narrow; /* [5,12], [12,12], [12], [5,8] */
} parts;

static uint32_t param(pst_graph *g, const char *name, uint32_t n_dim, uint64_t d0, uint64_t d1) {
    pst_param p = {.n_dim = n_dim, .dim = {d0, d1}, .init = PST_INIT_ONE};
    uint32_t index;
    strcpy(p.name, name);
    MUST(pst_graph_param(g, &p, &index));
    return index;
}

static parts open_parts(void) {
    parts s;
    MUST(pst_graph_open("parts", 2, &s.g));
    MUST(pst_graph_data(s.g, "tokens", 2, (uint64_t[]){2, 3}, &s.tokens));
    s.table = param(s.g, "table", 2, 5, 12);
    s.square = param(s.g, "square", 2, 12, 12);
    s.gain = param(s.g, "gain", 1, 12, 0);
    s.narrow = param(s.g, "narrow", 2, 5, 8);
    MUST(pst_graph_add(s.g, &(pst_new_node){"embedding", "x", NULL, &s.tokens, 1, &s.table, 1},
                       &s.x));
    MUST(pst_graph_add(s.g, &(pst_new_node){"embedding", "other", NULL, &s.tokens, 1, &s.narrow, 1},
                       &s.other));
    return s;
}

typedef struct {
    uint32_t n, at[2];
} operands;

/* The addition fails with `words` in the message and leaves the graph as it was. */
static void refuse(parts *s, const char *op, const pst_attr *attr, operands in, operands param,
                   const char *words) {
    uint64_t before = pst_graph_hash(s->g);
    uint32_t out = 77;
    pst_new_node bad = {op, "bad", attr, in.at, in.n, param.at, param.n};
    assert_int_equal(pst_graph_add(s->g, &bad, &out), PST_EINPUT);
    if (!strstr(pst_error(), words)) fail_msg("\"%s\" lacks \"%s\"", pst_error(), words);
    assert_int_equal(out, 77);
    assert_true(pst_graph_hash(s->g) == before);
    MUST(pst_graph_check(s->g));
}

static void wrong_operands(void **unused) {
    (void)unused;
    parts s = open_parts();
    pst_attr two = {.heads = 2}, five = {.heads = 5}, eps = {.eps = 1}, n = {.features = 7};
    refuse(&s, "nonsense", NULL, (operands){0, {0}}, (operands){0, {0}},
           "unknown operator \"nonsense\"");
    refuse(&s, "embedding", NULL, (operands){1, {s.x}}, (operands){1, {s.table}}, "I32");
    refuse(&s, "embedding", NULL, (operands){1, {s.tokens}}, (operands){1, {s.gain}},
           "[vocabulary,channels]");
    refuse(&s, "embedding", NULL, (operands){1, {s.tokens}}, (operands){2, {s.table, s.narrow}},
           "parameter narrow of shape [5,12]");
    refuse(&s, "linear", NULL, (operands){1, {s.x}}, (operands){1, {s.narrow}},
           "parameter narrow of shape [5,12]");
    refuse(&s, "linear", NULL, (operands){1, {s.x}}, (operands){2, {s.table, s.gain}},
           "parameter gain of shape [5]");
    refuse(&s, "linear", &n, (operands){1, {s.x}}, (operands){1, {s.table}}, "features is 7");
    refuse(&s, "linear", NULL, (operands){1, {s.tokens}}, (operands){1, {s.table}},
           "floating point");
    refuse(&s, "linear", NULL, (operands){1, {s.x}}, (operands){0, {0}}, "1 to 2 parameters");
    refuse(&s, "linear", NULL, (operands){1, {99}}, (operands){1, {s.table}}, "input 0");
    refuse(&s, "linear", NULL, (operands){1, {s.x}}, (operands){1, {99}}, "parameter 0");
    refuse(&s, "layer_norm", &eps, (operands){1, {s.x}}, (operands){2, {s.gain, s.table}},
           "parameter table of shape [12]");
    refuse(&s, "layer_norm", NULL, (operands){1, {s.x}}, (operands){2, {s.gain, s.gain}},
           "eps > 0");
    refuse(&s, "attention", NULL, (operands){1, {s.x}}, (operands){0, {0}}, "heads > 0");
    refuse(&s, "attention", &five, (operands){1, {s.x}}, (operands){0, {0}}, "5 heads");
    refuse(&s, "attention", &two, (operands){1, {s.other}}, (operands){0, {0}}, "8 channels");
    refuse(&s, "attention", &two, (operands){2, {s.x, s.x}}, (operands){0, {0}}, "I32");
    refuse(&s, "attention", &(pst_attr){.heads = 2, .bidirectional = 1},
           (operands){2, {s.x, s.tokens}}, (operands){0, {0}}, "cannot have starts (tokens)");
    uint32_t out;
    assert_int_equal(pst_graph_add_masked_attention(s.g, "bad", s.x, s.tokens, 2, 0, &out),
                     PST_EINPUT);
    assert_non_null(strstr(pst_error(), "tokens has 2 dimensions; lengths have 1"));
    refuse(&s, "attention", &(pst_attr){.heads = 2, .bidirectional = 2}, (operands){1, {s.x}},
           (operands){0, {0}}, "bidirectional is 2");
    refuse(&s, "add", NULL, (operands){2, {s.x, s.other}}, (operands){0, {0}}, "equal shapes");
    refuse(&s, "add", NULL, (operands){1, {s.x}}, (operands){0, {0}}, "2 to 2 inputs");
    refuse(&s, "cross_entropy", NULL, (operands){2, {s.x, s.x}}, (operands){0, {0}}, "I32");
    refuse(&s, "dropout", &(pst_attr){.rate = 1}, (operands){1, {s.x}}, (operands){0, {0}},
           "rate < 1");
    refuse(&s, "dropout", &(pst_attr){.rate = -0.5f}, (operands){1, {s.x}}, (operands){0, {0}},
           ">= 0");
    refuse(&s, "dropout", &(pst_attr){.rate = NAN}, (operands){1, {s.x}}, (operands){0, {0}},
           "finite");
    pst_graph_close(s.g);
}

/* A residual stream of F32 among 16 bits: who may read it, and what it makes F32 in turn. */
static void types_of_a_stream(void **unused) {
    (void)unused;
    parts s = {0};
    uint32_t wide, half, out, norm[2];
    pst_attr stream = {.wide = 1, .eps = 1}, plain = {.eps = 1};
    operands none = {0, {0}};
    MUST(pst_graph_open("stream", 2, &s.g));
    MUST(pst_graph_set_precision(s.g, "bf16"));
    MUST(pst_graph_data(s.g, "tokens", 2, (uint64_t[]){2, 3}, &s.tokens));
    s.table = param(s.g, "table", 2, 5, 12);
    norm[0] = norm[1] = param(s.g, "gain", 1, 12, 0);
    MUST(pst_graph_add(s.g, &(pst_new_node){"embedding", "x", &stream, &s.tokens, 1, &s.table, 1},
                       &wide));
    MUST(pst_graph_add(s.g, &(pst_new_node){"embedding", "y", NULL, &s.tokens, 1, &s.table, 1},
                       &half));
    refuse(&s, "linear", NULL, (operands){1, {wide}}, (operands){1, {s.table}}, "narrow");
    refuse(&s, "add", NULL, (operands){2, {half, wide}}, none, "narrow");
    refuse(&s, "narrow", NULL, (operands){1, {half}}, none, "needs F32");
    const struct {
        const char *op;
        const pst_attr *attr;
        operands in;
        int norm;
        pst_dtype out;
    } made[] = {
        {"add", NULL, {2, {wide, half}}, 0, PST_F32},
        {"add", NULL, {2, {wide, wide}}, 0, PST_F32},
        {"add", NULL, {2, {half, half}}, 0, PST_BF16},
        {"dropout", NULL, {1, {wide}}, 0, PST_F32},
        {"dropout", NULL, {1, {half}}, 0, PST_BF16},
        {"narrow", NULL, {1, {wide}}, 0, PST_BF16},
        {"layer_norm", &plain, {1, {wide}}, 1, PST_BF16},
        {"layer_norm", &stream, {1, {wide}}, 1, PST_F32},
        {"layer_norm", &stream, {1, {half}}, 1, PST_F32},
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char name[16];
        snprintf(name, sizeof name, "made%zu", i);
        pst_new_node node = {made[i].op,   name, made[i].attr,        made[i].in.at,
                             made[i].in.n, norm, made[i].norm ? 2 : 0};
        MUST(pst_graph_add(s.g, &node, &out));
        assert_int_equal(s.g->tensor[out].dtype, made[i].out);
    }
    MUST(pst_graph_check(s.g));
    s.g->tensor[wide].dtype = PST_BF16;
    assert_int_equal(pst_graph_check(s.g), PST_EINPUT);
    pst_graph_close(s.g);
}

static uint64_t flops_of(const pst_graph *g, uint32_t node, pst_pass pass) {
    uint64_t flops, bytes;
    g->node[node].op->cost(g, &g->node[node], pass, &flops, &bytes);
    return flops;
}

/* Only what is set is in the hash and in the text; all positions seen cost twice as much as those
 * before. */
static void masks_of_attention(void **unused) {
    (void)unused;
    uint64_t hash[4], flops[4];
    for (int mask = 0; mask < 4; mask++) {
        parts s = open_parts();
        uint32_t lengths, out;
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        MUST(pst_graph_data(s.g, "lengths", 1, (uint64_t[]){2}, &lengths));
        MUST(pst_graph_add_masked_attention(s.g, "a", s.x, mask > 1 ? lengths : PST_NONE, 2,
                                            mask % 2, &out));
        hash[mask] = pst_graph_hash(s.g);
        flops[mask] = flops_of(s.g, s.g->n_node - 1, PST_PASS_B);
        MUST(pst_graph_check(s.g));
        MUST(pst_graph_print(s.g, f));
        fclose(f);
        assert_int_equal(strstr(text, "bidirectional=1") != NULL, mask % 2);
        assert_int_equal(strstr(text, "in x.out,lengths") != NULL, mask > 1);
        free(text);
        pst_graph_close(s.g);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
    assert_true(flops[1] == 2 * flops[0] && flops[2] == flops[0] && flops[3] == flops[1]);
}

static void wrong_names_and_shapes(void **unused) {
    (void)unused;
    parts s = open_parts();
    uint32_t out, n = s.g->n_tensor;
    pst_graph *none = NULL;
    char lengthy[PST_NAME_MAX];
    memset(lengthy, 'n', sizeof(lengthy));
    lengthy[PST_NAME_MAX - 1] = 0;
    pst_param p = {.name = "gain", .n_dim = 1, .dim = {4}};
    assert_int_equal(pst_graph_param(s.g, &p, &out), PST_EINPUT); /* twice */
    p = (pst_param){.name = "big", .n_dim = 3, .dim = {1 << 20, 1 << 20, 2}};
    assert_int_equal(pst_graph_param(s.g, &p, &out), PST_EINPUT);
    p = (pst_param){.name = "flat", .n_dim = 2, .dim = {4, 0}};
    assert_int_equal(pst_graph_param(s.g, &p, &out), PST_EINPUT);
    assert_int_equal(pst_graph_data(s.g, "x.out", 2, (uint64_t[]){2, 3}, &out), PST_EINPUT);
    assert_int_equal(pst_graph_data(s.g, "two words", 2, (uint64_t[]){2, 3}, &out), PST_EINPUT);
    assert_int_equal(pst_graph_data(s.g, "", 2, (uint64_t[]){2, 3}, &out), PST_EINPUT);
    assert_int_equal(pst_graph_data(s.g, "batch3", 2, (uint64_t[]){3, 3}, &out), PST_EINPUT);
    assert_int_equal(
        pst_graph_add(s.g, &(pst_new_node){"dropout", "x", NULL, &s.x, 1, NULL, 0}, &out),
        PST_EINPUT);
    assert_int_equal(
        pst_graph_add(s.g, &(pst_new_node){"dropout", lengthy, NULL, &s.x, 1, NULL, 0}, &out),
        PST_EINPUT);
    assert_int_equal(pst_graph_open("a b", 1, &none), PST_EINPUT);
    assert_int_equal(pst_graph_open("a", 0, &none), PST_EINPUT);
    assert_null(none);
    assert_int_equal(s.g->n_tensor, n);
    MUST(pst_graph_check(s.g));
    pst_graph_close(s.g);
}

/* One random change to a graph's facts; returns 0 when the change changes nothing. */
static int mutate(pst_graph *g, uint64_t *state) {
    pst_tensor *t = &g->tensor[next_random(state) % g->n_tensor];
    pst_param *p = &g->param[next_random(state) % g->n_param];
    pst_node *d = &g->node[next_random(state) % g->n_node];
    switch (next_random(state) % 14) {
    case 0: t->dim[next_random(state) % t->n_dim] += 1; return t->producer != PST_NONE;
    case 1: t->n_dim ^= 1; return 1;
    case 2: t->producer += 1; return 1;
    case 3:
        t->role = t->role == PST_TENSOR_DATA ? PST_TENSOR_ACTIVATION : PST_TENSOR_DATA;
        return 1;
    case 4: t->name[0] ^= 1; return t->producer != PST_NONE;
    case 5: memset(t->name, 'n', PST_NAME_MAX); return 1;
    case 6: p->n_use += 1; return 1;
    case 7: memset(p->name, 'n', PST_NAME_MAX); return 1;
    case 8: d->in[0] = g->n_tensor + (uint32_t)(next_random(state) % 3); return 1;
    case 9: d->out[0] = d->out[0] + 1; return 1;
    case 10: d->op = NULL; return 1;
    case 11: d->n_in += 1 + (uint32_t)(next_random(state) % 5); return d->n_in > d->op->max_in;
    case 12: d->in[0] = d->out[0]; return 1;
    default:
        if (d->n_saved == 0 || d->n_param == 0) return 0;
        if (next_random(state) % 2) d->saved[0].elements++;
        else d->use[0]++;
        return 1;
    }
}

static void check_finds_mutations(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(11), state = seed;
    uint32_t changed = 0;
    for (uint32_t round = 0; round < 1500; round++) {
        pst_graph *g = random_graph(seed + round % 50);
        if (mutate(g, &state)) {
            changed++;
            if (pst_graph_check(g) != PST_EINPUT)
                fail_msg("round %u: a change was not found", round);
        }
        pst_graph_close(g);
    }
    assert_true(changed > 1000);
}

/* Facts that are free to choose must still change the hash. */
static void hash_sees_everything(void **unused) {
    (void)unused;
    parts s = open_parts();
    pst_graph *g = s.g;
    uint64_t h = pst_graph_hash(g);
    assert_true(h == pst_graph_hash(g));
#define CHANGES(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) before_ = place;                                                         \
        place = value;                                                                             \
        assert_true(pst_graph_hash(g) != h);                                                       \
        place = before_;                                                                           \
        assert_true(pst_graph_hash(g) == h);                                                       \
    } while (0)
    CHANGES(g->name[0], 'q');
    CHANGES(g->micro_batch, 3);
    CHANGES(g->tensor[1].role, PST_TENSOR_OUTPUT);
    CHANGES(g->param[0].std, 0.5f);
    CHANGES(g->param[0].decay, 1);
    CHANGES(g->param[0].init, PST_INIT_ZERO);
    CHANGES(g->param[1].dim[1], 13);
    CHANGES(g->node[0].attr.rate, 0.25f);
    CHANGES(g->node[0].attr.wide, 1);
    CHANGES(g->node[0].attr.parts, 2);
    CHANGES(g->node[0].op, pst_op_find("add"));
    pst_graph_close(g);
}

static void parameters_by_name(void **unused) {
    (void)unused;
    parts s = open_parts();
    uint32_t order[4];
    pst_graph_param_order(s.g, order);
    for (uint32_t i = 1; i < 4; i++)
        assert_true(strcmp(s.g->param[order[i - 1]].name, s.g->param[order[i]].name) < 0);
    assert_int_equal(pst_graph_find_param(s.g, "gain"), s.gain);
    assert_int_equal(pst_graph_find_param(s.g, "nobody"), PST_NONE);
    assert_int_equal(s.g->param[s.table].n_use, 1);
    assert_int_equal(s.g->param[s.square].n_use, 0);
    pst_graph_close(s.g);
}

/* Which parameters decay, by patterns; `!` excludes, whatever the order. */
static void patterns_of_decay(void **unused) {
    (void)unused;
    parts s = open_parts();
    char *all[] = {"!gain", "*"}, *none[] = {"gain", "nobody*"};
    assert_int_equal(pst_graph_set_decay(s.g, all, 2), PST_OK);
    for (uint32_t i = 0; i < s.g->n_param; i++)
        assert_int_equal(s.g->param[i].decay, i != s.gain && !s.g->param[i].statistic);
    uint64_t hash = pst_graph_hash(s.g);
    assert_int_equal(pst_graph_set_decay(s.g, none, 2), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "no parameter of the model has a name that matches 'nob"));
    assert_int_equal(pst_graph_set_decay(s.g, NULL, 0), PST_OK);
    assert_int_equal(pst_graph_hash(s.g), hash);
    pst_graph_close(s.g);
}

static void rows(void **unused) {
    (void)unused;
    uint32_t n;
    const pst_op_row *const *row = pst_op_rows(&n);
    assert_true(n >= 20);
    for (uint32_t i = 0; i < n; i++) assert_ptr_equal(pst_op_find(row[i]->name), row[i]);
    assert_null(pst_op_find("conv"));
    for (int k = 0; k < PST_OPTIM_COUNT; k++) {
        assert_int_equal(pst_optim_rows()[k].kind, k);
        assert_ptr_equal(pst_optim_find(pst_optim_rows()[k].name), &pst_optim_rows()[k]);
    }
    assert_null(pst_optim_find("lion"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_operands),
        cmocka_unit_test(types_of_a_stream),
        cmocka_unit_test(masks_of_attention),
        cmocka_unit_test(wrong_names_and_shapes),
        cmocka_unit_test(check_finds_mutations),
        cmocka_unit_test(hash_sees_everything),
        cmocka_unit_test(parameters_by_name),
        cmocka_unit_test(patterns_of_decay),
        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
