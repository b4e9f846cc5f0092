/* What arith.c and whole.c share: the constants of a rule, and sums of squares of many arrays. */
#include "kernels/cuda/own.h"
#include <math.h>

enum { BLOCK = 4096 /* elements of one block in a sum of squares */ };

pst_cuda_rule pst_cuda_rule_of(pst_optim_kind kind, const pst_optim_hyper *h) {
    return (pst_cuda_rule){.kind = (int)kind,
                           .begins = h->t <= 1,
                           .nesterov = h->nesterov,
                           .lr = h->lr,
                           .beta1 = h->beta1,
                           .beta2 = h->beta2,
                           .eps = h->eps,
                           .momentum = h->momentum,
                           .grad_scale = h->grad_scale,
                           .step = kind != PST_OPTIM_SGD ? h->lr / h->correction1 : 0,
                           .root2 = kind != PST_OPTIM_SGD ? sqrtf(h->correction2) : 0,
                           .rest1 = 1.0f - h->beta1,
                           .rest2 = 1.0f - h->beta2,
                           .correction1 = h->correction1,
                           .correction2 = h->correction2,
                           .narrow_state = h->state == PST_BF16,
                           .noise = h->noise};
}

static pst_status flush_squares(pst_device *device, pst_cuda_square_list *list) {
    pst_cuda_sum_squares(pst_cuda_queue_of(device), list);
    list->n = list->blocks = 0;
    return pst_cuda_launched("sum of squares");
}

/* An array that does not fit in the list is continued in the next one. */
pst_status pst_cuda_sums_of_squares(pst_device *device, const float *const *x, const uint64_t *n,
                                    uint32_t count, double *out) {
    uint32_t room;
    pst_cuda_square_list list = {.sums = pst_cuda_sums_of(device, &room)};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t done = 0;
        do {
            uint64_t most = (uint64_t)(room - list.blocks) * BLOCK,
                     now = n[i] - done < most ? n[i] - done : most;
            list.entry[list.n++] =
                (pst_cuda_square_entry){x[i] + done, now, out + i, list.blocks, done > 0};
            list.blocks += (uint32_t)((now + BLOCK - 1) / BLOCK);
            done += now;
            if (list.n == PST_CUDA_LIST || list.blocks == room)
                PST_TRY(flush_squares(device, &list));
        } while (done < n[i]);
    }
    return list.n ? flush_squares(device, &list) : PST_OK;
}
