/* What a schedule holds per rank, and whether that is within a problem's limits. */
#include "pipeline/solve/solve.h"
#include <stdlib.h>

void pst_solve_peak(const pst_solve_problem *p, const pst_schedule *schedule, uint64_t *peak) {
    for (uint32_t r = 0; r < schedule->n_rank; r++) {
        uint64_t now = 0;
        peak[r] = 0;
        for (uint32_t i = 0; i < schedule->n_action[r]; i++) {
            const pst_action *a = &schedule->action[r][i];
            const pst_held *h = &p->held[a->chunk];
            if (a->opcode == PST_OP_F) now += h->f_b + h->f_w;
            if (a->opcode == PST_OP_B || a->opcode == PST_OP_BW) now += h->b_w;
            if (now > peak[r]) peak[r] = now;
            if (a->opcode == PST_OP_B || a->opcode == PST_OP_BW) now -= h->f_b;
            if (a->opcode == PST_OP_W || a->opcode == PST_OP_BW) now -= h->f_w + h->b_w;
        }
    }
}

int pst_solve_fits(const pst_solve_problem *p, const pst_schedule *schedule) {
    uint64_t *peak = p->limit ? malloc(schedule->n_rank * sizeof *peak) : NULL;
    int fits = !p->limit || peak;
    if (peak) pst_solve_peak(p, schedule, peak);
    for (uint32_t r = 0; peak && r < schedule->n_rank; r++) fits &= peak[r] <= p->limit[r];
    free(peak);
    return fits;
}
