/* All kernels of the module in one list, best first: if both a library and we have a kernel for an
 * operator, the earlier row is taken unless it rejects. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/own.h"
#include <string.h>

enum { MOST_ROWS = 128 };

static pst_cuda_rows own_rows(void) {
    return (pst_cuda_rows){pst_cuda_own_row, pst_cuda_own_count};
}

static pst_cuda_rows image_rows(void) {
    return (pst_cuda_rows){pst_cuda_image_row, pst_cuda_image_count};
}

typedef pst_cuda_rows part(void);
static part *const parts[] = {
    pst_cuda_linear_rows,
    pst_cuda_attention_rows,
    pst_cuda_convolution_rows,
    own_rows,
    image_rows,
    NULL, /* end */
};

const pst_kernel_row *pst_cuda_rows_all(uint32_t *n) {
    static pst_kernel_row all[MOST_ROWS];
    *n = 0;
    for (part *const *p = parts; *p; p++) {
        pst_cuda_rows rows = (*p)();
        if (rows.n > MOST_ROWS - *n) rows.n = MOST_ROWS - *n;
        memcpy(all + *n, rows.row, rows.n * sizeof *all);
        *n += rows.n;
    }
    return all;
}
