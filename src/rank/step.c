/* The end of a step on one rank: the optimizer, with post-validation also before the answer that
 * permits it. */
#include "base/arena.h"
#include "graph/slice.h"
#include "rank/rank.h"
#include <math.h>
#include <string.h>

static void *at(const pst_rank *r, uint64_t offset) { return r->arena.base + offset; }

static int may_change(const pst_rank *r, uint32_t param) {
    return !r->may_change || r->may_change(r->may_change_arg, param);
}

/* Waits until the checkpoint under way no longer needs the parameter, polling messages meanwhile. A
 * slow disk is not a hang, so the position says HOST. */
void pst_rank_await_checkpoint(pst_rank *r, uint32_t param) {
    if (may_change(r, param)) return;
    uint32_t activity = r->position ? PST_POSITION_GET(r->position, activity) : 0;
    if (r->position) {
        PST_POSITION_SET(r->position, activity, PST_AT_HOST);
        pst_position_move(r->position);
    }
    do {
        if (r->executor) pst_executor_poll(r->executor);
    } while (!may_change(r, param));
    if (!r->position) return;
    PST_POSITION_SET(r->position, activity, activity);
    PST_POSITION_SET(r->position, since_ns, pst_monotonic_ns());
    pst_position_move(r->position);
}

/* --- changes of STEP -------------------------------------------------------------------------- */

/* A copy between the arrays and their backup. */
typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes;
} copying;

enum { COPY_TILE = 1 << 18 };

static void copy_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const copying *c = arg;
    uint64_t first = tile * COPY_TILE, left = c->bytes - first;
    memcpy(c->to + first, c->from + first, left < COPY_TILE ? left : COPY_TILE);
}

static pst_status copy_now(const pst_rank *r, copying *c) {
    if (r->on_device) return pst_rank_copy(r, c->to, c->from, c->bytes);
    pst_pool_run(r->device->pool, copy_tile, c, (c->bytes + COPY_TILE - 1) / COPY_TILE);
    return PST_OK;
}

/* Array 0 is the master weight, the others are the optimizer's states. */
static pst_status copy_array(const pst_rank *r, uint32_t param, uint32_t array, int back) {
    const uint64_t n = r->memory->step_to[param] - r->memory->step_from[param],
                   of_state = n * r->memory->state_size;
    uint64_t bytes = array ? of_state : n * sizeof(float), offset = r->memory->undo[param];
    if (array) offset += pst_align(n * sizeof(float)) + (array - 1) * pst_align(of_state);
    void *own = array ? pst_rank_state(r, param, array - 1) : pst_rank_weight(r, param);
    void *kept = at(r, offset);
    copying c = {back ? own : kept, back ? kept : own, bytes};
    return copy_now(r, &c);
}

/* Copies bytes of the state at an offset of the map to the side that STEP writes. */
static pst_status copy_over(const pst_rank *r, uint64_t offset, uint64_t bytes) {
    copying c = {pst_rank_on_side(r, offset, pst_rank_next_side(r)),
                 pst_rank_on_side(r, offset, r->side), bytes};
    return copy_now(r, &c);
}

static pst_status copy_param(const pst_rank *r, uint32_t param, int back) {
    uint32_t n = pst_optim_states(r->p->optim, r->graph->param + param);
    for (uint32_t i = 0; i <= n; i++) PST_TRY(copy_array(r, param, i, back));
    return PST_OK;
}

/* The side that STEP reads is the backup, if there is another one. */
static pst_status keep_param(const pst_rank *r, uint32_t param) {
    return pst_rank_next_side(r) == r->side ? copy_param(r, param, 0) : PST_OK;
}

int pst_rank_steps(const pst_rank *r, uint32_t param) {
    return r->memory->step_from[param] < r->memory->step_to[param];
}

pst_arith_param pst_rank_changing(const pst_rank *r, uint32_t param) {
    const pst_memory_map *x = r->memory;
    uint64_t from = x->step_from[param];
    pst_arith_param out = {.weight = pst_rank_weight(r, param),
                           .grad = pst_rank_sum(r, param, from),
                           .n = x->step_to[param] - from,
                           .decay = r->graph->param[param].decay ? r->hyper.decay : 0};
    uint32_t n = pst_optim_states(r->p->optim, r->graph->param + param);
    const uint32_t next = pst_rank_next_side(r);
    for (uint32_t s = 0; s < n; s++) out.state[s] = pst_rank_state(r, param, s);
    if (r->trust) out.trust = r->trust[param];
    if (r->graph->dtype != PST_F32)
        out.narrow = (uint16_t *)pst_rank_on_side(r, x->weight[param], next) +
                     (from - pst_memory_map_weight_from(x, param));
    if (next == r->side) return out;
    out.new_weight = pst_rank_on_side(r, x->master[param], next);
    for (uint32_t s = 0; s < n; s++)
        out.new_state[s] = pst_rank_on_side(r, x->state[s][param], next);
    return out;
}

pst_arith_param pst_rank_in_place(const pst_arith_param *p) {
    pst_arith_param out = *p;
    if (!p->new_weight) return out;
    out.weight = p->new_weight;
    for (uint32_t s = 0; s < 2; s++) out.state[s] = p->new_state[s];
    out.new_weight = NULL;
    return out;
}

/* With two sides: what was there, on the side that STEP writes, to be changed in place. */
pst_status pst_rank_carry(const pst_rank *r, uint32_t param) {
    const pst_memory_map *x = r->memory;
    const uint64_t n = x->step_to[param] - x->step_from[param];
    if (pst_rank_next_side(r) == r->side) return PST_OK;
    PST_TRY(copy_over(r, x->master[param], n * sizeof(float)));
    for (uint32_t s = 0; s < pst_optim_states(r->p->optim, r->graph->param + param); s++)
        PST_TRY(copy_over(r, x->state[s][param], n * x->state_size));
    return PST_OK;
}

/* The parameters of the optimizer, or running statistics, whose accumulators sum one term per
 * micro-batch of the step. The rate is that of PyTorch's batch norm, which applies it per
 * micro-batch. */
static const float STATISTIC_RATE = 0.1f;

static pst_status change(pst_rank *r, const pst_optim_hyper *h, int statistics, uint32_t n) {
    pst_dtype type = r->graph->dtype;
    if (!statistics)
        return r->arith->update(r->device, pst_optim_flat(r->p->optim), h, type, r->step_param, n);
    float scale = 1.0f / (float)r->island_micros;
    return r->arith->average(r->device, STATISTIC_RATE, scale, type, r->step_param, n);
}

/* --- steps of replicas ------------------------------------------------------------------------ */

typedef struct {
    float *weight;
    const float *step;
    uint64_t n;
    float lr, kept; /* kept: 1 - lr * decay */
} stepping;

static void step_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const stepping *s = arg;
    const uint64_t first = tile * (COPY_TILE / sizeof(float)), left = s->n - first;
    const uint64_t n = left < COPY_TILE / sizeof(float) ? left : COPY_TILE / sizeof(float);
    for (uint64_t i = first; i < first + n; i++)
        s->weight[i] = s->weight[i] * s->kept - s->lr * s->step[i];
}

/* The sum of the replicas' steps (pst_flat_moments) is AdamW's step: it is not clipped. */
static pst_status change_by_steps(pst_rank *r, uint32_t param) {
    const pst_arith_param p = pst_rank_changing(r, param);
    const pst_optim_hyper *h = &r->hyper;
    stepping s = {p.weight, p.grad, p.n, h->lr, 1 - h->lr * p.decay};
    pst_pool_run(r->device->pool, step_tile, &s, (s.n * sizeof(float) + COPY_TILE - 1) / COPY_TILE);
    if (!p.narrow) return PST_OK;
    return r->arith->narrow(r->device, r->graph->dtype, p.weight, p.narrow, p.n);
}

/* --- parameters that are updated as a whole --------------------------------------------------- */

float pst_rank_trust(const pst_squares_total of[2]) {
    const double weight = sqrt(pst_squares_total_value(of)),
                 step = sqrt(pst_squares_total_value(of + 1));
    return weight > 0 && step > 0 ? (float)(weight / step) : 1;
}

static int has_trust(const pst_rank *r, uint32_t param) {
    return pst_rank_steps(r, param) && r->graph->param[param].whole;
}

/* The terms of all parameters are computed in the device's memory, then read together. */
pst_status pst_rank_trust_norms(const pst_rank *r, const pst_optim_hyper *h,
                                pst_squares_total *of) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (!has_trust(r, i)) continue;
        const pst_arith_param p = pst_rank_changing(r, i);
        PST_TRY(
            r->arith->lamb_squares(r->device, h, &p, (pst_squares *)at(r, r->memory->whole) + n));
        n += pst_lamb_terms(p.n);
    }
    if (n)
        PST_TRY(
            pst_rank_read(r, r->trust_term, at(r, r->memory->whole), n * sizeof *r->trust_term));
    const pst_squares *term = r->trust_term;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        of[2 * i] = of[2 * i + 1] = PST_SQUARES_ZERO;
        if (!has_trust(r, i)) continue;
        for (uint64_t k = pst_lamb_terms(pst_rank_changing(r, i).n); k > 0; k -= 2, term += 2) {
            pst_squares_total_add(of + 2 * i, term);
            pst_squares_total_add(of + 2 * i + 1, term + 1);
        }
    }
    return PST_OK;
}

/* LAMB's trust ratios, which the weights and steps of whole parameters determine. */
static pst_status find_trust(pst_rank *r, const pst_optim_hyper *h) {
    PST_TRY(pst_rank_trust_norms(r, h, r->trust_of));
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        if (has_trust(r, i)) r->trust[i] = pst_rank_trust(r->trust_of + 2 * i);
    return PST_OK;
}

pst_muon_rule pst_rank_muon_rule(const pst_rank *r, const pst_optim_hyper *h, uint32_t param) {
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(r->graph->param + param, dim);
    return (pst_muon_rule){h, {dim[0], n / dim[0]}, r->graph->dtype};
}

static pst_status change_matrix(pst_rank *r, const pst_optim_hyper *h, uint32_t param) {
    const pst_arith_param all = pst_rank_changing(r, param), p = pst_rank_in_place(&all);
    const pst_muon_rule rule = pst_rank_muon_rule(r, h, param);
    float *x = at(r, r->memory->whole);
    PST_TRY(pst_rank_carry(r, param));
    PST_TRY(r->arith->muon_direction(r->device, h, &p, x));
    PST_TRY(r->arith->muon_orthogonalize(r->device, &rule, x, &x));
    return r->arith->muon_apply(r->device, &rule, &p, x);
}

static pst_status change_whole(pst_rank *r, const pst_optim_hyper *h, uint32_t param) {
    const pst_arith_param p = pst_rank_changing(r, param);
    if (r->graph->param[param].matrix) return change_matrix(r, h, param);
    return r->arith->update(r->device, PST_OPTIM_LAMB, h, r->graph->dtype, &p, 1);
}

/* --- the step --------------------------------------------------------------------------------- */

int pst_rank_exchanges_matrix(const pst_rank *r, uint32_t param) {
    const pst_param *p = r->graph->param + param;
    return r->whole && p->matrix && p->slice.held == PST_HELD_PART;
}

static pst_status carry_statistic(const pst_rank *r, uint32_t param, pst_arith_param *p) {
    *p = pst_rank_in_place(p);
    return pst_rank_carry(r, param);
}

/* In one launch, unless a checkpoint still needs some of the parameters. keeps: makes a backup
 * before. */
static pst_status apply_to(pst_rank *r, const pst_optim_hyper *h, int statistics, int keeps) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (!pst_rank_steps(r, i) || r->graph->param[i].statistic != statistics) continue;
        if (pst_rank_exchanges_matrix(r, i)) continue; /* whole.c */
        if (!may_change(r, i)) {
            PST_TRY(change(r, h, statistics, n));
            n = 0;
            pst_rank_await_checkpoint(r, i);
        }
        if (keeps) PST_TRY(keep_param(r, i));
        if (pst_rank_sums_steps(r, i)) PST_TRY(change_by_steps(r, i));
        else if (r->graph->param[i].whole) PST_TRY(change_whole(r, h, i));
        else r->step_param[n++] = pst_rank_changing(r, i);
        if (statistics) PST_TRY(carry_statistic(r, i, r->step_param + n - 1));
    }
    return change(r, h, statistics, n);
}

pst_optim_hyper pst_rank_hyper(const pst_rank *r, double clip_scale) {
    pst_optim_hyper h = r->hyper;
    h.grad_scale = (float)(clip_scale / r->loss_scale);
    h.state = r->p->optim->state;
    if (h.state == PST_BF16) pst_optim_noise(&h, (uint64_t)r->p->config->train.seed);
    return h;
}

static pst_status apply_all(pst_rank *r, const pst_optim_hyper *h, int keeps) {
    PST_TRY(apply_to(r, h, 0, keeps));
    return apply_to(r, h, 1, keeps);
}

/* --- residuals -------------------------------------------------------------------------------- */

/* Elements [from, to) of the residual of a parameter become those that `next` begins with. */
static pst_status keep_range(const pst_rank *r, uint32_t param, uint64_t from, uint64_t to,
                             const float *next) {
    float *residual = pst_rank_on_side(r, r->memory->residual[param], pst_rank_next_side(r));
    const double scale = pst_rank_second(r, param) ? 1 : r->loss_scale;
    if (to == from) return PST_OK;
    return r->arith->scale(r->device, (float)(1 / scale), next, residual + from, to - from);
}

/* The Q of each block that this step has packed as factors becomes the basis of the next one. */
static void keep_basis(const pst_rank *r, uint32_t param) {
    const pst_param *of = r->graph->param + param;
    const pst_codec codec = pst_job_codec(r->p->job, of, 0);
    const uint64_t all = pst_job_basis(r->p->job, of), each = codec.rank * codec.columns;
    const uint8_t *packed = pst_rank_packed(r, param);
    float *to = pst_rank_on_side(r, r->memory->basis[param], pst_rank_next_side(r));
    for (uint64_t block = 0; block * each < all; block++)
        memcpy(to + block * each, packed + pst_codec_bytes(codec, block * codec.block),
               each * sizeof *to);
}

/* Once a step is applied: what its messages have left out is the residual of the next one. Until
 * then it was beside the residual, or in the accumulator, so that a step that is not applied leaves
 * the residual as it was. */
static pst_status keep_residuals(pst_rank *r) {
    const pst_memory_map *x = r->memory;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (!pst_rank_residual(r, i) || r->p->job->plain) continue;
        const float *gradient = pst_rank_grad(r, i, 0);
        const uint64_t from = x->next_from[i], to = x->next_to[i];
        pst_rank_await_checkpoint(r, i);
        PST_TRY(keep_range(r, i, 0, from, gradient));
        PST_TRY(keep_range(r, i, from, to, pst_rank_on_side(r, x->next[i], r->side)));
        PST_TRY(keep_range(r, i, to, pst_param_elements(r->graph->param + i), gradient + to));
        if (pst_rank_basis(r, i)) keep_basis(r, i);
    }
    return PST_OK;
}

/* What this step has not changed, or changes later: residuals and bases of a step without codecs,
 * and copies of weights, which the others' changes are added to. */
static pst_status carry_others(const pst_rank *r) {
    const pst_memory_map *x = r->memory;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const uint64_t bytes = pst_param_elements(r->graph->param + i) * sizeof(float);
        if (pst_rank_residual(r, i) && r->p->job->plain)
            PST_TRY(copy_over(r, x->residual[i], bytes));
        if (pst_rank_basis(r, i) && r->p->job->plain)
            PST_TRY(copy_over(r, x->basis[i], pst_rank_basis_elements(r, i) * sizeof(float)));
        if (pst_rank_copied(r, i)) PST_TRY(copy_over(r, x->weight[i], bytes));
    }
    return PST_OK;
}

pst_status pst_rank_turn(pst_rank *r) {
    r->side = pst_rank_next_side(r);
    if (!r->side || r->padded) return PST_OK;
    r->padded = 1;
    return pst_rank_fill_pads(r);
}

/* All of the new state is written: with two sides, it is now the state. */
static pst_status take_new(pst_rank *r) {
    PST_TRY(keep_residuals(r));
    if (pst_rank_next_side(r) == r->side) return PST_OK;
    PST_TRY(carry_others(r));
    return pst_rank_turn(r);
}

pst_status pst_rank_apply(pst_rank *r, const pst_optim_hyper *h) {
    PST_TRY(apply_all(r, h, 0));
    return take_new(r);
}

static pst_status apply(pst_rank *r, double clip_scale, int keeps) {
    const pst_optim_hyper h = pst_rank_hyper(r, clip_scale);
    if (r->trust) PST_TRY(find_trust(r, &h));
    return apply_all(r, &h, keeps);
}

static pst_status commit(pst_rank *r, double clip_scale, int applied) {
    if (!applied) PST_TRY(apply(r, clip_scale, 0));
    return take_new(r);
}

/* With two sides, nothing is to be undone: the next STEP overwrites the other side. */
static pst_status undo(pst_rank *r) {
    if (pst_rank_next_side(r) != r->side) return PST_OK;
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        if (pst_rank_steps(r, i)) PST_TRY(copy_param(r, i, 1));
    return pst_rank_refresh(r);
}

/* --- before the answer ------------------------------------------------------------------------ */

/* Decides from the rank's own losses and sums of squares: if these alone require clipping, or are
 * not finite, STEP must wait for the answer. */
static pst_status may_step(const pst_rank *r, int *may) {
    const double *own;
    pst_rank_squares squares = PST_RANK_NO_SQUARES;
    double loss = 0, clip = r->p->config->train.clip;
    uint32_t losses = r->memory->loss_of_rank[r->rank], pieces = r->memory->piece_of_rank[r->rank];
    const uint32_t words = r->memory->norm_words;
    PST_TRY(pst_rank_pull(r, r->memory->norm_own, (losses + (uint64_t)pieces * words) * sizeof *own,
                          &own));
    for (uint32_t i = 0; i < losses; i++) loss += *own++;
    for (uint32_t i = 0; i < pieces; i++, own += words) pst_rank_add_squares(&squares, own, words);
    double norm = sqrt(pst_rank_total_squares(&squares)) / r->loss_scale;
    *may = !r->replay && isfinite(loss) && isfinite(norm) && !(clip > 0 && norm > clip);
    return PST_OK;
}

static pst_status step_ahead(pst_rank *r) {
    PST_TRY(may_step(r, &r->stepped));
    return r->stepped ? apply(r, 1.0, 1) : PST_OK;
}

pst_status pst_rank_answer(pst_rank *r, int *good) {
    const double *answer;
    PST_TRY(pst_rank_pull(r, r->memory->norm_answer, 3 * sizeof *answer, &answer));
    r->loss_sum = answer[0];
    r->grad_norm = answer[1];
    r->clip_scale = answer[2];
    *good = isfinite(answer[0]) && isfinite(answer[1]) && !r->replay;
    *good &= !(answer[0] / (double)r->targets > r->loss_limit) && !(answer[1] > r->norm_limit);
    *good &= !r->holds;
    r->applied = *good;
    return PST_OK;
}

/* --- eager updates ---------------------------------------------------------------------------- */

/* Part of an array of a parameter: elements [from, from + n) of those that STEP updates here. */
static pst_status keep_part(const pst_rank *r, uint32_t param, uint32_t array, uint64_t from,
                            uint64_t n) {
    const uint64_t all = r->memory->step_to[param] - r->memory->step_from[param],
                   size = array ? r->memory->state_size : sizeof(float);
    uint64_t offset = r->memory->undo[param] + from * size;
    if (array)
        offset +=
            pst_align(all * sizeof(float)) + (array - 1) * pst_align(all * r->memory->state_size);
    const uint8_t *own =
        array ? pst_rank_state(r, param, array - 1) : (const void *)pst_rank_weight(r, param);
    copying c = {at(r, offset), own + from * size, n * size};
    return copy_now(r, &c);
}

/* Updates a piece before the norm is known. A replay changes no weights. */
static pst_status step_piece(pst_rank *r, const pst_instr *in) {
    const uint64_t from = in->from - r->memory->step_from[in->param];
    const pst_optim_hyper h = pst_rank_hyper(r, 1.0);
    pst_arith_param p = pst_rank_changing(r, in->param);
    if (r->replay) return PST_OK;
    pst_rank_await_checkpoint(r, in->param);
    for (uint32_t i = 0; i <= pst_optim_states(r->p->optim, r->graph->param + in->param); i++)
        PST_TRY(keep_part(r, in->param, i, from, in->n));
    p.weight += from;
    p.grad += from;
    p.n = in->n;
    if (p.narrow) p.narrow += from;
    for (uint32_t s = 0; s < 2; s++)
        if (p.state[s]) p.state[s] = (uint8_t *)p.state[s] + from * r->memory->state_size;
    r->step_param[0] = p;
    r->stepped = 1;
    return change(r, &h, r->graph->param[in->param].statistic, 1);
}

/* After all pieces. */
static pst_status validate_pieces(pst_rank *r) {
    PST_TRY(pst_rank_answer(r, &r->accepted));
    r->rolled_back = r->stepped && !r->accepted;
    r->stepped = 0;
    return r->rolled_back ? undo(r) : PST_OK;
}

/* --- asynchronous updates --------------------------------------------------------------------- */

/* At a server: the step of worker k's gradients. */
static pst_status step_for(pst_rank *r, uint32_t k) {
    const pst_serving *s = r->serving;
    const pst_memory_map *x = r->memory;
    int good;
    memcpy(at(r, x->norm_answer), at(r, x->norm_of_rank[k]), PST_NORM_DOUBLES * sizeof(double));
    r->island_micros = r->p->micro[k + 1] - r->p->micro[k];
    const pst_optim_hyper own = r->hyper;
    r->hyper = r->hyper_of(r->hyper_arg, r->step + s->taken[k], r->updates + s->n_order);
    pst_status status = pst_rank_answer(r, &good);
    if (status == PST_OK && good) status = commit(r, r->clip_scale, 0);
    r->hyper = own;
    return status;
}

pst_status pst_rank_step(pst_device *device, const void *block) {
    (void)device;
    const pst_rank_flush *f = block;
    pst_rank *r = f->rank;
    int good;
    if (r->serving) return step_for(r, f->instr->micro);
    if (f->instr->n) return step_piece(r, f->instr);
    if (r->p->job->post) return step_ahead(r);
    PST_TRY(pst_rank_answer(r, &good));
    return good ? commit(r, r->clip_scale, 0) : PST_OK;
}

pst_status pst_rank_validate(pst_device *device, const void *block) {
    (void)device;
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    int good;
    if (r->p->job->eager) return validate_pieces(r);
    PST_TRY(pst_rank_answer(r, &good));
    r->rolled_back = r->stepped && !(good && r->clip_scale == 1.0);
    if (r->rolled_back) PST_TRY(undo(r));
    return good ? commit(r, r->clip_scale, r->stepped && !r->rolled_back) : PST_OK;
}
