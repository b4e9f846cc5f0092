/* The table of optimizer rules: what state a rule keeps per weight, and its hyper-parameters. The
 * arithmetic is in kernels/ (pst_flat of kernel.h). */
#ifndef PST_GRAPH_OPTIM_H
#define PST_GRAPH_OPTIM_H
#include "graph/graph.h"
#include <stdint.h>

typedef enum {
    PST_OPTIM_ADAMW,
    PST_OPTIM_SGD,
    PST_OPTIM_ADAM,
    PST_OPTIM_LAMB,
    PST_OPTIM_MUON,
    PST_OPTIM_COUNT
} pst_optim_kind;
typedef struct {
    pst_optim_kind kind;
    const char *name;          /* "adamw", "sgd", ...: value of train.optimizer */
    uint32_t n_state;          /* number of state arrays per parameter */
    const char *state_name[2]; /* suffixes in checkpoints: "m", "v" | "momentum" */
    int whole;                 /* 1: some parameters are updated as a whole (pst_param.whole) */
    pst_dtype state;           /* type of the state arrays: PST_F32 or PST_BF16 */
} pst_optim_row;
/* PST_OPTIM_COUNT rows, in the order of pst_optim_kind, with fp32 states. */
const pst_optim_row *pst_optim_rows(void);
const pst_optim_row *pst_optim_find(const char *name); /* with fp32 states */
/* The same rule with states of this type, PST_F32 or PST_BF16. */
const pst_optim_row *pst_optim_with(const pst_optim_row *row, pst_dtype state);

/* Number of state arrays of a parameter; 0 without a rule. least: the smallest of any parameter. */
uint32_t pst_optim_states(const pst_optim_row *row, const pst_param *param);
uint32_t pst_optim_least_states(const pst_optim_row *row);
/* Bytes of an element of a state array. */
uint64_t pst_optim_state_bytes(const pst_optim_row *row);
/* Sets pst_param.whole and .matrix of an unsplit graph. LAMB: the parameters that decay; the others
 * have no trust ratio, so for them it is Adam. Muon: the matrices of linear operators, except the
 * output layer and those that are used twice; the others follow AdamW. EINPUT: the model has none.
 */
pst_status pst_optim_assign(const pst_optim_row *row, pst_graph *g);
/* The rule of a parameter that is not updated as a whole. */
pst_optim_kind pst_optim_flat(const pst_optim_row *row);

/* Constants of one update. AdamW (Loshchilov & Hutter 2019, decoupled decay as in PyTorch): w -=
 * lr*decay*w; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps)
 * with c1 = 1-b1^t, c2 = 1-b2^t and g already scaled by grad_scale. Adam (Kingma & Ba 2015): the
 * same with g + decay*w instead of g and without the first decay. SGD: x = g + decay*w, buf =
 * momentum*buf + x (t = 1: buf = x), w -= lr*buf, with nesterov w -= lr*(x + momentum*buf). LAMB
 * (You et al. 2020): u = (m/c1) / (sqrt(v/c2) + eps) + decay*w, w -= lr * |w|/|u| * u, where the
 * ratio of the norms is 1 if one of them is 0, and for parameters without decay. Muon:
 * kernels/muon.h.
 *
 * States in bf16 are widened, updated in fp32, and rounded at random when they are stored
 * (stochastic rounding: up with the probability that keeps the mean). With nearest rounding, v
 * would stay where it is: a step changes it by 1 - beta2, which is less than half a unit in its
 * last place. The random bits are a hash of noise, weight and gradient of the element
 * (pst_optim_random), so they depend on no layout. AdamW, Adam, SGD and Muon take the step from the
 * states before rounding, LAMB from those that it has stored. */
typedef struct {
    float lr, decay, beta1, beta2, eps, momentum, grad_scale;
    float correction1, correction2; /* 1 - beta^t, computed in double */
    uint64_t t;                     /* 1 for the first update */
    int nesterov;                   /* SGD */
    pst_dtype state;                /* type of the state arrays: PST_F32 or PST_BF16 */
    uint32_t noise;                 /* PST_BF16: a random number of the step (pst_optim_noise) */
} pst_optim_hyper;
/* Sets h->noise for step h->t of a run with this seed. */
void pst_optim_noise(pst_optim_hyper *h, uint64_t seed);

/* 32 random bits for an element whose fp32 weight before the step, and sum of gradients, have these
 * bits: MurmurHash3's finalizer (Appleby 2011), a bijection, of both and the random number of the
 * step. */
static inline uint32_t pst_optim_random(uint32_t noise, uint32_t weight, uint32_t grad) {
    uint32_t x = grad ^ weight << 9 ^ noise;
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}
/* The bf16 number above or below the finite number with these bits; random < 2^16. */
static inline uint16_t pst_optim_rounded(uint32_t bits, uint32_t random) {
    return (uint16_t)((bits + random) >> 16);
}
#endif
