/* Optimizer updates that need a whole parameter: LAMB, whose step has a norm, and Muon, whose step
 * is a matrix. One rank of the replicas owns such a parameter. */
#ifndef PST_KERNELS_WHOLE_H
#define PST_KERNELS_WHOLE_H
#include "kernels/kernel.h"

/* Muon (Jordan et al. 2024): five Newton-Schulz steps X = a X + (b A + c A A) X with A = X X^T,
 * from the momentum divided by its norm; the step has the root mean square PST_MUON_RMS of AdamW's
 * (Liu et al. 2025), so both share a learning rate. */
enum { PST_MUON_STEPS = 5 };
static const double PST_MUON_A = 3.4445, PST_MUON_B = -4.7750, PST_MUON_C = 2.0315;
static const double PST_MUON_EPS = 1e-7, PST_MUON_RMS = 0.2;

/* Bytes of scratch of an update on the CPU. */
uint64_t pst_whole_scratch(pst_optim_kind kind, const pst_whole_shape *of, uint32_t threads);
/* Updates weight and state of a parameter as optim.h says, and rounds the weight to p->narrow. Same
 * bits for every number of threads. scratch: pst_whole_scratch bytes, at a multiple of 64. */
pst_status pst_whole_cpu(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         const pst_arith_param *p, const pst_whole_shape *of, void *scratch);
/* The reference, which rounds only its results; p->narrow is not written. ENOMEM. */
pst_status pst_whole_ref(pst_optim_kind kind, const pst_optim_hyper *h, const pst_arith_param *p,
                         const pst_whole_shape *of);
#endif
