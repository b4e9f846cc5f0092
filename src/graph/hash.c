/* The hash of a graph: a chain of XXH64 over the fields, never over padding. */
#include "base/hash.h"
#include "graph/graph.h"
#include "graph/op.h"
#include <string.h>

static uint64_t hash_text(const char *text, uint64_t h) {
    return pst_hash64(text, strlen(text) + 1, h);
}
static uint64_t hash_u64(const uint64_t *value, uint32_t n, uint64_t h) {
    return pst_hash64(value, n * sizeof(*value), h);
}
static uint64_t hash_u32(const uint32_t *value, uint32_t n, uint64_t h) {
    return pst_hash64(value, n * sizeof(*value), h);
}

/* Without the one that pst_graph_leave_sums adds for a device. */
static uint32_t saved_by_model(const pst_node *d) { return d->n_saved - (d->attr.sum_parts != 0); }

static uint64_t hash_rope(const pst_rope *r, uint64_t h) {
    const float number[] = {r->theta, r->factor, r->low, r->high, r->attention};
    const uint32_t whole[] = {(uint32_t)r->scaling, r->context};
    return hash_u32(whole, 2, pst_hash64(number, sizeof number, h));
}

static uint64_t hash_node(const pst_node *d, uint64_t h) {
    uint32_t float_bits[2];
    memcpy(&float_bits[0], &d->attr.eps, sizeof(float));
    memcpy(&float_bits[1], &d->attr.rate, sizeof(float));
    uint32_t head[] = {d->attr.heads, d->attr.features, (uint32_t)d->attr.activation,
                       float_bits[0], float_bits[1],    d->n_in,
                       d->n_out,      d->n_param,       saved_by_model(d)};
    h = hash_u32(head, sizeof(head) / sizeof(head[0]),
                 hash_text(d->op->name, hash_text(d->name, h)));
    uint64_t slice[] = {d->attr.parts, d->attr.part, d->attr.length, d->attr.first, d->attr.total};
    if (d->attr.bidirectional) h = hash_u32(&d->attr.bidirectional, 1, h);
    uint32_t image[] = {d->attr.stride, d->attr.padding, d->attr.window};
    if (d->op->image) h = hash_u32(image, sizeof image / sizeof *image, h);
    uint32_t loss_bits[2];
    memcpy(&loss_bits[0], &d->attr.smoothing, sizeof(float));
    memcpy(&loss_bits[1], &d->attr.z_loss, sizeof(float));
    if (d->attr.smoothing != 0 || d->attr.z_loss != 0) h = hash_u32(loss_bits, 2, h);
    if (d->attr.wide) h = hash_u32(&d->attr.wide, 1, h);
    uint32_t reach[] = {d->attr.kv_heads, d->attr.window};
    if (d->attr.kv_heads || (!d->op->image && d->attr.window)) h = hash_u32(reach, 2, h);
    if (d->attr.rope.theta != 0) h = hash_rope(&d->attr.rope, h);
    if (d->attr.per_sample) h = hash_u32(&d->attr.per_sample, 1, h);
    if (d->attr.hits) h = hash_u32(&d->attr.hits, 1, h);
    if (d->attr.factor != 0) h = pst_hash64(&d->attr.factor, sizeof d->attr.factor, h);
    const pst_blocks *b = &d->attr.blocks;
    uint64_t blocks[] = {b->of, b->n, b->first, b->own, b->ranges, b->total};
    if (b->n) h = hash_u64(blocks, sizeof blocks / sizeof *blocks, h);
    if (d->attr.parts) h = hash_u64(slice, sizeof slice / sizeof *slice, h);
    h = hash_u32(d->out, d->n_out, hash_u32(d->in, d->n_in, h));
    h = hash_u32(d->use, d->n_param, hash_u32(d->param, d->n_param, h));
    for (uint32_t i = 0; i < saved_by_model(d); i++) {
        uint64_t saved[] = {d->saved[i].elements, d->saved[i].dtype};
        h = hash_u64(saved, 2, h);
    }
    return h;
}

uint64_t pst_graph_hash(const pst_graph *g) {
    uint32_t head[] = {g->micro_batch, (uint32_t)pst_graph_factors(g), g->n_tensor, g->n_param,
                       g->n_node};
    uint64_t h = hash_u32(head, 5, hash_text(g->name, 0));
    for (uint32_t i = 0; i < g->n_tensor; i++) {
        const pst_tensor *t = &g->tensor[i];
        uint32_t field[] = {(uint32_t)t->role, (uint32_t)t->dtype, t->n_dim, t->producer};
        h = hash_u64(t->dim, t->n_dim, hash_u32(field, 4, hash_text(t->name, h)));
    }
    for (uint32_t i = 0; i < g->n_param; i++) {
        const pst_param *p = &g->param[i];
        uint32_t std_bits;
        memcpy(&std_bits, &p->std, sizeof(std_bits));
        uint32_t kind = p->cache ? 3 : p->decay != 0;
        if (p->statistic) kind = 2;
        if (p->frozen) kind = 4;
        uint32_t field[] = {p->n_dim, (uint32_t)p->init, std_bits, kind, p->n_use};
        h = hash_u64(p->dim, p->n_dim, hash_u32(field, 5, hash_text(p->name, h)));
    }
    for (uint32_t i = 0; i < g->n_node; i++) h = hash_node(&g->node[i], h);
    return h;
}
