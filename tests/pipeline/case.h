/* Random cases for the pipeline's property tests: a random graph, cut at random, with one of the
 * schedules (or several chunks per rank), and an evaluation beside the training. Everything follows
 * from the seed. */
#ifndef PST_TESTS_PIPELINE_CASE_H
#define PST_TESTS_PIPELINE_CASE_H
#include "graph/random_graph.h"
#include "pipeline/check/check.h"
#include "pipeline/memory/map.h"
#include <string.h>

typedef struct {
    pst_graph *g;
    pst_graph *rest; /* for the first micro-batch, if that has fewer samples; else NULL */
    uint32_t n_rank, n_chunk, *chunk_of_node;
    pst_schedule *schedule, *eval_schedule;
    pst_cut *cut, *eval_cut;
    pst_job *job, *eval;
    pst_slots *slots, *eval_slots;
    pst_memory_map **layout; /* [n_rank] */
    /* set before build_case: each chunk in one of the ways, at random, and perhaps
     * post-validation */
    int recomputes;
    int rests; /* set before build_case: the first micro-batch has fewer samples, at random */
    int packs; /* set before build_case: messages between chunks are packed, at random */
    pst_recompute_way recompute[256]; /* [n_chunk] */
} test_case;

static inline pst_recompute_way random_way(uint64_t *state) {
    const pst_recompute mode = next_random(state) % PST_RECOMPUTE_COUNT;
    if (mode != PST_RECOMPUTE_LAYERS) return (pst_recompute_way)mode;
    return pst_recompute_of_layers(1 + (uint32_t)(next_random(state) % 4));
}

/* Kernel scratch of odd sizes, the same for the same step in every case. */
static inline pst_status choose_odd_scratch(void *arg, const pst_graph *g, const pst_node *node,
                                            int extra, pst_pass pass, pst_chosen *chosen) {
    (void)arg;
    (void)g;
    uint64_t state = strlen(node->name) * 131 + (uint64_t)pass * 7 + (uint64_t)extra + node->n_in;
    chosen->kernel = 0;
    chosen->scratch = next_random(&state) % 3 ? 0 : next_random(&state) % 300;
    return PST_OK;
}

/* GPipe with chunk c on rank c % n_rank (looped) or there and back (V): chunks of one rank may be
 * neighbours, which then send to themselves. */
static inline pst_schedule *many_chunks(uint32_t n_rank, uint32_t n_chunk, uint32_t n_micro,
                                        int split, int backward, int v) {
    pst_schedule *s = calloc(1, sizeof *s);
    *s = (pst_schedule){.name = "many",
                        .n_rank = n_rank,
                        .n_chunk = n_chunk,
                        .n_micro = n_micro,
                        .split = split && backward,
                        .backward = backward};
    s->rank_of_chunk = calloc(n_chunk, sizeof(uint32_t));
    s->n_action = calloc(n_rank, sizeof(uint32_t));
    s->action = calloc(n_rank, sizeof *s->action);
    for (uint32_t c = 0; c < n_chunk; c++) {
        uint32_t turn = c / n_rank, place = c % n_rank;
        s->rank_of_chunk[c] = v && turn % 2 ? n_rank - 1 - place : place;
    }
    for (uint32_t r = 0; r < n_rank; r++) {
        pst_action *a = s->action[r] = calloc((size_t)3 * n_chunk * n_micro, sizeof *a);
        for (uint32_t c = 0; c < n_chunk; c++)
            for (uint32_t m = 0; m < n_micro; m++)
                if (s->rank_of_chunk[c] == r) *a++ = (pst_action){PST_OP_F, (uint16_t)c, m};
        for (uint32_t c = n_chunk; backward && c-- > 0;)
            for (uint32_t m = 0; m < n_micro; m++) {
                if (s->rank_of_chunk[c] != r) continue;
                *a++ = (pst_action){s->split ? PST_OP_B : PST_OP_BW, (uint16_t)c, m};
                if (s->split) *a++ = (pst_action){PST_OP_W, (uint16_t)c, m};
            }
        s->n_action[r] = (uint32_t)(a - s->action[r]);
    }
    return s;
}

/* Messages between chunks packed at some boundaries, in two of three cases; packs: [n_chunk] filled
 * here. The tensors of random graphs are small, and so are the blocks. */
static inline pst_cut_packing random_packing(uint32_t n_chunk, uint8_t *packs, uint64_t *state) {
    static const pst_codec codecs[] = {{.kind = PST_CODEC_NONE},
                                       {.kind = PST_CODEC_INT8, .block = 32},
                                       {.kind = PST_CODEC_BF16, .block = 32}};
    for (uint32_t c = 0; c < n_chunk; c++) packs[c] = next_random(state) % 3 != 0;
    return (pst_cut_packing){codecs[next_random(state) % 3], packs};
}

/* n_chunk contiguous parts, none empty. */
static inline uint32_t *random_chunks(uint32_t n_node, uint32_t n_chunk, uint64_t *state) {
    uint32_t *chunk = calloc(n_node, sizeof *chunk), left = n_chunk - 1;
    for (uint32_t i = 1, c = 0; i < n_node; i++) {
        if (left && next_random(state) % (n_node - i) < left) {
            c++;
            left--;
        }
        chunk[i] = c;
    }
    return chunk;
}

static inline pst_memory_map_spec spec_of(const test_case *t, const pst_optim_row *optim,
                                          uint32_t rank) {
    return (pst_memory_map_spec){.g = t->g,
                                 .cut = t->cut,
                                 .eval_cut = t->eval_cut,
                                 .job = t->job,
                                 .eval = t->eval,
                                 .slots = t->slots,
                                 .eval_slots = t->eval_slots,
                                 .optim = optim,
                                 .rank = rank};
}

/* schedule: an index into pst_schedule_rows' training schedules, or 3, 4, 5 for many_chunks fused,
 * split, V; from 6 on those with W in idle time or several chunks per rank. */
enum { CASE_KINDS = 13 };
static const char *const case_schedule[CASE_KINDS] = {
    "gpipe", "1f1b",  "1f1b-early", NULL,     NULL,    NULL,       "interleaved",
    "zb-h1", "zb-h2", "zb-v",       "v-half", "v-min", "dualpipev"};

static inline void schedule_case(test_case *t, uint32_t kind, uint32_t n_micro, uint32_t n_eval) {
    if (case_schedule[kind]) {
        MUST(pst_schedule_generate(case_schedule[kind], t->n_rank, t->n_chunk / t->n_rank, n_micro,
                                   &t->schedule));
        MUST(pst_schedule_forward(t->schedule, n_eval, &t->eval_schedule));
        MUST(pst_schedule_check(t->eval_schedule));
    } else {
        t->schedule = many_chunks(t->n_rank, t->n_chunk, n_micro, kind == 4, 1, kind == 5);
        t->eval_schedule = many_chunks(t->n_rank, t->n_chunk, n_eval, 0, 0, kind == 5);
    }
    MUST(pst_schedule_check(t->schedule));
}

static inline void resize_case(test_case *t, uint64_t random) {
    const uint32_t b = t->g->micro_batch;
    if (t->rests && b > 1 && random % 2)
        MUST(pst_graph_resize(t->g, 1 + (uint32_t)(random / 2 % (b - 1)), &t->rest));
}

static inline void build_case(test_case *t, uint32_t n_rank, uint32_t kind, uint32_t n_micro,
                              uint64_t *state) {
    pst_chooser chooser = {.choose = choose_odd_scratch};
    pst_instr_cost cost = {.latency_ns = next_random(state) % 500,
                           .bytes_per_s = 1e8,
                           .norm_ns = 10,
                           .gather_ns = 20,
                           .reduce_ns = 30,
                           .step_ns = 40,
                           .flush = 1};
    uint32_t n_chunk = kind < 3 ? n_rank : n_rank + (uint32_t)(next_random(state) % (n_rank + 2));
    if (case_schedule[kind]) {
        const pst_schedule_row *row;
        uint32_t n_virtual;
        MUST(pst_schedule_find(case_schedule[kind], &row));
        MUST(pst_schedule_virtual(row, row->n_virtual ? 0 : 1 + (uint32_t)(next_random(state) % 3),
                                  &n_virtual));
        if (n_rank * n_virtual > t->g->n_node) n_rank = t->g->n_node / n_virtual;
        n_chunk = n_rank * n_virtual;
    }
    if (n_chunk > t->g->n_node) n_chunk = t->g->n_node;
    if (n_rank > n_chunk) n_rank = n_chunk;
    t->n_rank = n_rank;
    t->n_chunk = n_chunk;
    t->chunk_of_node = random_chunks(t->g->n_node, n_chunk, state);
    for (uint32_t c = 0; t->recomputes && c < n_chunk; c++) t->recompute[c] = random_way(state);
    if (t->recomputes) {
        chooser.recompute = t->recompute;
        cost.post = (int)(next_random(state) % 2);
    }
    uint8_t packs[256];
    uint64_t own = *state ^ 1; /* of its own: all else is as without packing */
    const pst_cut_packing packing = random_packing(n_chunk, packs, &own);
    if (t->packs) chooser.packing = &packing;
    schedule_case(t, kind, n_micro, 1 + (uint32_t)(next_random(state) % 4));
    resize_case(t, next_random(&own));
    const pst_cut_spec spec = {t->g, t->chunk_of_node, n_chunk, t->schedule->split, 1, t->rest};
    MUST(pst_cut_build(&spec, &chooser, &t->cut));
    chooser.packing = NULL;
    MUST(pst_cut_build(&(pst_cut_spec){t->g, t->chunk_of_node, n_chunk, 0, 0, NULL}, &chooser,
                       &t->eval_cut));
    MUST(pst_job_build(t->schedule, t->cut, &cost, &t->job, &t->slots));
    MUST(pst_job_build(t->eval_schedule, t->eval_cut, &cost, &t->eval, &t->eval_slots));
    t->layout = calloc(n_rank, sizeof *t->layout);
    for (uint32_t r = 0; r < n_rank; r++) {
        const pst_memory_map_spec map =
            spec_of(t, pst_optim_find(next_random(state) % 2 ? "adamw" : "sgd"), r);
        MUST(pst_memory_map_build(&map, &t->layout[r]));
    }
}

/* Borrows g. */
static inline test_case random_case(pst_graph *g, uint64_t *state) {
    test_case t = {.g = g, .recomputes = next_random(state) % 2, .packs = 1, .rests = 1};
    uint32_t n_rank = 1 + (uint32_t)(next_random(state) % 5),
             kind = (uint32_t)(next_random(state) % 6);
    build_case(&t, n_rank, kind, 1 + (uint32_t)(next_random(state) % 8), state);
    return t;
}

static inline void close_case(test_case *t) {
    for (uint32_t r = 0; r < t->n_rank; r++) pst_memory_map_close(t->layout[r]);
    pst_job_close(t->job);
    pst_job_close(t->eval);
    pst_slots_close(t->slots);
    pst_slots_close(t->eval_slots);
    pst_cut_close(t->cut);
    pst_cut_close(t->eval_cut);
    pst_schedule_close(t->schedule);
    pst_schedule_close(t->eval_schedule);
    pst_graph_close(t->rest);
    free(t->chunk_of_node);
    free(t->layout);
}

/* A case with a job of several replicas or servers, n in all, and its graph. other: the schedule of
 * replicas that do not have the case's own, or NULL. */
static inline void close_grid_case(test_case *t, pst_job *job, pst_slots **slots, uint32_t n,
                                   pst_schedule *other) {
    pst_graph *g = t->g;
    for (uint32_t i = 0; i < n; i++) pst_slots_close(slots[i]);
    pst_job_close(job);
    pst_schedule_close(other);
    close_case(t);
    pst_graph_close(g);
}
#endif
