/* pst_graph_pad: gaps between rows, and padding after weights, for devices that need them. Only
 * logits get gaps, between the product that computes them and the loss that reads them: their last
 * dimension is the vocabulary, whose size is seldom a multiple of what matrix units read (50257 in
 * GPT-2), and they are among the largest tensors. */
#include "graph/graph.h"
#include "graph/op.h"
#include <string.h>

enum {
    WIDTH = 16, /* bytes that a matrix unit reads at a time */
    UNIT = 64 /* a row with a gap is a multiple of so many elements: of a cache line of 128 bytes */
};

static int is_loss(const pst_node *node) {
    static const char *const names[] = {"cross_entropy", "vocabulary_part", "vocabulary_loss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(node->op->name, names[i])) return 1;
    return 0;
}

/* Only losses read it, as their logits. */
static int only_losses_read(const pst_graph *g, uint32_t tensor) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            if (g->node[i].in[k] != tensor) continue;
            if (k || !is_loss(g->node + i)) return 0;
            n++;
        }
    return n > 0;
}

static int wants_gaps(const pst_graph *g, const pst_node *node) {
    const pst_tensor *y = g->tensor + node->out[0];
    return !strcmp(node->op->name, "linear") && node->attr.activation == PST_ACT_NONE &&
           y->role == PST_TENSOR_ACTIVATION &&
           y->dim[y->n_dim - 1] * pst_dtype_bytes(y->dtype) % WIDTH &&
           only_losses_read(g, node->out[0]);
}

/* The weight has one reader, which multiplies in F8: two F8 copies need as many bytes as the weight
 * itself. */
static int wants_copies(const pst_graph *g, const pst_node *node) {
    uint32_t n = 0;
    if (strcmp(node->op->name, "linear") || pst_node_factors(g, node) != PST_F8) return 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        n += !strcmp(g->node[i].op->name, "linear") && g->node[i].param[0] == node->param[0];
    return n == 1;
}

void pst_graph_pad(pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        const pst_node *node = g->node + i;
        if (wants_copies(g, node)) {
            pst_param *weight = g->param + node->param[0];
            weight->pad = pst_param_elements(weight);
        }
        if (!wants_gaps(g, node)) continue;
        pst_tensor *y = g->tensor + node->out[0];
        uint64_t n = y->dim[y->n_dim - 1];
        y->pitch = (n + UNIT - 1) / UNIT * UNIT;
        for (uint32_t k = 0; k < node->n_param; k++) {
            pst_param *p = g->param + node->param[k];
            uint64_t zeros = (y->pitch - n) * (pst_param_elements(p) / n);
            if (zeros > p->pad) p->pad = zeros;
        }
    }
}
