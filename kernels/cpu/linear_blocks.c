/* Linear whose sum is split over tensor ranks, with an order that their number does not change
 * (graph/blocks.h): one product per block, added as a tree. A part of a sum stays in fp32; a sum
 * that is complete on this rank is rounded once. */
#include "graph/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"

/* A product over all blocks: of `size` terms in each range. */
typedef struct {
    pst_device *device;
    const pst_linear_ops *ops;
    const pst_gemm *whole;
    const pst_blocks *blocks;
    const uint8_t *bias;  /* added to the first block of all ranks; NULL: none */
    uint64_t size, count; /* count: elements of the result */
} product;

static int is_single(const pst_blocks *b, uint64_t size, uint32_t i) {
    return b->ranges == 1 && pst_gemm_is_chain(pst_block_of(b, size, i).count);
}

/* Number of further sums that the tree over blocks [from, to) needs at a time. A single chain is
 * added without one. */
static uint32_t levels(const pst_blocks *b, uint64_t size, uint32_t from, uint32_t to) {
    if (to - from == 1) return 0;
    uint32_t middle = (from + to) / 2, left = levels(b, size, from, middle);
    if (to - middle == 1 && is_single(b, size, middle)) return left;
    uint32_t right = 1 + levels(b, size, middle, to);
    return left > right ? left : right;
}

static uint64_t terms_of(const pst_graph *g, const pst_node *node, pst_pass pass) {
    const pst_tensor *t = &g->tensor[pass == PST_PASS_F ? node->in[0] : node->out[0]];
    return pst_tensor_last(t) / node->attr.blocks.ranges;
}

/* Whether the result has 16 bits, so that it is summed in scratch. */
static int rounds(const pst_graph *g, const pst_node *node, pst_pass pass) {
    const pst_tensor *x = &g->tensor[node->in[0]], *y = &g->tensor[node->out[0]];
    return (pass == PST_PASS_F ? y->dtype : pst_tensor_grad(g, x)) != PST_F32;
}

uint64_t pst_linear_block_scratch(pst_dtype dtype, uint64_t m, uint64_t n, const pst_blocks *blocks,
                                  uint64_t size, uint32_t threads) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < blocks->own; i++) {
        uint64_t bytes =
            pst_gemm_scratch(dtype, m, n, pst_block_of(blocks, size, i).count, 1, threads);
        if (bytes > most) most = bytes;
    }
    return most;
}

uint64_t pst_linear_blocks_scratch(const pst_graph *g, const pst_node *node, pst_pass pass,
                                   uint32_t threads) {
    const pst_blocks *b = &node->attr.blocks;
    const pst_tensor *x = &g->tensor[node->in[0]], *y = &g->tensor[node->out[0]];
    uint64_t n = pst_tensor_last(pass == PST_PASS_F ? y : x), rows = pst_tensor_rows(x),
             size = terms_of(g, node, pass);
    uint64_t sums = levels(b, size, 0, b->own) + (uint64_t)rounds(g, node, pass);
    return sums * rows * n * sizeof(float) +
           pst_linear_block_scratch(g->dtype, rows, n, b, size, threads);
}

/* --- the tree --------------------------------------------------------------------------------- */

static void add_bias(void *arg, const pst_gemm_tile *tile) {
    const product *p = arg;
    p->ops->add_bias(tile->sum, tile->ld, tile->rows, tile->cols,
                     p->bias + tile->col * pst_dtype_bytes(p->ops->dtype));
}

/* c (+)= the terms of block i, range by range. */
static pst_status add_block(product *p, uint32_t i, float *c, int add) {
    const pst_part at = pst_block_of(p->blocks, p->size, i);
    const uint64_t bytes = pst_dtype_bytes(p->ops->dtype);
    for (uint32_t r = 0; r < p->blocks->ranges; r++) {
        uint64_t from = r * p->size + at.first;
        pst_gemm gemm = *p->whole;
        gemm.k = at.count;
        gemm.a = (const uint8_t *)gemm.a + from * bytes;
        gemm.b = (const uint8_t *)gemm.b + from * (gemm.trans_b ? 1 : gemm.ldb) * bytes;
        gemm.c = c;
        gemm.add = add || r > 0;
        int last = r + 1 == p->blocks->ranges && p->blocks->first + i == 0;
        gemm.finish = last && p->bias ? add_bias : NULL;
        gemm.finish_arg = p;
        PST_TRY(pst_gemm_run(p->device, &gemm));
    }
    return PST_OK;
}

/* c = the sum of blocks [from, to); `more` has further sums. */
static pst_status add_tree(product *p, uint32_t from, uint32_t to, float *c, float *more) {
    if (to - from == 1) return add_block(p, from, c, 0);
    uint32_t middle = (from + to) / 2;
    PST_TRY(add_tree(p, from, middle, c, more));
    if (to - middle == 1 && is_single(p->blocks, p->size, middle))
        return add_block(p, middle, c, 1);
    PST_TRY(add_tree(p, middle, to, more, more + p->count));
    p->ops->accumulate(p->device ? p->device->pool : NULL, c, more, p->count);
    return PST_OK;
}

typedef struct {
    const pst_linear_ops *ops;
    float *sum;
    uint8_t *y;
    uint64_t n;
} rounding;

static void round_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const rounding *r = arg;
    uint64_t from = tile * PST_FLAT_TILE, n = pst_min_u64(PST_FLAT_TILE, r->n - from);
    const pst_linear_tile all = {.sum = r->sum + from,
                                 .sum_ld = n,
                                 .y = r->y + from * pst_dtype_bytes(r->ops->dtype),
                                 .rows = 1,
                                 .cols = n,
                                 .ld = n};
    r->ops->finish(PST_ACT_NONE, &all);
}

pst_status pst_linear_blocks(pst_device *device, const pst_call *call, const pst_gemm *whole,
                             const void *bias, void *y, const pst_linear_ops *ops) {
    const pst_node *node = call->node;
    const pst_pass pass = node->attr.blocks.of == PST_BLOCKS_IN ? PST_PASS_F : PST_PASS_B;
    product p = {.device = device,
                 .ops = ops,
                 .whole = whole,
                 .blocks = &node->attr.blocks,
                 .bias = bias,
                 .size = terms_of(call->graph, node, pass),
                 .count = whole->m * whole->n};
    uint64_t panels = pst_linear_block_scratch(ops->dtype, whole->m, whole->n, p.blocks, p.size,
                                               device ? device->threads : 1);
    int half = rounds(call->graph, node, pass);
    float *more = (float *)(void *)((uint8_t *)call->scratch + panels), *sum = half ? more : y;
    if (half) more += p.count;
    PST_TRY(add_tree(&p, 0, p.blocks->own, sum, more));
    rounding r = {ops, sum, y, p.count};
    if (half) pst_device_run(device, round_tile, &r, pst_div_up(p.count, PST_FLAT_TILE));
    return PST_OK;
}
