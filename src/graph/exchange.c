/* See exchange.h. */
#include "graph/exchange.h"
#include "graph/split.h"

enum { PACK = 16 };

const pst_tensor *pst_exchange_longer(const pst_graph *g, const pst_node *node) {
    const pst_tensor *in = g->tensor + node->in[0], *out = g->tensor + node->out[0];
    return pst_tensor_elements(in) > pst_tensor_elements(out) ? in : out;
}

pst_exchange_dtypes pst_exchange_dtypes_of(const pst_graph *g, const pst_node *node,
                                           pst_pass pass) {
    const pst_tensor *in = g->tensor + node->in[0], *out = g->tensor + node->out[0];
    if (pass == PST_PASS_F) return (pst_exchange_dtypes){in->dtype, out->dtype};
    return (pst_exchange_dtypes){pst_tensor_grad(g, out), pst_tensor_grad(g, in)};
}

uint64_t pst_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass) {
    const pst_tensor *t = pst_exchange_longer(g, node);
    const pst_exchange_dtypes of = pst_exchange_dtypes_of(g, node, pass);
    switch ((pst_exchange)node->op->exchange[pass]) {
    case PST_EXCHANGE_SUM: return of.to == PST_F32 ? 0 : pst_tensor_elements(t) * sizeof(float);
    case PST_EXCHANGE_GATHER:
        return t->dim[0] == 1 ? 0 : pst_tensor_elements(t) * pst_dtype_bytes(of.to);
    case PST_EXCHANGE_SCATTER: return pst_tensor_elements(t) * sizeof(float);
    default: return 0;
    }
}

pst_far_samples pst_far_samples_of(const pst_graph *g, const pst_node *node, pst_exchange kind) {
    const pst_tensor *t = pst_exchange_longer(g, node);
    int along = kind == PST_EXCHANGE_GATHER || kind == PST_EXCHANGE_SCATTER;
    uint64_t samples = along ? t->dim[0] : 1;
    return (pst_far_samples){samples, pst_tensor_bytes(t) / samples};
}

pst_far_part pst_far_part_of(const pst_graph *g, const pst_node *node, pst_exchange kind,
                             uint32_t n, uint32_t k) {
    const pst_tensor *t = pst_exchange_longer(g, node);
    pst_far_samples all = pst_far_samples_of(g, node, kind);
    int along = kind == PST_EXCHANGE_GATHER || kind == PST_EXCHANGE_SCATTER;
    /* Sums are split at multiples of 16 bytes, where possible: so many are read and written at a
     * time. */
    uint64_t of = all.whole % PACK ? pst_tensor_elements(t) : all.whole / PACK;
    if (kind == PST_EXCHANGE_STACK) of = n;
    if (along) of = t->dim[1];
    uint64_t unit = all.whole / of;
    pst_part p = pst_part_of(of, n, k);
    return (pst_far_part){p.first * unit, p.count * unit};
}

/* The part of this graph's rank. */
static pst_far_part own_part(const pst_graph *g, const pst_node *node, pst_exchange kind) {
    return pst_far_part_of(g, node, kind, node->attr.parts, node->attr.part);
}

/* Sums: scratch holds what the other ranks send for this rank's part; before it, if there are
 * several samples, all parts in the form in which they are sent. Gather: if there are several
 * samples, the parts of the other ranks. */
uint64_t pst_far_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass) {
    pst_exchange kind = (pst_exchange)node->op->exchange[pass];
    if (kind == PST_EXCHANGE_NONE || kind == PST_EXCHANGE_COPY || kind == PST_EXCHANGE_STACK)
        return 0;
    pst_far_samples all = pst_far_samples_of(g, node, kind);
    uint64_t own = all.samples * own_part(g, node, kind).bytes, whole = all.samples * all.whole;
    if (kind == PST_EXCHANGE_GATHER) return all.samples > 1 ? whole - own : 0;
    return (node->attr.parts - 1) * own + (all.samples > 1 ? whole : 0);
}

uint64_t pst_far_exchange_message(const pst_graph *g, const pst_node *node, pst_pass pass) {
    pst_exchange kind = (pst_exchange)node->op->exchange[pass];
    uint64_t most = 0;
    if (kind == PST_EXCHANGE_NONE || kind == PST_EXCHANGE_COPY) return 0;
    for (uint32_t k = 0; k < node->attr.parts; k++) {
        uint64_t bytes = pst_far_samples_of(g, node, kind).samples *
                         pst_far_part_of(g, node, kind, node->attr.parts, k).bytes;
        if (bytes > most) most = bytes;
    }
    return most;
}
