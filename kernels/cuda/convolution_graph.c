#include "kernels/cuda/convolution_graph.h"
#include "graph/op.h"

static cudnnDataType_t type_of(uint32_t dtype) {
    if (dtype == PST_BF16) return CUDNN_DATA_BFLOAT16;
    return dtype == PST_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* [n,height,width,channels] in memory; the library lists the dimensions as
 * [n,channels,height,width]. */
static pst_dnn_desc images(pst_dnn_graph *g, int64_t number, cudnnDataType_t type,
                           const uint64_t shape[PST_DNN_DIMS]) {
    const int64_t c = (int64_t)shape[3], w = (int64_t)shape[2], h = (int64_t)shape[1];
    const int64_t dim[PST_DNN_DIMS] = {(int64_t)shape[0], c, h, w},
                  stride[PST_DNN_DIMS] = {h * w * c, 1, w * c, c};
    return pst_dnn_operand(g, number, type, dim, stride, 0);
}

static uint32_t avoided(const pst_cuda_convolution_shape *s) {
    uint32_t notes = 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
                     1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                     1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                     1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                     1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (s->dtype == PST_F32 && !s->tf32)
        notes |=
            1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    return notes;
}

void pst_cuda_convolution_graph(pst_dnn_graph *g, const pst_cuda_convolution_shape *s) {
    static const cudnnBackendDescriptorType_t operation[PST_PASS_COUNT] = {
        [PST_PASS_F] = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        [PST_PASS_B] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        [PST_PASS_W] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
    const cudnnDataType_t type = type_of(s->dtype);
    const pst_dnn_window window = {(int64_t)s->of.stride, (int64_t)s->of.padding};
    pst_dnn_desc x = images(g, PST_CONV_X, type,
                            (uint64_t[]){s->of.images, s->of.height, s->of.width, s->of.in});
    pst_dnn_desc w =
        images(g, PST_CONV_WEIGHT, type, (uint64_t[]){s->of.out, s->of.h, s->of.w, s->of.in});
    pst_dnn_desc y = images(g, PST_CONV_Y, type,
                            (uint64_t[]){s->of.images, s->of.rows, s->of.columns, s->of.out});
    g->avoid |= avoided(s);
    g->fallback = 1;
    pst_dnn_convolution(g, operation[s->pass], window, x, w, y);
}

/* --- sizes ------------------------------------------------------------------------------------ */

enum {
    USABLE = 32 << 20 /* for sums that are split among blocks, as much as for products */,
    TOGETHER = 8 /* channels */
};

/* Elements of the images if a pixel had at least that many channels. */
static uint64_t elements(uint64_t images, uint64_t height, uint64_t width, uint64_t channels,
                         uint64_t least) {
    return images * height * width * (channels > least ? channels : least);
}

uint64_t pst_cuda_convolution_workspace(const pst_cuda_convolution_shape *s) {
    const int wide = s->dtype == PST_F32;
    uint64_t bytes = USABLE;
    if (wide || s->of.in < TOGETHER)
        bytes += elements(s->of.images, s->of.height, s->of.width, s->of.in, TOGETHER) *
                 pst_dtype_bytes((pst_dtype)s->dtype);
    if (wide || s->of.out < TOGETHER)
        bytes += elements(s->of.images, s->of.rows, s->of.columns, s->of.out, TOGETHER) *
                 pst_dtype_bytes((pst_dtype)s->dtype);
    return bytes;
}

/* Its engines index elements with 32 bits, also in its workspace. */
const char *pst_cuda_convolution_refuses(const pst_cuda_convolution_shape *s) {
    const uint64_t most = UINT64_C(1) << 31;
    if (elements(s->of.images, s->of.height, s->of.width, s->of.in, TOGETHER) < most &&
        elements(s->of.images, s->of.rows, s->of.columns, s->of.out, TOGETHER) < most &&
        s->of.out * s->of.h * s->of.w * s->of.in < most)
        return NULL;
    return "cuDNN's convolution supports images and weights of less than 2^31 elements";
}
