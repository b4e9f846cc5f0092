/* Declarations that the files of the CPU backend share. Vector code is written once, in the *_vec.h
 * files, and compiled once per instruction set by avx2.c and avx512.c, for bf16 storage by
 * avx512_bf16.c and for fp16 storage by *_fp16.c, on every build machine. */
#ifndef PST_KERNELS_CPU_H
#define PST_KERNELS_CPU_H
#include "kernels/convolution.h"
#include "kernels/cpu/convolution_ops.h"
#include "kernels/cpu/pack.h"
#include "kernels/kernel.h"

/* c[rows,cols] (+)= panels of A times panels of B. */
typedef struct {
    const void *a, *b;
    uint64_t terms, rows, cols;
    float *c;
    uint64_t ld;
    int add; /* 0: C is overwritten */
} pst_product_tile;

/* For every instruction set, rows of A and columns of B are zero-padded to a multiple of these. */
enum { PST_PRODUCT_ROWS = 16, PST_PRODUCT_COLS = 48 };

/* Products of one instruction set and type. */
typedef struct {
    uint64_t (*term_bytes)(uint64_t terms); /* bytes of `terms` packed terms of an item */
    void (*pack_a)(const pst_pack *pack);
    void (*pack_b)(const pst_pack *pack);
    void (*multiply)(const pst_product_tile *tile);
} pst_product_ops;

/* The kernels of one instruction set. */
typedef struct {
    uint32_t isa;
    const pst_kernel_row *rows;
    uint32_t n_rows;
    const pst_flat *flat;
    /* `turns` iterations of independent fused multiply-adds; returns FLOPs done. The sum goes to
     * *sink. */
    double (*fma_loop)(uint64_t turns, float *sink);
    const pst_product_ops *product; /* NULL: use oneDNN */
} pst_cpu_table;
const pst_cpu_table *pst_cpu_avx512_bf16(void); /* rows for bf16 graphs */
const pst_cpu_table *pst_cpu_avx512_fp16(void); /* rows for fp16 graphs */
const pst_cpu_table *pst_cpu_avx2_fp16(void);
const pst_cpu_table *pst_cpu_avx512(void);
const pst_cpu_table *pst_cpu_avx2(void);
const pst_cpu_table *pst_cpu_generic(void);

/* A tile of C: sum[r * ld + c] is element (r, c) of the tile. */
typedef struct {
    float *sum;
    uint64_t ld, row, rows, col, cols;
} pst_gemm_tile;

/* C[m,n] (+)= op(A) op(B), row-major, summed in fp32. */
typedef struct {
    pst_dtype dtype; /* of A and B; ops->dtype */
    int trans_a, trans_b;
    uint64_t m, n, k; /* all > 0 */
    const void *a, *b;
    uint64_t lda, ldb;
    float *c; /* NULL: tiles are summed in scratch and passed to finish */
    uint64_t ldc;
    int add;                    /* 0: C is overwritten */
    void *scratch;              /* pst_gemm_scratch() bytes, at a multiple of 64 */
    const pst_product_ops *ops; /* NULL: use oneDNN, fp32 only */
    /* Called by the thread that has just computed a tile, while it is in cache. NULL: none. */
    void (*finish)(void *arg, const pst_gemm_tile *tile);
    void *finish_arg;
} pst_gemm;
/* Returns the bytes of scratch of a product, equal for all instruction sets; more terms (k) may
 * need less. in_place: member c of pst_gemm is not NULL. threads: those of the device that runs it.
 */
uint64_t pst_gemm_scratch(pst_dtype dtype, uint64_t m, uint64_t n, uint64_t k, int in_place,
                          uint32_t threads);
pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm);
/* 1: a sum of k terms is a single chain from 0, so that `add` adds the complete sum. */
int pst_gemm_is_chain(uint64_t k);
/* To be called once per computing thread: keeps oneDNN from starting threads of its own. */
void pst_gemm_start_thread(void *unused);
/* Sets the instruction sets that oneDNN may use. To be called before the first product of the
 * process. */
void pst_gemm_set_isa(uint32_t isa);

/* A tile of a product that is to be written to y (and z). Matrices are row-major with ld elements
 * between rows. */
typedef struct {
    const float *sum; /* may be the same memory as z or y */
    uint64_t sum_ld;
    void *z, *y;      /* z may be NULL */
    const void *bias; /* NULL: none */
    uint64_t rows, cols, ld;
} pst_linear_tile;

/* A product of a few rows: y[r * ld + j] = sum over k of x[r,k] weight[j,k] for j < n. Reads the
 * weight once, as it lies in memory: with few rows the memory's bandwidth limits the speed. A sum's
 * bits depend neither on m nor on n. */
enum { PST_FEW_ROWS = 16 /* at most; with more, packed products are faster */ };
typedef struct {
    const float *x, *weight;
    float *y;
    uint64_t m, n, k, ld;
} pst_few_rows;

/* The element-wise part of `linear`, per instruction set and element type. */
typedef struct {
    pst_dtype dtype; /* element type of every void * here */
    /* z = sum + bias, y = act(sum + bias). */
    void (*finish)(pst_activation act, const pst_linear_tile *tile);
    /* y = act(z), with the same bits as finish. */
    void (*apply)(pst_activation act, const void *z, void *y, uint64_t n);
    /* dz = dy * act'(z); dz may be dy. */
    void (*slope)(pst_activation act, const void *z, const void *dy, void *dz, uint64_t n);
    /* sum[r * ld + c] += bias[c] */
    void (*add_bias)(float *sum, uint64_t ld, uint64_t rows, uint64_t cols, const void *bias);
    /* out[c] (+)= sum over rows of x[r,c], in blocks of PST_SUM_ROWS rows. */
    void (*column_sum)(const void *x, uint64_t rows, uint64_t cols, uint64_t ld, float *out,
                       int first);
    void (*accumulate)(pst_pool *pool, float *y, const float *x, uint64_t n); /* y += x */
    const pst_product_ops *product;                                           /* NULL: use oneDNN */
    const pst_conv_ops *direct;          /* NULL: convolution multiplies a matrix of windows */
    void (*few)(const pst_few_rows *of); /* fp32 only; NULL: none */
} pst_linear_ops;
/* Bytes of scratch for the products. */
uint64_t pst_linear_forward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
uint64_t pst_linear_backward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
uint64_t pst_linear_weight_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
pst_status pst_linear_activation(pst_device *device, const pst_call *call,
                                 const pst_linear_ops *ops);
/* B of the operator activation */
pst_status pst_linear_slope(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
pst_status pst_linear_forward(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
pst_status pst_linear_backward(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
pst_status pst_linear_weight(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
/* linear_blocks.c: F (PST_BLOCKS_IN) or B (PST_BLOCKS_OUT), the sum of whose product has blocks.
 * whole: the product, without c and finish; bias NULL: none. */
uint64_t pst_linear_blocks_scratch(const pst_graph *g, const pst_node *node, pst_pass pass,
                                   uint32_t threads);
/* The most scratch of any block's product of m x n, summed in place; size: terms of all blocks. */
uint64_t pst_linear_block_scratch(pst_dtype dtype, uint64_t m, uint64_t n, const pst_blocks *blocks,
                                  uint64_t size, uint32_t threads);
pst_status pst_linear_blocks(pst_device *device, const pst_call *call, const pst_gemm *whole,
                             const void *bias, void *y, const pst_linear_ops *ops);

/* convolution_job.c, convolution_direct.c, convolution_weight.c: operands and results of a pass. */
typedef struct {
    const void *x; /* B: dy */
    const void *dy, *weight, *bias;
    void *y; /* B: dx; W: the gradient, fp32 */
    void *scratch;
} pst_conv_call;
uint64_t pst_conv_forward_scratch(const pst_convolution_shape *s, pst_dtype dtype,
                                  uint32_t threads);
uint64_t pst_conv_backward_scratch(const pst_convolution_shape *s, pst_dtype dtype,
                                   uint32_t threads);
uint64_t pst_conv_weight_scratch(const pst_convolution_shape *s, pst_dtype dtype, uint32_t threads);
void pst_conv_forward(pst_device *device, const pst_linear_ops *ops, const pst_convolution_shape *s,
                      const pst_conv_call *call);
void pst_conv_backward(pst_device *device, const pst_linear_ops *ops,
                       const pst_convolution_shape *s, const pst_conv_call *call);
/* add: 1: adds to the gradient of earlier micro-batches. */
void pst_conv_weight(pst_device *device, const pst_linear_ops *ops, const pst_convolution_shape *s,
                     const pst_conv_call *call, int add);

/* convolution.c; element-wise part as in linear. pst_convolution_*_scratch: bytes of scratch for a
 * matrix of windows; pst_convolution_direct_*_scratch: for direct convolution, if the row's ops
 * have it. */
uint64_t pst_convolution_forward_scratch(const pst_graph *g, const pst_node *node,
                                         uint32_t threads);
uint64_t pst_convolution_backward_scratch(const pst_graph *g, const pst_node *node,
                                          uint32_t threads);
uint64_t pst_convolution_weight_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
uint64_t pst_convolution_direct_forward_scratch(const pst_graph *g, const pst_node *node,
                                                uint32_t threads);
uint64_t pst_convolution_direct_backward_scratch(const pst_graph *g, const pst_node *node,
                                                 uint32_t threads);
uint64_t pst_convolution_direct_weight_scratch(const pst_graph *g, const pst_node *node,
                                               uint32_t threads);
pst_status pst_convolution_forward(pst_device *device, const pst_call *call,
                                   const pst_linear_ops *ops);
pst_status pst_convolution_backward(pst_device *device, const pst_call *call,
                                    const pst_linear_ops *ops);
pst_status pst_convolution_weight(pst_device *device, const pst_call *call,
                                  const pst_linear_ops *ops);

/* Sums over rows (weight gradients of biases and layer norms) add the rows of a block in order,
 * then the blocks in order, so that long sums stay accurate. Tiles split the columns. */
enum { PST_SUM_ROWS = 64, PST_SUM_COLS = 64, PST_FLAT_TILE = 16384 };
#endif
