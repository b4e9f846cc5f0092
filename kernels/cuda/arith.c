/* Arithmetic of the flush on a GPU (optimizer, norms, sums): a few launches, with lists of arrays
 * as kernel parameters. Same bits as on the CPU. */
#include "kernels/cuda/own.h"
#include <math.h>

enum { BLOCK = 4096 /* elements of one block in a sum of squares */ };

static pst_cuda_rule rule_of(pst_optim_kind kind, const pst_optim_hyper *h) {
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
                           .narrow_state = h->state == PST_BF16,
                           .noise = h->noise};
}

static pst_status update(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n) {
    pst_cuda_update_list out = {.rule = rule_of(kind, h)};
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        if (p->n) {
            out.entry[out.n++] = (pst_cuda_update_entry){
                p->weight, p->grad,  {p->state[0], p->state[1]}, p->narrow, p->n,
                p->decay,  out.tiles};
            out.tiles += (uint32_t)((p->n + PST_CUDA_TILE - 1) / PST_CUDA_TILE);
        }
        if (!out.n || (out.n < PST_CUDA_LIST && i + 1 < n)) continue;
        pst_cuda_update(pst_cuda_queue_of(device), type, &out);
        PST_TRY(pst_cuda_launched("optimizer"));
        out.n = out.tiles = 0;
    }
    return PST_OK;
}

static pst_status flush_squares(pst_device *device, pst_cuda_square_list *list) {
    pst_cuda_sum_squares(pst_cuda_queue_of(device), list);
    list->n = list->blocks = 0;
    return pst_cuda_launched("sum of squares");
}

/* An array that does not fit in the list is continued in the next one. */
static pst_status sum_squares(pst_device *device, const float *const *x, const uint64_t *n,
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

static pst_status accumulate(pst_device *device, float *y, const float *x, uint64_t n) {
    pst_cuda_add(pst_cuda_queue_of(device), PST_F32, y, x, y, n);
    return pst_cuda_launched("sum of gradients");
}

static pst_status narrow(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n) {
    pst_cuda_narrow(pst_cuda_queue_of(device), type, x, y, n);
    return pst_cuda_launched("rounding weights");
}

static pst_status average(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        if (!p->n) continue;
        pst_cuda_average(pst_cuda_queue_of(device), type, rate, scale, p->weight, p->grad,
                         p->narrow, p->n);
        PST_TRY(pst_cuda_launched("running statistics"));
    }
    return PST_OK;
}

static pst_status combine(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n) {
    _Static_assert((int)PST_CUDA_ADDENDS == (int)PST_ARITH_ADDENDS,
                   "the lists must have the same size");
    pst_cuda_addends list = {.n = n_x};
    for (uint32_t k = 0; k < n_x; k++) list.x[k] = x[k];
    pst_cuda_combine(pst_cuda_queue_of(device), type, &list, out, n);
    return pst_cuda_launched("sum over tensor ranks");
}

const pst_arith pst_cuda_arith = {.update = update,
                                  .sum_squares = sum_squares,
                                  .accumulate = accumulate,
                                  .narrow = narrow,
                                  .average = average,
                                  .combine = combine};
