/* Reference gather_rows: out[b,p,:] = x[b,position[b,p],:]; zeros for negative positions and for
 * those that another tensor rank has. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <string.h>

/* F: IN0 [IN1] OUT0 */
pst_status pst_ref_gather_rows_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_gather_shape s = pst_gather_shape_of(call);
    const float *x = call->arg[0];
    const int32_t *position = s.positions ? call->arg[1] : NULL;
    float *out = call->arg[s.positions ? 2 : 1];
    PST_TRY(pst_gather_check(call, &s, position));
    for (uint64_t i = 0; i < s.b * s.p; i++) {
        const uint64_t row = pst_gather_row(&s, position, i);
        if (row == UINT64_MAX) memset(out + i * s.c, 0, s.c * sizeof *out);
        else memcpy(out + i * s.c, x + row * s.c, s.c * sizeof *out);
    }
    return PST_OK;
}

/* B: [IN1] DOUT0 SUM0 DIN0 (may be SUM0) */
pst_status pst_ref_gather_rows_b(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_gather_shape s = pst_gather_shape_of(call);
    const int32_t *position = s.positions ? call->arg[0] : NULL;
    void *const *behind = call->arg + s.positions;
    const float *dout = behind[0], *sum = behind[1];
    float *dx = behind[2];
    PST_TRY(pst_gather_check(call, &s, position));
    if (!sum) memset(dx, 0, s.b * s.t * s.c * sizeof *dx);
    else memmove(dx, sum, s.b * s.t * s.c * sizeof *dx);
    for (uint64_t i = 0; i < s.b * s.p; i++) {
        const uint64_t row = pst_gather_row(&s, position, i);
        for (uint64_t c = 0; row != UINT64_MAX && c < s.c; c++)
            dx[row * s.c + c] += dout[i * s.c + c];
    }
    return PST_OK;
}
