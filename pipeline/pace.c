/* The pace of a schedule: when each action would run if F, B and W took one unit of time each and messages none. It
 * gives all ranks one common order of events, from the schedule alone, in which slot reuse must make sense: a slot that
 * a SEND reads is free only once its receiver, by this order, has its RECV posted. Waits then always point back in
 * this order, so no set of lists can deadlock over its slots. */
#include "pipeline/job_parts.h"
#include <stdlib.h>
#include <string.h>

static size_t key(const pst_schedule *s, uint32_t chunk, uint8_t opcode, uint32_t micro) {
    return ((size_t)chunk * 4 + opcode) * s->n_micro + micro;
}

/* When what `a` needs is finished; PST_NONE when something has not run yet. */
static uint32_t inputs_finished(const pst_pace *p, const pst_schedule *s, const pst_action *a) {
    uint8_t back = s->split ? PST_OP_B : PST_OP_BW;
    uint32_t own = 0, other = 0;
    if (a->opcode == PST_OP_F) {
        if (a->chunk > 0) other = p->finish[key(s, a->chunk - 1, PST_OP_F, a->micro)];
    } else {
        own = p->finish[key(s, a->chunk, a->opcode == PST_OP_W ? PST_OP_B : PST_OP_F, a->micro)];
        if (a->opcode != PST_OP_W && a->chunk + 1u < s->n_chunk)
            other = p->finish[key(s, a->chunk + 1, back, a->micro)];
    }
    return own > other ? own : other; /* PST_NONE is the largest */
}

static int run_action(pst_pace *p, const pst_schedule *s, const pst_action *a, const pst_action *before) {
    uint32_t start = inputs_finished(p, s, a);
    if (start == PST_NONE) return 0;
    size_t at = key(s, a->chunk, a->opcode, a->micro);
    if (before) {
        size_t b = key(s, before->chunk, before->opcode, before->micro);
        p->post[at] = p->start[b], p->idle[at] = p->finish[b];
        if (p->finish[b] > start) start = p->finish[b];
    }
    p->start[at] = start;
    p->finish[at] = start + (a->opcode == PST_OP_BW ? 2 : 1);
    return 1;
}

/* Somebody waits for ever: the first rank that does. */
static pst_status fail_stuck(const pst_schedule *s, const uint32_t *next, pst_pace *p) {
    uint32_t r = 0;
    while (next[r] == s->n_action[r]) r++;
    const pst_action *a = &s->action[r][next[r]];
    p->stuck_rank = r, p->stuck_action = next[r];
    return pst_fail(PST_EINPUT, "schedule %s cannot be finished: rank %u waits for ever at %s c%u m%u, its action %u",
                    s->name, r, pst_opcode_name((pst_opcode)a->opcode), a->chunk, a->micro, next[r]);
}

pst_status pst_pace_open(const pst_schedule *s, pst_pace *p) {
    size_t n = (size_t)s->n_chunk * 4 * s->n_micro;
    uint32_t *next = calloc(s->n_rank, sizeof *next), left = 0, moved = 1;
    *p = (pst_pace){calloc(n, 4), malloc(n * 4), calloc(n, 4), calloc(n, 4), PST_NONE, PST_NONE};
    if (!next || !p->start || !p->finish || !p->post || !p->idle) {
        free(next);
        return pst_fail(PST_ENOMEM, "no memory for the pace of a schedule");
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

void pst_pace_close(pst_pace *p) { free(p->start), free(p->finish), free(p->post), free(p->idle); }

/* From the value's home, hop by hop: it leaves when it is made (passed on: when it has arrived and the sender has
 * finished the action before), and arrives once the receiver has posted: one action ahead of its consumer. */
uint32_t pst_pace_arrival(const pst_job_builder *b, uint32_t chunk, const pst_local *local, uint32_t micro) {
    const pst_schedule *s = b->schedule;
    const pst_pace *p = &b->pace;
    const pst_value *v = b->cut->tape->value + local->value;
    int down = v->kind == PST_VALUE_GRAD;
    uint8_t opcode = !down ? PST_OP_F : s->split ? PST_OP_B : PST_OP_BW;
    uint32_t c = b->cut->chunk_of_node[b->cut->tape->step[v->def_step].node], time = 0;
    for (int home = 1;; home = 0) {
        size_t at = key(s, c, opcode, micro);
        if (home) time = p->finish[at];
        else if (p->idle[at] > time) time = p->idle[at];
        uint32_t last = c == chunk;
        c = down ? c - 1 : c + 1;
        uint32_t posted = p->post[key(s, c, opcode, micro)];
        if (posted > time) time = posted;
        if (last) return time;
    }
}
