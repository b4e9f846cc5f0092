/* The state in which a test begins. See fake.h. */
#include "cuda/fake_parts.h"
#include <cublasLt.h>
#include <cudnn.h>

void fake_reset(void) {
    fake = (fake_machine){.now = 5000000000000,
                          .count = 1,
                          .capability = 90,
                          .driver = 13000,
                          .runtime = 13000,
                          .lt = CUBLAS_VERSION,
                          .dnn = CUDNN_VERSION,
                          .dnn_cuda = 13000,
                          .free_bytes = UINT64_C(4) << 30,
                          .total_bytes = UINT64_C(5) << 30,
                          .lost_ns = UINT64_MAX};
    fake_blas = (fake_blas_machine){0};
    fake_dnn = (fake_dnn_machine){.workspace = 256};
    fake_time_reset();
    fake_memory_reset();
}
