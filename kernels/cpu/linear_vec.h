/* Element-wise part of linear: bias, activation, its derivative, and sums over rows. */

/* sigmoid(2u), u = sqrt(2/pi) (z + 0.044715 z^3): GELU(z) = z * sigmoid(2u) in its tanh form. */
VEC_INLINE vf gelu_gate(vf z) {
    vf u = v_fma(z * z, v_set(0.044715f), v_set(1.0f)) * z;
    return v_set(1.0f) / (v_set(1.0f) + v_exp(u * v_set(-1.5957691216057308f)));
}

/* (1 - e) / (1 + e) with e = exp(-2 |z|); near 0, where 1 - e would cancel, the first terms of the
 * series. */
VEC_INLINE vf tanh_of(vf z) {
    vf size = v_abs(z), e = v_exp(size * v_set(-2.0f)), square = z * z;
    vf far = v_sign_of((v_set(1.0f) - e) / (v_set(1.0f) + e), z);
    vf series = v_fma(square, v_set(-0.0539682540f), v_set(0.1333333333f));
    series = v_fma(square, v_fma(square, series, v_set(-0.3333333333f)), v_set(1.0f));
    return v_if_gt(size, v_set(0.2f), far, z * series);
}

VEC_INLINE vf act_of(pst_activation act, vf z) {
    if (act == PST_ACT_GELU_TANH) return z * gelu_gate(z);
    if (act == PST_ACT_GELU_ERF)
        return v_set(0.5f) * z * (v_set(1.0f) + v_erf(z * v_set(0.70710678118654752f)));
    if (act == PST_ACT_RELU) return v_max(v_set(0.0f), z);
    if (act == PST_ACT_TANH) return tanh_of(z);
    return z;
}

VEC_INLINE vf slope_of(pst_activation act, vf z) {
    if (act == PST_ACT_GELU_TANH) {
        vf gate = gelu_gate(z),
           du = v_fma(z * z, v_set(0.134145f), v_set(1.0f)) * v_set(1.5957691216057308f);
        return v_fma(z * gate * (v_set(1.0f) - gate), du, gate);
    }
    if (act == PST_ACT_GELU_ERF) {
        vf half = v_set(0.5f), bell = v_exp(z * z * v_set(-0.5f)) * v_set(0.39894228040143268f);
        return v_fma(z, bell, v_fma(half, v_erf(z * v_set(0.70710678118654752f)), half));
    }
    if (act == PST_ACT_TANH) {
        vf t = tanh_of(z);
        return v_fnma(t, t, v_set(1.0f));
    }
    return v_if_gt(z, v_set(0.0f), v_set(1.0f), v_set(0.0f));
}

VEC_INLINE void finish_act(pst_activation act, const pst_linear_tile *t) {
    const vx *bias = t->bias;
    for (uint64_t r = 0; r < t->rows; r++) {
        const float *from = t->sum + r * t->sum_ld;
        vx *z = t->z ? (vx *)t->z + r * t->ld : NULL, *y = (vx *)t->y + r * t->ld;
        VEC_EACH(i, n, t->cols, {
            vf v = v_load_n(from + i, n);
            if (bias) v = v + x_load_n(bias + i, n);
            if (z) {
                v = x_round(v); /* same bits as `activation` */
                x_store_n(z + i, v, n);
            }
            x_store_n(y + i, act_of(act, v), n);
        });
    }
}

static void linear_finish(pst_activation act, const pst_linear_tile *tile) {
    switch (act) { /* a constant in each call, so that the compiler specializes each loop */
    case PST_ACT_GELU_TANH: finish_act(PST_ACT_GELU_TANH, tile); break;
    case PST_ACT_GELU_ERF: finish_act(PST_ACT_GELU_ERF, tile); break;
    case PST_ACT_RELU: finish_act(PST_ACT_RELU, tile); break;
    case PST_ACT_TANH: finish_act(PST_ACT_TANH, tile); break;
    default: finish_act(PST_ACT_NONE, tile); break;
    }
}

VEC_INLINE void apply_act(pst_activation act, const vx *z, vx *y, uint64_t count) {
    VEC_EACH(i, n, count, { x_store_n(y + i, act_of(act, x_load_n(z + i, n)), n); });
}

static void linear_apply(pst_activation act, const void *z, void *y, uint64_t n) {
    switch (act) {
    case PST_ACT_GELU_TANH: apply_act(PST_ACT_GELU_TANH, z, y, n); break;
    case PST_ACT_GELU_ERF: apply_act(PST_ACT_GELU_ERF, z, y, n); break;
    case PST_ACT_TANH: apply_act(PST_ACT_TANH, z, y, n); break;
    default: apply_act(PST_ACT_RELU, z, y, n); break;
    }
}

VEC_INLINE void slope_act(pst_activation act, const vx *z, const vx *dy, vx *dz, uint64_t count) {
    VEC_EACH(i, n, count,
             { x_store_n(dz + i, x_load_n(dy + i, n) * slope_of(act, x_load_n(z + i, n)), n); });
}

static void linear_slope(pst_activation act, const void *z, const void *dy, void *dz, uint64_t n) {
    switch (act) {
    case PST_ACT_GELU_TANH: slope_act(PST_ACT_GELU_TANH, z, dy, dz, n); break;
    case PST_ACT_GELU_ERF: slope_act(PST_ACT_GELU_ERF, z, dy, dz, n); break;
    case PST_ACT_TANH: slope_act(PST_ACT_TANH, z, dy, dz, n); break;
    default: slope_act(PST_ACT_RELU, z, dy, dz, n); break;
    }
}

static void linear_add_bias(float *sum, uint64_t ld, uint64_t rows, uint64_t cols,
                            const void *bias) {
    const vx *from = bias;
    for (uint64_t r = 0; r < rows; r++, sum += ld)
        VEC_EACH(i, n, cols,
                 { v_store_n(sum + i, v_load_n(sum + i, n) + x_load_n(from + i, n), n); });
}

/* cols <= PST_SUM_COLS. */
static void column_sum(const void *from_x, uint64_t rows, uint64_t cols, uint64_t ld, float *out,
                       int first) {
    const vx *x = from_x;
    float total[PST_SUM_COLS] = {0};
    for (uint64_t from = 0; from < rows; from += PST_SUM_ROWS) {
        uint64_t block = pst_min_u64(PST_SUM_ROWS, rows - from);
        const vx *at = x + from * ld;
        VEC_EACH(i, n, cols, {
            vf sum = v_set(0.0f);
            for (uint64_t r = 0; r < block; r++) sum = sum + x_load_n(at + r * ld + i, n);
            v_store_n(total + i, v_load_n(total + i, n) + sum, n);
        });
    }
    VEC_EACH(i, n, cols, {
        vf sum = v_load_n(total + i, n);
        if (!first) sum = v_load_n(out + i, n) + sum;
        v_store_n(out + i, sum, n);
    });
}

#ifndef VEC_HALF
/* FEW_SUMS: rows of x that are multiplied at a time. FEW_AHEAD: floats by which the weight is
 * fetched ahead (Cascade Lake: within 2 % of the memory's bandwidth; reading several of its rows at
 * a time is 5 % slower). */
enum { FEW_SUMS = VEC_W == 16 ? 8 : 4, FEW_AHEAD = 768 };

/* One output of `rows` rows; a constant after inlining. Each sum is a chain. */
VEC_INLINE void few_sums(unsigned rows, const pst_few_rows *of, uint64_t row, uint64_t output) {
    const float *w = of->weight + output * of->k, *x = of->x + row * of->k;
    const uint64_t k = of->k, whole = k / VEC_W * VEC_W;
    const unsigned rest = (unsigned)(k - whole);
    vf sum[FEW_SUMS];
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) sum[r] = v_set(0.0f);
    for (uint64_t i = 0; i < whole; i += VEC_W) {
        vf part = v_load(w + i);
        __builtin_prefetch(w + i + FEW_AHEAD);
        VEC_UNROLL for (unsigned r = 0; r < rows; r++) sum[r] =
            v_fma(v_load(x + r * k + i), part, sum[r]);
    }
    for (unsigned r = 0; rest && r < rows; r++)
        sum[r] = v_fma(v_load_n(x + r * k + whole, rest), v_load_n(w + whole, rest), sum[r]);
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) of->y[(row + r) * of->ld + output] =
        (float)v_sum(sum[r]);
}

static void linear_few(const pst_few_rows *of) {
    for (uint64_t output = 0; output < of->n; output++) {
        uint64_t row = 0;
        for (; row + FEW_SUMS <= of->m; row += FEW_SUMS) few_sums(FEW_SUMS, of, row, output);
        for (; row < of->m; row++) few_sums(1, of, row, output);
    }
}
#else
#define linear_few NULL
#endif

static void flat_accumulate(pst_pool *pool, float *y, const float *x, uint64_t n); /* flat_vec.h */
#if defined(VEC_F16)
#define LINEAR_DTYPE PST_F16
#elif defined(VEC_BF16)
#define LINEAR_DTYPE PST_BF16
#else
#define LINEAR_DTYPE PST_F32
#endif
static const pst_linear_ops linear_ops = {
    LINEAR_DTYPE, linear_finish,   linear_apply, linear_slope, linear_add_bias,
    column_sum,   flat_accumulate, &product_ops, &direct_ops,  linear_few};

static pst_status linear_f(pst_device *device, const pst_call *call) {
    return pst_linear_forward(device, call, &linear_ops);
}

static pst_status linear_b(pst_device *device, const pst_call *call) {
    return pst_linear_backward(device, call, &linear_ops);
}

static pst_status linear_w(pst_device *device, const pst_call *call) {
    return pst_linear_weight(device, call, &linear_ops);
}

static pst_status activation(pst_device *device, const pst_call *call) {
    return pst_linear_activation(device, call, &linear_ops);
}

static pst_status activation_b(pst_device *device, const pst_call *call) {
    return pst_linear_slope(device, call, &linear_ops);
}
