/* Mutations of instruction lists that were right, the checker's verdict on each, and that of
 * exhaustive execution (machine.h). test_mutation.c tries some, test_mutation_all.c more than ten
 * thousand. */
#ifndef PST_TESTS_PIPELINE_MUTATION_H
#define PST_TESTS_PIPELINE_MUTATION_H
#include "pipeline/case.h"
#include "pipeline/emulate.h"
#include "pipeline/machine.h"
#include "pipeline/study.h"

/* --- lists that can be changed ---------------------------------------------------------------- */

typedef struct {
    pst_job job;
    pst_slots slots;
} mutant;

static inline void copy_list(pst_instr_list *to, const pst_instr_list *from) {
    *to = *from;
    to->instr = malloc((from->n_instr + 2) * sizeof *to->instr);
    to->dep = malloc((2 * (size_t)from->n_dep + 64) * sizeof *to->dep);
    memcpy(to->instr, from->instr, from->n_instr * sizeof *to->instr);
    memcpy(to->dep, from->dep, from->n_dep * sizeof *to->dep);
}

static inline mutant open_mutant(const pst_job *job, const pst_slots *slots) {
    mutant m = {.job = *job, .slots = *slots};
    m.job.list = calloc(job->n_rank, sizeof *m.job.list);
    for (uint32_t r = 0; r < job->n_rank; r++) copy_list(&m.job.list[r], &job->list[r]);
    m.slots.class_ = calloc(slots->n_class + 1, sizeof *m.slots.class_);
    for (uint32_t k = 0; k < slots->n_class; k++) {
        m.slots.class_[k] = slots->class_[k];
        m.slots.class_[k].slot_of_micro = malloc(slots->n_micro * sizeof(uint32_t));
        memcpy(m.slots.class_[k].slot_of_micro, slots->class_[k].slot_of_micro,
               slots->n_micro * sizeof(uint32_t));
    }
    return m;
}

static inline void close_mutant(mutant *m) {
    for (uint32_t r = 0; r < m->job.n_rank; r++) {
        free(m->job.list[r].instr);
        free(m->job.list[r].dep);
    }
    for (uint32_t k = 0; k < m->slots.n_class; k++) free(m->slots.class_[k].slot_of_micro);
    free(m->job.list);
    free(m->slots.class_);
}

/* The list in another order, instructions left out or doubled: order[i] is the old place of the new
 * i-th. Deps follow what they named, to its first place; those of what was left out are lost. */
static inline void rearrange(pst_instr_list *list, const uint32_t *order, uint32_t n) {
    pst_instr *old = list->instr, *new = malloc((n + 2) * sizeof *new);
    uint32_t *dep = malloc((2 * (size_t)list->n_dep + 64) * sizeof *dep),
             *at = malloc((list->n_instr + 1) * sizeof *at), n_dep = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) at[i] = PST_NONE;
    for (uint32_t i = n; i-- > 0;) at[order[i]] = i;
    for (uint32_t i = 0; i < n; i++) {
        const pst_instr *from = &old[order[i]];
        new[i] = *from;
        new[i].dep = n_dep;
        for (uint32_t d = 0; d < from->n_dep; d++)
            if (at[list->dep[from->dep + d]] != PST_NONE)
                dep[n_dep++] = at[list->dep[from->dep + d]];
        new[i].n_dep = n_dep - new[i].dep;
    }
    free(old);
    free(list->dep);
    free(at);
    list->instr = new;
    list->dep = dep;
    list->n_instr = n;
    list->n_dep = n_dep;
}

/* --- mutations -------------------------------------------------------------------------------- */

typedef enum {
    DROP,
    SWAP,
    MOVE,
    DUPLICATE,
    REDIRECT,
    LOSE_DEP,
    TURN_DEP,
    SLOT,
    FEWER_SLOTS,
    EXCHANGE,
    MUTATIONS
} mutation;
static const char *const mutation_name[MUTATIONS] = {
    "drop",     "swap",     "move", "duplicate",   "redirect",
    "lose dep", "turn dep", "slot", "fewer slots", "exchange"};

static inline void reorder(pst_instr_list *list, mutation kind, uint64_t *seed) {
    uint32_t n = list->n_instr, *order = malloc((n + 2) * sizeof *order);
    uint32_t a = (uint32_t)(study_random(seed) % n), b = (uint32_t)(study_random(seed) % n);
    if (study_random(seed) % 2) b = a + 1 + (uint32_t)(study_random(seed) % 4); /* near by */
    if (b >= n) b = n - 1;
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    if (kind == SWAP) {
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

static inline void redirect(const pst_job *job, pst_instr *in, uint64_t *seed) {
    switch (study_random(seed) % 8) {
    case 0: in->peer = (uint32_t)(study_random(seed) % (job->n_rank + 1)); break;
    case 1: in->channel = (uint32_t)(study_random(seed) % (in->channel + 2)); break;
    case 2: in->seq = (uint32_t)(study_random(seed) % (job->n_micro + 1)); break;
    case 3: in->micro = (uint32_t)(study_random(seed) % (job->n_micro + 1)); break;
    case 4: in->chunk = (uint16_t)(study_random(seed) % (job->n_chunk + 1)); break;
    case 5: in->rest = job->rest ? !in->rest : in->rest; break;
    case 6: in->bytes += job->rest ? 4 : 0; break;
    default: in->local = (uint32_t)(study_random(seed) % (in->local + 2)); break;
    }
}

static inline void change_slots(pst_slots *slots, mutation kind, uint64_t *seed) {
    if (!slots->n_class) return;
    pst_class *k = &slots->class_[study_random(seed) % slots->n_class];
    if (kind == SLOT)
        k->slot_of_micro[study_random(seed) % slots->n_micro] =
            (uint32_t)(study_random(seed) % k->n_slot);
    if (kind == SLOT || k->n_slot < 2) return;
    k->n_slot--;
    for (uint32_t m = 0; m < slots->n_micro && study_random(seed) % 8; m++)
        k->slot_of_micro[m] %= k->n_slot;
}

static inline void mutate(mutant *m, mutation kind, uint64_t *seed) {
    pst_instr_list *list = &m->job.list[study_random(seed) % m->job.n_rank];
    if (list->n_instr < 2) return;
    pst_instr *in = &list->instr[study_random(seed) % list->n_instr];
    if (kind <= DUPLICATE) reorder(list, kind, seed);
    if (kind == REDIRECT) redirect(&m->job, in, seed);
    if (kind == LOSE_DEP && in->n_dep) in->n_dep--;
    if (kind == TURN_DEP && in->n_dep)
        list->dep[in->dep + study_random(seed) % in->n_dep] =
            (uint32_t)(study_random(seed) % list->n_instr);
    if (kind == SLOT || kind == FEWER_SLOTS) change_slots(&m->slots, kind, seed);
    if (kind != EXCHANGE) return;
    pst_instr *other = &list->instr[study_random(seed) % list->n_instr];
    if (other->opcode != in->opcode) return;
    /* two of a kind take each other's micro-batch, and nothing else changes */
    uint32_t micro = in->micro;
    in->micro = other->micro;
    other->micro = micro;
    if (in->queue != PST_Q_COMPUTE) {
        in->seq = in->micro;
        other->seq = other->micro;
    }
}

/* --- the executor ----------------------------------------------------------------------------- */

/* A mutant that is right, run by the executor over `self`, ranks in random order, every byte that
 * is read compared with what it should be; sends are late by random polls. */
static inline void execute(const test_case *of, mutant *m, uint64_t random) {
    test_case t = *of;
    bench b;
    pst_fault_spec late = {.delay_polls = random % 4};
    t.job = &m->job;
    t.slots = &m->slots;
    t.layout = calloc(t.n_rank, sizeof *t.layout);
    for (uint32_t r = 0; r < t.n_rank; r++) {
        const pst_memory_map_spec spec = spec_of(&t, pst_optim_find("sgd"), r);
        MUST(pst_memory_map_build(&spec, &t.layout[r]));
    }
    open_bench(&b, &t, &late, random);
    prepare_run(&b, 0);
    uint32_t left = t.n_rank, idle = 0;
    for (uint8_t done[64] = {0}; left && idle < 100000; idle++) {
        uint32_t r = (uint32_t)(next_random(&random) % t.n_rank), moved = 0;
        if (done[r]) continue;
        pst_status status = pst_executor_progress(b.x[r], &moved);
        if (status == PST_OK) {
            done[r] = 1;
            left--;
        } else if (status != PST_BUSY) MUST(status);
        if (moved) idle = 0;
    }
    if (left) MUST(pst_fail(PST_EINTERNAL, "a list that was found right stands still on `self`"));
    close_bench(&b);
    for (uint32_t r = 0; r < t.n_rank; r++) pst_memory_map_close(t.layout[r]);
    free(t.layout);
}

/* --- verdicts --------------------------------------------------------------------------------- */

typedef struct {
    uint32_t valid[MUTATIONS + 1], broken[MUTATIONS + 1], executed;
} verdicts;

/* A job that is right. */
typedef struct {
    const char *name;
    const pst_job *job;
    const pst_cut *cut;
    const pst_slots *slots;
    const test_case *of; /* the case whose job it is, NULL: there is none */
} original;

/* One or two mutations; aborts with the seed of this one when the verdicts differ. What is right is
 * executed, too, where there is a case. */
static inline void try_mutation(const original *from, uint64_t seed, verdicts *v) {
    const pst_cut *cut = from->cut;
    uint64_t state = seed;
    mutant m = open_mutant(from->job, from->slots);
    mutation kind = (mutation)(study_random(&state) % MUTATIONS), second = MUTATIONS;
    const char *why;
    mutate(&m, kind, &state);
    if (study_random(&state) % 4 == 0)
        mutate(&m, second = (mutation)(study_random(&state) % MUTATIONS), &state);
    pst_status status = pst_job_check(&m.job, cut, &m.slots, PST_CHECK_TAGGED);
    int valid = machine_accepts(&m.job, cut, &m.slots, &why);
    if (status != PST_OK && status != PST_EINPUT) {
        valid = !valid;
        why = "not a verdict";
    }
    if (valid != (status == PST_OK)) {
        pst_job_print(&m.job, stdout);
        printf("%s, %u ranks, %u micro-batches, seed %llu: %s%s%s: checker: %s; execution: %s\n",
               from->name, from->job->n_rank, from->job->n_micro, (unsigned long long)seed,
               mutation_name[kind], second < MUTATIONS ? ", " : "",
               second < MUTATIONS ? mutation_name[second] : "",
               status == PST_OK ? "passes" : pst_error(), valid ? "right" : why);
        fflush(stdout);
        abort();
    }
    if (from->of && valid) {
        execute(from->of, &m, seed);
        v->executed++;
    }
    (valid ? v->valid : v->broken)[kind]++;
    close_mutant(&m);
}

/* Jobs over stages without a model and over random graphs, some in first-in-first-out order; `each`
 * mutations of every one. */
static inline void try_mutations(uint32_t jobs, uint32_t each, verdicts *v) {
    uint64_t seed = study_seed();
    for (uint32_t i = 0; i < jobs; i++) {
        uint32_t kind = i % CASE_KINDS, p = 1 + (uint32_t)(study_random(&seed) % 4),
                 m = 1 + (uint32_t)(study_random(&seed) % 4);
        pst_instr_cost cost = {.latency_ns = 1, .fifo = study_random(&seed) % 4 == 0};
        uint64_t state = study_random(&seed);
        if (case_schedule[kind] && study_random(&seed) % 3) {
            study s;
            MUST(study_open(&s, case_schedule[kind], p, m, (pst_pass_ns){10, 10, 10}, &cost));
            const original right = {case_schedule[kind], s.job, s.cut, s.slots, NULL};
            for (uint32_t k = 0; k < each; k++) try_mutation(&right, study_random(&seed), v);
            study_close(&s);
            continue;
        }
        test_case t = {.g = random_graph(state), .packs = 1, .rests = 1};
        pst_job *job;
        pst_slots *slots;
        build_case(&t, 1 + p % 3, kind, 1 + m % 3, &state);
        MUST(pst_job_build(t.schedule, t.cut, &cost, &job, &slots));
        const char *name = case_schedule[kind] ? case_schedule[kind] : "many";
        const original right = {name, job, t.cut, slots, &t};
        for (uint32_t k = 0; k < each; k++) try_mutation(&right, study_random(&seed), v);
        pst_job_close(job);
        pst_slots_close(slots);
        pst_graph_close(t.g);
        close_case(&t);
    }
}

static inline void report_mutations(const verdicts *v, uint32_t *valid, uint32_t *broken) {
    *valid = *broken = 0;
    for (int k = 0; k < MUTATIONS; k++) {
        printf("%-12s %6u left right %6u broken\n", mutation_name[k], v->valid[k], v->broken[k]);
        *valid += v->valid[k];
        *broken += v->broken[k];
    }
    printf("%u mutations, no wrong verdict; %u of those left right executed\n", *valid + *broken,
           v->executed);
}
#endif
