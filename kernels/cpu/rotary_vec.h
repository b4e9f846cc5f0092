/* Vector rotary positions: the sines and cosines of a position are computed once for all heads. */

enum { ROTARY_ROWS = 16 }; /* rows per tile */

typedef struct {
    uint64_t rows, t, heads, d;
    const int32_t *starts, *past; /* NULL: 0 for all */
    const vx *x;
    vx *y;
    float cosine, sine; /* factors; sine < 0 turns back */
    float angle[PST_ROPE_PAIRS];
} rotary_job;

/* Sine and cosine of a >= 0, with an error of about 1 ulp up to a = 1e5 (Cody & Waite's reduction,
 * N. Juffa's polynomials). */
VEC_INLINE void v_sincos(vf a, vf *sine, vf *cosine) {
    vf turns = v_round(a * v_set(0x1.45f306p-1f)); /* quarters */
    vf r = v_fnma(turns, v_set(0x1.921fb0p+0f), a);
    r = v_fnma(turns, v_set(0x1.5110b4p-22f), r);
    r = v_fnma(turns, v_set(0x1.846988p-48f), r);
    vf s = r * r;
    vf p = v_fma(v_set(0x1.80a000p-19f), s, v_set(-0x1.a0176cp-13f));
    p = v_fma(p, s, v_set(0x1.11108ep-7f));
    p = v_fma(p, s, v_set(-0x1.555556p-3f));
    p = v_fma(p, r * s, r);
    vf q = v_fma(v_set(0x1.9a8000p-16f), s, v_set(-0x1.6c0efap-10f));
    q = v_fma(q, s, v_set(0x1.555550p-5f));
    q = v_fma(q, s, v_set(-0x1.000000p-1f));
    q = v_fma(q, s, v_set(1.0f));
    /* quarter 0: (p, q), 1: (q, -p), 2: (-p, -q), 3: (-q, p) */
    vf fours = turns - v_set(4.0f) * v_round(turns * v_set(0.25f)); /* -2 to 2 */
    vf even = v_abs(v_abs(fours) - v_set(1.0f));                    /* 1: even, 0: odd */
    vf zero = v_set(0.0f), half = v_set(0.5f);
    vf a_sine = v_if_ge(even, half, p, q), a_cosine = v_if_ge(even, half, q, p);
    vf far = v_if_gt(v_abs(fours), v_set(1.5f), v_set(-1.0f), v_set(1.0f));
    vf turned = v_if_gt(zero - fours, half, v_set(-1.0f), v_set(1.0f));
    *sine = a_sine * v_if_ge(even, half, far, turned);
    *cosine = a_cosine * v_if_ge(even, half, far, zero - turned);
}

static void rotary_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const rotary_job *j = arg;
    const uint64_t end = pst_min_u64((tile + 1) * ROTARY_ROWS, j->rows), half = j->d / 2;
    float sine[PST_ROPE_PAIRS], cosine[PST_ROPE_PAIRS];
    for (uint64_t r = tile * ROTARY_ROWS; r < end; r++) {
        const vf position = v_set((float)pst_position_of(j->starts, j->past, r, j->t, UINT64_MAX));
        VEC_EACH(i, n, half, {
            vf s;
            vf c;
            v_sincos(position * v_load_n(j->angle + i, n), &s, &c);
            v_store_n(sine + i, s * v_set(j->sine), n);
            v_store_n(cosine + i, c * v_set(j->cosine), n);
        });
        for (uint64_t h = 0; h < j->heads; h++) {
            const vx *x = j->x + (r * j->heads + h) * j->d;
            vx *y = j->y + (r * j->heads + h) * j->d;
            VEC_EACH(i, n, half, {
                vf a = x_load_n(x + i, n);
                vf b = x_load_n(x + half + i, n);
                vf s = v_load_n(sine + i, n);
                vf c = v_load_n(cosine + i, n);
                x_store_n(y + i, v_fnma(b, s, a * c), n);
                x_store_n(y + half + i, v_fma(a, s, b * c), n);
            });
        }
    }
}

static pst_status rotary(pst_device *device, const pst_call *call, float direction) {
    const pst_tensor *in = pst_call_in(call, 0);
    rotary_job j = {.rows = pst_tensor_rows(in),
                    .t = in->dim[1],
                    .heads = call->node->attr.heads,
                    .starts = pst_call_starts(call),
                    .past = pst_call_past(call),
                    .x = call->arg[0],
                    .y = pst_call_behind(call)[0]};
    j.d = in->dim[2] / j.heads;
    j.cosine = pst_rope_angles(&call->node->attr.rope, j.d, j.angle);
    j.sine = direction * j.cosine;
    pst_device_run(device, rotary_tile, &j, pst_div_up(j.rows, ROTARY_ROWS));
    return PST_OK;
}

/* IN0 [IN1] OUT0 */
static pst_status rotary_f(pst_device *device, const pst_call *call) {
    return rotary(device, call, 1.0f);
}

/* DOUT0 [IN1] DIN0 */
static pst_status rotary_b(pst_device *device, const pst_call *call) {
    return rotary(device, call, -1.0f);
}
