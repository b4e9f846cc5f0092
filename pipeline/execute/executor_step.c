/* Operations on the current instruction, shared by executor.c (one operator at a time) and
 * executor_ahead.c. */
#include "pipeline/execute/executor_step.h"
#include "pipeline/execute/executor_state.h"

/* The first instruction of `queue` at or after `from` that is not done. */
static uint32_t next_of(const pst_executor *x, pst_queue queue, uint32_t from) {
    const pst_instr_list *list = x->list;
    while (from < list->n_instr && (list->instr[from].queue != queue || x->done[from])) from++;
    return from;
}

void pst_executor_seek(pst_executor *x, pst_queue queue, uint32_t from) {
    x->cursor[queue] = next_of(x, queue, from);
    x->dep_seen[queue] = 0;
    x->after_ns[queue] = 0;
}

void pst_executor_publish(pst_executor *x, pst_activity activity) {
    PST_POSITION_SET(x->at, activity, (uint32_t)activity);
    PST_POSITION_SET(x->at, instr, x->cursor[PST_Q_COMPUTE]);
    PST_POSITION_SET(x->at, step, x->step);
    PST_POSITION_SET(x->at, waits_for, PST_NONE);
    PST_POSITION_SET(x->at, since_ns, pst_clock_now(x->config.clock));
    pst_position_move(x->at);
}

void pst_executor_complete(pst_executor *x, uint32_t at, uint64_t start, uint64_t end) {
    x->span[at] = (pst_span){start > x->origin ? start - x->origin : 0,
                             end > x->origin ? end - x->origin : 0};
    x->done[at] = 1;
    if (--x->n_left || x->serving) pst_position_move(x->at);
    else pst_executor_publish(x, PST_AT_HOST);
}

const pst_step *pst_executor_step_at(const pst_executor *x, const pst_instr *instr, uint32_t i) {
    uint32_t n;
    return pst_job_steps(x->cut, instr, &n) + i;
}

uint32_t pst_executor_steps(const pst_executor *x, const pst_instr *instr) {
    uint32_t n = 1;
    if (instr->opcode <= PST_OP_BW) pst_job_steps(x->cut, instr, &n);
    return n;
}

pst_status pst_executor_fail_step(const pst_executor *x, const pst_step *step, pst_status status) {
    return pst_fail_in(status, "%s, pass %c", x->cut->graph->node[step->node].name,
                       "FBW"[step->pass]);
}

int pst_executor_is_apart(const pst_executor *x, const pst_step *step) {
    return step->exchange && x->config.hooks.exchange && !x->config.hooks.queues_exchanges;
}

static pst_status exchange(pst_executor *x, const pst_instr *instr, const pst_step *step) {
    x->event = pst_clock_now(x->config.clock); /* its start */
    PST_TRY(x->config.hooks.exchange(x->config.hooks.arg, instr->chunk, step, instr->micro));
    x->launched = x->exchanging = 1;
    pst_executor_publish(x, PST_AT_EXCHANGE);
    return PST_OK;
}

static pst_status exchange_step(pst_executor *x) {
    x->event = pst_clock_now(x->config.clock); /* its start */
    PST_TRY(x->config.hooks.step_exchange(x->config.hooks.arg));
    x->launched = x->exchanging = 1;
    pst_executor_publish(x, PST_AT_EXCHANGE);
    return PST_OK;
}

pst_status pst_executor_exchanged(pst_executor *x, uint64_t *start, uint64_t *end) {
    PST_TRY(x->config.hooks.exchanged(x->config.hooks.arg));
    *start = x->event;
    *end = pst_clock_now(x->config.clock);
    x->exchanging = 0;
    pst_executor_publish(x, PST_AT_COMPUTE);
    return PST_OK;
}

pst_status pst_executor_launch(pst_executor *x, const pst_instr *instr, int with_event) {
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_device *d = x->config.device;
    pst_launch_fn fn = NULL;
    const void *call = NULL;
    uint64_t ns = instr->ns, after = x->after_ns[PST_Q_COMPUTE];
    if (instr->opcode <= PST_OP_BW) {
        const pst_step *step = pst_executor_step_at(x, instr, x->step);
        if (!x->step) x->steps_ns = 0;
        ns = pst_job_slowed(x->job, x->config.rank, x->steps_ns + step->ns) -
             pst_job_slowed(x->job, x->config.rank, x->steps_ns);
        x->steps_ns += step->ns;
        if (pst_executor_is_apart(x, step)) return exchange(x, instr, step);
        if (hooks->step)
            PST_TRY(hooks->step(hooks->arg, instr->chunk, step, instr->micro, &fn, &call));
    } else if (instr->opcode == PST_OP_REDUCE && instr->param == PST_NONE && hooks->exchange) {
        return exchange(x, instr, NULL);
    } else if (instr->opcode == PST_OP_STEP && hooks->step_exchange) {
        return exchange_step(x);
    } else if (hooks->flush) {
        PST_TRY(hooks->flush(hooks->arg, instr, &fn, &call));
    }
    if (x->end_ns > after) after = x->end_ns;
    PST_TRY(d->ops->launch(d, fn, call, after, ns, with_event ? &x->event : NULL));
    x->launched = 1;
    return PST_OK;
}

/* Rounds gradients that are sent in bf16 (pst_instr_is_narrow), in host memory. */
static void round_message(pst_transfer *t, uint32_t n) {
    if (t->kind == PST_TRANSFER_SEND) pst_bf16_pack(t->mem, n);
    else t->mem = (uint8_t *)t->mem + t->bytes;
}

/* Of a message of a server's part: the lists of its worker and of the server are of different
 * steps.
 */
static uint32_t served_seq(const pst_executor *x, const pst_instr *in) {
    const pst_serving *s = x->serving;
    const uint32_t k = pst_job_worker_of(x->job, in);
    const uint64_t step = in->opcode == PST_OP_SEND ? s->replied[k] - 1 : s->taken[k];
    return s->seq + (uint32_t)step * s->stride + in->seq;
}

pst_status pst_executor_post(pst_executor *x, uint32_t at, uint64_t *request) {
    const pst_instr *instr = x->list->instr + at;
    const pst_executor_hooks *hooks = &x->config.hooks;
    pst_transport *t = x->config.transport;
    pst_transfer transfer = {
        .kind = instr->opcode == PST_OP_SEND ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
        .peer = instr->peer,
        .channel = instr->channel,
        .seq = x->serving ? served_seq(x, instr) : x->seq_base + instr->seq,
        .mem = hooks->memory ? hooks->memory(hooks->arg, instr) : NULL,
        .bytes = instr->bytes,
        .of_device = (x->config.device->ops->flags & PST_DEVICE_OWN_MEMORY) != 0,
        .ns = instr->ns,
        .wire_ns = instr->wire_ns};
    if (transfer.mem && pst_instr_is_narrow(instr)) round_message(&transfer, instr->n);
    return t->ops->post(t, &transfer, request);
}
