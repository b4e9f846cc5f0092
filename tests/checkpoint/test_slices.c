/* Parameters that several ranks store parts of: whatever the parts, the whole is read back, and any
 * other part of it. */
#include "base/folder.h"
#include "base/rng.h"
#include "checkpoint/parts.h"
#include "checkpoint/shards.h"
#include "graph/split.h"
#include "graph/slice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 21, COLUMNS = 5, N = ROWS * COLUMNS };
static pst_graph *graph;
static float whole[3][N]; /* weight, m, v */

static int setup(void **state) {
    static const pst_param param = {
        .name = "h.0.attn.c_attn.weight", .n_dim = 2, .dim = {ROWS, COLUMNS}};
    uint32_t index;
    if (folder_open(state) || pst_graph_open("test", 1, &graph) != PST_OK) return -1;
    if (pst_graph_param(graph, &param, &index) != PST_OK) return -1;
    for (int i = 0; i < 3; i++) pst_rng_normal((uint64_t)i + 1, 0, 1, whole[i], N);
    return system("mkdir checkpoints");
}

static int teardown(void **state) {
    pst_graph_close(graph);
    return folder_close(state);
}

/* Part k of `parts` along a dimension, of each of `blocks` blocks of it. */
static pst_param part_of(uint32_t dim, uint32_t blocks, uint32_t parts, uint32_t k) {
    pst_param p = graph->param[0];
    uint64_t n = p.dim[dim] / blocks;
    pst_part own = pst_part_of(n, parts, k);
    p.slice =
        (pst_slice){.held = PST_HELD_PART, .whole = p.dim[dim], .dim = dim, .n_range = blocks};
    for (uint32_t b = 0; b < blocks; b++) {
        p.slice.range[b].first = b * n + own.first;
        p.slice.range[b].count = own.count;
    }
    p.dim[dim] = blocks * own.count;
    return p;
}

/* Each part in `pieces` pieces of its elements, a rank for each. */
static pst_status save(uint64_t step, uint32_t dim, uint32_t blocks, uint32_t parts,
                       uint32_t pieces) {
    static float held[3][N];
    pst_ckpt_info info = {
        .step = step, .validation_loss = NAN, .best_loss = INFINITY, .optimizer = "adamw"};
    uint32_t per = pieces;
    for (uint32_t r = 0; r < parts * per; r++) {
        pst_param p = part_of(dim, blocks, parts, r / per);
        pst_part piece = pst_part_of(pst_param_elements(&p), per, r % per);
        for (int i = 0; i < 3; i++) pst_slice_take(&p, whole[i], held[i]);
        pst_ckpt_entry entry = {.param = &p,
                                .weight = held[0],
                                .state = {held[1] + piece.first, held[2] + piece.first}};
        entry.from = piece.first;
        entry.n = piece.count;
        entry.weight += piece.first;
        pst_status status = shard_write(&(shard_place){"checkpoints", step, r, parts * per},
                                        pst_optim_find("adamw"), &entry, 1);
        if (status != PST_OK) return status;
    }
    return pst_ckpt_commit("checkpoints", &info, "model: {kind: gpt}\n", graph, parts * per, NULL);
}

static void expect(uint32_t dim, uint32_t blocks, uint32_t parts) {
    char *folder;
    pst_ckpt *c;
    static float got[3][N], want[N];
    assert_int_equal(pst_ckpt_find("checkpoints", &folder), PST_OK);
    if (pst_ckpt_open(folder, &c) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(c->n_tensor, 3);
    assert_int_equal(pst_ckpt_read_param(c, graph->param, pst_optim_find("adamw"), got[0],
                                         (void *[]){got[1], got[2]}),
                     PST_OK);
    assert_memory_equal(got, whole, sizeof whole);
    for (uint32_t k = 0; k < parts; k++) {
        pst_param p = part_of(dim, blocks, parts, k);
        assert_int_equal(
            pst_ckpt_read_param(c, &p, pst_optim_find("adamw"), got[0], (void *[]){got[1], got[2]}),
            PST_OK);
        for (int i = 0; i < 3; i++) {
            pst_slice_take(&p, whole[i], want);
            assert_memory_equal(got[i], want, pst_param_elements(&p) * sizeof *want);
        }
    }
    pst_ckpt_close(c);
    free(folder);
}

static void test_parts(void **state) {
    (void)state;
    uint64_t step = 0;
    for (uint32_t dim = 0; dim < 2; dim++)
        for (uint32_t parts = 1; parts <= 4; parts++)
            for (uint32_t pieces = 1; pieces <= 3; pieces++) {
                if (save(++step, dim, dim ? 1 : 3, parts, pieces) != PST_OK)
                    fail_msg("%s", pst_error());
                expect(0, 3, 2);
                expect(1, 1, 3);
            }
}

/* Pieces of the whole, of which later ranks have earlier ones, as the owners of outer steps. */
static void test_other_order(void **state) {
    (void)state;
    static const uint32_t piece_of[] = {0, 2, 4, 1, 3};
    enum { PIECES = sizeof piece_of / sizeof *piece_of };
    const pst_ckpt_info info = {
        .step = 500, .validation_loss = NAN, .best_loss = INFINITY, .optimizer = "adamw"};
    for (uint32_t r = 0; r < PIECES; r++) {
        const pst_part own = pst_part_of(N, PIECES, piece_of[r]);
        const pst_ckpt_entry entry = {.param = graph->param,
                                      .weight = whole[0] + own.first,
                                      .state = {whole[1] + own.first, whole[2] + own.first},
                                      .from = own.first,
                                      .n = own.count};
        assert_int_equal(shard_write(&(shard_place){"checkpoints", 500, r, PIECES},
                                     pst_optim_find("adamw"), &entry, 1),
                         PST_OK);
    }
    if (pst_ckpt_commit("checkpoints", &info, "", graph, PIECES, NULL) != PST_OK)
        fail_msg("%s", pst_error());
    expect(0, 3, 2);
}

static void test_incomplete(void **state) {
    (void)state;
    static float held[N];
    pst_ckpt_info info = {.step = 900, .validation_loss = NAN, .best_loss = INFINITY};
    for (uint32_t r = 0; r < 2; r++) {
        pst_param p = part_of(0, 1, 3, r);
        pst_ckpt_entry entry = {.param = &p, .weight = held, .n = pst_param_elements(&p)};
        assert_int_equal(shard_write(&(shard_place){"checkpoints", 900, r, 2}, NULL, &entry, 1),
                         PST_OK);
    }
    assert_int_equal(pst_ckpt_commit("checkpoints", &info, "", graph, 2, NULL), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "no rank has stored tensor h.0.attn.c_attn.weight"));
}

static int parses(const char *text) {
    pst_ckpt_tensor t = {.n_dim = 2, .dim = {ROWS, COLUMNS}, .elements = N};
    pst_slice slice;
    char again[PST_CKPT_SLICE];
    if (!pst_ckpt_slice_parse(text, &t, &slice)) return 0;
    pst_ckpt_slice_text(&slice, again);
    assert_string_equal(text, again);
    return 1;
}

static void test_names(void **state) {
    (void)state;
    char text[PST_CKPT_NAME];
    pst_param p = part_of(0, 3, 2, 1);
    assert_string_equal(pst_ckpt_part_name("a", &p.slice, 10, 20, text),
                        "a[0=3+4,10+4,17+4][10:20]");
    assert_string_equal(pst_ckpt_part_name("a", &graph->param->slice, 10, 20, text), "a[10:20]");
    assert_true(parses("0=3+4,10+4,17+4") && parses("1=0+5") && parses("0=0+0"));
    static const char *const bad[] = {"",
                                      "0",
                                      "0=",
                                      "0=3",
                                      "0=3+",
                                      "2=0+1",
                                      "0=20+2",
                                      "0=0+4x",
                                      "0=0+4,",
                                      "-1=0+1",
                                      "0=0+1,2+1,4+1,6+1",
                                      "1=0+6",
                                      "0=-1+2",
                                      "0=999999999999999999999+1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parses(bad[i])) fail_msg("%s is a slice", bad[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
