/* Exposed communication: simulates the lists again with messages, or exchanges of tensor ranks,
 * that take no time. The difference of the step times is what computation does not hide. */
#include "commands/study_parts.h"
#include <stdlib.h>
#include <string.h>

/* Duration of the exchanges in the program of a pass, as counted in the pass's duration. */
static uint64_t exchanges_ns(const pst_prepared *p, uint32_t rank, const pst_instr *in) {
    uint32_t n;
    const pst_step *step = pst_job_steps(p->cut, in, &n);
    uint64_t ns = 0;
    for (uint32_t s = 0; s < n; s++) ns += step[s].exchange ? step[s].ns : 0;
    ns = pst_job_slowed(p->job, rank, ns);
    return ns < in->ns ? ns : in->ns;
}

/* Removes one kind of communication from an instruction: between stages, among replicas (and in
 * the flush), or among tensor ranks. */
static void remove_communication(const pst_prepared *p, uint32_t rank, pst_exposed_kind kind,
                                 pst_instr *in) {
    int sent = in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV,
        stages = in->local != PST_NONE;
    if (kind == PST_EXPOSED_TENSOR) {
        if (in->opcode <= PST_OP_BW) in->ns -= exchanges_ns(p, rank, in);
        else if (in->opcode == PST_OP_REDUCE && in->param == PST_NONE) in->ns = 0;
    } else if (sent && stages == (kind == PST_EXPOSED_STAGES)) in->ns = in->wire_ns = 0;
}

static pst_status simulate_without(const pst_prepared *p, pst_exposed_kind kind,
                                   uint64_t *step_ns) {
    pst_job job = *p->job;
    pst_timing *t;
    job.list = calloc(job.n_rank, sizeof *job.list);
    pst_status status =
        job.list ? PST_OK : pst_fail(PST_ENOMEM, "no memory to simulate %u ranks", job.n_rank);
    for (uint32_t r = 0; status == PST_OK && r < job.n_rank; r++) {
        job.list[r] = p->job->list[r];
        size_t bytes = job.list[r].n_instr * sizeof *job.list[r].instr;
        job.list[r].instr = malloc(bytes + 1);
        if (!job.list[r].instr)
            status = pst_fail(PST_ENOMEM, "no memory to simulate %u ranks", job.n_rank);
        else if (bytes)
            memcpy(job.list[r].instr, p->job->list[r].instr, bytes); /* 0 bytes: a rank outside the
                                                                        simulated pipeline */
        for (uint32_t i = 0; status == PST_OK && i < job.list[r].n_instr; i++)
            remove_communication(p, r, kind, &job.list[r].instr[i]);
    }
    if (status == PST_OK) status = pst_simulate(&job, &t);
    if (status == PST_OK) {
        *step_ns = t->step_ns;
        pst_timing_close(t);
    }
    for (uint32_t r = 0; job.list && r < job.n_rank; r++)
        if (job.list[r].instr != p->job->list[r].instr) free(job.list[r].instr);
    free(job.list);
    return status;
}

pst_status pst_study_exposed(const pst_prepared *p, uint64_t step_ns,
                             uint64_t exposed_ns[PST_EXPOSED_COUNT]) {
    for (int kind = 0; kind < PST_EXPOSED_COUNT; kind++) {
        uint64_t without = step_ns;
        if (kind != PST_EXPOSED_TENSOR || p->grid.tensor > 1)
            PST_TRY(simulate_without(p, (pst_exposed_kind)kind, &without));
        /* without a message, other messages may be delayed */
        exposed_ns[kind] = without < step_ns ? step_ns - without : 0;
    }
    return PST_OK;
}
