/* The longest path through the order of a schedule: every rank runs its passes in turn, each as
 * soon as its inputs are there. Messages take time but do not wait for each other, so no simulation
 * ends earlier. */
#include "partition/search/score.h"
#include <stdlib.h>
#include <string.h>

/* A pass of a chunk. from: index of the end of the pass that computes the input, for micro-batch 0;
 * hop_ns: time of the message; ns: time of the pass; to: index of the end of this pass. */
typedef struct {
    uint64_t from, hop_ns, ns, to;
} pass;

/* State of a rank: its next pass, when it is free, and how long it has waited. */
typedef struct {
    const pst_action *next, *end;
    uint64_t now, waited;
} rank_state;

/* Runs passes until one waits for an input; returns how many. finish: UINT64_MAX: not done yet.
 * first: those of the first micro-batch; the same as `all` if it is not smaller. */
static uint64_t advance(rank_state *l, const pass *all, const pass *first, uint64_t *finish) {
    const pst_action *begin_at = l->next, *a = begin_at;
    uint64_t now = l->now, waited = l->waited;
    for (; a < l->end; a++) {
        const pass *p = (a->micro ? all : first) + a->chunk * 4u + a->opcode;
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
    return (uint64_t)(a - begin_at);
}

/* finish: [n_chunk][n_micro] ends of F, then of B, [n_micro] zeros (inputs of the first chunk),
 * [n_micro] ends of W, which no pass needs. */
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

/* The same of the smaller first micro-batch, from those of the others. */
static void fill_first(uint32_t n, double part, const pass *all, pass *first) {
    for (uint32_t i = 0; i < n; i++)
        first[i] = (pass){all[i].from, (uint64_t)(part * (double)all[i].hop_ns),
                          (uint64_t)(part * (double)all[i].ns), all[i].to};
}

static pst_status reserve_path_ends(pst_search_context *x, size_t n) {
    if (n <= x->path_ends_capacity) return PST_OK;
    uint64_t *more = realloc(x->path_ends, n * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for the longest path of a schedule");
    x->path_ends = more;
    x->path_ends_capacity = n;
    return PST_OK;
}

/* How long each rank may wait before it exceeds most_ns. */
static void find_allowed_waits(const pst_schedule *s, const pst_pass_ns *ns,
                               const pst_search_path_times *times, uint64_t *may_wait) {
    const uint64_t *most_ns = times->most_ns;
    const uint32_t whole = s->n_micro - (times->first < 1);
    memset(may_wait, 0, s->n_rank * sizeof *may_wait);
    for (uint32_t c = 0; c < s->n_chunk; c++)
        may_wait[s->rank_of_chunk[c]] += whole * (ns[c].f + ns[c].b + ns[c].w);
    for (uint32_t r = 0; r < s->n_rank; r++)
        may_wait[r] = most_ns[r] > may_wait[r] ? most_ns[r] - may_wait[r] : 0;
}

/* of: passes, and those of the first micro-batch. Alternates the direction, because F goes up the
 * ranks and B down. */
static pst_status run_all(const pst_schedule *s, const pass *const of[2], uint64_t *finish,
                          rank_state *ranks, const uint64_t *may_wait, int *beyond) {
    uint64_t left = 0;
    for (uint32_t r = 0; r < s->n_rank; r++) {
        ranks[r] = (rank_state){s->action[r], s->action[r] + s->n_action[r], 0, 0};
        left += s->n_action[r];
    }
    for (int backward = 0; left; backward = !backward) {
        uint64_t before = left;
        for (uint32_t i = 0; i < s->n_rank; i++) {
            rank_state *l = &ranks[backward ? s->n_rank - 1 - i : i];
            left -= advance(l, of[0], of[1], finish);
            if (may_wait && l->waited >= may_wait[l - ranks]) {
                *beyond = 1;
                return PST_OK;
            }
        }
        if (left == before) return pst_fail(PST_EINTERNAL, "schedule %s deadlocks", s->name);
    }
    return PST_OK;
}

pst_status pst_search_longest_path(pst_search_context *x, const pst_schedule *s,
                                   const pst_search_path_times *times, uint64_t *end_ns,
                                   int *beyond) {
    const size_t n = 2 * (size_t)s->n_chunk * s->n_micro, ends = n + 2 * (size_t)s->n_micro;
    const size_t passes = sizeof(pass) / sizeof(uint64_t) * 8 * s->n_chunk;
    const size_t rank_words = sizeof(rank_state) / sizeof(uint64_t) * s->n_rank;
    PST_TRY(reserve_path_ends(x, ends + passes + rank_words + s->n_rank));
    pass *all = (pass *)(x->path_ends + ends), *first = all + 4 * (size_t)s->n_chunk;
    const pass *const of[] = {all, times->first < 1 ? first : all};
    rank_state *ranks = (rank_state *)(x->path_ends + ends + passes);
    uint64_t *may_wait = x->path_ends + ends + passes + rank_words;
    fill_passes(s, times->ns, times->hops, all);
    if (times->first < 1) fill_first(4 * s->n_chunk, times->first, all, first);
    if (times->most_ns) find_allowed_waits(s, times->ns, times, may_wait);
    memset(x->path_ends, 0xff, n * sizeof *x->path_ends);
    memset(x->path_ends + n, 0, s->n_micro * sizeof *x->path_ends);
    *beyond = 0;
    PST_TRY(run_all(s, of, x->path_ends, ranks, times->most_ns ? may_wait : NULL, beyond));
    for (uint32_t r = 0; r < s->n_rank; r++) end_ns[r] = ranks[r].now;
    return PST_OK;
}
