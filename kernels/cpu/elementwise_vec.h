/* Vector dropout, scale, residual addition, conversion to 16 bits, and sum of gradients. */

typedef struct {
    /* first: index of the job's first element within the whole sample */
    uint64_t count, samples, per_sample, tiles_per_sample, key, sample, first;
    float rate; /* of dropout; scale: the factor */
    int wide;   /* 1: dropout's operands are fp32 */
    const void *a, *b;
    void *out;
} flat_job;

/* Returns 1 if the tensor is fp32 and the graph has a 16-bit dtype. */
VEC_INLINE int is_wide(const pst_call *call, uint32_t tensor) {
    return call->graph->tensor[tensor].dtype == PST_F32 && call->graph->dtype != PST_F32;
}

VEC_INLINE void drop(const flat_job *j, uint64_t tile, int wide) {
    uint64_t s = tile / j->tiles_per_sample, from = tile % j->tiles_per_sample * PST_FLAT_TILE;
    uint64_t count = pst_min_u64(PST_FLAT_TILE, j->per_sample - from);
    uint64_t first = s * j->per_sample + from;
    vf rate = v_set(j->rate), scale = v_set(1.0f / (1.0f - j->rate)), zero = v_set(0.0f),
       uniform[4];
    for (uint64_t at = 0; at < count; at += 4 * VEC_W) {
        draw(j->key, j->sample + s, (j->first + from + at) / 4, uniform);
        for (uint64_t r = 0; r < 4 && at + r * VEC_W < count; r++) {
            uint64_t i = at + r * VEC_W;
            unsigned n = (unsigned)pst_min_u64(VEC_W, count - i);
            vf x = s_load_n(j->a, first + i, n, wide) * scale;
            s_store_n(j->out, first + i, v_if_ge(uniform[r], rate, x, zero), n, wide);
        }
    }
}

static void dropout_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const flat_job *j = arg;
    VEC_FORM(drop, j->wide, j, tile);
}

/* F: IN0 OUT0, B: DOUT0 DIN0 */
static pst_status dropout(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    flat_job j = {.count = pst_tensor_count(in),
                  .samples = in->dim[0],
                  .rate = call->node->attr.rate,
                  .sample = call->sample,
                  .first = call->node->attr.first,
                  .wide = is_wide(call, call->node->in[0]),
                  .a = call->arg[0],
                  .out = call->arg[1]};
    if (!call->train || !(j.rate > 0)) {
        if (j.out != j.a) memmove(j.out, j.a, j.count * pst_dtype_bytes(in->dtype));
        return PST_OK;
    }
    j.key = pst_rng_key(call->seed, call->node->name);
    j.per_sample = j.count / j.samples;
    j.tiles_per_sample = pst_div_up(j.per_sample, PST_FLAT_TILE);
    pst_device_run(device, dropout_tile, &j, j.samples * j.tiles_per_sample);
    return PST_OK;
}

static void scale_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const flat_job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, count = pst_min_u64(PST_FLAT_TILE, j->count - from);
    const vx *a = (const vx *)j->a + from;
    vx *out = (vx *)j->out + from;
    VEC_EACH(i, n, count, { x_store_n(out + i, x_load_n(a + i, n) * v_set(j->rate), n); });
}

/* F: IN0 OUT0, B: DOUT0 DIN0 */
static pst_status scale(pst_device *device, const pst_call *call) {
    flat_job j = {.count = pst_tensor_count(pst_call_in(call, 0)),
                  .rate = call->node->attr.factor,
                  .a = call->arg[0],
                  .out = call->arg[1]};
    pst_device_run(device, scale_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}

/* out = a + b, b may be NULL. */
VEC_INLINE void add_range(const flat_job *j, uint64_t tile, int a, int b, int out) {
    uint64_t from = tile * PST_FLAT_TILE, count = pst_min_u64(PST_FLAT_TILE, j->count - from);
    VEC_EACH(i, n, count, {
        vf v = s_load_n(j->a, from + i, n, a);
        if (j->b) v = v + s_load_n(j->b, from + i, n, b);
        s_store_n(j->out, from + i, v, n, out);
    });
}

static void add_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    add_range(arg, tile, 0, 0, 0);
}

/* With an fp32 residual stream: sums of two gradients, addition of a 16-bit branch, input of a
 * branch. */
#ifdef VEC_HALF
enum { STREAM = 1 };
#else
enum { STREAM = 0 };
#endif
static void add_wide_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    add_range(arg, tile, STREAM, STREAM, STREAM);
}

static void add_widen_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    add_range(arg, tile, 0, STREAM, STREAM);
}

static void add_narrow_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    add_range(arg, tile, STREAM, 0, 0);
}

static pst_status add_up(pst_device *device, const pst_call *call, pst_tile_fn tile, flat_job j) {
    j.count = pst_tensor_count(pst_call_in(call, 0));
    pst_device_run(device, tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}

/* a, b, out: two gradients of input 0 and their sum */
static pst_status add_same(pst_device *device, const pst_call *call) {
    void *const *arg = call->arg;
    return add_up(device, call, is_wide(call, call->node->in[0]) ? add_wide_tile : add_tile,
                  (flat_job){.a = arg[0], .b = arg[1], .out = arg[2]});
}

/* IN0 IN1 OUT0 */
static pst_status add_f(pst_device *device, const pst_call *call) {
    void *const *arg = call->arg;
    if (!call->node->attr.narrows) return add_same(device, call);
    return add_up(device, call, add_widen_tile,
                  (flat_job){.a = arg[1], .b = arg[0], .out = arg[2]});
}

/* DOUT0 SUM1 DIN1, where input 1 is narrow */
static pst_status add_b(pst_device *device, const pst_call *call) {
    void *const *arg = call->arg;
    return add_up(device, call, add_narrow_tile,
                  (flat_job){.a = arg[0], .b = arg[1], .out = arg[2]});
}

/* IN0 OUT0 */
static pst_status narrow_f(pst_device *device, const pst_call *call) {
    return add_up(device, call, add_narrow_tile,
                  (flat_job){.a = call->arg[0], .out = call->arg[1]});
}

/* DOUT0 SUM0 DIN0 */
static pst_status narrow_b(pst_device *device, const pst_call *call) {
    void *const *arg = call->arg;
    return add_up(device, call, add_widen_tile,
                  (flat_job){.a = arg[0], .b = arg[1], .out = arg[2]});
}
