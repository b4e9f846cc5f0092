/* The mean step with asynchronous updates (compile/flush.h), of two bounds, one of which holds if
 * nobody is held up: a worker takes its own step, with nobody else at the servers, and a server
 * takes the gradients of all workers in each step. A server that always has a worker waiting
 * receives the gradients of one while it sends weights to the one before. */
#include "pipeline/simulate/async.h"
#include <stdlib.h>
#include <string.h>

static int is_of(const pst_job *job, uint32_t rank, uint32_t i, uint32_t worker) {
    const pst_grid_place at = pst_grid_at(job->grid, rank);
    if (at.replica < job->grid.data) return at.replica == worker;
    return pst_job_worker_of(job, &job->list[rank].instr[i]) == worker;
}

/* The instructions of a list that are for one worker. index: [n_instr] working memory. */
static void keep_part(const pst_job *job, uint32_t rank, uint32_t worker, pst_instr_list *to,
                      uint32_t *index) {
    const pst_instr_list *list = &job->list[rank];
    for (uint32_t i = 0; i < list->n_instr; i++) {
        index[i] = PST_NONE;
        if (!is_of(job, rank, i, worker)) continue;
        pst_instr in = list->instr[i];
        const uint32_t first = to->n_dep;
        for (uint32_t d = 0; d < in.n_dep; d++)
            if (index[list->dep[in.dep + d]] != PST_NONE)
                to->dep[to->n_dep++] = index[list->dep[in.dep + d]];
        in.dep = first;
        in.n_dep = to->n_dep - first;
        index[i] = to->n_instr;
        to->instr[to->n_instr++] = in;
        to->n_head += pst_instr_is_head(list, i);
        to->n_flush += pst_instr_is_flush(list, i);
    }
}

/* lists: [ranks], with memory for all instructions. */
static pst_status time_worker(const pst_job *job, uint32_t worker, pst_instr_list *lists,
                              uint32_t *index, uint64_t *ns) {
    pst_job one = *job;
    pst_timing *timing;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        lists[r].n_instr = lists[r].n_dep = lists[r].n_head = lists[r].n_flush = 0;
        keep_part(job, r, worker, &lists[r], index);
    }
    one.list = lists;
    PST_TRY(pst_simulate(&one, &timing));
    if (timing->step_ns > *ns) *ns = timing->step_ns;
    pst_timing_close(timing);
    return PST_OK;
}

/* How long a server that is never idle has to do with one step of all workers. */
static uint64_t time_server(const pst_job *job, uint32_t rank) {
    const pst_instr_list *list = &job->list[rank];
    uint64_t all = 0;
    for (uint32_t k = 0; k < job->grid.data; k++) {
        uint64_t wire[2] = {0}, latency = 0, step = 0;
        for (uint32_t i = 0; i < list->n_instr; i++) {
            const pst_instr *in = &list->instr[i];
            if (pst_job_worker_of(job, in) != k) continue;
            if (pst_queue_computes(in->queue)) {
                step += in->ns;
                continue;
            }
            wire[in->opcode == PST_OP_SEND] += in->wire_ns;
            if (in->n && in->ns - in->wire_ns > latency) latency = in->ns - in->wire_ns;
        }
        all += latency + (wire[0] > wire[1] ? wire[0] : wire[1]) + step;
    }
    return all;
}

pst_status pst_simulate_async(const pst_job *job, uint64_t *ns) {
    pst_instr_list *lists = calloc(job->n_rank, sizeof *lists);
    uint32_t most = 0;
    int done = lists != NULL;
    for (uint32_t r = 0; done && r < job->n_rank; r++) {
        const pst_instr_list *list = &job->list[r];
        most = list->n_instr > most ? list->n_instr : most;
        lists[r].instr = malloc((list->n_instr + (size_t)1) * sizeof *lists[r].instr);
        lists[r].dep = malloc((list->n_dep + (size_t)1) * sizeof *lists[r].dep);
        done = lists[r].instr && lists[r].dep;
    }
    uint32_t *index = malloc((most + (size_t)1) * sizeof *index);
    pst_status status =
        done && index ? PST_OK : pst_fail(PST_ENOMEM, "no memory to simulate workers");
    *ns = 0;
    for (uint32_t k = 0; k < job->grid.data && status == PST_OK; k++)
        status = time_worker(job, k, lists, index, ns);
    for (uint32_t r = 0; r < job->n_rank && status == PST_OK; r++) {
        const uint64_t served = pst_job_is_server(job, r) ? time_server(job, r) : 0;
        if (served > *ns) *ns = served;
    }
    for (uint32_t r = 0; lists && r < job->n_rank; r++) {
        free(lists[r].instr);
        free(lists[r].dep);
    }
    free(lists);
    free(index);
    return status;
}

pst_status pst_simulate_mean(const pst_job *job, const pst_timing *timing, uint64_t *ns) {
    *ns = timing->step_ns;
    return job->async ? pst_simulate_async(job, ns) : PST_OK;
}
