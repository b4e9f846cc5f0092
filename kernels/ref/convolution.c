/* Reference convolution of images [b,H,W,C]: see op_convolution.c. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"

typedef struct {
    uint64_t images, height, width, in, rows, columns, out, h, w; /* of x; of y; of the weight */
    int64_t stride, padding;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_tensor *x = pst_call_in(call, 0), *y = &call->graph->tensor[call->node->out[0]];
    const uint64_t *weight = call->graph->param[call->node->param[0]].dim;
    return (sizes){x->dim[0],
                   x->dim[1],
                   x->dim[2],
                   x->dim[3],
                   y->dim[1],
                   y->dim[2],
                   y->dim[3],
                   weight[1],
                   weight[2],
                   call->node->attr.stride,
                   call->node->attr.padding};
}

/* Row and column of a window of an image. */
typedef struct {
    uint64_t image, row, column;
} window;

/* The pixel of x under place (i, j) of a window; NULL outside. */
static const float *under(const sizes *s, const float *x, window w, uint64_t i, uint64_t j) {
    int64_t y = (int64_t)(w.row * (uint64_t)s->stride + i) - s->padding;
    int64_t z = (int64_t)(w.column * (uint64_t)s->stride + j) - s->padding;
    if (y < 0 || y >= (int64_t)s->height || z < 0 || z >= (int64_t)s->width) return NULL;
    return x + ((w.image * s->height + (uint64_t)y) * s->width + (uint64_t)z) * s->in;
}

#define EACH(i, n) for (uint64_t i = 0; i < (n); i++)

static double window_sum(const sizes *s, const float *x, const float *weight, uint64_t n,
                         uint64_t r, uint64_t c) {
    double sum = 0;
    EACH(i, s->h) EACH(j, s->w) {
        const float *from = under(s, x, (window){n, r, c}, i, j);
        if (from) EACH(k, s->in) sum += (double)from[k] * weight[(i * s->w + j) * s->in + k];
    }
    return sum;
}

/* F: IN0 PARAM0 [PARAM1] OUT0 */
pst_status pst_ref_convolution_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    int has_bias = call->node->n_param > 1;
    const float *weight = call->arg[1], *bias = has_bias ? call->arg[2] : NULL;
    float *y = call->arg[2 + has_bias];
    EACH(n, s.images)
    EACH(r, s.rows)
    EACH(c, s.columns)
    EACH(o, s.out) *y++ =
        (float)(window_sum(&s, call->arg[0], weight + o * s.h * s.w * s.in, n, r, c) +
                (bias ? bias[o] : 0));
    return PST_OK;
}

/* B: PARAM0 DOUT0 DIN0. What each pixel went into, window by window. */
pst_status pst_ref_convolution_b(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *weight = call->arg[0], *dy = call->arg[1];
    float *dx = call->arg[2];
    EACH(n, s.images) EACH(y, s.height) EACH(x, s.width) EACH(k, s.in) {
        double sum = 0;
        EACH(i, s.h) EACH(j, s.w) {
            int64_t r = (int64_t)(y - i) + s.padding, c = (int64_t)(x - j) + s.padding;
            if (r < 0 || r % s.stride || r / s.stride >= (int64_t)s.rows) continue;
            if (c < 0 || c % s.stride || c / s.stride >= (int64_t)s.columns) continue;
            const float *at = dy + ((n * s.rows + (uint64_t)(r / s.stride)) * s.columns +
                                    (uint64_t)(c / s.stride)) *
                                       s.out;
            EACH(o, s.out) sum += (double)at[o] * weight[((o * s.h + i) * s.w + j) * s.in + k];
        }
        *dx++ = (float)sum;
    }
    return PST_OK;
}

/* W: IN0 DOUT0 DPARAM0 [DPARAM1] */
pst_status pst_ref_convolution_w(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *dy = call->arg[1];
    float *dweight = call->arg[2], *dbias = call->node->n_param > 1 ? call->arg[3] : NULL;
    uint64_t windows = s.images * s.rows * s.columns;
    EACH(o, s.out) EACH(i, s.h) EACH(j, s.w) EACH(k, s.in) {
        double sum = 0;
        EACH(at, windows) {
            window w = {at / (s.rows * s.columns), at / s.columns % s.rows, at % s.columns};
            const float *from = under(&s, call->arg[0], w, i, j);
            if (from) sum += (double)from[k] * dy[at * s.out + o];
        }
        *dweight = (call->first ? 0.0f : *dweight) + (float)sum;
        dweight++;
    }
    for (uint64_t o = 0; dbias && o < s.out; o++) {
        double sum = 0;
        EACH(at, windows) sum += dy[at * s.out + o];
        dbias[o] = (call->first ? 0.0f : dbias[o]) + (float)sum;
    }
    return PST_OK;
}
