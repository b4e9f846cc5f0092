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
    const pst_layout *l = &p->layout, *m = &again->layout;
    expect(m->n_item == l->n_item && m->n_chunk == l->n_chunk && m->pipeline == l->pipeline);
    expect(again->bubble == p->bubble && again->step_ns == p->step_ns &&
           again->graph_hash == p->graph_hash);
    expect(!memcmp(m->first_item, l->first_item, (l->n_chunk + 1) * sizeof *l->first_item));
    expect(!memcmp(m->rank_of_chunk, l->rank_of_chunk, l->n_chunk * sizeof *l->rank_of_chunk));
    expect(!memcmp(again->peak_bytes, p->peak_bytes, l->pipeline * sizeof *p->peak_bytes));
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
