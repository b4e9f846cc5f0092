/* Random valid graphs for property tests: embedding, then operators on random earlier tensors (so
 * that tensors have several consumers), then a loss. Everything follows from the seed. */
#ifndef PST_TESTS_RANDOM_GRAPH_H
#define PST_TESTS_RANDOM_GRAPH_H
#include "graph/op.h"
#include <stdlib.h>

static inline uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A graph has no size to run here: any failure is a bug of the test. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) {                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, pst_error());                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline uint32_t random_param(pst_graph *g, uint64_t d0, uint64_t d1, uint64_t *state) {
    pst_param p = {.n_dim = d1 ? 2 : 1,
                   .dim = {d0, d1},
                   .init = (pst_init)(next_random(state) % 3),
                   .std = (float)(next_random(state) % 1000) / 7.0f,
                   .decay = (int)(next_random(state) % 2)};
    uint32_t index;
    snprintf(p.name, sizeof(p.name), "p%u", g->n_param);
    MUST(pst_graph_param(g, &p, &index));
    return index;
}

/* x in the graph's type, which products want. */
static inline uint32_t random_narrow(pst_graph *g, uint32_t x) {
    char name[PST_NAME_MAX];
    if (g->tensor[x].dtype == g->dtype) return x;
    snprintf(name, sizeof(name), "l.%u.n%u", g->n_node / 3, g->n_node);
    MUST(pst_graph_add(g, &(pst_new_node){"narrow", name, NULL, &x, 1, NULL, 0}, &x));
    return x;
}

/* Causal or not, with lengths of the samples or without. */
static inline uint32_t random_attention(pst_graph *g, uint32_t qkv, uint64_t state) {
    pst_attr attr = {.heads = 2, .bidirectional = (uint32_t)(next_random(&state) % 2)};
    uint32_t in[2] = {qkv, pst_graph_find_tensor(g, "lengths")}, out;
    char name[PST_NAME_MAX];
    snprintf(name, sizeof(name), "l.%u.n%u", g->n_node / 3, g->n_node);
    MUST(
        pst_graph_add(g,
                      &(pst_new_node){"attention", name, &attr, in,
                                      in[1] == PST_NONE ? 1 : 1 + next_random(&state) % 2, NULL, 0},
                      &out));
    return out;
}

static inline uint32_t random_op(pst_graph *g, uint32_t x, uint32_t y, uint32_t shared,
                                 uint64_t *state) {
    uint64_t C = g->tensor[x].dim[2];
    uint32_t in[2] = {x, y}, p[2], out;
    char name[PST_NAME_MAX];
    pst_attr attr = {.eps = 1e-5f, .heads = 2};
    uint64_t kind = next_random(state) % 6;
    if (kind == 1 || kind == 3) in[0] = random_narrow(g, x);
    if (kind > 3 && g->tensor[x].dtype != PST_F32) { /* an addition begins with the stream */
        in[0] = y;
        in[1] = x;
    }
    snprintf(name, sizeof(name), "l.%u.n%u", g->n_node / 3, g->n_node);
    switch (kind) {
    case 0:
        attr.wide = g->node[0].attr.wide & x;
        p[0] = random_param(g, C, 0, state);
        p[1] = random_param(g, C, 0, state);
        MUST(pst_graph_add(g, &(pst_new_node){"layer_norm", name, &attr, in, 1, p, 2}, &out));
        return out;
    case 1: /* q, k, v */
        p[0] = random_param(g, 3 * C, C, state);
        MUST(pst_graph_add(g, &(pst_new_node){"linear", name, &attr, in, 1, p, 1}, &in[0]));
        return random_attention(g, in[0], *state);
    case 2:
        attr.rate = 0.1f;
        MUST(pst_graph_add(g, &(pst_new_node){"dropout", name, &attr, in, 1, NULL, 0}, &out));
        return out;
    case 3:
        attr.activation = (pst_activation)(next_random(state) % 4);
        p[0] = next_random(state) % 2 ? shared : random_param(g, C, C, state);
        p[1] = random_param(g, C, 0, state);
        MUST(pst_graph_add(
            g, &(pst_new_node){"linear", name, &attr, in, 1, p, 1 + next_random(state) % 2}, &out));
        return out;
    default:
        MUST(pst_graph_add(g, &(pst_new_node){"add", name, NULL, in, 2, NULL, 0}, &out));
        return out;
    }
}

/* [b,T,8] throughout, a third of all in bf16, some in fp16, half of these with a stream of fp32;
 * one or two losses; a few tensors may lead to none. */
static inline pst_graph *random_graph(uint64_t seed) {
    uint64_t state = seed, b = 1 + next_random(&state) % 3, T = 1 + next_random(&state) % 5, C = 8;
    pst_graph *g;
    uint32_t tokens, targets, tensor[64], n = 1, n_op = (uint32_t)(1 + next_random(&state) % 20);
    MUST(pst_graph_open("random", (uint32_t)b, &g));
    g->dtype = seed % 5 == 0 ? PST_F16 : PST_F32;
    if (seed % 3 == 0) g->dtype = PST_BF16;
    MUST(pst_graph_data(g, "tokens", 2, (uint64_t[]){b, T}, &tokens));
    uint32_t lengths;
    if (seed % 4 == 1) MUST(pst_graph_data(g, "lengths", 1, (uint64_t[]){b}, &lengths));
    uint32_t table[2] = {random_param(g, 11, C, &state), random_param(g, T + 2, C, &state)};
    uint32_t shared = random_param(g, C, C, &state);
    pst_attr stream = {.wide = g->dtype != PST_F32 && seed % 2}; /* a residual stream of F32 */
    MUST(pst_graph_add(g,
                       &(pst_new_node){"embedding", "embedding", &stream, &tokens, 1, table,
                                       1 + next_random(&state) % 2},
                       &tensor[0]));
    while (n <= n_op) { /* mostly the newest tensor, sometimes an older one */
        uint32_t x = next_random(&state) % 3 ? tensor[n - 1] : tensor[next_random(&state) % n];
        uint32_t y = tensor[next_random(&state) % n];
        tensor[n++] = random_op(g, x, y, shared, &state);
    }
    /* late: data may stand anywhere */
    MUST(pst_graph_data(g, "targets", 2, (uint64_t[]){b, T}, &targets));
    for (uint32_t i = 0, n_loss = 1 + next_random(&state) % 2; i < n_loss; i++) {
        uint32_t logits, out, x = i == 0 ? tensor[n - 1] : tensor[next_random(&state) % n];
        char name[PST_NAME_MAX];
        x = random_narrow(g, x);
        snprintf(name, sizeof(name), "head%u", i);
        MUST(pst_graph_add(g, &(pst_new_node){"linear", name, NULL, &x, 1, &table[0], 1},
                           &logits)); /* tied */
        snprintf(name, sizeof(name), "loss%u", i);
        MUST(pst_graph_add(
            g,
            &(pst_new_node){"cross_entropy", name, NULL, (uint32_t[]){logits, targets}, 2, NULL, 0},
            &out));
    }
    return g;
}

/* The seed of a property test: PST_SEED, or `standard`. Printed, so that a failure can be
 * repeated. */
static inline uint64_t test_seed(uint64_t standard) {
    const char *text = getenv("PST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : standard;
    printf("seed %lu (PST_SEED repeats it)\n", (unsigned long)seed);
    return seed;
}
#endif
