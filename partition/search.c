/* The search: rows of degrees, what may be tried in each by guess, a few of every row first, then whatever may still be
 * shorter than the best; the best few are simulated, and verified where the caller can. */
#include "partition/search_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_IN_FULL = 256,
    ROWS_AT_LEAST = 16, /* are looked at, be it late, until one fits */
    KEPT_CONFIGS = 24,
    FIRST_LOOKS = 4,
    FITTING_LOOKS = 64,
    LONG_PIPELINE = 128,
    HOPEFUL_LOOKS = 100,
    BOUND_LOOKS = 1500,
    FINALISTS = 6,
    VERIFIED = 12
};
#define FAR 1.2
#define LONGER 1.01 /* than predicted with zero 2, whose sums were thought to be hidden */

typedef struct {
    pst_search_context x;
    pst_search_lot *lot;
    uint32_t n_lot, room;
} search;

/* --- rows -------------------------------------------------------------------------------------------------------- */

static pst_status add_lot(search *s, uint32_t pipeline, uint32_t tensor, uint32_t data) {
    if (s->n_lot == s->room) {
        uint32_t room = s->room ? 2 * s->room : 64;
        pst_search_lot *more = realloc(s->lot, room * sizeof *more);
        if (!more) return pst_fail(PST_ENOMEM, "no memory to search");
        s->lot = more, s->room = room;
    }
    s->lot[s->n_lot++] = (pst_search_lot){.row = {.pipeline = pipeline, .tensor = tensor, .data = data},
                                          .rest_ns = UINT64_MAX,
                                          .small = pst_search_is_small(s->x.problem)};
    return PST_OK;
}

static pst_status add_lots(search *s) {
    const pst_search_problem *p = s->x.problem;
    uint64_t n = p->cluster->n_device;
    for (uint32_t i = 0; i < p->pipeline.n; i++)
        for (uint32_t j = 0; j < p->tensor.n; j++)
            for (uint32_t k = 0; k < p->data.n; k++) {
                uint64_t size = (uint64_t)p->pipeline.value[i] * p->tensor.value[j];
                size = size <= n ? size * p->data.value[k] : 0;
                if (!size || size > n || (p->all_devices && size != n) || p->pipeline.value[i] > p->n_item) continue;
                PST_TRY(add_lot(s, p->pipeline.value[i], p->tensor.value[j], p->data.value[k]));
            }
    if (s->n_lot) return PST_OK;
    return pst_fail(PST_EINPUT, "no pipeline x tensor x data that may be chosen %s the %llu devices of the cluster",
                    p->all_devices ? "makes use of just" : "is within", (unsigned long long)n);
}

/* With very many rows each keeps what is looked at first. */
static void shorten(pst_search_lot *lot) {
    for (uint32_t i = KEPT_CONFIGS; i < lot->n_config; i++)
        if (lot->config[i].bound_ns < lot->rest_ns) lot->rest_ns = lot->config[i].bound_ns;
    if (lot->n_config <= KEPT_CONFIGS) return;
    pst_search_config *less = realloc(lot->config, KEPT_CONFIGS * sizeof *less);
    if (less) lot->config = less;
    lot->n_config = KEPT_CONFIGS;
}

static int by_first_guess(const void *a, const void *b) {
    const pst_search_lot *x = a, *y = b;
    uint64_t p = x->n_config ? x->config[0].guess_ns : UINT64_MAX, q = y->n_config ? y->config[0].guess_ns : UINT64_MAX;
    if (p != q) return p < q ? -1 : 1;
    if (x->row.tensor != y->row.tensor) return x->row.tensor < y->row.tensor ? -1 : 1;
    return (x->row.pipeline > y->row.pipeline) - (x->row.pipeline < y->row.pipeline);
}

/* Those with most devices first, for time may run out. */
static int by_size(const void *a, const void *b) {
    const pst_search_row *x = &((const pst_search_lot *)a)->row, *y = &((const pst_search_lot *)b)->row;
    uint64_t p = (uint64_t)x->pipeline * x->tensor * x->data, q = (uint64_t)y->pipeline * y->tensor * y->data;
    if (p != q) return p > q ? -1 : 1;
    uint32_t narrow = x->data > x->pipeline ? x->data : x->pipeline,
             other = y->data > y->pipeline ? y->data : y->pipeline;
    if (narrow != other) return narrow < other ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* There is no time to list it. */
static pst_status leave_out(search *s, pst_search_lot *lot, uint64_t least[PST_CHOICES]) {
    const pst_choices *c = &s->x.problem->tensor;
    uint32_t i = 0;
    while (c->value[i] != lot->row.tensor) i++;
    if (!least[i]) PST_TRY(pst_search_least(&s->x, lot->row.tensor, &least[i]));
    lot->rest_ns = least[i];
    return PST_OK;
}

static pst_status fill_lots(search *s) {
    uint64_t least[PST_CHOICES] = {0}; /* of each tensor degree; 0: not asked for */
    if (s->n_lot > ROWS_IN_FULL) qsort(s->lot, s->n_lot, sizeof *s->lot, by_size);
    for (uint32_t i = 0; i < s->n_lot; i++) {
        pst_search_lot *lot = &s->lot[i];
        if (i >= ROWS_AT_LEAST && pst_search_late(&s->x)) {
            PST_TRY(leave_out(s, lot, least));
            continue;
        }
        PST_TRY(pst_search_configs(&s->x, lot->row.pipeline, lot->row.tensor, lot->row.data, &lot->config,
                                   &lot->n_config, lot->row.why));
        if (s->n_lot > ROWS_IN_FULL) shorten(lot);
    }
    qsort(s->lot, s->n_lot, sizeof *s->lot, by_first_guess);
    return PST_OK;
}

/* --- looking ----------------------------------------------------------------------------------------------------- */

static uint64_t step_of(const pst_search_lot *lot) { return lot->row.fits ? lot->row.layout->step_ns : UINT64_MAX; }

static uint64_t shortest(const search *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot; i++)
        if (step_of(&s->lot[i]) < least) least = step_of(&s->lot[i]);
    return least;
}

static pst_search_config *leanest(const pst_search_lot *lot) {
    pst_search_config *c = lot->config;
    for (uint32_t k = 1; k < lot->n_config; k++)
        if (lot->config[k].lean < c->lean) c = &lot->config[k];
    return c;
}

static pst_status account(search *s, pst_search_lot *lot) {
    if (lot->accounted || !lot->row.layout || !lot->row.fits) return PST_OK;
    lot->accounted = 1;
    return pst_search_account(&s->x, &lot->best, lot->row.layout);
}

/* A few of every row, more where nothing fits yet, all of small problems. Where guesses are far from the best so far, one,
 * and until one fits those that take less memory than all before; of long pipelines, which take most time, the leanest. */
static pst_status look_at_row(search *s, pst_search_lot *lot, uint64_t *best) {
    uint64_t lean = UINT64_MAX;
    int last = 0;
    for (uint32_t k = 0; k < lot->n_config && !last; k++) {
        pst_search_config *c = &lot->config[k];
        int far = !lot->small && *best != UINT64_MAX && (double)c->guess_ns > FAR * (double)*best;
        if ((*best != UINT64_MAX || k >= FIRST_LOOKS) && pst_search_late(&s->x)) break;
        if (!lot->small && k >= (lot->row.fits ? far ? 1 : FIRST_LOOKS : FITTING_LOOKS)) break;
        if (far && k && c->pipeline >= LONG_PIPELINE) c = leanest(lot), last = 1;
        else if (far && c->lean >= lean) continue;
        s->x.nearest = k < FIRST_LOOKS || last;
        PST_TRY(pst_search_look(&s->x, lot, c, step_of(lot)));
        if (c->lean < lean) lean = c->lean;
        if (step_of(lot) < *best) *best = step_of(lot);
    }
    s->x.nearest = 0;
    return s->n_lot <= ROWS_IN_FULL ? account(s, lot) : PST_OK; /* now that its schedule is at hand */
}

static pst_status look_at_all(search *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot && i < ROWS_IN_FULL; i++) {
        if (pst_search_late(&s->x) && (best != UINT64_MAX || i >= ROWS_AT_LEAST)) break;
        PST_TRY(look_at_row(s, &s->lot[i], &best));
    }
    return PST_OK;
}

typedef struct {
    pst_search_lot *lot;
    pst_search_config *config;
} open_config;

static int by_guess(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config, *y = ((const open_config *)b)->config;
    if (x->guess_ns != y->guess_ns) return x->guess_ns < y->guess_ns ? -1 : 1;
    return (x->bound_ns > y->bound_ns) - (x->bound_ns < y->bound_ns);
}

static int by_bound(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config, *y = ((const open_config *)b)->config;
    if (x->bound_ns != y->bound_ns) return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->guess_ns > y->guess_ns) - (x->guess_ns < y->guess_ns);
}

static int has_one_chunk(const search *s, const pst_search_config *c) { return s->x.row[c->schedule]->n_virtual == 1; }

/* The least bound of what has several chunks per stage and has not been looked at: looking raises only those of others. */
static uint64_t bound_of_many(const search *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
            const pst_search_config *c = &s->lot[i].config[k];
            if (!c->closed && !has_one_chunk(s, c) && c->bound_ns < least) least = c->bound_ns;
        }
    return least;
}

/* What has not been looked at and may be shorter than the best; all: not only what the bound of all depends on. */
static uint32_t find_open(search *s, open_config *open, int all) {
    uint64_t best = shortest(s), many = all ? UINT64_MAX : bound_of_many(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_lot; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
            pst_search_config *c = &s->lot[i].config[k];
            if (c->seen || c->bound_ns >= best || (!all && (!has_one_chunk(s, c) || c->bound_ns >= many))) continue;
            open[n++] = (open_config){&s->lot[i], c};
        }
    return n;
}

static pst_status look_at_open(search *s, open_config *open, uint32_t most, int all,
                               int (*order)(const void *, const void *)) {
    uint32_t n = find_open(s, open, all);
    qsort(open, n, sizeof *open, order);
    for (uint32_t i = 0; i < n && i < most && !pst_search_late(&s->x); i++)
        PST_TRY(pst_search_look(&s->x, open[i].lot, open[i].config, shortest(s)));
    return PST_OK;
}

/* First what may well be shorter, then what bounds the step from below. */
static pst_status look_further(search *s) {
    size_t n = 1;
    for (uint32_t i = 0; i < s->n_lot; i++) n += s->lot[i].n_config;
    open_config *open = malloc(n * sizeof *open);
    if (!open) return pst_fail(PST_ENOMEM, "no memory to search");
    pst_status status = look_at_open(s, open, HOPEFUL_LOOKS, 1, by_guess);
    if (status == PST_OK) status = look_at_open(s, open, BOUND_LOOKS, 0, by_bound);
    free(open);
    return status;
}

/* --- the best ---------------------------------------------------------------------------------------------------- */

static int by_step(const void *a, const void *b) {
    const pst_search_lot *x = a, *y = b;
    uint64_t p = step_of(x), q = step_of(y);
    if (p != q) return p < q ? -1 : 1;
    if (!x->row.layout != !y->row.layout) return x->row.layout ? -1 : 1;
    if (x->row.excess != y->row.excess) return x->row.excess < y->row.excess ? -1 : 1;
    return by_first_guess(a, b);
}

static void sort(search *s) { qsort(s->lot, s->n_lot, sizeof *s->lot, by_step); }

/* Walks end no later than simulations: whoever walks longer than the best was simulated is not the best. */
static pst_status simulate_best(search *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot && i < FINALISTS; i++) {
        pst_search_lot *lot = &s->lot[i];
        if (step_of(lot) >= best || (i && pst_search_late(&s->x))) break;
        if (!lot->small) PST_TRY(pst_search_predict(&s->x, &lot->best, lot->row.layout, PST_SCORE_SIMULATE));
        PST_TRY(pst_search_plainer(&s->x, lot));
        if (step_of(lot) < best) best = step_of(lot);
    }
    sort(s);
    return PST_OK;
}

static void check_room(const pst_search_problem *p, pst_search_row *row) {
    const pst_search_layout *l = row->layout;
    uint32_t each = l->data * l->tensor;
    row->excess = 0;
    for (uint32_t r = 0; r < l->pipeline * each; r++) {
        uint64_t room = pst_search_capacity(p, l->device[r]), needs = l->peak_bytes[r / each];
        if (needs > room && needs - room > row->excess) row->excess = needs - room, row->stage = r / each;
    }
    row->fits = !row->excess;
}

/* By how much more the verified layout takes than was thought, at most. */
static double swell_of(const pst_search_layout *l, const uint64_t *thought) {
    double most = 1;
    for (uint32_t s = 0; s < l->pipeline; s++)
        if (thought[s]) most = fmax(most, (double)l->peak_bytes[s] / (double)thought[s]);
    return most;
}

/* Layouts of a schedule that turned out to take more are looked for again, in less room. */
static pst_status look_again(search *s, uint32_t schedule) {
    uint64_t best = shortest(s);
    for (uint32_t i = 0; i < s->n_lot; i++) {
        pst_search_lot *lot = &s->lot[i];
        if (!lot->row.layout || lot->best.schedule != schedule || (lot->row.fits && lot->row.layout->exact)) continue;
        if (i >= FINALISTS && pst_search_late(&s->x)) break;
        pst_search_layout_close(lot->row.layout);
        lot->row.layout = NULL, lot->row.fits = 0, lot->row.excess = 0, *lot->row.why = 0;
        PST_TRY(look_at_row(s, lot, &best));
    }
    return PST_OK;
}

static pst_status verify_one(search *s, pst_search_lot *lot) {
    const pst_search_problem *p = s->x.problem;
    pst_search_layout *l = lot->row.layout;
    uint32_t schedule = lot->best.schedule;
    uint64_t predicted = l->step_ns;
    uint64_t *thought = malloc(l->pipeline * sizeof *thought);
    if (!thought) return pst_fail(PST_ENOMEM, "no memory to verify a layout");
    memcpy(thought, l->peak_bytes, l->pipeline * sizeof *thought);
    pst_status status = p->verify(p->arg, l);
    double swell = status == PST_OK ? swell_of(l, thought) * 1.005 : 1;
    free(thought);
    if (status == PST_EINPUT) { /* not for want of memory: no such run is possible */
        pst_search_layout_close(l);
        lot->row.layout = NULL, lot->row.fits = 0;
        snprintf(lot->row.why, sizeof lot->row.why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    PST_TRY(status);
    check_room(p, &lot->row);
    if (lot->row.fits && l->zero == 2 && (double)l->step_ns > LONGER * (double)predicted)
        return pst_search_less_zero(&s->x, lot);
    if (lot->row.fits || lot->small || swell <= s->x.swell[schedule]) return PST_OK;
    s->x.swell[schedule] = swell;
    return look_again(s, schedule);
}

/* Until the first is verified: what is not as good as predicted, or does not fit, falls behind. */
static pst_status verify_best(search *s, uint64_t *n_verified) {
    while (s->x.problem->verify && *n_verified < VERIFIED && s->lot[0].row.fits && !s->lot[0].row.layout->exact) {
        if (*n_verified && pst_search_late(&s->x)) break;
        PST_TRY(verify_one(s, &s->lot[0]));
        ++*n_verified;
        sort(s);
    }
    return PST_OK;
}

/* --- result ------------------------------------------------------------------------------------------------------ */

static uint64_t find_bound(const search *s, uint64_t best) {
    uint64_t bound = best;
    for (uint32_t i = 0; i < s->n_lot; i++) {
        const pst_search_lot *lot = &s->lot[i];
        if (lot->rest_ns < bound) bound = lot->rest_ns;
        for (uint32_t k = 0; k < lot->n_config; k++)
            if (!lot->config[k].closed && lot->config[k].bound_ns < bound) bound = lot->config[k].bound_ns;
    }
    return bound;
}

static pst_status make_result(search *s, uint64_t n_verified, pst_search_result **result) {
    pst_search_result *r = calloc(1, sizeof *r);
    if (r) r->row = calloc(s->n_lot, sizeof *r->row);
    if (!r || !r->row) {
        free(r);
        return pst_fail(PST_ENOMEM, "no memory for %u rows", s->n_lot);
    }
    r->n_row = s->n_lot;
    r->timed_out = pst_search_late(&s->x);
    r->n_layout = s->x.n_layout, r->n_simulated = s->x.n_simulated, r->n_verified = n_verified;
    const pst_search_layout *best = s->lot[0].row.fits ? s->lot[0].row.layout : NULL;
    r->bound_ns = find_bound(s, best ? best->step_ns : UINT64_MAX);
    if (r->bound_ns == UINT64_MAX) r->bound_ns = 0;
    r->gap = best && r->bound_ns ? (double)best->step_ns / (double)r->bound_ns - 1 : 0;
    pst_status status = best ? pst_search_layout_copy(best, &r->best) : PST_OK;
    for (uint32_t i = 0; i < s->n_lot; i++) {
        r->row[i] = s->lot[i].row;
        s->lot[i].row.layout = NULL;
        pst_search_why(s->x.problem, r->best, &r->row[i]);
    }
    if (status == PST_OK) *result = r;
    else pst_search_result_close(r);
    return status;
}

static pst_status run(search *s, pst_search_result **result) {
    uint64_t n_verified = 0;
    PST_TRY(add_lots(s));
    PST_TRY(fill_lots(s));
    PST_TRY(look_at_all(s));
    PST_TRY(look_further(s));
    sort(s);
    PST_TRY(simulate_best(s));
    PST_TRY(verify_best(s, &n_verified));
    for (uint32_t i = 0; i < s->n_lot && i < ROWS_IN_FULL && s->lot[i].row.layout; i++)
        if (!i || !pst_search_late(&s->x)) PST_TRY(account(s, &s->lot[i]));
    return make_result(s, n_verified, result);
}

pst_status pst_search(const pst_search_problem *problem, pst_search_result **result) {
    search s = {0};
    pst_status status = pst_search_context_open(problem, &s.x);
    if (status == PST_OK) status = run(&s, result);
    for (uint32_t i = 0; i < s.n_lot; i++) {
        pst_search_layout_close(s.lot[i].row.layout);
        free(s.lot[i].config), free(s.lot[i].orders.device);
    }
    free(s.lot);
    pst_search_context_close(&s.x);
    return status;
}

void pst_search_result_close(pst_search_result *r) {
    if (!r) return;
    pst_search_layout_close(r->best);
    for (uint32_t i = 0; i < r->n_row; i++) pst_search_layout_close(r->row[i].layout);
    free(r->row), free(r);
}
