/* What the C code of the module's own kernels (own.c, image.c, arith.c) needs from the device. It
 * does not need the CUDA toolkit, so a host test can replace these functions. */
#ifndef PST_KERNELS_CUDA_OWN_H
#define PST_KERNELS_CUDA_OWN_H
#include "base/status.h"
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"

/* Return, for a device: the compute stream; where kernels report an index out of range; the number
 * of the current launch; memory for sums of squares, of *blocks blocks. */
enum { PST_CUDA_SUMS = 1 << 16 };
pst_cuda_queue pst_cuda_queue_of(const pst_device *device);
pst_cuda_fault *pst_cuda_fault_of(const pst_device *device);
uint64_t pst_cuda_launch_of(const pst_device *device);
double *pst_cuda_sums_of(const pst_device *device, uint32_t *blocks);
/* Implements pst_kernel_row.captures for rows whose launches always do the same work. */
static inline int pst_cuda_captures_always(pst_device *device, const pst_call *call) {
    (void)device;
    (void)call;
    return 1;
}
/* During a capture: address in device memory from which replayed kernels read the number of the
 * sample; else NULL. */
const uint64_t *pst_cuda_sample_of(pst_device *device);
pst_status pst_cuda_launched(const char *kernel); /* see cuda.h */

/* EINPUT if a kernel of this launch or an earlier one has read an index outside of its table;
 * reported once, with operator, position and limit. */
static inline pst_status pst_cuda_fault_check(pst_cuda_fault *fault, uint64_t launch) {
    if (fault->state != PST_CUDA_FAULT_SAID || fault->launch > launch) return PST_OK;
    fault->state = PST_CUDA_FAULT_NONE;
    return pst_fail(PST_EINPUT, "%s: index %d at position %llu is outside of [0, %llu)",
                    fault->node, fault->index, (unsigned long long)fault->position,
                    (unsigned long long)fault->limit);
}

extern const pst_kernel_row pst_cuda_own_row[];
extern const uint32_t pst_cuda_own_count;
extern const pst_kernel_row pst_cuda_image_row[]; /* image.c */
extern const uint32_t pst_cuda_image_count;
/* convolution_call.c: the operands of a pass, and those of the column sum for the gradient of the
 * bias. */
pst_cuda_convolution pst_cuda_convolution_of(const pst_call *call, pst_pass pass);
pst_cuda_columns pst_cuda_convolution_bias(const pst_cuda_convolution *c, float *scratch);
extern const pst_arith pst_cuda_arith;
/* sums.c */
pst_cuda_rule pst_cuda_rule_of(pst_optim_kind kind, const pst_optim_hyper *h);
pst_status pst_cuda_sums_of_squares(pst_device *device, const float *const *x, const uint64_t *n,
                                    uint32_t count, double *out);

/* whole.c: functions of pst_cuda_arith for LAMB and Muon */
pst_status pst_cuda_whole_squares(pst_device *device, const pst_optim_hyper *h,
                                  const pst_arith_param *p, pst_squares *out);
uint64_t pst_cuda_whole_scratch(const pst_muon_rule *rule, uint32_t threads);
pst_status pst_cuda_whole_direction(pst_device *device, const pst_optim_hyper *h,
                                    const pst_arith_param *p, float *x);
pst_status pst_cuda_whole_orthogonalize(pst_device *device, const pst_muon_rule *rule,
                                        void *scratch, float **x);
pst_status pst_cuda_whole_apply(pst_device *device, const pst_muon_rule *rule,
                                const pst_arith_param *p, const float *x);

/* muon.c: its matrix products, row-major, of X [rows,cols] and symmetric matrices A, B of the
 * smaller size. GRAM: X X^T (or, if X has more rows than columns, X^T X); SQUARE: A A; APPLIED: B X
 * (or X B), with first X and second B. */
typedef enum {
    PST_CUDA_MUON_GRAM,
    PST_CUDA_MUON_SQUARE,
    PST_CUDA_MUON_APPLIED,
    PST_CUDA_MUON_KINDS
} pst_cuda_muon_kind;
typedef struct {
    const float *first, *second;
    float *out;
    void *workspace; /* pst_cuda_muon_workspace bytes */
} pst_cuda_muon_operands;
uint64_t pst_cuda_muon_workspace(void);
pst_status pst_cuda_muon_prepare(pst_device *device, const pst_muon_rule *rule);
pst_status pst_cuda_muon_product(pst_device *device, const pst_muon_rule *rule,
                                 pst_cuda_muon_kind kind, const pst_cuda_muon_operands *of);
#endif
