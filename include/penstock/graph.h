/* A model as a graph: operators in the order in which they run, the tensors between them, and the
 * trained parameters. It defines what is computed for one micro-batch; a plan (plan.h) defines
 * where.
 *
 * Shapes: b micro-batch, T positions (tokens of a sample), C channels, V vocabulary. Tensors and
 * parameters are identified by numbers that the adding functions return; they are valid for this
 * graph only. A function that fails leaves the graph unchanged. EINPUT: a NULL, a name that
 * exists, is empty or is not printable, a shape that does not fit; pst_error() names the
 * operator and says what would fit. ENOMEM. A graph belongs to one thread at a time; once
 * complete, several threads may read it. */
#ifndef PENSTOCK_GRAPH_H
#define PENSTOCK_GRAPH_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_graph pst_graph;

/* For an optional tensor or parameter that is left out. */
#define PST_NONE UINT32_MAX
enum { PST_MAX_DIM = 4 }; /* maximum number of dimensions of a shape */

/* Initial values of a parameter; NORMAL has mean 0 and depends only on (train.seed, name), not
 * on the layout. */
typedef enum { PST_INIT_ZERO, PST_INIT_ONE, PST_INIT_NORMAL } pst_init;
typedef enum { PST_ACT_NONE, PST_ACT_GELU_TANH, PST_ACT_GELU_ERF, PST_ACT_RELU } pst_activation;

/* An empty graph for micro-batches of this many samples. *graph is the caller's; free with
 * pst_graph_close. */
PST_API pst_status pst_graph_open(const char *name, uint32_t micro_batch, pst_graph **graph);
/* Or: the model that a configuration names (model.kind gpt, bert, ...), for
 * train.micro_batch, train.precision and train.residual. Its data tensors are the model's inputs:
 * "tokens" and "targets" [b,T], with bert also "lengths" [b]; or "pixels" [b,H,W,C] and "targets"
 * [b,1]. */
PST_API pst_status pst_graph_build(const pst_config *config, pst_graph **graph);
/* NULL: nothing. Plans and sessions made from the graph stay valid. */
PST_API void pst_graph_close(pst_graph *graph);
/* "fp32" (initially), "tf32", "bf16", "fp16" or "fp8", as train.precision; call before the first
 * operator is added. */
PST_API pst_status pst_graph_set_precision(pst_graph *graph, const char *precision);

/* Data that the program passes in for every micro-batch: int32 of the shape dim[0..n_dim);
 * dim[0] is b. */
PST_API pst_status pst_graph_add_data(pst_graph *graph, const char *name, uint32_t n_dim,
                                      const uint64_t *dim, uint32_t *tensor);
/* A trainable array; its name is also its name in checkpoints. std: for PST_INIT_NORMAL. decay:
 * nonzero if weight decay applies. Several operators may use it (tied weights). */
PST_API pst_status pst_graph_add_param(pst_graph *graph, const char *name, uint32_t n_dim,
                                       const uint64_t *dim, pst_init init, float std, int decay,
                                       uint32_t *param);

/* Operators run in the order in which they are added. *out: the tensor that they produce, for
 * later operators. */

/* tokens [b,T] int32; table [V,C]; positions [at least T,C] or PST_NONE. out [b,T,C]: table[token]
 * + positions[t]. */
PST_API pst_status pst_graph_add_embedding(pst_graph *graph, const char *name, uint32_t tokens,
                                           uint32_t table, uint32_t positions, uint32_t *out);
/* x [..,K]; weight [N,K]; bias [N] or PST_NONE. out [..,N]: activation(x weight^T + bias). */
PST_API pst_status pst_graph_add_linear(pst_graph *graph, const char *name, uint32_t x,
                                        uint32_t weight, uint32_t bias, pst_activation activation,
                                        uint32_t *out);
/* The same with new parameters: NAME.weight [n,K], initially normal with this std; NAME.bias
 * [n], initially zero. */
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
/* The same with another mask. lengths [b] int32 or PST_NONE: positions of a sample from its
 * length (0 to T) on are padding: no position attends to them, and they are 0 in out and get no
 * gradient. bidirectional: nonzero if positions also attend to later ones. */
PST_API pst_status pst_graph_add_masked_attention(pst_graph *graph, const char *name, uint32_t qkv,
                                                  uint32_t lengths, uint32_t heads,
                                                  int bidirectional, uint32_t *out);
/* Each element is 0 with probability rate (0 <= rate < 1), else divided by 1-rate; drawn from
 * (train.seed, name, sample). No effect in evaluation. out like x. */
PST_API pst_status pst_graph_add_dropout(pst_graph *graph, const char *name, uint32_t x, float rate,
                                         uint32_t *out);
/* out = a + b, of the same shape. */
PST_API pst_status pst_graph_add_residual(pst_graph *graph, const char *name, uint32_t a,
                                          uint32_t b, uint32_t *out);
/* logits [b,T,V]; targets [b,T] int32; negative targets give loss 0 and no gradient. losses
 * [b,T] in nats, fp32; training minimizes their mean over the batch, b T per micro-batch,
 * including those with negative targets. A graph for training ends with this operator. */
PST_API pst_status pst_graph_add_cross_entropy(pst_graph *graph, const char *name, uint32_t logits,
                                               uint32_t targets, uint32_t *losses);

/* Images have their channels last: [b,H,W,C]. Tensor ranks do not split these operators. */

/* bytes [b,H,W,C] int32, 0 to 255. out like bytes, floating point: bytes / 127.5 - 1. */
PST_API pst_status pst_graph_add_pixels(pst_graph *graph, const char *name, uint32_t bytes,
                                        uint32_t *out);
/* x [b,H,W,C]; weight [O,h,w,C]; bias [O] or PST_NONE; stride >= 1 and padding < h, w in pixels,
 * along both axes; the image is padded with 0. out [b, (H + 2 padding - h)/stride + 1, the same
 * for W, O]. */
PST_API pst_status pst_graph_add_convolution(pst_graph *graph, const char *name, uint32_t x,
                                             uint32_t weight, uint32_t bias, uint32_t stride,
                                             uint32_t padding, uint32_t *out);
/* x [..,C]; z like x, or PST_NONE; activation: PST_ACT_NONE or PST_ACT_RELU; eps > 0. out like
 * x: activation(norm(x) * weight + bias + z), normalized over all dimensions but C (Ioffe &
 * Szegedy 2015): during training with mean and variance of the micro-batch, in evaluation with
 * running ones. It adds its own parameters, [C] each: NAME.weight (one), NAME.bias (zero),
 * NAME.running_mean (zero) and NAME.running_var (one). A step sets the last two to 0.9 of their
 * old values plus 0.1 of the mean over its micro-batches. */
PST_API pst_status pst_graph_add_batch_norm(pst_graph *graph, const char *name, uint32_t x,
                                            uint32_t z, pst_activation activation, float eps,
                                            uint32_t *out);
/* x [b,H,W,C]. out: the maximum of each window of window x window pixels, placed as for
 * convolution; padding never is the maximum. */
PST_API pst_status pst_graph_add_max_pool(pst_graph *graph, const char *name, uint32_t x,
                                          uint32_t window, uint32_t stride, uint32_t padding,
                                          uint32_t *out);
/* x [b,H,W,C]. out [b,1,C]: the mean over all pixels. */
PST_API pst_status pst_graph_add_average_pool(pst_graph *graph, const char *name, uint32_t x,
                                              uint32_t *out);

/* The shape of a tensor: dim has space for PST_MAX_DIM, *n_dim of them are set. */
PST_API pst_status pst_graph_shape(const pst_graph *graph, uint32_t tensor, uint32_t *n_dim,
                                   uint64_t *dim);
/* Number of trainable values: each parameter once, without running statistics; 0 for NULL. */
PST_API uint64_t pst_graph_weights(const pst_graph *graph);
/* One line per parameter and operator. ENOMEM if `out` cannot be written; the caller keeps it
 * open. */
PST_API pst_status pst_graph_print(const pst_graph *graph, FILE *out);
#ifdef __cplusplus
}
#endif
#endif
