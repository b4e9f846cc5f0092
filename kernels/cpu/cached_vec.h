/* Attention of a few positions to a cache of keys and values, for generation in fp32. A tile is
 * (sample, head of keys and values): it stores the new keys and values, then computes all heads of
 * queries that share them, CACHED_ROWS rows at a time. A row's bits depend neither on the other
 * rows nor on the number of positions of a run. */

enum { CACHED_ROWS = 32 };

typedef struct {
    pst_device *device;
    uint64_t b, t, heads, own, p, d, window;
    uint64_t first, group;  /* head h of queries uses head (first + h) / group of the keys */
    uint64_t step, kv_step; /* elements from one position to the next in q; in k and v */
    float scale;
    const float *q, *k, *v;
    const int32_t *past;
    float *cache, *out, *scratch; /* scratch: [threads][CACHED_ROWS][p] */
} cached_job;

/* Rows of queries: row i begins at q + i * step and its result at out + i * out_step; it is at
 * position first + i * next. */
typedef struct {
    uint64_t n, first, next, step, out_step;
    const float *q;
    float *out;
} cached_rows;

static void cached_store(const cached_job *j, uint64_t sample, uint64_t head, float *keys) {
    const uint64_t d = j->d, past = j->past[sample] < 0 ? 0 : (uint64_t)j->past[sample];
    for (uint64_t i = 0; i < j->t && past + i < j->p; i++) {
        const uint64_t at = past + i, from = (sample * j->t + i) * j->kv_step + head * d;
        float *key = keys + at / PST_CACHE_BLOCK * PST_CACHE_BLOCK * d + at % PST_CACHE_BLOCK;
        for (uint64_t c = 0; c < d; c++) key[c * PST_CACHE_BLOCK] = j->k[from + c];
        memcpy(keys + (j->p + at) * d, j->v + from, d * sizeof *keys);
    }
}

/* s[from..end) = exp(scale s - its largest); 0 elsewhere in [low, high). Returns 1 / the sum. */
static float cached_softmax(float *s, float scale, uint64_t low, uint64_t from, uint64_t end,
                            uint64_t high) {
    vf most = v_set(-__builtin_inff()), sum = v_set(0.0f), by = v_set(scale);
    memset(s + low, 0, (from - low) * sizeof *s);
    memset(s + end, 0, (high - end) * sizeof *s);
    VEC_EACH(i, n, end - from,
             { most = v_max(most, v_keep_n(v_load_n(s + from + i, n), -__builtin_inff(), n)); });
    most = v_set(v_max_of(most)) * by;
    VEC_EACH(i, n, end - from, {
        vf e = v_exp(v_load_n(s + from + i, n) * by - most);
        v_store_n(s + from + i, e, n);
        sum = sum + v_keep_n(e, 0.0f, n);
    });
    return 1.0f / (float)v_sum(sum);
}

static void cached_attend(const cached_job *j, const cached_rows *r, const float *keys,
                          float *scores) {
    const uint64_t d = j->d, last = r->first + (r->n - 1) * r->next,
                   high = pst_min_u64(last + 1, j->p), least = pst_min_u64(r->first + 1, j->p),
                   low = least > j->window ? (least - j->window) / ATT * ATT : 0;
    float factor[CACHED_ROWS];
    for (uint64_t k = low; k < high; k += ATT)
        small_product(r->n, ATT,
                      (factors){.depth = d,
                                .a = r->q,
                                .ai = r->step,
                                .ak = 1,
                                .b = keys + k * d,
                                .ldb = ATT,
                                .out = scores + k,
                                .ldo = j->p});
    for (uint64_t i = 0; i < r->n; i++) {
        const uint64_t end = pst_min_u64(r->first + i * r->next + 1, j->p),
                       from = end > j->window ? end - j->window : 0;
        factor[i] = cached_softmax(scores + i * j->p, j->scale, low, from, end, high);
    }
    small_product(r->n, d,
                  (factors){.depth = high - low,
                            .a = scores + low,
                            .ai = j->p,
                            .ak = 1,
                            .b = keys + (j->p + low) * d,
                            .ldb = d,
                            .out = r->out,
                            .ldo = r->out_step});
    for (uint64_t i = 0; i < r->n; i++) {
        float *out = r->out + i * r->out_step;
        VEC_EACH(c, n, d, { v_store_n(out + c, v_load_n(out + c, n) * v_set(factor[i]), n); });
    }
}

static void cached_tile(void *arg, uint64_t tile, uint32_t thread) {
    const cached_job *j = arg;
    const uint64_t sample = tile / j->own, head = tile % j->own,
                   past = j->past[sample] < 0 ? 0 : (uint64_t)j->past[sample], d = j->d,
                   from = head * j->group > j->first ? head * j->group : j->first,
                   end = pst_min_u64((head + 1) * j->group, j->first + j->heads),
                   group = end > from ? end - from : 0, /* of this rank */
        first = (from - j->first) * d, width = j->heads * d;
    float *keys = j->cache + tile * 2 * j->p * d,
          *scores = j->scratch + thread * CACHED_ROWS * j->p;
    const float *q = j->q + sample * j->t * j->step + first;
    float *out = j->out + sample * j->t * width + first;
    cached_store(j, sample, head, keys);
    if (!group) return;
    if (j->t == 1) { /* the heads are the rows */
        for (uint64_t g = 0; g < group; g += CACHED_ROWS)
            cached_attend(j,
                          &(cached_rows){.n = pst_min_u64(CACHED_ROWS, group - g),
                                         .first = past,
                                         .step = d,
                                         .out_step = d,
                                         .q = q + g * d,
                                         .out = out + g * d},
                          keys, scores);
        return;
    }
    for (uint64_t g = 0; g < group; g++)
        for (uint64_t i = 0; i < j->t; i += CACHED_ROWS) {
            cached_attend(j,
                          &(cached_rows){.n = pst_min_u64(CACHED_ROWS, j->t - i),
                                         .first = past + i,
                                         .next = 1,
                                         .step = j->step,
                                         .out_step = width,
                                         .q = q + g * d + i * j->step,
                                         .out = out + g * d + i * width},
                          keys, scores);
            pst_device_poll(j->device, thread);
        }
}

static uint64_t cached_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    return threads * CACHED_ROWS * g->param[node->param[0]].dim[2] / 2 * sizeof(float);
}

/* IN0 [IN1 IN2] IN.past PARAM0 OUT0 */
static pst_status cached_attention_f(pst_device *device, const pst_call *call) {
    const pst_node *node = call->node;
    const pst_tensor *x = pst_call_in(call, 0);
    const uint64_t *dim = call->graph->param[node->param[0]].dim;
    void *const *behind = pst_call_behind(call);
    cached_job j = {.device = device,
                    .b = x->dim[0],
                    .t = x->dim[1],
                    .heads = node->attr.heads,
                    .own = dim[1],
                    .p = dim[2] / 2,
                    .d = dim[3],
                    .window = node->attr.window ? node->attr.window : dim[2],
                    .first = node->attr.total ? node->attr.first : 0,
                    .group = (node->attr.total ? node->attr.total : node->attr.heads) / dim[1],
                    .step = x->dim[2],
                    .scale = 1.0f / sqrtf((float)dim[3]),
                    .q = call->arg[0],
                    .past = call->arg[node->n_in - 1],
                    .cache = behind[0],
                    .out = behind[1],
                    .scratch = call->scratch};
    const int joint = node->n_in == 2;
    j.kv_step = joint ? j.step : j.own * j.d;
    j.k = joint ? j.q + j.heads * j.d : call->arg[1];
    j.v = joint ? j.k + j.own * j.d : call->arg[2];
    j.scratch[device->threads * CACHED_ROWS * j.p - 1] = 0; /* a thread may get no tile */
    pst_device_run(device, cached_tile, &j, j.b * j.own);
    return PST_OK;
}
