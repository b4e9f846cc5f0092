/* Programs: random graphs cut at random pass every check of a cut, and a small cut is what one would write by hand. */
#include "models/model.h"
#include "pipeline/case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void random_cuts_pass(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        pst_chooser chooser = {.choose = choose_odd_scratch};
        for (int kind = 0; kind < 3; kind++) { /* fused, split, forward only */
            uint32_t n_chunk = 1 + (uint32_t)(next_random(&state) % (g->n_node < 9 ? g->n_node : 9));
            uint32_t *chunk = random_chunks(g->n_node, n_chunk, &state);
            pst_cut *cut;
            MUST(pst_cut_build(g, chunk, n_chunk, kind == 1, kind < 2, &chooser, &cut));
            MUST(pst_cut_check(cut));
            pst_cut_close(cut);
            free(chunk);
        }
        pst_graph_close(g);
    }
}

static const pst_local *local_of(const pst_cut *cut, uint32_t c, pst_value_kind kind, const char *tensor) {
    for (uint32_t i = 0; i < cut->chunk[c].n_local; i++) {
        const pst_value *v = cut->tape->value + cut->chunk[c].local[i].value;
        if (v->kind == kind && !strcmp(cut->graph->tensor[v->tensor].name, tensor)) return cut->chunk[c].local + i;
    }
    return NULL;
}

/* embedding, hidden | output, loss: one activation up, one gradient down; dlogits lie over the logits. */
static void small_cut_by_hand(void **unused) {
    (void)unused;
    pst_model_config config = {.kind = "mlp",
                               .layers = 1,
                               .heads = 1,
                               .channels = 8,
                               .context = 4,
                               .vocabulary = 16,
                               .activation = PST_ACT_NONE,
                               .micro_batch = 2};
    pst_graph *g;
    pst_cut *cut;
    MUST(pst_model_mlp.build(&config, &g));
    assert_int_equal(g->n_node, 4);
    uint32_t chunk[] = {0, 0, 1, 1};
    MUST(pst_cut_build(g, chunk, 2, 0, 1, NULL, &cut));
    MUST(pst_cut_check(cut));
    assert_int_equal(cut->n_channel, 2);
    const pst_local *up = local_of(cut, 0, PST_VALUE_TENSOR, "hidden.0.out"),
                    *in = local_of(cut, 1, PST_VALUE_TENSOR, "hidden.0.out");
    assert_int_equal(up->birth, PST_EV_F);
    assert_int_equal(up->uses, 1 << PST_EV_SEND_F);
    assert_int_equal(in->birth, PST_EV_RECV_F);
    assert_int_equal(in->uses, 1 << PST_EV_F | 1 << PST_EV_B); /* fused: W counts as B */
    assert_int_equal(up->channel_out, in->channel_in);
    const pst_local *down = local_of(cut, 1, PST_VALUE_GRAD, "hidden.0.out"),
                    *arrived = local_of(cut, 0, PST_VALUE_GRAD, "hidden.0.out");
    assert_int_equal(down->channel_out, arrived->channel_in);
    assert_int_equal(arrived->birth, PST_EV_RECV_B);
    const pst_local *logits = local_of(cut, 1, PST_VALUE_TENSOR, "output.out"),
                    *d = local_of(cut, 1, PST_VALUE_GRAD, "output.out");
    assert_int_equal(logits->buffer, d->buffer);
    assert_int_equal(cut->chunk[1].buffer[d->buffer].place, PST_PLACE_SLOT);
    const pst_local *first = local_of(cut, 0, PST_VALUE_TENSOR, "embedding.out");
    assert_int_equal(cut->chunk[0].buffer[first->buffer].deaths, 1 << PST_EV_F | 1 << PST_EV_B);
    const pst_local *gradient = local_of(cut, 0, PST_VALUE_GRAD, "embedding.out");
    assert_int_equal(cut->chunk[0].buffer[gradient->buffer].pass_local, 1 + PST_OP_BW);
    const pst_local *loss = local_of(cut, 1, PST_VALUE_TENSOR, "loss.out");
    assert_int_equal(cut->chunk[1].buffer[loss->buffer].place, PST_PLACE_OUTPUT);
    assert_null(local_of(cut, 1, PST_VALUE_TENSOR, "tokens"));
    assert_non_null(local_of(cut, 1, PST_VALUE_TENSOR, "targets"));
    pst_cut_close(cut);
    pst_graph_close(g);
}

static void wrong_chunks_are_refused(void **unused) {
    (void)unused;
    pst_graph *g = random_graph(7);
    pst_cut *cut = NULL;
    uint32_t *chunk = calloc(g->n_node, sizeof *chunk);
    assert_int_equal(pst_cut_build(g, chunk, 2, 0, 1, NULL, &cut), PST_EINPUT); /* the second one is empty */
    chunk[0] = 1;
    assert_int_equal(pst_cut_build(g, chunk, 1, 0, 1, NULL, &cut), PST_EINPUT); /* descending */
    assert_null(cut);
    free(chunk);
    pst_graph_close(g);
}

static void synthetic_cuts_pass(void **unused) {
    (void)unused;
    for (uint32_t n = 1; n <= 16; n++)
        for (int kind = 0; kind < 3; kind++) {
            pst_cut *cut;
            MUST(pst_cut_synthetic(n, kind == 1, kind < 2, 3, 5, 7, 11, &cut));
            MUST(pst_cut_check(cut));
            assert_int_equal(cut->n_channel, (kind < 2 ? 2 : 1) * (n - 1));
            for (uint32_t c = 0; c < n; c++) {
                const pst_program *p = cut->chunk[c].program;
                assert_int_equal(p[PST_OP_F].ns, 3);
                assert_int_equal(p[PST_OP_B].ns, kind == 1 ? 5 : 0);
                assert_int_equal(p[PST_OP_W].ns, kind == 1 ? 7 : 0);
                assert_int_equal(p[PST_OP_BW].ns, kind == 0 ? 12 : 0);
            }
            pst_cut_close(cut);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cuts_pass),
        cmocka_unit_test(small_cut_by_hand),
        cmocka_unit_test(wrong_chunks_are_refused),
        cmocka_unit_test(synthetic_cuts_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
