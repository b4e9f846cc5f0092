/* Paths through the order of a schedule. See paths.h. */
#include "partition/search/paths.h"
#include <stdlib.h>
#include <string.h>

void pst_search_paths_close(pst_search_paths *p) {
    if (!p) return;
    free(p->pass);
    free(p->last);
    free(p->end);
    free(p);
}

/* --- the graph -------------------------------------------------------------------------------- */

typedef struct {
    const pst_schedule *s;
    pst_search_paths *paths;
    uint32_t *f, *b;      /* [n_chunk][n_micro] index of the pass; PST_NONE: not listed yet */
    uint32_t *next, *own; /* [n_rank] next action; pass listed last */
} builder;

/* Index of the pass whose output an action needs; *hop: the border that it crosses. PST_NONE: it
 * needs none. *listed 0: that pass is not listed yet. */
static uint32_t input_of(const builder *u, const pst_action *a, uint32_t *hop, int *listed) {
    const pst_schedule *s = u->s;
    const size_t at = (size_t)a->chunk * s->n_micro + a->micro;
    const int first = a->opcode == PST_OP_F && !a->chunk;
    const int last = a->opcode != PST_OP_F && a->chunk + 1u == s->n_chunk;
    uint32_t from, other = a->chunk;
    *hop = PST_NONE;
    *listed = 1;
    if (first) return PST_NONE;
    if (a->opcode == PST_OP_F) {
        other = a->chunk - 1u;
        from = u->f[at - s->n_micro];
        *hop = other;
    } else if (a->opcode == PST_OP_W) from = u->b[at];
    else if (last) from = u->f[at];
    else {
        other = a->chunk + 1u;
        from = u->b[at + s->n_micro];
        *hop = a->chunk;
    }
    if (s->rank_of_chunk[other] == s->rank_of_chunk[a->chunk]) *hop = PST_NONE;
    *listed = from != PST_NONE;
    return from;
}

/* Lists the passes of a rank until one needs a pass that is not listed yet. */
static void list_rank(builder *u, uint32_t rank) {
    const pst_schedule *s = u->s;
    for (; u->next[rank] < s->n_action[rank]; u->next[rank]++) {
        const pst_action *a = &s->action[rank][u->next[rank]];
        uint32_t hop;
        int listed;
        const uint32_t input = input_of(u, a, &hop, &listed);
        if (!listed) return;
        const uint32_t i = u->paths->n++;
        u->paths->pass[i] =
            (pst_search_pass){u->own[rank], input, hop, rank, a->chunk, a->opcode, a->micro == 0};
        u->own[rank] = i;
        const size_t at = (size_t)a->chunk * s->n_micro + a->micro;
        if (a->opcode == PST_OP_F) u->f[at] = i;
        else if (a->opcode != PST_OP_W) u->b[at] = i;
    }
}

static pst_status list_passes(builder *u, uint32_t n) {
    for (int backward = 0; u->paths->n < n; backward = !backward) {
        const uint32_t before = u->paths->n;
        for (uint32_t i = 0; i < u->s->n_rank; i++)
            list_rank(u, backward ? u->s->n_rank - 1 - i : i);
        if (u->paths->n == before)
            return pst_fail(PST_EINTERNAL, "schedule %s deadlocks", u->s->name);
    }
    memcpy(u->paths->last, u->own, u->s->n_rank * sizeof *u->own);
    return PST_OK;
}

static pst_status build(const pst_schedule *s, uint32_t n, pst_search_paths *paths) {
    const size_t cells = (size_t)s->n_chunk * s->n_micro, ranks = s->n_rank;
    uint32_t *all = malloc((2 * cells + 2 * ranks) * sizeof *all);
    paths->pass = malloc(n * sizeof *paths->pass);
    paths->last = malloc(ranks * sizeof *paths->last);
    paths->end = malloc(n * sizeof *paths->end);
    paths->n_chunk = s->n_chunk;
    if (!all || !paths->pass || !paths->last || !paths->end) {
        free(all);
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    }
    builder u = {s, paths, all, all + cells, all + 2 * cells, all + 2 * cells + ranks};
    memset(all, 0xff, (2 * cells + 2 * ranks) * sizeof *all);
    memset(u.next, 0, ranks * sizeof *u.next);
    pst_status status = list_passes(&u, n);
    free(all);
    return status;
}

static int is_of(const pst_search_paths *p, const pst_search_config *c, uint32_t chunks,
                 uint32_t m) {
    return p && p->schedule == c->schedule && p->pipeline == c->pipeline && p->chunks == chunks &&
           p->n_micro == m;
}

pst_status pst_search_paths_of(pst_search_context *x, const pst_search_config *c, uint32_t m,
                               const pst_search_paths **paths) {
    const uint32_t chunks = pst_search_chunk_count(x, c) / c->pipeline;
    const uint64_t passes = (uint64_t)c->pipeline * chunks * m;
    const uint32_t each = x->row[c->schedule]->split ? 3 : 2;
    *paths = NULL;
    if (passes * each > PST_SEARCH_PATH_PASSES) return PST_OK;
    if (is_of(x->paths, c, chunks, m)) {
        *paths = x->paths;
        return PST_OK;
    }
    const pst_schedule *s;
    PST_TRY(pst_search_schedule_of(x, c->schedule, c->pipeline, chunks, m, &s));
    pst_search_paths *p = calloc(1, sizeof *p);
    if (!p) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    p->schedule = c->schedule;
    p->pipeline = c->pipeline;
    p->chunks = chunks;
    p->n_micro = m;
    pst_status status = build(s, (uint32_t)passes * each, p);
    if (status != PST_OK) {
        pst_search_paths_close(p);
        return status;
    }
    pst_search_paths_close(x->paths);
    *paths = x->paths = p;
    return PST_OK;
}

/* --- longest paths ---------------------------------------------------------------------------- */

static double part_of(const pst_search_durations *ns, const pst_search_pass *pass) {
    return pass->first ? ns->first : 1;
}

static double whole_of(const pst_search_durations *ns, const pst_search_pass *pass) {
    switch (pass->opcode) {
    case PST_OP_F: return ns->f[pass->chunk];
    case PST_OP_B: return ns->b[pass->chunk];
    case PST_OP_W: return ns->w[pass->chunk];
    default: return ns->b[pass->chunk] + ns->w[pass->chunk];
    }
}

static double duration_of(const pst_search_durations *ns, const pst_search_pass *pass) {
    return part_of(ns, pass) * whole_of(ns, pass);
}

static double hop_of(const pst_search_durations *ns, const pst_search_pass *pass) {
    return pass->hop == PST_NONE ? 0 : part_of(ns, pass) * ns->hop[pass->hop];
}

/* When a pass can begin as far as its rank is concerned. */
static double free_at(const pst_search_paths *p, const pst_search_durations *ns,
                      const pst_search_pass *pass) {
    return pass->before == PST_NONE ? ns->release[pass->rank] : p->end[pass->before];
}

static double ready_at(const pst_search_paths *p, const pst_search_durations *ns,
                       const pst_search_pass *pass) {
    if (pass->input == PST_NONE) return 0;
    return p->end[pass->input] + hop_of(ns, pass);
}

void pst_search_paths_run(const pst_search_paths *p, const pst_search_durations *ns) {
    for (uint32_t i = 0; i < p->n; i++) {
        const pst_search_pass *pass = &p->pass[i];
        p->end[i] =
            pst_search_max(free_at(p, ns, pass), ready_at(p, ns, pass)) + duration_of(ns, pass);
    }
}

static void count(const pst_search_pass *pass, double part, pst_search_path *path) {
    path->n++;
    if (pass->opcode == PST_OP_F) path->f[pass->chunk] += part;
    if (pass->opcode == PST_OP_B || pass->opcode == PST_OP_BW) path->b[pass->chunk] += part;
    if (pass->opcode == PST_OP_W || pass->opcode == PST_OP_BW) path->w[pass->chunk] += part;
}

void pst_search_paths_trace(const pst_search_paths *p, const pst_search_durations *ns,
                            uint32_t pass, pst_search_path *path) {
    memset(path->f, 0, p->n_chunk * sizeof *path->f);
    memset(path->b, 0, p->n_chunk * sizeof *path->b);
    memset(path->w, 0, p->n_chunk * sizeof *path->w);
    path->hops_ns = 0;
    path->n = 0;
    for (uint32_t at = pass, from; at != PST_NONE; at = from) {
        const pst_search_pass *of = &p->pass[at];
        count(of, part_of(ns, of), path);
        path->rank = of->rank;
        from = of->before;
        if (of->input == PST_NONE || free_at(p, ns, of) >= ready_at(p, ns, of)) continue;
        from = of->input;
        if (of->hop == PST_NONE) continue;
        path->hops_ns += hop_of(ns, of);
        path->n++;
    }
}
