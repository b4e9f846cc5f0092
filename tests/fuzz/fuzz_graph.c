/* Any text as a graph: an error, or a graph that passes its check, keeps its hash through print and
 * parse, and can be differentiated without harm. */
#include "graph/tape.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static void exercise(pst_graph *g) {
    char *text = NULL;
    size_t bytes;
    pst_graph *again = NULL;
    pst_tape *tape = NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return;
    expect(pst_graph_check(g) == PST_OK);
    expect(pst_graph_print(g, out) == PST_OK);
    fclose(out);
    expect(pst_graph_parse(text, "printed", &again) == PST_OK);
    expect(pst_graph_hash(again) == pst_graph_hash(g));
    if (pst_tape_build(g, 1, &tape) == PST_OK) pst_tape_close(tape);
    pst_graph_close(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    pst_graph *g = NULL;
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (pst_graph_parse(text, "fuzz", &g) == PST_OK) exercise(g);
    else expect(g == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
    pst_graph_close(g);
    free(text);
    return 0;
}
