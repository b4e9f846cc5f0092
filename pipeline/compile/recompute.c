/* Recomputation: rewrites the tape so that B and W of a chunk read copies of F's values, and puts
 * the F steps that compute these copies before the chunk's first B (layers: the layer's).
 * Lifetimes, memory, channels and times follow from the tape, so no other code depends on
 * recomputation. The copies have the same bits as the originals: same kernels, same inputs, and
 * dropout is indexed by (seed, name, sample).
 *
 * full: everything that F computes from the inputs of the chunk. layers: everything that F computes
 * in the first N layers of the chunk, from the inputs of each layer: the copies of one layer are in
 * memory at a time. The first layers, because their B comes last, when the kept activations of the
 * others are no longer needed. selective: operators with little
 * work per byte of output (op.h), if their inputs are available when B begins, and outputs that can
 * be computed from values that B reads anyway (the output of an activation function from its
 * input). Operators with graph outputs (losses) run only once; the values that they save are
 * kept. */
#include "graph/layers.h"
#include "pipeline/compile/cut_parts.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_cut *cut;
    const pst_recompute_way *way; /* [n_chunk] */
    int whole;                    /* as in pst_chooser */
    uint32_t *part;               /* [n_node] what is recomputed together: 0, or 1 + a layer */
    uint8_t *redo;                /* [n_node] pst_again: how F may be recomputed */
    uint8_t *again; /* [n_step] 1: an F step that is recomputed; 2: its copy is on the new tape */
    uint8_t *back;  /* [n_value] 1: some B or W of the current chunk reads it */
    /* [n_value] the copy that B and W of the value's chunk read instead; PST_NONE: no copy */
    uint32_t *copy;
    uint32_t *moved;       /* [n_step] index on the new tape */
    pst_chunk_steps steps; /* of the old tape */
} rewriting;

static uint32_t chunk_of(const rewriting *x, uint32_t step) {
    return pst_cut_step_chunk(x->cut, step);
}

/* Whether two steps belong to the same chunk and are recomputed together. */
static int together(const rewriting *x, uint32_t a, uint32_t b) {
    const pst_tape_step *step = x->cut->tape->step;
    return chunk_of(x, a) == chunk_of(x, b) && x->part[step[a].node] == x->part[step[b].node];
}

/* The F step that computes the value and may be recomputed for step s; PST_NONE. */
static uint32_t source(const rewriting *x, uint32_t value, uint32_t s) {
    const pst_tape *tape = x->cut->tape;
    uint32_t d = tape->value[value].def_step;
    if (d == PST_NONE || tape->step[d].pass != PST_PASS_F || !together(x, d, s)) return PST_NONE;
    uint8_t how = x->redo[tape->step[d].node];
    int can = how == PST_AGAIN_F ||
              (how == PST_AGAIN_RESTORE && tape->value[value].kind == PST_VALUE_TENSOR);
    return can ? d : PST_NONE;
}

/* --- candidates for recomputation ------------------------------------------------------------- */

static int makes_output(const pst_graph *g, const pst_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (g->tensor[node->out[i]].role == PST_TENSOR_OUTPUT) return 1;
    return 0;
}

/* Whether recomputing keeps no value that is not kept anyway. */
static int has_inputs(const rewriting *x, uint32_t s) {
    const pst_tape_step *step = x->cut->tape->step + s;
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (o->kind != PST_OPERAND_VALUE || !(o->access & PST_READ)) continue;
        int is_data = x->cut->tape->value[o->index].def_step == PST_NONE;
        if (!is_data && !x->back[o->index] && source(x, o->index, s) == PST_NONE) return 0;
    }
    return 1;
}

static void mark_back(const rewriting *x, uint32_t c) {
    const pst_tape *tape = x->cut->tape;
    memset(x->back, 0, tape->n_value);
    for (uint32_t k = x->steps.first[c]; k < x->steps.first[c + 1]; k++) {
        const pst_tape_step *step = tape->step + x->steps.step[k];
        for (uint32_t i = 0; i < step->n_operand && step->pass != PST_PASS_F; i++) {
            const pst_operand *o = step->operand + i;
            if (o->kind == PST_OPERAND_VALUE && o->access & PST_READ) x->back[o->index] = 1;
        }
    }
}

/* The operands of the F step from which the node's output can be restored; 0: none. */
static uint32_t restore(const rewriting *x, uint32_t s, pst_operand out[PST_MAX_ARG]) {
    const pst_tape_step *step = x->cut->tape->step + s;
    const pst_node *node = x->cut->graph->node + step->node;
    pst_arg want[PST_MAX_ARG], have[PST_MAX_ARG];
    uint32_t n = node->op->restore ? node->op->restore(node, want) : 0;
    node->op->args(node, PST_PASS_F, have);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = 0;
        while (i < step->n_operand &&
               (have[i].kind != want[k].kind || have[i].index != want[k].index))
            i++;
        if (i == step->n_operand) return 0;
        out[k] = (pst_operand){.kind = PST_OPERAND_VALUE,
                               .access = want[k].access,
                               .share = -1,
                               .index = step->operand[i].index};
    }
    return n;
}

/* F overwrites an input that is not recomputed, so it can run only once. */
static int spoils_input(const rewriting *x, uint32_t s) {
    const pst_tape_step *step = x->cut->tape->step + s;
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = step->operand + i;
        if (o->must && source(x, step->operand[o->share].index, s) == PST_NONE) return 1;
    }
    return 0;
}

static uint8_t how_again(const rewriting *x, uint32_t s, int full) {
    const pst_node *node = x->cut->graph->node + x->cut->tape->step[s].node;
    pst_operand list[PST_MAX_ARG];
    if (spoils_input(x, s)) return PST_AGAIN_NOT;
    if (full || (node->op->cheap && has_inputs(x, s))) return PST_AGAIN_F;
    uint32_t n = restore(x, s, list);
    for (uint32_t i = 0; i < n; i++)
        if (list[i].access == PST_READ && !x->back[list[i].index]) n = 0; /* not kept anyway */
    return n ? PST_AGAIN_RESTORE : PST_AGAIN_NOT;
}

/* Numbers the first layers of the chunks with mode LAYERS. */
static void choose_layers(const rewriting *x) {
    const pst_cut *cut = x->cut;
    uint32_t n_layer = 0, last = PST_NONE;
    pst_graph_layers(cut->graph, x->part);
    for (uint32_t n = 0; n < cut->n_node; n++) {
        const uint32_t layer = x->part[n], c = cut->chunk_of_node[n];
        if (n && c != cut->chunk_of_node[n - 1]) {
            n_layer = 0;
            last = PST_NONE;
        }
        n_layer += layer != PST_NONE && layer != last;
        last = layer == PST_NONE ? last : layer;
        x->part[n] =
            layer != PST_NONE && n_layer <= pst_recompute_layers(x->way[c]) ? 1 + layer : 0;
    }
}

static void choose_nodes(const rewriting *x, uint32_t c) {
    const pst_graph *g = x->cut->graph;
    const pst_recompute mode = pst_recompute_mode(x->way[c]);
    mark_back(x, c);
    for (uint32_t k = x->steps.first[c]; k < x->steps.first[c + 1]; k++) {
        const uint32_t s = x->steps.step[k], n = x->cut->tape->step[s].node;
        if (x->cut->tape->step[s].pass != PST_PASS_F) break;
        if (makes_output(g, g->node + n)) continue;
        if (mode == PST_RECOMPUTE_LAYERS && !x->part[n]) continue;
        x->redo[n] = how_again(x, s, mode != PST_RECOMPUTE_SELECTIVE);
    }
}

/* The F steps of the layer of step s, which is a B or W. */
static void mark_layer(const rewriting *x, uint32_t s) {
    const pst_tape_step *step = x->cut->tape->step;
    const uint32_t c = chunk_of(x, s), end = x->steps.first[c + 1];
    for (uint32_t k = x->steps.first[c]; k < end && x->steps.step[k] < s; k++) {
        const uint32_t f = x->steps.step[k], n = step[f].node;
        if (step[f].pass == PST_PASS_F && x->redo[n] == PST_AGAIN_F && together(x, f, s))
            x->again[f] = 1;
    }
}

/* Programs that recompute whole layers repeat operators whose values nothing reads, too. */
static void mark_whole(const rewriting *x) {
    const pst_tape_step *step = x->cut->tape->step;
    uint32_t last = PST_NONE;
    for (uint32_t s = 0; s < x->cut->tape->n_step; s++) {
        if (step[s].pass == PST_PASS_F || !x->part[step[s].node]) continue;
        if (last == PST_NONE || !together(x, last, s)) mark_layer(x, s);
        last = s;
    }
}

/* Marks, from the end to the start, the values that B and W read, and the values that the steps
 * which compute these read. */
static uint32_t mark_again(const rewriting *x) {
    const pst_tape *tape = x->cut->tape;
    uint32_t n = 0;
    for (uint32_t s = tape->n_step; s-- > 0;) {
        const pst_tape_step *step = tape->step + s;
        if (step->pass == PST_PASS_F && !x->again[s]) continue;
        n += x->again[s];
        if (x->again[s] && x->redo[step->node] == PST_AGAIN_RESTORE)
            continue; /* reads values that are kept */
        for (uint32_t i = 0; i < step->n_operand; i++) {
            const pst_operand *o = step->operand + i;
            if (o->kind != PST_OPERAND_VALUE || !(o->access & PST_READ)) continue;
            uint32_t from = source(x, o->index, s);
            if (from != PST_NONE) x->again[from] = 1;
        }
    }
    return n;
}

/* --- the new tape ----------------------------------------------------------------------------- */

static pst_status copy_values(const rewriting *x) {
    pst_tape *tape = x->cut->tape;
    uint32_t n = tape->n_value, more = 0;
    for (uint32_t s = 0; s < tape->n_step; s++) more += x->again[s] ? tape->step[s].n_operand : 0;
    pst_value *value = realloc(tape->value, ((size_t)n + more) * sizeof *value);
    if (!value) return pst_fail(PST_ENOMEM, "no memory for %u values that are recomputed", more);
    tape->value = value;
    memset(x->copy, 0xff, n * sizeof *x->copy);
    for (uint32_t s = 0; s < tape->n_step; s++)
        for (uint32_t i = 0; x->again[s] && i < tape->step[s].n_operand; i++) {
            const pst_operand *o = tape->step[s].operand + i;
            if (o->kind != PST_OPERAND_VALUE || !(o->access & PST_WRITE)) continue;
            if (source(x, o->index, s) == PST_NONE) continue; /* kept */
            x->copy[o->index] = tape->n_value;
            value[tape->n_value++] = value[o->index];
        }
    return PST_OK;
}

/* Cost of restoring an output: one pass over its inputs; an exponential counts as 10 FLOPs. */
static void make_again(const rewriting *x, uint32_t s, pst_tape_step *to) {
    to->again = x->redo[to->node];
    if (to->again != PST_AGAIN_RESTORE) return;
    const pst_tensor *out = x->cut->graph->tensor + x->cut->graph->node[to->node].out[0];
    to->n_operand = restore(x, s, to->operand);
    to->flops = 12 * pst_tensor_elements(out);
    to->bytes = 2 * pst_tensor_bytes(out);
}

static void append(const rewriting *x, uint32_t s, int again, pst_tape_step *step, uint8_t *extra,
                   uint32_t *n) {
    const pst_tape *tape = x->cut->tape;
    pst_tape_step *to = step + *n;
    *to = tape->step[s];
    if (again) make_again(x, s, to);
    extra[*n] = tape->extra[s];
    for (uint32_t i = 0; (again || to->pass != PST_PASS_F) && i < to->n_operand; i++) {
        pst_operand *o = to->operand + i;
        if (o->kind != PST_OPERAND_VALUE || x->copy[o->index] == PST_NONE) continue;
        if (!together(x, tape->value[o->index].def_step, s))
            continue; /* another chunk has received the original, another layer has kept it */
        o->index = x->copy[o->index];
        if (o->access & PST_WRITE) tape->value[o->index].def_step = *n;
    }
    if (!again) x->moved[s] = *n;
    ++*n;
}

/* What is recomputed together with step s. */
static void append_again(const rewriting *x, uint32_t s, pst_tape_step *step, uint8_t *extra,
                         uint32_t *n) {
    const uint32_t c = chunk_of(x, s), end = x->steps.first[c + 1];
    for (uint32_t k = x->steps.first[c]; k < end && x->steps.step[k] < s; k++) {
        const uint32_t f = x->steps.step[k];
        if (x->again[f] != 1 || !together(x, f, s)) continue;
        append(x, f, 1, step, extra, n);
        x->again[f] = 2;
    }
}

/* Inserts the recomputed steps before the first B or W of their chunk or layer; then renumbers
 * definitions. */
static void fill(const rewriting *x, uint32_t n_original, pst_tape_step *step, uint8_t *extra) {
    pst_tape *tape = x->cut->tape;
    uint32_t n = 0, last = PST_NONE;
    for (uint32_t s = 0; s < tape->n_step; s++) {
        int back = tape->step[s].pass != PST_PASS_F;
        if (back && (last == PST_NONE || !together(x, last, s)))
            append_again(x, s, step, extra, &n);
        if (back) last = s;
        append(x, s, 0, step, extra, &n);
    }
    for (uint32_t v = 0; v < n_original; v++)
        if (tape->value[v].def_step != PST_NONE)
            tape->value[v].def_step = x->moved[tape->value[v].def_step];
    free(tape->step);
    free(tape->extra);
    tape->step = step;
    tape->extra = extra;
    tape->n_step = n;
}

static pst_status rewrite(rewriting *x) {
    pst_tape *tape = x->cut->tape;
    int any = 0;
    for (uint32_t c = 0; c < x->cut->n_chunk; c++) any |= x->way[c] != PST_RECOMPUTE_NONE;
    if (!any) return PST_OK;
    PST_TRY(pst_chunk_steps_open(x->cut, &x->steps));
    choose_layers(x);
    for (uint32_t c = 0; c < x->cut->n_chunk; c++)
        if (x->way[c] != PST_RECOMPUTE_NONE) choose_nodes(x, c);
    if (x->whole) mark_whole(x);
    uint32_t more = mark_again(x), n_value = tape->n_value;
    if (!more) return PST_OK;
    pst_tape_step *step = malloc(((size_t)tape->n_step + more) * sizeof *step);
    uint8_t *extra = malloc((size_t)tape->n_step + more);
    pst_status status =
        step && extra
            ? copy_values(x)
            : pst_fail(PST_ENOMEM, "no memory for %u operators that are recomputed", more);
    if (status == PST_OK) fill(x, n_value, step, extra);
    else {
        free(step);
        free(extra);
    }
    return status;
}

pst_status pst_cut_recompute(pst_cut *cut, const pst_recompute_way *way, int whole) {
    const pst_tape *tape = cut->tape;
    size_t n_value = tape->n_value + (size_t)1, n_step = tape->n_step + (size_t)1;
    rewriting x = {.cut = cut,
                   .way = way,
                   .whole = whole,
                   .part = calloc(cut->n_node, sizeof *x.part),
                   .redo = calloc(cut->n_node, 1),
                   .again = calloc(n_step, 1),
                   .back = calloc(n_value, 1),
                   .copy = calloc(n_value, sizeof *x.copy),
                   .moved = calloc(n_step, sizeof *x.moved)};
    pst_status status = x.part && x.redo && x.again && x.back && x.copy && x.moved
                            ? rewrite(&x)
                            : pst_fail(PST_ENOMEM, "no memory to plan recomputation");
    free(x.part);
    free(x.redo);
    free(x.again);
    free(x.back);
    free(x.copy);
    free(x.moved);
    pst_chunk_steps_close(&x.steps);
    return status;
}
