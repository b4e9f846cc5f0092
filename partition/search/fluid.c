/* Lower bound of a pipeline from a fluid model. See fluid.h. Points of the linear program have a
 * share of the layers for each chunk and mode of recomputation; operators before the first layer
 * are on the first chunk, those behind the last layer on the last one. Memory that a stage lacks
 * makes its paths longer. Between two solutions, paths are taken from the middle between the best
 * point so far and the solution, which needs fewer of them. */
#include "partition/search/fluid.h"
#include "partition/search/game.h"
#include "partition/search/paths.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MOST_EFFORT: of a configuration and chunk of the large operator, after which no more paths are
 * added. */
enum { MOST_EFFORT = 300000000 };
enum { MOST_ROWS = 256, MOST_FUNCTIONS = 480, ROUNDS = 48, PATHS_A_ROUND = 6 };
#define NEAR 1.004
/* ns per byte of a stage that lacks memory, times the work of all layers per byte of all */
#define DEAR 8

typedef struct {
    double f, b, w, e; /* ns, and elements of parameters */
} amount;

typedef struct {
    pst_search_context *x;
    const pst_search_config *c;
    const pst_search_pipeline *of;
    const pst_search_paths *paths;
    double enough_ns;
    pst_search_price price;
    pst_search_game *game;
    uint32_t p, n_chunk, n_row; /* n_row: chunks with layers times modes */
    uint32_t n_mode, fastest;   /* modes in use: all, or the fastest one only */
    uint32_t from, to;          /* the layers are operators [from, to) */
    /* the largest operator behind them, and its chunk, the last one with layers; PST_NONE: there
     * is none behind */
    uint32_t large, chunk;
    amount *layers, *rest;         /* [n_chunk] all layers on the chunk; the other operators */
    double *again;                 /* [n_row] recomputation of all layers */
    double *bytes;                 /* [n_row] memory of all layers */
    double *room, *dear;           /* [p] memory for layers; price of a byte that lacks */
    double *f, *b, *w, *e;         /* [n_chunk] of a point */
    double *release;               /* [p] */
    double *best, *solved, *point; /* [n_row] points */
    double *value;                 /* [n_row] of a function */
    double *weight;                /* [MOST_FUNCTIONS] */
    pst_search_path path;
    /* of each function: how often it has F, B and W of a chunk, and its elements; [5][n_chunk], the
     * last one the price of a byte by stage; its constant; how many passes it has */
    double *part, *constant;
    uint32_t n, most_passes;
} fluid;

static uint32_t mode_of(const fluid *a, uint32_t q) { return a->n_mode == 1 ? a->fastest : q; }

static uint32_t stage_of(const fluid *a, uint32_t chunk) { return a->price.flight->stage[chunk]; }

/* --- amounts ---------------------------------------------------------------------------------- */

static amount amount_of(const pst_search_table *t, double speed, uint32_t from, uint32_t to) {
    return (amount){(double)pst_search_run(t, PST_SEARCH_SUM_F, from, to) / speed,
                    (double)pst_search_run(t, PST_SEARCH_SUM_B, from, to) / speed,
                    (double)pst_search_run(t, PST_SEARCH_SUM_W, from, to) / speed,
                    (double)pst_search_run(t, PST_SEARCH_SUM_ELEMENTS, from, to)};
}

static uint64_t work_of(const pst_search_table *t, uint32_t i) {
    return pst_search_run(t, PST_SEARCH_SUM_FBW + PST_RECOMPUTE_NONE, i, i + 1);
}

static void find_layers(fluid *a, const pst_search_table *t) {
    a->from = 0;
    a->to = t->table->n;
    a->large = PST_NONE;
    if (!t->n_layer) return;
    a->from = t->layer_first[0];
    a->to = t->layer_end[t->n_layer - 1];
    for (uint32_t i = a->to; i < t->table->n; i++)
        if (a->large == PST_NONE || work_of(t, i) > work_of(t, a->large)) a->large = i;
}

/* Bytes of operators [from, to) on a chunk that recomputes with the mode of this index. */
static double bytes_of(const fluid *a, uint32_t chunk, uint32_t mode, uint32_t from, uint32_t to) {
    const pst_search_flight *f = a->price.flight;
    const pst_search_way_sums *way = &a->price.way[mode];
    double bytes = a->price.own[to] - a->price.own[from];
    bytes += f->f_to_b[chunk] * (way->f_to_b[to] - way->f_to_b[from]);
    if (!f->b_to_w[chunk]) return bytes;
    return bytes + (f->f_to_w[chunk] - f->f_to_b[chunk]) * (way->to_w[to] - way->to_w[from]) +
           f->b_to_w[chunk] * (way->apart[to] - way->apart[from]);
}

static double least_bytes(const fluid *a, uint32_t chunk, uint32_t from, uint32_t to) {
    double least = INFINITY;
    for (uint32_t q = 0; q < a->price.n_mode && from < to; q++)
        least = pst_search_min(least, bytes_of(a, chunk, q, from, to));
    return least < INFINITY ? least : 0;
}

static void fill_memory(fluid *a) {
    const uint32_t n = a->price.n_item, last = a->chunk;
    for (uint32_t s = 0; s < a->p; s++) {
        a->room[s] = (double)a->of->stage[s].capacity;
        a->dear[s] = 0;
    }
    a->room[stage_of(a, 0)] -= least_bytes(a, 0, 0, a->from);
    a->room[stage_of(a, last)] -= least_bytes(a, last, a->to, n);
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        const amount *all = &a->layers[k];
        const double least = least_bytes(a, k, a->from, a->to);
        const uint32_t s = stage_of(a, k);
        if (k) a->room[s] -= (double)a->price.least_enter * a->price.flight->f_to_b[k];
        for (uint32_t q = 0; q < a->n_mode; q++)
            a->bytes[k * a->n_mode + q] = bytes_of(a, k, mode_of(a, q), a->from, a->to);
        if (least > 0)
            a->dear[s] =
                pst_search_max(a->dear[s], DEAR * a->of->m * (all->f + all->b + all->w) / least);
    }
}

static void add_amount(amount *to, amount of) {
    to->f += of.f;
    to->b += of.b;
    to->w += of.w;
    to->e += of.e;
}

static void fill_amounts(fluid *a) {
    const uint32_t n = a->price.n_item, last = a->n_chunk - 1,
                   end = a->large == PST_NONE ? n : a->large + 1;
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        const pst_search_fluid_stage *s = &a->of->stage[stage_of(a, k)];
        const double *const *again =
            (const double *const *)a->price.time[a->price.time_of[k]].again_ns;
        a->layers[k] = amount_of(s->table, s->speed, a->from, a->to);
        a->rest[k] = (amount){0, 0, 0, 0};
        if (!k) a->rest[k] = amount_of(s->table, s->speed, 0, a->from);
        if (k == a->chunk) add_amount(&a->rest[k], amount_of(s->table, s->speed, a->to, end));
        if (k == last) add_amount(&a->rest[k], amount_of(s->table, s->speed, end, n));
        for (uint32_t q = 0; q < a->n_mode; q++)
            a->again[k * a->n_mode + q] =
                again[mode_of(a, q)][a->to] - again[mode_of(a, q)][a->from];
    }
    fill_memory(a);
}

/* --- a point ---------------------------------------------------------------------------------- */

static void spread(fluid *a, const double *point) {
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        const amount *all = &a->layers[k], *rest = &a->rest[k];
        double share = 0, again = 0;
        for (uint32_t q = 0; q < a->n_mode && k <= a->chunk; q++) {
            const uint32_t i = k * a->n_mode + q;
            share += point[i];
            again += point[i] * a->again[i];
        }
        a->f[k] = rest->f + share * all->f;
        a->b[k] = rest->b + share * all->b + again;
        a->w[k] = rest->w + share * all->w;
        a->e[k] = rest->e + share * all->e;
    }
    for (uint32_t s = 0; s < a->p; s++) a->release[s] = a->of->stage[s].gather * a->e[s];
}

static double elements_of(const fluid *a, uint32_t stage) {
    double sum = 0;
    for (uint32_t k = 0; k < a->n_chunk; k++) sum += stage_of(a, k) == stage ? a->e[k] : 0;
    return sum;
}

/* Bytes by which a stage exceeds its memory, times their price. */
static double lacking(const fluid *a, const double *point, uint32_t stage) {
    double sum = -a->room[stage];
    if (!a->price.limited || a->of->stage[stage].capacity == UINT64_MAX) return 0;
    for (uint32_t k = 0; k <= a->chunk; k++)
        for (uint32_t q = 0; q < a->n_mode && stage_of(a, k) == stage; q++)
            sum += point[k * a->n_mode + q] * a->bytes[k * a->n_mode + q];
    return pst_search_max(sum, 0) * a->dear[stage];
}

/* How a stage's path ends: with sums of gradients after all passes, or beside the last one, or
 * hidden; or it has only sums, one of each micro-batch (zero 2). */
typedef enum { HIDDEN, BESIDE, AFTER, ONLY } ending;

/* Passes of the stage that may run beside its sums. */
static int may_be_beside(const fluid *a, uint32_t chunk, uint32_t stage) {
    const int split = a->x->row[a->c->schedule]->split;
    return stage_of(a, chunk) == stage && (split || !chunk);
}

static double last_of(const fluid *a, uint32_t stage) {
    const int split = a->x->row[a->c->schedule]->split;
    double last = 0;
    for (uint32_t k = 0; k < a->n_chunk; k++)
        if (may_be_beside(a, k, stage)) last += (split ? 0 : a->b[k]) + a->w[k];
    return last;
}

static double sums_of(const fluid *a, uint32_t stage) {
    const double sum = a->of->stage[stage].sum;
    return sum * (a->c->zero == 2 ? a->e[stage] : elements_of(a, stage));
}

/* When a stage ends. */
static double end_of(const fluid *a, uint32_t stage, ending *how) {
    const pst_search_fluid_stage *s = &a->of->stage[stage];
    const double sums = sums_of(a, stage), last = last_of(a, stage);
    *how = AFTER;
    if (pst_search_overlaps_sums(a->x->problem, a->c)) *how = sums > last ? BESIDE : HIDDEN;
    const double rest = (s->norm + s->step) * elements_of(a, stage),
                 all = a->c->zero == 2 ? a->of->m * s->sum * elements_of(a, stage) : 0;
    double end = a->paths->end[a->paths->last[stage]];
    if (*how == BESIDE) end -= last;
    if (*how != HIDDEN) end += sums;
    if (all > end) *how = ONLY;
    return pst_search_max(end, all) + rest;
}

/* --- functions -------------------------------------------------------------------------------- */

static pst_search_durations durations_of(const fluid *a) {
    return (pst_search_durations){a->f, a->b, a->w, a->of->hop, a->release, a->of->first};
}

static void add_ending(const fluid *a, uint32_t stage, ending how, double *part) {
    const pst_search_fluid_stage *s = &a->of->stage[stage];
    const int split = a->x->row[a->c->schedule]->split;
    double *b = part + a->n_chunk, *w = part + 2 * (size_t)a->n_chunk,
           *e = part + 3 * (size_t)a->n_chunk;
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        if (stage_of(a, k) != stage) continue;
        e[k] += s->norm + s->step + (how == ONLY ? a->of->m * s->sum : 0);
        if (how == ONLY) continue;
        if (how != HIDDEN && (a->c->zero < 2 || k == stage)) e[k] += s->sum;
        if (how != BESIDE || !may_be_beside(a, k, stage)) continue;
        w[k] -= 1;
        b[k] -= split ? 0 : 1;
    }
}

/* Parts of the path to the end of a stage, at the last point. */
static void take_path(fluid *a, uint32_t stage, ending how) {
    const pst_search_durations ns = durations_of(a);
    double *part = a->part + (size_t)a->n * 5 * a->n_chunk;
    memset(part, 0, 5 * (size_t)a->n_chunk * sizeof *part);
    add_ending(a, stage, how, part);
    a->constant[a->n] = 0;
    if (how == ONLY) return;
    pst_search_paths_trace(a->paths, &ns, a->paths->last[stage], &a->path);
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        part[k] += a->path.f[k];
        part[a->n_chunk + k] += a->path.b[k];
        part[2 * a->n_chunk + k] += a->path.w[k];
    }
    part[3 * a->n_chunk + a->path.rank] += a->of->stage[a->path.rank].gather;
    a->constant[a->n] = a->path.hops_ns;
    if (a->path.n > a->most_passes) a->most_passes = a->path.n;
}

static double of_amount(const fluid *a, const double *part, uint32_t k, const amount *of) {
    const uint32_t n = a->n_chunk;
    return part[k] * of->f + part[n + k] * of->b + part[2 * n + k] * of->w +
           part[3 * n + k] * of->e;
}

/* The same where all modes are in use: a single mode knows nothing that saves memory. */
static double price_of(const fluid *a, const double *point, uint32_t stage) {
    return a->n_mode == a->price.n_mode ? lacking(a, point, stage) : 0;
}

/* Adds the function of the path that was taken. */
static int add_function(fluid *a, const double *point) {
    double *part = a->part + (size_t)a->n * 5 * a->n_chunk, *price = part + 4 * a->n_chunk;
    double constant = a->constant[a->n];
    for (uint32_t s = 0; s < a->p; s++)
        if (price_of(a, point, s) > 0) {
            price[s] = a->dear[s];
            constant -= price[s] * a->room[s];
        }
    for (uint32_t k = 0; k < a->n_chunk; k++) constant += of_amount(a, part, k, &a->rest[k]);
    for (uint32_t k = 0; k <= a->chunk; k++)
        for (uint32_t q = 0; q < a->n_mode; q++) {
            const uint32_t i = k * a->n_mode + q;
            a->value[i] = constant + of_amount(a, part, k, &a->layers[k]) +
                          part[a->n_chunk + k] * a->again[i] + price[stage_of(a, k)] * a->bytes[i];
        }
    if (!pst_search_game_add(a->game, a->value)) return 0;
    a->n++;
    return 1;
}

/* Adds the functions of the longest paths at a point; returns the longest, with the price of the
 * memory that lacks. *full: there is no place for more. */
static double add_longest(fluid *a, const double *point, uint32_t most, int *full) {
    const pst_search_durations ns = (spread(a, point), durations_of(a));
    double longest = 0, price = 0, below = INFINITY;
    ending how;
    pst_search_paths_run(a->paths, &ns);
    for (uint32_t s = 0; s < a->p; s++) price += price_of(a, point, s);
    for (uint32_t i = 0; i < most && i < a->p && !*full; i++) {
        double end = 0;
        uint32_t at = 0;
        for (uint32_t s = 0; s < a->p; s++) {
            const double own = end_of(a, s, &how);
            if (own <= end || own >= below) continue;
            end = own;
            at = s;
        }
        if (end <= 0) break;
        if (!i) longest = end;
        below = end;
        end_of(a, at, &how);
        take_path(a, at, how);
        *full = !add_function(a, point) || a->n == MOST_FUNCTIONS;
    }
    a->x->order_effort +=
        4 * (uint64_t)a->paths->n + most * ((uint64_t)a->p * a->n_chunk + 8 * a->n_row);
    return longest + price;
}

/* --- the linear program ----------------------------------------------------------------------- */

/* Layers in proportion to the speed of the devices, in the fastest mode. */
static void begin(fluid *a) {
    double all = 0;
    memset(a->best, 0, a->n_row * sizeof *a->best);
    for (uint32_t k = 0; k <= a->chunk; k++) {
        uint32_t least = k * a->n_mode;
        for (uint32_t q = 0; q < a->n_mode; q++)
            if (a->again[k * a->n_mode + q] < a->again[least]) least = k * a->n_mode + q;
        const amount *of = &a->layers[k];
        a->best[least] = 1 / pst_search_max(of->f + of->b + of->w, 1);
        all += a->best[least];
    }
    for (uint32_t i = 0; i < a->n_row; i++) a->best[i] /= all;
}

static void solve(fluid *a) {
    int full = 0;
    begin(a);
    double least = add_longest(a, a->best, a->p, &full);
    for (int i = 0; i < ROUNDS && !full; i++) {
        const double is = pst_search_game_solve(a->game, a->solved);
        if (pst_search_game_effort(a->game) > MOST_EFFORT || pst_search_timed_out(a->x)) return;
        if (is * NEAR >= least || is > a->enough_ns) return;
        for (uint32_t k = 0; k < a->n_row; k++) a->point[k] = (a->best[k] + a->solved[k]) / 2;
        const double now = add_longest(a, a->point, PATHS_A_ROUND, &full);
        if (now >= least) continue;
        least = now;
        memcpy(a->best, a->point, a->n_row * sizeof *a->best);
    }
    pst_search_game_solve(a->game, a->solved);
}

/* The mean of all functions, over whole cuts; less what rounding to ns adds. */
static pst_status bound_of_mean(fluid *a, double *bound) {
    pst_search_weight *of = calloc(a->n_chunk, sizeof *of);
    if (!of) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    double constant = -(double)a->most_passes - 4. * a->n_chunk - 8;
    if (a->of->first < 1) constant -= a->c->rest_less_ns;
    pst_search_game_weights(a->game, a->weight);
    for (uint32_t i = 0; i < a->n; i++) {
        const double *part = a->part + (size_t)i * 5 * a->n_chunk, own = a->weight[i];
        const uint32_t n = a->n_chunk;
        if (own <= 0) continue;
        constant += own * a->constant[i];
        for (uint32_t s = 0; s < a->p; s++)
            if (part[4 * n + s] > 0)
                constant -= own * part[4 * n + s] * (double)a->of->stage[s].capacity;
        for (uint32_t k = 0; k < n; k++) {
            of[k].f += own * part[k];
            of[k].b += own * part[n + k];
            of[k].w += own * part[2 * n + k];
            of[k].e += own * part[3 * n + k];
            of[k].byte += own * part[4 * n + stage_of(a, k)];
        }
    }
    *bound = constant + pst_search_price_least(&a->price, of, a->large, a->chunk);
    a->x->order_effort +=
        24 * pst_search_price_effort(a->x, a->c) + pst_search_game_effort(a->game);
    free(of);
    return PST_OK;
}

/* --- state ------------------------------------------------------------------------------------ */

/* Durations of each chunk's device. */
static pst_status add_times(fluid *a) {
    uint32_t *index = malloc(a->p * sizeof *index);
    if (!index) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = PST_OK;
    for (uint32_t s = 0; s < a->p && status == PST_OK; s++) {
        const pst_search_fluid_stage *own = &a->of->stage[s];
        uint32_t like = 0;
        while (like < s &&
               (a->of->stage[like].table != own->table || a->of->stage[like].speed != own->speed))
            like++;
        if (s && like == s) status = pst_search_price_add_times(own->table, own->speed, &a->price);
        index[s] = like < s ? index[like] : a->price.n_time - 1;
    }
    for (uint32_t k = 0; k < a->n_chunk && status == PST_OK; k++)
        a->price.time_of[k] = index[stage_of(a, k)];
    free(index);
    return status;
}

static pst_status open_lists(fluid *a) {
    const size_t n = a->n_chunk, rows = a->n_row;
    double *at =
        calloc(7 * n + 3 * (size_t)a->p + 6 * rows + MOST_FUNCTIONS * (5 * n + 2), sizeof *at);
    a->layers = calloc(2 * n, sizeof *a->layers);
    a->f = at;
    if (!at || !a->layers) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    a->rest = a->layers + n;
    a->b = at += n;
    a->w = at += n;
    a->e = at += n;
    a->path.f = at += n;
    a->path.b = at += n;
    a->path.w = at += n;
    a->room = at += n;
    a->dear = at += a->p;
    a->release = at += a->p;
    a->again = at += a->p;
    double **of[] = {&a->bytes, &a->best, &a->solved, &a->point, &a->value, &a->weight};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) *of[i] = at += rows;
    a->constant = at += MOST_FUNCTIONS;
    a->part = at + MOST_FUNCTIONS;
    return pst_search_game_open(a->n_row, MOST_FUNCTIONS, &a->game);
}

static void close_lists(fluid *a) {
    pst_search_game_close(a->game);
    free(a->f);
    free(a->layers);
    a->game = NULL;
}

/* Whether the memory limits the best point. */
static int lacks_memory(fluid *a) {
    for (uint32_t s = 0; s < a->p; s++)
        if (lacking(a, a->best, s) > 0 || lacking(a, a->solved, s) > 0) return 1;
    return 0;
}

/* With the large operator on this chunk, and these modes. *limited: the memory matters. */
static pst_status bound_with(fluid *a, uint32_t chunk, uint32_t n_mode, double *bound_ns,
                             int *limited) {
    a->chunk = chunk;
    a->n_mode = n_mode;
    a->n_row = (chunk + 1) * n_mode;
    a->n = a->most_passes = 0;
    pst_status status = open_lists(a);
    if (status == PST_OK) {
        fill_amounts(a);
        solve(a);
        *limited = lacks_memory(a);
        status = bound_of_mean(a, bound_ns);
    }
    close_lists(a);
    return status;
}

/* Most often the memory does not matter; other modes then have no place in the program. */
static pst_status bound_on(fluid *a, uint32_t chunk, double *bound_ns) {
    const uint32_t n_mode = a->price.n_mode;
    int limited = 0;
    double other;
    PST_TRY(bound_with(a, chunk, 1, bound_ns, &limited));
    if (!limited || n_mode == 1 || *bound_ns >= a->enough_ns || (chunk + 1) * n_mode > MOST_ROWS)
        return PST_OK;
    PST_TRY(bound_with(a, chunk, n_mode, &other, &limited));
    *bound_ns = pst_search_max(*bound_ns, other);
    return PST_OK;
}

static uint32_t find_fastest(const pst_search_price *price) {
    const uint32_t n = price->n_item;
    uint32_t fastest = 0;
    for (uint32_t q = 1; q < price->n_mode; q++)
        if (price->time->again_ns[q][n] < price->time->again_ns[fastest][n]) fastest = q;
    return fastest;
}

/* The large operator is on the last chunk, or before chunks that have only operators behind it. */
static pst_status bound_of(fluid *a, double *bound_ns) {
    const pst_search_table *first = a->of->stage[0].table;
    int known;
    PST_TRY(pst_search_price_open(a->x, a->c, first, a->of->stage[0].speed, &a->price, &known));
    a->n_chunk = pst_search_chunk_count(a->x, a->c);
    if (!known || a->n_chunk > MOST_ROWS) return PST_OK;
    PST_TRY(pst_search_paths_of(a->x, a->c, a->of->m, &a->paths));
    if (!a->paths) return PST_OK;
    PST_TRY(add_times(a));
    find_layers(a, first);
    a->fastest = find_fastest(&a->price);
    const uint32_t behind = a->large == PST_NONE ? 0 : a->price.n_item - 1 - a->large;
    double least = INFINITY;
    for (uint32_t i = 0; i <= behind && i < a->n_chunk; i++) {
        double bound;
        PST_TRY(bound_on(a, a->n_chunk - 1 - i, &bound));
        least = pst_search_min(least, bound);
        if (least <= (double)a->c->bound_ns) break;
    }
    *bound_ns = least;
    return PST_OK;
}

pst_status pst_search_fluid_bound(pst_search_context *x, const pst_search_config *c,
                                  const pst_search_pipeline *of, double enough_ns,
                                  double *bound_ns) {
    fluid a = {.x = x, .c = c, .of = of, .p = c->pipeline, .enough_ns = enough_ns};
    *bound_ns = 0;
    pst_status status = bound_of(&a, bound_ns);
    pst_search_price_close(&a.price);
    return status;
}
