/* Advice on packed messages (parallel.compress), which change results and so are not chosen by the
 * search: the best layout is compiled and simulated with them. planning/planning.h declares it. */
#include "base/clock.h"
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *up, *down, *stages;
} tried[PST_PLANNING_PACKED] = {{"int8", "none", "none"},
                                {"int4", "none", "none"},
                                {"int8", "int8", "none"},
                                {"none", "none", "int8"},
                                {"int8", "none", "int8"}};

/* Messages within a node are not packed. */
static int may_pack(const pst_planning *x) {
    const pst_config *c = x->config;
    int nodes = 0;
    for (uint32_t i = 0; i < x->cluster->n_device; i++)
        nodes |= x->cluster->device[i].node != x->cluster->device[0].node;
    return nodes && !x->local && !x->unverified && !strcmp(x->program.name, "penstock") &&
           !strcmp(c->parallel.compress.up, "none") && !strcmp(c->parallel.compress.down, "none") &&
           !strcmp(c->parallel.compress.stages, "none");
}

/* Replaces a text of the configuration; the caller frees *old or puts it back. */
static pst_status set(char **key, const char *value, char **old) {
    char *text = strdup(value);
    if (!text) return pst_no_memory("to plan");
    *old = *key;
    *key = text;
    return PST_OK;
}

/* Left out: a layout or key that codecs do not go with, and codecs that pack nothing, such as with
 * a large parallel.compress.min_bytes. */
static pst_status simulate(pst_planning *x, uint32_t i) {
    pst_prepared *p;
    pst_status status = pst_planning_prepare(x, x->result->best, &p);
    if (status == PST_EINPUT || status == PST_ENOMEM) return PST_OK;
    PST_TRY(status);
    if (p->compression > 1)
        x->packed[x->n_packed++] = (pst_planning_packing){

            .up = tried[i].up,
            .down = tried[i].down,
            .stages = tried[i].stages,
            .step_ns = (uint64_t)pst_prepared_step_ns(p)};
    pst_prepared_close(p);
    return PST_OK;
}

static pst_status try_one(pst_planning *x, uint32_t i) {
    pst_config *c = x->filled_config;
    char **const key[] = {&c->parallel.compress.up, &c->parallel.compress.down,
                          &c->parallel.compress.stages};
    const char *const value[] = {tried[i].up, tried[i].down, tried[i].stages};
    char *was[3];
    uint32_t n = 0;
    pst_status status = PST_OK;
    for (; status == PST_OK && n < 3; n += status == PST_OK)
        status = set(key[n], value[n], &was[n]);
    if (status == PST_OK) status = simulate(x, i);
    while (n--) {
        free(*key[n]);
        *key[n] = was[n];
    }
    return status;
}

/* Whether the layout has messages for all codecs. */
static int goes(const pst_planning *x, uint32_t i) {
    const pst_layout *l = &x->result->best->layout;
    const int gradients = strcmp(tried[i].up, "none") != 0;
    if (gradients && (l->data == 1 || l->servers || pst_prepare_islands(x->config, 2) > 1))
        return 0;
    if (strcmp(tried[i].down, "none") != 0 && l->zero != 1) return 0;
    return !strcmp(tried[i].stages, "none") || l->pipeline > 1;
}

pst_status pst_planning_compress(pst_planning *x) {
    if (!may_pack(x) || !x->filled_config) return PST_OK;
    for (uint32_t i = 0; i < PST_PLANNING_PACKED && pst_monotonic_ns() < x->end_ns; i++)
        if (goes(x, i)) PST_TRY(try_one(x, i));
    return PST_OK;
}

const pst_planning_packing *pst_planning_best_packing(const pst_planning *x) {
    const double worth = 0.98; /* of the step; less is within the error of the prediction */
    const pst_planning_packing *best = NULL;
    for (uint32_t i = 0; i < x->n_packed; i++)
        if ((double)x->packed[i].step_ns < worth * (double)x->result->best->step_ns &&
            (!best || x->packed[i].step_ns < best->step_ns))
            best = x->packed + i;
    return best;
}
