/* What a search asks for again and again: cost tables with their sums, schedules, and what these hold in flight. */
#include "base/clock.h"
#include "partition/search_parts.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x) {
    *x = (pst_search_context){.problem = problem, .end_ns = UINT64_MAX, .limit_ns = UINT64_MAX};
    if (problem->n_schedule > 16)
        return pst_fail(PST_EINPUT, "%u schedules to search; 16 are possible", problem->n_schedule);
    if (problem->time_limit_s > 0) {
        double limit = problem->time_limit_s * 1e9;
        x->end_ns = limit < 1e18 ? pst_monotonic_ns() + (uint64_t)limit : UINT64_MAX;
    }
    for (uint32_t i = 0; i < 16; i++) x->swell[i] = 1;
    x->even = 1;
    for (uint32_t d = 1; d < problem->cluster->n_device; d++) {
        const pst_cluster_device *a = problem->cluster->device, *b = a + d;
        x->even &= a->kind == b->kind && a->speed == b->speed;
    }
    for (uint32_t i = 0; i < problem->n_schedule; i++) {
        PST_TRY(pst_schedule_find(problem->schedule[i], &x->row[i]));
        if (!x->row[i]->generate || !strcmp(x->row[i]->name, "forward"))
            return pst_fail(PST_EINPUT, "schedule %s cannot be searched; name others", x->row[i]->name);
    }
    return PST_OK;
}

static void close_table(pst_search_table *t) {
    for (uint32_t i = 0; i < PST_SUM_COUNT; i++) free(t->sum[i]);
    free(t->scratch), free(t);
}

static void close_flight(pst_search_flight *f) { free(f->stage), free(f->most), free(f); }

void pst_search_context_close(pst_search_context *x) {
    for (uint32_t i = 0; i < x->n_table; i++) close_table(x->table[i]);
    for (uint32_t i = 0; i < x->n_flight; i++) close_flight(x->flight[i]);
    for (uint32_t i = 0; i < PST_SEARCH_MADE; i++) pst_schedule_close(x->made[i].made);
    free(x->table), free(x->flight), free(x->finish);
}

int pst_search_late(const pst_search_context *x) { return x->end_ns != UINT64_MAX && pst_monotonic_ns() >= x->end_ns; }

/* --- tables ------------------------------------------------------------------------------------------------------ */

/* NULL: zeros. */
static const uint64_t *values_of(const pst_cost_table *t, uint32_t sum) {
    switch (sum) {
    case PST_SUM_F: return t->f_ns;
    case PST_SUM_B: return t->b_ns;
    case PST_SUM_W: return t->w_ns;
    case PST_SUM_EXCHANGE: return t->exchange_ns;
    case PST_SUM_ELEMENTS: return t->elements;
    case PST_SUM_ACCUMULATED: return t->accumulated;
    case PST_SUM_KEPT: return t->kept;
    default:
        return sum < PST_SUM_STASH  ? t->again_ns[sum - PST_SUM_AGAIN]
               : sum < PST_SUM_HELD ? t->stash[sum - PST_SUM_STASH]
                                    : t->held[sum - PST_SUM_HELD];
    }
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static pst_status range_scratch(pst_search_table *t) {
    uint32_t n = t->table->n, levels = 1;
    while (n >> levels) levels++;
    if (!(t->scratch = calloc((size_t)levels * n, sizeof *t->scratch)))
        return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", n);
    for (uint32_t i = 0; i < n; i++) t->scratch[i] = t->table->scratch[i];
    for (uint32_t k = 1; k < levels; k++) {
        const uint64_t *half = t->scratch + (size_t)(k - 1) * n;
        uint64_t *all = t->scratch + (size_t)k * n;
        for (uint32_t i = 0; i + (1u << k) <= n; i++) all[i] = larger(half[i], half[i + (1u << (k - 1))]);
    }
    return PST_OK;
}

static pst_status add_up(pst_search_table *t) {
    uint32_t n = t->table->n;
    t->least_cross = n > 1 ? UINT64_MAX : 0;
    for (uint32_t i = 1; i < n; i++)
        if (t->table->cross[i] < t->least_cross) t->least_cross = t->table->cross[i];
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        t->least_enter[mode] = n > 1 ? UINT64_MAX : 0;
        for (uint32_t i = 1; i < n; i++)
            if (t->table->enter[mode][i] < t->least_enter[mode]) t->least_enter[mode] = t->table->enter[mode][i];
    }
    PST_TRY(range_scratch(t));
    for (uint32_t k = 0; k < PST_SUM_COUNT; k++) {
        const uint64_t *value = values_of(t->table, k);
        uint64_t *sum = t->sum[k] = malloc((n + 1) * sizeof *sum);
        if (!sum) return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", n);
        sum[0] = 0;
        for (uint32_t i = 0; i < n; i++) sum[i + 1] = sum[i] + (value ? value[i] : 0);
    }
    return PST_OK;
}

static pst_status grow(void **list, uint32_t n, uint32_t *room) {
    if (n < *room) return PST_OK;
    uint32_t more = *room ? 2 * *room : 32;
    void *moved = realloc(*list, more * sizeof(void *));
    if (!moved) return pst_fail(PST_ENOMEM, "no memory to search");
    *list = moved, *room = more;
    return PST_OK;
}

static pst_status ask(pst_search_context *x, pst_search_table *t) {
    pst_status status = x->problem->table(x->problem->arg, t->kind, t->tensor, t->sequence, t->micro_batch, &t->table);
    if (status == PST_EINPUT) {
        pst_error_clear();
        t->table = NULL;
        return PST_OK;
    }
    if (status != PST_OK) return status;
    if (t->table->n != x->problem->n_item)
        return pst_fail(PST_EINTERNAL, "a cost table of %u operators, not %u", t->table->n, x->problem->n_item);
    return add_up(t);
}

pst_status pst_search_table_of(pst_search_context *x, uint32_t kind, uint32_t tensor, uint32_t sequence,
                               uint32_t micro_batch, const pst_search_table **table) {
    for (uint32_t i = 0; i < x->n_table; i++) {
        const pst_search_table *t = x->table[i];
        if (t->kind != kind || t->tensor != tensor || t->sequence != sequence || t->micro_batch != micro_batch)
            continue;
        *table = t;
        return PST_OK;
    }
    PST_TRY(grow((void **)&x->table, x->n_table, &x->room_table));
    pst_search_table *t = calloc(1, sizeof *t);
    if (!t) return pst_fail(PST_ENOMEM, "no memory to search");
    t->kind = kind, t->tensor = tensor, t->sequence = sequence, t->micro_batch = micro_batch;
    pst_status status = ask(x, t);
    if (status != PST_OK) {
        close_table(t);
        return status;
    }
    *table = x->table[x->n_table++] = t;
    return PST_OK;
}

/* --- schedules --------------------------------------------------------------------------------------------------- */

/* Others than `kept`, from the oldest on, while all together are too many. */
static void forget(pst_search_context *x, const pst_search_made *kept) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < PST_SEARCH_MADE; i++) all += x->made[i].made ? x->made[i].n_action : 0;
    for (uint32_t i = 0; i < PST_SEARCH_MADE && all > PST_SEARCH_ACTIONS; i++) {
        pst_search_made *m = &x->made[(x->next_made + i) % PST_SEARCH_MADE];
        if (m == kept || !m->made) continue;
        all -= m->n_action;
        pst_schedule_close(m->made), m->made = NULL;
    }
}

pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline, uint32_t chunks,
                                  uint32_t n_micro, const pst_schedule **made) {
    for (uint32_t i = 0; i < PST_SEARCH_MADE; i++) {
        const pst_search_made *m = &x->made[i];
        if (!m->made || m->schedule != schedule || m->pipeline != pipeline || m->chunks != chunks ||
            m->n_micro != n_micro)
            continue;
        *made = m->made;
        return PST_OK;
    }
    pst_schedule *s;
    PST_TRY(pst_schedule_generate(x->row[schedule]->name, pipeline, chunks, n_micro, &s));
    pst_search_made *m = &x->made[x->next_made++ % PST_SEARCH_MADE];
    pst_schedule_close(m->made);
    *m = (pst_search_made){schedule, pipeline, chunks, n_micro, s, 0};
    for (uint32_t r = 0; r < s->n_rank; r++) m->n_action += s->n_action[r];
    forget(x, m);
    *made = s;
    return PST_OK;
}

/* Micro-batches beyond which nothing more is in flight. Rounds of interleaved ones are of p micro-batches, or of one more
 * where some are left over, which go to the first rounds. */
static uint32_t enough(const pst_search_context *x, uint32_t schedule, uint32_t p, uint32_t n_micro) {
    const char *name = x->row[schedule]->name;
    if (!strcmp(name, "gpipe")) return n_micro;
    uint32_t over = strcmp(name, "interleaved") ? 4 : n_micro % p;
    uint64_t most = (strcmp(name, "interleaved") ? 4 : over + 4) * (uint64_t)p + over;
    return n_micro < most ? n_micro : (uint32_t)most;
}

static void count(const pst_schedule *s, pst_search_flight *f, uint32_t *alive) {
    uint8_t last = s->split ? PST_OP_W : PST_OP_BW;
    memcpy(f->stage, s->rank_of_chunk, s->n_chunk * sizeof *f->stage);
    for (uint32_t r = 0; r < s->n_rank; r++)
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            if (a->opcode == PST_OP_F && ++alive[a->chunk] > f->most[a->chunk]) f->most[a->chunk] = alive[a->chunk];
            if (a->opcode == last) alive[a->chunk]--;
        }
}

static pst_status make_flight(pst_search_context *x, pst_search_flight *f) {
    const pst_schedule *s;
    PST_TRY(pst_search_schedule_of(x, f->schedule, f->pipeline, f->chunks, f->n_micro, &s));
    uint32_t *alive = calloc(s->n_chunk, sizeof *alive);
    f->n_chunk = s->n_chunk;
    f->stage = calloc(s->n_chunk, sizeof *f->stage), f->most = calloc(s->n_chunk, sizeof *f->most);
    pst_status status = alive && f->stage && f->most ? PST_OK : pst_fail(PST_ENOMEM, "no memory to search");
    if (status == PST_OK) count(s, f, alive);
    free(alive);
    return status;
}

pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline, uint32_t chunks,
                                uint32_t n_micro, const pst_search_flight **flight) {
    n_micro = enough(x, schedule, pipeline, n_micro);
    for (uint32_t i = 0; i < x->n_flight; i++) {
        const pst_search_flight *f = x->flight[i];
        if (f->schedule != schedule || f->pipeline != pipeline || f->chunks != chunks || f->n_micro != n_micro)
            continue;
        *flight = f;
        return PST_OK;
    }
    PST_TRY(grow((void **)&x->flight, x->n_flight, &x->room_flight));
    pst_search_flight *f = calloc(1, sizeof *f);
    if (!f) return pst_fail(PST_ENOMEM, "no memory to search");
    f->schedule = schedule, f->pipeline = pipeline, f->chunks = chunks, f->n_micro = n_micro;
    pst_status status = make_flight(x, f);
    if (status != PST_OK) {
        close_flight(f);
        return status;
    }
    *flight = x->flight[x->n_flight++] = f;
    return PST_OK;
}
