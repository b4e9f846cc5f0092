/* The norm of a step: each rank computes the sums of squares of its shards, and its losses; rank 0
 * adds those of all ranks in an order that no layout changes. */
#include "rank/rank.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- control: numbers that the host uses ------------------------------------------------------ */

static double *control(const pst_rank *r, uint64_t offset) {
    return (double *)(void *)(r->control + (offset - r->memory->norm_own));
}

pst_status pst_rank_pull(const pst_rank *r, uint64_t offset, uint64_t bytes, const double **out) {
    *out = control(r, offset);
    return r->on_device ? pst_rank_read(r, control(r, offset), r->arena.base + offset, bytes)
                        : PST_OK;
}

static pst_status push(const pst_rank *r, uint64_t offset, uint64_t bytes) {
    return r->on_device ? pst_rank_write(r, r->arena.base + offset, control(r, offset), bytes)
                        : PST_OK;
}

static uint64_t control_bytes(const pst_memory_map *x) {
    return x->norm_answer + 3 * sizeof(double) - x->norm_own;
}

/* --- owners ----------------------------------------------------------------------------------- */

/* Of parameters that all tensor ranks hold alike, tensor rank 0 is the owner. */
static int counts(const pst_prepared *p, uint32_t rank, uint32_t param) {
    uint32_t t = pst_grid_at(p->grid, rank).tensor;
    return t == 0 || p->graphs[t]->param[param].slice.held == PST_HELD_PART;
}

int pst_rank_stores_own(const pst_rank *r, uint32_t param) {
    return r->memory->own_to[param] > r->memory->own_from[param] && counts(r->p, r->rank, param);
}

int pst_rank_stores(const pst_rank *r, uint32_t param) {
    const pst_rank_global of = pst_rank_global_of(r, param);
    return of.to > of.from && counts(r->p, r->rank, param);
}

int pst_rank_stores_residual(const pst_rank *r, uint32_t param) {
    return r->memory->residual[param] != UINT64_MAX && counts(r->p, r->rank, param);
}

int pst_rank_stores_gradient(const pst_rank *r, uint32_t param) {
    return r->p->job->staleness && !r->memory->serves &&
           pst_param_gradients(r->graph->param + param) &&
           r->memory->grad[param][0] != UINT64_MAX && counts(r->p, r->rank, param);
}

int pst_rank_sums_steps(const pst_rank *r, uint32_t param) { return r->memory->is_step[param]; }

int pst_rank_owns(const pst_rank *r, uint32_t param) {
    return pst_rank_stores(r, param) && pst_rank_global_of(r, param).from == 0;
}

/* --- a rank's own ----------------------------------------------------------------------------- */

static pst_status add_output(const pst_rank *r, uint32_t tensor, uint32_t micro, double *sum) {
    const float *at = pst_rank_output(r, tensor, micro);
    const pst_graph *g = pst_rank_graph(r, micro);
    uint64_t n = at ? pst_tensor_elements(g->tensor + tensor) : 0,
             most = PST_RANK_BOUNCE / sizeof *at;
    for (uint64_t first = 0; first < n; first += most) {
        uint64_t part = n - first < most ? n - first : most;
        const void *host;
        PST_TRY(pst_rank_peek(r, at + first, part * sizeof *at, &host));
        for (uint64_t i = 0; i < part; i++) *sum += ((const float *)host)[i];
    }
    return PST_OK;
}

pst_status pst_rank_losses(const pst_rank *r, uint32_t micro, pst_loss_sums *sums) {
    *sums = (pst_loss_sums){0};
    for (uint32_t t = 0; t < r->graph->n_tensor; t++) {
        double *sum = pst_tensor_per_sample(r->graph, t) ? &sums->samples : &sums->targets;
        if (pst_tensor_has_hits(r->graph, t)) sum = &sums->hits;
        if (r->graph->tensor[t].role == PST_TENSOR_OUTPUT) PST_TRY(add_output(r, t, micro, sum));
    }
    return PST_OK;
}

pst_status pst_rank_step_losses(const pst_rank *r, pst_loss_sums *sums) {
    *sums = (pst_loss_sums){0};
    for (uint32_t m = 0; m < r->n_micro; m++) {
        pst_loss_sums one;
        PST_TRY(pst_rank_losses(r, m, &one));
        sums->targets += one.targets;
        sums->samples += one.samples;
        sums->hits += one.hits;
    }
    return PST_OK;
}

/* The norm is of gradients: sums of squares of steps (which only CPUs have) count as 0, unless they
 * are not finite. */
static void leave_steps_out(const pst_rank *r, double *squares) {
    const pst_memory_map *x = r->memory;
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->n_owned; i++) {
        const uint32_t param = x->owned[i];
        for (uint32_t k = pst_pieces(x->own_to[param] - x->own_from[param]); k > 0; k--, n++)
            if (pst_rank_sums_steps(r, param) && isfinite(squares[n])) squares[n] = 0;
    }
}

pst_status pst_rank_norm(pst_device *device, const void *block) {
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    const pst_memory_map *x = r->memory;
    uint32_t n = 0, losses = r->n_micro;
    if (r->recorder && !r->replay) PST_TRY(pst_recorder_gradients(r));
    for (uint32_t m = 0; m < losses; m++) {
        pst_loss_sums sums;
        PST_TRY(pst_rank_losses(r, m, &sums));
        control(r, x->norm_own)[m] = pst_loss_total(&sums, r->targets, r->samples);
    }
    PST_TRY(push(r, x->norm_own, losses * sizeof(double)));
    for (uint32_t i = 0; i < x->n_owned; i++) {
        uint32_t param = x->owned[i];
        const uint64_t to = x->norm_to[param];
        for (uint64_t from = x->norm_from[param]; from < to; from += PST_PIECE, n++) {
            uint64_t left = to - from;
            r->piece[n] = pst_rank_sum(r, param, from);
            r->piece_n[n] = left < PST_PIECE ? left : PST_PIECE;
            if (r->graph->param[param].statistic)
                r->piece_n[n] = 0; /* statistics have no gradient */
        }
    }
    double *out = (double *)(void *)(r->arena.base + x->norm_own) + losses;
    if (x->norm_words > 1)
        return r->arith->squares(device, r->piece, r->piece_n, n, (pst_squares *)(void *)out);
    PST_TRY(r->arith->sum_squares(device, r->piece, r->piece_n, n, out));
    leave_steps_out(r, out);
    return PST_OK;
}

void pst_rank_add_squares(pst_rank_squares *to, const double *piece, uint32_t words) {
    if (words == 1) {
        to->sum += *piece;
        return;
    }
    pst_squares term;
    memcpy(&term, piece, sizeof term);
    pst_squares_total_add(&to->exact, &term);
}

double pst_rank_total_squares(const pst_rank_squares *of) {
    return of->sum + pst_squares_total_value(&of->exact);
}

/* --- totals ----------------------------------------------------------------------------------- */

/* In the order of the step's micro-batches, whichever rank computed them; of a micro-batch, at most
 * two stages of a pipeline have losses, so that their order does not matter. */
static double add_losses(const pst_rank *r) {
    const pst_prepared *p = r->p;
    double sum = 0;
    const uint32_t group = pst_job_norm_replicas(p->job),
                   first = pst_job_norm_first(p->job, r->place.replica);
    for (uint32_t k = first; k < first + group; k++)
        for (uint32_t m = 0; m < p->micro[k + 1] - p->micro[k]; m++) {
            double of_micro = 0;
            for (uint32_t s = 0; s < p->grid.pipeline; s++) {
                uint32_t rank = pst_grid_rank(p->grid, s, k, 0);
                of_micro += control(r, r->memory->norm_of_rank[rank])[m];
            }
            sum += of_micro;
        }
    return sum;
}

pst_status pst_rank_gather(pst_device *device, const void *block) {
    (void)device;
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    const double *all;
    double *answer = control(r, r->memory->norm_answer);
    pst_rank_squares squares = PST_RANK_NO_SQUARES;
    PST_TRY(pst_rank_pull(r, r->memory->norm_own, control_bytes(r->memory), &all));
    for (uint32_t i = 0; i < r->n_term; i++)
        pst_rank_add_squares(&squares, control(r, r->term[i]), r->memory->norm_words);
    answer[0] = add_losses(r);
    answer[1] = sqrt(pst_rank_total_squares(&squares)) / r->loss_scale;
    double clip = r->p->config->train.clip;
    answer[2] = clip > 0 && answer[1] > clip ? clip / (answer[1] + 1e-6) : 1.0;
    return push(r, r->memory->norm_answer, 3 * sizeof *answer);
}

/* Rank i in the order of tensor ranks, then owners, then stages; PST_NONE: the stage has fewer
 * tensor ranks. */
static uint32_t by_part(pst_grid grid, uint32_t i) {
    const uint32_t owners = pst_grid_owners(grid);
    uint32_t stage = i % grid.pipeline, lane = i / grid.pipeline, tensor = lane / owners;
    if (tensor >= pst_grid_degree(grid, stage)) return PST_NONE;
    return pst_grid_rank(grid, stage, lane % owners, tensor);
}

/* On rank 0, locates every piece's sum of squares in the messages of the owners, by parameter in
 * name order. Within a parameter the order is tensor ranks, then owners, then pieces: it does not
 * depend on who owns a piece. */
static pst_status find_terms(pst_rank *r) {
    const pst_prepared *p = r->p;
    uint32_t n = p->graph->n_param, n_rank = p->options.n_rank,
             *order = malloc((n + (size_t)1) * sizeof *order);
    uint32_t *next = calloc(n_rank, sizeof *next), most = 0;
    for (uint32_t k = 0; k < n_rank; k++) most += r->memory->piece_of_rank[k];
    r->term = calloc(most + (size_t)1, sizeof *r->term);
    pst_status status = order && next && r->term
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory to compute the gradient norm");
    if (status == PST_OK) pst_graph_param_order(p->graph, order);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        for (uint32_t j = 0; j < p->grid.pipeline * pst_grid_lanes(p->grid); j++) {
            uint32_t k = by_part(p->grid, j);
            if (k == PST_NONE || pst_job_root(p->job, k) != r->rank) continue;
            const pst_memory_map *of = p->memory[k];
            uint64_t first = r->memory->norm_of_rank[k] + of->loss_of_rank[k] * sizeof(double);
            for (uint32_t m = pst_pieces(of->norm_to[order[i]] - of->norm_from[order[i]]); m > 0;
                 m--, next[k]++)
                if (counts(p, k, order[i]))
                    r->term[r->n_term++] =
                        first + next[k] * (uint64_t)r->memory->norm_words * sizeof(double);
        }
    free(order);
    free(next);
    return status;
}

static pst_status open_trust(pst_rank *r) {
    const size_t n_param = r->graph->n_param + (size_t)1;
    uint64_t terms = 1;
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        if (r->graph->param[i].whole)
            terms += pst_lamb_terms(r->memory->step_to[i] - r->memory->step_from[i]);
    r->trust = calloc(n_param, sizeof *r->trust);
    r->trust_of = calloc(2 * n_param, sizeof *r->trust_of);
    r->trust_term = calloc(terms, sizeof *r->trust_term);
    return r->trust && r->trust_of && r->trust_term
               ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for the flush of a step");
}

pst_status pst_rank_norm_open(pst_rank *r) {
    const pst_memory_map *x = r->memory;
    uint32_t n = x->piece_of_rank[r->rank];
    r->piece = calloc(n + (size_t)1, sizeof *r->piece);
    r->piece_n = calloc(n + (size_t)1, sizeof *r->piece_n);
    r->step_param = calloc(r->graph->n_param + (size_t)1, sizeof *r->step_param);
    if (r->p->optim->kind == PST_OPTIM_LAMB) PST_TRY(open_trust(r));
    r->control = r->on_device ? calloc(1, control_bytes(x)) : r->arena.base + x->norm_own;
    if (!r->piece || !r->piece_n || !r->step_param || !r->control)
        return pst_fail(PST_ENOMEM, "no memory for the flush of a step");
    return r->rank == x->root ? find_terms(r) : PST_OK;
}

void pst_rank_norm_close(pst_rank *r) {
    if (r->on_device) free(r->control);
    free(r->piece);
    free(r->piece_n);
    free(r->step_param);
    free(r->trust);
    free(r->trust_of);
    free(r->trust_term);
    free(r->term);
    r->control = NULL;
    r->piece = NULL;
    r->piece_n = NULL;
    r->step_param = NULL;
    r->term = NULL;
    r->n_term = 0;
}
