/* Costs: what tables say of chunks is what cuts of the graph come to, and never more than the
 * layout has; times grow with sizes. */
#include "models/model.h"
#include "partition/cost/costs.h"
#include "partition/cost/range.h"
#include "pipeline/case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const pst_costs nominal = {.kind = NULL};

/* The nominal core: so many operations and bytes per second, one after the other. */
static void nominal_core(void **unused) {
    (void)unused;
    const pst_cluster_link link = {.latency_ns = 1000, .bytes_per_s = 1e9};
    const pst_costs linked = {.tensor_link = &link};
    const pst_node node = {.op = pst_op_find("linear")};
    assert_int_equal(
        pst_costs_pass_ns(&nominal, NULL, &node, &(pst_costs_work){0, PST_PASS_F, 80000, 0}), 1000);
    assert_int_equal(
        pst_costs_pass_ns(&nominal, NULL, &node, &(pst_costs_work){0, PST_PASS_F, 80000, 8000}),
        2000);
    assert_true(pst_costs_pass_ns(&nominal, NULL, &node,
                                  &(pst_costs_work){0, PST_PASS_F, UINT64_MAX, UINT64_MAX}) <=
                UINT64_C(1000000000000000000));
    assert_int_equal(pst_costs_step_ns(&nominal, 2000), 7000);
    assert_int_equal(pst_costs_norm_ns(&nominal, 2000), 1000);
    assert_int_equal(pst_costs_exchange_ns(&nominal, PST_EXCHANGE_SUM, 2, 4000), 31000);
    assert_int_equal(pst_costs_exchange_ns(&linked, PST_EXCHANGE_SUM, 2, 4000), 5000);
    assert_int_equal(pst_costs_exact_ns(&nominal, PST_EXCHANGE_SUM, 2, 4000), 0);
}

/* Kind cpu is the nominal core; the figures of one with another name count. */
static void kinds_of_cores(void **unused) {
    (void)unused;
    const pst_device_kind *cpu;
    const pst_graph g = {.dtype = PST_BF16};
    const pst_node node = {.op = pst_op_find("linear")};
    MUST(pst_device_kind_find("cpu", NULL, 0, &cpu));
    pst_device_kind other = {.name = "cpu-zen4", .flops = {[PST_F32] = 160e9}, .bytes_per_s = 16e9};
    const pst_costs named = {.kind = cpu}, faster = {.kind = &other};
    for (uint64_t i = 1; i < 1000000000000; i *= 7) {
        uint64_t ns =
            pst_costs_pass_ns(&nominal, &g, &node, &(pst_costs_work){0, PST_PASS_F, 3 * i, i});
        assert_int_equal(
            pst_costs_pass_ns(&named, &g, &node, &(pst_costs_work){0, PST_PASS_F, 3 * i, i}), ns);
        assert_int_equal(
            pst_costs_pass_ns(&faster, &g, &node, &(pst_costs_work){0, PST_PASS_F, 6 * i, 2 * i}),
            ns);
        assert_int_equal(pst_costs_step_ns(&named, i), pst_costs_step_ns(&nominal, i));
    }
}

static uint64_t sum(const uint64_t *array, const uint32_t *chunk_of_node, uint32_t n, uint32_t c) {
    uint64_t all = 0;
    for (uint32_t i = 0; array && i < n; i++) all += chunk_of_node[i] == c ? array[i] : 0;
    return all;
}

static uint64_t pass_ns(void *arg, const pst_node *node, int extra, pst_pass pass, uint64_t flops,
                        uint64_t bytes) {
    return pst_costs_pass_ns(&nominal, arg, node, &(pst_costs_work){extra, pass, flops, bytes});
}

/* Of array[mode] over the items of chunk c that recomputes in this way: with {full: N}, of LAYERS
 * in its first N layers, and of NONE behind them. layer: of the table. */
static uint64_t sum_way(uint64_t *const *array, const uint64_t *layer, pst_recompute_way way,
                        const pst_cut *cut, uint32_t c) {
    const uint32_t *of = cut->chunk_of_node, n = cut->n_node;
    const pst_recompute mode = pst_recompute_mode(way);
    uint64_t all = 0;
    if (mode != PST_RECOMPUTE_LAYERS) return sum(array[mode], of, n, c);
    for (uint32_t i = 0, layers = 0; i < n; i++) {
        if (of[i] != c) continue;
        layers += layer[i] == PST_LAYER_BEGINS || (layer[i] && (!i || of[i - 1] != c));
        const uint64_t *from =
            array[layers > pst_recompute_layers(way) ? PST_RECOMPUTE_NONE : PST_RECOMPUTE_LAYERS];
        all += from ? from[i] : 0;
    }
    return all;
}

/* The most that one layer, of the first ones of chunk c, recomputes; of other ways, everything.
 * split: less what W needs. */
static uint64_t most_again(const pst_cost_table *t, pst_recompute_way way, const pst_cut *cut,
                           uint32_t c, int split) {
    const uint32_t *of = cut->chunk_of_node, n = cut->n_node;
    const pst_recompute mode = pst_recompute_mode(way);
    uint64_t most = 0, now = 0;
    for (uint32_t i = 0, layers = 0; i < n && t->recomputed[mode]; i++) {
        if (of[i] != c) continue;
        const int begins =
            t->layer[i] == PST_LAYER_BEGINS || (t->layer[i] && (!i || of[i - 1] != c));
        layers += (uint32_t)begins;
        if (mode == PST_RECOMPUTE_LAYERS && layers > pst_recompute_layers(way)) break;
        if (mode == PST_RECOMPUTE_LAYERS && begins) now = 0;
        now += t->recomputed[mode][i] - (split ? t->recomputed_to_w[mode][i] : 0);
        if (now > most) most = now;
    }
    return most;
}

/* Bytes of a chunk that last from F to the end of B or W, of one micro-batch. */
static uint64_t stashed(const pst_cut *cut, uint32_t c) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < cut->n_class; k++) {
        const pst_cut_class *x = cut->class_ + k;
        if (x->chunk == c && x->birth <= PST_EV_F && x->deaths >> PST_EV_B) bytes += x->bytes;
    }
    return bytes;
}

/* Everything that one micro-batch needs besides. */
static uint64_t worked_on(const pst_cut *cut, uint32_t c) {
    uint64_t bytes = 0, scratch = 0;
    for (uint32_t k = 0; k < cut->n_class; k++)
        bytes += cut->class_[k].chunk == c ? cut->class_[k].bytes : 0;
    for (int p = 0; p < 4; p++)
        if (cut->chunk[c].program[p].scratch_bytes > scratch)
            scratch = cut->chunk[c].program[p].scratch_bytes;
    return bytes - stashed(cut, c) + scratch;
}

typedef struct {
    uint64_t estimated, exact, apart, exact_apart, worst_seed;
    double worst;
} account;

static void compare_chunk(const pst_cost_table *t, const pst_cut *cut, uint32_t c,
                          pst_recompute_way way, account *sums) {
    const uint32_t *of = cut->chunk_of_node, n = cut->n_node;
    const pst_recompute mode = pst_recompute_mode(way);
    char how[PST_RECOMPUTE_TEXT];
    pst_recompute_text(way, how);
    uint32_t first = 0;
    while (of[first] != c) first++;
    uint64_t enter = t->enter[mode][first],
             stash = sum_way(t->stash, t->layer, way, cut, c) + enter, exact = stashed(cut, c);
    uint64_t held = most_again(t, way, cut, c, 0), most = held > enter ? held - enter : 0;
    for (uint32_t i = 0; i < n && mode == PST_RECOMPUTE_NONE; i++)
        if (of[i] == c && t->scratch[i] > most) most = t->scratch[i];
    if (stash > exact)
        fail_msg(
            "recompute %s: chunk %u of %u: a stash of %lu bytes (%lu received), but there are %lu",
            how, c, cut->n_chunk, stash, enter, exact);
    if (stash + most > exact + worked_on(cut, c))
        fail_msg("recompute %s: chunk %u of %u: work on %lu bytes, but there are %lu", how, c,
                 cut->n_chunk, most, worked_on(cut, c));
    sums->estimated += stash;
    sums->exact += exact;
    if (!cut->split) return;
    uint64_t again = sum_way(t->recomputed_to_w, t->layer, way, cut, c);
    sums->apart += sum_way(t->b_to_w, t->layer, way, cut, c) - (again < enter ? again : enter);
    for (uint32_t k = 0; k < cut->n_class; k++) {
        const pst_cut_class *x = cut->class_ + k;
        if (x->chunk == c && x->birth > PST_EV_F && x->deaths >> PST_EV_W & 1)
            sums->exact_apart += x->bytes;
    }
}

static void compare_times(const pst_cost_table *t, const pst_cut *cut, uint32_t c,
                          pst_recompute_way way) {
    const uint32_t *of = cut->chunk_of_node, n = cut->n_node;
    const pst_program *p = cut->chunk[c].program;
    uint64_t all = sum(t->f_ns, of, n, c) + sum(t->b_ns, of, n, c) + sum(t->w_ns, of, n, c);
    assert_int_equal(sum(t->f_ns, of, n, c), p[PST_OP_F].ns);
    if (way == PST_RECOMPUTE_NONE)
        assert_int_equal(all, p[PST_OP_F].ns + p[PST_OP_B].ns + p[PST_OP_W].ns + p[PST_OP_BW].ns);
    else if (cut->n_chunk == 1)
        assert_int_equal(all + sum_way(t->again_ns, t->layer, way, cut, c),
                         p[PST_OP_F].ns + p[PST_OP_B].ns + p[PST_OP_W].ns + p[PST_OP_BW].ns);
}

static void cut_at_random(uint32_t n, uint32_t n_chunk, uint64_t *state, uint32_t *of) {
    for (uint32_t c = 0, i = 0; c < n_chunk; c++) {
        uint32_t left = n_chunk - c - 1, room = n - i - left;
        uint32_t take = left ? 1 + (uint32_t)(next_random(state) % room) : room;
        while (take-- > 0) of[i++] = c;
    }
}

static void compare_cuts(const pst_graph *g, uint64_t *state, account sums[PST_RECOMPUTE_COUNT]) {
    pst_cost_table *t;
    uint32_t *of = malloc(g->n_node * sizeof *of);
    MUST(pst_cost_table_build(g, &nominal, NULL, &(pst_chooser){.choose = choose_odd_scratch}, &t));
    for (uint32_t k = 0; k < 6; k++) {
        const uint32_t most = g->n_node < 6 ? g->n_node : 6;
        uint32_t n_chunk = k < 2 ? 1 : 1 + (uint32_t)(next_random(state) % most);
        pst_recompute_way ways[6];
        const pst_recompute_way way = random_way(state);
        for (uint32_t c = 0; c < n_chunk; c++) ways[c] = way;
        pst_chooser chooser = {.arg = (void *)(uintptr_t)g,
                               .choose = choose_odd_scratch,
                               .ns = pass_ns,
                               .recompute = ways};
        pst_cut *cut;
        cut_at_random(g->n_node, n_chunk, state, of);
        MUST(pst_cut_build(&(pst_cut_spec){g, of, n_chunk, k % 2, 1, NULL}, &chooser, &cut));
        for (uint32_t c = 0; c < n_chunk; c++) {
            compare_chunk(t, cut, c, way, sums + pst_recompute_mode(way));
            compare_times(t, cut, c, way);
        }
        pst_cut_close(cut);
    }
    pst_cost_table_close(t);
    free(of);
}

static const char *const mode_name[PST_RECOMPUTE_COUNT] = {"none", "selective", "full",
                                                           "{full: N}"};

static void print_account(const char *what, const account *sums) {
    for (uint32_t m = 0; m < PST_RECOMPUTE_COUNT; m++)
        print_message(
            "%s, recompute %s: estimated stash is %.1f%% of that of the cuts\n", what, mode_name[m],
            sums[m].exact ? 100.0 * (double)sums[m].estimated / (double)sums[m].exact : 100);
    for (uint32_t m = 0; m < PST_RECOMPUTE_COUNT; m++)
        print_message("%s, recompute %s: what is kept from B to W is %.1f%% of that of the cuts\n",
                      what, mode_name[m],
                      sums[m].exact_apart
                          ? 100.0 * (double)sums[m].apart / (double)sums[m].exact_apart
                          : 100);
}

static void tables_agree_with_random_cuts(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    account sums[PST_RECOMPUTE_COUNT] = {0};
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        compare_cuts(g, &state, sums);
        pst_graph_close(g);
    }
    print_account("random graphs", sums);
}

static pst_graph *gpt(const char *preset, pst_dtype dtype) {
    pst_model_config c = {
        .kind = "gpt", .micro_batch = 1, .activation = PST_ACT_GELU_TANH, .dtype = dtype};
    pst_graph *g;
    strcpy(c.preset, preset);
    MUST(pst_model_gpt.preset(&c));
    MUST(pst_model_gpt.build(&c, &g));
    return g;
}

static void tables_agree_with_cuts_of_gpt(void **unused) {
    (void)unused;
    uint64_t state = test_seed(1);
    account sums[PST_RECOMPUTE_COUNT] = {0};
    pst_graph *g = gpt("gpt2", PST_F32);
    for (uint32_t i = 0; i < 8; i++) compare_cuts(g, &state, sums);
    print_account("gpt2", sums);
    for (uint32_t m = 0; m < PST_RECOMPUTE_COUNT; m++) {
        if (m != PST_RECOMPUTE_FULL) assert_true(sums[m].estimated * 100 > sums[m].exact * 95);
        assert_true(sums[m].apart * 100 > sums[m].exact_apart * 85);
    }
    pst_graph_close(g);
}

/* --- beside layouts --------------------------------------------------------------------------- */

/* Most micro-batches of a chunk on a rank between two passes. */
static uint64_t most_between(const test_case *k, uint32_t rank, uint32_t c, pst_opcode from,
                             pst_opcode to) {
    uint64_t now = 0, most = 0;
    for (uint32_t i = 0; i < k->schedule->n_action[rank]; i++) {
        const pst_action *a = k->schedule->action[rank] + i;
        if (a->chunk != c) continue;
        if (a->opcode == from && ++now > most) most = now;
        if (a->opcode == to) now--;
    }
    return most;
}

static uint64_t beyond(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* What micro-batches of a chunk keep, and what the rank needs once for it. */
static uint64_t chunk_bytes(const pst_cost_table *t, const test_case *k, uint32_t rank, uint32_t c,
                            uint64_t *once) {
    const uint32_t *of = k->chunk_of_node, n = k->g->n_node;
    const pst_recompute_way way = k->recompute[c];
    const pst_recompute mode = pst_recompute_mode(way);
    int split = k->schedule->split;
    uint32_t first = 0;
    while (of[first] != c) first++;
    uint64_t to_b = most_between(k, rank, c, PST_OP_F, split ? PST_OP_B : PST_OP_BW);
    uint64_t to_w = most_between(k, rank, c, PST_OP_B, PST_OP_W);
    uint64_t enter = t->enter[mode][first],
             again = sum_way(t->recomputed_to_w, t->layer, way, k->cut, c);
    const uint64_t *scratch = split ? t->scratch_split : t->scratch;
    *once = beyond(most_again(t, way, k->cut, c, split), enter);
    for (uint32_t i = first; i < n && of[i] == c; i++)
        if (scratch[i] > *once && mode == PST_RECOMPUTE_NONE) *once = scratch[i];
    uint64_t bytes = (sum_way(t->stash, t->layer, way, k->cut, c) + enter) * to_b;
    if (!split) return bytes;
    bytes += sum_way(t->stash_to_w, t->layer, way, k->cut, c) *
             (most_between(k, rank, c, PST_OP_F, PST_OP_W) - to_b);
    return bytes +
           (sum_way(t->b_to_w, t->layer, way, k->cut, c) - (again < enter ? again : enter)) * to_w;
}

/* The most that a rank keeps, by its list of passes. */
static uint64_t rank_bytes(const pst_cost_table *t, const test_case *k, uint32_t rank) {
    uint64_t all = 0, once = 0, chunk_once;
    for (uint32_t c = 0; c < k->schedule->n_chunk; c++) {
        if (k->schedule->rank_of_chunk[c] != rank) continue;
        all += chunk_bytes(t, k, rank, c, &chunk_once);
        if (chunk_once > once) once = chunk_once;
    }
    return all + once;
}

/* Whatever the schedule, the cut and recomputation are: never more than the layout has. */
static void layouts_have_no_less(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1), estimated = 0, exact = 0;
    for (uint32_t i = 0; i < 150; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        test_case k = random_case(g, &state);
        pst_cost_table *t;
        MUST(pst_cost_table_build(g, &nominal, NULL, &(pst_chooser){.choose = choose_odd_scratch},
                                  &t));
        for (uint32_t r = 0; r < k.n_rank; r++) {
            uint64_t has = k.layout[r]->total - k.layout[r]->start[PST_REGION_SLOT],
                     says = rank_bytes(t, &k, r);
            if (says > has)
                fail_msg("case %u, rank %u: %lu bytes of stash and scratch, but there are %lu", i,
                         r, says, has);
            estimated += says;
            exact += has;
        }
        pst_cost_table_close(t);
        close_case(&k);
        pst_graph_close(g);
    }
    print_message("stash and scratch of random cases: %.1f%% of that of the layouts\n",
                  100.0 * (double)estimated / (double)exact);
}

/* --- other kinds of devices ------------------------------------------------------------------- */

static pst_graph *one_linear(uint64_t rows, uint64_t in, uint64_t out) {
    pst_graph *g;
    uint32_t x, weight, y;
    const uint64_t shape[] = {1, rows}, table[] = {64, in};
    MUST(pst_graph_open("one", 1, &g));
    g->dtype = PST_BF16;
    MUST(pst_graph_data(g, "tokens", 2, shape, &x));
    MUST(pst_graph_param(g, &(pst_param){.name = "table", .n_dim = 2, .dim = {table[0], table[1]}},
                         &weight));
    MUST(pst_graph_add(g, &(pst_new_node){"embedding", "embedding", NULL, &x, 1, &weight, 1}, &x));
    MUST(pst_graph_param(g, &(pst_param){.name = "weight", .n_dim = 2, .dim = {out, in}}, &weight));
    MUST(pst_graph_add(g,
                       &(pst_new_node){"linear", "linear", &(pst_attr){.features = (uint32_t)out},
                                       &x, 1, &weight, 1},
                       &y));
    return g;
}

/* Of the linear operator, ns. */
static uint64_t linear_ns(const pst_device_kind *kind, pst_pass pass, uint64_t rows, uint64_t in,
                          uint64_t out) {
    const pst_costs costs = {.kind = kind};
    pst_graph *g = one_linear(rows, in, out);
    uint64_t flops, bytes;
    g->node[1].op->cost(g, g->node + 1, pass, &flops, &bytes);
    uint64_t ns =
        pst_costs_pass_ns(&costs, g, g->node + 1, &(pst_costs_work){0, pass, flops, bytes});
    double peak = (double)flops / kind->flops[PST_BF16] * 1e9;
    if ((double)ns < peak)
        fail_msg("%s: %lu x %lu x %lu takes %lu ns, the peak %.0f", kind->name, rows, in, out, ns,
                 peak);
    pst_graph_close(g);
    return ns;
}

/* A product's duration in this precision. */
static uint64_t product_ns(const pst_device_kind *kind, pst_dtype factors, uint64_t size,
                           pst_pass pass) {
    const pst_costs costs = {.kind = kind};
    pst_graph *g = one_linear(size, size, size);
    uint64_t flops, bytes;
    pst_graph_compute(g, factors);
    g->node[1].op->cost(g, g->node + 1, pass, &flops, &bytes);
    uint64_t ns =
        pst_costs_pass_ns(&costs, g, g->node + 1, &(pst_costs_work){0, pass, flops, bytes});
    pst_graph_close(g);
    return ns;
}

/* Rounding of factors pays where a product is large, and is for sizes that the library takes. */
static void factors_have_rates(void **unused) {
    (void)unused;
    const pst_device_kind *kind;
    MUST(pst_device_kind_find("H100", NULL, 0, &kind));
    for (pst_pass pass = PST_PASS_F; pass < PST_PASS_COUNT; pass++) {
        uint64_t fp32 = product_ns(kind, PST_F32, 8192, pass),
                 tf32 = product_ns(kind, PST_TF32, 8192, pass);
        uint64_t bf16 = product_ns(kind, PST_BF16, 8192, pass),
                 fp8 = product_ns(kind, PST_F8, 8192, pass);
        assert_true(fp32 > 5 * tf32 && tf32 > bf16 + bf16 / 2);
        assert_true(bf16 > fp8 + fp8 / 2 && bf16 < 2 * fp8); /* rounding takes its time */
        assert_true(product_ns(kind, PST_F8, 256, pass) > product_ns(kind, PST_BF16, 256, pass));
        assert_int_equal(product_ns(kind, PST_F8, 8200, pass),
                         product_ns(kind, PST_BF16, 8200, pass));
    }
}

/* Of 3x3 windows over 64 images of `size` pixels, and the operations that there are. */
static uint64_t convolution_ns(const pst_device_kind *kind, pst_dtype factors, pst_pass pass,
                               uint64_t size, uint64_t channels, uint64_t *flops) {
    const pst_costs costs = {.kind = kind};
    const uint64_t image[] = {64, size, size, channels}, shape[] = {channels, 3, 3, channels};
    uint32_t x, weight, y;
    uint64_t bytes;
    pst_graph *g;
    MUST(pst_graph_open("one", 64, &g));
    MUST(pst_graph_data(g, "bytes", 4, image, &x));
    MUST(pst_graph_add_pixels(g, "pixels", x, &x));
    MUST(pst_graph_add_param(g, "weight", 4, shape, PST_INIT_NORMAL, 1, 0, &weight));
    MUST(pst_graph_add_convolution(g, "op", x, weight, PST_NONE, 1, 1, &y));
    pst_graph_compute(g, factors);
    g->node[1].op->cost(g, g->node + 1, pass, flops, &bytes);
    uint64_t ns =
        pst_costs_pass_ns(&costs, g, g->node + 1, &(pst_costs_work){0, pass, *flops, bytes});
    pst_graph_close(g);
    return ns;
}

/* The layers of a ResNet-50, each of which has as many operations, reach a part of the peak but
 * never all of it. */
static void convolutions_have_rates(void **unused) {
    (void)unused;
    const pst_device_kind *kind;
    uint64_t flops;
    MUST(pst_device_kind_find("H200", NULL, 0, &kind));
    for (pst_pass pass = PST_PASS_F; pass < PST_PASS_COUNT; pass++) {
        for (uint64_t channels = 64; channels <= 512; channels *= 2) {
            uint64_t ns = convolution_ns(kind, PST_BF16, pass, 3584 / channels, channels, &flops);
            double reached = (double)flops / ((double)ns / 1e9) / kind->flops[PST_BF16];
            if (reached < 0.1 || reached > 0.85)
                fail_msg("pass %d of %lu channels: %.2f of the peak", pass, channels, reached);
            assert_true(convolution_ns(kind, PST_F32, pass, 3584 / channels, channels, &flops) >
                        2 * ns);
        }
        /* a few channels cost as much as 8 */
        assert_int_equal(convolution_ns(kind, PST_F32, pass, 256, 8, &flops) / 2000,
                         convolution_ns(kind, PST_F32, pass, 256, 7, &flops) / 2000);
    }
}

/* More takes longer, nothing is faster than the datasheet, and large products come near to what
 * devices reach. */
static void devices_have_curves(void **unused) {
    (void)unused;
    uint32_t n;
    const pst_device_kind *kind = pst_device_kinds(&n);
    for (uint32_t i = 0; i < n; i++) {
        if (!strcmp(kind[i].name, "cpu") || !(kind[i].flops[PST_BF16] > 0)) continue;
        for (pst_pass pass = PST_PASS_F; pass < PST_PASS_COUNT; pass++) {
            uint64_t before = 0;
            for (uint64_t size = 16; size <= 8192; size *= 2) {
                uint64_t ns = linear_ns(kind + i, pass, size, size, size);
                assert_true(ns >= before);
                assert_true(linear_ns(kind + i, pass, size, size, size + 1) >= ns);
                assert_true(linear_ns(kind + i, pass, size, size + 1, size) >= ns);
                before = ns;
            }
            double reached =
                2.0 * 8192 * 8192 * 8192 / ((double)before / 1e9) / kind[i].flops[PST_BF16];
            if (reached < 0.44 || reached > 0.9)
                fail_msg("%s reaches %.3f of its peak", kind[i].name, reached);
        }
        const pst_costs costs = {.kind = kind + i, .tensor_link = &kind[i].link};
        assert_true(pst_costs_exchange_ns(&costs, PST_EXCHANGE_SUM, 8, 1 << 20) >
                    pst_costs_exchange_ns(&costs, PST_EXCHANGE_GATHER, 8, 1 << 20));
        assert_true(pst_costs_exact_ns(&costs, PST_EXCHANGE_SUM, 8, 1 << 24) >
                    pst_costs_exact_ns(&costs, PST_EXCHANGE_SUM, 8, 1 << 20));
        assert_true(pst_costs_exact_ns(&costs, PST_EXCHANGE_SCATTER, 8, 1 << 20) > 0);
        assert_int_equal(pst_costs_exact_ns(&costs, PST_EXCHANGE_GATHER, 8, 1 << 20), 0);
        assert_true(pst_costs_exchange_ns(&costs, PST_EXCHANGE_GATHER, 8, 1 << 20) >
                    pst_costs_exchange_ns(&costs, PST_EXCHANGE_GATHER, 4, 1 << 20));
        assert_true(pst_costs_step_ns(&costs, 1 << 30) > 7 * pst_costs_norm_ns(&costs, 1 << 29));
    }
}

/* --- programs --------------------------------------------------------------------------------- */

/* Of the attention of a GPT with this program, forward and backward, ns. */
static double attention_ns(const pst_device_kind *kind, const char *program, uint32_t context) {
    pst_costs_program p;
    MUST(pst_costs_program_parse(program, &p));
    const pst_costs costs = {.kind = kind, .program = &p};
    const pst_model_config config = {.kind = "gpt",
                                     .layers = 1,
                                     .heads = 16,
                                     .channels = 2048,
                                     .context = context,
                                     .vocabulary = 64,
                                     .micro_batch = 2,
                                     .activation = PST_ACT_GELU_TANH,
                                     .dtype = PST_BF16};
    pst_graph *g;
    double ns = 0;
    MUST(pst_model_gpt.build(&config, &g));
    for (uint32_t i = 0; i < g->n_node; i++)
        for (pst_pass pass = PST_PASS_F; pass < PST_PASS_W; pass++) {
            uint64_t flops, bytes;
            if (strcmp(g->node[i].op->name, "attention") != 0) continue;
            g->node[i].op->cost(g, g->node + i, pass, &flops, &bytes);
            ns += (double)pst_costs_pass_ns(&costs, g, g->node + i,
                                            &(pst_costs_work){0, pass, flops, bytes});
        }
    pst_graph_close(g);
    return ns;
}

/* As the figures of FlashAttention-2 and 3 show: the order of the kernels, and rates that grow with
 * the length. Heads of 128. */
static void attention_has_ways(void **unused) {
    (void)unused;
    const pst_device_kind *a100, *h100;
    MUST(pst_device_kind_find("A100-80", NULL, 0, &a100));
    MUST(pst_device_kind_find("H100", NULL, 0, &h100));
    const double flops = 3.5 * 2 * 2 * 2048. * 2048 * 2048; /* 3.5 x 2 b T^2 C */
    const double rate = flops / attention_ns(a100, "fsdp attention=flash2", 2048) / 1e3;
    if (rate < 145 || rate > 165) fail_msg("FlashAttention-2 on A100: %.0f, not 155", rate);
    const double fast = flops / attention_ns(h100, "fsdp attention=flash2", 2048) / 1e3;
    if (fast < 250 || fast > 280) fail_msg("FlashAttention-2 on H100: %.0f, not 265", fast);
    static const char *const slower[] = {"fsdp attention=stored", "fsdp attention=flash1",
                                         "fsdp attention=flash2", "fsdp attention=flash3"};
    for (int i = 0; i < 3; i++)
        assert_true(attention_ns(h100, slower[i], 4096) > attention_ns(h100, slower[i + 1], 4096));
    for (uint32_t length = 512; length < 16384; length *= 2)
        for (int i = 0; i < 4; i++)
            assert_true(attention_ns(h100, slower[i], 2 * length) <
                        4.1 * attention_ns(h100, slower[i], length));
    assert_true(attention_ns(h100, "megatron-core", 2048) < attention_ns(a100, "llm.c", 2048));
}

static void replicas_of_programs_exchange(void **unused) {
    (void)unused;
    pst_costs_program core, hidden, sharded;
    MUST(pst_costs_program_parse("megatron-2021", &core));
    MUST(pst_costs_program_parse("megatron-2021 overlap=1", &hidden));
    MUST(pst_costs_program_parse("fsdp", &sharded));
    /* all on one node; eight on each of four; one on each of 32 */
    const pst_costs_replicas within = {8, 8, 300e9, 25e9}, eight = {32, 8, 300e9, 25e9},
                             alone = {32, 1, 300e9, 25e9};
    const double fastest = pst_costs_program_exchange_ns(&core, &within),
                 nodes = pst_costs_program_exchange_ns(&core, &eight),
                 slowest = pst_costs_program_exchange_ns(&core, &alone);
    assert_true(fastest > 0 && nodes > 1.2 * fastest);
    assert_float_equal(slowest, 8 * nodes, 1e-9 * slowest); /* eight NICs share it */
    assert_float_equal(pst_costs_program_exchange_ns(&hidden, &alone), 0, 0);
    assert_float_equal(pst_costs_program_shard_ns(&core, &alone), 0, 0);
    assert_float_equal(pst_costs_program_exchange_ns(&sharded, &alone), 0, 0);
    assert_true(pst_costs_program_shard_ns(&sharded, &alone) > slowest);
    assert_false(pst_costs_program_is_other(NULL));
    uint32_t n;
    assert_false(pst_costs_program_is_other(&pst_costs_programs(&n)[0]));
    for (uint32_t i = 1; i < n; i++)
        assert_true(pst_costs_program_is_other(&pst_costs_programs(&n)[i]));
}

static void predictions_have_ranges(void **unused) {
    (void)unused;
    uint32_t n;
    const pst_device_kind *kind = pst_device_kinds(&n);
    pst_costs_range r, measured;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(pst_costs_range_of(kind + i, 1e9, 0, 0, &r), !pst_costs_is_cpu(kind + i));
        if (pst_costs_is_cpu(kind + i)) continue;
        assert_true(r.low > 0.5 && r.low < 1 && r.high > 1 && r.high < 1.5);
        assert_int_equal(pst_costs_range_of(kind + i, 1e9, 1, 0, &measured), 1);
        assert_true(measured.high - measured.low < r.high - r.low); /* a profile narrows it */
        assert_int_equal(pst_costs_range_of(kind + i, 1e9, 0, 1, &measured), 1);
        assert_true(measured.high - measured.low < r.high - r.low);
    }
    const pst_costs twice = {.factor = 2};
    assert_int_equal(pst_costs_step_ns(&twice, 2000), 2 * pst_costs_step_ns(&nominal, 2000));
}

/* Tables of the largest models are made within the time of a search. */
static void large(void **unused) {
    (void)unused;
    pst_graph *g = gpt("gpt3-175b", PST_BF16);
    pst_cost_table *t;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    MUST(pst_cost_table_build(g, &nominal, NULL, NULL, &t));
    clock_gettime(CLOCK_MONOTONIC, &b);
    print_message("%u operators: %.1f ms\n", g->n_node,
                  (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
    assert_int_equal(t->n, g->n_node);
    pst_cost_table_close(t);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nominal_core),
        cmocka_unit_test(kinds_of_cores),
        cmocka_unit_test(tables_agree_with_random_cuts),
        cmocka_unit_test(tables_agree_with_cuts_of_gpt),
        cmocka_unit_test(layouts_have_no_less),
        cmocka_unit_test(devices_have_curves),
        cmocka_unit_test(factors_have_rates),
        cmocka_unit_test(convolutions_have_rates),
        cmocka_unit_test(attention_has_ways),
        cmocka_unit_test(replicas_of_programs_exchange),
        cmocka_unit_test(predictions_have_ranges),
        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
