/* Reference softmax cross-entropy of logits whose columns are split over tensor ranks: first three
 * numbers per row from each rank's columns, then the loss from those of all ranks. */
#include "kernels/ref/ref.h"
#include "kernels/loss.h"
#include <math.h>

/* F: IN0 IN1 OUT0 = per block of columns, and row (largest logit, sum of exp(logit - largest), the
 * target's logit or 0, with label smoothing what loss.h subtracts from lse for these columns) */
pst_status pst_ref_vocabulary_part_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), v = pst_tensor_last(in);
    const pst_blocks *blocks = &call->node->attr.blocks;
    const int32_t *target = call->arg[1];
    float *out = call->arg[2];
    const pst_loss_terms terms = pst_loss_terms_of(call);
    PST_TRY(pst_call_check_index(call, target, rows, call->node->attr.total, 1));
    for (uint32_t b = 0; b < (blocks->n ? blocks->own : 1); b++) {
        pst_part at = blocks->n ? pst_block_of(blocks, v, b) : (pst_part){0, v};
        for (uint64_t r = 0; r < rows; r++, out += 3) {
            const float *logits = (const float *)call->arg[0] + r * v + at.first;
            uint64_t hit = (uint64_t)target[r] - call->node->attr.first - at.first;
            double max = -INFINITY, sum = 0, all = 0;
            for (uint64_t j = 0; j < at.count; j++) max = fmax(max, logits[j]);
            for (uint64_t j = 0; j < at.count; j++) sum += exp(logits[j] - max);
            for (uint64_t j = 0; j < at.count; j++) all += logits[j];
            out[0] = (float)max;
            out[1] = (float)sum;
            out[2] = (float)((hit < at.count ? terms.target * logits[hit] : 0) + terms.each * all);
        }
    }
    return PST_OK;
}

/* F: IN1 IN2 OUT0 SAVED0. IN2 holds [rows,3] of each rank in turn; added in that order. */
pst_status pst_ref_vocabulary_loss_f(pst_device *device, const pst_call *call) {
    (void)device;
    uint64_t rows = pst_tensor_count(pst_call_in(call, 1)),
             parts = pst_tensor_last(pst_call_in(call, 2)) / 3;
    const int32_t *target = call->arg[0];
    const float *part = call->arg[1];
    float *loss = call->arg[2], *lse = call->arg[3];
    const pst_loss_terms terms = pst_loss_terms_of(call);
    for (uint64_t r = 0; r < rows; r++) {
        double max = -INFINITY, sum = 0, hit = 0;
        for (uint64_t p = 0; p < parts; p++) max = fmax(max, part[(p * rows + r) * 3]);
        for (uint64_t p = 0; p < parts; p++) {
            const float *x = part + (p * rows + r) * 3;
            sum += x[1] * exp(x[0] - max);
            hit += x[2];
        }
        double log_sum = max + log(sum);
        lse[r] = (float)log_sum;
        loss[r] = target[r] < 0 ? 0.0f : (float)(log_sum - hit + terms.z * log_sum * log_sum);
    }
    return PST_OK;
}
