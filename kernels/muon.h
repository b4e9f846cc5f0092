/* Muon's update, which needs a whole matrix. One rank of the replicas owns such a parameter. */
#ifndef PST_KERNELS_MUON_H
#define PST_KERNELS_MUON_H
#include "kernels/kernel.h"

/* Muon (Jordan et al. 2024): five Newton-Schulz steps X = a X + (b A + c A A) X with A = X X^T,
 * from the momentum divided by its norm; the step has the root mean square PST_MUON_RMS of AdamW's
 * (Liu et al. 2025), so both share a learning rate. */
enum { PST_MUON_STEPS = 5 };
static const double PST_MUON_A = 3.4445, PST_MUON_B = -4.7750, PST_MUON_C = 2.0315;
static const double PST_MUON_EPS = 1e-7, PST_MUON_RMS = 0.2;

/* Bytes of scratch of pst_muon_orthogonalize. */
uint64_t pst_muon_scratch(const pst_matrix_shape *of, uint32_t threads);
/* An update of a matrix as optim.h says, in three parts, of which the first and the last may be
 * called for parts of a matrix. All have the same bits for every number of threads. direction:
 * updates the momentum; x = what is to be orthogonalized. */
pst_status pst_muon_direction(pst_device *device, const pst_optim_hyper *h,
                              const pst_arith_param *p, float *x);
/* scratch: pst_muon_scratch bytes, at a multiple of 64; begins with the matrix. *x: where the
 * result is in it. */
pst_status pst_muon_orthogonalize(pst_device *device, const pst_matrix_shape *of, void *scratch,
                                  float **x);
/* Updates the weight; p->narrow is not written. */
void pst_muon_apply(pst_device *device, const pst_muon_rule *rule, const pst_arith_param *p,
                    const float *x);
/* The reference, with fp32 states, which rounds only its results; p->narrow is not written.
 * ENOMEM. */
pst_status pst_muon_ref(const pst_optim_hyper *h, const pst_arith_param *p,
                        const pst_matrix_shape *of);
/* LAMB in the same way: one sum over the parameter, in double. ENOMEM. */
pst_status pst_lamb_ref(const pst_optim_hyper *h, const pst_arith_param *p);
#endif
