/* The checker, which relies on nothing that the compiler did. It checks first that the lists are
 * well formed and have every pass once in a legal order; then messages; then that a walk reaches
 * the end; then, on every rank, happens-before. */
#include "pipeline/check/check.h"
#include "pipeline/check/checker.h"
#include "pipeline/check/flush.h"
#include "pipeline/check/message.h"
#include "pipeline/check/order.h"
#include "pipeline/compile/passes.h"
#include <stdlib.h>
#include <string.h>

/* --- well-formed lists ------------------------------------------------------------------------ */

static pst_status fail_at(uint32_t rank, uint32_t i, const char *why) {
    return pst_fail(PST_EINPUT, "rank %u instruction %u: %s", rank, i, why);
}

/* Whether it is part of the exchange of delayed updates, beside the passes. */
static int is_beside(const pst_job *job, const pst_instr *in) {
    const int moves = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV;
    return job->staleness && (moves || in->opcode == PST_OP_REDUCE) && in->n && in->use != PST_NONE;
}

static pst_status check_instr(const pst_checker *c, uint32_t rank, uint32_t i) {
    const pst_job *job = c->job;
    const pst_instr_list *list = &job->list[rank];
    const pst_instr *in = &list->instr[i];
    if (in->opcode >= PST_OP_COUNT) return fail_at(rank, i, "unknown opcode");
    int flush = pst_instr_is_flush(list, i), head = pst_instr_is_head(list, i),
        piece = pst_job_is_piece(list, i);
    uint8_t queue = PST_Q_COMPUTE;
    if (in->opcode == PST_OP_SEND) queue = PST_Q_SEND;
    if (in->opcode == PST_OP_RECV) queue = PST_Q_RECV;
    if (head && queue == PST_Q_COMPUTE)
        return fail_at(rank, i,
                       "a compute instruction among the weight messages at the start of the list");
    const int weight = job->eager && flush && in->n && in->use == PST_NONE;
    const int kept = in->outer == PST_OUTER_KEPT;
    if (head || ((weight || kept) && queue != PST_Q_COMPUTE)) queue = PST_Q_HEAD;
    if (is_beside(job, in)) queue = queue == PST_Q_COMPUTE ? PST_Q_SIDE : PST_Q_HEAD;
    if (in->queue != queue) return fail_at(rank, i, "wrong queue for this opcode");
    if (!pst_queue_computes(queue) && in->peer >= job->n_rank)
        return fail_at(rank, i, "unknown peer rank");
    if (flush ? in->opcode <= PST_OP_BW
              : in->opcode > PST_OP_REDUCE || (in->opcode >= PST_OP_PACK && !piece)) {
        return fail_at(rank, i,
                       flush ? "a pass is not allowed in the flush"
                             : "this opcode is only allowed in the flush");
    }
    const int codec = job->up.kind != PST_CODEC_NONE || job->down.kind != PST_CODEC_NONE ||
                      job->islands_codec.kind != PST_CODEC_NONE;
    if (in->packed && (!codec || !in->n || in->param == PST_NONE || head))
        return fail_at(
            rank, i,
            "only gradients that replicas exchange, changes of weights, and differences of "
            "islands, are packed, "
            "with a codec");
    if (in->outer && (!flush || !job->syncs || (kept && job->syncs != PST_SYNC_TURN) ||
                      (queue == PST_Q_COMPUTE && in->opcode != PST_OP_OUTER &&
                       (in->opcode != PST_OP_PACK || !in->packed))))
        return fail_at(rank, i, "only messages of an outer step are between islands");
    uint32_t n_micro = piece ? job->n_micro : pst_job_micros(job, rank);
    int early = piece && job->zero != 2; /* it names neither */
    if (!flush && !head && !early &&
        (in->chunk >= job->n_chunk || in->micro >= n_micro ||
         job->rank_of_chunk[in->chunk] != pst_job_stage(job, rank))) {
        return fail_at(rank, i, "this rank does not have the chunk or the micro-batch");
    }
    const int value = !flush && !head && !piece;
    const uint32_t replica = pst_grid_at(job->grid, rank).replica;
    if (in->rest != (uint32_t)(value && pst_job_is_rest(job, replica, in->micro)))
        return fail_at(rank, i,
                       in->rest ? "this is not the step's smaller first micro-batch"
                                : "the step's first micro-batch has fewer samples than this");
    if (in->dep > list->n_dep || in->n_dep > list->n_dep - in->dep)
        return fail_at(rank, i, "dependency indices are out of range");
    for (uint32_t d = 0; d < in->n_dep; d++) {
        if (list->dep[in->dep + d] >= i)
            return fail_at(rank, i, "depends on a later instruction of the list");
    }
    return PST_OK;
}

static pst_status check_lists(const pst_checker *c) {
    const pst_job *job = c->job;
    if (!job->n_rank || job->n_rank != pst_grid_size(job->grid) || (job->split && !job->backward)) {
        return pst_fail(
            PST_EINPUT,
            "the job's number of ranks, grid and kinds of passes contradict each other");
    }
    if (job->grid.servers && (job->zero == 2 || job->up.kind != PST_CODEC_NONE || job->alone))
        return pst_fail(PST_EINPUT, "servers need zero 1, no codec, and the lists of all lanes");
    if (job->eager && (!job->grid.servers || job->zero != 1 || job->post))
        return pst_fail(PST_EINPUT, "eager updates need servers, and no post-validation");
    if (job->staleness &&
        (job->zero == 2 || job->eager || job->post || job->narrow || job->alone ||
         job->islands > 1 || job->up.kind != PST_CODEC_NONE || job->down.kind != PST_CODEC_NONE))
        return pst_fail(PST_EINPUT,
                        "delayed updates need zero 0 or 1, fp32 gradients without a codec, no "
                        "islands, and neither eager updates nor post-validation");
    if (job->async && (!job->grid.servers || job->zero != 1 || job->grid.tensor != 1 ||
                       job->parts != 1 || job->islands > 1 || job->eager || job->staleness ||
                       job->post || job->narrow || job->down.kind != PST_CODEC_NONE))
        return pst_fail(PST_EINPUT,
                        "asynchronous updates need servers, one tensor rank and accumulator, fp32 "
                        "gradients without a codec, no islands, and no other kind of update");
    for (uint32_t k = 0; k < job->grid.data; k++) {
        if (!job->micros[k] || job->micros[k] > job->n_micro)
            return pst_fail(PST_EINPUT, "replica %u has %u micro-batches; expected 1 to %u", k,
                            job->micros[k], job->n_micro);
    }
    for (uint32_t t = 0; t < job->grid.tensor; t++) {
        if (job->rest != (c->cuts[t]->rest != NULL) && c->cuts[t]->tape)
            return pst_fail(PST_EINPUT,
                            "the job and the cut of tensor rank %u contradict each other: one has "
                            "a smaller first micro-batch",
                            t);
        if (job->n_chunk != c->cuts[t]->n_chunk)
            return pst_fail(PST_EINPUT,
                            "the job has %u chunks, but the cut of tensor rank %u has %u",
                            job->n_chunk, t, c->cuts[t]->n_chunk);
        for (uint32_t k = 0; k < job->n_chunk && !job->alone; k++)
            if (c->cuts[t]->chunk[k].n_local != c->cuts[0]->chunk[k].n_local)
                return pst_fail(PST_EINPUT,
                                "chunk %u has %u values on tensor rank %u and %u on tensor rank 0; "
                                "expected the same number",
                                k, c->cuts[t]->chunk[k].n_local, t, c->cuts[0]->chunk[k].n_local);
    }
    for (uint32_t k = 0; k < job->n_chunk; k++) {
        if (job->rank_of_chunk[k] >= job->grid.pipeline)
            return pst_fail(PST_EINPUT, "chunk %u is on stage %u; expected a stage below %u", k,
                            job->rank_of_chunk[k], job->grid.pipeline);
    }
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (job->list[r].n_flush > job->list[r].n_instr ||
            job->list[r].n_head > job->list[r].n_instr - job->list[r].n_flush)
            return pst_fail(
                PST_EINPUT,
                "rank %u: weight messages and flush are longer than the instruction list", r);
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) PST_TRY(check_instr(c, r, i));
    }
    return PST_OK;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* A part of a pass must continue where the previous part ended, without another pass in between,
 * because scratch memory is only valid within a pass. latest: the previous pass on this rank, or
 * PST_NONE. */
static pst_status place_part(const pst_checker *c, uint32_t rank, uint32_t i, uint32_t latest) {
    const pst_instr_list *list = &c->job->list[rank];
    const pst_instr *in = &list->instr[i],
                    *before = latest == PST_NONE ? NULL : &list->instr[latest];
    uint32_t *at = pst_checker_pass(c, in->chunk, in->opcode, in->micro);
    if (*at == PST_NONE || *at != latest || !before->n || before->from + before->n != in->from)
        return pst_checker_fail_at(c, rank, i, "does not continue the previous part of the pass");
    c->again[c->instr_first[rank] + i] = *at;
    *at = i;
    return PST_OK;
}

static int is_in_program(const pst_checker *c, const pst_instr *in) {
    uint32_t n = c->cut->chunk[in->chunk].program[in->opcode].n_step;
    return !in->n || (in->n <= n && in->from <= n - in->n);
}

/* The compute queue runs in list order, so the order of passes is the order of their positions. */
static pst_status place_pass(const pst_checker *c, uint32_t rank, uint32_t i, uint32_t *next) {
    const pst_instr *in = &c->job->list[rank].instr[i];
    int allowed = in->opcode == PST_OP_F ||
                  (c->job->backward && (in->opcode != PST_OP_BW) == !!c->job->split);
    allowed &= pst_cut_has_pass(c->cut, in->chunk, in->opcode);
    uint32_t *at = allowed ? pst_checker_pass(c, in->chunk, in->opcode, in->micro) : NULL;
    int after_b = in->opcode == PST_OP_W && c->cut->chunk[in->chunk].program[PST_OP_B].n_step;
    pst_opcode before = after_b ? PST_OP_B : PST_OP_F;
    int early =
        in->opcode != PST_OP_F && *pst_checker_pass(c, in->chunk, before, in->micro) == PST_NONE;
    int adds = in->opcode == PST_OP_W || in->opcode == PST_OP_BW;
    char text[128];
    if (allowed && *at == PST_NONE && !early && (!adds || in->micro == next[in->chunk])) {
        *at = i;
        next[in->chunk] += (uint32_t)adds;
        return PST_OK;
    }
    const char *name = pst_instr_text(c->job, rank, i, text, sizeof text);
    if (!allowed)
        return pst_fail(PST_EINPUT, "%s is a kind of pass that this schedule does not use", name);
    if (*at != PST_NONE) return pst_fail(PST_EINPUT, "%s occurs twice", name);
    if (early)
        return pst_fail(PST_EINPUT, "%s runs before %s of the same micro-batch", name,
                        pst_opcode_name(before));
    return pst_fail(PST_EINPUT,
                    "%s runs before micro-batch %u: gradients are added in micro-batch order", name,
                    next[in->chunk]);
}

/* Of the current lane. */
static pst_status check_all_there(const pst_checker *c) {
    const pst_job *job = c->job;
    for (uint32_t k = 0; k < job->n_chunk; k++) {
        if (!pst_grid_is_home(job->grid, job->rank_of_chunk[k], c->lane)) continue;
        for (uint32_t op = PST_OP_F; op <= PST_OP_BW; op++) {
            int wanted = op == PST_OP_F || (job->backward && (op != PST_OP_BW) == !!job->split);
            wanted &= pst_cut_has_pass(c->cut, k, op);
            for (uint32_t m = 0; wanted && m < c->n_micro; m++) {
                uint32_t rank = pst_grid_in_lane(job->grid, job->rank_of_chunk[k], c->lane),
                         at = *pst_checker_pass(c, k, op, m);
                const pst_instr *in = at == PST_NONE ? NULL : &job->list[rank].instr[at];
                if (in && (!in->n || in->from + in->n == c->cut->chunk[k].program[op].n_step))
                    continue;
                return pst_fail(PST_EINPUT,
                                "%s of chunk %u, micro-batch %u is missing on rank %u%s",
                                pst_opcode_name(op), k, m, rank, in ? " (the last part)" : "");
            }
        }
    }
    return PST_OK;
}

static pst_status check_passes(pst_checker *c) {
    const pst_job *job = c->job;
    uint32_t *next = malloc(job->n_chunk * sizeof *next);
    pst_status status =
        next ? PST_OK : pst_fail(PST_ENOMEM, "no memory to check %u chunks", job->n_chunk);
    for (uint32_t lane = pst_job_first_lane(job); lane < pst_job_end_lane(job) && status == PST_OK;
         lane++) {
        pst_checker_enter(c, lane);
        memset(next, 0, job->n_chunk * sizeof *next);
        for (uint32_t s = 0; s < job->grid.pipeline && status == PST_OK; s++) {
            uint32_t r = pst_grid_in_lane(job->grid, s, lane);
            uint32_t latest = PST_NONE;
            if (!pst_grid_is_home(job->grid, s, lane)) continue;
            for (uint32_t i = 0; i < job->list[r].n_instr && status == PST_OK; i++) {
                const pst_instr *in = &job->list[r].instr[i];
                if (in->opcode > PST_OP_BW) continue;
                if (!is_in_program(c, in))
                    status = pst_checker_fail_at(c, r, i,
                                                 "the operators are outside the range of the pass");
                else if (pst_instr_begins(in)) status = place_pass(c, r, i, next);
                else status = place_part(c, r, i, latest);
                latest = i;
            }
        }
        if (status == PST_OK) status = check_all_there(c);
    }
    free(next);
    return status;
}

/* --- assembly --------------------------------------------------------------------------------- */

static pst_status check_slot_table(const pst_checker *c) {
    const pst_slots *s = c->slots;
    if (s->n_class != c->cut->n_class || s->n_micro < c->n_micro) {
        return pst_fail(PST_EINPUT, "the table of memory slots was made for another job");
    }
    for (uint32_t k = 0; k < s->n_class; k++) {
        const pst_class *x = &s->class_[k];
        if (!pst_grid_is_home(c->job->grid, c->job->rank_of_chunk[c->cut->class_[k].chunk],
                              c->lane))
            continue;
        if (x->chunk != c->cut->class_[k].chunk || x->bytes < c->cut->class_[k].bytes) {
            return pst_fail(
                PST_EINPUT,
                "memory slots of class %u have %llu bytes, but the values need %llu bytes", k,
                (unsigned long long)x->bytes, (unsigned long long)c->cut->class_[k].bytes);
        }
        for (uint32_t m = 0; m < c->n_micro; m++) {
            if (x->slot_of_micro[m] < x->n_slot) continue;
            return pst_fail(PST_EINPUT,
                            "memory slots of class %u, chunk %u: micro-batch %u has no slot; "
                            "expected one of %u",
                            k, x->chunk, m, x->n_slot);
        }
    }
    return PST_OK;
}

static pst_status check_all(pst_checker *c, pst_check_mode mode) {
    PST_TRY(check_lists(c));
    PST_TRY(pst_checker_open(c));
    PST_TRY(check_passes(c));
    PST_TRY(pst_walk_open(c->job, &c->walk));
    PST_TRY(pst_checker_messages(c, mode));
    PST_TRY(pst_walk_run(c->walk));
    for (uint32_t lane = pst_job_first_lane(c->job);
         c->all_slots && lane < pst_job_end_lane(c->job); lane++) {
        pst_checker_enter(c, lane);
        PST_TRY(check_slot_table(c));
    }
    for (uint32_t r = pst_job_gathers(c->job); r < c->job->n_rank; r = pst_job_next(c->job, r)) {
        pst_checker_enter(c, pst_grid_lane(c->job->grid, r));
        pst_checker_order(c, r);
        PST_TRY(pst_checker_values(c, r));
        if (c->slots) PST_TRY(pst_checker_slots(c, r));
        if (!c->job->alone) PST_TRY(pst_checker_head(c, r));
        PST_TRY(pst_checker_flush(c, r));
        if (c->job->eager) PST_TRY(pst_checker_updates(c, r));
    }
    return PST_OK;
}

pst_status pst_job_check_grid(const pst_job *job, const pst_cut *const *cut,
                              pst_slots *const *slots, pst_check_mode mode) {
    pst_checker c = {.job = job, .cuts = cut, .all_slots = slots};
    pst_status status = check_all(&c, mode);
    pst_checker_close(&c);
    return status;
}

pst_status pst_job_check(const pst_job *job, const pst_cut *cut, const pst_slots *slots,
                         pst_check_mode mode) {
    pst_slots *const all[] = {(pst_slots *)(uintptr_t)slots}; /* only read */
    if (job->n_rank && pst_grid_lanes(job->grid) != 1)
        return pst_fail(PST_EINPUT, "the job has %u lanes; expected 1", pst_grid_lanes(job->grid));
    return pst_job_check_grid(job, &cut, slots ? all : NULL, mode);
}
