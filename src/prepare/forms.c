/* The graphs of a job that generates text with a cache: the same model for runs of one position, of
 * a few, and of many. Declared in prepare.h. */
#include "prepare/prepare.h"
#include <stdlib.h>

enum { FEW = 16, ROWS = 256 /* of all samples of a run: enough for fast products */ };

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

pst_status pst_prepare_forms_config(pst_prepared *p) {
    pst_model_config *m = &p->model_config;
    const uint32_t rows = m->micro_batch < ROWS ? ROWS / m->micro_batch : 1,
                   most = pst_model_positions(m);
    if (!p->model->caches)
        return pst_fail(PST_EINPUT, "a model of kind %s cannot generate text with a cache",
                        p->model->name);
    m->cache = (most + PST_CACHE_BLOCK - 1) / PST_CACHE_BLOCK * PST_CACHE_BLOCK;
    m->positions = least(least(rows, PST_FORM_MAX), most);
    return PST_OK;
}

pst_status pst_prepare_forms(pst_prepared *p) {
    static const uint32_t positions[] = {1, FEW};
    pst_model_config m = p->model_config;
    for (uint32_t i = 0; i < 2 && positions[i] < m.positions; i++) {
        pst_model_config small = m;
        small.positions = positions[i];
        PST_TRY(p->model->build(&small, &p->form[i].graph));
        p->form[p->n_form++].positions = positions[i];
        PST_TRY(pst_graph_check(p->form[i].graph));
    }
    p->form[p->n_form++] = (pst_form){.positions = m.positions, .graph = p->whole};
    return PST_OK;
}

/* The graph of a form for the tensor rank with graph g of the largest one. */
static const pst_graph *of_rank(const pst_prepared *p, const pst_form *form, const pst_graph *g) {
    uint32_t t = 0;
    if (!form->part) return form->graph;
    while (t + 1 < p->grid.tensor && p->graphs[t] != g) t++;
    return form->part[t];
}

uint64_t pst_prepare_forms_scratch(const pst_prepared *p, const pst_graph *g, const pst_node *node,
                                   const pst_kernel_row *row, uint32_t threads) {
    uint64_t most = 0;
    for (uint32_t i = 0; row->scratch && i < p->n_form; i++) {
        const pst_graph *form = of_rank(p, &p->form[i], g);
        uint64_t bytes = row->scratch(form, form->node + (node - g->node), threads);
        if (bytes > most) most = bytes;
    }
    return most;
}

void pst_prepare_forms_close(pst_prepared *p) {
    for (uint32_t i = 0; i < p->n_form; i++) {
        const pst_form *f = &p->form[i];
        if (f->graph == p->whole) continue; /* the model, and its parts */
        for (uint32_t t = 0; f->part && t < p->grid.tensor; t++) pst_graph_close(f->part[t]);
        free(f->part);
        pst_graph_close(f->graph);
    }
}
