/* Vector dropout, residual add and gradient sum. */

typedef struct {
    /* first: element of a sample */
    uint64_t count, samples, per_sample, tiles_per_sample, key, sample, first;
    float rate;
    const vx *a, *b;
    vx *out;
} flat_job;

/* Philox4x32-10 (base/rng.c) for VEC_W counters; word[w] lane l is word w of the counter in lane
 * l. */
VEC_INLINE void philox(const vi counter[4], uint64_t key, vi word[4]) {
    vi c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    vi m0 = vi_set(0xD2511F53u), m1 = vi_set(0xCD9E8D57u);
    VEC_UNROLL
    for (int round = 0; round < 10; round++) {
        vi high0, low0, high1, low1;
        vi_mul(c0, m0, &high0, &low0);
        vi_mul(c2, m1, &high1, &low1);
        c0 = vi_xor(vi_xor(high1, c1), vi_set(k0));
        c1 = low1;
        c2 = vi_xor(vi_xor(high0, c3), vi_set(k1));
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* Lane 4g+r of the counters holds number r*W/4 + g, so that the transpose inside 128-bit groups
 * alone puts the words of counter after counter in order: out[r] covers elements [r*W, (r+1)*W). */
VEC_INLINE void draw(const flat_job *j, uint64_t sample, uint64_t first_counter, vf uniform[4]) {
    uint32_t counter[VEC_W];
    for (uint32_t lane = 0; lane < VEC_W; lane++)
        counter[lane] = (uint32_t)first_counter + lane % 4 * (VEC_W / 4) + lane / 4;
    const vi counters[4] = {vi_load(counter), vi_set((uint32_t)(first_counter >> 32)),
                            vi_set((uint32_t)sample), vi_set((uint32_t)(sample >> 32))};
    vi w[4];
    philox(counters, j->key, w);
    vi a = vi_low32(w[0], w[1]), b = vi_low32(w[2], w[3]), c = vi_high32(w[0], w[1]),
       d = vi_high32(w[2], w[3]);
    uniform[0] = vi_uniform(vi_low64(a, b));
    uniform[1] = vi_uniform(vi_high64(a, b));
    uniform[2] = vi_uniform(vi_low64(c, d));
    uniform[3] = vi_uniform(vi_high64(c, d));
}

static void dropout_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const flat_job *j = arg;
    uint64_t s = tile / j->tiles_per_sample, from = tile % j->tiles_per_sample * PST_FLAT_TILE;
    uint64_t count = pst_min_u64(PST_FLAT_TILE, j->per_sample - from);
    const vx *in = j->a + s * j->per_sample + from;
    vx *out = j->out + s * j->per_sample + from;
    vf rate = v_set(j->rate), scale = v_set(1.0f / (1.0f - j->rate)), zero = v_set(0.0f),
       uniform[4];
    for (uint64_t at = 0; at < count; at += 4 * VEC_W) {
        draw(j, j->sample + s, (j->first + from + at) / 4, uniform);
        for (uint64_t r = 0; r < 4 && at + r * VEC_W < count; r++) {
            uint64_t i = at + r * VEC_W;
            unsigned n = (unsigned)pst_min_u64(VEC_W, count - i);
            x_store_n(out + i, v_if_ge(uniform[r], rate, x_load_n(in + i, n) * scale, zero), n);
        }
    }
}

/* F: IN0 OUT0, B: DOUT0 DIN0 */
static pst_status dropout(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    flat_job j = {.count = pst_tensor_count(in),
                  .samples = in->dim[0],
                  .rate = call->node->attr.rate,
                  .sample = call->sample,
                  .first = call->node->attr.first,
                  .a = call->arg[0],
                  .out = call->arg[1]};
    if (!call->train || !(j.rate > 0)) {
        if (j.out != j.a) memmove(j.out, j.a, j.count * sizeof *j.out);
        return PST_OK;
    }
    j.key = pst_rng_key(call->seed, call->node->name);
    j.per_sample = j.count / j.samples;
    j.tiles_per_sample = pst_div_up(j.per_sample, PST_FLAT_TILE);
    pst_device_run(device, dropout_tile, &j, j.samples * j.tiles_per_sample);
    return PST_OK;
}

static void add_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const flat_job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, count = pst_min_u64(PST_FLAT_TILE, j->count - from);
    VEC_EACH(i, n, count, {
        x_store_n(j->out + from + i, x_load_n(j->a + from + i, n) + x_load_n(j->b + from + i, n),
                  n);
    });
}

/* IN0 IN1 OUT0, or two gradients of input 0 and their sum */
static pst_status add(pst_device *device, const pst_call *call) {
    flat_job j = {.count = pst_tensor_count(pst_call_in(call, 0)),
                  .a = call->arg[0],
                  .b = call->arg[1],
                  .out = call->arg[2]};
    pst_device_run(device, add_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}
