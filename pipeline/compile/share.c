/* See share.h. */
#include "pipeline/compile/share.h"
#include "graph/slice.h"
#include <stdlib.h>

/* per parameter, because instructions have 32 bits for the first element of a piece */
#define MAX_ELEMENTS (UINT64_C(1) << 32)

static uint32_t first_stage(const pst_cut *cut, const uint32_t *stage_of_chunk, uint32_t param) {
    return stage_of_chunk[cut->use_chunk[cut->use_first[param]]];
}

/* The replica with the smallest load, the first among equals. */
static uint32_t least(const uint64_t *load, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < n; k++)
        if (load[k] < load[best]) best = k;
    return best;
}

/* The same number of pieces for each replica; the remaining ones for those with the smallest load.
 * load: of the stage; increased. */
static void share_param(uint64_t elements, uint64_t *load, uint32_t n, uint64_t *bound) {
    uint32_t pieces = pst_pieces(elements), left = pieces % n;
    uint64_t at = 0;
    for (uint32_t k = 0; k < n; k++) bound[k + 1] = pieces / n;
    for (uint32_t k = 0; k < n; k++) load[k] += (uint64_t)(pieces / n) * PST_PIECE;
    while (left--) {
        uint32_t k = least(load, n);
        bound[k + 1]++;
        load[k] += pieces == 1 ? elements : PST_PIECE;
    }
    bound[0] = 0;
    for (uint32_t k = 0; k < n; k++) {
        at += bound[k + 1] * PST_PIECE;
        bound[k + 1] = at < elements ? at : elements;
    }
}

/* All pieces for one replica. */
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

pst_status pst_share_build(const pst_cut *cut, const uint32_t *stage_of_chunk, uint32_t n_stage,
                           uint32_t n_replica, pst_share **share) {
    const pst_graph *g = cut->graph;
    uint32_t n = g ? g->n_param : 0;
    for (uint32_t p = 0; n_replica > 1 && p < n; p++)
        if (pst_param_elements(g->param + p) > MAX_ELEMENTS)
            return pst_fail(PST_EINPUT,
                            "parameter %s has %llu elements; expected at most 2^32 with several "
                            "replicas: split the parameter with parallel.tensor",
                            g->param[p].name, (unsigned long long)pst_param_elements(g->param + p));
    pst_share *s = calloc(1, sizeof *s);
    uint64_t *load = calloc((size_t)n_stage * n_replica + 1, sizeof *load);
    if (s) *s = (pst_share){.n_param = n, .n_replica = n_replica, .message = PST_PIECE};
    if (s) s->bound = calloc((size_t)n * (n_replica + 1) + 1, sizeof *s->bound);
    if (s) s->whole = calloc(n + (size_t)1, sizeof *s->whole);
    if (s) s->pieces = calloc((size_t)n_stage * n_replica + 1, sizeof *s->pieces);
    if (!s || !load || !s->bound || !s->whole || !s->pieces) {
        pst_share_close(s);
        free(load);
        return pst_fail(PST_ENOMEM, "no memory to shard %u parameters among %u replicas", n,
                        n_replica);
    }
    for (uint32_t p = 0, n_whole = 0; p < n; p++) {
        const uint64_t elements = pst_param_elements(g->param + p);
        const int whole = g->param[p].whole;
        /* in turn, also past parameters that this tensor rank does not use: all tensor ranks have
         * the same list, and the parts of a parameter the same owner */
        const uint32_t owner = n_whole % n_replica;
        n_whole += (uint32_t)(whole != 0);
        if (!pst_param_gradients(&g->param[p])) continue;
        size_t stage = (size_t)first_stage(cut, stage_of_chunk, p) * n_replica;
        uint64_t *bound = s->bound + (size_t)p * (n_replica + 1);
        if (whole) {
            share_whole(elements, owner, n_replica, bound);
            load[stage + owner] += elements;
        } else {
            share_param(elements, load + stage, n_replica, bound);
        }
        for (uint32_t k = 0; k < n_replica; k++)
            s->pieces[stage + k] += pst_pieces(bound[k + 1] - bound[k]);
    }
    free(load);
    if (g) mark_whole(cut, s->whole);
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
    for (uint32_t k = 0; k < s->n_replica; k++)
        n += pst_share_messages(s, pst_share_to(s, param, k) - pst_share_from(s, param, k));
    return n;
}

int pst_share_find(const pst_share *s, pst_piece *at) {
    at->owner = 0;
    while (at->owner < s->n_replica && pst_share_to(s, at->param, at->owner) <= at->from)
        at->owner++;
    if (at->owner == s->n_replica) return 0;
    uint64_t left = pst_share_to(s, at->param, at->owner) - at->from;
    at->n = left < s->message ? left : s->message;
    return (at->from - pst_share_from(s, at->param, at->owner)) % s->message == 0;
}
