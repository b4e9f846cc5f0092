/* Reference softmax cross-entropy: loss[i] = log(sum_j exp(logits[i,j])) - logits[i,target[i]], in
 * training with the terms of kernels/loss.h; a negative target is ignored (loss 0, gradient 0). */
#include "kernels/ref/ref.h"
#include "kernels/loss.h"
#include <math.h>

/* F: IN0 IN1 OUT0 SAVED0 [OUT1] */
pst_status pst_ref_cross_entropy_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), v = pst_tensor_last(in);
    const float *logits = call->arg[0];
    const int32_t *target = call->arg[1];
    float *loss = call->arg[2], *lse = call->arg[3];
    float *hits = call->node->attr.hits ? call->arg[4] : NULL;
    const pst_loss_terms terms = pst_loss_terms_of(call);
    PST_TRY(pst_call_check_index(call, target, rows, v, 1));
    for (uint64_t r = 0; r < rows; r++, logits += v) {
        double max = -INFINITY, sum = 0, all = 0;
        for (uint64_t j = 0; j < v; j++) max = fmax(max, logits[j]);
        for (uint64_t j = 0; j < v; j++) sum += exp(logits[j] - max);
        for (uint64_t j = 0; j < v; j++) all += logits[j];
        double log_sum = max + log(sum);
        lse[r] = (float)log_sum;
        loss[r] = 0;
        if (hits) hits[r] = target[r] >= 0 && logits[target[r]] >= (float)max;
        if (target[r] < 0) continue;
        double hit = terms.target * logits[target[r]] + terms.each * all;
        loss[r] = (float)(log_sum - hit + terms.z * log_sum * log_sum);
    }
    return PST_OK;
}

/* B: IN0 IN1 SAVED0 DIN0 (is IN0): dlogits = (softmax - onehot) * loss_scale, in place, with the
 * terms of kernels/loss.h. Also for vocabulary_loss, whose columns begin with token attr.first of
 * attr.total. */
pst_status pst_ref_cross_entropy_b(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), v = pst_tensor_last(in);
    const float *logits = call->arg[0], *lse = call->arg[2];
    const int32_t *target = call->arg[1];
    const pst_attr *attr = &call->node->attr;
    float *dlogits = call->arg[3];
    const pst_loss_terms terms = pst_loss_terms_of(call);
    PST_TRY(pst_call_check_index(call, target, rows, attr->total ? attr->total : v, 1));
    for (uint64_t r = 0; r < rows; r++, logits += v, dlogits += v)
        for (uint64_t j = 0; j < v; j++) {
            double p = exp((double)logits[j] - lse[r]) * pst_loss_factor(&terms, lse[r]);
            p -= terms.each + ((uint64_t)target[r] == attr->first + j ? terms.target : 0);
            dlogits[j] = target[r] < 0 ? 0.0f : (float)(p * call->loss_scale);
        }
    return PST_OK;
}
