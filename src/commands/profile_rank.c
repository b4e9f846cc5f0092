/* A rank of `penstock profile`. It trains the run's model on its own with synthetic data, and
 * times the operators where the executor launches them, so that operands lie where they do in a
 * run, were written by the operator before, and weights are as cold in the caches. First rank 0
 * runs alone while the others wait; then all run at once. Everything is measured in several
 * rounds, and their median counts: if the host is busy for some seconds, only one round is
 * slower. */
#include "backends/machine.h"
#include "run/step.h"
#include "base/clock.h"
#include "commands/profile.h"
#include "pipeline/schedule/schedule.h"
#include "run/synthetic.h"
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, STEPS = 32, MICROS = 4, KEYS = 3 * PST_PASS_COUNT };
#define SLOW_NS UINT64_C(4000000000)  /* a step, as estimated */
#define ALL_NS UINT64_C(120000000000) /* no further round begins after this */
enum { SAMPLES = STEPS * MICROS, POOL = 64 * SAMPLES };

/* One measurement. again: only what recomputation adds. */
typedef struct {
    uint32_t micro_batch, tensor;
    int again;
} choice;

/* Nanoseconds of all launches, by node, pass and kind (a slot). */
typedef struct {
    pst_trainer t;
    pst_config *config;
    uint32_t n_slot, n_step;
    double *ns;           /* [n_slot][SAMPLES]; n has how many are set */
    uint32_t *n;          /* [n_slot] */
    double *pool;         /* [POOL] samples of all slots with the same key */
    double launch[STEPS]; /* time between two operators */
    double *flush;        /* [instructions of the list][STEPS], for those that are no passes */
} session;

static uint32_t slot_of(const pst_op_span *s) {
    uint32_t extra = s->again == PST_AGAIN_RESTORE ? PST_EXTRA_RESTORE : 0;
    if (s->extra) extra = s->extra;
    return s->node * KEYS + extra * PST_PASS_COUNT + s->pass;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The run file with another layout: one stage in this process, and a few micro-batches. */
static pst_status configure(const pst_profile_request *take, const choice *what, int small,
                            pst_config **config) {
    static const char *const alone[] = {
        "parallel.pipeline=1",       "parallel.data=1",
        "parallel.transport=self",   "parallel.cluster=",
        "parallel.profile=",         "parallel.plan=",
        "parallel.measured=",        "parallel.schedule_file=",
        "parallel.throttle=[]",      "parallel.replicas=[]",
        "parallel.reproducible=0",   "parallel.post_validation=false",
        "train.batch_warmup.from=0", "train.batch_warmup.tokens=0",
        "parallel.chunks=0",         "parallel.memory=0",
        "checkpoint.every=0",        "parallel.reproducible.tensor=0"};
    enum { N_ALONE = sizeof alone / sizeof *alone, TEXTS = 6 };
    const char *override[PST_PROFILE_OVERRIDES + N_ALONE + 8];
    char text[TEXTS][64];
    size_t n = 0;
    for (size_t i = 0; i < take->n_override; i++) override[n++] = take->override[i];
    for (size_t i = 0; i < N_ALONE; i++) override[n++] = alone[i];
    snprintf(text[0], sizeof text[0], "train.micro_batch=%u", what->micro_batch);
    snprintf(text[1], sizeof text[1], "train.batch=%u", what->micro_batch * (small ? 2 : MICROS));
    snprintf(text[2], sizeof text[2], "parallel.tensor=%u", what->tensor);
    snprintf(text[3], sizeof text[3], "parallel.threads=%u", take->threads);
    snprintf(text[4], sizeof text[4], "parallel.device=%s", take->device);
    snprintf(text[5], sizeof text[5], "parallel.schedule=%s", pst_schedule_single_stage()->name);
    for (int i = 0; i < TEXTS; i++) override[n++] = text[i];
    if (what->tensor == 1) override[n++] = "parallel.sequence=false";
    override[n++] = what->again ? "parallel.recompute=selective" : "parallel.recompute=none";
    PST_TRY(pst_config_load(take->run, override, n, config));
    PST_TRY(pst_prepare_keep_sizes(*config));
    if (small) PST_TRY(pst_config_override(*config, "model", "layers", "2"));
    return pst_config_override(*config, "model", "weights", ""); /* any weights take as long */
}

/* may_refuse: ENOMEM if a step of the whole model takes too long. */
static pst_status open_trainer(session *s, uint32_t ranks_here, int may_refuse) {
    pst_trainer *t = &s->t;
    uint64_t most = pst_machine_memory() / ranks_here, bytes = 0;
    int host; /* only the host's speed and memory are known here */
    PST_TRY(pst_synthetic_plan(s->config, t));
    for (uint32_t r = 0; r < t->p->options.n_rank; r++) bytes += t->p->memory[r]->total;
    host = pst_registry_is_host(t->p->options.device);
    if (host && may_refuse && t->p->timing->step_ns > SLOW_NS)
        return pst_fail(PST_ENOMEM, "the steps of the whole model take too long to measure");
    if (host && most && bytes > most)
        return pst_fail(PST_ENOMEM, "the model needs more memory than this machine has");
    PST_TRY(pst_synthetic_ranks(t));
    s->n_slot = t->p->graph->n_node * KEYS;
    s->n = calloc(s->n_slot, sizeof *s->n);
    s->ns = calloc((size_t)s->n_slot * SAMPLES, sizeof *s->ns);
    s->pool = calloc(POOL, sizeof *s->pool);
    s->flush = calloc((size_t)t->p->job->list[0].n_instr * STEPS, sizeof *s->flush);
    return s->n && s->ns && s->pool && s->flush ? PST_OK
                                                : pst_fail(PST_ENOMEM, "no memory for a profile");
}

static void close_session(session *s) {
    pst_synthetic_close(&s->t);
    pst_config_close(s->config);
    free(s->ns);
    free(s->n);
    free(s->pool);
    free(s->flush);
    *s = (session){.config = NULL};
}

/* A model that is too large or too slow for this machine is measured by its first two layers,
 * whose operators have the same shapes. */
static pst_status open_session(session *s, const pst_profile_request *take, const choice *what,
                               uint32_t ranks_here) {
    pst_status status = PST_ENOMEM;
    for (int small = 0; small < 2 && status == PST_ENOMEM; small++) {
        *s = (session){.config = NULL};
        status = configure(take, what, small, &s->config);
        if (status == PST_OK) status = open_trainer(s, ranks_here, !small);
        if (status == PST_ENOMEM && !small) close_session(s);
    }
    return status;
}

/* --- measuring -------------------------------------------------------------------------------- */

/* Collects what rank 0 of this process has launched in the last step. */
static void note_step(session *s) {
    const pst_rank *r = s->t.group->local[0];
    const pst_instr_list *list = &s->t.p->job->list[0];
    uint64_t origin;
    const pst_span *span = pst_executor_spans(r->executor, &origin);
    double busy = 0;
    for (uint32_t i = 0; i < list->n_instr; i++)
        if (list->instr[i].opcode > PST_OP_BW)
            s->flush[(size_t)i * STEPS + s->n_step] = (double)(span[i].end - span[i].start);
    for (uint32_t i = 0; i < r->n_op; i++) {
        uint32_t slot = slot_of(&r->op[i]);
        double took = (double)(r->op[i].end - r->op[i].start);
        if (s->n[slot] < SAMPLES) s->ns[(size_t)slot * SAMPLES + s->n[slot]++] = took;
        busy += took;
    }
    if (s->t.group->n_local == 1 && r->n_op > 1)
        s->launch[s->n_step] =
            ((double)(r->op[r->n_op - 1].end - r->op[0].start) - busy) / (r->n_op - 1);
    s->n_step++;
}

/* The first step does not count: caches and pages are cold. */
static pst_status train(session *s, double seconds) {
    uint64_t until = 0;
    s->n_step = 0;
    memset(s->n, 0, s->n_slot * sizeof *s->n);
    for (int step = 0; step <= STEPS; step++) {
        pst_metrics_step measured;
        uint64_t began = pst_monotonic_ns();
        PST_TRY(pst_synthetic_feed(&s->t));
        PST_TRY(pst_step_run(&s->t, began, &measured));
        if (!step) until = pst_monotonic_ns() + (uint64_t)(seconds * 1e9);
        else note_step(s);
        uint64_t now = pst_monotonic_ns();
        if (step && now > until) break;
    }
    return PST_OK;
}

/* --- findings --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean without the highest and lowest eighth: this removes interruptions, but keeps the first
 * micro-batch of each step, which finds the caches full of optimizer state. */
static double middle(double *x, uint32_t n) {
    uint32_t from = n / 8, to = n - from;
    double sum = 0;
    qsort(x, n, sizeof *x, by_value);
    for (uint32_t i = from; i < to; i++) sum += x[i];
    return n ? sum / (to - from) : 0;
}

/* The row with this key, or a new one without durations. */
static json_t *find_row(json_t *rows, pst_profile_kind kind, const char *text, uint64_t size,
                        int busy) {
    json_t *row;
    size_t i;
    json_array_foreach(
        rows, i,
        row) if (json_integer_value(json_object_get(row, "kind")) == (json_int_t)kind &&
                 json_integer_value(json_object_get(row, "size")) == (json_int_t)size &&
                 json_integer_value(json_object_get(row, "busy")) == busy &&
                 !strcmp(json_string_value(json_object_get(row, "text")), text)) return row;
    row = json_pack("{s:i,s:s,s:I,s:i,s:[]}", "kind", (int)kind, "text", text, "size",
                    (json_int_t)size, "busy", busy, "ns");
    json_array_append_new(rows, row);
    return row;
}

/* Adds the durations of one round. */
static void add(json_t *rows, pst_profile_kind kind, const char *text, uint64_t size, int busy,
                double ns) {
    if (ns > 0)
        json_array_append_new(json_object_get(find_row(rows, kind, text, size, busy), "ns"),
                              json_real(ns));
}

/* Replaces the durations of all rounds by their median. */
static void take_medians(json_t *rows) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        const json_t *all = json_object_get(row, "ns");
        double ns[ROUNDS * PST_PROFILE_CHOICES * PST_PROFILE_CHOICES];
        size_t n = json_array_size(all);
        if (n > sizeof ns / sizeof *ns) n = sizeof ns / sizeof *ns;
        for (size_t k = 0; k < n; k++) ns[k] = json_number_value(json_array_get(all, k));
        qsort(ns, n, sizeof *ns, by_value);
        json_object_set_new(row, "ns", json_real(n ? (ns[(n - 1) / 2] + ns[n / 2]) / 2 : 0));
    }
}

/* Mean over all slots with the same key. */
static void add_shape(session *s, uint32_t slot, uint8_t *done, int busy, json_t *rows) {
    const pst_graph *g = s->t.p->graph;
    char mine[PST_PROFILE_TEXT], other[PST_PROFILE_TEXT];
    uint32_t n = 0;
    const int extra = (int)(slot % KEYS / PST_PASS_COUNT);
    pst_profile_shape(g, g->node + slot / KEYS, extra, (pst_pass)(slot % PST_PASS_COUNT), mine);
    for (uint32_t i = slot; i < s->n_slot; i++) {
        if (done[i] || !s->n[i]) continue;
        pst_profile_shape(g, g->node + i / KEYS, (int)(i % KEYS / PST_PASS_COUNT),
                          (pst_pass)(i % PST_PASS_COUNT), other);
        if (strcmp(mine, other)) continue;
        for (uint32_t k = 0; k < s->n[i] && n < POOL; k++)
            s->pool[n++] = s->ns[(size_t)i * SAMPLES + k];
        done[i] = 1;
    }
    add(rows, PST_PROFILE_PASS, mine, 0, busy, middle(s->pool, n));
}

/* Number of elements that a flush instruction works on: of one parameter, or of all. */
static uint64_t size_of_flush(const pst_graph *g, const pst_instr *in, uint64_t all) {
    if (in->opcode == PST_OP_GATHER) return 0;
    if (in->opcode != PST_OP_REDUCE && in->opcode != PST_OP_PACK) return all;
    return in->n ? in->n : pst_param_elements(g->param + in->param);
}

/* Times the instructions after the last pass. */
static void add_flush(session *s, int busy, json_t *rows) {
    static const struct {
        uint8_t opcode;
        pst_profile_kind kind;
    } works[] = {{PST_OP_NORM, PST_PROFILE_NORM},
                 {PST_OP_STEP, PST_PROFILE_STEP},
                 {PST_OP_GATHER, PST_PROFILE_GATHER},
                 {PST_OP_PACK, PST_PROFILE_PACK},
                 {PST_OP_REDUCE, PST_PROFILE_REDUCE}};
    const pst_rank *r = s->t.group->local[0];
    const pst_instr_list *list = &s->t.p->job->list[0];
    uint64_t elements = 0;
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        elements += pst_param_elements(r->graph->param + i);
    for (uint32_t i = 0; i < list->n_instr; i++)
        for (size_t k = 0; k < sizeof works / sizeof *works; k++) {
            const pst_instr *in = &list->instr[i];
            if (in->opcode == works[k].opcode)
                add(rows, works[k].kind, "", size_of_flush(r->graph, in, elements), busy,
                    middle(s->flush + (size_t)i * STEPS, s->n_step));
        }
}

/* Not measured here: tensor ranks of one process exchange nothing. */
static int is_measured(const session *s, const choice *what, uint32_t slot) {
    const pst_node *node = s->t.p->graph->node + slot / KEYS;
    uint32_t extra = slot % KEYS / PST_PASS_COUNT;
    pst_exchange kind =
        pst_node_exchange(node, extra == PST_EXTRA_SUM, (pst_pass)(slot % PST_PASS_COUNT));
    return s->n[slot] && (kind == PST_EXCHANGE_NONE || kind == PST_EXCHANGE_COPY) &&
           (!what->again || extra == PST_EXTRA_RESTORE);
}

static pst_status report(session *s, const choice *what, int busy, json_t *rows) {
    uint8_t *done = calloc(s->n_slot, 1);
    if (!done) return pst_fail(PST_ENOMEM, "no memory for a profile");
    for (uint32_t i = 0; i < s->n_slot; i++)
        if (!done[i] && is_measured(s, what, i)) add_shape(s, i, done, busy, rows);
    free(done);
    if (s->t.group->n_local > 1 || what->again) return PST_OK;
    add(rows, PST_PROFILE_LAUNCH, "", 0, busy, middle(s->launch, s->n_step));
    add_flush(s, busy, rows);
    return PST_OK;
}

/* Measures one choice: rank 0 alone, then all ranks. */
static pst_status measure(const pst_profile_request *take, const choice *what, pst_world *world,
                          json_t *rows) {
    double seconds = (what->again ? take->seconds / 4 : take->seconds) / ROUNDS;
    session s;
    pst_status status = open_session(&s, take, what, world->size);
    for (int busy = 0; busy < (world->size > 1 ? 2 : 1); busy++) {
        if (status == PST_OK && (busy || world->rank == 0)) status = train(&s, seconds);
        if (status == PST_OK && world->rank == 0) status = report(&s, what, busy, rows);
        status = pst_group_agree_world(world, status);
    }
    close_session(&s);
    return status;
}

/* Measures every choice once. */
static pst_status measure_all(const pst_profile_request *take, pst_world *world, json_t *rows) {
    for (uint32_t k = 0; k < take->n_tensor; k++)
        for (uint32_t i = 0; i < 2 * take->n_micro_batch; i++) {
            const choice what = {take->micro_batch[i / 2], take->tensor[k], i % 2};
            PST_TRY(measure(take, &what, world, rows));
        }
    return PST_OK;
}

/* Rank 0 decides whether there is time for another round. */
static pst_status agree_more(pst_world *world, int done, uint64_t began, int *more) {
    uint64_t took = pst_monotonic_ns() - began;
    char key[40];
    void *theirs = NULL;
    size_t bytes = 0;
    *more = done < ROUNDS && took + took / (unsigned)done <= ALL_NS;
    if (world->size == 1) return PST_OK;
    snprintf(key, sizeof key, "penstock.profile.round.%d", done);
    if (world->rank == 0) PST_TRY(world->ops->put(world, key, more, sizeof *more));
    PST_TRY(world->ops->fence(world));
    PST_TRY(world->ops->get(world, 0, key, &theirs, &bytes));
    if (bytes == sizeof *more) memcpy(more, theirs, sizeof *more);
    free(theirs);
    return PST_OK;
}

pst_status pst_profile_rank(const pst_bench *b, pst_world *world, pst_transport *t,
                            json_t **found) {
    const uint64_t began = pst_monotonic_ns();
    pst_status status = PST_OK;
    (void)t;
    json_t *rows = json_array();
    for (int done = 0, more = 1; status == PST_OK && more;) {
        status = measure_all(b->profile, world, rows);
        if (status == PST_OK) status = agree_more(world, ++done, began, &more);
    }
    take_medians(rows);
    if (status == PST_OK) *found = json_pack("{s:O}", "rows", rows);
    json_decref(rows);
    return status;
}
