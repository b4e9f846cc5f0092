/* Appends to the list under construction; small queries shared by the parts of the compiler. */
#include "pipeline/compile/builder.h"
#include "base/grow.h"
#include <math.h>

/* 1: *(TYPE **)array has capacity for one more. */
static int grow(pst_job_builder *b, void *array, size_t size, uint32_t n, size_t *room) {
    if (b->status == PST_OK)
        b->status = pst_grow(array, size, n, room, "for the instruction lists");
    return b->status == PST_OK;
}

static uint8_t queue_of(const pst_job_builder *b, const pst_instr *instr) {
    const int computes = pst_opcode_computes(instr->opcode);
    if (b->beside) return computes ? PST_Q_SIDE : PST_Q_HEAD;
    if (computes) return PST_Q_COMPUTE;
    if (instr->param != PST_NONE && instr->use == PST_NONE && !instr->outer) return PST_Q_HEAD;
    return instr->opcode == PST_OP_SEND ? PST_Q_SEND : PST_Q_RECV;
}

uint32_t pst_builder_emit(pst_job_builder *b, const pst_instr *instr) {
    if (!grow(b, &b->instr, sizeof *b->instr, b->n_instr, &b->room_instr)) return 0;
    b->instr[b->n_instr] = *instr;
    b->instr[b->n_instr].queue = queue_of(b, instr);
    uint64_t latency = b->cost->latency_ns;
    if (pst_queue_computes(b->instr[b->n_instr].queue))
        b->instr[b->n_instr].ns = pst_job_slowed(b->job, b->rank, instr->ns);
    else b->instr[b->n_instr].wire_ns = instr->ns > latency ? instr->ns - latency : 0;
    return b->n_instr++;
}

void pst_builder_depend(pst_job_builder *b, uint32_t instr, uint32_t on) {
    if (grow(b, &b->pair, sizeof *b->pair, b->n_pair, &b->room_pair))
        b->pair[b->n_pair++] = (pst_dep_pair){instr, on};
}

uint64_t pst_builder_transfer_ns(const pst_job_builder *b, uint64_t bytes) {
    double ns = b->cost->bytes_per_s > 0 ? (double)bytes * 1e9 / b->cost->bytes_per_s : 0;
    return b->cost->latency_ns + (uint64_t)llround(ns);
}

uint32_t pst_builder_next_receiver(const pst_job_builder *b, uint32_t to, uint32_t lane) {
    return b->job->alone ? PST_GRID_NO_LANE
                         : pst_grid_next_receiver(b->job->grid, b->stage, to, lane);
}

pst_instr pst_builder_blank(uint8_t opcode, uint64_t ns) {
    return (pst_instr){
        .opcode = opcode, .local = PST_NONE, .param = PST_NONE, .use = PST_NONE, .ns = ns};
}

uint32_t pst_builder_emit_compute(pst_job_builder *b, uint8_t opcode, uint64_t ns) {
    pst_instr instr = pst_builder_blank(opcode, ns);
    return pst_builder_emit(b, &instr);
}

uint32_t pst_builder_last_compute(const pst_job_builder *b) {
    uint32_t at = b->n_instr;
    while (at > 0 && b->instr[at - 1].queue != PST_Q_COMPUTE) at--;
    return at ? at - 1 : PST_NONE;
}

uint32_t pst_builder_stage_of_use(const pst_job_builder *b, uint32_t param, uint32_t use) {
    return b->job->rank_of_chunk[b->cut->use_chunk[b->cut->use_first[param] + use]];
}

uint32_t pst_builder_first_use(const pst_job_builder *b, uint32_t param, uint32_t stage) {
    uint32_t n = pst_param_gradients(&b->cut->graph->param[param]), use = 0;
    while (use < n && pst_builder_stage_of_use(b, param, use) != stage) use++;
    return use;
}

int pst_builder_holds(const pst_job_builder *b, uint32_t param, uint32_t stage) {
    return pst_builder_first_use(b, param, stage) <
           pst_param_gradients(&b->cut->graph->param[param]);
}

void pst_builder_wait_lent(pst_job_builder *b, uint32_t recv, uint32_t lent) {
    for (uint32_t i = lent; i != PST_NONE && b->status == PST_OK;) {
        const pst_instr *at = b->instr + i, *before = i ? at - 1 : NULL;
        pst_builder_depend(b, recv, i);
        int same = before && at->opcode == PST_OP_SEND && before->opcode == PST_OP_SEND &&
                   before->param == at->param && before->use == at->use &&
                   before->micro == at->micro && !before->n;
        i = same ? i - 1 : PST_NONE;
    }
}
