/* Problems for the search: made-up chains of operators on made-up clusters. */
#ifndef PST_TESTS_PARTITION_SEARCH_CASE_H
#define PST_TESTS_PARTITION_SEARCH_CASE_H
#include "partition/search/search.h"
#include <stdlib.h>
#include <string.h>

enum { CASE_DEVICES = 1024, CASE_NODES = 128, CASE_TABLES = 512 };

typedef struct {
    pst_cluster cluster;
    pst_cluster_device device[CASE_DEVICES];
    pst_cluster_node node[CASE_NODES];
    pst_device_kind kind[2];
    /* Of one sample on one device. */
    uint32_t n;
    uint64_t *f, *b, *w, *cross, *stash, *elements, *enter;
    uint32_t *other;   /* [n] how much longer operators take on kind 1 */
    uint32_t tile;     /* passes take as long as for the next multiple of these samples; 0: 1 */
    uint64_t work;     /* bytes that a pass works on */
    uint64_t exchange; /* ns of each operator's exchanges for each tensor rank beside the first */
    double norm_ns, step_ns, reduce_ns;
    uint32_t n_table, n_verified;
    struct {
        pst_search_key key;
        pst_cost_table *table;
    } made[CASE_TABLES];
    pst_search_problem problem;
} search_case;

static inline uint64_t *case_values(uint32_t n) { return calloc(n, sizeof(uint64_t)); }

static inline pst_cost_table *case_table(const search_case *k, uint32_t kind, uint32_t tensor,
                                         uint32_t sequence, uint32_t micro) {
    pst_cost_table *t = calloc(1, sizeof *t);
    uint32_t n = t->n = k->n;
    t->f_ns = case_values(n);
    t->b_ns = case_values(n);
    t->w_ns = case_values(n);
    t->exchange_ns = case_values(n);
    t->cross = case_values(n);
    t->elements = case_values(n);
    t->accumulated = case_values(n);
    t->kept = case_values(n);
    t->layer = case_values(n);
    for (int r = 0; r < PST_RECOMPUTE_COUNT; r++) {
        t->stash[r] = case_values(n);
        t->enter[r] = case_values(n);
        t->recomputed[r] = r ? case_values(n) : NULL;
        t->stash_to_w[r] = case_values(n);
        t->b_to_w[r] = case_values(n);
        t->recomputed_to_w[r] = r ? case_values(n) : NULL;
        if (r) t->again_ns[r] = case_values(n);
    }
    t->scratch = case_values(n);
    t->scratch_split = case_values(n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t exchange = k->exchange * (tensor - 1) * micro / tensor,
                 tiles = k->tile ? (micro + k->tile - 1) / k->tile * k->tile : micro,
                 longer = tiles * (kind ? k->other[i] : 1);
        t->f_ns[i] = k->f[i] * longer / tensor + exchange;
        t->b_ns[i] = k->b[i] * longer / tensor + exchange;
        t->w_ns[i] = k->w[i] * longer / tensor;
        t->exchange_ns[i] = 2 * exchange;
        t->again_ns[1][i] = t->f_ns[i] / 8;
        t->again_ns[2][i] = t->again_ns[3][i] = t->f_ns[i];
        t->layer[i] = i % 3 ? PST_LAYER_INSIDE : PST_LAYER_BEGINS;
        t->stash[0][i] = k->stash[i] * micro / tensor;
        t->stash[1][i] = t->stash[0][i] / 2;
        t->stash[2][i] = t->stash[0][i] / 16;
        t->stash[3][i] = t->stash[0][i] / 8;
        const uint32_t parts = sequence ? tensor : 1;
        t->cross[i] = i ? k->cross[i] * micro / parts : 0;
        for (int r = 0; r < PST_RECOMPUTE_COUNT; r++)
            t->enter[r][i] = i ? k->enter[i] * micro / tensor : 0;
        t->recomputed[1][i] = t->stash[0][i] / 2;
        t->recomputed[2][i] = t->recomputed[3][i] = t->stash[0][i];
        for (int r = 0; r < PST_RECOMPUTE_COUNT; r++) {
            if (r) t->recomputed_to_w[r][i] = t->recomputed[r][i] / 2;
            t->stash_to_w[r][i] = t->stash[r][i] / 2;
            t->b_to_w[r][i] = t->stash[0][i] / 4 + (r ? t->recomputed_to_w[r][i] : 0);
        }
        t->scratch[i] = k->work * micro / tensor;
        t->scratch_split[i] = t->scratch[i] / 2;
        t->elements[i] = t->accumulated[i] = k->elements[i] / tensor;
    }
    t->norm_ns = k->norm_ns;
    t->step_ns = k->step_ns;
    t->reduce_ns = k->reduce_ns;
    return t;
}

static inline void case_table_close(pst_cost_table *t) {
    free(t->f_ns);
    free(t->b_ns);
    free(t->w_ns);
    free(t->exchange_ns);
    free(t->cross);
    free(t->elements);
    free(t->accumulated);
    free(t->kept);
    free(t->layer);
    for (int r = 0; r < PST_RECOMPUTE_COUNT; r++) {
        free(t->stash[r]);
        free(t->again_ns[r]);
        free(t->enter[r]);
        free(t->recomputed[r]);
        free(t->stash_to_w[r]);

        free(t->b_to_w[r]);
        free(t->recomputed_to_w[r]);
    }
    free(t->scratch);
    free(t->scratch_split);
    free(t);
}

static inline pst_status case_get(void *arg, const pst_search_key *key,
                                  const pst_cost_table **table) {
    search_case *k = arg;
    for (uint32_t i = 0; i < k->n_table; i++)
        if (!memcmp(&k->made[i].key, key, sizeof *key)) {
            *table = k->made[i].table;
            return PST_OK;
        }
    if (k->n_table == CASE_TABLES) return pst_fail(PST_ENOMEM, "too many tables");
    pst_cost_table *t = case_table(k, key->kind, key->tensor, key->sequence, key->micro_batch);
    if (key->untied) t->elements[0] = t->accumulated[0] = k->elements[0];
    *table = t;
    k->made[k->n_table].key = *key;
    k->made[k->n_table++].table = t;
    return PST_OK;
}

static inline pst_search_values case_choices(uint32_t n, const uint32_t *value) {
    pst_search_values c = {.n = n};
    memcpy(c.value, value, n * sizeof *value);
    return c;
}
#define CHOICES(...)                                                                               \
    case_choices(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

/* A cluster of equal nodes, a chain of n operators that are still to be filled in, nothing open but
 * the degrees. */
static inline search_case *case_open(uint32_t n, uint32_t nodes, uint32_t each) {
    search_case *k = calloc(1, sizeof *k);
    k->n = n;
    k->f = case_values(n);
    k->b = case_values(n);
    k->w = case_values(n);
    k->cross = case_values(n);
    k->stash = case_values(n);
    k->elements = case_values(n);
    k->enter = case_values(n);
    k->other = calloc(n, sizeof *k->other);
    strcpy(k->kind[0].name, "made-up");
    k->cluster = (pst_cluster){.n_node = nodes,
                               .n_device = nodes * each,
                               .n_kind = 1,
                               .device = k->device,
                               .node = k->node,
                               .kind = k->kind};
    for (uint32_t d = 0; d < nodes * each; d++)
        k->device[d] = (pst_cluster_device){.speed = 1, .node = d / each};
    k->problem = (pst_search_problem){.cluster = &k->cluster,
                                      .n_item = n,
                                      .batch = 8,
                                      .weight_bytes = 4,
                                      .state_bytes = 8,
                                      .grad_bytes = 4,
                                      .pipeline = CHOICES(1, 2, 3, 4),
                                      .tensor = CHOICES(1, 2, 4),
                                      .data = CHOICES(1, 2, 3, 4),
                                      .micro_batch = CHOICES(1),
                                      .chunks = CHOICES(0),
                                      .zero = CHOICES(0),
                                      .sequence = CHOICES(0),
                                      .n_schedule = 1,
                                      .schedule = {"1f1b"},
                                      .recompute = {1},
                                      .table = case_get,
                                      .arg = k};
    return k;
}

static inline void case_close(search_case *k) {
    for (uint32_t i = 0; i < k->n_table; i++) case_table_close(k->made[i].table);
    free(k->f);
    free(k->b);
    free(k->w);
    free(k->cross);
    free(k->stash);
    free(k->elements);
    free(k->enter);
    free(k->other);
    free(k);
}

static inline uint64_t case_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline uint32_t case_below(uint64_t *state, uint32_t n) {
    return (uint32_t)(case_random(state) % n);
}

/* 3 to 8 operators on 2 to 4 devices, unequal speeds, links and memory in some cases. */
static inline search_case *case_small(uint64_t *state) {
    static const char *const schedule[] = {"1f1b",        "gpipe", "1f1b-early", "zb-h1",
                                           "interleaved", "zb-v",  "v-half",     "zb-h2"};
    uint32_t n = 3 + case_below(state, 6), devices = 2 + case_below(state, 3),
             nodes = devices == 4 ? 1 + case_below(state, 2) : 1;
    search_case *k = case_open(n, nodes, devices / nodes);
    int unequal = case_below(state, 2) == 0, limited = case_below(state, 2) == 0;
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        k->f[i] = 1000 + case_below(state, 20000);
        k->b[i] = k->f[i] / 2 + case_below(state, (uint32_t)k->f[i]);
        k->w[i] = case_below(state, 4) ? k->f[i] / 2 + case_below(state, (uint32_t)k->f[i]) : 0;
        k->cross[i] = case_below(state, 5000);
        k->stash[i] = case_below(state, 20000);
        k->elements[i] = case_below(state, 5000);
        all += k->stash[i] + 16 * k->elements[i];
    }
    for (uint32_t d = 0; d < devices; d++) {
        if (unequal) k->device[d].speed = (1 + case_below(state, 4)) * 0.5;
        if (limited) k->device[d].memory = all / 4 + case_below(state, (uint32_t)(all * 2));
    }
    for (uint32_t i = 0; i < nodes; i++) {
        double bw = 1e8 * (1 + case_below(state, 100));
        k->node[i].link[PST_LEVEL_DEVICE] = (pst_cluster_link){case_below(state, 2000), bw * 4};
        k->node[i].link[PST_LEVEL_NODE] = (pst_cluster_link){case_below(state, 10000), bw};
        k->node[i].node_bytes_per_s = bw;
    }
    k->exchange = case_below(state, 2000);
    k->work = case_below(state, 10000);
    k->norm_ns = 0.1;
    k->step_ns = 0.5;
    k->reduce_ns = 0.1;
    k->problem.batch = 4 + 4 * case_below(state, 2);
    k->problem.micro_batch = CHOICES(1, 2);
    if (case_below(state, 2)) k->problem.zero = CHOICES(0, 1);
    k->problem.recompute[PST_RECOMPUTE_FULL] = (uint8_t)case_below(state, 2);
    k->problem.n_schedule = 3;
    for (uint32_t i = 0, first = case_below(state, 8); i < 3; i++)
        k->problem.schedule[i] = schedule[(first + i * 3) % 8];
    return k;
}

/* Prepared, it takes less than so many per cent more than was thought, by what it is, not by what
 * was asked. */
static inline void case_take_more(pst_candidate *l, uint32_t percent) {
    uint64_t state = l->layout.pipeline * 8191u + l->layout.data * 127u + l->layout.tensor +
                     l->layout.micro_batch * 31u + (uint64_t)l->layout.schedule[0];
    l->exact = 1;
    for (uint32_t s = 0; s < l->layout.pipeline; s++)
        l->peak_bytes[s] += l->peak_bytes[s] * case_below(&state, percent) / 100;
}
#endif
