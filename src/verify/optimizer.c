/* See optimizer.h. */
#include "verify/optimizer.h"
#include "kernels/kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of one piece; the states have the type of the optimizer. */
enum { WEIGHT, STATES, GRADIENT = 3, ARRAYS };

typedef struct {
    const pst_optimizer_of *of;
    const pst_recording *run;
    pst_comparison *out;
    float *room; /* [ARRAYS][elements] */
    uint64_t elements;
} checking;

/* A number that this rank has recorded of a step; NaN: none. */
static double number_of(const checking *c, const pst_recorded *item, const char *name) {
    pst_key key = {.kind = PST_KEY_SCALAR,
                   .step = item->record->step,
                   .micro = PST_NONE,
                   .tensor = item->file->tensor,
                   .name = name};
    const pst_recorded *found = pst_recording_find(c->run, &key);
    return found ? pst_recorded_value(found, 0) : NAN;
}

static pst_optim_hyper hyper_of(const checking *c, const pst_recorded *item, int decays) {
    const pst_config *config = c->of->config;
    double scale = number_of(c, item, "clip factor") / number_of(c, item, "loss scale");
    pst_optim_hyper h = {.state = c->of->optim->state,
                         .lr = (float)number_of(c, item, "learning rate"),
                         .decay = decays ? (float)config->train.weight_decay : 0,
                         .beta1 = (float)config->train.beta1,
                         .beta2 = (float)config->train.beta2,
                         .eps = (float)config->train.eps,
                         .momentum = (float)config->train.momentum,
                         .nesterov = !strcmp(config->train.nesterov, "true"),
                         .grad_scale = (float)scale,
                         .t = (uint64_t)number_of(c, item, "optimizer step"),
                         .correction1 = (float)number_of(c, item, "correction of m"),
                         .correction2 = (float)number_of(c, item, "correction of v")};
    pst_optim_noise(&h, (uint64_t)config->train.seed);
    return h;
}

/* The record of another array of the same piece: `name`, with this kind, after so many steps. */
static const pst_recorded *find_beside(const checking *c, const pst_recorded *item,
                                       pst_key_kind kind, uint64_t step, const char *name) {
    pst_key key = pst_key_of(item);
    key.kind = kind;
    key.step = step;
    key.name = name;
    const pst_recorded *found = pst_recording_find(c->run, &key);
    if (!found && item->record->slice.held == PST_HELD_WHOLE) {
        key.tensor = 0;
        found = pst_recording_find(c->run, &key);
    }
    return found && found->record->n == item->record->n ? found : NULL;
}

static float *array(const checking *c, uint32_t i) { return c->room + i * c->elements; }

static uint64_t stored_bytes(const pst_recorded *item) {
    return item->record->stored * pst_dtype_bytes((pst_dtype)item->record->dtype);
}

static void copy_stored(float *to, const pst_recorded *from) {
    memcpy(to, from->stored, stored_bytes(from));
}

/* The piece's weight and states before the step, and its gradient; 0: not all were recorded. */
static int take_inputs(const checking *c, const pst_recorded *weight) {
    char name[PST_NAME_MAX + 32];
    const pst_record *r = weight->record;
    const pst_recorded *before = find_beside(c, weight, PST_KEY_STATE, r->step, r->tensor);
    snprintf(name, sizeof name, "gradient of %.*s", PST_NAME_MAX, r->tensor);
    const pst_recorded *gradient = find_beside(c, weight, PST_KEY_SUM, r->step, name);
    if (!before || !gradient) return 0;
    copy_stored(array(c, WEIGHT), before);
    copy_stored(array(c, GRADIENT), gradient);
    for (uint32_t s = 0; s < c->of->optim->n_state; s++) { /* whole parameters are left out */
        snprintf(name, sizeof name, "%.*s.%s", PST_NAME_MAX, r->tensor,
                 c->of->optim->state_name[s]);
        const pst_recorded *state = find_beside(c, weight, PST_KEY_STATE, r->step, name);
        if (!state || state->record->dtype != (uint32_t)c->of->optim->state) return 0;
        copy_stored(array(c, STATES + s), state);
    }
    return 1;
}

/* Compares an array after the step with the repeated one. */
static void compare_array(const checking *c, const pst_recorded *item, const void *expected) {
    pst_recorded other = *item;
    other.stored = expected;
    c->out->tensors[PST_GROUP_WEIGHTS]++;
    if (!memcmp(item->stored, expected, stored_bytes(item))) return;
    pst_difference d = {.found = 1,
                        .at = *item->record,
                        .expected = *item->record,
                        .run = c->run->name,
                        .expected_run = "the step repeated by the reference",
                        .index = UINT64_MAX};
    for (uint64_t k = 0; k < item->record->stored && d.index == UINT64_MAX; k++) {
        double value = pst_recorded_value(item, k);
        if (value == pst_recorded_value(&other, k)) continue;
        d.index = pst_recorded_index(item, k);
        d.value = value;
        d.expected_value = pst_recorded_value(&other, k);
    }
    c->out->different[PST_GROUP_WEIGHTS]++;
    pst_difference_keep(&c->out->first, &d);
}

/* It is as before. */
static void check_frozen(const checking *c, const pst_recorded *weight) {
    const pst_record *r = weight->record;
    const pst_recorded *before = find_beside(c, weight, PST_KEY_STATE, r->step, r->tensor);
    if (!before) return;
    copy_stored(array(c, WEIGHT), before);
    compare_array(c, weight, array(c, WEIGHT));
}

static void check_weight(const checking *c, const pst_recorded *weight, const pst_param *param) {
    const pst_record *r = weight->record;
    char name[PST_NAME_MAX + 32];
    pst_optim_hyper hyper = hyper_of(c, weight, param->decay);
    if (!isfinite(hyper.grad_scale) || !isfinite(number_of(c, weight, "gradient norm"))) return;
    if (!take_inputs(c, weight)) return;
    pst_flat_param flat = {
        array(c, WEIGHT), array(c, GRADIENT), {array(c, STATES), array(c, STATES + 1)}, r->stored};
    pst_flat_ref()->update(NULL, pst_optim_flat(c->of->optim), &hyper, &flat);
    compare_array(c, weight, array(c, WEIGHT));
    for (uint32_t s = 0; s < c->of->optim->n_state; s++) {
        snprintf(name, sizeof name, "%.*s.%s", PST_NAME_MAX, r->tensor,
                 c->of->optim->state_name[s]);
        const pst_recorded *state = find_beside(c, weight, PST_KEY_STATE, r->step + 1, name);
        if (state) compare_array(c, state, array(c, STATES + s));
    }
}

pst_status pst_optimizer_check(const pst_optimizer_of *of, const pst_recording *run,
                               pst_comparison *out) {
    checking c = {.of = of, .run = run, .out = out};
    for (size_t i = 0; i < run->n; i++)
        if (run->item[i].record->kind == PST_RECORD_STATE &&
            run->item[i].record->stored > c.elements)
            c.elements = run->item[i].record->stored;
    c.room = calloc(ARRAYS * c.elements + 1, sizeof *c.room);
    if (!c.room) return pst_fail(PST_ENOMEM, "no memory to repeat optimizer steps");
    for (size_t i = 0; i < run->n; i++) {
        const pst_record *r = run->item[i].record;
        if (r->kind != PST_RECORD_STATE || r->phase != PST_RECORD_END || r->part) continue;
        uint32_t param = pst_graph_find_param(of->graph, r->tensor);
        if (param == PST_NONE || of->graph->param[param].statistic) continue;
        if (of->graph->param[param].whole) continue; /* the reference rounds otherwise */
        if (of->graph->param[param].frozen) check_frozen(&c, run->item + i);
        else check_weight(&c, run->item + i, of->graph->param + param);
    }
    free(c.room);
    return PST_OK;
}
