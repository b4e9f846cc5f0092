/* The matrix products of Muon by cuBLASLt, row-major; a row-major matrix is column-major's
 * transpose (product.h). X is [rows,cols]; A, B and all sums of products of these are symmetric, so
 * the order of their indices does not matter. Runs in 16 bits or TF32 round factors to TF32, which
 * has more bits than the bf16 of Muon's publication; runs in fp32 do not. */
#include "kernels/cuda/own.h"
#include "kernels/cuda/product.h"

static pst_cuda_shape shape_of(const pst_muon_rule *rule, pst_cuda_muon_kind kind) {
    const uint64_t rows = rule->shape.rows, cols = rule->shape.cols;
    const int tall = rows > cols;
    const uint64_t least = tall ? cols : rows;
    pst_cuda_shape s = {.m = least, .n = least, .k = least, .out = PST_F32};
    s.in = rule->type == PST_F32 ? PST_F32 : PST_TF32;
    if (kind == PST_CUDA_MUON_GRAM) {
        s.k = rows + cols - least;
        s.trans_a = !tall; /* X X^T; tall: X^T X */
        s.trans_b = tall;
    }
    if (kind == PST_CUDA_MUON_APPLIED) { /* B X; tall: X B */
        s.m = cols;
        s.n = rows;
    }
    return s;
}

uint64_t pst_cuda_muon_workspace(void) { return PST_CUDA_WORKSPACE; }

pst_status pst_cuda_muon_prepare(pst_device *device, const pst_muon_rule *rule) {
    for (int kind = 0; kind < PST_CUDA_MUON_KINDS; kind++) {
        const pst_cuda_shape shape = shape_of(rule, (pst_cuda_muon_kind)kind);
        PST_TRY(pst_cuda_product_prepare(device, &shape));
    }
    return PST_OK;
}

/* Column-major, B X is X^T B; tall: X B is B X^T. */
pst_status pst_cuda_muon_product(pst_device *device, const pst_muon_rule *rule,
                                 pst_cuda_muon_kind kind, const pst_cuda_muon_operands *of) {
    const pst_cuda_shape shape = shape_of(rule, kind);
    const int swap = kind == PST_CUDA_MUON_APPLIED && rule->shape.rows > rule->shape.cols;
    const pst_cuda_operands operands = {.a = swap ? of->second : of->first,
                                        .b = swap ? of->first : of->second,
                                        .d = of->out,
                                        .workspace = of->workspace};
    return pst_cuda_product(device, &shape, &operands);
}
