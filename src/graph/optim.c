/* The table of optimizer rules. */
#include "graph/optim.h"
#include "base/rng.h"
#include "graph/op.h"
#include <stddef.h>
#include <string.h>

#define ROWS(type)                                                                                 \
    {                                                                                              \
        {PST_OPTIM_ADAMW, "adamw", 2, {"m", "v"}, 0, type},                                        \
            {PST_OPTIM_SGD, "sgd", 1, {"momentum", NULL}, 0, type},                                \
            {PST_OPTIM_ADAM, "adam", 2, {"m", "v"}, 0, type},                                      \
            {PST_OPTIM_LAMB, "lamb", 2, {"m", "v"}, 1, type}, {                                    \
            PST_OPTIM_MUON, "muon", 2, {"m", "v"}, 1, type                                         \
        }                                                                                          \
    }
static const pst_optim_row rows[PST_OPTIM_COUNT] = ROWS(PST_F32);
static const pst_optim_row rows_bf16[PST_OPTIM_COUNT] = ROWS(PST_BF16);

const pst_optim_row *pst_optim_rows(void) { return rows; }

const pst_optim_row *pst_optim_find(const char *name) {
    for (int i = 0; i < PST_OPTIM_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

const pst_optim_row *pst_optim_with(const pst_optim_row *row, pst_dtype state) {
    return (state == PST_BF16 ? rows_bf16 : rows) + row->kind;
}

uint32_t pst_optim_states(const pst_optim_row *row, const pst_param *param) {
    if (!row) return 0;
    return param->matrix ? 1 : row->n_state;
}

uint32_t pst_optim_least_states(const pst_optim_row *row) {
    return row->kind == PST_OPTIM_MUON ? 1 : row->n_state;
}

uint64_t pst_optim_state_bytes(const pst_optim_row *row) { return pst_dtype_bytes(row->state); }

void pst_optim_noise(pst_optim_hyper *h, uint64_t seed) {
    uint32_t word[4];
    pst_rng_words(pst_rng_key(seed, "optimizer.state"), 0, h->t, word);
    h->noise = word[0];
}

/* Without a trust ratio and without decay, LAMB's step is AdamW's. */
pst_optim_kind pst_optim_flat(const pst_optim_row *row) {
    return row->whole ? PST_OPTIM_ADAMW : row->kind;
}

/* Whether the operator computes logits. */
static int is_output(const pst_graph *g, const pst_node *d) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!strcmp(g->node[i].op->name, "cross_entropy") && g->node[i].in[0] == d->out[0])
            return 1;
    return 0;
}

static void mark_matrices(pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        const pst_node *d = g->node + i;
        if (strcmp(d->op->name, "linear") != 0 || is_output(g, d)) continue;
        pst_param *p = g->param + d->param[0];
        p->matrix = p->n_use == 1 && p->n_dim == 2 && !p->frozen;
    }
}

pst_status pst_optim_assign(const pst_optim_row *row, pst_graph *g) {
    int any = 0;
    if (!row->whole) return PST_OK;
    if (row->kind == PST_OPTIM_MUON) mark_matrices(g);
    for (uint32_t i = 0; i < g->n_param; i++) {
        pst_param *p = g->param + i;
        if (p->frozen) continue;
        p->whole = row->kind == PST_OPTIM_MUON ? p->matrix : p->decay && !p->statistic;
        any |= p->whole;
    }
    if (any) return PST_OK;
    return pst_fail(
        PST_EINPUT, "train.optimizer %s: graph %s has no %s; use adamw", row->name, g->name,
        row->kind == PST_OPTIM_MUON ? "matrix between hidden layers" : "parameter that decays");
}
