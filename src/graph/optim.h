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
    uint32_t n_state;          /* number of fp32 state arrays per parameter */
    const char *state_name[2]; /* suffixes in checkpoints: "m", "v" | "momentum" */
    int whole;                 /* 1: some parameters are updated as a whole (pst_param.whole) */
} pst_optim_row;
/* PST_OPTIM_COUNT rows, in the order of pst_optim_kind. */
const pst_optim_row *pst_optim_rows(void);
const pst_optim_row *pst_optim_find(const char *name);

/* Number of state arrays of a parameter; 0 without a rule. least: the smallest of any parameter. */
uint32_t pst_optim_states(const pst_optim_row *row, const pst_param *param);
uint32_t pst_optim_least_states(const pst_optim_row *row);
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
 * kernels/whole.h. */
typedef struct {
    float lr, decay, beta1, beta2, eps, momentum, grad_scale;
    float correction1, correction2; /* 1 - beta^t, computed in double */
    uint64_t t;                     /* 1 for the first update */
    int nesterov;                   /* SGD */
} pst_optim_hyper;
#endif
