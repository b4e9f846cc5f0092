/* The numbers of devices of a budget: each is planned for, and the layout of one is printed in
 * full. See budget.h. */
#include "planning/budget.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Seconds for each of several numbers of devices, without --time-limit. */
#define EACH_S 0.6
/* Samples per step times devices: of a larger number only the choice is compiled. */
#define LARGE 8192

/* A number of devices, with its plan. */
typedef struct {
    pst_planning x;
    pst_plan_run_options options;
    char cluster[PST_CLUSTER_TEXT];
} attempt;

typedef struct {
    const pst_planning *begun; /* with which each number of devices begins */
    const pst_config *config;
    const pst_plan_run_options *options;
    const char *cluster; /* as given; "": this machine */
    pst_budget *budget;
    attempt *kept; /* of the chosen row, or of the last one that does not fit; NULL: none */
    int kept_fits;
    char *error; /* why the first number of devices that was infeasible is; NULL: none was */
} counts;

static void close_attempt(attempt *a) {
    if (!a) return;
    pst_planning_close(&a->x);
    free(a);
}

/* --- one number of devices -------------------------------------------------------------------- */

static double price_of(const pst_budget_request *r, const char *kind) {
    for (uint32_t i = 0; i < r->n_price; i++)
        if (!strcasecmp(r->price[i].kind, kind)) return r->price[i].per_hour;
    return NAN;
}

/* Every kind of the cluster has a price, and no other one. */
static pst_status check_prices(const pst_budget_request *r, const pst_cluster *c) {
    char kinds[200] = "";
    for (uint32_t k = 0; k < c->n_kind; k++)
        snprintf(kinds + strlen(kinds), sizeof kinds - strlen(kinds), "%s%s", k ? ", " : "",
                 c->kind[k].name);
    for (uint32_t i = 0; i < r->n_price; i++) {
        int known = 0;
        for (uint32_t k = 0; k < c->n_kind; k++)
            known |= !strcasecmp(r->price[i].kind, c->kind[k].name);
        if (!known)
            return pst_fail(PST_EINPUT, "--price: the cluster has no devices of kind %s, only %s",
                            r->price[i].kind, kinds);
    }
    for (uint32_t k = 0; r->n_price && k < c->n_kind; k++)
        if (isnan(price_of(r, c->kind[k].name)))
            return pst_fail(PST_EINPUT, "--price: the price of %s is missing", c->kind[k].name);
    return PST_OK;
}

/* Of the whole model; a checkpoint has its parameters and the states of the optimizer in fp32. */
static pst_status measure_model(pst_planning *x, pst_budget *b) {
    pst_planning_part *part;
    PST_TRY(pst_planning_graph(x, 1, 0, (uint32_t)x->config->train.micro_batch, &part));
    b->parameters = b->checkpoint_bytes = 0;
    for (uint32_t i = 0; i < part->graph->n_param; i++) {
        const pst_param *p = &part->graph->param[i];
        if (p->frozen) continue;
        const double n = (double)pst_param_elements(p);
        b->parameters += n;
        b->checkpoint_bytes += 4 * n * (1 + pst_optim_states(x->optim, p));
    }
    b->step_tokens = (double)x->problem.batch * x->model.context;
    b->steps = ceil(b->request.tokens / b->step_tokens);
    if (b->request.tokens < b->step_tokens)
        return pst_fail(PST_EINPUT,
                        "--tokens: one step has %.0f tokens (train.batch x model.context), more "
                        "than the whole training",
                        b->step_tokens);
    return PST_OK;
}

/* The sums over the devices: price of an hour, and watts. All devices are paid for, used or not. */
static void set_costs(const pst_planning *x, const pst_budget *b, pst_budget_row *row) {
    double per_hour = 0, watts = 0;
    for (uint32_t i = 0; i < x->cluster->n_device; i++) {
        const pst_device_kind *kind = &x->cluster->kind[x->cluster->device[i].kind];
        per_hour += price_of(&b->request, kind->name);
        watts += kind->watts > 0 && !x->local ? kind->watts : NAN;
    }
    row->cost = per_hour * 24 * row->days;
    row->kwh = watts * 24 * row->days / 1000;
}

static double free_bytes(const pst_planning *x, const pst_candidate *c) {
    double least = NAN;
    for (uint32_t s = 0; s < c->layout.pipeline; s++) {
        const uint64_t capacity = pst_planning_capacity(x, c, s);
        if (capacity) least = fmin(least, (double)capacity - (double)c->peak_bytes[s]);
    }
    return least;
}

static double days_of(const pst_budget *b, const pst_budget_row *row, double step_s) {
    pst_budget_row other = *row;
    other.step_s = step_s;
    pst_budget_follow(b, &other);
    return other.days;
}

static void fill_row(const pst_planning *x, const pst_budget *b, pst_budget_row *row) {
    const pst_candidate *c = x->result->best;
    const double mfu = pst_planning_mfu(x, c);
    row->fits = 1;
    row->timed_out = x->result->timed_out;
    row->pipeline = c->layout.pipeline;
    row->tensor = c->layout.tensor;
    row->data = c->layout.data;
    row->micro_batch = c->layout.micro_batch;
    row->zero = c->layout.zero;
    snprintf(row->schedule, sizeof row->schedule, "%s", pst_planning_schedule(c));
    row->step_s = (double)c->step_ns * 1e-9;
    row->gap = x->result->gap;
    row->tokens_per_s = b->step_tokens / row->step_s;
    row->mfu = mfu > 0 ? mfu : NAN;
    row->free_bytes = free_bytes(x, c);
    pst_budget_follow(b, row);
    double low, high;
    const int known = pst_planning_range(x, c, &low, &high);
    row->days_low = known ? days_of(b, row, low) : NAN;
    row->days_high = known ? days_of(b, row, high) : NAN;
    set_costs(x, b, row);
}

static void explain(const pst_planning *x, pst_budget_row *row) {
    const pst_search_row *nearest = pst_planning_nearest(x);
    const char *why = "no combination of degrees is possible for this model and batch";
    if (x->result->n_row) why = x->result->row[0].why;
    if (nearest) why = nearest->why;
    snprintf(row->why, sizeof row->why, "%s", why);
}

typedef struct {
    uint32_t devices; /* 0: those of the cluster */
    double limit_s;   /* 0: none but that of the options */
    int unverified;   /* 1: layouts are simulated, but not compiled, which takes longer */
} search_of;

/* *status: EINPUT is only of this number of devices. */
static attempt *try_count(counts *k, const search_of *of, pst_status *status) {
    const uint32_t devices = of->devices;
    attempt *a = calloc(1, sizeof *a);
    if (!a) {
        *status = pst_fail(PST_ENOMEM, "no memory to plan");
        return NULL;
    }
    a->options = *k->options;
    if (of->limit_s > 0) a->options.time_limit = of->limit_s;
    a->x = *k->begun;
    a->x.options = &a->options;
    a->x.unverified = of->unverified;
    *status = devices ? pst_cluster_resize(k->cluster, devices, a->cluster) : PST_OK;
    if (*status == PST_OK && devices) {
        a->options.cluster = a->cluster;
        a->options.ranks = devices;
    }
    if (*status == PST_OK) *status = pst_planning_search(&a->x);
    if (*status == PST_OK) return a;
    close_attempt(a);
    return NULL;
}

/* --- the choice ------------------------------------------------------------------------------- */

static int ends_in_time(const pst_budget *b, const pst_budget_row *row) {
    return row->fits && (b->request.days <= 0 || row->days <= b->request.days);
}

/* Whether the newest row is better than the chosen one. Rows are ascending, so that the first one
 * that ends in time is the smallest. */
static int is_better(const counts *k) {
    const pst_budget *b = k->budget;
    const pst_budget_row *row = &b->row[b->n_row - 1], *best = &b->row[b->chosen];
    if (!row->fits || !k->kept_fits) return row->fits >= k->kept_fits;
    if (b->request.days > 0 && ends_in_time(b, best)) return 0;
    return row->days < best->days || isnan(best->days);
}

/* Adds a row for so many devices; keeps its plan if it is the best. */
static pst_status add_row(counts *k, uint32_t devices, double limit_s) {
    pst_budget *b = k->budget;
    pst_budget_row *row = &b->row[b->n_row];
    pst_status status;
    /* orders of passes are solved when a layout is compiled; steps of large ones hardly differ */
    const int solved = pst_schedule_kind_of(k->config->parallel.schedule) == PST_SCHEDULE_SOLVED,
              large = (double)devices * (double)k->config->train.batch > LARGE;
    const search_of of = {devices, limit_s, limit_s > 0 && large && !solved};
    attempt *a = try_count(k, &of, &status);
    if (status != PST_OK && (status != PST_EINPUT || !devices)) return status;
    *row = (pst_budget_row){.devices = devices};
    b->n_row++;
    if (!a) {
        snprintf(row->why, sizeof row->why, "%s", pst_error());
        if (!k->error) k->error = strdup(pst_error());
        pst_error_clear();
        return PST_OK;
    }
    const pst_cluster *c = a->x.cluster;
    row->devices = c->n_device;
    row->nodes = c->device[c->n_device - 1].node - c->device[0].node + 1;
    if (b->parameters <= 0) status = check_prices(&b->request, c);
    if (status == PST_OK && b->parameters <= 0) status = measure_model(&a->x, b);
    if (status == PST_OK && a->x.result->best) fill_row(&a->x, b, row);
    else if (status == PST_OK) explain(&a->x, row);
    if (status != PST_OK || !is_better(k)) {
        close_attempt(a);
        return status;
    }
    close_attempt(k->kept);
    k->kept = a;
    k->kept_fits = row->fits;
    b->chosen = b->n_row - 1;
    return PST_OK;
}

/* The first row of the result has the best layout, too. */
static pst_status replace_first(pst_search_result *r) {
    pst_candidate *copy;
    PST_TRY(pst_candidate_copy(r->best, &copy));
    pst_candidate_close(r->row[0].best);
    r->row[0].best = copy;
    return PST_OK;
}

/* Compiles the chosen layout. If it needs more memory than was estimated, its devices are planned
 * for again, with layouts that are compiled before they count. */
static pst_status verify_choice(counts *k) {
    pst_budget *b = k->budget;
    pst_budget_row *row = &b->row[b->chosen];
    pst_planning *x = &k->kept->x;
    pst_candidate *best = x->result->best;
    pst_status status;
    if (!best || best->exact) return PST_OK;
    x->problem.verify = pst_planning_verify;
    status = pst_planning_verify(x, best);
    for (uint32_t s = 0; status == PST_OK && s < best->layout.pipeline; s++)
        if (best->peak_bytes[s] > pst_planning_capacity(x, best, s) &&
            pst_planning_capacity(x, best, s))
            status = pst_fail(PST_EINPUT, "stage %u does not fit", s);
    if (status == PST_OK) {
        x->result->n_verified++;
        x->result->gap = (double)best->step_ns / (double)x->result->bound_ns - 1;
        fill_row(x, b, row);
        status = replace_first(x->result);
    }
    if (status != PST_EINPUT) return status;
    pst_error_clear();
    const search_of of = {row->devices, b->limit_s, 0};
    attempt *again = try_count(k, &of, &status);
    if (!again) return status;
    close_attempt(k->kept);
    k->kept = again;
    *row = (pst_budget_row){.devices = row->devices, .nodes = row->nodes};
    if (again->x.result->best) fill_row(&again->x, b, row);
    else explain(&again->x, row);
    return PST_OK;
}

static pst_status try_given(counts *k) {
    const pst_budget_request *r = &k->budget->request;
    const double limit = k->options->time_limit;
    const uint64_t start = pst_monotonic_ns();
    char text[PST_CLUSTER_TEXT];
    for (uint32_t i = 0; i < r->n_count; i++)
        if (pst_cluster_resize(k->cluster, r->count[i], text) != PST_OK)
            return pst_fail_in(PST_EINPUT, "--gpus");
    k->budget->limit_s = r->n_count > 1 ? EACH_S : 0;
    if (limit > 0) k->budget->limit_s = limit / r->n_count;
    for (uint32_t i = 0; i < r->n_count; i++) {
        double left = limit - (double)(pst_monotonic_ns() - start) * 1e-9;
        double each = limit > 0 ? fmax(left / (r->n_count - i), 1e-3) : k->budget->limit_s;
        PST_TRY(add_row(k, r->count[i], each));
    }
    return PST_OK;
}

/* The number of nodes after n of 1, 2, 3, 4, 6, 8, 12, ...: 2^k and 3 x 2^k. */
static uint32_t next_nodes(uint32_t n) {
    uint32_t power = 1;
    while (2 * power <= n) power *= 2;
    return n == power && n > 1 ? n + n / 2 : 2 * power;
}

/* The least number of devices that could end in time: at their peak, with 6 operations per token
 * and parameter; less a fifth, because some parameters are only looked up. */
static double least_devices(const counts *k) {
    const pst_planning *x = &k->kept->x;
    const pst_budget *b = k->budget;
    const double peak = x->cluster->kind[x->cluster->device[0].kind].flops[x->model.dtype];
    return peak > 0 ? 0.8 * 6 * b->parameters * b->request.tokens / (peak * b->request.days * 86400)
                    : 0;
}

/* Without --gpus: more and more nodes, until a number ends in time. */
static pst_status try_ascending(counts *k, uint32_t each, uint32_t most) {
    pst_budget *b = k->budget;
    const double least = least_devices(k);
    uint32_t nodes = 1;
    while (nodes * each < least && next_nodes(nodes) * each <= most) nodes = next_nodes(nodes);
    close_attempt(k->kept);
    k->kept = NULL;
    k->kept_fits = 0;
    b->n_row = b->chosen = 0;
    b->limit_s = k->options->time_limit > 0 ? k->options->time_limit : EACH_S;
    while (nodes * each <= most && b->n_row < PST_BUDGET_COUNTS) {
        PST_TRY(add_row(k, nodes * each, b->limit_s));
        if (ends_in_time(b, &b->row[b->n_row - 1])) break;
        nodes = next_nodes(nodes);
    }
    return PST_OK;
}

/* The devices of the cluster; with --days also other numbers of its nodes. */
static pst_status try_cluster(counts *k) {
    const int searches = k->budget->request.days > 0 && *k->cluster && !k->options->ranks;
    char text[PST_CLUSTER_TEXT];
    PST_TRY(add_row(k, 0, searches && k->options->time_limit <= 0 ? EACH_S : 0));
    if (!searches) return PST_OK;
    const pst_cluster *c = k->kept->x.cluster;
    const uint32_t have = c->n_device;
    uint32_t each = 0;
    while (each < have && c->device[each].node == c->device[0].node) each++;
    /* a file cannot be enlarged */
    int larger = pst_cluster_resize(k->cluster, have + each, text) == PST_OK;
    if (!larger) pst_error_clear();
    return try_ascending(k, each, larger ? PST_PLANNED_RANKS_MAX : have);
}

pst_status pst_budget_run(const pst_planning *begun, FILE *out) {
    const pst_plan_run_options *o = begun->options;
    counts k = {.begun = begun,
                .config = begun->config,
                .options = o,
                .budget = calloc(1, sizeof *k.budget)};
    if (!k.budget) return pst_fail(PST_ENOMEM, "no memory to plan");
    k.cluster = *o->cluster ? o->cluster : begun->config->parallel.cluster;
    pst_status status = pst_budget_read(o, &k.budget->request);
    if (status == PST_OK && k.budget->request.n_count && !*k.cluster)
        status = pst_fail(PST_EINPUT, "--gpus needs --cluster, whose nodes are used");
    if (status == PST_OK) status = k.budget->request.n_count ? try_given(&k) : try_cluster(&k);
    if (status == PST_OK && !k.kept)
        status = pst_fail(PST_EINPUT, "%s", k.error ? k.error : "no memory to plan");
    if (status == PST_OK) status = verify_choice(&k);
    if (status == PST_OK) {
        k.budget->in_time = ends_in_time(k.budget, &k.budget->row[k.budget->chosen]);
        k.kept->x.budget = k.budget;
        status = pst_planning_answer(&k.kept->x, out);
    }
    close_attempt(k.kept);
    free(k.error);
    free(k.budget);
    return status;
}
