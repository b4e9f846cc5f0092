/* parallel.local: islands of replicas, which take several steps without each other. */
#include "prepare/prepare.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The mean of the weights after one step of each replica is the weight after a step with the mean
 * gradient, if the step is linear in the gradient: so it is taken, with the same bits. */
static int is_synchronous(const pst_config *c) {
    return c->parallel.local.steps == 1 && c->parallel.local.outer.lr == 1 &&
           c->parallel.local.outer.momentum == 0 && !strcmp(c->train.optimizer, "sgd") &&
           c->train.clip == 0;
}

uint32_t pst_prepare_islands(const pst_config *c, uint32_t replicas) {
    if (!c->parallel.local.steps || is_synchronous(c)) return 1;
    return c->parallel.local.islands ? (uint32_t)c->parallel.local.islands : replicas;
}

static pst_status refuse(const pst_config *c, const char *why) {
    return pst_config_at(c, "parallel.local", "steps", pst_fail(PST_EINPUT, "%s", why));
}

/* Each island has as many replicas. */
static pst_status check_number(const pst_config *c, uint32_t replicas) {
    const int64_t n = c->parallel.local.islands;
    const char *why =
        n == 1 ? "one island has no others" : "islands have equal numbers of replicas";
    pst_status status = PST_OK;
    if (n == 1 || n > replicas || (n && replicas % (uint32_t)n))
        status = pst_fail(PST_EINPUT,
                          "parallel.local.islands=%" PRId64
                          ": %s; expected a number from 2 on that divides the number of replicas "
                          "(parallel.data), %u",
                          n, why, replicas);
    return pst_config_at(c, "parallel.local", "islands", status);
}

/* Keys that need numbers of all replicas in every step. */
static pst_status check(const pst_prepared *p) {
    const pst_config *c = p->config;
    const int alone = pst_prepare_islands(c, p->grid.data) == p->grid.data;
    const struct {
        int given;
        const char *why;
    } row[] = {
        {!strcmp(c->train.precision, "fp16") && c->train.loss_scale == 0,
         "parallel.local: a dynamic loss scale would differ between islands; give train.loss_scale "
         "a number, or use train.precision=bf16"},
        {!strcmp(c->train.non_finite, "skip"),
         "parallel.local: islands skip no steps; use train.non_finite=stop"},
        {!strcmp(c->train.spike, "skip") || !strcmp(c->train.spike, "rewind"),
         "parallel.local: islands skip no steps; use train.spike=warn or off"},
        {c->train.batch_warmup.from != 0,
         "parallel.local and train.batch_warmup are not supported together"},
        {strcmp(c->parallel.compress.up, "none") != 0,
         "parallel.local: gradients inside an island are not packed; use "
         "parallel.compress.up=none"},
        {strcmp(c->parallel.compress.down, "none") != 0,
         "parallel.local: islands exchange weights in outer steps only, in fp32; use "
         "parallel.compress.down=none"},
        {alone && strcmp(c->parallel.gradients, "fp32") != 0,
         "parallel.local: islands of one replica send no gradients; use parallel.gradients=fp32"},
        {!alone && p->plan->layout.zero == 2,
         "parallel.local: the replicas of an island exchange whole gradients; use parallel.zero=1"},
        {c->parallel.reproducible != 0,
         "parallel.local: what is learned depends on the number of islands; use "
         "parallel.reproducible.data=0"},
        {!strcmp(c->parallel.post_validation, "true"),
         "parallel.local and parallel.post_validation are not supported together"},
        {p->options.device && p->options.device->flags & PST_DEVICE_OWN_MEMORY,
         "parallel.local is supported on CPUs only"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].given) return refuse(c, row[i].why);
    return PST_OK;
}

/* Fragments take turns, one exchange at a time. */
static pst_status check_fragments(const pst_config *c) {
    const int64_t steps = c->parallel.local.steps, n = c->parallel.local.fragments,
                  delay = c->parallel.local.delay;
    pst_status status = PST_OK;
    if (n > steps)
        status = pst_fail(PST_EINPUT,
                          "parallel.local.fragments=%" PRId64
                          ": expected at most parallel.local.steps, %" PRId64,
                          n, steps);
    PST_TRY(pst_config_at(c, "parallel.local", "fragments", status));
    if (delay && delay >= steps / n)
        status = pst_fail(PST_EINPUT,
                          "parallel.local.delay=%" PRId64
                          ": an exchange must end before the next one begins; expected less than "
                          "steps / fragments, %" PRId64,
                          delay, steps / n);
    PST_TRY(pst_config_at(c, "parallel.local", "delay", status));
    if (c->parallel.local.alpha > 0 && !delay)
        status = pst_fail(PST_EINPUT, "parallel.local.alpha needs parallel.local.delay");
    PST_TRY(pst_config_at(c, "parallel.local", "alpha", status));
    if (c->stop.patience && (n > 1 || delay))
        status = pst_fail(PST_EINPUT,
                          "stop.patience: with parallel.local.fragments or delay islands have the "
                          "same weights only after the last step, and are evaluated only then");
    return pst_config_at(c, "stop", "patience", status);
}

/* Kept weights are sent over several steps, as they are. */
static pst_status check_codec(const pst_config *c) {
    const int64_t block = c->parallel.compress.block;
    pst_status status = PST_OK;
    if (!strcmp(c->parallel.local.compress, "none")) return PST_OK;
    if (c->parallel.local.delay)
        status = pst_fail(PST_EINPUT, "parallel.local.compress packs exchanges at the end of a "
                                      "step; use parallel.local.delay=0");
    else if (block && (block < PST_CODEC_BLOCK_MIN || (block & (block - 1)) != 0))
        status = pst_fail(PST_EINPUT, "parallel.compress.block: expected a power of two from 32 to "
                                      "4096, or 0");
    return pst_config_at(c, "parallel.local", "compress", status);
}

pst_status pst_prepare_fragments(const pst_prepared *p, uint32_t **fragment) {
    const pst_graph *g = p->whole;
    const uint64_t n = (uint64_t)p->config->parallel.local.fragments;
    uint64_t all = 0, before = 0;
    *fragment = NULL;
    if (n == 1 || pst_prepare_islands(p->config, p->grid.data) == 1) return PST_OK;
    if (!(*fragment = calloc(g->n_param + (size_t)1, sizeof **fragment)))
        return pst_no_memory("for the fragments of islands");
    for (uint32_t i = 0; i < g->n_param; i++)
        if (!g->param[i].frozen) all += pst_param_elements(g->param + i);
    for (uint32_t i = 0; i < g->n_param; i++) {
        const uint64_t elements = g->param[i].frozen ? 0 : pst_param_elements(g->param + i);
        (*fragment)[i] = (uint32_t)((before + elements / 2) * n / (all + 1));
        before += elements;
    }
    return PST_OK;
}

pst_status pst_prepare_local(const pst_prepared *p, pst_job_spec *spec) {
    const pst_config *c = p->config;
    spec->islands = p->options.infer ? 1 : pst_prepare_islands(c, p->grid.data);
    if (spec->islands == 1 && !c->parallel.local.islands) return PST_OK;
    if (c->parallel.local.steps && !p->options.infer) PST_TRY(check_number(c, p->grid.data));
    if (spec->islands == 1) return PST_OK;
    PST_TRY(check(p));
    PST_TRY(check_fragments(c));
    PST_TRY(check_codec(c));
    spec->islands_codec = pst_prepare_codec_islands(c);
    spec->fragments = (uint32_t)c->parallel.local.fragments;
    spec->delay = (uint32_t)c->parallel.local.delay;
    spec->part = p->options.part;
    spec->turn = p->options.turn;
    if (!p->options.inner) spec->syncs = PST_SYNC_END;
    if (p->options.part && spec->delay) spec->syncs = PST_SYNC_TURN;
    spec->velocity = c->parallel.local.outer.momentum > 0;
    return PST_OK;
}

/* Whether a fragment has a turn in this step; in an exchange that ends before the last step. */
static int has_turn(const pst_config *c, uint64_t step, uint64_t fragment, uint64_t *turn) {
    const uint64_t every = (uint64_t)c->parallel.local.steps,
                   n = (uint64_t)c->parallel.local.fragments,
                   at = every * (fragment + 1) / n % every;
    *turn = ((step + 1) % every + every - at) % every;
    if (*turn > (uint64_t)c->parallel.local.delay || *turn > step) return 0;
    return step - *turn + (uint64_t)c->parallel.local.delay + 1 < (uint64_t)c->train.steps;
}

pst_local_step pst_prepare_local_step(const pst_config *c, uint64_t step) {
    const uint64_t every = (uint64_t)c->parallel.local.steps,
                   n = (uint64_t)c->parallel.local.fragments;
    uint64_t turn = 0;
    if (step + 1 >= (uint64_t)c->train.steps) return (pst_local_step){.kind = PST_LOCAL_ALL};
    if (n == 1 && !c->parallel.local.delay && (step + 1) % every == 0)
        return (pst_local_step){.kind = PST_LOCAL_ALL};
    for (uint64_t f = 0; (n > 1 || c->parallel.local.delay) && f < n; f++)
        if (has_turn(c, step, f, &turn))
            return (pst_local_step){PST_LOCAL_TURN, (uint32_t)f, (uint32_t)turn};
    return (pst_local_step){.kind = PST_LOCAL_NONE};
}

int pst_prepared_syncs(const pst_prepared *p, uint64_t step) {
    return p->job->islands == 1 || pst_prepare_local_step(p->config, step).kind == PST_LOCAL_ALL;
}

double pst_prepared_step_ns(const pst_prepared *p) {
    const double outer = (double)p->mean_ns;
    if (!p->inner) return outer;
    const double n = (double)p->config->parallel.local.steps,
                 inner = (double)p->inner->timing->step_ns;
    if (!p->n_turns) return (outer + (n - 1) * inner) / n;
    double sum = (n - p->n_turns) * inner;
    for (uint32_t i = 0; i < p->n_turns; i++) sum += (double)p->turns[i]->timing->step_ns;
    return sum / n;
}
