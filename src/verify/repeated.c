/* See repeated.h. */
#include "verify/repeated.h"
#include <math.h>

/* What the operator itself has written; NULL: it is not recorded. */
static const pst_recorded *written_of(const pst_recording *run, const pst_recorded *repeated) {
    const pst_record *r = repeated->record;
    pst_key key = pst_key_of(repeated);
    key.kind = PST_KEY_VALUE;
    const pst_recorded *at = pst_recording_find(run, &key), *end = run->item + run->n;
    for (; at && at < end; at++) {
        pst_key of = pst_key_of(at);
        const pst_record *w = at->record;
        if (pst_key_compare(&of, &key)) break;
        if (w->rank == r->rank && w->position == r->position && w->part == r->part) return at;
    }
    return NULL;
}

static void compare(const pst_recording *run, const pst_recorded *written,
                    const pst_recorded *repeated, double tolerance, pst_comparison *out) {
    double scale = fmax(pst_compare_largest(written), pst_compare_largest(repeated));
    out->tensors[PST_GROUP_VALUES]++;
    for (uint64_t k = 0; k < written->record->stored && k < repeated->record->stored; k++) {
        double a = pst_recorded_value(written, k), b = pst_recorded_value(repeated, k);
        double apart = scale > 0 ? fabs(a - b) / scale : 0;
        if (apart > out->worst[PST_GROUP_VALUES]) out->worst[PST_GROUP_VALUES] = apart;
        if (!pst_compare_differs(a, b, tolerance * scale)) continue;
        pst_difference d = {.found = 1,
                            .at = *written->record,
                            .expected = *repeated->record,
                            .run = run->name,
                            .expected_run = "reference kernel",
                            .index = pst_recorded_index(written, k),
                            .value = a,
                            .expected_value = b};
        out->different[PST_GROUP_VALUES]++;
        pst_difference_keep(&out->first, &d);
        return;
    }
}

void pst_repeated_check(const pst_recording *run, double tolerance, pst_comparison *out) {
    for (size_t i = 0; i < run->n; i++) {
        if (run->item[i].record->kind != PST_RECORD_REPEATED) continue;
        const pst_recorded *written = written_of(run, run->item + i);
        if (written) compare(run, written, run->item + i, tolerance, out);
    }
}
