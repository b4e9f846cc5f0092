/* Mutations of lists in which replicas share out gradients (zero 2): of the instructions of rounds,
 * of what waits for them, and of gradient slots; the checker's verdict on each, and that of
 * exhaustive execution (machine_rounds.h). */
#ifndef PST_TESTS_PIPELINE_MUTATION_ROUNDS_H
#define PST_TESTS_PIPELINE_MUTATION_ROUNDS_H
#include "pipeline/machine_rounds.h"
#include "pipeline/mutation.h"

enum { ROUND_REPLICAS = 4 };

typedef struct {
    test_case t;
    pst_schedule *other; /* of the last replica */
    pst_slots *slots[ROUND_REPLICAS];
    pst_job *job;
    uint32_t n;
} round_case;

/* A chain without parameters of several uses: what their flush waits for is test_check.c's. */
static inline pst_graph *round_graph(uint64_t *seed) {
    pst_graph *g;
    uint32_t tokens, targets, x, param[2], n = 2 + (uint32_t)(study_random(seed) % 4);
    pst_attr attr = {.eps = 1e-5f};
    MUST(pst_graph_open("chain", 1, &g));
    MUST(pst_graph_data(g, "tokens", 2, (uint64_t[]){1, 3}, &tokens));
    param[0] = random_param(g, 11, 8, seed);
    MUST(pst_graph_add(g, &(pst_new_node){"embedding", "embedding", NULL, &tokens, 1, param, 1},
                       &x));
    for (uint32_t i = 0; i < n; i++) {
        char name[PST_NAME_MAX];
        int norm = study_random(seed) % 3 == 0;
        snprintf(name, sizeof name, "n%u", i);
        param[0] = norm ? random_param(g, 8, 0, seed) : random_param(g, 8, 8, seed);
        param[1] = random_param(g, 8, 0, seed);
        MUST(
            pst_graph_add(g,
                          &(pst_new_node){norm ? "layer_norm" : "linear", name, &attr, &x, 1, param,
                                          norm ? 2 : 1 + (uint32_t)(study_random(seed) % 2)},
                          &x));
    }
    MUST(pst_graph_data(g, "targets", 2, (uint64_t[]){1, 3}, &targets));
    param[0] = random_param(g, 11, 8, seed);
    MUST(pst_graph_add(g, &(pst_new_node){"linear", "head", NULL, &x, 1, param, 1}, &x));
    MUST(pst_graph_add(
        g, &(pst_new_node){"cross_entropy", "loss", NULL, (uint32_t[]){x, targets}, 2, NULL, 0},
        &x));
    return g;
}

static inline round_case open_round_case(uint32_t kind, uint64_t *seed) {
    round_case r = {.t = {.g = round_graph(seed)},
                    .n = 2 + (uint32_t)(study_random(seed) % (ROUND_REPLICAS - 1))};
    pst_instr_cost cost = {.latency_ns = 1, .flush = 1};
    const pst_schedule *schedule[ROUND_REPLICAS];
    const pst_cut *cut[1];
    uint32_t n_micro = 1 + (uint32_t)(study_random(seed) % 3);
    build_case(&r.t, 1 + (uint32_t)(study_random(seed) % 2), kind,
               1 + (uint32_t)(study_random(seed) % 3), seed);
    if (case_schedule[kind])
        MUST(pst_schedule_generate(case_schedule[kind], r.t.n_rank, r.t.n_chunk / r.t.n_rank,
                                   n_micro, &r.other));
    else r.other = many_chunks(r.t.n_rank, r.t.n_chunk, n_micro, kind == 4, 1, kind == 5);
    for (uint32_t p = 0; p < r.t.g->n_param; p++)
        if (study_random(seed) % 4 == 0) r.t.g->param[p].dim[0] += PST_PIECE / 8;
    for (uint32_t i = 0; i < r.n; i++) schedule[i] = i + 1 < r.n ? r.t.schedule : r.other;
    cut[0] = r.t.cut;
    pst_job_spec spec = {
        .grid = {r.t.n_rank, r.n, 1}, .schedule = schedule, .cut = cut, .cost = &cost, .zero = 2};
    MUST(pst_job_build_grid(&spec, &r.job, r.slots));
    return r;
}

static inline void close_round_case(round_case *r) {
    close_grid_case(&r->t, r->job, r->slots, r->n, r->other);
}

static inline int stands_in_round(const pst_instr_list *list, uint32_t i) {
    return i >= list->n_head && i < list->n_instr - list->n_flush &&
           list->instr[i].param != PST_NONE;
}

static inline void redirect_round(const pst_job *job, pst_instr *in, uint64_t *seed) {
    uint64_t to = study_random(seed);
    switch (study_random(seed) % 9) {
    case 0: in->peer = (uint32_t)(to % (job->n_rank + 1)); break;
    case 1: in->param = (uint32_t)(to % (in->param + 2)); break;
    case 2: in->seq = (uint32_t)(to % (in->seq + 2)); break;
    case 3: in->micro = (uint32_t)(to % (job->n_micro + 1)); break;
    case 4: in->chunk = (uint16_t)(to % job->n_chunk); break;
    case 5: in->from = to % 2 ? 0 : PST_PIECE; break;
    case 6: in->n -= (uint32_t)(to % 2); break;
    case 7:
        if (in->opcode == PST_OP_REDUCE)
            in->into = to % 4 ? (uint32_t)(to / 4 % 5) : PST_INTO_ACCUMULATOR;
        break;
    default:
        if (in->opcode != PST_OP_SEND) in->buffer = (uint32_t)(to % (pst_job_buffers(job) + 2));
    }
}

/* An instruction of a round somewhere else, away, or there twice; deps on it follow. */
static inline void reorder_round(pst_instr_list *list, mutation kind, uint32_t a, uint64_t *seed) {
    uint32_t n = list->n_instr, lists = n - list->n_flush, *order = malloc((n + 2) * sizeof *order);
    uint32_t b = list->n_head + (uint32_t)(study_random(seed) % (lists - list->n_head));
    if (study_random(seed) % 2) b = a + 1 + (uint32_t)(study_random(seed) % 4);
    if (b >= lists) b = lists - 1;
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    if (kind == SWAP && stands_in_round(list, b)) {
        order[a] = b;
        order[b] = a;
    }
    if (kind == DROP) memmove(order + a, order + a + 1, (--n - a) * sizeof *order);
    if (kind == DUPLICATE) {
        memmove(order + b + 1, order + b, (n++ - b) * sizeof *order);
        order[b] = a;
    }
    if (kind == MOVE) {
        memmove(order + a, order + a + 1, (n - 1 - a) * sizeof *order);
        memmove(order + b + 1, order + b, (n - 1 - b) * sizeof *order);
        order[b] = a;
    }
    rearrange(list, order, n);
    free(order);
}

/* A dep on, or of, an instruction of a round goes, or names another. */
static inline void change_dep(pst_instr_list *list, mutation kind, uint64_t *seed) {
    uint32_t i = (uint32_t)(study_random(seed) % list->n_instr);
    pst_instr *in = &list->instr[i];
    if (!in->n_dep) return;
    uint32_t d = (uint32_t)(study_random(seed) % in->n_dep), *dep = &list->dep[in->dep + d];
    if (i >= list->n_instr - list->n_flush ||
        (!stands_in_round(list, i) && !stands_in_round(list, *dep)))
        return;
    if (kind == TURN_DEP) *dep = (uint32_t)(study_random(seed) % list->n_instr);
    else *dep = list->dep[in->dep + --in->n_dep];
}

static inline void mutate_round(pst_job *job, pst_slots **slots, uint32_t n, mutation kind,
                                uint64_t *seed) {
    pst_instr_list *list = &job->list[study_random(seed) % job->n_rank];
    uint32_t a = (uint32_t)(study_random(seed) % list->n_instr);
    for (uint32_t i = 0; i < list->n_instr && !stands_in_round(list, a); i++)
        a = (a + 1) % list->n_instr;
    if (kind == LOSE_DEP || kind == TURN_DEP) change_dep(list, kind, seed);
    else if (kind == SLOT || kind == FEWER_SLOTS) {
        pst_slots *s = slots[study_random(seed) % n];
        uint32_t passes = job->n_chunk * s->n_micro; /* as many slots at most */
        s->gradient[study_random(seed) % passes] =
            (uint32_t)(study_random(seed) % (passes < 3 ? passes : 3));
    } else if (!stands_in_round(list, a)) return;
    else if (kind <= DUPLICATE) reorder_round(list, kind, a, seed);
    else redirect_round(job, &list->instr[a], seed);
}

/* As try_mutation. */
static inline void try_round(const round_case *r, const char *name, uint64_t seed, verdicts *v) {
    uint64_t state = seed;
    pst_job job = *r->job;
    pst_slots copy[ROUND_REPLICAS], *slots[ROUND_REPLICAS];
    const pst_cut *cut[] = {r->t.cut};
    const char *why;
    mutation kind = (mutation)(study_random(&state) % MUTATIONS), second = MUTATIONS;
    job.list = calloc(job.n_rank, sizeof *job.list);
    for (uint32_t k = 0; k < job.n_rank; k++) copy_list(&job.list[k], &r->job->list[k]);
    for (uint32_t k = 0; k < r->n; k++) {
        size_t n = (size_t)job.n_chunk * r->slots[k]->n_micro;
        copy[k] = *r->slots[k];
        slots[k] = &copy[k];
        copy[k].gradient = malloc(n * sizeof *copy[k].gradient);
        memcpy(copy[k].gradient, r->slots[k]->gradient, n * sizeof *copy[k].gradient);
    }
    mutate_round(&job, slots, r->n, kind, &state);
    if (study_random(&state) % 4 == 0)
        mutate_round(&job, slots, r->n, second = (mutation)(study_random(&state) % MUTATIONS),
                     &state);
    pst_status status = pst_job_check_grid(&job, cut, slots, PST_CHECK_TAGGED);
    int valid = round_accepts(&job, r->t.cut, slots, &why);
    if (status != PST_OK && status != PST_EINPUT) {
        valid = !valid;
        why = "not a verdict";
    }
    if (valid != (status == PST_OK)) {
        pst_job_print(&job, stdout);
        printf(
            "rounds of %s, %u ranks, %u replicas, seed %llu: %s%s%s: checker: %s; execution: %s\n",
            name, job.n_rank, r->n, (unsigned long long)seed, mutation_name[kind],
            second < MUTATIONS ? ", " : "", second < MUTATIONS ? mutation_name[second] : "",
            status == PST_OK ? "passes" : pst_error(), valid ? "right" : why);
        fflush(stdout);
        abort();
    }
    (valid ? v->valid : v->broken)[kind]++;
    for (uint32_t k = 0; k < job.n_rank; k++) {
        free(job.list[k].instr);
        free(job.list[k].dep);
    }
    for (uint32_t k = 0; k < r->n; k++) free(copy[k].gradient);
    free(job.list);
}

static inline void try_rounds(uint32_t jobs, uint32_t each, verdicts *v) {
    uint64_t seed = study_seed();
    for (uint32_t i = 0; i < jobs; i++) {
        round_case r = open_round_case(i % CASE_KINDS, &seed);
        const char *name = case_schedule[i % CASE_KINDS] ? case_schedule[i % CASE_KINDS] : "many";
        for (uint32_t k = 0; k < each; k++) try_round(&r, name, study_random(&seed), v);
        close_round_case(&r);
    }
}
#endif
