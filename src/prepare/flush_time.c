/* See flush_time.h: NORM and STEP of a rank take as long as its own parameters need; with
 * embeddings, the first and the last stage have more of them. */
#include "prepare/flush_time.h"
#include "base/arena.h"
#include "partition/cost/profile.h"

pst_account pst_prepare_account(const pst_prepared *p, uint32_t rank) {
    const pst_memory_map *m = p->memory[rank];
    const pst_graph *g = p->graphs[pst_grid_at(p->grid, rank).tensor];
    const uint64_t receive =
        m->n_buffer ? (m->n_buffer - 1) * pst_align(m->buffer_bytes) + m->buffer_bytes : 0;
    pst_account a = {.weights = m->bytes[PST_REGION_WEIGHT],
                     .states = m->bytes[PST_REGION_STATE] + m->bytes[PST_REGION_RESIDUAL] +
                               m->bytes[PST_REGION_OUTER],
                     .gradients = m->bytes[PST_REGION_GRAD] - receive,
                     .kept = m->bytes[PST_REGION_DATA] + m->bytes[PST_REGION_OUTPUT],
                     .held = m->bytes[PST_REGION_SLOT],
                     .work = m->bytes[PST_REGION_SCRATCH] + receive};
    for (uint32_t i = 0; i < g->n_param; i++) {
        a.normed += m->norm_to[i] - m->norm_from[i];
        a.stepped += m->step_to[i] - m->step_from[i];
    }
    return a;
}

static uint64_t elements_of(const pst_graph *g, const pst_instr *reduce) {
    const int whole = !reduce->n && reduce->param < g->n_param;
    return whole ? pst_param_elements(g->param + reduce->param) : reduce->n;
}

/* Without a duration (0) the previous one stays. */
static uint64_t profiled_ns(const pst_prepared *p, const pst_graph *g, const pst_instr *in) {
    const uint32_t busy = p->costs.busy;
    uint64_t n =
        in->opcode == PST_OP_REDUCE || in->opcode == PST_OP_UNPACK ? elements_of(g, in) : 0;
    if (!p->profile) return 0;
    if (in->opcode == PST_OP_PACK) {
        const uint64_t pack = pst_profile_ns(p->profile, PST_PROFILE_PACK, in->n, busy);
        const int change = in->use == PST_NONE; /* which its owner also unpacks */
        if (!pack || !change) return pack;
        return pack + pst_profile_ns(p->profile, PST_PROFILE_REDUCE, in->n, busy);
    }
    if (in->opcode == PST_OP_GATHER) return pst_profile_ns(p->profile, PST_PROFILE_GATHER, 0, busy);
    return n ? pst_profile_ns(p->profile, PST_PROFILE_REDUCE, n, busy) : 0;
}

void pst_prepare_time_flush_of(pst_prepared *p, uint32_t rank) {
    const pst_graph *g = p->graphs[pst_grid_at(p->grid, rank).tensor];
    const pst_account a = pst_prepare_account(p, rank);
    pst_instr_list *list = &p->job->list[rank];
    for (uint32_t i = 0; i < list->n_instr; i++) {
        pst_instr *in = &list->instr[i];
        uint64_t ns = profiled_ns(p, g, in);
        if (in->opcode == PST_OP_NORM) ns = pst_costs_norm_ns(&p->costs, a.normed);
        if (in->opcode == PST_OP_STEP) ns = pst_costs_step_ns(&p->costs, in->n ? in->n : a.stepped);
        if (ns || in->opcode == PST_OP_NORM || in->opcode == PST_OP_STEP)
            in->ns = pst_job_slowed(p->job, rank, ns);
    }
}

void pst_prepare_time_flush(pst_prepared *p) {
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r] && !p->options.infer) pst_prepare_time_flush_of(p, r);
}
