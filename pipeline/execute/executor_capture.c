/* Captured launches (pst_device_ops.capture_begin; CUDA graphs). A micro-batch that reuses a slot
 * has its operators launched with the same arguments again. So a run, that is all consecutive
 * operators of a program that may be captured, is captured when it occurs for the second time, and
 * replayed as one launch from then on. The first time it is launched normally: what libraries
 * create on their first call cannot be captured.
 *
 * A run is identified by all arguments of its launches, word for word, so nothing here depends on
 * why addresses repeat. While each operator is timed, nothing is replayed. If a capture fails, no
 * other is tried. */
#include "base/hash.h"
#include "base/log.h"
#include "pipeline/execute/executor_capture.h"
#include "pipeline/execute/executor_state.h"
#include "pipeline/execute/executor_step.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* LEAST: capturing a single launch saves nothing. MOST: operators of a run. RUNS, and ALL
 * (operators of all runs), limit the memory of host and device. */
enum { LEAST = 2, MOST = 256, RUNS = 2048, ALL = 32768, BUCKETS = 1024 };

struct pst_executor_run {
    pst_executor_run *next; /* in its bucket */
    uint64_t hash;
    void *launches; /* NULL: it occurred once */
    uint32_t n_step, n_word;
    uint64_t word[];
};

struct pst_executor_captures {
    pst_executor_run *bucket[BUCKETS];
    uint32_t n_run, n_step;               /* over all runs */
    uint32_t n_captured, n_captured_step; /* over the captured ones */
    uint64_t n_replayed;
    int failed;
    /* The current run. */
    uint32_t n_word;
    uint64_t sample, word[MOST * PST_EXECUTOR_WORDS];
};

pst_status pst_executor_captures_open(pst_executor *x) {
    const pst_device_ops *ops = x->config.device->ops;
    if (!x->ahead || !x->config.hooks.captures || !ops->capture_begin) return PST_OK;
    x->captures = calloc(1, sizeof *x->captures);
    return x->captures ? PST_OK
                       : pst_fail(PST_ENOMEM, "no memory for the captured graphs of rank %u",
                                  x->config.rank);
}

void pst_executor_captures_close(pst_executor *x) {
    pst_executor_captures *c = x->captures;
    if (!c) return;
    pst_log(PST_LOG_DEBUG,
            "rank %u: captured %u graphs with %u operators in total, launched %" PRIu64 " times",
            x->config.rank, c->n_captured, c->n_captured_step, c->n_replayed);
    for (uint32_t b = 0; b < BUCKETS; b++)
        for (pst_executor_run *run = c->bucket[b], *next; run; run = next) {
            next = run->next;
            free(run);
        }
    free(c);
}

/* --- which ------------------------------------------------------------------------------------ */

/* How many operators from x->step on may be captured together; sets c->word, which identifies them.
 */
static uint32_t gather(pst_executor *x, const pst_instr *instr, uint32_t n_step) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_executor_captures *c = x->captures;
    uint32_t n = 0;
    c->n_word = 0;
    for (; n < MOST && x->step + n < n_step; n++) {
        const pst_step *step = pst_executor_step_at(x, instr, x->step + n);
        pst_launch_fn fn;
        const void *call;
        if (step->exchange ||
            hooks->step(hooks->arg, instr->chunk, step, instr->micro, &fn, &call) != PST_OK)
            break;
        uint32_t n_word = hooks->captures(hooks->arg, call, c->word + c->n_word, &c->sample);
        if (!n_word) break;
        c->n_word += n_word;
    }
    return n;
}

/* Finds the current run, or adds it; NULL: the table is full. */
static pst_executor_run *look_up(pst_executor_captures *c, uint32_t n_step, int *is_new) {
    size_t bytes = c->n_word * sizeof *c->word;
    uint64_t hash = pst_hash_bytes(c->word, bytes);
    pst_executor_run **bucket = c->bucket + hash % BUCKETS, *run = *bucket;
    while (run &&
           (run->hash != hash || run->n_word != c->n_word || memcmp(run->word, c->word, bytes)))
        run = run->next;
    *is_new = !run;
    if (run || c->n_run == RUNS || c->n_step + n_step > ALL || !(run = malloc(sizeof *run + bytes)))
        return run;
    *run = (pst_executor_run){.next = *bucket, .hash = hash, .n_step = n_step, .n_word = c->n_word};
    memcpy(run->word, c->word, bytes);
    c->n_run++;
    c->n_step += n_step;
    return *bucket = run;
}

/* --- capturing -------------------------------------------------------------------------------- */

static pst_status launch_all(pst_executor *x, const pst_instr *instr, uint32_t n_step) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_device *d = x->config.device;
    for (uint32_t i = 0; i < n_step; i++) {
        pst_launch_fn fn;
        const void *call;
        PST_TRY(hooks->step(hooks->arg, instr->chunk, pst_executor_step_at(x, instr, x->step + i),
                            instr->micro, &fn, &call));
        PST_TRY(d->ops->launch(d, fn, call, 0, 0, NULL));
    }
    return PST_OK;
}

static pst_status capture(pst_executor *x, const pst_instr *instr, pst_executor_run *run) {
    pst_device *d = x->config.device;
    void *launches = NULL;
    PST_TRY(d->ops->capture_begin(d));
    pst_status status = launch_all(x, instr, run->n_step);
    if (status != PST_OK) d->ops->capture_end(d, NULL); /* the first failure is the one to report */
    else status = d->ops->capture_end(d, &launches);
    if (status != PST_OK) return status;
    run->launches = launches;
    x->captures->n_captured++;
    x->captures->n_captured_step += run->n_step;
    return PST_OK;
}

const pst_executor_run *pst_executor_find_run(pst_executor *x, const pst_instr *instr,
                                              uint32_t n_step) {
    pst_executor_captures *c = x->captures;
    int is_new;
    if (!c || c->failed || x->times || instr->opcode > PST_OP_BW || x->step < x->plain ||
        x->step >= n_step)
        return NULL;
    uint32_t n = gather(x, instr, n_step);
    x->plain = x->step + n;
    pst_executor_run *run = n >= LEAST ? look_up(c, n, &is_new) : NULL;
    if (!run || is_new) return NULL;
    if (!run->launches && capture(x, instr, run) != PST_OK) {
        c->failed = 1;
        pst_log(PST_LOG_DEBUG,
                "rank %u: operators are launched one by one, because graph capture failed: %s",
                x->config.rank, pst_error());
    }
    return c->failed ? NULL : run;
}

uint32_t pst_executor_run_steps(const pst_executor_run *run) { return run->n_step; }

/* Only devices that capture nothing use the predicted times of operators. */
pst_status pst_executor_launch_run(pst_executor *x, const pst_executor_run *run, int with_event) {
    pst_device *d = x->config.device;
    uint64_t after = x->after_ns[PST_Q_COMPUTE];
    const pst_captured call = {run->launches, x->captures->sample};
    PST_TRY(d->ops->launch(d, d->ops->replay, &call, after > x->end_ns ? after : x->end_ns, 0,
                           with_event ? &x->event : NULL));
    x->captures->n_replayed++;
    x->launched = 1;
    return PST_OK;
}
