/* The longest path through the order of a schedule: every rank runs its passes in turn, each as
 * soon as what it needs is there. Messages take their time and are in no one's way, so that nothing
 * that is simulated ends sooner. */
#include "partition/search/score.h"
#include <stdlib.h>
#include <string.h>

/* A pass of a chunk: where the end of what it needs stands for micro-batch 0, how long that takes
 * to come over, how long the pass takes, and where its own end goes. */
typedef struct {
    uint64_t from, hop_ns, ns, to;
} pass;

/* A rank on its way: its next pass, when it is free, and for how long it has waited. */
typedef struct {
    const pst_action *next, *end;
    uint64_t now, waited;
} cursor;

/* As far as the rank comes; returns how many passes. finish: UINT64_MAX: not yet. */
static uint64_t advance(cursor *l, const pass *all, uint64_t *finish) {
    const pst_action *first = l->next, *a = first;
    uint64_t now = l->now, waited = l->waited;
    for (; a < l->end; a++) {
        const pass *p = &all[a->chunk * 4u + a->opcode];
        uint64_t ready = finish[p->from + a->micro];
        if (ready == UINT64_MAX) break;
        ready += p->hop_ns;
        uint64_t begin = ready > now ? ready : now;
        waited += begin - now;
        now = begin + p->ns;
        finish[p->to + a->micro] = now;
    }
    l->now = now;
    l->waited = waited;
    l->next = a;
    return (uint64_t)(a - first);
}

/* finish: [n_chunk][n_micro] ends of F, as many of B, [n_micro] that are over from the first,
 * [n_micro] of W, which nobody needs. */
static void fill_passes(const pst_schedule *s, const pst_pass_ns *ns, const uint64_t *hops,
                        pass *all) {
    const uint64_t m = s->n_micro, n = s->n_chunk * m;
    for (uint64_t c = 0; c < s->n_chunk; c++) {
        int last = c + 1 == s->n_chunk;
        uint64_t f = c * m, b = n + f, before = c ? f - m : 2 * n, behind = last ? f : b + m;
        uint64_t hop = last ? 0 : hops[c];
        all[4 * c + PST_OP_F] = (pass){before, c ? hops[c - 1] : 0, ns[c].f, f};
        all[4 * c + PST_OP_B] = (pass){behind, hop, ns[c].b, b};
        all[4 * c + PST_OP_W] = (pass){b, 0, ns[c].w, 2 * n + m};
        all[4 * c + PST_OP_BW] = (pass){behind, hop, ns[c].b + ns[c].w, b};
    }
}

static pst_status make_room(pst_search_context *x, size_t n) {
    if (n <= x->room_finish) return PST_OK;
    uint64_t *more = realloc(x->finish, n * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory to walk through a schedule");
    x->finish = more;
    x->room_finish = n;
    return PST_OK;
}

/* For how long each rank may wait: has it no time for all its passes, for none at all. */
static void find_spare(const pst_schedule *s, const pst_pass_ns *ns, const uint64_t *most_ns,
                       uint64_t *spare) {
    memset(spare, 0, s->n_rank * sizeof *spare);
    for (uint32_t c = 0; c < s->n_chunk; c++)
        spare[s->rank_of_chunk[c]] += s->n_micro * (ns[c].f + ns[c].b + ns[c].w);
    for (uint32_t r = 0; r < s->n_rank; r++)
        spare[r] = most_ns[r] > spare[r] ? most_ns[r] - spare[r] : 0;
}

/* Forwards and backwards in turn, for F goes up the ranks and B down. */
static pst_status go(const pst_schedule *s, const pass *all, uint64_t *finish, cursor *cursors,
                     const uint64_t *spare, int *beyond) {
    uint64_t left = 0;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        cursors[r] = (cursor){s->action[r], s->action[r] + s->n_action[r], 0, 0};
        left += s->n_action[r];
    }
    for (int backward = 0; left; backward = !backward) {
        uint64_t before = left;
        for (uint32_t i = 0; i < s->n_rank; i++) {
            cursor *l = &cursors[backward ? s->n_rank - 1 - i : i];
            left -= advance(l, all, finish);
            if (spare && l->waited >= spare[l - cursors]) {
                *beyond = 1;
                return PST_OK;
            }
        }
        if (left == before) return pst_fail(PST_EINTERNAL, "schedule %s waits for ever", s->name);
    }
    return PST_OK;
}

pst_status pst_search_walk(pst_search_context *x, const pst_schedule *s,
                           const pst_search_walk_times *times, uint64_t *end_ns, int *beyond) {
    const size_t n = 2 * (size_t)s->n_chunk * s->n_micro, ends = n + 2 * (size_t)s->n_micro;
    const size_t passes = sizeof(pass) / sizeof(uint64_t) * 4 * s->n_chunk;
    const size_t cursor_words = sizeof(cursor) / sizeof(uint64_t) * s->n_rank;
    PST_TRY(make_room(x, ends + passes + cursor_words + s->n_rank));
    pass *all = (pass *)(x->finish + ends);
    cursor *cursors = (cursor *)(x->finish + ends + passes);
    uint64_t *spare = x->finish + ends + passes + cursor_words;
    fill_passes(s, times->ns, times->hops, all);
    if (times->most_ns) find_spare(s, times->ns, times->most_ns, spare);
    memset(x->finish, 0xff, n * sizeof *x->finish);
    memset(x->finish + n, 0, s->n_micro * sizeof *x->finish);
    *beyond = 0;
    PST_TRY(go(s, all, x->finish, cursors, times->most_ns ? spare : NULL, beyond));
    for (uint32_t r = 0; r < s->n_rank; r++) end_ns[r] = cursors[r].now;
    return PST_OK;
}
