/* Unit-time simulation of a schedule: when each action would run if F, B and W took one unit of
 * time each and messages none. It gives all ranks one common order of events that depends on the
 * schedule alone. Slot reuse follows it: a slot that a SEND reads becomes free once its receiver,
 * in this order, has posted the RECV. So every wait points back in this order, and no set of
 * instruction lists can deadlock over its slots. */
#include "pipeline/schedule/unit_time.h"
#include <stdlib.h>
#include <string.h>

/* When the inputs of `a` are ready; UINT32_MAX: one of them has not run yet. */
static uint32_t inputs_finished(const pst_unit_time *p, const pst_schedule *s,
                                const pst_action *a) {
    uint8_t back = s->split ? PST_OP_B : PST_OP_BW;
    uint32_t own = 0, other = 0;
    if (a->opcode == PST_OP_F) {
        if (a->chunk > 0) other = p->finish[pst_unit_time_key(s, a->chunk - 1, PST_OP_F, a->micro)];
    } else {
        own = p->finish[pst_unit_time_key(s, a->chunk, a->opcode == PST_OP_W ? PST_OP_B : PST_OP_F,
                                          a->micro)];
        if (a->opcode != PST_OP_W && a->chunk + 1u < s->n_chunk)
            other = p->finish[pst_unit_time_key(s, a->chunk + 1, back, a->micro)];
    }
    return own > other ? own : other; /* UINT32_MAX is the largest */
}

static int run_action(pst_unit_time *p, const pst_schedule *s, const pst_action *a,
                      const pst_action *before) {
    uint32_t start = inputs_finished(p, s, a);
    if (start == UINT32_MAX) return 0;
    size_t at = pst_unit_time_key(s, a->chunk, a->opcode, a->micro);
    if (before) {
        size_t b = pst_unit_time_key(s, before->chunk, before->opcode, before->micro);
        p->post[at] = p->start[b];
        p->idle[at] = p->finish[b];
        if (p->finish[b] > start) start = p->finish[b];
    }
    p->start[at] = start;
    p->finish[at] = start + (a->opcode == PST_OP_BW ? 2 : 1);
    return 1;
}

/* Reports the first rank that cannot continue. */
static pst_status fail_stuck(const pst_schedule *s, const uint32_t *next, pst_unit_time *p) {
    uint32_t r = 0;
    while (next[r] == s->n_action[r]) r++;
    const pst_action *a = &s->action[r][next[r]];
    p->stuck_rank = r;
    p->stuck_action = next[r];
    return pst_fail(PST_EINPUT,
                    "schedule %s deadlocks: rank %u waits at %s of chunk %u, micro-batch %u "
                    "(action %u of the rank)",
                    s->name, r, pst_opcode_name((pst_opcode)a->opcode), a->chunk, a->micro,
                    next[r]);
}

pst_status pst_unit_time_open(const pst_schedule *s, pst_unit_time *p) {
    size_t n = (size_t)s->n_chunk * 4 * s->n_micro;
    uint32_t *next = calloc(s->n_rank, sizeof *next), left = 0, moved = 1;
    *p = (pst_unit_time){calloc(n, 4), malloc(n * 4), calloc(n, 4),
                         calloc(n, 4), UINT32_MAX,    UINT32_MAX};
    if (!next || !p->start || !p->finish || !p->post || !p->idle) {
        free(next);
        return pst_fail(PST_ENOMEM, "no memory to simulate a schedule");
    }
    memset(p->finish, 0xff, n * 4);
    for (uint32_t r = 0; r < s->n_rank; r++) left += s->n_action[r];
    while (left && moved) {
        moved = 0;
        for (uint32_t r = 0; r < s->n_rank; r++)
            for (const pst_action *a = s->action[r]; next[r] < s->n_action[r]; next[r]++, moved++)
                if (!run_action(p, s, a + next[r], next[r] ? a + next[r] - 1 : NULL)) break;
        left -= moved;
    }
    pst_status status = left ? fail_stuck(s, next, p) : PST_OK;
    free(next);
    return status;
}

void pst_unit_time_close(pst_unit_time *p) {
    free(p->start);
    free(p->finish);
    free(p->post);
    free(p->idle);
}
