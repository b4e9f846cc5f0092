/* See share.h. */
#include "pipeline/compile/share.h"
#include "graph/slice.h"
#include <stdlib.h>

/* per parameter, because instructions have 32 bits for the first element of a piece */
#define MAX_ELEMENTS (UINT64_C(1) << 32)

static uint32_t first_stage(const pst_cut *cut, const uint32_t *stage_of_chunk, uint32_t param) {
    return stage_of_chunk[cut->use_chunk[cut->use_first[param]]];
}

/* The owners of a stage: load: elements (increased); weight: as in pst_share_owners, NULL: 1 each;
 * total: sum of the weights. */
typedef struct {
    uint64_t *load;
    const uint32_t *weight;
    uint32_t n;
    uint64_t total;
} owners;

static uint64_t weight_of(const owners *o, uint32_t k) { return o->weight ? o->weight[k] : 1; }

/* The owner that has least for its weight once it also gets `more`, the first among equals. */
static uint32_t least(const owners *o, uint64_t more) {
    uint32_t best = PST_NONE;
    for (uint32_t k = 0; k < o->n; k++) {
        if (!weight_of(o, k)) continue;
        if (best == PST_NONE || (double)(o->load[k] + more) * (double)weight_of(o, best) <
                                    (double)(o->load[best] + more) * (double)weight_of(o, k))
            best = k;
    }
    return best;
}

/* The whole pieces that each owner's weight gives; the remaining ones for those that have least.
 * Equal owners get as many messages each: a shorter last piece counts as a whole one, which makes
 * the exchange of GPT-2 by 8 replicas at 10 Gbit/s 6 % shorter than equal numbers of elements. */
static void share_param(uint64_t elements, const owners *o, uint64_t *bound) {
    const uint32_t pieces = pst_pieces(elements);
    uint32_t left = pieces;
    uint64_t at = 0;
    for (uint32_t k = 0; k < o->n; k++) {
        bound[k + 1] = pieces * weight_of(o, k) / o->total;
        o->load[k] += bound[k + 1] * PST_PIECE;
        left -= (uint32_t)bound[k + 1];
    }
    while (left--) {
        const uint32_t k = least(o, PST_PIECE);
        bound[k + 1]++;
        o->load[k] += pieces == 1 && !o->weight ? elements : PST_PIECE;
    }
    bound[0] = 0;
    for (uint32_t k = 0; k < o->n; k++) {
        const uint64_t from = at;
        at += bound[k + 1] * PST_PIECE;
        bound[k + 1] = at < elements ? at : elements;
        if (o->weight && at > elements && from < elements) o->load[k] -= at - elements;
    }
}

/* All pieces for one owner. */
static void share_whole(uint64_t elements, uint32_t owner, uint32_t n, uint64_t *bound) {
    for (uint32_t k = 0; k < n; k++) bound[k + 1] = k < owner ? 0 : elements;
}

/* If one of the gradients that a step writes has to be unsharded, all of them have to. 1: some were
 * not marked yet. */
static int mark_step(const pst_tape_step *step, uint8_t *whole) {
    int any = 0, marked = 0;
    for (uint32_t i = 0; i < step->n_operand; i++)
        any |= step->operand[i].kind == PST_OPERAND_DPARAM && whole[step->operand[i].index];
    for (uint32_t i = 0; i < step->n_operand; i++) {
        if (!any || step->operand[i].kind != PST_OPERAND_DPARAM || whole[step->operand[i].index])
            continue;
        whole[step->operand[i].index] = 1;
        marked = 1;
    }
    return marked;
}

static void mark_whole(const pst_cut *cut, uint8_t *whole) {
    const pst_graph *g = cut->graph;
    for (uint32_t p = 0; p < g->n_param; p++)
        whole[p] = pst_param_gradients(&g->param[p]) != 1 || g->param[p].slice.partial;
    for (int marked = 1; marked;) {
        marked = 0;
        for (uint32_t s = 0; cut->tape && s < cut->tape->n_step; s++)
            marked |= mark_step(cut->tape->step + s, whole);
    }
}

static owners owners_of(const pst_share_owners *of, uint32_t stage, uint64_t *load) {
    owners o = {.load = load + (size_t)stage * of->n_owner, .n = of->n_owner};
    if (of->weight) o.weight = of->weight + (size_t)stage * of->n_owner;
    for (uint32_t k = 0; k < o.n; k++) o.total += weight_of(&o, k);
    return o;
}

/* load: [n_stage][n_owner], turns: [n_owner], all 0 before. Whole parameters go to the owners of
 * the first stage in turn, also those that this tensor rank does not use: all tensor ranks have the
 * same list, and the parts of a parameter the same owner. */
static void share_all(const pst_cut *cut, const uint32_t *stage_of_chunk,
                      const pst_share_owners *of, uint64_t *load, uint64_t *turns, pst_share *s) {
    const pst_graph *g = cut->graph;
    for (uint32_t p = 0; p < s->n_param; p++) {
        const uint64_t elements = pst_param_elements(g->param + p);
        const int whole = g->param[p].whole;
        owners turn = owners_of(of, 0, turns);
        const uint32_t owner = least(&turn, 1);
        turns[owner] += whole != 0;
        if (!pst_param_gradients(&g->param[p])) continue;
        const uint32_t stage = first_stage(cut, stage_of_chunk, p);
        const owners o = owners_of(of, stage, load);
        uint64_t *bound = s->bound + (size_t)p * (of->n_owner + 1);
        if (whole) {
            share_whole(elements, owner, of->n_owner, bound);
            o.load[owner] += elements;
        } else {
            share_param(elements, &o, bound);
        }
        for (uint32_t k = 0; k < of->n_owner; k++)
            s->pieces[(size_t)stage * of->n_owner + k] += pst_pieces(bound[k + 1] - bound[k]);
    }
}

static pst_status check_sizes(const pst_graph *g) {
    for (uint32_t p = 0; g && p < g->n_param; p++)
        if (pst_param_elements(g->param + p) > MAX_ELEMENTS)
            return pst_fail(PST_EINPUT,
                            "parameter %s has %llu elements; expected at most 2^32 with several "
                            "replicas: split the parameter with parallel.tensor",
                            g->param[p].name, (unsigned long long)pst_param_elements(g->param + p));
    return PST_OK;
}

/* *load: zeros, [n_stage][n_owner] and [n_owner]. */
static pst_status open_share(const pst_graph *g, const pst_share_owners *of, uint64_t **load,
                             pst_share **share) {
    const uint32_t n = g ? g->n_param : 0, n_owner = of->n_owner;
    const size_t all = (size_t)of->n_stage * n_owner;
    if (n_owner > 1) PST_TRY(check_sizes(g));
    pst_share *s = calloc(1, sizeof *s);
    *load = calloc(all + n_owner + 1, sizeof **load);
    if (s) *s = (pst_share){.n_param = n, .n_owner = n_owner, .message = PST_PIECE};
    if (s) s->bound = calloc((size_t)n * (n_owner + 1) + 1, sizeof *s->bound);
    if (s) s->whole = calloc(n + (size_t)1, sizeof *s->whole);
    if (s) s->pieces = calloc(all + 1, sizeof *s->pieces);
    *share = s;
    if (s && *load && s->bound && s->whole && s->pieces) return PST_OK;
    pst_share_close(s);
    free(*load);
    return pst_fail(PST_ENOMEM, "no memory to shard %u parameters among %u owners", n, n_owner);
}

pst_status pst_share_build(const pst_cut *cut, const uint32_t *stage_of_chunk,
                           const pst_share_owners *of, pst_share **share) {
    pst_share *s;
    uint64_t *load;
    PST_TRY(open_share(cut->graph, of, &load, &s));
    share_all(cut, stage_of_chunk, of, load, load + (size_t)of->n_stage * of->n_owner, s);
    free(load);
    if (cut->graph) mark_whole(cut, s->whole);
    *share = s;
    return PST_OK;
}

pst_status pst_share_divide(const pst_share *of, const pst_cut *cut, const uint32_t *stage_of_chunk,
                            pst_share_owners into, pst_share **share) {
    const pst_graph *g = cut->graph;
    const uint32_t n = into.n_owner;
    pst_share *s;
    uint64_t *load;
    into.n_owner = of->n_owner * n;
    PST_TRY(open_share(g, &into, &load, &s));
    for (uint32_t p = 0; p < s->n_param; p++) {
        if (!pst_param_gradients(&g->param[p])) continue;
        const uint32_t stage = first_stage(cut, stage_of_chunk, p);
        for (uint32_t m = 0; m < of->n_owner; m++) {
            uint64_t *bound = s->bound + (size_t)p * (s->n_owner + 1) + (size_t)m * n,
                     from = pst_share_from(of, p, m);
            const owners o = {
                .load = load + ((size_t)stage * of->n_owner + m) * n, .n = n, .total = n};
            share_param(pst_share_to(of, p, m) - from, &o, bound);
            for (uint32_t k = 0; k <= n; k++) bound[k] += from;
        }
    }
    free(load);
    *share = s;
    return PST_OK;
}

void pst_share_close(pst_share *s) {
    if (!s) return;
    free(s->bound);
    free(s->whole);
    free(s->pieces);
    free(s);
}

uint32_t pst_share_count(const pst_share *s, uint32_t param) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n_owner; k++)
        n += pst_share_messages(s, pst_share_to(s, param, k) - pst_share_from(s, param, k));
    return n;
}

int pst_share_find(const pst_share *s, pst_piece *at) {
    at->owner = 0;
    while (at->owner < s->n_owner && pst_share_to(s, at->param, at->owner) <= at->from) at->owner++;
    if (at->owner == s->n_owner) return 0;
    uint64_t left = pst_share_to(s, at->param, at->owner) - at->from;
    at->n = left < s->message ? left : s->message;
    return (at->from - pst_share_from(s, at->param, at->owner)) % s->message == 0;
}
