/* What no cut is below, beside cuts of made-up chains: random ones, and from these on neighbours
 * that take less time. */
#include "partition/search/bound.h"
#include "partition/search/candidates.h"
#include "partition/search/cut.h"
#include "partition/search/score.h"
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

enum { CASES = 150, RESTS = 50, STARTS = 3, DESCENTS = 40 };

/* Equal devices, blocks that repeat in some cases; few micro-batches for many stages, and rounds of
 * other sizes. */
static search_case *case_even(uint64_t *state) {
    uint32_t n = 8 + case_below(state, 17), nodes = 1 + case_below(state, 3),
             each = 2 + case_below(state, 5);
    uint32_t period = 1 + case_below(state, n);
    search_case *k = case_open(n, nodes, each);
    for (uint32_t i = 0; i < n; i++) {
        int again = i >= period;
        k->f[i] = again ? k->f[i - period] : 1 + case_below(state, 20000);
        k->b[i] = again ? k->b[i - period] : case_below(state, 30000);
        k->w[i] = again ? k->w[i - period] : case_below(state, 20000);
        k->elements[i] =
            again ? k->elements[i - period] : case_below(state, 4) * case_below(state, 50000);
        k->cross[i] = case_below(state, 2000);
    }
    for (uint32_t i = 0; i < nodes; i++) {
        double bw = 1e8 * (1 + case_below(state, 100));
        k->node[i].link[PST_LEVEL_DEVICE] = (pst_cluster_link){case_below(state, 2000), bw * 4};
        k->node[i].link[PST_LEVEL_NODE] = (pst_cluster_link){case_below(state, 10000), bw};
        k->node[i].node_bytes_per_s = case_below(state, 2) ? bw * each : 0;
    }
    k->norm_ns = 0.1;
    k->step_ns = 0.5;
    k->reduce_ns = 0.1;
    k->exchange = case_below(state, 2000);
    k->problem.batch = 2 + case_below(state, 30);
    k->problem.micro_batch = CHOICES(1, 2 + case_below(state, 4));
    k->tile = 1 + case_below(state, 3);
    k->problem.zero = CHOICES(0, 1, 2);
    k->problem.chunks = CHOICES(0, 1, 2, 3, 4);
    k->problem.recompute[PST_RECOMPUTE_NONE] = (uint8_t)(case_below(state, 4) > 0);
    k->problem.recompute[PST_RECOMPUTE_FULL] = 1;
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    for (k->problem.n_schedule = 0; k->problem.n_schedule + 1 < n_row; k->problem.n_schedule++)
        k->problem.schedule[k->problem.n_schedule] = row[k->problem.n_schedule].name;
    return k;
}

static uint64_t score_within(pst_search_context *x, const pst_search_config *c, pst_candidate *l,
                             uint64_t limit) {
    memset(l->layout.micros, 0, l->layout.data * sizeof *l->layout.micros);
    x->limit_ns = limit;
    MUST(pst_search_predict(x, c, l, PST_SCORE_PATH));
    x->limit_ns = UINT64_MAX;
    return l->step_ns;
}

/* With a limit, too: a step that is below is found, and no other. */
static uint64_t score(pst_search_context *x, const pst_search_config *c, pst_candidate *l) {
    uint64_t step = score_within(x, c, l, UINT64_MAX);
    assert_true(score_within(x, c, l, step) >= step);
    assert_int_equal(score_within(x, c, l, step + 1), step);
    return step;
}

static void random_cut(pst_candidate *l, uint64_t *state) {
    l->layout.first_item[l->layout.n_chunk] = l->layout.n_item;
    for (uint32_t j = 1; j < l->layout.n_chunk; j++) {
        uint32_t from = l->layout.first_item[j - 1] + 1,
                 to = l->layout.n_item - (l->layout.n_chunk - j);
        uint32_t near = from + 3 < to && case_below(state, 2) ? from + 3 : to;
        l->layout.first_item[j] = from + case_below(state, near - from + 1);
    }
}

/* A random cut and neighbours that take less time; the least. */
static uint64_t descend(pst_search_context *x, const pst_search_config *c, pst_candidate *l,
                        uint64_t *state) {
    random_cut(l, state);
    uint32_t mode =
        x->problem->recompute[PST_RECOMPUTE_NONE] ? PST_RECOMPUTE_NONE : PST_RECOMPUTE_FULL;
    for (uint32_t k = 0; k < l->layout.n_chunk; k++) l->layout.recompute[k] = mode;
    uint64_t least = score(x, c, l);
    for (uint32_t i = 0; i < DESCENTS && l->layout.n_chunk > 1; i++) {
        uint32_t j = 1 + case_below(state, l->layout.n_chunk - 1), was = l->layout.first_item[j];
        uint32_t low = l->layout.first_item[j - 1] + 1, high = l->layout.first_item[j + 1] - 1;
        l->layout.first_item[j] = low + case_below(state, high - low + 1);
        uint64_t now = score(x, c, l);
        if (now < least) least = now;
        else l->layout.first_item[j] = was;
    }
    score(x, c, l);
    return least;
}

/* raised: how many bounds the sums of operators raise; those of orders raise. */
static void check(pst_search_context *x, pst_search_config *c, uint64_t seed, uint64_t *state,
                  uint32_t raised[2]) {
    pst_search_orders orders;
    pst_candidate *l;
    const uint64_t before = c->bound_ns;
    MUST(pst_search_tighten(x, c));
    raised[0] += c->bound_ns > before;
    const uint64_t sums = c->bound_ns;
    MUST(pst_search_tighten_orders(x, c));
    raised[1] += c->bound_ns > sums;
    MUST(pst_search_orders_of(x->problem, c, &orders));
    MUST(pst_candidate_open(x->problem, c, pst_search_chunk_count(x, c), &l));
    for (uint32_t i = 0; i < STARTS && orders.n; i++) {
        const uint32_t *device = orders.device + (size_t)case_below(state, orders.n) * orders.size;
        memcpy(l->layout.device, device, orders.size * sizeof *l->layout.device);
        uint64_t walked = descend(x, c, l, state);
        MUST(pst_search_predict(x, c, l, PST_SCORE_SIMULATE));
        if (c->bound_ns > walked || c->bound_ns > l->step_ns)
            fail_msg("seed %llu, %s, %u x %u x %u, %u chunks, %u micro-batches, zero %u: bound "
                     "%llu, one takes %llu "
                     "(simulated %llu)",
                     (unsigned long long)seed, l->layout.schedule, c->pipeline, c->tensor, c->data,
                     l->layout.n_chunk, c->n_micro, c->zero, (unsigned long long)c->bound_ns,
                     (unsigned long long)walked, (unsigned long long)l->step_ns);
    }
    pst_candidate_close(l);
    free(orders.device);
}

/* Devices of two kinds and several speeds, in any order within and between nodes. */
static void mix(search_case *k, uint64_t *state) {
    strcpy(k->kind[1].name, "other");
    k->cluster.n_kind = 2;
    for (uint32_t i = 0; i < k->n; i++) k->other[i] = 1 + case_below(state, 4);
    for (uint32_t d = 0; d < k->cluster.n_device; d++) {
        k->device[d].kind = case_below(state, 2);
        k->device[d].speed = case_below(state, 3) ? 1 : 0.5;
    }
}

static void check_degrees(search_case *k, uint64_t seed, uint64_t *state, uint32_t raised[2],
                          uint32_t *n_checked) {
    const uint32_t most = k->cluster.n_device < 8 ? k->cluster.n_device : 8;
    const uint32_t p = 1 + case_below(state, most);
    const uint32_t tensor = p * 2 <= k->cluster.n_device && case_below(state, 3) == 0 ? 2 : 1;
    const uint32_t room = k->cluster.n_device / (p * tensor);
    uint32_t data = 1 + case_below(state, room < 4 ? room : 4), n = 0;
    pst_search_context x;
    pst_search_config *config = NULL;
    char why[160];
    if (data > k->problem.batch) data = 1;
    MUST(pst_search_context_open(&k->problem, &x));
    const pst_search_config like = {.pipeline = p, .tensor = tensor, .data = data};
    MUST(pst_search_configs(&x, &like, &config, &n, why));
    for (uint32_t i = 0; i < n; i += 1 + case_below(state, 7), ++*n_checked)
        check(&x, &config[i], seed, state, raised);
    free(config);
    pst_search_context_close(&x);
}

static void no_cut_is_below(void **unused) {
    (void)unused;
    uint32_t raised[2] = {0}, n_checked = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed;
        search_case *k = case_even(&state);
        check_degrees(k, seed, &state, raised, &n_checked);
        case_close(k);
    }
    printf("%u configurations; raised by sums %u, by orders %u\n", n_checked, raised[0], raised[1]);
    assert_true(raised[0] > n_checked / 2 && raised[1] > n_checked / 2);
}

static void no_cut_on_mixed_devices_is_below(void **unused) {
    (void)unused;
    uint32_t raised[2] = {0}, n_checked = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed;
        search_case *k = case_even(&state);
        mix(k, &state);
        check_degrees(k, seed, &state, raised, &n_checked);
        case_close(k);
    }
    printf("%u configurations; raised by orders %u\n", n_checked, raised[1]);
    assert_true(raised[1] > n_checked / 4);
}

/* Equal operators, so that bounds are near the shortest of all cuts. */
static uint64_t shortest_of_all(pst_search_context *x, const pst_search_config *c) {
    pst_search_orders orders;
    pst_candidate *l;
    uint64_t least = UINT64_MAX;
    MUST(pst_search_orders_of(x->problem, c, &orders));
    MUST(pst_candidate_open(x->problem, c, pst_search_chunk_count(x, c), &l));
    memcpy(l->layout.device, orders.device, orders.size * sizeof *l->layout.device);
    for (uint32_t k = 0; k <= l->layout.n_chunk; k++)
        l->layout.first_item[k] = k < l->layout.n_chunk ? k : l->layout.n_item;
    do {
        const uint64_t step = score_within(x, c, l, UINT64_MAX);
        least = step < least ? step : least;
    } while (pst_search_next_cut(l->layout.first_item, l->layout.n_chunk, l->layout.n_item));
    pst_candidate_close(l);
    free(orders.device);
    return least;
}

static void no_cut_of_all_is_below(void **unused) {
    (void)unused;
    uint32_t n_near = 0, n_checked = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t state = seed;
        const uint32_t p = 2 + case_below(&state, 3);
        search_case *k = case_even(&state);
        pst_search_context x;
        pst_search_config *config = NULL;
        char why[160];
        uint32_t n = 0;
        k->cluster.n_device = p < k->cluster.n_device ? p : k->cluster.n_device;
        for (uint32_t i = 0; i < k->n; i++) {
            k->f[i] = k->f[0] + 10000;
            k->b[i] = k->b[0] + 10000;
            k->w[i] = k->w[0] + 10000;
            k->elements[i] = k->cross[i] = 0;
        }
        k->n = k->problem.n_item = k->n < 10 ? k->n : 10;
        k->problem.recompute[PST_RECOMPUTE_NONE] = 1;
        MUST(pst_search_context_open(&k->problem, &x));
        const pst_search_config like = {.pipeline = k->cluster.n_device, .tensor = 1, .data = 1};
        MUST(pst_search_configs(&x, &like, &config, &n, why));
        for (uint32_t i = 0; i < n; i++) {
            if (pst_search_chunk_count(&x, &config[i]) > 8) continue;
            MUST(pst_search_tighten(&x, &config[i]));
            MUST(pst_search_tighten_more(&x, &config[i]));
            MUST(pst_search_tighten_orders(&x, &config[i]));
            const uint64_t least = shortest_of_all(&x, &config[i]);
            if (config[i].bound_ns > least)
                fail_msg("seed %llu, %s, %u stages, %u micro-batches: bound %llu, one takes %llu",
                         (unsigned long long)seed, x.row[config[i].schedule]->name,
                         config[i].pipeline, config[i].n_micro,
                         (unsigned long long)config[i].bound_ns, (unsigned long long)least);
            n_near += config[i].bound_ns >= least - least / 10;
            n_checked++;
        }
        free(config);
        pst_search_context_close(&x);
        case_close(k);
    }
    printf("%u of %u bounds are within a tenth of the shortest cut\n", n_near, n_checked);
    assert_true(n_near > n_checked / 3);
}

/* When the last pass of a schedule ends, without messages: passes of the first micro-batch take
 * first[], the others ns[]. */
static uint64_t end_of(const pst_schedule *s, const pst_pass_ns *ns, const pst_pass_ns *first) {
    enum { MOST = 64 * 64 };
    static uint64_t f[MOST], b[MOST];
    uint64_t now[64] = {0}, last = 0;
    uint32_t next[64] = {0}, left = 0;
    assert_true(s->n_chunk <= 64 && s->n_micro <= 64 && s->n_rank <= 64);
    memset(f, 0xff, sizeof f);
    memset(b, 0xff, sizeof b);
    for (uint32_t r = 0; r < s->n_rank; r++) left += s->n_action[r];
    for (uint32_t r = 0; left; r = (r + 1) % s->n_rank)
        for (; next[r] < s->n_action[r]; next[r]++, left--) {
            const pst_action *a = &s->action[r][next[r]];
            const pst_pass_ns *own = (a->micro ? ns : first) + a->chunk;
            const uint32_t at = a->chunk * 64u + a->micro;
            uint64_t ready = a->chunk ? f[at - 64] : 0;
            if (a->opcode == PST_OP_W) ready = b[at];
            else if (a->opcode != PST_OP_F) ready = a->chunk + 1u < s->n_chunk ? b[at + 64] : f[at];
            if (ready == UINT64_MAX) break;
            now[r] = ready > now[r] ? ready : now[r];
            if (a->opcode == PST_OP_F) f[at] = now[r] += own->f;
            if (a->opcode == PST_OP_W) now[r] += own->w;
            if (a->opcode == PST_OP_B) b[at] = now[r] += own->b;
            if (a->opcode == PST_OP_BW) b[at] = now[r] += own->b + own->w;
            last = now[r] > last ? now[r] : last;
        }
    return last;
}

static void fill_times(const search_case *k, const uint32_t *first_item, uint32_t n_chunk,
                       uint32_t samples, pst_pass_ns *ns) {
    const uint64_t tiles = (samples + k->tile - 1) / k->tile * k->tile;
    for (uint32_t c = 0; c < n_chunk; c++) {
        ns[c] = (pst_pass_ns){0};
        for (uint32_t i = first_item[c]; i < first_item[c + 1]; i++) {
            ns[c].f += k->f[i] * tiles;
            ns[c].b += k->b[i] * tiles;
            ns[c].w += k->w[i] * tiles;
        }
    }
}

/* Of all cuts, with what the smaller first micro-batch really takes. */
static void check_rest(search_case *k, pst_search_context *x, const pst_search_config *c,
                       uint64_t seed) {
    const uint32_t n_chunk = pst_search_chunk_count(x, c);
    const pst_schedule *s;
    uint32_t cut[65];
    pst_pass_ns ns[64], first[64];
    MUST(pst_search_schedule_of(x, c->schedule, c->pipeline, n_chunk / c->pipeline, c->n_micro + 1,
                                &s));
    for (uint32_t i = 0; i <= n_chunk; i++) cut[i] = i < n_chunk ? i : k->n;
    do {
        fill_times(k, cut, n_chunk, c->micro_batch, ns);
        fill_times(k, cut, n_chunk, k->problem.batch % c->micro_batch, first);
        const uint64_t end = end_of(s, ns, first);
        if (c->bound_ns > end)
            fail_msg("seed %llu, %s, %u stages, %u micro-batches of %u and a smaller one: bound "
                     "%llu, one takes %llu",
                     (unsigned long long)seed, s->name, c->pipeline, c->n_micro, c->micro_batch,
                     (unsigned long long)c->bound_ns, (unsigned long long)end);
    } while (pst_search_next_cut(cut, n_chunk, k->n));
}

static void no_cut_with_a_rest_is_below(void **unused) {
    (void)unused;
    uint32_t n_checked = 0, n_raised = 0;
    for (uint64_t seed = 1; seed <= RESTS; seed++) {
        uint64_t state = seed;
        search_case *k = case_even(&state);
        pst_search_context x;
        pst_search_config *config = NULL;
        char why[160];
        uint32_t n = 0;
        const uint32_t p = 1 + case_below(&state, 3);
        k->cluster.n_device = p < k->cluster.n_device ? p : k->cluster.n_device;
        memset(k->elements, 0, k->n * sizeof *k->elements);
        memset(k->cross, 0, k->n * sizeof *k->cross);
        k->n = k->problem.n_item = k->n < 9 ? k->n : 9;
        k->problem.recompute[PST_RECOMPUTE_NONE] = 1;
        for (uint32_t i = 0; i < k->cluster.n_node; i++)
            for (uint32_t level = 0; level <= PST_LEVEL_NODE; level++)
                k->node[i].link[level].latency_ns = 0;
        MUST(pst_search_context_open(&k->problem, &x));
        const pst_search_config like = {.pipeline = k->cluster.n_device, .tensor = 1, .data = 1};
        MUST(pst_search_configs(&x, &like, &config, &n, why));
        for (uint32_t i = 0; i < n; i++) {
            if (!(k->problem.batch % config[i].micro_batch)) continue;
            pst_search_config without = config[i];
            without.rest = 0;
            MUST(pst_search_tighten(&x, &config[i]));
            MUST(pst_search_tighten_more(&x, &config[i]));
            MUST(pst_search_tighten_orders(&x, &config[i]));
            MUST(pst_search_tighten_orders(&x, &without));
            n_raised += config[i].bound_ns > without.bound_ns;
            check_rest(k, &x, &config[i], seed);
            n_checked++;
        }
        free(config);
        pst_search_context_close(&x);
        case_close(k);
    }
    printf("%u configurations with a smaller micro-batch, %u bounds raised by it\n", n_checked,
           n_raised);
    assert_true(n_checked > 100 && n_raised > n_checked / 2);
}

/* Chooses at random what the chunks of a cut recompute. 1: it fits by the estimate, or with less
 * memory. */
static int random_fitting(pst_search_context *x, const pst_search_config *c, pst_candidate *l,
                          uint64_t *state) {
    uint64_t excess;
    uint32_t stage;
    for (uint32_t k = 0; k < l->layout.n_chunk; k++) {
        uint32_t mode = case_below(state, PST_RECOMPUTE_COUNT);
        while (!x->problem->recompute[mode]) mode = (mode + 1) % PST_RECOMPUTE_COUNT;
        l->layout.recompute[k] =
            mode == PST_RECOMPUTE_LAYERS ? pst_recompute_of_layers(1 + case_below(state, 4)) : mode;
    }
    memset(l->layout.micros, 0, l->layout.data * sizeof *l->layout.micros);
    MUST(pst_search_estimate_memory(x, c, l, &excess, &stage));
    if (!excess) return 1;
    MUST(pst_search_fit(x, c, l, &excess, &stage));
    return !excess;
}

static void check_fitting(pst_search_context *x, pst_search_config *c, uint64_t seed,
                          uint64_t *state, uint32_t *n_fitting) {
    pst_search_orders orders;
    pst_candidate *l;
    MUST(pst_search_orders_of(x->problem, c, &orders));
    MUST(pst_candidate_open(x->problem, c, pst_search_chunk_count(x, c), &l));
    for (uint32_t i = 0; i < DESCENTS && orders.n; i++) {
        memcpy(l->layout.device, orders.device, orders.size * sizeof *l->layout.device);
        random_cut(l, state);
        if (!random_fitting(x, c, l, state)) continue;
        ++*n_fitting;
        const uint64_t step = score_within(x, c, l, UINT64_MAX);
        if (c->bound_ns > step)
            fail_msg("seed %llu, %s, %u x %u x %u, %u chunks, %u micro-batches, zero %u, %llu "
                     "bytes: bound %llu, one that fits takes %llu",
                     (unsigned long long)seed, l->layout.schedule, c->pipeline, c->tensor, c->data,
                     l->layout.n_chunk, c->n_micro, c->zero, (unsigned long long)x->problem->memory,
                     (unsigned long long)c->bound_ns, (unsigned long long)step);
    }
    pst_candidate_close(l);
    free(orders.device);
}

static void no_cut_that_fits_is_below(void **unused) {
    (void)unused;
    uint32_t n_raised = 0, n_fitting = 0, n_checked = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t state = seed, all = 0;
        search_case *k = case_even(&state);
        for (uint32_t i = 0; i < k->n; i++) {
            k->stash[i] = case_below(&state, 20000);
            k->enter[i] = case_below(&state, 2000);
            all += 4 * k->stash[i] + 16 * k->elements[i];
        }
        for (uint32_t mode = 1; mode < PST_RECOMPUTE_COUNT; mode++)
            k->problem.recompute[mode] = (uint8_t)case_below(&state, 2);
        k->problem.recompute[PST_RECOMPUTE_NONE] |= !k->problem.recompute[PST_RECOMPUTE_FULL];
        uint32_t most = k->cluster.n_device < 6 ? k->cluster.n_device : 6,
                 p = 1 + case_below(&state, most), n = 0;
        k->problem.memory = all / p * (1 + case_below(&state, 6)) / 3 + 1;
        const uint32_t data = p * 2 <= k->cluster.n_device ? 1 + case_below(&state, 2) : 1;
        pst_search_context x;
        pst_search_config *config = NULL;
        char why[160];
        MUST(pst_search_context_open(&k->problem, &x));
        const pst_search_config like = {.pipeline = p, .tensor = 1, .data = data};
        MUST(pst_search_configs(&x, &like, &config, &n, why));
        for (uint32_t i = 0; i < n; i += 1 + case_below(&state, 7), n_checked++) {
            MUST(pst_search_tighten(&x, &config[i]));
            const uint64_t before = config[i].bound_ns;
            MUST(pst_search_tighten_more(&x, &config[i]));
            n_raised += config[i].bound_ns > before;
            MUST(pst_search_tighten_orders(&x, &config[i]));
            check_fitting(&x, &config[i], seed, &state, &n_fitting);
        }
        free(config);
        pst_search_context_close(&x);
        case_close(k);
    }
    printf("%u configurations, %u bounds raised, %u cuts that fit\n", n_checked, n_raised,
           n_fitting);
    assert_true(n_raised > n_checked / 4 && n_fitting > n_checked);
}

/* Borders that are moved leave cuts that fit and are no longer, and the same passes again move
 * nothing more. */
static void borders_move(void **unused) {
    (void)unused;
    uint32_t n_shorter = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t state = seed, passes = UINT64_MAX;
        search_case *k = case_even(&state);
        pst_search_context x;
        char why[160];
        pst_search_candidates set = {.row = {.pipeline = 2, .tensor = 1, .data = 1},
                                     .rest_ns = UINT64_MAX};
        MUST(pst_search_context_open(&k->problem, &x));
        const pst_search_config like = {.pipeline = 2, .tensor = 1, .data = 1};
        MUST(pst_search_configs(&x, &like, &set.config, &set.n_config, why));
        for (uint32_t i = 0; i < set.n_config; i++)
            if (pst_search_chunk_count(&x, &set.config[i]) > 2)
                MUST(pst_search_evaluate(&x, &set, &set.config[i], UINT64_MAX));
        assert_non_null(set.row.best);
        uint64_t before = set.row.best->step_ns;
        MUST(pst_search_refine(&x, &set, &passes));
        pst_candidate *l = set.row.best;
        assert_true(l->step_ns <= before && l->layout.first_item[0] == 0 &&
                    l->layout.first_item[l->layout.n_chunk] == k->n);
        for (uint32_t i = 0; i < l->layout.n_chunk; i++)
            assert_true(l->layout.first_item[i] < l->layout.first_item[i + 1]);
        n_shorter += l->step_ns < before;
        before = l->step_ns;
        assert_int_equal(score(&x, &set.best_config, l), before);
        MUST(pst_search_refine(&x, &set, &passes));
        assert_true(set.row.best->step_ns == before);
        pst_candidate_close(set.row.best);
        free(set.config);
        free(set.orders.device);
        pst_search_context_close(&x);
        case_close(k);
    }
    printf("%u of 60 cuts made shorter\n", n_shorter);
    assert_true(n_shorter > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_cut_is_below),
                                       cmocka_unit_test(no_cut_on_mixed_devices_is_below),
                                       cmocka_unit_test(no_cut_of_all_is_below),
                                       cmocka_unit_test(no_cut_with_a_rest_is_below),
                                       cmocka_unit_test(no_cut_that_fits_is_below),
                                       cmocka_unit_test(borders_move)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
