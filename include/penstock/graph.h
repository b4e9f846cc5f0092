/* A model as a graph: operators in the order in which they run, the tensors between them, and the
 * parameters that training changes. It says what is computed for one micro-batch, never where; a
 * plan (plan.h) says that.
 *
 * Shapes: b micro-batch, T positions (tokens of a sample), C channels, V vocabulary. Tensors and
 * parameters are named by numbers that the adding functions return and that belong to this graph. A
 * function that fails leaves the graph as it was. EINPUT: a NULL, a name that is taken, empty or
 * not printable, a shape that does not fit; pst_error() names the operator and says what would fit.
 * ENOMEM. A graph belongs to one thread at a time; once complete it may be read from several. */
#ifndef PENSTOCK_GRAPH_H
#define PENSTOCK_GRAPH_H
#include "penstock/config.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_graph pst_graph;

/* Where an optional tensor or parameter is left out. */
#define PST_NONE UINT32_MAX
enum { PST_MAX_DIM = 4 }; /* dimensions of a shape, at most */

/* First values of a parameter; NORMAL has mean 0 and is drawn from (train.seed, name), whatever the
 * layout. */
typedef enum { PST_INIT_ZERO, PST_INIT_ONE, PST_INIT_NORMAL } pst_init;
typedef enum { PST_ACT_NONE, PST_ACT_GELU_TANH, PST_ACT_GELU_ERF, PST_ACT_RELU } pst_activation;

/* An empty graph for micro-batches of so many samples. *graph is the caller's; free with
 * pst_graph_close. */
PST_API pst_status pst_graph_open(const char *name, uint32_t micro_batch, pst_graph **graph);
/* Instead: the model that a configuration names (model.kind gpt, bert, ...), for
 * train.micro_batch, train.precision and train.residual. Its data tensors are what that model
 * reads: "tokens" and "targets" [b,T], of bert "lengths" [b], too, or "pixels" [b,H,W,C] and
 * "targets" [b,1]. */
PST_API pst_status pst_graph_build(const pst_config *config, pst_graph **graph);
/* NULL: nothing. Plans and sessions made from the graph stay valid. */
PST_API void pst_graph_close(pst_graph *graph);
/* "fp32" (as opened), "tf32", "bf16", "fp16" or "fp8", as train.precision; before the first
 * operator is added. */
PST_API pst_status pst_graph_set_precision(pst_graph *graph, const char *precision);

/* What the program feeds for every micro-batch: int32 of the shape dim[0..n_dim), dim[0] being
 * b. */
PST_API pst_status pst_graph_add_data(pst_graph *graph, const char *name, uint32_t n_dim,
                                      const uint64_t *dim, uint32_t *tensor);
/* A trainable array; its name is also its name in checkpoints. std: of PST_INIT_NORMAL. decay: not
 * 0 when weight decay applies to it. It may be used by several operators (tied weights). */
PST_API pst_status pst_graph_add_param(pst_graph *graph, const char *name, uint32_t n_dim,
                                       const uint64_t *dim, pst_init init, float std, int decay,
                                       uint32_t *param);

/* Operators, appended in the order of the calls. *out: the tensor that they make, which later ones
 * may read. */

/* tokens [b,T] int32; table [V,C]; positions [at least T,C] or PST_NONE. out [b,T,C]: table[token]
 * + positions[t]. */
PST_API pst_status pst_graph_add_embedding(pst_graph *graph, const char *name, uint32_t tokens,
                                           uint32_t table, uint32_t positions, uint32_t *out);
/* x [..,K]; weight [N,K]; bias [N] or PST_NONE. out [..,N]: activation(x weight^T + bias). */
PST_API pst_status pst_graph_add_linear(pst_graph *graph, const char *name, uint32_t x,
                                        uint32_t weight, uint32_t bias, pst_activation activation,
                                        uint32_t *out);
/* The same with parameters of its own: NAME.weight [n,K], which starts normal with this std;
 * NAME.bias [n], zero. */
PST_API pst_status pst_graph_add_dense(pst_graph *graph, const char *name, uint32_t x, uint64_t n,
                                       float std, pst_activation activation, uint32_t *out);
/* x [..,C]; weight, bias [C]; eps > 0. out like x: normalised over C (Ba, Kiros & Hinton 2016). */
PST_API pst_status pst_graph_add_layer_norm(pst_graph *graph, const char *name, uint32_t x,
                                            uint32_t weight, uint32_t bias, float eps,
                                            uint32_t *out);
/* Causal self-attention. qkv [b,T,3C]: blocks of C queries, keys and values; heads divides C. out
 * [b,T,C]. */
PST_API pst_status pst_graph_add_attention(pst_graph *graph, const char *name, uint32_t qkv,
                                           uint32_t heads, uint32_t *out);
/* The same with a mask of one's own. lengths [b] int32 or PST_NONE: positions of a sample from its
 * length (0 to T) on are padding: no position sees them, and they are 0 in out and get no gradient.
 * bidirectional: not 0 when a position sees later ones, too. */
PST_API pst_status pst_graph_add_masked_attention(pst_graph *graph, const char *name, uint32_t qkv,
                                                  uint32_t lengths, uint32_t heads,
                                                  int bidirectional, uint32_t *out);
/* Each element is 0 with probability rate (0 <= rate < 1), else divided by 1-rate; drawn from
 * (train.seed, name, sample). Evaluation passes x on. out like x. */
PST_API pst_status pst_graph_add_dropout(pst_graph *graph, const char *name, uint32_t x, float rate,
                                         uint32_t *out);
/* out = a + b, of one shape. */
PST_API pst_status pst_graph_add_residual(pst_graph *graph, const char *name, uint32_t a,
                                          uint32_t b, uint32_t *out);
/* logits [b,T,V]; targets [b,T] int32, negative: 0 and no gradient. losses [b,T] in nats, fp32;
 * training minimises their mean over the batch, b T of them a micro-batch, those of negative
 * targets counted. A graph that trains ends with it. */
PST_API pst_status pst_graph_add_cross_entropy(pst_graph *graph, const char *name, uint32_t logits,
                                               uint32_t targets, uint32_t *losses);

/* Images have their channels last: [b,H,W,C]. Tensor ranks do not share them out. */

/* bytes [b,H,W,C] int32, 0 to 255. out like it, floating point: bytes / 127.5 - 1. */
PST_API pst_status pst_graph_add_pixels(pst_graph *graph, const char *name, uint32_t bytes,
                                        uint32_t *out);
/* x [b,H,W,C]; weight [O,h,w,C]; bias [O] or PST_NONE; stride >= 1 and padding < h, w in pixels,
 * along both axes; 0 lies outside of the image. out [b, (H + 2 padding - h)/stride + 1, likewise of
 * W, O]. */
PST_API pst_status pst_graph_add_convolution(pst_graph *graph, const char *name, uint32_t x,
                                             uint32_t weight, uint32_t bias, uint32_t stride,
                                             uint32_t padding, uint32_t *out);
/* x [..,C]; z like x, or PST_NONE; activation: PST_ACT_NONE or PST_ACT_RELU; eps > 0. out like x:
 * activation(norm(x) * weight + bias + z), normalised over all but C (Ioffe & Szegedy 2015): with
 * the mean and variance of the micro-batch while training, with running ones in evaluation. Its
 * parameters are its own, [C] each: NAME.weight (one), NAME.bias (zero), NAME.running_mean (zero)
 * and NAME.running_var (one). A step moves the last two by a tenth of the way to the mean over its
 * micro-batches. */
PST_API pst_status pst_graph_add_batch_norm(pst_graph *graph, const char *name, uint32_t x,
                                            uint32_t z, pst_activation activation, float eps,
                                            uint32_t *out);
/* x [b,H,W,C]. out: the largest of each window x window pixels, windows placed as convolution's;
 * what lies outside of the image is smaller than all. */
PST_API pst_status pst_graph_add_max_pool(pst_graph *graph, const char *name, uint32_t x,
                                          uint32_t window, uint32_t stride, uint32_t padding,
                                          uint32_t *out);
/* x [b,H,W,C]. out [b,1,C]: the mean over all pixels. */
PST_API pst_status pst_graph_add_average_pool(pst_graph *graph, const char *name, uint32_t x,
                                              uint32_t *out);

/* The shape of a tensor: dim has room for PST_MAX_DIM, *n_dim of them are set. */
PST_API pst_status pst_graph_shape(const pst_graph *graph, uint32_t tensor, uint32_t *n_dim,
                                   uint64_t *dim);
/* Trainable numbers, each parameter once, running statistics left out; 0 for NULL. */
PST_API uint64_t pst_graph_weights(const pst_graph *graph);
/* One line per parameter and operator. ENOMEM when `out`, which stays the caller's, cannot be
 * written. */
PST_API pst_status pst_graph_print(const pst_graph *graph, FILE *out);
#ifdef __cplusplus
}
#endif
#endif
