/* test: label=quick timeout=60 */
/* linear with few rows, in a graph for generation: near the reference; a row's bits depend neither
 * on the other rows nor on threads. */
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

enum { MOST_ROWS = 17, TAIL = 3 };

typedef struct {
    uint64_t k, n;
    int bias;
    pst_activation act;
} layer;

static void add_param(pst_graph *g, const char *name, uint64_t d0, uint64_t d1, uint32_t *index) {
    pst_param p = {.n_dim = d1 ? 2 : 1, .dim = {d0, d1}};
    snprintf(p.name, sizeof p.name, "%s", name);
    assert_int_equal(pst_graph_param(g, &p, index), PST_OK);
}

static pst_graph *graph_of(const layer *l, uint64_t rows) {
    pst_graph *g;
    const uint64_t shape[] = {1, rows};
    uint32_t tokens, x, out, table, param[2];
    pst_attr attr = {.features = (uint32_t)l->n, .activation = l->act};
    assert_int_equal(pst_graph_open("few", 1, &g), PST_OK);
    g->generates = 1;
    assert_int_equal(pst_graph_data(g, "tokens", 2, shape, &tokens), PST_OK);
    add_param(g, "table", 2, l->k, &table);
    add_param(g, "weight", l->n, l->k, &param[0]);
    if (l->bias) add_param(g, "bias", l->n, 0, &param[1]);
    assert_int_equal(
        pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, &tokens, 1, &table, 1}, &x),
        PST_OK);
    assert_int_equal(
        pst_graph_add(
            g, &(pst_new_node){"linear", "op", &attr, &x, 1, param, 1u + (uint32_t)l->bias}, &out),
        PST_OK);
    return g;
}

static float *numbers(const char *name, uint64_t n, float std) {
    float *x = malloc((n + 1) * sizeof *x);
    pst_rng_normal(pst_rng_key(3, name), 0, std, x, n);
    return x;
}

/* y has TAIL more numbers, which nobody writes. */
static void run(const layer *l, const pst_kernel_row *row, pst_device *device, uint64_t rows,
                float *const *in, float *y) {
    pst_graph *g = graph_of(l, rows);
    const pst_node *node = g->node + g->n_node - 1;
    const uint32_t threads = device ? device->threads : 1;
    uint64_t scratch = row->scratch ? row->scratch(g, node, threads) : 0;
    void *memory = aligned_alloc(64, (scratch + 127) / 64 * 64);
    float *z = malloc(rows * l->n * sizeof *z);
    void *arg[5] = {in[0], in[1]};
    uint32_t n = 2;
    if (l->bias) arg[n++] = in[2];
    arg[n++] = y;
    if (l->act != PST_ACT_NONE) arg[n++] = z;
    for (int i = 0; i < TAIL; i++) y[rows * l->n + (uint64_t)i] = 7;
    pst_call call = {.graph = g, .node = node, .arg = arg, .scratch = memory};
    assert_int_equal(row->launch(device, &call), PST_OK);
    for (int i = 0; i < TAIL; i++) assert_true(y[rows * l->n + (uint64_t)i] == 7);
    free(memory);
    free(z);
    pst_graph_close(g);
}

static const pst_kernel_row *find(const pst_kernel_row *rows, uint32_t n, uint32_t *from) {
    for (uint32_t i = *from; i < n; i++)
        if (!strcmp(rows[i].op, "linear") && rows[i].pass == PST_PASS_F &&
            !(rows[i].isa & ~pst_cpu_isa()) && rows[i].dtypes & PST_TAKES_F32) {
            *from = i + 1;
            return rows + i;
        }
    return NULL;
}

static void check(const layer *l, const pst_kernel_row *row, const pst_kernel_row *ref,
                  pst_device *const *device) {
    float *in[] = {numbers("x", MOST_ROWS * l->k, 1),
                   numbers("weight", l->n * l->k, 1 / sqrtf((float)l->k)),
                   numbers("bias", l->n, 1)};
    const uint64_t bytes = (MOST_ROWS * l->n + TAIL) * sizeof(float);
    float *want = malloc(bytes), *all = malloc(bytes), *y = malloc(bytes);
    run(l, ref, NULL, MOST_ROWS, in, want);
    run(l, row, device[0], MOST_ROWS - 1, in, all);
    for (uint64_t i = 0; i < (MOST_ROWS - 1) * l->n; i++)
        if (!(fabsf(all[i] - want[i]) < 1e-5f))
            fail_msg("%s: %g instead of %g", row->name, (double)all[i], (double)want[i]);
    static const uint64_t rows[] = {1, 2, 7, 8, 9, MOST_ROWS - 1};
    for (int i = 0; i < 6; i++) {
        run(l, row, device[1], rows[i], in, y);
        if (strstr(row->name, "generic")) continue; /* products of a library */
        if (memcmp(y, all, rows[i] * l->n * sizeof *y))
            fail_msg("%s: other bits with %lu rows", row->name, (unsigned long)rows[i]);
    }
    run(l, row, device[1], MOST_ROWS, in, y); /* by the usual product */
    for (uint64_t i = 0; i < MOST_ROWS * l->n; i++) assert_true(fabsf(y[i] - want[i]) < 1e-5f);
    for (int i = 0; i < 3; i++) free(in[i]);
    free(want);
    free(all);
    free(y);
}

static void test_few(void **state) {
    (void)state;
    static const layer layers[] = {{1, 1, 0, PST_ACT_NONE},
                                   {17, 5, 1, PST_ACT_GELU_TANH},
                                   {64, 257, 1, PST_ACT_NONE},
                                   {130, 33, 0, PST_ACT_RELU},
                                   {770, 90, 1, PST_ACT_GELU_ERF}};
    uint32_t n, n_ref, at = 0, from = 0;
    const pst_kernel_row *rows = pst_kernels_cpu(&n), *refs = pst_kernels_ref(&n_ref), *row;
    const pst_kernel_row *ref = find(refs, n_ref, &at);
    pst_device *device[2];
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            pst_device_cpu.open(&(pst_device_config){.threads = 1 + 2 * i}, &device[i]), PST_OK);
    int found = 0;
    for (; (row = find(rows, n, &from)); found++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            check(&layers[i], row, ref, device);
    assert_true(found >= 1);
    for (int i = 0; i < 2; i++) pst_device_cpu.close(device[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
