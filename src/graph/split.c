/* See split.h. First decides on the whole graph how each operator and parameter is split; then
 * builds the rank's graph, operator by operator. */
#include "graph/split.h"
#include "graph/op_list.h"
#include <stdlib.h>
#include <string.h>

/* How an operator is split. */
typedef enum { PLAIN, COLUMN, ROW, HEADS, VOCABULARY } split;

typedef struct {
    const pst_graph *whole;
    pst_split_options o;
    pst_graph *g;
    split *split; /* [n_node] of the whole */
    /* [n_tensor] the only operator that reads it, PST_NONE: there are none or several */
    uint32_t *reader;
    uint32_t *producer; /* [n_tensor] the operator that makes it, PST_NONE: data */
    pst_slice *slice;   /* [n_param] */
    uint32_t *mapped;   /* [n_tensor] the tensor of the rank's graph that stands for it */
    /* [n_tensor] its tensor_copy or tensor_gather, which column-split operators read; PST_NONE: not
     * added yet */
    uint32_t *column_input;
    uint32_t *column_reader; /* [n_tensor] the operator for which that was added */
} builder;

static const pst_node *node_of(const builder *b, uint32_t i) { return b->whole->node + i; }
static int is_op(const pst_node *d, const char *name) { return strcmp(d->op->name, name) == 0; }
static uint32_t index_of(const builder *b, const pst_node *d) {
    return (uint32_t)(d - b->whole->node);
}

/* Over how many ranks an operator is split, and which part is this rank's. */
static uint32_t parts_of(const builder *b, const pst_node *d) {
    return b->o.parts_of_node ? b->o.parts_of_node[index_of(b, d)] : b->o.parts;
}
static uint32_t part_of(const builder *b, const pst_node *d) { return b->o.part % parts_of(b, d); }

/* Whether a part of a tensor can be passed from operator d to a later one: all from d on are split
 * over the same number of ranks. */
static int is_together(const builder *b, const pst_node *d, const pst_node *with) {
    uint32_t i = index_of(b, d), end = index_of(b, with);
    if (b->o.parts_of_node && parts_of(b, d) < 2) return 0;
    for (; i < end && b->o.parts_of_node; i++)
        if (b->o.parts_of_node[i] != b->o.parts_of_node[end]) return 0;
    return 1;
}

/* --- what is split ---------------------------------------------------------------------------- */

static void find_readers(builder *b) {
    const pst_graph *g = b->whole;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        b->reader[t] = PST_NONE;
        b->producer[t] = g->tensor[t].producer;
    }
    uint32_t *reads = b->mapped; /* not needed yet */
    for (uint32_t t = 0; t < g->n_tensor; t++) reads[t] = 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++)
            b->reader[g->node[i].in[k]] = reads[g->node[i].in[k]]++ ? PST_NONE : i;
}

static const pst_node *only_reader(const builder *b, const pst_node *d) {
    uint32_t reader = b->reader[d->out[0]];
    return reader == PST_NONE ? NULL : node_of(b, reader);
}

static int used_once(const builder *b, const pst_node *d) {
    for (uint32_t i = 0; i < d->n_param; i++)
        if (b->whole->param[d->param[i]].n_use != 1) return 0;
    return 1;
}

/* A linear whose output only cross_entropy reads: its rows are tokens. */
static int is_output_layer(const builder *b, const pst_node *d) {
    const pst_node *reader = is_op(d, "linear") ? only_reader(b, d) : NULL;
    return reader && is_op(reader, "cross_entropy") && reader->in[0] == d->out[0] &&
           is_together(b, d, reader) && d->attr.activation == PST_ACT_NONE &&
           (d->n_param == 1 || b->whole->param[d->param[1]].n_use == 1);
}

/* Whether all users of the parameter look tokens up in its rows, and are split over the same number
 * of ranks. */
static int is_vocabulary(const builder *b, uint32_t param) {
    uint32_t parts = 0;
    for (uint32_t i = 0; i < b->whole->n_node; i++) {
        const pst_node *d = node_of(b, i);
        for (uint32_t k = 0; k < d->n_param; k++) {
            if (d->param[k] != param) continue;
            int looks_up = is_op(d, "embedding") &&
                           (d->n_param == 1 || b->whole->param[d->param[1]].n_use == 1);
            if (k != 0 || !(looks_up || is_output_layer(b, d)) ||
                (parts && parts != parts_of(b, d)))
                return 0;
            parts = parts_of(b, d);
        }
    }
    return !b->o.parts_of_node || parts > 1;
}

static int can_be_row(const builder *b, const pst_node *d) {
    return is_op(d, "linear") && d->attr.activation == PST_ACT_NONE && used_once(b, d) &&
           !is_output_layer(b, d);
}

/* Whether a linear that reads whole inputs can be split by columns: the operators after it must be
 * able to work on a part of the columns. */
static int can_be_column(const builder *b, const pst_node *d) {
    const pst_node *reader = only_reader(b, d);
    if (!used_once(b, d) || !reader) return 0;
    if (!is_op(reader, "attention")) return can_be_row(b, reader) && is_together(b, d, reader);
    const pst_node *behind = only_reader(b, reader);
    return d->attr.activation == PST_ACT_NONE && behind && can_be_row(b, behind) &&
           is_together(b, d, behind);
}

static split split_of(const builder *b, const pst_node *d) {
    uint32_t before = d->n_in ? b->producer[d->in[0]] : PST_NONE;
    split in = before == PST_NONE ? PLAIN : b->split[before];
    if (is_op(d, "embedding")) return is_vocabulary(b, d->param[0]) ? VOCABULARY : PLAIN;
    if (is_op(d, "attention")) return in == COLUMN ? HEADS : PLAIN;
    if (is_op(d, "cross_entropy"))
        return in == VOCABULARY && is_op(node_of(b, before), "linear") ? VOCABULARY : PLAIN;
    if (!is_op(d, "linear")) return PLAIN;
    if (in == COLUMN || in == HEADS) return ROW;
    if (is_output_layer(b, d) && is_vocabulary(b, d->param[0])) return VOCABULARY;
    return can_be_column(b, d) ? COLUMN : PLAIN;
}

/* --- parts of parameters ---------------------------------------------------------------------- */

static pst_status check_parts(uint32_t parts, uint64_t n, const char *what, const char *name) {
    if (n >= parts) return PST_OK;
    return pst_fail(PST_EINPUT, "%u tensor ranks are too many: %s has %lu %s", parts, name,
                    (unsigned long)n, what);
}

/* This rank's part of n items of `size` elements each, in each of `blocks` blocks that follow each
 * other along dimension `dim`. */
static pst_slice slice_of(const builder *b, const pst_node *d, uint32_t dim, uint32_t blocks,
                          uint64_t n, uint64_t size) {
    pst_part own = pst_part_of(n, parts_of(b, d), part_of(b, d));
    pst_slice s = {
        .held = PST_HELD_PART, .whole = blocks * n * size, .dim = dim, .n_range = blocks};
    for (uint32_t k = 0; k < blocks; k++) {
        s.range[k].first = (k * n + own.first) * size;
        s.range[k].count = own.count * size;
    }
    return s;
}

static void keep_on_first_rank(builder *b, const pst_node *d, uint32_t param) {
    b->slice[param].held = part_of(b, d) ? PST_HELD_ELSEWHERE : PST_HELD_ALONE;
}

/* A rank has a part of the output features, or of the heads in each of q, k and v. */
static pst_status slice_column(builder *b, const pst_node *d) {
    const pst_node *reader = only_reader(b, d);
    uint64_t n = b->whole->param[d->param[0]].dim[0], heads = reader->attr.heads;
    int attends = is_op(reader, "attention");
    PST_TRY(attends ? check_parts(parts_of(b, d), heads, "heads", reader->name)
                    : check_parts(parts_of(b, d), n, "features", d->name));
    for (uint32_t k = 0; k < d->n_param; k++)
        b->slice[d->param[k]] =
            attends ? slice_of(b, d, 0, 3, heads, n / 3 / heads) : slice_of(b, d, 0, 1, n, 1);
    return PST_OK;
}

static void slice_row(builder *b, const pst_node *d) {
    const pst_node *before = node_of(b, b->producer[d->in[0]]);
    uint64_t n = b->whole->param[d->param[0]].dim[1], heads = before->attr.heads;
    b->slice[d->param[0]] = is_op(before, "attention") ? slice_of(b, d, 1, 1, heads, n / heads)
                                                       : slice_of(b, d, 1, 1, n, 1);
    if (d->n_param > 1) keep_on_first_rank(b, d, d->param[1]);
}

static pst_status slice_vocabulary(builder *b, const pst_node *d) {
    const pst_param *table = b->whole->param + d->param[0];
    PST_TRY(check_parts(parts_of(b, d), table->dim[0], "tokens", table->name));
    b->slice[d->param[0]] = slice_of(b, d, 0, 1, table->dim[0], 1);
    if (d->n_param == 1) return PST_OK;
    if (is_op(d, "embedding")) keep_on_first_rank(b, d, d->param[1]);
    else b->slice[d->param[1]] = slice_of(b, d, 0, 1, table->dim[0], 1);
    return PST_OK;
}

static pst_status decide_splits(builder *b) {
    find_readers(b);
    for (uint32_t i = 0; i < b->whole->n_node; i++) {
        const pst_node *d = node_of(b, i);
        b->split[i] = split_of(b, d);
        if (b->split[i] == COLUMN) PST_TRY(slice_column(b, d));
        if (b->split[i] == ROW) slice_row(b, d);
        if (b->split[i] == VOCABULARY && d->n_param) PST_TRY(slice_vocabulary(b, d));
        int mixes = is_op(d, "embedding") || is_op(d, "attention") || is_op(d, "cross_entropy");
        if (d->op->image && parts_of(b, d) > 1)
            return pst_fail(PST_EINPUT,
                            "parallel.tensor: %s works on images, which cannot be split over "
                            "tensor ranks; use pipeline stages and replicas (parallel.data)",
                            d->name);
        if (b->o.sequence && b->split[i] == PLAIN && mixes)
            return pst_fail(PST_EINPUT,
                            "parallel.sequence cannot split the sequence: operator %s is not split "
                            "over tensor ranks",
                            d->name);
    }
    return PST_OK;
}

/* --- the rank's graph ------------------------------------------------------------------------- */

static pst_status add_params(builder *b) {
    for (uint32_t i = 0; i < b->whole->n_param; i++) {
        pst_param p = b->whole->param[i];
        uint32_t index;
        p.slice = b->slice[i];
        p.slice.partial = b->o.sequence && p.slice.held == PST_HELD_WHOLE;
        if (p.slice.held == PST_HELD_PART)
            p.dim[p.slice.dim] = p.slice.n_range * p.slice.range[0].count;
        PST_TRY(pst_graph_param(b->g, &p, &index));
    }
    return PST_OK;
}

static pst_status add_data(builder *b) {
    for (uint32_t t = 0; t < b->whole->n_tensor; t++) {
        const pst_tensor *from = b->whole->tensor + t;
        b->column_input[t] = PST_NONE;
        if (from->role == PST_TENSOR_DATA)
            PST_TRY(pst_graph_data(b->g, from->name, from->n_dim, from->dim, &b->mapped[t]));
    }
    return PST_OK;
}

/* Adds an operator that the whole graph does not have, such as an exchange, named after one that it
 * has. */
static pst_status add_extra(builder *b, pst_new_node n, const char *suffix, uint32_t *out) {
    char text[2 * PST_NAME_MAX]; /* too long a name is found out, not cut */
    snprintf(text, sizeof text, "%s.%s", n.name, suffix);
    n.name = text;
    return pst_graph_add(b->g, &n, out);
}

static pst_attr group(const builder *b, const pst_node *d, uint32_t tensor) {
    uint64_t length = b->whole->tensor[tensor].n_dim > 1 ? b->whole->tensor[tensor].dim[1] : 1;
    return (pst_attr){.parts = parts_of(b, d), .part = part_of(b, d), .length = (uint32_t)length};
}

/* The input of a column-split operator: the whole tensor, whose gradient is a sum over the ranks.
 * Added once per tensor, and again after operators that are split over another number of ranks. */
static pst_status add_column_input(builder *b, const pst_node *d, uint32_t tensor, uint32_t *in) {
    pst_attr attr = group(b, d, tensor);
    const char *op = b->o.sequence ? "tensor_gather" : "tensor_copy";
    int first = b->column_input[tensor] == PST_NONE;
    const char *name = first ? node_of(b, b->producer[tensor])->name : d->name;
    if (first || !is_together(b, node_of(b, b->column_reader[tensor]), d)) {
        PST_TRY(add_extra(b, (pst_new_node){op, name, &attr, &b->mapped[tensor], 1, NULL, 0},
                          first ? "copy" : "enter", &b->column_input[tensor]));
        b->column_reader[tensor] = index_of(b, d);
    }
    *in = b->column_input[tensor];
    return PST_OK;
}

/* After a row-split operator, whose output on each rank is a summand. */
static pst_status add_reduction(builder *b, const pst_node *d, uint32_t summand) {
    pst_attr attr = group(b, d, d->out[0]);
    return add_extra(b,
                     (pst_new_node){b->o.sequence ? "tensor_scatter" : "tensor_sum", d->name, &attr,
                                    &summand, 1, NULL, 0},
                     "sum", &b->mapped[d->out[0]]);
}

static pst_status add_linear(builder *b, const pst_node *d, split how) {
    uint32_t in = b->mapped[d->in[0]], out, n_param = d->n_param;
    pst_attr attr = d->attr;
    if (how == COLUMN || how == VOCABULARY) PST_TRY(add_column_input(b, d, d->in[0], &in));
    if (how == COLUMN || how == VOCABULARY)
        attr.features = 0; /* as many as the rank's weight has */
    if (how == ROW && part_of(b, d)) n_param = 1;
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){"linear", d->name, &attr, &in, 1, d->param, n_param}, &out));
    b->mapped[d->out[0]] = out;
    return how == ROW ? add_reduction(b, d, out) : PST_OK;
}

static void set_tokens(const builder *b, const pst_node *d, uint64_t tokens, pst_attr *attr) {
    attr->first = pst_part_of(tokens, parts_of(b, d), part_of(b, d)).first;
    attr->total = tokens;
}

static pst_status add_embedding(builder *b, const pst_node *d) {
    uint32_t out;
    pst_attr attr = d->attr;
    set_tokens(b, d, b->whole->param[d->param[0]].dim[0], &attr);
    PST_TRY(pst_graph_add(b->g,
                          &(pst_new_node){"embedding", d->name, &attr, &b->mapped[d->in[0]], 1,
                                          d->param, part_of(b, d) ? 1 : d->n_param},
                          &out));
    return add_reduction(b, d, out);
}

static pst_status add_loss(builder *b, const pst_node *d) {
    uint32_t in[] = {b->mapped[d->in[0]], b->mapped[d->in[1]], 0}, part;
    pst_attr attr = group(b, d, d->in[0]);
    set_tokens(b, d, b->whole->tensor[d->in[0]].dim[2], &attr);
    PST_TRY(add_extra(b, (pst_new_node){"vocabulary_part", d->name, &attr, in, 2, NULL, 0}, "part",
                      &part));
    PST_TRY(add_extra(b, (pst_new_node){"tensor_stack", d->name, &attr, &part, 1, NULL, 0}, "stack",
                      &in[2]));
    return pst_graph_add(b->g, &(pst_new_node){"vocabulary_loss", d->name, &attr, in, 3, NULL, 0},
                         &b->mapped[d->out[0]]);
}

static pst_status add_plain(builder *b, const pst_node *d, split how) {
    uint32_t in[PST_MAX_IN], out;
    pst_attr attr = d->attr;
    const pst_tensor *x = b->whole->tensor + d->in[0];
    for (uint32_t i = 0; i < d->n_in; i++) in[i] = b->mapped[d->in[i]];
    if (how == HEADS)
        attr.heads = (uint32_t)pst_part_of(attr.heads, parts_of(b, d), part_of(b, d)).count;
    if (is_op(d, "dropout") && b->o.sequence)
        attr.first =
            pst_part_of(x->dim[1], parts_of(b, d), part_of(b, d)).first * pst_tensor_columns(x);
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){d->op->name, d->name, &attr, in, d->n_in, d->param, d->n_param},
        &out));
    for (uint32_t i = 0; i < d->n_out; i++)
        b->mapped[d->out[i]] = b->g->node[b->g->n_node - 1].out[i];
    b->g->tensor[out].role = b->whole->tensor[d->out[0]].role;
    return PST_OK;
}

static pst_status add_node(builder *b, uint32_t i) {
    const pst_node *d = node_of(b, i);
    if (is_op(d, "linear")) return add_linear(b, d, b->split[i]);
    if (b->split[i] == VOCABULARY)
        return is_op(d, "embedding") ? add_embedding(b, d) : add_loss(b, d);
    return add_plain(b, d, b->split[i]);
}

static pst_status build(builder *b) {
    const pst_graph *whole = b->whole;
    PST_TRY(decide_splits(b));
    for (uint32_t t = 0; b->o.sequence && t < whole->n_tensor; t++)
        if (whole->tensor[t].role != PST_TENSOR_DATA && whole->tensor[t].n_dim == 3)
            PST_TRY(check_parts(b->o.parts, whole->tensor[t].dim[1], "positions",
                                whole->tensor[t].name));
    PST_TRY(pst_graph_open(whole->name, whole->micro_batch, &b->g));
    pst_graph_compute(b->g, pst_graph_factors(whole));
    PST_TRY(add_params(b));
    PST_TRY(add_data(b));
    for (uint32_t i = 0, n = 0; i < whole->n_node; i++) {
        PST_TRY(add_node(b, i));
        for (; b->o.origin && n < b->g->n_node; n++) b->o.origin[n] = i;
    }
    return PST_OK;
}

pst_status pst_graph_split(const pst_graph *whole, const pst_split_options *options,
                           pst_graph **part) {
    builder b = {.whole = whole, .o = *options};
    size_t n = whole->n_tensor + (size_t)1;
    b.split = calloc(whole->n_node + (size_t)1, sizeof *b.split);
    b.slice = calloc(whole->n_param + (size_t)1, sizeof *b.slice);
    b.reader = malloc(n * sizeof *b.reader);
    b.producer = malloc(n * sizeof *b.producer);
    b.mapped = malloc(n * sizeof *b.mapped);
    b.column_input = malloc(n * sizeof *b.column_input);
    b.column_reader = malloc(n * sizeof *b.column_reader);
    pst_status status = b.split && b.slice && b.reader && b.producer && b.mapped &&
                                b.column_input && b.column_reader
                            ? build(&b)
                            : pst_fail(PST_ENOMEM, "no memory to split graph %s", whole->name);
    free(b.split);
    free(b.slice);
    free(b.reader);
    free(b.producer);
    free(b.mapped);
    free(b.column_input);
    free(b.column_reader);
    if (status == PST_OK) *part = b.g;
    else pst_graph_close(b.g);
    return status;
}
