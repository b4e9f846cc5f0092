/* See split.h. First decides on the whole graph how each operator and parameter is split
 * (split_choose.c); then builds the rank's graph, operator by operator. */
#include "graph/blocks.h"
#include "graph/split_parts.h"
#include <stdlib.h>

/* --- the rank's graph ------------------------------------------------------------------------- */

/* An operator whose W sums over positions, which tensor ranks may split, in blocks. */
static int sums_positions(const pst_splitter *b, const pst_node *d) {
    return b->o.blocks && b->split[pst_split_index_of(b, d)] == PST_SPLIT_PLAIN && d->n_param &&
           (pst_split_is_op(d, "layer_norm") || pst_split_is_op(d, "rms_norm") ||
            pst_split_is_op(d, "linear")) &&
           b->whole->tensor[d->in[0]].n_dim == 3 && !pst_split_is_pooled(b, d->in[0]);
}

static pst_blocks blocks_of_positions(const pst_splitter *b, const pst_node *d) {
    uint32_t n = b->o.blocks, own = b->o.sequence ? n / b->o.parts : n;
    uint32_t first = b->o.sequence ? b->o.part * own : 0;
    return (pst_blocks){PST_BLOCKS_ROWS, n, first, own, 1, b->whole->tensor[d->in[0]].dim[1]};
}

/* Blocks of the dimension that `d` splits over the ranks. */
static pst_blocks blocks_of_split(const pst_splitter *b, const pst_node *d, pst_blocks_of of,
                                  uint64_t total) {
    uint32_t n = b->o.blocks, own = n / b->o.parts;
    if (!n) return (pst_blocks){PST_BLOCKS_NONE, 0, 0, 0, 0, 0};
    return (pst_blocks){of, n, pst_split_part_of(b, d) * own, own, 1, total};
}

/* One rank alone has all parameters, whole. */
static void hold_blocks(pst_splitter *b) {
    for (uint32_t i = 0; b->o.parts == 1 && i < b->whole->n_param; i++)
        b->slice[i] = (pst_slice){.held = PST_HELD_WHOLE};
    for (uint32_t i = 0; i < b->whole->n_node; i++) {
        const pst_node *d = pst_split_node_of(b, i);
        for (uint32_t k = 0; sums_positions(b, d) && k < d->n_param; k++)
            b->slice[d->param[k]].blocks = blocks_of_positions(b, d).own;
    }
}

/* Each rank computes the whole gradient of a parameter that only pooled operators use. */
static int is_of_pooled(const pst_splitter *b, uint32_t param) {
    for (uint32_t i = 0; i < b->whole->n_node; i++)
        for (uint32_t k = 0; k < b->whole->node[i].n_param; k++)
            if (b->whole->node[i].param[k] == param)
                return pst_split_is_pooled(b, b->whole->node[i].in[0]);
    return 0;
}

static pst_status add_params(pst_splitter *b) {
    hold_blocks(b);
    for (uint32_t i = 0; i < b->whole->n_param; i++) {
        pst_param p = b->whole->param[i];
        uint32_t index;
        const int along = b->o.sequence && b->o.parts > 1 && b->slice[i].held == PST_HELD_WHOLE &&
                          !is_of_pooled(b, i);
        if (b->o.blocks && along && !b->slice[i].blocks && !p.frozen)
            return pst_fail(PST_EINPUT,
                            "parallel.reproducible.tensor does not support parallel.sequence with "
                            "this model: gradients of %s are not summed in blocks of positions",
                            p.name);
        p.slice = b->slice[i];
        p.slice.partial = !p.frozen && (p.slice.blocks || along);
        if (p.slice.held == PST_HELD_PART)
            p.dim[p.slice.dim] = p.slice.n_range * p.slice.range[0].count;
        PST_TRY(pst_graph_param(b->g, &p, &index));
    }
    return PST_OK;
}

static pst_status add_data(pst_splitter *b) {
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
static pst_status add_extra(pst_splitter *b, pst_new_node n, const char *suffix, uint32_t *out) {
    char text[2 * PST_NAME_MAX]; /* too long a name is found out, not cut */
    snprintf(text, sizeof text, "%s.%s", n.name, suffix);
    n.name = text;
    return pst_graph_add(b->g, &n, out);
}

static pst_attr group(const pst_splitter *b, const pst_node *d, uint32_t tensor) {
    uint64_t length = b->whole->tensor[tensor].n_dim > 1 ? b->whole->tensor[tensor].dim[1] : 1;
    return (pst_attr){.parts = pst_split_parts_of(b, d),
                      .part = pst_split_part_of(b, d),
                      .length = (uint32_t)length,
                      .blocks = {.n = b->o.blocks}};
}

/* The input of a column-split operator: the whole tensor, whose gradient is a sum over the ranks.
 * Added once per tensor, and again after operators that are split over another number of ranks.
 * With blocks, each reader has its own, because the sum over readers is not part of a tree. */
static pst_status add_column_input(pst_splitter *b, const pst_node *d, uint32_t tensor,
                                   uint32_t *in) {
    if (!b->o.parts_of_node && b->o.parts == 1) return PST_OK;
    pst_attr attr = group(b, d, tensor);
    const char *op = pst_split_is_along_sequence(b, tensor) ? "tensor_gather" : "tensor_copy";
    int first = b->column_input[tensor] == PST_NONE;
    const char *name = first ? pst_split_node_of(b, b->producer[tensor])->name : d->name;
    if (first || b->o.blocks ||
        !pst_split_is_together(b, pst_split_node_of(b, b->column_reader[tensor]), d)) {
        PST_TRY(add_extra(b, (pst_new_node){op, name, &attr, &b->mapped[tensor], 1, NULL, 0},
                          first ? "copy" : "enter", &b->column_input[tensor]));
        b->column_reader[tensor] = pst_split_index_of(b, d);
    }
    *in = b->column_input[tensor];
    return PST_OK;
}

/* After a row-split operator, whose output on each rank is a summand. */
static pst_status add_reduction(pst_splitter *b, const pst_node *d, uint32_t summand) {
    pst_attr attr = group(b, d, d->out[0]);
    if (!b->o.parts_of_node && b->o.parts == 1) {
        b->mapped[d->out[0]] = summand;
        return PST_OK;
    }
    return add_extra(
        b,
        (pst_new_node){pst_split_is_along_sequence(b, d->out[0]) ? "tensor_scatter" : "tensor_sum",
                       d->name, &attr, &summand, 1, NULL, 0},
        "sum", &b->mapped[d->out[0]]);
}

/* The sums of a linear that ranks split: by rows in F, by columns in B, over positions in W. */
static void set_blocks(const pst_splitter *b, const pst_node *d, pst_split how, pst_attr *attr) {
    const uint64_t *dim = b->whole->param[d->param[0]].dim;
    const pst_node *before =
                       how == PST_SPLIT_ROW ? pst_split_node_of(b, b->producer[d->in[0]]) : NULL,
                   *reader = how == PST_SPLIT_COLUMN ? pst_split_only_reader(b, d) : NULL;
    if (reader && pst_split_join_behind(b, d)) reader = pst_split_join_behind(b, d);
    int attends = (before && pst_split_attends(before)) || (reader && pst_split_attends(reader));
    if (how == PST_SPLIT_PLAIN && sums_positions(b, d)) attr->blocks = blocks_of_positions(b, d);
    if (how == PST_SPLIT_ROW) {
        attr->blocks =
            blocks_of_split(b, d, PST_BLOCKS_IN, attends ? pst_split_units(b, before) : dim[1]);
        attr->wide = b->o.parts > 1 && b->g->dtype != PST_F32;
    } else if (how != PST_SPLIT_PLAIN) {
        attr->blocks =
            blocks_of_split(b, d, PST_BLOCKS_OUT, attends ? pst_split_units(b, reader) : dim[0]);
        if (attends && !reader->attr.kv_heads) attr->blocks.ranges = 3;
    }
}

/* The gradient of what all ranks repeat is a sum over the ranks: that of the last operator of the
 * linear, its adapter and its activation. */
static pst_status add_shared(pst_splitter *b, const pst_node *d) {
    if (pst_split_result(b, d) != d->out[0]) return PST_OK;
    return add_column_input(b, pst_split_only_reader(b, d), d->out[0], &b->mapped[d->out[0]]);
}

/* Whether the first tensor rank trains a parameter of which this one has nothing. */
static int is_trained_elsewhere(const pst_splitter *b, const pst_node *d, uint32_t n_param) {
    for (uint32_t k = n_param; k < d->n_param; k++)
        if (!b->whole->param[d->param[k]].frozen) return 1;
    return 0;
}

static pst_status add_linear(pst_splitter *b, const pst_node *d, pst_split how) {
    uint32_t in = b->mapped[d->in[0]], out, n_param = d->n_param;
    pst_attr attr = d->attr;
    if (how == PST_SPLIT_COLUMN || how == PST_SPLIT_VOCABULARY)
        PST_TRY(add_column_input(b, d, d->in[0], &in));
    if (how == PST_SPLIT_COLUMN || how == PST_SPLIT_VOCABULARY)
        attr.features = 0; /* as many as the rank's weight has */
    if (how == PST_SPLIT_ROW && pst_split_part_of(b, d)) n_param = 1;
    attr.trained_elsewhere = is_trained_elsewhere(b, d, n_param);
    if (b->o.blocks) set_blocks(b, d, how, &attr);
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){"linear", d->name, &attr, &in, 1, d->param, n_param}, &out));
    b->mapped[d->out[0]] = out;
    if (how == PST_SPLIT_PLAIN) b->g->tensor[out].role = b->whole->tensor[d->out[0]].role;
    if (how == PST_SPLIT_SHARED) return add_shared(b, d);
    return how == PST_SPLIT_ROW ? add_reduction(b, d, out) : PST_OK;
}

static void set_tokens(const pst_splitter *b, const pst_node *d, uint64_t tokens, pst_attr *attr) {
    attr->first = pst_part_of(tokens, pst_split_parts_of(b, d), pst_split_part_of(b, d)).first;
    attr->total = tokens;
}

static pst_status add_embedding(pst_splitter *b, const pst_node *d) {
    uint32_t in[2], out;
    pst_attr attr = d->attr;
    set_tokens(b, d, b->whole->param[d->param[0]].dim[0], &attr);
    for (uint32_t i = 0; i < d->n_in; i++) in[i] = b->mapped[d->in[i]];
    const uint32_t n_param = pst_split_part_of(b, d) ? 1 : d->n_param;
    attr.trained_elsewhere = is_trained_elsewhere(b, d, n_param);
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){"embedding", d->name, &attr, in, d->n_in, d->param, n_param}, &out));
    return add_reduction(b, d, out);
}

static pst_status add_loss(pst_splitter *b, const pst_node *d) {
    uint32_t in[] = {b->mapped[d->in[0]], b->mapped[d->in[1]], 0}, part;
    pst_attr attr = group(b, d, d->in[0]);
    attr.smoothing = d->attr.smoothing;
    attr.z_loss = d->attr.z_loss;
    set_tokens(b, d, b->whole->tensor[d->in[0]].dim[2], &attr);
    attr.blocks = blocks_of_split(b, d, PST_BLOCKS_OUT, attr.total);
    PST_TRY(add_extra(b, (pst_new_node){"vocabulary_part", d->name, &attr, in, 2, NULL, 0}, "part",
                      &part));
    in[2] = part;
    if (attr.parts > 1)
        PST_TRY(add_extra(b, (pst_new_node){"tensor_stack", d->name, &attr, &part, 1, NULL, 0},
                          "stack", &in[2]));
    return pst_graph_add(b->g, &(pst_new_node){"vocabulary_loss", d->name, &attr, in, 3, NULL, 0},
                         &b->mapped[d->out[0]]);
}

/* attention, rotary: this rank's heads. */
static void set_heads(const pst_splitter *b, const pst_node *d, pst_attr *attr) {
    const pst_node *attention = d;
    while (pst_split_is_op(attention, "rotary")) attention = pst_split_only_reader(b, attention);
    const uint64_t units = pst_split_units(b, attention);
    const pst_part own = pst_part_of(units, pst_split_parts_of(b, d), pst_split_part_of(b, d));
    const int shares = pst_split_shares_kv(b, attention),
              keys = attention != d && attr->heads == attention->attr.kv_heads &&
                     pst_split_linear_before(b, d->out[0]) !=
                         pst_split_linear_before(b, attention->in[0]);
    if (shares && keys) return; /* all */
    attr->heads = (uint32_t)(attr->heads / units * own.count);
    if (attention != d) return;
    if (attr->rate > 0) attr->first = d->attr.heads / units * own.first;
    if (!attr->kv_heads) return;
    if (!shares) {
        attr->kv_heads = (uint32_t)own.count;
        return;
    }
    attr->first = own.first;
    attr->total = units;
}

/* Along the sequence, each rank gathers the rows that it has, and zeros in place of the others. */
static pst_status add_gather_rows(pst_splitter *b, const pst_node *d) {
    const uint64_t positions = b->whole->tensor[d->in[0]].dim[1];
    pst_attr attr = d->attr;
    uint32_t in[] = {b->mapped[d->in[0]], d->n_in > 1 ? b->mapped[d->in[1]] : 0}, out;
    attr.first = pst_part_of(positions, pst_split_parts_of(b, d), pst_split_part_of(b, d)).first;
    attr.total = positions;
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){"gather_rows", d->name, &attr, in, d->n_in, NULL, 0}, &out));
    return add_reduction(b, d, out);
}

static pst_status add_plain(pst_splitter *b, const pst_node *d, pst_split how) {
    uint32_t in[PST_MAX_IN], out;
    pst_attr attr = d->attr;
    const pst_tensor *x = b->whole->tensor + d->in[0];
    for (uint32_t i = 0; i < d->n_in; i++) in[i] = b->mapped[d->in[i]];
    if (how == PST_SPLIT_HEADS) set_heads(b, d, &attr);
    if (how != PST_SPLIT_HEADS && !pst_split_is_op(d, "linear") && sums_positions(b, d))
        attr.blocks = blocks_of_positions(b, d);
    if (pst_split_is_op(d, "dropout") && pst_split_is_along_sequence(b, d->in[0]))
        attr.first =
            pst_part_of(x->dim[1], pst_split_parts_of(b, d), pst_split_part_of(b, d)).first *
            pst_tensor_columns(x);
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){d->op->name, d->name, &attr, in, d->n_in, d->param, d->n_param},
        &out));
    for (uint32_t i = 0; i < d->n_out; i++)
        b->mapped[d->out[i]] = b->g->node[b->g->n_node - 1].out[i];
    b->g->tensor[out].role = b->whole->tensor[d->out[0]].role;
    return how == PST_SPLIT_SHARED ? add_shared(b, d) : PST_OK;
}

static pst_status add_node(pst_splitter *b, uint32_t i) {
    const pst_node *d = pst_split_node_of(b, i);
    if (pst_split_is_op(d, "linear")) return add_linear(b, d, b->split[i]);
    if (b->split[i] == PST_SPLIT_VOCABULARY && pst_split_is_op(d, "embedding"))
        return add_embedding(b, d);
    if (b->split[i] == PST_SPLIT_VOCABULARY && pst_split_is_op(d, "cross_entropy"))
        return add_loss(b, d);
    if (pst_split_is_op(d, "gather_rows") && pst_split_is_along_sequence(b, d->in[0]))
        return add_gather_rows(b, d);
    return add_plain(b, d, b->split[i]);
}

static pst_status build(pst_splitter *b) {
    const pst_graph *whole = b->whole;
    PST_TRY(pst_split_choose(b));
    for (uint32_t t = 0; (b->o.sequence || b->o.blocks) && t < whole->n_tensor; t++)
        if (whole->tensor[t].role != PST_TENSOR_DATA && whole->tensor[t].n_dim == 3 &&
            !pst_split_is_pooled(b, t))
            PST_TRY(pst_split_check_parts(b, b->o.blocks ? b->o.blocks : b->o.parts,
                                          whole->tensor[t].dim[1], "positions",
                                          whole->tensor[t].name));
    PST_TRY(pst_graph_open(whole->name, whole->micro_batch, &b->g));
    pst_graph_compute(b->g, pst_graph_factors(whole));
    b->g->blocks = b->o.blocks;
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
    pst_splitter b = {.whole = whole, .o = *options};
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
