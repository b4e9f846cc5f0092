/* Vector gated product: silu(gate) * up. */

typedef struct {
    uint64_t count;
    const vx *gate, *up, *dout;
    vx *out, *dgate, *dup;
} gated_job;

VEC_INLINE vf v_sigmoid(vf x) { return v_set(1.0f) / (v_set(1.0f) + v_exp(v_set(0.0f) - x)); }

static void gated_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const gated_job *j = arg;
    const uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->count - from), {
        vf g = x_load_n(j->gate + from + i, n);
        x_store_n(j->out + from + i, g * v_sigmoid(g) * x_load_n(j->up + from + i, n), n);
    });
}

static void gated_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const gated_job *j = arg;
    const uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->count - from), {
        vf g = x_load_n(j->gate + from + i, n);
        vf u = x_load_n(j->up + from + i, n);
        vf d = x_load_n(j->dout + from + i, n);
        vf s = v_sigmoid(g);
        x_store_n(j->dgate + from + i, d * u * s * v_fma(g, v_set(1.0f) - s, v_set(1.0f)), n);
        x_store_n(j->dup + from + i, d * g * s, n);
    });
}

/* IN0 IN1 OUT0 */
static pst_status gated_f(pst_device *device, const pst_call *call) {
    gated_job j = {.count = pst_tensor_count(pst_call_in(call, 0)),
                   .gate = call->arg[0],
                   .up = call->arg[1],
                   .out = call->arg[2]};
    pst_device_run(device, gated_f_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}

/* IN0 IN1 DOUT0 DIN0 DIN1 */
static pst_status gated_b(pst_device *device, const pst_call *call) {
    gated_job j = {.count = pst_tensor_count(pst_call_in(call, 0)),
                   .gate = call->arg[0],
                   .up = call->arg[1],
                   .dout = call->arg[2],
                   .dgate = call->arg[3],
                   .dup = call->arg[4]};
    pst_device_run(device, gated_b_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}
