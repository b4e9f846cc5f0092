/* Operands whose rows have gaps (pst_graph_pad), made of a case's operands and turned back. */
#ifndef PST_TESTS_KERNELS_GAPS_H
#define PST_TESTS_KERNELS_GAPS_H
#include "kernels/case.h"

/* Rows of `row` elements, `pitch` apart; `fill` in the gaps. Freed by the caller. */
CASE_USED void *gaps_open(const case_buffer *b, uint64_t row, uint64_t pitch, uint8_t fill) {
    uint8_t *wide = aligned_alloc(64, case_round_up(b->n / row * pitch * b->size));
    if (!wide) return NULL;
    memset(wide, fill, b->n / row * pitch * b->size);
    for (uint64_t r = 0; r < b->n / row; r++)
        memcpy(wide + r * pitch * b->size, (const uint8_t *)b->data + r * row * b->size,
               row * b->size);
    return wide;
}

/* Back into b. 1: all gaps are zeros. */
CASE_USED int gaps_take(case_buffer *b, const void *from, uint64_t row, uint64_t pitch) {
    const uint8_t *wide = from;
    int zeros = 1;
    for (uint64_t r = 0; r < b->n / row; r++) {
        const uint8_t *at = wide + r * pitch * b->size;
        memcpy((uint8_t *)b->data + r * row * b->size, at, row * b->size);
        for (uint64_t i = row * b->size; i < pitch * b->size; i++) zeros = zeros && !at[i];
    }
    return zeros;
}
#endif
