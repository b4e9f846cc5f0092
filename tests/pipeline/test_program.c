/* Programs: random graphs cut at random pass every check of a cut, and a small cut is what one
 * would write by hand. */
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
            uint32_t n_chunk =
                1 + (uint32_t)(next_random(&state) % (g->n_node < 9 ? g->n_node : 9));
            uint32_t *chunk = random_chunks(g->n_node, n_chunk, &state);
            pst_recompute_way recompute[9];
            pst_cut *cut;
            for (uint32_t c = 0; c < n_chunk; c++) recompute[c] = random_way(&state);
            chooser.recompute = next_random(&state) % 2 ? recompute : NULL;
            chooser.whole = (int)(next_random(&state) % 2);
            uint8_t packs[9];
            const pst_cut_packing packing = random_packing(n_chunk, packs, &state);
            chooser.packing = kind < 2 ? &packing : NULL;
            MUST(pst_cut_build(&(pst_cut_spec){g, chunk, n_chunk, kind == 1, kind < 2, NULL},
                               &chooser, &cut));
            MUST(pst_cut_check(cut));
            pst_cut_close(cut);
            free(chunk);
        }
        pst_graph_close(g);
    }
}

static const pst_local *local_of(const pst_cut *cut, uint32_t c, pst_value_kind kind,
                                 const char *tensor) {
    for (uint32_t i = 0; i < cut->chunk[c].n_local; i++) {
        const pst_value *v = cut->tape->value + cut->chunk[c].local[i].value;
        if (v->kind == kind && !strcmp(cut->graph->tensor[v->tensor].name, tensor))
            return cut->chunk[c].local + i;
    }
    return NULL;
}

/* Bytes that a chunk keeps from F on for one micro-batch, what it receives included. */
static uint64_t kept_bytes(const pst_cut *cut, uint32_t c) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < cut->chunk[c].n_buffer; i++) {
        const pst_buffer *b = cut->chunk[c].buffer + i;
        if (b->place == PST_PLACE_SLOT && b->birth <= PST_EV_F && b->deaths >> PST_EV_B)
            bytes += b->bytes;
    }
    return bytes;
}

/* Names of what runs again, in order. */
static void print_again(const pst_cut *cut, uint32_t c, char *text, size_t bytes) {
    const pst_program *p = cut->chunk[c].program + PST_OP_BW;
    *text = 0;
    for (uint32_t s = 0; s < p->n_step; s++) {
        size_t used = strlen(text);
        if (p->step[s].again)
            snprintf(text + used, bytes - used, "%s ", cut->graph->node[p->step[s].node].name);
    }
}

/* A block of GPT between two others: what each way of recomputation keeps, and runs again. */
static void recomputation_by_hand(void **unused) {
    (void)unused;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 2, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    uint32_t *chunk = calloc(g->n_node, sizeof *chunk);
    for (uint32_t i = 0; i < g->n_node; i++)
        chunk[i] = (i >= 10) + (i >= 19); /* 9 operators are a block */
    uint64_t row = 2 * 64 * 4, C = 128;   /* b x T rows of floats */
    static const char *const again[] = {
        "", "h.1.ln_1 h.1.attn h.1.ln_2 h.1.mlp.c_fc ",
        "h.1.ln_1 h.1.attn.c_attn h.1.attn h.1.attn.c_proj h.1.attn.add h.1.ln_2 h.1.mlp.c_fc ",
        "h.1.ln_1 h.1.attn.c_attn h.1.attn h.1.attn.c_proj h.1.attn.add h.1.ln_2 h.1.mlp.c_fc "};
    uint64_t kept[] = {(C + 2 + C + 3 * C + C + 4 + C + 2 + C + 8 * C) * row,
                       (C + 3 * C + C + 4 * C) * row, C * row, C * row};
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        const pst_recompute_way way =
            mode == PST_RECOMPUTE_LAYERS ? pst_recompute_of_layers(1) : mode;
        pst_recompute_way recompute[] = {PST_RECOMPUTE_NONE, way, PST_RECOMPUTE_FULL};
        pst_chooser chooser = {.recompute = recompute};
        pst_cut *cut;
        char text[512];
        MUST(pst_cut_build(&(pst_cut_spec){g, chunk, 3, 0, 1, NULL}, &chooser, &cut));
        MUST(pst_cut_check(cut));
        assert_string_equal(g->node[10].name, "h.1.ln_1");
        print_again(cut, 1, text, sizeof text);
        assert_string_equal(text, again[mode]);
        assert_int_equal(kept_bytes(cut, 1), kept[mode]);
        print_again(cut, 2, text, sizeof text);
        assert_null(strstr(text, "loss")); /* its log-sum-exp is kept */
        assert_non_null(strstr(text, "lm_head"));
        print_again(cut, 0, text, sizeof text);
        assert_string_equal(text, "");
        pst_cut_close(cut);
    }
    free(chunk);
    pst_graph_close(g);
}

/* All blocks in one chunk: {full: N} runs the first N again, each right before its own B, and keeps
 * their inputs alone; what it works on is one block at a time. */
static void layers_by_hand(void **unused) {
    (void)unused;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 2, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    uint32_t *chunk = calloc(g->n_node, sizeof *chunk);
    uint64_t row = 2 * 64 * 4, C = 128, kept[6], scratch[6]; /* b x T rows of floats */
    const uint64_t block = (C + 2 + C + 3 * C + C + 4 + C + 2 + C + 8 * C) * row;
    const uint32_t layers = config.layers;
    assert_true(layers >= 3 && layers < 5);
    for (uint32_t n = 0; n <= layers + 1; n++) {
        pst_recompute_way recompute[] = {pst_recompute_of_layers(n)};
        pst_cut *cut;
        char text[2048], last[24] = "";
        MUST(pst_cut_build(&(pst_cut_spec){g, chunk, 1, 0, 1, NULL},
                           &(pst_chooser){.recompute = recompute}, &cut));
        MUST(pst_cut_check(cut));
        print_again(cut, 0, text, sizeof text);
        if (n) snprintf(last, sizeof last, "h.%u.ln_1 ", (n < layers ? n : layers) - 1);
        assert_true(!strncmp(text, last, strlen(last)) && (n || !*text));
        kept[n] = kept_bytes(cut, 0);
        scratch[n] = cut->chunk[0].program[PST_OP_BW].scratch_bytes;
        if (n && n <= layers) assert_int_equal(kept[n - 1] - kept[n], block - C * row);
        pst_cut_close(cut);
    }
    assert_int_equal(kept[layers + 1], kept[layers]);
    assert_int_equal(scratch[layers], scratch[1]);
    pst_recompute_way full[] = {PST_RECOMPUTE_FULL};
    pst_cut *cut;
    MUST(pst_cut_build(&(pst_cut_spec){g, chunk, 1, 0, 1, NULL}, &(pst_chooser){.recompute = full},
                       &cut));
    assert_true(cut->chunk[0].program[PST_OP_BW].scratch_bytes > 2 * scratch[layers]);
    pst_cut_close(cut);
    free(chunk);
    pst_graph_close(g);
}

/* embedding, hidden | output, loss: one activation up, one gradient down; dlogits lie over the
 * logits. */
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
    MUST(pst_cut_build(&(pst_cut_spec){g, chunk, 2, 0, 1, NULL}, NULL, &cut));
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

/* The same cut with packed messages: F of chunk 0 ends with PACK, that of chunk 1 begins with
 * UNPACK, and so does B the other way round; only the packed values cross. 4 x 2 x 8 numbers are
 * two blocks of a scale and 32 bytes. */
static void packed_by_hand(void **unused) {
    (void)unused;
    pst_model_config config = {.kind = "mlp",
                               .layers = 1,
                               .heads = 1,
                               .channels = 8,
                               .context = 4,
                               .vocabulary = 16,
                               .activation = PST_ACT_NONE,
                               .micro_batch = 2};
    const uint8_t packs[] = {1};
    const pst_cut_packing packing = {{.kind = PST_CODEC_INT8, .block = 32}, packs};
    uint32_t chunk[] = {0, 0, 1, 1};
    pst_graph *g;
    pst_cut *cut;
    MUST(pst_model_mlp.build(&config, &g));
    MUST(pst_cut_build(&(pst_cut_spec){g, chunk, 2, 1, 1, NULL},
                       &(pst_chooser){.packing = &packing}, &cut));
    MUST(pst_cut_check(cut));
    assert_int_equal(cut->n_channel, 2);
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t back = 0; back < 2; back++) {
            const pst_program *p = cut->chunk[c].program + (back ? PST_OP_B : PST_OP_F);
            const int sends = c == back;
            const pst_step *step = p->step + (sends ? p->n_step - 1 : 0);
            assert_int_equal(step->extra, sends ? PST_EXTRA_PACK : PST_EXTRA_UNPACK);
            const pst_local *packed = cut->chunk[c].local + step->operand[sends].index;
            assert_int_equal(packed->bytes, 2 * (4 + 32));
            assert_int_equal(step->flops, 64);
            assert_true((sends ? packed->channel_out : packed->channel_in) != PST_NONE);
            const pst_local *plain = cut->chunk[c].local + step->operand[!sends].index;
            assert_int_equal(plain->bytes, 256);
            assert_true(plain->channel_in == PST_NONE && plain->channel_out == PST_NONE);
        }
    pst_cut_close(cut);
    pst_graph_close(g);
}

/* Whether a value of enough fp32 numbers, no output, is sent as it is. */
static int crosses_unpacked(const pst_cut *cut, uint32_t value) {
    const pst_value *v = cut->tape->value + value;
    int sent = 0;
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t i = 0; i < cut->chunk[c].n_local; i++)
            sent |= cut->chunk[c].local[i].value == value &&
                    cut->chunk[c].local[i].channel_out != PST_NONE;
    return sent && v->dtype == PST_F32 && v->bytes >= 8 &&
           cut->graph->tensor[v->tensor].role != PST_TENSOR_OUTPUT;
}

/* One change of a cut with packed messages; returns 0 if there is no place for it. */
static int spoil(pst_cut *cut, int how, uint64_t *state) {
    pst_tape *tape = cut->tape;
    const uint32_t first = (uint32_t)(next_random(state) % tape->n_step);
    for (uint32_t i = 0; i < tape->n_step; i++) {
        const uint32_t s = (first + i) % tape->n_step;
        const int packs = tape->extra[s] == PST_EXTRA_PACK;
        if (!pst_extra_packs(tape->extra[s])) continue;
        pst_tape_step *step = tape->step + s;
        pst_value *packed = tape->value + step->operand[packs].index;
        if (how == 0) packed->bytes++;
        else if (how == 1) packed->packs = 0;
        else if (how == 2) tape->value[step->operand[!packs].index].bytes += 4;
        else if (how == 3) tape->value[packed->packs - 1].bytes = 8;
        else tape->extra[s] = packs ? PST_EXTRA_UNPACK : PST_EXTRA_PACK;
        return 1;
    }
    return 0;
}

/* Cuts that do not pack a message, or pack it into something else, are refused. */
static void wrong_packing_is_refused(void **unused) {
    (void)unused;
    uint64_t state = test_seed(1);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 120; i++) {
        pst_graph *g = random_graph(i);
        const uint32_t n_chunk = g->n_node < 4 ? g->n_node : 4;
        uint32_t *chunk = random_chunks(g->n_node, n_chunk, &state);
        const uint8_t all[] = {1, 1, 1, 1}, none[] = {0, 0, 0, 0};
        const pst_cut_packing packing = {{.kind = PST_CODEC_INT8, .block = 32},
                                         i % 6 == 5 ? none : all};
        pst_cut *cut;
        MUST(pst_cut_build(&(pst_cut_spec){g, chunk, n_chunk, (int)(i % 2), 1, NULL},
                           &(pst_chooser){.packing = &packing}, &cut));
        MUST(pst_cut_check(cut));
        int spoiled = i % 6 < 5 ? spoil(cut, (int)(i % 6), &state) : 0;
        if (i % 6 == 5 && cut->packing.packs) { /* nothing was packed, but should have been */
            uint8_t *packs = (uint8_t *)(uintptr_t)cut->packing.packs;
            memset(packs, 1, n_chunk - 1);
            for (uint32_t v = 0; v < cut->tape->n_value; v++) spoiled |= crosses_unpacked(cut, v);
        }
        if (spoiled) assert_int_equal(pst_cut_check(cut), PST_EINTERNAL);
        refused += (uint32_t)spoiled;
        pst_cut_close(cut);
        free(chunk);
        pst_graph_close(g);
    }
    printf("%u wrong cuts refused\n", refused);
    assert_true(refused > 60);
}

static void wrong_chunks_are_refused(void **unused) {
    (void)unused;
    pst_graph *g = random_graph(7);
    pst_cut *cut = NULL;
    uint32_t *chunk = calloc(g->n_node, sizeof *chunk);
    /* the second one is empty */
    assert_int_equal(pst_cut_build(&(pst_cut_spec){g, chunk, 2, 0, 1, NULL}, NULL, &cut),
                     PST_EINPUT);
    chunk[0] = 1;
    assert_int_equal(pst_cut_build(&(pst_cut_spec){g, chunk, 1, 0, 1, NULL}, NULL, &cut),
                     PST_EINPUT); /* descending */
    assert_null(cut);
    free(chunk);
    pst_graph_close(g);
}

static void synthetic_cuts_pass(void **unused) {
    (void)unused;
    for (uint32_t n = 1; n <= 16; n++)
        for (int kind = 0; kind < 3; kind++) {
            pst_cut *cut;
            MUST(pst_cut_synthetic(n, kind == 1, kind < 2, (pst_pass_ns){3, 5, 7}, 11, &cut));
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
        cmocka_unit_test(random_cuts_pass),         cmocka_unit_test(recomputation_by_hand),
        cmocka_unit_test(layers_by_hand),           cmocka_unit_test(small_cut_by_hand),
        cmocka_unit_test(packed_by_hand),           cmocka_unit_test(wrong_packing_is_refused),
        cmocka_unit_test(wrong_chunks_are_refused), cmocka_unit_test(synthetic_cuts_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
