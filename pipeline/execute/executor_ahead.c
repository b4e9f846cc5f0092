/* Execution on an asynchronous device (PST_DEVICE_ASYNC): the operators of an instruction are
 * queued without waiting, followed by the operators of the next ready instructions. The device runs
 * its queue in order, so the results of earlier operators are available. Instructions complete in
 * order, with the event of their last operator; transfers wait for this event. */
#include "pipeline/execute/executor_ahead.h"
#include "pipeline/execute/executor_capture.h"
#include "pipeline/execute/executor_state.h"
#include "pipeline/execute/executor_step.h"
#include <stdlib.h>

static int is_empty(const pst_executor *x) { return x->n_retired == x->n_queued; }

static pst_executor_launched *oldest(const pst_executor *x) {
    return &x->ahead[x->n_retired % PST_EXECUTOR_AHEAD];
}

static const pst_step *step_of(const pst_executor *x, const pst_executor_launched *e) {
    const pst_instr *in = x->list->instr + e->instr;
    return in->opcode <= PST_OP_BW ? pst_executor_step_at(x, in, e->step) : NULL;
}

static pst_activity activity_of(const pst_executor *x, const pst_executor_launched *e) {
    const pst_step *step = e->nothing ? NULL : step_of(x, e);
    return step && step->exchange && x->config.hooks.exchange ? PST_AT_EXCHANGE : PST_AT_COMPUTE;
}

/* Publishes the oldest launch as the position. */
static void publish_oldest(pst_executor *x) {
    if (!x->n_left) return;
    pst_executor_publish(x, is_empty(x) ? PST_AT_WAIT : activity_of(x, oldest(x)));
    if (is_empty(x)) return;
    PST_POSITION_SET(x->at, instr, oldest(x)->instr);
    PST_POSITION_SET(x->at, step, oldest(x)->step);
}

/* Records operator x->step, together with those before it without an event. */
static void push(pst_executor *x, uint64_t event, uint32_t n_step) {
    uint32_t first = x->step - x->n_eventless;
    x->ahead[x->n_queued++ % PST_EXECUTOR_AHEAD] =
        (pst_executor_launched){.event = event,
                                .instr = x->cursor[PST_Q_COMPUTE],
                                .step = first,
                                .n = n_step ? x->n_eventless + 1 : 0,
                                .first = !first,
                                .last = x->step + 1 >= n_step,
                                .nothing = !n_step};
    x->n_eventless = 0;
    if (x->n_queued - x->n_retired == 1) publish_oldest(x);
}

/* --- launches that have ended ----------------------------------------------------------------- */

static pst_status retire_one(pst_executor *x) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_device *d = x->config.device;
    const pst_executor_launched e = *oldest(x);
    const pst_step *step = e.nothing ? NULL : step_of(x, &e);
    uint64_t start = x->end_ns, end = x->end_ns;
    if (!e.nothing) {
        pst_status status = d->ops->test(d, e.event, &start, &end);
        if (status == PST_BUSY || status == PST_OK) PST_TRY(status);
        else return step && e.n == 1 ? pst_executor_fail_step(x, step, status) : status;
    }
    if (e.first) x->start_ns = start;
    x->end_ns = end;
    x->n_retired++;
    x->n_running -= e.n;
    if (step && x->times && hooks->ended)
        hooks->ended(hooks->arg, step, x->list->instr[e.instr].micro, start, end);
    if (e.last) pst_executor_complete(x, e.instr, x->start_ns, end);
    return PST_OK;
}

static pst_status retire(pst_executor *x, uint32_t *moved) {
    pst_status status = PST_OK;
    uint32_t before = *moved;
    while (!is_empty(x) && (status = retire_one(x)) == PST_OK) ++*moved;
    if (*moved != before) publish_oldest(x);
    return status == PST_BUSY ? PST_OK : status;
}

/* --- the next launches ------------------------------------------------------------------------ */

/* The next instruction if all transfers that it depends on are done. */
static const pst_instr *ready(pst_executor *x) {
    uint32_t at = x->cursor[PST_Q_COMPUTE];
    if (at >= x->list->n_instr) return NULL;
    const pst_instr *instr = x->list->instr + at;
    for (uint32_t *d = x->dep_seen + PST_Q_COMPUTE; *d < instr->n_dep; ++*d) {
        uint32_t on = x->list->dep[instr->dep + *d];
        if (!x->done[on] && x->list->instr[on].queue != PST_Q_COMPUTE) return NULL;
    }
    return instr;
}

/* Whether all launches have to end first: for exchanges in which the host takes part, and all of
 * the flush but plain additions. The host should not wait for the device inside a launch. */
static int wants_all_ended(const pst_executor *x, const pst_instr *in) {
    if (x->wait_for_exchanges && x->behind_exchange) return 1;
    if (in->opcode <= PST_OP_BW)
        return pst_executor_is_apart(x, pst_executor_step_at(x, in, x->step));
    return in->opcode > PST_OP_REDUCE || in->param == PST_NONE;
}

/* Returns 1 if the operator needs a separate event: the last operator of an instruction, because
 * other instructions wait for it, and the operators next to an exchange, so that a rank that waits
 * in an exchange can name the operator. */
static int wants_event(const pst_executor *x, const pst_instr *in, uint32_t n_step) {
    if (x->times || x->step + 1 >= n_step || x->n_eventless + 1 >= PST_EXECUTOR_STRETCH) return 1;
    return pst_executor_step_at(x, in, x->step)->exchange ||
           pst_executor_step_at(x, in, x->step + 1)->exchange;
}

static void go_on(pst_executor *x, uint32_t n_step) {
    if (x->step < n_step) return;
    x->step = x->plain = 0;
    pst_executor_seek(x, PST_Q_COMPUTE, x->cursor[PST_Q_COMPUTE] + 1);
}

/* BUSY: the next launch has to wait for something to end. */
static pst_status issue_one(pst_executor *x) {
    int room = x->n_queued - x->n_retired < PST_EXECUTOR_AHEAD && x->n_running < PST_EXECUTOR_AHEAD;
    const pst_instr *instr = room ? ready(x) : NULL;
    if (!instr) return PST_BUSY;
    uint32_t n_step = pst_executor_steps(x, instr);
    if (x->step < n_step && wants_all_ended(x, instr) && !is_empty(x)) return PST_BUSY;
    const pst_executor_run *run = pst_executor_find_run(x, instr, n_step);
    uint32_t n = run ? pst_executor_run_steps(run) : 1;
    x->step += n - 1;
    x->n_eventless += n - 1; /* the last one's event covers these too */
    int with_event = wants_event(x, instr, n_step);
    if (run) PST_TRY(pst_executor_launch_run(x, run, with_event));
    else if (x->step < n_step) PST_TRY(pst_executor_launch(x, instr, with_event));
    if (x->exchanging) return PST_BUSY;
    x->behind_exchange = instr->opcode <= PST_OP_BW && x->step < n_step &&
                         pst_executor_step_at(x, instr, x->step)->exchange;
    if (x->step < n_step) x->n_running += n;
    if (with_event) push(x, x->event, n_step);
    else x->n_eventless++;
    x->step++;
    go_on(x, n_step);
    return PST_OK;
}

static pst_status end_exchange(pst_executor *x) {
    uint32_t at = x->cursor[PST_Q_COMPUTE], n_step = pst_executor_steps(x, x->list->instr + at);
    uint64_t start, end;
    PST_TRY(pst_executor_exchanged(x, &start, &end));
    if (!x->step) x->start_ns = start;
    x->end_ns = end;
    if (++x->step == n_step) pst_executor_complete(x, at, x->start_ns, end);
    go_on(x, n_step);
    return PST_OK;
}

pst_status pst_executor_run_ahead(pst_executor *x, uint32_t *moved, uint32_t *at) {
    if (!is_empty(x)) *at = oldest(x)->instr;
    pst_status status = retire(x, moved);
    if (status != PST_OK) {
        *at = oldest(x)->instr;
        return status;
    }
    *at = x->cursor[PST_Q_COMPUTE];
    if (x->exchanging) {
        if ((status = end_exchange(x)) != PST_OK) return status == PST_BUSY ? PST_OK : status;
        ++*moved;
    }
    while ((status = issue_one(x)) == PST_OK) {
        *at = x->cursor[PST_Q_COMPUTE];
        ++*moved;
    }
    x->launched = !is_empty(x) || x->exchanging;
    return status == PST_BUSY ? PST_OK : status;
}
