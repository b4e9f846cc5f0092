/* See replay.h. */
#include "rank/replay.h"
#include "rank/extent.h"
#include "rank/rank.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- finding numbers that are not finite ------------------------------------------------------ */

/* Infinities and NaN have all exponent bits set, in fp32, bf16 and fp16. */
enum { BF16_EXPONENT = 0x7f80, F16_EXPONENT = 0x7c00 };
static const uint32_t f32_exponent = 0x7f800000u;

static float element(const void *x, pst_dtype dtype, uint64_t i) {
    if (dtype == PST_F32) return ((const float *)x)[i];
    return pst_f32_from_half(dtype, ((const uint16_t *)x)[i]);
}

/* In blocks without an early exit, so that compilers vectorize it. */
static int block_is_finite(const void *x, pst_dtype dtype, uint64_t first, uint64_t n) {
    uint32_t bad = 0;
    if (dtype == PST_F32) {
        const uint32_t *bits = (const uint32_t *)x + first;
        for (uint64_t i = 0; i < n; i++) bad |= (bits[i] & f32_exponent) == f32_exponent;
    } else {
        const uint16_t *bits = (const uint16_t *)x + first,
                       exponent = dtype == PST_F16 ? F16_EXPONENT : BF16_EXPONENT;
        for (uint64_t i = 0; i < n; i++) bad |= (bits[i] & exponent) == exponent;
    }
    return !bad;
}

/* Index of the first element that is not finite; n: all are. */
static uint64_t first_bad_here(const void *x, pst_dtype dtype, uint64_t n) {
    enum { BLOCK = 1024 };
    for (uint64_t first = 0; first < n; first += BLOCK) {
        uint64_t part = n - first < BLOCK ? n - first : BLOCK;
        if (block_is_finite(x, dtype, first, part)) continue;
        for (uint64_t i = first; i < first + part; i++)
            if (!block_is_finite(x, dtype, i, 1)) return i;
    }
    return n;
}

/* The same for memory of the rank, read in pieces; *value: of that element. Integers are finite. */
static pst_status first_bad(const pst_rank *r, const void *x, pst_dtype dtype, uint64_t n,
                            uint64_t *bad, float *value) {
    uint64_t size = pst_dtype_bytes(dtype), most = PST_RANK_BOUNCE / size;
    *bad = n;
    if (!x || (dtype != PST_F32 && !pst_dtype_is_half(dtype))) return PST_OK;
    for (uint64_t first = 0; first < n && *bad == n; first += most) {
        uint64_t part = n - first < most ? n - first : most;
        const void *host;
        PST_TRY(pst_rank_peek(r, (const uint8_t *)x + first * size, part * size, &host));
        uint64_t at = first_bad_here(host, dtype, part);
        if (at < part) {
            *bad = first + at;
            *value = element(host, dtype, at);
        }
    }
    return PST_OK;
}

/* --- one step of a program -------------------------------------------------------------------- */

static pst_extent extent_of(const pst_rank_call *c, const pst_operand *o) {
    return pst_extent_of(c->call.graph, pst_rank_sizes(c->rank, c->micro), c->chunk, o);
}

/* Calls first_bad for an operand. */
static pst_status first_bad_of(const pst_rank *r, const uint8_t *x, const pst_extent *e,
                               uint64_t *bad, float *value) {
    if (!e->pitch) return first_bad(r, x, e->dtype, e->n, bad, value);
    *bad = e->n;
    for (uint64_t i = 0; x && i < e->n / e->row && *bad == e->n; i++) {
        uint64_t at;
        PST_TRY(first_bad(r, x + i * e->pitch * pst_dtype_bytes(e->dtype), e->dtype, e->row, &at,
                          value));
        if (at < e->row) *bad = i * e->row + at;
    }
    return PST_OK;
}

/* B visits the nodes in reverse; of one node, B comes first, then the sums that it needs, then
 * W. */
static void set_order(pst_culprit *at, const pst_rank_call *c) {
    const pst_step *s = c->step;
    uint32_t n_node = c->call.graph->n_node, in_node = s->pass == PST_PASS_W ? 2 : s->extra != 0;
    *at = (pst_culprit){.phase = s->pass != PST_PASS_F,
                        .micro = c->rank->micro + c->micro,
                        .position =
                            s->pass == PST_PASS_F ? s->node : (n_node - s->node) * 4 + in_node,
                        .rank = c->rank->rank,
                        .node = s->node,
                        .pass = s->pass,
                        .param = PST_NONE,
                        .bad_param = PST_NONE};
}

static int before(const pst_culprit *a, const pst_culprit *b) {
    if (a->phase != b->phase) return a->phase < b->phase;
    if (a->micro != b->micro) return a->micro < b->micro;
    return a->position < b->position;
}

/* Before the launch, which may overwrite its inputs. */
static pst_status look_at_inputs(const pst_rank_call *c, pst_culprit *at) {
    for (uint32_t i = 0; i < c->step->n_operand; i++) {
        const pst_operand *o = c->step->operand + i;
        pst_extent e = extent_of(c, o);
        if (!(o->access & PST_READ) || o->kind == PST_OPERAND_DPARAM) continue;
        uint64_t bad;
        float value;
        PST_TRY(first_bad_of(c->rank, c->arg[i], &e, &bad, &value));
        if (bad == e.n) continue;
        if (e.value) at->bad_input = 1;
        else {
            at->bad_param = o->index;
            at->weight_index = bad;
            at->weight = value;
        }
    }
    return PST_OK;
}

static pst_status look_at_outputs(const pst_rank_call *c, pst_culprit *at) {
    for (uint32_t i = 0; i < c->step->n_operand && !at->found; i++) {
        const pst_operand *o = c->step->operand + i;
        pst_extent e = extent_of(c, o);
        if (!(o->access & PST_WRITE)) continue;
        uint64_t bad;
        PST_TRY(first_bad_of(c->rank, c->arg[i], &e, &bad, &at->value));
        if (bad == e.n) continue;
        at->found = 1;
        at->index = bad;
        if (e.value) {
            at->kind = e.value->kind;
            at->tensor = e.value->tensor;
            at->saved = e.value->saved;
        } else at->param = o->index;
    }
    return PST_OK;
}

pst_status pst_replay_kernel(pst_device *device, const void *block) {
    const pst_rank_call *c = block;
    pst_culprit at, *first = &c->rank->culprit;
    set_order(&at, c);
    /* where a packed number is not finite, so is the whole block, but it is not the first */
    int looks = !pst_extra_packs(c->step->extra) && (!first->found || before(&at, first));
    if (looks) PST_TRY(look_at_inputs(c, &at));
    (void)device;
    PST_TRY(pst_rank_launch(c));
    if (looks) PST_TRY(look_at_outputs(c, &at));
    if (looks && at.found) *first = at;
    return PST_OK;
}

pst_status pst_replay_reduced(pst_rank *r, uint32_t param, const float *sum, uint64_t from,
                              uint64_t n) {
    uint64_t bad;
    float value;
    PST_TRY(first_bad(r, sum, PST_F32, n, &bad, &value));
    if (bad == n || r->culprit.found) return PST_OK; /* after every step of a program */
    r->culprit = (pst_culprit){.found = 1,
                               .phase = 2,
                               .position = param,
                               .rank = r->rank,
                               .node = PST_NONE,
                               .pass = PST_PASS_COUNT,
                               .param = param,
                               .index = from + bad,
                               .value = value,
                               .bad_param = PST_NONE};
    return PST_OK;
}

void pst_replay_begin(pst_rank *r) { r->culprit = (pst_culprit){.found = 0}; }

const pst_culprit *pst_replay_first(const pst_culprit *of_rank, uint32_t n) {
    const pst_culprit *first = NULL;
    for (uint32_t r = 0; r < n; r++)
        if (of_rank[r].found && (!first || before(&of_rank[r], first))) first = &of_rank[r];
    return first;
}

/* --- messages --------------------------------------------------------------------------------- */

const char *pst_replay_pass(const pst_culprit *c) {
    static const char *const names[] = {"F", "B", "W", "REDUCE"};
    return names[c->pass <= PST_PASS_COUNT ? c->pass : PST_PASS_COUNT];
}

static void print_index(uint32_t n_dim, const uint64_t *dim, uint64_t index, char text[96]) {
    uint64_t at[PST_MAX_DIM] = {0};
    int used = 0;
    for (uint32_t d = n_dim; d-- > 0; index /= dim[d] ? dim[d] : 1)
        at[d] = dim[d] ? index % dim[d] : 0;
    for (uint32_t d = 0; d < n_dim; d++)
        used += snprintf(text + used, 96 - (size_t)used, "%s%" PRIu64, d ? "," : "[", at[d]);
    snprintf(text + used, 96 - (size_t)used, "%s", n_dim ? "]" : "[]");
}

void pst_replay_index(const pst_graph *g, const pst_culprit *c, char text[96]) {
    if (c->param != PST_NONE)
        print_index(g->param[c->param].n_dim, g->param[c->param].dim, c->index, text);
    else if (c->kind == PST_VALUE_SAVED)
        print_index(1, &g->node[c->node].saved[c->saved].elements, c->index, text);
    else print_index(g->tensor[c->tensor].n_dim, g->tensor[c->tensor].dim, c->index, text);
}

void pst_replay_tensor(const pst_graph *g, const pst_culprit *c, char text[PST_NAME_MAX + 40]) {
    if (c->param != PST_NONE)
        snprintf(text, PST_NAME_MAX + 40, "gradient of %s", g->param[c->param].name);
    else if (c->kind == PST_VALUE_SAVED)
        snprintf(text, PST_NAME_MAX + 40, "%s.saved.%u", g->node[c->node].name, c->saved);
    else
        snprintf(text, PST_NAME_MAX + 40, "%s%s", c->kind == PST_VALUE_GRAD ? "gradient of " : "",
                 g->tensor[c->tensor].name);
}

/* "inf", "-inf", "nan": the sign of a NaN has no meaning. */
static double shown(float value) { return isnan(value) ? (double)NAN : (double)value; }

void pst_replay_text(const pst_graph *g, const pst_culprit *c, char text[PST_REPLAY_TEXT]) {
    char tensor[PST_NAME_MAX + 40], index[96], by[PST_NAME_MAX + 64], why[PST_NAME_MAX + 160];
    pst_replay_tensor(g, c, tensor);
    pst_replay_index(g, c, index);
    if (c->pass == PST_PASS_COUNT) snprintf(by, sizeof by, "REDUCE on rank %u", c->rank);
    else
        snprintf(by, sizeof by, "%s (%s of micro-batch %u on rank %u)", g->node[c->node].name,
                 pst_replay_pass(c), c->micro, c->rank);
    if (c->bad_param != PST_NONE) {
        char where[96];
        const pst_param *p = g->param + c->bad_param;
        print_index(p->n_dim, p->dim, c->weight_index, where);
        snprintf(why, sizeof why, "the weight %s was already %g at %s", p->name, shown(c->weight),
                 where);
    } else {
        snprintf(why, sizeof why, "the weights and inputs of this operator were %s",
                 c->bad_input ? "already not finite" : "finite");
    }
    snprintf(text, PST_REPLAY_TEXT, "the first is %g at %s of %s, written by %s; %s",
             shown(c->value), index, tensor, by, why);
}
