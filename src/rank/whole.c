/* STEP of optimizers that update whole parameters, of which each tensor rank has a part. LAMB: the
 * ranks gather their sums of squares, which are exact in any order, then each updates its part.
 * Muon: as many matrices at a time as there are ranks, each with one owner. Every rank sends the
 * owner its part of the direction; the owner orthogonalizes the matrix and returns the parts. */
#include "base/arena.h"
#include "graph/slice.h"
#include "rank/rank.h"
#include <stdlib.h>

typedef enum { NOTHING, NORMS, TO_OWNERS, FROM_OWNERS } awaited;

struct pst_rank_whole {
    awaited awaited;
    pst_optim_hyper h;
    uint32_t n_rank; /* tensor ranks of the stage */
    /* LAMB: [n_rank][n_param][2] */
    pst_squares_total *total;
    /* Muon: the matrices of the step, and the first one under way */
    uint32_t *matrix, n, at;
};
typedef struct pst_rank_whole whole;

pst_status pst_rank_whole_open(pst_rank *r) {
    const size_t n_param = r->graph->n_param + (size_t)1;
    if (!r->exchanger || !r->p->optim || !r->p->optim->whole) return PST_OK;
    if (pst_grid_degree(r->p->grid, r->place.stage) == 1) return PST_OK;
    whole *w = r->whole = calloc(1, sizeof *w);
    if (w) {
        w->n_rank = pst_grid_degree(r->p->grid, r->place.stage);
        w->total = calloc(2 * n_param * w->n_rank, sizeof *w->total);
        w->matrix = calloc(n_param, sizeof *w->matrix);
    }
    return w && w->total && w->matrix
               ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for the optimizer's exchanges");
}

void pst_rank_whole_close(pst_rank *r) {
    if (!r->whole) return;
    free(r->whole->total);
    free(r->whole->matrix);
    free(r->whole);
}

static int is_part(const pst_rank *r, uint32_t param) {
    return r->graph->param[param].slice.held == PST_HELD_PART;
}

static pst_status start(pst_rank *r, awaited what, void *memory, uint64_t bytes) {
    r->whole->awaited = what;
    if (r->position) PST_POSITION_SET(r->position, coll_bytes, bytes);
    return pst_exchange_parts(
        r->exchanger, what == NORMS ? PST_COLL_ALL_GATHER : PST_COLL_ALL_TO_ALL, memory, bytes);
}

/* --- LAMB ------------------------------------------------------------------------------------- */

static pst_status start_norms(pst_rank *r) {
    whole *w = r->whole;
    const uint32_t n = r->graph->n_param;
    pst_squares_total *own = w->total + (size_t)2 * n * r->place.tensor;
    PST_TRY(pst_rank_trust_norms(r, &w->h, own));
    return start(r, NORMS, w->total, 2 * n * sizeof *own);
}

static void take_norms(pst_rank *r) {
    const whole *w = r->whole;
    const size_t n = 2 * (size_t)r->graph->n_param;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const pst_squares_total *own = w->total + n * r->place.tensor + 2 * i;
        pst_squares_total all[2] = {PST_SQUARES_ZERO, PST_SQUARES_ZERO};
        for (uint32_t k = 0; k < w->n_rank; k++)
            for (int of = 0; of < 2; of++)
                pst_squares_total_join(all + of, w->total + n * k + 2 * i + of);
        r->trust[i] = pst_rank_trust(is_part(r, i) ? all : own);
    }
}

/* --- Muon ------------------------------------------------------------------------------------- */

/* In the arena: a part for each rank, then the scratch memory of the matrix that this rank owns. */
static float *part_at(const pst_rank *r, uint32_t rank) {
    return (float *)(void *)(r->arena.base + r->memory->whole + rank * r->p->whole_part);
}

static void list_matrices(pst_rank *r) {
    whole *w = r->whole;
    w->n = w->at = 0;
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        if (pst_rank_steps(r, i) && pst_rank_exchanges_matrix(r, i)) w->matrix[w->n++] = i;
}

static pst_status send_directions(pst_rank *r) {
    whole *w = r->whole;
    for (uint32_t k = 0; k < w->n_rank && w->at + k < w->n; k++) {
        uint32_t i = w->matrix[w->at + k];
        pst_rank_await_checkpoint(r, i);
        const pst_arith_param all = pst_rank_changing(r, i), p = pst_rank_in_place(&all);
        PST_TRY(pst_rank_carry(r, i));
        PST_TRY(r->arith->muon_direction(r->device, &w->h, &p, part_at(r, k)));
    }
    return start(r, TO_OWNERS, part_at(r, 0), r->p->whole_part);
}

/* The owner's work. */
static pst_status orthogonalize(pst_rank *r, uint32_t param) {
    const whole *w = r->whole;
    const pst_muon_rule rule = pst_rank_muon_rule(r, &w->h, param);
    float *x = part_at(r, w->n_rank);
    for (uint32_t k = 0; k < w->n_rank; k++)
        pst_slice_put(r->p->graphs[k]->param + param, part_at(r, k), x);
    PST_TRY(r->arith->muon_orthogonalize(r->device, &rule, x, &x));
    for (uint32_t k = 0; k < w->n_rank; k++)
        pst_slice_take(r->p->graphs[k]->param + param, x, part_at(r, k));
    return PST_OK;
}

static pst_status send_steps(pst_rank *r) {
    const whole *w = r->whole;
    uint32_t own = w->at + r->place.tensor;
    if (own < w->n) PST_TRY(orthogonalize(r, w->matrix[own]));
    return start(r, FROM_OWNERS, part_at(r, 0), r->p->whole_part);
}

static pst_status apply_steps(pst_rank *r) {
    whole *w = r->whole;
    for (uint32_t k = 0; k < w->n_rank && w->at + k < w->n; k++) {
        uint32_t i = w->matrix[w->at + k];
        const pst_arith_param all = pst_rank_changing(r, i), p = pst_rank_in_place(&all);
        const pst_muon_rule rule = pst_rank_muon_rule(r, &w->h, i);
        PST_TRY(r->arith->muon_apply(r->device, &rule, &p, part_at(r, k)));
    }
    w->at += w->n_rank;
    return PST_OK;
}

/* --- the step --------------------------------------------------------------------------------- */

pst_status pst_rank_step_exchange(void *arg) {
    pst_rank *r = arg;
    whole *w = r->whole;
    const pst_instr step = {.opcode = PST_OP_STEP};
    int good;
    r->call.spent = r->work.ns + pst_work_of_flush(&step);
    r->exchange_step = NULL;
    r->exchange_ns = pst_monotonic_ns();
    PST_TRY(pst_rank_answer(r, &good));
    if (!good) return pst_exchange_nothing(r->exchanger);
    w->h = pst_rank_hyper(r, r->clip_scale);
    if (r->trust) return start_norms(r);
    list_matrices(r);
    if (w->n) return send_directions(r);
    PST_TRY(pst_rank_apply(r, &w->h));
    return pst_exchange_nothing(r->exchanger);
}

pst_status pst_rank_whole_next(pst_rank *r) {
    whole *w = r->whole;
    awaited done = w->awaited;
    w->awaited = NOTHING;
    switch (done) {
    case NOTHING: return PST_OK;
    case NORMS: take_norms(r); return pst_rank_apply(r, &w->h);
    case TO_OWNERS: PST_TRY(send_steps(r)); return PST_BUSY;
    case FROM_OWNERS: break;
    }
    PST_TRY(apply_steps(r));
    if (w->at >= w->n) return pst_rank_apply(r, &w->h);
    PST_TRY(send_directions(r));
    return PST_BUSY;
}
