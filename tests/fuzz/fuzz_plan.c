/* Any bytes as a plan file: an error that names the file, or a plan that is printed and read back
 * the same. */
#include "pipeline/layout/plan.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int truth) {
    if (!truth) abort();
}

static void exercise(const pst_plan *p) {
    char *text = NULL;
    size_t bytes;
    pst_plan *again = NULL;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return;
    expect(pst_plan_print(p, NULL, out) == PST_OK);
    fclose(out);
    expect(pst_plan_parse(text, bytes, "printed", &again) == PST_OK);
    expect(again->n_node == p->n_node && again->n_chunk == p->n_chunk &&
           again->n_rank == p->n_rank);
    expect(again->bubble == p->bubble && again->step_ns == p->step_ns &&
           again->graph_hash == p->graph_hash);
    expect(!memcmp(again->chunk_of_node, p->chunk_of_node, p->n_node * sizeof *p->chunk_of_node));
    expect(!memcmp(again->rank_of_chunk, p->rank_of_chunk, p->n_chunk * sizeof *p->rank_of_chunk));
    expect(!memcmp(again->peak_bytes, p->peak_bytes, p->n_rank * sizeof *p->peak_bytes));
    pst_plan_close(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pst_plan *plan = NULL;
    if (pst_plan_parse((const char *)data, size, "fuzz", &plan) == PST_OK) exercise(plan);
    else expect(plan == NULL && strncmp(pst_error(), "fuzz:", 5) == 0);
    pst_plan_close(plan);
    return 0;
}
