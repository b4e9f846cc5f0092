/* The executor of one rank. One cursor per queue walks the instruction list; outstanding are at
 * most one launch and a short array of transfers, so a call with nothing to do checks only these.
 * Single-threaded: poll may run inside a launch, on the same thread. */
#include "pipeline/execute/executor.h"
#include "pipeline/execute/executor_ahead.h"
#include "pipeline/execute/executor_capture.h"
#include "pipeline/execute/executor_state.h"
#include "pipeline/execute/executor_step.h"
#include "pipeline/execute/timed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- life ------------------------------------------------------------------------------------- */

pst_status pst_executor_open(const pst_executor_config *config, pst_executor **x) {
    pst_executor *e = calloc(1, sizeof *e);
    if (!e) return pst_fail(PST_ENOMEM, "no memory for the executor of rank %u", config->rank);
    e->config = *config;
    e->at = config->position ? config->position : &e->unwatched;
    e->is_timed = config->transport && config->transport->ops && config->transport->ops->name &&
                  !strcmp(config->transport->ops->name, "timed");
    e->is_virtual = config->device->ops == &pst_device_timed;
    if (config->device->ops->flags & PST_DEVICE_ASYNC &&
        !(e->ahead = calloc(PST_EXECUTOR_AHEAD, sizeof *e->ahead))) {
        free(e);
        return pst_fail(PST_ENOMEM, "no memory for the launch queue of rank %u", config->rank);
    }
    pst_status status = pst_executor_captures_open(e);
    if (status != PST_OK) {
        pst_executor_close(e);
        return status;
    }
    *x = e;
    return PST_OK;
}

void pst_executor_close(pst_executor *x) {
    if (!x) return;
    pst_executor_captures_close(x);
    free(x->done);
    free(x->span);
    free(x->pending);
    free(x->ahead);
    free(x);
}

static pst_status reserve(pst_executor *x, uint32_t n) {
    if (n <= x->cap && x->cap) return PST_OK;
    free(x->done);
    free(x->span);
    free(x->pending);
    x->cap = n ? n : 1;
    x->done = malloc(x->cap);
    x->span = malloc(x->cap * sizeof *x->span);

    x->pending = malloc(x->cap * sizeof *x->pending);
    if (x->done && x->span && x->pending) return PST_OK;
    x->cap = 0;
    return pst_fail(PST_ENOMEM, "no memory for %u instructions", n);
}

/* --- the position that other ranks see -------------------------------------------------------- */

static void publish_posted(pst_executor *x) {
    /* the head queue comes first: SENDs and RECVs after its cursor are not posted yet */
    uint32_t head = x->cursor[PST_Q_HEAD];
    PST_POSITION_SET(x->at, sent, head < x->list->n_instr ? head : x->cursor[PST_Q_SEND]);
    PST_POSITION_SET(x->at, received, head < x->list->n_instr ? head : x->cursor[PST_Q_RECV]);
    pst_position_move(x->at);
}

static void publish_start(pst_executor *x) {
    PST_POSITION_SET(x->at, n_run, PST_POSITION_GET(x->at, n_run) + 1);
    pst_position_op(x->at, PST_POSITION_GET(x->at, train) ? PST_OP_LIST_TRAIN : PST_OP_LIST_EVAL);
    PST_POSITION_SET(x->at, sent, 0);
    PST_POSITION_SET(x->at, received, 0);
    pst_executor_publish(x, x->n_left ? PST_AT_WAIT : PST_AT_HOST);
}

/* Sequence numbers from one list to the next. */
static uint32_t stride_of(const pst_job *job) {
    const uint32_t n = job->n_seq > job->n_micro ? job->n_seq : job->n_micro;
    return n ? n : 1;
}

static pst_status start(pst_executor *x, const pst_job *job, const pst_cut *cut,
                        const pst_instr_list *list) {
    if (x->n_left || x->serving)
        return pst_fail(PST_EINTERNAL, "rank %u is still running the previous list",
                        x->config.rank);
    PST_TRY(reserve(x, list->n_instr));
    x->job = job;
    x->cut = cut;
    x->list = list;
    x->n_left = list->n_instr;
    x->n_pending = 0;
    x->step = x->plain = 0;
    x->launched = x->exchanging = x->adds = 0;
    x->failed = PST_OK;
    x->n_retired = x->n_queued = x->n_running = x->n_eventless = 0;
    x->times = !x->config.times || *x->config.times;
    x->wait_for_exchanges = x->config.wait_for_exchanges && *x->config.wait_for_exchanges;
    x->behind_exchange = 0;
    x->seq_base = x->seq_next;
    x->seq_next += stride_of(job); /* wraps: only messages in flight need different numbers */
    memset(x->done, 0, list->n_instr);
    memset(x->span, 0, list->n_instr * sizeof *x->span);
    for (pst_queue q = 0; q < PST_Q_COUNT; q++) pst_executor_seek(x, q, 0);
    x->mismatch = PST_NONE;
    publish_start(x);
    x->origin = x->end_ns = x->side_end_ns = pst_clock_now(x->config.clock);
    return PST_OK;
}

pst_status pst_executor_start(pst_executor *x, const pst_job *job, const pst_cut *cut) {
    return start(x, job, cut, job->list + x->config.rank);
}

pst_status pst_executor_start_head(pst_executor *x, const pst_job *job, const pst_cut *cut) {
    x->head = job->list[x->config.rank];
    x->head.n_instr = x->head.n_head;
    return start(x, job, cut, &x->head);
}

pst_status pst_executor_start_served(pst_executor *x, const pst_job *job, const pst_cut *cut,
                                     pst_serving *s) {
    if (!s->n_order) s->seq = x->seq_next;
    s->stride = stride_of(job);
    s->left = s->workers;
    s->leads = x->config.rank == pst_job_leader(job);
    PST_TRY(start(x, job, cut, job->list + x->config.rank));
    x->n_left = 0; /* no part has begun */
    x->serving = s;
    return PST_OK;
}

/* --- readiness -------------------------------------------------------------------------------- */

/* The instruction at a queue's cursor if all its dependencies are done, else NULL. A dependency
 * that is done is not checked again. */
static const pst_instr *ready(pst_executor *x, pst_queue queue) {
    uint32_t at = x->cursor[queue];
    if (at >= x->list->n_instr) return NULL;
    const pst_instr *instr = x->list->instr + at;
    for (uint32_t *d = x->dep_seen + queue; *d < instr->n_dep; ++*d) {
        uint32_t on = x->list->dep[instr->dep + *d];
        if (!x->done[on]) return NULL;
        uint64_t end = x->origin + x->span[on].end;
        if (end > x->after_ns[queue]) x->after_ns[queue] = end;
    }
    return instr;
}

static void note(const pst_executor *x, const pst_instr *instr) {
    if (!x->config.last_instr) return;
    *x->config.last_instr =
        (uint64_t)instr->opcode << 56 | (uint64_t)instr->chunk << 32 | instr->micro;
}

static pst_status fail_at(const pst_executor *x, uint32_t at, pst_status status) {
    char text[160];
    return pst_fail_in(status, "%s", pst_instr_text(x->job, x->config.rank, at, text, sizeof text));
}

/* --- transfers -------------------------------------------------------------------------------- */

static void widen_message(const pst_executor *x, const pst_instr *in) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    if (in->opcode != PST_OP_RECV || !hooks->memory || !pst_instr_is_narrow(in)) return;
    void *mem = hooks->memory(hooks->arg, in);
    if (mem) pst_bf16_unpack(mem, in->n);
}

static pst_status post(pst_executor *x, uint32_t at) {
    pst_executor_pending *p = x->pending + x->n_pending;
    *p = (pst_executor_pending){.instr = at, .issued_ns = pst_clock_now(x->config.clock)};
    PST_TRY(pst_executor_post(x, at, &p->request));
    x->n_pending++;
    return PST_OK;
}

static pst_status issue(pst_executor *x, pst_queue queue, uint32_t *moved) {
    while (ready(x, queue)) {
        uint32_t at = x->cursor[queue];
        pst_status status = post(x, at);
        if (status != PST_OK) return fail_at(x, at, status);
        pst_executor_seek(x, queue, at + 1);
        publish_posted(x);
        ++*moved;
    }
    return PST_OK;
}

static pst_status test(pst_executor *x, uint32_t *moved) {
    pst_transport *t = x->config.transport;
    for (uint32_t i = 0; i < x->n_pending;) {
        pst_executor_pending p = x->pending[i];
        uint64_t end = 0, ns = x->list->instr[p.instr].ns;
        pst_status status = t->ops->test(t, p.request, &end);
        if (status == PST_BUSY) {
            i++;
            continue;
        }
        if (status == PST_EINPUT) x->mismatch = p.instr;
        if (status != PST_OK) return fail_at(x, p.instr, status);
        widen_message(x, x->list->instr + p.instr);
        uint64_t start = p.issued_ns < end ? p.issued_ns : end;
        if (x->is_timed && end >= ns) start = end - ns;
        pst_executor_complete(x, p.instr, start, end);
        x->pending[i] = x->pending[--x->n_pending];
        ++*moved;
    }
    return PST_OK;
}

/* Progresses the transport once for all transfers. Completions may allow further transfers to
 * start, which may complete at once. */
static pst_status move_transfers(pst_executor *x, uint32_t *moved) {
    uint32_t before;
    pst_transport *t = x->config.transport;
    if (!x->list || !t) return PST_OK;
    pst_position_poll(x->at);
    /* the transport may have to help */
    int exchanges = x->launched && x->config.hooks.queues_exchanges;
    if ((x->n_pending || exchanges) && !x->is_timed)
        t->ops->progress(t); /* the timed transport needs only the clock */
    do {
        before = *moved;
        if (x->n_pending) PST_TRY(test(x, moved));
        PST_TRY(issue(x, PST_Q_HEAD, moved));
        PST_TRY(issue(x, PST_Q_RECV, moved));
        PST_TRY(issue(x, PST_Q_SEND, moved));
    } while (*moved != before);
    return PST_OK;
}

void pst_executor_poll(pst_executor *x) {
    uint32_t moved = 0;
    if (x->in_transfers || !x->n_left || x->failed != PST_OK) return;
    x->in_transfers = 1;
    x->failed = move_transfers(x, &moved);
    x->in_transfers = 0;
    if (x->failed != PST_OK) snprintf(x->why, sizeof x->why, "%s", pst_error());
}

/* --- computing -------------------------------------------------------------------------------- */

/* A program without operators takes no time. */
static void finish_compute(pst_executor *x, uint32_t n_step) {
    uint32_t at = x->cursor[PST_Q_COMPUTE];
    if (!n_step) {
        if (x->after_ns[PST_Q_COMPUTE] > x->end_ns) x->end_ns = x->after_ns[PST_Q_COMPUTE];
        x->start_ns = x->end_ns;
    }
    x->step = 0;
    pst_executor_seek(x, PST_Q_COMPUTE, at + 1);
    pst_executor_publish(x, PST_AT_WAIT);
    pst_executor_complete(x, at, x->start_ns, x->end_ns);
}

static void publish_operator(pst_executor *x) {
    PST_POSITION_SET(x->at, step, x->step);
    pst_position_move(x->at);
}

/* Launches one operator at most. */
static pst_status compute(pst_executor *x, uint32_t *moved) {
    const pst_instr *instr = ready(x, PST_Q_COMPUTE);
    if (!instr) return PST_OK;
    uint32_t n_step = pst_executor_steps(x, instr);
    uint64_t start, end;
    pst_device *d = x->config.device;
    if (!x->launched && x->step < n_step) {
        if (!x->step) note(x, instr);
        if (!x->step) pst_executor_publish(x, PST_AT_COMPUTE);
        else publish_operator(x);
        PST_TRY(pst_executor_launch(x, instr, 1));
        ++*moved;
    }
    if (x->launched) {
        pst_status status = x->exchanging ? pst_executor_exchanged(x, &start, &end)
                                          : d->ops->test(d, x->event, &start, &end);
        if (status == PST_BUSY) return PST_OK;
        PST_TRY(status);
        if (!x->step) x->start_ns = start;
        x->end_ns = end;
        x->launched = 0;
        x->step++;
        ++*moved;
    }
    if (x->step < n_step) return PST_OK;
    finish_compute(x, n_step);
    ++*moved;
    return PST_OK;
}

/* --- beside the passes ------------------------------------------------------------------------ */

static void finish_addition(pst_executor *x, uint64_t start, uint64_t end, uint32_t *moved) {
    const uint32_t at = x->cursor[PST_Q_SIDE];
    x->adds = 0;
    pst_executor_seek(x, PST_Q_SIDE, at + 1);
    pst_executor_complete(x, at, start, end);
    ++*moved;
}

/* On the timed device additions take no time of the passes. */
static pst_status add_virtually(pst_executor *x, const pst_instr *instr, uint32_t *moved) {
    const uint64_t after = x->after_ns[PST_Q_SIDE];
    if (!x->adds) {
        x->side_end_ns = (after > x->side_end_ns ? after : x->side_end_ns) + instr->ns;
        x->adds = 1;
        ++*moved;
    }
    if (pst_clock_now(x->config.clock) >= x->side_end_ns)
        finish_addition(x, x->side_end_ns - instr->ns, x->side_end_ns, moved);
    return PST_OK;
}

/* On an asynchronous device additions run beside the passes that are queued already. */
static pst_status add_ahead(pst_executor *x, const pst_instr *instr, uint32_t *moved) {
    pst_device *d = x->config.device;
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_launch_fn fn = NULL;
    const void *call = NULL;
    uint64_t start, end;
    if (!x->adds) {
        PST_TRY(hooks->flush(hooks->arg, instr, &fn, &call));
        PST_TRY(d->ops->launch_beside(d, fn, call, &x->side_event));
        x->adds = 1;
        ++*moved;
    }
    pst_status status = d->ops->test(d, x->side_event, &start, &end);
    if (status == PST_OK) finish_addition(x, start, end, moved);
    return status == PST_BUSY ? PST_OK : status;
}

/* A device that computes has completed the launch on return. */
static pst_status add_now(pst_executor *x, const pst_instr *instr, uint32_t *moved) {
    pst_device *d = x->config.device;
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_launch_fn fn = NULL;
    const void *call = NULL;
    uint64_t event, start, end;
    if (hooks->flush) PST_TRY(hooks->flush(hooks->arg, instr, &fn, &call));
    PST_TRY(d->ops->launch(d, fn, call, x->after_ns[PST_Q_SIDE], instr->ns, &event));
    PST_TRY(d->ops->test(d, event, &start, &end));
    finish_addition(x, start, end, moved);
    return PST_OK;
}

/* Between two operators: all additions of the SIDE queue that can run. */
static pst_status add_beside(pst_executor *x, uint32_t *moved) {
    pst_status (*add)(pst_executor *, const pst_instr *, uint32_t *) = add_now;
    const pst_instr *instr;
    if (x->is_virtual) add = add_virtually;
    if (x->ahead) add = add_ahead;
    while ((instr = ready(x, PST_Q_SIDE)) != NULL) {
        const uint32_t at = x->cursor[PST_Q_SIDE];
        pst_status status = add(x, instr, moved);
        if (status != PST_OK) return fail_at(x, at, status);
        if (x->adds) break;
    }
    return PST_OK;
}

pst_status pst_executor_progress(pst_executor *x, uint32_t *moved) {
    *moved = 0;
    if (!x->n_left && x->serving) PST_TRY(pst_executor_serve(x, moved));
    if (!x->n_left) return x->serving ? PST_BUSY : PST_OK;
    x->in_transfers = 1;
    pst_status status =
        x->failed == PST_OK ? move_transfers(x, moved) : pst_fail(x->failed, "%s", x->why);
    x->in_transfers = 0;
    if (status != PST_OK) return status;
    PST_TRY(add_beside(x, moved));
    uint32_t at = x->cursor[PST_Q_COMPUTE];
    status = x->ahead ? pst_executor_run_ahead(x, moved, &at) : compute(x, moved);
    if (status != PST_OK) return fail_at(x, at, status);
    return x->n_left || x->serving ? PST_BUSY : PST_OK;
}
