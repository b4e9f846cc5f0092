/* What label smoothing and z-loss add to a token's cross-entropy in training. With logits x of V
 * tokens, lse = log(sum of exp(x)), target t, smoothing s (Szegedy et al. 2016) and z (z-loss,
 * Chowdhery et al. 2022):
 *     loss = lse - (1-s) x[t] - s/V sum(x) + z lse^2
 * Evaluation computes lse - x[t]. */
#ifndef PST_KERNELS_LOSS_H
#define PST_KERNELS_LOSS_H
#include "kernels/shape.h"

typedef struct {
    double target; /* 1-s */
    double each;   /* s/V; 0: no smoothing */
    double z;
} pst_loss_terms;

/* call: of cross_entropy, vocabulary_part or vocabulary_loss. */
static inline pst_loss_terms pst_loss_terms_of(const pst_call *call) {
    const pst_attr *attr = &call->node->attr;
    uint64_t tokens = attr->total ? attr->total : pst_tensor_last(pst_call_in(call, 0));
    if (!call->train) return (pst_loss_terms){1, 0, 0};
    return (pst_loss_terms){1 - (double)attr->smoothing, (double)attr->smoothing / (double)tokens,
                            (double)attr->z_loss};
}
/* The factor of the softmax in the gradient. */
static inline double pst_loss_factor(const pst_loss_terms *terms, double lse) {
    return 1 + 2 * terms->z * lse;
}
#endif
