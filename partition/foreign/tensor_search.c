/* Whether all nodes fit into stages that take at most so long: from the last stage to the first,
 * over pairs of downsets of the reversed graph. For a downset and a sum of replicas only the fewest
 * devices matter, and for a stage with given later stages the fewest replicas that are fast enough
 * and fit. See tensor.h. */
#include "partition/foreign/tensor.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIVISORS = 512, NOWHERE = UINT32_MAX };

/* Sums over the nodes of the growing stage, for one tensor degree, each node in its fastest
 * variant. */
typedef struct {
    double seconds;  /* time and transfers; d replicas take 1/d of it each */
    double exchange; /* parameters; d replicas exchange (d - 1)/d of it */
    double memory_a, memory_b;
    double least_time, least_memory; /* in the smallest variants with one micro-batch in flight:
                                        never less for a larger stage */
    uint32_t absent, uneven; /* nodes without a variant; with variants that differ in parameters */
} sums;

typedef struct {
    uint32_t downset, edge, node;
    sums of[PST_TENSOR_DEGREES];
} frame;

typedef struct {
    const pst_tensor_problem *p;
    const pst_downset_list *list;
    const pst_tensor_range *range;
    uint32_t n_s; /* sums of replicas: 0 to n_s - 1 */
    uint32_t n_divisor, divisor[MOST_DIVISORS];
    uint32_t *fewest; /* [downset][n_s] devices, or NOWHERE */
    uint32_t *from;   /* the downset of the later stages, */
    uint16_t *how;    /* this stage's degree * MOST_DIVISORS + divisor, both as indices */
    double *done;     /* [downset] device seconds of its nodes */
    uint32_t *seen;   /* [downset] 1 + the last root that reached it */
    uint8_t *in;      /* [node] in the stage */
    double *seconds;  /* [node][degree][way] of its nodes */
    uint32_t *member; /* its nodes, in the order of the frames */
    pst_tensor_item *item;
    pst_tensor_swap *swap;
    frame *stack;
    /* sums of replicas of the root, each with fewer devices than those before */
    uint32_t *state, n_state;
    uint32_t fits[MOST_DIVISORS], never[MOST_DIVISORS]; /* by divisor: most micro-batches in flight
                                                           that fit, fewest that do not */
    int doubt;
} search;

double pst_tensor_work(const pst_tensor_problem *p, uint32_t node) {
    double least = INFINITY;
    for (uint32_t t = 0; t < p->n_degree; t++)
        for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++) {
            const pst_tensor_way *way = pst_tensor_way_of(p, node, t, w);
            if (way->name[0]) least = fmin(least, way->time * p->degree[t]);
        }
    return isfinite(least) ? least : 0;
}

/* --- tables ----------------------------------------------------------------------------------- */

static void search_close(search *s) {
    void *all[] = {s->fewest,  s->from,   s->how,  s->done, s->seen,  s->in,
                   s->seconds, s->member, s->item, s->swap, s->stack, s->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static pst_status search_open(search *s) {
    const pst_tensor_problem *p = s->p;
    s->n_s = (p->micro_batches < p->devices ? p->micro_batches : p->devices) + 1;
    for (uint32_t d = 1; d < s->n_s && s->n_divisor < MOST_DIVISORS; d++)
        if (p->micro_batches % d == 0) s->divisor[s->n_divisor++] = d;
    size_t n = s->list->n, cells = n * s->n_s, nodes = (size_t)p->n_node + 1;
    if (!(s->fewest = malloc(cells * sizeof *s->fewest)) ||
        !(s->from = malloc(cells * sizeof *s->from)) ||
        !(s->how = malloc(cells * sizeof *s->how)) || !(s->done = calloc(n, sizeof *s->done)) ||
        !(s->seen = calloc(n, sizeof *s->seen)) || !(s->in = calloc(nodes, 1)) ||
        !(s->seconds = calloc(nodes * p->n_degree * PST_TENSOR_WAYS, sizeof *s->seconds)) ||
        !(s->member = calloc(nodes, sizeof *s->member)) ||
        !(s->item = calloc(nodes, sizeof *s->item)) ||
        !(s->swap = calloc(nodes, sizeof *s->swap)) ||
        !(s->stack = calloc(nodes, sizeof *s->stack)) ||
        !(s->state = calloc(s->n_s, sizeof *s->state)))
        return pst_no_memory("to search the stages of a graph");
    for (size_t i = 0; i < cells; i++) s->fewest[i] = NOWHERE;
    s->fewest[0] = 0;
    for (uint32_t d = 1; d < n; d++)
        s->done[d] = s->done[s->list->parent[d]] + pst_tensor_work(p, s->list->last[d]);
    return PST_OK;
}

/* --- a growing stage -------------------------------------------------------------------------- */

static double *seconds_of(const search *s, uint32_t v, uint32_t t) {
    return &s->seconds[((size_t)v * s->p->n_degree + t) * PST_TENSOR_WAYS];
}

static double exchange_of(const pst_tensor_problem *p, const pst_tensor_way *way) {
    return 4 * way->parameters / p->micro_batches / p->bandwidth;
}

/* Adds (sign 1) or subtracts (-1) a node in the sums for degree t. */
static void count_node(const search *s, uint32_t v, uint32_t t, double sign, sums *of) {
    const pst_tensor_way *way = pst_tensor_way_of(s->p, v, t, 0);
    const double *seconds = seconds_of(s, v, t);
    uint32_t fast = !way[0].name[0] || (way[1].name[0] && seconds[1] < seconds[0]);
    if (!way[fast].name[0]) return;
    of->seconds += sign * seconds[fast];
    of->exchange += sign * exchange_of(s->p, &way[fast]);
    of->memory_a += sign * way[fast].memory_a;
    of->memory_b += sign * way[fast].memory_b;
}

/* What does not depend on the rest of the stage. */
static void count_fixed(const search *s, uint32_t v, uint32_t t, sums *of) {
    const pst_tensor_way *way = pst_tensor_way_of(s->p, v, t, 0);
    double time = INFINITY, memory = INFINITY;
    for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++)
        if (way[w].name[0]) {
            time = fmin(time, way[w].time);
            memory = fmin(memory, way[w].memory_a + way[w].memory_b);
        }
    if (isinf(time)) {
        of->absent++;
        return;
    }
    of->least_time += time;
    of->least_memory += memory;
    of->uneven += way[0].name[0] && way[1].name[0] && way[0].parameters != way[1].parameters;
}

/* Edge i of v (among its own) starts or stops leaving the stage. */
static void turn_edge(const search *s, uint32_t v, uint32_t i, double sign) {
    const pst_tensor_edge *e = &s->p->edge[s->p->at[s->p->first[v] + i]];
    for (uint32_t t = 0; t < s->p->n_degree; t++)
        for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++)
            seconds_of(s, v, t)[w] +=
                sign * 2 * (e->bytes + pst_tensor_extra(s->p, v, t, w)[i]) / s->p->bandwidth;
}

static uint32_t other_end(const pst_tensor_edge *e, uint32_t v) {
    return e->from == v ? e->to : e->from;
}

/* The edges from v to nodes of the stage stop leaving it (sign -1), or leave it again (1). of: NULL
 * or the sums. */
static void turn_neighbours(const search *s, uint32_t v, double sign, sums *of) {
    const pst_tensor_problem *p = s->p;
    for (uint32_t i = p->first[v]; i < p->first[v + 1]; i++) {
        uint32_t u = other_end(&p->edge[p->at[i]], v), j = p->first[u];
        if (!s->in[u] || u == v) continue;
        while (p->at[j] != p->at[i]) j++;
        for (uint32_t t = 0; of && t < p->n_degree; t++) count_node(s, u, t, -1, &of[t]);
        turn_edge(s, u, j - p->first[u], sign);
        for (uint32_t t = 0; of && t < p->n_degree; t++) count_node(s, u, t, 1, &of[t]);
    }
}

static void take(search *s, uint32_t v, sums *of) {
    const pst_tensor_problem *p = s->p;
    turn_neighbours(s, v, -1, of);
    for (uint32_t t = 0; t < p->n_degree; t++)
        for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++)
            seconds_of(s, v, t)[w] = pst_tensor_way_of(p, v, t, w)->time;
    for (uint32_t i = p->first[v]; i < p->first[v + 1]; i++)
        if (!s->in[other_end(&p->edge[p->at[i]], v)]) turn_edge(s, v, i - p->first[v], 1);
    s->in[v] = 1;
    for (uint32_t t = 0; t < p->n_degree; t++) {
        count_node(s, v, t, 1, &of[t]);
        count_fixed(s, v, t, &of[t]);
    }
}

static void give_back(search *s, uint32_t v) {
    s->in[v] = 0;
    turn_neighbours(s, v, 1, NULL);
}

/* --- one stage -------------------------------------------------------------------------------- */

static pst_tensor_fit pack(search *s, uint32_t n, uint32_t t, uint32_t d, uint32_t in_flight,
                           uint8_t *way) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++) {
            const pst_tensor_way *of = pst_tensor_way_of(s->p, s->member[i], t, w);
            pst_tensor_item *to = &s->item[i];
            to->cost[w] =
                of->name[0]
                    ? (seconds_of(s, s->member[i], t)[w] + (d - 1) * exchange_of(s->p, of)) / d
                    : INFINITY;
            to->bytes[w] = of->name[0] ? of->memory_a * in_flight + of->memory_b : INFINITY;
        }
    return pst_tensor_pack(s->item, n, s->range->limit * (1 + 1e-12), s->p->memory, s->swap, way);
}

/* Returns 1 if the stage is fast enough and fits, with the i-th number of replicas and `in_flight`
 * micro-batches in flight. */
static int works(search *s, const sums *of, uint32_t n, uint32_t t, uint32_t i,
                 uint32_t in_flight) {
    uint32_t d = s->divisor[i];
    if (in_flight <= s->fits[i]) return 1;
    if (in_flight >= s->never[i]) return 0;
    int yes;
    if (!of->uneven && (of->seconds + (d - 1) * of->exchange) / d > s->range->limit * (1 + 1e-12)) {
        yes = 0;
        in_flight = 0;
    } else if (!of->uneven && of->memory_a * in_flight + of->memory_b <= s->p->memory) yes = 1;
    else {
        pst_tensor_fit fit = pack(s, n, t, d, in_flight, NULL);
        s->doubt |= fit == PST_TENSOR_UNKNOWN;
        yes = fit == PST_TENSOR_FITS;
    }
    if (yes) s->fits[i] = in_flight;
    else s->never[i] = in_flight;
    return yes;
}

static void offer_degree(search *s, uint32_t root, const frame *f, uint32_t n, uint32_t t) {
    const sums *of = &f->of[t];
    const uint32_t *before = s->fewest + (size_t)root * s->n_s, degree = s->p->degree[t];
    size_t after = (size_t)f->downset * s->n_s;
    double rest = s->done[s->list->n - 1] - s->done[f->downset];
    uint32_t lowest = 0;
    for (uint32_t i = 0; i < s->n_divisor; i++) {
        s->fits[i] = 0;
        s->never[i] = NOWHERE;
    }
    while (lowest < s->n_divisor &&
           of->least_time > s->range->limit * (1 + 1e-12) * s->divisor[lowest])
        lowest++;
    for (uint32_t k = 0; k < s->n_state; k++)
        for (uint32_t i = lowest; i < s->n_divisor; i++) {
            uint32_t d = s->divisor[i], sum = s->state[k] + d, devices = before[s->state[k]];
            if (sum >= s->n_s || degree * d > s->p->devices - devices) break;
            devices += degree * d;
            if (devices >= s->fewest[after + sum] ||
                rest > s->range->limit * (s->p->devices - devices) * (1 + 1e-9))
                break;
            if (!works(s, of, n, t, i, (sum + d - 1) / d)) continue;
            s->fewest[after + sum] = devices;
            s->from[after + sum] = root;
            s->how[after + sum] = (uint16_t)(t * MOST_DIVISORS + i);
            break;
        }
}

/* Whether this stage, or a larger one, is possible on the devices that the root leaves. */
static int may_grow(const search *s, const sums *of, uint32_t devices) {
    for (uint32_t t = 0; t < s->p->n_degree; t++)
        if (!of[t].absent && of[t].least_memory <= s->p->memory * (1 + 1e-12) &&
            of[t].least_time * s->p->degree[t] <= s->range->limit * devices * (1 + 1e-12))
            return 1;
    return 0;
}

/* --- the pass --------------------------------------------------------------------------------- */

static void find_states(search *s, uint32_t root) {
    uint32_t least = NOWHERE;
    s->n_state = 0;
    for (uint32_t sum = 0; sum < s->n_s; sum++) {
        uint32_t devices = s->fewest[(size_t)root * s->n_s + sum];
        if (devices < least) {
            s->state[s->n_state++] = sum;
            least = devices;
        }
    }
}

static void stages_from(search *s, uint32_t root) {
    const pst_downset_list *l = s->list;
    uint32_t left = s->p->devices - s->fewest[(size_t)root * s->n_s + s->state[s->n_state - 1]];
    s->stack[0] = (frame){.downset = root, .edge = l->first[root]};
    for (uint32_t depth = 0;;) {
        frame *f = &s->stack[depth];
        if (f->edge == l->first[f->downset + 1]) {
            if (depth-- == 0) return;
            give_back(s, f->node);
            continue;
        }
        uint32_t next = l->next[f->edge], node = l->item[f->edge];
        f->edge++;
        if (s->seen[next] == root + 1) continue;
        s->seen[next] = root + 1;
        frame *g = f + 1;
        g->downset = next;
        g->node = node;
        g->edge = l->first[next];
        memcpy(g->of, f->of, s->p->n_degree * sizeof *g->of);
        s->member[depth] = node;
        take(s, node, g->of);
        if (!may_grow(s, g->of, left)) {
            give_back(s, node);
            continue;
        }
        for (uint32_t t = 0; t < s->p->n_degree; t++)
            if (!g->of[t].absent) offer_degree(s, root, g, depth + 1, t);
        depth++;
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

/* Makes the nodes of downset d that are not in its later stages the stage number `part`. */
static pst_status stage_of(search *s, uint32_t d, uint32_t sum, uint32_t part,
                           pst_tensor_plan *plan) {
    size_t cell = (size_t)d * s->n_s + sum;
    uint32_t t = s->how[cell] / MOST_DIVISORS, replicas = s->divisor[s->how[cell] % MOST_DIVISORS],
             n = 0;
    uint8_t *way = calloc((size_t)s->p->n_node + 1, 1);
    sums of[PST_TENSOR_DEGREES] = {0};
    if (!way) return pst_no_memory("to search the stages of a graph");
    for (uint32_t e = d; e; e = s->list->parent[e]) s->in[s->list->last[e]] ^= 1;
    for (uint32_t e = s->from[cell]; e; e = s->list->parent[e]) s->in[s->list->last[e]] ^= 1;
    for (uint32_t v = 0; v < s->p->n_node; v++)
        if (s->in[v]) {
            s->member[n++] = v;
            s->in[v] = 0;
        }
    for (uint32_t i = 0; i < n; i++) take(s, s->member[i], of);
    pst_tensor_fit fit = pack(s, n, t, replicas, (sum + replicas - 1) / replicas, way);
    for (uint32_t i = 0; i < n; i++) {
        plan->part_of[s->member[i]] = part;
        plan->way[s->member[i]] = way[i];
        s->in[s->member[i]] = 0;
    }
    plan->degree[part] = s->p->degree[t];
    plan->data[part] = replicas;
    free(way);
    return fit == PST_TENSOR_FITS
               ? PST_OK
               : pst_fail(PST_EINTERNAL,
                          "the search returned a stage that does not fit in device memory");
}

static pst_status plan_of(search *s, uint32_t sum, pst_tensor_plan *plan) {
    size_t n = (size_t)s->p->n_node + 1;
    pst_status status = PST_OK;
    *plan = (pst_tensor_plan){.part_of = calloc(n, sizeof *plan->part_of),
                              .way = calloc(n, 1),
                              .degree = calloc(n, sizeof *plan->degree),
                              .data = calloc(n, sizeof *plan->data)};
    if (!plan->part_of || !plan->way || !plan->degree || !plan->data)
        status = pst_no_memory("to search the stages of a graph");
    for (uint32_t d = s->list->n - 1; status == PST_OK && d;) {
        size_t cell = (size_t)d * s->n_s + sum;
        status = stage_of(s, d, sum, plan->n_part++, plan);
        sum -= s->divisor[s->how[cell] % MOST_DIVISORS];
        d = s->from[cell];
    }
    if (status != PST_OK) pst_tensor_plan_close(plan);
    return status;
}

static pst_status run(search *s, int *found, pst_tensor_plan *plan) {
    for (uint32_t root = 0; root + 1 < s->list->n; root++) {
        if (pst_monotonic_ns() > s->range->until_ns) return PST_BUSY;
        find_states(s, root);
        if (s->n_state) stages_from(s, root);
    }
    find_states(s, s->list->n - 1);
    *found = s->n_state > 0;
    return *found ? plan_of(s, s->state[0], plan) : PST_OK;
}

pst_status pst_tensor_search(const pst_tensor_problem *problem, const pst_downset_list *list,
                             const pst_tensor_range *range, int *found, int *doubt,
                             pst_tensor_plan *plan) {
    search *s = calloc(1, sizeof *s);
    if (!s) return pst_no_memory("to search the stages of a graph");
    s->p = problem;
    s->list = list;
    s->range = range;
    pst_status status = search_open(s);
    if (status == PST_OK) status = run(s, found, plan);
    *doubt = s->doubt;
    search_close(s);
    free(s);
    return status;
}
