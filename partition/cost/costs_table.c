/* Cost tables for the search: the durations of each operator, from the tape, and the bytes that
 * each operator keeps, from the steps that read each value.
 *
 * A value is counted at the first operator whose B or W needs it: every chunk with this operator
 * has the value. If the first need lies in an earlier chunk, the value counts as `enter`, as far as
 * the chunk's first operator needs it: the result is at most what the memory map has. */
#include "graph/layers.h"
#include "partition/cost/costs_parts.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_graph *g;
    pst_costs costs;
    const pst_chooser *scratch;
    pst_cost_table *t;
} builder;

static int in_forward(const pst_tape_step *step) {
    return step->pass == PST_PASS_F && !step->again;
}

static int is_value(const pst_operand *o) { return o->kind == PST_OPERAND_VALUE; }

/* --- times ------------------------------------------------------------------------------------ */

static int extra_of(const pst_tape *tape, uint32_t s) {
    if (tape->step[s].again == PST_AGAIN_RESTORE) return PST_EXTRA_RESTORE;
    return tape->extra[s] ? PST_EXTRA_SUM : 0;
}

static uint64_t step_ns(const builder *b, const pst_tape *tape, uint32_t s) {
    const pst_tape_step *step = tape->step + s;
    const pst_costs_work work = {extra_of(tape, s), step->pass, step->flops, step->bytes};
    return pst_costs_pass_ns(&b->costs, b->g, b->g->node + step->node, &work);
}

static int is_exchange(const builder *b, const pst_tape *tape, uint32_t s) {
    if (extra_of(tape, s)) return 0;
    pst_exchange kind = pst_node_exchange(b->g->node + tape->step[s].node, 0, tape->step[s].pass);
    return kind != PST_EXCHANGE_NONE && kind != PST_EXCHANGE_COPY;
}

static void time_passes(const builder *b, const pst_tape *tape) {
    uint64_t *const ns[] = {b->t->f_ns, b->t->b_ns, b->t->w_ns};
    for (uint32_t s = 0; s < tape->n_step; s++) {
        uint32_t i = tape->step[s].node;
        uint64_t took = step_ns(b, tape, s);
        ns[tape->step[s].pass][i] += took;
        if (is_exchange(b, tape, s)) b->t->exchange_ns[i] += took;
    }
}

static void time_again(const builder *b, const pst_tape *tape, pst_recompute mode) {
    for (uint32_t s = 0; s < tape->n_step; s++)
        if (tape->step[s].again) b->t->again_ns[mode][tape->step[s].node] += step_ns(b, tape, s);
}

/* --- kept values ------------------------------------------------------------------------------ */

/* A set of values that always share memory. */
typedef struct {
    uint32_t into;        /* the value that represents it */
    uint32_t first, last; /* first: the first node whose B or W needs it (again: B's F); last: the
                             last visited node */
    uint32_t first_w;     /* the first node whose W needs it, if another pass made it; PST_NONE */
    uint64_t bytes;
    uint8_t is_free; /* data or output, counted as kept */
    uint8_t forward; /* made by F */
    uint8_t again;   /* made by F inside B */
} life;

static uint32_t find(life *x, uint32_t v) {
    while (x[v].into != v) v = x[v].into = x[x[v].into].into;
    return v;
}

static void merge(const pst_tape *tape, life *x) {
    for (uint32_t s = 0; s < tape->n_step; s++)
        for (uint32_t i = 0; i < tape->step[s].n_operand; i++) {
            const pst_operand *o = tape->step[s].operand + i;
            if (o->must && o->share >= 0 && is_value(o) &&
                is_value(tape->step[s].operand + o->share))
                x[find(x, o->index)].into = find(x, tape->step[s].operand[o->share].index);
        }
}

static int is_free(const pst_graph *g, const pst_value *v) {
    return v->def_step == PST_NONE ||
           (v->kind == PST_VALUE_TENSOR && g->tensor[v->tensor].role == PST_TENSOR_OUTPUT);
}

static void find_lives(const pst_graph *g, const pst_tape *tape, life *x) {
    for (uint32_t v = 0; v < tape->n_value; v++)
        x[v] = (life){.into = v, .first = PST_NONE, .last = PST_NONE, .first_w = PST_NONE};
    merge(tape, x);
    for (uint32_t v = 0; v < tape->n_value; v++) {
        const pst_value *value = tape->value + v;
        life *l = x + find(x, v);
        if (value->bytes > l->bytes) l->bytes = value->bytes;
        l->is_free |= (uint8_t)is_free(g, value);
        if (value->def_step == PST_NONE) continue;
        const pst_tape_step *by = tape->step + value->def_step;
        l->forward |= (uint8_t)in_forward(by);
        l->again |= by->again != 0;
    }
}

/* The first node whose B or W needs a value of F, or whose B needs it after F. A gradient written
 * over it may belong to another chunk, and F inside B may run for a later chunk only. */
static void find_needs(const pst_tape *tape, life *x) {
    for (uint32_t s = 0; s < tape->n_step; s++) {
        const pst_tape_step *step = tape->step + s;
        for (uint32_t i = 0; step->pass != PST_PASS_F && i < step->n_operand; i++) {
            const pst_operand *o = step->operand + i;
            if (!is_value(o) || tape->value[o->index].def_step == PST_NONE) continue;
            pst_pass made = tape->step[tape->value[o->index].def_step].pass;
            life *l = x + find(x, o->index);
            if (made == PST_PASS_F && (l->first == PST_NONE || step->node < l->first))
                l->first = step->node;
            if (step->pass == PST_PASS_W && made != PST_PASS_W &&
                (l->first_w == PST_NONE || step->node < l->first_w))
                l->first_w = step->node;
        }
    }
}

/* What a chunk that begins with a node has received and needs there. by_node: steps by node, so
 * that each value is counted once per node. */
static void sum_enter(const builder *b, const pst_tape *tape, life *x, const uint32_t *by_node,
                      uint64_t *enter) {
    for (uint32_t k = 0; k < tape->n_step; k++) {
        const pst_tape_step *step = tape->step + by_node[k];
        for (uint32_t i = 0; step->pass != PST_PASS_F && i < step->n_operand; i++) {
            const pst_operand *o = step->operand + i;
            if (!is_value(o) || !(o->access & PST_READ)) continue;
            const pst_value *value = tape->value + o->index;
            life *l = x + find(x, o->index);
            if (value->kind != PST_VALUE_TENSOR || l->is_free || l->last == step->node) continue;
            uint32_t producer = b->g->tensor[value->tensor].producer;
            l->last = step->node;
            if (producer == PST_NONE || producer >= step->node) continue;
            if (!l->forward || l->first != step->node) enter[step->node] += l->bytes;
        }
    }
}

static void sum_stash(const builder *b, const pst_tape *tape, life *x, pst_recompute mode) {
    for (uint32_t v = 0; v < tape->n_value; v++) {
        const life *l = x + v;
        if (l->into != v || l->is_free) continue;
        if (l->first != PST_NONE && l->forward) b->t->stash[mode][l->first] += l->bytes;
        else if (l->first != PST_NONE && l->again) b->t->recomputed[mode][l->first] += l->bytes;
        if (l->first_w == PST_NONE) continue;
        if (l->forward) b->t->stash_to_w[mode][l->first_w] += l->bytes;
        else b->t->b_to_w[mode][l->first_w] += l->bytes;
        if (l->again && !l->forward) b->t->recomputed_to_w[mode][l->first_w] += l->bytes;
    }
}

/* Bytes that a step uses and that are not kept from F on (split: nor from B to W). An operand that
 * may reuse another one's memory adds none. */
static pst_status sum_scratch(const builder *b, const pst_tape *tape, life *x) {
    for (uint32_t s = 0; s < tape->n_step; s++) {
        const pst_tape_step *step = tape->step + s;
        uint64_t bytes = 0, split = 0;
        for (uint32_t i = 0; i < step->n_operand; i++) {
            const pst_operand *o = step->operand + i;
            if (!is_value(o) || o->share >= 0) continue;
            const life *l = x + find(x, o->index);
            int seen = 0;
            for (uint32_t j = 0; j < i; j++)
                seen |= is_value(step->operand + j) && find(x, step->operand[j].index) == l->into;
            if (seen || l->is_free || (l->forward && l->first != PST_NONE)) continue;
            bytes += l->bytes;
            if (l->first_w == PST_NONE) split += l->bytes;
        }
        pst_chosen chosen = {0, 0};
        int extra = tape->extra[s] ? PST_EXTRA_SUM : 0;
        if (b->scratch && b->scratch->choose)
            PST_TRY(b->scratch->choose(b->scratch->arg, b->g, b->g->node + step->node, extra,
                                       step->pass, &chosen));
        const uint64_t work = chosen.scratch;
        if (bytes + work > b->t->scratch[step->node]) b->t->scratch[step->node] = bytes + work;
        if (split + work > b->t->scratch_split[step->node])
            b->t->scratch_split[step->node] = split + work;
    }
    return PST_OK;
}

/* Steps by node, in their order (counting sort). */
static void order_steps(const pst_tape *tape, uint32_t n_node, uint32_t *start, uint32_t *by_node) {
    for (uint32_t i = 0; i <= n_node; i++) start[i] = 0;
    for (uint32_t s = 0; s < tape->n_step; s++) start[tape->step[s].node + 1]++;
    for (uint32_t i = 0; i < n_node; i++) start[i + 1] += start[i];
    for (uint32_t s = 0; s < tape->n_step; s++) by_node[start[tape->step[s].node]++] = s;
}

static pst_status keep(const builder *b, const pst_tape *tape, pst_recompute mode) {
    life *x = malloc((tape->n_value + (size_t)1) * sizeof *x);
    uint32_t *order = malloc((tape->n_step + (size_t)b->t->n + 1) * sizeof *order);
    pst_status status =
        x && order ? PST_OK
                   : pst_fail(PST_ENOMEM, "no memory for the costs of %u operators", b->t->n);
    if (status == PST_OK) {
        find_lives(b->g, tape, x);
        find_needs(tape, x);
        order_steps(tape, b->t->n, order + tape->n_step, order);
        sum_enter(b, tape, x, order, b->t->enter[mode]);
        sum_stash(b, tape, x, mode);
        if (mode == PST_RECOMPUTE_NONE) status = sum_scratch(b, tape, x);
    }
    free(x);
    free(order);
    return status;
}

/* --- what crosses, parameters, data ----------------------------------------------------------- */

static pst_status sum_crossings(const builder *b) {
    const pst_graph *g = b->g;
    uint32_t *last = calloc(g->n_tensor + (size_t)1, sizeof *last);
    if (!last) return pst_fail(PST_ENOMEM, "no memory for the costs of %u operators", g->n_node);
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) last[g->node[i].in[k]] = i;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        uint32_t from = g->tensor[t].producer;
        uint64_t bytes = pst_tensor_bytes(g->tensor + t);
        if (from == PST_NONE) b->t->kept[last[t]] += bytes;
        else if (g->tensor[t].role == PST_TENSOR_OUTPUT) b->t->kept[from] += bytes;
        for (uint32_t i = from; from != PST_NONE && i < last[t]; i++) b->t->cross[i + 1] += bytes;
    }
    free(last);
    return PST_OK;
}

static int uses(const pst_node *node, uint32_t param) {
    for (uint32_t k = 0; k < node->n_param; k++)
        if (node->param[k] == param) return 1;
    return 0;
}

static void sum_parameters(const builder *b) {
    for (uint32_t i = 0; i < b->g->n_node; i++)
        for (uint32_t k = 0; k < b->g->node[i].n_param; k++) {
            const pst_node *d = b->g->node + i;
            if (b->g->param[d->param[k]].frozen) {
                if (!d->use[k]) b->t->frozen[i] += pst_param_elements(b->g->param + d->param[k]);
                continue;
            }
            uint64_t elements = pst_param_elements(b->g->param + b->g->node[i].param[k]);
            b->t->accumulated[i] += pst_param_sums(b->g->param + b->g->node[i].param[k]);
            if (!b->g->node[i].use[k]) {
                b->t->elements[i] += elements;
                if (elements > b->t->largest[i]) b->t->largest[i] = elements;
            } else if (uses(b->g->node, b->g->node[i].param[k])) b->t->tied[i] += elements;
        }
}

static pst_status mark_layers(const builder *b) {
    uint32_t last = PST_NONE, *layer = malloc(b->t->n * sizeof *layer);
    if (!layer) return pst_fail(PST_ENOMEM, "no memory for the costs of %u operators", b->t->n);
    pst_graph_layers(b->g, layer);
    for (uint32_t i = 0; i < b->t->n; i++) {
        if (layer[i] == PST_NONE) continue;
        b->t->layer[i] = layer[i] == last ? PST_LAYER_INSIDE : PST_LAYER_BEGINS;
        last = layer[i];
    }
    free(layer);
    return PST_OK;
}

/* --- assembly --------------------------------------------------------------------------------- */

enum { PLAIN = 14, BY_MODE = 7, ARRAYS = PLAIN + BY_MODE * PST_RECOMPUTE_COUNT };

/* NULL: not for this mode. */
static uint64_t **array_of(pst_cost_table *t, uint32_t k) {
    uint64_t **const plain[PLAIN] = {&t->f_ns,        &t->b_ns, &t->w_ns,          &t->exchange_ns,
                                     &t->scratch,     &t->tied, &t->cross,         &t->elements,
                                     &t->accumulated, &t->kept, &t->scratch_split, &t->largest,
                                     &t->frozen,      &t->layer};
    if (k < PLAIN) return plain[k];
    uint32_t mode = (k - PLAIN) / BY_MODE, which = (k - PLAIN) % BY_MODE;
    if (mode == PST_RECOMPUTE_NONE && which >= 4) return NULL;
    uint64_t **const by_mode[BY_MODE] = {
        &t->stash[mode],    &t->enter[mode],      &t->stash_to_w[mode],     &t->b_to_w[mode],
        &t->again_ns[mode], &t->recomputed[mode], &t->recomputed_to_w[mode]};
    return by_mode[which];
}

/* All arrays are one allocation. */
static pst_status open_table(uint32_t n, pst_cost_table **table) {
    pst_cost_table *t = calloc(1, sizeof *t);
    uint64_t *at = calloc((size_t)n * ARRAYS + 1, sizeof *at);
    if (!t || !at) {
        free(t);
        free(at);
        return pst_fail(PST_ENOMEM, "no memory for the costs of %u operators", n);
    }
    t->n = n;
    for (uint32_t k = 0; k < ARRAYS; k++)
        if (array_of(t, k)) {
            *array_of(t, k) = at;
            at += n;
        }
    *table = t;
    return PST_OK;
}

/* a number of elements large enough that rounding does not matter */
#define MANY 100000000

static pst_status fill(const builder *b) {
    for (pst_recompute mode = PST_RECOMPUTE_NONE; mode < PST_RECOMPUTE_COUNT; mode++) {
        pst_tape *tape;
        PST_TRY(pst_cut_tape(b->g, mode, pst_costs_program_is_other(b->costs.program), &tape));
        if (mode == PST_RECOMPUTE_NONE) time_passes(b, tape);
        else time_again(b, tape, mode);
        pst_status status = keep(b, tape, mode);
        pst_tape_close(tape);
        PST_TRY(status);
    }
    sum_parameters(b);
    PST_TRY(mark_layers(b));
    b->t->norm_ns = (double)pst_costs_norm_ns(&b->costs, MANY) / MANY;
    b->t->step_ns = (double)pst_costs_step_ns(&b->costs, MANY) / MANY;
    b->t->reduce_ns = (double)pst_costs_reduce_ns(&b->costs, MANY) / MANY;
    return sum_crossings(b);
}

pst_status pst_cost_table_build(const pst_graph *g, const pst_costs *costs,
                                const pst_cluster_link *link, const pst_chooser *scratch,
                                pst_cost_table **table) {
    builder b = {.g = g, .costs = *costs, .scratch = scratch};
    if (link) b.costs.tensor_link = link;
    PST_TRY(open_table(g->n_node, &b.t));
    pst_status status = fill(&b);
    if (status == PST_OK) *table = b.t;
    else pst_cost_table_close(b.t);
    return status;
}

void pst_cost_table_close(pst_cost_table *table) {
    if (!table) return;
    free(table->f_ns); /* the first of the arrays, which are one allocation */
    free(table);
}

pst_status pst_cost_table_repeat(pst_cost_table *t, uint32_t from, uint32_t period, uint32_t times,
                                 pst_cost_table **longer) {
    pst_cost_table *l;
    uint32_t behind = from + period;
    PST_TRY(open_table(t->n + period * times, &l));
    l->norm_ns = t->norm_ns;
    l->step_ns = t->step_ns;
    l->reduce_ns = t->reduce_ns;
    for (uint32_t k = 0; k < ARRAYS; k++) {
        if (!array_of(t, k)) continue;
        const uint64_t *has = *array_of(t, k);
        uint64_t *to = *array_of(l, k);
        memcpy(to, has, behind * sizeof *to);
        for (uint32_t i = behind; i < behind + period * times; i++) to[i] = to[i - period];
        memcpy(to + behind + period * times, has + behind, (t->n - behind) * sizeof *to);
    }
    *longer = l;
    return PST_OK;
}
