/* The search on problems small enough to know what is best, its bounds, its time limit, and what it
 * says of the rest. */
#include "base/clock.h"
#include "partition/search/cut.h"
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

static search_case *even(uint32_t n, uint32_t nodes, uint32_t each) {
    search_case *k = case_open(n, nodes, each);
    for (uint32_t i = 0; i < n; i++) {
        k->f[i] = 1000;
        k->b[i] = 1000;
        k->w[i] = 1000;
        k->stash[i] = 100;
        k->elements[i] = 10;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        k->node[i].link[PST_LEVEL_DEVICE] = (pst_cluster_link){10, 1e12};
        k->node[i].link[PST_LEVEL_NODE] = (pst_cluster_link){100, 1e10};
        k->node[i].node_bytes_per_s = 1e10 * each;
    }
    return k;
}

/* Replicas have no bubble: two of them on two equal devices, where nothing has to be exchanged. */
static void replicas_without_parameters(void **unused) {
    (void)unused;
    search_case *k = even(6, 1, 2);
    pst_search_result *r;
    memset(k->elements, 0, k->n * sizeof *k->elements);
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    assert_int_equal(r->best->layout.data, 2);
    assert_int_equal(r->best->step_ns, 6 * 3000 * 4 + 20); /* and the norm, there and back */
    assert_true(r->gap < 0.001);
    assert_string_equal(r->row[0].why, "");
    for (uint32_t i = 1; i < r->n_row; i++) assert_string_not_equal(r->row[i].why, "");
    pst_search_result_close(r);
    case_close(k);
}

/* Parameters that one device cannot hold make a pipeline of it; rows say what is over. */
static void memory_makes_stages(void **unused) {
    (void)unused;
    search_case *k = even(6, 1, 2);
    pst_search_result *r;
    k->problem.memory = 6 * 10 * 16 * 2 / 3;
    memset(k->stash, 0, k->n * sizeof *k->stash);
    k->problem.tensor = CHOICES(1);
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    assert_int_equal(r->best->layout.pipeline, 2);
    assert_int_equal(r->best->layout.first_item[1], 3);
    assert_int_equal(r->best->peak_bytes[0], 3 * 10 * 16);
    for (uint32_t i = 0; i < r->n_row; i++)
        if (r->row[i].pipeline == 1) {
            assert_false(r->row[i].fits);
            assert_int_equal(r->row[i].excess, 6 * 10 * 16 / 3);
            assert_string_equal(
                r->row[i].why,
                "320 bytes over the memory of stage 0, with one micro-batch in flight");
        }
    pst_search_result_close(r);
    k->problem.memory = 100;
    MUST(pst_search(&k->problem, &r));
    assert_null(r->best);
    assert_true(r->n_row && r->row[0].best && !r->row[0].fits);
    pst_search_result_close(r);
    case_close(k);
}

/* A device of half the speed gets half as much, and comes where the schedule wants it. */
static void slow_devices_get_less(void **unused) {
    (void)unused;
    search_case *k = even(9, 1, 2);
    pst_search_result *r;
    k->device[0].speed = 0.5;
    k->problem.pipeline = CHOICES(2);
    k->problem.batch = 32;
    MUST(pst_search(&k->problem, &r));
    uint32_t slow = r->best->layout.device[0] == 0 ? 0 : 1;
    assert_int_equal(r->best->layout.first_item[slow + 1] - r->best->layout.first_item[slow], 3);
    pst_search_result_close(r);
    k->problem.pipeline = CHOICES(1);
    k->problem.data = CHOICES(2); /* replicas get micro-batches by speed */
    MUST(pst_search(&k->problem, &r));
    assert_int_equal(r->best->layout.micros[0] + r->best->layout.micros[1], 32);
    assert_in_range(r->best->layout.micros[r->best->layout.device[0] == 0 ? 0 : 1], 10, 11);
    pst_search_result_close(r);
    case_close(k);
}

/* All devices, or those that are not far slower than the others. */
static void slow_devices_are_left_out(void **unused) {
    (void)unused;
    search_case *k = even(12, 1, 3);
    pst_search_result *r;
    k->device[1].speed = 0.02;
    k->problem.all_devices = 1;
    k->problem.tensor = CHOICES(1);
    k->problem.batch = 32;
    MUST(pst_search(&k->problem, &r));
    assert_int_equal(r->best->layout.pipeline * r->best->layout.data, 3);
    uint64_t with_all = r->best->step_ns;
    pst_search_result_close(r);
    k->problem.fewer = CHOICES(2);
    MUST(pst_search(&k->problem, &r));
    assert_int_equal(r->best->layout.pipeline * r->best->layout.data, 2);
    assert_true(r->best->layout.device[0] != 1 && r->best->layout.device[1] != 1 &&
                r->best->step_ns * 2 < with_all);
    pst_search_result_close(r);
    case_close(k);
}

/* A kind on which some operators take far longer; and what chunks receive is more at some places
 * than at others. */
static void make_uneven(search_case *k, uint64_t *state) {
    k->cluster.n_kind = 2;
    for (uint32_t i = 0; i < k->n; i++) {
        k->other[i] = case_below(state, 2) ? 1 : 1 + case_below(state, 20);
        k->enter[i] = case_below(state, 20000);
    }
    for (uint32_t d = 0; d < k->cluster.n_device; d++) k->device[d].kind = case_below(state, 2);
}

/* Two operators, each of which is quick on one kind: what is shared out is not the whole of
 * both. */
static void kinds_that_are_quick_elsewhere(void **unused) {
    (void)unused;
    search_case *k = even(2, 1, 2);
    pst_search_result *r;
    k->cluster.n_kind = 2;
    k->device[1].kind = 1;
    k->f[1] = k->b[1] = k->w[1] = 20000;
    k->other[0] = 1;
    k->other[1] = 50;
    k->problem.pipeline = CHOICES(2);
    k->problem.tensor = k->problem.data = CHOICES(1);
    k->problem.batch = 128;
    k->problem.recompute[PST_RECOMPUTE_NONE] = 0;
    k->problem.recompute[PST_RECOMPUTE_FULL] = 1;
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    assert_true(r->best->bound_ns >= r->bound_ns && r->best->layout.device[0] == 1);
    assert_true(r->best->again_ns + r->best->exchange_ns <= r->best->busy_ns);
    pst_search_result_close(r);
    case_close(k);
}

/* bound of the cut <= longest path <= simulation, for every cut and order of a row. */
static void bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 20261121;
    uint32_t n_checked = 0;
    for (int i = 0; i < 300; i++) {
        search_case *k = case_small(&state);
        pst_search_context x;
        if (i % 2) make_uneven(k, &state);
        MUST(pst_search_context_open(&k->problem, &x));
        x.want_nearest = 1;
        uint32_t p =
            1 + case_below(&state, k->cluster.n_device < k->n ? k->cluster.n_device : k->n);
        pst_search_config *config;
        uint32_t n = 0;
        char why[160];
        MUST(pst_search_configs(&x, &(pst_search_config){.pipeline = p, .tensor = 1, .data = 1},
                                &config, &n, why));
        for (uint32_t c = 0; c < n; c++) {
            pst_candidate *l, *cut;
            uint64_t bound;
            MUST(pst_candidate_open(&k->problem, &config[c], pst_search_chunk_count(&x, &config[c]),
                                    &l));
            for (uint32_t r = 0; r < p; r++) l->layout.device[r] = r;
            MUST(pst_candidate_copy(l, &cut));
            MUST(pst_search_cut(&x, &config[c], cut, UINT64_MAX, &bound));
            for (uint32_t t = 0; t < 3; t++) {
                uint64_t excess;
                uint32_t stage;
                l->layout.first_item[l->layout.n_chunk] = k->n;
                for (uint32_t j = 1; j < l->layout.n_chunk; j++) {
                    uint32_t from = l->layout.first_item[j - 1] + 1,
                             to = k->n - (l->layout.n_chunk - j);
                    l->layout.first_item[j] = from + case_below(&state, to - from + 1);
                }
                if (t == 0)
                    memcpy(l->layout.first_item, cut->layout.first_item,
                           (l->layout.n_chunk + 1) * sizeof *l->layout.first_item);
                memset(l->layout.micros, 0, l->layout.data * sizeof *l->layout.micros);
                MUST(pst_search_fit(&x, &config[c], l, &excess, &stage));
                MUST(pst_search_predict(&x, &config[c], l, PST_SCORE_SIMULATE));
                if (l->bound_ns > l->step_ns)
                    fail_msg("walk %llu, simulated %llu", (unsigned long long)l->bound_ns,
                             (unsigned long long)l->step_ns);
                if (!excess && bound > l->bound_ns)
                    fail_msg("case %d, %s, %u stages: bound %llu of cuts, one takes %llu", i,
                             l->layout.schedule, p, (unsigned long long)bound,
                             (unsigned long long)l->bound_ns);
                n_checked++;
            }
            pst_candidate_close(l);
            pst_candidate_close(cut);
        }
        free(config);
        pst_search_context_close(&x);
        case_close(k);
    }
    assert_true(n_checked > 1000);
}

/* What saturates is in flight as with all micro-batches. */
static void in_flight_saturates(void **unused) {
    (void)unused;
    search_case *k = even(6, 1, 2);
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    k->problem.n_schedule = n_row - 1;
    for (uint32_t i = 0; i + 1 < n_row; i++) k->problem.schedule[i] = row[i].name;
    pst_search_context x;
    MUST(pst_search_context_open(&k->problem, &x));
    for (uint32_t i = 0; i + 1 < n_row; i++)
        for (uint32_t p = 1; p <= 6; p++)
            for (uint32_t m = 1; m < 70; m++) {
                const pst_search_flight *f;
                pst_schedule *s;
                uint32_t v = row[i].n_virtual ? row[i].n_virtual : 3, alive[18] = {0},
                         most[18] = {0};
                MUST(pst_search_flight_of(&x, i, p, v, m, &f));
                MUST(pst_schedule_generate(row[i].name, p, v, m, &s));
                for (uint32_t r = 0; r < p; r++)
                    for (uint32_t a = 0; a < s->n_action[r]; a++) {
                        const pst_action *at = &s->action[r][a];
                        if (at->opcode == PST_OP_F && ++alive[at->chunk] > most[at->chunk])
                            most[at->chunk]++;
                        if (at->opcode == (s->split ? PST_OP_W : PST_OP_BW)) alive[at->chunk]--;
                    }
                for (uint32_t c = 0; c < s->n_chunk; c++)
                    if (f->f_to_w[c] != most[c])
                        fail_msg("%s, %u stages, %u micro-batches, chunk %u: %u, not %u",
                                 row[i].name, p, m, c, f->f_to_w[c], most[c]);
                pst_schedule_close(s);
            }
    pst_search_context_close(&x);
    case_close(k);
}

static void time_limit_ends_it(void **unused) {
    (void)unused;
    search_case *k = even(400, 8, 8);
    pst_search_result *r;
    k->problem.pipeline = CHOICES(1, 2, 4, 8, 16, 32, 64);
    k->problem.data = CHOICES(1, 2, 4, 8, 16, 32, 64);
    k->problem.tensor = CHOICES(1, 2, 4, 8);
    k->problem.batch = 512;
    k->problem.micro_batch = CHOICES(1, 2, 4);
    k->problem.n_schedule = 4;
    k->problem.schedule[1] = "zb-h1";
    k->problem.schedule[2] = "interleaved";
    k->problem.schedule[3] = "zb-v";
    k->problem.time_limit_s = 0.02;
    uint64_t start = pst_monotonic_ns();
    MUST(pst_search(&k->problem, &r));
    assert_true(pst_monotonic_ns() - start < 1000000000);
    assert_true(r->best && r->bound_ns && r->bound_ns <= r->best->step_ns);
    pst_search_result_close(r);
    k->exchange = 10000;
    k->problem.time_limit_s = 1e-9; /* what is not even listed may have no exchanges */
    k->problem.tensor = CHOICES(8, 4, 2, 1);
    k->problem.data = CHOICES(1, 2, 3, 4, 5, 6, 7, 8, 64);
    for (uint32_t i = 0; i < k->n_table; i++) case_table_close(k->made[i].table);
    k->n_table = 0;
    MUST(pst_search(&k->problem, &r));
    assert_true(r->timed_out && r->best && r->best->layout.tensor >= 4);
    assert_int_equal(r->bound_ns, UINT64_C(400) * 3000 * 512 / 64);
    pst_search_result_close(r);
    case_close(k);
}

/* The second best is the best where the first turns out not to fit, whatever it recomputes. */
static pst_status verify(void *arg, pst_candidate *layout) {
    layout->exact = 1;
    ((search_case *)arg)->n_verified++;
    if (layout->layout.pipeline == 1) layout->peak_bytes[0] = 1 << 30;
    return PST_OK;
}

static void what_is_verified_counts(void **unused) {
    (void)unused;
    search_case *k = even(6, 1, 2);
    pst_search_result *plain, *r;
    k->problem.memory = 1 << 20;
    MUST(pst_search(&k->problem, &plain));
    assert_int_equal(plain->best->layout.pipeline, 1);
    k->problem.verify = verify;
    MUST(pst_search(&k->problem, &r));
    assert_int_equal(r->n_verified, k->n_verified);
    assert_true(r->best && r->best->exact && r->best->layout.pipeline > 1);
    for (uint32_t i = 0; i < r->n_row; i++)
        if (r->row[i].pipeline == plain->best->layout.pipeline &&
            r->row[i].tensor == plain->best->layout.tensor &&
            r->row[i].data == plain->best->layout.data)
            assert_int_equal(r->row[i].excess, (1 << 30) - (1 << 20));
    pst_search_result_close(plain);
    pst_search_result_close(r);
    case_close(k);
}

/* Layouts that take half as much again are looked for again in less room: the row is still there,
 * with recomputation. */
static pst_status verify_swollen(void *arg, pst_candidate *layout) {
    (void)arg;
    layout->exact = 1;
    for (uint32_t s = 0; s < layout->layout.pipeline; s++)
        layout->peak_bytes[s] += layout->peak_bytes[s] / 2;
    return PST_OK;
}

static void more_memory_than_thought(void **unused) {
    (void)unused;
    search_case *k = even(20, 1, 4);
    pst_search_result *r;
    k->problem.pipeline = CHOICES(4);
    k->problem.data = k->problem.tensor = CHOICES(1);
    k->problem.recompute[PST_RECOMPUTE_FULL] = 1;
    k->problem.memory = 5 * 10 * 16 + 5 * 100 * 4 + 200;
    MUST(pst_search(&k->problem, &r));
    assert_int_equal(r->best->layout.recompute[0], PST_RECOMPUTE_NONE);
    pst_search_result_close(r);
    k->problem.verify = verify_swollen;
    MUST(pst_search(&k->problem, &r));
    assert_true(r->best && r->best->exact && r->best->peak_bytes[0] <= k->problem.memory);
    assert_int_equal(r->best->layout.recompute[0], PST_RECOMPUTE_FULL);
    pst_search_result_close(r);
    case_close(k);
}

/* {full: auto}: with a number that is the same for all chunks, no fewer layers fit, and the step is
 * no shorter. */
static void as_few_layers_as_fit(void **unused) {
    (void)unused;
    search_case *k = even(24, 1, 4);
    pst_search_result *r;
    uint32_t most = 0, all = 0, fixed = 0;
    k->problem.pipeline = CHOICES(4);
    k->problem.data = k->problem.tensor = CHOICES(1);
    k->problem.recompute[PST_RECOMPUTE_LAYERS] = 1;
    k->problem.memory = 6 * 10 * 16 + 6 * 100 * 3;
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    const uint64_t step = r->best->step_ns;
    for (uint32_t s = 0; s < 4; s++) {
        const uint32_t n = pst_recompute_layers(r->best->layout.recompute[s]);
        assert_true(r->best->peak_bytes[s] <= k->problem.memory);
        most = n > most ? n : most;
        all += n;
    }
    assert_true(most && all < 4 * most);
    pst_search_result_close(r);
    k->problem.recompute[PST_RECOMPUTE_NONE] = 0;
    for (int fits = 0; !fits && fixed < 8; pst_search_result_close(r)) {
        k->problem.layers = ++fixed;
        MUST(pst_search(&k->problem, &r));
        fits = r->best != NULL;
        assert_true(!fits || r->best->step_ns >= step);
    }
    assert_int_equal(fixed, most);
    case_close(k);
}

static void contradictions(void **unused) {
    (void)unused;
    search_case *k = even(6, 1, 2);
    pst_search_result *r;
    k->problem.pipeline = CHOICES(4);
    k->problem.tensor = CHOICES(4);
    assert_int_equal(pst_search(&k->problem, &r), PST_EINPUT);
    k->problem.pipeline = CHOICES(2);
    k->problem.tensor = CHOICES(1);
    k->problem.schedule[0] = "1f2b";
    assert_int_equal(pst_search(&k->problem, &r), PST_EINPUT);
    case_close(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_without_parameters),
        cmocka_unit_test(memory_makes_stages),
        cmocka_unit_test(slow_devices_get_less),
        cmocka_unit_test(slow_devices_are_left_out),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(kinds_that_are_quick_elsewhere),
        cmocka_unit_test(in_flight_saturates),
        cmocka_unit_test(time_limit_ends_it),
        cmocka_unit_test(what_is_verified_counts),
        cmocka_unit_test(more_memory_than_thought),
        cmocka_unit_test(as_few_layers_as_fit),
        cmocka_unit_test(contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
