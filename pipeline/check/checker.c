/* The state of a check, and its messages. */
#include "pipeline/check/checker.h"
#include <stdlib.h>
#include <string.h>

void pst_checker_enter(pst_checker *c, uint32_t lane) {
    c->lane = lane;
    c->n_micro = c->job->micros[lane / c->job->grid.tensor];
    c->cut = c->cuts[lane % c->job->grid.tensor];
    c->slots = c->all_slots ? c->all_slots[lane] : NULL;
}

static pst_status allocate(pst_checker *c, size_t passes, size_t cells, size_t instrs,
                           uint32_t longest) {
    c->pass_at = malloc(passes * sizeof *c->pass_at);
    c->send_at = malloc(cells * sizeof *c->send_at);
    c->recv_at = malloc(cells * sizeof *c->recv_at);
    c->instr_first = malloc(c->job->n_rank * sizeof *c->instr_first);
    c->again = malloc((instrs + 1) * sizeof *c->again);
    c->seen = malloc(instrs + 1);
    c->stack = malloc((2 * instrs + 1) * sizeof *c->stack);
    c->issue = malloc((longest + 1) * sizeof *c->issue);
    c->end = malloc((longest + 1) * sizeof *c->end);
    if (!c->pass_at || !c->send_at || !c->recv_at || !c->issue || !c->end || !c->instr_first ||
        !c->again || !c->seen || !c->stack) {
        return pst_fail(PST_ENOMEM, "no memory to check a job of %u ranks", c->job->n_rank);
    }
    return PST_OK;
}

static int moves(const pst_local *l) {
    const uint32_t messages =
        1u << PST_EV_RECV_F | 1u << PST_EV_SEND_F | 1u << PST_EV_RECV_B | 1u << PST_EV_SEND_B;
    return l->channel_in != PST_NONE || l->channel_out != PST_NONE ||
           ((l->uses | 1u << l->birth) & messages) != 0;
}

/* Most values stay on their rank, where no message has to be remembered. */
static pst_status number_locals(pst_checker *c) {
    uint32_t locals = 0;
    for (uint32_t k = 0; k < c->cut->n_chunk; k++) locals += c->cut->chunk[k].n_local;
    c->local_first = malloc((c->cut->n_chunk + 1) * sizeof *c->local_first);
    c->moved = malloc((locals + (size_t)1) * sizeof *c->moved);
    if (!c->local_first || !c->moved)
        return pst_fail(PST_ENOMEM, "no memory to check the instruction lists");
    locals = 0;
    for (uint32_t k = 0; k < c->cut->n_chunk; k++) {
        const pst_chunk *chunk = &c->cut->chunk[k];
        c->local_first[k] = locals;
        for (uint32_t i = 0; i < chunk->n_local; i++)
            c->moved[locals++] = moves(&chunk->local[i]) ? c->n_moved++ : PST_NONE;
    }
    c->local_first[c->cut->n_chunk] = locals;
    return PST_OK;
}

pst_status pst_checker_open(pst_checker *c) {
    const pst_job *job = c->job;
    uint32_t longest = 0, lanes = pst_job_end_lane(job) - pst_job_first_lane(job);
    size_t instrs = 0;
    pst_checker_enter(c, pst_job_first_lane(job));
    PST_TRY(number_locals(c));
    for (uint32_t r = 0; r < job->n_rank; r++) {
        if (job->list[r].n_instr > longest) longest = job->list[r].n_instr;
        instrs += job->list[r].n_instr;
    }
    size_t passes = (size_t)lanes * job->n_chunk * 4 * job->n_micro;
    size_t cells = ((size_t)lanes * c->n_moved + 1) * job->n_micro;
    PST_TRY(allocate(c, passes, cells, instrs, longest));
    for (uint32_t r = 0, first = 0; r < job->n_rank; first += job->list[r++].n_instr)
        c->instr_first[r] = first;
    memset(c->again, 0xff, instrs * sizeof *c->again);
    memset(c->pass_at, 0xff, passes * sizeof *c->pass_at);
    memset(c->send_at, 0xff, cells * sizeof *c->send_at);
    memset(c->recv_at, 0xff, cells * sizeof *c->recv_at);
    return PST_OK;
}

void pst_checker_close(pst_checker *c) {
    pst_walk_close(c->walk);
    free(c->local_first);
    free(c->moved);
    free(c->pass_at);
    free(c->send_at);
    free(c->recv_at);
    free(c->issue);
    free(c->end);
    free(c->instr_first);
    free(c->again);
    free(c->seen);
    free(c->stack);
}

pst_status pst_checker_fail(const pst_checker *c, uint32_t rank, uint32_t a, const char *what,
                            uint32_t b) {
    char x[128], y[128];
    return pst_fail(PST_EINPUT, "%s %s %s", pst_instr_text(c->job, rank, a, x, sizeof x), what,
                    pst_instr_text(c->job, rank, b, y, sizeof y));
}

pst_status pst_checker_fail_at(const pst_checker *c, uint32_t rank, uint32_t i, const char *why) {
    char text[160];
    return pst_fail(PST_EINPUT, "%s: %s", pst_instr_text(c->job, rank, i, text, sizeof text), why);
}
