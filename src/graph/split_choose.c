/* The first half of a split (split.h): how each operator is split, from the operators around it,
 * and which part of each parameter the rank has. */
#include "graph/split_parts.h"

/* --- what is split ---------------------------------------------------------------------------- */

static void find_readers(pst_splitter *b) {
    const pst_graph *g = b->whole;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        b->reader[t] = PST_NONE;
        b->producer[t] = g->tensor[t].producer;
    }
    uint32_t *reads = b->mapped; /* not needed yet */
    for (uint32_t t = 0; t < g->n_tensor; t++) reads[t] = 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            const uint32_t t = g->node[i].in[k];
            if (pst_adapt_role_of(g, g->node + i) == PST_ADAPT_DOWN) continue;
            b->reader[t] = reads[t]++ ? PST_NONE : i;
        }
}

static int used_once(const pst_splitter *b, const pst_node *d) {
    for (uint32_t i = 0; i < d->n_param; i++)
        if (b->whole->param[d->param[i]].n_use != 1) return 0;
    return 1;
}

/* A linear whose output only cross_entropy reads: its rows are tokens. */
static int is_output_layer(const pst_splitter *b, const pst_node *d) {
    const pst_node *reader = pst_split_is_op(d, "linear") ? pst_split_only_reader(b, d) : NULL;
    return reader && pst_split_is_op(reader, "cross_entropy") && !reader->attr.hits &&
           reader->in[0] == pst_split_result(b, d) && !pst_adapt_role_of(b->whole, d) &&
           !pst_split_is_pooled(b, d->out[0]) && pst_split_is_together(b, d, reader) &&
           d->attr.activation == PST_ACT_NONE &&
           (d->n_param == 1 || b->whole->param[d->param[1]].n_use == 1);
}

/* Whether all users of the parameter look tokens up in its rows, and are split over the same number
 * of ranks. */
static int is_vocabulary(const pst_splitter *b, uint32_t param) {
    uint32_t parts = 0;
    for (uint32_t i = 0; i < b->whole->n_node; i++) {
        const pst_node *d = pst_split_node_of(b, i);
        for (uint32_t k = 0; k < d->n_param; k++) {
            if (d->param[k] != param) continue;
            int looks_up = pst_split_is_op(d, "embedding");
            for (uint32_t j = 1; j < d->n_param; j++)
                looks_up &= b->whole->param[d->param[j]].n_use == 1;
            if (k != 0 || !(looks_up || is_output_layer(b, d)) ||
                (parts && parts != pst_split_parts_of(b, d)))
                return 0;
            parts = pst_split_parts_of(b, d);
        }
    }
    return !b->o.parts_of_node || parts > 1;
}

/* Whether an operator and its adapter, if it has one, are split over the same number of ranks. */
static int is_with_adapter(const pst_splitter *b, const pst_node *d) {
    const pst_node *next =
        b->reader[d->out[0]] == PST_NONE ? NULL : pst_split_node_of(b, b->reader[d->out[0]]);
    return !next || pst_adapt_role_of(b->whole, next) != PST_ADAPT_ADD ||
           pst_split_is_together(b, d, next);
}

static int can_be_row(const pst_splitter *b, const pst_node *d) {
    return pst_split_is_op(d, "linear") && d->attr.activation == PST_ACT_NONE && used_once(b, d) &&
           !is_output_layer(b, d) && is_with_adapter(b, d);
}

/* Whether an operator that reads several linears, whose outputs only it reads, can work on a part
 * of their columns: all of them, and the linear after it, can be split. */
static int joins_columns(const pst_splitter *b, const pst_node *join, uint32_t n) {
    const pst_node *behind = pst_split_only_reader(b, join);
    if (!behind || !can_be_row(b, behind)) return 0;
    for (uint32_t i = 0; i < n; i++) {
        const pst_node *linear = pst_split_linear_before(b, join->in[i]);
        if (!linear || linear->attr.activation != PST_ACT_NONE || !used_once(b, linear) ||
            pst_split_join_behind(b, linear) != join || !pst_split_is_together(b, linear, behind))
            return 0;
    }
    return 1;
}

/* Whether a linear that reads whole inputs can be split by columns: the operators after it must be
 * able to work on a part of the columns. */
static int can_be_column(const pst_splitter *b, const pst_node *d) {
    const pst_node *reader = pst_split_only_reader(b, d), *join = pst_split_join_behind(b, d);
    if (!used_once(b, d) || !reader) return 0;
    if (join) return joins_columns(b, join, join->attr.kv_heads ? 3 : 2);
    if (!pst_split_attends(reader))
        return can_be_row(b, reader) && pst_split_is_together(b, d, reader);
    const pst_node *behind = pst_split_only_reader(b, reader);
    return d->attr.activation == PST_ACT_NONE && behind && can_be_row(b, behind) &&
           pst_split_is_together(b, d, behind);
}

/* x A^T is a sum over the ranks if x is split, and B has the rows that the rank has of the weight.
 */
static pst_split split_of_adapter(const pst_splitter *b, const pst_node *d, pst_adapt_role role) {
    const pst_split base = b->split[pst_split_index_of(b, pst_adapt_base(b->whole, d))];
    if (role == PST_ADAPT_DOWN && base == PST_SPLIT_ROW) return base;
    return role == PST_ADAPT_UP && base != PST_SPLIT_ROW ? base : PST_SPLIT_PLAIN;
}

static pst_split split_of(const pst_splitter *b, const pst_node *d) {
    uint32_t before = d->n_in ? b->producer[d->in[0]] : PST_NONE;
    pst_split in = before == PST_NONE ? PST_SPLIT_PLAIN : b->split[before];
    const pst_adapt_role role = pst_adapt_role_of(b->whole, d);
    if (pst_split_is_tail(b, d))
        return in == PST_SPLIT_COLUMN || in == PST_SPLIT_SHARED || in == PST_SPLIT_VOCABULARY
                   ? in
                   : PST_SPLIT_PLAIN;
    if (role != PST_ADAPT_NONE) return split_of_adapter(b, d, role);
    if (pst_split_is_op(d, "embedding"))
        return is_vocabulary(b, d->param[0]) ? PST_SPLIT_VOCABULARY : PST_SPLIT_PLAIN;
    if (pst_split_attends(d) || pst_split_is_op(d, "rotary"))
        return in == PST_SPLIT_COLUMN || in == PST_SPLIT_HEADS || in == PST_SPLIT_SHARED
                   ? PST_SPLIT_HEADS
                   : PST_SPLIT_PLAIN;
    if (pst_split_is_op(d, "gated")) return in == PST_SPLIT_COLUMN ? in : PST_SPLIT_PLAIN;
    if (pst_split_is_op(d, "cross_entropy"))
        return in == PST_SPLIT_VOCABULARY && pst_split_linear_before(b, d->in[0])
                   ? PST_SPLIT_VOCABULARY
                   : PST_SPLIT_PLAIN;
    if (!pst_split_is_op(d, "linear")) return PST_SPLIT_PLAIN;
    if (in == PST_SPLIT_COLUMN || in == PST_SPLIT_HEADS) return PST_SPLIT_ROW;
    if (is_output_layer(b, d) && is_vocabulary(b, d->param[0])) return PST_SPLIT_VOCABULARY;
    if (!can_be_column(b, d)) return PST_SPLIT_PLAIN;
    const pst_node *join = pst_split_join_behind(b, d);
    const int shared =
        join && pst_split_shares_kv(b, join) && pst_split_linear_before(b, join->in[0]) != d;
    return shared ? PST_SPLIT_SHARED : PST_SPLIT_COLUMN;
}

/* --- parts of parameters ---------------------------------------------------------------------- */

pst_status pst_split_check_parts(const pst_splitter *b, uint32_t pieces, uint64_t n,
                                 const char *what, const char *name) {
    if (n >= pieces) return PST_OK;
    return pst_fail(PST_EINPUT, "%u %s are too many: %s has %lu %s", pieces,
                    b->o.blocks ? "blocks of tensor ranks (parallel.reproducible.tensor)"
                                : "tensor ranks",
                    name, (unsigned long)n, what);
}

/* This rank's part of n items of `size` elements each, in each of `blocks` blocks that follow each
 * other along dimension `dim`. */
static pst_slice slice_of(const pst_splitter *b, const pst_node *d, uint32_t dim, uint32_t blocks,
                          uint64_t n, uint64_t size) {
    pst_part own = pst_part_of(n, pst_split_parts_of(b, d), pst_split_part_of(b, d));
    pst_slice s = {
        .held = PST_HELD_PART, .whole = blocks * n * size, .dim = dim, .n_range = blocks};
    for (uint32_t k = 0; k < blocks; k++) {
        s.range[k].first = (k * n + own.first) * size;
        s.range[k].count = own.count * size;
    }
    return s;
}

static void keep_on_first_rank(pst_splitter *b, const pst_node *d, uint32_t param) {
    b->slice[param].held = pst_split_part_of(b, d) ? PST_HELD_ELSEWHERE : PST_HELD_ALONE;
}

/* A linear of queries, keys or values with fewer heads of keys: a rank has a part of the heads of
 * keys, with the heads that share them; or, if there are not enough, of the heads of queries. */
static pst_status slice_group(pst_splitter *b, const pst_node *d, const pst_node *attention) {
    const uint64_t units = pst_split_units(b, attention), n = b->whole->param[d->param[0]].dim[0];
    const int shares = pst_split_shares_kv(b, attention);
    PST_TRY(pst_split_check_parts(b, pst_split_pieces_of(b, d), units,
                                  shares ? "heads" : "heads of keys and values", attention->name));
    for (uint32_t k = 0; k < d->n_param; k++)
        b->slice[d->param[k]] = slice_of(b, d, 0, 1, units, n / units);
    return PST_OK;
}

/* A rank has a part of the output features, or of the heads in each of q, k and v. */
static pst_status slice_column(pst_splitter *b, const pst_node *d) {
    const pst_node *reader = pst_split_only_reader(b, d), *join = pst_split_join_behind(b, d);
    if (join && join->attr.kv_heads) return slice_group(b, d, join);
    uint64_t n = b->whole->param[d->param[0]].dim[0], heads = reader->attr.heads;
    int attends = pst_split_attends(reader);
    PST_TRY(attends
                ? pst_split_check_parts(b, pst_split_pieces_of(b, d), heads, "heads", reader->name)
                : pst_split_check_parts(b, pst_split_pieces_of(b, d), n, "features", d->name));
    for (uint32_t k = 0; k < d->n_param; k++)
        b->slice[d->param[k]] =
            attends ? slice_of(b, d, 0, 3, heads, n / 3 / heads) : slice_of(b, d, 0, 1, n, 1);
    return PST_OK;
}

static void slice_row(pst_splitter *b, const pst_node *d) {
    const pst_node *before = pst_split_node_of(b, b->producer[d->in[0]]);
    uint64_t n = b->whole->param[d->param[0]].dim[1],
             units = pst_split_attends(before) ? pst_split_units(b, before) : n;
    b->slice[d->param[0]] = slice_of(b, d, 1, 1, units, n / units);
    if (d->n_param > 1) keep_on_first_rank(b, d, d->param[1]);
}

static pst_status slice_vocabulary(pst_splitter *b, const pst_node *d) {
    const pst_param *table = b->whole->param + d->param[0];
    PST_TRY(
        pst_split_check_parts(b, pst_split_pieces_of(b, d), table->dim[0], "tokens", table->name));
    b->slice[d->param[0]] = slice_of(b, d, 0, 1, table->dim[0], 1);
    if (d->n_param == 1) return PST_OK;
    for (uint32_t k = 1; k < d->n_param && pst_split_is_op(d, "embedding"); k++)
        keep_on_first_rank(b, d, d->param[k]);
    if (!pst_split_is_op(d, "embedding"))
        b->slice[d->param[1]] = slice_of(b, d, 0, 1, table->dim[0], 1);
    return PST_OK;
}

/* The cache of a rank has the heads of keys and values that the rank computes. */
static void slice_cache(pst_splitter *b, const pst_node *d) {
    if (!pst_split_shares_kv(b, d))
        b->slice[d->param[0]] = slice_of(b, d, 1, 1, pst_split_units(b, d), 1);
}

pst_status pst_split_choose(pst_splitter *b) {
    find_readers(b);
    for (uint32_t i = 0; i < b->whole->n_node; i++) {
        const pst_node *d = pst_split_node_of(b, i);
        b->split[i] = split_of(b, d);
        if (b->split[i] == PST_SPLIT_COLUMN && d->n_param) PST_TRY(slice_column(b, d));
        if (b->split[i] == PST_SPLIT_ROW) slice_row(b, d);
        if (b->split[i] == PST_SPLIT_VOCABULARY && d->n_param) PST_TRY(slice_vocabulary(b, d));
        if (b->split[i] == PST_SPLIT_HEADS && d->op->caches) slice_cache(b, d);
        int mixes = pst_split_is_op(d, "embedding") || pst_split_attends(d) ||
                    pst_split_is_op(d, "rotary") || pst_split_is_op(d, "cross_entropy");
        if (d->op->image && pst_split_parts_of(b, d) > 1)
            return pst_fail(PST_EINPUT,
                            "parallel.tensor: %s works on images, which cannot be split over "
                            "tensor ranks; use pipeline stages and replicas (parallel.data)",
                            d->name);
        if (b->o.sequence && b->split[i] == PST_SPLIT_PLAIN && mixes &&
            !pst_split_is_pooled(b, d->in[0]))
            return pst_fail(PST_EINPUT,
                            "parallel.sequence cannot split the sequence: operator %s is not split "
                            "over tensor ranks",
                            d->name);
    }
    return PST_OK;
}
