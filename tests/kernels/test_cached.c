/* test: label=quick timeout=60 */
/* Attention to a cache: a sequence in runs of several lengths gives what attention gives for the
 * whole sequence, on every instruction set, with shared heads of keys and values, windows, and
 * several samples at different positions; the bits depend neither on threads nor on the runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/rng.h"
#include "kernels/kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 2, LENGTH = 90, POSITIONS = 128 };

typedef struct {
    uint32_t heads, own, d, window;
    int joint;             /* q, k and v are one tensor */
    uint32_t first, total; /* the heads are these of `total`; 0: all */
} layer;

/* Heads of queries that share keys and values. */
static uint32_t group_of(const layer *l) { return (l->total ? l->total : l->heads) / l->own; }

static pst_graph *graph_of(const layer *l, uint64_t t) {
    pst_graph *g;
    const uint64_t tokens[] = {SAMPLES, t}, past[] = {SAMPLES};
    uint64_t width[] = {l->heads * l->d, l->own * l->d, l->own * l->d};
    uint32_t in[4], n_in = 0, of, table, cache, out;
    pst_attr attr = {.heads = l->heads, .window = l->window, .first = l->first, .total = l->total};
    pst_param p = {
        .n_dim = 4, .dim = {SAMPLES, l->own, 2 * POSITIONS, l->d}, .name = "cache", .cache = 1};
    assert_int_equal(pst_graph_open("cached", SAMPLES, &g), PST_OK);
    assert_int_equal(pst_graph_data(g, "tokens", 2, tokens, &of), PST_OK);
    if (l->joint) width[0] += 2 * width[1];
    for (int i = 0; i < (l->joint ? 1 : 3); i++) {
        pst_param rows = {.n_dim = 2, .dim = {2, width[i]}};
        snprintf(rows.name, sizeof rows.name, "x%d", i);
        assert_int_equal(pst_graph_param(g, &rows, &table), PST_OK);
        assert_int_equal(
            pst_graph_add(g, &(pst_new_node){"embedding", rows.name, NULL, &of, 1, &table, 1},
                          &in[n_in++]),
            PST_OK);
    }
    assert_int_equal(pst_graph_data(g, "past", 1, past, &in[n_in++]), PST_OK);
    assert_int_equal(pst_graph_param(g, &p, &cache), PST_OK);
    if (pst_graph_add(g, &(pst_new_node){"cached_attention", "op", &attr, in, n_in, &cache, 1},
                      &out) != PST_OK)
        fail_msg("%s", pst_error());
    return g;
}

/* q, k and v of a position: one after the other, [SAMPLES][LENGTH][(heads + 2 own) d]. */
static float *numbers(const layer *l) {
    uint64_t n = (uint64_t)SAMPLES * LENGTH * (l->heads + 2 * l->own) * l->d;
    float *x = malloc(n * sizeof *x);
    pst_rng_normal(pst_rng_key(5, "cached"), 0, 1, x, n);
    return x;
}

/* What attention gives for head h of position t of a sample. */
static void expected(const layer *l, const float *x, uint64_t sample, uint64_t t, uint32_t h,
                     double *out) {
    const uint64_t row = (l->heads + 2 * l->own) * l->d, kv = (l->first + h) / group_of(l) * l->d;
    const uint64_t from = l->window && t >= l->window ? t + 1 - l->window : 0;
    const float *all = x + sample * LENGTH * row, *q = all + t * row + h * l->d;
    double score[LENGTH], most = -INFINITY, sum = 0;
    for (uint64_t j = from; j <= t; j++) {
        const float *k = all + j * row + l->heads * l->d + kv;
        score[j] = 0;
        for (uint32_t c = 0; c < l->d; c++) score[j] += (double)q[c] * k[c] / sqrt((double)l->d);
        most = fmax(most, score[j]);
    }
    memset(out, 0, l->d * sizeof *out);
    for (uint64_t j = from; j <= t; j++) sum += exp(score[j] - most);
    for (uint64_t j = from; j <= t; j++) {
        const float *v = all + j * row + (l->heads + l->own) * l->d + kv;
        for (uint32_t c = 0; c < l->d; c++) out[c] += exp(score[j] - most) / sum * v[c];
    }
}

typedef struct {
    const pst_kernel_row *row;
    pst_device *device;
} tested;

/* Runs of t positions each; sample 1 is `behind` positions behind sample 0. out: [SAMPLES][LENGTH]
 * [heads d], which is NaN where nothing was computed. */
static void run(const layer *l, const tested *of, const float *x, uint64_t t, uint64_t behind,
                float *out) {
    pst_graph *g = graph_of(l, t);
    const pst_node *node = g->node + g->n_node - 1;
    const uint64_t width[] = {l->heads * l->d, l->own * l->d, l->own * l->d},
                   all = width[0] + 2 * width[1];
    const uint64_t cache_bytes = SAMPLES * width[1] * 2 * POSITIONS * sizeof(float);
    uint64_t scratch = of->row->scratch ? of->row->scratch(g, node, of->device->threads) : 0;
    float *part[4], *cache = malloc(cache_bytes), *result = malloc(SAMPLES * t * width[0] * 4);
    void *memory = aligned_alloc(64, (scratch + 63) / 64 * 64 + 64);
    memset(cache, 0xff, cache_bytes); /* NaN: earlier contents do not matter */
    memset(out, 0xff, (uint64_t)SAMPLES * LENGTH * width[0] * sizeof *out);
    for (int i = 0; i < 3; i++) part[i] = malloc(SAMPLES * t * all * sizeof(float));
    for (uint64_t at = 0; at < LENGTH + behind; at += t) {
        int32_t past[SAMPLES];
        for (uint64_t s = 0; s < SAMPLES; s++) {
            uint64_t own = at;
            if (s) own = at < behind ? 0 : at - behind;
            past[s] = (int32_t)(own < LENGTH ? own : LENGTH);
            for (uint64_t i = 0; i < t; i++) {
                uint64_t from = past[s] + i < LENGTH ? past[s] + i : LENGTH - 1;
                const float *q = x + (s * LENGTH + from) * all;
                if (l->joint) memcpy(part[0] + (s * t + i) * all, q, all * sizeof *q);
                for (int p = 0; !l->joint && p < 3; p++) {
                    memcpy(part[p] + (s * t + i) * width[p], q, width[p] * sizeof *q);
                    q += width[p];
                }
            }
        }
        void *arg[6] = {part[0], l->joint ? (void *)past : part[1], part[2], past, cache, result};
        if (l->joint) memcpy(arg + 2, (void *[]){cache, result}, 2 * sizeof *arg);
        pst_call call = {.graph = g, .node = node, .arg = arg, .scratch = memory};
        assert_int_equal(of->row->launch(of->device, &call), PST_OK);
        for (uint64_t s = 0; s < SAMPLES; s++)
            for (uint64_t i = 0; i < t && past[s] + i < LENGTH; i++)
                memcpy(out + (s * LENGTH + past[s] + i) * width[0], result + (s * t + i) * width[0],
                       width[0] * sizeof *out);
    }
    for (int i = 0; i < 3; i++) free(part[i]);
    free(cache);
    free(result);
    free(memory);
    pst_graph_close(g);
}

static pst_device *open_device(uint32_t threads) {
    const pst_device_config config = {.threads = threads};
    pst_device *device;
    assert_int_equal(pst_device_cpu.open(&config, &device), PST_OK);
    return device;
}

static void check_row(const layer *l, const pst_kernel_row *row, const float *x) {
    const uint64_t width = l->heads * l->d, n = (uint64_t)SAMPLES * LENGTH * width;
    float *first = malloc(n * sizeof *first), *other = malloc(n * sizeof *other);
    double *want = malloc(l->d * sizeof *want);
    pst_device *one = open_device(1), *three = open_device(3);
    run(l, &(tested){row, one}, x, 1, 0, first);
    for (uint64_t i = 0; i < (uint64_t)SAMPLES * LENGTH * l->heads; i++) {
        expected(l, x, i / l->heads / LENGTH, i / l->heads % LENGTH, (uint32_t)(i % l->heads),
                 want);
        for (uint32_t c = 0; c < l->d; c++)
            if (!(fabs(first[i * l->d + c] - want[c]) < 2e-5))
                fail_msg("%s: head %lu: %g instead of %g", row->name, (unsigned long)i,
                         (double)first[i * l->d + c], want[c]);
    }
    static const uint64_t each[] = {7, 45, 64}, behind[] = {0, 45, 64};
    for (int i = 0; i < 3; i++) {
        run(l, &(tested){row, three}, x, each[i], behind[i], other);
        for (uint64_t k = 0; !l->window && k < n; k++)
            if (memcmp(&first[k], &other[k], sizeof *first))
                fail_msg("%s: other bits with runs of %lu", row->name, (unsigned long)each[i]);
        for (uint64_t k = 0; k < n; k++)
            if (!(fabsf(first[k] - other[k]) < 2e-6f))
                fail_msg("%s: runs of %lu differ", row->name, (unsigned long)each[i]);
    }
    one->ops->close(one);
    three->ops->close(three);
    free(first);
    free(other);
    free(want);
}

static void test_runs(void **state) {
    (void)state;
    static const layer layers[] = {
        {.heads = 3, .own = 3, .d = 16, .joint = 1},
        {.heads = 4, .own = 2, .d = 20},
        {.heads = 6, .own = 1, .d = 64},
        {.heads = 2, .own = 2, .d = 33},
        {.heads = 4, .own = 2, .d = 16, .window = 70},
        {.heads = 2, .own = 1, .d = 8, .window = 1, .joint = 1},
        /* of tensor ranks with all keys and values */
        {.heads = 3, .own = 2, .d = 20, .first = 1, .total = 6},
        {.heads = 2, .own = 3, .d = 16, .window = 9, .first = 4, .total = 6},
    };
    uint32_t n[2];
    const pst_kernel_row *rows[] = {pst_kernels_cpu(&n[0]), pst_kernels_ref(&n[1])};
    int found = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        float *x = numbers(&layers[i]);
        for (int k = 0; k < 2; k++)
            for (uint32_t r = 0; r < n[k]; r++) {
                if (strcmp(rows[k][r].op, "cached_attention") || rows[k][r].isa & ~pst_cpu_isa())
                    continue;
                check_row(&layers[i], &rows[k][r], x);
                found++;
            }
        free(x);
    }
    assert_true(found >= 6);
}

/* --- rotary positions that follow a cache ----------------------------------------------------- */

enum { HEADS = 3, WIDTH = 14 /* of a head */ };

/* x[1,t,..] turned by positions from `past` on; past < 0: without the input. */
static void turn(const tested *of, const float *x, uint64_t t, int32_t past, float *out) {
    pst_graph *g;
    const uint64_t tokens[] = {1, t}, one[] = {1};
    uint32_t in[2], of_token, table, index;
    pst_param rows = {.n_dim = 2, .dim = {2, HEADS * WIDTH}, .name = "x"};
    pst_attr attr = {.heads = HEADS, .rope = {.theta = 1e4f}};
    assert_int_equal(pst_graph_open("turned", 1, &g), PST_OK);
    assert_int_equal(pst_graph_data(g, "tokens", 2, tokens, &of_token), PST_OK);
    assert_int_equal(pst_graph_data(g, "past", 1, one, &in[1]), PST_OK);
    assert_int_equal(pst_graph_param(g, &rows, &table), PST_OK);
    assert_int_equal(
        pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, &of_token, 1, &table, 1}, &in[0]),
        PST_OK);
    const pst_new_node node = {"rotary", "op", &attr, in, past < 0 ? 1 : 2, NULL, 0};
    if (pst_graph_add(g, &node, &index) != PST_OK) fail_msg("%s", pst_error());
    void *arg[] = {(void *)(uintptr_t)x, &past, out};
    if (past < 0) arg[1] = out;
    pst_call call = {.graph = g, .node = g->node + g->n_node - 1, .arg = arg};
    assert_int_equal(of->row->launch(of->device, &call), PST_OK);
    pst_graph_close(g);
}

static void check_turns(const tested *of) {
    const uint64_t row = HEADS * WIDTH, n = LENGTH * row;
    float *x = malloc(n * sizeof *x), *all = malloc(n * sizeof *all), *few = malloc(n * sizeof *x);
    pst_rng_normal(pst_rng_key(6, "turned"), 0, 1, x, n);
    turn(of, x, LENGTH, -1, all);
    static const uint64_t positions[] = {1, 7, 16};
    for (int i = 0; i < 3; i++)
        for (uint64_t at = 0; at + positions[i] <= LENGTH; at += positions[i]) {
            turn(of, x + at * row, positions[i], (int32_t)at, few);
            if (memcmp(few, all + at * row, positions[i] * row * sizeof *few))
                fail_msg("%s: other bits from position %lu on", of->row->name, (unsigned long)at);
        }
    free(x);
    free(all);
    free(few);
}

static void test_turns(void **state) {
    (void)state;
    uint32_t n[2];
    const pst_kernel_row *rows[] = {pst_kernels_cpu(&n[0]), pst_kernels_ref(&n[1])};
    pst_device *device = open_device(2);
    int found = 0;
    for (int k = 0; k < 2; k++)
        for (uint32_t r = 0; r < n[k]; r++) {
            const pst_kernel_row *row = &rows[k][r];
            if (strcmp(row->op, "rotary") || row->pass != PST_PASS_F || row->isa & ~pst_cpu_isa() ||
                !(row->dtypes & PST_TAKES_F32))
                continue;
            check_turns(&(tested){row, device});
            found++;
        }
    device->ops->close(device);
    assert_true(found >= 2);
}

/* Shapes that contradict each other. */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        uint64_t heads, channels, samples, positions;
        const char *message;
    } wrong[] = {{5, 8 * 8, 2, 64, "5 heads cannot share 2"},
                 {4, 60, 2, 64, "has 60 channels, but 8 heads of 8 need 64"},
                 {4, 64, 3, 64, "needs a cache of shape [2,heads"},
                 {4, 64, 2, 65, "multiple of 64 positions"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pst_graph *g;
        const uint64_t tokens[] = {2, 3}, past[] = {2};
        uint32_t in[2], of, table, cache, out;
        pst_param rows = {.n_dim = 2, .dim = {2, wrong[i].channels}, .name = "x"};
        pst_param p = {.n_dim = 4,
                       .dim = {wrong[i].samples, 2, 2 * wrong[i].positions, 8},
                       .name = "cache",
                       .cache = 1};
        pst_attr attr = {.heads = (uint32_t)wrong[i].heads};
        assert_int_equal(pst_graph_open("cached", 2, &g), PST_OK);
        assert_int_equal(pst_graph_data(g, "tokens", 2, tokens, &of), PST_OK);
        assert_int_equal(pst_graph_data(g, "past", 1, past, &in[1]), PST_OK);
        assert_int_equal(pst_graph_param(g, &rows, &table), PST_OK);
        assert_int_equal(pst_graph_param(g, &p, &cache), PST_OK);
        assert_int_equal(
            pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, &of, 1, &table, 1}, &in[0]),
            PST_OK);
        assert_int_equal(
            pst_graph_add(g, &(pst_new_node){"cached_attention", "op", &attr, in, 2, &cache, 1},
                          &out),
            PST_EINPUT);
        if (!strstr(pst_error(), wrong[i].message)) fail_msg("%s", pst_error());
        pst_graph_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
