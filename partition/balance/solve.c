/* pst_balance_solve: cuts a graph into contiguous chunks that cost about the same. Costs come from
 * the tape: durations of F, B and W of each operator, and the values that would cross a cut. */
#include "graph/layers.h"
#include "graph/tape.h"
#include "base/plural.h"
#include "partition/balance/balance.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Costs of each node i, and of a cut before it. */
typedef struct {
    uint64_t *cost;                       /* ns of its F, B and W */
    uint64_t *again[PST_RECOMPUTE_COUNT]; /* ns of recomputation in B; NULL: not computed */
    uint64_t *boundary;                   /* ns of the messages across the cut */
    uint64_t *crossing;                   /* bytes across the cut, both directions */
    uint32_t n_layer;                     /* of the graph */
} profile;

typedef struct {
    const pst_graph *g;
    const pst_balance_times *times;
} source;

static uint64_t step_ns(const source *from, const pst_tape *tape, uint32_t s) {
    const pst_tape_step *step = tape->step + s;
    int extra = tape->extra[s] ? PST_EXTRA_SUM : 0;
    if (step->again == PST_AGAIN_RESTORE) extra = PST_EXTRA_RESTORE;
    const pst_node *node = from->g->node + step->node;
    const pst_chooser *predict = from->times->predict;
    if (predict)
        return predict->ns(predict->arg, node, extra, step->pass, step->flops, step->bytes);
    const pst_costs_work work = {extra, step->pass, step->flops, step->bytes};
    return pst_costs_pass_ns(from->times->costs, from->g, node, &work);
}

/* A value crosses every cut between the node that makes it and the nodes that read it, once. Input
 * data crosses none: every rank reads its own. */
static pst_status sum_crossings(const pst_tape *tape, uint32_t n_node, uint64_t *crossing) {
    uint32_t *low = malloc((tape->n_value + 1) * sizeof(*low)),
             *high = calloc(tape->n_value + 1, sizeof(*high));
    if (low && high) {
        memset(low, 0xff, tape->n_value * sizeof(*low));
        for (uint32_t s = 0; s < tape->n_step; s++)
            for (uint32_t i = 0; i < tape->step[s].n_operand; i++) {
                const pst_operand *o = &tape->step[s].operand[i];
                uint32_t node = tape->step[s].node;
                if (o->kind != PST_OPERAND_VALUE || tape->value[o->index].def_step == PST_NONE)
                    continue;
                if (node < low[o->index]) low[o->index] = node;
                if (node > high[o->index]) high[o->index] = node;
            }
        for (uint32_t v = 0; v < tape->n_value; v++)
            for (uint32_t i = low[v]; i < high[v] && i + 1 < n_node; i++)
                crossing[i + 1] += tape->value[v].bytes;
    }
    pst_status status =
        low && high ? PST_OK : pst_fail(PST_ENOMEM, "no memory to partition %u operators", n_node);
    free(low);
    free(high);
    return status;
}

/* With one chunk for all nodes: the cuts are not known yet, and change the result little. */
static pst_status time_again(const source *from, pst_recompute mode, profile *p) {
    pst_tape *tape;
    uint32_t n = from->g->n_node;
    if (!(p->again[mode] = calloc(n, sizeof *p->again[mode])))
        return pst_fail(PST_ENOMEM, "no memory to partition %u operators", n);
    PST_TRY(pst_cut_tape(from->g, mode, pst_costs_program_is_other(from->times->costs->program),
                         &tape));
    for (uint32_t s = 0; s < tape->n_step; s++)
        if (tape->step[s].again) p->again[mode][tape->step[s].node] += step_ns(from, tape, s);
    pst_tape_close(tape);
    return PST_OK;
}

static pst_status time_passes(const source *from, const profile *p) {
    pst_tape *tape;
    PST_TRY(pst_tape_build(from->g, 1, &tape));
    for (uint32_t s = 0; s < tape->n_step; s++)
        p->cost[tape->step[s].node] += step_ns(from, tape, s);
    pst_status status = sum_crossings(tape, from->g->n_node, p->crossing);
    const pst_cluster_link *link =
        from->times->costs->stage_link ? from->times->costs->stage_link : &pst_costs_link;
    for (uint32_t i = 0; i < from->g->n_node; i++)
        p->boundary[i] = (uint64_t)llround((double)p->crossing[i] / link->bytes_per_s * 1e9);
    pst_tape_close(tape);
    return status;
}

/* What differs between chunks: [n_chunk], NULL: nothing. scaled: the arrays of `again` that the
 * chunk owns. */
typedef struct {
    double *slow;
    const uint64_t **again;
    uint64_t **scaled;
    uint32_t n_chunk;
} by_chunk;

static void close_by_chunk(by_chunk *x) {
    for (uint32_t c = 0; x->scaled && c < x->n_chunk; c++) free(x->scaled[c]);
    free(x->slow);
    free(x->again);
    free(x->scaled);
}

/* If a chunk recomputes some of its layers, which ones is not known before the cut: each operator
 * gets this share of its time. */
static pst_status scale_again(const profile *p, pst_recompute_way way, uint32_t n, uint32_t chunk,
                              by_chunk *x) {
    const double share =
        (double)pst_recompute_layers(way) * x->n_chunk / (p->n_layer ? p->n_layer : 1);
    x->again[chunk] = p->again[pst_recompute_mode(way)];
    if (pst_recompute_mode(way) != PST_RECOMPUTE_LAYERS || share >= 1) return PST_OK;
    if (!(x->scaled[chunk] = malloc(n * sizeof **x->scaled)))
        return pst_fail(PST_ENOMEM, "no memory to partition %u operators", n);
    for (uint32_t i = 0; i < n; i++)
        x->scaled[chunk][i] = (uint64_t)(share * (double)x->again[chunk][i]);
    x->again[chunk] = x->scaled[chunk];
    return PST_OK;
}

static pst_status open_by_chunk(const profile *p, const pst_schedule *s, const double *slow,
                                const pst_layout *l, by_chunk *x) {
    const pst_recompute_way *recompute = l->recompute;
    x->n_chunk = s->n_chunk;
    x->slow = slow ? malloc(s->n_chunk * sizeof *x->slow) : NULL;
    x->again = recompute ? malloc(s->n_chunk * sizeof *x->again) : NULL;
    x->scaled = calloc(s->n_chunk, sizeof *x->scaled);
    if ((slow && !x->slow) || (recompute && !x->again) || !x->scaled)
        return pst_fail(PST_ENOMEM, "no memory to partition into %u chunks", s->n_chunk);
    for (uint32_t c = 0; c < s->n_chunk; c++) {
        if (slow) x->slow[c] = slow[s->rank_of_chunk[c]];
        if (recompute) PST_TRY(scale_again(p, recompute[c], l->n_item, c, x));
    }
    return PST_OK;
}

/* chunk: [operators], scratch. */
static pst_status cut_into(const profile *p, uint32_t *chunk, const pst_schedule *s,
                           const double *slow, pst_layout *l) {
    by_chunk x = {0};
    pst_status status = open_by_chunk(p, s, slow, l, &x);
    const pst_balance_items items = {.cost = p->cost,
                                     .boundary_cost = p->boundary,
                                     .crossing = p->crossing,
                                     .again = x.again,
                                     .slow = x.slow,
                                     .n = l->n_item,
                                     .n_chunk = l->n_chunk};
    if (status == PST_OK) status = pst_balance_cut(&items, chunk);
    for (uint32_t i = 0; status == PST_OK && i < l->n_item; i++)
        l->first_item[chunk[i] + 1] = i + 1;
    close_by_chunk(&x);
    return status;
}

static pst_status fill_layout(const profile *p, const pst_schedule *s, const double *slow,
                              const pst_recompute_way *recompute, pst_layout *l) {
    memcpy(l->rank_of_chunk, s->rank_of_chunk, s->n_chunk * sizeof(*s->rank_of_chunk));
    if (recompute) memcpy(l->recompute, recompute, s->n_chunk * sizeof *recompute);
    uint32_t *chunk = malloc(l->n_item * sizeof *chunk);
    if (!chunk) return pst_fail(PST_ENOMEM, "no memory to partition %u operators", l->n_item);
    pst_status status = cut_into(p, chunk, s, slow, l);
    free(chunk);
    return status;
}

/* Too many chunks for the model: advises fewer ranks, or fewer chunks if the schedule allows it. */
static pst_status too_many(const pst_graph *g, const pst_schedule *schedule) {
    uint32_t n_rank = schedule->n_rank, each = schedule->n_chunk / n_rank, most = g->n_node / each;
    const pst_schedule_row *row;
    char advice[96] = "use a larger model";
    if (n_rank == schedule->n_chunk)
        return pst_fail(PST_EINPUT,
                        "%u ranks are more than the %u operators of the model; use at most %u",
                        n_rank, g->n_node, g->n_node);
    int any =
        pst_schedule_find(schedule->name, &row) == PST_OK && !row->n_virtual && g->n_node >= n_rank;
    if (any)
        snprintf(advice, sizeof advice, "use at most %u chunk%s per rank%s", g->n_node / n_rank,
                 pst_plural(g->n_node / n_rank), most ? ", or fewer ranks" : "");
    else if (most) snprintf(advice, sizeof advice, "use at most %u rank%s", most, pst_plural(most));
    return pst_fail(PST_EINPUT,
                    "schedule %s has %u chunks on %u ranks, but the model has %u operators; %s",
                    schedule->name, schedule->n_chunk, n_rank, g->n_node, advice);
}

static pst_status count_layers(const pst_graph *g, uint32_t *n_layer) {
    uint32_t *layer = malloc(g->n_node * sizeof *layer);
    if (!layer) return pst_fail(PST_ENOMEM, "no memory to partition %u operators", g->n_node);
    pst_graph_layers(g, layer);
    for (uint32_t i = 0; i < g->n_node; i++)
        if (layer[i] != PST_NONE) *n_layer = layer[i] + 1;
    free(layer);
    return PST_OK;
}

static pst_status time_all(const source *from, const pst_recompute_way *recompute, uint32_t n_chunk,
                           profile *p) {
    PST_TRY(time_passes(from, p));
    PST_TRY(count_layers(from->g, &p->n_layer));
    for (uint32_t c = 0; recompute && c < n_chunk; c++) {
        const pst_recompute mode = pst_recompute_mode(recompute[c]);
        if (mode != PST_RECOMPUTE_NONE && !p->again[mode]) PST_TRY(time_again(from, mode, p));
    }
    return PST_OK;
}

pst_status pst_balance_solve(const pst_graph *g, const pst_balance_times *times,
                             const pst_schedule *schedule, const pst_recompute_way *recompute,
                             pst_layout *layout) {
    const source from = {g, times};
    if (schedule->n_chunk > g->n_node) return too_many(g, schedule);
    uint64_t *arrays = calloc(3 * (size_t)g->n_node, sizeof(*arrays));
    if (!arrays) return pst_fail(PST_ENOMEM, "no memory to partition %u operators", g->n_node);
    profile p = {
        .cost = arrays, .boundary = arrays + g->n_node, .crossing = arrays + 2 * (size_t)g->n_node};
    pst_status status = time_all(&from, recompute, schedule->n_chunk, &p);
    if (status == PST_OK) status = pst_layout_open_cut(layout, g->n_node, schedule->n_chunk);
    if (status == PST_OK) status = fill_layout(&p, schedule, times->slow, recompute, layout);
    for (uint32_t i = 0; i < PST_RECOMPUTE_COUNT; i++) free(p.again[i]);
    free(arrays);
    return status;
}
