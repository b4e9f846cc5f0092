/* test: label=quick */
/* The keys of `model` that a kind is said not to read change nothing of its graph, and those that
 * it reads do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>

/* The graph's text; "" where the model cannot be built so. The caller's. */
static char *graph_of(const pst_config *config) {
    const pst_model_row *row;
    pst_model_config sizes;
    pst_graph *graph = NULL;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (pst_prepare_model(config, &row, &sizes) == PST_OK && row->build(&sizes, &graph) == PST_OK)
        assert_int_equal(pst_graph_print(graph, out), PST_OK);
    fclose(out);
    pst_graph_close(graph);
    return text;
}

static pst_config *config_of(const char *base, const char *more) {
    char text[400];
    pst_config *config = NULL;
    snprintf(text, sizeof text, "model: {%s%s}\ndata: {kind: custom, paths: [none]}\n", base, more);
    if (pst_config_parse(text, "run.yaml", NULL, 0, &config) == PST_OK) return config;
    if (!strstr(pst_error(), "is not used by model.kind")) fail_msg("%s: %s", text, pst_error());
    return NULL;
}

/* Whether the run file may have the key; what it does to the graph must fit. */
static int check_key(const char *base, const char *key, const char *value) {
    char more[100];
    snprintf(more, sizeof more, ", %s: %s", key, value);
    pst_config *with = config_of(base, more), *forced = config_of(base, "");
    assert_non_null(forced);
    char *before = graph_of(forced);
    assert_int_equal(pst_config_override(forced, "model", key, value), PST_OK);
    char *after = graph_of(forced);
    int same = !*after || !strcmp(before, after), reads = with != NULL;
    if (!*before) fail_msg("{%s}: %s", base, pst_error());
    if (same == reads)
        fail_msg("{%s} with %s %s: %s", base, key, value,
                 reads ? "no effect" : "refused, but read");
    free(before);
    free(after);
    pst_config_close(with);
    pst_config_close(forced);
    return reads;
}

static void keys_are_read_as_said(void **state) {
    static const struct {
        const char *base;
        int n_read;
    } models[] = {{"kind: gpt, preset: nano", 7},
                  {"kind: bert, preset: tiny", 9},
                  {"kind: mlp, preset: tiny", 5},
                  {"kind: resnet, preset: resnet20", 4}};
    static const struct {
        const char *key, *value;
    } keys[] = {{"activation", "gelu_erf"},
                {"layers", "8"},
                {"heads", "8"},
                {"channels", "32"},
                {"context", "8"},
                {"vocabulary", "99"},
                {"image", "16"},
                {"dropout", "0.5"},
                {"token_types", "3"},
                {"max_predictions", "4"},
                {"next_sentence", "true"}};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        int n = 0;
        char base[200]; /* a resnet cannot be without these two */
        snprintf(base, sizeof base, "%s%s", models[i].base,
                 strstr(models[i].base, "resnet") ? ", vocabulary: 10, image: 8" : "");
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            int twice = strstr(base, keys[k].key) != NULL;
            n += twice || check_key(base, keys[k].key, keys[k].value);
        }
        assert_int_equal(n, models[i].n_read);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_read_as_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
