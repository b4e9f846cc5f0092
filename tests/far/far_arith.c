/* Arithmetic of the device of far_module.c: the CPU's, queued. */
#include "far/far_parts.h"
#include "base/arena.h"
#include "kernels/cpu/cpu.h"
#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *list, size_t bytes) {
    void *copied = malloc(bytes + 1);
    if (!copied) abort();
    return memcpy(copied, list, bytes);
}

static pst_status run_update(far *d, job *j) {
    return pst_arith_cpu.update(d->cpu, j->kind, &j->hyper, (pst_dtype)j->value, j->param,
                                (uint32_t)j->bytes);
}

static pst_status queue_params(far *d, job *j, const pst_optim_hyper *h, pst_dtype type,
                               const pst_arith_param *list, uint32_t n) {
    j->hyper = *h;
    j->value = (int)type;
    j->bytes = n;
    j->param = copy_of(list, n * sizeof *list);
    for (pst_arith_param *p = j->param; p < j->param + n; p++) {
        p->weight = far_real(d, p->weight);
        p->grad = far_real(d, p->grad);
        p->narrow = far_real(d, p->narrow);
        p->state[0] = far_real(d, p->state[0]);
        p->state[1] = far_real(d, p->state[1]);
    }
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status update(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n) {
    job *j = far_job(run_update);
    j->kind = kind;
    return queue_params((far *)device, j, h, type, list, n);
}

static pst_status run_average(far *d, job *j) {
    return pst_arith_cpu.average(d->cpu, j->hyper.lr, j->hyper.grad_scale, (pst_dtype)j->value,
                                 j->param, (uint32_t)j->bytes);
}

static pst_status average(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n) {
    pst_optim_hyper h = {.lr = rate, .grad_scale = scale};
    return queue_params((far *)device, far_job(run_average), &h, type, list, n);
}

static pst_status run_squares(far *d, job *j) {
    return pst_arith_cpu.sum_squares(d->cpu, j->x, j->n, (uint32_t)j->bytes, j->to);
}

static pst_status sum_squares(pst_device *device, const float *const *x, const uint64_t *n,
                              uint32_t count, double *out) {
    far *d = (far *)device;
    job *j = far_job(run_squares);
    j->x = copy_of(x, count * sizeof *x);
    j->n = copy_of(n, count * sizeof *n);
    j->bytes = count;
    j->to = far_real(d, out);
    for (uint32_t i = 0; i < count; i++) j->x[i] = far_real(d, x[i]);
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_accumulate(far *d, job *j) {
    return pst_arith_cpu.accumulate(d->cpu, j->to, j->from, j->bytes);
}

static pst_status accumulate(pst_device *device, float *y, const float *x, uint64_t n) {
    far *d = (far *)device;
    job *j = far_job(run_accumulate);
    j->to = far_real(d, y);
    j->from = far_real(d, x);
    j->bytes = n;
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_combine(far *d, job *j) {
    return pst_arith_cpu.combine(d->cpu, (pst_dtype)j->value, (const void *const *)j->x, j->n_x,
                                 j->to, j->bytes);
}

static pst_status combine(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n) {
    far *d = (far *)device;
    job *j = far_job(run_combine);
    j->x = copy_of(x, n_x * sizeof *x);
    j->n_x = n_x;
    j->to = far_real(d, out);
    j->value = (int)type;
    j->bytes = n;
    for (uint32_t i = 0; i < n_x; i++) j->x[i] = far_real(d, x[i]);
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_narrow(far *d, job *j) {
    return pst_arith_cpu.narrow(d->cpu, (pst_dtype)j->value, j->from, j->to, j->bytes);
}

static pst_status narrow(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n) {
    far *d = (far *)device;
    job *j = far_job(run_narrow);
    j->to = far_real(d, y);
    j->from = far_real(d, x);
    j->value = (int)type;
    j->bytes = n;
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_scale(far *d, job *j) {
    return pst_arith_cpu.scale(d->cpu, j->hyper.lr, j->from, j->to, j->bytes);
}

static pst_status scale(pst_device *device, float by, const float *from, float *to, uint64_t n) {
    far *d = (far *)device;
    job *j = far_job(run_scale);
    j->hyper.lr = by;
    j->to = far_real(d, to);
    j->from = far_real(d, from);
    j->bytes = n;
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_pack(far *d, job *j) { return pst_arith_cpu.pack(d->cpu, &j->packs); }

static pst_status pack(pst_device *device, const pst_flat_pack *of) {
    far *d = (far *)device;
    job *j = far_job(run_pack);
    if (of->moments) return pst_fail(PST_EINTERNAL, "far: a codec of CPUs");
    j->packs = *of;
    j->packs.x = far_real(d, of->x);
    j->packs.error = far_real(d, of->error);
    j->packs.packed = far_real(d, of->packed);
    j->packs.next = far_real(d, of->next);
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_unpack(far *d, job *j) {
    return pst_arith_cpu.unpack(d->cpu, j->packs.codec, j->from, j->to, j->bytes, j->value);
}

static pst_status unpack(pst_device *device, pst_codec codec, const uint8_t *packed, float *y,
                         uint64_t n, int add) {
    far *d = (far *)device;
    job *j = far_job(run_unpack);
    j->packs.codec = codec;
    j->from = far_real(d, packed);
    j->to = far_real(d, y);
    j->bytes = n;
    j->value = add;
    far_put(d, d->now, j);
    return PST_OK;
}

/* --- parameters that are updated as a whole --------------------------------------------------- */

static pst_status run_lamb_squares(far *d, job *j) {
    return pst_arith_cpu.lamb_squares(d->cpu, &j->hyper, j->param, j->to);
}

static pst_status lamb_squares(pst_device *device, const pst_optim_hyper *h,
                               const pst_arith_param *p, pst_squares *out) {
    job *j = far_job(run_lamb_squares);
    j->to = far_real((far *)device, out);
    return queue_params((far *)device, j, h, PST_F32, p, 1);
}

static pst_status run_direction(far *d, job *j) {
    return pst_arith_cpu.muon_direction(d->cpu, &j->hyper, j->param, j->to);
}

static pst_status muon_direction(pst_device *device, const pst_optim_hyper *h,
                                 const pst_arith_param *p, float *x) {
    job *j = far_job(run_direction);
    j->to = far_real((far *)device, x);
    return queue_params((far *)device, j, h, PST_F32, p, 1);
}

static uint64_t muon_scratch(const pst_muon_rule *rule, uint32_t threads) {
    return pst_arith_cpu.muon_scratch(rule, threads);
}

static pst_status run_orthogonalize(far *d, job *j) {
    const pst_muon_rule rule = {.shape = {j->bytes, j->n_x}};
    float *x;
    PST_TRY(pst_arith_cpu.muon_orthogonalize(d->cpu, &rule, j->to, &x));
    return x == j->from ? PST_OK : pst_fail(PST_EINTERNAL, "far: the matrix is elsewhere");
}

/* An odd number of steps leaves the result in the second matrix of the scratch memory. */
static pst_status muon_orthogonalize(pst_device *device, const pst_muon_rule *rule, void *scratch,
                                     float **x) {
    far *d = (far *)device;
    job *j = far_job(run_orthogonalize);
    const uint64_t n = rule->shape.rows * rule->shape.cols;
    *x = (float *)(void *)((uint8_t *)scratch + pst_align(n * sizeof(float)));
    j->to = far_real(d, scratch);
    j->from = far_real(d, *x);
    j->bytes = rule->shape.rows;
    j->n_x = (uint32_t)rule->shape.cols;
    far_put(d, d->now, j);
    return PST_OK;
}

static pst_status run_apply(far *d, job *j) {
    const pst_muon_rule rule = {
        .h = &j->hyper, .shape = {j->n_x, j->n_x}, .type = (pst_dtype)j->value};
    return pst_arith_cpu.muon_apply(d->cpu, &rule, j->param, j->from);
}

/* Of the shape, only the larger size matters. */
static pst_status muon_apply(pst_device *device, const pst_muon_rule *rule,
                             const pst_arith_param *p, const float *x) {
    job *j = far_job(run_apply);
    const pst_matrix_shape *of = &rule->shape;
    j->n_x = (uint32_t)(of->rows > of->cols ? of->rows : of->cols);
    j->from = far_real((far *)device, x);
    return queue_params((far *)device, j, rule->h, rule->type, p, 1);
}

const pst_arith far_arith = {.update = update,
                             .sum_squares = sum_squares,
                             .accumulate = accumulate,
                             .narrow = narrow,
                             .average = average,
                             .combine = combine,
                             .scale = scale,
                             .pack = pack,
                             .unpack = unpack,
                             .lamb_squares = lamb_squares,
                             .muon_scratch = muon_scratch,
                             .muon_direction = muon_direction,
                             .muon_orthogonalize = muon_orthogonalize,
                             .muon_apply = muon_apply};
