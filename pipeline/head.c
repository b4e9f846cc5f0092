/* The head of a list, where replicas share out the step (job.zero): the weights that other ranks have stepped come before
 * the passes that read them. All messages are posted at once and come, as they are posted, in the order in which chunks need
 * them; so each is predicted to take as long as all that come to the same rank before it, and its own bytes. */
#include "pipeline/job_parts.h"
#include <stdlib.h>

/* What one replica has of a parameter. */
typedef struct {
    uint32_t param, number, owner; /* number: the seq of its messages; owner: replica */
    uint64_t from, n;
} range;

typedef struct {
    uint32_t first, param; /* chunk of the first use */
} place;

/* Bytes on the way so far: [stages] of a stage's weights; behind them [stages x replicas] what of these a rank has itself,
 * which does not come to it. */
typedef uint64_t arrivals;

static int by_chunk(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->param > y->param) - (x->param < y->param);
}

static uint32_t order_params(const pst_job_builder *b, place *order) {
    const pst_graph *g = b->cut->graph;
    uint32_t n = 0;
    for (uint32_t p = 0; p < g->n_param; p++) {
        if (!g->param[p].n_use) continue;
        const uint32_t *chunk = b->cut->use_chunk + b->cut->use_first[p];
        order[n] = (place){chunk[0], p};
        for (uint32_t u = 1; u < g->param[p].n_use; u++)
            if (chunk[u] < order[n].first) order[n].first = chunk[u];
        n++;
    }
    qsort(order, n, sizeof *order, by_chunk);
    return n;
}

static void emit(pst_job_builder *b, uint8_t opcode, const range *at, uint32_t peer, uint64_t behind) {
    uint64_t bytes = at->n * pst_dtype_bytes(b->cut->graph->dtype);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, behind + bytes));
    instr.param = at->param, instr.from = (uint32_t)at->from, instr.n = (uint32_t)at->n;
    instr.peer = peer, instr.bytes = bytes, instr.behind = behind, instr.channel = b->channel, instr.seq = at->number;
    pst_builder_emit(b, &instr);
}

/* To or from the ranks of one stage that holds the parameter; `home`: the stage whose replicas step it. */
static void emit_at(pst_job_builder *b, const range *at, uint32_t stage, uint32_t home, const arrivals *came) {
    const pst_grid grid = b->job->grid;
    uint32_t tensor = b->lane % grid.tensor, owner = pst_grid_rank(grid, home, at->owner, tensor);
    for (uint32_t k = 0; k < grid.data; k++) {
        uint32_t rank = pst_grid_rank(grid, stage, k, tensor);
        uint64_t behind = came[stage] - came[grid.pipeline + stage * grid.data + k];
        if (rank == owner || (b->rank != owner && b->rank != rank)) continue;
        if (b->rank == owner) emit(b, PST_OP_SEND, at, rank, behind);
        else emit(b, PST_OP_RECV, at, owner, behind);
    }
}

static void emit_range(pst_job_builder *b, const range *at, arrivals *came) {
    uint64_t bytes = at->n * pst_dtype_bytes(b->cut->graph->dtype);
    uint32_t home = pst_builder_stage_of_use(b, at->param, 0);
    for (uint32_t u = 0; u < b->cut->graph->param[at->param].n_use && b->status == PST_OK; u++) {
        uint32_t stage = pst_builder_stage_of_use(b, at->param, u);
        if (pst_builder_first_use(b, at->param, stage) != u) continue;
        if (stage == b->stage || home == b->stage) emit_at(b, at, stage, home, came);
        came[stage] += bytes;
        if (stage == home) came[b->job->grid.pipeline + stage * b->job->grid.data + at->owner] += bytes;
    }
}

void pst_builder_head(pst_job_builder *b) {
    const pst_graph *g = b->cut->graph;
    const pst_grid grid = b->job->grid;
    if (!g) return;
    place *order = malloc((g->n_param + (size_t)1) * sizeof *order);
    arrivals *came = calloc((size_t)grid.pipeline * (1 + grid.data), sizeof *came);
    uint32_t n = order && came ? order_params(b, order) : 0, number = 0;
    if (!order || !came) b->status = pst_fail(PST_ENOMEM, "no memory for the head of rank %u", b->rank);
    b->channel = b->cut->n_channel + 1; /* the flush has the one before for gradients, this one for sums */
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < grid.data && b->status == PST_OK; k++) {
            uint32_t p = order[i].param;
            uint64_t from = pst_share_from(b->share, p, k), to = pst_share_to(b->share, p, k);
            range at = {p, number, k, from, to - from};
            if (from == to) continue;
            emit_range(b, &at, came);
            number++;
        }
    b->n_head = b->n_instr;
    free(order), free(came);
}

void pst_builder_await_head(pst_job_builder *b) {
    uint32_t *first = b->n_head ? malloc(b->cut->n_chunk * sizeof *first) : NULL; /* pass of each chunk */
    if (b->n_head && !first) b->status = pst_fail(PST_ENOMEM, "no memory for the head of rank %u", b->rank);
    for (uint32_t c = 0; first && c < b->cut->n_chunk; c++) first[c] = PST_NONE;
    for (uint32_t i = b->n_instr; first && i-- > b->n_head;)
        if (pst_opcode_computes(b->instr[i].opcode)) first[b->instr[i].chunk] = i;
    for (uint32_t i = 0; i < b->n_head && b->status == PST_OK; i++) {
        uint32_t p = b->instr[i].param;
        for (uint32_t u = 0; b->instr[i].opcode == PST_OP_RECV && u < b->cut->graph->param[p].n_use; u++) {
            uint32_t chunk = b->cut->use_chunk[b->cut->use_first[p] + u];
            if (first[chunk] != PST_NONE) pst_builder_depend(b, first[chunk], i);
        }
    }
    free(first);
}
