/* Which launches of a rank a device may capture and replay
 * (pipeline/execute/executor_capture.c). */
#include "rank/rank.h"

/* Operator, scratch and seed of a step are the same every time. A repetition under the checker
 * reads memory between launches, so it is not captured. */
uint32_t pst_rank_captures(void *arg, const void *block, uint64_t words[PST_EXECUTOR_WORDS],
                           uint64_t *sample) {
    const pst_rank *r = arg;
    const pst_rank_call *c = block;
    uint32_t n = 0;
    if (!c->kernel) return 0; /* packs a message between stages */
    if (r->replay || !c->kernel->captures || !c->kernel->captures(r->device, &c->call)) return 0;
    *sample = c->call.sample;
    words[n++] = (uintptr_t)c->step;
    words[n++] = (uint64_t)(c->call.first != 0) << 1 | (c->call.train != 0);
    for (uint32_t i = 0; i < c->step->n_operand; i++) words[n++] = (uintptr_t)c->arg[i];
    return n;
}
