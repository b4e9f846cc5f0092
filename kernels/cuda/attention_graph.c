#include "kernels/cuda/attention_graph.h"

typedef struct {
    pst_dnn_graph *g;
    const pst_cuda_attention_shape *s;
    cudnnDataType_t type;     /* type of activations */
    int64_t head[4];          /* of queries, [b,heads,t,d] */
    int64_t key[4], key_t[4]; /* of keys; with the last two dimensions exchanged */
    int64_t score[4], score_stride[4], score_t[4], row[4], row_stride[4];
    int64_t lse_stride[4];
    int64_t members;      /* heads of queries from one of the graph to the next */
    pst_dnn_desc lengths; /* [b,1,1,1]; NULL: no padding */
    pst_dnn_desc low;     /* the score of a masked pair; NULL: none is */
} builder;

static const int64_t ones[4] = {1, 1, 1, 1};

static pst_dnn_desc scalar(const builder *u, int64_t number) {
    return pst_dnn_operand(u->g, number, CUDNN_DATA_FLOAT, ones, ones, 1);
}

static builder begin(pst_dnn_graph *g, const pst_cuda_attention_shape *s) {
    int64_t b = (int64_t)s->part_b, h = (int64_t)s->part_heads, t = (int64_t)s->t,
            d = (int64_t)(s->c / s->heads);
    int64_t all = (int64_t)s->heads, members = (int64_t)pst_cuda_attention_members(s);
    int64_t keys = h / (int64_t)pst_cuda_attention_sharers(s);
    builder u = {.g = g,
                 .s = s,
                 .members = members,
                 .type = s->dtype == PST_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
                 .head = {b, h, t, d},
                 .key = {b, keys, t, d},
                 .key_t = {b, keys, d, t},
                 .score = {b, h, t, t},
                 .score_stride = {h * t * t, t * t, t, 1},
                 .score_t = {h * t * t, t * t, 1, t},
                 .row = {b, h, t, 1},
                 .row_stride = {h * t, t, 1, 1},
                 .lse_stride = {all * t, members * t, 1, 1}};
    const int64_t each[4] = {b, 1, 1, 1};
    if (s->padded || s->window || !s->bidirectional) u.low = scalar(&u, PST_ATT_MASKED);
    if (s->padded) u.lengths = pst_dnn_loose(g, PST_ATT_LENGTHS, CUDNN_DATA_INT32, each, ones);
    return u;
}

/* Strides of a tensor [b,heads,t,d]: whose heads are `apart` channels from each other, and whose
 * positions have `width` channels. */
typedef struct {
    int64_t at[4];
} strides;
static strides strided(const builder *u, uint64_t width, int64_t apart) {
    const int64_t w = (int64_t)width;
    return (strides){{(int64_t)u->s->t * w, apart, w, 1}};
}

static strides of_queries(const builder *u) {
    const uint64_t c = u->s->c;
    return strided(u, u->s->kv_heads ? c : 3 * c, u->members * u->head[3]);
}
static strides of_keys(const builder *u) {
    const uint64_t d = (uint64_t)u->head[3];
    return strided(u, u->s->kv_heads ? u->s->kv_heads * d : 3 * u->s->c, u->head[3]);
}
static strides of_out(const builder *u) { return strided(u, u->s->c, u->members * u->head[3]); }

static pst_dnn_desc heads(const builder *u, int64_t number, strides s) {
    return pst_dnn_operand(u->g, number, u->type, u->head, s.at, 0);
}

static pst_dnn_desc key_heads(const builder *u, int64_t number, strides s) {
    return pst_dnn_operand(u->g, number, u->type, u->key, s.at, 0);
}

/* Keys or values with the last two dimensions exchanged. */
static pst_dnn_desc turned(const builder *u, int64_t number, strides s) {
    const int64_t stride[4] = {s.at[0], s.at[1], s.at[3], s.at[2]};
    return pst_dnn_operand(u->g, number, u->type, u->key_t, stride, 0);
}

static pst_dnn_desc scores(const builder *u, cudnnDataType_t type) {
    return pst_dnn_virtual(u->g, type, u->score, u->score_stride);
}

/* mode(x, b) as a new virtual tensor with the shape of the scores or, if `row`, one number per
 * query. */
static pst_dnn_desc apply(const builder *u, cudnnPointwiseMode_t mode, pst_dnn_desc x,
                          pst_dnn_desc b, int row) {
    pst_dnn_desc y = row ? pst_dnn_virtual(u->g, CUDNN_DATA_FLOAT, u->row, u->row_stride)
                         : scores(u, CUDNN_DATA_FLOAT);
    pst_dnn_pointwise(u->g, mode, CUDNN_DATA_FLOAT, -1, (pst_dnn_element){x, b, NULL, y});
    return y;
}

static pst_dnn_desc reduced(const builder *u, cudnnReduceTensorOp_t op, pst_dnn_desc x) {
    pst_dnn_desc y = pst_dnn_virtual(u->g, CUDNN_DATA_FLOAT, u->row, u->row_stride);
    pst_dnn_reduce(u->g, op, x, y);
    return y;
}

/* The index of each element of x in dimension `axis`. */
static pst_dnn_desc position(const builder *u, pst_dnn_desc x, int64_t axis) {
    pst_dnn_desc y = scores(u, CUDNN_DATA_INT32);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis,
                      (pst_dnn_element){x, NULL, NULL, y});
    return y;
}

static pst_dnn_desc whether(const builder *u, cudnnPointwiseMode_t mode, pst_dnn_desc a,
                            pst_dnn_desc b) {
    pst_dnn_desc y = scores(u, CUDNN_DATA_BOOLEAN);
    pst_dnn_pointwise(u->g, mode, CUDNN_DATA_BOOLEAN, -1, (pst_dnn_element){a, b, NULL, y});
    return y;
}

/* Masks scores where `keep` is 0: so low that their exponential is 0. */
static pst_dnn_desc keeping(const builder *u, pst_dnn_desc x, pst_dnn_desc keep) {
    pst_dnn_desc y = scores(u, CUDNN_DATA_FLOAT);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){x, u->low, keep, y});
    return y;
}

/* Masks positions before the window: keeps those with key + window > query. */
static pst_dnn_desc windowed(const builder *u, pst_dnn_desc x) {
    pst_dnn_desc width = pst_dnn_operand(u->g, PST_ATT_WINDOW, CUDNN_DATA_INT32, ones, ones, 1);
    pst_dnn_desc query = position(u, x, 2), key = scores(u, CUDNN_DATA_INT32);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, -1,
                      (pst_dnn_element){position(u, x, 3), width, NULL, key});
    return keeping(u, x, whether(u, CUDNN_POINTWISE_CMP_GT, key, query));
}

/* Masks padding, of queries and of keys, later positions, and those before the window. */
static pst_dnn_desc masked(const builder *u, pst_dnn_desc x) {
    if (u->lengths) {
        pst_dnn_desc query = whether(u, CUDNN_POINTWISE_CMP_LT, position(u, x, 2), u->lengths);
        pst_dnn_desc key = whether(u, CUDNN_POINTWISE_CMP_LT, position(u, x, 3), u->lengths);
        x = keeping(u, x, whether(u, CUDNN_POINTWISE_LOGICAL_AND, query, key));
    }
    if (!u->s->bidirectional)
        x = keeping(u, x, whether(u, CUDNN_POINTWISE_CMP_GE, position(u, x, 2), position(u, x, 3)));
    return u->s->window ? windowed(u, x) : x;
}

/* With the samples' lengths as sizes of the products the library can skip tiles of padding. */
static void scores_of(const builder *u, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c) {
    pst_dnn_matmul(u->g, a, b, c, (pst_dnn_sizes){u->lengths, u->lengths, NULL});
}
static void sum_of_rows(const builder *u, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c) {
    pst_dnn_matmul(u->g, a, b, c, (pst_dnn_sizes){u->lengths, NULL, u->lengths});
}

static void forward(const builder *u) {
    pst_dnn_desc product = scores(u, CUDNN_DATA_FLOAT), p = scores(u, u->type);
    scores_of(u, heads(u, PST_ATT_Q, of_queries(u)), turned(u, PST_ATT_K, of_keys(u)), product);
    pst_dnn_desc score =
        masked(u, apply(u, CUDNN_POINTWISE_MUL, product, scalar(u, PST_ATT_SCALE), 0));
    pst_dnn_desc max = reduced(u, CUDNN_REDUCE_TENSOR_MAX, score);
    pst_dnn_desc power =
        apply(u, CUDNN_POINTWISE_EXP, apply(u, CUDNN_POINTWISE_SUB, score, max, 0), NULL, 0);
    pst_dnn_desc sum = reduced(u, CUDNN_REDUCE_TENSOR_ADD, power);
    pst_dnn_desc lse = pst_dnn_loose(u->g, PST_ATT_LSE, CUDNN_DATA_FLOAT, u->row, u->lse_stride);
    pst_dnn_pointwise(
        u->g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1,
        (pst_dnn_element){max, apply(u, CUDNN_POINTWISE_LOG, sum, NULL, 1), NULL, lse});
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){power, sum, NULL, p});
    sum_of_rows(u, p, key_heads(u, PST_ATT_V, of_keys(u)), heads(u, PST_ATT_OUT, of_out(u)));
}

/* delta = sum over channels of dout * out, in memory, because other kernels read it. The strides of
 * the summed virtual tensor overlap (for some t and heads), as in cudnn-frontend, whose pattern the
 * library recognizes; it is never stored. */
static pst_dnn_desc delta_of(const builder *u, pst_dnn_desc dout, pst_dnn_desc out) {
    int64_t h = u->head[1], t = u->head[2], d = u->head[3];
    const int64_t stride[4] = {h * t * d, t * d, h * d, 1};
    pst_dnn_desc each = pst_dnn_virtual(u->g, CUDNN_DATA_FLOAT, u->head, stride);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){dout, out, NULL, each});
    pst_dnn_desc sum = reduced(u, CUDNN_REDUCE_TENSOR_ADD, each);
    pst_dnn_desc delta =
        pst_dnn_operand(u->g, PST_ATT_DELTA, CUDNN_DATA_FLOAT, u->row, u->row_stride, 0);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){sum, scalar(u, PST_ATT_ONE), NULL, delta});
    return delta;
}

/* to = x^T y for x [b,heads,t,t]. */
static void turned_product(const builder *u, pst_dnn_desc x, pst_dnn_desc y, pst_dnn_desc to) {
    pst_dnn_desc x_t = pst_dnn_virtual(u->g, u->type, u->score, u->score_t);
    pst_dnn_reshape(u->g, x, x_t);
    sum_of_rows(u, x_t, y, to);
}

/* dq through fp32 in memory, to which the library adds. */
static void sum_loosely(const builder *u, pst_dnn_desc a, pst_dnn_desc b, pst_dnn_desc c) {
    int64_t h = u->head[1], t = u->head[2], d = u->head[3];
    const int64_t stride[4] = {h * t * d, t * d, d, 1};
    pst_dnn_desc sum = pst_dnn_operand(u->g, PST_ATT_DQ_SUM, CUDNN_DATA_FLOAT, u->head, stride, 0);
    sum_of_rows(u, a, b, sum);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){sum, NULL, NULL, c});
    u->g->avoid &= ~(1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

static void backward(const builder *u) {
    const strides keys = of_keys(u), shares = u->s->together ? of_out(u) : keys;
    pst_dnn_desc q = heads(u, PST_ATT_Q, of_queries(u)), k_t = turned(u, PST_ATT_K, keys);
    pst_dnn_desc v_t = turned(u, PST_ATT_V, keys), dout = heads(u, PST_ATT_DOUT, of_out(u));
    pst_dnn_desc scale = scalar(u, PST_ATT_SCALE), product = scores(u, CUDNN_DATA_FLOAT);
    pst_dnn_desc delta = delta_of(u, dout, heads(u, PST_ATT_OUT, of_out(u)));
    pst_dnn_desc lse = pst_dnn_loose(u->g, PST_ATT_LSE, CUDNN_DATA_FLOAT, u->row, u->lse_stride);
    scores_of(u, q, k_t, product);
    pst_dnn_desc score = apply(u, CUDNN_POINTWISE_MUL, product, scale, 0);
    score = masked(u, apply(u, CUDNN_POINTWISE_SUB, score, lse, 0));
    pst_dnn_desc p = apply(u, CUDNN_POINTWISE_EXP, score, NULL, 0);
    turned_product(u, p, dout, heads(u, PST_ATT_DV, shares));
    pst_dnn_desc dp = scores(u, CUDNN_DATA_FLOAT);
    scores_of(u, dout, v_t, dp);
    pst_dnn_desc ds = apply(u, CUDNN_POINTWISE_SUB, dp, delta, 0);
    ds = apply(u, CUDNN_POINTWISE_MUL, ds, p, 0);
    pst_dnn_desc scaled = scores(u, u->type);
    pst_dnn_pointwise(u->g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1,
                      (pst_dnn_element){ds, scale, NULL, scaled});
    turned_product(u, scaled, q, heads(u, PST_ATT_DK, shares));
    pst_dnn_desc k = pst_dnn_virtual(u->g, u->type, u->key, keys.at);
    pst_dnn_reshape(u->g, k_t, k);
    pst_dnn_desc dq = heads(u, PST_ATT_DQ, of_queries(u));
    if (u->s->loose) sum_loosely(u, scaled, k, dq);
    else sum_of_rows(u, scaled, k, dq);
}

void pst_cuda_attention_graph(pst_dnn_graph *g, const pst_cuda_attention_shape *shape) {
    builder u = begin(g, shape);
    if (shape->backward) backward(&u);
    else forward(&u);
}

/* --- sizes ------------------------------------------------------------------------------------ */

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* dS of one head: the library's tiles are 64 queries and 128 keys. */
static uint64_t head_bytes(const pst_cuda_attention_shape *s) {
    return 2 * round_up(s->t, 64) * round_up(s->t, 128);
}

/* The largest divisor of n for which divisor * each <= most; at least 1. */
static uint64_t part_of(uint64_t n, uint64_t each, uint64_t most) {
    uint64_t part = n;
    while (part > 1 && (n % part || part * each > most)) part--;
    return part;
}

uint64_t pst_cuda_attention_part_bytes = 256 << 20;

void pst_cuda_attention_divide(pst_cuda_attention_shape *s) {
    const uint64_t most = pst_cuda_attention_part_bytes, sharers = pst_cuda_attention_sharers(s);
    const uint64_t groups = pst_cuda_attention_columns(s) / sharers;
    s->loose = s->loose && s->backward;
    s->part_b = s->b;
    s->part_heads = pst_cuda_attention_columns(s);
    if (!s->backward || s->loose) return;
    s->part_b = part_of(s->b, s->part_heads * head_bytes(s), most);
    s->part_heads = sharers * part_of(groups, s->part_b * sharers * head_bytes(s), most);
}

uint64_t pst_cuda_attention_shares(const pst_cuda_attention_shape *s) {
    const uint64_t size = 2;
    if (!s->backward || pst_cuda_attention_group(s) == 1) return 0;
    return round_up(2 * s->b * s->t * s->c * size, 256);
}

uint64_t pst_cuda_attention_delta(const pst_cuda_attention_shape *s) {
    return s->backward ? round_up(s->part_b * s->part_heads * s->t * sizeof(float), 256) : 0;
}

uint64_t pst_cuda_attention_lengths(const pst_cuda_attention_shape *s) {
    return s->padded ? round_up(s->b * sizeof(int32_t), 256) : 0;
}

uint64_t pst_cuda_attention_sums(const pst_cuda_attention_shape *s) {
    const uint64_t c = s->c / pst_cuda_attention_members(s);
    return s->loose ? round_up(s->b * s->t * c * sizeof(float), 256) : 0;
}

uint64_t pst_cuda_attention_workspace(const pst_cuda_attention_shape *s) {
    if (s->loose) return pst_cuda_attention_sums(s) + 256; /* needed on sm_80; sm_90 needs 256 */
    return (s->backward ? s->part_b * s->part_heads * head_bytes(s) : 0) + 256;
}

/* The library reads 16 bytes at a time, also within a head. */
const char *pst_cuda_attention_refuses(const pst_cuda_attention_shape *s) {
    uint64_t d = s->c / s->heads;
    if (s->dtype == PST_F32) return "cuDNN's attention supports bf16 and fp16 only";
    if (d % 8) return "cuDNN's attention needs a multiple of 8 channels per head";
    return d > 256 ? "cuDNN's attention supports at most 256 channels per head" : NULL;
}
