/* The line of `penstock doctor` about attention on the first GPU: whether cuDNN has fused kernels
 * for it, and their workspace, needed and as the memory map has it. */
#include "kernels/cuda/attention_graph.h"
#include "kernels/cuda/cuda.h"
#include <stdio.h>

enum { LINE = 400 };

static const char of[] = "attention of GPT-2 on GPU 0 (bf16, 8 x 1024 positions, 12 heads of 64)";

static pst_cuda_attention_shape shape_of(int backward) {
    pst_cuda_attention_shape s = {.b = 8,
                                  .t = 1024,
                                  .c = 768,
                                  .heads = 12,
                                  .dtype = PST_BF16,
                                  .backward = (uint32_t)backward};
    pst_cuda_attention_divide(&s);
    return s;
}

/* Makes a plan, reads its workspace, and closes it. */
static pst_status measure(cudnnHandle_t dnn, int backward, uint64_t *bytes) {
    const pst_cuda_attention_shape s = shape_of(backward);
    const pst_dnn_target target = {.handle = dnn};
    pst_dnn_plan plan = {0};
    pst_dnn_graph g;
    pst_dnn_open(&g);
    pst_cuda_attention_graph(&g, &s);
    pst_status status = pst_dnn_plan_make(&g, &target, UINT64_MAX, &plan);
    *bytes = plan.workspace;
    pst_dnn_plan_close(&plan);
    pst_dnn_close(&g);
    return status;
}

const char *pst_cuda_attention_about(void) {
    static _Thread_local char line[LINE];
    cudnnHandle_t dnn = NULL;
    uint64_t need[2] = {0, 0}, counted[2];
    pst_status status = pst_cuda_status(cudaSetDevice(0), "GPU 0");
    if (status == PST_OK) status = pst_cudnn_status(cudnnCreate(&dnn), "cudnnCreate");
    for (int backward = 0; backward < 2; backward++) {
        const pst_cuda_attention_shape s = shape_of(backward);
        counted[backward] = pst_cuda_attention_workspace(&s);
        if (status == PST_OK) status = measure(dnn, backward, &need[backward]);
    }
    if (dnn) cudnnDestroy(dnn);
    cudaGetLastError();
    if (status != PST_OK) snprintf(line, LINE, "%s: no fused kernels: %.250s", of, pst_error());
    else
        snprintf(line, LINE,
                 "%s: fused kernels with %llu (F) and %llu (B) bytes of workspace; the memory map "
                 "reserves %llu and %llu bytes",
                 of, (unsigned long long)need[0], (unsigned long long)need[1],
                 (unsigned long long)counted[0], (unsigned long long)counted[1]);
    return line;
}
