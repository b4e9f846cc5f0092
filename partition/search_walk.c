/* The longest path through the order of a schedule: every rank runs its passes in turn, each as soon as what it needs is
 * there. Messages take their time and are in no one's way, so that nothing that is simulated ends sooner. */
#include "partition/search_parts.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_schedule *s;
    const pst_pass_ns *ns;
    const uint64_t *hops;
    uint64_t *f, *b; /* [n_chunk][n_micro] ends; UINT64_MAX: not yet */
} walk;

static size_t at(const walk *w, uint32_t chunk, uint32_t micro) { return (size_t)chunk * w->s->n_micro + micro; }

/* When what a pass needs is there; UINT64_MAX: not yet. */
static uint64_t ready_at(const walk *w, const pst_action *a) {
    uint32_t c = a->chunk;
    if (a->opcode == PST_OP_F) {
        if (!c) return 0;
        uint64_t end = w->f[at(w, c - 1, a->micro)];
        return end == UINT64_MAX ? end : end + (w->hops ? w->hops[c - 1] : 0);
    }
    if (a->opcode == PST_OP_W) return w->b[at(w, c, a->micro)];
    if (c + 1 == w->s->n_chunk) return w->f[at(w, c, a->micro)];
    uint64_t end = w->b[at(w, c + 1, a->micro)];
    return end == UINT64_MAX ? end : end + (w->hops ? w->hops[c] : 0);
}

/* As far as the rank comes; returns how many passes. */
static uint32_t advance(walk *w, uint32_t rank, uint32_t *next, uint64_t *free_at) {
    uint32_t first = *next, n = w->s->n_action[rank];
    for (; *next < n; (*next)++) {
        const pst_action *a = &w->s->action[rank][*next];
        const pst_pass_ns *ns = &w->ns[a->chunk];
        uint64_t ready = ready_at(w, a);
        if (ready == UINT64_MAX) break;
        if (ready < *free_at) ready = *free_at;
        switch (a->opcode) {
        case PST_OP_F: w->f[at(w, a->chunk, a->micro)] = *free_at = ready + ns->f; break;
        case PST_OP_B: w->b[at(w, a->chunk, a->micro)] = *free_at = ready + ns->b; break;
        case PST_OP_W: *free_at = ready + ns->w; break;
        default: w->b[at(w, a->chunk, a->micro)] = *free_at = ready + ns->b + ns->w;
        }
    }
    return *next - first;
}

static pst_status make_room(pst_search_context *x, size_t n) {
    if (n <= x->room_finish) return PST_OK;
    uint64_t *more = realloc(x->finish, n * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory to walk through a schedule");
    x->finish = more, x->room_finish = n;
    return PST_OK;
}

/* Forwards and backwards in turn, for F goes up the ranks and B down. */
pst_status pst_search_walk(pst_search_context *x, const pst_schedule *s, const pst_pass_ns *ns, const uint64_t *hops,
                           uint64_t *end_ns) {
    size_t n = (size_t)s->n_chunk * s->n_micro;
    uint64_t left = 0;
    PST_TRY(make_room(x, 2 * n + s->n_rank));
    walk w = {s, ns, hops, x->finish, x->finish + n};
    uint32_t *next = (uint32_t *)(x->finish + 2 * n);
    memset(x->finish, 0xff, 2 * n * sizeof *x->finish);
    memset(next, 0, s->n_rank * sizeof *next);
    memset(end_ns, 0, s->n_rank * sizeof *end_ns);
    for (uint32_t r = 0; r < s->n_rank; r++) left += s->n_action[r];
    for (int back = 0; left; back = !back) {
        uint64_t before = left;
        for (uint32_t i = 0; i < s->n_rank; i++) {
            uint32_t r = back ? s->n_rank - 1 - i : i;
            left -= advance(&w, r, &next[r], &end_ns[r]);
        }
        if (left == before) return pst_fail(PST_EINTERNAL, "schedule %s waits for ever", s->name);
    }
    return PST_OK;
}
