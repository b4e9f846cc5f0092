/* Reference convolution of images [b,H,W,C]: see op_convolution.c. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"

typedef pst_convolution_shape sizes;

static sizes sizes_of(const pst_call *call) {
    return pst_convolution_shape_of(call->graph, call->node);
}

/* A window: its image, and its row and column in the output. */
typedef struct {
    uint64_t image, row, column;
} window;

/* The pixel of x at place (i, j) of a window; NULL outside of the image. */
static const float *pixel_at(const sizes *s, const float *x, window w, uint64_t i, uint64_t j) {
    uint64_t y = w.row * s->stride + i - s->padding, z = w.column * s->stride + j - s->padding;
    if (y >= s->height || z >= s->width)
        return NULL; /* negative ones have wrapped around to large ones */
    return x + ((w.image * s->height + y) * s->width + z) * s->in;
}

#define EACH(i, n) for (uint64_t i = 0; i < (n); i++)

static double window_sum(const sizes *s, const float *x, const float *weight, uint64_t n,
                         uint64_t r, uint64_t c) {
    double sum = 0;
    EACH(i, s->h) EACH(j, s->w) {
        const float *from = pixel_at(s, x, (window){n, r, c}, i, j);
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

/* B: PARAM0 DOUT0 DIN0. For each pixel, a sum over the windows that contain it. */
pst_status pst_ref_convolution_b(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *weight = call->arg[0], *dy = call->arg[1];
    float *dx = call->arg[2];
    EACH(n, s.images) EACH(y, s.height) EACH(x, s.width) EACH(k, s.in) {
        double sum = 0;
        EACH(i, s.h) EACH(j, s.w) {
            uint64_t r = y + s.padding - i, c = x + s.padding - j;
            if (y + s.padding < i || r % s.stride || r / s.stride >= s.rows) continue;
            if (x + s.padding < j || c % s.stride || c / s.stride >= s.columns) continue;
            const float *at = dy + ((n * s.rows + r / s.stride) * s.columns + c / s.stride) * s.out;
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
        const float *at = dy + o;
        EACH(image, s.images) EACH(row, s.rows) EACH(column, s.columns) {
            const window w = {image, row, column};
            const float *from = pixel_at(&s, call->arg[0], w, i, j);
            if (from) sum += (double)from[k] * *at;
            at += s.out;
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
