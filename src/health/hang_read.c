/* Reads what every rank does at this moment, and how long that may take. */
#include "health/hang_parts.h"

/* Factor on modelled durations, for errors of the cost model before a step was measured. */
enum { UNMEASURED = 10 };

/* A rank that moved while it was read is skipped: the next check reads it again. */
void pst_hang_read(pst_hang *h) {
    for (uint32_t r = 0; r < h->scene.n_rank; r++) {
        pst_suspect_rank *to = &h->scene.rank[r];
        if (!h->at[r] && h->heartbeat) h->at[r] = pst_heartbeat_position(h->heartbeat, r);
        to->known = h->at[r] && pst_position_read(h->at[r], &to->at);
        to->left = to->known && h->heartbeat && pst_heartbeat_left(h->heartbeat, r);
    }
}

uint64_t pst_hang_expected(const pst_hang *h, uint32_t rank) {
    const pst_position_view *at = &h->scene.rank[rank].at;
    const pst_job *job = h->scene.job[at->train != 0];
    if (at->activity != PST_AT_COMPUTE || !job || at->instr >= job->list[rank].n_instr) return 0;
    const pst_instr *in = job->list[rank].instr + at->instr;
    uint64_t measured = h->mean_ns[rank][in->opcode];
    return measured ? measured : in->ns * UNMEASURED;
}
