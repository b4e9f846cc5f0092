/* A model as a graph: operators in execution order, the tensors between them, and the trainable
 * parameters. The graph defines what is computed for one micro-batch; a plan (plan.h) defines which
 * rank computes it.
 *
 * Shapes: b samples per micro-batch, T positions (tokens per sample), C channels, V vocabulary
 * size. Functions that add tensors and parameters return numbers that identify them in this graph
 * only. A function that fails leaves the graph unchanged. Errors: EINPUT for a NULL pointer, for a
 * name that is already used, empty or not printable, and for a wrong shape (pst_error() names the
 * operator and the expected shape); ENOMEM if memory runs out. Only one thread at a time may use a
 * graph; once it is complete, several threads may read it. */
#ifndef PENSTOCK_GRAPH_H
#define PENSTOCK_GRAPH_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_graph pst_graph;

/* Stands for an optional tensor or parameter that is not given. */
#define PST_NONE UINT32_MAX
enum { PST_MAX_DIM = 4 }; /* maximum number of dimensions of a shape */

/* Initial values of a parameter. PST_INIT_NORMAL draws from a normal distribution with mean 0; the
 * values depend only on train.seed and the name of the parameter, not on the layout. */
typedef enum { PST_INIT_ZERO, PST_INIT_ONE, PST_INIT_NORMAL } pst_init;
typedef enum {
    PST_ACT_NONE,
    PST_ACT_GELU_TANH,
    PST_ACT_GELU_ERF,
    PST_ACT_RELU,
    PST_ACT_TANH
} pst_activation;

/* Creates an empty graph for micro-batches of `micro_batch` samples. The caller frees *graph with
 * pst_graph_close. */
PST_API pst_status pst_graph_open(const char *name, uint32_t micro_batch, pst_graph **graph);
/* Creates the graph of a built-in model (model.kind gpt, bert, ...) with train.micro_batch,
 * train.precision and train.residual of the configuration. The data tensors of the graph are
 * "tokens" and "targets" [b,T], for bert also "lengths" [b] and, depending on the keys of model,
 * "types" [b,T], "positions" of the targets (both [b,P]) and "next_sentence" [b,1]; for images
 * "pixels" [b,H,W,C] and "targets" [b,1]. The caller frees *graph with pst_graph_close. */
PST_API pst_status pst_graph_build(const pst_config *config, pst_graph **graph);
/* Frees the graph. Plans and sessions made from it stay valid. Does nothing for NULL. */
PST_API void pst_graph_close(pst_graph *graph);
/* Sets the precision: "fp32" (the default), "tf32", "bf16", "fp16" or "fp8", with the meaning of
 * train.precision. Call this function before the first operator is added. */
PST_API pst_status pst_graph_set_precision(pst_graph *graph, const char *precision);

/* Adds an input tensor that the program fills for every micro-batch: int32, shape dim[0..n_dim)
 * with dim[0] = b. *tensor is set to the number of the tensor. */
PST_API pst_status pst_graph_add_data(pst_graph *graph, const char *name, uint32_t n_dim,
                                      const uint64_t *dim, uint32_t *tensor);
/* Adds a trainable parameter of shape dim[0..n_dim); checkpoints use the same name. std: standard
 * deviation for PST_INIT_NORMAL. decay: nonzero if weight decay applies to the parameter. Several
 * operators may use the same parameter (tied weights). *param is set to the number of the
 * parameter. */
PST_API pst_status pst_graph_add_param(pst_graph *graph, const char *name, uint32_t n_dim,
                                       const uint64_t *dim, pst_init init, float std, int decay,
                                       uint32_t *param);

/* Operators run in the order in which they are added. *out is set to the number of the tensor that
 * the operator produces. */

/* tokens [b,T] int32; table [V,C]; positions [P,C] with P >= T, or PST_NONE. out [b,T,C]:
 * table[token] + positions[t]. */
PST_API pst_status pst_graph_add_embedding(pst_graph *graph, const char *name, uint32_t tokens,
                                           uint32_t table, uint32_t positions, uint32_t *out);
/* x [..,K]; weight [N,K]; bias [N] or PST_NONE. out [..,N]: activation(x weight^T + bias). */
PST_API pst_status pst_graph_add_linear(pst_graph *graph, const char *name, uint32_t x,
                                        uint32_t weight, uint32_t bias, pst_activation activation,
                                        uint32_t *out);
/* pst_graph_add_linear with new parameters: NAME.weight [n,K], initialized from a normal
 * distribution with standard deviation `std`, and NAME.bias [n], initialized to 0. */
PST_API pst_status pst_graph_add_dense(pst_graph *graph, const char *name, uint32_t x, uint64_t n,
                                       float std, pst_activation activation, uint32_t *out);
/* x [..,C]; weight, bias [C]; eps > 0. out like x: normalized over C (Ba, Kiros & Hinton 2016). */
PST_API pst_status pst_graph_add_layer_norm(pst_graph *graph, const char *name, uint32_t x,
                                            uint32_t weight, uint32_t bias, float eps,
                                            uint32_t *out);
/* Causal self-attention. qkv [b,T,3C]: blocks of C queries, keys and values; C must be a
 * multiple of heads. out [b,T,C]. */
PST_API pst_status pst_graph_add_attention(pst_graph *graph, const char *name, uint32_t qkv,
                                           uint32_t heads, uint32_t *out);
/* Self-attention with another mask. lengths [b] int32 or PST_NONE: number of tokens of each sample,
 * 0 to T; the following positions are padding: no position attends to them, they are 0 in out and
 * get no gradient. bidirectional: nonzero if positions also attend to later positions. */
PST_API pst_status pst_graph_add_masked_attention(pst_graph *graph, const char *name, uint32_t qkv,
                                                  uint32_t lengths, uint32_t heads,
                                                  int bidirectional, uint32_t *out);
/* Sets each element to 0 with probability `rate` (0 <= rate < 1), else divides it by 1 - rate. The
 * random numbers depend only on train.seed, the operator's name and the sample. In evaluation out
 * equals x. out has the shape of x. */
PST_API pst_status pst_graph_add_dropout(pst_graph *graph, const char *name, uint32_t x, float rate,
                                         uint32_t *out);
/* out = a + b; a and b have the same shape. */
PST_API pst_status pst_graph_add_residual(pst_graph *graph, const char *name, uint32_t a,
                                          uint32_t b, uint32_t *out);
/* logits [b,T,V]; targets [b,T] int32. losses [b,T] fp32, in nats. A negative target gives loss 0
 * and no gradient. Training minimizes the mean of all losses of the batch; positions with negative
 * targets count in the denominator. A graph for training ends with this operator. */
PST_API pst_status pst_graph_add_cross_entropy(pst_graph *graph, const char *name, uint32_t logits,
                                               uint32_t targets, uint32_t *losses);

/* Operators on images [b,H,W,C] (channels last). With tensor parallelism every tensor rank computes
 * these operators completely. */

/* bytes [b,H,W,C] int32, values 0 to 255. out [b,H,W,C] floating point: bytes / 127.5 - 1. */
PST_API pst_status pst_graph_add_pixels(pst_graph *graph, const char *name, uint32_t bytes,
                                        uint32_t *out);
/* x [b,H,W,C]; weight [O,h,w,C]; bias [O] or PST_NONE; stride >= 1, 0 <= padding < min(h, w), both
 * in pixels and equal for both axes; the image is padded with 0. out [b, (H + 2 padding - h)/stride
 * + 1, (W + 2 padding - w)/stride + 1, O]. */
PST_API pst_status pst_graph_add_convolution(pst_graph *graph, const char *name, uint32_t x,
                                             uint32_t weight, uint32_t bias, uint32_t stride,
                                             uint32_t padding, uint32_t *out);
/* x [..,C]; z of the shape of x, or PST_NONE; activation: PST_ACT_NONE or PST_ACT_RELU; eps > 0.
 * out has the shape of x: activation(norm(x) * weight + bias + z), normalized over all dimensions
 * but C (Ioffe & Szegedy 2015): in training with mean and variance of the micro-batch, in
 * evaluation with the running mean and variance. Adds four parameters of shape [C]: NAME.weight
 * (initially 1), NAME.bias (0), NAME.running_mean (0) and NAME.running_var (1). An optimizer step
 * sets the running values to 0.9 of the old values plus 0.1 of the mean over the micro-batches of
 * the step. */
PST_API pst_status pst_graph_add_batch_norm(pst_graph *graph, const char *name, uint32_t x,
                                            uint32_t z, pst_activation activation, float eps,
                                            uint32_t *out);
/* x [b,H,W,C]. out: the maximum of each window of window x window pixels, with output sizes as for
 * convolution; padding pixels are never the maximum. */
PST_API pst_status pst_graph_add_max_pool(pst_graph *graph, const char *name, uint32_t x,
                                          uint32_t window, uint32_t stride, uint32_t padding,
                                          uint32_t *out);
/* x [b,H,W,C]. out [b,1,C]: the mean over all pixels. */
PST_API pst_status pst_graph_add_average_pool(pst_graph *graph, const char *name, uint32_t x,
                                              uint32_t *out);

/* Reads the shape of a tensor: sets *n_dim and dim[0..*n_dim). dim has space for PST_MAX_DIM
 * values. */
PST_API pst_status pst_graph_shape(const pst_graph *graph, uint32_t tensor, uint32_t *n_dim,
                                   uint64_t *dim);
/* Set name, number of dimensions and shape of parameter i, or of the i-th data tensor that was
 * added, and return 1; i counts from 0. Return 0 if there are fewer, or a pointer is NULL. *name
 * belongs to the graph and is valid until the next addition; dim has space for PST_MAX_DIM values.
 */
PST_API int pst_graph_param_at(const pst_graph *graph, uint32_t i, const char **name,
                               uint32_t *n_dim, uint64_t *dim);
PST_API int pst_graph_data_at(const pst_graph *graph, uint32_t i, const char **name,
                              uint32_t *n_dim, uint64_t *dim);
/* Returns the number of trainable elements: each parameter counts once, running statistics do not
 * count; 0 for NULL. */
PST_API uint64_t pst_graph_weights(const pst_graph *graph);
/* Writes one line per parameter and operator to `out`, which stays open. ENOMEM if `out` cannot be
 * written. */
PST_API pst_status pst_graph_print(const pst_graph *graph, FILE *out);
#ifdef __cplusplus
}
#endif
#endif
