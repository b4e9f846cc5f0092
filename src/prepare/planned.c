/* See planned.h. */
#include "prepare/planned.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_planned_refuse(const pst_config *c) {
    if (!*c->parallel.plan) return PST_OK;
    return pst_fail(PST_EINPUT, "parallel.plan is only for penstock train; a program has to load "
                                "the plan with pst_plan_load");
}

static void name_plan(const char *file, char *text, size_t bytes) {
    if (*file) snprintf(text, bytes, "plan %s", file);
    else snprintf(text, bytes, "the plan");
}

/* Sets a key that the plan determines. file: name of the plan's file, for messages. */
static pst_status PST_PRINTF(5, 6) set_key(pst_config *c, const char *file, const char *section,
                                           const char *key, const char *fmt, ...) {
    char text[1024], who[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    name_plan(file, who, sizeof who);
    return pst_config_set_from_plan(c, section, key, text, who);
}

/* "[a, b]" with n items, each printed by `item`. The caller frees it; NULL: no memory. */
static char *list_text(const pst_plan *plan, uint32_t n,
                       void (*item)(const pst_plan *plan, uint32_t i, FILE *out)) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    fputc('[', f);
    for (uint32_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", f);
        item(plan, i, f);
    }
    fputc(']', f);
    if (!fclose(f)) return text;
    free(text);
    return NULL;
}

static void print_recompute(const pst_plan *plan, uint32_t i, FILE *out) {
    char text[PST_RECOMPUTE_TEXT];
    fputs(pst_recompute_text(plan->layout.recompute[i], text), out);
}

static void print_micros(const pst_plan *plan, uint32_t i, FILE *out) {
    fprintf(out, "%u", plan->layout.micros[i]);
}

static void print_degree(const pst_plan *plan, uint32_t i, FILE *out) {
    fprintf(out, "%u", pst_grid_degree(pst_plan_grid(plan), i));
}

static void print_device(const pst_plan *plan, uint32_t i, FILE *out) {
    fprintf(out, "%u", plan->layout.device[i]);
}

static pst_status set_list(pst_config *c, const char *file, const char *key, char *text) {
    char who[600];
    if (!text) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    name_plan(file, who, sizeof who);
    pst_status status = pst_config_set_from_plan(c, "parallel", key, text, who);
    free(text);
    return status;
}

/* Whether a plan may replace the value of the run file: {full: auto}, and full, which other
 * programs do layer by layer (penstock plan --program). */
static int is_replaced(const char *given, const pst_layout *l) {
    const int any = pst_config_chooses_layers(given);
    int layers = any || !strcmp(given, "full");
    for (uint32_t i = 0; i < l->n_chunk; i++)
        layers = layers && (pst_recompute_mode(l->recompute[i]) == PST_RECOMPUTE_LAYERS ||
                            (any && l->recompute[i] == PST_RECOMPUTE_NONE));
    return layers;
}

/* One way if it is the same for all chunks, else a list. A value of the run file with the same
 * meaning is kept. */
static pst_status set_recompute(pst_config *c, const pst_plan *plan, const char *file) {
    const pst_layout *l = &plan->layout;
    uint32_t n = c->parallel.n_recompute, same = 1;
    int given = pst_config_given(c, "parallel", "recompute") && (n == 1 || n == l->n_chunk);
    for (uint32_t i = 0; i < l->n_chunk; i++) {
        char text[PST_RECOMPUTE_TEXT];
        pst_recompute_text(l->recompute[i], text);
        same &= l->recompute[i] == l->recompute[0];
        given = given && !strcmp(c->parallel.recompute[n == 1 ? 0 : i], text);
    }
    if (given) return PST_OK;
    if (n == 1 && is_replaced(c->parallel.recompute[0], l))
        pst_config_leave_open(c, "parallel", "recompute");
    uint32_t items = same ? 1 : l->n_chunk;
    return set_list(c, file, "recompute", list_text(plan, items, print_recompute));
}

/* One number for all stages, or a list. A list in the run file with the same meaning is kept. */
static pst_status set_tensor(pst_config *c, const pst_plan *plan, const char *file) {
    const pst_layout *l = &plan->layout;
    uint32_t n = c->parallel.n_tensors;
    int same = n > 1 && n == l->pipeline;
    for (uint32_t s = 0; same && s < n; s++)
        same = strtoul(c->parallel.tensors[s], NULL, 10) == pst_grid_degree(pst_plan_grid(plan), s);
    if (same && pst_config_given(c, "parallel", "tensor")) return PST_OK;
    if (l->tensor_before)
        return set_list(c, file, "tensor", list_text(plan, l->pipeline, print_degree));
    return set_key(c, file, "parallel", "tensor", "%u", l->tensor);
}

int pst_planned_is_file(const char *path, const char *same) {
    char *a = realpath(path, NULL), *b = realpath(same, NULL);
    int yes = a && b && !strcmp(a, b);
    free(a);
    free(b);
    return yes;
}

static pst_status set_job(pst_config *c, const pst_plan *plan, const char *file) {
    const pst_layout *l = &plan->layout;
    PST_TRY(set_key(c, file, "parallel", "data", "%u", l->data));
    PST_TRY(set_tensor(c, plan, file));
    PST_TRY(set_key(c, file, "parallel", "sequence", "%s", l->sequence ? "true" : "false"));
    if (l->data > 1 && !l->servers) PST_TRY(set_key(c, file, "parallel", "zero", "%u", l->zero));
    if (l->servers)
        PST_TRY(
            set_key(c, file, "parallel", "servers", "%u", pst_grid_servers(pst_plan_grid(plan))));
    if (plan->cluster && !pst_planned_is_file(c->parallel.cluster, plan->cluster))
        PST_TRY(set_key(c, file, "parallel", "cluster", "%s", plan->cluster));
    if (l->device)
        PST_TRY(
            set_list(c, file, "devices", list_text(plan, pst_plan_job_ranks(plan), print_device)));
    if (!l->micros || l->data == 1) return PST_OK;
    return set_list(c, file, "replicas", list_text(plan, l->data, print_micros));
}

pst_status pst_planned_apply(pst_config *c, const pst_plan *plan, const char *file) {
    const pst_layout *l = &plan->layout;
    PST_TRY(set_key(c, file, "parallel", "pipeline", "%u", l->pipeline));
    PST_TRY(set_key(c, file, "parallel", "schedule", "%s", l->schedule));
    PST_TRY(set_key(c, file, "parallel", "chunks", "%u", l->n_chunk / l->pipeline));
    PST_TRY(set_key(c, file, "train", "micro_batch", "%u", l->micro_batch));
    if (pst_layout_batch(l) != (uint64_t)c->train.batch)
        return pst_fail(PST_EINPUT,
                        "train.batch is %" PRId64
                        ", but plan %s was made for %u micro-batches of %u samples, %" PRIu64
                        " in total",
                        c->train.batch, file, l->n_micro, l->micro_batch, pst_layout_batch(l));
    PST_TRY(set_recompute(c, plan, file));
    return l->data ? set_job(c, plan, file) : PST_OK;
}

pst_status pst_planned_ranks(const pst_config *c, const pst_plan *plan, int64_t given,
                             uint32_t *n_rank) {
    char who[600];
    if (!plan || !plan->layout.data) return pst_prepare_ranks(c, given, n_rank);
    *n_rank = pst_plan_job_ranks(plan);
    if (!given || given == *n_rank) return PST_OK;
    name_plan(pst_config_is_auto(c) ? "" : c->parallel.plan, who, sizeof who);
    return pst_fail(PST_EINPUT, "the job has %" PRId64 " ranks, but %s was made for %u ranks",
                    given, who, *n_rank);
}

pst_status pst_planned_take(pst_config **config, const pst_plan *plan, const char *file) {
    pst_config *c;
    PST_TRY(pst_config_copy(*config, &c));
    pst_status status = pst_planned_apply(c, plan, file);
    pst_config_close(status == PST_OK ? *config : c);
    if (status == PST_OK) *config = c;
    return status;
}

static void make_absolute(pst_config *c) {
    char *real = realpath(c->parallel.plan, NULL);
    if (!real) return;
    free(c->parallel.plan);
    c->parallel.plan = real;
}

pst_status pst_planned_config(pst_config **config, pst_plan **plan) {
    pst_plan *p;
    *plan = NULL;
    if (!*(*config)->parallel.plan) return PST_OK;
    if (pst_config_is_auto(*config))
        return pst_fail(PST_EINPUT, "parallel.plan auto: the plan is made when the run starts; use "
                                    "penstock plan, or runs/NAME/plan.yaml of a started run");
    pst_status status = pst_plan_load((*config)->parallel.plan, &p);
    if (status != PST_OK) return pst_fail_in(status, "parallel.plan");
    status = pst_planned_take(config, p, (*config)->parallel.plan);
    if (status != PST_OK) {
        pst_plan_close(p);
        return status;
    }
    make_absolute(*config);
    *plan = p;
    return PST_OK;
}

void pst_planned_warn(const pst_config *c, const pst_plan *plan) {
    static const char key[] = "parallel.profile=";
    for (uint32_t i = 0; i < plan->n_override && !*c->parallel.profile; i++)
        if (!strncmp(plan->override[i], key, sizeof key - 1))
            pst_log(PST_LOG_WARN,
                    "the plan was made with %s; set the same key, or the prediction of this run "
                    "differs from the plan",
                    plan->override[i]);
}

pst_status pst_planned_explain(pst_status status, const pst_plan *plan) {
    char text[400] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < plan->n_override && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", plan->override[i]);
    return n ? pst_fail(status, "%s; the plan was made with%s", pst_error(), text) : status;
}

static int in_order(const pst_prepared *p) {
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->device[r] != r) return 0;
    return 1;
}

pst_status pst_planned_describe(pst_prepared *p) {
    pst_layout *l = &p->plan->layout;
    if (p->options.infer) return PST_OK;
    uint32_t *micros = malloc(p->grid.data * sizeof *micros);
    if (!micros) return pst_fail(PST_ENOMEM, "no memory for a plan of %u replicas", l->data);
    for (uint32_t k = 0; k < p->grid.data; k++) micros[k] = p->micro[k + 1] - p->micro[k];
    free(l->micros);
    l->micros = micros;
    if (in_order(p)) {
        free(l->device);
        l->device = NULL;
    }
    return pst_plan_set_text(&p->plan->cluster, p->config->parallel.cluster);
}
