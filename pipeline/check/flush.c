/* Checks the end of a step: REDUCE, NORM, GATHER, STEP in this order (with post-validation NORM,
 * STEP and GATHER, VALIDATE); every message is sent after the sent value is complete, and received
 * before the value is read. */
#include "pipeline/check/flush.h"
#include "pipeline/check/order.h"

typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    uint32_t rank, stage, first;       /* first: of the flush */
    uint32_t norm, gather, step, last; /* last: VALIDATE, or STEP without it */
    uint32_t n_send, n_recv;           /* of norm messages */
} flush;

static uint32_t uses_of(const pst_checker *c, uint32_t param) {
    return c->cut->use_first[param + 1] - c->cut->use_first[param];
}

static pst_status fail_flush(const flush *f, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u, flush: %s", f->rank, why);
}

/* The compute instructions are in order, each with the right count; those for changes of weights
 * come last. */
static pst_status check_computes(flush *f) {
    enum { CHANGES = 5 };
    static const uint8_t turn[3][PST_OP_COUNT] = {{[PST_OP_PACK] = 1,
                                                   [PST_OP_UNPACK] = 1,
                                                   [PST_OP_REDUCE] = 1,
                                                   [PST_OP_NORM] = 2,
                                                   [PST_OP_GATHER] = 3,
                                                   [PST_OP_STEP] = 4,
                                                   [PST_OP_OUTER] = 5},
                                                  {[PST_OP_PACK] = 1,
                                                   [PST_OP_UNPACK] = 1,
                                                   [PST_OP_REDUCE] = 1,
                                                   [PST_OP_NORM] = 2,
                                                   [PST_OP_STEP] = 3,
                                                   [PST_OP_GATHER] = 3,
                                                   [PST_OP_VALIDATE] = 4},
                                                  {[PST_OP_PACK] = 1,
                                                   [PST_OP_UNPACK] = 1,
                                                   [PST_OP_REDUCE] = 1,
                                                   [PST_OP_STEP] = 1,
                                                   [PST_OP_NORM] = 2,
                                                   [PST_OP_GATHER] = 3,
                                                   [PST_OP_VALIDATE] = 4}};
    const int post = f->c->job->post != 0, eager = f->c->job->eager != 0;
    const int kind = eager ? 2 : post;
    uint32_t last = 1, counts[PST_OP_COUNT] = {0};
    f->norm = f->gather = f->step = PST_NONE;
    for (uint32_t i = f->first; i < f->list->n_instr; i++) {
        const pst_instr *in = &f->list->instr[i];
        if (in->queue != PST_Q_COMPUTE) continue;
        const int packs = in->opcode == PST_OP_PACK || in->opcode == PST_OP_UNPACK;
        const int behind = in->outer || pst_checker_is_change(in); /* STEP */
        const uint32_t now = packs && behind ? CHANGES : turn[kind][in->opcode];
        if (now < last)
            return fail_flush(
                f, post
                       ? "instructions are not in the order REDUCE, NORM, STEP and GATHER, VALIDATE"
                       : "instructions are not in the order REDUCE, NORM, GATHER, STEP");
        last = now;
        counts[in->opcode]++;
        if (in->opcode == PST_OP_NORM) f->norm = i;
        if (in->opcode == PST_OP_GATHER) f->gather = i;
        if (in->opcode == PST_OP_STEP) f->step = i;
        if (in->opcode == PST_OP_STEP || in->opcode == PST_OP_VALIDATE) f->last = i;
    }
    if (counts[PST_OP_NORM] != 1) return fail_flush(f, "expected exactly one NORM");
    if (counts[PST_OP_GATHER] != (f->rank == pst_job_root(f->c->job, f->rank)))
        return fail_flush(f, "expected exactly one GATHER on rank 0, or on the first rank of each "
                             "island, and none on other ranks");
    if (counts[PST_OP_STEP] != 1 && !eager) return fail_flush(f, "expected exactly one STEP");
    if (counts[PST_OP_VALIDATE] != (uint32_t)(post || eager))
        return fail_flush(f,
                          "expected one VALIDATE with post-validation or eager updates, else none");
    /* its copy overlays their memory */
    for (uint32_t x = 0; post && x < f->first; x++)
        PST_TRY(pst_checker_need(f->c, f->rank, x, f->step));
    return PST_OK;
}

static int is_partial(const flush *f) {
    const pst_graph *g = f->c->cut->graph;
    if (pst_job_is_server(f->c->job, f->rank)) return 0;
    for (uint32_t p = 0; g && p < g->n_param; p++)
        for (uint32_t u = 0; u < uses_of(f->c, p) && g->param[p].slice.partial; u++)
            if (pst_checker_stage_of_use(f->c, p, u) == f->stage) return 1;
    return 0;
}

/* The tensor group's reduction comes first, once, and before any of its results is sent. */
static pst_status check_partial(const flush *f) {
    uint32_t n = 0, at = f->first;
    for (uint32_t i = f->first; i < f->list->n_instr; i++) {
        const pst_instr *in = &f->list->instr[i];
        n += in->opcode == PST_OP_REDUCE && in->param == PST_NONE;
    }
    if (n != (uint32_t)is_partial(f))
        return fail_flush(f, "expected exactly one reduction of gradients over the tensor group if "
                             "it has partial gradients, else none");
    if (!n) return PST_OK;
    if (f->list->instr[at].opcode != PST_OP_REDUCE || f->list->instr[at].param != PST_NONE)
        return fail_flush(
            f, "the reduction of gradients over the tensor group is not the first instruction");
    for (uint32_t i = f->first; i < f->list->n_instr; i++) {
        const pst_instr *in = &f->list->instr[i];
        int leaves = in->opcode == PST_OP_SEND && in->param < f->c->cut->graph->n_param;
        if (leaves && f->c->cut->graph->param[in->param].slice.partial)
            PST_TRY(pst_checker_need(f->c, f->rank, at, i));
    }
    return PST_OK;
}

/* Norms are sent to rank 0 after NORM and before GATHER; answers come back after GATHER and before
 * STEP, or VALIDATE. */
static pst_status check_norm_message(flush *f, uint32_t i) {
    int sends = f->list->instr[i].opcode == PST_OP_SEND;
    uint32_t to = pst_job_root(f->c->job, f->rank);
    const int served = f->c->job->async && f->list->instr[i].peer == pst_job_leader(f->c->job);
    if (f->rank == to && !(served && sends) &&
        pst_job_root(f->c->job, f->list->instr[i].peer) != to)
        return fail_flush(f, "a gradient norm message of another island or worker");
    if (f->c->job->alone && f->rank == to && f->list->instr[i].peer == to)
        return PST_OK; /* for its stage's other ranks */
    uint32_t made = f->rank != to ? f->norm : f->gather, read = f->rank != to ? f->last : f->gather;
    if (f->rank != to && f->list->instr[i].peer != to)
        return fail_flush(f, "neither end of a gradient norm message is rank 0");
    sends ? f->n_send++ : f->n_recv++;
    return sends ? pst_checker_need(f->c, f->rank, made, i)
                 : pst_checker_need(f->c, f->rank, i, read);
}

/* The receive buffer overlays the memory of passes and messages, all of which must have ended. */
static pst_status check_join(const flush *f, uint32_t i) {
    const pst_instr *in = &f->list->instr[i];
    uint32_t reduce = PST_NONE;
    for (uint32_t x = f->list->n_head; x < f->first; x++) {
        const uint8_t queue = f->list->instr[x].queue; /* delayed updates use other memory */
        if (queue == PST_Q_HEAD || queue == PST_Q_SIDE) continue;
        PST_TRY(pst_checker_need(f->c, f->rank, x, i));
    }
    for (uint32_t x = f->first; x < f->list->n_instr; x++) {
        const pst_instr *other = &f->list->instr[x];
        if (other->opcode == PST_OP_REDUCE && !other->n && other->param == in->param &&
            other->use == in->use && other->micro == in->micro)
            reduce = x;
        int joins = x < i && other->opcode == PST_OP_RECV && other->param != PST_NONE &&
                    !other->n &&
                    pst_checker_stage_of_use(f->c, other->param, other->use) != f->stage;
        if (!joins) continue;
        uint32_t r = x + 1; /* the REDUCE of the previous message has read the buffer */
        while (r < f->list->n_instr &&
               (f->list->instr[r].opcode != PST_OP_REDUCE ||
                f->list->instr[r].param != other->param || f->list->instr[r].use != other->use ||
                f->list->instr[r].micro != other->micro))
            r++;
        if (r == f->list->n_instr)
            return fail_flush(f, "a REDUCE of a received gradient accumulator is missing");
        PST_TRY(pst_checker_need(f->c, f->rank, r, i));
    }
    return reduce == PST_NONE
               ? fail_flush(f, "a REDUCE of a received gradient accumulator is missing")
               : pst_checker_need(f->c, f->rank, i, reduce);
}

static pst_status check_accumulator(const flush *f, uint32_t i) {
    const pst_instr *in = &f->list->instr[i];
    int owner = pst_checker_stage_of_use(f->c, in->param, 0) == f->stage;
    if (in->opcode == PST_OP_SEND) {
        /* all passes have ended: checking the last one is enough */
        for (uint32_t x = f->first; x-- > 0;) {
            if (f->list->instr[x].queue != PST_Q_COMPUTE) continue;
            PST_TRY(pst_checker_need(f->c, f->rank, x, i));
            break;
        }
        for (uint32_t x = f->first; owner && x < f->list->n_instr; x++) {
            const pst_instr *r = &f->list->instr[x];
            if (r->opcode == PST_OP_REDUCE && r->param == in->param)
                PST_TRY(pst_checker_need(f->c, f->rank, x, i));
        }
        return PST_OK;
    }
    if (pst_checker_stage_of_use(f->c, in->param, in->use) != f->stage) return check_join(f, i);
    for (uint32_t x = f->first; x < f->list->n_instr; x++) { /* the sum overwrites what was sent */
        const pst_instr *s = &f->list->instr[x];
        if (s->opcode == PST_OP_SEND && s->param == in->param && s->use == in->use && !s->micro)
            PST_TRY(pst_checker_need(f->c, f->rank, x, i));
    }
    return pst_checker_need(f->c, f->rank, i, f->step);
}

/* The sum of a shared parameter comes back to every other rank with it. */
static pst_status check_return(const flush *f, uint32_t param) {
    uint32_t n_use = uses_of(f->c, param),
             owner = n_use ? pst_checker_stage_of_use(f->c, param, 0) : 0, here = 0, back = 0;
    if (n_use < 2 || f->stage == owner) return PST_OK;
    for (uint32_t use = 0; use < n_use; use++)
        here += pst_checker_stage_of_use(f->c, param, use) == f->stage;
    for (uint32_t i = f->first; i < f->list->n_instr; i++) {
        const pst_instr *in = &f->list->instr[i];
        back += in->opcode == PST_OP_RECV && in->param == param && !in->n;
    }
    /* with several, replicas send it piece by piece */
    uint32_t wanted = here && pst_job_group(f->c->job) == 1;
    return back != wanted
               ? fail_flush(
                     f, "the RECV of a tied parameter's gradient sum is missing or occurs twice")
               : PST_OK;
}

static pst_status check_flush(flush *f) {
    PST_TRY(check_computes(f));
    PST_TRY(check_partial(f));
    uint32_t n_param = f->c->cut->graph ? f->c->cut->graph->n_param : 0;
    for (uint32_t i = f->first; i < f->list->n_instr; i++) {
        const pst_instr *in = &f->list->instr[i];
        if (in->outer || in->opcode == PST_OP_OUTER) continue; /* pipeline/check/outer.c */
        const int weight = f->c->job->eager && in->queue == PST_Q_HEAD;
        const int change = !weight && pst_checker_is_change(in);
        if (in->param != PST_NONE &&
            (in->param >= n_param || (!change && !weight && in->use >= uses_of(f->c, in->param))))
            return fail_flush(f, "unknown parameter or use of a parameter");
        if (change && (!in->n || f->c->job->down.kind == PST_CODEC_NONE))
            return fail_flush(f, "a weight is sent in the flush, but no codec is for weights");
        if (in->n && (pst_job_group(f->c->job) == 1 || in->param == PST_NONE))
            return fail_flush(f, "a message between replicas, but there is only one replica");
        if (in->queue == PST_Q_COMPUTE || in->n) continue; /* pieces: pipeline/check/replicas.c */
        PST_TRY(in->param == PST_NONE ? check_norm_message(f, i) : check_accumulator(f, i));
    }
    const pst_job *job = f->c->job;
    uint32_t own =
        job->alone ? pst_grid_first(job->grid, f->stage + 1) - pst_grid_first(job->grid, f->stage)
                   : 1;
    const int roots = f->rank == pst_job_root(job, f->rank);
    const uint32_t n = roots ? pst_job_rooted(job) - own : own;
    const uint32_t served = roots && job->async; /* the first server */
    if (f->n_send != n + served || f->n_recv != n)
        return fail_flush(f, "wrong number of gradient norm messages (partial sums to rank 0, and "
                             "the total from rank 0)");
    for (uint32_t p = 0; p < n_param; p++) PST_TRY(check_return(f, p));
    PST_TRY(pst_checker_sums(f->c, f->rank));
    PST_TRY(pst_checker_outer(f->c, f->rank));
    if (job->alone) return PST_OK; /* exchanges between replicas are only summarised */
    if (pst_job_group(job) > 1) PST_TRY(pst_checker_replicas(f->c, f->rank));
    if (job->down.kind != PST_CODEC_NONE) PST_TRY(pst_checker_changes(f->c, f->rank, f->last));
    return job->zero == 2 ? pst_checker_rounds(f->c, f->rank) : PST_OK;
}

pst_status pst_checker_flush(const pst_checker *c, uint32_t rank) {
    const pst_instr_list *list = &c->job->list[rank];
    flush f = {.c = c,
               .list = list,
               .rank = rank,
               .stage = pst_checker_stage(c, rank),
               .first = list->n_instr - list->n_flush};
    if (!list->n_flush != !c->job->list[pst_job_gathers(c->job)].n_flush)
        return fail_flush(
            &f, "either all ranks or none need a flush; instructions are missing or extra");
    if (!list->n_flush) return PST_OK;
    if (c->job->async) PST_TRY(pst_checker_served(c, rank));
    return c->job->async && pst_job_is_server(c->job, rank) ? PST_OK : check_flush(&f);
}
