/* Parts of parameters: where their elements are in the whole parameter. See slice.h. */
#include "graph/slice.h"
#include <string.h>

uint64_t pst_slice_whole(const pst_param *param, uint64_t dim[PST_MAX_DIM]) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < param->n_dim; i++) {
        dim[i] = param->slice.held == PST_HELD_PART && i == param->slice.dim ? param->slice.whole
                                                                             : param->dim[i];
        n *= dim[i];
    }
    return n;
}

int pst_slice_run(const pst_param *param, uint64_t i, uint64_t *at, uint64_t *count) {
    const pst_slice *s = &param->slice;
    uint64_t outer = 1, inner = 1;
    if (s->held != PST_HELD_PART) {
        *at = 0;
        *count = pst_param_elements(param);
        return i == 0;
    }
    for (uint32_t d = 0; d < s->dim; d++) outer *= param->dim[d];
    for (uint32_t d = s->dim + 1; d < param->n_dim; d++) inner *= param->dim[d];
    if (i >= outer * s->n_range) return 0;
    uint64_t row = i / s->n_range, range = i % s->n_range;
    *at = (row * s->whole + s->range[range].first) * inner;
    *count = s->range[range].count * inner;
    return 1;
}

void pst_slice_take(const pst_param *param, const float *whole, float *part) {
    uint64_t at, count;
    for (uint64_t i = 0; pst_slice_run(param, i, &at, &count); i++, part += count)
        memcpy(part, whole + at, count * sizeof *part);
}

void pst_slice_put(const pst_param *param, const float *part, float *whole) {
    uint64_t at, count;
    for (uint64_t i = 0; pst_slice_run(param, i, &at, &count); i++, part += count)
        memcpy(whole + at, part, count * sizeof *part);
}
