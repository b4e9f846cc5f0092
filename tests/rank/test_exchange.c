/* Exchanges of a tensor group over `self`, several groups at once: what arrives is what each
 * operator's row promises, for fp32 and bf16, one sample and several, sizes that do not divide; all
 * ranks have the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "comm/transport/transport.h"
#include "rank/exchange.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5, POSITIONS = 11, CHANNELS = 6, N = 3 * POSITIONS * CHANNELS };

static void must(pst_status status) {
    if (status != PST_OK) fail_msg("%s", pst_error());
}

typedef struct {
    pst_graph *g;
    const pst_node *node;
    uint64_t n_from, n_to;
    float from[N * MOST], to[N * MOST];
    void *room_from, *room_to, *scratch;
} member;

/* Samples, their type, and ranks of a group. */
typedef struct {
    uint64_t b;
    pst_dtype dtype;
    uint32_t parts;
} sizes;

/* The operator on what an embedding makes, as long as it has to be. */
static void open_member(member *m, const char *op, const sizes *of, uint32_t part, int w) {
    uint64_t b = of->b;
    uint32_t parts = of->parts;
    pst_attr attr = {.parts = parts, .part = part, .length = POSITIONS};
    uint64_t own = pst_part_of(POSITIONS, parts, part).count,
             dim[] = {b, !strcmp(op, "tensor_gather") ? own : POSITIONS};
    pst_param table = {.name = "table", .n_dim = 2, .dim = {2, CHANNELS}};
    uint32_t tokens, param, x, targets;
    must(pst_graph_open("test", (uint32_t)b, &m->g));
    m->g->dtype = of->dtype;
    must(pst_graph_data(m->g, "tokens", 2, dim, &tokens));
    must(pst_graph_data(m->g, "targets", 2, dim, &targets));
    must(pst_graph_param(m->g, &table, &param));
    must(pst_graph_add(m->g, &(pst_new_node){"embedding", "embedding", NULL, &tokens, 1, &param, 1},
                       &x));
    if (!strcmp(op, "tensor_stack")) {
        uint32_t in[] = {x, targets};
        must(pst_graph_add(m->g,
                           &(pst_new_node){"vocabulary_part", "part",
                                           &(pst_attr){.total = CHANNELS}, in, 2, NULL, 0},
                           &x));
    }
    must(pst_graph_add(m->g, &(pst_new_node){op, op, &attr, &x, 1, NULL, 0}, &x));
    m->node = m->g->node + m->g->n_node - 1;
    const pst_tensor *in = m->g->tensor + m->node->in[0], *out = m->g->tensor + m->node->out[0];
    m->n_from = pst_tensor_elements(w ? out : in);
    m->n_to = pst_tensor_elements(w ? in : out);
}

static uint64_t bytes_of(const member *m, uint64_t n) {
    return n * pst_dtype_bytes(m->g->tensor[m->node->in[0]].dtype);
}

static void fill(member *m, uint64_t key, int in_place) {
    pst_dtype dtype = m->g->tensor[m->node->in[0]].dtype;
    int wide = dtype == PST_F32;
    m->room_from = malloc(bytes_of(m, m->n_from));
    m->room_to = in_place ? m->room_from : malloc(bytes_of(m, m->n_to));
    pst_rng_normal(key, 0, 1, m->from, m->n_from);
    for (uint64_t i = 0; i < m->n_from; i++) {
        uint16_t narrow = pst_half_from_f32(dtype, m->from[i]);
        if (wide) ((float *)m->room_from)[i] = m->from[i];
        else {
            ((uint16_t *)m->room_from)[i] = narrow;
            m->from[i] = pst_f32_from_half(dtype, narrow);
        }
    }
}

static void fetch(member *m) {
    pst_dtype dtype = m->g->tensor[m->node->in[0]].dtype;
    int wide = dtype == PST_F32;
    for (uint64_t i = 0; i < m->n_to; i++)
        m->to[i] =
            wide ? ((float *)m->room_to)[i] : pst_f32_from_half(dtype, ((uint16_t *)m->room_to)[i]);
}

/* Element i of what rank `part` should have, in double; *sums: of how many it is a sum. */
static double want(const member *all, const sizes *of, uint32_t part, pst_exchange kind, uint64_t i,
                   int *sums) {
    uint64_t c = i % CHANNELS, per = POSITIONS;
    uint32_t parts = of->parts;
    pst_part own = pst_part_of(POSITIONS, parts, part);
    *sums = 1;
    if (kind == PST_EXCHANGE_STACK) return all[i / all[0].n_from].from[i % all[0].n_from];
    if (kind == PST_EXCHANGE_GATHER) {
        uint64_t t = i / CHANNELS % per, r = i / CHANNELS / per;
        for (uint32_t k = 0; k < parts; k++) {
            pst_part p = pst_part_of(POSITIONS, parts, k);
            if (t >= p.first && t < p.first + p.count)
                return all[k].from[(r * p.count + t - p.first) * CHANNELS + c];
        }
    }
    if (kind == PST_EXCHANGE_SCATTER)
        i = ((i / CHANNELS / own.count) * per + own.first + i / CHANNELS % own.count) * CHANNELS +
            c;
    double sum = 0;
    for (uint32_t k = 0; k < parts; k++) sum += all[k].from[i];
    *sums = (int)parts;
    assert_true(i < of->b * per * CHANNELS);
    return sum;
}

static void compare(member *all, uint32_t parts, pst_exchange kind, uint64_t b, pst_dtype dtype) {
    const sizes of = {.b = b, .dtype = dtype, .parts = parts};
    for (uint32_t k = 0; k < parts; k++)
        for (uint64_t i = 0; i < all[k].n_to; i++) {
            int sums;
            double w = want(all, &of, k, kind, i, &sums), room = dtype == PST_F32 ? 4e-6 : 0.05;
            if (sums == 1) room = 0;
            if (!(fabs(all[k].to[i] - w) <= room))
                fail_msg("kind %d, %u ranks, rank %u: element %u is %g, not %g", (int)kind, parts,
                         k, (unsigned)i, (double)all[k].to[i], w);
            if (kind == PST_EXCHANGE_SUM) assert_true(all[k].to[i] == all[0].to[i]);
        }
}

/* Two groups side by side. */
static void check(const char *op, int backward, uint64_t b, pst_dtype dtype, uint32_t parts) {
    static member all[2][MOST];
    pst_exchanger *x[2 * MOST] = {0};
    pst_self_hub *hub;
    pst_pass pass = backward ? PST_PASS_B : PST_PASS_F;
    must(pst_self_hub_open(2 * parts, NULL, &hub));
    for (uint32_t r = 0; r < 2 * parts; r++) {
        uint32_t members[MOST];
        member *m = &all[r / parts][r % parts];
        for (uint32_t k = 0; k < parts; k++) members[k] = r / parts * parts + k;
        open_member(m, op, &(sizes){b, dtype, parts}, r % parts, backward);
        pst_exchange kind = pst_node_exchange(m->node, 0, pass);
        fill(m, 7 + r, kind == PST_EXCHANGE_SUM);
        m->scratch = malloc(pst_exchange_scratch(m->g, m->node, pass) + 1);
        must(pst_exchanger_open(pst_self_hub_endpoint(hub, r), members, parts, &x[r]));
        const pst_exchange_memory memory = {m->room_from, m->room_to, m->scratch};
        must(pst_exchange_start(x[r], m->g, m->node, pass, &memory));
    }
    for (uint32_t left = 2 * parts; left;) {
        left = 0;
        for (uint32_t r = 0; r < 2 * parts; r++) {
            pst_status status = x[r] ? pst_exchange_test(x[r]) : PST_OK;
            if (status == PST_BUSY) left++;
            else must(status);
            if (status == PST_BUSY || !x[r]) continue;
            pst_exchanger_close(x[r]);
            x[r] = NULL;
        }
    }
    for (int group = 0; group < 2; group++) {
        for (uint32_t k = 0; k < parts; k++) fetch(&all[group][k]);
        compare(all[group], parts, pst_node_exchange(all[group][0].node, 0, pass), b, dtype);
    }
    for (uint32_t r = 0; r < 2 * parts; r++) {
        member *m = &all[r / parts][r % parts];
        if (m->room_to != m->room_from) free(m->room_to);
        free(m->room_from);
        free(m->scratch);
        pst_graph_close(m->g);
    }
    pst_self_hub_close(hub);
}

static void test_all(void **state) {
    (void)state;
    for (uint32_t parts = 1; parts <= MOST; parts++)
        for (uint64_t b = 1; b <= 3; b += 2)
            for (int type = 0; type < 3; type++) {
                pst_dtype dtype = (pst_dtype[]){PST_F32, PST_BF16, PST_F16}[type];
                check("tensor_sum", 0, b, dtype, parts);
                check("tensor_copy", 1, b, dtype, parts);
                check("tensor_gather", 0, b, dtype, parts);
                check("tensor_gather", 1, b, dtype, parts);
                check("tensor_scatter", 0, b, dtype, parts);
                check("tensor_scatter", 1, b, dtype, parts);
                check("tensor_stack", 0, b, PST_F32, parts);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
