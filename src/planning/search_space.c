/* The search space of `penstock plan`: a key that the run file gives is fixed, all others are open.
 * planning/planning.h declares it. */
#include "planning/planning.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MICRO_BATCH = 64,
    MOST_CHUNKS = 4,
    FEW_DEVICES = 64,
    SOLVED_DEVICES = 64,
    SOLVED_STAGES = 16
};
#define SLOWER 0.9

static void fix(pst_search_values *c, uint64_t value) {
    *c = (pst_search_values){.n = 1, .value = {(uint32_t)value}};
}

static void add(pst_search_values *c, uint32_t value) {
    if (c->n < PST_SEARCH_VALUES && (!c->n || c->value[c->n - 1] < value)) c->value[c->n++] = value;
}

/* Divisors of n and of `others` up to `most`, ascending; only the smallest if there are too
 * many. */
static void divisors_of(pst_search_values *c, uint64_t n, const pst_search_values *others,
                        uint64_t most) {
    c->n = 0;
    for (uint32_t d = 1; d <= n && d <= most; d++) {
        int divides = n % d == 0;
        for (uint32_t i = 0; others && i < others->n; i++) divides |= others->value[i] % d == 0;
        if (divides) add(c, d);
    }
}

/* Where devices may stay unused: all small degrees, then powers of two and divisors. */
static void degrees(pst_search_values *c, uint32_t n, uint32_t most) {
    c->n = 0;
    for (uint32_t d = 1; d <= n && d <= most; d++)
        if (d <= 8 || n % d == 0 || !(d & (d - 1))) add(c, d);
}

/* Whether all n devices must be used. For a small n with few divisors (not 2^a x 3^b), fewer
 * devices may be faster, such as 10 of 11. */
static int use_all(int64_t n) {
    if (n > FEW_DEVICES) return 1;
    while (n % 2 == 0) n /= 2;
    while (n % 3 == 0) n /= 3;
    return n == 1;
}

static uint32_t most_of_a_node(const pst_cluster *c) {
    uint32_t most = 0, here = 0;
    for (uint32_t i = 0; i < c->n_device; i++) {
        here = i && c->device[i].node == c->device[i - 1].node ? here + 1 : 1;
        most = here > most ? here : most;
    }
    return most;
}

/* Whether groups of `n` devices leave no device of any node unused. */
static int fills_nodes(const pst_cluster *c, int64_t group) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < c->n_device; i++) {
        int last = i + 1 == c->n_device || c->device[i + 1].node != c->device[i].node;
        here++;
        if (last && here % group) return 0;
        if (last) here = 0;
    }
    return 1;
}

static int is_given(const pst_planning *x, const char *section, const char *key) {
    return strcmp(x->open, key) && pst_config_given(x->config, section, key);
}

/* The value from the run file; 0: the key is searched. */
static int64_t given(const pst_planning *x, const char *key, int64_t value) {
    return is_given(x, "parallel", key) ? value : 0;
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Candidate numbers of devices without the slow ones, which may delay the others or do not support
 * this precision: the devices at most 10% slower than the fastest, and so on. */
static pst_status choose_fewer(pst_planning *x) {
    const pst_cluster *c = x->cluster;
    double *rate = malloc(c->n_device * sizeof *rate);
    if (!rate) return pst_fail(PST_ENOMEM, "no memory to plan");
    for (uint32_t i = 0; i < c->n_device; i++)
        rate[i] =
            c->device[i].speed * (c->kind ? c->kind[c->device[i].kind].flops[x->model.dtype] : 1);
    qsort(rate, c->n_device, sizeof *rate, descending);
    double like = rate[0];
    for (uint32_t i = 1; i < c->n_device; i++)
        if (rate[i] < SLOWER * like) {
            add(&x->problem.fewer, i);
            like = rate[i];
        }
    free(rate);
    return PST_OK;
}

/* The number of devices that support the precision, if some do and some do not; else 0. */
static uint32_t count_capable(const pst_planning *x) {
    const pst_cluster *c = x->cluster;
    const pst_dtype dtype = pst_dtype_of_precision(x->config->train.precision);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_device; i++)
        n += !c->kind || c->kind[c->device[i].kind].flops[dtype] > 0;
    return n < c->n_device ? n : 0;
}

/* Reads parallel.tensor. A list (tensor ranks of each stage) also fixes the number of stages.
 * *ranks: least number of ranks of a replica. */
static pst_status choose_tensors(pst_planning *x, int64_t tensor, int64_t *pipeline,
                                 int64_t *ranks) {
    const pst_config *c = x->config;
    uint32_t n = tensor ? c->parallel.n_tensors : 0, same = 1;
    x->problem.n_degree = 0;
    x->problem.degree = NULL;
    *ranks = (*pipeline ? *pipeline : 1) * (tensor ? tensor : 1);
    if (n <= 1) return PST_OK;
    if (*pipeline && *pipeline != n)
        return pst_fail(PST_EINPUT,
                        "parallel.tensor has %u numbers, but parallel.pipeline is %" PRId64
                        "; give one number per stage, or one for all stages",
                        n, *pipeline);
    if (!x->degree && !(x->degree = malloc(n * sizeof *x->degree)))
        return pst_fail(PST_ENOMEM, "no memory to plan");
    *pipeline = n;
    *ranks = 0;
    for (uint32_t s = 0; s < n; s++) {
        PST_TRY(pst_prepare_whole("parallel.tensor", c->parallel.tensors[s], 1, PST_RANKS_MAX,
                                  &x->degree[s]));
        *ranks += x->degree[s];
        same &= x->degree[s] == x->degree[0];
    }
    if (!same && is_given(x, "parallel", "sequence") && !strcmp(c->parallel.sequence, "true"))
        return pst_fail(PST_EINPUT, "parallel.sequence true needs the same tensor degree on all "
                                    "stages; omit it, or give parallel.tensor one number");
    if (!same) {
        x->problem.n_degree = n;
        x->problem.degree = x->degree;
    }
    return PST_OK;
}

/* parallel.reproducible.tensor: the tensor degree must divide the number of blocks. */
static pst_status keep_blocks(pst_planning *x) {
    int64_t blocks = x->config->parallel.reproducible_tensor;
    pst_search_values *tensor = &x->problem.tensor, kept = {0};
    if (!blocks) return PST_OK;
    for (uint32_t i = 0; i < tensor->n; i++)
        if (blocks % tensor->value[i] == 0) add(&kept, tensor->value[i]);
    if (!kept.n || x->problem.n_degree)
        return pst_fail(PST_EINPUT,
                        "parallel.tensor must be one number that divides "
                        "parallel.reproducible.tensor, which is %" PRId64,
                        blocks);
    *tensor = kept;
    return PST_OK;
}

/* On GPUs, no tensor ranks with an optimizer of whole parameters. With Muon neither elsewhere,
 * unless they are given: its exchanges between them have no costs here. */
static pst_status choose_for_optimizer(pst_planning *x, int64_t tensor) {
    int gpus = 0;
    for (uint32_t i = 0; i < x->cluster->n_device; i++)
        gpus |= pst_planning_is_gpu(x, x->cluster->device + i);
    if (!x->optim->whole) return PST_OK;
    if (gpus && (tensor > 1 || x->problem.n_degree))
        return pst_fail(PST_EINPUT,
                        "train.optimizer %s on tensor ranks runs on CPUs only; use "
                        "parallel.tensor=1 or adamw",
                        x->optim->name);
    if (gpus || x->optim->kind == PST_OPTIM_MUON) fix(&x->problem.tensor, 1);
    return PST_OK;
}

static pst_status choose_degrees(pst_planning *x) {
    const pst_config *c = x->config;
    pst_search_problem *p = &x->problem;
    uint32_t n = x->cluster->n_device, node = most_of_a_node(x->cluster);
    int64_t pipeline = given(x, "pipeline", c->parallel.pipeline),
            data = given(x, "data", c->parallel.data);
    int64_t tensor = given(x, "tensor", c->parallel.tensor), stages;
    PST_TRY(choose_tensors(x, tensor, &pipeline, &stages));
    int64_t product = stages * (data ? data : 1);
    if (product > n)
        return pst_fail(PST_EINPUT,
                        "parallel.pipeline x data x tensor is at least %" PRId64
                        ", but there are only %u devices",
                        product, n);
    p->tensor_across_nodes = tensor > node;
    p->all_devices =
        !(pipeline && data && tensor) && n % product == 0 && (x->all_ranks || use_all(n / product));
    if (tensor && !x->all_ranks && !p->tensor_across_nodes)
        p->all_devices &= fills_nodes(x->cluster, tensor);
    p->fewer.n = 0;
    if (p->all_devices && !x->all_ranks) PST_TRY(choose_fewer(x));
    p->capable = count_capable(x);
    if (p->all_devices) {
        divisors_of(&p->pipeline, n, &p->fewer, p->n_item);
        divisors_of(&p->data, n, &p->fewer, n);
    } else {
        degrees(&p->pipeline, n, p->n_item);
        degrees(&p->data, n, n);
    }
    /* Heads that a degree does not divide are split unevenly. */
    divisors_of(&p->tensor, x->model.heads ? x->model.heads : 1,
                &(pst_search_values){.n = 1, .value = {node}}, node);
    if (pipeline) fix(&p->pipeline, (uint64_t)pipeline);
    if (data) fix(&p->data, (uint64_t)data);
    PST_TRY(choose_for_optimizer(x, tensor));
    if (tensor) fix(&p->tensor, (uint64_t)tensor);
    return keep_blocks(x);
}

/* parallel.replicas gives the number of micro-batches of each replica, which determines the
 * micro-batch size. */
static pst_status choose_micros(pst_planning *x) {
    const pst_config *c = x->config;
    uint64_t sum = 0;
    uint32_t n = c->parallel.n_replicas;
    if (!n) return PST_OK;
    if (!x->micros && !(x->micros = malloc(n * sizeof *x->micros)))
        return pst_fail(PST_ENOMEM, "no memory to plan");
    for (uint32_t k = 0; k < n; k++) {
        PST_TRY(pst_prepare_whole("parallel.replicas", c->parallel.replicas[k], 1, 1048576,
                                  &x->micros[k]));
        sum += x->micros[k];
    }
    x->problem.micros = x->micros;
    uint64_t size = (uint64_t)c->train.batch / sum;
    int given = is_given(x, "train", "micro_batch");
    if (size * sum != (uint64_t)c->train.batch || (given && size != (uint64_t)c->train.micro_batch))
        return pst_fail(PST_EINPUT,
                        "parallel.replicas: the sum, %" PRIu64
                        " micro-batches, does not divide train.batch %" PRId64 "%s",
                        sum, c->train.batch,
                        given ? "; expected train.batch = sum x train.micro_batch" : "");
    fix(&x->problem.micro_batch, size);
    return PST_OK;
}

/* Islands have equal numbers of replicas. */
static pst_status keep_islands(pst_planning *x) {
    const pst_config *c = x->config;
    const uint64_t islands = (uint64_t)c->parallel.local.islands;
    pst_search_values *data = &x->problem.data, kept = {0};
    if (!islands || pst_prepare_islands(c, 2) == 1) return PST_OK;
    for (uint32_t i = 0; i < data->n; i++)
        if (data->value[i] % islands == 0) add(&kept, data->value[i]);
    *data = kept;
    return kept.n ? PST_OK
                  : pst_fail(PST_EINPUT,
                             "parallel.local.islands=%" PRIu64
                             ": no possible number of replicas (parallel.data) is a multiple of it",
                             islands);
}

/* One replica has no gradients for servers to add. */
static pst_status keep_several(pst_planning *x) {
    pst_search_values *data = &x->problem.data, kept = {0};
    if (!x->servers) return PST_OK;
    for (uint32_t i = 0; i < data->n; i++)
        if (data->value[i] > 1) add(&kept, data->value[i]);
    *data = kept;
    if (kept.n) return PST_OK;
    return pst_config_at(x->config, "parallel", "servers",
                         pst_fail(PST_EINPUT, "parallel.servers add the gradients of several "
                                              "replicas; expected parallel.data of 2 or more"));
}

/* parallel.reproducible has one accumulator per part of a step: the number of replicas must divide
 * it. */
static pst_status choose_replicas(pst_planning *x) {
    const pst_config *c = x->config;
    pst_search_values *data = &x->problem.data, kept = {0};
    if (c->parallel.n_replicas && (data->n > 1 || data->value[0] != c->parallel.n_replicas)) {
        if (is_given(x, "parallel", "data"))
            return pst_fail(PST_EINPUT,
                            "parallel.replicas has %u numbers, but parallel.data is %" PRId64,
                            c->parallel.n_replicas, c->parallel.data);
        fix(data, c->parallel.n_replicas);
    }
    for (uint32_t i = 0; c->parallel.reproducible && i < data->n; i++)
        if (c->parallel.reproducible % data->value[i] == 0) add(&kept, data->value[i]);
    if (c->parallel.reproducible) *data = kept;
    if (!data->n)
        return pst_fail(PST_EINPUT,
                        "parallel.data must divide parallel.reproducible, which is %" PRId64,
                        c->parallel.reproducible);
    return keep_islands(x);
}

/* Layouts are searched with the named schedules, and the orders of the best ones are solved when
 * they are verified. */
static pst_status choose_solved(pst_planning *x) {
    pst_search_values *pipeline = &x->problem.pipeline;
    if (x->cluster->n_device > SOLVED_DEVICES)
        return pst_fail(PST_EINPUT,
                        "penstock plan supports schedule solved for at most %d devices, not %u; "
                        "use -n, or omit parallel.schedule",
                        SOLVED_DEVICES, x->cluster->n_device);
    while (pipeline->n > 1 && pipeline->value[pipeline->n - 1] > SOLVED_STAGES) pipeline->n--;
    return PST_OK;
}

/* Without a memory limit, solved orders may hold no more micro-batches than 1f1b does
 * (prepare/solved.c). */
static pst_status choose_all_schedules(pst_planning *x) {
    pst_search_problem *p = &x->problem;
    const int less = p->reorders && x->config->parallel.memory <= 0;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    p->n_schedule = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (row[i].kind != PST_SCHEDULE_GENERATED || (less && !row[i].within_1f1b) ||
            !pst_planning_allows_schedule(x, row + i))
            continue;
        if (p->n_schedule == PST_SEARCH_SCHEDULES)
            return pst_fail(PST_EINTERNAL, "cannot search more than %d schedules: no room for %s",
                            PST_SEARCH_SCHEDULES, row[i].name);
        p->schedule[p->n_schedule++] = row[i].name;
    }
    return PST_OK;
}

static pst_status choose_schedule(pst_planning *x) {
    const pst_config *c = x->config;
    pst_search_problem *p = &x->problem;
    const pst_schedule_row *row;
    p->reorders = is_given(x, "parallel", "schedule") &&
                  pst_schedule_kind_of(c->parallel.schedule) == PST_SCHEDULE_SOLVED;
    if (p->reorders) PST_TRY(choose_solved(x));
    else if (is_given(x, "parallel", "schedule")) {
        PST_TRY(pst_config_at(c, "parallel", "schedule",
                              pst_schedule_find(c->parallel.schedule, &row)));
        if (row->kind != PST_SCHEDULE_GENERATED)
            return pst_fail(PST_EINPUT,
                            "penstock plan does not support schedule %s; omit parallel.schedule or "
                            "choose another one",
                            row->name);
        p->n_schedule = 1;
        p->schedule[0] = row->name;
        return PST_OK;
    }
    return choose_all_schedules(x);
}

/* Other programs recompute layer by layer; FSDP all layers or none. */
static void allow_modes(pst_planning *x) {
    const int other = pst_costs_program_is_other(&x->program);
    uint8_t *allowed = x->problem.recompute;
    for (pst_recompute mode = PST_RECOMPUTE_NONE; mode <= PST_RECOMPUTE_FULL; mode++) {
        char text[PST_RECOMPUTE_TEXT];
        allowed[mode] =
            (uint8_t)pst_planning_allows(x, "recompute", pst_recompute_text(mode, text));
    }
    allowed[PST_RECOMPUTE_LAYERS] = allowed[PST_RECOMPUTE_FULL];
    if (other) allowed[PST_RECOMPUTE_FULL] = 0;
    if (!pst_planning_allows(x, "recompute", "{full: 1}"))
        x->problem.layers = PST_RECOMPUTE_MOST_LAYERS;
}

static pst_status choose_recompute(pst_planning *x) {
    const pst_config *c = x->config;
    pst_search_problem *p = &x->problem;
    pst_recompute_way way;
    memset(p->recompute, 0, sizeof p->recompute);
    p->layers = 0;
    if (!is_given(x, "parallel", "recompute")) {
        allow_modes(x);
        return PST_OK;
    }
    if (c->parallel.n_recompute != 1)
        return pst_fail(PST_EINPUT, "parallel.recompute: expected one mode for all chunks; omit it "
                                    "to choose a mode per chunk");
    if (pst_config_chooses_layers(c->parallel.recompute[0])) {
        p->recompute[PST_RECOMPUTE_NONE] = p->recompute[PST_RECOMPUTE_LAYERS] = 1;
        return PST_OK;
    }
    PST_TRY(pst_recompute_find(c->parallel.recompute[0], &way));
    if (way == PST_RECOMPUTE_FULL && pst_costs_program_is_other(&x->program))
        way = pst_recompute_of_layers(PST_RECOMPUTE_MOST_LAYERS);
    p->recompute[pst_recompute_mode(way)] = 1;
    p->layers = pst_recompute_layers(way);
    return PST_OK;
}

static void choose_zero(pst_planning *x) {
    static const char *const stages[] = {"0", "1", "2"};
    x->problem.zero.n = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (pst_planning_allows(x, "zero", stages[i])) add(&x->problem.zero, i);
}

/* Whether every step may end with a smaller micro-batch. */
static int may_divide_unevenly(const pst_planning *x) {
    return strcmp(x->config->train.precision, "fp8") != 0 &&
           !pst_costs_program_is_other(&x->program) && !x->problem.least_batch;
}

/* Sizes with a smaller first micro-batch. */
static const uint8_t uneven_size[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

/* Whether there is no divisor of the batch from size k of these down to the next one. */
static int is_missing(uint64_t batch, size_t k) {
    for (uint32_t d = k ? uneven_size[k - 1] + 1u : 2; d <= uneven_size[k]; d++)
        if (batch % d == 0) return 0;
    return 1;
}

static int is_uneven_size(uint64_t batch, uint32_t size) {
    for (size_t k = 0; k < sizeof uneven_size; k++)
        if (uneven_size[k] == size) return is_missing(batch, k);
    return 0;
}

/* The divisors of the batch, and where these are far apart, other sizes. */
static void choose_micro_batch(pst_planning *x) {
    pst_search_values *to = &x->problem.micro_batch;
    const uint64_t batch = x->problem.least_batch ? x->problem.least_batch : x->problem.batch;
    const int unevenly = may_divide_unevenly(x);
    to->n = 0;
    for (uint32_t d = 1; d <= batch && d <= MOST_MICRO_BATCH; d++)
        if (batch % d == 0 || (unevenly && is_uneven_size(batch, d))) add(to, d);
}

static void choose_rest(pst_planning *x) {
    const pst_config *c = x->config;
    pst_search_problem *p = &x->problem;
    if (is_given(x, "train", "micro_batch")) fix(&p->micro_batch, (uint64_t)c->train.micro_batch);
    else choose_micro_batch(x);
    fix(&p->chunks, 0);
    if (is_given(x, "parallel", "chunks")) fix(&p->chunks, (uint64_t)c->parallel.chunks);
    else
        for (uint32_t k = 3; k <= MOST_CHUNKS; k++) add(&p->chunks, k);
    if (is_given(x, "parallel", "zero")) fix(&p->zero, (uint64_t)c->parallel.zero);
    else choose_zero(x);
    if (x->servers) fix(&p->zero, 1); /* owners update */
    const int islands = pst_prepare_islands(c, 2) > 1;
    if (islands && !c->parallel.local.islands) fix(&p->zero, 0); /* has no effect */
    if (p->zero.n == 3 && (islands || strcmp(c->parallel.compress.up, "none") != 0)) p->zero.n = 2;
    if (p->zero.n == 3 && !strcmp(c->parallel.exchange, "two-level")) p->zero.n = 2;
    if (p->zero.n > 1 && strcmp(c->parallel.compress.down, "none") != 0) fix(&p->zero, 1);
    if (is_given(x, "parallel", "sequence"))
        fix(&p->sequence, !strcmp(c->parallel.sequence, "true"));
    else p->sequence = (pst_search_values){.n = 2, .value = {0, 1}};
}

/* Keys that no layout with several replicas goes with. */
static pst_status check_exchange(const pst_planning *x) {
    const pst_config *c = x->config;
    const char *why = pst_prepare_why_flat(c);
    if (!why || strcmp(c->parallel.exchange, "two-level") != 0) return PST_OK;
    if (given(x, "data", c->parallel.data) == 1 || x->cluster->n_device == 1) return PST_OK;
    return pst_config_at(c, "parallel", "exchange", pst_fail(PST_EINPUT, "%s", why));
}

static pst_status check_micro_batch(const pst_planning *x) {
    const pst_config *c = x->config;
    if (!is_given(x, "train", "micro_batch")) return PST_OK;
    return pst_config_at(c, "train", "micro_batch",
                         pst_prepare_check_micro(c, &x->program, (uint64_t)c->train.batch,
                                                 (uint64_t)c->train.micro_batch));
}

pst_status pst_planning_search_space(pst_planning *x) {
    if (x->config->parallel.n_devices)
        return pst_fail(
            PST_EINPUT,
            "parallel.devices: penstock plan assigns devices to ranks itself; omit the key");
    PST_TRY(check_exchange(x));
    PST_TRY(check_micro_batch(x));
    PST_TRY(choose_degrees(x));
    PST_TRY(choose_replicas(x));
    PST_TRY(keep_several(x));
    PST_TRY(choose_schedule(x));
    PST_TRY(choose_recompute(x));
    choose_rest(x);
    return choose_micros(x);
}
