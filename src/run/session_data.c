/* See session_data.h. */
#include "run/session_data.h"
#include <stdlib.h>
#include <string.h>

struct pst_feed {
    uint32_t tensor;
    uint64_t sample;     /* elements of one sample */
    int32_t least, most; /* smallest and largest value that all readers accept */
};

/* Number of valid values of a node's data, from 0: tokens are rows of the embedding table, pixels
 * are bytes, lengths and starts are 0 to the number of positions, types are rows of their table,
 * positions are rows of the sample, targets are one of the logits. i: which input. */
static uint64_t values_of(const pst_graph *g, const pst_node *node, uint32_t i) {
    const pst_tensor *first = &g->tensor[node->in[0]];
    if (!strcmp(node->op->name, "embedding") && i)
        return node->n_param > 2 ? g->param[node->param[2]].dim[0] : first->dim[1];
    if (node->attr.total) return node->attr.total; /* it has only a part of the vocabulary */
    if (!strcmp(node->op->name, "embedding")) return g->param[node->param[0]].dim[0];
    if (!strcmp(node->op->name, "pixels")) return 256;
    if (!strcmp(node->op->name, "gather_rows")) return first->dim[1];
    return !strcmp(node->op->name, "attention") ? first->dim[1] + 1 : first->dim[first->n_dim - 1];
}

/* Only targets and the positions of gathered rows may be negative. */
static int takes_negative(const pst_node *node) {
    return !strcmp(node->op->name, "cross_entropy") || !strncmp(node->op->name, "vocabulary", 10) ||
           !strcmp(node->op->name, "gather_rows");
}

static void bound_by(const pst_graph *g, const pst_node *node, pst_feed *f) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != f->tensor) continue;
        uint64_t n = values_of(g, node, i);
        if (!takes_negative(node)) f->least = 0;
        if (n - 1 < (uint64_t)f->most) f->most = (int32_t)(n - 1);
    }
}

static pst_feed feed_of(const pst_graph *g, uint32_t tensor) {
    pst_feed f = {tensor, pst_tensor_elements(&g->tensor[tensor]) / g->micro_batch, INT32_MIN,
                  INT32_MAX};
    for (uint32_t k = 0; k < g->n_node; k++) bound_by(g, &g->node[k], &f);
    return f;
}

int32_t pst_session_data_max(const pst_graph *g, uint32_t tensor) {
    return feed_of(g, tensor).most;
}

pst_status pst_session_data_open(const pst_graph *g, pst_session_data *d) {
    d->feed = calloc(g->n_tensor + (size_t)1, sizeof *d->feed);
    if (!d->feed) return pst_fail(PST_ENOMEM, "no memory for a session");
    for (uint32_t i = 0; i < g->n_tensor; i++)
        if (g->tensor[i].role == PST_TENSOR_DATA) d->feed[d->n++] = feed_of(g, i);
    return PST_OK;
}

void pst_session_data_close(pst_session_data *d) { free(d->feed); }

static pst_status check_values(const pst_trainer *t, const pst_feed *f, const int32_t *x,
                               uint64_t samples) {
    int32_t least = INT32_MAX, most = INT32_MIN;
    uint64_t n = f->sample * samples;
    for (uint64_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    if (least >= f->least && most <= f->most) return PST_OK;
    return pst_fail(PST_EINPUT, "data tensor %s contains %d; expected %s%d",
                    t->p->graph->tensor[f->tensor].name, most > f->most ? most : least,
                    f->least ? "a negative number, or 0 to " : "0 to ", f->most);
}

pst_status pst_session_data_check(const pst_session_data *d, const pst_trainer *t,
                                  const int32_t *const *given, uint32_t n, uint64_t samples) {
    if (n != d->n)
        return pst_fail(PST_EINPUT, "the graph has %u data tensors, but %u were given", d->n, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!given || !given[i])
            return pst_fail(PST_EINPUT, "data tensor %s is NULL",
                            t->p->graph->tensor[d->feed[i].tensor].name);
        PST_TRY(check_values(t, &d->feed[i], given[i], samples));
    }
    return PST_OK;
}

pst_status pst_session_data_copy(const pst_session_data *d, const pst_trainer *t,
                                 const int32_t *const *given) {
    for (uint32_t k = 0; k < t->group->n_local; k++) {
        pst_rank *r = t->group->local[k];
        const pst_layout *l = &r->p->plan->layout;
        for (uint32_t i = 0; i < d->n; i++) {
            for (uint32_t m = 0; m < r->n_micro; m++) {
                int32_t *to = pst_rank_data(r, d->feed[i].tensor, m);
                const uint64_t first = pst_layout_samples(l, 0, r->micro + m),
                               end = pst_layout_samples(l, 0, r->micro + m + 1);
                const int32_t *from = given[i] + first * d->feed[i].sample;
                const uint64_t n = (end - first) * d->feed[i].sample;
                if (to) PST_TRY(pst_rank_write(r, to, from, n * sizeof *to));
            }
        }
        r->sample = pst_trainer_sample(t, t->step) + pst_layout_samples(l, 0, r->micro);
    }
    return PST_OK;
}
