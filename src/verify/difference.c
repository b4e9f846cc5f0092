/* See difference.h. */
#include "verify/difference.h"
#include <inttypes.h>
#include <string.h>

void pst_difference_keep(pst_difference *first, const pst_difference *other) {
    if (!other->found) return;
    if (!first->found || pst_recorded_before(&other->at, &first->at)) *first = *other;
}

/* "step 2, micro-batch 1, B of h.0.mlp.c_fc" */
static int print_place(const pst_record *r, char *text, size_t size) {
    static const char *const pass[] = {"F", "B", "W"};
    int used = r->phase == PST_RECORD_START
                   ? snprintf(text, size, "before step %" PRIu64, r->step + 1)
                   : snprintf(text, size, "step %" PRIu64, r->step + 1);
    if (r->micro != PST_NONE)
        used += snprintf(text + used, size - (size_t)used, ", micro-batch %u", r->micro);
    const char *what = "";
    if (r->phase == PST_RECORD_GRADIENT) what = ", after REDUCE";
    if (r->phase == PST_RECORD_NUMBER) what = ", NORM";
    if (r->phase == PST_RECORD_END) what = ", after STEP";
    used += snprintf(text + used, size - (size_t)used, "%s", what);
    if (*r->node)
        used +=
            snprintf(text + used, size - (size_t)used, ", %s%s of %s",
                     r->kind == PST_RECORD_AGAIN ? "repeated " : "", pass[r->pass % 3], r->node);
    return used;
}

static int print_index(const pst_record *r, uint64_t index, char *text, size_t size) {
    uint64_t at[PST_MAX_DIM] = {0};
    int used = 0;
    for (uint32_t d = r->n_dim; d-- > 0; index /= r->dim[d] ? r->dim[d] : 1)
        at[d] = r->dim[d] ? index % r->dim[d] : 0;
    for (uint32_t d = 0; d < r->n_dim; d++)
        used += snprintf(text + used, size - (size_t)used, "%s%" PRIu64, d ? "," : " [", at[d]);
    if (r->n_dim) used += snprintf(text + used, size - (size_t)used, "]");
    return used;
}

void pst_difference_print(const pst_difference *d, char text[PST_DIFFERENCE_TEXT]) {
    const size_t size = PST_DIFFERENCE_TEXT;
    const pst_record *r = &d->at, *e = &d->expected;
    int used = print_place(r, text, size);
    used += snprintf(text + used, size - (size_t)used, ": %s", r->tensor);
    if (d->index == UINT64_MAX) {
        used += snprintf(text + used, size - (size_t)used,
                         " differs on rank %u (%s) from rank %u (%s), in elements that were not "
                         "stored",
                         r->rank, d->run, e->rank, d->expected_run);
    } else {
        used += print_index(r, d->index, text + used, size - (size_t)used);
        used += snprintf(text + used, size - (size_t)used,
                         " is %.9g on rank %u (%s), %.9g on rank %u (%s)", d->value, r->rank,
                         d->run, d->expected_value, e->rank, d->expected_run);
    }
    if (d->why) snprintf(text + used, size - (size_t)used, "; %s", d->why);
}
