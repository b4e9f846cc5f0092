/* The checker's part about the head of a list: where replicas share out the step, every range of weights that another rank
 * has stepped comes from there, once, before a pass reads it, and what is sent has left before STEP changes it. That a
 * message's two ends name the same range, check_message.c has seen to. */
#include "pipeline/check_parts.h"
#include <stdlib.h>

/* The rank at hand. */
typedef struct {
    const pst_checker *c;
    const pst_instr_list *list;
    const pst_share *share;
    pst_grid_place at;
    uint32_t rank, step;
    uint32_t *first; /* [n_chunk] its first pass, PST_NONE */
    uint8_t *seen;   /* [n_param][replicas] */
} head;

static pst_status fail_head(const head *h, uint32_t i, const char *why) {
    char text[160];
    return pst_fail(PST_EINPUT, "%s: %s", pst_instr_text(h->c->job, h->rank, i, text, sizeof text), why);
}

static pst_status need(const head *h, uint32_t before, uint32_t after) {
    if (pst_checker_before(h->c, h->rank, before, after)) return PST_OK;
    return pst_checker_fail(h->c, h->rank, after, "does not wait for", before);
}

/* The rank that steps what replica k has of a parameter. */
static uint32_t owner_of(const head *h, uint32_t param, uint32_t k) {
    uint32_t chunk = h->c->cut->use_chunk[h->c->cut->use_first[param]];
    return pst_grid_rank(h->c->job->grid, h->c->job->rank_of_chunk[chunk], k, h->at.tensor);
}

/* Every chunk of this rank that uses the parameter waits for it; *holds: there is one. after PST_NONE: says no more. */
static pst_status check_readers(const head *h, uint32_t param, uint32_t recv, int *holds) {
    const pst_cut *cut = h->c->cut;
    *holds = 0;
    for (uint32_t u = cut->use_first[param]; u < cut->use_first[param + 1]; u++) {
        uint32_t pass = h->first[cut->use_chunk[u]];
        if (h->c->job->rank_of_chunk[cut->use_chunk[u]] != h->at.stage) continue;
        *holds = 1;
        if (recv != PST_NONE) PST_TRY(need(h, recv, pass));
    }
    return PST_OK;
}

static pst_status check_range(const head *h, uint32_t i) {
    const pst_instr *in = &h->list->instr[i];
    const pst_graph *g = h->c->cut->graph;
    uint32_t k = 0, n = h->share->n_replica;
    int holds;
    if (in->param >= g->n_param || !g->param[in->param].n_use || in->use != PST_NONE || in->local != PST_NONE)
        return fail_head(h, i, "it carries no weight");
    while (k < n && (pst_share_from(h->share, in->param, k) != in->from ||
                     pst_share_to(h->share, in->param, k) != in->from + (uint64_t)in->n))
        k++;
    if (k == n || !in->n || in->bytes != in->n * (uint64_t)pst_dtype_bytes(g->dtype))
        return fail_head(h, i, "nobody has stepped just that");
    uint32_t owner = owner_of(h, in->param, k);
    if (in->opcode == PST_OP_SEND)
        return owner == h->rank ? need(h, i, h->step) : fail_head(h, i, "this rank has not stepped it");
    PST_TRY(check_readers(h, in->param, i, &holds));
    if (!holds || owner == h->rank || in->peer != owner || h->seen[in->param * n + k]++)
        return fail_head(h, i, "it is not awaited from there");
    return PST_OK;
}

static pst_status check_all_there(const head *h) {
    int holds;
    for (uint32_t p = 0; p < h->share->n_param; p++)
        for (uint32_t k = 0; k < h->share->n_replica && h->c->cut->graph->param[p].n_use; k++) {
            if (pst_share_from(h->share, p, k) == pst_share_to(h->share, p, k) || owner_of(h, p, k) == h->rank) continue;
            PST_TRY(check_readers(h, p, PST_NONE, &holds));
            if (holds && !h->seen[p * h->share->n_replica + k])
                return pst_fail(PST_EINPUT, "rank %u: what replica %u steps of parameter %u does not come", h->rank, k, p);
        }
    return PST_OK;
}

static pst_status check_ranges(head *h) {
    for (uint32_t i = h->list->n_instr; i-- > h->list->n_head;) {
        const pst_instr *in = &h->list->instr[i];
        if (in->opcode == PST_OP_STEP) h->step = i;
        if (in->opcode <= PST_OP_BW) h->first[in->chunk] = i;
    }
    if (h->step == PST_NONE) return pst_fail(PST_EINPUT, "rank %u: no STEP", h->rank);
    for (uint32_t i = 0; i < h->list->n_head; i++) PST_TRY(check_range(h, i));
    return check_all_there(h);
}

pst_status pst_checker_head(const pst_checker *c, uint32_t rank) {
    const pst_job *job = c->job;
    head h = {.c = c, .list = &job->list[rank], .at = pst_grid_at(job->grid, rank), .rank = rank, .step = PST_NONE};
    if (!job->zero || !c->cut->graph)
        return h.list->n_head ? pst_fail(PST_EINPUT, "rank %u: a head without shares", rank) : PST_OK;
    h.share = job->share[h.at.tensor];
    h.first = malloc(job->n_chunk * sizeof *h.first);
    h.seen = calloc((size_t)h.share->n_param * h.share->n_replica + 1, 1);
    for (uint32_t k = 0; h.first && k < job->n_chunk; k++) h.first[k] = PST_NONE;
    pst_status status =
        h.first && h.seen ? check_ranges(&h) : pst_fail(PST_ENOMEM, "no memory to check the head of rank %u", rank);
    free(h.first), free(h.seen);
    return status;
}
