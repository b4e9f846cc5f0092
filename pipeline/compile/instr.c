/* An instruction as text, for messages of the checker, the simulator and the executor. */
#include "pipeline/compile/job.h"
#include <stdio.h>

const char *pst_instr_text(const pst_job *job, uint32_t rank, uint32_t index, char *buffer,
                           uint32_t bytes) {
    const pst_instr_list *list = &job->list[rank];
    const pst_instr *in = &list->instr[index];
    char what[48] = "";
    if (in->param != PST_NONE) {
        int used = snprintf(what, sizeof what,
                            in->use == PST_NONE ? " parameter %u" : " parameter %u use %u",
                            in->param, in->use);
        if (job->zero == 2 && pst_job_is_piece(list, index))
            used += snprintf(what + used, sizeof what - (size_t)used, " m%u", in->micro);
        if (in->n) snprintf(what + used, sizeof what - (size_t)used, " from %u", in->from);
        else if (in->micro)
            snprintf(what + used, sizeof what - (size_t)used, " part %u", in->micro);
    } else if (in->opcode <= PST_OP_BW ||
               (in->queue != PST_Q_COMPUTE && !pst_instr_is_flush(list, index))) {
        int used = snprintf(what, sizeof what, " c%u m%u", in->chunk, in->micro);
        if (in->n)
            snprintf(what + used, sizeof what - (size_t)used, " operators %u to %u", in->from,
                     in->from + in->n - 1);
    } else if (in->queue != PST_Q_COMPUTE) {
        snprintf(what, sizeof what, " norm");
    }
    const char *op = pst_opcode_name((pst_opcode)in->opcode);
    if (in->queue == PST_Q_COMPUTE) {
        snprintf(buffer, bytes, "rank %u %s%s", rank, op, what);
    } else {
        snprintf(buffer, bytes, "rank %u %s%s %s rank %u channel %u", rank, op, what,
                 in->opcode == PST_OP_SEND ? "->" : "<-", in->peer, in->channel);
    }
    return buffer;
}
