/* The head of a list, where replicas share out the step (job.zero): the weights that other ranks have stepped come
 * before the passes that read them, piece by piece in the order in which chunks need them. SENDs are posted at once;
 * RECVs as far as a window of bytes reaches, which fills a link and leaves messages of the other direction a way
 * between. */
#include "pipeline/job_parts.h"
#include <stdlib.h>

enum { WINDOW = 4 << 20 }; /* bytes */

typedef struct {
    uint32_t first, param; /* chunk of the first use */
} place;

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

/* number: the seq of its messages. */
static void emit(pst_job_builder *b, uint8_t opcode, const pst_piece *at, uint32_t number, uint32_t peer) {
    uint64_t bytes = at->n * pst_dtype_bytes(b->cut->graph->dtype);
    pst_instr instr = pst_builder_blank(opcode, pst_builder_transfer_ns(b, bytes));
    instr.param = at->param, instr.from = (uint32_t)at->from, instr.n = (uint32_t)at->n;
    instr.peer = peer, instr.bytes = bytes, instr.channel = b->channel, instr.seq = number;
    pst_builder_emit(b, &instr);
}

/* To all who hold the parameter beside the rank that steps it, or from there. */
static void emit_piece(pst_job_builder *b, uint8_t opcode, const pst_piece *at, uint32_t number) {
    const pst_grid grid = b->job->grid;
    uint32_t n_use = b->cut->graph->param[at->param].n_use, tensor = b->lane % grid.tensor;
    uint32_t home = pst_builder_stage_of_use(b, at->param, 0);
    uint32_t owner = pst_grid_in_lane(grid, home, at->owner * grid.tensor + tensor);
    if ((opcode == PST_OP_SEND) != (b->rank == owner)) return;
    if (opcode == PST_OP_RECV) {
        if (pst_builder_first_use(b, at->param, b->stage) < n_use) emit(b, opcode, at, number, owner);
        return;
    }
    for (uint32_t u = 0; u < n_use; u++) {
        uint32_t stage = pst_builder_stage_of_use(b, at->param, u);
        for (uint32_t k = 0; k < grid.data && pst_builder_first_use(b, at->param, stage) == u; k++) {
            uint32_t lane = pst_grid_receiver(grid, stage, k * grid.tensor + tensor);
            for (; lane != PST_GRID_NO_LANE; lane = pst_builder_next_receiver(b, stage, lane)) {
                uint32_t rank = pst_grid_in_lane(grid, stage, lane);
                if (rank != owner) emit(b, opcode, at, number, rank);
            }
        }
    }
}

static void emit_pieces(pst_job_builder *b, uint8_t opcode, const place *order, uint32_t n) {
    for (uint32_t i = 0, first = 0; i < n; first += b->job->pieces[order[i++].param]) {
        uint32_t number = first;
        for (pst_piece at = {.param = order[i].param}; pst_share_next(b->share, &at); number++)
            if (b->status == PST_OK) emit_piece(b, opcode, &at, number);
    }
}

/* RECVs from `first` on: what would not fit into the window with those before waits for the oldest of them. */
static void set_window(pst_job_builder *b, uint32_t first) {
    uint64_t in_flight = 0;
    for (uint32_t i = first, oldest = first; i < b->n_instr && b->status == PST_OK; i++) {
        pst_instr *in = b->instr + i;
        for (; oldest < i && in_flight + in->bytes > WINDOW; oldest++) {
            pst_builder_depend(b, i, oldest);
            in_flight -= b->instr[oldest].bytes;
        }
        in_flight += in->bytes;
    }
}

void pst_builder_head(pst_job_builder *b) {
    const pst_graph *g = b->cut->graph;
    if (!g) return;
    place *order = malloc((g->n_param + (size_t)1) * sizeof *order);
    if (!order) {
        b->status = pst_fail(PST_ENOMEM, "no memory for the head of rank %u", b->rank);
        return;
    }
    uint32_t n = order_params(b, order);
    b->channel = b->cut->n_channel + 1; /* the flush has the one before for gradients, this one for sums */
    emit_pieces(b, PST_OP_SEND, order, n);
    uint32_t first = b->n_instr;
    emit_pieces(b, PST_OP_RECV, order, n);
    if (b->status == PST_OK) set_window(b, first);
    b->n_head = b->n_instr;
    free(order);
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
