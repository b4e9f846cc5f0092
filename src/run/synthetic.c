/* See synthetic.h. */
#include "run/synthetic.h"
#include "run/setup.h"
#include "comm/world/world.h"
#include "run/session_data.h"

static uint64_t no_hash(const pst_data *data) {
    (void)data;
    return 0;
}

pst_status pst_synthetic_plan(const pst_config *c, pst_trainer *t) {
    static const pst_data_row row = {.name = "synthetic", .hash = no_hash};
    static pst_data data = {&row};
    static const pst_train_options quiet = {.runs = "", .resume = "", .quiet = 1};
    const pst_prepare_options options = {.n_rank = pst_prepare_lanes(c)};
    *t =
        (pst_trainer){.config = c, .options = &quiet, .data = &data, .proc_status = -1, .lock = -1};
    return pst_setup_plan(c, options, NULL, &t->p);
}

pst_status pst_synthetic_ranks(pst_trainer *t) {
    PST_TRY(pst_world_single.open(&t->world));
    PST_TRY(pst_setup_ranks(t));
    PST_TRY(pst_setup_weights(t));
    return pst_setup_buffers(t);
}

/* Any value is good that all readers accept. */
static pst_status feed_tensor(const pst_trainer *t, const pst_rank *r, uint32_t tensor,
                              uint32_t micro, uint32_t *word) {
    uint64_t n = pst_tensor_elements(&t->p->graph->tensor[tensor]);
    uint32_t most = 1 + (uint32_t)pst_session_data_max(t->p->graph, tensor);
    void *to = pst_rank_data(r, tensor, micro), *host;
    if (!to) return PST_OK;
    PST_TRY(pst_rank_map(r, to, n * sizeof(int32_t), 0, &host));
    for (uint64_t e = 0; e < n; e++) {
        *word = *word * 1664525u + 1013904223u; /* Numerical Recipes */
        ((int32_t *)host)[e] = (int32_t)((*word >> 8) % most);
    }
    return pst_rank_unmap(r, to, n * sizeof(int32_t), 1, host);
}

pst_status pst_synthetic_feed(pst_trainer *t) {
    const pst_graph *g = t->p->graph;
    uint32_t word = 1;
    for (uint32_t k = 0; k < t->group->n_local; k++)
        for (uint32_t i = 0; i < g->n_tensor; i++)
            for (uint32_t m = 0;
                 g->tensor[i].role == PST_TENSOR_DATA && m < t->group->local[k]->n_micro; m++)
                PST_TRY(feed_tensor(t, t->group->local[k], i, m, &word));
    return PST_OK;
}

void pst_synthetic_close(pst_trainer *t) {
    if (t->group) pst_group_close(t->group, PST_OK);
    if (t->world) t->world->ops->close(t->world);
    pst_setup_close(t);
    pst_prepared_close(t->p);
}
