/* See batches.h. */
#include "prepare/batches.h"

/* Size i of 0 to `last`: equally far apart, rounded to multiples of `from`. */
static uint64_t size_of(const pst_batches_spec *s, uint64_t i, uint64_t last) {
    const uint64_t units = s->batch / s->from;
    return s->from * (1 + (i * (units - 1) + last / 2) / last);
}

/* Sizes whose share of the samples has passed before they would begin are left out. */
void pst_batches_fill(const pst_batches_spec *s, pst_batches *out) {
    *out = (pst_batches){.n = 1, .row = {{.size = s->batch}}};
    if (!s->from || s->from >= s->batch || s->batch % s->from) return;
    uint64_t last = s->batch / s->from - 1, step = 0, sample = 0;
    if (last > PST_BATCHES - 1) last = PST_BATCHES - 1;
    out->n = 0;
    for (uint64_t i = 0; i < last; i++) {
        const uint64_t all = last * s->per_sample, size = size_of(s, i, last);
        const uint64_t end = (s->tokens * (i + 1) + all - 1) / all;
        if (end <= sample) continue;
        const uint64_t steps = (end - sample + size - 1) / size;
        out->row[out->n++] = (pst_batches_row){step, sample, size};
        step += steps;
        sample += steps * size;
    }
    out->row[out->n++] = (pst_batches_row){step, sample, s->batch};
}

static const pst_batches_row *row_of(const pst_batches *b, uint64_t step) {
    uint32_t i = b->n - 1;
    while (i && b->row[i].step > step) i--;
    return b->row + i;
}

uint64_t pst_batches_size(const pst_batches *b, uint64_t step) { return row_of(b, step)->size; }

uint64_t pst_batches_before(const pst_batches *b, uint64_t step) {
    const pst_batches_row *row = row_of(b, step);
    return row->sample + (step - row->step) * row->size;
}

uint64_t pst_batches_steps(const pst_batches *b, uint64_t samples) {
    uint32_t i = b->n - 1;
    while (i && b->row[i].sample >= samples) i--;
    const pst_batches_row *row = b->row + i;
    if (samples <= row->sample) return row->step;
    return row->step + (samples - row->sample + row->size - 1) / row->size;
}
