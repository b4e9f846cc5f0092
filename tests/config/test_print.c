/* test: label=quick */
/* The resolved copy of a run file: random configurations printed and read back, and only what is
 * read. */
#include "config/run_file.h"

#include "base/rng.h"
#include <time.h>

/* A key that is not read is no part of the resolved copy; one that an earlier version has printed
 * is passed over. */
static void copies_have_what_is_read(void **state) {
    (void)state;
    static const char early[] =
        "model:\n  kind: mlp\n  preset: tiny\n  weights: \"\"\n  activation: relu\n  layers: 0\n"
        "  heads: 4\n  channels: 0\n  context: 0\n  vocabulary: 0\n  image: 0\n  dropout: 0.1\n"
        "data:\n  kind: custom\n  paths: [none]\n  tokenizer: byte\n  validation: 0.1\n";
    pst_config *c = parsed(early, "model.weights=");
    assert_true(c->model.heads == 0 && c->model.dropout == 0);
    assert_false(pst_config_given(c, "model", "heads"));
    char *text = printed(c);
    assert_non_null(strstr(
        text,
        "model:\n  kind: mlp\n  preset: tiny\n  activation: relu\n  layers: 0\n  channels: 0\n"
        "  context: 0\n  vocabulary: 0\ndata:\n  kind: custom\n  paths: [none]\ntrain:\n"));
    free(text);
    pst_config_close(c);
    const char *override = "model.heads=2";
    assert_int_equal(pst_config_parse(early, "run.yaml", &override, 1, &c), PST_EINPUT);
    /* 0 and an empty text ask for nothing */
    pst_config_close(parsed(
        "model: {kind: mlp, heads: 0, dropout: 0, weights: \"\"}\ndata: {paths: a}\n", NULL));
}

static uint64_t stream, drawn;

static uint32_t draw(uint32_t below) {
    uint32_t word[4];
    pst_rng_words(stream, 0, drawn++, word);
    return (uint32_t)((uint64_t)word[0] * below >> 32);
}

/* A random text of the kind that is hard to write in YAML. */
static void draw_text(char *out, uint32_t most) {
    static const char *const bits[] = {"a",
                                       "Z",
                                       "9",
                                       " ",
                                       "-",
                                       ":",
                                       ": ",
                                       " #",
                                       "#",
                                       "'",
                                       "\"",
                                       "\\",
                                       "\n",
                                       "\t",
                                       "*",
                                       "&",
                                       "!",
                                       "{",
                                       "]",
                                       ",",
                                       "?",
                                       "|",
                                       ">",
                                       "%",
                                       "@",
                                       "`",
                                       "~",
                                       "true",
                                       "null",
                                       "\x01",
                                       "\x7f",
                                       "\xc2\x85",
                                       "\xc3\xa9",
                                       "\xe2\x80\xa8",
                                       "\xef\xbb\xbf",
                                       "\xef\xbf\xbf",
                                       "\xf0\x9f\x98\x80",
                                       "\r",
                                       "=",
                                       "0x1"};
    out[0] = 0;
    for (uint32_t n = 1 + draw(most); n; n--) strcat(out, bits[draw(sizeof bits / sizeof *bits)]);
}

static void draw_override(char *out, size_t bytes, int which) {
    static const char *const reals[] = {"lr", "weight_decay", "clip", "eps"};
    static const char *const wholes[] = {"steps", "seed", "layers", "eval.every", "every", "trace"};
    char text[256];
    uint32_t word[4];
    pst_rng_words(stream, 1, drawn++, word);
    uint64_t bits = (uint64_t)word[0] << 32 | word[1];
    double real;
    bits &= ~(1ull << 63);
    memcpy(&real, &bits, 8);
    draw_text(text, 12);
    if (which == 0)
        snprintf(out, bytes, "%s=%.17g", reals[draw(4)],
                 real > 0 && real < 1e308 ? real : 1.0 / (1 + word[2]));
    if (which == 1) snprintf(out, bytes, "%s=%u", wholes[draw(6)], 1 + draw(9999));
    if (which == 2) snprintf(out, bytes, "preset=%s", text);
    if (which == 3) snprintf(out, bytes, "paths=%s", *text == '[' ? "p" : text);
    if (which == 4) snprintf(out, bytes, "batch=%u", 1 + draw(500));
    if (which == 5) snprintf(out, bytes, "dropout=%.17g", draw(1u << 31) * 0x1p-31);
    if (which == 6) snprintf(out, bytes, "memory=%u.%u%c", draw(900), draw(99), "KMGT"[draw(4)]);
    if (which == 7) snprintf(out, bytes, "activation=%s", draw(2) ? "relu" : "gelu_erf");
}

/* Whatever can be configured can be printed, read back to the same values, and printed the same
 * again. */
static void print_reads_back_the_same(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    stream = pst_rng_key(seed, "config");
    for (int run = 0; run < 400; run++) {
        char text[8][400];
        const char *override[8];
        for (int i = 0; i < 8; i++) {
            draw_override(text[i], sizeof text[i], i);
            override[i] = text[i];
        }
        pst_config *a = NULL, *b = NULL;
        if (pst_config_parse(LEAST, "run.yaml", override, 8, &a) != PST_OK)
            fail_msg("%s", pst_error());
        char *first = printed(a);
        if (pst_config_parse(first, "copy.yaml", NULL, 0, &b) != PST_OK)
            fail_msg("%s\n%s", pst_error(), first);
        char *second = printed(b);
        assert_string_equal(first, second);
        assert_memory_equal(&a->train.steps, &b->train.steps, 6 * sizeof(int64_t));
        assert_memory_equal(&a->train.lr, &b->train.lr, 8 * sizeof(double));
        assert_true(a->parallel.memory == b->parallel.memory &&
                    a->model.dropout == b->model.dropout);
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->model.preset, b->model.preset);
        assert_string_equal(a->data.paths[0], b->data.paths[0]);
        free(first);
        free(second);
        pst_config_close(a);
        pst_config_close(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(print_reads_back_the_same),
        cmocka_unit_test(copies_have_what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
