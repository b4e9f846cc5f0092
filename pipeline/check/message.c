/* Checks messages: each has exactly two ends, which name the same value, micro-batch and size. */
#include "pipeline/check/message.h"
#include <stdlib.h>
#include <string.h>

/* Whether the sending rank is the one that serves the receiver's lane. */
static int stays_in_lane(const pst_job *job, uint32_t from, uint32_t to) {
    return pst_grid_in_lane(job->grid, pst_job_stage(job, from), pst_grid_lane(job->grid, to)) ==
           from;
}

/* An instruction describes its value as the cut does; the value is received once per micro-batch,
 * and sent once to each rank. */
static pst_status check_end(const pst_checker *c, uint32_t rank, uint32_t i) {
    const pst_instr *in = &c->job->list[rank].instr[i];
    const pst_chunk *chunk = &pst_cut_of(c->cut, in->rest != 0)->chunk[in->chunk];
    int sends = in->opcode == PST_OP_SEND;
    if (!stays_in_lane(c->job, sends ? rank : in->peer, sends ? in->peer : rank))
        return pst_checker_fail_at(c, rank, i, "the peer rank is in another lane");
    if (in->local >= chunk->n_local)
        return pst_checker_fail_at(c, rank, i, "the chunk does not have this value");
    const pst_local *l = &chunk->local[in->local];
    if ((sends ? l->channel_out : l->channel_in) != in->channel ||
        !pst_checker_moves(c, in->chunk, in->local)) {
        return pst_checker_fail_at(c, rank, i, "the cut assigns another channel to this value");
    }
    if (in->bytes != l->bytes)
        return pst_checker_fail_at(c, rank, i,
                                   "the message size differs from the size of the value");
    uint32_t *at =
        &(sends ? c->send_at : c->recv_at)[pst_checker_cell(c, in->chunk, in->local, in->micro)];
    if (*at != PST_NONE && !sends)
        return pst_checker_fail_at(c, rank, i, "the value is sent or received twice");
    for (uint32_t k = *at; k != PST_NONE; k = c->again[c->instr_first[rank] + k])
        if (c->job->list[rank].instr[k].peer == in->peer)
            return pst_checker_fail_at(c, rank, i, "the value is sent or received twice");
    c->again[c->instr_first[rank] + i] = *at;
    *at = i;
    return PST_OK;
}

/* Called for the SEND of each pair. */
static pst_status check_pair(const pst_checker *c, uint32_t rank, uint32_t i) {
    const pst_instr_list *mine = &c->job->list[rank], *theirs = &c->job->list[mine->instr[i].peer];
    uint32_t j = c->walk->partner[rank][i];
    const pst_instr *send = &mine->instr[i], *recv = &theirs->instr[j];
    if (send->bytes != recv->bytes) {
        char text[128];
        return pst_fail(PST_EINPUT, "%s sends %llu bytes, but the RECV expects %llu bytes",
                        pst_instr_text(c->job, rank, i, text, sizeof text),
                        (unsigned long long)send->bytes, (unsigned long long)recv->bytes);
    }
    int head = pst_instr_is_head(mine, i), flush = pst_instr_is_flush(mine, i),
        piece = pst_job_is_piece(mine, i);
    /* all that a server receives is in its flush */
    const int early = piece && pst_job_is_server(c->job, send->peer);
    if (flush != pst_instr_is_flush(theirs, j) && !early)
        return pst_checker_fail_at(c, rank, i, "only one of SEND and RECV is in the flush");
    if (head != pst_instr_is_head(theirs, j))
        return pst_checker_fail_at(c, rank, i, "only one of SEND and RECV is a weight message");
    if (piece != pst_job_is_piece(theirs, j) && !early)
        return pst_checker_fail_at(c, rank, i,
                                   "only one of SEND and RECV transfers a shard of a gradient");
    if (head || flush || piece) {
        int same = send->param == recv->param && send->from == recv->from && send->n == recv->n &&
                   (send->use == PST_NONE) == (recv->use == PST_NONE) &&
                   send->outer == recv->outer &&
                   (!piece || (send->chunk == recv->chunk && send->micro == recv->micro));
        return same ? PST_OK
                    : pst_checker_fail_at(c, rank, i,
                                          "SEND and RECV name different shards of parameters");
    }
    uint32_t sent = c->cut->chunk[send->chunk].local[send->local].value;
    if (sent != c->cut->chunk[recv->chunk].local[recv->local].value || send->micro != recv->micro) {
        return pst_checker_fail_at(c, rank, i,
                                   "SEND and RECV name different values or micro-batches");
    }
    return PST_OK;
}

/* Messages from one rank to another are received in the order in which they are sent. newest:
 * [n_rank], working memory. */
static pst_status check_fifo(const pst_checker *c, uint32_t rank, uint32_t *newest) {
    const pst_instr_list *list = &c->job->list[rank];
    /* this rank's RECV of each source's latest message */
    memset(newest, 0xff, c->job->n_rank * sizeof *newest);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        if (in->opcode != PST_OP_RECV) continue;
        uint32_t before = newest[in->peer], sent = c->walk->partner[rank][i];
        if (before != PST_NONE && c->walk->partner[rank][before] > sent) {
            char text[4][128];
            return pst_fail(PST_EINPUT,
                            "deadlock, because messages arrive in first-in-first-out order: %s "
                            "comes after %s, which waits for %s, which comes after %s",
                            pst_instr_text(c->job, rank, i, text[0], sizeof text[0]),
                            pst_instr_text(c->job, rank, before, text[1], sizeof text[1]),
                            pst_instr_text(c->job, in->peer, c->walk->partner[rank][before],
                                           text[2], sizeof text[2]),
                            pst_instr_text(c->job, in->peer, sent, text[3], sizeof text[3]));
        }
        newest[in->peer] = i;
    }
    return PST_OK;
}

pst_status pst_checker_messages(pst_checker *c, pst_check_mode mode) {
    const pst_job *job = c->job;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        const pst_instr_list *list = &job->list[r];
        pst_checker_enter(c, pst_grid_lane(job->grid, r));
        for (uint32_t i = 0; i < list->n_instr; i++) {
            if (pst_queue_computes(list->instr[i].queue)) continue;
            if (c->walk->partner[r][i] == PST_NONE) {
                return pst_checker_fail_at(
                    c, r, i,
                    list->instr[i].opcode == PST_OP_SEND ? "no matching RECV" : "no matching SEND");
            }
            int value = !pst_instr_is_head(list, i) && !pst_instr_is_flush(list, i) &&
                        !pst_job_is_piece(list, i);
            if (value) PST_TRY(check_end(c, r, i));
        }
    }
    for (uint32_t r = 0; r < job->n_rank; r++) {
        pst_checker_enter(c, pst_grid_lane(job->grid, r));
        for (uint32_t i = 0; i < job->list[r].n_instr; i++) {
            if (job->list[r].instr[i].opcode == PST_OP_SEND) PST_TRY(check_pair(c, r, i));
        }
    }
    if (mode != PST_CHECK_FIFO) return PST_OK;
    uint32_t *newest = malloc(job->n_rank * sizeof *newest);
    pst_status status =
        newest ? PST_OK : pst_fail(PST_ENOMEM, "no memory to check a job of %u ranks", job->n_rank);
    for (uint32_t r = 0; r < job->n_rank && status == PST_OK; r++)
        status = check_fifo(c, r, newest);
    free(newest);
    return status;
}
